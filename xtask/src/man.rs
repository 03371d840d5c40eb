//! `man [DIR]`: man pages, made by the binary from its own flags.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::workspace;

pub(crate) fn run(args: &[String]) -> Result<()> {
    let dir = args.first().map_or_else(|| workspace::root().join("target/man"), PathBuf::from);
    write(&workspace::netloom(false)?, &dir)?;
    println!("man pages are in {}", dir.display());
    Ok(())
}

/// Has `binary` write its man pages into `dir`.
pub(crate) fn write(binary: &Path, dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("make {}", dir.display()))?;
    workspace::must(Command::new(binary).arg("man").arg(dir))
}
