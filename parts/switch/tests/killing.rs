//! kill -9 of the switch and of ports, at random moments while frames are under way.
//!
//! The moments follow from a seed, which is printed; `NETLOOM_SEED` chooses another.

use super::world;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use netloom_digest::splitmix::SplitMix64;
use netloom_shm::layout::HEADER;
use netloom_shm::{JoinOptions, MOST_FRAME, Received, Sent, SwitchPort};
use netloom_switch::control::requests::Presence;
use world::{ALL, BOUND, Process, Station, Switch, frame, mac, number_of, numbered};

const ROUNDS: u32 = 20;

/// Numbers that look like chance.
fn chance() -> SplitMix64 {
    let seed = std::env::var("NETLOOM_SEED").ok().and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or(20_261_121);
    println!("NETLOOM_SEED={seed}");
    SplitMix64::new(seed)
}

/// What two threads that exchange numbered frames have sent and seen.
#[derive(Default)]
struct Talk {
    stop: AtomicBool,
    ended: [AtomicBool; 2],
    sent: [AtomicU64; 2],
    /// Frames that came from the other.
    seen: [AtomicU64; 2],
    /// Frames that came from others, all of them whole.
    strangers: AtomicU64,
}

impl Talk {
    /// Whether all that both have sent was seen.
    fn is_over(&self) -> bool {
        let over = |side: usize| {
            let sent = self.sent[side].load(Ordering::Acquire);
            self.ended[side].load(Ordering::Acquire)
                && self.seen[1 - side].load(Ordering::Acquire) == sent
        };
        over(0) && over(1)
    }
}

/// Sends numbered frames to the other as long as it keeps up, and counts what comes from it: nothing
/// may be missing, nothing twice, nothing torn.
fn converse(mut port: SwitchPort, side: usize, talk: &Talk) {
    let (own, peer) = ([1, 2][side], [2, 1][side]);
    let mut buffer = vec![0; MOST_FRAME];
    let (mut sent, mut expected) = (0, 0);
    while !talk.is_over() {
        if talk.stop.load(Ordering::Acquire) {
            talk.ended[side].store(true, Ordering::Release);
        } else if sent - talk.seen[1 - side].load(Ordering::Acquire) < 20 {
            // Bounded, so that nothing is sent that finds no room.
            let frame = world::whole(&numbered(mac(peer), mac(own), sent));
            sent += 1;
            talk.sent[side].store(sent, Ordering::Release);
            assert_eq!(port.send(&frame).expect("send"), Sent::Done);
        }
        let patience = Some(Duration::from_millis(1));
        let received = port.receive_wait(&mut buffer, patience).expect("receive");
        let Received::Frame { start, length } = received else { continue };
        let got = &buffer[start + HEADER..start + length];
        let from = got[11];
        if got[..6] == ALL {
            if got[14..].starts_with(b"greetings") {
                // So that it knows us, and both have edges. It may be dead already.
                let _ = port.send(&world::whole(&frame(mac(from), mac(own), b"hi"))).expect("send");
            }
            continue;
        }
        let number = number_of(got).expect("a whole frame");
        if from == peer {
            assert_eq!(number, expected, "from {peer} to {own}");
            expected += 1;
            talk.seen[side].store(expected, Ordering::Release);
        } else {
            talk.strangers.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn seen(talk: &Talk) -> u64 {
    talk.seen.iter().map(|seen| seen.load(Ordering::Relaxed)).sum()
}

/// Waits until both have got this many more.
fn go_on(talk: &Talk, more: u64) {
    let from = [0, 1].map(|side| talk.seen[side].load(Ordering::Relaxed));
    netloom_kit::wait_until("frames to come", BOUND, || {
        let on = |side: usize| talk.seen[side].load(Ordering::Relaxed) >= from[side] + more;
        (on(0) && on(1)).then_some(())
    });
}

/// Two ports that talk in threads while `during` happens.
fn while_they_talk(path: &Path, during: impl FnOnce(&Talk)) -> Talk {
    let [a, b] = [(1, "a"), (2, "b")].map(|(number, name)| {
        SwitchPort::join(&JoinOptions { number, ..JoinOptions::new(path, name) }).expect("join")
    });
    let talk = Talk::default();
    std::thread::scope(|scope| {
        scope.spawn(|| converse(a, 0, &talk));
        scope.spawn(|| converse(b, 1, &talk));
        // Also when a condition fails: else they would be waited for for ever.
        let _stop = Stop(&talk);
        go_on(&talk, 10);
        during(&talk);
    });
    talk
}

struct Stop<'a>(&'a Talk);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }
}

#[test]
fn nobody_misses_a_port_that_is_killed_but_its_peers() {
    let mut chance = chance();
    let switch = Switch::start();
    let path = switch.path();
    let times = netloom_kit::rounds(ROUNDS);
    let talk = while_they_talk(&path, |talk| {
        for round in 0..times {
            let name = format!("victim {round}");
            let arguments = ["talk", path.to_str().unwrap(), &name, "3", "1", "2"];
            let before = talk.strangers.load(Ordering::Relaxed);
            let mut victim = Process::start(&arguments, None);
            netloom_kit::wait_until("the victim to talk", BOUND, || {
                (talk.strangers.load(Ordering::Relaxed) > before + 10).then_some(())
            });
            go_on(talk, 1 + chance.below(200));
            victim.kill();
            go_on(talk, 20);
            netloom_kit::wait_until("it to be gone", BOUND, || {
                (switch.ask().show().unwrap().ports.len() == 2).then_some(())
            });
        }
    });
    println!("{} frames, and {} of victims", seen(&talk), talk.strangers.into_inner());
    netloom_kit::done("ports of a switch killed while they and others talk", times);
}

#[test]
fn nobody_misses_the_switch_and_a_new_one_takes_its_place() {
    let mut chance = chance();
    let mut switch = Switch::start();
    let path = switch.path();
    // Two of them have no edge yet.
    let [c, d] = [3, 4].map(|number| {
        let name = format!("p{number}");
        Station::with(&JoinOptions { number, ..JoinOptions::new(&path, &name) })
    });
    let times = netloom_kit::rounds(ROUNDS);
    let talk = while_they_talk(&path, |talk| {
        for _ in 0..times {
            go_on(talk, 1 + chance.below(100));
            switch.process.kill();
            go_on(talk, 50);
            switch.start_again();
            netloom_kit::wait_until("all to be back", BOUND, || {
                let ports = switch.ask().show().unwrap().ports;
                let here = ports.iter().filter(|p| p.presence == Presence::Here).count();
                (here == 4).then_some(())
            });
        }
        // Edges of before are known, and new ones can be made.
        assert_eq!(switch.ask().show().unwrap().edges, 2);
        c.send(&frame(ALL, mac(3), b"hello"));
        d.until(&frame(ALL, mac(3), b"hello"));
        d.send(&frame(mac(3), mac(4), b"direct"));
        c.until(&frame(mac(3), mac(4), b"direct"));
        assert_eq!(switch.ask().show().unwrap().edges, 3);
    });
    println!("{} frames over {times} switches", seen(&talk));
    netloom_kit::done("switches killed while their ports talk", times);
}
