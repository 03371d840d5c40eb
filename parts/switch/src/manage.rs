//! Carries out and answers the owner's requests.
//!
//! Rules are written to the state file before they take effect; if that fails, nothing has changed.

use std::collections::{BTreeMap, BTreeSet};

use netloom_ebpf::flow::Carried;
use netloom_shm::inbox::Counter;
use netloom_shm::protocol::MOST_NAME;
use netloom_sys::describe;

use crate::control::MOST_ANSWER;
use crate::control::requests::{
    Answer, MacEntry, MacTable, PortKey, PortShown, Presence, Request, Shown,
};
use crate::plane::{PlaneAnswer, PlaneRequest};
use crate::relay::{counters, counters_of, seconds};
use crate::rules::{Mac, Mirror, PortRules, Rules, check_number};
use crate::server::Server;
use crate::{Error, Result};

/// Most addresses in one answer: more would delay ports that wait for edges.
const MOST_ENTRIES: usize = 150_000;

impl Server {
    /// Carries out a request and answers it.
    pub(crate) fn answer(&mut self, id: u64, of: u32, body: &[u8]) {
        let Some(who) = self.clients.get(&id).map(|client| client.person()) else { return };
        let answer = if self.gate.manages(who) {
            self.answer_to(body)
        } else {
            Err(Error::refused(format!("not allowed to user {}", who.uid)))
        };
        let (failed, body) = match answer {
            Ok(body) => (false, body),
            Err(e) => (true, written(&reason(&e)).unwrap_or_default()),
        };
        let Some(client) = self.clients.get_mut(&id) else { return };
        if client.reply(of, failed, body).is_err() {
            self.expel(id);
        }
    }

    /// Carries out a request of either kind; the answer's text.
    fn answer_to(&mut self, body: &[u8]) -> Result<Vec<u8>> {
        if let Ok(request) = serde_json::from_slice::<PlaneRequest>(body) {
            let answer = match &mut self.plane {
                Some(plane) => plane.obey(request)?,
                None => PlaneAnswer::Programs(None),
            };
            return written(&answer);
        }
        let request = serde_json::from_slice(body).map_err(|e| Error::Message(e.to_string()))?;
        written(&self.obey(request)?)
    }

    fn obey(&mut self, request: Request) -> Result<Answer> {
        match request {
            Request::Show => return Ok(Answer::Shown(Box::new(self.shown()))),
            Request::Macs { port } => return self.macs(port.as_ref()).map(Answer::Macs),
            Request::SetPort { port, change } => {
                let number = self.number(&port)?;
                self.change_port(number, |rules| change.apply(rules))?;
                self.turn_out(number);
            }
            Request::SetVlan { port, vlan } => {
                let number = self.number(&port)?;
                self.change_port(number, |rules| rules.vlan = vlan)?;
            }
            Request::AddMirror(mirror) => {
                let taken = &self.state.rules.mirrors;
                let number = (1..=u16::MAX).find(|number| !taken.contains_key(number));
                let number = number.ok_or_else(|| Error::refused("mirrors: no number is free"))?;
                self.change(|rules| drop(rules.mirrors.insert(number, mirror)))?;
                return Ok(Answer::Mirror(number));
            }
            Request::DeleteMirror { mirror } => {
                if !self.state.rules.mirrors.contains_key(&mirror) {
                    return Err(Error::refused(format!("mirror {mirror}: there is none")));
                }
                self.change(|rules| drop(rules.mirrors.remove(&mirror)))?;
            }
            Request::Disconnect { port } => {
                let number = self.number(&port)?;
                self.disconnect(number)?;
            }
            Request::Stop => self.stop = true,
        }
        Ok(Answer::Done)
    }

    /// The number of a port that is connected, awaited, or reserved.
    fn number(&self, port: &PortKey) -> Result<u16> {
        match port {
            PortKey::Number(number) => check_number(*number).map(|()| *number),
            PortKey::Name(name) => {
                let known = self.state.ports.iter().find(|known| known.name == *name);
                let known = known.map(|known| u16::from(known.number));
                let number = known.or_else(|| self.state.rules.reserved(name));
                number.ok_or_else(|| self.no_port(name))
            }
        }
    }

    /// Names what there is instead of a port.
    fn no_port(&self, name: &str) -> Error {
        let here = self.state.ports.iter().map(|port| port.name.as_str());
        let reserved = self.state.rules.ports.values().filter_map(|rules| rules.name.as_deref());
        let all: BTreeSet<&str> = here.chain(reserved).filter(|name| !name.is_empty()).collect();
        Error::refused(none_named(name, &all))
    }

    fn change_port(&mut self, number: u16, edit: impl FnOnce(&mut PortRules)) -> Result<()> {
        self.change(|rules| {
            let mut of = rules.ports.remove(&number).unwrap_or_default();
            edit(&mut of);
            // A port without rules leaves the list: it is shown only while it is in use.
            if of != PortRules::NONE {
                rules.ports.insert(number, of);
            }
        })
    }

    fn change(&mut self, edit: impl FnOnce(&mut Rules)) -> Result<()> {
        let mut rules = self.state.rules.clone();
        edit(&mut rules);
        rules.check()?;
        let before = std::mem::replace(&mut self.state.rules, rules);
        if let Err(e) = self.file.write(&self.state) {
            self.state.rules = before;
            return Err(e);
        }
        // What may have been lost is written with it.
        self.dirty = false;
        self.hub.set_rules(&self.state.rules)?;
        self.end_results();
        self.close_forbidden();
        Ok(())
    }

    /// Disconnects a port from a client that may no longer have it.
    fn turn_out(&mut self, number: u16) {
        let Ok(short) = u8::try_from(number) else { return };
        let Some(id) = self.hub.port(short).map(|port| port.client) else { return };
        let Some(who) = self.clients.get(&id).map(|client| client.person()) else { return };
        let rules = self.state.rules.ports.get(&number);
        if rules.is_some_and(|rules| !self.gate.gives(who, rules)) {
            self.dismiss(id);
        }
    }

    /// Ends the temporary mirror sessions of this port.
    pub(crate) fn end_temporary(&mut self, number: u8) {
        let ends = |mirror: &Mirror| mirror.temporary && mirror.to == u16::from(number);
        if self.state.rules.mirrors.values().any(ends) {
            let ended = self.change(|rules| rules.mirrors.retain(|_, mirror| !ends(mirror)));
            if ended.is_err() {
                // It could not be written. It ends all the same: the next port with this number is not to get copies.
                self.state.rules.mirrors.retain(|_, mirror| !ends(mirror));
                self.dirty = true;
                // Fewer sessions than the ones in force cannot be refused.
                let _ = self.hub.set_rules(&self.state.rules);
                self.end_results();
                self.close_forbidden();
            }
        }
    }

    fn disconnect(&mut self, number: u16) -> Result<()> {
        let short = u8::try_from(number).unwrap_or(0);
        match self.hub.port(short).map(|port| port.client) {
            Some(id) => self.dismiss(id),
            // It is awaited: it has no connection to end.
            None if self.state.ports.iter().any(|known| known.number == short) => {
                self.leave(short);
            }
            None => return Err(Error::refused(format!("port {number}: not in use"))),
        }
        Ok(())
    }

    fn shown(&self) -> Shown {
        let mut numbers: BTreeSet<u16> = self.state.rules.ports.keys().copied().collect();
        numbers.extend(self.state.ports.iter().map(|known| u16::from(known.number)));
        let ports: Vec<PortShown> = numbers.into_iter().map(|n| self.port_shown(n)).collect();
        let own = netloom_shm::layout::page::LENGTH + netloom_shm::layout::inbox::LENGTH;
        Shown {
            pid: std::process::id(),
            uid: self.gate.owner,
            since: self.since,
            cpu_us: cpu_us(),
            memory_kib: ports.iter().map(|p| p.memory_kib).sum::<u64>() + own as u64 / 1024,
            edges: self.edges.count(),
            vlans: self.hub.is_vlan_aware(),
            relay: counters(&self.hub.inbox).collect(),
            joins: self.tally.joins,
            refused: self.tally.refused,
            expelled: self.tally.expelled,
            ports,
            mirrors: self.state.rules.mirrors.clone(),
        }
    }

    fn port_shown(&self, number: u16) -> PortShown {
        let rules = self.state.rules.ports.get(&number).cloned().unwrap_or_default();
        let mut shown = PortShown { number, rules, ..PortShown::default() };
        shown.name = shown.rules.name.clone().unwrap_or_default();
        let short = u8::try_from(number).unwrap_or(0);
        let Some(known) = self.state.ports.iter().find(|known| known.number == short) else {
            return shown;
        };
        shown.name.clone_from(&known.name);
        shown.presence = Presence::Awaited;
        shown.uid = Some(known.uid);
        let Some(port) = self.hub.port(short) else { return shown };
        let (edges_out, edges_in, bytes) = self.edges.of(short);
        shown.presence = Presence::Here;
        shown.pid = (port.peer.pid > 0).then_some(port.peer.pid);
        shown.uid = Some(port.peer.uid);
        shown.since = Some(port.since);
        (shown.edges_out, shown.edges_in) = (edges_out, edges_in);
        shown.memory_kib = (port.bytes + bytes) / 1024;
        shown.super_frames = port.capabilities.super_frames;
        shown.checksums = port.capabilities.checksums;
        shown.counters = counters_of(port).collect::<BTreeMap<_, _>>();
        if let Some(carried) = self.plane.as_ref().and_then(|plane| plane.carried(&known.name)) {
            add_carried(&mut shown.counters, &carried);
        }
        shown.counters.insert("missed".into(), port.missed);
        // The port itself knows this later, and not at all if it does not look.
        let dropped = self.hub.inbox.drops_of(number).wrapping_sub(port.dropped_before);
        shown.counters.insert(Counter::RelayDropped.name().into(), dropped);
        shown
    }

    fn macs(&self, only: Option<&PortKey>) -> Result<Vec<MacTable>> {
        let only = match only {
            Some(PortKey::Number(0)) => Some(0),
            Some(key) => Some(self.number(key)?),
            None => None,
        };
        let now = seconds();
        let wanted = |number: u16| only.is_none_or(|only| only == number);
        let mut tables = Vec::new();
        if wanted(0) {
            let entries = self.hub.table().entries(now).map(|entry| MacEntry {
                mac: entry.mac,
                vlan: entry.vid.map_or(0, netloom_bridge::Vid::number),
                port: entry.port,
                age: u64::from(now.saturating_sub(entry.seen)),
            });
            tables.push(MacTable { port: 0, entries: entries.collect() });
        }
        let mut count = 0;
        for number in (1..=u8::MAX).filter(|number| wanted(u16::from(*number))) {
            let Some(port) = self.hub.port(number) else { continue };
            let entries = port.downlink.inbox().table().into_iter().map(|entry| MacEntry {
                mac: Mac(entry.mac),
                vlan: entry.vid,
                port: entry.port,
                age: u64::from(now.saturating_sub(entry.seen)),
            });
            let table = MacTable { port: u16::from(number), entries: entries.collect() };
            count += table.entries.len();
            if count > MOST_ENTRIES {
                let text = format!("more than {MOST_ENTRIES} addresses: ask for one port");
                return Err(Error::refused(text));
            }
            tables.push(table);
        }
        Ok(tables)
    }
}

/// Adds what the kernel forwarded of a port's frames, which the port itself never saw.
fn add_carried(counters: &mut BTreeMap<String, u64>, carried: &Carried) {
    for (counter, more) in [
        (Counter::SentFrames, carried.sent),
        (Counter::SentBytes, carried.sent_bytes),
        (Counter::SentSuper, carried.sent_super),
        (Counter::ReceivedFrames, carried.received),
        (Counter::ReceivedBytes, carried.received_bytes),
        (Counter::ReceivedSuper, carried.received_super),
    ] {
        *counters.entry(counter.name().to_owned()).or_default() += more;
    }
    counters.insert("sent-in-kernel".to_owned(), carried.sent);
    counters.insert("received-in-kernel".to_owned(), carried.received);
}

/// CPU time of this process in microseconds.
fn cpu_us() -> u64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let seconds = u64::try_from(used.tv_sec).unwrap_or(0);
    seconds * 1_000_000 + u64::try_from(used.tv_nsec).unwrap_or(0) / 1000
}

fn written<T: serde::Serialize>(value: &T) -> Result<Vec<u8>> {
    let body = serde_json::to_vec(value).map_err(|e| Error::Message(e.to_string()))?;
    if body.len() > MOST_ANSWER {
        return Err(Error::refused(format!("an answer of {} bytes", body.len())));
    }
    Ok(body)
}

/// An error's text in an answer, without the prefix that the requester's own error adds.
fn reason(error: &Error) -> String {
    match error {
        Error::Refused(reason) => reason.clone(),
        Error::Message(reason) => format!("message: {reason}"),
        other => describe(other),
    }
}

/// Most names of ports that an answer lists.
const MOST_LISTED: usize = 16;

/// A port that is not there, with those that are, and the one that may be meant: that of the node's only interface.
fn none_named(name: &str, all: &BTreeSet<&str>) -> String {
    let shown: String = name.chars().take(MOST_NAME).collect();
    let of_node = |port: &&&str| port.strip_prefix(name).is_some_and(|rest| rest.starts_with(':'));
    let meant: Vec<&&str> = all.iter().filter(of_node).collect();
    if let [one] = meant.as_slice() {
        return format!("port {shown:?}: there is none; did you mean {one}?");
    }
    let mut listed: Vec<&str> = all.iter().copied().take(MOST_LISTED).collect();
    if all.len() > MOST_LISTED {
        listed.push("...");
    }
    match listed.is_empty() {
        true => format!("port {shown:?}: there is none, and no other with a name"),
        false => format!("port {shown:?}: there is none; it has {}", listed.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_is_not_there_is_told_with_those_that_are() {
        let all = BTreeSet::from(["a:eth0", "b:eth0", "b:eth1", "west"]);
        let told = |name| none_named(name, &all);
        assert_eq!(told("a"), "port \"a\": there is none; did you mean a:eth0?");
        let list = "it has a:eth0, b:eth0, b:eth1, west";
        assert_eq!(told("b"), format!("port \"b\": there is none; {list}"));
        assert_eq!(told("wes"), format!("port \"wes\": there is none; {list}"));
        let none = none_named("a", &BTreeSet::new());
        assert_eq!(none, "port \"a\": there is none, and no other with a name");
    }
}
