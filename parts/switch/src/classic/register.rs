//! The clients of now, as consoles show them.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::net::Shutdown;

/// Frames that a client lost.
#[derive(Debug, Default)]
pub(super) struct Lost {
    /// It did not take them in time, or had closed its data socket.
    pub(super) unread: AtomicU64,
    /// It sent them, and they are not frames: too short or too long.
    pub(super) malformed: AtomicU64,
    /// It sent them, and their receiver had no room for long.
    pub(super) stalled: AtomicU64,
}

impl Lost {
    pub(super) fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// A client.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// The number of its connection.
    pub(super) id: u32,
    pub(super) uid: u32,
    pub(super) description: String,
    pub(super) lost: Arc<Lost>,
    pub(super) control: Arc<OwnedFd>,
}

/// All clients, by port.
#[derive(Debug, Default)]
pub(super) struct Register {
    clients: Mutex<BTreeMap<u8, Entry>>,
    refused: Mutex<(u64, String)>,
}

impl Register {
    fn clients(&self) -> MutexGuard<'_, BTreeMap<u8, Entry>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn enter(&self, port: u8, entry: Entry) {
        self.clients().insert(port, entry);
    }

    /// Forgets a client, unless its port is another's by now.
    pub(super) fn leave(&self, port: u8, id: u32) {
        let mut clients = self.clients();
        if clients.get(&port).is_some_and(|entry| entry.id == id) {
            clients.remove(&port);
        }
    }

    pub(super) fn all(&self) -> BTreeMap<u8, Entry> {
        self.clients().clone()
    }

    /// Disconnects a client; false if there is none.
    pub(super) fn close(&self, port: u8, id: u32) -> bool {
        let found = self.clients().get(&port).filter(|entry| entry.id == id).cloned();
        // The thread that carries its frames sees the end, and removes it.
        found.is_some_and(|entry| rustix::net::shutdown(&*entry.control, Shutdown::Both).is_ok())
    }

    /// Counts a refused client, and keeps the reason.
    pub(super) fn refuse(&self, reason: String) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        *refused = (refused.0 + 1, reason);
    }

    /// Refused clients, and why the last was.
    pub(super) fn refused(&self) -> (u64, String) {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
