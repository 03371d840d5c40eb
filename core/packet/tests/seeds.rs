//! Replays the fuzzer's seeds: what it once found stays found.

use std::path::Path;

use netloom_packet::{Headers, VnetHeader, checksum, identity, packets, segment, vnet};

/// Reads, cuts, finishes and names one frame behind its header; returns how many packets it gave.
fn replay(bytes: &[u8]) -> u32 {
    let frame = bytes.get(vnet::LEN..).unwrap_or(&[]);
    identity(frame);
    let Ok(header) = VnetHeader::parse(bytes) else { return 0 };
    let _ = checksum::finish(&header, &mut frame.to_vec());
    let mut count = 0;
    let done = segment(&header, frame, &mut |one, packet| {
        count += 1;
        if !header.is_super() {
            return;
        }
        let mut finished = packet.to_vec();
        checksum::finish(one, &mut finished).expect("finish");
        let view = Headers::parse(&finished).expect("read");
        assert!(checksum::verifies(&finished, view.network, &view.ip.expect("IP")));
        assert_eq!(identity(packet), identity(&finished));
    });
    assert_eq!(done.unwrap_or(0), count);
    assert_eq!(packets(&header, frame), count.max(1));
    count
}

#[test]
fn every_seed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/frame");
    let mut seen = 0;
    for entry in std::fs::read_dir(&folder).expect("seeds") {
        let path = entry.expect("seed").path();
        let bytes = std::fs::read(&path).expect("read seed");
        let count = replay(&bytes);
        let name = path.file_stem().expect("name").to_string_lossy().into_owned();
        let expected = match name.as_str() {
            "tcp4-unfinished" | "tcp4-options-ecn" | "tcp6-unfinished" => 3,
            "tcp6-destination-options" | "udp6-two-tags" => 3,
            "total-length-zero" | "payload-length-zero" => 3,
            "udp4-without-checksum" | "udp4-unfinished" => 4,
            "short" | "unknown-kind" | "segment-size-zero" | "fragments-of-udp" => 0,
            _ => 1,
        };
        if cfg!(target_endian = "little") {
            assert_eq!(count, expected, "{name}");
        }
        seen += 1;
    }
    assert!(seen >= 20, "{seen} seeds in {}", folder.display());
}

#[test]
fn every_seed_of_dns() {
    use netloom_packet::dns;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/dns");
    let mut seen = 0;
    for entry in std::fs::read_dir(&folder).expect("seeds") {
        let path = entry.expect("seed").path();
        let read = dns::read(&std::fs::read(&path).expect("read seed"));
        let name = path.file_stem().expect("name").to_string_lossy().into_owned();
        let expected = match name.as_str() {
            "addresses" => Some(2),
            "aliases" => Some(1),
            "query" | "cut" | "aliases-in-a-circle" => Some(0),
            _ => None,
        };
        assert_eq!(read.map(|message| message.addresses.len()), expected, "{name}");
        seen += 1;
    }
    assert!(seen >= 8, "{seen} seeds in {}", folder.display());
}
