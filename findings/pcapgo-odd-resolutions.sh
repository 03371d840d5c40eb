#!/bin/sh
# gopacket's pcapgo reads times of a pcapng file wrong unless they are in micro- or nanoseconds or the like.
#
# Guess:   each resolution that the format has (if_tsresol) is read: powers of ten, and of two when the top bit is set.
# Package: gopacket 1.1.19 (Go), tshark 4.0.17-0+deb12u3 (Debian 12).
# Happens: whole seconds (10^0) become January 1970, and a quarter of a second in units of 2^-32, which NTP has, is
#          0.268435456 (the format's section 4.2). With 2^-10 it is 128 nanoseconds early. tshark shows the second and
#          .25 of each.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    wireshark-common=4.0.17-0+deb12u3 tshark=4.0.17-0+deb12u3 libwireshark16=4.0.17-0+deb12u3 \
    libwiretap13=4.0.17-0+deb12u3 libwsutil14=4.0.17-0+deb12u3 >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
export LD_LIBRARY_PATH
command -v go >/dev/null || skip "no go"
command -v python3 >/dev/null || skip "no python3"

cd "$tmp"
python3 - <<'PYTHON'
import struct

FRAME = bytes.fromhex("02000000000202000000000188b5") + bytes(46)

def block(kind, body, order="<"):
    length = struct.pack(order + "I", len(body) + 12)
    return struct.pack(order + "I", kind) + length + body + length

def section(order="<"):
    return block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1), order)

SECOND = 1700000000
for name, resolution, time in (
    ("10^-6", 6, SECOND * 10**6 + 250000),
    ("10^0", 0, SECOND),
    ("2^-10", 0x8A, SECOND * 2**10 + 2**8),
    ("2^-32", 0xA0, SECOND * 2**32 + 2**30),
):
    with open(name, "wb") as file:
        option = struct.pack("<HHB3xI", 9, 1, resolution, 0)
        file.write(section() + block(1, struct.pack("<HHI", 1, 0, 0) + option))
        file.write(block(6, struct.pack("<IIIII", 0, time >> 32, time & 0xFFFFFFFF, len(FRAME), len(FRAME)) + FRAME))
PYTHON
mkdir reader
cat >reader/go.mod <<'MOD'
module reader

go 1.20
MOD
cat >reader/main.go <<'GO'
package main

import (
	"fmt"
	"os"

	"github.com/google/gopacket/pcapgo"
)

func main() {
	for _, name := range os.Args[1:] {
		file, err := os.Open(name)
		if err != nil {
			panic(err)
		}
		reader, err := pcapgo.NewNgReader(file, pcapgo.DefaultNgReaderOptions)
		if err != nil {
			panic(err)
		}
		_, info, err := reader.ReadPacketData()
		if err != nil {
			panic(err)
		}
		fmt.Printf("pcapgo, %s: %d.%09d\n", name, info.Timestamp.Unix(), info.Timestamp.Nanosecond())
	}
}
GO
export GOPATH="$tmp/go" GOCACHE="$tmp/cache" GOFLAGS=-modcacherw GOTOOLCHAIN=local
(cd reader && go get github.com/google/gopacket/pcapgo@v1.1.19 && go build) >build 2>&1 || skip "$(tail -n 1 build)"
export HOME="$tmp"
seen=$(
    reader/reader '10^-6' '10^0' '2^-10' '2^-32' 2>>log
    for name in '10^-6' '10^0' '2^-10' '2^-32'; do
        echo "tshark, $name: $(tshark -r "$name" -T fields -e frame.time_epoch 2>>log)"
    done
) || { cat log; exit 1; }
expected='pcapgo, 10^-6: 1700000000.250000000
pcapgo, 10^0: 1700.000000000
pcapgo, 2^-10: 1700000000.249999872
pcapgo, 2^-32: 1700000000.268435456
tshark, 10^-6: 1700000000.250000000
tshark, 10^0: 1700000000.000000000
tshark, 2^-10: 1700000000.250000000
tshark, 2^-32: 1700000000.250000000'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
