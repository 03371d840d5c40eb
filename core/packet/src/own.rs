//! How frames that netloom sends into a lab by itself are told from all others: probes of `why`. What somebody asks it to send,
//! as `ping` does, is not among them.
//!
//! Each has a mark that can be seen in the frame alone, wherever it passes: echo requests (and so their answers) and datagrams
//! have it as their content, a connection as the number of its first byte. [`filter`] matches them, and ICMP errors about them.
//! A frame that somebody else sends matches by chance alone: a mark has 32 bits and more, at a place and in a packet of a
//! length of which a stream of data has few.

/// The content of a datagram; an echo request's begins with it.
pub const MARK: [u8; 8] = [0x9e, 0x6c, 0x70, 0x3f, 0x5b, 0xd1, 0x27, 0xc4];

/// The sequence number of a request for a connection.
pub const SEQUENCE: u32 = 0x6c70_a53d;

/// Bytes before an IP packet, without and with a VLAN tag.
const ETHERNET: [u32; 2] = [14, 18];

/// A version of IP as filters see it. Offsets are from its header.
struct Version {
    name: &'static str,
    /// What holds for a header without options, and a packet that is whole.
    plain: &'static str,
    header: u32,
    /// Where the header has the protocol.
    next: u32,
    /// ICMP's number, its echo messages and its errors.
    icmp: u32,
    echoes: &'static str,
    errors: &'static str,
    /// A segment without data, by the bytes of its TCP header.
    no_data: &'static str,
}

const VERSIONS: [Version; 2] = [
    Version {
        name: "ip",
        plain: "ip[0] = 0x45 and ip[6:2] & 0x3fff = 0",
        header: 20,
        next: 9,
        icmp: 1,
        echoes: "(ip[20] = 0 or ip[20] = 8)",
        errors: "(ip[20] = 3 or ip[20] = 5 or ip[20] = 11 or ip[20] = 12) and ip[28] = 0x45",
        no_data: "ip[2:2] - ((ip[32] & 0xf0) >> 2) = 20",
    },
    Version {
        name: "ip6",
        plain: "ip6[0] & 0xf0 = 0x60",
        header: 40,
        next: 6,
        icmp: 58,
        echoes: "(ip6[40] = 128 or ip6[40] = 129)",
        errors: "ip6[40] < 5",
        no_data: "ip6[4:2] - ((ip6[52] & 0xf0) >> 2) = 0",
    },
];

/// An expression in libpcap's syntax that matches these frames, without a VLAN tag or with one.
pub fn filter() -> String {
    let [plain, tagged] = ETHERNET.map(|before| {
        let [four, six] = VERSIONS.each_ref().map(|version| version.filter(before));
        format!("({four} or {six})")
    });
    format!("{plain} or (len >= {} and vlan and {tagged})", ETHERNET[1])
}

impl Version {
    /// `len` stands before each load: a frame that is too short for one would end the program.
    fn filter(&self, before: u32) -> String {
        let Version { name, plain, header, next, icmp, echoes, errors, no_data } = self;
        let protocol = |number: u32| format!("{name}[{next}] = {number}");
        let has = |bytes: u32| format!("len >= {}", before + bytes);
        let at = |from: u32| format!("{name}[{}:4]", header + from);
        let (first, second) = (mark(0), mark(4));
        let echo = format!(
            "({} and {} and {echoes} and {} = {first} and {} = {second})",
            protocol(*icmp),
            has(header + 16),
            at(8),
            at(12)
        );
        let datagram = format!(
            "({} and {} and {name}[{}:2] = 16 and {} = {first} and {} = {second})",
            protocol(17),
            has(header + 16),
            header + 4,
            at(8),
            at(12)
        );
        let flags = format!("{name}[{}]", header + 13);
        let (sends, heard) = (at(4), at(8));
        let (begins, after) = (SEQUENCE, SEQUENCE.wrapping_add(1));
        // The request; what accepts it, and ends it on that side; what resets it on either side; what completes it.
        let connection = format!(
            "({} and {} and (({flags} & 0x3f = 0x02 and {sends} = {begins}) or (({flags} & 0x3f = 0x12 or {flags} & 0x3f = 0x11) and {heard} = {after}) or \
             ({flags} & 0x04 != 0 and ({sends} = {after} or {heard} = {after})) or \
             ({flags} & 0x3f = 0x10 and {sends} = {after} and {no_data})))",
            protocol(6),
            has(header + 20)
        );
        // A router quotes the packet that it could not pass on, from its IP header on.
        let (quoted, inside) = (header + 8, 8 + header);
        let inner = format!("{name}[{}]", quoted + next);
        let about = format!(
            "({} and {} and {errors} and ((({inner} = {icmp} or {inner} = 17) and {} = {first}) or ({inner} = 6 and {} = {begins})))",
            protocol(*icmp),
            has(quoted + header + 12),
            at(inside + 8),
            at(inside + 4)
        );
        let any = format!("{echo} or {datagram} or {connection} or {about}");
        format!("({} and {name} and {plain} and ({any}))", has(header + 12))
    }
}

/// Four bytes of the mark as a number.
fn mark(from: usize) -> u32 {
    let [.., one, two, three, four] = MARK[..from + 4] else { return 0 };
    u32::from_be_bytes([one, two, three, four])
}
