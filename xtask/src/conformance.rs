//! `conformance [ARGS]`: os-ken's switch tests on our OpenFlow switch; see `tests/conformance`.

use std::process::Command;

use anyhow::{Context, Result};

use crate::workspace::{self, Artifacts};

pub(crate) fn run(args: &[String]) -> Result<()> {
    let built = Artifacts::build(&["build", "--package", "netloom-conformance"])?;
    let program = built.program("conformance").context("cargo built no binary `conformance`")?;
    let mut command = Command::new(program);
    workspace::must(command.args(args).current_dir(workspace::root()))
}
