//! OpenFlow switches of a lab: their options as in the file, checked.
//!
//! Tables and flow entries are not part of it: controllers and `netloom flow` make them. Ports are numbered in
//! the plan, see `plan::ports`.

mod controller;
pub(crate) mod keys;
pub(crate) mod read;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use self::controller::{Controller, DEFAULT_PORT};
pub(crate) use self::read::RawOpenflow;
use crate::file::table::KindKeys;

/// The value of the key `kind`.
pub(crate) const WORD: &str = "openflow";

/// Its keys.
pub(crate) const KEYS: KindKeys = KindKeys { kind: WORD, keys: keys::KEYS };

/// Maximum number of ports: what fits into the tables that the fast path has for them.
pub(crate) const MOST_PORTS: usize = 1024;

/// The greatest number of a port: what both versions can tell.
pub(crate) const MOST_NUMBER: u32 = 0xfeff;

/// The default of `tables`, and the greatest number that both versions can tell.
pub(crate) const MOST_TABLES: u8 = 254;

/// The default of `max-entries`, and its maximum.
pub(super) const ENTRIES: u32 = 100_000;
pub(crate) const MOST_ENTRIES: u32 = 1_000_000;

/// Maximum of `auxiliary`.
pub(crate) const MOST_AUXILIARY: u8 = 8;

/// Maximum number of controllers.
pub(crate) const MOST_CONTROLLERS: usize = 16;

/// The options of a switch of kind `openflow`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = PlannedOpenflow))]
pub struct OpenflowSwitch {
    /// Its number for controllers; a plan always has one, from the names of lab and switch by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub datapath: Option<DatapathId>,
    /// Controllers that it connects to.
    #[cfg_attr(feature = "schema", schema(value_type = Vec<String>))]
    pub controllers: Vec<Controller>,
    /// What it does while no controller is connected.
    pub fail: FailMode,
    /// Versions it speaks, the lowest first.
    #[cfg_attr(feature = "schema", schema(value_type = Vec<String>))]
    pub versions: Vec<OpenflowVersion>,
    /// How many tables it has.
    pub tables: u8,
    /// How many entries each of them may have.
    #[serde(alias = "max_entries")]
    pub max_entries: u32,
    /// How many connections it makes to each controller beside the main one.
    #[serde(default, skip_serializing_if = "is_none")]
    pub auxiliary: u8,
    /// What it shows to controllers by TLS, and expects of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsFiles>,
}

/// Whether a number is what a file without it means.
fn is_none(number: &u8) -> bool {
    *number == 0
}

/// Files of the host for TLS, all in PEM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = PlannedTls))]
pub struct TlsFiles {
    /// Certificates of authorities, one of which must have signed a controller's.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub authorities: PathBuf,
    /// The switch's own certificate, and its private key: both or neither.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub certificate: Option<PathBuf>,
    /// That key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub key: Option<PathBuf>,
    /// The name that a controller's certificate must be for; none: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl TlsFiles {
    /// The paths of its files.
    pub fn paths_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        [Some(&mut self.authorities), self.certificate.as_mut(), self.key.as_mut()]
            .into_iter()
            .flatten()
    }
}

impl Default for OpenflowSwitch {
    fn default() -> OpenflowSwitch {
        OpenflowSwitch {
            datapath: None,
            controllers: Vec::new(),
            fail: FailMode::Standalone,
            versions: vec![OpenflowVersion::V10, OpenflowVersion::V13],
            tables: MOST_TABLES,
            max_entries: ENTRIES,
            auxiliary: 0,
            tls: None,
        }
    }
}

impl OpenflowSwitch {
    /// Gives it a datapath id made of this hash, unless the file gives one.
    pub(super) fn fill_in_datapath(&mut self, hash: u64) {
        // 48 bits, as many as an address of Ethernet has.
        self.datapath.get_or_insert(DatapathId((hash & 0xffff_ffff_ffff).max(1)));
    }
}

/// What a switch does while no controller is connected (OpenFlow 1.3.5, section 6.3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = PlannedFailMode))]
pub enum FailMode {
    /// Its tables stay as they are.
    Secure,
    /// It forwards like an ordinary switch, by learnt addresses.
    #[default]
    Standalone,
}

impl FailMode {
    /// The word of the file.
    pub fn word(self) -> &'static str {
        match self {
            FailMode::Secure => "secure",
            FailMode::Standalone => "standalone",
        }
    }
}

/// A version of OpenFlow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum OpenflowVersion {
    /// 1.0.
    #[serde(rename = "1.0")]
    V10,
    /// 1.3.
    #[serde(rename = "1.3")]
    V13,
}

impl OpenflowVersion {
    /// The word of the file.
    pub fn word(self) -> &'static str {
        match self {
            OpenflowVersion::V10 => "1.0",
            OpenflowVersion::V13 => "1.3",
        }
    }
}

/// The number of a switch for controllers; never 0. As text: 16 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DatapathId(u64);

impl DatapathId {
    /// The id of a number; `None` for 0, which no switch has.
    pub fn new(number: u64) -> Option<DatapathId> {
        (number != 0).then_some(DatapathId(number))
    }

    /// Its number.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for DatapathId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A text that is not a datapath id.
#[derive(Debug)]
pub struct NoDatapathId;

impl fmt::Display for NoDatapathId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no datapath id")
    }
}

impl FromStr for DatapathId {
    type Err = NoDatapathId;

    /// `0x2a`, `42`, `000000000000002a` (16 hexadecimal digits) or `00:00:00:00:00:00:00:2a`.
    fn from_str(text: &str) -> Result<DatapathId, NoDatapathId> {
        let parts: Vec<&str> = text.split(':').collect();
        let pairs = parts.len() == 8 && parts.iter().all(|pair| pair.len() == 2);
        let (digits, radix) = match text.strip_prefix("0x") {
            Some(digits) => (digits.to_owned(), 16),
            None if pairs => (parts.concat(), 16),
            // As controllers and Open vSwitch print it: 16 digits are never meant as a decimal
            // number.
            None if text.len() == 16 => (text.to_owned(), 16),
            None => (text.to_owned(), 10),
        };
        // `from_str_radix` takes a sign as well, `+2a`.
        let plain = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let number = u64::from_str_radix(&digits, radix).ok().filter(|_| plain);
        number.and_then(DatapathId::new).ok_or(NoDatapathId)
    }
}

impl TryFrom<String> for DatapathId {
    type Error = NoDatapathId;

    fn try_from(text: String) -> Result<DatapathId, NoDatapathId> {
        text.parse()
    }
}

impl From<DatapathId> for String {
    fn from(id: DatapathId) -> String {
        id.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datapath_ids_in_all_their_forms() {
        let same = ["0x2a", "42", "000000000000002a", "00:00:00:00:00:00:00:2a"];
        assert!(same.iter().all(|text| text.parse::<DatapathId>().unwrap().get() == 42));
        assert_eq!("0xffffffffffffffff".parse::<DatapathId>().unwrap().to_string(), "f".repeat(16));
        for wrong in ["", "0", "0x0", "x", "0x", "+1", "-1", "0x1ffffffffffffffff", "00:2a", "2a"] {
            assert!(wrong.parse::<DatapathId>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn options_are_stored_as_words() {
        let switch = OpenflowSwitch {
            datapath: DatapathId::new(1),
            controllers: vec!["node:c0".parse().unwrap()],
            ..OpenflowSwitch::default()
        };
        let text = serde_json::to_string(&switch).unwrap();
        let expected = r#"{"datapath":"0000000000000001","controllers":["node:c0:6653"],"fail":"standalone","versions":["1.0","1.3"],"tables":254,"max-entries":100000}"#;
        assert_eq!(text, expected);
        assert_eq!(serde_json::from_str::<OpenflowSwitch>(&text).unwrap(), switch);
    }
}
