//! A virtio_net_hdr and any frame: read, cut, finished and named without a panic, and what was cut
//! is consistent: lengths, checksums, number of packets, identities.
#![no_main]

use libfuzzer_sys::fuzz_target;
use netloom_packet::{Headers, VnetHeader, checksum, identity, packets, segment, vnet};

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
    let mut count = 0;
    let done = segment(&header, frame, &mut |one, packet| {
        count += 1;
        if header.is_super() {
            check(one, packet);
        }
    });
    assert_eq!(done.unwrap_or(0), count);
    assert_eq!(packets(&header, frame), count.max(1));
    let _ = checksum::finish(&header, &mut frame.to_vec());
});
