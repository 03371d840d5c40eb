//! The Python package: its own tests with the real program, its examples, its wheel.

use std::path::{Path, PathBuf};
use std::time::Duration;

use netloom_kit::Binary;
use netloom_tests_e2e::{Machine, Run, is_root, machine, needs, program, workspace_root};

/// Where `make peers` puts the package that builds wheels.
const FLIT: &str = "/usr/local/lib/netloom-peers/flit-core/bin/python";

fn package() -> PathBuf {
    workspace_root().join("python")
}

/// A run of pytest with the package as it stands in the workspace, or as it is installed in a folder.
fn pytest(machine: &Machine, installed: Option<&Path>, args: &[&str]) -> Run {
    let python = program("python3").expect("set-up installs it");
    let scratch = machine.scratch().path();
    let temporary = format!("--basetemp={}", scratch.join("tmp").display());
    let run = Run::new(python).args(["-m", "pytest", "-q", "-p", "no:cacheprovider", &temporary]);
    let run = match installed {
        Some(folder) => run.env("PYTHONPATH", folder).env("PYNETLOOM_INSTALLED", "1"),
        None => run
            .args(["-p", "pynetloom.pytest_plugin"])
            .env("PYTHONPATH", package().join("src"))
            .env("PYNETLOOM_INSTALLED", ""),
    };
    // A skip in Python would not be seen here.
    run.args(["--netloom-require", "--netloom-artifacts"])
        .args([scratch.join("artifacts")])
        .args(args)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("PYNETLOOM_BINARY", Binary::find().path())
        .env("NETLOOM_RUNTIME_DIR", machine.scratch().runtime_dir())
        .env("NETLOOM_DATA_DIR", scratch.join("data"))
        .dir(scratch)
        .bound(Duration::from_secs(600))
}

/// Runs a file of tests: all pass.
fn passes(machine: &Machine, file: &str, args: &[&str]) {
    let file = package().join(file);
    let file = file.to_str().expect("a path of the workspace");
    let done = pytest(machine, None, &[&[file][..], args].concat()).finish().code(0);
    let text = done.text();
    assert!(!text.contains("skipped") && text.contains(" passed"), "{done}");
}

#[test]
fn generated_files_are_what_the_document_gives() {
    let python = program("python3").expect("set-up installs it");
    let generator = package().join("generate.py");
    let told = Run::new(python).args([generator.as_os_str(), "--check".as_ref()]).ok();
    assert_eq!(told.matches("as it should be").count(), 3, "{told}");
}

#[test]
fn the_client_reads_what_a_server_says() {
    needs!("pytest");
    let machine = Machine::new();
    passes(&machine, "tests/test_generated.py", &[]);
    passes(&machine, "tests/test_transport.py", &[]);
    machine.untouched();
}

#[test]
fn labs_nodes_and_links_are_driven() {
    needs!("pytest", "curl", "ps", "python3");
    let machine = machine!();
    let which: &[&str] = if is_root() { &[] } else { &["-m", "not root"] };
    passes(&machine, "tests/test_lab.py", which);
    machine.untouched();
}

#[test]
fn the_plug_in_takes_labs_down_however_tests_end() {
    needs!("pytest", "pytest-xdist", "curl", "python3");
    let machine = machine!();
    passes(&machine, "tests/test_plugin.py", &["-n", "2"]);
    machine.untouched();
}

#[test]
fn the_example_of_a_firewall_passes() {
    needs!("pytest", "pytest-xdist", "curl", "nft", "python3");
    let machine = machine!();
    passes(&machine, "examples/test_firewall.py", &["-n", "2"]);
    machine.untouched();
}

#[test]
fn the_example_of_a_failover_passes() {
    needs!("pytest", "pytest-xdist", "frr");
    let machine = machine!();
    passes(&machine, "examples/test_failover.py", &["-n", "2"]);
    machine.untouched();
}

/// Builds a wheel of a copy of the package in a folder of its own.
fn built(machine: &Machine, name: &str) -> Vec<u8> {
    let folder = machine.scratch().path().join(name);
    std::fs::create_dir(&folder).expect("make the folder");
    let copy = folder.join("python");
    Run::new("cp").args(["--recursive", "--dereference"]).args([package(), copy.clone()]).ok();
    let script = package().join("wheel.sh");
    let wheel = Run::new("sh").args([script, copy, folder]).ok();
    std::fs::read(wheel.trim()).unwrap_or_else(|error| panic!("read {}: {error}", wheel.trim()))
}

#[test]
fn a_wheel_has_the_same_bytes_wherever_it_is_built_and_pytest_finds_the_plug_in() {
    needs!("flit-core", "pytest", "curl", "python3");
    assert!(Path::new(FLIT).exists(), "the probe has found it");
    let machine = machine!();
    let wheel = built(&machine, "one");
    assert!(wheel == built(&machine, "another-folder"), "two builds differ");
    let version = env!("CARGO_PKG_VERSION");
    let file = machine.scratch().file(&format!("pynetloom-{version}-py3-none-any.whl"), &wheel);
    let folder = machine.scratch().path().join("site");
    let python = program("python3").expect("set-up installs it");
    let unpack = ["-m", "zipfile", "-e"].map(Into::into);
    Run::new(python).args(unpack.into_iter().chain([file, folder.clone()])).ok();
    assert!(folder.join(format!("pynetloom-{version}.dist-info/licenses/LICENSE-MIT")).exists());
    assert!(folder.join("pynetloom/py.typed").exists());
    let tests = package().join("tests/test_plugin.py");
    let one = format!("{}::test_a_factory_and_a_mark", tests.display());
    pytest(&machine, Some(&folder), &[&one]).finish().code(0);
    machine.untouched();
}
