//! Packet sockets as such: opening, binding, and queries about their interface (packet(7), netdevice(7)).
//!
//! Nothing here changes an interface: promiscuous membership is the socket's and ends with it,
//! however the process ends. Queries concern an interface of the network namespace in which the
//! socket was opened, wherever it is used.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use netloom_sys::{Failure, Unsupported};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use crate::option::{self, length_of};
use crate::{Error, Result};

/// Every protocol, for [`bind`].
pub const ALL: u16 = 0x0003;

/// Opens a packet socket that receives nothing until it is bound to a protocol. `index` is the
/// intended interface, for errors.
///
/// # Errors
/// [`Error::Unsupported`] without permission; [`Error::Failed`] if the kernel refuses.
pub fn open(index: u32, flags: SocketFlags) -> Result<OwnedFd> {
    let flags = flags | SocketFlags::CLOEXEC;
    rustix::net::socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)
        .map_err(|errno| refused(index, errno))
}

/// The interface's name in errors.
pub fn object(index: u32) -> String {
    format!("packet socket on interface {index}")
}

fn refused(index: u32, errno: Errno) -> Error {
    let needs = match errno {
        Errno::PERM | Errno::ACCESS => {
            "needs CAP_NET_RAW in the network namespace's user namespace"
        }
        Errno::AFNOSUPPORT => "needs a kernel with packet sockets (CONFIG_PACKET)",
        _ => return Failure::new(object(index), "open", errno).into(),
    };
    let reason = format!("{}: {errno}", object(index));
    Unsupported { feature: "packet sockets", reason, needs: needs.to_owned() }.into()
}

/// Sets an integer option of packet sockets; `operation` describes it in errors.
///
/// # Errors
/// The kernel's error.
pub fn set(
    fd: impl AsFd,
    index: u32,
    name: i32,
    value: i32,
    operation: &'static str,
) -> Result<()> {
    option::set(fd, libc::SOL_PACKET, name, value)
        .map_err(|e| Failure::new(object(index), operation, e).into())
}

/// Binds it to an interface and a protocol ([`ALL`], or 0 for none: it then only sends).
///
/// # Errors
/// The kernel's error: ENODEV if there is no such interface.
pub fn bind(fd: &OwnedFd, index: u32, protocol: u16) -> Result<()> {
    let failed = |e| Error::from(Failure::new(object(index), "bind to", e));
    let mut address = no_address();
    address.sll_family = family().map_err(failed)?;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = i32::try_from(index).map_err(|e| failed(io::Error::other(e)))?;
    let length = length_of::<libc::sockaddr_ll>().map_err(failed)?;
    // SAFETY: the pointer is to a live sockaddr_ll and the length is its size.
    let ret = unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length) };
    if ret == 0 { Ok(()) } else { Err(failed(io::Error::last_os_error())) }
}

/// The interface it is bound to; `None` if it no longer exists, or the socket was never bound.
///
/// # Errors
/// The kernel's error, if it is not a packet socket.
pub fn interface(fd: impl AsFd) -> Result<Option<u32>> {
    let failed = |e| Error::from(Failure::new("packet socket", "ask for its interface", e));
    let mut address = no_address();
    let mut length = length_of::<libc::sockaddr_ll>().map_err(failed)?;
    let at = (&raw mut address).cast();
    // SAFETY: the pointer is to a live sockaddr_ll, any bytes are a valid value, the length is its size.
    let ret = unsafe { libc::getsockname(fd.as_fd().as_raw_fd(), at, &raw mut length) };
    if ret != 0 {
        return Err(failed(io::Error::last_os_error()));
    }
    if address.sll_family != family().map_err(failed)? {
        return Err(failed(io::Error::from_raw_os_error(libc::EINVAL)));
    }
    // A vanished interface is -1, none is 0.
    Ok(u32::try_from(address.sll_ifindex).ok().filter(|index| *index != 0))
}

fn family() -> io::Result<libc::c_ushort> {
    libc::c_ushort::try_from(libc::AF_PACKET).map_err(io::Error::other)
}

fn no_address() -> libc::sockaddr_ll {
    // SAFETY: all bytes zero is a valid value of each member of sockaddr_ll.
    unsafe { std::mem::zeroed() }
}

/// Requests buffers of these sizes in bytes, and gets what is allowed: beyond the system's limit
/// only with CAP_NET_ADMIN of the host. Smaller buffers only lose frames sooner, which is counted.
pub fn enlarge(fd: &OwnedFd, receive: i32, send: i32) {
    for (force, plain, bytes) in [
        (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, receive),
        (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, send),
    ] {
        if option::set(fd, libc::SOL_SOCKET, force, bytes).is_err() {
            let _ = option::set(fd, libc::SOL_SOCKET, plain, bytes);
        }
    }
}

/// Makes the interface deliver frames for other stations, too, while the socket is open: the kernel
/// counts the sockets that request it, and restores the mode with the last one.
///
/// # Errors
/// The kernel's error.
pub fn promiscuous(fd: impl AsFd, index: u32) -> Result<()> {
    let failed = |e| Error::from(Failure::new(object(index), "receive what is for others on", e));
    let request = libc::packet_mreq {
        mr_ifindex: i32::try_from(index).map_err(|e| failed(io::Error::other(e)))?,
        mr_type: libc::c_ushort::try_from(libc::PACKET_MR_PROMISC)
            .map_err(|e| failed(io::Error::other(e)))?,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    option::set(fd, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, request).map_err(failed)
}

/// The kernel's frame counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Offered to the socket, including lost ones.
    pub frames: u64,
    /// Lost: no room, or of a type that the offload header cannot express.
    pub lost: u64,
}

/// Counters since the last query: a query resets the kernel's counters, so only one user of a
/// socket may ask.
///
/// # Errors
/// The kernel's error.
pub fn statistics(fd: impl AsFd) -> Result<Statistics> {
    // struct tpacket_stats: packets, including drops, and drops.
    let [frames, lost]: [u32; 2] = option::get(fd, libc::SOL_PACKET, libc::PACKET_STATISTICS)
        .map_err(|e| Failure::new("packet socket", "read statistics", e))?;
    Ok(Statistics { frames: frames.into(), lost: lost.into() })
}

/// The longest IP packet that the interface accepts, in bytes.
///
/// # Errors
/// The kernel's error: ENODEV if there is no such interface.
pub fn mtu(fd: impl AsFd, index: u32) -> Result<u32> {
    let failed = |e| Error::from(Failure::new(object(index), "read the MTU", e));
    let mut request = named(&fd, index).map_err(failed)?;
    ask(&fd, libc::SIOCGIFMTU, &mut request).map_err(failed)?;
    // SAFETY: SIOCGIFMTU has written the member; any bytes are a valid value.
    let mtu = unsafe { request.ifr_ifru.ifru_mtu };
    u32::try_from(mtu).map_err(|e| failed(io::Error::other(e)))
}

/// `struct ethtool_value` and the constants used of linux/ethtool.h.
#[repr(C)]
struct Flags {
    command: u32,
    data: u32,
}
const ETHTOOL_GFLAGS: u32 = 0x25;
const ETH_FLAG_LRO: u32 = 1 << 15;

/// Whether the card merges received packets irreversibly (LRO): such frames may not be forwarded.
/// Many of them have no super-frame type; the kernel then drops them before a socket with
/// PACKET_VNET_HDR, counted as lost. `ethtool -K IFACE lro off` ends it; merging by the kernel
/// (GRO) or by a card in GRO's way (rx-gro-hw) does no harm.
///
/// # Errors
/// The kernel's error: ENODEV if there is no such interface.
pub fn merges_irreversibly(fd: impl AsFd, index: u32) -> Result<bool> {
    let failed = |e| Error::from(Failure::new(object(index), "read features", e));
    let mut request = named(&fd, index).map_err(failed)?;
    let mut flags = Flags { command: ETHTOOL_GFLAGS, data: 0 };
    request.ifr_ifru.ifru_data = (&raw mut flags).cast();
    match ask(&fd, libc::SIOCETHTOOL, &mut request) {
        // SAFETY: `flags` is live and nobody writes to it any more.
        Ok(()) => Ok(unsafe { (&raw const flags.data).read_volatile() } & ETH_FLAG_LRO != 0),
        Err(e) if e.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(false),
        Err(e) => Err(failed(e)),
    }
}

/// A request for the interface, with its name filled in.
fn named(fd: impl AsFd, index: u32) -> io::Result<libc::ifreq> {
    // SAFETY: all bytes zero is a valid value of each member of ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_ifru.ifru_ifindex = i32::try_from(index).map_err(io::Error::other)?;
    ask(fd, libc::SIOCGIFNAME, &mut request)?;
    Ok(request)
}

fn ask(fd: impl AsFd, what: libc::Ioctl, request: &mut libc::ifreq) -> io::Result<()> {
    let fd = fd.as_fd().as_raw_fd();
    // SAFETY: the kernel reads and writes an ifreq for the requests used here; anything it points
    // to is the caller's and outlives the call.
    let ret = unsafe { libc::ioctl(fd, what, std::ptr::from_mut(request)) };
    if ret < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
