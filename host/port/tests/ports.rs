//! Frames through real taps and packet sockets, in fresh namespaces.

use std::net::UdpSocket;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use netloom_kit::{isolated, needs_tun, wait_for_carrier, wait_until};
use netloom_netlink::{Address, Batch, Change, DeleteLink, EndSpec, Neighbour, Socket, VethSpec};
use netloom_port::{
    Error, HEADER, Kind, MOST_FRAME, PacketPort, Port, Received, Sent, Tap, TapOptions, from_fd,
};

/// An Ethernet type for experiments: nothing else sends it.
const TYPE: [u8; 2] = [0x88, 0xb5];

fn configure(object: &str, request: &impl netloom_netlink::Request) {
    let mut batch = Batch::new();
    batch.push(object, request);
    Socket::open().unwrap().run(&mut batch).unwrap();
}

fn no_ipv6() {
    let _ = std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
}

/// A veth whose ends are 10 and 11, both up and carrying.
fn veth() {
    no_ipv6();
    let a = EndSpec { index: Some(10), ..EndSpec::new("a") };
    let b = EndSpec { index: Some(11), ..EndSpec::new("b") };
    configure("a", &VethSpec::new(a, b));
    configure("a", &Change::of(10).up());
    configure("b", &Change::of(11).up());
    wait_for_carrier(10);
}

/// A tap with index 10, up.
fn tap() -> Tap {
    no_ipv6();
    let options = TapOptions { index: Some(10), ..TapOptions::default() };
    let tap = Tap::create("t", options).unwrap();
    configure("t", &Change::of(10).mac([2, 0, 0, 0, 0, 1]).up());
    tap
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

/// The next frame that `wanted` says yes to, with its header.
fn next(port: &mut dyn Port, wanted: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let mut buffer = vec![0; MOST_FRAME];
    wait_until("a frame", Duration::from_secs(30), || {
        while let Received::Frame { start, length } = port.receive(&mut buffer).unwrap() {
            let frame = &buffer[start..start + length];
            if wanted(&frame[HEADER..]) {
                return Some(frame.to_vec());
            }
        }
        None
    })
}

fn is_experiment(frame: &[u8]) -> bool {
    frame[12..14] == TYPE
}

#[test]
fn datagrams_cross_a_tap_both_ways() {
    isolated!({
        needs_tun!();
        let mut tap = tap();
        configure("t", &Address::new(10, "10.0.0.1/24".parse().unwrap()));
        let address = "10.0.0.2".parse().unwrap();
        configure("t", &Neighbour { link: 10, address, mac: [2, 0, 0, 0, 0, 2] });
        let socket = UdpSocket::bind("10.0.0.1:5000").unwrap();
        socket.send_to(b"over there", "10.0.0.2:6000").unwrap();
        let mut got = next(&mut tap, |f| f.ends_with(b"over there"));
        assert_eq!(got[0] & 1, 1, "its checksum is left to us");

        // The same back: addresses, ports and MACs exchanged; the sums stay the same.
        let ethernet = HEADER + 14;
        for (a, b, length) in [(HEADER, HEADER + 6, 6), (ethernet + 12, ethernet + 16, 4)] {
            for i in 0..length {
                got.swap(a + i, b + i);
            }
        }
        for i in 0..2 {
            got.swap(ethernet + 20 + i, ethernet + 22 + i);
        }
        assert_eq!(tap.send(&got).unwrap(), Sent::Done);
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let mut text = [0; 64];
        let (length, from) = socket.recv_from(&mut text).unwrap();
        assert_eq!(&text[..length], b"over there");
        assert_eq!(from, "10.0.0.2:6000".parse().unwrap());
        assert_eq!(tap.receive(&mut [0; MOST_FRAME]).unwrap(), Received::Empty);
    });
}

#[test]
fn a_tap_that_is_down_or_gone_says_so() {
    isolated!({
        needs_tun!();
        let mut tap = tap();
        let taken = Tap::create("t", TapOptions::default()).unwrap_err();
        assert_eq!(taken.raw_os_error(), Some(16), "EBUSY: {taken}");
        assert!(Tap::create("a-name-that-is-too-long", TapOptions::default()).is_err());
        let mut nonsense = experiment(b"");
        // A super-frame whose segments have no length.
        nonsense[1] = 1;
        assert_eq!(tap.send(&nonsense).unwrap(), Sent::Refused);
        assert_eq!(tap.send(&nonsense[..HEADER + 4]).unwrap(), Sent::Refused);
        configure("t", &Change::of(10).down());
        assert_eq!(tap.send(&experiment(b"")).unwrap(), Sent::Down);
        assert_eq!(tap.receive(&mut [0; MOST_FRAME]).unwrap(), Received::Empty);
        configure("t", &Change::of(10).up());
        assert_eq!(tap.send(&experiment(b"")).unwrap(), Sent::Done);
        configure("t", &DeleteLink::new(10));
        assert_eq!(tap.send(&experiment(b"")).unwrap(), Sent::Gone);
        assert_eq!(tap.receive(&mut [0; MOST_FRAME]).unwrap(), Received::Gone);
    });
}

#[test]
fn a_persistent_tap_outlives_its_descriptor() {
    isolated!({
        needs_tun!();
        drop(tap());
        let stays = TapOptions { persistent: true, ..TapOptions::default() };
        drop(Tap::create("p", stays).unwrap());
        let mut netlink = Socket::open().unwrap();
        assert!(netlink.link("p").unwrap().is_some());
        assert!(netlink.link("t").unwrap().is_none(), "the other went with its descriptor");
        let again = Tap::create("p", TapOptions::default()).unwrap();
        let given = Tap::from_fd(again.into_fd()).unwrap();
        assert!(given.as_fd().try_clone_to_owned().is_ok());
    });
}

#[test]
fn frames_cross_packet_sockets_and_do_not_come_back() {
    isolated!({
        veth();
        let (mut a, mut b) = (PacketPort::open(10).unwrap(), PacketPort::open(11).unwrap());
        assert_eq!(a.send(&experiment(b"forth")).unwrap(), Sent::Done);
        assert_eq!(b.send(&experiment(b"back!")).unwrap(), Sent::Done);
        let got = next(&mut b, is_experiment);
        assert_eq!(got[HEADER..], experiment(b"forth")[HEADER..]);
        let got = next(&mut a, is_experiment);
        assert_eq!(got[HEADER..], experiment(b"back!")[HEADER..]);
        let mut buffer = vec![0; MOST_FRAME];
        assert_eq!(a.receive(&mut buffer).unwrap(), Received::Empty, "its own is ignored");
        assert_eq!(b.receive(&mut buffer).unwrap(), Received::Empty);
    });
}

#[test]
fn vlan_tags_are_put_back() {
    isolated!({
        veth();
        let (mut a, mut b) = (PacketPort::open(10).unwrap(), PacketPort::open(11).unwrap());
        for kind in [[0x81, 0x00], [0x88, 0xa8]] {
            let sent = frame(&[&kind, &[0x20, 0x07][..], &TYPE, b"tagged"].concat());
            assert_eq!(a.send(&sent).unwrap(), Sent::Done);
            let got = next(&mut b, |f| f[16..18] == TYPE);
            assert_eq!(got[HEADER..], sent[HEADER..]);
        }
    });
}

#[test]
fn what_does_not_fit_is_refused_or_truncated() {
    isolated!({
        veth();
        let (mut a, mut b) = (PacketPort::open(10).unwrap(), PacketPort::open(11).unwrap());
        assert_eq!(a.send(&experiment(&[7; 1498])).unwrap(), Sent::Done);
        assert_eq!(a.send(&experiment(&[7; 1600])).unwrap(), Sent::Refused, "over the MTU");
        let mut nonsense = experiment(b"");
        nonsense[1] = 0x7f;
        assert_eq!(a.send(&nonsense).unwrap(), Sent::Refused, "no such super-frame");
        let mut small = [0; 256];
        let got = wait_until("a frame", Duration::from_secs(30), || {
            Some(b.receive(&mut small).unwrap()).filter(|got| *got != Received::Empty)
        });
        assert_eq!(got, Received::Truncated);
        assert_eq!(b.receive(&mut small).unwrap(), Received::Empty);

        configure("b", &Change::of(11).down());
        assert_eq!(a.send(&experiment(b"")).unwrap(), Sent::NoRoom, "no carrier");
        assert_eq!(b.receive(&mut small).unwrap(), Received::Down);
        assert_eq!(b.send(&experiment(b"")).unwrap(), Sent::Down);
        configure("a", &DeleteLink::new(10));
        assert_eq!(a.send(&experiment(b"")).unwrap(), Sent::Gone);
    });
}

#[test]
fn what_nobody_reads_is_counted() {
    isolated!({
        veth();
        let (mut a, mut b) = (PacketPort::open(10).unwrap(), PacketPort::open(11).unwrap());
        assert_eq!(b.overruns(), Some(0));
        rustix::net::sockopt::set_socket_recv_buffer_size(b.as_fd(), 64 << 10).unwrap();
        for _ in 0..1000 {
            assert_eq!(a.send(&experiment(b"")).unwrap(), Sent::Done);
        }
        let mut buffer = vec![0; MOST_FRAME];
        let mut read = 0;
        // A CPU may put off what comes in.
        wait_until("all are read or counted", Duration::from_secs(30), || {
            while let Received::Frame { .. } = b.receive(&mut buffer).unwrap() {
                read += 1;
            }
            (b.overruns() == Some(1000 - read)).then_some(())
        });
        assert!(read > 0 && read < 1000, "{read}");
        assert_eq!(b.overruns(), Some(1000 - read), "not counted twice");
    });
}

#[test]
fn a_descriptor_is_what_it_is_said_to_be() {
    isolated!({
        veth();
        let copy = |fd: &dyn AsFd| fd.as_fd().try_clone_to_owned().unwrap();
        let packet = PacketPort::open(10).unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let file = std::fs::File::open("/dev/null").unwrap();
        let wrong = |kind, fd: OwnedFd| {
            assert!(matches!(from_fd(kind, fd).err(), Some(Error::Kind { .. })), "{kind:?}");
        };
        assert!(from_fd(Kind::Packet, copy(&packet.as_fd())).is_ok());
        wrong(Kind::Tap, copy(&packet.as_fd()));
        for kind in [Kind::Tap, Kind::Packet] {
            wrong(kind, copy(&udp));
            wrong(kind, copy(&file));
        }
        needs_tun!();
        let tap = tap_beside();
        wrong(Kind::Packet, copy(&tap.as_fd()));
        assert!(from_fd(Kind::Tap, copy(&tap.as_fd())).is_ok());
    });
}

fn tap_beside() -> Tap {
    Tap::create("t", TapOptions::default()).unwrap()
}
