//! Rewrites names of nodes and flows in filter expressions into libpcap's language.
//!
//! [`expand`] replaces `host NODE`, `src [host] NODE` and `dst [host] NODE` by the node's addresses, and
//! `flow:FROM->TO` by both directions of that conversation. All else is left unchanged to libpcap.
//! `FROM` and `TO` are `WHO`, `WHO:PORT` or `*`, where `WHO` is a node, an IPv4 address or an IPv6
//! address in brackets; `/tcp`, `/udp`, `/sctp` or `/icmp` may follow: `flow:h1->web:80/tcp`.
//!
//! A word that is not a node stays, because libpcap may resolve it as a host.

use std::net::IpAddr;

use crate::{Error, Result};

/// Protocols that may follow a flow.
const PROTOCOLS: [&str; 4] = ["tcp", "udp", "sctp", "icmp"];

/// Rewrites an expression into libpcap's language. `addresses` returns a node's addresses, none for
/// other words.
///
/// # Errors
/// [`Error::Words`]: an invalid flow, or one of a node without address.
pub fn expand(text: &str, addresses: &dyn Fn(&str) -> Option<Vec<IpAddr>>) -> Result<String> {
    let mut out = String::with_capacity(text.len());
    let mut last: Vec<&str> = vec![];
    for (gap, word) in words(text) {
        out.push_str(gap);
        if let Some(flow) = word.strip_prefix("flow:") {
            out.push_str(&self::flow(flow, addresses)?);
            last.clear();
            continue;
        }
        let node = starts_host(&last).then(|| addresses(word)).flatten();
        match node {
            Some(found) => {
                let known = direction(&last);
                // The words that lead to the name are repeated with each of its addresses.
                out.truncate(out.len() - written(&out, &last));
                out.push_str(&hosts(word, known, &found)?);
                last.clear();
            }
            None => {
                out.push_str(word);
                last.push(word);
            }
        }
    }
    Ok(out)
}

/// Gives the nodes in an expression other names: each word after `host`, `src` or `dst`, and each end of a flow, is asked
/// about. `None`: it stays as it is.
///
/// # Errors
/// The first one of `other`.
pub fn rename<E>(
    text: &str,
    other: impl Fn(&str) -> std::result::Result<Option<String>, E>,
) -> std::result::Result<String, E> {
    let mut out = String::with_capacity(text.len());
    let mut before = [""];
    for (gap, word) in words(text) {
        out.push_str(gap);
        let renamed = match word.strip_prefix("flow:") {
            Some(flow) => Some(rename_flow(flow, &other)?),
            None if starts_host(&before) => other(word)?,
            None => None,
        };
        out.push_str(renamed.as_deref().unwrap_or(word));
        before = [word];
    }
    Ok(out)
}

fn rename_flow<E>(
    flow: &str,
    other: &impl Fn(&str) -> std::result::Result<Option<String>, E>,
) -> std::result::Result<String, E> {
    let (ends, protocol) = parts(flow);
    let end = |end: &str| match end.split_once(':').unwrap_or((end, "")) {
        ("*" | "", _) => Ok(end.to_owned()),
        (address, _) if address.starts_with('[') => Ok(end.to_owned()),
        (name, port) => {
            let name = other(name)?.unwrap_or_else(|| name.to_owned());
            Ok(if port.is_empty() { name } else { format!("{name}:{port}") })
        }
    };
    let ends = match ends.split_once("->") {
        Some((from, to)) => format!("{}->{}", end(from)?, end(to)?),
        None => ends.to_owned(),
    };
    Ok(format!("flow:{ends}{}", protocol.map(|name| format!("/{name}")).unwrap_or_default()))
}

/// The ends of a flow, and its protocol.
fn parts(flow: &str) -> (&str, Option<&str>) {
    match flow.rsplit_once('/') {
        Some((ends, protocol)) if PROTOCOLS.contains(&protocol) => (ends, Some(protocol)),
        // Names of nodes in nodes contain a slash, too.
        _ => (flow, None),
    }
}

/// Words, each with the gap before it: blanks, parentheses, `!` and the like are not part of words.
fn words(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let is_gap = |c: char| c.is_whitespace() || matches!(c, '(' | ')' | '!' | '&' | '|');
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let start = rest.find(|c| !is_gap(c)).unwrap_or(rest.len());
        let (gap, from) = rest.split_at(start);
        // A flow contains `->`, and no character of a gap.
        let end = from.find(is_gap).unwrap_or(from.len());
        let (word, after) = from.split_at(end);
        rest = after;
        Some((gap, word))
    })
}

/// Whether a host may follow these words.
fn starts_host(last: &[&str]) -> bool {
    matches!(last.last(), Some(&("host" | "src" | "dst")))
}

/// `src `, `dst ` or nothing, and how many of the last words express it.
fn direction<'a>(last: &[&'a str]) -> (&'a str, usize) {
    match last {
        [.., way @ ("src" | "dst"), "host"] => (way, 2),
        [.., "host"] => ("", 1),
        [.., way @ ("src" | "dst")] => (way, 1),
        _ => ("", 0),
    }
}

/// How many bytes of `out` the replaced words take, with the blanks between and after them.
fn written(out: &str, last: &[&str]) -> usize {
    let (_, count) = direction(last);
    let first = last.len() - count;
    let mut at = out.len();
    for word in last.iter().skip(first).rev() {
        at = out.get(..at).and_then(|before| before.rfind(word)).unwrap_or(at);
    }
    out.len() - at
}

fn hosts(name: &str, (way, _): (&str, usize), found: &[IpAddr]) -> Result<String> {
    if found.is_empty() {
        return Err(Error::Words {
            word: name.to_owned(),
            reason: "the node has no address".into(),
        });
    }
    let each = found.iter().map(|address| format!("{way} host {address}").trim_start().to_owned());
    Ok(format!("({})", each.collect::<Vec<_>>().join(" or ")))
}

/// One end of a flow.
struct End<'a> {
    hosts: Option<Vec<IpAddr>>,
    name: &'a str,
    port: Option<u16>,
}

fn flow(text: &str, addresses: &dyn Fn(&str) -> Option<Vec<IpAddr>>) -> Result<String> {
    let wrong =
        |reason: &str| Error::Words { word: format!("flow:{text}"), reason: reason.to_owned() };
    let (ends, protocol) = parts(text);
    let (from, to) = ends.split_once("->").ok_or_else(|| wrong("FROM->TO is needed"))?;
    let [from, to] = [from, to].map(|end| end_of(end, addresses).map_err(|reason| wrong(&reason)));
    let (from, to) = (from?, to?);
    if protocol == Some("icmp") && (from.port.is_some() || to.port.is_some()) {
        return Err(wrong("ICMP has no ports"));
    }
    let one_way = |from: &End<'_>, to: &End<'_>| {
        let mut parts: Vec<String> = [("src", from), ("dst", to)]
            .into_iter()
            .filter_map(|(way, end)| Some((way, end, end.hosts.as_ref()?)))
            .filter_map(|(way, end, found)| hosts(end.name, (way, 0), found).ok())
            .collect();
        let ports = [("src", from.port), ("dst", to.port)].into_iter();
        parts.extend(ports.filter_map(|(way, port)| Some(format!("{way} port {}", port?))));
        parts.join(" and ")
    };
    let (there, back) = (one_way(&from, &to), one_way(&to, &from));
    let both = match (there.is_empty(), protocol) {
        (true, None) => return Err(wrong("it says nothing")),
        (true, Some(protocol)) => return Ok(by_name(protocol)),
        (false, _) => format!("(({there}) or ({back}))"),
    };
    Ok(protocol.map_or(both.clone(), |protocol| format!("({} and {both})", by_name(protocol))))
}

fn by_name(protocol: &str) -> String {
    if protocol == "icmp" { "(icmp or icmp6)".to_owned() } else { protocol.to_owned() }
}

fn end_of<'a>(
    text: &'a str,
    addresses: &dyn Fn(&str) -> Option<Vec<IpAddr>>,
) -> std::result::Result<End<'a>, String> {
    let (name, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((_, rest)) if !rest.is_empty() && !rest.starts_with(':') => {
            return Err(format!("{rest:?} behind the brackets is not a port"));
        }
        Some((name, rest)) => (name, rest.strip_prefix(':')),
        None => match text.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (text, None),
        },
    };
    let port = port.map(|port| port.parse().map_err(|_| format!("{port:?} is not a port")));
    let port = port.transpose()?;
    if matches!(name, "*" | "") {
        return Ok(End { hosts: None, name, port });
    }
    let found = addresses(name).or_else(|| Some(vec![name.parse().ok()?]));
    match found {
        Some(found) if !found.is_empty() => Ok(End { hosts: Some(found), name, port }),
        Some(_) => Err(format!("node {name:?} has no address")),
        None => Err(format!("{name:?} is neither a node nor an address")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(name: &str) -> Option<Vec<IpAddr>> {
        match name {
            "h1" => Some(vec!["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()]),
            "web" | "tenant/web" => Some(vec!["10.0.0.9".parse().unwrap()]),
            "bare" => Some(vec![]),
            _ => None,
        }
    }

    #[test]
    fn names_of_nodes_are_their_addresses() {
        for (text, expected) in [
            ("host h1", "(host 10.0.0.1 or host fd00::1)"),
            ("tcp and src h1", "tcp and (src host 10.0.0.1 or src host fd00::1)"),
            (
                "dst host web and not (host  h1)",
                "(dst host 10.0.0.9) and not ((host 10.0.0.1 or host fd00::1))",
            ),
            ("host 10.0.0.1", "host 10.0.0.1"),
            ("host example.org", "host example.org"),
            ("src port 80", "src port 80"),
            ("h1", "h1"),
            ("tcp[13] & 2 != 0 && host web", "tcp[13] & 2 != 0 && (host 10.0.0.9)"),
            ("", ""),
        ] {
            assert_eq!(expand(text, &nodes).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn flows_are_both_directions() {
        let all = "(tcp and (((src host 10.0.0.1 or src host fd00::1) and (dst host 10.0.0.9) and dst port 80) \
                   or ((src host 10.0.0.9) and (dst host 10.0.0.1 or dst host fd00::1) and src port 80)))";
        assert_eq!(expand("flow:h1->web:80/tcp", &nodes).unwrap(), all);
        for (text, expected) in [
            ("flow:*:53->*/udp", "(udp and ((src port 53) or (dst port 53)))"),
            ("flow:*->*/icmp", "(icmp or icmp6)"),
            (
                "flow:[fd00::7]:1->*",
                "(((src host fd00::7) and src port 1) or ((dst host fd00::7) and dst port 1))",
            ),
            (
                "arp or flow:tenant/web->*",
                "arp or (((src host 10.0.0.9)) or ((dst host 10.0.0.9)))",
            ),
        ] {
            assert_eq!(expand(text, &nodes).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn nodes_are_renamed_where_they_stand_for_addresses() {
        let other = |word: &str| match word {
            "bad" => Err(()),
            "a" | "b" => Ok(Some(format!("t/{word}"))),
            _ => Ok(None),
        };
        for (text, expected) in [
            ("host a and not (src  b)", "host t/a and not (src  t/b)"),
            ("a or src host a", "a or src host t/a"),
            ("src port 80 || dst host 10.0.0.1", "src port 80 || dst host 10.0.0.1"),
            (
                "flow:a:80->b/tcp or flow:*->[fd00::1]:5",
                "flow:t/a:80->t/b/tcp or flow:*->[fd00::1]:5",
            ),
            ("flow:x/a->t:1", "flow:x/a->t:1"),
            ("flow:a", "flow:a"),
            ("", ""),
        ] {
            assert_eq!(rename(text, other), Ok(expected.to_owned()), "{text}");
        }
        for text in ["host bad", "flow:a->bad:1", "dst bad"] {
            assert_eq!(rename(text, other), Err(()), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_flow_is_told() {
        for (text, expected) in [
            ("flow:h1", "flow:h1: FROM->TO is needed"),
            ("flow:*->*", "it says nothing"),
            ("flow:h7->web", "\"h7\" is neither a node nor an address"),
            ("flow:h1:x->web", "\"x\" is not a port"),
            ("flow:[::1]80->web", "\"80\" behind the brackets is not a port"),
            ("flow:bare->web", "node \"bare\" has no address"),
            ("flow:h1:1->web/icmp", "ICMP has no ports"),
            ("host bare", "the node has no address"),
        ] {
            let error = expand(text, &nodes).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
