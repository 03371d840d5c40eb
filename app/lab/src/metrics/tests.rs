//! Every exposition is well formed, and no series in it falls while its object exists.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::view::{LabFacts, LinkCounters};

/// Series by name and labels, in the order told.
type Series = Vec<(String, BTreeMap<String, String>, f64)>;

/// Reads an exposition as the format's specification says; panics where it is not met.
fn read(text: &str) -> Series {
    assert!(text.is_empty() || text.ends_with('\n'));
    let (mut all, mut family) = (Series::new(), None::<Family>);
    let mut told = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(head) = line.strip_prefix("# HELP ") {
            let (name, help) = head.split_once(' ').unwrap();
            let known = *FAMILIES.iter().find(|family| family.name == name).unwrap();
            assert_eq!(known.help, help);
            assert!(!told.contains(&name), "{name}: its samples are not together");
            told.push(name);
            let kind = format!("# TYPE {name} {}", known.kind.word());
            assert_eq!(lines.next(), Some(&*kind));
            family = Some(known);
            continue;
        }
        let (name, rest) = line.split_once('{').unwrap();
        assert_eq!(name, family.unwrap().name, "{line}");
        let (labels, rest) = labels(rest);
        let value: f64 = rest.strip_prefix("} ").unwrap().parse().unwrap();
        let same = all.iter().find(|(n, l, _)| n == name && *l == labels);
        assert!(same.is_none(), "twice: {line}");
        all.push((name.to_owned(), labels, value));
    }
    all
}

fn tell(metrics: &mut Metrics, picture: &Picture) -> Series {
    read(&metrics.exposition(picture).0)
}

/// Labels up to the closing brace.
fn labels(mut text: &str) -> (BTreeMap<String, String>, &str) {
    let mut all = BTreeMap::new();
    while !text.starts_with('}') {
        let (name, rest) = text.trim_start_matches(',').split_once("=\"").unwrap();
        assert!(name.bytes().all(|b| b.is_ascii_lowercase()), "{name}");
        let mut value = String::new();
        let mut letters = rest.char_indices();
        let end = loop {
            match letters.next().unwrap() {
                (at, '"') => break at + 1,
                (_, '\\') => match letters.next().unwrap().1 {
                    'n' => value.push('\n'),
                    letter @ ('\\' | '"') => value.push(letter),
                    other => panic!("escaped {other:?}"),
                },
                (_, letter) => value.push(letter),
            }
        };
        assert!(all.insert(name.to_owned(), value).is_none(), "{name} is there twice");
        text = &rest[end..];
    }
    (all, text)
}

fn node(name: &str, change: impl FnOnce(&mut Value)) -> NodeStatus {
    let mut node = json!({
        "name": name, "alive": true, "state": "up", "pid": 7, "forwarding": false, "parent": null, "children": null,
        "cpu_ns": 9, "cpu_user_ns": 4, "cpu_system_ns": 3, "cpu_receive_ns": 2, "load": null, "memory": 1024, "processes": 2,
        "sockets": 1, "sockets_counted": 1, "sockets_refused": 5, "limits": {"cpu_milli": 1500, "memory": 4096},
        "protect": null, "drops": [{"cause": "socket-buffer", "packets": 3}],
        "programs": [{"command": ["sleep", "secret"], "pid": 9, "exit_code": null, "restarts": 2}],
        "health": {"state": "healthy", "failures": 0, "reason": null},
        "interfaces": [{
            "name": "eth0", "link": "l", "mac": "02:00:00:00:00:01", "mtu": 1500, "addresses": [], "up": true,
            "traffic": {"rx_bytes": 10, "rx_packets": 1, "rx_lost": 0, "tx_bytes": 20, "tx_packets": 2, "tx_lost": 1},
        }],
    });
    change(&mut node);
    serde_json::from_value(node).unwrap()
}

fn link(name: &str, change: impl FnOnce(&mut Value)) -> (LinkStatus, LinkCounters) {
    let mut link = json!({
        "name": name, "ends": ["a:eth0", "s"], "up": true, "wire": {"state": "running", "restarts": 0, "directions": [{
            "from": "a:eth0", "impairments": {"delay": "10ms"}, "offered_packets": 0, "offered_bytes": 0, "sent_packets": 0,
            "sent_bytes": 0, "duplicated": 0, "corrupted": 0, "reordered": 0, "held_packets": 8, "held_bytes": 9,
            "lost": {}, "late_us": [1.5, 2.0], "late_sum_ns": 1_500_000_000_u64,
        }, null]},
        "lost": [{"from": "a:eth0", "cause": "interface", "packets": 3}, {"from": "a:eth0", "cause": "wire: loss", "packets": 4}],
    });
    change(&mut link);
    let counters =
        LinkCounters { name: name.to_owned(), packets: [5, 6], bytes: [50, 60], lost: [7, 0] };
    (serde_json::from_value(link).unwrap(), counters)
}

fn switch(name: &str) -> SwitchStatus {
    let switch = json!({"name": name, "kind": "openflow", "bridge": "", "links": [], "openflow": {
        "socket": "", "running": true, "datapath": "", "plane": null, "slower": null, "entries": 4, "standalone": false,
        "controllers": [{"controller": "node:c:6653", "connected": true, "reason": null}], "trouble": null,
    }});
    serde_json::from_value(switch).unwrap()
}

fn picture(nodes: Vec<NodeStatus>, links: Vec<(LinkStatus, LinkCounters)>) -> Picture {
    let mut picture = Picture::default();
    let state = LabState::Up;
    picture.lab = Some(LabFacts { name: "x".to_owned(), state, pid: 1, since: 2 });
    for node in nodes {
        picture.nodes.insert(node.name.clone(), (node, Default::default()));
    }
    for (link, counters) in links {
        picture.links.insert(link.name.clone(), (link, counters));
    }
    picture.switches.insert("s".to_owned(), switch("s"));
    picture
}

fn value(series: &Series, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let matches = |of: &BTreeMap<String, String>| {
        labels.iter().all(|(name, value)| of.get(*name).is_some_and(|found| found == value))
    };
    let mut found = series.iter().filter(|(n, of, _)| n == name && matches(of));
    let first = found.next().map(|(_, _, value)| *value);
    assert_eq!(found.next(), None, "{name}: several");
    first
}

#[test]
fn each_family_is_told_of_a_lab_that_has_everything() {
    let picture = picture(vec![node("a", |_| {})], vec![link("l", |_| {})]);
    let mut metrics = Metrics::default();
    let mut told = tell(&mut metrics, &picture);
    told.extend(read(&metrics.closing(&picture)));
    for family in FAMILIES {
        assert!(told.iter().any(|(name, ..)| name == family.name), "{}", family.name);
    }
    for (name, labels, expected) in [
        ("netloom_lab_state", &[("state", "up")][..], 1.0),
        ("netloom_node_cpu_limit_cores", &[("node", "a")], 1.5),
        ("netloom_node_dropped_packets_total", &[("cause", "socket_buffer")], 3.0),
        ("netloom_program_info", &[("program", "1"), ("command", "sleep")], 1.0),
        ("netloom_program_restarts_total", &[("program", "1")], 2.0),
        ("netloom_interface_transmit_bytes_total", &[("link", "l")], 20.0),
        ("netloom_link_sent_bytes_total", &[("from", "s")], 60.0),
        ("netloom_link_lost_packets_total", &[("cause", "wire: loss")], 4.0),
        ("netloom_link_late_seconds_total", &[("from", "a:eth0")], 1.5),
        ("netloom_switch_controller_connected", &[("controller", "node:c:6653")], 1.0),
    ] {
        assert_eq!(value(&told, name, labels), Some(expected), "{name} {labels:?}");
    }
    assert!(
        told.iter().all(|(_, labels, _)| !labels.values().any(|value| value.contains("secret")))
    );
    assert_eq!(Metrics::default().exposition(&Picture::default()), (String::new(), None));
}

#[test]
fn names_are_as_prometheus_wants_them() {
    for Family { name, kind, help } in FAMILIES {
        let letters = |b: u8| b == b'_' || b.is_ascii_lowercase();
        assert!(name.bytes().all(letters) && name.starts_with("netloom_"), "{name}");
        assert_eq!(name.ends_with("_total"), *kind != Kind::Gauge, "{name}");
        assert_eq!(name.ends_with("_seconds_total"), *kind == Kind::Seconds, "{name}");
        assert!(!help.contains(['\\', '\n']) && help.ends_with('.'), "{name}: {help}");
    }
}

#[test]
fn ends_of_one_name_and_interfaces_of_one_name_are_one_series() {
    let both = link("l", |link| link["ends"] = json!(["s", "s"]));
    let twice = node("a", |node| {
        let one = node["interfaces"][0].clone();
        node["interfaces"] = json!([one, one]);
    });
    let told = tell(&mut Metrics::default(), &picture(vec![twice], vec![both]));
    assert_eq!(value(&told, "netloom_link_sent_packets_total", &[("from", "s")]), Some(11.0));
    assert_eq!(value(&told, "netloom_interface_up", &[]), Some(1.0));
}

#[test]
fn what_is_recreated_counts_on() {
    let mut metrics = Metrics::default();
    let mut tell = |cpu: u64, bytes: u64, lost: Value| {
        let node = node("a", |node| {
            (node["cpu_ns"], node["cpu_user_ns"], node["cpu_system_ns"], node["cpu_receive_ns"]) =
                (json!(cpu * 2), json!(cpu), json!(cpu), json!(0));
            node["interfaces"][0]["traffic"]["rx_bytes"] = json!(bytes);
        });
        let link = link("l", |link| link["lost"] = lost);
        let told = tell(&mut metrics, &picture(vec![node], vec![link]));
        let value = |name, labels| value(&told, name, labels);
        [
            value("netloom_node_cpu_seconds_total", &[("mode", "user")]),
            value("netloom_interface_receive_bytes_total", &[]),
            value("netloom_link_lost_packets_total", &[("cause", "wire: loss")]),
            value("netloom_link_lost_packets_total", &[("cause", "interface")]),
        ]
        .map(Option::unwrap)
    };
    let lost = |wire: u64, interface: u64| {
        json!([{"from": "a:eth0", "cause": "wire: loss", "packets": wire},
            {"from": "a:eth0", "cause": "interface", "packets": interface}])
    };
    let second = 1_000_000_000;
    assert_eq!(tell(10 * second, 100, lost(7, 9)), [10.0, 100.0, 7.0, 9.0]);
    // All of them begin again. What two interfaces count can also just be counted otherwise.
    assert_eq!(tell(second, 30, lost(2, 4)), [11.0, 130.0, 9.0, 9.0]);
    // A wire that was taken out lost what it lost.
    assert_eq!(tell(second, 31, json!([])), [11.0, 131.0, 9.0, 9.0]);
    assert_eq!(tell(2 * second, 31, lost(1, 5)), [12.0, 131.0, 10.0, 10.0]);
}

#[test]
fn a_later_process_goes_on_where_the_earlier_one_was() {
    let one = |bytes: u64| {
        let node = node("a", |n| n["interfaces"][0]["traffic"]["rx_bytes"] = json!(bytes));
        picture(vec![node], vec![link("l", |_| {})])
    };
    let received = |series: &Series| value(series, "netloom_interface_receive_bytes_total", &[]);
    let mut metrics = Metrics::default();
    let first = metrics.exposition(&one(100)).1.expect("counters were told");
    assert_eq!(metrics.exposition(&one(100)).1, None, "it is the same");
    let (text, earlier) = metrics.exposition(&one(30));
    assert_eq!(received(&read(&text)), Some(130.0));
    let earlier = earlier.expect("it began again");
    assert_ne!(earlier, first);
    assert_eq!(metrics.exposition(&one(30)).1, None, "it is the same again");
    let kept = "# HELP netloom_metrics_kept Whether a later process of the lab would go on with these counters; not if they \
                cannot be written.\n# TYPE netloom_metrics_kept gauge\nnetloom_metrics_kept{lab=\"x\"} ";
    assert_eq!(metrics.closing(&one(30)), format!("{kept}1\n"));
    assert!(metrics.note_kept(false), "it is new that they cannot be kept");
    assert_eq!(metrics.closing(&one(30)), format!("{kept}0\n"));
    assert_eq!(metrics.exposition(&one(30)).1, Some(earlier.clone()), "it is tried again");
    assert!(!metrics.note_kept(false), "it was told");
    assert_eq!(metrics.exposition(&one(30)).1, Some(earlier.clone()), "and again");
    assert!(metrics.note_kept(true), "it is new that they are kept");
    assert!(!metrics.note_kept(true));
    assert_eq!(metrics.exposition(&one(30)).1, None, "they are kept");
    let mut later = Metrics::after(earlier.clone());
    let (text, same) = later.exposition(&one(30));
    assert_eq!((received(&read(&text)), same), (Some(130.0), None));
    let (text, new) = later.exposition(&one(50));
    assert_eq!((received(&read(&text)), new.is_some()), (Some(150.0), true));
    // What another lab of this folder left is of nothing here.
    let nothing = Some(Arc::<Earlier>::default());
    assert_eq!(Metrics::after(earlier).exposition(&picture(vec![], vec![])).1, nothing);
    // What is gone takes with it what it had.
    assert_eq!(metrics.exposition(&picture(vec![], vec![])).1, nothing);
}

#[test]
fn a_later_process_tells_what_the_earlier_one_did_not_read_any_more() {
    let one = |drops: Value, lost: Value| {
        let node = node("a", |node| node["drops"] = drops);
        picture(vec![node], vec![link("l", |link| link["lost"] = lost)])
    };
    let drops = |packets: u64| json!([{"cause": "no-route", "packets": packets}]);
    let lost =
        |packets: u64| json!([{"from": "a:eth0", "cause": "wire: loss", "packets": packets}]);
    let both = |text: &str| {
        let told = read(text);
        let dropped = value(&told, "netloom_node_dropped_packets_total", &[("cause", "no_route")]);
        [dropped, value(&told, "netloom_link_lost_packets_total", &[("cause", "wire: loss")])]
    };
    let mut metrics = Metrics::default();
    let handed = metrics.exposition(&one(drops(5), lost(7))).1.expect("counters were told");
    // Both are recreated, and have lost nothing yet: what was handed over still holds.
    let (text, same) = metrics.exposition(&one(json!([]), json!([])));
    assert_eq!((both(&text), same), ([Some(5.0), Some(7.0)], None));
    let mut later = Metrics::after(handed);
    let (text, same) = later.exposition(&one(json!([]), json!([])));
    assert_eq!((both(&text), same), ([Some(5.0), Some(7.0)], None));
    let (text, _) = later.exposition(&one(drops(1), lost(2)));
    assert_eq!(both(&text)[1], Some(9.0));
    assert!(both(&text)[0] >= Some(5.0));
}

#[test]
fn what_began_again_while_no_process_lived_counts_on() {
    let one = |cpu: u64, traffic: Value, lost: u64| {
        let node = node("a", |node| {
            (node["cpu_ns"], node["cpu_user_ns"]) = (json!(cpu), json!(cpu));
            (node["cpu_system_ns"], node["cpu_receive_ns"]) = (json!(0), json!(null));
            node["interfaces"][0]["traffic"] = traffic;
            node["drops"][0]["packets"] = json!(lost);
        });
        picture(vec![node], vec![])
    };
    let traffic = |bytes: u64| json!({"rx_bytes": bytes, "rx_packets": 1, "rx_lost": 0, "tx_bytes": 1, "tx_packets": 1, "tx_lost": 0});
    let told = |metrics: &mut Metrics, picture: &Picture| {
        let series = tell(metrics, picture);
        [
            value(&series, "netloom_node_cpu_seconds_total", &[("mode", "user")]),
            value(&series, "netloom_interface_receive_bytes_total", &[]),
            value(&series, "netloom_node_dropped_packets_total", &[]),
        ]
        .map(Option::unwrap)
    };
    let second = 1_000_000_000;
    let before = one(10 * second, traffic(100), 7);
    let handed = Metrics::default().exposition(&before).1.expect("counters");
    // As a later process reads what an earlier one wrote.
    let text = serde_json::to_string(&handed).unwrap();
    let mut later = Metrics::after(serde_json::from_str::<Earlier>(&text).unwrap());
    // The node has ended, and then there is another one.
    assert_eq!(told(&mut later, &one(10 * second, json!(null), 7)), [10.0, 100.0, 7.0]);
    assert_eq!(told(&mut later, &one(second, traffic(30), 2)), [11.0, 130.0, 7.0]);
    let mut other = Metrics::after(handed);
    assert_eq!(told(&mut other, &one(second, traffic(30), 9)), [11.0, 130.0, 9.0]);
}

#[test]
fn what_is_gone_is_forgotten() {
    let mut metrics = Metrics::default();
    for number in 0..50 {
        let node = node(&format!("n{number}"), |node| {
            node["interfaces"][0]["name"] = json!(format!("eth{number}"));
        });
        let told = tell(&mut metrics, &picture(vec![node], vec![]));
        assert!(
            told.iter().all(|(_, labels, _)| labels
                .get("node")
                .is_none_or(|n| *n == format!("n{number}")))
        );
    }
    assert_eq!(metrics.totals.len(), 3, "a node, its program and its interface");
    // One of that name is another one.
    let one =
        |bytes: u64| node("n", |node| node["interfaces"][0]["traffic"]["rx_bytes"] = json!(bytes));
    metrics.exposition(&picture(vec![one(100)], vec![]));
    metrics.exposition(&picture(vec![], vec![]));
    let told = tell(&mut metrics, &picture(vec![one(5)], vec![]));
    assert_eq!(value(&told, "netloom_interface_receive_bytes_total", &[]), Some(5.0));
}

/// The guide's table is this one, and the dashboard asks for nothing else.
#[test]
fn the_guide_and_the_dashboard_know_the_families() {
    let guide = include_str!("../../../../docs/guide/metrics.md");
    let rows: Vec<(&str, &str)> = guide
        .lines()
        .filter_map(|line| {
            let cells: Vec<&str> = line.split(" | ").collect();
            let name = cells.first()?.strip_prefix("| `")?.strip_suffix('`')?;
            Some((name, cells.last()?.strip_suffix(" |")?))
        })
        .collect();
    assert_eq!(rows, FAMILIES.iter().map(|f| (f.name, f.help)).collect::<Vec<_>>());
    let dashboard = include_str!("../../../../examples/grafana.json");
    let mut asked = BTreeSet::new();
    for (at, _) in dashboard.match_indices("netloom_") {
        let name: String = dashboard[at..]
            .chars()
            .take_while(|c| *c == '_' || c.is_ascii_alphanumeric())
            .collect();
        assert!(FAMILIES.iter().any(|family| family.name == name), "the dashboard asks for {name}");
        asked.insert(name);
    }
    assert!(asked.len() > 10, "{asked:?}");
}

/// Text that somebody hostile chose.
fn hostile() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("\"} 1\nnetloom_lab_info{lab=\"y".to_owned()),
        Just("\\".to_owned()),
        Just("a\\\"b\\n\u{2028}\u{202e}\u{1b}[2J\r\n\0".to_owned()),
        any::<String>(),
    ]
}

proptest! {
    #[test]
    fn no_text_ends_its_label(name in hostile(), command in hostile(), end in hostile(), cause in hostile()) {
        let node = node(&name, |node| {
            node["programs"][0]["command"] = json!([command]);
            node["interfaces"][0]["link"] = json!(end);
            node["drops"][0]["cause"] = json!(cause);
        });
        let link = link(&name, |link| link["ends"][1] = json!(end));
        let told = tell(&mut Metrics::default(), &picture(vec![node], vec![link]));
        let expected = tell(&mut Metrics::default(), &picture(vec![self::node("a", |_| {})], vec![self::link("l", |_| {})]));
        // As many series, each of its family, as with harmless text.
        let names = |series: &Series| series.iter().map(|(name, ..)| name.clone()).collect::<Vec<_>>();
        prop_assert_eq!(names(&told), names(&expected));
        let shown = netloom_config::printable::line(&name).into_owned();
        prop_assert!(told.iter().all(|(_, labels, _)| labels.get("node").is_none_or(|n| *n == shown)));
    }

    #[test]
    fn counters_never_fall(readings in prop::collection::vec((0..50_u64, 0..50_u64, 0..50_u64, 0..9_u64, any::<bool>()), 1..20)) {
        let mut metrics = Metrics::default();
        let mut before: BTreeMap<_, f64> = BTreeMap::new();
        for (user, system, receive, lost, seen) in readings {
            let node = node("a", |node| {
                node["cpu_ns"] = json!(user + system + receive);
                node["cpu_user_ns"] = json!(user);
                node["cpu_system_ns"] = json!(system);
                node["cpu_receive_ns"] = json!(receive);
                node["drops"][0]["packets"] = json!(lost);
                node["programs"][0]["restarts"] = json!(lost);
                if !seen {
                    node["interfaces"][0]["traffic"] = json!(null);
                    node["drops"] = json!([]);
                }
                else {
                    node["interfaces"][0]["traffic"]["rx_lost"] = json!(lost);
                }
            });
            let link = link("l", |link| {
                link["lost"] = json!([{"from": "s", "cause": "way-out", "packets": lost}]);
                if !seen {
                    link["wire"] = json!(null);
                    link["lost"] = json!([]);
                }
            });
            let told = tell(&mut metrics, &picture(vec![node], vec![link]));
            let now: BTreeMap<_, f64> = told
                .into_iter()
                .filter(|(name, ..)| name.ends_with("_total"))
                .map(|(name, labels, value)| ((name, labels), value))
                .collect();
            for (series, value) in &before {
                prop_assert!(now.get(series).is_some_and(|later| later >= value), "{series:?}: {value} {now:?}");
            }
            before = now;
        }
    }

    /// While nothing is recreated, the parts of CPU time are all of it, and none falls, whichever process tells them.
    #[test]
    fn parts_of_cpu_time_are_all_of_it(
        steps in prop::collection::vec((0..1000_u64, 0..1000_u64, 0..1001_u64, any::<bool>()), 1..20),
    ) {
        let mut metrics = Metrics::default();
        let mut handed = Arc::<Earlier>::default();
        let (mut own, mut receive) = (0, 0);
        let mut before = BTreeMap::new();
        for (more, received, share, other) in steps {
            if other {
                metrics = Metrics::after(handed.clone());
            }
            own += more;
            receive += received;
            let user = own * share / 1000;
            let node = node("a", |node| {
                node["cpu_ns"] = json!(own + receive);
                node["cpu_user_ns"] = json!(user.min(own));
                node["cpu_system_ns"] = json!(own - user.min(own));
                node["cpu_receive_ns"] = json!(receive);
            });
            let (text, new) = metrics.exposition(&picture(vec![node], vec![]));
            handed = new.unwrap_or(handed);
            let told = read(&text);
            // By mode: a process that goes on with the counters of another tells those above 0 first.
            let parts: BTreeMap<_, f64> = told
                .iter()
                .filter(|(name, ..)| name == "netloom_node_cpu_seconds_total")
                .map(|(_, labels, value)| (labels.clone(), (value * 1e9).round()))
                .collect();
            let grows = |(mode, before): (&_, &f64)| parts.get(mode).is_some_and(|now| now >= before);
            prop_assert!(before.iter().all(grows), "{before:?} {parts:?}");
            let sum: f64 = parts.values().sum();
            before = parts;
            prop_assert_eq!(sum, (own + receive) as f64, "{:?}", told);
        }
    }
}
