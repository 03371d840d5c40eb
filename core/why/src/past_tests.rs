//! Recordings of packets from a by way of r to b.

use super::*;
use crate::Protocol;
use crate::cause::CauseName;
use crate::walk::Stop;

fn place(node: &str, interface: &str, out: bool) -> Place {
    let name = format!("{node}:{interface}");
    Place { node: Some(node.to_owned()), interface: interface.to_owned(), out, name }
}

fn way() -> Vec<Place> {
    vec![
        place("a", "eth0", true),
        place("r", "eth0", false),
        place("r", "eth1", true),
        place("b", "eth0", false),
    ]
}

fn walk_of(mut places: Vec<Place>, back: bool) -> Walk {
    if back {
        places.reverse();
        places.iter_mut().for_each(|place| place.out = !place.out);
    }
    Walk { places, arrives: true, ..Walk::default() }
}

/// Links are recorded at a:eth0 and r:eth1.
fn trace(at: u64, spots: usize, back: bool) -> Trace {
    let recorded = [0, 2].map(|at| Spot::of(&walk_of(way(), false).places[at]));
    let mut spots: Vec<Spot> = match back {
        false => recorded[..spots].to_vec(),
        true => recorded.iter().rev().take(spots).cloned().collect(),
    };
    spots.iter_mut().for_each(|spot| spot.out ^= back);
    let arrived = spots.len() == 2;
    Trace { spots, times_ns: (at, at + 1), arrived, reply: Reply::NotDue }
}

fn judged(past: &Past, stops: Vec<Stop>) -> Report {
    let flow = Flow::new(
        [("a", [10, 0, 0, 1].into()), ("b", [10, 0, 0, 2].into())],
        Protocol::Icmp,
        [0, 0],
    );
    let there = Walk { stops, ..walk_of(way(), false) };
    let back = walk_of(way(), true);
    judge_past(&flow.unwrap(), (&there, &back), past, |ns| format!("t{ns}"))
}

fn past(there: Vec<Trace>, back: Vec<Trace>) -> Past {
    let recorded = [("a", "eth0"), ("r", "eth1")];
    let recorded = recorded.map(|(node, at)| (Some(node.to_owned()), at.to_owned())).to_vec();
    Past { there, back, recorded, doubts: vec!["a doubt".to_owned()] }
}

fn stop(from: usize, to: usize, share: Share, name: CauseName) -> Stop {
    Stop { from, to, share, cause: Cause::new(name, "node r", name.word()) }
}

#[test]
fn what_arrived_did() {
    let of = past(vec![trace(10, 2, false)], vec![trace(20, 2, true)]);
    let report = judged(&of, vec![stop(2, 2, Share::All, CauseName::NftDrop)]);
    // Whatever stands there now.
    assert_eq!((report.verdict, report.causes.len()), (Verdict::Answered, 0));
    assert!(report.there.lost.is_none(), "{report:#?}");
    // What the recorder did not see is a doubt of this, too.
    assert_eq!(report.missing, ["a doubt"]);
    let report = judged(&past(vec![trace(10, 2, false)], vec![]), vec![]);
    assert_eq!((report.verdict, report.back), (Verdict::Delivered, None));
}

#[test]
fn a_packet_that_is_lost_still_has_the_causes_of_now_at_its_place() {
    let of = past(vec![trace(10, 2, false), trace(20, 1, false)], vec![trace(15, 2, true)]);
    let stops = || {
        vec![
            stop(0, 0, Share::All, CauseName::InterfaceDown),
            stop(2, 2, Share::All, CauseName::NftDrop),
            stop(2, 2, Share::Resolution, CauseName::WireLoss),
            stop(4, 4, Share::All, CauseName::NothingListens),
        ]
    };
    let report = judged(&of, stops());
    assert_eq!(report.verdict, Verdict::Stopped);
    let names: Vec<CauseName> = report.causes.iter().map(|cause| cause.name).collect();
    assert_eq!(names, [CauseName::NftDrop]);
    assert_eq!(report.causes[0].basis, Basis::Now);
    assert!(report.causes[0].evidence[0].contains("came to a:eth0 at t21"), "{report:#?}");
    assert_eq!(report.there.last.as_deref(), Some("a:eth0 out"));
    assert_eq!(report.there.lost.as_deref(), Some("r:eth1 out"));
    assert_eq!(report.missing, ["a doubt"]);
    let recorded = report.recorded.unwrap();
    assert_eq!((recorded.packets, recorded.lost, recorded.answers), (2, 1, 1));
    // No other came farther: then the way of now says where it would have been seen.
    let report = judged(&past(vec![trace(20, 1, false)], vec![]), stops());
    assert_eq!(report.there.lost.as_deref(), Some("r:eth1 out"));
    assert_eq!(report.causes.len(), 1);
    // Nothing that stands there explains it.
    let report = judged(&past(vec![trace(20, 1, false)], vec![]), vec![]);
    assert_eq!((report.verdict, report.causes.len()), (Verdict::NotKnown, 0));
    assert!(report.missing[0].contains("what was there then is not recorded"), "{report:#?}");
}

#[test]
fn what_passed_there_later_refutes_what_stands_there_now() {
    let of = past(vec![trace(20, 1, false), trace(30, 2, false)], vec![trace(35, 2, true)]);
    let report = judged(&of, vec![stop(2, 2, Share::All, CauseName::NftDrop)]);
    assert_eq!((report.verdict, report.causes.len()), (Verdict::NotKnown, 0));
    assert!(report.missing[0].contains("from t30 on they pass there"), "{report:#?}");
}

#[test]
fn answers_that_are_lost_are_looked_for_on_the_way_back() {
    let of = past(vec![trace(10, 2, false)], vec![trace(20, 1, true)]);
    let report = judged(&of, vec![stop(2, 2, Share::All, CauseName::NftDrop)]);
    assert_eq!((report.verdict, report.causes.len()), (Verdict::NotKnown, 0));
    let back = report.back.unwrap();
    assert_eq!(back.last.as_deref(), Some("r:eth1 in"));
    assert_eq!(back.lost.as_deref(), Some("a:eth0 in"));
    assert!(
        report.missing[0].contains("the last answer that did not arrive"),
        "{:?}",
        report.missing
    );
}

#[test]
fn a_flow_without_packets_is_told() {
    let report = judged(&past(vec![], vec![]), vec![stop(0, 0, Share::All, CauseName::NodeDead)]);
    assert_eq!((report.verdict, report.causes.len()), (Verdict::NotKnown, 0));
    assert!(report.missing[0].contains("no packet of it"), "{report:#?}");
    let text = crate::text(&report);
    assert!(text.contains(": no packet is recorded\n"), "{text}");
    assert!(text.contains("recorded: 0 packets, 0 of them did not arrive; 0 answers"), "{text}");
}

/// A packet that arrived, with what became of it.
fn asked(at: u64, reply: Reply) -> Trace {
    Trace { reply, ..trace(at, 2, false) }
}

#[test]
fn a_request_without_an_answer_is_explained_at_the_receiver_and_on_the_way_back() {
    let of =
        past(vec![asked(10, Reply::Came), asked(20, Reply::Missing)], vec![trace(11, 2, true)]);
    // A rule of the way there that it passed is not a cause; what the receiver does is.
    let passed = stop(2, 2, Share::All, CauseName::NftDrop);
    let report = judged(&of, vec![passed.clone(), stop(4, 4, Share::All, CauseName::EchoIgnored)]);
    assert_eq!(report.verdict, Verdict::Stopped);
    assert_eq!(report.causes.len(), 1, "{report:#?}");
    assert_eq!(report.causes[0].name, CauseName::EchoIgnored);
    assert!(report.causes[0].evidence[0].contains("was not answered came to r:eth1 at t21"));
    // Or the answer never leaves.
    let flow = Flow::new(
        [("a", [10, 0, 0, 1].into()), ("b", [10, 0, 0, 2].into())],
        Protocol::Icmp,
        [0, 0],
    );
    let stops = vec![stop(0, 0, Share::All, CauseName::NoRoute)];
    let back = Walk { stops, ..walk_of(way(), true) };
    let (flow, there) = (flow.unwrap(), walk_of(way(), false));
    let report = judge_past(&flow, (&there, &back), &of, |ns| format!("t{ns}"));
    assert_eq!((report.verdict, report.causes[0].name), (Verdict::Stopped, CauseName::NoRoute));
    assert_eq!(report.causes[0].direction, Direction::Back);
    // Nothing explains it.
    let report = judged(&of, vec![passed]);
    assert_eq!((report.verdict, report.causes.len()), (Verdict::NotKnown, 0));
    // An answer to a later one refutes what stands there.
    let of =
        past(vec![asked(20, Reply::Missing), asked(30, Reply::Came)], vec![trace(31, 2, true)]);
    let report = judged(&of, vec![stop(4, 4, Share::All, CauseName::EchoIgnored)]);
    assert_eq!((report.verdict, report.causes.len()), (Verdict::NotKnown, 0));
    assert!(report.missing[0].contains("from t30 on they are answered"), "{report:#?}");
}

#[test]
fn a_refusal_is_no_answer() {
    let of = past(vec![asked(20, Reply::Refused)], vec![trace(21, 2, true)]);
    let report = judged(&of, vec![stop(4, 4, Share::All, CauseName::NothingListens)]);
    assert_eq!((report.verdict, report.causes.len()), (Verdict::Stopped, 1), "{report:#?}");
    assert_eq!(report.causes[0].basis, Basis::Now);
    let report = judged(&of, vec![]);
    assert_eq!(report.verdict, Verdict::NotKnown);
    assert!(report.missing[0].contains("the last packet that was refused"), "{report:#?}");
}
