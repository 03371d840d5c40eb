//! Messages to bytes and back: every kind, changed at random, and in parts.

use netloom_openflow::multipart::{FlowRequest, FlowStats, Gather, GatherError, segments};
use netloom_openflow::{
    Instruction, Message, MultipartReply, MultipartRequest, Reply, Request, Version, decode, encode,
};
use proptest::prelude::*;

use super::outside::try_message;
use super::samples::samples;

#[test]
fn every_message_comes_back_as_it_was() {
    for sample in samples() {
        let bytes = encode(sample.version, 7, &sample.message).expect(&sample.name);
        assert_eq!(try_message(&bytes), Some(sample.message), "{}", sample.name);
        let (header, _) = decode(&bytes).unwrap();
        assert_eq!((header.xid, header.version()), (7, Some(sample.version)));
    }
}

#[test]
fn every_kind_of_message_has_a_sample() {
    for (version, last) in [(Version::V10, 21), (Version::V13, 29)] {
        let has = |kind| {
            let of = |s: &super::samples::Sample| {
                s.version == version && s.message.number(version) == Some(kind)
            };
            samples().iter().any(of)
        };
        assert_eq!((0..=last).find(|kind| !has(*kind)), None);
    }
}

#[test]
fn no_message_is_accepted_when_it_is_cut_or_extended() {
    for sample in samples() {
        let whole = encode(sample.version, 7, &sample.message).unwrap();
        for length in 8..whole.len() {
            let mut cut = whole[..length].to_vec();
            cut[2..4].copy_from_slice(&u16::try_from(length).unwrap().to_be_bytes());
            try_message(&cut);
            // The header promises more than there is.
            assert!(decode(&whole[..length]).is_err());
        }
    }
}

proptest! {
    #[test]
    fn any_change_is_refused_or_comes_back(
        index in 0..1000usize,
        changes in proptest::collection::vec((4..200usize, any::<u8>()), 1..6),
    ) {
        let all = samples();
        let sample = &all[index % all.len()];
        let mut bytes = encode(sample.version, 1, &sample.message).unwrap();
        for (at, value) in changes {
            let at = at % bytes.len();
            // The length stays.
            if at != 2 && at != 3 {
                bytes[at] = value;
            }
        }
        try_message(&bytes);
    }

    #[test]
    fn any_bytes_are_refused_or_come_back(
        version in prop_oneof![Just(1u8), Just(4)],
        kind in 0..31u8,
        body in proptest::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..200),
    ) {
        let length = u16::try_from(body.len() + 8).unwrap().to_be_bytes();
        let mut bytes = vec![version, kind, length[0], length[1], 0, 0, 0, 1];
        bytes.extend(body);
        try_message(&bytes);
    }
}

fn flows(count: u64) -> Vec<FlowStats> {
    let stats = samples().into_iter().find_map(|sample| match sample.message {
        Message::MultipartReply(MultipartReply { body: Reply::Flow(flows), .. })
            if sample.version == Version::V13 =>
        {
            flows.into_iter().next()
        }
        _ => None,
    });
    let stats = stats.unwrap();
    (0..count).map(|cookie| FlowStats { cookie, ..stats.clone() }).collect()
}

#[test]
fn a_long_answer_goes_in_parts_and_becomes_one() {
    let all = Reply::Flow(flows(5000));
    let parts = segments(Version::V13, all.clone()).unwrap();
    assert!(parts.len() > 10);
    let mut gather = Gather::default();
    let mut whole = None;
    for part in parts {
        assert_eq!(whole, None);
        let bytes = encode(Version::V13, 1, &Message::MultipartReply(part.clone())).unwrap();
        whole = gather.reply(part, bytes.len(), 10_000_000).unwrap();
    }
    assert_eq!(whole, Some(all));
    let empty = segments(Version::V10, Reply::Flow(vec![])).unwrap();
    assert_eq!(empty, [MultipartReply { flags: 0, body: Reply::Flow(vec![]) }]);
}

#[test]
fn an_entry_longer_than_a_message_is_refused() {
    let mut long = flows(1);
    let action = netloom_openflow::Action::DecNwTtl;
    long[0].instructions = vec![Instruction::ApplyActions(vec![action; 8190])];
    assert!(segments(Version::V13, Reply::Flow(long)).is_err());
}

#[test]
fn gathering_is_bounded_and_of_one_type() {
    let request = |body| MultipartRequest { flags: 1, body };
    let mut gather = Gather::default();
    let features = || request(Request::TableFeatures(vec![]));
    assert_eq!(gather.request(features(), 600, 1000), Ok(None));
    assert_eq!(gather.request(features(), 600, 1000), Err(GatherError::Overflow { most: 1000 }));
    assert_eq!(gather.request(features(), 600, 1000), Ok(None));
    let flow = request(Request::Flow(FlowRequest::new(Default::default())));
    assert_eq!(gather.request(flow, 60, 1000), Err(GatherError::Mixed));
}
