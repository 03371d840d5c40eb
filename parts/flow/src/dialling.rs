//! Reaching controllers: connecting, trying again, listening.

use std::os::fd::OwnedFd;

use netloom_ofconn::dial::{Begun, State};
use netloom_ofconn::reach::Space;
use netloom_ofconn::tls::Configs;
use netloom_openflow::Version;
use netloom_pipeline::{ConnectionId, FailMode, Time};
use netloom_sys::describe;

use crate::application::{Controller, Fail, Target, Tls};
use crate::controllers::{Controllers, Known, Whose};
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
        let configs = tls.as_ref().map(Configs::read).transpose()?;
        let changed = self.controllers.tls != tls;
        let gone = |known: &Known| {
            let secure = matches!(known.controller.target, Target::Tls(_) | Target::ListenTls(_));
            !controllers.contains(&known.controller) || secure && changed
        };
        let gone: Vec<u64> =
            self.controllers.known.iter().filter(|(_, k)| gone(k)).map(|(id, _)| *id).collect();
        (self.controllers.tls, self.controllers.configs) = (tls, configs);
        for id in gone {
            self.forget_controller(id)?;
        }
        let now = clock();
        for controller in controllers {
            let known = |known: &Known| known.controller == controller;
            if !self.controllers.known.values().any(known) {
                let id = self.number();
                self.controllers.known.insert(id, Known::new(controller, Whose::Main, now));
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
            Fail::Standalone => FailMode::Learning,
        };
        self.engine.note(|switch, _| switch.set_fail_mode(mode))
    }

    fn forget_controller(&mut self, id: u64) -> Result<()> {
        let Some(known) = self.controllers.known.remove(&id) else { return Ok(()) };
        match known.state {
            State::Dialling(socket, _) => self.watcher.drop(&socket),
            State::Connected(channel) => {
                self.close_channel(channel, "it is no longer a controller")?
            }
            State::Listening(place) => self.stop_listening(place),
            State::Idle(_) | State::Waiting => {}
        }
        Ok(())
    }

    /// Gives a namespace a name, or forgets it; those that are reached from it start over.
    pub(crate) fn set_namespace(&mut self, name: &str, space: Option<Space>) -> Result<()> {
        match space {
            Some(space) => drop(self.controllers.namespaces.insert(name.to_owned(), space)),
            None => drop(self.controllers.namespaces.remove(name)),
        }
        let uses = |known: &Known| known.controller.namespace.as_deref() == Some(name);
        let users: Vec<Controller> = self
            .controllers
            .known
            .values()
            .filter(|k| uses(k) && k.whose == Whose::Main)
            .map(|k| k.controller.clone())
            .collect();
        let ids: Vec<u64> =
            self.controllers.known.iter().filter(|(_, k)| uses(k)).map(|(id, _)| *id).collect();
        for id in ids {
            self.forget_controller(id)?;
        }
        let now = clock();
        for controller in users {
            let id = self.number();
            self.controllers.known.insert(id, Known::new(controller, Whose::Main, now));
        }
        self.dial(now);
        Ok(())
    }

    /// Makes the attempts that are due.
    pub(crate) fn dial(&mut self, now: Time) {
        if self.controllers.deadline().is_none_or(|at| at > now) {
            return;
        }
        let due: Vec<u64> = self.controllers.known.keys().copied().collect();
        for id in due {
            let Some(known) = self.controllers.known.get_mut(&id) else { continue };
            if !known.is_due(now) {
                continue;
            }
            if let State::Dialling(socket, _) = &known.state {
                self.watcher.drop(socket);
                known.failed("no answer".into(), now);
            } else {
                self.attempt(id, now);
            }
        }
    }

    fn attempt(&mut self, id: u64, now: Time) {
        let Controllers { known, namespaces, .. } = &mut self.controllers;
        let Some(known) = known.get_mut(&id) else { return };
        match known.attempt(WHOM, namespaces, now) {
            Begun::Nothing => {}
            Begun::Connected(socket) => {
                let state = self.arrive(id, socket, now);
                self.settle(id, state, now);
            }
            Begun::Listening(socket, tls) => {
                let state = self.listen(socket, tls).map(State::Listening);
                self.settle(id, state, now);
            }
            Begun::Dialling => {
                let State::Dialling(socket, _) = &known.state else { return };
                if let Err(e) = self.watcher.add(socket, Key::Dial(id), false, true) {
                    known.failed(describe(&e), now);
                }
            }
        }
    }

    fn settle(&mut self, id: u64, state: Result<State>, now: Time) {
        let Some(known) = self.controllers.known.get_mut(&id) else { return };
        match state {
            Ok(state) => known.state = state,
            Err(e) => known.failed(describe(&e), now),
        }
    }

    /// A connection has been made, or not.
    pub(crate) fn dialled(&mut self, id: u64, now: Time) -> Result<()> {
        let Some(known) = self.controllers.known.get_mut(&id) else { return Ok(()) };
        let State::Dialling(socket, _) = &known.state else { return Ok(()) };
        self.watcher.drop(socket);
        let Some(socket) = known.dialled(now) else { return Ok(()) };
        let state = self.arrive(id, socket, now);
        self.settle(id, state, now);
        Ok(())
    }

    /// Takes over a connection that has been made.
    fn arrive(&mut self, id: u64, socket: OwnedFd, now: Time) -> Result<State> {
        let Some(known) = self.controllers.known.get(&id) else { return Ok(State::Waiting) };
        let (target, whose) = (known.controller.target.clone(), known.whose);
        let link = self.link_to(&target, socket)?;
        self.open_channel(link, target.to_string(), whose, now).map(State::Connected)
    }

    /// A connection has begun: if it is a controller's main one, those that there are to be beside it are made.
    pub(crate) fn add_auxiliary(&mut self, main: u64, now: Time) {
        let version = self.engine.switch.version(ConnectionId(main));
        if self.application.auxiliary == 0 || version != Some(Version::V13) {
            return;
        }
        let is_main =
            |known: &&Known| known.connection() == Some(main) && known.whose == Whose::Main;
        let known = self.controllers.known.values().find(is_main);
        let Some(controller) = known.map(|known| known.controller.clone()) else { return };
        for number in 1..=self.application.auxiliary {
            let known = Known::new(controller.clone(), Whose::Auxiliary(main, number), now);
            let id = self.number();
            self.controllers.known.insert(id, known);
        }
    }

    /// Ends those beside a main connection that has ended.
    pub(crate) fn end_auxiliary(&mut self, main: u64) -> Result<()> {
        let beside = self.controllers.known.iter().filter(|(_, known)| known.whose.is_beside(main));
        let ids: Vec<u64> = beside.map(|(id, _)| *id).collect();
        ids.into_iter().try_for_each(|id| self.forget_controller(id))
    }

    /// A connection has ended: if it was that of a controller, it is tried again.
    pub(crate) fn lost_controller(&mut self, channel: u64, reason: &str) {
        let has = |known: &&mut Known| known.connection() == Some(channel);
        if let Some(known) = self.controllers.known.values_mut().find(has) {
            known.failed(reason.to_owned(), clock());
        }
    }

    /// A controller has said hello: the next attempt after it is the first again.
    pub(crate) fn heard_controller(&mut self, channel: u64) {
        let has = |known: &&mut Known| known.connection() == Some(channel);
        if let Some(known) = self.controllers.known.values_mut().find(has) {
            known.heard();
        }
    }
}
