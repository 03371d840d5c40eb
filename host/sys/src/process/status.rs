//! What /proc says of a process or thread in lines of `Key:` and value (proc_pid_status(5)).

use std::fmt::Display;
use std::str::FromStr;

/// The file `status` of a process or thread, as it was when it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status(String);

impl Status {
    /// That of a process or thread: its number, `self`, or `PID/task/TID`. `None` if there is none, or it may not be read.
    pub fn of(whose: impl Display) -> Option<Status> {
        std::fs::read_to_string(format!("/proc/{whose}/status")).ok().map(Status)
    }

    /// The value of a key, without its colon: `Tgid`.
    pub fn field(&self, key: &str) -> Option<&str> {
        let value = self.0.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        value.map(str::trim)
    }

    /// The value of a key that is a number.
    pub fn number<N: FromStr>(&self, key: &str) -> Option<N> {
        self.field(key)?.parse().ok()
    }
}

impl From<String> for Status {
    fn from(text: String) -> Status {
        Status(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_whole_and_values_trimmed() {
        let status = Status::from("Pid:\t7\nPPid:\t 8 \nSig:\t0f\n".to_owned());
        assert_eq!(status.number::<i32>("PPid"), Some(8));
        assert_eq!(status.number::<i32>("Pid"), Some(7));
        assert_eq!(status.field("P"), None);
        assert_eq!(status.number::<i32>("Sig"), None);
        assert_eq!(status.field("Sig"), Some("0f"));
    }

    #[test]
    fn this_process_has_one() {
        let own = Status::of("self").unwrap();
        assert_eq!(own.number("Tgid"), Some(std::process::id()));
        assert_eq!(Status::of(i32::MAX), None);
    }
}
