//! The bytes of requests as another implementation reads them, and the splitting of batches.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};

use netlink_packet_core::NetlinkMessage;
use netlink_packet_route::RouteNetlinkMessage;
use proptest::prelude::*;

use super::*;
use crate::{
    Address, BridgeSpec, Change, DeleteAddress, DeleteLink, DeleteNeighbour, DeleteRoute, EndSpec,
    MoveLink, Neighbour, Route, VethSpec,
};

/// Reads the request by netlink-packet-route, which must write the same bytes again.
fn read_by_other(request: &impl Request) -> String {
    let mut bytes = Vec::new();
    request.encode(&mut bytes);
    let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&bytes).unwrap();
    let mut again = vec![0; message.buffer_len()];
    message.serialize(&mut again);
    assert_eq!(again, bytes, "{message:?}");
    format!("{:?}", message.payload)
}

fn assert_says(request: &impl Request, parts: &[&str]) {
    let text = read_by_other(request);
    for part in parts {
        assert!(text.contains(part), "no {part} in {text}");
    }
}

#[test]
fn veth() {
    let netns = File::open("/proc/self/ns/net").unwrap();
    let descriptor = format!("NetNsFd({})", netns.as_raw_fd());
    let a = EndSpec { index: Some(7), mac: Some([2, 0, 0, 0, 0, 9]), ..EndSpec::new("left") };
    let b = EndSpec { mtu: Some(9000), netns: Some(netns.as_fd()), ..EndSpec::new("right") };
    let pair = VethSpec { a_up: true, a_master: Some(5), ..VethSpec::new(a, b) };
    let expected = [
        "NewLink(",
        "index: 7, link_layer_type: Netrom, flags: LinkFlags(Up), change_mask: LinkFlags(Up)",
        "IfName(\"left\"), Address([2, 0, 0, 0, 0, 9])",
        "Controller(5)",
        "Kind(Veth), Data(Veth(Peer(LinkMessage",
        "index: 0, link_layer_type: Netrom, flags: LinkFlags(0x0), change_mask: LinkFlags(0x0)",
        "IfName(\"right\")",
        &descriptor,
        "Mtu(9000)",
    ];
    assert_says(&pair, &expected);
}

#[test]
fn bridge() {
    let spec = BridgeSpec { mtu: Some(1400), ..BridgeSpec::new("s1") };
    let expected = [
        "IfName(\"s1\"), Mtu(1400)",
        "Kind(Bridge)",
        "StpState(Disabled)",
        "ForwardDelay(0)",
        "MulticastSnooping(false)",
        "MulticastQuerier(false)",
        "NfCallIpTables(false), NfCallIp6Tables(false), NfCallArpTables(false)",
    ];
    assert_says(&spec, &expected);
}

#[test]
fn changes_of_links() {
    let down =
        "index: 3, link_layer_type: Netrom, flags: LinkFlags(0x0), change_mask: LinkFlags(Up)";
    assert_says(&Change::of(3).down(), &["NewLink(", down]);
    let both = "index: 0, link_layer_type: Netrom, flags: LinkFlags(Up | Promisc), change_mask: LinkFlags(Up | Promisc)";
    assert_says(&Change::of("e").promiscuous(true).up(), &[both, "IfName(\"e\")"]);
    assert_says(&Change::rename(3, "new"), &["index: 3", "IfName(\"new\")"]);
    assert_says(&Change::of(3).release(), &["Controller(0)"]);
    assert_says(&DeleteLink::new("gone"), &["DelLink(", "IfName(\"gone\")"]);
    let netns = File::open("/proc/self/ns/net").unwrap();
    let there = MoveLink { name: Some("far"), ..MoveLink::new(4, netns.as_fd()) };
    let descriptor = format!("NetNsFd({})", netns.as_raw_fd());
    assert_says(&there, &["index: 4", "IfName(\"far\")", &descriptor]);
}

#[test]
fn addresses_and_neighbours() {
    let four = Address::new(4, "10.1.2.3/24".parse().unwrap());
    let own = "Local(10.1.2.3), Address(10.1.2.3)";
    assert_says(&four, &["NewAddress(", "prefix_len: 24", own, "Broadcast(10.1.2.255)"]);
    let pair = Address::new(4, "10.1.2.3/31".parse().unwrap());
    assert!(!read_by_other(&pair).contains("Broadcast"));
    let six = Address::new(4, "fd00::1/64".parse().unwrap());
    assert_says(&six, &["family: Inet6", "index: 4", "Address(fd00::1)", "Nodad"]);
    assert_says(&DeleteAddress { link: 4, address: four.address }, &["DelAddress(", own]);
    let mac = [2, 0, 0, 0, 0, 1];
    let neighbour = Neighbour { link: 4, address: "10.0.0.9".parse().unwrap(), mac };
    let to = "Destination(Inet(10.0.0.9)), LinkLayerAddress([2, 0, 0, 0, 0, 1])";
    assert_says(&neighbour, &["ifindex: 4, state: Permanent", to]);
    let gone = DeleteNeighbour { link: 4, address: neighbour.address };
    assert_says(&gone, &["DelNeighbour(", "ifindex: 4", "Destination(Inet(10.0.0.9))"]);
}

#[test]
fn routes() {
    let via = Some("10.0.0.1".parse().unwrap());
    let route = Route::new("10.1.2.3/16".parse().unwrap(), via, 9);
    let head = "destination_prefix_length: 16";
    let rest = "protocol: Static, scope: Universe, kind: Unicast";
    let path = "[Destination(Inet(10.1.0.0)), Gateway(Inet(10.0.0.1)), Oif(9)]";
    assert_says(&route, &["NewRoute(", head, "table: 254", rest, path]);
    let here = Route { metric: Some(3), ..Route::new("10.0.0.0/8".parse().unwrap(), None, 9) };
    assert_says(&here, &["scope: Link", "Priority(3)"]);
    let default = Route::new("::/0".parse().unwrap(), Some("fd00::1".parse().unwrap()), 9);
    assert_says(&default, &["Inet6", "[Gateway(Inet6(fd00::1)), Oif(9)]"]);
    assert_says(&DeleteRoute::new(route.to), &["DelRoute(", "[Destination(Inet(10.1.0.0))]"]);
}

proptest! {
    #[test]
    fn chunks_follow_on_each_other_within_the_limits(
        names in proptest::collection::vec("[a-z]{1,40}", 1..60),
        bytes in 1usize..400,
        count in 1usize..20,
    ) {
        let mut batch = Batch::new();
        names.iter().for_each(|name| batch.push("link", &DeleteLink::new(name.as_str())));
        let mut first = 0;
        while first < batch.len() {
            let chunk = batch.chunk(first, bytes, count);
            prop_assert_eq!(chunk.start, first);
            prop_assert!(!chunk.is_empty() && chunk.len() <= count);
            let length = batch.stamp(chunk.clone(), chunk.end - 1, 1).len();
            prop_assert!(length <= bytes || chunk.len() == 1);
            let next = batch.stamp(first..(chunk.end + 1).min(batch.len()), first, 1).len();
            prop_assert!(chunk.len() == count || chunk.end == batch.len() || next > bytes);
            first = chunk.end;
        }
    }
}
