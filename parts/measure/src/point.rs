//! A point of a session: attached, read, lost with its interface and found again.
//!
//! A block is told by what is attached at its end. A point that is attached anew has counted since then
//! only, and the block in which it begins says so; what an earlier one had counted of that block is gone.
//! Attaching anew is done beside the reading of blocks; those that are read before it is done are told as
//! without the interface.

use std::panic::resume_unwind;
use std::sync::Arc;

use netloom_ebpf::measure::{Config, Counts, FlowBlock, Marking, Measure};
use netloom_ebpf::{Direction, Hook};
use netloom_marking::Record;
use netloom_marking::session::flow_ids;

use crate::limits::patience;
use crate::returning::Returning;
use crate::{Error, Interfaces, Result, Spot};

/// What counts, where it was attached.
#[derive(Debug)]
struct Attached {
    measure: Measure,
    /// The interface's index there.
    ifindex: u32,
    /// When it was there, on the session's clock.
    since: u64,
    /// The interface went.
    gone: bool,
}

/// A spot, and what counts there.
#[derive(Debug)]
pub(crate) struct Point {
    spot: Spot,
    config: Config,
    /// What blocks are read from.
    attached: Option<Attached>,
    /// What later blocks are, attached anew.
    next: Option<Attached>,
    /// Somebody attaches it anew.
    returning: Option<Returning<Result<Attached>>>,
    /// Without links nobody tells that an interface went.
    asks: bool,
    /// It was detached on purpose: nothing more can be seen of its interface.
    off: bool,
    /// Packets for which the cache had no room when it was emptied the last time.
    overflow: u64,
    /// Of those that were attached before.
    counted: Counts,
}

/// What a point leaves to be waited for when it ends.
#[must_use = "dropped, it waits"]
pub(crate) struct Ending(#[expect(dead_code, reason = "held")] Option<Returning<Result<Attached>>>);

/// The word for a direction.
pub(crate) fn word(direction: Direction) -> &'static str {
    match direction {
        Direction::Ingress => "ingress",
        Direction::Egress => "egress",
    }
}

fn failed(spot: &Spot, operation: &'static str, error: netloom_ebpf::Error) -> Error {
    match error {
        netloom_ebpf::Error::Unsupported(missing) => Error::Unsupported(missing),
        source => {
            let direction = word(spot.direction);
            Error::Point { netif: spot.netif.clone(), direction, operation, source }
        }
    }
}

impl Point {
    /// Attaches a point. `config` is that of the session, but for whether packets are marked.
    ///
    /// # Errors
    /// What the kernel refuses; [`Error::NoInterface`].
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
            asks: Hook::probe() == Hook::Clsact,
            off: false,
            overflow: 0,
            counted: Counts::default(),
        })
    }

    pub(crate) fn is_marker(&self) -> bool {
        self.spot.marking != Marking::Off
    }

    /// Looks whether its interface is still there.
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

    /// The program goes, and what it counted stays to be read. One that is just being attached goes as
    /// soon as it is there.
    pub(crate) fn detach(&mut self, interfaces: &dyn Interfaces) {
        // Why there is none is of no use any more.
        if let Some(Ok(Ok(attached))) = self.returning.as_ref().and_then(Returning::forgo) {
            self.next = Some(attached);
        }
        self.look(interfaces);
        self.off = true;
        for attached in [&mut self.attached, &mut self.next].into_iter().flatten() {
            attached.measure.detach();
        }
    }

    /// What was counted of a block, each flow in the order of the filters.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub(crate) fn read(
        &mut self,
        interfaces: &dyn Interfaces,
        block: u64,
    ) -> Result<Vec<FlowBlock>> {
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

    /// Blocks from the one on in which the next one began are read from that.
    fn take_over(&mut self, block: u64) {
        let end = self.config.schedule.end(block);
        let Some(next) = self.next.take_if(|next| next.since < end) else { return };
        if let Some(Ok(counts)) = self.attached.replace(next).map(|old| old.measure.counts()) {
            self.counted = sum(self.counted, counts);
        }
    }

    /// A block that could not be read.
    pub(crate) fn unread(&self, block: u64) -> Vec<FlowBlock> {
        let schedule = &self.config.schedule;
        let mut record = Record::new(schedule, block, &[], 0, u64::MAX);
        record.completeness.overwritten = true;
        record.completeness.interface_gone = self.is_gone();
        let flow = |id| FlowBlock { id, record, sampled: None };
        flow_ids(&self.config.filters).into_iter().map(flow).collect()
    }

    /// Lets a thread attach it anew if its interface went; one at a time.
    ///
    /// # Errors
    /// There can be no thread.
    pub(crate) fn return_to(&mut self, interfaces: &Arc<dyn Interfaces>) -> Result<()> {
        if !self.is_gone() || self.off || self.next.is_some() || self.returning.is_some() {
            return Ok(());
        }
        let interfaces = Arc::clone(interfaces);
        let (spot, config) = (self.spot.clone(), self.config.clone());
        self.returning = Some(Returning::spawn(move || attach(&*interfaces, &spot, &config))?);
        Ok(())
    }

    /// Takes what was attached anew meanwhile, if it is there.
    ///
    /// # Errors
    /// What the kernel refused. That there is no interface of this name is no error.
    ///
    /// # Panics
    /// As the interfaces did.
    pub(crate) fn arrive(&mut self) -> Result<()> {
        let Some(outcome) = self.returning.as_ref().and_then(Returning::take) else {
            return Ok(());
        };
        self.returning = None;
        match outcome.unwrap_or_else(|panic| resume_unwind(panic)) {
            Err(Error::NoInterface { .. }) => {}
            attached => self.next = Some(attached?),
        }
        Ok(())
    }

    /// Empties the cache of flows if it is full: those that are in it may be old.
    ///
    /// # Errors
    /// What the kernel refuses.
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

    /// Lets go of all that is the kernel's, but for what is just being attached: that has gone when what
    /// this gives was dropped, which may wait for it.
    pub(crate) fn end(&mut self) -> Ending {
        if let Ok(counts) = self.counts() {
            self.counted = counts;
        }
        (self.attached, self.next, self.off) = (None, None, true);
        Ending(self.returning.take())
    }

    /// What became of frames that are in no record.
    ///
    /// # Errors
    /// What the kernel refuses.
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
            .map_err(|error| failed(spot, "attach a point", error))?;
        let since = config.clock.now();
        attached = Some(Attached { measure, ifindex, since, gone: false });
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
