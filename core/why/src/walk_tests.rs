//! Flows through a small office: h1 and h2 at switch s1, router r1, router r2, server web.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;

use netloom_bridge::{Vid, VlanMode};

use super::*;
use crate::cause::Direction;
use crate::facts::*;
use crate::judge::{Observed, Outcome};
use crate::nft::{
    Attached, Chain, Change, Expression, Family, Nat, Rule, Ruleset, Verdict as RuleVerdict,
};
use crate::report::{Report, Sighting, Verdict};
use crate::{Basis, CauseName, Protocol, judge};

#[path = "walk_learnt_tests.rs"]
mod learnt;
#[path = "walk_translated_tests.rs"]
mod translated;

/// A route: to what, by which gateway and interface, and of which kind.
type Way = (ipnet::IpNet, Option<IpAddr>, String, &'static str);

/// A lab whose kernels are imitated: longest prefix, forwarding, strict reverse path.
#[derive(Clone)]
pub(crate) struct Office {
    nodes: BTreeMap<String, Node>,
    /// Prefix, gateway, interface, kind.
    routes: BTreeMap<String, Vec<Way>>,
    links: BTreeMap<String, Link>,
    ports: Option<[PortRules; 2]>,
    /// What an OpenFlow switch does with questions for addresses, or with packets, that come by a link.
    traced: Vec<(bool, &'static str, Traced)>,
    daemons: Vec<(String, Daemons)>,
    /// What BGP of nodes knows of the destination.
    bgp: BTreeMap<&'static str, BgpRoute>,
    kind: &'static str,
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn net(text: &str) -> ipnet::IpNet {
    text.parse().unwrap()
}

impl Office {
    pub(crate) fn new() -> Office {
        let mut office = Office {
            nodes: BTreeMap::new(),
            routes: BTreeMap::new(),
            links: BTreeMap::new(),
            ports: None,
            traced: vec![],
            daemons: vec![],
            bgp: BTreeMap::new(),
            kind: "kernel",
        };
        office.node("h1", &[("eth0", "10.0.0.1/24", "l1")], &[("0.0.0.0/0", "10.0.0.254", "eth0")]);
        office.node("h2", &[("eth0", "10.0.0.2/24", "l2")], &[("0.0.0.0/0", "10.0.0.254", "eth0")]);
        office.node(
            "r1",
            &[("eth0", "10.0.0.254/24", "l3"), ("eth1", "10.1.0.1/24", "l4")],
            &[("10.2.0.0/24", "10.1.0.2", "eth1")],
        );
        office.node(
            "r2",
            &[("eth0", "10.1.0.2/24", "l4"), ("eth1", "10.2.0.254/24", "l5")],
            &[("10.0.0.0/24", "10.1.0.1", "eth0")],
        );
        office.node(
            "web",
            &[("eth0", "10.2.0.1/24", "l5")],
            &[("0.0.0.0/0", "10.2.0.254", "eth0")],
        );
        for router in ["r1", "r2"] {
            office.at(router).interfaces.iter_mut().for_each(|i| i.forwards = true);
        }
        let listener = Listener {
            protocol: 6,
            local: "0.0.0.0:80".parse().unwrap(),
            device: None,
            six_only: false,
            queue: Some((0, 128)),
            room: None,
            inode: 0,
        };
        office.at("web").listeners.push(listener);
        for (name, ends) in [
            ("l1", ["h1:eth0", "s1"]),
            ("l2", ["h2:eth0", "s1"]),
            ("l3", ["s1", "r1:eth0"]),
            ("l4", ["r1:eth1", "r2:eth0"]),
            ("l5", ["r2:eth1", "web:eth0"]),
        ] {
            let link = Link { ends: ends.map(str::to_owned), ..Link::default() };
            office.links.insert(name.into(), link);
        }
        office
    }

    fn node(
        &mut self,
        name: &str,
        interfaces: &[(&str, &str, &str)],
        routes: &[(&str, &str, &str)],
    ) {
        let mut node = Node {
            name: name.into(),
            rules: Some(Ruleset::default()),
            ttl: Some(64),
            ..Node::default()
        };
        let mut all = vec![];
        for (at, (interface, address, link)) in interfaces.iter().enumerate() {
            node.interfaces.push(Interface {
                name: (*interface).into(),
                index: u32::try_from(at).unwrap() + 2,
                up: true,
                carrier: true,
                mtu: 1500,
                mac: Some([2, 0, 0, 0, name.as_bytes()[1], u8::try_from(at).unwrap()]),
                addresses: vec![net(address)],
                ..Interface::default()
            });
            node.planned.push(PlannedInterface {
                name: (*interface).into(),
                addresses: vec![net(address)],
                link: (*link).into(),
                unplugged: false,
                mtu: 1500,
            });
            all.push((net(address).trunc(), None, (*interface).to_owned(), "unicast"));
        }
        for (to, via, by) in routes {
            let hops = vec![(Some(ip(via)), (*by).to_owned())];
            node.planned_routes.push(PlannedRoute { to: net(to), hops });
            all.push((net(to), Some(ip(via)), (*by).to_owned(), "unicast"));
        }
        self.nodes.insert(name.into(), node);
        self.routes.insert(name.into(), all);
    }

    pub(crate) fn at(&mut self, node: &str) -> &mut Node {
        self.nodes.get_mut(node).unwrap()
    }

    fn route_away(&mut self, node: &str, to: &str) {
        self.routes.get_mut(node).unwrap().retain(|route| route.0 != net(to));
    }

    fn discard(&mut self, node: &str, to: &str, kind: &'static str) {
        self.routes.get_mut(node).unwrap().push((net(to), None, String::new(), kind));
    }

    fn own(&self, node: &str, to: IpAddr) -> Routed {
        let known = &self.nodes[node];
        if known.has(to) {
            return Routed::Here;
        }
        let usable = |route: &&(ipnet::IpNet, Option<IpAddr>, String, &'static str)| {
            route.0.contains(&to)
                && (route.3 != "unicast" || known.interface(&route.2).is_some_and(|i| i.up))
        };
        let best = self.routes[node].iter().filter(usable).max_by_key(|route| route.0.prefix_len());
        match best {
            None => Routed::Refused(Refusal::NoRoute),
            Some((_, via, interface, "unicast")) => Routed::Leaves {
                interface: interface.clone(),
                via: *via,
                source: known
                    .interface(interface)
                    .and_then(|i| i.addresses.first())
                    .map(|net| net.addr()),
            },
            Some((.., "throw")) => Routed::Refused(Refusal::NoRoute),
            Some((.., "blackhole")) => Routed::Refused(Refusal::Invalid),
            Some((.., "prohibit")) => Routed::Refused(Refusal::Prohibited),
            Some(_) => Routed::Refused(Refusal::Unreachable),
        }
    }

    /// What becomes of a flow of which the probe was seen at so many places.
    pub(crate) fn ask(&mut self, seen: usize, outcome: Outcome) -> Report {
        self.ask_both(seen, 0, outcome)
    }

    fn ask_both(&mut self, seen: usize, back: usize, outcome: Outcome) -> Report {
        let flow = flow();
        let there = walk(self, &flow, None).unwrap();
        let answers = walk(self, &there.answer(&flow), Some(&there)).unwrap();
        let sight = |walk: &Walk, count: usize| {
            (0..walk.places.len())
                .map(|at| if at < count { Sighting::Packet } else { Sighting::Nothing })
                .collect::<Vec<_>>()
        };
        let observed = Observed {
            probe: "one".into(),
            outcome,
            there: sight(&there, seen),
            back: sight(&answers, back),
            lost: vec![],
            missed: 0,
        };
        judge(&flow, &there, &answers, &observed)
    }
}

/// The inode of a socket whose program is stopped.
const STOPPED: u32 = 99;

fn flow() -> Flow {
    Flow {
        from: "h1".into(),
        to: "web".into(),
        source: ip("10.0.0.1"),
        destination: ip("10.2.0.1"),
        protocol: Protocol::Tcp,
        ports: [40_000, 80],
        answers: false,
    }
}

impl Office {
    /// Stations by node and interface, with the links to them.
    fn segment(&self, node: &str, interface: &str) -> Vec<(String, String, Vec<Crossing>)> {
        let hosts = [("h1", "eth0", "l1"), ("h2", "eth0", "l2"), ("r1", "eth0", "l3")];
        let place = |name: String, out| Place { node: None, interface: name.clone(), out, name };
        let kind = self.kind;
        let plain = |link: &str, from| Crossing {
            link: link.into(),
            from,
            into: None,
            switch: None,
            out_of: None,
        };
        if let Some(own) = hosts.iter().find(|(n, i, _)| *n == node && *i == interface) {
            let end = |link: &str| usize::from(link == "l3");
            let to = |(n, i, link): &(&str, &str, &str)| {
                let seen = kind != "shm";
                let first = Crossing {
                    into: seen.then(|| place(format!("s1/{node}:{interface}"), false)),
                    switch: Some(Switch { name: "s1".into(), kind: kind.into() }),
                    out_of: seen.then(|| place(format!("s1/{n}:{i}"), true)),
                    ..plain(own.2, end(own.2))
                };
                ((*n).to_owned(), (*i).to_owned(), vec![first, plain(link, 1 - end(link))])
            };
            return hosts.iter().filter(|other| *other != own).map(to).collect();
        }
        let pairs = [("r1", "eth1", "r2", "eth0", "l4", 0), ("r2", "eth1", "web", "eth0", "l5", 0)];
        let pairs = pairs.iter().flat_map(|(a, i, b, j, link, end)| {
            [(*a, *i, *b, *j, *link, *end), (*b, *j, *a, *i, *link, 1 - *end)]
        });
        let found = pairs.filter(|(a, i, ..)| *a == node && *i == interface);
        found
            .map(|(_, _, b, j, link, end)| (b.to_owned(), j.to_owned(), vec![plain(link, end)]))
            .collect()
    }
}

impl Facts for Office {
    type Error = std::convert::Infallible;

    fn lab(&self) -> &str {
        "t"
    }

    fn node(&mut self, node: &str) -> Result<Rc<Node>, Self::Error> {
        Ok(Rc::new(self.nodes[node].clone()))
    }

    fn route(&mut self, node: &str, lookup: &Lookup<'_>) -> Result<Routed, Self::Error> {
        let own = self.own(node, lookup.to);
        let Some((source, by)) = lookup.came else { return Ok(own) };
        let known = &self.nodes[node];
        let Some(interface) = known.interface(by) else { return Ok(own) };
        if own != Routed::Here && !interface.forwards {
            return Ok(Routed::Refused(Refusal::Unreachable));
        }
        let back = self.own(node, source);
        let strict = interface.rp_filter == 1;
        let other = !matches!(&back, Routed::Leaves { interface, .. } if interface == by);
        if known.has(source) || (strict && other) {
            return Ok(Routed::Refused(Refusal::Invalid));
        }
        Ok(own)
    }

    fn matched(&mut self, node: &str, lookup: &Lookup<'_>) -> Result<Option<Matched>, Self::Error> {
        let fitting = self.routes[node].iter().filter(|route| route.0.contains(&lookup.to));
        let best = fitting.max_by_key(|route| route.0.prefix_len());
        Ok(best.map(|route| Matched { to: route.0, table: 254 }))
    }

    fn discarding(&mut self, node: &str, _: IpAddr) -> Result<Vec<Discarding>, Self::Error> {
        let all = self.routes[node].iter().filter(|route| route.3 != "unicast");
        Ok(all
            .map(|route| Discarding { kind: route.3, to: route.0, table: 254, origin: 3 })
            .collect())
    }

    fn stations(
        &mut self,
        node: &str,
        interface: &str,
        _: IpAddr,
    ) -> Result<Vec<Station>, Self::Error> {
        let all = self.segment(node, interface).into_iter();
        Ok(all.map(|(node, interface, _)| Station { node, interface }).collect())
    }

    fn crossed(
        &mut self,
        node: &str,
        interface: &str,
        to: &Station,
    ) -> Result<Vec<Crossing>, Self::Error> {
        let all = self.segment(node, interface).into_iter();
        Ok(all
            .filter(|(n, i, _)| (n, i) == (&to.node, &to.interface))
            .flat_map(|found| found.2)
            .collect())
    }

    fn traced(
        &mut self,
        _: &str,
        links: [&str; 2],
        frame: &[u8],
    ) -> Result<Option<Traced>, Self::Error> {
        let arp = frame[12..14] == [8, 6];
        assert_eq!(frame.len(), if arp { 42 } else { 54 }, "whole frames");
        Ok(self
            .traced
            .iter()
            .find(|(about, first, _)| (*about, *first) == (arp, links[0]))
            .map(|(.., t)| t.clone()))
    }

    fn planned_owner(&mut self, address: IpAddr) -> Result<Option<Option<String>>, Self::Error> {
        let found = self.nodes.values().find(|node| node.planned_for(address).is_some());
        Ok(Some(found.map(|node| node.name.clone())))
    }

    fn stopped(&mut self, _: &str, inode: u32) -> Result<Option<i32>, Self::Error> {
        Ok((inode == STOPPED).then_some(7))
    }

    fn bgp_route(&mut self, node: &str, _: IpAddr) -> Result<Option<BgpRoute>, Self::Error> {
        Ok(self.bgp.get(node).cloned())
    }

    fn daemons(&mut self) -> Result<Rc<Vec<(String, Daemons)>>, Self::Error> {
        Ok(Rc::new(self.daemons.clone()))
    }

    fn link(&mut self, link: &str) -> Result<Rc<Link>, Self::Error> {
        Ok(Rc::new(self.links[link].clone()))
    }

    fn ports(&mut self, _: &str, _: [&str; 2]) -> Result<Option<[PortRules; 2]>, Self::Error> {
        Ok(self.ports.clone())
    }
}

/// The only cause, by name and place.
fn only(report: &Report) -> (CauseName, String) {
    assert_eq!(report.causes.len(), 1, "{report:#?}");
    assert_eq!(report.verdict, Verdict::Stopped, "{report:#?}");
    assert!(!report.causes[0].evidence.is_empty(), "{report:#?}");
    (report.causes[0].name, report.causes[0].place.clone())
}

fn rule(steps: Vec<Expression>, hook: u32, drops: bool) -> Ruleset {
    let attached = Attached { hook, priority: 0, devices: vec![], drops };
    let chain = Chain {
        family: Family::Inet,
        table: "fw".into(),
        name: "c".into(),
        attached: Some(attached),
        rules: vec![Rule { handle: 4, steps }],
    };
    Ruleset { chains: vec![chain], sets: vec![] }
}

/// A translation whose result is not read.
fn unread(name: &str) -> Expression {
    Expression::Nat(Nat { name: name.into(), change: Change::Unknown })
}

fn dropping() -> Vec<Expression> {
    vec![Expression::Verdict(RuleVerdict::Drop)]
}

const PLACES: [&str; 8] =
    ["h1:eth0", "s1/h1:eth0", "s1/r1:eth0", "r1:eth0", "r1:eth1", "r2:eth0", "r2:eth1", "web:eth0"];

#[test]
fn a_sound_way_has_every_interface_and_no_stop() {
    let mut office = Office::new();
    let found = walk(&mut office, &flow(), None).unwrap();
    let names: Vec<&str> = found.places.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(names, PLACES);
    assert!(found.stops.is_empty() && found.doubts.is_empty() && found.arrives, "{found:#?}");
    assert_eq!(found.nodes, ["h1", "r1", "r2", "web"]);
    let report = office.ask_both(8, 8, Outcome::Answered);
    assert_eq!(report.verdict, Verdict::Answered);
    assert!(report.causes.is_empty() && report.missing.is_empty());
}

#[test]
fn routes_that_are_missing_or_discard_are_named_with_their_mend() {
    let mut office = Office::new();
    office.route_away("r1", "10.2.0.0/24");
    let report = office.ask(4, Outcome::Silence);
    assert_eq!(only(&report), (CauseName::NoRoute, "node r1".into()));
    let mend = "netloom -l t exec r1 -- ip route add 10.2.0.0/24 via 10.1.0.2 dev eth1";
    assert_eq!(report.causes[0].mend.as_deref(), Some(mend));
    assert_eq!(report.there.last.as_deref(), Some("r1:eth0 in"));
    assert_eq!(report.there.lost.as_deref(), Some("r1:eth1 out"));
    for (kind, name) in [
        ("blackhole", CauseName::BlackholeRoute),
        ("prohibit", CauseName::ProhibitRoute),
        ("unreachable", CauseName::UnreachableRoute),
    ] {
        let mut office = Office::new();
        office.discard("r2", "10.2.0.1/32", kind);
        let report = office.ask(6, Outcome::Silence);
        assert_eq!(only(&report), (name, "node r2".into()));
        let mend = format!("netloom -l t exec r2 -- ip route del {kind} 10.2.0.1/32 table main");
        assert_eq!(report.causes[0].mend, Some(mend));
    }
}

#[test]
fn forwarding_and_the_reverse_path_filter_are_told_apart() {
    let mut office = Office::new();
    office.at("r1").interfaces.iter_mut().for_each(|i| i.forwards = false);
    assert_eq!(
        only(&office.ask(4, Outcome::Silence)),
        (CauseName::ForwardingOff, "node r1".into())
    );
    let mut office = Office::new();
    office.at("r2").interfaces[0].rp_filter = 1;
    office.routes.get_mut("r2").unwrap().retain(|route| route.0 != net("10.0.0.0/24"));
    let other = (net("10.0.0.0/24"), Some(ip("10.2.0.1")), "eth1".to_owned(), "unicast");
    office.routes.get_mut("r2").unwrap().push(other);
    let report = office.ask(6, Outcome::Silence);
    assert_eq!(report.causes[0].name, CauseName::ReversePathFilter, "{report:#?}");
    assert_eq!(report.causes[0].basis, Basis::Probe);
    assert!(report.causes[0].evidence[0].contains("rp_filter of r2:eth0 is 1"), "{report:#?}");
}

#[test]
fn a_rule_is_a_cause_only_where_the_probe_was_lost() {
    let mut office = Office::new();
    office.at("r1").rules = Some(rule(dropping(), 2, false));
    let report = office.ask(4, Outcome::Silence);
    assert_eq!(only(&report), (CauseName::NftDrop, "node r1".into()));
    assert_eq!(report.causes[0].evidence[0], "node r1: table inet fw, chain c handle 4: drop");
    // The probe got past it: then it is not a cause, whatever the rule says.
    let report = office.ask(6, Outcome::Silence);
    assert!(report.causes.is_empty(), "{report:#?}");
    assert_eq!(report.verdict, Verdict::NotKnown);
    assert!(report.missing[0].contains("between r2:eth0 and r2:eth1"), "{report:#?}");
}

#[test]
fn two_independent_causes_are_told_as_two() {
    let mut office = Office::new();
    office.at("r1").rules = Some(rule(dropping(), 2, false));
    office.at("web").listeners.clear();
    office.route_away("r2", "10.0.0.0/24");
    let report = office.ask(4, Outcome::Silence);
    let found: Vec<_> = report.causes.iter().map(|c| (c.name, c.basis, c.direction)).collect();
    assert_eq!(
        found,
        [
            (CauseName::NftDrop, Basis::Probe, Direction::There),
            (CauseName::NothingListens, Basis::Facts, Direction::There),
            (CauseName::NoRoute, Basis::Facts, Direction::Back),
        ]
    );
}

#[test]
fn the_answer_s_way_is_a_way_of_its_own() {
    let mut office = Office::new();
    office.route_away("web", "0.0.0.0/0");
    let report = office.ask(8, Outcome::Silence);
    assert_eq!(only(&report), (CauseName::NoRoute, "node web".into()));
    assert_eq!(report.causes[0].direction, Direction::Back);
    let mut office = Office::new();
    office.at("r1").rules = Some(rule(
        vec![
            Expression::Meta { key: 6, to: 1 },
            Expression::Cmp { from: 1, operation: 0, value: b"eth1".to_vec() },
            Expression::Verdict(RuleVerdict::Drop),
        ],
        2,
        false,
    ));
    // Seen at web, r2 twice, and r1 coming in.
    let report = office.ask_both(8, 4, Outcome::Silence);
    assert_eq!(only(&report), (CauseName::NftDrop, "node r1".into()));
    assert_eq!(report.back.as_ref().unwrap().last.as_deref(), Some("r1:eth1 in"));
}

#[test]
fn what_a_receiver_lacks_is_told() {
    let mut office = Office::new();
    office.at("web").listeners[0].local = "127.0.0.1:80".parse().unwrap();
    assert_eq!(
        only(&office.ask(8, Outcome::Refused)),
        (CauseName::ListensElsewhere, "node web".into())
    );
    office.at("web").listeners.clear();
    assert_eq!(
        only(&office.ask(8, Outcome::Refused)),
        (CauseName::NothingListens, "node web".into())
    );
    let mut office = Office::new();
    office.at("web").listeners[0].queue = Some((2, 1));
    assert_eq!(only(&office.ask(8, Outcome::Silence)), (CauseName::BacklogFull, "node web".into()));
    let mut office = Office::new();
    office.at("web").interfaces[0].addresses.clear();
    let report = office.ask(6, Outcome::Silence);
    assert_eq!(only(&report), (CauseName::AddressMissing, "node web".into()));
    let mend = report.causes[0].mend.clone().unwrap();
    assert!(mend.contains("ip addr add 10.2.0.1/24 dev eth0"), "{mend}");
}

#[test]
fn links_interfaces_and_nodes_that_are_down_are_told() {
    let mut office = Office::new();
    office.links.get_mut("l4").unwrap().down = true;
    assert_eq!(only(&office.ask(4, Outcome::Silence)), (CauseName::CableOut, "link l4".into()));
    let mut office = Office::new();
    office.at("r2").interfaces[0].up = false;
    assert_eq!(only(&office.ask(4, Outcome::Silence)).0, CauseName::InterfaceDown);
    let mut office = Office::new();
    office.at("r2").life = Life::Dead;
    assert_eq!(only(&office.ask(4, Outcome::Silence)), (CauseName::NodeDead, "node r2".into()));
    let mut office = Office::new();
    office.at("h1").interfaces[0].up = false;
    let report = office.ask(0, Outcome::Silence);
    assert_eq!(only(&report), (CauseName::InterfaceDown, "node h1".into()));
    let mend = report.causes[0].mend.clone().unwrap();
    assert!(mend.contains("ip link set eth0 up && "), "the route is to come back, too: {mend}");
}

#[test]
fn impairments_count_as_far_as_they_lose_everything_or_say_that_they_lost() {
    let mut office = Office::new();
    let l4 = office.links.get_mut("l4").unwrap();
    l4.wire = Some("running".into());
    l4.impairments[0].insert("loss".into(), "100%".into());
    let report = office.ask(5, Outcome::Silence);
    assert_eq!(only(&report), (CauseName::WireLoss, "link l4".into()));
    let mend = "netloom -l t link set l4 --end a --loss none";
    assert_eq!(report.causes[0].mend.as_deref(), Some(mend));
    let l4 = office.links.get_mut("l4").unwrap();
    l4.impairments[0].insert("loss".into(), "20%".into());
    let report = office.ask_both(8, 8, Outcome::Answered);
    assert_eq!(report.hindrances[0].name, CauseName::WirePartialLoss);
    assert_eq!(report.verdict, Verdict::Answered);
    let report = office.ask(5, Outcome::Silence);
    assert!(report.causes.is_empty(), "the link does not say that it lost anything: {report:#?}");
    office.links.get_mut("l4").unwrap().wire = Some("is started again".into());
    assert_eq!(only(&office.ask(5, Outcome::Silence)).0, CauseName::WireStopped);
}

#[test]
fn a_wrong_next_hop_is_the_cause_and_not_what_its_victim_does() {
    let mut office = Office::new();
    office.route_away("h1", "0.0.0.0/0");
    let to_h2 = (net("0.0.0.0/0"), Some(ip("10.0.0.2")), "eth0".to_owned(), "unicast");
    office.routes.get_mut("h1").unwrap().push(to_h2);
    let report = office.ask(4, Outcome::Silence);
    assert_eq!(report.causes[0].name, CauseName::WrongGateway, "{report:#?}");
    assert_eq!(report.causes[0].place, "node h1");
    let mend = "netloom -l t exec h1 -- ip route replace 0.0.0.0/0 via 10.0.0.254 dev eth0";
    assert_eq!(report.causes[0].mend.as_deref(), Some(mend));
    let mut office = Office::new();
    office.route_away("h1", "0.0.0.0/0");
    let to_nobody = (net("0.0.0.0/0"), Some(ip("10.0.0.99")), "eth0".to_owned(), "unicast");
    office.routes.get_mut("h1").unwrap().push(to_nobody);
    let report = office.ask(1, Outcome::Silence);
    assert_eq!(report.causes[0].name, CauseName::WrongGateway, "{report:#?}");
}

#[test]
fn circles_and_small_times_to_live_end() {
    let mut office = Office::new();
    office.route_away("r2", "10.2.0.0/24");
    let back = (net("10.2.0.0/24"), Some(ip("10.1.0.1")), "eth0".to_owned(), "unicast");
    office.routes.get_mut("r2").unwrap().push(back);
    let report = office.ask(6, Outcome::Silence);
    assert!(
        matches!(report.causes[0].name, CauseName::RoutingLoop | CauseName::WrongGateway),
        "{report:#?}"
    );
    let mut office = Office::new();
    office.at("h1").ttl = Some(1);
    assert_eq!(only(&office.ask(4, Outcome::Silence)), (CauseName::TtlEnded, "node r1".into()));
}

#[test]
fn ports_of_a_switch_are_compared() {
    let access = |number| VlanMode::Access(Vid::new(number).unwrap());
    let port = |port: &str, number, macs| PortRules {
        port: port.into(),
        vlan: access(number),
        planned: access(number),
        macs,
    };
    let mut office = Office::new();
    office.kind = "shm";
    office.ports = Some([port("h1:eth0", 7, vec![]), port("r1:eth0", 8, vec![])]);
    let report = office.ask(1, Outcome::Silence);
    assert_eq!(report.causes[0].name, CauseName::VlanMismatch, "{report:#?}");
    let mend = "netloom -l t switch vlan s1 r1:eth0 access 7";
    assert_eq!(report.causes[0].mend.as_deref(), Some(mend));
    // The answer would be stopped by the same, whose mend would be the opposite.
    assert_eq!(report.causes.len(), 1, "{report:#?}");
    // A change by hand is taken back, wherever it is.
    let planned = access(8);
    let moved = PortRules { planned, ..port("h1:eth0", 7, vec![]) };
    office.ports = Some([moved, port("r1:eth0", 8, vec![])]);
    let report = office.ask(1, Outcome::Silence);
    let mend = "netloom -l t switch vlan s1 h1:eth0 access 8";
    assert_eq!(report.causes[0].mend.as_deref(), Some(mend));
    assert!(report.causes[0].evidence[2].contains("the lab's file has port h1:eth0 as access 8"));
    // A station takes no tags; a customer's port is left as it is.
    let all = || VlanMode::Trunk { native: None, allowed: "all".parse().unwrap() };
    let trunk = PortRules { vlan: all(), planned: all(), ..port("r1:eth0", 1, vec![]) };
    office.ports = Some([port("h1:eth0", 7, vec![]), trunk]);
    let report = office.ask(1, Outcome::Silence);
    assert!(report.causes[0].text.contains("a tag of VLAN 7"), "{report:#?}");
    let mend = "netloom -l t switch vlan s1 r1:eth0 trunk all --native 7";
    assert_eq!(report.causes[0].mend.as_deref(), Some(mend));
    let customer = |number| VlanMode::Qinq {
        vid: Vid::new(number).unwrap(),
        cvlans: None,
        tpid: netloom_bridge::Tpid::SERVICE,
    };
    let [one, other] = [("h1:eth0", 7), ("r1:eth0", 8)].map(|(name, number)| PortRules {
        vlan: customer(number),
        planned: customer(number),
        ..port(name, 1, vec![])
    });
    office.ports = Some([one, other]);
    let report = office.ask(1, Outcome::Silence);
    assert_eq!((report.causes[0].name, &report.causes[0].mend), (CauseName::VlanMismatch, &None));
    office.ports = Some([port("h1:eth0", 1, vec![[2, 0, 0, 0, 0, 9]]), port("r1:eth0", 1, vec![])]);
    let report = office.ask(1, Outcome::Silence);
    assert_eq!(report.causes[0].name, CauseName::AddressLocked, "{report:#?}");
}

#[test]
fn smaller_mtus_hinder() {
    let mut office = Office::new();
    office.at("r1").interfaces[1].mtu = 500;
    office.at("r2").interfaces[0].mtu = 500;
    let report = office.ask_both(8, 8, Outcome::Answered);
    let found: Vec<_> = report.hindrances.iter().map(|h| (h.name, h.place.as_str())).collect();
    assert_eq!(found[0], (CauseName::MtuTooSmall, "node r1"), "{report:#?}");
    assert!(report.causes.is_empty());
    let mend = "netloom -l t exec r1 -- ip link set eth1 mtu 1500";
    assert_eq!(report.hindrances[0].mend.as_deref(), Some(mend), "{report:#?}");
    // A link that has it from the file, and an interface that somebody made, keep theirs.
    office.at("r1").planned[1].mtu = 500;
    let report = office.ask_both(8, 8, Outcome::Answered);
    assert_eq!(report.hindrances[0].mend, None, "{report:#?}");
    office.at("r1").planned.remove(1);
    let report = office.ask_both(8, 8, Outcome::Answered);
    assert_eq!(report.hindrances[0].mend, None, "{report:#?}");
}

#[test]
fn an_end_without_any_address_is_named() {
    let mut node = Node { name: "pc1".into(), ..Node::default() };
    node.interfaces.push(Interface {
        name: "eth0".into(),
        up: true,
        carrier: true,
        ..Interface::default()
    });
    node.listeners.push(Listener {
        protocol: 17,
        local: "0.0.0.0:68".parse().unwrap(),
        device: None,
        six_only: false,
        queue: None,
        room: None,
        inode: 0,
    });
    let what = (Protocol::Tcp, Some(80));
    let report = crate::without_address(["pc1", "srv"], what, "IPv4 or IPv6", &[&node]);
    assert_eq!(only(&report), (CauseName::AddressMissing, "node pc1".into()));
    let evidence = &report.causes[0].evidence;
    assert_eq!(evidence[0], "pc1:eth0 is up, and has no address");
    assert!(evidence[1].contains("DHCP client"), "{evidence:?}");
    assert!(
        crate::text(&report).starts_with("pc1 -> srv, tcp 80, from no address to an address: ")
    );
}

#[test]
fn a_fixed_neighbour_with_a_wrong_address_is_told() {
    let mut office = Office::new();
    let wrong = Neighbour { interface: 3, address: ip("10.1.0.2"), mac: [2, 9, 9, 9, 9, 9] };
    office.at("r1").neighbours.push(wrong);
    let report = office.ask(5, Outcome::Silence);
    assert_eq!(only(&report), (CauseName::NeighbourWrong, "node r1".into()));
}

#[test]
fn a_martian_source_is_told() {
    let mut office = Office::new();
    office.at("r2").interfaces[1].addresses.push(net("10.0.0.1/32"));
    let report = office.ask(6, Outcome::Silence);
    assert_eq!(report.causes[0].name, CauseName::MartianSource, "{report:#?}");
}

#[test]
fn a_forwarded_packet_has_the_interface_by_which_it_came_until_it_leaves() {
    let mut name = b"eth0".to_vec();
    name.resize(16, 0);
    let others = vec![
        Expression::Meta { key: 6, to: 1 },
        Expression::Cmp { from: 1, operation: 1, value: name },
        Expression::Verdict(RuleVerdict::Drop),
    ];
    let mut office = Office::new();
    office.at("r1").rules = Some(rule(others, 4, false));
    let found = walk(&mut office, &flow(), None).unwrap();
    assert!(found.stops.is_empty(), "{found:#?}");
}

#[test]
fn a_listener_at_an_address_of_ipv4_by_a_socket_of_ipv6_takes() {
    let mut office = Office::new();
    office.at("web").listeners[0].local = "[::ffff:10.2.0.1]:80".parse().unwrap();
    let found = walk(&mut office, &flow(), None).unwrap();
    assert!(found.stops.is_empty(), "{found:#?}");
}

#[test]
fn listeners_do_not_count_where_packets_may_have_another_port() {
    let mut office = Office::new();
    office.at("web").listeners.clear();
    office.at("web").rules = Some(rule(vec![unread("redir")], 0, false));
    let found = walk(&mut office, &flow(), None).unwrap();
    assert!(found.stops.is_empty() && found.doubts.len() == 1, "{found:#?}");
    office.at("web").rules = Some(rule(vec![unread("masq")], 1, false));
    let found = walk(&mut office, &flow(), None).unwrap();
    assert_eq!(found.stops[0].cause.name, CauseName::NothingListens);
}

#[test]
fn what_rests_on_addresses_that_may_be_others_is_a_doubt() {
    let mut office = Office::new();
    office.at("r1").rules = Some(rule(vec![unread("nat")], 0, false));
    office.at("r2").rules = Some(rule(dropping(), 2, false));
    let found = walk(&mut office, &flow(), None).unwrap();
    assert!(found.stops.is_empty(), "{found:#?}");
    assert!(found.doubts.iter().any(|doubt| doubt.text.contains("node r2 drops")), "{found:#?}");
    // Before the rule all is certain.
    office.at("h1").rules = Some(rule(dropping(), 3, false));
    let found = walk(&mut office, &flow(), None).unwrap();
    assert_eq!(found.stops.len(), 1, "{found:#?}");
    assert_eq!(found.stops[0].cause.place, "node h1");
}

#[test]
fn an_answer_to_other_addresses_is_certain_from_the_translating_node_on() {
    let mut office = Office::new();
    office.at("r2").rules = Some(rule(vec![unread("masq")], 4, false));
    office.at("web").rules = Some(rule(dropping(), 3, false));
    office.at("r1").rules = Some(rule(dropping(), 2, false));
    let there = walk(&mut office, &flow(), None).unwrap();
    assert_eq!(there.translated_by.as_deref(), Some("r2"));
    office.at("r2").rules = None;
    let back = walk(&mut office, &there.answer(&flow()), Some(&there)).unwrap();
    assert_eq!(back.stops.len(), 2, "{back:#?}");
    let back = back.answering(&there);
    assert_eq!(back.stops.len(), 1, "{back:#?}");
    assert_eq!(back.stops[0].cause.place, "node r1");
}

/// Questions for hardware addresses were seen at the last of `question` places, the packet at `packet`.
fn unresolved(office: &mut Office, packet: usize, question: usize) -> Report {
    let flow = flow();
    let there = walk(office, &flow, None).unwrap();
    let back = walk(office, &there.answer(&flow), Some(&there)).unwrap();
    let seen = (0..there.places.len()).map(|at| match at {
        at if at < packet => Sighting::Packet,
        at if at < question => Sighting::Resolution,
        _ => Sighting::Nothing,
    });
    let nothing = back.places.iter().map(|_| Sighting::Nothing).collect();
    let observed = Observed { there: seen.collect(), back: nothing, ..Observed::default() };
    judge(&flow, &there, &back, &observed)
}

#[test]
fn entries_of_an_openflow_switch_are_named_by_their_text() {
    let mut office = Office::new();
    office.kind = "openflow";
    let dropped = Traced {
        entry: Some("priority=7,tcp,tp_dst=80,actions=drop".into()),
        drops: vec!["nothing says where to send it".into()],
        ..Traced::default()
    };
    let passes = Traced { passes: true, ..Traced::default() };
    office.traced =
        vec![(false, "l1", dropped.clone()), (true, "l1", passes.clone()), (true, "l3", passes)];
    // The question for the router's address came through, and the packet did not.
    let report = office.ask(2, Outcome::Silence);
    assert_eq!(only(&report), (CauseName::FlowEntry, "switch s1".into()));
    let mend = "netloom -l t flow del s1 --strict priority=7,tcp,tp_dst=80";
    assert_eq!(report.causes[0].mend.as_deref(), Some(mend));
    // The same entry is not to blame where the packet got past it.
    assert!(office.ask(4, Outcome::Silence).causes.is_empty());
    // Without a controller, and without an entry.
    let away = vec!["tcp:10.0.0.9:6653 is not connected".to_owned()];
    let missed = Traced { away, drops: vec!["no controller takes it".into()], ..Traced::default() };
    office.traced =
        vec![(false, "l1", missed.clone()), (true, "l1", missed.clone()), (true, "l3", missed)];
    let report = unresolved(&mut office, 0, 2);
    assert_eq!(only(&report), (CauseName::NoController, "switch s1".into()));
    // A meter may take some.
    let metered = Traced { passes: true, meters: vec![3], ..Traced::default() };
    office.traced = vec![(false, "l1", metered)];
    let report = office.ask_both(8, 8, Outcome::Answered);
    assert_eq!(report.hindrances[0].name, CauseName::FlowMeter);
    // A switch that does not tell is a doubt.
    office.traced.clear();
    let report = office.ask(2, Outcome::Silence);
    assert!(
        report.causes.is_empty() && report.missing.iter().any(|m| m.contains("does not say")),
        "{report:#?}"
    );
}

#[test]
fn a_neighbour_that_does_not_answer_is_told_from_one_that_is_not_heard() {
    let drop_all = |hook: u32| Ruleset {
        chains: vec![Chain {
            family: Family::Other(3),
            ..rule(dropping(), hook, false).chains.remove(0)
        }],
        sets: vec![],
    };
    let asked = 6;
    let mut office = Office::new();
    office.at("r2").interfaces[0].arp_ignore = 8;
    assert_eq!(
        only(&unresolved(&mut office, 4, asked)),
        (CauseName::NeighbourSilent, "node r2".into())
    );
    // Where the packet left, the question had been answered.
    assert!(office.ask(5, Outcome::Silence).causes.is_empty());
    let mut office = Office::new();
    office.at("r2").rules = Some(drop_all(0));
    let report = unresolved(&mut office, 4, asked);
    assert_eq!(only(&report), (CauseName::NftDrop, "node r2".into()));
    assert!(report.causes[0].text.contains("arp input"), "{report:#?}");
    let mut office = Office::new();
    office.at("r1").interfaces[1].bridge = Some("br0".into());
    let report = unresolved(&mut office, 4, asked);
    assert_eq!(only(&report), (CauseName::InterfaceEnslaved, "node r1".into()));
}

#[test]
fn an_address_that_two_have_is_told_by_what_was_learnt() {
    let mut office = Office::new();
    office.kind = "shm";
    office.at("h2").interfaces[0].addresses.push(net("10.0.0.254/24"));
    let mac = office.nodes["h2"].interfaces[0].mac.unwrap();
    let heard = Neighbour { interface: 2, address: ip("10.0.0.254"), mac };
    office.at("h1").heard.push(heard);
    // The station that has it by the plan stands behind in the list of this imitation.
    office.at("h2").planned.clear();
    let report = office.ask(1, Outcome::Silence);
    assert!(report.causes.iter().all(|cause| cause.place != "node r1"), "{report:#?}");
}

#[test]
fn queues_and_buffers_without_room_are_told() {
    let mut office = Office::new();
    let queue = Discipline { kind: "tbf".into(), waiting: 3, dropped: 9 };
    office.at("r1").interfaces[1].queue = Some(queue);
    assert_eq!(only(&office.ask(4, Outcome::Silence)), (CauseName::QueueDrops, "node r1".into()));
    let report = office.ask_both(8, 8, Outcome::Answered);
    assert!(report.causes.is_empty(), "what waits is not the probe: {report:#?}");
    assert_eq!(report.hindrances[0].name, CauseName::QueueDrops);
    let mut office = Office::new();
    let local = "0.0.0.0:53".parse().unwrap();
    let full = Listener {
        protocol: 17,
        local,
        device: None,
        six_only: false,
        queue: None,
        room: Some((2300, 2304, 4)),
        inode: 0,
    };
    office.at("web").listeners.push(full);
    let flow = Flow { protocol: Protocol::Udp, ports: [40_000, 53], ..flow() };
    let found = walk(&mut office, &flow, None).unwrap();
    assert_eq!(found.stops[0].cause.name, CauseName::BufferFull);
    office.at("web").listeners[1].room = Some((2300, 212_992, 4));
    assert!(walk(&mut office, &flow, None).unwrap().stops.is_empty());
}

#[test]
fn rates_that_lost_and_long_delays_hinder() {
    let mut office = Office::new();
    let l4 = office.links.get_mut("l4").unwrap();
    l4.wire = Some("running".into());
    l4.impairments[0].insert("rate".into(), "20kbit".into());
    l4.impairments[0].insert("delay".into(), "1s".into());
    let names = |report: &Report| report.hindrances.iter().map(|h| h.name).collect::<Vec<_>>();
    assert_eq!(names(&office.ask_both(8, 8, Outcome::Answered)), [CauseName::WireDelay]);
    let l4 = office.links.get_mut("l4").unwrap();
    l4.impairments[0].insert("delay".into(), "20ms".into());
    l4.lost[0].insert("queue".into(), 4);
    assert_eq!(names(&office.ask_both(8, 8, Outcome::Answered)), [CauseName::WireRate]);
}

/// r1 and r2 learn their routes; r1 has lost the one to web.
fn learning() -> Office {
    let mut office = Office::new();
    office.route_away("r1", "10.2.0.0/24");
    for router in ["r1", "r2"] {
        office.at(router).planned_routes.clear();
        let listens = Listener {
            protocol: 6,
            local: "0.0.0.0:179".parse().unwrap(),
            device: None,
            six_only: false,
            queue: None,
            room: None,
            inode: 0,
        };
        office.at(router).listeners.push(listens);
        let interface =
            |name: &str| OspfInterface { name: name.into(), ..OspfInterface::default() };
        let speaks = vec![interface(if router == "r1" { "eth1" } else { "eth0" })];
        office.daemons.push((router.into(), Daemons { ospf: true, speaks, ..Daemons::default() }));
    }
    office
}

#[test]
fn a_route_that_was_not_learnt_leads_to_its_daemon_its_adjacency_or_its_session() {
    let mut office = learning();
    office.daemons[1].1.ended.push("zebra".into());
    assert_eq!(only(&office.ask(4, Outcome::Silence)), (CauseName::DaemonEnded, "node r2".into()));
    // Both speak.
    let mut office = learning();
    assert_eq!(only(&office.ask(4, Outcome::Silence)).0, CauseName::OspfAdjacency);
    // A link that loses all is the cause, either way, and one that loses some is not known to be.
    let l4 = office.links.get_mut("l4").unwrap();
    l4.impairments[1].insert("loss".into(), "100%".into());
    assert_eq!(only(&office.ask(4, Outcome::Silence)), (CauseName::WireLoss, "link l4".into()));
    let l4 = office.links.get_mut("l4").unwrap();
    l4.impairments[1].insert("loss".into(), "20%".into());
    assert_eq!(only(&office.ask(4, Outcome::Silence)).0, CauseName::OspfAdjacency);
    // A rule keeps it away, which is then the cause.
    let of_ospf = vec![
        Expression::Meta { key: 16, to: 1 },
        Expression::Cmp { from: 1, operation: 0, value: vec![89] },
        Expression::Verdict(RuleVerdict::Drop),
    ];
    office.at("r2").rules = Some(rule(of_ospf, 1, false));
    assert_eq!(only(&office.ask(4, Outcome::Silence)), (CauseName::NftDrop, "node r2".into()));
    // One does not speak.
    let mut office = learning();
    office.daemons[1].1.speaks.clear();
    assert_eq!(only(&office.ask(4, Outcome::Silence)), (CauseName::OspfSilent, "node r2".into()));
    // Adjacent, and the session between them is closed.
    let mut office = learning();
    for (at, peer, numbers) in [(0, "10.1.0.2", [1, 2]), (1, "10.1.0.1", [3, 1])] {
        office.daemons[at].1.speaks[0].states.push("Full/-".into());
        let reason = Some("OPEN Message Error/Bad Peer AS".to_owned());
        let session = Session {
            peer: ip(peer),
            numbers,
            state: "Idle".into(),
            reason,
            limit: None,
            filters: vec![],
        };
        office.daemons[at].1.sessions.push(session);
    }
    let report = office.ask(4, Outcome::Silence);
    assert_eq!(only(&report), (CauseName::BgpSession, "node r1".into()));
    let evidence = report.causes[0].evidence.join("; ");
    assert!(
        evidence.contains("Bad Peer AS") && evidence.contains("expects AS 2; node r2 is AS 3"),
        "{evidence}"
    );
    // Another session of both, for IPv6, is not its other end.
    office.at("r1").interfaces[1].addresses.push(net("fd00::1/64"));
    let six = Session {
        peer: ip("fd00::1"),
        numbers: [2, 1],
        state: "Established".into(),
        reason: None,
        limit: None,
        filters: vec![],
    };
    office.daemons[1].1.sessions.insert(0, six);
    let evidence = office.ask(4, Outcome::Silence).causes[0].evidence.join("; ");
    assert!(evidence.contains("expects AS 2; node r2 is AS 3"), "{evidence}");
    // Its packets are dropped: then that is the cause.
    office.at("r2").rules = Some(rule(dropping(), 1, false));
    assert_eq!(only(&office.ask(4, Outcome::Silence)), (CauseName::NftDrop, "node r2".into()));
    // Daemons that say nothing wrong leave a route that is missing.
    let mut office = learning();
    office.daemons.iter_mut().for_each(|(_, d)| d.speaks[0].states.push("Full/DR".into()));
    assert_eq!(only(&office.ask(4, Outcome::Silence)), (CauseName::NoRoute, "node r1".into()));
}

#[test]
fn name_servers_that_are_nowhere_or_silent_hinder() {
    let mut office = Office::new();
    office.at("h1").resolvers = vec![ip("10.2.0.77"), ip("10.2.0.1"), ip("127.0.0.53")];
    let report = office.ask_both(8, 8, Outcome::Answered);
    let told: Vec<_> = report.hindrances.iter().map(|h| (h.name, h.evidence[0].clone())).collect();
    assert_eq!(told.len(), 2, "{report:#?}");
    assert_eq!(told[0].0, CauseName::WrongResolver);
    assert!(told[0].1.contains("10.2.0.77, which no node"), "{told:?}");
    office.at("h1").resolvers.remove(0);
    let report = office.ask_both(8, 8, Outcome::Answered);
    assert!(
        report.hindrances[0].evidence[0].contains("node web, where nothing takes udp"),
        "{report:#?}"
    );
    let local = "0.0.0.0:53".parse().unwrap();
    office.at("web").listeners.push(Listener {
        protocol: 17,
        local,
        device: None,
        six_only: false,
        queue: None,
        room: None,
        inode: 0,
    });
    assert!(office.ask_both(8, 8, Outcome::Answered).hindrances.is_empty());
}

#[test]
fn budgets_hinder_and_a_full_table_of_connections_stops() {
    let mut office = Office::new();
    office.at("r1").budget = Some((7, "1 packets a second".into()));
    let report = office.ask_both(8, 8, Outcome::Answered);
    assert_eq!(report.hindrances[0].name, CauseName::ProtectBudget);
    office.at("r1").budget = Some((0, "1 packets a second".into()));
    office.at("r1").tracked = Some((4, 4));
    assert_eq!(
        only(&office.ask(4, Outcome::Silence)),
        (CauseName::ConntrackFull, "node r1".into())
    );
    office.at("r1").tracked = Some((3, 4));
    assert!(office.ask(4, Outcome::Silence).causes.is_empty());
}

#[test]
fn a_setting_of_one_interface_is_told_from_that_of_all() {
    let mut office = Office::new();
    office.at("r1").interfaces[0].forwards = false;
    let report = office.ask(4, Outcome::Silence);
    assert_eq!(only(&report), (CauseName::ForwardingOff, "node r1".into()));
    let mend = "netloom -l t exec r1 -- sysctl -w net.ipv4.conf.eth0.forwarding=1";
    assert_eq!(report.causes[0].mend.as_deref(), Some(mend));
    assert!(report.causes[0].evidence[0].contains("conf.eth0.forwarding"), "{report:#?}");
}

#[test]
fn a_route_that_hides_the_plan_s_is_removed_and_not_replaced() {
    let mut office = Office::new();
    let hides = (net("10.2.0.1/32"), Some(ip("10.1.0.99")), "eth1".to_owned(), "unicast");
    office.routes.get_mut("r1").unwrap().push(hides);
    let report = office.ask(5, Outcome::Silence);
    assert_eq!(only(&report), (CauseName::WrongGateway, "node r1".into()));
    let mend = "netloom -l t exec r1 -- ip route del 10.2.0.1/32 table main";
    assert_eq!(report.causes[0].mend.as_deref(), Some(mend));
}

#[test]
fn a_throw_route_and_a_segment_without_its_route_are_named() {
    let mut office = Office::new();
    office.route_away("r1", "10.2.0.0/24");
    office.discard("r1", "10.2.0.1/32", "throw");
    let report = office.ask(4, Outcome::Silence);
    assert_eq!(only(&report), (CauseName::NoRoute, "node r1".into()));
    let mend = "netloom -l t exec r1 -- ip route del throw 10.2.0.1/32 table main";
    assert_eq!(report.causes[0].mend.as_deref(), Some(mend));
    let mut office = Office::new();
    office.route_away("r2", "10.2.0.0/24");
    let report = office.ask(6, Outcome::Silence);
    assert_eq!(only(&report), (CauseName::NoRoute, "node r2".into()));
    let mend = "netloom -l t exec r2 -- ip route add 10.2.0.0/24 dev eth1 src 10.2.0.254";
    assert_eq!(report.causes[0].mend.as_deref(), Some(mend));
}

#[test]
fn rules_that_refuse_count_only_if_they_may_take_the_flow() {
    let refused = |rule: &str| {
        let mut office = Office::new();
        office.route_away("r1", "10.2.0.0/24");
        office.at("r1").refusing_rules = vec![rule.to_owned()];
        office.ask(4, Outcome::Silence).causes[0].name
    };
    for rule in [
        "9: from all unreachable",
        "9: from 10.0.0.1/32 unreachable",
        "9: from all to 10.2.0.0/24 iif eth0 unreachable",
    ] {
        assert_eq!(refused(rule), CauseName::RefusingRule, "{rule}");
    }
    for rule in [
        "9: from 10.0.0.2/32 unreachable",
        "9: from all to 10.3.0.0/24 unreachable",
        "9: from all iif eth1 unreachable",
        "9: from all fwmark 0x1 unreachable",
        "9: not from all unreachable",
        "9: from all prohibit",
    ] {
        assert_eq!(refused(rule), CauseName::NoRoute, "{rule}");
    }
}

#[test]
fn an_interface_without_arp_neither_asks_nor_answers() {
    let mut office = Office::new();
    office.at("r2").interfaces[0].no_arp = true;
    let report = unresolved(&mut office, 4, 6);
    assert_eq!(only(&report), (CauseName::NeighbourSilent, "node r2".into()));
    let mend = "netloom -l t exec r2 -- ip link set eth0 arp on";
    assert_eq!(report.causes[0].mend.as_deref(), Some(mend));
    // Who does not ask sends to nobody: the packet leaves, and does not come in.
    let mut office = Office::new();
    office.at("r1").interfaces[1].no_arp = true;
    let report = office.ask(5, Outcome::Silence);
    assert_eq!(only(&report), (CauseName::NeighbourSilent, "node r1".into()));
}

#[test]
fn sockets_of_one_family_or_one_interface_listen_elsewhere() {
    let mut office = Office::new();
    office.at("web").listeners[0].local = "[::]:80".parse().unwrap();
    assert!(walk(&mut office, &flow(), None).unwrap().stops.is_empty());
    office.at("web").listeners[0].six_only = true;
    let found = walk(&mut office, &flow(), None).unwrap();
    assert_eq!(found.stops[0].cause.name, CauseName::ListensElsewhere);
    assert!(found.stops[0].cause.evidence[0].contains("[::]:80 (IPv6 only)"), "{found:#?}");
    let mut office = Office::new();
    office.at("web").listeners[0].device = Some(4711);
    let found = walk(&mut office, &flow(), None).unwrap();
    assert_eq!(found.stops[0].cause.name, CauseName::ListensElsewhere);
    let own = office.at("web").interfaces[0].index;
    office.at("web").listeners[0].device = Some(own);
    assert!(walk(&mut office, &flow(), None).unwrap().stops.is_empty());
}

#[test]
fn a_source_that_the_plan_does_not_give_is_the_cause_of_its_missing_way_back() {
    let mut office = Office::new();
    office.at("h1").interfaces[0].addresses.push(net("192.0.2.5/32"));
    let flow = Flow { source: ip("192.0.2.5"), ..flow() };
    let back = walk(&mut office, &flow.back(), None).unwrap();
    let found = back.stops.iter().find(|stop| stop.cause.name == CauseName::WrongAddress);
    let cause = &found.expect("a wrong address").cause;
    assert_eq!(cause.place, "node h1", "{back:#?}");
    let mend = "netloom -l t exec h1 -- ip route replace 0.0.0.0/0 via 10.0.0.254 dev eth0";
    assert_eq!(cause.mend.as_deref(), Some(mend));
}

#[test]
fn an_address_of_a_family_that_is_off_needs_the_family_first() {
    let office = Office::new();
    let mut web = office.nodes["web"].clone();
    web.planned[0].addresses.push(net("fd00::1/64"));
    web.interfaces[0].ipv6_off = true;
    let flow = flow();
    let mut office = office;
    let walker = Walker::new(&mut office, &flow, None, true);
    let cause = walker.lacks_address(&web, &web.planned[0], ip("fd00::1"));
    let mend = "netloom -l t exec web -- sysctl -w net.ipv6.conf.eth0.disable_ipv6=0 \
                && netloom -l t exec web -- ip addr add fd00::1/64 dev eth0";
    assert_eq!(cause.mend.as_deref(), Some(mend));
}

#[test]
fn a_rule_that_depends_on_a_mark_is_a_doubt() {
    let mut office = Office::new();
    office.at("r1").marked_rules = vec!["9: from all fwmark 0x1 lookup 100".into()];
    let report = office.ask(4, Outcome::Silence);
    assert_eq!(report.verdict, Verdict::NotKnown, "{report:#?}");
    assert!(report.missing.iter().any(|text| text.contains("fwmark 0x1")), "{report:#?}");
}

#[test]
fn a_bridge_in_a_node_is_a_doubt_and_no_wrong_address() {
    let mut office = Office::new();
    // Nobody of the segment has what it is asked for, and h1's own address is of no plan.
    let h1 = office.at("h1");
    h1.planned[0].addresses.clear();
    h1.interfaces[0].addresses = vec![net("10.0.0.2/8")];
    let r1 = office.at("r1");
    r1.planned[0].addresses.clear();
    r1.interfaces[0].addresses.clear();
    r1.interfaces[0].bridge = Some("br0".into());
    office.routes.insert("h1".into(), vec![]);
    let report = office.ask(1, Outcome::Silence);
    assert!(report.causes.iter().all(|cause| cause.place != "node h1"), "{report:#?}");
    assert_eq!(report.verdict, Verdict::NotKnown);
    let said = report.missing.iter().any(|text| text.contains("r1:eth0 is a port of bridge br0"));
    assert!(said, "{report:#?}");
}

/// ospfd does not tell of interfaces that are down or have no carrier.
#[test]
fn a_link_that_is_down_between_routers_that_learn_is_the_cause() {
    let severed = |daemons: &mut Vec<(String, Daemons)>| {
        daemons.iter_mut().for_each(|(_, daemons)| daemons.speaks.clear());
    };
    let mut office = learning();
    severed(&mut office.daemons);
    office.at("r2").interfaces[0].up = false;
    let report = office.ask(4, Outcome::Silence);
    assert_eq!(only(&report), (CauseName::InterfaceDown, "node r2".into()));
    let mut office = learning();
    severed(&mut office.daemons);
    office.links.get_mut("l4").unwrap().down = true;
    let report = office.ask(4, Outcome::Silence);
    assert_eq!(only(&report), (CauseName::CableOut, "link l4".into()));
}

#[test]
fn a_wrong_prefix_is_the_cause_and_is_mended_before_routes() {
    let wrong = "netloom -l t exec r1 -- ip addr add 10.0.0.254/24 dev eth0 && \
                 netloom -l t exec r1 -- ip addr del 10.0.0.254/30 dev eth0";
    let broken = || {
        let mut office = Office::new();
        office.at("r1").interfaces[0].addresses = vec![net("10.0.0.254/30")];
        office.route_away("r1", "10.0.0.0/24");
        office
    };
    let told = |report: &Report| {
        let cause = report.causes.iter().find(|cause| cause.place == "node r1");
        let cause = cause.unwrap_or_else(|| panic!("{report:#?}"));
        assert_eq!(cause.name, CauseName::WrongAddress, "{report:#?}");
        assert!(cause.mend.as_ref().unwrap().starts_with(wrong), "{report:#?}");
    };
    told(&broken().ask_both(8, 4, Outcome::Silence));
    // With a default route the answer leaves by another interface: nothing is wrong with that route.
    let mut office = broken();
    let all = (net("0.0.0.0/0"), Some(ip("10.1.0.2")), "eth1".to_owned(), "unicast");
    office.routes.get_mut("r1").unwrap().push(all);
    told(&office.ask_both(8, 4, Outcome::Silence));
    // A host whose gateway is outside of its segment then.
    let mut office = Office::new();
    office.at("h1").interfaces[0].addresses = vec![net("10.0.0.1/32")];
    office.routes.insert("h1".into(), vec![]);
    let report = office.ask(0, Outcome::Silence);
    assert_eq!(only(&report), (CauseName::WrongAddress, "node h1".into()));
    let mend = report.causes[0].mend.as_deref().unwrap();
    let commands: Vec<&str> = mend.split(" && ").collect();
    assert!(commands[0].ends_with("ip addr add 10.0.0.1/24 dev eth0"), "{mend}");
    assert!(commands[1].ends_with("ip addr del 10.0.0.1/32 dev eth0"), "{mend}");
    assert!(commands[2].ends_with("ip route add 0.0.0.0/0 via 10.0.0.254 dev eth0"), "{mend}");
}
