//! Where few files may be open a lab that is too large for that is refused, one that fits comes up, and any lab is taken down.

use netloom_tests_e2e::live::kill_and_wait;
use netloom_tests_e2e::{Machine, Run, machine};

/// More nodes than files may be open.
const LAB: &str = "
name: many
nodes:
  'n{i}': {for: {i: 60}}
";

/// netloom with a limit of open files, which nobody may change.
fn with_few(machine: &Machine, files: u32, args: &[&str]) -> Run {
    Run::new("sh")
        .args(["-c", &format!("ulimit -n {files}; exec \"$0\" \"$@\"")])
        .args([netloom_kit::Binary::find().path()])
        .args(args)
        .env("NETLOOM_RUNTIME_DIR", machine.scratch().runtime_dir())
}

#[test]
fn a_lab_that_is_too_large_is_refused_and_leaves_nothing() {
    let machine = machine!();
    let file = machine.file(LAB);
    let refused = with_few(&machine, 40, &["up", file.to_str().expect("a path")]).finish().code(1);
    let refused = refused.says("40 files may be open at once");
    // What is left, if anything, has its reason there.
    eprintln!("{refused}");
    machine.untouched();
}

/// Each node has one open file, and while links are made namespaces of some nodes have one: two a node do not fit.
#[test]
fn a_lab_has_one_open_file_a_node() {
    let machine = machine!();
    let links: Vec<String> =
        (0..200).map(|node| format!("[n{node}, n{}]", (node + 1) % 200)).collect();
    let file = machine.file(&format!(
        "name: ring\nnodes:\n  'n{{i}}': {{for: {{i: 200}}}}\nlinks: [{}]\n",
        links.join(", ")
    ));
    let up = ["up", file.to_str().expect("a path")];
    with_few(&machine, 410, &up).finish().code(0);
    machine.answers("n0", "n1");
    // Nodes that are recreated have their links to others recreated.
    machine.inits().iter().skip(50).take(100).for_each(|(_, pid)| kill_and_wait(*pid));
    with_few(&machine, 410, &up).finish().code(0);
    machine.answers("n99", "n100");
    machine.down();
}

#[test]
fn a_lab_without_its_process_is_taken_down() {
    let machine = machine!();
    machine.up(LAB);
    kill_and_wait(machine.lab_process());
    with_few(&machine, 40, &["down"]).finish().code(0);
    machine.untouched();
}
