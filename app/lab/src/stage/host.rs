//! The host as labs see it: whether plans reach it, the names of netloom's links on it, its name servers.

use std::ffi::OsStr;
use std::fs;

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

/// The host's name servers that are not on loopback, where these are known.
fn hosts_name_servers() -> String {
    let stub = "127.0.0.53";
    let own = fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    let real = own.contains(stub).then(|| fs::read_to_string("/run/systemd/resolve/resolv.conf"));
    real.and_then(|text| text.ok()).unwrap_or(own)
}
