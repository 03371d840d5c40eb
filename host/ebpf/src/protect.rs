//! Flood protection: frames to a node beyond its budget are dropped before they cost the node anything.
//!
//! A [`Shield`] holds the programs and maps of one network namespace. It protects interfaces: a
//! switch's port, where frames leave toward the node ([`Direction::Egress`]), or, on a link without
//! a switch, the node's own interface, where they arrive ([`Direction::Ingress`]). Both run on the
//! sender's CPU time, and packet sockets that bypass the sender's own egress do not bypass them.
//! All interfaces of a node in the namespace share its budget.
//!
//! Ports by which a protected node's neighbours enter its switch can be [gates](Shield::gate): they look
//! ahead, and drop what would be dropped at the node's port anyway before the switch forwards it.
//!
//! On a switch's ports the senders share the budget fairly: a sender within its share, the budget
//! divided by the number of recent senders, always passes; the rest is first come, first served.
//! `bpf/protect/protect.bpf.c` has the full rule. TSO stays on: a super-frame counts as one frame.
//! Frames that come back from a [wire](crate::wire) are not charged twice.

use std::time::Duration;

use crate::attach::{self, Direction, Hook, Order};
use crate::load::{Loaded, Part, set_entries};
use crate::map::{Map, pair, unpair};
use crate::program::Program;
use crate::{Error, Result};

const PART: Part = Part {
    name: "flood protection",
    object: include_bytes!(concat!(env!("OUT_DIR"), "/protect.bpf.o")),
};
const PROGRAM: &str = "nl_protect";
const PORTS: &str = "nl_pr_ports";
const RATES: &str = "nl_pr_rates";
const STATE: &str = "nl_pr_state";
const SENDERS: &str = "nl_pr_senders";
const GATES: &str = "nl_pr_gates";
const OWNERS: &str = "nl_pr_owners";
/// Words of `struct nl_pr_state`, `nl_pr_rate` and `nl_pr_sender`.
const STATE_WORDS: usize = 6;
const RATE_WORDS: usize = 6;
const SENDER_WORDS: usize = 9;
const WORD: usize = size_of::<u64>();

/// Where a node is protected: `NL_PR_AT_NODE`, `NL_PR_AT_PORT`, `NL_PR_AT_PLUG`.
const AT_NODE: u32 = 0;
const AT_PORT: u32 = 1;
const AT_PLUG: u32 = 2;

/// Room for interfaces, nodes and pairs of node and sender in the namespace of one node.
const SMALL: u32 = 64;
/// Ticks in a second: `NL_PR_TICK_BITS`.
const TICKS: u128 = 1_000_000_000 << 6;
/// Costs are in 2^-20 ticks: `NL_PR_COST_BITS`.
const COST_BITS: u32 = 20;
/// The time's worth of its budget that a node may get at once,
const BURST: Duration = Duration::from_millis(10);
/// but at least this many frames
const BURST_FRAMES: u128 = 64;
/// and this many bytes.
const BURST_BYTES: u128 = 256 << 10;

/// Frames of one step under a flood: half of a veth's receive queue.
const STEP_FRAMES: u128 = 128;
/// Steps of 0.13 to 4.2 ms: shorter ones have no effect, longer ones exceed the bursts.
const STEPS: std::ops::RangeInclusive<u32> = 17..=22;

/// A node's receive budget; `None` means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// Frames a second; a super-frame counts as one. At least 1.
    pub frames: Option<u64>,
    /// Bytes of frames a second, including Ethernet headers. At least 10,000.
    pub bytes: Option<u64>,
}

impl Budget {
    /// The lowest limit in bytes a second.
    pub const LEAST_BYTES: u64 = 10_000;

    /// `struct nl_pr_rate`: cost of a frame, of a byte, both bursts in ticks, the version (left 0),
    /// and the steps.
    fn words(&self) -> [u64; RATE_WORDS] {
        let frames = self.frames.map(|rate| u128::from(rate.max(1)));
        let bytes = self.bytes.map(|rate| u128::from(rate.max(Self::LEAST_BYTES)));
        let cost = |rate: u128| narrow(((TICKS << COST_BITS) / rate).max(1));
        let least = TICKS * BURST.as_millis() / 1000;
        let burst = |rate: u128, units: u128| narrow((units * TICKS / rate).max(least));
        [
            frames.map_or(0, cost),
            bytes.map_or(0, cost),
            frames.map_or(0, |rate| burst(rate, BURST_FRAMES)),
            bytes.map_or(0, |rate| burst(rate, BURST_BYTES)),
            0,
            u64::from(step_bits(self.frames)),
        ]
    }
}

/// Length of the steps in which buckets fill, as a power of two in nanoseconds: the time of
/// [`STEP_FRAMES`] at `frames` a second, which fit a receiver's queue, within [`STEPS`].
fn step_bits(frames: Option<u64>) -> u32 {
    let frames = u128::from(frames.unwrap_or(u64::MAX).max(1));
    let longest = (STEP_FRAMES * 1_000_000_000 / frames).max(1);
    longest.ilog2().clamp(*STEPS.start(), *STEPS.end())
}

fn narrow(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

/// Frames and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Frames; a super-frame counts as one.
    pub frames: u64,
    /// Their bytes, including Ethernet headers.
    pub bytes: u64,
}

impl Count {
    fn add(&mut self, other: Count) {
        self.frames += other.frames;
        self.bytes += other.bytes;
    }
}

/// Counters of the frames to one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Protection {
    /// Frames that passed.
    pub passed: Count,
    /// Frames that were dropped.
    pub dropped: Count,
    /// The same by sender, ordered by index.
    pub senders: Vec<Sender>,
}

/// A sender to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    /// The interface by which its frames entered the namespace. Where none tells, at a node's own
    /// interface and for frames of the namespace's own processes: [`sender_of_mac`]. 0 if unknown.
    pub ifindex: u32,
    /// Frames that passed.
    pub passed: Count,
    /// Frames that were dropped.
    pub dropped: Count,
}

/// What stands for a sender that is known by the source address of its frames: the end of the address.
pub fn sender_of_mac(mac: [u8; 6]) -> u32 {
    let [_, _, a, b, c, d] = mac;
    u32::from_ne_bytes([a, b, c, d])
}

/// The protected interfaces of one network namespace. Dropping it changes nothing.
#[derive(Debug)]
pub struct Shield {
    hook: Hook,
    program: Program,
    ports: Map,
    rates: Map,
    state: Map,
    senders: Map,
    /// Absent in programs of a version that did not look ahead.
    ahead: Option<Ahead>,
}

/// What gates know.
#[derive(Debug)]
struct Ahead {
    gates: Map,
    owners: Map,
}

impl Shield {
    /// Loads the programs, with room for a lab's core: 16,384 interfaces and 65,536 pairs of node
    /// and sender.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the kernel or the user lacks something.
    pub fn create() -> Result<Self> {
        Self::create_by(Hook::probe())
    }

    /// The same with a chosen hook.
    ///
    /// # Errors
    /// As [`Shield::create`].
    pub fn create_by(hook: Hook) -> Result<Self> {
        Self::of(&load(None)?, hook)
    }

    /// The same with small tables, for the namespace of one node: 64 interfaces and senders.
    ///
    /// # Errors
    /// As [`Shield::create`].
    pub fn create_small() -> Result<Self> {
        Self::of(&load(Some(SMALL))?, Hook::probe())
    }

    fn of(loaded: &Loaded, hook: Hook) -> Result<Self> {
        Ok(Self {
            hook,
            program: loaded.program(PROGRAM)?,
            ports: loaded.map(PORTS)?,
            rates: loaded.map(RATES)?,
            state: loaded.map(STATE)?,
            senders: loaded.map(SENDERS)?,
            ahead: Some(Ahead { gates: loaded.map(GATES)?, owners: loaded.map(OWNERS)? }),
        })
    }

    /// Finds the shield that protects an interface; `None` if there is none.
    ///
    /// # Errors
    /// Another version's programs are attached, or the interface cannot be queried.
    pub fn reopen(ifindex: u32, direction: Direction) -> Result<Option<Self>> {
        let Some((hook, program)) = attach::find(ifindex, direction, PROGRAM)? else {
            return Ok(None);
        };
        Ok(Some(Self {
            hook,
            ports: program.map(PORTS, 4, WORD)?,
            rates: program.map(RATES, 4, WORD * RATE_WORDS)?,
            state: program.map(STATE, 4, WORD * STATE_WORDS)?,
            senders: program.map(SENDERS, WORD, WORD * SENDER_WORDS)?,
            ahead: match (program.map(GATES, 4, WORD), program.map(OWNERS, WORD, WORD)) {
                (Ok(gates), Ok(owners)) => Some(Ahead { gates, owners }),
                _ => None,
            },
            program,
        }))
    }

    /// The hook by which its programs are attached.
    pub fn hook(&self) -> Hook {
        self.hook
    }

    /// Protects a node from frames through an interface, and sets the node's budget. An interface
    /// has one protected direction; it may be reassigned to another node.
    ///
    /// # Errors
    /// There is no such interface, or another shield protects it ([`Error::Exists`]).
    pub fn protect(
        &self,
        ifindex: u32,
        direction: Direction,
        node: u32,
        budget: &Budget,
    ) -> Result<()> {
        let at = if direction == Direction::Egress { AT_PORT } else { AT_NODE };
        self.protect_at((ifindex, direction, at), node, budget)
    }

    /// The same at the egress of a switch's port to which a process forwards as well as the kernel: source addresses alone
    /// tell senders apart there.
    ///
    /// # Errors
    /// As [`Shield::protect`].
    pub fn protect_beside(&self, ifindex: u32, node: u32, budget: &Budget) -> Result<()> {
        self.protect_at((ifindex, Direction::Egress, AT_PLUG), node, budget)
    }

    fn protect_at(
        &self,
        (ifindex, direction, at): (u32, Direction, u32),
        node: u32,
        budget: &Budget,
    ) -> Result<()> {
        let before = self.ports.get(&ifindex.to_ne_bytes())?;
        let before = before.map(|[port]| unpair(port.to_ne_bytes()).0);
        // First, since it fails without a trace: until the maps have the interface, the program lets all frames pass.
        attach::attach(self.hook, &self.program, ifindex, direction, Order::First)?;
        if let Err(e) = self.enter((ifindex, at), node, budget) {
            // The first error tells more than one of this.
            let _ = self.forget_unused(node);
            return Err(e);
        }
        match before {
            Some(old) if old != node => {
                // What it owned there, it owned for the other node.
                self.disown(ifindex)?;
                self.forget_unused(old)
            }
            _ => Ok(()),
        }
    }

    /// Writes what the maps have of a protected interface.
    fn enter(&self, (ifindex, at): (u32, u32), node: u32, budget: &Budget) -> Result<()> {
        // Kept if the node is protected elsewhere already: its interfaces share one budget.
        self.state.put_new(&node.to_ne_bytes(), &[0; STATE_WORDS])?;
        // The entry shared by senders that find no entry left must exist first.
        self.senders.put_new(&pair(node, 0), &[0; SENDER_WORDS])?;
        self.put_budget(node, budget)?;
        // Last: from here on the program looks for the others.
        self.ports.put(&ifindex.to_ne_bytes(), &[u64::from_ne_bytes(pair(node, at))])
    }

    /// Makes a port of a switch look ahead for the nodes that [own](Shield::own) addresses on that switch;
    /// `switch` tells the switches of a namespace apart. Does nothing if it does already.
    ///
    /// # Errors
    /// There is no such interface, or another shield has it ([`Error::Exists`]).
    pub fn gate(&self, ifindex: u32, switch: u16) -> Result<()> {
        let Some(ahead) = &self.ahead else { return Ok(()) };
        let value = u64::from_ne_bytes(pair(u32::from(switch), 0));
        ahead.gates.put(&ifindex.to_ne_bytes(), &[value])?;
        let direction = Direction::Ingress;
        attach::attach(self.hook, &self.program, ifindex, direction, Order::First)
    }

    /// Ends that; the interface may be gone. Returns whether it looked ahead.
    ///
    /// # Errors
    /// The map cannot be written, or the program cannot be detached.
    pub fn ungate(&self, ifindex: u32) -> Result<bool> {
        let Some(ahead) = &self.ahead else { return Ok(false) };
        let key = ifindex.to_ne_bytes();
        if !ahead.gates.remove(&key)? {
            return Ok(false);
        }
        // What comes in there may be protected for its own sake.
        if self.ports.get(&key)?.is_some_and(|[port]| unpair(port.to_ne_bytes()).1 == AT_NODE) {
            return Ok(true);
        }
        let direction = Direction::Ingress;
        attach::detach(self.hook, &self.program, ifindex, direction, Order::First)?;
        Ok(true)
    }

    fn is_gate(&self, ifindex: &[u8; 4]) -> Result<bool> {
        let Some(ahead) = &self.ahead else { return Ok(false) };
        Ok(ahead.gates.get::<1>(ifindex)?.is_some())
    }

    /// Forgets a gate whose interface is gone.
    pub fn forget_gate(&self, ifindex: u32) {
        if let Some(ahead) = &self.ahead {
            // There is nothing to do about a map that cannot be written.
            let _ = ahead.gates.remove(&ifindex.to_ne_bytes());
        }
    }

    /// Says that frames to an address on a switch leave by a protected port. It is forgotten when that port's
    /// protection ends.
    ///
    /// # Errors
    /// The interface is not protected ([`Error::Unknown`]), or the map cannot be written.
    pub fn own(&self, ifindex: u32, mac: [u8; 6], switch: u16) -> Result<()> {
        let Some(ahead) = &self.ahead else { return Ok(()) };
        let port = self.ports.get(&ifindex.to_ne_bytes())?;
        let [port] = port.ok_or_else(|| Error::Unknown {
            object: format!("interface {ifindex}"),
            reason: "it is not protected",
        })?;
        let (node, _) = unpair(port.to_ne_bytes());
        let value = u64::from_ne_bytes(pair(node, ifindex));
        ahead.owners.put(&address(mac, switch), &[value])
    }

    /// Forgets the addresses behind a port.
    fn disown(&self, ifindex: u32) -> Result<()> {
        let Some(ahead) = &self.ahead else { return Ok(()) };
        for key in ahead.owners.keys() {
            let found = ahead.owners.get(&key)?;
            if found.is_some_and(|[owner]| unpair(owner.to_ne_bytes()).1 == ifindex) {
                ahead.owners.remove(&key)?;
            }
        }
        Ok(())
    }

    /// Changes a node's budget, at once.
    ///
    /// # Errors
    /// [`Error::Unknown`] if no interface of the node is protected.
    pub fn change(&self, node: u32, budget: &Budget) -> Result<()> {
        self.known(node)?;
        self.put_budget(node, budget)
    }

    /// Stops protecting an interface, which may be gone. A node's budget and counters go with its
    /// last interface. Returns whether it was protected.
    ///
    /// # Errors
    /// The maps cannot be written, or the program cannot be detached.
    pub fn unprotect(&self, ifindex: u32) -> Result<bool> {
        let key = ifindex.to_ne_bytes();
        let Some([port]) = self.ports.get(&key)? else { return Ok(false) };
        let (node, at) = unpair(port.to_ne_bytes());
        let direction = if at == AT_NODE { Direction::Ingress } else { Direction::Egress };
        // First, so that no gate drops for a node whose protection ends.
        self.disown(ifindex)?;
        self.ports.remove(&key)?;
        self.forget_unused(node)?;
        // A gate runs the same program at the same place, so it stays for that.
        if direction == Direction::Ingress && self.is_gate(&key)? {
            return Ok(true);
        }
        // Not urgent: without an entry for the interface the program lets all frames pass.
        attach::detach(self.hook, &self.program, ifindex, direction, Order::First)?;
        Ok(true)
    }

    /// Counters of the frames to a node.
    ///
    /// # Errors
    /// [`Error::Unknown`] if no interface of the node is protected.
    pub fn read(&self, node: u32) -> Result<Protection> {
        self.known(node)?;
        let mut all = Protection::default();
        for (key, ifindex) in self.senders_of(node) {
            let Some(words) = self.senders.get::<SENDER_WORDS>(&key)? else { continue };
            let passed = Count { frames: words[0], bytes: words[1] };
            let dropped = Count { frames: words[2], bytes: words[3] };
            // Each node has the shared entry, used or not.
            if (passed, dropped) == Default::default() {
                continue;
            }
            all.passed.add(passed);
            all.dropped.add(dropped);
            all.senders.push(Sender { ifindex, passed, dropped });
        }
        all.senders.sort_by_key(|sender| sender.ifindex);
        Ok(all)
    }

    fn known(&self, node: u32) -> Result<[u64; RATE_WORDS]> {
        self.rates.get(&node.to_ne_bytes())?.ok_or_else(|| Error::Unknown {
            object: format!("node {node}"),
            reason: "no interface of it is protected",
        })
    }

    /// Writes a budget with a version different from the last one's.
    fn put_budget(&self, node: u32, budget: &Budget) -> Result<()> {
        let before = self.rates.get::<RATE_WORDS>(&node.to_ne_bytes())?;
        let [.., version, _] = before.unwrap_or_default();
        let [frame, byte, frames, bytes, _, steps] = budget.words();
        let words = [frame, byte, frames, bytes, version.wrapping_add(1), steps];
        self.rates.put(&node.to_ne_bytes(), &words)
    }

    /// The nodes of all protected interfaces, with repetitions.
    fn nodes(&self) -> Result<Vec<u32>> {
        let mut nodes = Vec::new();
        for key in self.ports.keys() {
            nodes.extend(self.ports.get(&key)?.map(|[port]| unpair(port.to_ne_bytes()).0));
        }
        Ok(nodes)
    }

    /// Forgets a node without a protected interface.
    fn forget_unused(&self, node: u32) -> Result<()> {
        if self.nodes()?.contains(&node) {
            return Ok(());
        }
        let key = node.to_ne_bytes();
        for map in [&self.rates, &self.state] {
            map.remove(&key)?;
        }
        for (key, _) in self.senders_of(node) {
            self.senders.remove(&key)?;
        }
        Ok(())
    }

    /// Keys and interfaces of a node's senders.
    fn senders_of(&self, node: u32) -> Vec<([u8; 8], u32)> {
        let keys = self.senders.keys().into_iter().filter_map(|key| <[u8; 8]>::try_from(key).ok());
        keys.map(|key| (key, unpair(key)))
            .filter(|(_, (of, _))| *of == node)
            .map(|(key, (_, sender))| (key, sender))
            .collect()
    }
}

/// `struct nl_pr_address`.
fn address(mac: [u8; 6], switch: u16) -> [u8; WORD] {
    let [a, b, c, d, e, f] = mac;
    let [low, high] = switch.to_ne_bytes();
    [a, b, c, d, e, f, low, high]
}

/// Loads and unloads the programs: whether the kernel accepts them.
pub(crate) fn probe() -> Result<()> {
    load(Some(SMALL)).map(drop)
}

/// The program, to probe a hook.
pub(crate) fn any_program() -> Result<Program> {
    load(Some(SMALL))?.program(PROGRAM)
}

fn load(entries: Option<u32>) -> Result<Loaded> {
    PART.load(|open| {
        let Some(entries) = entries else { return Ok(()) };
        for map in [PORTS, RATES, STATE, SENDERS, GATES, OWNERS] {
            set_entries(open, map, entries)?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn steps_bring_what_a_queue_takes() {
        for (frames, bits) in [(50_000, 21), (75_000, 20), (200_000, 19), (1, 22), (10_000_000, 17)]
        {
            assert_eq!(step_bits(Some(frames)), bits, "{frames}");
            let at_once = (frames << bits) / 1_000_000_000;
            assert!(at_once <= 128 || bits == 17, "{frames}");
        }
        assert_eq!(step_bits(None), 17);
    }

    #[test]
    fn no_limit_costs_nothing() {
        assert_eq!(Budget::default().words()[..5], [0; 5]);
    }

    #[test]
    fn bursts_are_ten_milliseconds_but_not_too_little() {
        let budget = Budget { frames: Some(100_000), bytes: Some(1_000_000_000) };
        let [_, _, frames, bytes, ..] = budget.words();
        let ten = u64::try_from(TICKS / 100).unwrap();
        assert_eq!((frames, bytes), (ten, ten));
        let slow = Budget { frames: Some(640), bytes: Some(262_144) };
        let [_, _, frames, bytes, ..] = slow.words();
        assert_eq!((frames, bytes), (ten * 10, ten * 100));
    }

    proptest! {
        #[test]
        fn costs_are_the_rate_within_a_thousandth(
            frames in 1u64..100_000_000, bytes in Budget::LEAST_BYTES..100_000_000_000
        ) {
            let [frame, byte, ..] = Budget { frames: Some(frames), bytes: Some(bytes) }.words();
            for (cost, rate) in [(frame, frames), (byte, bytes)] {
                let second = (u128::from(cost) * u128::from(rate)) >> COST_BITS;
                prop_assert!(TICKS - second <= TICKS / 1000, "{second} of {TICKS}");
            }
            // The longest possible frame does not overflow.
            prop_assert!(byte.checked_mul(1 << 20).is_some());
        }
    }
}
