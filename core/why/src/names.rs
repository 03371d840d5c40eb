//! The sender's name servers: a program that asks by name waits for them before it sends anything.

use crate::cause::{Cause, CauseName};
use crate::facts::{Facts, Life, Node};
use crate::walk::{Share, Stop, Walker};

/// RFC 1035 section 4.2.1.
const DNS: u16 = 53;
/// UDP's number.
const UDP: u8 = 17;

impl<F: Facts> Walker<'_, F> {
    /// What is wrong with the name servers of the sender; a hindrance, since a flow need not begin with a name.
    pub(crate) fn resolvers(&mut self, node: &Node) -> Result<(), F::Error> {
        if self.flow.answers {
            return Ok(());
        }
        let name = &node.name;
        for resolver in &node.resolvers {
            let found = match self.facts.planned_owner(*resolver)? {
                _ if resolver.is_loopback() => continue,
                None => continue,
                Some(None) => "which no node of the lab has by its plan".to_owned(),
                Some(Some(owner)) => {
                    let server = self.facts.node(&owner)?;
                    let takes =
                        server.listeners.iter().any(|l| (l.protocol, l.local.port()) == (UDP, DNS));
                    if takes || server.life != Life::Up {
                        continue;
                    }
                    format!("node {owner}, where nothing takes udp on port {DNS}")
                }
            };
            let text =
                format!("programs of node {name} wait for a name server that does not answer");
            let cause = Cause::new(CauseName::WrongResolver, format!("node {name}"), text)
                .evidence(format!("/etc/resolv.conf of node {name} names {resolver}, {found}"));
            self.add(Stop { from: 0, to: 0, share: Share::Some, cause });
        }
        Ok(())
    }
}
