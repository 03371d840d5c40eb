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
        }
    }

    fn obey(&mut self, request: Request, with: Vec<OwnedFd>) -> Result<Answer> {
        match request {
            Request::Show => return Ok(Answer::Shown(Box::new(self.shown()))),
            Request::SetPolicy { policy } => self.set_policy(policy)?,
            Request::SetNamespace { name } => {
                let space =
                    reach::named(&name, with, self.peers.namespaces()).map_err(Error::Refused)?;
                self.set_namespace(&name, Some(space))?;
            }
            Request::DropNamespace { name } => self.set_namespace(&name, None)?,
            Request::Stop => self.stop = true,
        }
        Ok(Answer::Done)
    }
}
