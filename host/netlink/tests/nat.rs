//! NAT and forwarding limits, with packets: inside and other stations, a host, the world outside.
//!
//! That a packet was dropped shows by a later one arriving first on the same way.

use super::fresh;

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use fresh::{NetNs, with_netns};
use ipnet::IpNet;
use netloom_netlink::nat::{self, NatSpec};
use netloom_netlink::{
    Address, Batch, BridgeSpec, Change, EndSpec, Found, Lookup, Route, Socket, VethSpec,
};
use netloom_packet::checksum;

const STATIONS: [(&str, [&str; 2], [&str; 2]); 3] = [
    ("in0", ["10.50.0.1/24", "fd50::1/64"], ["10.50.0.2/24", "fd50::2/64"]),
    ("out0", ["192.0.2.1/24", "fd99::1/64"], ["192.0.2.2/24", "fd99::2/64"]),
    ("other0", ["10.60.0.1/24", "fd60::1/64"], ["10.60.0.2/24", "fd60::2/64"]),
];

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn address(text: &str) -> IpAddr {
    net(text).addr()
}

fn sysctl(name: &str, value: &str) {
    std::fs::write(format!("/proc/sys/net/{name}"), value).unwrap();
}

/// Without it a link-local address is not ready for a second, nor what is asked from it.
fn no_waiting_for_duplicates() {
    sysctl("ipv6/conf/all/accept_dad", "0");
    sysctl("ipv6/conf/default/accept_dad", "0");
}

/// A host that forwards between three stations, each with a default route to it.
fn lay_out(host: &NetNs, stations: [&NetNs; 3]) {
    stations.iter().for_each(|station| station.run(no_waiting_for_duplicates));
    host.run(|| {
        no_waiting_for_duplicates();
        sysctl("ipv4/ip_forward", "1");
        sysctl("ipv6/conf/all/forwarding", "1");
        let mut batch = Batch::new();
        for (index, ((name, own, _), station)) in (10..).zip(STATIONS.iter().zip(stations)) {
            let a = EndSpec { index: Some(index), ..EndSpec::new(name) };
            let b = EndSpec { netns: Some(station.fd()), index: Some(2), ..EndSpec::new("eth0") };
            batch.push(*name, &VethSpec { a_up: true, ..VethSpec::new(a, b) });
            own.iter().for_each(|own| batch.push(*own, &Address::new(index, net(own))));
        }
        Socket::open().unwrap().run(&mut batch).unwrap();
    });
    for ((_, routers, own), station) in STATIONS.iter().zip(stations) {
        station.run(|| {
            let mut batch = Batch::new();
            batch.push("eth0", &Change::of(2).up());
            for (own, router) in own.iter().zip(routers) {
                batch.push(*own, &Address::new(2, net(own)));
                let default = if address(own).is_ipv4() { "0.0.0.0/0" } else { "::/0" };
                batch.push(default, &Route::new(net(default), Some(address(router)), 2));
            }
            Socket::open().unwrap().run(&mut batch).unwrap();
        });
    }
    // The kernel's work queues are done: a packet that found no neighbour three times is lost.
    host.run(|| (10..13).for_each(netloom_kit::wait_for_carrier));
    for ((_, routers, own), station) in STATIONS.iter().zip(stations) {
        host.run(|| routers.iter().for_each(|own| wait_for_address(own)));
        station.run(|| own.iter().for_each(|own| wait_for_address(own)));
    }
}

/// Waits until packets to an address of this namespace are received here: those of IPv6 have their route, and are
/// answered for, by a work queue.
fn wait_for_address(own: &str) {
    let mut socket = Socket::open().unwrap();
    let lookup = Lookup { to: address(own), forwarded: None };
    netloom_kit::wait_until("an address of its own", Duration::from_secs(30), || {
        (socket.route_to(&lookup).unwrap() == Some(Found::Here)).then_some(())
    });
}

/// From here on this thread sends by one CPU: each has a queue of its own for what comes in, and two of them no order.
fn stay_on_this_cpu() {
    let mut one = rustix::thread::CpuSet::new();
    one.set(rustix::thread::sched_getcpu());
    rustix::thread::sched_setaffinity(None, &one).unwrap();
}

fn socket(station: &NetNs, of: usize, version: usize) -> UdpSocket {
    let own = address(STATIONS[of].2[version]);
    let socket = station.run(|| UdpSocket::bind((own, 0)).unwrap());
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    socket
}

fn send(from: &UdpSocket, text: &str, to: SocketAddr) {
    from.send_to(text.as_bytes(), to).unwrap();
}

/// Sends what the host is to stop, and waits until it has come to the host: what is sent after it on the same CPU
/// is there.
fn send_in_vain(host: &NetNs, of: usize, from: &UdpSocket, text: &str, to: SocketAddr) {
    stay_on_this_cpu();
    let router = address(STATIONS[of].1[usize::from(to.is_ipv6())]);
    let at = host.run(|| UdpSocket::bind((router, 0)).unwrap());
    at.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mark = |mark: &str| {
        send(from, mark, at.local_addr().unwrap());
        assert_eq!(receive(&at).0, mark);
    };
    // The neighbours know each other then, so that nothing is kept for later.
    mark("before");
    send(from, text, to);
    mark("after");
}

fn receive(at: &UdpSocket) -> (String, SocketAddr) {
    let mut buffer = [0; 64];
    let (length, from) = at.recv_from(&mut buffer).expect("a packet");
    (String::from_utf8_lossy(&buffer[..length]).into_owned(), from)
}

fn spec(block_other_forwarding: bool, prefixes: &[IpNet]) -> NatSpec<'_> {
    let inside = &["in0"];
    let siblings = "";
    NatSpec {
        table: "netloom-test",
        inside,
        uplink: None,
        prefixes,
        block_other_forwarding,
        bridges: "door",
        siblings,
        hold_repeated: false,
    }
}

#[test]
fn the_inside_reaches_out_and_only_answers_come_back() {
    with_netns(
        &the_inside_reaches_out_and_only_answers_come_back,
        |[host, inside, outside, other]| {
            lay_out(&host, [&inside, &outside, &other]);
            let prefixes = [net("10.50.0.0/16"), net("fd50::/48")];
            host.run(|| nat::install(&spec(false, &prefixes)).unwrap());
            for version in [0, 1] {
                let station = socket(&inside, 0, version);
                let server = socket(&outside, 1, version);
                let intruder = socket(&outside, 1, version);

                send(&station, "request", server.local_addr().unwrap());
                let (text, from) = receive(&server);
                assert_eq!((&*text, from.ip()), ("request", address(STATIONS[1].1[version])));

                send_in_vain(&host, 1, &intruder, "unasked", station.local_addr().unwrap());
                send(&server, "answer", from);
                let (text, from) = receive(&station);
                assert_eq!((&*text, from), ("answer", server.local_addr().unwrap()));
            }
        },
    );
}

#[test]
fn sources_outside_the_prefixes_do_not_leave() {
    with_netns(&sources_outside_the_prefixes_do_not_leave, |[host, inside, outside, other]| {
        lay_out(&host, [&inside, &outside, &other]);
        let (station, server) = (socket(&inside, 0, 0), socket(&outside, 1, 0));
        let to = server.local_addr().unwrap();
        host.run(|| nat::install(&spec(false, &[net("10.51.0.0/16")])).unwrap());
        send_in_vain(&host, 0, &station, "foreign", to);
        host.run(|| nat::install(&spec(false, &[net("10.50.0.0/16")])).unwrap());
        send(&station, "own", to);
        assert_eq!(receive(&server).0, "own");
    });
}

#[test]
fn other_forwarding_is_blocked_only_when_asked() {
    with_netns(&other_forwarding_is_blocked_only_when_asked, |[host, inside, outside, other]| {
        lay_out(&host, [&inside, &outside, &other]);
        let prefixes = [net("10.50.0.0/16"), net("fd50::/48")];
        for version in [0, 1] {
            let (from, at) = (socket(&outside, 1, version), socket(&other, 2, version));
            let to = at.local_addr().unwrap();
            host.run(|| nat::install(&spec(true, &prefixes)).unwrap());
            send_in_vain(&host, 1, &from, "blocked", to);
            host.run(|| nat::install(&spec(false, &prefixes)).unwrap());
            send(&from, "beside the lab", to);
            assert_eq!(receive(&at), ("beside the lab".into(), from.local_addr().unwrap()));

            host.run(|| nat::install(&spec(true, &prefixes)).unwrap());
            let station = socket(&inside, 0, version);
            send(&station, "with block", from.local_addr().unwrap());
            let (text, back) = receive(&from);
            assert_eq!(text, "with block");
            send(&from, "answer", back);
            assert_eq!(receive(&station).0, "answer");
        }
    });
}

#[test]
fn bridges_of_the_host_go_on_when_other_forwarding_is_blocked() {
    with_netns(&bridges_of_the_host_go_on_when_other_forwarding_is_blocked, |[host, one, two]| {
        host.run(|| {
            // The state in which the frames of bridges are shown to the forward hook.
            let hook = "/proc/sys/net/bridge/bridge-nf-call-iptables";
            if std::path::Path::new(hook).exists() {
                std::fs::write(hook, "1").unwrap();
            }
            let mut batch = Batch::new();
            batch.push("br7", &BridgeSpec { index: Some(7), ..BridgeSpec::new("br7") });
            for (index, name, station) in [(8, "p1", &one), (9, "p2", &two)] {
                let a = EndSpec { index: Some(index), ..EndSpec::new(name) };
                let b =
                    EndSpec { netns: Some(station.fd()), index: Some(2), ..EndSpec::new("eth0") };
                let pair = VethSpec { a_up: true, a_master: Some(7), ..VethSpec::new(a, b) };
                batch.push(name, &pair);
            }
            Socket::open().unwrap().run(&mut batch).unwrap();
            nat::install(&spec(true, &[net("10.50.0.0/16")])).unwrap();
        });
        for (station, own) in [(&one, "10.7.0.1/24"), (&two, "10.7.0.2/24")] {
            station.run(|| {
                let mut batch = Batch::new();
                batch.push("eth0", &Change::of(2).up());
                batch.push(own, &Address::new(2, net(own)));
                Socket::open().unwrap().run(&mut batch).unwrap();
            });
        }
        // A port forwards from when the kernel has noticed its carrier.
        host.run(|| [8, 9].into_iter().for_each(netloom_kit::wait_for_carrier));
        let from = one.run(|| UdpSocket::bind("10.7.0.1:0").unwrap());
        let at = two.run(|| UdpSocket::bind("10.7.0.2:0").unwrap());
        at.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        send(&from, "bridged", at.local_addr().unwrap());
        assert_eq!(receive(&at).0, "bridged");
    });
}

#[test]
fn a_named_uplink_is_the_only_way_out() {
    with_netns(&a_named_uplink_is_the_only_way_out, |[host, inside, outside, other]| {
        lay_out(&host, [&inside, &outside, &other]);
        let prefixes = [net("10.50.0.0/16")];
        let (station, server) = (socket(&inside, 0, 0), socket(&outside, 1, 0));
        let to = server.local_addr().unwrap();
        for (uplink, text) in [("other0", "wrong way"), ("out0", "right way")] {
            let spec = NatSpec { uplink: Some(uplink), ..spec(false, &prefixes) };
            host.run(|| nat::install(&spec).unwrap());
            match uplink {
                "other0" => send_in_vain(&host, 0, &station, text, to),
                _ => send(&station, text, to),
            }
        }
        let (text, from) = receive(&server);
        assert_eq!((&*text, from.ip()), ("right way", address(STATIONS[1].1[0])));
    });
}

#[test]
fn tables_are_listed_and_removed() {
    with_netns(&tables_are_listed_and_removed, |[host]| {
        host.run(|| {
            assert!(nat::list().unwrap().is_empty());
            nat::remove("netloom-test").expect("nothing to remove is not a failure");
            nat::install(&spec(true, &[net("10.50.0.0/16")])).unwrap();
            nat::install(&NatSpec { table: "netloom-b", ..spec(true, &[]) }).unwrap();
            nat::install(&NatSpec { table: "someone", ..spec(true, &[]) }).unwrap();
            let mut tables = nat::list().unwrap();
            tables.sort();
            assert_eq!(tables, ["netloom-b", "netloom-test"]);
            nat::remove("netloom-test").unwrap();
            assert_eq!(nat::list().unwrap(), ["netloom-b"]);
            let long = "x".repeat(300);
            let error = nat::install(&NatSpec { table: &long, ..spec(true, &[]) }).unwrap_err();
            assert_eq!(error.refusals()[0].operation, "install", "{error}");
            assert_eq!(nat::list().unwrap(), ["netloom-b"]);
        });
    });
}

#[test]
fn a_rule_that_is_gone_is_missed_whatever_bridges_the_host_had() {
    netloom_kit::needs!("nft");
    with_netns(&a_rule_that_is_gone_is_missed_whatever_bridges_the_host_had, |[host]| {
        host.run(|| {
            let mut batch = Batch::new();
            ["br7", "br8"].into_iter().for_each(|name| batch.push(name, &BridgeSpec::new(name)));
            Socket::open().unwrap().run(&mut batch).unwrap();
            let prefixes = [net("10.50.0.0/16")];
            let spec = spec(true, &prefixes);
            nat::install(&spec).unwrap();
            assert!(nat::is_whole(&spec).unwrap());
            nft(&["flush", "chain", "inet", spec.table, "postrouting"]);
            assert!(!nat::is_whole(&spec).unwrap());
        });
    });
}

/// Runs nft(8), which is there.
fn nft(words: &[&str]) {
    let done = std::process::Command::new("nft").args(words).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn nft_reads_the_table_as_it_is_meant() {
    netloom_kit::needs!("nft");
    with_netns(&nft_reads_the_table_as_it_is_meant, |[host]| {
        host.run(|| {
            let mut batch = Batch::new();
            batch.push("br7", &BridgeSpec::new("br7"));
            Socket::open().unwrap().run(&mut batch).unwrap();
            let prefixes = [net("10.50.0.0/16"), net("fd50::/47"), net("0.0.0.0/0")];
            nat::install(&spec(true, &prefixes)).unwrap();
            let nft = std::process::Command::new("nft").args(["list", "ruleset"]).output().unwrap();
            let text = String::from_utf8(nft.stdout).unwrap();
            assert_eq!(text.split_whitespace().collect::<Vec<_>>().join(" "), NFT_LISTING);
        });
    });
}

const NFT_LISTING: &str = "table inet netloom-test { \
    chain postrouting { type nat hook postrouting priority srcnat; policy accept; \
    oifname \"door*\" accept \
    ip saddr 10.50.0.0/16 oifname != \"in0\" masquerade \
    ip6 saddr fd50::/47 oifname != \"in0\" masquerade \
    ip saddr 0.0.0.0/0 oifname != \"in0\" masquerade } \
    chain forward { type filter hook forward priority filter; policy drop; \
    iifname \"door*\" oifname \"door*\" accept \
    iifname \"in0\" oifname \"in0\" accept \
    iifname \"br7\" oifname \"br7\" accept comment \"let a bridge of the host go on\" \
    iifname \"in0\" ip saddr 10.50.0.0/16 oifname != \"in0\" accept \
    iifname \"in0\" ip6 saddr fd50::/47 oifname != \"in0\" accept \
    iifname \"in0\" ip saddr 0.0.0.0/0 oifname != \"in0\" accept \
    oifname \"in0\" ct state established,related accept \
    iifname \"in0\" drop oifname \"in0\" drop } }";

/// A request for a TCP connection, with a number in its window, from one address to another.
fn request(number: u16, from: IpAddr, to: IpAddr) -> [u8; 20] {
    let mut header = [0; 20];
    header[..4].copy_from_slice(&[0x9c, 0x40, 0x1f, 0x90]);
    header[12..14].copy_from_slice(&[0x50, 0x02]);
    header[14..16].copy_from_slice(&number.to_be_bytes());
    let sum = [from, to].into_iter().fold(0, |sum, address| match address {
        IpAddr::V4(address) => checksum::add(sum, &address.octets()),
        IpAddr::V6(address) => checksum::add(sum, &address.octets()),
    });
    let sum = checksum::add(sum, &[0, 6, 0, 20]);
    let sum = !checksum::fold(checksum::add(sum, &header));
    header[16..18].copy_from_slice(&sum.to_be_bytes());
    header
}

#[test]
fn repeated_requests_for_connections_are_held_back_twice() {
    use rustix::net::{AddressFamily, RecvFlags, SocketType, ipproto, recv, socket};
    // All frames: ETH_P_ALL of linux/if_ether.h, big-endian.
    let all = rustix::net::Protocol::from_raw(std::num::NonZero::new(3_u32.to_be() >> 16).unwrap());
    with_netns(
        &repeated_requests_for_connections_are_held_back_twice,
        |[host, inside, outside, other]| {
            lay_out(&host, [&inside, &outside, &other]);
            stay_on_this_cpu();
            let prefixes = [net("10.50.0.0/16"), net("fd50::/48")];
            // Behind the outside, which passes nothing on and answers nothing.
            let beyond = ["198.51.100.9/24", "2001:db8::9/64"];
            host.run(|| {
                let mut batch = Batch::new();
                for (to, outside) in beyond.iter().zip(STATIONS[1].2) {
                    batch.push(*to, &Route::new(net(to).trunc(), Some(address(outside)), 11));
                }
                Socket::open().unwrap().run(&mut batch).unwrap();
            });
            for (version, family) in
                [AddressFamily::INET, AddressFamily::INET6].into_iter().enumerate()
            {
                let (from, to) = (address(STATIONS[0].2[version]), address(beyond[version]));
                let seen = outside
                    .run(|| socket(AddressFamily::PACKET, SocketType::DGRAM, Some(all)).unwrap());
                let raw =
                    inside.run(|| socket(family, SocketType::RAW, Some(ipproto::TCP)).unwrap());
                for (hold_repeated, expected) in [(true, vec![1, 4, 5]), (false, vec![6, 7])] {
                    let spec = NatSpec { hold_repeated, ..spec(false, &prefixes) };
                    host.run(|| nat::install(&spec).unwrap());
                    let numbers = if hold_repeated { 1..=5 } else { 6..=7 };
                    for number in numbers {
                        let packet = request(number, from, to);
                        rustix::net::sendto(
                            &raw,
                            &packet,
                            rustix::net::SendFlags::empty(),
                            &SocketAddr::new(to, 0),
                        )
                        .unwrap();
                    }
                    let mut come = Vec::new();
                    while come.last() != expected.last() {
                        let mut packet = [0; 128];
                        let (length, _) = recv(&seen, &mut packet, RecvFlags::empty()).unwrap();
                        let header = if version == 0 { 20 } else { 40 };
                        // Ports and flags: not what neighbours ask each other.
                        if length == header + 20 && packet[header + 2..header + 4] == [0x1f, 0x90] {
                            let window = &packet[header + 14..header + 16];
                            come.push(u16::from_be_bytes([window[0], window[1]]));
                        }
                    }
                    assert_eq!(come, expected, "{family:?}");
                }
            }
        },
    );
}
