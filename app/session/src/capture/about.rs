//! What a capture file says of itself.

use netloom_capture::About;
use netloom_model::Plan;

/// Metadata of a file: this program and system, and with a lab its name, the names of all its nodes, and `what` is
/// captured of it.
pub fn about(plan: Option<&Plan>, what: &str) -> About {
    let mut names = vec![];
    for node in plan.iter().flat_map(|plan| &plan.nodes) {
        for address in node.all_addresses() {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_loopback_have_their_nodes_name() {
        let text = "name: t\nnodes: {a: {loopback: [10.255.0.1]}, b: {}}\nlinks: [[a, b]]\n";
        let lab = netloom_model::parse("t.yaml", text.as_bytes(), "t").unwrap();
        let plan = netloom_model::plan::plan(&lab).unwrap();
        let names = about(Some(&plan), "all").names;
        assert!(
            names.contains(&("10.255.0.1".parse().unwrap(), vec!["a".to_owned()])),
            "{names:?}"
        );
        // A filter's `host a` has it as well.
        assert!(plan.addresses_of("a").unwrap().contains(&"10.255.0.1".parse().unwrap()));
    }
}
