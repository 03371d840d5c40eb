//! `down`: takes a lab down, whether its process lives or not.

use std::time::Duration;

use anyhow::Result;
use netloom_lab::calls;
use netloom_lab::{Folder, orphan, runtime_dir};
use netloom_sys::process;
use rustix::process::Pid;

use crate::flags::Down;
use crate::labs::Wish;
use crate::{labs, output};

/// How long a lab process may take to end after taking its lab down.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// `netloom down`
pub(crate) fn down(wish: &Wish, args: &Down) -> Result<i32> {
    if args.all {
        return all();
    }
    let folder = labs::chosen(wish.or(args.name.as_deref())?)?;
    take_down(&folder)?;
    output::print(&format!("lab {}: down\n", folder.name()))?;
    Ok(0)
}

/// Takes down every lab, continuing after failures.
fn all() -> Result<i32> {
    let folders = Folder::all(&runtime_dir()?)?;
    let mut code = 0;
    for folder in folders {
        match in_own_process(&folder) {
            0 => output::print(&format!("lab {}: down\n", folder.name()))?,
            // The others are taken down all the same; the last failure is told.
            failed => code = failed,
        }
    }
    Ok(code)
}

/// Takes a lab down in a child process: an ordinary user's orphan requires entering its user namespace.
pub(super) fn in_own_process(folder: &Folder) -> i32 {
    let forked = process::fork_alone(process::Namespaces::NONE, None);
    match forked {
        Ok(process::Forked::Child) => {
            let code = take_down(folder).map_or_else(|e| crate::report(&e), |()| 0);
            process::exit_now(code)
        }
        Ok(process::Forked::Parent(pid)) => match process::wait_or_stop(pid) {
            Ok(Some(exit)) => exit.shell_code(),
            _ => 1,
        },
        Err(e) => crate::report(&e.into()),
    }
}

/// Takes a lab down and waits until its process has ended too. A process that does not answer is killed.
pub(crate) fn take_down(folder: &Folder) -> Result<()> {
    use netloom_api::Error::{Closed, Late, NotRunning, Refused, Silent};
    // Before the call: the file with the number goes with the lab.
    let lab_process =
        folder.read_pid().and_then(Pid::from_raw).and_then(|p| process::pidfd(p).ok());
    let client = netloom_api::Client::connect(&folder.path());
    match client.and_then(|client| client.telling(labs::tell_silent).call(&calls::Down {})) {
        Ok(_) => {
            if let Some(pidfd) = lab_process {
                // `netloom up` right after this must not find the old process.
                process::wait_end(&pidfd, END_TIMEOUT);
            }
            super::record::wait_for_end(folder);
            Ok(())
        }
        Err(NotRunning(_)) => without_process(folder),
        // It was killed before or during teardown: this process removes the rest.
        Err(Closed { .. })
            if lab_process.is_none_or(|pidfd| process::wait_end(&pidfd, END_TIMEOUT)) =>
        {
            if folder.exists()? { without_process(folder) } else { Ok(()) }
        }
        // So is one that answers, and is at something that does not end.
        Err(Silent { .. } | Late { .. } | Refused { status: 503, .. }) if !folder.is_scope() => {
            orphan::kill_lab_process(folder, &labs::tell)?;
            if folder.exists()? { without_process(folder) } else { Ok(()) }
        }
        Err(e) => Err(e.into()),
    }
}

/// Takes down a lab that has no process.
fn without_process(folder: &Folder) -> Result<()> {
    match orphan::down_orphan(folder.runtime(), folder.name(), &labs::tell) {
        // It was there when it was looked up: its process has just ended with it.
        Err(netloom_lab::Error::NoLab(_)) => {}
        outcome => outcome?,
    }
    super::record::wait_for_end(folder);
    Ok(())
}
