//! `exec` and `shell`: the caller's own process goes into a node.

use anyhow::Result;
use netloom_node::entry::{self, Task};

use crate::labs;

/// `netloom exec`
pub(crate) fn exec(lab: Option<&str>, node: &str, argv: Vec<String>) -> Result<i32> {
    enter(lab, node, Task { argv, own_group: false })
}

/// `netloom shell`
pub(crate) fn shell(lab: Option<&str>, node: &str) -> Result<i32> {
    let wanted = std::env::var("SHELL").ok().filter(|s| s.starts_with('/'));
    let shell = wanted.unwrap_or_else(|| "/bin/sh".into());
    let shell = if std::path::Path::new(&shell).exists() { shell } else { "/bin/sh".into() };
    enter(lab, node, Task { argv: vec![shell], own_group: true })
}

fn enter(lab: Option<&str>, node: &str, task: Task) -> Result<i32> {
    let door = labs::connect(lab)?.door(node)?;
    let exit = entry::run(&door, &task)?;
    Ok(exit.shell_code())
}
