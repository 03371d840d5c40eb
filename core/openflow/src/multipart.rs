//! Statistics and descriptions, asked for and answered in parts (section 7.3.5; 1.0.0 section 5.3.5).

mod flow;
mod gather;
mod group;
mod meter;
mod port;
mod table;
mod table_features;

pub use flow::{Aggregate, FlowCounts, FlowRequest, FlowStats};
pub use gather::{Gather, GatherError, segments};
pub use group::{GroupCapabilities, GroupDesc, GroupFeatures, GroupStats};
pub use meter::{MeterConfig, MeterFeatures, MeterStats};
pub use port::{PortStats, QueueStats};
pub use table::{Desc, TableStats};
pub use table_features::{TableFeatures, TableProperty};

use crate::error::Reason;
use crate::port::{Port, PortNumber};
use crate::wire::{Encoded, Reader, Result, Writer, fail};

/// More parts follow (OFPMPF_REQ_MORE, OFPMPF_REPLY_MORE).
pub const MORE: u16 = 1;

/// The number of flow entries among requests and answers (OFPMP_FLOW).
const FLOW: u16 = 1;

/// OFPT_MULTIPART_REQUEST, in 1.0 OFPT_STATS_REQUEST.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MultipartRequest {
    /// [`MORE`], or none.
    pub flags: u16,
    /// The request.
    pub body: Request,
}

/// The request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// The switch in words.
    Desc,
    /// Flow entries.
    Flow(FlowRequest),
    /// Sums over flow entries.
    Aggregate(FlowRequest),
    /// Counters of tables.
    Table,
    /// Counters of a port, or of all (ANY).
    PortStats(PortNumber),
    /// Counters of queues.
    QueueStats {
        /// The port, or all (ALL in 1.0, ANY in 1.3).
        port: PortNumber,
        /// The queue, or all.
        queue: u32,
    },
    /// Counters of a group, or of all (1.3).
    GroupStats(u32),
    /// Groups (1.3).
    GroupDesc,
    /// What groups can be (1.3).
    GroupFeatures,
    /// Counters of a meter, or of all (1.3).
    MeterStats(u32),
    /// A meter, or all (1.3).
    MeterConfig(u32),
    /// What meters can be (1.3).
    MeterFeatures,
    /// What tables can do; with tables: set that (1.3).
    TableFeatures(Vec<TableFeatures>),
    /// Ports (1.3).
    PortDesc,
    /// An experimenter's.
    Experimenter {
        /// Its number.
        experimenter: u32,
        /// The rest.
        data: Vec<u8>,
    },
}

/// Reads a number and what pads it to eight bytes.
fn padded(r: &mut Reader<'_>) -> Result<u32> {
    let number = r.u32()?;
    r.skip(4)?;
    Ok(number)
}

fn read_port(r: &mut Reader<'_>) -> Result<PortNumber> {
    let port = PortNumber::read(r)?;
    // A port has 16 bits in 1.0; two more bytes of padding keep the eight.
    r.skip(if r.is_10() { 6 } else { 4 })?;
    Ok(port)
}

fn write_port(port: PortNumber, w: &mut Writer) -> Encoded {
    port.write(w)?;
    w.zeros(if w.is_10() { 6 } else { 4 });
    Ok(())
}

impl Request {
    const fn number(&self) -> u16 {
        match self {
            Request::Desc => 0,
            Request::Flow(_) => 1,
            Request::Aggregate(_) => 2,
            Request::Table => 3,
            Request::PortStats(_) => 4,
            Request::QueueStats { .. } => 5,
            Request::GroupStats(_) => 6,
            Request::GroupDesc => 7,
            Request::GroupFeatures => 8,
            Request::MeterStats(_) => 9,
            Request::MeterConfig(_) => 10,
            Request::MeterFeatures => 11,
            Request::TableFeatures(_) => 12,
            Request::PortDesc => 13,
            Request::Experimenter { .. } => 0xffff,
        }
    }

    fn read(kind: u16, r: &mut Reader<'_>) -> Result<Request> {
        let v13 = !r.is_10();
        Ok(match kind {
            0 => Request::Desc,
            1 => Request::Flow(FlowRequest::read(r)?),
            2 => Request::Aggregate(FlowRequest::read(r)?),
            3 => Request::Table,
            4 => Request::PortStats(read_port(r)?),
            5 => {
                let port = PortNumber::read(r)?;
                r.skip(if r.is_10() { 2 } else { 0 })?;
                Request::QueueStats { port, queue: r.u32()? }
            }
            6 if v13 => Request::GroupStats(padded(r)?),
            7 if v13 => Request::GroupDesc,
            8 if v13 => Request::GroupFeatures,
            9 if v13 => Request::MeterStats(padded(r)?),
            10 if v13 => Request::MeterConfig(padded(r)?),
            11 if v13 => Request::MeterFeatures,
            12 if v13 => Request::TableFeatures(table_features::read_all(r)?),
            13 if v13 => Request::PortDesc,
            0xffff => Request::Experimenter { experimenter: r.u32()?, data: r.rest() },
            _ => return fail(Reason::BadRequestBadMultipart, "multipart request: unknown type"),
        })
    }

    fn write(&self, w: &mut Writer) -> Encoded {
        match self {
            Request::Flow(request) | Request::Aggregate(request) => request.write(w)?,
            Request::PortStats(port) => write_port(*port, w)?,
            Request::QueueStats { port, queue } => {
                port.write(w)?;
                w.zeros(if w.is_10() { 2 } else { 0 });
                w.u32(*queue);
            }
            Request::GroupStats(number)
            | Request::MeterStats(number)
            | Request::MeterConfig(number) => {
                w.u32(*number);
                w.zeros(4);
            }
            Request::TableFeatures(tables) => tables.iter().try_for_each(|table| table.write(w))?,
            Request::Experimenter { experimenter, data } => {
                w.u32(*experimenter);
                w.bytes(data);
            }
            Request::Desc
            | Request::Table
            | Request::GroupDesc
            | Request::GroupFeatures
            | Request::MeterFeatures
            | Request::PortDesc => {}
        }
        Ok(())
    }
}

/// Type, flags and padding; refuses types that only 1.3 has.
fn write_head(number: u16, flags: u16, w: &mut Writer) -> Encoded {
    // 1.0 has types 0 to 5, and OFPST_VENDOR with the number of OFPMP_EXPERIMENTER.
    if w.is_10() && (6..0xffff).contains(&number) {
        return w.lacks("type of statistics");
    }
    w.u16(number);
    w.u16(flags);
    w.zeros(if w.is_10() { 0 } else { 4 });
    Ok(())
}

fn read_head(r: &mut Reader<'_>) -> Result<(u16, u16)> {
    let head = (r.u16()?, r.u16()?);
    r.skip(if r.is_10() { 0 } else { 4 })?;
    Ok(head)
}

impl MultipartRequest {
    pub(crate) fn read(r: &mut Reader<'_>) -> Result<MultipartRequest> {
        let (kind, flags) = read_head(r)?;
        Ok(MultipartRequest { flags, body: Request::read(kind, r)? })
    }

    pub(crate) fn write(&self, w: &mut Writer) -> Encoded {
        write_head(self.body.number(), self.flags, w)?;
        self.body.write(w)
    }
}

/// OFPT_MULTIPART_REPLY, in 1.0 OFPT_STATS_REPLY.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MultipartReply {
    /// [`MORE`], or none.
    pub flags: u16,
    /// The answer, or a part of it.
    pub body: Reply,
}

/// An answer, or a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The switch in words.
    Desc(Box<Desc>),
    /// Flow entries.
    Flow(Vec<FlowStats>),
    /// Sums over flow entries.
    Aggregate(Aggregate),
    /// Counters of tables.
    Table(Vec<TableStats>),
    /// Counters of ports.
    PortStats(Vec<PortStats>),
    /// Counters of queues.
    QueueStats(Vec<QueueStats>),
    /// Counters of groups (1.3).
    GroupStats(Vec<GroupStats>),
    /// Groups (1.3).
    GroupDesc(Vec<GroupDesc>),
    /// What groups can be (1.3).
    GroupFeatures(GroupFeatures),
    /// Counters of meters (1.3).
    MeterStats(Vec<MeterStats>),
    /// Meters (1.3).
    MeterConfig(Vec<MeterConfig>),
    /// What meters can be (1.3).
    MeterFeatures(MeterFeatures),
    /// What tables can do (1.3).
    TableFeatures(Vec<TableFeatures>),
    /// Ports (1.3).
    PortDesc(Vec<Port>),
    /// An experimenter's.
    Experimenter {
        /// Its number.
        experimenter: u32,
        /// The rest.
        data: Vec<u8>,
    },
}

impl Reply {
    const fn number(&self) -> u16 {
        match self {
            Reply::Desc(_) => 0,
            Reply::Flow(_) => 1,
            Reply::Aggregate(_) => 2,
            Reply::Table(_) => 3,
            Reply::PortStats(_) => 4,
            Reply::QueueStats(_) => 5,
            Reply::GroupStats(_) => 6,
            Reply::GroupDesc(_) => 7,
            Reply::GroupFeatures(_) => 8,
            Reply::MeterStats(_) => 9,
            Reply::MeterConfig(_) => 10,
            Reply::MeterFeatures(_) => 11,
            Reply::TableFeatures(_) => 12,
            Reply::PortDesc(_) => 13,
            Reply::Experimenter { .. } => 0xffff,
        }
    }

    fn read(kind: u16, r: &mut Reader<'_>) -> Result<Reply> {
        let v13 = !r.is_10();
        Ok(match kind {
            0 => Reply::Desc(Box::new(Desc::read(r)?)),
            1 => Reply::Flow(r.all(FlowStats::read)?),
            2 => Reply::Aggregate(Aggregate::read(r)?),
            3 => Reply::Table(r.all(TableStats::read)?),
            4 => Reply::PortStats(r.all(PortStats::read)?),
            5 => Reply::QueueStats(r.all(QueueStats::read)?),
            6 if v13 => Reply::GroupStats(r.all(GroupStats::read)?),
            7 if v13 => Reply::GroupDesc(r.all(GroupDesc::read)?),
            8 if v13 => Reply::GroupFeatures(GroupFeatures::read(r)?),
            9 if v13 => Reply::MeterStats(r.all(MeterStats::read)?),
            10 if v13 => Reply::MeterConfig(r.all(MeterConfig::read)?),
            11 if v13 => Reply::MeterFeatures(MeterFeatures::read(r)?),
            12 if v13 => Reply::TableFeatures(table_features::read_all(r)?),
            13 if v13 => Reply::PortDesc(r.all(Port::read)?),
            0xffff => Reply::Experimenter { experimenter: r.u32()?, data: r.rest() },
            _ => return fail(Reason::BadRequestBadMultipart, "multipart reply: unknown type"),
        })
    }

    fn write(&self, w: &mut Writer) -> Encoded {
        match self {
            Reply::Desc(desc) => desc.write(w),
            Reply::Flow(all) => return all.iter().try_for_each(|one| one.write(w)),
            Reply::Aggregate(sums) => sums.write(w),
            Reply::Table(all) => all.iter().for_each(|one| one.write(w)),
            Reply::PortStats(all) => return all.iter().try_for_each(|one| one.write(w)),
            Reply::QueueStats(all) => return all.iter().try_for_each(|one| one.write(w)),
            Reply::GroupStats(all) => return all.iter().try_for_each(|one| one.write(w)),
            Reply::GroupDesc(all) => return all.iter().try_for_each(|one| one.write(w)),
            Reply::GroupFeatures(features) => features.write(w),
            Reply::MeterStats(all) => return all.iter().try_for_each(|one| one.write(w)),
            Reply::MeterConfig(all) => return all.iter().try_for_each(|one| one.write(w)),
            Reply::MeterFeatures(features) => features.write(w),
            Reply::TableFeatures(all) => return all.iter().try_for_each(|one| one.write(w)),
            Reply::PortDesc(all) => return all.iter().try_for_each(|one| one.write(w)),
            Reply::Experimenter { experimenter, data } => {
                w.u32(*experimenter);
                w.bytes(data);
            }
        }
        Ok(())
    }
}

impl MultipartReply {
    pub(crate) fn read(r: &mut Reader<'_>) -> Result<MultipartReply> {
        let (kind, flags) = read_head(r)?;
        Ok(MultipartReply { flags, body: Reply::read(kind, r)? })
    }

    pub(crate) fn write(&self, w: &mut Writer) -> Encoded {
        write_head(self.body.number(), self.flags, w)?;
        self.body.write(w)
    }
}
