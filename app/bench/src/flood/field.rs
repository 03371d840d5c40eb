//! The labs of the flood experiment, and a single measurement.
//!
//! The victim, its peer and two flooders are on one switch. Each kind of victim has its own lab. All labs are
//! up at once and idle except the measured one, so that they can alternate.

use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use super::cells::{Cell, Measure, Others, Victim};
use crate::driver::Driver;
use crate::facts::{Facts, Interface};
use crate::running::{Running, number};

/// Port of sinks and servers.
const PORT: &str = "7000";
/// Bytes per second of the paced stream.
const PACE: &str = "125000000";
/// Datagrams per second that are echoed.
const ECHOES: &str = "10000";
/// Many times what a stream needs to reach its rate: a round trip is far below a millisecond.
const SETTLE: Duration = Duration::from_millis(100);
/// A server that runs longer than this was forgotten.
const MOST: &str = "60";
/// Names of the flooders.
const FLOODERS: [&str; 2] = ["f1", "f2"];
/// The core of each node: a scheduler's placement would affect results more than the effect measured. The
/// victim shares its core with the first flooder, its peer with the second.
const VICTIM: &str = "0";
const PEER: &str = "1";
const FLOODERS_ON: [&str; 2] = ["0", "1"];

/// The running labs, with their addresses.
pub(super) struct Field<'a> {
    driver: &'a Driver,
    victims: Vec<(Victim, Interface, Vec<Interface>)>,
    skip: Duration,
    window: Duration,
}

/// Result of a measurement.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Measured {
    /// Gb/s, microseconds, or percent of a core.
    pub(super) figure: f64,
    /// Frames per second that all flooders gave to their sockets.
    pub(super) offered: f64,
    /// Median echo time in microseconds, and the share of lost echoes.
    pub(super) median: f64,
    pub(super) lost: f64,
}

impl<'a> Field<'a> {
    /// Brings the labs up. `window` is the counted time of a measurement.
    pub(super) fn up(driver: &'a Driver, window: Duration) -> Result<Field<'a>> {
        let mut field = Field { driver, victims: vec![], skip: SETTLE, window };
        for victim in Victim::ALL {
            let lab = victim.lab();
            driver.up(&driver.lab_file(lab, &lab_file(victim))?)?;
            let facts = Facts::of(driver, lab)?;
            let own = facts.interface("victim", "victim")?;
            let flooders = FLOODERS.map(|name| facts.interface(name, name));
            let flooders = flooders.into_iter().collect::<Result<Vec<_>>>()?;
            field.victims.push((victim, own, flooders));
        }
        Ok(field)
    }

    /// Takes them down.
    pub(super) fn down(self) -> Result<()> {
        self.victims.iter().try_for_each(|(victim, ..)| self.driver.down(victim.lab()).map(|_| ()))
    }

    /// Measures once.
    pub(super) fn measure(&self, cell: Cell) -> Result<Measured> {
        // The flood targets a service of the victim.
        let service = self.driver.peer(cell.victim.lab(), "victim", &["hold", MOST])?.ready()?;
        let busy = self.neighbours(cell)?;
        let measured = match cell.measure {
            Measure::Unpaced => self.stream(cell.victim, "0"),
            Measure::Paced => self.stream(cell.victim, PACE),
            Measure::Echo => self.echo(cell.victim),
            Measure::ReceiveCpu => self.receive_cpu(cell.victim),
        };
        let ended: Vec<Value> = busy.into_iter().map(Running::end).collect::<Result<_>>()?;
        service.end()?;
        let offered = ended.iter().filter_map(|printed| printed["offered_per_s"].as_f64()).sum();
        Ok(Measured { offered, ..measured? })
    }

    fn neighbours(&self, cell: Cell) -> Result<Vec<Running>> {
        let lab = cell.victim.lab();
        let started: Vec<Running> = match cell.others {
            Others::Idle => vec![],
            Others::Spin(n) => {
                let spin = |(name, core): (&&str, &&str)| {
                    self.driver.peer(lab, name, &["on", core, "spin", MOST])
                };
                FLOODERS.iter().zip(&FLOODERS_ON).take(n).map(spin).collect::<Result<_>>()?
            }
            Others::Flood(n, way) => {
                let (_, victim, flooders) = self.place(cell.victim)?;
                let flood = |((name, core), own): ((&&str, &&str), &Interface)| {
                    let (from, to) = (own.address.as_str(), victim.address.as_str());
                    let frames = ["frames", &own.name, &victim.mac, from, to, way.word(), MOST];
                    self.driver.peer(lab, name, &[&["on", core], &frames[..]].concat())
                };
                let places = FLOODERS.iter().zip(&FLOODERS_ON).zip(flooders);
                places.take(n).map(flood).collect::<Result<_>>()?
            }
        };
        started.into_iter().map(Running::ready).collect()
    }

    /// Goodput of TCP in Gb/s.
    fn stream(&self, victim: Victim, rate: &str) -> Result<Measured> {
        let (lab, to) = (victim.lab(), self.address(victim)?);
        let (skip, window) = (seconds(self.skip), seconds(self.window));
        let sink =
            self.driver.peer(lab, "victim", &["on", VICTIM, "tcp-sink", PORT, &skip, &window]);
        let sink = sink?.ready()?;
        let source = ["on", PEER, "tcp-source", &to, rate, MOST];
        let source = self.driver.peer(lab, "peer", &source)?;
        let got = sink.result()?;
        source.result()?;
        let bytes = number(&got, "bytes_per_s")?;
        Ok(Measured { figure: bytes * 8e-9, ..Measured::default() })
    }

    /// 99th percentile of echo times, in microseconds.
    fn echo(&self, victim: Victim) -> Result<Measured> {
        let (lab, to) = (victim.lab(), self.address(victim)?);
        let server = ["on", VICTIM, "echo-server", PORT, MOST];
        let server = self.driver.peer(lab, "victim", &server)?.ready()?;
        let window = seconds(self.window);
        let client = ["on", PEER, "echo-client", &to, ECHOES, &window];
        let client = self.driver.peer(lab, "peer", &client)?;
        let seen = client.result()?;
        server.end()?;
        let (sent, received) = (number(&seen, "sent")?, number(&seen, "received")?);
        Ok(Measured {
            figure: number(&seen, "p99_us")?,
            median: number(&seen, "p50_us")?,
            lost: 1.0 - received / sent,
            offered: 0.0,
        })
    }

    /// Percent of a core.
    fn receive_cpu(&self, victim: Victim) -> Result<Measured> {
        sleep(self.skip);
        let before = Facts::of(self.driver, victim.lab())?;
        sleep(self.window);
        let after = Facts::of(self.driver, victim.lab())?;
        let spent = |facts: &Facts| {
            let receive = facts.counter("victim", "cpu_receive_ns")?;
            receive.context("the victim's receive work is not charged to it on this machine")
        };
        let wall = after.read_ns()?.saturating_sub(before.read_ns()?);
        let spent = spent(&after)?.saturating_sub(spent(&before)?);
        #[expect(clippy::cast_precision_loss, reason = "seconds in ns are below 2^53")]
        let figure = 100.0 * spent as f64 / wall.max(1) as f64;
        Ok(Measured { figure, ..Measured::default() })
    }

    fn place(&self, victim: Victim) -> Result<&(Victim, Interface, Vec<Interface>)> {
        let found = self.victims.iter().find(|(kind, ..)| *kind == victim);
        found.context("its lab is not up")
    }

    fn address(&self, victim: Victim) -> Result<String> {
        Ok(format!("{}:{PORT}", self.place(victim)?.1.address))
    }
}

fn lab_file(victim: Victim) -> String {
    let mut text = format!(
        "name: {}\nnodes:\n  victim: {{{}}}\n  peer: {{}}\n  f1: {{}}\n  f2: {{}}\nswitches: \
         {{s: {{}}}}\nlinks:\n",
        victim.lab(),
        victim.settings()
    );
    for node in ["victim", "peer"].into_iter().chain(FLOODERS) {
        text.push_str(&format!("  - {{ends: [{node}, s], name: {node}}}\n"));
    }
    text
}

fn seconds(time: Duration) -> String {
    time.as_secs_f64().to_string()
}
