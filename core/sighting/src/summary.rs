//! A frame in a line of text.

use netloom_packet::headers::{Headers, TCP, UDP};

use crate::flow::Flow;

/// What a frame is: addresses, protocol, ports, flags of TCP; without its length.
pub fn summary(frame: &[u8]) -> String {
    let headers = match Headers::parse(frame) {
        Ok(headers) => headers,
        Err(error) => return format!("unreadable: {error}"),
    };
    if let (Some(flow), Some(ip)) = (Flow::read(frame, &headers), headers.ip) {
        let transport = frame.get(ip.transport..ip.end).unwrap_or_default();
        let name = protocol(flow.protocol, transport);
        let end = |address: std::net::IpAddr, port: Option<u16>| match port {
            Some(port) if address.is_ipv6() => format!("[{address}]:{port}"),
            Some(port) => format!("{address}:{port}"),
            None => address.to_string(),
        };
        let (one, other) = flow.ports.unzip();
        return format!("{} > {} {name}", end(flow.from, one), end(flow.to, other));
    }
    match headers.ethertype {
        0x0806 => arp(frame.get(headers.network..)),
        ethertype => format!("ethertype {ethertype:#06x}"),
    }
}

fn protocol(number: u8, transport: &[u8]) -> String {
    match number {
        TCP => format!("tcp {}", flags(transport.get(13).copied().unwrap_or(0))),
        UDP => "udp".to_owned(),
        1 => format!(
            "icmp {}",
            icmp(
                transport,
                [(8, "echo request"), (0, "echo reply"), (3, "unreachable"), (11, "time exceeded")]
            )
        ),
        58 => format!(
            "icmp6 {}",
            icmp(
                transport,
                [
                    (128, "echo request"),
                    (129, "echo reply"),
                    (1, "unreachable"),
                    (135, "neighbour solicitation")
                ]
            )
        ),
        other => format!("protocol {other}"),
    }
}

fn icmp(transport: &[u8], names: [(u8, &str); 4]) -> String {
    let kind = transport.first().copied().unwrap_or(255);
    let known = names.iter().find(|(number, _)| *number == kind);
    known.map_or_else(|| format!("type {kind}"), |(_, name)| (*name).to_owned())
}

/// Flags of TCP in their order of RFC 9293, without ECN's.
fn flags(bits: u8) -> String {
    let names = ["fin", "syn", "rst", "psh", "ack", "urg"];
    let set = names.iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1);
    let words: Vec<&str> = set.map(|(_, name)| *name).collect();
    if words.is_empty() { "without flags".to_owned() } else { words.join(",") }
}

fn arp(packet: Option<&[u8]>) -> String {
    let address = |at: usize| {
        let octets = packet?.get(at..)?.first_chunk::<4>()?;
        Some(std::net::Ipv4Addr::from(*octets))
    };
    let request = packet.and_then(|p| p.get(7)) == Some(&1);
    match (address(14), address(24)) {
        (Some(from), Some(to)) if request => format!("arp {from} asks for {to}"),
        (Some(from), Some(to)) => format!("arp {from} answers {to}"),
        _ => "arp, cut".to_owned(),
    }
}
