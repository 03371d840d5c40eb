//! Many results and many masks: each frame finds its own, before and after memory grows, and in another process.

use netloom_ebpf::flow::{Entry, Flow, Limit, List, Options, Trial};
use netloom_kit::root_only;
use netloom_openflow::{Field, PortNumber};
use netloom_pipeline::{Effect, FlowKey, headers};

use super::flow_frames as frames;
use super::support::net::{NetNs, link};

/// More than two doublings of the memory.
const MANY: u16 = 18_000;
const OPTIONS: Options =
    Options { ports: 8, results: 40_000, operations: 512, ring: 1 << 18, beside: false };

fn frame(number: u16) -> Vec<u8> {
    frames::udp4(number, 7)
}

/// Keeps a result for frames of port 1 that agree with this one in some fields.
fn keep(flow: &mut Flow, slot: u32, bytes: &[u8], fields: &[Field], to: u32) -> bool {
    let (_, mut key) = headers::parse(bytes);
    let mut mask = FlowKey::default();
    key.set(Field::InPort, 1);
    for field in [Field::InPort].iter().chain(fields) {
        mask.set(*field, u128::MAX);
    }
    let effects = [Effect::Send { port: PortNumber(to), queue: None }];
    let list = List::of(&effects, &key, |port| Some(port.0)).unwrap();
    let generation = flow.generation();
    flow.install(&Entry { slot, generation, key: &key, mask: &mask, list: &list }).unwrap()
}

fn keep_all(flow: &mut Flow) {
    for number in 0..MANY {
        let slot = u32::from(number);
        assert!(keep(flow, slot, &frame(number), &[Field::EthType, Field::UdpSrc], 2), "{number}");
    }
}

#[test]
fn each_of_many_results_is_found_and_counted() {
    root_only!("loads BPF programs");
    let mut trial = Trial::load(&OPTIONS).unwrap();
    keep_all(&mut trial.flow);
    assert_eq!(trial.flow.results(), usize::from(MANY));
    let sent = |trial: &Trial, number| trial.run(&frame(number), 1).unwrap().sent;
    for number in 0..MANY {
        assert!(sent(&trial, number), "{number}");
        assert_eq!(trial.flow.counts(u32::from(number)).packets, 1, "{number}");
    }
    assert!(!sent(&trial, MANY));
    for number in (0..MANY).step_by(3) {
        trial.flow.remove(u32::from(number));
    }
    trial.flow.settle();
    for number in 0..MANY {
        assert_eq!(sent(&trial, number), number % 3 != 0, "{number}");
    }
    // The same again, in slots of others.
    for number in (0..MANY).step_by(3) {
        let slot = u32::from(MANY - 1 - number) / 3 * 3;
        assert!(keep(&mut trial.flow, slot, &frame(number), &[Field::EthType, Field::UdpSrc], 2));
    }
    assert!((0..MANY).all(|number| sent(&trial, number)));
    trial.flow.set_generation(9);
    assert!(!sent(&trial, 1) && trial.flow.results() == 0);
    keep_all(&mut trial.flow);
    assert!((0..MANY).all(|number| sent(&trial, number)));
    assert_eq!(trial.flow.stats().failed, 0);
}

#[test]
fn a_result_of_a_later_mask_is_found_by_a_hint_the_next_time() {
    root_only!("loads BPF programs");
    // A hint is of one processor.
    super::measure::stay_on_this_cpu();
    let mut trial = Trial::load(&OPTIONS).unwrap();
    let wanted = frame(1);
    let mut other = frames::tcp6(5, 6);
    other[..12].fill(0x42);
    let masks = [Field::EthSrc, Field::EthDst, Field::EthType, Field::IpProto, Field::UdpSrc];
    for (slot, field) in (1..).zip(masks) {
        assert!(keep(&mut trial.flow, slot, &other, &[field], 3));
    }
    assert!(keep(&mut trial.flow, 9, &wanted, &[Field::Ipv4Src, Field::Ipv4Dst], 2));
    let runs = |trial: &Trial| (trial.flow.stats().masked, trial.flow.stats().exact);
    assert!(trial.run(&wanted, 1).unwrap().sent);
    assert_eq!(runs(&trial), (1, 0));
    assert!(trial.run(&wanted, 1).unwrap().sent);
    assert_eq!((runs(&trial), trial.flow.counts(9).packets), ((1, 1), 2));
    // What the hint leads to is another one now.
    trial.flow.remove(9);
    assert!(!trial.run(&wanted, 1).unwrap().sent);
    assert!(keep(&mut trial.flow, 9, &frame(2), &[Field::UdpSrc, Field::UdpDst], 2));
    assert!(!trial.run(&wanted, 1).unwrap().sent);
    assert!(trial.run(&frame(2), 1).unwrap().sent);
    assert_eq!(trial.flow.counts(9).packets, 1);
}

#[test]
fn another_process_finds_all_of_many_results() {
    root_only!("attaches BPF programs");
    let (core, outside) = (NetNs::create(), NetNs::create());
    for (inner, outer) in [(11, 21), (12, 22)] {
        link(core.end(inner), outside.end(outer));
    }
    core.run(|| {
        let mut flow = Flow::create(&OPTIONS).unwrap();
        flow.attach(11, 1, Limit::default()).unwrap();
        keep_all(&mut flow);
        flow.remove(5);
    });
    let mut flow = core.run(|| Flow::reopen(11).unwrap().unwrap());
    assert_eq!((flow.results(), flow.room()), (usize::from(MANY) - 1, OPTIONS.results));
    let mut slots: Vec<u32> = flow.kept().map(|kept| kept.slot).collect();
    slots.sort_unstable();
    assert_eq!(slots, (0..u32::from(MANY)).filter(|slot| *slot != 5).collect::<Vec<_>>());
    let kept = flow.kept().find(|kept| kept.slot == 6).unwrap();
    assert_eq!(kept.key.get(Field::UdpSrc), 6);
    // Those that are there can be removed, and there is room for more.
    flow.remove(6);
    for number in MANY..MANY + 20_000 {
        let fields = [Field::EthType, Field::UdpSrc];
        assert!(keep(&mut flow, u32::from(number), &frame(number), &fields, 2), "{number}");
    }
    assert!(keep(&mut flow, 6, &frame(5), &[Field::EthType, Field::UdpSrc], 2));
    assert_eq!(flow.results(), usize::from(MANY) + 20_000 - 1);
    assert_eq!(flow.stats().failed, 0);
}
