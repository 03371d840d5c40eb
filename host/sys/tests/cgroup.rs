//! Groups as the kernel has them: nesting, live limits, moving, removal.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use netloom_kit::{lacks, needs, root_only};
use netloom_sys::Error;
use netloom_sys::cgroup::{self, Groups, Hierarchy, Limits, SOCKETS, Version};

const NONE: Limits = Limits { cpu_milli: None, memory: None, processes: None };

/// Groups that go with this value, and the processes of the test before them.
struct Fixture {
    groups: Groups,
    running: Vec<Child>,
}

impl Fixture {
    fn new(name: &str, memory: &[usize], sockets: &[usize], parents: &[(usize, usize)]) -> Self {
        let found = cgroup::hierarchies_of_root().unwrap();
        let groups = Groups::with(
            found,
            &format!("test-{name}-{}", std::process::id()),
            memory.iter().copied().collect(),
            sockets.iter().copied().collect(),
            parents.iter().copied().collect::<BTreeMap<_, _>>(),
        );
        groups.create().unwrap();
        Fixture { groups, running: Vec::new() }
    }

    /// A shell in a node's groups that has run `script` up to its first line of output.
    fn start(&mut self, node: usize, script: &str) -> i32 {
        let mut command = Command::new("sh");
        // Joins by itself, as inits do.
        let joined = self.groups.tasks_files(node).into_iter();
        let joined = joined.chain(self.groups.v2_dir(node).map(|d| d.join("cgroup.procs")));
        let joins: String = joined.map(|f| format!("echo 0 > {}\n", f.display())).collect();
        command.args(["-ec", &format!("{joins}{script}\necho ready\nexec sleep 600")]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = [0; 6];
        child.stdout.as_mut().unwrap().read_exact(&mut line).unwrap();
        assert_eq!(&line, b"ready\n");
        let pid = i32::try_from(child.id()).unwrap();
        self.running.push(child);
        pid
    }

    fn end_all(&mut self) {
        for mut child in self.running.drain(..) {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.end_all();
        let removed = self.groups.remove();
        if !std::thread::panicking() {
            removed.unwrap();
        }
    }
}

fn cgroup_of(pid: i32, hierarchy: &Hierarchy) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let v2 = hierarchy.version == Version::V2;
    let fits = |line: &&str| {
        let names = line.split(':').nth(1).unwrap_or_default();
        if v2 { names.is_empty() } else { names.split(',').any(|c| c == hierarchy.controllers[0]) }
    };
    let line = text.lines().find(fits).unwrap();
    line.splitn(3, ':').nth(2).unwrap().to_owned()
}

/// Whether one hierarchy has all controllers, as where version 2 is alone: a group for processes then has memory's files, too,
/// and there is no other to move into.
fn one_for_all() -> bool {
    let has = |h: &Hierarchy, name: &str| h.controllers.iter().any(|c| c == name);
    let found = cgroup::hierarchies_of_root().unwrap();
    found.iter().any(|h| ["pids", "memory", SOCKETS].iter().all(|name| has(h, name)))
}

fn has_v1(controller: &str) -> bool {
    let found = cgroup::hierarchies_of_root().unwrap();
    let has = |h: &Hierarchy| h.controllers.iter().any(|c| c == controller);
    found.iter().any(|h| h.version == Version::V1 && has(h))
}

#[test]
fn nested_nodes_count_for_their_parents_and_go_with_them() {
    root_only!("makes cgroups");
    let mut f = Fixture::new("nest", &[0], &[1], &[(1, 0), (2, 1)]);
    if !f.groups.has("pids") {
        lacks!("controllers", "no pids controller");
    }
    for node in 0..3 {
        f.groups.create_node(node, &NONE).unwrap();
    }
    let pids = [0, 1, 2].map(|node| f.start(node, ":"));
    for (node, pid) in pids.iter().enumerate() {
        assert_eq!(f.groups.processes(node), [*pid]);
        assert_eq!(f.groups.usage(node).processes, Some(3 - node as u64));
    }
    assert_eq!(f.groups.everybody(), BTreeSet::from(pids));
    let own_memory = [0, 1, 2].map(|node| f.groups.usage(node).memory.is_some());
    let all = one_for_all();
    assert_eq!(own_memory, [true, all, all]);
    for h in cgroup::hierarchies_of_root().unwrap() {
        if h.controllers == [SOCKETS] {
            assert!(cgroup_of(pids[2], &h).ends_with("/0/1"));
        }
    }
    let busy = f.groups.remove_node(1).unwrap_err();
    assert!(matches!(busy, Error::Refused { .. }), "{busy:?}");
    assert!(busy.to_string().contains(&format!("still in it: {} (", pids[2])), "{busy}");
    f.end_all();
    f.groups.remove_node(0).unwrap();
    f.groups.remove_node(0).unwrap();
    assert!(f.groups.lab_sockets_dir().is_none_or(|lab| !lab.join("0").exists()));
}

#[test]
fn limits_are_raised_lowered_and_taken_away_while_processes_run() {
    root_only!("makes cgroups");
    let mut f = Fixture::new("live", &[0], &[], &[]);
    if !["cpu", "memory", "pids"].iter().all(|c| f.groups.has(c)) {
        lacks!("controllers", "not all controllers");
    }
    let limits = |cpu, mib: u64, n| Limits {
        cpu_milli: Some(cpu),
        memory: Some(mib << 20),
        processes: Some(n),
    };
    f.groups.create_node(0, &limits(500, 64, 20)).unwrap();
    for _ in 0..3 {
        f.start(0, ":");
    }
    let apply = |old: &Limits, new: &Limits| f.groups.apply(0, old, new);
    assert!(apply(&limits(500, 64, 20), &limits(2000, 128, 40)).unwrap().is_empty());
    let notes = apply(&limits(2000, 128, 40), &limits(100, 32, 2)).unwrap();
    assert_eq!(notes, ["3 processes and threads run, limit 2: no more can start"]);
    assert!(apply(&limits(100, 32, 2), &NONE).unwrap().is_empty());
    // From none to a lower and a higher one again: no order of memory and swap is refused.
    apply(&NONE, &limits(100, 32, 20)).unwrap();
    apply(&limits(100, 32, 20), &limits(100, 16, 20)).unwrap();
    f.groups.weigh(0, Some(10_000)).unwrap();
    f.groups.weigh(0, Some(1)).unwrap();
    f.groups.weigh(0, None).unwrap();
    let usage = f.groups.usage(0);
    assert!(usage.memory_peak >= usage.memory && usage.memory > Some(0), "{usage:?}");
    assert!(usage.cpu_ns > Some(0) && usage.cpu_user_ns.is_some() && usage.throttled.is_some());
}

#[test]
fn a_memory_limit_below_what_stays_in_use_is_refused_whole() {
    root_only!("makes cgroups");
    let mut f = Fixture::new("use", &[0], &[], &[]);
    if !["cpu", "memory"].iter().all(|c| f.groups.has(c)) {
        lacks!("controllers", "no cpu and memory controllers");
    }
    let wide = Limits { memory: Some(256 << 20), ..NONE };
    f.groups.create_node(0, &wide).unwrap();
    // A shell that keeps some 20 MiB of its own, which cannot be reclaimed.
    let held = "x=$(head -c 10000000 /dev/zero | tr '\\0' x); y=x$x";
    let mut command = Command::new("sh");
    let joins: String =
        f.groups.tasks_files(0).iter().map(|p| format!("echo 0 > {}\n", p.display())).collect();
    command.args(["-ec", &format!("{joins}{held}\necho ready\nread end")]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdout.as_mut().unwrap().read_exact(&mut [0; 6]).unwrap();
    f.running.push(child);
    if !has_v1("memory") || Path::new("/proc/swaps").metadata().is_ok() && swap_is_on() {
        lacks!("cgroup1-memory", "what is in use can be reclaimed here");
    }
    let narrow = Limits { cpu_milli: Some(300), memory: Some(4 << 20), processes: None };
    let refused = f.groups.apply(0, &wide, &narrow).unwrap_err();
    assert!(matches!(refused, Error::Refused { .. }), "{refused:?}");
    assert!(refused.to_string().contains("KiB stay in use"), "{refused}");
    // Neither the memory nor the CPU limit was left changed.
    let tasks = f.groups.tasks_files(0);
    let read = |file: &str| {
        let found = tasks.iter().map(|t| t.with_file_name(file)).find(|p| p.exists()).unwrap();
        std::fs::read_to_string(found).unwrap().trim().to_owned()
    };
    assert_eq!(read("memory.limit_in_bytes"), (256 << 20).to_string());
    assert_eq!(read("cpu.cfs_quota_us"), "-1");
}

fn swap_is_on() -> bool {
    std::fs::read_to_string("/proc/swaps").unwrap().lines().count() > 1
}

#[test]
fn a_cpu_limit_above_the_parents_says_so() {
    root_only!("makes cgroups");
    if !has_v1("cpu") {
        lacks!("cgroup1-cpu", "only version 1 refuses it");
    }
    let f = Fixture::new("cpu", &[], &[], &[(1, 0)]);
    let cpu = |milli| Limits { cpu_milli: Some(milli), ..NONE };
    f.groups.create_node(0, &cpu(500)).unwrap();
    let text = f.groups.create_node(1, &cpu(600)).unwrap_err().to_string();
    assert!(text.ends_with("set limit: the node it is in may use 0.5 CPUs"), "{text}");
    f.groups.apply(1, &NONE, &cpu(400)).unwrap();
    let text = f.groups.apply(0, &cpu(500), &cpu(300)).unwrap_err().to_string();
    assert!(text.ends_with("a node in it may use 0.4 CPUs; lower that first"), "{text}");
    f.groups.apply(1, &cpu(400), &cpu(300)).unwrap();
    f.groups.apply(0, &cpu(500), &cpu(300)).unwrap();
}

#[test]
fn processes_move_into_groups_made_later() {
    root_only!("makes cgroups");
    let mut f = Fixture::new("later", &[], &[], &[(1, 0)]);
    if !["pids", "memory", SOCKETS].iter().all(|c| f.groups.has(c)) {
        needs!("controllers");
        lacks!("cgroup2", "not all controllers");
    }
    for node in 0..2 {
        f.groups.create_node(node, &NONE).unwrap();
    }
    let pids = [f.start(0, ":"), f.start(1, ":"), f.start(0, ":")];
    let memory = Limits { memory: Some(64 << 20), ..NONE };
    let early = f.groups.apply(0, &NONE, &memory);
    assert!(f.groups.usage(0).memory.is_some() || matches!(early, Err(Error::Unsupported(_))));
    f.groups.add(0, None, true, true);
    f.groups.create_node(0, &memory).unwrap();
    let moved = f.groups.move_processes(0).unwrap();
    assert!(if one_for_all() { moved == 0 } else { moved >= 3 }, "{moved}");
    assert_eq!(f.groups.move_processes(0).unwrap(), 0);
    let dir = f.groups.sockets_dir(0).unwrap();
    let hierarchies = cgroup::hierarchies_of_root().unwrap();
    let sockets = hierarchies.iter().find(|h| h.controllers.iter().any(|c| c == SOCKETS)).unwrap();
    // The child has no group of its own there: it counts in its parent's.
    for pid in pids {
        let path = cgroup_of(pid, sockets);
        let place = sockets.base.join(path.trim_start_matches('/'));
        assert!(place.starts_with(&dir), "{place:?}");
    }
    let inside: BTreeSet<i32> = f.groups.processes(0).into_iter().collect();
    assert_eq!(inside, BTreeSet::from([pids[0], pids[2]]));
    assert!(f.groups.usage(0).memory.is_some());
}
