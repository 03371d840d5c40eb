//! A wire put into a running link: frames of an interface are led through a tap and back.
//!
//! A [`Splice`] is the programs and maps of one network namespace. [`Splice::insert`] leads what goes
//! through an interface in one direction out by a tap, whose descriptor a process reads;
//! [`Splice::attach_tap`] leads what that process writes to a tap back to the interface, from where it goes
//! on as if nothing had been. Frames go whole (a tap with `IFF_VNET_HDR` and all of `TUNSETOFFLOAD` gives
//! and takes segments to be cut up and unfinished checksums) and keep their VLAN tag, which the tap
//! shows as part of the frame. Connections that run over the link are not disturbed.
//!
//! * A tap that is missing or down loses its frames: a link whose wire died stands still. Made anew with
//!   the same index it carries again after [`Splice::attach_tap`].
//! * At ingress, packet sockets for all protocols (captures) see a frame twice, as it goes into the wire and
//!   as it comes out: they stand before all programs. At egress they see it once, as it comes out.
//! * Where an interface is [protected](crate::protect), that comes first, and once.
//! * Frames that go back to an interface carry the mark [`MARK`] on the way from the tap. Only a process
//!   that may administer the namespace's network could send with that mark and so past a wire at egress.

use crate::Result;
use crate::attach::{self, Direction, Hook, Order};
use crate::load::{Loaded, Part, set_entries};
use crate::map::{Map, pair, unpair};
use crate::program::Program;

const PART: Part = Part {
    name: "wires in running links",
    object: include_bytes!(concat!(env!("OUT_DIR"), "/wire.bpf.o")),
};
const IN: &str = "nl_wire_in";
const OUT: &str = "nl_wire_eg";
const TAP: &str = "nl_wire_tap";
const WAYS: &str = "nl_wire_ways";
const WORD: usize = size_of::<u64>();
/// The place of a tap among directions: `NL_WIRE_TAP`.
const AT_TAP: u32 = 2;
/// Words of `struct nl_wire_way`.
const WAY_WORDS: usize = 2;
/// Wires that a namespace of one node has room for.
const SMALL: u32 = 64;

/// The mark of frames between a tap and the interface that they go back to: `NL_WIRE_MARK`.
pub const MARK: u32 = 0x6e6c_7772;

/// The wires of one network namespace. Dropping it changes nothing.
#[derive(Debug)]
pub struct Splice {
    hook: Hook,
    ingress: Program,
    egress: Program,
    tap: Program,
    ways: Map,
}

impl Splice {
    /// Loads the programs, with room for a lab's core: 16,384 wires.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where the kernel or the user lacks something.
    pub fn create() -> Result<Self> {
        Self::create_by(Hook::probe())
    }

    /// The same by a chosen way of the kernel's.
    ///
    /// # Errors
    /// As [`Splice::create`].
    pub fn create_by(hook: Hook) -> Result<Self> {
        Self::of(&load(None, None)?, hook)
    }

    /// The same with small tables, for the namespace of one node: 64 wires.
    ///
    /// # Errors
    /// As [`Splice::create`].
    pub fn create_small() -> Result<Self> {
        Self::of(&load(Some(SMALL), None)?, Hook::probe())
    }

    fn of(loaded: &Loaded, hook: Hook) -> Result<Self> {
        Ok(Self {
            hook,
            ingress: loaded.program(IN)?,
            egress: loaded.program(OUT)?,
            tap: loaded.program(TAP)?,
            ways: loaded.map(WAYS)?,
        })
    }

    /// Finds the splice of an interface that has or had a wire; `None` if it never had one.
    ///
    /// # Errors
    /// Another version's programs are attached; the interface cannot be asked.
    pub fn reopen(ifindex: u32) -> Result<Option<Self>> {
        let mut found = attach::find(ifindex, Direction::Ingress, IN)?;
        if found.is_none() {
            found = attach::find(ifindex, Direction::Egress, OUT)?;
        }
        let Some((hook, program)) = found else { return Ok(None) };
        let ways = program.map(WAYS, WORD, WORD * WAY_WORDS)?;
        // A program that is attached nowhere is gone. So all are loaded anew, with the map in use.
        Self::of(&load(None, Some(&ways))?, hook).map(Some)
    }

    /// By which way its programs are attached.
    pub fn hook(&self) -> Hook {
        self.hook
    }

    /// Leads the frames that go through an interface in this direction out by the tap instead, from now
    /// on; by another tap if they went by one already.
    ///
    /// # Errors
    /// There is no such interface; another splice is attached to it ([`Error::Exists`]).
    pub fn insert(&self, ifindex: u32, direction: Direction, tap: u32) -> Result<()> {
        // First the program and then the way, so that nothing is led before its way back is known.
        attach::attach(self.hook, self.at(direction), ifindex, direction, Order::Last)?;
        let key = pair(ifindex, direction.word());
        let [_, own] = self.ways.get(&key)?.unwrap_or([0; WAY_WORDS]);
        self.put(key, (tap, 0), own)
    }

    /// Leads what is written to a tap to an interface: with [`Direction::Ingress`] as if it had come in
    /// there, with [`Direction::Egress`] out of it. To be called again for a tap that was made anew.
    ///
    /// # Errors
    /// There is no such tap; another splice is attached to it ([`Error::Exists`]).
    pub fn attach_tap(&self, tap: u32, ifindex: u32, direction: Direction) -> Result<()> {
        // What comes back must find the program that takes its mark off.
        attach::attach(self.hook, self.at(direction), ifindex, direction, Order::Last)?;
        self.put(pair(tap, AT_TAP), (ifindex, direction.word()), 0)?;
        attach::attach(self.hook, &self.tap, tap, Direction::Ingress, Order::Last)
    }

    /// Lets frames pass directly again, at once. What is in the wire still comes through its tap: that
    /// side stays until the tap goes, and so does the program, for the next wire. Whether there was one.
    ///
    /// # Errors
    /// The map cannot be written.
    pub fn remove(&self, ifindex: u32, direction: Direction) -> Result<bool> {
        let key = pair(ifindex, direction.word());
        let Some([way, own]) = self.ways.get(&key)? else { return Ok(false) };
        let (tap, _) = unpair(way.to_ne_bytes());
        self.put(key, (0, 0), own)?;
        Ok(tap != 0)
    }

    /// The tap by which an interface's frames go, if a wire is there.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn tap_of(&self, ifindex: u32, direction: Direction) -> Result<Option<u32>> {
        let found = self.ways.get(&pair(ifindex, direction.word()))?;
        Ok(found.map(|[way, _]| unpair(way.to_ne_bytes()).0).filter(|tap| *tap != 0))
    }

    /// Forgets an interface or a tap that is gone, so that its index may be another's.
    ///
    /// # Errors
    /// The map cannot be written.
    pub fn forget(&self, ifindex: u32) -> Result<()> {
        for at in [Direction::Ingress.word(), Direction::Egress.word(), AT_TAP] {
            self.ways.remove(&pair(ifindex, at))?;
        }
        Ok(())
    }

    /// Takes the programs off an interface that is about to leave this namespace: they would go with it,
    /// and its index mean another there. Frames pass directly from then on.
    ///
    /// # Errors
    /// The interface cannot be asked; a program cannot be detached.
    pub fn leave(&self, ifindex: u32) -> Result<()> {
        self.forget(ifindex)?;
        Self::strip(ifindex)
    }

    /// The same for an interface that came from another namespace with that one's programs on it.
    ///
    /// # Errors
    /// As [`Splice::leave`].
    pub fn strip(ifindex: u32) -> Result<()> {
        for (direction, name) in [(Direction::Ingress, IN), (Direction::Egress, OUT)] {
            // After a reopening the attached one is not the one at hand.
            if let Some((hook, program)) = attach::find(ifindex, direction, name)? {
                attach::detach(hook, &program, ifindex, direction, Order::Last)?;
            }
        }
        Ok(())
    }

    fn at(&self, direction: Direction) -> &Program {
        match direction {
            Direction::Ingress => &self.ingress,
            Direction::Egress => &self.egress,
        }
    }

    fn put(&self, key: [u8; 8], (to, at): (u32, u32), own: u64) -> Result<()> {
        self.ways.put(&key, &[u64::from_ne_bytes(pair(to, at)), own])
    }
}

/// Loads the programs and lets go of them: whether the kernel takes them.
pub(crate) fn probe() -> Result<()> {
    load(Some(SMALL), None).map(drop)
}

fn load(entries: Option<u32>, ways: Option<&Map>) -> Result<Loaded> {
    PART.load(|open| {
        if let Some(entries) = entries {
            // A wire has a place at the interface and one at its tap.
            set_entries(open, WAYS, entries * 2)?;
        }
        match (ways, open.maps_mut().find(|map| map.name() == WAYS)) {
            (Some(ways), Some(mut map)) => map.reuse_fd(ways.fd()),
            _ => Ok(()),
        }
    })
}
