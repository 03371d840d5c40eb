//! Taps that nobody sees: a process of the lab reads and writes frames there that programs lead to them.

use std::os::fd::OwnedFd;

use netloom_netlink::{Batch, Change, Socket};
use netloom_port::{Tap, TapOptions};

use crate::{Error, Result};

/// A tap accepts super-frames whatever the link's MTU: the largest MTU that the kernel permits.
const MTU: u32 = 65_521;

/// Frames that a tap holds until its process takes them. The kernel's 500 are 25 ms at 20,000 frames a second: a
/// busy machine lets a process wait for longer, and what a full tap drops is in no ledger.
const QUEUE: u32 = 10_000;

/// Makes one, up, in the network namespace of the calling thread. It goes with its descriptor.
pub(crate) fn make(name: &str, index: u32, object: &str) -> Result<OwnedFd> {
    let fd = create(name, TapOptions { index: Some(index), ..TapOptions::default() }, object)?;
    raise(&[index], object)?;
    Ok(fd)
}

/// Makes one that stays, down, or opens it; it is removed with the port that it is beside. The kernel takes some 20 ms to remove
/// one that goes with its descriptor, one after the other, and next to nothing for all that go with their network namespace.
pub(crate) fn lay(name: &str, index: u32, object: &str) -> Result<OwnedFd> {
    let options = TapOptions { index: Some(index), persistent: true, ..TapOptions::default() };
    create(name, options, object)
}

fn create(name: &str, options: TapOptions, object: &str) -> Result<OwnedFd> {
    let tap = Tap::create(name, options).map_err(Error::of(object, "make its tap"))?;
    // The namespace must not send frames of its own over it.
    let quiet = format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6");
    if std::path::Path::new(&quiet).exists() {
        std::fs::write(&quiet, "1").map_err(Error::at(&quiet, "set sysctl"))?;
    }
    Ok(tap.into_fd())
}

/// Raises taps by their indexes.
pub(crate) fn raise(indexes: &[u32], object: &str) -> Result<()> {
    let mut batch = Batch::new();
    for index in indexes {
        batch.push(object, &Change::of(*index).mtu(MTU).queue(QUEUE).up());
    }
    let mut socket = Socket::open().map_err(Error::of(object, "open a netlink socket"))?;
    socket.run(&mut batch).map_err(Error::of(object, "raise its tap"))?;
    Ok(())
}
