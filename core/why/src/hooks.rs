//! What nftables does with the flow at a hook of a node.

use crate::cause::{Cause, CauseName};
use crate::facts::{Facts, Node};
use crate::nft::Hook;
use crate::nft::evaluate::{self, Decided, Fate, Packet};
use crate::walk::{Deviation, Share, Stop, Walker};

impl<F: Facts> Walker<'_, F> {
    pub(crate) fn hook(
        &mut self,
        node: &Node,
        hook: Hook,
        input: Option<&str>,
        output: Option<&str>,
    ) -> Result<(), F::Error> {
        let Some(rules) = &node.rules else { return Ok(()) };
        let packet = self.packet(node, input, output);
        match evaluate::run(rules, hook, &packet) {
            Fate::Translated(by, new) => {
                // Sources are changed at the other hooks.
                let before_route = matches!(hook, Hook::Prerouting | Hook::Output);
                let devices = (input, output);
                match self.changed_by(node, new.as_ref(), devices)?.filter(|_| self.follows) {
                    Some(flow) => {
                        if flow.to.is_empty() {
                            self.away(node, &by, flow.destination);
                        }
                        self.becomes(node, flow, Some(rule(node, &by)));
                    }
                    None => self.may_translate(node, before_route, &by),
                }
            }
            fate => self.fate(node, hook.name(), fate),
        }
        Ok(())
    }

    pub(crate) fn device(
        &mut self,
        node: &Node,
        device: &str,
        sends: bool,
    ) -> Result<(), F::Error> {
        let Some(rules) = &node.rules else { return Ok(()) };
        let (input, output) = if sends { (None, Some(device)) } else { (Some(device), None) };
        let packet = self.packet(node, input, output);
        let fate = evaluate::run_device(rules, device, sends, &packet);
        self.fate(node, if sends { "egress" } else { "ingress" }, fate);
        Ok(())
    }

    fn packet(&self, node: &Node, input: Option<&str>, output: Option<&str>) -> Packet {
        let named = |name: Option<&str>| {
            let name = name?;
            Some((name.to_owned(), node.interface(name).map_or(0, |i| i.index)))
        };
        let mut packet = self.flow.packet();
        packet.input = named(input);
        packet.output = named(output);
        if self.flow.answers && !self.there.is_some_and(|there| there.nodes.contains(&node.name)) {
            // Connection tracking has not seen what this answers, and what it makes of it depends on its settings.
            packet.answers = None;
        }
        packet
    }

    fn fate(&mut self, node: &Node, hook: &str, fate: Fate) {
        let at = self.walk.places.len();
        match fate {
            Fate::Passes => {}
            Fate::Stopped(by) => {
                let cause = self.dropped(node, hook, &by);
                self.stop(cause);
            }
            // Hooks of devices have no chains of NAT.
            Fate::Translated(by, _) => self.may_translate(node, false, &by),
            Fate::Doubtful(by) => {
                let mut dropping = by.iter().filter(|by| by.drops);
                if let (Some(only), None) = (dropping.next(), dropping.next()) {
                    let cause = self.dropped(node, hook, only);
                    self.walk.suspects.push(Stop { from: at, to: at, share: Share::Some, cause });
                }
                let all: Vec<String> = by.iter().map(|by| rule(node, by)).collect();
                self.doubt(
                    at,
                    at,
                    format!(
                        "whether these let the packet pass cannot be told from their text: {}",
                        all.join("; ")
                    ),
                );
            }
        }
    }

    /// A translation to an address that no node has. It is the cause of what happens to packets because of it.
    fn away(&mut self, node: &Node, by: &Decided, to: std::net::IpAddr) {
        let Decided { family, table, chain, handle, .. } = by;
        let Some(handle) = handle else { return };
        let mend = format!("nft delete rule {} {table} {chain} handle {handle}", family.name());
        self.deviation = Some(Deviation {
            name: CauseName::TranslatedAway,
            node: node.name.clone(),
            text: format!("{}; by the plan no node has {to}", rule(node, by)),
            mend: self.exec(&node.name, &mend),
            address: None,
        });
    }

    /// A translation whose result is not known.
    fn may_translate(&mut self, node: &Node, redirects: bool, by: &Decided) {
        self.redirected |= redirects;
        let first = match redirects {
            true => &mut self.translated.destination,
            false => &mut self.translated.source,
        };
        first.get_or_insert(self.walk.stops.len());
        self.walk.translated_by = Some(node.name.clone());
        let text = format!(
            "{} may give packets other addresses or ports; their way after that is not followed",
            rule(node, by)
        );
        self.doubt(self.walk.places.len(), usize::MAX, text);
    }

    pub(crate) fn dropped(&self, node: &Node, hook: &str, by: &Decided) -> Cause {
        let (name, place) = (&node.name, format!("node {}", node.name));
        let Decided { family, table, chain, .. } = by;
        let family = family.name();
        match by.handle {
            Some(handle) => {
                let (cause, word) = match by.rejects {
                    true => (CauseName::NftReject, "refuses"),
                    false => (CauseName::NftDrop, "drops"),
                };
                let text = format!("a rule of nftables in node {name} {word} the packet at {hook}");
                Cause::new(cause, place, text).evidence(rule(node, by)).mend(self.exec(
                    name,
                    &format!("nft delete rule {family} {table} {chain} handle {handle}"),
                ))
            }
            None => {
                let text =
                    format!("no rule of nftables in node {name} accepts the packet at {hook}");
                // Tables of ARP know neither addresses of packets nor ports.
                let accepting = match family {
                    "arp" => "accept".to_owned(),
                    _ => self.accepting(),
                };
                let accept = format!("nft add rule {family} {table} {chain} {accepting}");
                Cause::new(CauseName::NftDrop, place, text)
                    .evidence(rule(node, by))
                    .mend(self.exec(name, &accept))
            }
        }
    }

    /// A rule that accepts this flow.
    fn accepting(&self) -> String {
        let flow = &self.flow;
        let ip = if flow.destination.is_ipv4() { "ip" } else { "ip6" };
        let addresses = format!("{ip} saddr {} {ip} daddr {}", flow.source, flow.destination);
        let protocol = match (flow.protocol, flow.destination.is_ipv4()) {
            (crate::Protocol::Icmp, true) => "meta l4proto icmp".to_owned(),
            (crate::Protocol::Icmp, false) => "meta l4proto icmpv6".to_owned(),
            (other, _) if flow.answers => format!("{} sport {}", other.name(), flow.ports[0]),
            (other, _) => format!("{} dport {}", other.name(), flow.ports[1]),
        };
        format!("{addresses} {protocol} accept")
    }
}

fn rule(node: &Node, by: &Decided) -> String {
    let Decided { family, table, chain, text, .. } = by;
    let handle = by.handle.map_or_else(String::new, |handle| format!(" handle {handle}"));
    format!(
        "node {}: table {} {}, chain {}{handle}: {text}",
        node.name,
        family.name(),
        table.escape_debug(),
        chain.escape_debug()
    )
}
