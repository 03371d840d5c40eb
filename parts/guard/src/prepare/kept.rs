//! Sockets to which paths have led that a rule denies or asks about: one that is moved elsewhere stays what it is.
//!
//! Each is held, so that no other file gets its number.

use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use netloom_sys::seccomp::Sight;
use netloom_sys::seccomp::sight::{Object, object};
use rustix::fs::{FileType, fstat};

/// Sockets of one path that are remembered: servers make new ones.
const REMEMBERED: usize = 8;

/// Sockets by the path of a rule.
#[derive(Debug, Default)]
pub(crate) struct Kept(Mutex<HashMap<String, VecDeque<(Object, OwnedFd)>>>);

impl Kept {
    /// Notes to what these paths lead now.
    pub(crate) fn note(&self, paths: &[String], sight: &Sight) {
        for path in paths {
            self.leads(path, None, sight);
        }
    }

    /// Whether a path leads to this file, or has led there.
    pub(crate) fn leads(&self, path: &str, to: Option<Object>, sight: &Sight) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.entry(path.to_owned()).or_default();
        let found = sight.open(path.as_ref()).and_then(|held| Some((fstat(&held).ok()?, held)));
        let now = found.as_ref().map(|(found, _)| object(found));
        if let Some((found, held)) = found
            && FileType::from_raw_mode(found.st_mode) == FileType::Socket
            && !known.iter().any(|(socket, _)| Some(*socket) == now)
        {
            known.push_back((object(&found), held));
            if known.len() > REMEMBERED {
                known.pop_front();
            }
        }
        to.is_some_and(|to| now == Some(to) || known.iter().any(|(socket, _)| *socket == to))
    }
}
