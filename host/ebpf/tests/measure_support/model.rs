//! What the reference says of the same frames.

use std::collections::BTreeMap;

use netloom_ebpf::measure::{Config, Counts, Marking};
use netloom_marking::session::Program;
use netloom_marking::{
    Banks, DoubleMarker, Hasher, Key, Mark, Offload, Outcome, Packet, Record, Sample, Samples,
    Seen, Segment, Selection, filter,
};
use netloom_packet::checksum::{checksum, fold};

use super::frames::Frame;

/// A point as the reference has it, on one CPU.
pub(crate) struct Model {
    config: Config,
    flows: Vec<Flow>,
    pub(crate) counts: Counts,
}

struct Flow {
    banks: Banks,
    marker: DoubleMarker,
    unhashable: BTreeMap<u64, u64>,
    kept: BTreeMap<u64, Kept>,
}

/// Samples of a block.
#[derive(Clone)]
pub(crate) enum Kept {
    Fixed(Selection, Vec<Sample>),
    Dynamic(Samples),
}

/// Where the packet begins, if the frame's type says that there is one.
fn packet_at(frame: &[u8]) -> Option<usize> {
    let mut at = 14;
    for _ in 0..2 {
        if matches!(frame.get(at - 2..at)?, [0x81, 0] | [0x88, 0xa8]) {
            at += 4;
        }
    }
    matches!(frame.get(at - 2..at)?, [8, 0] | [0x86, 0xdd]).then_some(at)
}

impl Model {
    pub(crate) fn new(config: &Config) -> Model {
        let flow = || Flow {
            banks: Banks::new(config.schedule, 0),
            marker: DoubleMarker::default(),
            unhashable: BTreeMap::new(),
            kept: BTreeMap::new(),
        };
        let flows = config.filters.iter().map(|_| flow()).collect();
        Model { config: config.clone(), flows, counts: Counts::default() }
    }

    /// Sees a frame; gives it as it goes on.
    pub(crate) fn see(&mut self, frame: &Frame, time: u64) -> Vec<u8> {
        let mut bytes = frame.bytes.clone();
        let Some((at, packet)) =
            packet_at(&bytes).and_then(|at| Some((at, Packet::parse(frame.bytes.get(at..)?)?)))
        else {
            self.counts.other += 1;
            return bytes;
        };
        let plain: Vec<_> = self.config.filters.iter().map(|named| named.filter).collect();
        let Some(index) = filter::find(&plain, self.config.precedence, &Key::of(&packet)) else {
            self.counts.unmatched += 1;
            return bytes;
        };
        let flow = &mut self.flows[index];
        let mut class = packet.traffic_class();
        if self.config.marking != Marking::Off
            && let Some(mark) = flow.marker.mark(&self.config.schedule, time)
        {
            let double = mark.double && self.config.marking == Marking::Double;
            class = self.config.marks.write(class, Mark { double, ..mark });
            write(&mut bytes[at..], class);
        }
        let (packets, wire) = size(frame, at, &packet);
        match self.config.marks.read(class) {
            None => self.counts.unmarked += packets,
            Some(mark) => {
                let seen = Seen { time, mark, packets, bytes: wire, unhashable: false };
                match flow.banks.see(&seen) {
                    Outcome::Counted(block) => {
                        sample(flow, &self.config, frame, &packet, (block, time, packets));
                    }
                    Outcome::Late(_) => {}
                    Outcome::Outside => self.counts.outside += packets,
                }
            }
        }
        bytes
    }

    /// The record of a block, with what it says of hashes; without times of all where there are none.
    pub(crate) fn record(&mut self, index: usize, block: u64) -> Record {
        let flow = &mut self.flows[index];
        let mut record = flow.banks.read(block, u64::MAX);
        record.unhashable = flow.unhashable.get(&block).copied().unwrap_or(0);
        if self.config.program != Program::All {
            (record.all.first, record.all.last, record.all.sum) = (None, None, 0);
        }
        record
    }

    pub(crate) fn kept(&self, index: usize, block: u64) -> Option<Kept> {
        self.flows[index].kept.get(&block).cloned()
    }
}

/// How many packets a frame is, and their bytes.
fn size(frame: &Frame, at: usize, packet: &Packet<'_>) -> (u64, u64) {
    let length = frame.bytes.len() as u64;
    if frame.gso_size == 0 {
        return (1, length);
    }
    let given = u64::from(frame.gso_segs);
    let transport = transport(&frame.bytes[at..], packet);
    let header = match packet.protocol() {
        6 => match payload(&frame.bytes[at..], packet, transport, 12) {
            Some(offset) => u64::from(offset >> 4) * 4,
            None => return (given.max(1), length),
        },
        17 => 8,
        _ => return (given.max(1), length),
    };
    let headers = (at + transport) as u64 + header;
    let data = length.saturating_sub(headers);
    let packets = if given > 0 { given } else { data.div_ceil(u64::from(frame.gso_size)) }.max(1);
    (packets, length + (packets - 1) * headers)
}

/// A byte of the four at a place of the payload, if all of them are the packet's.
fn payload(bytes: &[u8], packet: &Packet<'_>, transport: usize, at: usize) -> Option<u8> {
    let length = |at: usize| usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]));
    let end = match (packet.is_v6(), if packet.is_v6() { length(4) } else { length(2) }) {
        (_, 0) => bytes.len(),
        (true, length) => 40 + length,
        (false, length) => length,
    };
    let four = transport + at + 4;
    (four <= end).then(|| bytes.get(four - 4..four).map(|four| four[0])).flatten()
}

/// Where the payload begins: behind as many extension headers as the reference steps over.
fn transport(bytes: &[u8], packet: &Packet<'_>) -> usize {
    if !packet.is_v6() {
        return usize::from(bytes[0] & 15) * 4;
    }
    let (mut kind, mut at) = (bytes[6], 40);
    for _ in 0..8 {
        let step = match kind {
            0 | 43 | 60 => (usize::from(bytes[at + 1]) + 1) * 8,
            51 => (usize::from(bytes[at + 1]) + 2) * 4,
            44 => 8,
            _ => break,
        };
        let later = kind == 44 && (bytes[at + 2] != 0 || bytes[at + 3] & 0xf8 != 0);
        kind = bytes[at];
        at += step;
        if later {
            break;
        }
    }
    at
}

fn sample(
    flow: &mut Flow,
    config: &Config,
    frame: &Frame,
    packet: &Packet<'_>,
    (block, time, packets): (u64, u64, u64),
) {
    let sampled = !matches!(config.program, Program::All | Program::Empty);
    let Some(sampling) = config.sampling.filter(|_| sampled) else { return };
    for index in 0..packets {
        let segment = (frame.gso_size > 0).then(|| Segment {
            index: u16::try_from(index).unwrap(),
            size: u16::try_from(frame.gso_size).unwrap(),
            fixed_id: false,
        });
        let offload = Offload { partial_checksum: false, segment };
        let found = both(&sampling.hasher, sampling.selection, packet, offload);
        let Ok(found) = found else {
            *flow.unhashable.entry(block).or_default() += 1;
            continue;
        };
        let Some((hash, identity)) = found else { continue };
        let kept = flow.kept.entry(block).or_insert_with(|| match sampling.npkts {
            None => Kept::Fixed(sampling.selection, Vec::new()),
            Some(most) => {
                let most = usize::try_from(most).unwrap();
                Kept::Dynamic(Samples::new(sampling.selection, most).unwrap())
            }
        });
        let sample = Sample { hash, identity, time };
        match kept {
            Kept::Fixed(_, samples) => samples.push(sample),
            Kept::Dynamic(samples) => drop(std::hint::black_box(samples.offer(sample))),
        }
    }
}

/// The hash and the identity of a packet that is selected.
fn both(
    hasher: &Hasher,
    selection: Selection,
    packet: &Packet<'_>,
    offload: Offload,
) -> Result<Option<(u32, u32)>, netloom_marking::Unhashable> {
    let hash = hasher.hash(packet, offload)?;
    if !selection.selects(hash) {
        return Ok(None);
    }
    Ok(Some((hash, hasher.identity(packet, offload)?)))
}

/// Writes the traffic class, and recomputes the IPv4 checksum.
fn write(packet: &mut [u8], class: u8) {
    if packet[0] >> 4 == 6 {
        packet[0] = 0x60 | class >> 4;
        packet[1] = (class << 4) | (packet[1] & 15);
        return;
    }
    let header = usize::from(packet[0] & 15) * 4;
    // A wrong checksum stays wrong by the same difference.
    let wrong = checksum(&packet[..header]) != 0;
    if packet[1] == class {
        return;
    }
    let (before, old) = (packet[1], [packet[10], packet[11]]);
    packet[1] = class;
    if wrong {
        let sum = u64::from(!u16::from_be_bytes(old))
            + u64::from(!u16::from_be_bytes([packet[0], before]))
            + u64::from(u16::from_be_bytes([packet[0], class]));
        let sum = !fold(sum);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        return;
    }
    packet[10..12].fill(0);
    let sum = checksum(&packet[..header]).to_be_bytes();
    packet[10..12].copy_from_slice(&sum);
}
