//! Hosts of Mininet.

use crate::at::At;
use crate::draft::{Draft, Route};
use crate::mininet::links::net;
use crate::mininet::record::Record;

/// Reads the hosts, whose links are known.
pub(super) fn read(root: &At<'_>, record: &Record<'_>, draft: &mut Draft) {
    let hosts = root.get("hosts").map(|at| at.entries()).unwrap_or_default();
    for (name, at) in &hosts {
        if at.text_of("cls") == Some("NAT") {
            at.changed("the end `internet` of a link");
            continue;
        }
        for (key, at) in at.entries() {
            property(name, key, &at, draft);
        }
        if at.is_empty() {
            at.carried();
        }
        let gateway = record.gateway(name).and_then(|nat| root.get("hosts")?.get(nat));
        let via = gateway.as_ref().and_then(|at| at.text_of("ip")).and_then(net);
        if let (Some(via), Some(node)) = (via, draft.node(name))
            && node.routes.is_empty()
        {
            let (to, via) = ("default".to_owned(), Some(via.addr().to_string()));
            node.routes.push(Route { to, via, dev: None });
        }
    }
    doors(&hosts, draft);
}

/// The end of a door gets the address that the NAT node has.
fn doors(hosts: &[(&str, At<'_>)], draft: &mut Draft) {
    let nat = hosts.iter().find(|(_, at)| at.text_of("cls") == Some("NAT"));
    let net = nat.and_then(|(_, at)| at.text_of("ip")).and_then(net);
    let ends = draft.links.iter_mut().flat_map(|link| link.ends.iter_mut());
    for end in ends.filter(|end| end.at == "internet") {
        end.addresses.extend(net);
    }
}

fn property(name: &str, key: &str, at: &At<'_>, draft: &mut Draft) {
    match key {
        "cls" => match at.text().unwrap_or_default() {
            "Host" | "Node" | "CPULimitedHost" => at.carried(),
            _ => at.changed("a plain node, with the commands of its class"),
        },
        "ip" => match at.text().and_then(net) {
            Some(net) => {
                if let Some(end) = first(name, draft)
                    && end.addresses.is_empty()
                {
                    end.addresses.push(net);
                }
                at.carried();
            }
            None if at.is_empty() || at.text() == Some("no ip defined") => at.carried(),
            None => at.odd("an address"),
        },
        "mac" => {
            if let (Some(text), Some(end)) = (at.text(), first(name, draft)) {
                end.mac.get_or_insert_with(|| text.to_owned());
            }
            at.carried();
        }
        "defaultRoute" => route(name, at, draft),
        "cpu" => match at.text().and_then(|text| text.parse::<f64>().ok()) {
            Some(share) if share >= 0.01 => {
                if let Some(node) = draft.node(name) {
                    node.keys.push(("limits", format!("{{cpu: {}%}}", (share * 100.0).round())));
                }
                at.changed("a share of one CPU, not of all");
            }
            _ => at.carried(),
        },
        "inNamespace" if at.is_true() => at.carried(),
        "inNamespace" => at.left_out("a node has a network of its own"),
        "cores" | "sched" => at.left_out("netloom binds no node to processors"),
        "privateDirs" => at.changed("whatever a node writes is its own"),
        "xpos" | "ypos" | "height" | "width" => at.drawing(),
        _ => {}
    }
}

/// The end of a host's first interface.
fn first<'d>(name: &str, draft: &'d mut Draft) -> Option<&'d mut crate::draft::End> {
    let ends = draft.links.iter_mut().flat_map(|link| link.ends.iter_mut());
    let mut own: Vec<_> = ends.filter(|end| end.at == name && end.iface.is_some()).collect();
    own.sort_by_key(|end| number(end.iface.as_deref().unwrap_or_default()));
    own.into_iter().next()
}

/// The number at the end of an interface's name.
fn number(name: &str) -> u32 {
    let digits = name.trim_start_matches(|c: char| !c.is_ascii_digit());
    let digits = name.rsplit_once("eth").map_or(digits, |(_, digits)| digits);
    digits.parse().unwrap_or(0)
}

/// `via ADDRESS`, `dev IFACE`, or both.
fn route(name: &str, at: &At<'_>, draft: &mut Draft) {
    let words: Vec<&str> = at.text().unwrap_or_default().split_whitespace().collect();
    let after = |word| {
        let at = words.iter().position(|w| *w == word)?;
        words.get(at + 1).map(|text| (*text).to_owned())
    };
    let (mut via, dev) = (after("via"), after("dev"));
    if let [only] = words.as_slice() {
        via = Some((*only).to_owned());
    }
    if via.is_none() && dev.is_none() {
        return at.odd("via ADDRESS");
    }
    if let Some(node) = draft.node(name) {
        node.routes.push(Route { to: "default".into(), via, dev });
    }
    at.carried();
}
