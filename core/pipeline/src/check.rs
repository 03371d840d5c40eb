//! Whether what a controller asks for can be done, and the error if not (section 7.4.4).

use netloom_openflow::matching::{Prerequisite, VID_PRESENT};
use netloom_openflow::{Action, Detour, Field, Instruction, Oxm, PortNumber, Reason, Version};

use crate::headers::{MPLS, PBB, VLAN};

type Checked = Result<(), Reason>;

/// What a check needs to know of the switch.
pub(crate) struct Known<'a> {
    /// How many tables there are.
    pub(crate) tables: u8,
    /// Whether a group exists.
    pub(crate) group: &'a dyn Fn(u32) -> bool,
    /// Whether a meter exists.
    pub(crate) meter: &'a dyn Fn(u32) -> bool,
    /// Whether the tables may be an output: in packet-outs alone.
    pub(crate) tables_as_port: bool,
}

/// Known fields of a packet when an action is reached, with values.
struct State {
    fields: Vec<Oxm>,
    /// A header was removed, so that what follows it is not known.
    open: bool,
}

impl State {
    fn set(&mut self, field: Field, value: u128) {
        self.fields.retain(|oxm| oxm.field != field);
        self.fields.push(Oxm::exact(field, value));
    }

    /// A new outer header hides the fields of those behind it.
    fn hide(&mut self, ethertype: u16) {
        self.fields.retain(|oxm| {
            matches!(oxm.field, Field::InPort | Field::VlanVid | Field::EthDst | Field::EthSrc)
        });
        self.set(Field::EthType, u128::from(ethertype));
        self.open = false;
    }

    fn fulfils(&self, needs: Prerequisite) -> bool {
        let find = |field| self.fields.iter().find(|oxm| oxm.field == field);
        match needs {
            Prerequisite::None => true,
            Prerequisite::Has(field) => find(field).is_some(),
            Prerequisite::Vlan => {
                self.open || find(Field::VlanVid).is_some_and(|vid| vid.value & VID_PRESENT != 0)
            }
            Prerequisite::Is(field, values) => match find(field) {
                Some(oxm) => oxm.is_exact() && values.contains(&oxm.value),
                None => self.open,
            },
        }
    }
}

/// Checks the instructions of a flow entry in a table.
pub(crate) fn instructions(
    all: &[Instruction],
    fields: &[Oxm],
    version: Version,
    table: u8,
    known: &Known<'_>,
) -> Checked {
    for (index, instruction) in all.iter().enumerate() {
        let number = instruction.number();
        // Section 5.9: a list has at most one instruction of each type.
        if all.iter().take(index).any(|before| before.number() == number) {
            return Err(Reason::BadInstructionUnsupInst);
        }
        match instruction {
            Instruction::GotoTable(next) if *next <= table || *next >= known.tables => {
                return Err(Reason::BadInstructionBadTableId);
            }
            Instruction::Meter(meter) if !(known.meter)(*meter) => {
                return Err(Reason::MeterModFailedInvalidMeter);
            }
            Instruction::ApplyActions(actions) => {
                list(actions, fields, version, true, known)?;
            }
            Instruction::WriteActions(actions) => {
                refuse_experimenters(actions)?;
                // Their order is that of the action set, not of the list.
                let moves = actions.iter().any(changes_headers);
                list(actions, fields, version, !moves, known)?;
            }
            Instruction::Experimenter { .. } => return Err(Reason::BadInstructionBadExperimenter),
            _ => {}
        }
    }
    Ok(())
}

/// An action set has no place for an experimenter's action (section 5.10 orders the others), so it would never be done.
pub(crate) fn refuse_experimenters(actions: &[Action]) -> Checked {
    match actions.iter().any(|action| matches!(action, Action::Experimenter { .. })) {
        true => Err(Reason::BadActionBadExperimenter),
        false => Ok(()),
    }
}

fn changes_headers(action: &Action) -> bool {
    matches!(
        action,
        Action::PushVlan(_)
            | Action::PopVlan
            | Action::PushMpls(_)
            | Action::PopMpls(_)
            | Action::PushPbb(_)
            | Action::PopPbb
    )
}

/// Checks actions that are done in this order; `strict`: fields to set must have their prerequisites.
pub(crate) fn list(
    actions: &[Action],
    fields: &[Oxm],
    version: Version,
    strict: bool,
    known: &Known<'_>,
) -> Checked {
    let mut state = State { fields: fields.to_vec(), open: !strict };
    actions.iter().try_for_each(|action| match version {
        Version::V10 => action_10(action, known),
        Version::V13 => action_13(action, &mut state, known),
    })
}

fn action_10(action: &Action, known: &Known<'_>) -> Checked {
    match action {
        Action::Output { port, .. } => output(*port, known),
        // openflow.h of 1.0 allows a physical port, or the packet's own (`ofp_action_enqueue`).
        Action::Enqueue { port, .. } => match *port {
            PortNumber::IN_PORT => Ok(()),
            port if port.is_reserved() => Err(Reason::BadActionBadOutPort),
            port => output(port, known),
        },
        Action::SetVlanVid(vid) if *vid > 0xfff => Err(Reason::BadActionBadArgument),
        Action::SetVlanPcp(pcp) if *pcp > 7 => Err(Reason::BadActionBadArgument),
        // `nw_tos` has the DSCP in its upper six bits; the lower two, now ECN, are to be zero.
        Action::SetNwTos(tos) if tos & 3 != 0 => Err(Reason::BadActionBadArgument),
        _ => either(action, known),
    }
}

fn either(action: &Action, known: &Known<'_>) -> Checked {
    match action {
        Action::Experimenter { .. } => match Detour::of(action) {
            Some(detour) => output(detour.to, known),
            None => Err(Reason::BadActionBadExperimenter),
        },
        Action::Group(group) if !(known.group)(*group) => Err(Reason::BadActionBadOutGroup),
        _ => Ok(()),
    }
}

fn action_13(action: &Action, state: &mut State, known: &Known<'_>) -> Checked {
    match action {
        Action::Output { port, .. } => return output(*port, known),
        Action::SetField(oxm) => return set_field(oxm, state),
        Action::PushVlan(ethertype) => {
            allowed(VLAN.contains(ethertype))?;
            state.set(Field::VlanVid, VID_PRESENT);
        }
        Action::PushMpls(ethertype) => {
            allowed(MPLS.contains(ethertype))?;
            state.hide(*ethertype);
        }
        Action::PushPbb(ethertype) => {
            allowed(*ethertype == PBB)?;
            state.hide(*ethertype);
        }
        Action::PopMpls(ethertype) => {
            state.hide(*ethertype);
            // Of what follows the label only the ethertype is known.
            state.open = true;
        }
        Action::PopVlan => {
            state.fields.retain(|oxm| oxm.field != Field::VlanVid);
            state.open = true;
        }
        // The frame within has addresses, tags and a type of its own: nothing of it is known.
        Action::PopPbb => *state = State { fields: vec![], open: true },
        _ => return either(action, known),
    }
    Ok(())
}

fn allowed(argument: bool) -> Checked {
    if argument { Ok(()) } else { Err(Reason::BadActionBadArgument) }
}

fn output(port: PortNumber, known: &Known<'_>) -> Checked {
    match port {
        PortNumber::TABLE if known.tables_as_port => Ok(()),
        PortNumber::TABLE => Err(Reason::BadActionBadOutPort),
        PortNumber(0) | PortNumber::ANY => Err(Reason::BadActionBadOutPort),
        // Numbers between OFPP_MAX and the reserved ports have no meaning; a port that only is not there yet
        // is accepted, since an entry may be added before its port comes.
        PortNumber(number) if number > PortNumber::MAX.0 && number < PortNumber::IN_PORT.0 => {
            Err(Reason::BadActionBadOutPort)
        }
        _ => Ok(()),
    }
}

fn set_field(oxm: &Oxm, state: &mut State) -> Checked {
    // Extension headers are a summary of the packet, which has no bytes of its own to set.
    if oxm.field == Field::Ipv6Exthdr {
        return Err(Reason::BadActionBadSetType);
    }
    // A tag is taken away by a pop.
    if oxm.field == Field::VlanVid && oxm.value & VID_PRESENT == 0 {
        return Err(Reason::BadActionBadSetArgument);
    }
    if !state.fulfils(oxm.field.needs()) {
        return Err(Reason::BadActionMatchInconsistent);
    }
    state.set(oxm.field, oxm.value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(fields: &[Oxm], actions: &[Action]) -> Checked {
        let known = Known {
            tables: 4,
            group: &|group| group == 1,
            meter: &|meter| meter == 1,
            tables_as_port: false,
        };
        let apply = [Instruction::ApplyActions(actions.to_vec())];
        instructions(&apply, fields, Version::V13, 0, &known)
    }

    fn set(field: Field, value: u128) -> Action {
        Action::SetField(Oxm::exact(field, value))
    }

    #[test]
    fn fields_to_set_need_what_they_are_of() {
        let ip = [Oxm::exact(Field::EthType, 0x800)];
        let tcp = [ip[0], Oxm::exact(Field::IpProto, 6)];
        let inconsistent = Err(Reason::BadActionMatchInconsistent);
        assert_eq!(check(&[], &[set(Field::Ipv4Src, 1)]), inconsistent);
        assert_eq!(check(&ip, &[set(Field::Ipv4Src, 1)]), Ok(()));
        assert_eq!(check(&ip, &[set(Field::TcpSrc, 1)]), inconsistent);
        assert_eq!(check(&tcp, &[set(Field::TcpSrc, 1)]), Ok(()));
        let push = Action::PushMpls(0x8847);
        assert_eq!(check(&tcp, &[push.clone(), set(Field::TcpSrc, 1)]), inconsistent);
        assert_eq!(check(&[], &[push.clone(), set(Field::MplsLabel, 1)]), Ok(()));
        let pop = Action::PopMpls(0x800);
        assert_eq!(check(&[], &[push, pop, set(Field::Ipv4Src, 1)]), Ok(()));
        assert_eq!(check(&[], &[set(Field::VlanPcp, 1)]), inconsistent);
        assert_eq!(check(&[], &[Action::PushVlan(0x8100), set(Field::VlanPcp, 1)]), Ok(()));
        assert_eq!(check(&[], &[set(Field::TunnelId, 1)]), Ok(()));
    }

    #[test]
    fn arguments() {
        let bad = Err(Reason::BadActionBadArgument);
        assert_eq!(check(&[], &[Action::PushVlan(0x800)]), bad);
        assert_eq!(check(&[], &[Action::PushMpls(0x800)]), bad);
        assert_eq!(check(&[], &[Action::PushPbb(0x800)]), bad);
        let out = |port| check(&[], &[Action::output(PortNumber(port))]);
        assert_eq!(out(1), Ok(()));
        assert_eq!(out(0), Err(Reason::BadActionBadOutPort));
        assert_eq!(out(0xffff_ff01), Err(Reason::BadActionBadOutPort));
        assert_eq!(out(PortNumber::TABLE.0), Err(Reason::BadActionBadOutPort));
        assert_eq!(out(0xffff_ffff), Err(Reason::BadActionBadOutPort));
        assert_eq!(check(&[], &[Action::Group(1)]), Ok(()));
        assert_eq!(check(&[], &[Action::Group(2)]), Err(Reason::BadActionBadOutGroup));
        let vid = check(&[], &[set(Field::VlanVid, 0)]);
        assert_eq!(vid, Err(Reason::BadActionBadSetArgument));
    }

    #[test]
    fn instructions_of_a_table() {
        let known = Known {
            tables: 4,
            group: &|_| true,
            meter: &|meter| meter == 1,
            tables_as_port: false,
        };
        let of = |all: &[Instruction]| instructions(all, &[], Version::V13, 2, &known);
        assert_eq!(of(&[Instruction::GotoTable(3)]), Ok(()));
        let table = Err(Reason::BadInstructionBadTableId);
        assert_eq!(of(&[Instruction::GotoTable(2)]), table);
        assert_eq!(of(&[Instruction::GotoTable(4)]), table);
        assert_eq!(of(&[Instruction::Meter(2)]), Err(Reason::MeterModFailedInvalidMeter));
        let twice = [Instruction::ClearActions, Instruction::ClearActions];
        assert_eq!(of(&twice), Err(Reason::BadInstructionUnsupInst));
    }
}
