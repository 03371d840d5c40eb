//! Groups (section 5.6): their buckets, counters and liveness, and whether they refer to each other in a circle.

use std::collections::{BTreeMap, BTreeSet};

use netloom_openflow::action::GROUP_ANY;
use netloom_openflow::group::GroupType;
use netloom_openflow::{Action, Bucket, PortNumber};

use crate::rule::Time;

/// A group.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) kind: GroupType,
    pub(crate) buckets: Vec<Bucket>,
    pub(crate) created: Time,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    /// Packets and bytes of each bucket.
    pub(crate) counters: Vec<(u64, u64)>,
}

impl Group {
    pub(crate) fn new(kind: GroupType, buckets: &[Bucket], now: Time) -> Group {
        // A copy, because the lists of a message have room for more, which would leave holes if it were given up.
        let buckets = buckets.to_vec();
        let counters = vec![(0, 0); buckets.len()];
        Group { kind, buckets, created: now, packets: 0, bytes: 0, counters }
    }

    /// Whether one of its buckets is live only while a port is.
    pub(crate) fn watches(&self, port: PortNumber) -> bool {
        self.buckets.iter().any(|bucket| bucket.watch_port == port)
    }

    /// The groups that its buckets go through.
    pub(crate) fn chained(&self) -> impl Iterator<Item = u32> {
        self.buckets.iter().flat_map(|bucket| &bucket.actions).filter_map(|action| match action {
            Action::Group(group) => Some(*group),
            _ => None,
        })
    }
}

/// Actions that lead to other groups, looked at for circles.
const MOST_LOOKED: usize = 1 << 16;

/// All groups.
#[derive(Clone, Debug, Default)]
pub(crate) struct Groups(pub(crate) BTreeMap<u32, Group>);

impl Groups {
    /// Whether a group with these buckets would refer to itself, directly or through others; `None`: too many are to be
    /// looked through to know.
    pub(crate) fn would_loop(&self, number: u32, with: &Group) -> Option<bool> {
        let mut pending: Vec<u32> = with.chained().collect();
        let mut seen = BTreeSet::new();
        let mut looked = 0;
        while let Some(next) = pending.pop() {
            if next == number {
                return Some(true);
            }
            if !seen.insert(next) {
                continue;
            }
            for chained in self.0.get(&next).into_iter().flat_map(Group::chained) {
                looked += 1;
                if looked > MOST_LOOKED {
                    return None;
                }
                pending.push(chained);
            }
        }
        Some(false)
    }
}

/// The question which buckets are live, asked for one packet.
#[derive(Debug)]
pub(crate) struct Asking<'a, U> {
    pub(crate) groups: &'a Groups,
    /// Whether a port is.
    pub(crate) up: U,
    /// The groups that were asked.
    pub(crate) asked: &'a mut BTreeSet<u32>,
    /// How many buckets may be looked at still: beyond these none is live.
    pub(crate) left: &'a mut usize,
    /// Facts about groups.
    pub(crate) known: BTreeMap<u32, bool>,
}

impl<U: Fn(PortNumber) -> bool> Asking<'_, U> {
    /// The first live bucket of a group.
    pub(crate) fn first_live(&mut self, group: &Group) -> Option<usize> {
        group.buckets.iter().position(|bucket| self.is_live(bucket))
    }

    /// The live bucket that a hash selects, by weights.
    pub(crate) fn selected(&mut self, group: &Group, hash: u64) -> Option<usize> {
        let weight = |bucket: &Bucket| match self.is_live(bucket) {
            true => u64::from(bucket.weight),
            false => 0,
        };
        let weights: Vec<u64> = group.buckets.iter().map(weight).collect();
        // `None` if no live bucket has a weight: then there is nothing to choose from.
        let mut rest = hash.checked_rem(weights.iter().sum())?;
        weights.iter().position(|weight| {
            let here = rest < *weight;
            rest = rest.saturating_sub(*weight);
            here
        })
    }

    /// Whether a bucket is live: what it watches is, or it watches nothing (section 6.5).
    pub(crate) fn is_live(&mut self, bucket: &Bucket) -> bool {
        match self.look(bucket) {
            Look::Live => true,
            Look::Dead => false,
            Look::Group(group) => self.is_group_live(group),
        }
    }

    /// What a bucket says by itself, or the group that decides.
    fn look(&mut self, bucket: &Bucket) -> Look {
        let Some(left) = self.left.checked_sub(1) else { return Look::Dead };
        *self.left = left;
        let (port, group) = (bucket.watch_port, bucket.watch_group);
        match group {
            GROUP_ANY if port == PortNumber::ANY => Look::Live,
            _ if port != PortNumber::ANY && (self.up)(port) => Look::Live,
            GROUP_ANY => Look::Dead,
            group => match self.known.get(&group) {
                Some(true) => Look::Live,
                Some(false) => Look::Dead,
                None => Look::Group(group),
            },
        }
    }

    /// A group is live if a live bucket is found by way of what its buckets watch; each group is looked at once.
    fn is_group_live(&mut self, number: u32) -> bool {
        let (mut seen, mut pending) = (BTreeSet::from([number]), vec![number]);
        while let Some(next) = pending.pop() {
            self.asked.insert(next);
            for bucket in self.groups.0.get(&next).into_iter().flat_map(|group| &group.buckets) {
                match self.look(bucket) {
                    Look::Live => {
                        self.known.insert(number, true);
                        return true;
                    }
                    Look::Group(group) if seen.insert(group) => pending.push(group),
                    Look::Group(_) => {}
                    // Nothing is left to look with.
                    Look::Dead if *self.left == 0 => return false,
                    Look::Dead => {}
                }
            }
        }
        // None of those that it asked has a live one.
        self.known.extend(seen.into_iter().map(|group| (group, false)));
        false
    }
}

/// The visible facts of a bucket.
enum Look {
    Live,
    Dead,
    Group(u32),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(kind: GroupType, buckets: Vec<Bucket>) -> Group {
        Group::new(kind, &buckets, 0)
    }

    fn through(number: u32) -> Bucket {
        Bucket::new(1, vec![Action::Group(number)])
    }

    /// Asks which buckets are live.
    fn ask<T>(
        groups: &Groups,
        up: &dyn Fn(PortNumber) -> bool,
        question: impl FnOnce(&mut Asking<'_, &dyn Fn(PortNumber) -> bool>) -> T,
    ) -> T {
        let (asked, left, known) = (&mut BTreeSet::new(), &mut 1000, BTreeMap::new());
        question(&mut Asking { groups, up, asked, left, known })
    }

    #[test]
    fn circles_are_found() {
        let mut groups = Groups::default();
        groups.0.insert(1, group(GroupType::All, vec![through(2)]));
        groups.0.insert(2, group(GroupType::All, vec![through(3)]));
        let mut looped =
            |number| groups.would_loop(3, &group(GroupType::All, vec![through(number)]));
        assert_eq!([1, 3, 4].map(&mut looped), [Some(true), Some(true), Some(false)]);
    }

    #[test]
    fn weights_and_liveness_decide() {
        let watched =
            |port, weight| Bucket { watch_port: PortNumber(port), ..Bucket::new(weight, vec![]) };
        let groups = &Groups::default();
        let select = group(GroupType::Select, vec![watched(1, 1), watched(2, 0), watched(3, 3)]);
        let count = |up: &dyn Fn(PortNumber) -> bool, bucket| {
            let is =
                |hash: &u64| ask(groups, up, |all| all.selected(&select, *hash)) == Some(bucket);
            (0..400).filter(is).count()
        };
        assert_eq!([0, 1, 2].map(|bucket| count(&|_| true, bucket)), [100, 0, 300]);
        assert_eq!([0, 1, 2].map(|bucket| count(&|p| p.0 == 1, bucket)), [400, 0, 0]);
        assert_eq!(ask(groups, &|_| false, |all| all.selected(&select, 7)), None);
        assert_eq!(ask(groups, &|p| p.0 > 1, |all| all.first_live(&select)), Some(1));
    }

    #[test]
    fn a_group_is_live_while_a_bucket_of_it_is() {
        let mut groups = Groups::default();
        let watched = Bucket { watch_port: PortNumber(1), ..Bucket::new(0, vec![]) };
        groups.0.insert(1, group(GroupType::FastFailover, vec![watched]));
        // A circle of watching ends.
        let watches = |group| Bucket { watch_group: group, ..Bucket::new(0, vec![]) };
        groups.0.insert(2, group(GroupType::FastFailover, vec![watches(2)]));
        let live = |group, up: &dyn Fn(PortNumber) -> bool| {
            ask(&groups, up, |all| all.is_live(&watches(group)))
        };
        assert!(live(1, &|_| true));
        assert!(!live(1, &|_| false));
        assert!(!live(2, &|_| true));
        assert!(!live(9, &|_| true));
    }
}
