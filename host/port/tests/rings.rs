//! Frames through packet sockets with rings, in fresh namespaces.

use std::time::Duration;

use netloom_kit::{isolated, wait_for_carrier, wait_until};
use netloom_netlink::{Batch, Change, DeleteLink, EndSpec, Socket, VethSpec};
use netloom_port::{
    Error, Flushed, HEADER, Lent, MOST_FRAME, PacketPort, Port, Received, RingOptions, RingPort,
    Sent,
};

/// An Ethernet type for experiments: nothing else sends it.
const TYPE: [u8; 2] = [0x88, 0xb5];

fn configure(object: &str, request: &impl netloom_netlink::Request) {
    let mut batch = Batch::new();
    batch.push(object, request);
    Socket::open().unwrap().run(&mut batch).unwrap();
}

/// A veth whose ends are 10 and 11, both up and carrying.
fn veth() {
    let _ = std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
    let a = EndSpec { index: Some(10), ..EndSpec::new("a") };
    let b = EndSpec { index: Some(11), ..EndSpec::new("b") };
    configure("a", &VethSpec::new(a, b));
    configure("a", &Change::of(10).up());
    configure("b", &Change::of(11).up());
    wait_for_carrier(10);
}

fn options_with_header() -> RingOptions {
    RingOptions { receive: 1, ..RingOptions::default() }
}

fn open(index: u32) -> RingPort {
    RingPort::open(index, RingOptions::default()).unwrap()
}

/// A frame with an empty header before it.
fn frame(body: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; HEADER];
    frame.extend([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
    frame.extend(body);
    frame.resize(frame.len().max(HEADER + 60), 0);
    frame
}

fn experiment(body: &[u8]) -> Vec<u8> {
    frame(&[&TYPE, body].concat())
}

/// The next frame, with its header.
fn next(port: &mut dyn Port) -> Vec<u8> {
    let mut buffer = vec![0; MOST_FRAME];
    wait_until("a frame", Duration::from_secs(30), || match port.receive(&mut buffer).unwrap() {
        Received::Frame { start, length } => Some(buffer[start..start + length].to_vec()),
        _ => None,
    })
}

fn readable(port: &dyn Port) -> bool {
    let fd = port.as_fd();
    let mut fds = [rustix::event::PollFd::new(&fd, rustix::event::PollFlags::IN)];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut fds, Some(&now)).unwrap() == 1
}

#[test]
fn frames_cross_in_order_and_do_not_come_back() {
    isolated!({
        veth();
        for transmit in [0, 1] {
            let options = RingOptions { receive: 4, transmit, ..RingOptions::default() };
            let [mut a, mut b] = [10, 11].map(|index| RingPort::open(index, options).unwrap());
            // More than once round every ring.
            for burst in 0..20_u32 {
                for i in 0..15 {
                    let sent = experiment(&(burst * 15 + i).to_be_bytes());
                    assert_eq!(a.queue(&sent).unwrap(), Sent::Done);
                }
                assert_eq!(a.flush().unwrap(), Flushed { sent: Sent::Done, lost: 0 });
                for i in 0..15 {
                    wait_until("a frame", Duration::from_secs(30), || readable(&b).then_some(()));
                    let got = next(&mut b);
                    assert_eq!(
                        got[HEADER..],
                        experiment(&(burst * 15 + i).to_be_bytes())[HEADER..]
                    );
                }
                assert!(!readable(&b));
            }
            assert_eq!(b.send(&experiment(b"back!")).unwrap(), Sent::Done);
            assert_eq!(next(&mut a)[HEADER..], experiment(b"back!")[HEADER..]);
            assert_eq!(a.lend(), Lent::Empty, "its own is ignored");
            assert_eq!((a.overruns(), b.overruns()), (Some(0), Some(0)));
        }
    });
}

#[test]
fn what_is_lent_stays_until_it_is_given_back() {
    isolated!({
        veth();
        let (mut a, mut b) = (open(10), open(11));
        let tagged = frame(&[&[0x81, 0, 0x20, 7][..], &TYPE, b"tagged"].concat());
        for sent in [&tagged, &experiment(b"plain")] {
            assert_eq!(a.send(sent).unwrap(), Sent::Done);
        }
        wait_until("a frame", Duration::from_secs(30), || readable(&b).then_some(()));
        for _ in 0..3 {
            let Lent::Frame(lent) = b.lend() else { panic!("nothing") };
            assert_eq!(lent[HEADER..], tagged[HEADER..], "its tag is put back once");
        }
        b.give_back();
        assert_eq!(next(&mut b)[HEADER..], experiment(b"plain")[HEADER..]);
        b.give_back();
        assert_eq!(b.lend(), Lent::Empty);
        assert_eq!(a.send(&tagged).unwrap(), Sent::Done);
        assert_eq!(next(&mut b)[HEADER..], tagged[HEADER..]);
    });
}

#[test]
fn both_kinds_of_tags_are_put_back() {
    isolated!({
        veth();
        for without_offloads in [false, true] {
            let options = RingOptions { without_offloads, ..RingOptions::default() };
            let mut b = RingPort::open(11, options).unwrap();
            let mut a = PacketPort::open(10).unwrap();
            for kind in [[0x81, 0x00], [0x88, 0xa8]] {
                let sent = frame(&[&kind, &[0x20, 0x07][..], &TYPE, b"tagged"].concat());
                assert_eq!(a.send(&sent).unwrap(), Sent::Done);
                assert_eq!(next(&mut b)[HEADER..], sent[HEADER..]);
            }
        }
    });
}

#[test]
fn one_that_is_not_taken_does_not_stop_those_behind_it() {
    isolated!({
        veth();
        let (mut a, mut b) = (open(10), open(11));
        assert_eq!(a.queue(&experiment(&[7; 1500])).unwrap(), Sent::Done);
        assert_eq!(a.queue(&experiment(&[7; 1501])).unwrap(), Sent::Refused, "over the MTU");
        let mut tagged = frame(&[&[0x81, 0, 0, 7][..], &TYPE, &[7; 1500]].concat());
        assert_eq!(a.queue(&tagged).unwrap(), Sent::Done, "tags do not count");
        tagged.push(0);
        assert_eq!(a.queue(&tagged).unwrap(), Sent::Refused);
        assert_eq!(a.queue(&experiment(b"")[..HEADER + 13]).unwrap(), Sent::Refused);
        let mut nonsense = experiment(b"nonsense");
        nonsense[1] = 0x7f;
        for sent in
            [&nonsense, &experiment(b"one"), &nonsense, &nonsense, &experiment(b"two"), &nonsense]
        {
            assert_eq!(a.queue(sent).unwrap(), Sent::Done);
        }
        assert_eq!(a.flush().unwrap(), Flushed { sent: Sent::Done, lost: 4 });
        assert_eq!(a.send(&nonsense).unwrap(), Sent::Refused);
        assert_eq!(a.send(&experiment(b"three")).unwrap(), Sent::Done);
        assert_eq!(next(&mut b).len(), HEADER + 1514);
        assert_eq!(next(&mut b).len(), HEADER + 1518);
        for text in [&b"one"[..], b"two", b"three"] {
            assert_eq!(next(&mut b)[HEADER..], experiment(text)[HEADER..]);
        }
        assert_eq!(b.lend(), Lent::Empty);
    });
}

#[test]
fn what_nobody_reads_is_counted() {
    isolated!({
        veth();
        let options = RingOptions { receive: 1, whole_slots: true, ..RingOptions::default() };
        let (mut a, mut b) = (open(10), RingPort::open(11, options).unwrap());
        for _ in 0..100 {
            assert_eq!(a.send(&experiment(b"")).unwrap(), Sent::Done);
        }
        // A CPU may put off what comes in; nobody reads until all has come.
        wait_until("all have come", Duration::from_secs(30), || {
            (b.overruns() >= Some(85)).then_some(())
        });
        let mut buffer = vec![0; MOST_FRAME];
        let mut read = 0;
        while let Received::Frame { .. } = b.receive(&mut buffer).unwrap() {
            read += 1;
        }
        assert_eq!((read, b.overruns()), (15, Some(85)));
        assert_eq!(b.overruns(), Some(85), "not counted twice");
        assert_eq!(a.send(&experiment(b"again")).unwrap(), Sent::Done);
        assert_eq!(next(&mut b)[HEADER..], experiment(b"again")[HEADER..]);
    });
}

#[test]
fn an_interface_that_is_down_or_gone_says_so() {
    isolated!({
        veth();
        // Past the queueing discipline, which would take what it then drops.
        let direct = |index| {
            RingPort::open(index, RingOptions { direct: true, ..RingOptions::default() }).unwrap()
        };
        let (mut a, mut b) = (direct(10), direct(11));
        assert_eq!(b.fault(), Received::Empty);
        configure("b", &Change::of(11).down());
        assert_eq!(b.fault(), Received::Down);
        assert_eq!(b.fault(), Received::Empty, "told once");
        assert_eq!(b.send(&experiment(b"")).unwrap(), Sent::Down);
        // No carrier: it waits a while for room, then what waits is lost.
        assert_eq!(a.queue(&experiment(b"")).unwrap(), Sent::Done);
        let lost = wait_until("the end of patience", Duration::from_secs(30), || {
            let flushed = a.flush().unwrap();
            (flushed.sent != Sent::Full).then_some(flushed)
        });
        assert_eq!(lost, Flushed { sent: Sent::NoRoom, lost: 1 });
        assert_eq!(a.send(&experiment(b"")).unwrap(), Sent::NoRoom, "and at once what comes then");
        configure("b", &Change::of(11).up());
        wait_until("carrier", Duration::from_secs(30), || {
            (a.send(&experiment(b"up")).unwrap() == Sent::Done).then_some(())
        });
        assert_eq!(next(&mut b)[HEADER..], experiment(b"up")[HEADER..]);
        configure("b", &Change::of(11).down());
        assert_eq!(b.fault(), Received::Down);
        configure("a", &DeleteLink::new(10));
        assert_eq!(b.fault(), Received::Gone);
        assert_eq!(a.receive(&mut [0; MOST_FRAME]).unwrap(), Received::Gone);
        assert_eq!(a.send(&experiment(b"")).unwrap(), Sent::Gone);
    });
}

#[test]
fn a_port_is_made_of_a_given_socket_and_leaves_no_mode_behind() {
    isolated!({
        veth();
        let promiscuous = || {
            let flags = std::fs::read_to_string("/sys/class/net/b/flags");
            flags
                .ok()
                .map(|text| u32::from_str_radix(text.trim().trim_start_matches("0x"), 16).unwrap())
        };
        let before = promiscuous();
        let given = PacketPort::open(11).unwrap().into_fd();
        let copy = given.try_clone().unwrap();
        let options = RingOptions { promiscuous: true, ..RingOptions::default() };
        let mut b = RingPort::from_fd(given, options).unwrap();
        assert!(!b.is_merged_irreversibly());
        let busy = RingPort::from_fd(copy, options).unwrap_err();
        assert_eq!(busy.raw_os_error(), Some(16), "EBUSY: {busy}");
        assert_eq!(open(10).send(&experiment(b"given")).unwrap(), Sent::Done);
        assert_eq!(next(&mut b)[HEADER..], experiment(b"given")[HEADER..]);
        drop(b);
        assert_eq!(promiscuous(), before);
        let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let wrong = RingPort::from_fd(udp.into(), options);
        assert!(matches!(wrong, Err(Error::Kind { .. })));
        let given = PacketPort::open(11).unwrap().into_fd();
        configure("a", &DeleteLink::new(10));
        assert!(matches!(RingPort::from_fd(given, options), Err(Error::Kind { .. })));
    });
}

#[test]
fn who_has_no_header_of_offloads_loses_what_was_merged() {
    isolated!({
        veth();
        let options = RingOptions { without_offloads: true, ..RingOptions::default() };
        let (mut a, mut b) = (open(10), RingPort::open(11, options).unwrap());
        // IPv4, TCP from port 1 to 2, cut by 1448 bytes, checksum unfinished.
        let mut merged = vec![1, 1, 54, 0, 0xa8, 5, 34, 0, 16, 0];
        merged.extend([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]);
        let length = 20 + 20 + 10 * 1448_u16;
        merged.extend([0x45, 0]);
        merged.extend(length.to_be_bytes());
        merged.extend([0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        merged.extend([0, 1, 0, 2, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
        merged.resize(HEADER + 14 + usize::from(length), 7);
        assert_eq!(a.send(&merged).unwrap(), Sent::Done);
        wait_until("a frame", Duration::from_secs(30), || readable(&b).then_some(()));
        assert_eq!(b.lend(), Lent::Truncated);
        assert_eq!(b.receive(&mut [0; MOST_FRAME]).unwrap(), Received::Truncated);
        assert_eq!(b.lend(), Lent::Empty);
        assert_eq!(b.send(&merged).unwrap(), Sent::Refused);
        drop(b);
        for whole_slots in [true, false] {
            let mut b =
                RingPort::open(11, RingOptions { whole_slots, ..options_with_header() }).unwrap();
            assert_eq!(a.queue(&merged).unwrap(), Sent::Done);
            assert_eq!(a.queue(&experiment(b"behind")).unwrap(), Sent::Done);
            let mut tagged = merged.clone();
            tagged.splice(HEADER + 12..HEADER + 12, [0x81, 0, 0, 9]);
            for (field, value) in [(2, 58_u16), (6, 38)] {
                tagged[field..field + 2].copy_from_slice(&value.to_ne_bytes());
            }
            assert_eq!(a.queue(&tagged).unwrap(), Sent::Done);
            assert_eq!(a.flush().unwrap(), Flushed { sent: Sent::Done, lost: 0 });
            let got = next(&mut b);
            assert_eq!(got[HEADER..], merged[HEADER..], "whole where the header is");
            assert_eq!((got[0], got[1], &got[4..10]), (1, 1, &merged[4..10]));
            assert_eq!(next(&mut b)[HEADER..], experiment(b"behind")[HEADER..]);
            let got = next(&mut b);
            assert_eq!(got[HEADER..], tagged[HEADER..]);
            assert_eq!((got[0], got[1], &got[4..10]), (1, 1, &tagged[4..10]));
            assert_eq!(b.lend(), Lent::Empty);
        }
    });
}
