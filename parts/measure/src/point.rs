//! A point of a session: attached, read, lost with its interface and found again.
//!
//! A block is told by what is attached at its end. A point that is attached anew has counted since then
//! only, and the block in which it begins says so; what an earlier one had counted of that block is gone.

use netloom_ebpf::measure::{Config, Counts, FlowBlock, Marking, Measure};
use netloom_ebpf::{Direction, Hook};
use netloom_marking::Record;

use crate::limits::patience;
use crate::{Error, Interfaces, Result, Spot};

/// A spot, and what counts there.
#[derive(Debug)]
pub(crate) struct Point {
    spot: Spot,
    config: Config,
    measure: Option<Measure>,
    /// Its index where it was attached.
    ifindex: u32,
    /// Without links nobody tells that an interface went.
    asks: bool,
    gone: bool,
    /// It was detached on purpose: nothing more can be seen of its interface.
    off: bool,
    /// Packets for which the cache had no room when it was emptied the last time.
    overflow: u64,
    /// Of those that were attached before.
    counted: Counts,
}

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
        let (measure, ifindex) = attach(interfaces, spot, &config)?;
        Ok(Point {
            spot: spot.clone(),
            config,
            measure: Some(measure),
            ifindex,
            asks: Hook::probe() == Hook::Clsact,
            gone: false,
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
        let known = self.off || self.gone;
        let Some(measure) = self.measure.as_ref().filter(|_| !known) else { return };
        self.gone = !measure.is_attached() || self.asks && !self.is_there(interfaces);
    }

    fn is_there(&self, interfaces: &dyn Interfaces) -> bool {
        let mut same = false;
        let mut compare = |index| {
            same = index == self.ifindex;
            Ok(())
        };
        interfaces.visit(&self.spot.netif, &mut compare).is_ok() && same
    }

    /// The program goes, and what it counted stays to be read.
    pub(crate) fn detach(&mut self, interfaces: &dyn Interfaces) {
        self.look(interfaces);
        self.off = true;
        if let Some(measure) = &mut self.measure {
            measure.detach();
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
        self.look(interfaces);
        let Some(measure) = &mut self.measure else { return Ok(self.unread(block)) };
        let mut flows =
            measure.read_bank(block).map_err(|error| failed(&self.spot, "read a block", error))?;
        for flow in &mut flows {
            flow.record.completeness.interface_gone = self.gone;
        }
        Ok(flows)
    }

    /// A block that could not be read.
    pub(crate) fn unread(&self, block: u64) -> Vec<FlowBlock> {
        let schedule = &self.config.schedule;
        let mut record = Record::new(schedule, block, &[], 0, u64::MAX);
        record.completeness.overwritten = true;
        record.completeness.interface_gone = self.gone;
        let flow = |id| FlowBlock { id, record, sampled: None };
        self.config.filters.iter().map(|named| flow(named.id)).collect()
    }

    /// Attaches it anew if its interface went and there is one of this name again.
    ///
    /// # Errors
    /// What the kernel refuses. That there is none is no error.
    pub(crate) fn return_to(&mut self, interfaces: &dyn Interfaces) -> Result<()> {
        if !self.gone || self.off {
            return Ok(());
        }
        let (measure, ifindex) = match attach(interfaces, &self.spot, &self.config) {
            Err(Error::NoInterface { .. }) => return Ok(()),
            attached => attached?,
        };
        self.keep_counts();
        (self.measure, self.ifindex, self.gone) = (Some(measure), ifindex, false);
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
        if let Some(measure) = &self.measure
            && overflow - self.overflow > patience
        {
            let failed = |error| failed(&self.spot, "empty the cache of flows", error);
            measure.forget_flows().map_err(failed)?;
            self.overflow = overflow;
        }
        Ok(())
    }

    /// Lets go of all that is the kernel's.
    pub(crate) fn end(&mut self) {
        self.keep_counts();
        self.measure = None;
    }

    fn keep_counts(&mut self) {
        if let Ok(counts) = self.counts() {
            self.counted = counts;
        }
    }

    /// What became of frames that are in no record.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub(crate) fn counts(&self) -> Result<Counts> {
        let Some(measure) = &self.measure else { return Ok(self.counted) };
        let counts = measure.counts().map_err(|error| failed(&self.spot, "read counts", error))?;
        Ok(sum(self.counted, counts))
    }

    /// When a block is final there, on the session's clock.
    pub(crate) fn readable_at(&self, block: u64) -> u64 {
        let closed = self.config.schedule.closed(block);
        self.measure.as_ref().map_or(closed, |measure| measure.readable_at(block))
    }
}

fn attach(interfaces: &dyn Interfaces, spot: &Spot, config: &Config) -> Result<(Measure, u32)> {
    let mut attached = None;
    let mut work = |ifindex| {
        let measure = Measure::attach(ifindex, spot.direction, config)
            .map_err(|error| failed(spot, "attach a point", error))?;
        attached = Some((measure, ifindex));
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
    }
}
