//! Frames that are made, through pairs of links, and what the other end finds of them.

use super::world;

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use netloom_generate::{
    Engine, Error, FarEnd, Generator, ReceiveReport, SendReport, Spec, StreamReport, Target,
    UsedEngine,
};
use netloom_kit::isolated;
use netloom_netlink::{Batch, Change, EndSpec, Socket, VethSpec};
use netloom_sys::namespace;
use netloom_traffic::{Flows, Rate, Sizes};
use world::{A, B, BOUND, addresses, down, interface, narrow, only, pair, send, spec};

/// All that were sent have come, once each and in order.
fn whole(stream: &StreamReport, frames: u64, bytes: u64) {
    assert_eq!((stream.frames_received, stream.bytes_received), (frames, bytes), "{stream:?}");
    let faults = [
        stream.frames_lost,
        stream.frames_duplicated,
        stream.frames_reordered,
        stream.frames_stale,
    ];
    assert_eq!(faults, [0; 4]);
}

/// All were made; what the interface has taken has come, and no other: its queue to the other end is
/// short, and on a busy machine it may refuse some.
fn as_taken(sent: &SendReport, stream: &StreamReport, frames: u64) {
    assert_eq!(sent.frames_sent + sent.frames_refused, frames);
    assert!(sent.frames_sent > 0);
    assert_eq!(stream.frames_received, sent.frames_sent, "{stream:?}");
    assert_eq!(stream.frames_lost, sent.frames_refused, "{stream:?}");
    assert_eq!((stream.frames_duplicated, stream.frames_reordered), (0, 0));
}

#[test]
fn what_the_ring_sends_arrives() {
    isolated!({
        pair();
        for (rate, v6) in [(Rate::Max, false), (Rate::Packets(200_000.0), true)] {
            let spec = Spec {
                sizes: Sizes::Range(90, 1518),
                flows: Flows::new(5).unwrap(),
                stream: 9,
                rate,
                frames: Some(2858),
                ..Spec::new(addresses(v6))
            };
            let (sent, report) = send(Engine::Ring, &spec, 0);
            assert_eq!(sent.engine, UsedEngine::Ring);
            assert_eq!((sent.frames_sent, sent.frames_refused), (2858, 0));
            // Two rounds of all sizes.
            let bytes = (90 + 1518) * 1429;
            assert_eq!(sent.bytes_offered, bytes);
            assert_eq!(only(&report).stream, 9);
            whole(only(&report), 2858, bytes);
            let paced = sent.pacing.map(|pacing| pacing.departures);
            assert_eq!(paced, (rate != Rate::Max).then_some(2858));
            let latency = only(&report).latency;
            assert!(latency.min_ns <= latency.p50_ns && latency.p999_ns <= latency.max_ns);
        }
    });
}

#[test]
fn numbers_go_on_and_reports_are_of_one_run() {
    isolated!({
        pair();
        let mut generator =
            Generator::open(interface(A), Engine::Ring, spec(100, Rate::Max)).unwrap();
        let stop = AtomicBool::new(false);
        let (sent, receive) =
            world::receive(300, || [(); 3].map(|()| generator.run(&stop).unwrap().frames_sent));
        assert_eq!(sent, [100; 3]);
        whole(only(&receive.report(&[(0, 300)])), 300, 300 * 64);
    });
}

#[test]
fn what_is_dropped_on_the_way_is_found_lost() {
    isolated!({
        narrow(600);
        let spec = Spec { sizes: Sizes::Imix, ..spec(1200, Rate::Max) };
        // One of twelve is longer than the second leg takes.
        let (sent, report) = send(Engine::Ring, &spec, 100);
        assert_eq!((sent.frames_sent, sent.frames_refused), (1200, 0));
        let stream = only(&report);
        assert_eq!((stream.frames_received, stream.frames_lost), (1100, 100));
        assert_eq!((stream.frames_duplicated, stream.frames_reordered), (0, 0));
        assert_eq!(stream.bytes_received, 100 * (7 * 64 + 4 * 570));
    });
}

#[test]
fn a_duration_is_so_many_frames_at_a_rate() {
    isolated!({
        pair();
        let of = |rate| {
            let duration = Some(Duration::from_millis(20));
            let spec = Spec { rate, duration, ..Spec::new(addresses(false)) };
            Generator::open(interface(A), Engine::Ring, spec)
                .unwrap()
                .run(&AtomicBool::new(false))
                .unwrap()
        };
        assert_eq!(of(Rate::Packets(50_000.0)).frames_sent, 1000);
        // 64 bytes are 512 bits.
        assert_eq!(of(Rate::Bits(5_120_000.0)).frames_sent, 200);
        let report = of(Rate::Max);
        assert!(
            report.frames_sent > 0 && report.elapsed_ns >= 20_000_000 && report.pacing.is_none()
        );
    });
}

#[test]
fn it_ends_when_it_is_told_to() {
    isolated!({
        pair();
        let stop = AtomicBool::new(false);
        let slow = Spec { rate: Rate::Packets(0.001), ..Spec::new(addresses(false)) };
        for spec in [Spec::new(addresses(false)), slow] {
            stop.store(false, Ordering::Relaxed);
            let mut generator = Generator::open(interface(A), Engine::Ring, spec).unwrap();
            let mut socket = Socket::open().unwrap();
            let before = socket.link(B).unwrap().unwrap().traffic;
            std::thread::scope(|scope| {
                let run = scope.spawn(|| generator.run(&stop).unwrap());
                let _stops = world::Stops(&stop);
                // Until the first has come.
                netloom_kit::wait_until("a frame", BOUND, || {
                    (socket.link(B).unwrap().unwrap().traffic != before).then_some(())
                });
                stop.store(true, Ordering::Relaxed);
                assert!(run.join().unwrap().frames_sent > 0);
            });
        }
    });
}

#[test]
fn what_cannot_be_sent_is_named() {
    isolated!({
        pair();
        let open = |target, engine, sizes| {
            let spec = Spec { sizes, ..Spec::new(addresses(false)) };
            Generator::open(target, engine, spec).unwrap_err().to_string()
        };
        assert_eq!(
            open(interface(A), Engine::Ring, Sizes::Fixed(2000)),
            "interface 77: send frames of 1996 bytes: it takes at most 1514"
        );
        assert!(open(interface(A), Engine::Ring, Sizes::Fixed(63)).contains("63: must be 64 to"));
        assert!(open(interface(A), Engine::Shm, Sizes::Imix).starts_with("engine shm: "));
        assert!(open(interface(4711), Engine::Ring, Sizes::Imix).contains("interface 4711"));
        let small = Spec { sizes: Sizes::Fixed(64), ..Spec::new(addresses(true)) };
        let error = Generator::open(interface(A), Engine::Ring, small).unwrap_err();
        assert!(error.to_string().contains("60: must be 80 to"), "{error}");
        let mut generator =
            Generator::open(interface(A), Engine::Ring, spec(5, Rate::Max)).unwrap();
        down(A);
        let error = generator.run(&AtomicBool::new(false)).unwrap_err();
        assert!(matches!(error, Error::Down { index: A }), "{error}");
    });
}

#[test]
fn what_the_kernel_makes_arrives() {
    netloom_kit::root_only!("runs BPF programs");
    isolated!({
        pair();
        for (rate, v6) in [(Rate::Max, false), (Rate::Packets(2e6), false), (Rate::Bits(3e9), true)]
        {
            let spec = Spec {
                sizes: Sizes::Range(84, 183),
                flows: Flows::new(3).unwrap(),
                rate,
                frames: Some(5001),
                ..Spec::new(addresses(v6))
            };
            // Fast enough that it is chosen.
            let (sent, report) = send(Engine::Auto, &spec, 0);
            assert_eq!(sent.engine, UsedEngine::LiveFrames);
            assert_eq!(sent.bytes_offered, 50 * (84..=183).sum::<u64>() + 84);
            as_taken(&sent, only(&report), 5001);
        }
        let duration = Some(Duration::from_millis(10));
        let spec = Spec { rate: Rate::Packets(1e5), duration, ..Spec::new(addresses(false)) };
        let (sent, report) = send(Engine::LiveFrames, &spec, 0);
        as_taken(&sent, only(&report), 1000);
    });
}

/// A namespace that is made on a thread of its own.
fn space() -> OwnedFd {
    std::thread::scope(|scope| {
        let made = scope.spawn(|| {
            namespace::new_network().unwrap();
            world::quiet();
            OwnedFd::from(File::open("/proc/thread-self/ns/net").unwrap())
        });
        made.join().unwrap()
    })
}

#[test]
fn another_end_elsewhere_is_reached_or_named() {
    netloom_kit::root_only!("runs BPF programs");
    isolated!({
        world::quiet();
        let space = space();
        let end = |name, index| EndSpec { index: Some(index), ..EndSpec::new(name) };
        let far = EndSpec { netns: Some(space.as_fd()), ..end("b", B) };
        let mut batch = Batch::new();
        batch.push("pair", &VethSpec { a_up: true, ..VethSpec::new(end("a", A), far) });
        Socket::open().unwrap().run(&mut batch).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                namespace::enter_network(space.as_fd()).unwrap();
                let mut batch = Batch::new();
                batch.push("b", &Change::of(B).up());
                Socket::open().unwrap().run(&mut batch).unwrap();
            });
        });
        netloom_kit::wait_for_carrier(A);
        let stop = AtomicBool::new(false);
        let open = |far, engine| {
            let target = Target::Interface { index: A, far };
            Generator::open(target, engine, spec(640, Rate::Max)).unwrap().run(&stop)
        };
        let error = open(None, Engine::LiveFrames).unwrap_err();
        assert!(matches!(error, Error::FarEnd { index: A }), "{error}");
        assert_eq!(open(None, Engine::Auto).unwrap().engine, UsedEngine::Ring);
        for engine in [Engine::LiveFrames, Engine::Auto] {
            let netns = space.try_clone().unwrap();
            let sent = open(Some(FarEnd { netns, index: B }), engine).unwrap();
            assert_eq!(sent.engine, UsedEngine::LiveFrames);
            assert!(sent.frames_sent > 0 && sent.frames_sent + sent.frames_refused == 640);
        }
    });
}

#[test]
fn reports_are_written_and_read() {
    isolated!({
        pair();
        let (sent, report) = send(Engine::Ring, &spec(64, Rate::Packets(1e5)), 0);
        let text = serde_json::to_string(&report).unwrap();
        assert!(text.contains("\"frames_lost\":0") && text.contains("\"p99_ns\":"), "{text}");
        assert_eq!(serde_json::from_str::<ReceiveReport>(&text).unwrap(), report);
        assert!(serde_json::to_string(&sent).unwrap().contains("\"engine\":\"ring\""));
    });
}
