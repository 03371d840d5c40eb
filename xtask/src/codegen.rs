//! `codegen`: committed files that are generated from the code; `--check` only compares.

use std::fs;

use anyhow::{Context, Result, bail};

use crate::workspace;

/// Packages, and the tests that compare committed texts with what the code gives, or rewrite them on request: the API's
/// document, and the tables of keys in the guide.
const TESTED: &[(&str, &str)] =
    &[("netloom-api", "document"), ("netloom-model", "integration::guide")];

fn tested(only_compare: bool) -> Result<()> {
    for (package, test) in TESTED {
        let mut cargo = workspace::cargo(&["test", "--quiet", "--package", package, "--lib"]);
        if !only_compare {
            cargo.env("UPDATE", "1");
        }
        workspace::must(cargo.arg(test))?;
    }
    Ok(())
}

/// The Python client, which follows from the API's document.
fn client(only_compare: bool) -> Result<()> {
    let mut python = std::process::Command::new("python3");
    python.arg(workspace::root().join("python/generate.py"));
    workspace::must(if only_compare { python.arg("--check") } else { &mut python })
}

/// Arguments of the binary, and the file for its output.
const GENERATED: &[(&[&str], &str)] = &[
    (&["schema"], "docs/lab.schema.json"),
    (&["graph", "--svg", "--file", "examples/two-sites.yaml"], "docs/guide/two-sites.svg"),
    (&["graph", "--svg", "--file", "examples/fat-tree.yaml"], "docs/guide/fat-tree.svg"),
];

pub(crate) fn run(args: &[String]) -> Result<()> {
    let only_compare = match args {
        [] => false,
        [flag] if flag == "--check" => true,
        other => bail!("codegen takes --check or nothing, got {other:?}"),
    };
    tested(only_compare)?;
    let binary = workspace::netloom(false)?;
    client(only_compare)?;
    for (arguments, file) in GENERATED {
        let fresh = workspace::output(
            std::process::Command::new(&binary).args(*arguments).current_dir(workspace::root()),
        )?;
        let path = workspace::root().join(file);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(|| format!("make the folder of {file}"))?;
        }
        if fs::read(&path).is_ok_and(|known| known == fresh) {
            println!("{file}: as it should be");
        } else if only_compare {
            bail!("{file} is not what the code gives: run `cargo xtask codegen`");
        } else {
            fs::write(&path, fresh).with_context(|| format!("write {file}"))?;
            println!("{file}: written");
        }
    }
    Ok(())
}
