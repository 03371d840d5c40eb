//! Which asynchronous messages a controller gets (section 7.3.10); 1.0 has no such setting.

use crate::wire::{Encoded, Reader, Result, Writer};

/// OFPT_SET_ASYNC and OFPT_GET_ASYNC_REPLY: a bit for each reason; first as master or equal, then as slave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsyncConfig {
    /// Bits of [`crate::packet::PacketInReason`].
    pub packet_in: [u32; 2],
    /// Bits of [`crate::port::PortReason`].
    pub port_status: [u32; 2],
    /// Bits of [`crate::flow::RemovedReason`].
    pub flow_removed: [u32; 2],
}

impl Default for AsyncConfig {
    /// Everything as master or equal (but packets with an invalid TTL), news of ports as slave.
    fn default() -> AsyncConfig {
        AsyncConfig {
            // Until it says otherwise a slave hears of ports alone (section 6.3.6).
            packet_in: [0b011, 0],
            port_status: [0b111, 0b111],
            flow_removed: [0b1111, 0],
        }
    }
}

impl AsyncConfig {
    pub(crate) fn read(r: &mut Reader<'_>) -> Result<AsyncConfig> {
        let mut pair = || Ok([r.u32()?, r.u32()?]);
        Ok(AsyncConfig { packet_in: pair()?, port_status: pair()?, flow_removed: pair()? })
    }

    pub(crate) fn write(&self, w: &mut Writer) -> Encoded {
        for mask in [self.packet_in, self.port_status, self.flow_removed].as_flattened() {
            w.u32(*mask);
        }
        Ok(())
    }
}
