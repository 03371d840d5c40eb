//! Random slices, rules and packets for property tests.

use netloom_openflow::flow::{FlowCommand, FlowMod};
use netloom_openflow::group::{GroupCommand, GroupType};
use netloom_openflow::matching::VID_PRESENT;
use netloom_openflow::{
    Action, Bucket, Field, GroupMod, Instruction, Match, Message, Oxm, PacketOut, PortNumber,
    Version,
};
use netloom_slicing::{Key, MacMask, Prefix4, Slice, SliceId, Slicing, Space, Vlan};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use crate::integration::lab::{at, slice, tagged};

/// What happens in a case.
#[derive(Clone, Debug)]
pub enum Event {
    /// A controller sends a message.
    Said(SliceId, Message),
    /// A frame comes in.
    Frame(u32, Vec<u8>),
}

#[derive(Clone, Debug)]
pub struct Case {
    pub version: Version,
    pub slices: Vec<Slice>,
    pub events: Vec<Event>,
}

impl Case {
    /// Whether each packet meets one rule at most, and no group.
    pub fn by_one_rule(&self) -> bool {
        self.events.iter().all(|event| match event {
            Event::Said(_, Message::FlowMod(rule)) => !goes_on(&rule.instructions),
            Event::Said(_, Message::GroupMod(_)) => false,
            Event::Said(..) | Event::Frame(..) => true,
        })
    }

    /// Without what takes a packet further than one rule.
    fn without_further_rules(mut self) -> Case {
        self.events.retain(|event| !matches!(event, Event::Said(_, Message::GroupMod(_))));
        for event in &mut self.events {
            if let Event::Said(_, Message::FlowMod(rule)) = event {
                rule.instructions.retain(|one| !goes_on(std::slice::from_ref(one)));
            }
        }
        self
    }
}

fn goes_on(instructions: &[Instruction]) -> bool {
    instructions.iter().any(|instruction| match instruction {
        Instruction::GotoTable(_) => true,
        Instruction::ApplyActions(actions) | Instruction::WriteActions(actions) => {
            actions.iter().any(|action| matches!(action, Action::Group(_)))
        }
        _ => false,
    })
}

fn ports() -> impl Strategy<Value = Option<Vec<PortNumber>>> {
    let some = subsequence(vec![1u32, 2, 3, 4], 1..=3);
    let some = some.prop_map(|all| all.into_iter().map(PortNumber).collect());
    option::weighted(0.8, some)
}

fn vlans() -> impl Strategy<Value = Option<Vec<Vlan>>> {
    let all = vec![Vlan::Untagged, Vlan::Id(10), Vlan::Id(20)];
    option::weighted(0.5, subsequence(all, 1..=2))
}

fn prefix() -> impl Strategy<Value = Option<Prefix4>> {
    let one =
        (select(vec![[10, 0, 0, 1], [10, 0, 1, 1], [10, 1, 0, 1]]), select(vec![16u8, 24, 32]));
    option::weighted(0.2, one.prop_map(|(address, length)| Prefix4 { address, length }))
}

fn mac() -> impl Strategy<Value = Option<MacMask>> {
    let one = (select(vec![1u8, 2]), select(vec![[0xff; 6], [0, 0, 0, 0, 0, 1]]));
    let one = one.prop_map(|(last, mask)| MacMask { address: [2, 0, 0, 0, 0, last], mask });
    option::weighted(0.1, one)
}

fn range() -> impl Strategy<Value = Option<std::ops::RangeInclusive<u16>>> {
    option::weighted(0.4, select(vec![0..=80u16, 80..=80, 81..=100]))
}

prop_compose! {
    fn space()(
        ports in ports(),
        vlans in vlans(),
        mac_destination in mac(),
        ipv4_destination in prefix(),
        ethertype in option::weighted(0.15, select(vec![0x0800u16, 0x0806])),
        protocol in option::weighted(0.25, select(vec![6u8, 17])),
        port_destination in range(),
        v10 in any::<bool>(),
    ) -> Space {
        let mac_destination = mac_destination.filter(|_| !v10);
        let port_destination = port_destination.filter(|_| protocol.is_some());
        let ethertype = ethertype.filter(|kind| protocol.is_none() || *kind == 0x0800);
        Space {
            ports, vlans, mac_destination, ethertype, ipv4_destination, protocol, port_destination,
            ..Space::default()
        }
    }
}

fn tcp(ports: &[u32], range: std::ops::RangeInclusive<u16>) -> Space {
    Space { protocol: Some(6), port_destination: Some(range), ..at(ports) }
}

/// Slices that meet at a port.
fn meeting() -> impl Strategy<Value = Vec<Slice>> {
    select(meetings())
}

/// By VLANs at shared ports; a port of all and one of a VLAN; by ranges of transport ports.
pub fn meetings() -> Vec<Vec<Slice>> {
    let untagged = |ports| Space { vlans: Some(vec![Vlan::Untagged]), ..at(ports) };
    let three =
        |red, blue, green| vec![slice("red", red), slice("blue", blue), slice("green", green)];
    vec![
        three(vec![tagged(&[1, 2], 10)], vec![tagged(&[2, 1, 3], 20)], vec![untagged(&[2, 4])]),
        three(
            vec![at(&[1]), tagged(&[2], 10), untagged(&[2])],
            vec![tagged(&[2], 20), at(&[3])],
            vec![at(&[4])],
        ),
        three(
            vec![tcp(&[1], 0..=80), tcp(&[2], 81..=100)],
            vec![tcp(&[2], 0..=80), tcp(&[3], 0..=100)],
            vec![at(&[4])],
        ),
    ]
}

/// Up to three slices that share nothing.
pub fn slices() -> impl Strategy<Value = Vec<Slice>> {
    prop_oneof![any_slices(), meeting()]
}

fn any_slices() -> impl Strategy<Value = Vec<Slice>> {
    vec(space(), 3..10).prop_map(|spaces| {
        let mut slices: Vec<Slice> =
            ["red", "blue", "green"].iter().map(|name| slice(name, vec![])).collect();
        for (at, space) in spaces.into_iter().enumerate() {
            let which = at % 3;
            let mut more = slices.clone();
            more[which].spaces.push(space);
            if Slicing::new(more.clone(), Key([0; 16])).is_ok() {
                slices = more;
            }
        }
        slices
    })
}

fn oxm(field: Field, values: &'static [u128]) -> impl Strategy<Value = Option<Oxm>> {
    option::weighted(0.2, select(values).prop_map(move |value| Oxm::exact(field, value)))
}

/// A match with its prerequisites.
pub fn fields() -> impl Strategy<Value = Vec<Oxm>> {
    let address =
        (select(&[0x0a00_0001u128, 0x0a00_0101, 0x0a01_0001][..]), select(&[16u32, 24, 32][..]));
    let address = address.prop_map(|(value, length)| {
        let mask = 0xffff_ffff & !(0xffff_ffffu128 >> length);
        if length == 32 {
            Oxm::exact(Field::Ipv4Dst, value)
        } else {
            Oxm::masked(Field::Ipv4Dst, value & mask, mask)
        }
    });
    let vlan = prop_oneof![
        Just(Oxm::exact(Field::VlanVid, 0)),
        Just(Oxm::exact(Field::VlanVid, 0x100a)),
        Just(Oxm::exact(Field::VlanVid, 0x1014)),
        Just(Oxm::masked(Field::VlanVid, VID_PRESENT, VID_PRESENT)),
    ];
    (
        oxm(Field::InPort, &[1, 2, 3]),
        oxm(Field::EthDst, &[0x0200_0000_0001, 0x0200_0000_0002]),
        option::weighted(0.5, select(&[0x0800u128, 0x0800, 0x0806, 0x8847, 0x88cc][..])),
        option::weighted(0.3, vlan),
        option::weighted(0.6, select(&[6u128, 17][..])),
        option::weighted(0.4, address),
        option::weighted(0.4, select(&[0u128, 80, 81, 90][..])),
    )
        .prop_map(|(port, mac, kind, vlan, protocol, address, transport)| {
            let ip = kind == Some(0x0800);
            let mut all: Vec<Oxm> = port.into_iter().chain(mac).collect();
            all.extend(kind.map(|kind| Oxm::exact(Field::EthType, kind)));
            all.extend(vlan);
            let protocol = protocol.filter(|_| ip);
            all.extend(protocol.map(|protocol| Oxm::exact(Field::IpProto, protocol)));
            all.extend(address.filter(|_| ip));
            // The same of ARP.
            let target = address.filter(|_| kind == Some(0x0806));
            all.extend(target.map(|oxm| Oxm { field: Field::ArpTpa, ..oxm }));
            if let (Some(protocol), Some(port)) = (protocol, transport) {
                let field = if protocol == 6 { Field::TcpDst } else { Field::UdpDst };
                all.push(Oxm::exact(field, port));
            }
            all
        })
}

fn out() -> impl Strategy<Value = Action> {
    let reserved =
        [PortNumber::FLOOD, PortNumber::ALL, PortNumber::IN_PORT, PortNumber::CONTROLLER];
    let ports: Vec<PortNumber> = (1..=3).map(PortNumber).chain(reserved).collect();
    let more = prop_oneof![4 => select(ports), 1 => Just(PortNumber(4))];
    more.prop_map(Action::output)
}

fn change(version: Version) -> BoxedStrategy<Action> {
    let set = |field, value| Just(Action::SetField(Oxm::exact(field, value)));
    match version {
        Version::V10 => prop_oneof![
            Just(Action::SetVlanVid(10)),
            Just(Action::SetVlanVid(20)),
            Just(Action::SetVlanPcp(3)),
            Just(Action::StripVlan),
            Just(Action::SetDlDst([2, 0, 0, 0, 0, 1])),
            Just(Action::SetDlDst([2, 0, 0, 0, 0, 2])),
            Just(Action::SetNwDst(0x0a00_0001)),
            Just(Action::SetNwDst(0x0a01_0001)),
            Just(Action::SetTpDst(80)),
            Just(Action::SetTpDst(81)),
        ]
        .boxed(),
        Version::V13 => prop_oneof![
            set(Field::VlanVid, 0x100a),
            set(Field::VlanVid, 0x1014),
            set(Field::EthDst, 0x0200_0000_0001),
            set(Field::EthDst, 0x0200_0000_0002),
            set(Field::Ipv4Dst, 0x0a00_0001),
            set(Field::Ipv4Dst, 0x0a01_0001),
            set(Field::ArpTpa, 0x0a00_0001),
            set(Field::ArpTpa, 0x0a01_0001),
            set(Field::TcpDst, 80),
            set(Field::UdpDst, 81),
            set(Field::IpProto, 17),
            set(Field::EthType, 0x0806),
            set(Field::EthType, 0x8100),
            Just(Action::PushVlan(0x8100)),
            Just(Action::PopVlan),
            Just(Action::PopVlan),
            Just(Action::PushMpls(0x8847)),
            Just(Action::PopMpls(0x0800)),
            Just(Action::PopMpls(0x8100)),
            Just(Action::PushPbb(0x88e7)),
            Just(Action::DecNwTtl),
        ]
        .boxed(),
    }
}

pub fn actions(version: Version) -> impl Strategy<Value = Vec<Action>> {
    let group = match version {
        Version::V10 => out().boxed(),
        Version::V13 => select(vec![1u32, 2]).prop_map(Action::Group).boxed(),
    };
    vec(prop_oneof![10 => out(), 6 => change(version), 1 => group], 1..4)
}

fn instructions(version: Version) -> BoxedStrategy<Vec<Instruction>> {
    if version == Version::V10 {
        return actions(version).prop_map(|all| vec![Instruction::ApplyActions(all)]).boxed();
    }
    let apply = option::weighted(0.9, actions(version).prop_map(Instruction::ApplyActions));
    let write = option::weighted(0.25, actions(version).prop_map(Instruction::WriteActions));
    let clear = option::weighted(0.2, Just(Instruction::ClearActions));
    let metadata = Instruction::WriteMetadata { value: 5, mask: 0xff };
    let metadata = option::weighted(0.1, Just(metadata));
    let next = option::weighted(0.4, (1u8..4).prop_map(Instruction::GotoTable));
    let all = (apply, clear, write, metadata, next);
    let all = all.prop_map(|(a, b, c, d, e)| [a, b, c, d, e].into_iter().flatten().collect());
    all.boxed()
}

prop_compose! {
    fn rule(version: Version)(
        fields in fields(),
        instructions in instructions(version),
        table in prop_oneof![4 => Just(0u8), 1 => Just(1u8), 1 => Just(2u8)],
        priority in 1u16..4,
        command in prop_oneof![
            8 => Just(FlowCommand::Add),
            1 => Just(FlowCommand::Modify),
            1 => Just(FlowCommand::Delete),
            1 => Just(FlowCommand::DeleteStrict),
        ],
    ) -> Message {
        let v10 = version == Version::V10;
        let matching = if v10 {
            Match::V10(Match::Oxm(fields).to_10().0)
        } else {
            Match::Oxm(fields)
        };
        let instructions = instructions
            .into_iter()
            .filter(|one| !matches!(one, Instruction::GotoTable(next) if *next <= table))
            .collect();
        let table = if v10 { 0 } else { table };
        Message::FlowMod(FlowMod { table, priority, instructions, ..FlowMod::new(command, matching) })
    }
}

prop_compose! {
    fn group(version: Version)(
        actions in vec(actions(version), 1..3),
        group in 1u32..3,
        command in select(vec![GroupCommand::Add, GroupCommand::Modify, GroupCommand::Delete]),
    ) -> Message {
        // Groups within groups are refused by this switch as loops, if they are.
        let plain = |action: &Action| !matches!(action, Action::Group(of) if *of == group);
        let buckets = actions
            .into_iter()
            .map(|all| Bucket::new(0, all.into_iter().filter(plain).collect()))
            .collect();
        Message::GroupMod(GroupMod { command, kind: GroupType::All, group, buckets })
    }
}

prop_compose! {
    fn packet_out(version: Version)(
        data in frame(),
        in_port in select(vec![1u32, 2, 3, 0]),
        actions in actions(version),
        table in any::<bool>(),
    ) -> Message {
        let nowhere = match version {
            Version::V10 => PortNumber::ANY,
            Version::V13 => PortNumber::CONTROLLER,
        };
        let in_port = if in_port == 0 { nowhere } else { PortNumber(in_port) };
        let mut actions = actions;
        if table {
            actions.push(Action::output(PortNumber::TABLE));
        }
        let buffer = netloom_openflow::flow::NO_BUFFER;
        Message::PacketOut(PacketOut { buffer, in_port, actions, data })
    }
}

/// A frame, whole or not.
pub fn frame() -> impl Strategy<Value = Vec<u8>> {
    let tags = vec(select(vec![10u16, 20, 0]), 0..3);
    let cut = option::weighted(0.1, 14usize..60);
    (fields(), tags, cut, option::weighted(0.15, Just(())), option::weighted(0.05, 0usize..60))
        .prop_map(|(fields, tags, cut, fragment, flip)| {
            let fields: Vec<Oxm> = fields
                .into_iter()
                .filter(|oxm| !matches!(oxm.field, Field::VlanVid | Field::InPort))
                .collect();
            let mut frame = netloom_pipeline::example(&fields);
            if fragment.is_some() && frame[12..14] == [8, 0] {
                frame[20] |= 0x20;
            }
            for tag in tags {
                let [high, low] = tag.to_be_bytes();
                frame.splice(12..12, [0x81, 0, high, low]);
            }
            if let Some(at) = flip {
                frame[at] ^= 0x11;
            }
            if let Some(cut) = cut {
                frame.truncate(cut);
            }
            frame
        })
}

fn event(version: Version) -> BoxedStrategy<Event> {
    let whose = (0u16..3).prop_map(SliceId);
    let group = match version {
        Version::V10 => rule(version).boxed(),
        Version::V13 => group(version).boxed(),
    };
    let message = prop_oneof![6 => rule(version), 1 => group, 1 => packet_out(version)];
    prop_oneof![
        2 => (whose, message).prop_map(|(whose, message)| Event::Said(whose, message)),
        3 => (1u32..=4, frame()).prop_map(|(port, frame)| Event::Frame(port, frame)),
    ]
    .boxed()
}

/// A case of a version; in one of three no packet meets more than one rule.
pub fn case(version: Version) -> impl Strategy<Value = Case> {
    let one = (0u8..3).prop_map(|which| which == 0);
    (slices(), vec(event(version), 20..80), one).prop_map(move |(slices, events, one)| {
        let case = Case { version, slices, events };
        if one { case.without_further_rules() } else { case }
    })
}
