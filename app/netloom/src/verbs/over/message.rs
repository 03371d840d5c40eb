//! What the driver of a lab over hosts and their agents say to each other. One set of messages for every transport.
//!
//! Both begin with a [`Hello`], whose shape never changes, so that two versions can say that they are two. Then the driver
//! asks and the agent answers, in turn. A lab comes up in four messages: `prepare`, answered by `prepared`, and `go`, answered
//! by `up`; instead of `go`, and after it while the driver is connected, `undo` takes all of it back. Where the connection ends
//! before `go`, so does what was prepared.

use std::net::IpAddr;
use std::path::PathBuf;

use netloom_lab::view::{Applied, LabStatus, LinkSettings};
use serde::{Deserialize, Serialize};

/// The version of the messages.
pub(crate) const PROTOCOL: u32 = 1;

/// The first message of each side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hello {
    /// The version of netloom.
    pub(crate) netloom: String,
    /// [`PROTOCOL`].
    pub(crate) protocol: u32,
    /// Of an agent: what tells its network from every other one of its machine and of others.
    #[serde(default)]
    pub(crate) place: String,
}

impl Hello {
    /// This program's.
    pub(crate) fn own(place: String) -> Hello {
        let netloom = env!("CARGO_PKG_VERSION").to_owned();
        Hello { netloom, protocol: PROTOCOL, place }
    }

    /// Whether two sides understand each other: plans are equal only where the program is.
    pub(crate) fn speaks_with(&self, other: &Hello) -> bool {
        (&self.netloom, self.protocol) == (&other.netloom, other.protocol)
    }
}

/// What the driver asks of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Ask {
    /// Let no other driver bring this lab up here while the connection lives. Asked of one host of a lab, the same one for every
    /// driver, so that of two drivers one goes on.
    Claim { lab: String },
    /// Make this part, without carriers and programs.
    Prepare(Box<Prepare>),
    /// All hosts have made theirs: go on.
    Go {},
    /// Take the part down, which this connection brought up.
    Undo {},
    /// How the lab of this name is.
    Status { lab: String },
    /// Take the lab of this name down.
    Down { lab: String },
    /// The same unless it is complete, after an agent that was to make it ended.
    Abandon { lab: String },
    /// Ping these nodes from those that are here.
    Ping(PingFrom),
    /// Run a program in a node. After `entering` the connection is its input and output.
    Exec { lab: String, node: String, command: Vec<String>, no_root: bool },
    /// Turn the lab that is up here into this part of another file, or only say what that takes.
    Apply { part: Box<Prepare>, keep_drift: bool, dry_run: bool },
    /// Turn it back into what it was before this connection's first `apply`.
    Revert { lab: String },
    /// Change a link.
    SetLink { lab: String, link: String, change: LinkSettings },
    /// Do what these words of a command line say, one of [`RUN`]. After `entering` the connection is its output; its end
    /// interrupts that.
    Run { lab: String, words: Vec<String> },
}

/// Verbs that [`Ask::Run`] may be about.
pub(crate) const RUN: [&str; 4] = ["capture", "logs", "packets", "record"];

/// A host's part of a lab. The agent makes the same plan of the same file, and takes its part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Prepare {
    /// The lab's name.
    pub(crate) lab: String,
    /// The file's name for messages, and its text.
    pub(crate) shown: String,
    pub(crate) text: String,
    /// Its absolute path where the driver is, and the folder of relative paths in it.
    pub(crate) file: Option<PathBuf>,
    pub(crate) base: PathBuf,
    /// The digest of the driver's plan.
    pub(crate) digest: String,
    /// All hosts, and which of them is meant.
    pub(crate) hosts: Vec<Place>,
    pub(crate) host: usize,
    /// By node, and by switch, the indexes of their hosts.
    pub(crate) nodes: Vec<usize>,
    pub(crate) switches: Vec<Vec<usize>>,
    /// Leave limits out where the host cannot set them.
    pub(crate) ignore_limits: bool,
}

/// A host, as the others know it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Place {
    pub(crate) name: String,
    pub(crate) underlay: IpAddr,
    /// The largest packet that reaches it whole, as the hosts file says.
    pub(crate) mtu: u32,
}

/// Echo requests from nodes of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PingFrom {
    pub(crate) lab: String,
    /// All nodes of the lab with their addresses, also those of other hosts.
    pub(crate) nodes: Vec<Target>,
    pub(crate) families: Vec<u8>,
    pub(crate) timeout_ms: u64,
}

/// A node to be pinged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Target {
    pub(crate) name: String,
    /// The first of each family.
    pub(crate) addresses: Vec<IpAddr>,
}

impl Target {
    /// Its address of a family, 4 or 6.
    pub(crate) fn address(&self, version: u8) -> Option<IpAddr> {
        self.addresses.iter().copied().find(|address| address.is_ipv4() == (version == 4))
    }
}

/// Round-trip times in microseconds from a node to each that was named; `None` where no answer came.
pub(crate) type Row = Vec<Option<u32>>;

/// What an agent answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Told {
    /// No other driver brings the lab up.
    Claimed {},
    /// The part is made, or was up before.
    Prepared { already: bool },
    /// The part is up.
    Up { already: bool, troubles: Vec<String>, notes: Vec<String> },
    /// Nothing is left of what this connection brought up.
    Undone {},
    /// The lab, as it is.
    Status(Box<LabStatus>),
    /// The lab is down.
    Down {},
    /// No lab of that name is here.
    NoLab {},
    /// By family: a row for each node of the question, empty for one that is not here.
    Pinged(Vec<Vec<Row>>),
    /// What it takes, or took.
    Applied(Box<Applied>),
    /// It was changed.
    Changed {},
    /// The program begins.
    Entering {},
    /// It was not done.
    Failed { reason: String, unsupported: bool },
}
