//! Which port a MAC address was last seen at.
//!
//! Sets of eight entries; an address belongs to either of two sets, chosen by a hash with the
//! caller's seed, so that an attacker cannot target one set. All memory is allocated at the start.
//! Entries age lazily: an old one is not found, and is replaced when room is needed.
//! When both sets are full of young entries, the port that has most of them loses its oldest to a
//! port that has fewer; else the address is not learned. So a port that floods addresses prevents
//! only its own from being learned. See IEEE 802.1Q-2022, 8.7 and 8.8.

use crate::PortNumber;
use crate::address::Mac;
use crate::vlan::Vid;

const WAYS: usize = 8;
const FREE: u64 = 0;

/// The result of learning an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learned {
    /// It has this entry now; the entry's previous content is gone.
    New {
        /// The entry.
        index: usize,
    },
    /// It was at another port.
    Moved {
        /// Its entry.
        index: usize,
        /// That port.
        from: PortNumber,
    },
    /// It is where it was; its time was updated.
    Refreshed {
        /// Its entry.
        index: usize,
    },
    /// It is where it was, and was already seen in this second.
    Same,
    /// There is no room for it.
    Full,
    /// It is not a station's address: a group address, or zero.
    Refused,
}

/// One address that was learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its index, below the capacity; constant while the entry exists.
    pub index: usize,
    /// Its VLAN; `None` on a switch that knows no VLANs.
    pub vid: Option<Vid>,
    /// The address.
    pub mac: Mac,
    /// Its port.
    pub port: PortNumber,
    /// When it was last seen, in seconds of the caller's clock.
    pub seen: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Station {
    port: PortNumber,
    seen: u32,
}

/// Eight keys in one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Keys([u64; WAYS]);

/// The addresses that were learned.
#[derive(Clone, Debug)]
pub struct MacTable {
    keys: Box<[Keys]>,
    places: Box<[[Station; WAYS]]>,
    seed: u64,
    multiplier: u64,
    ageing: u32,
    moves: u64,
}

impl MacTable {
    /// A table for `capacity` addresses, rounded to a power of two from 16 to 2^24.
    ///
    /// `ageing`: seconds after which an unseen address is forgotten; 0 for never.
    /// `seed`: any value unknown to attackers.
    pub fn new(capacity: usize, ageing: u32, seed: u64) -> MacTable {
        let sets = capacity.clamp(2 * WAYS, 1 << 24).next_power_of_two() / WAYS;
        MacTable {
            keys: vec![Keys([FREE; WAYS]); sets].into(),
            places: vec![[Station::default(); WAYS]; sets].into(),
            seed,
            // Odd, so that the multiplication loses no bit.
            multiplier: mix(seed) | 1,
            ageing,
            moves: 0,
        }
    }

    /// How many addresses it has room for; indexes of entries are below it.
    pub fn capacity(&self) -> usize {
        self.keys.len() * WAYS
    }

    /// How often an address moved to another port.
    pub fn moves(&self) -> u64 {
        self.moves
    }

    /// Sets after how many seconds addresses are forgotten; 0 for never.
    pub fn set_ageing(&mut self, seconds: u32) {
        self.ageing = seconds;
    }

    /// Learns an address at a port.
    #[inline]
    pub fn learn(&mut self, vid: Option<Vid>, mac: Mac, port: PortNumber, now: u32) -> Learned {
        if !mac.is_station() {
            return Learned::Refused;
        }
        let key = key(vid, mac);
        match self.find(key) {
            Some((set, way)) => self.refresh(set, way, port, now),
            None => self.insert(key, port, now),
        }
    }

    #[inline]
    fn refresh(&mut self, set: usize, way: usize, port: PortNumber, now: u32) -> Learned {
        let index = set * WAYS + way;
        let ageing = self.ageing;
        let Some(place) = self.place(set, way) else { return Learned::Full };
        let before = *place;
        // What all frames of a second but the first find: nothing has to be written.
        if before.port == port && before.seen == now {
            return Learned::Same;
        }
        *place = Station { port, seen: now };
        if before.port == port {
            return Learned::Refreshed { index };
        }
        // An aged entry counts as none, so the station did not move.
        if aged(before, now, ageing) {
            return Learned::New { index };
        }
        self.moves += 1;
        Learned::Moved { index, from: before.port }
    }

    #[cold]
    fn insert(&mut self, key: u64, port: PortNumber, now: u32) -> Learned {
        let Some((set, way)) = self.room(key, port, now) else { return Learned::Full };
        if let Some(keys) = self.keys.get_mut(set) {
            keys.0[way] = key;
        }
        if let Some(place) = self.place(set, way) {
            *place = Station { port, seen: now };
        }
        Learned::New { index: set * WAYS + way }
    }

    /// A place for a new key: a free or aged one, in the emptier set; else that of a victim.
    fn room(&self, key: u64, port: PortNumber, now: u32) -> Option<(usize, usize)> {
        let usable = |set: usize| {
            (0..WAYS).filter(move |way| {
                self.key_at(set, *way) == FREE || aged(self.place_at(set, *way), now, self.ageing)
            })
        };
        let [first, second] = self.homes(key);
        // With the emptier of two choices sets fill evenly.
        let more = usable(second.0).count() > usable(first.0).count();
        let (set, favourite) = if more { second } else { first };
        // The favourite place is where `find` looks first, with one comparison.
        let way = usable(set).find(|way| *way == favourite).or_else(|| usable(set).next());
        let sets = [first.0, second.0];
        way.map(|way| (set, way)).or_else(|| self.victim(sets, port, now))
    }

    /// The oldest entry of the port that has most in two sets, if the requesting port has fewer, even
    /// with one more.
    fn victim(&self, sets: [usize; 2], port: PortNumber, now: u32) -> Option<(usize, usize)> {
        let all = || (0..2 * WAYS).map(move |n| (sets[n / WAYS], n % WAYS));
        let owned =
            |by: PortNumber| all().filter(|(s, w)| self.place_at(*s, *w).port == by).count();
        // A port with half of them or more gets none: nobody has more. This stops floods.
        let its = owned(port);
        if its >= WAYS {
            return None;
        }
        let most = all().map(|(s, w)| self.place_at(s, w).port).max_by_key(|by| owned(*by))?;
        // With no more than one in advance, two ports would take the place from each other in turn.
        if owned(most) <= its + 1 {
            return None;
        }
        all()
            .filter(|(s, w)| self.place_at(*s, *w).port == most)
            .max_by_key(|(s, w)| now.wrapping_sub(self.place_at(*s, *w).seen))
    }

    /// The port of an address, if it was learned and is not too old.
    #[inline]
    pub fn lookup(&self, vid: Option<Vid>, mac: Mac, now: u32) -> Option<PortNumber> {
        let (set, way) = self.find(key(vid, mac))?;
        let place = self.place_at(set, way);
        (!aged(place, now, self.ageing)).then_some(place.port)
    }

    /// Forgets all addresses of a port; calls `freed` with the index of each entry.
    pub fn forget_port(&mut self, port: PortNumber, mut freed: impl FnMut(usize)) {
        for index in 0..self.capacity() {
            let (set, way) = (index / WAYS, index % WAYS);
            if self.key_at(set, way) != FREE && self.place_at(set, way).port == port {
                self.free(set, way);
                freed(index);
            }
        }
    }

    /// Forgets one address; returns the entry it had.
    pub fn forget(&mut self, vid: Option<Vid>, mac: Mac) -> Option<usize> {
        let (set, way) = self.find(key(vid, mac))?;
        self.free(set, way);
        Some(set * WAYS + way)
    }

    /// Forgets everything, as when the switch becomes VLAN-aware.
    pub fn clear(&mut self) {
        // `places` may stay: nobody reads one without its key.
        self.keys.fill(Keys([FREE; WAYS]));
    }

    /// The entries that are not too old.
    pub fn entries(&self, now: u32) -> impl Iterator<Item = Entry> + '_ {
        (0..self.capacity()).filter_map(|index| self.entry(index)).filter(move |entry| {
            let place = Station { port: entry.port, seen: entry.seen };
            !aged(place, now, self.ageing)
        })
    }

    /// The entry at an index, however old.
    pub fn entry(&self, index: usize) -> Option<Entry> {
        let (set, way) = (index / WAYS, index % WAYS);
        let key = self.keys.get(set)?.0[way];
        let Station { port, seen } = self.place_at(set, way);
        // The key of a switch without VLANs has 0 here, which is not a VLAN.
        let vid = u16::try_from(key >> 48).ok().and_then(Vid::new);
        (key != FREE).then_some(Entry { index, vid, mac: Mac::from_u64(key), port, seen })
    }

    fn free(&mut self, set: usize, way: usize) {
        if let Some(keys) = self.keys.get_mut(set) {
            keys.0[way] = FREE;
        }
    }

    #[inline]
    fn find(&self, key: u64) -> Option<(usize, usize)> {
        let [home, other] = self.homes(key);
        // Zero has no entry, but would match every free place.
        if key != FREE && self.key_at(home.0, home.1) == key {
            return Some(home);
        }
        self.search(key, home.0, other.0)
    }

    fn search(&self, key: u64, first: usize, second: usize) -> Option<(usize, usize)> {
        if key == FREE {
            return None;
        }
        [first, second].into_iter().find_map(|set| {
            let keys = self.keys.get(set)?;
            keys.0.iter().position(|of| *of == key).map(|way| (set, way))
        })
    }

    /// The two sets of a key, and its favourite place in each.
    #[inline]
    fn homes(&self, key: u64) -> [(usize, usize); 2] {
        // The multiplier is as secret as the seed: without it sets look random.
        let product = u128::from(key ^ self.seed) * u128::from(self.multiplier);
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = product.to_le_bytes();
        let low = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
        let high = u64::from_le_bytes([i, j, k, l, m, n, o, p]);
        let hash = low ^ high;
        let sets = self.keys.len() - 1;
        // Sets are at most 2^21, a power of two: the casts lose no significant bit.
        let number = |bits: u64| usize::try_from(bits & 0xff_ffff).unwrap_or_default();
        let [one, two] = [number(hash), number(hash >> 32)];
        let first = (one / WAYS) & sets;
        let second = (two / WAYS) & sets;
        // An address needs two different sets.
        let second = if first == second { second ^ 1 } else { second };
        [(first, one % WAYS), (second, two % WAYS)]
    }

    #[inline]
    fn key_at(&self, set: usize, way: usize) -> u64 {
        self.keys.get(set).map_or(FREE, |keys| keys.0[way])
    }

    #[inline]
    fn place_at(&self, set: usize, way: usize) -> Station {
        self.places.get(set).map_or(Station::default(), |places| places[way])
    }

    #[inline]
    fn place(&mut self, set: usize, way: usize) -> Option<&mut Station> {
        self.places.get_mut(set)?.get_mut(way)
    }
}

#[inline]
fn key(vid: Option<Vid>, mac: Mac) -> u64 {
    // An address has 48 bits: with the VLAN above it, both are compared at once.
    u64::from(vid.map_or(0, Vid::number)) << 48 | mac.to_u64()
}

/// Clocks may lag behind one another slightly: an entry seen later than `now` is not old.
#[inline]
fn aged(place: Station, now: u32, ageing: u32) -> bool {
    let age = now.wrapping_sub(place.seen);
    ageing != 0 && age > ageing && age < 1 << 31
}

/// The finisher of MurmurHash3: every bit of the key reaches every bit of the result.
fn mix(mut key: u64) -> u64 {
    key ^= key >> 33;
    key = key.wrapping_mul(0xff51_afd7_ed55_8ccd);
    key ^= key >> 33;
    key = key.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    key ^ (key >> 33)
}

#[cfg(test)]
mod tests;
