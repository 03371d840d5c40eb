//! The API that a running lab serves to its owner's processes, and the client for it.
//!
//! A lab process calls [`serve`]: `FOLDER/api.sock` speaks REST ([`openapi`] describes it), and
//! `FOLDER/handles.sock` hands out descriptors for entering a node. Both sockets have mode 0600 from the
//! start and answer only root and the owner of the lab process, checked for each connection. [`serve_probe`]
//! serves only measurements over TCP, and [`serve_lab`] a whole lab, to callers with a token. [`Client`] is
//! the other side; it starts no thread. All data comes from [`netloom_lab::Service`]; this crate decides
//! nothing. Async code stays inside this crate.
#![forbid(unsafe_code)]

mod bodies;
mod calls;
mod capture;
pub mod client;
mod connections;
mod document;
mod documented;
mod entry;
mod error;
mod flows;
mod forward;
mod gate;
mod handler;
mod handles;
mod lab_file;
mod measure;
mod offer;
mod own_child;
mod page;
mod parameters;
mod patient;
mod pnpm;
mod reply;
mod rest;
mod routes;
mod server;
mod sessions;
mod socket;
mod streaming;
mod streams;
mod terminal;
mod token;

pub use client::Client;
pub use error::{Error, Result};
pub use gate::Gate;
pub use offer::Offer;
pub use routes::openapi;
pub use server::{Server, serve, serve_lab, serve_probe};
pub use token::Token;

/// File name of the REST socket in the lab's folder.
pub const API_SOCKET: &str = "api.sock";

/// File name of the descriptor socket in the lab's folder.
pub const HANDLES_SOCKET: &str = "handles.sock";

#[cfg(test)]
extern crate self as netloom_api;

#[cfg(test)]
#[path = "../tests/all.rs"]
mod integration;
