//! Others' programs on our switches, in one executable.

mod browser;
mod conformance;
mod controllers;
mod guard;
mod images;
mod lab;
mod openflow;
mod openflow_examples;
mod qemu;
mod slices;
mod vde;

/// A switch that the other tests join.
#[test]
#[ignore = "helper: started by other tests"]
fn switch_process() {
    netloom_tests_peers::serve_as_switch();
}

/// An OpenFlow switch that tests start.
#[test]
#[ignore = "helper: started by other tests"]
fn openflow_switch_process() {
    conformance::serve();
}
