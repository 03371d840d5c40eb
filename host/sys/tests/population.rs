//! Processes found by the PID namespace of their init.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use netloom_kit::needs_namespaces;
use netloom_sys::population;
use rustix::process::Pid;

#[test]
fn processes_of_a_namespace_are_found_without_its_init_and_nobody_elses() {
    needs_namespaces!();
    // The shell is the init there; it ends with its input, and all its children with it.
    let mut command = Command::new("unshare");
    if !netloom_kit::is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    let script = "sleep 600 & sleep 601 & echo ready; read end";
    command.args(["--pid", "--fork", "--kill-child", "sh", "-c", script]);
    let mut unshare = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(unshare.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    let children = format!("/proc/{0}/task/{0}/children", unshare.id());
    let init: i32 = std::fs::read_to_string(children).unwrap().trim().parse().unwrap();
    let found = population::of_init(Pid::from_raw(init).unwrap()).unwrap();
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found.iter().all(|p| p.pid != init));
    let children = std::fs::read_to_string(format!("/proc/{init}/task/{init}/children")).unwrap();
    let expected: Vec<i32> = children.split_whitespace().map(|p| p.parse().unwrap()).collect();
    assert_eq!(found.iter().map(|p| p.pid).collect::<Vec<_>>(), expected);
    drop(unshare.stdin.take());
    unshare.wait().unwrap();
    assert!(population::of_init(Pid::from_raw(init).unwrap()).is_err());
}
