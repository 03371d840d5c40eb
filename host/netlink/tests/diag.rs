//! Sockets of fresh namespaces as they are listed and counted.

use super::fresh;

use std::net::{TcpListener, TcpStream, UdpSocket};

use fresh::with_netns;
use netloom_netlink::diag::{self, Counts, Protocol, State};
use netloom_netlink::{Batch, Change, Socket};
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto};

fn loopback_up() {
    let mut batch = Batch::new();
    batch.push("lo", &Change::of(1).up());
    Socket::open().unwrap().run(&mut batch).unwrap();
}

#[test]
fn sockets_of_a_namespace_are_listed_with_their_addresses() {
    with_netns(&sockets_of_a_namespace_are_listed_with_their_addresses, |[here, other]| {
        let listener = other.run(|| {
            loopback_up();
            TcpListener::bind("127.0.0.1:80").unwrap()
        });
        here.run(|| {
            loopback_up();
            assert_eq!(diag::sockets().unwrap(), []);
            let server = TcpListener::bind("127.0.0.1:0").unwrap();
            let client = TcpStream::connect(server.local_addr().unwrap()).unwrap();
            let _accepted = server.accept().unwrap();
            let udp = UdpSocket::bind("[::1]:0").unwrap();
            let raw = (AddressFamily::INET, SocketType::RAW, Some(ipproto::ICMP));
            let packet = (AddressFamily::PACKET, SocketType::RAW, None);
            let _kept = [raw, packet].map(|(family, kind, protocol)| {
                rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, protocol).unwrap()
            });
            let found = diag::sockets().unwrap();
            assert_eq!(Counts::of(&found), Counts { tcp: 3, udp: 1, raw: 1, packet: 1 });
            assert!(diag::in_use().unwrap() >= 6);
            let by = |local| found.iter().find(|s| s.local == Some(local)).unwrap();
            let of_client = by(client.local_addr().unwrap());
            assert_eq!(of_client.remote, Some(server.local_addr().unwrap()));
            assert_eq!(of_client.state, State::Established);
            let listens = |s: &&diag::SocketInfo| s.state == State::Listen;
            let of_server = found.iter().find(listens).unwrap();
            assert_eq!((of_server.local, of_server.remote), (server.local_addr().ok(), None));
            let of_udp = by(udp.local_addr().unwrap());
            assert_eq!((of_udp.protocol, of_udp.remote), (Protocol::Udp, None));
            let link = std::fs::read_link(format!("/proc/self/fd/{}", {
                use std::os::fd::AsRawFd;
                udp.as_raw_fd()
            }));
            assert_eq!(link.unwrap().to_str().unwrap(), format!("socket:[{}]", of_udp.inode));
        });
        drop(listener);
    });
}

#[test]
fn hundreds_of_sockets_are_counted_whole() {
    with_netns(&hundreds_of_sockets_are_counted_whole, |[here]| {
        here.run(|| {
            loopback_up();
            let all: Vec<_> = (0..500).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
            assert_eq!(Counts::of(&diag::sockets().unwrap()).udp, all.len());
        });
    });
}
