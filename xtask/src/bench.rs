//! `bench [NAME [ARGS]]`: experiments of the release binary; without a name, all of them.

use std::process::Command;

use anyhow::Result;

use crate::workspace;

/// Experiments run when none is named.
const ALL: &[&str] = &[
    "lab", "node", "flood", "images", "wire", "switch", "plug", "capture", "disk", "generate",
    "measure",
];

pub(crate) fn run(args: &[String]) -> Result<()> {
    let binary = workspace::netloom(true)?;
    match args.split_first() {
        Some((name, rest)) => {
            workspace::must(Command::new(&binary).arg("bench").arg(name).args(rest))
        }
        None => {
            for name in ALL {
                workspace::must(Command::new(&binary).args(["bench", name]))?;
            }
            Ok(())
        }
    }
}
