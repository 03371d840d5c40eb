//! What a lab that is one host's part of a lab over several hosts knows of the others.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use netloom_digest::fnv1a;
use netloom_model::plan::{LinkId, Plan};
use serde::{Deserialize, Serialize};

/// The first UDP port of labs over hosts, and how many there are: below those that the kernel gives to programs.
const FIRST_PORT: u16 = 14_789;
const PORTS: u64 = 4096;

/// The host of a lab that is a part, and its links to other hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Across {
    /// The name of this host.
    pub host: String,
    /// Its address on the network between the hosts.
    pub underlay: IpAddr,
    /// The UDP port of the lab on all hosts.
    pub port: u16,
    /// Its place among the hosts of the lab, the same on all.
    pub place: u16,
    /// The hosts that links lead to.
    pub peers: Vec<PeerHost>,
    /// Ends that others make, of links whose other end is here.
    pub far: Vec<Far>,
    /// The lines of `/etc/hosts` of nodes on other hosts.
    #[serde(default)]
    pub names: String,
}

/// Another host of the lab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeerHost {
    /// Its name.
    pub name: String,
    /// Its place among the hosts of the lab, the same on all.
    pub place: u16,
    /// Its address on the network between the hosts.
    pub address: IpAddr,
}

/// An end of a link that another host makes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Far {
    /// The link.
    pub link: LinkId,
    /// Which of its ends.
    pub side: usize,
    /// The link's number, the same on both hosts.
    pub number: u32,
    /// The name of the host that makes it.
    pub peer: String,
    /// The address of that host on the network between the hosts.
    pub address: IpAddr,
    /// The end in words.
    pub end: String,
}

impl Across {
    /// The UDP port of a lab, the same on every host: by its name, so that two labs of the same hosts rarely share one.
    pub fn port_of(lab: &str) -> u16 {
        let above = u16::try_from(fnv1a::hash(lab.as_bytes()) % PORTS).unwrap_or_default();
        FIRST_PORT + above
    }

    /// The address by which the core namespaces of hosts ask each other whether they are there, and the MAC that goes with it:
    /// on a network that the hosts of a lab have for that alone.
    pub(crate) fn presence_of(place: u16) -> (Ipv4Addr, [u8; 6]) {
        let [high, low] = place.to_be_bytes();
        // Neither the first nor the last address of a block of 256, whatever the place.
        let address = Ipv4Addr::new(169, 254, (high << 1) | (low >> 7), (low & 0x7f) + 1);
        (address, [0x02, 0x4e, 0x4c, 0x6b, high, low])
    }

    /// Why this cannot follow another, while the lab lives; `None` if it can.
    pub(crate) fn misfit(&self, earlier: &Across) -> Option<String> {
        if self.host != earlier.host {
            return Some(format!("is host {:?}, and not {:?}", earlier.host, self.host));
        }
        if (self.underlay, self.port) != (earlier.underlay, earlier.port) {
            return Some(format!(
                "has the underlay address {} as long as its lab is up, and not {}",
                earlier.underlay, self.underlay
            ));
        }
        let known = |peer: &&PeerHost| earlier.peers.iter().any(|old| old.name == peer.name);
        let kept = |peer: &PeerHost| earlier.peers.contains(peer);
        let other = self.peers.iter().filter(known).find(|peer| !kept(peer));
        if self.place != earlier.place || other.is_some() {
            let reason = "hosts of a lab that is up keep their places in the hosts file, and their underlay \
                          addresses; add new ones at its end";
            return Some(reason.to_owned());
        }
        None
    }

    /// Links of `running` that another host makes the other end of, by `new` plan and number.
    pub(crate) fn led_elsewhere(
        &self,
        running: &Plan,
        new: &Across,
        wanted: &Plan,
    ) -> BTreeSet<LinkId> {
        let name = |plan: &Plan, id: LinkId| {
            plan.links.iter().find(|link| link.id == id).map(|link| link.name.clone())
        };
        let mut changed = BTreeSet::new();
        for old in &self.far {
            let Some(link) = name(running, old.link) else { continue };
            let other = new.far.iter().find(|far| name(wanted, far.link).as_deref() == Some(&link));
            let same = |far: &Far| {
                (far.side, far.number, &far.peer, far.address)
                    == (old.side, old.number, &old.peer, old.address)
            };
            if other.is_some_and(|far| !same(far)) {
                changed.insert(old.link);
            }
        }
        changed
    }

    /// The same with the ids of links in another plan, where they are found by name.
    pub(crate) fn renumbered(&self, of: &Plan, target: &Plan) -> Across {
        let ids: BTreeMap<&str, LinkId> =
            target.links.iter().map(|link| (link.name.as_str(), link.id)).collect();
        let names: BTreeMap<LinkId, &str> =
            of.links.iter().map(|link| (link.id, link.name.as_str())).collect();
        let far = self.far.iter().filter_map(|far| {
            let link = *ids.get(names.get(&far.link)?)?;
            Some(Far { link, ..far.clone() })
        });
        Across { far: far.collect(), ..self.clone() }
    }

    /// With what `earlier` has beside it: while a lab becomes another one, links of both are there.
    pub(crate) fn beside(mut self, earlier: &Across) -> Across {
        for far in &earlier.far {
            if self.far.iter().all(|own| own.link != far.link) {
                self.far.push(far.clone());
            }
        }
        for peer in &earlier.peers {
            if self.peers.iter().all(|own| own.name != peer.name) {
                self.peers.push(peer.clone());
            }
        }
        self
    }

    /// The digest of a part: equal for equal plans that are continued to the same hosts.
    pub fn digest(&self, of_plan: &str) -> String {
        let text = serde_json::to_string(self).unwrap_or_default();
        format!("{:016x}", fnv1a::hash(format!("{of_plan} {text}").as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_lab_has_one_port_everywhere_below_those_of_programs() {
        assert_eq!(Across::port_of("campus"), Across::port_of("campus"));
        let ports: BTreeSet<u16> = (0..500).map(|n| Across::port_of(&format!("lab{n}"))).collect();
        assert!(ports.len() > 400, "{}", ports.len());
        assert!(ports.iter().all(|port| (14_789..18_885).contains(port)), "{ports:?}");
    }

    #[test]
    fn hosts_ask_each_other_by_addresses_of_their_own() {
        let all: BTreeSet<_> = (0..4096).map(|place| Across::presence_of(place).0).collect();
        assert_eq!(all.len(), 4096);
        assert!(all.iter().all(|address| address.is_link_local() && address.octets()[3] < 129));
        assert_eq!(Across::presence_of(130).0, Ipv4Addr::new(169, 254, 1, 3));
        assert_ne!(Across::presence_of(1).1, Across::presence_of(256).1);
    }

    #[test]
    fn other_hosts_make_another_part() {
        let across = |address: &str| Across {
            host: "a".into(),
            underlay: "192.0.2.1".parse().unwrap(),
            port: 14_789,
            place: 0,
            peers: vec![],
            far: vec![Far {
                link: LinkId::new(3),
                side: 1,
                number: 7,
                peer: "b".into(),
                address: address.parse().unwrap(),
                end: "n:eth0".into(),
            }],
            names: "10.0.0.1\tn\n".into(),
        };
        let digest = |address: &str| across(address).digest("0123456789abcdef");
        assert_eq!(digest("192.0.2.2"), digest("192.0.2.2"));
        assert_ne!(digest("192.0.2.2"), digest("192.0.2.3"));
        assert_ne!(digest("192.0.2.2"), across("192.0.2.2").digest("0123456789abcdee"));
    }
}
