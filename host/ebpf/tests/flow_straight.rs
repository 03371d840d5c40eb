//! Frames that are handed over at the far end of a link arrive as if by the link, and what is at a port sees them.

use std::time::Duration;

use netloom_kit::root_only;
use netloom_netlink::Change;

use super::flow_frames as frames;
use super::flow_live::{World, hooks, inner, outer};
use super::support::net::mac;
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
