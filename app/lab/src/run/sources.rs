//! The inputs of a reading of a lab's status, and counters of interfaces as shown.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use netloom_model::plan::PlannedLink;
use netloom_switch::control::requests::PortShown;
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
    pub(super) ports: Ports,
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
        Sources { running, state, pids, phase, ports: Ports::default(), core, drift: None }
    }
}

/// Ports of shared-memory switches, by switch: each is asked once a reading, however many of its ports are cards of guests.
#[derive(Default)]
pub(super) struct Ports(Mutex<BTreeMap<String, Arc<[PortShown]>>>);

impl Ports {
    /// The port of a link that ends in such a switch, as the switch shows it.
    pub(super) fn of(&self, sources: &Sources<'_>, link: &PlannedLink) -> Option<PortShown> {
        let (switch, name) = sources.state.plan.shm_port(link)?;
        let running = sources.running;
        let ask = || running.kept.keepers.switches.ports(&running.folder, &switch.name).into();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = Arc::clone(all.entry(switch.name.clone()).or_insert_with(ask));
        drop(all);
        shown.iter().find(|port| port.name == name).cloned()
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
