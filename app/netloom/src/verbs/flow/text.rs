//! Formats flow entries, groups, meters, ports and traces. Produces text and values for JSON only.

use netloom_flow::control::requests::{Shown, Traced};
use netloom_openflow::flow::{Duration, FlowCommand};
use netloom_openflow::group::GroupCommand;
use netloom_openflow::meter::MeterCommand;
use netloom_openflow::multipart::{
    FlowStats, GroupDesc, GroupStats, MeterConfig, MeterStats, PortStats,
};
use netloom_openflow::port::PortState;
use netloom_openflow::text::{
    print_flow, print_group, print_instructions, print_match, print_meter,
};
use netloom_openflow::{FlowMod, GroupMod, MeterMod};
use serde::Serialize;
use serde_json::{Value, json};

use crate::output::{facts, table};
use crate::verbs::figures::amount;

/// An entry as `flow add` reads it.
fn text_of(flow: &FlowStats) -> String {
    print_flow(&FlowMod {
        cookie: flow.cookie,
        table: flow.table,
        idle_timeout: flow.idle_timeout,
        hard_timeout: flow.hard_timeout,
        priority: flow.priority,
        flags: flow.flags,
        instructions: flow.instructions.clone(),
        ..FlowMod::new(FlowCommand::Add, flow.matching.clone())
    })
}

/// Entries, one a line.
pub(super) fn plain(flows: &[FlowStats]) -> String {
    flows.iter().map(|flow| text_of(flow) + "\n").collect()
}

/// Entries with their counters.
pub(super) fn flows(flows: &[FlowStats]) -> String {
    if flows.is_empty() {
        return "no flow entries\n".into();
    }
    let row = |flow: &FlowStats| {
        vec![
            flow.table.to_string(),
            flow.priority.to_string(),
            amount(flow.packets, flow.bytes),
            age(flow.duration),
            text_of(flow),
        ]
    };
    table(&["TABLE", "PRIORITY", "MATCHED", "AGE", "FLOW"], flows.iter().map(row).collect())
}

fn age(of: Duration) -> String {
    format!("{}.{} s", of.seconds, of.nanoseconds / 100_000_000)
}

fn seconds(of: Duration) -> f64 {
    f64::from(of.seconds) + f64::from(of.nanoseconds) / 1e9
}

/// An entry as a value.
pub(super) fn flow_json(flow: &FlowStats) -> Value {
    json!({
        "table": flow.table,
        "priority": flow.priority,
        "cookie": flow.cookie,
        "idle_timeout": flow.idle_timeout,
        "hard_timeout": flow.hard_timeout,
        "packets": flow.packets,
        "bytes": flow.bytes,
        "age_s": seconds(flow.duration),
        "match": print_match(&flow.matching),
        "actions": print_instructions(&flow.instructions),
        "flow": text_of(flow),
    })
}

/// A group with its counters.
#[derive(Debug, Serialize)]
pub(super) struct Group {
    group_id: u32,
    /// As `flow groups add` reads it.
    group: String,
    packets: u64,
    bytes: u64,
    /// Entries and groups that send to it.
    references: u32,
    /// Of each bucket.
    buckets: Vec<Counted>,
}

/// Counters of a bucket or a band.
#[derive(Debug, Serialize)]
pub(super) struct Counted {
    packets: u64,
    bytes: u64,
}

fn counted(all: &[(u64, u64)]) -> Vec<Counted> {
    all.iter().map(|(packets, bytes)| Counted { packets: *packets, bytes: *bytes }).collect()
}

impl Group {
    pub(super) fn all(groups: &[GroupDesc], stats: &[GroupStats]) -> Vec<Group> {
        let one = |desc: &GroupDesc| {
            let stats = stats.iter().find(|stats| stats.group == desc.group);
            let command = GroupCommand::Add;
            let (kind, group, buckets) = (desc.kind, desc.group, desc.buckets.clone());
            Group {
                group_id: group,
                group: print_group(&GroupMod { command, kind, group, buckets }),
                packets: stats.map_or(0, |s| s.packets),
                bytes: stats.map_or(0, |s| s.bytes),
                references: stats.map_or(0, |s| s.references),
                buckets: counted(stats.map_or(&[], |s| &s.buckets)),
            }
        };
        groups.iter().map(one).collect()
    }
}

/// Groups, one a line.
pub(super) fn groups(all: &[Group]) -> String {
    if all.is_empty() {
        return "no groups\n".into();
    }
    let row = |g: &Group| {
        vec![amount(g.packets, g.bytes), per(&g.buckets), g.references.to_string(), g.group.clone()]
    };
    table(&["PACKETS", "BY BUCKET", "REFERENCES", "GROUP"], all.iter().map(row).collect())
}

fn per(all: &[Counted]) -> String {
    let packets: Vec<String> = all.iter().map(|one| one.packets.to_string()).collect();
    if packets.is_empty() { "-".into() } else { packets.join(", ") }
}

/// A meter with its counters.
#[derive(Debug, Serialize)]
pub(super) struct Meter {
    meter_id: u32,
    /// As `flow meters add` reads it.
    meter: String,
    packets: u64,
    bytes: u64,
    /// Entries that use it.
    flows: u32,
    /// Of each band: what exceeded its rate.
    bands: Vec<Counted>,
}

impl Meter {
    pub(super) fn all(meters: &[MeterConfig], stats: &[MeterStats]) -> Vec<Meter> {
        let one = |config: &MeterConfig| {
            let stats = stats.iter().find(|stats| stats.meter == config.meter);
            let command = MeterCommand::Add;
            let (flags, meter, bands) = (config.flags, config.meter, config.bands.clone());
            Meter {
                meter_id: meter,
                meter: print_meter(&MeterMod { command, flags, meter, bands }),
                packets: stats.map_or(0, |s| s.packets),
                bytes: stats.map_or(0, |s| s.bytes),
                flows: stats.map_or(0, |s| s.flows),
                bands: counted(stats.map_or(&[], |s| &s.bands)),
            }
        };
        meters.iter().map(one).collect()
    }
}

/// Meters, one a line.
pub(super) fn meters(all: &[Meter]) -> String {
    if all.is_empty() {
        return "no meters\n".into();
    }
    let row = |m: &Meter| {
        vec![amount(m.packets, m.bytes), per(&m.bands), m.flows.to_string(), m.meter.clone()]
    };
    table(&["PACKETS", "OVER BANDS", "FLOWS", "METER"], all.iter().map(row).collect())
}

/// A port with its counters.
#[derive(Debug, Serialize)]
pub(super) struct Port {
    number: String,
    name: String,
    mac: String,
    up: bool,
    config: Vec<&'static str>,
    received_packets: u64,
    received_bytes: u64,
    sent_packets: u64,
    sent_bytes: u64,
    dropped: u64,
    errors: u64,
}

impl Port {
    pub(super) fn all(ports: &[netloom_openflow::Port], stats: &[PortStats]) -> Vec<Port> {
        let one = |port: &netloom_openflow::Port| {
            let stats = stats.iter().find(|stats| stats.port == port.number);
            // Counters that a switch does not keep are all ones.
            let kept = |value: u64| if value == u64::MAX { 0 } else { value };
            let count = |get: fn(&PortStats) -> u64| stats.map_or(0, |s| kept(get(s)));
            Port {
                number: port.number.to_string(),
                name: port.name.text().into_owned(),
                mac: port.address.map(|byte| format!("{byte:02x}")).join(":"),
                up: !port.state.has(PortState::LINK_DOWN),
                config: port.config.names().collect(),
                received_packets: count(|s| s.rx_packets),
                received_bytes: count(|s| s.rx_bytes),
                sent_packets: count(|s| s.tx_packets),
                sent_bytes: count(|s| s.tx_bytes),
                dropped: count(|s| s.rx_dropped).saturating_add(count(|s| s.tx_dropped)),
                errors: count(|s| s.rx_errors).saturating_add(count(|s| s.tx_errors)),
            }
        };
        ports.iter().map(one).collect()
    }
}

/// Ports, one a line.
pub(super) fn ports(all: &[Port]) -> String {
    if all.is_empty() {
        return "no ports\n".into();
    }
    let row = |p: &Port| {
        let state = std::iter::once(if p.up { "up" } else { "down" });
        vec![
            p.number.clone(),
            p.name.clone(),
            p.mac.clone(),
            state.chain(p.config.iter().copied()).collect::<Vec<_>>().join(", "),
            amount(p.received_packets, p.received_bytes),
            amount(p.sent_packets, p.sent_bytes),
            p.dropped.to_string(),
            p.errors.to_string(),
        ]
    };
    let head = ["PORT", "NAME", "MAC", "STATE", "RECEIVED", "SENT", "DROPPED", "ERRORS"];
    table(&head, all.iter().map(row).collect())
}

/// What a switch says of a packet for its controllers that none takes.
const NOT_TAKEN: &str = "no controller takes it";

/// Why nobody makes entries in a switch, if nobody does.
fn unled(switch: &Shown) -> Option<String> {
    let own = &switch.controllers;
    if own.iter().any(|own| own.connection.is_some()) || !switch.connections.is_empty() {
        return None;
    }
    let none = own.first().map(|first| match &first.reason {
        Some(reason) => format!("none is connected ({}: {reason})", first.target),
        None => format!("none is connected ({})", first.target),
    });
    let none = none.unwrap_or_else(|| "the switch has none".to_owned());
    Some(format!("{none}: entries come from `netloom flow add` alone"))
}

/// What would happen to a frame.
pub(super) fn trace(traced: &Traced, switch: &Shown) -> String {
    let name = |number: u32| {
        let port = switch.ports.iter().find(|port| port.number == number);
        port.map_or_else(|| number.to_string(), |port| format!("{number} {}", port.name))
    };
    let mut lines = vec![("comes in by", name(traced.port)), ("frame", traced.fields.clone())];
    if traced.standalone {
        lines.push(("tables", "none: without a controller it is an ordinary switch".into()));
    }
    for step in &traced.steps {
        let entry = step.entry.clone().unwrap_or_else(|| "no entry matches".into());
        lines.push(("table", format!("{}: {entry}", step.table)));
    }
    let groups = traced.groups.iter();
    lines.extend(groups.map(|(group, bucket)| ("group", format!("{group}, bucket {bucket}"))));
    lines.extend(traced.meters.iter().map(|meter| ("meter", meter.to_string())));
    if !traced.effects.is_empty() {
        lines.push(("does", traced.effects.join(", ")));
    }
    let sent = traced.sent.iter();
    lines.extend(sent.map(|sent| ("leaves by", name(sent.port))));
    if traced.packet_ins > 0 {
        lines.push(("to controllers", traced.packet_ins.to_string()));
    }
    lines.extend(traced.drops.iter().map(|why| ("dropped", why.clone())));
    let is_missed = traced.steps.iter().any(|step| step.entry.is_none());
    let is_untaken = traced.drops.iter().any(|why| why == NOT_TAKEN);
    if is_missed || is_untaken {
        lines.extend(unled(switch).map(|why| ("controllers", why)));
    }
    lines.push((
        "decided by",
        if traced.decided_by.is_empty() { "-".into() } else { traced.decided_by.clone() },
    ));
    lines.extend(traced.not_kept.iter().map(|why| ("not kept", why.clone())));
    facts(&lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use netloom_flow::control::requests::{ControllerShown, PortShown, TraceSent, TraceStep};
    use netloom_openflow::Version;
    use netloom_openflow::text::flow;

    fn stats(text: &str, packets: u64) -> FlowStats {
        let change = flow(FlowCommand::Add, text, Version::V13).unwrap();
        FlowStats {
            table: change.table,
            duration: Duration { seconds: 3, nanoseconds: 250_000_000 },
            priority: change.priority,
            idle_timeout: change.idle_timeout,
            hard_timeout: change.hard_timeout,
            flags: change.flags,
            cookie: change.cookie,
            packets,
            bytes: packets * 100,
            matching: change.matching,
            instructions: change.instructions,
        }
    }

    #[test]
    fn entries_are_shown_and_read_back() {
        let texts = [
            "table=1,priority=5,idle_timeout=9,ip,ipv4_dst=10.0.0.2,actions=output:2",
            "priority=0,actions=drop",
        ];
        let all = texts.map(|text| stats(text, 7));
        assert_eq!(plain(&all), texts.join("\n") + "\n");
        let expected = "\
TABLE  PRIORITY  MATCHED    AGE    FLOW
1      5         7 (700 B)  3.2 s  table=1,priority=5,idle_timeout=9,ip,ipv4_dst=10.0.0.2,actions=output:2
0      0         7 (700 B)  3.2 s  priority=0,actions=drop
";
        assert_eq!(flows(&all), expected);
        let value = flow_json(&all[0]);
        assert_eq!(
            (&value["match"], &value["actions"]),
            (&json!("ip,ipv4_dst=10.0.0.2"), &json!("output:2"))
        );
        assert_eq!((&value["packets"], &value["age_s"]), (&json!(7), &json!(3.25)));
        assert_eq!(flows(&[]), "no flow entries\n");
    }

    #[test]
    fn a_trace_tells_each_step() {
        let port = |number: u32, name: &str| PortShown {
            number,
            name: name.into(),
            ..PortShown::default()
        };
        let shown =
            Shown { ports: vec![port(1, "h1:eth0"), port(2, "h2:eth0")], ..Shown::default() };
        let step =
            |table, entry: Option<&str>| TraceStep { table, entry: entry.map(str::to_owned) };
        let traced = Traced {
            port: 1,
            fields: "arp".into(),
            steps: vec![step(0, Some("priority=5,arp,actions=resubmit")), step(1, None)],
            effects: vec!["output:2".into()],
            sent: vec![TraceSent { port: 2, ..TraceSent::default() }],
            drops: vec!["no entry matches".into()],
            decided_by: "in_port=1,arp".into(),
            ..Traced::default()
        };
        let expected = "\
comes in by  1 h1:eth0
frame        arp
table        0: priority=5,arp,actions=resubmit
table        1: no entry matches
does         output:2
leaves by    2 h2:eth0
dropped      no entry matches
controllers  the switch has none: entries come from `netloom flow add` alone
decided by   in_port=1,arp
";
        assert_eq!(trace(&traced, &shown), expected);
        let controller = |connection| ControllerShown {
            target: "tcp:127.0.0.1:6653".into(),
            reason: Some("Connection refused".into()),
            connection,
            ..ControllerShown::default()
        };
        let told = |controllers| trace(&traced, &Shown { controllers, ..shown.clone() });
        let none =
            "controllers  none is connected (tcp:127.0.0.1:6653: Connection refused): entries come";
        assert!(told(vec![controller(None)]).contains(none));
        assert!(!told(vec![controller(Some(Default::default()))]).contains("controllers"));
        let dropped =
            Traced { steps: vec![step(0, Some("priority=5,arp,actions=drop"))], ..traced };
        assert!(!trace(&dropped, &shown).contains("controllers"));
    }
}
