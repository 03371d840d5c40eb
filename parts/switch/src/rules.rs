//! Rules of a switch: VLANs, locks, owners and names of ports, mirror sessions.
//!
//! Rules have this form in requests, displays and the state file; `netloom_bridge` enforces them. They are
//! checked on input, so that saved rules are always enforceable. Addresses, VLAN sets and filters are texts
//! in the syntax of `netloom_bridge`: `02:00:00:00:00:01`, `1-3,7`, `vlan 7, tcp`.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use netloom_bridge::{MOST_MIRRORS, MacLock, MirrorSession, Mirrors, SwitchRules, VlanMode};
pub use netloom_bridge::{Mac, MirrorFilter, Tpid, Vid, VidSet};
use netloom_shm::protocol::MOST_NAME;

use crate::{Error, Result};

/// Most ports of a switch; numbers are 1 to this.
pub const MOST_PORTS: u16 = netloom_bridge::MOST_PORTS;

/// The VLANs of a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = PortVlan))]
pub enum Vlan {
    /// Untagged frames only, all in this VLAN.
    #[cfg_attr(feature = "schema", schema(value_type = u16))]
    Access(#[serde(with = "number")] Vid),
    /// Tagged frames.
    Trunk {
        /// The VLAN of untagged frames; without one they are dropped.
        #[serde(default, with = "maybe_number", skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schema(value_type = Option<u16>))]
        native: Option<Vid>,
        /// The VLANs allowed with a tag, as `1-3,7`; all by default.
        #[serde(default = "all", with = "text")]
        #[cfg_attr(feature = "schema", schema(value_type = String))]
        allowed: VidSet,
    },
    /// A customer's frames with the tags that they have, all in this VLAN.
    Qinq {
        /// The VLAN: on trunks they have its tag around them.
        #[serde(with = "number")]
        #[cfg_attr(feature = "schema", schema(value_type = u16))]
        vlan: Vid,
        /// The only VLANs that the customer's tags may have, as `1-3,7`; without it all, and frames without a tag.
        #[serde(default, with = "maybe_text", skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
        cvlans: Option<VidSet>,
        /// The type of the tag around: `0x88a8` by default, `0x8100`, `0x9100` or `0x9200`.
        #[serde(default, with = "text")]
        #[cfg_attr(feature = "schema", schema(value_type = String))]
        tpid: Tpid,
    },
}

fn all() -> VidSet {
    VidSet::ALL
}

impl From<&Vlan> for VlanMode {
    fn from(vlan: &Vlan) -> VlanMode {
        match vlan {
            Vlan::Access(vid) => VlanMode::Access(*vid),
            Vlan::Trunk { native, allowed } => {
                VlanMode::Trunk { native: *native, allowed: allowed.clone() }
            }
            Vlan::Qinq { vlan, cvlans, tpid } => {
                VlanMode::Qinq { vid: *vlan, cvlans: cvlans.clone(), tpid: *tpid }
            }
        }
    }
}

/// The rules of one port; an absent one does not restrict it. They belong to its number, whichever port has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PortRules {
    /// Reserved name: a client that joins by it gets this number, and no other client does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Only this user may have the port; root and the switch's owner always may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// Only processes of this group may have the port; combined with `uid`, either suffices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gid: Option<u32>,
    /// Its VLANs. Without any it is an access port of VLAN 1 once another port has a VLAN rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<Vlan>,
    /// The only source addresses allowed on this port; empty allows any. Ports without such a list may not
    /// use these addresses.
    #[serde(default, with = "texts", skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schema(value_type = Vec<String>))]
    pub macs: Vec<Mac>,
    /// Whether others learn addresses from its frames; they do by default.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub learn: bool,
}

fn yes() -> bool {
    true
}

fn is_yes(value: &bool) -> bool {
    *value
}

impl Default for PortRules {
    fn default() -> PortRules {
        PortRules::NONE
    }
}

impl PortRules {
    /// Rules of a port without settings.
    pub const NONE: PortRules =
        PortRules { name: None, uid: None, gid: None, vlan: None, macs: Vec::new(), learn: true };

    fn bridge(&self) -> Result<netloom_bridge::PortRules> {
        let macs = MacLock::new(&self.macs).map_err(|e| Error::refused(e.to_string()))?;
        let vlan = self.vlan.as_ref().map(VlanMode::from).unwrap_or_default();
        Ok(netloom_bridge::PortRules { vlan, macs, learn: self.learn })
    }
}

/// Which frames of a port a mirror session copies, seen from the switch: `in` are those that the port sends, `out`
/// those that it receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = MirrorDirection))]
pub enum Direction {
    /// Frames that the port sends.
    In,
    /// Frames that the port receives.
    Out,
    /// Both.
    Both,
}

/// A source of a mirror session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = MirrorSource))]
pub struct Source {
    /// The port.
    pub port: u16,
    /// The direction of its frames.
    pub direction: Direction,
}

/// A mirror session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = MirrorSession))]
pub struct Mirror {
    /// The port that receives the copies.
    pub to: u16,
    /// The sources.
    pub sources: Vec<Source>,
    /// The frames to copy, as `vlan 7, tcp`; all by default.
    #[serde(default, with = "text")]
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub filter: MirrorFilter,
    /// Whether the session ends when the port that receives the copies leaves; by default it stays.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub temporary: bool,
}

impl Mirror {
    fn bridge(&self) -> MirrorSession {
        let direction = |d| match d {
            Direction::In => netloom_bridge::Direction::In,
            Direction::Out => netloom_bridge::Direction::Out,
            Direction::Both => netloom_bridge::Direction::Both,
        };
        let sources = self.sources.iter().map(|s| (s.port, direction(s.direction))).collect();
        MirrorSession { to: self.to, sources, filter: self.filter }
    }

    fn check(&self) -> Result<()> {
        check_number(self.to)?;
        if self.sources.is_empty() {
            return Err(Error::refused("no source"));
        }
        for source in &self.sources {
            check_number(source.port)?;
            if source.port == self.to {
                return Err(Error::refused(format!("port {} to itself", self.to)));
            }
        }
        Ok(())
    }
}

/// All rules of a switch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
// A rule that is not known must be refused: the switch would not keep it.
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// By port number.
    #[serde(default)]
    pub ports: BTreeMap<u16, PortRules>,
    /// Mirror sessions by their numbers.
    #[serde(default)]
    pub mirrors: BTreeMap<u16, Mirror>,
}

impl Rules {
    /// Refuses invalid rules, naming the object.
    ///
    /// # Errors
    /// [`Error::Refused`].
    pub fn check(&self) -> Result<()> {
        let mut names = BTreeSet::new();
        for (number, port) in &self.ports {
            check_number(*number)?;
            // Made only to see whether it can be enforced.
            port.bridge().map_err(|e| about(format!("port {number}"), e))?;
            let Some(name) = &port.name else { continue };
            check_name(name).map_err(|e| about(format!("port {number}"), e))?;
            if !names.insert(name) {
                return Err(Error::refused(format!("port {number}: another is named {name:?}")));
            }
        }
        if self.mirrors.len() > MOST_MIRRORS {
            return Err(Error::refused(format!("mirrors: at most {MOST_MIRRORS}")));
        }
        for (number, mirror) in &self.mirrors {
            mirror.check().map_err(|e| about(format!("mirror {number}"), e))?;
        }
        Ok(())
    }

    /// The rules in the form that `netloom_bridge` enforces.
    pub(crate) fn bridge(&self) -> Result<(SwitchRules, Mirrors)> {
        let refused = |e: netloom_bridge::Error| Error::refused(e.to_string());
        let ports = self.ports.iter().map(|(number, rules)| Ok((*number, rules.bridge()?)));
        let ports = ports.collect::<Result<Vec<_>>>()?;
        let rules = SwitchRules::of(ports).map_err(refused)?;
        let sessions = self.mirrors.values().map(Mirror::bridge).collect();
        Ok((rules, Mirrors::new(sessions).map_err(refused)?))
    }

    /// The number reserved for a name.
    pub(crate) fn reserved(&self, name: &str) -> Option<u16> {
        let named = |rules: &PortRules| rules.name.as_deref() == Some(name);
        self.ports.iter().find(|(_, rules)| named(rules)).map(|(number, _)| *number)
    }
}

fn about(object: String, error: Error) -> Error {
    match error {
        Error::Refused(reason) => Error::Refused(format!("{object}: {reason}")),
        other => other,
    }
}

/// Refuses an invalid port number.
pub(crate) fn check_number(number: u16) -> Result<()> {
    match number {
        1..=MOST_PORTS => Ok(()),
        _ => Err(Error::refused(format!("port {number}: numbers are 1 to {MOST_PORTS}"))),
    }
}

/// Refuses a name that no port can join by.
pub(crate) fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > MOST_NAME || name.chars().any(char::is_control) {
        let text = format!("name {name:?}: 1 to {MOST_NAME} bytes, no control characters");
        return Err(Error::refused(text));
    }
    Ok(())
}

/// A value with a text form.
pub(crate) mod text {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(crate) fn serialize<T: Display, S: Serializer>(of: &T, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(of)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>, T>(from: D) -> Result<T, D::Error>
    where
        T: FromStr<Err: Display>,
    {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

/// A value with a text form, or none.
mod maybe_text {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<T: Display, S: Serializer>(
        of: &Option<T>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match of {
            Some(of) => to.collect_str(of),
            None => to.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>, T>(from: D) -> Result<Option<T>, D::Error>
    where
        T: FromStr<Err: Display>,
    {
        let text = Option::<String>::deserialize(from)?;
        text.map(|text| text.parse().map_err(D::Error::custom)).transpose()
    }
}

/// A list of values with a text form.
pub(crate) mod texts {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(crate) fn serialize<T: Display, S: Serializer>(of: &[T], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(of.iter().map(T::to_string))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>, T>(from: D) -> Result<Vec<T>, D::Error>
    where
        T: FromStr<Err: Display>,
    {
        let texts = Vec::<String>::deserialize(from)?;
        texts.iter().map(|text| text.parse().map_err(D::Error::custom)).collect()
    }
}

/// A VLAN.
mod number {
    use netloom_bridge::Vid;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(of: &Vid, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u16(of.number())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vid, D::Error> {
        let number = u16::deserialize(from)?;
        let none = || D::Error::custom(format!("VLAN {number}: numbers are 1 to {}", Vid::MAX));
        Vid::new(number).ok_or_else(none)
    }
}

/// A VLAN, or none.
mod maybe_number {
    use netloom_bridge::Vid;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(of: &Option<Vid>, to: S) -> Result<S::Ok, S::Error> {
        match of {
            Some(vid) => super::number::serialize(vid, to),
            None => to.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vid>, D::Error> {
        #[derive(Deserialize)]
        struct Of(#[serde(with = "super::number")] Vid);
        Ok(Option::<Of>::deserialize(from)?.map(|of| of.0))
    }
}

#[cfg(test)]
mod tests;
