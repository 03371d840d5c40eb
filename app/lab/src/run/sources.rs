//! The inputs of a reading of a lab's status, and counters of interfaces as shown.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use netloom_model::plan::PlannedLink;
use netloom_switch::control::requests::{PortShown, Shown};
use rustix::process::Pid;

use crate::run::drift::Left;
use crate::run::running::{Phase, Running};
use crate::store::state::State;
use crate::view::Traffic;

/// The inputs of a reading.
pub(crate) struct Sources<'a> {
    pub(super) running: &'a Running,
    pub(super) state: &'a State,
    /// Pids of the living inits of nodes, by slot; only nodes to read are required.
    pub(super) pids: &'a [Option<Pid>],
    pub(super) phase: Phase,
    pub(super) switches: SwitchesShown,
    /// The core namespace, while its init lives.
    pub(super) core: Option<OwnedFd>,
    /// What nodes' own commands changed, and the core's init, where differences are wanted.
    pub(crate) drift: Option<(Left, Option<Pid>)>,
}

impl<'a> Sources<'a> {
    /// Inputs of a reading that begins now. `pids` are those of the living inits, by slot.
    pub(crate) fn new(
        running: &'a Running,
        state: &'a State,
        pids: &'a [Option<Pid>],
    ) -> Sources<'a> {
        let (phase, core) = (running.phase(), running.core_network());
        let switches = SwitchesShown::default();
        Sources { running, state, pids, phase, switches, core, drift: None }
    }
}

/// What shared-memory switches show, by switch: each is asked once a reading, whatever is wanted of it and however many of its
/// ports are cards of guests.
#[derive(Default)]
pub(super) struct SwitchesShown(Mutex<BTreeMap<String, Option<Arc<Shown>>>>);

impl SwitchesShown {
    /// What a switch shows, if it answers.
    pub(super) fn shown(&self, sources: &Sources<'_>, switch: &str) -> Option<Arc<Shown>> {
        let running = sources.running;
        let ask = || running.kept.keepers.switches.shown(&running.folder, switch);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(switch.to_owned()).or_insert_with(ask).clone()
    }

    /// The port of a link that ends in such a switch, as the switch shows it.
    pub(super) fn port(&self, sources: &Sources<'_>, link: &PlannedLink) -> Option<PortShown> {
        let (switch, name) = sources.state.plan.shm_port(link)?;
        let shown = self.shown(sources, &switch.name)?;
        shown.ports.iter().find(|port| port.name == name).cloned()
    }
}

/// Counters as they are shown.
pub(super) fn traffic(t: &netloom_netlink::Traffic) -> Traffic {
    Traffic {
        rx_bytes: t.rx_bytes,
        rx_packets: t.rx_packets,
        rx_lost: t.rx_dropped + t.rx_errors,
        tx_bytes: t.tx_bytes,
        tx_packets: t.tx_packets,
        tx_lost: t.tx_dropped + t.tx_errors,
    }
}
