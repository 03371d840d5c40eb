//! What a lab costs on its hosts, line by line, each with its formula and where that is from.

use netloom_model::hosts::Hosts;
use netloom_model::plan::Plan;

use crate::account::{Account, Cost, HostAccount, is_ipv6, number};
use crate::demand::{NODE_BYTES, PAIR_BYTES};
use crate::underlay::{ETHERNET, IPV4, IPV6, UDP, VXLAN, carried};

/// How many numbers links have.
const NUMBERS: u64 = (1 << 24) - 2;

/// What a lab costs on its hosts; `file_bytes` is the length of the lab file.
pub fn costs(plan: &Plan, hosts: &Hosts, account: &Account, file_bytes: u64) -> Vec<Cost> {
    let mut all: Vec<Cost> = account.hosts.iter().flat_map(of_host).collect();
    let count = number(hosts.list.len());
    all.push(line(
        "messages to bring it up",
        (4 * count + 2, "messages"),
        format!("4 x {count} hosts: its part, prepared, go, ready; 2 of the claim"),
        "the exchange of ADR 0116",
    ));
    all.push(line(
        "the lab file to all hosts",
        (file_bytes * count, "bytes"),
        format!("{file_bytes} bytes x {count} hosts"),
        "each host makes the same plan of the file (ADR 0109)",
    ));
    all.push(line(
        "numbers of links",
        (number(plan.links.len()), "numbers"),
        format!("{} links, of {NUMBERS} numbers", plan.links.len()),
        "24 bits of a VNI (RFC 7348, section 5)",
    ));
    let mut mtus: Vec<(u32, u32)> =
        account.across.iter().map(|link| (link.mtu, link.underlay_mtu)).collect();
    mtus.sort_unstable();
    mtus.dedup();
    all.extend(mtus.into_iter().map(|mtus| packet(mtus, is_ipv6(hosts))));
    all
}

fn line(what: &str, (value, unit): (u64, &str), formula: String, source: &str) -> Cost {
    Cost { what: what.to_owned(), value, unit: unit.to_owned(), formula, source: source.to_owned() }
}

fn of_host(host: &HostAccount) -> [Cost; 2] {
    let pairs = host.links + host.across;
    let own = NODE_BYTES * number(host.nodes) + PAIR_BYTES * number(pairs);
    let limits = host.memory.saturating_sub(own);
    [
        line(
            &format!("memory of {}", host.name),
            (host.memory, "bytes"),
            format!(
                "{limits} of limits and guests + {} nodes x {NODE_BYTES} + {pairs} links x {PAIR_BYTES}",
                host.nodes
            ),
            "limits of the lab file; node_kib of SPECIFICATION.md; veth pairs, measured",
        ),
        line(
            &format!("CPU of {}", host.name),
            (host.cpu_milli, "CPU/1000"),
            "limits, and processors of guests without one".to_owned(),
            "limits of the lab file",
        ),
    ]
}

/// A packet of a link's whole MTU.
fn packet((mtu, underlay_mtu): (u32, u32), is_ipv6: bool) -> Cost {
    let found = carried(mtu, underlay_mtu, is_ipv6);
    let ip = if is_ipv6 { IPV6 } else { IPV4 };
    let fragments = match found.packets {
        1 => String::new(),
        packets => {
            format!(", in {packets} fragments of at most {underlay_mtu} with an IP header each")
        }
    };
    let source = match (found.packets, is_ipv6) {
        (1, _) => "RFC 7348, section 5",
        (_, false) => "RFC 7348, section 5; RFC 791, section 3.2",
        (_, true) => "RFC 7348, section 5; RFC 8200, section 4.5",
    };
    line(
        &format!("a packet of {mtu} bytes on an underlay with MTU {underlay_mtu}"),
        (found.bytes, "bytes"),
        format!("{mtu} + Ethernet {ETHERNET} + VXLAN {VXLAN} + UDP {UDP} + IP {ip}{fragments}"),
        source,
    )
}
