//! Connections that others make.

use std::os::fd::OwnedFd;

use netloom_ofconn::arrival::{Arrival, TURN};
use netloom_ofconn::reach;
use netloom_pipeline::Time;

use crate::Result;
use crate::listeners::Listening;
use crate::server::{Key, Server};

impl Server {
    /// Listens at the switch's own socket.
    pub(crate) fn listen_unix(&mut self) -> Result<()> {
        let socket = reach::listen_unix(&self.application.openflow)?;
        self.listeners.spare = socket.try_clone().ok();
        self.listen(socket, false).map(drop)
    }

    /// Takes connections of a listening socket from now on; returns its number.
    pub(crate) fn listen(&mut self, socket: OwnedFd, tls: bool) -> Result<u64> {
        let id = self.number();
        self.watcher.add(&socket, Key::Listener(id), true, false)?;
        self.listeners.places.insert(id, Listening { socket, tls });
        Ok(id)
    }

    /// Closes a place.
    pub(crate) fn stop_listening(&mut self, id: u64) {
        if let Some(place) = self.listeners.places.remove(&id) {
            self.watcher.drop(&place.socket);
        }
    }

    /// Accepts connections.
    pub(crate) fn welcome_channels(&mut self, id: u64, now: Time) -> Result<()> {
        for _ in 0..TURN {
            let Some(place) = self.listeners.places.get(&id) else { return Ok(()) };
            let tls = place.tls;
            let next = Arrival::next(&place.socket, &mut self.listeners.spare);
            let Some(Arrival { socket, peer }) = next else { return Ok(()) };
            self.admit(socket, peer, tls, now)?;
        }
        Ok(())
    }
}
