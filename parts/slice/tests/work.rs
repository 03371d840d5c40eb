//! Whatever one slice writes, the others are answered soon, nobody is cut off, and memory stays within bounds.
//!
//! How much is done in a turn is counted by `core/slicing/tests/work.rs`, on any machine. Here the slicer's processor time is
//! bounded, since a test shares its machine; times are printed, and `cargo xtask test attack` runs more rounds of them.

use std::io::Write;
use std::time::{Duration, Instant};

use netloom_kit::worked_exactly;
use netloom_openflow::action::GROUP_ALL;
use netloom_openflow::flow::FlowCommand;
use netloom_openflow::group::{GroupCommand, GroupType};
use netloom_openflow::meter::{METER_ALL, MeterCommand};
use netloom_openflow::multipart::{FlowRequest, MultipartRequest, Request};
use netloom_openflow::{
    Action, Bucket, Field, FlowMod, GroupMod, Instruction, Match, Message, Oxm, PortNumber, Reply,
    Version, encode, text,
};

use super::world::{Peer, Slicer, Switch, two, wait};

const V13: Version = Version::V13;

/// How long the slicer may work at most while another slice waits for its answer: builds for tests are slow. It is processor
/// time, since the machine has other work.
pub const SOON: Duration = Duration::from_millis(50);

/// What a slicer may take, in KiB.
const MOST_MEMORY: u64 = 256 * 1024;

/// Two slices of this many VLANs: a proof is about each of them.
pub fn of_vlans(count: u32) -> String {
    format!(
        "switches: {{s: {{datapath: 0x1}}}}\nslices:\n  red: {{switches: {{s: {{ports: [1, 2], vlan: 1..{count}}}}}}}\n  \
         blue: {{switches: {{s: {{ports: [1, 2, 3, 4], vlan: 3001..3900}}}}}}\n"
    )
}

pub fn bytes(message: &Message) -> Vec<u8> {
    encode(V13, 7, message).expect("a message")
}

pub fn group(number: u32, buckets: Vec<Bucket>) -> Message {
    let (command, kind) = (GroupCommand::Add, GroupType::All);
    Message::GroupMod(GroupMod { command, kind, group: number, buckets })
}

/// Buckets that send by port 2; each of them writes something else, if they are not equal.
pub fn buckets(count: u32, are_equal: bool) -> Vec<Bucket> {
    let one = |at: u32| {
        let set = |field, value| Action::SetField(Oxm::exact(field, value));
        let writes = [set(Field::EthDst, u128::from(at)), set(Field::VlanVid, 0x1001)];
        let writes = if are_equal { [].iter() } else { writes.iter() };
        let actions = writes.cloned().chain([Action::output(PortNumber(2))]);
        Bucket::new(0, actions.collect())
    };
    (0..count).map(one).collect()
}

pub fn flow(said: &str) -> Message {
    Message::FlowMod(text::flow(FlowCommand::Add, said, V13).expect("an entry"))
}

pub fn ask(body: Request) -> Message {
    Message::MultipartRequest(MultipartRequest { flags: 0, body })
}

/// Writes something as a slice, and asks for echoes as another until it is done, which is as long as its barrier is not
/// answered. Returns the times of the echoes, the shortest first, and how long the slicer worked at most during one.
fn beside(slicer: &Slicer, written: &[u8]) -> (Vec<Duration>, Duration) {
    let pid = slicer.show().pid;
    let (mut red, mut blue) = (slicer.peer("red"), slicer.peer("blue"));
    let mut writer = red.socket.try_clone().expect("a descriptor");
    let (written, barrier) = (written.to_vec(), bytes(&Message::BarrierRequest));
    let writing = std::thread::spawn(move || {
        writer.write_all(&written).expect("it is not cut off");
        writer.write_all(&barrier).expect("it is not cut off");
    });
    let done = std::thread::spawn(move || {
        while !matches!(red.hear().expect("it is not cut off"), (7, Message::BarrierReply)) {}
    });
    let (mut times, mut most) = (vec![], Duration::ZERO);
    while !done.is_finished() || times.len() < 500 {
        let (begun, before) = (Instant::now(), worked_exactly(pid));
        blue.ask(&Message::EchoRequest(vec![1]));
        times.push(begun.elapsed());
        most = most.max(worked_exactly(pid) - before);
    }
    writing.join().expect("written");
    done.join().expect("done");
    times.sort_unstable();
    (times, most)
}

/// The same, with what must hold.
pub fn is_soon(what: &str, slicer: &Slicer, written: &[u8]) {
    let (times, most) = beside(slicer, written);
    let at = |part: usize| times.get(times.len() * part / 100).copied().unwrap_or_default();
    let (count, median, p99) = (times.len(), at(50), at(99));
    println!("{what}: {count} echoes, median {median:?}, p99 {p99:?}, {most:?} of work at most");
    assert!(most < SOON, "{what}: {most:?} of work");
    assert_eq!(slicer.show().dropped, 0, "{what}: nobody is cut off");
}

/// KiB of its memory.
pub fn resident(slicer: &Slicer) -> u64 {
    netloom_kit::resident(slicer.show().pid)
}

#[test]
fn groups_that_take_long_to_prove_hold_up_no_other_slice() {
    for _ in 0..netloom_kit::rounds(1) {
        let slicer = Slicer::start(&of_vlans(1000));
        let _switch = Switch::start(slicer.openflow());
        slicer.ready();
        let of = |number| bytes(&group(number, buckets(200, number > 15)));
        let all: Vec<u8> = (1..=17).flat_map(of).collect();
        is_soon("17 groups of 200 buckets in one write", &slicer, &all);
        is_soon("one group of 2,000 buckets", &slicer, &bytes(&group(99, buckets(2000, true))));
        is_soon("one of 1,000 others", &slicer, &bytes(&group(100, buckets(1000, false))));
        let red = slicer.of("red");
        assert_eq!((red.groups, red.buckets, red.refused), (19, 17 * 200 + 3000, 0));
    }
    netloom_kit::done("rounds of groups that take long to prove", netloom_kit::rounds(1));
}

#[test]
fn groups_beside_few_rules_are_refused_at_their_quota() {
    let slicer = Slicer::start(&two(", rules: 1000"));
    let switch = Switch::start(slicer.openflow());
    slicer.ready();
    let mut red = slicer.peer("red");
    let all: Vec<u8> =
        (1..=1400).flat_map(|number| bytes(&group(number, buckets(1, true)))).collect();
    let mut writer = red.socket.try_clone().expect("a descriptor");
    let writing = std::thread::spawn(move || writer.write_all(&all).expect("sent"));
    let mut reasons = vec![];
    while reasons.len() < 400 {
        let (_, Message::Error(error)) = red.hear().expect("an error") else { panic!("no error") };
        reasons.push(error.reason(V13).expect("a known reason").name());
    }
    writing.join().expect("written");
    assert!(reasons.iter().all(|reason| *reason == "OFPGMFC_OUT_OF_GROUPS"), "{reasons:?}");
    red.barrier();
    let shown = slicer.of("red");
    assert_eq!((shown.groups, shown.refused, shown.most_groups), (1000, 400, 1000));
    assert_eq!(switch.groups(), 1000);
}

/// Rules with conversations of their own.
pub fn rules(from: u32, count: u32, actions: &str) -> Vec<u8> {
    let one = |number: u32| {
        let to = std::net::Ipv4Addr::from(number);
        bytes(&flow(&format!("ip,nw_dst={to},in_port=1,actions={actions}")))
    };
    (from..from + count).flat_map(one).collect()
}

/// A slicer that asks nobody for a sign of life: those that fill it answer no echo request.
pub fn unprobed(policy: &str) -> Slicer {
    Slicer::with(policy, |application| application.probe = 600)
}

/// Floods the switch of an [`unprobed`] slicer's slice with rules until it has as many as it may; what comes back is not looked at.
pub fn fill(slicer: &Slicer, slice: &str, actions: &str) -> Peer {
    let peer = slicer.peer(slice);
    let mut reader = peer.socket.try_clone().expect("a descriptor");
    std::thread::spawn(move || drop(std::io::copy(&mut reader, &mut std::io::sink())));
    let mut writer = peer.socket.try_clone().expect("a descriptor");
    let (mut next, before) = (0, slicer.of(slice).refused);
    while slicer.of(slice).refused < before + 2000 {
        writer.write_all(&rules(next, 1000, actions)).expect("it is not cut off");
        next += 1000;
    }
    peer
}

#[test]
fn a_flood_of_rules_is_bounded_and_its_memory_given_back() {
    let slicer = unprobed(&two(""));
    let switch = Switch::start(slicer.openflow());
    slicer.ready();
    let first = resident(&slicer);
    let _red = fill(&slicer, "red", "output:2");
    let _blue = fill(&slicer, "blue", "output:2");
    let shown = slicer.of("red");
    assert_eq!((shown.entries, shown.most_entries), (20_000, Some(20_000)));
    let full = resident(&slicer);
    println!("first {first} KiB, with 40,000 rules {full} KiB, counted {} bytes", 2 * shown.memory);
    assert!(full < MOST_MEMORY / 2, "{full}");
    // Half of what it takes is counted at least, so that the quota of bytes is one.
    assert!((full - first) * 1024 < 4 * shown.memory, "{first} {full} {}", shown.memory);
    let all = || FlowRequest::new(Match::default());
    is_soon("sums over 20,000 rules", &slicer, &bytes(&ask(Request::Aggregate(all()))));
    is_soon("20,000 rules told", &slicer, &bytes(&ask(Request::Flow(all()))));
    let delete = text::flow(FlowCommand::Delete, "", V13).expect("all entries");
    is_soon("20,000 rules deleted", &slicer, &bytes(&Message::FlowMod(delete)));
    slicer.peer("blue").delete_all();
    wait("its memory is given back", || (resident(&slicer) < first + full / 4).then_some(()));
    assert_eq!(switch.entries(), 0);
}

/// Whatever rules and groups are like, bytes bound them.
#[test]
fn large_rules_and_groups_are_bounded_by_their_bytes() {
    let slicer = unprobed(&two(""));
    let _switch = Switch::start(slicer.openflow());
    slicer.ready();
    let first = resident(&slicer);
    let many = ["dec_ttl"; 500].join(",");
    let _red = fill(&slicer, "red", &many);
    let shown = slicer.of("red");
    assert!(shown.memory <= shown.most_memory && shown.entries < 2000, "{shown:?}");
    let mut blue = slicer.peer("blue");
    for number in 0..20 {
        let set = |at| Action::SetField(Oxm::exact(Field::EthDst, u128::from(number * 1000 + at)));
        let one = |at| Bucket::new(0, vec![set(at), Action::output(PortNumber(2))]);
        blue.send(7, &group(number, (0..1000).map(one).collect()));
    }
    blue.barrier();
    let shown = slicer.of("blue");
    assert_eq!((shown.buckets, shown.most_buckets, shown.groups), (10_000, 10_000, 10));
    let full = resident(&slicer);
    println!("first {first} KiB, full {full} KiB");
    assert!(full < MOST_MEMORY, "{full}");
}

#[test]
fn a_refusal_is_short_whatever_was_refused() {
    let slicer = Slicer::start(&two(""));
    let _switch = Switch::start(slicer.openflow());
    slicer.ready();
    let mut red = slicer.peer("red");
    let mut rule = FlowMod::new(FlowCommand::Add, Match::default());
    let outside = vec![Action::output(PortNumber(3)); 4000];
    rule.instructions = vec![Instruction::ApplyActions(outside)];
    for xid in 0..20 {
        red.send(xid, &Message::FlowMod(rule.clone()));
    }
    red.barrier();
    let refusals = slicer.of("red").refusals;
    assert!(refusals.len() == 16 && refusals.iter().all(|one| one.words.len() < 2000));
}

#[test]
fn hundreds_of_slices_share_a_switch() {
    let slice = |at: u32| format!("  s{at}: {{switches: {{s: {{vlan: {at}}}}}}}\n");
    let all: String = (1..=300).map(slice).collect();
    let slicer = Slicer::start(&format!("switches: {{s: {{datapath: 0x1}}}}\nslices:\n{all}"));
    let switch = Switch::start(slicer.openflow());
    slicer.ready();
    for at in [1, 64, 65, 255, 256, 300] {
        let name = format!("s{at}");
        let mut peer = slicer.peer(&name);
        peer.add("table=1,actions=flood").expect("within the slice");
        peer.add("actions=goto_table:1").expect("within the slice");
        assert_eq!((peer.flows(), slicer.of(&name).most_entries), (2, Some(200)), "{name}");
        let other = peer.add(&format!("dl_vlan={},actions=flood", at % 300 + 1));
        assert_eq!(other, Err("OFPFMFC_EPERM".to_owned()), "{name}");
    }
    assert_eq!(switch.entries(), 12);
}

/// A switch that connects again, while a slice has much on it, is gone on with in turns, and nothing is proved again.
#[test]
fn a_switch_that_comes_back_holds_up_nobody() {
    let slicer = Slicer::start(&of_vlans(300));
    let switch = std::sync::Arc::new(Switch::start(slicer.openflow()));
    slicer.ready();
    let mut red = slicer.peer("red");
    for number in 0..8 {
        red.send(number, &group(number, buckets(100, false)));
    }
    red.add("actions=flood").expect("within the slice");
    let before = slicer.slice("red").cpu_us;
    switch.reconnect();
    wait("the switch has come back", || {
        let shown = slicer.show();
        let resumed = shown.switches.first()?.resumed.clone()?;
        assert_eq!((resumed.rules, resumed.lost, resumed.made, resumed.removed), (1, 0, 0, 0));
        Some(())
    });
    let mut red = slicer.peer("red");
    assert_eq!(red.flows(), 1);
    let shown = slicer.of("red");
    assert_eq!((shown.groups, shown.buckets, shown.rules), (8, 800, 1));
    println!("{before} us for the slice before");
    let groups = red.ask(&ask(Request::GroupDesc));
    let Message::MultipartReply(part) = groups else { panic!("{groups:?}") };
    assert!(matches!(part.body, Reply::GroupDesc(_)));
}

/// Messages of other kinds, many in one write.
#[test]
fn other_writes_hold_up_no_other_slice() {
    let slicer = Slicer::start(&of_vlans(300));
    let _switch = Switch::start(slicer.openflow());
    slicer.ready();
    let repeat = |count: u32, one: &dyn Fn(u32) -> Message| -> Vec<u8> {
        (1..=count).flat_map(|number| bytes(&one(number))).collect()
    };
    // Each group goes through the one before.
    let through = |number: u32| match number {
        1 => group(1, buckets(1, true)),
        _ => group(number, vec![Bucket::new(0, vec![Action::Group(number - 1)])]),
    };
    is_soon("a chain of 1,000 groups", &slicer, &repeat(1000, &through));
    let meter = |number: u32| {
        let said = format!("meter={number},kbps,band=type=drop,rate=100");
        Message::MeterMod(text::meter(MeterCommand::Add, &said).expect("a meter"))
    };
    is_soon("1,000 meters", &slicer, &repeat(1000, &meter));
    let entry = |number: u32| {
        let to = std::net::Ipv4Addr::from(number);
        flow(&format!("ip,nw_dst={to},dl_vlan={},actions=output:2", number % 299 + 1))
    };
    is_soon("5,000 rules", &slicer, &repeat(5000, &entry));
    let times = netloom_kit::rounds(5);
    for (what, body) in [
        ("features of tables", Request::TableFeatures(vec![])),
        ("descriptions of groups", Request::GroupDesc),
        ("statistics of groups", Request::GroupStats(GROUP_ALL)),
        ("meters", Request::MeterConfig(METER_ALL)),
        ("sums", Request::Aggregate(FlowRequest::new(Match::default()))),
        ("entries", Request::Flow(FlowRequest::new(Match::default()))),
    ] {
        is_soon(what, &slicer, &repeat(times, &|_| ask(body.clone())));
    }
    let modify = text::flow(FlowCommand::Modify, "actions=drop", V13).expect("all entries");
    is_soon("modifications", &slicer, &repeat(10, &|_| Message::FlowMod(modify.clone())));
    let overlap = |number: u32| {
        let said = format!("check_overlap,priority=7,tcp,tp_dst={number},actions=drop");
        flow(&said)
    };
    is_soon("looks for overlaps", &slicer, &repeat(300, &overlap));
    let delete = text::flow(FlowCommand::Delete, "", V13).expect("all entries");
    is_soon("deletions", &slicer, &repeat(100, &|_| Message::FlowMod(delete.clone())));
}

/// Connections that order much and go at once, again and again.
#[test]
fn connections_that_come_and_go_hold_up_no_other_slice() {
    let slicer = Slicer::start(&of_vlans(300));
    let _switch = Switch::start(slicer.openflow());
    slicer.ready();
    let all: Vec<u8> =
        (1..=20).flat_map(|number| bytes(&group(number, buckets(100, false)))).collect();
    let first = resident(&slicer);
    let mut blue = slicer.peer("blue");
    let (pid, mut most) = (slicer.show().pid, Duration::ZERO);
    for _ in 0..100 {
        let red = slicer.peer("red");
        (&red.socket).write_all(&all).expect("written");
        drop(red);
        let before = worked_exactly(pid);
        blue.ask(&Message::EchoRequest(vec![1]));
        most = most.max(worked_exactly(pid) - before);
    }
    println!("{first} KiB before, {} KiB after, {most:?} of work at most", resident(&slicer));
    assert!(most < SOON, "{most:?}");
    assert!(resident(&slicer) < MOST_MEMORY / 2);
}
