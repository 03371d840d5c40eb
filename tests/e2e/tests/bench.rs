//! Experiments that are ended before they are done leave nothing.

use std::path::{Path, PathBuf};
use std::time::Duration;

use netloom_kit::wait_until;
use netloom_tests_e2e::live::gone;
use netloom_tests_e2e::{Machine, descendants, machine, signal};
use rustix::process::Signal;

const BOUND: Duration = Duration::from_secs(60);

/// The process that an experiment has beside it, and the folders that it is to remove: of running labs, and of files.
fn sweeper(bench: i32) -> Option<(i32, [PathBuf; 2])> {
    let named = |pid: i32| {
        let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
        let mut words = line.split('\0').skip_while(|word| *word != "sweep").skip(1);
        Some((pid, [PathBuf::from(words.next()?), PathBuf::from(words.next()?)]))
    };
    descendants(bench).into_iter().find_map(named)
}

/// Whether a lab is running there.
fn has_lab(machine: &Machine, runtime: &Path) -> bool {
    let status = machine.netloom(["status", "--json"]).env("NETLOOM_RUNTIME_DIR", runtime).finish();
    status.status.success()
}

fn leaves_nothing(by: Signal) {
    let machine = machine!();
    let mut bench = machine.netloom(["bench", "node", "--quick"]).spawn();
    let pid = i32::try_from(bench.id()).unwrap();
    let (other, folders) = wait_until("the experiment begins", BOUND, || sweeper(pid));
    wait_until("a lab of its is up", BOUND, || has_lab(&machine, &folders[0]).then_some(()));
    signal(pid, by);
    bench.wait().unwrap();
    wait_until("its folders are gone", BOUND, || {
        folders.iter().all(|folder| !folder.exists()).then_some(())
    });
    wait_until("the other process has ended", BOUND, || gone(other).then_some(()));
    machine.untouched();
}

#[test]
fn an_experiment_that_is_killed_leaves_nothing() {
    leaves_nothing(Signal::KILL);
}

#[test]
fn an_experiment_that_is_terminated_leaves_nothing() {
    leaves_nothing(Signal::TERM);
}
