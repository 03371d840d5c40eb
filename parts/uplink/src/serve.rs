//! The process: runs the program, starts it again when it ends or hangs, and ends with its lab.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use netloom_sys::{Failure, disposition, journal, namespace, process};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal};

use crate::hung::Watch;
use crate::tap::Tap;
use crate::{Error, Result, Spec};

/// How often the lab's folder is looked for.
const LOOK: Duration = Duration::from_millis(500);

/// How often the program's tap is looked for.
const SOON: Duration = Duration::from_millis(5);

/// A program that ends before this was of no use.
const AT_ONCE: Duration = Duration::from_secs(1);

/// The pause before a program is started again: the first one and the longest.
const PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(5)];

/// Runs the program for the network namespace `space` until SIGTERM, or until the lab's folder is gone.
///
/// It gives the calling process a mount namespace of its own: call it in a single-threaded process that does nothing else.
///
/// # Errors
/// The system refuses something, or the program ends at once the first time.
pub fn serve(spec: &Spec, space: &OwnedFd) -> Result<()> {
    process::set_name(crate::NAME);
    let signals =
        process::catch(&[Signal::TERM.as_raw()]).map_err(Failure::of("uplink", "catch signals"))?;
    // The mount of the namespace is then nobody else's, and goes with this process.
    namespace::private_mounts().map_err(Failure::of("uplink", "have mounts of its own"))?;
    mount(spec, space)?;
    let mut tap = Tap::in_space(space)?;
    let mut pause = PAUSES[0];
    let mut first = true;
    loop {
        let start = Instant::now();
        let Some(status) = run(spec, &mut tap, &signals)? else { return Ok(()) };
        let program = spec.tool.program.display();
        if start.elapsed() < AT_ONCE {
            // It has never worked here: that is for the user to know, and not to be tried again.
            if first {
                return Err(Error::Ended { program: program.to_string(), status });
            }
            pause = (pause * 2).min(PAUSES[1]);
        } else {
            pause = PAUSES[0];
        }
        first = false;
        journal::line(format_args!("lab {}: {program} ended ({status}); starts again", spec.lab));
        if !wait(spec, &signals, None, pause)? {
            return Ok(());
        }
    }
}

/// Mounts the namespace at its place, where the program finds it by a path: other ways to name one need rights that the
/// program gives up first, or a descriptor that it closes.
fn mount(spec: &Spec, space: &OwnedFd) -> Result<()> {
    let place = &spec.place;
    let made = File::options().write(true).create(true).truncate(false).mode(0o600).open(place);
    made.map_err(|e| Failure::path(place, "make", e))?;
    let source = format!("/proc/self/fd/{}", space.as_raw_fd());
    rustix::mount::mount_bind(source.as_str(), place)
        .map_err(|e| Failure::path(place, "mount a network namespace", e))?;
    Ok(())
}

/// Runs the program once. `None`: this process is to end, and the program was ended.
fn run(spec: &Spec, tap: &mut Tap, signals: &OwnedFd) -> Result<Option<ExitStatus>> {
    let object = spec.tool.program.display().to_string();
    let failed = |operation| Failure::of(&object, operation);
    // What an earlier start has printed stays.
    let log = File::options().append(true).create(true).mode(0o600).open(&spec.log);
    let log = log.map_err(Failure::of(spec.log.display().to_string(), "open"))?;
    let mut command = Command::new(&spec.tool.program);
    command.args(spec.tool.arguments(&spec.place)).env_clear();
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    // It must not outlive this process, which alone watches over it.
    disposition::start_mortal(&mut command);
    let mut child = command.spawn().map_err(failed("start"))?;
    let pid = Pid::from_child(&child);
    let pidfd = process::pidfd(pid).map_err(Failure::of(&object, "watch"))?;
    let mut watch = Watch::over(pid.as_raw_nonzero().get());
    let since = Instant::now();
    let (mut pause, mut refused) = (SOON, false);
    while wait(spec, signals, Some(&pidfd), pause)? {
        if let Some(status) = child.try_wait().map_err(failed("wait for"))? {
            return Ok(Some(status));
        }
        match tap.tend() {
            Ok(look) => {
                // A new program makes its tap within milliseconds,
                // and what the lab asks before is lost.
                let soon = !look.ready && since.elapsed() < AT_ONCE;
                pause = if soon && !refused { SOON } else { LOOK };
                if watch.hangs(look.frames.unwrap_or(0)) {
                    let lab = &spec.lab;
                    journal::line(format_args!(
                        "lab {lab}: {object} passes nothing, and does not rest: is killed"
                    ));
                    // The next turn hears of its end.
                    child.kill().map_err(failed("kill"))?;
                }
            }
            // It may have gone meanwhile, and another one come.
            Err(e) => {
                if !std::mem::replace(&mut refused, true) {
                    journal::line(format_args!("lab {}: {e}", spec.lab));
                }
                pause = LOOK;
            }
        }
    }
    end(&mut child);
    Ok(None)
}

/// Waits until the program has ended or the time is over. `false`: this process is to end.
fn wait(spec: &Spec, signals: &OwnedFd, program: Option<&OwnedFd>, time: Duration) -> Result<bool> {
    let timeout = Timespec::try_from(time).unwrap_or_default();
    let mut all = vec![PollFd::new(signals, PollFlags::IN)];
    all.extend(program.map(|pidfd| PollFd::new(pidfd, PollFlags::IN)));
    match poll(&mut all, Some(&timeout)) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(e) => return Err(Failure::new("uplink", "wait", e).into()),
    }
    Ok(all[0].revents().is_empty() && spec.home.exists())
}

/// Ends a child of this process, whose number cannot have been reused.
fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}
