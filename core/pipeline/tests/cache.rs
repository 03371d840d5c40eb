//! The search agrees with trying all entries, and a trace holds for every packet that agrees in what was consulted.

use netloom_openflow::flow::FlowCommand;
use netloom_openflow::group::GroupCommand;
use netloom_openflow::{
    Action, Field, FlowMod, Instruction, Match, Message, Oxm, PortNumber, Version, text,
};
use netloom_pipeline::{FlowKey, Rule};
use proptest::prelude::*;

use super::bench::Bench;
use super::frames::*;

/// Fields of entries, from few values so that they meet packets.
pub fn fields() -> impl Strategy<Value = Vec<Oxm>> {
    let one = (0..7usize, 0..4u128, 0..3usize);
    proptest::collection::vec(one, 0..4).prop_map(|picked| {
        let mut fields: Vec<Oxm> = vec![];
        for (field, value, mask) in picked {
            let (field, base) = [
                (Field::InPort, 1),
                (Field::EthType, 0x0800),
                (Field::Ipv4Dst, 0x0a00_0000),
                (Field::IpProto, 6),
                (Field::TcpDst, 80),
                (Field::VlanVid, 0x1000),
                (Field::EthDst, 0x0200_0000_0008),
            ][field];
            let ip = [Field::Ipv4Dst, Field::IpProto, Field::TcpDst];
            let has = |fields: &[Oxm], field| fields.iter().any(|oxm| oxm.field == field);
            if has(&fields, field) {
                continue;
            }
            if ip.contains(&field) && !has(&fields, Field::EthType) {
                fields.push(Oxm::exact(Field::EthType, 0x0800));
            }
            if field == Field::TcpDst && !has(&fields, Field::IpProto) {
                fields.push(Oxm::exact(Field::IpProto, 6));
            }
            let value = match field {
                Field::EthType | Field::IpProto => base,
                _ => base + value,
            };
            let mask = [field.full(), field.full() & !3, field.full() & !1][mask];
            fields.push(match field.maskable() && mask != field.full() {
                true => Oxm::masked(field, value & mask, mask),
                false => Oxm::exact(field, value),
            });
        }
        // A wrong order or value is refused; such entries are left out.
        fields
    })
}

pub fn frame() -> impl Strategy<Value = (u32, Vec<u8>)> {
    (1..4u32, 0..4u8, 0..4u16, 0..4u16, 0..3usize).prop_map(|(port, host, vid, tcp_port, kind)| {
        let mut frame = match kind {
            0 => arp(),
            1 => udp4(80, 80 + tcp_port),
            _ => tcp4(1, 80 + tcp_port),
        };
        frame[5] = 8 + host;
        if kind > 0 {
            frame[33] = host;
        }
        (port, if vid > 0 { tagged(&frame, vid, 0) } else { frame })
    })
}

/// The best of all entries.
fn by_hand<'a>(rules: impl Iterator<Item = &'a Rule>, key: &FlowKey) -> Option<&'a Rule> {
    rules
        .filter(|rule| rule.pattern.matches(key))
        .max_by_key(|rule| (rule.priority, std::cmp::Reverse(rule.id.number)))
}

proptest! {
    #[test]
    fn the_search_is_that_by_hand_and_consulted_bits_decide(
        rules in proptest::collection::vec((fields(), 0..4u16, 2..4u32), 1..20),
        gone in proptest::collection::vec(any::<prop::sample::Index>(), 0..5),
        frames in proptest::collection::vec(frame(), 2..20),
    ) {
        let mut bench = Bench::new(Version::V13);
        let mut sent = vec![];
        for (fields, priority, port) in rules {
            let actions = vec![Action::output(PortNumber(port))];
            let change = FlowMod {
                priority,
                instructions: vec![Instruction::ApplyActions(actions)],
                ..FlowMod::new(FlowCommand::Add, Match::Oxm(fields))
            };
            if bench.refused(&Message::FlowMod(change.clone())).is_none() {
                sent.push(change);
            }
        }
        for index in gone {
            if !sent.is_empty() {
                let command = FlowCommand::DeleteStrict;
                bench.done(&Message::FlowMod(FlowMod { command, ..index.get(&sent).clone() }));
            }
        }
        let mut seen: Vec<(FlowKey, FlowKey, Option<netloom_pipeline::RuleId>)> = vec![];
        for (port, bytes) in frames {
            let (trace, _) = bench.frame(port, &bytes);
            let step = &trace.steps[0];
            let expected = by_hand(bench.switch.rules(), &step.key).map(|rule| rule.id);
            prop_assert_eq!(step.rule, expected);
            for (consulted, key, rule) in &seen {
                if step.key.masked(consulted) == *key {
                    prop_assert_eq!(step.rule, *rule, "the same in all that was consulted");
                }
            }
            seen.push((trace.consulted, step.key.masked(&trace.consulted), step.rule));
        }
    }
}

/// What an entry of the first table does, by number.
pub fn doing(kind: usize, port: u32) -> Vec<Instruction> {
    let set = |field, value| Action::SetField(Oxm::exact(field, value));
    if kind == 8 {
        return vec![Instruction::ApplyActions(vec![Action::output(PortNumber::FLOOD)])];
    }
    let (edit, next) = match kind {
        0 => (vec![], false),
        1 => (vec![set(Field::EthDst, 0x0200_0000_000a)], true),
        2 => (vec![Action::PushVlan(0x8100)], true),
        3 => (vec![Action::PopVlan], true),
        4 => (vec![Action::PushMpls(0x8847), Action::PopMpls(0x0800)], true),
        5 => (vec![set(Field::TunnelId, 5), Action::Group(1)], true),
        6 => (vec![Action::DecNwTtl], false),
        _ => (vec![Action::PushVlan(0x8100), set(Field::VlanVid, 0x1002)], true),
    };
    let mut actions = edit;
    actions.push(Action::output(PortNumber(port)));
    let mut all = vec![Instruction::ApplyActions(actions)];
    if next {
        all.push(Instruction::GotoTable(1));
    }
    all
}

proptest! {
    #[test]
    fn a_trace_holds_for_all_that_agree_in_what_was_consulted(
        first in proptest::collection::vec((fields(), 0..4u16, 0..8usize), 1..8),
        second in proptest::collection::vec((fields(), 0..4u16, 2..5u32), 1..8),
        frames in proptest::collection::vec(frame(), 2..30),
    ) {
        let mut bench = Bench::new(Version::V13);
        let buckets = vec![2, 3].into_iter().map(|port| {
            netloom_openflow::Bucket::new(1, vec![Action::output(PortNumber(port))])
        });
        bench.done(&Message::GroupMod(netloom_openflow::GroupMod {
            command: netloom_openflow::group::GroupCommand::Add,
            kind: netloom_openflow::group::GroupType::Select,
            group: 1,
            buckets: buckets.collect(),
        }));
        for (table, rules) in [
            (0, first.into_iter().map(|(f, p, kind)| (f, p, doing(kind, 4))).collect::<Vec<_>>()),
            (1, second.into_iter().map(|(f, p, port)| (f, p, doing(0, port))).collect()),
        ] {
            for (fields, priority, instructions) in rules {
                let change = FlowMod {
                    table,
                    priority,
                    instructions,
                    ..FlowMod::new(FlowCommand::Add, Match::Oxm(fields))
                };
                // A list of fields that is not valid is refused.
                bench.refused(&Message::FlowMod(change));
            }
        }
        let mut cached: Vec<(FlowKey, netloom_pipeline::Trace)> = vec![];
        for (port, bytes) in frames {
            let (trace, _) = bench.frame(port, &bytes);
            let key = trace.steps[0].key;
            for (before, known) in &cached {
                if key.masked(&known.consulted) == before.masked(&known.consulted) {
                    prop_assert_eq!(&trace.effects, &known.effects);
                    prop_assert_eq!(&trace.drops, &known.drops);
                    let rules = |trace: &netloom_pipeline::Trace| {
                        trace.steps.iter().map(|step| step.rule).collect::<Vec<_>>()
                    };
                    prop_assert_eq!(rules(&trace), rules(known));
                }
            }
            if trace.uncacheable.is_none() {
                cached.push((key, trace));
            }
        }
    }
}

#[test]
fn cached_packets_are_counted_as_others() {
    let mut bench = Bench::new(Version::V13);
    let change = FlowMod {
        idle_timeout: 5,
        instructions: vec![Instruction::ApplyActions(vec![Action::output(PortNumber(2))])],
        ..FlowMod::new(FlowCommand::Add, Match::default())
    };
    bench.done(&Message::FlowMod(change));
    let (trace, _) = bench.frame(1, &tcp4(1, 2));
    assert_eq!(trace.uncacheable, None);
    let later = bench.now + 4 * super::bench::SECOND;
    bench.switch.credit(&trace, PortNumber(1), 9, 900, later);
    let rule = bench.switch.rules().next().unwrap();
    assert_eq!((rule.packets, rule.bytes), (10, 970));
    // Its idle timeout counts from the last cached packet.
    bench.pass(8);
    assert_eq!(bench.switch.rules().count(), 1);
    bench.pass(1);
    assert_eq!(bench.switch.rules().count(), 0);
}

/// Everything that counts bytes counts them where a tag or label has been pushed or removed.
#[test]
fn cached_packets_are_counted_with_what_they_have_grown_by() {
    let counted = |cached: bool| {
        let mut bench = Bench::new(Version::V13);
        for said in [
            "in_port=1,actions=push_vlan:0x8100,push_mpls:0x8847,output:2,goto_table:3",
            "table=3,actions=pop_mpls:0x800,group:7",
        ] {
            let change = text::flow(FlowCommand::Add, said, Version::V13).unwrap();
            if said.contains("group") {
                let group =
                    "group_id=7,type=all,bucket=actions=pop_vlan,output:3,bucket=actions=output:4";
                let group = text::group(GroupCommand::Add, group).unwrap();
                bench.done(&Message::GroupMod(group));
            }
            bench.done(&Message::FlowMod(change));
        }
        let frame = tagged(&tcp4(1, 2), 5, 0);
        let bytes = u64::try_from(frame.len()).unwrap();
        let (trace, _) = bench.frame(1, &frame);
        if cached {
            bench.switch.credit(&trace, PortNumber(1), 9, 9 * bytes, bench.now);
        } else {
            (0..9).for_each(|_| drop(bench.frame(1, &frame)));
        }
        let switch = &bench.switch;
        let rules: Vec<_> = switch.rules().map(|rule| (rule.packets, rule.bytes)).collect();
        let groups: Vec<_> = switch.groups().map(|group| (group.counters, group.buckets)).collect();
        let ports = [1, 2, 3, 4].map(|port| switch.port_counters(PortNumber(port)).unwrap().0);
        (rules, groups, ports)
    };
    assert_eq!(counted(true), counted(false));
}

/// A hundred thousand entries with eight masks are found and removed.
#[test]
fn many_entries() {
    let mut bench = Bench::new(Version::V13);
    for index in 0..100_000u128 {
        let bits = 24 + u32::try_from(index % 8).unwrap();
        let mask = u128::from(u32::MAX << (32 - bits));
        let address = (0x0a00_0000 + (index << 8)) & mask;
        let fields =
            vec![Oxm::exact(Field::EthType, 0x800), Oxm::masked(Field::Ipv4Dst, address, mask)];
        let change = FlowMod {
            priority: u16::try_from(bits).unwrap(),
            ..FlowMod::new(FlowCommand::Add, Match::Oxm(fields))
        };
        bench.done(&Message::FlowMod(change));
    }
    assert_eq!(bench.switch.rules().count(), 100_000);
    let (trace, _) = bench.frame(1, &tcp4(1, 2));
    assert!(trace.steps[0].rule.is_some());
    let delete = FlowMod { table: 0, ..FlowMod::new(FlowCommand::Delete, Match::default()) };
    bench.done(&Message::FlowMod(delete));
    assert_eq!(bench.switch.rules().count(), 0);
}

/// Forwarding without OpenFlow holds for the same addresses until something else is learned, or forgotten.
#[test]
fn what_was_learned_holds_until_it_changes() {
    let options = netloom_pipeline::Options {
        fail_mode: netloom_pipeline::FailMode::Standalone,
        ..netloom_pipeline::Options::default()
    };
    let mut bench = Bench::with(Version::V13, options);
    bench.switch.disconnect(super::bench::CONTROLLER, &mut Default::default());
    let between = |from: u8, to: u8| {
        let mut frame = tcp4(1, 2);
        (frame[5], frame[11]) = (to, from);
        frame
    };
    let sent = |trace: &netloom_pipeline::Trace| {
        let ports = trace.effects.iter().map(|effect| match effect {
            netloom_pipeline::Effect::Send { port, .. } => port.0,
            other => panic!("{other:?}"),
        });
        ports.collect::<Vec<_>>()
    };
    let (flooded, _) = bench.frame(1, &between(7, 8));
    assert_eq!((sent(&flooded), flooded.uncacheable), (vec![2, 3, 4], None));
    let generation = bench.switch.generation();
    let (again, _) = bench.frame(1, &between(7, 8));
    assert_eq!((again.effects, bench.switch.generation()), (flooded.effects, generation));
    // The other end is learned, and then what was flooded is not.
    let (back, _) = bench.frame(2, &between(8, 7));
    assert!(bench.switch.generation() > generation && sent(&back) == [1]);
    let (known, _) = bench.frame(1, &between(7, 8));
    assert_eq!((sent(&known), known.uncacheable), (vec![2], None));
    assert!(known.consulted.get(Field::EthSrc) == Field::EthSrc.full());
    // It moves; what was forwarded before that does not bring it back.
    let generation = bench.switch.generation();
    bench.frame(3, &between(8, 7));
    assert!(bench.switch.generation() > generation);
    bench.switch.credit(&back, PortNumber(2), 1, 60, bench.now);
    assert_eq!(bench.ports(1, &between(7, 8)), [3]);
    // A forwarded frame keeps its address known; an address not seen for long is forgotten.
    bench.switch.credit(&known, PortNumber(1), 1, 60, bench.now + 200 * super::bench::SECOND);
    let generation = bench.switch.generation();
    bench.pass(302);
    assert!(bench.switch.generation() > generation);
    assert_eq!(bench.ports(4, &between(9, 7)), [1]);
    assert_eq!(bench.ports(1, &between(7, 8)), [2, 3, 4]);
}
