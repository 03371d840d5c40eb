//! Actions on packets, and their checksums (sections 5.12 and 5.13).

use netloom_openflow::flow::FlowCommand;
use netloom_openflow::{
    Action, Field, FlowMod, Instruction, Match, Message, Oxm, PortNumber, Version,
};

use super::bench::Bench;
use super::frames::*;

fn set(field: Field, value: u128) -> Action {
    Action::SetField(Oxm::exact(field, value))
}

/// The frame after these actions on frames with these fields.
fn after(fields: &[(Field, u128)], actions: &[Action], frame: &[u8]) -> Vec<u8> {
    let mut bench = Bench::new(Version::V13);
    let fields = fields.iter().map(|(field, value)| Oxm::exact(*field, *value)).collect();
    let mut actions = actions.to_vec();
    actions.push(Action::output(PortNumber(2)));
    let change = FlowMod {
        instructions: vec![Instruction::ApplyActions(actions)],
        ..FlowMod::new(FlowCommand::Add, Match::Oxm(fields))
    };
    bench.done(&Message::FlowMod(change));
    bench.one(1, frame).bytes
}

const IP: (Field, u128) = (Field::EthType, 0x800);
const IP6: (Field, u128) = (Field::EthType, 0x86dd);

#[test]
fn checksums_stay_right_or_wrong() {
    let tcp = (Field::IpProto, 6);
    for action in [
        set(Field::Ipv4Src, 0x0b0c_0d0e),
        set(Field::Ipv4Dst, 0),
        set(Field::IpDscp, 46),
        set(Field::IpEcn, 3),
        set(Field::TcpSrc, 0xffff),
        set(Field::TcpDst, 0),
        Action::SetNwTtl(1),
        Action::DecNwTtl,
    ] {
        let frame = tcp4(1000, 80);
        let changed = after(&[IP, tcp], std::slice::from_ref(&action), &frame);
        assert_ne!(changed, frame);
        assert!(is_right(&changed), "{action:?}");
        let mut wrong = frame;
        wrong[50] ^= 1;
        assert!(!is_right(&after(&[IP, tcp], &[action], &wrong)));
    }
    let v6 = after(&[IP6, tcp], &[set(Field::Ipv6Src, 77), set(Field::TcpDst, 9)], &tcp6(1, 2));
    assert!(is_right(&v6));
    let label =
        after(&[IP6], &[set(Field::Ipv6Flabel, 0xfffff), set(Field::IpDscp, 46)], &tcp6(1, 2));
    assert!(is_right(&label));
    assert_eq!(label[14..18], [0x6b, 0x8f, 0xff, 0xff]);
}

#[test]
fn udp_without_a_checksum_stays_without_one() {
    let udp = (Field::IpProto, 17);
    let mut frame = udp4(1000, 53);
    assert!(is_right(&after(&[IP, udp], &[set(Field::UdpDst, 54)], &frame)));
    frame[40..42].fill(0);
    let changed = after(&[IP, udp], &[set(Field::UdpDst, 54), set(Field::Ipv4Src, 7)], &frame);
    assert_eq!(changed[40..42], [0, 0]);
}

#[test]
fn tags_are_pushed_with_what_was_there() {
    let frame = tcp4(1, 2);
    let pushed = after(&[IP], &[Action::PushVlan(0x8100)], &frame);
    assert_eq!(pushed, tagged(&frame, 0, 0));
    let twice = after(&[IP], &[Action::PushVlan(0x88a8)], &tagged(&frame, 100, 5));
    assert_eq!(twice[12..20], [0x88, 0xa8, 0xa0, 100, 0x81, 0, 0xa0, 100]);
    let popped =
        after(&[IP, (Field::VlanVid, 0x1064)], &[Action::PopVlan], &tagged(&frame, 100, 5));
    assert_eq!(popped, frame);
    let vid = [Action::PushVlan(0x8100), set(Field::VlanVid, 0x1007), set(Field::VlanPcp, 3)];
    assert_eq!(after(&[IP], &vid, &frame), tagged(&frame, 7, 3));
}

#[test]
fn labels_are_pushed_with_the_ttl() {
    let frame = tcp4(1, 2);
    let one = after(&[IP], &[Action::PushMpls(0x8847), set(Field::MplsLabel, 77)], &frame);
    assert_eq!(one[12..18], [0x88, 0x47, 0, 4, 0xd1, 64]);
    let mpls = (Field::EthType, 0x8847);
    let two = after(&[mpls], &[Action::PushMpls(0x8848)], &one);
    assert_eq!(two[12..22], [0x88, 0x48, 0, 4, 0xd0, 64, 0, 4, 0xd1, 64]);
    let copied = after(&[mpls], &[Action::SetMplsTtl(9), Action::CopyTtlIn], &one);
    assert_eq!((copied[17], copied[26]), (9, 9));
    let back = after(&[mpls], &[Action::PopMpls(0x0800)], &copied);
    assert!(is_right(&back));
    let out =
        after(&[mpls], &[Action::SetMplsTtl(9), Action::CopyTtlOut, Action::DecMplsTtl], &one);
    assert_eq!((out[17], out[26]), (63, 64));
}

#[test]
fn service_tags_carry_the_whole_frame() {
    let frame = tagged(&tcp4(1, 2), 5, 0);
    let isid = [Action::PushPbb(0x88e7), set(Field::PbbIsid, 0x12_3456)];
    let pushed = after(&[], &isid, &frame);
    assert_eq!(pushed[..12], frame[..12]);
    assert_eq!(pushed[12..18], [0x88, 0xe7, 0, 0x12, 0x34, 0x56]);
    assert_eq!(pushed[18..], frame);
    assert_eq!(after(&[(Field::EthType, 0x88e7)], &[Action::PopPbb], &pushed), frame);
}

#[test]
fn sctp_has_the_checksum_of_its_new_ports() {
    let mut segment = vec![0, 1, 0, 2, 9, 9, 9, 9, 0, 0, 0, 0, 1, 0, 0, 4];
    let frame = ethernet(0x0800, &ipv4(132, 64, &segment));
    let fields = [IP, (Field::IpProto, 132)];
    let changed = after(&fields, &[set(Field::SctpDst, 7)], &frame);
    segment[3] = 7;
    // Computed bit by bit.
    let mut crc = u32::MAX;
    for byte in &segment {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
        }
    }
    assert_eq!(changed[42..46], (!crc).to_le_bytes());
}

#[test]
fn icmp_arp_and_neighbours() {
    let echo = summed(ethernet(0x0800, &ipv4(1, 64, &[8, 0, 0, 0, 0, 1, 0, 1])));
    let icmp = [IP, (Field::IpProto, 1)];
    let changed = after(&icmp, &[set(Field::Icmpv4Type, 0), set(Field::Icmpv4Code, 3)], &echo);
    assert_eq!(changed[34..36], [0, 3]);
    assert!(is_right(&changed));
    let mut ask = vec![135, 0, 0, 0, 0, 0, 0, 0];
    ask.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
    ask.extend([1, 1, 2, 0, 0, 0, 0, 0xa]);
    let ask = summed(ethernet(0x86dd, &ipv6(58, &ask)));
    let nd = [IP6, (Field::IpProto, 58), (Field::Icmpv6Type, 135)];
    let actions = [set(Field::Ipv6NdTarget, 5), set(Field::Ipv6NdSll, 0x0200_0000_0077)];
    let changed = after(&nd, &actions, &ask);
    assert!(is_right(&changed));
    assert_eq!((changed[77], changed[85]), (5, 0x77));
    let actions = [set(Field::ArpOp, 2), set(Field::ArpTpa, 0x0a00_0009)];
    let changed = after(&[(Field::EthType, 0x806)], &actions, &arp());
    assert_eq!((changed[21], &changed[38..42]), (2, &[10, 0, 0, 9][..]));
}

#[test]
fn what_a_packet_lacks_is_not_changed() {
    let frame = arp();
    let open = [Action::PushMpls(0x8847), Action::PopMpls(0x0806)];
    let mut actions = open.to_vec();
    actions.extend([Action::DecNwTtl, Action::SetNwTtl(3), Action::DecMplsTtl, Action::CopyTtlIn]);
    actions.extend([Action::PopVlan, Action::PopPbb, Action::SetMplsTtl(3)]);
    assert_eq!(after(&[], &actions, &frame), frame);
}
