//! Sessions on real links, with real traffic.

use super::world;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use netloom_ebpf::Direction;
use netloom_ebpf::measure::Clock;
use netloom_kit::{root_only, wait_until};
use netloom_marking::compare;
use netloom_measure::{ClosedBlock, Error, Interfaces, Join, Session, Setup, State};
use netloom_sys::clock::monotonic;
use world::*;

const WITHIN: &str = "counting ended before the block was closed";
const BEGAN: &str = "counting began within the block";
const GONE: &str = "the interface went away";

#[test]
fn both_ends_count_exactly_what_was_sent_over_several_blocks() {
    root_only!("attaches BPF programs");
    for clock in [Clock::Tai, Clock::Monotonic] {
        let _kept = netloom_kit::tai_kept();
        let pair = Pair::create();
        let session = started(&Ends::of(&[&pair]), Setup { clock, ..setup(8, way()) });
        assert_eq!(session.state(), State::Running);
        until_told(&session, 0);
        let (mut datagrams, mut streams) = (0, 0);
        while session.blocks(5, Duration::ZERO).is_empty() {
            pair.udp(100, 4000);
            pair.tcp(100_000);
            (datagrams, streams) = (datagrams + 100, streams + 1);
        }
        let told = until_end(&session);
        assert_eq!(
            told.iter().map(|told| told.block).collect::<Vec<_>>(),
            (0..8).collect::<Vec<_>>()
        );
        assert_eq!([0, 1].map(|spot| packets(&told, spot, 1)), [datagrams; 2]);
        let with = told.iter().filter(|told| flow(told, 0, 1).record.all.packets > 0).count();
        assert!(with >= 4, "{with} blocks had packets");
        for told in &told {
            for id in [1, 2] {
                let [there, here] = [1, 0].map(|spot| flow(told, spot, id).record);
                let compared = compare(&there, &here).unwrap();
                assert!(compared.is_complete(), "{:?}", compared.completeness.reasons());
                assert_eq!((compared.lost, compared.gained), (0, 0), "block {}", told.block);
                assert_eq!(there.bytes, here.bytes);
            }
        }
        assert!(packets(&told, 0, 2) >= streams * 70);
        // The way back was not marked: it is of no block, and told as that.
        assert_eq!(packets(&told, 0, 3) + packets(&told, 1, 3), 0);
        let (state, counts) = session.spot(0).unwrap();
        assert_eq!((state.clock, counts.outside, session.trouble()), (clock, 0, None));
    }
}

#[test]
fn no_packet_is_marked_before_the_first_block_nor_after_the_last() {
    root_only!("attaches BPF programs");
    let pair = Pair::create();
    let ends = Ends::of(&[&pair]);
    // An observer of its own, that goes on.
    let around = started(&ends, setup(0, vec![observer("far", Direction::Ingress)]));
    until_told(&around, 0);
    pair.udp(10, 4000);
    let session = started(&ends, setup(2, way()));
    until_end(&session);
    pair.udp(10, 4000);
    let last = until_told(&around, 0).last().unwrap().block;
    let told = until_told(&around, last + 2);
    assert_eq!(packets(&told, 0, 1), 0);
    assert_eq!(around.spot(0).unwrap().1.unmarked, 20);
}

#[test]
fn a_session_that_is_stopped_marks_its_last_block_and_leaves_nothing() {
    root_only!("attaches BPF programs");
    let pair = Pair::create();
    pair.unlink();
    let ifindexes = pair.link();
    let session = started(&Ends::of(&[&pair]), setup(0, way()));
    assert_eq!(pair.points(ifindexes), [1, 1]);
    until_told(&session, 2);
    pair.udp(50, 4000);
    session.stop();
    assert_eq!(session.state(), State::Ended);
    assert_eq!(pair.points(ifindexes), [0, 0]);
    let told = session.blocks(0, BOUND);
    let (last, before) = told.split_last().unwrap();
    assert!(last.block >= 3);
    assert_eq!([0, 1].map(|spot| reasons(last, spot)), [[WITHIN], [WITHIN]]);
    for told in before.iter().filter(|told| told.block + 1 < last.block) {
        assert_eq!([0, 1].map(|spot| reasons(told, spot)), [[""; 0], [""; 0]]);
    }
    assert_eq!([0, 1].map(|spot| packets(&told, spot, 1)), [50, 50]);
    // Out of order, and again.
    session.stop();
    assert!(matches!(session.start(), Err(Error::Order { state: "ended", .. })));
    pair.udp(10, 4000);
    assert_eq!(session.blocks(0, BOUND), told);
}

/// The block that lasts.
fn lasting(session: &Session) -> u64 {
    session.schedule().unwrap().block_at(monotonic()).unwrap()
}

/// Waits until nothing stands against a block at these spots.
fn until_whole(session: &Session, spots: &[usize]) {
    let until = Instant::now() + BOUND;
    let mut from = lasting(session);
    loop {
        let last = until_told(session, from).pop().unwrap();
        if spots.iter().all(|spot| reasons(&last, *spot).is_empty()) {
            return;
        }
        assert!(Instant::now() < until, "never whole again: {:?}", session.trouble());
        from = last.block + 1;
    }
}

/// Checks that blocks at a spot are first whole, then without the interface, then of a point that began
/// within, then whole, none of them before the interface was `back` (if it is). Blocks that a busy machine
/// did not read in time say so and are not looked at; whether there were such ones.
fn goes_and_returns(session: &Session, told: &[Arc<ClosedBlock>], spot: usize, back: u64) -> bool {
    let schedule = session.schedule().unwrap();
    let mut states = Vec::new();
    let mut missed = session.trouble().is_some();
    for told in told {
        let reasons = reasons(told, spot);
        let went = states.iter().any(|(_, state)| *state == 1);
        match &reasons[..] {
            [GONE] => states.push((told.block, 1)),
            [BEGAN] if went => states.push((told.block, 2)),
            [] if went => {
                let since = schedule.begin(told.block) - schedule.guard();
                assert!(since >= back, "block {} at {spot} is not whole", told.block);
                states.push((told.block, 3));
            }
            [] => states.push((told.block, 0)),
            // It was stopped.
            [.., WITHIN] => {}
            _ => missed = true,
        }
    }
    assert!(states.is_sorted_by_key(|(_, state)| *state), "at {spot}: {states:?}");
    assert!(states.iter().any(|(_, state)| *state == 1), "at {spot}: {states:?}");
    if let Some(trouble) = session.trouble() {
        assert!(trouble.contains("were not read in time"), "{trouble}");
    }
    missed
}

#[test]
fn an_interface_that_goes_marks_its_blocks_and_is_found_again() {
    root_only!("attaches BPF programs");
    let pair = Pair::create();
    let session = started(&Ends::of(&[&pair]), setup(0, way()));
    until_told(&session, 0);
    pair.udp(30, 4000);
    pair.unlink();
    // Those that were sent are in no later block, and this one is read without the interface.
    let gone = until_told(&session, lasting(&session)).pop().unwrap();
    assert_eq!([0, 1].map(|spot| reasons(&gone, spot).contains(&GONE)), [true; 2]);
    assert_eq!(session.state(), State::Running);
    let back = monotonic();
    let ifindexes = pair.link();
    until_whole(&session, &[0, 1]);
    assert_eq!(pair.points(ifindexes), [1, 1]);
    pair.udp(20, 4000);
    session.stop();
    assert_eq!(pair.points(ifindexes), [0, 0]);
    let told = session.blocks(0, BOUND);
    for spot in [0, 1] {
        let missed = goes_and_returns(&session, &told, spot, back);
        let found = packets(&told, spot, 1);
        // What came before it went is in a block that says so, or in one that was whole.
        assert!(found == 50 || missed && found < 50, "at {spot}: {found}");
    }
}

/// Interfaces of which those of the first pair can be kept from being visited.
struct Gate {
    ends: Arc<Ends>,
    closed: Mutex<bool>,
    opened: Condvar,
    /// The waiting threads, by name.
    waiting: Mutex<Vec<String>>,
}

impl Gate {
    fn of(pairs: &[&Arc<Pair>]) -> Arc<Gate> {
        let (ends, closed, opened) = (Ends::of(pairs), Mutex::new(false), Condvar::new());
        Arc::new(Gate { ends, closed, opened, waiting: Mutex::default() })
    }

    fn close(&self) {
        *self.closed.lock().unwrap() = true;
    }

    fn open(&self) {
        *self.closed.lock().unwrap() = false;
        self.opened.notify_all();
    }

    fn waiting(&self) -> Vec<String> {
        let mut waiting = self.waiting.lock().unwrap().clone();
        waiting.sort();
        waiting
    }
}

impl Interfaces for Gate {
    fn names(&self) -> netloom_measure::Result<Vec<String>> {
        self.ends.names()
    }

    fn visit(
        &self,
        netif: &str,
        work: &mut (dyn FnMut(u32) -> netloom_measure::Result<()> + Send),
    ) -> netloom_measure::Result<()> {
        let closed = self.closed.lock().unwrap();
        if *closed && !netif.ends_with('2') {
            self.waiting.lock().unwrap().push(netif.to_owned());
            drop(self.opened.wait_while(closed, |closed| *closed).unwrap());
            self.waiting.lock().unwrap().retain(|waiting| waiting != netif);
        } else {
            drop(closed);
        }
        self.ends.visit(netif, work)
    }
}

/// A session whose first pair went and is there again, and is being attached to, which lasts until the
/// gate is opened; a third point is at the second pair. With the indexes of the first.
fn held_up(pairs: &[Arc<Pair>; 2]) -> (Arc<Gate>, Session, [u32; 2]) {
    let gate = Gate::of(&[&pairs[0], &pairs[1]]);
    let mut spots = way();
    spots.push(observer("far2", Direction::Ingress));
    let session = Session::prepare(Arc::<Gate>::clone(&gate), setup(0, spots)).unwrap();
    start(&session);
    until_told(&session, 0);
    gate.close();
    pairs[0].unlink();
    let ifindexes = pairs[0].link();
    wait_until("points are being attached again", BOUND, || {
        (gate.waiting() == ["far", "near"]).then_some(())
    });
    (gate, session, ifindexes)
}

#[test]
fn blocks_are_told_while_points_are_attached_anew() {
    root_only!("attaches BPF programs");
    let pairs = [Pair::create(), Pair::create()];
    let (gate, session, ifindexes) = held_up(&pairs);
    let from = lasting(&session);
    let told = until_told(&session, from + 6);
    for told in told.iter().filter(|told| told.block >= from) {
        assert_eq!([0, 1].map(|spot| reasons(told, spot)), [[GONE], [GONE]]);
    }
    // Each is being attached once, whatever number of blocks that takes.
    assert_eq!(gate.waiting(), ["far", "near"]);
    assert_eq!(pairs[0].points(ifindexes), [0, 0]);
    let back = monotonic();
    gate.open();
    until_whole(&session, &[0, 1]);
    assert_eq!(pairs[0].points(ifindexes), [1, 1]);
    let told = session.blocks(0, BOUND);
    for spot in [0, 1] {
        goes_and_returns(&session, &told, spot, back);
    }
    let other =
        |told: &Arc<ClosedBlock>| reasons(told, 2).iter().all(|r| ![GONE, BEGAN].contains(r));
    assert!(told.iter().all(other));
}

#[test]
fn what_is_attached_after_the_end_does_not_stay() {
    root_only!("attaches BPF programs");
    for dropped in [false, true] {
        let pairs = [Pair::create(), Pair::create()];
        let (gate, session, ifindexes) = held_up(&pairs);
        if dropped {
            let ending = std::thread::spawn(move || drop(session));
            gate.open();
            ending.join().unwrap();
            assert_eq!(pairs[0].points(ifindexes), [0, 0]);
            continue;
        }
        std::thread::scope(|scope| {
            let ending = scope.spawn(|| session.stop());
            wait_until("the last block is told", BOUND, || {
                let last = session.blocks(0, Duration::ZERO).pop()?;
                reasons(&last, 2).contains(&WITHIN).then_some(())
            });
            assert_eq!((session.state(), gate.waiting().len()), (State::Running, 2));
            // Counts can be had while the end waits.
            assert!((0..3).all(|spot| session.spot(spot).is_ok()));
            gate.open();
            ending.join().unwrap();
            assert_eq!(session.state(), State::Ended);
        });
        assert_eq!((pairs[0].points(ifindexes), gate.waiting().len()), ([0, 0], 0));
    }
}

#[test]
fn a_probe_that_restarts_marks_its_block_and_agrees_with_others() {
    root_only!("attaches BPF programs");
    let pair = Pair::create();
    let ends = Ends::of(&[&pair]);
    let other = started(&ends, setup(0, vec![observer("far", Direction::Ingress)]));
    let first = started(&ends, setup(0, way()));
    until_told(&first, 1);
    pair.udp(20, 4000);
    let period = first.schedule().unwrap().period();
    first.stop();
    let cut = first.blocks(0, BOUND).last().cloned().unwrap();
    drop(first);
    let second = started(&ends, setup(0, way()));
    until_told(&second, 0);
    pair.udp(20, 4000);
    let whole = wait_until("all packets are told of", BOUND, || {
        let told = second.blocks(0, Duration::ZERO);
        (packets(&told, 0, 1) >= 20).then_some(told)
    });
    let [old, new] = [flow(&cut, 0, 1).record, flow(&whole[0], 0, 1).record];
    assert!(old.completeness.ended_within && new.completeness.is_complete());
    assert!(new.begin > old.begin && (new.begin - old.begin).is_multiple_of(period));
    // Another session saw every block of both with the same colour: its counts are theirs.
    let last = whole.last().unwrap().points[0].flows[0].record.begin;
    let block = other.schedule().unwrap().block_at(last).unwrap();
    let seen = until_told(&other, block);
    for told in &whole {
        let mine = flow(told, 0, 1).record;
        let theirs =
            seen.iter().map(|told| flow(told, 0, 1).record).find(|r| r.begin == mine.begin);
        let theirs = theirs.unwrap();
        assert_eq!(
            (theirs.colour, theirs.all.packets, theirs.bytes),
            (mine.colour, mine.all.packets, mine.bytes)
        );
    }
    assert_eq!(packets(&whole, 0, 1), 20);
    assert_eq!(packets(&seen, 0, 1), 40);
}

#[test]
fn two_sessions_count_the_same_at_one_interface() {
    root_only!("attaches BPF programs");
    let pair = Pair::create();
    let ends = Ends::of(&[&pair]);
    // It goes on until the other has ended, however long that takes to attach its points.
    let first = started(&ends, setup(0, way()));
    let far = vec![observer("far", Direction::Ingress), observer("far", Direction::Egress)];
    let second = started(&ends, setup(8, far));
    until_told(&second, 0);
    while second.blocks(3, Duration::ZERO).is_empty() {
        pair.udp(64, 4000);
    }
    let second = until_end(&second);
    let last = lasting(&first);
    let first = until_told(&first, last);
    let mut same = 0;
    for told in &second {
        let theirs = flow(told, 0, 1).record;
        let of = |told: &&Arc<_>| flow(told, 0, 1).record.begin == theirs.begin;
        let Some(mine) = first.iter().find(of) else { continue };
        let mine = flow(mine, 0, 1).record;
        assert_eq!((mine.all.packets, mine.bytes), (theirs.all.packets, theirs.bytes));
        assert!(theirs.completeness.is_complete());
        same += u32::from(theirs.all.packets > 0);
    }
    assert!(same >= 2, "{same}");
    assert_eq!(packets(&first, 0, 1), packets(&second, 0, 1));
}

#[test]
fn a_spot_that_fails_leaves_nothing_attached() {
    root_only!("attaches BPF programs");
    let pairs = [Pair::create(), Pair::create()];
    pairs[0].unlink();
    let ifindexes = pairs[0].link();
    let ends = Ends::of(&[&pairs[0], &pairs[1]]);
    let mut spots = way();
    spots.push(marker("near2"));
    let session = prepare(&ends, setup(2, spots));
    pairs[1].unlink();
    let error = session.start().unwrap_err();
    assert_eq!(error.to_string(), "interface \"near2\": there is none of this name here");
    assert_eq!((session.state(), session.schedule()), (State::Prepared, None));
    assert_eq!(pairs[0].points(ifindexes), [0, 0]);
    assert!(session.blocks(0, BOUND).is_empty());
    // With the interface there it starts.
    pairs[1].link();
    session.start().unwrap();
    assert!(matches!(session.start(), Err(Error::Order { state: "running", .. })));
    assert_eq!(until_end(&session).len(), 2);
}

#[test]
fn only_so_many_blocks_are_kept() {
    root_only!("attaches BPF programs");
    let pair = Pair::create();
    let session = started(&Ends::of(&[&pair]), Setup { keep: 3, ..setup(6, way()) });
    let kept: Vec<u64> = until_end(&session).iter().map(|told| told.block).collect();
    assert_eq!(kept, [3, 4, 5]);
    assert_eq!(session.blocks(5, Duration::ZERO).len(), 1);
}

#[test]
fn who_waits_is_woken_by_a_block_and_by_the_end() {
    root_only!("attaches BPF programs");
    let pair = Pair::create();
    let session = started(&Ends::of(&[&pair]), setup(0, way()));
    let began = Instant::now();
    std::thread::scope(|scope| {
        let slow: Vec<_> =
            (0..4).map(|_| scope.spawn(|| session.blocks(u64::MAX, BOUND * 2))).collect();
        let first = session.blocks(0, BOUND);
        assert_eq!(first[0].block, 0);
        assert_eq!(session.blocks(1, BOUND)[0].block, 1);
        session.stop();
        assert!(slow.into_iter().all(|slow| slow.join().unwrap().is_empty()));
    });
    assert!(began.elapsed() < BOUND);
}

#[test]
fn a_full_cache_is_counted_and_no_count_is_wrong() {
    root_only!("attaches BPF programs");
    let pair = Pair::create();
    let session = started(&Ends::of(&[&pair]), Setup { cache: 8, ..setup(0, way()) });
    until_told(&session, 0);
    for _ in 0..2 {
        for port in 0..40 {
            pair.udp(3, 20_000 + port);
        }
    }
    let last = until_told(&session, 0).last().unwrap().block;
    let told = until_told(&session, last + 2);
    assert_eq!([0, 1].map(|spot| packets(&told, spot, 1)), [240, 240]);
    for spot in [0, 1] {
        let counts = session.spot(spot).unwrap().1;
        assert!(counts.overflow > 0, "{counts:?}");
        assert!(told.iter().all(|told| reasons(told, spot).is_empty()));
    }
}

/// Interfaces that panic when they are asked at a bad moment.
struct Wild(Arc<Ends>, AtomicBool);

impl Interfaces for Wild {
    fn names(&self) -> netloom_measure::Result<Vec<String>> {
        self.0.names()
    }

    fn visit(
        &self,
        netif: &str,
        work: &mut (dyn FnMut(u32) -> netloom_measure::Result<()> + Send),
    ) -> netloom_measure::Result<()> {
        assert!(!self.1.load(Ordering::Relaxed), "asked at a bad moment");
        self.0.visit(netif, work)
    }
}

#[test]
fn a_panic_ends_a_session_and_spoils_nothing() {
    root_only!("attaches BPF programs");
    let pairs = [Pair::create(), Pair::create()];
    pairs[0].unlink();
    let ifindexes = pairs[0].link();
    let wild = Arc::new(Wild(Ends::of(&[&pairs[0], &pairs[1]]), AtomicBool::new(false)));
    let mut spots = way();
    spots.push(observer("far2", Direction::Ingress));
    let session = Session::prepare(Arc::<Wild>::clone(&wild), setup(0, spots)).unwrap();
    session.start().unwrap();
    until_told(&session, 0);
    wild.1.store(true, Ordering::Relaxed);
    pairs[1].unlink();
    let told = until_end(&session);
    let trouble = session.trouble().unwrap();
    assert!(trouble.contains("asked at a bad moment"), "{trouble}");
    assert!(!told.is_empty() && session.spot(0).is_ok());
    assert_eq!(pairs[0].points(ifindexes), [0, 0]);
    session.stop();
}

#[test]
fn a_flow_that_joins_takes_its_packets_from_one_block_on_at_all_points() {
    root_only!("attaches BPF programs");
    let pair = Pair::create();
    let session = started(&Ends::of(&[&pair]), Setup { flows: 4, ..setup(0, way()) });
    until_told(&session, 0);
    // Filter 9 is a part of filter 1.
    let own = |id: u32| {
        let mut filter = session.setup().configuration.filters[0];
        (filter.id, filter.filter.src_port) = (id, Some(4000));
        Join { filters: vec![filter], before: 1 }
    };
    let stop = AtomicBool::new(false);
    let (from, sent) = std::thread::scope(|scope| {
        let traffic = scope.spawn(|| {
            let mut sent = 0;
            while !stop.load(Ordering::Relaxed) {
                pair.udp(10, 4000);
                sent += 10;
            }
            sent
        });
        let from = session.join(&[own(9)]).unwrap();
        until_told(&session, from + 2);
        stop.store(true, Ordering::Relaxed);
        (from, traffic.join().unwrap())
    });
    let last = until_told(&session, lasting(&session)).last().unwrap().block;
    let told = until_told(&session, last + 1);
    let of = |told: &ClosedBlock, spot: usize, id: u32| {
        let found = told.points[spot].flows.iter().find(|flow| flow.id == id);
        found.map_or(0, |flow| flow.record.all.packets)
    };
    for told in &told {
        let whole = [0, 1].iter().all(|spot| reasons(told, *spot).is_empty());
        for id in [1, 9] {
            let [there, here] = [1, 0].map(|spot| of(told, spot, id));
            assert!(!whole || there == here, "block {}: {there} and {here} of {id}", told.block);
            let other = if told.block < from { id == 9 } else { id == 1 };
            assert!(
                !other || !whole || there == 0,
                "block {}, from {from}: {there} of {id}",
                told.block
            );
        }
    }
    let all: u64 = told.iter().map(|told| of(told, 1, 1) + of(told, 1, 9)).sum();
    assert_eq!(all, sent);
    // There is no room for a fifth one, and no session that has ended gets any.
    assert!(session.join(&[own(10)]).is_err());
    session.stop();
    assert!(matches!(session.join(&[own(11)]), Err(Error::Order { .. })));
}
