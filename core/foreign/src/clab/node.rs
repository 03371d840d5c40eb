//! A node of containerlab by its kind: a node, a switch, or nothing.

use crate::at::At;
use crate::clab::layers::{Inherited, Layers};
use crate::clab::management::Network;
use crate::clab::{MTU, Place, bridge, properties};
use crate::draft::{Draft, Node};
use crate::{Job, valid_name};

/// A name for a node that is free in the lab.
pub(super) fn name(wish: &str, draft: &Draft) -> Option<String> {
    let name = valid_name(wish);
    (!name.is_empty()).then(|| draft.free_name(&name))
}

/// Reads a node; `name` is containerlab's and the lab file's.
pub(super) fn read(
    job: &Job<'_>,
    layers: &Layers<'_>,
    network: &Network<'_>,
    name: (&str, &str),
    at: &At<'_>,
    draft: &mut Draft,
) -> Place {
    let from = layers.of(at);
    match from.kind.as_str() {
        "bridge" => switch(
            &from,
            name.1,
            vec![("mtu", MTU.to_string())],
            "a bridge of the lab, not the host's",
            draft,
        ),
        "ovs-bridge" => {
            let keys = vec![("kind", "openflow".to_owned()), ("mtu", MTU.to_string())];
            switch(
                &from,
                name.1,
                keys,
                "an OpenFlow switch of the lab, not the host's Open vSwitch",
                draft,
            )
        }
        "host" => nothing(&from, "netloom makes no interfaces on the host"),
        "ext-container" => nothing(&from, "containers of others cannot join a lab"),
        "k8s-kind" => nothing(&from, "netloom runs no clusters"),
        _ => plain(job, &from, network, name, at, draft),
    }
}

/// What a node of no use for it inherits is there for others.
fn inherited(from: &Inherited<'_>, key: &str) {
    if properties::is_known(key) {
        from.all(key).iter().skip(usize::from(from.own(key).is_some())).for_each(At::carried);
    }
}

fn nothing(from: &Inherited<'_>, why: &'static str) -> Place {
    for key in from.keys() {
        inherited(from, key);
        match key {
            "kind" => from.nearest(key).iter().for_each(|at| at.left_out(why)),
            _ => from.own(key).iter().for_each(|at| at.left_out(why)),
        }
    }
    Place::Nothing(why)
}

fn switch(
    from: &Inherited<'_>,
    name: &str,
    keys: Vec<(&'static str, String)>,
    why: &str,
    draft: &mut Draft,
) -> Place {
    for key in from.keys() {
        inherited(from, key);
        match key {
            "kind" => from.nearest(key).iter().for_each(|at| at.changed(why)),
            _ => from.own(key).iter().for_each(|at| at.left_out("a switch has no such property")),
        }
    }
    bridge(name, keys, draft)
}

fn plain(
    job: &Job<'_>,
    from: &Inherited<'_>,
    network: &Network<'_>,
    (old, new): (&str, &str),
    at: &At<'_>,
    draft: &mut Draft,
) -> Place {
    let mut node = Node::named(new);
    // A container of Docker forwards IPv4, not IPv6.
    node.forwarding = Some("ipv4");
    if at.is_empty() {
        at.carried();
    }
    match from.nearest("network-mode") {
        Some(mode) if mode.text() == Some("none") => mode.carried(),
        mode => {
            mode.iter().for_each(|at| at.left_out("a node's network is its own"));
            network.join(from, &mut node, draft);
        }
    }
    properties::read(job, from, old, &mut node);
    draft.nodes.push(node);
    Place::Node(new.to_owned())
}
