//! Actions and instructions as text.

use super::field::{Fields, mac, named, print_value, value};
use super::{Result, TextError, number, parts, port, unknown, wrong};
use crate::action::NO_BUFFER;
use crate::matching::VID_PRESENT;
use crate::{Action, Detour, Field, Instruction, Oxm, PortNumber, Version};

/// What actions are read for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Context {
    pub(super) version: Version,
    /// The IP protocol of the match, for ports.
    pub(super) protocol: Option<u128>,
}

impl Context {
    pub(super) fn new(version: Version, fields: &Fields) -> Context {
        Context { version, protocol: fields.protocol() }
    }
}

/// `name`, `name:argument`, `name=argument` or `name(argument)`.
fn split(text: &str) -> (&str, &str) {
    let end = text.find([':', '=', '(']).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let argument = match rest.strip_prefix('(') {
        Some(inside) => inside.strip_suffix(')').unwrap_or(inside),
        None => rest.get(1..).unwrap_or(""),
    };
    (name, argument)
}

/// Instructions: what is done at once, and the rest.
pub(super) fn instructions(text: &str, context: Context) -> Result<Vec<Instruction>> {
    let mut all = vec![];
    let mut apply = vec![];
    for part in parts(text, &[',', ' ']) {
        let (name, argument) = split(part);
        let instruction = match name {
            // In OpenFlow, packets drop where there is nothing to do.
            "drop" => continue,
            "meter" => Instruction::Meter(number(name, argument)?),
            "goto_table" => Instruction::GotoTable(number(name, argument)?),
            "clear_actions" => Instruction::ClearActions,
            "write_metadata" => {
                let (value, mask) =
                    argument.split_once('/').unwrap_or((argument, "0xffffffffffffffff"));
                Instruction::WriteMetadata {
                    value: number(name, value)?,
                    mask: number(name, mask)?,
                }
            }
            "write_actions" => Instruction::WriteActions(actions(argument, context)?),
            "apply_actions" => {
                apply.extend(actions(argument, context)?);
                continue;
            }
            _ => {
                apply.push(action(part, context)?);
                continue;
            }
        };
        if context.version == Version::V10 {
            return lacks(name, context);
        }
        all.push(instruction);
    }
    if !apply.is_empty() {
        all.push(Instruction::ApplyActions(apply));
    }
    // Their order in the text means nothing (section 5.9); equal entries become equal messages.
    all.sort_by_key(Instruction::order);
    Ok(all)
}

fn lacks<T>(word: &str, context: Context) -> Result<T> {
    Err(TextError::Version { word: word.to_owned(), version: context.version })
}

/// Actions, separated by commas.
pub(super) fn actions(text: &str, context: Context) -> Result<Vec<Action>> {
    let all = parts(text, &[',', ' ']);
    all.into_iter().filter(|part| *part != "drop").map(|part| action(part, context)).collect()
}

fn action(text: &str, context: Context) -> Result<Action> {
    let (name, argument) = split(text);
    if let Some(action) = output(name, argument)? {
        return Ok(action);
    }
    let v10 = context.version == Version::V10;
    let action = match name {
        "set_field" => set_field(argument)?,
        "mod_vlan_vid" => {
            let vid: u16 = number(name, argument)?;
            either(v10, Action::SetVlanVid(vid), Field::VlanVid, u128::from(vid) | VID_PRESENT)
        }
        "mod_vlan_pcp" => {
            let pcp: u8 = number(name, argument)?;
            either(v10, Action::SetVlanPcp(pcp), Field::VlanPcp, u128::from(pcp))
        }
        "strip_vlan" | "pop_vlan" if v10 => Action::StripVlan,
        "strip_vlan" | "pop_vlan" => Action::PopVlan,
        "mod_dl_src" | "mod_dl_dst" => set_mac(name, argument, v10)?,
        "mod_nw_src" | "mod_nw_dst" => set_v4(name, argument, v10)?,
        "mod_nw_tos" => {
            let tos: u8 = number(name, argument)?;
            either(v10, Action::SetNwTos(tos), Field::IpDscp, u128::from(tos >> 2))
        }
        "mod_tp_src" | "mod_tp_dst" => set_port(name, argument, context)?,
        "mod_nw_ttl" => Action::SetNwTtl(number(name, argument)?),
        "dec_ttl" | "dec_nw_ttl" => Action::DecNwTtl,
        "set_mpls_ttl" => Action::SetMplsTtl(number(name, argument)?),
        "dec_mpls_ttl" => Action::DecMplsTtl,
        "copy_ttl_out" => Action::CopyTtlOut,
        "copy_ttl_in" => Action::CopyTtlIn,
        "push_vlan" => Action::PushVlan(number(name, argument)?),
        "push_mpls" => Action::PushMpls(number(name, argument)?),
        "pop_mpls" => Action::PopMpls(number(name, argument)?),
        "push_pbb" => Action::PushPbb(number(name, argument)?),
        "pop_pbb" => Action::PopPbb,
        "set_queue" => Action::SetQueue(number(name, argument)?),
        "group" => Action::Group(number(name, argument)?),
        _ => return unknown(text),
    };
    match crate::action::ActionId::of(&action).number(context.version) {
        Some(_) => Ok(action),
        None => lacks(name, context),
    }
}

/// 1.0's action, or the set-field of 1.3.
fn either(v10: bool, action: Action, field: Field, value: u128) -> Action {
    if v10 { action } else { Action::SetField(Oxm::exact(field, value)) }
}

/// The actions that send; `None` if it is another.
fn output(name: &str, argument: &str) -> Result<Option<Action>> {
    let to = |port| Ok(Some(Action::output(port)));
    match name.to_ascii_lowercase().as_str() {
        "output" => to(port(name, argument)?),
        "controller" => {
            let length = argument.strip_prefix("max_len=").unwrap_or(argument);
            let max_len = if length.is_empty() { NO_BUFFER } else { number(name, length)? };
            Ok(Some(Action::Output { port: PortNumber::CONTROLLER, max_len }))
        }
        "enqueue" => {
            let Some((by, queue)) = argument.split_once([':', ',']) else {
                return wrong(name, argument, "port and queue");
            };
            let (port, queue) = (port(name, by.trim())?, number(name, queue.trim())?);
            Ok(Some(Action::Enqueue { port, queue }))
        }
        "in_port" | "table" | "normal" | "flood" | "all" | "local" | "any" => to(port(name, name)?),
        // `ovs-ofctl(8)` takes a port's number alone for output.
        word if word.starts_with(|letter: char| letter.is_ascii_digit()) => to(port(name, name)?),
        _ => Ok(None),
    }
}

fn set_field(argument: &str) -> Result<Action> {
    let Some((text, name)) = argument.split_once("->") else {
        return wrong("set_field", argument, "value->field");
    };
    let Some(field) = named(name) else { return unknown(name) };
    Ok(Action::SetField(Oxm::exact(field, value(field, name, text)?)))
}

fn set_mac(name: &str, argument: &str, v10: bool) -> Result<Action> {
    let Some(number) = mac(argument) else { return wrong(name, argument, "MAC address") };
    let [.., a, b, c, d, e, f] = number.to_be_bytes();
    let bytes = [a, b, c, d, e, f];
    Ok(match name {
        "mod_dl_src" => either(v10, Action::SetDlSrc(bytes), Field::EthSrc, number),
        _ => either(v10, Action::SetDlDst(bytes), Field::EthDst, number),
    })
}

fn set_v4(name: &str, argument: &str, v10: bool) -> Result<Action> {
    let number = value(Field::Ipv4Src, name, argument)?;
    let [.., a, b, c, d] = number.to_be_bytes();
    let address = u32::from_be_bytes([a, b, c, d]);
    Ok(match name {
        "mod_nw_src" => either(v10, Action::SetNwSrc(address), Field::Ipv4Src, number),
        _ => either(v10, Action::SetNwDst(address), Field::Ipv4Dst, number),
    })
}

fn set_port(name: &str, argument: &str, context: Context) -> Result<Action> {
    let port: u16 = number(name, argument)?;
    let source = name == "mod_tp_src";
    if context.version == Version::V10 {
        return Ok(if source { Action::SetTpSrc(port) } else { Action::SetTpDst(port) });
    }
    // 1.0 sets the port of any protocol, 1.3 has a field for each.
    let field = match (context.protocol, source) {
        (Some(6), true) => Field::TcpSrc,
        (Some(6), false) => Field::TcpDst,
        (Some(17), true) => Field::UdpSrc,
        (Some(17), false) => Field::UdpDst,
        (Some(132), true) => Field::SctpSrc,
        (Some(132), false) => Field::SctpDst,
        _ => return Err(TextError::Missing { what: "tcp, udp or sctp" }),
    };
    Ok(Action::SetField(Oxm::exact(field, u128::from(port))))
}

fn mac_text(bytes: &[u8; 6]) -> String {
    let number = bytes.iter().fold(0, |number, byte| number << 8 | u128::from(*byte));
    print_value(Field::EthSrc, number)
}

/// An action as text.
pub fn print_action(action: &Action) -> String {
    match action {
        Action::Output { port: PortNumber::CONTROLLER, max_len } => match *max_len {
            NO_BUFFER => "CONTROLLER".to_owned(),
            length => format!("CONTROLLER:{length}"),
        },
        Action::Output { port, .. } if port.is_reserved() => port.to_string(),
        Action::Output { port, .. } => format!("output:{port}"),
        Action::SetVlanVid(vid) => format!("mod_vlan_vid:{vid}"),
        Action::SetVlanPcp(pcp) => format!("mod_vlan_pcp:{pcp}"),
        Action::StripVlan => "strip_vlan".to_owned(),
        Action::SetDlSrc(address) => format!("mod_dl_src:{}", mac_text(address)),
        Action::SetDlDst(address) => format!("mod_dl_dst:{}", mac_text(address)),
        Action::SetNwSrc(address) => {
            format!("mod_nw_src:{}", std::net::Ipv4Addr::from(*address))
        }
        Action::SetNwDst(address) => {
            format!("mod_nw_dst:{}", std::net::Ipv4Addr::from(*address))
        }
        Action::SetNwTos(tos) => format!("mod_nw_tos:{tos}"),
        Action::SetTpSrc(port) => format!("mod_tp_src:{port}"),
        Action::SetTpDst(port) => format!("mod_tp_dst:{port}"),
        Action::Enqueue { port, queue } => format!("enqueue:{port}:{queue}"),
        Action::CopyTtlOut => "copy_ttl_out".to_owned(),
        Action::CopyTtlIn => "copy_ttl_in".to_owned(),
        Action::SetMplsTtl(ttl) => format!("set_mpls_ttl({ttl})"),
        Action::DecMplsTtl => "dec_mpls_ttl".to_owned(),
        Action::PushVlan(ethertype) => format!("push_vlan:{ethertype:#06x}"),
        Action::PopVlan => "pop_vlan".to_owned(),
        Action::PushMpls(ethertype) => format!("push_mpls:{ethertype:#06x}"),
        Action::PopMpls(ethertype) => format!("pop_mpls:{ethertype:#06x}"),
        Action::SetQueue(queue) => format!("set_queue:{queue}"),
        Action::Group(group) => format!("group:{group}"),
        Action::SetNwTtl(ttl) => format!("mod_nw_ttl:{ttl}"),
        Action::DecNwTtl => "dec_ttl".to_owned(),
        Action::SetField(oxm) => {
            format!("set_field:{}->{}", print_value(oxm.field, oxm.value), oxm.field)
        }
        Action::PushPbb(ethertype) => format!("push_pbb:{ethertype:#06x}"),
        Action::PopPbb => "pop_pbb".to_owned(),
        Action::Experimenter { experimenter, .. } => match Detour::of(action) {
            Some(detour) => format!("detour(mtu={},to={})", detour.mtu, detour.to.0),
            None => format!("experimenter:{experimenter:#x}"),
        },
    }
}

pub(super) fn print_actions(actions: &[Action]) -> String {
    actions.iter().map(print_action).collect::<Vec<_>>().join(",")
}

/// Instructions as text; `drop` if there are none.
pub fn print_instructions(instructions: &[Instruction]) -> String {
    let one = |instruction: &Instruction| match instruction {
        Instruction::GotoTable(table) => format!("goto_table:{table}"),
        Instruction::WriteMetadata { value, mask } => {
            format!("write_metadata:{value:#x}/{mask:#x}")
        }
        Instruction::WriteActions(actions) => {
            format!("write_actions({})", print_actions(actions))
        }
        Instruction::ApplyActions(actions) => print_actions(actions),
        Instruction::ClearActions => "clear_actions".to_owned(),
        Instruction::Meter(meter) => format!("meter:{meter}"),
        Instruction::Experimenter { experimenter, .. } => {
            format!("experimenter:{experimenter:#x}")
        }
    };
    let all: Vec<String> = instructions.iter().map(one).filter(|text| !text.is_empty()).collect();
    // Also of actions of which there are none.
    if all.is_empty() { "drop".to_owned() } else { all.join(",") }
}
