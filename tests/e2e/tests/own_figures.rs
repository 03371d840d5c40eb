//! `/proc/loadavg`, `meminfo`, `stat` and `uptime` in a node are the node's own, and can always be read.

use std::time::{Duration, Instant};

use netloom_kit::wait_until;
use netloom_tests_e2e::live::kill_and_wait;
use netloom_tests_e2e::{
    Machine, is_root, kill, machine, needs, needs_cgroups, ordinary_only, pair,
};

fn numbers(text: &str) -> Vec<f64> {
    text.split_whitespace().map_while(|word| word.parse().ok()).collect()
}

fn read(machine: &Machine, node: &str, file: &str) -> String {
    machine.exec(node, &["cat", &format!("/proc/{file}")]).ok()
}

fn kib(text: &str, key: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(key)).expect(key);
    line.trim().trim_end_matches(" kB").parse().expect("a number of kB")
}

fn line(text: &str, key: &str) -> Vec<f64> {
    numbers(text.lines().find_map(|line| line.strip_prefix(key)).expect(key))
}

fn lab_process(machine: &Machine, lab: &str) -> i32 {
    let file = machine.scratch().runtime_dir().join(lab).join("lab.pid");
    std::fs::read_to_string(file).expect("lab.pid").trim().parse().expect("a pid")
}

#[test]
fn a_node_is_as_old_as_its_init() {
    needs!("time-namespaces", "ps");
    let machine = machine!();
    let start = Instant::now();
    machine.up(&pair(""));
    let first = numbers(&read(&machine, "a", "uptime"));
    // It counts in hundredths of a second, in which much can be done.
    let second = wait_until("it becomes older", Duration::from_secs(30), || {
        Some(numbers(&read(&machine, "a", "uptime"))).filter(|now| now[0] > first[0])
    });
    let most = start.elapsed().as_secs_f64();
    assert!(second[0] <= most, "{first:?} {second:?} {most}");
    let cpus = std::thread::available_parallelism().expect("count CPUs").get();
    let cpus = f64::from(u32::try_from(cpus).expect("few CPUs"));
    assert!(second[1] <= second[0] * cpus, "{second:?}");
    let other = numbers(&read(&machine, "b", "uptime"));
    assert!(other[0] <= start.elapsed().as_secs_f64(), "{other:?}");
    // Start times of processes are by the same clock: that of a process began within the age of the lab, and init first.
    let clock = || {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.expect("a time after 1970").as_secs_f64()
    };
    let before = clock();
    let times = machine
        .exec("a", &["sh", "-c", "ps -o etimes= -p $$,1; date +%s; ps -o lstart= -p $$"])
        .ok();
    let lines: Vec<&str> = times.lines().map(str::trim).collect();
    let most = start.elapsed().as_secs() + 1;
    for age in &lines[..2] {
        assert!(age.parse::<u64>().expect("seconds") <= most, "{times}");
    }
    let shown = machine.exec("b", &["date", "-d", lines[3], "+%s"]).ok();
    let (began, now): (f64, f64) = (shown.trim().parse().unwrap(), lines[2].parse().unwrap());
    assert!((before - 2.0..now + 2.0).contains(&began), "{times} {before}");
    let born = line(&read(&machine, "a", "stat"), "btime ")[0];
    let before = clock();
    let age = numbers(&read(&machine, "a", "uptime"))[0];
    assert!((before - 3.0..clock() + 3.0).contains(&(born + age)), "{born} {age} {before}");
    // sysinfo(2) says the same, and no file can change that.
    let python =
        "import ctypes\nb = (ctypes.c_long * 64)()\nctypes.CDLL(None).sysinfo(b)\nprint(b[0])";
    let sysinfo: u64 = machine.exec("a", &["python3", "-c", python]).ok().trim().parse().unwrap();
    assert!(sysinfo <= start.elapsed().as_secs() + 1, "{sysinfo}");
    machine.down();
}

#[test]
fn the_whole_memory_is_the_limit() {
    needs_cgroups!();
    needs!("ps");
    let machine = machine!();
    machine.up(&pair("limits: {memory: 64MiB}"));
    let text = read(&machine, "a", "meminfo");
    let [total, free, left] = ["MemTotal:", "MemFree:", "MemAvailable:"].map(|key| kib(&text, key));
    assert_eq!(total, 64 * 1024);
    assert!(free < total && free <= left && left <= total, "{text}");
    // What a program takes is missing.
    let hog = "b = bytearray(24 << 20)\nfor i in range(0, len(b), 4096): b[i] = 1\n\
               print(open('/proc/meminfo').read())";
    let full = machine.exec("a", &["python3", "-c", hog]).ok();
    assert!(kib(&full, "MemFree:") + 24 * 1024 <= total, "{full}");
    assert!(kib(&full, "AnonPages:") >= 24 * 1024, "{full}");
    let shown = machine.exec("a", &["free", "-k"]).ok();
    assert_eq!(line(&shown, "Mem:")[0], 65_536.0, "{shown}");
    // A limit that comes later, and one that changes.
    let of_machine = kib(&std::fs::read_to_string("/proc/meminfo").expect("read"), "MemTotal:");
    assert_eq!(kib(&read(&machine, "b", "meminfo"), "MemTotal:"), of_machine);
    machine.netloom(["node", "set", "b", "memory=48MiB"]).finish().code(0);
    machine.netloom(["node", "set", "a", "memory=80MiB"]).finish().code(0);
    assert_eq!(kib(&read(&machine, "b", "meminfo"), "MemTotal:"), 48 * 1024);
    assert_eq!(kib(&read(&machine, "a", "meminfo"), "MemTotal:"), 80 * 1024);
    machine.down();
}

#[test]
fn cpus_and_their_time_are_the_nodes_own() {
    needs_cgroups!();
    let machine = machine!();
    machine.up(&pair("limits: {cpu: 60%}"));
    let cpus = |node: &str| {
        let text = read(&machine, node, "stat");
        text.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu ")).count()
    };
    assert_eq!(cpus("a"), 1);
    let there = std::thread::available_parallelism().expect("count CPUs").get();
    assert_eq!(cpus("b"), there);
    let spin = "import time\nwhile time.process_time() < 0.5: pass";
    machine.exec("a", &["python3", "-c", spin]).ok();
    let [a, b] = ["a", "b"].map(|node| line(&read(&machine, node, "stat"), "cpu "));
    let used = |cpu: &[f64]| cpu[0] + cpu[2];
    assert!((50.0..200.0).contains(&used(&a)), "{a:?}");
    assert!(used(&b) < 30.0, "{b:?}");
    let shown = machine.netloom(["node", "show", "a", "--json"]).finish().code(0).json();
    let status = shown["cpu_ns"].as_str().and_then(|text| text.parse::<f64>().ok());
    let status = status.expect("CPU time") / 1e7;
    assert!((used(&a) - status).abs() < 20.0, "{a:?} {status}");
    machine.down();
}

#[test]
fn loads_and_counts_are_those_of_the_nodes_processes() {
    let machine = machine!();
    machine.up("name: loads\nnodes:\n  a: {run: [[nice, -n, '19', sh, -c, 'while :; do :; done']]}\n  b: {}\n");
    let inits = machine.inits();
    // By nobody in the node, where each process takes a number.
    let load = |node: &str| {
        let (_, pid) = inits.iter().find(|(name, _)| name == node).expect("the node");
        numbers(&std::fs::read_to_string(format!("/proc/{pid}/root/proc/loadavg")).expect("read"))
    };
    let bound = Duration::from_secs(180);
    wait_until("the load of a loop", bound, || (load("a")[0] > 0.05).then_some(()));
    let of_b = numbers(&read(&machine, "b", "loadavg"));
    assert!(of_b[0] < 0.05, "{of_b:?}");
    let text = read(&machine, "a", "loadavg");
    let fields: Vec<&str> = text.split_whitespace().collect();
    let (running, all) = fields[3].split_once('/').expect("running/all");
    let [running, all, last] =
        [running, all, fields[4]].map(|n| n.parse::<u32>().expect("a number"));
    // The loop, the init that looks, and `exec`'s own two at most; not the machine's.
    assert!((2..=4).contains(&running) && (3..=8).contains(&all) && last < 1000, "{text}");
    assert!(line(&read(&machine, "a", "stat"), "procs_running ")[0] >= 2.0);
    // Without the lab's process what runs has run since.
    kill_and_wait(lab_process(&machine, "loads"));
    let before = load("a")[0];
    wait_until("more load", bound, || (load("a")[0] > before + 0.1).then_some(()));
    assert!(load("b")[0] < 0.05);
    machine.down();
}

#[test]
fn programs_that_read_them_agree() {
    needs!("ps", "time-namespaces");
    let machine = machine!();
    machine.up(&pair(""));
    let up = machine.exec("a", &["uptime"]).ok();
    assert!(up.contains("up 0 min") || up.contains("up 1 min"), "{up}");
    let top = machine.exec("a", &["top", "-b", "-n", "2", "-d", "0.3"]).ok();
    assert!(top.contains("up 0 min") || top.contains("up 1 min"), "{top}");
    assert!(top.contains("load average: 0.0"), "{top}");
    let free = machine.exec("a", &["free"]).ok();
    assert!(line(&free, "Mem:")[0] > 0.0, "{free}");
    let steps = machine.exec("a", &["vmstat", "1", "2"]).ok();
    let last = numbers(steps.lines().last().expect("a line"));
    assert!(last.len() >= 17 && last[12..15].iter().sum::<f64>() <= 101.0, "{steps}");
    machine.down();
}

#[test]
fn whoever_keeps_a_file_open_reads_what_is_true_now() {
    needs!("time-namespaces");
    let machine = machine!();
    machine.up(&pair(""));
    // As `top` does: opened once, read again and again; others read meanwhile.
    let script = "import time\nf = open('/proc/uptime')\nfirst = float(f.read().split()[0])\n\
                  end = time.monotonic() + 30\n\
                  while time.monotonic() < end:\n  f.seek(0)\n  now = float(f.read().split()[0])\n  \
                  other = float(open('/proc/uptime').read().split()[0])\n  \
                  if now > first + 1 and other > first + 1: print('follows'); break\n  time.sleep(0.05)";
    assert_eq!(machine.exec("a", &["python3", "-c", script]).ok().trim(), "follows");
    machine.down();
}

#[test]
fn they_cannot_be_written_and_others_cannot_hold_them_up() {
    let machine = machine!();
    machine.up(&pair(""));
    for file in ["loadavg", "meminfo", "stat", "uptime"] {
        let write = format!("echo 1 >/proc/{file}");
        let done = machine.exec("a", &["sh", "-c", &write]).finish();
        assert!(!done.status.success(), "{file} was written\n{done}");
    }
    let copied = machine.netloom(["cp", "a:/proc/loadavg", "-"]).ok();
    assert!(copied.starts_with("0.0"), "{copied}");
    // Many at once, some that keep it open: none waits for long.
    let script = "import threading, time\nkept = [open('/proc/stat') for _ in range(50)]\nworst = 0\n\
                  def read():\n  global worst\n  for _ in range(100):\n    t = time.monotonic()\n    \
                  for name in ('stat', 'uptime', 'loadavg', 'meminfo'): open('/proc/' + name).read()\n    \
                  worst = max(worst, time.monotonic() - t)\n\
                  all = [threading.Thread(target=read) for _ in range(8)]\n\
                  [t.start() for t in all]; [t.join() for t in all]\nprint(worst)";
    let worst: f64 = machine.exec("a", &["python3", "-c", script]).ok().trim().parse().unwrap();
    // Who lets nothing go is waited for as long as `lease-break-time` says, 45 s.
    assert!(worst < 30.0, "{worst} s");
    machine.down();
}

#[test]
fn they_are_read_whoever_was_killed() {
    let machine = machine!();
    machine.up(&pair("run: [[tail, -f, /dev/null]]"));
    let inits = machine.inits();
    kill(lab_process(&machine, "pair"));
    let read_all =
        "cat /proc/loadavg /proc/meminfo /proc/stat /proc/uptime >/dev/null && echo read";
    let file = machine.file(&pair("run: [[tail, -f, /dev/null]]"));
    machine.up_file(&file);
    assert_eq!(machine.inits(), inits);
    assert_eq!(machine.exec("a", &["sh", "-c", read_all]).ok().trim(), "read");
    // From outside, through an open file of a node whose holder is killed while somebody waits for it: nobody waits on.
    let (_, pid) = inits.iter().find(|(name, _)| name == "a").expect("the node");
    // The reader before has closed its files; a reader waits only for files whose leases are taken again.
    let leases = || {
        let locks = std::fs::read_to_string("/proc/locks").expect("the locks");
        let is_own = |line: &&str| {
            line.contains("LEASE") && line.split_whitespace().any(|word| word == pid.to_string())
        };
        (locks.lines().filter(is_own).count() == 4).then_some(())
    };
    if is_root() {
        wait_until("the leases of four files", Duration::from_secs(30), leases);
    }
    netloom_kit::stop(*pid);
    let mut waiting = std::process::Command::new("cat")
        .arg(format!("/proc/{pid}/root/proc/meminfo"))
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("start cat");
    let waits = || {
        let found = std::fs::read_to_string(format!("/proc/{}/wchan", waiting.id()));
        found.is_ok_and(|place| place.contains("lease")).then_some(())
    };
    if is_root() {
        wait_until("a reader that waits", Duration::from_secs(30), waits);
    }
    let start = Instant::now();
    kill_and_wait(*pid);
    waiting.wait().expect("wait");
    // Not as long as `lease-break-time` says, 45 s.
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    machine.down();
}

#[test]
fn a_lab_comes_up_in_a_privileged_node_of_an_ordinary_users_lab() {
    ordinary_only!("a user namespace in that of the lab mounts a /proc");
    needs!("unshare", "time-namespaces");
    let machine = machine!();
    machine.up("name: outer\nnodes: {a: {privileged: true}}\n");
    let netloom = netloom_kit::Binary::find().path().display().to_string();
    let script = format!(
        "mkdir -p /tmp/in && export NETLOOM_RUNTIME_DIR=/tmp/in && cd /tmp/in && \
         printf 'name: inner\\nnodes: {{x: {{}}, y: {{}}}}\\nlinks: [[x, y]]\\n' >lab.yaml && \
         {netloom} up lab.yaml >&2 && {netloom} exec x -- cat /proc/uptime && cat /proc/uptime; \
         {netloom} down --all >&2"
    );
    let user = ["unshare", "-U", "--map-user=1000", "--map-group=1000", "sh", "-c", &script];
    let ages = machine.exec("a", &user).ok();
    let ages: Vec<f64> = ages.lines().map(|line| numbers(line)[0]).collect();
    assert!(ages.len() == 2 && ages[0] < ages[1] && ages[1] < 120.0, "{ages:?}");
    machine.down();
}

#[test]
fn they_are_read_while_the_init_starts_programs() {
    let machine = machine!();
    // While it starts one, no signal reaches the init.
    machine.up(&pair("health: {exec: ['true'], interval: 100ms}"));
    let script = "import time\nworst, end = 0, time.monotonic() + 4\nwhile time.monotonic() < end:\n  \
                  t = time.monotonic()\n  open('/proc/loadavg').read()\n  \
                  worst = max(worst, time.monotonic() - t)\nprint(worst)";
    let worst: f64 = machine.exec("a", &["python3", "-c", script]).ok().trim().parse().unwrap();
    // Who lets nothing go is waited for as long as `lease-break-time` says, 45 s.
    assert!(worst < 30.0, "{worst} s");
    machine.down();
}
