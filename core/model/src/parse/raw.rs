//! A file as read before names are resolved: bodies, links whose ends are names, each with its places.

use std::sync::Arc;

use ipnet::IpNet;
use netloom_bridge::Mac;
use netloom_config::{Place, Repetition};

use super::impair::RawImpairments;
use crate::file::values::At;
use crate::kinds::RawSwitchKind;
use crate::lab::expect::Step;
use crate::lab::{End, Link, Node, Switch};
use crate::slices::RawSlices;

/// An object of the file, with the `for` repetition that made it.
#[derive(Debug)]
pub(crate) struct Origin<T> {
    pub value: T,
    /// The place of its name, or of the link.
    pub place: Place,
    pub repetition: Option<Arc<Repetition>>,
}

/// Everything that was read, before names are resolved.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    pub nodes: Vec<Origin<NodeBody>>,
    pub switches: Vec<Origin<SwitchBody>>,
    pub links: Vec<Origin<RawLink>>,
    pub slices: RawSlices,
    pub expect: RawSteps,
}

/// Steps with the nodes that they name, which must exist.
#[derive(Debug, Default)]
pub(crate) struct RawSteps {
    pub(crate) steps: Vec<Step>,
    pub(crate) nodes: Vec<At<String>>,
}

/// A link with resolved ends, and its origin.
pub(crate) struct Resolved<'p> {
    pub raw: &'p Origin<RawLink>,
    pub ends: [End; 2],
}

/// A node's body with values that are checked later.
#[derive(Debug)]
pub(crate) struct NodeBody {
    pub node: Node,
    /// The place of each route.
    pub routes: Vec<Place>,
    /// The place of each limit, by key.
    pub limits: Vec<(&'static str, Place)>,
    /// The place of the limit of children.
    pub children: Option<Place>,
    /// The place of `privileged`.
    pub privileged: Option<Place>,
}

/// A switch's body with values that are checked later.
#[derive(Debug)]
pub(crate) struct SwitchBody {
    pub switch: Switch,
    pub subnets: Vec<At<IpNet>>,
    pub mtu: Option<Place>,
    /// Its kind as read.
    pub kind: RawSwitchKind,
}

impl SwitchBody {
    /// Whether it keeps frames from going round in a loop that it is part of.
    pub(crate) fn blocks(&self) -> bool {
        self.switch.stp || self.kind.is_secure()
    }
}

/// A link whose ends are still names.
#[derive(Clone, Debug)]
pub(crate) struct RawLink {
    pub place: Place,
    pub ends: [At<RawEnd>; 2],
    pub name: Option<At<String>>,
    pub addresses: Vec<EndAddresses>,
    /// `addresses: none`: neither end has one.
    pub bare: Option<Place>,
    /// Ends and their hardware addresses.
    pub macs: Vec<(At<String>, At<Mac>)>,
    /// Ends and the numbers of their ports.
    pub numbers: Vec<(At<String>, At<u32>)>,
    pub subnets: Vec<At<IpNet>>,
    pub mtu: Option<At<u32>>,
    pub impairments: RawImpairments,
}

/// The addresses of one key of `addresses`.
#[derive(Clone, Debug)]
pub(crate) struct EndAddresses {
    pub end: At<String>,
    pub addresses: Vec<At<IpNet>>,
    /// `END: none`: it has none.
    pub bare: bool,
}

/// An end as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RawEnd {
    /// `NAME` or `NAME:IFACE`.
    Named { name: String, iface: Option<String> },
    /// `host:IFACE`.
    Host(String),
    /// `internet`.
    Internet,
    /// `nowhere`.
    Nowhere,
}

impl std::fmt::Display for RawEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RawEnd::Named { name, iface: None } => f.write_str(name),
            RawEnd::Named { name, iface: Some(iface) } => write!(f, "{name}:{iface}"),
            RawEnd::Host(iface) => write!(f, "host:{iface}"),
            RawEnd::Internet => f.write_str("internet"),
            RawEnd::Nowhere => f.write_str("nowhere"),
        }
    }
}

impl RawEnd {
    pub(crate) fn is_door(&self) -> bool {
        matches!(self, RawEnd::Host(_) | RawEnd::Internet)
    }
}

impl RawLink {
    /// `[A, B]`, for messages.
    pub(crate) fn shown(&self) -> String {
        format!("[{}, {}]", self.ends[0].value, self.ends[1].value)
    }
}

/// Addresses given by hand, by end.
#[derive(Debug, Default)]
pub(crate) struct EndsAddresses {
    pub(crate) addresses: [Vec<IpNet>; 2],
    /// A node's end that shall have none.
    pub(crate) bare: [bool; 2],
    /// Hardware addresses of nodes' ends.
    pub(crate) macs: [Option<[u8; 6]>; 2],
    /// Numbers of ports at switches' ends.
    pub(crate) numbers: [Option<u32>; 2],
}

/// The links of the lab.
pub(crate) fn into_links(resolved: Vec<(Resolved<'_>, EndsAddresses)>) -> Vec<Link> {
    let link = |(resolved, EndsAddresses { addresses, bare, macs, numbers }): (Resolved<'_>, _)| {
        let raw = &resolved.raw.value;
        Link {
            name: raw.name.as_ref().map(|n| n.value.clone()),
            ends: resolved.ends,
            addresses,
            bare,
            macs,
            numbers,
            subnets: raw.subnets.iter().map(|s| s.value).collect(),
            mtu: raw.mtu.as_ref().map(|m| m.value),
            impairments: raw.impairments.values.clone(),
        }
    };
    resolved.into_iter().map(link).collect()
}
