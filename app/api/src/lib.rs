//! What a running lab serves to other processes of its owner, and the client for it.
//!
//! A lab process calls [`serve`]: `FOLDER/api.sock` speaks REST ([`openapi`] describes it), and
//! `FOLDER/handles.sock` gives descriptors by which a caller enters a node itself. Both sockets have
//! mode 0600 from their first moment and answer only root and the owner of the lab process, checked
//! for each connection. [`serve_probe`] serves measurements alone and
//! [`serve_lab`] a lab over TCP, to those who know a token. [`Client`] is the other side; it starts no thread. All data comes from
//! [`netloom_lab::Service`]; nothing is decided here. Async code stays inside this crate.
#![forbid(unsafe_code)]

mod change;
pub mod client;
mod document;
mod door;
mod error;
mod forward;
mod handler;
mod handles;
mod mirror;
mod pnpm;
mod query;
mod reply;
mod rest;
mod routes;
mod server;
mod socket;
mod switches;
mod token;

pub use client::Client;
pub use error::{Error, Result};
pub use routes::openapi;
pub use server::{Server, serve, serve_lab, serve_probe};
pub use token::Token;

/// File name of the socket that speaks REST, in the lab's folder.
pub const API_SOCKET: &str = "api.sock";

/// File name of the socket that gives descriptors, in the lab's folder.
pub const HANDLES_SOCKET: &str = "handles.sock";

#[cfg(test)]
extern crate self as netloom_api;

#[cfg(test)]
#[path = "../tests/all.rs"]
mod integration;
