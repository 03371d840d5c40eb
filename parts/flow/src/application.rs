//! What a switch is told at its start, and what it may be told again over its control socket.
//!
//! Everything here goes between processes as JSON. Targets have the syntax of `ovs-vsctl set-controller`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The port of OpenFlow (IANA), where a target names none.
pub const OPENFLOW_PORT: u16 = 6653;

/// What a switch is told at its start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Application {
    /// Its name, for controllers and for people.
    pub name: String,
    /// Its number for controllers.
    pub datapath: u64,
    /// The versions of OpenFlow that it speaks; none: all.
    #[serde(default)]
    pub versions: Vec<Version>,
    /// How many tables it has, 1 to 254.
    #[serde(default = "Application::tables")]
    pub tables: u8,
    /// How many entries a table can have.
    #[serde(default = "Application::max_entries")]
    pub max_entries: u32,
    /// What happens while no controller is connected.
    #[serde(default)]
    pub fail: Fail,
    /// The UNIX socket that speaks OpenFlow; made with mode 0600.
    pub openflow: PathBuf,
    /// The file with what a later process of the switch must know; beside it are others that begin with its name.
    pub state: PathBuf,
    /// Which data plane is wanted.
    #[serde(default)]
    pub plane: PlaneChoice,
    /// The controllers that it begins with; [`crate::control::Request::SetControllers`] replaces them.
    #[serde(default)]
    pub controllers: Vec<Controller>,
    /// How many connections are made to each controller beside the main one, in OpenFlow 1.3.
    #[serde(default)]
    pub auxiliary: u8,
    /// How controllers are reached by TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// Seconds of silence after which a controller is asked for an echo; as many later it is given up.
    #[serde(default = "Application::probe")]
    pub probe: u16,
}

impl Application {
    /// A switch with everything that has a default, whose socket and state are in this folder.
    pub fn new(name: &str, datapath: u64, folder: &std::path::Path) -> Application {
        Application {
            name: name.to_owned(),
            datapath,
            versions: vec![],
            tables: Application::tables(),
            max_entries: Application::max_entries(),
            fail: Fail::default(),
            openflow: folder.join("openflow"),
            state: folder.join("state"),
            plane: PlaneChoice::default(),
            controllers: vec![],
            auxiliary: 0,
            tls: None,
            probe: Application::probe(),
        }
    }

    const fn tables() -> u8 {
        254
    }

    const fn max_entries() -> u32 {
        1_000_000
    }

    const fn probe() -> u16 {
        5
    }
}

/// A version of OpenFlow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = FlowVersion))]
pub enum Version {
    /// OpenFlow 1.0.
    #[serde(rename = "1.0")]
    V10,
    /// OpenFlow 1.3.
    #[serde(rename = "1.3")]
    V13,
}

impl From<Version> for netloom_openflow::Version {
    fn from(version: Version) -> netloom_openflow::Version {
        match version {
            Version::V10 => netloom_openflow::Version::V10,
            Version::V13 => netloom_openflow::Version::V13,
        }
    }
}

impl From<netloom_openflow::Version> for Version {
    fn from(version: netloom_openflow::Version) -> Version {
        match version {
            netloom_openflow::Version::V10 => Version::V10,
            netloom_openflow::Version::V13 => Version::V13,
        }
    }
}

/// What happens to packets while no controller is connected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = FlowFail))]
pub enum Fail {
    /// The tables go on; what would go to controllers is dropped.
    Secure,
    /// It forwards as a learning switch.
    #[default]
    Standalone,
}

/// Which data plane a switch uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlaneChoice {
    /// The fastest that the machine has.
    #[default]
    Fastest,
    /// Packet sockets: every frame goes through the tables themselves.
    Packets,
}

/// A controller, or a place where controllers may connect.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Controller {
    /// Where it is, such as `tcp:10.0.0.5:6653`.
    #[serde(with = "text")]
    pub target: Target,
    /// The network namespace to reach it from, by the name that it has been given with
    /// [`crate::control::Request::SetNamespace`]; none: that of the switch's process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// Files for TLS, all in PEM. They are read when the setting is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Tls {
    /// Certificates of authorities: a controller must show one that one of them signed.
    pub authorities: PathBuf,
    /// The switch's own certificate, followed by those between it and its authority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<PathBuf>,
    /// Its private key, which nobody but its owner may read or write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// The host name or address that a controller's certificate must be for; none: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Where a controller is, or connects to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Target {
    /// `tcp:ADDRESS[:PORT]`: the switch connects.
    Tcp(SocketAddr),
    /// `tls:ADDRESS[:PORT]`, also `ssl:`: the switch connects, with TLS.
    Tls(SocketAddr),
    /// `unix:PATH`: the switch connects.
    Unix(PathBuf),
    /// `ptcp:[PORT][:ADDRESS]`: the switch listens.
    Listen(SocketAddr),
    /// `ptls:[PORT][:ADDRESS]`, also `pssl:`: the switch listens, with TLS.
    ListenTls(SocketAddr),
}

/// A text that is no target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "controller {text:?}: none of tcp:ADDRESS[:PORT], tls:ADDRESS[:PORT], unix:PATH, ptcp:[PORT][:ADDRESS], ptls:[PORT][:ADDRESS]"
)]
pub struct NoTarget {
    /// The text.
    pub text: String,
}

impl FromStr for Target {
    type Err = NoTarget;

    fn from_str(text: &str) -> Result<Target, NoTarget> {
        let none = || NoTarget { text: text.to_owned() };
        let (kind, rest) = text.split_once(':').ok_or_else(none)?;
        let target = match kind {
            "tcp" => active(rest).map(Target::Tcp),
            "tls" | "ssl" => active(rest).map(Target::Tls),
            "ptcp" => passive(rest).map(Target::Listen),
            "ptls" | "pssl" => passive(rest).map(Target::ListenTls),
            "unix" if !rest.is_empty() => Some(Target::Unix(rest.into())),
            _ => None,
        };
        target.ok_or_else(none)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Tcp(to) => write!(f, "tcp:{to}"),
            Target::Tls(to) => write!(f, "tls:{to}"),
            Target::Unix(path) => write!(f, "unix:{}", path.display()),
            Target::Listen(at) => write!(f, "ptcp:{}:{}", at.port(), bracketed(at.ip())),
            Target::ListenTls(at) => write!(f, "ptls:{}:{}", at.port(), bracketed(at.ip())),
        }
    }
}

fn bracketed(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

/// `ADDRESS[:PORT]`, with brackets around an IPv6 address that a port follows.
fn active(text: &str) -> Option<SocketAddr> {
    let plain = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let only = plain.parse::<IpAddr>().map(|address| SocketAddr::new(address, OPENFLOW_PORT));
    only.ok().or_else(|| text.parse().ok()).filter(|to| to.port() != 0)
}

/// `[PORT][:ADDRESS]`.
fn passive(text: &str) -> Option<SocketAddr> {
    let (port, address) = text.split_once(':').unwrap_or((text, ""));
    let port = if port.is_empty() { OPENFLOW_PORT } else { port.parse().ok()? };
    let plain = address.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let address = match plain.unwrap_or(address) {
        "" => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        text => text.parse().ok()?,
    };
    Some(SocketAddr::new(address, port))
}

/// A target as its text.
mod text {
    use serde::{Deserialize, Deserializer, Serializer};

    use super::Target;

    pub(super) fn serialize<S: Serializer>(target: &Target, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(target)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Target, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_and_written() {
        for (text, written) in [
            ("tcp:10.0.0.5", "tcp:10.0.0.5:6653"),
            ("tcp:10.0.0.5:6633", "tcp:10.0.0.5:6633"),
            ("tcp:[fd00::1]:1", "tcp:[fd00::1]:1"),
            ("tcp:fd00::1", "tcp:[fd00::1]:6653"),
            ("ssl:127.0.0.1", "tls:127.0.0.1:6653"),
            ("ptcp:", "ptcp:6653:0.0.0.0"),
            ("ptcp:6654:127.0.0.1", "ptcp:6654:127.0.0.1"),
            ("pssl::[::1]", "ptls:6653:[::1]"),
            ("unix:/a:b", "unix:/a:b"),
        ] {
            let target: Target = text.parse().unwrap();
            assert_eq!(target.to_string(), written);
            assert_eq!(written.parse::<Target>().unwrap(), target);
        }
        for text in [
            "",
            "tcp",
            "tcp:",
            "tcp:host",
            "tcp:1.2.3.4:0",
            "udp:1.2.3.4",
            "unix:",
            "ptcp:x",
            "ptcp:1:x",
        ] {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
    }

    #[test]
    fn an_application_needs_only_what_has_no_default() {
        let text = r#"{"name":"s1","datapath":7,"openflow":"/a/openflow","state":"/a/state"}"#;
        let application: Application = serde_json::from_str(text).unwrap();
        assert_eq!(application, Application::new("s1", 7, std::path::Path::new("/a")));
        let text = serde_json::to_string(&application).unwrap();
        assert_eq!(serde_json::from_str::<Application>(&text).unwrap(), application);
    }
}
