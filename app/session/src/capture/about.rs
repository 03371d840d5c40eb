//! What a capture file says of itself.

use netloom_capture::About;
use netloom_model::Plan;

/// Metadata of a file: this program and system, and with a lab its name, the names of all its nodes, and `what` is
/// captured of it.
pub fn about(plan: Option<&Plan>, what: &str) -> About {
    let mut names = vec![];
    for node in plan.iter().flat_map(|plan| &plan.nodes) {
        for address in node.interfaces.iter().flat_map(|i| &i.addresses) {
            names.push((address.addr(), vec![node.name.clone()]));
        }
    }
    let system = rustix::system::uname();
    let word = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    About {
        application: concat!("netloom ", env!("CARGO_PKG_VERSION")).to_owned(),
        os: format!("{} {}", word(system.sysname()), word(system.release())),
        hardware: Some(word(system.machine())),
        comment: plan.map(|plan| format!("lab {}: {what}", plan.lab)),
        names,
    }
}
