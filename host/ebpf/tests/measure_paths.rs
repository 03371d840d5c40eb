//! Points on the kernel's own ways: tags beside frames, and one CPU that sends in a process
//! and in soft interrupts by turns.

use super::measure_support;
use super::support;
use super::traffic;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use support::net::{NetNs, link, mac};
use support::packet::Packets;

use measure_support::frames;
use netloom_ebpf::Direction;
use netloom_ebpf::measure::{Clock, Config, Marking, Measure};
use netloom_kit::root_only;
use netloom_marking::session::{NamedFilter, Program};
use netloom_marking::{Filter, Marks, Precedence, Schedule};
use netloom_packet::checksum::checksum;

const NEAR: u32 = 2;
const FAR: u32 = 3;
const BOUND: Duration = Duration::from_secs(90);
const HOUR: u64 = 3_600_000_000_000;
const ENDS: [[u8; 4]; 2] = [[10, 7, 0, 1], [10, 7, 0, 2]];

/// One flow of all packets, and one block that lasts: by TAI there was time before, however short ago the
/// machine was started.
fn config(marking: Marking) -> Config {
    let now = netloom_sys::clock::tai();
    Config {
        program: Program::All,
        schedule: Schedule::new(now - HOUR / 2, HOUR, HOUR / 4).unwrap(),
        marks: Marks::new(0, 16, 0x3f, 0).unwrap(),
        filters: vec![NamedFilter { id: 1, filter: Filter::default() }],
        precedence: Precedence::First,
        joined: Vec::new(),
        sampling: None,
        marking,
        clock: Clock::Tai,
        flows: 0,
        cache: 1024,
        samples: 1,
        stay: false,
    }
}

fn pair() -> (NetNs, NetNs) {
    let (near, far) = (NetNs::create(), NetNs::create());
    link(near.end(NEAR), far.end(FAR));
    near.address(NEAR, ENDS[0]);
    far.address(FAR, ENDS[1]);
    (near, far)
}

/// Packets and bytes of the one flow.
fn counted(point: &mut Measure) -> [u64; 2] {
    let record = point.read_bank(0).unwrap().remove(0).record;
    [record.all.packets, record.bytes]
}

/// The kernel takes a tag out of a frame that comes in, so egress has it inside and ingress beside it.
#[test]
fn a_tag_is_counted_wherever_it_is() {
    root_only!("attaches BPF programs");
    let (near, far) = pair();
    let attach = |space: &NetNs, index, direction| {
        space.run(|| Measure::attach(index, direction, &config(Marking::Off)).unwrap())
    };
    let mut sent = attach(&near, NEAR, Direction::Egress);
    let mut received = attach(&far, FAR, Direction::Ingress);
    let mut by_xdp = far.run(|| Measure::attach_xdp(FAR, &config(Marking::Off)).unwrap());
    let packets = near.run(|| Packets::open_all(NEAR));
    let udp = frames::udp(0, ENDS, [1, 2]).bytes;
    let mut tagged = udp.clone();
    tagged[..6].copy_from_slice(&mac(FAR));
    tagged.splice(12..12, [0x81, 0, 0, 5]);
    let length = tagged.len() as u64;
    for _ in 0..10 {
        assert!(packets.send(&tagged));
    }
    netloom_kit::wait_until("frames are there", BOUND, || {
        (received.counts().unwrap().other + counted(&mut received)[0] >= 10).then_some(())
    });
    for point in [&mut sent, &mut received, &mut by_xdp] {
        assert_eq!(counted(point), [10, 10 * length]);
    }
}

/// Frames that an interface has sent, and those that it could not.
fn sent(interface: &str) -> u64 {
    let file = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let line = file.lines().find_map(|line| line.trim().strip_prefix(&format!("{interface}:")));
    let numbers: Vec<u64> =
        line.unwrap().split_whitespace().map(|word| word.parse().unwrap()).collect();
    numbers[9] + numbers[11]
}

/// On the first CPU that this process may use.
fn on_first_cpu() {
    let all = rustix::thread::sched_getaffinity(None).unwrap();
    let first = (0..rustix::thread::CpuSet::MAX_CPU).find(|cpu| all.is_set(*cpu)).unwrap();
    let mut cpus = rustix::thread::CpuSet::new();
    cpus.set(first);
    rustix::thread::sched_setaffinity(None, &cpus).unwrap();
}

/// Counters are plain words: that is right only if a frame that a soft interrupt sends never comes in
/// between when a process sends on the same CPU.
#[test]
fn processes_and_interrupts_share_a_counter() {
    root_only!("attaches BPF programs");
    let (near, far) = pair();
    // The neighbours are known before the count begins.
    traffic::udp(&near, (ENDS[1].into(), 5000), 1, 100);
    let point = near.run(|| Measure::attach(NEAR, Direction::Egress, &config(Marking::Single)));
    let mut point = point.unwrap();
    let before = near.run(|| sent("eth2"));
    let done = AtomicBool::new(false);
    let mut echo = vec![8, 0, 0, 0, 0, 1, 0, 1];
    echo.extend([0; 56]);
    let sum = checksum(&echo).to_be_bytes();
    echo[2..4].copy_from_slice(&sum);
    let mut asked = frames::ethernet(&frames::ipv4(0, 1, [ENDS[1], ENDS[0]], &echo));
    asked[..6].copy_from_slice(&mac(NEAR));
    asked[6..12].copy_from_slice(&mac(FAR));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            far.run(|| {
                on_first_cpu();
                let packets = Packets::open_all(FAR);
                // Also where the other side fails.
                let end = Instant::now() + 2 * BOUND;
                while !done.load(Ordering::Relaxed) && Instant::now() < end {
                    packets.send(&asked);
                }
            });
        });
        near.run(|| {
            on_first_cpu();
            let socket = std::net::UdpSocket::bind("0.0.0.0:4000").unwrap();
            let mut own = 0;
            // Until both have had their share, however fast the machine is.
            netloom_kit::wait_until("it answers between packets of its own", BOUND, || {
                for _ in 0..10_000 {
                    // What the other end has no room for is lost, and counted.
                    let _ = socket.send_to(&[7; 64], (std::net::Ipv4Addr::from(ENDS[1]), 5000));
                }
                own += 10_000;
                (own >= 100_000 && sent("eth2") - before >= own + 50_000).then_some(())
            });
        });
        done.store(true, Ordering::Relaxed);
    });
    let mut last = 0;
    netloom_kit::wait_until("all is sent", BOUND, || {
        let now = near.run(|| sent("eth2"));
        let rests = now == std::mem::replace(&mut last, now);
        let counts = point.counts().unwrap();
        let counted = counted(&mut point)[0] + counts.other + counts.unmatched;
        (rests && counted == now - before).then_some(())
    });
}
