//! From a node's interface to the next hop: links, their impairments, switches, and who has the address.

mod ports;

use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use crate::cause::{Cause, CauseName};
use crate::facts::{Crossing, Discipline, Facts, Interface, Life, Link, Node, Station};
use crate::flow::Place;
use crate::routes::planned;
use crate::walk::{Segment, Share, Stop, Walker};

/// A delay that programs notice: resolvers and connections are asked again after a second.
const LONG: Duration = Duration::from_millis(500);

/// The way from an interface to the next hop.
#[derive(Clone, Copy)]
pub(crate) struct Between<'a> {
    pub(crate) all: &'a [Crossing],
    /// Its first place.
    pub(crate) before: usize,
    /// Hardware addresses of its ends.
    pub(crate) macs: [Option<[u8; 6]>; 2],
    /// Whose hardware address is asked for.
    pub(crate) target: IpAddr,
}

/// Who is to take the packets.
enum Owner {
    /// A station that has the address.
    Found(Station),
    /// The plan's, which lacks it.
    Planned(Station),
    /// Nobody.
    None,
}

impl<F: Facts> Walker<'_, F> {
    /// Leads packets to the next hop; tells its node and interface.
    pub(crate) fn cross(
        &mut self,
        node: &Rc<Node>,
        interface: &str,
        via: Option<IpAddr>,
    ) -> Result<Option<(String, String)>, F::Error> {
        let before = self.walk.places.len();
        let name = &node.name;
        let found = node.interface(interface).cloned();
        let mtu = found.as_ref().map(|i| i.mtu);
        self.narrow(node, interface, mtu);
        if let Some(queue) = found.as_ref().and_then(|i| i.queue.as_ref()) {
            self.queue(node, interface, queue);
        }
        if found.as_ref().is_some_and(|i| !i.up) {
            let cause = self.down(node, interface);
            self.stop(cause);
        }
        self.place(Some(name), interface, true, format!("{name}:{interface}"));
        let target = via.unwrap_or(self.flow.destination);
        let stations = self.facts.stations(name, interface, target)?;
        if stations.is_empty() && node.planned_interface(interface).is_none() {
            self.doubt(before + 1, usize::MAX, format!(
                "packets leave node {name} by {interface}, which is of no link of the lab, and are not followed"
            ));
            return Ok(None);
        }
        let station = match self.owner(&stations, target)? {
            Owner::Found(station) => station,
            Owner::Planned(station) => station,
            Owner::None => {
                let cause = self.nobody(node, interface, via);
                self.walk.segments.push(Segment { target, from: before, to: before + 1 });
                let carriers = self.carriers(&stations)?;
                if cause.name == CauseName::NeighbourUnknown && !carriers.is_empty() {
                    carriers.into_iter().for_each(|text| self.doubt(before, usize::MAX, text));
                    return Ok(None);
                }
                self.add(Stop { from: before, to: before + 1, share: Share::All, cause });
                return Ok(None);
            }
        };
        let next = self.facts.node(&station.node)?;
        let crossed = self.facts.crossed(name, interface, &station)?;
        if !next.has(target) {
            self.lacks(&station, &crossed, target, before)?;
        }
        let macs = [
            found.as_ref().and_then(|i| i.mac),
            next.interface(&station.interface).and_then(|i| i.mac),
        ];
        let between = Between { all: &crossed, before, macs, target };
        self.frame = Some(ports::untagged());
        for (at, crossing) in crossed.iter().enumerate() {
            self.crossing(&between, at, crossing)?;
        }
        self.arriving(node, found.as_ref(), &next, &station, (&crossed, before));
        let name = format!("{}:{}", station.node, station.interface);
        self.place(Some(&station.node), &station.interface, false, name);
        let to = self.walk.places.len();
        self.walk.segments.push(Segment { target, from: before, to });
        self.fixed_neighbour(node, found.as_ref(), &next, &station, (target, before));
        self.resolution(node, &next, (interface, &station.interface), (target, before));
        self.twice(node, found.as_ref(), &stations, (target, before), macs[1])?;
        Ok(Some((station.node, station.interface)))
    }

    fn place(&mut self, node: Option<&str>, interface: &str, out: bool, name: String) {
        let node = node.map(str::to_owned);
        self.walk.places.push(Place { node, interface: interface.to_owned(), out, name });
    }

    /// The plan's owner of an address first: a segment may have a thousand stations.
    fn owner(&mut self, stations: &[Station], target: IpAddr) -> Result<Owner, F::Error> {
        let mut planned = None;
        for (at, station) in stations.iter().enumerate() {
            // An address of another interface is answered for, too (ip-sysctl.rst, `arp_ignore` 0).
            if self.facts.has(&station.node, target)? {
                return Ok(Owner::Found(station.clone()));
            }
            // Those of the plan come first.
            if at > 0 && planned.is_none() {
                continue;
            }
            let node = self.facts.node(&station.node)?;
            let own = node.planned_interface(&station.interface);
            let is_planned = own.is_some_and(|i| i.addresses.iter().any(|n| n.addr() == target));
            if is_planned && node.life == Life::Guest {
                return Ok(Owner::Found(station.clone()));
            }
            if is_planned {
                planned.get_or_insert_with(|| station.clone());
            }
        }
        Ok(planned.map_or(Owner::None, Owner::Planned))
    }

    /// The plan's owner of an address lacks it.
    fn lacks(
        &mut self,
        station: &Station,
        crossed: &[Crossing],
        target: IpAddr,
        before: usize,
    ) -> Result<(), F::Error> {
        let owner = self.facts.node(&station.node)?;
        // A dead node is told where the walk meets it, an interface where packets come to it.
        if owner.life != Life::Up {
            return Ok(());
        }
        let Some(planned) = owner.planned_interface(&station.interface) else { return Ok(()) };
        if owner.interface(&station.interface).is_none_or(|i| !i.up) {
            return Ok(());
        }
        let cause = self.lacks_address(&owner, planned, target);
        // Questions for the address may come as far as the interface that lacks it.
        let ports = crossed.iter().flat_map(|c| [&c.into, &c.out_of]).flatten().count();
        let to = before + ports + 2;
        self.add(Stop { from: before, to, share: Share::All, cause });
        Ok(())
    }

    /// Stations that may carry frames on to another segment, as a bridge in a node does.
    fn carriers(&mut self, stations: &[Station]) -> Result<Vec<String>, F::Error> {
        let mut found = vec![];
        for Station { node, interface } in stations {
            let of = self.facts.node(node)?;
            let Some(own) = of.interface(interface) else { continue };
            let planned = of.planned_interface(interface);
            let bare = own.addresses.iter().all(crate::lacking::local)
                && planned.is_some_and(|planned| planned.addresses.is_empty());
            match &own.bridge {
                Some(bridge) => found.push(format!(
                    "{node}:{interface} is a port of bridge {bridge} in node {node}, which is not followed"
                )),
                None if bare && of.planned.len() > 1 => found.push(format!(
                    "{node}:{interface} has no address; whether a bridge or a program of node {node} is to carry frames on is not known"
                )),
                None => {}
            }
        }
        Ok(found)
    }

    /// Nobody on the segment has the address, and by the plan nobody is to.
    fn nobody(&self, node: &Node, interface: &str, via: Option<IpAddr>) -> Cause {
        let (name, to) = (&node.name, self.flow.destination);
        let place = format!("node {name}");
        let target = via.unwrap_or(to);
        let unknown = format!("nobody on the segment of {name}:{interface} has {target}");
        if let Some(via) = via {
            let cause = Cause::new(
                CauseName::NeighbourUnknown,
                place,
                format!("node {name} hands packets to {via}, which nobody has"),
            );
            return cause.evidence(unknown);
        }
        // The prefix of an address says who is on the segment.
        let own =
            node.planned_interface(interface).map(|i| i.addresses.clone()).unwrap_or_default();
        let has = node.interface(interface).map(|i| i.addresses.clone()).unwrap_or_default();
        let covering = has.iter().find(|net| net.contains(&to) && !own.contains(net));
        // Where the plan gives it none, nothing says that the one it has is wrong.
        let right = own.iter().find(|net| net.addr().is_ipv4() == to.is_ipv4());
        if let Some((wrong, right)) = covering.zip(right) {
            let text =
                format!("{name}:{interface} has {wrong}, by which {to} is on its own segment");
            let del = self.exec(name, &format!("ip addr del {wrong} dev {interface}"));
            let add = self.exec(name, &format!("ip addr add {right} dev {interface}"));
            return Cause::new(CauseName::WrongAddress, place, text)
                .evidence(unknown)
                .evidence(format!("the plan says {right}"))
                .mend(match planned(node, to) {
                    // With its last address an interface loses its routes, and the default one with them.
                    Some(_) => format!("{add} && {del}"),
                    None => del,
                });
        }
        let text = format!(
            "node {name} looks for {to} on the segment of {interface}, where nobody has it"
        );
        Cause::new(CauseName::NeighbourUnknown, place, text).evidence(unknown)
    }

    fn crossing(
        &mut self,
        between: &Between<'_>,
        at: usize,
        crossing: &Crossing,
    ) -> Result<(), F::Error> {
        let Between { all, before, .. } = *between;
        let link = self.facts.link(&crossing.link)?;
        let here = self.walk.places.len();
        self.walk.links.push((crossing.link.clone(), crossing.from, here));
        self.link(&crossing.link, &link, crossing.from, before);
        if let Some(place) = &crossing.into {
            self.walk.places.push(place.clone());
        }
        if let (Some(switch), Some(next)) = (&crossing.switch, all.get(at + 1)) {
            match switch.kind.as_str() {
                "kernel" => {}
                "shm" => self.ports(&switch.name, at, between)?,
                _ => self.openflow(&switch.name, [&crossing.link, &next.link], between)?,
            }
        }
        if let Some(place) = &crossing.out_of {
            self.walk.places.push(place.clone());
        }
        Ok(())
    }

    /// A link and what its wire does.
    fn link(&mut self, name: &str, link: &Link, from: usize, before: usize) {
        let here = self.walk.places.len();
        // Without a carrier the kernel discards before a packet socket sees it.
        let least = here.saturating_sub(1).max(before);
        let place = format!("link {name}");
        if link.down {
            let cause = self.unplugged(name);
            self.add(Stop { from: least, to: here, share: Share::All, cause });
            return;
        }
        if let Some(state) = link.wire.as_ref().filter(|state| *state != "running") {
            let cause = Cause::new(
                CauseName::WireStopped,
                place.clone(),
                format!("the wire of link {name} does not run"),
            );
            self.add(Stop {
                from: least,
                to: here,
                share: Share::All,
                cause: cause.evidence(state),
            });
        }
        for (end, back) in [(from, false), (1 - from, true)] {
            self.impaired((name, link), end, back, (before, least, here));
        }
    }

    pub(crate) fn unplugged(&self, link: &str) -> Cause {
        let text = format!("link {link} is down, as if its cable were pulled");
        Cause::new(CauseName::CableOut, format!("link {link}"), text)
            .evidence("the link was taken down by `netloom link set`")
            .mend(format!("netloom -l {} link set {link} --up", self.facts.lab()))
    }

    /// Whether a link loses packets from an end by chance, all of them or some.
    pub(crate) fn lossy(&self, (name, link): (&str, &Link), end: usize) -> Option<(bool, Cause)> {
        let (loss, from) = (link.impairments.get(end)?.get("loss")?, link.ends.get(end)?);
        let all = loss == "100%" || loss.starts_with("100% ");
        let (cause, much) = match all {
            true => (CauseName::WireLoss, "all packets"),
            false => (CauseName::WirePartialLoss, "packets"),
        };
        let text = format!("link {name} loses {much} from {from}");
        let cause = Cause::new(cause, format!("link {name}"), text)
            .evidence(format!("its impairment from {from} is loss: {loss}"))
            .mend(self.cleared(name, end, "loss"));
        Some((all, cause))
    }

    /// The command that takes away an impairment from an end.
    fn cleared(&self, link: &str, end: usize, key: &str) -> String {
        let side = if end == 0 { "a" } else { "b" };
        format!("netloom -l {} link set {link} --end {side} --{key} none", self.facts.lab())
    }

    fn impaired(
        &mut self,
        (name, link): (&str, &Link),
        end: usize,
        back: bool,
        (before, least, here): (usize, usize, usize),
    ) {
        let (Some(impairments), Some(from)) = (link.impairments.get(end), link.ends.get(end))
        else {
            return;
        };
        let place = format!("link {name}");
        if let Some((all, cause)) = self.lossy((name, link), end) {
            // What loses all in the other direction loses the answer to the question for a hardware address.
            let share = match (all, back) {
                (true, false) => Share::All,
                (true, true) => Share::Resolution,
                (false, _) => Share::Some,
            };
            let (from, to) = if back { (before, here + 2) } else { (least, here) };
            if all || !back {
                self.add(Stop { from, to, share, cause });
            }
        }
        if back {
            return;
        }
        if let Some(drop) = impairments.get("drop") {
            let text = format!("link {name} loses packets from {from} that match `{drop}`");
            let cause = Cause::new(CauseName::WireLoss, place.clone(), text)
                .evidence(format!("its impairment from {from} is drop: {drop}"))
                .mend(self.cleared(name, end, "drop"));
            self.add(Stop { from: least, to: here, share: Share::Some, cause });
        }
        let lost: u64 =
            link.lost[end].iter().filter(|(why, _)| why.contains("queue")).map(|(_, n)| n).sum();
        if let Some(rate) = impairments.get("rate") {
            let text = match lost {
                0 => format!(
                    "link {name} passes at most {rate} from {from}, and what waits in its queue is late"
                ),
                _ => format!(
                    "link {name} passes at most {rate} from {from}, and loses what finds no room in its queue"
                ),
            };
            let cause = Cause::new(CauseName::WireRate, place.clone(), text)
                .evidence(format!(
                    "its impairment from {from} is rate: {rate}; its queue has lost {lost} packets"
                ))
                .mend(self.cleared(name, end, "rate"));
            let stop = Stop { from: least, to: here, share: Share::Some, cause };
            if lost > 0 {
                self.add(stop);
            } else {
                self.walk.suspects.push(stop);
            }
        }
        if let Some(delay) = impairments.get("delay").filter(|delay| long(delay) >= LONG) {
            let text = format!("link {name} delays packets from {from} by {delay}");
            let cause = Cause::new(CauseName::WireDelay, place.clone(), text)
                .evidence(format!("its impairment from {from} is delay: {delay}"))
                .mend(self.cleared(name, end, "delay"));
            self.add(Stop { from: least, to: here, share: Share::Some, cause });
        }
        let mtu = impairments.get("mtu").and_then(|mtu| mtu.parse::<u32>().ok());
        if let Some(mtu) = mtu.filter(|mtu| self.mtu.is_some_and(|own| *mtu < own)) {
            let text = format!("link {name} loses packets of more than {mtu} bytes from {from}");
            let cause = Cause::new(CauseName::MtuTooSmall, place, text)
                .evidence(format!(
                    "its impairment from {from} is mtu: {mtu}; nobody is told of the loss"
                ))
                .mend(self.cleared(name, end, "mtu"));
            self.add(Stop { from: least, to: here, share: Share::Some, cause });
        }
    }

    /// The interface at which packets come in.
    fn arriving(
        &mut self,
        node: &Node,
        own: Option<&Interface>,
        next: &Node,
        station: &Station,
        (crossed, before): (&[Crossing], usize),
    ) {
        let here = self.walk.places.len();
        let least = here.saturating_sub(1).max(before);
        if next.life != Life::Up {
            return;
        }
        let far = next.interface(&station.interface);
        let cause = match far {
            None => {
                let planned =
                    next.planned_interface(&station.interface).cloned().unwrap_or_default();
                let text = format!("interface {} is not in node {}", station.interface, next.name);
                let cause =
                    Cause::new(CauseName::InterfaceMissing, format!("node {}", next.name), text);
                Some(cause.evidence(format!("the plan has it as an end of link {}", planned.link)))
            }
            Some(far) if !far.up => Some(self.down(next, &station.interface)),
            Some(_) => None,
        };
        if let Some(cause) = cause {
            self.add(Stop { from: least, to: here, share: Share::All, cause });
            return;
        }
        let direct = crossed.len() == 1;
        let told = self.walk.stops.iter().any(|stop| stop.from <= here && stop.to >= least);
        let link = crossed.first().map_or("", |first| first.link.as_str());
        // A cable that is out takes the carrier away.
        let told =
            told || self.walk.stops.iter().any(|stop| stop.cause.place == format!("link {link}"));
        if own.is_some_and(|own| own.up && !own.carrier) && !told {
            let text = format!("{}:{} has no carrier", node.name, own.map_or("", |own| &own.name));
            let cause = Cause::new(CauseName::NoCarrier, format!("link {link}"), text);
            let cause = cause
                .evidence("the interface lacks the flag LOWER_UP, and the link is not taken down");
            self.add(Stop { from: before, to: before, share: Share::All, cause });
        }
        // A pair drops what is longer than the receiving end takes (`is_skb_forwardable`).
        if let (true, Some(own), Some(far)) = (direct, own, far)
            && far.mtu < own.mtu
        {
            let text = format!(
                "{}:{} takes packets of up to {} bytes, and {}:{} sends up to {}",
                next.name, far.name, far.mtu, node.name, own.name, own.mtu
            );
            // One of the two differs from the link; else the receiver takes what the sender may send.
            let of_plan = |node: &Node, at: &Interface| {
                node.planned_interface(&at.name)
                    .map(|planned| planned.mtu)
                    .filter(|mtu| *mtu != at.mtu)
            };
            let (who, at, mtu) = match (of_plan(next, far), of_plan(node, own)) {
                (None, Some(mtu)) if mtu <= far.mtu => (node, own, mtu),
                _ => (next, far, own.mtu),
            };
            let cause = Cause::new(CauseName::MtuTooSmall, format!("node {}", next.name), text)
                .evidence("longer ones are dropped without a word, so that path MTU discovery finds nothing")
                .mend(self.exec(&who.name, &format!("ip link set {} mtu {mtu}", at.name)));
            self.add(Stop { from: least, to: here, share: Share::Some, cause });
        }
    }

    /// A queueing discipline that somebody gave an interface. Packets are seen when they have left it.
    fn queue(&mut self, node: &Node, interface: &str, queue: &Discipline) {
        let Discipline { kind, waiting, dropped } = queue;
        if *dropped == 0 && *waiting == 0 {
            return;
        }
        let (name, at) = (&node.name, self.walk.places.len());
        let text = format!(
            "the queueing discipline of {name}:{interface} holds packets back or drops them"
        );
        let cause = Cause::new(CauseName::QueueDrops, format!("node {name}"), text)
            .evidence(format!("{kind} of {name}:{interface} has dropped {dropped} packets, and {waiting} wait in it"))
            .mend(self.exec(name, &format!("tc qdisc del dev {interface} root")));
        // What waits when the probe was given up is before it, or is the probe.
        let share = if *waiting > 0 { Share::All } else { Share::Some };
        self.add(Stop { from: at, to: at, share, cause });
    }

    /// An MTU on the way that is smaller than the sender's (RFC 1191).
    fn narrow(&mut self, node: &Node, interface: &str, mtu: Option<u32>) {
        let (Some(mtu), Some(first)) = (mtu, self.mtu) else {
            self.mtu = self.mtu.or(mtu);
            return;
        };
        if mtu >= first {
            return;
        }
        self.mtu = Some(mtu);
        let (name, here) = (&node.name, self.walk.places.len());
        let text = format!(
            "node {name} forwards packets of up to {mtu} bytes by {interface}, and they come with up to {first}"
        );
        let mut cause = Cause::new(CauseName::MtuTooSmall, format!("node {name}"), text)
            .evidence(format!(
                "the MTU of {name}:{interface} is {mtu}; longer packets that may not be fragmented are refused, and {} is told by ICMP",
                self.flow.source
            ));
        // What the lab's file gives a link, and what a tunnel has room for, are right: a larger MTU at one end would lose packets without a word.
        let planned = node.planned_interface(interface).map(|planned| planned.mtu);
        if let Some(planned) = planned.filter(|planned| *planned > mtu) {
            cause = cause
                .evidence(format!("the plan says {planned}"))
                .mend(self.exec(name, &format!("ip link set {interface} mtu {planned}")));
        }
        self.add(Stop { from: here, to: here, share: Share::Some, cause });
    }

    fn fixed_neighbour(
        &mut self,
        node: &Node,
        own: Option<&Interface>,
        next: &Node,
        station: &Station,
        (target, before): (IpAddr, usize),
    ) {
        let (Some(own), Some(far)) = (own, next.interface(&station.interface)) else { return };
        let is_it = |n: &&crate::facts::Neighbour| n.interface == own.index && n.address == target;
        let Some(fixed) = node.neighbours.iter().find(is_it) else { return };
        let Some(mac) = far.mac.filter(|mac| *mac != fixed.mac) else { return };
        let name = &node.name;
        let text = format!(
            "node {name} has a fixed neighbour entry for {target} with a wrong hardware address"
        );
        let cause = Cause::new(CauseName::NeighbourWrong, format!("node {name}"), text)
            .evidence(format!(
                "the entry is {}; {}:{} has {}",
                text_of(fixed.mac),
                next.name,
                far.name,
                text_of(mac)
            ))
            .mend(self.exec(name, &format!("ip neigh del {target} dev {}", own.name)));
        let to = self.walk.places.len();
        self.add(Stop { from: before + 1, to, share: Share::All, cause });
    }
}

pub(crate) fn text_of(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// A delay as impairments show it: `1s`, `250ms`.
fn long(text: &str) -> Duration {
    let text = text.split(' ').next().unwrap_or_default();
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let scale = match unit {
        "s" => 1.0,
        "ms" => 0.001,
        "min" => 60.0,
        _ => return Duration::ZERO,
    };
    let seconds = number.parse::<f64>().map_or(0.0, |number| number * scale);
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO)
}
