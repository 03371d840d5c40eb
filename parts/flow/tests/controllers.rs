//! Controllers: reached, lost, found again, in other namespaces; and what happens without them.

use netloom_flow::application::{Controller, Fail};
use netloom_flow::control::requests::ControllerState;
use netloom_kit::isolated;
use netloom_openflow::role::{Role, RoleMessage};
use netloom_openflow::{Message, Reason, Version};

use super::world::{Listening, Net, Peer, Switch, controller, frame, raise_lo, wait};

const SENT: &str = "dl_dst=02:00:00:00:00:02,dl_src=02:00:00:00:00:01,udp,tp_dst=5";

fn state(switch: &Switch) -> ControllerState {
    switch.show().controllers[0].state
}

#[test]
fn a_controller_that_goes_is_connected_to_again() {
    isolated!({
        raise_lo();
        let listening = Listening::new();
        let switch = Switch::with(|told| told.controllers = vec![controller(&listening.target())]);
        for version in [Version::V13, Version::V10, Version::V13] {
            let mut peer = listening.accept(version);
            let Message::FeaturesReply(features) = peer.ask(&Message::FeaturesRequest) else {
                panic!()
            };
            assert_eq!(features.datapath_id, 0x1122);
            peer.barrier();
            let shown = switch.show();
            let connection = shown.controllers[0].connection.as_ref().unwrap();
            assert_eq!(connection.version.map(Version::from), Some(version));
            assert_eq!(connection.role, "equal");
            drop(peer);
        }
        // Nobody is there any more: it goes on trying.
        let address = listening.address();
        drop(listening);
        wait("a failed attempt", || {
            let known = &switch.show().controllers[0];
            (known.attempts >= 2 && known.reason.is_some()).then_some(())
        });
        Listening::at(address).accept(Version::V13).barrier();
    });
}

#[test]
fn controllers_are_replaced_while_others_stay() {
    isolated!({
        raise_lo();
        let (one, two) = (Listening::new(), Listening::new());
        let switch = Switch::start();
        let control = switch.control();
        control.set_controllers(vec![controller(&one.target())], None).unwrap();
        let mut first = one.accept(Version::V13);
        let both = vec![controller(&one.target()), controller(&two.target())];
        control.set_controllers(both, None).unwrap();
        let mut second = two.accept(Version::V13);
        first.barrier();
        control.set_controllers(vec![controller(&two.target())], None).unwrap();
        assert!(first.next().is_none());
        second.barrier();
        let many = (1..=300).map(|port| controller(&format!("tcp:127.0.0.1:{port}"))).collect();
        let refused = control.set_controllers(many, None).unwrap_err();
        assert!(refused.to_string().contains("at most 256"), "{refused}");
        second.barrier();
    });
}

/// Its number for the controller.
fn auxiliary(peer: &mut Peer) -> u8 {
    match peer.ask(&Message::FeaturesRequest) {
        Message::FeaturesReply(features) => features.auxiliary,
        other => panic!("{other:?}"),
    }
}

#[test]
fn auxiliary_connections_come_and_go_with_the_main_one() {
    isolated!({
        raise_lo();
        let listening = Listening::new();
        let switch = Switch::with(|told| {
            told.controllers = vec![controller(&listening.target())];
            told.auxiliary = 2;
        });
        let there = |count: u64| {
            wait("auxiliary connections", || {
                (switch.show().controllers[0].auxiliary == count).then_some(())
            });
        };
        for _ in 0..2 {
            let mut main = listening.accept(Version::V13);
            assert_eq!(auxiliary(&mut main), 0);
            let [mut one, mut two] = [(); 2].map(|()| listening.accept(Version::V13));
            let mut numbers = [auxiliary(&mut one), auxiliary(&mut two)];
            numbers.sort_unstable();
            assert_eq!(numbers, [1, 2]);
            there(2);
            // Its requests are done, and the switch has one controller.
            one.add("udp,actions=drop");
            one.barrier();
            assert_eq!(main.flows().len(), 1);
            assert!(switch.show().connections.is_empty());
            // One that ends is made again, with the same number.
            let number = auxiliary(&mut one);
            drop(one);
            let mut one = listening.accept(Version::V13);
            assert_eq!(auxiliary(&mut one), number);
            there(2);
            // Its role is that of the main one.
            let request = RoleMessage { role: Role::Slave, generation: 7 };
            main.ask(&Message::RoleRequest(request));
            two.add("tcp,actions=drop");
            let refused = two.hear(|_, message| match message {
                Message::Error(error) => Some(error.clone()),
                _ => None,
            });
            assert_eq!(refused.reason(Version::V13), Some(Reason::BadRequestIsSlave));
            drop(main);
            assert!(one.next().is_none() && two.next().is_none());
        }
        // OpenFlow 1.0 has none.
        let mut main = listening.accept(Version::V10);
        main.barrier();
        there(0);
        main.barrier();
    });
}

#[test]
fn one_master_makes_the_others_slaves() {
    isolated!({
        raise_lo();
        let (one, two) = (Listening::new(), Listening::new());
        let told = vec![controller(&one.target()), controller(&two.target())];
        let switch = Switch::with(|application| application.controllers = told);
        let (mut first, mut second) = (one.accept(Version::V13), two.accept(Version::V13));
        for (peer, generation) in [(&mut first, 1), (&mut second, 2)] {
            let request = RoleMessage { role: Role::Master, generation };
            let Message::RoleReply(reply) = peer.ask(&Message::RoleRequest(request)) else {
                panic!()
            };
            assert_eq!(reply.role, Role::Master);
        }
        first.add("actions=drop");
        let refused = first.hear(|_, message| match message {
            Message::Error(error) => Some(error.clone()),
            _ => None,
        });
        assert_eq!(refused.reason(Version::V13), Some(Reason::BadRequestIsSlave));
        let roles: Vec<_> = switch.show().controllers.into_iter().collect();
        let role = |at: usize| roles[at].connection.as_ref().unwrap().role.clone();
        assert_eq!([role(0), role(1)], ["slave", "master"]);
    });
}

#[test]
fn without_its_controller_it_does_what_its_fail_mode_says() {
    isolated!({
        raise_lo();
        let listening = Listening::new();
        let switch = Switch::with(|told| told.controllers = vec![controller(&listening.target())]);
        let mut peer = listening.accept(Version::V13);
        let [mut a, mut b] = switch.nodes();
        peer.barrier();
        a.send(&frame(SENT));
        wait("the frame is dropped", || {
            (switch.show().ports[0].counters["received-packets"] == 1).then_some(())
        });
        assert_eq!(b.receive(), None);
        drop(peer);
        wait("it learns", || switch.show().standalone.then_some(()));
        a.send(&frame(SENT));
        b.expect(&frame(SENT));
        let mut peer = listening.accept(Version::V13);
        peer.add("in_port=2,actions=output:1");
        peer.barrier();
        assert!(!switch.show().standalone);
        switch.control().set_fail(Fail::Secure).unwrap();
        drop(peer);
        drop(listening);
        wait("it is gone", || (state(&switch) != ControllerState::Connected).then_some(()));
        assert!(!switch.show().standalone);
        a.send(&frame(SENT));
        b.send(&frame(SENT));
        a.expect(&frame(SENT));
        assert_eq!(b.receive(), None);
    });
}

#[test]
fn a_controller_in_a_node_is_reached_from_inside() {
    isolated!({
        let net = Net::new();
        let listening = net.run(|| {
            raise_lo();
            Listening::new()
        });
        let told =
            Controller { namespace: Some("node:c0".into()), ..controller(&listening.target()) };
        let switch = Switch::with(|application| application.controllers = vec![told]);
        assert_eq!(state(&switch), ControllerState::Waiting);
        let control = switch.control();
        control.set_namespace("node:c0", &net).unwrap();
        let mut peer = listening.accept(Version::V13);
        peer.barrier();
        // The node was recreated.
        control.set_namespace("node:c0", &net).unwrap();
        assert!(peer.next().is_none());
        let mut peer = listening.accept(Version::V13);
        control.drop_namespace("node:c0").unwrap();
        assert!(peer.next().is_none());
        assert_eq!(state(&switch), ControllerState::Waiting);
        let wrong = netloom_flow::control::Request::SetNamespace { name: "x".into() };
        let refused = control.ask(&wrong, &[]).unwrap_err();
        assert!(refused.to_string().contains("0 descriptors, not one"), "{refused}");
    });
}

#[test]
fn it_listens_where_it_is_told() {
    isolated!({
        raise_lo();
        let free = Listening::new().address();
        let switch = Switch::start();
        let target = format!("ptcp:{}:127.0.0.1", free.port());
        switch.control().set_controllers(vec![controller(&target)], None).unwrap();
        assert_eq!(state(&switch), ControllerState::Listening);
        let mut peer = Peer::tcp(free);
        peer.barrier();
        assert!(switch.show().connections[0].peer.starts_with("127.0.0.1:"));
        switch.control().set_controllers(vec![], None).unwrap();
        assert!(std::net::TcpStream::connect(free).is_err());
        // A connected controller stays.
        peer.barrier();
    });
}

#[test]
fn one_that_does_not_answer_is_given_up() {
    isolated!({
        raise_lo();
        let listening = Listening::new();
        let switch = Switch::with(|told| {
            told.controllers = vec![controller(&listening.target())];
            told.probe = 1;
        });
        // One that says nothing at all, and one that says hello only.
        let silent = listening.accept_silent();
        let mut mute = listening.accept_silent();
        drop(silent);
        mute = mute.greeted(Version::V13);
        let mut next = listening.accept(Version::V13);
        next.barrier();
        assert!(switch.show().counters["connections-dropped"] >= 2);
        drop(mute);
    });
}
