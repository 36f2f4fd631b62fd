#!/bin/sh
# run.sh [FOLDER]: builds the fuzz targets in FOLDER (default: fuzz in the build folder), makes
# their first inputs, runs each target for FUZZ_SECONDS (8), two at a time, and prints TAP.
#
# run.sh coverage [FOLDER]: prints instead which share of the readers' lines is executed for the
# first inputs and the corpora in FOLDER.
#
# FUZZ_FAST=1: makes two to five times as many runs, without the address sanitizer; undefined
# behaviour ends a run without a message. Inputs that are then added to the corpora should be run
# without FUZZ_FAST, too.
#
# To add a target NAME, write tests/fuzz/fuzz_NAME.c and a generator NAME in make_seeds.py, and add
# NAME to TARGETS.
TARGETS="job npz checkpoint validate state picture export dataset"

here=$(dirname "$0")
src=$(cd "${TEXCELL_SRC:-$here/../..}" && pwd)
build=$(cd "${TEXCELL_BUILD:-$src/build}" && pwd)
mode=
[ "$1" != coverage ] || { mode=coverage; shift; }
folder=${1:-$build/fuzz}
seconds=${FUZZ_SECONDS:-8}
# The target own runs in check-long only.
[ "$seconds" -le 60 ] || TARGETS="$TARGETS own"
python=${PYTHON:-$(for p in /usr/bin/python3 python3; do "$p" -c 'import numpy' 2> /dev/null && echo "$p" && break; done)}
clang=${CLANG:-clang}
[ "$clang" = : ] && clang=clang

# Comparisons are not traced: tracing takes up to two thirds of the time, so that fewer edges are
# found in the same time.
flags="-std=gnu11 -g -O1 -ffp-contract=off -fno-omit-frame-pointer -fno-sanitize-coverage=trace-cmp -I$src -I$build"
sanitizers=fuzzer,address,undefined
reports=-fno-sanitize-recover=all
if [ -n "$FUZZ_FAST" ]; then
    sanitizers=fuzzer,undefined
    reports="-O2 -fsanitize-trap=undefined"
fi
deflate=$(grep -q 'define HAVE_LIBDEFLATE' "$build/config.h" && echo -ldeflate)
libs=${FUZZ_LIBS:-"-ltiff -ljpeg -lexpat -lpng $deflate -ljansson -lsqlite3 -lz -lm"}
# All sources that read files, except command lines and code for other systems.
sources=$(cd "$src" && find app/base app/analysis app/checkpoint.c app/spool.c workunits validator/check validator/dataset \
    tests/fuzz/fuzz_zip.c tests/fuzz/fuzz_fail.c tests/fuzz/fuzz_files.c -name '*.c' ! -name main.c ! -name os_windows.c)
# Stacks of allocations are not recorded, and the quarantine of freed memory is small: otherwise
# both would take a quarter of the time. To see the stacks, run an input by hand.
export ASAN_OPTIONS="${ASAN_OPTIONS:-malloc_context_size=1:quarantine_size_mb=4:thread_local_quarantine_size_kb=1024}"

mkdir -p "$folder" || exit 99
cd "$folder" || exit 99

echo 'int LLVMFuzzerTestOneInput(const char *d, unsigned long n); int LLVMFuzzerTestOneInput(const char *d, unsigned long n) { return d == 0 && n; }' > probe.c
if ! $clang -fsanitize=$sanitizers probe.c -o probe 2> probe.log; then
    echo "1..0 # SKIP no clang with libFuzzer"
    exit 0
fi

# build [PREFIX]: builds PREFIXfuzz_NAME for each target; errors are in PREFIXbuild.log
build()
{
    for name in $TARGETS; do
        rm -f "$1fuzz_$name"
    done
    MAKEFLAGS='' make -s -k -j2 -f "$src/tests/fuzz/targets.mk" SRC="$src" BUILD="$build" P="$1" CLANG="$clang" LIBS="$libs" \
        FLAGS="$flags -fsanitize=$sanitizers $reports" NAMES="$TARGETS" \
        SOURCES="$sources workunits/format/page_text.c" > "$1build.log" 2>&1
}

# fuzz NAME: runs the target; inputs that make it fail are kept in FOLDER as crash-NAME-...
fuzz()
{
    mkdir -p "corpus_$1"
    PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$src/tests" "$python" "$src/tests/fuzz/make_seeds.py" "$1" "seeds_$1" || return 1
    "./fuzz_$1" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1536 -max_len=32768 -print_final_stats=1 \
        -artifact_prefix="crash-$1-" "corpus_$1" "seeds_$1" > "$1.log" 2>&1
}

# one NAME: runs the target; its test points are written to NAME.tap
one()
{
    if [ ! -x "fuzz_$1" ]; then
        sed 's/^/# /' build.log
        echo "not ok - fuzz target $1 builds"
    elif fuzz "$1"; then
        runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$1.log")
        echo "ok - fuzz target $1: $runs runs in $seconds s"
    else
        tail -n 60 "$1.log" | sed 's/^/# /'
        echo "not ok - fuzz target $1: see $folder/crash-$1-*"
    fi > "$1.tap" 2>&1
}

# The sources that are the first to read untrusted files; coverage prints their lines.
READERS="workunits/format/archive.c workunits/format/json_text.c workunits/format/job.c workunits/format/pixels.c
    workunits/format/member_png.c workunits/format/png_io.c workunits/format/npz.c workunits/format/declared.c
    workunits/format/result_file.c workunits/tools/picture*.c app/checkpoint.c app/spool.c validator/check/items.c
    validator/dataset/unit_of_result.c"
coverage()
{
    flags="$flags -fprofile-instr-generate -fcoverage-mapping"
    sanitizers=fuzzer
    objects=
    TARGETS="job npz picture checkpoint export validate own"
    build cover_ || return 1
    for name in $TARGETS; do
        mkdir -p "corpus_$name"
        PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$src/tests" "$python" "$src/tests/fuzz/make_seeds.py" "$name" "seeds_$name" || return 1
        LLVM_PROFILE_FILE="cover_$name.raw" "./cover_fuzz_$name" -runs=0 -rss_limit_mb=0 "corpus_$name" "seeds_$name" > "cover_$name.log" 2>&1
        objects="$objects -object cover_fuzz_$name"
    done
    llvm-profdata merge -o cover.data cover_*.raw || return 1
    # shellcheck disable=SC2046,SC2086
    llvm-cov report -instr-profile cover.data ${objects# -object } $(cd "$src" && for f in $READERS; do echo "$src/$f"; done) \
        | awk '/^(Filename|TOTAL)/ || $10 ~ /%/ { print $1, "lines", $8, "missed", $9, $10 }'
}
if [ -n "$mode" ]; then
    coverage
    exit
fi

# Two lanes run at the same time, each with every second target.
lane()
{
    turn=0
    for name in $TARGETS; do
        [ $((turn % 2)) -ne "$1" ] || one "$name"
        turn=$((turn + 1))
    done
}

rm -f ./*.tap
build ""
lane 0 &
first=$!
lane 1
wait "$first"

number=0
failed=0
for name in $TARGETS; do
    [ -s "$name.tap" ] || echo "not ok - fuzz target $name gave no answer" > "$name.tap"
    cat "$name.tap"
    number=$((number + 1))
    ! grep -q '^not ok' "$name.tap" || failed=1
done
echo "1..$number"
exit $failed
