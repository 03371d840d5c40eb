//! Keepers: what a lab process keeps running beside nodes and links. One file each, all listed in `keepers`.

pub(crate) mod claims;
pub(crate) mod doors;
pub(crate) mod far_links;
pub(crate) mod flows;
pub(crate) mod guards;
pub(crate) mod keepers;
pub(crate) mod ledger;
pub(crate) mod namespaces;
pub(crate) mod neighbours;
pub(crate) mod per_node;
pub(crate) mod ports;
pub(crate) mod routers;
pub(crate) mod slicers;
pub(crate) mod switches;
pub(crate) mod wires;
