//! Where a request leads: names, addresses, paths of UNIX sockets, virtual machines.

use std::fmt;

use ipnet::IpNet;

use super::PathPattern;
use crate::request::{Target, plain_name};

/// A set of targets. Ports are matched apart, by [`super::Ports`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Destination {
    /// Every target.
    Any,
    /// An address known by this name, in lower case, and the name itself when it is looked up.
    Name(String),
    /// An address known by a name that ends in `.` and this one, and such a name: `*.example.org`.
    Under(String),
    /// The name servers of the place where the program runs.
    Resolver,
    /// An address of this prefix.
    Net(IpNet),
    /// A UNIX socket at such a path.
    Path(PathPattern),
    /// A UNIX socket of this abstract name.
    Abstract(String),
    /// A UNIX socket whose abstract name begins so.
    AbstractPrefix(String),
    /// A virtual machine socket of this context id.
    Vsock(u32),
}

impl Destination {
    /// Reads `any`, `resolver`, a name, `*.name`, an address, a prefix, `unix:/path`, `unix:@name`, `unix:@begin*` or
    /// `vsock:CID`; the error says what is wrong.
    pub fn parse(text: &str) -> Result<Destination, String> {
        if text == "any" {
            return Ok(Destination::Any);
        }
        if text == "resolver" {
            return Ok(Destination::Resolver);
        }
        if let Some(rest) = text.strip_prefix("unix:") {
            return unix(rest);
        }
        if let Some(cid) = text.strip_prefix("vsock:") {
            let wrong = || "a context id is a number, as in vsock:2".to_owned();
            return cid.parse().map(Destination::Vsock).map_err(|_| wrong());
        }
        if let Ok(net) = text.parse::<IpNet>() {
            return prefix(net);
        }
        if let Ok(address) = text.parse::<std::net::IpAddr>() {
            // Targets are never IPv4 in the form of IPv6.
            return Ok(Destination::Net(address.to_canonical().into()));
        }
        if let Some(domain) = text.strip_prefix("*.") {
            return name(domain).map(Destination::Under);
        }
        name(text).map(Destination::Name)
    }

    /// Whether a target with this name lies here; `name` is one of the target's names or `None` without one.
    pub fn matches(&self, target: &Target, name: Option<&str>) -> bool {
        match (self, target) {
            (Destination::Any, _) => true,
            (Destination::Name(own), Target::Ip { .. }) => name == Some(own),
            (Destination::Under(domain), Target::Ip { .. }) => {
                name.is_some_and(|name| under(name, domain))
            }
            (Destination::Name(own), Target::Name(name)) => own == name,
            (Destination::Under(domain), Target::Name(name)) => under(name, domain),
            (Destination::Resolver, Target::Ip { resolver, .. }) => *resolver,
            (Destination::Net(net), Target::Ip { address, .. }) => net.contains(address),
            (Destination::Path(pattern), Target::Path(path)) => pattern.matches(path),
            (Destination::Abstract(own), Target::Abstract(name)) => own == name,
            (Destination::AbstractPrefix(begin), Target::Abstract(name)) => {
                name.starts_with(begin.as_str())
            }
            (Destination::Vsock(own), Target::Vsock { cid, .. }) => own == cid,
            _ => false,
        }
    }

    /// Whether it is a name, or all names below one.
    pub(crate) fn says_name(&self) -> bool {
        matches!(self, Destination::Name(_) | Destination::Under(_))
    }

    /// Whether a target of no certain path may lie here. One that is somebody's own path is told apart by what it is.
    pub(crate) fn may_hold(&self, target: &Target) -> bool {
        let folder = matches!(self, Destination::Path(PathPattern::In(_) | PathPattern::Below(_)));
        folder && *target == Target::Hidden
    }

    /// Whether every target of this destination is one of `other`.
    pub fn within(&self, other: &Destination) -> bool {
        use Destination as D;
        match (self, other) {
            (_, D::Any) => true,
            (D::Name(a), D::Name(b)) | (D::Under(a), D::Under(b)) if a == b => true,
            (D::Name(a) | D::Under(a), D::Under(b)) => under(a, b),
            (D::Net(a), D::Net(b)) => b.contains(a),
            (D::Path(a), D::Path(b)) => a.within(b),
            (D::Abstract(a), D::Abstract(b)) => a == b,
            (D::Abstract(a) | D::AbstractPrefix(a), D::AbstractPrefix(b)) => {
                a.starts_with(b.as_str())
            }
            (D::Vsock(a), D::Vsock(b)) => a == b,
            (D::Resolver, D::Resolver) => true,
            _ => false,
        }
    }
}

fn under(name: &str, domain: &str) -> bool {
    // With the dot: `notexample.org` does not lie under `example.org`.
    name.strip_suffix(domain).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
}

fn unix(rest: &str) -> Result<Destination, String> {
    let Some(name) = rest.strip_prefix('@') else {
        return PathPattern::parse(rest).map(Destination::Path).map_err(str::to_owned);
    };
    match name.strip_suffix('*') {
        _ if name.is_empty() => {
            Err("an abstract name is not empty, as in unix:@/tmp/.X11-unix/X0".into())
        }
        Some(begin) => Ok(Destination::AbstractPrefix(begin.to_owned())),
        None => Ok(Destination::Abstract(name.to_owned())),
    }
}

/// An IPv4-mapped prefix is one of IPv4, since targets have no disguises.
fn prefix(net: IpNet) -> Result<Destination, String> {
    if net.trunc() != net {
        let (bits, right) = (net.prefix_len(), net.trunc());
        return Err(format!("{net} has bits after the first {bits}; write {right}"));
    }
    let plain = match net {
        IpNet::V6(v6) if v6.prefix_len() >= 96 => v6
            .addr()
            .to_ipv4_mapped()
            .and_then(|v4| IpNet::new(v4.into(), v6.prefix_len() - 96).ok()),
        _ => None,
    };
    Ok(Destination::Net(plain.unwrap_or(net)))
}

/// Longest name of a host, RFC 1035 section 2.3.4, without the dot of the root.
const MAX_NAME: usize = 253;
/// Longest label of a name, RFC 1035 section 2.3.4.
const MAX_LABEL: usize = 63;

/// A host's name (RFC 1123 section 2.1), with the underscore that services use.
fn name(text: &str) -> Result<String, String> {
    let plain = plain_name(text);
    let fits = |label: &str| (1..=MAX_LABEL).contains(&label.len()) && label.bytes().all(allowed);
    if plain.contains('*') {
        return Err("`*` is allowed only as the first label, as in *.example.org".into());
    }
    if plain.len() > MAX_NAME || !plain.split('.').all(fits) {
        return Err("not a host name, address, prefix, unix:/path, unix:@name or vsock:CID".into());
    }
    // RFC 1123, section 2.1: the last label is alphabetic, so that no name looks like an address.
    if plain.split('.').next_back().is_some_and(|last| last.bytes().all(|b| b.is_ascii_digit())) {
        return Err("neither an address nor a host name, whose last label is not a number".into());
    }
    Ok(plain)
}

fn allowed(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Destination::Any => f.write_str("any"),
            Destination::Resolver => f.write_str("resolver"),
            Destination::Name(name) => f.write_str(name),
            Destination::Under(domain) => write!(f, "*.{domain}"),
            Destination::Net(net) if net.prefix_len() == net.max_prefix_len() => {
                write!(f, "{}", net.addr())
            }
            Destination::Net(net) => write!(f, "{net}"),
            Destination::Path(pattern) => write!(f, "unix:{pattern}"),
            Destination::Abstract(name) => write!(f, "unix:@{name}"),
            Destination::AbstractPrefix(begin) => write!(f, "unix:@{begin}*"),
            Destination::Vsock(cid) => write!(f, "vsock:{cid}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Direction;

    fn to(text: &str) -> Destination {
        Destination::parse(text).unwrap()
    }

    fn matches(pattern: &str, address: &str, name: Option<&str>) -> bool {
        let target = Target::ip(Direction::Out, address.parse().unwrap(), 1, vec![]);
        to(pattern).matches(&target, name)
    }

    #[test]
    fn names_match_whole_labels() {
        assert!(matches("example.org", "10.0.0.1", Some("example.org")));
        assert!(!matches("example.org", "10.0.0.1", Some("www.example.org")));
        assert!(!matches("example.org", "10.0.0.1", None));
        assert!(matches("*.example.org", "10.0.0.1", Some("a.b.example.org")));
        assert!(!matches("*.example.org", "10.0.0.1", Some("example.org")));
        assert!(!matches("*.example.org", "10.0.0.1", Some("badexample.org")));
        assert!(!matches("*.example.org", "10.0.0.1", Some(".example.org")));
    }

    #[test]
    fn prefixes_match_addresses_of_their_family() {
        assert!(matches("10.0.0.0/8", "10.9.9.9", None));
        assert!(matches("10.0.0.0/8", "::ffff:10.9.9.9", None));
        assert!(matches("::ffff:10.0.0.0/104", "10.9.9.9", None));
        assert!(!matches("0.0.0.0/0", "::1", None));
        assert!(matches("::1", "::", None), "an outgoing call to :: reaches loopback");
    }

    #[test]
    fn narrower_destinations_lie_within_wider_ones() {
        for (narrow, wide) in [
            ("a.example.org", "*.example.org"),
            ("*.b.example.org", "*.example.org"),
            ("10.1.0.0/16", "10.0.0.0/8"),
            ("10.1.0.1", "10.1.0.0/16"),
            ("unix:/run/x", "unix:/run/*"),
            ("unix:@abc", "unix:@ab*"),
            ("unix:@abc*", "unix:@ab*"),
            ("vsock:2", "any"),
        ] {
            assert!(to(narrow).within(&to(wide)), "{narrow} in {wide}");
            assert!(!to(wide).within(&to(narrow)), "{wide} not in {narrow}");
        }
        assert!(!to("example.org").within(&to("0.0.0.0/0")));
    }

    #[test]
    fn wrong_text_says_what_would_be_right() {
        for (text, part) in [
            ("10.0.0.1/8", "write 10.0.0.0/8"),
            ("10.0.0.256", "last label is not a number"),
            ("a.*.org", "first label"),
            ("exa mple", "not a host name"),
            ("", "not a host name"),
            ("unix:run", "begins with `/`"),
            ("unix:@", "not empty"),
            ("vsock:host", "vsock:2"),
        ] {
            let error = Destination::parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn text_is_kept() {
        for text in [
            "any",
            "resolver",
            "example.org",
            "*.example.org",
            "10.0.0.0/8",
            "10.0.0.1",
            "fd00::/8",
            "::1",
            "unix:/run/x",
            "unix:/run/**",
            "unix:@abc",
            "unix:@ab*",
            "vsock:2",
        ] {
            assert_eq!(to(text).to_string(), text);
        }
    }
}
