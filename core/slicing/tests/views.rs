//! What a controller sees: a switch of its own.

use netloom_openflow::flow::FlowCommand;
use netloom_openflow::multipart::{FlowRequest, MultipartRequest};
use netloom_openflow::role::{Role, RoleMessage};
use netloom_openflow::{Match, Message, PortNumber, Reason, Reply, Request, Version};
use netloom_slicing::{CloseReason, Out, SliceId};

use crate::integration::lab::{A, B, Lab, at, frame, slice, tagged};

fn two(version: Version) -> Lab {
    Lab::new(version, vec![slice("red", vec![at(&[3, 1])]), slice("blue", vec![at(&[2])])])
}

fn multipart(lab: &mut Lab, whose: SliceId, body: Request) -> Reply {
    let request = Message::MultipartRequest(MultipartRequest { flags: 0, body });
    match &lab.ask(whose, request)[..] {
        [Message::MultipartReply(reply)] => reply.body.clone(),
        other => panic!("{other:?} {:?}", lab.refused),
    }
}

fn any(version: Version) -> Match {
    match version {
        Version::V10 => Match::V10(Match::default().to_10().0),
        Version::V13 => Match::default(),
    }
}

/// Controllers tell packets that nothing matched from those that an entry sent.
#[test]
fn a_packet_that_missed_is_told_as_one() {
    use netloom_openflow::packet::PacketInReason::{Action, NoMatch};
    let mut lab = two(Version::V13);
    lab.add(A, "priority=0,actions=CONTROLLER:65535");
    let reason = |lab: &mut Lab| {
        lab.told(A);
        lab.frame(3, &frame("ip"));
        match &lab.told(A)[..] {
            [Message::PacketIn(packet)] => packet.reason,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(reason(&mut lab), NoMatch);
    lab.add(A, "priority=0,in_port=1,table=1,actions=CONTROLLER:65535");
    lab.add(A, "priority=1,actions=goto_table:1");
    assert_eq!(reason(&mut lab), Action);
    lab.add(A, "priority=2,actions=CONTROLLER:65535");
    assert_eq!(reason(&mut lab), Action);
}

#[test]
fn ports_are_numbered_from_one_in_the_order_given() {
    for version in [Version::V10, Version::V13] {
        let mut lab = two(version);
        let features = match &lab.ask(A, Message::FeaturesRequest)[..] {
            [Message::FeaturesReply(features)] => features.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(features.datapath_id, 1 << 48 | 1);
        let ports = match version {
            Version::V10 => features.ports,
            Version::V13 => match multipart(&mut lab, A, Request::PortDesc) {
                Reply::PortDesc(ports) => ports,
                other => panic!("{other:?}"),
            },
        };
        let seen: Vec<_> =
            ports.iter().map(|port| (port.number.0, port.name.text().into_owned())).collect();
        assert_eq!(seen, [(1, "p3".to_owned()), (2, "p1".to_owned())]);
        assert_eq!(lab.slicer.datapath_id(B), Some(2 << 48 | 1));
        // Port 1 of the slice is the real third.
        lab.add(A, "in_port=1,actions=output:2");
        assert_eq!(lab.ports(3, &frame("ip")), [1]);
        assert_eq!(lab.ports(1, &frame("ip")), Vec::<u32>::new());
        lab.add(A, "actions=FLOOD");
        assert_eq!(lab.ports(1, &frame("ip")), [3]);
        let Reply::PortStats(stats) = multipart(&mut lab, A, Request::PortStats(PortNumber::ANY))
        else {
            panic!()
        };
        let mut seen: Vec<_> = stats.iter().map(|one| (one.port.0, one.rx_packets)).collect();
        seen.sort_unstable();
        assert_eq!(seen, [(1, 1), (2, 2)]);
    }
}

#[test]
fn ports_that_come_and_go_keep_their_numbers() {
    let all = netloom_slicing::Space::default();
    let mut lab = Lab::new(Version::V13, vec![slice("red", vec![all])]);
    lab.add(A, "actions=FLOOD");
    lab.told.clear();
    lab.port_gone(2);
    let told = lab.told(A);
    assert!(matches!(&told[..], [Message::PortStatus(status)] if status.port.number.0 == 2));
    lab.port_added(7);
    let told = lab.told(A);
    assert!(matches!(&told[..], [Message::PortStatus(status)] if status.port.number.0 == 5));
    lab.port_added(2);
    let told = lab.told(A);
    assert!(matches!(&told[..], [Message::PortStatus(status)] if status.port.number.0 == 2));
    // Floods go by the new port, too.
    assert_eq!(lab.ports(1, &frame("ip")), [2, 3, 4, 7]);
}

#[test]
fn statistics_of_a_rule_are_sums_over_its_entries() {
    for version in [Version::V10, Version::V13] {
        let mut lab = two(version);
        lab.add(B, "actions=drop");
        lab.add(A, "cookie=0x55,priority=9,actions=FLOOD");
        assert_eq!(lab.entries(), 3);
        lab.ports(1, &frame("ip"));
        lab.ports(3, &frame("ip"));
        lab.ports(3, &frame("ip"));
        let request = FlowRequest::new(any(version));
        let Reply::Flow(flows) = multipart(&mut lab, A, Request::Flow(request.clone())) else {
            panic!()
        };
        let [flow] = &flows[..] else { panic!("{flows:?}") };
        assert_eq!((flow.cookie, flow.priority, flow.packets, flow.bytes), (0x55, 9, 3, 180));
        assert_eq!(flow.matching, any(version));
        let said = match lab.flow(FlowCommand::Add, "actions=FLOOD") {
            Message::FlowMod(change) => change.instructions,
            _ => panic!(),
        };
        assert_eq!(flow.instructions, said);
        let Reply::Aggregate(sums) = multipart(&mut lab, A, Request::Aggregate(request)) else {
            panic!()
        };
        assert_eq!((sums.packets, sums.bytes, sums.flows), (3, 180, 1));
    }
}

#[test]
fn packets_go_to_their_slice_with_its_numbers() {
    for version in [Version::V10, Version::V13] {
        let mut lab = Lab::new(
            version,
            vec![slice("red", vec![tagged(&[3, 1], 10)]), slice("blue", vec![tagged(&[3], 20)])],
        );
        if version == Version::V13 {
            lab.add(A, "cookie=7,priority=0,actions=CONTROLLER:65535");
        }
        lab.told.clear();
        lab.frame(3, &frame("tcp,dl_vlan=10"));
        let told = lab.told(A);
        let [Message::PacketIn(packet)] = &told[..] else { panic!("{told:?}") };
        assert_eq!(packet.in_port(), Some(PortNumber(1)));
        assert_eq!(packet.cookie, if version == Version::V13 { 7 } else { u64::MAX });
        assert_eq!(packet.data, frame("tcp,dl_vlan=10"));
        // Packets of no slice go nowhere.
        lab.frame(1, &frame("tcp,dl_vlan=20"));
        lab.frame(3, &frame("tcp"));
        assert!(lab.told(A).is_empty() && lab.told(B).is_empty());
    }
}

#[test]
fn buffers_are_used_once_and_by_whom_they_were_given_to() {
    for version in [Version::V10, Version::V13] {
        let mut lab = Lab::with(
            version,
            vec![slice("red", vec![at(&[1, 2])]), slice("blue", vec![at(&[3, 4])])],
            16,
        );
        lab.add(A, "priority=0,actions=CONTROLLER:100");
        let mut large = frame("tcp");
        large.resize(300, 0);
        let mut told = vec![];
        for _ in 0..3 {
            lab.frame(1, &large);
            told.extend(lab.told(A));
        }
        let buffers: Vec<u32> = told
            .iter()
            .map(|one| match one {
                Message::PacketIn(packet) => packet.buffer,
                other => panic!("{other:?}"),
            })
            .collect();
        let out = |buffer, port| {
            let actions = vec![netloom_openflow::Action::output(PortNumber(port))];
            let in_port = PortNumber(1);
            Message::PacketOut(netloom_openflow::PacketOut {
                buffer,
                in_port,
                actions,
                data: vec![],
            })
        };
        let unknown = Reason::BadRequestBufferUnknown;
        assert_eq!(lab.refused(B, out(buffers[0], 2)).reason, unknown);
        lab.frames.clear();
        assert_eq!(lab.ask(A, out(buffers[0], 2)), []);
        assert_eq!(lab.frames.len(), 1);
        assert_eq!(lab.refused(A, out(buffers[0], 2)).reason, unknown);
        // A flow mod with a buffer sends it through the tables, once.
        lab.frames.clear();
        let Message::FlowMod(mut change) =
            lab.flow(FlowCommand::Add, "priority=5,actions=output:2")
        else {
            panic!()
        };
        change.buffer = buffers[1];
        assert_eq!(lab.ask(A, Message::FlowMod(change.clone())), []);
        assert_eq!(lab.frames.len(), 1, "{:?}", lab.refused);
        assert_eq!(lab.refused(A, Message::FlowMod(change)).reason, unknown);
    }
}

#[test]
fn barriers_echoes_and_errors_are_each_slices_own() {
    for version in [Version::V10, Version::V13] {
        let mut lab = two(version);
        assert_eq!(lab.ask(A, Message::BarrierRequest), [Message::BarrierReply]);
        assert_eq!(lab.ask(B, Message::EchoRequest(vec![1])), [Message::EchoReply(vec![1])]);
        assert!(lab.told.is_empty());
        let request = Message::FeaturesReply(netloom_openflow::switch::Features {
            datapath_id: 0,
            buffers: 0,
            tables: 0,
            auxiliary: 0,
            capabilities: Default::default(),
            actions: 0,
            ports: vec![],
        });
        assert_eq!(lab.refused(A, request).reason, Reason::BadRequestBadType);
    }
}

#[test]
fn an_error_of_the_switch_comes_back_with_the_slices_bytes() {
    let mut lab = two(Version::V13);
    let Message::FlowMod(mut change) = lab.flow(FlowCommand::Add, "actions=output:1") else {
        panic!()
    };
    let goto = netloom_openflow::Instruction::GotoTable(200);
    change.instructions.push(goto);
    let answers = lab.ask(A, Message::FlowMod(change));
    let [Message::Error(error)] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!(error.reason(Version::V13), Some(Reason::BadInstructionBadTableId));
    assert_eq!(error.data[4..8], 77u32.to_be_bytes());
    assert_eq!(lab.entries(), 0);
    assert_eq!(lab.slicer.counters(A).rules, 0);
}

#[test]
fn roles_are_each_slices_own() {
    let mut lab = two(Version::V13);
    let ask = |role, generation| Message::RoleRequest(RoleMessage { role, generation });
    let reply = |role, generation| Message::RoleReply(RoleMessage { role, generation });
    assert_eq!(lab.ask(A, ask(Role::NoChange, 0)), [reply(Role::Equal, u64::MAX)]);
    assert_eq!(lab.ask(A, ask(Role::Master, 5)), [reply(Role::Master, 5)]);
    assert_eq!(lab.ask(B, ask(Role::Master, 2)), [reply(Role::Master, 2)]);
    assert_eq!(lab.refused(A, ask(Role::Slave, 4)).reason, Reason::RoleRequestFailedStale);
    assert_eq!(lab.ask(A, ask(Role::Slave, 6)), [reply(Role::Slave, 6)]);
    let change = lab.flow(FlowCommand::Add, "actions=drop");
    assert_eq!(lab.refused(A, change).reason, Reason::BadRequestIsSlave);
}

#[test]
fn a_controller_of_another_version_is_closed() {
    let mut lab = two(Version::V13);
    let out = lab.slicer.connected(0, A, Version::V10);
    assert_eq!(out, [Out::Close { slice: A, reason: CloseReason::Version }]);
    let out = lab.slicer.connected(0, SliceId(9), Version::V13);
    assert_eq!(out, [Out::Close { slice: SliceId(9), reason: CloseReason::NoSlice }]);
}

#[test]
fn tables_offer_metadata_without_the_tag() {
    let mut lab = two(Version::V13);
    let Reply::TableFeatures(tables) = multipart(&mut lab, A, Request::TableFeatures(vec![]))
    else {
        panic!()
    };
    assert_eq!(tables.len(), 4);
    for table in tables {
        assert_eq!((table.metadata_match, table.metadata_write), (u64::MAX >> 10, u64::MAX >> 10));
    }
}
