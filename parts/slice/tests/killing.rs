//! A slicer, a switch or a controller that ends at any moment leaves the others as they are.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::world::{Slicer, Switch, two, wait};

fn frame() -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 1, 2, 2, 0, 0, 0, 1, 1, 0x88, 0xb5];
    frame.resize(60, 0);
    frame
}

/// Frames that come in at port 1 without a pause.
struct Stream {
    stop: Arc<AtomicBool>,
    /// Sent, and those of them that did not leave by port 2 alone.
    counts: Arc<(AtomicU64, AtomicU64)>,
    thread: std::thread::JoinHandle<()>,
}

impl Stream {
    fn start(switch: &Arc<Switch>) -> Stream {
        let stop = Arc::new(AtomicBool::new(false));
        let counts = Arc::new((AtomicU64::new(0), AtomicU64::new(0)));
        let (ended, counted, switch) = (Arc::clone(&stop), Arc::clone(&counts), Arc::clone(switch));
        let thread = std::thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                let lost = switch.frame(1, &frame()) != [2];
                counted.1.fetch_add(u64::from(lost), Ordering::Relaxed);
                counted.0.fetch_add(1, Ordering::Relaxed);
                std::thread::yield_now();
            }
        });
        Stream { stop, counts, thread }
    }

    fn sent(&self) -> u64 {
        self.counts.0.load(Ordering::Relaxed)
    }

    /// How many were sent and lost.
    fn end(self) -> (u64, u64) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the stream");
        (self.counts.0.load(Ordering::Relaxed), self.counts.1.load(Ordering::Relaxed))
    }
}

#[test]
fn a_slicer_that_is_killed_goes_on_where_it_was_and_no_packet_is_lost() {
    let mut slicer = Slicer::start(&two(", rules: 4"));
    let switch = Arc::new(Switch::start(slicer.openflow()));
    slicer.ready();
    let mut red = slicer.peer("red");
    red.add("cookie=7,in_port=1,actions=output:2").expect("within red");
    red.add("priority=1,actions=flood").expect("within red");
    slicer.peer("blue").add("actions=flood").expect("within blue");
    let stream = Stream::start(&switch);
    let rounds = netloom_kit::rounds(5);
    for round in 1..=rounds {
        slicer.kill();
        assert!(red.is_closed());
        let sent = stream.sent();
        wait("it forwards meanwhile", || (stream.sent() > sent + 100).then_some(()));
        slicer.run();
        slicer.ready();
        let resumed = slicer.show().switches[0].resumed.clone().expect("it goes on");
        assert_eq!((resumed.rules, resumed.lost, resumed.made, resumed.removed), (3, 0, 0, 0));
        // Earlier rules are its controller's again: it sees it, changes it, and its quota counts it.
        red = slicer.peer("red");
        assert_eq!((red.flows(), slicer.peer("blue").flows()), (2, 1), "{round}");
        assert_eq!(slicer.of("red").entries, 3);
        let refused = red.add("priority=9,actions=drop").expect_err("above its quota");
        assert!(refused.contains("FULL"), "{refused}");
        red.add("cookie=7,in_port=1,actions=output:2").expect("the same again");
        assert_eq!(switch.entries(), 5);
    }
    let (sent, lost) = stream.end();
    netloom_kit::done("kills of a slicer under a stream", rounds);
    assert_eq!(lost, 0, "of {sent}");
    red.delete_all();
    assert_eq!((switch.entries(), red.flows()), (2, 0));
}

#[test]
fn what_is_no_slice_s_any_more_goes_and_what_others_have_stays() {
    let mut slicer = Slicer::start(&two(""));
    let switch = Arc::new(Switch::start(slicer.openflow()));
    slicer.ready();
    slicer.peer("red").add("in_port=1,actions=output:2").expect("within red");
    slicer.peer("blue").add("actions=flood").expect("within blue");
    let stream = Stream::start(&switch);
    slicer.kill();
    slicer.application.policy.slices.retain(|slice| slice.slice.name != "blue");
    slicer.run();
    slicer.ready();
    wait("blue's entries are gone", || (switch.entries() == 1).then_some(()));
    // The same without a restart.
    let policy = super::world::policy(&two(""));
    slicer.control().set_policy(&policy).expect("apart");
    slicer.ready();
    let mut blue = slicer.peer("blue");
    assert_eq!(blue.flows(), 0);
    blue.add("actions=flood").expect("within blue");
    assert_eq!(slicer.peer("red").flows(), 1);
    let (sent, lost) = stream.end();
    assert_eq!(lost, 0, "of {sent}");
}

#[test]
fn a_memory_that_cannot_be_trusted_empties_the_switch() {
    let mut slicer = Slicer::start(&two(""));
    let switch = Switch::start(slicer.openflow());
    slicer.ready();
    slicer.peer("red").add("in_port=1,actions=output:2").expect("within red");
    slicer.kill();
    assert_eq!((switch.entries(), switch.frame(1, &frame())), (1, vec![2]));
    let path = slicer.folder.path().join("memory-0000000000000001");
    let mut bytes = std::fs::read(&path).expect("what it remembered");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&path, bytes).expect("write it");
    slicer.run();
    slicer.ready();
    wait("the old entries are gone", || (switch.entries() == 0).then_some(()));
    assert_eq!(slicer.show().switches[0].resumed, None);
    let mut red = slicer.peer("red");
    assert_eq!(red.flows(), 0);
    red.add("in_port=1,actions=output:2").expect("within red");
    assert_eq!(switch.frame(1, &frame()), [2]);
}

#[test]
fn without_its_switch_there_is_no_virtual_one() {
    let slicer = Slicer::start(&two(""));
    let switch = Switch::start(slicer.openflow());
    slicer.ready();
    let mut red = slicer.peer("red");
    red.barrier();
    drop(switch);
    assert!(red.is_closed());
    wait("its sockets are gone", || (!slicer.folder.path().join("red.s").exists()).then_some(()));
    let _switch = Switch::start(slicer.openflow());
    slicer.peer("red").barrier();
}

#[test]
fn it_ends_with_its_folder() {
    let slicer = Slicer::start(&two(""));
    let control = slicer.control();
    std::fs::remove_dir_all(slicer.folder.path()).expect("remove it");
    wait("it has ended", || control.show().is_err().then_some(()));
}
