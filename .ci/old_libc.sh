#!/bin/sh
# Unpacks the package libc6 of the previous Debian release (bullseye) into FOLDER, and nothing else.
# The tests run there the programs that are built for older systems.
#
#   sh .ci/old_libc.sh FOLDER
set -eu
cd "$(dirname "$0")/.."
folder=${1:?usage: old_libc.sh FOLDER}
apt=$PWD/build/apt-old
. .ci/apt.sh
[ ! -d "$folder" ] || exit 0
rm -rf "$folder.new"
mkdir -p "$apt" "$folder.new"
archives > "$apt/now.list"
sed -n 's/^deb-src \([^ ]*\) [a-z]* main$/deb \1 bullseye main/p' "$apt/now.list" | head -n 1 > "$apt/sources.list"
own_apt update
(cd "$folder.new" && own_apt -o Dir::State::Status=/dev/null download libc6)
dpkg-deb -x "$folder.new"/libc6_*.deb "$folder.new"
rm "$folder.new"/libc6_*.deb
mv "$folder.new" "$folder"
