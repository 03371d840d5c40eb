//! Requests to a switch over its socket, and its answers.
//!
//! They are JSON that other programs show unchanged. Rules are in [`crate::rules`]. In [`PortChange`], absent
//! and `null` differ: an absent key keeps the rule, `null` removes it.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use crate::rules::{Mac, Mirror, PortRules, Vlan};

/// A port by its number or by its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum PortKey {
    /// By number.
    Number(u16),
    /// By its name, or the name reserved for it.
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

/// Request to a shared-memory switch.
///
/// Root and the user it runs as may send requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[expect(clippy::large_enum_variant, reason = "there is one at a time")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = SwitchRequest))]
pub enum Request {
    /// State of the switch. Answered by `shown`.
    Show,
    /// Learned addresses of its ports. Answered by `macs`.
    Macs {
        /// The only port to show; the switch itself is 0.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        port: Option<PortKey>,
    },
    /// Changes rules of a port, occupied or not. Answered by `done`.
    #[serde(alias = "set_port")]
    SetPort {
        /// The port.
        port: PortKey,
        /// The change.
        change: PortChange,
    },
    /// Sets the VLANs of a port, or removes its rule. Answered by `done`.
    #[serde(alias = "set_vlan")]
    SetVlan {
        /// The port.
        port: PortKey,
        /// The VLANs; `null` removes the rule.
        vlan: Option<Vlan>,
    },
    /// Starts a mirror session. Answered by `mirror`.
    #[serde(alias = "add_mirror")]
    AddMirror(Mirror),
    /// Ends a mirror session. Answered by `done`.
    #[serde(alias = "delete_mirror")]
    DeleteMirror {
        /// Its number.
        mirror: u16,
    },
    /// Disconnects a port from the switch. Its owner may join again. Answered by `done`.
    Disconnect {
        /// The port.
        port: PortKey,
    },
    /// Ends the switch's process; established edges between ports continue. Answered by `done`. A lab does not pass
    /// it on: it refuses, since its switches end with it or when they are deleted.
    Stop,
}

/// A change of a port's rules: absent ones stay, `null` removes one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PortChange {
    /// The name its number is reserved for.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub name: Option<Option<String>>,
    /// The user that may have it.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<u32>))]
    pub uid: Option<Option<u32>>,
    /// The group that may have it.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<u32>))]
    pub gid: Option<Option<u32>>,
    /// The only source addresses it may send from, as `02:00:00:00:00:01`; none or `null` allows any.
    #[serde(default, with = "lists", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Vec<String>>))]
    pub macs: Option<Vec<Mac>>,
    /// Whether others learn addresses from its frames.
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

/// A present key is given, even if `null`.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(from).map(Some)
}

/// A list of addresses, or `null`.
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

/// A switch's answer to a request that it carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = SwitchAnswer))]
pub enum Answer {
    /// Done.
    Done,
    /// State of the switch.
    Shown(Box<Shown>),
    /// Learned addresses of ports.
    Macs(Vec<MacTable>),
    /// The number of the new mirror session.
    Mirror(u16),
}

/// State of a shared-memory switch. Counters are totals since its process was started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = SwitchShown))]
pub struct Shown {
    /// Its pid, in its own PID namespace.
    pub pid: u32,
    /// The user it runs as.
    pub uid: u32,
    /// When it was started, in seconds since 1970.
    pub since: u64,
    /// CPU time of its process, in microseconds.
    #[serde(alias = "cpu_us")]
    pub cpu_us: u64,
    /// Memory of all rings and tables of its ports, in KiB.
    #[serde(alias = "memory_kib")]
    pub memory_kib: u64,
    /// Edges between ports.
    pub edges: usize,
    /// Whether VLANs are separated: as soon as one port has a VLAN rule.
    pub vlans: bool,
    /// The switch's own counters, by name: frames that it relayed because no edge carried them.
    #[serde(with = "netloom_form::words")]
    pub relay: BTreeMap<String, u64>,
    /// Joins since its start.
    pub joins: u64,
    /// Joins refused since its start.
    pub refused: u64,
    /// Clients dropped because of invalid data or unread messages.
    pub expelled: u64,
    /// Its ports by number, including those that only have rules.
    pub ports: Vec<PortShown>,
    /// Mirror sessions by number.
    pub mirrors: BTreeMap<u16, Mirror>,
}

/// Whether a port is occupied: `here`; `awaited`, it was connected when an earlier process of this switch ended, and has
/// not come back yet; `free`, only its rules exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum Presence {
    /// It is connected.
    Here,
    /// It was connected when an earlier process of this switch ended, and has not come back yet.
    Awaited,
    /// Only its rules exist.
    #[default]
    Free,
}

/// State of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = SwitchPort))]
pub struct PortShown {
    /// Its number.
    pub number: u16,
    /// Its name.
    pub name: String,
    /// Whether it is occupied.
    pub presence: Presence,
    /// The process that joined; absent if the switch cannot see it.
    pub pid: Option<i32>,
    /// Its user.
    pub uid: Option<u32>,
    /// When it joined this process of the switch, in seconds since 1970.
    pub since: Option<u64>,
    /// Edges on which it sends.
    #[serde(alias = "edges_out")]
    pub edges_out: usize,
    /// Edges on which it receives.
    #[serde(alias = "edges_in")]
    pub edges_in: usize,
    /// Memory of its rings and its table in KiB: those it made, and the switch's ring to it.
    #[serde(alias = "memory_kib")]
    pub memory_kib: u64,
    /// Whether it accepts super-frames.
    #[serde(alias = "super_frames")]
    pub super_frames: bool,
    /// Whether it accepts frames with partial checksums.
    pub checksums: bool,
    /// Its counters, by name: `received_frames`, `sent_bytes`, `dropped_stalled` and others.
    #[serde(with = "netloom_form::words")]
    pub counters: BTreeMap<String, u64>,
    /// Its rules.
    pub rules: PortRules,
}

/// Learned addresses of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct MacTable {
    /// The port that learned them; 0 is the switch itself.
    pub port: u16,
    /// The addresses.
    pub entries: Vec<MacEntry>,
}

/// A learned address and its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct MacEntry {
    /// The address, as `02:00:00:00:00:01`.
    #[serde(with = "crate::rules::text")]
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub mac: Mac,
    /// Its VLAN; 0 when VLANs are not separated.
    pub vlan: u16,
    /// The port.
    pub port: u16,
    /// Seconds since its last frame.
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
