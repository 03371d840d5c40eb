//! Shapes of what is sent and answered about measurements.

use utoipa::ToSchema;

/// What is measured: the source's fields, then ours.
#[derive(ToSchema)]
pub(crate) struct Configuration {
    /// 0 empty, 1 all packets, 2 fixed hash, 3 dynamic hash, 4 loss of all packets with delay of selected
    /// or twice marked ones.
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
    /// Which packets are measured.
    filters: Vec<Filter>,
    /// The value with which hashes must agree in their low bits.
    match_value: Option<u32>,
    /// How many low bits must agree; program 3 begins with these.
    #[schema(maximum = 32)]
    hash_length: Option<u8>,
    /// `bob`, `ipsx` or `crc32`.
    hash_function: Option<String>,
    /// Program 3: the most samples kept of a block.
    npkts: Option<u32>,
    /// Where to measure; everywhere if left out.
    netifs: Option<Vec<Netif>>,
    /// Where packets of the filters are marked as they leave; nowhere if left out.
    marking: Option<Vec<Netif>>,
    /// How long after its end a block is still counted, in seconds; below half of `mp`. If left out a
    /// quarter of `mp`, at most 1 s.
    guard: Option<f64>,
    /// Which bits of the DSCP field may be written; all six if left out.
    #[schema(minimum = 1, maximum = 63)]
    mark_mask: Option<u8>,
    /// Program 4: DSCP bits set besides in packets marked twice.
    #[schema(minimum = 1, maximum = 63)]
    delay_mark: Option<u8>,
    /// What is hashed: `portable` (if left out), `rfc5475` or `source`.
    profile: Option<String>,
    /// The hash's initial value; 0 if left out.
    seed: Option<u32>,
    /// Where the hashed part of the payload begins, in bytes; 0 if left out.
    payload_offset: Option<u16>,
    /// How long it is, 1 to 32 bytes; 8 if left out.
    #[schema(minimum = 1, maximum = 32)]
    payload_size: Option<u8>,
    /// Which of several filters has a packet: `first` in the list (if left out) or `longest`.
    precedence: Option<String>,
}

/// A filter: what is left out or null may be anything.
#[derive(ToSchema)]
struct Filter {
    /// By which its measures are asked for.
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

/// What a session is doing.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
pub(crate) enum SessionState {
    /// It can be started.
    Prepared,
    /// It measures.
    Running,
    /// It has measured; what it measured can be read.
    Ended,
}

/// A session in a list.
#[derive(ToSchema)]
pub(crate) struct SessionSummary {
    /// Its number.
    id: u64,
    /// What it is doing.
    state: SessionState,
}

/// All that a session has to say. Times are nanoseconds of its clock.
#[derive(ToSchema)]
pub(crate) struct Measures {
    /// The session's number.
    session: u64,
    /// What it is doing.
    state: SessionState,
    /// What went wrong, if something did.
    trouble: Option<String>,
    /// By what its probe is known.
    probe: String,
    /// The clock of all times.
    clock: SessionClock,
    /// The blocks; none before it was started.
    schedule: Option<Schedule>,
    /// Where it measures.
    spots: Vec<Spot>,
    /// What it measured: of each spot, each filter.
    measures: Vec<Measure>,
}

/// What others must know to compare times.
#[derive(ToSchema)]
struct SessionClock {
    /// `tai` or `monotonic`.
    name: String,
    /// TAI less Unix time in seconds; 0 where nothing has set it.
    tai_offset_s: i64,
    /// What is to be added to a time for Unix time. Of the monotonic clock as of now.
    to_unix_ns: i64,
    /// When it was stepped the last time since the session was prepared.
    stepped_at: Option<u64>,
}

/// When blocks begin and end.
#[derive(ToSchema)]
struct Schedule {
    /// When block 0 begins.
    start: u64,
    /// The length of a block.
    period: u64,
    /// How long after its end a block is still counted.
    guard: u64,
}

/// A direction of an interface, and what became of frames that are in no block there.
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

/// What became of frames that are in no block.
#[derive(ToSchema)]
struct SpotCounts {
    /// Frames that are not IP or lack headers.
    other: u64,
    /// Frames that no filter matches.
    unmatched: u64,
    /// Packets of a filter with neither mark.
    unmarked: u64,
    /// Packets with a mark of no block that can be counted any more or yet.
    outside: u64,
    /// Frames whose filter was not in the cache and was searched for.
    searched: u64,
    /// Of these, those for which the cache had no room. Their counts are right all the same.
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
    /// From when sums are counted.
    origin: u64,
    /// Whether nothing stands against it.
    complete: bool,
    /// What stands against it, in words.
    reasons: Vec<String>,
    /// Bytes of all packets.
    bytes: u64,
    /// Packets that came after it was closed.
    late: u64,
    /// Packets that could not be hashed.
    unhashable: u64,
    /// All packets.
    all: Times,
    /// Those marked twice.
    double: Times,
    /// What was sampled, if the program does.
    sampled: Option<SampledPackets>,
}

/// Packets and when they came.
#[derive(ToSchema)]
struct Times {
    /// How many.
    packets: u64,
    /// The sum of their times from the block's origin, as text: it may have more bits than numbers of
    /// JSON.
    sum: String,
    /// The mean of their times (ATS), to the nanosecond below. Nothing if the program keeps no times of
    /// these packets.
    mean: Option<u64>,
    /// The earliest.
    first: Option<u64>,
    /// The latest.
    last: Option<u64>,
}

/// Samples of a block.
#[derive(ToSchema)]
struct SampledPackets {
    /// How many low bits of the hash agree for certain.
    hash_length: u8,
    /// Below what the distance of all samples is, 0 to 2^32: lists are compared at the lower one.
    threshold: u64,
    /// Packets that were selected but for which there was no room.
    unkept: u64,
    /// Whether packets of one hash had to be left out.
    crowded: bool,
    /// In order of time.
    samples: Vec<SampledPacket>,
}

/// A packet whose time was kept.
#[derive(ToSchema)]
struct SampledPacket {
    /// When it was seen.
    time: u64,
    /// The hash by which it was selected.
    hash: u32,
    /// By what it is known at other points.
    identity: u32,
}
