//! Hosts of Mininet.

use crate::at::At;
use crate::draft::{self, Draft, Node, Route};
use crate::mininet::Names;
use crate::mininet::links::net;
use crate::mininet::record::Record;
use crate::shell;

/// Reads the hosts, whose links are known.
pub(super) fn read(root: &At<'_>, record: &Record<'_>, names: &Names, draft: &mut Draft) {
    let hosts = root.get("hosts").map(|at| at.entries()).unwrap_or_default();
    for (name, at) in &hosts {
        if record.kind_of_host(name) == Some("nat") {
            at.changed("the end `internet` of a link");
            continue;
        }
        let Some(node) = names.get(*name).and_then(|node| draft.node(node)) else { continue };
        for (key, at) in at.entries() {
            match record.note("hosts", name, key) {
                Some(why) => at.changed(why),
                None => property(key, &at, node),
            }
        }
        if at.is_empty() {
            at.carried();
        }
        if let Some(words) = record.default_route(name) {
            route(words, node);
        }
    }
}

fn property(key: &str, at: &At<'_>, node: &mut Node) {
    match key {
        "cls" => match at.text().unwrap_or_default() {
            "Host" | "Node" | "CPULimitedHost" => at.carried(),
            _ => at.changed("a plain node, with the commands of its class"),
        },
        "ip" if at.text().is_some_and(|text| net(text).is_none() && !text.is_empty()) => {
            at.odd("an address");
        }
        "ip" | "mac" | "defaultRoute" => at.carried(),
        "cpu" => match at.text().and_then(|text| text.parse::<f64>().ok()) {
            Some(share) if share >= 0.01 => {
                node.keys.push(("limits", format!("{{cpu: {}}}", draft::cpus(share).0)));
                at.carried();
            }
            _ => at.carried(),
        },
        "inNamespace" if at.is_true() => at.carried(),
        "inNamespace" => at.left_out("a node has a network of its own"),
        "cores" | "sched" => at.left_out("netloom binds no node to processors"),
        "privateDirs" => at.changed("whatever a node writes is its own"),
        "xpos" | "ypos" | "height" | "width" => at.drawing(),
        // Those of a class of the script's own have done what they do.
        _ => at.changed("its class has taken it"),
    }
}

/// What follows `ip route add default`.
fn route(words: &str, node: &mut Node) {
    let words: Vec<&str> = words.split_whitespace().collect();
    let mut route = Route { to: "default".into(), via: None, dev: None };
    for pair in words.chunks(2) {
        match pair {
            ["via", via] => route.via = Some((*via).to_owned()),
            ["dev", dev] => route.dev = Some((*dev).to_owned()),
            // Such as a metric.
            _ => {
                let command = ["ip", "route", "add", "default"].iter().chain(&words);
                let command = command.map(|word| (*word).to_owned()).collect();
                return node.setup.push(shell::forgiving(command));
            }
        }
    }
    node.routes.push(route);
}
