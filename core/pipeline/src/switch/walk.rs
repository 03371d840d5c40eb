//! A packet's way through the tables (sections 5.1 to 5.11).

use netloom_openflow::group::GroupType;
use netloom_openflow::packet::PacketInReason;
use netloom_openflow::port::PortConfig;
use netloom_openflow::switch::Fragments;
use netloom_openflow::{Action, Detour, Field, Instruction, PortNumber};

use super::notify::Notice;
use super::ports::PortState;
use super::walk_state::Walk;
use super::{Outputs, Switch};
use crate::action_set::ActionSet;
use crate::key::FlowKey;
use crate::meter::Verdict;
use crate::packet::Packet;
use crate::rule::Time;
use crate::trace::{Drop, Effect, Step, Trace};

/// Groups within groups that a packet may go through.
const MOST_DEPTH: usize = 32;

impl Switch {
    /// A frame came in by a port; returns what happened to it.
    pub fn frame(&mut self, port: PortNumber, bytes: &[u8], now: Time, out: &mut Outputs) -> Trace {
        let mut walk = Walk::new(bytes.len(), now, out);
        let full = Field::InPort.full();
        walk.trace.consulted.include(Field::InPort, full);
        walk.trace.key.set(Field::InPort, u128::from(port.0));
        let Some(state) = self.ports.get_mut(&port) else {
            walk.drop(Drop::Receive);
            return walk.trace;
        };
        // With one of the two flags the destination decides: STP's group address or another.
        if state.is(PortConfig::NO_RECV) != state.is(PortConfig::NO_RECV_STP) {
            walk.trace.consulted.include(Field::EthDst, Field::EthDst.full());
        }
        if !receives(state, bytes) {
            // Not counted as received.
            walk.trace.only_this("its port does not receive it");
            walk.drop(Drop::Receive);
            return walk.trace;
        }
        state.stats.rx_packets += 1;
        state.stats.rx_bytes += u64::try_from(bytes.len()).unwrap_or(0);
        if bytes.len() < 14 {
            walk.drop(Drop::Short);
            return walk.trace;
        }
        let mut packet = Packet::new(bytes, port);
        walk.trace.key = *packet.key();
        if packet.is_fragment() {
            walk.trace.only_this("it is a fragment");
            if self.fragments == Fragments::Drop {
                walk.drop(Drop::Fragment);
                return walk.trace;
            }
        }
        if self.is_standalone() {
            self.normal(&mut packet, &mut walk);
        } else {
            self.run(&mut packet, &mut walk);
        }
        walk.trace
    }

    /// What would happen to a frame now: nothing is counted, learned, buffered or sent.
    pub fn explain(&self, port: PortNumber, bytes: &[u8], now: Time) -> (Trace, Outputs) {
        let mut copy = self.twin();
        let mut out = Outputs::default();
        let trace = copy.frame(port, bytes, now, &mut out);
        (trace, out)
    }

    /// A switch in the same state, to try many things on; it costs as much as the tables are large.
    pub fn twin(&self) -> Switch {
        Switch {
            options: self.options.clone(),
            tables: self.tables.clone(),
            groups: self.groups.clone(),
            meters: self.meters.clone(),
            uses: self.uses.clone(),
            // Nobody waits for what is tried.
            jobs: Default::default(),
            abandoned: self.abandoned,
            ports: self.ports.clone(),
            connections: self.connections.clone(),
            buffers: self.buffers.clone(),
            learning: self.learning.clone(),
            fragments: self.fragments,
            election: self.election,
            deadlines: self.deadlines.clone(),
            numbers: self.numbers,
            generation: self.generation,
            features: self.features.clone(),
            changes: None,
        }
    }

    /// A buffered packet goes through the tables after a flow mod.
    pub(super) fn resume(
        &mut self,
        bytes: &[u8],
        in_port: PortNumber,
        now: Time,
        out: &mut Outputs,
    ) {
        let mut walk = Walk::new(bytes.len(), now, out);
        self.run(&mut Packet::new(bytes, in_port), &mut walk);
    }

    /// A controller's packet: its actions.
    pub(super) fn send_out(
        &mut self,
        bytes: &[u8],
        in_port: PortNumber,
        actions: &[Action],
        now: Time,
        out: &mut Outputs,
    ) {
        let mut walk = Walk::new(bytes.len(), now, out);
        walk.tables = true;
        // A controller that sends a packet has it; what comes back is not buffered for it.
        walk.notice.max_len = Some(netloom_openflow::action::NO_BUFFER);
        // An Ethernet header has as many bytes.
        if bytes.len() >= 14 {
            self.actions(actions, &mut Packet::new(bytes, in_port), &mut walk);
        }
    }

    /// Through the tables, from the first.
    pub(super) fn run(&mut self, packet: &mut Packet, walk: &mut Walk<'_>) {
        let mut set = ActionSet::default();
        let mut table = 0;
        loop {
            let Some(next) = self.one_table(table, packet, &mut set, walk) else { return };
            match next {
                Some(later) => table = later,
                None => break,
            }
        }
        let actions = set.ordered();
        let outputs = |action: &Action| {
            matches!(action, Action::Output { .. } | Action::Enqueue { .. } | Action::Group(_))
        };
        // Without an output the set only changes what is dropped (section 5.10).
        if actions.iter().any(outputs) {
            self.actions(&actions, packet, walk);
        } else if walk.trace.got_nowhere() {
            walk.drop(Drop::NoOutput);
        }
    }

    /// Through one table; returns `None` if the packet is gone, else the next table, if there is one.
    fn one_table(
        &mut self,
        number: u8,
        packet: &mut Packet,
        set: &mut ActionSet,
        walk: &mut Walk<'_>,
    ) -> Option<Option<u8>> {
        if walk.opened {
            walk.trace.only_this("a table looks behind a header that was removed or changed");
        }
        let key = *packet.key();
        let table = self.tables.get_mut(usize::from(number))?;
        if !walk.may_look(table.masks()) {
            return None;
        }
        let found = table.lookup(&key, &mut walk.trace.consulted);
        table.count(1, found.is_some());
        walk.trace.steps.push(Step { table: number, rule: found, key });
        let grown = walk.grown(packet);
        walk.trace.growth.steps.push(grown);
        let Some(rule) = found.and_then(|id| table.get_mut(id)) else {
            self.miss(number, packet, walk);
            return None;
        };
        let bytes = u64::try_from(packet.bytes().len()).unwrap_or(0);
        rule.count(1, bytes, walk.now);
        walk.notice = Notice {
            reason: match rule.is_table_miss() {
                true => PacketInReason::NoMatch,
                false => PacketInReason::Action,
            },
            table: number,
            cookie: rule.cookie,
            max_len: None,
            only_10: false,
        };
        // A second handle, not a copy of the list: `self` is borrowed while they run.
        let instructions = std::sync::Arc::clone(&rule.instructions);
        let mut next = None;
        for instruction in instructions.iter() {
            match instruction {
                Instruction::Meter(meter) => self.meter(*meter, packet, walk)?,
                Instruction::ApplyActions(actions) => {
                    // A packet whose TTL ran out goes no further.
                    if !self.actions(actions, packet, walk) {
                        return None;
                    }
                }
                Instruction::ClearActions => set.clear(),
                Instruction::WriteActions(actions) => set.write(actions),
                Instruction::WriteMetadata { value, mask } => packet.write_metadata(*value, *mask),
                Instruction::GotoTable(table) => next = Some(*table),
                Instruction::Experimenter { .. } => {}
            }
        }
        Some(next)
    }

    /// No entry matched: dropped, but told to controllers of 1.0 (section 5.4; 1.0.0 section 3.4).
    fn miss(&mut self, table: u8, packet: &mut Packet, walk: &mut Walk<'_>) {
        if table == 0 && self.options.fail_mode == super::FailMode::Learning {
            return self.normal(packet, walk);
        }
        let notice = Notice {
            reason: PacketInReason::NoMatch,
            table,
            cookie: u64::MAX,
            max_len: None,
            only_10: true,
        };
        walk.notice = notice;
        self.tell(packet, notice, walk);
        if !walk.trace.controller {
            walk.drop(Drop::NoMatch);
        }
    }

    /// To controllers, unless the port of arrival sends them nothing without a match.
    pub(super) fn tell(&mut self, packet: &Packet, notice: Notice, walk: &mut Walk<'_>) {
        let silent =
            self.ports.get(&packet.in_port()).is_some_and(|port| port.is(PortConfig::NO_PACKET_IN));
        if silent && notice.reason == PacketInReason::NoMatch {
            return;
        }
        walk.trace.only_this("a controller takes it");
        if self.packet_in(packet, notice, walk.now, walk.out) {
            walk.trace.controller = true;
        } else if !notice.only_10 {
            walk.drop(Drop::Controller);
        }
    }

    /// Through a meter; `None` if it drops.
    fn meter(&mut self, number: u32, packet: &mut Packet, walk: &mut Walk<'_>) -> Option<()> {
        walk.trace.only_this("a meter counts it");
        walk.trace.meters.push(number);
        let bytes = u64::try_from(packet.bytes().len()).unwrap_or(0);
        // Its entry is being removed some at a time, or came back from a file without it.
        let Some(meter) = self.meters.get_mut(&number) else {
            walk.drop(Drop::Meter);
            return None;
        };
        match meter.pass(bytes, walk.now) {
            Verdict::Pass => Some(()),
            Verdict::Remark(by) => {
                packet.raise_drop_precedence(by);
                Some(())
            }
            Verdict::Drop => {
                walk.drop(Drop::Meter);
                None
            }
        }
    }

    /// Does actions in order; returns whether the packet goes on.
    pub(super) fn actions(
        &mut self,
        actions: &[Action],
        packet: &mut Packet,
        walk: &mut Walk<'_>,
    ) -> bool {
        for action in actions {
            if walk.left == 0 {
                walk.limit();
                return false;
            }
            walk.left -= 1;
            match action {
                Action::Output { port, max_len } => self.output(*port, *max_len, packet, walk),
                Action::Enqueue { port, queue } => {
                    // This queue is for one output; that of `SetQueue` stays until the next.
                    let before = packet.queue.replace(*queue);
                    self.output(*port, netloom_openflow::action::NO_BUFFER, packet, walk);
                    packet.queue = before;
                }
                Action::Group(group) => self.group(*group, packet, walk),
                Action::Experimenter { .. } => {
                    if let Some(detour) = Detour::of(action)
                        && self.leaves(detour, packet, walk)
                    {
                        return false;
                    }
                }
                Action::SetQueue(queue) => packet.queue = Some(*queue),
                edit => {
                    walk.edit(edit);
                    if !packet.apply(edit) {
                        self.invalid_ttl(packet, walk);
                        return false;
                    }
                }
            }
        }
        true
    }

    /// Sends a packet by a detour that it takes; returns whether it does.
    fn leaves(&mut self, detour: Detour, packet: &mut Packet, walk: &mut Walk<'_>) -> bool {
        walk.trace.consulted.include(Field::EthType, Field::EthType.full());
        // Results are not kept of packets with options, nor those that decrement used for packets whose TTL is 1 or whose
        // IPv4 header is damaged.
        if detour.mtu > 0 {
            walk.trace.only_this("its length decides");
        }
        if !packet.is_for_stack(detour.mtu) {
            return false;
        }
        walk.trace.only_this("a router's own stack sees to it");
        self.output(detour.to, netloom_openflow::action::NO_BUFFER, packet, walk);
        true
    }

    fn invalid_ttl(&mut self, packet: &Packet, walk: &mut Walk<'_>) {
        walk.trace.only_this("its TTL is not valid");
        walk.drop(Drop::Ttl);
        // No output says how much: as much as of packets without a match.
        let max_len = None;
        let notice = Notice { reason: PacketInReason::InvalidTtl, max_len, ..walk.notice };
        if self.packet_in(packet, notice, walk.now, walk.out) {
            walk.trace.controller = true;
        }
    }

    /// Through a group: each chosen bucket gets a copy (section 5.6.1).
    fn group(&mut self, number: u32, packet: &Packet, walk: &mut Walk<'_>) {
        walk.trace.asked.insert(number);
        let Some(group) = self.groups.0.get(&number) else {
            walk.drop(Drop::Group);
            return;
        };
        if walk.depth >= MOST_DEPTH {
            walk.drop(Drop::Limit);
            return;
        }
        let up = |port| Switch::is_live(&self.ports, port);
        let groups = &self.groups;
        let chosen: Vec<usize> = match group.kind {
            GroupType::All => (0..group.buckets.len()).collect(),
            GroupType::Select => {
                if walk.opened {
                    walk.trace
                        .only_this("a group looks behind a header that was removed or changed");
                }
                let hash = hash(packet.key(), self.options.seed, number, &mut walk.trace.consulted);
                walk.asking(groups, up).selected(group, hash).into_iter().collect()
            }
            GroupType::Indirect => vec![0],
            GroupType::FastFailover => {
                walk.asking(groups, up).first_live(group).into_iter().collect()
            }
            GroupType::Other(_) => vec![],
        };
        if chosen.is_empty() {
            walk.drop(Drop::Group);
        }
        let sets: Vec<_> = chosen
            .into_iter()
            .filter_map(|index| Some((index, group.buckets.get(index)?.actions.clone())))
            .collect();
        let bytes = u64::try_from(packet.bytes().len()).unwrap_or(0);
        if let Some(group) = self.groups.0.get_mut(&number) {
            group.packets += 1;
            group.bytes += bytes;
        }
        walk.depth += 1;
        for (index, actions) in sets {
            if !walk.may_copy(packet.bytes().len()) {
                break;
            }
            self.count_bucket(number, index, 1, bytes);
            walk.trace.groups.push((number, index));
            let grown = walk.grown(packet);
            walk.trace.growth.groups.push(grown);
            let mut set = ActionSet::default();
            set.write(&actions);
            walk.trace.effects.push(Effect::Copy);
            // A bucket removes headers of its own copy only.
            let opened = walk.opened;
            self.actions(&set.ordered(), &mut packet.clone(), walk);
            walk.opened = opened;
            walk.trace.effects.push(Effect::CopyEnd);
        }
        walk.depth -= 1;
    }

    fn count_bucket(&mut self, number: u32, bucket: usize, packets: u64, bytes: u64) {
        let group = self.groups.0.get_mut(&number);
        if let Some(counters) = group.and_then(|group| group.counters.get_mut(bucket)) {
            counters.0 += packets;
            counters.1 += bytes;
        }
    }

    /// Counts packets that a cache sent through a bucket; a group of all counts with its first.
    pub(super) fn count_group(&mut self, number: u32, bucket: usize, packets: u64, bytes: u64) {
        self.count_bucket(number, bucket, packets, bytes);
        if let Some(group) = self.groups.0.get_mut(&number)
            && (group.kind != GroupType::All || bucket == 0)
        {
            group.packets += packets;
            group.bytes += bytes;
        }
    }
}

/// Whether a port takes a frame (section 7.2.1; 1.0.0 section 5.2.1).
fn receives(port: &PortState, frame: &[u8]) -> bool {
    /// The address of spanning tree protocols, IEEE 802.1D.
    const STP: [u8; 6] = [0x01, 0x80, 0xc2, 0, 0, 0];
    let refused =
        if frame.starts_with(&STP) { PortConfig::NO_RECV_STP } else { PortConfig::NO_RECV };
    !port.is(PortConfig::PORT_DOWN) && !port.is(refused)
}

/// Hashes what identifies a flow, which is thereby consulted.
fn hash(key: &FlowKey, seed: u64, group: u32, consulted: &mut FlowKey) -> u64 {
    let mut mask = FlowKey::default();
    for field in [
        Field::EthSrc,
        Field::EthDst,
        Field::EthType,
        Field::VlanVid,
        Field::IpProto,
        Field::Ipv4Src,
        Field::Ipv4Dst,
        Field::Ipv6Src,
        Field::Ipv6Dst,
        Field::TcpSrc,
        Field::TcpDst,
        Field::MplsLabel,
    ] {
        mask.include(field, field.full());
    }
    consulted.unite(&mask);
    let start = netloom_digest::fnv1a::extend(seed, &group.to_le_bytes());
    let mix = |hash: u64, word: &u64| netloom_digest::splitmix::mix(hash ^ word);
    key.masked(&mask).0.iter().fold(netloom_digest::splitmix::mix(start), mix)
}

/// The VLAN and addresses of a packet, for forwarding without OpenFlow.
pub(super) fn stations(packet: &Packet) -> (u16, u64, u64) {
    let key = packet.key();
    let vlan = u16::try_from(key.get(Field::VlanVid) & 0xfff).unwrap_or(0);
    let address = |field| crate::key::low(key.get(field));
    (vlan, address(Field::EthSrc), address(Field::EthDst))
}
