#!/bin/sh
# Builds BOINC's library and client API from its sources as static libraries for another system than
# this one. configure --with-boinc=PREFIX uses them.
#
#   CXX=... AR=... sh .ci/boinc.sh SOURCES PREFIX windows|linux
#
# For Linux, BOINC's configure must have been run in SOURCES, on any Linux: its config.h is used,
# except for the functions that an older C library lacks (HAVE_STRL...).
set -eu
sources=${1:?usage: boinc.sh SOURCES PREFIX windows|linux} prefix=$2 system=$3
: "${CXX:?}" "${AR:?}"
api="boinc_api graphics2_util reduce_main"
lib="app_ipc base64 coproc diagnostics filesys hostinfo md5 md5_file mem_usage mfile miofile msg_log opencl_boinc parse prefs
    procinfo proc_control proxy_info shmem str_util url util wslinfo"
case $system in
    windows)
        config=$sources/win_build/config.h
        api="boinc_api graphics2_util" lib="$lib diagnostics_win procinfo_win stackwalker_win win_util"
        flags="--include $sources/version.h -DHAVE_STRCASECMP -DNDEBUG -D_WINDOWS -D_MT -DBOINC -DNODB -D_CONSOLE"
        ;;
    linux) config=$sources/config.h lib="$lib procinfo_unix synch unix_util" flags="-fPIC -DHAVE_CONFIG_H" ;;
esac
[ -f "$config" ] || { echo "boinc.sh: error: $sources: is not a configured folder of BOINC's sources" >&2; exit 1; }
mkdir -p "$prefix/include" "$prefix/lib" "$prefix/obj"
cp "$sources"/api/*.h "$sources"/lib/*.h "$sources/version.h" "$prefix/include"
sed '/HAVE_STRL/d' "$config" > "$prefix/include/config.h"

# wrapper/bw_boinc.cpp replaces boinc_sleep. zig's linker has no --wrap, so on Linux the library's
# own boinc_sleep is made a weak symbol, which the program's definition overrides.
echo 'void boinc_sleep(double) __attribute__((weak));' > "$prefix/obj/weak.h"

# archive NAME FOLDER FILE...: compiles the FILEs (without .cpp) of the sources' FOLDER into the
# library NAME.
archive() {
    name=$1 folder=$2
    shift 2
    rm -f "$prefix/obj"/*.o "$prefix/lib/$name"
    for file in "$@"; do
        weak=
        [ "$file$system" != utillinux ] || weak="-include $prefix/obj/weak.h"
        echo "$CXX -w -O2 $flags $weak -I$prefix/include -I$sources -I$sources/lib -I$sources/api -I$sources/win_build -c $sources/$folder/$file.cpp" \
            "-o $prefix/obj/$file.o"
    done | xargs -P "$(nproc)" -I '{}' sh -c '{}'
    $AR rcs "$prefix/lib/$name" "$prefix/obj"/*.o
}
# shellcheck disable=SC2086  # lists of words
archive libboinc.a lib $lib
# shellcheck disable=SC2086
archive libboinc_api.a api $api
