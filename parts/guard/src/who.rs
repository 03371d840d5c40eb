//! The caller: program, arguments, process and parent, as /proc shows them while the call waits.

use std::fs;

use netloom_policy::Program;
use netloom_sys::process::Status;

/// A process that makes a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    /// Its executable; without a path if that is not certain.
    pub program: Program,
    /// What the executable is called where the process is: in mounts of its own anything may be.
    pub called: String,
    /// Its arguments; anything may stand there, since the process itself can change them.
    pub arguments: Vec<String>,
    /// The thread that makes the call: the process's first one may have ended.
    pub thread: i32,
    /// Its process id.
    pub pid: i32,
    /// Its parent's; 0 outside of this PID namespace.
    pub parent: i32,
    /// Its parent's name.
    pub parent_name: String,
}

impl Who {
    /// Somebody of whom nothing is known.
    pub(crate) fn unknown() -> Who {
        Who::of(0, Program { path: String::new(), sha256: None })
    }

    /// Reads what /proc says of a thread's process, whose program is this one. What cannot be read is empty.
    pub(crate) fn of(thread: i32, program: Program) -> Who {
        let status = Status::of(thread).unwrap_or_default();
        let number = |key: &str| status.number(key).unwrap_or(0);
        // PPid is 0 where the parent lives outside of this PID namespace (proc_pid_status(5)).
        let (pid, parent) = (number("Tgid"), number("PPid"));
        let called = fs::read_link(format!("/proc/{thread}/exe"))
            .map(|path| path.to_string_lossy().into_owned())
            .unwrap_or_default();
        let line = fs::read(format!("/proc/{thread}/cmdline")).unwrap_or_default();
        let arguments =
            line.split(|byte| *byte == 0).map(|part| String::from_utf8_lossy(part).into_owned());
        let mut arguments: Vec<_> = arguments.collect();
        // Each argument ends with a NUL.
        arguments.pop();
        let parent_name = fs::read_to_string(format!("/proc/{parent}/comm")).unwrap_or_default();
        Who {
            program,
            called,
            arguments,
            thread,
            pid,
            parent,
            parent_name: parent_name.trim_end().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_known() {
        let program = Program { path: "/bin/x".into(), sha256: None };
        let who = Who::of(i32::try_from(std::process::id()).unwrap(), program.clone());
        assert_eq!(Some(who.called.as_str()), std::env::current_exe().unwrap().to_str());
        assert_eq!(who.program, program);
        assert_eq!(who.pid.unsigned_abs(), std::process::id());
        assert_eq!(who.arguments.len(), std::env::args_os().len());
        assert!(who.parent > 0);
    }

    #[test]
    fn a_process_that_is_gone_is_unknown() {
        let who = Who::of(i32::MAX, Program { path: String::new(), sha256: None });
        assert_eq!((who.called.as_str(), who.pid, who.arguments.len()), ("", 0, 0));
    }
}
