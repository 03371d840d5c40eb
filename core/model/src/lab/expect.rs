//! What a lab is expected to do: the steps of `expect`, which `netloom test` takes one after the other.
//!
//! A step is an expectation, which holds or does not, or an action, which changes the running lab, so that the
//! expectations after it are about what follows. Steps are not part of a plan: `up` does not read them.

use std::fmt::Write;
use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::Via;

/// How long packets are sent where nothing is said.
pub(crate) const LASTING: Duration = Duration::from_secs(2);

/// How many packets a second measure loss where nothing is said.
pub(crate) const PACKETS: u32 = 1000;

/// A step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Its name by hand.
    pub name: Option<String>,
    /// How long it is tried again until it holds.
    pub within: Duration,
    /// What it is.
    pub what: What,
}

/// What a step is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// Every one of some nodes has answers of every one of others.
    Reaches(Pairs),
    /// None of some nodes has an answer of any of others.
    CannotReach(Pairs),
    /// A node's kernel has a route.
    Route(Route),
    /// It has none.
    NoRoute(Route),
    /// How many of the packets from one node to another are lost.
    Loss(Loss),
    /// How fast packets from one node arrive at another.
    Rate(Rate),
    /// What a command in a node does.
    Output(Output),
    /// Nothing was later than this since the lab came up, or since the step of this kind before.
    Fidelity(Duration),
    /// No expectation: something is done.
    Do(Action),
}

/// Nodes that ask, and nodes or addresses that are asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pairs {
    /// Nodes.
    pub from: Vec<String>,
    /// Nodes and addresses.
    pub to: Vec<String>,
    /// Only this family, 4 or 6.
    pub only: Option<u8>,
}

/// A route of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// The node.
    pub node: String,
    /// Where it leads.
    pub to: RouteTarget,
    /// The next hop: an address, or a node that has it.
    pub via: Option<Via>,
    /// The interface by which packets leave.
    pub dev: Option<String>,
}

/// Where a route leads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RouteTarget {
    /// The way that the kernel chooses for packets to an address.
    Address(IpAddr),
    /// The entry of a table for exactly this prefix.
    Prefix(IpNet),
    /// The way to a node's first address of each family that both have.
    Node(String),
}

/// Packets lost from one node to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// Who sends to whom.
    pub between: Between,
    /// Fewer are lost than this many of 10^9.
    pub below: Option<u32>,
    /// More are lost than this many of 10^9.
    pub above: Option<u32>,
    /// How many are sent in a second.
    pub packets: u32,
}

/// Bits that arrive in a second.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// Who sends to whom.
    pub between: Between,
    /// More than this many arrive.
    pub above: Option<u64>,
    /// Fewer than this many arrive.
    pub below: Option<u64>,
}

/// A node that sends to another, for how long, and by which family.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Between {
    /// The node that sends.
    pub from: String,
    /// The node that receives.
    pub to: String,
    /// For how long.
    pub lasting: Duration,
    /// The family, 4 or 6; the first that both have when `None`.
    pub only: Option<u8>,
}

/// What a command in a node is expected to do; without anything else, that it ends with exit code 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// The node.
    pub node: String,
    /// The argument list.
    pub command: Vec<String>,
    /// Texts that its output, of both streams, has.
    pub contains: Vec<String>,
    /// Texts that it has not.
    pub lacks: Vec<String>,
    /// The whole standard output, without white space at its ends.
    pub equals: Option<String>,
    /// How it ends, as a shell shows it.
    pub code: i32,
}

/// Something that is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// A link is taken down.
    Down(String),
    /// A link is taken up.
    Up(String),
    /// Impairments of a link are set, by key and value as on a command line.
    Set(String, Vec<(String, String)>),
    /// A command is run in a node; it must end with exit code 0.
    Exec(String, Vec<String>),
    /// Nothing is done for this long.
    Wait(Duration),
}

impl Step {
    /// Its name: that by hand, else what it is in words.
    pub fn title(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.what.words())
    }
}

impl What {
    /// The nodes that it names; addresses may be among them.
    pub(crate) fn names(&self) -> Vec<&str> {
        match self {
            What::Reaches(of) | What::CannotReach(of) => {
                of.from.iter().chain(&of.to).map(String::as_str).collect()
            }
            What::Route(of) | What::NoRoute(of) => {
                let mut names = vec![of.node.as_str()];
                names.extend(match &of.to {
                    RouteTarget::Node(name) => Some(name.as_str()),
                    RouteTarget::Address(_) | RouteTarget::Prefix(_) => None,
                });
                names.extend(match &of.via {
                    Some(Via::Node(name)) => Some(name.as_str()),
                    Some(Via::Address(_)) | None => None,
                });
                names
            }
            What::Loss(Loss { between, .. }) | What::Rate(Rate { between, .. }) => {
                vec![&between.from, &between.to]
            }
            What::Output(of) => vec![&of.node],
            What::Do(Action::Exec(node, _)) => vec![node],
            // Links, not nodes.
            What::Fidelity(_)
            | What::Do(Action::Down(_) | Action::Up(_) | Action::Set(..) | Action::Wait(_)) => {
                vec![]
            }
        }
    }

    /// What it is, in words.
    pub fn words(&self) -> String {
        match self {
            What::Reaches(pairs) => pairs.words("reaches"),
            What::CannotReach(pairs) => pairs.words("cannot reach"),
            What::Route(route) => route.words("has a route"),
            What::NoRoute(route) => route.words("has no route"),
            What::Loss(loss) => {
                let bounds = bounds(loss.above.map(share), loss.below.map(share));
                format!("loss from {} {bounds}", loss.between.words())
            }
            What::Rate(rate) => {
                let bounds = bounds(rate.above.map(bits), rate.below.map(bits));
                format!("rate from {} {bounds}", rate.between.words())
            }
            What::Output(output) => output.words(),
            What::Fidelity(limit) => {
                format!("nothing is later than {}", crate::impairment::text::duration(*limit))
            }
            What::Do(action) => action.words(),
        }
    }
}

/// `above X and below Y`.
fn bounds(above: Option<String>, below: Option<String>) -> String {
    let named = [above.map(|of| format!("above {of}")), below.map(|of| format!("below {of}"))];
    named.into_iter().flatten().collect::<Vec<_>>().join(" and ")
}

/// Parts of 10^9 as a percentage.
pub fn share(parts: u32) -> String {
    format!("{}%", f64::from(parts) / 1e7)
}

/// Bits a second.
pub fn bits(rate: u64) -> String {
    let units = [(1_000_000_000, "gbit"), (1_000_000, "mbit"), (1000, "kbit")];
    let (scale, unit) = units.into_iter().find(|(scale, _)| rate >= *scale).unwrap_or((1, "bit"));
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let text = format!("{:.3}", rate as f64 / scale as f64);
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

impl Pairs {
    fn words(&self, verb: &str) -> String {
        let family = self.only.map_or_else(String::new, |version| format!(" by IPv{version}"));
        format!("{} {verb} {}{family}", self.from.join(", "), self.to.join(", "))
    }
}

impl Route {
    fn words(&self, verb: &str) -> String {
        let to = match &self.to {
            RouteTarget::Address(address) => address.to_string(),
            RouteTarget::Prefix(prefix) => prefix.to_string(),
            RouteTarget::Node(node) => node.clone(),
        };
        format!("{} {verb} to {to}{}", self.node, self.way())
    }

    /// The way that is asked for, in words.
    pub fn way(&self) -> String {
        let mut text = String::new();
        // Writing into a String cannot fail.
        let _ = match &self.via {
            Some(Via::Address(address)) => write!(text, " via {address}"),
            Some(Via::Node(node)) => write!(text, " via {node}"),
            None => Ok(()),
        };
        let _ = self.dev.iter().try_for_each(|dev| write!(text, " dev {dev}"));
        text
    }
}

impl Between {
    fn words(&self) -> String {
        format!("{} to {}", self.from, self.to)
    }
}

impl Output {
    fn words(&self) -> String {
        let mut wanted: Vec<String> = Vec::new();
        wanted.extend(self.contains.iter().map(|text| format!("contains {text:?}")));
        wanted.extend(self.lacks.iter().map(|text| format!("lacks {text:?}")));
        wanted.extend(self.equals.iter().map(|text| format!("is {text:?}")));
        if self.code != 0 || wanted.is_empty() {
            wanted.push(format!("exits {}", self.code));
        }
        format!("{}: {} {}", self.node, self.command.join(" "), wanted.join(" and "))
    }
}

impl Action {
    /// The action, in words.
    pub fn words(&self) -> String {
        match self {
            Action::Down(link) => format!("do: link {link} down"),
            Action::Up(link) => format!("do: link {link} up"),
            Action::Set(link, settings) => {
                let all: Vec<String> = settings.iter().map(|(k, v)| format!("{k} {v}")).collect();
                format!("do: link {link} {}", all.join(" "))
            }
            Action::Exec(node, command) => format!("do: {node}: {}", command.join(" ")),
            Action::Wait(time) => format!("do: wait {:.1} s", time.as_secs_f64()),
        }
    }
}
