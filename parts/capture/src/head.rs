//! The head and tail of a capture file, and the conversion of packets to its format.
//!
//! Every file has the whole head: section, interfaces in order of their numbers, names. The tail
//! holds each interface's counters. A classic file has neither, and packets of one interface.

use netloom_sys::clock;
use std::net::IpAddr;
use std::sync::atomic::Ordering;

use netloom_pcap::classic::{self, Precision};
use netloom_pcap::{ng, run};
use serde::{Deserialize, Serialize};

use crate::shared::{Account, Shared};
use crate::{Error, Result};

/// The format of files.
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

/// A file's description of an interface. Empty and absent parts are omitted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// Its name.
    pub name: String,
    /// A description.
    pub description: String,
    /// The hardware device.
    pub hardware: Option<String>,
    /// The filter expression, as written.
    pub filter: Option<String>,
    /// Its hardware address.
    pub mac: Option<[u8; 6]>,
    /// Its addresses with prefix lengths.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Bits per second.
    pub speed: Option<u64>,
    /// Most bytes kept of a frame; 0 for all.
    pub snaplen: u32,
}

impl Description {
    /// An interface with this name, whole frames.
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
            // LINKTYPE_ETHERNET.
            linktype: 1,
        }
    }
}

/// A file's description of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// The program.
    pub application: String,
    /// The operating system.
    pub os: String,
    /// The machine.
    pub hardware: Option<String>,
    /// A comment.
    pub comment: Option<String>,
    /// Names of addresses.
    pub names: Vec<(IpAddr, Vec<String>)>,
}

/// Produces the bytes of an output.
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

    /// Whether packets are written unchanged, as their blocks in memory.
    pub(crate) fn is_ng(&self) -> bool {
        self.format == Format::PcapNg
    }

    /// The head of a file.
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
                // `texts` lives beside this, since the block borrows each name.
                about.names.iter().zip(&texts).map(|((a, _), of)| (*a, of.as_slice())).collect();
            ng::names(&mut out, &names);
        }
        out
    }

    /// Packet blocks in this format; `None` if they are in it already.
    pub(crate) fn convert(&mut self, blocks: &[u8]) -> Option<&[u8]> {
        let precision = self.format.precision()?;
        self.scratch.clear();
        for block in run::records(blocks) {
            let (time, original) = (block.time_ns, block.original);
            classic::record(&mut self.scratch, precision, time, original, block.data);
        }
        Some(&self.scratch)
    }

    /// The tail of a file, when everything captured so far is in it or lost.
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

/// Appends an interface's counters: received are the offered frames, dropped all lost ones, dropped
/// by the system those lost in the engine's ring, delivered those captured.
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
