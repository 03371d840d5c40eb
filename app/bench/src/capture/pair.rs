//! Two nodes with links between them: `a` sends, `b` captures. Senders are pinned to the first core,
//! capturers to the second, all alike.
//!
//! Frames go to a station that does not exist, which costs the receiving node as little as possible, or to the node
//! itself. If this process is killed, a shell that waits for its end cleans up.

use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::program::on;
use crate::driver::{Driver, output};
use crate::facts::{Facts, Interface};
use crate::inside::inside;
use crate::running::Running;

/// The station that does not exist: a locally administered address, in no lab.
pub(crate) const NOBODY: &str = "02:00:5e:10:00:01";
/// Smallest frame: its bytes as RFC 2544 counts them, and as an interface does.
pub(crate) const SMALL: u32 = 64;
/// Largest frame without a tag, likewise.
pub(crate) const LARGE: u32 = 1518;

/// The station that frames are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum To {
    /// One that does not exist.
    Nobody,
    /// The receiving node.
    Node,
}

/// Generated frames.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Stream<'a> {
    pub(crate) to: To,
    /// Bytes as RFC 2544 counts them, with the check sequence.
    pub(crate) size: u32,
    pub(crate) engine: &'a str,
    pub(crate) rate: &'a str,
    pub(crate) seconds: f64,
}

/// A lab of two nodes.
pub(crate) struct Pair<'a> {
    driver: &'a Driver,
    lab: String,
    /// Ends of the links at `a` and at `b`.
    links: Vec<(Interface, Interface)>,
    _undertaker: Undertaker,
}

/// The core that senders are pinned to, and the one for receivers.
pub(crate) fn cores() -> [&'static str; 2] {
    match std::thread::available_parallelism().map_or(1, usize::from) {
        1 => ["0", "0"],
        _ => ["0", "1"],
    }
}

impl<'a> Pair<'a> {
    /// Brings the lab up with this many links.
    pub(crate) fn up(driver: &'a Driver, lab: &str, links: usize) -> Result<Pair<'a>> {
        Pair::with(driver, lab, &vec![""; links])
    }

    /// Brings the lab up with a link for each of these settings, in lab file syntax.
    pub(crate) fn with(driver: &'a Driver, lab: &str, links: &[&str]) -> Result<Pair<'a>> {
        let undertaker = Undertaker::wait(driver)?;
        let mut text = format!("name: {lab}\nnodes: {{a: {{}}, b: {{}}}}\nlinks:\n");
        for (number, settings) in links.iter().enumerate() {
            text += &format!("  - {{ends: [a, b], name: l{number}{settings}}}\n");
        }
        driver.up(&driver.lab_file(lab, &text)?)?;
        let facts = Facts::of(driver, lab)?;
        let end = |node, number| facts.interface(node, &format!("l{number}"));
        let links = (0..links.len()).map(|number| Ok((end("a", number)?, end("b", number)?)));
        let links = links.collect::<Result<_>>()?;
        Ok(Pair { driver, lab: lab.to_owned(), links, _undertaker: undertaker })
    }

    /// Takes it down.
    pub(crate) fn down(self) -> Result<()> {
        self.driver.down(&self.lab).map(|_| ())
    }

    pub(crate) fn driver(&self) -> &Driver {
        self.driver
    }

    pub(crate) fn lab(&self) -> &str {
        &self.lab
    }

    /// Name of an end at `b`.
    pub(crate) fn receiver(&self, link: usize) -> Result<&str> {
        Ok(&self.link(link)?.1.name)
    }

    /// Address of an end at `b`.
    pub(crate) fn address(&self, link: usize) -> Result<&str> {
        Ok(&self.link(link)?.1.address)
    }

    /// Name of an end at `a`, and its hardware address.
    pub(crate) fn sender(&self, link: usize) -> Result<(&str, &str)> {
        let sender = &self.link(link)?.0;
        Ok((&sender.name, &sender.mac))
    }

    fn link(&self, number: usize) -> Result<&(Interface, Interface)> {
        self.links.get(number).with_context(|| format!("{}: no link {number}", self.lab))
    }

    /// `netloom VERB` on the lab, pinned to a core.
    pub(crate) fn netloom(&self, core: &str) -> Command {
        let [first, rest @ ..] = on(core);
        let mut command = Command::new(first);
        command.args(rest).arg(self.driver.exe()).args(["-l", &self.lab]);
        command.env("NETLOOM_RUNTIME_DIR", self.driver.runtime());
        command
    }

    /// Another program in a node's network, pinned to a core.
    pub(crate) fn program(&self, node: &str, core: &str, program: &str) -> Result<Command> {
        let [first, rest @ ..] = on(core);
        let mut command = inside(self.driver, &self.lab, node, first)?;
        command.args(rest).arg(program);
        Ok(command)
    }

    /// Starts `netloom generate` with smallest frames for nobody on a link, for this many seconds.
    pub(crate) fn generate(
        &self,
        link: usize,
        engine: &str,
        rate: &str,
        seconds: f64,
    ) -> Result<Running> {
        self.stream(link, &Stream { to: To::Nobody, size: SMALL, engine, rate, seconds })
    }

    /// Starts `netloom generate` on a link.
    pub(crate) fn stream(&self, link: usize, stream: &Stream<'_>) -> Result<Running> {
        let Stream { to: station, size, engine, rate, seconds } = *stream;
        let (from, to) = self.link(link)?;
        let mut command = self.netloom(cores()[0]);
        command.arg("generate").arg(format!("a:{}", from.name));
        let mac = if station == To::Nobody { NOBODY } else { &to.mac };
        command.args(["--to", &to.address, "--to-mac", mac, "--size", &size.to_string()]);
        command.args(["--rate", rate, "--engine", engine, "--json"]);
        command.args(["--duration", &milliseconds(seconds)]);
        Running::start(&mut command, &format!("generate {engine} {rate}"))
    }

    /// Number of links.
    pub(crate) fn links(&self) -> usize {
        self.links.len()
    }

    /// Has the first links' frames received by threads of the kernel on the capturers' core: the sender's core only sends.
    pub(crate) fn receive_apart(&self, links: usize) -> Result<()> {
        for (_, end) in self.links.iter().take(links) {
            let mut command = inside(self.driver, &self.lab, "b", "env")?;
            command.arg(self.driver.own()).args(["peer", "receive-apart", &end.name, cores()[1]]);
            output(&mut command)?;
        }
        Ok(())
    }

    /// Frames received so far by the other end of a link, from its interface's counters.
    pub(crate) fn received(&self, link: usize) -> Result<u64> {
        let mut command = inside(self.driver, &self.lab, "b", "cat")?;
        counted(&output(command.arg("/proc/self/net/dev"))?, self.receiver(link)?)
    }
}

/// The syntax of netloom's duration flags.
pub(crate) fn milliseconds(seconds: f64) -> String {
    format!("{:.0}ms", seconds * 1e3)
}

/// Frames that a generator sent, and their rate per second.
pub(crate) fn sent(report: &Value) -> Result<(u64, f64)> {
    let frames =
        report["frames_sent"].as_u64().with_context(|| format!("no frames in {report}"))?;
    let rate = report["packets_per_second"].as_f64();
    Ok((frames, rate.with_context(|| format!("no rate in {report}"))?))
}

/// Frames that a generator made and the interface refused: the receiver had no room.
pub(crate) fn refused(report: &Value) -> u64 {
    report["frames_refused"].as_u64().unwrap_or(0)
}

/// Received frames from a line of /proc/net/dev: `eth0: BYTES FRAMES ...`.
fn counted(text: &str, interface: &str) -> Result<u64> {
    let own = |line: &'_ str| -> Option<u64> {
        let (name, counts) = line.split_once(':')?;
        (name.trim() == interface).then_some(())?;
        counts.split_whitespace().nth(1)?.parse().ok()
    };
    match text.lines().find_map(own) {
        Some(frames) => Ok(frames),
        None => bail!("{interface}: no counters of it"),
    }
}

/// A shell that takes all labs down and removes the folder if this process ends without doing so.
struct Undertaker(Child);

impl Undertaker {
    fn wait(driver: &Driver) -> Result<Undertaker> {
        // Ctrl-C reaches all programs of a terminal, but this one must stay.
        const SCRIPT: &str = "trap '' INT TERM HUP; cat; \"$1\" down --all; rm -rf \"$2\"";
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "sh"]).arg(driver.exe()).arg(driver.folder());
        command.env("NETLOOM_RUNTIME_DIR", driver.runtime());
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Undertaker(command.spawn().context("start a shell")?))
    }
}

impl Drop for Undertaker {
    fn drop(&mut self) {
        // This process cleans up itself then. `cat` ends with the pipe.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn counters_are_the_interfaces_own() {
        let text = "Inter-|   Receive  |  Transmit\n face |bytes    packets errs\n    lo:     0       9    0\n  \
                    eth0: 104140522 1735672    0    0\n eth01: 1 2 0\n";
        assert_eq!(counted(text, "eth0").unwrap(), 1_735_672);
        assert_eq!(counted(text, "eth01").unwrap(), 2);
        assert!(counted(text, "eth1").is_err());
    }

    #[test]
    fn what_was_sent_is_read() {
        let report = json!({"engine": "live-frames", "frames_sent": 966_249, "frames_refused": 0,
            "packets_per_second": 901_597.459});
        let (frames, rate) = sent(&report).unwrap();
        assert!(frames == 966_249 && (rate - 901_597.459).abs() < 1e-6);
        assert!(sent(&json!({})).is_err());
        assert_eq!(milliseconds(1.5), "1500ms");
    }
}
