//! Packets seen in passing, in fresh namespaces.

use std::time::Duration;

use netloom_kit::{isolated, wait_until};
use netloom_rawsock::{Frames, Path, Sender, Watcher};

use super::sender::{A, B, pair};

/// A question for a hardware address, as switches flood it.
fn question() -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend([2, 0, 0, 0, 0, 1, 0x08, 0x06]);
    frame.resize(60, 0);
    frame
}

#[test]
fn a_watcher_of_some_interfaces_has_room_for_what_passes_there() {
    isolated!({
        pair();
        let ends = ["10.0.0.1", "10.0.0.2"].map(|address| address.parse().unwrap());
        let all = Watcher::open(ends, &[]).unwrap();
        let at_b = Watcher::open(ends, &[4711, B]).unwrap();
        let elsewhere = Watcher::open(ends, &[4711]).unwrap();
        let mut sender = Sender::open(A, Path::Queue).unwrap();
        sender.send(&mut Frames::round(&[&question()], 1).unwrap()).unwrap();
        let next = |watcher: &Watcher| {
            wait_until("a frame", Duration::from_secs(60), || watcher.next().unwrap())
        };
        let seen = [next(&all), next(&all)].map(|g| (g.interface, g.leaves));
        assert_eq!(seen, [(A, true), (B, false)]);
        let seen = next(&at_b);
        assert_eq!((seen.interface, seen.leaves, seen.frame), (B, false, question()));
        // Far more than a socket has room for.
        let mut many = Frames::round(&[&question()], 64).unwrap();
        for _ in 0..200 {
            sender.send(&mut many).unwrap();
        }
        assert!(all.missed().unwrap() > 0, "too few frames to show anything");
        assert_eq!((elsewhere.next().unwrap(), elsewhere.missed().unwrap()), (None, 0));
    });
}
