//! Ports: how they were told, which ones go together, and how controllers see them.
//!
//! Speeds are a guess: virtual links have none.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};

use netloom_netlink::{LinkInfo, LinkWatch, Socket};
use netloom_openflow::port::{Name, PortConfig, PortFeatures, PortState};
use netloom_openflow::{Port, PortNumber};

use crate::control::{PortKey, PortSpec};
use crate::names::Names;
use crate::{Error, Result};

/// The greatest number that controllers of 1.0 can name.
const MOST: u32 = 0xff00 - 1;

/// Longest name of a port.
const MOST_NAME: usize = 255;

/// A port as it was told.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) spec: PortSpec,
    /// Index of its interface; `None` while it is gone.
    pub(crate) index: Option<u32>,
}

/// All ports.
#[derive(Debug)]
pub(crate) struct Ports {
    pub(crate) watch: LinkWatch,
    pub(crate) asker: Socket,
    pub(crate) known: BTreeMap<u32, Known>,
}

impl Ports {
    pub(crate) fn new() -> Result<Ports> {
        let (watch, asker) = (LinkWatch::open()?, Socket::open()?);
        Ok(Ports { watch, asker, known: BTreeMap::new() })
    }

    /// The number of a port.
    pub(crate) fn number(&self, key: &PortKey) -> Result<u32> {
        let found = match key {
            PortKey::Number(number) => self.known.get(number).map(|_| *number),
            PortKey::Name(name) => {
                self.known.iter().find(|(_, port)| port.spec.name == *name).map(|(n, _)| *n)
            }
        };
        found.ok_or_else(|| match key {
            PortKey::Number(number) => Error::refused(format!("port {number}: there is none")),
            PortKey::Name(name) => {
                let shown: String = name.chars().take(MOST_NAME).collect();
                Error::refused(format!("port {shown:?}: there is none"))
            }
        })
    }

    /// Numbers of ports with the indices of their interfaces, of those that `wanted` asks for.
    pub(crate) fn with_links(&self, wanted: impl Fn(u32) -> bool) -> Vec<(u32, u32)> {
        let all = self.known.iter().filter_map(|(number, port)| Some((*number, port.index?)));
        all.filter(|(_, index)| wanted(*index)).collect()
    }

    /// The numbers of all ports by name, for texts.
    pub(crate) fn names(&self) -> Names {
        self.known.iter().map(|(number, port)| (port.spec.name.clone(), *number)).collect()
    }

    /// The name of a port.
    pub(crate) fn name(&self, number: u32) -> String {
        self.known.get(&number).map(|port| port.spec.name.clone()).unwrap_or_default()
    }
}

impl AsFd for Ports {
    /// Readable when links have changed.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }
}

/// Whether a port can be added beside the others.
pub(crate) fn check(spec: &PortSpec, others: &BTreeMap<u32, Known>) -> Result<()> {
    let refuse = |reason: String| {
        let shown: String = spec.name.chars().take(MOST_NAME).collect();
        Err(Error::refused(format!("port {shown:?}: {reason}")))
    };
    if !(1..=MOST).contains(&spec.number) {
        return refuse(format!("its number is {}, not 1 to {MOST}", spec.number));
    }
    if spec.name.is_empty() || spec.name.len() > MOST_NAME || spec.name.contains(['\0', '\n']) {
        return refuse(format!("names have 1 to {MOST_NAME} bytes, without zero and newline"));
    }
    for (number, Known { spec: other, index }) in others {
        if *number == spec.number {
            // A port whose interface is gone may get another.
            if other.interface != spec.interface && index.is_some() {
                return refuse(format!("port {number} has interface {:?}", other.interface));
            }
        } else if other.interface == spec.interface {
            return refuse(format!("interface {:?} is that of port {number}", other.interface));
        } else if other.name == spec.name {
            return refuse(format!("port {number} has this name"));
        }
    }
    Ok(())
}

/// A port as controllers see it.
pub(crate) fn described(spec: &PortSpec, link: &LinkInfo) -> Port {
    let down = !(link.up && link.carrier);
    Port {
        number: PortNumber(spec.number),
        address: spec.mac.or(link.mac).unwrap_or_default(),
        name: Name::new(&spec.name),
        config: PortConfig::default(),
        state: if down { PortState::LINK_DOWN } else { PortState::default() },
        current: PortFeatures::FD_10GB.with(PortFeatures::COPPER),
        advertised: PortFeatures::default(),
        supported: PortFeatures::default(),
        peer: PortFeatures::default(),
        current_speed: 10_000_000,
        max_speed: 0,
    }
}
