//! Why a lab cannot be planned.

use std::net::IpAddr;

use ipnet::IpNet;

/// Why a link from a shared-memory switch to the host has no wire.
pub const WIRE_AT_DOOR: &str = "it leads from a shared-memory switch to the host and cannot have a wire; impair \
     the links between that switch and its nodes, or join the host by a bridge";

/// Why a lab cannot be planned; each names the object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A link end whose index is outside the lab; a parsed lab has none.
    #[error("link {link}: end {side} is outside the lab")]
    UnknownEnd {
        /// Index of the link.
        link: usize,
        /// 0 or 1.
        side: usize,
    },
    /// Two nodes want one port of the host.
    #[error("node {node:?}: port {port} of the host is that of node {other:?} already")]
    PortTaken {
        /// The node.
        node: String,
        /// The port as in the lab file.
        port: String,
        /// The node that has it.
        other: String,
    },
    /// A pool too small for automatic addresses.
    #[error("address pool {pool}: too small, its prefix may be at most /{longest}")]
    PoolTooSmall {
        /// The pool.
        pool: IpNet,
        /// The longest prefix that works.
        longest: u8,
    },
    /// No free prefix is left.
    #[error(
        "{object}: no free prefix is left in the address pool {pool}; give it a subnet by hand"
    )]
    PoolExhausted {
        /// The switch or link without one.
        object: String,
        /// The pool.
        pool: IpNet,
    },
    /// No free host number is left in a segment.
    #[error("{object}: no free address is left in {prefix}; give its segment a larger subnet")]
    SegmentFull {
        /// The interface without one.
        object: String,
        /// The segment's prefix.
        prefix: IpNet,
    },
    /// An address given twice.
    #[error("{second}: address {address} is already that of {first}")]
    AddressClash {
        /// The address.
        address: IpAddr,
        /// The first object that has it.
        first: String,
        /// The second one.
        second: String,
    },
    /// The network's own or its broadcast address.
    #[error("{object}: {address} is the network or broadcast address of its prefix")]
    NotAHostAddress {
        /// The interface.
        object: String,
        /// The address as given.
        address: IpNet,
    },
    /// Two subnets of one family for one segment.
    #[error("{object}: its segment has the subnet {first} already, not {second}")]
    SubnetConflict {
        /// The switch or link that gives the second one.
        object: String,
        /// The first subnet.
        first: IpNet,
        /// The second subnet.
        second: IpNet,
    },
    /// Two segments whose prefixes by hand overlap, so that routes cannot distinguish them.
    #[error(
        "{second}: its prefix {prefix} overlaps that of {first}; routes cannot tell them apart"
    )]
    PrefixOverlap {
        /// The switch or link with the conflicting prefix.
        first: String,
        /// The switch or link.
        second: String,
        /// Its prefix.
        prefix: IpNet,
    },
    /// More ports than a kernel bridge can have (`BR_MAX_PORTS` in net/bridge/br_private.h), or a switch in
    /// shared memory.
    #[error("switch {switch:?}: {ports} ports, it has at most {most}")]
    TooManyPorts {
        /// The switch.
        switch: String,
        /// How many it would have.
        ports: usize,
        /// The maximum.
        most: usize,
    },
    /// A wire in a link from a shared-memory switch to the host, where none is possible.
    #[error("link {link:?}: {WIRE_AT_DOOR}")]
    WireAtDoor {
        /// The link.
        link: String,
    },
    /// A guest whose budget has no place: there is no switch at the other end of its link.
    #[error(
        "node {node:?}: protect: its guest gets the frames of link {link:?} before they can be counted; put a switch \
         in between"
    )]
    ProtectedGuest {
        /// The node.
        node: String,
        /// The link.
        link: String,
    },
    /// A router whose plane is separate, linked to the host or to a shared-memory switch.
    #[error(
        "link {link:?}: a router with plane: separate is linked to nodes and switches of kind kernel or openflow; put \
         one of these between"
    )]
    PlaneAtDoor {
        /// The link.
        link: String,
    },
    /// More computed routes than allowed.
    #[error(
        "{routes} routes would have to be computed, more than the {most} that a lab may have: they grow \
         with the square of the number of routers. What helps: fewer nodes with `forwarding`, one address family \
         (`pool: {{ipv6: none}}`), `routes` by hand in nodes, or `routing: none`"
    )]
    TooManyRoutes {
        /// An upper bound of their number.
        routes: usize,
        /// The maximum.
        most: usize,
    },
    /// A route by hand that names an interface the node does not have.
    #[error("node {node:?}: route to {to}: no interface {interface:?}")]
    UnknownInterface {
        /// The node.
        node: String,
        /// The destination.
        to: String,
        /// The interface named.
        interface: String,
    },
    /// A route by hand whose next hop is on none of the node's segments.
    #[error("node {node:?}: route to {to}: next hop {hop} shares no segment with it")]
    NoNextHop {
        /// The node.
        node: String,
        /// The destination.
        to: String,
        /// The address or node named as next hop.
        hop: String,
    },
    /// A route by hand with neither next hop nor interface, or none that has an address.
    #[error("node {node:?}: route to {to}: needs a next hop or an interface with an address")]
    NoWay {
        /// The node.
        node: String,
        /// The destination.
        to: String,
    },
    /// A route by hand whose next hop is of the other family.
    #[error("node {node:?}: route to {to}: next hop {hop} is of the other address family")]
    FamilyMismatch {
        /// The node.
        node: String,
        /// The destination.
        to: String,
        /// The next hop.
        hop: IpAddr,
    },
}
