//! Requests about links to other machines: VXLAN devices, and redirection of all frames that come in at one interface.
//!
//! A device without an interface of its own to send by takes any MTU, and the kernel sends what is too large for the network
//! beneath in fragments. Its socket is in the namespace of the request, wherever the device itself is. Specification: RFC 7348,
//! `linux/if_link.h`, `linux/pkt_cls.h`, `linux/tc_act/tc_mirred.h`.

use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::batch::sealed::Encode;
use crate::batch::{Purpose, Request};
use crate::encode::Encoder;
use crate::link;
use crate::uapi::{
    CREATE, EXCLUSIVE, IFF_UP, IFLA_IFNAME, IFLA_INFO_DATA, IFLA_INFO_KIND, IFLA_LINKINFO,
    IFLA_MTU, IFLA_NET_NS_FD, REQUEST, RTM_NEWLINK, RTM_NEWTFILTER, TCA_KIND,
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

/// Creates a VXLAN device to one other machine, up.
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
    /// The other machine; of the same family.
    pub remote: IpAddr,
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
            encoder.nest(IFLA_LINKINFO, |encoder| {
                encoder.string(IFLA_INFO_KIND, "vxlan");
                encoder.nest(IFLA_INFO_DATA, |encoder| {
                    encoder.u32(IFLA_VXLAN_ID, self.number);
                    address(encoder, [IFLA_VXLAN_LOCAL, IFLA_VXLAN_LOCAL6], self.local);
                    address(encoder, [IFLA_VXLAN_GROUP, IFLA_VXLAN_GROUP6], self.remote);
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

/// Sends every frame that comes in at an interface out of another one of the same namespace, as it is. The interface needs
/// an [`IngressDiscipline`](crate::IngressDiscipline) without other filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedirectAll {
    /// Index of the interface where frames come in.
    pub from: u32,
    /// Index of the one where they leave.
    pub to: u32,
}

impl Encode for RedirectAll {
    fn encode(&self, bytes: &mut Vec<u8>) {
        Encoder::message(bytes, RTM_NEWTFILTER, REQUEST | CREATE | EXCLUSIVE, |encoder| {
            // `struct tcmsg`: family and padding, interface, handle, parent, priority and protocol.
            let mut header = [0; 20];
            let first_for_all = (1 << 16) | u32::from(ALL.to_be());
            for (at, word) in [(4, self.from), (12, INGRESS), (16, first_for_all)] {
                header[at..at + 4].copy_from_slice(&word.to_ne_bytes());
            }
            encoder.fixed(&header);
            encoder.string(TCA_KIND, "u32");
            encoder.nest(TCA_OPTIONS, |encoder| {
                encoder.attribute(TCA_U32_SEL, &everything());
                encoder.nest(TCA_U32_ACT, |encoder| {
                    // The first action.
                    encoder.nest(1, |encoder| {
                        encoder.string(TCA_ACT_KIND, "mirred");
                        encoder.nest(TCA_ACT_OPTIONS, |encoder| {
                            encoder.attribute(TCA_MIRRED_PARMS, &self.action());
                        });
                    });
                });
            });
        });
    }
}

impl RedirectAll {
    /// `struct tc_mirred`: index, capabilities, action, two counts, what to do, the interface.
    fn action(self) -> [u8; 28] {
        let mut action = [0; 28];
        action[8..12].copy_from_slice(&TC_ACT_STOLEN.to_ne_bytes());
        action[20..24].copy_from_slice(&TCA_EGRESS_REDIR.to_ne_bytes());
        action[24..28].copy_from_slice(&self.to.to_ne_bytes());
        action
    }
}

/// `struct tc_u32_sel` that ends the search, with one key, which matches every word.
fn everything() -> [u8; 32] {
    const TERMINAL: u8 = 1;
    let mut selector = [0; 32];
    selector[0] = TERMINAL;
    selector[2] = 1;
    selector
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
