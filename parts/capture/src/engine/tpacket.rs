//! Frames by packet sockets: rings of blocks, with one thread or several that share an interface.
//!
//! Both directions are seen, and the kernel filters. A filter that must count rejected frames is a
//! BPF program; the socket's own does not count.

use std::os::fd::AsFd;
use std::time::Duration;

use netloom_ebpf::capture::SocketFilter;
use netloom_filter::Program;
use netloom_pcap::ng;
use netloom_rawsock::block::{
    Block, BlockFrame, BlockOptions, BlockRing, Fanout, FanoutMode, RawInsn, Statistics, Status,
};

use super::{Counts, Direction, Engine, Round};
use crate::{Error, Filler, Frame, Result};

/// Options of packet-socket engines.
#[derive(Clone, Debug)]
pub struct TpacketOptions {
    /// Number of threads that share the interface's frames; both directions of a flow go to the same one.
    pub threads: usize,
    /// Bytes of each thread's ring.
    pub ring: usize,
    /// Most bytes kept of a frame; 0 for all.
    pub snaplen: u32,
    /// Whether frames for other stations are captured, too.
    pub promiscuous: bool,
    /// Wanted directions. Frames of the other count as filtered.
    pub direction: Direction,
    /// Wanted frames.
    pub filter: Option<Program>,
}

impl Default for TpacketOptions {
    /// One thread with 64 MiB, whole frames in both directions.
    fn default() -> Self {
        TpacketOptions {
            threads: 1,
            ring: 64 << 20,
            snaplen: 0,
            promiscuous: false,
            direction: Direction::Both,
            filter: None,
        }
    }
}

/// Bytes of a block.
const BLOCK: usize = 1 << 20;
/// Most blocks of a round.
const MOST: usize = 8;

/// A packet-socket engine.
#[derive(Debug)]
pub struct Tpacket {
    ring: BlockRing,
    direction: Direction,
    /// Frames of the unwanted direction.
    unwanted: u64,
    /// The counting filter of all threads, held by the first.
    filter: Option<SocketFilter>,
    /// Frames taken out of the ring.
    taken: u64,
    index: u32,
}

impl Tpacket {
    /// Opens one engine per thread, on an interface of the calling thread's network namespace.
    ///
    /// # Errors
    /// As [`BlockRing::open`].
    pub fn open(index: u32, options: &TpacketOptions) -> Result<Vec<Tpacket>> {
        let mut rings: Vec<Tpacket> = Vec::new();
        let mut group = None;
        let counting = counting(options);
        for _ in 0..options.threads.max(1) {
            let fanout =
                // The first socket makes the group and gets a
                // number that is free; the others join by it.
                (options.threads > 1).then_some(Fanout { id: group, mode: FanoutMode::Hash });
            let ring = open(index, options, fanout, counting.as_ref())?;
            group = ring.group()?;
            let direction = options.direction;
            rings.push(Tpacket { ring, direction, unwanted: 0, filter: None, taken: 0, index });
        }
        if let Some(first) = rings.first_mut() {
            first.filter = counting;
        }
        Ok(rings)
    }

    /// Whether frames rejected by the filter are counted.
    pub fn counts_filtered(&self) -> bool {
        self.filter.is_some()
    }

    fn take(&mut self, into: &mut Filler, wait: Duration) -> Result<Round> {
        let mut found = Round::Nothing;
        let mut wait = wait;
        for _ in 0..MOST {
            let block = match self.ring.block_or_call(wait, into.call()) {
                Ok(Some(block)) => block,
                // ENETDOWN is told once; frames come again when the interface is up.
                Ok(None) | Err(netloom_rawsock::Error::Down { .. }) => return Ok(found),
                Err(netloom_rawsock::Error::Gone { .. }) if found == Round::Nothing => {
                    return Ok(Round::Gone);
                }
                Err(netloom_rawsock::Error::Gone { .. }) => return Ok(found),
                Err(error) => return Err(error.into()),
            };
            let (taken, unwanted) = put(&block, self.direction, into);
            self.taken += taken;
            self.unwanted += unwanted;
            (found, wait) = (Round::Some, Duration::ZERO);
        }
        Ok(Round::Part)
    }
}

/// A counting filter, if one is needed and permitted. In a ring group it counts for each ring, that
/// is once per frame.
fn counting(options: &TpacketOptions) -> Option<SocketFilter> {
    let filter = options.filter.as_ref()?;
    // Not permitted to ordinary users, who get the kernel's own filter.
    SocketFilter::load(filter, options.snaplen).ok()
}

fn open(
    index: u32,
    options: &TpacketOptions,
    fanout: Option<Fanout>,
    counting: Option<&SocketFilter>,
) -> Result<BlockRing> {
    let how = BlockOptions {
        block_bytes: BLOCK,
        blocks: (options.ring / BLOCK).max(4),
        fanout,
        snaplen: options.snaplen,
        promiscuous: options.promiscuous,
        ..BlockOptions::default()
    };
    if let Some(counting) = counting {
        return Ok(BlockRing::open_with_program(index, how, counting.as_fd())?);
    }
    let raw = |insn: &netloom_filter::Insn| RawInsn {
        code: insn.code,
        jt: insn.jt,
        jf: insn.jf,
        k: insn.k,
    };
    let filter: Option<Vec<RawInsn>> =
        options.filter.as_ref().map(|filter| filter.insns().iter().map(raw).collect());
    Ok(BlockRing::open(index, how, filter.as_deref())?)
}

/// Puts a block's frames; returns how many there were, and how many were unwanted.
fn put(block: &Block<'_>, direction: Direction, into: &mut Filler) -> (u64, u64) {
    let (mut taken, mut unwanted) = (0, 0);
    for frame in block {
        taken += 1;
        if direction.takes(frame.outgoing) {
            into.frame(&Frame {
                time_ns: frame.time_ns,
                original: frame.original,
                data: frame.data,
                tag: frame.vlan,
                flags: flags(&frame),
            });
        } else {
            unwanted += 1;
        }
    }
    (taken, unwanted)
}

fn flags(frame: &BlockFrame<'_>) -> u32 {
    let direction = if frame.outgoing { ng::OUTBOUND } else { ng::INBOUND };
    let checksum = match frame.status {
        Status::CsumNotReady => ng::CHECKSUM_UNFINISHED,
        Status::CsumValid => ng::CHECKSUM_VALID,
        Status::Unknown => 0,
    };
    direction | checksum | if frame.gso { ng::SEGMENTS } else { 0 }
}

impl Engine for Tpacket {
    fn round(&mut self, into: &mut Filler, wait: Duration) -> Result<Round> {
        self.take(into, wait)
    }

    fn finish(&mut self, into: &mut Filler) -> Result<()> {
        self.ring.stop()?;
        while matches!(self.take(into, Duration::ZERO)?, Round::Some | Round::Part) {}
        let Statistics { packets, drops, .. } = self.ring.statistics()?;
        // `tp_packets` counts dropped frames, too (net/packet/af_packet.c).
        match packets.saturating_sub(drops + self.taken) {
            0 => Ok(()),
            missing => Err(Error::Missing { index: self.index, missing }),
        }
    }

    fn heeds_calls(&self) -> bool {
        true
    }

    /// A block waits for more frames, up to twice the configured time, plus the kernel's timer.
    fn lag(&self) -> Duration {
        5 * self.ring.timeout()
    }

    fn counts(&mut self) -> Result<Counts> {
        let Statistics { packets, drops, .. } = self.ring.statistics()?;
        let refused = self.filter.as_ref().map_or(0, |filter| filter.counts().filtered);
        Ok(Counts { offered: packets + refused, filtered: refused + self.unwanted, lost: drops })
    }
}
