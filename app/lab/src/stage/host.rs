//! The host as labs see it: whether plans reach it, the names of netloom's links on it, its name servers.

use std::fs;

use netloom_model::Plan;
use netloom_model::plan::PlannedEnd;
use netloom_sys::Unsupported;

/// The prefix of the names of netloom's links on the host.
pub(crate) const MARK: &str = "nl";

/// Whether the plan has doors.
pub(crate) fn wanted(plan: &Plan) -> bool {
    plan.links.iter().flat_map(|l| &l.ends).any(is_door)
}

fn is_door(end: &PlannedEnd) -> bool {
    matches!(end, PlannedEnd::Host { .. } | PlannedEnd::Internet { .. })
}

/// Why the labs of ordinary users have no doors.
pub(crate) fn unsupported() -> Unsupported {
    Unsupported {
        feature: "doors to the host",
        reason: "the host's network belongs to root".into(),
        needs: "run it as root: sudo netloom up …".into(),
    }
}

/// The host's name servers, for nodes that reach the host's network.
pub(crate) fn name_servers() -> String {
    let stub = "127.0.0.53";
    let own = fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    let real = own.contains(stub).then(|| fs::read_to_string("/run/systemd/resolve/resolv.conf"));
    real.and_then(|text| text.ok()).unwrap_or(own)
}
