//! A point of a session: attached, read, lost with its interface and reattached.
//!
//! A block is read from whatever is attached at its end. A reattached point has counted only since then, and
//! the block in which it starts says so; earlier counts of that block are lost. Reattaching runs in parallel
//! with the reading of blocks; blocks read before it is done are reported as without the interface.

use std::panic::resume_unwind;
use std::sync::Arc;

use netloom_ebpf::Hook;
use netloom_ebpf::measure::{Config, Counts, FlowBlock, Joined, Marking, Measure};
use netloom_marking::session::{NamedFilter, flow_ids};
use netloom_marking::{Record, Schedule};
use netloom_sys::Failure;
use rustix::io::Errno;

use crate::background::Background;
use crate::limits::patience;
use crate::{Error, Interfaces, Result, Spot};

/// An attached program and its location.
#[derive(Debug)]
struct Attached {
    measure: Measure,
    /// The interface's index there.
    ifindex: u32,
    /// When it was attached, on the session's clock.
    since: u64,
    /// The interface has disappeared.
    gone: bool,
    /// How many filters it has.
    filters: usize,
}

/// A spot, and the programs that count there.
#[derive(Debug)]
pub(crate) struct Point {
    spot: Spot,
    config: Config,
    /// The source of current blocks.
    attached: Option<Attached>,
    /// The reattached source of later blocks.
    next: Option<Attached>,
    /// A reattachment in progress.
    returning: Option<Background<Result<Attached>>>,
    /// Without BPF links, the interface must be polled for its disappearance.
    asks: bool,
    /// Detached on purpose: its interface is not watched any more.
    off: bool,
    /// Packets that had found no room in the cache when it was last emptied.
    overflow: u64,
    /// Counts of earlier attachments.
    counted: Counts,
}

/// The work to wait for when a point ends.
#[must_use = "dropped, it waits"]
pub(crate) struct Ending(
    #[expect(dead_code, reason = "held")] Option<Background<Result<Attached>>>,
);

fn failed(spot: &Spot, operation: &'static str, error: netloom_ebpf::Error) -> Error {
    match error {
        netloom_ebpf::Error::Unsupported(missing) => Error::Unsupported(missing),
        source => {
            let direction = spot.direction.name();
            Error::Point { netif: spot.netif.clone(), direction, operation, source }
        }
    }
}

/// Why a point was not attached: an interface runs a limited number of programs.
fn refused(spot: &Spot, error: netloom_ebpf::Error) -> Error {
    // kernel/bpf/mprog.c answers ERANGE when a hook has no room left.
    let full = |failure: &Failure| failure.raw_os_error() == Some(Errno::RANGE.raw_os_error());
    if !matches!(&error, netloom_ebpf::Error::Failed(failure) if full(failure)) {
        return failed(spot, "attach a point", error);
    }
    let object = format!("interface {:?}, {}", spot.netif, spot.direction.name());
    let reason = "it runs 63 BPF programs, more the kernel does not allow: delete a session, or end a capture";
    Error::TooMany { object, reason: reason.to_owned() }
}

impl Point {
    /// Attaches a point. `config` is the session's; the spot decides whether packets are marked.
    ///
    /// # Errors
    /// Errors of the kernel; [`Error::NoInterface`]; [`Error::TooMany`].
    pub(crate) fn attach(
        interfaces: &dyn Interfaces,
        spot: &Spot,
        config: &Config,
    ) -> Result<Point> {
        let config = Config { marking: spot.marking, ..config.clone() };
        let attached = attach(interfaces, spot, &config)?;
        Ok(Point {
            spot: spot.clone(),
            config,
            attached: Some(attached),
            next: None,
            returning: None,
            // BPF links end with their interface; filters of clsact say nothing of it.
            asks: Hook::probe() == Hook::Clsact,
            off: false,
            overflow: 0,
            counted: Counts::default(),
        })
    }

    /// Tells the point when block 0 begins.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub(crate) fn begin_at(&mut self, schedule: Schedule) -> Result<()> {
        self.config.schedule = schedule;
        let failed = |error| failed(&self.spot, "tell when to begin", error);
        let measure = self.attached.as_mut().map(|attached| &mut attached.measure);
        measure.map_or(Ok(()), |measure| measure.begin_at(schedule.start())).map_err(failed)
    }

    /// Adds flows that count from a later block on.
    ///
    /// # Errors
    /// Errors of the kernel; no room for them.
    pub(crate) fn join(&mut self, filters: &[NamedFilter], joined: &[Joined]) -> Result<()> {
        let mut config = self.config.clone();
        // New flows come first: they take packets from the flows that had them so far.
        config.filters.splice(0..0, filters.iter().copied());
        config.joined.extend_from_slice(joined);
        for attached in [&mut self.attached, &mut self.next].into_iter().flatten() {
            let caught_up = attached.catch_up(&config);
            caught_up.map_err(|error| failed(&self.spot, "add flows", error))?;
        }
        // Only once all attachments have them: what is
        // reattached catches up with this configuration.
        self.config = config;
        Ok(())
    }

    pub(crate) fn is_marker(&self) -> bool {
        self.spot.marking != Marking::Off
    }

    /// Checks that its interface still exists.
    fn look(&mut self, interfaces: &dyn Interfaces) {
        if self.off {
            return;
        }
        for attached in [&mut self.attached, &mut self.next].into_iter().flatten() {
            let there = || !self.asks || attached.is_there(interfaces, &self.spot);
            let gone = attached.gone || !attached.measure.is_attached() || !there();
            attached.gone = gone;
        }
    }

    fn is_gone(&self) -> bool {
        self.attached.as_ref().is_some_and(|attached| attached.gone)
    }

    /// Detaches the program; its counts stay readable. A reattachment in progress is detached once it is
    /// done.
    pub(crate) fn detach(&mut self, interfaces: &dyn Interfaces) {
        // The reason for a failure does not matter any more.
        if let Some(Ok(Ok(attached))) = self.returning.as_ref().and_then(Background::forgo) {
            self.next = Some(attached);
        }
        // The last look: a detached program no longer tells whether its interface is there.
        self.look(interfaces);
        self.off = true;
        for attached in [&mut self.attached, &mut self.next].into_iter().flatten() {
            attached.measure.detach();
        }
    }

    /// The counts of a block, each flow in filter order.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub(crate) fn read(
        &mut self,
        interfaces: &dyn Interfaces,
        block: u64,
    ) -> Result<Vec<FlowBlock>> {
        // First: a block that begins after the interface came back is in the new program's banks.
        self.take_over(block);
        self.look(interfaces);
        let Some(attached) = &mut self.attached else { return Ok(self.unread(block)) };
        let failed = |error| failed(&self.spot, "read a block", error);
        let mut flows = attached.measure.read_bank(block).map_err(failed)?;
        for flow in &mut flows {
            flow.record.completeness.interface_gone = attached.gone;
        }
        Ok(flows)
    }

    /// Switches to the reattached source once `block` reaches the one in which it started.
    fn take_over(&mut self, block: u64) {
        let end = self.config.schedule.end(block);
        let Some(next) = self.next.take_if(|next| next.since < end) else { return };
        // Counts of the old program would be gone with it.
        if let Some(Ok(counts)) = self.attached.replace(next).map(|old| old.measure.counts()) {
            self.counted = sum(self.counted, counts);
        }
    }

    /// Result for a block that could not be read.
    pub(crate) fn unread(&self, block: u64) -> Vec<FlowBlock> {
        let schedule = &self.config.schedule;
        let mut record = Record::new(schedule, block, &[], 0, u64::MAX);
        record.completeness.overwritten = true;
        record.completeness.interface_gone = self.is_gone();
        let flow = |id| FlowBlock { id, record, sampled: None };
        flow_ids(&self.config.filters).into_iter().map(flow).collect()
    }

    /// Starts a thread to reattach the point if its interface disappeared; one at a time.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn return_to(&mut self, interfaces: &Arc<dyn Interfaces>) -> Result<()> {
        // One at a time: an interface that comes and goes must not fill the machine with threads.
        if !self.is_gone() || self.off || self.next.is_some() || self.returning.is_some() {
            return Ok(());
        }
        let interfaces = Arc::clone(interfaces);
        let (spot, config) = (self.spot.clone(), self.config.clone());
        self.returning = Some(Background::spawn(move || attach(&*interfaces, &spot, &config))?);
        Ok(())
    }

    /// Takes over a finished reattachment.
    ///
    /// # Errors
    /// Errors of the kernel. A missing interface is not an error.
    ///
    /// # Panics
    /// If `Interfaces` panicked in the thread.
    pub(crate) fn arrive(&mut self) -> Result<()> {
        let Some(outcome) = self.returning.as_ref().and_then(Background::take) else {
            return Ok(());
        };
        self.returning = None;
        match outcome.unwrap_or_else(|panic| resume_unwind(panic)) {
            // Tried again after the next block.
            Err(Error::NoInterface { .. }) => {}
            attached => {
                let mut attached = attached?;
                // Flows may have joined meanwhile.
                let caught_up = attached.catch_up(&self.config);
                caught_up.map_err(|error| failed(&self.spot, "add flows", error))?;
                self.next = Some(attached);
            }
        }
        Ok(())
    }

    /// Empties a full flow cache, whose entries may be stale.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub(crate) fn tidy(&mut self) -> Result<()> {
        let Some(patience) = patience(self.config.schedule.period(), self.config.cache) else {
            return Ok(());
        };
        let overflow = self.counts()?.overflow;
        if let Some(Attached { measure, .. }) = &self.attached
            && overflow - self.overflow > patience
        {
            let failed = |error| failed(&self.spot, "empty the cache of flows", error);
            measure.forget_flows().map_err(failed)?;
            self.overflow = overflow;
        }
        Ok(())
    }

    /// Releases all kernel objects except those of a reattachment in progress: these are released when the
    /// returned value is dropped, which may block.
    pub(crate) fn end(&mut self) -> Ending {
        if let Ok(counts) = self.counts() {
            self.counted = counts;
        }
        // Counts are kept: the kernel objects go.
        (self.attached, self.next, self.off) = (None, None, true);
        Ending(self.returning.take())
    }

    /// Counts of frames that are in no record.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub(crate) fn counts(&self) -> Result<Counts> {
        let mut all = self.counted;
        for attached in [&self.attached, &self.next].into_iter().flatten() {
            let failed = |error| failed(&self.spot, "read counts", error);
            all = sum(all, attached.measure.counts().map_err(failed)?);
        }
        Ok(all)
    }

    /// When a block is final there, on the session's clock.
    pub(crate) fn readable_at(&self, block: u64) -> u64 {
        let closed = self.config.schedule.closed(block);
        let attached = self.attached.as_ref();
        attached.map_or(closed, |attached| attached.measure.readable_at(block))
    }
}

impl Attached {
    /// Gives it the flows that it lacks.
    fn catch_up(&mut self, config: &Config) -> netloom_ebpf::Result<()> {
        if self.filters == config.filters.len() {
            return Ok(());
        }
        self.measure.set_flows(&config.filters, &config.joined, config.precedence)?;
        self.filters = config.filters.len();
        Ok(())
    }

    fn is_there(&self, interfaces: &dyn Interfaces, spot: &Spot) -> bool {
        let mut same = false;
        let mut compare = |index| {
            same = index == self.ifindex;
            Ok(())
        };
        interfaces.visit(&spot.netif, &mut compare).is_ok() && same
    }
}

fn attach(interfaces: &dyn Interfaces, spot: &Spot, config: &Config) -> Result<Attached> {
    let mut attached = None;
    let mut work = |ifindex| {
        let measure = Measure::attach(ifindex, spot.direction, config)
            .map_err(|error| refused(spot, error))?;
        // After the attachment: a block that began before was counted in part only.
        let since = config.clock.now();
        let filters = config.filters.len();
        attached = Some(Attached { measure, ifindex, since, gone: false, filters });
        Ok(())
    };
    interfaces.visit(&spot.netif, &mut work)?;
    attached.ok_or_else(|| Error::NoInterface { netif: spot.netif.clone() })
}

fn sum(a: Counts, b: Counts) -> Counts {
    Counts {
        other: a.other + b.other,
        unmatched: a.unmatched + b.unmatched,
        unmarked: a.unmarked + b.unmarked,
        outside: a.outside + b.outside,
        searched: a.searched + b.searched,
        overflow: a.overflow + b.overflow,
        unwritten: a.unwritten + b.unwritten,
        aside: a.aside + b.aside,
    }
}
