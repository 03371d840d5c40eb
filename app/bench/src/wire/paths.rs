//! The measured paths between two nodes: links with wires, a plain link, and the plain link with netem.

use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::cells::{PLAIN, Trait};
use crate::driver::{Driver, output};
use crate::facts::{Facts, Interface, Ledger};
use crate::machine::is_root;

pub(super) const LAB: &str = "bench-wire";

/// How long a wire may take to drain.
const DRAIN: Duration = Duration::from_secs(10);
/// Pause between two checks of a wire.
const LOOK: Duration = Duration::from_millis(20);
/// Time for packets in flight on a path without a wire.
const SETTLE: Duration = Duration::from_millis(150);

/// The implementation that impairs a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Who {
    /// A link's wire.
    Netloom,
    /// The kernel's queueing discipline, at both ends of the plain link.
    Netem,
}

/// The lab with all links; it is taken down with its driver.
pub(super) struct Paths<'a> {
    pub(super) driver: &'a Driver,
}

impl<'a> Paths<'a> {
    /// Brings the lab up; `seed` starts the random losses.
    pub(super) fn up(driver: &'a Driver, all: &[Trait], seed: u32) -> Result<Paths<'a>> {
        driver.up(&driver.lab_file(LAB, &lab_file(all, seed))?)?;
        Ok(Paths { driver })
    }

    /// Runs `body` with the link that has the impairment, and its ends in `a` and `b`.
    pub(super) fn on<T>(
        &self,
        who: Who,
        what: Trait,
        body: impl FnOnce(&Path<'_>) -> Result<T>,
    ) -> Result<T> {
        let name = match who {
            Who::Netloom => what.link(),
            Who::Netem => PLAIN.to_owned(),
        };
        let facts = Facts::of(self.driver, LAB)?;
        let (a, b) = (facts.interface("a", &name)?, facts.interface("b", &name)?);
        let wire = who == Who::Netloom && what != Trait::Nothing;
        let path = Path { driver: self.driver, link: name, wire, b: b.address.clone() };
        let netem = what.netem().filter(|_| who == Who::Netem);
        let Some(words) = netem else { return body(&path) };
        let ends = [("a", &a), ("b", &b)];
        let ends = if what.both_ways() { &ends[..] } else { &ends[..1] };
        ends.iter().try_for_each(|end| self.tc(*end, "replace", &words))?;
        let result = body(&path);
        ends.iter().try_for_each(|end| self.tc(*end, "delete", &[]))?;
        result
    }

    fn tc(&self, (node, end): (&str, &Interface), verb: &str, words: &[String]) -> Result<()> {
        let mut command = self.driver.command();
        command
            .args(["-l", LAB, "exec", node, "--", "tc", "qdisc", verb, "dev", &end.name, "root"]);
        output(command.args(words)).map(|_| ())
    }
}

/// One link between the nodes.
pub(super) struct Path<'a> {
    pub(super) driver: &'a Driver,
    link: String,
    wire: bool,
    /// The address of the far end.
    pub(super) b: String,
}

impl Path<'_> {
    /// The counters of its wire so far; `None` without a wire.
    pub(super) fn ledger(&self) -> Result<Option<Ledger>> {
        if !self.wire {
            return Ok(None);
        }
        Facts::of(self.driver, LAB)?.ledger(&self.link).map(Some)
    }

    /// Waits until nothing is in flight.
    pub(super) fn drained(&self) -> Result<()> {
        let end = Instant::now() + DRAIN;
        while self.ledger()?.is_some_and(|ledger| ledger.held > 0) {
            if Instant::now() > end {
                bail!("link {}: its wire still holds packets after {DRAIN:?}", self.link);
            }
            sleep(LOOK);
        }
        sleep(SETTLE);
        Ok(())
    }
}

fn lab_file(all: &[Trait], seed: u32) -> String {
    let mut text = format!(
        "name: {LAB}\nnodes:\n  a: {{}}\n  b: {{}}\nlinks:\n  - {{ends: [a, b], name: {PLAIN}}}\n"
    );
    for one in all.iter().filter(|one| **one != Trait::Nothing) {
        let settings = match one {
            Trait::Loss(_) => format!("a: {{{}, seed: {seed}}}", one.settings()),
            _ if one.both_ways() => one.settings(),
            _ => format!("a: {{{}}}", one.settings()),
        };
        text += &format!("  - {{ends: [a, b], name: {}, {settings}}}\n", one.link());
    }
    text
}

/// The version of `tc` if it and the kernel support netem; otherwise the reason why not.
pub(super) fn netem() -> Result<String, &'static str> {
    let Ok(version) = output(Command::new("tc").arg("-V")) else { return Err("no `tc` program") };
    let mut command = Command::new("unshare");
    if !is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--net", "tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"]);
    match output(&mut command) {
        Ok(_) => Ok(version.trim().to_owned()),
        Err(_) => Err("the kernel has no netem"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_trait_has_a_link() {
        let text =
            lab_file(&[Trait::Nothing, Trait::Delay(10), Trait::Loss(10), Trait::Rate(5)], 7);
        let links: Vec<&str> = text.lines().filter(|line| line.starts_with("  - ")).collect();
        assert_eq!(
            links,
            [
                "  - {ends: [a, b], name: plain}",
                "  - {ends: [a, b], name: delay-10ms, delay: 10ms}",
                "  - {ends: [a, b], name: loss-1, a: {loss: 1%, seed: 7}}",
                "  - {ends: [a, b], name: rate-5mbit, a: {rate: 5mbit}}",
            ]
        );
    }
}
