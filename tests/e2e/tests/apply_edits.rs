//! `apply` of random edits: a connection over links that no edit names loses nothing, and after each edit nothing is left
//! to do. Killed at any step, the same command finishes.
//!
//! `NETLOOM_APPLY_SEED` and `_COUNT` choose the edits.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use netloom_digest::splitmix::SplitMix64;
use netloom_tests_e2e::live::SOON;
use netloom_tests_e2e::{Machine, kill, machine, needs, wait_until};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify;

use super::apply::Flow;

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// A lab with a part that stays, and parts that come, change and go.
#[derive(Clone, Default)]
struct Lab {
    /// Nodes, each with what it is given.
    nodes: BTreeMap<u64, BTreeMap<&'static str, String>>,
    /// Links by number: ends, and what they do to frames.
    links: BTreeMap<u64, (u64, u64, BTreeMap<&'static str, String>)>,
    /// Kinds of switches, by number.
    switches: BTreeMap<u64, &'static str>,
    /// Slices of a switch that stays, each with how many rules it may have.
    slices: BTreeMap<&'static str, u64>,
}

/// Ends of links from this number on are switches.
const SWITCH: u64 = 100;

/// One of several.
fn one_of<T>(random: &mut SplitMix64, all: impl IntoIterator<Item = T>) -> T {
    let mut all: Vec<T> = all.into_iter().collect();
    let at = random.next_u64() % u64::try_from(all.len()).expect("few");
    all.swap_remove(usize::try_from(at).expect("few"))
}

/// The first number that is not taken, from one on.
fn free<T>(taken: &BTreeMap<u64, T>, from: u64) -> u64 {
    (from..).find(|number| !taken.contains_key(number)).expect("one is free")
}

impl Lab {
    /// One thing more, less or other.
    fn edit(&mut self, random: &mut SplitMix64) {
        match random.next_u64() % 9 {
            0 | 1 if self.nodes.len() < 6 => {
                self.nodes.insert(free(&self.nodes, 0), BTreeMap::new());
            }
            2 if !self.nodes.is_empty() => {
                let node = one_of(random, self.nodes.keys().copied());
                self.nodes.remove(&node);
                self.links.retain(|_, (a, b, _)| *a != node && *b != node);
            }
            3 if self.switches.len() < 2 => {
                let kind = one_of(random, ["kernel", "shm"]);
                self.switches.insert(free(&self.switches, SWITCH), kind);
            }
            4 if !self.links.is_empty() => self.edit_link(random),
            5 if !self.nodes.is_empty() => self.edit_node(random),
            8 => {
                let slice = one_of(random, ["p", "q"]);
                if random.next_u64().is_multiple_of(3) {
                    self.slices.remove(slice);
                } else {
                    self.slices.insert(slice, random.next_u64() % 9 + 1);
                }
            }
            _ if self.nodes.is_empty() => {}
            _ => {
                let a = one_of(random, self.nodes.keys().copied());
                let b = one_of(random, self.nodes.keys().chain(self.switches.keys()).copied());
                if a != b {
                    self.links.insert(free(&self.links, 0), (a, b, BTreeMap::new()));
                }
            }
        }
    }

    /// A link goes, or gets or loses a setting.
    fn edit_link(&mut self, random: &mut SplitMix64) {
        let link = one_of(random, self.links.keys().copied());
        if random.next_u64().is_multiple_of(2) {
            self.links.remove(&link);
            return;
        }
        let settings = &mut self.links.get_mut(&link).expect("it is there").2;
        let (key, value) = one_of(random, [("mtu", "1400"), ("delay", "1ms"), ("loss", "1%")]);
        if settings.remove(key).is_none() {
            settings.insert(key, value.to_owned());
        }
    }

    /// A node gets, changes or loses a key.
    fn edit_node(&mut self, random: &mut SplitMix64) {
        let node = one_of(random, self.nodes.keys().copied());
        let node = self.nodes.get_mut(&node).expect("it is there");
        let keys = ["env", "run", "storage", "sysctls", "hostname", "health", "binds", "files"];
        let key = one_of(random, keys);
        let value = random.next_u64() % 9 + 1;
        if random.next_u64().is_multiple_of(3) && node.remove(key).is_some() {
            return;
        }
        let text = match key {
            "env" => format!("{{A: a{value}}}"),
            "run" => format!("[[sleep, '100{value}']]"),
            "storage" => format!("{}MB", 20 + value),
            "hostname" => format!("h{value}.example"),
            "health" => format!("{{exec: [test, -e, /srv/{value}], interval: 1s}}"),
            // Folders of the host that are everywhere, one within another at times.
            "binds" => {
                let from = one_of(random, ["/usr", "/usr/bin", "/etc"]);
                let deep = if from == "/usr" { ", /srv/at/sbin: /usr/sbin" } else { "" };
                format!("{{/srv/at: {from}, /srv/b{value}: /bin{deep}}}")
            }
            "files" => format!("{{/opt/file{value}: text, /opt/always: text{value}}}"),
            _ => format!("{{net.ipv4.tcp_retries1: {}}}", value + 1),
        };
        node.insert(key, text);
    }

    fn text(&self) -> String {
        let mut text =
            "name: edited\nnodes:\n  a: {sysctls: {net.ipv4.tcp_early_retrans: 0}}\n  b: {}\n  r: {forwarding: true}\n  p: {}\n  q: {}\n"
                .to_owned();
        for (node, given) in &self.nodes {
            let given: Vec<String> =
                given.iter().map(|(key, value)| format!("{key}: {value}")).collect();
            text += &format!("  n{node}: {{{}}}\n", given.join(", "));
        }
        text += "switches:\n  steady: {}\n  flow: {kind: openflow}\n";
        for (switch, kind) in &self.switches {
            text += &format!("  s{switch}: {{kind: {kind}}}\n");
        }
        text += "links:\n  - [a, steady]\n  - [r:eth0, steady]\n  - [r:eth1, b]\n  - [p, flow]\n  - [q, flow]\n";
        for (link, (a, b, settings)) in &self.links {
            let end = |n: &u64| if *n < SWITCH { format!("n{n}:x{link}") } else { format!("s{n}") };
            let settings: String =
                settings.iter().map(|(key, value)| format!(", {key}: {value}")).collect();
            text += &format!("  - {{ends: [{}, {}]{settings}}}\n", end(a), end(b));
        }
        if !self.slices.is_empty() {
            text += "slices:\n";
        }
        for (slice, rules) in &self.slices {
            text += &format!(
                "  {slice}: {{switches: {{flow: {{ports: [{slice}]}}}}, rules: {rules}}}\n"
            );
        }
        text
    }
}

fn apply(machine: &Machine, text: &str, flag: &str) -> netloom_tests_e2e::Run {
    let file = machine.file(text);
    machine.netloom(["apply", flag, file.to_str().expect("UTF-8")]).bound(Duration::from_secs(120))
}

/// A segment of `a` that is acknowledged late on a busy machine is not sent again after the 200 ms that are the least timeout
/// otherwise (Linux 6.11 has the setting).
fn have_patience(machine: &Machine) {
    let patience =
        "cd /proc/sys/net/ipv4; [ ! -e tcp_rto_min_us ] || echo 10000000 > tcp_rto_min_us";
    machine.exec("a", &["sh", "-c", patience]).finish().code(0);
}

#[test]
fn random_edits_leave_other_connections_alone() {
    needs!("python3");
    let machine = machine!();
    let (seed, count) = (number("NETLOOM_APPLY_SEED", 7), number("NETLOOM_APPLY_COUNT", 8));
    let mut random = SplitMix64::new(seed);
    let mut lab = Lab::default();
    machine.up(&lab.text());
    have_patience(&machine);
    let steady: BTreeSet<(String, i32)> = machine.inits().into_iter().collect();
    let mut flow = Flow::start(&machine, "a", "b");
    for edit in 0..count {
        let before = lab.text();
        for _ in 0..3 {
            lab.edit(&mut random);
        }
        let text = lab.text();
        let told = apply(&machine, &text, "--yes").finish();
        assert!(
            told.status.success(),
            "seed {seed}, edit {edit}\n{before}\n{text}\n{}",
            told.errors()
        );
        let left = apply(&machine, &text, "--check").finish();
        assert!(
            left.status.success(),
            "seed {seed}, edit {edit}\n{before}\n{text}\n{}",
            left.text()
        );
        flow.grows();
    }
    let now: BTreeSet<(String, i32)> = machine.inits().into_iter().collect();
    assert!(steady.is_subset(&now), "{steady:?} {now:?}");
    let (bytes, again) = flow.end();
    assert_eq!(again, 0, "segments of {bytes} bytes were sent again over {count} edits");
    machine.down();
}

/// Applies a file to a lab whose process is killed when its state is written for the `step`th time; `false` if it was done
/// before.
pub(crate) fn killed_at(machine: &Machine, lab: &str, to: &str, step: usize) -> bool {
    let process = machine.status()["pid"].as_i64();
    let process = process.and_then(|pid| i32::try_from(pid).ok()).expect("a pid");
    let state = machine.scratch().runtime_dir().join(lab).join("state.json");
    let (over, states) = (AtomicBool::new(false), Replacements::of(&state));
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let hit = states.come("state.json", step, &over);
            if hit {
                kill(process);
            }
            hit
        });
        apply(machine, to, "--yes").finish();
        over.store(true, Ordering::Relaxed);
        watch.join().expect("it watched")
    })
}

/// A folder in which a file is replaced: no replacement is missed, however late it is looked at.
struct Replacements(OwnedFd);

impl Replacements {
    fn of(file: &Path) -> Replacements {
        let watch = inotify::init(inotify::CreateFlags::NONBLOCK).expect("inotify");
        let folder = file.parent().expect("a folder");
        inotify::add_watch(&watch, folder, inotify::WatchFlags::MOVED_TO).expect("watch a folder");
        Replacements(watch)
    }

    /// Waits until a file of this name was replaced this many times; returns whether it was before it is over.
    fn come(&self, name: &str, times: usize, over: &AtomicBool) -> bool {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut seen = 0;
        while seen < times {
            let ended = over.load(Ordering::Relaxed);
            let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
            let limit = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
            let ready = poll(&mut fds, Some(&limit)).expect("poll");
            if ready == 0 && ended {
                return false;
            }
            let mut events = inotify::Reader::new(&self.0, &mut buffer);
            while let Ok(event) = events.next() {
                seen += usize::from(
                    event.file_name().is_some_and(|found| found.to_bytes() == name.as_bytes()),
                );
            }
        }
        true
    }
}

#[test]
fn killed_at_each_step_the_same_command_finishes() {
    needs!("python3");
    let machine = machine!();
    let old = "name: cut\nnodes:\n  a: {sysctls: {net.ipv4.tcp_early_retrans: 0}}\n  r: {forwarding: true}\n  b: {}\n  c: {run: [[sleep, '1001']]}\n  d: {}\n\
               switches: {s: {}, t: {}}\nlinks:\n  - [a, s]\n  - [r:eth0, s]\n  - [r:eth1, b]\n  - [r:eth2, c]\n  - \
               [r:eth3, d]\n";
    let new = "name: cut\nnodes:\n  a: {sysctls: {net.ipv4.tcp_early_retrans: 0}}\n  r: {forwarding: true}\n  b: {}\n  c: {run: [[sleep, '1002']], env: {A: b}, \
               sysctls: {net.ipv4.tcp_ecn: 1}, hostname: cut.example, files: {/opt/cut: one}, binds: {/srv/cut: /usr/bin}, \
               health: {exec: ['true']}}\n  e: {run: [[sleep, '1003']]}\nswitches: {s: {}, u: {}}\nlinks:\n  - [a, s]\n  - \
               [r:eth0, s]\n  - [r:eth1, b]\n  - {ends: [r:eth2, c], addresses: {r: 192.0.2.1/24}, mtu: 1400}\n  - [e, u]\n  - [r:eth4, u]\n  - [c, b]\n";
    machine.up(old);
    have_patience(&machine);
    let steady = |machine: &Machine| -> Vec<(String, i32)> {
        machine
            .inits()
            .into_iter()
            .filter(|(name, _)| ["a", "r", "b"].contains(&name.as_str()))
            .collect()
    };
    let inits = steady(&machine);
    let mut flow = Flow::start(&machine, "a", "b");
    let mut kills = 0;
    for step in 1.. {
        let (to, back) = if step % 2 == 1 { (new, old) } else { (old, new) };
        apply(&machine, back, "--yes").finish().code(0);
        if !killed_at(&machine, "cut", to, step) {
            break;
        }
        kills += 1;
        let again = apply(&machine, to, "--yes").finish();
        assert!(again.status.success(), "step {step}: {}", again.errors());
        apply(&machine, to, "--check").finish().code(0);
        machine.all_reach_all();
        let look = || {
            machine.exec("c", &["sh", "-c", "pgrep -fx 'sleep 100.' | wc -l; cat /sys/class/net/eth0/mtu /proc/sys/net/ipv4/tcp_ecn; hostname; ls /opt/cut; grep -c ' /srv/cut ' /proc/self/mounts"])
        };
        let expected = ["1\n1500\n2\nc\n0\n", "1\n1400\n1\ncut.example\n/opt/cut\n1\n"];
        // A program becomes what it is to be a moment after it is started.
        let what = format!("step {step}: node c has what the file says");
        wait_until(&what, SOON, || {
            let found = look().finish().text();
            let same = found == expected[step % 2];
            if !same {
                eprintln!("step {step}: {found}");
            }
            same.then_some(())
        });
        assert_eq!(steady(&machine), inits, "step {step}");
        flow.grows();
    }
    assert!(kills > 4, "{kills} kills");
    let (bytes, again) = flow.end();
    assert_eq!(again, 0, "segments of {bytes} bytes were sent again over {kills} kills");
    machine.down();
}
