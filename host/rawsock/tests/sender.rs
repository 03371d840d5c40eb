//! Frames through a veth pair in fresh namespaces, counted at the other end.

use std::time::Duration;

use netloom_kit::{isolated, wait_for_carrier, wait_until};
use netloom_netlink::{Batch, Change, EndSpec, Socket, VethSpec};
use netloom_rawsock::{Error, Frames, Path, Sender};

pub(crate) const A: u32 = 77;
pub(crate) const B: u32 = 78;

/// A pair that carries nothing of its own accord: no IPv6, so no neighbour discovery.
pub(crate) fn pair() {
    std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").unwrap();
    let end = |name, index| EndSpec { index: Some(index), ..EndSpec::new(name) };
    let mut batch = Batch::new();
    batch.push("pair", &VethSpec::new(end("a", A), end("b", B)));
    batch.push("a", &Change::of(A).up());
    batch.push("b", &Change::of(B).up());
    Socket::open().unwrap().run(&mut batch).unwrap();
    wait_for_carrier(A);
}

/// Frames and bytes that an interface has received.
fn received(name: &str) -> (u64, u64) {
    let text = std::fs::read_to_string("/proc/net/dev").unwrap();
    let line = text.lines().find_map(|l| l.trim().strip_prefix(name)?.strip_prefix(':')).unwrap();
    let fields: Vec<u64> = line.split_whitespace().map(|field| field.parse().unwrap()).collect();
    (fields[1], fields[0])
}

/// IEEE 802's number for local experiments, so that no protocol answers.
fn frame(length: usize) -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend([2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
    frame.resize(length, 0);
    frame
}

#[test]
fn every_frame_that_is_taken_arrives_on_both_paths() {
    isolated!({
        pair();
        for (path, before) in [(Path::Queue, 0), (Path::Direct, 6400)] {
            let mut sender = Sender::open(A, path).unwrap();
            let mut frames = Frames::round(&[&frame(60), &frame(1514)], 64).unwrap();
            for _ in 0..100 {
                sender.send(&mut frames).unwrap();
            }
            let tally = sender.tally();
            assert_eq!((tally.taken, tally.refused, tally.offered()), (6400, 0, 6400));
            let packets = before + 6400;
            wait_until("all to arrive", Duration::from_secs(30), || {
                (received("b") == (packets, packets / 2 * (60 + 1514))).then_some(())
            });
        }
    });
}

#[test]
fn frames_keep_their_order_and_bytes() {
    isolated!({
        use rustix::net::{AddressFamily, Protocol, RecvFlags, SocketFlags, SocketType};
        pair();
        let protocol = Protocol::from_raw(std::num::NonZeroU32::new(0xb588).unwrap());
        let (family, kind) = (AddressFamily::PACKET, SocketType::RAW);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let reader = rustix::net::socket_with(family, kind, flags, Some(protocol)).unwrap();
        let set: Vec<Vec<u8>> = (60..70).map(frame).collect();
        let set: Vec<&[u8]> = set.iter().map(Vec::as_slice).collect();
        let mut frames = Frames::round(&set, 20).unwrap();
        Sender::open(A, Path::Direct).unwrap().send(&mut frames).unwrap();
        let mut buffer = [0; 2048];
        for sent in set.iter().cycle().take(20) {
            let count = wait_until("a frame", Duration::from_secs(30), || {
                rustix::net::recv(&reader, &mut buffer[..], RecvFlags::empty()).ok()
            });
            assert_eq!(&buffer[..count.1], *sent);
        }
    });
}

#[test]
fn an_interface_that_cannot_take_them_is_told() {
    isolated!({
        pair();
        let missing = Sender::open(4711, Path::Queue).unwrap_err();
        assert_eq!(missing.raw_os_error(), Some(libc::ENODEV), "{missing}");
        let mut sender = Sender::open(A, Path::Queue).unwrap();
        let mut long = Frames::round(&[&frame(60), &frame(4000)], 4).unwrap();
        let error = sender.send(&mut long).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EMSGSIZE), "{error}");
        assert_eq!(sender.tally().offered(), 1, "the first was sent before");
        let mut batch = Batch::new();
        batch.push("a", &Change::of(A).down());
        Socket::open().unwrap().run(&mut batch).unwrap();
        let mut frames = Frames::round(&[&frame(60)], 4).unwrap();
        let error = sender.send(&mut frames).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENETDOWN), "{error}");
        assert!(matches!(error, Error::Failed(failure) if failure.operation() == "send"));
    });
}
