//! A message of every kind in both versions, with words that `ovs-ofctl ofp-print` says about it.
//!
//! Included by path from the tests of peers, which ask that program.

use netloom_openflow::action::{ActionId, GROUP_ANY};
use netloom_openflow::async_config::AsyncConfig;
use netloom_openflow::flow::{Duration, FlowCommand, FlowFlags, NO_BUFFER, RemovedReason};
use netloom_openflow::group::{GroupCommand, GroupType};
use netloom_openflow::matching::{FieldId, Match10, Wildcards};
use netloom_openflow::meter::{Band, BandKind, MeterCommand, MeterFlags};
use netloom_openflow::multipart::*;
use netloom_openflow::packet::PacketInReason;
use netloom_openflow::port::{Name, PortConfig, PortFeatures, PortReason, PortState};
use netloom_openflow::queue::{Queue, QueueConfig, QueueProperty};
use netloom_openflow::role::{Role, RoleMessage};
use netloom_openflow::switch::{Capabilities, Features, Fragments, SwitchConfig, TableMod};
use netloom_openflow::*;

use Version::{V10, V13};

/// A message and what another program says about it.
pub struct Sample {
    /// Its name, as the name of a file.
    pub name: String,
    /// The version to encode it in.
    pub version: Version,
    /// The message.
    pub message: Message,
    /// Words of `ovs-ofctl ofp-print`.
    pub words: Vec<&'static str>,
}

fn sample(name: &str, version: Version, message: Message, words: &[&'static str]) -> Sample {
    let number = if version == V10 { "10" } else { "13" };
    Sample { name: format!("{name}-{number}"), version, message, words: words.to_vec() }
}

fn both(name: &str, message: Message, words: &[&'static str]) -> [Sample; 2] {
    [V10, V13].map(|version| sample(name, version, message.clone(), words))
}

fn port(number: u32) -> Port {
    Port {
        number: PortNumber(number),
        address: [2, 0, 0, 0, 0, 7],
        name: Name::new("eth7"),
        config: PortConfig::NO_FWD,
        state: PortState::LINK_DOWN,
        current: PortFeatures::FD_1GB | PortFeatures::COPPER,
        advertised: PortFeatures::FD_10GB | PortFeatures::AUTONEG,
        supported: PortFeatures::FD_100MB | PortFeatures::PAUSE,
        peer: PortFeatures::HD_10MB | PortFeatures::FIBER,
        current_speed: 0,
        max_speed: 0,
    }
}

/// TCP from 10.0.1.0/24, in both forms.
fn tcp(version: Version) -> Match {
    match version {
        V10 => Match::V10(Match10 {
            wildcards: Wildcards::ALL
                .without(Wildcards::DL_TYPE | Wildcards::NW_PROTO | Wildcards::TP_DST)
                .with_prefixes(24, 0),
            dl_type: 0x0800,
            nw_proto: 6,
            nw_src: 0x0a00_0100,
            tp_dst: 80,
            ..Match10::default()
        }),
        V13 => Match::Oxm(vec![
            Oxm::exact(Field::EthType, 0x0800),
            Oxm::masked(Field::Ipv4Src, 0x0a00_0100, 0xffff_ff00),
            Oxm::exact(Field::IpProto, 6),
            Oxm::exact(Field::TcpDst, 80),
        ]),
    }
}

fn output(port: u32) -> Action {
    Action::output(PortNumber(port))
}

fn all_actions_10() -> Vec<Action> {
    vec![
        Action::SetVlanVid(100),
        Action::SetVlanPcp(3),
        Action::StripVlan,
        Action::SetDlSrc([2, 0, 0, 0, 0, 1]),
        Action::SetDlDst([2, 0, 0, 0, 0, 2]),
        Action::SetNwSrc(0x0a00_0001),
        Action::SetNwDst(0x0a00_0002),
        Action::SetNwTos(0xb8),
        Action::SetTpSrc(1000),
        Action::SetTpDst(2000),
        Action::Enqueue { port: PortNumber(3), queue: 9 },
        Action::Output { port: PortNumber::CONTROLLER, max_len: 128 },
        output(7),
    ]
}

fn all_actions_13() -> Vec<Action> {
    vec![
        Action::PushVlan(0x8100),
        Action::SetField(Oxm::exact(Field::VlanVid, 0x1064)),
        Action::PopVlan,
        Action::PushMpls(0x8847),
        Action::SetMplsTtl(9),
        Action::DecMplsTtl,
        Action::PopMpls(0x0800),
        Action::SetNwTtl(64),
        Action::DecNwTtl,
        Action::SetField(Oxm::exact(Field::EthDst, 0x0200_0000_0001)),
        Action::SetField(Oxm::exact(Field::Ipv4Dst, 0x0a00_0001)),
        Action::SetQueue(5),
        Action::Group(9),
        Action::Output { port: PortNumber::CONTROLLER, max_len: 200 },
        output(7),
    ]
}

/// One of every message.
pub fn samples() -> Vec<Sample> {
    let mut all = vec![];
    symmetric(&mut all);
    switch(&mut all);
    packets(&mut all);
    flows(&mut all);
    groups_and_meters(&mut all);
    requests(&mut all);
    replies(&mut all);
    roles(&mut all);
    all
}

fn symmetric(all: &mut Vec<Sample>) {
    let hello = Message::Hello(Hello::offering(&[V10, V13]));
    all.extend(both("hello", hello, &["OFPT_HELLO", "version bitmap: 0x01, 0x04"]));
    all.push(sample(
        "hello-without-elements",
        V10,
        Message::Hello(Hello::default()),
        &["OFPT_HELLO"],
    ));
    for version in [V10, V13] {
        let error =
            ErrorMessage::new(version, Reason::BadRequestBadLen, &[version.number(), 2, 0, 9]);
        let words = &["OFPT_ERROR", "OFPBRC_BAD_LEN"];
        all.push(sample("error", version, Message::Error(error), words));
    }
    let echo = Message::EchoRequest(b"ping".to_vec());
    all.extend(both("echo-request", echo, &["OFPT_ECHO_REQUEST", "4 bytes of payload"]));
    let echo = Message::EchoReply(vec![]);
    all.extend(both("echo-reply", echo, &["OFPT_ECHO_REPLY", "0 bytes of payload"]));
    // Nicira's role request.
    let data = [10u32, 2].map(u32::to_be_bytes).concat();
    let vendor = Message::Experimenter { experimenter: 0x2320, data };
    all.extend(both("experimenter", vendor, &["NXT_ROLE_REQUEST", "role=secondary"]));
    all.extend(both("barrier-request", Message::BarrierRequest, &["OFPT_BARRIER_REQUEST"]));
    all.extend(both("barrier-reply", Message::BarrierReply, &["OFPT_BARRIER_REPLY"]));
}

fn switch(all: &mut Vec<Sample>) {
    all.extend(both("features-request", Message::FeaturesRequest, &["OFPT_FEATURES_REQUEST"]));
    let features = Features {
        datapath_id: 0x1_0203_0405_0607,
        buffers: 256,
        tables: 7,
        auxiliary: 0,
        capabilities: Capabilities::FLOW_STATS | Capabilities::QUEUE_STATS,
        actions: 0xfff,
        ports: vec![port(7), port(PortNumber::LOCAL.0)],
    };
    let words = [
        "dpid:0001020304050607",
        "n_tables:7, n_buffers:256",
        "FLOW_STATS QUEUE_STATS",
        "actions: output enqueue set_vlan_vid set_vlan_pcp strip_vlan",
        "7(eth7): addr:02:00:00:00:00:07",
        "current:    1GB-FD COPPER",
        "advertised: 10GB-FD AUTO_NEG",
        "supported:  100MB-FD AUTO_PAUSE",
        "peer:       10MB-HD FIBER",
        "LOCAL(eth7)",
    ];
    let reply = Message::FeaturesReply(features.clone());
    all.push(sample("features-reply", V10, reply, &words));
    let reply =
        Message::FeaturesReply(Features { auxiliary: 3, actions: 0, ports: vec![], ..features });
    let words = ["n_tables:7, n_buffers:256, auxiliary_id:3", "FLOW_STATS QUEUE_STATS"];
    all.push(sample("features-reply", V13, reply, &words));
    all.extend(both("get-config-request", Message::GetConfigRequest, &["GET_CONFIG_REQUEST"]));
    let config = SwitchConfig { fragments: Fragments::Drop, miss_send_len: 200 };
    let words = ["frags=drop miss_send_len=200"];
    all.extend(both("get-config-reply", Message::GetConfigReply(config), &words));
    all.extend(both("set-config", Message::SetConfig(config), &words));
    let status = PortStatus { reason: PortReason::Add, port: port(7) };
    let words = ["OFPT_PORT_STATUS", "ADD: 7(eth7)", "NO_FWD", "LINK_DOWN"];
    all.extend(both("port-status", Message::PortStatus(status), &words));
    let change = PortMod {
        port: PortNumber(3),
        address: [2, 0, 0, 0, 0, 3],
        config: PortConfig::PORT_DOWN,
        mask: PortConfig::PORT_DOWN | PortConfig::NO_RECV,
        advertise: PortFeatures::FD_1GB | PortFeatures::COPPER,
    };
    let words = [
        "port: 3: addr:02:00:00:00:00:03",
        "config: PORT_DOWN",
        "mask:   PORT_DOWN NO_RECV",
        "1GB-FD COPPER",
    ];
    all.extend(both("port-mod", Message::PortMod(change), &words));
    let change = TableMod { table: 3, config: 0 };
    all.push(sample(
        "table-mod",
        V13,
        Message::TableMod(change),
        &["OFPT_TABLE_MOD", "table_id=3"],
    ));
    let request = Message::QueueGetConfigRequest(PortNumber(3));
    all.extend(both("queues-request", request, &["QUEUE_GET_CONFIG_REQUEST", "port=3"]));
    for version in [V10, V13] {
        let mut properties = vec![QueueProperty::MinRate(500)];
        let mut words = vec!["QUEUE_GET_CONFIG_REPLY", "min_rate:50.0%"];
        if version == V13 {
            properties.push(QueueProperty::MaxRate(750));
            words.push("max_rate:75.0%");
        }
        let port = PortNumber(3);
        let queues = vec![Queue { queue: 8, port, properties }];
        let reply = Message::QueueGetConfigReply(QueueConfig { port, queues });
        all.push(sample("queues-reply", version, reply, &words));
    }
}

fn packets(all: &mut Vec<Sample>) {
    let mut data = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5];
    data.resize(60, 0);
    let mut fields = vec![Oxm::exact(Field::InPort, 3)];
    let packet = |fields: &[Oxm], data: &[u8]| {
        Message::PacketIn(PacketIn {
            buffer: 77,
            total_len: 60,
            reason: PacketInReason::Action,
            table: 0,
            cookie: 0,
            fields: fields.to_vec(),
            data: data.to_vec(),
        })
    };
    let words =
        ["total_len=60", "(via action)", "in_port=3", "buffer=0x0000004d", "dl_type=0x88b5"];
    all.extend(both("packet-in", packet(&fields, &data), &words));
    fields.push(Oxm::exact(Field::Metadata, 0xabc));
    fields.push(Oxm::exact(Field::TunnelId, 5));
    let words = ["metadata=0xabc", "tun_id=0x5", "in_port=3"];
    all.push(sample("packet-in-fields", V13, packet(&fields, &data), &words));
    let out = Message::PacketOut(PacketOut {
        buffer: NO_BUFFER,
        in_port: PortNumber::CONTROLLER,
        actions: vec![output(7), Action::output(PortNumber::FLOOD)],
        data,
    });
    let words = ["OFPT_PACKET_OUT", "in_port=CONTROLLER actions=output:7,FLOOD data_len=60"];
    all.extend(both("packet-out", out, &words));
    let out = Message::PacketOut(PacketOut {
        buffer: 5,
        in_port: PortNumber(2),
        actions: vec![],
        data: vec![],
    });
    all.extend(both("packet-out-drop", out, &["in_port=2 actions=drop buffer=0x00000005"]));
}

fn flow(command: FlowCommand, matching: Match, instructions: Vec<Instruction>) -> FlowMod {
    FlowMod {
        cookie: 0x1234,
        idle_timeout: 5,
        hard_timeout: 60,
        priority: 100,
        flags: FlowFlags::SEND_FLOW_REM | FlowFlags::CHECK_OVERLAP,
        instructions,
        ..FlowMod::new(command, matching)
    }
}

fn flows(all: &mut Vec<Sample>) {
    let apply = |actions| vec![Instruction::ApplyActions(actions)];
    let add = flow(FlowCommand::Add, tcp(V10), apply(all_actions_10()));
    let words = [
        "OFPT_FLOW_MOD",
        "ADD priority=100,tcp,nw_src=10.0.1.0/24,tp_dst=80",
        "cookie:0x1234 idle:5 hard:60 send_flow_rem check_overlap",
        "actions=mod_vlan_vid:100,mod_vlan_pcp:3,strip_vlan,mod_dl_src:02:00:00:00:00:01,\
         mod_dl_dst:02:00:00:00:00:02,mod_nw_src:10.0.0.1,mod_nw_dst:10.0.0.2,mod_nw_tos:184,\
         mod_tp_src:1000,mod_tp_dst:2000,enqueue:3:9,CONTROLLER:128,output:7",
    ];
    all.push(sample("flow-add", V10, Message::FlowMod(add), &words));
    let add = FlowMod { table: 3, ..flow(FlowCommand::Add, tcp(V13), apply(all_actions_13())) };
    let words = [
        "ADD table:3 priority=100,tcp,nw_src=10.0.1.0/24,tp_dst=80",
        "cookie:0x1234 idle:5 hard:60 send_flow_rem check_overlap",
        "actions=push_vlan:0x8100,set_field:4196->vlan_vid,pop_vlan,push_mpls:0x8847,set_mpls_ttl(9),\
         dec_mpls_ttl,pop_mpls:0x0800,mod_nw_ttl:64,dec_ttl,set_field:02:00:00:00:00:01->eth_dst,\
         set_field:10.0.0.1->ip_dst,set_queue:5,group:9,CONTROLLER:200,output:7",
    ];
    all.push(sample("flow-add", V13, Message::FlowMod(add), &words));
    let instructions = vec![
        Instruction::Meter(4),
        Instruction::ClearActions,
        Instruction::WriteActions(vec![output(2)]),
        Instruction::WriteMetadata { value: 0x50, mask: 0xf0 },
        Instruction::GotoTable(9),
    ];
    let add = FlowMod {
        flags: FlowFlags::RESET_COUNTS | FlowFlags::NO_PACKET_COUNTS | FlowFlags::NO_BYTE_COUNTS,
        ..flow(FlowCommand::Modify, Match::default(), instructions)
    };
    let words = [
        "MOD",
        "reset_counts no_packet_counts no_byte_counts",
        "actions=meter:4,clear_actions,write_actions(output:2),write_metadata:0x50/0xf0,goto_table:9",
    ];
    all.push(sample("flow-instructions", V13, Message::FlowMod(add), &words));
    let delete = |matching| FlowMod {
        out_port: PortNumber(4),
        flags: FlowFlags::default(),
        ..flow(FlowCommand::DeleteStrict, matching, vec![])
    };
    for version in [V10, V13] {
        let words = ["DEL_STRICT priority=100,tcp,nw_src=10.0.1.0/24,tp_dst=80"];
        let message = Message::FlowMod(delete(tcp(version)));
        all.push(sample("flow-delete-strict", version, message, &words));
    }
    let delete = FlowMod {
        cookie_mask: 0xff,
        out_group: 6,
        table: 0xff,
        ..FlowMod { cookie: 0x34, ..FlowMod::new(FlowCommand::Delete, Match::default()) }
    };
    let words = ["DEL table:255", "cookie:0x34/0xff"];
    all.push(sample("flow-delete", V13, Message::FlowMod(delete), &words));
    matches(all);
    for version in [V10, V13] {
        let removed = Message::FlowRemoved(FlowRemoved {
            cookie: 9,
            priority: 100,
            reason: RemovedReason::IdleTimeout,
            table: if version == V13 { 2 } else { 0 },
            duration: Duration { seconds: 7, nanoseconds: 500_000_000 },
            idle_timeout: 5,
            hard_timeout: if version == V13 { 60 } else { 0 },
            packets: 11,
            bytes: 660,
            matching: tcp(version),
        });
        let words = [
            "tcp,nw_src=10.0.1.0/24,tp_dst=80",
            "reason=idle",
            "duration7.500s idle5",
            "pkts11 bytes660",
        ];
        all.push(sample("flow-removed", version, removed, &words));
    }
}

/// Every field of a match that the other program knows, in flow mods.
fn matches(all: &mut Vec<Sample>) {
    let exact = Oxm::exact;
    let ethertype = |number| exact(Field::EthType, number);
    let protocol = |number| exact(Field::IpProto, number);
    let v6 = 0x2001_0db8_u128 << 96 | 1;
    let cases: Vec<(&str, Vec<Oxm>, &'static str)> = vec![
        ("in-port", vec![exact(Field::InPort, 3)], "in_port=3"),
        ("metadata", vec![Oxm::masked(Field::Metadata, 0x50, 0xf0)], "metadata=0x50/0xf0"),
        (
            "ethernet",
            vec![
                Oxm::masked(Field::EthDst, 0x0100_0000_0000, 0x0100_0000_0000),
                exact(Field::EthSrc, 0x0200_0000_0001),
                ethertype(0x88b5),
            ],
            "dl_src=02:00:00:00:00:01,dl_dst=01:00:00:00:00:00/01:00:00:00:00:00,dl_type=0x88b5",
        ),
        (
            "vlan",
            vec![exact(Field::VlanVid, 0x1064), exact(Field::VlanPcp, 5)],
            "dl_vlan=100,dl_vlan_pcp=5",
        ),
        ("vlan-none", vec![exact(Field::VlanVid, 0)], "vlan_tci=0x0000/0x1fff"),
        ("vlan-any", vec![Oxm::masked(Field::VlanVid, 0x1000, 0x1000)], "vlan_tci=0x1000/0x1000"),
        (
            "ip",
            vec![
                ethertype(0x0800),
                exact(Field::IpDscp, 46),
                exact(Field::IpEcn, 1),
                Oxm::masked(Field::Ipv4Src, 0x0a00_0000, 0xff00_0000),
                exact(Field::Ipv4Dst, 0x0a00_0001),
            ],
            "ip,nw_src=10.0.0.0/8,nw_dst=10.0.0.1,nw_tos=184,nw_ecn=1",
        ),
        (
            "udp",
            vec![
                ethertype(0x0800),
                protocol(17),
                exact(Field::UdpSrc, 53),
                exact(Field::UdpDst, 54),
            ],
            "udp,tp_src=53,tp_dst=54",
        ),
        (
            "sctp",
            vec![
                ethertype(0x0800),
                protocol(132),
                exact(Field::SctpSrc, 1),
                exact(Field::SctpDst, 2),
            ],
            "sctp,tp_src=1,tp_dst=2",
        ),
        (
            "icmp",
            vec![
                ethertype(0x0800),
                protocol(1),
                exact(Field::Icmpv4Type, 8),
                exact(Field::Icmpv4Code, 0),
            ],
            "icmp,icmp_type=8,icmp_code=0",
        ),
        (
            "arp",
            vec![
                ethertype(0x0806),
                exact(Field::ArpOp, 1),
                Oxm::masked(Field::ArpSpa, 0x0a00_0000, 0xff00_0000),
                exact(Field::ArpTpa, 0x0a00_0001),
                exact(Field::ArpSha, 0x0200_0000_0001),
                exact(Field::ArpTha, 0x0200_0000_0002),
            ],
            "arp,arp_spa=10.0.0.0/8,arp_tpa=10.0.0.1,arp_op=1,arp_sha=02:00:00:00:00:01,\
             arp_tha=02:00:00:00:00:02",
        ),
        (
            "ipv6",
            vec![
                ethertype(0x86dd),
                protocol(6),
                Oxm::masked(Field::Ipv6Src, v6 - 1, u128::MAX << 96),
                exact(Field::Ipv6Dst, v6),
                exact(Field::Ipv6Flabel, 0x12345),
                exact(Field::TcpSrc, 443),
            ],
            "tcp6,ipv6_src=2001:db8::/32,ipv6_dst=2001:db8::1,ipv6_label=0x12345,tp_src=443",
        ),
        (
            "nd",
            vec![
                ethertype(0x86dd),
                protocol(58),
                exact(Field::Icmpv6Type, 135),
                exact(Field::Icmpv6Code, 0),
                exact(Field::Ipv6NdTarget, v6),
                exact(Field::Ipv6NdSll, 0x0200_0000_0001),
            ],
            "icmp6,icmp_type=135,icmp_code=0,nd_target=2001:db8::1,nd_sll=02:00:00:00:00:01",
        ),
        (
            "nd-advertisement",
            vec![
                ethertype(0x86dd),
                protocol(58),
                exact(Field::Icmpv6Type, 136),
                exact(Field::Ipv6NdTll, 0x0200_0000_0001),
            ],
            "icmp6,icmp_type=136,nd_tll=02:00:00:00:00:01",
        ),
        (
            "mpls",
            vec![
                ethertype(0x8847),
                exact(Field::MplsLabel, 0xabcde),
                exact(Field::MplsTc, 5),
                exact(Field::MplsBos, 1),
            ],
            "mpls,mpls_label=703710,mpls_tc=5,mpls_bos=1",
        ),
        ("tunnel", vec![Oxm::masked(Field::TunnelId, 7, 0xff)], "tun_id=0x7/0xff"),
    ];
    for (name, fields, words) in cases {
        let change = FlowMod::new(FlowCommand::Add, Match::Oxm(fields));
        all.push(sample(&format!("match-{name}"), V13, Message::FlowMod(change), &[words]));
    }
    // Nothing to compare with: Open vSwitch refuses these fields.
    let beyond = [
        ("pbb", vec![ethertype(0x88e7), Oxm::masked(Field::PbbIsid, 0x12_0000, 0xff_0000)]),
        ("exthdr", vec![ethertype(0x86dd), Oxm::masked(Field::Ipv6Exthdr, 0x11, 0x19)]),
        ("phy-port", vec![exact(Field::InPort, 3), exact(Field::InPhyPort, 4)]),
    ];
    for (name, fields) in beyond {
        let change = FlowMod::new(FlowCommand::Add, Match::Oxm(fields));
        all.push(sample(&format!("match-{name}"), V13, Message::FlowMod(change), &[]));
    }
    let actions = vec![
        Action::CopyTtlOut,
        Action::CopyTtlIn,
        Action::PushPbb(0x88e7),
        Action::SetField(Oxm::exact(Field::PbbIsid, 0x12_3456)),
        Action::PopPbb,
        Action::Experimenter { experimenter: 1, data: vec![0; 8] },
    ];
    let instructions = vec![
        Instruction::ApplyActions(actions),
        Instruction::Experimenter { experimenter: 1, data: vec![1, 2, 3, 4] },
    ];
    let change = FlowMod { instructions, ..FlowMod::new(FlowCommand::Add, Match::default()) };
    all.push(sample("flow-pbb", V13, Message::FlowMod(change), &[]));
    let m = Match10 {
        wildcards: Wildcards(0).with_prefixes(32, 32),
        in_port: PortNumber(3),
        dl_src: [2, 0, 0, 0, 0, 1],
        dl_dst: [2, 0, 0, 0, 0, 2],
        dl_vlan: 100,
        dl_vlan_pcp: 5,
        dl_type: 0x0800,
        nw_tos: 0xb8,
        nw_proto: 17,
        nw_src: 0x0a00_0001,
        nw_dst: 0x0a00_0002,
        tp_src: 53,
        tp_dst: 54,
    };
    let words = "udp,in_port=3,dl_vlan=100,dl_vlan_pcp=5,dl_src=02:00:00:00:00:01,dl_dst=02:00:00:00:00:02,\
                 nw_src=10.0.0.1,nw_dst=10.0.0.2,nw_tos=184,tp_src=53,tp_dst=54";
    let change = FlowMod::new(FlowCommand::Add, Match::V10(m));
    all.push(sample("match-all", V10, Message::FlowMod(change), &[words]));
}

fn buckets() -> Vec<Bucket> {
    vec![
        Bucket {
            weight: 0,
            watch_port: PortNumber(1),
            watch_group: GROUP_ANY,
            actions: vec![output(1)],
        },
        Bucket {
            weight: 0,
            watch_port: PortNumber::ANY,
            watch_group: 4,
            actions: vec![Action::DecNwTtl, output(2)],
        },
    ]
}

fn bands() -> Vec<Band> {
    vec![
        Band { rate: 1000, burst: 100, kind: BandKind::DscpRemark(1) },
        Band { rate: 2000, burst: 200, kind: BandKind::Drop },
    ]
}

fn groups_and_meters(all: &mut Vec<Sample>) {
    let change = |command, kind, group, buckets| {
        Message::GroupMod(GroupMod { command, kind, group, buckets })
    };
    let add = change(GroupCommand::Add, GroupType::FastFailover, 7, buckets());
    let words =
        ["ADD group_id=7,type=ff,bucket=watch_port:1,actions=output:1,bucket=watch_group:4,\
         actions=dec_ttl,output:2"];
    all.push(sample("group-add", V13, add, &words));
    let select = vec![Bucket::new(10, vec![output(1)]), Bucket::new(30, vec![output(2)])];
    let modify = change(GroupCommand::Modify, GroupType::Select, 8, select);
    let words = [
        "MOD group_id=8,type=select,bucket=weight:10,actions=output:1,bucket=weight:30,actions=output:2",
    ];
    all.push(sample("group-modify", V13, modify, &words));
    let delete = change(GroupCommand::Delete, GroupType::All, 0xffff_fffc, vec![]);
    all.push(sample("group-delete", V13, delete, &["DEL group_id=4294967292,type=all"]));
    let flags = MeterFlags::KBPS | MeterFlags::BURST | MeterFlags::STATS;
    let add = MeterMod { command: MeterCommand::Add, flags, meter: 5, bands: bands() };
    let words = [
        "ADD meter=5 kbps burst stats bands=",
        "type=dscp_remark rate=1000 burst_size=100 prec_level=1",
        "type=drop rate=2000 burst_size=200",
    ];
    all.push(sample("meter-add", V13, Message::MeterMod(add), &words));
    let bands = vec![Band {
        rate: 5,
        burst: 0,
        kind: BandKind::Experimenter { experimenter: 1, data: vec![1, 2, 3, 4] },
    }];
    let flags = MeterFlags::PKTPS;
    let add = MeterMod { command: MeterCommand::Modify, flags, meter: 6, bands };
    all.push(sample("meter-experimenter", V13, Message::MeterMod(add), &[]));
}

fn requests(all: &mut Vec<Sample>) {
    let request = |body| Message::MultipartRequest(MultipartRequest { flags: 0, body });
    all.extend(both("desc-request", request(Request::Desc), &["OFPST_DESC request"]));
    all.extend(both("table-request", request(Request::Table), &["OFPST_TABLE request"]));
    for version in [V10, V13] {
        let mut flows = FlowRequest { table: 3, ..FlowRequest::new(tcp(version)) };
        let words = ["OFPST_FLOW request", "table=3", "tcp,nw_src=10.0.1.0/24,tp_dst=80"];
        if version == V13 {
            flows = FlowRequest { cookie: 5, cookie_mask: 0xff, out_group: 8, ..flows };
        }
        all.push(sample("flow-request", version, request(Request::Flow(flows.clone())), &words));
        flows.out_port = PortNumber(4);
        let words = ["OFPST_AGGREGATE request", "out_port=4"];
        all.push(sample("aggregate-request", version, request(Request::Aggregate(flows)), &words));
    }
    let port = PortNumber(3);
    let words = ["OFPST_PORT request", "port_no=3"];
    all.extend(both("port-request", request(Request::PortStats(port)), &words));
    let body = Request::QueueStats { port, queue: 9 };
    all.extend(both("queue-request", request(body), &["OFPST_QUEUE request", "port=3 queue=9"]));
    let cases: [(&str, Request, &[&'static str]); 8] = [
        ("group-stats", Request::GroupStats(7), &["OFPST_GROUP request", "group_id=7"]),
        ("group-desc", Request::GroupDesc, &["OFPST_GROUP_DESC request"]),
        ("group-features", Request::GroupFeatures, &["OFPST_GROUP_FEATURES request"]),
        ("meter-stats", Request::MeterStats(7), &["OFPST_METER request", "meter=7"]),
        ("meter-config", Request::MeterConfig(7), &["OFPST_METER_CONFIG request", "meter=7"]),
        ("meter-features", Request::MeterFeatures, &["OFPST_METER_FEATURES request"]),
        ("table-features", Request::TableFeatures(vec![]), &["OFPST_TABLE_FEATURES request"]),
        ("port-desc", Request::PortDesc, &["OFPST_PORT_DESC request"]),
    ];
    for (name, body, words) in cases {
        all.push(sample(&format!("{name}-request"), V13, request(body), words));
    }
    let body = Request::Experimenter { experimenter: 1, data: vec![0, 0, 0, 1] };
    all.extend(both("experimenter-request", request(body), &[]));
}

fn replies(all: &mut Vec<Sample>) {
    let reply = |body| Message::MultipartReply(MultipartReply { flags: 0, body });
    let desc = Desc {
        manufacturer: Name::new("us"),
        hardware: Name::new("none"),
        software: Name::new("soft"),
        serial: Name::new("1"),
        datapath: Name::new("s1"),
    };
    let words = [
        "Manufacturer: us",
        "Hardware: none",
        "Software: soft",
        "Serial Num: 1",
        "DP Description: s1",
    ];
    all.extend(both("desc-reply", reply(Reply::Desc(Box::new(desc))), &words));
    for version in [V10, V13] {
        let actions = if version == V10 { all_actions_10() } else { all_actions_13() };
        let flow = FlowStats {
            table: 3,
            duration: Duration { seconds: 7, nanoseconds: 500_000_000 },
            priority: 100,
            idle_timeout: 5,
            hard_timeout: 60,
            flags: FlowFlags(if version == V10 { 0 } else { 1 }),
            cookie: 9,
            packets: 11,
            bytes: 660,
            matching: tcp(version),
            instructions: vec![Instruction::ApplyActions(actions)],
        };
        let words = [
            "cookie=0x9, duration=7.500s, table=3, n_packets=11, n_bytes=660, idle_timeout=5, hard_timeout=60",
            "tcp,nw_src=10.0.1.0/24,tp_dst=80",
        ];
        let body = Reply::Flow(vec![flow.clone(), FlowStats { instructions: vec![], ..flow }]);
        all.push(sample("flow-reply", version, reply(body), &words));
        let table = TableStats {
            table: 2,
            name: if version == V10 { Name::new("acl") } else { Name::default() },
            wildcards: if version == V10 { Wildcards::ALL.0 } else { 0 },
            max_entries: if version == V10 { 1000 } else { 0 },
            active: 5,
            lookups: 100,
            matched: 60,
        };
        let words = ["active=5, lookup=100, matched=60"];
        all.push(sample("table-reply", version, reply(Reply::Table(vec![table])), &words));
        let v13 = version == V13;
        let duration = Duration { seconds: 9 * u32::from(v13), nanoseconds: 0 };
        let ports = vec![PortStats {
            rx_packets: 1,
            tx_packets: 2,
            rx_bytes: 3,
            tx_bytes: 4,
            rx_dropped: 5,
            tx_dropped: 6,
            rx_errors: 7,
            tx_errors: 8,
            rx_frame_err: 9,
            rx_over_err: 10,
            rx_crc_err: 11,
            collisions: 12,
            duration,
            ..PortStats::new(PortNumber(3))
        }];
        let words = [
            "rx pkts=1, bytes=3, drop=5, errs=7, frame=9, over=10, crc=11",
            "tx pkts=2, bytes=4, drop=6, errs=8, coll=12",
        ];
        all.push(sample("port-reply", version, reply(Reply::PortStats(ports)), &words));
        let queue = QueueStats {
            port: PortNumber(3),
            queue: 9,
            tx_bytes: 100,
            tx_packets: 10,
            tx_errors: 1,
            duration,
        };
        let words = ["port 3 queue 9: bytes=100, pkts=10, errors=1"];
        all.push(sample("queue-reply", version, reply(Reply::QueueStats(vec![queue])), &words));
    }
    let sums = Aggregate { packets: 11, bytes: 660, flows: 3 };
    let words = ["packet_count=11 byte_count=660 flow_count=3"];
    all.extend(both("aggregate-reply", reply(Reply::Aggregate(sums)), &words));
    let body = Reply::Experimenter { experimenter: 1, data: vec![0, 0, 0, 1] };
    all.extend(both("experimenter-reply", reply(body), &[]));
    replies_13(all);
}

fn replies_13(all: &mut Vec<Sample>) {
    let duration = Duration { seconds: 7, nanoseconds: 500_000_000 };
    let (packets, bytes) = (11, 660);
    let groups = vec![GroupStats {
        group: 7,
        references: 2,
        packets,
        bytes,
        duration,
        buckets: vec![(1, 60), (10, 600)],
    }];
    let desc = vec![GroupDesc { kind: GroupType::FastFailover, group: 7, buckets: buckets() }];
    let group_features = GroupFeatures {
        types: 0xf,
        capabilities: GroupCapabilities::SELECT_WEIGHT | GroupCapabilities::CHAINING,
        max_groups: [1, 2, 3, 4],
        actions: [1, 1 << 25, 0, 0],
    };
    let meters =
        vec![MeterStats { meter: 5, flows: 2, packets, bytes, duration, bands: vec![(1, 60)] }];
    let flags = MeterFlags::KBPS | MeterFlags::BURST;
    let config = vec![MeterConfig { flags, meter: 5, bands: bands() }];
    let meter_features = MeterFeatures {
        max_meters: 100,
        band_types: 0b110,
        capabilities: 0xf,
        max_bands: 8,
        max_color: 0,
    };
    let tables = vec![table_features()];
    let ports = vec![Port { current_speed: 1_000_000, max_speed: 10_000_000, ..port(7) }];
    let cases: [(&str, Reply, &[&'static str]); 8] = [
        (
            "group-stats",
            Reply::GroupStats(groups),
            &[
                "group_id=7,duration=7.500s,ref_count=2,packet_count=11,byte_count=660",
                "bucket1:packet_count=10,byte_count=600",
            ],
        ),
        ("group-desc", Reply::GroupDesc(desc), &["group_id=7,type=ff,bucket=watch_port:1"]),
        (
            "group-features",
            Reply::GroupFeatures(group_features),
            &["Capabilities:  0x5", "max_groups=0x1", "max_groups=0x4", "actions: set_field"],
        ),
        (
            "meter-stats",
            Reply::MeterStats(meters),
            &[
                "meter:5 flow_count:2 packet_in_count:11 byte_in_count:660 duration:7.500s",
                "0: packet_count:1 byte_count:60",
            ],
        ),
        (
            "meter-config",
            Reply::MeterConfig(config),
            &["meter=5 kbps burst bands=", "type=drop rate=2000 burst_size=200"],
        ),
        (
            "meter-features",
            Reply::MeterFeatures(meter_features),
            &[
                "max_meter:100 max_bands:8 max_color:0",
                "band_types: drop dscp_remark",
                "kbps pktps burst stats",
            ],
        ),
        (
            "table-features",
            Reply::TableFeatures(tables),
            &[
                "table 2 (\"acl\")",
                "metadata: match=0xffff write=0xff",
                "max_entries=1000",
                "next tables: 3-4",
            ],
        ),
        (
            "port-desc",
            Reply::PortDesc(ports),
            &["7(eth7): addr:02:00:00:00:00:07", "speed: 1000 Mbps now, 10000 Mbps max"],
        ),
    ];
    for (name, body, words) in cases {
        let message = Message::MultipartReply(MultipartReply { flags: 0, body });
        all.push(sample(&format!("{name}-reply"), V13, message, words));
    }
}

fn table_features() -> TableFeatures {
    let fields =
        |masked| vec![FieldId::new(Field::InPort, false), FieldId::new(Field::EthDst, masked)];
    let actions = || vec![ActionId::Output, ActionId::Group, ActionId::SetField];
    let mut properties = vec![];
    for miss in [false, true] {
        properties.extend([
            TableProperty::Instructions { miss, ids: vec![(1, None), (4, None)] },
            TableProperty::NextTables { miss, tables: vec![3, 4] },
            TableProperty::WriteActions { miss, ids: actions() },
            TableProperty::ApplyActions { miss, ids: actions() },
            TableProperty::WriteSetField { miss, ids: fields(false) },
            TableProperty::ApplySetField { miss, ids: fields(false) },
        ]);
    }
    properties.push(TableProperty::Match(fields(true)));
    properties.push(TableProperty::Wildcards(fields(false)));
    TableFeatures {
        table: 2,
        name: Name::new("acl"),
        metadata_match: 0xffff,
        metadata_write: 0xff,
        config: 0,
        max_entries: 1000,
        properties,
    }
}

fn roles(all: &mut Vec<Sample>) {
    let role = RoleMessage { role: Role::Master, generation: 5 };
    let words = ["OFPT_ROLE_REQUEST", "role=primary generation_id=5"];
    all.push(sample("role-request", V13, Message::RoleRequest(role), &words));
    let role = RoleMessage { role: Role::Slave, generation: 5 };
    all.push(sample(
        "role-reply",
        V13,
        Message::RoleReply(role),
        &["role=secondary generation_id=5"],
    ));
    all.push(sample("async-request", V13, Message::GetAsyncRequest, &["OFPT_GET_ASYNC_REQUEST"]));
    let config = AsyncConfig::default();
    let words = [
        "PACKET_IN: no_match action",
        "PORT_STATUS: add delete modify",
        "FLOW_REMOVED: idle hard delete group_delete",
    ];
    all.push(sample("async-reply", V13, Message::GetAsyncReply(config), &["OFPT_GET_ASYNC_REPLY"]));
    all.push(sample("async-set", V13, Message::SetAsync(config), &words));
}
