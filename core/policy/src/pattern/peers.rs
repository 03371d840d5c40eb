//! The peers that may connect to a listener, or send to it: addresses and prefixes.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;

use super::Destination;

/// A set of addresses as ascending prefixes of which none holds another one. Those of IPv4 are never disguised as IPv6.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Peers(Vec<IpNet>);

impl Peers {
    /// Most prefixes of a rule: the kernel looks at them one after the other, for each packet.
    pub const MOST: usize = 64;

    /// The set of these prefixes.
    pub fn of(nets: impl IntoIterator<Item = IpNet>) -> Peers {
        let mut nets: Vec<IpNet> = nets.into_iter().map(|net| net.trunc()).collect();
        // By first address, the widest first: what holds a prefix is the last one that was kept. A file may list very many.
        nets.sort_unstable();
        nets.dedup_by(|net, wide| wide.contains(&*net));
        Peers(nets)
    }

    /// One word of a rule: an address, a prefix, or `any`, which is `None`.
    ///
    /// # Errors
    /// Why it is neither.
    pub fn parse(text: &str) -> Result<Option<IpNet>, String> {
        match Destination::parse(text)? {
            Destination::Any => Ok(None),
            Destination::Net(net) => Ok(Some(net)),
            _ => Err("not an address, a prefix or any".into()),
        }
    }

    /// The prefixes.
    pub fn nets(&self) -> &[IpNet] {
        &self.0
    }

    /// Whether an address is one of these.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.iter().any(|net| net.contains(&address.to_canonical()))
    }

    /// Those that are in both sets.
    #[must_use]
    pub fn and(&self, other: &Peers) -> Peers {
        let within = |ones: &Peers, others: &Peers| -> Vec<IpNet> {
            // Of two prefixes that meet, one holds the other: what they share is the narrower one.
            let held = |net: &&IpNet| others.0.iter().any(|wide| wide.contains(*net));
            ones.0.iter().filter(held).copied().collect()
        };
        Peers::of([within(self, other), within(other, self)].concat())
    }

    /// Each prefix as files write it.
    pub fn words(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|net| Destination::Net(*net).to_string())
    }
}

impl fmt::Display for Peers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words().collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn peers(words: &[&str]) -> Peers {
        Peers::of(words.iter().map(|word| Peers::parse(word).unwrap().unwrap()))
    }

    #[test]
    fn a_set_is_written_in_one_way() {
        let set = peers(&["fd00::/8", "10.1.0.0/16", "10.0.0.0/8", "127.0.0.1", "10.0.0.0/8"]);
        assert_eq!(set.to_string(), "10.0.0.0/8, 127.0.0.1, fd00::/8");
        assert_eq!(peers(&["::ffff:10.0.0.0/104"]), peers(&["10.0.0.0/8"]));
        assert_eq!(Peers::parse("any"), Ok(None));
        for wrong in ["localhost", "unix:/run/x", "10.0.0.1/8", ""] {
            assert!(Peers::parse(wrong).is_err(), "{wrong}");
        }
    }

    fn sets() -> impl Strategy<Value = Peers> {
        let all =
            ["10.0.0.0/8", "10.1.0.0/16", "10.1.2.3", "127.0.0.0/8", "0.0.0.0/0", "::/0", "::1"];
        prop::sample::subsequence(all.to_vec(), 0..5).prop_map(|words| peers(&words))
    }

    proptest! {
        /// Kept is what no other one holds.
        #[test]
        fn a_set_has_the_widest_prefixes(
            nets in prop::collection::vec((0_u32..8, 27_u8..=32, any::<bool>()), 0..20),
        ) {
            let nets: Vec<IpNet> = nets
                .into_iter()
                .map(|(host, length, is_v6)| match is_v6 {
                    true => IpNet::new(IpAddr::V6(u128::from(host).into()), 96 + length).unwrap().trunc(),
                    false => IpNet::new(IpAddr::V4(host.into()), length).unwrap().trunc(),
                })
                .collect();
            let widest = |net: &&IpNet| !nets.iter().any(|wide| wide != *net && wide.contains(*net));
            let mut wanted: Vec<IpNet> = nets.iter().filter(widest).copied().collect();
            wanted.sort_unstable();
            wanted.dedup();
            prop_assert_eq!(Peers::of(nets.clone()).0, wanted);
        }

        /// An address is in both sets if it is in each.
        #[test]
        fn two_sets_have_what_each_has(
            a in sets(), b in sets(),
            address in prop::sample::select(vec!["10.1.2.3", "10.1.2.4", "10.2.0.0", "127.0.0.1", "::1", "::2"]),
        ) {
            let address: IpAddr = address.parse().unwrap();
            prop_assert_eq!(a.and(&b).contains(address), a.contains(address) && b.contains(address));
            prop_assert_eq!(a.and(&b), b.and(&a));
        }
    }
}
