//! Keeps a switch's entries as a router's kernel has routes and neighbours.
//!
//! Every destination has one entry, which leads to the number of its next hops; equal lists have one number. So a
//! neighbour's new address costs one entry, however many routes lead to it. Order: next hops before destinations that
//! lead to them, and the reverse when they go, so that no packet finds half of it.
//!
//! Entries of an earlier process are kept until they are confirmed or the grace is over. Nor does an entry that forwards
//! make way for one that does not know its next hop yet.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use netloom_netlink::{Batch, Family, ForwardingChange, Socket, UseNeighbour};
use netloom_ofconn::Target;
use netloom_ofconn::client::Client;
use netloom_openflow::flow::TABLE_ALL;
use netloom_openflow::multipart::{FlowRequest, FlowStats};
use netloom_openflow::multipart::{Reply, Request};
use netloom_openflow::{Field, Instruction, Match, Message, Version};

use crate::daemons;
use crate::fib::{self, Destination, Disposition, Fib, Hop};
use crate::rules::{self, HOPS, V4, V6};
use crate::{Error, Interface, Result, Spec};

/// How often neighbours are looked after.
pub(crate) const LOOK: Duration = Duration::from_secs(2);

/// Time for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// How many changes go out before a barrier: the switch reads while it answers.
const AT_ONCE: usize = 4096;

/// A list of next hops in the switch.
#[derive(Debug)]
struct Set {
    number: u64,
    /// How many destinations lead to it.
    users: usize,
    /// Whether packets go on by it.
    forwards: bool,
    /// Packets at the last look.
    packets: u64,
}

/// The entry of a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Entry {
    /// To the router.
    Stack,
    /// By this list.
    By(Vec<Hop>),
    /// Of an earlier process, by next hops of this number.
    Earlier(Option<u64>),
}

/// What becomes of a destination's entry.
enum Decision {
    /// It stays until more is known.
    Later,
    /// It is this one, or none.
    Now(Option<Entry>),
}

/// A switch that follows a router.
pub(crate) struct Mirror {
    client: Client,
    interfaces: Vec<Interface>,
    root: Option<PathBuf>,
    grace: Duration,
    fib: Fib,
    entries: BTreeMap<Destination, Entry>,
    sets: HashMap<Vec<Hop>, Set>,
    /// Lists by a next hop of theirs.
    by_hop: BTreeMap<(u32, IpAddr), BTreeSet<Vec<Hop>>>,
    next: u64,
    /// Entries that nobody confirms, with the end of their grace.
    unconfirmed: BTreeMap<Destination, Instant>,
    /// Next hops of an earlier process, by number.
    earlier: HashMap<u64, Vec<Message>>,
    /// Destinations whose entry may have to change.
    dirty: BTreeSet<Destination>,
    /// Next hops whose address may have changed.
    moved: BTreeSet<(u32, IpAddr)>,
    unknown: bool,
    /// Whether a daemon was found to be away since that was asked.
    excused: bool,
}

impl Mirror {
    /// One that begins with what is in the switch.
    pub(crate) fn begin(spec: &Spec) -> Result<Mirror> {
        let client = Client::connect(&Target::Unix(spec.openflow.clone()), &[Version::V13])?;
        let mut mirror = Mirror {
            client: client.within(PATIENCE).at_once(AT_ONCE),
            interfaces: spec.interfaces.clone(),
            root: spec.root.clone(),
            grace: Duration::from_secs(spec.grace.into()),
            fib: Fib::default(),
            entries: BTreeMap::new(),
            sets: HashMap::new(),
            by_hop: BTreeMap::new(),
            next: 1,
            unconfirmed: BTreeMap::new(),
            earlier: HashMap::new(),
            dirty: BTreeSet::new(),
            moved: BTreeSet::new(),
            unknown: true,
            excused: false,
        };
        let known = mirror.inherit()?;
        // A change would take results that are kept, although it changed nothing.
        let mut admission = rules::admission(&mirror.interfaces);
        admission.retain(|wanted| !known.contains(&rules::plain(wanted)));
        mirror.change(admission)?;
        Ok(mirror)
    }

    /// How many entries nobody has confirmed yet.
    pub(crate) fn unconfirmed(&self) -> usize {
        self.unconfirmed.len()
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Reads what the switch said without a question, which is echo requests or of no use.
    pub(crate) fn drain(&mut self) -> Result<()> {
        while self.client.receive(Some(Duration::ZERO))?.is_some() {}
        Ok(())
    }

    /// Makes changes, and returns when the switch obeys them. Nothing here asks for what it could refuse, but for too many
    /// entries.
    fn change(&mut self, changes: impl IntoIterator<Item = Message>) -> Result<()> {
        match self.client.change(changes)?.first() {
            None => Ok(()),
            Some(first) => Err(Error::Strange(format!("it refuses a change: {}", first.reason))),
        }
    }

    /// Finds the entries of an earlier process; returns those that are of no destination.
    fn inherit(&mut self) -> Result<Vec<Message>> {
        let until = Instant::now() + self.grace;
        let mut others = Vec::new();
        for entry in self.flows(TABLE_ALL)? {
            let number = entry.instructions.iter().find_map(|instruction| match instruction {
                Instruction::WriteMetadata { value, .. } => Some(*value),
                _ => None,
            });
            let hops = metadata_of(&entry.matching);
            // Above all that an earlier process gave: its entries
            // lead to its numbers until they are confirmed.
            self.next = self.next.max(hops.max(number.unwrap_or(0)) + 1);
            let is_destination = matches!(entry.table, V4 | V6);
            let at = rules::destination_of(entry.table, entry.priority, &entry.matching);
            match at.filter(|_| is_destination) {
                Some(at) => {
                    self.entries.insert(at, Entry::Earlier(number));
                    self.unconfirmed.insert(at, until);
                }
                None if hops > 0 => {
                    self.earlier.entry(hops).or_default().push(rules::entry_of(entry));
                }
                None => others.push(rules::entry_of(entry)),
            }
        }
        if let Reply::GroupDesc(groups) = self.client.request(Request::GroupDesc)? {
            for group in groups {
                let earlier = self.earlier.entry(group.group.into()).or_default();
                earlier.push(rules::group_entry(group.kind, group.group, group.buckets));
            }
        }
        Ok(others)
    }

    /// Takes over next hops of an earlier process, if they are these.
    fn adopt(&mut self, number: u64, hops: &[Hop]) {
        if self.sets.contains_key(hops) {
            return;
        }
        let mac = |hop: &Hop| self.fib.mac(hop.link, hop.address);
        let Some(resolved) = rules::resolve(hops, &self.interfaces, mac) else { return };
        let wanted: Vec<Message> = rules::hops(number, Some(&resolved), &self.interfaces, true)
            .iter()
            .map(rules::plain)
            .filter(|message| !rules::is_removal(message))
            .collect();
        let Some(earlier) = self.earlier.get(&number) else { return };
        // As they would be made now: they stay, and no packet finds a gap.
        if wanted.len() == earlier.len() && wanted.iter().all(|wanted| earlier.contains(wanted)) {
            self.earlier.remove(&number);
            self.keep_set(number, hops, true, 0);
        }
    }

    /// Notes a list that the switch has.
    fn keep_set(&mut self, number: u64, hops: &[Hop], forwards: bool, users: usize) {
        self.sets.insert(hops.to_vec(), Set { number, users, forwards, packets: 0 });
        for hop in hops {
            self.by_hop.entry((hop.link, hop.address)).or_default().insert(hops.to_vec());
        }
    }

    fn flows(&mut self, table: u8) -> Result<Vec<FlowStats>> {
        let request = FlowRequest { table, ..FlowRequest::new(Match::Oxm(vec![])) };
        match self.client.request(Request::Flow(request))? {
            Reply::Flow(entries) => Ok(entries),
            _ => Err(Error::Strange("unexpected reply".to_owned())),
        }
    }

    /// Notes what the kernel told.
    pub(crate) fn hear(&mut self, change: ForwardingChange) {
        match change {
            ForwardingChange::Route { route, replaces } => {
                self.dirty.extend(fib::destination(&route));
                self.unknown |= !self.fib.add(route, replaces);
            }
            ForwardingChange::NoRoute(route) => {
                if let Some(at) = fib::destination(&route) {
                    self.excuse(at, route.origin);
                    self.dirty.insert(at);
                }
                self.unknown |= !self.fib.remove(&route);
            }
            ForwardingChange::Neighbour(neighbour) => {
                let (link, address) = (neighbour.link, neighbour.address);
                if self.fib.note(neighbour) {
                    self.touch(link, address);
                }
            }
            ForwardingChange::NoNeighbour(neighbour) => {
                if self.fib.forget(neighbour.link, neighbour.address) {
                    self.touch(neighbour.link, neighbour.address);
                }
            }
            ForwardingChange::Unknown => self.unknown = true,
        }
    }

    fn touch(&mut self, link: u32, address: IpAddr) {
        self.moved.insert((link, address));
        self.dirty.insert(Destination { local: false, to: address.into() });
    }

    /// A route goes: if its daemon is away, the entry stays for the grace.
    fn excuse(&mut self, at: Destination, origin: u8) {
        let Some(root) = &self.root else { return };
        let is_ipv4 = at.to.addr().is_ipv4();
        if self.entries.contains_key(&at) && daemons::is_away(root, origin, is_ipv4) {
            self.unconfirmed.insert(at, Instant::now() + self.grace);
            self.excused = true;
        }
    }

    /// Whether a daemon was found to be away since the last call.
    pub(crate) fn excuses(&mut self) -> bool {
        std::mem::take(&mut self.excused)
    }

    /// Asks for everything.
    fn ask(&mut self, socket: &mut Socket) -> Result<()> {
        let mut now = Fib::default();
        for family in [Family::V4, Family::V6] {
            for route in socket.forwarding_routes(family)? {
                now.add(route, true);
            }
            for neighbour in socket.neighbours(family)? {
                now.note(neighbour);
            }
        }
        // Routes that went unheard were taken back by somebody as well: their daemons may be away.
        let before = std::mem::replace(&mut self.fib, now);
        let gone: Vec<_> = before
            .destinations()
            .filter(|at| self.fib.best(*at).is_none())
            .filter_map(|at| Some((at, before.best(at)?.origin)))
            .collect();
        for (at, origin) in gone {
            self.excuse(at, origin);
        }
        self.dirty.extend(self.entries.keys());
        self.dirty.extend(self.fib.destinations());
        self.dirty.extend(self.fib.stations());
        self.moved.extend(self.by_hop.keys());
        Ok(())
    }

    /// Makes the switch obey what was heard.
    pub(crate) fn settle(&mut self, socket: &mut Socket, now: Instant) -> Result<()> {
        if std::mem::take(&mut self.unknown) {
            self.ask(socket)?;
        }
        if self.dirty.is_empty() && self.moved.is_empty() {
            return Ok(());
        }
        if self.dirty.iter().any(|at| !at.local) {
            // A station may be on a link now, or no more.
            self.dirty.extend(self.fib.stations());
        }
        let mut changes = Changes::default();
        for (link, address) in std::mem::take(&mut self.moved) {
            for hops in self.by_hop.get(&(link, address)).cloned().unwrap_or_default() {
                self.renew(&hops, &mut changes);
            }
        }
        let mut wanted = vec![];
        for at in std::mem::take(&mut self.dirty) {
            self.decide(at, now, &mut changes, &mut wanted);
        }
        let look_for = |hop: &Hop| UseNeighbour { link: hop.link, address: hop.address };
        use_all(socket, wanted.iter().map(look_for));
        let Changes { before, destinations, after } = changes;
        self.change(before.into_iter().chain(destinations).chain(after))
    }

    /// Decides the entry of a destination.
    fn decide(
        &mut self,
        at: Destination,
        now: Instant,
        changes: &mut Changes,
        wanted: &mut Vec<Hop>,
    ) {
        let Decision::Now(entry) = self.entry_for(at, now, changes, wanted) else { return };
        self.unconfirmed.remove(&at);
        if self.entries.get(&at) != entry.as_ref() {
            self.put(at, entry, changes);
        }
    }

    /// The entry that a destination is to have.
    fn entry_for(
        &mut self,
        at: Destination,
        now: Instant,
        changes: &mut Changes,
        wanted: &mut Vec<Hop>,
    ) -> Decision {
        let excused = self.unconfirmed.get(&at).is_some_and(|until| *until > now);
        match self.fib.way(at) {
            None if excused => {
                // Packets for a station pass beside the kernel, which learns of it only if it asks.
                wanted.extend(self.fib.station(at));
                Decision::Later
            }
            None => Decision::Now(None),
            Some(Disposition::Stack) => Decision::Now(Some(Entry::Stack)),
            Some(Disposition::Hops(hops)) => {
                let unknown = |hop: &&Hop| self.fib.mac(hop.link, hop.address).is_none();
                let missing: Vec<Hop> = hops.iter().filter(unknown).copied().collect();
                wanted.extend(&missing);
                let forwards = || self.entries.get(&at).is_some_and(|e| self.forwards(e));
                if !missing.is_empty() && excused && forwards() {
                    // What forwards stays until its next hop is known.
                    // Nothing leads to it yet, but `look` asks for the next
                    // hops of every list, and `renew` wakes those that wait.
                    self.use_set(&hops, changes);
                    self.drop_set(&hops, changes, true);
                    return Decision::Later;
                }
                Decision::Now(Some(Entry::By(hops)))
            }
        }
    }

    /// Puts another entry, or none, in place of that of a destination.
    fn put(&mut self, at: Destination, entry: Option<Entry>, changes: &mut Changes) {
        let earlier = match self.entries.get(&at) {
            Some(Entry::Earlier(number)) => Some(*number),
            _ => None,
        };
        let number = match &entry {
            Some(Entry::By(hops)) => {
                if let Some(number) = earlier.flatten() {
                    self.adopt(number, hops);
                }
                Some(self.use_set(hops, changes))
            }
            _ => None,
        };
        match &entry {
            // An existing entry with the same next hops is left as it is.
            Some(_) if earlier == Some(number) => {}
            Some(_) => changes.destinations.push(rules::install(at, number)),
            None => changes.destinations.push(rules::remove(at)),
        }
        let old = match entry {
            Some(entry) => self.entries.insert(at, entry),
            None => self.entries.remove(&at),
        };
        if let Some(Entry::By(hops)) = old {
            self.drop_set(&hops, changes, false);
        }
    }

    fn forwards(&self, entry: &Entry) -> bool {
        match entry {
            Entry::Stack => false,
            Entry::Earlier(number) => number.is_some(),
            Entry::By(hops) => self.sets.get(hops).is_some_and(|set| set.forwards),
        }
    }

    /// The number of a list, for one more destination.
    fn use_set(&mut self, hops: &[Hop], changes: &mut Changes) -> u64 {
        if let Some(set) = self.sets.get_mut(hops) {
            set.users += 1;
            return set.number;
        }
        let number = self.next;
        self.next += 1;
        let mac = |hop: &Hop| self.fib.mac(hop.link, hop.address);
        let resolved = rules::resolve(hops, &self.interfaces, mac);
        changes.before.extend(rules::hops(number, resolved.as_deref(), &self.interfaces, true));
        self.keep_set(number, hops, resolved.is_some(), 1);
        number
    }

    /// One destination less; a list without any goes, unless it is `kept` for one that waits.
    fn drop_set(&mut self, hops: &[Hop], changes: &mut Changes, kept: bool) {
        let Some(set) = self.sets.get_mut(hops) else { return };
        set.users -= 1;
        if set.users > 0 || kept {
            return;
        }
        changes.after.push(rules::without(set.number));
        changes.after.push(rules::without_group(set.number));
        self.sets.remove(hops);
        for hop in hops {
            let at = (hop.link, hop.address);
            if let Some(lists) = self.by_hop.get_mut(&at) {
                lists.remove(hops);
                if lists.is_empty() {
                    self.by_hop.remove(&at);
                }
            }
        }
    }

    /// Resends the next hops of a list to the switch.
    fn renew(&mut self, hops: &[Hop], changes: &mut Changes) {
        let mac = |hop: &Hop| self.fib.mac(hop.link, hop.address);
        let resolved = rules::resolve(hops, &self.interfaces, mac);
        let Some(set) = self.sets.get_mut(hops) else { return };
        // A group is there only if packets went on before.
        let is_new = !set.forwards;
        set.forwards = resolved.is_some();
        changes.before.extend(rules::hops(
            set.number,
            resolved.as_deref(),
            &self.interfaces,
            is_new,
        ));
        if set.users == 0 {
            // Destinations wait for it.
            self.dirty.extend(self.unconfirmed.keys());
        }
    }

    /// Keeps neighbours alive that packets go to, looks for those that are missing, and ends graces.
    pub(crate) fn look(&mut self, socket: &mut Socket, now: Instant) -> Result<()> {
        let mut counted: HashMap<u64, u64> = HashMap::new();
        for entry in self.flows(HOPS)? {
            *counted.entry(metadata_of(&entry.matching)).or_default() += entry.packets;
        }
        let mut wanted = vec![];
        for (hops, set) in &mut self.sets {
            let packets = counted.get(&set.number).copied().unwrap_or(0);
            // The kernel sees none of these packets, and
            // would take a neighbour in use for an idle one.
            let used = packets != std::mem::replace(&mut set.packets, packets);
            for hop in hops {
                let missing = self.fib.mac(hop.link, hop.address).is_none();
                if missing || used && self.fib.is_stale(hop.link, hop.address) {
                    wanted.push(UseNeighbour { link: hop.link, address: hop.address });
                }
            }
        }
        let unknown = self.unconfirmed.keys().filter_map(|at| self.fib.station(*at));
        wanted.extend(unknown.map(|hop| UseNeighbour { link: hop.link, address: hop.address }));
        use_all(socket, wanted.into_iter());
        let over = self.unconfirmed.iter().filter(|(_, until)| **until <= now);
        self.dirty.extend(over.map(|(at, _)| *at).collect::<Vec<_>>());
        let swept = self.unconfirmed.len();
        self.settle(socket, now)?;
        if swept > 0 && self.unconfirmed.is_empty() {
            self.sweep(counted.keys().copied())?;
        }
        Ok(())
    }

    /// Removes next hops of an earlier process, which nothing leads to any more.
    fn sweep(&mut self, numbers: impl Iterator<Item = u64>) -> Result<()> {
        let ours: BTreeSet<u64> = self.sets.values().map(|set| set.number).collect();
        let foreign = numbers.filter(|number| *number > 0 && !ours.contains(number));
        let gone = |number| [rules::without(number), rules::without_group(number)];
        self.change(foreign.flat_map(gone).collect::<Vec<_>>())
    }
}

/// Changes in the order in which the switch gets them.
#[derive(Default)]
struct Changes {
    before: Vec<Message>,
    destinations: Vec<Message>,
    after: Vec<Message>,
}

/// Has the kernel find or confirm neighbours. What it refuses is tried again later.
fn use_all(socket: &mut Socket, neighbours: impl Iterator<Item = UseNeighbour>) {
    let mut batch = Batch::new();
    for neighbour in neighbours {
        batch.push_tolerant(format!("neighbour {}", neighbour.address), &neighbour);
    }
    if !batch.is_empty() {
        let _ = socket.run(&mut batch);
    }
}

fn metadata_of(matching: &Match) -> u64 {
    let Match::Oxm(fields) = matching else { return 0 };
    let found = fields.iter().find(|oxm| oxm.field == Field::Metadata);
    found.map_or(0, |oxm| u64::try_from(oxm.value).unwrap_or(0))
}
