//! Who answers for the next hop's hardware address: settings that keep a node silent, rules of ARP, and two that have an address.

use std::net::IpAddr;

use crate::cause::{Cause, CauseName};
use crate::facts::{Facts, Interface, Life, Node, Station};
use crate::nft::evaluate::{self, Fate, Packet};
use crate::walk::{Share, Stop, Walker};

/// `ar$op` of RFC 826.
const ARP_REQUEST: u8 = 1;
const ARP_REPLY: u8 = 2;

impl<F: Facts> Walker<'_, F> {
    /// What keeps the question from being answered, or the answer from being heard.
    pub(crate) fn resolution(
        &mut self,
        node: &Node,
        next: &Node,
        (own, far): (&str, &str),
        (target, before): (IpAddr, usize),
    ) {
        let to = self.walk.places.len();
        let mut found = Vec::new();
        found.extend(self.port_of_bridge(node, own));
        found.extend(self.without_arp(node, own));
        if next.life == Life::Up {
            found.extend(self.port_of_bridge(next, far));
            found.extend(self.silent(next, far, target));
            found.extend(self.without_arp(next, far));
        }
        if let IpAddr::V4(target) = target {
            // The question leaves and comes in, and so does its answer.
            let ends = [
                (next, far, ARP_REQUEST, false),
                (next, far, ARP_REPLY, true),
                (node, own, ARP_REPLY, false),
            ];
            let stops = ends.iter().filter_map(|(at, interface, operation, sends)| {
                self.arp(at, interface, *sends, (target.octets(), *operation))
            });
            found.extend(stops);
            self.unasked(node, own, (target, before));
        }
        for cause in found {
            // Who does not ask sends packets all the same, to a hardware address that nobody has.
            let asks = node.interface(own).is_none_or(|i| !i.no_arp);
            let share = if asks { Share::Resolution } else { Share::All };
            self.add(Stop { from: before + 1, to, share, cause });
        }
    }

    /// A question that rules of its own node drop is seen nowhere.
    fn unasked(&mut self, node: &Node, own: &str, (target, before): (std::net::Ipv4Addr, usize)) {
        let Some(cause) = self.arp(node, own, true, (target.octets(), ARP_REQUEST)) else { return };
        let index = node.interface(own).map(|found| found.index);
        let knows = |n: &crate::facts::Neighbour| {
            Some(n.interface) == index && n.address == IpAddr::V4(target)
        };
        // Who knows the address does not ask.
        if !node.heard.iter().chain(&node.neighbours).any(knows) {
            self.add(Stop { from: before, to: before, share: Share::All, cause });
        }
    }

    /// An interface with the flag NOARP neither asks nor answers, in both families (netdevice(7)).
    fn without_arp(&self, node: &Node, interface: &str) -> Option<Cause> {
        node.interface(interface).filter(|found| found.no_arp)?;
        let name = &node.name;
        let text = format!(
            "{name}:{interface} neither asks for hardware addresses nor answers questions for its own"
        );
        let cause = Cause::new(CauseName::NeighbourSilent, format!("node {name}"), text)
            .evidence(format!("{name}:{interface} has the flag NOARP"));
        Some(cause.mend(self.exec(name, &format!("ip link set {interface} arp on"))))
    }

    /// ip-sysctl.rst, `arp_ignore`: 8 is silence; 1 and 2 keep to addresses of the interface itself.
    fn silent(&self, next: &Node, interface: &str, target: IpAddr) -> Option<Cause> {
        let found = next.interface(interface)?;
        let own = found.addresses.iter().any(|net| net.addr() == target);
        let ignores = match found.arp_ignore {
            8 => true,
            1 | 2 => !own && next.has(target),
            _ => false,
        };
        if !ignores || target.is_ipv6() {
            return None;
        }
        let name = &next.name;
        let text =
            format!("node {name} leaves questions for the hardware address of {target} unanswered");
        let cause = Cause::new(CauseName::NeighbourSilent, format!("node {name}"), text)
            .evidence(format!("arp_ignore of {name}:{interface} is {}", found.arp_ignore));
        let keys = format!(
            "sysctl -w net.ipv4.conf.all.arp_ignore=0 net.ipv4.conf.{}.arp_ignore=0",
            interface.replace('.', "/")
        );
        Some(cause.mend(self.exec(name, &keys)))
    }

    /// Rules of nftables of family `arp` (RFC 826): a question for an address, or its answer.
    fn arp(
        &self,
        node: &Node,
        interface: &str,
        sends: bool,
        (target, operation): ([u8; 4], u8),
    ) -> Option<Cause> {
        let rules = node.rules.as_ref()?;
        let mut message: Vec<Option<u8>> = vec![None; 28];
        for (at, byte) in [0, 1, 8, 0, 6, 4, 0, operation].into_iter().enumerate() {
            message[at] = Some(byte);
        }
        // The question has it as its target; it is the answer's sender.
        let begin = if operation == ARP_REQUEST { 24 } else { 14 };
        for (at, byte) in target.into_iter().enumerate() {
            message[begin + at] = Some(byte);
        }
        let by = Some((interface.to_owned(), node.interface(interface).map_or(0, |i| i.index)));
        let (input, output) = if sends { (None, by) } else { (by, None) };
        let packet = Packet { network: message, input, output, arp: true, ..Packet::default() };
        match evaluate::run_arp(rules, sends, &packet) {
            Fate::Stopped(by) => {
                Some(self.dropped(node, if sends { "arp output" } else { "arp input" }, &by))
            }
            _ => None,
        }
    }

    /// Another station has the address, and answered.
    pub(crate) fn twice(
        &mut self,
        node: &Node,
        own: Option<&Interface>,
        stations: &[Station],
        (target, before): (IpAddr, usize),
        mac: Option<[u8; 6]>,
    ) -> Result<(), F::Error> {
        let (Some(own), Some(mac)) = (own, mac) else { return Ok(()) };
        let heard = node.heard.iter().find(|n| n.interface == own.index && n.address == target);
        let Some(heard) = heard.filter(|heard| heard.mac != mac).map(|heard| heard.mac) else {
            return Ok(());
        };
        // What is inside a guest is not seen.
        let mut sure = true;
        for station in stations {
            if !self.facts.has(&station.node, target)? {
                continue;
            }
            let other = self.facts.node(&station.node)?;
            sure &= other.life == Life::Up;
            if other.interface(&station.interface).and_then(|i| i.mac) != Some(heard) {
                continue;
            }
            let (name, interface) = (&other.name, &station.interface);
            let text = format!("node {name} has {target}, too, and answers for it");
            let mut cause = Cause::new(CauseName::AddressTwice, format!("node {name}"), text).evidence(format!(
                "node {} has learnt {} for {target}, which is the hardware address of {name}:{interface}",
                node.name,
                crate::segment::text_of(heard)
            ));
            let net =
                other.interfaces.iter().flat_map(|i| &i.addresses).find(|net| net.addr() == target);
            if let Some(net) = net {
                cause = cause.mend(self.exec(name, &format!("ip addr del {net} dev {interface}")));
            }
            let to = self.walk.places.len();
            self.add(Stop { from: before + 1, to, share: Share::All, cause });
            return Ok(());
        }
        // Who does not ask has entries of its own making.
        if !sure || own.no_arp {
            return Ok(());
        }
        let name = &node.name;
        let text = format!(
            "node {name} has learnt a hardware address for {target} that nobody on the segment has"
        );
        let cause = Cause::new(CauseName::NeighbourWrong, format!("node {name}"), text)
            .evidence(format!(
                "it has learnt {}; the interface with {target} has {}",
                crate::segment::text_of(heard),
                crate::segment::text_of(mac)
            ))
            .mend(self.exec(name, &format!("ip neigh del {target} dev {}", own.name)));
        let to = self.walk.places.len();
        self.add(Stop { from: before + 1, to, share: Share::All, cause });
        Ok(())
    }
}
