//! Keeps the state file equal to the tables, and begins with what it says.
//!
//! Changes are in the file at the end of the turn that made them, counters of entries every second while packets flow. Of
//! a switch that is killed, counters may therefore be a second old; so may be when an entry was used.

use std::time::Instant;

use netloom_openflow::PortNumber;
use netloom_pipeline::{Change, Place, Time};
use netloom_sys::describe;

use crate::Result;
use crate::control::PortSpec;
use crate::keeping::{PAUSE, Rewriting};
use crate::server::Server;
use crate::state::{Content, Count, Record, SavedPort};
use crate::system::clock;

/// Saves of counters take a hundredth of the time at most.
const SHARE: Time = 100;

/// Counters of entries in a record.
const COUNTS: usize = 4096;

/// Bytes of the file that are written at once.
const PIECE: usize = 64 << 10;

/// Where entries begin in a file that is rewritten.
const FIRST_RULE: Rewriting = Rewriting::Rules(Place::FIRST);

/// Appends a record. What cannot be said cannot have been asked for by a message either.
fn put(record: &Record, to: &mut Vec<u8>) {
    let _ = record.write(to);
}

impl Server {
    /// Begins with what an earlier process knew.
    pub(crate) fn take_over(&mut self) -> Result<()> {
        let content = self.keeping.journal.read()?;
        if let Some(content) = content {
            self.takeovers = content.processes;
            self.restore(content);
            self.restore_ports();
            self.engine.adopt(clock())?;
        }
        self.engine.quiesce_unknown()?;
        // Not before: what was restored is not a change.
        self.engine.switch.note_changes();
        // Written at once: a switch that cannot write must find out before it has ports.
        self.rewrite()
    }

    fn restore(&mut self, content: Content) {
        let now = clock();
        let switch = &mut self.engine.switch;
        // Without effect in another run of the machine, whose clock restarted.
        let past = |time: Time| time.min(now);
        for mut group in content.groups.into_values() {
            group.created = past(group.created);
            let number = group.change.group;
            // Less is better than no switch: the rest is restored, and status says what is not.
            if let Err(reason) = switch.restore_group(group) {
                self.trouble = Some(format!("group {number} is lost: {}", reason.name()));
            }
        }
        for mut meter in content.meters.into_values() {
            meter.created = past(meter.created);
            switch.restore_meter(meter, now);
        }
        for mut rule in content.rules.into_values() {
            (rule.created, rule.used) = (past(rule.created), past(rule.used));
            if let Err(reason) = switch.restore_rule(rule) {
                self.trouble = Some(format!("a flow entry is lost: {}", reason.name()));
            }
        }
        if let Some(settings) = content.settings {
            switch.restore_settings(settings);
        }
        self.keeping.ports = content.ports;
    }

    /// Adds the ports of an earlier process whose interfaces are still there; others wait to be added.
    fn restore_ports(&mut self) {
        self.keeping.restoring = true;
        for port in self.keeping.ports.clone().into_values() {
            let SavedPort { number, name, interface, mac, .. } = port;
            let _ = self.add_port(PortSpec { number, name, interface, mac });
        }
        self.keeping.restoring = false;
    }

    /// A port has been added: what an earlier process knew of it.
    pub(crate) fn restore_port(&mut self, number: u32) {
        if let Some(port) = self.keeping.ports.remove(&number) {
            let created = port.created.min(clock());
            let (config, stats) = (port.config, port.stats());
            self.engine.switch.restore_port(PortNumber(number), config, stats, created);
        }
        if let Some(port) = self.port_record(PortNumber(number)) {
            let _ = Record::Port(port).write(&mut self.keeping.buffer);
        }
    }

    /// A port was removed for good.
    pub(crate) fn unkeep_port(&mut self, number: u32) {
        self.keeping.ports.remove(&number);
        let _ = Record::PortGone(number).write(&mut self.keeping.buffer);
    }

    /// Saves what the turn has changed.
    pub(crate) fn save(&mut self) {
        for change in self.engine.switch.take_changes() {
            let Some(record) = self.record(change) else { continue };
            let before = self.keeping.buffer.len();
            if let Err(reason) = record.write(&mut self.keeping.buffer) {
                self.trouble = Some(format!("state file: {change:?} is not in it: {reason}"));
            }
            if let Record::Rule(_) = record {
                let bytes = self.keeping.buffer.len() - before;
                self.keeping.entries.0 += 1;
                self.keeping.entries.1 += u64::try_from(bytes).unwrap_or_default();
            }
        }
        let done = self.append().and_then(|()| self.rewrite_some());
        self.note_trouble(done);
    }

    /// Appends what is to be saved. A file that cannot be appended to is rewritten before anybody is answered.
    fn append(&mut self) -> Result<()> {
        if self.keeping.buffer.is_empty() {
            return Ok(());
        }
        let mut bytes = std::mem::take(&mut self.keeping.buffer);
        let appended = self.keeping.journal.append(&bytes);
        // A long burst's buffer would stay as large for ever.
        bytes.clear();
        bytes.shrink_to(PIECE);
        self.keeping.buffer = bytes;
        if appended.is_err() {
            return self.rewrite_again(appended);
        }
        let needed = self.keeping.needed(self.engine.switch.entries());
        if !self.keeping.is_rewriting() && self.keeping.journal.is_long(needed) {
            self.begin_rewriting()?;
        }
        Ok(())
    }

    /// Rewrites a file that could not be appended to. If that fails, too, it is not tried again for a while, and the trouble
    /// is told.
    fn rewrite_again(&mut self, appended: Result<()>) -> Result<()> {
        let now = clock();
        if !self.keeping.retry.is_due(now) {
            return appended;
        }
        let written = self.rewrite();
        if written.is_err() {
            self.keeping.rewriting = None;
            self.keeping.retry.failed(now);
        }
        written
    }

    fn note_trouble(&mut self, done: Result<()>) {
        // The switch serves on without the file, and status says why.
        if let Err(e) = done {
            self.trouble = Some(describe(&e));
        }
    }

    /// The record of a change; `None` if a later one replaces it.
    fn record(&self, change: Change) -> Option<Record> {
        let switch = &self.engine.switch;
        Some(match change {
            Change::Rule(id) => Record::Rule(Box::new(switch.rule(id)?.saved())),
            Change::RuleGone(number) => Record::RuleGone(number),
            Change::Group(number) => match switch.group_saved(number) {
                // A group that is changed and then deleted in one turn is deleted.
                Some(group) => Record::Group(Box::new(group)),
                None => Record::GroupGone(number),
            },
            Change::Meter(number) => match switch.meter_saved(number) {
                Some(meter) => Record::Meter(Box::new(meter)),
                None => Record::MeterGone(number),
            },
            Change::Port(number) => Record::Port(self.port_record(number)?),
            Change::Settings => Record::Settings(Box::new(switch.settings())),
        })
    }

    fn port_record(&self, number: PortNumber) -> Option<SavedPort> {
        let switch = &self.engine.switch;
        let (stats, created) = switch.port_counters(number)?;
        let config = switch.ports().find(|port| port.number == number)?.config;
        let PortSpec { name, interface, mac, .. } = self.ports.known.get(&number.0)?.spec.clone();
        let counters = [stats.rx_packets, stats.tx_packets, stats.rx_bytes, stats.tx_bytes];
        Some(SavedPort { number: number.0, name, interface, mac, config, created, counters })
    }

    /// Rewrites the file.
    fn rewrite(&mut self) -> Result<()> {
        self.begin_rewriting()?;
        while self.keeping.is_rewriting() {
            self.rewrite_some()?;
        }
        Ok(())
    }

    /// Begins to rewrite the file, with what is said first.
    fn begin_rewriting(&mut self) -> Result<()> {
        let begin =
            Record::Begin { datapath: self.application.datapath, processes: self.takeovers + 1 };
        let switch = &self.engine.switch;
        let ports = switch.ports().filter_map(|port| self.port_record(port.number));
        // Ports of before that were not added again are kept: their interfaces may come back.
        let ports = ports.chain(self.keeping.ports.values().cloned()).map(Record::Port);
        let settings = Record::Settings(Box::new(switch.settings()));
        let mut bytes = vec![];
        for record in [begin, settings].into_iter().chain(ports) {
            put(&record, &mut bytes);
        }
        // Not resumed after an error: what it wrote is no longer whole.
        self.keeping.rewriting = None;
        self.keeping.journal.begin()?;
        self.keeping.journal.more(&bytes)?;
        self.keeping.rewriting = Some(Rewriting::Groups(0));
        Ok(())
    }

    /// Continues rewriting the file, if it is being written.
    fn rewrite_some(&mut self) -> Result<()> {
        // An error ends it; the old file goes on, and grows until it is tried again.
        let Some(mut next) = self.keeping.rewriting.take() else { return Ok(()) };
        let switch = &self.engine.switch;
        let mut bytes = vec![];
        let mut is_done = false;
        // A piece a turn: a large table does not hold up frames.
        while bytes.len() < PIECE && !is_done {
            next = match next {
                Rewriting::Groups(from) => match switch.groups_from(from).next() {
                    Some(group) => {
                        let number = group.change.group;
                        put(&Record::Group(Box::new(group)), &mut bytes);
                        Rewriting::Groups(number + 1)
                    }
                    None => Rewriting::Meters(0),
                },
                Rewriting::Meters(from) => match switch.meters_from(from).next() {
                    Some(meter) => {
                        let number = meter.change.meter;
                        put(&Record::Meter(Box::new(meter)), &mut bytes);
                        // The last numbers are those of meters of the switch itself.
                        number.checked_add(1).map_or(FIRST_RULE, Rewriting::Meters)
                    }
                    None => FIRST_RULE,
                },
                Rewriting::Rules(mut place) => {
                    match switch.next_rule(&mut place) {
                        Some(rule) => put(&Record::Rule(Box::new(rule.saved())), &mut bytes),
                        None => is_done = true,
                    }
                    Rewriting::Rules(place)
                }
            };
        }
        self.keeping.journal.more(&bytes)?;
        if is_done {
            return self.keeping.journal.finish();
        }
        self.keeping.rewriting = Some(next);
        Ok(())
    }

    /// Saves counters, if it is time.
    pub(crate) fn save_counters(&mut self, now: Time) -> Result<()> {
        if self.keeping.due.is_none_or(|due| due > now) {
            return Ok(());
        }
        // Time spent, not only a period: large tables take longer, and traffic comes first.
        let start = Instant::now();
        self.engine.collect()?;
        self.write_counters(now);
        let took = Time::try_from(start.elapsed().as_nanos()).unwrap_or(Time::MAX);
        self.keeping.not_before = clock().saturating_add(PAUSE.max(took.saturating_mul(SHARE)));
        Ok(())
    }

    /// Puts counters that have changed into the file.
    pub(crate) fn write_counters(&mut self, now: Time) {
        let switch = &self.engine.switch;
        let since = self.keeping.saved;
        let used = switch.rules().filter(|rule| rule.used >= since && rule.packets > 0);
        let counts: Vec<Count> = used
            .map(|rule| {
                let (number, used) = (rule.id.number, rule.used);
                Count { number, packets: rule.packets, bytes: rule.bytes, used }
            })
            .collect();
        let ports: Vec<PortNumber> = switch.ports().map(|port| port.number).collect();
        let records = counts.chunks(COUNTS).map(|counts| Record::Counts(counts.to_vec()));
        let records = records
            .chain(
                ports.into_iter().filter_map(|number| self.port_record(number)).map(Record::Port),
            )
            .chain(switch.groups_used().map(|group| Record::Group(Box::new(group))))
            .chain(switch.meters_used().map(|meter| Record::Meter(Box::new(meter))));
        let mut bytes = vec![];
        for record in records {
            // Each was written before, so each can be.
            let _ = record.write(&mut bytes);
        }
        self.keeping.buffer.extend(bytes);
        // Only now: the plane's notes must not be ahead of the file.
        self.engine.plane.saved();
        (self.keeping.due, self.keeping.saved) = (None, now);
    }
}
