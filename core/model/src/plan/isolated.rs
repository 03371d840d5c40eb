//! A plan under another name that can stand beside the lab it is of: it shares nothing with it that only one may have.
//!
//! Addresses, hardware addresses and interface indexes stay, since each lab has networks of its own. Whatever leads out of the lab is left
//! out: doors, published ports, controllers elsewhere, folders of classic VDE, recording. Each is told in words.

use super::change::Renumbered;
use super::{Plan, PlannedEnd, PlannedLink};
use crate::kinds::SwitchKind;
use crate::kinds::shm::VdeFolder;

impl Plan {
    /// The copy, and what it does not have.
    ///
    /// # Errors
    /// Why there cannot be one: it has disks that only one guest may write, or slices, whose controllers are elsewhere.
    pub fn isolated(&self, name: &str) -> Result<(Plan, Vec<String>), String> {
        if let Some(node) = self.nodes.iter().find(|node| node.kind.as_vm().is_some()) {
            return Err(format!(
                "node {} is a virtual machine, whose disk and state are not copied",
                node.name
            ));
        }
        if !self.slices.is_empty() {
            return Err("its switches are sliced, and controllers of slices are not copied".into());
        }
        let (mut plan, mut left) = (self.clone(), Vec::new());
        name.clone_into(&mut plan.lab);
        if plan.record.take().is_some() {
            left.push("the recording".to_owned());
        }
        plan.close_doors(&mut left);
        plan.keep_to_itself(&mut left);
        Ok((plan, left))
    }

    /// A node's door leads nowhere, and a switch's is gone.
    fn close_doors(&mut self, left: &mut Vec<String>) {
        let leads_out =
            |end: &PlannedEnd| matches!(end, PlannedEnd::Host { .. } | PlannedEnd::Internet { .. });
        let is_door = |link: &PlannedLink| link.ends.iter().any(leads_out);
        for link in self.links.iter().filter(|link| is_door(link)) {
            left.push(format!("the door {}", link.name));
        }
        for node in &mut self.nodes {
            node.internet = false;
        }
        let at_node = |link: &PlannedLink| {
            link.ends.iter().find_map(|end| match end {
                PlannedEnd::Node { node, interface } => {
                    Some(self.nodes[*node].interfaces[*interface].mac)
                }
                _ => None,
            })
        };
        let own: Vec<Option<[u8; 6]>> = self.links.iter().map(at_node).collect();
        for (link, mac) in self.links.iter_mut().zip(own).filter(|(link, _)| is_door(link)) {
            let Some(mut mac) = mac else { continue };
            // Alone with the node's interface on its segment.
            mac[5] ^= 1;
            let name = format!("door{}", link.id);
            for end in link.ends.iter_mut().filter(|end| leads_out(end)) {
                *end = PlannedEnd::Nowhere { name: name.clone(), mac };
            }
        }
        if self.links.iter().any(is_door) {
            let stays = Renumbered::new(self.links.iter().map(|link| !is_door(link)));
            self.drop_links(&stays);
        }
    }

    /// What would be asked for, or written, by both labs.
    fn keep_to_itself(&mut self, left: &mut Vec<String>) {
        for node in &mut self.nodes {
            if !node.ports.is_empty() {
                left.push(format!("published ports of node {}", node.name));
                node.ports.clear();
            }
            if node.binds.iter().any(|bind| bind.write) {
                left.push(format!("the right of node {} to write to what it binds", node.name));
                node.binds.iter_mut().for_each(|bind| bind.write = false);
            }
        }
        for switch in &mut self.switches {
            let name = &switch.name;
            match &mut switch.kind {
                SwitchKind::Shm(shm) if shm.vde != VdeFolder::None => {
                    left.push(format!("the folder of VDE of switch {name}"));
                    shm.vde = VdeFolder::None;
                }
                SwitchKind::Openflow(openflow) => {
                    let before = openflow.controllers.len();
                    openflow.controllers.retain(|controller| controller.node().is_some());
                    if openflow.controllers.len() < before {
                        left.push(format!("controllers of switch {name} outside of the lab"));
                    }
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::plan::{Plan, PlannedEnd, PlannedLink};

    fn plan_of(text: &str) -> Plan {
        crate::plan::plan(&crate::parse("f", text.as_bytes(), "f").unwrap()).unwrap()
    }

    const SHARING: &str = "name: lab
nodes:
  a: {ports: ['127.0.0.1:8080:80']}
  b: {}
  c: {}
switches: {s1: {}, s2: {kind: openflow, controllers: ['tcp:192.0.2.1', 'node:b']}}
links: [[a, s1], ['host:nlx0', s1], [b, internet], [b, s2], [c, s2], [c, a]]
record: {keep: 64MiB}
";

    #[test]
    fn a_copy_shares_nothing_and_keeps_addresses() {
        let plan = plan_of(SHARING);
        let (copy, left) = plan.isolated("other").unwrap();
        assert_eq!(copy.lab, "other");
        assert_eq!(left.len(), 5, "{left:?}");
        assert!(copy.record.is_none() && copy.nodes[0].ports.is_empty());
        let leads_out = |link: &PlannedLink| {
            let out = |end: &PlannedEnd| {
                matches!(end, PlannedEnd::Host { .. } | PlannedEnd::Internet { .. })
            };
            link.ends.iter().any(out)
        };
        assert!(!copy.links.iter().any(leads_out));
        // The switch's door is gone, and every interface has its link all the same.
        assert_eq!(copy.links.len(), plan.links.len() - 1);
        for (node, before) in copy.nodes.iter().zip(&plan.nodes) {
            assert_eq!(node.routes, before.routes);
            for (interface, before) in node.interfaces.iter().zip(&before.interfaces) {
                assert_eq!((&interface.addresses, interface.mac), (&before.addresses, before.mac));
                let [now, then] = [copy.link_at(interface.link), plan.link_at(before.link)];
                assert_eq!(now.map(|link| &link.name), then.map(|link| &link.name));
            }
        }
    }

    #[test]
    fn what_cannot_be_copied_is_refused() {
        let plan = plan_of("name: lab\nnodes: {v: {kind: vm, kernel: k}}\n");
        assert!(plan.isolated("other").unwrap_err().contains("node v"));
    }
}
