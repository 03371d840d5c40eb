//! The harness itself: fresh namespaces, and `ip` as second opinion.

use netloom_tests_netns::{ip, isolated};

#[test]
fn a_veth_pair_made_here_is_seen_here_only() {
    isolated!({
        ip("link add one type veth peer name two");
        ip("link set one up");
        let listed = ip("-o link show");
        assert!(listed.contains("one@two") || listed.contains("two@one"), "{listed}");
    });
}

#[test]
fn each_test_has_a_network_of_its_own() {
    isolated!({
        // Would fail if the name of the other test's link were taken here.
        ip("link add one type veth peer name two");
        ip("link del one");
    });
}
