//! `loom`: models of the switch's rings, in every order of memory accesses.
//!
//! They are built with `--cfg loom` into a separate folder, since changing that flag rebuilds everything.

use anyhow::{Result, bail};

use crate::workspace;

pub(crate) fn run(args: &[String]) -> Result<()> {
    if let Some(argument) = args.first() {
        bail!("`loom` takes no argument, not `{argument}`");
    }
    let what = ["test", "-p", "netloom-shm", "--release", "--lib", "ring_loom"];
    let mut cargo = workspace::cargo(&what);
    cargo.env("RUSTFLAGS", "--cfg loom");
    if std::env::var_os("CARGO_TARGET_DIR").is_none() {
        cargo.env("CARGO_TARGET_DIR", workspace::root().join("target/loom"));
    }
    workspace::must(&mut cargo)
}
