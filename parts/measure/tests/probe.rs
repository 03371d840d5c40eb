//! Several sessions by number, and what they tell in JSON.

use super::world;

use std::sync::Arc;

use netloom_ebpf::measure::Clock;
use netloom_ebpf::{Direction, Hook};
use netloom_kit::root_only;
use netloom_marking::session::Configuration;
use netloom_measure::{
    Error, Host, Interfaces, MOST_SESSIONS, Measures, Probe, Session, State, Wanted,
};
use world::*;

fn probe(ends: &Arc<Ends>) -> Probe {
    let ends: Arc<dyn Interfaces> = Arc::<Ends>::clone(ends);
    Probe::new("p1".to_owned(), ends).with_clock(Clock::Monotonic)
}

/// The same that marks what leaves by an interface.
fn marking(netif: &str, blocks: u32) -> Configuration {
    Configuration { marking: vec![netif.to_owned()], ..configuration("1", blocks) }
}

#[test]
fn a_session_is_made_started_read_and_forgotten() {
    root_only!("attaches BPF programs");
    let pair = Pair::create();
    let probe = probe(&Ends::of(&[&pair]));
    let id = probe.create(marking("near", 4)).unwrap();
    let measures = probe.measures(id, &Wanted::default()).unwrap();
    assert_eq!((measures.state, &measures.schedule), (State::Prepared, &None));
    assert_eq!((measures.spots.len(), measures.measures.len()), (4, 12));
    let session = probe.session(id).unwrap();
    start(&session);
    until_told(&session, 0);
    pair.udp(25, 4000);
    until_end(&session);
    assert_eq!(
        probe.list().iter().map(|s| (s.id, s.state)).collect::<Vec<_>>(),
        [(id, State::Ended)]
    );
    let measures = probe.measures(id, &Wanted::default()).unwrap();
    let text = serde_json::to_string(&measures).unwrap();
    assert_eq!(serde_json::from_str::<Measures>(&text).unwrap(), measures);
    assert_eq!((measures.probe.as_str(), measures.clock.name.as_str()), ("p1", "monotonic"));
    for measure in &measures.measures {
        let seen = [("near", Direction::Egress), ("far", Direction::Ingress)]
            .contains(&(measure.netif.as_str(), measure.direction));
        assert_eq!(measure.blocks.len(), 4);
        let packets: u64 = measure.blocks.iter().map(|block| block.all.packets).sum();
        assert_eq!(packets, if seen && measure.flow == 1 { 25 } else { 0 }, "{measure:?}");
        assert!(measure.blocks.iter().all(|block| block.complete && block.record().is_some()));
    }
    let wanted = Wanted { netif: Some("far".to_owned()), flow: Some(1), from: 2 };
    let some = probe.measures(id, &wanted).unwrap();
    assert_eq!((some.spots.len(), some.measures.len()), (2, 2));
    assert!(some.measures.iter().all(|m| m.flow == 1 && m.blocks.len() == 2));
    let nowhere = Wanted { netif: Some("x".to_owned()), ..Wanted::default() };
    assert!(matches!(probe.measures(id, &nowhere), Err(Error::NoSpot { .. })));
    let nothing = Wanted { flow: Some(9), ..Wanted::default() };
    assert!(matches!(probe.measures(id, &nothing), Err(Error::NoFlow { flow: 9, .. })));
    probe.delete(id).unwrap();
    assert!(matches!(probe.session(id), Err(Error::NoSession { .. })));
    assert!(probe.delete(id).is_err() && probe.list().is_empty());
}

#[test]
fn there_are_only_so_many_sessions() {
    root_only!("loads BPF programs");
    let pair = Pair::create();
    let probe = probe(&Ends::of(&[&pair]));
    let mut wrong = configuration("1", 4);
    wrong.netifs = vec!["eth9".to_owned()];
    assert!(matches!(probe.create(wrong), Err(Error::NoInterface { .. })));
    assert!(probe.list().is_empty());
    let ids: Vec<u64> =
        (0..MOST_SESSIONS).map(|_| probe.create(configuration("1", 4)).unwrap()).collect();
    let more = probe.create(configuration("1", 4));
    assert!(matches!(more, Err(Error::TooMany { .. })), "{more:?}");
    probe.delete(ids[7]).unwrap();
    let next = probe.create(configuration("1", 4)).unwrap();
    assert!(!ids.contains(&next));
}

#[test]
fn an_interface_that_runs_as_many_programs_as_it_can_is_told() {
    root_only!("loads BPF programs");
    // Other kernels have no such limit.
    if Hook::probe() != Hook::Tcx {
        return;
    }
    let pair = Pair::create();
    let probe = probe(&Ends::of(&[&pair]));
    let start = || {
        let near = Configuration { netifs: vec!["near".to_owned()], ..configuration("1", 1000) };
        let id = probe.create(near).unwrap();
        probe.session(id).unwrap().start()
    };
    (1..MOST_SESSIONS).for_each(|_| start().unwrap());
    // There may be one more session, but no interface has room for its program.
    let more = start();
    let Err(Error::TooMany { object, reason }) = &more else { panic!("{more:?}") };
    assert!(
        object.starts_with("interface \"near\"") && reason.contains("63 BPF programs"),
        "{more:?}"
    );
}

#[test]
fn dropping_a_probe_takes_everything_off() {
    root_only!("attaches BPF programs");
    let pair = Pair::create();
    pair.unlink();
    let ifindexes = pair.link();
    let probe = probe(&Ends::of(&[&pair]));
    let id = probe.create(marking("near", 100)).unwrap();
    probe.session(id).unwrap().start().unwrap();
    assert_eq!(pair.points(ifindexes), [2, 2]);
    // The same packets cannot be marked by two.
    let twice = probe.create(marking("near", 4)).unwrap_err().to_string();
    assert!(twice.starts_with("interface \"near\", egress: session 1 marks packets"), "{twice}");
    probe.create(marking("far", 4)).unwrap();
    drop(probe);
    assert_eq!(pair.points(ifindexes), [0, 0]);
}

#[test]
fn sampled_packets_are_told() {
    root_only!("attaches BPF programs");
    let pair = Pair::create();
    let ends = Ends::of(&[&pair]);
    let [block, all, guard] = [0.2, 0.8, 0.05].map(slower);
    let body = format!(
        r#"{{"prog_id": 2, "mp": {block}, "mpc": {all}, "guard": {guard}, "starter_mark": 8,
        "next_mark": 16, "match_value": 0, "hash_length": 0, "hash_function": "bob",
        "filters": [{{"id": 1, "dst_ip": "10.7.0.2", "proto": "udp", "dst_port": 5000}}]}}"#
    );
    let probe = probe(&ends);
    let mut configuration = Configuration::read(body.as_bytes()).unwrap();
    configuration.marking = vec!["near".to_owned()];
    let id = probe.create(configuration).unwrap();
    let session = probe.session(id).unwrap();
    start(&session);
    until_told(&session, 0);
    pair.udp(25, 4000);
    until_end(&session);
    let measures = probe.measures(id, &Wanted::default()).unwrap();
    let text = serde_json::to_string(&measures).unwrap();
    assert_eq!(serde_json::from_str::<Measures>(&text).unwrap(), measures);
    for measure in measures.measures {
        let samples = measure.blocks.iter().flat_map(|b| &b.sampled.as_ref().unwrap().samples);
        let seen = [("near", Direction::Egress), ("far", Direction::Ingress)]
            .contains(&(measure.netif.as_str(), measure.direction));
        assert_eq!(samples.count(), if seen { 25 } else { 0 });
    }
}

#[test]
fn what_cannot_be_measured_is_explained() {
    root_only!("loads BPF programs");
    let pair = Pair::create();
    let ends = Ends::of(&[&pair]);
    let refused = |spots, period: u64| {
        let mut setup = setup(2, spots);
        (setup.configuration.period, setup.configuration.guard) = (period, 50_000_000);
        let ends: Arc<dyn Interfaces> = Arc::<Ends>::clone(&ends);
        Session::prepare(ends, setup).unwrap_err().to_string()
    };
    let second = 1_000_000_000;
    assert_eq!(refused(vec![], second), "interfaces: there is none: nothing would be measured");
    let mut coming = marker("far");
    coming.direction = Direction::Ingress;
    assert_eq!(
        refused(vec![coming], second),
        "interface \"far\", ingress: packets are marked at egress only"
    );
    assert_eq!(
        refused(vec![marker("near"), observer("near", Direction::Egress)], second),
        "interface \"near\", egress: it is there twice"
    );
    let short = refused(way(), 101_000_000);
    assert!(short.contains("take a period of 102000001 ns or more, or a smaller guard"), "{short}");
}

#[test]
fn an_ordinary_user_is_told_what_is_missing() {
    netloom_kit::ordinary_only!("what is refused to others than root");
    let spots = vec![observer("lo", Direction::Ingress)];
    let error = Session::prepare(Arc::new(Host), setup(2, spots)).unwrap_err();
    assert!(matches!(error, Error::Unsupported(_)), "{error}: {error:?}");
    assert!(Host.names().unwrap().contains(&"lo".to_owned()));
}

#[test]
fn a_host_s_own_interfaces_are_measured_without_a_namespace_of_their_own() {
    root_only!("attaches BPF programs");
    let pair = Pair::create();
    pair.far.run(|| {
        assert!(Host.names().unwrap().contains(&"far".to_owned()));
        let spots = vec![observer("far", Direction::Ingress)];
        let session = Session::prepare(Arc::new(Host), setup(2, spots)).unwrap();
        session.start().unwrap();
        assert_eq!(until_end(&session).len(), 2);
    });
}
