//! Reads a hosts file: the same language, care and words as for lab files.

use std::collections::HashMap;
use std::net::IpAddr;

use netloom_config::{Diagnostics, Kind, Node as Yaml, Path, Place, Report, load, quote, read};

use super::unroll::{Context, Scope, Stop, unroll};
use super::work::Work;
use crate::bounds::{LEAST_CPU, LEAST_MEMORY};
use crate::file::{Fields, values};
use crate::hosts::{Agent, Host, Hosts, MAX_HOSTS, Ssh, USUAL_UNDERLAY};
use crate::keys::hosts::{CAPACITY, HOST, HOSTS_FILE, UNDERLAY};
use crate::naming::{login_problem, machine_name_problem};

/// Reads a hosts file. `file` is its name for messages.
///
/// # Errors
/// Every error of the file, in order of place.
pub fn hosts(file: &str, text: &[u8]) -> Result<Hosts, Diagnostics> {
    let report = Report::new(file);
    let mut context = Context { report, work: Work::new(Work::WHOLE_FILE), entries: 0, rounds: 0 };
    let hosts = load(text, &mut context.report).and_then(|tree| all(&tree, &mut context));
    match hosts {
        Some(list) if context.report.is_empty() => Ok(Hosts { list }),
        _ => Err(context.report.finish()),
    }
}

fn all(tree: &Yaml, context: &mut Context) -> Option<Vec<Host>> {
    let help = || Some("a hosts file starts like this: hosts: {east: {underlay: 10.0.0.1}}".into());
    if tree.is_null() {
        context.report.error_with(tree.place, "the file is empty", help());
        return None;
    }
    // A frequent slip, whose keys would all be unknown.
    if tree.get("nodes").is_some() && tree.get("hosts").is_none() {
        let message = "this is a lab file, no hosts file";
        context.report.error_with(tree.place, message, help());
        return None;
    }
    let fields = Fields::open(tree, &Path::Root, &HOSTS_FILE, &mut context.report)?;
    let path = Path::Root.key("hosts");
    // That it is missing has been told.
    let value = fields.get("hosts")?;
    let Some(entries) = value.entries().filter(|entries| !entries.is_empty()) else {
        read::expected(value, &path, "a map from names to hosts", &mut context.report);
        return None;
    };
    let mut found = Found::default();
    let top = Scope::default();
    for entry in entries {
        let done =
            unroll(&entry.key, entry.place, &entry.value, &top, context, &mut |round, context| {
                let report = &mut context.report;
                if found.list.len() == MAX_HOSTS {
                    report.set_repetition(None);
                    report.error(round.place, format!("more than {MAX_HOSTS} hosts"));
                    return Err(Stop);
                }
                if let Some(problem) = machine_name_problem(round.name) {
                    report.error(round.place, problem);
                }
                if let Some(host) = host(round.name, round.body, &path.key(round.name), report) {
                    found.add(host, round.place, report);
                }
                Ok(())
            });
        if done.is_err() {
            return None;
        }
    }
    context.report.set_repetition(None);
    // Every repetition may have been empty, and a lab needs a host.
    if found.list.is_empty() && context.report.is_empty() {
        let message = "hosts: every `for` is empty; give at least one host";
        context.report.error_with(value.place, message, help());
        return None;
    }
    Some(found.list)
}

/// The hosts so far, and where each thing that only one may have was given.
#[derive(Default)]
struct Found {
    list: Vec<Host>,
    names: HashMap<String, Place>,
    underlays: HashMap<IpAddr, String>,
    logins: HashMap<Ssh, String>,
    agents: HashMap<Agent, String>,
}

impl Found {
    /// Adds a host; one that is there already, under whatever name, is refused: it would be given twice what it has.
    fn add(&mut self, host: Host, place: Place, report: &mut Report) {
        let name = quote(&host.name);
        if let Some(first) = self.names.insert(host.name.clone(), place) {
            report
                .error(place, format!("host {name} is named twice; first on line {}", first.line));
            return;
        }
        if let Some(other) = self.underlays.insert(host.underlay, host.name.clone()) {
            let message = format!(
                "hosts {} and {name} have the same underlay address {}",
                quote(&other),
                host.underlay
            );
            report.error_with(place, message, Some("name each host once".into()));
        } else if host.agent != Agent::Ssh
            && let Some(other) = self.agents.insert(host.agent.clone(), host.name.clone())
        {
            let message = format!("hosts {} and {name} have the same agent", quote(&other));
            report.error_with(place, message, Some("name each host once".into()));
        } else if let Some(other) = self.logins.insert(host.ssh.clone(), host.name.clone()) {
            let message = format!(
                "hosts {} and {name} have the same ssh address {}",
                quote(&other),
                host.ssh
            );
            report.error_with(place, message, Some("name each host once".into()));
        } else if let Some(first) = self.list.first()
            && first.underlay.is_ipv4() != host.underlay.is_ipv4()
        {
            let family = |at: IpAddr| if at.is_ipv4() { "IPv4" } else { "IPv6" };
            report.error(
                place,
                format!(
                    "host {name}: its underlay address {} is {}, that of {} is {}; hosts reach each other by one family",
                    host.underlay,
                    family(host.underlay),
                    quote(&first.name),
                    family(first.underlay)
                ),
            );
        }
        self.list.push(host);
    }
}

fn host(name: &str, yaml: &Yaml, path: &Path<'_>, report: &mut Report) -> Option<Host> {
    let fields = Fields::open(yaml, path, &HOST, report)?;
    let default = Ssh { host: name.to_owned(), ..Ssh::default() };
    let ssh = match fields.get("ssh") {
        Some(value) => ssh(value, &path.key("ssh"), report),
        None => Some(default),
    };
    let agent = match fields.get("agent") {
        Some(value) => agent(value, &path.key("agent"), report),
        None => Some(Agent::Ssh),
    };
    let underlay = fields.get("underlay").and_then(|v| underlay(v, &path.key("underlay"), report));
    let (mut memory, mut cpu_milli) = (None, None);
    if let Some(value) = fields.get("capacity") {
        (memory, cpu_milli) = capacity(value, &path.key("capacity"), report);
    }
    let (underlay, mtu) = underlay?;
    let (ssh, agent) = (ssh?, agent?);
    Some(Host { name: name.to_owned(), ssh, agent, underlay, mtu, memory, cpu_milli })
}

/// How an agent is started. A line is not a list: nothing here divides it into words, as a shell would.
fn agent(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Option<Agent> {
    if value.items().is_none() {
        return match read::choice(value, path, &["ssh", "local"], report)? {
            "local" => Some(Agent::Local),
            _ => Some(Agent::Ssh),
        };
    }
    let words = read::texts(value, path, report)?;
    if words.first().is_none_or(String::is_empty) {
        let help = "write [PROGRAM, ARGUMENT, ..., netloom, agent, --stdio]";
        report.error_with(value.place, format!("{path}: no program"), Some(help.into()));
        return None;
    }
    if let Some(word) = words.iter().find(|word| word.contains('\0')) {
        report.error(value.place, format!("{path}: {} has a NUL", quote(word)));
        return None;
    }
    Some(Agent::Command(words))
}

/// An address that other hosts can send to, and the MTU on the way there.
fn underlay(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Option<(IpAddr, u32)> {
    if !matches!(value.kind, Kind::Map(_)) {
        return Some((address(value, path, report)?, USUAL_UNDERLAY));
    }
    let fields = Fields::open(value, path, &UNDERLAY, report)?;
    let mtu = fields.get("mtu").map(|value| {
        let number = read::integer(value, &path.key("mtu"), 1280..=65535, report);
        number.and_then(|n| u32::try_from(n).ok())
    });
    let at = fields.get("address").and_then(|v| address(v, &path.key("address"), report));
    Some((at?, mtu.unwrap_or(Some(USUAL_UNDERLAY))?))
}

fn address(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Option<IpAddr> {
    let at = read::address(value, path, report)?;
    if let Some(reason) = values::unusable(&at.into()) {
        report.error(value.place, format!("{path}: {at} {reason}"));
        return None;
    }
    Some(at)
}

fn capacity(value: &Yaml, path: &Path<'_>, report: &mut Report) -> (Option<u64>, Option<u32>) {
    let Some(fields) = Fields::open(value, path, &CAPACITY, report) else { return (None, None) };
    let too_small = |value: &Yaml, key: &str, least: &str, report: &mut Report| {
        let found = value.describe();
        let path = path.key(key);
        report.error(value.place, format!("{path}: at least {least} is needed, found {found}"));
    };
    let memory = fields.get("memory").and_then(|value| {
        let bytes = read::bytes(value, &path.key("memory"), report)?;
        if bytes < LEAST_MEMORY {
            too_small(value, "memory", "1MiB", report);
        }
        Some(bytes)
    });
    let cpu = fields.get("cpu").and_then(|value| {
        let milli = read::cpu_milli(value, &path.key("cpu"), report)?;
        if milli < LEAST_CPU {
            too_small(value, "cpu", "1% of a CPU", report);
        }
        Some(milli)
    });
    (memory, cpu)
}

/// `[USER@]HOST[:PORT]`. A login that begins with `-` would be an option of ssh(1).
fn ssh(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Option<Ssh> {
    let text = read::text(value, path, report)?;
    match read_ssh(&text) {
        Ok(ssh) => Some(ssh),
        Err(problem) => {
            report.error(value.place, format!("{path}: {problem}"));
            None
        }
    }
}

fn read_ssh(text: &str) -> Result<Ssh, String> {
    let (user, rest) = match text.rsplit_once('@') {
        Some((user, rest)) => (Some(user), rest),
        None => (None, text),
    };
    let (host, port) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((inner, after)) => {
            if inner.parse::<std::net::Ipv6Addr>().is_err() {
                return Err(format!("{} is not an IPv6 address", quote(inner)));
            }
            let port = match after {
                "" => None,
                _ => Some(after.strip_prefix(':').ok_or_else(|| {
                    format!("found {} instead of :PORT after the address", quote(after))
                })?),
            };
            (inner, port)
        }
        // Without brackets the last group would be taken for a port.
        None if rest.parse::<std::net::Ipv6Addr>().is_ok() => (rest, None),
        None => match rest.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (rest, None),
        },
    };
    if let Some(problem) = user.and_then(|user| login_problem("user", user)) {
        return Err(problem);
    }
    if host.parse::<IpAddr>().is_err()
        && let Some(problem) = login_problem("host", host)
    {
        return Err(problem);
    }
    let number = |text: &str| {
        let digits = text.bytes().all(|b| b.is_ascii_digit());
        text.parse::<u16>().ok().filter(|port| digits && *port != 0)
    };
    let port = match port {
        None => None,
        Some(text) => Some(
            number(text)
                .ok_or_else(|| format!("{} is not a port; write 1 to 65535", quote(text)))?,
        ),
    };
    Ok(Ssh { user: user.map(str::to_owned), host: host.to_owned(), port })
}

#[cfg(test)]
mod tests;
