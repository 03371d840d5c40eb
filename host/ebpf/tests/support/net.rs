//! Network namespaces, pairs of links between them, addresses.

use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd};
use std::thread;

use ipnet::{IpNet, Ipv4Net};
use netloom_kit::wait_for_carrier;
use netloom_netlink::{Address, Batch, BridgeSpec, Change, EndSpec, Socket, VethSpec};
use netloom_sys::namespace;

/// A network namespace that goes with this value.
#[derive(Debug)]
pub(crate) struct NetNs(File);

/// One end of a link: where, its index, its bridge.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End<'a> {
    pub(crate) space: &'a NetNs,
    pub(crate) index: u32,
}

impl NetNs {
    /// A fresh one, its `lo` up, without IPv6, which would send of its own.
    pub(crate) fn create() -> Self {
        let made = on_thread(|| {
            namespace::new_network().unwrap();
            std::fs::write("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1").unwrap();
            std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").unwrap();
            File::open("/proc/thread-self/ns/net").unwrap()
        });
        let made = Self(made);
        made.change(|batch| batch.push("lo", &Change::of(1).up()));
        made
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Runs `body` on a thread in this namespace and gives what it gives.
    pub(crate) fn run<T: Send>(&self, body: impl FnOnce() -> T + Send) -> T {
        on_thread(|| {
            namespace::enter_network(self.fd()).expect("enter the namespace");
            body()
        })
    }

    /// An end of a link in this namespace.
    pub(crate) fn end(&self, index: u32) -> End<'_> {
        End { space: self, index }
    }

    pub(crate) fn bridge(&self, index: u32) {
        let bridge = BridgeSpec { index: Some(index), ..BridgeSpec::new("bridge") };
        self.change(|batch| batch.push("bridge", &bridge));
    }

    pub(crate) fn enslave(&self, index: u32, bridge: u32) {
        self.change(|batch| batch.push("port", &Change::of(index).enslave(bridge)));
    }

    /// Gives an interface an IPv4 address of a /24.
    pub(crate) fn address(&self, index: u32, address: [u8; 4]) {
        let net = IpNet::V4(Ipv4Net::new(Ipv4Addr::from(address), 24).unwrap());
        self.change(|batch| batch.push("address", &Address::new(index, net)));
    }

    pub(crate) fn up(&self, index: u32) {
        self.change(|batch| batch.push("up", &Change::of(index).up()));
    }

    /// Does what `fill` puts into a batch.
    pub(crate) fn change(&self, fill: impl FnOnce(&mut Batch) + Send) {
        self.run(|| {
            let mut batch = Batch::new();
            fill(&mut batch);
            Socket::open().unwrap().run(&mut batch).unwrap();
        });
    }
}

/// The MAC that the tests give the interface with this index.
pub(crate) fn mac(index: u32) -> [u8; 6] {
    [2, 0, 0, 0, 0, u8::try_from(index).unwrap()]
}

impl End<'_> {
    /// Until what is sent goes out.
    fn wait(self) {
        self.space.run(|| wait_for_carrier(self.index));
    }
}

/// A pair of links, both up and carrying.
pub(crate) fn link(a: End<'_>, b: End<'_>) {
    let names = [a, b].map(|end| format!("eth{}", end.index));
    let spec = |end: End<'_>, name| EndSpec {
        index: Some(end.index),
        mac: Some(mac(end.index)),
        ..EndSpec::new(name)
    };
    let near = spec(a, names[0].as_str());
    let far = EndSpec { netns: Some(b.space.fd()), ..spec(b, names[1].as_str()) };
    a.space.change(|batch| {
        batch.push("link", &VethSpec { a_up: true, ..VethSpec::new(near, far) });
    });
    b.space.up(b.index);
    [a, b].into_iter().for_each(End::wait);
}

pub(crate) fn on_thread<T: Send>(body: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(body).join()).unwrap_or_else(|panic| {
        std::panic::resume_unwind(panic);
    })
}
