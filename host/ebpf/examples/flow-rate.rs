//! Nanoseconds that the fast path of a switch takes for a frame, by the kernel's test runs. Needs root.
//!
//! A run of one frame has a cost of its own, which is that of a frame without a port.

use netloom_ebpf::flow::{Entry, List, Options, Trial};
use netloom_openflow::{Field, PortNumber};
use netloom_pipeline::{Effect, FlowKey, headers};

const RUNS: u32 = 2_000_000;

/// TCP over IPv4 with this destination port.
fn frame(port: u16) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    frame.extend([0x45, 0, 0, 46, 0, 1, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend(port.to_be_bytes());
    frame.extend([0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 1, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6]);
    frame
}

/// Keeps a result for all frames of the port whose bits in a field agree with this frame's.
fn keep(trial: &mut Trial, slot: u32, field: Field, bytes: &[u8]) -> netloom_ebpf::Result<()> {
    let (_, mut key) = headers::parse(bytes);
    key.set(Field::InPort, 1);
    let mut mask = FlowKey::default();
    mask.set(Field::InPort, u128::MAX);
    mask.set(field, u128::MAX);
    let effects = [Effect::Send { port: PortNumber(2), queue: None }];
    let Some(list) = List::of(&effects, &key, |port| Some(port.0)) else { return Ok(()) };
    let entry = Entry { slot, generation: 0, key: &key, mask: &mask, list: &list };
    trial.flow.install(&entry).map(drop)
}

/// Nanoseconds of single runs over frames in turn.
fn singly(trial: &Trial, frames: &[Vec<u8>]) -> netloom_ebpf::Result<f64> {
    let mut sum = 0.0;
    let rounds = 20;
    for _ in 0..rounds {
        for frame in frames {
            sum += f64::from(trial.run(frame, 1)?.nanoseconds);
        }
    }
    Ok(sum / f64::from(rounds) / frames.len() as f64)
}

fn main() -> netloom_ebpf::Result<()> {
    let options =
        Options { ports: 8, results: 65_536, operations: 1024, ring: 1 << 18, beside: false };
    let mut trial = Trial::load(&options)?;
    let one = frame(7);
    keep(&mut trial, 0, Field::EthType, &one)?;
    trial.run(&one, 1)?;
    let first = trial.run(&one, RUNS)?.nanoseconds;
    println!("found by the first mask: {first} ns");
    let many: Vec<Vec<u8>> = (0..40_000).map(frame).collect();
    let same = vec![one; 40_000];
    let base = singly(&trial, &same)? - f64::from(first);
    let mut trial = Trial::load(&options)?;
    for (slot, frame) in (0..).zip(&many) {
        keep(&mut trial, slot, Field::TcpSrc, frame)?;
    }
    println!("each of 40,000 results in turn: {:.0} ns", singly(&trial, &many)? - base);
    let mut trial = Trial::load(&options)?;
    // Masks before the one that finds.
    let others = [Field::Ipv4Src, Field::Ipv4Dst, Field::EthSrc, Field::EthDst, Field::IpProto];
    let mut odd = frame(7);
    odd[0..12].fill(4);
    (odd[23], odd[29], odd[33]) = (17, 9, 9);
    for (slot, field) in (1..).zip(others) {
        keep(&mut trial, slot, field, &odd)?;
    }
    keep(&mut trial, 0, Field::EthType, &many[0])?;
    println!(
        "found by the sixth mask, other keys in turn: {:.0} ns",
        singly(&trial, &many)? - base
    );
    println!("found by a hint: {} ns", trial.run(&many[0], RUNS)?.nanoseconds);
    println!("{:?}", trial.flow.stats());
    Ok(())
}
