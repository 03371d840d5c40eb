//! Requests about links to other machines: VXLAN devices, and redirection of frames that come in at one interface.
//!
//! A device without an interface of its own to send by takes any MTU, and the kernel sends what is too large for the network
//! beneath in fragments. Its socket is in the namespace of the request, wherever the device itself is. Specification: RFC 7348,
//! `linux/if_link.h`, `linux/pkt_cls.h`, `linux/tc_act/tc_mirred.h`.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::batch::sealed::Encode;
use crate::batch::{Purpose, Request};
use crate::encode::Encoder;
use crate::link;
use crate::uapi::{
    CREATE, EXCLUSIVE, IFF_UP, IFLA_ADDRESS, IFLA_IFNAME, IFLA_INFO_DATA, IFLA_INFO_KIND,
    IFLA_LINKINFO, IFLA_MTU, IFLA_NET_NS_FD, NDA_DST, NDA_LLADDR, NUD_PERMANENT, REPLACE, REQUEST,
    RTM_NEWLINK, RTM_NEWNEIGH, RTM_NEWTFILTER, TCA_KIND,
};

const IFLA_VXLAN_ID: u16 = 1;
const IFLA_VXLAN_GROUP: u16 = 2;
const IFLA_VXLAN_LOCAL: u16 = 4;
const IFLA_VXLAN_LEARNING: u16 = 7;
const IFLA_VXLAN_PORT: u16 = 15;
const IFLA_VXLAN_GROUP6: u16 = 16;
const IFLA_VXLAN_LOCAL6: u16 = 17;

const TCA_OPTIONS: u16 = 2;
const TCA_U32_SEL: u16 = 5;
const TCA_U32_ACT: u16 = 7;
const TCA_ACT_KIND: u16 = 1;
const TCA_ACT_OPTIONS: u16 = 2;
const TCA_MIRRED_PARMS: u16 = 2;
const TCA_EGRESS_REDIR: i32 = 1;
const TC_ACT_STOLEN: i32 = 4;
/// Where incoming frames pass, of either discipline that has that place.
const INGRESS: u32 = 0xffff_fff2;
/// `ETH_P_ALL`: frames of every protocol.
const ALL: u16 = 3;

/// `AF_BRIDGE`, the family of entries of forwarding tables, and `NTF_SELF`: the device's own table, not a bridge's.
const AF_BRIDGE: u8 = 7;
const NTF_SELF: u8 = 2;
const NUD_NOARP: u16 = 0x40;

/// Creates a VXLAN device, up.
#[derive(Clone, Copy, Debug)]
pub struct VxlanSpec<'a> {
    /// Name in its namespace, 1 to 15 bytes.
    pub name: &'a str,
    /// Its namespace. The descriptor must stay open until the batch is run.
    pub netns: BorrowedFd<'a>,
    /// Interface index there.
    pub index: u32,
    /// Largest packet in bytes, link header excluded.
    pub mtu: u32,
    /// The network identifier, 24 bits.
    pub number: u32,
    /// The address that it sends from.
    pub local: IpAddr,
    /// The other machine, of the same family; `None`: those of [`SendTo`], and frames to others are dropped.
    pub remote: Option<IpAddr>,
    /// Its hardware address; the kernel's choice if `None`.
    pub mac: Option<[u8; 6]>,
    /// The UDP port that both machines receive at.
    pub port: u16,
}

impl Encode for VxlanSpec<'_> {
    fn encode(&self, bytes: &mut Vec<u8>) {
        Encoder::message(bytes, RTM_NEWLINK, REQUEST | CREATE | EXCLUSIVE, |encoder| {
            encoder.fixed(&link::header(self.index, IFF_UP, IFF_UP));
            encoder.string(IFLA_IFNAME, self.name);
            encoder.attribute(IFLA_NET_NS_FD, &self.netns.as_raw_fd().to_ne_bytes());
            encoder.u32(IFLA_MTU, self.mtu);
            if let Some(mac) = self.mac {
                encoder.attribute(IFLA_ADDRESS, &mac);
            }
            encoder.nest(IFLA_LINKINFO, |encoder| {
                encoder.string(IFLA_INFO_KIND, "vxlan");
                encoder.nest(IFLA_INFO_DATA, |encoder| {
                    encoder.u32(IFLA_VXLAN_ID, self.number);
                    address(encoder, [IFLA_VXLAN_LOCAL, IFLA_VXLAN_LOCAL6], self.local);
                    if let Some(remote) = self.remote {
                        address(encoder, [IFLA_VXLAN_GROUP, IFLA_VXLAN_GROUP6], remote);
                    }
                    encoder.u8(IFLA_VXLAN_LEARNING, 0);
                    encoder.attribute(IFLA_VXLAN_PORT, &self.port.to_be_bytes());
                });
            });
        });
    }
}

fn address(encoder: &mut Encoder<'_>, [v4, v6]: [u16; 2], address: IpAddr) {
    match address {
        IpAddr::V4(address) => encoder.attribute(v4, &address.octets()),
        IpAddr::V6(address) => encoder.attribute(v6, &address.octets()),
    }
}

impl Request for VxlanSpec<'_> {
    fn operation(&self) -> &'static str {
        "create its VXLAN device"
    }
    fn purpose(&self) -> Purpose {
        Purpose::Create
    }
    fn meaning(errno: i32) -> Option<&'static str> {
        match errno {
            libc::EEXIST => Some("its number is taken at its UDP port"),
            libc::EADDRINUSE => Some("another program has its UDP port"),
            libc::EOPNOTSUPP => Some("the kernel has no VXLAN"),
            _ => None,
        }
    }
}

/// Has a VXLAN device send frames for a hardware address to a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendTo {
    /// Index of the device.
    pub device: u32,
    /// The hardware address.
    pub mac: [u8; 6],
    /// The machine.
    pub machine: IpAddr,
}

impl Encode for SendTo {
    fn encode(&self, bytes: &mut Vec<u8>) {
        Encoder::message(bytes, RTM_NEWNEIGH, REQUEST | CREATE | REPLACE, |encoder| {
            // `struct ndmsg`: family, 3 of padding, index, state, flags, type.
            let mut header = [0; 12];
            header[0] = AF_BRIDGE;
            header[4..8].copy_from_slice(&self.device.to_ne_bytes());
            header[8..10].copy_from_slice(&(NUD_PERMANENT | NUD_NOARP).to_ne_bytes());
            header[10] = NTF_SELF;
            encoder.fixed(&header);
            encoder.attribute(NDA_LLADDR, &self.mac);
            address(encoder, [NDA_DST; 2], self.machine);
        });
    }
}

impl Request for SendTo {
    fn operation(&self) -> &'static str {
        "say where to send"
    }
    fn purpose(&self) -> Purpose {
        Purpose::Create
    }
}

/// Which frames, by the VLAN tag that the kernel has taken off them when filters see them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tagged {
    /// Those without one.
    No,
    /// Those with a tag of IEEE 802.1Q.
    Customer,
    /// Those with one of IEEE 802.1ad.
    Service,
}

impl Tagged {
    /// All.
    pub const ALL: [Tagged; 3] = [Tagged::No, Tagged::Customer, Tagged::Service];

    /// Priority, protocol, and how much farther before the packet the headers of VXLAN are.
    fn rule(self) -> (u32, u16, i32) {
        match self {
            Tagged::Customer => (1, 0x8100, 4),
            Tagged::Service => (2, 0x88a8, 4),
            // After those: it holds for frames of every protocol.
            Tagged::No => (3, ALL, 0),
        }
    }
}

/// Sends frames that a VXLAN device got from one machine out of another interface of the same namespace, as they are. The
/// device needs an [`IngressDiscipline`](crate::IngressDiscipline).
///
/// The kernel leaves the headers that it took off in front of the frame. Filters of kind u32 may look there, so that the
/// sender's address can be asked for without BPF. Only an IPv4 header without options is accepted: one with options could show
/// other bytes where the address is expected, and no kernel sends any for VXLAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedirectFrom {
    /// Index of the VXLAN device.
    pub from: u32,
    /// Index of the interface where frames leave.
    pub to: u32,
    /// The machine.
    pub sender: IpAddr,
    /// Which of its frames.
    pub tagged: Tagged,
}

impl RedirectFrom {
    /// What must be in front of the packet: mask, value, and offset from the packet's first byte.
    fn keys(self) -> Vec<(u32, u32, i32)> {
        let (_, _, farther) = self.tagged.rule();
        // Ethernet, VXLAN, UDP.
        let inner = 14 + 8 + 8 + farther;
        let whole = |(at, byte): (i32, u8)| (at, 0xff, byte);
        match self.sender {
            IpAddr::V4(sender) => {
                let start = -(inner + 20);
                let source = (start + 12..).zip(sender.octets()).map(whole);
                // Version 4 and 5 words.
                words([(start, 0xff, 0x45)].into_iter().chain(source))
            }
            IpAddr::V6(sender) => {
                let start = -(inner + 40);
                let source = (start + 8..).zip(sender.octets()).map(whole);
                // Version 6; UDP comes next.
                words([(start, 0xf0, 0x60), (start + 6, 0xff, 17)].into_iter().chain(source))
            }
        }
    }
}

/// Keys for bytes, each with its offset and mask: the kernel compares whole words, at offsets that are multiples of four.
fn words(bytes: impl Iterator<Item = (i32, u8, u8)>) -> Vec<(u32, u32, i32)> {
    let mut words: BTreeMap<i32, (u32, u32)> = BTreeMap::new();
    for (at, mask, value) in bytes {
        let shift = 24 - 8 * at.rem_euclid(4);
        let word = words.entry(at - at.rem_euclid(4)).or_default();
        word.0 |= u32::from(mask) << shift;
        word.1 |= u32::from(value) << shift;
    }
    words.into_iter().map(|(at, (mask, value))| (mask, value, at)).collect()
}

impl Encode for RedirectFrom {
    fn encode(&self, bytes: &mut Vec<u8>) {
        let (priority, protocol, _) = self.tagged.rule();
        filter(bytes, (self.from, self.to), (priority, protocol), &self.keys());
    }
}

impl Request for RedirectFrom {
    fn operation(&self) -> &'static str {
        "redirect its frames"
    }
    fn purpose(&self) -> Purpose {
        Purpose::Create
    }
    fn meaning(errno: i32) -> Option<&'static str> {
        RedirectAll::meaning(errno)
    }
}

/// Sends every frame that comes in at an interface, and that no [`RedirectFrom`] is about, out of another one of the same
/// namespace, as it is. The interface needs an [`IngressDiscipline`](crate::IngressDiscipline).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedirectAll {
    /// Index of the interface where frames come in.
    pub from: u32,
    /// Index of the one where they leave.
    pub to: u32,
}

impl Encode for RedirectAll {
    fn encode(&self, bytes: &mut Vec<u8>) {
        // One key of which nothing has to match.
        filter(bytes, (self.from, self.to), (4, ALL), &[(0, 0, 0)]);
    }
}

impl Request for RedirectAll {
    fn operation(&self) -> &'static str {
        "redirect its frames"
    }
    fn purpose(&self) -> Purpose {
        Purpose::Create
    }
    fn meaning(errno: i32) -> Option<&'static str> {
        match errno {
            libc::ENOENT => Some("the kernel lacks cls_u32 or act_mirred"),
            _ => None,
        }
    }
}

/// A filter of kind u32 at an interface's ingress, which redirects out of another one.
fn filter(
    bytes: &mut Vec<u8>,
    (from, to): (u32, u32),
    (priority, protocol): (u32, u16),
    keys: &[(u32, u32, i32)],
) {
    Encoder::message(bytes, RTM_NEWTFILTER, REQUEST | CREATE | EXCLUSIVE, |encoder| {
        // `struct tcmsg`: family and padding, interface, handle, parent, priority and protocol.
        let mut header = [0; 20];
        let which = (priority << 16) | u32::from(protocol.to_be());
        for (at, word) in [(4, from), (12, INGRESS), (16, which)] {
            header[at..at + 4].copy_from_slice(&word.to_ne_bytes());
        }
        encoder.fixed(&header);
        encoder.string(TCA_KIND, "u32");
        encoder.nest(TCA_OPTIONS, |encoder| {
            encoder.attribute(TCA_U32_SEL, &selector(keys));
            encoder.nest(TCA_U32_ACT, |encoder| {
                // The first action.
                encoder.nest(1, |encoder| {
                    encoder.string(TCA_ACT_KIND, "mirred");
                    encoder.nest(TCA_ACT_OPTIONS, |encoder| {
                        encoder.attribute(TCA_MIRRED_PARMS, &redirection(to));
                    });
                });
            });
        });
    });
}

/// `struct tc_mirred`: index, capabilities, action, two counts, what to do, the interface.
fn redirection(to: u32) -> [u8; 28] {
    let mut action = [0; 28];
    action[8..12].copy_from_slice(&TC_ACT_STOLEN.to_ne_bytes());
    action[20..24].copy_from_slice(&TCA_EGRESS_REDIR.to_ne_bytes());
    action[24..28].copy_from_slice(&to.to_ne_bytes());
    action
}

/// `struct tc_u32_sel` that ends the search, with its keys.
fn selector(keys: &[(u32, u32, i32)]) -> Vec<u8> {
    const TERMINAL: u8 = 1;
    let mut selector = vec![0; 16];
    selector[0] = TERMINAL;
    selector[2] = u8::try_from(keys.len()).unwrap_or_default();
    for (mask, value, offset) in keys {
        selector.extend(mask.to_be_bytes());
        selector.extend(value.to_be_bytes());
        selector.extend(offset.to_ne_bytes());
        selector.extend([0; 4]);
    }
    selector
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sender_is_looked_for_in_the_headers_before_the_frame() {
        let keys = |sender: &str, tagged| {
            let sender = sender.parse().unwrap();
            RedirectFrom { from: 1, to: 2, sender, tagged }.keys()
        };
        // IPv4 20, UDP 8, VXLAN 8, Ethernet 14: byte 50 before, and bytes 38 to 35.
        let v4 = [(0xff00, 0x4500, -52), (0xffff, 0xc000, -40), (0xffff_0000, 0x0201_0000, -36)];
        assert_eq!(keys("192.0.2.1", Tagged::No), v4);
        // A tag that was taken off moved the packet away from them.
        let tagged = v4.map(|(mask, value, at)| (mask, value, at - 4));
        assert_eq!(keys("192.0.2.1", Tagged::Service), tagged);
        let v6 = keys("2001:db8::1", Tagged::No);
        assert_eq!(v6[0], (0xf000, 0x6000, -72));
        assert_eq!(v6[1], (0xff00_ffff, 0x1100_2001, -64));
        assert_eq!(v6[2], (u32::MAX, 0x0db8_0000, -60));
        assert_eq!(v6[5], (0xffff_0000, 0x0001_0000, -48));
        let words = selector(&v6);
        assert_eq!((words.len(), words[2]), (16 + 6 * 16, 6));
    }
}
