//! Connections, roles, interests, ports, answers (sections 6.3, 7.2.1, 7.3).

use netloom_openflow::async_config::AsyncConfig;
use netloom_openflow::flow::FlowCommand;
use netloom_openflow::port::{PortConfig, PortReason};
use netloom_openflow::role::{Role, RoleMessage};
use netloom_openflow::switch::{Fragments, SwitchConfig};
use netloom_openflow::{
    FlowMod, Hello, Match, Message, MultipartReply, MultipartRequest, PortMod, PortNumber, Reason,
    Reply, Request, Version, encode,
};
use netloom_pipeline::{ConnectionId, FailMode, Options, Outputs, Switch};

use super::bench::{Bench, CONTROLLER, messages, port};
use super::frames::*;
use super::tables::{flow, output};

const SECOND: ConnectionId = ConnectionId(2);

fn role(bench: &mut Bench, id: ConnectionId, role: Role, generation: u64) -> Message {
    let request = Message::RoleRequest(RoleMessage { role, generation });
    bench.say(id, &request).remove(0)
}

fn reason(message: &Message) -> Option<Reason> {
    match message {
        Message::Error(error) => error.reason(Version::V13),
        _ => None,
    }
}

#[test]
fn one_master_and_no_old_elections() {
    let mut bench = Bench::new(Version::V13);
    bench.connect(SECOND);
    let reply = role(&mut bench, CONTROLLER, Role::Master, 5);
    assert_eq!(reply, Message::RoleReply(RoleMessage { role: Role::Master, generation: 5 }));
    role(&mut bench, SECOND, Role::Master, 6);
    assert_eq!(bench.switch.role(CONTROLLER), Some(Role::Slave));
    let add = Message::FlowMod(flow(1, &[], output(2)));
    let refused = bench.say(CONTROLLER, &add);
    assert_eq!(reason(&refused[0]), Some(Reason::BadRequestIsSlave));
    let stale = role(&mut bench, CONTROLLER, Role::Slave, 4);
    assert_eq!(reason(&stale), Some(Reason::RoleRequestFailedStale));
    // Numbers go round.
    role(&mut bench, CONTROLLER, Role::Slave, u64::MAX / 2);
    role(&mut bench, CONTROLLER, Role::Slave, u64::MAX - u64::MAX / 4);
    role(&mut bench, CONTROLLER, Role::Equal, 0);
    let back = role(&mut bench, CONTROLLER, Role::Master, 3);
    assert_eq!(back, Message::RoleReply(RoleMessage { role: Role::Master, generation: 3 }));
    assert_eq!(bench.switch.role(SECOND), Some(Role::Slave));
    assert_eq!(bench.say(CONTROLLER, &add), []);
}

#[test]
fn interests_decide_who_is_told() {
    let mut bench = Bench::new(Version::V13);
    bench.connect(SECOND);
    role(&mut bench, SECOND, Role::Slave, 1);
    let (_, out) = bench.frame(1, &arp());
    assert!(out.messages.is_empty());
    bench.done(&Message::FlowMod(flow(0, &[], output(PortNumber::CONTROLLER.0))));
    let told = |out: &Outputs| out.messages.iter().map(|(id, _)| id.0).collect::<Vec<_>>();
    assert_eq!(told(&bench.frame(1, &arp()).1), [1]);
    let config = AsyncConfig { packet_in: [0, 0b111], ..AsyncConfig::default() };
    for id in [CONTROLLER, SECOND] {
        assert_eq!(bench.say(id, &Message::SetAsync(config)), []);
    }
    assert_eq!(told(&bench.frame(1, &arp()).1), [2]);
    let reply = bench.say(SECOND, &Message::GetAsyncRequest);
    assert_eq!(reply, [Message::GetAsyncReply(config)]);
    let mut out = Outputs::default();
    bench.switch.set_port(port(9), &[], bench.now, &mut out);
    assert_eq!(told(&out), [1, 2]);
}

#[test]
fn a_connection_without_room_is_told_no_packets_but_everything_else() {
    let mut bench = Bench::new(Version::V13);
    bench.connect(SECOND);
    let to_controller =
        vec![netloom_openflow::Instruction::ApplyActions(vec![netloom_openflow::Action::Output {
            port: PortNumber::CONTROLLER,
            max_len: 20,
        }])];
    bench.done(&Message::FlowMod(flow(0, &[], to_controller)));
    bench.switch.set_full(SECOND, true);
    let (trace, out) = bench.frame(1, &arp());
    assert!(trace.controller);
    assert_eq!((messages(&out, CONTROLLER).len(), messages(&out, SECOND).len()), (1, 0));
    assert_eq!(out.left_out, [(SECOND, 1)].into());
    bench.switch.set_full(CONTROLLER, true);
    let (trace, out) = bench.frame(1, &arp());
    assert!(trace.controller && out.messages.is_empty(), "{out:?}");
    assert_eq!(out.left_out, [(CONTROLLER, 1), (SECOND, 1)].into());
    assert_eq!(bench.say(SECOND, &Message::BarrierRequest), [Message::BarrierReply]);
    bench.switch.set_full(SECOND, false);
    let (_, out) = bench.frame(1, &arp());
    assert_eq!(messages(&out, SECOND).len(), 1);
}

#[test]
fn auxiliary_connections_share_role_and_end_with_their_main_one() {
    let mut bench = Bench::new(Version::V13);
    let mut out = Outputs::default();
    bench.switch.connect(SECOND, Some((CONTROLLER, 7)), &mut out);
    let hello = encode(Version::V13, 1, &Message::Hello(Hello::offering(&[Version::V13]))).unwrap();
    bench.bytes(SECOND, &hello);
    match &bench.say(SECOND, &Message::FeaturesRequest)[0] {
        Message::FeaturesReply(features) => assert_eq!(features.auxiliary, 7),
        other => panic!("{other:?}"),
    }
    role(&mut bench, CONTROLLER, Role::Slave, 1);
    let refused = bench.say(SECOND, &Message::FlowMod(flow(1, &[], output(2))));
    assert_eq!(reason(&refused[0]), Some(Reason::BadRequestIsSlave));
    let mut out = Outputs::default();
    bench.switch.disconnect(CONTROLLER, &mut out);
    assert_eq!(out.closed, [SECOND]);
}

#[test]
fn auxiliary_connections_have_the_version_of_their_main_one() {
    let mut bench = Bench::new(Version::V13);
    let mut out = Outputs::default();
    bench.switch.connect(SECOND, Some((CONTROLLER, 1)), &mut out);
    assert!(matches!(messages(&out, SECOND)[..], [Message::Hello(_)]));
    let mut out = Outputs::default();
    bench.switch.message(SECOND, &[1, 0, 0, 8, 0, 0, 0, 3], 0, &mut out);
    assert_eq!(out.closed, [SECOND]);
    assert_eq!(bench.switch.version(CONTROLLER), Some(Version::V13));
}

#[test]
fn a_connection_begins_with_hello_in_a_common_version() {
    let options = Options { versions: vec![Version::V13], ..Options::default() };
    let mut switch = Switch::new(options);
    let mut out = Outputs::default();
    switch.connect(CONTROLLER, None, &mut out);
    assert!(matches!(messages(&out, CONTROLLER)[..], [Message::Hello(_)]));
    let mut out = Outputs::default();
    switch.message(CONTROLLER, &[1, 0, 0, 8, 0, 0, 0, 3], 0, &mut out);
    let [Message::Error(error)] = &messages(&out, CONTROLLER)[..] else { panic!("{out:?}") };
    assert_eq!(error.reason(Version::V13), Some(Reason::HelloFailedIncompatible));
    assert_eq!(out.closed, [CONTROLLER]);
    switch.connect(SECOND, None, &mut out);
    let mut out = Outputs::default();
    switch.message(SECOND, &[4, 5, 0, 8, 0, 0, 0, 3], 0, &mut out);
    assert_eq!(out.closed, [SECOND]);
}

#[test]
fn without_controllers_a_switch_is_secure_or_stands_alone() {
    for (fail_mode, alone) in [(FailMode::Secure, &[2][..]), (FailMode::Standalone, &[2, 3, 4])] {
        let options = Options { fail_mode, ..Options::default() };
        let mut bench = Bench::with(Version::V13, options);
        bench.done(&Message::FlowMod(flow(1, &[], output(2))));
        assert_eq!(bench.ports(1, &arp()), [2]);
        let generation = bench.switch.generation();
        bench.switch.disconnect(CONTROLLER, &mut Outputs::default());
        assert_eq!(bench.ports(1, &arp()), alone);
        assert_eq!(bench.switch.generation() != generation, fail_mode == FailMode::Standalone);
        bench.connect(CONTROLLER);
        assert_eq!(bench.ports(1, &arp()), [2]);
    }
}

#[test]
fn controllers_set_ports() {
    let mut bench = Bench::new(Version::V13);
    bench.done(&Message::FlowMod(flow(1, &[], output(PortNumber::FLOOD.0))));
    bench.done(&Message::FlowMod(FlowMod {
        command: FlowCommand::Add,
        ..flow(0, &[], output(PortNumber::CONTROLLER.0))
    }));
    let change = |number: u32, config| {
        let address = port(number).address;
        let (port, mask) = (PortNumber(number), config);
        Message::PortMod(PortMod { port, address, config, mask, advertise: Default::default() })
    };
    let out = bench.done(&change(2, PortConfig::NO_FWD));
    assert_eq!(out.ports, [(PortNumber(2), PortConfig::NO_FWD)]);
    assert!(matches!(
        &messages(&out, CONTROLLER)[..],
        [Message::PortStatus(status)] if status.reason == PortReason::Modify
    ));
    assert_eq!(bench.ports(1, &arp()), [3, 4]);
    bench.done(&change(3, PortConfig::PORT_DOWN));
    assert_eq!(bench.ports(1, &arp()), [4]);
    assert_eq!(bench.ports(3, &arp()), [] as [u32; 0]);
    bench.done(&change(1, PortConfig::NO_RECV));
    assert_eq!(bench.ports(1, &arp()), [] as [u32; 0]);
    let wrong = change(9, PortConfig::NO_FWD);
    assert_eq!(bench.refused(&wrong), Some(Reason::PortModFailedBadPort));
    let Message::PortMod(other) = change(4, PortConfig::NO_FWD) else { return };
    let address = Message::PortMod(PortMod { address: [9; 6], ..other });
    assert_eq!(bench.refused(&address), Some(Reason::PortModFailedBadHwAddr));
    let mask = Message::PortMod(PortMod { mask: PortConfig::NO_FLOOD, ..other });
    assert_eq!(bench.refused(&mask), Some(Reason::PortModFailedBadConfig));
    // What a driver reports does not undo it.
    bench.switch.set_port(port(3), &[], bench.now, &mut Outputs::default());
    assert_eq!(bench.ports(4, &arp()), [1]);
}

#[test]
fn settings_echo_barrier_queues() {
    let mut bench = Bench::new(Version::V13);
    let echo = bench.say(CONTROLLER, &Message::EchoRequest(vec![1, 2]));
    assert_eq!(echo, [Message::EchoReply(vec![1, 2])]);
    assert_eq!(bench.say(CONTROLLER, &Message::BarrierRequest), [Message::BarrierReply]);
    let config = SwitchConfig { fragments: Fragments::Drop, miss_send_len: 77 };
    bench.done(&Message::SetConfig(config));
    let reply = bench.say(CONTROLLER, &Message::GetConfigRequest);
    assert_eq!(reply, [Message::GetConfigReply(config)]);
    bench.done(&Message::FlowMod(flow(1, &[], output(2))));
    let mut fragment = tcp4(1, 2);
    fragment[20] = 0x20;
    assert_eq!(bench.ports(1, &fragment), [] as [u32; 0]);
    match &bench.say(CONTROLLER, &Message::QueueGetConfigRequest(PortNumber(1)))[0] {
        Message::QueueGetConfigReply(reply) => assert_eq!(reply.queues.len(), 2),
        other => panic!("{other:?}"),
    }
    let none = Message::QueueGetConfigRequest(PortNumber(77));
    assert_eq!(bench.refused(&none), Some(Reason::QueueOpFailedBadPort));
    let vendor = Message::Experimenter { experimenter: 1, data: vec![0; 4] };
    assert_eq!(bench.refused(&vendor), Some(Reason::BadRequestBadExperimenter));
    assert_eq!(bench.refused(&Message::BarrierReply), Some(Reason::BadRequestBadType));
}

/// Every request for statistics has an answer of its kind.
#[test]
fn every_request_is_answered() {
    for version in [Version::V10, Version::V13] {
        let mut bench = Bench::new(version);
        let any = match version {
            Version::V10 => Match::V10(Default::default()),
            Version::V13 => Match::default(),
        };
        let flows = netloom_openflow::multipart::FlowRequest::new(any);
        let port = PortNumber::ANY;
        let mut requests = vec![
            Request::Desc,
            Request::Flow(flows.clone()),
            Request::Aggregate(flows),
            Request::Table,
            Request::PortStats(port),
            Request::QueueStats { port, queue: u32::MAX },
        ];
        if version == Version::V13 {
            requests.extend([
                Request::GroupStats(u32::MAX - 3),
                Request::GroupDesc,
                Request::GroupFeatures,
                Request::MeterStats(u32::MAX),
                Request::MeterConfig(u32::MAX),
                Request::MeterFeatures,
                Request::TableFeatures(vec![]),
                Request::PortDesc,
            ]);
        }
        for body in requests {
            let request = MultipartRequest { flags: 0, body };
            let answers = bench.say(CONTROLLER, &Message::MultipartRequest(request.clone()));
            let whole = |answer: &Message| matches!(answer, Message::MultipartReply(_));
            assert!(!answers.is_empty() && answers.iter().all(whole), "{request:?}");
        }
    }
}

#[test]
fn what_tables_are_asked_to_be_is_what_they_are() {
    let mut bench = Bench::new(Version::V13);
    let ask = |body| Message::MultipartRequest(MultipartRequest { flags: 0, body });
    let tables = |answers: Vec<Message>| match answers.into_iter().next() {
        Some(Message::MultipartReply(MultipartReply {
            body: Reply::TableFeatures(all), ..
        })) => all,
        other => panic!("{other:?}"),
    };
    let mut all = tables(bench.say(CONTROLLER, &ask(Request::TableFeatures(vec![]))));
    assert_eq!(all.len(), 8);
    all.truncate(2);
    all[0].max_entries = 1;
    let set = ask(Request::TableFeatures(all.clone()));
    assert_eq!(tables(bench.say(CONTROLLER, &set)), all);
    bench.done(&Message::FlowMod(flow(1, &[], output(2))));
    let second = Message::FlowMod(flow(2, &[], output(2)));
    assert_eq!(bench.refused(&second), Some(Reason::FlowModFailedTableFull));
    all[0].table = 99;
    let wrong = ask(Request::TableFeatures(all));
    assert_eq!(bench.refused(&wrong), Some(Reason::TableFeaturesFailedBadTable));
}
