//! Routers: a node that runs a routing suite, and whose packets may pass beside it.
//!
//! The node is an ordinary one, in which the daemons are programs as if the file had said so (`plan::frr`). With
//! `plane: separate` packets that only pass are forwarded by an OpenFlow switch of the router's own, which has what the
//! node's kernel knows of routes and neighbours; all that is for the node itself goes on to it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use netloom_config::{Entry, Kind, Node as Yaml, Path, Report, quote, read};
use serde::{Deserialize, Serialize};

use crate::file::Fields;
use crate::file::table::{DURATION, Key, KindKeys, Object, Value, key};
use crate::file::values::non_empty;

/// The value of the key `kind`.
pub(crate) const WORD: &str = "router";

/// Its keys.
pub(crate) const KEYS: KindKeys = KindKeys { kind: WORD, keys: &TABLE };

const DAEMONS: [&str; 2] = ["frr", "none"];
const PLANES: [&str; 2] = ["joined", "separate"];

/// What FRR has that a lab can configure by files.
pub(crate) const PROGRAMS: [&str; 14] = [
    "zebra", "staticd", "ospfd", "ospf6d", "bgpd", "isisd", "ripd", "ripngd", "eigrpd", "babeld",
    "pimd", "ldpd", "bfdd", "vrrpd",
];

/// Bounds and defaults of times.
const GRACE: Duration = Duration::from_secs(120);
pub(crate) const MOST_GRACE: Duration = Duration::from_secs(1800);
pub(crate) const HELLO: u16 = 1;
const DEAD: u16 = 4;

const AREA: Value = Value::Called(
    "an area: a number or a.b.c.d",
    &Value::NumberOrPattern(r"^[0-9]{1,10}(\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3})?$"),
);

/// `ospf` of a router.
pub(crate) static OSPF: Object = Object {
    name: "ospf",
    doc: "OSPF on all interfaces of a router, of IPv4 and of IPv6.",
    keys: &[
        key("area", AREA, "The area of its interfaces. Default 0."),
        key(
            "hello",
            Value::Integer(1, 65_535),
            "Seconds between two hellos; equal on all routers of a link. Default 1.",
        ),
        key(
            "dead",
            Value::Integer(1, 65_535),
            "Seconds of silence after which a neighbour is dead; equal on all routers of a link. Default 4.",
        ),
    ],
    kinds: &[],
    refused: &[],
    extensions: false,
};

/// `bgp` of a router.
pub(crate) static BGP: Object = Object {
    name: "bgp",
    doc: "BGP with all routers of the lab that have it and share a link or switch with this one.",
    keys: &[
        Key {
            required: true,
            ..key("as", Value::Integer(1, 4_294_967_294), "The number of its autonomous system.")
        },
        key(
            "keepalive",
            Value::Integer(1, 65_535),
            "Seconds between two signs of life. A neighbour is dead after four of them. Default 1.",
        ),
    ],
    kinds: &[],
    refused: &[],
    extensions: false,
};

static TABLE: [Key; 6] = [
    key(
        "daemon",
        Value::Choice(&DAEMONS),
        "The routing suite: frr (default), from the node's files, or none: its routes are the plan's, by hand, or of \
         programs of its own.",
    ),
    key(
        "ospf",
        Value::AnyOf(&[Value::Boolean, Value::Object(&OSPF)]),
        "OSPF on all its interfaces: true, or a map with `area`, `hello`, `dead`.",
    ),
    key("bgp", Value::Object(&BGP), "BGP with its neighbours in the lab: a map with `as`."),
    key(
        "config",
        Value::Map(&Value::Text),
        "Configuration files of FRR's daemons, relative to the lab file: `{ospfd: r1-ospfd.conf}`. Those named run, \
         with this file instead of what the other keys say.",
    ),
    key(
        "plane",
        Value::Choice(&PLANES),
        "joined (default): the node's own kernel forwards. separate: packets that only pass are forwarded beside the \
         node, which can end, restart or move meanwhile.",
    ),
    key(
        "grace",
        DURATION,
        "With plane: separate, how long unconfirmed routes stay after the node or its daemons came back. At \
         most 30m. Default 2m.",
    ),
];

/// OSPF on all interfaces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Ospf {
    /// The area, as FRR reads it.
    pub area: String,
    /// Seconds between hellos.
    pub hello: u16,
    /// Seconds of silence after which a neighbour is dead.
    pub dead: u16,
}

impl Default for Ospf {
    fn default() -> Ospf {
        Ospf { area: "0".to_owned(), hello: HELLO, dead: DEAD }
    }
}

/// BGP with the neighbours in the lab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Bgp {
    /// The autonomous system.
    #[serde(rename = "as")]
    pub system: u32,
    /// Seconds between signs of life.
    pub keepalive: u16,
}

/// The options of a node of kind `router`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Router {
    /// Whether FRR runs in it.
    pub frr: bool,
    /// OSPF.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ospf: Option<Ospf>,
    /// BGP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bgp: Option<Bgp>,
    /// Files of daemons, by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "schema", schema(value_type = std::collections::HashMap<String, String>))]
    pub config: BTreeMap<String, PathBuf>,
    /// Whether packets pass beside the node.
    pub separate: bool,
    /// Seconds that unconfirmed routes stay.
    pub grace: u32,
}

impl Default for Router {
    fn default() -> Router {
        Router {
            frr: true,
            ospf: None,
            bgp: None,
            config: BTreeMap::new(),
            separate: false,
            grace: u32::try_from(GRACE.as_secs()).unwrap_or(0),
        }
    }
}

impl Router {
    /// Whether a protocol, and not the plan, decides its routes.
    pub fn learns_routes(&self) -> bool {
        self.ospf.is_some() || self.bgp.is_some() || !self.config.is_empty()
    }

    /// What decides its packets, as the file says it.
    pub fn plane_word(&self) -> &'static str {
        if self.separate { "separate" } else { "joined" }
    }
}

/// Reads the keys of this kind.
pub(crate) fn read(fields: &Fields<'_>, path: &Path<'_>, report: &mut Report) -> Router {
    let mut router = Router::default();
    if let Some(value) = fields.get("daemon") {
        router.frr = read::choice(value, &path.key("daemon"), &DAEMONS, report) != Some("none");
    }
    if let Some(value) = fields.get("ospf") {
        router.ospf = ospf(value, &path.key("ospf"), report);
    }
    if let Some(value) = fields.get("bgp") {
        router.bgp = bgp(value, &path.key("bgp"), report);
    }
    if let Some(value) = fields.get("config") {
        router.config = config(value, &path.key("config"), report);
    }
    if let Some(value) = fields.get("plane") {
        router.separate =
            read::choice(value, &path.key("plane"), &PLANES, report) == Some("separate");
    }
    if let Some(value) = fields.get("grace") {
        let path = path.key("grace");
        match read::duration(value, &path, report) {
            Some(grace) if grace > MOST_GRACE => {
                report.error(value.place, format!("{path}: routes stay for 30m at most"));
            }
            Some(grace) => router.grace = u32::try_from(grace.as_secs()).unwrap_or(0),
            None => {}
        }
        if !router.separate {
            let help = Some("write plane: separate".to_owned());
            let message = format!("{path}: only a router whose plane is separate has this");
            report.error_with(value.place, message, help);
        }
    }
    refuse_without_frr(&router, fields, path, report);
    router
}

/// Refuses what only FRR does in a router without it.
fn refuse_without_frr(router: &Router, fields: &Fields<'_>, path: &Path<'_>, report: &mut Report) {
    for key in ["ospf", "bgp", "config"] {
        let Some(value) = fields.get(key).filter(|_| !router.frr) else { continue };
        let help = Some("write daemon: frr".to_owned());
        report.error_with(value.place, format!("{}: only FRR does this", path.key(key)), help);
    }
}

fn ospf(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Option<Ospf> {
    if !matches!(value.kind, Kind::Map(_)) {
        return read::boolean(value, path, report)?.then(Ospf::default);
    }
    let fields = Fields::open(value, path, &OSPF, report)?;
    let mut ospf = Ospf::default();
    if let Some(value) = fields.get("area") {
        ospf.area = area(value, &path.key("area"), report).unwrap_or(ospf.area);
    }
    ospf.hello = seconds(&fields, path, "hello", HELLO, report);
    ospf.dead = seconds(&fields, path, "dead", DEAD, report);
    // A neighbour would be taken for dead between any two hellos.
    if ospf.dead <= ospf.hello {
        let place = fields.get("dead").or(fields.get("hello")).unwrap_or(value).place;
        let message = format!("{}: must be longer than `hello`", path.key("dead"));
        report.error(place, message);
    }
    Some(ospf)
}

/// An area: a number of 32 bits, or the same in the form of an address.
fn area(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Option<String> {
    let text = read::scalar(value).unwrap_or_default();
    let known = text.parse::<u32>().is_ok() || text.parse::<std::net::Ipv4Addr>().is_ok();
    if !known {
        read::expected(value, path, "an area: a number or a.b.c.d", report);
    }
    known.then(|| text.to_owned())
}

fn seconds(
    fields: &Fields<'_>,
    path: &Path<'_>,
    key: &str,
    default: u16,
    report: &mut Report,
) -> u16 {
    let Some(value) = fields.get(key) else { return default };
    let read = read::integer(value, &path.key(key), 1..=65_535, report);
    read.and_then(|n| u16::try_from(n).ok()).unwrap_or(default)
}

fn bgp(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Option<Bgp> {
    let fields = Fields::open(value, path, &BGP, report)?;
    let keepalive = seconds(&fields, path, "keepalive", HELLO, report);
    let number = read::integer(fields.get("as")?, &path.key("as"), 1..=4_294_967_294, report)?;
    Some(Bgp { system: u32::try_from(number).unwrap_or(1), keepalive })
}

fn config(value: &Yaml, path: &Path<'_>, report: &mut Report) -> BTreeMap<String, PathBuf> {
    let Kind::Map(entries) = &value.kind else {
        read::expected(value, path, "a map of daemons and files", report);
        return BTreeMap::new();
    };
    let one = |entry: &Entry| {
        let path = path.key(&entry.key);
        if !PROGRAMS.contains(&entry.key.as_str()) {
            let help = report.suggest(&entry.key, PROGRAMS);
            let help = help.or_else(|| Some(format!("daemons: {}", PROGRAMS.join(", "))));
            let message = format!("{path}: {} is not a daemon of FRR", quote(&entry.key));
            report.error_with(entry.place, message, help);
        }
        let file = non_empty(&entry.value, &path, report)?;
        Some((entry.key.clone(), PathBuf::from(file)))
    };
    entries.iter().filter_map(one).collect()
}
