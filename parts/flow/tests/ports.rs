//! Ports come, go, and follow their interfaces.

use netloom_kit::isolated;
use netloom_netlink::{Batch, Change, DeleteLink, LinkRef, Socket};
use netloom_openflow::port::{PortReason, PortState};
use netloom_openflow::{Message, PortStatus, Version};
use rustix::process::{Pid, Signal, kill_process};

use super::world::{Listening, Node, Peer, Switch, controller, frame, raise_lo, wait};

fn status(peer: &mut Peer) -> PortStatus {
    peer.hear(|_, message| match message {
        Message::PortStatus(status) => Some(*status),
        _ => None,
    })
}

fn link(change: &Change<'_>) {
    let mut batch = Batch::new();
    batch.push("the switch's end", change);
    Socket::open().unwrap().run(&mut batch).unwrap();
}

#[test]
fn controllers_are_told_of_ports() {
    isolated!({
        raise_lo();
        let listening = Listening::new();
        let switch = Switch::with(|told| told.controllers = vec![controller(&listening.target())]);
        let mut peer = listening.accept(Version::V13);
        peer.barrier();
        let mut a = Node::new(1);
        switch.add(1, &a);
        let came = status(&mut peer);
        assert_eq!((came.reason, came.port.number.0), (PortReason::Add, 1));
        assert_eq!(came.port.name.text(), "port1");
        link(&Change::of(a.outer.as_str()).down());
        let down = status(&mut peer);
        assert_eq!(down.reason, PortReason::Modify);
        assert!(down.port.state.has(PortState::LINK_DOWN));
        wait("status shows it", || (!switch.show().ports[0].up).then_some(()));
        link(&Change::of(a.outer.as_str()).up());
        while status(&mut peer).port.state.has(PortState::LINK_DOWN) {}
        // What it receives is heard again.
        peer.add("in_port=1,actions=IN_PORT");
        peer.barrier();
        a.net.run(|| {
            netloom_kit::wait_for_carrier(Socket::open().unwrap().index_of("eth0").unwrap())
        });
        let sent = frame("dl_src=02:00:00:00:00:01,udp");
        a.send(&sent);
        a.expect(&sent);
        let mut batch = Batch::new();
        batch.push("the switch's end", &DeleteLink::new(LinkRef::Name(&a.outer)));
        Socket::open().unwrap().run(&mut batch).unwrap();
        while status(&mut peer).reason != PortReason::Delete {}
        // Another interface may take its place.
        let b = Node::new(2);
        switch.add(1, &b);
        let again = status(&mut peer);
        assert_eq!((again.reason, again.port.number.0), (PortReason::Add, 1));
        switch.control().remove_port(1).unwrap();
        assert_eq!(status(&mut peer).reason, PortReason::Delete);
        assert!(switch.show().ports.is_empty());
    });
}

#[test]
fn a_port_that_is_removed_is_let_go_of() {
    isolated!({
        let switch = Switch::start();
        let [mut a, mut b] = switch.nodes();
        let sent = frame("dl_src=02:00:00:00:00:01,udp");
        a.send(&sent);
        b.expect(&sent);
        switch.control().remove_port("port2").unwrap();
        a.send(&sent);
        wait("it is counted", || {
            (switch.show().ports[0].counters["received-packets"] == 2).then_some(())
        });
        assert_eq!(b.receive(), None);
        switch.add(2, &b);
        wait("it is up", || switch.show().ports[1].up.then_some(()));
        a.send(&sent);
        b.expect(&sent);
    });
}

/// An interface goes, another with its name and index comes, and the port is added before the switch has looked.
#[test]
fn an_interface_with_the_index_of_another_is_not_taken_for_it() {
    isolated!({
        let switch = Switch::start();
        let [mut a, b] = switch.nodes();
        let process = Pid::from_raw(i32::try_from(switch.pid()).unwrap()).unwrap();
        kill_process(process, Signal::STOP).unwrap();
        let mut b = b.instead_of(2);
        kill_process(process, Signal::CONT).unwrap();
        switch.add(2, &b);
        wait("it is up", || switch.show().ports[1].up.then_some(()));
        let sent = frame("dl_src=02:00:00:00:00:02,udp");
        b.send(&sent);
        a.expect(&sent);
    });
}

#[test]
fn the_process_ends_with_its_folder() {
    let mut switch = Switch::start();
    // The handle would complain that it is gone.
    std::fs::rename(switch.folder.path(), switch.folder.path().with_extension("away")).unwrap();
    assert!(switch.ended());
    std::fs::rename(switch.folder.path().with_extension("away"), switch.folder.path()).unwrap();
}
