//! Labs for tests, in few words: `node`, `router`, `switch`, `link("a", "b")`.

use std::collections::HashMap;

use crate::forwarding::Forwarding;
use crate::lab::{End, Lab, Link, NodeSpec, Pool, RouteSpec, Switch};
use crate::plan::Slot;

/// A lab under construction. Ends of links are written as in a lab file.
#[derive(Clone, Debug)]
pub(crate) struct LabBuilder {
    pub(crate) lab: Lab,
    index: HashMap<String, End>,
}

impl LabBuilder {
    pub(crate) fn new() -> Self {
        let pool = Pool {
            ipv4: Some("10.0.0.0/8".parse().unwrap()),
            ipv6: Some("fd00::/8".parse().unwrap()),
            variant: 0,
        };
        let lab = Lab {
            name: "test".into(),
            pool,
            routing: true,
            ecmp: true,
            nodes: vec![],
            switches: vec![],
            links: vec![],
            slices: vec![],
            record: None,
            expect: vec![],
            place: vec![],
            layout: std::collections::BTreeMap::new(),
            numbered_as: std::collections::BTreeMap::new(),
        };
        LabBuilder { lab, index: HashMap::new() }
    }

    fn add_node(&mut self, name: &str, forwarding: bool) -> &mut Self {
        let node = self.lab.nodes.len();
        self.index.insert(name.into(), End::Node { node, iface: None });
        let forwarding = Forwarding::Both(forwarding);
        let spec = NodeSpec { name: name.into(), forwarding, ..NodeSpec::default() };
        self.lab.nodes.push(spec.into());
        self
    }

    pub(crate) fn host(&mut self, name: &str) -> &mut Self {
        self.add_node(name, false)
    }

    pub(crate) fn router(&mut self, name: &str) -> &mut Self {
        self.add_node(name, true)
    }

    /// A node in another: the name is whole, and the parent exists.
    pub(crate) fn child(&mut self, name: &str, limit: Option<u32>) -> &mut Self {
        let parent = name.rsplit_once('/').map(|(parent, _)| self.index[parent].clone());
        self.add_node(name, false);
        let node = self.lab.nodes.last_mut().unwrap();
        node.children = limit;
        node.parent = parent.map(|end| match end {
            End::Node { node, .. } => Slot::new(node),
            _ => panic!("{name}: its parent is not a node"),
        });
        self
    }

    pub(crate) fn switch(&mut self, name: &str) -> &mut Self {
        let switch = self.lab.switches.len();
        self.index.insert(name.into(), End::Switch { switch });
        self.lab.switches.push(Switch { name: name.into(), ..Switch::default() });
        self
    }

    pub(crate) fn switch_subnet(&mut self, name: &str, subnet: &str) -> &mut Self {
        let End::Switch { switch } = self.index[name] else { panic!("{name}: no switch") };
        self.lab.switches[switch].subnets.push(subnet.parse().unwrap());
        self
    }

    pub(crate) fn routes(&mut self, name: &str, routes: Vec<RouteSpec>) -> &mut Self {
        let End::Node { node, .. } = self.index[name] else { panic!("{name}: no node") };
        self.lab.nodes[node].routes = Some(routes);
        self
    }

    fn end(&self, text: &str) -> End {
        match text.split_once(':') {
            _ if text == "internet" => End::Internet,
            None => self.index[text].clone(),
            Some(("host", iface)) => End::Host { iface: iface.into() },
            Some((name, iface)) => {
                let End::Node { node, .. } = self.index[name] else { panic!("{name}: no node") };
                End::Node { node, iface: Some(iface.into()) }
            }
        }
    }

    pub(crate) fn link(&mut self, a: &str, b: &str) -> &mut Self {
        let ends = [self.end(a), self.end(b)];
        let addresses = [vec![], vec![]];
        self.lab.links.push(Link {
            name: None,
            ends,
            addresses,
            bare: [false; 2],
            macs: [None; 2],
            numbers: [None; 2],
            subnets: vec![],
            mtu: None,
            impairments: Default::default(),
        });
        self
    }

    fn last(&mut self) -> &mut Link {
        self.lab.links.last_mut().unwrap()
    }

    /// An address by hand for one end of the last link.
    pub(crate) fn address(&mut self, side: usize, address: &str) -> &mut Self {
        let address = address.parse().unwrap();
        self.last().addresses[side].push(address);
        self
    }

    /// No address for one end of the last link.
    pub(crate) fn bare(&mut self, side: usize) -> &mut Self {
        self.last().bare[side] = true;
        self
    }

    /// A prefix by hand for the last link.
    pub(crate) fn subnet(&mut self, subnet: &str) -> &mut Self {
        let subnet = subnet.parse().unwrap();
        self.last().subnets.push(subnet);
        self
    }
}

/// h1, h2 - s1 - r1 - r2 - web.
pub(crate) fn two_sites() -> Lab {
    let mut lab = LabBuilder::new();
    lab.host("h1").host("h2").router("r1").router("r2").host("web").switch("s1");
    lab.link("h1", "s1").link("h2", "s1").link("s1", "r1").link("r1", "r2").link("r2", "web");
    lab.lab
}
