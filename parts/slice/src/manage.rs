//! Carries out and answers requests of the control socket.

use std::os::fd::OwnedFd;

use netloom_ofconn::reach::Space;
use netloom_sys::envelope::{self, Received};
use netloom_sys::{describe, scm};
use rustix::net::SocketFlags;

use crate::control::{Answer, Request};
use crate::error::CONTROL;
use crate::server::{Key, Server};
use crate::{Error, Result};

/// Most clients; further ones are closed at once.
const MOST: usize = 32;

/// Longest name of a namespace.
const MOST_NAME: usize = 255;

/// Most namespaces.
const MOST_NAMESPACES: usize = 256;

impl Server {
    /// Accepts clients.
    pub(crate) fn welcome_clients(&mut self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // One that has left again does not matter.
        let Ok(socket) = rustix::net::accept_with(&self.control, flags) else { return };
        let own = rustix::process::geteuid().as_raw();
        let known = scm::peer_uid(&socket).is_ok_and(|uid| uid == own || uid == 0);
        if !known || self.clients.len() >= MOST {
            return;
        }
        let id = self.number();
        if self.watcher.add(&socket, Key::Client(id), true, false).is_ok() {
            self.clients.insert(id, socket);
        }
    }

    /// Hears a client's request, and answers it.
    ///
    /// # Errors
    /// Only what ends the slicer.
    pub(crate) fn hear_client(&mut self, id: u64) -> Result<()> {
        let again = Some(rustix::io::Errno::AGAIN.raw_os_error());
        let Some(socket) = self.clients.get(&id) else { return Ok(()) };
        let answer = match envelope::receive(CONTROL, socket) {
            Ok(Received::Value(request, with)) => self.obey(request, with),
            Ok(Received::Malformed(reason)) => Err(Error::Message(reason)),
            Err(e) if e.raw_os_error() == again => return Ok(()),
            Ok(Received::Ended) | Err(_) => {
                self.dismiss(id);
                return Ok(());
            }
        };
        let answer = answer.unwrap_or_else(|e| Answer::Failed(reason(&e)));
        let Some(socket) = self.clients.get(&id) else { return Ok(()) };
        // A client that does not read its answers is dropped.
        if envelope::send(CONTROL, socket, &answer, &[]).is_err() {
            self.dismiss(id);
        }
        Ok(())
    }

    fn dismiss(&mut self, id: u64) {
        if let Some(socket) = self.clients.remove(&id) {
            self.watcher.drop(&socket);
        }
    }

    fn obey(&mut self, request: Request, with: Vec<OwnedFd>) -> Result<Answer> {
        match request {
            Request::Show => return Ok(Answer::Shown(Box::new(self.shown()))),
            Request::SetPolicy { policy } => self.set_policy(policy)?,
            Request::SetNamespace { name } => {
                let [namespace] = <[OwnedFd; 1]>::try_from(with).map_err(|with| {
                    let text = format!("namespace {name:?}: {} descriptors, not one", with.len());
                    Error::refused(text)
                })?;
                self.check_namespace(&name)?;
                self.set_namespace(&name, Some(Space::Other(namespace)))?;
            }
            Request::DropNamespace { name } => self.set_namespace(&name, None)?,
            Request::Stop => self.stop = true,
        }
        Ok(Answer::Done)
    }

    fn check_namespace(&self, name: &str) -> Result<()> {
        if name.is_empty() || name.len() > MOST_NAME {
            return Err(Error::refused(format!("namespace: names have 1 to {MOST_NAME} bytes")));
        }
        if self.namespaces.len() >= MOST_NAMESPACES && !self.namespaces.contains_key(name) {
            return Err(Error::refused(format!("namespace {name:?}: {MOST_NAMESPACES} are known")));
        }
        Ok(())
    }
}

/// An error as answered: the client's own error adds the same prefix.
fn reason(error: &Error) -> String {
    match error {
        Error::Refused(reason) => reason.clone(),
        Error::Message(reason) => format!("message: {reason}"),
        other => describe(other),
    }
}
