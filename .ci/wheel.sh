#!/bin/sh
# Makes Python wheels, with the programs that platform.sh builds, and the source distribution, in
# build/wheel. The same sources give the same bytes.
#
#   sh .ci/wheel.sh [release] [arm64] [windows]     (all three)
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- release arm64 windows
out=$PWD/build/wheel
stage=$out/stage
# Every file in the packages is dated 2026-01-01 UTC.
export SOURCE_DATE_EPOCH=1767225600 PYTHONDONTWRITEBYTECODE=1 LC_ALL=C.UTF-8
umask 022
mkdir -p "$out"
rm -f "$out"/*.whl "$out"/*.tar.gz "$out/log"
setup() {
    (cd "$stage" && /usr/bin/python3 setup.py -q "$@") >> "$out/log" 2>&1 || { tail -n 20 "$out/log" >&2; exit 1; }
}
lay_out() {
    rm -rf "$stage"
    mkdir -p "$stage/texcell/bin"
    (cd workunits/python && cp README.md pyproject.toml setup.py "$stage" && cp texcell/*.py texcell/*.pyi texcell/py.typed texcell/napari.yaml "$stage/texcell")
    cp LICENSE "$stage"
    chmod -R u=rwX,go=rX "$stage"
}

for name; do
    end='' strip=strip
    case $name in
        release) tag=manylinux2014_x86_64 ;;
        arm64) tag=manylinux2014_aarch64 strip=aarch64-linux-gnu-strip ;;
        windows) tag=win_amd64 strip=x86_64-w64-mingw32-strip end=.exe ;;
        *) echo "wheel.sh: no platform \"$name\"" >&2; exit 1 ;;
    esac
    sh .ci/platform.sh "$name"
    lay_out
    for program in texcell texcell-wu; do
        $strip -o "$stage/texcell/bin/$program$end" "build/$name/texcell/$program$end"
        chmod 755 "$stage/texcell/bin/$program$end"
    done
    for folder in build/sources/*/; do    # the licences of the linked libraries
        licence=$(find "$folder" -maxdepth 2 \( -name 'LICENSE*' -o -name COPYING \) | sort | head -n 1)
        [ -z "$licence" ] || cp "$licence" "$stage/LICENSE.$(basename "${folder%-*}")"
    done
    chmod 644 "$stage"/LICENSE*
    TEXCELL_PLATFORM=$tag setup bdist_wheel -d "$out"
done

lay_out
rmdir "$stage/texcell/bin"
setup sdist --formats=tar -d "$stage/made"
cd "$stage/made"
tar -xf texcell-*.tar
rm texcell-*.tar
name=$(echo texcell-*)
tar --sort=name --mtime=@$SOURCE_DATE_EPOCH --owner=0 --group=0 --numeric-owner --format=ustar -cf - "$name" | gzip -9n > "$out/$name.tar.gz"
rm -rf "$stage"
ls "$out"/*.whl "$out"/*.tar.gz
