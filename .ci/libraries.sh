#!/bin/sh
# Builds zlib, libpng and jansson, from Debian's source packages, as static libraries
# for another system than the one at hand: what configure then finds by CPPFLAGS and LDFLAGS.
#
#   CC=... AR=... [CFLAGS=...] sh .ci/libraries.sh PREFIX
#
# The sources are kept in build/sources.
set -eu
cd "$(dirname "$0")/.."
prefix=${1:?usage: libraries.sh PREFIX}
: "${CC:?}" "${AR:?}"
sources=$PWD/build/sources
apt=$PWD/build/apt
packages="zlib libpng1.6 jansson"
. .ci/apt.sh

# shellcheck disable=SC2086  # packages are words
fetch() {
    mkdir -p "$apt" "$sources.new"
    archives > "$apt/sources.list"
    own_apt update
    if ! (cd "$sources.new" && own_apt source $packages) > "$apt/log" 2>&1; then
        # A mirror may have updates as binaries and not as sources.
        echo "libraries: the newest sources cannot be had; taking those of the release itself" >&2
        grep -v -e '-updates ' -e '-security ' "$apt/all.list" > "$apt/sources.list"
        own_apt update
        (cd "$sources.new" && own_apt source $packages)
    fi
    # For MinGW it goes round the compiler's C99 printf to an old one of the system's.
    sed -i '/#define v*snprintf  *_v*snprintf$/d' "$sources.new"/jansson-*/src/jansson_private.h
    mv "$sources.new" "$sources"
}

# compile LIBRARY FOLDER FLAG... -- FILE...
compile() {
    library=$1 folder=$2
    shift 2
    flags=
    while [ "$1" != -- ]; do
        flags="$flags $1"
        shift
    done
    shift
    mkdir -p "$prefix/obj/$library"
    # A compiler for each file, and one file for each processor.
    for name in "$@"; do
        echo "$CC -w -O2 ${CFLAGS:-} -I$prefix/include -I$folder $flags -c $folder/$name.c -o $prefix/obj/$library/$name.o"
    done | xargs -P "$(nproc)" -I '{}' sh -c '{}'
    mkdir -p "$prefix/lib"
    rm -f "$prefix/lib/$library"
    $AR rcs "$prefix/lib/$library" "$prefix/obj/$library"/*.o
}

# Two platforms may be built at a time.
exec 9> build/sources.lock
flock 9
fetching=
trap '[ -z "$fetching" ] || exit 75' EXIT        # no fault of what is built
[ -d "$sources" ] || { rm -rf "$sources.new"; fetching=yes; fetch; fetching=; }
flock -u 9
mkdir -p "$prefix/include"
z=$(echo "$sources"/zlib-*/) png=$(echo "$sources"/libpng1.6-*/) jansson=$(echo "$sources"/jansson-*/)
# OpenCL's are looked up at run time; the headers are for any system.
cp -r /usr/include/CL "$prefix/include"
cp "$z"zlib.h "$z"zconf.h "$png"png.h "$png"pngconf.h "$jansson"src/jansson.h "$prefix/include"
cp "$png"scripts/pnglibconf.h.prebuilt "$prefix/include/pnglibconf.h"
# As jansson's configure writes it for a C99 compiler with GCC's builtins.
sed -e 's/@json_inline@/inline/; s/@json_have_long_long@/1/; s/@json_have_localeconv@/1/' \
    -e 's/@json_have_atomic_builtins@/1/; s/@json_have_sync_builtins@/1/' \
    "$jansson"src/jansson_config.h.in > "$prefix/include/jansson_config.h"
for name in HAVE_STDINT_H HAVE_FCNTL_H HAVE_UNISTD_H HAVE_SYS_STAT_H HAVE_SYS_TIME_H HAVE_SYS_TYPES_H HAVE_OPEN \
    HAVE_CLOSE HAVE_READ HAVE_GETTIMEOFDAY HAVE_GETPID HAVE_ATOMIC_BUILTINS USE_URANDOM USE_WINDOWS_CRYPTOAPI; do
    echo "#define $name 1"
done > "$prefix/include/jansson_private_config.h"
echo '#define INITIAL_HASHTABLE_ORDER 3' >> "$prefix/include/jansson_private_config.h"
compile libz.a "$z" -DHAVE_UNISTD_H -- adler32 compress crc32 deflate gzclose gzlib gzread gzwrite infback inffast inflate inftrees \
    trees uncompr zutil
compile libpng16.a "$png" -DPNG_ARM_NEON_OPT=0 -- png pngerror pngget pngmem pngpread pngread pngrio pngrtran pngrutil pngset pngtrans \
    pngwio pngwrite pngwtran pngwutil
compile libjansson.a "$jansson"src -DHAVE_CONFIG_H -- dump error hashtable hashtable_seed load memory \
    pack_unpack strbuffer strconv utf value version
cp "$prefix/lib/libpng16.a" "$prefix/lib/libpng.a"
