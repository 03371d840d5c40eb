//! The node around a virtual machine: what its init is told, so that the machine is its only program.
//!
//! The node has the plan's interfaces without addresses and routes, which are the guest's. Its readiness is what the
//! machine's process tells.

use netloom_model::kinds::vm::Machine;
use netloom_model::lab::{Program, Ready};
use netloom_model::plan::PlannedNode;
use netloom_node::spec::NodeSpec;
use netloom_vm::{SPEC, STATE, Spec, VERB};

use crate::{Error, Result};

/// Settings of the node around a machine: it says nothing itself on the guest's links.
const SILENT: [(&str, &str); 2] =
    [("net/ipv6/conf/all/disable_ipv6", "1"), ("-net/ipv6/conf/default/disable_ipv6", "1")];

/// The node of a machine.
pub(crate) fn around(
    spec: NodeSpec,
    lab: &str,
    node: &PlannedNode,
    machine: &Machine,
) -> Result<NodeSpec> {
    let told = Spec { lab: lab.to_owned(), node: node.clone() };
    let object = format!("node {:?}", node.name);
    let told = serde_json::to_string(&told).map_err(Error::of(object, "describe its machine"))?;
    let command = vec!["/proc/self/exe".to_owned(), VERB.to_owned()];
    Ok(NodeSpec {
        sysctls: SILENT.map(|(path, value)| (path.to_owned(), value.to_owned())).to_vec(),
        env: vec![(SPEC.to_owned(), told)],
        setup: Vec::new(),
        run: vec![Program { command, restart: machine.restart }],
        ready: Ready { timeout: node.ready.timeout, ..Ready::default() },
        told_in: Some(STATE.into()),
        ..spec
    })
}

/// The first machine of these nodes that cannot run on this computer.
///
/// # Errors
/// What is missing, and what to install.
pub(crate) fn check<'a>(nodes: impl Iterator<Item = &'a PlannedNode>) -> Result<()> {
    let machines = nodes.filter_map(|node| node.kind.as_vm());
    match machines.filter_map(netloom_vm::lacking).next() {
        None => Ok(()),
        Some(unsupported) => Err(unsupported.into()),
    }
}
