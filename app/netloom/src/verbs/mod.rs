//! One module a verb or a few of a kind; each gives the exit code.

mod bench;
mod copy;
mod doctor;
mod down;
mod enter;
mod fates;
mod figures;
mod files;
mod link;
mod list;
mod logs;
mod node;
mod ping;
#[cfg(test)]
mod samples;
mod up;
mod wire;

use anyhow::Result;

use crate::flags::{Cli, Verb};

/// Does what the command line says.
pub(crate) fn run(cli: Cli) -> Result<i32> {
    let lab = cli.lab.as_deref();
    match cli.verb {
        Verb::Up(args) => up::up(&args),
        Verb::Run(args) => up::run(&args),
        Verb::Down(args) => down::down(lab, &args),
        Verb::Check(args) => files::check(&args),
        Verb::Schema => files::schema(),
        Verb::Graph(args) => files::graph(lab, &args),
        Verb::Completions { shell } => files::completions(shell),
        Verb::Man { folder } => files::man(&folder),
        Verb::Ls(args) => list::ls(&args),
        Verb::Status(args) => list::status(lab, &args),
        Verb::Node(verb) => node::node(lab, verb),
        Verb::Link(verb) => link::link(lab, &verb),
        Verb::Exec(args) => enter::exec(lab, args),
        Verb::Shell(args) => enter::shell(lab, &args.node),
        Verb::Logs(args) => logs::logs(lab, &args),
        Verb::Cp(args) => copy::cp(lab, &args),
        Verb::Ping(args) => ping::ping(lab, &args),
        Verb::Doctor(args) => doctor::doctor(&args),
        Verb::Bench(args) => bench::bench(&args),
        Verb::WireProcess { starter, folder } => wire::process(starter, &folder),
        Verb::BenchPeer { args } => bench::peer(&args),
    }
}
