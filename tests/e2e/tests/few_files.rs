//! Where few files may be open a lab that is too large for that is refused, and any lab is taken down.

use netloom_tests_e2e::live::kill_and_wait;
use netloom_tests_e2e::{Machine, Run, machine};

/// More nodes than files may be open.
const LAB: &str = "
name: many
nodes:
  'n{i}': {for: {i: 60}}
";

/// netloom where 40 files may be open, which nobody may change.
fn with_few(machine: &Machine, args: &[&str]) -> Run {
    Run::new("sh")
        .args(["-c", "ulimit -n 40; exec \"$0\" \"$@\""])
        .args([netloom_kit::Binary::find().path()])
        .args(args)
        .env("NETLOOM_RUNTIME_DIR", machine.scratch().runtime_dir())
}

#[test]
fn a_lab_that_is_too_large_is_refused_and_leaves_nothing() {
    let machine = machine!();
    let file = machine.file(LAB);
    let refused = with_few(&machine, &["up", file.to_str().expect("a path")]).finish().code(1);
    refused.says("40 files may be open at once");
    machine.untouched();
}

#[test]
fn a_lab_without_its_process_is_taken_down() {
    let machine = machine!();
    machine.up(LAB);
    kill_and_wait(machine.lab_process());
    with_few(&machine, &["down"]).finish().code(0);
    machine.untouched();
}
