#!/bin/sh
# The demo: the work of a project, from pictures to features, on real images, with interruptions.
#   sh tests/demo.sh BUILD
# ./bootstrap demo calls it. All files are written to BUILD/demo. The pictures are those
# of scikit-image's Debian package, so nothing is downloaded.
set -eu

build=$(cd "${1:?usage: demo.sh BUILD}" && pwd)
out=$build/demo
cpus=$(nproc 2>/dev/null || echo 2)
PATH=$build:$PATH
task=

die() {
    echo "demo: error: $*" >&2
    exit 1
}

# Ends the run in the background.
clean_up() {
    [ -z "$task" ] || kill -9 "$task" 2>/dev/null || true
}
trap clean_up EXIT
trap 'exit 130' INT TERM

step() {
    printf '\n== %s\n' "$*"
}

indent() {
    sed 's/^/   /' "$@"
}

# Prints a command and runs it, without a pipe, which would hide its exit code and, on a terminal,
# its progress bar.
run() {
    printf '   $ %s\n' "$*"
    "$@" || die "$1 ended with exit code $?"
}

# Waits until the run has finished this number of items and then written a checkpoint; a checkpoint
# of an earlier run does not count.
wait_for_work() {
    tenths=0
    while kill -0 "$task" 2>/dev/null; do
        if [ "$(grep -c ': done (' log)" -ge "$1" ] &&
            [ -n "$(find . -name interrupted.npz.checkpoint -newer begun)" ]; then
            return 0
        fi
        sleep 0.1
        tenths=$((tenths + 1))
        [ "$tenths" -lt 6000 ] || break
    done
    indent log
    die "the run could not be interrupted before its end"
}

# run_until THREADS ITEMS SIGNAL: runs the job, and sends the signal when it has finished ITEMS items
# and a part of the next one.
run_until() {
    echo "   \$ texcell run demo.zip -o interrupted.npz --checkpoint-every 0.2 --threads $1 &"
    : >log
    : >begun
    texcell run demo.zip -o interrupted.npz --checkpoint-every 0.2 --threads "$1" 2>log &
    task=$!
    wait_for_work "$2"
    sleep 0.5
    echo "   \$ kill -$3 \$!"
    kill "-$3" "$task" || die "the run was over before it could be interrupted"
    code=0
    wait "$task" 2>/dev/null || code=$?
    task=
    indent log
    [ ! -e interrupted.npz ] || die "an interrupted run has left a result"
    echo "   exit code $code; there is no result yet, but there are:"
    for file in interrupted.npz.*; do
        printf '   %8d bytes  %s\n' "$(wc -c <"$file")" "$file"
    done
}

# Debian's python3 is tried before the user's own, which often has no scikit-image.
pictures=
for python in ${PYTHON:-} /usr/bin/python3 python3; do
    pictures=$("$python" -c 'import os, skimage; print(os.path.dirname(skimage.__file__))' 2>/dev/null) && break
done
[ -n "$pictures" ] || die "no Python here has scikit-image; ./bootstrap demo installs Debian's"
rm -rf "$out"
mkdir -p "$out"
cd "$out"
started=$(date +%s)

step "1. Three real pictures are packed into a work unit"
echo "   ihc: stained tissue of the colon. cell: a cell in saline, phase. gravel: a texture."
for name in ihc cell gravel; do
    cp "$pictures/data/$name.png" . || die "scikit-image's package does not contain $name.png"
done
cat >parameters.json <<'JSON'
{"preset": "hcc", "distances": [1, 2, 4, 8], "roi": {"type": "all"},
 "maps": [{"feature": "entropy", "levels": 64, "offset": [1, 0]},
          {"feature": "contrast", "levels": 64, "offset": [1, 0]}]}
JSON
echo "   parameters.json is the preset \"hcc\" with 4 of its 25 distances, on all pixels, and two maps:"
indent parameters.json
run texcell-wu pack --analysis glcm --params parameters.json -o demo.zip ihc.png cell.png gravel.png
run texcell-wu show demo.zip

step "2. The work unit is computed, undisturbed, with $cpus threads"
run texcell run demo.zip -o undisturbed.npz --threads "$cpus"

step "3. The same again with 1 thread, and killed in the middle as by a power cut"
run_until 1 0 KILL

step "4. It goes on from its checkpoint with 2 threads, and is asked to stop in the middle"
run_until 2 1 TERM

step "5. It goes on to the end with 3 threads"
run texcell run demo.zip -o interrupted.npz --threads 3

step "6. Both results are the same file, byte for byte"
run cmp undisturbed.npz interrupted.npz
sha256sum undisturbed.npz interrupted.npz | cut -c 1-16,65- | indent
run texcell-validate compare undisturbed.npz interrupted.npz

step "7. The validator: is the result well-formed, and of this work unit?"
run texcell-validate check demo.zip interrupted.npz
texcell-wu pack --analysis glcm --param 'distances=[1]' -o other.zip gravel.png >log
echo "   And of another one? It must say no:"
echo "   \$ texcell-validate check other.zip interrupted.npz"
code=0
texcell-validate check other.zip interrupted.npz 2>log || code=$?
indent log
[ "$code" -eq 2 ] || die "a result of another work unit was not refused"

step "8. The numbers"
run texcell-wu export interrupted.npz --images demo.zip -o pictures
"$python" - <<'PYTHON'
import csv
rows = list(csv.DictReader(open("pictures/features.csv")))
line = "   %-30s" + "%12s" * len(rows)
print(line % ("mean over all windows", *(r["item"] for r in rows)))
for feature in "entropy", "contrast", "correlation", "idm", "imc2":
    for distance in 1, 8:
        name = "glcm_L64_d%02d_%s_mean" % (distance, feature)
        print(line % (name, *("%.4f" % float(r[name]) for r in rows)))
print("   ... %d features in all: pictures/features.csv, or in Python" % (len(rows[0]) - 1))
print("       numpy.load('interrupted.npz')['features']")
PYTHON

step "9. The pictures: each image, a texture map laid over it, and the map"
for map in pictures/map_*.png; do
    echo "   $map"
done

step "10. A page: how many coins does this picture have?"
run texcell-wu analyse --analysis cellcount -o coins "$pictures/data/coins.png"

printf '\nDone in %s s. Killed and stopped, the work gave the same file. All of it is in %s\n' \
    $(($(date +%s) - started)) "$out"
rm -f begun log other.zip
echo "Open $out/coins/report.html in a browser"
