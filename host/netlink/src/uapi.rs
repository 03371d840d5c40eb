//! Numbers of the kernel's netlink interface, with their types in messages.
//!
//! Only those that this crate sends or decodes. Source: `linux/netlink.h`, `linux/rtnetlink.h`,
//! `linux/if_link.h`, `linux/if_addr.h`, `linux/neighbour.h`, `linux/veth.h`.

pub(crate) const HEADER: usize = 16;

pub(crate) const NLMSG_ERROR: u16 = 2;
pub(crate) const NLMSG_DONE: u16 = 3;

pub(crate) const REQUEST: u16 = 0x1;
pub(crate) const ACK: u16 = 0x4;
pub(crate) const DUMP_INTERRUPTED: u16 = 0x10;
pub(crate) const CAPPED: u16 = 0x100;
pub(crate) const ACK_TLVS: u16 = 0x200;
pub(crate) const DUMP: u16 = 0x300;
pub(crate) const REPLACE: u16 = 0x100;
pub(crate) const EXCLUSIVE: u16 = 0x200;
pub(crate) const CREATE: u16 = 0x400;
pub(crate) const APPEND: u16 = 0x800;

pub(crate) const NLMSGERR_ATTR_MSG: u16 = 1;
pub(crate) const NLA_F_NESTED: u16 = 0x8000;
pub(crate) const NLA_TYPE_MASK: u16 = 0x3fff;

pub(crate) const RTM_NEWLINK: u16 = 16;
pub(crate) const RTM_DELLINK: u16 = 17;
pub(crate) const RTM_GETLINK: u16 = 18;
pub(crate) const RTM_NEWADDR: u16 = 20;
pub(crate) const RTM_DELADDR: u16 = 21;
pub(crate) const RTM_GETADDR: u16 = 22;
pub(crate) const RTM_NEWROUTE: u16 = 24;
pub(crate) const RTM_DELROUTE: u16 = 25;
pub(crate) const RTM_GETROUTE: u16 = 26;
pub(crate) const RTM_NEWNEIGH: u16 = 28;
pub(crate) const RTM_DELNEIGH: u16 = 29;
pub(crate) const RTM_NEWQDISC: u16 = 36;
pub(crate) const RTM_DELQDISC: u16 = 37;
pub(crate) const RTM_GETQDISC: u16 = 38;
pub(crate) const RTM_NEWTFILTER: u16 = 44;
pub(crate) const TC_H_ROOT: u32 = 0xffff_ffff;
pub(crate) const TCA_KIND: u16 = 1;
pub(crate) const TCA_STATS2: u16 = 7;
pub(crate) const TCA_STATS_QUEUE: u16 = 3;

pub(crate) const AF_INET: u8 = 2;
pub(crate) const AF_INET6: u8 = 10;

pub(crate) const IFF_UP: u32 = 0x1;
pub(crate) const IFF_NOARP: u32 = 0x80;
pub(crate) const IFF_PROMISC: u32 = 0x100;

pub(crate) const IFLA_ADDRESS: u16 = 1;
pub(crate) const IFLA_IFNAME: u16 = 3;
pub(crate) const IFLA_MTU: u16 = 4;
pub(crate) const IFLA_TXQLEN: u16 = 13;
pub(crate) const IFLA_LINK: u16 = 5;
pub(crate) const IFLA_QDISC: u16 = 6;
pub(crate) const IFLA_MASTER: u16 = 10;
pub(crate) const IFLA_OPERSTATE: u16 = 16;
pub(crate) const IFLA_LINKINFO: u16 = 18;
pub(crate) const IFLA_STATS64: u16 = 23;
pub(crate) const IFLA_AF_SPEC: u16 = 26;
pub(crate) const IFLA_NET_NS_FD: u16 = 28;
pub(crate) const IFLA_EXT_MASK: u16 = 29;
pub(crate) const IFLA_NUM_TX_QUEUES: u16 = 31;
pub(crate) const IFLA_NUM_RX_QUEUES: u16 = 32;
pub(crate) const IFLA_CARRIER: u16 = 33;
pub(crate) const IFLA_LINK_NETNSID: u16 = 37;
pub(crate) const IFLA_TARGET_NETNSID: u16 = 46;
pub(crate) const IFLA_NEW_IFINDEX: u16 = 49;
pub(crate) const IFLA_INET_CONF: u16 = 1;
pub(crate) const IFLA_INET6_CONF: u16 = 2;
pub(crate) const IFLA_INFO_KIND: u16 = 1;
pub(crate) const IFLA_INFO_DATA: u16 = 2;
pub(crate) const VETH_INFO_PEER: u16 = 1;
pub(crate) const IFLA_BR_FORWARD_DELAY: u16 = 1;
pub(crate) const IFLA_BR_STP_STATE: u16 = 5;
pub(crate) const IFLA_BR_MCAST_SNOOPING: u16 = 23;
pub(crate) const IFLA_BR_MCAST_QUERIER: u16 = 25;
pub(crate) const IFLA_BR_NF_CALL_IPTABLES: u16 = 36;
pub(crate) const IFLA_BR_NF_CALL_IP6TABLES: u16 = 37;
pub(crate) const IFLA_BR_NF_CALL_ARPTABLES: u16 = 38;
pub(crate) const RTEXT_FILTER_SKIP_STATS: u32 = 8;

pub(crate) const IFA_ADDRESS: u16 = 1;
pub(crate) const IFA_LOCAL: u16 = 2;
pub(crate) const IFA_BROADCAST: u16 = 4;
pub(crate) const IFA_FLAGS: u16 = 8;
pub(crate) const IFA_F_NODAD: u32 = 0x2;
pub(crate) const IFA_F_PERMANENT: u32 = 0x80;
pub(crate) const IFA_PROTO: u16 = 11;

pub(crate) const RTA_DST: u16 = 1;
pub(crate) const RTA_SRC: u16 = 2;
pub(crate) const RTA_IIF: u16 = 3;
pub(crate) const RTA_OIF: u16 = 4;
pub(crate) const RTA_GATEWAY: u16 = 5;
pub(crate) const RTA_PRIORITY: u16 = 6;
pub(crate) const RTA_PREFSRC: u16 = 7;
pub(crate) const RTA_MULTIPATH: u16 = 9;
pub(crate) const RTA_TABLE: u16 = 15;
pub(crate) const RTA_VIA: u16 = 18;
pub(crate) const RTA_IP_PROTO: u16 = 27;
pub(crate) const RTA_SPORT: u16 = 28;
pub(crate) const RTA_DPORT: u16 = 29;
pub(crate) const RT_TABLE_MAIN: u8 = 254;
pub(crate) const RTPROT_STATIC: u8 = 4;
pub(crate) const RTN_UNICAST: u8 = 1;
pub(crate) const RTN_LOCAL: u8 = 2;
pub(crate) const RTN_BLACKHOLE: u8 = 6;
pub(crate) const RTN_UNREACHABLE: u8 = 7;
pub(crate) const RTN_PROHIBIT: u8 = 8;
pub(crate) const RT_SCOPE_UNIVERSE: u8 = 0;
pub(crate) const RT_SCOPE_LINK: u8 = 253;
pub(crate) const RT_SCOPE_HOST: u8 = 254;
pub(crate) const RT_SCOPE_NOWHERE: u8 = 255;
pub(crate) const RTM_F_CLONED: u32 = 0x200;

pub(crate) const NDA_DST: u16 = 1;
pub(crate) const NDA_LLADDR: u16 = 2;
pub(crate) const NUD_PERMANENT: u16 = 0x80;
