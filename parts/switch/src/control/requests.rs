//! What a switch can be asked over its socket, and what it answers.
//!
//! JSON: other programs show it as it is. Rules stand in [`crate::rules`]. Absent and `null` differ
//! in [`PortChange`]: the one keeps, the other takes away.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use crate::rules::{Mac, Mirror, PortRules, Vlan};

/// A port by its number or by its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PortKey {
    /// By number.
    Number(u16),
    /// By the name it has or that is reserved for it.
    Name(String),
}

impl From<u16> for PortKey {
    fn from(number: u16) -> PortKey {
        PortKey::Number(number)
    }
}

impl From<&str> for PortKey {
    fn from(name: &str) -> PortKey {
        PortKey::Name(name.to_owned())
    }
}

/// What the switch can be asked. Root and the user it runs as may ask.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[expect(clippy::large_enum_variant, reason = "there is one at a time")]
pub enum Request {
    /// How it is. Answered by [`Answer::Shown`].
    Show,
    /// What its ports have learnt. Answered by [`Answer::Macs`].
    Macs {
        /// The only port to show; the switch itself is 0.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        port: Option<PortKey>,
    },
    /// Changes rules of a port, there or not. Answered by [`Answer::Done`].
    SetPort {
        /// Which.
        port: PortKey,
        /// What.
        change: PortChange,
    },
    /// Sets the VLANs of a port, or takes its rule away. Answered by [`Answer::Done`].
    SetVlan {
        /// Which.
        port: PortKey,
        /// To what; to none when it is `null`.
        vlan: Option<Vlan>,
    },
    /// A new mirror session. Answered by [`Answer::Mirror`].
    AddMirror(Mirror),
    /// Ends a mirror session. Answered by [`Answer::Done`].
    DeleteMirror {
        /// Its number.
        mirror: u16,
    },
    /// Takes a port off the switch. Whoever has it may join again. Answered by [`Answer::Done`].
    Disconnect {
        /// Which.
        port: PortKey,
    },
    /// Ends the switch. Established ports go on. Answered by [`Answer::Done`].
    Stop,
}

/// A change of a port's rules: what is not given stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PortChange {
    /// The name its number is reserved for.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub name: Option<Option<String>>,
    /// The user who may have it.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub uid: Option<Option<u32>>,
    /// The group that may have it.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub gid: Option<Option<u32>>,
    /// The only addresses that may send from it; any when none.
    #[serde(default, with = "lists", skip_serializing_if = "Option::is_none")]
    pub macs: Option<Vec<Mac>>,
    /// Whether others learn from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learn: Option<bool>,
}

impl PortChange {
    pub(crate) fn apply(self, rules: &mut PortRules) {
        if let Some(name) = self.name {
            rules.name = name;
        }
        if let Some(uid) = self.uid {
            rules.uid = uid;
        }
        if let Some(gid) = self.gid {
            rules.gid = gid;
        }
        if let Some(macs) = self.macs {
            rules.macs = macs;
        }
        if let Some(learn) = self.learn {
            rules.learn = learn;
        }
    }
}

/// What is there is given, `null` too.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(from).map(Some)
}

/// A list of addresses or none.
mod lists {
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::rules::{Mac, texts};

    pub(super) fn serialize<S: Serializer>(
        of: &Option<Vec<Mac>>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match of {
            Some(macs) => texts::serialize(macs, to),
            None => to.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Vec<Mac>>, D::Error> {
        #[derive(Deserialize)]
        struct Of(#[serde(with = "texts")] Vec<Mac>);
        Ok(Option::<Of>::deserialize(from)?.map(|of| of.0))
    }
}

/// What the switch answers to what it has done; why it has not is a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// It is done.
    Done,
    /// How the switch is.
    Shown(Box<Shown>),
    /// What ports have learnt.
    Macs(Vec<MacTable>),
    /// The number of the new mirror session.
    Mirror(u16),
}

/// How a switch is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Shown {
    /// Its process, as it sees itself.
    pub pid: u32,
    /// The user it runs as.
    pub uid: u32,
    /// When it was started, in seconds since 1970.
    pub since: u64,
    /// CPU time its process has used, in microseconds.
    pub cpu_us: u64,
    /// Memory of all rings and tables of its ports, in KiB.
    pub memory_kib: u64,
    /// Edges between ports.
    pub edges: usize,
    /// Whether frames are told apart by VLAN: as soon as one port has a rule about them.
    pub vlans: bool,
    /// What the switch itself did with frames that had no edge to go by, by name.
    pub relay: BTreeMap<String, u64>,
    /// Joins since it was started.
    pub joins: u64,
    /// Joins that were refused.
    pub refused: u64,
    /// Clients that were let go because of what they sent, or did not read.
    pub expelled: u64,
    /// Its ports by number; those that only have rules, too.
    pub ports: Vec<PortShown>,
    /// Mirror sessions by number.
    pub mirrors: BTreeMap<u16, Mirror>,
}

/// Whether somebody has a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Presence {
    /// It is there.
    Here,
    /// It was there when an earlier process of this switch ended, and has not come back yet.
    Awaited,
    /// There are only rules for it.
    #[default]
    Free,
}

/// How a port is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct PortShown {
    /// Its number.
    pub number: u16,
    /// The name it has.
    pub name: String,
    /// Whether somebody has it.
    pub presence: Presence,
    /// The process that joined; none when it is not visible from the switch.
    pub pid: Option<i32>,
    /// Its user.
    pub uid: Option<u32>,
    /// When it joined this process of the switch, in seconds since 1970.
    pub since: Option<u64>,
    /// Edges by which it sends to others.
    pub edges_out: usize,
    /// Edges by which others send to it.
    pub edges_in: usize,
    /// Memory of its rings and its table in KiB: those it made, and the switch's ring to it.
    pub memory_kib: u64,
    /// Whether it takes super-frames.
    pub super_frames: bool,
    /// Whether it takes frames with unfinished checksums.
    pub checksums: bool,
    /// What it counts, by name.
    pub counters: BTreeMap<String, u64>,
    /// Its rules.
    pub rules: PortRules,
}

/// What a port has learnt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct MacTable {
    /// The port that learnt; 0 is the switch itself.
    pub port: u16,
    /// What.
    pub entries: Vec<MacEntry>,
}

/// Where a port believes an address to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct MacEntry {
    /// The address.
    #[serde(with = "crate::rules::text")]
    pub mac: Mac,
    /// Its VLAN; 0 when VLANs are not told apart.
    pub vlan: u16,
    /// The port.
    pub port: u16,
    /// Seconds since it was heard of.
    pub age: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_keeps_and_null_takes_away() {
        let mut rules = PortRules { uid: Some(5), gid: Some(6), ..PortRules::default() };
        let change: PortChange = serde_json::from_str(r#"{"uid":null,"learn":false}"#).unwrap();
        change.clone().apply(&mut rules);
        let want = PortRules { gid: Some(6), learn: false, ..PortRules::default() };
        assert_eq!(rules, want);
        let again = serde_json::to_string(&change).unwrap();
        assert_eq!(serde_json::from_str::<PortChange>(&again).unwrap(), change);
    }

    #[test]
    fn ports_go_by_number_or_name() {
        let text = r#"{"disconnect":{"port":7}}"#;
        let seven = Request::Disconnect { port: 7.into() };
        assert_eq!(serde_json::from_str::<Request>(text).unwrap(), seven);
        let text = r#"{"disconnect":{"port":"seven"}}"#;
        let seven = Request::Disconnect { port: "seven".into() };
        assert_eq!(serde_json::from_str::<Request>(text).unwrap(), seven);
        assert!(serde_json::from_str::<Request>(r#"{"set-port":{"port":1}}"#).is_err());
        assert!(serde_json::from_str::<Request>(r#""format""#).is_err());
    }
}
