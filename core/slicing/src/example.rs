//! A packet as an example: shown in an error, and valid to be sent as a test.

use netloom_openflow::matching::VID_PRESENT;
use netloom_openflow::{Field, Oxm, PortNumber};
use netloom_pipeline::FlowKey;

use crate::cube::Cube;

/// A packet: where it comes in, its fields, and a frame that has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    /// The port of arrival, if it matters.
    pub in_port: Option<PortNumber>,
    /// The fields that matter.
    pub fields: Vec<Oxm>,
    /// A frame.
    pub frame: Vec<u8>,
}

/// Ethertypes to choose from; the first is for experiments (IEEE 802).
const ETHERTYPES: [u128; 6] = [0x88b5, 0x0800, 0x86dd, 0x0806, 0x88cc, 0x8847];
/// IP protocols to choose from; the first is for experiments (RFC 3692).
const PROTOCOLS: [u128; 5] = [253, 17, 6, 1, 58];

impl Example {
    /// A packet of a cube.
    pub fn of(cube: &Cube) -> Example {
        let fields: Vec<Oxm> = cube.constrained().map(|field| chosen(cube, field)).collect();
        let port = fields.iter().find(|oxm| oxm.field == Field::InPort);
        let in_port = port.and_then(|oxm| u32::try_from(oxm.value).ok()).map(PortNumber);
        let headers: Vec<Oxm> = fields.iter().copied().filter(|oxm| is_header(oxm.field)).collect();
        let frame = netloom_pipeline::example(&headers);
        Example { in_port, fields: headers, frame }
    }

    /// The key of its frame as a switch reads it.
    pub fn key(&self) -> FlowKey {
        let (_, mut key) = netloom_pipeline::headers::parse(&self.frame);
        if let Some(port) = self.in_port {
            key.set(Field::InPort, u128::from(port.0));
        }
        key
    }
}

fn is_header(field: Field) -> bool {
    !matches!(field, Field::InPort | Field::InPhyPort | Field::Metadata | Field::TunnelId)
}

/// A value of a field that fits.
fn chosen(cube: &Cube, field: Field) -> Oxm {
    let (value, mask) = cube.get(field);
    let fits = |candidate: &&u128| **candidate & mask == value;
    let known: &[u128] = match field {
        _ if mask == field.full() => &[],
        Field::EthType => &ETHERTYPES,
        Field::IpProto => &PROTOCOLS,
        _ => &[],
    };
    let free = field.full() & !mask;
    let value = match (known.iter().find(fits), field) {
        (Some(known), _) => *known,
        // Below 0x600 it would be a length.
        (None, Field::EthType) => value | free,
        // An id needs its tag.
        (None, Field::VlanVid) if value != 0 => value | free & VID_PRESENT,
        (None, _) => value,
    };
    Oxm::exact(field, value)
}

fn mac(value: u128) -> String {
    let bytes = value.to_be_bytes();
    let bytes: Vec<String> = bytes.iter().skip(10).map(|byte| format!("{byte:02x}")).collect();
    bytes.join(":")
}

fn words(oxm: &Oxm) -> String {
    use std::net::{Ipv4Addr, Ipv6Addr};
    let (name, value) = (oxm.field.name(), oxm.value);
    match oxm.field {
        Field::EthDst | Field::EthSrc | Field::ArpSha | Field::ArpTha => {
            format!("{name} {}", mac(value))
        }
        Field::EthType => format!("{name} {value:#06x}"),
        Field::VlanVid if value & VID_PRESENT == 0 => "no VLAN tag".to_owned(),
        Field::VlanVid => format!("VLAN {}", value & 0xfff),
        Field::Ipv4Src | Field::Ipv4Dst | Field::ArpSpa | Field::ArpTpa => {
            format!("{name} {}", Ipv4Addr::from(u32::try_from(value).unwrap_or(0)))
        }
        Field::Ipv6Src | Field::Ipv6Dst | Field::Ipv6NdTarget => {
            format!("{name} {}", Ipv6Addr::from(value))
        }
        _ => format!("{name} {value}"),
    }
}

impl std::fmt::Display for Example {
    /// In words: `a packet at port 1 with VLAN 10, ip_proto 6`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a packet")?;
        if let Some(port) = self.in_port {
            write!(f, " at port {port}")?;
        }
        if self.fields.is_empty() {
            return f.write_str(" of any kind");
        }
        let all: Vec<String> = self.fields.iter().map(words).collect();
        write!(f, " with {}", all.join(", "))
    }
}
