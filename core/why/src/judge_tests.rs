//! Sightings against stops.

use super::*;
use crate::cause::CauseName;
use crate::flow::Place;
use crate::report::Sighting::{Nothing, Packet, Resolution};
use crate::walk::Doubt;

fn flow(protocol: Protocol) -> Flow {
    Flow {
        from: "a".into(),
        to: "b".into(),
        source: [10, 0, 0, 1].into(),
        destination: [10, 0, 0, 2].into(),
        protocol,
        ports: [5000, 53],
        answers: false,
    }
}

fn pair(from: &str, to: &str) -> Walk {
    let place = |node: &str, out| Place {
        node: Some(node.to_owned()),
        interface: "eth0".into(),
        out,
        name: format!("{node}:eth0"),
    };
    Walk {
        places: vec![place(from, true), place(to, false)],
        nodes: vec![from.into(), to.into()],
        links: vec![("l".into(), 0, 1)],
        arrives: true,
        ..Walk::default()
    }
}

fn stop(from: usize, to: usize, share: Share, name: CauseName) -> Stop {
    let cause = Cause::new(name, "link l", format!("{name}")).evidence("found");
    Stop { from, to, share, cause }
}

fn observed(there: Seen, back: Seen) -> Observed {
    Observed {
        probe: "one".into(),
        outcome: Outcome::Silence,
        there,
        back,
        lost: vec![],
        missed: 0,
    }
}

#[test]
fn a_datagram_that_arrived_need_not_be_answered() {
    let (there, back) = (pair("a", "b"), pair("b", "a"));
    let seen = observed(vec![Packet, Packet], vec![Nothing, Nothing]);
    let report = judge(&flow(Protocol::Udp), &there, &back, &seen);
    assert_eq!(report.verdict, Verdict::Delivered);
    assert!(report.causes.is_empty() && report.missing.is_empty());
    // An answer that was sent, and did not come back, is another matter.
    let seen = observed(vec![Packet, Packet], vec![Packet, Nothing]);
    let report = judge(&flow(Protocol::Udp), &there, &back, &seen);
    assert_eq!(report.verdict, Verdict::NotKnown);
    assert!(
        report.missing[0].contains("the answer is lost between b:eth0 and a:eth0"),
        "{report:#?}"
    );
}

#[test]
fn a_question_without_an_answer_is_lost_one_way_or_the_other() {
    let mut there = pair("a", "b");
    there.stops.push(stop(0, 3, Share::Resolution, CauseName::WireLoss));
    let seen = observed(vec![Resolution, Resolution], vec![Nothing, Nothing]);
    let report = judge(&flow(Protocol::Icmp), &there, &pair("b", "a"), &seen);
    assert_eq!(report.causes[0].name, CauseName::WireLoss);
    // With the packet on its way, the neighbour is known, and the answers to questions are not to blame.
    let seen = observed(vec![Packet, Nothing], vec![Nothing, Nothing]);
    let report = judge(&flow(Protocol::Icmp), &there, &pair("b", "a"), &seen);
    assert!(report.causes.is_empty(), "{report:#?}");
}

#[test]
fn partial_loss_counts_with_the_link_s_own_word() {
    let mut there = pair("a", "b");
    there.stops.push(stop(0, 1, Share::Some, CauseName::WirePartialLoss));
    let mut seen = observed(vec![Packet, Nothing], vec![Nothing, Nothing]);
    let report = judge(&flow(Protocol::Icmp), &there, &pair("b", "a"), &seen);
    assert_eq!((report.causes.len(), report.hindrances.len()), (0, 1));
    seen.lost = vec![("l".into(), 0, "random".into(), 2)];
    let report = judge(&flow(Protocol::Icmp), &there, &pair("b", "a"), &seen);
    assert_eq!(report.causes[0].name, CauseName::WirePartialLoss);
    assert_eq!(
        report.causes[0].evidence[1],
        "the wire lost 2 packets by random while the probe was sent"
    );
    assert!(report.hindrances.is_empty(), "told once");
}

#[test]
fn a_place_that_is_passed_twice_was_seen_once() {
    let mut there = pair("a", "b");
    // b hands it back, by the interface at which it came.
    let begin = there.places.clone();
    there.places.extend([Place { out: true, ..begin[1].clone() }, begin[0].clone()]);
    there.places.push(begin[1].clone());
    there.arrives = false;
    there.stops.push(stop(2, 2, Share::All, CauseName::ForwardingOff));
    let seen = observed(vec![Packet, Packet, Nothing, Packet, Packet], vec![]);
    let report = judge(&flow(Protocol::Icmp), &there, &Walk::default(), &seen);
    assert_eq!(report.causes[0].name, CauseName::ForwardingOff, "{report:#?}");
    assert_eq!(report.there.last.as_deref(), Some("b:eth0 in"));
    // One that does come back is seen twice.
    there.stops = vec![stop(5, 5, Share::All, CauseName::RoutingLoop)];
    let seen = observed(vec![Packet; 5], vec![]);
    let report = judge(&flow(Protocol::Icmp), &there, &Walk::default(), &seen);
    assert_eq!(report.causes[0].name, CauseName::RoutingLoop, "{report:#?}");
}

#[test]
fn what_drops_at_times_is_the_cause_where_it_is_all_there_is() {
    let mut there = pair("a", "b");
    there.stops.push(stop(1, 1, Share::Some, CauseName::QueueDrops));
    let seen = observed(vec![Packet, Nothing], vec![Nothing, Nothing]);
    let ask = |there: &Walk| judge(&flow(Protocol::Icmp), there, &pair("b", "a"), &seen);
    let report = ask(&there);
    assert_eq!((report.verdict, report.causes.len()), (Verdict::Stopped, 1), "{report:#?}");
    assert!(report.hindrances.is_empty() && report.causes[0].evidence[1].contains("nothing else"));
    // A rule that may drop it comes beside it: either is possible.
    let suspect =
        Stop { cause: Cause::new(CauseName::NftDrop, "node a", "rule"), ..there.stops[0].clone() };
    there.suspects.push(suspect);
    there.doubts.push(Doubt { from: 1, to: 1, text: "rule".into() });
    let report = ask(&there);
    assert_eq!((report.verdict, report.causes.len()), (Verdict::NotKnown, 0), "{report:#?}");
    assert!(report.missing.contains(&"rule".to_owned()));
    // The rule alone, and beside it something that cannot be read.
    there.stops.clear();
    assert_eq!(ask(&there).causes[0].name, CauseName::NftDrop);
    there.doubts.push(Doubt { from: 1, to: 1, text: "not read".into() });
    assert_eq!(ask(&there).verdict, Verdict::NotKnown);
    // What a small packet does not meet, and what links count themselves, explains nothing.
    (there.doubts, there.suspects) = (vec![], vec![]);
    for name in [CauseName::MtuTooSmall, CauseName::WirePartialLoss] {
        there.stops = vec![stop(1, 1, Share::Some, name)];
        assert_eq!(ask(&there).verdict, Verdict::NotKnown);
    }
}

#[test]
fn what_is_not_known_says_what_is_missing() {
    let mut there = pair("a", "b");
    there.doubts.push(Doubt { from: 1, to: 1, text: "rules are not read".into() });
    there.doubts.push(Doubt { from: 0, to: 0, text: "elsewhere".into() });
    let mut seen = observed(vec![Packet, Nothing], vec![Nothing, Nothing]);
    seen.outcome = Outcome::Error([10, 0, 0, 9].into(), "communication prohibited".into());
    let report = judge(&flow(Protocol::Icmp), &there, &pair("b", "a"), &seen);
    assert_eq!(report.verdict, Verdict::NotKnown);
    assert!(report.missing.iter().any(|m| m == "rules are not read"), "{report:#?}");
    assert!(report.missing.iter().all(|m| m != "elsewhere"), "{report:#?}");
    assert!(report.missing.iter().any(|m| m.contains("10.0.0.9 answered")), "{report:#?}");
}

#[test]
fn a_probe_that_cannot_be_sent_leaves_what_tables_say() {
    let mut there = pair("a", "b");
    there.stops.push(stop(0, 0, Share::All, CauseName::NodeDead));
    let seen =
        Observed { outcome: Outcome::NotSent("node a does not run".into()), ..Observed::default() };
    let report = judge(&flow(Protocol::Icmp), &there, &pair("b", "a"), &seen);
    assert_eq!((report.verdict, report.causes[0].basis), (Verdict::Stopped, Basis::Facts));
    assert_eq!(report.missing, ["the probe could not be sent: node a does not run"]);
    assert_eq!(report.there.hops[0].seen, Sighting::NotWatched);
}

#[test]
fn what_could_not_be_watched_is_not_known() {
    let (there, back) = (pair("a", "b"), pair("b", "a"));
    let mut seen = observed(vec![Packet, Nothing], vec![Nothing, Nothing]);
    seen.missed = 7;
    let report = judge(&flow(Protocol::Tcp), &there, &back, &seen);
    assert_eq!(report.verdict, Verdict::NotKnown);
    assert!(report.missing.len() == 1 && report.missing[0].starts_with("7 packets"), "{report:#?}");
}
