//! The crash tests: kill -9 at a random moment of `up`, or while a lab is used, then `down`, then nothing may be left.
//!
//! Victims in turn: of `up` the `up` process itself, the lab process, the spawner, an init, the wires' process, a switch in
//! shared memory, a plug, an OpenFlow switch; of a lab in use also captures, generators and measurements. Each is hit at a random moment of its
//! own life while the verb works, so that all are hit alike. `NETLOOM_KILL_SEED`, `_COUNT` and `_FIRST` choose seed, number
//! and first iteration; victim and moment, as a part of that life, depend on seed and number only, so that one iteration can
//! be run again alone: `cargo xtask test kill --seed S --first I --n 1`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use netloom_digest::splitmix::{SplitMix64, mix};
use netloom_tests_e2e::capturing::Capturing;
use netloom_tests_e2e::live::Held;
use netloom_tests_e2e::{
    Machine, Process, Snapshot, done, is_root, machine, processes, root_only, rounds, wait_until,
};

const LAB: &str = "killed";

/// Parts of a lab, as their processes are named behind `netloom-`.
const PARTS: [&str; 7] = ["lab", "spawn", "init", "wire", "switch", "plug", "flow"];

#[test]
fn killed_at_any_moment_nothing_stays() {
    let machine = machine!();
    machine.file(&lab_file());
    let usual = Usual::measure(&machine);
    let victims: Vec<&str> = ["up"].into_iter().chain(PARTS).collect();
    each_round(12, |iteration, random| {
        one(&machine, Verb::Up, of_turn(&victims, iteration), &usual, random)
    });
    machine.untouched();
}

#[test]
fn killed_while_a_lab_is_used_nothing_stays() {
    let machine = machine!();
    machine.file(&lab_file());
    let mut victims: Vec<&str> = PARTS.into_iter().chain(["capture", "generate"]).collect();
    victims.extend(is_root().then_some("measure"));
    let times = u32::try_from(victims.len()).expect("few");
    each_round(times, |iteration, random| {
        one_in_use(&machine, of_turn(&victims, iteration), iteration, random)
    });
    machine.untouched();
}

/// A lab with a door of each kind.
const DOORS: &str = "
name: killed
nodes: {gateway: {forwarding: true}, inside: {}}
switches: {office: {}, x: {kind: shm}}
links: [[inside, gateway], [gateway, internet], [gateway, office], [office, host:eth1], [inside, x]]
";

/// What doors find in a namespace that plays the host.
const HOST: &str = "
set -e
ip link set lo up
ip link add uplink type veth peer name far
ip link add eth1 type veth peer name outside
ip addr add 203.0.113.1/24 dev uplink
for link in uplink far outside; do ip link set $link up; done
ip route add default via 203.0.113.9
";

/// Settings of the host that labs with doors change and set back.
const SETTINGS: [&str; 3] =
    ["ipv4/ip_forward", "ipv6/conf/all/forwarding", "ipv4/conf/uplink/forwarding"];

#[test]
fn killed_while_doors_open_and_close_the_host_is_as_it_was() {
    root_only!("opens doors to the host");
    netloom_kit::isolated!({
        let host = std::process::Command::new("sh").args(["-c", HOST]).status();
        assert!(host.expect("start sh").success(), "a host of its own");
        let settings = || SETTINGS.map(|name| std::fs::read(format!("/proc/sys/net/{name}")).ok());
        let machine = Machine::new();
        machine.file(DOORS);
        let before = (Snapshot::whole(&machine.scratch().runtime_dir()), settings());
        let usual = Usual::measure(&machine);
        each_round(8, |iteration, random| {
            let verb = if (iteration / 4) % 2 == 0 { Verb::Up } else { Verb::Down };
            let victims = [verb.name(), "lab", "spawn", "init"];
            let hit = one(&machine, verb, of_turn(&victims, iteration), &usual, random);
            // Other labs of this machine have groups in the same tree.
            let stayed = before.0.lines_that_stay(|line| !line.contains(" cgroup "));
            assert_eq!(stayed, "", "after {hit}");
            assert_eq!(settings(), before.1, "after {hit}");
            hit
        });
        machine.untouched();
    });
}

/// Does it as often as is asked for; tells how to do one again that fails, and what was hit how often.
fn each_round(usual: u32, mut attempt: impl FnMut(u64, &mut SplitMix64) -> String) {
    let number = |name: &str, default: u64| {
        std::env::var(name).ok().map_or(default, |text| text.parse().expect("a number"))
    };
    let seed = number("NETLOOM_KILL_SEED", 1);
    let first = number("NETLOOM_KILL_FIRST", 0);
    let count = number("NETLOOM_KILL_COUNT", rounds(usual).into());
    println!("seed {seed}, iterations {first}..{}", first + count);
    let mut hits = BTreeMap::<String, u64>::new();
    for iteration in first..first + count {
        let mut random = SplitMix64::new(mix(seed).wrapping_add(iteration));
        let attempt = || attempt(iteration, &mut random);
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(attempt)) {
            Ok(victim) => *hits.entry(victim).or_default() += 1,
            Err(cause) => {
                eprintln!("failed: seed {seed}, iteration {iteration};");
                eprintln!("again: cargo xtask test kill --seed {seed} --first {iteration} --n 1");
                std::panic::resume_unwind(cause);
            }
        }
    }
    let hits: Vec<String> = hits.iter().map(|(victim, n)| format!("{victim} {n}")).collect();
    done(&format!("kills: {}", hits.join(", ")), count);
}

fn of_turn<'a>(victims: &[&'a str], iteration: u64) -> &'a str {
    let count = u64::try_from(victims.len()).expect("few");
    victims[usize::try_from(iteration % count).expect("below a count")]
}

/// Sixteen nodes: a switch with hosts, one in shared memory and one of OpenFlow with two, one with nodes in it, routers, links
/// between nodes, two with wires, programs, files; as root guarded ones, too.
fn lab_file() -> String {
    let mut text = String::from("name: killed\nnodes:\n");
    let guards = if is_root() { "limits: {sockets: 50}, protect: {packets: 100k/s}, " } else { "" };
    writeln!(text, "  g: {{{guards}children: {{limit: 3, nodes: {{a: {{}}}}}}}}").unwrap();
    for host in 0..8 {
        writeln!(text, "  h{host}: {{run: [[tail, -f, /dev/null]], files: {{/srv/x: y}}}}")
            .unwrap();
    }
    for router in 0..4 {
        writeln!(text, "  r{router}: {{forwarding: true}}").unwrap();
    }
    text.push_str("  m0: {}\n  m1: {}\nswitches:\n  s1: {}\n  x: {kind: shm}\n");
    text.push_str("  o: {kind: openflow}\nlinks:\n");
    text.push_str("  - [m0, x]\n  - [m1, x]\n  - [x, s1]\n  - [m0, o]\n  - [m1, o]\n");
    for host in 0..8 {
        writeln!(text, "  - [h{host}, s1]").unwrap();
    }
    text.push_str("  - [s1, r0]\n  - [r0, r1]\n  - [r1, r2]\n  - [g, s1]\n");
    text.push_str("  - {ends: [r2, r3], delay: 1ms}\n  - {ends: [r3, s1], loss: 1%}\n");
    text
}

/// What works when something is killed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verb {
    Up,
    Down,
}

impl Verb {
    fn name(self) -> &'static str {
        match self {
            Verb::Up => "up",
            Verb::Down => "down",
        }
    }

    fn start(self, machine: &Machine) -> Child {
        match self {
            Verb::Up => machine.netloom(["up", "lab.yaml"]).spawn(),
            Verb::Down => machine.netloom(["down", LAB]).spawn(),
        }
    }
}

/// How long things take here without a kill.
struct Usual {
    up: Duration,
    down: Duration,
    /// How long the last process of each part lives while `down` works.
    going: BTreeMap<&'static str, Duration>,
}

impl Usual {
    fn measure(machine: &Machine) -> Usual {
        let mut usual = Usual { up: Duration::MAX, down: Duration::MAX, going: BTreeMap::new() };
        for _ in 0..3 {
            let up = machine.netloom(["up", "lab.yaml"]).finish().code(0).took;
            usual.up = usual.up.min(up);
            let begin = Instant::now();
            let mut down = Verb::Down.start(machine);
            let mut seen = BTreeMap::new();
            while down.try_wait().expect("wait for `down`").is_none() {
                let now = begin.elapsed();
                let parts = PARTS.into_iter().filter(|part| !living(machine, part).is_empty());
                seen.extend(parts.map(|part| (part, now)));
            }
            usual.down = usual.down.min(begin.elapsed());
            for (part, last) in seen {
                let least = usual.going.entry(part).or_insert(last);
                *least = last.min(*least);
            }
        }
        netloom_tests_e2e::assert_same(machine.before());
        println!("a usual up takes {:?}, a usual down {:?}", usual.up, usual.down);
        usual
    }

    /// How long a victim lives, from now on, while the verb works.
    fn life(&self, verb: Verb, victim: &str, begin: Instant) -> Duration {
        match verb {
            Verb::Up => self.up.saturating_sub(begin.elapsed()),
            Verb::Down => self.going.get(victim).copied().unwrap_or(self.down),
        }
    }
}

/// One kill of a victim, or of the verb itself, at a random moment while the verb works; returns the process that was hit.
fn one(
    machine: &Machine,
    verb: Verb,
    victim: &str,
    usual: &Usual,
    random: &mut SplitMix64,
) -> String {
    if verb == Verb::Down {
        machine.netloom(["up", "lab.yaml"]).finish().code(0);
    }
    let begin = Instant::now();
    let mut working = verb.start(machine);
    let itself = victim == verb.name();
    if verb == Verb::Up && !itself {
        // It lives on when `up` is done.
        let found = || (!living(machine, victim).is_empty()).then_some(());
        wait_until(&format!("a process netloom-{victim}"), SOON, found);
    }
    // The moment of the kill is the experiment, not a wait for readiness.
    std::thread::sleep(usual.life(verb, victim, begin).mul_f64(random.fraction()));
    let after = begin.elapsed();
    let hit = if !itself && strike(machine, victim, random).is_some() {
        victim
    } else if working.try_wait().expect("wait for the verb").is_none() {
        let _ = working.kill();
        verb.name()
    } else {
        "nobody"
    };
    wait_until("the verb ends after the kill", SOON, || working.try_wait().unwrap());
    let during = if verb == Verb::Down { " while the lab goes" } else { "" };
    take_down(machine, &format!("{hit} after {after:?}{during}"));
    netloom_tests_e2e::assert_same(machine.before());
    format!("{hit}{during}")
}

/// What uses a lab beside its nodes.
struct Users {
    capture: Option<Capturing>,
    /// Another one, of a switch in shared memory.
    mirror: Option<Capturing>,
    generate: Child,
    measure: Option<Held>,
}

impl Users {
    fn start(machine: &Machine) -> Users {
        let capture = |target: &str, file: &str| Some(Capturing::start(machine, target, file));
        let measure = ["measure", "r1", "r2", "--json"];
        let mut measure = is_root().then(|| Held::start(machine.netloom(measure)));
        // Its points stand when it has told of them.
        measure.as_mut().map(Held::line);
        Users {
            capture: capture("h0:eth0 r2", "nodes.pcapng"),
            mirror: capture("switch:x", "switch.pcapng"),
            generate: machine.netloom("generate h0:eth0 --to h1 --rate 1000pps".split(' ')).spawn(),
            measure,
        }
    }

    fn kill(&mut self, victim: &str, random: &mut SplitMix64) -> bool {
        let captures = [&mut self.capture, &mut self.mirror];
        match victim {
            "capture" => captures[random.index(2)].take().map(Capturing::kill).is_some(),
            "generate" => self.generate.kill().is_ok(),
            "measure" => self.measure.as_mut().is_some_and(|held| held.child().kill().is_ok()),
            _ => false,
        }
    }
}

impl Drop for Users {
    fn drop(&mut self) {
        // It may have ended with the lab, or by the test.
        let _ = self.generate.kill();
        let _ = self.generate.wait();
    }
}

/// One kill of a victim while the lab is captured, measured and sent to; returns the process that was hit.
fn one_in_use(machine: &Machine, victim: &str, iteration: u64, random: &mut SplitMix64) -> String {
    machine.netloom(["up", "lab.yaml"]).finish().code(0);
    let mut users = Users::start(machine);
    // The moment is the experiment.
    std::thread::sleep(Duration::from_millis(100).mul_f64(random.fraction()));
    let hit = users.kill(victim, random) || strike(machine, victim, random).is_some();
    assert!(hit, "there is no {victim}");
    let around = iteration / u64::try_from(PARTS.len() + 3).expect("few");
    // A lab that lost its process is taken over by some, and taken down as it is by others; and
    // some who use it go before it does.
    if victim == "lab" && around.is_multiple_of(2) {
        machine.netloom(["up", "lab.yaml"]).bound(SOON).finish().code(0);
    }
    let users = (random.below(2) == 0).then_some(users);
    take_down(machine, victim);
    drop(users);
    netloom_tests_e2e::assert_same(machine.before());
    victim.to_owned()
}

/// Takes down what there is of the lab; nothing may be left.
fn take_down(machine: &Machine, after: &str) {
    let down = machine.netloom(["down", LAB]).bound(SOON).finish();
    match down.status.code() {
        Some(0) => {}
        Some(1) if down.errors().contains(LAB) && nothing_in(&machine.scratch().runtime_dir()) => {}
        _ => panic!("down after killing {after}\n{down}"),
    }
}

/// How long what takes moments may take.
const SOON: Duration = Duration::from_secs(180);

/// The lab's processes of a part.
fn living(machine: &Machine, part: &str) -> Vec<i32> {
    let dir = machine.scratch().runtime_dir();
    let name = format!("netloom-{part}");
    let ours = |process: &Process| process.comm == name && process.is_of(&dir) && !process.zombie;
    processes().into_values().filter(ours).map(|process| process.pid).collect()
}

/// Kills one of the lab's processes of this part, if there is any; tells which.
fn strike(machine: &Machine, victim: &str, random: &mut SplitMix64) -> Option<i32> {
    let candidates = living(machine, victim);
    if candidates.is_empty() {
        return None;
    }
    let found = *random.one_of(&candidates);
    let pid = rustix::process::Pid::from_raw(found).expect("a pid is not 0");
    // It may have ended since it was seen.
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    Some(found)
}

/// The runtime directory itself goes with its last lab.
fn nothing_in(dir: &Path) -> bool {
    std::fs::read_dir(dir).map_or(true, |mut entries| entries.next().is_none())
}
