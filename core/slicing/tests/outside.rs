//! What must hold for any messages of controllers and any frames: shared by the tests and the fuzz target.

use netloom_openflow::stream::Stream;
use netloom_openflow::{Version, decode, encode};
use netloom_slicing::{Slice, SliceId};

use super::lab::{Lab, at, slice, slicing, tagged};

/// The key of a frame at a port.
fn key(port: u32, frame: &[u8]) -> netloom_pipeline::FlowKey {
    let (_, mut key) = netloom_pipeline::headers::parse(frame);
    key.set(netloom_openflow::Field::InPort, u128::from(port));
    key
}

/// Two slices that meet at a port, and discover links.
fn slices() -> Vec<Slice> {
    let both = [
        slice("red", vec![at(&[1]), tagged(&[2], 10)]),
        slice("blue", vec![tagged(&[2], 20), at(&[3])]),
    ];
    both.into_iter().map(|slice| Slice { lldp: true, ..slice }).collect()
}

/// The first byte chooses version and slice; messages follow, and what is left is a frame. Nothing panics, every message
/// can be sent, and the frame does not leave its slice.
pub fn try_slicer(bytes: &[u8]) {
    let Some((first, bytes)) = bytes.split_first() else { return };
    let version = if first & 1 == 0 { Version::V10 } else { Version::V13 };
    let whose = SliceId(u16::from(first >> 1 & 1));
    let mut lab = Lab::new(version, slices());
    let mut stream = Stream::default();
    stream.push(bytes);
    while let Ok(Some(message)) = stream.next_message() {
        let message = message.to_vec();
        let out = match decode(&message) {
            Ok((header, said)) if encode(version, header.xid, &said).is_ok() => {
                lab.slicer.from_controller(lab.now, whose, header.xid, said)
            }
            Ok(_) => continue,
            Err(error) => lab.slicer.unreadable(lab.now, whose, &error, &message),
        };
        lab.run(out);
        lab.wait(1_000_000_000);
    }
    let frame = bytes.get(bytes.len() - stream.waiting()..).unwrap_or(&[]);
    stays(&mut lab, whose, frame);
    // So it is for a slicer that goes on where this one was.
    let counters = lab.slicer.counters(whose);
    if lab.restart(slices()).is_ok() {
        assert_eq!(lab.slicer.counters(whose).rules, counters.rules);
        stays(&mut lab, whose, frame);
    }
}

/// A frame does not leave its slice.
fn stays(lab: &mut Lab, whose: SliceId, frame: &[u8]) {
    let slicing = slicing(slices());
    for port in 1..=3 {
        let owner = slicing.owner(&key(port, frame));
        for (to, bytes) in lab.frame(port, frame) {
            let there = slicing.owner(&key(to, &bytes));
            assert!(owner == Some(whose) && (there.is_none() || there == owner), "{port} {to}");
        }
    }
}

/// Any bytes as what an earlier slicer remembered: refused, or read.
pub fn try_memory(bytes: &[u8]) {
    let _ = netloom_slicing::Memory::read(bytes);
    // The sums are those of the input, so that the fuzzer need not find them.
    let _ = netloom_slicing::Memory::read(&netloom_openflow::records::with_sums(bytes));
}
