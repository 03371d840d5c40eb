//! Where frames of a lab were lost: at the interfaces of a link one after the other, in its wire and its plugs, and in the
//! network stack of a node.
//!
//! A link is a chain of veth pairs. What a pair loses is counted at the end that sends (`tx_dropped`: the other end's receive
//! queue or a processor's backlog was full, the frame longer than the MTU; `veth_xmit` counts whatever `veth_forward_skb` refuses),
//! and most of it at the end that receives, too (`rx_dropped`). What a wire hands over to an interface of the core is
//! counted there alone: so a pair has lost the larger of the two. In a node `rx_dropped` says nothing: frames that arrived and that no
//! protocol of the node takes, as LLDP or the messages of a bridge's spanning tree, count there as well
//! (`__netif_receive_skb_core`). Counters of the lab's processes are in their own books.

use std::collections::BTreeMap;
use std::os::fd::AsFd;

use netloom_model::plan::form::{LinkForm, Seat};
use netloom_model::plan::{LinkId, PlannedLink};

use crate::Error;
use crate::run::sources::{Sources, traffic};
use crate::stage::spaces::inside;
use crate::stage::stack;
use crate::store::state::State;
use crate::view::{self, DropView, InterfaceStatus, LossView, WireView};

/// Interfaces of links that are in no node: in the core namespace by index, and ends of doors by link.
#[derive(Default)]
pub(super) struct Between {
    core: BTreeMap<u32, view::Traffic>,
    doors: BTreeMap<LinkId, view::Traffic>,
    /// Frames that did not leave by the way out of an ordinary user's lab, by the first link that leads there.
    way_out: Option<(LinkId, u64)>,
}

impl Between {
    /// Reads those of these links; of all links of a lab at once with `whole`.
    pub(super) fn read(sources: &Sources<'_>, links: &[&PlannedLink], whole: bool) -> Between {
        let core = sources.core.as_ref().map(|core| {
            // A namespace that ends meanwhile has no interfaces.
            inside(core.as_fd(), "core", |socket| {
                let mut all = BTreeMap::new();
                if whole {
                    let links = socket.links().map_err(Error::of("core", "read its interfaces"))?;
                    all.extend(links.iter().map(|l| (l.index, traffic(&l.traffic))));
                    return Ok(all);
                }
                // Few links of a large lab: single questions cost less than the whole list.
                for index in links.iter().flat_map(|link| indexes(sources.state, link)) {
                    let found = socket.link(index).map_err(Error::of("core", "read a port"))?;
                    all.extend(found.map(|l| (index, traffic(&l.traffic))));
                }
                Ok(all)
            })
            .unwrap_or_default()
        });
        Between::beside(sources, links, core.unwrap_or_default())
    }

    /// Reads those of these links that are not in the core namespace, whose interfaces have these counters.
    pub(super) fn beside(
        sources: &Sources<'_>,
        links: &[&PlannedLink],
        core: BTreeMap<u32, view::Traffic>,
    ) -> Between {
        let mut between = Between { core, ..Between::default() };
        let doors: Vec<&PlannedLink> = {
            let form = |link: &PlannedLink| sources.state.form(link);
            links
                .iter()
                .copied()
                .filter(|l| matches!(form(l), LinkForm::Nat | LinkForm::Bridged))
                .collect()
        };
        if !doors.is_empty() {
            let keeper = &sources.running.kept.keepers.doors;
            let read = keeper.traffic(&sources.running.folder, sources.state, &doors);
            // An absent object has no readable losses.
            let read = read.unwrap_or_default();
            between.doors.extend(read.ends.iter().map(|(id, found)| (*id, traffic(found))));
            let first = sources.state.plan.links.iter().find(|link| link.leads_to_internet());
            // The way out is common to all doors: it is shown once.
            between.way_out =
                first.zip(read.way_out).map(|(link, t)| (link.id, traffic(&t).tx_lost));
        }
        between
    }

    /// The counters of the interface that an end of a link has outside of nodes.
    pub(super) fn at(
        &self,
        state: &State,
        link: &PlannedLink,
        side: usize,
    ) -> Option<view::Traffic> {
        match state.seat(link, side) {
            Seat::Port => self.core.get(&link.port_index(side)).copied(),
            Seat::Host => self.doors.get(&link.id).copied(),
            Seat::Node { .. } | Seat::Guest { .. } | Seat::Plug => None,
        }
    }

    pub(super) fn in_core(&self, index: u32) -> Option<view::Traffic> {
        self.core.get(&index).copied()
    }

    /// Frames for the node at an end of a link that the interface before it, in no node, could not hand over to the node's.
    pub(super) fn not_handed_over(&self, state: &State, link: &PlannedLink, side: usize) -> u64 {
        let before = match state.form(link) {
            LinkForm::Wired => self.in_core(link.hidden_index(side)),
            LinkForm::Joined => self.in_core(link.inner_index(side)),
            LinkForm::Beside if is_separate(state, link, side) => {
                self.in_core(link.inner_index(side))
            }
            LinkForm::Beside if is_separate(state, link, 1 - side) => {
                self.in_core(link.outer_index(1 - side))
            }
            _ => self.at(state, link, 1 - side),
        };
        before.map_or(0, |before| before.tx_lost)
    }
}

fn is_separate(state: &State, link: &PlannedLink, side: usize) -> bool {
    state.plan.separate_at(&link.ends[side]).is_some()
}

/// Indexes of what a link may have in the core namespace.
pub(super) fn indexes(state: &State, link: &PlannedLink) -> Vec<u32> {
    let of = |side: usize| match state.form(link) {
        LinkForm::Wired => vec![link.hidden_index(side), link.port_index(side)],
        LinkForm::Joined => vec![link.inner_index(side)],
        LinkForm::Beside => {
            vec![link.inner_index(side), link.outer_index(side), link.port_index(side)]
        }
        // A link straight between two nodes has nothing there.
        _ if state.seat(link, side) != Seat::Port => vec![],
        _ if state.plan.shm_switch_at(&link.ends[side]).is_some() => {
            vec![link.port_index(side), link.beside_index(side)]
        }
        _ => vec![link.port_index(side)],
    };
    [0, 1].into_iter().flat_map(of).collect()
}

/// Counters of a sending and of a receiving interface, where they are known.
type Pair = (Option<view::Traffic>, Option<view::Traffic>);

/// Losses between two ends of a pair.
fn lost((from, to): Pair) -> u64 {
    from.map_or(0, |t| t.tx_lost).max(to.map_or(0, |t| t.rx_lost))
}

/// The frames that a link lost, by the end that sent and the cause. `node` has the counters of a node's interface, without
/// what was not handed over to it.
pub(super) fn of_link(
    sources: &Sources<'_>,
    link: &PlannedLink,
    between: &Between,
    wire: Option<&WireView>,
    node: &dyn Fn(usize) -> Option<view::Traffic>,
) -> Vec<LossView> {
    let state = sources.state;
    let end = |side: usize| between.at(state, link, side).or_else(|| node(side));
    let into = |side: usize| between.at(state, link, side);
    let mut all = Vec::new();
    for from in [0, 1] {
        let to = 1 - from;
        let pairs: Vec<Pair> = match state.form(link) {
            LinkForm::Wired => {
                let hidden = |side: usize| between.in_core(link.hidden_index(side));
                vec![(end(from), hidden(from)), (hidden(to), into(to))]
            }
            LinkForm::Joined => {
                let inner = |side: usize| between.in_core(link.inner_index(side));
                vec![(end(from), inner(from)), (inner(to), into(to))]
            }
            LinkForm::Beside => beside(state, link, between, from, &end),
            // What comes to a shared-memory switch may go on by a tap beside the port, whose queue may be full.
            _ if state.plan.shm_switch_at(&link.ends[to]).is_some() => {
                let beside = between.in_core(link.beside_index(to));
                vec![(end(from), into(to)), (beside, None)]
            }
            _ => vec![(end(from), into(to))],
        };
        let name = &state.plan.end_text(&link.ends[from]);
        let loss = |cause: &str, packets| LossView {
            from: name.clone(),
            cause: cause.to_owned(),
            packets,
        };
        all.push(loss("interface", pairs.into_iter().map(lost).sum()));
        let direction = wire.and_then(|wire| wire.directions.get(from)?.as_ref());
        all.extend(
            direction
                .iter()
                .flat_map(|d| &d.lost)
                .map(|(cause, n)| loss(&format!("wire: {cause}"), *n)),
        );
        if let Some((_, packets)) = between.way_out.filter(|(id, _)| *id == link.id)
            && state.seat(link, to) == Seat::Host
        {
            all.push(loss("way-out", packets));
        }
    }
    all.extend(at_switch(sources, link));
    all.retain(|loss| loss.packets > 0);
    all
}

/// The pairs of a link of a router whose plane is separate.
fn beside(
    state: &State,
    link: &PlannedLink,
    between: &Between,
    from: usize,
    end: &dyn Fn(usize) -> Option<view::Traffic>,
) -> Vec<Pair> {
    let to = 1 - from;
    let separate = |side: usize| is_separate(state, link, side);
    let outer = |side: usize| between.in_core(link.outer_index(side)).filter(|_| separate(side));
    let inner = |side: usize| between.in_core(link.inner_index(side));
    let sends = if separate(from) { outer(from) } else { end(from) };
    let receives = if separate(to) { outer(to) } else { between.at(state, link, to) };
    let mut pairs = vec![(sends, receives)];
    if separate(from) {
        pairs.push((end(from), inner(from)));
    }
    if separate(to) {
        pairs.push((inner(to), between.at(state, link, to)));
    }
    pairs
}

/// What the port of a link at a shared-memory switch counts as lost, both directions together. A frame that its sender's port
/// counts is not counted by the receiver's.
fn at_switch(sources: &Sources<'_>, link: &PlannedLink) -> Vec<LossView> {
    let Some(port) = sources.switches.port(sources, link) else { return vec![] };
    let plan = &sources.state.plan;
    let side = link.ends.iter().position(|end| plan.shm_switch_at(end).is_some()).unwrap_or(0);
    let from = plan.end_text(&link.ends[1 - side]);
    let lost = port.counters.iter().filter_map(|(name, packets)| {
        let cause = name.strip_prefix("dropped-").or_else(|| name.strip_suffix("-dropped"))?;
        let cause = format!("switch: {cause}");
        Some(LossView { from: from.clone(), cause, packets: *packets })
    });
    lost.collect()
}

/// A node's losses by cause, without causes that lost nothing. `queue`: frames that came as far as its interfaces, whose
/// receive queues were full.
pub(super) fn of_node(
    protect: Option<&view::ProtectView>,
    interfaces: &[InterfaceStatus],
    queue: u64,
    stack: Vec<(&'static str, u64)>,
) -> Vec<DropView> {
    let traffic = || interfaces.iter().filter_map(|i| i.traffic);
    let causes = [
        ("protect", protect.map_or(0, |p| p.dropped_packets)),
        ("queue", queue),
        // Shown as `queue` already.
        ("rx", traffic().map(|t| t.rx_lost).sum::<u64>().saturating_sub(queue)),
        ("tx", traffic().map(|t| t.tx_lost).sum()),
    ];
    let some = causes.into_iter().chain(stack).filter(|(_, packets)| *packets > 0);
    some.map(|(cause, packets)| DropView { cause: cause.to_owned(), packets }).collect()
}

/// What the kernel dropped for all namespaces together, without causes of nothing.
pub(super) fn of_machine() -> Vec<DropView> {
    let causes = [("neighbour-queue", "unresolved_discards"), ("neighbour-table", "table_fulls")];
    // The kernel keeps one table for all namespaces (neighbour.c).
    let tables = ["arp_cache", "ndisc_cache"];
    let texts = tables.map(|table| std::fs::read_to_string(format!("/proc/net/stat/{table}")));
    let sum = |name| texts.iter().flatten().map(|text| stack::column(text, name)).sum::<u64>();
    let all = causes.map(|(cause, name)| DropView { cause: cause.to_owned(), packets: sum(name) });
    all.into_iter().filter(|drop| drop.packets > 0).collect()
}
