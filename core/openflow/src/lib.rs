//! OpenFlow 1.0 and 1.3: messages to bytes and back.
//!
//! [`Message`] is one model of both versions: what both have is one type, what one of them lacks is left
//! out on its wire ([`message::encode`] refuses what cannot be left out). [`message::decode`] accepts any bytes
//! and refuses with the error that the specification wants as an answer. Every message whose padding is zero is
//! encoded to the bytes it was decoded from.
//! Nothing here knows what messages do: see `netloom-pipeline`.
//! See the OpenFlow Switch Specification, versions 1.0.0 and 1.3.5; section numbers are those of 1.3.5.

#![forbid(unsafe_code)]

#[macro_use]
mod values;
pub mod action;
pub mod async_config;
pub mod detour;
pub mod error;
pub mod flow;
pub mod group;
pub mod header;
pub mod hello;
pub mod instruction;
pub mod matching;
pub mod message;
pub mod meter;
pub mod multipart;
pub mod packet;
pub mod port;
pub mod queue;
pub mod records;
pub mod refusal;
pub mod role;
pub mod stream;
pub mod switch;
pub mod text;
pub mod weight;
mod wire;

pub use action::Action;
pub use detour::Detour;
pub use error::{EncodeError, Reason};
pub use flow::{FlowMod, FlowRemoved};
pub use group::{Bucket, GroupMod};
pub use header::{Header, Version};
pub use hello::Hello;
pub use instruction::Instruction;
pub use matching::{Field, Match, Oxm};
pub use message::{Message, decode, encode};
pub use meter::MeterMod;
pub use multipart::{MultipartReply, MultipartRequest, Reply, Request};
pub use packet::{PacketIn, PacketOut};
pub use port::{Port, PortMod, PortNumber, PortStatus};
pub use refusal::{DecodeError, ErrorMessage};

#[cfg(test)]
extern crate self as netloom_openflow;

#[cfg(test)]
#[path = "../tests/all.rs"]
mod integration;
