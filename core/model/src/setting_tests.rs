//! Values that are accepted and refused, and when receive work is charged.

use super::*;
use crate::Plan;

fn set(pairs: &[(&str, &str)]) -> Result<Settings, String> {
    let mut settings = Settings::default();
    for (key, text) in pairs {
        set_node(&mut settings, key, text)?;
    }
    Ok(settings)
}

#[test]
fn every_key_is_set_and_taken_away() {
    let mut settings = set(&[
        ("cpu", "150%"),
        ("weight", "300"),
        ("memory", "256MiB"),
        ("processes", "100"),
        ("sockets", "500"),
        ("packets", "200k/s"),
        ("bytes", "1GB/s"),
        ("charge-receive", "false"),
        ("children", "0"),
        ("privileged", "true"),
    ])
    .unwrap();
    let limits = &settings.limits;
    assert_eq!(
        (limits.cpu_milli, limits.weight, limits.memory),
        (Some(1500), Some(300), Some(1 << 28))
    );
    assert_eq!((limits.processes, limits.sockets), (Some(100), Some(500)));
    let Protect { packets, bytes } = settings.protect;
    assert_eq!((packets, bytes), (Some(200_000), Some(1_000_000_000)));
    assert_eq!((settings.charge_receive, settings.children), (Some(false), Some(0)));
    assert!(settings.privileged);
    for key in NODE_KEYS {
        set_node(&mut settings, key, "none").unwrap();
    }
    assert_eq!(settings, Settings::default());
}

#[test]
fn what_is_refused_names_the_key_and_what_may_stand_there() {
    for (key, text, reason) in [
        ("cpu", "0%", "cpu: at least 1% of a CPU is needed, found \"0%\""),
        ("cpu", "half", "cpu: expected a share of CPUs like 50% or 1.5, or none, found \"half\""),
        ("weight", "0", "weight: expected a whole number from 1 to 10000, or none, found 0"),
        (
            "cpu",
            "500m",
            "cpu: expected a share of CPUs like 50% or 1.5, or none, found \"500m\"; write 50%",
        ),
        (
            "memory",
            "512mb",
            "memory: expected a size like 256MiB, 1GB or 64k, or none, found \"512mb\"; write 512MB",
        ),
        ("memory", "1k", "memory: at least 1MiB is needed, found \"1k\""),
        ("sockets", "-1", "sockets: expected a whole number from 1 to 1000000, or none, found -1"),
        (
            "packets",
            "0",
            "packets: expected packets per second like 200k/s, at least 1, or none, found 0",
        ),
        (
            "bytes",
            "1Gb/s",
            "bytes: expected bytes per second like 1GB/s, at least 10kB/s, or none, found \"1Gb/s\"; write 125MB/s",
        ),
        ("charge-receive", "yes", "charge-receive: expected true, false or none, found \"yes\""),
        ("memroy", "1G", "unknown key \"memroy\"; did you mean \"memory\"?"),
    ] {
        assert_eq!(set(&[(key, text)]).unwrap_err(), reason);
    }
    assert!(set(&[("colour", "red")]).unwrap_err().ends_with(
        "keys: cpu, weight, memory, processes, sockets, packets, bytes, charge-receive, children, \
         privileged"
    ));
}

#[test]
fn receiving_is_charged_by_default_to_who_is_bounded() {
    let mut node = PlannedNode::fresh(&Plan::default(), "a", None);
    let change = |node: &mut PlannedNode, key: &str, text: &str| {
        let mut settings = Settings::of(node);
        set_node(&mut settings, key, text).unwrap();
        settings.put(node);
        node.charge_receive
    };
    assert!(change(&mut node, "cpu", "50%"));
    assert!(!change(&mut node, "charge-receive", "false"));
    assert!(!change(&mut node, "packets", "1k"));
    assert!(change(&mut node, "charge-receive", "none"));
    assert!(change(&mut node, "cpu", "none"));
    assert!(!change(&mut node, "packets", "none"));
}

#[test]
fn a_child_has_no_more_than_its_parent() {
    let plan = Plan::default();
    let mut parent = PlannedNode::fresh(&plan, "a", None);
    let mut child = PlannedNode::fresh(&plan, "a/b", Some(crate::plan::Slot::new(0)));
    child.limits.cpu_milli = Some(1005);
    child.limits.memory = Some(1 << 30);
    assert_eq!(check_bounds(&child, &parent), Ok(()));
    parent.limits.cpu_milli = Some(500);
    parent.limits.memory = Some(3 << 20);
    assert_eq!(
        check_bounds(&child, &parent).unwrap_err(),
        "cpu: 100.5% for node \"a/b\" is more than the 50% of node \"a\", which it lives in"
    );
    child.limits.cpu_milli = Some(500);
    assert!(check_bounds(&child, &parent).unwrap_err().starts_with("memory: 1GiB for node"));
    child.limits.memory = None;
    child.privileged = true;
    assert_eq!(
        check_bounds(&child, &parent).unwrap_err(),
        "privileged: node \"a/b\" lives in node \"a\", which is not privileged"
    );
    parent.privileged = true;
    assert_eq!(check_bounds(&child, &parent), Ok(()));
}
