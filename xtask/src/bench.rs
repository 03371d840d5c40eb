//! `bench [NAME] [ARGS]`: experiments of the release binary, such as `bench lab --quick`; without a name, all of
//! them. One that fails does not keep the others from being run. `bench --against FOLDER` compares two builds
//! ([`compare`]).

mod compare;

use std::process::Command;

use anyhow::{Result, bail};

use crate::workspace;

/// Experiments run when none is named.
const ALL: &[&str] = &[
    "lab", "node", "flood", "images", "people", "wire", "switch", "openflow", "slice", "plug",
    "capture", "disk", "generate", "measure", "record", "guard",
];

pub(crate) fn run(args: &[String]) -> Result<()> {
    let compare = compare::Compare::parse(args)?;
    let binary = workspace::netloom(true)?;
    // Beside it, where it is found.
    workspace::bench(true)?;
    if let Some(compare) = compare {
        return compare.run(&binary);
    }
    let one = |name: &str, rest: &[String]| {
        workspace::must(Command::new(&binary).arg("bench").arg(name).args(rest))
    };
    match args.split_first() {
        Some((name, rest)) if !name.starts_with('-') => one(name, rest),
        _ => {
            let failed: Vec<&str> =
                ALL.iter().copied().filter(|name| one(name, args).is_err()).collect();
            if failed.is_empty() { Ok(()) } else { bail!("failed: {}", failed.join(", ")) }
        }
    }
}
