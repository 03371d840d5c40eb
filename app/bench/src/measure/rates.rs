//! What points leave of a path: datagrams a second from sockets through a link into sockets, with a program
//! where packets leave, which marks, and the same where they arrive.
//!
//! Everything up to the receiving socket is done on the sender's core, both points among it; so its rate is what
//! that core does. Who reads has the other core in runs of one sender; with two, each core has one of either.
//! Nothing is lost: no more is on the way than there is room for (`peer::pour`), and what the points count
//! is compared with what was sent and read.

use std::fmt;

use anyhow::{Context, Result};
use serde_json::Value;

use super::asked::{ALL, DUMMY, FIXED, Kind, to_port};
use crate::capture::pair::{Pair, cores};
use crate::running::{Running, number};

/// Bytes of frames as RFC 2544 counts them, those of the source's figures.
pub(super) const SIZES: [u16; 5] = [64, 250, 500, 1000, 1500];
/// What of it is not a datagram's data: Ethernet with its check sequence, IPv4, UDP.
const HEADERS: u16 = 14 + 4 + 20 + 8;
/// Port of the first flow.
const PORT: u16 = 7000;
/// Datagrams on the way, at most: below what the kernel queues for a core.
const WINDOW: &str = "512";
/// Seconds until rates are steady, and those counted.
const SKIP: &str = "0.15";
const TIME: &str = "0.6";
/// What serves longer than this has been forgotten.
const MOST: &str = "60";
/// Seconds of a block.
const PERIOD: f64 = 0.2;

/// What is at the link's ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Ends {
    Nothing,
    Points(Kind),
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Path {
    pub(super) cores: u8,
    pub(super) size: u16,
    pub(super) ends: Ends,
}

/// What one run gave.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rate {
    /// Datagrams a second that were read.
    pub(super) per_s: f64,
    /// Those that were lost.
    pub(super) lost: f64,
    /// By how many packets points and sockets disagree.
    pub(super) astray: f64,
    /// Part of the time that senders waited for readers.
    pub(super) waited: f64,
}

pub(super) fn path(cores: u8, size: u16, kind: Kind) -> Path {
    Path { cores, size, ends: Ends::Points(kind) }
}

/// Those that ratios are made of.
pub(super) fn quick() -> Vec<Path> {
    [DUMMY, ALL, FIXED].map(|kind| path(1, SIZES[0], kind)).to_vec()
}

/// Those that are only rows.
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
    /// Bits of a frame as the source's throughput counts them.
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

/// Starts points at the ends of a link: the one that marks last. `twice` as the program wants it.
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
        let mut command = pair.program(node, cores()[1], exe(pair)?)?;
        command.args(["bench-peer", "measure-point", interface, place, samples]);
        command.arg(&file).arg(MOST);
        Running::start(&mut command, &format!("{kind} at {node}"))?.ready()
    };
    let arriving = start("b", pair.receiver(link)?, "in")?;
    let place = if kind.marks_twice() { "mark-twice" } else { "mark" };
    Ok([start("a", pair.sender(link)?.0, place)?, arriving])
}

fn exe<'a>(pair: &'a Pair<'_>) -> Result<&'a str> {
    pair.driver().exe().to_str().context("the binary's path is not UTF-8")
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
    // One sender has a core of its own; two have one each, with their readers.
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
    // What has been read has been counted.
    let counted = points.into_iter().map(Running::end).collect::<Result<Vec<_>>>()?;
    account(path, &poured, &counted)
}

/// Puts together what was poured and counted.
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
