//! The question as a person sees it, and the rule that an answer makes. Pure.
//!
//! Everything that comes from a program (its path, arguments, names that it looked up) is shown with control and
//! direction characters escaped, and cut, so that no text can hide or imitate the question.

use std::net::IpAddr;

use jiff::{SignedDuration, Timestamp};
use netloom_config::printable;
use netloom_policy::learn::destinations;
use netloom_policy::pattern::{Destination, Part, PathPattern, Ports};
use netloom_policy::{Action, Direction, Port, Protocol, Request, Rule, Target};

use crate::who::Who;

/// What an answer is about, beyond the call that was asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// This program, and this destination and port.
    Destination,
    /// This program and this port, anywhere.
    Port,
    /// This program, and the network of the destination: 256 addresses of IPv4, a /64 of IPv6, or all names under
    /// the domain.
    Network,
    /// This program, whatever it asks in this direction.
    Program,
}

/// Letters shown of a path, name or argument.
const SHOWN: usize = 200;

/// The lines of a question about `requests`, which differ in their address alone; `waiting` more questions wait
/// behind it.
pub fn lines(who: &Who, requests: &[Request], waiting: usize) -> Vec<String> {
    let mut lines = vec![subject(who)];
    if let Some((first, others)) = requests.split_first() {
        lines.push(format!("wants to {}", wish(first)));
        let addresses = others.iter().filter_map(|request| match &request.target {
            Target::Ip { address, .. } => Some(address.to_string()),
            _ => None,
        });
        let addresses: Vec<_> = addresses.collect();
        if !addresses.is_empty() {
            lines.push(format!("and at {}", addresses.join(", ")));
        }
        lines.extend(warning(first).map(|warning| format!("Careful: {warning}")));
    }
    lines.extend(behind(waiting));
    lines
}

/// The lines of a card about `count` calls that are too many to be told apart.
pub fn flood(who: &Who, count: usize, waiting: usize) -> Vec<String> {
    let mut lines = vec![subject(who)];
    lines.extend(behind(waiting));
    lines.push(format!("asks for {count} things at once, such as to"));
    lines
}

/// Some of these calls.
pub fn wishes(some: &[Request]) -> Vec<String> {
    some.iter().map(|request| format!("- {}", wish(request))).collect()
}

fn behind(waiting: usize) -> Option<String> {
    let s = if waiting == 1 { "" } else { "s" };
    (waiting > 0).then(|| format!("{waiting} more question{s} after this"))
}

/// Letters shown of all arguments.
const ARGUMENTS: usize = 600;

/// More about the asking program.
pub fn details(who: &Who, request: &Request) -> Vec<String> {
    let (mut arguments, mut left) = (String::new(), ARGUMENTS);
    for argument in &who.arguments {
        let shown = quoted(argument);
        left = left.saturating_sub(shown.chars().count() + 1);
        // All arguments together are bounded: many short
        // ones would push what matters off the screen.
        if left == 0 {
            arguments.push_str(" …");
            break;
        }
        arguments.push(' ');
        arguments.push_str(&shown);
    }
    let mut lines = vec![format!("arguments:{arguments}")];
    if who.program.path.is_empty() && !who.called.is_empty() {
        lines.push(format!("in its own mounts it is called {}", quoted(&who.called)));
    }
    lines.push(format!(
        "process {}, started by {} ({})",
        who.pid,
        quoted(&who.parent_name),
        who.parent
    ));
    if let Target::Ip { names, .. } = &request.target
        && names.len() > 1
    {
        let names: Vec<_> = names.iter().map(|name| plain(name)).collect();
        lines.push(format!("the address is known as {}", names.join(", ")));
    }
    lines
}

fn subject(who: &Who) -> String {
    let path = match who.program.path.as_str() {
        "" => "a program of no certain name".to_owned(),
        path => quoted(path),
    };
    format!("{path} (process {}, of {})", who.pid, quoted(&who.parent_name))
}

fn wish(request: &Request) -> String {
    let protocol = protocol_words(request.protocol);
    match (request.direction, &request.target) {
        (Direction::Open, _) => match request.protocol {
            Protocol::RawOf(_) => format!("open {protocol}"),
            _ => format!("open a {protocol} socket"),
        },
        (Direction::Out, target) => format!("reach {} by {protocol}", place(target)),
        (Direction::In, Target::Ip { address, port, .. }) if address.is_unspecified() => {
            let port = port_words(*port).map_or(String::new(), |port| format!("{port} of "));
            format!("be reached by {protocol} at {port}all addresses")
        }
        (Direction::In, target) => format!("be reached by {protocol} at {}", place(target)),
    }
}

/// The number of a raw socket's protocol is shown with its name, if it has one.
fn protocol_words(protocol: Protocol) -> String {
    let Protocol::RawOf(number) = protocol else { return protocol.to_string() };
    let name = protocol.to_string().replacen("raw:", "", 1);
    match name.parse::<u16>() {
        Ok(_) => format!("a raw socket for protocol {number}"),
        Err(_) => format!("a raw socket for protocol {number}, {name}"),
    }
}

fn port_words(port: Port) -> Option<String> {
    match port {
        Port::None => None,
        Port::Named(port) => Some(format!("port {port}")),
        Port::Free(0) => Some("a free port".into()),
        Port::Free(port) => Some(format!("a free port ({port})")),
    }
}

fn place(target: &Target) -> String {
    match target {
        Target::Ip { address, port, names, resolver } => {
            let name = match names.first() {
                _ if *resolver => "the resolver ".to_owned(),
                Some(name) => format!("{} ", plain(name)),
                None => String::new(),
            };
            let port = port_words(*port).map(|port| format!(", {port}")).unwrap_or_default();
            format!("{name}{address}{port}")
        }
        Target::Name(name) => format!("the name {}", quoted(name)),
        Target::Path(path) => format!("the socket {}", quoted(path)),
        Target::Hidden => "a socket of no certain path".into(),
        Target::Abstract(name) => format!("the socket @{}", quoted(name)),
        Target::Vsock { cid, port } => {
            format!("machine {cid}, {}", port_words(*port).unwrap_or_default())
        }
        Target::Socket => "an address of its own kind".into(),
    }
}

/// Sockets whose servers run programs or open connections for others.
const PROXIES: [(&str, &str); 8] = [
    ("/tmux-", "a program that talks to it can type for you"),
    ("/screen/S-", "a program that talks to it can type for you"),
    ("/docker.sock", "a program that talks to it controls this machine"),
    ("/containerd.sock", "a program that talks to it controls this machine"),
    ("/bus", "programs can be started by it outside of guard"),
    ("/systemd/private", "programs can be started by it outside of guard"),
    ("/agent.", "it signs in as you elsewhere"),
    ("X11-unix", "a program that draws on this screen can type for you"),
];

fn warning(request: &Request) -> Option<&'static str> {
    match &request.target {
        Target::Path(path) | Target::Abstract(path) => {
            PROXIES.iter().find(|(part, _)| path.contains(part)).map(|(_, words)| *words)
        }
        Target::Socket => match request.protocol {
            Protocol::Packet | Protocol::Raw | Protocol::RawOf(_) => {
                Some("such a socket sends to any address")
            }
            _ => None,
        },
        Target::Hidden => Some("it lies in mounts of the program's own, or has several names"),
        Target::Ip { .. } | Target::Name(_) | Target::Vsock { .. } => None,
    }
}

/// Text on one line, escaped and cut.
pub fn plain(text: &str) -> String {
    let end = |text: &str| text.char_indices().nth(SHOWN).map(|(end, _)| end);
    let begin = &text[..end(text).unwrap_or(text.len())];
    // An escape is longer than what it stands for.
    let escaped = printable::line(begin);
    let shown = &escaped[..end(&escaped).unwrap_or(escaped.len())];
    let is_cut = begin.len() < text.len() || shown.len() < escaped.len();
    format!("{shown}{}", if is_cut { "…" } else { "" })
}

/// As [`plain`], in quotes where it has other letters than names of files usually do: no path reads as a sentence.
fn quoted(text: &str) -> String {
    let usual = |c: char| c.is_ascii_alphanumeric() || "_./-+:,@=%~".contains(c);
    if !text.is_empty() && text.chars().all(usual) {
        return plain(text);
    }
    format!("\"{}\"", plain(&text.replace('"', "\\\"")))
}

/// The rule that an answer makes; `None` if the program cannot be named, so that the rule would be about others.
pub fn rule(
    action: Action,
    scope: Scope,
    request: &Request,
    minutes: Option<u32>,
    now: Timestamp,
) -> Option<Rule> {
    let mut rule = Rule::every(action, request.direction);
    // Without a path the rule would hold for every program.
    rule.program.path = Some(PathPattern::exact(&request.program.path)?);
    rule.until = match minutes {
        Some(minutes) => Some(now.checked_add(SignedDuration::from_mins(minutes.into())).ok()?),
        None => None,
    };
    // Such a socket has no destination, so that every scope would say the same.
    if request.target == Target::Socket {
        rule.protocols = vec![request.protocol];
        return Some(rule);
    }
    let port = || Ports::of(Part::of(request.target.port()));
    match scope {
        Scope::Destination => {
            rule.protocols = vec![request.protocol];
            rule.ports = port();
            rule.to = exactly(&request.target)?;
        }
        Scope::Port => {
            rule.protocols = vec![request.protocol];
            rule.ports = Some(port()?);
        }
        Scope::Network => rule.to = around(&request.target)?,
        Scope::Program => {}
    }
    Some(rule)
}

/// The destination itself: the name that is shown, or its address.
fn exactly(target: &Target) -> Option<Vec<Destination>> {
    Some(destinations(target, Direction::Out)).filter(|all| !all.is_empty())
}

/// The destination's surroundings.
fn around(target: &Target) -> Option<Vec<Destination>> {
    let Target::Ip { address, names, resolver: false, .. } = target else { return exactly(target) };
    let Some(name) = names.first() else {
        // The usual sizes of one site's network.
        let bits = if address.is_ipv4() { 24 } else { 64 };
        let text = format!("{address}/{bits}");
        let net: Destination = Destination::parse(&masked(*address, bits).unwrap_or(text)).ok()?;
        return Some(vec![net]);
    };
    let to = match name.split_once('.') {
        // A rule for `co.uk` would be one for half of a country.
        Some((_, domain)) if !is_registry(domain) => Destination::Under(domain.to_owned()),
        _ => Destination::Name(name.clone()),
    };
    // A name that was looked up may have any letters: a
    // policy must read it as this name, not as a pattern.
    let readable = Destination::parse(&to.to_string()).as_ref() == Ok(&to);
    readable.then(|| vec![to])
}

/// Whether strangers share this domain: a single label, or one that looks like a registry's (`co.uk`, `com.au`).
fn is_registry(domain: &str) -> bool {
    match domain.split_once('.') {
        None => true,
        Some((second, top)) => second.len() <= 3 && top.len() == 2,
    }
}

/// The network or domain of a target in words, as a rule about it says.
pub(crate) fn network(target: &Target) -> Option<String> {
    let all = around(target)?;
    let words: Vec<_> = all.iter().map(ToString::to_string).collect();
    Some(plain(&words.join(" and ")))
}

/// An address with its last bits cleared, as a prefix.
fn masked(address: IpAddr, bits: u8) -> Option<String> {
    let cleared: IpAddr = match address {
        IpAddr::V4(v4) => {
            std::net::Ipv4Addr::from_bits(v4.to_bits() & (u32::MAX << (32 - bits))).into()
        }
        IpAddr::V6(v6) => {
            std::net::Ipv6Addr::from_bits(v6.to_bits() & (u128::MAX << (128 - bits))).into()
        }
    };
    Some(format!("{cleared}/{bits}"))
}

#[cfg(test)]
mod tests {
    use netloom_policy::{Errno, Policy, Program, Protocol};

    use super::*;

    fn who() -> Who {
        Who {
            program: Program { path: "/usr/bin/curl".into(), sha256: None },
            called: "/usr/bin/curl".into(),
            arguments: vec!["curl".into(), "a\u{1b}[2Jb".into()],
            thread: 7,
            pid: 7,
            parent: 6,
            parent_name: "bash".into(),
        }
    }

    fn request(direction: Direction, address: &str, port: u16, names: &[&str]) -> Request {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        Request {
            program: who().program,
            direction,
            protocol: Protocol::Tcp,
            target: Target::ip(direction, address.parse().unwrap(), port, names),
        }
    }

    /// Escapes are longer than what they stand for.
    #[test]
    fn what_programs_choose_is_cut_as_it_is_shown() {
        assert_eq!(plain(&"x".repeat(SHOWN)).chars().count(), SHOWN);
        for letter in ["x", "\u{1b}", "\u{202e}", "\u{e0041}"] {
            let shown = plain(&letter.repeat(SHOWN + 1));
            assert_eq!((shown.chars().count(), shown.ends_with('…')), (SHOWN + 1, true), "{shown}");
        }
    }

    #[test]
    fn a_question_names_program_destination_and_how_many_wait() {
        let asked = request(Direction::Out, "192.0.2.1", 443, &["example.org"]);
        assert_eq!(
            lines(&who(), std::slice::from_ref(&asked), 2),
            [
                "/usr/bin/curl (process 7, of bash)",
                "wants to reach example.org 192.0.2.1, port 443 by tcp",
                "2 more questions after this",
            ]
        );
        let listens = request(Direction::In, "::", 0, &[]);
        assert_eq!(
            lines(&who(), &[listens], 0)[1],
            "wants to be reached by tcp at a free port of all addresses"
        );
    }

    #[test]
    fn a_raw_socket_is_known_by_its_protocol_and_has_no_port() {
        let words = |direction, number, target| {
            let protocol = Protocol::RawOf(number);
            let asked = Request { program: who().program, direction, protocol, target };
            lines(&who(), &[asked], 0)[1].clone()
        };
        let there = Target::ip(Direction::Out, "192.0.2.1".parse().unwrap(), 0, vec![]);
        assert_eq!(
            words(Direction::Out, 1, there.without_port()),
            "wants to reach 192.0.2.1 by a raw socket for protocol 1, icmp"
        );
        let open = |number| words(Direction::Open, number, Target::Socket);
        assert_eq!(open(89), "wants to open a raw socket for protocol 89, ospf");
        assert_eq!(open(200), "wants to open a raw socket for protocol 200");
    }

    #[test]
    fn servers_that_act_for_others_are_warned_of() {
        let target = Target::Path("/run/docker.sock".into());
        let asked = Request { target, ..request(Direction::Out, "::1", 1, &[]) };
        assert!(lines(&who(), &[asked], 0)[2].starts_with("Careful: "));
    }

    #[test]
    fn no_text_of_a_program_changes_the_screen() {
        assert_eq!(plain("a\u{1b}[2J\r\n\u{202e}b\u{7f}"), "a\\u{1b}[2J\\r\\n\\u{202e}b\\u{7f}");
        assert_eq!(plain(&"x".repeat(500)).chars().count(), SHOWN + 1);
        let shown = details(&who(), &request(Direction::Out, "::1", 1, &[])).join("\n");
        assert!(!shown.contains('\u{1b}'), "{shown}");
    }

    #[test]
    fn addresses_of_a_name_and_floods_are_one_card() {
        let a = request(Direction::Out, "192.0.2.1", 443, &["example.org"]);
        let b = request(Direction::Out, "2001:db8::1", 443, &["example.org"]);
        assert_eq!(
            lines(&who(), &[a.clone(), b.clone()], 0)[1..],
            ["wants to reach example.org 192.0.2.1, port 443 by tcp", "and at 2001:db8::1"]
        );
        assert_eq!(
            flood(&who(), 4000, 1)[1..],
            ["1 more question after this", "asks for 4000 things at once, such as to"]
        );
        assert_eq!(
            wishes(&[a, b]),
            [
                "- reach example.org 192.0.2.1, port 443 by tcp",
                "- reach example.org 2001:db8::1, port 443 by tcp",
            ]
        );
    }

    #[test]
    fn a_path_does_not_read_as_a_sentence() {
        let mut who = who();
        who.program.path = "/tmp/x (process 1, of init) wants to \"be\" nice".into();
        let subject = &lines(&who, &[], 0)[0];
        assert_eq!(
            subject,
            "\"/tmp/x (process 1, of init) wants to \\\"be\\\" nice\" (process 7, of bash)"
        );
    }

    fn text(scope: Scope, request: &Request, minutes: Option<u32>) -> String {
        let now = Timestamp::UNIX_EPOCH;
        rule(Action::Allow, scope, request, minutes, now).unwrap().to_string()
    }

    #[test]
    fn answers_make_rules_of_their_scope() {
        let plain = request(Direction::Out, "192.0.2.77", 443, &[]);
        let named = request(Direction::Out, "192.0.2.77", 443, &["www.example.org"]);
        let program = "{allow: out, program: /usr/bin/curl";
        let mut chosen = request(Direction::In, "192.0.2.77", 40000, &[]);
        chosen.target.set_free();
        let free = text(Scope::Destination, &chosen, None);
        assert!(free.ends_with(", to: 192.0.2.77, port: free, protocol: tcp}"), "{free}");
        assert!(
            lines(&who(), &[chosen], 0)[1].ends_with(" by tcp at 192.0.2.77, a free port (40000)")
        );
        for (scope, asked, rest) in [
            (Scope::Destination, &plain, ", to: 192.0.2.77, port: 443, protocol: tcp}"),
            (Scope::Destination, &named, ", to: www.example.org, port: 443, protocol: tcp}"),
            (Scope::Port, &plain, ", port: 443, protocol: tcp}"),
            (Scope::Network, &plain, ", to: 192.0.2.0/24}"),
            (Scope::Network, &named, ", to: \"*.example.org\"}"),
            (
                Scope::Network,
                &request(Direction::Out, "192.0.2.77", 443, &["example.co.uk"]),
                ", to: example.co.uk}",
            ),
            (Scope::Program, &named, "}"),
        ] {
            assert_eq!(text(scope, asked, None), format!("{program}{rest}"));
        }
        assert!(text(Scope::Program, &plain, Some(10)).contains("until: 1970-01-01T00:10:00Z"));
    }

    #[test]
    fn every_rule_is_about_what_was_asked() {
        for asked in [
            request(Direction::Out, "192.0.2.77", 443, &[]),
            request(Direction::Out, "fd00::1:2", 443, &["example.org", "a.b.example.org"]),
            request(Direction::In, "0.0.0.0", 80, &[]),
            Request {
                target: Target::Path("/run/x".into()),
                ..request(Direction::Out, "::1", 1, &[])
            },
            Request {
                target: Target::Abstract("x".into()),
                ..request(Direction::Out, "::1", 1, &[])
            },
            Request {
                target: Target::Socket,
                direction: Direction::Open,
                ..request(Direction::Out, "::1", 1, &[])
            },
        ] {
            for scope in [Scope::Destination, Scope::Port, Scope::Network, Scope::Program] {
                let now = Timestamp::UNIX_EPOCH;
                let Some(rule) = rule(Action::Allow, scope, &asked, None, now) else { continue };
                let default = Action::Deny(Errno::default());
                let policy = Policy { default, rules: vec![rule], ..Policy::default() };
                assert_eq!(policy.decide(&asked, now).action, Action::Allow, "{scope:?} {asked:?}");
            }
        }
    }

    #[test]
    fn a_program_without_a_path_gets_no_rule() {
        let mut asked = request(Direction::Out, "192.0.2.1", 1, &[]);
        asked.program.path = String::new();
        assert_eq!(rule(Action::Allow, Scope::Program, &asked, None, Timestamp::UNIX_EPOCH), None);
        asked.program.path = "/tmp/x (deleted)".into();
        assert!(rule(Action::Allow, Scope::Program, &asked, None, Timestamp::UNIX_EPOCH).is_some());
    }
}
