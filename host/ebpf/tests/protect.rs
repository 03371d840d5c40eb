//! Flood protection on real links: the budget holds for every sender and kind of traffic.

use super::support;

use std::time::{Duration, Instant};

use netloom_ebpf::protect::{Budget, Protection, Shield, sender_of_mac};
use netloom_ebpf::{Direction, Error, Hook, feature};
use netloom_kit::wait_until;
use support::net::{End, NetNs, link, mac};
use support::packet::{Packets, frame};

const NODE: u32 = 7;
/// How long a flood lasts, without longer rests.
const FLOOD: Duration = Duration::from_millis(1500);

/// Frames a second, as a budget.
fn frames(rate: u64) -> Budget {
    Budget { frames: Some(rate), bytes: None }
}

/// Sends as fast as it goes; how many frames left. While its thread gets no processor for longer than a burst makes up
/// for, the time does not pass.
fn flood(from: End<'_>, to: [u8; 6], length: usize, bypass: bool, time: Duration) -> u64 {
    from.space.run(|| {
        let socket = Packets::open(from.index);
        let socket = if bypass { socket.bypass() } else { socket };
        let bytes = frame(to, mac(from.index), length);
        let (mut left, mut last) = (time, Instant::now());
        let mut sent = 0;
        while !left.is_zero() {
            sent += u64::from(socket.send(&bytes));
            let now = Instant::now();
            left = left.saturating_sub((now - last).min(Duration::from_millis(50)));
            last = now;
        }
        sent
    })
}

/// What may have passed of this many senders, who flooded for some of a time: at most the rate, and the burst of the
/// whole and of each one's share. At least half of the rate while they flooded.
fn bounds(
    rate: u64,
    burst: u64,
    senders: u64,
    [flooded, time]: [Duration; 2],
) -> std::ops::RangeInclusive<u64> {
    let in_time =
        |time: Duration| u64::try_from(u128::from(rate) * time.as_millis() / 1000).unwrap();
    let most = in_time(time);
    in_time(flooded) / 2..=most + (1 + senders) * burst + most / 100
}

/// What was counted when nothing is counted any more: a CPU may put off what comes in.
fn settled(shield: &Shield, node: u32) -> Protection {
    let mut last = None;
    wait_until("nothing is counted any more", Duration::from_secs(30), || {
        let now = shield.read(node).unwrap();
        let before = last.replace(now.clone());
        (before.as_ref() == Some(&now)).then_some(now)
    })
}

/// What was counted when all frames of a sender are.
fn settled_with(shield: &Shield, sender: u32, frames: u64) -> Protection {
    wait_until("all frames are seen", Duration::from_secs(30), || {
        let got = shield.read(NODE).unwrap();
        let of = got.senders.iter().find(|found| found.ifindex == sender)?;
        (of.passed.frames + of.dropped.frames >= frames).then_some(())
    });
    settled(shield, NODE)
}

/// What may have passed at once of a budget of one frame a second: the burst, and one more each second.
fn burst_since(start: Instant) -> std::ops::RangeInclusive<u64> {
    64..=65 + start.elapsed().as_secs()
}

/// Both ways to attach, where the machine has them.
fn hooks() -> Vec<Hook> {
    let tcx = feature::tcx_supported().map(|()| Hook::Tcx);
    let clsact = feature::clsact_supported().map(|()| Hook::Clsact);
    [tcx, clsact].into_iter().flatten().collect()
}

#[test]
fn this_machine_takes_the_programs_or_says_what_it_lacks() {
    match feature::protect_supported() {
        Ok(_) => assert!(netloom_kit::is_root()),
        Err(missing) => assert!(!netloom_kit::is_root(), "{missing}"),
    }
}

#[test]
fn a_flood_at_a_nodes_own_interface_is_held_to_the_budget() {
    netloom_kit::root_only!("attaches BPF programs");
    for (hook, bypass) in hooks().into_iter().flat_map(|hook| [(hook, false), (hook, true)]) {
        let [near, far] = [NetNs::create(), NetNs::create()];
        link(near.end(2), far.end(3));
        let shield = far.run(|| {
            let shield = Shield::create_by(hook).unwrap();
            shield.protect(3, Direction::Ingress, NODE, &frames(500)).unwrap();
            shield
        });
        let start = Instant::now();
        let sent = flood(near.end(2), mac(3), 60, bypass, FLOOD);
        let got = settled(&shield, NODE);
        let time = start.elapsed();
        let case = format!("{hook:?}, bypass {bypass}: {got:?} of {sent} in {time:?}");
        // On a busy machine the kernel loses some on the way.
        assert!(got.passed.frames + got.dropped.frames <= sent, "{case}");
        assert!(got.dropped.frames > got.passed.frames, "{case}");
        assert_eq!(got.passed.bytes, got.passed.frames * 60, "{case}");
        assert!(bounds(500, 64, 1, [FLOOD, time]).contains(&got.passed.frames), "{case}");
        let [only] = &got.senders[..] else { panic!("one sender: {case}") };
        let flooder = sender_of_mac(mac(2));
        assert_eq!((only.ifindex, only.passed, only.dropped), (flooder, got.passed, got.dropped));
    }
}

/// Three nodes at a switch; the third is protected at the switch's port.
struct Star {
    core: NetNs,
    nodes: [NetNs; 3],
}

/// The core's ports, in the order of nodes; a node's interface is 2.
const PORTS: [u32; 3] = [11, 12, 13];

fn star() -> Star {
    let star = Star { core: NetNs::create(), nodes: std::array::from_fn(|_| NetNs::create()) };
    star.core.bridge(10);
    for (node, port) in star.nodes.iter().zip(PORTS) {
        // Ends have different MACs by their index in the core.
        link(star.core.end(port), End { space: node, index: port + 10 });
        star.core.enslave(port, 10);
    }
    // The bridge learns where everybody is, and the others have got it: none of it comes later.
    let sockets: Vec<_> = star
        .nodes
        .iter()
        .zip(PORTS)
        .map(|(node, port)| node.run(|| Packets::open(port + 10)))
        .collect();
    for (at, port) in PORTS.into_iter().enumerate() {
        assert!(sockets[at].send(&frame([0xff; 6], mac(port + 10), 60)));
        for other in (0..PORTS.len()).filter(|other| *other != at) {
            sockets[other].collect(1, Duration::from_secs(30));
        }
    }
    star
}

#[test]
fn a_sender_within_its_share_passes_beside_a_flooder() {
    netloom_kit::root_only!("attaches BPF programs");
    for (hook, gated) in hooks().into_iter().flat_map(|hook| [(hook, false), (hook, true)]) {
        let star = star();
        let budget = frames(500);
        let shield = star.core.run(|| {
            let shield = Shield::create_by(hook).unwrap();
            shield.protect(PORTS[2], Direction::Egress, NODE, &budget).unwrap();
            if gated {
                shield.own(PORTS[2], mac(23), 1).unwrap();
                PORTS.iter().for_each(|port| shield.gate(*port, 1).unwrap());
            }
            shield
        });
        let start = Instant::now();
        let polite = std::thread::scope(|scope| {
            scope.spawn(|| flood(star.nodes[0].end(21), mac(23), 60, true, FLOOD * 2));
            let polite = scope.spawn(|| polite(&star.nodes[1], 22, 125, FLOOD * 2));
            polite.join().unwrap()
        });
        let got = settled_with(&shield, PORTS[1], polite);
        let time = start.elapsed();
        let [flooder, kind] = &got.senders[..] else { panic!("two senders: {got:?}") };
        let case = format!("{hook:?}, gated {gated}: {got:?} in {time:?}");
        assert_eq!([flooder.ifindex, kind.ifindex], [PORTS[0], PORTS[1]], "{case}");
        assert_eq!(kind.passed.frames, polite, "{case}");
        assert_eq!(kind.dropped.frames, 0, "{case}");
        let possible = bounds(500, 64, 2, [FLOOD * 2, time]);
        assert!(possible.contains(&got.passed.frames), "{case}");
        assert_eq!(got.passed.frames, flooder.passed.frames + kind.passed.frames, "{case}");
        assert!(flooder.dropped.frames > got.passed.frames, "{case}");
    }
}

#[test]
fn a_sender_has_one_share_whether_a_process_or_the_kernel_forwards() {
    netloom_kit::root_only!("attaches BPF programs");
    for hook in hooks() {
        let star = star();
        let shield = star.core.run(|| {
            let shield = Shield::create_by(hook).unwrap();
            shield.protect_beside(PORTS[2], NODE, &frames(1)).unwrap();
            shield
        });
        let start = Instant::now();
        let bytes = frame(mac(23), mac(21), 60);
        let send = |space: &NetNs, index| {
            space.run(|| {
                let socket = Packets::open(index);
                (0..100).filter(|_| socket.send(&bytes)).count()
            })
        };
        let sent = send(&star.nodes[0], 21) + send(&star.core, PORTS[2]);
        let sender = sender_of_mac(mac(21));
        let got = settled_with(&shield, sender, 120);
        let case = format!("{hook:?}: {got:?} of {sent}");
        let [only] = &got.senders[..] else { panic!("one sender: {case}") };
        assert_eq!(only.ifindex, sender, "{case}");
        assert!(burst_since(start).contains(&only.passed.frames), "{case}");
        star.core.run(|| assert!(shield.unprotect(PORTS[2]).unwrap()));
        star.core.run(|| assert!(Shield::reopen(PORTS[2], Direction::Egress).unwrap().is_none()));
    }
}

/// Sends at a rate, never more in a burst to make up for time lost; how many, without those for which the flooder has
/// left no room in the queue of what comes in.
fn polite(space: &NetNs, index: u32, rate: u32, time: Duration) -> u64 {
    space.run(|| {
        let socket = Packets::open(index);
        let bytes = frame(mac(23), mac(index), 60);
        let end = Instant::now() + time;
        let mut next = Instant::now();
        let mut sent = 0;
        while next < end {
            if Instant::now() < next {
                std::thread::yield_now();
                continue;
            }
            sent += u64::from(socket.send(&bytes));
            next = Instant::now() + Duration::from_secs(1) / rate;
        }
        sent
    })
}

#[test]
fn a_gate_spares_the_switch_what_its_node_would_not_get() {
    netloom_kit::root_only!("attaches BPF programs");
    for hook in hooks() {
        let star = star();
        let send = |count| {
            star.nodes[0].run(|| {
                let socket = Packets::open(21);
                (0..count).for_each(|_| assert!(socket.send(&frame(mac(23), mac(21), 60))));
            });
        };
        star.core.run(|| {
            let (shield, start) = (Shield::create_by(hook).unwrap(), Instant::now());
            let unknown = shield.own(PORTS[2], mac(23), 1);
            assert!(matches!(unknown, Err(Error::Unknown { .. })));
            shield.protect(PORTS[2], Direction::Egress, NODE, &frames(1)).unwrap();
            shield.own(PORTS[2], mac(23), 1).unwrap();
            shield.gate(PORTS[0], 1).unwrap();
            shield.gate(PORTS[0], 1).unwrap();
            // The port's own way out, to the flooder, is nobody's.
            assert!(Shield::reopen(PORTS[0], Direction::Egress).unwrap().is_none());
            send(500);
            let got = wait_until("all frames are seen", Duration::from_secs(30), || {
                let got = shield.read(NODE).unwrap();
                (got.passed.frames + got.dropped.frames >= 500).then_some(got)
            });
            assert!(burst_since(start).contains(&got.passed.frames), "{hook:?}: {got:?}");
            let found = Shield::reopen(PORTS[2], Direction::Egress).unwrap().expect("attached");
            assert!(found.ungate(PORTS[0]).unwrap() && !found.ungate(PORTS[0]).unwrap());
            assert!(Shield::reopen(PORTS[0], Direction::Ingress).unwrap().is_none());
            // Nor does the program go where what comes in is protected itself, as at a door.
            found.protect(PORTS[0], Direction::Ingress, NODE + 1, &frames(1)).unwrap();
            found.gate(PORTS[0], 1).unwrap();
            assert!(found.ungate(PORTS[0]).unwrap());
            assert!(Shield::reopen(PORTS[0], Direction::Ingress).unwrap().is_some());
            assert!(found.unprotect(PORTS[2]).unwrap());
            let none = found.own(PORTS[2], mac(23), 1);
            assert!(matches!(none, Err(Error::Unknown { .. })), "{none:?}");
        });
    }
}

/// An ARP frame, or a message of ICMPv6, as far as protection looks at it.
fn finding(from: u32, icmpv6: Option<u8>) -> Vec<u8> {
    let mut bytes = frame(mac(23), mac(from), 80);
    let (kind, next, message) = icmpv6.map_or((0x0806_u16, 0, 0), |kind| (0x86dd, 58, kind));
    bytes[12..14].copy_from_slice(&kind.to_be_bytes());
    // A bridge looks at the version, the length and the next header.
    bytes[14] = 0x60;
    bytes[18..20].copy_from_slice(&26_u16.to_be_bytes());
    (bytes[20], bytes[54]) = (next, message);
    bytes
}

#[test]
fn a_sender_beyond_its_share_is_still_found() {
    netloom_kit::root_only!("attaches BPF programs");
    for (hook, gated) in hooks().into_iter().flat_map(|hook| [(hook, false), (hook, true)]) {
        let star = star();
        let shield = star.core.run(|| {
            let shield = Shield::create_by(hook).unwrap();
            shield.protect(PORTS[2], Direction::Egress, NODE, &frames(1)).unwrap();
            if gated {
                shield.own(PORTS[2], mac(23), 1).unwrap();
                PORTS.iter().for_each(|port| shield.gate(*port, 1).unwrap());
            }
            shield
        });
        let mut seen = 0;
        // How many of these pass.
        let mut passes = |node: usize, bytes: &[u8], count: u64| {
            let before = shield.read(NODE).unwrap().passed.frames;
            star.nodes[node].run(|| {
                let socket = Packets::open(21 + u32::try_from(node).unwrap());
                (0..count).for_each(|_| assert!(socket.send(bytes)));
            });
            seen += count;
            wait_until("all frames are seen", Duration::from_secs(30), || {
                let got = shield.read(NODE).unwrap();
                let all = got.passed.frames + got.dropped.frames;
                (all >= seen).then_some(got.passed.frames - before)
            })
        };
        let start = Instant::now();
        for (node, kinds) in [(0, [None, Some(135)]), (1, [Some(136), None])] {
            passes(node, &frame(mac(23), mac(21), 60), 500);
            let found = passes(node, &finding(21, kinds[0]), 30);
            let again = passes(node, &finding(21, kinds[1]), 30);
            // Ten at once, and ten a second; of the budget, one a second.
            let most = 12 + 12 * start.elapsed().as_secs();
            assert!((10..=most).contains(&found), "{hook:?}, gated {gated}: {found}");
            assert!(again <= most, "{hook:?}, gated {gated}: {again}");
            let others = passes(node, &finding(21, Some(128)), 30);
            assert!(
                others <= 2 + 2 * start.elapsed().as_secs(),
                "{hook:?}, gated {gated}: {others}"
            );
        }
    }
}

#[test]
fn senders_behind_one_link_are_told_apart_by_their_addresses() {
    netloom_kit::root_only!("attaches BPF programs");
    let [near, far] = [NetNs::create(), NetNs::create()];
    link(near.end(2), far.end(3));
    let shield = far.run(|| {
        let shield = Shield::create_small().unwrap();
        shield.protect(3, Direction::Ingress, NODE, &frames(500)).unwrap();
        shield
    });
    let polite = std::thread::scope(|scope| {
        scope.spawn(|| flood(near.end(2), mac(3), 60, true, FLOOD));
        let polite = scope.spawn(|| {
            near.run(|| {
                let socket = Packets::open(2);
                // A few of each hundred ms of its share.
                (0..15_u64)
                    .map(|_| {
                        std::thread::park_timeout(FLOOD / 15);
                        u64::from(socket.send(&frame(mac(3), mac(99), 60)))
                    })
                    .sum::<u64>()
            })
        });
        polite.join().unwrap()
    });
    let got = settled_with(&shield, sender_of_mac(mac(99)), polite);
    let of = |address| {
        let found = got.senders.iter().find(|s| s.ifindex == sender_of_mac(address));
        found.unwrap_or_else(|| panic!("{got:?}"))
    };
    assert!(of(mac(2)).dropped.frames > 0, "{got:?}");
    assert_eq!((of(mac(99)).passed.frames, of(mac(99)).dropped.frames), (polite, 0), "{got:?}");
}

#[test]
fn two_flooders_get_about_the_same_and_together_the_budget() {
    netloom_kit::root_only!("attaches BPF programs");
    let star = star();
    let shield = star.core.run(|| {
        let shield = Shield::create().unwrap();
        shield.protect(PORTS[2], Direction::Egress, NODE, &frames(500)).unwrap();
        shield
    });
    let start = Instant::now();
    std::thread::scope(|scope| {
        for (node, index) in [(&star.nodes[0], 21), (&star.nodes[1], 22)] {
            scope.spawn(move || flood(node.end(index), mac(23), 60, true, FLOOD * 2));
        }
    });
    let got = settled(&shield, NODE);
    let time = start.elapsed();
    let possible = bounds(500, 64, 2, [FLOOD * 2, time]);
    assert!(possible.contains(&got.passed.frames), "{got:?} in {time:?}");
    let [a, b] = [got.senders[0].passed.frames, got.senders[1].passed.frames];
    assert!(a.min(b) * 3 > a.max(b) * 2, "{a} and {b}");
}

#[test]
fn bytes_are_limited_and_a_budget_is_changed_live() {
    netloom_kit::root_only!("attaches BPF programs");
    let [near, far] = [NetNs::create(), NetNs::create()];
    link(near.end(2), far.end(3));
    let budget = Budget { frames: None, bytes: Some(1_000_000) };
    let shield = far.run(|| {
        let shield = Shield::create_small().unwrap();
        shield.protect(3, Direction::Ingress, NODE, &budget).unwrap();
        shield
    });
    let run = |length| {
        let start = Instant::now();
        let before = shield.read(NODE).unwrap().passed;
        flood(near.end(2), mac(3), length, false, FLOOD);
        let after = settled(&shield, NODE).passed;
        (after.bytes - before.bytes, after.frames - before.frames, start.elapsed())
    };
    let (bytes, _, time) = run(1000);
    let possible = bounds(1_000_000, 256 << 10, 1, [FLOOD, time]);
    assert!(possible.contains(&bytes), "{bytes} bytes in {time:?}");
    // Nothing was saved up meanwhile: a burst is no more than 256 KiB.
    shield.change(NODE, &frames(500)).unwrap();
    let (_, frames_, time) = run(100);
    let possible = bounds(500, 64, 1, [FLOOD, time]);
    assert!(possible.contains(&frames_), "{frames_} in {time:?}");
    shield.change(NODE, &Budget::default()).unwrap();
    let before = shield.read(NODE).unwrap().dropped;
    run(100);
    assert_eq!(shield.read(NODE).unwrap().dropped, before, "no limit");
    assert!(matches!(shield.change(NODE + 1, &budget), Err(Error::Unknown { .. })));
}

#[test]
fn a_greater_budget_counts_at_once_whatever_was_owed_by_the_smaller() {
    netloom_kit::root_only!("attaches BPF programs");
    let [near, far] = [NetNs::create(), NetNs::create()];
    link(near.end(2), far.end(3));
    let start = Instant::now();
    let shield = far.run(|| {
        let shield = Shield::create_small().unwrap();
        shield.protect(3, Direction::Ingress, NODE, &frames(1)).unwrap();
        shield
    });
    // The burst, which is a minute's budget.
    flood(near.end(2), mac(3), 60, false, Duration::from_millis(100));
    let before = settled(&shield, NODE);
    assert!(burst_since(start).contains(&before.passed.frames), "{before:?}");
    let start = Instant::now();
    shield.change(NODE, &frames(500)).unwrap();
    flood(near.end(2), mac(3), 60, false, FLOOD);
    let passed = settled(&shield, NODE).passed.frames - before.passed.frames;
    let time = start.elapsed();
    assert!(bounds(500, 64, 1, [FLOOD, time]).contains(&passed), "{passed} in {time:?}");
}

#[test]
fn interfaces_of_a_node_share_its_budget_and_others_have_theirs() {
    netloom_kit::root_only!("attaches BPF programs");
    let [near, far] = [NetNs::create(), NetNs::create()];
    for index in [2, 3, 4] {
        link(near.end(index), far.end(index + 10));
    }
    let shield = far.run(|| {
        let shield = Shield::create().unwrap();
        for (port, node) in [(12, 1), (13, 1), (14, 2)] {
            shield.protect(port, Direction::Ingress, node, &frames(500)).unwrap();
        }
        shield
    });
    let start = Instant::now();
    std::thread::scope(|scope| {
        for index in [2, 3, 4] {
            let near = &near;
            scope.spawn(move || flood(near.end(index), mac(index + 10), 60, false, FLOOD));
        }
    });
    // Each sender's share begins with a full burst.
    for (node, senders) in [(1, 2), (2, 1)] {
        let passed = settled(&shield, node).passed.frames;
        let time = start.elapsed();
        let possible = bounds(500, 64, senders, [FLOOD, time]);
        assert!(possible.contains(&passed), "{node}: {passed} in {time:?}");
    }
}

#[test]
fn a_refused_interface_and_one_that_moved_leave_no_budget() {
    netloom_kit::root_only!("attaches BPF programs");
    for hook in hooks() {
        let [near, far] = [NetNs::create(), NetNs::create()];
        link(near.end(2), far.end(3));
        far.run(|| {
            let shield = Shield::create_by(hook).unwrap();
            shield.protect(99, Direction::Ingress, NODE, &frames(1)).unwrap_err();
            shield.read(NODE).unwrap_err();
            shield.protect(3, Direction::Ingress, NODE, &frames(1)).unwrap();
            shield.protect(3, Direction::Ingress, NODE + 1, &frames(1)).unwrap();
            shield.read(NODE).unwrap_err();
            shield.read(NODE + 1).unwrap();
        });
    }
}

#[test]
fn what_is_protected_is_found_again_and_let_go() {
    netloom_kit::root_only!("attaches BPF programs");
    for hook in hooks() {
        let [near, far] = [NetNs::create(), NetNs::create()];
        link(near.end(2), far.end(3));
        let start = Instant::now();
        far.run(|| {
            assert!(Shield::reopen(3, Direction::Ingress).unwrap().is_none());
            let shield = Shield::create_by(hook).unwrap();
            shield.protect(3, Direction::Ingress, NODE, &frames(1)).unwrap();
            shield.protect(3, Direction::Ingress, NODE, &frames(1)).unwrap();
        });
        let socket = near.run(|| Packets::open(2));
        let send = || (0..100).for_each(|_| assert!(socket.send(&frame(mac(3), mac(2), 60))));
        send();
        far.run(|| {
            let shield = Shield::reopen(3, Direction::Ingress).unwrap().expect("attached");
            assert_eq!(shield.hook(), hook);
            assert!(Shield::reopen(3, Direction::Egress).unwrap().is_none());
            let got = wait_until("all frames are seen", Duration::from_secs(30), || {
                let got = shield.read(NODE).unwrap();
                (got.passed.frames + got.dropped.frames == 100).then_some(got)
            });
            // Of the whole and of the only share at once.
            assert!(burst_since(start).contains(&got.passed.frames), "{hook:?}: {got:?}");
            let other = Shield::create_by(hook).unwrap();
            let twice = other.protect(3, Direction::Ingress, NODE, &frames(1));
            assert!(matches!(twice, Err(Error::Exists { .. })));
            assert!(shield.unprotect(3).unwrap());
            assert!(!shield.unprotect(3).unwrap());
            assert!(matches!(shield.read(NODE), Err(Error::Unknown { .. })));
            assert!(Shield::reopen(3, Direction::Ingress).unwrap().is_none());
            assert!(shield.protect(99, Direction::Ingress, NODE, &frames(1)).is_err());
        });
        let watch = far.run(|| Packets::open(3));
        send();
        watch.collect(100, Duration::from_secs(30));
    }
}
