//! An nftables ruleset as the kernel tells it, and what it does with one packet.
//!
//! [`decode`] reads the messages of a dump, [`evaluate`] runs a packet through the chains of a hook, [`text`] writes a rule as
//! nft(8) would. Evaluation knows three answers: a condition that this module cannot decide is a doubt, never a guess. So a
//! rule is named as the one that drops a packet only where every condition before it is certain.
//! Specification: `linux/netfilter/nf_tables.h`, nft(8).

pub mod decode;
pub mod evaluate;
mod order;
mod registers;
pub mod text;
pub mod translate;

/// Where a packet meets rules, in the kernel's numbering (`enum nf_inet_hooks`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hook {
    /// Every packet that comes in.
    Prerouting,
    /// Packets for this machine.
    Input,
    /// Packets that are forwarded.
    Forward,
    /// Packets of this machine.
    Output,
    /// Every packet that leaves.
    Postrouting,
}

impl Hook {
    /// Its name in nft(8).
    pub fn name(self) -> &'static str {
        match self {
            Hook::Prerouting => "prerouting",
            Hook::Input => "input",
            Hook::Forward => "forward",
            Hook::Output => "output",
            Hook::Postrouting => "postrouting",
        }
    }

    fn number(self) -> u32 {
        match self {
            Hook::Prerouting => 0,
            Hook::Input => 1,
            Hook::Forward => 2,
            Hook::Output => 3,
            Hook::Postrouting => 4,
        }
    }
}

/// A family of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4 and IPv6.
    Inet,
    /// IPv4.
    Ip,
    /// IPv6.
    Ip6,
    /// Whole frames of a device.
    Netdev,
    /// ARP, bridges and what comes in the future: these rules do not see packets that are routed.
    Other(u8),
}

impl Family {
    /// Its name in nft(8).
    pub fn name(self) -> &'static str {
        match self {
            Family::Inet => "inet",
            Family::Ip => "ip",
            Family::Ip6 => "ip6",
            Family::Netdev => "netdev",
            Family::Other(3) => "arp",
            Family::Other(7) => "bridge",
            Family::Other(_) => "other",
        }
    }
}

/// What a rule decides about a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It passes this chain's hook.
    Accept,
    /// It is dropped in silence.
    Drop,
    /// A program in the machine decides.
    Queue,
    /// The next rule decides.
    Continue,
    /// The calling chain goes on.
    Return,
    /// Another chain, then the next rule.
    Jump(String),
    /// Another chain, then the calling one.
    Goto(String),
}

/// A step of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    /// Loads something about the packet.
    Meta {
        /// By its number in the kernel.
        key: u32,
        /// The register.
        to: u32,
    },
    /// Loads bytes of a header: 0 link, 1 network, 2 transport.
    Payload {
        /// The header.
        base: u32,
        /// Bytes from its begin.
        offset: u32,
        /// Bytes.
        length: u32,
        /// The register.
        to: u32,
    },
    /// Loads something of its connection.
    Ct {
        /// By its number in the kernel.
        key: u32,
        /// The register.
        to: u32,
    },
    /// Masks: `(from & mask) ^ xor`.
    Bitwise {
        /// The register that is read.
        from: u32,
        /// The register.
        to: u32,
        /// Bits that stay.
        mask: Vec<u8>,
        /// Bits that are turned over.
        xor: Vec<u8>,
    },
    /// Turns the order of bytes over, in words of this size.
    Byteorder {
        /// The register that is read.
        from: u32,
        /// The register.
        to: u32,
        /// Bytes.
        length: u32,
        /// Bytes of a word.
        size: u32,
    },
    /// Goes on if the comparison holds: 0 equal, 1 not, 2 less, 3 at most, 4 more, 5 at least.
    Cmp {
        /// The register that is read.
        from: u32,
        /// The comparison.
        operation: u32,
        /// The value.
        value: Vec<u8>,
    },
    /// Goes on if the value is within bounds, or not.
    Range {
        /// The register that is read.
        from: u32,
        /// Whether it goes on if not.
        inverted: bool,
        /// The least value.
        low: Vec<u8>,
        /// The largest value.
        high: Vec<u8>,
    },
    /// Goes on if a set has the value, or has it not; a map decides by its element.
    Lookup {
        /// Its name.
        set: String,
        /// The register that is read.
        from: u32,
        /// Whether it goes on if not.
        inverted: bool,
        /// The register.
        to: Option<u32>,
    },
    /// Loads a constant.
    Constant {
        /// The register.
        to: u32,
        /// The value.
        value: Vec<u8>,
    },
    /// Decides.
    Verdict(Verdict),
    /// Drops the packet and tells its sender, by a TCP reset where `reset`.
    Reject {
        /// Whether by a TCP reset.
        reset: bool,
    },
    /// Counts.
    Counter {
        /// Packets so far.
        packets: u64,
    },
    /// Translates addresses, and accepts.
    Nat(Nat),
    /// Has no effect on whether the packet passes.
    Harmless(String),
    /// Whether it goes on is not known here: the expression's name.
    Unknown(String),
}

/// A translation of addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nat {
    /// The expression's name, or the target's of iptables.
    pub name: String,
    /// What it changes.
    pub change: Change,
}

/// What a translation changes in a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The source becomes an address of the interface by which the packet leaves.
    Masquerade,
    /// The destination becomes an address of this machine, and the port this one.
    Redirect(Option<Operand>),
    /// Address and port of the source.
    Source(Option<Operand>, Option<Operand>),
    /// Address and port of the destination.
    Destination(Option<Operand>, Option<Operand>),
    /// One of several addresses or ports, or what is not read here.
    Unknown,
}

/// A value of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operand {
    /// What a register has.
    Register(u32),
    /// These bytes, in network byte order.
    Bytes(Vec<u8>),
}

/// A rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// By which nft(8) deletes it.
    pub handle: u64,
    /// Its steps, in order.
    pub steps: Vec<Expression>,
}

/// Where a base chain is attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attached {
    /// The hook's number in its family.
    pub hook: u32,
    /// Chains of a hook run in ascending order.
    pub priority: i32,
    /// Devices, for hooks of devices.
    pub devices: Vec<String>,
    /// What happens to packets that no rule decides about: whether they are dropped.
    pub drops: bool,
}

/// A chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Of its table.
    pub family: Family,
    /// Its table.
    pub table: String,
    /// Its name.
    pub name: String,
    /// Absent for chains that are only jumped to.
    pub attached: Option<Attached>,
    /// In order.
    pub rules: Vec<Rule>,
}

/// An element of a set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Element {
    /// The value, or the first of an interval.
    pub key: Vec<u8>,
    /// The last value, where the element is an interval by itself.
    pub last: Option<Vec<u8>>,
    /// The first value after an interval.
    pub ends: bool,
    /// Stands for every value without an element of its own.
    pub catchall: bool,
    /// What a verdict map decides.
    pub verdict: Option<Verdict>,
}

/// A set or map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set {
    /// Of its table.
    pub family: Family,
    /// Its table.
    pub table: String,
    /// Its name; anonymous ones begin with `__set` or `__map`.
    pub name: String,
    /// Whether elements are intervals.
    pub intervals: bool,
    /// Whether keys are several fields, each with an interval of its own.
    pub concatenated: bool,
    /// Its elements.
    pub elements: Vec<Element>,
}

/// All rules of a network namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ruleset {
    /// In the kernel's order.
    pub chains: Vec<Chain>,
    /// In the kernel's order.
    pub sets: Vec<Set>,
}
