//! `exec` and `shell`: the caller's own process enters a node, or the node's init starts the program.

use anyhow::Result;
use netloom_node::by_init::Call;
use netloom_node::entry::{self, Task};

use crate::flags::Exec;
use crate::labs;

/// `netloom exec`
pub(crate) fn exec(lab: Option<&str>, args: Exec) -> Result<i32> {
    let task = Task { argv: args.command, own_group: false, keep_root: args.no_root };
    enter(lab, &args.node, task)
}

/// `netloom shell`
pub(crate) fn shell(lab: Option<&str>, node: &str) -> Result<i32> {
    let wanted = std::env::var("SHELL").ok().filter(|s| s.starts_with('/'));
    let shell = wanted.unwrap_or_else(|| "/bin/sh".into());
    let shell = if std::path::Path::new(&shell).exists() { shell } else { "/bin/sh".into() };
    enter(lab, node, Task { argv: vec![shell], own_group: true, keep_root: false })
}

fn enter(lab: Option<&str>, node: &str, task: Task) -> Result<i32> {
    let client = labs::connect(lab)?;
    let entry = client.entry(node)?;
    let exit = if entry.by_init {
        let call = Call::prepare(&entry, &task)?;
        client.run_in(node, &call.handed_over())?;
        call.wait()?
    } else {
        drop(client);
        entry::run(&entry, &task)?
    };
    Ok(exit.shell_code())
}
