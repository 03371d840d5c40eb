//! The form of a link: how the kernel and netloom's processes realise it, and where that puts its ends.
//!
//! The form is a pure function of the plan and of what the machine allows. It is decided once, when the link
//! is made, and stored with the lab's state; all other code queries it. The indexes and names of links
//! in the core namespace are here, too: they depend only on the link's id.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    LinkId, LinkSide, Plan, PlanError, PlannedEnd, PlannedLink, PlannedNode, PlannedSwitch, Slot,
    SwitchSlot,
};

/// Index of the first port in the core namespace; bridges come before.
pub const FIRST_PORT: u32 = 100_000;

/// Index of the first hidden interface of wires; ports come before.
pub const FIRST_HIDDEN: u32 = 200_000;

/// Index of the first interface between a router and its plane, and of the first beyond the plane.
const FIRST_INNER: u32 = 300_000;
const FIRST_OUTER: u32 = 400_000;

/// Index of the first interface to another host.
const FIRST_FAR: u32 = 500_000;

/// Index of the interface by which hosts ask each other whether they are there.
pub const PRESENCE: u32 = FIRST_FAR - 1;

/// Index of the first tap beside a port of a shared-memory switch.
const FIRST_BESIDE: u32 = 600_000;

/// The prefix of hidden interfaces' names.
pub const HIDDEN: &str = "nlw";

/// What the machine and the user's rights allow, as far as it affects how links are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowed {
    /// BPF programs may be attached, so that a wire can be inserted into a link at any time.
    pub programs: bool,
    /// Persistent taps may be made.
    pub taps: bool,
    /// The kernel may forward among ports of shared-memory switches.
    pub planes: bool,
}

/// How a link is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LinkForm {
    /// One veth pair: interfaces of nodes, and ports in the core namespace.
    Pair,
    /// A veth pair for each end, with a wire between their inner ends, hidden in the core namespace.
    Wired,
    /// A link between two nodes: a veth pair for each, whose inner ends programs join in the core namespace. A wire
    /// stands there, where no packet socket of either node is.
    Joined,
    /// A tap in a node, whose other side the plug of a shared-memory switch holds.
    Tap,
    /// The card of a virtual machine, by vhost-user: the plug of a shared-memory switch serves it, and the node has no
    /// interface.
    Guest,
    /// An interface of the host that is a port of a bridge, or is bridged to a node.
    Bridged,
    /// An interface of the host that stays there; the plug of a shared-memory switch reads and writes it.
    Card,
    /// A veth pair from the host, which translates addresses (NAT).
    Nat,
    /// A link of a router whose plane is separate: veth pairs from its interface to its plane, and from there to the
    /// other end.
    Beside,
}

/// Where one end of a link is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seat {
    /// At an interface of a node, by places in the plan.
    Node {
        /// The node.
        node: Slot,
        /// Index into [`PlannedNode::interfaces`](super::PlannedNode::interfaces).
        interface: usize,
    },
    /// At the card of a virtual machine, without an interface of the node: places in the plan as for a node's.
    Guest {
        /// The node.
        node: Slot,
        /// Index into [`PlannedNode::interfaces`](super::PlannedNode::interfaces).
        interface: usize,
    },
    /// At an interface of the core namespace, with [`PlannedLink::port_index`].
    Port,
    /// In a plug, without an interface of its own.
    Plug,
    /// On the host.
    Host,
}

impl LinkForm {
    /// The form of a link of a plan on a machine with these possibilities.
    pub fn of(plan: &Plan, link: &PlannedLink, allowed: Allowed) -> LinkForm {
        let shm = plan.has_shm_end(link);
        // A door has one form, with or without impairments.
        let form = LinkForm::plain(plan, link);
        if form != LinkForm::Pair {
            return form;
        }
        if plan.has_separate_end(link) {
            return LinkForm::Beside;
        }
        // Without BPF programs a wire cannot be inserted later. Nor can it at a plug, a virtual machine, or an
        // OpenFlow switch that reads packet sockets: they get frames before any program does.
        let sockets =
            shm || plan.openflow_switch_of(link).is_some() || plan.machine_of(link).is_some();
        if link.is_impaired() && (!allowed.programs || sockets) {
            LinkForm::Wired
        } else if link.is_impaired() && link.is_direct() {
            LinkForm::Joined
        } else if allowed.planes && plan.machine_of(link).is_none() {
            // Programs redirect within one namespace, which is the core.
            LinkForm::Pair
        } else if allowed.programs && allowed.taps && can_be_tap(plan, link) {
            LinkForm::Tap
        } else {
            LinkForm::Pair
        }
    }

    /// The form by the plan alone, for a link without a stored one.
    fn plain(plan: &Plan, link: &PlannedLink) -> LinkForm {
        let shm = plan.has_shm_end(link);
        if plan.is_guests_card(link) {
            return LinkForm::Guest;
        }
        let door = link.ends.iter().find_map(|end| match end {
            PlannedEnd::Host { .. } if shm => Some(LinkForm::Card),
            PlannedEnd::Host { .. } => Some(LinkForm::Bridged),
            PlannedEnd::Internet { .. } => Some(LinkForm::Nat),
            PlannedEnd::Node { .. } | PlannedEnd::Port { .. } | PlannedEnd::Nowhere { .. } => None,
        });
        door.unwrap_or(LinkForm::Pair)
    }

    /// Whether it leads out of the lab, to the host.
    pub fn is_door(self) -> bool {
        match self {
            LinkForm::Bridged | LinkForm::Card | LinkForm::Nat => true,
            LinkForm::Pair
            | LinkForm::Wired
            | LinkForm::Joined
            | LinkForm::Tap
            | LinkForm::Guest
            | LinkForm::Beside => false,
        }
    }

    /// Where an end of a link of this form is.
    pub fn seat(self, link: &PlannedLink, side: usize) -> Seat {
        match &link.ends[side] {
            PlannedEnd::Node { node, interface } if self == LinkForm::Guest => {
                Seat::Guest { node: *node, interface: *interface }
            }
            PlannedEnd::Node { node, interface } => {
                Seat::Node { node: *node, interface: *interface }
            }
            PlannedEnd::Port { .. }
                if matches!(self, LinkForm::Tap | LinkForm::Card | LinkForm::Guest) =>
            {
                Seat::Plug
            }
            PlannedEnd::Port { .. } | PlannedEnd::Nowhere { .. } => Seat::Port,
            PlannedEnd::Host { .. } | PlannedEnd::Internet { .. } => Seat::Host,
        }
    }
}

/// Checks that every configured wire is possible, and that the budget of every guest has a place.
pub(super) fn check(plan: &Plan) -> Result<(), PlanError> {
    let without = |link: &&PlannedLink| link.is_impaired() && !can_have_wire(plan, link);
    if let Some(link) = plan.links.iter().find(without) {
        return Err(PlanError::WireAtDoor { link: link.name.clone() });
    }
    // A machine's process has the frames of its node's interface before any program there.
    let open = |link: &PlannedLink| {
        let node = &plan.nodes[plan.machine_of(link)?];
        let behind = link.ends.iter().any(|end| matches!(end, PlannedEnd::Port { .. }));
        (!node.protect.is_empty() && !behind).then(|| (node.name.clone(), link.name.clone()))
    };
    match plan.links.iter().find_map(open) {
        Some((node, link)) => Err(PlanError::ProtectedGuest { node, link }),
        None => check_planes(plan),
    }
}

/// Checks that routers whose planes are separate have links that their planes can have.
fn check_planes(plan: &Plan) -> Result<(), PlanError> {
    let wrong = |link: &&PlannedLink| {
        let door = LinkForm::plain(plan, link).is_door();
        plan.has_separate_end(link) && (door || plan.has_shm_end(link))
    };
    match plan.links.iter().find(wrong) {
        Some(link) => Err(PlanError::PlaneAtDoor { link: link.name.clone() }),
        None => Ok(()),
    }
}

/// The form in which a living link of form [`LinkForm::Pair`] or [`LinkForm::Tap`] can have the wire that it has in the plan; `None` if it can
/// as it is.
///
/// `late`: programs at its ends would see frames after something else has them.
pub fn wired_form(link: &PlannedLink, allowed: Allowed, late: bool) -> Option<LinkForm> {
    if !allowed.programs || late {
        return Some(LinkForm::Wired);
    }
    link.is_direct().then_some(LinkForm::Joined)
}

/// The ends of a living link of a form that can be recreated so that it can have a wire, the better one first. Of a pair the
/// other end stays: best is one in the core namespace, which belongs to no node. Of a tap it is the node's. A virtual machine holds
/// its interface, so that it must stay.
pub fn sides_to_remake(plan: &Plan, link: &PlannedLink, form: LinkForm) -> Vec<usize> {
    let is_machine = |side: &usize| match &link.ends[*side] {
        PlannedEnd::Node { node, .. } => plan.nodes[*node].kind.as_vm().is_some(),
        _ => false,
    };
    let in_core = (0..2).find(|side| link.ends[*side].is_in_core());
    let sides = match (form, in_core) {
        (LinkForm::Pair, Some(side)) => vec![side],
        (LinkForm::Pair, None) => vec![1, 0],
        (LinkForm::Tap, Some(side)) => vec![1 - side],
        _ => vec![],
    };
    sides.into_iter().filter(|side| !is_machine(side)).collect()
}

/// A veth pair of a link of form [`LinkForm::Beside`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// From the interface of a router to its plane.
    Inner(usize),
    /// Between two planes, or from one to the other end, by the sides in the order of making.
    Outer([usize; 2]),
}

/// Whether a link can ever have a wire: not between a shared-memory switch and the host, where neither end is
/// an interface at which the lab may attach programs.
pub fn can_have_wire(plan: &Plan, link: &PlannedLink) -> bool {
    let shm = plan.has_shm_end(link);
    !(shm && LinkForm::plain(plan, link).is_door())
}

/// Whether a link can be a tap in its node: the other end is a shared-memory switch, and nothing has to be
/// between the two.
fn can_be_tap(plan: &Plan, link: &PlannedLink) -> bool {
    let free = |end: &PlannedEnd| match end {
        PlannedEnd::Node { node, .. } => {
            let node = &plan.nodes[*node];
            // A plug has no queue for threads. A budget stands at the tap, but a machine's is passed by there.
            !node.charge_receive && (node.kind.as_vm().is_none() || node.protect.is_empty())
        }
        end => plan.shm_switch_at(end).is_some(),
    };
    // A link between two shared-memory switches has no node that could hold the tap.
    let nodes = link.ends.iter().filter(|e| matches!(e, PlannedEnd::Node { .. })).count();
    nodes == 1 && link.ends.iter().all(free) && !link.is_impaired()
}

/// The forms of a lab's links, by the links' ids.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Forms(BTreeMap<LinkId, LinkForm>);

impl Forms {
    /// The forms of all links of a plan on a machine with these possibilities.
    pub fn of(plan: &Plan, allowed: Allowed) -> Forms {
        plan.links.iter().map(|link| (link.id, LinkForm::of(plan, link, allowed))).collect()
    }

    /// Records the form of a link.
    pub fn set(&mut self, link: LinkId, form: LinkForm) {
        self.0.insert(link, form);
    }

    /// Forgets a removed link.
    pub fn forget(&mut self, link: LinkId) {
        self.0.remove(&link);
    }

    /// The form of a link.
    pub fn get(&self, plan: &Plan, link: &PlannedLink) -> LinkForm {
        self.0.get(&link.id).copied().unwrap_or_else(|| LinkForm::plain(plan, link))
    }
}

impl FromIterator<(LinkId, LinkForm)> for Forms {
    fn from_iter<T: IntoIterator<Item = (LinkId, LinkForm)>>(forms: T) -> Forms {
        Forms(forms.into_iter().collect())
    }
}

/// The number of an end of a link among all ends of a lab.
pub fn number_of((link, side): LinkSide) -> usize {
    link.get() * 2 + side
}

/// The end of a link with that number: the inverse of [`number_of`].
pub fn side_of(number: usize) -> LinkSide {
    (LinkId::new(number / 2), number % 2)
}

/// The index of a new interface in a node that has these: above all but those of hidden interfaces, which their links choose.
pub fn next_index(known: impl Iterator<Item = u32>) -> u32 {
    let most = known.filter(|index| *index < FIRST_HIDDEN).max();
    most.map_or(super::FIRST_INDEX, |most| super::FIRST_INDEX.max(most + 1))
}

/// Index of the hidden interface of an end or a direction of a link.
pub fn hidden_index(side: LinkSide) -> u32 {
    FIRST_HIDDEN + u32::try_from(number_of(side)).unwrap_or(0)
}

impl PlannedLink {
    /// Whether it has impairments.
    pub fn is_impaired(&self) -> bool {
        self.impairments.iter().any(|wanted| !wanted.is_none())
    }

    /// Whether both ends are interfaces of nodes.
    pub fn is_direct(&self) -> bool {
        self.ends.iter().all(|end| matches!(end, PlannedEnd::Node { .. }))
    }

    /// The number of a direction's wire; `from` is the end that sends.
    pub fn wire_number(&self, from: usize) -> usize {
        number_of((self.id, from))
    }

    /// Index in the core namespace of the port at an end.
    pub fn port_index(&self, side: usize) -> u32 {
        FIRST_PORT + u32::try_from(number_of((self.id, side))).unwrap_or(0)
    }

    /// Index of the hidden interface of an end or a direction.
    pub fn hidden_index(&self, side: usize) -> u32 {
        hidden_index((self.id, side))
    }

    /// Name of the same.
    pub fn hidden_name(&self, side: usize) -> String {
        format!("{HIDDEN}{}", self.wire_number(side))
    }

    /// Index in the core namespace of the inner end of a node's veth pair: of a link of form [`LinkForm::Joined`], or
    /// between a router at an end and its plane.
    pub fn inner_index(&self, side: usize) -> u32 {
        FIRST_INNER + u32::try_from(number_of((self.id, side))).unwrap_or(0)
    }

    /// Index in the core namespace of the interface of a router's plane toward the other end.
    pub fn outer_index(&self, side: usize) -> u32 {
        FIRST_OUTER + u32::try_from(number_of((self.id, side))).unwrap_or(0)
    }

    /// Name of the same interface.
    pub fn inner_name(&self, side: usize) -> String {
        format!("nli{}", number_of((self.id, side)))
    }

    /// Name of the interface of a router's plane toward the other end.
    pub fn outer_name(&self, side: usize) -> String {
        format!("nlo{}", number_of((self.id, side)))
    }

    /// Index in the core namespace of the interface to the other host, of a link whose end at that side is there.
    pub fn far_index(&self, side: usize) -> u32 {
        FIRST_FAR + u32::try_from(number_of((self.id, side))).unwrap_or(0)
    }

    /// Name of the same.
    pub fn far_name(&self, side: usize) -> String {
        format!("nlv{}", number_of((self.id, side)))
    }

    /// Index in the core namespace of the tap beside the port at an end that is in a shared-memory switch.
    pub fn beside_index(&self, side: usize) -> u32 {
        PlannedLink::beside_of_port(self.port_index(side))
    }

    /// The same by the index of the port.
    pub fn beside_of_port(port: u32) -> u32 {
        port.saturating_sub(FIRST_PORT).saturating_add(FIRST_BESIDE)
    }

    /// Name of the same.
    pub fn beside_name(&self, side: usize) -> String {
        format!("nlt{}", number_of((self.id, side)))
    }

    /// The node's end of a link, the first if both are: positions of the node and of its interface.
    pub fn node_end(&self) -> Option<(Slot, usize)> {
        self.ends.iter().find_map(|end| match end {
            PlannedEnd::Node { node, interface } => Some((*node, *interface)),
            _ => None,
        })
    }
}

impl Plan {
    /// Indexes of the interfaces that an end in a switch has in the core namespace: the port's, and that of the tap beside it, which ports of
    /// shared-memory switches may have.
    pub fn port_indexes(&self, link: &PlannedLink, side: usize) -> impl Iterator<Item = u32> {
        let beside = self.shm_switch_at(&link.ends[side]).map(|_| link.beside_index(side));
        std::iter::once(link.port_index(side)).chain(beside)
    }

    /// The shared-memory switch at an end of a link.
    pub fn shm_switch_at(&self, end: &PlannedEnd) -> Option<SwitchSlot> {
        match end {
            PlannedEnd::Port { switch, .. } => {
                self.switch_at(*switch)?.kind.as_shm().map(|_| *switch)
            }
            _ => None,
        }
    }

    /// The shared-memory switch in which a link ends, and the name of the port there.
    pub fn shm_port(&self, link: &PlannedLink) -> Option<(&PlannedSwitch, String)> {
        (0..2).find_map(|side| {
            let switch = self.switch_at(self.shm_switch_at(&link.ends[side])?)?;
            Some((switch, self.port_name(link, side)))
        })
    }

    /// Whether an end of a link is at a shared-memory switch.
    pub fn has_shm_end(&self, link: &PlannedLink) -> bool {
        link.ends.iter().any(|end| self.shm_switch_at(end).is_some())
    }

    /// The router whose plane is separate, at an end of a link.
    pub fn separate_at(&self, end: &PlannedEnd) -> Option<Slot> {
        match end {
            PlannedEnd::Node { node, .. } => {
                self.node_at(*node)?.kind.has_separate_plane().then_some(*node)
            }
            _ => None,
        }
    }

    /// Whether a router whose plane is separate is at an end of a link.
    pub fn has_separate_end(&self, link: &PlannedLink) -> bool {
        link.ends.iter().any(|end| self.separate_at(end).is_some())
    }

    /// The veth pairs of a link of form [`LinkForm::Beside`].
    pub fn pieces(&self, link: &PlannedLink) -> Vec<Piece> {
        let separate = [0, 1].map(|side| self.separate_at(&link.ends[side]).is_some());
        let inner = (0..2).filter(|side| separate[*side]).map(Piece::Inner);
        // A port of a bridge comes first: only the first end can be attached, and is raised, in the same request.
        let first = usize::from(link.ends[1].is_in_core());
        inner.chain([Piece::Outer([first, 1 - first])]).collect()
    }

    /// A node that is a virtual machine at an end of a link.
    pub fn machine_of(&self, link: &PlannedLink) -> Option<Slot> {
        link.ends.iter().find_map(|end| match end {
            PlannedEnd::Node { node, .. } => self.nodes[*node].kind.as_vm().map(|_| *node),
            _ => None,
        })
    }

    /// Whether a link is the card of a virtual machine by vhost-user: one end is a machine that wants it, the other a
    /// shared-memory switch, and nothing has to be between the two.
    pub fn is_guests_card(&self, link: &PlannedLink) -> bool {
        let wants = |node: &PlannedNode| {
            let wants = node.kind.as_vm().is_some_and(|machine| machine.vhost_user);
            wants && node.protect.is_empty()
        };
        let machine = self.machine_of(link).map(|slot| &self.nodes[slot]);
        machine.is_some_and(wants) && self.has_shm_end(link) && !link.is_impaired()
    }

    /// An OpenFlow switch at an end of a link.
    pub fn openflow_switch_of(&self, link: &PlannedLink) -> Option<SwitchSlot> {
        link.ends.iter().find_map(|end| match end {
            PlannedEnd::Port { switch, .. } => {
                self.switch_at(*switch)?.kind.as_openflow().map(|_| *switch)
            }
            _ => None,
        })
    }

    /// The link and the end of a port in the core namespace, by its index there.
    pub fn port_of(&self, index: u32) -> Option<(&PlannedLink, usize)> {
        let number = usize::try_from(index.checked_sub(FIRST_PORT)?).ok()?;
        let (id, side) = side_of(number);
        self.links.iter().find(|l| l.id == id).map(|l| (l, side))
    }
}
