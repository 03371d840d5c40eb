//! Changes of programs while a command of `exec` runs.

use rustix::process::{WaitOptions, waitpid};

use super::*;

fn once(command: &[&str]) -> Program {
    Program::once(command.iter().map(|word| (*word).to_owned()).collect())
}

fn log(folder: &tempfile::TempDir) -> [File; 2] {
    ["0", "1"].map(|name| File::create(folder.path().join(name)).unwrap())
}

/// Waits for the end of a program that has been signalled, and tells it.
fn end(programs: &mut Programs, pid: Pid) {
    let (_, status) = waitpid(Some(pid), WaitOptions::empty()).unwrap().unwrap();
    let exit = Exit::Signal(status.terminating_signal().unwrap());
    assert!(programs.ended(pid, exit, Instant::now()).is_some());
}

/// Programs that are killed with this value: those that have not ended, where a test fails.
struct Killed(Programs);

impl Drop for Killed {
    fn drop(&mut self) {
        for pid in self.0.slots.iter().filter_map(|slot| slot.pid) {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
    }
}

#[test]
fn a_command_of_exec_keeps_its_deadline_while_programs_change() {
    let folder = tempfile::tempdir().unwrap();
    let timeout = Duration::from_secs(600);
    let exec = |fatal| Exec { program: once(&["sleep", "700"]), fatal, timeout };
    let env = vec![("PATH".to_owned(), std::env::var("PATH").unwrap())];
    let run = vec![once(&["sleep", "701"])];
    let execs = vec![exec(false), exec(true)];
    let mut killed = Killed(Programs::new(run, vec![], execs, env.clone(), Some(log(&folder))));
    let programs = &mut killed.0;
    programs.start().unwrap();
    assert_eq!(programs.exec(), Ok(Execs::Running(vec![])));
    let until = programs.exec_until().unwrap();
    let [old, first] = [0, 1].map(|at: usize| programs.slots[at].pid.unwrap());

    // The old program is asked to end, and the command goes on beside that.
    programs.change(vec![once(&["sleep", "702"])], env, log(&folder));
    assert_eq!(programs.go_on(), Ok(()));
    assert_eq!((programs.stage, programs.exec_until()), (Stage::Changing, Some(until)));
    programs.end_late_exec(until.checked_sub(Duration::from_millis(1)).unwrap());
    assert_eq!(programs.exec_until(), Some(until), "it is not late yet");
    programs.end_late_exec(until);
    end(programs, first);
    assert_eq!(programs.exec_on(), Ok(Execs::Running(vec![])), "the old program has not ended");
    end(programs, old);
    assert_eq!(programs.go_on(), Ok(()));
    // What it missed is told, and the next one runs, with a deadline of its own.
    let Ok(Execs::Running(missed)) = programs.exec_on() else { panic!("the second one runs") };
    assert!(missed[0].contains("exec 1") && missed[0].contains("took longer than 600000 ms"));
    assert_eq!(programs.stage, Stage::Exec(1));
    assert!(programs.exec_until().is_some_and(|next| next > until));

    // Without a program that leaves it is the same.
    let same = programs.slots[0].program.clone();
    let env = programs.env.clone();
    let until = programs.exec_until();
    programs.change(vec![same], env, log(&folder));
    assert_eq!(programs.go_on(), Ok(()));
    assert_eq!((programs.stage, programs.exec_until()), (Stage::Exec(1), until));
    let [new, second] = [0, 2].map(|at: usize| programs.slots[at].pid.unwrap());
    programs.end_late_exec(until.unwrap());
    end(programs, second);
    assert!(programs.exec_on().unwrap_err().contains("exec 2"));
    rustix::process::kill_process(new, Signal::KILL).unwrap();
    end(programs, new);
}
