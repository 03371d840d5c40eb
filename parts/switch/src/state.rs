//! The state file: what a restarted switch must know.
//!
//! It holds the rules and the identity of each port: number, name, token, generation, owner. Memory is not in
//! it: ports bring theirs when they rejoin. It is written under a temporary name and renamed, so it is always
//! whole. Its mode is 0600, since a token grants its port. A file that exists but cannot be read is an error,
//! never a fresh start: rules must not vanish by accident.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use netloom_shm::protocol::Token;
use netloom_sys::Failure;
use serde::{Deserialize, Serialize};

use crate::rules::{Rules, check_name, check_number};
use crate::{Error, Result};

const VERSION: u32 = 1;

/// Longest file in bytes: 255 ports with all rules need less than a tenth of it.
const MOST: u64 = 16 << 20;

/// The record of a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Known {
    pub(crate) number: u8,
    pub(crate) name: String,
    #[serde(with = "hex")]
    pub(crate) token: Token,
    /// Generation of the number's owner: unique among all ports of a switch.
    pub(crate) generation: u32,
    pub(crate) uid: u32,
    /// The process that joined; 0 if the switch could not see it.
    #[serde(default)]
    pub(crate) pid: i32,
}

/// Content of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct State {
    pub(crate) version: u32,
    /// The generation of the next port.
    pub(crate) generation: u32,
    #[serde(default)]
    pub(crate) rules: Rules,
    #[serde(default)]
    pub(crate) ports: Vec<Known>,
}

impl Default for State {
    fn default() -> State {
        State { version: VERSION, generation: 1, rules: Rules::default(), ports: Vec::new() }
    }
}

impl State {
    fn check(&self) -> std::result::Result<(), String> {
        if self.version != VERSION {
            return Err(format!("version {}; this program knows {VERSION}", self.version));
        }
        let reason = |e: Error| match e {
            Error::Refused(reason) => reason,
            other => other.to_string(),
        };
        self.rules.check().map_err(reason)?;
        let mut numbers = std::collections::BTreeSet::new();
        for port in &self.ports {
            check_number(u16::from(port.number)).map_err(reason)?;
            check_name(&port.name).map_err(reason)?;
            if !numbers.insert(port.number) {
                return Err(format!("port {}: there are two", port.number));
            }
            // Zero means none when a client joins, so such a port could never come back.
            if port.token == Token::default() || port.generation == 0 {
                return Err(format!(
                    "port {}: no port has such a token or generation",
                    port.number
                ));
            }
        }
        Ok(())
    }
}

/// The file.
#[derive(Debug)]
pub(crate) struct StateFile {
    path: PathBuf,
    beside: PathBuf,
}

impl StateFile {
    pub(crate) fn new(path: &Path) -> StateFile {
        let mut beside = path.as_os_str().to_owned();
        beside.push(".new");
        StateFile { path: path.to_owned(), beside: beside.into() }
    }

    /// Its content; a new state when there is no such file.
    ///
    /// # Errors
    /// [`Error::Failed`], or [`Error::BrokenState`] when it is malformed or contradictory.
    pub(crate) fn read(&self) -> Result<State> {
        let broken = |reason: String| Error::BrokenState { path: self.path.clone(), reason };
        let failed = |e: std::io::Error| Error::from(Failure::new(self.object(), "read", e));
        match std::fs::metadata(&self.path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(State::default()),
            Err(e) => return Err(failed(e)),
            Ok(facts) if !facts.is_file() => return Err(broken("it is not a file".into())),
            Ok(facts) if facts.len() > MOST => {
                return Err(broken(format!("{} bytes; at most {MOST}", facts.len())));
            }
            Ok(_) => {}
        }
        let bytes = std::fs::read(&self.path).map_err(failed)?;
        let state: State = serde_json::from_slice(&bytes).map_err(|e| broken(e.to_string()))?;
        state.check().map_err(broken)?;
        Ok(state)
    }

    /// Replaces the file.
    ///
    /// # Errors
    /// [`Error::Failed`]; the old content is then intact.
    pub(crate) fn write(&self, state: &State) -> Result<()> {
        let failed = |e: std::io::Error| Error::from(Failure::new(self.object(), "write", e));
        let bytes = serde_json::to_vec(state).map_err(|e| failed(e.into()))?;
        let mut options = std::fs::OpenOptions::new();
        // The file beside may be left from a process that was killed while it wrote.
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(&self.beside).map_err(failed)?;
        file.write_all(&bytes).map_err(failed)?;
        std::fs::rename(&self.beside, &self.path).map_err(failed)
    }

    /// The file in errors.
    fn object(&self) -> String {
        format!("switch: state file {}", self.path.display())
    }
}

/// A token as hexadecimal digits.
mod hex {
    use netloom_shm::protocol::Token;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &Token, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&format_args!("{:032x}", u128::from_be_bytes(*value)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Token, D::Error> {
        let text = String::deserialize(from)?;
        let number = u128::from_str_radix(&text, 16).map_err(serde::de::Error::custom)?;
        Ok(number.to_be_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    fn scratch(name: &str) -> PathBuf {
        let id = std::process::id();
        let path = std::env::temp_dir().join(format!("netloom-switch-state-{id}-{name}"));
        std::fs::create_dir(&path).unwrap();
        path
    }

    fn known(number: u8, generation: u32) -> Known {
        let token = [0xf5; 16];
        Known { number, name: format!("p{number}"), token, generation, uid: 0, pid: 0 }
    }

    #[test]
    fn it_comes_back_as_it_was_written() {
        let folder = scratch("back");
        let file = StateFile::new(&folder.join("state"));
        assert_eq!(file.read().unwrap(), State::default());
        let mut state = State { generation: 7, ..State::default() };
        state.ports = vec![known(3, 6), known(200, 2)];
        state.rules.ports.insert(3, crate::rules::PortRules::default());
        file.write(&state).unwrap();
        assert_eq!(file.read().unwrap(), state);
        let facts = std::fs::metadata(folder.join("state")).unwrap();
        assert_eq!(facts.mode() & 0o7777, 0o600);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_broken_one_is_refused_by_name() {
        let folder = scratch("broken");
        let path = folder.join("state");
        let file = StateFile::new(&path);
        let twice =
            State { generation: 9, ports: vec![known(3, 6), known(3, 7)], ..State::default() };
        let none = State { ports: vec![known(3, 0)], ..State::default() };
        let texts = [
            String::new(),
            "{".into(),
            "[]".into(),
            r#"{"version":2,"generation":1}"#.into(),
            r#"{"version":1,"generation":1,"more":1}"#.into(),
            r#"{"version":1,"generation":1,"rules":{"ports":{"0":{}}}}"#.into(),
            serde_json::to_string(&twice).unwrap(),
            serde_json::to_string(&none).unwrap(),
        ];
        for text in texts {
            std::fs::write(&path, &text).unwrap();
            let error = file.read().unwrap_err();
            assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
            assert!(matches!(error, Error::BrokenState { .. }), "{text}: {error:?}");
        }
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(matches!(file.read(), Err(Error::BrokenState { .. })));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
