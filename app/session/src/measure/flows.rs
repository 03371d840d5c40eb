//! The flows of a measurement, and the session's configuration for them.
//!
//! It builds an API request, so everything that the API refuses is refused here, in the same words.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use netloom_marking::session::{Body, BodyFilter, Configuration, NamedFilter};
use netloom_measure::Join;
use netloom_model::lookup::target::Space;
use netloom_netlink::diag::{self, Protocol, SocketInfo, State};

use super::note::Note;
use super::paths::{LeftOut, Paths};
use crate::spaces::run_in;
use crate::{Error, Result, Spaces};

/// Default block length.
const PERIOD: Duration = Duration::from_secs(1);
/// Maximum number of socket flows; further ones are part of the rest.
pub(super) const MOST_FLOWS: usize = 256;

/// Ports and protocol of a flow, as text `80/tcp` or `5000->80/udp`, with `*` for any port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlowPorts {
    /// The source port; any without one.
    pub src_port: Option<u16>,
    /// The destination port; any without one.
    pub dst_port: Option<u16>,
    /// The protocol's name or number.
    pub proto: String,
}

impl std::fmt::Display for FlowPorts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let port = |port: Option<u16>| port.map_or_else(|| "*".to_owned(), |port| port.to_string());
        write!(f, "{}->{}/{}", port(self.src_port), port(self.dst_port), self.proto)
    }
}

impl FromStr for FlowPorts {
    type Err = Error;

    fn from_str(text: &str) -> Result<FlowPorts> {
        let wrong = || {
            let hint = "write 80/tcp or 5000->80/udp, * for any port";
            Error::Request(format!("{text:?} is not a flow; {hint}"))
        };
        let port = |text: &str| match text {
            "*" => Ok(None),
            number => number.parse().map(Some).map_err(|_| wrong()),
        };
        let (ports, proto) = text.split_once('/').ok_or_else(wrong)?;
        let (from, to) = ports.split_once("->").unwrap_or(("*", ports));
        if proto.is_empty() {
            return Err(wrong());
        }
        Ok(FlowPorts { src_port: port(from)?, dst_port: port(to)?, proto: proto.to_owned() })
    }
}

/// Which packets are measured.
#[derive(Clone, Debug, Default)]
pub struct Flows {
    /// Only this protocol, by its name or number.
    pub proto: Option<String>,
    /// Only from this port of the first node, and back to it.
    pub src_port: Option<u16>,
    /// Only to this port of the second node, and back from it.
    pub dst_port: Option<u16>,
    /// A flow each, instead of the fields above, and one for the rest.
    pub each: Vec<FlowPorts>,
    /// A flow for each socket that is connected between the nodes, too.
    pub connected: bool,
}

/// A flow of packets that no other flow has.
pub(super) const REST: &str = "rest";

/// A flow: measured separately, in both directions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// `5000->80/tcp`, `rest`, `all`.
    pub name: String,
    proto: Option<String>,
    src_port: Option<u16>,
    dst_port: Option<u16>,
}

impl Flow {
    /// Its ports, if it has a protocol.
    pub(super) fn ports(&self) -> Option<FlowPorts> {
        let proto = self.proto.clone()?;
        Some(FlowPorts { src_port: self.src_port, dst_port: self.dst_port, proto })
    }
}

impl From<FlowPorts> for Flow {
    fn from(ports: FlowPorts) -> Flow {
        let name = ports.to_string();
        let FlowPorts { src_port, dst_port, proto } = ports;
        Flow { name, proto: Some(proto), src_port, dst_port }
    }
}

impl Flows {
    /// The flows that are given, without those of sockets.
    pub fn given(&self) -> Vec<Flow> {
        if self.each.is_empty() {
            let (proto, src_port, dst_port) = (self.proto.clone(), self.src_port, self.dst_port);
            return vec![Flow { name: "all".to_owned(), proto, src_port, dst_port }];
        }
        with_rest(self.each.iter().cloned())
    }
}

/// How it is measured.
#[derive(Clone, Debug)]
pub struct Method {
    /// The length of a block; 1 s by default.
    pub period: Option<Duration>,
    /// How long, in whole blocks; without end by default.
    pub duration: Option<Duration>,
    /// How long a block is still counted after its end.
    pub guard: Option<Duration>,
    /// Values kept at each point beside counts: programs 1 to 4 of the API.
    pub program: u8,
    /// The most packets of a flow and block whose times are kept (program 3).
    pub samples: u32,
    /// Times are kept of one packet in 2 to the power of this (programs 2 and 4).
    pub hash_length: u8,
    /// DSCP values that blocks alternate between.
    pub marks: (u8, u8),
}

/// The flows, and the rest.
fn with_rest(flows: impl IntoIterator<Item = FlowPorts>) -> Vec<Flow> {
    let mut flows: Vec<Flow> = flows.into_iter().map(Flow::from).collect();
    flows.push(Flow { name: REST.to_owned(), ..Flow::default() });
    flows
}

/// The given flows, and those of sockets currently connected between the nodes.
pub(super) fn sockets(
    spaces: &Spaces,
    ways: &Paths,
    given: &[FlowPorts],
    tell: &mut dyn FnMut(Note),
) -> Result<Vec<Flow>> {
    let mut found = connected(spaces, ways)?;
    found.extend(given.iter().cloned());
    if found.len() > MOST_FLOWS {
        tell(Note::ManyFlows { found: found.len(), most: MOST_FLOWS });
    }
    Ok(with_rest(found.into_iter().take(MOST_FLOWS)))
}

/// Flows of sockets connected between the nodes, as seen at either.
pub(super) fn connected(spaces: &Spaces, ways: &Paths) -> Result<BTreeSet<FlowPorts>> {
    let nodes = ways.all.first().map(|way| [(&way.way.from, false), (&way.way.to, true)]);
    let mut found = BTreeSet::new();
    for (node, turned) in nodes.into_iter().flatten() {
        let init = spaces.init(&Space::Node(node.clone()));
        let sockets = run_in(init.as_deref(), || Ok(diag::sockets()?));
        let sockets = sockets.map_err(Error::asking(node, "list its sockets"))?;
        for (from, to) in ways.all.iter().filter(|way| !way.back).flat_map(|way| &way.pairs) {
            // The second node's sockets have both addresses the other way round.
            let (own, peer) = if turned { (*to, *from) } else { (*from, *to) };
            found.extend(sockets.iter().filter_map(|socket| flow_of(socket, own, peer, turned)));
        }
    }
    Ok(found)
}

/// The flow of a socket connected from `own` to `peer`; reversed if `turned`, as the peer sees it.
fn flow_of(socket: &SocketInfo, own: IpAddr, peer: IpAddr, turned: bool) -> Option<FlowPorts> {
    let (local, remote) = socket.local.zip(socket.remote)?;
    // What remains of a closed connection, without a process, sends nothing any more.
    if socket.state == State::Closing && socket.inode == 0 {
        return None;
    }
    // A dual-stack socket has IPv4-mapped addresses.
    let plain = |address: IpAddr| address.to_canonical();
    let proto = match socket.protocol {
        Protocol::Tcp => "tcp",
        Protocol::Udp => "udp",
        Protocol::Raw | Protocol::Packet => return None,
    };
    let of_both = (plain(local.ip()), plain(remote.ip())) == (own, peer);
    let (src, dst) = if turned { (remote, local) } else { (local, remote) };
    of_both.then(|| FlowPorts {
        src_port: Some(src.port()),
        dst_port: Some(dst.port()),
        proto: proto.to_owned(),
    })
}

/// The packets of a path: pairs of sender and receiver, and whether they go back.
pub type Packets<'a> = (&'a [(IpAddr, IpAddr)], bool);

/// The configuration for these flows on the paths of these packets. A flow on a path has the number
/// `flow * paths + path`, and a filter for each address pair; packets of an unmeasured family are counted.
///
/// # Errors
/// [`Error::Configuration`] with everything that is wrong.
pub fn configuration(
    method: &Method,
    flows: &[Flow],
    ways: &[Packets<'_>],
    left_out: Option<&LeftOut>,
) -> Result<Configuration> {
    let seconds = |time: Duration| time.as_secs_f64();
    let period = method.period.unwrap_or(PERIOD);
    let hashes = method.program != 1;
    let (filters, ids) = filters(flows, ways, left_out);
    let body = Body {
        prog_id: method.program,
        mp: seconds(period),
        // A request needs a duration; without one this is taken back below.
        mpc: seconds(method.duration.unwrap_or(period)),
        starter_mark: method.marks.0,
        next_mark: method.marks.1,
        filters,
        match_value: hashes.then_some(0),
        hash_length: hashes.then_some(if method.program == 3 { 0 } else { method.hash_length }),
        hash_function: hashes.then(|| "bob".to_owned()),
        npkts: (method.program == 3).then_some(method.samples),
        guard: method.guard.map(seconds),
        ..Body::default()
    };
    // Serialising plain data to memory does not fail; an empty text is not a configuration.
    let bytes = serde_json::to_vec(&body).unwrap_or_default();
    let mut configuration = Configuration::read(&bytes).map_err(Error::Configuration)?;
    // In a request each filter is its own flow.
    configuration.filters.iter_mut().zip(ids).for_each(|(filter, id)| filter.id = id);
    if method.duration.is_none() {
        // Runs until stopped.
        configuration.duration = 0;
    }
    Ok(configuration)
}

/// The number of a flow on a path at points, of this many paths.
pub(super) fn flow_number(flow: usize, ways: usize, way: usize) -> u32 {
    u32::try_from(flow * ways + way).unwrap_or(NamedFilter::ASIDE - 1)
}

/// What makes a flow join a running measurement: filters for each path. `flow` is its index, `rest` that of the
/// flow that has its packets so far.
///
/// # Errors
/// As [`configuration`].
pub(super) fn joins(
    method: &Method,
    (flow, index): (&Flow, usize),
    rest: usize,
    ways: &[Packets<'_>],
) -> Result<Vec<Join>> {
    let configuration = configuration(method, std::slice::from_ref(flow), ways, None)?;
    let join = |way: usize| {
        let of = configuration
            .filters
            .iter()
            .filter(|named| named.id == flow_number(0, ways.len(), way));
        let id = flow_number(index, ways.len(), way);
        let filters = of.map(|named| NamedFilter { id, ..*named }).collect();
        Join { filters, before: flow_number(rest, ways.len(), way) }
    };
    Ok((0..ways.len()).map(join).collect())
}

/// Filters, numbered as in a request, and the number of each filter's flow.
fn filters(
    flows: &[Flow],
    ways: &[Packets<'_>],
    left_out: Option<&LeftOut>,
) -> (Vec<BodyFilter>, Vec<u32>) {
    let mut all = Vec::new();
    let mut id = 0;
    for flow in flows {
        for (pairs, back) in ways {
            all.extend(pairs.iter().map(|pair| (filter(flow, *pair, *back), id)));
            id += 1;
        }
    }
    // With several flows the last one is the rest: together they cover all packets.
    let rest = Flow::default();
    let flow = if let [one] = flows { one } else { &rest };
    for (from, to) in left_out.iter().flat_map(|left_out| &left_out.pairs) {
        let there = filter(flow, (*from, *to), false);
        let back = filter(flow, (*to, *from), true);
        let backs = ways.iter().any(|(_, back)| *back).then_some(back);
        all.extend([Some(there), backs].into_iter().flatten().map(|f| (f, NamedFilter::ASIDE)));
    }
    let numbered = (0..).zip(all);
    numbered.map(|(number, (filter, id))| (BodyFilter { id: number, ..filter }, id)).unzip()
}

fn filter(flow: &Flow, (from, to): (IpAddr, IpAddr), back: bool) -> BodyFilter {
    let (src_port, dst_port) =
        if back { (flow.dst_port, flow.src_port) } else { (flow.src_port, flow.dst_port) };
    // This name means ICMP, whatever its number in this family.
    let proto = match flow.proto.as_deref() {
        Some("icmp") if from.is_ipv6() => Some("icmpv6".to_owned()),
        other => other.map(str::to_owned),
    };
    BodyFilter {
        id: 0,
        src_ip: Some(from.to_string()),
        dst_ip: Some(to.to_string()),
        proto,
        src_port,
        dst_port,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_ports_and_a_protocol() {
        let known = |text: &str, src_port, dst_port, proto: &str| {
            let ports = FlowPorts { src_port, dst_port, proto: proto.to_owned() };
            assert_eq!(text.parse::<FlowPorts>().unwrap(), ports);
        };
        known("80/tcp", None, Some(80), "tcp");
        known("5000->80/udp", Some(5000), Some(80), "udp");
        known("5000->*/17", Some(5000), None, "17");
        assert_eq!("80/tcp".parse::<FlowPorts>().unwrap().to_string(), "*->80/tcp");
        for wrong in ["", "80", "80/", "x/tcp", "1->2->3/tcp", "70000/tcp", "->80/tcp"] {
            assert!(wrong.parse::<FlowPorts>().is_err(), "{wrong}");
        }
    }

    fn address(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    fn method() -> Method {
        let (period, duration, guard) = (None, None, None);
        Method {
            period,
            duration,
            guard,
            program: 3,
            samples: 1024,
            hash_length: 4,
            marks: (8, 16),
        }
    }

    #[test]
    fn both_families_are_one_flow_and_what_is_left_out_is_counted() {
        let six = |last: u16| IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, last]);
        let there = [(address(1), address(2)), (six(1), six(2))];
        let back = there.map(|(from, to)| (to, from));
        let ways: [Packets<'_>; 2] = [(&there, false), (&back, true)];
        let flows = Flows { proto: Some("icmp".to_owned()), ..Flows::default() }.given();
        let found = configuration(&method(), &flows, &ways, None).unwrap();
        let ids: Vec<u32> = found.filters.iter().map(|named| named.id).collect();
        let protocols: Vec<_> = found.filters.iter().map(|named| named.filter.proto).collect();
        assert_eq!((ids, found.flows()), (vec![0, 0, 1, 1], 2));
        assert_eq!(protocols, [Some(1), Some(58), Some(1), Some(58)]);
        let left_out = LeftOut { version: 6, pairs: vec![(six(1), six(2)), (six(1), six(3))] };
        let ways: [Packets<'_>; 2] = [(&there[..1], false), (&back[..1], true)];
        let found = configuration(&method(), &flows, &ways, Some(&left_out)).unwrap();
        let ids: Vec<u32> = found.filters.iter().map(|named| named.id).collect();
        let aside = NamedFilter::ASIDE;
        assert_eq!((ids, found.flows()), (vec![0, 1, aside, aside, aside, aside], 2));
        assert_eq!(found.filters[3].filter.src_ip.unwrap().addr(), six(2));
    }

    #[test]
    fn sockets_are_flows_as_the_first_node_sees_them() {
        let socket = |local: &str, remote: &str| SocketInfo {
            protocol: Protocol::Tcp,
            local: Some(local.parse().unwrap()),
            remote: Some(remote.parse().unwrap()),
            state: State::Established,
            interface: None,
            inode: 1,
            queue: None,
            six_only: false,
            room: None,
        };
        let (a, b) = (address(1), address(2));
        let known = |flow: Option<FlowPorts>| flow.map(|flow| flow.to_string());
        let there = flow_of(&socket("10.0.0.1:5000", "10.0.0.2:80"), a, b, false);
        assert_eq!(known(there).as_deref(), Some("5000->80/tcp"));
        let back = flow_of(&socket("[::ffff:10.0.0.2]:80", "[::ffff:10.0.0.1]:5000"), b, a, true);
        assert_eq!(known(back).as_deref(), Some("5000->80/tcp"));
        assert_eq!(flow_of(&socket("10.0.0.1:5000", "10.0.0.3:80"), a, b, false), None);
    }
}
