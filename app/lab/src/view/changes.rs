//! What can be asked of a running lab, and what a change did.

use std::collections::HashSet;
use std::path::PathBuf;

use netloom_model::Plan;
use netloom_model::merging::Step;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use crate::store::across::Across;

/// Pairs of which none has the key of another: the last would hide the others.
fn pairs<'d, D: Deserializer<'d>>(from: D) -> Result<Vec<(String, String)>, D::Error> {
    let pairs = Vec::<(String, String)>::deserialize(from)?;
    let mut seen = HashSet::new();
    match pairs.iter().find(|(key, _)| !seen.insert(key)) {
        None => Ok(pairs),
        Some((key, _)) => Err(D::Error::custom(format_args!("{key:?} is given twice"))),
    }
}

/// A node to make in a running lab.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewNode {
    /// Its name; `PARENT/NAME` makes it a child.
    pub name: String,
    /// Settings, by key and value as `netloom node set` takes them.
    #[serde(default, deserialize_with = "pairs")]
    pub settings: Vec<(String, String)>,
    /// A directory to be the root of its file system.
    #[serde(default)]
    pub root: Option<String>,
}

/// A link to make in a running lab.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewLink {
    /// One end: `NODE`, `NODE:IFACE`, `SWITCH` or `nowhere`.
    pub a: String,
    /// The other.
    pub b: String,
    /// Its name; as the lab file would name it where nothing is said.
    #[serde(default)]
    pub name: Option<String>,
    /// Addresses with their prefixes, or `none`, by end: as it is written in `a` or `b`, or its node.
    #[serde(default)]
    pub addresses: Vec<(String, String)>,
    /// Hardware addresses, by end in the same way.
    #[serde(default, deserialize_with = "pairs")]
    pub macs: Vec<(String, String)>,
    /// By key and value as in the lab file: `mtu`, `delay`, `loss`, …
    #[serde(default, deserialize_with = "pairs")]
    pub settings: Vec<(String, String)>,
}

/// A switch to make in a running lab.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewSwitch {
    /// Its name.
    pub name: String,
    /// Settings, by key and value as in the lab file: `kind` (`shm` where nothing is said), `mode`,
    /// `group`, `arena`, `ageing`, `vde`.
    #[serde(default, deserialize_with = "pairs")]
    pub settings: Vec<(String, String)>,
}

/// A change of a node's settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeSettings {
    /// By key and value: `cpu`, `weight`, `memory`, `processes`, `sockets`, `packets`, `bytes`,
    /// `charge-receive`, `children`, `privileged`, `ids`, `root`; the value `none` takes a limit away.
    #[serde(deserialize_with = "pairs")]
    pub settings: Vec<(String, String)>,
}

/// An interface to move from one node to another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MoveInterface {
    /// `NODE:IFACE`, or `host:IFACE`.
    pub interface: String,
    /// The node that gets it, or `host`.
    pub to: String,
    /// Its name there; its old name, or the next free one of its kind, where nothing is said.
    #[serde(default)]
    pub name: Option<String>,
    /// Take its addresses and routes along.
    #[serde(default)]
    pub carry: bool,
}

/// A change of a link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkSettings {
    /// The end whose sending is meant: 0 or 1; both if omitted.
    #[serde(default)]
    pub end: Option<usize>,
    /// Take everything away first.
    #[serde(default)]
    pub clear: bool,
    /// By key and value as in the lab file; the value `none` takes one away.
    #[serde(default, deserialize_with = "pairs")]
    pub settings: Vec<(String, String)>,
    /// Take the whole link down, as if its cable were pulled, or up again.
    #[serde(default)]
    pub up: Option<bool>,
}

/// A request to turn the lab into the one of a file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[derive(utoipa::ToSchema)]
pub struct Apply {
    /// The plan of the file; paths of the host in it are absolute. If absent, that of the last request with `dry_run`, whose
    /// steps have the digest `expected`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
    /// Absolute path of the file.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub file: Option<PathBuf>,
    /// The digest of the steps that the caller has seen: if others are needed by now, nothing is done.
    #[serde(default)]
    pub expected: Option<String>,
    /// Whether manual changes stay.
    #[serde(default)]
    pub keep_drift: bool,
    /// Whether the steps are only shown.
    #[serde(default)]
    pub dry_run: bool,
    /// Of a host's part of a lab over several hosts, which its agent applies: its links to the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(ignore)]
    pub across: Option<Across>,
}

/// The steps done, or that would be done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Applied {
    /// In order; none where the lab is as the file says.
    pub steps: Vec<AppliedStep>,
    /// Identifies the steps, for `expected`.
    pub digest: String,
    /// Whether the request has something to note even without steps: the file's digest or text, or the end of one that was cut
    /// off.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stale: bool,
    /// Whether they were done.
    pub done: bool,
    /// How long everything took, in milliseconds.
    pub took_ms: f64,
    /// Programs that ended with an error, and links that could not be recreated.
    pub troubles: Vec<String>,
}

/// A step that was done, or would be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AppliedStep {
    /// The step.
    #[serde(flatten)]
    pub step: Step,
    /// In words.
    pub line: String,
    /// When it was done, in milliseconds from the beginning.
    pub done_ms: Option<f64>,
}

/// What a change did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Changed {
    /// The object: a node's or an interface's name now.
    pub name: String,
    /// What the user should know, e.g. that more is in use than is allowed now.
    pub notes: Vec<String>,
}
