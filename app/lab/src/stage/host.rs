//! The host as labs see it: whether plans reach it, the names of netloom's links on it, its name servers.

use std::ffi::OsStr;
use std::fs;
use std::net::IpAddr;

use netloom_model::Plan;
use netloom_model::plan::PlannedEnd;
use netloom_sys::Unsupported;
use netloom_uplink::{Tool, tool};

/// Checks that an ordinary user can have the doors of the plan.
///
/// # Errors
/// A door to an interface of the host, or no program for the others.
pub(crate) fn check_doors_of_user(plan: &Plan) -> Result<(), Unsupported> {
    let mut ends = plan.links.iter().flat_map(|link| &link.ends);
    if ends.clone().any(|end| matches!(end, PlannedEnd::Host { .. })) {
        return Err(unsupported());
    }
    if ends.any(|end| matches!(end, PlannedEnd::Internet { .. })) {
        ways_out()?;
    }
    Ok(())
}

/// Why the labs of ordinary users have no doors to interfaces of the host.
pub(crate) fn unsupported() -> Unsupported {
    Unsupported {
        feature: "doors to interfaces of the host",
        reason: "the host's network belongs to root".into(),
        needs: "run it as root: sudo netloom up …".into(),
    }
}

/// The programs that pass what leaves the lab of an ordinary user, the better first.
///
/// # Errors
/// There is none, or none can work.
pub(crate) fn ways_out() -> Result<Vec<Tool>, Unsupported> {
    // Services of root may have a PATH without the folders of the distribution's programs, and none is elsewhere.
    tool::usable(OsStr::new("/usr/local/bin:/usr/bin:/bin"))
}

/// The name servers of nodes that reach the host's network: the host's, or what asks these for an ordinary user's lab.
pub(crate) fn name_servers(user: bool) -> String {
    let real = hosts_name_servers();
    if !user {
        return real;
    }
    // Search lists and options stay.
    let rest = real.lines().filter(|line| !line.trim_start().starts_with("nameserver"));
    let rest: String = rest.map(|line| format!("{line}\n")).collect();
    format!("nameserver {}\n{rest}", netloom_uplink::NAME_SERVER)
}

/// Where programs that answer on loopback write down which name servers they ask: systemd-resolved, and NetworkManager for
/// its dnsmasq or for systemd-resolved.
const ASKED: [&str; 2] =
    ["/run/systemd/resolve/resolv.conf", "/run/NetworkManager/no-stub-resolv.conf"];

/// The host's name servers that are not on loopback, where these are known.
fn hosts_name_servers() -> String {
    let own = fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    real(own, ASKED.iter().filter_map(|path| fs::read_to_string(path).ok()))
}

/// What nodes can ask: `own`, unless it names servers on loopback alone; then the first of `asked` with another one.
fn real(own: String, mut asked: impl Iterator<Item = String>) -> String {
    let leads_out = |text: &String| servers(text).any(|server| !server.is_loopback());
    if leads_out(&own) || servers(&own).next().is_none() {
        return own;
    }
    asked.find(leads_out).unwrap_or(own)
}

/// The name servers of a resolv.conf(5).
fn servers(text: &str) -> impl Iterator<Item = IpAddr> {
    text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let address = words.next().filter(|word| *word == "nameserver").and(words.next())?;
        // An address of IPv6 may name its interface.
        address.split('%').next()?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_name_server_on_loopback_is_replaced_by_those_that_it_asks() {
        let real = |own: &str, asked: &[&str]| {
            super::real(own.to_owned(), asked.iter().map(|text| (*text).to_owned()))
        };
        let (out, none) = ("nameserver 192.0.2.1\n", "# nameserver 192.0.2.9\n");
        for stub in ["127.0.0.53", "127.0.0.1", "::1"] {
            let stub = format!("search example\nnameserver {stub}\n");
            assert_eq!(real(&stub, &[none, &stub, out]), out, "{stub}");
            // Not known: better than nothing at all.
            assert_eq!(real(&stub, &[none]), stub);
        }
        for own in
            [out, none, "nameserver fe80::1%eth0\n", "nameserver 127.0.0.1\nnameserver ::2\n"]
        {
            assert_eq!(real(own, &["nameserver 192.0.2.7\n"]), own);
        }
    }
}
