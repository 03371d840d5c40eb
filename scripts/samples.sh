#!/bin/sh
# Fetches captures that others test their own programs with, from the sources of Debian's packages.
#
#   samples.sh FOLDER      afterwards: NETLOOM_SAMPLES=FOLDER cargo test -p netloom-pcap
#
# Needs apt-get, dpkg-dev and the system's own list of sources. Nothing is installed; the folder may be
# removed at any time. What is there already is not fetched again.
set -eu

[ $# -eq 1 ] || { echo "usage: samples.sh FOLDER" >&2; exit 2; }
mkdir -p "$1"
cd "$1"
command -v dpkg-source >/dev/null || { echo "samples: dpkg-source is missing: install dpkg-dev" >&2; exit 1; }

# The same lists, for sources; apt keeps its state here, so that the system's is not changed.
mkdir -p apt/lists/partial apt/cache/archives/partial apt/parts
for list in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [ ! -s "$list" ] || sed -n 's/^deb /deb-src /p' "$list"
done >apt/parts/all.list
for list in /etc/apt/sources.list.d/*.sources; do
    [ ! -s "$list" ] || sed 's/^Types:.*/Types: deb-src/' "$list" >"apt/parts/$(basename "$list")"
done
apt() {
    apt-get -q -o Dir::State::Lists="$PWD/apt/lists" -o Dir::Cache="$PWD/apt/cache" \
        -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$PWD/apt/parts" \
        -o APT::Sandbox::User=root "$@"
}
apt update
for package in tcpdump wireshark libpcap; do
    if [ -z "$(find . -maxdepth 1 -name "$package-*" -type d)" ]; then
        apt source "$package"
    fi
done
# Only captures are wanted of them.
find . -path ./apt -prune -o -type f ! -name '*.pcap*' ! -name '*.ntar*' ! -name '*.cap' -exec rm -f {} +
rm -rf apt
echo "samples: $(find . -type f | wc -l) files in $PWD"
