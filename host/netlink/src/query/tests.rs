//! The decoders accept any bytes, and decode what another implementation writes.

use netlink_packet_core::NetlinkMessage;
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteMessage, RouteNextHop, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use proptest::prelude::*;

use super::*;
use crate::decode::{Message, answer, messages};

proptest! {
    #[test]
    fn no_bytes_make_a_reader_panic(datagram in proptest::collection::vec(any::<u8>(), 0..512)) {
        for message in messages(&datagram) {
            let _ = answer(&message);
        }
        for kind in [RTM_NEWLINK, RTM_NEWADDR, RTM_NEWROUTE] {
            for flags in [0, ACK_TLVS, ACK_TLVS | CAPPED] {
                let message = Message { kind, flags, sequence: 1, payload: &datagram };
                let _ = (read_link(&message), read_address(&message), read_route(&message));
                let _ = answer(&message);
            }
        }
        let _ = next_hops(&datagram).count();
    }

    #[test]
    fn walks_end(datagram in proptest::collection::vec(any::<u8>(), 0..512)) {
        prop_assert!(messages(&datagram).count() <= datagram.len() / HEADER + 1);
        prop_assert!(attributes(&datagram).count() <= datagram.len() / 4 + 1);
    }
}

/// Written by netlink-packet-route, decoded here.
fn written_by_other(message: RouteMessage) -> Option<RouteInfo> {
    let mut packet = NetlinkMessage::from(RouteNetlinkMessage::NewRoute(message));
    packet.finalize();
    let mut bytes = vec![0; packet.buffer_len()];
    packet.serialize(&mut bytes);
    messages(&bytes).find_map(|message| read_route(&message))
}

fn default_route() -> RouteMessage {
    let mut route = RouteMessage::default();
    route.header.address_family = AddressFamily::Inet;
    route.header.table = RT_TABLE_MAIN;
    route.header.kind = RouteType::Unicast;
    route
}

#[test]
fn a_route_of_several_paths_has_several_links() {
    let mut route = default_route();
    let hop = |link: u32| {
        let mut hop = RouteNextHop::default();
        hop.interface_index = link;
        let gateway = RouteAddress::Inet([10, 0, 0, 1].into());
        hop.attributes.push(RouteAttribute::Gateway(gateway));
        hop
    };
    route.attributes.push(RouteAttribute::MultiPath(vec![hop(3), hop(9)]));
    route.attributes.push(RouteAttribute::Priority(20));
    let read = written_by_other(route).unwrap();
    assert_eq!((read.links, read.via, read.metric), (vec![3, 9], None, 20));
    assert_eq!(read.to.to_string(), "0.0.0.0/0");
}

#[test]
fn routes_of_other_tables_and_kinds_are_left_out() {
    assert!(written_by_other(default_route()).is_some());
    let mut local = default_route();
    local.header.kind = RouteType::Local;
    assert_eq!(written_by_other(local), None);
    let mut other = default_route();
    other.attributes.push(RouteAttribute::Table(100));
    assert_eq!(written_by_other(other), None);
}
