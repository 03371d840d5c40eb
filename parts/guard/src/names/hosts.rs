//! Names that stand in a file of hosts (hosts(5)): all of them, since a bounded part of the file is read.

use std::collections::HashMap;
use std::net::IpAddr;

use netloom_policy::pattern::Destination;

/// Names by address, in the order of the file.
#[derive(Debug, Default)]
pub(super) struct Hosts(HashMap<IpAddr, Vec<String>>);

impl Hosts {
    /// Reads a file. Loopback addresses have no names: their many (`ip6-loopback`, the machine's own) say less than
    /// they do.
    pub(super) fn parse(text: &str) -> Hosts {
        let mut hosts = Hosts::default();
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or_default();
            let mut words = line.split_whitespace();
            let address = words.next().and_then(|word| word.parse::<IpAddr>().ok());
            if let Some(address) = address.map(|address| address.to_canonical()) {
                hosts.add(address, words);
            }
        }
        for names in hosts.0.values_mut() {
            let mut there = std::collections::HashSet::new();
            let again: Vec<bool> = names.iter().map(|name| !there.insert(name)).collect();
            let mut again = again.into_iter();
            names.retain(|_| again.next() != Some(true));
        }
        hosts
    }

    fn add<'w>(&mut self, address: IpAddr, words: impl Iterator<Item = &'w str>) {
        if address.is_loopback() || address.is_unspecified() {
            return;
        }
        let known = self.0.entry(address).or_default();
        for word in words {
            // A text that a rule could not name is not a name: `any` and patterns are something else there.
            let Ok(Destination::Name(name)) = Destination::parse(word) else { continue };
            known.push(name);
        }
    }

    /// Names of an address.
    pub(super) fn of(&self, address: IpAddr) -> &[String] {
        self.0.get(&address.to_canonical()).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_an_address_are_those_of_all_its_lines() {
        let text = "127.0.0.1 localhost\n::1 ip6-localhost\n# 10.0.0.9 no\n10.0.0.1\tWeb web.lab. # one\n\
                    fd00::1 web\n10.0.0.1 web other\n10.0.0.2 any *.org 10.0.0.3\nname 10.0.0.4\n\
                    ::ffff:10.0.0.5 five\nfe80::1%eth0 scoped\n";
        let hosts = Hosts::parse(text);
        let of = |address: &str| hosts.of(address.parse().unwrap()).join(" ");
        assert_eq!(of("10.0.0.1"), "web web.lab other");
        assert_eq!((of("fd00::1").as_str(), of("10.0.0.5").as_str()), ("web", "five"));
        for none in ["127.0.0.1", "::1", "10.0.0.9", "10.0.0.2", "10.0.0.3", "10.0.0.4", "fe80::1"]
        {
            assert_eq!(of(none), "", "{none}");
        }
    }

    #[test]
    fn none_of_many_names_is_left_out() {
        let many: String = (0..10_000_u32)
            .map(|n| format!("{} n{n}\n", std::net::Ipv4Addr::from(0x0A00_0000 + n)))
            .collect();
        let names: String = (0..50_000).map(|n| format!(" m{}", n / 2)).collect();
        let hosts = Hosts::parse(&format!("10.0.0.0{names}\n{many}"));
        assert_eq!(hosts.0.len(), 10_000);
        assert_eq!(hosts.of("10.0.0.0".parse().unwrap()).len(), 25_001);
    }
}
