//! containerlab's management network: a switch that every node joins by `eth0`, with addresses and default routes.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::Management;
use crate::at::At;
use crate::clab::layers::Inherited;
use crate::draft::{Draft, End, Link, Node, Route, Switch};

/// The prefixes where the file gives none.
const IPV4: &str = "172.20.20.0/24";
const IPV6: &str = "3fff:172:20:20::/64";

/// The network, and the nodes on it.
pub(super) struct Network<'a> {
    wish: Management,
    settings: Option<At<'a>>,
    ipv4: Option<Ipv4Net>,
    ipv6: Option<Ipv6Net>,
    gateways: Vec<IpAddr>,
    used: RefCell<BTreeSet<IpAddr>>,
    /// How many addresses of each family have been looked at, of IPv6 last.
    seen: [Cell<u32>; 2],
    joined: Cell<bool>,
    mtu: u32,
}

impl<'a> Network<'a> {
    pub(super) fn new(wish: Management, settings: Option<At<'a>>) -> Network<'a> {
        let text = |key| settings.as_ref().and_then(|at| at.text_of(key));
        let prefix = |key, default| {
            text(key).filter(|text| !text.is_empty() && *text != "auto").unwrap_or(default)
        };
        let ipv4: Option<Ipv4Net> = prefix("ipv4-subnet", IPV4).parse().ok();
        let ipv6: Option<Ipv6Net> = prefix("ipv6-subnet", IPV6).parse().ok();
        // A file may give the gateway's address with the prefix's length.
        let (ipv4, ipv6) = (ipv4.map(|net| net.trunc()), ipv6.map(|net| net.trunc()));
        let given = |key| text(key).and_then(|text| text.parse::<IpAddr>().ok());
        let first4 = ipv4.and_then(|net| net.hosts().next()).map(IpAddr::V4);
        let first6 = ipv6.map(|net| IpAddr::V6(next6(net.network(), 1)));
        let gateways: Vec<IpAddr> = [given("ipv4-gw").or(first4), given("ipv6-gw").or(first6)]
            .into_iter()
            .flatten()
            .collect();
        let used = RefCell::new(gateways.iter().copied().collect());
        let mtu = text("mtu").and_then(|text| text.parse().ok()).unwrap_or(1500);
        let joined = Cell::new(false);
        // 0 is the network itself, 1 usually the gateway.
        let seen = [const { Cell::new(2) }; 2];
        Network { wish, settings, ipv4, ipv6, gateways, used, seen, joined, mtu }
    }

    /// The switch's name in the lab file.
    pub(super) fn switch(&self) -> String {
        let name = self.settings.as_ref().and_then(|at| at.text_of("network"));
        let name = crate::valid_name(name.unwrap_or("clab"));
        if name.is_empty() { "mgmt".into() } else { format!("{name}-mgmt") }
    }

    /// Whether links may end in it.
    pub(super) fn is_there(&self) -> bool {
        self.wish != Management::None
    }

    /// Makes sure that the switch is made.
    pub(super) fn need(&self) {
        self.joined.set(true);
    }

    /// Gives a node its `eth0`.
    pub(super) fn join(&self, from: &Inherited<'_>, node: &mut Node, draft: &mut Draft) {
        // Its names before 0.20 are read, too.
        let given = [["mgmt-ipv4", "mgmt_ipv4"], ["mgmt-ipv6", "mgmt_ipv6"]]
            .map(|keys| keys.iter().find_map(|key| from.nearest(key)));
        if !self.is_there() {
            given.iter().flatten().for_each(|at| at.left_out("there is no management network"));
            return;
        }
        let nets = [self.ipv4.map(IpNet::V4), self.ipv6.map(IpNet::V6)];
        let mut end = End::of(&node.name, "eth0");
        for (at, net) in given.into_iter().zip(nets) {
            let address = self.address(at.as_ref(), net);
            if net.is_some() && address.is_none() {
                let why = "without the management network, which has no address left";
                return from.nearest("kind").iter().for_each(|at| at.changed(why));
            }
            end.addresses.extend(address);
        }
        self.need();
        for address in &end.addresses {
            let gateway = self.gateways.iter().find(|g| g.is_ipv4() == address.addr().is_ipv4());
            // A route by a next hop that is not on the link would be refused by the kernel.
            let Some(gateway) = gateway.filter(|gateway| address.contains(*gateway)) else {
                continue;
            };
            node.routes.push(Route {
                to: "default".into(),
                via: Some(gateway.to_string()),
                dev: Some("eth0".into()),
            });
        }
        let ends = [end, End::port(self.switch())];
        draft.links.push(Link { ends, ..Link::default() });
    }

    fn address(&self, given: Option<&At<'_>>, net: Option<IpNet>) -> Option<IpNet> {
        let net = net?;
        if let Some(at) = given {
            match at.text().and_then(|text| text.parse::<IpAddr>().ok()) {
                Some(address)
                    if net.contains(&address) && self.used.borrow_mut().insert(address) =>
                {
                    at.carried();
                    return IpNet::new(address, net.prefix_len()).ok();
                }
                Some(_) => at.changed("taken, or not in the management network: another one"),
                None => at.odd("an address"),
            }
        }
        // Goes on where the last one was found: else each node would look at all before it.
        let seen = &self.seen[usize::from(net.addr().is_ipv6())];
        loop {
            let address = next(net, seen.get());
            let last = matches!(net, IpNet::V4(net) if address == IpAddr::V4(net.broadcast()));
            if last || !net.contains(&address) {
                return None;
            }
            seen.set(seen.get() + 1);
            if self.used.borrow_mut().insert(address) {
                return IpNet::new(address, net.prefix_len()).ok();
            }
        }
    }

    /// Adds the switch, and says what became of the settings.
    pub(super) fn finish(self, draft: &mut Draft) {
        if let Some(settings) = &self.settings {
            self.say(settings);
        }
        if !self.joined.get() {
            return;
        }
        let nets = [self.ipv4.map(|n| n.to_string()), self.ipv6.map(|n| n.to_string())];
        let nets: Vec<String> = nets.into_iter().flatten().map(|n| format!("\"{n}\"")).collect();
        let mut keys = vec![("subnet", format!("[{}]", nets.join(", ")))];
        if self.mtu != 1500 {
            keys.push(("mtu", self.mtu.to_string()));
        }
        let name = self.switch();
        draft.switches.push(Switch { keys, ..Switch::named(&name) });
        if self.wish == Management::Nat {
            // The door is the gateway of the nodes' default routes.
            let mut door = End::port("internet");
            for net in [self.ipv4.map(IpNet::V4), self.ipv6.map(IpNet::V6)].into_iter().flatten() {
                let gateway = self.gateways.iter().find(|gateway| net.contains(*gateway));
                door.addresses.extend(gateway.and_then(|g| IpNet::new(*g, net.prefix_len()).ok()));
            }
            let ends = [End::port(name), door];
            draft.links.push(Link { ends, ..Link::default() });
        }
    }

    fn say(&self, settings: &At<'_>) {
        if settings.is_empty() {
            settings.carried();
        }
        for (key, at) in settings.entries() {
            match key {
                _ if !self.is_there() => at.left_out("there is no management network"),
                "network" => at.changed(format!("the switch is called {}", self.switch())),
                "ipv4-subnet" | "ipv6-subnet" | "ipv4-gw" | "ipv6-gw" | "mtu" => at.carried(),
                "bridge" => at.changed("a switch of the lab, not a bridge of the host"),
                "external-access" if self.wish == Management::Nat => at.carried(),
                "external-access" => at.changed("none; `--mgmt nat` gives it"),
                "skip-when-unused" => at.changed("the switch is there if a node is on it"),
                _ => at.left_out("a switch has no such setting"),
            }
        }
    }
}

fn next(net: IpNet, n: u32) -> IpAddr {
    match net {
        IpNet::V4(net) => IpAddr::V4(Ipv4Addr::from(u32::from(net.network()).wrapping_add(n))),
        IpNet::V6(net) => IpAddr::V6(next6(net.network(), n)),
    }
}

fn next6(network: Ipv6Addr, n: u32) -> Ipv6Addr {
    Ipv6Addr::from(u128::from(network).wrapping_add(u128::from(n)))
}
