//! Links, addresses, routes and neighbours as the kernel then shows them.

use super::fresh;

use fresh::with_netns;
use netloom_netlink::{
    Address, Batch, BridgeSpec, Change, DeleteAddress, DeleteDiscipline, DeleteLink, DeleteRoute,
    DeleteRule, EndSpec, Family, Found, KernelRule, Lookup, MoveLink, Multipath, Neighbour,
    Operational, Route, Socket, VethSpec,
};

const MAC_A: [u8; 6] = [2, 0, 0, 0, 0, 0xa];
const MAC_B: [u8; 6] = [2, 0, 0, 0, 0, 0xb];

/// The first end of a pair has a carrier when the second is raised, but drops what it is to send until the kernel's
/// linkwatch, a work queue, has given it its discipline (linkwatch_do_dev in net/core/link_watch.c).
fn wait_for_operational(socket: &mut Socket, index: u32) {
    let wait = std::time::Duration::from_secs(30);
    netloom_kit::wait_until("an operational link", wait, || {
        let link = socket.link(index).unwrap().unwrap();
        (link.operational == Operational::Up).then_some(())
    });
}

#[test]
fn both_ends_of_a_veth_are_made_in_their_namespaces() {
    with_netns(&both_ends_of_a_veth_are_made_in_their_namespaces, |[core, left, right]| {
        core.run(|| {
            let a = EndSpec {
                netns: Some(left.fd()),
                index: Some(77),
                mac: Some(MAC_A),
                mtu: Some(9000),
                ..EndSpec::new("eth0")
            };
            let b = EndSpec {
                netns: Some(right.fd()),
                index: Some(77),
                mac: Some(MAC_B),
                mtu: Some(9000),
                ..EndSpec::new("eth0")
            };
            let mut batch = Batch::new();
            batch.push("link \"l--r\"", &VethSpec { a_up: true, ..VethSpec::new(a, b) });
            let mut socket = Socket::open().unwrap();
            socket.run(&mut batch).unwrap();
            assert!(batch.is_empty());
            assert_eq!(socket.links().unwrap().len(), 1, "only lo in the socket's namespace");
        });
        for (space, mac, up) in [(&left, MAC_A, true), (&right, MAC_B, false)] {
            let link = space.run(|| Socket::open().unwrap().link("eth0").unwrap().unwrap());
            assert_eq!((link.index, link.mac, link.mtu, link.up), (77, Some(mac), 9000, up));
            assert_eq!(link.kind.as_deref(), Some("veth"));
            assert_eq!(link.peer, Some(77));
            assert!(link.peer_netns.is_some());
            assert!(!link.carrier);
        }
        right.run(|| {
            let mut batch = Batch::new();
            batch.push("link \"r:eth0\"", &Change::of(77).up());
            let mut socket = Socket::open().unwrap();
            socket.run(&mut batch).unwrap();
            let link = socket.link(77).unwrap().unwrap();
            assert!(link.up && link.carrier);
            wait_for_operational(&mut socket, 77);
        });
    });
}

#[test]
fn a_bridge_is_plain_and_takes_ports_at_their_creation() {
    with_netns(&a_bridge_is_plain_and_takes_ports_at_their_creation, |[core, node]| {
        core.run(|| {
            let mut socket = Socket::open().unwrap();
            let mut batch = Batch::new();
            let bridge = BridgeSpec { index: Some(500), mac: Some(MAC_A), ..BridgeSpec::new("s1") };
            batch.push("switch \"s1\"", &bridge);
            let a = EndSpec { index: Some(501), ..EndSpec::new("p1") };
            let b = EndSpec { netns: Some(node.fd()), index: Some(2), ..EndSpec::new("eth0") };
            let pair = VethSpec { a_up: true, a_master: Some(500), ..VethSpec::new(a, b) };
            batch.push("link \"h1--s1\"", &pair);
            socket.run(&mut batch).unwrap();

            let bridge = socket.link("s1").unwrap().unwrap();
            assert_eq!((bridge.index, bridge.up, bridge.mac), (500, true, Some(MAC_A)));
            assert_eq!(bridge.kind.as_deref(), Some("bridge"));
            assert_eq!(socket.link("p1").unwrap().unwrap().master, Some(500));
            assert_eq!(socket.index_of("p1").unwrap(), 501);

            batch.push("link \"p1\"", &Change::of("p1").release());
            socket.run(&mut batch).unwrap();
            assert_eq!(socket.link("p1").unwrap().unwrap().master, None);
            batch.push("link \"p1\"", &Change::of("p1").enslave(500).promiscuous(true));
            socket.run(&mut batch).unwrap();
            assert_eq!(socket.link("p1").unwrap().unwrap().master, Some(500));
        });
    });
}

#[test]
fn links_are_changed_renamed_moved_and_deleted() {
    with_netns(&links_are_changed_renamed_moved_and_deleted, |[here, there]| {
        here.run(|| {
            let mut socket = Socket::open().unwrap();
            let mut batch = Batch::new();
            let a = EndSpec { index: Some(10), ..EndSpec::new("one") };
            let b = EndSpec { index: Some(11), ..EndSpec::new("two") };
            batch.push("pair", &VethSpec::new(a, b));
            batch.push("one", &Change::of("one").mtu(1400).mac(MAC_A).up());
            batch.push("two", &Change::rename(11, "second"));
            batch.push("one", &Change::of(10).down());
            socket.run(&mut batch).unwrap();
            let one = socket.link(10).unwrap().unwrap();
            assert_eq!((one.mtu, one.mac, one.up), (1400, Some(MAC_A), false));
            assert_eq!(socket.link("two").unwrap(), None);
            assert_eq!(socket.index_of("second").unwrap(), 11);

            let away = MoveLink { name: Some("far"), ..MoveLink::new(11, there.fd()) };
            batch.push("second", &away);
            socket.run(&mut batch).unwrap();
            let far = there.run(|| Socket::open().unwrap().link("far").unwrap());
            assert_eq!(far.unwrap().peer, Some(10));

            batch.push("one", &DeleteLink::new("one"));
            socket.run(&mut batch).unwrap();
            assert_eq!(there.run(|| Socket::open().unwrap().link("far").unwrap()), None);
        });
    });
}

#[test]
fn refusals_name_their_objects_and_the_rest_is_done() {
    with_netns(&refusals_name_their_objects_and_the_rest_is_done, |[here]| {
        here.run(|| {
            let mut socket = Socket::open().unwrap();
            let mut batch = Batch::new();
            batch.push("switch \"s1\"", &BridgeSpec::new("s1"));
            batch.push("switch \"again\"", &BridgeSpec::new("s1"));
            batch.push("link \"none\"", &Change::of("none").up());
            batch.push_tolerant("link \"gone\"", &DeleteLink::new("gone"));
            batch.push_tolerant("switch \"s1\"", &BridgeSpec::new("s1"));
            batch.push("name", &BridgeSpec::new("nul\0in"));
            batch.push("switch \"s2\"", &BridgeSpec::new("s2"));
            let error = socket.run(&mut batch).unwrap_err();
            let failures = error.refusals();
            assert_eq!(failures.len(), 3, "{error}");
            assert_eq!(
                failures[0].to_string().split(": ").take(3).collect::<Vec<_>>(),
                ["switch \"again\"", "create", "File exists (os error 17)"]
            );
            assert_eq!(failures[1].errno, libc::ENODEV);
            assert_eq!(failures[1].operation, "set up");
            assert_eq!(failures[2].errno, libc::EINVAL);
            assert!(socket.link("s2").unwrap().is_some());
            assert_eq!(socket.index_of("s3").unwrap_err().refusals()[0].errno, libc::ENODEV);
        });
    });
}

#[test]
fn the_kernels_own_words_are_in_the_failure() {
    with_netns(&the_kernels_own_words_are_in_the_failure, |[here]| {
        here.run(|| {
            let mut batch = Batch::new();
            batch.push("link \"lo\"", &Change::of(1).up());
            let via = Some("192.0.2.1".parse().unwrap());
            batch.push("route", &Route::new("10.0.0.0/8".parse().unwrap(), via, 1));
            let error = Socket::open().unwrap().run(&mut batch).unwrap_err();
            let text = error.to_string();
            let expected = "route: add: Network is unreachable (os error 101): Nexthop has invalid";
            assert!(text.starts_with(expected), "{text}");
        });
    });
}

#[test]
fn long_lists_are_whole_and_traffic_is_counted() {
    with_netns(&long_lists_are_whole_and_traffic_is_counted, |[here, there]| {
        here.run(|| {
            let mut socket = Socket::open().unwrap();
            let mut batch = Batch::new();
            let names: Vec<_> = (0..200).map(|number| format!("link{number}")).collect();
            for (index, name) in (1000..).zip(&names) {
                let a = EndSpec { index: Some(index), ..EndSpec::new(name) };
                let b = EndSpec { netns: Some(there.fd()), ..a };
                batch.push(name.as_str(), &VethSpec { a_up: true, ..VethSpec::new(a, b) });
            }
            batch.push("address", &Address::new(1000, "10.0.0.1/24".parse().unwrap()));
            let mac = MAC_B;
            let address = "10.0.0.2".parse().unwrap();
            batch.push("neighbour", &Neighbour { link: 1000, address, mac });
            socket.run(&mut batch).unwrap();
            there.run(|| {
                batch.push("link0", &Change::of(1000).up());
                Socket::open().unwrap().run(&mut batch).unwrap();
            });
            let mut listed: Vec<_> = socket.links().unwrap();
            listed.retain(|link| link.index >= 1000);
            // Older kernels (6.1) list them in no order.
            listed.sort_by_key(|link| link.index);
            assert_eq!(
                listed.iter().map(|link| &link.name).collect::<Vec<_>>(),
                names.iter().collect::<Vec<_>>()
            );

            wait_for_operational(&mut socket, 1000);
            let before = socket.link(1000).unwrap().unwrap().traffic;
            let sender = std::net::UdpSocket::bind("10.0.0.1:0").unwrap();
            sender.send_to(&[0; 100], "10.0.0.2:9").unwrap();
            let after = socket.link(1000).unwrap().unwrap().traffic;
            assert!(after.tx_packets > before.tx_packets);
            assert!(after.tx_bytes >= before.tx_bytes + 142);
            let far = there.run(|| Socket::open().unwrap().link(1000).unwrap().unwrap().traffic);
            assert!(far.rx_packets >= 1 && far.rx_bytes >= 142);
        });
    });
}

#[test]
fn every_one_of_many_refusals_comes_back() {
    with_netns(&every_one_of_many_refusals_comes_back, |[here]| {
        here.run(|| {
            let mut socket = Socket::open().unwrap();
            let mut batch = Batch::new();
            batch.push("lo", &Change::of(1).up());
            socket.run(&mut batch).unwrap();
            let via = Some("192.0.2.1".parse().unwrap());
            let unreachable = Route::new("10.0.0.0/8".parse().unwrap(), via, 1);
            for number in 0..30_000 {
                if number % 2 == 0 {
                    batch.push(format!("link {number}"), &DeleteLink::new(number + 100));
                } else {
                    batch.push(format!("link {number}"), &unreachable);
                }
            }
            let error = socket.run(&mut batch).unwrap_err();
            assert_eq!(error.refusals().len(), 30_000);
            assert!((0..30_000).all(|n| *error.refusals()[n].object == *format!("link {n}")));
        });
    });
}

#[test]
fn addresses_routes_and_neighbours_are_set_and_listed() {
    with_netns(&addresses_routes_and_neighbours_are_set_and_listed, |[here]| {
        here.run(|| {
            let mut socket = Socket::open().unwrap();
            let mut batch = Batch::new();
            let net = |text: &str| text.parse::<ipnet::IpNet>().unwrap();
            let ip = |text: &str| text.parse::<std::net::IpAddr>().unwrap();
            let a = EndSpec { index: Some(10), ..EndSpec::new("one") };
            let b = EndSpec { index: Some(11), ..EndSpec::new("two") };
            batch.push("pair", &VethSpec::new(a, b));
            for link in [1, 10, 11] {
                batch.push(format!("link {link}"), &Change::of(link).up());
            }
            for address in ["10.0.0.1/24", "10.0.1.0/31", "10.0.2.1/32", "fd00::1/64"] {
                batch.push(format!("address {address}"), &Address::new(10, net(address)));
            }
            let again = Address { replace: true, ..Address::new(10, net("fd00::1/64")) };
            batch.push("again", &again);
            batch.push("default 4", &Route::new(net("0.0.0.0/0"), Some(ip("10.0.0.2")), 10));
            batch.push("default 6", &Route::new(net("::/0"), Some(ip("fd00::2")), 10));
            batch.push("on link", &Route::new(net("10.9.0.0/16"), None, 11));
            let other = Route::new(net("0.0.0.0/0"), Some(ip("10.0.0.3")), 10);
            batch.push("replaced", &Route { replace: true, ..other });
            let six =
                Route { metric: Some(7), ..Route::new(net("fd01::/48"), Some(ip("fd00::2")), 10) };
            batch.push("metric", &six);
            for address in ["10.0.0.3", "fd00::2"] {
                batch.push("neighbour", &Neighbour { link: 10, address: ip(address), mac: MAC_B });
            }
            socket.run(&mut batch).unwrap();

            let addresses = socket.addresses().unwrap();
            for address in ["10.0.0.1/24", "10.0.1.0/31", "10.0.2.1/32", "fd00::1/64"] {
                let found = addresses.iter().filter(|a| a.address == net(address) && a.link == 10);
                assert_eq!(found.count(), 1, "{address} in {addresses:?}");
            }
            let four = socket.routes(Family::V4).unwrap();
            let default = four.iter().find(|route| route.to == net("0.0.0.0/0")).unwrap();
            assert_eq!((default.via, &default.links[..]), (Some(ip("10.0.0.3")), &[10][..]));
            assert_eq!(default.origin, 4);
            assert!(four.iter().any(|route| route.to == net("10.9.0.0/16") && route.via.is_none()));
            let six = socket.routes(Family::V6).unwrap();
            let found = six.iter().find(|route| route.to == net("fd01::/48")).unwrap();
            assert_eq!((found.via, found.metric), (Some(ip("fd00::2")), 7));
            assert_eq!(socket.uplinks().unwrap(), [10]);

            for to in ["0.0.0.0/0", "::/0", "fd01::/48"] {
                batch.push(to, &DeleteRoute::new(net(to)));
                batch.push_tolerant(to, &DeleteRoute::new(net(to)));
            }
            for address in ["10.0.0.1/24", "fd00::1/64"] {
                let gone = DeleteAddress { link: 10, address: net(address) };
                batch.push(address, &gone);
                batch.push_tolerant(address, &gone);
            }
            socket.run(&mut batch).unwrap();
            assert!(socket.uplinks().unwrap().is_empty());
            assert!(!socket.addresses().unwrap().iter().any(|a| a.address == net("fd00::1/64")));
        });
    });
}

#[test]
fn an_ipv6_address_is_ready_at_once() {
    with_netns(&an_ipv6_address_is_ready_at_once, |[here]| {
        here.run(|| {
            let mut socket = Socket::open().unwrap();
            let mut batch = Batch::new();
            let a = EndSpec { index: Some(10), ..EndSpec::new("one") };
            let b = EndSpec { index: Some(11), ..EndSpec::new("two") };
            batch.push("pair", &VethSpec::new(a, b));
            batch.push("one", &Change::of(10).up());
            batch.push("two", &Change::of(11).up());
            batch.push("address", &Address::new(10, "fd00::1/64".parse().unwrap()));
            socket.run(&mut batch).unwrap();
            std::net::UdpSocket::bind("[fd00::1]:0").expect("no waiting for duplicates");
        });
    });
}

#[test]
fn the_kernel_tells_its_way() {
    with_netns(&the_kernel_tells_its_way, |[here, there]| {
        here.run(|| {
            let mut socket = Socket::open().unwrap();
            let mut batch = Batch::new();
            let a = EndSpec { index: Some(10), ..EndSpec::new("one") };
            let b = EndSpec { index: Some(2), netns: Some(there.fd()), ..EndSpec::new("two") };
            batch.push("pair", &VethSpec { a_up: true, ..VethSpec::new(a, b) });
            batch.push("lo", &Change::of("lo").up());
            socket.run(&mut batch).unwrap();
            there.run(|| {
                let mut batch = Batch::new();
                batch.push("two", &Change::of(2).up());
                Socket::open().unwrap().run(&mut batch).unwrap();
            });
            for (own, router, far) in [
                ("10.0.0.1/24", "10.0.0.2", "192.0.2.7"),
                ("fd00:1::1/64", "fd00:1::2", "2001:db8::7"),
            ] {
                let [router, far] = [router, far].map(|text| text.parse().unwrap());
                let own: ipnet::IpNet = own.parse().unwrap();
                let mut batch = Batch::new();
                batch.push("address", &Address::new(10, own));
                let default = if own.addr().is_ipv4() { "0.0.0.0/0" } else { "::/0" };
                let look = |socket: &mut Socket, to, forwarded| {
                    socket.route_to(&Lookup { to, forwarded }).unwrap()
                };
                socket.run(&mut batch).unwrap();
                assert_eq!(look(&mut socket, far, None), None);
                batch.push("route", &Route::new(default.parse().unwrap(), Some(router), 10));
                socket.run(&mut batch).unwrap();
                let leaves = |via| Found::Leaves { link: 10, via, source: Some(own.addr()) };
                assert_eq!(look(&mut socket, far, None), Some(leaves(Some(router))));
                assert_eq!(look(&mut socket, router, None), Some(leaves(None)));
                // An address of IPv6 is looked for on the link before it is one's own.
                if own.addr().is_ipv4() {
                    assert_eq!(look(&mut socket, own.addr(), None), Some(Found::Here));
                    let arrived = look(&mut socket, own.addr(), Some((router, 10)));
                    assert_eq!(arrived, Some(Found::Here));
                    // Nothing is forwarded in a fresh namespace.
                    assert_eq!(look(&mut socket, far, Some((router, 10))), None);
                }
            }
        });
    });
}

/// Linux 6.18 says "Invalid argument" of packets that its reverse path filter drops, Linux 6.1 "Invalid cross-device link".
#[test]
fn what_the_reverse_path_filter_drops_has_no_way() {
    with_netns(&what_the_reverse_path_filter_drops_has_no_way, |[here]| {
        here.run(|| {
            let mut socket = Socket::open().unwrap();
            let mut batch = Batch::new();
            for (index, name, address) in [(50, "one", "10.0.0.1/24"), (51, "two", "10.0.1.1/24")] {
                batch.push(name, &BridgeSpec { index: Some(index), ..BridgeSpec::new(name) });
                batch.push(name, &Change::of(index).up());
                batch.push(address, &Address::new(index, address.parse().unwrap()));
            }
            socket.run(&mut batch).unwrap();
            let set = |path: &str, value: &str| {
                std::fs::write(format!("/proc/sys/net/ipv4/{path}"), value).unwrap();
            };
            set("ip_forward", "1");
            set("conf/all/rp_filter", "0");
            set("conf/one/rp_filter", "0");
            // The source is by the other interface.
            let forwarded = Some(("10.0.1.7".parse().unwrap(), 50));
            let lookup = Lookup { to: "10.0.1.9".parse().unwrap(), forwarded };
            assert!(socket.route_to(&lookup).unwrap().is_some());
            set("conf/one/rp_filter", "1");
            assert_eq!(socket.route_to(&lookup).unwrap(), None);
        });
    });
}

#[test]
fn routes_of_several_next_hops_are_added_and_replaced() {
    with_netns(&routes_of_several_next_hops_are_added_and_replaced, |[here]| {
        here.run(|| {
            let mut socket = Socket::open().unwrap();
            let mut batch = Batch::new();
            for (index, name) in [(50, "one"), (51, "two")] {
                let bridge = BridgeSpec { index: Some(index), ..BridgeSpec::new(name) };
                batch.push(name, &bridge);
                batch.push(name, &Change::of(index).up());
            }
            for (link, address) in
                [(50, "10.0.0.1/24"), (50, "fd00::1/64"), (51, "10.0.1.1/24"), (51, "fd01::1/64")]
            {
                batch.push(address, &Address::new(link, address.parse().unwrap()));
            }
            socket.run(&mut batch).unwrap();
            for (family, to, vias) in [
                (Family::V4, "192.0.2.0/24", ["10.0.0.2", "10.0.1.2"]),
                (Family::V6, "2001:db8::/32", ["fd00::2", "fd01::2"]),
            ] {
                let to: ipnet::IpNet = to.parse().unwrap();
                let hops = [(vias[0].parse().unwrap(), 50), (vias[1].parse().unwrap(), 51)];
                let mut found = |hops: &[(std::net::IpAddr, u32)], replace| {
                    let mut batch = Batch::new();
                    batch.push("route", &Multipath { to, hops, replace });
                    socket.run(&mut batch).unwrap();
                    let routes = socket.routes(family).unwrap();
                    let of = routes.into_iter().filter(|r| r.to == to);
                    of.map(|r| r.paths()).collect::<Vec<_>>()
                };
                let both = hops.map(|(via, link)| (Some(via), link)).to_vec();
                assert_eq!(found(&hops, false), std::slice::from_ref(&both), "{to}");
                let itself = found(&hops, true);
                assert_eq!(itself, std::slice::from_ref(&both), "{to}: replaced by itself");
                assert_eq!(
                    found(&hops[1..], true),
                    [both[1..].to_vec()],
                    "{to}: replaced by a part"
                );
            }
        });
    });
}

#[test]
fn links_tell_their_settings_as_the_files_of_proc_do() {
    with_netns(&links_tell_their_settings_as_the_files_of_proc_do, |[here]| {
        here.run(|| {
            let mut socket = Socket::open_to_ask().unwrap();
            let mut batch = Batch::new();
            batch.push("one", &BridgeSpec { index: Some(50), ..BridgeSpec::new("one") });
            socket.run(&mut batch).unwrap();
            let families = [(Family::V4, "ipv4", 6), (Family::V6, "ipv6", 5)];
            // Each in turn differs from all others.
            for (family, word, count) in families {
                let names: Vec<&str> = {
                    let link = socket.links_alone().unwrap().into_iter().find(|l| l.index == 50);
                    link.unwrap().settings.of(family).map(|(name, _)| name).collect()
                };
                assert_eq!(names.len(), count, "{names:?}");
                let file = |name: &str| format!("/proc/sys/net/{word}/conf/one/{name}");
                for name in &names {
                    let text = std::fs::read_to_string(file(name)).unwrap();
                    let other = if text.trim() == "1" { "0" } else { "1" };
                    std::fs::write(file(name), other).unwrap();
                    let links = socket.links_alone().unwrap();
                    let link = links.iter().find(|link| link.index == 50).unwrap();
                    for (name, value) in link.settings.of(family) {
                        let text = std::fs::read_to_string(file(name)).unwrap();
                        assert_eq!(value.to_string(), text.trim(), "{name}");
                    }
                }
            }
        });
    });
}

#[test]
fn an_added_discipline_is_told_and_removed() {
    with_netns(&an_added_discipline_is_told_and_removed, |[here]| {
        here.run(|| {
            let mut socket = Socket::open_to_ask().unwrap();
            let mut batch = Batch::new();
            batch.push(
                "pair",
                &VethSpec { a_up: true, ..VethSpec::new(EndSpec::new("a"), EndSpec::new("b")) },
            );
            batch.push("b", &Change::of("b").up());
            socket.run(&mut batch).unwrap();
            let a = socket.index_of("a").unwrap();
            let mut discipline = || socket.link(a).unwrap().unwrap().discipline;
            let usual = discipline();
            let tc = ["qdisc", "add", "dev", "a", "root", "pfifo", "limit", "5"];
            assert!(std::process::Command::new("tc").args(tc).status().unwrap().success());
            assert_eq!((usual.as_str(), discipline().as_str()), ("noqueue", "pfifo"));
            batch.push("a", &DeleteDiscipline(a));
            socket.run(&mut batch).unwrap();
            assert_eq!(socket.link(a).unwrap().unwrap().discipline, "noqueue");
            batch.push_tolerant("a", &DeleteDiscipline(a));
            socket.run(&mut batch).unwrap();
        });
    });
}

#[test]
fn rules_are_read_removed_and_made_again() {
    with_netns(&rules_are_read_removed_and_made_again, |[space]| {
        space.run(|| {
            let mut socket = Socket::open().unwrap();
            for family in [Family::V4, Family::V6] {
                let first = socket.rules(family).unwrap();
                let own = KernelRule::ALL.into_iter().filter(|rule| rule.family == family);
                let own: Vec<KernelRule> = own.collect();
                assert_eq!(own.len(), first.len(), "{first:?}");
                assert!(own.iter().zip(&first).all(|(own, found)| own.is(found)), "{first:?}");
                assert!(first.iter().all(|rule| rule.origin == 2), "the kernel: {first:?}");
                let mut batch = Batch::new();
                first.iter().for_each(|rule| batch.push("rule", &DeleteRule(rule)));
                socket.run(&mut batch).unwrap();
                assert_eq!(socket.rules(family).unwrap(), []);
                own.iter().for_each(|rule| batch.push("rule", rule));
                socket.run(&mut batch).unwrap();
                assert_eq!(socket.rules(family).unwrap(), first);
            }
        });
    });
}
