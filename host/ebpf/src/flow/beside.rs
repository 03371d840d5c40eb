//! Ports with a tap beside them: frames without a result leave by the tap, and what its reader writes leaves by the port.
//!
//! So a switch that is more than programs (rings of processes, guests) goes on in its processes, with the same bytes and
//! offloads, and programs take over what they know. The program tells how such frames begin, at a rate, so that there may
//! be a result for the next ones; frames of ports are counted here, since nobody else sees those that programs forward.

use std::sync::atomic::Ordering;

use netloom_bridge::{Retag, Tpid};
use netloom_openflow::Field;
use netloom_pipeline::FlowKey;
use rustix::mm::ProtFlags;

use super::list::List;
use super::near::Near;
use super::{Flow, Limit, PORT_WORDS, PROGRAM};
use crate::attach::{self, Direction, Order};
use crate::map::{Map, pair};
use crate::memory::Mapping;
use crate::program::Program;
use crate::{Error, Result};

/// The program at a tap.
pub(super) const OUT: &str = "nl_flow_out";
pub(super) const CARRIED: &str = "nl_fl_carried";
/// The number of a tap, which is not a port: `NL_FL_NONE`.
pub(super) const TAP: u32 = u32::MAX;
/// Numbers of ports: `NL_FL_PORTS`.
const PORTS: u32 = 256;
/// Bytes of `struct nl_fl_carried`.
const BYTES: usize = 64;
/// Tags that programs can add: the kernel's `bpf_skb_vlan_push` makes any other type one of 802.1Q.
const ADDED: [Tpid; 2] = [Tpid::CUSTOMER, Tpid::SERVICE];

/// Entries of the map of counters.
pub(super) fn carried_places(cpus: u32) -> u32 {
    cpus * PORTS
}

/// Frames that programs forwarded from a port and to it. A super-frame counts as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Sent by what is at the port.
    pub sent: u64,
    /// Their bytes, as they came.
    pub sent_bytes: u64,
    /// Super-frames among them.
    pub sent_super: u64,
    /// Received by what is at the port.
    pub received: u64,
    /// Their bytes, as they left.
    pub received_bytes: u64,
    /// Super-frames among them.
    pub received_super: u64,
}

/// The counters of all ports, of each CPU.
#[derive(Debug)]
pub(super) struct Counters {
    memory: Mapping,
    places: u32,
}

impl Counters {
    pub(super) fn map(map: &dyn Fn(&'static str) -> Result<Map>) -> Result<Counters> {
        let map = map(CARRIED)?;
        if !map.is_of(4, BYTES) {
            return Err(Error::Foreign { program: PROGRAM, map: CARRIED });
        }
        let places = map.entries();
        let length = BYTES * usize::try_from(places).unwrap_or(0);
        let access = ProtFlags::READ | ProtFlags::WRITE;
        Ok(Counters { memory: Mapping::of(map.fd(), CARRIED, length, access)?, places })
    }

    fn cells(&self, port: u32) -> impl Iterator<Item = usize> {
        (0..self.places / PORTS)
            .map(move |cpu| BYTES * usize::try_from(cpu * PORTS + port % PORTS).unwrap_or(0))
    }

    fn read(&self, port: u32) -> Carried {
        let mut sum = [0; 6];
        for cell in self.cells(port) {
            for (at, word) in sum.iter_mut().enumerate() {
                *word += self.memory.word(cell + 8 * at).load(Ordering::Relaxed);
            }
        }
        let [sent, sent_bytes, sent_super, received, received_bytes, received_super] = sum;
        Carried { sent, sent_bytes, sent_super, received, received_bytes, received_super }
    }

    fn clear(&self, port: u32) {
        for cell in self.cells(port) {
            (0..6).for_each(|at| self.memory.word(cell + 8 * at).store(0, Ordering::Relaxed));
        }
    }
}

/// Whether programs can tell a frame with this key from those that a switch treats in another way: it has one tag at most, and
/// of a type that the key shows.
pub fn one_tag_at_most(key: &FlowKey, frame: &[u8]) -> bool {
    let kind = u16::try_from(key.get(Field::EthType)).unwrap_or(u16::MAX);
    let inner = frame.get(16..18).map(|at| u16::from_be_bytes([at[0], at[1]]));
    let tagged = key.get(Field::VlanVid) != 0;
    // What is behind the tag is the key's type, or a length in front of one (IEEE 802.3).
    let alone = !tagged || inner.is_some_and(|inner| Tpid::new(inner).is_none());
    Tpid::new(kind).is_none() && alone
}

impl List {
    /// What a switch does for a frame with such a key that it gives to one port, whose interface and number these are, in
    /// this form. `None` if programs cannot.
    pub fn retagged(how: Retag, (interface, port): (u32, u32)) -> Option<List> {
        let mut list = List::one_tag();
        match how {
            Retag::Keep => {}
            Retag::Pop => list.pop_bare(),
            Retag::Replace(tci) => list.set_tag(tci, 0x0fff),
            Retag::Push(tpid, tci) if ADDED.contains(&tpid) => {
                list.push_tag(tpid.number());
                // A new tag begins with the content of the one around which it comes.
                list.set_tag(tci, 0xffff);
            }
            Retag::Push(..) => return None,
        }
        list.send(interface, port);
        Some(list)
    }
}

impl Flow {
    /// The bits of a key by which [`List::retagged`] holds: the port, both addresses, the type and the tag.
    pub fn bridged_mask() -> FlowKey {
        let mut mask = FlowKey::default();
        mask.0[0] = u64::from(u32::MAX) << 32;
        (mask.0[3], mask.0[4]) = (u64::MAX, u64::MAX);
        mask
    }

    /// The kernel's numbers of the programs, for [`Attacher::of`].
    ///
    /// # Errors
    /// The kernel does not tell, or the programs are not all at hand.
    pub fn programs(&self) -> Result<[u32; 2]> {
        let out = self.out.as_ref().ok_or(Error::Foreign { program: OUT, map: CARRIED })?;
        Ok([self.program.id()?, out.id()?])
    }

    /// Finds the fast path that an interface and the tap beside it are a port of, as [`Flow::reopen`] does.
    ///
    /// # Errors
    /// As [`Flow::reopen`].
    pub fn reopen_beside((ifindex, tap): (u32, u32)) -> Result<Option<Flow>> {
        let Some(flow) = Flow::reopen(ifindex)? else { return Ok(None) };
        let found = attach::find(tap, Direction::Ingress, OUT)?;
        // Without the tap's program no further port can be attached: the caller makes new ones.
        Ok(found.map(|(_, out)| Flow { out: Some(out), ..flow }))
    }

    /// What programs forwarded from and to a port with a tap beside it.
    pub fn carried(&self, port: u32) -> Carried {
        self.carried.read(port)
    }

    /// Counts a port from zero, whose number another one had.
    pub fn clear_carried(&self, port: u32) {
        self.carried.clear(port);
    }
}

/// Makes interfaces ports of a switch whose results another process keeps: attaching needs rights that the process
/// which keeps results has given up.
#[derive(Debug)]
pub struct Attacher {
    program: Program,
    out: Program,
    ports: Map,
    near: Near,
}

impl Attacher {
    /// Of the programs with these numbers ([`Flow::programs`]); `None` if they are gone.
    ///
    /// # Errors
    /// They are others, or of another version.
    pub fn of([program, out]: [u32; 2]) -> Result<Option<Attacher>> {
        let program = Program::open(program, PROGRAM)?;
        let (Some(program), Some(out)) = (program, Program::open(out, OUT)?) else {
            return Ok(None);
        };
        let ports = program.map(super::PORTS, 4, PORT_WORDS * 8)?;
        let near = Near::map(&|name| program.map_named(name))?;
        Ok(Some(Attacher { program, out, ports, near }))
    }

    /// Has frames that are written to a tap of the calling thread's network namespace leave by the interface beside it. The
    /// tap may be down: an interface that is not up gets its programs sooner.
    ///
    /// # Errors
    /// The interface is gone, or cannot have programs.
    pub fn attach_tap(&self, (ifindex, tap): (u32, u32)) -> Result<()> {
        let mut words = [0; PORT_WORDS];
        words[0] = u64::from_ne_bytes(pair(TAP, ifindex));
        self.ports.put(&tap.to_ne_bytes(), &words)?;
        Attacher::replacing(
            || attach::attach_first(&self.out, tap, Direction::Ingress, Order::Last),
            (ifindex, tap),
        )
    }

    /// Makes an interface of the calling thread's network namespace a port with that tap beside it. Its frames are taken from
    /// now on, also if they were by programs of a process that could not be taken over.
    ///
    /// # Errors
    /// The interface is gone, or cannot have programs.
    pub fn attach(&self, (ifindex, tap): (u32, u32), port: u32, limit: Limit) -> Result<()> {
        super::put_port((&self.ports, &self.near), ifindex, (port, tap), limit)?;
        Attacher::replacing(
            || attach::attach_first(&self.program, ifindex, Direction::Ingress, Order::End),
            (ifindex, tap),
        )
    }

    /// Attaches in the place of programs of another switch's process.
    fn replacing(attach: impl Fn() -> Result<()>, at: (u32, u32)) -> Result<()> {
        match attach() {
            Err(Error::Exists { .. }) => {
                Attacher::strip(at)?;
                attach()
            }
            other => other,
        }
    }

    /// Takes the programs of any switch off an interface, and off the tap beside it if that is there.
    ///
    /// # Errors
    /// A program cannot be detached.
    pub fn strip((ifindex, tap): (u32, u32)) -> Result<()> {
        for (index, name, order) in [(ifindex, PROGRAM, Order::End), (tap, OUT, Order::Last)] {
            // An interface that is gone cannot be asked, and has no programs.
            if let Ok(Some((hook, program))) = attach::find(index, Direction::Ingress, name) {
                attach::detach(hook, &program, index, Direction::Ingress, order)?;
            }
        }
        Ok(())
    }

    /// Ends that; the interfaces may be gone.
    ///
    /// # Errors
    /// The map cannot be written, or the program cannot be detached.
    pub fn detach(&self, (ifindex, tap): (u32, u32)) -> Result<()> {
        self.forget((ifindex, tap))?;
        if let Some((hook, program)) = attach::find(ifindex, Direction::Ingress, PROGRAM)?
            && program.same_maps(&self.program)?
        {
            attach::detach(hook, &program, ifindex, Direction::Ingress, Order::End)?;
        }
        Ok(())
    }

    /// Forgets a port whose interfaces are gone, so that their indexes may be used again.
    ///
    /// # Errors
    /// The map cannot be written.
    pub fn forget(&self, (ifindex, tap): (u32, u32)) -> Result<()> {
        self.near.remove(ifindex);
        self.ports.remove(&tap.to_ne_bytes())?;
        self.ports.remove(&ifindex.to_ne_bytes()).map(drop)
    }

    /// The ports: their interfaces' indices and their numbers.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn ports(&self) -> Result<Vec<(u32, u32)>> {
        super::ports_in(&self.ports)
    }
}
