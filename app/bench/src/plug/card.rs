//! A card plugged into a switch: a node on the switch, a veth pair that stands for the card and its cable,
//! and a node at the other end.

use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::daemon::Daemon;
use crate::driver::{Driver, output};
use crate::inside::inside;
use crate::running::{Running, number};
use crate::vde::VdeSwitch;

/// A server that runs longer than this was forgotten.
const MOST: &str = "60";
/// Seconds before bytes are counted.
const SKIP: &str = "0.3";
/// Data bytes per datagram, as in iperf.
const DATA: f64 = 1470.0;
/// Maximum burst after a delay of the source.
const BURST: &str = "64";
/// Time for packets in flight.
const SETTLE: Duration = Duration::from_millis(200);
/// Addresses of the ends, in a network for benchmarks (RFC 2544).
const INSIDE: &str = "198.18.0.1";
const OUTSIDE: &str = "198.18.0.2";

/// The plug between switch and card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Connector {
    /// `netloom plug`: packet socket rings with offload headers.
    Plug,
    /// Rings without offload headers.
    Plain,
    /// vde_pcapplug, on vde_switch.
    Pcap,
    /// No plug: the card and the inner node's link are ports of a bridge of the kernel.
    Bridge,
}

impl Connector {
    pub(super) const ALL: [Connector; 4] =
        [Connector::Plug, Connector::Plain, Connector::Pcap, Connector::Bridge];

    pub(super) fn title(self) -> &'static str {
        match self {
            Connector::Plug => "netloom plug",
            Connector::Plain => "without offload handling",
            Connector::Pcap => "vde_pcapplug",
            Connector::Bridge => "kernel bridge",
        }
    }

    pub(super) fn settings(self) -> &'static str {
        match self {
            Connector::Plug => "packet-socket rings, switch in shared memory, tap",
            Connector::Plain => {
                "the same with slots of 2 KiB and no headers of offloads; inside sends none"
            }
            Connector::Pcap => "libpcap, vde_switch -n 32, vde_plug2tap",
            Connector::Bridge => "card and veth are its ports",
        }
    }
}

/// The card's features.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Card {
    /// Super-frames and partial checksums in both directions, as on a veth pair.
    Offloads,
    /// Frames on the cable as on a real one, merged on receive (GRO).
    Merging,
    /// None.
    Bare,
}

impl Card {
    pub(super) const ALL: [Card; 3] = [Card::Offloads, Card::Merging, Card::Bare];

    pub(super) fn title(self) -> &'static str {
        match self {
            Card::Offloads => "offloads on",
            Card::Merging => "receive merging only",
            Card::Bare => "offloads off",
        }
    }
}

/// Direction of traffic: "in" is from the card to the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Direction {
    In,
    Out,
    Both,
}

impl Direction {
    pub(super) const ALL: [Direction; 3] = [Direction::In, Direction::Out, Direction::Both];

    pub(super) fn title(self) -> &'static str {
        match self {
            Direction::In => "in",
            Direction::Out => "out",
            Direction::Both => "in/out",
        }
    }

    fn has(self, one: Direction) -> bool {
        self == one || self == Direction::Both
    }
}

/// A figure for each direction in use.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Ways {
    pub(super) inward: Option<f64>,
    pub(super) outward: Option<f64>,
}

/// A lab with a plugged card; its auxiliary processes end with it.
pub(super) struct PluggedCard<'a> {
    driver: &'a Driver,
    lab: String,
    way: Connector,
    _vde: Option<VdeSwitch>,
    _daemons: Vec<Daemon>,
    _plain: Option<Running>,
}

impl<'a> PluggedCard<'a> {
    pub(super) fn up(driver: &'a Driver, way: Connector, card: Card) -> Result<PluggedCard<'a>> {
        let lab = format!("bench-plug-{}-{}", way as u8, card as u8);
        driver.up(&driver.lab_file(&lab, &lab_file(&lab, way))?)?;
        let (_vde, _daemons, _plain) = (None, vec![], None);
        let mut place = PluggedCard { driver, lab, way, _vde, _daemons, _plain };
        place.address("outside", OUTSIDE)?;
        place.prepare(card)?;
        place.plug()?;
        place.reach()?;
        Ok(place)
    }

    fn prepare(&self, card: Card) -> Result<()> {
        let ask = |node: &str, word: &str| self.peer(node, &[word, "eth0"])?.result();
        if card != Card::Offloads {
            ask("outside", "offloads-off")?;
            ask("gate", "offloads-off")?;
        }
        if card == Card::Merging {
            ask("gate", "merging-on")?;
        }
        if self.way == Connector::Plain {
            // Like the source's guests: their traffic needs no offload.
            ask("inside", "offloads-off")?;
        }
        Ok(())
    }

    fn plug(&mut self) -> Result<()> {
        let name = format!("{}-plug", self.lab);
        if self.way == Connector::Pcap {
            let vde = VdeSwitch::start(self.driver, &format!("{}-vde", self.lab))?;
            let prefixed = format!("{INSIDE}/24");
            self._daemons.push(vde.tap(self.driver, (&self.lab, "inside"), &prefixed)?);
            let mut command = inside(self.driver, &self.lab, "gate", "vde_pcapplug")?;
            command.args(["-s", vde.address()?, "eth0"]);
            self._daemons.push(Daemon::start(self.driver, &mut command, &name)?);
            self._vde = Some(vde);
            return Ok(());
        }
        self.address("inside", INSIDE)?;
        if self.way == Connector::Bridge {
            return self.bridge();
        }
        let socket = netloom_shm::name::socket(&self.driver.runtime(), &self.lab, "s");
        let socket = socket.to_str().context("the runtime directory is not UTF-8")?;
        if self.way == Connector::Plain {
            self._plain = Some(self.peer("gate", &["plug-plain", "eth0", socket])?.ready()?);
            return Ok(());
        }
        let exe = self.driver.exe().to_str().context("the binary's path is not UTF-8")?;
        let mut command = inside(self.driver, &self.lab, "gate", exe)?;
        command.args(["plug", "eth0", socket]);
        let plug = Daemon::start(self.driver, &mut command, &name)?;
        self._daemons.push(plug.until(|plug| plug.said().contains("is port"))?);
        Ok(())
    }

    fn bridge(&self) -> Result<()> {
        let ip = |words: &[&str]| {
            let mut command = self.driver.command();
            command.args(["-l", &self.lab, "exec", "gate", "--", "ip", "link"]).args(words);
            output(&mut command).map(|_| ())
        };
        ip(&["add", "br0", "type", "bridge"])?;
        for port in ["eth0", "eth1"] {
            ip(&["set", port, "master", "br0"])?;
        }
        ip(&["set", "br0", "up"])
    }

    /// Waits until both ends can reach each other.
    fn reach(&self) -> Result<()> {
        for _ in 0..10 {
            let mut command = self.driver.command();
            command.args(["-l", &self.lab, "exec", "inside", "--", "ping", "-c", "1", "-W", "1"]);
            if output(command.arg(OUTSIDE)).is_ok() {
                return Ok(());
            }
        }
        bail!("{}: nothing comes through", self.way.title())
    }

    /// Gb/s of one TCP connection per direction; 0 if nothing arrives.
    pub(super) fn streams(&self, direction: Direction, window: f64) -> Result<Ways> {
        let window = window.to_string();
        let start = |one: Direction, port: &str| -> Result<Option<(Running, Running)>> {
            if !direction.has(one) {
                return Ok(None);
            }
            let (from, to, address) = ends(one);
            let sink = self.peer(to, &["tcp-trickle", port, SKIP, &window])?.ready()?;
            let to = format!("{address}:{port}");
            Ok(Some((sink, self.peer(from, &["tcp-source", &to, "0", MOST])?)))
        };
        let (inward, outward) = (start(Direction::In, "7001")?, start(Direction::Out, "7002")?);
        // A source that cannot end by itself, because nothing gets through, ends when dropped.
        let got = |pair: Option<(Running, Running)>| {
            pair.map(|(sink, _source)| -> Result<f64> {
                Ok(number(&sink.result()?, "bytes_per_s")? * 8e-9)
            })
        };
        Ok(Ways { inward: got(inward).transpose()?, outward: got(outward).transpose()? })
    }

    /// Percentage of datagrams lost at `rate` Mb/s of data, per direction.
    pub(super) fn datagrams(&self, direction: Direction, rate: f64, time: f64) -> Result<Ways> {
        let pace = rate * 1e6 / 8.0 / DATA;
        let count = (pace * time).ceil().to_string();
        let (data, pace) = (DATA.to_string(), pace.to_string());
        let start = |one: Direction| -> Result<Option<(Running, Running)>> {
            if !direction.has(one) {
                return Ok(None);
            }
            let (from, to, address) = ends(one);
            let sink = self.peer(to, &["udp-sink", "7003", "count", MOST])?.ready()?;
            let to = format!("{address}:7003");
            let words = ["udp-source", &to, &data, &count, &pace, BURST];
            Ok(Some((sink, self.peer(from, &words)?)))
        };
        let (inward, outward) = (start(Direction::In)?, start(Direction::Out)?);
        let got = |pair: Option<(Running, Running)>| {
            pair.map(|(sink, source)| -> Result<f64> {
                let sent = number(&source.result()?, "sent")?;
                sleep(SETTLE);
                let came = number(&sink.end()?, "distinct")?;
                Ok(100.0 * (sent - came) / sent.max(1.0))
            })
        };
        Ok(Ways { inward: got(inward).transpose()?, outward: got(outward).transpose()? })
    }

    fn address(&self, node: &str, address: &str) -> Result<()> {
        let prefixed = format!("{address}/24");
        let mut command = self.driver.command();
        command.args(["-l", &self.lab, "exec", node, "--", "ip", "addr", "add", &prefixed]);
        output(command.args(["dev", "eth0"])).map(|_| ())
    }

    /// Runs in the node's network as a child of this process: it ends when dropped, whatever it waits for.
    fn peer(&self, node: &str, words: &[&str]) -> Result<Running> {
        let mut command = inside(self.driver, &self.lab, node, self.driver.own_text()?)?;
        Running::start(command.arg("peer").args(words), &words.join(" "))
    }
}

/// The sending and the receiving node, and the latter's address.
fn ends(direction: Direction) -> (&'static str, &'static str, &'static str) {
    match direction {
        Direction::In => ("outside", "inside", INSIDE),
        _ => ("inside", "outside", OUTSIDE),
    }
}

fn lab_file(lab: &str, way: Connector) -> String {
    let mut text = format!("name: {lab}\nnodes:\n  inside: {{}}\n  gate: {{}}\n  outside: {{}}\n");
    let inner = match way {
        Connector::Plug | Connector::Plain => "s",
        Connector::Bridge => "gate",
        Connector::Pcap => "",
    };
    if inner == "s" {
        text += "switches: {s: {kind: shm}}\n";
    }
    text += "links:\n  - {ends: [outside, gate], name: card}\n";
    if !inner.is_empty() {
        text += &format!("  - {{ends: [inside, {inner}], name: inside}}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_is_from_the_card_to_the_switch() {
        assert_eq!(ends(Direction::In), ("outside", "inside", INSIDE));
        assert_eq!(ends(Direction::Out), ("inside", "outside", OUTSIDE));
        assert!(Direction::Both.has(Direction::In) && Direction::Both.has(Direction::Out));
        assert!(!Direction::In.has(Direction::Out));
    }

    #[test]
    fn only_ours_stands_on_our_switch() {
        assert!(lab_file("x", Connector::Plug).contains("kind: shm"));
        assert!(!lab_file("x", Connector::Pcap).contains("switches"));
        assert!(lab_file("x", Connector::Bridge).contains("[inside, gate]"));
    }
}
