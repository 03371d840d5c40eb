//! Ports: their numbers, descriptions, changes (sections 7.2.1, 7.3.4.3, 7.4.3; 1.0.0 sections 5.2.1, 5.3.3, 5.4.3).
//!
//! Numbers and feature bits are those of 1.3. The sixteen bits of 1.0 are mapped one to one: reserved numbers
//! from 0xff00 to the same at 0xffffff00, and feature bits by exchanging the two places they moved between.

use crate::error::EncodeError;
use crate::wire::{Encoded, Reader, Result, Writer};

/// The number of a port.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortNumber(pub u32);

impl PortNumber {
    /// No physical port has a greater number.
    pub const MAX: PortNumber = PortNumber(0xffff_ff00);
    /// The port that the packet came in by.
    pub const IN_PORT: PortNumber = PortNumber(0xffff_fff8);
    /// The flow tables; only for packet-outs.
    pub const TABLE: PortNumber = PortNumber(0xffff_fff9);
    /// Forwarding as a switch without OpenFlow does.
    pub const NORMAL: PortNumber = PortNumber(0xffff_fffa);
    /// All ports but that of arrival and those that do not take part in floods.
    pub const FLOOD: PortNumber = PortNumber(0xffff_fffb);
    /// All ports but that of arrival.
    pub const ALL: PortNumber = PortNumber(0xffff_fffc);
    /// The controllers.
    pub const CONTROLLER: PortNumber = PortNumber(0xffff_fffd);
    /// The switch's own network interface.
    pub const LOCAL: PortNumber = PortNumber(0xffff_fffe);
    /// Any port in requests that select by port; none elsewhere. In 1.0 it is called NONE.
    pub const ANY: PortNumber = PortNumber(0xffff_ffff);

    /// From the number of 1.0.
    pub const fn from_10(number: u16) -> PortNumber {
        // Lossless: u16 to u32.
        let wide = number as u32;
        PortNumber(if number >= 0xff00 { wide | 0xffff_0000 } else { wide })
    }

    /// The number of 1.0, if there is one.
    pub fn to_10(self) -> Option<u16> {
        match self.0 {
            0xffff_ff00.. => u16::try_from(self.0 & 0xffff).ok(),
            number => u16::try_from(number).ok().filter(|number| *number < 0xff00),
        }
    }

    /// Whether it stands for something other than a port with a number.
    pub const fn is_reserved(self) -> bool {
        self.0 > PortNumber::MAX.0
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<PortNumber> {
        Ok(if r.is_10() { PortNumber::from_10(r.u16()?) } else { PortNumber(r.u32()?) })
    }

    /// As a number of 1.0, whatever the version.
    pub(crate) fn write_10(self, w: &mut Writer) -> Encoded {
        let number = self.to_10().ok_or(EncodeError::Value { object: "port number" })?;
        w.u16(number);
        Ok(())
    }

    pub(crate) fn write(self, w: &mut Writer) -> Encoded {
        if w.is_10() {
            return self.write_10(w);
        }
        w.u32(self.0);
        Ok(())
    }
}

impl std::fmt::Debug for PortNumber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl std::fmt::Display for PortNumber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match *self {
            PortNumber::IN_PORT => "IN_PORT",
            PortNumber::TABLE => "TABLE",
            PortNumber::NORMAL => "NORMAL",
            PortNumber::FLOOD => "FLOOD",
            PortNumber::ALL => "ALL",
            PortNumber::CONTROLLER => "CONTROLLER",
            PortNumber::LOCAL => "LOCAL",
            PortNumber::ANY => "ANY",
            PortNumber(number) => return write!(f, "{number}"),
        })
    }
}

flags! {
    /// OFPPC_*: what a controller configured (section 7.2.1).
    PortConfig: u32 {
        /// The port is administratively down.
        PORT_DOWN = 1,
        /// No spanning tree on this port (1.0).
        NO_STP = 1 << 1,
        /// Drop all packets received.
        NO_RECV = 1 << 2,
        /// Drop received spanning tree packets (1.0).
        NO_RECV_STP = 1 << 3,
        /// Not part of floods (1.0).
        NO_FLOOD = 1 << 4,
        /// Drop packets forwarded to it.
        NO_FWD = 1 << 5,
        /// No packet-in for its packets.
        NO_PACKET_IN = 1 << 6,
    }
}

impl PortConfig {
    const NAMES: [(PortConfig, &str); 7] = [
        (PortConfig::PORT_DOWN, "port-down"),
        (PortConfig::NO_STP, "no-stp"),
        (PortConfig::NO_RECV, "no-recv"),
        (PortConfig::NO_RECV_STP, "no-recv-stp"),
        (PortConfig::NO_FLOOD, "no-flood"),
        (PortConfig::NO_FWD, "no-fwd"),
        (PortConfig::NO_PACKET_IN, "no-packet-in"),
    ];

    /// The names of the bits that are set, as `ovs-ofctl mod-port` has them.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        PortConfig::NAMES.into_iter().filter(move |(flag, _)| self.has(*flag)).map(|(_, name)| name)
    }
}

flags! {
    /// OFPPS_*: the state of a port.
    PortState: u32 {
        /// No physical link.
        LINK_DOWN = 1,
        /// Blocked by a protocol outside OpenFlow.
        BLOCKED = 1 << 1,
        /// Live for fast failover groups.
        LIVE = 1 << 2,
    }
}

flags! {
    /// OFPPF_*: speed, duplex and medium, in the bits of 1.3.
    PortFeatures: u32 {
        /// 10 Mb/s half-duplex.
        HD_10MB = 1,
        /// 10 Mb/s full-duplex.
        FD_10MB = 1 << 1,
        /// 100 Mb/s half-duplex.
        HD_100MB = 1 << 2,
        /// 100 Mb/s full-duplex.
        FD_100MB = 1 << 3,
        /// 1 Gb/s half-duplex.
        HD_1GB = 1 << 4,
        /// 1 Gb/s full-duplex.
        FD_1GB = 1 << 5,
        /// 10 Gb/s full-duplex.
        FD_10GB = 1 << 6,
        /// 40 Gb/s full-duplex (1.3).
        FD_40GB = 1 << 7,
        /// 100 Gb/s full-duplex (1.3).
        FD_100GB = 1 << 8,
        /// 1 Tb/s full-duplex (1.3).
        FD_1TB = 1 << 9,
        /// Another speed (1.3).
        OTHER = 1 << 10,
        /// Copper.
        COPPER = 1 << 11,
        /// Fibre.
        FIBER = 1 << 12,
        /// Auto-negotiation.
        AUTONEG = 1 << 13,
        /// Pause.
        PAUSE = 1 << 14,
        /// Asymmetric pause.
        PAUSE_ASYM = 1 << 15,
    }
}

impl PortFeatures {
    /// From the bits of 1.0: five bits from 7 are media, which 1.3 has four places higher.
    pub const fn from_10(bits: u32) -> PortFeatures {
        PortFeatures(bits & !0xff80 | (bits & 0x0f80) << 4 | (bits & 0xf000) >> 5)
    }

    /// The bits of 1.0.
    pub const fn to_10(self) -> u32 {
        self.0 & !0xff80 | (self.0 & 0xf800) >> 4 | (self.0 & 0x0780) << 5
    }

    fn read(r: &mut Reader<'_>) -> Result<PortFeatures> {
        let bits = r.u32()?;
        Ok(if r.is_10() { PortFeatures::from_10(bits) } else { PortFeatures(bits) })
    }

    fn write(self, w: &mut Writer) {
        w.u32(if w.is_10() { self.to_10() } else { self.0 });
    }
}

/// Text in a field of fixed length, as on the wire: what follows the first zero byte is kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Name<const N: usize>(pub [u8; N]);

impl<const N: usize> Name<N> {
    /// From text, cut to leave room for a zero byte.
    pub fn new(text: &str) -> Name<N> {
        let mut name = [0; N];
        for (place, byte) in name.iter_mut().take(N.saturating_sub(1)).zip(text.bytes()) {
            *place = byte;
        }
        Name(name)
    }

    /// The bytes before the first zero.
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(self.0.split(|byte| *byte == 0).next().unwrap_or(&[]))
    }
}

impl<const N: usize> Default for Name<N> {
    fn default() -> Name<N> {
        Name([0; N])
    }
}

impl<const N: usize> std::fmt::Debug for Name<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.text())
    }
}

/// A port (ofp_port, in 1.0 ofp_phy_port).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// Its number.
    pub number: PortNumber,
    /// Its MAC address.
    pub address: [u8; 6],
    /// Its name.
    pub name: Name<16>,
    /// What a controller configured.
    pub config: PortConfig,
    /// Its state.
    pub state: PortState,
    /// What it does now.
    pub current: PortFeatures,
    /// What it advertises.
    pub advertised: PortFeatures,
    /// What it can do.
    pub supported: PortFeatures,
    /// What its peer advertises.
    pub peer: PortFeatures,
    /// Current speed in kb/s; 0 in 1.0, which has none.
    pub current_speed: u32,
    /// Maximum speed in kb/s; 0 in 1.0.
    pub max_speed: u32,
}

impl Port {
    /// A port of which nothing else is known.
    pub fn new(number: PortNumber, address: [u8; 6], name: &str) -> Port {
        Port {
            number,
            address,
            name: Name::new(name),
            config: PortConfig::default(),
            state: PortState::default(),
            current: PortFeatures::default(),
            advertised: PortFeatures::default(),
            supported: PortFeatures::default(),
            peer: PortFeatures::default(),
            current_speed: 0,
            max_speed: 0,
        }
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Port> {
        let number = PortNumber::read(r)?;
        let v10 = r.is_10();
        r.skip(if v10 { 0 } else { 4 })?;
        let address = r.array()?;
        r.skip(if v10 { 0 } else { 2 })?;
        Ok(Port {
            number,
            address,
            name: Name(r.array()?),
            config: PortConfig(r.u32()?),
            state: PortState(r.u32()?),
            current: PortFeatures::read(r)?,
            advertised: PortFeatures::read(r)?,
            supported: PortFeatures::read(r)?,
            peer: PortFeatures::read(r)?,
            current_speed: if v10 { 0 } else { r.u32()? },
            max_speed: if v10 { 0 } else { r.u32()? },
        })
    }

    pub(crate) fn write(&self, w: &mut Writer) -> Encoded {
        self.number.write(w)?;
        let v10 = w.is_10();
        w.zeros(if v10 { 0 } else { 4 });
        w.bytes(&self.address);
        w.zeros(if v10 { 0 } else { 2 });
        w.bytes(&self.name.0);
        w.u32(self.config.0);
        w.u32(self.state.0);
        for features in [self.current, self.advertised, self.supported, self.peer] {
            features.write(w);
        }
        if !v10 {
            w.u32(self.current_speed);
            w.u32(self.max_speed);
        }
        Ok(())
    }
}

numbers! {
    /// OFPPR_*: what happened to a port.
    PortReason: u8 {
        /// It was added.
        Add = 0,
        /// It was removed.
        Delete = 1,
        /// It changed.
        Modify = 2,
    }
}

/// OFPT_PORT_STATUS (section 7.4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortStatus {
    /// What happened.
    pub reason: PortReason,
    /// The port.
    pub port: Port,
}

impl PortStatus {
    pub(crate) fn read(r: &mut Reader<'_>) -> Result<PortStatus> {
        let reason = r.u8()?.into();
        r.skip(7)?;
        Ok(PortStatus { reason, port: Port::read(r)? })
    }

    pub(crate) fn write(&self, w: &mut Writer) -> Encoded {
        w.u8(self.reason.into());
        w.zeros(7);
        self.port.write(w)
    }
}

/// OFPT_PORT_MOD (section 7.3.4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortMod {
    /// The port to change.
    pub port: PortNumber,
    /// Its MAC address, as a check.
    pub address: [u8; 6],
    /// New values of the bits in `mask`.
    pub config: PortConfig,
    /// The bits to change.
    pub mask: PortConfig,
    /// Features to advertise; none: unchanged.
    pub advertise: PortFeatures,
}

impl PortMod {
    pub(crate) fn read(r: &mut Reader<'_>) -> Result<PortMod> {
        let port = PortNumber::read(r)?;
        let v10 = r.is_10();
        r.skip(if v10 { 0 } else { 4 })?;
        let address = r.array()?;
        r.skip(if v10 { 0 } else { 2 })?;
        let config = PortConfig(r.u32()?);
        let mask = PortConfig(r.u32()?);
        let advertise = PortFeatures::read(r)?;
        r.skip(4)?;
        Ok(PortMod { port, address, config, mask, advertise })
    }

    pub(crate) fn write(&self, w: &mut Writer) -> Encoded {
        self.port.write(w)?;
        let v10 = w.is_10();
        w.zeros(if v10 { 0 } else { 4 });
        w.bytes(&self.address);
        w.zeros(if v10 { 0 } else { 2 });
        w.u32(self.config.0);
        w.u32(self.mask.0);
        self.advertise.write(w);
        w.zeros(4);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_1_0_are_mapped_one_to_one() {
        for number in 0..=u16::MAX {
            assert_eq!(PortNumber::from_10(number).to_10(), Some(number));
        }
        assert_eq!(PortNumber::from_10(0xfffd), PortNumber::CONTROLLER);
        assert_eq!(PortNumber(0xff00).to_10(), None);
        assert_eq!(PortNumber(0x1_0000).to_10(), None);
    }

    #[test]
    fn features_of_1_0_are_mapped_one_to_one() {
        for bit in 0..32 {
            assert_eq!(PortFeatures::from_10(1 << bit).to_10(), 1 << bit);
            assert_eq!(PortFeatures::from_10(PortFeatures(1 << bit).to_10()).0, 1 << bit);
        }
        assert_eq!(PortFeatures::from_10(1 << 7), PortFeatures::COPPER);
        assert_eq!(PortFeatures::from_10(1 << 11), PortFeatures::PAUSE_ASYM);
        assert_eq!(PortFeatures::from_10(1 << 6), PortFeatures::FD_10GB);
    }

    #[test]
    fn set_bits_are_named() {
        let config = PortConfig::PORT_DOWN | PortConfig::NO_PACKET_IN | PortConfig(1 << 20);
        assert_eq!(config.names().collect::<Vec<_>>(), ["port-down", "no-packet-in"]);
    }

    #[test]
    fn names_end_at_the_first_zero() {
        assert_eq!(Name::<16>::new("eth0").text(), "eth0");
        assert_eq!(Name::<4>::new("longer").text(), "lon");
        assert_eq!(Name(*b"full").text(), "full");
    }
}
