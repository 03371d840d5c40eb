//! Groups (section 5.6): their buckets, counters and liveness, and whether they refer to each other in a circle.

use std::collections::BTreeMap;

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

/// All groups.
#[derive(Clone, Debug, Default)]
pub(crate) struct Groups(pub(crate) BTreeMap<u32, Group>);

impl Groups {
    /// Whether a group with these buckets would refer to itself, directly or through others.
    pub(crate) fn would_loop(&self, number: u32, with: &Group) -> bool {
        let mut pending: Vec<u32> = with.chained().collect();
        let mut seen = std::collections::BTreeSet::new();
        while let Some(next) = pending.pop() {
            if next == number {
                return true;
            }
            if seen.insert(next) {
                pending.extend(self.0.get(&next).into_iter().flat_map(Group::chained));
            }
        }
        false
    }

    /// Adds a group, and all others on which it depends which of its buckets are live.
    pub(crate) fn ask(&self, number: u32, asked: &mut Vec<u32>) {
        let mut pending = vec![number];
        while let Some(next) = pending.pop() {
            if asked.contains(&next) {
                continue;
            }
            asked.push(next);
            let buckets = self.0.get(&next).into_iter().flat_map(|group| &group.buckets);
            let watched = buckets.map(|bucket| bucket.watch_group);
            pending.extend(watched.filter(|group| *group != GROUP_ANY));
        }
    }

    /// Whether a bucket is live: what it watches is, or it watches nothing (section 6.5).
    pub(crate) fn is_live(&self, bucket: &Bucket, up: &impl Fn(PortNumber) -> bool) -> bool {
        self.live_within(bucket, up, 0)
    }

    fn live_within(&self, bucket: &Bucket, up: &impl Fn(PortNumber) -> bool, depth: usize) -> bool {
        let port = bucket.watch_port != PortNumber::ANY;
        let group = bucket.watch_group != GROUP_ANY;
        let live = |number: &u32| {
            depth <= self.0.len()
                && self.0.get(number).is_some_and(|group| {
                    group.buckets.iter().any(|bucket| self.live_within(bucket, up, depth + 1))
                })
        };
        match (port, group) {
            (false, false) => true,
            _ => port && up(bucket.watch_port) || group && live(&bucket.watch_group),
        }
    }

    /// The first live bucket of a group.
    pub(crate) fn first_live(
        &self,
        group: &Group,
        up: &impl Fn(PortNumber) -> bool,
    ) -> Option<usize> {
        group.buckets.iter().position(|bucket| self.is_live(bucket, up))
    }

    /// The live bucket that a hash selects, by weights.
    pub(crate) fn selected(
        &self,
        group: &Group,
        hash: u64,
        up: &impl Fn(PortNumber) -> bool,
    ) -> Option<usize> {
        let weight = |bucket: &Bucket| {
            if self.is_live(bucket, up) { u64::from(bucket.weight) } else { 0 }
        };
        let total: u64 = group.buckets.iter().map(weight).sum();
        let mut rest = hash.checked_rem(total)?;
        group.buckets.iter().position(|bucket| {
            let weight = weight(bucket);
            let here = rest < weight;
            rest = rest.saturating_sub(weight);
            here
        })
    }
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

    #[test]
    fn circles_are_found() {
        let mut groups = Groups::default();
        groups.0.insert(1, group(GroupType::All, vec![through(2)]));
        groups.0.insert(2, group(GroupType::All, vec![through(3)]));
        assert!(groups.would_loop(3, &group(GroupType::All, vec![through(1)])));
        assert!(groups.would_loop(3, &group(GroupType::All, vec![through(3)])));
        assert!(!groups.would_loop(3, &group(GroupType::All, vec![through(4)])));
    }

    #[test]
    fn weights_and_liveness_decide() {
        let watched =
            |port, weight| Bucket { watch_port: PortNumber(port), ..Bucket::new(weight, vec![]) };
        let groups = Groups::default();
        let select = group(GroupType::Select, vec![watched(1, 1), watched(2, 0), watched(3, 3)]);
        let count = |up: &dyn Fn(PortNumber) -> bool, bucket| {
            (0..400).filter(|hash| groups.selected(&select, *hash, &up) == Some(bucket)).count()
        };
        assert_eq!([0, 1, 2].map(|bucket| count(&|_| true, bucket)), [100, 0, 300]);
        assert_eq!([0, 1, 2].map(|bucket| count(&|p| p.0 == 1, bucket)), [400, 0, 0]);
        assert_eq!(groups.selected(&select, 7, &|_| false), None);
        assert_eq!(groups.first_live(&select, &|p| p.0 > 1), Some(1));
    }

    #[test]
    fn a_group_is_live_while_a_bucket_of_it_is() {
        let mut groups = Groups::default();
        let watched = Bucket { watch_port: PortNumber(1), ..Bucket::new(0, vec![]) };
        groups.0.insert(1, group(GroupType::FastFailover, vec![watched]));
        // A circle of watching ends.
        let watches = |group| Bucket { watch_group: group, ..Bucket::new(0, vec![]) };
        groups.0.insert(2, group(GroupType::FastFailover, vec![watches(2)]));
        assert!(groups.is_live(&watches(1), &|_| true));
        assert!(!groups.is_live(&watches(1), &|_| false));
        assert!(!groups.is_live(&watches(2), &|_| true));
        assert!(!groups.is_live(&watches(9), &|_| true));
    }
}
