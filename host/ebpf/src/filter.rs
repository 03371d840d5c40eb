//! Filters that end with their process, where traffic control has no links: clsact with cls_bpf.
//!
//! A filter has a place at an interface: a priority and a handle. Its owner holds an abstract Unix socket named
//! after the place, in the interface's network namespace. The kernel closes that socket with the process. So a
//! filter of ours whose name nobody holds was left by a killed process, and the next owner of the place replaces
//! it. Other programs' filters are never touched. A thread in the namespace removes the filter on drop.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use libbpf_rs::{ErrorKind, TcHook, TcHookBuilder};
use netloom_sys::namespace;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::Direction;
use crate::presence::Presence;
use crate::program::Program;

/// The beginning of our programs' names.
const OURS: &str = "nl_";

/// A place among an interface's filters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Lower ones run first.
    pub(crate) priority: u32,
    /// Tells filters of one priority apart.
    pub(crate) handle: u32,
}

/// A filter, removed on drop.
#[derive(Debug)]
pub(crate) struct Filter {
    namespace: File,
    presence: Presence,
    program: OwnedFd,
    ifindex: i32,
    direction: Direction,
    place: Place,
    /// Closed after the filter is removed.
    _owner: OwnedFd,
}

impl Filter {
    /// Attaches a program at the first of these places that no living process has, in the calling thread's
    /// network namespace.
    pub(crate) fn attach(
        program: BorrowedFd<'_>,
        ifindex: u32,
        direction: Direction,
        places: impl IntoIterator<Item = Place>,
    ) -> io::Result<Filter> {
        crate::load::quiet();
        let index = i32::try_from(ifindex).map_err(io::Error::other)?;
        // The thread may be in another network namespace than its process.
        let namespace = File::open("/proc/thread-self/ns/net")?;
        for place in places {
            // The name before the filter: one whose name is free may be replaced by anybody.
            let Some(owner) = own(ifindex, direction, place)? else { continue };
            let mut hook = hook(program, index, direction, place);
            // The discipline may exist already, ours or another's; that is not an error.
            hook.create().map_err(io::Error::other)?;
            if put(&mut hook)? {
                return Ok(Filter {
                    namespace,
                    presence: Presence::of(ifindex)?,
                    program: program.try_clone_to_owned()?,
                    ifindex: index,
                    direction,
                    place,
                    _owner: owner,
                });
            }
        }
        Err(io::Error::other("all places for filters there are taken"))
    }

    /// Whether its interface still exists.
    pub(crate) fn alive(&self) -> bool {
        self.presence.there()
    }
}

impl Drop for Filter {
    fn drop(&mut self) {
        // In a thread of its own, because the caller must stay in its namespace.
        std::thread::scope(|scope| {
            let detach = || {
                crate::load::quiet();
                if namespace::enter_network(&self.namespace).is_ok() {
                    // It may have gone with its interface.
                    let program = self.program.as_fd();
                    let _ = hook(program, self.ifindex, self.direction, self.place).detach();
                }
            };
            let _ = scope.spawn(detach).join();
        });
    }
}

/// The programs at these places of an interface of the calling thread's network namespace.
pub(crate) fn programs_at(
    ifindex: u32,
    direction: Direction,
    places: impl IntoIterator<Item = Place>,
) -> io::Result<Vec<u32>> {
    crate::load::quiet();
    let index = i32::try_from(ifindex).map_err(io::Error::other)?;
    // A query needs no program; standard input's number stands in for a descriptor.
    let none = rustix::stdio::stdin();
    let places = places.into_iter();
    Ok(places.filter_map(|place| hook(none, index, direction, place).query().ok()).collect())
}

/// The socket that marks the owner of a place; none if another process has it.
fn own(ifindex: u32, direction: Direction, place: Place) -> io::Result<Option<OwnedFd>> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::DGRAM);
    let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    let Place { priority, handle } = place;
    let name = format!("netloom/filter/{ifindex}/{}/{priority}/{handle}", direction.name());
    let name = SocketAddrUnix::new_abstract_name(name.as_bytes())?;
    match rustix::net::bind(&socket, &name) {
        Ok(()) => Ok(Some(socket)),
        Err(Errno::ADDRINUSE) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

fn hook(program: BorrowedFd<'_>, index: i32, direction: Direction, place: Place) -> TcHook {
    TcHookBuilder::new(program)
        .ifindex(index)
        .handle(place.handle)
        .priority(place.priority)
        .hook(direction.clsact())
}

/// Attaches, also in the place of what a killed process left; whether that was possible.
fn put(hook: &mut TcHook) -> io::Result<bool> {
    match hook.attach() {
        Ok(_) => return Ok(true),
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
        Err(e) => return Err(io::Error::other(e)),
    }
    // Programs that go meanwhile, and objects that are not programs, are somebody else's.
    let left = hook.query().is_ok_and(|id| Program::begins(id, OURS).unwrap_or(false));
    if left {
        hook.replace(true).attach().map_err(io::Error::other)?;
    }
    Ok(left)
}
