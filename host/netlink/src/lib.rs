//! Links, addresses, routes, neighbours and NAT over netlink: blocking and batched.
//!
//! A [`Socket`] belongs to the network namespace its thread was in when it was opened, for good.
//! Changes are collected in a [`Batch`], each with the name of its object, and sent many to a
//! system call; every refusal comes back with its object and the kernel's own words, and the rest
//! is still done. Questions (`links`, `routes`, ...) are methods of [`Socket`]. [`nat`] writes
//! nftables rules without the `nft` program.
//!
//! It does not enter namespaces, write sysctls or decide names, indexes and addresses.
//! Messages are encoded by hand: a lab of a thousand nodes is tens of thousands of them.
//! Specification: rtnetlink(7), netlink(7), `linux/{netlink,rtnetlink,if_link}.h`.

mod address;
mod batch;
mod carry;
pub mod charge;
mod decode;
pub mod diag;
mod encode;
mod error;
mod generic;
mod link;
mod lookup;
pub mod nat;
pub mod offload;
mod query;
mod route;
mod socket;
mod uapi;
mod watch;

pub use address::{Address, DeleteAddress, Neighbour};
pub use batch::{Batch, Purpose, Request};
pub use carry::Carried;
pub use error::{Error, Failure, Result};
pub use link::{BridgeSpec, Change, DeleteLink, EndSpec, LinkRef, MoveLink, VethSpec};
pub use lookup::{Found, Lookup};
pub use query::{AddressInfo, Family, LinkInfo, Operational, RouteInfo, Traffic};
pub use route::{DeleteRoute, Multipath, Route};
pub use socket::Socket;
pub use watch::{AddressWatch, Changed};

#[cfg(test)]
extern crate self as netloom_netlink;

#[cfg(test)]
#[path = "../tests/all.rs"]
mod integration;
