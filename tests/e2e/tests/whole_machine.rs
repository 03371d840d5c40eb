//! A lab leaves the whole machine as it was, not only what is known to be the lab's.

use netloom_tests_e2e::{Machine, Snapshot, is_root, machine, skip, workspace_root};

/// Nodes with programs, a bridge, a switch in shared memory, a wire; as root guards, too.
fn lab() -> String {
    let guards = if is_root() { "limits: {sockets: 50}, protect: {packets: 100k/s}" } else { "" };
    format!(
        "name: whole\nnodes:\n  a: {{{guards}}}\n  b: {{run: [[tail, -f, /dev/null]]}}\n  c: {{}}\n\
         switches: {{s: {{}}, m: {{kind: shm}}}}\n\
         links: [[a, s], [b, s], [a, m], [c, m], {{ends: [b, c], delay: 1ms}}]\n"
    )
}

#[test]
fn a_lab_leaves_the_machine_as_it_was() {
    let machine: Machine = machine!();
    let before = Snapshot::whole(&machine.scratch().runtime_dir());
    machine.up(&lab());
    assert!(!before.difference(&before.again()).is_empty(), "a lab is seen");
    // First what is certainly of this lab: that is a failure whatever else goes on.
    machine.down();
    let others = before.difference_that_stays();
    if !others.is_empty() {
        let some: Vec<&str> = others.lines().take(3).collect();
        skip!("busy: somebody else is at work on this machine: {}", some.join("; "));
    }
}

/// In namespaces of its own nobody else can be at work: here any difference is the lab's.
#[test]
fn a_lab_leaves_namespaces_of_their_own_as_they_were() {
    netloom_kit::root_only!("looks at a machine that is its own");
    netloom_kit::isolated!({
        let machine = Machine::new();
        let before = Snapshot::whole(&machine.scratch().runtime_dir());
        machine.up_file(&workspace_root().join("examples/two-sites.yaml"));
        machine.up(&lab());
        let difference = before.difference(&before.again());
        assert!(difference.contains("+ process"), "{difference}");
        machine.netloom(["down", "--all"]).finish().code(0);
        // Other labs of this machine have groups in the same tree.
        assert_eq!(before.lines_that_stay(|line| !line.contains(" cgroup ")), "");
        machine.untouched();
    });
}
