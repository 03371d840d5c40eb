//! All keepers of a lab, listed once.

use crate::build::keeper::Keeper;
use crate::keep::doors::Doors;
use crate::keep::far_links::FarLinks;
use crate::keep::flows::Flows;
use crate::keep::guards::Guards;
use crate::keep::namespaces::Namespaces;
use crate::keep::neighbours::Neighbours;
use crate::keep::ports::Ports;
use crate::keep::routers::Routers;
use crate::keep::slicers::Slicers;
use crate::keep::switches::Switches;
use crate::keep::wires::Wires;

/// The keepers of a lab.
#[derive(Default)]
pub(crate) struct Keepers {
    pub(crate) doors: Doors,
    pub(crate) guards: Guards,
    pub(crate) wires: Wires,
    pub(crate) switches: Switches,
    pub(crate) slicers: Slicers,
    pub(crate) flows: Flows,
    pub(crate) routers: Routers,
    pub(crate) ports: Ports,
    pub(crate) namespaces: Namespaces,
    pub(crate) neighbours: Neighbours,
    pub(crate) far_links: FarLinks,
}

impl Keepers {
    /// All keepers, in the order in which they attach.
    pub(crate) fn all(&self) -> [&dyn Keeper; 11] {
        // Switches connect to their slicer. Whether a wire can be put in at an OpenFlow switch depends on how that gets its frames.
        [
            &self.doors,
            &self.slicers,
            &self.flows,
            &self.guards,
            &self.wires,
            &self.switches,
            &self.routers,
            &self.ports,
            &self.namespaces,
            &self.neighbours,
            &self.far_links,
        ]
    }
}
