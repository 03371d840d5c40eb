//! Interfaces that move between namespaces: lost state, restored state, obstacles.

use super::fresh;

use std::net::UdpSocket;
use std::time::Duration;

use fresh::{NetNs, with_netns};
use ipnet::IpNet;
use netlink_packet_core::{NLM_F_ACK, NLM_F_CREATE, NLM_F_REQUEST, NetlinkMessage};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netloom_netlink::{
    Address, Batch, Carried, Change, EndSpec, Family, MoveLink, Route, Socket, VethSpec,
};

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn run(fill: impl FnOnce(&mut Batch)) -> netloom_netlink::Result<()> {
    let mut batch = Batch::new();
    fill(&mut batch);
    Socket::open().unwrap().run(&mut batch)
}

/// A pair, index 5 and named `eth0` at both ends, 10.0.0.1 and .2, up.
fn joined(left: &NetNs, right: &NetNs) {
    let a = EndSpec { netns: Some(left.fd()), index: Some(5), ..EndSpec::new("eth0") };
    let b = EndSpec { netns: Some(right.fd()), ..a };
    left.run(|| run(|batch| batch.push("pair", &VethSpec::new(a, b))).unwrap());
    for (space, last) in [(left, 1), (right, 2)] {
        space.run(|| {
            run(|batch| {
                batch.push("lo", &Change::of(1).up());
                batch.push("eth0", &Change::of(5).up());
                for net in [format!("10.0.0.{last}/24"), format!("fd00::{last}/64")] {
                    batch.push("address", &Address::new(5, net.parse().unwrap()));
                }
            })
            .unwrap();
        });
    }
}

/// Datagrams from one namespace arrive in the other, from when the link has its carrier: those before are lost.
fn reaches(from: &NetNs, to: &NetNs, address: &str) {
    let receiver = to.run(|| UdpSocket::bind((address, 9)).unwrap());
    receiver.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let any = if address.contains(':') { "[::]:0" } else { "0.0.0.0:0" };
    let sender = from.run(|| UdpSocket::bind(any).unwrap());
    netloom_kit::wait_until("a datagram arrives", Duration::from_secs(30), || {
        sender.send_to(b"hello", (address, 9)).unwrap();
        receiver.recv(&mut [0; 8]).ok().map(|length| assert_eq!(length, 5))
    });
}

/// A route with source, metric and table, which the requests of this crate do not have.
fn rare_route() {
    use std::io::{Read, Write};
    use std::os::fd::FromRawFd;
    let mut route = RouteMessage::default();
    route.header.address_family = netlink_packet_route::AddressFamily::Inet;
    route.header.destination_prefix_length = 16;
    route.header.table = 100;
    route.header.protocol = RouteProtocol::Boot;
    route.header.scope = RouteScope::Universe;
    route.header.kind = RouteType::Unicast;
    route.attributes = vec![
        RouteAttribute::Destination(RouteAddress::Inet("10.77.0.0".parse().unwrap())),
        RouteAttribute::Gateway(RouteAddress::Inet("10.0.0.2".parse().unwrap())),
        RouteAttribute::PrefSource(RouteAddress::Inet("10.0.0.1".parse().unwrap())),
        RouteAttribute::Priority(33),
        RouteAttribute::Oif(5),
    ];
    let mut message = NetlinkMessage::from(RouteNetlinkMessage::NewRoute(route));
    message.header.flags = NLM_F_REQUEST | NLM_F_CREATE | NLM_F_ACK;
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    // SAFETY: socket takes no pointer.
    let fd = unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    assert!(fd >= 0);
    // SAFETY: the descriptor was made just now and nobody else owns it.
    let mut socket = unsafe { std::fs::File::from_raw_fd(fd) };
    socket.write_all(&bytes).unwrap();
    let mut answer = [0; 512];
    assert!(socket.read(&mut answer).unwrap() >= 20);
    assert_eq!(answer[16..20], [0; 4], "errno");
}

fn with_routes(carried: impl Fn() -> Carried) -> Carried {
    let via = |text: &str| Some(text.parse().unwrap());
    run(|batch| {
        batch.push("default", &Route::new(net("0.0.0.0/0"), via("10.0.0.2"), 5));
        let six = Route::new(net("::/0"), via("fd00::2"), 5);
        batch.push("default 6", &Route { metric: Some(7), ..six });
        batch.push("on link", &Route::new(net("10.9.0.0/16"), None, 5));
        batch.push("behind", &Route::new(net("10.8.0.0/16"), via("10.9.0.1"), 5));
        batch.push("other link", &Route::new(net("10.7.0.0/16"), None, 1));
    })
    .unwrap();
    rare_route();
    carried()
}

#[test]
fn an_interface_moves_under_another_name_and_back_with_all_it_has() {
    with_netns(
        &an_interface_moves_under_another_name_and_back_with_all_it_has,
        |[home, peer, away]| {
            joined(&home, &peer);
            reaches(&home, &peer, "10.0.0.2");
            let look =
                |space: &NetNs, link| space.run(|| Socket::open().unwrap().carried(link).unwrap());
            let had = home.run(|| with_routes(|| Socket::open().unwrap().carried(5).unwrap()));
            assert_eq!(had.addresses, [net("10.0.0.1/24"), net("fd00::1/64")]);
            let mut routes: Vec<_> = had.routes().collect();
            routes.sort();
            let mut expected =
                ["0.0.0.0/0", "::/0", "10.9.0.0/16", "10.8.0.0/16", "10.77.0.0/16"].map(net);
            expected.sort();
            assert_eq!(routes, expected);

            let trip = |from: &NetNs, index, to: &NetNs, name, new_index| {
                from.run(|| {
                    let link = MoveLink { name: Some(name), ..MoveLink::new(index, to.fd()) };
                    run(|batch| batch.push("link", &MoveLink { index: Some(new_index), ..link }))
                })
                .unwrap();
                let link = to.run(|| Socket::open().unwrap().link(name).unwrap().unwrap());
                assert_eq!((link.index, link.up), (new_index, false));
                assert_eq!(look(to, new_index), Carried::default());
                to.run(|| {
                    run(|batch| {
                        batch.push("lo", &Change::of(1).up());
                        batch.push("link", &Change::of(new_index).up());
                    })
                    .unwrap();
                    run(|batch| had.push(batch, "link", new_index)).unwrap();
                    // A second time is harmless.
                    run(|batch| had.push(batch, "link", new_index)).unwrap();
                });
                assert_eq!(look(to, new_index), had);
                reaches(to, &peer, "10.0.0.2");
                reaches(&peer, to, "fd00::1");
            };
            trip(&home, 5, &away, "tenant0", 42);
            assert_eq!(look(&home, 5), Carried::default());
            let six = away.run(|| Socket::open().unwrap().routes(Family::V6).unwrap());
            let default = six.iter().find(|route| route.to == net("::/0")).unwrap();
            assert_eq!((default.metric, &default.links[..]), (7, &[42][..]));
            trip(&away, 42, &home, "eth0", 5);
        },
    );
}

#[test]
fn a_name_or_index_that_is_taken_is_told_and_the_link_stays() {
    with_netns(&a_name_or_index_that_is_taken_is_told_and_the_link_stays, |[home, away]| {
        joined(&home, &away);
        home.run(|| {
            let go = |link: &MoveLink<'_>| run(|batch| batch.push("link \"eth0\"", link));
            let taken = go(&MoveLink::new(5, away.fd())).unwrap_err();
            assert_eq!(taken.refusals()[0].errno, libc::EEXIST, "{taken}");
            assert!(taken.to_string().contains("move to namespace"), "{taken}");
            let renamed = MoveLink { name: Some("eth1"), ..MoveLink::new(5, away.fd()) };
            let taken = go(&MoveLink { index: Some(5), ..renamed }).unwrap_err();
            assert_eq!(taken.refusals()[0].errno, libc::EBUSY, "{taken}");
            assert!(taken.refusals()[0].explanation.is_some(), "{taken}");
            let taken = go(&MoveLink { name: Some("eth0"), ..renamed }).unwrap_err();
            assert_eq!(taken.refusals()[0].errno, libc::EEXIST, "{taken}");
            assert!(taken.refusals()[0].explanation.is_some(), "{taken}");
            assert!(go(&MoveLink::new(1, away.fd())).is_err());
            let link = Socket::open().unwrap().link(5).unwrap().unwrap();
            assert_eq!((link.name.as_str(), link.up), ("eth0", true));
        });
        reaches(&home, &away, "10.0.0.2");
    });
}
