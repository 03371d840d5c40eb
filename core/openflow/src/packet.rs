//! Packets between switch and controller (sections 7.3.7 and 7.4.1; 1.0.0 sections 5.3.6 and 5.4.1).

use crate::action::{self, Action};
use crate::error::Reason;
use crate::matching::{Field, Match, Oxm};
use crate::port::PortNumber;
use crate::wire::{Encoded, Reader, Result, Writer, fail};

numbers! {
    /// OFPR_*: why a controller gets a packet.
    PacketInReason: u8 {
        /// No entry matched; in 1.3 that of a table miss did.
        NoMatch = 0,
        /// An action sent it.
        Action = 1,
        /// Its TTL is not valid (1.3).
        InvalidTtl = 2,
    }
}

/// OFPT_PACKET_IN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketIn {
    /// The buffer that has the whole packet, or [`crate::flow::NO_BUFFER`].
    pub buffer: u32,
    /// The length of the whole packet.
    pub total_len: u16,
    /// Why it is sent.
    pub reason: PacketInReason,
    /// The table that decided; 0 in 1.0.
    pub table: u8,
    /// The cookie of the entry that decided; 0 in 1.0.
    pub cookie: u64,
    /// Where the packet was: its port of arrival, which is all that 1.0 carries, and other fields that are not headers.
    pub fields: Vec<Oxm>,
    /// The packet, or its beginning.
    pub data: Vec<u8>,
}

impl PacketIn {
    /// The port of arrival.
    pub fn in_port(&self) -> Option<PortNumber> {
        let oxm = self.fields.iter().find(|oxm| oxm.field == Field::InPort)?;
        u32::try_from(oxm.value).ok().map(PortNumber)
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<PacketIn> {
        let (buffer, total_len) = (r.u32()?, r.u16()?);
        if r.is_10() {
            let in_port = PortNumber::read(r)?;
            let reason = r.u8()?.into();
            r.skip(1)?;
            let fields = vec![Oxm::exact(Field::InPort, u128::from(in_port.0))];
            let data = r.rest();
            return Ok(PacketIn { buffer, total_len, reason, table: 0, cookie: 0, fields, data });
        }
        let (reason, table, cookie) = (r.u8()?.into(), r.u8()?, r.u64()?);
        let fields = match Match::read_any(r)? {
            Match::Oxm(fields) => fields,
            Match::V10(_) => return fail(Reason::BadMatchBadType, "packet-in: match of 1.0"),
        };
        // They align an IP header behind that of Ethernet to 32 bits (section 7.4.1).
        r.skip(2)?;
        Ok(PacketIn { buffer, total_len, reason, table, cookie, fields, data: r.rest() })
    }

    pub(crate) fn write(&self, w: &mut Writer) -> Encoded {
        w.u32(self.buffer);
        w.u16(self.total_len);
        if w.is_10() {
            // 1.0 always has the field: OFPP_NONE where no port is known.
            self.in_port().unwrap_or(PortNumber::ANY).write(w)?;
            w.u8(self.reason.into());
            w.zeros(1);
        } else {
            w.u8(self.reason.into());
            w.u8(self.table);
            w.u64(self.cookie);
            Match::Oxm(self.fields.clone()).write(w)?;
            w.zeros(2);
        }
        w.bytes(&self.data);
        Ok(())
    }
}

/// OFPT_PACKET_OUT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketOut {
    /// The buffered packet to send, or [`crate::flow::NO_BUFFER`].
    pub buffer: u32,
    /// The port it is taken to have arrived by.
    pub in_port: PortNumber,
    /// What to do with it.
    pub actions: Vec<Action>,
    /// The packet, if it is not buffered.
    pub data: Vec<u8>,
}

impl PacketOut {
    pub(crate) fn read(r: &mut Reader<'_>) -> Result<PacketOut> {
        let (buffer, in_port) = (r.u32()?, PortNumber::read(r)?);
        let length = usize::from(r.u16()?);
        r.skip(if r.is_10() { 0 } else { 6 })?;
        let actions = action::read_all(&mut r.take(length)?)?;
        Ok(PacketOut { buffer, in_port, actions, data: r.rest() })
    }

    pub(crate) fn write(&self, w: &mut Writer) -> Encoded {
        w.u32(self.buffer);
        self.in_port.write(w)?;
        let at = w.len();
        w.zeros(if w.is_10() { 2 } else { 8 });
        let start = w.len();
        action::write_all(&self.actions, w)?;
        w.set_length(start, at, "actions of a packet-out")?;
        w.bytes(&self.data);
        Ok(())
    }
}
