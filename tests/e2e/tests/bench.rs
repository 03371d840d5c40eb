//! `netloom bench`: it becomes netloom-bench, says how to get it, and experiments that are ended before they are done leave
//! nothing.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use netloom_kit::{Binary, Run, wait_until};
use netloom_tests_e2e::live::gone;
use netloom_tests_e2e::{Machine, descendants, machine, signal};
use rustix::process::Signal;

const BOUND: Duration = Duration::from_secs(180);

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

/// A copy of netloom without netloom-bench beside it.
fn alone(machine: &Machine) -> PathBuf {
    let folder = machine.scratch().path().join("alone");
    std::fs::create_dir(&folder).unwrap();
    let (binary, copy) = (Binary::find(), folder.join("netloom"));
    let linked = std::fs::hard_link(binary.path(), &copy);
    linked.or_else(|_| std::fs::copy(binary.path(), &copy).map(drop)).unwrap();
    copy
}

#[test]
fn a_bench_that_is_not_installed_says_how_to_get_it() {
    let machine = machine!();
    let netloom = alone(&machine);
    for words in [&["bench", "lab", "--quick"][..], &["bench", "--help"]] {
        let refused = Run::new(&netloom).args(words).env("PATH", "/nowhere").finish().code(3);
        let refused = refused.says("bench: not available here: there is no netloom-bench in ");
        let refused = refused.says("and none in PATH; install the package netloom-bench");
        refused.says("--package netloom-bench`");
    }
    // Where there is nothing to complete, that does not fail.
    let words = ["complete-words", "--", "bench", "la"];
    let none = Run::new(&netloom).args(words).env("PATH", "/nowhere").finish().code(0);
    assert_eq!(none.text(), "");
    assert!(Run::new(&netloom).args(["--help"]).finish().text().contains("\n  bench "));
    machine.untouched();
}

#[test]
fn words_descriptors_and_the_exit_code_are_those_of_the_bench() {
    let machine = machine!();
    let netloom = alone(&machine);
    let other = |folder: &Path, name: &str, code: u8| {
        let path = folder.join("netloom-bench");
        let script = format!(
            "#!/bin/sh\necho {name}\nprintf '<%s>' \"$@\"\necho\necho \"$NETLOOM_BIN\"\ncat\ncat <&9\necho told >&2\nexit {code}\n"
        );
        std::fs::write(&path, script).unwrap();
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    };
    let elsewhere = machine.scratch().path().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let nine = machine.scratch().file("nine", "by descriptor 9\n");
    let path = format!("{}:{}", elsewhere.display(), std::env::var("PATH").unwrap_or_default());
    let run = |name: &str, code: i32| {
        let words = ["bench", "--quick", "a b", "$(touch x)", "-l", "--help", "--report=*"];
        let given = Run::new("/bin/sh").args(["-c", "exec 9<\"$1\"; shift; exec \"$@\"", "sh"]);
        let done = given.args([&nine, &netloom]).args(words).env("PATH", &path);
        let done = done.input("by input\n").finish().code(code);
        assert_eq!(
            done.text(),
            format!(
                "{name}\n<--quick><a b><$(touch x)><-l><--help><--report=*>\n{}\nby input\nby descriptor 9\n",
                netloom.display()
            )
        );
        assert_eq!(done.stderr, b"told\n");
    };
    other(&elsewhere, "of PATH", 7);
    run("of PATH", 7);
    other(netloom.parent().unwrap(), "beside", 0);
    run("beside", 0);
    machine.untouched();
}

#[test]
fn help_and_candidates_come_from_the_bench() {
    let machine = machine!();
    let help = machine.netloom(["bench", "--help"]).finish().code(0).text();
    assert!(help.contains("Usage: netloom bench") && help.contains("--report <DIR>"), "{help}");
    machine.netloom(["bench", "labb"]).finish().code(2).says("a similar value exists: 'lab'");
    let words = machine.netloom(["complete-words", "--", "-l", "x", "bench", "--quick", "pe"]);
    assert!(words.finish().text().starts_with("people\tWhat people wait for"));
    machine.untouched();
}
