//! Guests and front ends that break every rule: their own frames are lost, and nothing else happens.

use std::io::Write;
use std::os::unix::net::UnixStream;

use netloom_port::{Port, Received, Sent};
use netloom_vhost::front::{BASE, INDIRECT, NEXT, Setup, WRITE, encode};
use vhost::VhostBackend;

use super::site::{RX, Site, TX, frame, serve_until, serving};

const NOWHERE: u64 = 0xdead_0000_0000;

/// Descriptors of the queue's table, from 0 on, and bytes for the scratch memory.
type Wrong = (&'static str, Vec<(u64, u32, u16, u16)>, Vec<u8>);

/// Chains that are wrong whichever way their queue goes; `way` is the flag of a right descriptor.
fn wrong_chains(site: &Site, way: u16) -> Vec<Wrong> {
    let (good, table) = (site.machine.buffer(TX, 0), site.machine.scratch());
    let end = BASE + site.machine.region().memory_size;
    let indirect = |length| (table, length, INDIRECT, 0);
    let plain = (good, 100, way, 0);
    vec![
        ("wild", vec![(NOWHERE, 100, way, 0)], vec![]),
        ("beyond the end", vec![(end - 50, 100, way, 0)], vec![]),
        ("wrapping", vec![(u64::MAX - 10, 100, way, 0)], vec![]),
        ("as long as can be", vec![(good, u32::MAX, way, 0)], vec![]),
        ("before the beginning", vec![(BASE - 1, 100, way, 0)], vec![]),
        ("a loop of one", vec![(good, 1, way | NEXT, 0)], vec![]),
        ("a loop of two", vec![(good, 1, way | NEXT, 1), (good, 1, way | NEXT, 0)], vec![]),
        ("next outside", vec![(good, 100, way | NEXT, 60_000)], vec![]),
        ("the wrong way", vec![(good, 100, way ^ WRITE, 0)], vec![]),
        ("half the wrong way", vec![(good, 50, way | NEXT, 1), (good, 50, way ^ WRITE, 0)], vec![]),
        ("an empty table", vec![indirect(0)], vec![]),
        ("half an entry", vec![indirect(24)], encode(plain).to_vec()),
        ("a wild table", vec![(NOWHERE, 16, INDIRECT, 0)], vec![]),
        ("a huge table", vec![indirect(0xffff_fff0)], vec![]),
        ("a table of a table", vec![indirect(16)], encode(indirect(16)).to_vec()),
        ("a loop in a table", vec![indirect(16)], encode((good, 1, way | NEXT, 0)).to_vec()),
        ("next outside of a table", vec![indirect(16)], encode((good, 1, way | NEXT, 1)).to_vec()),
        ("a table and more", vec![(table, 16, INDIRECT | NEXT, 1), plain], encode(plain).to_vec()),
    ]
}

#[test]
fn a_malformed_chain_loses_its_frame_alone() {
    let mut site = Site::new(Setup::default());
    site.machine.fill(RX);
    let mut faults = 0;
    for (what, table, scratch) in wrong_chains(&site, 0) {
        for (at, parts) in (0..).zip(&table) {
            site.machine.describe(TX, at, *parts);
        }
        site.machine.write(site.machine.scratch(), &scratch);
        site.machine.offer(TX, 0);
        site.transmit(9, &frame(60, 9));
        assert_eq!(site.take(), Err(Received::Truncated), "{what}");
        faults += 1;
        assert_eq!(site.port.faults().chains, faults, "{what}");
        assert_eq!(site.take(), Ok(frame(60, 9)), "{what}");
        assert_eq!(site.take(), Err(Received::Empty), "{what}");
        assert_eq!(site.machine.returned(TX), Some((0, 0)), "{what}");
        assert_eq!(site.machine.returned(TX), Some((9, 0)), "{what}");
    }
    // Right as chains, but no frames.
    for length in [0, 1, 11] {
        let buffer = site.machine.buffer(TX, 0);
        site.machine.describe(TX, 0, (buffer, length, 0, 0));
        site.machine.offer(TX, 0);
        assert_eq!(site.take(), Err(Received::Truncated));
    }
    let long = (BASE, 70_000, 0, 0);
    site.machine.describe(TX, 0, long);
    site.machine.offer(TX, 0);
    assert_eq!(site.take(), Err(Received::Truncated));
    assert_eq!(site.port.faults().chains, faults);
    assert!(site.port.is_connected());
}

#[test]
fn a_malformed_buffer_is_returned_unused() {
    let mut site = Site::new(Setup::default());
    let mut faults = 0;
    for (what, table, scratch) in wrong_chains(&site, WRITE) {
        for (at, parts) in (0..).zip(&table) {
            site.machine.describe(RX, at, *parts);
        }
        site.machine.write(site.machine.scratch(), &scratch);
        site.machine.offer(RX, 0);
        site.machine.post(RX, 9);
        assert_eq!(site.give(&frame(60, 9)), Sent::Done, "{what}");
        faults += 1;
        assert_eq!(site.port.faults().chains, faults, "{what}");
        assert_eq!(site.machine.returned(RX), Some((0, 0)), "{what}");
        let (got, heads) = site.machine.received(RX).unwrap();
        assert_eq!((&got[12..], &heads[..]), (&frame(60, 9)[..], &[9][..]), "{what}");
        // One in the middle of a frame: those before it are returned unused, too.
        site.machine.post(RX, 10);
        site.machine.offer(RX, 0);
        assert_eq!(site.give(&frame(3000, 1)), Sent::Full, "{what}");
        faults += 1;
        assert_eq!(site.port.faults().chains, faults, "{what}");
        site.port.flush().unwrap();
        assert_eq!(site.machine.returned(RX), Some((10, 0)), "{what}");
        assert_eq!(site.machine.returned(RX), Some((0, 0)), "{what}");
    }
    // Nothing but malformed ones: a frame gives up.
    site.machine.describe(RX, 0, (NOWHERE, 100, WRITE, 0));
    for _ in 0..256 {
        site.machine.offer(RX, 0);
    }
    assert_eq!(site.give(&frame(60, 1)), Sent::NoRoom);
    assert!(site.port.faults().chains < faults + 256);
}

/// An index that jumped, or a chain that does not exist, stops that queue; a new set-up starts it again.
#[test]
fn a_broken_ring_stops_its_queue_alone() {
    for (queue, how) in [(TX, 0), (TX, 1), (RX, 0), (RX, 1)] {
        let mut site = Site::new(Setup::default());
        if how == 0 {
            site.machine.claim(queue, 257);
        } else {
            site.machine.offer(queue, 256);
        }
        if queue == TX {
            site.machine.fill(RX);
            assert_eq!(site.take(), Err(Received::Truncated));
            assert_eq!(site.take(), Err(Received::Empty));
            assert_eq!(site.give(&frame(60, 1)), Sent::Done);
            assert!(site.machine.received(RX).is_some());
        } else {
            assert_eq!(site.give(&frame(60, 1)), Sent::Down);
            site.transmit(0, &frame(60, 2));
            assert_eq!(site.take(), Ok(frame(60, 2)));
        }
        assert_eq!(site.port.faults().queues, 1);
        assert!(site.machine.is_broken(queue) && !site.machine.is_broken(1 - queue));
        assert!(!site.port.rest(), "it may sleep");
        // The driver starts over.
        site.machine.claim(queue, 0);
        site.disconnect();
        site.connect();
        if queue == TX {
            site.transmit(0, &frame(60, 3));
            assert_eq!(site.take(), Ok(frame(60, 3)));
        } else {
            site.machine.fill(RX);
            assert_eq!(site.give(&frame(60, 3)), Sent::Done);
        }
    }
}

/// Requests that are wrong are refused, and change nothing that was right.
#[test]
fn wrong_requests_are_refused() {
    let mut site = Site::new(Setup::default());
    let mut addresses = site.machine.addresses(TX);
    let right = site.machine.addresses(TX);
    let region = site.machine.region();
    let front = site.link.as_mut().unwrap().front.clone();
    serving(&mut site.port, || {
        assert!(front.set_features(1 << 34).is_err(), "packed rings were not offered");
        assert!(front.set_vring_num(TX, 300).is_err(), "no power of two");
        addresses.avail_ring_addr = 16;
        assert!(front.set_vring_addr(TX, &addresses).is_err());
        addresses.avail_ring_addr = right.avail_ring_addr + 1;
        assert!(front.set_vring_addr(TX, &addresses).is_err(), "unaligned");
        let mut long = region;
        long.memory_size *= 2;
        assert!(front.set_mem_table(&[long]).is_err(), "longer than its file");
        assert!(front.set_mem_table(&[region, region]).is_err(), "twice the same");
        assert!(front.get_vring_base(63).is_err() || front.get_features().is_err());
    });
    assert!(site.port.faults().requests >= 4, "{:?}", site.port.faults());
}

/// A front end that talks nonsense, or half a sentence, is let go; the next one is served.
#[test]
fn nonsense_ends_the_connection_alone() {
    let mut site = Site::new(Setup::default());
    site.disconnect();
    let sentences: [&[u8]; 5] = [
        &[0xff; 64],
        &[1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0],
        &[200, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0],
        // Memory without descriptors.
        &[5, 0, 0, 0, 1, 0, 0, 0, 40, 0, 0, 0, 1, 0, 0, 0],
        &[1, 0, 0],
    ];
    for words in sentences {
        let mut stream = UnixStream::connect(site.path()).unwrap();
        serve_until(&mut site.port, |port| port.is_connected());
        stream.write_all(words).unwrap();
        serve_until(&mut site.port, |port| !port.is_connected());
    }
    site.connect();
    site.transmit(0, &frame(60, 1));
    assert_eq!(site.take(), Ok(frame(60, 1)));
}

/// A front end that goes in the middle of a request is not waited for.
#[test]
fn half_a_request_ends_with_its_connection() {
    let mut site = Site::new(Setup::default());
    site.disconnect();
    let mut stream = UnixStream::connect(site.path()).unwrap();
    serve_until(&mut site.port, |port| port.is_connected());
    stream.write_all(&[1, 0, 0]).unwrap();
    site.port.rest();
    assert_eq!(site.take(), Err(Received::Empty));
    assert!(site.port.is_connected());
    drop(stream);
    site.port.rest();
    assert_eq!(site.take(), Err(Received::Empty));
    assert!(!site.port.is_connected());
}

/// Memory that goes away under running queues stops them.
#[test]
fn queues_outside_of_new_memory_do_not_run() {
    let mut site = Site::new(Setup::default());
    site.machine.fill(RX);
    let mut region = site.machine.region();
    let right = region;
    region.userspace_addr = 0x1000;
    let front = site.link.as_mut().unwrap().front.clone();
    serving(&mut site.port, || front.set_mem_table(&[region]).unwrap());
    site.transmit(0, &frame(60, 1));
    assert_eq!(site.take(), Err(Received::Empty));
    assert_eq!(site.give(&frame(60, 1)), Sent::Down);
    let front = site.link.as_mut().unwrap().front.clone();
    serving(&mut site.port, || front.set_mem_table(&[right]).unwrap());
    assert_eq!(site.take(), Ok(frame(60, 1)));
    assert_eq!(site.give(&frame(60, 1)), Sent::Done);
}

/// A queue changes under the port's hands at every moment: whatever it reads, it goes on.
#[test]
fn a_guest_that_scribbles_harms_itself() {
    let mut site = Site::new(Setup { size: 16, buffer: 256, ..Setup::default() });
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let rounds = netloom_kit::rounds(5_000);
    let addresses = [site.machine.addresses(RX), site.machine.addresses(TX)];
    let base = site.machine.region().userspace_addr;
    for round in 0..rounds {
        for area in &addresses {
            let at = BASE + (area.desc_table_addr - base) + random() % 600;
            // Mostly plausible: small numbers, and addresses of this memory.
            let word = match random() % 4 {
                0 => random().to_le_bytes(),
                1 => (BASE + random() % 100_000).to_le_bytes(),
                _ => (random() % 300).to_le_bytes(),
            };
            let bytes = usize::try_from(random() % 8 + 1).unwrap();
            site.machine.write(at, &word[..bytes]);
        }
        let _ = site.take();
        let _ = site.give(&frame(60 + usize::try_from(random() % 2000).unwrap(), 0));
        site.port.rest();
        if round % 50 == 49 {
            // The driver is reset.
            for area in &addresses {
                site.machine.write(BASE + (area.avail_ring_addr - base), &[0; 4]);
                site.machine.write(BASE + (area.used_ring_addr - base), &[0; 4]);
            }
            site.disconnect();
            site.connect();
        }
    }
    assert!(site.port.faults().chains > 0 && site.port.faults().queues > 0);
    netloom_kit::done("scribbles", rounds);
}
