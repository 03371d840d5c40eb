//! Switches that come and go: each identifies itself, is emptied or resumed, and has its slices' sockets meanwhile.

use netloom_ofconn::{Time, reach};
use netloom_slicing::SliceId;

use crate::Result;
use crate::application::SwitchPolicy;
use crate::beginning::{Beginning, FreshStart, Parked, Progress};
use crate::greeting::SwitchDescription;
use crate::memory::{self, Keeping};
use crate::real::{Real, Service, To};
use crate::server::{Arrives, Server};
use crate::serving::TURN;
use crate::system::clock;
use crate::wire::{Side, Wire};

/// Most switches: more are closed at once. Also the most that are remembered while they are away.
const MOST_SWITCHES: usize = 256;

impl Server {
    /// A switch has said who it is.
    pub(crate) fn welcome_switch(
        &mut self,
        id: u64,
        told: SwitchDescription,
        now: Time,
    ) -> Result<()> {
        let datapath = told.features.datapath_id;
        let wrong = |why: &str| format!("switch {datapath:#018x}: {why}");
        let known = self.application.policy.switch(datapath).cloned();
        let Some(known) = known else {
            self.trouble = Some(wrong("no slice is on a switch with this number"));
            return self.close(id, "no slice is on it");
        };
        // One that connects again has lost its old connection before the slicer was told of it.
        let same = |real: &Real| real.datapath == datapath || real.name == known.name;
        let reals = self.reals.iter().filter(|(_, real)| same(real)).map(|(id, _)| *id);
        // Also one that is gone on with: both would have the switch then, and write the same file.
        let begun = self.beginnings.iter().filter(|(_, one)| one.is_of(datapath, &known.name));
        let old: Vec<u64> = reals.chain(begun.map(|(id, _)| *id)).collect();
        for old in old {
            self.close(old, "the switch has connected again")?;
        }
        if self.reals.len() + self.beginnings.len() >= MOST_SWITCHES {
            self.trouble = Some(wrong("there are as many switches as are possible"));
            return self.close(id, "there are too many switches");
        }
        let file = self.application.memory.as_ref();
        let file = file.map(|folder| memory::file(folder, datapath));
        let is_in_file = file.as_ref().is_some_and(|file| file.path().exists());
        if (is_in_file || self.parked.contains_key(&datapath)) && told.found.is_none() {
            // Something is known of it: what of it is true says the switch.
            if let Some(Wire { side: Side::Greeting(with), .. }) = self.wires.get_mut(&id) {
                let asked = with.look(told);
                self.post_all(id, asked, now);
            }
            return Ok(());
        }
        // Under another name its slices are others.
        let parked = self.parked.remove(&datapath).filter(|parked| parked.name == known.name);
        let begun = match (parked, file.map(Keeping::new)) {
            (Some(parked), _) => Beginning::again(&known, told, parked),
            (None, Some(keeping)) if is_in_file => {
                let policy = &self.application.policy;
                Beginning::remembered(policy, &known, told, &self.secret, keeping)
            }
            (None, keeping) => Err(Box::new(FreshStart { why: None, told, keeping })),
        };
        match begun {
            Ok(beginning) => {
                if let Some(wire) = self.wires.get_mut(&id) {
                    wire.side = Side::Beginning;
                    // It is read whatever waits to be sent to it: otherwise both could wait for each other for ever.
                    wire.channel.heeds_all = true;
                }
                self.beginnings.insert(id, beginning);
                Ok(())
            }
            Err(anew) => {
                let FreshStart { why, told, keeping } = *anew;
                if let Some(why) = why {
                    memory::distrusted(&known, &why);
                }
                self.empty_switch(id, &known, &told, keeping, now)
            }
        }
    }

    /// Begins with a switch that is emptied.
    fn empty_switch(
        &mut self,
        id: u64,
        known: &SwitchPolicy,
        told: &SwitchDescription,
        keeping: Option<Keeping>,
        now: Time,
    ) -> Result<()> {
        match Real::begin(&self.application.policy, known, told, &self.secret, now, keeping) {
            Ok((mut real, mut to)) => {
                for (xid, message) in &told.early {
                    to.extend(real.tell_core(now, *xid, message.clone()));
                }
                self.has_begun(id, real, to, now)
            }
            Err(why) => {
                self.trouble = Some(why);
                self.close(id, "its slices cannot be had on it")
            }
        }
    }

    /// The slices of a switch have it.
    fn has_begun(&mut self, id: u64, real: Real, to: Vec<To>, now: Time) -> Result<()> {
        if let Some(wire) = self.wires.get_mut(&id) {
            wire.side = Side::Switch;
            wire.channel.heeds_all = true;
        }
        self.reals.insert(id, real);
        self.peers.heard(id);
        self.deliver(id, to, now);
        self.trouble = None;
        self.offer_services(id)?;
        self.refresh_peers()
    }

    /// Goes on with switches of which something was known.
    pub(crate) fn begin_more(&mut self) -> Result<()> {
        let mut ids: Vec<u64> = self.beginnings.keys().copied().collect();
        let after = ids.partition_point(|id| *id <= self.last_begun);
        ids.rotate_left(after);
        let end = clock() + TURN;
        for id in ids {
            let now = clock();
            if now > end {
                break;
            }
            self.last_begun = id;
            let takes = self.takes(id);
            let Some(beginning) = self.beginnings.get_mut(&id) else { continue };
            let (to, progress) = beginning.goes_on(now, takes, &mut self.pace.work());
            self.deliver(id, to, now);
            match progress {
                Progress::On => {}
                Progress::Done(mut real) => {
                    let Some(mut beginning) = self.beginnings.remove(&id) else { continue };
                    real.keeping = beginning.take_keeping();
                    self.has_begun(id, *real, vec![], now)?;
                }
                Progress::Failed(why) => {
                    let Some(beginning) = self.beginnings.remove(&id) else { continue };
                    let (known, told, keeping) = beginning.over();
                    memory::distrusted(&known, &why);
                    self.empty_switch(id, &known, &told, keeping, now)?;
                }
            }
        }
        Ok(())
    }

    /// A switch's connection has ended: so do those of its slices.
    pub(crate) fn lost_switch(&mut self, id: u64) -> Result<()> {
        let Some(mut real) = self.reals.remove(&id) else { return Ok(()) };
        if let Err(why) = real.save() {
            self.trouble = Some(why);
        }
        let of = |wire: &Wire| matches!(wire.side, Side::Slice { switch, .. } if switch == id);
        let those: Vec<u64> =
            self.wires.iter().filter(|(_, wire)| of(wire)).map(|(id, _)| *id).collect();
        for one in those {
            self.close(one, "its switch is gone")?;
        }
        let its = |arrives| matches!(arrives, Arrives::Clients(switch, ..) if switch == id);
        for place in self.arrivals.of(its) {
            self.arrivals.stop(&self.watcher, place);
        }
        for path in std::mem::take(&mut real.services) {
            let _ = std::fs::remove_file(path);
        }
        // Numbers that come and do not come again would fill the memory.
        if self.parked.len() >= MOST_SWITCHES {
            let oldest = self.parked.iter().min_by_key(|(_, one)| one.since).map(|(at, _)| *at);
            if let Some(at) = oldest {
                self.parked.remove(&at);
            }
        }
        self.parked.insert(real.datapath, Parked::of(real, clock()));
        self.refresh_peers()
    }

    /// Makes the sockets of a switch's virtual switches.
    fn offer_services(&mut self, id: u64) -> Result<()> {
        let Some(folder) = self.application.services.clone() else { return Ok(()) };
        let Some(real) = self.reals.get(&id) else { return Ok(()) };
        let (name, all): (String, Vec<(SliceId, usize)>) =
            (real.name.clone(), real.slices.iter().map(|(id, of)| (*id, of.place)).collect());
        for (slice, place) in all {
            let Some(of) = self.application.policy.slices.get(place) else { continue };
            let path = folder.join(format!("{}.{name}", of.slice.name));
            match reach::listen_unix(&path).map(|socket| Service { socket, path }) {
                Ok(Service { socket, path }) => {
                    let arrives = Arrives::Clients(id, slice, place);
                    self.listen(socket, false, arrives)?;
                    if let Some(real) = self.reals.get_mut(&id) {
                        real.services.push(path);
                    }
                }
                // Its controllers have the virtual switch all the same.
                Err(e) => self.trouble = Some(netloom_sys::describe(&e)),
            }
        }
        Ok(())
    }
}
