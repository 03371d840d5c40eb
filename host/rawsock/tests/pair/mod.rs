//! A veth pair in the test's own network namespace, changed and taken away by netlink.

#![allow(dead_code, reason = "each test binary uses a part")]

use netloom_kit::wait_for_carrier;
use netloom_netlink::{Batch, Change, DeleteLink, EndSpec, Request, Socket, VethSpec};

pub(crate) const A: u32 = 77;
pub(crate) const B: u32 = 78;

/// Makes it, up. It carries nothing of its own accord: no IPv6, so no neighbour discovery.
pub(crate) fn pair() {
    std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").unwrap();
    let end = |name, index| EndSpec { index: Some(index), ..EndSpec::new(name) };
    change(&VethSpec::new(end("a", A), end("b", B)));
    change(&Change::of(A).up());
    change(&Change::of(B).up());
    wait_for_carrier(A);
}

pub(crate) fn change(request: &impl Request) {
    let mut batch = Batch::new();
    batch.push("pair", request);
    Socket::open().unwrap().run(&mut batch).unwrap();
}

pub(crate) fn delete() {
    change(&DeleteLink::new(A));
}

/// A frame of IEEE 802's number for local experiments, so that no protocol answers, with a number in it.
pub(crate) fn frame(length: usize, number: u32) -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend([2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
    frame.extend(number.to_be_bytes());
    frame.resize(length, u8::try_from(number % 251).unwrap());
    frame
}
