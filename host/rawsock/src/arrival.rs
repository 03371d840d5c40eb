//! Arrival times of datagrams, recorded by the kernel before the waiting reader wakes up.
//!
//! For measuring delays: the reader's wake-up latency is not the path's. Specification: socket(7),
//! `SO_TIMESTAMPNS` in timestamping.rst.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use netloom_sys::Failure;

use crate::{Result, option};

/// Room for one control message with a timespec, aligned as control messages must be.
type Control = [u64; 8];

/// Makes the kernel record the arrival time of each datagram for this socket.
///
/// # Errors
/// The kernel's error.
pub fn note_arrivals(socket: &impl AsFd) -> Result<()> {
    option::set(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)
        .map_err(|e| Failure::new("socket", "note arrivals", e).into())
}

/// Receives a datagram: its bytes in `buffer`, and its arrival time in nanoseconds of
/// CLOCK_REALTIME, if recorded.
///
/// # Errors
/// As recv(2), including `WouldBlock` after the socket's timeout.
pub fn receive(socket: &impl AsFd, buffer: &mut [u8]) -> io::Result<(usize, Option<u64>)> {
    let mut control: Control = [0; 8];
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: a msghdr of zeros is valid: no name, no parts, no control.
    let mut head: libc::msghdr = unsafe { std::mem::zeroed() };
    head.msg_iov = &raw mut part;
    head.msg_iovlen = 1;
    head.msg_control = control.as_mut_ptr().cast();
    head.msg_controllen = size_of::<Control>();
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the descriptor is open; `head` points to `buffer` and `control`, which outlive the
    // call and have the given lengths.
    let received = unsafe { libc::recvmsg(fd, &raw mut head, 0) };
    let length = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
    Ok((length, noted(&head)))
}

/// The time in a message's control data.
fn noted(head: &libc::msghdr) -> Option<u64> {
    // SAFETY: the kernel has filled in `head`; its control buffer is the caller's and still live.
    let first = unsafe { libc::CMSG_FIRSTHDR(head) };
    // SAFETY: it is null or points to a whole, aligned header in the control buffer.
    let message = unsafe { first.as_ref() }?;
    let ours = message.cmsg_level == libc::SOL_SOCKET && message.cmsg_type == libc::SCM_TIMESTAMPNS;
    if !ours {
        return None;
    }
    // SAFETY: `first` points to a whole message.
    let data = unsafe { libc::CMSG_DATA(first) };
    // SAFETY: a message of this type holds a timespec, which may be unaligned.
    let time = unsafe { data.cast::<libc::timespec>().read_unaligned() };
    let (seconds, rest) = (u64::try_from(time.tv_sec).ok()?, u64::try_from(time.tv_nsec).ok()?);
    Some(seconds * 1_000_000_000 + rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::time::{SystemTime, UNIX_EPOCH};

    fn now() -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        u64::try_from(now.as_nanos()).unwrap()
    }

    #[test]
    fn arrivals_lie_between_sending_and_reading() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        note_arrivals(&socket).unwrap();
        let before = now();
        socket.send_to(b"hello", socket.local_addr().unwrap()).unwrap();
        let mut buffer = [0; 16];
        let (length, came) = receive(&socket, &mut buffer).unwrap();
        let read = now();
        assert_eq!(&buffer[..length], b"hello");
        let came = came.unwrap();
        assert!((before..=read).contains(&came), "{before} {came} {read}");
    }
}
