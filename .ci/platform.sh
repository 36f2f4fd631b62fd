#!/bin/sh
# Builds texcell for another system than the one at hand: build/NAME/texcell has the programs.
# Their libraries come from Debian's source packages (libraries.sh); no BOINC, JPEG and TIFF.
#
#   sh .ci/platform.sh windows|arm64
#
# ./bootstrap NAME installs the packages that it needs.
set -eu
cd "$(dirname "$0")/.."
name=${1:?usage: platform.sh windows|arm64}
jobs=${JOBS:-$(nproc)}
mkdir -p "build/$name/texcell"
out=$PWD/build/$name

case $name in
    windows) host=x86_64-w64-mingw32 CC=$host-gcc-posix AR=$host-ar ;;
    arm64) host=aarch64-linux-gnu CC=$host-gcc AR=$host-ar ;;
    *) echo "platform.sh: no platform \"$name\"" >&2; exit 1 ;;
esac
export CC AR

build() {
    [ -x configure ] || autoreconf -i
    [ -f "$out/prefix/lib/libjansson.a" ] || sh .ci/libraries.sh "$out/prefix"
    cd "$out/texcell"
    [ -f Makefile ] || ../../../configure --host="$host" CPPFLAGS="-I$out/prefix/include" LDFLAGS="-L$out/prefix/lib" \
        --without-boinc --without-jpeg --without-tiff --enable-werror
    make -j"$jobs"
}

(build) > "$out/build.log" 2>&1 || {
    tail -n 30 "$out/build.log" >&2
    echo "platform.sh: error: the build for $name failed; build/$name/build.log has all of it" >&2
    exit 1
}
