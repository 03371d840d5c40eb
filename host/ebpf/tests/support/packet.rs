//! Packet sockets that send and count frames.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use netloom_sys::process::wait_readable;

/// The type of the tests' frames, of those reserved for experiments (RFC 5342).
pub(crate) const ETHERTYPE: u16 = 0x88b5;

/// A packet socket bound to an interface of the calling thread's namespace.
#[derive(Debug)]
pub(crate) struct Packets(OwnedFd);

/// A frame and how the kernel marked it: for this host, broadcast, multicast, for others, outgoing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) bytes: Vec<u8>,
    pub(crate) kind: u8,
}

impl Packets {
    /// For frames of the tests' type, as a protocol gets them: after all that runs at ingress.
    pub(crate) fn open(index: u32) -> Self {
        Self::of(index, ETHERTYPE)
    }

    /// For all frames, as a capture sees them: before what runs at ingress, and outgoing ones.
    pub(crate) fn open_all(index: u32) -> Self {
        Self::of(index, u16::try_from(libc::ETH_P_ALL).unwrap())
    }

    fn of(index: u32, protocol: u16) -> Self {
        let protocol = protocol.to_be();
        // SAFETY: takes no pointer.
        let fd = unsafe {
            libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, i32::from(protocol))
        };
        assert!(fd >= 0, "{}", std::io::Error::last_os_error());
        // SAFETY: the descriptor was just made for us.
        let socket = Self(unsafe { OwnedFd::from_raw_fd(fd) });
        let address = libc::sockaddr_ll {
            sll_family: u16::try_from(libc::AF_PACKET).unwrap(),
            sll_protocol: protocol,
            sll_ifindex: i32::try_from(index).unwrap(),
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        let length = libc::socklen_t::try_from(size_of_val(&address)).unwrap();
        // SAFETY: the address is whole, of the length given, and outlives the call.
        let refused = unsafe { libc::bind(fd, (&raw const address).cast(), length) };
        assert_eq!(refused, 0, "{}", std::io::Error::last_os_error());
        socket
    }

    /// Sends past the queueing discipline and all that runs at the interface's egress.
    pub(crate) fn bypass(self) -> Self {
        self.set(libc::PACKET_QDISC_BYPASS, 1);
        self
    }

    /// Sends and receives with a `virtio_net_hdr` before each frame.
    pub(crate) fn with_header(self) -> Self {
        self.set(15, 1); // PACKET_VNET_HDR
        self
    }

    fn set(&self, option: i32, value: i32) {
        let length = libc::socklen_t::try_from(size_of_val(&value)).unwrap();
        let fd = self.0.as_raw_fd();
        // SAFETY: the value is an int of the length given and outlives the call.
        let refused = unsafe {
            libc::setsockopt(fd, libc::SOL_PACKET, option, (&raw const value).cast(), length)
        };
        assert_eq!(refused, 0, "{}", std::io::Error::last_os_error());
    }

    /// Gives it an eBPF program as its filter.
    pub(crate) fn attach_filter(&self, program: std::os::fd::BorrowedFd<'_>) {
        let value = program.as_raw_fd();
        let length = libc::socklen_t::try_from(size_of_val(&value)).unwrap();
        let (level, option) = (libc::SOL_SOCKET, libc::SO_ATTACH_BPF);
        let fd = self.0.as_raw_fd();
        // SAFETY: the value is an int of the length given and outlives the call.
        let refused =
            unsafe { libc::setsockopt(fd, level, option, (&raw const value).cast(), length) };
        assert_eq!(refused, 0, "{}", std::io::Error::last_os_error());
    }

    /// Whether the frame was taken.
    pub(crate) fn send(&self, frame: &[u8]) -> bool {
        match rustix::io::write(&self.0, frame) {
            Ok(n) => n == frame.len(),
            // A drop at egress is reported to the sender.
            Err(rustix::io::Errno::NOBUFS) => false,
            Err(e) => panic!("send: {e}"),
        }
    }

    /// Sends frames so that they arrive in this order: from one CPU, since each has a queue of its own for
    /// what comes in.
    pub(crate) fn send_in_order(&self, frames: &[Vec<u8>]) {
        super::net::on_thread(|| {
            let mut one = rustix::thread::CpuSet::new();
            one.set(rustix::thread::sched_getcpu());
            rustix::thread::sched_setaffinity(None, &one).unwrap();
            for frame in frames {
                assert!(self.send(frame), "{} bytes", frame.len());
            }
        });
    }

    /// The next frame, or `None` when none is there.
    pub(crate) fn next(&self) -> Option<Seen> {
        let mut room = vec![0u8; 70_000];
        // SAFETY: all zeros is a valid address.
        let mut from: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        let mut length = libc::socklen_t::try_from(size_of_val(&from)).unwrap();
        // SAFETY: buffer and address are ours, of the lengths given, and outlive the call.
        let got = unsafe {
            libc::recvfrom(
                self.0.as_raw_fd(),
                room.as_mut_ptr().cast(),
                room.len(),
                libc::MSG_DONTWAIT,
                (&raw mut from).cast(),
                &raw mut length,
            )
        };
        room.truncate(usize::try_from(got).ok()?);
        Some(Seen { bytes: room, kind: from.sll_pkttype })
    }

    /// Receives with what the kernel keeps beside the frame; no outgoing ones.
    pub(crate) fn with_tags(self) -> Self {
        self.set(libc::PACKET_AUXDATA, 1);
        self.set(23, 1); // PACKET_IGNORE_OUTGOING
        self
    }

    /// The next frame, and the tag that the kernel keeps beside it.
    pub(crate) fn next_tagged(&self, bound: Duration) -> (Vec<u8>, Option<u16>) {
        let (bytes, tag) = self.next_with_tag(bound);
        (bytes, tag.map(|[_, _, a, b]| u16::from_be_bytes([a, b])))
    }

    /// The next frame with the tag in its place.
    pub(crate) fn next_whole(&self, bound: Duration) -> Vec<u8> {
        let (mut bytes, tag) = self.next_with_tag(bound);
        if let Some(tag) = tag {
            bytes.splice(12..12, tag);
        }
        bytes
    }

    fn next_with_tag(&self, bound: Duration) -> (Vec<u8>, Option<[u8; 4]>) {
        assert!(wait_readable(&self.0, bound), "no frame came");
        let mut room = vec![0u8; 70_000];
        let mut control = [0u64; 16];
        let mut part = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
        // SAFETY: all zeros is a valid msghdr.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control);
        // SAFETY: all that the message names is ours and outlives the call.
        let got = unsafe { libc::recvmsg(self.0.as_raw_fd(), &raw mut message, 0) };
        room.truncate(usize::try_from(got).unwrap());
        // A cmsghdr of two words, then a tpacket_auxdata: status, ..., tag in its last four bytes.
        let status = u32::try_from(control[2] & 0xffff_ffff).unwrap();
        let [a, b, c, d, ..] = control[4].to_ne_bytes();
        let [content, kind] = [[a, b], [c, d]].map(|half| u16::from_ne_bytes(half).to_be_bytes());
        let tag = [kind, content].concat().try_into().unwrap();
        (room, (status & libc::TP_STATUS_VLAN_VALID != 0).then_some(tag))
    }

    /// The frames that came in from outside, until `n` are there.
    pub(crate) fn collect(&self, n: usize, bound: Duration) -> Vec<Seen> {
        let mut all = Vec::new();
        while all.len() < n {
            match self.next() {
                Some(seen) if seen.kind != libc::PACKET_OUTGOING => all.push(seen),
                Some(_) => {}
                None => assert!(wait_readable(&self.0, bound), "{} of {n} frames came", all.len()),
            }
        }
        all
    }
}

/// A frame of the tests' type.
pub(crate) fn frame(to: [u8; 6], from: [u8; 6], length: usize) -> Vec<u8> {
    let mut bytes = [&to[..], &from[..], &ETHERTYPE.to_be_bytes()].concat();
    bytes.resize(length, 0x5a);
    bytes
}
