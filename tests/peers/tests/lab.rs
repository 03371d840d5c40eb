//! VDE programs on the switch of a lab: they reach each other, a node there, and one on a bridge of the
//! kernel behind a plug.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use netloom_kit::Scratch;
use netloom_tests_peers::{SOON, VdePlug, arp_question, frame, is_arp_answer, needs};

const LAB: &str = "
name: peers
nodes: {a: {}, b: {}}
switches:
  s: {kind: shm, subnet: [10.99.7.0/24]}
  k: {}
links:
  - {ends: [a, s], addresses: {a: 10.99.7.1/24}}
  - {ends: [b, k], addresses: {b: 10.99.7.2/24}}
  - [s, k]
";

const X: [u8; 6] = [2, 0, 0, 0, 0, 0x1a];
const Y: [u8; 6] = [2, 0, 0, 0, 0, 0x1b];

/// Asks until an answer comes, of which the first may go to a station that does not know where to send it.
fn finds(plug: &mut VdePlug, mac: [u8; 6], own: Ipv4Addr, about: Ipv4Addr) {
    let until = Instant::now() + SOON;
    loop {
        assert!(Instant::now() < until, "{about} does not answer");
        plug.send(&arp_question(mac, own, about));
        while let Some(found) = plug.receive_within(Duration::from_millis(200)) {
            if is_arp_answer(&found, about) {
                return;
            }
        }
    }
}

/// Waits for one frame among what nodes say by themselves.
fn gets(plug: &mut VdePlug, wanted: &[u8]) -> bool {
    let until = Instant::now() + SOON;
    while Instant::now() < until {
        let found = plug.receive_within(Duration::from_millis(100));
        if found.as_deref() == Some(wanted) {
            return true;
        }
    }
    false
}

#[test]
fn vde_plugs_reach_each_other_a_node_and_a_bridge_behind_a_plug() {
    needs!("vde_plug");
    let scratch = Scratch::new();
    let file = scratch.file("lab.yaml", LAB);
    let guard = scratch.guard();
    scratch.netloom(["up".as_ref(), file.as_os_str()]).finish().code(0);
    let socket = scratch.runtime_dir().join(".switches/peers.s");
    let name = format!("netloom://{}", socket.display());
    let (mut x, mut y) = (VdePlug::start(&name), VdePlug::start(&name));
    let (own_x, own_y) = (Ipv4Addr::new(10, 99, 7, 8), Ipv4Addr::new(10, 99, 7, 9));
    for about in [Ipv4Addr::new(10, 99, 7, 1), Ipv4Addr::new(10, 99, 7, 2)] {
        finds(&mut x, X, own_x, about);
        finds(&mut y, Y, own_y, about);
    }
    // Both have been heard of: frames between them go by an edge.
    for number in 1..=20 {
        let (there, back) = (frame(Y, X, number, 60), frame(X, Y, number, 1514));
        x.send(&there);
        assert!(gets(&mut y, &there), "frame {number} there");
        y.send(&back);
        assert!(gets(&mut x, &back), "frame {number} back");
    }
    scratch.netloom(["down", "peers"]).finish().code(0);
    drop(guard);
}
