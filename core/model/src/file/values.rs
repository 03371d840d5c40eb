//! Values that several maps of the file share: MTUs, prefixes, owners, a value or a list of them.

use ipnet::IpNet;
use netloom_config::{Node as Yaml, Path, Place, Report, read};

use crate::naming::owner_problem;

/// A value with the place for its errors.
#[derive(Clone, Debug)]
pub(crate) struct At<T> {
    pub value: T,
    pub place: Place,
}

/// An MTU: from the minimum of IPv4 (RFC 791) to the maximum of Linux' Ethernet devices.
pub(crate) fn mtu(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Option<u32> {
    read::integer(value, path, 68..=65535, report).and_then(|n| u32::try_from(n).ok())
}

/// One prefix or a list, at most one of each family, each with room for two hosts.
pub(crate) fn subnet(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Vec<At<IpNet>> {
    let mut found: Vec<At<IpNet>> = Vec::new();
    each_or_only(value, path, report, |item, path, report| {
        let Some(net) = read::prefix(item, path, report) else { return };
        // Both ends need an address.
        if net.prefix_len() == net.max_prefix_len() {
            return report.error(item.place, format!("{path}: {net} has no room for two hosts"));
        }
        if let Some(reason) = unusable(&net) {
            return report.error(item.place, format!("{path}: {net} {reason}"));
        }
        if found.iter().any(|f| is_ipv4(&f.value) == is_ipv4(&net)) {
            return report.error(
                item.place,
                format!("{path}: a second {} prefix; one of each family at most", family(&net)),
            );
        }
        found.push(At { value: net, place: item.place });
    });
    found
}

/// Why no host can have an address of this prefix.
pub(crate) fn unusable(net: &IpNet) -> Option<&'static str> {
    let address = net.addr();
    match net {
        _ if address.is_multicast() => Some("is for multicast"),
        _ if address.is_loopback() => Some("is for loopback"),
        IpNet::V4(v4) if v4.addr().octets()[0] == 0 => Some("is not for hosts"),
        // Class E, 240.0.0.0/4 (RFC 1112, section 4), with the broadcast address.
        IpNet::V4(v4) if v4.addr().octets()[0] >= 240 => Some("is reserved"),
        _ if address.is_unspecified() => Some("is not for hosts"),
        _ => None,
    }
}

pub(crate) fn is_ipv4(net: &IpNet) -> bool {
    matches!(net, IpNet::V4(_))
}

pub(crate) fn family(net: &IpNet) -> &'static str {
    if is_ipv4(net) { "IPv4" } else { "IPv6" }
}

/// Reads a single value, or each item of a list of them, which must not be empty.
pub(crate) fn each_or_only(
    value: &Yaml,
    path: &Path<'_>,
    report: &mut Report,
    mut each: impl FnMut(&Yaml, &Path<'_>, &mut Report),
) {
    match value.items() {
        None => each(value, path, report),
        Some([]) => report.error(value.place, format!("{path}: the list is empty")),
        Some(items) => {
            for (i, item) in items.iter().enumerate() {
                each(item, &path.index(i), report);
            }
        }
    }
}

/// A text that is not empty.
pub(crate) fn non_empty(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Option<String> {
    let text = read::text(value, path, report)?;
    if text.is_empty() {
        report.error(value.place, format!("{path}: empty"));
        return None;
    }
    Some(text)
}

/// The name or number of a user or group.
pub(crate) fn owner(
    value: &Yaml,
    path: &Path<'_>,
    what: &str,
    report: &mut Report,
) -> Option<String> {
    let text = read::text(value, path, report)?;
    if let Some(problem) = owner_problem(what, &text) {
        report.error(value.place, format!("{path}: {problem}"));
        return None;
    }
    Some(text)
}
