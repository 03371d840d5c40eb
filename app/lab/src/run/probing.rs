//! The probe of a lab, which holds its measuring sessions. Points are BPF links of this process: they end with
//! it, and when the lab is taken down.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use netloom_ebpf::measure::Clock;
use netloom_measure::{Interfaces, Probe};

use crate::{Error, Result};

/// The probe of a lab, made on first use.
pub(crate) struct Probing {
    places: Arc<dyn Interfaces>,
    stage: Mutex<Stage>,
}

enum Stage {
    /// Not used yet.
    Unasked,
    There(Arc<Probe>),
    /// The lab is being taken down.
    Over,
}

impl Probing {
    pub(crate) fn new(places: Arc<dyn Interfaces>) -> Probing {
        Probing { places, stage: Mutex::new(Stage::Unasked) }
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The probe of a lab of this name.
    ///
    /// # Errors
    /// [`Error::NoLab`] when the lab is being taken down.
    pub(crate) fn probe(&self, lab: &str) -> Result<Arc<Probe>> {
        let mut stage = self.stage();
        match &*stage {
            Stage::There(probe) => Ok(Arc::clone(probe)),
            Stage::Over => Err(Error::NoLab(lab.to_owned())),
            Stage::Unasked => {
                // All points are on this machine.
                // One clock is enough on one machine.
                let probe = Probe::new(lab.to_owned(), Arc::clone(&self.places));
                let probe = Arc::new(probe.with_clock(Clock::Monotonic));
                *stage = Stage::There(Arc::clone(&probe));
                Ok(probe)
            }
        }
    }

    /// Ends all sessions and refuses new ones. Never call while holding the work lock: a starting session may wait
    /// for it (deadlock).
    pub(crate) fn end(&self) {
        // `Over` first: no session can begin while the others end.
        let stage = std::mem::replace(&mut *self.stage(), Stage::Over);
        let Stage::There(probe) = stage else { return };
        for session in probe.list() {
            // A missing session has ended.
            let _ = probe.delete(session.id);
        }
    }
}
