//! Configuration of a slicer, from the plan: switches with the numbers of their ports, and slices with their controllers.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use netloom_model::Plan;
use netloom_model::kinds::openflow::Controller;
use netloom_model::slices::Slice;
use netloom_ofconn::{Controller as Reached, Target};
use netloom_slice::application::tls;
use netloom_slice::{Policy, SlicePolicy, SwitchPolicy};

/// The name of a node's network namespace.
pub(super) fn space_of(node: &str) -> String {
    format!("node:{node}")
}

/// The nodes with controllers of slices.
pub(super) fn nodes(plan: &Plan) -> impl Iterator<Item = &str> {
    let all: BTreeSet<&str> = plan.slices.iter().flat_map(Slice::nodes).collect();
    all.into_iter()
}

/// All slices.
pub(super) fn policy(plan: &Plan) -> Policy {
    let switch = |slot| {
        let switch = plan.switch_at(slot)?;
        // A switch without slices has its own controllers.
        let options = switch.kind.as_openflow().filter(|_| plan.is_sliced(&switch.name))?;
        Some(SwitchPolicy {
            name: switch.name.clone(),
            datapath: options.datapath.map(|id| id.get()),
            ports: plan.ports_of_slices(slot),
        })
    };
    Policy {
        switches: plan.switch_slots().filter_map(switch).collect(),
        slices: plan.slices.iter().map(slice).collect(),
    }
}

fn slice(slice: &Slice) -> SlicePolicy {
    SlicePolicy {
        slice: slice.clone(),
        controllers: slice.controllers.iter().map(controller).collect(),
        tls: slice.tls.clone().map(tls),
    }
}

/// A controller with the namespace that it is reached from; the slicer is in the host's.
pub(super) fn controller(controller: &Controller) -> Reached {
    let here = |port: u16| Target::Tcp(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    let (target, namespace) = match controller {
        // Controllers at addresses of the host need no namespace: the slicer is there.
        Controller::Tcp(address, port) => (Target::Tcp(SocketAddr::new(*address, *port)), None),
        Controller::Tls(address, port) => (Target::Tls(SocketAddr::new(*address, *port)), None),
        Controller::Unix(path) => (Target::Unix(path.clone()), None),
        Controller::Node(node, port) => (here(*port), Some(space_of(node))),
        Controller::Host(port) => (here(*port), None),
    };
    Reached { target, namespace }
}
