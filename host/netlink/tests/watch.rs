//! Changes of addresses are heard from all namespaces that were added, and from no other.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::time::Duration;

use ipnet::IpNet;
use netloom_kit::wait_until;
use netloom_netlink::{
    Address, AddressWatch, Batch, BridgeSpec, Change, Changed, ChangedLinks, DeleteAddress,
    DeleteLink, ForwardingChange, ForwardingWatch, LinkRef, LinkWatch, ManySpaces, Route,
    RouteWatch, Socket,
};

use super::fresh::{NetNs, with_netns};

/// Makes an interface up in a namespace. It gets no link-local address, which the kernel would tell of a second or two later.
fn prepare(space: &NetNs) {
    space.run(|| {
        std::fs::write("/proc/sys/net/ipv6/conf/default/addr_gen_mode", "1").unwrap();
        let mut batch = Batch::new();
        batch.push("br", &BridgeSpec { index: Some(7), ..BridgeSpec::new("br") });
        batch.push("br", &Change::of(7).up());
        Socket::open().unwrap().run(&mut batch).unwrap();
    });
}

fn give(space: &NetNs, address: &str) {
    space.run(|| {
        let mut batch = Batch::new();
        batch.push("address", &Address::new(7, address.parse().unwrap()));
        Socket::open().unwrap().run(&mut batch).unwrap();
    });
}

#[test]
fn changes_are_heard_where_they_are() {
    with_netns(&changes_are_heard_where_they_are, |[empty, one, two, other]| {
        [&one, &two, &other].into_iter().for_each(prepare);
        let mut watch = empty.run(|| AddressWatch::open().unwrap());
        watch.add([(11, one.fd()), (12, two.fd())]).unwrap();
        let heard = |numbers: &[i32]| Changed::In(numbers.iter().copied().collect::<BTreeSet<_>>());
        let mut now = || watch.changed().unwrap();
        // What happened before.
        let _ = now();
        give(&two, "10.0.0.1/24");
        assert_eq!(now(), heard(&[12]));
        assert_eq!(now(), heard(&[]));
        give(&one, "192.0.2.1/24");
        give(&other, "10.0.0.2/24");
        assert_eq!(now(), heard(&[11]));
        // The kernel tells of addresses of IPv6 in its own time, maybe more than once.
        give(&two, "2001:db8::1/64");
        give(&other, "2001:db8::2/64");
        wait_until("it is heard of", Duration::from_secs(30), || {
            let now = now();
            assert!(now == heard(&[]) || now == heard(&[12]), "{now:?}");
            (now == heard(&[12])).then_some(())
        });
        one.run(|| {
            let mut batch = Batch::new();
            batch.push(
                "address",
                &DeleteAddress { link: 7, address: "192.0.2.1/24".parse().unwrap() },
            );
            Socket::open().unwrap().run(&mut batch).unwrap();
        });
        let Changed::In(last) = now() else { panic!("none was lost") };
        assert!(last.contains(&11), "{last:?}");
    });
}

#[test]
fn a_namespace_is_added_once() {
    with_netns(&a_namespace_is_added_once, |[empty, one, two]| {
        let mut watch = empty.run(|| AddressWatch::open().unwrap());
        watch.add([(3, one.fd())]).unwrap();
        let error = watch.add([(4, one.fd()), (5, two.fd())]).unwrap_err();
        assert_eq!(error.refusals().len(), 1, "{error}");
        assert_eq!(&*error.refusals()[0].object, "network namespace 4");
        prepare(&two);
        let _ = watch.changed().unwrap();
        give(&two, "10.0.0.1/24");
        assert_eq!(watch.changed().unwrap(), Changed::In(BTreeSet::from([5])));
    });
}

#[test]
fn one_socket_sees_the_links_of_many_namespaces() {
    with_netns(&one_socket_sees_the_links_of_many_namespaces, |[empty, one, two]| {
        prepare(&two);
        let mut spaces = empty.run(|| ManySpaces::open().unwrap());
        spaces.add([(3, one.fd()), (4, two.fd())]).unwrap();
        let names = |found: Vec<netloom_netlink::LinkInfo>| -> Vec<String> {
            found.into_iter().map(|link| link.name).collect()
        };
        assert_eq!(names(spaces.links(3).unwrap()), ["lo"]);
        let here = two.run(|| Socket::open().unwrap().links().unwrap());
        let found = spaces.links(4).unwrap();
        assert_eq!(found.iter().map(|link| link.index).collect::<Vec<_>>(), [1, 7]);
        assert_eq!(found[1].name, here[1].name);
        assert!(found[1].up && found[1].mtu == here[1].mtu);
        // An id keeps no namespace alive.
        drop(one);
        wait_until("it has gone", Duration::from_secs(30), || spaces.links(3).err());
        assert!(spaces.links(5).is_err(), "unknown id");
        assert_eq!(names(spaces.links(4).unwrap()), ["lo", "br"]);
    });
}

#[test]
fn what_routes_depend_on_is_heard_in_its_namespace_only() {
    with_netns(&what_routes_depend_on_is_heard_in_its_namespace_only, |[here, other]| {
        let mut watch = here.run(|| RouteWatch::open().unwrap());
        assert!(!watch.changed().unwrap());
        prepare(&here);
        assert!(watch.changed().unwrap(), "an interface");
        give(&here, "10.0.0.1/24");
        assert!(watch.changed().unwrap(), "an address and its route");
        prepare(&other);
        give(&other, "10.0.0.1/24");
        // The kernel may tell of the interface's own IPv6 address later, but of nothing without an end.
        wait_until("it is quiet", Duration::from_secs(30), || {
            (!watch.changed().unwrap()).then_some(())
        });
    });
}

/// Makes bridges, as many as asked for, with these indices from 100 on.
fn make_many(space: &NetNs, count: u32) {
    space.run(|| {
        let mut batch = Batch::new();
        for index in 100..100 + count {
            let name = format!("br{index}");
            batch.push(name.clone(), &BridgeSpec { index: Some(index), ..BridgeSpec::new(&name) });
        }
        Socket::open().unwrap().run(&mut batch).unwrap();
    });
}

#[test]
fn links_that_changed_are_named() {
    with_netns(&links_that_changed_are_named, |[here, other]| {
        let mut watch = here.run(|| LinkWatch::open().unwrap());
        let these = |links: &[u32]| ChangedLinks::These(links.iter().copied().collect());
        assert_eq!(watch.changed().unwrap(), these(&[]));
        prepare(&here);
        make_many(&here, 2);
        prepare(&other);
        assert_eq!(watch.changed().unwrap(), these(&[7, 100, 101]));
        here.run(|| {
            let mut batch = Batch::new();
            batch.push("br100", &DeleteLink::new(LinkRef::Index(100)));
            Socket::open().unwrap().run(&mut batch).unwrap();
        });
        // The kernel tells of a link's carrier in its own time.
        let ChangedLinks::These(last) = watch.changed().unwrap() else { panic!("none was lost") };
        assert!(last.contains(&100) && !last.contains(&101), "{last:?}");
    });
}

#[test]
fn lost_changes_of_links_are_noticed() {
    with_netns(&lost_changes_of_links_are_noticed, |[here]| {
        prepare(&here);
        let mut watch = here.run(|| LinkWatch::open().unwrap());
        here.run(|| {
            let mut batch = Batch::new();
            // More than any buffer of this socket holds.
            for turn in 0..10_000 {
                batch.push("br", &Change::of(7).mtu(1400 + turn % 2));
            }
            Socket::open().unwrap().run(&mut batch).unwrap();
        });
        assert_eq!(watch.changed().unwrap(), ChangedLinks::Any);
        make_many(&here, 1);
        assert_eq!(watch.changed().unwrap(), ChangedLinks::These([100].into()));
    });
}

/// Adds routes of 32 bits, as many as asked for.
fn route_many(space: &NetNs, from: u32, count: u32) {
    space.run(|| {
        let mut batch = Batch::new();
        for number in from..from + count {
            let to = Ipv4Addr::from(0x0a00_0000 + number);
            let to = IpNet::new(to.into(), 32).unwrap();
            batch.push(to.to_string(), &Route::new(to, None, 7));
        }
        Socket::open().unwrap().run(&mut batch).unwrap();
    });
}

#[test]
fn what_is_older_than_lost_changes_of_routes_is_not_told() {
    with_netns(&what_is_older_than_lost_changes_of_routes_is_not_told, |[here]| {
        prepare(&here);
        let mut watch = here.run(|| ForwardingWatch::open().unwrap());
        let mut told = || {
            let mut all = vec![];
            watch.receive(usize::MAX, &mut |change| all.push(change)).unwrap();
            all
        };
        told();
        // More than its buffer holds.
        route_many(&here, 0, 100_000);
        assert_eq!(told(), [ForwardingChange::Unknown]);
        route_many(&here, 200_000, 1);
        let is_ours = |change: &ForwardingChange| matches!(change, ForwardingChange::Route { route, .. } if route.to.prefix_len() == 32);
        assert_eq!(told().iter().filter(|change| is_ours(change)).count(), 1);
    });
}
