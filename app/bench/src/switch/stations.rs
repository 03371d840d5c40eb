//! Stations: nodes on one switch, in pairs, as in the source's tables 2.1 and 2.2.
//!
//! Each kind of switch has its own lab; all are up at once and idle except the measured one, so that they can
//! alternate. Even stations are sinks, odd ones sources; datagrams go in both directions.

use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::Value;

use super::vswitch;
use crate::capture::version;
use crate::daemon::Daemon;
use crate::driver::{Driver, output};
use crate::facts::Facts;
use crate::processes::{cpu_ns, percent};
use crate::running::{Running, number};
use crate::vde::{self, VdeSwitch};

const PORT: &str = "7000";
/// A server that runs longer than this was forgotten.
const MOST: &str = "60";
/// Seconds before bytes are counted.
const SKIP: &str = "0.4";
/// Data bytes per datagram, as in iperf.
pub(super) const DATA: u32 = 1470;
/// Maximum burst after a delay of the source.
const BURST: &str = "64";
/// Time for packets in flight.
const SETTLE: Duration = Duration::from_millis(200);

/// The switch of the stations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// netloom's shared-memory switch; taps.
    Shm,
    /// vde_switch; taps plugged in by vde_plug2tap.
    Vde,
    /// The kernel's bridge; veth pairs.
    Bridge,
    /// Open vSwitch's userspace datapath; veth pairs.
    Vswitch,
}

impl Kind {
    pub(super) fn title(self) -> &'static str {
        match self {
            Kind::Shm => "netloom",
            Kind::Vde => "vde_switch",
            Kind::Bridge => "kernel bridge",
            Kind::Vswitch => "Open vSwitch",
        }
    }

    pub(super) fn settings(self) -> &'static str {
        match self {
            Kind::Shm => "kind: shm, all offloads",
            Kind::Vde => "vde_switch -n 32, vde_plug2tap in each node's network",
            Kind::Bridge => "kind: kernel, veth, all offloads",
            Kind::Vswitch => "netdev datapath, one bridge, veth, the stations' offloads off",
        }
    }

    fn lab(self) -> &'static str {
        match self {
            Kind::Shm => "bench-shm",
            Kind::Vde => "bench-vde",
            Kind::Bridge => "bench-bridge",
            Kind::Vswitch => "bench-ovs",
        }
    }
}

/// A lab of stations; its auxiliary processes end with it.
pub(super) struct Stations<'a> {
    driver: &'a Driver,
    kind: Kind,
    addresses: Vec<String>,
    vde: Option<VdeSwitch>,
    /// Plugs of peers, and netloom's processes that plug stations in.
    plugs: Vec<Daemon>,
    own_plugs: Vec<u32>,
    /// The process of netloom's switch.
    own_switch: Option<u32>,
    /// Open vSwitch in its node.
    _vswitch: Option<Running>,
}

/// Result of a measurement of streams.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Streams {
    /// All streams together.
    pub(super) gbps: f64,
    pub(super) cpu: Cpu,
}

/// Result of a measurement of datagrams.
#[derive(Clone, Debug, Default)]
pub(super) struct Datagrams {
    pub(super) sent: f64,
    pub(super) lost: f64,
    /// Frames that the ports of netloom's switch dropped meanwhile, by cause.
    pub(super) dropped: BTreeMap<String, u64>,
    pub(super) cpu: Cpu,
}

/// CPU used during the measurement, in percent of a core.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cpu {
    /// The stations' programs and their plugs.
    pub(super) stations: f64,
    /// The switch's own process.
    pub(super) switch: Option<f64>,
}

impl<'a> Stations<'a> {
    pub(super) fn up(driver: &'a Driver, kind: Kind, count: usize) -> Result<Stations<'a>> {
        let lab = kind.lab();
        driver.up(&driver.lab_file(lab, &lab_file(kind, count))?)?;
        let mut stations = Stations {
            driver,
            kind,
            addresses: vec![],
            vde: None,
            plugs: vec![],
            own_plugs: vec![],
            own_switch: None,
            _vswitch: None,
        };
        match kind {
            Kind::Shm | Kind::Bridge => {
                let facts = Facts::of(driver, lab)?;
                let addresses = (1..=count).map(|n| facts.interface(&name(n), &name(n)));
                let addresses = addresses.map(|found| Ok(found?.address));
                stations.addresses = addresses.collect::<Result<_>>()?;
                if kind == Kind::Shm {
                    let shown = stations.shown()?;
                    let ports = shown["ports"].as_array().context("the switch shows no ports")?;
                    let pid = |of: &Value| u32::try_from(of["pid"].as_u64()?).ok();
                    stations.own_plugs = ports.iter().filter_map(pid).collect();
                    stations.own_switch = Some(pid(&shown).context("the switch shows no process")?);
                }
            }
            Kind::Vde => {
                let vde = VdeSwitch::start(driver, "vde-stations")?;
                for number in 1..=count {
                    let address = own_address(number);
                    let prefixed = format!("{address}/24");
                    stations.plugs.push(vde.tap(driver, (lab, &name(number)), &prefixed)?);
                    stations.addresses.push(address);
                }
                stations.vde = Some(vde);
            }
            Kind::Vswitch => {
                for number in 1..=count {
                    let (node, address) = (name(number), own_address(number));
                    exec(
                        driver,
                        lab,
                        &node,
                        &["ip", "addr", "add", &format!("{address}/24"), "dev", "eth0"],
                    )?;
                    driver.peer(lab, &node, &["offloads-off", "eth0"])?.result()?;
                    stations.addresses.push(address);
                }
                stations._vswitch = Some(vswitch::start(driver, lab, count)?);
            }
        }
        Ok(stations)
    }

    /// One stream in each of the first `count / 2` pairs, for `window` seconds.
    pub(super) fn streams(&self, count: usize, window: f64) -> Result<Streams> {
        let window = window.to_string();
        let before = self.spent()?;
        let sinks = (2..=count).step_by(2);
        let sinks = sinks.map(|n| self.peer(n, &["tcp-sink", PORT, SKIP, &window])?.ready());
        let sinks = sinks.collect::<Result<Vec<_>>>()?;
        let sources = (2..=count).step_by(2);
        let sources = sources.map(|n| self.peer(n - 1, &["tcp-source", &self.to(n)?, "0", MOST]));
        let sources = sources.collect::<Result<Vec<_>>>()?;
        let mut sum = 0.0;
        for sink in sinks {
            sum += number(&sink.result()?, "bytes_per_s")?;
        }
        sources.into_iter().try_for_each(|source| source.result().map(|_| ()))?;
        Ok(Streams { gbps: sum * 8e-9, cpu: self.since(before)? })
    }

    /// Sends `each` datagrams from each of the first `count` stations to its partner, at `rate` per second.
    pub(super) fn datagrams(&self, count: usize, each: u64, rate: f64) -> Result<Datagrams> {
        let dropped = self.dropped()?;
        let before = self.spent()?;
        let sinks = (1..=count).map(|n| self.peer(n, &["udp-sink", PORT, "count", MOST])?.ready());
        let sinks = sinks.collect::<Result<Vec<_>>>()?;
        let (data, each, rate) = (DATA.to_string(), each.to_string(), rate.to_string());
        let source = |n: usize| {
            let to = self.to(partner(n))?;
            self.peer(n, &["udp-source", &to, &data, &each, &rate, BURST])
        };
        let sources = (1..=count).map(source).collect::<Result<Vec<_>>>()?;
        let mut sent = 0.0;
        for source in sources {
            sent += number(&source.result()?, "sent")?;
        }
        let cpu = self.since(before)?;
        sleep(SETTLE);
        let mut came = 0.0;
        for sink in sinks {
            came += number(&sink.end()?, "distinct")?;
        }
        let mut since = self.dropped()?;
        for (cause, count) in &mut since {
            *count -= dropped.get(cause).copied().unwrap_or(0).min(*count);
        }
        since.retain(|_, count| *count > 0);
        Ok(Datagrams { sent, lost: sent - came, dropped: since, cpu })
    }

    /// Resolves the MACs between the first `count` stations, so that no datagram waits for it.
    pub(super) fn greet(&self, count: usize) -> Result<()> {
        for number in 1..=count {
            let to = self.to(partner(number))?;
            self.peer(number, &["udp-source", &to, "64", "20", "200", "1"])?.result()?;
        }
        sleep(SETTLE);
        Ok(())
    }

    fn peer(&self, number: usize, words: &[&str]) -> Result<Running> {
        self.driver.peer(self.kind.lab(), &name(number), words)
    }

    fn to(&self, number: usize) -> Result<String> {
        let address = self.addresses.get(number - 1).context("no such station")?;
        Ok(format!("{address}:{PORT}"))
    }

    /// CPU time so far, and the time of the reading.
    fn spent(&self) -> Result<Spent> {
        let facts = Facts::of(self.driver, self.kind.lab())?;
        let cpu = |node: &str| facts.counter(node, "cpu_ns");
        let mut stations = cpu_ns(&self.plugs());
        for number in 1..=self.addresses.len() {
            stations += cpu(&name(number))?.unwrap_or(0);
        }
        let switch = match self.kind {
            Kind::Bridge => None,
            Kind::Vde => self.vde.as_ref().map(|vde| cpu_ns(&[vde.pid()])),
            Kind::Vswitch => cpu(vswitch::NODE)?,
            Kind::Shm => self.own_switch.map(|pid| cpu_ns(&[pid])),
        };
        Ok(Spent { at: Instant::now(), stations, switch })
    }

    fn since(&self, before: Spent) -> Result<Cpu> {
        let now = self.spent()?;
        let wall = now.at.duration_since(before.at);
        let part = |now: u64, before: u64| percent(now.saturating_sub(before), wall);
        Ok(Cpu {
            stations: part(now.stations, before.stations),
            switch: now.switch.zip(before.switch).map(|(now, before)| part(now, before)),
        })
    }

    /// Plug processes that are not counted with their nodes.
    fn plugs(&self) -> Vec<u32> {
        self.plugs.iter().map(Daemon::pid).chain(self.own_plugs.iter().copied()).collect()
    }

    /// State of netloom's switch and its ports.
    fn shown(&self) -> Result<Value> {
        self.driver.json(&["-l", self.kind.lab(), "switch", "show", "s", "--json"])
    }

    /// Frames dropped so far, by cause; empty for other switches.
    fn dropped(&self) -> Result<BTreeMap<String, u64>> {
        if self.kind == Kind::Shm { Ok(dropped(&self.shown()?)) } else { Ok(BTreeMap::new()) }
    }
}

/// Frames dropped by ports of a switch, by cause.
fn dropped(shown: &Value) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for port in shown["ports"].as_array().into_iter().flatten() {
        for (name, count) in port["counters"].as_object().into_iter().flatten() {
            let cause = name.strip_prefix("dropped_").or((name == "missed").then_some("missed"));
            if let (Some(cause), Some(count)) = (cause, count.as_u64()) {
                *sums.entry(cause.to_owned()).or_default() += count;
            }
        }
    }
    sums
}

/// CPU times in nanoseconds at a moment.
#[derive(Clone, Copy, Debug)]
struct Spent {
    at: Instant,
    stations: u64,
    switch: Option<u64>,
}

/// Why a kind of switch is unavailable; `None` if it is available.
pub(super) fn missing(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Vde if vde::version().is_none() => Some("no vde_switch and vde_plug2tap"),
        Kind::Vswitch if version("ovs-vswitchd").is_none() => Some("no ovs-vswitchd"),
        _ => None,
    }
}

/// The other station of its pair.
fn partner(number: usize) -> usize {
    if number.is_multiple_of(2) { number - 1 } else { number + 1 }
}

fn name(number: usize) -> String {
    format!("s{number}")
}

/// An address for labs without addresses of one segment, from a benchmarking network (RFC 2544).
fn own_address(number: usize) -> String {
    format!("198.18.0.{number}")
}

fn exec(driver: &Driver, lab: &str, node: &str, words: &[&str]) -> Result<String> {
    output(driver.command().args(["-l", lab, "exec", node, "--"]).args(words))
}

fn lab_file(kind: Kind, count: usize) -> String {
    let mut text = format!("name: {}\nnodes:\n", kind.lab());
    for number in 1..=count {
        text += &format!("  {}: {{}}\n", name(number));
    }
    let other = match kind {
        Kind::Vde => return text,
        Kind::Shm => {
            text += "switches: {s: {kind: shm}}\n";
            "s"
        }
        Kind::Bridge => {
            text += "switches: {s: {}}\n";
            "s"
        }
        Kind::Vswitch => {
            text += &format!("  {}: {{}}\n", vswitch::NODE);
            vswitch::NODE
        }
    };
    text += "links:\n";
    for number in 1..=count {
        text += &format!("  - {{ends: [{0}, {other}], name: {0}}}\n", name(number));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_summed_over_ports() {
        let counters = serde_json::json!({"dropped_full": 2, "missed": 1, "sent_frames": 9});
        let port = serde_json::json!({"counters": counters});
        let sums = dropped(&serde_json::json!({"ports": [port.clone(), port]}));
        let expected = [("full".to_owned(), 4), ("missed".to_owned(), 2)];
        assert_eq!(sums, BTreeMap::from(expected));
    }

    #[test]
    fn stations_are_in_pairs() {
        assert_eq!([1, 2, 7, 8].map(partner), [2, 1, 8, 7]);
    }

    #[test]
    fn labs_differ_in_what_stations_stand_on() {
        let text = lab_file(Kind::Shm, 2);
        assert!(text.contains("switches: {s: {kind: shm}}"), "{text}");
        assert!(text.ends_with("  - {ends: [s2, s], name: s2}\n"), "{text}");
        assert!(!lab_file(Kind::Vde, 2).contains("links"));
        assert!(lab_file(Kind::Vswitch, 2).contains("  ovs: {}\nlinks:\n"));
    }
}
