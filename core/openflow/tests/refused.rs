//! Wrong messages, and the error that the specification wants for each.

use netloom_openflow::flow::FlowCommand;
use netloom_openflow::matching::{Match10, Wildcards};
use netloom_openflow::{
    Action, Field, FlowMod, Instruction, Match, Message, Oxm, PacketOut, PortNumber, Reason,
    Version, decode, encode,
};

use Version::{V10, V13};

/// Why these bytes are refused, as a message of this version and type.
fn refused(version: u8, kind: u8, body: &[u8]) -> Option<Reason> {
    let length = u16::try_from(body.len() + 8).unwrap().to_be_bytes();
    let mut bytes = vec![version, kind, length[0], length[1], 0, 0, 0, 1];
    bytes.extend(body);
    decode(&bytes).err().map(|refused| refused.reason)
}

#[test]
fn headers() {
    assert_eq!(refused(2, 5, &[]), Some(Reason::BadRequestBadVersion));
    assert_eq!(refused(4, 30, &[]), Some(Reason::BadRequestBadType));
    assert_eq!(refused(1, 22, &[]), Some(Reason::BadRequestBadType));
    assert_eq!(refused(4, 5, &[0]), Some(Reason::BadRequestBadLen));
    assert_eq!(refused(4, 9, &[0, 0, 0]), Some(Reason::BadRequestBadLen));
    // A hello of any version is read.
    assert_eq!(refused(9, 0, &[1, 2, 3]), None);
    assert_eq!(decode(&[4, 0, 0]).unwrap_err().header, None);
}

#[test]
fn the_answer_quotes_the_first_64_bytes_of_the_message() {
    let mut bytes = vec![4, 200, 0, 100, 0, 0, 0, 9];
    bytes.resize(120, 3);
    let error = decode(&bytes).unwrap_err();
    let answer = error.answer(V13, &bytes);
    assert_eq!((answer.kind, answer.code), (1, 1));
    assert_eq!(answer.data, bytes[..64]);
    assert_eq!((answer.reason(V13), error.xid()), (Some(Reason::BadRequestBadType), 9));
    let short = [4, 200, 0, 10, 0, 0, 0, 9, 1, 1, 0, 0];
    assert_eq!(decode(&short).unwrap_err().answer(V13, &short).data, short[..10]);
}

#[test]
fn multipart_and_settings() {
    assert_eq!(refused(4, 18, &[0, 14, 0, 0, 0, 0, 0, 0]), Some(Reason::BadRequestBadMultipart));
    assert_eq!(refused(1, 16, &[0, 6, 0, 0]), Some(Reason::BadRequestBadMultipart));
    assert_eq!(refused(4, 9, &[0, 9, 0, 0]), Some(Reason::SwitchConfigFailedBadFlags));
    let role = [0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(refused(4, 24, &role), Some(Reason::RoleRequestFailedBadRole));
    let group = [0, 9, 0, 0, 0, 0, 0, 1];
    assert_eq!(refused(4, 15, &group), Some(Reason::GroupModFailedBadCommand));
    assert_eq!(refused(4, 15, &[0, 0, 9, 0, 0, 0, 0, 1]), Some(Reason::GroupModFailedBadType));
    assert_eq!(refused(4, 29, &[0, 9, 0, 1, 0, 0, 0, 1]), Some(Reason::MeterModFailedBadCommand));
    assert_eq!(refused(4, 29, &[0, 0, 0, 16, 0, 0, 0, 1]), Some(Reason::MeterModFailedBadFlags));
    let band = [0, 0, 0, 1, 0, 0, 0, 1, 0, 9, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(refused(4, 29, &band), Some(Reason::MeterModFailedBadBand));
}

/// The reason for a flow mod whose bytes were changed, or `None` if it was accepted.
fn changed(version: Version, change: &FlowMod, edit: impl Fn(&mut Vec<u8>)) -> Option<Reason> {
    let mut bytes = encode(version, 1, &Message::FlowMod(change.clone())).unwrap();
    edit(&mut bytes);
    decode(&bytes).err().map(|refused| refused.reason)
}

/// The reason for a match that a controller sends.
fn of_match(fields: &[Oxm]) -> Option<Reason> {
    let change = FlowMod::new(FlowCommand::Add, Match::Oxm(fields.to_vec()));
    changed(V13, &change, |_| {})
}

#[test]
fn flow_mods() {
    let any = FlowMod::new(FlowCommand::Add, Match::default());
    let command = changed(V13, &any, |bytes| bytes[25] = 9);
    assert_eq!(command, Some(Reason::FlowModFailedBadCommand));
    let flags = changed(V13, &any, |bytes| bytes[45] = 0x20);
    assert_eq!(flags, Some(Reason::FlowModFailedBadFlags));
    assert_eq!(changed(V13, &any, |bytes| bytes[49] = 0), Some(Reason::BadMatchBadType));
    assert_eq!(changed(V13, &any, |bytes| bytes[51] = 3), Some(Reason::BadMatchBadLen));
    assert_eq!(changed(V13, &any, |bytes| bytes[51] = 9), Some(Reason::BadMatchBadLen));
    let any = FlowMod::new(FlowCommand::Add, Match::V10(Match10::default()));
    let command = changed(V10, &any, |bytes| bytes[57] = 9);
    assert_eq!(command, Some(Reason::FlowModFailedBadCommand));
}

#[test]
fn fields_of_matches() {
    let exact = Oxm::exact;
    assert_eq!(of_match(&[exact(Field::Ipv4Src, 1)]), Some(Reason::BadMatchBadPrereq));
    let wrong = [exact(Field::EthType, 0x86dd), exact(Field::Ipv4Src, 1)];
    assert_eq!(of_match(&wrong), Some(Reason::BadMatchBadPrereq));
    let twice = [exact(Field::InPort, 1), exact(Field::InPort, 1)];
    assert_eq!(of_match(&twice), Some(Reason::BadMatchDupField));
    let value = [exact(Field::VlanVid, 0x1001), exact(Field::VlanPcp, 8)];
    assert_eq!(of_match(&value), Some(Reason::BadMatchBadValue));
    assert_eq!(of_match(&[exact(Field::VlanVid, 5)]), Some(Reason::BadMatchBadValue));
    let no_tag = [exact(Field::VlanVid, 0), exact(Field::VlanPcp, 1)];
    assert_eq!(of_match(&no_tag), Some(Reason::BadMatchBadPrereq));
    let outside = [Oxm::masked(Field::Metadata, 3, 2)];
    assert_eq!(of_match(&outside), Some(Reason::BadMatchBadWildcards));
    let no_masks = [Oxm::masked(Field::InPort, 2, 2)];
    assert_eq!(of_match(&no_masks), Some(Reason::BadMatchBadMask));
    let change = FlowMod::new(FlowCommand::Add, Match::Oxm(vec![exact(Field::InPort, 1)]));
    assert_eq!(changed(V13, &change, |bytes| bytes[54] = 90 << 1), Some(Reason::BadMatchBadField));
    assert_eq!(changed(V13, &change, |bytes| bytes[52] = 0), Some(Reason::BadMatchBadField));
    assert_eq!(changed(V13, &change, |bytes| bytes[55] = 3), Some(Reason::BadMatchBadLen));
}

#[test]
fn actions_and_instructions() {
    let apply = |action| FlowMod {
        instructions: vec![Instruction::ApplyActions(vec![action])],
        ..FlowMod::new(FlowCommand::Add, Match::default())
    };
    let output = apply(Action::output(PortNumber(1)));
    let action = |edit: fn(&mut [u8])| changed(V13, &output, |bytes| edit(&mut bytes[64..]));
    assert_eq!(action(|bytes| bytes[1] = 99), Some(Reason::BadActionBadType));
    assert_eq!(action(|bytes| bytes[3] = 8), Some(Reason::BadActionBadLen));
    assert_eq!(action(|bytes| bytes[3] = 24), Some(Reason::BadActionBadLen));
    let instruction = |edit: fn(&mut [u8])| changed(V13, &output, |bytes| edit(&mut bytes[56..]));
    assert_eq!(instruction(|bytes| bytes[1] = 99), Some(Reason::BadInstructionUnknownInst));
    assert_eq!(instruction(|bytes| bytes[3] = 4), Some(Reason::BadInstructionBadLen));
    let set = |oxm| changed(V13, &apply(Action::SetField(oxm)), |_| {});
    assert_eq!(set(Oxm::exact(Field::InPort, 1)), Some(Reason::BadActionBadSetType));
    let masked = Oxm::masked(Field::Metadata, 1, 1);
    assert_eq!(set(masked), Some(Reason::BadActionBadSetType));
    assert_eq!(set(Oxm::exact(Field::IpDscp, 64)), Some(Reason::BadActionBadSetArgument));
    let dscp = apply(Action::SetField(Oxm::exact(Field::IpDscp, 3)));
    let length = changed(V13, &dscp, |bytes| bytes[71] = 2);
    assert_eq!(length, Some(Reason::BadActionBadSetLen));
}

#[test]
fn what_a_version_lacks_is_not_encoded() {
    let group = Message::GetAsyncRequest;
    assert!(encode(V10, 1, &group).is_err());
    let change = FlowMod::new(FlowCommand::Add, Match::default());
    assert!(encode(V10, 1, &Message::FlowMod(change.clone())).is_err());
    let v10 = Match::V10(Match10 { wildcards: Wildcards::ALL, ..Match10::default() });
    let change = FlowMod { matching: v10, ..change };
    assert!(encode(V13, 1, &Message::FlowMod(change.clone())).is_err());
    assert!(encode(V10, 1, &Message::FlowMod(change)).is_ok());
    let actions = vec![Action::StripVlan];
    let (buffer, in_port, data) = (5, PortNumber(70_000), vec![]);
    let out = Message::PacketOut(PacketOut { buffer, in_port, actions, data });
    assert!(encode(V13, 1, &out).is_err());
    assert!(encode(V10, 1, &out).is_err());
}

#[test]
fn reasons_have_one_pair_of_numbers_each() {
    for reason in Reason::ALL {
        let (kind, code) = reason.numbers(V13);
        let back = Reason::from_numbers(V13, kind, code).unwrap();
        assert!(back == *reason || *reason == Reason::FlowModFailedUnsupported, "{reason:?}");
    }
    for kind in 0..6 {
        for code in 0..9 {
            if let Some(reason) = Reason::from_numbers(V10, kind, code) {
                assert_eq!(reason.numbers(V10), (kind, code));
            }
        }
    }
    assert_eq!(Reason::from_numbers(V10, 3, 5), Some(Reason::FlowModFailedUnsupported));
    assert_eq!(Reason::from_numbers(V10, 1, 9), None);
}
