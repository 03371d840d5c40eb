//! Carries the frames of one direction: reads them, obtains their fates, holds and sends them.
//!
//! A frame's arrival time is when it is read, so it includes the worker's wake-up and the frames
//! carried before. Frames leave in the order of their times; one that the output cannot accept now
//! blocks those behind it. Every frame is accounted for. Frames held are bounded by [`MOST_HELD`]
//! bytes. A carrier does not wait; the worker knows when to call it.

use netloom_fidelity::Recent;
use netloom_filter::Program;
use netloom_impair::spec::MOST_HELD;
use netloom_impair::{Cause, Direction, Fate, Impairments, Packet};
use netloom_packet::{Segmenter, VnetHeader, checksum, headers, identity, packets};
use netloom_port::{HEADER, Port, Received, Sent};

use crate::control::DirectionState;
use crate::departures::Departures;
use crate::fates::{Kept, Record};
use crate::store::{Chunked, Store};
use netloom_sys::clock;

/// Frames and bytes of one round, after which others have their turn.
const MOST_ROUND: usize = 64;
const MOST_ROUND_BYTES: usize = 512 << 10;

/// Consecutive failures after which the input counts as gone, so that it cannot keep us busy.
const MOST_FAILURES: u32 = 16;

/// Overhead of a held frame.
const OVERHEAD: u64 = 64;

/// State shared by a worker's carriers.
#[derive(Debug, Default)]
pub(crate) struct Tools {
    segmenter: Segmenter,
    whole: Vec<u8>,
}

/// A held frame.
#[derive(Clone, Copy, Debug)]
struct Held {
    place: Chunked,
    packets: u32,
}

/// One direction of a wire.
pub(crate) struct Carrier {
    input: Box<dyn Port>,
    /// Whether frames may still arrive.
    reading: bool,
    output: Box<dyn Port>,
    direction: Direction,
    /// What `drop` matches.
    dropping: Option<Program>,
    store: Store,
    departures: Departures<Held>,
    held_bytes: u64,
    blocked: bool,
    kept: Kept,
    lateness: Recent,
    overruns: Option<u64>,
    failures: u32,
    trouble: Option<String>,
}

impl Carrier {
    /// Frames of `input` go to `output`.
    pub(crate) fn new(
        input: Box<dyn Port>,
        output: Box<dyn Port>,
        impairments: &Impairments,
        dropping: Option<Program>,
        seed: u64,
    ) -> Carrier {
        Carrier {
            input,
            reading: true,
            output,
            direction: Direction::new(impairments, seed),
            dropping,
            store: Store::default(),
            departures: Departures::default(),
            held_bytes: 0,
            blocked: false,
            kept: Kept::default(),
            lateness: Recent::default(),
            overruns: None,
            failures: 0,
            trouble: None,
        }
    }

    /// The input port.
    pub(crate) fn input(&self) -> &dyn Port {
        self.input.as_ref()
    }

    /// Whether frames may still arrive.
    pub(crate) fn is_reading(&self) -> bool {
        self.reading
    }

    /// The output port.
    pub(crate) fn output(&self) -> &dyn Port {
        self.output.as_ref()
    }

    /// Whether the output accepted nothing when last tried.
    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Notes that the output may accept frames again.
    pub(crate) fn unblock(&mut self) {
        self.blocked = false;
    }

    /// Whether no frame is held.
    pub(crate) fn is_empty(&self) -> bool {
        self.departures.is_empty()
    }

    /// When to call it to send held frames; not while it is blocked.
    pub(crate) fn next(&self) -> Option<u64> {
        if self.blocked { None } else { self.departures.first().map(|(at, _)| at) }
    }

    /// Changes the impairments from the next frame on.
    pub(crate) fn set(&mut self, impairments: &Impairments, dropping: Option<Program>) {
        self.direction.set(impairments);
        self.dropping = dropping;
    }

    /// The kept fates.
    pub(crate) fn kept(&mut self) -> &mut Kept {
        &mut self.kept
    }

    /// Frees unused memory.
    pub(crate) fn trim(&mut self) {
        self.store.trim();
        self.departures.trim();
    }

    /// Reads and handles pending frames, for one round; returns whether there may be more.
    pub(crate) fn read(&mut self, tools: &mut Tools) -> bool {
        let mut bytes = 0;
        for _ in 0..MOST_ROUND {
            if !self.reading {
                return false;
            }
            self.make_room();
            let received = self.input.receive(self.store.tail());
            let now = clock::monotonic();
            match received {
                Ok(Received::Frame { start, length }) => {
                    self.take(now, start, length, tools);
                    bytes += length;
                }
                Ok(Received::Truncated) => {
                    self.direction.count_refused(Cause::Malformed, 1, 0);
                }
                Ok(Received::Empty | Received::Down) => return false,
                Ok(Received::Gone) => {
                    self.close_input();
                    return false;
                }
                Err(e) => {
                    self.input_failed(&e);
                    return false;
                }
            }
            self.failures = 0;
            // Between reads, too: an input that is never empty must not make late what is due.
            if self.next().is_some_and(|at| at <= now) {
                self.send_due();
            }
            if bytes >= MOST_ROUND_BYTES {
                break;
            }
        }
        true
    }

    /// With a limit, what is due is sent before the next frame is judged: it is held no longer then.
    fn make_room(&mut self) {
        let is_limited = self.direction.impairments().limit.is_some();
        if is_limited && self.next().is_some_and(|at| at <= clock::monotonic()) {
            self.send_due();
        }
    }

    /// Stops reading. The port stays open: its watcher must stop first, because the other
    /// direction may use the same one.
    pub(crate) fn close_input(&mut self) {
        self.count_overruns();
        self.reading = false;
    }

    fn input_failed(&mut self, error: &netloom_port::Error) {
        self.trouble = Some(netloom_sys::describe(error));
        self.failures += 1;
        if self.failures >= MOST_FAILURES {
            self.close_input();
        }
    }

    /// Handles a frame in the store's tail.
    fn take(&mut self, now: u64, start: usize, length: usize, tools: &mut Tools) {
        let frame = &self.store.tail()[start..start + length];
        let Ok(header) = VnetHeader::parse(frame) else {
            let bytes = length.saturating_sub(HEADER);
            return self.direction.count_refused(Cause::Malformed, 1, wide(bytes));
        };
        if !header.is_super() || !self.direction.needs_packets(length - HEADER) {
            return self.offer(now, &header, start, length);
        }
        tools.whole.clear();
        // A copy, since each packet is written into the same tail.
        tools.whole.extend_from_slice(&frame[HEADER..]);
        let cut = tools.segmenter.segment(&header, &tools.whole, &mut |header, packet| {
            let tail = self.store.tail();
            tail[..HEADER].copy_from_slice(&header.encode());
            tail[HEADER..HEADER + packet.len()].copy_from_slice(packet);
            self.offer(now, header, 0, HEADER + packet.len());
        });
        if cut.is_err() {
            let bytes = wide(tools.whole.len());
            self.direction.count_refused(Cause::Malformed, 1, bytes);
        }
    }

    /// Obtains the fate of a frame in the store's tail, and sends or holds it.
    fn offer(&mut self, now: u64, header: &VnetHeader, start: usize, length: usize) {
        let frame = &self.store.tail()[start + HEADER..start + length];
        let packet = describe(header, frame, self.dropping.as_ref());
        // The hash first: a flipped bit would change it.
        let hash = self.kept.is_on().then(|| identity(frame));
        let fate = self.direction.offer(now, &packet);
        if let Some(hash) = hash {
            let time_ns = clock::realtime();
            let fate = since(now, fate);
            let Packet { bytes, packets, .. } = packet;
            self.kept.push(Record { sequence: 0, time_ns, hash, bytes, packets, fate });
        }
        let Fate::Sent { at_ns, corrupt_bit, again_ns } = fate else { return };
        if let Some(bit) = corrupt_bit {
            turn_over(&mut self.store.tail()[start..start + length], header, bit);
        }
        // With a copy to come, the frame must be kept in any case.
        let at_once = at_ns <= now && again_ns.is_none() && !self.blocked;
        // With frames held it would overtake them.
        if at_once && self.departures.is_empty() {
            let sent = self.output.send(&self.store.tail()[start..start + length]);
            if self.has_left(sent, packet.packets, length) {
                return;
            }
        }
        self.hold(at_ns, again_ns, start, length, packet.packets);
    }

    fn hold(&mut self, at: u64, again: Option<u64>, start: usize, length: usize, packets: u32) {
        let copies = 1 + u32::from(again.is_some());
        let more = (wide(length) + OVERHEAD) * u64::from(copies);
        let frames = wide(self.departures.len());
        if self.held_bytes + frames * OVERHEAD + more > MOST_HELD {
            // Lost and not refused: the engine has accepted it, with its copy.
            let bytes = wide(length - HEADER) * u64::from(copies);
            return self.direction.count_lost(Cause::Memory, packets * copies, bytes);
        }
        self.held_bytes += wide(length) * u64::from(copies);
        // The bytes are there once, and go with the last of both.
        let place = self.store.keep(start, length, 1 + usize::from(again.is_some()));
        for at in [Some(at), again].into_iter().flatten() {
            self.departures.push(at, Held { place, packets });
        }
    }

    /// Sends the frames due by now, for one round.
    pub(crate) fn send_due(&mut self) {
        for _ in 0..MOST_ROUND {
            let Some((at, held)) = self.departures.first() else { return };
            let now = clock::monotonic();
            if at > now || self.blocked {
                return;
            }
            let sent = self.output.send(self.store.frame(held.place));
            if !self.has_left(sent, held.packets, held.place.length()) {
                return;
            }
            self.lateness.add(now, now - at);
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        if let Some(held) = self.departures.pop() {
            self.held_bytes -= wide(held.place.length());
            self.store.release(held.place);
        }
    }

    /// Accounts for a sent frame; returns whether the output is done with it.
    fn has_left(&mut self, sent: netloom_port::Result<Sent>, packets: u32, length: usize) -> bool {
        let bytes = wide(length - HEADER);
        match sent {
            Ok(Sent::Done) => self.direction.delivered(packets, bytes),
            Ok(Sent::Full) => {
                self.blocked = true;
                return false;
            }
            // Such a frame is lost, and does not hold up those behind it.
            Ok(Sent::NoRoom | Sent::Refused | Sent::Down | Sent::Gone) => {
                self.direction.count_lost(Cause::Refused, packets, bytes);
            }
            Err(e) => {
                self.trouble = Some(netloom_sys::describe(&e));
                self.direction.count_lost(Cause::Refused, packets, bytes);
            }
        }
        true
    }

    /// Drops the held frames as lost.
    pub(crate) fn lose_held(&mut self) {
        while let Some((_, held)) = self.departures.first() {
            let bytes = wide(held.place.length() - HEADER);
            self.direction.count_lost(Cause::Closed, held.packets, bytes);
            self.forget_first();
        }
    }

    fn count_overruns(&mut self) {
        if !self.reading {
            return;
        }
        let Some(now) = self.input.overruns() else { return };
        let new = now - self.overruns.unwrap_or(0);
        self.overruns = Some(now);
        let new = u32::try_from(new).unwrap_or(u32::MAX);
        self.direction.count_refused(Cause::Overrun, new, 0);
    }

    /// The direction's state.
    pub(crate) fn state(&mut self) -> DirectionState {
        self.count_overruns();
        let due = self.departures.first().map(|(at, _)| at);
        let recent = self.lateness.show(clock::monotonic(), due);
        DirectionState {
            impairments: self.direction.impairments().clone(),
            ledger: *self.direction.ledger(),
            held_frames: self.departures.len(),
            held_bytes: self.held_bytes,
            blocked: self.blocked,
            input_gone: !self.reading,
            overruns: self.overruns,
            lateness: self.lateness.all(),
            recent,
            trouble: self.trouble.clone(),
        }
    }
}

/// The properties of a frame that the engine needs.
fn describe(header: &VnetHeader, frame: &[u8], dropping: Option<&Program>) -> Packet {
    let network = headers::network(frame).map_or(headers::ETHERNET, |(_, start)| start);
    Packet {
        bytes: short(frame.len()),
        network_bytes: short(frame.len().saturating_sub(network)),
        packets: packets(header, frame),
        dropped: dropping.is_some_and(|program| program.run(frame, short(frame.len())) > 0),
    }
}

/// Flips a bit. An unfinished checksum is finished before, and a verified one must be verified
/// again, so that the receiver sees the damage.
fn turn_over(frame: &mut [u8], header: &VnetHeader, bit: u32) {
    let (front, body) = frame.split_at_mut(HEADER);
    // If the checksum cannot be finished, the receiver drops the frame in any case.
    let _ = checksum::finish(header, body);
    let mut whole = VnetHeader { needs_csum: false, data_valid: false, ..*header };
    if header.needs_csum {
        (whole.csum_start, whole.csum_offset) = (0, 0);
    }
    front.copy_from_slice(&whole.encode());
    let byte = usize::try_from(bit / 8).unwrap_or(usize::MAX);
    if let Some(byte) = body.get_mut(byte) {
        *byte ^= 1 << (bit % 8);
    }
}

/// A fate with times relative to `now`.
fn since(now: u64, fate: Fate) -> Fate {
    match fate {
        Fate::Sent { at_ns, corrupt_bit, again_ns } => Fate::Sent {
            at_ns: at_ns.saturating_sub(now),
            corrupt_bit,
            again_ns: again_ns.map(|a| a.saturating_sub(now)),
        },
        Fate::Lost(cause) => Fate::Lost(cause),
    }
}

/// A frame's length: below 2^17.
fn wide(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// A frame's length: below 2^17.
fn short(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
