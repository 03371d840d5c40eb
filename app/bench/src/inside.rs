//! Runs programs in a node's network namespace but in the host's file system: a node's own file system does
//! not contain the host's sockets that programs reach by path.

use std::process::Command;

use anyhow::{Context, Result};

use crate::driver::Driver;
use crate::machine::is_root;

/// A command that runs `program` this way.
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
