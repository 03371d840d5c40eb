//! Schemas of requests and answers about measurements.

use utoipa::ToSchema;

/// Configuration of a measurement: the source's fields, then netloom's.
#[derive(ToSchema)]
pub(crate) struct Configuration {
    /// 0 empty, 1 all packets, 2 fixed hash, 3 dynamic hash, 4 loss of all packets with delay of selected or
    /// double-marked ones.
    #[schema(maximum = 4)]
    prog_id: u8,
    /// Measurement period in seconds: the length of a block.
    mp: f64,
    /// Length of the whole measurement in seconds.
    mpc: f64,
    /// DSCP value of blocks 0, 2, 4 …
    #[schema(maximum = 63)]
    starter_mark: u8,
    /// DSCP value of blocks 1, 3, 5 …
    #[schema(maximum = 63)]
    next_mark: u8,
    /// The packets to measure.
    filters: Vec<Filter>,
    /// The value that the low bits of hashes must have.
    match_value: Option<u32>,
    /// Number of low bits that must match; program 3 starts with this number.
    #[schema(maximum = 32)]
    hash_length: Option<u8>,
    /// `bob`, `ipsx` or `crc32`.
    hash_function: Option<String>,
    /// Program 3: maximum number of samples kept per block.
    npkts: Option<u32>,
    /// Interfaces to measure; all if absent.
    netifs: Option<Vec<Netif>>,
    /// Interfaces that mark packets of the filters at egress; none if absent.
    marking: Option<Vec<Netif>>,
    /// How long after its end a block is still counted, in seconds; less than half of `mp`. If absent, a
    /// quarter of `mp`, at most 1 s.
    guard: Option<f64>,
    /// DSCP bits that may be written; all six if absent.
    #[schema(minimum = 1, maximum = 63)]
    mark_mask: Option<u8>,
    /// Program 4: additional DSCP bits of double-marked packets.
    #[schema(minimum = 1, maximum = 63)]
    delay_mark: Option<u8>,
    /// The hashed fields: `portable` (default), `rfc5475` or `source`.
    profile: Option<String>,
    /// Initial value of the hash; default 0.
    seed: Option<u32>,
    /// Start of the hashed part of the payload, in bytes; default 0.
    payload_offset: Option<u16>,
    /// Length of the hashed part, 1 to 32 bytes; default 8.
    #[schema(minimum = 1, maximum = 32)]
    payload_size: Option<u8>,
    /// Which of several matching filters applies: `first` in the list (default) or `longest`.
    precedence: Option<String>,
}

/// A filter: absent or null fields match anything.
#[derive(ToSchema)]
struct Filter {
    /// Identifies its measures in requests.
    id: u32,
    /// Source: an address or a prefix.
    src_ip: Option<String>,
    /// Destination: an address or a prefix.
    dst_ip: Option<String>,
    /// `tcp`, `udp`, `icmp`, `icmpv6`, `sctp`, or a number as text.
    proto: Option<String>,
    /// Source port.
    src_port: Option<u16>,
    /// Destination port.
    dst_port: Option<u16>,
}

/// An interface.
#[derive(ToSchema)]
struct Netif {
    /// Its name; in a lab `NODE:IFACE`, and `SWITCH/NODE:IFACE` for the port of a bridge.
    netif: String,
}

/// State of a session.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
pub(crate) enum SessionState {
    /// It is ready to start.
    Prepared,
    /// It is measuring.
    Running,
    /// It has finished; its results can be read.
    Ended,
}

/// A session in a list.
#[derive(ToSchema)]
pub(crate) struct SessionSummary {
    /// Its number.
    id: u64,
    /// Its state.
    state: SessionState,
}

/// All results of a session. Times are nanoseconds of its clock.
#[derive(ToSchema)]
pub(crate) struct Measures {
    /// The session's number.
    session: u64,
    /// Its state.
    state: SessionState,
    /// The last problem, if any.
    trouble: Option<String>,
    /// The name of its probe.
    probe: String,
    /// The clock of all times.
    clock: SessionClock,
    /// The block schedule; `null` before the start.
    schedule: Option<Schedule>,
    /// Where it measures.
    spots: Vec<Spot>,
    /// The results for each filter at each spot.
    measures: Vec<Measure>,
}

/// Data that others need to compare times.
#[derive(ToSchema)]
struct SessionClock {
    /// `tai` or `monotonic`.
    name: String,
    /// TAI minus Unix time in seconds; 0 if nothing has set it.
    tai_offset_s: i64,
    /// Offset to add to a time for Unix time; for the monotonic clock, as of now.
    to_unix_ns: i64,
    /// Time of the last clock step since the session was prepared.
    stepped_at: Option<u64>,
}

/// The block schedule.
#[derive(ToSchema)]
struct Schedule {
    /// When block 0 begins.
    start: u64,
    /// The length of a block.
    period: u64,
    /// How long after its end a block is still counted.
    guard: u64,
}

/// A direction of an interface, and counts of frames that are in no block there.
#[derive(ToSchema)]
struct Spot {
    /// The interface.
    netif: String,
    /// `ingress` or `egress`, as the interface sees it.
    direction: String,
    /// Whether packets are marked: `off`, `single` or `double`.
    marking: String,
    /// Frames that are in no block.
    counts: SpotCounts,
}

/// Counts of frames that are in no block.
#[derive(ToSchema)]
struct SpotCounts {
    /// Frames that are not IP or lack headers.
    other: u64,
    /// Frames that no filter matches.
    unmatched: u64,
    /// Packets of a filter with neither mark.
    unmarked: u64,
    /// Packets with the mark of a block that cannot be counted any more or yet.
    outside: u64,
    /// Frames whose filter was missing from the cache and was searched.
    searched: u64,
    /// Of these, frames for which the cache had no room. They are counted correctly nevertheless.
    overflow: u64,
    /// Packets that could not be marked.
    unwritten: u64,
}

/// A filter at a direction of an interface.
#[derive(ToSchema)]
struct Measure {
    /// The interface.
    netif: String,
    /// `ingress` or `egress`, as the interface sees it.
    direction: String,
    /// The filter's id.
    flow: u32,
    /// Closed blocks that are kept, by number.
    blocks: Vec<Block>,
}

/// A block of a filter at a direction of an interface.
#[derive(ToSchema)]
struct Block {
    /// Its number in this session.
    block: u64,
    /// `starter` or `next`.
    colour: String,
    /// When it began.
    begin: u64,
    /// Time that sums are relative to.
    origin: u64,
    /// Whether the block is complete.
    complete: bool,
    /// Why it is not complete.
    reasons: Vec<String>,
    /// Bytes of all packets.
    bytes: u64,
    /// Packets that arrived after it was closed.
    late: u64,
    /// Packets that could not be hashed.
    unhashable: u64,
    /// All packets.
    all: Times,
    /// Double-marked packets.
    double: Times,
    /// Samples, if the program samples.
    sampled: Option<SampledPackets>,
}

/// Packet count and times.
#[derive(ToSchema)]
struct Times {
    /// Number of packets.
    packets: u64,
    /// Sum of their times since the block's origin, as text: it may need more bits than JSON numbers have.
    sum: String,
    /// Mean of their times (ATS), rounded down to a nanosecond. `null` if the program keeps no times of these
    /// packets.
    mean: Option<u64>,
    /// The earliest.
    first: Option<u64>,
    /// The latest.
    last: Option<u64>,
}

/// Samples of a block.
#[derive(ToSchema)]
struct SampledPackets {
    /// Number of low hash bits guaranteed equal.
    hash_length: u8,
    /// Exclusive upper bound of all samples' distances, 0 to 2^32: lists are compared at the lower one.
    threshold: u64,
    /// Selected packets without room to be kept.
    unkept: u64,
    /// Whether packets with equal hashes had to be dropped.
    crowded: bool,
    /// In time order.
    samples: Vec<SampledPacket>,
}

/// A packet with its time.
#[derive(ToSchema)]
struct SampledPacket {
    /// When it was seen.
    time: u64,
    /// The hash that selected it.
    hash: u32,
    /// Its identity at other points.
    identity: u32,
}
