//! The C interface: `struct vdeplug_module` and its functions.
//!
//! Every function turns its outcome into the return value and `errno` of libvdeplug(3), and a panic into EIO.
//! A connection is a [`Conn`], whose first two words belong to libvdeplug. One thread may receive while
//! another sends on the same connection, as with libvdeplug's sockets; no thread may use a connection during
//! or after its close. The layouts are those of libvdeplug_mod.h, interface version 1.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use netloom_shm::SwitchPort;
use rustix::io::Errno;

use crate::open::{self, Wish};
use crate::plug::{Plug, Taken};

/// `LIBVDEPLUG_INTERFACE_VERSION`: the version of [`OpenArgs`].
const INTERFACE: c_int = 1;

/// `struct vde_open_args`.
#[derive(Debug)]
#[repr(C)]
pub struct OpenArgs {
    /// The requested port number; 0 for any.
    pub port: c_int,
    /// Group that may use the port's socket, in switches with one socket per port; may be null.
    pub group: *mut c_char,
    /// Mode of that socket.
    pub mode: c_uint,
}

/// `struct vdeconn` of this plug-in.
#[derive(Debug)]
#[repr(C)]
pub struct Conn {
    /// Owned by libvdeplug: the result of dlopen(3).
    handle: *mut c_void,
    /// Owned by libvdeplug: where it found [`OPS`].
    module: *const Module,
    plug: Plug<SwitchPort>,
}

/// Opens a connection.
pub type Open = unsafe extern "C" fn(
    name: *const c_char,
    description: *const c_char,
    interface: c_int,
    args: *const OpenArgs,
) -> *mut Conn;
/// Receives a frame.
pub type Receive = unsafe extern "C" fn(*mut Conn, *mut c_void, usize, c_int) -> isize;
/// Sends a frame.
pub type Send = unsafe extern "C" fn(*mut Conn, *const c_void, usize, c_int) -> isize;
/// Returns a descriptor, or closes.
pub type Ask = unsafe extern "C" fn(*mut Conn) -> c_int;

/// `struct vdeplug_module`.
#[derive(Debug)]
#[repr(C)]
pub struct Module {
    /// None are defined.
    pub flags: c_int,
    /// `vde_open_real`.
    pub open: Open,
    /// `vde_recv`.
    pub receive: Receive,
    /// `vde_send`.
    pub send: Send,
    /// `vde_datafd`.
    pub data_fd: Ask,
    /// `vde_ctlfd`.
    pub control_fd: Ask,
    /// `vde_close`.
    pub close: Ask,
}

const _: () = assert!(size_of::<usize>() != 8 || size_of::<OpenArgs>() == 24);
const _: () = assert!(size_of::<usize>() != 8 || size_of::<Module>() == 56);

/// The symbol that libvdeplug looks up.
#[unsafe(export_name = "vdeplug_ops")]
pub static OPS: Module = Module {
    flags: 0,
    open: vde_open_real,
    receive: vde_recv,
    send: vde_send,
    data_fd: vde_datafd,
    control_fd: vde_ctlfd,
    close: vde_close,
};

unsafe extern "C" fn vde_open_real(
    name: *const c_char,
    description: *const c_char,
    interface: c_int,
    args: *const OpenArgs,
) -> *mut Conn {
    let opened = guarded(|| {
        if !args.is_null() && interface != INTERFACE {
            return Err(Errno::INVAL);
        }
        // SAFETY: null, or a string of the caller that stays valid for the call.
        let name = unsafe { text(name) }?;
        // SAFETY: as above.
        let description = unsafe { text(description) }?;
        // SAFETY: null, or arguments of the caller in the version checked above.
        let port = unsafe { args.as_ref() }.map_or(0, |args| args.port);
        let port = open::join(&Wish { name: &name, description: &description, port })?;
        let plug = Plug::new(port);
        Ok(Box::new(Conn { handle: ptr::null_mut(), module: &raw const OPS, plug }))
    });
    opened.map_or_else(|error| failed(error, ptr::null_mut()), Box::into_raw)
}

unsafe extern "C" fn vde_recv(
    conn: *mut Conn,
    buffer: *mut c_void,
    length: usize,
    flags: c_int,
) -> isize {
    let received = guarded(|| {
        // SAFETY: null, or a connection that `vde_open_real` returned and nobody has closed.
        let plug = unsafe { plug(conn) }?;
        if buffer.is_null() && length > 0 {
            return Err(Errno::FAULT);
        }
        let give = |frame: &[u8]| {
            let count = frame.len().min(length);
            // SAFETY: the caller's buffer has `length` bytes, and the frame is in this library's memory.
            unsafe { ptr::copy_nonoverlapping(frame.as_ptr(), buffer.cast::<u8>(), count) };
            count
        };
        match plug.receive(flags, give)? {
            Taken::Frame(count) => Ok(count),
            Taken::Nothing => {
                // Like libvdeplug's own plug-ins: a frame of one byte, to be dropped.
                set_errno(Errno::AGAIN);
                Ok(give(&[0]))
            }
        }
    });
    answer(received)
}

unsafe extern "C" fn vde_send(
    conn: *mut Conn,
    buffer: *const c_void,
    length: usize,
    flags: c_int,
) -> isize {
    let sent = guarded(|| {
        // SAFETY: as in `vde_recv`.
        let plug = unsafe { plug(conn) }?;
        if buffer.is_null() && length > 0 {
            return Err(Errno::FAULT);
        }
        plug.send(length, flags, |to| {
            // SAFETY: `to` has `length` bytes of this library's memory, and the caller's buffer has as many.
            unsafe { ptr::copy_nonoverlapping(buffer.cast::<u8>(), to.as_mut_ptr(), to.len()) };
        })
    });
    answer(sent)
}

unsafe extern "C" fn vde_datafd(conn: *mut Conn) -> c_int {
    // SAFETY: as in `vde_recv`.
    guarded(|| unsafe { plug(conn) }.map(Plug::data_fd)).unwrap_or_else(|error| failed(error, -1))
}

unsafe extern "C" fn vde_ctlfd(conn: *mut Conn) -> c_int {
    // SAFETY: as in `vde_recv`.
    guarded(|| unsafe { plug(conn) }.map(Plug::control_fd))
        .unwrap_or_else(|error| failed(error, -1))
}

unsafe extern "C" fn vde_close(conn: *mut Conn) -> c_int {
    let closed = guarded(|| {
        if conn.is_null() {
            return Err(Errno::BADF);
        }
        // SAFETY: a connection that `vde_open_real` returned from `Box::into_raw`, closed once.
        let conn = unsafe { Box::from_raw(conn) };
        conn.plug.close();
        Ok(0)
    });
    closed.unwrap_or_else(|error| failed(error, -1))
}

/// The connection behind a pointer.
///
/// # Safety
/// `conn` is null, or an open connection that is not closed while the reference is in use.
unsafe fn plug<'a>(conn: *mut Conn) -> Result<&'a Plug<SwitchPort>, Errno> {
    if conn.is_null() {
        return Err(Errno::BADF);
    }
    // SAFETY: guaranteed by the caller. libvdeplug writes the first two words only before it hands out the
    // connection; the reference covers only what follows them.
    Ok(unsafe { &(*conn).plug })
}

/// A copy of a C string; empty for null.
///
/// # Safety
/// `from` is null, or a C string that stays valid for the call.
unsafe fn text(from: *const c_char) -> Result<String, Errno> {
    if from.is_null() {
        return Ok(String::new());
    }
    // SAFETY: guaranteed by the caller.
    let bytes = unsafe { CStr::from_ptr(from) };
    bytes.to_str().map(str::to_owned).map_err(|_| Errno::INVAL)
}

/// Runs `work`, and turns a panic into an error.
fn guarded<T>(work: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
    // State left inconsistent by a panic is behind a lock, which the panic poisons.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|reason| {
        // Dropping the panic's payload may panic itself: leak it instead.
        std::mem::forget(reason);
        Err(Errno::IO)
    })
}

fn answer(outcome: Result<usize, Errno>) -> isize {
    let count = outcome.and_then(|count| isize::try_from(count).map_err(|_| Errno::MSGSIZE));
    count.unwrap_or_else(|error| failed(error, -1))
}

/// Sets `errno` and returns `value`.
fn failed<T>(error: Errno, value: T) -> T {
    set_errno(error);
    value
}

/// Sets C's `errno`.
pub(crate) fn set_errno(error: Errno) {
    // SAFETY: returns the thread's errno, which always exists.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: it belongs to this thread, and no other reference to it exists.
    unsafe { *place = error.raw_os_error() };
}
