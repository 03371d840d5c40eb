//! Reading capture files of any maker: pcapng and classic pcap, both byte orders.
//!
//! A [`Reader`] returns one [`Item`] after the other from any source of bytes, which need not be
//! seekable. It understands every `if_tsresol` and `if_tsoffset`, several sections, simple and
//! obsolete packet blocks; it skips blocks of other types, our padding among them. A classic
//! file reads as a section with one interface. It keeps only the current block and the section's
//! interfaces in memory.
//!
//! Any bytes can be read without a panic, and every call makes progress or reports the end. Tests
//! compare with pcap-parser 0.17, which is not used here: it
//! supports no powers of two as `if_tsresol`, reads options of big-endian files as little-endian,
//! and cannot say where a file is truncated.
//! See draft-ietf-opsawg-pcapng and draft-ietf-opsawg-pcap.

mod block;
mod clock;
mod legacy;
mod option;
mod order;
mod source;

use std::io::Read;
use std::net::IpAddr;

use crate::{Error, InterfaceId, MOST_DATA, Result, ng};
use clock::Clock;
use order::Order;
use source::Source;

/// Most interfaces of a section: more than anybody captures at. Each takes memory for as long as its section is read.
const MOST_INTERFACES: usize = 1 << 16;

/// The next item of a file.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Item<'a> {
    /// A section begins: interface numbers restart at 0.
    Section(&'a SectionInfo),
    /// The section's next interface.
    Interface(&'a InterfaceInfo),
    /// A packet.
    Packet(Packet<'a>),
    /// Counters of an interface.
    Statistics(Statistics),
    /// Names of addresses.
    Names(Vec<(IpAddr, Vec<String>)>),
    /// A block that is not parsed.
    Other {
        /// Its type.
        kind: u32,
    },
}

/// The format of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// pcapng.
    Ng,
    /// Classic pcap with microseconds.
    ClassicMicro,
    /// Classic pcap with nanoseconds.
    ClassicNano,
}

/// The beginning of a section. Invalid UTF-8 in its texts is replaced by U+FFFD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SectionInfo {
    /// Its format.
    pub format: Format,
    /// Whether its numbers are big-endian.
    pub big_endian: bool,
    /// Version of the format.
    pub version: (u16, u16),
    /// The program that wrote it.
    pub application: Option<String>,
    /// The operating system.
    pub os: Option<String>,
    /// The machine.
    pub hardware: Option<String>,
    /// Comments.
    pub comments: Vec<String>,
}

/// The description of an interface. Invalid UTF-8 in its texts is replaced by U+FFFD.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterfaceInfo {
    /// Its number in the section.
    pub id: InterfaceId,
    /// The frames' link type, as in LINKTYPE_ values.
    pub linktype: u16,
    /// Maximum bytes captured of a frame, 0 for all.
    pub snaplen: u32,
    /// Name.
    pub name: Option<String>,
    /// Its description.
    pub description: Option<String>,
    /// The device.
    pub hardware: Option<String>,
    /// The operating system.
    pub os: Option<String>,
    /// The filter as given, if it is text.
    pub filter: Option<String>,
    /// Hardware address.
    pub mac: Option<[u8; 6]>,
    /// EUI-64 address.
    pub eui: Option<[u8; 8]>,
    /// Addresses with their prefix lengths.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Bits per second, both directions.
    pub speed: Option<u64>,
    /// Bits per second, sending.
    pub tx_speed: Option<u64>,
    /// Bits per second, receiving.
    pub rx_speed: Option<u64>,
    /// `if_tsresol` as in the file: a power of 10, or of 2 with the highest bit set;
    /// 6 by default.
    pub resolution: u8,
    /// Seconds added to every time; times read here already include them.
    pub offset: i64,
    /// Length of frame check sequences in packets, from `if_fcslen`.
    pub fcs_length: Option<u8>,
    /// Comments.
    pub comments: Vec<String>,
}

/// A packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Its interface, one of [`Reader::interfaces`].
    pub interface: InterfaceId,
    /// Nanoseconds since 1970 UTC, rounded down; `None` in a simple packet block, and if the time
    /// is before 1970 or after 2554.
    pub time_ns: Option<u64>,
    /// Length on the wire, in bytes.
    pub original: u32,
    /// The captured bytes.
    pub data: &'a [u8],
    /// `epb_flags`, 0 without any.
    pub flags: u32,
    /// Packets lost between the previous one and this one.
    pub drops: Option<u64>,
    /// The number that identifies the packet on all interfaces.
    pub id: Option<u64>,
    /// The first comment, up to the first invalid UTF-8.
    pub comment: Option<&'a str>,
}

/// Counters of an interface. Times are as in [`Packet::time_ns`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Its interface, one of [`Reader::interfaces`].
    pub interface: InterfaceId,
    /// When they were read.
    pub time_ns: Option<u64>,
    /// When the capture began.
    pub start_ns: Option<u64>,
    /// When it ended.
    pub end_ns: Option<u64>,
    /// Frames received.
    pub received: Option<u64>,
    /// Frames that the interface dropped.
    pub dropped: Option<u64>,
    /// Frames that the filter accepted.
    pub filter_accepted: Option<u64>,
    /// Frames that the operating system dropped.
    pub os_dropped: Option<u64>,
    /// Frames delivered to the program.
    pub delivered: Option<u64>,
}

/// Longest block that is parsed: a packet, plus the same size for options.
const MOST_BLOCK: usize = MOST_DATA + (64 << 20);

/// The reader's position in a file.
enum State {
    /// Nothing was read yet.
    Begin,
    /// In a section of a pcapng file.
    Ng(Order),
    /// The interface of a classic file is next.
    ClassicInterface(legacy::Layout),
    /// Among the packets of a classic file.
    Classic(legacy::Layout),
    /// At the end.
    End,
}

/// Reads a capture file.
pub struct Reader<R> {
    source: Source<R>,
    state: State,
    section: SectionInfo,
    interfaces: Vec<InterfaceInfo>,
    clocks: Vec<Clock>,
}

impl<R: Read> Reader<R> {
    /// A reader of `bytes`. It reads far ahead, so `bytes` needs no buffer.
    ///
    /// # Errors
    /// [`Error::Format`] when it is not a capture file, [`Error::Read`] when the bytes cannot be read.
    /// A file of less than four bytes is truncated, which the first [`Reader::next`] reports.
    pub fn new(bytes: R) -> Result<Reader<R>> {
        let mut source = Source::new(bytes);
        if source.fill(4)?
            && let Some(&magic) = source.data().first_chunk::<4>()
            // The type of a section reads the same in both byte orders.
            && u32::from_le_bytes(magic) != ng::SECTION
            && legacy::Layout::of(magic).is_none()
        {
            return Err(Error::Format { magic });
        }
        let section = SectionInfo {
            format: Format::Ng,
            big_endian: false,
            version: (0, 0),
            application: None,
            os: None,
            hardware: None,
            comments: Vec::new(),
        };
        let (interfaces, clocks) = (Vec::new(), Vec::new());
        Ok(Reader { source, state: State::Begin, section, interfaces, clocks })
    }

    /// The interfaces of the section so far, by number.
    pub fn interfaces(&self) -> &[InterfaceInfo] {
        &self.interfaces
    }

    /// The file offset of the end of the last item.
    pub fn offset(&self) -> u64 {
        self.source.offset()
    }

    /// The next item, or `None` at the end of the file.
    ///
    /// # Errors
    /// [`Error::Malformed`] for a block that violates the format. If its length is valid the block is
    /// skipped and the next call continues after it. After any other error, such as [`Error::Cut`] for a
    /// file that ends inside a block, the next call returns `None`.
    #[expect(clippy::should_implement_trait, reason = "the item borrows from the reader")]
    pub fn next(&mut self) -> Result<Option<Item<'_>>> {
        // An error leaves the reader at the end, so that no call repeats it for ever.
        match std::mem::replace(&mut self.state, State::End) {
            State::End => Ok(None),
            State::Begin => self.begin(),
            State::Ng(order) => self.block(order),
            State::ClassicInterface(layout) => {
                self.state = State::Classic(layout);
                Ok(self.interfaces.first().map(Item::Interface))
            }
            State::Classic(layout) => self.record(layout),
        }
    }

    /// Determines the format from the first bytes.
    fn begin(&mut self) -> Result<Option<Item<'_>>> {
        self.need(4)?;
        let magic = self.source.data().first_chunk::<4>().copied().unwrap_or_default();
        match legacy::Layout::of(magic) {
            Some(layout) => self.classic_header(layout),
            None => self.section(),
        }
    }

    /// Reads a block of a pcapng file. The state is `End` until its length is found valid.
    fn block(&mut self, order: Order) -> Result<Option<Item<'_>>> {
        if !self.source.fill(1)? {
            return Ok(None);
        }
        self.need(8)?;
        let at = self.source.offset();
        let kind = order.u32(self.source.data(), 0);
        if kind == ng::SECTION {
            return self.section();
        }
        let total = order.u32(self.source.data(), 4);
        if (kind, total) == (0, 0) {
            // Space preallocated for a file.
            return Err(Error::Cut { at });
        }
        let total = block::length(at, kind, total)?;
        // Without a buffer: a block that nobody looks at may have any length.
        if !block::is_known(kind) {
            self.pass(order, kind, total)?;
            self.state = State::Ng(order);
            return Ok(Some(Item::Other { kind }));
        }
        self.whole(kind, total)?;
        self.state = State::Ng(order);
        if kind == ng::INTERFACE {
            return self.interface(order, at, total);
        }
        let bytes = self.source.take(total);
        let body = bytes.get(8..total - 4).unwrap_or_default();
        let section = block::Known { order, interfaces: &self.interfaces, clocks: &self.clocks };
        section.item(kind, body).map(Some).map_err(|reason| Error::Malformed { at, kind, reason })
    }

    /// Reads a section header, which states its own byte order.
    fn section(&mut self) -> Result<Option<Item<'_>>> {
        let (at, kind) = (self.source.offset(), ng::SECTION);
        self.need(12)?;
        let order = Order::of_magic(self.source.data()).ok_or(Error::Malformed {
            at,
            kind,
            reason: "no byte-order magic",
        })?;
        let total = block::length(at, kind, order.u32(self.source.data(), 4))?;
        if total < 28 {
            return Err(Error::Malformed { at, kind, reason: "shorter than a section header" });
        }
        self.whole(kind, total)?;
        let body = self.source.take(total).get(8..total - 4).unwrap_or_default();
        let section = block::section(order, body);
        if section.version.0 != 1 {
            let (major, minor) = section.version;
            return Err(Error::Version { at, major, minor });
        }
        self.section = section;
        self.interfaces.clear();
        self.clocks.clear();
        self.state = State::Ng(order);
        Ok(Some(Item::Section(&self.section)))
    }

    fn interface(&mut self, order: Order, at: u64, total: usize) -> Result<Option<Item<'_>>> {
        let kind = ng::INTERFACE;
        let too_many = Error::Malformed { at, kind, reason: "too many interfaces" };
        let known = self.interfaces.len();
        let id = InterfaceId::try_from(known).ok().filter(|_| known < MOST_INTERFACES);
        let id = id.ok_or(too_many)?;
        let body = self.source.take(total).get(8..total - 4).unwrap_or_default();
        // An unreadable one still gets a number, so that later ones keep theirs.
        let read = block::interface(order, id, body);
        let failed = read.as_ref().err().copied();
        let info =
            // 6, microseconds: what an interface has that says nothing.
            read.unwrap_or_else(|_| InterfaceInfo { id, resolution: 6, ..Default::default() });
        self.clocks.push(Clock::new(info.resolution, info.offset));
        self.interfaces.push(info);
        match failed {
            Some(reason) => Err(Error::Malformed { at, kind, reason }),
            None => Ok(self.interfaces.last().map(Item::Interface)),
        }
    }

    fn classic_header(&mut self, layout: legacy::Layout) -> Result<Option<Item<'_>>> {
        let at = self.source.offset();
        self.need(legacy::HEADER_LEN)?;
        let header = legacy::Header::read(&layout, self.source.take(legacy::HEADER_LEN));
        let (major, minor) = header.version;
        let layout =
            layout.for_version(header.version).ok_or(Error::Version { at, major, minor })?;
        self.section.format = layout.format();
        self.section.big_endian = layout.order == Order::Big;
        self.section.version = header.version;
        self.interfaces.push(header.interface);
        self.state = State::ClassicInterface(layout);
        Ok(Some(Item::Section(&self.section)))
    }

    fn record(&mut self, layout: legacy::Layout) -> Result<Option<Item<'_>>> {
        if !self.source.fill(1)? {
            return Ok(None);
        }
        let at = self.source.offset();
        self.need(layout.record)?;
        let head = legacy::Record::read(&layout, self.source.data());
        if head.captured > MOST_DATA {
            return Err(Error::Malformed { at, kind: 0, reason: "longer than packets may be" });
        }
        let total = layout.record + head.captured;
        self.need(total)?;
        self.state = State::Classic(layout);
        let data = self.source.take(total).get(layout.record..).unwrap_or_default();
        Ok(Some(Item::Packet(Packet {
            interface: 0,
            time_ns: Some(head.time_ns),
            original: head.original,
            data,
            flags: 0,
            drops: None,
            id: None,
            comment: None,
        })))
    }

    /// Gets `len` bytes of the current block to the beginning of the buffer.
    fn need(&mut self, len: usize) -> Result<()> {
        let at = self.source.offset();
        if self.source.fill(len)? { Ok(()) } else { Err(Error::Cut { at }) }
    }

    /// Gets a whole block into the buffer, and checks that both its lengths are equal.
    fn whole(&mut self, kind: u32, total: usize) -> Result<()> {
        let at = self.source.offset();
        if total > MOST_BLOCK {
            return Err(Error::Malformed { at, kind, reason: "longer than blocks may be" });
        }
        self.need(total)?;
        let data = self.source.data();
        if data.get(4..8) != data.get(total - 4..total) {
            return Err(Error::Malformed { at, kind, reason: "its two lengths differ" });
        }
        Ok(())
    }

    /// Skips a block without keeping it.
    fn pass(&mut self, order: Order, kind: u32, total: usize) -> Result<()> {
        let at = self.source.offset();
        if !self.source.skip(total - 4)? || !self.source.fill(4)? {
            return Err(Error::Cut { at });
        }
        let again = order.u32(self.source.take(4), 0);
        if usize::try_from(again) != Ok(total) {
            return Err(Error::Malformed { at, kind, reason: "its two lengths differ" });
        }
        Ok(())
    }
}
