//! How soon a User-mode Linux machine answers: from `netloom up` of a lab with a node and a machine, to its first reply to
//! the node's ping.

use std::time::Instant;

use anyhow::{Context, Result};

use super::guest::UML;
use super::image::program;
use crate::driver::{Driver, output};

/// A machine with a neighbour.
const LAB: &str = "name: vm-boot
nodes:
  n: {}
  guest: {kind: vm, accel: uml, memory: 64MiB}
links:
  - {ends: [n, guest], addresses: {n: 10.99.9.1/24, guest: 10.99.9.2/24}}
";

/// Seconds until it answers.
pub(super) fn boot(driver: &Driver) -> Result<f64> {
    program(UML)?;
    let file = driver.lab_file("vm-boot", LAB)?;
    let start = Instant::now();
    driver.up(&file)?;
    let mut ping = driver.command();
    ping.args(["-l", "vm-boot", "exec", "n", "--", "ping", "-c", "1", "-W", "5", "10.99.9.2"]);
    let answered = output(&mut ping).context("a machine that is up does not answer");
    let time = start.elapsed().as_secs_f64();
    driver.down("vm-boot")?;
    answered.map(|_| time)
}
