//! Programs that run in a node's network namespace, but in the host's file system: sockets of the host
//! that programs are to reach by their paths are not seen from a node's own.

use std::process::Command;

use anyhow::{Context, Result};

use crate::driver::Driver;
use crate::machine::is_root;

/// A command that runs `program` so.
pub(crate) fn inside(driver: &Driver, lab: &str, node: &str, program: &str) -> Result<Command> {
    let shown = driver.json(&["-l", lab, "node", "show", node, "--json"])?;
    let pid = shown["pid"].as_u64().with_context(|| format!("{lab}: {node} has no process"))?;
    let mut command = Command::new("nsenter");
    command.args(["--target", &pid.to_string(), "--net"]);
    if !is_root() {
        command.args(["--user", "--preserve-credentials"]);
    }
    command.arg("--").arg(program);
    command.env("NETLOOM_RUNTIME_DIR", driver.runtime());
    Ok(command)
}
