//! Causes by stable names, with evidence and the smallest change that would let the flow pass.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! names {
    ($($(#[$about:meta])* $name:ident = $word:literal,)*) => {
        /// The name of a cause. It never changes, so that programs can rely on it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = WhyCauseName))]
        pub enum CauseName {
            $($(#[$about])* $name,)*
        }

        impl CauseName {
            /// All of them.
            pub const ALL: &'static [CauseName] = &[$(CauseName::$name),*];

            /// As in JSON.
            pub fn word(self) -> &'static str {
                match self {
                    $(CauseName::$name => $word,)*
                }
            }
        }
    };
}

names! {
    /// The node's init has ended.
    NodeDead = "node_dead",
    /// An interface of the plan is not in its node.
    InterfaceMissing = "interface_missing",
    /// An interface is set down.
    InterfaceDown = "interface_down",
    /// An interface has no carrier, and nothing tells why.
    NoCarrier = "no_carrier",
    /// The link was taken down.
    CableOut = "cable_out",
    /// The link's wire does not run.
    WireStopped = "wire_stopped",
    /// The link loses all packets, or all of this kind.
    WireLoss = "wire_loss",
    /// The link loses some packets.
    WirePartialLoss = "wire_partial_loss",
    /// The link's rate makes it lose some packets.
    WireRate = "wire_rate",
    /// The link delays packets by so much that programs may give up.
    WireDelay = "wire_delay",
    /// Larger packets do not pass.
    MtuTooSmall = "mtu_too_small",
    /// A node lacks an address of the plan.
    AddressMissing = "address_missing",
    /// A node has an address other than the plan's, to which others have no way.
    WrongAddress = "wrong_address",
    /// A route leads to another next hop than the plan's, where packets do not go on.
    WrongGateway = "wrong_gateway",
    /// A node has no route.
    NoRoute = "no_route",
    /// A routing daemon of a node has ended.
    DaemonEnded = "daemon_ended",
    /// A session of BGP is not established.
    BgpSession = "bgp_session",
    /// The BGP of a node does not tell its neighbour a route that the node has.
    RouteNotAdvertised = "route_not_advertised",
    /// The BGP of a node does not take a route that its neighbour tells it.
    RouteNotAccepted = "route_not_accepted",
    /// The BGP of a node has a route, and no way to its next hop.
    NextHopUnreachable = "next_hop_unreachable",
    /// A node does not speak OSPF on a link where its neighbour does.
    OspfSilent = "ospf_silent",
    /// Two neighbours that speak OSPF are not adjacent.
    OspfAdjacency = "ospf_adjacency",
    /// A route drops in silence.
    BlackholeRoute = "blackhole_route",
    /// A route says that the destination is unreachable.
    UnreachableRoute = "unreachable_route",
    /// A route prohibits the destination.
    ProhibitRoute = "prohibit_route",
    /// A node does not forward.
    ForwardingOff = "forwarding_off",
    /// The reverse path filter refuses the source.
    ReversePathFilter = "reverse_path_filter",
    /// A packet comes in with an address of the node itself as its source.
    MartianSource = "martian_source",
    /// The time to live ends on the way.
    TtlEnded = "ttl_ended",
    /// Routes lead in a circle.
    RoutingLoop = "routing_loop",
    /// A rule or policy of nftables drops.
    NftDrop = "nft_drop",
    /// A rule of nftables refuses.
    NftReject = "nft_reject",
    /// A rule gives packets a destination that no node has.
    TranslatedAway = "translated_away",
    /// Nobody on the segment has the next hop's address.
    NeighbourUnknown = "neighbour_unknown",
    /// A neighbour entry has a wrong hardware address: a fixed one, or one that was learnt before the address moved.
    NeighbourWrong = "neighbour_wrong",
    /// Ports of a switch are in different VLANs.
    VlanMismatch = "vlan_mismatch",
    /// A switch's port admits other source addresses only.
    AddressLocked = "address_locked",
    /// Another station answers for the address.
    AddressTwice = "address_twice",
    /// A node leaves questions for its hardware address unanswered.
    NeighbourSilent = "neighbour_silent",
    /// An interface is a port of a bridge, so that packets that come in are not the node's own.
    InterfaceEnslaved = "interface_enslaved",
    /// A rule of policy routing refuses.
    RefusingRule = "refusing_rule",
    /// A queueing discipline of a node drops packets.
    QueueDrops = "queue_drops",
    /// An entry of an OpenFlow switch drops it, or leads it elsewhere.
    FlowEntry = "flow_entry",
    /// No entry of an OpenFlow switch takes it.
    FlowMiss = "flow_miss",
    /// An OpenFlow switch has no controller that would take it.
    NoController = "no_controller",
    /// A meter of an OpenFlow switch drops some packets.
    FlowMeter = "flow_meter",
    /// The node's budget of protection drops some packets.
    ProtectBudget = "protect_budget",
    /// The table of tracked connections is full, so that new ones are dropped.
    ConntrackFull = "conntrack_full",
    /// A name server of the sender's configuration is nowhere, or nothing answers there.
    WrongResolver = "wrong_resolver",
    /// No socket takes it.
    NothingListens = "nothing_listens",
    /// A socket listens at another address only.
    ListensElsewhere = "listens_elsewhere",
    /// The queue of connections that wait to be accepted is full.
    BacklogFull = "backlog_full",
    /// The socket's program is stopped by a signal.
    ProgramStopped = "program_stopped",
    /// The socket's program does not read, and there is no room for more.
    BufferFull = "buffer_full",
    /// The node leaves echo requests unanswered.
    EchoIgnored = "echo_ignored",
}

impl fmt::Display for CauseName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// On which way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = WhyDirection))]
pub enum Direction {
    /// From the first node to the second.
    #[default]
    There,
    /// The way of the answers.
    Back,
}

/// What a cause rests on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = WhyBasis))]
pub enum Basis {
    /// The probe was lost there.
    Probe,
    /// The kernels' tables and settings alone: the probe did not come as far, or could not be sent.
    #[default]
    Facts,
    /// The same, of now, where packets of a recording were lost.
    Now,
}

/// A cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = WhyCause))]
pub struct Cause {
    /// What it is.
    pub name: CauseName,
    /// Where: `node r1`, `link r1:eth0--s1`, `switch s1`.
    pub place: String,
    /// On which way.
    pub direction: Direction,
    /// What it rests on.
    pub basis: Basis,
    /// In a sentence.
    pub text: String,
    /// What was found.
    pub evidence: Vec<String>,
    /// A command that would let the flow pass, where there is a single one.
    pub mend: Option<String>,
}

impl Cause {
    pub(crate) fn new(name: CauseName, place: impl Into<String>, text: impl Into<String>) -> Cause {
        Cause {
            name,
            place: place.into(),
            direction: Direction::There,
            basis: Basis::Facts,
            text: text.into(),
            evidence: vec![],
            mend: None,
        }
    }

    #[must_use]
    pub(crate) fn evidence(mut self, found: impl Into<String>) -> Cause {
        self.evidence.push(found.into());
        self
    }

    #[must_use]
    pub(crate) fn mend(mut self, command: impl Into<String>) -> Cause {
        self.mend = Some(command.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_json() {
        for name in CauseName::ALL {
            assert_eq!(serde_json::to_string(name).unwrap(), format!("\"{name}\""));
        }
    }
}
