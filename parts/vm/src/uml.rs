//! User-mode Linux as a program: the library preloaded into it, and whether it boots on this machine.
//!
//! Its kernels before Linux 6.13 run no program where the processor's extended state is larger than they provide for
//! (AMX). `preload/xstate.c` says what is done about that; where it is not needed it passes every call on.

use std::fs;
use std::io::Read;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use netloom_model::kinds::vm::{Accel, Machine};
use netloom_sys::{Unsupported, process};
use rustix::process::{Pid, Signal};

use crate::{accel, command};

/// The variable by which the loader preloads it.
pub(crate) const PRELOAD: &str = "LD_PRELOAD";
/// Its file in a folder.
const LIBRARY: &str = "xstate.so";
/// The library; empty for processors that need none.
const XSTATE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/xstate.so"));

/// What a guest says that has come as far as its first program, and that program.
const WORD: &str = "netloom-booted";
const FIRST_PROGRAM: &str = "/bin/echo";
/// How long a boot may take: some 0.3 s on an idle machine.
const LONGEST_BOOT: Duration = Duration::from_secs(20);
/// How much of a console is read.
const MOST_OUTPUT: u64 = 1 << 16;

/// Puts the library into a folder; `None` if there is none for this processor.
pub(crate) fn place(folder: &Path) -> std::io::Result<Option<PathBuf>> {
    if XSTATE.is_empty() {
        return Ok(None);
    }
    let file = folder.join(LIBRARY);
    fs::write(&file, XSTATE)?;
    Ok(Some(file))
}

/// Boots a guest that says a word, and waits for it: the program that was booted, or what it refused.
///
/// # Errors
/// User-mode Linux is not installed, or the guest did not come as far as its first program.
pub fn boots() -> std::result::Result<String, Unsupported> {
    let machine = Machine { accel: Accel::Uml, ..Machine::default() };
    if let Some(lacking) = accel::lacking(&machine) {
        return Err(Unsupported { feature: "User-mode Linux", ..lacking });
    }
    let program = accel::found_program(&machine).unwrap_or_default();
    booted(&program, LONGEST_BOOT).map(|()| program.display().to_string()).map_err(|reason| {
        Unsupported {
            feature: "User-mode Linux",
            reason: format!("{}: {reason}", program.display()),
            needs: "run guests by QEMU: leave out accel: uml, and give a kernel and an initrd, or a disk"
                .to_owned(),
        }
    })
}

/// Boots a guest by this program; else says why it did not.
fn booted(program: &Path, within: Duration) -> std::result::Result<(), String> {
    let folder = Folder::new().map_err(|e| format!("make a folder for it: {e}"))?;
    let mut guest = start(program, &folder.0).map_err(|e| format!("start it: {e}"))?;
    let said = read(&mut guest, Instant::now() + within);
    // Its processes are in its group.
    let group = i32::try_from(guest.id()).ok().and_then(Pid::from_raw);
    if let Some(group) = group {
        let _ = rustix::process::kill_process_group(group, Signal::KILL);
    }
    let ended = guest.wait().map_or_else(|e| e.to_string(), |status| status.to_string());
    if said.lines().any(|line| line.starts_with(WORD)) {
        Ok(())
    } else {
        Err(refusal(&said, &ended))
    }
}

fn start(program: &Path, folder: &Path) -> std::io::Result<Child> {
    let mut command = Command::new(program);
    command.args(["mem=64M", "con=null", "con0=null,fd:1", "panic=-1", "quiet"]);
    command.args([command::NO_RAID6, "rootfstype=hostfs", "rootflags=/", "ro"]);
    command.arg(format!("uml_dir={}", folder.display())).arg(format!("umid={}", command::UMID));
    command.arg(format!("init={FIRST_PROGRAM}")).args(["--", WORD]);
    // The guest's memory is a file in TMPDIR, which is to lie in memory.
    command.env_clear().env("TMPDIR", "/dev/shm").env("HOME", folder).current_dir("/");
    if let Some(library) = place(folder)? {
        command.env(PRELOAD, library);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command.process_group(0).spawn()
}

/// What a guest says, until it has said its word, ends, or the time is over.
fn read(guest: &mut Child, until: Instant) -> String {
    let Some(mut console) = guest.stdout.take() else { return String::new() };
    let mut said = Vec::new();
    let mut part = [0; 4096];
    while (said.len() as u64) < MOST_OUTPUT
        && process::wait_readable(&console, until.saturating_duration_since(Instant::now()))
    {
        match console.read(&mut part) {
            Ok(count) if count > 0 => said.extend_from_slice(&part[..count]),
            _ => break,
        }
        if String::from_utf8_lossy(&said).lines().any(|line| line.starts_with(WORD)) {
            break;
        }
    }
    String::from_utf8_lossy(&said).into_owned()
}

/// Why a guest that said this, and ended like that, did not boot.
fn refusal(said: &str, ended: &str) -> String {
    let lines = || said.lines().map(str::trim).filter(|line| !line.is_empty());
    let tells = |word: &str| lines().find(|line| line.contains(word));
    let line = tells("errno = ").or_else(|| tells("panic")).or_else(|| lines().next_back());
    match line {
        Some(line) => format!("its guest did not boot: {line}"),
        None => format!("its guest said nothing and ended: {ended}"),
    }
}

/// A folder that goes when it is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> std::io::Result<Folder> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("netloom-uml-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Its remains do not change the answer.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests;
