//! Waiting for interfaces: frames sent by one that is up are lost until its peer is up, too.

use std::time::Duration;

use netloom_netlink::Socket;

use crate::wait_until;

/// Waits until frames sent by the interface `index` of the calling thread's network namespace go out.
#[track_caller]
pub fn wait_for_carrier(index: u32) {
    let mut socket = Socket::open().expect("a netlink socket");
    wait_until("carrier", Duration::from_secs(30), || {
        let link = socket.link(index).expect("a look at the interface").expect("the interface");
        link.carries().then_some(())
    });
}
