//! Options of a device. Of an option that is given again the last counts, of those by name (`sysctl`, `env`, `port`,
//! `volume`) the last of each.

use std::collections::BTreeMap;

use crate::draft::{self, Node, Program};
use crate::kathara::startup::Shaping;
use crate::kathara::{Device, folder, truth};
use crate::ledger::Id;
use crate::source::clean;
use crate::write::list;
use crate::{Job, Verdict, ports, shell};

/// A device as a node, and what links need of it.
pub(super) struct Made {
    pub(super) node: Node,
    pub(super) shaping: Shaping,
    /// Whether it has a way to the host's network.
    pub(super) bridged: bool,
}

/// An option that counts.
type Given<'a> = (&'a str, &'a str, Id);

/// The options of a device that count, in their order; tells of the others.
pub(super) fn lasting<'a>(job: &Job<'_>, device: &'a Device) -> Vec<Given<'a>> {
    let mut last: BTreeMap<String, Id> = BTreeMap::new();
    let all = || device.options.iter().map(|(key, value, id)| (key.as_str(), value.as_str(), *id));
    for (key, value, id) in all() {
        let slots = slots(key, value).into_iter();
        let before: Vec<Id> = slots.filter_map(|slot| last.insert(slot, id)).collect();
        let again = || Verdict::Changed("a later line gives it again".into());
        before.into_iter().filter(|before| *before != id).for_each(|b| job.ledger.say(b, again()));
    }
    let ports = published(all());
    for (key, _, id) in all() {
        if key == "port" && !ports.contains(&id) {
            let why = "another line publishes the same port";
            job.ledger.say(id, Verdict::Changed(why.into()));
        }
    }
    let counts = |(key, value, id): &Given<'_>| match *key {
        "port" => ports.contains(id),
        _ => slots(key, value).iter().all(|slot| last.get(slot) == Some(id)),
    };
    all().filter(counts).collect()
}

/// The lines whose ports are published. Kathara keeps the device's port by that of the host, at the place of the first line
/// that names it; Docker then keeps the host's port by that of the device, where the last place counts.
fn published<'a>(options: impl Iterator<Item = Given<'a>>) -> Vec<Id> {
    let mut by_host: Vec<(String, String, Id)> = vec![];
    for (_, value, id) in options.filter(|(key, ..)| *key == "port") {
        let (ports, protocol) = value.split_once('/').unwrap_or((value, "tcp"));
        let (host, to) = ports.split_once(':').unwrap_or(("3000", ports));
        let [host, to] = [host, to].map(|port| format!("{port}/{}", protocol.to_ascii_lowercase()));
        match by_host.iter_mut().find(|(known, ..)| *known == host) {
            Some(known) => *known = (host, to, id),
            None => by_host.push((host, to, id)),
        }
    }
    let is_last =
        |place: usize| by_host[place + 1..].iter().all(|(_, to, _)| *to != by_host[place].1);
    (0..by_host.len()).filter(|place| is_last(*place)).map(|place| by_host[place].2).collect()
}

/// What an option takes the place of.
fn slots(key: &str, value: &str) -> Vec<String> {
    let name = |end: char| value.split(end).next().unwrap_or_default().trim().to_owned();
    match key {
        // Of ports see `published`.
        "exec" | "port" => vec![],
        "sysctl" | "env" | "ulimit" => vec![format!("{key} {}", name('='))],
        "volume" => {
            let parts = folder::parts(value);
            let from = parts.first().and_then(|path| clean(path)).unwrap_or_default();
            let to = parts.get(1).map(|to| to.trim_end_matches('/')).unwrap_or_default();
            vec![format!("volume from {from}"), format!("volume to {to}")]
        }
        key => vec![key.to_owned()],
    }
}

/// Reads the options of a device into its node.
pub(super) fn read(job: &Job<'_>, options: &[Given<'_>], made: &mut Made) {
    let (mut limits, mut bounds) = (vec![], vec![]);
    let is_bridged = of(options, "bridged").and_then(truth) == Some(true);
    for (key, value, id) in options {
        let verdict = match *key {
            "mem" => memory(value, &mut limits),
            "cpus" => cpus(value, &mut limits),
            "bridged" | "privileged" | "ipv6" => yes(key, value, made),
            "port" => {
                let before = (made.node.ports.len(), job.ports.borrow().len());
                let verdict = ports::publish(job, value, Some(3000), &mut made.node);
                match is_bridged {
                    true => verdict,
                    false => {
                        made.node.ports.truncate(before.0);
                        job.ports.borrow_mut().truncate(before.1);
                        unasked(verdict)
                    }
                }
            }
            "volume" => folder::volume(job, value, &mut made.node),
            "ulimit" => ulimit(value, &mut bounds),
            "entrypoint" | "args" => continue,
            "exec" => {
                made.node.exec.push(exec(value, of(options, "shell")));
                Verdict::Carried
            }
            _ => one(key, value, &mut made.node),
        };
        job.ledger.say(*id, verdict);
    }
    program(job, options, &mut made.node);
    if !bounds.is_empty() {
        // Everything in the node comes from its first process, and has its bounds.
        let bounds = bounds.join(" ");
        let script = format!("prlimit --pid 1 {bounds} || echo \"exit code $?: prlimit\" >&2");
        // First, so that startup files have the bounds, too.
        made.node.setup.insert(0, ["sh", "-c", &script].map(str::to_owned).to_vec());
    }
    if !limits.is_empty() {
        made.node.keys.push(("limits", format!("{{{}}}", limits.join(", "))));
    }
}

/// The value of an option.
pub(super) fn of<'a>(options: &[Given<'a>], key: &str) -> Option<&'a str> {
    options.iter().find(|(known, ..)| *known == key).map(|(_, value, _)| *value)
}

fn left_out(why: &str) -> Verdict {
    Verdict::LeftOut(why.to_owned())
}

fn one(key: &str, value: &str, node: &mut Node) -> Verdict {
    match key {
        "image" if !node.has_image() => return left_out("the node runs the host's programs"),
        "image" => {}
        "sysctl" => match value.split_once('=') {
            Some((name, value)) if name.starts_with("net.") && !value.contains('=') => {
                node.sysctls.insert(name.trim().to_owned(), value.trim().to_owned());
            }
            _ => return left_out("expected net.SETTING=VALUE"),
        },
        "env" => match value.split_once('=') {
            Some((name, value)) if !name.trim().is_empty() => {
                node.env.insert(name.trim().to_owned(), value.trim().to_owned());
            }
            _ => return left_out("expected NAME=VALUE"),
        },
        "shell" => return Verdict::Changed("`netloom shell NODE` starts the user's own".into()),
        "num_terms" => {
            return Verdict::Changed("`netloom shell NODE` opens as many as are wanted".into());
        }
        _ => return Verdict::Changed("no option that Kathara reads".into()),
    }
    Verdict::Carried
}

/// `24` is megabytes of 2^20 bytes, and so are all units powers of 2. An empty value means no limit.
fn memory(value: &str, limits: &mut Vec<String>) -> Verdict {
    let text = value.trim().to_ascii_lowercase();
    let units: [(char, u64); 4] = [('b', 1), ('k', 1 << 10), ('m', 1 << 20), ('g', 1 << 30)];
    let unit = units.iter().find(|(name, _)| text.ends_with(*name));
    let (digits, unit) =
        unit.map_or((text.as_str(), 1 << 20), |(_, unit)| (&text[..text.len() - 1], *unit));
    let bytes = digits.trim().parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    match bytes {
        Some(0) => Verdict::Carried,
        Some(bytes) if (1 << 20..1_000_000_000_000_000).contains(&bytes) => {
            limits.push(format!("memory: {bytes}B"));
            Verdict::Carried
        }
        Some(_) => left_out("expected from 1 MiB to 1 PB"),
        None => left_out("expected a size like 128m"),
    }
}

fn cpus(value: &str, limits: &mut Vec<String>) -> Verdict {
    let Some(cpus) = value.trim().parse::<f64>().ok().filter(|cpus| (0.0..10_000.0).contains(cpus))
    else {
        return left_out("expected a number of CPUs");
    };
    if cpus == 0.0 {
        return Verdict::Carried;
    }
    if cpus < 0.0095 {
        return left_out("a node has at least 0.01 CPUs");
    }
    let (shown, rounded) = draft::cpus(cpus);
    limits.push(format!("cpu: {shown}"));
    rounded.map_or(Verdict::Carried, Verdict::Changed)
}

/// Bounds of processes that prlimit(1) sets.
const BOUNDS: [&str; 15] = [
    "core",
    "cpu",
    "data",
    "fsize",
    "locks",
    "memlock",
    "msgqueue",
    "nice",
    "nofile",
    "nproc",
    "rss",
    "rtprio",
    "rttime",
    "sigpending",
    "stack",
];

/// `NAME=SOFT[:HARD]`, where -1 means unbounded. The soft one is the hard one where it is above.
fn ulimit(value: &str, bounds: &mut Vec<String>) -> Verdict {
    let bound = |text: &str| text.trim().parse::<i64>().ok().filter(|bound| *bound >= -1);
    let read = || {
        let (name, both) = value.split_once('=')?;
        let (soft, hard) = both.split_once(':').unwrap_or((both, both));
        Some((BOUNDS.iter().find(|known| **known == name.trim())?, bound(soft)?, bound(hard)?))
    };
    let Some((name, soft, hard)) = read().filter(|(_, soft, hard)| *soft != -1 || *hard == -1)
    else {
        return left_out("expected a bound of processes like nofile=1000:2000");
    };
    // setrlimit(2) refuses a soft bound above the hard one with EINVAL.
    let soft = if hard == -1 { soft } else { soft.min(hard) };
    let shown = |bound: i64| if bound == -1 { "unlimited".to_owned() } else { bound.to_string() };
    bounds.push(format!("--{name}={}:{}", shown(soft), shown(hard)));
    match *name {
        "nofile" => Verdict::Changed(
            "of what the node runs; what `netloom exec` and `shell` start has its caller's".into(),
        ),
        _ => Verdict::Carried,
    }
}

/// Ports of a device without a way to the host, which Kathara warns of and does not publish (`DockerMachine.create`).
fn unasked(verdict: Verdict) -> Verdict {
    const WHY: &str = "not published: Kathara publishes ports of devices with `bridged` alone";
    match verdict {
        Verdict::LeftOut(why) => Verdict::LeftOut(why),
        _ => Verdict::Changed(WHY.into()),
    }
}

fn yes(key: &str, value: &str, made: &mut Made) -> Verdict {
    let Some(yes) = truth(value) else { return left_out("expected true or false") };
    match key {
        "bridged" => made.bridged = yes,
        "privileged" if yes => made.node.key("privileged", "true"),
        _ => {}
    }
    Verdict::Carried
}

/// A command by the shell that runs startup files, too.
fn exec(value: &str, shell: Option<&str>) -> Vec<String> {
    match shell {
        Some(shell) => [shell, "-c", value].map(str::to_owned).to_vec(),
        None => {
            let usual = "exec \"$(command -v bash || command -v sh)\" -c \"$1\"";
            ["sh", "-c", usual, "sh", value].map(str::to_owned).to_vec()
        }
    }
}

/// `entrypoint` and `args`: of the image, or a program of the host's.
fn program(job: &Job<'_>, options: &[Given<'_>], node: &mut Node) {
    let mut command = vec![];
    let mut parts = vec![];
    for key in ["entrypoint", "args"] {
        let Some((_, value, id)) = options.iter().find(|(known, ..)| *known == key) else {
            continue;
        };
        match shell::split(value).filter(|words| !words.is_empty()) {
            Some(words) if node.has_image() => {
                node.key(if key == "args" { "cmd" } else { "entrypoint" }, list(&words));
                job.ledger.say(*id, Verdict::Carried);
            }
            Some(words) => {
                command.extend(words);
                parts.push(*id);
            }
            None => job.ledger.say(*id, left_out("no command: a quote in it is not closed")),
        }
    }
    if !command.is_empty() {
        parts.into_iter().for_each(|id| job.ledger.say(id, Verdict::Carried));
        node.run.push(Program { command, keys: vec![("restart", "never".into())] });
    }
}
