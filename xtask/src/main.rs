//! The single command of the workspace: `cargo xtask VERB`. Each verb is a module.
//!
//! It never runs cargo as a user other than the caller.

#![forbid(unsafe_code)]

mod bench;
mod check;
mod codegen;
mod conformance;
mod dist;
mod faults;
mod fuzz;
mod man;
mod models;
mod oracles;
mod packages;
mod size;
mod test;
mod web;
mod workspace;

use std::process::ExitCode;

use anyhow::{Result, bail};

const HELP: &str = "\
usage: cargo xtask VERB

  check                     layers, module headers, licences, unsafe; prints long files and functions
  test [RUNG [FILTER]]      rungs: unit, netns, e2e, peers; without one: all of these;
                            FILTER is part of a crate's folder or of a test's name
       --peers required     a test that is skipped for a peer that set-up installs has failed
       --only-peers         the rung peers, and tests that lacked a peer in a run before
       --list               only the names of the tests, each with its user
  test browser              chromium under guard, where it is installed
  test kill --seed S --n N  the crash test: N kills at random moments
  test attack [--rounds N]  hostile members, storms, kills and the like, N times as often as in `test`
  test kernel [--kernel PACKAGE | --newer] [FILTER]
                            the namespace rung and the demo under Debian's kernel, in QEMU without KVM
  codegen [--check]         write (or compare) the files that are made from the code
  web [--check]             write (or compare) the lab's page in web/dist, from web/src (needs node and npm)
  man [DIR]                 man pages, by default into target/man
  dist                      a tarball in dist/: binary, man pages, completions, README, licences
  packages [--out FOLDER]   deb, rpm, tarball, list of components, checksums; --help
  fuzz [SECONDS [TARGET]]   every fuzz target, by default 60 s each; or one alone
  conformance [DIRECTORY...]  os-ken's switch tests on our OpenFlow switch; --help
  oracles [FORMAT...]       imports of random labs, compared with the programs whose labs they are; --help
  faults [--only TEXT]      plants faults in labs and asks `netloom why`; --help
  loom                      models of the switch's rings (needs no more than cargo)
  bench [NAME]              experiments of the release binary, by default all
  bench --against FOLDER [--turns N] NAME...
                            the release binary and the build in FOLDER, in alternating turns
  size                      lines of the product, by crate
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[String]) -> Result<()> {
    let (verb, rest) = match args.split_first() {
        Some((verb, rest)) => (verb.as_str(), rest),
        None => ("help", args),
    };
    match verb {
        "check" => check::run(),
        "test" => test::run(rest),
        "codegen" => codegen::run(rest),
        "man" => man::run(rest),
        "dist" => dist::run(),
        "packages" => packages::run(rest),
        "faults" => faults::run(rest),
        "fuzz" => fuzz::run(rest),
        "loom" => models::run(rest),
        "conformance" => conformance::run(rest),
        "oracles" => oracles::run(rest),
        "bench" => bench::run(rest),
        "size" => size::run(),
        "web" => web::run(rest),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            Ok(())
        }
        other => bail!("no verb `{other}`\n{HELP}"),
    }
}
