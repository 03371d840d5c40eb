//! A virtio_net_hdr and any frame: read, cut, finished, merged and named without a panic, and what was cut
//! is consistent: lengths, checksums, number of packets, identities; merged again and cut, it is the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use netloom_packet::merge::Offered;
use netloom_packet::{Headers, Merger, VnetHeader, checksum, identity, packets, segment, vnet};

/// A packet out of a super-frame is whole and right.
fn check(header: &VnetHeader, packet: &[u8]) {
    let view = Headers::parse(packet).expect("a packet that was cut can be read");
    let ip = view.ip.expect("only IP is cut");
    assert!(ip.payload.is_some() && ip.fragment.is_none() && ip.end == packet.len());
    let mut finished = packet.to_vec();
    checksum::finish(header, &mut finished).expect("its checksum can be finished");
    assert!(checksum::verifies(&finished, view.network, &ip));
    assert_eq!(identity(packet), identity(&finished));
}

/// Packets with their headers, merged as far as they can be, and cut again.
fn merged_and_cut(sent: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let (mut merger, mut got) = (Merger::new(), vec![]);
    let mut cut = |whole: &[u8]| {
        let (header, frame) = whole.split_at(vnet::LEN);
        let header = VnetHeader::parse(header).expect("a header");
        let out = &mut |one: &VnetHeader, packet: &[u8]| {
            let mut packet = packet.to_vec();
            if header.is_super() {
                checksum::finish(one, &mut packet).expect("its checksum can be finished");
            }
            let one = if header.is_super() { VnetHeader::default() } else { *one };
            got.push([&one.encode()[..], &packet].concat());
        };
        segment(&header, frame, out).expect("what was merged can be cut");
    };
    for whole in sent {
        let mut offered = merger.offer(whole);
        if offered == Offered::Apart {
            cut(merger.held().expect("something to be apart from"));
            merger.clear();
            offered = merger.offer(whole);
        }
        match offered {
            Offered::Kept => {}
            Offered::Alone => cut(whole),
            Offered::Apart => panic!("apart from nothing"),
        }
    }
    merger.held().map(&mut cut);
    got
}

fuzz_target!(|bytes: &[u8]| {
    let frame = bytes.get(vnet::LEN..).unwrap_or(&[]);
    identity(frame);
    if let Ok(Headers { network, ip: Some(ip), .. }) = Headers::parse(frame) {
        assert!(network < ip.transport && ip.transport <= ip.end && ip.end <= frame.len());
        assert!(ip.payload.is_none_or(|at| ip.transport < at && at <= ip.end));
        checksum::verifies(frame, network, &ip);
    }
    let Ok(header) = VnetHeader::parse(bytes) else { return };
    assert_eq!(VnetHeader::parse(&header.encode()), Ok(header));
    let (mut count, mut cut) = (0, vec![]);
    let done = segment(&header, frame, &mut |one, packet| {
        count += 1;
        if header.is_super() {
            check(one, packet);
            let mut packet = packet.to_vec();
            checksum::finish(one, &mut packet).expect("its checksum can be finished");
            cut.push([&VnetHeader::default().encode()[..], &packet].concat());
        }
    });
    assert_eq!(done.unwrap_or(0), count);
    assert_eq!(packets(&header, frame), count.max(1));
    assert_eq!(merged_and_cut(&cut), cut);
    let mut merger = Merger::new();
    merger.offer(bytes);
    merger.offer(bytes);
    let _ = checksum::finish(&header, &mut frame.to_vec());
});
