//! Addresses of what registries have: `http` and `https`.

use std::fmt;
use std::net::IpAddr;

use crate::reference::is_host;
use crate::{Error, Result};

/// An address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// By TLS.
    pub tls: bool,
    /// The host without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Path and query, beginning with `/`.
    pub path: String,
}

impl Address {
    /// Reads one.
    ///
    /// # Errors
    /// It is none, or of another scheme.
    pub fn parse(text: &str) -> Result<Address> {
        let wrong = |why| Error::Address { text: text.chars().take(200).collect(), why };
        let (scheme, rest) = text.split_once("://").ok_or_else(|| wrong("it has no scheme"))?;
        let tls = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return Err(wrong("its scheme is neither http nor https")),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.contains('@') {
            return Err(wrong("it has a user"));
        }
        if !is_host(authority) {
            return Err(wrong("its host is not a host name"));
        }
        let path = path.split('#').next().unwrap_or_default();
        if path.bytes().any(|b| b <= b' ' || b >= 0x7f) {
            return Err(wrong("its path has characters that must be escaped"));
        }
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let (host, port) = split(authority);
        Ok(Address { tls, host, port: port.unwrap_or(if tls { 443 } else { 80 }), path })
    }

    /// The address of a registry's `path`.
    pub fn of(registry: &str, tls: bool, path: String) -> Address {
        let (host, port) = split(registry);
        Address { tls, host, port: port.unwrap_or(if tls { 443 } else { 80 }), path }
    }

    /// Where a redirection leads.
    ///
    /// # Errors
    /// It leads nowhere, or from TLS to plain text.
    pub fn follow(&self, location: &str) -> Result<Address> {
        let wrong = |why| Error::Address { text: location.chars().take(200).collect(), why };
        let to = if location.starts_with("//") {
            let scheme = if self.tls { "https:" } else { "http:" };
            Address::parse(&format!("{scheme}{location}"))?
        } else if location.starts_with('/') {
            let base = format!("{}{location}", self.origin());
            Address::parse(&base)?
        } else if location.contains("://") {
            Address::parse(location)?
        } else {
            return Err(wrong("it is relative to a page"));
        };
        match self.tls && !to.tls {
            true => Err(wrong("it leads from https to http")),
            false => Ok(to),
        }
    }

    /// Scheme, host and port.
    pub fn origin(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}", self.authority())
    }

    /// Whether credentials of one may go to the other.
    pub fn is_same_origin(&self, other: &Address) -> bool {
        (self.tls, &self.host, self.port) == (other.tls, &other.host, other.port)
    }

    /// The value of the header `Host`.
    pub fn authority(&self) -> String {
        let host = match self.host.contains(':') {
            true => format!("[{}]", self.host),
            false => self.host.clone(),
        };
        match self.port == (if self.tls { 443 } else { 80 }) {
            true => host,
            false => format!("{host}:{}", self.port),
        }
    }

    /// Whether it is on this machine.
    pub fn is_loopback(&self) -> bool {
        let is_address = |ip: IpAddr| ip.is_loopback();
        self.host == "localhost" || self.host.parse().is_ok_and(is_address)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Queries hold signatures.
        let path = self.path.split('?').next().unwrap_or_default();
        write!(f, "{}{path}", self.origin())
    }
}

/// Host and port.
fn split(authority: &str) -> (String, Option<u16>) {
    let port = |text: &str| text.strip_prefix(':').and_then(|p| p.parse().ok());
    if let Some((host, rest)) = authority.strip_prefix('[').and_then(|r| r.split_once(']')) {
        return (host.to_owned(), port(rest));
    }
    match authority.find(':') {
        Some(at) => (authority[..at].to_owned(), port(&authority[at..])),
        None => (authority.to_owned(), None),
    }
}

/// Text as a value of a query.
pub fn escape(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(byte.into());
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_followed() {
        let a = Address::parse("https://auth.docker.io/token?x=1#y").unwrap();
        assert_eq!(
            (a.tls, a.host.as_str(), a.port, a.path.as_str()),
            (true, "auth.docker.io", 443, "/token?x=1")
        );
        assert_eq!(a.to_string(), "https://auth.docker.io/token");
        let b = Address::of("[::1]:5000", false, "/v2/".into());
        assert_eq!((b.authority().as_str(), b.is_loopback()), ("[::1]:5000", true));
        assert_eq!(b.follow("/x?y").unwrap().path, "/x?y");
        assert_eq!(b.follow("https://cdn.example/z").unwrap().host, "cdn.example");
        assert!(
            a.follow("http://cdn.example/z").unwrap_err().to_string().contains("https to http")
        );
        for wrong in [
            "x",
            "ftp://a/",
            "http://",
            "http://u@h/",
            "http://a b/",
            "http://h/a b",
            "http://h:0/",
        ] {
            assert!(Address::parse(wrong).is_err(), "{wrong}");
        }
        assert!(!Address::of("example.org", true, "/".into()).is_loopback());
        assert!(!Address::of("127.0.0.1.example.org", true, "/".into()).is_loopback());
        assert_eq!(escape("a/b:c"), "a%2Fb%3Ac");
    }
}
