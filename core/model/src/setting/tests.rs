//! When receive work is charged, and limits of nodes in nodes.

use super::*;
use crate::plan::PlannedNode;
use crate::{Plan, set_node};

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
