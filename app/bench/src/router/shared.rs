//! Two virtual networks on one data plane: a victim sends from `v` to `w`, and `h1` and `h2` are hostile.
//!
//! Each end has a network of its own, and what shares its machine with the others routes between those of one virtual network:
//! a switch's flow entries, or a router node for each virtual network. Frames of the hostile network that no entry matches go to
//! the controller of an OpenFlow switch.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::way::Shape;
use crate::driver::{Driver, output};
use crate::facts::Facts;
use crate::openflow::vswitch;
use crate::processes::{cpu_ns, tree};
use crate::running::{Running, number};

/// Ports of the victim's datagrams and streams, and of a controller.
const PORT: &str = "7000";
const OPENFLOW: &str = "6653";
/// A program that runs longer was forgotten.
const LONGEST: &str = "3600";
/// Bytes of a datagram: a frame of 64 bytes with its check sequence, as small as they are with a stamp.
const DATA: &str = "18";
/// Seconds of datagrams.
const TIME: f64 = 0.8;
/// Datagrams without a pace, for the capacity.
const MANY: &str = "60000";
/// Overdue datagrams that are sent at once: the sender is off its core for milliseconds, which it shares.
const BURST: &str = "1024";
/// Seconds of a stream before it is counted, and while.
const STREAM: [&str; 2] = ["0.2", "0.4"];
/// Streams whose mean counts: one that begins while its core is taken away stands still for as long as it is counted.
const STREAMS: u32 = 2;
/// Which program uses which core: the victim's sender shares its own with one hostile node, its receiver with the other.
const CORES: [&str; 2] = ["0", "1"];
/// The ends, with the last but one byte of their networks.
const ENDS: [(&str, u8); 4] = [("v", 4), ("w", 5), ("h1", 6), ("h2", 7)];
/// A hostile address that no entry and no route is for.
const UNKNOWN: &str = "203.0.113.1";
/// The gateways' hardware address where entries route.
const GATEWAY: &str = "02:00:5e:10:00:01";

/// The data plane that the virtual networks share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Plane {
    /// netloom's OpenFlow switch.
    Own,
    /// Open vSwitch in user space.
    Vswitch,
    /// The kernel: a router node for each.
    Kernel,
}

/// What the hostile nodes do, one on each core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Hostile {
    /// Use their processors, and send nothing.
    Spin,
    /// Send smallest frames to each other.
    Flood,
    /// Send smallest frames that nothing is known about.
    Unknown,
}

/// What the victim kept beside a behaviour.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept {
    /// At its pace, time after time.
    pub(super) paced: Vec<Paced>,
    /// Bits a second of TCP streams, their mean.
    pub(super) stream: f64,
}

/// The victim at its pace.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Paced {
    /// Datagrams a second that arrived, as a share of those that were to be sent.
    pub(super) rate: f64,
    /// 99th percentile of their delay, in microseconds.
    pub(super) p99: f64,
    /// Percentage of a core that the shared process used; `None` if the kernel is shared.
    pub(super) shared: Option<f64>,
    /// Frames a second that the hostile nodes offered.
    pub(super) offered: f64,
}

impl Plane {
    pub(super) const ALL: [Plane; 3] = [Plane::Own, Plane::Vswitch, Plane::Kernel];

    pub(super) fn title(self) -> &'static str {
        match self {
            Plane::Own => "OpenFlow switch",
            Plane::Vswitch => "Open vSwitch",
            Plane::Kernel => "router nodes",
        }
    }

    pub(super) fn settings(self) -> &'static str {
        match self {
            Plane::Own => "kind: openflow; entries by netloom-bench peer flow-control in a node",
            Plane::Vswitch => {
                "netdev datapath, the ends' offloads off; the same entries without a controller"
            }
            Plane::Kernel => "forwarding: true, one for each virtual network",
        }
    }

    fn shape(self) -> Shape {
        match self {
            Plane::Own => Shape::Switched,
            Plane::Vswitch => Shape::Vswitch,
            Plane::Kernel => Shape::Direct,
        }
    }

    fn lab(self) -> &'static str {
        match self {
            Plane::Own => "bench-shared-own",
            Plane::Vswitch => "bench-shared-ovs",
            Plane::Kernel => "bench-shared-nodes",
        }
    }
}

impl Hostile {
    pub(super) const ALL: [Hostile; 3] = [Hostile::Spin, Hostile::Flood, Hostile::Unknown];

    pub(super) fn words(self) -> &'static str {
        match self {
            Hostile::Spin => "the hostile nodes spin",
            Hostile::Flood => "the hostile nodes flood",
            Hostile::Unknown => "the hostile nodes flood with unknown flows",
        }
    }
}

fn address(network: u8) -> String {
    format!("198.18.{network}.2")
}

/// The virtual networks, up.
pub(super) struct Shared<'a> {
    driver: &'a Driver,
    plane: Plane,
    /// Hardware addresses that hostile frames are sent to, of `h1` and `h2`.
    gateways: [String; 2],
    /// The process that is shared.
    process: Option<u32>,
    held: Vec<Running>,
}

impl<'a> Shared<'a> {
    pub(super) fn up(driver: &'a Driver, plane: Plane) -> Result<Shared<'a>> {
        let lab = plane.lab();
        driver.up(&driver.lab_file(lab, &lab_file(plane))?)?;
        let mut shared = Shared {
            driver,
            plane,
            gateways: [GATEWAY, GATEWAY].map(str::to_owned),
            process: None,
            held: vec![],
        };
        let facts = Facts::of(driver, lab)?;
        if plane == Plane::Kernel {
            shared.gateways = [facts.mac("rh", "h1")?, facts.mac("rh", "h2")?];
        } else {
            shared.switch(&facts)?;
        }
        for node in ["w", "h1", "h2"] {
            shared.held.push(shared.peer(node, &["hold", LONGEST])?.ready()?);
        }
        let to = address(5);
        output(
            driver
                .command()
                .args(["-l", lab, "exec", "v", "--", "ping", "-c", "1", "-W", "5", &to]),
        )
        .context("the victim's network does not carry anything")?;
        Ok(shared)
    }

    /// Gives ends their addresses, and the switch its entries.
    fn switch(&mut self, facts: &Facts) -> Result<()> {
        let lab = self.plane.lab();
        for (node, network) in ENDS {
            let (own, gateway) =
                (format!("{}/24", address(network)), format!("198.18.{network}.1"));
            let known = format!("neigh add {gateway} lladdr {GATEWAY} dev eth0 nud permanent");
            for words in [
                format!("addr add {own} dev eth0"),
                known,
                format!("route add default via {gateway}"),
            ] {
                let mut command = self.driver.command();
                command.args(["-l", lab, "exec", node, "--", "ip"]).args(words.split(' '));
                output(&mut command)?;
            }
        }
        let macs =
            ENDS.map(|(node, _)| facts.mac(node, node)).into_iter().collect::<Result<Vec<_>>>()?;
        let all = entries(&macs);
        if self.plane == Plane::Own {
            let words = ["flow-control", OPENFLOW, LONGEST];
            let words: Vec<&str> =
                words.into_iter().chain(all.iter().map(String::as_str)).collect();
            self.held.push(self.peer("c", &words)?.ready()?);
            let shown = self.driver.json(&["-l", lab, "switch", "show", "s", "--json"])?;
            let process =
                shown["flow"]["pid"].as_u64().with_context(|| format!("no process in {shown}"))?;
            self.process = Some(u32::try_from(process)?);
            return Ok(());
        }
        let folder: PathBuf = self.driver.folder().join(lab);
        let links = ["eth0", "eth1", "eth2", "eth3"].map(str::to_owned);
        vswitch::clear(self.driver, lab, "ovs", &links)?;
        for (node, _) in ENDS {
            self.peer(node, &["offloads-off", "eth0"])?.result()?;
        }
        let running = vswitch::start(self.driver, lab, "ovs", &folder, &links, None)?;
        self.process = Some(running.pid());
        self.held.push(running);
        let mut command = self.driver.peer_command();
        command.arg("flow-entries").arg(folder.join("br0.mgmt"));
        output(command.args(&all)).map(drop)
    }

    fn peer(&self, node: &str, words: &[&str]) -> Result<Running> {
        self.driver.peer(self.plane.lab(), node, words)
    }

    /// Datagrams a second that the victim's network carries while the hostile nodes spin.
    pub(super) fn capacity(&self) -> Result<f64> {
        let busy = self.hostile(Hostile::Spin)?;
        let (rate, ..) = self.datagrams(MANY, "2000000")?;
        busy.into_iter().try_for_each(|program| program.end().map(drop))?;
        if rate <= 0.0 {
            bail!("{}: no datagram of the victim arrives", self.plane.title());
        }
        Ok(rate)
    }

    /// The victim at this pace, while the hostile nodes do something.
    pub(super) fn paced(&self, hostile: Hostile, pace: f64) -> Result<Paced> {
        let busy = self.hostile(hostile)?;
        let (before, start) = (self.spent(), std::time::Instant::now());
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a count below 2^53"
        )]
        let count = (pace * TIME) as u64;
        let (rate, p99) = self.datagrams(&count.to_string(), &pace.to_string())?;
        let (after, time) = (self.spent(), start.elapsed());
        let mut offered = 0.0;
        for program in busy {
            offered += program.end()?["offered_per_s"].as_f64().unwrap_or(0.0);
        }
        let spent = after.zip(before).map(|(after, before)| after.saturating_sub(before));
        let shared = spent.map(|spent| crate::processes::percent(spent, time));
        Ok(Paced { rate: rate / pace, p99, shared, offered })
    }

    /// Bits a second of the victim's streams, while the hostile nodes do something.
    pub(super) fn streams(&self, hostile: Hostile) -> Result<f64> {
        let busy = self.hostile(hostile)?;
        let mut sum = 0.0;
        for _ in 0..STREAMS {
            sum += self.stream()?;
        }
        busy.into_iter().try_for_each(|program| program.end().map(drop))?;
        Ok(sum / f64::from(STREAMS))
    }

    /// Nanoseconds of CPU time of what is shared.
    fn spent(&self) -> Option<u64> {
        self.process.map(|process| cpu_ns(&tree(process)))
    }

    fn hostile(&self, hostile: Hostile) -> Result<Vec<Running>> {
        let others = [("h1", 6, 7), ("h2", 7, 6)];
        let each = others.iter().zip(&self.gateways).zip(CORES);
        let started = each.map(|(((node, own, other), gateway), core)| {
            let (from, to) = (address(*own), address(*other));
            let to = if hostile == Hostile::Unknown { UNKNOWN } else { &to };
            let words: Vec<&str> = match hostile {
                Hostile::Spin => vec!["on", core, "spin", LONGEST],
                _ => {
                    vec![
                        "on",
                        core,
                        "storm",
                        "eth0",
                        gateway,
                        &from,
                        to,
                        "::1",
                        "9",
                        "datagrams",
                        LONGEST,
                    ]
                }
            };
            self.peer(node, &words)?.ready()
        });
        started.collect()
    }

    /// Datagrams a second that arrive, and the 99th percentile of their delays in microseconds.
    fn datagrams(&self, count: &str, pace: &str) -> Result<(f64, f64)> {
        let sink = self.peer("w", &["on", CORES[1], "udp-sink", PORT, "delays", "60"])?.ready()?;
        let to = format!("{}:{PORT}", address(5));
        let source = ["on", CORES[0], "udp-source", &to, DATA, count, pace, BURST];
        self.peer("v", &source)?.result()?;
        let seen = sink.end()?;
        let bytes = DATA.parse::<f64>()? + 42.0;
        let delays = seen["delays_ns"].as_array().map_or(&[][..], Vec::as_slice);
        let delays: Vec<f64> = delays.iter().filter_map(Value::as_f64).map(|ns| ns / 1e3).collect();
        let p99 = netloom_stats::percentile(&delays, 99.0).unwrap_or(f64::INFINITY);
        Ok((number(&seen, "bits_per_s")? / 8.0 / bytes, p99))
    }

    /// Bits a second of the victim's stream.
    fn stream(&self) -> Result<f64> {
        let [skip, time] = STREAM;
        let sink = self.peer("w", &["on", CORES[1], "tcp-trickle", PORT, skip, time])?.ready()?;
        let to = format!("{}:{PORT}", address(5));
        let source = self.peer("v", &["on", CORES[0], "tcp-source", &to, "0", "5"])?;
        let bytes = number(&sink.result()?, "bytes_per_s")?;
        // It may have found no way to connect, which is a stream of 0.
        if bytes > 0.0 {
            source.result()?;
        }
        Ok(bytes * 8.0)
    }
}

/// The entries of both virtual networks, for the hardware addresses of the ends at ports 1 to 4.
fn entries(macs: &[String]) -> Vec<String> {
    let mut all = vec!["priority=0,actions=CONTROLLER:64".to_owned()];
    let pairs = [(1, 2, 5), (2, 1, 4), (3, 4, 7), (4, 3, 6)];
    for (port, (other, network)) in pairs.map(|(port, other, network)| (port, (other, network))) {
        let Some(mac) = macs.get(other - 1) else { continue };
        all.push(format!(
            "priority=10,in_port={port},ip,nw_dst=198.18.{network}.0/24,actions=dec_ttl,\
             set_field:{GATEWAY}->eth_src,set_field:{mac}->eth_dst,output:{other}"
        ));
    }
    all
}

fn lab_file(plane: Plane) -> String {
    let mut text = format!("name: {}\nnodes:\n", plane.lab());
    ENDS.iter().for_each(|(node, _)| text += &format!("  {node}: {{}}\n"));
    text += match plane.shape() {
        Shape::Switched => {
            "  c: {}\nswitches: {s: {kind: openflow, fail: secure, controllers: [\"node:c\"]}}\n"
        }
        Shape::Vswitch => "  ovs: {}\n",
        Shape::Direct | Shape::Bare => "  rv: {forwarding: true}\n  rh: {forwarding: true}\n",
    };
    text += "links:\n";
    for (node, network) in ENDS {
        let (other, addresses) = match plane {
            Plane::Own => ("s", "none".to_owned()),
            Plane::Vswitch => ("ovs", "none".to_owned()),
            Plane::Kernel => {
                let router = if network < 6 { "rv" } else { "rh" };
                let own = address(network);
                (router, format!("{{{node}: {own}/24, {router}: 198.18.{network}.1/24}}"))
            }
        };
        text += &format!("  - {{ends: [{node}, {other}], name: {node}, addresses: {addresses}}}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_networks_have_nothing_in_common() {
        let macs: Vec<String> = (1..=4).map(|n| format!("02:00:00:00:00:0{n}")).collect();
        let all = entries(&macs);
        assert_eq!(all.len(), 5);
        for entry in &all {
            let add = netloom_openflow::flow::FlowCommand::Add;
            netloom_openflow::text::flow(add, entry, netloom_openflow::Version::V13).unwrap();
        }
        let of_victim: Vec<&String> =
            all.iter().filter(|e| e.contains("in_port=1,") || e.contains("in_port=2,")).collect();
        assert_eq!(of_victim.len(), 2);
        assert!(
            of_victim.iter().all(|e| e.ends_with("output:2") || e.ends_with("output:1")),
            "{all:?}"
        );
        assert!(
            all[1].contains("nw_dst=198.18.5.0/24")
                && all[1].contains("02:00:00:00:00:02->eth_dst")
        );
    }

    #[test]
    fn labs_differ_in_what_is_shared() {
        assert!(
            lab_file(Plane::Own).contains("kind: openflow")
                && lab_file(Plane::Vswitch).contains("ovs: {}")
        );
        let nodes = lab_file(Plane::Kernel);
        assert!(nodes.contains(
            "ends: [h2, rh], name: h2, addresses: {h2: 198.18.7.2/24, rh: 198.18.7.1/24}"
        ));
    }
}
