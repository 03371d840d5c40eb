//! Formats switches, their ports and their mirror sessions. Produces text only.

use std::collections::BTreeMap;

use netloom_switch::control::requests::{MacTable, PortShown, Presence, Shown};
use netloom_switch::rules::{Direction, PortRules, Source, Vlan};

use super::{Whole, openflow};
use crate::output::{bytes, facts, moment, or_dash, table};
use crate::verbs::figures::amount;

/// Counters with their own line.
const PLAIN: [&str; 6] = [
    "received-frames",
    "received-bytes",
    "received-super",
    "sent-frames",
    "sent-bytes",
    "sent-super",
];

/// Prefix of loss counters; the cause follows.
const DROPPED: &str = "dropped-";
/// Counter of frames from the switch that found no room.
const MISSED: &str = "missed";
/// Counter of frames of the port that the switch did not relay, once for every receiver.
const RELAY: &str = "relay-dropped";

type Counters = BTreeMap<String, u64>;

/// All switches, one per line.
pub(super) fn list(all: &[Whole]) -> String {
    let head = ["SWITCH", "KIND", "STATE", "PORTS", "EDGES", "MEMORY", "LINKS"];
    let row = |whole: &Whole| {
        let shown = whole.shown.as_ref();
        let links = &whole.status.links;
        let ports = if whole.failure.is_none() { Some(links.len()) } else { None };
        vec![
            whole.status.name.clone(),
            whole.status.kind.clone(),
            if whole.failure.is_some() { "down" } else { "up" }.into(),
            or_dash(shown.map(here).or(ports), |n| n.to_string()),
            or_dash(shown, |s| s.edges.to_string()),
            or_dash(shown, |s| kib(s.memory_kib)),
            if links.is_empty() { "-".into() } else { links.join(" ") },
        ]
    };
    table(&head, all.iter().map(row).collect())
}

/// Occupied ports.
fn here(shown: &Shown) -> usize {
    shown.ports.iter().filter(|p| p.presence == Presence::Here).count()
}

/// All about a switch.
pub(super) fn whole(whole: &Whole) -> String {
    let status = &whole.status;
    let mut lines = vec![("switch", format!("{}: {}", status.name, status.kind))];
    lines.extend(whole.failure.iter().map(|why| ("down", why.clone())));
    if let Some(of) = &status.openflow {
        lines.extend(openflow::lines(of, whole.flow.as_ref()));
    }
    if whole.shown.is_none() && status.openflow.is_none() && !status.bridge.is_empty() {
        lines.push(("bridge", status.bridge.clone()));
    }
    lines.extend(whole.shown.iter().flat_map(process));
    lines.extend(status.vde.iter().map(|folder| ("VDE", folder.clone())));
    lines.extend((!status.links.is_empty()).then(|| ("links", status.links.join(" "))));
    let mut text = facts(&lines);
    for part in whole.shown.iter().flat_map(|s| [ports(s), mirrors(s)]) {
        if !part.is_empty() {
            text.push('\n');
            text.push_str(&part);
        }
    }
    for part in whole.flow.iter().flat_map(|f| [openflow::ports(f), openflow::controllers(f)]) {
        if !part.is_empty() {
            text.push('\n');
            text.push_str(&part);
        }
    }
    text
}

fn process(shown: &Shown) -> Vec<(&'static str, String)> {
    let Shown { pid, uid, cpu_us, .. } = shown;
    let cpu = format!("{}.{:02} s", cpu_us / 1_000_000, cpu_us / 10_000 % 100);
    let mut all = Counters::new();
    for (name, count) in shown.ports.iter().flat_map(|p| &p.counters) {
        *all.entry(name.clone()).or_default() += count;
    }
    // Receivers count the same frames as missed.
    all.remove(RELAY);
    let [received, sent] = traffic(&all);
    let [relay_in, relay_out] = traffic(&shown.relay);
    let mut lines = vec![
        ("process", format!("{pid}, user {uid}, since {}, CPU {cpu}", moment(shown.since))),
        (
            "joins",
            format!("{}, {} refused, {} expelled", shown.joins, shown.refused, shown.expelled),
        ),
        ("edges", shown.edges.to_string()),
        ("memory", kib(shown.memory_kib)),
        ("VLANs", if shown.vlans { "told apart" } else { "not told apart" }.into()),
        ("sent", sent),
        ("received", received),
        ("dropped", losses(&all)),
    ];
    let relayed = losses(&shown.relay);
    lines.push(("relay", format!("took {relay_in}, gave {relay_out}, dropped {relayed}")));
    lines
}

fn ports(shown: &Shown) -> String {
    if shown.ports.is_empty() {
        return String::new();
    }
    let mut head = vec!["PORT", "NAME", "STATE", "PID", "USER", "EDGES", "MEMORY"];
    let vlans = shown.ports.iter().any(|p| p.rules.vlan.is_some());
    head.extend(vlans.then_some("VLANS"));
    head.extend(["SENT", "RECEIVED", "DROPPED"]);
    let row = |port: &PortShown| {
        let [received, sent] = traffic(&port.counters);
        let mut row = vec![
            port.number.to_string(),
            name(port),
            presence(port.presence).into(),
            or_dash(port.pid, |pid| pid.to_string()),
            or_dash(port.uid, |uid| uid.to_string()),
            edges(port),
            kib(port.memory_kib),
        ];
        row.extend(vlans.then(|| vlan(&port.rules)));
        row.extend([sent, received, losses(&port.counters)]);
        row
    };
    table(&head, shown.ports.iter().map(row).collect())
}

/// All about a port.
pub(super) fn port(port: &PortShown) -> String {
    let [received, sent] = traffic(&port.counters);
    let state = presence(port.presence);
    let mut lines = vec![("port", format!("{} {}: {state}", port.number, name(port)))];
    if let Some(since) = port.since {
        let pid = or_dash(port.pid, |pid| pid.to_string());
        let user = or_dash(port.uid, |uid| uid.to_string());
        lines.push(("process", format!("{pid}, user {user}, since {}", moment(since))));
    }
    lines.extend(rules(&port.rules));
    if port.presence == Presence::Here {
        let takes = [(port.super_frames, "super-frames"), (port.checksums, "unfinished checksums")];
        let takes = takes.into_iter().filter(|(can, _)| *can).map(|(_, what)| what);
        let takes = takes.collect::<Vec<_>>().join(", ");
        lines.push(("takes", if takes.is_empty() { "plain frames".into() } else { takes }));
        lines.extend([
            ("edges", edges(port)),
            ("memory", kib(port.memory_kib)),
            ("sent", sent),
            ("received", received),
            ("dropped", losses(&port.counters)),
        ]);
    }
    let rest = port.counters.iter().filter(|(name, count)| is_other(name) && **count > 0);
    lines.extend(rest.map(|(name, count)| (name.as_str(), count.to_string())));
    facts(&lines)
}

fn is_other(name: &str) -> bool {
    !PLAIN.contains(&name) && !name.starts_with(DROPPED) && ![MISSED, RELAY].contains(&name)
}

/// The rules of a port, one per line.
fn rules(rules: &PortRules) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    lines.extend(rules.name.iter().map(|name| ("reserved", format!("for the name {name}"))));
    lines.extend(rules.uid.map(|uid| ("user", format!("{uid} may have it"))));
    lines.extend(rules.gid.map(|gid| ("group", format!("{gid} may have it"))));
    lines.extend(rules.vlan.is_some().then(|| ("VLANs", vlan(rules))));
    if !rules.macs.is_empty() {
        let macs: Vec<String> = rules.macs.iter().map(ToString::to_string).collect();
        lines.push(("lock", macs.join(",")));
    }
    lines.extend((!rules.learn).then(|| ("learn", "off".to_owned())));
    lines
}

/// The addresses that ports have learned.
pub(super) fn macs(tables: &[MacTable], shown: &Shown) -> String {
    let rows = tables.iter().flat_map(|table| {
        table.entries.iter().map(move |entry| {
            vec![
                who(table.port, shown),
                entry.mac.to_string(),
                if entry.vlan == 0 { "-".into() } else { entry.vlan.to_string() },
                who(entry.port, shown),
                format!("{} s", entry.age),
            ]
        })
    });
    table(&["PORT", "MAC", "VLAN", "BEHIND", "AGE"], rows.collect())
}

/// Mirror sessions, one per line; empty if there are none.
pub(super) fn mirrors(shown: &Shown) -> String {
    if shown.mirrors.is_empty() {
        return String::new();
    }
    let source = |source: &Source| {
        let direction = match source.direction {
            Direction::In => " in",
            Direction::Out => " out",
            Direction::Both => "",
        };
        who(source.port, shown) + direction
    };
    let rows = shown.mirrors.iter().map(|(number, mirror)| {
        let from: Vec<String> = mirror.sources.iter().map(source).collect();
        let filter = mirror.filter.to_string();
        vec![number.to_string(), who(mirror.to, shown), from.join(", "), filter]
    });
    table(&["MIRROR", "TO", "FROM", "FRAMES"], rows.collect())
}

/// A port by number and name.
fn who(number: u16, shown: &Shown) -> String {
    let named = shown.ports.iter().find(|p| p.number == number && !p.name.is_empty());
    match (number, named) {
        (0, _) => "switch".to_owned(),
        (_, Some(port)) => format!("{number} {}", port.name),
        (_, None) => number.to_string(),
    }
}

fn name(port: &PortShown) -> String {
    if port.name.is_empty() { "-".to_owned() } else { port.name.clone() }
}

fn presence(presence: Presence) -> &'static str {
    match presence {
        Presence::Here => "here",
        Presence::Awaited => "awaited",
        Presence::Free => "free",
    }
}

fn edges(port: &PortShown) -> String {
    format!("{} out, {} in", port.edges_out, port.edges_in)
}

/// `access 7`, `trunk 1-3, native 7`, `qinq 7, cvlans 1-3, tpid 0x88a8`
fn vlan(rules: &PortRules) -> String {
    match &rules.vlan {
        None => "-".to_owned(),
        Some(Vlan::Access(vid)) => format!("access {vid}"),
        Some(Vlan::Trunk { native: None, allowed }) => format!("trunk {allowed}"),
        Some(Vlan::Trunk { native: Some(vid), allowed }) => {
            format!("trunk {allowed}, native {vid}")
        }
        Some(Vlan::Qinq { vlan, cvlans: None, tpid }) => format!("qinq {vlan}, tpid {tpid}"),
        Some(Vlan::Qinq { vlan, cvlans: Some(cvlans), tpid }) => {
            format!("qinq {vlan}, cvlans {cvlans}, tpid {tpid}")
        }
    }
}

/// Received and sent.
fn traffic(counters: &Counters) -> [String; 2] {
    let of = |name: String| counters.get(&name).copied().unwrap_or(0);
    ["received", "sent"].map(|way| {
        let figures = amount(of(format!("{way}-frames")), of(format!("{way}-bytes")));
        match of(format!("{way}-super")) {
            0 => figures,
            many => format!("{figures}, {many} super"),
        }
    })
}

/// Frames lost, with the causes: `3 (spoofed 1, stalled 2)`.
fn losses(counters: &Counters) -> String {
    let cause = |name: &str| match name {
        MISSED => Some(MISSED.to_owned()),
        RELAY => Some("relay".to_owned()),
        name => name.strip_prefix(DROPPED).map(str::to_owned),
    };
    let causes = counters.iter().filter_map(|(name, n)| Some((cause(name)?, *n)));
    let causes: Vec<(String, u64)> = causes.filter(|(_, n)| *n > 0).collect();
    let total: u64 = causes.iter().map(|(_, n)| n).sum();
    let words: Vec<String> = causes.iter().map(|(cause, n)| format!("{cause} {n}")).collect();
    if words.is_empty() { "0".into() } else { format!("{total} ({})", words.join(", ")) }
}

fn kib(count: u64) -> String {
    bytes(count.saturating_mul(1024))
}

#[cfg(test)]
mod tests {
    use netloom_lab::view::SwitchStatus;

    use super::*;
    use crate::verbs::samples;

    fn status(name: &str, kind: &str, bridge: &str) -> SwitchStatus {
        let links = vec!["h1:eth0--s".to_owned()];
        SwitchStatus {
            name: name.into(),
            kind: kind.into(),
            bridge: bridge.into(),
            links,
            openflow: None,
            vde: None,
        }
    }

    #[test]
    fn switches_of_all_kinds_are_listed() {
        let shown = Some(samples::shown());
        let all = [
            Whole { status: status("s", "shm", ""), failure: None, shown, flow: None },
            Whole {
                status: status("t", "shm", ""),
                failure: Some("gone".into()),
                shown: None,
                flow: None,
            },
            Whole { status: status("k", "kernel", "br-k"), failure: None, shown: None, flow: None },
        ];
        let expected = "\
SWITCH  KIND    STATE  PORTS  EDGES  MEMORY   LINKS
s       shm     up     2      3      3.0 MiB  h1:eth0--s
t       shm     down   -      -      -        h1:eth0--s
k       kernel  up     1      -      -        h1:eth0--s
";
        assert_eq!(list(&all), expected);
    }

    #[test]
    fn all_of_a_switch_is_shown() {
        let shown = Some(samples::shown());
        let status = status("s", "shm", "");
        let expected = "\
switch    s: shm
process   42, user 0, since 1970-01-01T00:00:05Z, CPU 1.25 s
joins     4, 1 refused, 2 expelled
edges     3
memory    3.0 MiB
VLANs     told apart
sent      10 (1.0 KiB), 1 super
received  5 (512 B)
dropped   4 (spoofed 1, stalled 2, missed 1)
relay     took 6 (600 B), gave 7 (700 B), dropped 1 (full 1)
links     h1:eth0--s

PORT  NAME     STATE  PID  USER  EDGES        MEMORY   VLANS                  SENT                   RECEIVED   DROPPED
1     h1:eth0  here   33   5     1 out, 2 in  2.0 MiB  trunk 1-3,9, native 7  10 (1.0 KiB), 1 super  5 (512 B)  4 (spoofed 1, stalled 2, missed 1)
2     -        here   -    0     0 out, 0 in  1.0 MiB  access 7               0 (0 B)                0 (0 B)    0
3     watch    free   -    -     0 out, 0 in  0 B      -                      0 (0 B)                0 (0 B)    0

MIRROR  TO       FROM             FRAMES
2       3 watch  1 h1:eth0 in, 2  vlan 7, tcp
";
        assert_eq!(whole(&Whole { status, failure: None, shown, flow: None }), expected);
    }

    #[test]
    fn a_switch_without_a_process_is_shown_too() {
        let kernel =
            Whole { status: status("k", "kernel", "br-k"), failure: None, shown: None, flow: None };
        assert_eq!(whole(&kernel), "switch  k: kernel\nbridge  br-k\nlinks   h1:eth0--s\n");
        let failure = Some("its process is not there".to_owned());
        let down = Whole { status: status("s", "shm", ""), failure, shown: None, flow: None };
        let expected = "\
switch  s: shm
down    its process is not there
links   h1:eth0--s
";
        assert_eq!(whole(&down), expected);
    }

    #[test]
    fn all_of_a_port_is_shown() {
        let ports = samples::shown().ports;
        let expected = "\
port      1 h1:eth0: here
process   33, user 5, since 1970-01-01T00:00:06Z
reserved  for the name h1:eth0
user      5 may have it
group     6 may have it
VLANs     trunk 1-3,9, native 7
lock      02:00:00:00:00:01,02:00:00:00:00:02
learn     off
takes     super-frames
edges     1 out, 2 in
memory    2.0 MiB
sent      10 (1.0 KiB), 1 super
received  5 (512 B)
dropped   4 (spoofed 1, stalled 2, missed 1)
waits     8
";
        assert_eq!(port(&ports[0]), expected);
        assert_eq!(port(&ports[2]), "port      3 watch: free\nreserved  for the name watch\n");
    }

    #[test]
    fn addresses_are_listed_with_ports_by_number_and_name() {
        let tables: Vec<MacTable> = serde_json::from_value(serde_json::json!([
            {"port": 0, "entries": [{"mac": "02:00:00:00:00:01", "vlan": 0, "port": 1, "age": 3}]},
            {"port": 9, "entries": [{"mac": "02:00:00:00:00:02", "vlan": 7, "port": 2, "age": 0}]},
        ]))
        .unwrap();
        let expected = "\
PORT    MAC                VLAN  BEHIND     AGE
switch  02:00:00:00:00:01  -     1 h1:eth0  3 s
9       02:00:00:00:00:02  7     2          0 s
";
        assert_eq!(macs(&tables, &samples::shown()), expected);
    }
}
