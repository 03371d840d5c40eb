//! The hidden verbs of virtual machines: the machine's process, its last step, its guest, and clients of it.

use std::path::Path;

use anyhow::Result;

/// `netloom vm-process`: starts the machine that its environment describes, and looks after it.
pub(crate) fn process() -> Result<i32> {
    Ok(netloom_vm::serve()?)
}

/// `netloom vm-start`: gives up all rights and becomes the machine.
pub(crate) fn start(argv: &[String]) -> Result<i32> {
    match netloom_vm::start::become_machine(argv)? {}
}

/// `netloom vm-guest`: the first process of a guest.
pub(crate) fn guest(data: &Path) -> Result<i32> {
    match netloom_vm::guest::run(data)? {}
}

/// `netloom vm-shell`: the shell on a guest's console.
pub(crate) fn shell() -> Result<i32> {
    match netloom_vm::guest::become_shell()? {}
}

/// `netloom vm-client`: a client of the machine of the node in which it runs.
pub(crate) fn client(what: &str, most: Option<u64>, argv: Vec<String>) -> Result<i32> {
    Ok(match what {
        "console" => netloom_vm::client::console()?,
        "exec" => netloom_vm::client::exec(argv, most.unwrap_or(u64::MAX))?,
        word => netloom_vm::client::control(word)?,
    })
}
