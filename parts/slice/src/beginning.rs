//! A switch of which something is known: by this process, which has had it before, or from a file. It has told what it has;
//! one goes on with it some at a time, so that others have their turns meanwhile.
//!
//! State is in the file before the switch gets any message. If it is not true of the switch, or cannot be read,
//! the switch is emptied, and the log says why.

use std::collections::BTreeMap;
use std::sync::Arc;

use netloom_ofconn::Time;
use netloom_openflow::{Message, Version, decode, encode};
use netloom_slicing::{Key, Out, Resuming, SliceId, VirtualSwitches, Work};

use crate::application::{Policy, SwitchPolicy};
use crate::greeting::{MOST_EARLY, SwitchDescription};
use crate::memory::Keeping;
use crate::real::{Real, To};

/// Messages that the switch said meanwhile, done at a time.
const EARLY: usize = 64;

/// A switch that is away: what this process has proved for its slices is not proved again.
pub(crate) struct Parked {
    pub(crate) name: String,
    /// When it went.
    pub(crate) since: Time,
    core: VirtualSwitches,
    places: BTreeMap<SliceId, usize>,
    keeping: Option<Keeping>,
}

impl Parked {
    /// Keeps what is known of a switch.
    pub(crate) fn of(real: Real, since: Time) -> Parked {
        let places = real.slices.iter().map(|(id, attached)| (*id, attached.place)).collect();
        Parked { name: real.name, since, core: real.core, places, keeping: real.keeping }
    }
}

/// What a switch is begun with that cannot be gone on with.
pub(crate) struct FreshStart {
    /// Why, if there was something to go on with.
    pub(crate) why: Option<String>,
    pub(crate) told: SwitchDescription,
    pub(crate) keeping: Option<Keeping>,
}

/// A switch with which it goes on.
pub(crate) struct Beginning {
    switch: SwitchPolicy,
    pub(crate) told: SwitchDescription,
    places: BTreeMap<SliceId, usize>,
    keeping: Option<Keeping>,
    stage: Stage,
}

enum Stage {
    Proving(Box<Resuming>),
    /// What will be known is put into the file.
    Writing(Box<Resuming>),
    Telling(Box<Resuming>),
    /// What the switch said meanwhile.
    Early(Box<Real>),
    Over,
}

/// What came of a part of it.
pub(crate) enum Progress {
    /// It is to go on.
    On,
    /// It is done.
    Done(Box<Real>),
    /// It cannot be, with the reason.
    Failed(String),
}

impl Beginning {
    /// Goes on with a switch that was away.
    ///
    /// # Errors
    /// If that cannot be.
    pub(crate) fn again(
        switch: &SwitchPolicy,
        mut told: SwitchDescription,
        parked: Parked,
    ) -> Result<Beginning, Box<FreshStart>> {
        let Parked { core, places, keeping, .. } = parked;
        let found = told.found.take().unwrap_or_else(|| Err("it was not asked".into()));
        let again = found.and_then(|found| {
            let again = core.again(told.version, &told.features, &told.ports, found);
            again.map_err(|e| e.to_string())
        });
        match again {
            Ok(resuming) => {
                let stage = Stage::Proving(Box::new(resuming));
                Ok(Beginning { switch: switch.clone(), told, places, keeping, stage })
            }
            Err(why) => Err(Box::new(FreshStart { why: Some(why), told, keeping })),
        }
    }

    /// Goes on with what a file says of a switch; none if there is no file.
    ///
    /// # Errors
    /// As [`Beginning::again`].
    pub(crate) fn remembered(
        policy: &Policy,
        switch: &SwitchPolicy,
        mut told: SwitchDescription,
        key: &Key,
        keeping: Keeping,
    ) -> Result<Beginning, Box<FreshStart>> {
        let why = match resuming(policy, switch, &mut told, key, &keeping) {
            Ok(Some((resuming, places))) => {
                let stage = Stage::Proving(Box::new(resuming));
                let (switch, keeping) = (switch.clone(), Some(keeping));
                return Ok(Beginning { switch, told, places, keeping, stage });
            }
            Ok(None) => None,
            Err(why) => Some(why),
        };
        Err(Box::new(FreshStart { why, told, keeping: Some(keeping) }))
    }

    /// Whether it is of the switch with this number, or of the policy's switch with this name.
    pub(crate) fn is_of(&self, datapath: u64, name: &str) -> bool {
        self.told.features.datapath_id == datapath || self.switch.name == name
    }

    /// What a fresh start begins with.
    pub(crate) fn over(self) -> (SwitchPolicy, SwitchDescription, Option<Keeping>) {
        (self.switch, self.told, self.keeping)
    }

    /// The switch sent a message meanwhile; returns the answer.
    ///
    /// # Errors
    /// In words: its connection is to be closed.
    pub(crate) fn hear(&mut self, bytes: &[u8]) -> Result<Option<Vec<u8>>, String> {
        match decode(bytes).map_err(|e| e.to_string())? {
            (header, Message::EchoRequest(data)) => {
                Ok(written(self.told.version, header.xid, &Message::EchoReply(data)))
            }
            (
                header,
                message @ (Message::FlowRemoved(_) | Message::PortStatus(_) | Message::Error(_)),
            ) => {
                if self.told.early.len() >= MOST_EARLY {
                    return Err("it says too much while it is gone on with".into());
                }
                self.told.early.push_back((header.xid, message));
                Ok(None)
            }
            // Of packets nobody is told yet.
            _ => Ok(None),
        }
    }

    /// Goes on; `takes`: whether the switch takes what it is told. Returns what it is told.
    pub(crate) fn goes_on(
        &mut self,
        now: Time,
        takes: bool,
        work: &mut Work,
    ) -> (Vec<To>, Progress) {
        let mut to = vec![];
        // Taken out, so that a stage owns what it works on; where it fails, this is over.
        let done = match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Proving(mut resuming) => self.proving(&mut resuming, now, work).map(|ready| {
                self.stage = match ready {
                    true => Stage::Writing(resuming),
                    false => Stage::Proving(resuming),
                };
                None
            }),
            Stage::Writing(mut resuming) => self.writing(&mut resuming).map(|written| {
                self.stage = match written {
                    true => Stage::Telling(resuming),
                    false => Stage::Writing(resuming),
                };
                None
            }),
            Stage::Telling(resuming) if !takes => {
                self.stage = Stage::Telling(resuming);
                Ok(None)
            }
            Stage::Telling(mut resuming) => {
                let mut out = vec![];
                let told = resuming.carry_out(now, work, &mut out);
                to = out.into_iter().filter_map(|one| self.sent(one)).collect();
                self.stage = if told { self.begun(*resuming) } else { Stage::Telling(resuming) };
                Ok(None)
            }
            Stage::Early(mut real) => {
                let few = self.told.early.len().min(EARLY);
                for (xid, message) in self.told.early.drain(..few) {
                    to.extend(real.tell_core(now, xid, message));
                }
                if self.told.early.is_empty() {
                    Ok(Some(real))
                } else {
                    self.stage = Stage::Early(real);
                    Ok(None)
                }
            }
            Stage::Over => Err("it is over".to_owned()),
        };
        let progress = match done {
            Ok(None) => Progress::On,
            Ok(Some(real)) => Progress::Done(real),
            Err(why) => Progress::Failed(why),
        };
        (to, progress)
    }

    /// Proves and compares; returns whether the switch may be told.
    fn proving(
        &mut self,
        resuming: &mut Resuming,
        now: Time,
        work: &mut Work,
    ) -> Result<bool, String> {
        if !resuming.goes_on(now, work).map_err(|e| e.to_string())? {
            return Ok(false);
        }
        // Entries removed until now are not written.
        resuming.switches().note_changes();
        if let Some(keeping) = &mut self.keeping {
            keeping.begin().map_err(|e| netloom_sys::describe(&e))?;
        }
        Ok(true)
    }

    fn writing(&mut self, resuming: &mut Resuming) -> Result<bool, String> {
        let Some(keeping) = &mut self.keeping else { return Ok(true) };
        keeping.goes_on(resuming.switches()).map_err(|e| netloom_sys::describe(&e))
    }

    fn begun(&self, resuming: Resuming) -> Stage {
        let (core, resumed) = resuming.finish();
        let mut real = Real::of(&self.switch, &self.told, core, &self.places, None);
        real.resumed = Some(resumed);
        Stage::Early(Box::new(real))
    }

    /// What the switch is sent; slices are told nothing yet.
    fn sent(&self, out: Out) -> Option<To> {
        match out {
            Out::ToSwitch { xid, message } => {
                written(self.told.version, xid, &message).map(To::Switch)
            }
            _ => None,
        }
    }

    /// Its file, when it is done.
    pub(crate) fn take_keeping(&mut self) -> Option<Keeping> {
        self.keeping.take()
    }
}

fn written(version: Version, xid: u32, message: &Message) -> Option<Vec<u8>> {
    encode(version, xid, message).ok()
}

/// What a file says of a switch that has told what it has, by the slices as they are now.
type Remembered = Option<(Resuming, BTreeMap<SliceId, usize>)>;

fn resuming(
    policy: &Policy,
    switch: &SwitchPolicy,
    told: &mut SwitchDescription,
    key: &Key,
    keeping: &Keeping,
) -> Result<Remembered, String> {
    let found = told.found.take();
    let Some(memory) = keeping.read()? else { return Ok(None) };
    let found = match found {
        Some(found) => found?,
        None => return Ok(None),
    };
    let (slicing, places) = policy.slicing(switch, key, Some(&memory))?;
    let places = slicing.ids().zip(places).collect();
    let SwitchDescription { version, features, ports, .. } = told;
    let slicing = Arc::new(slicing);
    let resuming = VirtualSwitches::resuming(slicing, *version, features, ports, memory, found);
    Ok(Some((resuming.map_err(|e| e.to_string())?, places)))
}
