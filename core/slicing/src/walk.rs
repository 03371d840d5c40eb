//! A proof under way: actions are done to cubes one after another, and what must hold is checked at each.
//!
//! It can be left between any two checks, and within those that look at many cubes, and goes on later: so one that takes long
//! holds up nobody. A part takes as many steps as there are cubes of all slices, at most.

use std::collections::{BTreeMap, HashSet};

use netloom_openflow::{Action, Bucket, Field, Instruction, PortNumber, Reason, text};

use crate::Work;
use crate::cube::{Cube, Region, Search};
use crate::effect::Packets;
use crate::fault::{self, Fault};
use crate::proof::{Breach, Findings, Proof, ordered, unknown};
use crate::{Example, SliceId};

/// Action sets that are remembered to be proved, and actions of them.
const MOST_SETS: usize = 1024;
const MOST_ACTIONS: usize = 16 * 1024;

/// Facts about a slice, so that each is proved once. It is of the same slices and ports for as long as it is kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    /// By port: whether packets of the slice that are as they came in may leave by it.
    free: BTreeMap<PortNumber, bool>,
    /// Action sets that were proved for all packets of the slice.
    sets: HashSet<Box<[Action]>>,
    actions: usize,
}

impl Known {
    fn add(&mut self, set: Box<[Action]>) {
        self.actions += set.len();
        if self.sets.len() >= MOST_SETS || self.actions > MOST_ACTIONS {
            // All of them: a set that comes again is proved
            // again, which costs time and nothing else.
            self.sets.clear();
            self.actions = set.len();
        }
        self.sets.insert(set);
    }

    /// The slice has another port: sets that send by all are to be proved again.
    pub(crate) fn forget_sets(&mut self) {
        self.sets.clear();
    }
}

/// An operation, or a condition that must hold.
#[derive(Clone, Debug)]
enum Op {
    Do(Action),
    /// An action of a set that other tables write, too.
    Shared(Action),
    /// They go on to another table.
    GoesOn,
    /// The way through the tables ends.
    Ends,
    /// They are said to come in somewhere.
    Arrives,
}

/// What it is done to.
#[derive(Clone, Debug)]
enum About {
    /// All packets of the slice.
    Own,
    These(Vec<Cube>),
}

#[derive(Clone, Debug)]
struct Line {
    about: About,
    ops: Vec<Op>,
}

/// A check that takes longer.
#[derive(Clone, Debug)]
enum Inner {
    /// Whether unchanged packets may leave by a port: the cube of the slice that is next.
    Free(usize),
    Lacks(Search),
}

/// A proof under way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Walk {
    lines: Vec<Line>,
    findings: Findings,
    line: usize,
    cube: usize,
    op: usize,
    /// Of the ports that packets may go back by: the next.
    port: usize,
    packets: Option<Packets>,
    inner: Option<Inner>,
}

/// Whether something is done, or is to go on.
type Step = Result<bool, Breach>;

impl Walk {
    /// Of a rule of a table for these packets, which have no metadata.
    pub(crate) fn rule(
        table: u8,
        packets: Vec<Cube>,
        instructions: &[Instruction],
    ) -> Result<Walk, Breach> {
        if packets.is_empty() {
            return Ok(Walk::default());
        }
        let (mut ops, mut written): (Vec<Op>, &[Action]) = (vec![], &[]);
        // In the first table the action set is empty still.
        let (mut clears, mut goes_on) = (table == 0, false);
        for instruction in instructions {
            match instruction {
                Instruction::ApplyActions(actions) => {
                    ops.extend(actions.iter().cloned().map(Op::Do))
                }
                Instruction::WriteActions(actions) => written = actions,
                Instruction::ClearActions => clears = true,
                Instruction::GotoTable(_) => goes_on = true,
                // Neither changes a header, and neither sends.
                Instruction::Meter(_) | Instruction::WriteMetadata { .. } => {}
                Instruction::Experimenter { .. } => return Err(unknown()),
            }
        }
        // Only then is what this rule writes all that is done at the end.
        let set_is_known = clears && !goes_on;
        ops.extend(goes_on.then_some(Op::GoesOn));
        if set_is_known && !fault::is(Fault::Sets) {
            ops.extend(ordered(written).into_iter().map(Op::Do));
        }
        ops.extend((!set_is_known && !goes_on).then_some(Op::Ends));
        let mut walk = Walk::default();
        walk.lines.push(Line { about: About::These(packets), ops });
        if !set_is_known {
            walk.findings.shares_set = !written.is_empty();
            let shared = if fault::is(Fault::Sets) { &[] } else { written };
            let line =
                |action: &Action| Line { about: About::Own, ops: vec![Op::Shared(action.clone())] };
            // What a packet is when the set is done, other tables
            // decide: so it is proved for all of the slice.
            walk.lines.extend(shared.iter().map(line));
        }
        Ok(walk)
    }

    /// Of buckets, for all packets of the slice. Equal ones, and those that are known, are not proved again.
    pub(crate) fn buckets(buckets: &[Bucket], known: &Known) -> Walk {
        let mut walk = Walk::default();
        if fault::is(Fault::Groups) {
            return walk;
        }
        let mut seen: HashSet<&[Action]> = HashSet::new();
        for bucket in buckets {
            let actions = bucket.actions.as_slice();
            if !seen.insert(actions) || known.sets.contains(actions) {
                continue;
            }
            let ops = ordered(actions).into_iter().map(Op::Do).collect();
            walk.lines.push(Line { about: About::Own, ops });
        }
        walk
    }

    /// Buckets were proved.
    pub(crate) fn note(buckets: &[Bucket], known: &mut Known) {
        for bucket in buckets {
            if !known.sets.contains(bucket.actions.as_slice()) {
                known.add(bucket.actions.clone().into());
            }
        }
    }

    /// Of actions for a packet.
    pub(crate) fn packet(packet: Cube, actions: &[Action]) -> Walk {
        if fault::is(Fault::PacketOuts) {
            return Walk::default();
        }
        let ops = [Op::Arrives].into_iter().chain(actions.iter().cloned().map(Op::Do)).collect();
        let lines = vec![Line { about: About::These(vec![packet]), ops }];
        Walk { lines, ..Walk::default() }
    }

    /// Goes on; `None`: it is not done when the work is.
    ///
    /// # Errors
    /// If a packet can leave the slice, or that cannot be excluded.
    pub(crate) fn goes_on(
        &mut self,
        proof: &Proof<'_>,
        known: &mut Known,
        work: &mut Work,
    ) -> Option<Result<Findings, Breach>> {
        loop {
            let Some(line) = self.lines.get(self.line) else {
                return Some(Ok(self.findings));
            };
            let Some(origin) = nth(proof, &line.about, self.cube) else {
                (self.line, self.cube) = (self.line + 1, 0);
                continue;
            };
            let Some(op) = line.ops.get(self.op) else {
                (self.cube, self.op, self.packets) = (self.cube + 1, 0, None);
                continue;
            };
            let packets = self.packets.get_or_insert_with(|| Packets::new(origin));
            work.spend(1);
            let at = (&mut self.port, &mut self.inner);
            let mut step = Stepping { proof, known, work, origin, at };
            let done = match op {
                Op::Arrives => step.arrives(packets),
                Op::Do(action) => step.act(action, packets),
                Op::Shared(action) => step.shared(action, packets),
                Op::GoesOn => step.stays(packets, "would go on to another table"),
                Op::Ends => step.ends(packets, &mut self.findings),
            };
            match done {
                Ok(true) => (self.op, self.port, self.inner) = (self.op + 1, 0, None),
                Ok(false) => {}
                Err(breach) => return Some(Err(breach)),
            }
            if !work.is_left() {
                return None;
            }
        }
    }
}

/// The same packets at another port.
fn at(cube: &Cube, port: PortNumber) -> Cube {
    let mut there = cube.clone();
    there.assign(Field::InPort, u128::from(port.0));
    there
}

fn nth<'a>(proof: &Proof<'a>, about: &'a About, at: usize) -> Option<&'a Cube> {
    match about {
        About::Own => proof.own()?.cubes.get(at),
        About::These(cubes) => cubes.get(at),
    }
}

/// One step of a walk.
struct Stepping<'s, 'p> {
    proof: &'s Proof<'p>,
    known: &'s mut Known,
    work: &'s mut Work,
    /// The packets, as they came in.
    origin: &'s Cube,
    /// How far it is in the ports and in a check.
    at: (&'s mut usize, &'s mut Option<Inner>),
}

impl Stepping<'_, '_> {
    /// A packet that is not of the slice where it is said to come in must be of it where it leaves.
    fn arrives(&mut self, packets: &mut Packets) -> Step {
        let Some(missing) = self.lacks(|| packets.now.clone()) else { return Ok(false) };
        packets.strange = missing.is_some();
        Ok(true)
    }

    fn shared(&mut self, action: &Action, packets: &mut Packets) -> Step {
        packets.apply(action);
        if !self.proof.slicing.any_looks(packets.written) {
            return self.act(action, packets);
        }
        Err(Breach {
            reason: Reason::BadActionEperm,
            words: format!(
                "{} in an action set that other tables write too changes a field that slices look at",
                text::print_action(action)
            ),
            example: Some(Example::of(self.origin)),
        })
    }

    fn ends(&mut self, packets: &Packets, findings: &mut Findings) -> Step {
        if !self.leaves_own(packets) {
            return Ok(true);
        }
        let Some(missing) = self.lacks(|| packets.now.clone()) else { return Ok(false) };
        findings.ends_outside |= missing.is_some();
        Ok(true)
    }

    fn act(&mut self, action: &Action, packets: &mut Packets) -> Step {
        match action {
            Action::Output { port, .. } | Action::Enqueue { port, .. } => match *port {
                PortNumber::CONTROLLER => self.stays(packets, "would go to the controller"),
                PortNumber::TABLE => self.stays(packets, "would go through the tables"),
                PortNumber::IN_PORT => self.back(packets),
                port => self.leaves(port, packets),
            },
            Action::Group(_) => self.stays(packets, "would go to a group"),
            Action::Experimenter { .. } => Err(unknown()),
            change => {
                packets.apply(change);
                Ok(true)
            }
        }
    }

    /// Whether a field that the slice's spaces look at has changed, or they were not of the slice before.
    fn is_rewritten(&self, packets: &Packets) -> bool {
        let Proof { slicing, slice, .. } = self.proof;
        packets.strange || self.proof.own().is_none() || slicing.own_looks(*slice, packets.written)
    }

    /// Whether they may be no packets of the slice any more.
    fn leaves_own(&self, packets: &Packets) -> bool {
        self.is_rewritten(packets) && !fault::is(Fault::Boundary)
    }

    /// A part that is not of the slice; `None`: the search is to go on.
    fn lacks(&mut self, cube: impl Fn() -> Cube) -> Option<Option<Cube>> {
        let Some(own) = self.proof.own() else { return Some(Some(cube())) };
        match self.at.1.get_or_insert_with(|| Inner::Lacks(Search::of(cube()))) {
            Inner::Lacks(search) => search.goes_on(own, self.work),
            Inner::Free(_) => Some(Some(cube())),
        }
    }

    /// By the port of arrival.
    fn back(&mut self, packets: &Packets) -> Step {
        match packets.now.exact(Field::InPort).and_then(|port| u32::try_from(port).ok()) {
            Some(port) => self.leaves(PortNumber(port), packets),
            None => {
                let Some(port) = self.proof.ports.get(*self.at.0).copied() else {
                    return Ok(true);
                };
                if self.leaves(port, packets)? {
                    *self.at.0 += 1;
                    *self.at.1 = None;
                }
                Ok(false)
            }
        }
    }

    /// By a port.
    fn leaves(&mut self, port: PortNumber, packets: &Packets) -> Step {
        // A search was left here: what is checked before it has passed.
        if let Some(Inner::Lacks(_)) = self.at.1 {
            return self.is_own_there(port, packets);
        }
        if !self.proof.ports.contains(&port) && !fault::is(Fault::Ports) {
            return Err(Breach {
                reason: Reason::BadActionBadOutPort,
                words: format!("port {port} of the switch is not in the slice"),
                example: Some(Example::of(self.origin)),
            });
        }
        // What no slice looks at makes no other slice's packets of them.
        if !packets.strange && !self.proof.slicing.any_looks(packets.written) {
            match self.known.free.get(&port) {
                Some(true) => return Ok(true),
                Some(false) => {}
                None => {
                    self.learn(port);
                    return Ok(false);
                }
            }
        }
        if let Some((name, part)) = self.of_others(&at(&packets.now, port)) {
            return Err(self.breach(packets, port, &part, &format!("is of slice {name:?} there")));
        }
        if self.is_rewritten(packets) && !fault::is(Fault::Rewrite) {
            return self.is_own_there(port, packets);
        }
        Ok(true)
    }

    fn is_own_there(&mut self, port: PortNumber, packets: &Packets) -> Step {
        match self.lacks(|| at(&packets.now, port)) {
            None => Ok(false),
            Some(None) => Ok(true),
            Some(Some(part)) => Err(self.breach(packets, port, &part, "is not of the slice there")),
        }
    }

    /// Goes on to find out whether unchanged packets may leave by a port.
    fn learn(&mut self, port: PortNumber) {
        let empty = Region::default();
        let own = self.proof.own().unwrap_or(&empty);
        let mut next = match self.at.1 {
            Some(Inner::Free(next)) => *next,
            _ => 0,
        };
        while let Some(cube) = own.cubes.get(next) {
            if self.of_others(&at(cube, port)).is_some() {
                break;
            }
            next += 1;
            if !self.work.is_left() {
                *self.at.1 = Some(Inner::Free(next));
                return;
            }
        }
        self.known.free.insert(port, next == own.cubes.len());
        *self.at.1 = None;
    }

    /// Packets of a cube that are another slice's, and its name.
    fn of_others(&mut self, cube: &Cube) -> Option<(String, Cube)> {
        if fault::is(Fault::Others) {
            return None;
        }
        let Proof { slicing, slice, .. } = self.proof;
        let mut looked = 1;
        let part = |(id, other): (SliceId, &Cube)| {
            looked += 1;
            let part = other.meets(cube).then(|| other.and(cube)).flatten();
            part.filter(Cube::is_possible).map(|part| (id, part))
        };
        let found = slicing.others(cube, *slice).find_map(part);
        self.work.spend(looked);
        let (id, part) = found?;
        Some((slicing.slice(id)?.name.clone(), part))
    }

    /// They have to be of the slice still.
    fn stays(&mut self, packets: &Packets, what: &str) -> Step {
        if !self.leaves_own(packets) {
            return Ok(true);
        }
        let Some(missing) = self.lacks(|| packets.now.clone()) else { return Ok(false) };
        let Some(part) = missing else { return Ok(true) };
        let words = format!("changed to {}, it {what} outside of the slice", Example::of(&part));
        let example = Some(Example::of(&packets.before(self.origin, &part)));
        Err(Breach { reason: Reason::BadActionEperm, words, example })
    }

    fn breach(&self, packets: &Packets, port: PortNumber, part: &Cube, what: &str) -> Breach {
        // The port of arrival means nothing where it leaves.
        let leaving = Example { in_port: None, ..Example::of(part) };
        Breach {
            reason: Reason::BadActionEperm,
            words: format!("it would leave by port {port} as {leaving}, which {what}"),
            example: Some(Example::of(&packets.before(self.origin, part))),
        }
    }
}
