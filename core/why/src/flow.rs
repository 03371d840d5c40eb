//! A flow: who sends what to whom.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use crate::nft::evaluate::Packet;

/// Where a packet can be seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The node; `None` for the ports of switches, which are in the lab's core.
    pub node: Option<String>,
    /// The interface there.
    pub interface: String,
    /// Whether packets leave there.
    pub out: bool,
    /// In the lab's words: `h1:eth0`, `s1/h1:eth0`.
    pub name: String,
}

/// What a flow's packets are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = WhyProtocol))]
pub enum Protocol {
    /// Echo requests.
    #[default]
    Icmp,
    /// A TCP connection.
    Tcp,
    /// UDP datagrams.
    Udp,
}

impl Protocol {
    /// Its name, in small letters.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Icmp => "icmp",
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
        }
    }

    /// Its number in an IP header.
    pub fn number(self, ipv4: bool) -> u8 {
        match (self, ipv4) {
            (Protocol::Icmp, true) => 1,
            (Protocol::Icmp, false) => 58,
            (Protocol::Tcp, _) => 6,
            (Protocol::Udp, _) => 17,
        }
    }
}

/// One end of a flow has an address of IPv4, the other one of IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MixedFamilies {
    /// The sender's address.
    pub source: IpAddr,
    /// The receiver's address.
    pub destination: IpAddr,
}

impl std::fmt::Display for MixedFamilies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { source, destination } = self;
        write!(
            f,
            "{source} and {destination} are of two families; both must be of IPv4, or both of IPv6"
        )
    }
}

impl std::error::Error for MixedFamilies {}

/// A flow in one direction.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Flow {
    /// The node that sends.
    pub from: String,
    /// The node that is to receive.
    pub to: String,
    /// The sender's address.
    pub source: IpAddr,
    /// The receiver's address.
    pub destination: IpAddr,
    /// What is sent.
    pub protocol: Protocol,
    /// Ports of sender and receiver; 0 for echo requests.
    pub ports: [u16; 2],
    /// Whether it is the answer to another.
    pub answers: bool,
}

impl Flow {
    /// A flow from the first of these nodes, with its address, to the second.
    ///
    /// # Errors
    /// The addresses are of two families.
    pub fn new(
        [(from, source), (to, destination)]: [(&str, IpAddr); 2],
        protocol: Protocol,
        ports: [u16; 2],
    ) -> Result<Flow, MixedFamilies> {
        if source.is_ipv4() != destination.is_ipv4() {
            return Err(MixedFamilies { source, destination });
        }
        let (from, to) = (from.to_owned(), to.to_owned());
        Ok(Flow { from, to, source, destination, protocol, ports, answers: false })
    }

    /// The flow of the answers.
    #[must_use]
    pub fn back(&self) -> Flow {
        Flow {
            from: self.to.clone(),
            to: self.from.clone(),
            source: self.destination,
            destination: self.source,
            protocol: self.protocol,
            ports: [self.ports[1], self.ports[0]],
            answers: !self.answers,
        }
    }

    /// Its addresses and ports: `10.0.0.2:49152 -> 192.0.2.1:80`.
    pub(crate) fn words(&self) -> String {
        let end = |address: IpAddr, port: u16| match self.protocol {
            Protocol::Icmp => address.to_string(),
            _ => SocketAddr::new(address, port).to_string(),
        };
        format!("{} -> {}", end(self.source, self.ports[0]), end(self.destination, self.ports[1]))
    }

    /// Its first packet, as rules compare it.
    pub fn packet(&self) -> Packet {
        let ipv4 = self.destination.is_ipv4();
        let protocol = self.protocol.number(ipv4);
        Packet {
            ipv4,
            protocol,
            input: None,
            output: None,
            network: self.network(protocol),
            transport: self.transport(ipv4),
            answers: Some(self.answers),
            arp: false,
        }
    }

    /// Its first packet as a frame, with zeros where no rule looks.
    pub fn frame(&self, from: [u8; 6], to: [u8; 6]) -> Vec<u8> {
        let packet = self.packet();
        let kind: [u8; 2] = if packet.ipv4 { [0x08, 0x00] } else { [0x86, 0xdd] };
        let known = |header: &[Option<u8>]| -> Vec<u8> {
            header.iter().map(|byte| byte.unwrap_or(0)).collect()
        };
        let (mut network, mut transport) = (known(&packet.network), known(&packet.transport));
        if self.protocol == Protocol::Tcp {
            // Five words: a header without options.
            transport[12] = 5 << 4;
        }
        let length = |bytes: usize| u16::try_from(bytes).unwrap_or(u16::MAX).to_be_bytes();
        if packet.ipv4 {
            network[2..4].copy_from_slice(&length(20 + transport.len()));
            network[8] = 64;
        } else {
            network[0] = 6 << 4;
            network[4..6].copy_from_slice(&length(transport.len()));
            network[7] = 64;
        }
        [&to[..], &from, &kind, &network, &transport].concat()
    }

    /// RFC 791 section 3.1, RFC 8200 section 3.
    fn network(&self, protocol: u8) -> Vec<Option<u8>> {
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let mut header = vec![None; 20];
                put(&mut header, 0, &[0x45]);
                put(&mut header, 9, &[protocol]);
                put(&mut header, 12, &source.octets());
                put(&mut header, 16, &destination.octets());
                header
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let mut header = vec![None; 40];
                put(&mut header, 6, &[protocol]);
                put(&mut header, 8, &source.octets());
                put(&mut header, 24, &destination.octets());
                header
            }
            _ => vec![],
        }
    }

    /// RFC 9293 section 3.1, RFC 768, RFC 792 and RFC 4443 section 4.
    fn transport(&self, ipv4: bool) -> Vec<Option<u8>> {
        let mut header = vec![None; 20];
        if self.protocol == Protocol::Icmp {
            let kind = match (ipv4, self.answers) {
                (true, false) => 8,
                (true, true) => 0,
                (false, false) => 128,
                (false, true) => 129,
            };
            put(&mut header, 0, &[kind, 0]);
            return header;
        }
        put(&mut header, 0, &self.ports[0].to_be_bytes());
        put(&mut header, 2, &self.ports[1].to_be_bytes());
        if self.protocol == Protocol::Tcp {
            // SYN, or SYN and ACK.
            put(&mut header, 13, &[if self.answers { 0x12 } else { 0x02 }]);
        }
        header
    }
}

/// Where packets get other addresses or ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Translation {
    /// The node that does it.
    pub node: String,
    /// How many places packets have passed before.
    pub at: usize,
    /// What packets were.
    pub before: Flow,
    /// What they are from there on.
    pub after: Flow,
    /// The rule; `None` for answers, which connection tracking translates.
    pub rule: Option<String>,
}

fn put(header: &mut [Option<u8>], at: usize, bytes: &[u8]) {
    for (place, byte) in header.iter_mut().skip(at).zip(bytes) {
        *place = Some(*byte);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_of_two_families_is_refused() {
        let (four, six) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1_u16]));
        for (source, destination) in [(four, six), (six, four)] {
            let ends = [("a", source), ("b", destination)];
            let error = Flow::new(ends, Protocol::Udp, [5000, 53]).unwrap_err();
            assert!(error.to_string().contains("10.0.0.1"), "{error}");
        }
        for (one, length) in [(four, 14 + 20 + 20), (six, 14 + 40 + 20)] {
            let flow = Flow::new([("a", one), ("b", one)], Protocol::Tcp, [5000, 80]).unwrap();
            assert_eq!(flow.frame([2; 6], [4; 6]).len(), length);
        }
    }
}
