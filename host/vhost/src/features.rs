//! What a port offers to guests, and what a guest has accepted: Virtual I/O Device (VIRTIO) 1.3, sections 2.2, 5.1.3
//! and 6.

use netloom_packet::vnet::Gso;

const CSUM: u64 = 1 << 0;
const GUEST_CSUM: u64 = 1 << 1;
const GUEST_TSO4: u64 = 1 << 7;
const GUEST_TSO6: u64 = 1 << 8;
const GUEST_ECN: u64 = 1 << 9;
const HOST_TSO4: u64 = 1 << 11;
const HOST_TSO6: u64 = 1 << 12;
const HOST_ECN: u64 = 1 << 13;
const MRG_RXBUF: u64 = 1 << 15;
/// The guest makes itself known again after a migration; else the front end would have to ask us to.
const GUEST_ANNOUNCE: u64 = 1 << 21;
const MQ: u64 = 1 << 22;
const ANY_LAYOUT: u64 = 1 << 27;
const INDIRECT_DESC: u64 = 1 << 28;
const EVENT_IDX: u64 = 1 << 29;
const PROTOCOL_FEATURES: u64 = 1 << 30;
const VERSION_1: u64 = 1 << 32;
const GUEST_USO4: u64 = 1 << 54;
const GUEST_USO6: u64 = 1 << 55;
const HOST_USO: u64 = 1 << 56;

/// Everything that is offered. The front end has the control queue, which MQ and GUEST_ANNOUNCE need.
pub(crate) const OFFERED: u64 = CSUM
    | GUEST_CSUM
    | GUEST_TSO4
    | GUEST_TSO6
    | GUEST_ECN
    | HOST_TSO4
    | HOST_TSO6
    | HOST_ECN
    | MRG_RXBUF
    | GUEST_ANNOUNCE
    | MQ
    | ANY_LAYOUT
    | INDIRECT_DESC
    | EVENT_IDX
    | PROTOCOL_FEATURES
    | VERSION_1
    | GUEST_USO4
    | GUEST_USO6
    | HOST_USO;

/// The accepted features.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Features(u64);

impl Features {
    /// The accepted ones; `None` if some were never offered.
    pub(crate) fn accepted(bits: u64) -> Option<Features> {
        (bits & !OFFERED == 0).then_some(Features(bits))
    }

    fn has(self, feature: u64) -> bool {
        self.0 & feature == feature
    }

    /// Bytes of the header before each frame: with or without `num_buffers`.
    pub(crate) fn header(self) -> usize {
        // Legacy headers end with `num_buffers` only where buffers are merged (VIRTIO 1.3,
        // 5.1.6.1).
        if self.0 & (VERSION_1 | MRG_RXBUF) == 0 { 10 } else { 12 }
    }

    /// Whether the header is in the standard's byte order instead of the machine's.
    pub(crate) fn is_standard_order(self) -> bool {
        self.has(VERSION_1)
    }

    /// Whether a frame may take several receive buffers.
    pub(crate) fn merges(self) -> bool {
        self.has(MRG_RXBUF)
    }

    /// Whether wake-ups are asked for by index.
    pub(crate) fn event_index(self) -> bool {
        self.has(EVENT_IDX)
    }

    /// Whether chains may lie in tables of their own.
    pub(crate) fn indirect(self) -> bool {
        self.has(INDIRECT_DESC)
    }

    /// Whether queues are enabled one by one.
    pub(crate) fn enables_queues(self) -> bool {
        self.has(PROTOCOL_FEATURES)
    }

    /// Whether the guest takes frames with an unfinished checksum.
    pub(crate) fn takes_unfinished(self) -> bool {
        self.has(GUEST_CSUM)
    }

    /// Whether the guest takes super-frames of this kind.
    pub(crate) fn takes(self, gso: Gso, ecn: bool, v6: bool) -> bool {
        let wanted = match gso {
            Gso::None => return true,
            Gso::TcpV4 => GUEST_TSO4,
            Gso::TcpV6 => GUEST_TSO6,
            Gso::UdpL4 if v6 => GUEST_USO6,
            Gso::UdpL4 => GUEST_USO4,
            // Fragments of one datagram (UFO), which are not offered.
            Gso::Udp => return false,
        };
        self.has(wanted | if ecn { GUEST_ECN } else { 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_follows_from_what_was_accepted() {
        let all = Features::accepted(OFFERED).unwrap();
        assert!(all.takes(Gso::TcpV4, true, false) && all.takes_unfinished() && all.merges());
        assert!(!all.takes(Gso::Udp, false, false), "fragments of UDP were never offered");
        assert_eq!(all.header(), 12);
        let old = Features::accepted(GUEST_TSO4 | GUEST_CSUM).unwrap();
        assert_eq!(old.header(), 10);
        assert!(old.takes(Gso::TcpV4, false, false) && !old.takes(Gso::TcpV4, true, false));
        assert!(!old.takes(Gso::TcpV6, false, true) && old.takes(Gso::None, false, false));
        // Packed rings.
        assert_eq!(Features::accepted(1 << 34), None);
    }
}
