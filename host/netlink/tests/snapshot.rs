//! A snapshot of one namespace, put into another one with the same interfaces.

use super::fresh;

use fresh::{NetNs, with_netns};
use ipnet::IpNet;
use netloom_netlink::nat::{self, NatSpec};
use netloom_netlink::{
    Address, Batch, Change, EndSpec, Neighbour, Route, RouteKind, Snapshot, Socket, VethSpec,
};

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn run(fill: impl FnOnce(&mut Batch)) {
    let mut batch = Batch::new();
    fill(&mut batch);
    Socket::open().unwrap().run(&mut batch).unwrap();
}

/// An interface `eth0` with index 5 and a hardware address, up, and what a lab gave it.
fn lay_out(space: &NetNs) {
    space.run(|| {
        let a = EndSpec { index: Some(5), mac: Some([2, 0, 0, 0, 0, 5]), ..EndSpec::new("eth0") };
        let b = EndSpec { index: Some(6), mac: Some([2, 0, 0, 0, 0, 6]), ..EndSpec::new("other") };
        run(|batch| {
            batch.push("pair", &VethSpec::new(a, b));
            batch.push("lo", &Change::of(1).up());
            batch.push("eth0", &Change::of(5).up());
            batch.push("other", &Change::of(6).up());
            batch.push("address", &Address::new(5, net("10.0.0.1/24")));
            batch.push("address", &Address::new(5, net("fd00::1/64")));
            let hop = "10.0.0.9".parse().unwrap();
            batch.push("default", &Route::new(net("0.0.0.0/0"), Some(hop), 5));
        });
    });
}

/// What a person changed by hand.
fn change(space: &NetNs) {
    space.run(|| {
        run(|batch| {
            batch.push("other", &Change::of(6).down());
            batch.push("eth0", &Change::of(5).mtu(1300));
            batch.push("address", &Address::new(5, net("10.0.7.1/24")));
            let hop = "10.0.7.9".parse().unwrap();
            batch.push("route", &Route::new(net("10.9.0.0/16"), Some(hop), 5));
            let mac = [2, 0, 0, 0, 0, 9];
            batch.push(
                "neighbour",
                &Neighbour { link: 5, address: "10.0.0.9".parse().unwrap(), mac },
            );
            let mut gone = netloom_netlink::DeleteRoute::new(net("0.0.0.0/0"));
            gone.kind = Some(RouteKind::Unicast);
            batch.push("default", &gone);
        });
        let prefixes = [net("10.0.0.0/24"), net("fd00::/64")];
        let spec = NatSpec {
            table: "netloom-copy",
            inside: &["eth0"],
            uplink: None,
            prefixes: &prefixes,
            block_other_forwarding: true,
            bridges: "br-",
            siblings: "nl",
            hold_repeated: false,
        };
        nat::install(&spec).unwrap();
    });
}

/// Sorted: the kernel lists what was put later elsewhere.
fn read(space: &NetNs) -> Vec<(u16, Vec<u8>)> {
    let mut all = space.run(|| Snapshot::read().unwrap().messages);
    all.sort();
    all
}

#[test]
fn a_copy_has_what_was_changed_and_lacks_what_went() {
    with_netns(&a_copy_has_what_was_changed_and_lacks_what_went, |[from, to]| {
        [&from, &to].into_iter().for_each(lay_out);
        change(&from);
        let taken = from.run(|| Snapshot::read().unwrap());
        assert_ne!(read(&from), read(&to));
        let notes = to.run(|| {
            let mut notes = taken.put_interfaces().unwrap();
            notes.extend(taken.put_rest().unwrap());
            notes
        });
        assert_eq!(notes, Vec::<String>::new());
        assert_eq!(read(&from), read(&to));
        to.run(|| assert_eq!(nat::list().unwrap(), ["netloom-copy"]));
        // Twice is as good as once.
        to.run(|| assert!(taken.put_rest().unwrap().is_empty()));
        assert_eq!(read(&from), read(&to));
    });
}

#[test]
fn what_cannot_be_put_is_told() {
    with_netns(&what_cannot_be_put_is_told, |[from, to]| {
        lay_out(&from);
        let taken = from.run(|| Snapshot::read().unwrap());
        let notes =
            to.run(|| [taken.put_interfaces().unwrap(), taken.put_rest().unwrap()].concat());
        let told = |word: &str| notes.iter().any(|note| note.contains(word));
        assert!(told("interface eth0") && told("address") && told("route"), "{notes:?}");
    });
}
