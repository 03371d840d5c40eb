//! Doors to the host are guarded by default: what comes by one is counted where it enters the lab, and bounded
//! while nodes of the lab waste what they receive ([`following`](super::following)).
//!
//! A door at a node is guarded at the node's interface, unless the node is protected itself or says
//! `protect: off`; one at a bridge at the bridge's port. Behind the plug of a shared-memory switch there is
//! no place for it. Where the kernel cannot do it, doors are as open as ever.

use netloom_ebpf::Direction;
use netloom_ebpf::protect::Budget;
use netloom_model::lab::Protect;
use netloom_model::plan::form::{LinkForm, Seat};
use netloom_model::plan::{LinkId, NodeId, PlannedLink, Slot};

use super::follow::Followed;
use super::{Inner, new_shield, report};
use crate::build::keeper::Context;
use crate::stage::absent::is_absent;
use crate::stage::attach::{self, AttachPoint};
use crate::store::state::State;
use crate::view::ProtectView;
use crate::{Error, Result};

/// Numbers of doors have this bit, those of nodes do not.
const DOOR: u32 = 1 << 31;

/// A door that is guarded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Door {
    pub(super) at: AttachPoint,
    pub(super) number: u32,
}

/// The door that a link is. `with`: what a node is to have, instead of what the plan says.
pub(super) fn of(
    state: &State,
    link: &PlannedLink,
    with: Option<(Slot, &Protect)>,
) -> Option<Door> {
    // An ordinary user's doors lead through a namespace of the lab's own.
    if !matches!(state.form(link), LinkForm::Bridged | LinkForm::Nat) || state.user {
        return None;
    }
    let outer = [0, 1].into_iter().find(|side| state.seat(link, *side) == Seat::Host)?;
    let at = match state.seat(link, 1 - outer) {
        Seat::Node { node, interface } => {
            let planned = &state.plan.nodes[node];
            let protect = match with {
                Some((slot, protect)) if slot == node => protect,
                _ => &planned.protect,
            };
            let here = !is_absent(state, planned, &planned.interfaces[interface]);
            // A node with `protect: off` has its doors open.
            let open = protect.is_empty() && protect.auto.is_none();
            let at = || attach::at_interface(state, node, interface, Direction::Ingress);
            (here && open).then(at)?
        }
        Seat::Port => AttachPoint {
            space: NodeId::CORE,
            index: link.port_index(1 - outer),
            direction: Direction::Ingress,
        },
        Seat::Plug | Seat::Guest { .. } | Seat::Host => return None,
    };
    Some(Door { at, number: number(link.id) })
}

fn number(link: LinkId) -> u32 {
    DOOR | u32::try_from(link.get()).unwrap_or(0)
}

/// The links of a node.
fn links_of(state: &State, slot: Slot) -> Vec<PlannedLink> {
    let interfaces = state.plan.nodes[slot].interfaces.iter();
    interfaces.filter_map(|i| state.plan.link_at(i.link).cloned()).collect()
}

impl Inner {
    /// Guards a link that is a door. That it cannot be guarded is no reason not to open it.
    pub(super) fn guard_door(&mut self, context: &Context<'_>, link: &PlannedLink) {
        if let Some(door) = of(context.state, link, None) {
            self.guard(context, door);
        }
    }

    /// Guards the doors of a node that is to be protected so.
    pub(super) fn guard_doors(&mut self, context: &Context<'_>, slot: Slot, protect: &Protect) {
        for link in links_of(context.state, slot) {
            if let Some(door) = of(context.state, &link, Some((slot, protect))) {
                self.guard(context, door);
            }
        }
    }

    fn guard(&mut self, context: &Context<'_>, door: Door) {
        let shields = &mut self.shields;
        // Where the kernel lacks what a shield needs, the door is open.
        let _ = attach::run_in_living(context.inits, door.at.space, "door", || {
            let make = || new_shield(door.at.space).map_err(Error::of("door", "load its programs"));
            let shield = attach::kept(shields, door.at.space, make)?;
            // Counts only, until the load feedback sets a budget.
            let open = Budget::default();
            let guarded = shield.protect(door.at.index, door.at.direction, door.number, &open);
            if let Err(error) = guarded.map_err(Error::of("door", "guard")) {
                netloom_sys::journal::line(format_args!(
                    "netloom: {}",
                    netloom_sys::describe(&error)
                ));
            }
            Ok(())
        });
    }

    /// Takes the guards off the doors of a node that is protected so.
    pub(super) fn unguard_doors(
        &mut self,
        context: &Context<'_>,
        slot: Slot,
        protect: &Protect,
    ) -> Result<()> {
        for link in links_of(context.state, slot) {
            let Some(door) = of(context.state, &link, Some((slot, protect))) else { continue };
            let Some(shield) = self.shields.get(&door.at.space) else { continue };
            self.followed.remove(&door.number);
            attach::run_in_living(context.inits, door.at.space, "door", || {
                let ended = shield.unprotect(door.at.index).map(drop);
                ended.map_err(Error::of("door", "take its guard away"))
            })?;
        }
        Ok(())
    }

    /// Drops at the doors of a node that is not protected itself; `None` while nothing is bounded.
    pub(super) fn at_doors(&self, state: &State, slot: Slot) -> Option<ProtectView> {
        let mut view = ProtectView { auto: true, ..ProtectView::default() };
        // At a bridge a door's drops are not one node's.
        for link in links_of(state, slot) {
            let Some(door) = of(state, &link, None).filter(|d| d.at.space != NodeId::CORE) else {
                continue;
            };
            let shield = self.shields.get(&door.at.space);
            let Some(totals) = shield.and_then(|s| s.read(door.number).ok()) else { continue };
            report::add(&mut view, state, slot, None, &totals);
            let budget = self.followed.get(&door.number).and_then(Followed::budget);
            view.auto_packets = view.auto_packets.into_iter().chain(budget).min();
        }
        // Doors are guarded everywhere: without drops it is not worth a line.
        (view.dropped_packets > 0 || view.auto_packets.is_some()).then_some(view)
    }
}
