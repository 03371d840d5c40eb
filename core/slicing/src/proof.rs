//! The proof that what a slice's rule does to packets stays within the slice.
//!
//! For all packets that a rule can act on, which are of the slice, it holds that
//! * they leave by ports of the slice, and not as packets that are of another slice at that port;
//! * if a field that the slice's spaces look at was changed, they leave as packets of the slice at that port;
//! * they go on to a later table, a group or a controller as packets of the slice.
//!
//! So whatever reaches a later table is of the slice again, and the same holds there. Groups are proved for all packets
//! of the slice, so that rules and groups can change apart. An action set is proved where it is known; where entries of
//! several tables write it, what each writes is proved for all packets of the slice. All is over real ports.

use netloom_openflow::{Action, Bucket, Field, Instruction, PortNumber, Reason};

use crate::cube::Cube;
use crate::effect::Packets;
use crate::fault::{self, Fault};
use crate::{Example, SliceId, Slicing};

/// Why a rule is refused: with an example of a packet that would leave the slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// The error for the controller.
    pub reason: Reason,
    /// What would happen.
    pub words: String,
    /// A packet, as it comes in.
    pub example: Option<Example>,
}

/// What else holds of a rule that was proved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// It adds to an action set that others may add to.
    pub shares_set: bool,
    /// Where it ends the way through the tables, packets may have left the space: right without a shared action set.
    pub ends_outside: bool,
}

/// What the proof is about.
#[derive(Clone, Copy, Debug)]
pub struct Proof<'a> {
    /// All slices.
    pub slicing: &'a Slicing,
    /// The one whose rules are proved.
    pub slice: SliceId,
    /// Its ports of the real switch.
    pub ports: &'a [PortNumber],
}

type Proved = Result<(), Breach>;

impl Proof<'_> {
    /// The packets of the slice in a cube: what a rule with such a match can act on.
    pub fn packets(&self, cube: &Cube) -> Vec<Cube> {
        if fault::is(Fault::Narrow) {
            return vec![cube.clone()];
        }
        self.slicing.region(self.slice).map(|own| own.and(cube)).unwrap_or_default()
    }

    fn lacks(&self, cube: &Cube) -> Option<Cube> {
        match self.slicing.region(self.slice) {
            Some(own) => own.lacks(cube),
            None => Some(cube.clone()),
        }
    }

    /// Proves a rule of a table for these packets.
    ///
    /// # Errors
    /// If a packet can leave the slice by it, or that cannot be excluded.
    pub fn rule(
        &self,
        table: u8,
        packets: &[Cube],
        instructions: &[Instruction],
    ) -> Result<Findings, Breach> {
        let mut findings = Findings::default();
        for cube in packets {
            let one = self.cube(table, cube, instructions)?;
            findings.shares_set |= one.shares_set;
            findings.ends_outside |= one.ends_outside;
        }
        Ok(findings)
    }

    fn cube(
        &self,
        table: u8,
        cube: &Cube,
        instructions: &[Instruction],
    ) -> Result<Findings, Breach> {
        let mut packets = Packets::new(cube);
        let mut written: &[Action] = &[];
        let (mut clears, mut goes_on) = (table == 0, false);
        for instruction in instructions {
            match instruction {
                Instruction::ApplyActions(actions) => self.actions(actions, &mut packets)?,
                Instruction::WriteActions(actions) => written = actions,
                Instruction::ClearActions => clears = true,
                Instruction::GotoTable(_) => goes_on = true,
                Instruction::Meter(_) | Instruction::WriteMetadata { .. } => {}
                Instruction::Experimenter { .. } => return Err(unknown()),
            }
        }
        if goes_on {
            self.stays(&packets, "would go on to another table")?;
        }
        if clears && !goes_on {
            let set = ordered(written);
            if !fault::is(Fault::Sets) {
                self.actions(&set, &mut packets)?;
            }
            return Ok(Findings::default());
        }
        if !fault::is(Fault::Sets) {
            self.shared_set(written)?;
        }
        let ends_outside = !goes_on && self.stays(&packets, "").is_err();
        Ok(Findings { shares_set: !written.is_empty(), ends_outside })
    }

    /// Proves the buckets of a group, for all packets of the slice.
    ///
    /// # Errors
    /// If a packet can leave the slice by it.
    pub fn buckets(&self, buckets: &[Bucket]) -> Proved {
        if fault::is(Fault::Groups) {
            return Ok(());
        }
        let own = self.slicing.region(self.slice);
        for bucket in buckets {
            let set = ordered(&bucket.actions);
            for cube in own.iter().flat_map(|own| &own.cubes) {
                self.actions(&set, &mut Packets::new(cube))?;
            }
        }
        Ok(())
    }

    /// Proves the actions of a packet that a controller sends. If it is not of the slice where it is said to come
    /// in, it must be of the slice where it leaves.
    ///
    /// # Errors
    /// If it would leave the slice.
    pub fn packet(&self, packet: &Cube, actions: &[Action]) -> Proved {
        if fault::is(Fault::PacketOuts) {
            return Ok(());
        }
        let mut packets = Packets::new(packet);
        packets.strange = self.lacks(packet).is_some();
        self.actions(actions, &mut packets)
    }

    /// An action set that entries of several tables write: each is proved for all packets of the slice.
    fn shared_set(&self, written: &[Action]) -> Proved {
        let own = self.slicing.region(self.slice);
        let cubes = || own.iter().flat_map(|own| &own.cubes);
        for action in written {
            for cube in cubes() {
                let mut packets = Packets::new(cube);
                packets.apply(action);
                if packets.written.iter().any(|field| self.slicing.looks_at(*field)) {
                    return Err(Breach {
                        reason: Reason::BadActionEperm,
                        words: format!(
                            "{} in an action set that other tables write too changes a field that slices \
                             look at",
                            netloom_openflow::text::print_action(action)
                        ),
                        example: Some(Example::of(cube)),
                    });
                }
                self.action(action, &mut packets)?;
            }
        }
        Ok(())
    }

    fn actions(&self, actions: &[Action], packets: &mut Packets) -> Proved {
        actions.iter().try_for_each(|action| self.action(action, packets))
    }

    fn action(&self, action: &Action, packets: &mut Packets) -> Proved {
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
                Ok(())
            }
        }
    }

    /// Whether a field that the slice's spaces look at has changed, or they were not of the slice before.
    fn rewritten(&self, packets: &Packets) -> bool {
        let Some(own) = self.slicing.region(self.slice).filter(|_| !packets.strange) else {
            return true;
        };
        let looks = |field: &Field| own.cubes.iter().any(|cube| cube.get(*field).1 != 0);
        packets.written.iter().any(looks)
    }

    /// By the port of arrival.
    fn back(&self, packets: &Packets) -> Proved {
        match packets.now.exact(Field::InPort).and_then(|port| u32::try_from(port).ok()) {
            Some(port) => self.leaves(PortNumber(port), packets),
            None => self.ports.iter().try_for_each(|port| self.leaves(*port, packets)),
        }
    }

    /// By a port.
    fn leaves(&self, port: PortNumber, packets: &Packets) -> Proved {
        if !self.ports.contains(&port) && !fault::is(Fault::Ports) {
            return Err(Breach {
                reason: Reason::BadActionBadOutPort,
                words: format!("port {port} of the switch is not in the slice"),
                example: Some(Example::of(&packets.origin)),
            });
        }
        let mut there = packets.now.clone();
        there.assign(Field::InPort, u128::from(port.0));
        if let Some((name, part)) = self.of_others(&there) {
            return Err(self.breach(packets, port, &part, &format!("is of slice {name:?} there")));
        }
        if self.rewritten(packets)
            && !fault::is(Fault::Rewrite)
            && let Some(part) = self.lacks(&there)
        {
            return Err(self.breach(packets, port, &part, "is not of the slice there"));
        }
        Ok(())
    }

    /// Packets of a cube that are another slice's, and its name.
    fn of_others(&self, cube: &Cube) -> Option<(String, Cube)> {
        if fault::is(Fault::Others) {
            return None;
        }
        let others = self.slicing.numbers().filter(|id| *id != self.slice);
        others.into_iter().find_map(|id| {
            let region = self.slicing.region(id)?;
            let part = region.cubes.iter().filter_map(|other| other.and(cube));
            let part = part.into_iter().find(Cube::is_possible)?;
            Some((self.slicing.slice(id)?.name.clone(), part))
        })
    }

    /// They have to be of the slice still.
    fn stays(&self, packets: &Packets, what: &str) -> Proved {
        if !self.rewritten(packets) || fault::is(Fault::Boundary) {
            return Ok(());
        }
        let Some(part) = self.lacks(&packets.now) else { return Ok(()) };
        let words = format!("changed to {}, it {what} outside of the slice", Example::of(&part));
        let example = Some(Example::of(&packets.before(&part)));
        Err(Breach { reason: Reason::BadActionEperm, words, example })
    }

    fn breach(&self, packets: &Packets, port: PortNumber, part: &Cube, what: &str) -> Breach {
        let leaving = Example { in_port: None, ..Example::of(part) };
        Breach {
            reason: Reason::BadActionEperm,
            words: format!("it would leave by port {port} as {leaving}, which {what}"),
            example: Some(Example::of(&packets.before(part))),
        }
    }
}

fn unknown() -> Breach {
    Breach {
        reason: Reason::BadActionBadExperimenter,
        words: "nothing can be proved of an experimenter's action".to_owned(),
        example: None,
    }
}

/// The order of an action set (section 5.10); where there are several of a kind, all of them, the last at the end.
fn ordered(written: &[Action]) -> Vec<Action> {
    let order = |action: &Action| match action {
        Action::CopyTtlIn => (0, 0),
        Action::PopVlan | Action::StripVlan => (1, 0),
        Action::PopMpls(_) => (1, 1),
        Action::PopPbb => (1, 2),
        Action::PushMpls(_) => (2, 0),
        Action::PushPbb(_) => (3, 0),
        Action::PushVlan(_) => (4, 0),
        Action::CopyTtlOut => (5, 0),
        Action::DecNwTtl | Action::DecMplsTtl => (6, 0),
        Action::SetField(oxm) => (7, oxm.field.number()),
        Action::SetQueue(_) => (8, 0),
        Action::Group(_) => (9, 0),
        Action::Output { .. } | Action::Enqueue { .. } => (10, 0),
        _ => (7, u8::MAX),
    };
    let mut all = written.to_vec();
    all.sort_by_key(order);
    all
}
