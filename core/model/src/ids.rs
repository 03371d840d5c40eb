//! Identities of a plan's nodes and links, which are never reused; and positions in its lists of nodes, links
//! and switches, which shift when something before them is removed.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! identity {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
        pub struct $name(usize);

        impl $name {
            /// The identity with this number.
            pub const fn new(number: usize) -> $name {
                $name(number)
            }

            /// Its number, as in file names, indexes and stored states.
            pub const fn get(self) -> usize {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

identity! {
    /// Identifies a node on the machine for its lifetime.
    NodeId
}

identity! {
    /// The place of a node in the plan's nodes: an index.
    Slot
}

impl Slot {
    /// In the place of a node that is not shown, see [`Plan::subtree`](crate::Plan::subtree).
    pub const NOT_SHOWN: Slot = Slot(usize::MAX);
}

identity! {
    /// The place of a link in the plan's links: an index.
    LinkSlot
}

impl LinkSlot {
    /// In the place of a link that is not shown, see [`Plan::subtree`](crate::Plan::subtree).
    pub const NOT_SHOWN: LinkSlot = LinkSlot(usize::MAX);
}

identity! {
    /// The place of a switch in the plan's switches: an index.
    SwitchSlot
}

identity! {
    /// Identifies a link on the machine for its lifetime.
    LinkId
}

/// One end of a link, 0 or 1; for directions, the sending end.
pub type LinkSide = (LinkId, usize);

impl LinkId {
    /// The one given next.
    pub(crate) const fn next(self) -> LinkId {
        LinkId(self.0 + 1)
    }
}

impl NodeId {
    /// The one given next.
    pub(crate) const fn next(self) -> NodeId {
        NodeId(self.0 + 1)
    }

    /// The init of the lab\'s core namespace, which is not a node of the plan.
    pub const CORE: NodeId = NodeId(usize::MAX);
}
