//! Carries out and answers requests of the control socket.

use std::os::fd::OwnedFd;

use netloom_ofconn::control::{self, Said};
use netloom_ofconn::reach::Space;
use netloom_sys::describe;

use crate::control::{Answer, Request};
use crate::server::{Key, Server};
use crate::{Error, Result};

impl Server {
    /// Accepts clients.
    pub(crate) fn welcome_clients(&mut self) {
        let Some(socket) = self.desk.welcome() else { return };
        let id = self.number();
        if self.watcher.add(&socket, Key::Client(id), true, false).is_ok() {
            self.desk.admit(id, socket);
        }
    }

    /// Hears a client's request, and answers it.
    ///
    /// # Errors
    /// Only what ends the slicer.
    pub(crate) fn hear_client(&mut self, id: u64) -> Result<()> {
        let answer = match self.desk.hear(id) {
            Said::Request(request, with) => self.obey(request, with),
            Said::Malformed(reason) => Err(Error::Message(reason)),
            Said::Nothing => return Ok(()),
            Said::Gone(socket) => {
                socket.iter().for_each(|socket| self.watcher.drop(socket));
                return Ok(());
            }
        };
        let answer = answer.unwrap_or_else(|e| Answer::Failed(reason(&e)));
        if let Some(socket) = self.desk.answer(id, &answer) {
            self.watcher.drop(&socket);
        }
        Ok(())
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
                control::check_namespace(&name, &self.namespaces).map_err(Error::Refused)?;
                self.set_namespace(&name, Some(Space::Other(namespace)))?;
            }
            Request::DropNamespace { name } => self.set_namespace(&name, None)?,
            Request::Stop => self.stop = true,
        }
        Ok(Answer::Done)
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
