# shellcheck shell=sh disable=SC2016,SC2154  # the fields are for apt; $apt is whose reads this
# Read by libraries.sh and old_libc.sh: apt with a list of its own and with its state in $apt, a folder. It fetches and verifies
# from the places that apt is configured for here; nobody's configuration is read twice or changed.

own_apt() {
    apt-get -qq -o Dir::Etc::SourceList="$apt/sources.list" -o Dir::Etc::SourceParts=- \
        -o Dir::State="$apt/state" -o Dir::State::Lists="$apt/state/lists" -o Dir::State::Status=/var/lib/dpkg/status \
        -o Dir::Cache="$apt/cache" -o APT::Sandbox::User=root "$@"
}

sources_of() {
    apt-get "$@" indextargets --format 'deb-src $(REPO_URI) $(RELEASE) $(COMPONENT) $(ORIGIN)' 'Created-By: Packages' |
        sed -n 's/ Debian$//p' | sort -u
}

# Prints Debian's archives among those places, as a list of sources. Makes the folder.
archives() {
    mkdir -p "$apt/state/lists/partial" "$apt/cache/archives/partial"
    sources_of > "$apt/all.list"
    if [ ! -s "$apt/all.list" ]; then        # it was never updated, or its lists were removed
        mkdir -p "$apt/lists/partial"
        apt-get -qq -o Dir::State::Lists="$apt/lists" -o APT::Sandbox::User=root update
        sources_of -o Dir::State::Lists="$apt/lists" > "$apt/all.list"
    fi
    cat "$apt/all.list"
}
