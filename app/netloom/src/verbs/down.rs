//! `down`: takes a lab down, whether its process lives or not.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use netloom_lab::calls;
use netloom_lab::{Folder, orphan, runtime_dir};
use netloom_sys::process;
use netloom_sys::trusted::identity;
use rustix::process::Pid;

use crate::flags::Down;
use crate::input::STDIN;
use crate::labs::Wish;
use crate::{Usage, labs, output};

/// How long a lab process may take to end after taking its lab down.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// `netloom down`
pub(crate) fn down(wish: &Wish, args: &Down) -> Result<i32> {
    if args.all {
        return all();
    }
    let asked = wish.or(args.name.as_deref())?;
    let folder = labs::chosen(asked)?;
    if let Some(asked) = asked {
        refuse_other_file(&folder, Path::new(asked))?;
    }
    take_down(&folder)?;
    output::print(&format!("lab {}: down\n", folder.name()))?;
    Ok(0)
}

/// Refuses to take down a lab that was made from another file than the one that names it: two files may give their labs
/// the same name. A file that was moved is the same lab, and so is its own file by another path.
fn refuse_other_file(folder: &Folder, asked: &Path) -> Result<()> {
    let by_name = asked.as_os_str() == folder.name();
    if by_name || folder.is_scope() || asked == Path::new(STDIN) {
        return Ok(());
    }
    // What cannot be read must not keep a lab up.
    let Ok(Some(state)) = folder.read_state() else { return Ok(()) };
    let Some(made) = state.file else { return Ok(()) };
    if is_same_lab(&made, asked) {
        return Ok(());
    }
    Err(Usage(format!(
        "{asked:?}: the lab {name:?} that runs is from another file, {made:?}; `netloom down {name}` takes that down",
        name = folder.name(),
    ))
    .into())
}

/// Whether two paths are one file, or a folder and a file in it, as for labs of other programs; also where one is gone.
fn is_same_lab(made: &Path, asked: &Path) -> bool {
    let identity = |path: &Path| Some(identity(&rustix::fs::stat(path).ok()?));
    let (Some(made_is), Some(asked_is)) = (identity(made), identity(asked)) else { return true };
    let folder_of = |path: &Path| {
        let path = std::path::absolute(path).ok()?;
        path.parent().and_then(identity)
    };
    made_is == asked_is || folder_of(made) == Some(asked_is) || folder_of(asked) == Some(made_is)
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
pub(crate) fn in_own_process(folder: &Folder) -> i32 {
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
