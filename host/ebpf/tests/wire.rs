//! Wires put into running links, with a process that carries frames from tap to tap.

use super::support;

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use netloom_ebpf::measure::{Clock, Config, Marking, Measure};
use netloom_ebpf::protect::{Budget, Shield};
use netloom_ebpf::wire::Splice;
use netloom_ebpf::{Direction, Hook, feature};
use netloom_kit::wait_until;
use netloom_marking::session::Program;
use netloom_marking::{Marks, Precedence, Schedule};
use support::net::{NetNs, link, mac};
use support::packet::{Packets, Seen, frame};
use support::relay::{Relay, tap};

/// Bound on waiting for what must come.
const BOUND: Duration = Duration::from_secs(30);
const HOST: u8 = 0;
const BROADCAST: u8 = 1;
const MULTICAST: u8 = 2;
const OTHER: u8 = 3;

fn hooks() -> Vec<Hook> {
    let tcx = feature::tcx_supported().map(|()| Hook::Tcx);
    let clsact = feature::clsact_supported().map(|()| Hook::Clsact);
    [tcx, clsact].into_iter().flatten().collect()
}

/// Two namespaces with a link; wires are at the second one's interface, 3.
struct Pair {
    near: NetNs,
    far: NetNs,
}

fn pair() -> Pair {
    let pair = Pair { near: NetNs::create(), far: NetNs::create() };
    link(pair.near.end(2), pair.far.end(3));
    pair.near.address(2, [10, 9, 0, 2]);
    pair.far.address(3, [10, 9, 0, 3]);
    pair
}

impl Pair {
    /// Taps in the far namespace, up.
    fn taps(&self, indexes: [u32; 2]) -> [File; 2] {
        indexes.map(|index| {
            let made = self.far.run(|| tap(&format!("tap{index}"), index));
            self.far.up(index);
            made
        })
    }

    /// A wire in one direction: out by the first tap, back by the second.
    fn wire(&self, splice: &Splice, direction: Direction, indexes: [u32; 2]) -> Relay {
        let [out, back] = self.taps(indexes);
        self.far.run(|| {
            splice.attach_tap(indexes[1], 3, direction).unwrap();
            splice.insert(3, direction, indexes[0]).unwrap();
        });
        Relay::start(&out, &back)
    }

    fn sockets(&self) -> [Packets; 2] {
        [self.near.run(|| Packets::open(2)), self.far.run(|| Packets::open(3))]
    }
}

fn bytes(seen: Vec<Seen>) -> Vec<Vec<u8>> {
    seen.into_iter().map(|frame| frame.bytes).collect()
}

/// A TCP connection through the link that never stops sending.
struct Stream {
    moved: std::sync::Arc<AtomicU64>,
    stop: std::sync::Arc<AtomicBool>,
    threads: Vec<JoinHandle<std::io::Result<()>>>,
}

impl Stream {
    fn start(pair: &Pair) -> Self {
        let listener = pair.far.run(|| TcpListener::bind("10.9.0.3:0").unwrap());
        let to = listener.local_addr().unwrap();
        let mut sender = pair.near.run(|| TcpStream::connect(to).unwrap());
        let (mut receiver, _) = listener.accept().unwrap();
        let moved = std::sync::Arc::new(AtomicU64::new(0));
        let stop = std::sync::Arc::new(AtomicBool::new(false));
        let (ends, counts) = (stop.clone(), moved.clone());
        let send = std::thread::spawn(move || {
            let block = vec![0x33; 1 << 20];
            while !ends.load(Ordering::Relaxed) {
                sender.write_all(&block)?;
            }
            Ok(())
        });
        let receive = std::thread::spawn(move || {
            let mut block = vec![0; 1 << 20];
            loop {
                match receiver.read(&mut block)? {
                    0 => return Ok(()),
                    n => {
                        assert!(block[..n].iter().all(|byte| *byte == 0x33));
                        counts.fetch_add(n as u64, Ordering::Relaxed);
                    }
                }
            }
        });
        Self { moved, stop, threads: vec![send, receive] }
    }

    /// Waits until another 32 MiB have arrived.
    fn goes_on(&self) {
        let goal = self.moved.load(Ordering::Relaxed) + (32 << 20);
        wait_until("the connection goes on", BOUND, || {
            (self.moved.load(Ordering::Relaxed) >= goal).then_some(())
        });
    }

    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().unwrap().expect("not reset");
        }
    }
}

#[test]
fn this_machine_takes_the_programs_or_says_what_it_lacks() {
    match feature::wire_supported() {
        Ok(_) => assert!(netloom_kit::is_root()),
        Err(missing) => assert!(!netloom_kit::is_root(), "{missing}"),
    }
}

#[test]
fn a_running_connection_stays_while_wires_come_and_go() {
    netloom_kit::root_only!("attaches BPF programs");
    for hook in hooks() {
        let pair = pair();
        let stream = Stream::start(&pair);
        stream.goes_on();
        let splice = pair.far.run(|| Splice::create_by(hook)).unwrap();
        let toward = pair.wire(&splice, Direction::Ingress, [20, 21]);
        let back = pair.wire(&splice, Direction::Egress, [22, 23]);
        assert_eq!(splice.tap_of(3, Direction::Egress).unwrap(), Some(22));
        wait_until("frames go through the wire", BOUND, || {
            (toward.frames() > 100 && back.frames() > 10).then_some(())
        });
        stream.goes_on();
        assert!(toward.longest() > 10_000, "frames stay whole: {}", toward.longest());
        assert!(splice.remove(3, Direction::Ingress).unwrap());
        assert!(splice.remove(3, Direction::Egress).unwrap());
        assert!(!splice.remove(3, Direction::Egress).unwrap());
        assert_eq!(splice.tap_of(3, Direction::Egress).unwrap(), None);
        stream.goes_on();
        // Nothing is led through the taps any more, which may still hold some frames.
        let _ = toward.frames();
        stream.end();
        assert!(tso(&pair.near, 2), "TSO is on");
    }
}

/// Whether an interface cuts up TCP segments itself (ethtool's `ETHTOOL_GTSO`).
fn tso(space: &NetNs, index: u32) -> bool {
    use std::os::fd::AsRawFd;
    space.run(|| {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut value = [0x1eu32, 0];
        let mut request = [0u8; 40];
        let name = format!("eth{index}");
        request[..name.len()].copy_from_slice(name.as_bytes());
        let address = value.as_mut_ptr().expose_provenance();
        request[16..24].copy_from_slice(&address.to_ne_bytes());
        // SAFETY: SIOCETHTOOL takes an ifreq of 40 bytes that names an ethtool_value; both outlive it.
        let refused = unsafe { libc::ioctl(socket.as_raw_fd(), 0x8946, request.as_mut_ptr()) };
        assert_eq!(refused, 0, "{}", std::io::Error::last_os_error());
        value[1] == 1
    })
}

#[test]
fn frames_arrive_as_they_were_and_for_whom_they_were() {
    netloom_kit::root_only!("attaches BPF programs");
    for hook in hooks() {
        let pair = pair();
        let [near, far] = pair.sockets();
        let splice = pair.far.run(|| Splice::create_by(hook)).unwrap();
        let toward = pair.wire(&splice, Direction::Ingress, [20, 21]);
        let cases = [
            (mac(3), HOST),
            ([2, 0, 0, 0, 0, 0x77], OTHER),
            ([0xff; 6], BROADCAST),
            ([0x33, 0x33, 0, 0, 0, 1], MULTICAST),
            (mac(3), HOST),
        ];
        for (i, (to, kind)) in cases.into_iter().enumerate() {
            let sent = frame(to, mac(2), 60 + i * 300);
            assert!(near.send(&sent));
            assert_eq!(far.collect(1, BOUND), [Seen { bytes: sent, kind }], "{hook:?}");
        }
        assert_eq!(toward.frames(), 5);
        // Past everything at the sender's egress.
        let bypass = pair.near.run(|| Packets::open(2)).bypass();
        let sent = frame(mac(3), mac(2), 1000);
        assert!(bypass.send(&sent));
        assert_eq!(bytes(far.collect(1, BOUND)), [sent]);
        assert_eq!(toward.frames(), 6);
        // The other direction is not a wire's.
        let sent = frame(mac(2), mac(3), 100);
        assert!(far.send(&sent));
        assert_eq!(bytes(near.collect(1, BOUND)), [sent]);
        assert_eq!(toward.frames(), 6);
    }
}

#[test]
fn tags_and_unfinished_checksums_survive_both_directions() {
    netloom_kit::root_only!("attaches BPF programs");
    let pair = pair();
    let splice = pair.far.run(Splice::create).unwrap();
    let toward = pair.wire(&splice, Direction::Ingress, [20, 21]);
    let back = pair.wire(&splice, Direction::Egress, [22, 23]);
    let [near, far] = pair.sockets().map(Packets::with_header);
    for (from, to, relay, macs) in
        [(&near, &far, &toward, [mac(3), mac(2)]), (&far, &near, &back, [mac(2), mac(3)])]
    {
        // VIRTIO_NET_HDR_F_NEEDS_CSUM, with the checksum at 20 bytes from the Ethernet header's end.
        let header = [1, 0, 0, 0, 0, 0, 34, 0, 6, 0];
        let mut sent = [&header[..], &frame(macs[0], macs[1], 200)].concat();
        sent[10 + 40..10 + 42].copy_from_slice(&[0x12, 0x34]);
        assert!(from.send(&sent));
        let got = bytes(to.collect(1, BOUND));
        assert_eq!(got[0][..1], [1], "its checksum is still to be made");
        assert_eq!(got[0][6..], sent[6..]);
        assert_eq!(relay.frames(), 1);
    }
    // The kernel keeps the tag beside the frame. Captures see what goes into the wire, too.
    let [near, far] = [(&pair.near, 2), (&pair.far, 3)]
        .map(|(space, index)| space.run(|| Packets::open_all(index)).with_tags());
    for (from, to, relay, macs, times) in
        [(&near, &far, &toward, [mac(3), mac(2)], 2), (&far, &near, &back, [mac(2), mac(3)], 1)]
    {
        let plain = frame(macs[0], macs[1], 100);
        assert!(from.send(&[&plain[..12], &[0x81, 0x00, 0x20, 0x05], &plain[12..]].concat()));
        for _ in 0..times {
            assert_eq!(to.next_tagged(BOUND), (plain.clone(), Some(0x2005)));
        }
        assert_eq!(relay.tagged(), 1);
    }
}

#[test]
fn a_wire_that_died_stops_its_link_until_it_is_made_anew() {
    netloom_kit::root_only!("attaches BPF programs");
    let pair = pair();
    let [near, far] = pair.sockets();
    let splice = pair.far.run(Splice::create).unwrap();
    // Frames of several CPUs have no order.
    super::measure::stay_on_this_cpu();
    let relay = pair.wire(&splice, Direction::Ingress, [20, 21]);
    drop(relay);
    let lost = frame(mac(3), mac(2), 100);
    assert!(near.send(&lost));
    // What takes the same way back out shows that the lost one would have been there.
    let sent = frame(mac(2), mac(3), 100);
    assert!(far.send(&sent));
    near.collect(1, BOUND);
    let relay = pair.wire(&splice, Direction::Ingress, [20, 21]);
    let sent = frame(mac(3), mac(2), 200);
    assert!(near.send(&sent));
    assert_eq!(bytes(far.collect(1, BOUND)), [sent], "and the lost one not");
    assert_eq!(relay.frames(), 1);
}

#[test]
fn points_count_beside_a_wire_what_has_come_through_it() {
    netloom_kit::root_only!("attaches BPF programs");
    for hook in hooks() {
        let pair = pair();
        let [near, far] = pair.sockets();
        let splice = pair.far.run(|| Splice::create_by(hook)).unwrap();
        let toward = pair.wire(&splice, Direction::Ingress, [20, 21]);
        let attach =
            || pair.far.run(|| Measure::attach_by(hook, 3, Direction::Ingress, &counting()));
        let points = [attach().unwrap(), attach().unwrap()];
        for n in 1..=3 {
            assert!(near.send(&frame(mac(3), mac(2), 100)));
            far.collect(1, BOUND);
            assert_eq!(points.each_ref().map(|point| point.counts().unwrap().other), [n; 2]);
        }
        assert_eq!(toward.frames(), 3, "{hook:?}");
        drop(points);
        assert!(near.send(&frame(mac(3), mac(2), 100)));
        far.collect(1, BOUND);
        assert_eq!(toward.frames(), 4, "{hook:?}");
    }
}

/// A point without filters: it counts frames that are not IP.
fn counting() -> Config {
    Config {
        program: Program::All,
        schedule: Schedule::new(1_000_000_000, 1_000_000_000, 0).unwrap(),
        marks: Marks::new(8, 16, 0x38, 0).unwrap(),
        filters: Vec::new(),
        joined: Vec::new(),
        precedence: Precedence::First,
        sampling: None,
        marking: Marking::Off,
        clock: Clock::Monotonic,
        flows: 1,
        cache: 1,
        samples: 1,
        stay: false,
    }
}

#[test]
fn wires_of_several_interfaces_are_kept_apart() {
    netloom_kit::root_only!("attaches BPF programs");
    let pair = pair();
    link(pair.near.end(5), pair.far.end(6));
    let splice = pair.far.run(Splice::create_small).unwrap();
    let first = pair.wire(&splice, Direction::Ingress, [20, 21]);
    let [out, back] = pair.taps([22, 23]);
    let second = pair.far.run(|| {
        splice.attach_tap(23, 6, Direction::Ingress).unwrap();
        splice.insert(6, Direction::Ingress, 22).unwrap();
        Relay::start(&out, &back)
    });
    for (a, b, relay) in [(2, 3, &first), (5, 6, &second)] {
        let [from, to] = [(&pair.near, a), (&pair.far, b)].map(|(s, i)| s.run(|| Packets::open(i)));
        let sent = frame(mac(b), mac(a), 100);
        assert!(from.send(&sent));
        assert_eq!(bytes(to.collect(1, BOUND)), [sent]);
        assert_eq!(relay.frames(), 1);
    }
}

#[test]
fn a_splice_is_found_again_with_and_without_its_taps() {
    netloom_kit::root_only!("attaches BPF programs");
    for hook in hooks() {
        let pair = pair();
        let [near, far] = pair.sockets();
        assert!(pair.far.run(|| Splice::reopen(3)).unwrap().is_none());
        let splice = pair.far.run(|| Splice::create_by(hook)).unwrap();
        let relay = pair.wire(&splice, Direction::Ingress, [20, 21]);
        drop(splice);
        let splice = pair.far.run(|| Splice::reopen(3)).unwrap().expect("attached");
        assert_eq!(splice.hook(), hook);
        assert_eq!(splice.tap_of(3, Direction::Ingress).unwrap(), Some(20));
        // The taps that live are taken over, in the other direction too.
        pair.far.run(|| splice.attach_tap(21, 3, Direction::Ingress)).unwrap();
        let sent = frame(mac(3), mac(2), 100);
        assert!(near.send(&sent));
        assert_eq!(bytes(far.collect(1, BOUND)), [sent]);
        assert_eq!(relay.frames(), 1);
        drop((relay, splice));
        let splice = pair.far.run(|| Splice::reopen(3)).unwrap().expect("attached");
        let both = [
            pair.wire(&splice, Direction::Ingress, [20, 21]),
            pair.wire(&splice, Direction::Egress, [22, 23]),
        ];
        assert!(near.send(&frame(mac(3), mac(2), 100)));
        far.collect(1, BOUND);
        assert!(far.send(&frame(mac(2), mac(3), 100)));
        near.collect(1, BOUND);
        assert_eq!(both.map(|relay| relay.frames()), [1, 1]);
    }
}

#[test]
fn a_protected_port_charges_once_and_before_the_wire() {
    netloom_kit::root_only!("attaches BPF programs");
    for hook in hooks() {
        let pair = pair();
        let [near, far] = pair.sockets();
        // The wire is there first; protection comes before it all the same.
        let splice = pair.far.run(|| Splice::create_by(hook)).unwrap();
        let relay = pair.wire(&splice, Direction::Egress, [20, 21]);
        let budget = Budget { frames: Some(1), bytes: None };
        let start = std::time::Instant::now();
        let shield = pair.far.run(|| {
            let shield = Shield::create_by(hook).unwrap();
            shield.protect(3, Direction::Egress, 1, &budget).unwrap();
            shield
        });
        for _ in 0..100 {
            far.send(&frame(mac(2), mac(3), 100));
        }
        let got = shield.read(1).unwrap();
        let passed = got.passed.frames;
        // The burst, and one more each second; what comes back from the wire is not charged.
        let most = 65 + start.elapsed().as_secs();
        assert!((64..=most).contains(&passed), "{hook:?}: {got:?}");
        assert_eq!(passed + got.dropped.frames, 100, "{hook:?}");
        near.collect(usize::try_from(passed).unwrap(), BOUND);
        assert_eq!(relay.frames(), passed);
        assert_eq!(shield.read(1).unwrap(), got);
    }
}

#[test]
fn a_switchs_port_has_wires_both_ways() {
    netloom_kit::root_only!("attaches BPF programs");
    let [core, a, b] = std::array::from_fn(|_| NetNs::create());
    core.bridge(10);
    link(core.end(11), a.end(21));
    link(core.end(12), b.end(22));
    core.enslave(11, 10);
    core.enslave(12, 10);
    let splice = core.run(Splice::create).unwrap();
    let wire = |direction, [out, back]: [u32; 2]| {
        let taps = core.run(|| [out, back].map(|index| tap(&format!("tap{index}"), index)));
        core.up(out);
        core.up(back);
        core.run(|| {
            splice.attach_tap(back, 11, direction).unwrap();
            splice.insert(11, direction, out).unwrap();
        });
        Relay::start(&taps[0], &taps[1])
    };
    let from_a = wire(Direction::Ingress, [30, 31]);
    let to_a = wire(Direction::Egress, [32, 33]);
    let [at_a, at_b] =
        [(&a, 21), (&b, 22)].map(|(space, index)| space.run(|| Packets::open(index)));
    // The bridge learns from what comes out of the wire.
    let hello = frame([0xff; 6], mac(21), 60);
    assert!(at_a.send(&hello));
    assert_eq!(bytes(at_b.collect(1, BOUND)), [hello]);
    let answer = frame(mac(21), mac(22), 60);
    assert!(at_b.send(&answer));
    assert_eq!(bytes(at_a.collect(1, BOUND)), [answer]);
    assert_eq!([from_a.frames(), to_a.frames()], [1, 1]);
}

#[test]
fn joined_pairs_are_a_cable_that_has_wires() {
    netloom_kit::root_only!("attaches BPF programs");
    for hook in hooks() {
        let [core, a, b] = std::array::from_fn(|_| NetNs::create());
        link(core.end(11), a.end(21));
        link(core.end(12), b.end(22));
        let splice = core.run(|| {
            let splice = Splice::create_by(hook).unwrap();
            splice.lead(11, 12).unwrap();
            // The next process finds the programs, and leads again what is led.
            let splice = Splice::reopen(11).unwrap().expect("attached");
            splice.lead(11, 12).unwrap();
            splice.lead(12, 11).unwrap();
            splice
        });
        let [at_a, at_b] =
            [(&a, 21), (&b, 22)].map(|(space, index)| space.run(|| Packets::open(index)));
        let passes = || {
            let (to_b, to_a) = (frame(mac(22), mac(21), 300), frame(mac(21), mac(22), 200));
            assert!(at_a.send(&to_b));
            assert_eq!(bytes(at_b.collect(1, BOUND)), [to_b], "{hook:?}");
            assert!(at_b.send(&to_a));
            assert_eq!(bytes(at_a.collect(1, BOUND)), [to_a], "{hook:?}");
        };
        passes();
        let taps = core.run(|| [30, 31].map(|index| tap(&format!("tap{index}"), index)));
        [30, 31].into_iter().for_each(|index| core.up(index));
        core.run(|| {
            splice.lead_tap(31, 12).unwrap();
            splice.lead(11, 30).unwrap();
        });
        let to_b = Relay::start(&taps[0], &taps[1]);
        passes();
        assert_eq!(to_b.frames(), 1, "{hook:?}: one direction alone");
        core.run(|| splice.lead(11, 12).unwrap());
        passes();
        assert_eq!(to_b.frames(), 1, "{hook:?}");
    }
}
