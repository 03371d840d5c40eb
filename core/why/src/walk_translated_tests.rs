//! Flows through the office whose addresses rules change on the way.

use super::*;
use crate::nft::Operand;

/// Translates what leaves `r1` to the addresses that it has there, as `masquerade` in postrouting does.
fn masquerading(office: &mut Office) {
    let mut name = b"eth1".to_vec();
    name.resize(16, 0);
    let steps = vec![
        Expression::Meta { key: 7, to: 1 },
        Expression::Cmp { from: 1, operation: 0, value: name },
        Expression::Nat(Nat { name: "masq".into(), change: Change::Masquerade }),
    ];
    office.at("r1").rules = Some(rule(steps, 4, false));
}

/// Another address and port for what comes to a node.
fn to(address: [u8; 4], port: u16) -> Vec<Expression> {
    let [address, port] = [address.to_vec(), port.to_be_bytes().to_vec()].map(Operand::Bytes);
    let change = Change::Destination(Some(address), Some(port));
    vec![Expression::Nat(Nat { name: "nat".into(), change })]
}

/// A drop of packets from an address.
fn from(address: [u8; 4]) -> Vec<Expression> {
    vec![
        Expression::Payload { base: 1, offset: 12, length: 4, to: 1 },
        Expression::Cmp { from: 1, operation: 0, value: address.to_vec() },
        Expression::Verdict(RuleVerdict::Drop),
    ]
}

fn sources(walk: &Walk, first: &Flow) -> Vec<String> {
    (0..walk.places.len()).map(|at| walk.flow_at(first, at).source.to_string()).collect()
}

#[test]
fn behind_a_masquerade_the_way_goes_on_with_its_address() {
    let mut office = Office::new();
    masquerading(&mut office);
    // Nobody behind it needs a way to the network before it.
    office.route_away("r2", "10.0.0.0/24");
    let there = walk(&mut office, &flow(), None).unwrap();
    assert!(there.arrives && there.stops.is_empty() && there.doubts.is_empty(), "{there:#?}");
    let (own, other) = ("10.0.0.1", "10.1.0.1");
    assert_eq!(sources(&there, &flow()), [own, own, own, own, other, other, other, other]);
    let answer = there.answer(&flow());
    assert_eq!((answer.destination, &*answer.to), (ip(other), "h1"));
    let back = walk(&mut office, &answer, Some(&there)).unwrap();
    assert!(back.arrives && back.stops.is_empty() && back.doubts.is_empty(), "{back:#?}");
    let destinations: Vec<String> = (0..back.places.len())
        .map(|at| back.flow_at(&answer, at).destination.to_string())
        .collect();
    // At r1:eth1 it comes in with the address that it is then changed from.
    assert_eq!(destinations, [other, other, other, other, own, own, own, own]);
    let report = office.ask_both(8, 8, Outcome::Answered);
    let translated = &report.there.translated[0];
    assert_eq!(translated.before, "10.0.0.1:40000 -> 10.2.0.1:80");
    assert_eq!(translated.after, "10.1.0.1:40000 -> 10.2.0.1:80");
    let text = crate::text(&report);
    let line = "  r1 translates 10.0.0.1:40000 -> 10.2.0.1:80 to 10.1.0.1:40000 -> 10.2.0.1:80\n";
    assert!(text.contains(line), "{text}");
    assert!(text.contains("    by node r1: table inet fw, chain c handle 4: "), "{text}");
    let back = "  r1 translates 10.2.0.1:80 -> 10.1.0.1:40000 to 10.2.0.1:80 -> 10.0.0.1:40000\n";
    assert!(text.contains(back), "{text}");
}

#[test]
fn rules_behind_a_translation_compare_the_new_addresses() {
    let mut office = Office::new();
    masquerading(&mut office);
    office.at("r2").rules = Some(rule(from([10, 0, 0, 1]), 2, false));
    assert!(walk(&mut office, &flow(), None).unwrap().stops.is_empty());
    office.at("r2").rules = Some(rule(from([10, 1, 0, 1]), 2, false));
    let report = office.ask(6, Outcome::Silence);
    assert_eq!(report.causes[0].name, CauseName::NftDrop, "{report:#?}");
    assert_eq!((report.causes[0].basis, &*report.causes[0].place), (Basis::Probe, "node r2"));
    // Where addresses alone are known, it is a doubt.
    let by_addresses = walk_by_addresses(&mut office, &flow(), None).unwrap();
    assert!(by_addresses.stops.is_empty() && by_addresses.translations.is_empty());
    assert_eq!(by_addresses.translated_by.as_deref(), Some("r1"));
}

#[test]
fn a_published_port_leads_to_the_node_behind_it() {
    let mut office = Office::new();
    office.at("r1").rules = Some(rule(to([10, 2, 0, 1], 80), 0, false));
    let outside =
        Flow { to: "r1".into(), destination: ip("10.0.0.254"), ports: [40_000, 8080], ..flow() };
    let there = walk(&mut office, &outside, None).unwrap();
    assert!(there.arrives && there.stops.is_empty() && there.doubts.is_empty(), "{there:#?}");
    assert_eq!(there.nodes, ["h1", "r1", "r2", "web"]);
    let answer = there.answer(&outside);
    assert_eq!((&*answer.from, answer.ports), ("web", [80, 40_000]));
    let back = walk(&mut office, &answer, Some(&there)).unwrap();
    assert!(back.arrives && back.stops.is_empty(), "{back:#?}");
    let last = back.flow_at(&answer, usize::MAX);
    assert_eq!((last.source, last.ports), (ip("10.0.0.254"), [8080, 40_000]));
    // What does not listen there is told of the node and port that the packet comes to.
    office.at("web").listeners.clear();
    let there = walk(&mut office, &outside, None).unwrap();
    assert_eq!(there.stops[0].cause.name, CauseName::NothingListens);
    assert_eq!(there.stops[0].cause.text, "nothing in node web takes tcp on port 80");
    // An address that nobody has by the plan: where packets end because of it, the rule is the cause.
    for (away, nodes) in [([10, 9, 9, 9], &["h1", "r1"][..]), ([10, 2, 0, 99], &["h1", "r1", "r2"])]
    {
        office.at("r1").rules = Some(rule(to(away, 80), 0, false));
        let there = walk(&mut office, &outside, None).unwrap();
        assert!(there.nodes == nodes && there.stops.len() == 1, "{there:#?}");
        let cause = &there.stops[0].cause;
        assert_eq!((cause.name, &*cause.place), (CauseName::TranslatedAway, "node r1"));
        assert!(cause.mend.as_ref().unwrap().contains("nft delete rule"), "{cause:#?}");
        let back = walk(&mut office, &there.answer(&outside), Some(&there)).unwrap();
        assert!(back.places.is_empty() && !back.arrives);
    }
}

#[test]
fn a_redirected_port_is_looked_up_in_the_node_itself() {
    let mut office = Office::new();
    let port = Some(Operand::Bytes(8080_u16.to_be_bytes().to_vec()));
    let redirect = Nat { name: "redir".into(), change: Change::Redirect(port) };
    office.at("web").rules = Some(rule(vec![Expression::Nat(redirect)], 0, false));
    let there = walk(&mut office, &flow(), None).unwrap();
    assert!(there.arrives, "{there:#?}");
    assert_eq!(there.stops[0].cause.text, "nothing in node web takes tcp on port 8080");
    office.at("web").listeners[0].local = "0.0.0.0:8080".parse().unwrap();
    let there = walk(&mut office, &flow(), None).unwrap();
    assert!(there.stops.is_empty(), "{there:#?}");
}

#[test]
fn a_senders_own_packet_is_routed_again_once_it_has_another_destination() {
    let mut office = Office::new();
    // By itself it has a way to h2 alone.
    office.route_away("h1", "0.0.0.0/0");
    office.at("h1").rules = Some(rule(to([10, 0, 0, 2], 80), 3, false));
    let listener = office.at("web").listeners[0].clone();
    office.at("h2").listeners.push(listener);
    let near = Flow { destination: ip("10.0.0.9"), ..flow() };
    let there = walk(&mut office, &near, None).unwrap();
    assert!(there.arrives && there.stops.is_empty(), "{there:#?}");
    assert_eq!(there.nodes, ["h1", "h2"]);
}
