//! Leads a living link through the core namespace, so that it can have a wire that stands before both ends.
//!
//! A pair of interfaces has no place between its ends. So the interface at one end moves into the core namespace as the
//! inner end of the other, which stays as it is and only loses its carrier for a moment. The end that lost its interface
//! gets another with the same index, name, addresses and routes. A switch's port is that end if there is one; else
//! a node's, where packet sockets end with `ENETDOWN`, as they do whenever an interface goes. A tap becomes a pair, so that
//! the node's interface is that end, and the port is new.
//!
//! Meanwhile the lab's state has the link as lost: if this process is killed, the next `up` recreates it.

use std::os::fd::{AsFd, BorrowedFd};

use netloom_model::plan::form::{LinkForm, Seat, sides_to_remake};
use netloom_model::plan::{LinkSlot, NodeId, Slot};
use netloom_netlink::{
    Batch, Carried, Change, DeleteAddress, DeleteLink, LinkInfo, Socket, charge,
};
use netloom_sys::namespace;

use crate::build::carrying::{move_one, pack, unpack};
use crate::build::configure::{self, Scope};
use crate::build::keeper::Gone;
use crate::build::links;
use crate::run::link_changes::nodes_of;
use crate::run::return_interface::LINK_COMES_BACK;
use crate::run::running::{Running, Work};
use crate::stage::absent::{is_away, without_absent};
use crate::stage::spaces::{Spaces, inside, on_a_thread, run};
use crate::store::state::State;
use crate::{Error, Result, Subject};

/// The end of a link that is recreated.
struct Remade {
    at: LinkSlot,
    side: usize,
    /// Its interface until then.
    found: LinkInfo,
    /// A node's: places in the plan, and what the interface loses.
    node: Option<(Slot, usize, Carried)>,
    /// Whether it is a tap, which nothing is at the other side of.
    is_tap: bool,
}

impl Running {
    /// Gives a link the form in which its wires can be put in, if it has another.
    pub(crate) fn make_room_for_wire(&self, work: &mut Work, at: LinkSlot) -> Result<()> {
        let state = self.state();
        let link = &state.plan.links[at];
        let needed = self.kept.keepers.wires.form_needed(&self.context(&state, &work.inits), link);
        let Some(form) = needed else { return Ok(()) };
        let down = state.down.contains(&link.id);
        if down {
            // What a node's interface lost by that comes back first, and is carried along.
            self.set_up(work, at, true)?;
        }
        let led = self.lead(work, at, form);
        if down {
            self.set_up(work, at, false)?;
        }
        led
    }

    fn lead(&self, work: &mut Work, at: LinkSlot, form: LinkForm) -> Result<()> {
        let old = self.state();
        let link = &old.plan.links[at];
        let remade = self.look(work, &old, at)?;
        let nodes: Vec<NodeId> = nodes_of(link).map(|node| old.plan.nodes[node].id).collect();
        self.take_wire_out(work, at)?;
        for node in &nodes {
            self.lift_guards(work, *node)?;
        }
        self.kept.forget(&old, Gone { nodes: &[], links: &[link] });
        let (id, reason) =
            (link.id, format!("it was being led through the core for a wire; {LINK_COMES_BACK}"));
        self.change(work, |state| {
            state.forms.set(id, form);
            state.lost.insert(id, reason);
            Ok(())
        })?;
        let mut state = State::clone(&self.state());
        state.lost.remove(&id);
        // A half-made link is recreated as a whole; both ends are new then.
        let done =
            self.remake_end(work, &state, remade).or_else(|_| self.lay_again(work, &state, at));
        if done.is_ok() {
            self.found_again(work, &[at])?;
        }
        for node in &nodes {
            self.raise_guards(work, *node)?;
        }
        done
    }

    /// The end to recreate, with its interface; everything that can be refused is refused here.
    fn look(&self, work: &Work, state: &State, at: LinkSlot) -> Result<Remade> {
        let link = &state.plan.links[at];
        let object = Subject::of("link", &link.name);
        let invalid =
            |reason: &str| Error::Invalid { object: object.clone(), reason: reason.into() };
        let spaces = self.spaces_of(work, state, &[at])?;
        let sides = sides_to_remake(&state.plan, link, state.form(link));
        if sides.is_empty() {
            return Err(invalid(
                "both ends are virtual machines, so that a wire must be there from the start: declare an impairment \
                 of it in the lab file, such as delay: 1ms",
            ));
        }
        let at_home = |side: &usize| match state.seat(link, *side) {
            Seat::Node { node, interface } => !is_away(state, node, interface),
            _ => true,
        };
        let Some(side) = sides.into_iter().find(at_home) else {
            return Err(invalid("its interfaces are in other nodes; move one home first"));
        };
        let place = match state.seat(link, side) {
            Seat::Node { node, interface } => Some((node, interface)),
            _ => None,
        };
        let near = spaces.near(&state.plan, &[at])?;
        let (space, index) = match place {
            Some((node, interface)) => {
                (near.node(node)?, state.plan.nodes[node].interfaces[interface].index)
            }
            None => (near.core, link.port_index(side)),
        };
        let found = by_index(space, &object, index)?
            .ok_or_else(|| invalid("its interface is there no longer"))?;
        let node = match place {
            Some((node, interface)) => {
                let luggage = pack(space, &object, &found)?;
                if state.plan.nodes[node].charge_receive && !state.user {
                    // The core's frames are not a node's work.
                    inside(space, &object, |_| {
                        charge::disable(found.index).map_err(Error::of(&object, "stop charging"))
                    })?;
                }
                Some((node, interface, luggage))
            }
            None => None,
        };
        Ok(Remade { at, side, found, node, is_tap: state.form(link) == LinkForm::Tap })
    }

    /// Moves the old interface into the core, and makes the new one.
    fn remake_end(&self, work: &Work, state: &State, remade: Remade) -> Result<()> {
        let Remade { at, side, found, node, is_tap } = remade;
        let link = &state.plan.links[at];
        let object = format!("link {:?}", link.name);
        let plan = without_absent(state);
        let spaces = self.spaces_of(work, state, &[at])?;
        let near = spaces.near(&plan, &[at])?;
        let from = match &node {
            Some((node, ..)) => Some(near.node(*node)?),
            None => None,
        };
        if is_tap {
            let space = from.unwrap_or(near.core);
            inside(space, &object, |socket| {
                let mut batch = Batch::new();
                batch.push_tolerant(object.as_str(), &DeleteLink::new(found.index));
                run(socket, &mut batch, &object, "remove its tap")
            })?;
            links::make_half(&plan, &spaces, at, 1 - side, None)?;
        } else {
            let inner = links::inner_end(state.form(link), link, 1 - side);
            take_in(&spaces, from, &object, &found, inner)?;
        }
        let like = node.as_ref().map(|_| &found);
        links::make_half(&plan, &spaces, at, side, like)?;
        links::raise_ports(&plan, &spaces, &[at])?;
        if let Some((slot, interface, luggage)) = &node {
            configure::configure(&plan, &spaces, &[(*slot, Scope::Links)], &[at])?;
            unpack(near.node(*slot)?, &object, found.index, luggage, found.up)?;
            let planned = &plan.nodes[*slot].interfaces[*interface].addresses;
            let gone = planned.iter().filter(|address| !luggage.addresses.contains(address));
            let gone: Vec<_> = gone.copied().collect();
            inside(near.node(*slot)?, &object, |socket| {
                let mut batch = Batch::new();
                // Objects removed by hand stay removed.
                for address in gone {
                    let address = DeleteAddress { link: found.index, address };
                    batch.push_tolerant(object.as_str(), &address);
                }
                if !found.up {
                    batch.push(object.as_str(), &Change::of(found.index).down());
                }
                if batch.is_empty() { Ok(()) } else { run(socket, &mut batch, &object, "restore") }
            })?;
        }
        drop(near);
        drop(spaces);
        self.fit(state, &work.inits, &[], &[at])
    }
}

fn by_index(space: BorrowedFd<'_>, object: &str, index: u32) -> Result<Option<LinkInfo>> {
    inside(space, object, |socket: &mut Socket| {
        let links = socket.links().map_err(Error::of(object, "look up"))?;
        Ok(links.into_iter().find(|link| link.index == index))
    })
}

/// Makes an interface of a node, or a port of the core, an inner end in the core, and raises it.
fn take_in(
    spaces: &Spaces<'_>,
    from: Option<BorrowedFd<'_>>,
    object: &str,
    found: &LinkInfo,
    (name, index): (String, u32),
) -> Result<()> {
    let core = spaces.core.as_fd();
    match from {
        Some(node) => {
            move_one(node, core, object, found, &name, Some(index))?;
        }
        // An index changes only on the way to another namespace; and a port leaves its bridge.
        None => on_a_thread(|| {
            namespace::new_network()?;
            let between =
                namespace::current_network().map_err(Error::of(object, "open a namespace"))?;
            let between = between.as_fd();
            move_one(core, between, object, found, &name, Some(index))?;
            let there = by_index(between, object, index)?;
            let there = there.ok_or_else(|| Error::Invalid {
                object: object.into(),
                reason: "its port vanished on the way".into(),
            })?;
            move_one(between, core, object, &there, &name, Some(index)).map(drop)
        })?,
    }
    inside(core, object, |socket| {
        let mut batch = Batch::new();
        batch.push(object, &Change::of(index).up());
        run(socket, &mut batch, object, "raise its inner end")
    })
}
