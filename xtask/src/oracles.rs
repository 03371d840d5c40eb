//! `oracles [FORMAT...]`: imports of random valid labs, compared with what the programs say whose labs these are.
//!
//! Each of [`FORMATS`] has a driver in `tests/oracles`, in Python. The original program goes into a folder below
//! `target/oracles`, in one version; the machine's own packages stay as they are.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::workspace;

const HELP: &str = "\
usage: cargo xtask oracles [FORMAT...] [--n N] [--seed S] [--case NUMBER] [--write]

  --n N          number of labs of each format (200)
  --seed S       others than in every run (1)
  --case NUMBER  only this lab, in full
  --write        puts the table into docs/guide/import.md

NETLOOM_CONTAINERLAB names the folder of a checkout of containerlab, whose types are asked then.
";

/// Where a table goes, and what is around it.
const PAGE: &str = "docs/guide/import.md";
const START: &str = "<!-- cargo xtask oracles --write -->\n";
const END: &str = "<!-- end of oracles -->\n";

/// Reads our lab files in drivers.
const YAML: &str = "pyyaml==6.0.3";

/// A program whose labs are read.
struct Format {
    /// Its driver's name.
    name: &'static str,
    /// How the table calls it, with its version.
    title: &'static str,
    source: Source,
}

/// Where a program comes from.
enum Source {
    /// PyPI, in a virtual environment of its own.
    Pip(&'static [&'static str]),
    /// Packages of Debian, unpacked below the folder's `root` and not installed.
    Deb(&'static [&'static str]),
    /// A module of Go, in versions that its `go.sum` names: a folder beside the drivers, built as `reader`.
    Go(&'static str),
    /// A command of a module of Go that Go's module proxy does not have: a folder beside the drivers, built as `reader`
    /// within a checkout of the module, whose folder stands in this variable.
    Checkout { command: &'static str, variable: &'static str },
}

const FORMATS: &[Format] = &[
    Format { name: "mininet", title: "Mininet 2.3.0", source: Source::Deb(&["mininet=2.3.0-1"]) },
    Format { name: "kathara", title: "Kathara 3.8.3", source: Source::Pip(&["kathara==3.8.3"]) },
    Format { name: "netlab", title: "netlab 26.10", source: Source::Pip(&["networklab==26.10"]) },
    Format { name: "gns3", title: "GNS3 2.2.61", source: Source::Pip(&["gns3-server==2.2.61"]) },
    Format {
        name: "envsubst",
        title: "containerlab's envsubst 0.2.0",
        source: Source::Go("envsubst"),
    },
    Format {
        name: "containerlab",
        title: "containerlab's types 0.79",
        source: Source::Checkout { command: "containerlab", variable: "NETLOOM_CONTAINERLAB" },
    },
];

pub(crate) fn run(args: &[String]) -> Result<()> {
    let (mut names, mut passed, mut write) = (vec![], vec![], false);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--write" => write = true,
            "--n" | "--seed" | "--case" => {
                let value = args.next().with_context(|| format!("{arg} needs a number"))?;
                passed.extend([arg.clone(), value.clone()]);
            }
            "--help" | "-h" => {
                print!("{HELP}");
                return Ok(());
            }
            name if FORMATS.iter().any(|format| format.name == name) => names.push(name),
            other => bail!("no format `{other}`\n{HELP}"),
        }
    }
    let chosen = FORMATS.iter().filter(|format| names.is_empty() || names.contains(&format.name));
    let netloom = workspace::netloom(false)?;
    let mut rows = vec![];
    for format in chosen {
        if let Source::Checkout { variable, .. } = format.source
            && env::var_os(variable).is_none()
        {
            println!("{}: left out; set {variable} to the folder of a checkout", format.title);
            continue;
        }
        rows.push((format.title, ask(format, &netloom, &passed)?));
    }
    let table = table(&rows);
    print!("{table}");
    if write { put(&table) } else { Ok(()) }
}

/// Runs a format's driver; what came of its labs.
fn ask(format: &Format, netloom: &Path, passed: &[String]) -> Result<Value> {
    let folder = workspace::root().join("target/oracles").join(format.name);
    let python = installed(format, &folder)?;
    let driver = workspace::root().join("tests/oracles/oracles.py");
    let mut command = Command::new(python);
    command.arg(driver).arg(format.name).arg("--netloom").arg(netloom).arg("--folder");
    workspace::must(command.arg(&folder).args(passed).env("PYTHONDONTWRITEBYTECODE", "1"))?;
    let path = folder.join("counts.json");
    let text = fs::read(&path).with_context(|| format!("read {}", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("read {}", path.display()))
}

/// Installs a program unless it is there; the Python that runs its driver.
fn installed(format: &Format, folder: &Path) -> Result<PathBuf> {
    let venv = folder.join("venv");
    let python = venv.join("bin/python");
    let (packages, debs): (&[&str], &[&str]) = match format.source {
        Source::Pip(packages) => (packages, &[]),
        Source::Deb(debs) => (&[], debs),
        Source::Go(_) | Source::Checkout { .. } => (&[], &[]),
    };
    let done = folder.join("installed");
    let module = match format.source {
        Source::Go(_) | Source::Checkout { .. } => format.title,
        _ => "",
    };
    let wanted = format!("{YAML} {} {}{module}\n", packages.join(" "), debs.join(" "));
    if fs::read_to_string(&done).is_ok_and(|text| text == wanted) {
        return Ok(python);
    }
    println!("installing {} into {}", format.title, folder.display());
    fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
    workspace::must(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv))?;
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", YAML]);
    workspace::must(pip.args(packages))?;
    for deb in debs {
        workspace::must(Command::new("apt-get").args(["download", deb]).current_dir(folder))?;
    }
    for entry in fs::read_dir(folder).context("read the folder")? {
        let file = entry.context("read the folder")?.path();
        if file.extension().is_some_and(|end| end == "deb") {
            let root = folder.join("root");
            workspace::must(Command::new("dpkg-deb").arg("-x").arg(&file).arg(&root))?;
        }
    }
    if let Source::Go(module) = format.source {
        let source = workspace::root().join("tests/oracles").join(module);
        let mut go = Command::new("go");
        go.args(["build", "-mod=readonly", "-buildvcs=false", "-o"]).arg(folder.join("reader"));
        workspace::must(go.arg(".").current_dir(source))?;
    }
    if let Source::Checkout { command, variable } = format.source {
        within(command, &env::var(variable).with_context(|| format!("read {variable}"))?, folder)?;
    }
    // Last: an installation that was interrupted is made again.
    fs::write(&done, wanted).with_context(|| format!("write {}", done.display()))?;
    Ok(python)
}

/// Builds a command within a checkout, which stays as it is.
fn within(command: &str, checkout: &str, folder: &Path) -> Result<()> {
    let source = workspace::root().join("tests/oracles").join(command).join("main.go");
    let place = Path::new(checkout).join("cmd/netloom-oracle/main.go");
    let overlay = folder.join("overlay.json");
    let replaced = [(place.to_string_lossy(), source.to_string_lossy())];
    let replaced: BTreeMap<_, _> = replaced.into_iter().collect();
    let text = serde_json::json!({ "Replace": replaced });
    fs::write(&overlay, text.to_string())
        .with_context(|| format!("write {}", overlay.display()))?;
    let mut go = Command::new("go");
    go.args(["build", "-mod=readonly", "-buildvcs=false", "-overlay"]).arg(&overlay);
    go.arg("-o").arg(folder.join("reader")).arg("./cmd/netloom-oracle").current_dir(checkout);
    workspace::must(&mut go)
}

/// The results as a table in Markdown.
fn table(rows: &[(&str, Value)]) -> String {
    let mut text = String::from(
        "| program | labs | same | told | different | refused |\n|---|---|---|---|---|---|\n",
    );
    for (title, counts) in rows {
        let number = |key: &str| counts[key].as_u64().unwrap_or(0);
        let columns = ["inputs", "same", "told", "different", "refused"].map(number);
        let columns = columns.map(|number| number.to_string()).join(" | ");
        text.push_str(&format!("| {title} | {columns} |\n"));
    }
    text
}

/// Replaces the table of the guide.
fn put(table: &str) -> Result<()> {
    let path = workspace::root().join(PAGE);
    let text = fs::read_to_string(&path).with_context(|| format!("read {PAGE}"))?;
    let parts = text.split_once(START).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(END)?;
        Some((before, after))
    });
    let (before, after) = parts.with_context(|| format!("{PAGE} has no place for the table"))?;
    let text = format!("{before}{START}{table}{END}{after}");
    fs::write(&path, text).with_context(|| format!("write {PAGE}"))
}
