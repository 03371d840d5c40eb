//! Links in the test's own namespace, and the frames sent over them.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use netloom_generate::{
    Engine, Generator, Receive, ReceiveOptions, ReceiveReport, SendReport, Spec, StreamReport,
    Target,
};
use netloom_kit::wait_for_carrier;
use netloom_netlink::{Batch, BridgeSpec, Change, EndSpec, Socket, VethSpec};
use netloom_traffic::{Addresses, Rate};

/// Longest that anything is waited for.
pub const BOUND: Duration = Duration::from_secs(20);
/// The sending end.
pub const A: u32 = 77;
/// The receiving end.
pub const B: u32 = 78;

fn run(fill: impl FnOnce(&mut Batch)) {
    let mut batch = Batch::new();
    fill(&mut batch);
    Socket::open().unwrap().run(&mut batch).unwrap();
}

pub fn quiet() {
    // So that nothing sends of its own.
    std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").unwrap();
}

fn end(name: &str, index: u32, mtu: Option<u32>) -> EndSpec<'_> {
    let mac = [2, 0, 0, 0, 0, u8::try_from(index).unwrap()];
    EndSpec { index: Some(index), mac: Some(mac), mtu, ..EndSpec::new(name) }
}

/// A pair, A and B, both up.
pub fn pair() {
    quiet();
    run(|batch| {
        batch.push("pair", &VethSpec::new(end("a", A, None), end("b", B, None)));
        batch.push("a", &Change::of(A).up());
        batch.push("b", &Change::of(B).up());
    });
    wait_for_carrier(A);
}

/// A and B with a bridge between them, whose second leg takes packets of at most `mtu` bytes.
pub fn narrow(mtu: u32) {
    quiet();
    run(|batch| {
        let bridge = BridgeSpec { index: Some(90), up: true, ..BridgeSpec::new("bridge") };
        batch.push("bridge", &bridge);
        batch.push("first", &VethSpec::new(end("a", A, None), end("x", 79, None)));
        let narrow = VethSpec::new(end("y", 80, Some(mtu)), end("b", B, Some(mtu)));
        batch.push("second", &narrow);
        for index in [79, 80] {
            batch.push("leg", &Change::of(index).enslave(90));
        }
        for index in [A, B, 79, 80] {
            batch.push("up", &Change::of(index).up());
        }
    });
    for index in [A, B, 90] {
        wait_for_carrier(index);
    }
}

pub fn down(index: u32) {
    run(|batch| batch.push("down", &Change::of(index).down()));
}

/// From A to B.
pub fn addresses(v6: bool) -> Addresses {
    Addresses {
        source_mac: [2, 0, 0, 0, 0, 77],
        target_mac: [2, 0, 0, 0, 0, 78],
        ..Addresses::example(v6)
    }
}

/// This many of the smallest frames.
pub fn spec(frames: u64, rate: Rate) -> Spec {
    Spec { frames: Some(frames), rate, ..Spec::new(addresses(false)) }
}

pub fn interface(index: u32) -> Target {
    Target::Interface { index, far: None }
}

/// From here on this thread sends by one CPU: frames of several have no order.
fn stay_on_this_cpu() {
    let mut one = rustix::thread::CpuSet::new();
    one.set(rustix::thread::sched_getcpu());
    rustix::thread::sched_setaffinity(None, &one).unwrap();
}

/// Receives on B what `send` sends, until this many stamped frames have come and nothing more is left.
pub fn receive<T>(frames: u64, send: impl FnOnce() -> T) -> (T, Receive) {
    let options = ReceiveOptions {
        frames: Some(frames),
        duration: Some(BOUND),
        timeout_ms: 1,
        ..ReceiveOptions::default()
    };
    let mut receive = Receive::open(B, options).unwrap();
    stay_on_this_cpu();
    let sent = send();
    receive.run(&AtomicBool::new(false)).unwrap();
    (sent, receive)
}

/// The sent frames, and the received ones; all taken frames arrive, except `lost` ones.
pub fn send(engine: Engine, spec: &Spec, lost: u64) -> (SendReport, ReceiveReport) {
    let stop = AtomicBool::new(false);
    let mut generator = Generator::open(interface(A), engine, spec.clone()).unwrap();
    let options =
        ReceiveOptions { duration: Some(BOUND), timeout_ms: 1, ..ReceiveOptions::default() };
    let mut receive = Receive::open(B, options).unwrap();
    stay_on_this_cpu();
    let sent = generator.run(&stop).unwrap();
    receive.expect(sent.frames_sent - lost);
    receive.run(&stop).unwrap();
    let made = sent.frames_sent + sent.frames_refused;
    let report = receive.report(&[(spec.stream, made)]);
    assert_eq!((report.frames_dropped_here, report.interface_gone), (0, false));
    (sent, report)
}

/// The only stream.
pub fn only(report: &ReceiveReport) -> &StreamReport {
    assert_eq!(report.streams.len(), 1, "{report:?}");
    &report.streams[0]
}

/// Sets a flag when it goes.
pub struct Stops<'a>(pub &'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
