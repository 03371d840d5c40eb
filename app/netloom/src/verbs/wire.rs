//! The process that carries the frames of a lab's wires: started by the lab process, not by users.
//!
//! It keeps no right but that of its user, and nothing open that is not its own. Until it listens it
//! ends with its starter, because no socket names it yet.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use anyhow::{Context, Result, bail};
use netloom_lab::Folder;
use netloom_sys::{caps, process};
use rustix::fs::Mode;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// `netloom wire-process`
pub(crate) fn process(starter: i32, path: &Path) -> Result<i32> {
    process::die_with_parent(true)?;
    let parent = rustix::process::getppid().map(|p| p.as_raw_nonzero().get());
    if parent != Some(starter) {
        bail!("its starter has ended");
    }
    let (Some(runtime), Some(name)) = (path.parent(), path.file_name().and_then(|n| n.to_str()))
    else {
        bail!("{path:?}: not a lab's folder");
    };
    let folder = Folder::new(runtime, name);
    let listener = listen(&folder.wire_socket()).context("listen")?;
    process::die_with_parent(false)?;
    // No key and no hang-up of a terminal reaches it.
    let _ = rustix::process::setsid();
    process::close_all_but(&[listener.as_fd()]);
    rustix::process::chdir("/").context("leave the folder")?;
    caps::drop_all()?;
    netloom_wire::serve(listener, &folder.path())?;
    Ok(0)
}

fn listen(path: &Path) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    // What one that died left behind makes room.
    let _ = rustix::fs::unlink(path);
    // Its mode is that of the process's mask while it is bound.
    let mask = rustix::process::umask(Mode::from_raw_mode(0o177));
    let bound = rustix::net::bind(&socket, &SocketAddrUnix::new(path)?);
    rustix::process::umask(mask);
    bound?;
    rustix::net::listen(&socket, 16)?;
    Ok(socket)
}
