//! Taps: interfaces whose other end is a descriptor (linux/if_tun.h, the kernel's tuntap.rst).
//!
//! The interface exists while a descriptor of it is open, unless it is made persistent. It is
//! created down; netlink sets addresses, queue length and everything else. Frames longer than the
//! buffer cannot be told from those that just fit, so a full buffer counts as truncated.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use netloom_sys::{Failure, Unsupported};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::{Error, HEADER, Port, Received, Result, Sent};

/// The device that creates taps.
const DEVICE: &str = "/dev/net/tun";

/// Options of a tap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TapOptions {
    /// The interface's index; `None` lets the kernel choose.
    pub index: Option<u32>,
    /// Whether the interface outlives its last descriptor.
    pub persistent: bool,
    /// Whether frames written to it are received in a softirq (`IFF_NAPI`) instead of within the
    /// write.
    pub napi: bool,
}

/// The descriptor's end of a tap interface.
#[derive(Debug)]
pub struct Tap {
    fd: OwnedFd,
    udp_segments: bool,
}

impl Tap {
    /// Creates an interface in the calling thread's network namespace, with every offload that the
    /// kernel has.
    ///
    /// # Errors
    /// [`Error::Unsupported`] without `/dev/net/tun` or permission to use it; [`Error::Failed`] if
    /// the kernel refuses, e.g. EBUSY if the name or the index is taken.
    pub fn create(name: &str, options: TapOptions) -> Result<Tap> {
        let fd = open_device()?;
        // The kernel takes an index only before it makes the interface.
        if let Some(index) = options.index {
            ioctl_pointer(&fd, libc::TUNSETIFINDEX, &index)
                .map_err(|e| Failure::new(format!("tap {name:?}"), "choose its index", e))?;
        }
        attach(&fd, name, options.napi)?;
        let failed =
            |operation| move |e| Error::from(Failure::new(format!("tap {name:?}"), operation, e));
        ioctl_pointer(&fd, libc::TUNSETVNETHDRSZ, &HEADER_INT)
            .map_err(failed("set its header's size"))?;
        let udp_segments = set_offloads(&fd).map_err(failed("set its offloads"))?;
        if options.persistent {
            ioctl_value(&fd, libc::TUNSETPERSIST, 1).map_err(failed("make it stay"))?;
        }
        Ok(Tap { fd, udp_segments })
    }

    /// A port from a tap's descriptor that was passed on.
    ///
    /// # Errors
    /// [`Error::Kind`] if it is not a tap with our header.
    pub fn from_fd(fd: OwnedFd) -> Result<Tap> {
        let wrong = |reason| move |_| Error::Kind { kind: "a tap", reason };
        let mut request = interface_request("")?;
        ioctl_pointer_mut(&fd, libc::TUNGETIFF, &mut request).map_err(wrong("it is not a tap"))?;
        // SAFETY: TUNGETIFF writes the flags; any bytes are a valid value.
        let flags = i32::from(unsafe { request.ifr_ifru.ifru_flags });
        let wanted = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
        let mut header = 0;
        ioctl_pointer_mut(&fd, libc::TUNGETVNETHDRSZ, &mut header).map_err(wrong("no tap"))?;
        if flags & wanted != wanted || header != HEADER_INT {
            return Err(Error::Kind { kind: "a tap", reason: "its frames have another header" });
        }
        rustix::io::ioctl_fionbio(&fd, true)
            .map_err(|e| Failure::new("tap", "make it non-blocking", e))?;
        Ok(Tap { fd, udp_segments: false })
    }

    /// Whether the kernel leaves segmentation of large UDP datagrams (USO) to us; known for taps created
    /// here.
    pub fn udp_segments(&self) -> bool {
        self.udp_segments
    }

    /// The descriptor, to pass to another process.
    pub fn into_fd(self) -> OwnedFd {
        self.fd
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "it is 10")]
const HEADER_INT: libc::c_int = HEADER as libc::c_int;

impl Port for Tap {
    fn receive(&mut self, buffer: &mut [u8]) -> Result<Received> {
        loop {
            return match rustix::io::read(&self.fd, &mut *buffer) {
                Ok(length) if length >= buffer.len() => Ok(Received::Truncated),
                Ok(length) => Ok(Received::Frame { start: 0, length }),
                Err(Errno::AGAIN) => Ok(Received::Empty),
                Err(Errno::INTR) => continue,
                // EFAULT: a read returns it between the end of the interface and its release from
                // the descriptor; the buffer is valid.
                Err(Errno::BADFD | Errno::FAULT) => Ok(Received::Gone),
                Err(Errno::IO | Errno::NETDOWN) => Ok(Received::Down),
                Err(e) => Err(Failure::new("tap", "read", e).into()),
            };
        }
    }

    fn send(&mut self, frame: &[u8]) -> Result<Sent> {
        loop {
            return match rustix::io::write(&self.fd, frame) {
                Ok(_) => Ok(Sent::Done),
                Err(Errno::AGAIN) => Ok(Sent::Full),
                Err(Errno::INTR) => continue,
                Err(Errno::NOBUFS | Errno::NOMEM) => Ok(Sent::NoRoom),
                Err(Errno::INVAL | Errno::MSGSIZE) => Ok(Sent::Refused),
                // EIO: it is not up (`tun_get_user` in drivers/net/tun.c). EBADFD: the descriptor has lost it.
                Err(Errno::IO | Errno::NETDOWN) => Ok(Sent::Down),
                Err(Errno::BADFD) => Ok(Sent::Gone),
                Err(e) => Err(Failure::new("tap", "write", e).into()),
            };
        }
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The kernel counts them as the interface's `tx_dropped`, visible only by netlink.
    fn overruns(&mut self) -> Option<u64> {
        None
    }
}

fn open_device() -> Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let unsupported = |reason: Errno, needs: &str| {
        let reason = format!("{DEVICE}: {reason}");
        Error::Unsupported(Unsupported { feature: "taps", reason, needs: needs.to_owned() })
    };
    match rustix::fs::open(Path::new(DEVICE), flags, Mode::empty()) {
        Ok(fd) => Ok(fd),
        Err(e @ (Errno::NOENT | Errno::NODEV | Errno::NXIO)) => {
            Err(unsupported(e, "needs the kernel's module tun (modprobe tun) and its device file"))
        }
        Err(e @ (Errno::ACCESS | Errno::PERM)) => {
            Err(unsupported(e, "needs the right to read and write it (chmod 0666, or root)"))
        }
        Err(e) => Err(Failure::new(DEVICE, "open", e).into()),
    }
}

fn attach(fd: &OwnedFd, name: &str, napi: bool) -> Result<()> {
    let mut request = interface_request(name)?;
    let napi = if napi { libc::IFF_NAPI } else { 0 };
    let flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR | napi;
    #[expect(clippy::cast_possible_truncation, reason = "the flags are below 2^15")]
    let flags = flags as libc::c_short;
    request.ifr_ifru.ifru_flags = flags;
    match ioctl_pointer_mut(fd, libc::TUNSETIFF, &mut request) {
        Ok(()) => Ok(()),
        Err(e) if e.raw_os_error() == Some(libc::EPERM) => {
            let needs = "needs CAP_NET_ADMIN in the network namespace's user namespace".to_owned();
            let reason = format!("make tap {name:?}: {e}");
            Err(Error::Unsupported(Unsupported { feature: "taps", reason, needs }))
        }
        Err(e) => Err(Failure::new(format!("tap {name:?}"), "make", e).into()),
    }
}

/// Enables every offload that the kernel has; returns whether UDP segmentation is one of them (since Linux
/// 6.2).
fn set_offloads(fd: &OwnedFd) -> io::Result<bool> {
    let tcp = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
    let udp = libc::TUN_F_USO4 | libc::TUN_F_USO6;
    match ioctl_value(fd, libc::TUNSETOFFLOAD, tcp | udp) {
        Err(e) if e.raw_os_error() == Some(libc::EINVAL) => {
            ioctl_value(fd, libc::TUNSETOFFLOAD, tcp).map(|()| false)
        }
        other => other.map(|()| true),
    }
}

fn interface_request(name: &str) -> Result<libc::ifreq> {
    let bytes = name.as_bytes();
    let wrong = |why| Err(Failure::new(format!("tap {name:?}"), "name it", why).into());
    if bytes.contains(&0) {
        return wrong(Errno::INVAL);
    }
    if bytes.len() >= libc::IFNAMSIZ {
        return wrong(Errno::NAMETOOLONG);
    }
    // SAFETY: all bytes zero is a valid value of each member of ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(bytes) {
        *to = libc::c_char::from_ne_bytes([*from]);
    }
    Ok(request)
}

/// Arguments that the requests used here point to.
trait Argument {}
impl Argument for libc::c_int {}
impl Argument for u32 {}
impl Argument for libc::ifreq {}

fn ioctl_pointer<T: Argument>(fd: &OwnedFd, request: libc::Ioctl, value: &T) -> io::Result<()> {
    // SAFETY: the tun driver reads an int or an ifreq for the requests used here, and the callers
    // give one.
    checked(unsafe { libc::ioctl(fd.as_raw_fd(), request, std::ptr::from_ref(value)) })
}

fn ioctl_pointer_mut<T: Argument>(
    fd: &OwnedFd,
    request: libc::Ioctl,
    value: &mut T,
) -> io::Result<()> {
    // SAFETY: as ioctl_pointer; the driver writes no more than it reads.
    checked(unsafe { libc::ioctl(fd.as_raw_fd(), request, std::ptr::from_mut(value)) })
}

fn ioctl_value(fd: &OwnedFd, request: libc::Ioctl, value: libc::c_uint) -> io::Result<()> {
    // SAFETY: the tun driver takes the requests used here by value.
    checked(unsafe { libc::ioctl(fd.as_raw_fd(), request, libc::c_ulong::from(value)) })
}

fn checked(ret: libc::c_int) -> io::Result<()> {
    if ret < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
