//! Frames as they are on a link, read by offsets: for what is true of them, not by the project's readers.

/// Bytes of the header that stands before a frame (struct virtio_net_hdr).
pub(crate) const HEADER: usize = 10;

/// The fields read of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Read {
    /// Where it comes from.
    pub(crate) source_mac: [u8; 6],
    /// Where the IP header begins.
    pub(crate) ip: usize,
    /// Whether it is IPv6.
    pub(crate) v6: bool,
    pub(crate) protocol: u8,
    /// DSCP and ECN.
    pub(crate) class: u8,
    /// Whether it is a later fragment: its payload has no header.
    pub(crate) later: bool,
    /// Where the payload of IP begins.
    pub(crate) transport: usize,
    /// Packets on the wire, and their bytes.
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// Reads a frame with its header before it; nothing of what is not IP.
pub(crate) fn read(with_header: &[u8]) -> Option<Read> {
    let (header, frame) = with_header.split_at(HEADER);
    let mut ip = 14;
    while matches!(be16(frame, ip - 2), 0x8100 | 0x88a8) {
        ip += 4;
    }
    let v6 = match be16(frame, ip - 2) {
        0x0800 => false,
        0x86dd => true,
        _ => return None,
    };
    let (protocol, class, later, transport) = if v6 {
        let class = frame[ip] << 4 | frame[ip + 1] >> 4;
        match frame[ip + 6] {
            44 => (frame[ip + 40], class, be16(frame, ip + 42) & 0xfff8 != 0, ip + 48),
            protocol => (protocol, class, false, ip + 40),
        }
    } else {
        let later = be16(frame, ip + 6) & 0x1fff != 0;
        (frame[ip + 9], frame[ip + 1], later, ip + usize::from(frame[ip] & 15) * 4)
    };
    let whole = u64::try_from(frame.len()).unwrap();
    let (kind, size) = (header[1] & 0x7f, u64::from(u16::from_ne_bytes([header[4], header[5]])));
    let (packets, bytes) = if kind == 0 {
        (1, whole)
    } else {
        let own = if protocol == 6 { usize::from(frame[transport + 12] >> 4) * 4 } else { 8 };
        let headers = u64::try_from(transport + own).unwrap();
        let packets = (whole - headers).div_ceil(size);
        (packets, whole - headers + packets * headers)
    };
    let source_mac = frame[6..12].try_into().unwrap();
    Some(Read { source_mac, ip, v6, protocol, class, later, transport, packets, bytes })
}

/// The number that our datagrams to `port` begin with.
pub(crate) fn sequence(read: &Read, with_header: &[u8], port: u16) -> Option<u64> {
    let segment = &with_header[HEADER + read.transport..];
    let ours = read.protocol == 17 && !read.later && be16(segment, 2) == port;
    ours.then(|| u64::from_be_bytes(segment[8..16].try_into().unwrap()))
}
