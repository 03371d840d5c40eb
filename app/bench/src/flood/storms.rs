//! The field in which floods hurt: a victim that answers whatever is sent to its service, a client that asks at
//! a steady pace, and eight flooders on one switch. Each kind of protection has its own lab.

use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::capture::pair::milliseconds;
use crate::capture::program::on;
use crate::driver::Driver;
use crate::facts::{Facts, Interface};
use crate::running::{Running, number};
use crate::ticks::Ticks;

/// The most flooders.
pub(super) const MOST: usize = 8;
/// The service's port.
const PORT: &str = "7000";
/// Microseconds of CPU time that the service works on a request.
const WORK: &str = "10";
/// Requests a second: less than the share that each of ten senders has of the budget.
const ASKED: &str = "200";
/// A program that runs longer was forgotten.
const LONGEST: &str = "60";
/// Until every flooder sends, which wait for each other for the two cores.
const SETTLE: Duration = Duration::from_millis(500);
/// The victim's core, shared with every second flooder, and the client's, shared with the others.
const CORES: [&str; 2] = ["0", "1"];
/// What a request that got no answer is counted as.
const LOST_US: f64 = 300_000.0;

/// The victim's protection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Guard {
    /// None.
    Plain,
    /// A budget that the victim's share of a CPU can answer.
    Fit,
    /// One that follows what it keeps up with.
    Auto,
}

/// A kind of flood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Minimum frames to the service, made in the kernel.
    Kernel,
    /// The same, and others, by packet sockets: words of `peer storm`.
    Storm(&'static str),
}

/// The observation of a window.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    /// Share of requests that were answered.
    pub(super) answered: f64,
    /// 99th percentile of the time of an answer, in microseconds.
    pub(super) p99: f64,
    /// Frames per second that all flooders offered.
    pub(super) offered: f64,
    /// CPUs that the whole system used.
    pub(super) busy: f64,
}

impl Guard {
    pub(super) const ALL: [Guard; 3] = [Guard::Plain, Guard::Fit, Guard::Auto];

    pub(super) fn title(self) -> &'static str {
        match self {
            Guard::Plain => "unprotected",
            Guard::Fit => "protect: {packets: 5k/s}",
            Guard::Auto => "protect: auto",
        }
    }

    fn settings(self) -> &'static str {
        match self {
            Guard::Plain => "",
            guarded => guarded.title(),
        }
    }

    fn lab(self) -> &'static str {
        match self {
            Guard::Plain => "bench-storm-plain",
            Guard::Fit => "bench-storm-fit",
            Guard::Auto => "bench-storm-auto",
        }
    }
}

/// A lab with its addresses.
struct Ground {
    guard: Guard,
    victim: Interface,
    victim6: String,
    flooders: Vec<Interface>,
}

/// The running labs.
pub(super) struct Storms<'a> {
    driver: &'a Driver,
    grounds: Vec<Ground>,
    window: Duration,
}

impl<'a> Storms<'a> {
    /// Brings the labs up. `window` is the time in which the client asks.
    pub(super) fn up(driver: &'a Driver, window: Duration) -> Result<Storms<'a>> {
        let up = |guard: Guard| {
            let lab = guard.lab();
            driver.up(&driver.lab_file(lab, &lab_file(guard))?)?;
            let facts = Facts::of(driver, lab)?;
            let flooders = (0..MOST).map(|n| facts.interface(&flooder(n), &flooder(n)));
            Ok(Ground {
                guard,
                victim: facts.interface("victim", "victim")?,
                victim6: facts.address6("victim", "victim")?,
                flooders: flooders.collect::<Result<_>>()?,
            })
        };
        let grounds = Guard::ALL.into_iter().map(up).collect::<Result<_>>()?;
        Ok(Storms { driver, grounds, window })
    }

    pub(super) fn down(self) -> Result<()> {
        self.grounds.iter().try_for_each(|g| self.driver.down(g.guard.lab()).map(|_| ()))
    }

    /// Measures once: the client asks while this many flooders send.
    pub(super) fn measure(&self, guard: Guard, flood: Option<(Kind, usize)>) -> Result<Seen> {
        let ground = self.grounds.iter().find(|g| g.guard == guard).context("its lab is not up")?;
        let lab = guard.lab();
        let service = ["on", CORES[0], "service", PORT, WORK, LONGEST];
        let service = self.driver.peer(lab, "victim", &service)?.ready()?;
        let floods = match flood {
            None => vec![],
            Some((kind, count)) => {
                (0..count).map(|n| self.flood(ground, kind, n)).collect::<Result<Vec<Running>>>()?
            }
        };
        sleep(if floods.is_empty() { Duration::ZERO } else { SETTLE });
        let before = Ticks::now()?;
        let to = format!("{}:{PORT}", ground.victim.address);
        let window = self.window.as_secs_f64().to_string();
        let client = ["on", CORES[1], "echo-client", &to, ASKED, &window];
        let got = self.driver.peer(lab, "peer", &client)?.result()?;
        let busy = Ticks::now()?.busy_since(before);
        let kernel = matches!(flood, Some((Kind::Kernel, _)));
        let mut offered = 0.0;
        for flood in floods {
            offered += if kernel {
                number(&flood.result()?, "packets_per_second")?
            } else {
                number(&flood.end()?, "offered_per_s")?
            };
        }
        service.end()?;
        let (sent, received) = (number(&got, "sent")?, number(&got, "received")?);
        let p99 = got["p99_us"].as_f64().unwrap_or(LOST_US);
        Ok(Seen { answered: received / sent.max(1.0), p99, offered, busy })
    }

    fn flood(&self, ground: &Ground, kind: Kind, number: usize) -> Result<Running> {
        let (lab, core, node) = (ground.guard.lab(), CORES[number % 2], flooder(number));
        let own = ground.flooders.get(number).context("there is no such flooder")?;
        let to = &ground.victim;
        match kind {
            Kind::Kernel => {
                let [program, arguments @ ..] = on(core);
                let mut command = Command::new(program);
                command.args(arguments).arg(self.driver.exe());
                command.env("NETLOOM_RUNTIME_DIR", self.driver.runtime());
                command.args(["-l", lab, "generate", &format!("{node}:{}", own.name)]);
                command.args(["--to", "victim", "--port", PORT, "--engine", "live-frames"]);
                let time = SETTLE + self.window + SETTLE;
                command.args(["--json", "--duration", &milliseconds(time.as_secs_f64())]);
                Running::start(&mut command, &format!("{lab}: generate by {node}"))
            }
            Kind::Storm(kind) => {
                let words = ["on", core, "storm", &own.name, &to.mac, &own.address, &to.address];
                let rest = [ground.victim6.as_str(), PORT, kind, LONGEST];
                self.driver.peer(lab, &node, &[&words[..], &rest].concat())?.ready()
            }
        }
    }
}

fn flooder(number: usize) -> String {
    format!("f{}", number + 1)
}

fn lab_file(guard: Guard) -> String {
    let flooders: Vec<String> = (0..MOST).map(flooder).collect();
    let mut text = format!(
        "name: {}\nnodes:\n  victim: {{{}}}\n  peer: {{}}\n",
        guard.lab(),
        guard.settings()
    );
    flooders.iter().for_each(|name| text.push_str(&format!("  {name}: {{}}\n")));
    text.push_str("switches: {s: {}}\nlinks:\n");
    for node in ["victim", "peer"].into_iter().chain(flooders.iter().map(String::as_str)) {
        text.push_str(&format!("  - {{ends: [{node}, s], name: {node}}}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_is_on_the_switch() {
        let text = lab_file(Guard::Fit);
        assert_eq!(text.matches("ends: [").count(), MOST + 2);
        assert!(text.contains("victim: {protect: {packets: 5k/s}}"), "{text}");
    }
}
