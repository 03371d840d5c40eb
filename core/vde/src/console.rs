//! The management console: lines to commands, results to answers.
//!
//! One line is one command. A command's path comes first, and whatever follows are its arguments; as in
//! `vde_switch`, the first entry of the table whose path the line begins with is meant. An answer is `1000
//! Success`, or `1` and an error number in three digits; those of commands that show something begin with data
//! up to a line with a full stop. What `vde_switch` has and this switch has not is answered like a command that
//! nobody knows: 1038.

mod answer;
mod show;
mod table;

pub use answer::{Answer, Code};
pub use show::{Endpoint, Known, Member, PortLines, members, port};
pub use table::help;

/// Written when a console connects, before the first [`PROMPT`].
pub fn greeting(version: &str) -> String {
    format!("VDE switch V.2.3.2\n(netloom {version}: the console of a switch in shared memory)\n")
}

/// Written after each answer.
pub const PROMPT: &str = "\nvde$ ";

/// Written instead of an answer when a console leaves.
pub const FAREWELL: &str = "9999 END OF SESSION";

/// The most bytes read at once. It reads whole lines; the last may lack its end.
pub const MOST_LINE: usize = 1024;

/// The VLANs that can be created are those below this number.
pub const FIRST_FORBIDDEN: u16 = 4094;

/// The VLAN of untagged frames of a port that takes none.
pub const NO_VLAN: u16 = 0xfff;

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// The folder and its permissions.
    ShowSocket,
    /// The commands, or those that begin with this text.
    Help(String),
    /// Ends the console.
    Logout,
    /// The switch and its process.
    Show,
    /// How long addresses are known.
    ShowHash,
    /// All known addresses.
    Addresses,
    /// An address.
    Find {
        /// The address.
        mac: [u8; 6],
        /// Only in this VLAN.
        vlan: Option<u16>,
    },
    /// The number of ports.
    ShowPorts,
    /// Sets the VLAN of a port's untagged frames.
    SetVlan {
        /// The port.
        port: u8,
        /// The VLAN.
        vlan: u16,
    },
    /// Sets the user who may have a port; `NONE` for everybody.
    SetUser {
        /// The port.
        port: u8,
        /// Name or number.
        user: String,
    },
    /// Sets the group that may have a port; `NONE` for everybody.
    SetGroup {
        /// The port.
        port: u8,
        /// Name or number.
        group: String,
    },
    /// Disconnects a client.
    Close {
        /// Its port.
        port: u8,
        /// Its connection, as shown with the port.
        endpoint: u32,
    },
    /// Frames that clients did not take in time.
    Lost,
    /// Ports, in use or all that have rules, or one.
    Ports {
        /// The only one.
        only: Option<u8>,
        /// Also those that nobody has.
        all: bool,
    },
    /// Makes a VLAN known.
    Create(u16),
    /// Forgets a VLAN that no port is in.
    Remove(u16),
    /// Puts a port into a VLAN, with tagged frames.
    AddPort {
        /// The VLAN.
        vlan: u16,
        /// The port.
        port: u8,
    },
    /// Takes it out again.
    DeletePort {
        /// The VLAN.
        vlan: u16,
        /// The port.
        port: u8,
    },
    /// VLANs and their ports, in use or all that have rules, or one.
    Vlans {
        /// The only one.
        only: Option<u16>,
        /// Also ports that nobody has.
        all: bool,
    },
}

/// What a line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// Nothing: it is empty, or a comment.
    Nothing,
    /// A command.
    Command(Command),
    /// One that cannot be carried out; the answer.
    Wrong(Answer),
}

/// Reads a line, without its end.
pub fn read(line: &[u8]) -> Line {
    let text = String::from_utf8_lossy(line);
    let text = text.trim();
    if text.is_empty() || text.starts_with('#') {
        return Line::Nothing;
    }
    let Some((entry, arguments)) = table::find(text) else {
        return Line::Wrong(Answer::failed(Code::UNKNOWN));
    };
    match table::command(entry, arguments) {
        Ok(command) => Line::Command(command),
        Err(code) if entry.shows => Line::Wrong(Answer::nothing_shown(code)),
        Err(code) => Line::Wrong(Answer::failed(code)),
    }
}

#[cfg(test)]
mod tests;
