//! Reaching controllers: connecting, trying again, listening.

use std::os::fd::OwnedFd;

use netloom_ofconn::dial::{Begun, State};
use netloom_ofconn::reach::Space;
use netloom_ofconn::tls::Configs;
use netloom_openflow::Version;
use netloom_pipeline::{ConnectionId, FailMode, Time};
use netloom_sys::describe;

use crate::application::{Controller, Fail, Target, Tls};
use crate::controllers::{Known, Whose};
use crate::server::{Key, Server};
use crate::system::clock;

use crate::{Error, Result};

/// The peer's name, in failures.
const WHOM: &str = "controller";

/// Most controllers.
const MOST: usize = 256;

impl Server {
    /// Replaces the controllers; those that stay keep their connections.
    pub(crate) fn set_controllers(
        &mut self,
        controllers: Vec<Controller>,
        tls: Option<Tls>,
    ) -> Result<()> {
        if controllers.len() > MOST {
            let count = controllers.len();
            return Err(Error::refused(format!("{count} controllers; at most {MOST}")));
        }
        // Read before anything changes: a bad file leaves the switch as it was.
        let configs = tls.as_ref().map(Configs::read).transpose()?;
        let changed = self.controllers.tls != tls;
        // New files make another identity: TLS connections must be made with it.
        let gone = |known: &Known| {
            let secure = matches!(known.controller.target, Target::Tls(_) | Target::ListenTls(_));
            !controllers.contains(&known.controller) || secure && changed
        };
        let gone = self.controllers.peers.which(gone);
        (self.controllers.tls, self.controllers.configs) = (tls, configs);
        for id in gone {
            self.forget_controller(id)?;
        }
        let now = clock();
        for controller in controllers {
            if !self.controllers.peers.all().any(|known| known.controller == controller) {
                self.add(controller, Whose::Main, now);
            }
        }
        self.set_fail(self.application.fail)?;
        self.dial(now);
        Ok(())
    }

    /// Sets what happens while no controller is connected.
    pub(crate) fn set_fail(&mut self, fail: Fail) -> Result<()> {
        self.application.fail = fail;
        let mode = match fail {
            Fail::Secure => FailMode::Secure,
            Fail::Standalone if self.controllers.has_active() => FailMode::Standalone,
            // It only listens: entries that clients add count beside learning.
            Fail::Standalone => FailMode::Learning,
        };
        self.engine.note(|switch, _| switch.set_fail_mode(mode))
    }

    fn add(&mut self, controller: Controller, whose: Whose, now: Time) {
        let id = self.number();
        self.controllers.peers.add(id, controller, whose, now);
    }

    fn forget_controller(&mut self, id: u64) -> Result<()> {
        match self.controllers.peers.remove(&self.watcher, id) {
            Some(State::Connected(channel)) => {
                self.close_channel(channel, "it is no longer a controller")?
            }
            Some(State::Listening(place)) => self.arrivals.stop(&self.watcher, place),
            _ => {}
        }
        Ok(())
    }

    /// Gives a namespace a name, or forgets it; those that are reached from it start over.
    pub(crate) fn set_namespace(&mut self, name: &str, space: Option<Space>) -> Result<()> {
        let ids = self.controllers.peers.set_namespace(name, space);
        let peers = &self.controllers.peers;
        let users = ids.iter().filter_map(|id| peers.get(*id));
        // Auxiliary ones come again with their main connection.
        let mains = users.filter(|known| known.whose == Whose::Main);
        let mains: Vec<Controller> = mains.map(|known| known.controller.clone()).collect();
        for id in ids {
            self.forget_controller(id)?;
        }
        let now = clock();
        for controller in mains {
            self.add(controller, Whose::Main, now);
        }
        self.dial(now);
        Ok(())
    }

    /// Makes the attempts that are due.
    pub(crate) fn dial(&mut self, now: Time) {
        let begun = self.controllers.peers.dial(&self.watcher, Key::Dial, |_| WHOM, now);
        for (id, begun) in begun {
            let state = match begun {
                Begun::Connected(socket) => self.arrive(id, socket, now),
                Begun::Listening(socket, tls) => self.listen(socket, tls).map(State::Listening),
                Begun::Dialling | Begun::Nothing => continue,
            };
            self.controllers.peers.settle(id, state.map_err(|e| describe(&e)), now);
        }
    }

    /// A connection has been made, or not.
    pub(crate) fn dialled(&mut self, id: u64, now: Time) {
        if let Some(socket) = self.controllers.peers.dialled(&self.watcher, id, now) {
            let state = self.arrive(id, socket, now);
            self.controllers.peers.settle(id, state.map_err(|e| describe(&e)), now);
        }
    }

    /// Takes over a connection that has been made.
    fn arrive(&mut self, id: u64, socket: OwnedFd, now: Time) -> Result<State> {
        // It was removed while its connection was being made.
        let Some(known) = self.controllers.peers.get(id) else { return Ok(State::Waiting) };
        let (target, whose) = (known.controller.target.clone(), known.whose);
        let link = self.link_to(&target, socket)?;
        self.open_channel(link, target.to_string(), whose, now).map(State::Connected)
    }

    /// A connection has begun: if it is a controller's main one, those that there are to be beside it are made.
    pub(crate) fn add_auxiliary(&mut self, main: u64, now: Time) {
        let version = self.engine.switch.version(ConnectionId(main));
        // Version 1.0 knows no auxiliary connections.
        if self.application.auxiliary == 0 || version != Some(Version::V13) {
            return;
        }
        let known = self.controllers.peers.of(main).filter(|known| known.whose == Whose::Main);
        let Some(controller) = known.map(|known| known.controller.clone()) else { return };
        for number in 1..=self.application.auxiliary {
            self.add(controller.clone(), Whose::Auxiliary(main, number), now);
        }
    }

    /// Ends those beside a main connection that has ended.
    pub(crate) fn end_auxiliary(&mut self, main: u64) -> Result<()> {
        let ids = self.controllers.peers.which(|known| known.whose.is_beside(main));
        ids.into_iter().try_for_each(|id| self.forget_controller(id))
    }
}
