//! The match of 1.0: forty bytes, with a word that says which of them count (1.0.0 section 5.2.3).

use crate::port::PortNumber;
use crate::wire::{Encoded, Reader, Result, Writer};

/// The VLAN id that stands for a packet without a tag (OFP_VLAN_NONE).
pub const VLAN_NONE: u16 = 0xffff;

flags! {
    /// OFPFW_*: the fields that do not count.
    Wildcards: u32 {
        /// The port of arrival.
        IN_PORT = 1,
        /// The VLAN id.
        DL_VLAN = 1 << 1,
        /// The source MAC address.
        DL_SRC = 1 << 2,
        /// The destination MAC address.
        DL_DST = 1 << 3,
        /// The ethertype.
        DL_TYPE = 1 << 4,
        /// The IP protocol, or the low byte of the ARP operation.
        NW_PROTO = 1 << 5,
        /// The source port of TCP or UDP, or the ICMP type.
        TP_SRC = 1 << 6,
        /// The destination port of TCP or UDP, or the ICMP code.
        TP_DST = 1 << 7,
        /// The VLAN priority.
        DL_VLAN_PCP = 1 << 20,
        /// The DSCP.
        NW_TOS = 1 << 21,
        /// Every field.
        ALL = (1 << 22) - 1,
    }
}

/// How many low bits of an address do not count, in the six bits at `shift`; 32 and more: all.
const fn ignored(wildcards: u32, shift: u32) -> u32 {
    let bits = wildcards >> shift & 0x3f;
    // Six bits can say up to 63; from 32 on the whole address is ignored.
    if bits > 32 { 32 } else { bits }
}

impl Wildcards {
    const SRC: u32 = 8;
    const DST: u32 = 14;

    /// The bits of the source address that count.
    pub const fn source_mask(self) -> u32 {
        // A shift by 32 must give 0, which `<<` refuses.
        u32::MAX.unbounded_shl(ignored(self.0, Wildcards::SRC))
    }

    /// The bits of the destination address that count.
    pub const fn destination_mask(self) -> u32 {
        u32::MAX.unbounded_shl(ignored(self.0, Wildcards::DST))
    }

    /// With the lengths of the prefixes that count.
    #[must_use]
    pub const fn with_prefixes(self, source: u32, destination: u32) -> Wildcards {
        let clear = self.0 & !(0x3f << Wildcards::SRC | 0x3f << Wildcards::DST);
        let source = 32u32.saturating_sub(source) << Wildcards::SRC;
        Wildcards(clear | source | 32u32.saturating_sub(destination) << Wildcards::DST)
    }
}

/// ofp_match of 1.0, as on the wire; fields that do not count are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Match10 {
    /// Which fields do not count.
    pub wildcards: Wildcards,
    /// The port of arrival.
    pub in_port: PortNumber,
    /// The source MAC address.
    pub dl_src: [u8; 6],
    /// The destination MAC address.
    pub dl_dst: [u8; 6],
    /// The VLAN id, or [`VLAN_NONE`].
    pub dl_vlan: u16,
    /// The VLAN priority.
    pub dl_vlan_pcp: u8,
    /// The ethertype; below 0x600 frames of IEEE 802.3.
    pub dl_type: u16,
    /// The DSCP in the upper six bits.
    pub nw_tos: u8,
    /// The IP protocol, or the low byte of the ARP operation.
    pub nw_proto: u8,
    /// The source address.
    pub nw_src: u32,
    /// The destination address.
    pub nw_dst: u32,
    /// The source port or the ICMP type.
    pub tp_src: u16,
    /// The destination port or the ICMP code.
    pub tp_dst: u16,
}

impl Default for Match10 {
    /// Any packet.
    fn default() -> Match10 {
        Match10 {
            wildcards: Wildcards::ALL,
            in_port: PortNumber(0),
            dl_src: [0; 6],
            dl_dst: [0; 6],
            dl_vlan: 0,
            dl_vlan_pcp: 0,
            dl_type: 0,
            nw_tos: 0,
            nw_proto: 0,
            nw_src: 0,
            nw_dst: 0,
            tp_src: 0,
            tp_dst: 0,
        }
    }
}

impl Match10 {
    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Match10> {
        let wildcards = Wildcards(r.u32()?);
        let in_port = PortNumber::from_10(r.u16()?);
        let (dl_src, dl_dst) = (r.array()?, r.array()?);
        let (dl_vlan, dl_vlan_pcp) = (r.u16()?, r.u8()?);
        r.skip(1)?;
        let (dl_type, nw_tos, nw_proto) = (r.u16()?, r.u8()?, r.u8()?);
        r.skip(2)?;
        let (nw_src, nw_dst) = (r.u32()?, r.u32()?);
        Ok(Match10 {
            wildcards,
            in_port,
            dl_src,
            dl_dst,
            dl_vlan,
            dl_vlan_pcp,
            dl_type,
            nw_tos,
            nw_proto,
            nw_src,
            nw_dst,
            tp_src: r.u16()?,
            tp_dst: r.u16()?,
        })
    }

    pub(crate) fn write(&self, w: &mut Writer) -> Encoded {
        w.u32(self.wildcards.0);
        self.in_port.write_10(w)?;
        w.bytes(&self.dl_src);
        w.bytes(&self.dl_dst);
        w.u16(self.dl_vlan);
        w.u8(self.dl_vlan_pcp);
        w.zeros(1);
        w.u16(self.dl_type);
        w.u8(self.nw_tos);
        w.u8(self.nw_proto);
        w.zeros(2);
        w.u32(self.nw_src);
        w.u32(self.nw_dst);
        w.u16(self.tp_src);
        w.u16(self.tp_dst);
        Ok(())
    }
}
