//! A wire of programs: diverts an interface's frames through a tap and back.
//!
//! A [`Splice`] holds the programs and maps of one network namespace. [`Splice::insert`] diverts
//! the frames through an interface in one direction to a tap, whose descriptor a process reads;
//! [`Splice::attach_tap`] leads the frames that the process writes to a tap back to the interface,
//! where they continue as if nothing had happened. Frames stay whole (a tap with `IFF_VNET_HDR` and
//! full `TUNSETOFFLOAD` passes super-frames and unfinished checksums) and keep their VLAN tag,
//! which the tap shows as part of the frame. Connections over the link are not disturbed.
//!
//! * A tap that is missing or down loses its frames: a link whose wire died stands still. A new tap
//!   with the same index carries again after [`Splice::attach_tap`].
//! * At ingress, packet sockets for all protocols (captures) see a frame twice, entering and
//!   leaving the wire: they run before all programs. At egress they see it once, leaving the wire.
//! * On a [protected](crate::protect) interface, protection comes first, and once.
//! * Frames on their way from a tap back to an interface carry the mark [`MARK`]. Only a process that
//!   may administer the namespace's network could send with that mark and so bypass a wire at egress.

use crate::Result;
use crate::attach::{self, Direction, Hook, Order};
use crate::load::{Loaded, Part, set_entries};
use crate::map::{Map, pair, unpair};
use crate::program::Program;

const PART: Part = Part {
    name: "wires of programs",
    object: include_bytes!(concat!(env!("OUT_DIR"), "/wire.bpf.o")),
};
const IN: &str = "nl_wire_in";
const OUT: &str = "nl_wire_eg";
const TAP: &str = "nl_wire_tap";
const WAYS: &str = "nl_wire_ways";
const WORD: usize = size_of::<u64>();
/// The code of a tap, beside the directions: `NL_WIRE_TAP`.
const AT_TAP: u32 = 2;
/// Words of `struct nl_wire_way`.
const WAY_WORDS: usize = 2;
/// Room for wires in the namespace of one node.
const SMALL: u32 = 64;

/// The mark of frames between a tap and their interface: `NL_WIRE_MARK`, "nlwr" in ASCII.
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
    /// [`crate::Error::Unsupported`] if the kernel or the user lacks something.
    pub fn create() -> Result<Self> {
        Self::create_by(Hook::probe())
    }

    /// The same with a chosen hook.
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
    /// Another version's programs are attached, or the interface cannot be queried.
    pub fn reopen(ifindex: u32) -> Result<Option<Self>> {
        let mut found = attach::find(ifindex, Direction::Ingress, IN)?;
        if found.is_none() {
            found = attach::find(ifindex, Direction::Egress, OUT)?;
        }
        let Some((hook, program)) = found else { return Ok(None) };
        let ways = program.map(WAYS, WORD, WORD * WAY_WORDS)?;
        // A program attached nowhere is gone, so all are loaded again, with the map in use.
        Self::of(&load(None, Some(&ways))?, hook).map(Some)
    }

    /// The hook by which its programs are attached.
    pub fn hook(&self) -> Hook {
        self.hook
    }

    /// Diverts the frames through an interface in this direction to the tap, from now on; replaces
    /// a tap used so far.
    ///
    /// # Errors
    /// There is no such interface, or another splice is attached to it ([`crate::Error::Exists`]).
    pub fn insert(&self, ifindex: u32, direction: Direction, tap: u32) -> Result<()> {
        // The program before the way, so that no frame is diverted before its way back is known.
        attach::attach(self.hook, self.at(direction), ifindex, direction, Order::Last)?;
        let key = pair(ifindex, direction.word());
        // The interface's MAC is kept: frames of the new wire need it as well.
        let [_, own] = self.ways.get(&key)?.unwrap_or([0; WAY_WORDS]);
        self.put(key, (tap, 0), own)
    }

    /// Lets what arrives at an interface leave by another, from now on: by one that it is joined to like
    /// the other end of a cable, or by a tap.
    ///
    /// # Errors
    /// As [`Splice::insert`].
    pub fn lead(&self, from: u32, to: u32) -> Result<()> {
        self.insert(from, Direction::Ingress, to)
    }

    /// Lets what is written to a tap leave by an interface of a joined pair. It comes to another namespace there, where no
    /// mark comes along.
    ///
    /// # Errors
    /// There is no such tap, or another splice is attached to it ([`crate::Error::Exists`]).
    pub fn lead_tap(&self, tap: u32, to: u32) -> Result<()> {
        self.put(pair(tap, AT_TAP), (to, Direction::Egress.word()), 0)?;
        self.attach_at_tap(tap)
    }

    /// Leads frames written to a tap to an interface: with [`Direction::Ingress`] as if they had
    /// arrived there, with [`Direction::Egress`] out of it. Call it again for a recreated tap.
    ///
    /// # Errors
    /// There is no such tap, or another splice is attached to it ([`crate::Error::Exists`]).
    pub fn attach_tap(&self, tap: u32, ifindex: u32, direction: Direction) -> Result<()> {
        // Frames that come back need the program that removes their mark.
        attach::attach(self.hook, self.at(direction), ifindex, direction, Order::Last)?;
        self.put(pair(tap, AT_TAP), (ifindex, direction.word()), 0)?;
        self.attach_at_tap(tap)
    }

    /// By clsact where the kernel has it: each attachment by tcx waits until all CPUs have passed through the scheduler, under
    /// the lock of all links (`tcx_entry_sync`). Nothing else is attached to a tap, so that the order does not matter.
    fn attach_at_tap(&self, tap: u32) -> Result<()> {
        let by = |hook| attach::attach(hook, &self.tap, tap, Direction::Ingress, Order::Last);
        by(Hook::Clsact).or_else(|refused| match self.hook {
            Hook::Tcx => by(Hook::Tcx),
            Hook::Clsact => Err(refused),
        })
    }

    /// Lets frames pass directly again, at once. Frames in the wire still come through its tap: that side
    /// stays until the tap goes; the program stays for the next wire. Returns whether there was one.
    ///
    /// # Errors
    /// The map cannot be written.
    pub fn remove(&self, ifindex: u32, direction: Direction) -> Result<bool> {
        let key = pair(ifindex, direction.word());
        let Some([way, own]) = self.ways.get(&key)? else { return Ok(false) };
        let (tap, _) = unpair(way.to_ne_bytes());
        // The entry stays with the MAC, which frames still in the wire need on their way back.
        self.put(key, (0, 0), own)?;
        Ok(tap != 0)
    }

    /// The tap of an interface's wire, if there is one.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn tap_of(&self, ifindex: u32, direction: Direction) -> Result<Option<u32>> {
        let found = self.ways.get(&pair(ifindex, direction.word()))?;
        Ok(found.map(|[way, _]| unpair(way.to_ne_bytes()).0).filter(|tap| *tap != 0))
    }

    /// Forgets an interface or a tap that is gone, so that its index may be reused.
    ///
    /// # Errors
    /// The map cannot be written.
    pub fn forget(&self, ifindex: u32) -> Result<()> {
        for at in [Direction::Ingress.word(), Direction::Egress.word(), AT_TAP] {
            self.ways.remove(&pair(ifindex, at))?;
        }
        Ok(())
    }

    /// Detaches the programs from an interface about to leave this namespace: they would go with
    /// it, and its index would mean another interface there. Frames pass directly from then on.
    ///
    /// # Errors
    /// The interface cannot be queried, or a program cannot be detached.
    pub fn leave(&self, ifindex: u32) -> Result<()> {
        self.forget(ifindex)?;
        Self::strip(ifindex)
    }

    /// The same for an interface that came from another namespace with that namespace's programs on it.
    ///
    /// # Errors
    /// As [`Splice::leave`].
    pub fn strip(ifindex: u32) -> Result<()> {
        for (direction, name) in [(Direction::Ingress, IN), (Direction::Egress, OUT)] {
            // After a reopen the attached program is another than the loaded one.
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

/// Loads and unloads the programs: whether the kernel accepts them.
pub(crate) fn probe() -> Result<()> {
    load(Some(SMALL), None).map(drop)
}

fn load(entries: Option<u32>, ways: Option<&Map>) -> Result<Loaded> {
    PART.load(|open| {
        if let Some(entries) = entries {
            // A wire has one entry for the interface and one for its tap.
            set_entries(open, WAYS, entries * 2)?;
        }
        match (ways, open.maps_mut().find(|map| map.name() == WAYS)) {
            (Some(ways), Some(mut map)) => map.reuse_fd(ways.fd()),
            _ => Ok(()),
        }
    })
}
