//! Frames that are handed over at the far end of a link arrive as if by the link, and what is at a port sees them.

use std::time::Duration;

use netloom_ebpf::flow::Limit;
use netloom_kit::root_only;
use netloom_netlink::{Change, DeleteLink};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::flow_frames as frames;
use super::flow_live::{World, hooks, inner, outer};
use super::support::net::{link, mac};
use super::support::packet::{Packets, Seen};

/// How long a frame may take.
const BOUND: Duration = Duration::from_secs(30);
/// Kinds of frames (`linux/if_packet.h`).
const HOST: u8 = 0;
const BROADCAST: u8 = 1;
const MULTICAST: u8 = 2;
const OTHER_HOST: u8 = 3;
const OUTGOING: u8 = 4;

fn frame_to(address: [u8; 6], number: u8) -> Vec<u8> {
    let mut frame = frames::ethernet(0x88b5, &[number; 50]);
    frame[..6].copy_from_slice(&address);
    frame
}

/// Waits until a socket sees these bytes; says as what.
fn seen(socket: &Packets, bytes: &[u8]) -> u8 {
    netloom_kit::wait_until("a frame", BOUND, || {
        let Seen { bytes: got, kind } = socket.next()?;
        (got == bytes).then_some(kind)
    })
}

#[test]
fn frames_arrive_as_what_they_are_and_are_seen_at_the_port() {
    root_only!("attaches BPF programs");
    for hook in hooks() {
        let mut world = World::new(hook);
        world.join(0, 1, 2);
        let sender = world.station(1);
        let receiver = world.outside.run(|| Packets::open_all(outer(2)));
        let own = world.outside.run(|| mac(outer(2)));
        let mut number = 0;
        for (to, kind) in [
            (own, HOST),
            ([2, 0, 0, 0, 0, 0x77], OTHER_HOST),
            ([0xff; 6], BROADCAST),
            ([1, 0, 0x5e, 0, 0, 5], MULTICAST),
        ] {
            for watched in [false, true, false] {
                number += 1;
                let watch = watched.then(|| world.core.run(|| Packets::open_all(inner(2))));
                let frame = frame_to(to, number);
                assert!(sender.send(&frame));
                assert_eq!(seen(&receiver, &frame), kind, "{to:?}");
                if let Some(watch) = watch {
                    assert_eq!(seen(&watch, &frame), OUTGOING, "{to:?}");
                }
            }
        }
        assert_eq!(world.flow.counts(0).packets, 12);
        assert_eq!(world.flow.stats().failed, 0);
    }
}

/// What does not fit is lost as on the link.
#[test]
fn what_a_link_would_not_carry_does_not_arrive() {
    root_only!("attaches BPF programs");
    for hook in hooks() {
        let mut world = World::new(hook);
        world.join(0, 1, 2);
        let sender = world.station(1);
        let receiver = world.outside.run(|| Packets::open_all(outer(2)));
        let own = world.outside.run(|| mac(outer(2)));
        world.outside.change(|batch| batch.push("mtu", &Change::of(outer(2)).mtu(1000)));
        let mut long = frame_to(own, 1);
        long.resize(1000 + 19, 1);
        assert!(sender.send(&long));
        long.truncate(1000 + 18);
        assert!(sender.send(&long));
        // In order: the longer one would have come before.
        let got = netloom_kit::wait_until("a frame", BOUND, || {
            let Seen { bytes, .. } = receiver.next()?;
            bytes.ends_with(&[1; 50]).then_some(bytes)
        });
        assert_eq!(got.len(), long.len());
    }
}

/// Frames that an interface of this network namespace has sent itself: one that is handed over at the far end is none.
fn sent(index: u32) -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let name = format!("eth{index}:");
    let line = text.lines().find_map(|line| line.trim().strip_prefix(&name)).unwrap();
    line.split_whitespace().nth(9).unwrap().parse().unwrap()
}

/// Sends a frame from port 1, and waits until it comes out of port 2; returns whether it was handed over.
fn goes_straight(world: &World, number: u8) -> bool {
    let [sender, receiver] = [1, 2].map(|port| world.station(port));
    let before = world.core.run(|| sent(inner(2)));
    let frame = frame_to(mac(outer(2)), number);
    assert!(sender.send(&frame));
    assert_eq!(seen(&receiver, &frame), HOST);
    world.core.run(|| sent(inner(2))) == before
}

/// Leaves this thread one processor, since each remembers an interface of its own.
fn stay_here() {
    let allowed = sched_getaffinity(None).unwrap();
    let mut one = CpuSet::new();
    one.set((0..CpuSet::MAX_CPU).find(|cpu| allowed.is_set(*cpu)).unwrap());
    sched_setaffinity(None, &one).unwrap();
}

/// The state of an interface that is gone, or of one in its memory, says nothing of the one that has its index.
#[test]
fn an_interface_made_again_with_an_index_is_seen_as_it_is() {
    root_only!("attaches BPF programs");
    stay_here();
    for hook in hooks() {
        let mut world = World::new(hook);
        world.join(0, 1, 2);
        // With a queueing discipline's filters at the port, none does.
        let straight = goes_straight(&world, 1);
        // Nor does the one that was sent by last say anything of another.
        world.join(1, 3, 1);
        let watch = world.core.run(|| Packets::open_all(inner(1)));
        let frame = frame_to(mac(outer(1)), 100);
        assert!(world.station(3).send(&frame));
        assert_eq!(seen(&watch, &frame), OUTGOING);
        drop(watch);
        assert_eq!(goes_straight(&world, 1), straight);
        for round in 2..10 {
            world.core.change(|batch| batch.push("delete", &DeleteLink::new(inner(2))));
            let others = u32::from(round) + 30;
            if round % 2 == 0 {
                // Others have its memory then, or may have.
                for more in [others, others + 10] {
                    link(world.core.end(more), world.outside.end(more + 20));
                }
            }
            link(world.core.end(inner(2)), world.outside.end(outer(2)));
            world.core.run(|| world.flow.attach(inner(2), 2, Limit::default()).unwrap());
            let watch = world.core.run(|| Packets::open_all(inner(2)));
            assert!(!goes_straight(&world, round), "nobody at the port would see it");
            let frame = frame_to(mac(outer(2)), round);
            assert_eq!(seen(&watch, &frame), OUTGOING);
            drop(watch);
            assert_eq!(goes_straight(&world, round), straight, "round {round}");
        }
    }
}
