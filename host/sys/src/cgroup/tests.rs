//! Paths, files and figures of groups, in plain directories instead of mounts.

use std::collections::{BTreeMap, BTreeSet};

use super::hierarchy::select;
use super::*;
use crate::mountinfo::Mount;

fn mount(path: &str, fstype: &str, options: &str) -> Mount {
    Mount {
        path: path.into(),
        root: "/".into(),
        fstype: fstype.into(),
        read_only: false,
        source: "cgroup".into(),
        super_options: options.into(),
    }
}

fn hierarchy(version: Version, base: &Path, names: &[&str]) -> Hierarchy {
    let controllers = names.iter().map(|n| (*n).to_owned()).collect();
    Hierarchy { version, base: base.into(), controllers }
}

/// A directory in place of a mount, removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("netloom-{name}-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn hybrid_takes_each_controller_once_and_counts_sockets_in_the_unified_one() {
    let mounts = [
        mount("/c/unified", "cgroup2", "rw"),
        mount("/c/cpu", "cgroup", "rw,cpu,cpuacct"),
        mount("/c/memory", "cgroup", "rw,memory"),
        mount("/c/pids", "cgroup", "rw,pids"),
    ];
    let found = select(&mounts, |_| String::new());
    let names: Vec<_> = found.iter().map(|h| (h.version, h.controllers.join(","))).collect();
    assert_eq!(
        names,
        [
            (Version::V2, "sockets".to_owned()),
            (Version::V1, "cpu,cpuacct".to_owned()),
            (Version::V1, "memory".to_owned()),
            (Version::V1, "pids".to_owned())
        ]
    );
}

#[test]
fn unified_gives_all_from_one_directory() {
    let mounts = [mount("/sys/fs/cgroup", "cgroup2", "rw,nsdelegate")];
    let found = select(&mounts, |_| "cpuset cpu io memory pids\n".into());
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].controllers, ["cpu", "memory", "pids", "cpuacct", "sockets"]);
    let sealed = Mount { read_only: true, ..mount("/c", "cgroup2", "ro") };
    assert!(select(&[sealed], |_| String::new()).is_empty());
}

#[test]
fn version_2_groups_are_limited_by_its_files() {
    let folder = Folder::new("cgroup-v2");
    let h = hierarchy(Version::V2, &folder.0, &["cpu", "memory", "pids", "cpuacct"]);
    let groups = Groups::new(vec![h.clone()], "lab-1", BTreeSet::from([3]));
    fs::create_dir_all(groups.dir(&h, 3)).unwrap();
    let read = |file: &str| fs::read_to_string(groups.dir(&h, 3).join(file)).unwrap();
    let limits = Limits { cpu_milli: Some(500), memory: Some(1 << 20), processes: Some(7) };
    assert!(groups.apply(3, &Limits::default(), &limits).unwrap().is_empty());
    groups.weigh(3, Some(250)).unwrap();
    let files = ["cpu.max", "memory.max", "pids.max", "cpu.weight"];
    assert_eq!(files.map(read), ["50000 100000", "1048576", "7", "250"]);
    groups.apply(3, &limits, &Limits::default()).unwrap();
    groups.weigh(3, None).unwrap();
    assert_eq!(files.map(read), ["max 100000", "max", "max", "100"]);
    fs::write(groups.dir(&h, 3).join("memory.current"), "3000000\n").unwrap();
    let lower = Limits { memory: Some(1 << 20), ..Limits::default() };
    let text = groups.apply(3, &Limits::default(), &lower).unwrap_err().to_string();
    assert!(text.contains("2930 KiB stay in use"), "{text}");
    assert_eq!(read("memory.max"), "max");
}

#[test]
fn version_2_usage_is_read_by_key() {
    let folder = Folder::new("cgroup-usage");
    let h = hierarchy(Version::V2, &folder.0, &["cpu", "memory", "pids", "cpuacct"]);
    let groups = Groups::new(vec![h.clone()], "l", BTreeSet::new());
    let dir = groups.dir(&h, 0);
    fs::create_dir_all(&dir).unwrap();
    let stat = "usage_usec 7\nuser_usec 4\nsystem_usec 3\nnr_throttled 2\nthrottled_usec 9\n";
    fs::write(dir.join("cpu.stat"), stat).unwrap();
    fs::write(dir.join("memory.peak"), "4096\n").unwrap();
    let expected = Usage {
        cpu_ns: Some(7000),
        cpu_user_ns: Some(4000),
        cpu_system_ns: Some(3000),
        throttled: Some(2),
        throttled_ns: Some(9000),
        memory_peak: Some(4096),
        ..Usage::default()
    };
    assert_eq!(groups.usage(0), expected);
}

#[test]
fn only_limited_memory_has_a_group() {
    let v1 = |base: &str, names: &[&str]| hierarchy(Version::V1, Path::new(base), names);
    let all = vec![v1("/c/memory", &["memory"]), v1("/c/cpu", &["cpu", "cpuacct"])];
    let groups = Groups::new(all, "l", BTreeSet::from([1]));
    assert_eq!(groups.tasks_files(0), [PathBuf::from("/c/cpu/netloom/l/0/tasks")]);
    assert_eq!(groups.tasks_files(1).len(), 2);
    let v2 = hierarchy(Version::V2, Path::new("/c"), &["cpu", "memory", "cpuacct", "sockets"]);
    assert_eq!(groups.handed_out(&v2), "+cpu +memory");
    let unlimited = Groups::new(vec![], "l", BTreeSet::new());
    assert_eq!(unlimited.handed_out(&v2), "+cpu");
}

#[test]
fn children_lie_below_their_parents_and_count_in_the_nearest_group() {
    let all = vec![
        hierarchy(Version::V2, Path::new("/u"), &[SOCKETS]),
        hierarchy(Version::V1, Path::new("/cpu"), &["cpu", "cpuacct"]),
        hierarchy(Version::V1, Path::new("/memory"), &["memory"]),
    ];
    // 5 is in 3 is in 0; 4 is in 3; 1 stands alone.
    let parents = BTreeMap::from([(5, 3), (4, 3), (3, 0)]);
    let mut groups =
        Groups::with(all, "l", BTreeSet::from([3]), BTreeSet::from([4]), parents.clone());
    let paths = |list: &[&str]| list.iter().map(PathBuf::from).collect::<Vec<_>>();
    assert_eq!(
        groups.tasks_files(5),
        paths(&["/cpu/netloom/l/0/3/5/tasks", "/memory/netloom/l/0/3/tasks"])
    );
    assert_eq!(groups.tasks_files(1), paths(&["/cpu/netloom/l/1/tasks"]));
    // No leaf without controllers.
    assert_eq!(groups.v2_dir(4), Some("/u/netloom/l/0/3/4".into()));
    assert_eq!(groups.v2_dir(5), Some("/u/netloom/l/0/3".into()));
    assert_eq!(groups.v2_dir(1), None);
    assert_eq!(groups.sockets_dir(4), Some("/u/netloom/l/0/3/4".into()));
    assert_eq!(groups.sockets_dir(5), None);
    assert_eq!(groups.lab_sockets_dir(), Some("/u/netloom/l".into()));
    groups.add(6, Some(5), true, false);
    assert_eq!(groups.tasks_files(5)[1], PathBuf::from("/memory/netloom/l/0/3/5/tasks"));
    assert_eq!(groups.tasks_files(6)[1], PathBuf::from("/memory/netloom/l/0/3/5/6/tasks"));
    groups.forget(5);
    assert_eq!(groups.parents.keys().copied().collect::<Vec<_>>(), [3, 4]);
}

#[test]
fn a_node_is_measured_by_its_own_groups_and_by_limits_around_it() {
    let paths = |list: &[&str]| list.iter().map(PathBuf::from).collect::<Vec<_>>();
    let (memory, parents) = (BTreeSet::from([0]), BTreeMap::from([(3, 0)]));
    let v1 = vec![
        hierarchy(Version::V1, Path::new("/cpu"), &["cpu"]),
        hierarchy(Version::V1, Path::new("/acct"), &["cpuacct"]),
        hierarchy(Version::V1, Path::new("/memory"), &["memory"]),
        hierarchy(Version::V2, Path::new("/u"), &[SOCKETS]),
    ];
    let groups = Groups::with(v1, "l", memory.clone(), BTreeSet::new(), parents.clone());
    assert_eq!(
        groups.gauges(3),
        paths(&[
            "/cpu/netloom/l/0/3/cpu.cfs_quota_us",
            "/cpu/netloom/l/0/3/cpu.cfs_period_us",
            "/cpu/netloom/l/0/cpu.cfs_quota_us",
            "/cpu/netloom/l/0/cpu.cfs_period_us",
            "/acct/netloom/l/0/3/cpuacct.stat",
            "/memory/netloom/l/0/memory.usage_in_bytes",
            "/memory/netloom/l/0/memory.stat",
        ])
    );
    let v2 = hierarchy(Version::V2, Path::new("/u"), &["cpu", "memory", "cpuacct"]);
    let groups = Groups::with(vec![v2], "l", memory, BTreeSet::new(), parents);
    assert_eq!(
        groups.gauges(3),
        paths(&[
            "/u/netloom/l/0/3/cpu.stat",
            "/u/netloom/l/0/memory.current",
            "/u/netloom/l/0/memory.stat",
            "/u/netloom/l/0/3/cpu.max",
            "/u/netloom/l/0/3/memory.max",
            "/u/netloom/l/0/cpu.max",
            "/u/netloom/l/0/memory.max",
        ])
    );
}

#[test]
fn on_version_2_processes_of_a_parent_are_in_a_leaf() {
    let folder = Folder::new("cgroup-leaf");
    let h = hierarchy(Version::V2, &folder.0, &["cpu", "pids", "cpuacct", "sockets"]);
    let mut groups = Groups::new(vec![h], "l", BTreeSet::new());
    let lab = folder.0.join("netloom/l");
    groups.create().unwrap();
    groups.create_node(0, &Limits::default()).unwrap();
    assert_eq!(groups.v2_dir(0), Some(lab.join("0")));
    // A process of the parent, older than the first child.
    fs::write(lab.join("0/cgroup.procs"), "").unwrap();
    groups.add(1, Some(0), false, false);
    groups.create_node(1, &Limits::default()).unwrap();
    assert_eq!(groups.v2_dir(0), Some(lab.join("0/own")));
    assert_eq!(groups.v2_dir(1), Some(lab.join("0/1")));
    let on = fs::read_to_string(lab.join("0/cgroup.subtree_control")).unwrap();
    assert_eq!(on, "+cpu +pids");
}

#[test]
fn a_state_without_children_is_read() {
    let groups = Groups::new(vec![], "l", BTreeSet::from([2]));
    let text = r#"{"hierarchies":[],"id":"l","memory":[2]}"#;
    let read: Groups = serde_json::from_str(text).unwrap();
    assert_eq!(read, groups);
    let parents = BTreeMap::from([(2, 1)]);
    let nested = Groups::with(vec![], "l", BTreeSet::new(), BTreeSet::from([2]), parents);
    let text = serde_json::to_string(&nested).unwrap();
    assert_eq!(serde_json::from_str::<Groups>(&text).unwrap(), nested);
}

#[test]
fn a_small_share_keeps_the_kernels_least_quota() {
    let folder = Folder::new("cgroup-quota");
    let h = hierarchy(Version::V1, &folder.0, &["cpu"]);
    let groups = Groups::new(vec![h.clone()], "l", BTreeSet::new());
    groups.create_node(0, &Limits { cpu_milli: Some(1), ..Limits::default() }).unwrap();
    let quota = fs::read_to_string(groups.dir(&h, 0).join("cpu.cfs_quota_us")).unwrap();
    assert_eq!(quota, "1000");
}

#[test]
fn who_gets_no_directory_joins_by_a_file() {
    let folder = Folder::new("join");
    fs::write(folder.0.join("cgroup.procs"), "").unwrap();
    let dir = fs::File::open(&folder.0).unwrap();
    let mut join = Join { tasks: vec![], v2: Some(dir.into()) };
    join.without_directory().unwrap();
    assert!(join.v2.is_none());
    join.enter_files().unwrap();
    assert_eq!(fs::read_to_string(folder.0.join("cgroup.procs")).unwrap(), "0");
}
