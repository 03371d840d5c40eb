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
    /// Only what ends the switch.
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
            Request::Show => return self.shown().map(|shown| Answer::Shown(Box::new(shown))),
            Request::AddPort(spec) => self.add_port(spec)?,
            Request::RemovePort { port } => self.remove_port(&port)?,
            Request::SetNamespace { name } => {
                let [namespace] = <[OwnedFd; 1]>::try_from(with).map_err(|with| {
                    let text = format!("namespace {name:?}: {} descriptors, not one", with.len());
                    Error::refused(text)
                })?;
                control::check_namespace(&name, &self.controllers.namespaces)
                    .map_err(Error::Refused)?;
                self.set_namespace(&name, Some(Space::Other(namespace)))?;
            }
            Request::DropNamespace { name } => self.set_namespace(&name, None)?,
            Request::SetControllers { controllers, tls } => {
                self.set_controllers(controllers, tls)?
            }
            Request::SetFail { fail } => self.set_fail(fail)?,
            Request::Trace(what) => {
                return self.trace(what).map(|traced| Answer::Traced(Box::new(traced)));
            }
            Request::Tables { table } => {
                return self.tables(table).map(|tables| Answer::Tables(Box::new(tables)));
            }
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
