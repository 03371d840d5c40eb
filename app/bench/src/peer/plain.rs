//! `plug-plain INTERFACE SWITCH`: a plug like older programs: packet socket rings with 2 KiB slots and no
//! offload headers, so that frames merged by the card are truncated and lost. Runs until stopped.

use std::os::fd::AsFd;
use std::time::Duration;

use anyhow::{Context, Result};
use netloom_plug::Pump;
use netloom_port::{RingOptions, RingPort};
use rustix::pipe::pipe;
use serde::Serialize;

use super::line::join;
use super::ready;
use super::stop::Stop;

/// A server that runs longer than this was forgotten.
const MOST: Duration = Duration::from_secs(3600);

/// An empty result.
#[derive(Debug, Serialize)]
pub(super) struct Done {}

pub(super) fn plug(interface: &str, switch: &str) -> Result<Done> {
    let index = rustix::net::netdevice::name_to_index(
        rustix::net::socket(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::DGRAM,
            None,
        )?,
        interface,
    );
    let index = index.with_context(|| format!("find interface {interface}"))?;
    let options =
        RingOptions { promiscuous: true, without_offloads: true, ..RingOptions::default() };
    let port = RingPort::open(index, options)?;
    let member = join(switch, "bench-plain")?;
    let stop = Stop::new(MOST);
    // Nothing is ever written: `go_on` ends it.
    let (never, _open) = pipe().context("make a pipe")?;
    ready();
    Pump::new(Box::new(port), Box::new(member)).run(never.as_fd(), &mut || !stop.over())?;
    Ok(Done {})
}
