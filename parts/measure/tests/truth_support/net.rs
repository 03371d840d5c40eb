//! Three namespaces in a line, with a bridge in the middle or with nothing there that forwards.

use std::fs::File;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::thread;

use ipnet::IpNet;
use netloom_netlink::{Address, Batch, BridgeSpec, Change, EndSpec, Neighbour, Socket, VethSpec};
use netloom_sys::namespace;

/// The sender's interface.
pub(crate) const A: u32 = 2;
/// The middle's on the sender's side.
pub(crate) const LEFT: u32 = 3;
/// The middle's on the receiver's side.
pub(crate) const RIGHT: u32 = 4;
/// The receiver's.
pub(crate) const B: u32 = 5;
const BRIDGE: u32 = 9;

/// Addresses of sender and receiver.
pub(crate) const V4: [&str; 2] = ["10.9.0.1", "10.9.0.2"];
/// Those of IPv6.
pub(crate) const V6: [&str; 2] = ["fd09::1", "fd09::2"];

/// A network namespace that goes with this value.
#[derive(Debug)]
pub(crate) struct NetNs(File);

impl NetNs {
    /// A fresh one in which nothing sends of its own.
    fn create() -> NetNs {
        NetNs(on_thread(|| {
            namespace::new_network().unwrap();
            for (name, value) in [("addr_gen_mode", "1"), ("router_solicitations", "0")] {
                std::fs::write(format!("/proc/sys/net/ipv6/conf/default/{name}"), value).unwrap();
            }
            File::open("/proc/thread-self/ns/net").unwrap()
        }))
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

    /// Does what `fill` puts into a batch.
    pub(crate) fn change(&self, fill: impl FnOnce(&mut Batch) + Send) {
        self.run(|| {
            let mut batch = Batch::new();
            fill(&mut batch);
            Socket::open().unwrap().run(&mut batch).unwrap();
        });
    }

    fn end(&self, index: u32, addresses: [&str; 2], others: [&str; 2], other: u32) {
        self.change(|batch| {
            for (address, length) in addresses.into_iter().zip([24, 64]) {
                let net = IpNet::new(address.parse().unwrap(), length).unwrap();
                batch.push("address", &Address::new(index, net));
            }
            for address in others {
                let address: IpAddr = address.parse().unwrap();
                batch.push("neighbour", &Neighbour { link: index, address, mac: mac(other) });
            }
        });
    }

    /// A number that the kernel counts in this namespace: `kind` and `name` as in /proc/net/snmp.
    pub(crate) fn counted(&self, kind: &str, name: &str) -> u64 {
        let text = self.run(|| std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap());
        let mut lines = text.lines().filter_map(|line| line.strip_prefix(kind)?.strip_prefix(": "));
        let names = lines.next().unwrap().split(' ');
        let found = names.zip(lines.next().unwrap().split(' ')).find(|(n, _)| *n == name);
        found.unwrap().1.parse().unwrap()
    }
}

/// The MAC of the interface with this index.
pub(crate) fn mac(index: u32) -> [u8; 6] {
    [2, 0, 0, 0, 0, u8::try_from(index).unwrap()]
}

pub(crate) fn on_thread<T: Send>(body: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(body).join()).unwrap_or_else(|panic| {
        std::panic::resume_unwind(panic);
    })
}

/// A sender, a middle and a receiver.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) a: NetNs,
    pub(crate) middle: NetNs,
    pub(crate) b: NetNs,
}

impl Line {
    /// With nothing in the middle that forwards.
    pub(crate) fn open() -> Line {
        let [a, middle, b] = [(); 3].map(|()| NetNs::create());
        pair([&a, &middle], [A, LEFT]);
        pair([&middle, &b], [RIGHT, B]);
        a.end(A, [V4[0], V6[0]], [V4[1], V6[1]], B);
        b.end(B, [V4[1], V6[1]], [V4[0], V6[0]], A);
        Line { a, middle, b }
    }

    /// With a bridge.
    pub(crate) fn bridged() -> Line {
        let line = Line::open();
        line.middle.change(|batch| {
            let bridge = BridgeSpec { index: Some(BRIDGE), up: true, ..BridgeSpec::new("bridge") };
            batch.push("bridge", &bridge);
            for index in [LEFT, RIGHT] {
                batch.push("port", &Change::of(index).enslave(BRIDGE));
            }
        });
        line.middle.run(|| netloom_kit::wait_for_carrier(BRIDGE));
        line
    }
}

fn pair(spaces: [&NetNs; 2], indices: [u32; 2]) {
    let names = indices.map(|index| format!("eth{index}"));
    let spec = |end: usize| EndSpec {
        netns: Some(spaces[end].fd()),
        index: Some(indices[end]),
        mac: Some(mac(indices[end])),
        ..EndSpec::new(names[end].as_str())
    };
    spaces[0].change(|batch| batch.push("pair", &VethSpec::new(spec(0), spec(1))));
    for (space, index) in spaces.into_iter().zip(indices) {
        space.change(|batch| {
            batch.push("lo", &Change::of(1).up());
            batch.push("up", &Change::of(index).up());
        });
    }
    for (space, index) in spaces.into_iter().zip(indices) {
        space.run(|| netloom_kit::wait_for_carrier(index));
    }
}
