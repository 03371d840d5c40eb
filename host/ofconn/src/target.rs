//! Where the other end of a connection is: targets in the syntax of `ovs-vsctl set-controller`, and files for TLS.
//!
//! Everything here goes between processes as JSON.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The port of OpenFlow (IANA), where a target names none.
pub const OPENFLOW_PORT: u16 = 6653;

/// A controller, or a place where controllers may connect.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Controller {
    /// Where it is, such as `tcp:10.0.0.5:6653`.
    #[serde(with = "text")]
    pub target: Target,
    /// The network namespace to reach it from, by the name that it has been given with
    /// a request of the process that reaches it; none: that of the switch's process.
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

/// A text that is not a target.
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
    // Nobody can be reached at port 0; a listener may ask for it, and gets one from the kernel.
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
}
