//! Loops of switches: a blocked port, no storm, and labs of others with loops.

use std::time::Duration;

use netloom_tests_e2e::{machine, wait_until};

const BOUND: Duration = Duration::from_secs(180);

#[test]
fn a_broadcast_goes_round_no_loop_of_bridges() {
    let machine = machine!();
    machine.up(
        "name: ring\nloops: allowed\npool: {ipv6: none}\nnodes: {h1: {}, h2: {}, h3: {}}\n\
         switches: {s1: {stp: true}, s2: {stp: true, subnet: 10.8.0.0/24}, s3: {stp: true}}\n\
         links: [[h1, s1], [h2, s2], [h3, s3], [s1, s2], [s2, s3], {ends: [s3, s1], delay: 1ms}, [s1, s3]]\n",
    );
    wait_until("all nodes to answer", BOUND, || {
        let said = machine.netloom(["ping", "--all", "-4"]).finish().text();
        said.starts_with("IPv4: 6 of 6 pairs answer").then_some(())
    });
    let frames = || -> u64 {
        let text = machine.exec("h3", &["cat", "/sys/class/net/eth0/statistics/rx_packets"]).ok();
        text.trim().parse().expect("a number")
    };
    let before = frames();
    // Nobody has this address: each of the three questions reaches all, once.
    machine.exec("h1", &["ping", "-c3", "-i0.2", "-W1", "10.8.0.99"]).finish().code(1);
    let more = frames() - before;
    assert!((1..30).contains(&more), "{more} frames");
    machine.down();
}
