//! How programs and their supervisor end: each with the other, and nothing is let through without a supervisor.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use netloom_guard::{Judge, Judgement, Question, start};
use netloom_kit::{again, wait_until};
use netloom_policy::Request;
use rustix::process::{Pid, Signal, kill_process};

use super::redteam::{ALLOWED, place};

const BOUND: Duration = Duration::from_secs(30);

/// Processes of each kind that a program leaves behind; they say who they are.
const FAMILY: &str = "sleep 600 & echo pid $!; setsid sleep 600 & echo pid $!; (sleep 600 & echo pid $!); \
                      echo pid $$; echo ready; wait; sleep 600";

#[test]
#[ignore = "helper: killed by the test below"]
fn guards_a_family() {
    let mut command = Command::new("sh");
    command.args(["-c", FAMILY]);
    let (_child, supervisor) = start(command, place()).unwrap();
    supervisor.serve(&ALLOWED).unwrap();
}

#[test]
fn a_supervisor_inside_another_is_told() {
    let mut command = again(&guards_a_family);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let (child, supervisor) = start(command, place()).unwrap();
    supervisor.serve(&ALLOWED).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains("another supervisor answers"), "{said}");
}

fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(')').map(|(_, rest)| rest.trim_start().to_owned());
    state.is_some_and(|state| !state.starts_with(['Z', 'X']))
}

#[test]
fn a_killed_supervisor_takes_its_programs_along() {
    let mut guard = again(&guards_a_family).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(guard.stdout.take().unwrap()).lines().map_while(Result::ok);
    let family: Vec<String> = lines
        .take_while(|line| !line.contains("ready"))
        .filter_map(|line| line.split_once("pid ").map(|(_, pid)| pid.to_owned()))
        .collect();
    assert_eq!(family.len(), 4, "{family:?}");
    assert!(family.iter().all(|pid| is_alive(pid)));
    guard.kill().unwrap();
    guard.wait().unwrap();
    wait_until("the programs have ended", BOUND, || {
        (!family.iter().any(|pid| is_alive(pid))).then_some(())
    });
}

#[test]
fn the_program_ends_as_it_would_and_hears_its_signals() {
    for (script, code, signal) in [
        ("exit 7", Some(7), None),
        ("kill -9 $$", None, Some(9)),
        ("kill -TERM $$", None, Some(15)),
    ] {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let (mut child, supervisor) = start(command, place()).unwrap();
        supervisor.serve(&ALLOWED).unwrap();
        let status = child.wait().unwrap();
        assert_eq!((status.code(), status.signal()), (code, signal), "{script}");
    }
    let mut command = Command::new("sh");
    command.args(["-c", "sleep 600 & trap 'echo heard; kill $!; exit 3' TERM; echo ready; wait"]);
    command.stdout(Stdio::piped());
    let (mut child, supervisor) = start(command, place()).unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    std::thread::scope(|scope| {
        scope.spawn(|| supervisor.serve(&ALLOWED).unwrap());
        assert_eq!(lines.next().unwrap().unwrap(), "ready");
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
        assert_eq!(lines.next().unwrap().unwrap(), "heard");
    });
    assert_eq!(child.wait().unwrap().code(), Some(3));
}

/// Counts, and allows.
struct Counting(AtomicUsize);

impl Judge for Counting {
    fn known(&self, _: &Request) -> Option<Judgement> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Some(Judgement::Allow)
    }

    fn decide(&self, _: &Question<'_>) -> Judgement {
        Judgement::Allow
    }
}

#[test]
fn a_program_that_is_killed_while_it_connects_ends_at_once() {
    let (listener, _fill) = super::redteam::full();
    let port = listener.local_addr().unwrap().port();
    let script = format!(
        "import os, socket\nprint(os.getpid(), flush=True)\n\
         socket.create_connection(('127.0.0.1', {port}))"
    );
    let mut command = Command::new("python3");
    command.args(["-c", &script]).stdout(Stdio::piped());
    let (mut child, supervisor) = start(command, place()).unwrap();
    let judge = Counting(AtomicUsize::new(0));
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| supervisor.serve(&judge).unwrap());
        let pid: i32 = lines.next().unwrap().unwrap().parse().unwrap();
        wait_until("it connects", BOUND, || (judge.0.load(Ordering::Relaxed) > 0).then_some(()));
        kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
        wait_until("the supervisor has ended", BOUND, || (serving.is_finished()).then_some(()));
    });
    assert_eq!(child.wait().unwrap().signal(), Some(9));
}

#[test]
fn calls_that_wait_although_they_seemed_quick_hold_up_no_others() {
    let (full, _fill) = super::redteam::full();
    let open = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let [full, served] = [&full, &open].map(|one| one.local_addr().unwrap().port());
    // A few connections to a full queue, and then some to one with room. It ends by itself if it is held up.
    let script = format!(
        "import os, signal, socket, threading\n\
         signal.alarm(30)\n\
         def wait():\n \
         s = socket.socket()\n \
         os.write(w, b'x')\n \
         s.connect(('127.0.0.1', {full}))\n\
         r, w = os.pipe()\n\
         for n in range(8):\n \
         threading.Thread(target=wait, daemon=True).start()\n \
         os.read(r, 1)\n\
         for n in range(100):\n \
         socket.create_connection(('127.0.0.1', {served})).close()\n\
         print('served', flush=True)\n\
         os._exit(0)"
    );
    let mut command = Command::new("python3");
    command.args(["-c", &script]).stdout(Stdio::piped());
    let (child, supervisor) = start(command, place()).unwrap();
    supervisor.serve(&Counting(AtomicUsize::new(0))).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "served\n", "{}", output.status);
}

#[test]
fn a_thousand_programs_are_served_at_once() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // Each connects, and stays until all have: the listener's queue is long enough.
    let script = format!(
        "import os, socket\n\
         r, w = os.pipe()\n\
         for n in range(1000):\n \
         if os.fork() == 0:\n  \
         os.close(w)\n  \
         s = socket.socket()\n  \
         s.connect(('127.0.0.1', {port}))\n  \
         os.write(1, b'x')\n  \
         os.read(r, 1)\n  \
         os._exit(0)\n\
         os.read(0, 1)"
    );
    let mut command = Command::new("python3");
    command.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let (mut child, supervisor) = start(command, place()).unwrap();
    let mut output = child.stdout.take().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| supervisor.serve(&ALLOWED).unwrap());
        scope.spawn(|| (0..1000).for_each(|_| drop(listener.accept().unwrap())));
        let mut all = vec![0; 1000];
        std::io::Read::read_exact(&mut output, &mut all).unwrap();
        let threads = std::fs::read_dir("/proc/self/task").unwrap().count();
        assert!(threads < 600, "{threads} threads");
        drop(child.stdin.take());
    });
    child.wait().unwrap();
}
