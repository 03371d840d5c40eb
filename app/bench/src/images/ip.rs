//! The same operations by iproute2 on network namespaces.

use std::process::Command;

use anyhow::{Context, Result};

use super::OPERATIONS;
use crate::driver::{output, timed};

/// Its description in the rows.
pub(super) const SETTINGS: &str = "whole command; a network namespace only: no processes of its own, \
                                   no file system, names or limits";

/// iproute2's version; `None` when it is not installed.
pub(super) fn version() -> Option<String> {
    output(Command::new("ip").arg("-V")).ok().map(|text| text.trim().to_owned())
}

/// Namespaces removed with this value; two share a link, one end of which moves.
pub(super) struct Work {
    prefix: String,
    nodes: u32,
}

impl Work {
    pub(super) fn new(nodes: u32) -> Result<Work> {
        let work = Work { prefix: format!("bench-images-{}", std::process::id()), nodes };
        for node in 0..nodes {
            ip(&["netns", "add", &work.namespace(node)])?;
        }
        let (first, other) = (work.namespace(0), work.namespace(2));
        let pair = ["link", "add", "moved", "type", "veth", "peer", "name", "fixed", "netns"];
        let mut command = vec!["-n", &first];
        command.extend(pair);
        command.push(&other);
        ip(&command)?;
        Ok(work)
    }

    /// Seconds of each operation.
    pub(super) fn operations(&self, round: usize) -> Result<[f64; OPERATIONS.len()]> {
        let (one, two) = (self.namespace(0), self.namespace(1));
        let (from, to) = if round.is_multiple_of(2) { (&one, &two) } else { (&two, &one) };
        let extra = self.namespace(self.nodes);
        Ok([
            ip(&["netns", "add", &extra])?,
            ip(&["netns", "exec", &one, "true"])?,
            ip(&["-n", from, "link", "set", "moved", "netns", to])?,
            ip(&["netns", "list"])?,
            ip(&["netns", "delete", &extra])?,
        ])
    }

    fn namespace(&self, node: u32) -> String {
        format!("{}-{node}", self.prefix)
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // One more: the extra one of an aborted round.
        for node in 0..=self.nodes {
            let mut delete = Command::new("ip");
            delete.args(["netns", "delete", &self.namespace(node)]);
            // Missing ones cause an error.
            let _ = output(&mut delete);
        }
    }
}

fn ip(args: &[&str]) -> Result<f64> {
    timed(Command::new("ip").args(args)).context("ip")
}
