//! Which users may join, by which number, and what comes back after the switch was killed.

use super::world;

use std::time::Instant;

use netloom_shm::inbox::Inbox;
use netloom_shm::protocol::{Direction, EdgeName, Message, Reason};
use netloom_switch::control::requests::{PortChange, Presence};
use netloom_switch::rules::{Mirror, Source, Vid, Vlan};
use world::{Process, Raw, Switch, Ticket};

fn refusal(switch: &Switch, ticket: &Ticket) -> (Reason, String) {
    match Raw::with(&switch.path(), ticket, Inbox::create().unwrap()) {
        Ok(port) => panic!("joined as {}", port.joined.number),
        Err(refusal) => refusal,
    }
}

fn named(name: &str) -> PortChange {
    PortChange { name: Some(Some(name.into())), ..PortChange::default() }
}

#[test]
fn numbers_and_names_are_given_once() {
    let switch = Switch::start();
    let a = Raw::join(&switch.path(), "a");
    let b = Raw::join(&switch.path(), "b");
    assert_eq!((a.joined.number, b.joined.number), (1, 2));
    assert_eq!(refusal(&switch, &Ticket::new("a")).0, Reason::Taken);
    let taken = refusal(&switch, &Ticket { number: 2, ..Ticket::new("c") });
    assert_eq!(taken, (Reason::Taken, "port 2 is \"b\"'s".into()));
    let old = refusal(&switch, &Ticket { version: 2, ..Ticket::new("c") });
    assert_eq!(old.0, Reason::Version);
    drop(a);
    netloom_kit::wait_until("port 1 to be free", world::BOUND, || {
        Raw::with(&switch.path(), &Ticket::new("a"), Inbox::create().unwrap())
            .ok()
            .filter(|a| a.joined.number == 1)
    });
    switch.ask().set_port(9, named("nine")).unwrap();
    let nine = Raw::join(&switch.path(), "nine");
    assert_eq!(nine.joined.number, 9);
    let reserved = refusal(&switch, &Ticket { number: 3, ..Ticket::new("nine") });
    assert_eq!(reserved.0, Reason::Taken);
}

#[test]
fn two_hundred_and_fifty_five_are_all() {
    let switch = Switch::start();
    let ports: Vec<Raw> = (1..=255).map(|n| Raw::join(&switch.path(), &format!("p{n}"))).collect();
    assert!(ports.iter().zip(1..=255).all(|(port, n)| port.joined.number == n));
    assert_eq!(refusal(&switch, &Ticket::new("one more")).0, Reason::Full);
    let shown = switch.ask().show().unwrap();
    assert_eq!((shown.ports.len(), shown.joins, shown.refused), (255, 255, 1));
    // All leave at once, and all numbers are free again.
    drop(ports);
    netloom_kit::wait_until("ports to be gone", world::BOUND, || {
        switch.ask().show().unwrap().ports.is_empty().then_some(())
    });
    assert_eq!(Raw::join(&switch.path(), "next").joined.number, 1);
}

#[test]
fn a_thousand_ports_join_and_leave() {
    let switch = Switch::start();
    let keeps = Raw::join(&switch.path(), "keeps");
    let started = Instant::now();
    for n in 0..1000 {
        let port = Raw::join(&switch.path(), &format!("p{}", n % 50 + 1000 * (n / 50)));
        assert_ne!(port.joined.number, keeps.joined.number);
    }
    let took = started.elapsed();
    netloom_kit::wait_until("ports to be gone", world::BOUND, || {
        (switch.ask().show().unwrap().ports.len() == 1).then_some(())
    });
    println!("1000 joins and leaves took {took:?}");
}

#[test]
fn only_who_may_has_a_port() {
    netloom_kit::root_only!("is other users");
    let open = Switch::reachable("666");
    let closed = Switch::reachable("600");
    for switch in [&open, &closed] {
        let folder = switch.folder.path();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(folder, mode).unwrap();
    }
    // The kernel keeps others from the socket; the switch does, too, whatever the socket's mode.
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    std::fs::set_permissions(closed.path(), mode).unwrap();
    let join = |switch: &Switch, name: &str, uid| {
        let path = switch.path();
        let mut process = Process::start(&["join", path.to_str().unwrap(), name], Some(uid));
        (process.line(), process)
    };
    assert_eq!(join(&closed, "x", 65533).0, "not allowed: not allowed to user 65533");
    let asked = open.ask();
    asked.set_port(1, PortChange { uid: Some(Some(65533)), ..named("own") }).unwrap();
    assert_eq!(join(&open, "own", 65534).0, "not allowed: port 1 is not for user 65534");
    let (line, _port) = join(&open, "own", 65533);
    assert_eq!(line, "joined 1");
    assert_eq!(join(&open, "any", 65534).0, "joined 2");
    let ask = |uid| {
        let mut process = Process::start(&["ask", open.path().to_str().unwrap()], uid);
        process.line()
    };
    assert_eq!(ask(Some(65533)), "switch: not allowed to user 65533");
    assert_eq!(ask(None), "shown");
    // Given to another user, it is taken from its holder.
    asked.set_port("own", PortChange { uid: Some(Some(65534)), ..Default::default() }).unwrap();
    let free = |presence| (presence == Presence::Free).then_some(());
    netloom_kit::wait_until("port 1 to be free", world::BOUND, || {
        free(asked.show().unwrap().ports[0].presence)
    });
}

#[test]
fn a_switch_started_again_knows_its_ports_and_its_rules() {
    let mut switch = Switch::start();
    let a = Raw::join(&switch.path(), "a");
    let b = Raw::join(&switch.path(), "b");
    let asked = switch.ask();
    asked.set_vlan(7, Vid::new(5).map(Vlan::Access)).unwrap();
    let source = Source { port: 1, direction: netloom_switch::rules::Direction::Both };
    let mirror =
        Mirror { to: 7, sources: vec![source], filter: "arp".parse().unwrap(), temporary: false };
    assert_eq!(asked.add_mirror(mirror.clone()).unwrap(), 1);
    let before = asked.show().unwrap();
    switch.process.kill();
    let Raw { inbox, joined, .. } = a;
    switch.start_again();
    let asked = switch.ask();
    let after = asked.show().unwrap();
    assert_eq!(after.mirrors, before.mirrors);
    assert_eq!(after.ports[2].rules, before.ports[2].rules);
    assert!(after.ports[..2].iter().all(|p| p.presence == Presence::Awaited), "{after:?}");
    // Nobody else gets its number or its name.
    assert_eq!(Raw::join(&switch.path(), "c").joined.number, 3);
    assert_eq!(refusal(&switch, &Ticket::new("a")).0, Reason::Taken);
    let unknown = Ticket { token: [9; 16], ..Ticket::new("a") };
    assert_eq!(refusal(&switch, &unknown).0, Reason::Token);
    let edge = |number, generation| EdgeName { number, direction: Direction::Out, generation };
    let edges = vec![edge(2, b.joined.generation), edge(9, 77)];
    let ticket = Ticket { token: joined.token, edges, ..Ticket::new("a") };
    let mut a = Raw::with(&switch.path(), &ticket, inbox).unwrap();
    assert_eq!(a.joined, joined);
    let gone = Message::PortGone { number: 9, generation: 77 };
    assert_eq!(a.message(), Some(format!("{gone:?}")));
    let shown = asked.show().unwrap();
    assert_eq!((shown.edges, shown.ports[0].presence), (1, Presence::Here));
    assert_eq!(refusal(&switch, &ticket).0, Reason::Token);
    // The other end of its edge does not come back.
    asked.disconnect(2).unwrap();
    let gone = Message::PortGone { number: 2, generation: b.joined.generation };
    assert_eq!(a.message(), Some(format!("{gone:?}")));
}

#[test]
fn a_port_whose_process_has_ended_makes_room_for_its_successor() {
    let mut switch = Switch::start();
    let joins = |path: &std::path::Path| {
        let mut process = Process::start(&["join", path.to_str().unwrap(), "a"], None);
        (process.line(), process)
    };
    let (line, mut first) = joins(&switch.path());
    assert_eq!(line, "joined 1");
    switch.process.kill();
    first.kill();
    switch.start_again();
    assert_eq!(switch.ask().show().unwrap().ports[0].presence, Presence::Awaited);
    assert_eq!(joins(&switch.path()).0, "joined 1");
}

#[test]
fn a_broken_state_file_is_refused_by_name() {
    let mut switch = Switch::start();
    switch.process.kill();
    std::fs::write(switch.state(), "{").unwrap();
    let (path, state) = (switch.path(), switch.state());
    let arguments = ["serve", path.to_str().unwrap(), state.to_str().unwrap(), "600"];
    let out = super::process::command(&arguments).output().unwrap();
    assert!(!out.status.success());
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(errors.contains(switch.state().to_str().unwrap()), "{errors}");
    assert_eq!(std::fs::read(switch.state()).unwrap(), b"{");
}

#[test]
fn what_cannot_be_written_down_is_not_done() {
    let switch = Switch::start();
    let mut a = Raw::join(&switch.path(), "a");
    std::fs::create_dir(switch.state().with_extension("new")).unwrap();
    let (reason, text) = refusal(&switch, &Ticket::new("b"));
    assert_eq!(reason, Reason::Other);
    assert!(text.contains(switch.state().to_str().unwrap()), "{text}");
    let asked = switch.ask();
    let refused = asked.set_vlan(1, Vid::new(5).map(Vlan::Access)).unwrap_err();
    assert!(refused.to_string().contains("state file"), "{refused}");
    let shown = asked.show().unwrap();
    assert!(!shown.vlans && shown.ports.len() == 1, "{shown:?}");
    std::fs::remove_dir(switch.state().with_extension("new")).unwrap();
    let mut b = Raw::join(&switch.path(), "b");
    a.send(&world::frame(world::ALL, world::mac(1), b"on"));
    b.down_until(&world::frame(world::ALL, world::mac(1), b"on"));
}

#[test]
fn it_ends_when_it_is_told_to() {
    let mut switch = Switch::start();
    let mut port = Raw::join(&switch.path(), "a");
    switch.ask().stop().unwrap();
    assert!(switch.process.0.wait().unwrap().success());
    assert_eq!(port.message(), None);
    assert!(!switch.path().exists());
    switch.start_again();
    // A process that answers has taken care of signals.
    switch.ask().show().unwrap();
    let pid = rustix::process::Pid::from_child(&switch.process.0);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(switch.process.0.wait().unwrap().success());
}
