//! Replays the fuzzer's seeds: what it once found stays found. Messages of the codec's seeds are given to a switch, too.

use std::path::Path;

use netloom_openflow::{ErrorMessage, Message, decode};
use netloom_pipeline::{ConnectionId, Outputs};
use proptest::prelude::*;

use super::frames;
use super::outside::{small_switch, try_switch};

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let entries = std::fs::read_dir(&folder).expect("seeds");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("seed").path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).expect("read seed")).collect()
}

#[test]
fn every_seed() {
    for target in ["pipeline", "openflow"] {
        let all = seeds(target);
        assert!(!all.is_empty());
        all.iter().for_each(|bytes| try_switch(bytes));
    }
}

/// Messages of the codec's seeds are done or refused with an error of their version.
#[test]
fn every_message_is_done_or_refused() {
    let mut switch = small_switch();
    for bytes in seeds("openflow") {
        let mut out = Outputs::default();
        switch.message(ConnectionId(u64::from(bytes[0])), &bytes, 0, &mut out);
        for (_, answer) in &out.messages {
            let (header, message) = decode(answer).expect("our own message");
            if let Message::Error(ErrorMessage { data, .. }) = message {
                assert_eq!(data[..], bytes[..bytes.len().min(64)]);
                assert_eq!(header.xid, 1);
            }
        }
        assert_eq!(out.lost, 0);
    }
}

/// Writes seeds: `cargo test -p netloom-pipeline write_seeds -- --ignored`.
#[test]
#[ignore = "helper: writes files"]
fn write_seeds() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    let read = |name: &str| std::fs::read(root.join("openflow").join(name)).expect("seed");
    std::fs::create_dir_all(root.join("pipeline")).expect("folder");
    for (name, messages, frame) in [
        ("flow-of-1.0", &["flow-add-10.bin"][..], frames::tcp4(1000, 80)),
        ("group-and-flow", &["group-modify-13.bin", "match-ip-13.bin"], frames::tcp4(1, 2)),
        ("meter", &["meter-add-13.bin", "flow-instructions-13.bin"], frames::udp4(1, 2)),
        ("miss", &["role-request-13.bin"], frames::tagged(&frames::tcp6(1, 2), 5, 3)),
        ("packet-out", &["packet-out-13.bin", "packet-out-10.bin"], frames::arp()),
    ] {
        let mut bytes: Vec<u8> = messages.iter().flat_map(|name| read(name)).collect();
        bytes.extend(frame);
        std::fs::write(root.join(format!("pipeline/{name}.bin")), bytes).expect("write");
    }
}

proptest! {
    #[test]
    fn any_change_of_messages_is_survived(
        picks in proptest::collection::vec(any::<prop::sample::Index>(), 1..5),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
    ) {
        let all = seeds("openflow");
        let mut bytes = vec![];
        for pick in picks {
            let start = bytes.len();
            bytes.extend(pick.get(&all));
            for (at, value) in &changes {
                let at = start + 4 + at.index(bytes.len() - start - 4);
                bytes[at] = *value;
            }
        }
        bytes.extend(frames::tcp4(1000, 80));
        try_switch(&bytes);
    }
}
