//! Whether the host's side of root's doors still stands: somebody may have flushed its rules, taken an interface out of its
//! bridge, or switched forwarding off.
//!
//! Only what netloom changed of the host counts. Routes are not read, of which a host may have a million, but asked for. An
//! ordinary user's doors lead through a namespace of the lab's own, where nobody else is.

use ipnet::IpNet;
use netloom_model::plan::form::LinkForm;
use netloom_model::plan::{LinkId, PlannedEnd, PlannedLink, WayBack};
use netloom_netlink::{
    Address, AddressInfo, Batch, Change, Found, LinkInfo, Lookup, Route, Socket, nat,
};

use super::Doors;
use super::opening::{Opening, outer, table};
use crate::stage::spaces::{on_a_thread, run};
use crate::store::host_change::{BRIDGE, HostChange};
use crate::store::state::{Folder, State};
use crate::{Error, Result};

/// What the host has of a lab's doors.
struct Host<'a> {
    folder: &'a Folder,
    state: &'a State,
    links: Vec<LinkInfo>,
    addresses: Vec<AddressInfo>,
}

impl Doors {
    /// What of the host differs from what the lab made there, in words, each by the link of a door.
    pub(crate) fn differences(
        &self,
        folder: &Folder,
        state: &State,
    ) -> Result<Vec<(LinkId, String)>> {
        if state.user || !state.plan.links.iter().any(|link| state.form(link).is_door()) {
            return Ok(vec![]);
        }
        on_a_thread(|| {
            let mut socket =
                Socket::open_to_ask().map_err(Error::of("host", "open a netlink socket"))?;
            let host = Host::read(&mut socket, folder, state)?;
            let opening = Opening::of(folder, &state.plan)?;
            let mut found = Vec::new();
            for link in &state.plan.links {
                found.extend(host.differences_of(link).into_iter().map(|words| (link.id, words)));
            }
            for way in state.plan.ways_back() {
                let link = &state.plan.links[way.door];
                let lacks = host.lacks_way(&mut socket, link, &way)?;
                found.extend(lacks.map(|words| (link.id, words)));
            }
            let leads_out = state.plan.links.iter().find(|link| link.leads_to_internet());
            let of_all = leads_out.or(state.plan.links.first()).map(|link| link.id);
            let words = opening.differences(leads_out.is_some())?;
            found.extend(words.into_iter().filter_map(|words| Some((of_all?, words))));
            Ok(found)
        })
    }

    /// Makes the host's side of doors stand again.
    pub(crate) fn mend(&self, folder: &Folder, state: &State) -> Result<()> {
        on_a_thread(|| {
            let mut socket = Socket::open().map_err(Error::of("host", "open a netlink socket"))?;
            let host = Host::read(&mut socket, folder, state)?;
            let mut batch = Batch::new();
            state.plan.links.iter().for_each(|link| host.push(&mut batch, link));
            for way in state.plan.ways_back() {
                let link = &state.plan.links[way.door];
                let Some(end) = host.end(link) else { continue };
                let again = Route { replace: true, ..Route::new(way.to, Some(way.via), end.index) };
                // `replace`: a route that exists is not a failure.
                batch.push(format!("link {:?}", link.name), &again);
            }
            if !batch.is_empty() {
                run(&mut socket, &mut batch, "host", "mend doors")?;
            }
            let mut opening = Opening::of(folder, &state.plan)?;
            opening.set_again()?;
            let outers = opening.outers();
            if outers.is_empty() { Ok(()) } else { opening.translate(&mut socket, &outers) }
        })
    }
}

impl<'a> Host<'a> {
    fn read(socket: &mut Socket, folder: &'a Folder, state: &'a State) -> Result<Host<'a>> {
        let links = socket.links_alone().map_err(Error::of("host", "list links"))?;
        let addresses = socket.addresses().map_err(Error::of("host", "read addresses"))?;
        Ok(Host { folder, state, links, addresses })
    }

    fn link(&self, name: &str) -> Option<&LinkInfo> {
        self.links.iter().find(|link| link.name == name)
    }

    /// The host's end of a door's pair. Where it is gone, so is the node's, which is told of there.
    fn end(&self, link: &PlannedLink) -> Option<&LinkInfo> {
        self.link(&outer(self.folder, link, self.state.form(link)))
    }

    fn differences_of(&self, link: &PlannedLink) -> Vec<String> {
        let Some(end) = self.end(link) else { return vec![] };
        let mut all = Vec::new();
        if !end.up {
            all.push(format!("{} of the host up, was down", end.name));
        }
        for door in &link.ends {
            match door {
                PlannedEnd::Internet { addresses } => {
                    let lacks = self.lacking(end, addresses);
                    all.extend(lacks.map(|a| format!("{} address {a}, was none", end.name)));
                }
                PlannedEnd::Host { iface } if self.state.form(link) == LinkForm::Bridged => {
                    all.extend(self.ports(link, end, iface).into_iter().map(|(port, _)| {
                        format!("{} of the host in the lab's bridge and up, was not", port.name)
                    }));
                }
                _ => {}
            }
        }
        all
    }

    /// What is lacking of a way to nodes behind the node at a door, in words. One that is down has none.
    fn lacks_way(
        &self,
        socket: &mut Socket,
        link: &PlannedLink,
        way: &WayBack,
    ) -> Result<Option<String>> {
        // A door that is down on purpose lacks nothing.
        let is_down = self.state.down.contains(&link.id);
        let Some(end) = self.end(link).filter(|end| end.up && !is_down) else { return Ok(None) };
        let to = way.to.hosts().next().unwrap_or(way.to.network());
        let found = socket.route_to(&Lookup { to, forwarded: None });
        let is_it = |found: &Found| matches!(found, Found::Leaves { link, via, .. } if *link == end.index && *via == Some(way.via));
        Ok(match found.map_err(Error::of("host", "look up a route"))? {
            Some(found) if is_it(&found) => None,
            _ => Some(format!("route {} via {} dev {}, was none", way.to, way.via, end.name)),
        })
    }

    fn lacking<'b>(
        &'b self,
        end: &'b LinkInfo,
        addresses: &'b [IpNet],
    ) -> impl Iterator<Item = &'b IpNet> {
        let has = |a: &&IpNet| {
            self.addresses.iter().any(|found| found.link == end.index && found.address == **a)
        };
        addresses.iter().filter(move |address| !has(address))
    }

    /// Ports that are not in the bridge of a door, or down, with that bridge; of the bridge itself, if that is down.
    fn ports<'b>(
        &'b self,
        link: &PlannedLink,
        end: &'b LinkInfo,
        iface: &str,
    ) -> Vec<(&'b LinkInfo, Option<u32>)> {
        let bridge = super::opening::name(self.folder, BRIDGE, link.id.get());
        let Some(bridge) = self.link(&bridge) else { return vec![] };
        let ports = [Some(end), self.link(iface)].into_iter().flatten();
        let outside = ports.filter(|port| port.master != Some(bridge.index) || !port.up);
        let outside = outside.map(|port| (port, Some(bridge.index)));
        outside.chain((!bridge.up).then_some((bridge, None))).collect()
    }

    fn push(&self, batch: &mut Batch, link: &PlannedLink) {
        let Some(end) = self.end(link) else { return };
        let object = format!("link {:?}", link.name);
        if !end.up {
            batch.push(object.as_str(), &Change::of(end.index).up());
        }
        for door in &link.ends {
            match door {
                PlannedEnd::Internet { addresses } => {
                    for address in self.lacking(end, addresses) {
                        let new = Address { replace: true, ..Address::new(end.index, *address) };
                        batch.push(object.as_str(), &new);
                    }
                }
                PlannedEnd::Host { iface } if self.state.form(link) == LinkForm::Bridged => {
                    for (port, bridge) in self.ports(link, end, iface) {
                        let change = Change::of(port.index).up();
                        let change = match bridge {
                            Some(bridge) => change.enslave(bridge),
                            None => change,
                        };
                        batch.push(object.as_str(), &change);
                    }
                }
                _ => {}
            }
        }
    }
}

impl Opening<'_> {
    /// Settings and rules of the host that differ.
    fn differences(&self, leads_out: bool) -> Result<Vec<String>> {
        let mut all = Vec::new();
        for (path, value) in self.settings() {
            if let Some(now) = self.ledger.read(path).filter(|now| now != value) {
                all.push(format!("{path} of the host {value}, was {now}"));
            }
        }
        if leads_out {
            let whole = self.with_rules(&self.outers(), nat::is_whole);
            if !whole?.map_err(Error::of("internet", "read NAT"))? {
                all.push(format!("rules of the host's table {}, were gone", table(self.folder)));
            }
        }
        Ok(all)
    }

    /// The host's settings that the lab set, each with its value.
    fn settings(&self) -> impl Iterator<Item = (&str, &str)> {
        self.changes.iter().filter_map(|change| match change {
            HostChange::Sysctl { path, .. } if !change.is_limit() => {
                // Router advertisements are accepted by a forwarding host only with 2.
                Some((path.as_str(), if path.ends_with("accept_ra") { "2" } else { "1" }))
            }
            _ => None,
        })
    }

    fn set_again(&self) -> Result<()> {
        for (path, value) in self.settings() {
            self.ledger.take(path, value, &self.folder.path())?;
        }
        Ok(())
    }

    fn outers(&self) -> Vec<String> {
        let outers = self.plan.links.iter().filter(|link| link.leads_to_internet());
        outers.map(|link| self.outer(link)).collect()
    }
}
