//! The verbs, a module for each or for a few related ones; each returns the exit code.

mod adhoc;
mod apply;
mod behind;
mod capture;
mod copy;
mod doctor;
mod down;
mod enter;
mod events;
mod fates;
mod figures;
mod files;
mod flow;
mod fmt;
mod foreign;
mod generate;
mod guard;
mod hosts;
mod image;
mod link;
mod list;
mod listening;
mod logs;
mod losses;
mod lsp;
mod machine;
mod mcp;
mod measure;
mod new;
mod node;
mod opening;
pub(crate) mod over;
mod packets;
mod paging;
mod ping;
mod plug;
mod record;
mod roles;
#[cfg(test)]
mod samples;
mod saved;
mod serve;
mod slice;
mod switch;
mod test;
mod top;
mod up;
mod why;
mod wording;

use std::os::fd::OwnedFd;

use anyhow::{Context, Result};
use netloom_sys::disposition;

use crate::bench;
use crate::flags::{Cli, Export, Verb};
use crate::labs::{self, Wish};

/// Runs the command line.
pub(crate) fn run(cli: Cli) -> Result<i32> {
    let wish = Wish::new(cli.lab);
    let lab = wish.lab();
    match cli.verb {
        Verb::Up(args) => match &args.on {
            Some(on) => over::verbs::up(&wish, &args, on),
            None => up::up(&wish, &args),
        },
        Verb::Apply(args) => match &args.on {
            Some(on) => over::changing::apply(&wish, &args, on),
            None => apply::apply(&wish, &args),
        },
        Verb::Run(args) => up::run(&wish, &args),
        Verb::Down(args) => match &args.on {
            Some(on) => over::verbs::down(&wish, &args, on),
            None => down::down(&wish, &args),
        },
        Verb::Test(args) => test::test(&args),
        Verb::New(args) => new::new(&args),
        Verb::Example(args) => new::example(&wish, &args),
        Verb::Check(args) => match &args.on {
            Some(on) => hosts::check(&args, on),
            None => files::check(&args),
        },
        Verb::Fmt(args) => fmt::fmt(&args),
        Verb::Import(args) => foreign::import(&args),
        Verb::Export(Export::Lab(args)) => saved::export(lab, &args),
        Verb::Export(Export::C9s(args)) => foreign::export_c9s(&args),
        Verb::Export(Export::Containerlab(args)) => foreign::export(&args),
        Verb::Export(Export::Kubernetes(args)) => over::pods::export(&args),
        Verb::Schema => files::schema(),
        Verb::Graph(args) => files::graph(&wish, &args),
        Verb::Completions { shell } => files::completions(shell),
        Verb::CompleteWords { words } => files::complete_words(&words),
        Verb::Man { folder } => files::man(&folder),
        Verb::Ls(args) => list::ls(&args),
        Verb::Status(args) => match &args.on {
            Some(on) => over::verbs::status(&wish, &args.status, on),
            None => list::status(&wish, &args.status),
        },
        Verb::Events(args) => events::events(&wish, &args),
        Verb::Top(args) => top::top(&wish, &args),
        Verb::Node(verb) => node::node(lab, verb),
        Verb::Link(verb) => link::link(lab, &verb),
        Verb::Switch(verb) => switch::switch(lab, verb),
        Verb::Flow(verb) => flow::flow(lab, verb),
        Verb::Slice(verb) => slice::slice(lab, verb),
        Verb::Plug(args) => plug::plug(labs::name(lab)?.as_deref(), &args),
        Verb::Capture(args) => match &args.on {
            Some(on) => over::elsewhere::capture(lab, &args, on),
            None => capture::capture(labs::name(lab)?.as_deref(), &args),
        },
        Verb::Generate(args) => generate::generate(labs::name(lab)?.as_deref(), &args),
        Verb::Replay(args) => generate::replay(labs::name(lab)?.as_deref(), &args),
        Verb::Measure(args) => measure::measure(lab, &args),
        Verb::Serve(args) => serve::serve(&wish, &args),
        Verb::Mcp(args) => mcp::mcp(lab, &args),
        Verb::Lsp => lsp::lsp(),
        Verb::Exec(args) => match &args.on {
            Some(on) => over::verbs::exec(lab, &args, on),
            None => enter::exec(lab, args),
        },
        Verb::Shell(args) => enter::shell(lab, &args.node),
        Verb::TerminalProcess { starter, node } => enter::terminal(lab, starter, &node),
        Verb::CaptureProcess { starter, args } => {
            roles::begin(starter)?;
            capture::capture(labs::name(lab)?.as_deref(), &args)
        }
        Verb::MeasureProcess { starter, args } => {
            roles::begin(starter)?;
            measure::measure(lab, &args)
        }
        Verb::Guard(args) => guard::guard(lab, &args),
        Verb::Logs(args) => match &args.on {
            Some(on) => over::elsewhere::logs(lab, &args, on),
            None => logs::logs(lab, &args),
        },
        Verb::Cp(args) => copy::cp(lab, &args),
        Verb::Ping(args) => match &args.on {
            Some(on) => over::verbs::ping(lab, &args, on),
            None => ping::ping(lab, &args),
        },
        Verb::Why(args) => why::why(lab, &args),
        Verb::Record(verb) => match verb.on() {
            Some(on) => over::recorded::record(lab, &verb, on),
            None => record::record(lab, &verb),
        },
        Verb::Packets(args) => match &args.on {
            Some(on) => over::recorded::packets(lab, &args, on),
            None => packets::packets(lab, &args),
        },
        Verb::Image(verb) => image::image(&verb),
        Verb::Agent(_) => over::agent::agent(),
        Verb::Doctor(args) => doctor::doctor(&args),
        Verb::Bench { words } => bench::bench(&words),
        Verb::WireProcess { starter, folder } => roles::wire(starter, &folder),
        Verb::SpawnerProcess => roles::spawner(),
        Verb::SwitchProcess { starter, socket, state, options } => {
            roles::switch(starter, &socket, &state, &options)
        }
        Verb::RouterProcess { starter, lock, init, spec } => {
            roles::router(starter, &lock, init, &spec)
        }
        Verb::PortsProcess { starter, lock, spec } => roles::ports(starter, &lock, &spec),
        Verb::UplinkProcess { starter, lock, spec } => roles::uplink(starter, &lock, &spec),
        Verb::FlowProcess { starter, folder, socket, application } => {
            roles::flow(starter, &folder, &socket, &application)
        }
        Verb::SliceProcess { starter, folder, socket, application } => {
            roles::slice(starter, &folder, &socket, &application)
        }
        Verb::PlugProcess { starter, lock, switch, name, kind } => {
            roles::plug(starter, &lock, &switch, &name, kind)
        }
        Verb::TestLab { starter, name, file, ignore_limits, captures } => {
            test::lab(starter, &file, &name, ignore_limits, captures.as_deref())
        }
        Verb::NetworkState { what, name } => match what.as_str() {
            "read" => why::state::read(&name),
            _ => why::state::put(&name),
        },
        Verb::Probe { asked } => test::probe(&asked),
        Verb::RecordProcess { starter, folder, keep, inside } => {
            record::process(starter, &folder, keep, inside)
        }
        Verb::VmProcess => machine::process(),
        Verb::VmStart { argv } => machine::start(&argv),
        Verb::VmGuest { data, .. } => machine::guest(&data),
        Verb::VmShell => machine::shell(),
        Verb::VmClient { what, most, argv } => machine::client(&what, most, argv),
        Verb::VdeProcess { starter, lock, switch, folder, options } => {
            roles::vde(starter, &lock, &switch, &folder, &options)
        }
    }
}

/// Catches the signals that end a verb running until interrupted: SIGTERM, and SIGINT and SIGHUP unless the
/// caller ignored them.
pub(crate) fn ending() -> Result<OwnedFd> {
    disposition::catch_ending().context("catch signals")
}
