//! The demo's lab: a real download through two routers, and nothing left afterwards.

use netloom_tests_e2e::{Snapshot, machine, workspace_root};

#[test]
fn a_download_crosses_two_routers() {
    let machine = machine!();
    machine.up_file(&workspace_root().join("examples/two-sites.yaml"));
    let during = Snapshot::take(&machine.scratch().runtime_dir());
    let made = during.count("netns") - machine.before().count("netns");
    assert!(made >= 5, "the leftovers check sees {made} namespaces of a lab with 5 nodes");
    machine.answers("h1", "web");
    assert_eq!(machine.exec("h1", &["curl", "-fsS", "http://web/"]).ok(), "hello\n");
    let ping = machine.exec("h1", &["ping", "-c", "1", "-W", "30", "web"]).ok();
    assert!(ping.contains("ttl=62"), "two routers take one each from 64: {ping}");
    machine.all_reach_all();
    assert_eq!(machine.status()["nodes"].as_array().map(Vec::len), Some(5));
    machine.netloom(["down", "two-sites"]).finish().code(0);
    machine.down();
}

#[test]
fn ping_all_fails_when_a_node_is_cut_off() {
    let machine = machine!();
    machine.up_file(&workspace_root().join("examples/two-sites.yaml"));
    machine.exec("h2", &["ip", "link", "set", "eth0", "down"]).ok();
    let done = machine.netloom(["ping", "--all"]).finish().code(1);
    assert!((done.text() + &done.errors()).contains("h2"), "{done}");
    machine.down();
}
