//! Echo requests between nodes, to their current addresses.

use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use netloom_model::lookup::slot;
use netloom_model::plan::PlannedNode;
use netloom_model::plan::Slot;
use netloom_node::ping::{self, Pace, Prober, Version};
use netloom_sys::namespace;

use crate::run::running::Running;
use crate::stage::addresses::{self, Held};
use crate::store::state::State;
use crate::view::{Family, PairFamily, PairReachability, Reachability};
use crate::{Error, Result};

/// A node that sends and answers; without a namespace if it is dead.
struct Pinged<'a> {
    node: &'a PlannedNode,
    space: Option<OwnedFd>,
    held: Vec<Held>,
}

impl Pinged<'_> {
    fn address(&self, version: u8) -> Option<IpAddr> {
        addresses::first(&self.held, version)
    }

    fn prober(&self, version: u8) -> Option<Prober<'_>> {
        let netns = self.space.as_ref()?.as_fd();
        Some(Prober { name: &self.node.name, netns, address: self.address(version) })
    }
}

impl Running {
    /// Sends one echo request from each of these nodes to every other of them.
    pub(crate) fn ping_among(
        &self,
        slots: &[Slot],
        families: &[u8],
        timeout: Duration,
    ) -> Result<Reachability> {
        let state = self.state();
        let asked = self.pinged(&state, slots)?;
        let mut found = Vec::new();
        for version in families {
            found.push(ping_family(&state.plan.lab, *version, &asked, timeout)?);
        }
        let nodes = asked.iter().map(|p| p.node.name.clone()).collect();
        Ok(Reachability { nodes, families: found })
    }

    /// Sends echo requests from one node to another.
    pub(crate) fn ping_one(
        &self,
        from: &str,
        to: &str,
        families: &[u8],
        pace: Pace,
    ) -> Result<PairReachability> {
        let state = self.state();
        let slots = [slot(&state.plan, from)?, slot(&state.plan, to)?];
        let both = self.pinged(&state, &slots)?;
        let mut found = Vec::new();
        for version in families {
            let known = version_of(&state.plan.lab, *version)?;
            let prober = both[0].prober(*version);
            let prober = prober.ok_or_else(|| Error::DeadNode(from.to_owned()))?;
            let Some((_, target)) = prober.address.zip(both[1].address(*version)) else { continue };
            let rtt_us = ping::one_pair(&prober, target, known, pace)?;
            found.push(PairFamily { version: *version, address: target.to_string(), rtt_us });
        }
        Ok(PairReachability { from: from.to_owned(), to: to.to_owned(), families: found })
    }

    /// Nodes with their current addresses, a dead one with its planned ones.
    fn pinged<'a>(&self, state: &'a State, slots: &[Slot]) -> Result<Vec<Pinged<'a>>> {
        let pids = self.pids(&state.plan);
        // Namespaces are entered by a thread of its own, which ends.
        crate::stage::spaces::on_a_thread(|| {
            let pinged = |slot: &Slot| {
                let node = &state.plan.nodes[*slot];
                let space = pids[slot.get()].and_then(|pid| namespace::network_of(pid).ok());
                let held = match &space {
                    Some(space) => addresses::read(node, space.as_fd())?,
                    None => addresses::planned(node),
                };
                Ok(Pinged { node, space, held })
            };
            slots.iter().map(pinged).collect()
        })
    }
}

fn version_of(lab: &str, version: u8) -> Result<Version> {
    Version::from_number(version).ok_or_else(|| {
        let reason = format!("there is no IP version {version}");
        Error::Conflict { lab: lab.to_owned(), reason }
    })
}

fn ping_family(lab: &str, version: u8, nodes: &[Pinged<'_>], timeout: Duration) -> Result<Family> {
    // A dead node neither sends nor answers: its row and column stay empty.
    let living: Vec<usize> = (0..nodes.len()).filter(|i| nodes[*i].space.is_some()).collect();
    let probers: Vec<Prober<'_>> =
        living.iter().filter_map(|i| nodes[*i].prober(version)).collect();
    let found = ping::all_pairs(&probers, version_of(lab, version)?, timeout)?;
    let mut rtt_us = vec![vec![None; nodes.len()]; nodes.len()];
    for (source, row) in living.iter().zip(found) {
        for (target, cell) in living.iter().zip(row) {
            rtt_us[*source][*target] = cell;
        }
    }
    let with = nodes.iter().filter(|n| n.address(version).is_some()).count() as u64;
    // A guest answers, but only its own programs can ask.
    let guests = nodes.iter().filter(|n| n.node.kind.as_vm().is_some());
    let guests = guests.filter(|n| n.address(version).is_some()).count() as u64;
    let answered = rtt_us.iter().flatten().filter(|c| c.is_some()).count() as u64;
    let asked = (with - guests) * with.saturating_sub(1);
    Ok(Family { version, rtt_us, asked, answered })
}
