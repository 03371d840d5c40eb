#!/bin/sh
# The Rust crate pcap-file reads times of a pcapng file as nanoseconds, whatever the file says.
#
# Guess:   times are microseconds where an interface says nothing (if_tsresol), and else what it says.
# Package: pcap-file 2.0.0, pcarp 2.0.0 (crates.io).
# Happens: of a file in microseconds, the default, a packet of November 2023 is of 20 January 1970: the number is taken
#          for nanoseconds and the interface's resolution is left to the caller (the format's section 4.2:
#          microseconds). pcarp reads the same file as it is.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

command -v cargo >/dev/null || skip "no cargo"
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

for name, option, time in (
    ("default", b"", 1700000000 * 10**6),
    ("milliseconds", struct.pack("<HHB3xI", 9, 1, 3, 0), 1700000000 * 10**3),
    ("nanoseconds", struct.pack("<HHB3xI", 9, 1, 9, 0), 1700000000 * 10**9),
):
    with open(name, "wb") as file:
        file.write(section() + block(1, struct.pack("<HHI", 1, 0, 0) + option))
        file.write(block(6, struct.pack("<IIIII", 0, time >> 32, time & 0xFFFFFFFF, len(FRAME), len(FRAME)) + FRAME))
PYTHON
mkdir -p reader/src
cat >reader/Cargo.toml <<'TOML'
[package]
name = "reader"
version = "0.1.0"
edition = "2021"

[dependencies]
pcap-file = "=2.0.0"
pcarp = "=2.0.0"

[profile.dev]
debug = false
TOML
cat >reader/src/main.rs <<'RUST'
use std::fs::File;
use std::time::UNIX_EPOCH;

use pcap_file::pcapng::{Block, PcapNgReader};

fn main() {
    for name in std::env::args().skip(1) {
        let mut reader = PcapNgReader::new(File::open(&name).unwrap()).unwrap();
        while let Some(block) = reader.next_block() {
            if let Block::EnhancedPacket(packet) = block.unwrap() {
                println!("pcap-file, {name}: {:?}", packet.timestamp);
            }
        }
        for packet in pcarp::Capture::new(File::open(&name).unwrap()) {
            let time = packet.unwrap().timestamp.unwrap();
            println!("pcarp, {name}: {:?}", time.duration_since(UNIX_EPOCH).unwrap());
        }
    }
}
RUST
export CARGO_HOME="$tmp/home" CARGO_TARGET_DIR="$tmp/target"
(cd reader && cargo build --quiet) >cargo 2>&1 || skip "$(tail -n 1 cargo)"
seen=$(target/debug/reader default milliseconds nanoseconds 2>log) || { cat log; exit 1; }
expected='pcap-file, default: 1700000s
pcarp, default: 1700000000s
pcap-file, milliseconds: 1700s
pcarp, milliseconds: 1700000000s
pcap-file, nanoseconds: 1700000000s
pcarp, nanoseconds: 1700000000s'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
