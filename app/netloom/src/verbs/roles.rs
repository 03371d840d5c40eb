//! This program in other roles: processes that a lab process starts, never users.
//!
//! Each keeps no rights beyond its user's, and only its own descriptors. Until something of its own
//! identifies it (a socket it listens on, a lock it holds) it ends with the process that started it, because
//! nothing else could find it; from then on it survives that process.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use anyhow::{Context, Result, bail};
use netloom_flow::Application;
use netloom_lab::{Folder, OUTSIDE, Role, SwitchOptions};
use netloom_plug::{Kind, Lock, Options};
use netloom_switch::classic;
use netloom_sys::private_socket::Named;
use netloom_sys::{caps, process};

use crate::flags::PortKind;

/// Makes this process end with its starter from now on.
pub(super) fn begin(starter: i32) -> Result<()> {
    process::die_with_parent(true)?;
    // A starter that ended before the line above would never give the signal.
    let parent = rustix::process::getppid().map(|p| p.as_raw_nonzero().get());
    if parent != Some(starter) {
        bail!("its starter has ended");
    }
    Ok(())
}

/// [`begin`] in a role, by whose name others know this process before it has anything of its own.
fn take_role(starter: i32, role: Role) -> Result<()> {
    process::set_name(role.process());
    begin(starter)
}

/// Makes this process independent of its starter, with only `keep` and its output streams open.
fn detach(keep: &[BorrowedFd<'_>]) -> Result<()> {
    process::die_with_parent(false)?;
    // Key signals and a terminal's hang-up must not reach it.
    let _ = rustix::process::setsid();
    process::close_all_but(keep);
    rustix::process::chdir("/").context("leave the folder")
}

/// [`detach`] that also drops every capability.
fn settle(keep: &[BorrowedFd<'_>]) -> Result<()> {
    detach(keep)?;
    caps::drop_all()?;
    Ok(())
}

/// `netloom wire-process`: carries the frames of a lab's wires.
pub(crate) fn wire(starter: i32, path: &Path) -> Result<i32> {
    take_role(starter, Role::Wire)?;
    let (Some(runtime), Some(name)) = (path.parent(), path.file_name().and_then(|n| n.to_str()))
    else {
        bail!("{path:?}: not a lab's folder");
    };
    let folder = Folder::new(runtime, name);
    let listener = netloom_wire::control::listen(&folder.wire_socket())?;
    settle(&[listener.as_fd()])?;
    netloom_wire::serve(listener, &folder.path())?;
    Ok(0)
}

/// `netloom switch-process`: runs a shared-memory switch.
pub(crate) fn switch(starter: i32, socket: &Path, state: &Path, options: &str) -> Result<i32> {
    take_role(starter, Role::Switch)?;
    let options: SwitchOptions = serde_json::from_str(options).context("its options")?;
    let listener = netloom_switch::listen(socket, options.mode)?;
    if let Some(group) = options.group {
        // Members of the group also need access to the socket.
        Named::hold(socket)
            .and_then(|named| named.give(None, Some(group)))
            .with_context(|| format!("{socket:?}: give it to group {group}"))?;
    }
    let plane = match options.plane {
        Some(ports) => {
            let space = take_stdin().context("the network namespace of its ports")?;
            detach(&[listener.as_fd(), space.as_fd()])?;
            // It needs its capabilities for that, and none for what it keeps there later.
            netloom_switch::Plane::open(space, &ports).map(Some).unwrap_or_else(|e| {
                netloom_sys::journal::line(format_args!("{}", netloom_sys::describe(&e)));
                None
            })
        }
        None => {
            detach(&[listener.as_fd()])?;
            None
        }
    };
    caps::drop_all()?;
    let options = netloom_switch::Options {
        mode: options.mode,
        group: options.group,
        downlink: usize::try_from(options.arena)?,
        ageing: options.ageing,
        ..netloom_switch::Options::default()
    };
    netloom_switch::serve_beside(plane, listener, socket, state, &options)?;
    Ok(0)
}

/// `netloom spawner-process`: clones inits for a lab process whose spawner was killed. Its standard input is
/// the socket for requests.
pub(crate) fn spawner() -> Result<i32> {
    let socket =
        rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3).context("its socket")?;
    // It ends with that socket, and so with its client.
    netloom_node::spawner::serve_at(socket)
}

/// `netloom plug-process`: carries frames between a switch and the port that is its standard input.
pub(crate) fn plug(
    starter: i32,
    lock: &Path,
    switch: &Path,
    name: &str,
    kind: PortKind,
) -> Result<i32> {
    take_role(starter, Role::Plug)?;
    let port = take_stdin().context("its port")?;
    let kind = match kind {
        PortKind::Tap => Kind::Tap,
        PortKind::Beside => Kind::Beside,
        PortKind::Packet => Kind::Packet,
        PortKind::Ring => Kind::Ring,
        PortKind::Guest => Kind::Guest,
    };
    // It lives as long as the folder that contains its lock.
    let options = Options::new(kind, switch, name, lock.parent().unwrap_or(lock));
    let lock = Lock::take(lock)?;
    detach(&[port.as_fd(), lock.as_fd()])?;
    // It still needs its capabilities to set the port up.
    netloom_plug::serve(port, lock, &options)?;
    Ok(0)
}

/// `netloom vde-process`: offers a shared-memory switch to clients of classic VDE.
pub(crate) fn vde(
    starter: i32,
    lock: &Path,
    switch: &Path,
    folder: &Path,
    options: &str,
) -> Result<i32> {
    take_role(starter, Role::Vde)?;
    let options: SwitchOptions = serde_json::from_str(options).context("its options")?;
    // It is found by its lock, so clients are there before that.
    let folder = classic::Folder::make(folder, options.mode, options.group)?;
    let home = lock.parent().unwrap_or(lock).to_owned();
    let lock = Lock::take(lock)?;
    let [control, console] = folder.descriptors();
    detach(&[lock.as_fd(), control, console])?;
    // Sockets of clients are theirs alone, and the one that a client is given becomes its own.
    caps::drop_all_but(caps::FOR_OTHERS_SOCKETS)?;
    let options = classic::Options {
        switch: switch.to_owned(),
        mode: options.mode,
        group: options.group,
        ageing: options.ageing,
        home,
    };
    classic::serve(folder, &options)?;
    drop(lock);
    Ok(0)
}

/// `netloom flow-process`: runs an OpenFlow switch in the network namespace that is its standard input.
pub(crate) fn flow(starter: i32, folder: &Path, socket: &Path, application: &str) -> Result<i32> {
    take_role(starter, Role::Flow)?;
    let space = take_stdin().context("its network namespace")?;
    let application: Application = serde_json::from_str(application).context("its options")?;
    let listener = netloom_flow::control::listen(socket)?;
    detach(&[listener.as_fd(), space.as_fd()])?;
    // It still needs its capabilities for its ports and for controllers in other namespaces.
    netloom_flow::serve_in(space, OUTSIDE, listener, folder, &application)?;
    Ok(0)
}

/// `netloom slice-process`: runs the slicer of a lab.
pub(crate) fn slice(starter: i32, folder: &Path, socket: &Path, application: &str) -> Result<i32> {
    take_role(starter, Role::Slice)?;
    let application: netloom_slice::Application =
        serde_json::from_str(application).context("its options")?;
    let listener = netloom_slice::control::listen(socket)?;
    detach(&[listener.as_fd()])?;
    // It still needs its capabilities for controllers in other namespaces.
    netloom_slice::serve(listener, folder, &application)?;
    Ok(0)
}

/// `netloom router-process`: follows the router whose network namespace is its standard input.
pub(crate) fn router(starter: i32, lock: &Path, init: i32, spec: &str) -> Result<i32> {
    take_role(starter, Role::Router)?;
    let spec: netloom_router::Spec = serde_json::from_str(spec).context("what it is told")?;
    let space = take_stdin().context("its network namespace")?;
    let pid = rustix::process::Pid::from_raw(init).context("the number of the router's init")?;
    let router = process::pidfd(pid).context("the router's init")?;
    let now = netloom_sys::namespace::network_of(pid).context("the router's network")?;
    // The number may be another process's by now.
    let inode = |fd: BorrowedFd<'_>| rustix::fs::fstat(fd).map(|stat| stat.st_ino);
    if inode(now.as_fd())? != inode(space.as_fd())? {
        bail!("the router has ended");
    }
    netloom_sys::namespace::enter_network(&space).context("enter the router's network")?;
    // The namespace is to end with the router.
    drop((space, now));
    let lock = Lock::take(lock)?;
    detach(&[router.as_fd(), lock.as_fd()])?;
    netloom_router::serve(&spec, &router)?;
    drop(lock);
    Ok(0)
}

/// `netloom uplink-process`: passes what leaves the network namespace that is its standard input.
pub(crate) fn uplink(starter: i32, lock: &Path, spec: &str) -> Result<i32> {
    take_role(starter, Role::Uplink)?;
    let spec: netloom_uplink::Spec = serde_json::from_str(spec).context("what it is told")?;
    let space = take_stdin().context("a network namespace")?;
    let lock = Lock::take(lock)?;
    detach(&[space.as_fd(), lock.as_fd()])?;
    netloom_uplink::serve(&spec, &space)?;
    drop(lock);
    Ok(0)
}

/// `netloom ports-process`: publishes the ports of the node whose network namespace is its standard input.
pub(crate) fn ports(starter: i32, lock: &Path, spec: &str) -> Result<i32> {
    take_role(starter, Role::Publish)?;
    let spec: netloom_publish::Spec = serde_json::from_str(spec).context("what it is told")?;
    let space = take_stdin().context("the node's network namespace")?;
    // It is found by its lock, and `up` and `apply` then say that ports lead into the node.
    let sockets = netloom_publish::listen(&spec)?;
    let lock = Lock::take(lock)?;
    let kept = sockets.iter().map(AsFd::as_fd).chain([space.as_fd(), lock.as_fd()]);
    detach(&kept.collect::<Vec<_>>())?;
    netloom_publish::serve(&spec, sockets, space)?;
    drop(lock);
    Ok(0)
}

/// The standard input, which is empty from now on.
fn take_stdin() -> Result<OwnedFd> {
    let taken = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let nothing = std::fs::File::open("/dev/null").context("open /dev/null")?;
    rustix::stdio::dup2_stdin(&nothing).context("let go of the standard input")?;
    Ok(taken)
}
