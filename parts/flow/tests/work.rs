//! A switch with as much as it may have: its memory is bounded and given back, and others are answered meanwhile.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use netloom_kit::{isolated, worked_exactly};
use netloom_openflow::action::GROUP_ALL;
use netloom_openflow::flow::FlowCommand;
use netloom_openflow::group::{GroupCommand, GroupType};
use netloom_openflow::meter::{METER_ALL, MeterCommand, MeterFlags};
use netloom_openflow::multipart::{FlowRequest, MultipartRequest};
use netloom_openflow::{
    Action, Bucket, FlowMod, GroupMod, Instruction, Match, Message, MeterMod, PortNumber, Reason,
    Request, Version, encode, text,
};

use super::world::{Peer, Switch, wait};

/// KiB that a switch may have.
const MOST_MEMORY: u64 = 256 << 10;

/// How long the switch may work at most while another connection waits for its answer: builds for tests are slow. It is
/// processor time, since the machine has other work.
const SOON: Duration = Duration::from_millis(250);

fn bytes(message: &Message) -> Vec<u8> {
    encode(Version::V13, 7, message).expect("a message")
}

fn change(command: FlowCommand, said: &str) -> Vec<u8> {
    bytes(&Message::FlowMod(text::flow(command, said, Version::V13).expect("a flow entry")))
}

fn ask(body: Request) -> Vec<u8> {
    bytes(&Message::MultipartRequest(MultipartRequest { flags: 0, body }))
}

/// KiB of its memory.
fn resident(switch: &Switch) -> u64 {
    netloom_kit::resident(switch.pid())
}

/// A switch that closes no connection soon because it answers no echo request.
fn patient() -> Switch {
    Switch::with(|application| application.probe = 600)
}

/// A connection, over which the switch got 20,000 entries.
fn full(switch: &Switch) -> Peer {
    let mut peer = switch.peer();
    for number in 0..20_000 {
        peer.write(&entry(number));
    }
    peer.barrier();
    peer
}

/// Waits until all that was written is obeyed or refused.
fn obeyed(peer: &mut Peer) {
    let xid = peer.say(&Message::BarrierRequest);
    peer.hear(|header, message| {
        (header.xid == xid && matches!(message, Message::BarrierReply)).then_some(())
    });
}

/// Adds entries, each of `one`, until it has as many as it may; errors are not looked at.
fn fill(switch: &Switch, one: impl Fn(u32) -> Vec<u8>) -> u64 {
    let mut peer = switch.peer();
    let mut next = 0;
    let mut before = u64::MAX;
    loop {
        let some: Vec<u8> = (next..next + 2000).flat_map(&one).collect();
        peer.write(&some);
        obeyed(&mut peer);
        next += 2000;
        let entries = switch.show().entries;
        if entries == before {
            return entries;
        }
        before = entries;
    }
}

/// Four bytes that a message has once.
const MARK: u32 = 0x0a1b_2c3d;

/// The message with a number in the place of the mark: a long one is not made again each time.
fn numbered(message: &[u8], number: u32) -> Vec<u8> {
    let mut message = message.to_vec();
    let at = message.windows(4).position(|bytes| bytes == MARK.to_be_bytes()).expect("the mark");
    message[at..at + 4].copy_from_slice(&number.to_be_bytes());
    message
}

fn entry(number: u32) -> Vec<u8> {
    let to = std::net::Ipv4Addr::from(number);
    change(FlowCommand::Add, &format!("ip,nw_dst={to},actions=output:1"))
}

/// Another connection is answered soon while messages are obeyed, up to the answer to an echo behind them.
fn is_soon(what: &str, switch: &Switch, messages: &[u8]) {
    let mut stream = UnixStream::connect(switch.openflow()).expect("connect");
    stream.write_all(&[4, 0, 0, 8, 0, 0, 0, 0]).expect("a hello");
    let mut other = switch.peer();
    other.barrier();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            stream.write_all(messages).expect("it is taken");
            let echo = bytes(&Message::EchoRequest(b"the end".to_vec()));
            stream.write_all(&echo).expect("it is taken");
            let (mut last, mut buffer) = (vec![], [0; 65536]);
            while !last.ends_with(b"the end") {
                let length = stream.read(&mut buffer).expect("an answer");
                assert!(length > 0, "{what}: it was cut off");
                last.extend_from_slice(&buffer[..length]);
                last.drain(..last.len().saturating_sub(7));
            }
            done.store(true, Ordering::Relaxed);
        });
        let begun = Instant::now();
        let (mut waits, mut longest) = (vec![], Duration::ZERO);
        while !done.load(Ordering::Relaxed) {
            let (sent, before) = (Instant::now(), worked_exactly(switch.pid()));
            other.barrier();
            waits.push(sent.elapsed());
            longest = longest.max(worked_exactly(switch.pid()) - before);
        }
        waits.sort_unstable();
        let p99 = waits[(waits.len() * 99 / 100).min(waits.len() - 1)];
        println!("{what}: {:?}, others wait {p99:?} (p99), {longest:?} of work", begun.elapsed());
        assert!(longest < SOON, "{what}: others wait for {longest:?} of work");
    });
}

#[test]
fn a_switch_with_all_entries_it_may_have_is_bounded_and_holds_up_nobody() {
    isolated!({
        let switch = patient();
        let first = resident(&switch);
        let entries = fill(&switch, entry);
        assert_eq!(entries, 100_000);
        // Other tables share the memory.
        let more = |number| {
            let to = std::net::Ipv4Addr::from(number);
            change(FlowCommand::Add, &format!("table=1,ip,nw_dst={to},actions=output:1"))
        };
        let entries = fill(&switch, more);
        assert!(entries < 200_000, "{entries}");
        let full = resident(&switch);
        println!("{first} KiB, with {entries} entries {full} KiB");
        assert!(full < MOST_MEMORY, "{full}");
        let mut peer = switch.peer();
        peer.add("table=2,ip,nw_dst=10.0.0.1,actions=output:1");
        let error = peer.hear(|_, message| match message {
            Message::Error(error) => Some(error.clone()),
            _ => None,
        });
        assert_eq!(error.reason(Version::V13), Some(Reason::FlowModFailedTableFull));
        let all = || FlowRequest::new(Match::Oxm(vec![]));
        is_soon("sums over all entries", &switch, &ask(Request::Aggregate(all())).repeat(20));
        is_soon("all entries told", &switch, &ask(Request::Flow(all())));
        let modify = change(FlowCommand::Modify, "actions=output:2");
        is_soon("all entries modified", &switch, &modify);
        is_soon("all entries deleted", &switch, &change(FlowCommand::Delete, "table=255"));
        wait("its memory is given back", || (resident(&switch) < first + full / 8).then_some(()));
        assert_eq!(switch.show().entries, 0);
    });
}

#[test]
fn large_entries_and_groups_are_bounded_by_their_bytes() {
    isolated!({
        let switch = patient();
        let many = vec![Instruction::ApplyActions(vec![Action::DecNwTtl; 1000])];
        let said = format!("ip,nw_dst={},actions=drop", std::net::Ipv4Addr::from(MARK));
        let one = text::flow(FlowCommand::Add, &said, Version::V13).expect("an entry");
        let one = bytes(&Message::FlowMod(FlowMod { instructions: many, ..one }));
        let entries = fill(&switch, |number| numbered(&one, number));
        let full = resident(&switch);
        println!("{entries} large entries: {full} KiB");
        assert!(entries < 10_000 && full < MOST_MEMORY, "{entries} {full}");
        is_soon(
            "large entries told",
            &switch,
            &ask(Request::Flow(FlowRequest::new(Match::Oxm(vec![])))),
        );
        switch.peer().flow(FlowCommand::Delete, "table=255");
        wait("they are gone", || (switch.show().entries == 0).then_some(()));
        let buckets = vec![Bucket::new(0, vec![Action::output(PortNumber(1))]); 1000];
        let (command, kind) = (GroupCommand::Add, GroupType::All);
        let one = bytes(&Message::GroupMod(GroupMod { command, kind, group: MARK, buckets }));
        let mut peer = switch.peer();
        for number in 1..3000 {
            peer.write(&numbered(&one, number));
        }
        obeyed(&mut peer);
        let groups = switch.show().groups;
        let full = resident(&switch);
        println!("{groups} groups of 1,000 buckets: {full} KiB");
        assert!(groups < 2999 && full < MOST_MEMORY, "{groups} {full}");
        is_soon("groups told", &switch, &ask(Request::GroupDesc));
        is_soon("they are deleted", &switch, &all_groups_go());
    });
}

fn all_groups_go() -> Vec<u8> {
    let (command, kind) = (GroupCommand::Delete, GroupType::All);
    bytes(&Message::GroupMod(GroupMod { command, kind, group: GROUP_ALL, buckets: vec![] }))
}

/// Groups that go through many others.
#[test]
fn groups_of_many_ways_hold_up_nobody() {
    isolated!({
        let switch = patient();
        let group = |command, number: u32, to: Vec<Action>| {
            let buckets = vec![Bucket::new(0, to)];
            let change = GroupMod { command, kind: GroupType::All, group: number, buckets };
            bytes(&Message::GroupMod(change))
        };
        let through = |number: u32| vec![Action::Group(number); 8000];
        let all: Vec<u8> = (1..=300)
            .flat_map(|number| match number {
                1 => group(GroupCommand::Add, 1, vec![]),
                _ => group(GroupCommand::Add, number, through(number - 1)),
            })
            .collect();
        is_soon("300 groups, each 8,000 times through the one before", &switch, &all);
        let circle = group(GroupCommand::Modify, 1, through(300));
        is_soon("circles", &switch, &circle.repeat(5));
        let entry = change(FlowCommand::Add, "actions=group:300");
        switch.peer().write(&entry);
        is_soon("they are deleted", &switch, &all_groups_go());
    });
}

#[test]
fn many_that_never_read_giant_answers_hold_bounded_memory() {
    isolated!({
        let switch = patient();
        let mut peer = full(&switch);
        let request = ask(Request::Flow(FlowRequest::new(Match::Oxm(vec![])))).repeat(50);
        let mut deaf: Vec<Peer> = vec![];
        for _ in 0..200 {
            let mut one = switch.peer();
            one.write(&request);
            deaf.push(one);
        }
        peer.barrier();
        let queued: u64 = switch.show().connections.iter().map(|one| one.queued).sum();
        let full = resident(&switch);
        println!("{queued} bytes queued: {full} KiB");
        assert!(queued <= 65 << 20 && full < MOST_MEMORY, "{queued} {full}");
    });
}

#[test]
fn connections_that_come_order_and_go_hold_up_nobody() {
    isolated!({
        let switch = patient();
        let mut peer = full(&switch);
        let modify = change(FlowCommand::Modify, "actions=output:3");
        let mut longest = Duration::ZERO;
        let rounds = netloom_kit::rounds(20);
        for _ in 0..rounds {
            let mut one = switch.peer();
            one.write(&modify);
            drop(one);
            let before = worked_exactly(switch.pid());
            peer.barrier();
            longest = longest.max(worked_exactly(switch.pid()) - before);
        }
        println!("others wait for {longest:?} of work at most");
        assert!(longest < SOON, "{longest:?}");
        netloom_kit::done("connections that order and go", rounds);
        // What they ordered is done, and nothing is left of them.
        wait("the last one is gone", || (switch.show().connections.len() == 1).then_some(()));
        peer.flow(FlowCommand::Delete, "table=255");
        peer.barrier();
        assert_eq!(switch.show().entries, 0);
    });
}

/// What many connections have said and is not done is bounded, of all together.
#[test]
fn halves_and_orders_of_many_connections_hold_bounded_memory() {
    isolated!({
        let switch = patient();
        let mut peer = full(&switch);
        let first = resident(&switch);
        // Each has the longest list of actions, which is decoded before it waits for its turn.
        let instructions = vec![Instruction::ApplyActions(vec![Action::SetQueue(1); 8000])];
        let modify =
            FlowMod { instructions, ..FlowMod::new(FlowCommand::Modify, Match::Oxm(vec![])) };
        let modify = bytes(&Message::FlowMod(modify));
        let half = &modify[..modify.len() - 1];
        for (what, said) in [("orders", &modify[..]), ("halves", half)] {
            let mut many = vec![];
            for _ in 0..900 {
                let mut one = Peer::silent(&switch.openflow());
                // It may be closed because of what others say.
                if one.try_write(&[4, 0, 0, 8, 0, 0, 0, 0]) {
                    let _ = one.try_write(said);
                }
                many.push(one);
            }
            peer.barrier();
            let full = resident(&switch);
            println!("900 {what}: {first} KiB before, {full} KiB");
            assert!(full < first + (64 << 10), "{what}: {first} {full}");
            drop(many);
        }
        peer.barrier();
    });
}

/// Messages of other kinds, many in one write.
#[test]
fn other_writes_hold_up_nobody() {
    isolated!({
        let switch = patient();
        let _peer = full(&switch);
        let repeat = |count: u32, one: &dyn Fn(u32) -> Message| -> Vec<u8> {
            (1..=count).flat_map(|number| bytes(&one(number))).collect()
        };
        // Each group goes through the one before.
        let through = |number: u32| {
            let to = match number {
                1 => Action::output(PortNumber(1)),
                _ => Action::Group(number - 1),
            };
            let (command, kind) = (GroupCommand::Add, GroupType::All);
            let buckets = vec![Bucket::new(0, vec![to])];
            Message::GroupMod(GroupMod { command, kind, group: number, buckets })
        };
        is_soon("a chain of 1,000 groups", &switch, &repeat(1000, &through));
        let meter = |number: u32| {
            let said = format!("meter={number},kbps,band=type=drop,rate=100");
            Message::MeterMod(text::meter(MeterCommand::Add, &said).expect("a meter"))
        };
        is_soon("5,000 meters", &switch, &repeat(5000, &meter));
        // Each has a mask of its own.
        let masked = |number: u32| {
            let mask = std::net::Ipv4Addr::from(number);
            let said = format!("priority=1,ip,nw_src={mask}/{mask},actions=meter:1,group:7");
            Message::FlowMod(text::flow(FlowCommand::Add, &said, Version::V13).expect("an entry"))
        };
        is_soon("entries of 5,000 masks", &switch, &repeat(5000, &masked));
        for (what, body) in [
            ("features of tables", Request::TableFeatures(vec![])),
            ("statistics of groups", Request::GroupStats(GROUP_ALL)),
            ("statistics of meters", Request::MeterStats(METER_ALL)),
            ("meters", Request::MeterConfig(METER_ALL)),
        ] {
            let body = MultipartRequest { flags: 0, body };
            is_soon(what, &switch, &repeat(100, &|_| Message::MultipartRequest(body.clone())));
        }
        let overlap = |number: u32| {
            let said = format!("check_overlap,priority=7,tcp,tp_dst={number},actions=drop");
            Message::FlowMod(text::flow(FlowCommand::Add, &said, Version::V13).expect("an entry"))
        };
        is_soon("looks for overlaps", &switch, &repeat(300, &overlap));
        is_soon("all groups deleted", &switch, &all_groups_go());
        let meter = MeterMod {
            command: MeterCommand::Delete,
            flags: MeterFlags::default(),
            meter: METER_ALL,
            bands: vec![],
        };
        is_soon("all meters deleted", &switch, &bytes(&Message::MeterMod(meter)));
        let shown = switch.show();
        assert_eq!((shown.groups, shown.meters), (0, 0));
        is_soon("the rest deleted", &switch, &change(FlowCommand::Delete, "table=255"));
        assert_eq!(switch.show().entries, 0);
    });
}
