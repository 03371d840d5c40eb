//! `exec` and `shell`: the caller's own process enters a node, or the node's init starts the program.
//!
//! Of a virtual machine users mean the guest: what enters the node around it is a client of the machine's process.

use anyhow::{Context, Result};
use netloom_node::by_init::Call;
use netloom_node::entry::{self, Entry, Task};

use crate::flags::Exec;
use crate::labs;

/// `netloom exec`
pub(crate) fn exec(lab: Option<&str>, args: Exec) -> Result<i32> {
    let task = Task { argv: args.command, own_group: false, keep_root: args.no_root };
    enter(lab, &args.node, |entry| match entry.machine && !task.keep_root {
        true => of_machine("exec", task.argv),
        false => task,
    })
}

/// `netloom shell`
pub(crate) fn shell(lab: Option<&str>, node: &str) -> Result<i32> {
    let wanted = std::env::var("SHELL").ok().filter(|s| s.starts_with('/'));
    let shell = wanted.unwrap_or_else(|| "/bin/sh".into());
    let shell = if std::path::Path::new(&shell).exists() { shell } else { "/bin/sh".into() };
    enter(lab, node, |entry| match entry.machine {
        true => of_machine("console", vec![]),
        false => Task { argv: vec![shell], own_group: true, keep_root: false },
    })
}

/// `netloom terminal-process`: a shell on the terminal that is the standard input, which is nobody's yet. It ends with its starter,
/// and hears of that terminal's end by SIGHUP.
pub(crate) fn terminal(lab: Option<&str>, starter: i32, node: &str) -> Result<i32> {
    super::roles::begin(starter)?;
    // Only the leader of a session may take a terminal (ioctl_tty(2)).
    rustix::process::setsid().context("terminal: begin a session")?;
    rustix::process::ioctl_tiocsctty(rustix::stdio::stdin()).context("terminal: take it")?;
    shell(lab, node)
}

/// `netloom node pause`, `resume`, `save` and `restore`.
pub(crate) fn control(lab: Option<&str>, node: &str, word: &str) -> Result<i32> {
    let client = labs::connect(lab)?;
    let entry = client.entry(node)?;
    if !entry.machine {
        return Err(crate::Usage(format!("node {node:?} is not a virtual machine")).into());
    }
    run(&client, &entry, &of_machine(word, vec![]))
}

/// A client of the machine's process, in the node around it. It is this program, wherever that lies.
pub(crate) fn of_machine(what: &str, rest: Vec<String>) -> Task {
    client(&[what], rest)
}

/// The same for a program whose output has at most this many bytes.
pub(crate) fn of_machine_with(most: u64, rest: Vec<String>) -> Task {
    client(&["exec", "--most", &most.to_string()], rest)
}

fn client(words: &[&str], rest: Vec<String>) -> Task {
    let own = ["/proc/self/exe", "vm-client"].iter().chain(words).chain(&["--"]);
    let argv = own.map(|word| (*word).to_owned()).chain(rest).collect();
    Task { argv, own_group: false, keep_root: false }
}

fn enter(lab: Option<&str>, node: &str, task: impl FnOnce(&Entry) -> Task) -> Result<i32> {
    let client = labs::connect(lab)?;
    let entry = client.entry(node)?;
    let task = task(&entry);
    run(&client, &entry, &task)
}

/// Runs a task in a node.
pub(crate) fn run(client: &netloom_api::Client, entry: &Entry, task: &Task) -> Result<i32> {
    let exit = if entry.by_init {
        let call = Call::prepare(entry, task)?;
        client.run_in(&entry.node, &call.handed_over())?;
        call.wait()?
    } else {
        entry::run(entry, task)?
    };
    Ok(exit.shell_code())
}
