//! What nodes need of a host.

use netloom_model::plan::{Plan, Slot};

/// Memory of a bare node with its first link, as `netloom bench lab` measures it (`node_kib` in SPECIFICATION.md).
pub const NODE_BYTES: u64 = 552 << 10;

/// Memory of a pair of veth interfaces, measured.
pub const PAIR_BYTES: u64 = 97_000;

/// What something needs of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Bytes of memory: limits, memory of guests, and what netloom itself takes for nodes.
    pub memory: u64,
    /// Thousandths of CPUs: limits, processors of guests.
    pub cpu_milli: u64,
}

impl std::ops::Add for Demand {
    type Output = Demand;

    fn add(self, other: Demand) -> Demand {
        Demand {
            memory: self.memory.saturating_add(other.memory),
            cpu_milli: self.cpu_milli.saturating_add(other.cpu_milli),
        }
    }
}

/// What each node needs beside those around it: limits of a node bound the nodes in it, too.
pub fn demand(plan: &Plan) -> Vec<Demand> {
    // By node: whether it or a node around it has a limit of memory, and of CPU.
    let mut bounded: Vec<[bool; 2]> = Vec::with_capacity(plan.nodes.len());
    let mut all = Vec::with_capacity(plan.nodes.len());
    for node in &plan.nodes {
        let around = node.parent.and_then(|parent: Slot| bounded.get(parent.get())).copied();
        let around = around.unwrap_or_default();
        let machine = node.kind.as_vm();
        let memory = node.limits.memory.or(machine.map(|of| of.memory));
        let cpu = node.limits.cpu_milli.map(u64::from);
        let cpu = cpu.or(machine.map(|of| u64::from(of.cpus) * 1000));
        bounded.push([around[0] || memory.is_some(), around[1] || cpu.is_some()]);
        all.push(Demand {
            memory: NODE_BYTES + memory.filter(|_| !around[0]).unwrap_or_default(),
            cpu_milli: cpu.filter(|_| !around[1]).unwrap_or_default(),
        });
    }
    all
}
