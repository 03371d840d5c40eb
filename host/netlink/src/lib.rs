//! Links, addresses, routes, neighbours and NAT over netlink: blocking and batched.
//!
//! A [`Socket`] belongs for good to the network namespace of the thread that opened it. Changes are
//! collected in a [`Batch`], each with the name of its object, and many are sent in one system
//! call; every refusal is returned with its object and the kernel's own words, and the rest is
//! still done. Queries (`links`, `routes`, ...) are methods of [`Socket`]. [`nat`] writes nftables
//! rules without the `nft` program.
//!
//! The crate does not enter namespaces, write sysctls or choose names, indexes and addresses.
//! Messages are encoded by hand: a lab of a thousand nodes needs tens of thousands of them.
//! Specification: rtnetlink(7), netlink(7), `linux/{netlink,rtnetlink,if_link}.h`.

mod address;
mod batch;
mod carry;
pub mod charge;
mod decode;
pub mod diag;
mod discipline;
mod encode;
mod error;
mod forwarding;
mod generic;
mod link;
mod lookup;
pub mod nat;
pub mod offload;
pub mod packet_rules;
mod query;
mod route;
mod rule;
mod settle;
mod snapshot;
mod socket;
mod spaces;
mod tunnel;
mod uapi;
mod watch;

pub use address::{Address, DeleteAddress, DeleteNeighbour, Neighbour};
pub use batch::{Batch, Purpose, Request};
pub use carry::Carried;
pub use discipline::{DeleteDiscipline, IngressDiscipline};
pub use error::{Error, Refusal, Result};
pub use forwarding::{
    ForwardingChange, ForwardingHop, ForwardingNeighbour, ForwardingRoute, ForwardingWatch,
    LOCAL_TABLE, MAIN_TABLE, UseNeighbour, changes as forwarding_changes,
};
pub use link::{BridgeSpec, Change, DeleteLink, EndSpec, LinkRef, MoveLink, VethSpec};
pub use lookup::{Contents, Found, Lookup, Matched, PathAnswer};
pub use query::{
    AddressInfo, DisciplineInfo, Family, LinkInfo, LinkSettings, Operational, RouteInfo, RouteKind,
    Traffic,
};
pub use route::{DeleteRoute, Multipath, Route};
pub use rule::{DeleteRule, KernelRule, RuleInfo};
pub use snapshot::Snapshot;
pub use socket::Socket;
pub use spaces::ManySpaces;
pub use tunnel::{RedirectAll, RedirectFrom, SendTo, Tagged, VxlanSpec};
pub use watch::{AddressWatch, Changed, ChangedLinks, LinkWatch, RouteWatch};

#[cfg(test)]
extern crate self as netloom_netlink;

#[cfg(test)]
#[path = "../tests/all.rs"]
mod integration;
