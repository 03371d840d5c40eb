//! Live capture: on the loopback interface of a network namespace that goes with its thread.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use netloom_kit::{needs, root_only};
use netloom_libpcap::{Error, Live, LiveOptions, Taken};
use netloom_netlink::{Batch, Change, Socket};

/// Runs in a fresh network namespace whose loopback interface is up.
fn with_loopback(test: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let run = scope.spawn(|| {
            // SAFETY: changes this thread alone, which ends after the test.
            assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0);
            let mut batch = Batch::new();
            batch.push("link lo", &Change::of(1).up());
            Socket::open().unwrap().run(&mut batch).unwrap();
            test();
        });
        run.join().unwrap();
    });
}

fn options(filter: &str) -> LiveOptions {
    LiveOptions {
        immediate: true,
        timeout_ms: 10_000,
        snaplen: 60,
        filter: Some(filter.to_owned()),
        ..LiveOptions::default()
    }
}

#[test]
fn frames_that_match_are_captured_and_counted() {
    root_only!("captures");
    needs!("libpcap");
    with_loopback(|| {
        let mut live = Live::open("lo", &options("udp dst port 9")).unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let from = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos();
        for port in [10, 9] {
            socket.send_to(&[7; 100], ("127.0.0.1", port)).unwrap();
        }
        let Taken::Frame(frame) = live.next().unwrap() else { panic!("no frame") };
        let until = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos();
        assert_eq!(frame.original, 142);
        // In immediate mode libpcap 1.10.3 keeps two bytes less.
        assert!((58..=60).contains(&frame.data.len()), "{}", frame.data.len());
        assert_eq!(frame.data[36..38], [0, 9]);
        assert!((from..=until).contains(&u128::from(frame.time_ns)), "{}", frame.time_ns);

        // The error of the closed port does not match.
        socket.send_to(&[8; 10], "127.0.0.1:9").unwrap();
        let mut seen = Vec::new();
        let count = live.dispatch(1, &mut |frame| seen.push(frame.original)).unwrap();
        assert_eq!((count, &seen[..]), (Some(1), &[52][..]));
        let statistics = live.statistics().unwrap();
        // Of loopback the kernel counts each frame going out and coming in; libpcap gives one of them.
        assert!([2, 4].contains(&statistics.received), "{statistics:?}");
        assert_eq!(statistics.dropped, 0);
        assert_eq!(live.statistics().unwrap(), statistics);
    });
}

#[test]
fn waiting_is_ended_from_another_thread() {
    root_only!("captures");
    needs!("libpcap");
    with_loopback(|| {
        let mut live = Live::open("lo", &LiveOptions { timeout_ms: 1000, ..options("") }).unwrap();
        let breaker = live.breaker();
        std::thread::scope(|scope| {
            scope.spawn(move || breaker.stop());
            loop {
                match live.next().unwrap() {
                    Taken::Broken => break,
                    Taken::Timeout => {}
                    Taken::Frame(_) => panic!("nobody sends"),
                }
            }
        });
    });
}

#[test]
fn a_wait_that_is_ended_loses_no_frame() {
    const FRAMES: u32 = 20_000;
    root_only!("captures");
    needs!("libpcap");
    with_loopback(|| {
        // By blocks: a call gives a frame of those that are there.
        let all = LiveOptions { immediate: false, timeout_ms: 10, ..options("udp dst port 9") };
        let mut live = Live::open("lo", &LiveOptions { buffer_bytes: 16 << 20, ..all }).unwrap();
        let (breaker, done) = (live.breaker(), AtomicBool::new(false));
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let _receiver = UdpSocket::bind("127.0.0.1:9").unwrap();
        for n in 0..FRAMES {
            socket.send_to(&n.to_be_bytes(), ("127.0.0.1", 9)).unwrap();
        }
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    breaker.stop();
                }
            });
            let mut next = 0;
            let until = Instant::now() + Duration::from_secs(60);
            while next < FRAMES && Instant::now() < until {
                if let Taken::Frame(frame) = live.next().unwrap() {
                    let number = u32::from_be_bytes(frame.data[42..46].try_into().unwrap());
                    // Of loopback libpcap gives each once, going out or coming in.
                    if number != next {
                        break;
                    }
                    next += 1;
                }
            }
            done.store(true, Ordering::Relaxed);
            assert_eq!((next, live.statistics().unwrap().dropped), (FRAMES, 0));
        });
    });
}

#[test]
fn what_cannot_be_opened_says_why() {
    needs!("libpcap");
    let error = Live::open("no-such-link", &options("")).err().unwrap();
    let Error::Interface { interface, message, .. } = error else { panic!("{error}") };
    assert_eq!(interface, "no-such-link");
    assert!(!message.is_empty());
}

#[test]
fn a_wrong_filter_is_refused() {
    root_only!("captures");
    needs!("libpcap");
    with_loopback(|| {
        let error = Live::open("lo", &options("tcp prot 80")).err().unwrap();
        assert!(matches!(error, Error::Expression { .. }), "{error}");
    });
}
