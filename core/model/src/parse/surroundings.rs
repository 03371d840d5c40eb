//! Reads what a node has around its programs: files of the host bound in, ports of the host, its host name, loopback
//! addresses, and what it forwards.

use ipnet::IpNet;
use netloom_config::{Kind, Node as Yaml, Path, Report, quote, read};

use super::common::{check_inner_path, map};
use crate::file::values::{each_or_only, non_empty, unusable};
use crate::file::{Fields, choice, elsewhere};
use crate::forwarding::{Forwarding, OneFamily};
use crate::keys::BIND;
use crate::lab::{Bind, Node};
use crate::naming::{host_name_problem, is_closed};
use crate::published::{self, Published};

/// The most loopback addresses of a node.
const MOST_LOOPBACK: usize = 256;

/// The most ports of a node.
const MOST_PORTS: usize = 256;

/// Reads these keys of a node.
pub(crate) fn read_surroundings(
    fields: &Fields<'_>,
    path: &Path<'_>,
    node: &mut Node,
    report: &mut Report,
) {
    if let Some(value) = fields.get("hostname") {
        let path = path.key("hostname");
        node.hostname = non_empty(value, &path, report);
        if let Some(problem) = node.hostname.as_deref().and_then(host_name_problem) {
            report.error(value.place, format!("{path}: {problem}"));
        }
    }
    if let Some(value) = fields.get("loopback") {
        let path = path.key("loopback");
        each_or_only(value, &path, report, |item, path, report| {
            let Some(net) = loopback(item, path, report) else { return };
            if node.loopback.iter().any(|known| known.addr() == net.addr()) {
                return report.error(item.place, format!("{path}: {} is given twice", net.addr()));
            }
            node.loopback.push(net);
        });
        if node.loopback.len() > MOST_LOOPBACK {
            let message = format!("{path}: more than {MOST_LOOPBACK} addresses");
            report.error(value.place, message);
        }
    }
    if let Some(value) = fields.get("ports") {
        let path = path.key("ports");
        each_or_only(value, &path, report, |item, path, report| {
            let Ok(port) = item.text.parse::<Published>() else {
                return read::expected(item, path, published::EXPECTED, report);
            };
            match node.ports.iter().find(|known| known.clashes(&port)) {
                Some(known) => {
                    let message =
                        format!("{path}: the host has one such port, and {known} takes it");
                    report.error(item.place, message);
                }
                None => node.ports.push(port),
            }
        });
        if node.ports.len() > MOST_PORTS {
            report.error(value.place, format!("{path}: more than {MOST_PORTS} ports"));
        }
    }
    if let Some(value) = fields.get("binds") {
        node.binds = binds(value, &path.key("binds"), report);
    }
}

/// `true`, `false`, or one family.
pub(crate) fn forwarding(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Forwarding {
    match value.text.as_str() {
        "ipv4" => Forwarding::Only(OneFamily::Ipv4),
        "ipv6" => Forwarding::Only(OneFamily::Ipv6),
        _ if matches!(value.kind, Kind::Bool(_)) => {
            Forwarding::Both(read::boolean(value, path, report).unwrap_or_default())
        }
        "yes" | "no" | "on" | "off" => {
            Forwarding::Both(read::boolean(value, path, report).unwrap_or_default())
        }
        // An expression gives text.
        "true" => Forwarding::Both(true),
        "false" => Forwarding::Both(false),
        _ => {
            read::expected(value, path, "true, false, ipv4 or ipv6", report);
            Forwarding::default()
        }
    }
}

/// An address of loopback; without a prefix length it is that address alone.
fn loopback(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Option<IpNet> {
    let text = read::text(value, path, report)?;
    let alone = text.parse::<std::net::IpAddr>().ok().map(IpNet::from);
    let Some(net) = alone.or_else(|| text.parse().ok()) else {
        read::expected(
            value,
            path,
            "an address like 10.0.0.1, or one with a prefix length",
            report,
        );
        return None;
    };
    if let Some(reason) = unusable(&net) {
        report.error(value.place, format!("{path}: {net} {reason}"));
        return None;
    }
    Some(net)
}

/// Files and directories of the host, those around others first.
fn binds(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Vec<Bind> {
    let mut binds: Vec<Bind> = Vec::new();
    if value.items().is_some() {
        let message = format!("{path}: expected a map from paths in the node to paths on the host");
        report.error_with(value.place, message, Some(elsewhere::files(value)));
        return binds;
    }
    for entry in map(value, path, "a map from paths in the node to paths on the host", report) {
        let to = match entry.key.trim_end_matches('/') {
            "" => "/",
            to => to,
        };
        let path = path.key(&entry.key);
        check_inner_path(to, entry.place, &path, report);
        if is_closed(to) {
            let message = format!("{path}: /proc, /sys and /dev are the node's own");
            report.error(entry.place, message);
        }
        if binds.iter().any(|bind| bind.to == to) {
            report.error(entry.place, format!("{path}: the path is given twice"));
        }
        binds.extend(bind(to, &entry.value, &path, report));
    }
    // Stable, and a directory is before what is bound below it.
    binds.sort_by_key(|bind| bind.to.split('/').count());
    binds
}

fn bind(to: &str, value: &Yaml, path: &Path<'_>, report: &mut Report) -> Option<Bind> {
    let to = to.to_owned();
    if !matches!(value.kind, Kind::Map(_)) {
        return Some(Bind { to, from: source(value, path, report)?, write: false });
    }
    let fields = Fields::open(value, path, &BIND, report)?;
    let access = fields
        .get("access")
        .and_then(|v| choice(v, &path.key("access"), (&BIND, "access"), &["ro", "rw"], report));
    let from = source(fields.get("from")?, &path.key("from"), report)?;
    Some(Bind { to, from, write: access == Some("rw") })
}

/// A path on the host.
fn source(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Option<std::path::PathBuf> {
    let text = non_empty(value, path, report)?;
    if text.contains('\0') {
        report
            .error(value.place, format!("{path}: the path {} holds a NUL character", quote(&text)));
        return None;
    }
    Some(text.into())
}
