//! Labs and hosts for tests, from text as users write it.

use netloom_digest::splitmix::SplitMix64;
use netloom_model::plan::{Placement, Plan, plan};
use netloom_model::{Hosts, Lab};
use netloom_placement::{Earlier, Error, account, place};

pub(crate) struct Case {
    pub(crate) lab: Lab,
    pub(crate) plan: Plan,
    pub(crate) hosts: Hosts,
}

impl Case {
    pub(crate) fn new(lab: &str, hosts: &Hosts) -> Case {
        let lab = netloom_model::parse("lab.yaml", lab.as_bytes(), "lab");
        let lab = lab.unwrap_or_else(|errors| panic!("{errors}"));
        Case { plan: plan(&lab).unwrap(), lab, hosts: hosts.clone() }
    }

    pub(crate) fn place(&self) -> Result<Placement, Vec<Error>> {
        place(&self.plan, &self.lab.place, &self.hosts, None)
    }

    pub(crate) fn place_after(&self, earlier: &Earlier) -> Result<Placement, Vec<Error>> {
        place(&self.plan, &self.lab.place, &self.hosts, Some(earlier))
    }

    pub(crate) fn earlier(&self, placement: &Placement) -> Earlier {
        Earlier::of(&account(&self.plan, &self.lab.place, &self.hosts, placement))
    }

    /// Why it cannot be placed, as users see it.
    pub(crate) fn refused(&self) -> String {
        let errors = self.place().map(|_| ()).unwrap_err();
        errors.iter().map(|error| format!("{error}\n")).collect()
    }

    /// The host of a node or switch.
    pub(crate) fn host(&self, placement: &Placement, name: &str) -> String {
        let node = self.plan.node(name).and_then(|slot| placement.of_node(slot));
        let switch = || Some(placement.of_switch(self.plan.switch(name)?)[0]);
        placement.hosts()[node.or_else(switch).unwrap_or_else(|| panic!("no {name}"))].clone()
    }

    /// By host: how many nodes.
    pub(crate) fn counts(&self, placement: &Placement) -> Vec<usize> {
        let mut counts = vec![0; self.hosts.list.len()];
        self.plan.slots().for_each(|slot| counts[placement.of_node(slot).unwrap()] += 1);
        counts
    }
}

/// Hosts `a`, `b`, … from a text each: `capacity: {cpu: 4}`.
pub(crate) fn hosts(bodies: &[&str]) -> Hosts {
    let mut text = "hosts:\n".to_owned();
    for (at, body) in bodies.iter().enumerate() {
        let letter = char::from(b'a' + u8::try_from(at).unwrap());
        let comma = if body.is_empty() { "" } else { ", " };
        text += &format!("  {letter}: {{underlay: 192.0.2.{}{comma}{body}}}\n", at + 1);
    }
    netloom_model::parse_hosts("hosts.yaml", text.as_bytes()).unwrap_or_else(|e| panic!("{e}"))
}

/// Equal hosts.
pub(crate) fn equal(count: usize) -> Hosts {
    hosts(&vec![""; count])
}

/// A lab at random: nodes, some with limits or nodes inside, switches, links.
pub(crate) fn random(random: &mut SplitMix64) -> String {
    let (nodes, switches) = (1 + random.index(40), random.index(6));
    let mut text = "name: random\nrouting: none\nnodes:\n".to_owned();
    for at in 0..nodes {
        let body = match random.below(8) {
            0 => "limits: {cpu: 50%, memory: 64MiB}".to_owned(),
            1 => "limits: {cpu: 2, memory: 128MiB}".to_owned(),
            2 => "children: {nodes: {c: {}, d: {limits: {cpu: 50%}}}}".to_owned(),
            _ => String::new(),
        };
        text += &format!("  n{at}: {{{body}}}\n");
    }
    text += "switches:\n";
    (0..switches).for_each(|at| text += &format!("  s{at}: {{}}\n"));
    text += "links:\n";
    for at in 0..switches {
        text += &format!("  - [n{}, s{at}]\n", random.index(nodes));
    }
    for _ in 0..random.index(3 * nodes) {
        let first = random.index(nodes);
        let second = match random.below(3) {
            0 if switches > 0 => format!("s{}", random.index(switches)),
            _ => format!("n{}", random.index(nodes)),
        };
        if second == format!("n{first}") {
            continue;
        }
        text += &format!("  - [n{first}, {second}]\n");
    }
    text
}
