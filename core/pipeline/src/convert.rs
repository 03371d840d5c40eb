//! Flow entries of one version, as shown to a controller of the other.
//!
//! What the other version cannot say is left out.

use netloom_openflow::matching::VID_PRESENT;
use netloom_openflow::{Action, Field, Instruction, Match, Oxm, Version};

use crate::rule::Rule;

/// The match of an entry.
pub(crate) fn matching(rule: &Rule, version: Version) -> Match {
    match (version, rule.version) {
        (Version::V10, Version::V13) => Match::V10(rule.matching.to_10().0),
        (Version::V13, Version::V10) => Match::Oxm(rule.matching.to_oxm()),
        _ => rule.matching.clone(),
    }
}

/// What an entry does.
pub(crate) fn instructions(rule: &Rule, version: Version) -> Vec<Instruction> {
    if rule.version == version {
        return rule.said.clone();
    }
    let mut all = vec![];
    for instruction in &rule.said {
        match (version, instruction) {
            (_, Instruction::ApplyActions(actions)) => {
                let actions = actions.iter().flat_map(|action| convert(action, version)).collect();
                all.push(Instruction::ApplyActions(actions));
            }
            (Version::V13, other) => all.push(other.clone()),
            (Version::V10, _) => {}
        }
    }
    all
}

fn mac(bytes: [u8; 6]) -> u128 {
    bytes.iter().fold(0, |number, byte| number << 8 | u128::from(*byte))
}

fn convert(action: &Action, version: Version) -> Vec<Action> {
    match version {
        Version::V13 => to_13(action),
        Version::V10 => to_10(action).into_iter().collect(),
    }
}

fn to_13(action: &Action) -> Vec<Action> {
    let set = |field, value| vec![Action::SetField(Oxm::exact(field, value))];
    match action {
        Action::SetVlanVid(vid) => set(Field::VlanVid, u128::from(*vid & 0xfff) | VID_PRESENT),
        Action::SetVlanPcp(pcp) => set(Field::VlanPcp, u128::from(*pcp & 7)),
        Action::StripVlan => vec![Action::PopVlan],
        Action::SetDlSrc(address) => set(Field::EthSrc, mac(*address)),
        Action::SetDlDst(address) => set(Field::EthDst, mac(*address)),
        Action::SetNwSrc(address) => set(Field::Ipv4Src, u128::from(*address)),
        Action::SetNwDst(address) => set(Field::Ipv4Dst, u128::from(*address)),
        Action::SetNwTos(tos) => set(Field::IpDscp, u128::from(*tos >> 2)),
        // 1.0's action fits every transport protocol; 1.3 has no such field, and shows the most common one.
        Action::SetTpSrc(port) => set(Field::TcpSrc, u128::from(*port)),
        Action::SetTpDst(port) => set(Field::TcpDst, u128::from(*port)),
        Action::Enqueue { port, queue } => vec![Action::SetQueue(*queue), Action::output(*port)],
        other => vec![other.clone()],
    }
}

fn to_10(action: &Action) -> Option<Action> {
    Some(match action {
        Action::PopVlan => Action::StripVlan,
        Action::Output { port, max_len } => {
            port.to_10()?;
            Action::Output { port: *port, max_len: *max_len }
        }
        Action::SetField(oxm) => {
            let bytes = oxm.value.to_be_bytes();
            let [.., a, b, c, d, e, f] = bytes;
            let (address, v4, short) =
                ([a, b, c, d, e, f], u32::from_be_bytes([c, d, e, f]), u16::from_be_bytes([e, f]));
            match oxm.field {
                Field::VlanVid => Action::SetVlanVid(short & 0xfff),
                Field::VlanPcp => Action::SetVlanPcp(f),
                Field::EthSrc => Action::SetDlSrc(address),
                Field::EthDst => Action::SetDlDst(address),
                Field::Ipv4Src => Action::SetNwSrc(v4),
                Field::Ipv4Dst => Action::SetNwDst(v4),
                Field::IpDscp => Action::SetNwTos(f << 2),
                Field::TcpSrc | Field::UdpSrc => Action::SetTpSrc(short),
                Field::TcpDst | Field::UdpDst => Action::SetTpDst(short),
                _ => return None,
            }
        }
        Action::Experimenter { .. } => action.clone(),
        _ => return None,
    })
}
