//! Stops a process for certain.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::wait_until;

/// How long threads may need until they run and stop.
const BOUND: Duration = Duration::from_secs(60);

/// Stops a process by SIGSTOP and waits until all its threads have stopped: on a busy machine others still run
/// until the one that got the signal has its turn.
///
/// # Panics
/// There is no such process, or it does not stop.
pub fn stop(pid: i32) {
    let process = Pid::from_raw(pid).expect("a pid is not 0");
    kill_process(process, Signal::STOP).expect("send SIGSTOP");
    wait_until("all threads have stopped", BOUND, || {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("the process is there");
        let mut tasks = tasks.filter_map(Result::ok);
        tasks.all(|task| is_stopped(&task.path())).then_some(())
    });
}

/// Whether a thread is stopped, or gone (proc_pid_stat(5)).
fn is_stopped(task: &std::path::Path) -> bool {
    let Ok(stat) = std::fs::read_to_string(task.join("stat")) else { return true };
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_stopped_when_this_returns() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        stop(pid);
        assert!(is_stopped(format!("/proc/{pid}").as_ref()));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
