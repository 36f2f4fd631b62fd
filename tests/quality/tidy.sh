#!/bin/sh
# tidy.sh: runs clang-tidy, configured by .clang-tidy, on every C file of the programs and the tests, and cppcheck on the
# programs. One TAP point for each file.
src=$(cd "${TEXCELL_SRC:-$(dirname "$0")/../..}" && pwd)
build=${TEXCELL_BUILD:-$src/build}
jobs=${TIDY_JOBS:-2}

tidy=
for name in clang-tidy clang-tidy-14 clang-tidy-15 clang-tidy-16; do
    command -v "$name" > /dev/null && tidy=$name && break
done
[ -n "$tidy" ] || { echo "1..0 # SKIP no clang-tidy"; exit 0; }
cd "$src" || exit 99
[ -f "$build/config.h" ] || { echo "Bail out! no config.h in $build"; exit 99; }

folder=$(mktemp -d) || exit 99
trap 'rm -rf "$folder"' EXIT
trap 'exit 99' INT TERM HUP
export tidy src build folder

# Headers of Windows, for the sources that are only for Windows.
export windows=/usr/share/mingw-w64/include

# The warnings about each file go to a separate log.
find app opencl wrapper workunits validator tests -name '*.c' | sort > "$folder/files"
# shellcheck disable=SC2016
xargs -n 1 -P "$jobs" sh -c '
    log=$folder/$(echo "$1" | tr / _).log
    file=$1
    shift
    case $file in
        tests/example/*) set -- -I"$src/tests/example" ;;
        *_windows.c | tests/windows/*) set -- --target=x86_64-w64-mingw32 -D_WIN32_WINNT=0x0A00 -isystem "$windows" ;;
    esac
    "$tidy" --quiet "$file" -- -std=gnu11 -DBW_WITH_BOINC -I"$src" -I"$build" "$@" > "$log" 2> "$log.more"
    echo $? > "$log.status"
' sh < "$folder/files"

number=0
failed=0
while read -r file; do
    log=$folder/$(echo "$file" | tr / _).log
    number=$((number + 1))
    if [ "$(cat "$log.status")" = 0 ] && ! grep -q 'warning:' "$log"; then
        echo "ok $number - $file"
    else
        sed 's/^/# /' "$log" "$log.more" | head -n 60
        echo "not ok $number - $file"
        failed=1
    fi
done < "$folder/files"

number=$((number + 1))
if ! command -v cppcheck > /dev/null; then
    echo "ok $number - cppcheck # SKIP cppcheck is not installed"
elif cppcheck --quiet -j "$jobs" --std=c11 --enable=warning,performance,portability --suppressions-list=tests/quality/cppcheck.txt \
    --error-exitcode=1 -DBW_WITH_BOINC -I. -I"$build" app opencl wrapper workunits validator > "$folder/cppcheck" 2>&1; then
    echo "ok $number - cppcheck finds nothing"
else
    sed 's/^/# /' "$folder/cppcheck" | head -n 60
    echo "not ok $number - cppcheck finds nothing"
    failed=1
fi
echo "1..$number"
exit $failed
