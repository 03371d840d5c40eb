//! The tables and the data plane together: nothing changes the one without the other.
//!
//! Before anything that can change what happens to packets, the plane gives up the results that it may be about, and
//! what they forwarded is credited; so a request is answered when the plane obeys it, and no packet is counted by an
//! entry that is gone. Which these are, the tables say (`Affected`); where they do not, and where changes come faster than
//! results can be looked through, the plane is emptied. Emptying an empty plane costs nothing, so a long sequence of
//! changes empties it once.

use std::collections::HashMap;

use netloom_openflow::header::Header;
use netloom_openflow::role::Role;
use netloom_openflow::{PortNumber, Version};
use netloom_packet::{Segmenter, VnetHeader, checksum};
use netloom_pipeline::{
    Affected, ConnectionId, FlowKey, Outputs, ReadMessage, Switch, Time, Trace, Work, example,
};

use crate::Result;
use crate::data_plane::{Credit, DataPlane, Entry, Slot, Upcall};
use crate::dense_slots::DenseSlots;

/// How long a full plane is left as it is.
const FULL: Time = 1_000_000_000;
/// Kept results that are looked at for changes: at once, and in a microsecond.
const MOST_LOOKS: u64 = 1 << 18;
const LOOKS: u64 = 4;

/// How long frames are taken in a turn, and how many bytes they may become before they are sent. The last one may be a
/// super-frame: packets of it beyond `MOST_BYTES` are dropped.
const RECEIVING: Time = 5_000_000;
const ENOUGH: usize = 4 << 20;
const MOST_BYTES: usize = 32 << 20;

/// Steps of a message about many entries that are done at once: a tenth of a millisecond.
const STEPS: u64 = 4096;

/// A kept result, to credit.
struct Kept {
    trace: Trace,
    port: PortNumber,
}

/// A result that is to be kept.
struct Fresh {
    port: PortNumber,
    key: FlowKey,
    trace: Trace,
    /// The tables' generation that it is of.
    generation: u64,
}

/// What a message may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Changes what happens to packets.
    Changes,
    /// Asks for counters.
    Reads,
    /// Neither.
    Nothing,
}

/// The tables and what moves frames.
pub(crate) struct Engine {
    pub(crate) switch: Switch,
    pub(crate) plane: Box<dyn DataPlane>,
    /// Messages and frames to send, to controllers and by ports.
    pub(crate) out: Outputs,
    /// Frames that came in damaged.
    pub(crate) malformed: u64,
    /// The generation that the plane was told last.
    epoch: u64,
    /// Results that the plane keeps, by slot.
    kept: DenseSlots<Kept>,
    /// How many results may be looked at for changes, and since when there are so many.
    looks: u64,
    looked: Time,
    /// Whether the plane may have results that are not in `kept`.
    inherits: bool,
    /// Which results are kept: port, masked key, mask.
    known: HashMap<(PortNumber, FlowKey, FlowKey), Slot>,
    /// How many it can keep.
    capacity: usize,
    /// Since when it is full.
    full: Option<Time>,
    credits: Vec<Credit>,
    segmenter: Segmenter,
}

impl Engine {
    pub(crate) fn new(switch: Switch, plane: Box<dyn DataPlane>) -> Engine {
        let epoch = plane.generation();
        let capacity = usize::try_from(plane.facts().capacity).unwrap_or(usize::MAX);
        Engine {
            switch,
            plane,
            out: Outputs::default(),
            malformed: 0,
            epoch,
            kept: DenseSlots::default(),
            looks: MOST_LOOKS,
            looked: 0,
            // Programs of an earlier process are found by its ports.
            inherits: capacity > 0,
            known: HashMap::new(),
            capacity,
            full: None,
            credits: vec![],
            segmenter: Segmenter::new(),
        }
    }

    /// Takes over results of an earlier process, which the tables must confirm; else the plane is emptied.
    pub(crate) fn adopt(&mut self, now: Time) -> Result<()> {
        let inherited = self.plane.inherited()?;
        // A trial on a twin changes at most its counters: the rest is not kept.
        let mut twin = (!inherited.is_empty()).then(|| self.switch.twin());
        // All or nothing: with one in doubt the plane is emptied.
        let mut adopted = vec![];
        for entry in inherited {
            let frame = example(&entry.key.fields());
            let mut out = Outputs::default();
            let tried = twin.as_mut().map(|twin| twin.frame(entry.port, &frame, now, &mut out));
            let trace = tried.unwrap_or_default();
            let slot = usize::try_from(entry.slot).unwrap_or(usize::MAX);
            // An entry that the tables would decide otherwise today must not forward on.
            let agrees = trace.key.masked(&entry.consulted) == entry.key
                && trace.consulted == entry.consulted
                && trace.uncacheable.is_none();
            if !agrees || slot >= self.capacity {
                return self.quiesce();
            }
            let port = entry.port;
            self.known.insert((port, entry.key, entry.consulted), entry.slot);
            adopted.push((entry.slot, Kept { trace, port }));
        }
        self.kept.adopt(adopted);
        self.inherits = false;
        Ok(())
    }

    /// Empties the plane if it may have results that are not known here.
    pub(crate) fn quiesce_unknown(&mut self) -> Result<()> {
        if self.inherits { self.quiesce() } else { Ok(()) }
    }

    /// Whether the plane may forward by itself.
    pub(crate) fn keeps(&self) -> bool {
        !self.known.is_empty() || self.inherits
    }

    /// Credits what the plane has forwarded.
    pub(crate) fn collect(&mut self) -> Result<()> {
        if self.capacity == 0 {
            return Ok(());
        }
        self.credits.clear();
        self.plane.credits(&mut self.credits)?;
        self.credit();
        Ok(())
    }

    fn credit(&mut self) {
        for credit in &self.credits {
            // An older generation's: its packets were credited when it was given up.
            let Some(kept) = self.kept.get(credit.slot) else { continue };
            let Credit { packets, bytes, used, .. } = *credit;
            self.switch.credit(&kept.trace, kept.port, packets, bytes, used);
        }
    }

    /// Gives up the results that a change may be about, before it is made; returns by how much the tables' generation
    /// may grow without being about others.
    fn give_up(&mut self, affected: Option<Affected>, now: Time) -> Result<u64> {
        let affected = affected.filter(|_| self.may_look(now));
        let Some(affected) = affected else {
            self.quiesce()?;
            return Ok(0);
        };
        let reached = |kept: &Kept| affected.reaches(&kept.trace, &self.switch);
        let slots = self.kept.iter().filter(|(_, kept)| reached(kept));
        let slots: Vec<Slot> = slots.map(|(slot, _)| *slot).collect();
        if !slots.is_empty() {
            self.remove(&slots)?;
        }
        Ok(affected.steps())
    }

    /// Has the plane give up results, and credits what they forwarded.
    fn remove(&mut self, slots: &[Slot]) -> Result<()> {
        self.credits.clear();
        self.plane.remove(slots, &mut self.credits)?;
        self.credit();
        for slot in slots {
            let Some(Kept { trace, port }) = self.kept.remove(*slot) else { continue };
            // Found by what the plane looks up: the masked key.
            self.known.remove(&(port, trace.key.masked(&trace.consulted), trace.consulted));
        }
        Ok(())
    }

    /// Whether all results may be looked at for one change: it must not take longer than computing them again.
    fn may_look(&mut self, now: Time) -> bool {
        let more = now.saturating_sub(self.looked) / 1000 * LOOKS;
        // Time of callers may be a little older than what was seen last.
        self.looked = self.looked.max(now);
        self.looks = self.looks.saturating_add(more).min(MOST_LOOKS);
        let all = u64::try_from(self.kept.len()).unwrap_or(u64::MAX);
        let may = !self.inherits && all <= self.looks;
        self.looks -= if may { all } else { 0 };
        may
    }

    /// Empties the plane, and credits what it forwarded until then.
    pub(crate) fn quiesce(&mut self) -> Result<()> {
        if !self.keeps() {
            return Ok(());
        }
        self.epoch += 1;
        // First no more hits, then the counters: no packet is lost between.
        self.plane.invalidate(self.epoch)?;
        self.collect()?;
        self.kept.clear();
        self.known.clear();
        (self.full, self.inherits) = (None, false);
        Ok(())
    }

    /// Gives up the results that a port decides.
    pub(crate) fn give_up_port(&mut self, port: PortNumber, now: Time) -> Result<u64> {
        let affected = self.keeps().then(|| self.switch.affected_by_port(port));
        affected.map_or(Ok(0), |affected| self.give_up(Some(affected), now))
    }

    /// Changes a port.
    pub(crate) fn change_port(
        &mut self,
        port: PortNumber,
        now: Time,
        act: impl FnOnce(&mut Switch, &mut Outputs),
    ) -> Result<()> {
        let steps = self.give_up_port(port, now)?;
        self.note_beyond(steps, act)?;
        self.send();
        Ok(())
    }

    /// Does something that seldom changes what happens to packets.
    pub(crate) fn note<T>(
        &mut self,
        act: impl FnOnce(&mut Switch, &mut Outputs) -> T,
    ) -> Result<T> {
        self.note_beyond(0, act)
    }

    /// The same, if the plane has made way for a change by which the tables' generation grows so much.
    fn note_beyond<T>(
        &mut self,
        steps: u64,
        act: impl FnOnce(&mut Switch, &mut Outputs) -> T,
    ) -> Result<T> {
        let before = self.switch.generation();
        let done = act(&mut self.switch, &mut self.out);
        if self.switch.generation() > before + steps {
            self.quiesce()?;
        }
        Ok(done)
    }

    /// A controller's message; returns what it may have done.
    pub(crate) fn message(&mut self, id: ConnectionId, bytes: &[u8], now: Time) -> Result<Effect> {
        let effect = self.effect(id, bytes);
        let message = ReadMessage::of(bytes);
        // Before the message: what is given up was decided by the tables as they were.
        let mut steps = 0;
        match effect {
            Effect::Changes if self.keeps() => {
                let affected = self.switch.affected_by(id, &message);
                steps = self.give_up(affected, now)?;
            }
            Effect::Reads => self.collect()?,
            Effect::Changes | Effect::Nothing => {}
        }
        self.note_beyond(steps, |switch, out| switch.read_message(id, message, now, out))?;
        self.send();
        Ok(effect)
    }

    /// Goes on with what a connection's message asked for, for a bounded time.
    pub(crate) fn proceed(&mut self, id: ConnectionId, now: Time) -> Result<()> {
        // A look ahead with the same steps as the work below: both stop at the same entry.
        let affected = self.switch.affected_next(id, &mut Work::steps(STEPS));
        let gives_up = self.keeps() && affected.steps() > 0;
        let steps = if gives_up { self.give_up(Some(affected), now)? } else { 0 };
        let work = &mut Work::steps(STEPS);
        self.note_beyond(steps, |switch, out| switch.proceed(id, work, now, out))?;
        self.send();
        Ok(())
    }

    fn effect(&self, id: ConnectionId, bytes: &[u8]) -> Effect {
        let (Some(header), Some(version)) = (Header::parse(bytes), self.switch.version(id)) else {
            return Effect::Nothing;
        };
        // A slave's changes are refused, so that results need not be given up.
        let slave = self.switch.role(id) == Some(Role::Slave);
        match effect(version, header.kind) {
            Effect::Changes if slave => Effect::Nothing,
            effect => effect,
        }
    }

    /// Takes what waits at the ports through the tables.
    pub(crate) fn receive(&mut self, most: usize, now: impl Fn() -> Time) -> Result<()> {
        // Learning during the turn may outdate results that were found in it.
        let before = self.switch.generation();
        let Engine { switch, plane, out, malformed, segmenter, known, capacity, .. } = self;
        let mut found: Vec<Fresh> = vec![];
        let keeps = *capacity > 0;
        let (until, mut counted, mut bytes) = (now() + RECEIVING, out.frames.len(), 0);
        plane.receive(most, &mut |upcall| {
            // All packets of a super-frame have one key: one result is enough.
            let mut first = keeps;
            let port = upcall.port;
            let whole = each(segmenter, upcall, &mut |frame| {
                if bytes >= MOST_BYTES {
                    return;
                }
                let trace = switch.frame(port, frame, now(), out);
                let made = out.frames.get(counted..).unwrap_or(&[]);
                bytes += made.iter().map(|frame| frame.bytes.len()).sum::<usize>();
                counted = out.frames.len();
                if std::mem::take(&mut first) && trace.uncacheable.is_none() {
                    let key = trace.key;
                    let name = (port, key.masked(&trace.consulted), trace.consulted);
                    if !known.contains_key(&name) {
                        let generation = switch.generation();
                        found.push(Fresh { port, key, trace, generation });
                    }
                }
            });
            *malformed += u64::from(!whole);
            bytes < ENOUGH && now() < until
        })?;
        self.send();
        // An address was learned, or has moved.
        if self.switch.generation() != before {
            self.quiesce()?;
        }
        for result in found {
            // Found before the last change of the tables: perhaps no longer right.
            if result.generation == self.switch.generation() {
                self.keep(result, &now)?;
            }
        }
        Ok(())
    }

    /// Packets that connections have been told since what they are told was taken, and those that were left out.
    pub(crate) fn told(&self) -> u64 {
        let messages = u64::try_from(self.out.messages.len()).unwrap_or(u64::MAX);
        messages + self.out.left_out.values().sum::<u64>()
    }

    /// Has the plane keep a result.
    fn keep(&mut self, result: Fresh, now: &impl Fn() -> Time) -> Result<()> {
        let Fresh { port, key, trace, .. } = result;
        if self.known.len() >= self.capacity {
            // Entries in use come back at once: emptying too often would cost more than it gives.
            let since = *self.full.get_or_insert_with(now);
            if now() < since + FULL {
                return Ok(());
            }
            self.quiesce()?;
        }
        let name = (port, key.masked(&trace.consulted), trace.consulted);
        // Two frames of one turn may have had the same result.
        if self.known.contains_key(&name) {
            return Ok(());
        }
        let slot = self.kept.take_slot();
        let entry = Entry {
            slot,
            generation: self.epoch,
            port,
            key: &key,
            consulted: &trace.consulted,
            effects: &trace.effects,
        };
        if self.plane.install(&entry) {
            self.known.insert(name, slot);
            self.kept.put(slot, Kept { trace, port });
        } else {
            self.kept.give_back(slot);
        }
        Ok(())
    }

    /// Sends the frames that are to be sent.
    fn send(&mut self) {
        if !self.out.frames.is_empty() {
            self.plane.send(&self.out.frames);
            self.out.frames.clear();
        }
    }

    /// Entries whose time has come.
    pub(crate) fn tick(&mut self, now: Time) -> Result<()> {
        if self.switch.deadline().is_none_or(|at| at > now) {
            return Ok(());
        }
        // Idle times count from the last packet, which only the plane knows.
        self.collect()?;
        // Packets may have moved their ends.
        if self.switch.postpone(now) {
            let affected = self.switch.affected_by_time(now);
            let steps = if self.keeps() { self.give_up(affected, now)? } else { 0 };
            self.note_beyond(steps, |switch, out| switch.tick(now, out))?;
            self.send();
        }
        Ok(())
    }
}

/// Every packet that a frame stands for, finished; returns whether it could be taken apart.
fn each(segmenter: &mut Segmenter, upcall: Upcall<'_>, take: &mut impl FnMut(&[u8])) -> bool {
    let Upcall { header, frame, .. } = upcall;
    // The usual case needs no copy.
    if header.gso == netloom_packet::Gso::None {
        let finished = checksum::finish(&header, frame).is_ok();
        if finished {
            take(frame);
        }
        return finished;
    }
    let mut packet = vec![];
    let mut finished = true;
    let cut = segmenter.segment(&header, frame, &mut |header: &VnetHeader, bytes: &[u8]| {
        packet.clear();
        packet.extend_from_slice(bytes);
        finished &= checksum::finish(header, &mut packet).is_ok();
        take(&packet);
    });
    cut.is_ok() && finished
}

/// What messages of a type may do.
fn effect(version: Version, kind: u8) -> Effect {
    match (version, kind) {
        // Set-config, flow-mod and port-mod; in 1.3 also group-mod, table-mod and meter-mod.
        (Version::V10, 9 | 14 | 15) | (Version::V13, 9 | 14..=17 | 29) => Effect::Changes,
        (Version::V10, 16) | (Version::V13, 18) => Effect::Reads,
        _ => Effect::Nothing,
    }
}
