//! Where an address leads: paths of UNIX sockets are resolved as the caller would, and held.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use netloom_policy::{Direction, Target};
use netloom_sys::seccomp::Caller;
use rustix::fs::{Mode, OFlags, open};
use rustix::net::AddressFamily;

use super::Prepared;
use crate::address::Address;
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
    /// The path that was reached.
    path: Option<PathBuf>,
}

impl Place {
    /// Reads an address; a path is followed to the socket if that exists, or else to its folder.
    pub(crate) fn of(caller: &Caller, bytes: Vec<u8>, exists: bool) -> Prepared<Place> {
        let mut place = Place { held: None, name: vec![], path: None, bytes };
        if let Some(Address::Path(path)) = Address::read(&place.bytes) {
            place.follow(caller, &path, exists)?;
        }
        Ok(place)
    }

    fn follow(&mut self, caller: &Caller, path: &[u8], exists: bool) -> Prepared<()> {
        let tid = caller.tid();
        // A path from the root must not leave the caller's: below /proc/TID/root it is followed from there.
        let (base, rest) = match path {
            [b'/', rest @ ..] => ("root", rest),
            relative => ("cwd", relative),
        };
        let cut = rest.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
        let (folder, name) = if exists { (rest, &[][..]) } else { rest.split_at(cut) };
        let mut full = format!("/proc/{tid}/{base}/").into_bytes();
        full.extend(folder);
        let flags = if exists { OFlags::PATH } else { OFlags::PATH | OFlags::DIRECTORY };
        let held = open(full.as_slice(), flags | OFlags::CLOEXEC, Mode::empty())?;
        let mut reached = std::fs::read_link(format!("/proc/self/fd/{}", held.as_raw_fd())).ok();
        if let Some(reached) = reached.as_mut().filter(|_| !name.is_empty()) {
            reached
                .push(std::path::Path::new(std::ffi::OsStr::new(&*String::from_utf8_lossy(name))));
        }
        (self.held, self.name, self.path) = (Some(held), name.to_vec(), reached);
        Ok(())
    }

    /// The bytes that were read.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The address for the kernel: a path leads by the held descriptor to where it led when it was judged.
    pub(crate) fn address(&self) -> Vec<u8> {
        let Some(held) = &self.held else { return self.bytes.clone() };
        let mut address = AddressFamily::UNIX.as_raw().to_ne_bytes().to_vec();
        address.extend(format!("/proc/self/fd/{}", held.as_raw_fd()).bytes());
        if !self.name.is_empty() {
            address.push(b'/');
            address.extend(&self.name);
        }
        address.push(0);
        address
    }

    /// What a policy knows of the address.
    pub(crate) fn target(
        &self,
        socket: &Socket,
        direction: Direction,
        address: &Address,
    ) -> Target {
        match address {
            Address::Ip(ip, port) => Target::ip(direction, *ip, *port, vec![]),
            Address::Path(raw) => {
                let path = self.path.as_ref().map(|path| path.to_string_lossy().into_owned());
                Target::Path(path.unwrap_or_else(|| String::from_utf8_lossy(raw).into_owned()))
            }
            Address::Abstract(name) => Target::Abstract(name.escape_ascii().to_string()),
            Address::Vsock { cid, port } => Target::Vsock { cid: *cid, port: *port },
            Address::Unspecified(Some((ip, port))) if socket.is_ip() => {
                Target::ip(direction, (*ip).into(), *port, vec![])
            }
            Address::Unspecified(_)
            | Address::Unnamed
            | Address::Netlink { .. }
            | Address::Other(_) => Target::Socket,
        }
    }
}

/// Where a socket is bound that is to listen; `None` for one that no network reaches.
pub(super) fn bound(fd: BorrowedFd<'_>, socket: &Socket) -> Option<Target> {
    if !socket.is_ip() {
        return None;
    }
    let address = rustix::net::getsockname(fd).ok()?;
    let address = std::net::SocketAddr::try_from(address).ok()?;
    Some(Target::ip(Direction::In, address.ip(), address.port(), vec![]))
}
