//! Frames both ways, with all that a driver may ask for.

use netloom_packet::vnet::{Gso, VnetHeader};
use netloom_packet::{Headers, checksum};
use netloom_port::{Port, Received, Sent};
use netloom_vhost::front::{INDIRECT, NEXT, Setup, WRITE, encode, feature};

use super::site::{RX, Site, TX, frame, tcp4};

/// Every combination of what changes the layout of frames and rings.
fn layouts() -> Vec<u64> {
    let all = Setup::default().features;
    let parts = [feature::MRG_RXBUF, feature::EVENT_IDX, feature::VERSION_1, feature::PROTOCOL];
    (0..1 << parts.len())
        .map(|chosen: u64| {
            let without = parts.iter().enumerate().filter(|(i, _)| chosen & (1 << i) != 0);
            without.fold(all, |features, (_, part)| features & !part)
        })
        .collect()
}

#[test]
fn frames_cross_both_ways_in_every_layout() {
    for features in layouts() {
        let mut site = Site::new(Setup { features, ..Setup::default() });
        site.machine.fill(RX);
        for round in 0..1000_u16 {
            let length = 60 + usize::from(round) % 1455;
            let sent = frame(length, round as u8);
            site.transmit(round % 256, &sent);
            assert_eq!(site.take().as_ref(), Ok(&sent), "{features:x}");
            assert_eq!(site.give(&sent), Sent::Done);
            let (got, heads) = site.machine.received(RX).expect("a frame");
            assert_eq!(&got[site.machine.header()..], sent);
            heads.iter().for_each(|head| site.machine.post(RX, *head));
        }
        assert_eq!(site.take(), Err(Received::Empty));
        assert_eq!(site.port.faults(), netloom_vhost::Faults::default());
        // All that was transmitted was returned, in order.
        for round in 0..1000_u16 {
            assert_eq!(site.machine.returned(TX), Some((round % 256, 0)));
        }
        assert_eq!(site.machine.returned(TX), None);
    }
}

/// A driver may spread header and frame over descriptors as it likes, in the queue's table or in one of their own.
#[test]
fn chains_may_be_of_any_shape() {
    let mut site = Site::new(Setup::default());
    let text = [vec![0; 12], frame(1000, 7)].concat();
    let base = site.machine.scratch();
    site.machine.write(base, &text);
    for cuts in [vec![12], vec![5, 7, 500], vec![1; 200], vec![1011]] {
        let mut parts = vec![];
        let mut at = 0;
        for length in cuts.iter().copied().chain([1012 - cuts.iter().sum::<u32>()]) {
            parts.push((base + u64::from(at), length));
            at += length;
        }
        let last = parts.len() - 1;
        let parts = |first: u16| {
            parts.clone().into_iter().zip(0_u16..).map(move |((address, length), i)| {
                let more = if usize::from(i) == last { 0 } else { NEXT };
                (address, length, more, first + i + 1)
            })
        };
        for (i, part) in (0..).zip(parts(3)) {
            site.machine.describe(TX, 3 + i, part);
        }
        site.machine.offer(TX, 3);
        assert_eq!(site.take(), Ok(frame(1000, 7)), "{cuts:?}");
        let table: Vec<u8> = parts(0).flat_map(encode).collect();
        site.machine.write(base + 4096, &table);
        let whole = (base + 4096, table.len() as u32, INDIRECT, 0);
        site.machine.describe(TX, 0, whole);
        site.machine.offer(TX, 0);
        assert_eq!(site.take(), Ok(frame(1000, 7)), "{cuts:?}, indirect");
    }
    assert_eq!(site.port.faults().chains, 0);
}

/// A frame longer than a buffer takes several; one that finds too few takes none, and waits.
#[test]
fn long_frames_take_several_buffers_or_none() {
    let mut site = Site::new(Setup { buffer: 512, ..Setup::default() });
    let long = frame(9000, 3);
    for at in 0..17 {
        site.machine.post(RX, at);
    }
    assert_eq!(site.give(&long), Sent::Full, "17 buffers of 512 bytes");
    assert_eq!(site.machine.received(RX), None);
    // Short enough frames fit.
    assert_eq!(site.give(&frame(400, 1)), Sent::Done);
    let (_, heads) = site.machine.received(RX).unwrap();
    assert_eq!(heads, [0]);
    for at in 17..20 {
        site.machine.post(RX, at);
    }
    assert_eq!(site.give(&long), Sent::Done);
    let (got, heads) = site.machine.received(RX).unwrap();
    assert_eq!((&got[12..], heads.len()), (&long[..], 18));
    // Without merging there is one buffer for each.
    let features = Setup::default().features & !feature::MRG_RXBUF;
    let mut site = Site::new(Setup { features, buffer: 512, ..Setup::default() });
    site.machine.fill(RX);
    assert_eq!(site.give(&long), Sent::Refused);
    assert_eq!(site.give(&frame(500, 2)), Sent::Done);
    // A chain of several descriptors is one.
    let (first, scratch) = (site.machine.buffer(RX, 0), site.machine.scratch());
    let mut site = Site::new(Setup { features, buffer: 512, ..Setup::default() });
    site.machine.describe(RX, 0, (first, 10, WRITE | NEXT, 1));
    site.machine.describe(RX, 1, (scratch, 10_000, WRITE, 0));
    site.machine.offer(RX, 0);
    assert_eq!(site.give(&long), Sent::Done);
    assert_eq!(site.machine.returned(RX), Some((0, 9012)));
    let mut got = vec![0; 9000];
    site.machine.read(scratch + 2, &mut got);
    assert_eq!(got, long);
}

/// A TCP super-frame whose checksum is unfinished, with its header.
fn super_frame(payload: usize) -> (VnetHeader, Vec<u8>) {
    let mut bytes = tcp4(payload);
    let headers = Headers::parse(&bytes).unwrap();
    let (network, ip) = (headers.network, headers.ip.unwrap());
    let sum = checksum::fold(checksum::pseudo_header(&bytes, network, &ip, ip.end - ip.transport));
    bytes[ip.transport + 16..ip.transport + 18].copy_from_slice(&sum.to_be_bytes());
    let header = VnetHeader {
        needs_csum: true,
        gso: Gso::TcpV4,
        gso_size: 1448,
        csum_start: ip.transport as u16,
        csum_offset: 16,
        ..VnetHeader::default()
    };
    (header, bytes)
}

/// A super-frame passes whole, with its header, in both directions, where the driver takes it.
#[test]
fn super_frames_stay_whole() {
    let mut site = Site::new(Setup { buffer: 65_536, ..Setup::default() });
    let (header, body) = super_frame(60_000);
    let whole = [&header.encode()[..], &body].concat();
    site.machine.fill(RX);
    assert_eq!(site.port.send(&whole).unwrap(), Sent::Done);
    let (got, heads) = site.machine.received(RX).unwrap();
    assert_eq!((&got[..10], &got[12..], heads.len()), (&whole[..10], &body[..], 1));
    let sent = [&header.encode()[..], &[0, 0], &body].concat();
    site.machine.transmit(TX, 0, &sent);
    assert_eq!(site.take_whole(), Ok(whole));
}

/// Without them the port cuts super-frames and finishes checksums.
#[test]
fn what_the_guest_does_not_take_is_cut_and_finished() {
    let (header, body) = super_frame(14_480);
    let whole = [&header.encode()[..], &body].concat();
    for takes in [0, feature::GUEST_CSUM] {
        let not = feature::GUEST_TSO4 | feature::GUEST_CSUM;
        let features = Setup::default().features & !not | takes;
        let mut site = Site::new(Setup { features, ..Setup::default() });
        // Buffers for half of the packets; the others wait for more.
        for at in 0..5 {
            site.machine.post(RX, at);
        }
        assert_eq!(site.port.queue(&whole).unwrap(), Sent::Done);
        assert_eq!(site.port.flush().unwrap().sent, Sent::Full);
        let small = frame(60, 1);
        assert_eq!(site.give(&small), Sent::Full, "behind the others");
        let mut payload = 0;
        for next in 5..15 {
            let (got, _) = site.machine.received(RX).expect("a packet");
            site.machine.post(RX, next);
            site.port.flush().unwrap();
            let told = VnetHeader::parse(&got).unwrap();
            assert_eq!((told.gso, told.needs_csum), (Gso::None, takes != 0));
            let mut packet = got[12..].to_vec();
            assert!(packet.len() <= 1514);
            checksum::finish(&told, &mut packet).unwrap();
            let headers = Headers::parse(&packet).unwrap();
            let ip = headers.ip.unwrap();
            assert!(checksum::verifies(&packet, headers.network, &ip), "a wrong checksum");
            payload += packet.len() - ip.transport - 20;
        }
        assert_eq!((payload, site.machine.received(RX)), (14_480, None));
        assert_eq!(site.give(&small), Sent::Done);
    }
}

/// Wake-ups come when they were asked for, and not otherwise.
#[test]
fn both_sides_are_woken_when_they_ask() {
    for without in [0, feature::EVENT_IDX] {
        let features = Setup::default().features & !without;
        let mut site = Site::new(Setup { features, ..Setup::default() });
        site.machine.fill(RX);
        for round in 0..600_u16 {
            // Kicks: after a rest only, and then with the first frame.
            assert!(!site.port.rest());
            assert!(!site.shows());
            let before = site.machine.queues[TX].available;
            site.transmit(0, &frame(60, 1));
            assert!(site.machine.kick(TX, before), "round {round}");
            assert!(site.shows());
            assert_eq!(site.take(), Ok(frame(60, 1)));
            let before = site.machine.queues[TX].available;
            site.transmit(1, &frame(60, 2));
            assert!(!site.machine.kick(TX, before), "it looks anyway");
            assert!(site.port.rest(), "there is a frame");
            assert_eq!(site.take(), Ok(frame(60, 2)));
            assert_eq!(site.take(), Err(Received::Empty));
            // Calls.
            for wanted in [true, false] {
                site.machine.listen(RX, wanted);
                site.machine.woken(RX);
                assert_eq!(site.give(&frame(60, 3)), Sent::Done);
                assert_eq!(site.machine.woken(RX), u64::from(wanted), "round {round}");
                let (_, heads) = site.machine.received(RX).unwrap();
                site.machine.post(RX, heads[0]);
            }
        }
    }
}

/// Frames of a flow stay in one queue, and several flows use several.
#[test]
fn several_queues_share_the_frames() {
    let mut site = Site::new(Setup { pairs: 4, ..Setup::default() });
    (0..4).for_each(|pair| site.machine.fill(2 * pair));
    let mut used = [0; 4];
    for flow in 0..32_u8 {
        let mut packet = tcp4(100);
        packet[35] = flow;
        for _ in 0..3 {
            assert_eq!(site.give(&packet), Sent::Done);
        }
        let mut got = vec![];
        for pair in 0..4 {
            while site.machine.received(2 * pair).is_some() {
                got.push(pair);
            }
        }
        assert_eq!(got.len(), 3);
        assert!(got.iter().all(|pair| *pair == got[0]), "one flow in {got:?}");
        used[got[0]] += 1;
    }
    assert!(used.iter().all(|flows| *flows > 0), "{used:?}");
    // All are read.
    for pair in 0..4_u8 {
        let text = [vec![0; 12], frame(60, pair)].concat();
        site.machine.transmit(2 * usize::from(pair) + 1, 0, &text);
    }
    let mut got: Vec<u8> = (0..4).map(|_| site.take().unwrap()[20]).collect();
    got.sort_unstable();
    assert_eq!(got, [0, 1, 2, 3]);
    // A disabled pair gets nothing.
    let link = site.link.as_mut().unwrap();
    use vhost::vhost_user::VhostUserFrontend;
    super::site::serving(&mut site.port, || {
        for queue in 2..8 {
            link.front.set_vring_enable(queue, false).unwrap();
        }
    });
    for flow in 0..32 {
        let mut packet = tcp4(100);
        packet[35] = flow;
        assert_eq!(site.give(&packet), Sent::Done);
        assert!(site.machine.received(RX).is_some());
    }
}

/// Without a guest frames are lost, not held.
#[test]
fn without_a_guest_the_card_is_down() {
    let mut site = Site::new(Setup::default());
    site.disconnect();
    assert_eq!(site.give(&frame(60, 0)), Sent::Down);
    assert_eq!(site.take(), Err(Received::Empty));
}
