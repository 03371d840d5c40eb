//! The crash test: kill -9 at a random moment of `up`, then `down`, then nothing may be left.
//!
//! Victims in turn: the `up` process, the lab process, an init, the wires' process, a switch in shared memory,
//! a plug. `NETLOOM_KILL_SEED`, `_COUNT` and `_FIRST` choose seed, number and first iteration; every iteration depends on seed and number only,
//! so that one can be run again alone: `cargo xtask test kill --seed S --first I --n 1`.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use netloom_tests_e2e::{Machine, Process, machine, processes, wait_until};

const LAB: &str = "killed";

#[test]
fn killed_at_any_moment_nothing_stays() {
    let machine = machine!();
    let number = |name: &str, default: u64| {
        std::env::var(name).ok().map_or(default, |text| text.parse().expect("a number"))
    };
    let seed = number("NETLOOM_KILL_SEED", 1);
    let (first, count) = (number("NETLOOM_KILL_FIRST", 0), number("NETLOOM_KILL_COUNT", 12));
    machine.file(&lab_file());
    let usual = usual_duration(&machine);
    println!("seed {seed}, iterations {first}..{}, a usual up takes {usual:?}", first + count);
    for iteration in first..first + count {
        let mut random = Random::new(seed, iteration);
        let delay = usual.mul_f64(random.fraction());
        let attempt = || one(&machine, iteration, delay, &mut random);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(attempt));
        if let Err(cause) = result {
            eprintln!("failed: seed {seed}, iteration {iteration}, killed after {delay:?};");
            eprintln!("again: cargo xtask test kill --seed {seed} --first {iteration} --n 1");
            std::panic::resume_unwind(cause);
        }
    }
    machine.untouched();
}

/// Sixteen nodes: a switch with hosts, one in shared memory with two, one with nodes in it, routers, links
/// between nodes, two with wires, programs, files; as root guarded ones, too.
fn lab_file() -> String {
    let mut text = String::from("name: killed\nnodes:\n");
    let guards = if netloom_tests_e2e::is_root() {
        "limits: {sockets: 50}, protect: {packets: 100k/s}, "
    } else {
        ""
    };
    writeln!(text, "  g: {{{guards}children: {{limit: 3, nodes: {{a: {{}}}}}}}}").unwrap();
    for host in 0..8 {
        writeln!(text, "  h{host}: {{run: [[tail, -f, /dev/null]], files: {{/srv/x: y}}}}")
            .unwrap();
    }
    for router in 0..4 {
        writeln!(text, "  r{router}: {{forwarding: true}}").unwrap();
    }
    text.push_str("  m0: {}\n  m1: {}\nswitches:\n  s1: {}\n  x: {kind: shm}\nlinks:\n");
    text.push_str("  - [m0, x]\n  - [m1, x]\n  - [x, s1]\n");
    for host in 0..8 {
        writeln!(text, "  - [h{host}, s1]").unwrap();
    }
    text.push_str("  - [s1, r0]\n  - [r0, r1]\n  - [r1, r2]\n  - [g, s1]\n");
    text.push_str("  - {ends: [r2, r3], delay: 1ms}\n  - {ends: [r3, s1], loss: 1%}\n");
    text
}

fn usual_duration(machine: &Machine) -> Duration {
    let mut took: Vec<Duration> = (0..3)
        .map(|_| {
            let took = machine.netloom(["up", "lab.yaml"]).finish().code(0).took;
            machine.netloom(["down", LAB]).finish().code(0);
            took
        })
        .collect();
    took.sort();
    netloom_tests_e2e::assert_same(machine.before());
    took[1]
}

fn one(machine: &Machine, iteration: u64, delay: Duration, random: &mut Random) {
    let start = Instant::now();
    let mut up = machine.netloom(["up", "lab.yaml"]).spawn();
    // The moment of the kill is the experiment, not a wait for readiness.
    std::thread::sleep(delay.saturating_sub(start.elapsed()));
    let victims = ["up", "lab", "init", "wire", "switch", "plug"];
    let victim = victims[usize::try_from(iteration).unwrap() % victims.len()];
    let hit = strike(machine, victim, &mut up, random);
    wait_until("`up` ends after the kill", Duration::from_secs(60), || up.try_wait().unwrap());
    let down = machine.netloom(["down", LAB]).finish();
    match down.status.code() {
        Some(0) => {}
        Some(1) if down.errors().contains(LAB) && nothing_in(&machine.scratch().runtime_dir()) => {}
        _ => panic!("down after killing {hit}\n{down}"),
    }
    netloom_tests_e2e::assert_same(machine.before());
}

/// Kills the victim, or `up` if there is none yet; tells which.
fn strike(machine: &Machine, victim: &str, up: &mut Child, random: &mut Random) -> String {
    let dir = machine.scratch().runtime_dir();
    let ours = |process: &Process| {
        let shown = process.is_of(&dir);
        process.comm == format!("netloom-{victim}") && shown && !process.zombie
    };
    let candidates: Vec<i32> =
        processes().into_values().filter(ours).map(|process| process.pid).collect();
    if victim == "up" || candidates.is_empty() {
        // It may be done already: then the lab is simply up.
        let _ = up.kill();
        return "up".to_owned();
    }
    let pid = candidates[random.below(candidates.len())];
    let pid = rustix::process::Pid::from_raw(pid).expect("a pid is not 0");
    // It may have ended since it was seen.
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    format!("{victim} {pid}")
}

/// The runtime directory itself goes with its last lab.
fn nothing_in(dir: &Path) -> bool {
    std::fs::read_dir(dir).map_or(true, |mut entries| entries.next().is_none())
}

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Random(u64);

impl Random {
    fn new(seed: u64, iteration: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ iteration.rotate_left(32))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// In 0..1.
    fn fraction(&mut self) -> f64 {
        f64::from(u32::try_from(self.next() >> 32).expect("32 bits")) / 4_294_967_296.0
    }

    fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).expect("a count");
        usize::try_from(self.next() % end).expect("below a count")
    }
}
