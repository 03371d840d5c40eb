//! The parts of `netloom status --json` that measurements need.

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::driver::Driver;

/// A lab's status at one moment.
#[derive(Debug)]
pub(crate) struct Facts(Value);

/// A node's interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interface {
    pub(crate) name: String,
    pub(crate) mac: String,
    /// Its first IPv4 address, without the prefix length.
    pub(crate) address: String,
}

/// Packets handled in one direction of a wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ledger {
    pub(crate) offered: u64,
    pub(crate) sent: u64,
    pub(crate) held: u64,
    /// Lost by the configured random loss.
    pub(crate) by_chance: u64,
    /// Lost for another cause.
    pub(crate) otherwise: u64,
}

impl Facts {
    pub(crate) fn of(driver: &Driver, lab: &str) -> Result<Facts> {
        driver.json(&["status", lab, "--json"]).map(Facts)
    }

    /// Unix time in nanoseconds of the reading.
    pub(crate) fn read_ns(&self) -> Result<u64> {
        count(&self.0["read_ns"]).context("status has no `read_ns`")
    }

    /// A counter of a node; `None` if the machine does not provide it.
    pub(crate) fn counter(&self, node: &str, name: &str) -> Result<Option<u64>> {
        Ok(count(&self.node(node)?[name]))
    }

    /// A node's interface on a link.
    pub(crate) fn interface(&self, node: &str, link: &str) -> Result<Interface> {
        let all = self.node(node)?["interfaces"].as_array().context("status has no interfaces")?;
        let found = all.iter().find(|i| i["link"] == link);
        let found = found.with_context(|| format!("{node} has no interface on link {link}"))?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let addresses = found["addresses"].as_array().into_iter().flatten().filter_map(text);
        let address = addresses.filter_map(|a| Some(a.split_once('/')?.0.to_owned()));
        let ipv4 = address.into_iter().find(|address| address.contains('.'));
        Ok(Interface {
            name: text(&found["name"]).context("an interface has no name")?,
            mac: text(&found["mac"]).context("an interface has no MAC")?,
            address: ipv4.with_context(|| format!("{node} has no IPv4 address on {link}"))?,
        })
    }

    /// The hardware address of a node's interface on a link.
    pub(crate) fn mac(&self, node: &str, link: &str) -> Result<String> {
        let all = self.node(node)?["interfaces"].as_array().context("status has no interfaces")?;
        let found = all.iter().find(|i| i["link"] == link).and_then(|i| i["mac"].as_str());
        found.map(str::to_owned).with_context(|| format!("{node} has no interface on link {link}"))
    }

    /// A node's global IPv6 address on a link, without the prefix length.
    pub(crate) fn address6(&self, node: &str, link: &str) -> Result<String> {
        let all = self.node(node)?["interfaces"].as_array().context("status has no interfaces")?;
        let found = all.iter().filter(|i| i["link"] == link);
        let addresses = found.filter_map(|i| i["addresses"].as_array()).flatten();
        let mut ipv6 = addresses.filter_map(|a| a.as_str()?.split_once('/')).map(|(a, _)| a);
        let found = ipv6.find(|a| a.contains(':') && !a.starts_with("fe80"));
        found.map(str::to_owned).with_context(|| format!("{node} has no IPv6 address on {link}"))
    }

    /// Packets that a link's wire handled from its first end.
    pub(crate) fn ledger(&self, link: &str) -> Result<Ledger> {
        let found = by_name(&self.0["links"], link).context("status has no such link")?;
        let there = &found["wire"]["directions"][0];
        let number = |name: &str| {
            there[name].as_u64().with_context(|| format!("link {link}: no `{name}` of its wire"))
        };
        let lost = there["lost"].as_object().context("its wire tells no losses")?;
        let causes = lost.iter().map(|(cause, n)| (cause.as_str(), n.as_u64().unwrap_or(0)));
        let (chance, other): (Vec<_>, Vec<_>) = causes.partition(|(cause, _)| *cause == "loss");
        let sum = |causes: Vec<(&str, u64)>| causes.into_iter().map(|(_, n)| n).sum();
        Ok(Ledger {
            offered: number("offered_packets")?,
            sent: number("sent_packets")?,
            held: number("held_packets")?,
            by_chance: sum(chance),
            otherwise: sum(other),
        })
    }

    fn node(&self, name: &str) -> Result<&Value> {
        match by_name(&self.0["nodes"], name) {
            Some(node) => Ok(node),
            None => bail!("status has no node {name}"),
        }
    }
}

fn by_name<'a>(list: &'a Value, name: &str) -> Option<&'a Value> {
    list.as_array()?.iter().find(|value| value["name"] == name)
}

impl Ledger {
    /// Difference to an earlier reading.
    pub(crate) fn since(self, before: Ledger) -> Ledger {
        Ledger {
            offered: self.offered - before.offered,
            sent: self.sent - before.sent,
            held: self.held,
            by_chance: self.by_chance - before.by_chance,
            otherwise: self.otherwise - before.otherwise,
        }
    }
}

/// A number, or its digits as text where it may pass 2^53.
fn count(told: &Value) -> Option<u64> {
    told.as_u64().or_else(|| told.as_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn facts() -> Facts {
        let addresses = json!(["fd00::1/64", "10.0.0.1/24"]);
        let mac = "02:00:00:00:00:01";
        let eth0 = json!({"name": "eth0", "link": "a--b", "mac": mac, "addresses": addresses});
        let direction = json!({"offered_packets": 9, "sent_packets": 5, "held_packets": 1,
            "lost": {"loss": 2, "queue": 1}});
        Facts(json!({
            "read_ns": "7",
            "nodes": [{"name": "a", "cpu_ns": "3", "cpu_receive_ns": null, "interfaces": [eth0]}],
            "links": [{"name": "a--b", "wire": {"directions": [direction, null]}}],
        }))
    }

    #[test]
    fn facts_are_found_by_name() {
        let facts = facts();
        assert_eq!(facts.read_ns().unwrap(), 7);
        assert_eq!(facts.counter("a", "cpu_ns").unwrap(), Some(3));
        assert_eq!(facts.counter("a", "cpu_receive_ns").unwrap(), None);
        let interface = facts.interface("a", "a--b").unwrap();
        assert_eq!(facts.address6("a", "a--b").unwrap(), "fd00::1");
        assert_eq!(facts.mac("a", "a--b").unwrap(), interface.mac);
        assert_eq!((interface.name.as_str(), interface.address.as_str()), ("eth0", "10.0.0.1"));
        let ledger = facts.ledger("a--b").unwrap();
        let expected = Ledger { offered: 9, sent: 5, held: 1, by_chance: 2, otherwise: 1 };
        assert_eq!(ledger, expected);
        assert_eq!(ledger.since(Ledger { offered: 4, ..Ledger::default() }).offered, 5);
    }

    #[test]
    fn what_is_not_there_is_told() {
        let facts = facts();
        assert!(facts.counter("b", "cpu_ns").is_err());
        assert!(facts.interface("a", "a--c").is_err());
        assert!(facts.ledger("a--c").is_err());
    }
}
