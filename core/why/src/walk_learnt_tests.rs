//! Routes that BGP does not tell, does not take, or cannot use; ends of OSPF that differ; addresses that moved; programs that
//! are stopped.

use super::*;

/// Both routers are adjacent and have a session; r2 has a route to web, and r1 has none.
fn established() -> Office {
    let mut office = learning();
    for (at, peer, numbers) in [(0, "10.1.0.2", [1, 2]), (1, "10.1.0.1", [2, 1])] {
        office.daemons[at].1.speaks[0].states.push("Full/-".into());
        let session = Session {
            peer: ip(peer),
            numbers,
            state: "Established".into(),
            reason: None,
            limit: None,
            filters: vec![],
        };
        office.daemons[at].1.sessions.push(session);
    }
    office
}

fn told(told_to: &[&str]) -> BgpRoute {
    let told_to = told_to.iter().map(|peer| ip(peer)).collect();
    BgpRoute { prefix: Some(net("10.2.0.0/24")), told_to, unreachable: vec![] }
}

fn mend(report: &Report) -> &str {
    report.causes[0].mend.as_deref().unwrap_or_default()
}

#[test]
fn a_route_is_named_where_bgp_keeps_it() {
    let mut office = established();
    // Daemons that do not answer explain nothing.
    assert_eq!(only(&office.ask(4, Outcome::Silence)).0, CauseName::NoRoute);
    office.bgp = BTreeMap::from([("r2", BgpRoute::default()), ("r1", BgpRoute::default())]);
    let not_told = (CauseName::RouteNotAdvertised, "node r2".to_owned());
    assert_eq!(only(&office.ask(4, Outcome::Silence)), not_told);
    // Its BGP has it: a filter keeps it.
    office.bgp.insert("r2", told(&[]));
    let filter = |out, kind| PolicyFilter { out, kind, name: "no".into() };
    office.daemons[1].1.sessions[0].filters =
        vec![filter(false, "route-map"), filter(true, "prefix-list")];
    let report = office.ask(4, Outcome::Silence);
    assert_eq!(only(&report), not_told);
    assert!(mend(&report).contains("-c 'router bgp 2'"), "{report:#?}");
    assert!(mend(&report).ends_with("-c 'no neighbor 10.1.0.1 prefix-list no out'"), "{report:#?}");
    // Told, and not taken.
    office.bgp.insert("r2", told(&["10.1.0.1"]));
    office.daemons[0].1.sessions[0].filters = vec![filter(false, "route-map")];
    let report = office.ask(4, Outcome::Silence);
    assert_eq!(only(&report), (CauseName::RouteNotAccepted, "node r1".into()));
    assert!(mend(&report).ends_with("-c 'no neighbor 10.1.0.2 route-map no in'"), "{report:#?}");
    // Taken, and of no use.
    office.bgp.insert("r1", BgpRoute { unreachable: vec![ip("10.9.9.9")], ..told(&[]) });
    let report = office.ask(4, Outcome::Silence);
    assert_eq!(only(&report), (CauseName::NextHopUnreachable, "node r1".into()));
}

#[test]
fn ends_of_ospf_that_differ_say_in_what() {
    let mut office = learning();
    let settings = |hello: &str, area: &str| {
        BTreeMap::from([("hello interval", hello.to_owned()), ("area", area.to_owned())])
    };
    office.daemons[0].1.speaks[0].settings = settings("10", "0.0.0.0");
    office.daemons[1].1.speaks[0].settings = settings("3", "0.0.0.0");
    let report = office.ask(4, Outcome::Silence);
    assert_eq!(only(&report).0, CauseName::OspfAdjacency);
    assert!(
        mend(&report).ends_with("-c 'interface eth1' -c 'ip ospf hello-interval 3'"),
        "{report:#?}"
    );
    // Two differences are not mended by one command.
    office.daemons[1].1.speaks[0].settings = settings("3", "0.0.0.5");
    let report = office.ask(4, Outcome::Silence);
    let found = report.causes[0].evidence.join("; ");
    assert!(
        report.causes[0].mend.is_none()
            && found.contains("the area is 0.0.0.0 at the one, and 0.0.0.5")
    );
    // A passive interface does not speak, whichever end it is.
    for (at, place) in [(0, "node r1"), (1, "node r2")] {
        let mut office = learning();
        office.daemons[at].1.speaks[0].passive = true;
        let report = office.ask(4, Outcome::Silence);
        assert_eq!(only(&report), (CauseName::OspfSilent, place.into()));
        assert!(mend(&report).ends_with("-c 'no ip ospf passive'"), "{report:#?}");
    }
}

#[test]
fn an_address_that_was_learnt_before_it_moved_is_wrong() {
    let mut office = Office::new();
    let index = office.at("r2").interfaces[1].index;
    let old = Neighbour { interface: index, address: ip("10.2.0.1"), mac: [2, 0, 0, 0, 9, 9] };
    office.at("r2").heard = vec![old];
    let report = office.ask(8, Outcome::Silence);
    assert_eq!(only(&report), (CauseName::NeighbourWrong, "node r2".into()));
    assert!(mend(&report).ends_with("ip neigh del 10.2.0.1 dev eth1"));
    // The interface's own.
    office.at("r2").heard[0].mac = office.at("web").interfaces[0].mac.unwrap();
    assert!(office.ask(8, Outcome::Silence).causes.is_empty());
}

#[test]
fn a_program_that_is_stopped_hinders_though_its_kernel_answers() {
    let mut office = Office::new();
    office.at("web").listeners[0].inode = STOPPED;
    let report = office.ask_both(8, 8, Outcome::Answered);
    assert_eq!(report.verdict, Verdict::Answered);
    assert_eq!(report.hindrances[0].name, CauseName::ProgramStopped);
    assert!(report.hindrances[0].mend.as_ref().unwrap().ends_with("web -- kill -CONT 7"));
}
