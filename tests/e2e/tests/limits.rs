//! Limits are enforced on a node's processes together, also on those of `exec`.

use netloom_tests_e2e::{assert_same, machine, needs, needs_cgroups, pair};

#[test]
fn a_memory_hog_is_killed() {
    needs_cgroups!();
    let machine = machine!();
    machine.up(&pair("limits: {memory: 64MiB}"));
    let hog = "b = bytearray(256 << 20)\nfor i in range(0, len(b), 4096): b[i] = 1";
    let done = machine.exec("a", &["python3", "-c", hog]).finish().code(137);
    assert!(done.stdout.is_empty());
    machine.exec("b", &["python3", "-c", hog]).finish().code(0);
    machine.down();
}

#[test]
fn forks_beyond_the_limit_fail() {
    needs_cgroups!();
    let machine = machine!();
    machine.up(&pair("limits: {processes: 20}"));
    // Every child is killed by its pid: a signal to the group would reach the test itself.
    let fork = "import os, time\nmade = []\ntry:\n  while len(made) < 100:\n    child = os.fork()\n    \
                if child == 0: time.sleep(600)\n    made.append(child)\n\
                except BlockingIOError: pass\nprint(len(made))\n\
                for child in made: os.kill(child, 9)\nfor child in made: os.waitpid(child, 0)";
    let made = |node| {
        let done = machine.exec(node, &["python3", "-c", fork]).finish().code(0);
        done.text().trim().parse::<u32>().unwrap_or_else(|_| panic!("no number: {done}"))
    };
    assert!((10..20).contains(&made("a")));
    assert_eq!(made("b"), 100);
    machine.down();
}

#[test]
fn a_spinning_program_gets_its_share_of_a_cpu() {
    needs_cgroups!();
    let machine = machine!();
    machine.up(&pair("limits: {cpu: 20%}"));
    // Two seconds of wall time, or more on a busy machine; the quota may be overrun by a period at either end.
    let spin = "import time\nbegin = time.monotonic()\nwhile time.monotonic() < begin + 2: pass\n\
                print(time.process_time() / (time.monotonic() - begin))";
    let share: f64 = machine.exec("a", &["python3", "-c", spin]).ok().trim().parse().unwrap();
    assert!(share < 0.35, "20 % of a CPU allowed, {share} used");
    machine.down();
}

#[test]
fn a_user_without_cgroups_is_told() {
    needs!("user-without-cgroups");
    let machine = machine!();
    let file = machine.file(&pair("limits: {memory: 64MiB}"));
    let file = file.to_str().unwrap();
    machine.netloom(["up", file]).finish().code(3).says("--ignore-limits");
    assert_same(machine.before());
    machine.netloom(["up", file, "--ignore-limits"]).finish().code(0);
    machine.all_reach_all();
    machine.down();
}
