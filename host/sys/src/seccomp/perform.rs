//! Calls on a duplicated descriptor, with copied arguments, in place of the thread that made them.
//!
//! Addresses and control messages are bytes as the kernel takes them; the kernel checks them as it would for the
//! caller. A call may block as long as the caller's would: [`Interrupter`] ends it.

use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Once;

/// connect(2).
///
/// # Errors
/// The kernel's.
pub fn connect(fd: BorrowedFd<'_>, address: &[u8]) -> io::Result<()> {
    // SAFETY: the kernel reads `length` bytes of `address`, which has as many.
    let done = unsafe { libc::connect(fd.as_raw_fd(), address.as_ptr().cast(), length(address)?) };
    nothing(done)
}

/// bind(2).
///
/// # Errors
/// The kernel's.
pub fn bind(fd: BorrowedFd<'_>, address: &[u8]) -> io::Result<()> {
    // SAFETY: the kernel reads `length` bytes of `address`, which has as many.
    let done = unsafe { libc::bind(fd.as_raw_fd(), address.as_ptr().cast(), length(address)?) };
    nothing(done)
}

/// listen(2).
///
/// # Errors
/// The kernel's.
pub fn listen(fd: BorrowedFd<'_>, backlog: i32) -> io::Result<()> {
    // SAFETY: takes numbers, and touches no memory.
    nothing(unsafe { libc::listen(fd.as_raw_fd(), backlog) })
}

/// accept4(2): a connection, closed on exec, and its peer's address as the kernel gives it.
///
/// # Errors
/// The kernel's.
pub fn accept(fd: BorrowedFd<'_>, flags: i32) -> io::Result<(OwnedFd, Vec<u8>)> {
    let mut address = vec![0_u8; LONGEST_ADDRESS];
    let mut size = length(&address)?;
    // SAFETY: the kernel writes at most `size` bytes to `address`, which has as many.
    let got = unsafe {
        let into = address.as_mut_ptr().cast();
        libc::accept4(fd.as_raw_fd(), into, &raw mut size, flags | libc::SOCK_CLOEXEC)
    };
    if got < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel gave this descriptor to this call alone.
    let connection = unsafe { OwnedFd::from_raw_fd(got) };
    address.truncate(usize::try_from(size).unwrap_or(0));
    Ok((connection, address))
}

/// `sizeof(struct sockaddr_storage)`.
const LONGEST_ADDRESS: usize = 128;

/// setsockopt(2).
///
/// # Errors
/// The kernel's.
pub fn set_option(fd: BorrowedFd<'_>, level: i32, option: i32, value: &[u8]) -> io::Result<()> {
    let size = length(value)?;
    // SAFETY: the kernel reads `size` bytes of `value`, which has as many.
    nothing(unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, value.as_ptr().cast(), size) })
}

/// An option of a socket that is a number (getsockopt(2)).
///
/// # Errors
/// The kernel's.
pub fn number_option(fd: BorrowedFd<'_>, level: i32, option: i32) -> io::Result<i32> {
    let mut value = 0_i32;
    let mut size: libc::socklen_t = 4;
    // SAFETY: the kernel writes at most `size` bytes to `value`, which has as many.
    nothing(unsafe {
        let into = (&raw mut value).cast();
        libc::getsockopt(fd.as_raw_fd(), level, option, into, &raw mut size)
    })?;
    Ok(value)
}

/// The first bytes of an option of a socket, at most `most` (getsockopt(2)).
///
/// # Errors
/// The kernel's.
pub fn option(fd: BorrowedFd<'_>, level: i32, option: i32, most: usize) -> io::Result<Vec<u8>> {
    let mut value = vec![0_u8; most];
    let mut size = length(&value)?;
    // SAFETY: the kernel writes at most `size` bytes to `value`, which has as many.
    nothing(unsafe {
        let into = value.as_mut_ptr().cast();
        libc::getsockopt(fd.as_raw_fd(), level, option, into, &raw mut size)
    })?;
    value.truncate(usize::try_from(size).unwrap_or(0));
    Ok(value)
}

/// Gives this thread a umask and directories of its own (unshare(2), `CLONE_FS`).
///
/// # Errors
/// The kernel's.
pub fn own_file_attributes() -> io::Result<()> {
    // SAFETY: concerns umask, root and working directory of this thread alone, and touches no memory.
    nothing(unsafe { libc::unshare(libc::CLONE_FS) })
}

/// A message to send.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The destination; empty without one.
    pub address: Vec<u8>,
    /// The data.
    pub data: Vec<u8>,
    /// Control messages, aligned as cmsg(3) says.
    pub control: Vec<u8>,
}

/// sendmsg(2), without a signal for a connection that is closed: the supervisor sends it to the caller.
///
/// # Errors
/// The kernel's.
pub fn send(fd: BorrowedFd<'_>, message: &Message, flags: i32) -> io::Result<usize> {
    let data = libc::iovec {
        iov_base: message.data.as_ptr().cast_mut().cast(),
        iov_len: message.data.len(),
    };
    // SAFETY: a structure of integers and pointers, for which zero means none.
    let mut header: libc::msghdr = unsafe { zeroed() };
    if !message.address.is_empty() {
        header.msg_name = message.address.as_ptr().cast_mut().cast();
        header.msg_namelen = length(&message.address)?;
    }
    header.msg_iov = (&raw const data).cast_mut();
    header.msg_iovlen = 1;
    if !message.control.is_empty() {
        header.msg_control = message.control.as_ptr().cast_mut().cast();
        header.msg_controllen = message.control.len();
    }
    let flags = flags | libc::MSG_NOSIGNAL;
    // SAFETY: all pointers of `header` lead to memory of the given lengths that lives until this returns, and
    // the kernel only reads it.
    let sent = unsafe { libc::sendmsg(fd.as_raw_fd(), &raw const header, flags) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

fn length(address: &[u8]) -> io::Result<libc::socklen_t> {
    libc::socklen_t::try_from(address.len()).map_err(|_| io::ErrorKind::InvalidInput.into())
}

fn nothing(done: i32) -> io::Result<()> {
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The signal that interrupts a thread; its handler does nothing.
const INTERRUPT: i32 = libc::SIGURG;

/// Interrupts a blocking call of the thread that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupter {
    process: i32,
    thread: i32,
}

impl Interrupter {
    /// For calls of this thread.
    pub fn here() -> Interrupter {
        thread_local! {
            static HERE: Interrupter = Interrupter::of_this_thread();
        }
        HERE.with(|here| *here)
    }

    fn of_this_thread() -> Interrupter {
        static HANDLER: Once = Once::new();
        HANDLER.call_once(install_handler);
        open_to_interrupts();
        Interrupter {
            process: rustix::process::getpid().as_raw_nonzero().get(),
            thread: rustix::thread::gettid().as_raw_nonzero().get(),
        }
    }

    /// Ends the call that the thread is in with EINTR. The caller repeats it until the call has ended, since a
    /// signal before the call has no effect.
    pub fn interrupt(self) {
        // SAFETY: sends a signal to a thread of this process, and touches no memory. A thread that has ended is
        // refused by the kernel.
        unsafe { libc::syscall(libc::SYS_tgkill, self.process, self.thread, INTERRUPT) };
    }
}

/// Lets the signal through in this thread, whatever mask it inherited.
fn open_to_interrupts() {
    // SAFETY: a set of bits, for which zero is the empty one.
    let mut set: libc::sigset_t = unsafe { zeroed() };
    // SAFETY: the set is initialised.
    unsafe { libc::sigaddset(&raw mut set, INTERRUPT) };
    // SAFETY: the set is initialised; no old mask is asked for.
    unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut()) };
}

extern "C" fn nothing_to_do(_: i32) {}

/// A handler without `SA_RESTART`, so that calls end.
fn install_handler() {
    // SAFETY: a structure of integers and a pointer, for which zero is valid.
    let mut action: libc::sigaction = unsafe { zeroed() };
    let handler: extern "C" fn(i32) = nothing_to_do;
    action.sa_sigaction = handler as *const () as libc::sighandler_t;
    // SAFETY: the handler does nothing, which is safe at any moment; the old one is not asked for.
    unsafe { libc::sigaction(INTERRUPT, &raw const action, std::ptr::null_mut()) };
}
