//! What a packet of a link across takes on the network between hosts.
//!
//! A frame travels in VXLAN (RFC 7348, section 5): its Ethernet header and payload behind a VXLAN header, a UDP header and an IP
//! header of the underlay. What the underlay's MTU does not take is sent in fragments (RFC 791, section 3.2; RFC 8200, section 4.5), of
//! which each has the IP header again; every one but the last carries a multiple of eight bytes.

/// An Ethernet header without a tag.
pub(crate) const ETHERNET: u32 = 14;
/// VXLAN's header.
pub(crate) const VXLAN: u32 = 8;
/// UDP's header.
pub(crate) const UDP: u32 = 8;
/// IPv4's header without options.
pub(crate) const IPV4: u32 = 20;
/// IPv6's header.
pub(crate) const IPV6: u32 = 40;
/// IPv6's header of a fragment.
const FRAGMENT: u32 = 8;

/// A packet of a link across on the underlay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried {
    /// Packets of the underlay: 1, or the number of fragments.
    pub packets: u32,
    /// Bytes of these packets, from the IP header on.
    pub bytes: u64,
    /// The least MTU of the underlay that needs no fragments.
    pub fitting_mtu: u32,
    /// The greatest MTU of the link that needs none.
    pub fitting_link: u32,
}

/// What a packet of a link's whole MTU takes on an underlay with this MTU, 1280 at least.
pub fn carried(link_mtu: u32, underlay_mtu: u32, is_ipv6: bool) -> Carried {
    let header = if is_ipv6 { IPV6 } else { IPV4 };
    let payload = UDP + VXLAN + ETHERNET + link_mtu;
    let fitting_mtu = header + payload;
    let fitting_link = underlay_mtu.saturating_sub(header + UDP + VXLAN + ETHERNET);
    if fitting_mtu <= underlay_mtu {
        return Carried { packets: 1, bytes: fitting_mtu.into(), fitting_mtu, fitting_link };
    }
    let header = if is_ipv6 { header + FRAGMENT } else { header };
    let room = underlay_mtu.saturating_sub(header);
    // The last one may have any length; the others end at a multiple of eight.
    let each = (room / 8 * 8).max(8);
    let others = payload.saturating_sub(room).div_ceil(each);
    let packets = others + 1;
    let bytes = u64::from(payload) + u64::from(packets) * u64::from(header);
    Carried { packets, bytes, fitting_mtu, fitting_link }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_and_fragments_are_those_of_the_rfcs() {
        let of = |link, underlay, is_ipv6| {
            let found = carried(link, underlay, is_ipv6);
            (found.packets, found.bytes, found.fitting_mtu, found.fitting_link)
        };
        assert_eq!(of(1450, 1500, false), (1, 1500, 1500, 1450));
        assert_eq!(of(1430, 1500, true), (1, 1500, 1500, 1430));
        // 1530 bytes behind the IP header: 1480 and 50.
        assert_eq!(of(1500, 1500, false), (2, 1530 + 40, 1550, 1450));
        // With the header of a fragment 1448 fit, a multiple of eight: 1448 and 82.
        assert_eq!(of(1500, 1500, true), (2, 1530 + 96, 1570, 1430));
        // 9030 behind the header: six of 1480, and 150.
        assert_eq!(of(9000, 1500, false), (7, 9030 + 140, 9050, 1450));
        // 1281 minus 20 is not a multiple of eight: all but the last carry 1256, the last one up to 1261.
        assert_eq!(of(1256 + 1261 - 30, 1281, false).0, 2);
        assert_eq!(of(1256 + 1262 - 30, 1281, false).0, 3);
        assert_eq!(of(65535, 65535, false).0, 2);
    }
}
