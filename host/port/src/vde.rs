//! Ports of VDE switches, and of everything else that libvdeplug opens by a name with `://`.
//!
//! The library is loaded with the first port and stays loaded; nothing is linked against it. Its
//! frames have no virtio-net header: received ones get an empty header, and sent ones must have an
//! empty one. Interface version 1 of libvdeplug.h.
//!
//! Classic VDE ignores the flags of `vde_recv` and `vde_send`, so only `O_NONBLOCK` on the data
//! descriptor keeps them from blocking; it is set here unless requested otherwise.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

use netloom_sys::{Failure, Unsupported};
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::{Error, HEADER, Port, Received, Result, Sent};

/// Its file name in Debian, Fedora and Arch, which linking would have recorded.
const LIBRARY: &CStr = c"libvdeplug.so.2";
/// `LIBVDEPLUG_INTERFACE_VERSION`.
const INTERFACE: c_int = 1;
/// The shortest frame: an Ethernet header. Old clients announce their end by a shorter one.
const LEAST: usize = 14;

type Open = unsafe extern "C" fn(*mut c_char, *mut c_char, c_int, *mut c_void) -> *mut c_void;
type Take = unsafe extern "C" fn(*mut c_void, *mut c_void, usize, c_int) -> isize;
type Give = unsafe extern "C" fn(*mut c_void, *const c_void, usize, c_int) -> isize;
type Ask = unsafe extern "C" fn(*mut c_void) -> c_int;

/// The functions of libvdeplug.
#[derive(Debug)]
struct Library {
    open: Open,
    receive: Take,
    send: Give,
    data: Ask,
    control: Ask,
    close: Ask,
}

/// A connection of libvdeplug.
#[derive(Debug)]
pub struct VdePort {
    library: &'static Library,
    connection: NonNull<c_void>,
    data: RawFd,
    control: RawFd,
}

// SAFETY: libvdeplug has no thread-bound state; a connection must only not be used by two threads
// at once, and all uses except reading the descriptors' numbers take `&mut self`.
unsafe impl Send for VdePort {}

impl VdePort {
    /// Opens `address` (a VDE switch's directory, `vde://FOLDER`, `netloom://SWITCH`, ...); the
    /// switch shows `description` for the port.
    ///
    /// # Errors
    /// [`Error::Unsupported`] without the library; [`Error::Failed`] if it cannot open the address.
    pub fn open(address: &str, description: &str) -> Result<VdePort> {
        let library = library()?;
        let refused =
            |operation| move |e: io::Error| Error::from(Failure::new(address, operation, e));
        let text = |text: &str| CString::new(text).map_err(|_| Errno::INVAL);
        // The library takes `char *` and not `const char *`: it gets copies that it may write to.
        let name = text(address).map_err(|e| Failure::new(address, "open", e))?;
        let about = text(description).map_err(|e| Failure::new(address, "describe", e))?;
        // Both before either is given away: an error between would leak the first.
        let (name, about) = (name.into_raw(), about.into_raw());
        // SAFETY: both are strings of our own that the library may write to during the call; it
        // takes a null pointer for no options.
        let connection = unsafe { (library.open)(name, about, INTERFACE, ptr::null_mut()) };
        let error = io::Error::last_os_error();
        for text in [name, about] {
            // SAFETY: the pointer is from `into_raw` above; the library keeps only copies.
            drop(unsafe { CString::from_raw(text) });
        }
        let connection = NonNull::new(connection).ok_or(error).map_err(refused("open"))?;
        // Dropping it closes the connection from here on.
        let mut port = VdePort { library, connection, data: -1, control: -1 };
        // SAFETY: the connection is open.
        port.data = unsafe { (library.data)(connection.as_ptr()) };
        // SAFETY: the connection is open.
        port.control = unsafe { (library.control)(connection.as_ptr()) };
        if port.data < 0 {
            return Err(Failure::new(address, "find the descriptor of", Errno::BADF).into());
        }
        port.set_blocking(false)?;
        Ok(port)
    }

    /// Sets whether calls wait: a process that only sends may do less work by sleeping in the
    /// library than by polling on a full queue. A newly opened port does not wait.
    ///
    /// # Errors
    /// [`Error::Failed`] if the descriptor cannot be set.
    pub fn set_blocking(&mut self, blocking: bool) -> Result<()> {
        let failed = |e| Error::from(Failure::new("VDE port", "choose whether it waits", e));
        let mut flags = rustix::fs::fcntl_getfl(self.as_fd()).map_err(failed)?;
        flags.set(OFlags::NONBLOCK, !blocking);
        rustix::fs::fcntl_setfl(self.as_fd(), flags).map_err(failed)
    }

    /// Readable or hung up when the switch is gone; `None` if no descriptor tells.
    pub fn control_fd(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: the connection's own descriptor, open as long as the connection.
        (self.control >= 0).then(|| unsafe { BorrowedFd::borrow_raw(self.control) })
    }
}

impl Port for VdePort {
    fn receive(&mut self, buffer: &mut [u8]) -> Result<Received> {
        let Some((header, frame)) = buffer.split_at_mut_checked(HEADER) else {
            return Ok(Received::Truncated);
        };
        loop {
            let (at, most) = (frame.as_mut_ptr().cast(), frame.len());
            // SAFETY: the connection is open, and the library writes at most `most` bytes.
            let count = unsafe { (self.library.receive)(self.connection.as_ptr(), at, most, 0) };
            return match usize::try_from(count) {
                Ok(count) if count >= most => Ok(Received::Truncated),
                Ok(count) if count < LEAST => Ok(Received::Empty),
                Ok(count) => {
                    header.fill(0);
                    Ok(Received::Frame { start: 0, length: HEADER + count })
                }
                Err(_) => match last_error() {
                    Errno::INTR => continue,
                    Errno::AGAIN => Ok(Received::Empty),
                    error if gone(error) => Ok(Received::Gone),
                    error => Err(Failure::new("VDE port", "receive", error).into()),
                },
            };
        }
    }

    fn send(&mut self, frame: &[u8]) -> Result<Sent> {
        let Some((header, frame)) = frame.split_at_checked(HEADER) else {
            return Ok(Sent::Refused);
        };
        // Flags and super-frame type: libvdeplug cannot pass unfinished work to the other side.
        if header[..2] != [0, 0] || frame.len() < LEAST {
            return Ok(Sent::Refused);
        }
        loop {
            let at = frame.as_ptr().cast();
            // SAFETY: the connection is open, and the library only reads the frame's bytes.
            let count =
                unsafe { (self.library.send)(self.connection.as_ptr(), at, frame.len(), 0) };
            if count >= 0 {
                return Ok(Sent::Done);
            }
            return match last_error() {
                Errno::INTR => continue,
                Errno::AGAIN => Ok(Sent::Full),
                Errno::NOBUFS | Errno::NOMEM => Ok(Sent::NoRoom),
                Errno::MSGSIZE | Errno::INVAL => Ok(Sent::Refused),
                error if gone(error) => Ok(Sent::Gone),
                error => Err(Failure::new("VDE port", "send", error).into()),
            };
        }
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the connection's own descriptor, open as long as the connection.
        unsafe { BorrowedFd::borrow_raw(self.data) }
    }

    fn overruns(&mut self) -> Option<u64> {
        None
    }
}

impl Drop for VdePort {
    fn drop(&mut self) {
        // SAFETY: open until now, and not used again. No reported failure could be handled.
        unsafe { (self.library.close)(self.connection.as_ptr()) };
    }
}

fn last_error() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

fn gone(error: Errno) -> bool {
    use Errno as E;
    matches!(error, E::CONNREFUSED | E::CONNRESET | E::NOTCONN | E::PIPE | E::BADF | E::NOENT)
}

/// The library, loaded once.
fn library() -> Result<&'static Library> {
    static LOADED: OnceLock<std::result::Result<Library, String>> = OnceLock::new();
    LOADED.get_or_init(|| load(LIBRARY)).as_ref().map_err(|reason| {
        Error::Unsupported(Unsupported {
            feature: "VDE ports",
            reason: reason.clone(),
            needs: "needs libvdeplug 4 (package libvdeplug2 of Debian, vdeplug4 elsewhere)".into(),
        })
    })
}

fn load(name: &CStr) -> std::result::Result<Library, String> {
    // A library of the system brings the system's C library, beside the one that is linked in here.
    if cfg!(target_feature = "crt-static") {
        return Err("this netloom is linked statically, and loads no libraries".to_owned());
    }
    // SAFETY: the name is a string; the library's initialisers are as trusted as what we link.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if handle.is_null() {
        return Err(loader_error());
    }
    let find = |symbol: &CStr| {
        // SAFETY: the handle is that of a loaded library, never closed.
        let found = unsafe { libc::dlsym(handle, symbol.as_ptr()) };
        if found.is_null() { Err(loader_error()) } else { Ok(found) }
    };
    let ask = |symbol: &CStr| {
        // SAFETY: libvdeplug.h declares the three functions looked up here as `int (VDECONN *)`.
        find(symbol).map(|at| unsafe { std::mem::transmute::<*mut c_void, Ask>(at) })
    };
    let open = find(c"vde_open_real")?;
    let (receive, send) = (find(c"vde_recv")?, find(c"vde_send")?);
    Ok(Library {
        // SAFETY: its type in libvdeplug.h, where the last argument is a pointer to a structure.
        open: unsafe { std::mem::transmute::<*mut c_void, Open>(open) },
        // SAFETY: its type in libvdeplug.h.
        receive: unsafe { std::mem::transmute::<*mut c_void, Take>(receive) },
        // SAFETY: its type in libvdeplug.h.
        send: unsafe { std::mem::transmute::<*mut c_void, Give>(send) },
        data: ask(c"vde_datafd")?,
        control: ask(c"vde_ctlfd")?,
        close: ask(c"vde_close")?,
    })
}

/// The loader's last error message.
fn loader_error() -> String {
    // SAFETY: it has no conditions.
    let said = unsafe { libc::dlerror() };
    if said.is_null() {
        return "the loader does not say why".to_owned();
    }
    // SAFETY: the string is valid until this thread uses the loader again.
    unsafe { CStr::from_ptr(said) }.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_there_is_told() {
        let reason = load(c"libnosuchthing.so.9").unwrap_err();
        assert!(reason.contains("libnosuchthing"), "{reason}");
        // A library that exists and has none of the functions.
        let reason = load(c"libc.so.6").unwrap_err();
        assert!(reason.contains("vde_open_real"), "{reason}");
    }

    #[test]
    fn an_address_that_is_nothing_is_told() {
        match VdePort::open("vde:///nonexistent/switch", "test") {
            Err(Error::Failed(failure)) => {
                assert_eq!(failure.to_string(), "vde:///nonexistent/switch: open");
            }
            Err(Error::Unsupported(missing)) => {
                netloom_kit::lacks!("libvdeplug", "{}", missing.reason);
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn frames_go_through_a_pair() {
        let folder = std::env::temp_dir();
        let address = format!("ptp://{}/pair-{}", folder.display(), std::process::id());
        let open = || VdePort::open(&address, "test");
        let (mut one, mut other) = match (open(), open()) {
            (Ok(one), Ok(other)) => (one, other),
            (Err(Error::Unsupported(missing)), _) => {
                netloom_kit::lacks!("libvdeplug", "{}", missing.reason);
            }
            (Err(e), _) | (_, Err(e)) => panic!("{e:?}"),
        };
        let mut buffer = vec![0xff; 2048];
        assert_eq!(other.receive(&mut buffer).unwrap(), Received::Empty);
        let frame: Vec<u8> = (0..HEADER).map(|_| 0).chain(1..=60).collect();
        assert_eq!(one.send(&frame).unwrap(), Sent::Done);
        let got = other.receive(&mut buffer).unwrap();
        assert_eq!(got, Received::Frame { start: 0, length: frame.len() });
        assert_eq!(buffer[..frame.len()], frame);
        assert_eq!(other.receive(&mut buffer[..HEADER + 10]).unwrap(), Received::Empty);
        // An unfinished checksum cannot be passed.
        let mut unfinished = frame.clone();
        unfinished[0] = 1;
        assert_eq!(one.send(&unfinished).unwrap(), Sent::Refused);
        assert_eq!(one.send(&frame[..HEADER + LEAST - 1]).unwrap(), Sent::Refused);
    }
}
