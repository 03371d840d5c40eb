//! Guard: asks before a program talks.
//!
//! A program runs under a filter that notifies each call by which it could reach a network or be reached: see
//! `calls`. The supervisor copies the call's arguments, duplicates its socket, asks its judge, and makes the
//! call itself on the duplicate (`prepare`, `perform`). So the judged call is the performed call, whatever the program
//! does to its memory or descriptors meanwhile. Only calls whose registers say all are left to the program.
//!
//! Established connections are not touched: reading and sending without an address run in the kernel as ever. When
//! the supervisor ends, notified calls fail.
#![forbid(unsafe_code)]

mod accept;
pub mod address;
mod calls;
pub mod card;
mod deputy;
mod desk;
pub mod digest;
mod error;
mod guarded;
mod job;
mod judge;
pub mod layout;
pub mod log;
pub mod menu;
mod names;
mod peers;
mod perform;
mod ports;
mod prepare;
mod rules;
mod screen;
mod sheet;
mod socket;
mod supervisor;
mod tty;
mod turn;
mod who;

pub use accept::Gate;
pub use deputy::Deputy;
pub use desk::Desk;
pub use error::{Error, Result};
pub use guarded::{Guarded, terminal};
pub use judge::{Judge, Judgement, Question, Said, State};
pub use log::Log;
pub use rules::{Answer, Ask, Options, Rules};
pub use supervisor::{Supervisor, start, start_by};
pub use who::Who;

#[cfg(test)]
extern crate self as netloom_guard;

#[cfg(test)]
#[path = "../tests/all.rs"]
mod integration;
