# shellcheck shell=sh disable=SC2016,SC2154
# (SC2016: apt expands $(REPO_URI) and the like, not the shell; SC2154: the scripts below set $apt.)
# Functions by which libraries.sh and old_libc.sh call apt without changing its system-wide state:
# the list of sources, the package lists and the cache are in the folder $apt. The archives'
# addresses and keys are those of the system's own configuration of apt.

# own_apt ARGUMENT...: runs apt-get with $apt/sources.list and its state and cache in $apt.
own_apt() {
    apt-get -qq -o Dir::Etc::SourceList="$apt/sources.list" -o Dir::Etc::SourceParts=- \
        -o Dir::State="$apt/state" -o Dir::State::Lists="$apt/state/lists" -o Dir::State::Status=/var/lib/dpkg/status \
        -o Dir::Cache="$apt/cache" -o APT::Sandbox::User=root "$@"
}

# sources_of [OPTION]...: prints a deb-src line for each of Debian's archives that apt is configured
# for.
sources_of() {
    apt-get "$@" indextargets --format 'deb-src $(REPO_URI) $(RELEASE) $(COMPONENT) $(ORIGIN)' 'Created-By: Packages' |
        sed -n 's/ Debian$//p' | sort -u
}

# Makes the folders in $apt, and prints Debian's archives as deb-src lines.
archives() {
    mkdir -p "$apt/state/lists/partial" "$apt/cache/archives/partial"
    sources_of > "$apt/all.list"
    if [ ! -s "$apt/all.list" ]; then        # apt has no package lists here: fetch them into $apt
        mkdir -p "$apt/lists/partial"
        apt-get -qq -o Dir::State::Lists="$apt/lists" -o APT::Sandbox::User=root update
        sources_of -o Dir::State::Lists="$apt/lists" > "$apt/all.list"
    fi
    cat "$apt/all.list"
}
