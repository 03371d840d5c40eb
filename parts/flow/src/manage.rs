//! Carries out and answers requests of the control socket.

use std::os::fd::OwnedFd;

use netloom_control::Incoming;
use netloom_ofconn::reach;

use crate::control::{Answer, Request};
use crate::server::Server;
use crate::{Error, Result};

impl Server {
    /// Answers the requests that are there.
    pub(crate) fn serve_clients(&mut self) {
        for Incoming { by, request, with } in self.desk.turn() {
            let answer = self.obey(request, with).map_err(|e| e.reason());
            self.desk.reply(by, answer);
            // Before the plane keeps results of it.
            self.save();
        }
    }

    fn obey(&mut self, request: Request, with: Vec<OwnedFd>) -> Result<Answer> {
        match request {
            Request::Show => return self.shown().map(|shown| Answer::Shown(Box::new(shown))),
            Request::AddPort(spec) => self.add_port(spec)?,
            Request::RemovePort { port } => self.remove_port(&port)?,
            Request::SetNamespace { name } => {
                let space = reach::named(&name, with, self.controllers.peers.namespaces())
                    .map_err(Error::Refused)?;
                self.set_namespace(&name, Some(space))?;
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
