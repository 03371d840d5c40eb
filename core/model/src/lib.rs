//! The lab as the user describes it, and as the machine shall realise it.
//!
//! [`parse`] turns the text of a lab file into a [`Lab`] or into all its errors, each with its
//! place. [`plan`](plan::plan) gives each interface its name, MAC and addresses, each router its
//! routes, and returns a [`Plan`]: the complete list of objects to make. Nothing here touches the
//! machine: the same text gives the same plan.

#![forbid(unsafe_code)]

mod bounds;
pub mod difference;
pub mod drawing;
mod file;
mod formatting;
pub mod forwarding;
pub mod hosts;
mod ids;
pub mod image;
pub mod impairment;
mod keys;
pub mod kinds;
pub mod lab;
pub mod lookup;
pub mod merging;
mod misread;
mod naming;
mod parse;
pub mod plan;
pub mod published;
pub mod reference;
mod restart;
mod saving;
mod schema;
pub mod setting;
pub mod signal;
pub mod slices;
pub mod users;
pub mod words;
mod write;

pub use bounds::{MAX_DEPTH, MAX_LINKS, MAX_NODES};
pub use formatting::format;
pub use hosts::{Agent, Host, Hosts};
pub use lab::{Lab, Pin, expect};
pub use misread::Misread;
pub use naming::{
    interface_name_problem, lab_name_problem, node_interface_problem, node_name_problem,
};
pub use netloom_config::{Diagnostic, Diagnostics, MAX_BYTES, too_large};
pub use parse::{
    hosts as parse_hosts, lab_name, link_addresses, link_ends, link_mac, link_mtu, node_keys,
    parse, port_lock, port_vlan, set_node, switch_keys, switch_kind,
};
pub use plan::Plan;
pub use saving::lab_of;
pub use schema::schema;
pub use write::write;

#[cfg(test)]
extern crate self as netloom_model;

#[cfg(test)]
#[path = "../tests/all.rs"]
mod integration;
