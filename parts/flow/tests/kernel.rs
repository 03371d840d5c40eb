//! A switch whose results are kept in the kernel: it is equal to its tables, and forwards without its process.

use std::collections::BTreeMap;

use netloom_kit::{isolated, root_only};
use netloom_openflow::flow::FlowCommand;
use netloom_openflow::group::GroupCommand;
use netloom_openflow::{Message, PortNumber, Version, text};

use super::bench::Bench;
use super::frames;
use super::world::{Node, Peer, Switch, frame, wait};

/// Numbers that look random and are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: usize) -> usize {
        self.0 = netloom_digest::splitmix::mix(self.0);
        usize::try_from(self.0 >> 33).unwrap() % most
    }

    fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

const MATCHES: [&str; 12] = [
    "in_port=1",
    "in_port=2,udp",
    "tcp,tcp_dst=81",
    "tcp",
    "ip,nw_dst=10.0.0.2/31",
    "arp",
    "dl_vlan=1",
    "dl_vlan=2,dl_vlan_pcp=3",
    "dl_dst=02:00:00:00:00:09",
    "ip,nw_tos=0",
    "ipv6",
    "in_port=3",
];

const ACTIONS: [&str; 14] = [
    "output:2",
    "output:3",
    "output:1,output:2",
    "set_field:02:00:00:00:00:aa->eth_dst,output:3,set_field:02:00:00:00:00:bb->eth_src,output:1",
    "dec_ttl,output:2",
    "push_vlan:0x8100,set_field:4097->vlan_vid,output:2,output:3",
    "pop_vlan,output:1",
    "set_field:10.0.0.77->ip_dst,output:3",
    "set_field:8080->tcp_dst,output:2",
    "group:1",
    "group:2,output:1",
    "set_field:02:00:00:00:00:09->eth_dst,goto_table:1",
    "drop",
    "IN_PORT,goto_table:1",
];

const GROUPS: [&str; 2] = [
    "group_id=1,type=all,bucket=actions=set_field:02:00:00:00:00:cc->eth_dst,output:2,bucket=actions=dec_ttl,output:3",
    "group_id=2,type=select,bucket=weight:1,actions=output:2,bucket=weight:2,actions=output:3",
];

fn some_frame(numbers: &mut Numbers) -> Vec<u8> {
    let port = u16::try_from(80 + numbers.below(3)).unwrap();
    let mut frame = match numbers.below(5) {
        0 => frames::arp(),
        1 => frames::udp4(1, port),
        2 => frames::tcp6(1, port),
        _ => frames::tcp4(1, port),
    };
    frame[5] = u8::try_from(8 + numbers.below(3)).unwrap();
    if frame[12..14] == [8, 0] && numbers.below(2) == 0 {
        // A TTL that runs out, with the right checksum.
        let ttl = u8::try_from(1 + numbers.below(3)).unwrap();
        frame[22] = ttl;
        frame[24..26].fill(0);
        let sum = netloom_packet::checksum::checksum(&frame[14..34]).to_be_bytes();
        frame[24..26].copy_from_slice(&sum);
    }
    match numbers.below(3) {
        0 => frames::tagged(&frame, u16::try_from(1 + numbers.below(2)).unwrap(), 3),
        _ => frame,
    }
}

/// The same switch twice: in a process, and as the tables alone.
struct Pair {
    peer: Peer,
    tables: Bench,
    cookie: u64,
}

impl Pair {
    fn change(&mut self, numbers: &mut Numbers) {
        if numbers.below(4) == 0 {
            let said = format!("table={}", numbers.below(2));
            let change = text::flow(FlowCommand::Delete, &said, Version::V13).unwrap();
            self.tables.done(&Message::FlowMod(change));
            self.peer.flow(FlowCommand::Delete, &said);
            return;
        }
        self.cookie += 1;
        let (table, priority) = (numbers.below(2), numbers.below(4));
        let (matching, actions) = (*numbers.of(&MATCHES), *numbers.of(&ACTIONS));
        if table == 1 && actions.contains("goto") {
            return;
        }
        let cookie = self.cookie;
        let said = format!(
            "table={table},priority={priority},cookie={cookie},{matching},actions={actions}"
        );
        let change = text::flow(FlowCommand::Add, &said, Version::V13).unwrap();
        // What the tables refuse is left out.
        if self.tables.refused(&Message::FlowMod(change)).is_none() {
            self.peer.add(&said);
        }
    }

    /// Frames from nodes arrive as the tables say.
    fn pass(&mut self, nodes: &mut [Node; 3], frames: &[(usize, Vec<u8>)], round: u32) {
        let mut expected: [Vec<Vec<u8>>; 3] = Default::default();
        for (from, sent) in frames {
            nodes[*from].send(sent);
            let port = u32::try_from(from + 1).unwrap();
            for frame in self.tables.frame(port, sent).1.frames {
                expected[usize::try_from(frame.port.0).unwrap() - 1].push(frame.bytes);
            }
        }
        for (node, mut expected) in nodes.iter_mut().zip(expected) {
            expected.sort_unstable();
            assert_eq!(arrived(node, expected.len()), expected, "round {round}");
        }
    }

    /// Packets and bytes of each entry.
    fn counts(&mut self) -> [BTreeMap<u64, (u64, u64)>; 2] {
        let there = self.peer.flows().into_iter();
        let here = self.tables.switch.rules();
        [
            there.map(|flow| (flow.cookie, (flow.packets, flow.bytes))).collect(),
            here.map(|rule| (rule.cookie, (rule.packets, rule.bytes))).collect(),
        ]
    }
}

/// Waits until a node has this many frames, and gives them in an order of their own.
fn arrived(node: &mut Node, expected: usize) -> Vec<Vec<u8>> {
    let mut all = vec![];
    wait("frames", || {
        while let Some(frame) = node.receive() {
            all.push(frame);
        }
        (all.len() >= expected).then_some(())
    });
    all.sort_unstable();
    all
}

#[test]
fn frames_and_counters_are_those_of_the_tables() {
    root_only!("loads BPF programs");
    isolated!({
        let switch = Switch::secure();
        let mut nodes: [Node; 3] = switch.nodes();
        assert_ne!(switch.show().plane.kind, "packet-sockets");
        let seed = switch.application.datapath;
        let options = netloom_pipeline::Options { seed, ..netloom_pipeline::Options::default() };
        let mut tables = Bench::with(Version::V13, options);
        tables.switch.remove_port(PortNumber(4), &mut Default::default());
        let mut pair = Pair { peer: switch.peer(), tables, cookie: 0 };
        for group in GROUPS {
            let change = text::group(GroupCommand::Add, group).unwrap();
            pair.tables.done(&Message::GroupMod(change.clone()));
            pair.peer.say(&Message::GroupMod(change));
        }
        let mut numbers = Numbers(7);
        for round in 0..40 {
            (0..4).for_each(|_| pair.change(&mut numbers));
            pair.peer.barrier();
            let some: Vec<(usize, Vec<u8>)> =
                (0..8).map(|_| (numbers.below(3), some_frame(&mut numbers))).collect();
            pair.pass(&mut nodes, &some, round);
            // Results are kept when a later message is answered; now they are used.
            pair.peer.barrier();
            let again: Vec<_> = (0..40).map(|_| numbers.of(&some).clone()).collect();
            pair.pass(&mut nodes, &again, round);
            wait("the same counters", || {
                let [there, here] = pair.counts();
                (there == here).then_some(())
            });
        }
        let plane = switch.show().plane;
        assert!(plane.hits > 200, "{plane:?}");
    });
}

#[test]
fn a_learning_switch_forwards_in_the_kernel() {
    root_only!("loads BPF programs");
    isolated!({
        let switch = Switch::start();
        let [mut a, mut b, mut c] = switch.nodes();
        let to_b = frame("dl_src=02:00:00:00:00:01,dl_dst=02:00:00:00:00:02,udp");
        let to_a = frame("dl_src=02:00:00:00:00:02,dl_dst=02:00:00:00:00:01,udp");
        a.send(&to_b);
        b.expect(&to_b);
        c.expect(&to_b);
        b.send(&to_a);
        a.expect(&to_a);
        for _ in 0..50 {
            a.send(&to_b);
            b.expect(&to_b);
        }
        assert!(switch.show().plane.hits >= 40);
        // B moves to the third port.
        c.send(&to_a);
        a.expect(&to_a);
        a.send(&to_b);
        c.expect(&to_b);
        assert_eq!(b.receive(), None);
    });
}

/// Entries that are about other packets leave a flow in the kernel; one that wins takes it out before it is confirmed.
#[test]
fn changes_leave_other_flows_in_the_kernel() {
    root_only!("loads BPF programs");
    isolated!({
        const CHANGES: u64 = 50;
        let switch = Switch::secure();
        let [mut a, mut b] = switch.nodes();
        let mut peer = switch.peer();
        peer.add("cookie=1,priority=5,in_port=1,actions=output:2");
        peer.barrier();
        let sent = frame("dl_src=02:00:00:00:00:01,udp");
        a.send(&sent);
        b.expect(&sent);
        // Kept when a later message is answered.
        peer.barrier();
        assert_eq!(switch.show().plane.entries, 1);
        for number in 0..CHANGES {
            peer.add(&format!("priority=9,in_port=2,udp,tp_dst={number},actions=drop"));
            peer.add(&format!("priority=4,udp,tp_dst={number},actions=drop"));
            if number % 2 == 0 {
                peer.flow(FlowCommand::Delete, &format!("udp,tp_dst={number}"));
            }
            peer.barrier();
            a.send(&sent);
            b.expect(&sent);
        }
        let plane = switch.show().plane;
        assert!(plane.entries == 1 && plane.hits >= CHANGES, "{plane:?}");
        peer.add("cookie=2,priority=6,in_port=1,udp,actions=drop");
        peer.barrier();
        assert_eq!(switch.show().plane.entries, 0);
        a.send(&sent);
        let counted = |peer: &mut Peer| {
            let flows = peer.flows();
            let flow = |cookie| flows.iter().find(|flow| flow.cookie == cookie).unwrap();
            [1, 2].map(|cookie| flow(cookie).packets)
        };
        wait("the frame is dropped", || (counted(&mut peer)[1] == 1).then_some(()));
        assert_eq!(counted(&mut peer), [CHANGES + 1, 1]);
        assert_eq!(b.receive(), None);
    });
}

/// Cached results stay in force while there is no process, and the next one has the exact counters.
#[test]
fn without_its_process_it_forwards_on_and_counts() {
    root_only!("loads BPF programs");
    isolated!({
        let mut switch = Switch::secure();
        let [mut a, mut b] = switch.nodes();
        let mut peer = switch.peer();
        peer.add("in_port=1,actions=set_field:02:00:00:00:00:99->eth_src,output:2");
        peer.barrier();
        let sent = frame("dl_src=02:00:00:00:00:01,udp");
        let mut changed = sent.clone();
        changed[11] = 0x99;
        let state = switch.application.state.clone();
        let length = || std::fs::metadata(&state).unwrap().len();
        let before = length();
        let mut pass = |count: usize| {
            (0..count).for_each(|_| a.send(&sent));
            (0..count).for_each(|_| assert_eq!(b.expect(&changed), 0));
        };
        pass(1);
        wait("counters are saved", || (length() > before).then_some(()));
        pass(9);
        switch.kill();
        pass(7);
        switch.run();
        assert_eq!(switch.show().plane.entries, 1);
        let flows = switch.peer().flows();
        assert_eq!((flows[0].packets, flows[0].bytes), (17, 17 * 60));
        pass(4);
        assert_eq!(switch.peer().flows()[0].packets, 21);
        // Changed tables are obeyed at once.
        let mut peer = switch.peer();
        peer.flow(FlowCommand::Delete, "");
        peer.barrier();
        a.send(&sent);
        peer.add("in_port=1,actions=output:2");
        peer.barrier();
        a.send(&sent);
        assert_eq!(b.expect(&sent), 0);
    });
}
