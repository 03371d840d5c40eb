//! All-pairs ping between real namespaces on a bridge or around a router.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Command;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use netloom_kit::skip;
use netloom_netlink::{
    Address, Batch, BridgeSpec, Change, EndSpec, Found, Lookup, Neighbour, Route, Socket, VethSpec,
};
use netloom_node::ping::{Pace, Prober, Version, all_pairs, one_pair};
use netloom_sys::namespace;

/// Longest that what must come is waited for.
const LONG: Duration = Duration::from_secs(30);

/// Namespaces that go with this value; the first is the middle of a star.
struct Star {
    spaces: Vec<OwnedFd>,
    routed: bool,
}

/// A fresh namespace, with no wait for duplicate IPv6 addresses.
fn new_space() -> Result<OwnedFd, netloom_sys::Error> {
    let make = || {
        namespace::new_network()?;
        for name in ["all", "default"] {
            let path = format!("/proc/sys/net/ipv6/conf/{name}/accept_dad");
            std::fs::write(&path, "0").map_err(|e| netloom_sys::Failure::path(path, "write", e))?;
        }
        namespace::current_network()
    };
    std::thread::spawn(make).join().expect("the thread ends well")
}

fn inside(space: BorrowedFd<'_>, work: impl FnOnce(&mut Socket, &mut Batch) + Send) {
    namespace::run_in(space, "test", || {
        let mut socket = Socket::open().expect("open netlink socket");
        let mut batch = Batch::new();
        work(&mut socket, &mut batch);
        socket.run(&mut batch).expect("all changes are made");
        Ok::<(), netloom_sys::Error>(())
    })
    .expect("enter the namespace");
}

fn v4(node: usize, host: u8) -> IpAddr {
    let [.., high, low] = u32::try_from(node).expect("few nodes").to_be_bytes();
    Ipv4Addr::new(10, high, low, host).into()
}

fn v6(node: usize, host: u16) -> IpAddr {
    let node = u16::try_from(node).expect("few nodes");
    Ipv6Addr::new(0xfd00, 0, 0, node, 0, 0, 0, host).into()
}

fn mac(node: usize, side: u8) -> [u8; 6] {
    let [.., high, low] = u32::try_from(node).expect("few nodes").to_be_bytes();
    [2, 0, 0, side, high, low]
}

impl Star {
    /// `Err` with the reason when namespaces cannot be made here.
    fn new(nodes: usize, routed: bool) -> Result<Star, String> {
        let spaces: Result<Vec<OwnedFd>, _> = (0..=nodes).map(|_| new_space()).collect();
        let star = Star { spaces: spaces.map_err(|e| e.to_string())?, routed };
        star.connect_all();
        Ok(star)
    }

    fn node(&self, node: usize) -> BorrowedFd<'_> {
        self.spaces[node + 1].as_fd()
    }

    /// Where a node is: one prefix for all on the bridge, one each around the router.
    fn address(&self, node: usize, version: Version) -> IpAddr {
        match (version, self.routed) {
            (Version::V4, true) => v4(node, 2),
            (Version::V6, true) => v6(node, 2),
            (Version::V4, false) => v4(0, u8::try_from(node + 1).expect("few nodes")),
            (Version::V6, false) => v6(0, u16::try_from(node + 1).expect("few nodes")),
        }
    }

    fn connect_all(&self) {
        const BRIDGE: u32 = 1_000_000;
        let middle = self.spaces[0].as_fd();
        let nodes = self.spaces.len() - 1;
        inside(middle, |_, batch| {
            if self.routed {
                for path in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
                    std::fs::write(format!("/proc/sys/net/{path}"), "1").expect("forward");
                }
            } else {
                let bridge = BridgeSpec { index: Some(BRIDGE), ..BridgeSpec::new("br") };
                batch.push("br", &bridge);
            }
            for node in 0..nodes {
                let port = u32::try_from(node).expect("few nodes") + 10;
                let name = format!("p{node}");
                let near =
                    EndSpec { index: Some(port), mac: Some(mac(node, 1)), ..EndSpec::new(&name) };
                let (space, mac) = (Some(self.node(node)), Some(mac(node, 2)));
                let far = EndSpec { netns: space, mac, ..EndSpec::new("eth0") };
                let master = (!self.routed).then_some(BRIDGE);
                let pair = VethSpec { a_up: true, a_master: master, ..VethSpec::new(near, far) };
                batch.push(name.as_str(), &pair);
                if self.routed {
                    for (address, length) in [(v4(node, 1), 24), (v6(node, 1), 64)] {
                        let address = IpNet::new(address, length).expect("a prefix");
                        batch.push(name.as_str(), &Address::new(port, address));
                        let node = self.address(
                            node,
                            if address.addr().is_ipv4() { Version::V4 } else { Version::V6 },
                        );
                        // Of many neighbours the kernel would forget some: gc_thresh3.
                        let mac = mac.expect("given above");
                        batch.push(name.as_str(), &Neighbour { link: port, address: node, mac });
                    }
                }
            }
        });
        for node in 0..nodes {
            inside(self.node(node), |socket, batch| self.configure(node, socket, batch));
        }
        // The kernel's work queues are done: the ports send, and addresses of IPv6 are answered for.
        let ports = u32::try_from(nodes).expect("few nodes");
        inside(middle, |_, _| (10..10 + ports).for_each(netloom_kit::wait_for_carrier));
        for node in 0..nodes {
            inside(self.node(node), |socket, _| {
                for version in [Version::V4, Version::V6] {
                    let lookup = Lookup { to: self.address(node, version), forwarded: None };
                    netloom_kit::wait_until("an address of its own", LONG, || {
                        let found = socket.route_to(&lookup).expect("a look");
                        (found == Some(Found::Here)).then_some(())
                    });
                }
            });
        }
    }

    fn configure(&self, node: usize, socket: &mut Socket, batch: &mut Batch) {
        let link = socket.index_of("eth0").expect("the link is there");
        batch.push("eth0", &Change::of(link).up());
        for (version, length) in [(Version::V4, 24), (Version::V6, 64)] {
            let address = IpNet::new(self.address(node, version), length).expect("a prefix");
            batch.push("eth0", &Address::new(link, address));
        }
        if self.routed {
            for (all, via) in [("0.0.0.0/0", v4(node, 1)), ("::/0", v6(node, 1))] {
                let all = all.parse().expect("a prefix");
                batch.push("router", &Neighbour { link, address: via, mac: mac(node, 1) });
                batch.push("default route", &Route::new(all, Some(via), link));
            }
        }
    }

    fn probers(&self, version: Version) -> Vec<Prober<'_>> {
        let prober = |node| Prober {
            name: "n",
            netns: self.node(node),
            address: Some(self.address(node, version)),
        };
        (0..self.spaces.len() - 1).map(prober).collect()
    }
}

fn answered(table: &[Vec<Option<u32>>]) -> Vec<Vec<bool>> {
    table.iter().map(|row| row.iter().map(Option::is_some).collect()).collect()
}

/// Who should answer when these nodes are silent.
fn expected(nodes: usize, silent: &[usize]) -> Vec<Vec<bool>> {
    let both = |a: usize, b: usize| a != b && !silent.contains(&a) && !silent.contains(&b);
    (0..nodes).map(|a| (0..nodes).map(|b| both(a, b)).collect()).collect()
}

#[test]
fn three_on_a_bridge_answer_until_one_is_down() {
    let star = match Star::new(3, false) {
        Ok(star) => star,
        Err(reason) => skip!("root-only: makes network namespaces: {reason}"),
    };
    for version in [Version::V4, Version::V6] {
        let table = all_pairs(&star.probers(version), version, LONG).unwrap();
        assert_eq!(answered(&table), expected(3, &[]), "{version:?}: {table:?}");
    }
    inside(star.node(1), |_, batch| batch.push("eth0", &Change::of("eth0").down()));
    for version in [Version::V4, Version::V6] {
        // Those who live answer within it on a busy machine, too.
        let timeout = Duration::from_secs(5);
        let start = Instant::now();
        let table = all_pairs(&star.probers(version), version, timeout).unwrap();
        assert_eq!(answered(&table), expected(3, &[1]), "{version:?}: {table:?}");
        assert!(start.elapsed() >= timeout, "the others had their time to reach it");
    }
}

#[test]
fn a_node_without_address_takes_no_part() {
    let star = match Star::new(3, false) {
        Ok(star) => star,
        Err(reason) => skip!("root-only: makes network namespaces: {reason}"),
    };
    let mut probers = star.probers(Version::V4);
    probers[0].address = None;
    probers[1].address = Some(v6(0, 2));
    let ask = |probers: &[Prober<'_>]| all_pairs(probers, Version::V4, Duration::from_secs(5));
    assert_eq!(answered(&ask(&probers).unwrap()), expected(3, &[0, 1]));
    assert_eq!(ask(&[]).unwrap(), Vec::<Vec<_>>::new());
    assert_eq!(ask(&probers[..1]).unwrap(), [[None]]);
}

#[test]
fn an_answer_from_elsewhere_does_not_count() {
    let star = match Star::new(2, false) {
        Ok(star) => star,
        Err(reason) => skip!("root-only: makes network namespaces: {reason}"),
    };
    let mut probers = star.probers(Version::V4);
    let table = all_pairs(&probers, Version::V4, LONG).unwrap();
    assert_eq!(answered(&table), expected(2, &[]), "the bridge forwards");
    // Nobody has this one: node 0 asks, nobody answers; node 1 still asks node 0 and is answered.
    probers[1].address = Some(v4(0, 77));
    let table = all_pairs(&probers, Version::V4, Duration::from_secs(5)).unwrap();
    assert_eq!(answered(&table), [[false, false], [true, false]]);
}

#[test]
fn thirty_around_a_router_all_answer() {
    let star = match Star::new(30, true) {
        Ok(star) => star,
        Err(reason) => skip!("root-only: makes network namespaces: {reason}"),
    };
    for version in [Version::V4, Version::V6] {
        let table = all_pairs(&star.probers(version), version, LONG).unwrap();
        assert_eq!(answered(&table), expected(30, &[]), "{version:?}");
    }
}

#[test]
fn a_descriptor_that_is_no_namespace_is_refused_by_name() {
    let file = tempfile::tempfile().unwrap();
    let prober =
        Prober { name: "web", netns: file.as_fd(), address: Some(Ipv4Addr::LOCALHOST.into()) };
    let error = all_pairs(&[prober], Version::V4, Duration::from_secs(1)).unwrap_err();
    assert!(error.to_string().starts_with("node \"web\": "), "{error}");
}

#[test]
fn a_request_that_the_nodes_own_network_refuses_counts_as_unanswered() {
    let star = match Star::new(2, false) {
        Ok(star) => star,
        Err(reason) => skip!("root-only: makes network namespaces: {reason}"),
    };
    let pace = Pace { count: 2, interval: Duration::ZERO, timeout: Duration::from_millis(1) };
    for version in [Version::V4, Version::V6] {
        let prober = &star.probers(version)[0];
        let to = star.address(1, version);
        for kind in ["blackhole", "prohibit", "unreachable"] {
            let mut ip = Command::new("ip");
            ip.args(["route", "replace", kind, &to.to_string()]);
            namespace::run_in(prober.netns, "test", || {
                let done = ip.status().expect("iproute2 is there");
                assert!(done.success());
                Ok::<(), netloom_sys::Error>(())
            })
            .expect("enter the namespace");
            let times = one_pair(prober, to, version, pace).unwrap();
            assert_eq!(times, [None, None], "{kind}");
        }
    }
}
