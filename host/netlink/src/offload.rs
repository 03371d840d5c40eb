//! Interface features by their raw names in `ethtool -k`: `rx-gro`, `rx-udp-gro-forwarding`,
//! `tx-tcp-segmentation`, ….
//!
//! Everything concerns interfaces of the network namespace in which the calling thread opened
//! [`Offloads`]. A change succeeds only if the interface then has the feature: the kernel silently ignores
//! what a driver does not support. Specification: ethtool-netlink.rst, `linux/ethtool_netlink.h`.

use std::collections::BTreeSet;

use crate::batch::sealed::Encode;
use crate::batch::{Batch, Purpose, Request};
use crate::decode::{Message, attributes, string};
use crate::encode::Encoder;
use crate::error::{Error, Result};
use crate::generic::{self, Family, body, object};
use crate::link::LinkRef;
use crate::uapi::{NLA_F_NESTED, REQUEST};

const GET: u8 = 11;
const SET: u8 = 12;
const FEATURES_HEADER: u16 = 1;
const WANTED: u16 = 3;
const ACTIVE: u16 = 4;
const DEVICE_INDEX: u16 = 1;
const DEVICE_NAME: u16 = 2;
const BITS: u16 = 3;
const BIT: u16 = 1;
const BIT_NAME: u16 = 2;
const BIT_VALUE: u16 = 3;

/// A socket to read and set features.
#[derive(Debug)]
pub struct Offloads(Family);

impl Offloads {
    /// Opens it in the network namespace of the calling thread.
    ///
    /// # Errors
    /// [`Error::Unsupported`] before Linux 5.6 or without ethtool netlink.
    pub fn open() -> Result<Self> {
        let missing = std::io::Error::from_raw_os_error(libc::ENOENT);
        let needs = "Linux 5.6 with ETHTOOL_NETLINK";
        let unsupported = || Error::unsupported("interface features by name", &missing, needs);
        Family::find("ethtool")?.map(Self).ok_or_else(unsupported)
    }

    /// The names of an interface's active features.
    ///
    /// # Errors
    /// [`Error::Refused`] with `ENODEV` if there is no such interface; [`Error::Failed`].
    pub fn active<'a>(&mut self, link: impl Into<LinkRef<'a>>) -> Result<BTreeSet<String>> {
        let link = link.into();
        let mut question = generic::message(self.0.number, GET, REQUEST, |e| device(e, link));
        let about = (object(link), "read features");
        let found = self.0.socket.ask(&mut question, (&about.0, about.1), &[], read_active)?;
        found.ok_or(Error::Answer { object: about.0, operation: about.1 })
    }

    /// Turns features on and off in one change. Features already in the wanted state are accepted.
    ///
    /// # Errors
    /// [`Error::Refused`]: with the kernel's words for an unknown name; with `EOPNOTSUPP` and the
    /// names if the interface does not support some; the others are then set.
    pub fn set<'a>(
        &mut self,
        link: impl Into<LinkRef<'a>>,
        features: &[(&str, bool)],
    ) -> Result<()> {
        let link = link.into();
        let mut batch = Batch::new();
        batch.push(object(link), &SetFeatures { family: self.0.number, link, features });
        self.0.socket.run(&mut batch)?;
        // The kernel's answer to the request does not tell what the driver left as it was.
        let active = self.active(link)?;
        let kept = features.iter().filter(|(name, on)| active.contains(*name) != *on);
        let kept: Vec<_> = kept.map(|(name, on)| format!("{name} stays {}", word(!on))).collect();
        if kept.is_empty() {
            return Ok(());
        }
        let why = kept.join(", ");
        Err(generic::refused(object(link), "set features", libc::EOPNOTSUPP, why))
    }
}

fn word(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

struct SetFeatures<'a> {
    family: u16,
    link: LinkRef<'a>,
    features: &'a [(&'a str, bool)],
}

impl Encode for SetFeatures<'_> {
    fn encode(&self, bytes: &mut Vec<u8>) {
        let message = generic::message(self.family, SET, REQUEST, |encoder| {
            device(encoder, self.link);
            encoder.marked_nest(WANTED, |encoder| {
                encoder.marked_nest(BITS, |encoder| {
                    for (name, on) in self.features {
                        encoder.marked_nest(BIT, |encoder| {
                            encoder.string(BIT_NAME, name);
                            // A flag without content: its presence means on.
                            if *on {
                                encoder.attribute(BIT_VALUE, &[]);
                            }
                        });
                    }
                });
            });
        });
        bytes.extend(message);
    }
}

impl Request for SetFeatures<'_> {
    fn operation(&self) -> &'static str {
        "set features"
    }
    fn purpose(&self) -> Purpose {
        Purpose::Touch
    }
}

fn device(encoder: &mut Encoder<'_>, link: LinkRef<'_>) {
    encoder.nest(FEATURES_HEADER | NLA_F_NESTED, |encoder| match link {
        LinkRef::Index(index) => encoder.u32(DEVICE_INDEX, index),
        LinkRef::Name(name) => encoder.string(DEVICE_NAME, name),
    });
}

/// The names in the bit set of active features, which lists only active ones.
fn read_active(message: &Message<'_>) -> Option<BTreeSet<String>> {
    let (_, set) = body(message).find(|(kind, _)| *kind == ACTIVE)?;
    let (_, bits) = attributes(set).find(|(kind, _)| *kind == BITS)?;
    let name = |bit| attributes(bit).find(|(kind, _)| *kind == BIT_NAME).map(|(_, v)| string(v));
    Some(attributes(bits).filter_map(|(_, bit)| name(bit)).collect())
}
