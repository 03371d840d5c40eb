//! Answers and their numbers.

use std::fmt;

/// The number of an answer: 0, or an error of Linux (errno(3)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(u16);

impl Code {
    /// Done.
    pub const SUCCESS: Code = Code(0);
    /// Not allowed (EPERM).
    pub const DENIED: Code = Code(1);
    /// The switch did not do it (EIO).
    pub const FAILED: Code = Code(5);
    /// There is no such port, VLAN or endpoint (ENXIO).
    pub const NONE: Code = Code(6);
    /// The switch's process is not there at the moment (EAGAIN).
    pub const LATER: Code = Code(11);
    /// It exists already (EEXIST).
    pub const EXISTS: Code = Code(17);
    /// There is no such address (ENODEV).
    pub const NO_ADDRESS: Code = Code(19);
    /// Not understood (EINVAL).
    pub const INVALID: Code = Code(22);
    /// No such command (ENOSYS).
    pub const UNKNOWN: Code = Code(38);
    /// It is in use (EADDRINUSE).
    pub const IN_USE: Code = Code(98);

    fn text(self) -> &'static str {
        match self.0 {
            0 => "Success",
            1 => "Operation not permitted",
            5 => "Input/output error",
            6 => "No such device or address",
            11 => "Resource temporarily unavailable",
            17 => "File exists",
            19 => "No such device",
            22 => "Invalid argument",
            38 => "Function not implemented",
            _ => "Address already in use",
        }
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    data: Option<String>,
    code: Code,
}

impl Answer {
    /// Done; there is nothing to show.
    pub const DONE: Answer = Answer { data: None, code: Code::SUCCESS };

    /// The answer, in whole lines.
    pub fn shown(data: String) -> Answer {
        Answer { data: Some(data), code: Code::SUCCESS }
    }

    /// A command that shows something had nothing to show.
    pub fn nothing_shown(code: Code) -> Answer {
        Answer { data: Some(String::new()), code }
    }

    /// Not done.
    pub fn failed(code: Code) -> Answer {
        Answer { data: None, code }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(data) = &self.data {
            f.write_str("0000 DATA END WITH '.'\n")?;
            for line in data.lines() {
                // A line that is only a full stop would end the data.
                f.write_str(if line == "." { " ." } else { line })?;
                f.write_str("\n")?;
            }
            f.write_str(".\n")?;
        }
        writeln!(f, "1{:03} {}", self.code.0, self.code.text())
    }
}
