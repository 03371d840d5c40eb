//! Requests about links: veth pairs, bridges, changes, moves, removal.
//!
//! One message creates both ends of a veth pair in their final namespaces. Indexes can be chosen at
//! creation, so later batches address links without querying their indexes. Before Linux 6.14 the
//! kernel looks up a new link's name and chosen index in the *socket's* namespace as well as in the
//! link's own; a socket opened in a namespace that has neither (best an empty one) works
//! everywhere. Specification: `linux/if_link.h`, rtnetlink(7).

use std::os::fd::{AsRawFd, BorrowedFd};

use crate::batch::sealed::Encode;
use crate::batch::{Purpose, Request};
use crate::encode::Encoder;
use crate::uapi::*;

/// A link named by its index (cheapest) or by its name, in the socket's namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkRef<'a> {
    /// Interface index.
    Index(u32),
    /// Interface name, at most 15 bytes.
    Name(&'a str),
}

impl From<u32> for LinkRef<'_> {
    fn from(index: u32) -> Self {
        Self::Index(index)
    }
}

impl<'a> From<&'a str> for LinkRef<'a> {
    fn from(name: &'a str) -> Self {
        Self::Name(name)
    }
}

/// One end of a veth pair.
#[derive(Clone, Copy, Debug)]
pub struct EndSpec<'a> {
    /// Name in its namespace, 1 to 15 bytes.
    pub name: &'a str,
    /// Its namespace; the socket's own if `None`. Used when the batch is run: the descriptor must
    /// stay open until then.
    pub netns: Option<BorrowedFd<'a>>,
    /// Interface index, unique in its namespace; chosen by the kernel if `None`. Older kernels
    /// honour the second end's only if the first end has one too.
    pub index: Option<u32>,
    /// Hardware address; random if none.
    pub mac: Option<[u8; 6]>,
    /// Largest packet in bytes, link header excluded; 1500 if none.
    pub mtu: Option<u32>,
}

impl<'a> EndSpec<'a> {
    /// An end with this name in the socket's namespace; everything else is default.
    #[must_use]
    pub fn new(name: &'a str) -> Self {
        Self { name, netns: None, index: None, mac: None, mtu: None }
    }
}

/// Creates a veth pair, each end in its namespace.
///
/// The second end is always created down: creating it up fails with `ENOTCONN`, slowly. Set it up
/// by a [`Change`] on a socket of its own namespace.
#[derive(Clone, Copy, Debug)]
pub struct VethSpec<'a> {
    /// The first end.
    pub a: EndSpec<'a>,
    /// The second end.
    pub b: EndSpec<'a>,
    /// Whether the first end is created up.
    pub a_up: bool,
    /// Index of a bridge in the first end's namespace; the first end becomes its port.
    pub a_master: Option<u32>,
    /// Queues per direction and end. The kernel's default, one per possible CPU, costs memory on
    /// large machines.
    pub queues: Option<u32>,
}

impl<'a> VethSpec<'a> {
    /// A pair of these two ends, both down, with one queue per direction.
    #[must_use]
    pub fn new(a: EndSpec<'a>, b: EndSpec<'a>) -> Self {
        Self { a, b, a_up: false, a_master: None, queues: Some(1) }
    }

    fn end(&self, encoder: &mut Encoder<'_>, end: &EndSpec<'_>) {
        encoder.string(IFLA_IFNAME, end.name);
        // The kernel makes the end there at once: it is in no other namespace for a moment.
        if let Some(netns) = end.netns {
            descriptor(encoder, netns);
        }
        hardware(encoder, end.mac, end.mtu);
        // Of both ends: the kernel takes the numbers of each from its own attributes.
        if let Some(queues) = self.queues {
            encoder.u32(IFLA_NUM_TX_QUEUES, queues);
            encoder.u32(IFLA_NUM_RX_QUEUES, queues);
        }
    }
}

impl Encode for VethSpec<'_> {
    fn encode(&self, bytes: &mut Vec<u8>) {
        Encoder::message(bytes, RTM_NEWLINK, REQUEST | CREATE | EXCLUSIVE, |encoder| {
            let up = if self.a_up { IFF_UP } else { 0 };
            encoder.fixed(&header(self.a.index.unwrap_or(0), up, up));
            self.end(encoder, &self.a);
            if let Some(master) = self.a_master {
                encoder.u32(IFLA_MASTER, master);
            }
            encoder.nest(IFLA_LINKINFO, |encoder| {
                encoder.string(IFLA_INFO_KIND, "veth");
                encoder.nest(IFLA_INFO_DATA, |encoder| {
                    // A header and attributes, as in a message about the other end.
                    encoder.nest(VETH_INFO_PEER, |encoder| {
                        encoder.fixed(&header(self.b.index.unwrap_or(0), 0, 0));
                        self.end(encoder, &self.b);
                    });
                });
            });
        });
    }
}

impl Request for VethSpec<'_> {
    fn operation(&self) -> &'static str {
        "create"
    }
    fn purpose(&self) -> Purpose {
        Purpose::Create
    }
}

/// Creates a bridge that behaves the same on every host: no spanning tree, no forward delay, no
/// VLAN filtering, no packets passed to iptables, no multicast snooping.
///
/// Snooping is off because its tables need a querier: a lab without one would lose multicast (IPv6
/// neighbour discovery, routing protocols) after some minutes; a plain switch floods it.
///
/// A kernel without `br_netfilter` accepts and ignores the settings about iptables. If it is
/// loaded, the sysctls `net.bridge.bridge-nf-call-*` of the bridge's namespace count as well:
/// either of the two passes packets to iptables.
#[derive(Clone, Copy, Debug)]
pub struct BridgeSpec<'a> {
    /// Name, 1 to 15 bytes.
    pub name: &'a str,
    /// Its namespace; the socket's own if `None`. The descriptor must stay open until the batch is
    /// run.
    pub netns: Option<BorrowedFd<'a>>,
    /// Interface index, unique in its namespace; chosen by the kernel if none.
    pub index: Option<u32>,
    /// Hardware address; if none, it follows the ports.
    pub mac: Option<[u8; 6]>,
    /// Largest packet in bytes, link header excluded; 1500 if none.
    pub mtu: Option<u32>,
    /// Whether it is created up.
    pub up: bool,
}

impl<'a> BridgeSpec<'a> {
    /// A bridge with this name, up; everything else is default.
    #[must_use]
    pub fn new(name: &'a str) -> Self {
        Self { name, netns: None, index: None, mac: None, mtu: None, up: true }
    }
}

impl Encode for BridgeSpec<'_> {
    fn encode(&self, bytes: &mut Vec<u8>) {
        Encoder::message(bytes, RTM_NEWLINK, REQUEST | CREATE | EXCLUSIVE, |encoder| {
            let up = if self.up { IFF_UP } else { 0 };
            encoder.fixed(&header(self.index.unwrap_or(0), up, up));
            encoder.string(IFLA_IFNAME, self.name);
            if let Some(netns) = self.netns {
                descriptor(encoder, netns);
            }
            hardware(encoder, self.mac, self.mtu);
            encoder.nest(IFLA_LINKINFO, |encoder| {
                encoder.string(IFLA_INFO_KIND, "bridge");
                encoder.nest(IFLA_INFO_DATA, plain_bridge);
            });
        });
    }
}

impl Request for BridgeSpec<'_> {
    fn operation(&self) -> &'static str {
        "create"
    }
    fn purpose(&self) -> Purpose {
        Purpose::Create
    }
}

/// VLAN filtering is off by default; a kernel without it refuses even to be told so.
fn plain_bridge(encoder: &mut Encoder<'_>) {
    encoder.u32(IFLA_BR_STP_STATE, 0);
    encoder.u32(IFLA_BR_FORWARD_DELAY, 0);
    encoder.u8(IFLA_BR_MCAST_SNOOPING, 0);
    encoder.u8(IFLA_BR_MCAST_QUERIER, 0);
    encoder.u8(IFLA_BR_NF_CALL_IPTABLES, 0);
    encoder.u8(IFLA_BR_NF_CALL_IP6TABLES, 0);
    encoder.u8(IFLA_BR_NF_CALL_ARPTABLES, 0);
}

/// Alters an existing link; several settings form one message.
///
/// `Change::of("eth0").mtu(9000).up()`. The operation in error texts is the last setting's.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    link: LinkRef<'a>,
    operation: &'static str,
    flags: u32,
    mask: u32,
    name: Option<&'a str>,
    mac: Option<[u8; 6]>,
    mtu: Option<u32>,
    queue: Option<u32>,
    master: Option<u32>,
}

impl<'a> Change<'a> {
    /// A change of this link, still without settings.
    #[must_use]
    pub fn of(link: impl Into<LinkRef<'a>>) -> Self {
        Self {
            link: link.into(),
            operation: "change",
            flags: 0,
            mask: 0,
            name: None,
            mac: None,
            mtu: None,
            queue: None,
            master: None,
        }
    }

    /// Sets the link up.
    #[must_use]
    pub fn up(self) -> Self {
        self.flag(IFF_UP, true, "set up")
    }

    /// Sets the link down.
    #[must_use]
    pub fn down(self) -> Self {
        self.flag(IFF_UP, false, "set down")
    }

    /// Sets whether the link accepts frames not addressed to it.
    #[must_use]
    pub fn promiscuous(self, on: bool) -> Self {
        self.flag(IFF_PROMISC, on, "set promiscuous")
    }

    /// Makes the link a port of the bridge with this index.
    #[must_use]
    pub fn enslave(self, bridge: u32) -> Self {
        Self { master: Some(bridge), operation: "attach to bridge", ..self }
    }

    /// Removes the link from its bridge.
    #[must_use]
    pub fn release(self) -> Self {
        // The kernel takes 0 for none.
        Self { master: Some(0), operation: "release from bridge", ..self }
    }

    /// Sets the largest packet in bytes, link header excluded.
    #[must_use]
    pub fn mtu(self, mtu: u32) -> Self {
        Self { mtu: Some(mtu), operation: "set mtu", ..self }
    }

    /// Sets the length of the transmit queue in frames; for a tap, of the queue to be read.
    #[must_use]
    pub fn queue(self, frames: u32) -> Self {
        Self { queue: Some(frames), operation: "set queue", ..self }
    }

    /// Sets the hardware address.
    #[must_use]
    pub fn mac(self, mac: [u8; 6]) -> Self {
        Self { mac: Some(mac), operation: "set mac", ..self }
    }

    /// Renames the link with this index. By index only: a message has room for one name. Kernels
    /// before 6.2 require the link to be down.
    #[must_use]
    pub fn rename(index: u32, name: &'a str) -> Self {
        Self { name: Some(name), operation: "rename", ..Self::of(index) }
    }

    fn flag(self, flag: u32, on: bool, operation: &'static str) -> Self {
        let flags = if on { self.flags | flag } else { self.flags & !flag };
        Self { flags, mask: self.mask | flag, operation, ..self }
    }
}

impl Encode for Change<'_> {
    fn encode(&self, bytes: &mut Vec<u8>) {
        Encoder::message(bytes, RTM_NEWLINK, REQUEST, |encoder| {
            addressed(encoder, self.link, self.flags, self.mask);
            if let Some(name) = self.name {
                encoder.string(IFLA_IFNAME, name);
            }
            hardware(encoder, self.mac, self.mtu);
            if let Some(queue) = self.queue {
                encoder.u32(IFLA_TXQLEN, queue);
            }
            if let Some(master) = self.master {
                encoder.u32(IFLA_MASTER, master);
            }
        });
    }
}

impl Request for Change<'_> {
    fn operation(&self) -> &'static str {
        self.operation
    }
    fn purpose(&self) -> Purpose {
        Purpose::Touch
    }
}

/// Moves a link to another namespace. It arrives down, without addresses and routes:
/// [`Socket::carried`](crate::Socket::carried) saves them. If its name (`EEXIST`) or index
/// (`EBUSY`) is taken there, the move is refused and the link stays.
#[derive(Clone, Copy, Debug)]
pub struct MoveLink<'a> {
    /// The link in the socket's namespace.
    pub link: LinkRef<'a>,
    /// The destination. The descriptor must stay open until the batch is run.
    pub netns: BorrowedFd<'a>,
    /// Its new name there, if any; the link must then be given by index.
    pub name: Option<&'a str>,
    /// Its index there, if chosen.
    pub index: Option<u32>,
}

impl<'a> MoveLink<'a> {
    /// Moves a link under its present name.
    #[must_use]
    pub fn new(link: impl Into<LinkRef<'a>>, netns: BorrowedFd<'a>) -> Self {
        Self { link: link.into(), netns, name: None, index: None }
    }
}

impl Encode for MoveLink<'_> {
    fn encode(&self, bytes: &mut Vec<u8>) {
        Encoder::message(bytes, RTM_NEWLINK, REQUEST, |encoder| {
            addressed(encoder, self.link, 0, 0);
            if let Some(name) = self.name {
                encoder.string(IFLA_IFNAME, name);
            }
            descriptor(encoder, self.netns);
            if let Some(index) = self.index {
                encoder.u32(IFLA_NEW_IFINDEX, index);
            }
        });
    }
}

impl Request for MoveLink<'_> {
    fn operation(&self) -> &'static str {
        "move to namespace"
    }
    fn purpose(&self) -> Purpose {
        Purpose::Touch
    }
    fn meaning(errno: i32) -> Option<&'static str> {
        match errno {
            libc::EEXIST => Some("its name is taken there"),
            libc::EBUSY => Some("its index is taken there"),
            libc::EINVAL => Some("it cannot leave its namespace, or its name is none"),
            _ => None,
        }
    }
}

/// Removes a link; one end of a veth pair takes the other with it.
#[derive(Clone, Copy, Debug)]
pub struct DeleteLink<'a>(pub LinkRef<'a>);

impl<'a> DeleteLink<'a> {
    /// Removes this link.
    #[must_use]
    pub fn new(link: impl Into<LinkRef<'a>>) -> Self {
        Self(link.into())
    }
}

impl Encode for DeleteLink<'_> {
    fn encode(&self, bytes: &mut Vec<u8>) {
        Encoder::message(bytes, RTM_DELLINK, REQUEST, |encoder| addressed(encoder, self.0, 0, 0));
    }
}

impl Request for DeleteLink<'_> {
    fn operation(&self) -> &'static str {
        "delete"
    }
    fn purpose(&self) -> Purpose {
        Purpose::Touch
    }
}

/// `struct ifinfomsg`: family, pad, type, index, flags, mask of the flags that count.
pub(crate) fn header(index: u32, flags: u32, mask: u32) -> [u8; 16] {
    let mut header = [0; 16];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header[8..12].copy_from_slice(&flags.to_ne_bytes());
    header[12..16].copy_from_slice(&mask.to_ne_bytes());
    header
}

/// The header, followed by the name if the link is not given by index.
pub(crate) fn addressed(encoder: &mut Encoder<'_>, link: LinkRef<'_>, flags: u32, mask: u32) {
    match link {
        LinkRef::Index(index) => encoder.fixed(&header(index, flags, mask)),
        LinkRef::Name(name) => {
            encoder.fixed(&header(0, flags, mask));
            encoder.string(IFLA_IFNAME, name);
        }
    }
}

fn hardware(encoder: &mut Encoder<'_>, mac: Option<[u8; 6]>, mtu: Option<u32>) {
    if let Some(mac) = mac {
        encoder.attribute(IFLA_ADDRESS, &mac);
    }
    if let Some(mtu) = mtu {
        encoder.u32(IFLA_MTU, mtu);
    }
}

fn descriptor(encoder: &mut Encoder<'_>, netns: BorrowedFd<'_>) {
    encoder.attribute(IFLA_NET_NS_FD, &netns.as_raw_fd().to_ne_bytes());
}
