//! Where a controller is: an address, a socket, or a node of the lab.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The port of controllers that is registered with IANA.
pub const DEFAULT_PORT: u16 = 6653;

/// A controller that a switch connects to. As text: `tcp:10.0.0.5:6653`, `node:c0:6653`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Controller {
    /// By TCP, from the host's network.
    Tcp(IpAddr, u16),
    /// By TLS, from the host's network.
    Tls(IpAddr, u16),
    /// By a socket in the host's file system; the path is absolute.
    Unix(PathBuf),
    /// In a node, at 127.0.0.1 in the node's own network.
    Node(String, u16),
    /// On the host, at 127.0.0.1.
    Host(u16),
}

impl Controller {
    /// Whether it is reached by TLS.
    pub fn is_tls(&self) -> bool {
        matches!(self, Controller::Tls(..))
    }

    /// The node it is in.
    pub fn node(&self) -> Option<&str> {
        match self {
            Controller::Node(node, _) => Some(node),
            _ => None,
        }
    }
}

impl fmt::Display for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let socket = |address: &IpAddr, port: u16| std::net::SocketAddr::new(*address, port);
        match self {
            Controller::Tcp(address, port) => write!(f, "tcp:{}", socket(address, *port)),
            Controller::Tls(address, port) => write!(f, "tls:{}", socket(address, *port)),
            Controller::Unix(path) => write!(f, "unix:{}", path.display()),
            Controller::Node(node, port) => write!(f, "node:{node}:{port}"),
            Controller::Host(port) => write!(f, "host:{port}"),
        }
    }
}

impl FromStr for Controller {
    type Err = String;

    fn from_str(text: &str) -> Result<Controller, String> {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        match kind {
            "tcp" => address(rest).map(|(address, port)| Controller::Tcp(address, port)),
            // Open vSwitch's word is `ssl`.
            "tls" | "ssl" => address(rest).map(|(address, port)| Controller::Tls(address, port)),
            "unix" if Path::new(rest).is_absolute() => Ok(Controller::Unix(rest.into())),
            "unix" => Err("a socket is given by its absolute path, like unix:/run/c.sock".into()),
            "node" => {
                let (node, port) = with_port(rest)?;
                let named = (!node.is_empty()).then(|| Controller::Node(node.to_owned(), port));
                named.ok_or_else(|| "a node's name is missing, as in node:c0".into())
            }
            "host" if rest.is_empty() => Ok(Controller::Host(DEFAULT_PORT)),
            "host" => port(rest).map(Controller::Host),
            _ => Err("a controller is tcp:ADDRESS[:PORT], tls:ADDRESS[:PORT], unix:PATH, \
                      node:NAME[:PORT] or host[:PORT]"
                .into()),
        }
    }
}

fn port(text: &str) -> Result<u16, String> {
    let digits = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    let number = text.parse().ok().filter(|number| digits && *number != 0);
    number.ok_or_else(|| format!("{text:?} is not a port; write 1 to 65535"))
}

/// A name or address and its port, `NAME` or `NAME:PORT`.
fn with_port(text: &str) -> Result<(&str, u16), String> {
    match text.rsplit_once(':') {
        Some((name, number)) => Ok((name, port(number)?)),
        None => Ok((text, DEFAULT_PORT)),
    }
}

/// `10.0.0.5`, `10.0.0.5:6653`, `[fd00::5]`, `[fd00::5]:6653`.
fn address(text: &str) -> Result<(IpAddr, u16), String> {
    if let Some((inner, rest)) = text.strip_prefix('[').and_then(|t| t.split_once(']')) {
        let address: Ipv6Addr =
            inner.parse().map_err(|_| format!("{inner:?} is not an IPv6 address"))?;
        return match rest.strip_prefix(':') {
            Some(number) => Ok((address.into(), port(number)?)),
            None if rest.is_empty() => Ok((address.into(), DEFAULT_PORT)),
            None => Err(format!("found {rest:?} instead of :PORT after the address")),
        };
    }
    // Without brackets the last group would be taken for a port.
    if text.parse::<Ipv6Addr>().is_ok() {
        return Err(format!("write an IPv6 address in brackets: [{text}]"));
    }
    let (address, port) = with_port(text)?;
    let wrong = || format!("{address:?} is not an IP address; names are not looked up here");
    Ok((address.parse().map_err(|_| wrong())?, port))
}

impl TryFrom<String> for Controller {
    type Error = String;

    fn try_from(text: String) -> Result<Controller, String> {
        text.parse()
    }
}

impl From<Controller> for String {
    fn from(controller: Controller) -> String {
        controller.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_are_read_and_written() {
        for (text, whole) in [
            ("tcp:10.0.0.5", "tcp:10.0.0.5:6653"),
            ("tcp:10.0.0.5:6633", "tcp:10.0.0.5:6633"),
            ("tcp:[fd00::5]", "tcp:[fd00::5]:6653"),
            ("tls:[fd00::5]:1", "tls:[fd00::5]:1"),
            ("ssl:127.0.0.1", "tls:127.0.0.1:6653"),
            ("unix:/run/c.sock", "unix:/run/c.sock"),
            ("node:c0", "node:c0:6653"),
            ("node:a/b:7", "node:a/b:7"),
            ("host", "host:6653"),
            ("host:65535", "host:65535"),
        ] {
            let read: Controller = text.parse().unwrap();
            assert_eq!(read.to_string(), whole);
            assert_eq!(whole.parse::<Controller>().unwrap(), read);
        }
    }

    #[test]
    fn wrong_controllers_are_refused_with_what_is_wrong() {
        for (text, words) in [
            ("", "a controller is tcp:"),
            ("10.0.0.5:6653", "a controller is tcp:"),
            ("udp:10.0.0.5", "a controller is tcp:"),
            ("tcp:", "not an IP address"),
            ("tcp:c0", "names are not looked up"),
            ("tcp:10.0.0.5:0", "not a port"),
            ("tcp:10.0.0.5:70000", "not a port"),
            ("tcp:10.0.0.5:+1", "not a port"),
            ("tcp:fd00::5", "in brackets: [fd00::5]"),
            ("tcp:[10.0.0.5]", "not an IPv6 address"),
            ("tcp:[fd00::5]x", "instead of :PORT"),
            ("unix:c.sock", "absolute path"),
            ("node:", "name is missing"),
            ("node:c0:", "not a port"),
            ("host:x", "not a port"),
        ] {
            let error = text.parse::<Controller>().unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
