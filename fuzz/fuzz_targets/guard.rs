//! Any memory of a program under guard, as addresses, messages and control messages of both widths.
#![no_main]

use std::net::{IpAddr, Ipv4Addr};

use libfuzzer_sys::fuzz_target;
use netloom_guard::address::{Address, inet6, lead_to};
use netloom_guard::layout::{Width, write_controls};

fuzz_target!(|bytes: &[u8]| {
    address(bytes);
    for width in [Width::Four, Width::Eight] {
        if let Some(header) = width.read_header(bytes) {
            assert_eq!(width.read_header(&bytes[..width.header()]), Some(header));
        }
        assert!(width.read_vectors(bytes).len() <= bytes.len() / (2 * width.bytes()));
        let Some(controls) = width.read_controls(bytes) else { continue };
        let written = write_controls(&controls);
        assert_eq!(Width::Eight.read_controls(&written), Some(controls));
    }
});

/// What leads elsewhere is read as leading there.
fn address(bytes: &[u8]) {
    let Some(read) = Address::read(bytes) else { return assert!(bytes.len() < 2) };
    let _ = inet6(bytes);
    if let Address::Ip(_, port) = read {
        let mut bytes = bytes.to_vec();
        let to = Ipv4Addr::LOCALHOST;
        lead_to(&mut bytes, to.into());
        let Some(Address::Ip(ip, same)) = Address::read(&bytes) else { panic!("{read:?}") };
        assert_eq!((ip.to_canonical(), same), (IpAddr::from(to), port));
    }
}
