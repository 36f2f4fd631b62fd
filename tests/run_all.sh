#!/bin/sh
# Runs the tests of a build. Prints the failures and, as the last line, "N passed, N failed, N
# skipped".
#   sh tests/run_all.sh BUILD [check | check-full [JOBS]]
set -u
build=${1:?usage: run_all.sh BUILD [check | check-full [JOBS]]}
target=${2:-check}
jobs=${3:-2}
log=$build/$target.log

# Results of an earlier run are not counted.
find "$build/tests" -name '*.trs' -exec rm -f {} + 2>/dev/null
make -C "$build" -j"$jobs" -k "$target" >"$log" 2>&1
status=$?

# count RESULT: the number of test points with this result; a *.trs file has a line for each.
count() {
    find "$build/tests" -name '*.trs' -exec grep -h "^:test-result: $1" {} + 2>/dev/null | wc -l
}
passed=$(($(count PASS) + $(count XFAIL)))
skipped=$(count SKIP)
failed=$(($(count FAIL) + $(count XPASS) + $(count ERROR)))

grep -E '^(not ok|FAIL|ERROR|XPASS)' "$log" | head -n 40
find "$build/tests" -name '*.trs' -exec grep -lE '^:test-result: (FAIL|ERROR|XPASS)' {} + | while read -r trs; do
    echo "--- ${trs%.trs}.log"
    grep -E -B 12 '^not ok|^Bail|rror' "${trs%.trs}.log" | tail -n 60
done
sed -n 's/^SKIP: /  SKIP /p' "$log" | head -n 60
# A failed build, or a run without tests, counts as a failure.
if [ "$status" -ne 0 ] && [ "$failed" -eq 0 ]; then
    tail -n 40 "$log"
    failed=1
fi
if [ "$passed" -eq 0 ] && [ "$failed" -eq 0 ]; then
    echo "no test ran"
    failed=1
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
