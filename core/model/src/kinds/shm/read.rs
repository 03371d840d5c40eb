//! Reads the keys of a switch of kind `shm`.
//!
//! [`read`] reads single values; [`RawShm::finish`] turns the names of ports into those of links' ends, which
//! needs the whole lab, and reports ports that do not exist.

use std::collections::{BTreeMap, HashMap};

use netloom_bridge::{Mac, MirrorFilter, Tpid, VidSet};
use netloom_config::{Kind, Node as Yaml, Path, Place, Report, quote, read};

use super::keys::{MIRROR, PORT_OF_SWITCH, TPIDS};
use super::{MirrorDirection, OWN_ADDRESS, PortVlan, ShmMirror, ShmPort, ShmSwitch, VdeFolder};
use crate::file::Fields;
use crate::file::values::{At, each_or_only, owner};
use crate::kinds::{Around, PortEnd};
use crate::naming::port_name_problem;

/// The longest path of a folder of VDE.
const MOST_VDE: usize = netloom_vde::request::MOST_FOLDER;

/// Maximum number of addresses that a port may be locked to.
const MOST_LOCKED: usize = netloom_bridge::MOST_LOCKED;

/// The longest time in seconds until an address is forgotten.
pub(crate) const MOST_AGEING: u32 = 1_000_000;

/// The minimum and maximum size of a ring: a frame of 64 KiB always fits.
pub(crate) const ARENA: std::ops::RangeInclusive<u64> = 256 << 10..=64 << 20;

/// A switch in shared memory as read, with values that are checked when the whole file is known.
#[derive(Debug, Default)]
pub(crate) struct RawShm {
    options: ShmSwitch,
    ports: Vec<RawPort>,
    /// Each with the places of `to` and of each of `from`.
    mirrors: Vec<(ShmMirror, Place, Vec<Place>)>,
}

/// A port with the places of its name and of values that depend on its link.
#[derive(Debug)]
struct RawPort {
    name: At<String>,
    port: ShmPort,
    number: Option<Place>,
    own: Option<Place>,
    owner: Option<Place>,
}

/// Reads the keys of this kind.
pub(crate) fn read(fields: &Fields<'_>, path: &Path<'_>, report: &mut Report) -> RawShm {
    let mut raw = RawShm::default();
    let options = &mut raw.options;
    if let Some(value) = fields.get("mode") {
        options.mode = mode(value, &path.key("mode"), report).unwrap_or(options.mode);
    }
    if let Some(value) = fields.get("group") {
        options.group = owner(value, &path.key("group"), "group", report);
    }
    if let Some(value) = fields.get("arena") {
        options.arena = arena(value, &path.key("arena"), report).unwrap_or(options.arena);
    }
    if let Some(value) = fields.get("ageing") {
        options.ageing = ageing(value, &path.key("ageing"), report).unwrap_or(options.ageing);
    }
    if let Some(value) = fields.get("vde") {
        options.vde = vde(value, &path.key("vde"), report).unwrap_or_default();
    }
    if let Some(value) = fields.get("ports") {
        raw.ports = ports(value, &path.key("ports"), report);
    }
    if let Some(value) = fields.get("mirrors") {
        raw.mirrors = mirrors(value, &path.key("mirrors"), report);
    }
    raw
}

fn mode(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Option<u32> {
    let mode = read::octal_mode(value, path, report)?;
    if mode > 0o777 {
        report.error(value.place, format!("{path}: a socket has no set-id and sticky bits"));
        return None;
    }
    Some(mode)
}

fn arena(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Option<u32> {
    let bytes = read::bytes(value, path, report)?;
    if bytes.is_power_of_two() && ARENA.contains(&bytes) {
        return u32::try_from(bytes).ok();
    }
    let message =
        format!("{path}: {} is not a power of two from 256KiB to 64MiB", value.describe());
    // Both bounds are powers of two, so this stays within them.
    let next = bytes.clamp(*ARENA.start(), *ARENA.end()).next_power_of_two() >> 10;
    report.error_with(value.place, message, Some(format!("write {next}KiB")));
    None
}

fn ageing(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Option<u32> {
    let time = read::duration(value, path, report)?;
    if time.subsec_nanos() == 0 && time.as_secs() <= MOST_AGEING.into() {
        return u32::try_from(time.as_secs()).ok();
    }
    report.error(value.place, format!("{path}: expected whole seconds, 1000000 at most"));
    None
}

fn vde(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Option<VdeFolder> {
    let folder = match &value.kind {
        Kind::Bool(true) => return Some(VdeFolder::Beside),
        Kind::Bool(false) => return Some(VdeFolder::None),
        _ => read::scalar(value).filter(|folder| folder.starts_with('/')),
    };
    let Some(folder) = folder else {
        read::expected(value, path, "true, false or a path from the root", report);
        return None;
    };
    if folder.len() > MOST_VDE {
        let message = format!("{path}: {} bytes, sockets in it allow {MOST_VDE}", folder.len());
        report.error(value.place, message);
        return None;
    }
    if folder.contains(char::is_control) {
        report.error(value.place, format!("{path}: control characters"));
        return None;
    }
    Some(VdeFolder::At(folder.to_owned()))
}

fn ports(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Vec<RawPort> {
    let entries = match &value.kind {
        Kind::Map(entries) => entries.as_slice(),
        Kind::Null => &[],
        _ => {
            read::expected(value, path, "a map from ports to rules", report);
            &[]
        }
    };
    let mut ports = Vec::new();
    for entry in entries {
        let path = path.key(&entry.key);
        if let Some(problem) = port_name_problem(&entry.key) {
            report.error(entry.place, format!("{path}: {problem}"));
        }
        let name = At { value: entry.key.clone(), place: entry.place };
        let mut raw =
            RawPort { name, port: ShmPort::default(), number: None, own: None, owner: None };
        if let Some(fields) = Fields::open(&entry.value, &path, &PORT_OF_SWITCH, report) {
            read_port(&fields, &path, &mut raw, report);
        }
        ports.push(raw);
    }
    ports
}

fn read_port(fields: &Fields<'_>, path: &Path<'_>, raw: &mut RawPort, report: &mut Report) {
    if let Some(value) = fields.get("number") {
        let most = i64::from(netloom_bridge::MOST_PORTS);
        let number = read::integer(value, &path.key("number"), 1..=most, report);
        raw.port.number = number.and_then(|n| u16::try_from(n).ok());
        raw.number = Some(value.place);
    }
    raw.port.vlan = vlan(fields, path, report);
    if let Some(value) = fields.get("lock") {
        raw.port.lock = lock(value, &path.key("lock"), &mut raw.own, report);
    }
    if let Some(value) = fields.get("owner") {
        raw.port.owner = owner(value, &path.key("owner"), "user", report);
        raw.owner = Some(value.place);
    }
}

pub(crate) fn vid(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Option<u16> {
    read::integer(value, path, 1..=4094, report).and_then(|n| u16::try_from(n).ok())
}

fn vlan(fields: &Fields<'_>, path: &Path<'_>, report: &mut Report) -> Option<PortVlan> {
    let [vlan, trunk, native, qinq] =
        ["vlan", "trunk", "native", "qinq"].map(|key| fields.get(key));
    let native_vid = native.and_then(|v| vid(v, &path.key("native"), report));
    let access = vlan.and_then(|v| vid(v, &path.key("vlan"), report));
    let allowed = trunk.map(|v| vids(v, &path.key("trunk"), report));
    let customer = customer(fields, path, report);
    // By the keys, not by their values: it is wrong also where one of them cannot be read.
    let modes = [("vlan", vlan), ("trunk", trunk), ("qinq", qinq)];
    let mut modes = modes.iter().filter_map(|(key, value)| Some((*key, (*value)?.place)));
    if let (Some((first, _)), Some((second, place))) = (modes.next(), modes.next()) {
        report.error(place, format!("{path}: `{first}` and `{second}` exclude each other"));
    }
    if let (Some(native), None) = (native, trunk) {
        let message = format!("{path}: `native` is the untagged VLAN of a `trunk`");
        report.error_with(native.place, message, Some("without `trunk` write vlan: N".into()));
    }
    match allowed {
        Some(allowed) => Some(PortVlan::Trunk { native: native_vid, allowed: allowed.to_string() }),
        None => customer.or(access.map(PortVlan::Access)),
    }
}

/// The keys of a customer's port.
fn customer(fields: &Fields<'_>, path: &Path<'_>, report: &mut Report) -> Option<PortVlan> {
    let [qinq, cvlans, tpid] = ["qinq", "cvlans", "tpid"].map(|key| fields.get(key));
    for (key, value) in [("cvlans", cvlans), ("tpid", tpid)] {
        if let (None, Some(value)) = (qinq, value) {
            let message = format!("{path}: `{key}` is about the frames of a `qinq` port");
            report.error(value.place, message);
        }
    }
    let vlan = qinq.and_then(|v| vid(v, &path.key("qinq"), report));
    let cvlans = cvlans.map(|v| vids(v, &path.key("cvlans"), report).to_string());
    let tpid = tpid.and_then(|v| read::choice(v, &path.key("tpid"), &TPIDS, report));
    let tpid = tpid.map_or_else(|| Tpid::default().to_string(), str::to_owned);
    vlan.map(|vlan| PortVlan::Qinq { vlan, cvlans, tpid })
}

/// A VLAN, a range or `all`, or a list of these.
fn vids(value: &Yaml, path: &Path<'_>, report: &mut Report) -> VidSet {
    let mut set = VidSet::EMPTY;
    each_or_only(value, path, report, |item, path, report| {
        let Some(text) = read::scalar(item) else {
            return read::expected(item, path, "VLANs like 7, 10..20 or all", report);
        };
        match text.parse::<VidSet>() {
            Ok(vids) => vids.iter().for_each(|vid| _ = set.insert(vid)),
            Err(error) => report.error(item.place, format!("{path}: {error}")),
        }
    });
    set
}

/// The addresses of a lock, or [`OWN_ADDRESS`]; `own` is set to the place of the last of these.
pub(crate) fn lock(
    value: &Yaml,
    path: &Path<'_>,
    own: &mut Option<Place>,
    report: &mut Report,
) -> Vec<String> {
    let mut locked = Vec::new();
    each_or_only(value, path, report, |item, path, report| {
        if read::scalar(item) == Some(OWN_ADDRESS) {
            *own = Some(item.place);
            return locked.push(OWN_ADDRESS.to_owned());
        }
        let Some(mac) = read::scalar(item).and_then(|text| text.parse::<Mac>().ok()) else {
            return read::expected(item, path, "a MAC address like 02:00:00:00:00:01", report);
        };
        if !mac.is_station() {
            let shown = quote(&item.text);
            return report.error(item.place, format!("{path}: {shown} is not a station's address"));
        }
        locked.push(mac.to_string());
    });
    if locked.len() > MOST_LOCKED {
        let message =
            format!("{path}: {} addresses, at most {MOST_LOCKED} are possible", locked.len());
        report.error(value.place, message);
    }
    locked
}

fn mirrors(
    value: &Yaml,
    path: &Path<'_>,
    report: &mut Report,
) -> Vec<(ShmMirror, Place, Vec<Place>)> {
    let Some(items) = value.items() else {
        read::expected(value, path, "a list of mirrors", report);
        return Vec::new();
    };
    let (has, most) = (items.len(), netloom_bridge::MOST_MIRRORS);
    if has > most {
        report.error(value.place, format!("{path}: {has} mirrors, at most {most} are possible"));
    }
    let mirrors = items.iter().enumerate().map(|(i, item)| mirror(item, &path.index(i), report));
    mirrors.flatten().collect()
}

fn mirror(
    item: &Yaml,
    path: &Path<'_>,
    report: &mut Report,
) -> Option<(ShmMirror, Place, Vec<Place>)> {
    let fields = Fields::open(item, path, &MIRROR, report)?;
    let mut from: Vec<At<String>> = Vec::new();
    if let Some(value) = fields.get("from") {
        each_or_only(value, &path.key("from"), report, |item, path, report| {
            let Some(name) = read::text(item, path, report) else { return };
            from.push(At { value: name, place: item.place });
        });
    }
    let direction = fields
        .get("direction")
        .and_then(|v| read::choice(v, &path.key("direction"), &["in", "out", "both"], report));
    let filter = fields.get("filter").and_then(|v| filter(v, &path.key("filter"), report));
    let to = fields.get("to")?;
    let places = from.iter().map(|f| f.place).collect();
    let mirror = ShmMirror {
        to: read::text(to, &path.key("to"), report)?,
        from: from.into_iter().map(|f| f.value).collect(),
        direction: match direction {
            Some("in") => MirrorDirection::In,
            Some("out") => MirrorDirection::Out,
            _ => MirrorDirection::Both,
        },
        filter: filter.filter(|f| !f.is_empty()).map_or_else(String::new, |f| f.to_string()),
    };
    Some((mirror, to.place, places))
}

fn filter(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Option<MirrorFilter> {
    let text = read::text(value, path, report)?;
    match text.parse() {
        Ok(filter) => Some(filter),
        Err(error) => {
            report.error(value.place, format!("{path}: {error}"));
            None
        }
    }
}

impl RawShm {
    /// Checks the names of ports against the links, and normalises them to the switch's names.
    pub(crate) fn finish(&self, around: &Around<'_>, report: &mut Report) -> ShmSwitch {
        let mut options = self.options.clone();
        options.ports = check_ports(&self.ports, around, report);
        check_count(&options, around, report);
        options.mirrors = check_mirrors(&self.mirrors, &options.ports, around, report);
        options
    }
}

impl<'l> Around<'l> {
    fn names(&self) -> impl Iterator<Item = &'l str> + Clone + use<'l> {
        self.ends.iter().map(|end| end.port.as_str())
    }

    /// The end that a name means: a port's name, or the object that exactly one link leads to.
    fn end(&self, name: &str) -> Option<&'l PortEnd> {
        // A port's whole name first: a node may be called as another link is.
        let whole = self.ends.iter().find(|end| end.port == name);
        let mut leading = self.ends.iter().filter(|end| end.to == name);
        whole.or_else(|| leading.next().filter(|_| leading.next().is_none()))
    }

    /// Why a name that means no end cannot be a program's, either.
    fn problem(&self, name: &str) -> Option<String> {
        let shown = quote(name);
        if self.ends.iter().any(|end| end.to == name) {
            return Some(format!("{shown} has several links here"));
        }
        // A program must not join by the name of something else in the lab.
        if (self.is_taken)(name) || name == "internet" {
            return Some(format!("{shown} has no link here"));
        }
        name.contains([':', '/']).then(|| format!("no link ends in {shown} here"))
    }
}

fn check_ports(
    raws: &[RawPort],
    known: &Around<'_>,
    report: &mut Report,
) -> BTreeMap<String, ShmPort> {
    let mut ports = BTreeMap::new();
    let mut lines: HashMap<&str, u32> = HashMap::new();
    let mut numbers: HashMap<u16, u32> = HashMap::new();
    for raw in raws {
        let At { value: name, place } = &raw.name;
        let end = known.end(name);
        if let Some(problem) = known.problem(name).filter(|_| end.is_none()) {
            no_port(format!("ports: {problem}"), name, *place, known.names(), report);
        }
        let name = end.map_or(name.as_str(), |end| end.port.as_str());
        match lines.get(name) {
            Some(line) => {
                let message = format!("ports: {} is on line {line} already", quote(name));
                report.error(*place, message);
            }
            None => _ = lines.insert(name, place.line),
        }
        if let (Some(number), Some(place)) = (raw.port.number, raw.number)
            && let Some(line) = numbers.insert(number, place.line)
        {
            report.error(place, format!("ports: number {number} is taken on line {line}"));
        }
        if let Some(place) = raw.own.filter(|_| !end.is_some_and(|end| end.node)) {
            let message =
                format!("ports: {} is not a node's, so `own` stands for nothing", quote(name));
            report.error(place, message);
        }
        if let Some(place) = raw.owner.filter(|_| end.is_some()) {
            let message = format!("ports: {} is a link's; `owner` is for programs", quote(name));
            report.error(place, message);
        }
        ports.insert(name.to_owned(), raw.port.clone());
    }
    ports
}

/// Refuses a name, suggesting the probable one or listing the existing ones.
fn no_port<'a>(
    problem: String,
    name: &str,
    place: Place,
    all: impl Iterator<Item = &'a str> + Clone,
    report: &mut Report,
) {
    const SHOWN: usize = 8;
    let help = report.suggest(name, all.clone()).or_else(|| {
        let shown: Vec<&str> = all.clone().take(SHOWN).collect();
        let more = if all.count() > SHOWN { ", ..." } else { "" };
        (!shown.is_empty()).then(|| format!("ports here: {}{more}", shown.join(", ")))
    });
    report.error_with(place, problem, help);
}

fn check_count(options: &ShmSwitch, known: &Around<'_>, report: &mut Report) {
    let most = super::MOST_PORTS;
    let links: std::collections::HashSet<&str> = known.names().collect();
    let programs = options.ports.keys().filter(|name| !links.contains(name.as_str())).count();
    // Ports with rules for programs count although nobody has joined yet: they are kept for them.
    let count = known.ends.len() + programs;
    if count > most {
        let name = quote(known.name);
        let message = format!("switch {name} has {count} ports, one of kind shm at most {most}");
        report.error(known.place, message);
    }
}

fn check_mirrors(
    raws: &[(ShmMirror, Place, Vec<Place>)],
    ports: &BTreeMap<String, ShmPort>,
    known: &Around<'_>,
    report: &mut Report,
) -> Vec<ShmMirror> {
    let resolve = |name: &mut String, place: Place, report: &mut Report| {
        if let Some(end) = known.end(name) {
            name.clone_from(&end.port);
        } else if !ports.contains_key(name) {
            let programs = ports.keys().map(String::as_str);
            let programs = programs.filter(|port| known.end(port).is_none());
            let problem = format!("mirrors: no port {} here", quote(name));
            no_port(problem, name, place, known.names().chain(programs), report);
        }
    };
    let mut mirrors = Vec::with_capacity(raws.len());
    for (mirror, to, from) in raws {
        let mut mirror = mirror.clone();
        resolve(&mut mirror.to, *to, report);
        for (name, place) in mirror.from.iter_mut().zip(from) {
            resolve(name, *place, report);
            // Each copy would be copied in turn.
            if *name == mirror.to {
                let message =
                    format!("mirrors: {} would get copies of its own frames", quote(name));
                report.error(*place, message);
            }
        }
        mirrors.push(mirror);
    }
    mirrors
}
