#!/bin/sh
# Builds texcell for another system than this one. The programs are then in build/NAME/texcell.
# They are linked with libraries that libraries.sh builds, and without BOINC.
#
#   [BOINC=DIR] sh .ci/platform.sh windows|release|arm64|macos-arm64|macos-x86_64
#
# With BOINC=DIR, a folder of BOINC's sources, it also builds build/NAME/volunteers/texcell, the
# program for volunteers' computers: linked with BOINC's libraries (boinc.sh builds them from DIR),
# and stripped, ready for texcell-deploy --app-version.
#
# release and arm64 are for Linux with glibc 2.17 (2012) or later, and need no shared library but
# glibc's. They and the macOS programs are linked by zig cc, which contains old versions of glibc
# and Apple's libraries; pip installs it from PyPI in build/zig. ./bootstrap NAME installs the
# packages that NAME needs.
set -eu
cd "$(dirname "$0")/.."
name=${1:?usage: platform.sh windows|release|arm64|macos-arm64|macos-x86_64}
jobs=${JOBS:-$(nproc)}
mkdir -p "build/$name/texcell"
root=$PWD
out=$PWD/build/$name
BOINC=${BOINC:+$(cd "$BOINC" && pwd)}
zig=$PWD/build/zig/ziglang/zig
gcc=
target=
mac=-fno-define-target-os-macros       # otherwise zlib and libpng compile for classic Mac OS

case $name in
    windows) host=x86_64-w64-mingw32 CC=$host-gcc-posix CXX=$host-g++-posix AR=$host-ar ;;
    release) host=x86_64-linux-gnu gcc=gcc flags="-fPIE -mno-direct-extern-access" target=$host.2.17 ;;
    arm64) host=aarch64-linux-gnu gcc=$host-gcc flags="-fPIC -fno-semantic-interposition" target=$host.2.17 ;;
    macos-arm64) host=aarch64-apple-darwin target="aarch64-macos $mac" ;;
    macos-x86_64) host=x86_64-apple-darwin target="x86_64-macos $mac" ;;
    *) echo "platform.sh: no platform \"$name\"" >&2; exit 1 ;;
esac
[ -z "$target" ] || CC="$zig cc -target $target" CXX="$zig c++ -target $target" AR="$zig ar"
RANLIB="$AR s"

# Writes the compiler driver $out/cc: gcc compiles, with the headers of glibc 2.17 from zig, and zig
# cc (clang) links. If clang compiled, glcm would be 6 to 10% slower. $flags prevent copy
# relocations: the program's copy of glibc's variable environ would stay unset, as zig's linker does
# not know that glibc also calls it __environ.
make_compiler() {
    include=$(dirname "$zig")/lib/libc/include
    headers="-isystem $("$gcc" -print-file-name=include) -isystem $include/$host -isystem $include/generic-glibc"
    headers="$headers -isystem $include/$1-linux-any -isystem $include/any-linux-any"
    cat > "$out/cc" << END
#!/bin/sh
case " \$* " in
    *" -c "*) exec $gcc -nostdinc $headers -D__GLIBC_MINOR__=17 $flags "\$@" ;;
    *) exec $CC -pie "\$@" ;;
esac
END
    chmod +x "$out/cc"
    CC=$out/cc
}

build() {
    [ -x configure ] || autoreconf -i
    [ -z "$target" ] || install_zig
    case $name in
        release) make_compiler x86 ;;
        arm64) make_compiler aarch64 ;;
    esac
    export CC AR RANLIB
    [ "$out/prefix/lib/libpng.a" -nt .ci/libraries.sh ] || sh .ci/libraries.sh "$out/prefix"
    cd "$out/texcell"
    [ -f Makefile ] || ../../../configure --host="$host" --disable-assert CPPFLAGS="-I$out/prefix/include" LDFLAGS="-L$out/prefix/lib" \
        ac_cv_header_sqlite3_h=no --without-boinc --enable-werror
    make -j"$jobs"
    case $name in
        macos-*) ;; # building for BOINC on macOS is untested
        *) [ -z "$BOINC" ] || build_for_volunteers ;;
    esac
}

build_for_volunteers() {
    system=linux
    [ "$name" != windows ] || system=windows
    export CXX
    cd "$root"
    [ "$out/boinc/lib/libboinc_api.a" -nt "$BOINC/version.h" ] || sh .ci/boinc.sh "$BOINC" "$out/boinc" $system
    mkdir -p "$out/volunteers"
    cd "$out/volunteers"
    [ -f Makefile ] || ../../../configure --host="$host" --disable-assert CPPFLAGS="-I$out/prefix/include" LDFLAGS="-L$out/prefix/lib" \
        ac_cv_header_sqlite3_h=no --with-boinc="$out/boinc" --without-graphics --without-jpeg --without-tiff
    program=texcell
    [ $system = linux ] || program=texcell.exe
    make -j"$jobs" $program
    case $name in
        windows | arm64) "$host-strip" $program ;;
        release) strip $program ;;
    esac
}

# Two platforms may be built at the same time, and share build/zig. Exit code 75: pip could not
# fetch zig.
install_zig() {
    (
        flock 9
        [ -x "$zig" ] || /usr/bin/python3 -m pip -q install --target build/zig --no-deps --only-binary :all: --require-hashes \
            -r .ci/ziglang.txt || exit 75
    ) 9> build/zig.lock
}

# build is not called in an "if": there the shell would ignore set -e.
set +e
(set -e; build) > "$out/build.log" 2>&1
status=$?
set -e
if [ "$status" -eq 75 ]; then
    tail -n 5 "$out/build.log" >&2
    echo "platform.sh: error: what $name is built from cannot be fetched; build/$name/build.log has all of it" >&2
    exit 75
fi
if [ "$status" -ne 0 ]; then
    tail -n 30 "$out/build.log" >&2
    echo "platform.sh: error: the build for $name failed; build/$name/build.log has all of it" >&2
    exit 1
fi
