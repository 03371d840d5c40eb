//! What a capture file begins and ends with, and what its format makes of packets.
//!
//! Every file has the whole beginning: section, interfaces in the order of their numbers, names. The
//! end tells each interface's counters. A classic file has neither, and packets of one interface.

use netloom_sys::clock;
use std::net::IpAddr;
use std::sync::atomic::Ordering;

use netloom_pcap::classic::{self, Precision};
use netloom_pcap::{ng, run};
use serde::{Deserialize, Serialize};

use crate::shared::{Account, Shared};
use crate::{Error, Result};

/// What files are written as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// pcapng with nanoseconds.
    #[default]
    PcapNg,
    /// Classic pcap with microseconds, for one interface.
    Pcap,
    /// Classic pcap with nanoseconds, for one interface.
    PcapNs,
}

impl Format {
    fn precision(self) -> Option<Precision> {
        match self {
            Format::PcapNg => None,
            Format::Pcap => Some(Precision::Micro),
            Format::PcapNs => Some(Precision::Nano),
        }
    }
}

/// What a file says of an interface. Empty and absent parts are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// Its name.
    pub name: String,
    /// What it is.
    pub description: String,
    /// The device.
    pub hardware: Option<String>,
    /// The filter, as it was written.
    pub filter: Option<String>,
    /// Its hardware address.
    pub mac: Option<[u8; 6]>,
    /// Its addresses with the bits of their prefixes.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Bits per second.
    pub speed: Option<u64>,
    /// Most bytes kept of a frame; 0 for all.
    pub snaplen: u32,
}

impl Description {
    /// Of this name, whole frames.
    pub fn new(name: &str) -> Description {
        Description { name: name.to_owned(), ..Description::default() }
    }

    fn block(&self) -> ng::Interface<'_> {
        ng::Interface {
            name: &self.name,
            description: &self.description,
            hardware: self.hardware.as_deref(),
            filter: self.filter.as_deref(),
            mac: self.mac,
            addresses: &self.addresses,
            speed: self.speed,
            snaplen: self.snaplen,
            linktype: 1,
        }
    }
}

/// What a file says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// The program.
    pub application: String,
    /// The operating system.
    pub os: String,
    /// The machine.
    pub hardware: Option<String>,
    /// Anything.
    pub comment: Option<String>,
    /// What addresses are called.
    pub names: Vec<(IpAddr, Vec<String>)>,
}

/// Makes the bytes of an output.
#[derive(Debug)]
pub(crate) struct Encoder {
    format: Format,
    about: About,
    interfaces: Vec<Description>,
    scratch: Vec<u8>,
}

impl Encoder {
    pub(crate) fn new(
        format: Format,
        about: About,
        interfaces: Vec<Description>,
    ) -> Result<Encoder> {
        if format != Format::PcapNg && interfaces.len() > 1 {
            return Err(Error::OneInterface { interfaces: interfaces.len() });
        }
        Ok(Encoder { format, about, interfaces, scratch: Vec::new() })
    }

    /// Whether packets are written as the blocks that they are in memory.
    pub(crate) fn is_ng(&self) -> bool {
        self.format == Format::PcapNg
    }

    /// What a file begins with.
    pub(crate) fn head(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if let Some(precision) = self.format.precision() {
            let snaplen = self.interfaces.first().map_or(0, |interface| interface.snaplen);
            classic::header(&mut out, precision, snaplen, 1);
            return out;
        }
        let about = &self.about;
        ng::section(
            &mut out,
            &ng::Section {
                application: &about.application,
                os: &about.os,
                hardware: about.hardware.as_deref(),
                comment: about.comment.as_deref(),
            },
        );
        for interface in &self.interfaces {
            ng::interface(&mut out, &interface.block());
        }
        if !about.names.is_empty() {
            let texts: Vec<Vec<&str>> =
                about.names.iter().map(|(_, of)| of.iter().map(String::as_str).collect()).collect();
            let names: Vec<(IpAddr, &[&str])> =
                about.names.iter().zip(&texts).map(|((a, _), of)| (*a, of.as_slice())).collect();
            ng::names(&mut out, &names);
        }
        out
    }

    /// Packet blocks in this format; nothing if they are in it already.
    pub(crate) fn convert(&mut self, blocks: &[u8]) -> Option<&[u8]> {
        let precision = self.format.precision()?;
        self.scratch.clear();
        for block in run::records(blocks) {
            let (time, original) = (block.time_ns, block.original);
            classic::record(&mut self.scratch, precision, time, original, block.data);
        }
        Some(&self.scratch)
    }

    /// What a file ends with, when all that was captured so far is in it or lost.
    pub(crate) fn tail(&self, shared: &Shared) -> Vec<u8> {
        let mut out = Vec::new();
        if self.is_ng() {
            for (interface, account) in (0..).zip(&shared.accounts) {
                statistics(&mut out, interface, account, shared);
            }
        }
        out
    }
}

/// Appends an interface's counters: received are those offered, dropped all that were lost, dropped by
/// the system those of them that were lost in the engine's ring, delivered those captured.
pub(crate) fn statistics(out: &mut Vec<u8>, interface: u32, account: &Account, shared: &Shared) {
    let ledger = account.ledger();
    let now = clock::realtime();
    ng::statistics(
        out,
        &ng::Statistics {
            interface,
            time_ns: now,
            start_ns: Some(shared.started_ns),
            end_ns: Some(now),
            received: Some(ledger.offered),
            dropped: Some(ledger.lost.total()),
            filter_accepted: Some(ledger.offered.saturating_sub(ledger.filtered)),
            os_dropped: Some(ledger.lost.ring),
            delivered: Some(ledger.captured),
        },
    );
    account.told.store(ledger.offered, Ordering::Relaxed);
}
