//! Where an address leads: paths of UNIX sockets are resolved as the caller would, and held.
//!
//! A reached object has a path only if the caller has the place's mounts, and the same file is found by that path there.

use std::borrow::Cow;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use netloom_policy::{Direction, Port, Protocol, Target};
use netloom_sys::lookup::open_within;
use netloom_sys::process::Status;
use netloom_sys::seccomp::rights::Rights;
use netloom_sys::seccomp::sight::{object, path_of};
use netloom_sys::seccomp::{Caller, Sight, perform};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, open};
use rustix::io::Errno;
use rustix::net::{AddressFamily, Shutdown, shutdown};

use super::{Kept, Prepared};
use crate::address::{Address, lead_to};
use crate::socket::Socket;

/// An address that was read, with the file or folder that its path leads to.
#[derive(Debug)]
pub(crate) struct Place {
    /// The address as the caller passed it.
    bytes: Vec<u8>,
    /// For a path: the socket (to connect), or its folder (to bind), which the path led to.
    held: Option<OwnedFd>,
    /// The last part of a path that is to be created.
    name: Vec<u8>,
    /// The path that was reached, if that is its path in the place where the program runs.
    path: Option<PathBuf>,
}

impl Place {
    /// Reads an address; a path is followed to the socket if that exists, or else to its folder.
    pub(crate) fn of(
        caller: &Caller,
        sight: &Sight,
        bytes: Vec<u8>,
        exists: bool,
    ) -> Prepared<Place> {
        let mut place = Place { held: None, name: vec![], path: None, bytes };
        if let Some(Address::Path(path)) = Address::read(&place.bytes) {
            place.follow(caller, sight, &path, exists)?;
        }
        Ok(place)
    }

    fn follow(
        &mut self,
        caller: &Caller,
        sight: &Sight,
        path: &[u8],
        exists: bool,
    ) -> Prepared<()> {
        let cut = path.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
        let (folder, name) = if exists { (path, &[][..]) } else { path.split_at(cut) };
        let kind = if exists { OFlags::PATH } else { OFlags::PATH | OFlags::DIRECTORY };
        let held = open_as(caller, folder, kind)?;
        let found = rustix::fs::fstat(&held)?;
        let shared = sight.is_shared_by(caller.tid());
        // A socket with several names has none of them for sure.
        let single = !exists || found.st_nlink == 1;
        let mut reached =
            path_of(&held).filter(|path| shared && single && sight.finds(path, object(&found)));
        if let Some(reached) = reached.as_mut().filter(|_| !name.is_empty()) {
            reached.push(String::from_utf8_lossy(name).into_owned());
        }
        (self.held, self.name, self.path) = (Some(held), name.to_vec(), reached);
        Ok(())
    }

    /// Whether it is what `path` leads to in the place where the program runs, or has led to, by whichever path it was
    /// reached.
    pub(crate) fn is_at(&self, sight: &Sight, path: &str, kept: &Kept) -> bool {
        let found = self.held.as_ref().and_then(|held| rustix::fs::fstat(held).ok());
        let found = found.map(|found| object(&found));
        if self.name.is_empty() {
            return kept.leads(path, found, sight);
        }
        let path = Path::new(path);
        let named = path.file_name().is_some_and(|name| name.as_bytes() == self.name);
        named && found.is_some() && path.parent().and_then(|there| sight.object(there)) == found
    }

    /// Whether it leads to a file, so that the caller's rights count.
    pub(crate) fn is_file(&self) -> bool {
        self.held.is_some()
    }

    /// Whether the caller's rights count: everywhere but on IP. A server of a UNIX socket sees whose they are.
    pub(crate) fn sees_rights(&self) -> bool {
        !matches!(Address::read(&self.bytes), Some(Address::Ip(..) | Address::Unspecified(_)))
    }

    /// The bytes that were read.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether it is an address of IP without a port, so that the kernel chooses one.
    pub(crate) fn has_free_port(&self) -> bool {
        matches!(
            Address::read(&self.bytes),
            Some(Address::Ip(_, 0) | Address::Unspecified(Some((_, 0))))
        )
    }

    /// The address for the kernel: a path leads by the held descriptor to where it led when it was judged.
    pub(crate) fn address(&self) -> Cow<'_, [u8]> {
        let Some(held) = &self.held else { return Cow::Borrowed(&self.bytes) };
        let mut address = AddressFamily::UNIX.as_raw().to_ne_bytes().to_vec();
        address.extend(format!("/proc/self/fd/{}", held.as_raw_fd()).bytes());
        if !self.name.is_empty() {
            address.push(b'/');
            address.extend(&self.name);
        }
        address.push(0);
        Cow::Owned(address)
    }

    /// What a policy knows of the address.
    pub(crate) fn target(
        &self,
        socket: &Socket,
        direction: Direction,
        address: &Address,
    ) -> Target {
        match address {
            Address::Ip(ip, port) => of_socket(socket, Target::ip(direction, *ip, *port, vec![])),
            Address::Path(_) => match &self.path {
                Some(path) => Target::Path(path.to_string_lossy().into_owned()),
                None => Target::Hidden,
            },
            Address::Abstract(name) => Target::Abstract(name.escape_ascii().to_string()),
            Address::Vsock { cid, port: ANY_PORT } if direction == Direction::In => {
                Target::Vsock { cid: *cid, port: Port::Free(0) }
            }
            Address::Vsock { cid, port } => Target::Vsock { cid: *cid, port: Port::Named(*port) },
            Address::Unspecified(Some((ip, port))) if socket.is_ip() => {
                of_socket(socket, Target::ip(direction, (*ip).into(), *port, vec![]))
            }
            Address::Unspecified(_)
            | Address::Unnamed
            | Address::Netlink { .. }
            | Address::Other(_) => Target::Socket,
        }
    }
}

/// Opens a path from the root and the folder that the caller has, with its rights: links and `..` lead where they lead the
/// caller, and never out of its root. Links of /proc to descriptors lead nowhere: they would be this process's.
fn open_as(caller: &Caller, path: &[u8], flags: OFlags) -> Prepared<OwnedFd> {
    let base = |name: &str| {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        open(format!("/proc/{}/{name}", caller.tid()), flags, Mode::empty())
    };
    let within = |at: &OwnedFd, path: &[u8], flags, resolve| -> Prepared<OwnedFd> {
        as_caller(caller, || open_within(at, path, flags, resolve))?
    };
    let root = base("root")?;
    if path.starts_with(b"/") {
        return within(&root, path, flags, ResolveFlags::IN_ROOT);
    }
    let folder = base("cwd")?;
    let relative = if path.is_empty() { b".".as_slice() } else { path };
    // RESOLVE_IN_ROOT at the folder would make it the root for `..` and absolute links. BENEATH
    // fails with EXDEV where the path leaves the folder (openat2(2)).
    match within(&folder, relative, flags, ResolveFlags::BENEATH) {
        Err(Errno::XDEV) => {}
        opened => return opened,
    }
    // It leads out of the folder: from the root, by the path that the folder has there.
    let (at, top) = (path_of(&folder).ok_or(Errno::NOENT)?, path_of(&root).ok_or(Errno::NOENT)?);
    let below = at.strip_prefix(top).map_err(|_| Errno::NOENT)?;
    let mut whole = [b"/", below.as_os_str().as_bytes()].concat();
    let again = within(&root, &whole, OFlags::PATH, ResolveFlags::IN_ROOT)?;
    // Another mount or a rename may have put something else at that path.
    if object(&rustix::fs::fstat(&again)?) != object(&rustix::fs::fstat(&folder)?) {
        return Err(Errno::NOENT);
    }
    whole.push(b'/');
    whole.extend(path);
    within(&root, &whole, flags, ResolveFlags::IN_ROOT)
}

/// `VMADDR_PORT_ANY` of linux/vm_sockets.h: a port that the kernel chooses.
const ANY_PORT: u32 = u32::MAX;

/// The target as sockets of this protocol have it: the port in an address for ICMP or a raw socket means nothing.
pub(super) fn of_socket(socket: &Socket, target: Target) -> Target {
    if socket.protocol.has_ports() { target } else { target.without_port() }
}

/// Where a socket is bound that is to listen; `None` for one that no network reaches.
///
/// One without an address gets a free port of all addresses, as listen(2) would give it: a rule may forbid the one that
/// the kernel chooses, and once it listens that is too late.
pub(super) fn bound(fd: &OwnedFd, socket: &Socket) -> Option<Target> {
    if socket.protocol == Protocol::Unix {
        return None;
    }
    let Some(at) = local(fd.as_fd()).filter(|_| socket.is_ip()) else {
        return Some(Target::Socket);
    };
    // A connection that was dissolved may have given its port back, and still show it.
    let chosen = !socket.is_datagram() && choose_port(fd, at.ip());
    let at = local(fd.as_fd()).unwrap_or(at);
    let mut target = Target::ip(Direction::In, at.ip(), at.port(), vec![]);
    if chosen {
        target.set_free();
    }
    Some(of_socket(socket, target))
}

/// Has the kernel choose a port. Where it does not, the socket is bound, or listen(2) will get none either.
fn choose_port(fd: &OwnedFd, at: IpAddr) -> bool {
    /// `IP_BIND_ADDRESS_NO_PORT`, of both families: the port is to be chosen later, after the verdict.
    const LATER: i32 = 24;
    // Where it cannot be unset, it was not set.
    let _ = perform::set_option(fd.as_fd(), crate::calls::IP, LATER, &0_i32.to_ne_bytes());
    rustix::net::bind(fd, &SocketAddr::new(at, 0)).is_ok()
}

/// listen(2) on the port that was judged. A socket whose port the kernel chose may lose it until then, and get another one: it
/// is closed to all.
pub(crate) fn listen(fd: &OwnedFd, backlog: i32, judged: Option<u16>) -> io::Result<()> {
    perform::listen(fd.as_fd(), backlog)?;
    let is_same = |at: SocketAddr| judged.is_none_or(|port| port == at.port());
    if local(fd.as_fd()).is_none_or(is_same) {
        return Ok(());
    }
    shutdown(fd, Shutdown::Both)?;
    Err(Errno::ACCESS.into())
}

/// The local address of a socket of IP.
pub(super) fn local(fd: BorrowedFd<'_>) -> Option<SocketAddr> {
    SocketAddr::try_from(rustix::net::getsockname(fd).ok()?).ok()
}

/// Whether the kernel has yet to choose a socket's port.
pub(crate) fn has_no_port(fd: &OwnedFd) -> bool {
    local(fd.as_fd()).is_some_and(|at| at.port() == 0)
}

/// Fills in the address of this machine where a destination is the unspecified one. To which it leads depends on what
/// the socket is bound to, which may change until the call: by the address that is filled in, it does not.
///
/// An address without a family is one of IPv4 to `send` to; to connect to it dissolves a connection.
pub(super) fn fill_in(fd: &OwnedFd, bytes: &mut [u8], send: bool) {
    let ip = match Address::read(bytes) {
        Some(Address::Ip(ip, _)) => ip,
        Some(Address::Unspecified(Some((ip, _)))) if send => ip.into(),
        _ => return,
    };
    if ip.to_canonical().is_unspecified() {
        lead_to(bytes, own_address(fd, ip));
    }
}

/// Where Linux leads the unspecified address: to where the socket is bound (IPv4), or to the loopback address.
fn own_address(fd: &OwnedFd, asked: IpAddr) -> IpAddr {
    let bound = local(fd.as_fd()).map(|at| at.ip());
    let bound4 = match bound.map(|ip| ip.to_canonical()) {
        Some(IpAddr::V4(ip)) if !ip.is_unspecified() => Some(ip),
        _ => None,
    };
    match (asked.to_canonical(), bound) {
        (IpAddr::V4(_), _) => bound4.unwrap_or(Ipv4Addr::LOCALHOST).into(),
        (IpAddr::V6(_), Some(IpAddr::V6(ip))) if ip.to_ipv4_mapped().is_some() => {
            Ipv4Addr::LOCALHOST.into()
        }
        (IpAddr::V6(_), _) => Ipv6Addr::LOCALHOST.into(),
    }
}

/// Does what depends on the caller's rights: those of root are more than a program's that has given them up.
pub(crate) fn as_caller<T>(caller: &Caller, act: impl FnOnce() -> T) -> Prepared<T> {
    match fewer_rights(caller)? {
        None => Ok(act()),
        Some(rights) => rights.lend(act).map_err(|_| Errno::PERM),
    }
}

/// The caller's rights, if they are fewer than this process's, which is root's.
pub(super) fn fewer_rights(caller: &Caller) -> Prepared<Option<Rights>> {
    if unprivileged() || caller.is_root() {
        return Ok(None);
    }
    Rights::of(caller.tid()).map(Some).ok_or(Errno::PERM)
}

/// Whether the caller is in this process's network namespace.
pub(super) fn same_network(caller: &Caller) -> bool {
    same_file(&format!("/proc/{}/ns/net", caller.tid()), "/proc/thread-self/ns/net")
}

/// Whether this process is an ordinary user's, whose rights are those of its programs.
pub(super) fn unprivileged() -> bool {
    // Threads that lend rights are root's, too.
    static IS: OnceLock<bool> = OnceLock::new();
    *IS.get_or_init(|| !rustix::process::geteuid().is_root())
}

fn same_file(a: &str, b: &str) -> bool {
    let identity = |path: &str| rustix::fs::stat(path).ok().map(|file| (file.st_dev, file.st_ino));
    identity(a).is_some_and(|one| Some(one) == identity(b))
}

/// bind(2), in the caller's working directory, and with its umask where it makes a file.
///
/// The path is the caller's own, since other programs see it as the socket's address. If it leads to another folder
/// than it did when it was judged, the socket is closed to all.
pub(crate) fn bind(fd: &OwnedFd, place: &Place, caller: &Caller) -> io::Result<()> {
    let Some(folder) = &place.held else {
        return as_caller(caller, || perform::bind(fd.as_fd(), &place.bytes))?;
    };
    take_umask(caller);
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let theirs = open(format!("/proc/{}/cwd", caller.tid()), flags, Mode::empty())?;
    // Held before the change: afterwards nothing may keep the thread in the caller's folder.
    let ours = open("/", flags, Mode::empty())?;
    // A relative path stays as the caller wrote it. Threads that bind have a directory of their own
    // (unshare(2), CLONE_FS), so no other thread is moved.
    rustix::process::fchdir(&theirs)?;
    // Where their root or mounts are others, the path may mean something else here.
    let same = place.leads_to(folder) && is_writable(folder);
    let address = if same { Cow::Borrowed(&*place.bytes) } else { place.address() };
    let bound = as_caller(caller, || perform::bind(fd.as_fd(), &address));
    let kept = !same || (place.leads_to(folder) && place.is_in(folder));
    rustix::process::fchdir(&ours)?;
    bound??;
    if kept {
        return Ok(());
    }
    shutdown(fd, Shutdown::Both)?;
    Err(Errno::ACCESS.into())
}

/// Whether the folder is on a mount that may be written, as it is held.
fn is_writable(folder: &OwnedFd) -> bool {
    let found = rustix::fs::fstatvfs(folder);
    found.is_ok_and(|found| !found.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY))
}

impl Place {
    /// Whether the path leads, from this thread's directory, to `folder`.
    fn leads_to(&self, folder: &OwnedFd) -> bool {
        let Some(Address::Path(path)) = Address::read(&self.bytes) else { return false };
        let cut = path.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
        let parent = if cut == 0 { b"." } else { &path[..cut] };
        match (rustix::fs::stat(parent), rustix::fs::fstat(folder)) {
            (Ok(now), Ok(then)) => (now.st_dev, now.st_ino) == (then.st_dev, then.st_ino),
            _ => false,
        }
    }

    /// Whether there is a socket of the path's name in `folder`.
    fn is_in(&self, folder: &OwnedFd) -> bool {
        let made = rustix::fs::statat(folder, &*self.name, AtFlags::SYMLINK_NOFOLLOW);
        made.is_ok_and(|made| FileType::from_raw_mode(made.st_mode) == FileType::Socket)
    }
}

/// Threads that make calls have a umask of their own.
fn take_umask(caller: &Caller) {
    let status = Status::of(caller.tid()).unwrap_or_default();
    let mask = status.field("Umask").and_then(|mask| u32::from_str_radix(mask, 8).ok());
    if let Some(mask) = mask {
        rustix::process::umask(Mode::from_raw_mode(mask));
    }
}
