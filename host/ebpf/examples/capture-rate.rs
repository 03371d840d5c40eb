//! What a tap costs: nanoseconds for a frame, and frames a second that are captured without loss.
//!
//! To be run by hand, alone on the machine:
//! `cargo run --release -p netloom-ebpf --example capture-rate`, as root.

#[allow(dead_code, reason = "tests use the rest")]
#[path = "../tests/support/net.rs"]
mod net;
#[allow(dead_code, reason = "tests use the rest")]
#[path = "../tests/support/packet.rs"]
mod packet;

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use libbpf_sys::{bpf_link_create_opts, bpf_prog_load_opts, bpf_test_run_opts};
use net::{NetNs, link, mac};
use netloom_ebpf::capture::{Tap, TapOptions, Where};
use netloom_filter::{Insn, Program};
use packet::frame;
use rustix::thread::{CpuSet, sched_setaffinity};

const XDP_PASS: i32 = 2;
const XDP_TX: i32 = 3;

/// A program that returns a verdict.
fn verdict(kind: u32, value: i32) -> OwnedFd {
    let insns = [0xb7u64 | u64::from(value.cast_unsigned()) << 32, 0x95];
    let mut opts =
        bpf_prog_load_opts { sz: size_of::<bpf_prog_load_opts>() as u64, ..Default::default() };
    if kind == libbpf_sys::BPF_PROG_TYPE_XDP {
        opts.prog_flags = libbpf_sys::BPF_F_XDP_HAS_FRAGS;
    }
    // SAFETY: two whole instructions, names that end in zeros, and options of the size they say.
    let fd = unsafe {
        libbpf_sys::bpf_prog_load(
            kind,
            c"verdict".as_ptr(),
            c"GPL".as_ptr(),
            insns.as_ptr().cast(),
            2,
            &raw mut opts,
        )
    };
    assert!(fd >= 0, "{fd}");
    // SAFETY: just made for us.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// Attaches a program by XDP.
fn attach(program: &OwnedFd, index: i32) -> OwnedFd {
    let opts =
        bpf_link_create_opts { sz: size_of::<bpf_link_create_opts>() as u64, ..Default::default() };
    let at = libbpf_sys::BPF_XDP;
    // SAFETY: options of the size they say.
    let fd =
        unsafe { libbpf_sys::bpf_link_create(program.as_raw_fd(), index, at, &raw const opts) };
    assert!(fd >= 0, "{fd}");
    // SAFETY: just made for us.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// Runs a program over a frame this many times; nanoseconds for each.
fn run(program: BorrowedFd<'_>, bytes: &[u8], repeat: i32) -> u32 {
    let mut opts = bpf_test_run_opts {
        sz: size_of::<bpf_test_run_opts>() as u64,
        data_in: bytes.as_ptr().cast(),
        data_size_in: u32::try_from(bytes.len()).unwrap(),
        repeat,
        ..Default::default()
    };
    // SAFETY: the frame is of the size given, and all outlives the call.
    let refused = unsafe { libbpf_sys::bpf_prog_test_run_opts(program.as_raw_fd(), &raw mut opts) };
    assert_eq!(refused, 0);
    opts.duration
}

/// Sends a frame as often as asked out of an interface that runs XDP.
fn send(program: &OwnedFd, index: u32, bytes: &[u8], repeat: i32) {
    let context = [0, u32::try_from(bytes.len()).unwrap(), 0, index, 0, 0];
    let mut opts = bpf_test_run_opts {
        sz: size_of::<bpf_test_run_opts>() as u64,
        data_in: bytes.as_ptr().cast(),
        data_size_in: u32::try_from(bytes.len()).unwrap(),
        ctx_in: context.as_ptr().cast(),
        ctx_size_in: u32::try_from(size_of_val(&context)).unwrap(),
        repeat,
        flags: libbpf_sys::BPF_F_TEST_XDP_LIVE_FRAMES,
        batch_size: 64,
        ..Default::default()
    };
    // SAFETY: frame and context are of the sizes given, and all outlives the call.
    let refused = unsafe { libbpf_sys::bpf_prog_test_run_opts(program.as_raw_fd(), &raw mut opts) };
    assert_eq!(refused, 0);
}

/// Lengths to be measured: `LENGTHS`, or all.
fn lengths() -> Vec<usize> {
    let all = "60 64 128 255 256 512 1024 1514".to_owned();
    let asked = std::env::var("LENGTHS").unwrap_or(all);
    asked.split(' ').map(|word| word.parse().unwrap()).collect()
}

fn pin(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).unwrap();
}

/// Takes frames of the tests' type, or of IPv4.
fn only(ethertype: u32) -> Option<Program> {
    let load = Insn { code: 0x28, jt: 0, jf: 0, k: 12 };
    let test = Insn { code: 0x15, jt: 0, jf: 1, k: ethertype };
    let [yes, no] = [0x40000, 0].map(|k| Insn { code: 0x06, jt: 0, jf: 0, k });
    Some(Program::new(vec![load, test, yes, no]).unwrap())
}

fn nanoseconds_for_a_frame() {
    let space = NetNs::create();
    link(space.end(2), space.end(3));
    let xdp = verdict(libbpf_sys::BPF_PROG_TYPE_XDP, XDP_PASS);
    let tc = verdict(libbpf_sys::BPF_PROG_TYPE_SCHED_CLS, 0);
    let best = |program: BorrowedFd<'_>, bytes: &[u8], between: &mut dyn FnMut()| {
        let runs = (0..7).map(|_| {
            let ns = run(program, bytes, 1_000_000);
            between();
            ns
        });
        runs.min().unwrap()
    };
    use std::os::fd::AsFd;
    for (at, empty) in [(Where::Xdp, &xdp), (Where::Tc, &tc)] {
        println!("{at:?}: empty {}", best(empty.as_fd(), &frame(mac(2), mac(3), 60), &mut || {}));
        for length in lengths() {
            let bytes = frame(mac(2), mac(3), length);
            let options = TapOptions {
                egress: false,
                bytes_per_cpu: 64 << 20,
                sink: true,
                ..TapOptions::at(at)
            };
            let cases = [
                ("whole", options.clone()),
                ("full ring", TapOptions { bytes_per_cpu: 0, snaplen: 2000, ..options.clone() }),
                ("64 bytes", TapOptions { snaplen: 64, ..options.clone() }),
                ("filter: yes", TapOptions { filter: only(0x88b5), ..options.clone() }),
                ("filter: no", TapOptions { filter: only(0x800), ..options.clone() }),
            ];
            print!("{length:5}");
            for (what, options) in cases {
                let mut tap = space.run(|| Tap::attach(3, &options)).unwrap();
                let stop = AtomicBool::new(false);
                let full = what == "full ring";
                let ns = std::thread::scope(|scope| {
                    let program = tap.program().try_clone_to_owned().unwrap();
                    let (stop, tap) = (&stop, &mut tap);
                    scope.spawn(move || {
                        pin(1);
                        while !full && !stop.load(Ordering::Relaxed) {
                            tap.take(&mut |_| {});
                            std::thread::sleep(Duration::from_micros(200));
                        }
                    });
                    pin(0);
                    let ns = best(program.as_fd(), &bytes, &mut || {});
                    stop.store(true, Ordering::Relaxed);
                    ns
                });
                let counts = tap.counts();
                assert_eq!(counts.offered, counts.filtered + counts.captured + counts.lost);
                let lost = counts.lost * 100 / counts.offered;
                print!(" | {what} {ns} ({lost} % lost)");
            }
            println!();
        }
    }
}

fn frames_a_second_without_loss() {
    let [near, far] = [NetNs::create(), NetNs::create()];
    link(near.end(2), far.end(3));
    let [pass, sender] = [XDP_PASS, XDP_TX].map(|v| verdict(libbpf_sys::BPF_PROG_TYPE_XDP, v));
    let _attached = near.run(|| attach(&pass, 2));
    let frames = 20_000_000;
    {
        let drop = verdict(libbpf_sys::BPF_PROG_TYPE_XDP, 1);
        let _sink = far.run(|| attach(&drop, 3));
        let start = Instant::now();
        near.run(|| {
            pin(0);
            send(&sender, 2, &frame(mac(3), mac(2), 60), frames);
        });
        let rate = f64::from(frames) / start.elapsed().as_secs_f64() / 1e6;
        println!("60 bytes, no tap: sent {rate:.2} Mpps");
    }
    for (what, length, megabytes, filter) in [
        ("60 bytes", 60, 8, None),
        ("60 bytes", 60, 64, None),
        ("60 bytes", 60, 64, None),
        ("60 bytes, filter", 60, 64, only(0x88b5)),
        ("512 bytes", 512, 64, None),
        ("1514 bytes", 1514, 64, None),
    ] {
        let bytes = frame(mac(3), mac(2), length);
        let options = TapOptions {
            sink: true,
            bytes_per_cpu: megabytes << 20,
            filter,
            ..TapOptions::at(Where::Xdp)
        };
        let mut tap = far.run(|| Tap::attach(3, &options)).unwrap();
        let done = AtomicBool::new(false);
        let mut took = Duration::ZERO;
        std::thread::scope(|scope| {
            let (tap, done) = (&mut tap, &done);
            scope.spawn(move || {
                pin(1);
                let mut room = vec![0u8; 8 << 20];
                let mut sum = 0;
                loop {
                    let last = done.load(Ordering::Relaxed);
                    let got = tap.take(&mut |run| room[..run.len()].copy_from_slice(run));
                    sum += got;
                    if got == 0 && last {
                        return sum;
                    }
                    if got < 64 << 10 {
                        std::thread::sleep(Duration::from_micros(100));
                    }
                }
            });
            let start = Instant::now();
            near.run(|| {
                pin(0);
                send(&sender, 2, &bytes, frames);
            });
            took = start.elapsed();
            done.store(true, Ordering::Relaxed);
        });
        let counts = tap.counts();
        assert_eq!(counts.offered, counts.filtered + counts.captured + counts.lost);
        println!(
            "{what}, {megabytes} MiB: sent {:.2} Mpps, offered {}, captured {}, lost {} ({:.3} %)",
            f64::from(frames) / took.as_secs_f64() / 1e6,
            counts.offered,
            counts.captured,
            counts.lost,
            100.0 * counts.lost as f64 / counts.offered as f64,
        );
    }
}

fn main() {
    nanoseconds_for_a_frame();
    frames_a_second_without_loss();
}
