//! The rate that points leave to a path: datagrams per second between sockets over a link, with a marking
//! program at egress and the same program at ingress.
//!
//! All work up to the receiving socket, including both points, runs on the sender's core, so the rate is that
//! core's. With one sender, the reader has the other core; with two, each core has a sender and a reader.
//! Nothing is lost: the number in flight never exceeds the room (`peer::pour`), and the points' counts are
//! compared with the frames sent and read.

use std::fmt;

use anyhow::{Context, Result};
use serde_json::Value;

use super::asked::{ALL, DUMMY, FIXED, Kind, to_port};
use crate::capture::pair::{Pair, cores};
use crate::running::{Running, number};

/// Frame sizes as RFC 2544 counts them, from the source's figures.
pub(super) const SIZES: [u16; 5] = [64, 250, 500, 1000, 1500];
/// Overhead of a datagram: Ethernet with its check sequence, IPv4, UDP.
const HEADERS: u16 = 14 + 4 + 20 + 8;
/// Port of the first flow.
const PORT: u16 = 7000;
/// Maximum datagrams in flight: below the kernel's per-core backlog.
const WINDOW: &str = "512";
/// Seconds until rates are steady, and seconds counted.
const SKIP: &str = "0.15";
const TIME: &str = "0.6";
/// A server that runs longer than this was forgotten.
const MOST: &str = "60";
/// Seconds per block.
const PERIOD: f64 = 0.2;

/// The programs at the link's ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Ends {
    Nothing,
    Points(Kind),
}

/// A cell of the experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Path {
    pub(super) cores: u8,
    pub(super) size: u16,
    pub(super) ends: Ends,
}

/// Result of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rate {
    /// Datagrams read per second.
    pub(super) per_s: f64,
    /// Datagrams lost.
    pub(super) lost: f64,
    /// Difference in packets between points and sockets.
    pub(super) astray: f64,
    /// Share of time that senders waited for readers.
    pub(super) waited: f64,
}

pub(super) fn path(cores: u8, size: u16, kind: Kind) -> Path {
    Path { cores, size, ends: Ends::Points(kind) }
}

/// Cells that feed ratios.
pub(super) fn quick() -> Vec<Path> {
    [DUMMY, ALL, FIXED].map(|kind| path(1, SIZES[0], kind)).to_vec()
}

/// Cells that are only shown as rows.
pub(super) fn rest() -> Vec<Path> {
    let mut all = vec![];
    for cores in [1, 2] {
        for size in SIZES {
            all.push(Path { cores, size, ends: Ends::Nothing });
            all.extend(Kind::five().map(|kind| path(cores, size, kind)));
        }
    }
    let quick = quick();
    all.retain(|path| !quick.contains(path));
    all
}

impl Path {
    /// Bits of a frame in the source's definition of throughput.
    pub(super) fn bits(self) -> f64 {
        f64::from(self.size) * 8.0
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cores = if self.cores == 1 { "1 core" } else { "2 cores" };
        write!(f, "{} bytes, {cores}, ", self.size)?;
        match self.ends {
            Ends::Nothing => f.write_str("no points"),
            Ends::Points(kind) => kind.fmt(f),
        }
    }
}

/// Starts points at the ends of a link, the marking one last. `twice` if the program supports double marking.
pub(super) fn points(
    pair: &Pair<'_>,
    link: usize,
    kind: Kind,
    period: f64,
    ports: &[u16],
    samples: bool,
) -> Result<[Running; 2]> {
    let file = pair.driver().folder().join("measure.json");
    let body = kind.body(period, ports.iter().copied().map(to_port).collect());
    std::fs::write(&file, serde_json::to_vec(&body)?)
        .with_context(|| format!("write {}", file.display()))?;
    let samples = if samples { "samples" } else { "count" };
    let start = |node, interface: &str, place| {
        let mut command = pair.program(node, cores()[1], pair.driver().own_text()?)?;
        command.args(["peer", "measure-point", interface, place, samples]);
        command.arg(&file).arg(MOST);
        Running::start(&mut command, &format!("{kind} at {node}"))?.ready()
    };
    let arriving = start("b", pair.receiver(link)?, "in")?;
    let place = if kind.marks_twice() { "mark-twice" } else { "mark" };
    Ok([start("a", pair.sender(link)?.0, place)?, arriving])
}

/// Measures once.
pub(super) fn measure(pair: &Pair<'_>, path: Path) -> Result<Rate> {
    let flows: Vec<u16> = (PORT..).take(path.cores.into()).collect();
    let points = match path.ends {
        Ends::Nothing => vec![],
        Ends::Points(kind) => points(pair, 0, kind, PERIOD, &flows, false)?.into(),
    };
    let [first, second] = cores();
    let (driver, lab) = (pair.driver(), pair.lab());
    // A single sender has a core of its own; two senders each share a core with a reader.
    let readers = if flows.len() == 1 { [second, first] } else { [first, second] };
    let drain = |(port, core): (&u16, &&str)| {
        let words = ["on", core, "udp-drain", &port.to_string(), MOST];
        driver.peer(lab, "b", &words)?.ready()
    };
    let drains = flows.iter().zip(&readers).map(drain).collect::<Result<Vec<_>>>()?;
    let bytes = path.size.saturating_sub(HEADERS).to_string();
    let pour = |(port, core): (&u16, &&str)| {
        let to = format!("{}:{port}", pair.address(0)?);
        driver.peer(lab, "a", &["on", core, "udp-pour", &to, &bytes, WINDOW, SKIP, TIME])
    };
    let pours = flows.iter().zip(&[first, second]).map(pour).collect::<Result<Vec<_>>>()?;
    let poured = pours.into_iter().map(Running::result).collect::<Result<Vec<_>>>()?;
    for drain in drains {
        drain.end()?;
    }
    // Everything read has been counted.
    let counted = points.into_iter().map(Running::end).collect::<Result<Vec<_>>>()?;
    account(path, &poured, &counted)
}

/// Combines the results of senders and points.
fn account(path: Path, poured: &[Value], counted: &[Value]) -> Result<Rate> {
    let sum = |name| poured.iter().map(|one| number(one, name)).sum::<Result<f64>>();
    #[expect(clippy::cast_precision_loss, reason = "two at most")]
    let waited = sum("waited")? / poured.len().max(1) as f64;
    let mut rate = Rate { per_s: sum("per_s")?, lost: sum("lost")?, astray: 0.0, waited };
    if path.ends != Ends::Nothing && path.ends != Ends::Points(DUMMY) {
        for (point, name) in counted.iter().zip(["sent", "received"]) {
            rate.astray += (number(point, "packets")? - sum(name)?).abs();
        }
    }
    Ok(rate)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn no_path_is_measured_twice() {
        let mut all = quick();
        all.extend(rest());
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!((all.len(), count), (60, 60));
        assert_eq!(all[0].to_string(), "64 bytes, 1 core, no points");
        assert_eq!(path(2, 1500, FIXED).to_string(), "1500 bytes, 2 cores, program 2, bob");
    }

    #[test]
    fn what_points_and_sockets_disagree_on_is_told() {
        let poured = |sent, lost| {
            let received = sent - lost;
            json!({"per_s": 1e5, "sent": sent, "received": received, "lost": lost, "waited": 0.25})
        };
        let counted = [json!({"packets": 300}), json!({"packets": 296})];
        let both = [poured(100, 0), poured(200, 3)];
        let rate = account(path(2, 64, ALL), &both, &counted).unwrap();
        assert_eq!(rate, Rate { per_s: 2e5, lost: 3.0, astray: 1.0, waited: 0.25 });
        assert_eq!(account(path(2, 64, DUMMY), &both, &counted).unwrap().astray, 0.0);
    }
}
