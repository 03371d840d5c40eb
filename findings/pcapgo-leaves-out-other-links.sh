#!/bin/sh
# gopacket's pcapgo leaves out the packets of interfaces whose link type is not the first one's.
#
# Guess:   each packet comes with its interface, or the reader says that it cannot read the file.
# Package: gopacket 1.1.19 (Go).
# Happens: of a capture of an Ethernet and a tunnel interface the tunnel's packets are missing, without an error, unless
#          WantMixedLinkType is set in the options.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

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

PACKET = bytes.fromhex("4500001c000100004011") + bytes(2) + bytes([10, 0, 0, 1, 10, 0, 0, 2]) + bytes(8)

def packet(interface, time, data):
    return block(6, struct.pack("<IIIII", interface, time >> 32, time & 0xFFFFFFFF, len(data), len(data)) + data)

with open("file.pcapng", "wb") as file:
    file.write(section() + block(1, struct.pack("<HHI", 1, 0, 0)) + block(1, struct.pack("<HHI", 101, 0, 0)))
    for second, (interface, data) in enumerate([(0, FRAME), (1, PACKET), (0, FRAME)]):
        file.write(packet(interface, (1700000000 + second) * 10**6, data))
PYTHON
mkdir reader
cat >reader/go.mod <<'MOD'
module reader

go 1.20
MOD
cat >reader/main.go <<'GO'
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/google/gopacket/pcapgo"
)

func main() {
	for _, mixed := range []bool{false, true} {
		file, err := os.Open(os.Args[1])
		if err != nil {
			panic(err)
		}
		options := pcapgo.DefaultNgReaderOptions
		options.WantMixedLinkType = mixed
		reader, err := pcapgo.NewNgReader(file, options)
		if err != nil {
			panic(err)
		}
		fmt.Printf("WantMixedLinkType %v: packets of interfaces", mixed)
		for {
			_, info, err := reader.ReadPacketData()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				panic(err)
			}
			fmt.Printf(" %d", info.InterfaceIndex)
		}
		fmt.Println()
	}
}
GO
export GOPATH="$tmp/go" GOCACHE="$tmp/cache" GOFLAGS=-modcacherw GOTOOLCHAIN=local
(cd reader && go get github.com/google/gopacket/pcapgo@v1.1.19 && go build) >build 2>&1 || skip "$(tail -n 1 build)"
seen=$(reader/reader file.pcapng 2>log) || { cat log; exit 1; }
expected='WantMixedLinkType false: packets of interfaces 0 0
WantMixedLinkType true: packets of interfaces 0 1 0'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
