#!/bin/sh
# Layers that umoci makes are tar archives without an end, which GNU tar reports as broken.
#
# Guess:   a layer is a tar archive as every tar reads it, closed by two blocks of zeros.
# Package: umoci 0.4.7+ds-3+b7 (Debian 12).
# Happens: the archive stops after the last byte of the last file, not even filled up to a block of 512 bytes: a layer
#          of one file of 3 bytes has 515. GNU tar lists it, then says "Unexpected EOF in archive" and exits with 2. A
#          reader of layers has to take the end of the data for the end of the archive.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" umoci=0.4.7+ds-3+b7 >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/usr/bin:$PATH

cd "$tmp"
echo hi >greeting
umoci init --layout image
umoci new --image image:1
umoci insert --rootless --image image:1 greeting /greeting
umoci gc --layout image
# Of the image's files, the layer is the one that gzip made.
for blob in image/blobs/sha256/*; do
    ! gzip -t "$blob" 2>/dev/null || gzip -dc "$blob" >layer.tar
done

seen=$(
    echo "$(wc -c <layer.tar) bytes"
    code=0
    tar -tf layer.tar 2>err || code=$?
    echo "exit code $code: $(head -n 1 err)"
)
expected='515 bytes
greeting
exit code 2: tar: Unexpected EOF in archive'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
