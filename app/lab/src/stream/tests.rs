//! Listeners have what was recorded, whenever they began and however late they ask.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::view::LabState;

fn node(name: &str, state: &str, memory: u64) -> NodeStatus {
    let node = json!({
        "name": name, "alive": true, "state": state, "pid": 7, "forwarding": false, "parent": null, "children": null,
        "cpu_ns": 5, "load": [0.5, 0.5, 0.5], "memory": memory, "processes": 2, "sockets": 1, "sockets_counted": null,
        "sockets_refused": null, "limits": {}, "protect": null, "drops": [{"cause": "rx", "packets": memory}],
        "programs": [], "interfaces": [{
            "name": "eth0", "link": "l", "mac": "02:00:00:00:00:01", "mtu": 1500, "addresses": [], "up": true,
            "traffic": {"rx_bytes": memory, "rx_packets": 1, "rx_lost": 0, "tx_bytes": 1, "tx_packets": 1, "tx_lost": 0},
        }],
    });
    serde_json::from_value(node).unwrap()
}

fn link(name: &str, up: bool, lost: u64) -> (LinkStatus, LinkCounters) {
    let status = json!({
        "name": name, "ends": ["a:eth0", "b:eth0"], "up": up, "wire": null,
        "lost": [{"from": "a:eth0", "cause": "interface", "packets": lost}],
    });
    let counters = LinkCounters { name: name.to_owned(), lost: [lost, 0], ..Default::default() };
    (serde_json::from_value(status).unwrap(), counters)
}

fn facts(state: LabState) -> LabFacts {
    LabFacts { name: "x".to_owned(), state, pid: 1, since: 2 }
}

/// What a listener can know: without counters in statuses, which are as old as these.
fn known(picture: &Picture) -> Picture {
    let mut known = picture.clone();
    known.nodes.values_mut().for_each(|(node, _)| *node = facts_of_node(node));
    known.links.values_mut().for_each(|(link, _)| link.lost.clear());
    known
}

/// Nanoseconds of Unix time are above 2^53, from where on a number in an answer would lose some.
#[test]
fn times_pass_the_form_of_answers_unchanged() {
    let counters = NodeCounters { cpu_ns: Some(1 << 60), ..NodeCounters::default() };
    let event = LabEvent {
        time_ns: 1_790_000_000_123_456_789,
        counters: Counters { nodes: vec![counters], links: vec![] },
        ..LabEvent::default()
    };
    let written = netloom_form::to_value(&event).unwrap();
    assert_eq!(written["time_ns"], "1790000000123456789");
    assert_eq!(serde_json::from_value::<LabEvent>(written).unwrap(), event);
}

#[test]
fn what_falls_behind_and_catches_up_is_told_once() {
    let mut recorder = Recorder::default();
    let link = |late_ns| {
        let from = Some("a:eth0".to_owned());
        BehindView { name: "l".into(), from, late_ns: Some(late_ns), ..BehindView::default() }
    };
    recorder.behind(vec![]);
    assert_eq!(recorder.take(), None, "nothing was behind before");
    recorder.behind(vec![link(5)]);
    let began = recorder.take().expect("an event");
    assert_eq!(began.behind, Some(vec![link(5)]));
    recorder.behind(vec![link(9)]);
    assert_eq!(recorder.take(), None, "another figure");
    // Who listens from now on hears of it, too.
    let mut late = Picture::default();
    late.apply(recorder.picture().snapshot("1.1".into(), 1, false));
    assert_eq!(late.behind, vec![link(5)]);
    let other = BehindView { from: Some("b:eth0".into()), ..link(1) };
    recorder.behind(vec![link(9), other.clone()]);
    assert_eq!(recorder.take().and_then(|event| event.behind), Some(vec![link(9), other]));
    recorder.behind(vec![]);
    let ended = recorder.take().expect("an event");
    assert_eq!(ended.behind, Some(vec![]));
    late.apply(ended);
    assert!(late.behind.is_empty());
    assert_eq!(recorder.picture().snapshot("1.2".into(), 1, false).behind, None);
}

#[test]
fn losses_that_begin_and_end_are_told() {
    const SECOND: u64 = 1_000_000_000;
    let mut recorder = Recorder::default();
    let mut at = |second: u64, lost: u64, memory: u64| {
        let (status, counters) = link("l", true, lost);
        recorder.link(status, counters);
        recorder.node(node("a", "up", memory));
        recorder.losses(second * SECOND);
        recorder.take().and_then(|event| event.losing)
    };
    // What was lost before somebody listened may be of any time. What interfaces of nodes lose is told of their links.
    assert_eq!((at(1, 7, 1), at(2, 7, 9)), (None, None));
    let began = at(3, 9, 9).expect("it loses");
    let of = |losing: &LosingView| (losing.name.clone(), losing.from.clone(), losing.packets);
    assert_eq!(began.iter().map(of).collect::<Vec<_>>(), [("l".into(), Some("a:eth0".into()), 2)]);
    assert_eq!(began[0].since_ns, 3 * SECOND);
    assert_eq!((at(4, 12, 9), at(12, 13, 9), at(21, 13, 9)), (None, None, None), "it goes on");
    assert_eq!(at(22, 13, 9), Some(vec![]), "nothing for ten seconds");
    assert_eq!(at(23, 13, 9), None);
    let again = at(24, 14, 9).expect("it loses again");
    assert_eq!((again[0].packets, again[0].since_ns), (1, 24 * SECOND));
}

#[test]
fn only_what_is_different_is_told() {
    let mut recorder = Recorder::default();
    assert_eq!(recorder.take(), None);
    recorder.lab(facts(LabState::Up));
    recorder.node(node("a", "up", 1));
    let (status, counters) = link("l", true, 0);
    recorder.link(status.clone(), counters.clone());
    let first = recorder.take().unwrap();
    assert_eq!((first.nodes.len(), first.links.len(), first.lab.is_some()), (1, 1, true));

    recorder.lab(facts(LabState::Up));
    recorder.node(node("a", "up", 1));
    recorder.link(status.clone(), counters);
    assert_eq!(recorder.take(), None, "the same");

    // Counters alone.
    recorder.node(node("a", "up", 2));
    recorder.link(link("l", true, 3).0, link("l", true, 3).1);
    let event = recorder.take().unwrap();
    assert!(event.nodes.is_empty() && event.links.is_empty() && event.lab.is_none());
    assert_eq!(event.counters.nodes[0].memory, Some(2));
    assert_eq!(event.counters.nodes[0].lost, 2);
    assert_eq!(event.counters.links[0].lost, [3, 0]);

    // A fact alone.
    recorder.node(node("a", "degraded", 2));
    recorder.link(link("l", false, 3).0, link("l", false, 3).1);
    let event = recorder.take().unwrap();
    assert_eq!((event.nodes.len(), event.links.len()), (1, 1));
    assert_eq!(event.counters, Counters::default());

    recorder.only(&BTreeSet::from(["a"]), &BTreeSet::new(), &BTreeSet::new());
    let event = recorder.take().unwrap();
    assert_eq!((event.gone.nodes.len(), event.gone.links), (0, vec!["l".to_owned()]));
}

#[test]
fn impairments_of_a_link_are_facts() {
    let with = |delay: &str, packets: u64| -> LinkStatus {
        let mut status = link("l", true, 0).0;
        status.wire = serde_json::from_value(json!({"state": "running", "restarts": 0, "directions": [
            {"from": "a:eth0", "impairments": {"delay": delay}, "offered_packets": packets, "offered_bytes": 0,
             "sent_packets": 0, "sent_bytes": 0, "duplicated": 0, "corrupted": 0, "reordered": 0, "held_packets": 0,
             "held_bytes": 0, "lost": {}, "late_us": [0.0, 0.0]}, null]}))
        .unwrap();
        status
    };
    assert!(same_link(&with("10ms", 1), &with("10ms", 2)));
    assert!(!same_link(&with("10ms", 1), &with("20ms", 1)));
    assert!(!same_link(&with("10ms", 1), &link("l", true, 0).0));
}

#[test]
fn who_asks_too_late_gets_a_snapshot_that_says_so() {
    let mut recorder = Recorder::default();
    let mut kept = Kept::new(0xabc);
    let next = |recorder: &mut Recorder, kept: &mut Kept, memory: u64| {
        recorder.node(node("a", "up", memory));
        kept.push(recorder.take(), memory);
    };
    let all = u64::try_from(MOST_KEPT).unwrap() + 3;
    (1..=all).for_each(|n| next(&mut recorder, &mut kept, n));
    let since = |id: Option<&str>| kept.since(id, recorder.picture());
    let last = format!("abc.{all}");

    // From the beginning.
    let first = since(None);
    assert_eq!((first.len(), first[0].id.as_str(), first[0].missed), (1, last.as_str(), false));
    assert_eq!(first[0].kind, EventKind::Snapshot);
    assert_eq!((first[0].time_ns, first[0].counters.nodes[0].memory), (all, Some(all)));
    // Nothing new; the last one; as far back as possible.
    assert!(since(Some(&last)).is_empty());
    let ids: Vec<String> =
        since(Some(&format!("abc.{}", all - 2))).into_iter().map(|e| e.id).collect();
    assert_eq!(ids, [format!("abc.{}", all - 1), last.clone()]);
    assert_eq!(since(Some("abc.3")).len(), MOST_KEPT);
    // Too late, of another lab process, of the future, of nobody.
    for id in ["abc.2", "abd.30", "abc.99", "abc", "abc.", ".", "", "abc.-1", "abc.x", "\u{1b}[2J"]
    {
        let found = since(Some(id));
        assert_eq!(
            (found.len(), found[0].kind, found[0].missed),
            (1, EventKind::Snapshot, true),
            "{id}"
        );
        assert_eq!(found[0].id, last);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Node(u8, bool, u64),
    Link(u8, bool, u64),
    Without(u8),
    Lab(bool),
    Read,
    /// A listener asks.
    Hear,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..4_u8, any::<bool>(), 0..3_u64).prop_map(|(n, up, m)| Step::Node(n, up, m)),
        3 => (0..4_u8, any::<bool>(), 0..3_u64).prop_map(|(n, up, m)| Step::Link(n, up, m)),
        1 => (0..4_u8).prop_map(Step::Without),
        1 => any::<bool>().prop_map(Step::Lab),
        6 => Just(Step::Read),
        1 => Just(Step::Hear),
    ]
}

proptest! {
    #[test]
    fn a_listener_has_what_was_recorded(steps in prop::collection::vec(step(), 0..200)) {
        let (mut recorder, mut kept, mut time) = (Recorder::default(), Kept::new(9), 0);
        let (mut heard, mut last) = (Picture::default(), None::<String>);
        let mut missed = 0;
        for step in steps.into_iter().chain([Step::Read, Step::Hear]) {
            match step {
                Step::Node(n, up, m) => {
                    recorder.node(node(&n.to_string(), if up { "up" } else { "dead" }, m));
                }
                Step::Link(n, up, m) => {
                    let (status, counters) = link(&n.to_string(), up, m);
                    recorder.link(status, counters);
                }
                Step::Without(n) => {
                    // What is removed was read before this reading.
                    kept.push(recorder.take(), time);
                    let names: Vec<String> = (0..4).filter(|i| *i != n).map(|i: u8| i.to_string()).collect();
                    let names = names.iter().map(String::as_str).collect();
                    recorder.only(&names, &names, &BTreeSet::new());
                    kept.push(recorder.take(), time);
                }
                Step::Lab(up) => recorder.lab(facts(if up { LabState::Up } else { LabState::Degraded })),
                Step::Read => {
                    time += 1;
                    kept.push(recorder.take(), time);
                }
                Step::Hear => {
                    kept.push(recorder.take(), time);
                    for event in kept.since(last.as_deref(), recorder.picture()) {
                        missed += u32::from(event.missed);
                        last = Some(event.id.clone());
                        // As it is sent.
                        let text = serde_json::to_string(&event).unwrap();
                        heard.apply(serde_json::from_str(&text).unwrap());
                    }
                    prop_assert_eq!(known(&heard), known(recorder.picture()));
                }
            }
        }
        prop_assert!(missed <= 6);
    }
}
