//! NAT nodes of GNS3: ways to the host's network, with the addresses of the network that GNS3 puts there.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use ipnet::{IpNet, Ipv4Net};

use crate::draft::{Draft, Route};

/// The first address that hosts are given.
const FIRST: u8 = 100;

/// The network of a door by its number: 192.168.122.0/24, as libvirt has it, and those behind.
fn address(door: usize, host: u8) -> Option<Ipv4Net> {
    let third = u8::try_from(122 + door).ok()?;
    Ipv4Net::new(Ipv4Addr::new(192, 168, third, host), 24).ok()
}

/// Gives each door the address of the gateway, which is .1.
pub(super) fn doors(draft: &mut Draft) {
    let ends = draft.links.iter_mut().flat_map(|link| &mut link.ends);
    for (number, end) in ends.filter(|end| end.at == "internet").enumerate() {
        end.addresses.extend(address(number, 1).map(IpNet::V4));
    }
}

/// The door on the segment of a node's interface, by number: reached over switches alone.
fn door(draft: &Draft, name: &str, iface: &str) -> Option<usize> {
    let numbered = draft.links.iter().filter(|link| link.ends.iter().any(|e| e.at == "internet"));
    // In the order of `doors` above, so that a door's place is the number of its network.
    let doors: Vec<_> = numbered.map(std::ptr::from_ref).collect();
    let mut seen = BTreeSet::new();
    let first = |link: &&crate::draft::Link| {
        link.ends.iter().any(|e| e.at == name && e.iface.as_deref() == Some(iface))
    };
    let mut open: Vec<_> = draft.links.iter().filter(first).collect();
    while let Some(link) = open.pop() {
        // By place: two links may be alike in all that they say.
        if let Some(number) = doors.iter().position(|door| std::ptr::eq(*door, link)) {
            return Some(number);
        }
        for end in link.ends.iter().filter(|end| draft.has_switch(&end.at)) {
            if seen.insert(end.at.clone()) {
                let on = |link: &&crate::draft::Link| link.ends.iter().any(|e| e.at == end.at);
                open.extend(draft.links.iter().filter(on));
            }
        }
    }
    None
}

/// Gives a host that asks for an address by DHCP one of the door on its segment, with a default route; whether there is
/// a door.
pub(super) fn lease(name: &str, draft: &mut Draft) -> bool {
    let own = draft.links.iter().flat_map(|link| &link.ends).find(|end| end.at == name);
    let Some(iface) = own.and_then(|end| end.iface.clone()) else { return false };
    let Some(number) = door(draft, name, &iface) else { return false };
    let taken: BTreeSet<IpNet> =
        draft.links.iter().flat_map(|link| &link.ends).flat_map(|e| e.addresses.clone()).collect();
    let free = (FIRST..255).filter_map(|host| address(number, host).map(IpNet::V4));
    let Some(net) = free.into_iter().find(|net| !taken.contains(net)) else { return false };
    let ends = draft.links.iter_mut().flat_map(|link| &mut link.ends);
    if let Some(end) = ends.into_iter().find(|end| end.at == name && end.iface.is_some()) {
        end.addresses.push(net);
    }
    if let (Some(gateway), Some(node)) = (address(number, 1), draft.node(name)) {
        let (to, via) = ("default".to_owned(), Some(gateway.addr().to_string()));
        node.routes.push(Route { to, via, dev: None });
    }
    true
}
