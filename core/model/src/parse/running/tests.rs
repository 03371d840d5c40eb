//! Every key of the tables with many values: the file and a running lab take and refuse the same, in the same words.

use netloom_impair::Impairments;

use super::*;
use crate::impairment;
use crate::keys::{DIRECTION, LINK};
use crate::kinds::openflow::{FailMode, OpenflowSwitch, OpenflowVersion};
use crate::kinds::shm::{PortVlan, ShmSwitch, VdeFolder};
use crate::lab::{Lab, NodeSpec, Protect};
use crate::parse::parse;
use crate::plan::{NewEnd, NewLink, plan};

/// Values of all kinds, each good for some keys and near what others take. None is special to YAML.
const VALUES: &[&str] = &[
    "0",
    "1",
    "-1",
    "+5",
    "7",
    "007",
    "0x10",
    "0o17",
    "0x",
    "1_000",
    "68",
    "1400",
    "0x5dc",
    "65535",
    "65536",
    "100000",
    "10000000",
    "4294967296",
    "99999999999999999999",
    "1.5",
    "0.001",
    "-0.5",
    ".5",
    "1e3",
    "1.0",
    "50%",
    "0%",
    "0.5%",
    "100%",
    "101%",
    "1 %",
    "0.0000001%",
    "1% 25%",
    "1%,25%",
    "1% 2% 3%",
    "500m",
    "10ms",
    "10 ms",
    "1ms pareto",
    "1ms,uniform,25%",
    "1ms poisson",
    "spread=2ms",
    "1s",
    "1.5s",
    "60s",
    "2m",
    "1h",
    "50msec",
    "soon",
    "bursts enter=1% leave=25%",
    "bursts enter=1%",
    "pattern ..x",
    "pattern",
    "random=1%",
    "100mbit",
    "1.5Gb/s",
    "1gbps",
    "0bit",
    "200k/s",
    "200k",
    "0/s",
    "1GB/s",
    "1Gb/s",
    "9kB/s",
    "64KiB/s",
    "256MiB",
    "512mb",
    "1k",
    "1MiB",
    "1048575",
    "3MiB",
    "256KiB",
    "64MiB",
    "128MiB",
    "0600",
    "0o600",
    "600",
    "1777",
    "888",
    "true",
    "True",
    "TRUE",
    "false",
    "False",
    "yes",
    "no",
    "on",
    "off",
    "~",
    "null",
    "Null",
    "half",
    "none",
    "None",
    "real",
    "fake",
    "one",
    "vde",
    "shm",
    "kernel",
    "openflow",
    "bridge",
    "a b",
    "inf",
    ".inf",
    ".nan",
    "nan",
    "ß",
];

/// What a text is refused with in a file: the message and its help on one line.
fn in_file(text: &str) -> Result<Lab, String> {
    parse("f", text.as_bytes(), "l").map_err(|errors| {
        let first = errors.list.into_iter().next().expect("an error");
        first.help.map_or(first.message.clone(), |help| format!("{}; {help}", first.message))
    })
}

/// Both take a value and find the same, or both refuse it in the same words but for the path in the file.
fn same<T: PartialEq + std::fmt::Debug>(
    what: &str,
    path: &str,
    key: &str,
    file: Result<T, String>,
    live: Result<T, String>,
) {
    let live = live.map_err(|problem| match problem.strip_prefix(key) {
        Some(rest) if rest.starts_with([':', '[']) => format!("{path}{rest}"),
        _ => problem,
    });
    assert_eq!(live, file, "{what}");
}

#[test]
fn settings_of_nodes_are_read_as_in_the_file() {
    let mut seen = 0;
    for key in node_keys() {
        let (map, inner) = match key {
            "charge-receive" | "privileged" | "protect" | "ids" => (None, key),
            "children" => (Some("children"), "limit"),
            _ if PROTECT.names().any(|of| of == key) => (Some("protect"), key),
            _ => (Some("limits"), key),
        };
        let path = map.map_or(format!("nodes.n.{inner}"), |map| format!("nodes.n.{map}.{inner}"));
        // Only where something is set there is `none` to take it away.
        for text in VALUES.iter().filter(|text| **text != "none") {
            let entry = format!("{inner}: {}", quoted(text));
            let entry = map.map_or(entry.clone(), |map| format!("{map}: {{{entry}}}"));
            let file = in_file(&format!("nodes:\n  n: {{{entry}}}\n"));
            let file = file.map(|lab| NodeSpec::clone(&lab.nodes[0]));
            let mut settings = Settings::default();
            let live = set_node(&mut settings, key, text).map(|()| {
                let mut node = NodeSpec { name: "n".into(), ..NodeSpec::default() };
                settings.put(&mut node);
                node
            });
            seen += u32::from(live.is_ok());
            same(&format!("{key}={text}"), &path, key, file, live);
        }
    }
    assert!(seen > 50, "only {seen} values were taken");
}

#[test]
fn impairments_of_links_are_read_as_in_the_file() {
    let mut seen = 0;
    let names: Vec<&str> = DIRECTION.names().collect();
    assert!(
        impairment::KEYS.iter().all(|key| names.contains(key))
            && names.len() == impairment::KEYS.len()
    );
    for key in names {
        for text in VALUES {
            let direction = format!("links: [{{ends: [p, q], a: {{{key}: {}}}}}]\n", quoted(text));
            let file = in_file(&format!("nodes: {{p: , q: }}\n{direction}"))
                .map(|lab| lab.links[0].impairments[0].clone());
            let mut found = Impairments::default();
            let live = impairment::set(&mut found, key, text)
                .and_then(|()| impairment::check(&found))
                .map(|()| found);
            seen += u32::from(live.is_ok());
            // What is wrong together may be told at another key, which the file does not have.
            let live = live.map_err(|problem: String| match &file {
                Err(told) if told.starts_with("link ") && !problem.starts_with(key) => {
                    format!("link [p, q]: {problem}")
                }
                _ => problem,
            });
            let path = match &file {
                Err(problem) if problem.starts_with("link ") => format!("link [p, q]: a.{key}"),
                _ => format!("links[0].a.{key}"),
            };
            same(&format!("{key}={text}"), &path, key, file, live);
        }
    }
    assert!(seen > 50, "only {seen} values were taken");
}

/// In quotes where a flow map would end in it.
fn quoted(text: &str) -> String {
    if text.contains(',') { format!("'{text}'") } else { text.to_owned() }
}

#[test]
fn mtus_of_links_are_read_as_in_the_file() {
    assert!(LINK.names().any(|key| key == "mtu"));
    for text in VALUES {
        let links = format!("links: [{{ends: [p, q], mtu: {}}}]\n", quoted(text));
        for nodes in ["nodes: {p: , q: }\npool: {ipv6: none}\n", "nodes: {p: , q: }\n"] {
            let file = in_file(&format!("{nodes}{links}"));
            let file = file.map(|lab| lab.links[0].mtu.expect("it was given"));
            let mut plan = plan(&in_file(nodes).unwrap()).unwrap();
            let live = link_mtu(text).and_then(|mtu| {
                let end = |name| NewEnd::Node {
                    node: plan.node(name).expect("a node"),
                    iface: None,
                    there: vec![],
                };
                let new = NewLink {
                    name: None,
                    ends: [end("p"), end("q")],
                    addresses: [vec![], vec![]],
                    bare: [false; 2],
                    macs: [None; 2],
                    mtu: Some(mtu),
                    impairments: Default::default(),
                };
                plan.add_link(new).map(|_| mtu)
            });
            same(&format!("mtu={text}"), "links[0].mtu", "mtu", file, live);
        }
    }
}

#[test]
fn addresses_of_links_are_read_as_in_the_file() {
    let values: &[&[&str]] = &[
        &["none"],
        &["10.0.0.1/24"],
        &["10.0.0.1/24", "fd00::1/64"],
        &["10.0.0.1"],
        &["10.0.0.1/33"],
        &["10.0.0.0/24"],
        &["10.0.0.255/24"],
        &["10.0.0.1/32"],
        &["224.0.0.1/24"],
        &["127.0.0.1/8"],
        &["::/64"],
        &["dhcp"],
        &["dhcp4", "fd00::1/64"],
        &["10.0.0.1/24", "10.0.1.1/24"],
        &["10.0.0.1/24", "none"],
        &["none", "10.0.0.1/24"],
        &["none", "none"],
        &["h1"],
    ];
    for texts in values {
        let list = texts.iter().map(|text| format!("'{text}'")).collect::<Vec<_>>().join(", ");
        let list = if texts.len() == 1 { list } else { format!("[{list}]") };
        let links = format!("links: [{{ends: [p, q], addresses: {{p: {list}}}}}]\n");
        let file = in_file(&format!("nodes: {{p: , q: }}\n{links}"));
        let file = file.map(|lab| (lab.links[0].addresses[0].clone(), lab.links[0].bare[0]));
        let live = link_addresses("p", texts);
        same(&list, "links[0].addresses.p", "addresses.p", file, live);
    }
}

#[test]
fn settings_of_switches_are_read_as_in_the_file() {
    let mut seen = 0;
    let openflow = crate::kinds::openflow::KEYS.keys.iter().map(|key| key.name).collect::<Vec<_>>();
    for key in switch_keys().filter(|key| *key != "kind") {
        let kind = if openflow.contains(&key) { "openflow" } else { "shm" };
        for text in VALUES {
            let file =
                in_file(&format!("switches: {{s: {{kind: {kind}, {key}: {}}}}}\n", quoted(text)))
                    .map(|lab| lab.switches[0].kind.clone());
            let given = [("kind", kind), (key, *text)];
            let given = given.map(|(key, text)| (key.to_owned(), text.to_owned()));
            let live = switch_kind("s", &given, &|_| false);
            seen += u32::from(live.is_ok());
            same(&format!("{key}={text}"), &format!("switches.s.{key}"), key, file, live);
        }
    }
    assert!(seen > 30, "only {seen} values were taken");
    for key in SWITCH.names() {
        let kept_out = ONLY_IN_FILES.contains(&key);
        let refused = switch_kind("s", &[(key.to_owned(), "7".to_owned())], &|_| false);
        let words = "cannot be given to a switch of a running lab";
        assert_eq!(refused.is_err_and(|problem| problem.ends_with(words)), kept_out, "{key}");
    }
}

#[test]
fn rules_of_ports_are_read_as_in_the_file() {
    let port = |key: &str, text: &str| {
        let text = text.split(',').map(|item| format!("'{item}'")).collect::<Vec<_>>();
        let text = if text.len() == 1 { text[0].clone() } else { format!("[{}]", text.join(", ")) };
        in_file(&format!("switches: {{s: {{kind: shm, ports: {{p: {{{key}: {text}}}}}}}}}\n"))
            .map(|lab| lab.switches[0].kind.as_shm().expect("of this kind").ports["p"].clone())
    };
    let nine = ["02:00:00:00:00:01"; 9].join(",");
    for text in [
        "02:00:00:00:00:01",
        "2-0-0-0-0-ff",
        "02:00:00:00:00:01,02:00:00:00:00:02",
        "02:00",
        "ff:ff:ff:ff:ff:ff",
        "01:00:5e:00:00:01",
        "00:00:00:00:00:00",
        "02:00:00:00:00:01,x",
        "me",
        &nine,
    ] {
        let file = port("lock", text).map(|port| port.lock);
        let live = port_lock(text).map(|macs| macs.iter().map(Mac::to_string).collect());
        let path = "switches.s.ports.p.lock";
        same(text, path, "lock", file, live);
    }
    assert_eq!(port_lock("own"), Err("lock: `own` can be given in the lab file only".into()));
    for text in VALUES.iter().filter(|text| !text.contains(',')) {
        let file =
            in_file(&format!("switches: {{s: {{kind: shm, ports: {{p: {{vlan: {text}}}}}}}}}\n"));
        let vlan = |lab: Lab| match lab.switches[0].kind.as_shm()?.ports["p"].vlan {
            Some(PortVlan::Access(vid)) => Some(vid),
            _ => None,
        };
        let file = file.map(|lab| vlan(lab).expect("a VLAN"));
        same(text, "switches.s.ports.p.vlan", "vlan", file, port_vlan(text));
    }
}

fn set(pairs: &[(&str, &str)]) -> Result<Settings, String> {
    let mut settings = Settings::default();
    for (key, text) in pairs {
        set_node(&mut settings, key, text)?;
    }
    Ok(settings)
}

#[test]
fn every_key_of_a_node_is_set_and_taken_away() {
    let mut settings = set(&[
        ("cpu", "150%"),
        ("weight", "300"),
        ("memory", "256MiB"),
        ("processes", "100"),
        ("sockets", "500"),
        ("packets", "200k/s"),
        ("bytes", "1GB/s"),
        ("auto", "true"),
        ("charge-receive", "false"),
        ("children", "0"),
        ("privileged", "true"),
    ])
    .unwrap();
    let limits = &settings.limits;
    assert_eq!(
        (limits.cpu_milli, limits.weight, limits.memory),
        (Some(1500), Some(300), Some(1 << 28))
    );
    assert_eq!((limits.processes, limits.sockets), (Some(100), Some(500)));
    let Protect { packets, bytes, auto } = settings.protect;
    assert_eq!((packets, bytes, auto), (Some(200_000), Some(1_000_000_000), Some(true)));
    assert_eq!((settings.charge_receive, settings.children), (Some(false), Some(0)));
    assert!(settings.privileged);
    let before = settings.clone();
    for key in node_keys() {
        assert!(set_node(&mut settings, key, "soon").is_err());
        assert_eq!(settings, before, "what is refused changes nothing: {key}");
    }
    for key in node_keys() {
        set_node(&mut settings, key, "none").unwrap();
    }
    assert_eq!(settings, Settings::default());
}

#[test]
fn what_is_refused_names_the_key_and_what_may_stand_there() {
    for (key, text, reason) in [
        ("cpu", "0%", "cpu: at least 1% of a CPU is needed, found \"0%\""),
        ("cpu", "500m", "cpu: expected a share of CPUs like 50% or 1.5, found \"500m\"; write 50%"),
        ("weight", "0", "weight: expected a whole number from 1 to 10000, found 0"),
        ("packets", "0", "packets: at least one packet per second is needed, found 0"),
        (
            "charge-receive",
            "yes",
            "charge-receive: expected true or false, found \"yes\"; write true",
        ),
        ("memroy", "1G", "unknown key \"memroy\"; did you mean \"memory\"?"),
        ("limits.memory", "1G", "unknown key \"limits.memory\"; did you mean \"memory\"?"),
    ] {
        assert_eq!(set(&[(key, text)]).unwrap_err(), reason);
    }
    let keys = "keys: cpu, memory, processes, weight, sockets, packets, bytes, auto, protect, \
                charge-receive, children, privileged, ids";
    assert_eq!(set(&[("colour", "red")]).unwrap_err(), format!("unknown key \"colour\"; {keys}"));
    let of_files = "storage: cannot be given in a running lab; ";
    assert_eq!(set(&[("storage", "1G")]).unwrap_err(), format!("{of_files}{keys}"));
}

#[test]
fn a_switch_of_a_running_lab_is_read_as_in_the_file() {
    let read = |words: &[&str]| {
        let pair = |word: &&str| word.split_once('=').map(|(k, v)| (k.to_owned(), v.to_owned()));
        switch_kind("s", &words.iter().filter_map(pair).collect::<Vec<_>>(), &|name| name == "c0")
    };
    let given = ["ageing=60s", "arena=1MiB", "mode=0660", "group=vde", "vde=true"];
    let expected = ShmSwitch {
        arena: 1 << 20,
        mode: 0o660,
        group: Some("vde".into()),
        vde: VdeFolder::Beside,
        ..ShmSwitch::default()
    };
    assert_eq!(read(&given), Ok(SwitchKind::Shm(expected.clone())));
    let text = format!("switches: {{s: {{kind: shm, {}}}}}", given.join(", ").replace('=', ": "));
    assert_eq!(in_file(&text).unwrap().switches[0].kind, SwitchKind::Shm(expected));
    assert_eq!(read(&["kind=shm"]), read(&[]));
    for (words, wrong) in [
        (["ageing=soon"], "ageing: "),
        (
            ["arena=3MiB"],
            "arena: \"3MiB\" is not a power of two from 256KiB to 64MiB; write 4096KiB",
        ),
        (["color=red"], "unknown key \"color\""),
        (["kind=kernel"], "kind: kernel cannot be made in a running lab"),
        (["mtu=1400"], "mtu: cannot be given"),
        (["ports=7"], "ports: "),
    ] {
        let problem = read(&words).unwrap_err();
        assert!(problem.starts_with(wrong), "{problem}");
    }
    let flow = ["kind=openflow", "controllers=node:c0, tcp:10.0.0.5", "versions=1.3", "tables=2"];
    let expected = OpenflowSwitch {
        controllers: ["node:c0", "tcp:10.0.0.5"].map(|text| text.parse().unwrap()).to_vec(),
        fail: FailMode::Secure,
        versions: vec![OpenflowVersion::V13],
        tables: 2,
        ..OpenflowSwitch::default()
    };
    assert_eq!(read(&flow), Ok(SwitchKind::Openflow(expected)));
    let no_node = read(&["kind=openflow", "controllers=node:c1"]).unwrap_err();
    assert!(no_node.starts_with("controllers: no node \"c1\" here"), "{no_node}");
    assert_eq!(read(&["mode=0600", "mode=0660"]), Err("mode: given twice".into()));
}
