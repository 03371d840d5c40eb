//! Queues of ports (sections 7.2.2 and 7.3.6; 1.0.0 sections 5.2.2 and 5.3.4).

use crate::error::Reason;
use crate::port::PortNumber;
use crate::wire::{Encoded, Reader, Result, Writer, fail};

/// The queue that stands for all (OFPQ_ALL).
pub const QUEUE_ALL: u32 = 0xffff_ffff;

/// A property of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueProperty {
    /// No property (1.0).
    None,
    /// Guaranteed rate in tenths of a percent; above 1000: none.
    MinRate(u16),
    /// Maximum rate in tenths of a percent; above 1000: none (1.3).
    MaxRate(u16),
    /// An experimenter's (1.3).
    Experimenter {
        /// Its number.
        experimenter: u32,
        /// The rest.
        data: Vec<u8>,
    },
}

impl QueueProperty {
    fn read(r: &mut Reader<'_>) -> Result<QueueProperty> {
        let mut r = r.sized(2, 8)?;
        let v10 = r.is_10();
        let kind = r.u16()?;
        r.skip(6)?;
        let property = match kind {
            0 if v10 => QueueProperty::None,
            1 => QueueProperty::MinRate(rate(&mut r)?),
            2 if !v10 => QueueProperty::MaxRate(rate(&mut r)?),
            0xffff if !v10 => {
                let experimenter = r.u32()?;
                r.skip(4)?;
                QueueProperty::Experimenter { experimenter, data: r.rest() }
            }
            _ => return fail(Reason::BadRequestBadLen, "queue property: unknown"),
        };
        r.finish()?;
        Ok(property)
    }

    fn write(&self, w: &mut Writer) -> Encoded {
        let start = w.len();
        let number = match self {
            QueueProperty::None if w.is_10() => 0,
            QueueProperty::MinRate(_) => 1,
            QueueProperty::MaxRate(_) if !w.is_10() => 2,
            QueueProperty::Experimenter { .. } if !w.is_10() => 0xffff,
            _ => return w.lacks("queue property"),
        };
        w.u16(number);
        w.zeros(6);
        match self {
            QueueProperty::None => {}
            QueueProperty::MinRate(rate) | QueueProperty::MaxRate(rate) => {
                w.u16(*rate);
                w.zeros(6);
            }
            QueueProperty::Experimenter { experimenter, data } => {
                w.u32(*experimenter);
                w.zeros(4);
                w.bytes(data);
            }
        }
        w.set_length(start, start + 2, "queue property")
    }
}

fn rate(r: &mut Reader<'_>) -> Result<u16> {
    let rate = r.u16()?;
    r.skip(6)?;
    Ok(rate)
}

/// A queue of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queue {
    /// Its number.
    pub queue: u32,
    /// Its port; in 1.0 that of the reply.
    pub port: PortNumber,
    /// Its properties.
    pub properties: Vec<QueueProperty>,
}

impl Queue {
    fn read(r: &mut Reader<'_>, of: PortNumber) -> Result<Queue> {
        let v10 = r.is_10();
        let least = if v10 { 8 } else { 16 };
        // The length stands in the middle: behind the number, in 1.3 also behind the port.
        let mut r = r.sized(least / 2, least)?;
        let queue = r.u32()?;
        let port = if v10 { of } else { PortNumber::read(&mut r)? };
        r.skip(if v10 { 4 } else { 8 })?;
        Ok(Queue { queue, port, properties: r.all(QueueProperty::read)? })
    }

    fn write(&self, w: &mut Writer) -> Encoded {
        let start = w.len();
        let v10 = w.is_10();
        w.u32(self.queue);
        if !v10 {
            self.port.write(w)?;
        }
        let at = w.len();
        w.zeros(if v10 { 4 } else { 8 });
        self.properties.iter().try_for_each(|property| property.write(w))?;
        w.set_length(start, at, "queue")
    }
}

/// OFPT_QUEUE_GET_CONFIG_REPLY.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueConfig {
    /// The port asked for.
    pub port: PortNumber,
    /// Its queues.
    pub queues: Vec<Queue>,
}

impl QueueConfig {
    pub(crate) fn read(r: &mut Reader<'_>) -> Result<QueueConfig> {
        let port = PortNumber::read(r)?;
        r.skip(if r.is_10() { 6 } else { 4 })?;
        Ok(QueueConfig { port, queues: r.all(|r| Queue::read(r, port))? })
    }

    pub(crate) fn write(&self, w: &mut Writer) -> Encoded {
        self.port.write(w)?;
        w.zeros(if w.is_10() { 6 } else { 4 });
        self.queues.iter().try_for_each(|queue| queue.write(w))
    }

    pub(crate) fn read_request(r: &mut Reader<'_>) -> Result<PortNumber> {
        let port = PortNumber::read(r)?;
        r.skip(if r.is_10() { 2 } else { 4 })?;
        Ok(port)
    }

    pub(crate) fn write_request(port: PortNumber, w: &mut Writer) -> Encoded {
        port.write(w)?;
        w.zeros(if w.is_10() { 2 } else { 4 });
        Ok(())
    }
}
