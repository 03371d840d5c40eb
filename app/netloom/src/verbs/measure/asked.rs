//! Turns flags into a session's configuration: flows, filters, and errors in them.
//!
//! It builds an API request, so everything that the API refuses is refused here, in the same words.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use netloom_marking::session::{Body, BodyFilter, Configuration, NamedFilter, Problem};
use netloom_model::lookup::target::Place;
use netloom_netlink::diag::{self, Protocol, SocketInfo};

use super::ways::{LeftOut, Ways};
use crate::Usage;
use crate::flags::{FlowFlag, Measure};
use crate::spaces::{Spaces, run_in};

/// Default block length.
const PERIOD: Duration = Duration::from_secs(1);
/// Maximum number of socket flows; further ones are part of the rest.
const MOST_FLOWS: usize = 256;

/// A flow: measured separately, in both directions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Flow {
    /// `5000->80/tcp`, `rest`, `all`.
    pub(super) name: String,
    proto: Option<String>,
    src_port: Option<u16>,
    dst_port: Option<u16>,
}

impl From<FlowFlag> for Flow {
    fn from(flag: FlowFlag) -> Flow {
        let name = flag.to_string();
        let FlowFlag { src_port, dst_port, proto } = flag;
        Flow { name, proto: Some(proto), src_port, dst_port }
    }
}

/// The flows given by flags.
pub(super) fn flows(args: &Measure) -> Vec<Flow> {
    let what = &args.what;
    if what.flow.is_empty() {
        let (proto, src_port, dst_port) = (what.proto.clone(), what.src_port, what.dst_port);
        return vec![Flow { name: "all".to_owned(), proto, src_port, dst_port }];
    }
    with_rest(what.flow.iter().cloned())
}

/// The flows, and the rest.
fn with_rest(flows: impl IntoIterator<Item = FlowFlag>) -> Vec<Flow> {
    let mut flows: Vec<Flow> = flows.into_iter().map(Flow::from).collect();
    flows.push(Flow { name: "rest".to_owned(), ..Flow::default() });
    flows
}

/// Flows of sockets currently connected between the nodes, as seen at either.
pub(super) fn sockets(spaces: &Spaces, ways: &Ways, given: &[FlowFlag]) -> Result<Vec<Flow>> {
    let way = &ways.all.first().context("there is no way")?.way;
    let mut found: BTreeSet<FlowFlag> = given.iter().cloned().collect();
    for (node, turned) in [(&way.from, false), (&way.to, true)] {
        let init = spaces.init(&Place::Node(node.clone()));
        let sockets = run_in(init.as_deref(), || Ok(diag::sockets()?))
            .with_context(|| format!("node {node:?}: list its sockets"))?;
        for (from, to) in ways.all.iter().filter(|way| !way.back).flat_map(|way| &way.pairs) {
            let (own, peer) = if turned { (*to, *from) } else { (*from, *to) };
            found.extend(sockets.iter().filter_map(|socket| flow_of(socket, own, peer, turned)));
        }
    }
    if found.len() > MOST_FLOWS {
        eprintln!(
            "note: {} flows; {MOST_FLOWS} are told apart, the others are in the rest",
            found.len()
        );
    }
    Ok(with_rest(found.into_iter().take(MOST_FLOWS)))
}

/// The flow of a socket connected from `own` to `peer`; reversed if `turned`, as the peer sees it.
fn flow_of(socket: &SocketInfo, own: IpAddr, peer: IpAddr, turned: bool) -> Option<FlowFlag> {
    let (local, remote) = socket.local.zip(socket.remote)?;
    // A dual-stack socket has IPv4-mapped addresses.
    let plain = |address: IpAddr| address.to_canonical();
    let proto = match socket.protocol {
        Protocol::Tcp => "tcp",
        Protocol::Udp => "udp",
        Protocol::Raw | Protocol::Packet => return None,
    };
    let of_both = (plain(local.ip()), plain(remote.ip())) == (own, peer);
    let (src, dst) = if turned { (remote, local) } else { (local, remote) };
    of_both.then(|| FlowFlag {
        src_port: Some(src.port()),
        dst_port: Some(dst.port()),
        proto: proto.to_owned(),
    })
}

/// The packets of a path: pairs of sender and receiver, and whether they go back.
pub(super) type Packets<'a> = (&'a [(IpAddr, IpAddr)], bool);

/// The configuration for these flows on the paths of these packets. A flow on a path has the number
/// `flow * paths + path`, and a filter for each address pair; packets of an unmeasured family are counted.
///
/// # Errors
/// All errors, with the names of flags.
pub(super) fn configuration(
    args: &Measure,
    flows: &[Flow],
    ways: &[Packets<'_>],
    left_out: Option<&LeftOut>,
) -> Result<Configuration> {
    let seconds = |time: Duration| time.as_secs_f64();
    let period = args.period.unwrap_or(PERIOD);
    let hashes = args.program != 1;
    let (filters, ids) = filters(flows, ways, left_out);
    let body = Body {
        prog_id: args.program,
        mp: seconds(period),
        mpc: seconds(args.duration.unwrap_or(period)),
        starter_mark: args.marks.0,
        next_mark: args.marks.1,
        filters,
        match_value: hashes.then_some(0),
        hash_length: hashes.then_some(if args.program == 3 { 0 } else { args.hash_length }),
        hash_function: hashes.then(|| "bob".to_owned()),
        npkts: (args.program == 3).then_some(args.samples),
        guard: args.guard.map(seconds),
        ..Body::default()
    };
    let bytes = serde_json::to_vec(&body)?;
    let mut configuration = Configuration::read(&bytes).map_err(|problems| wrong(&problems))?;
    // In a request each filter is its own flow.
    configuration.filters.iter_mut().zip(ids).for_each(|(filter, id)| filter.id = id);
    if args.duration.is_none() {
        // Runs until stopped.
        configuration.duration = 0;
    }
    Ok(configuration)
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

/// All errors, with the names of flags.
fn wrong(problems: &[Problem]) -> Usage {
    let flag = |path: &str| match path.rsplit('.').next().unwrap_or(path) {
        "mp" => "--period".to_owned(),
        "mpc" => "--for".to_owned(),
        "guard" => "--guard".to_owned(),
        "npkts" => "--samples".to_owned(),
        "hash_length" => "--hash-length".to_owned(),
        "starter_mark" | "next_mark" => "--marks".to_owned(),
        "proto" => "--proto".to_owned(),
        _ if path.starts_with("filters") => "--flow".to_owned(),
        other => other.to_owned(),
    };
    // Report an error that both directions share only once.
    let mut seen = BTreeSet::new();
    let words =
        problems.iter().map(|problem| format!("{}: {}", flag(&problem.path), problem.message));
    let words: Vec<String> = words.filter(|words| seen.insert(words.clone())).collect();
    Usage(words.join("; "))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn args(line: &str) -> Measure {
        let cli =
            crate::flags::Cli::try_parse_from(format!("netloom measure a b{line}").split(' '));
        let crate::flags::Verb::Measure(args) = cli.unwrap().verb else { panic!("{line}") };
        *args
    }

    fn address(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    fn configured(line: &str) -> Result<Configuration> {
        let args = args(line);
        let [there, back] = [[(address(1), address(2))], [(address(2), address(1))]];
        configuration(&args, &flows(&args), &[(&there, false), (&back, true)], None)
    }

    #[test]
    fn both_families_are_one_flow_and_what_is_left_out_is_counted() {
        let six = |last: u16| IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, last]);
        let there = [(address(1), address(2)), (six(1), six(2))];
        let back = there.map(|(from, to)| (to, from));
        let ways: [Packets<'_>; 2] = [(&there, false), (&back, true)];
        let args = args(" --proto icmp");
        let found = configuration(&args, &flows(&args), &ways, None).unwrap();
        let ids: Vec<u32> = found.filters.iter().map(|named| named.id).collect();
        let protocols: Vec<_> = found.filters.iter().map(|named| named.filter.proto).collect();
        assert_eq!((ids, found.flows()), (vec![0, 0, 1, 1], 2));
        assert_eq!(protocols, [Some(1), Some(58), Some(1), Some(58)]);
        let left_out = LeftOut { version: 6, pairs: vec![(six(1), six(2)), (six(1), six(3))] };
        let ways: [Packets<'_>; 2] = [(&there[..1], false), (&back[..1], true)];
        let found = configuration(&args, &flows(&args), &ways, Some(&left_out)).unwrap();
        let ids: Vec<u32> = found.filters.iter().map(|named| named.id).collect();
        let aside = NamedFilter::ASIDE;
        assert_eq!((ids, found.flows()), (vec![0, 1, aside, aside, aside, aside], 2));
        assert_eq!(found.filters[3].filter.src_ip.unwrap().addr(), six(2));
    }

    #[test]
    fn the_way_back_has_its_ports_turned_round() {
        let found = configured(" --flow 5000->80/tcp --flow 53/udp").unwrap();
        let ports =
            |id: usize| (found.filters[id].filter.src_port, found.filters[id].filter.dst_port);
        assert_eq!(found.filters.len(), 6);
        assert_eq!([ports(0), ports(1)], [(Some(5000), Some(80)), (Some(80), Some(5000))]);
        assert_eq!([ports(2), ports(3)], [(None, Some(53)), (Some(53), None)]);
        assert_eq!([ports(4), ports(5)], [(None, None); 2]);
        let nets = |id: usize| found.filters[id].filter.src_ip.unwrap().addr();
        assert_eq!([nets(4), nets(5)], [address(1), address(2)]);
    }

    #[test]
    fn what_is_asked_for_is_what_is_measured() {
        let found = configured("").unwrap();
        assert_eq!((found.period, found.guard, found.duration), (1_000_000_000, 250_000_000, 0));
        assert_eq!(found.sampling.unwrap().npkts, Some(1024));
        let found = configured(" --for 20s --period 2s --guard 100ms --program 1").unwrap();
        assert_eq!((found.blocks(), found.guard), (10, 100_000_000));
        assert!(found.sampling.is_none());
        let found = configured(" --program 2 --hash-length 3 --marks 1,2 --proto 17").unwrap();
        assert_eq!(found.sampling.unwrap().selection.threshold().hash_length(), 3);
    }

    #[test]
    fn what_is_wrong_is_told_by_flag() {
        for (line, words) in [
            (
                " --guard 500ms",
                "--guard: period of 1000000000 ns: guard of 500000000 ns does not fit",
            ),
            (" --period 1ms", "--period: must be 0.01 to 3600 seconds"),
            (" --for 500ms", "--for: is shorter than mp"),
            (" --marks 8,8", "--marks: "),
            (" --marks 8,64", "--marks: must be"),
            (" --proto x", "--proto: must be tcp, udp"),
            (" --proto icmp --port 80", "--proto: has no ports"),
            (" --flow 80/tcp --flow 80/tcp", "--flow: is the same as filters[0]"),
        ] {
            let error = configured(line).unwrap_err();
            assert!(error.is::<Usage>(), "{line}: {error}");
            assert!(error.to_string().starts_with(words), "{line}: {error}");
        }
    }

    #[test]
    fn sockets_are_flows_as_the_first_node_sees_them() {
        let socket = |local: &str, remote: &str| SocketInfo {
            protocol: Protocol::Tcp,
            local: Some(local.parse().unwrap()),
            remote: Some(remote.parse().unwrap()),
            state: diag::State::Established,
            interface: None,
            inode: 1,
        };
        let (a, b) = (address(1), address(2));
        let known = |flow: Option<FlowFlag>| flow.map(|flow| flow.to_string());
        let there = flow_of(&socket("10.0.0.1:5000", "10.0.0.2:80"), a, b, false);
        assert_eq!(known(there).as_deref(), Some("5000->80/tcp"));
        let back = flow_of(&socket("[::ffff:10.0.0.2]:80", "[::ffff:10.0.0.1]:5000"), b, a, true);
        assert_eq!(known(back).as_deref(), Some("5000->80/tcp"));
        assert_eq!(flow_of(&socket("10.0.0.1:5000", "10.0.0.3:80"), a, b, false), None);
    }
}
