//! Which entries the switch is asked for, so that what others ask for is not behind all of them: in 1.3 those of a block of rules
//! after another, by their cookies; in 1.0, which asks by matches, those of a port and VLAN of the slice after another.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use netloom_openflow::action::GROUP_ANY;
use netloom_openflow::multipart::{Aggregate, FlowRequest};
use netloom_openflow::{Field, Match, Oxm, Version, matching::Match10};
use netloom_pipeline::Pattern;

use super::VirtualSwitches;
use super::rules::{Filter, cookies};
use super::tasks::Flows;
use crate::{SliceId, Work};

/// Entries that the switch is asked for at once, about.
const BLOCK: usize = 1024;

/// Bits of the number of a rule, and the greatest one.
const NUMBER_BITS: u32 = 42;
pub(super) const LAST: u64 = (1 << NUMBER_BITS) - 1;

/// Ports and VLANs that are asked for one after another in 1.0; where a slice has more, the switch tells all entries.
const MOST_MATCHES: usize = 64;

impl Flows {
    /// Whether an entry with this cookie was told before: the matches of a slice may be about the same ones.
    pub(super) fn is_told(&mut self, cookie: u64) -> bool {
        self.cookies.as_mut().is_some_and(|cookies| !cookies.insert(cookie))
    }
}

impl VirtualSwitches {
    /// The answers owed to a request.
    pub(super) fn flows_of(
        &self,
        slice: SliceId,
        asked: FlowRequest,
        total: Option<Aggregate>,
    ) -> Flows {
        // Requests of 1.0 have neither cookies nor groups.
        let v10 = self.version == Version::V10;
        let filter = Filter {
            table: asked.table,
            pattern: Pattern::of(&asked.matching),
            strict: None,
            cookie: asked.cookie,
            cookie_mask: if v10 { 0 } else { asked.cookie_mask },
            out_port: asked.out_port,
            out_group: if v10 { GROUP_ANY } else { asked.out_group },
        };
        let matches = if v10 { self.matches(slice) } else { vec![] };
        let cookies = (matches.len() > 1).then(HashSet::new);
        let last = v10.then_some(LAST);
        Flows { filter, total, next: 0, last, sums: BTreeMap::new(), matches, cookies }
    }

    /// What the switch is to be asked next, and whether the slice's messages wait for the answer; none: what comes next is known.
    pub(super) fn ask_next(
        &self,
        slice: SliceId,
        flows: &mut Flows,
        work: &mut Work,
    ) -> Option<(FlowRequest, bool)> {
        if let Some(matching) = flows.matches.pop() {
            let holds = self.rules.count(slice).entries > BLOCK as u64;
            let table = flows.filter.table;
            return Some((FlowRequest { table, ..FlowRequest::new(matching) }, holds));
        }
        if flows.last.is_some() {
            return None;
        }
        let (body, last, holds) = self.block(slice, flows, work);
        flows.last = Some(last);
        Some((body, holds))
    }

    /// Matches that are about all entries of a slice, and about as few others as 1.0 can say.
    fn matches(&self, slice: SliceId) -> Vec<Match> {
        let cubes = self.slicing.region(slice).map_or(&[][..], |region| &region.cubes);
        let places: BTreeSet<_> = cubes
            .iter()
            .map(|cube| [Field::InPort, Field::VlanVid].map(|field| (field, cube.exact(field))))
            .collect();
        let said = |place: [(Field, Option<u128>); 2]| {
            let fixed =
                place.into_iter().filter_map(|(field, value)| Some(Oxm::exact(field, value?)));
            match Match::Oxm(fixed.collect()).to_10() {
                (said, true) => Some(Match::V10(said)),
                (_, false) => None,
            }
        };
        let any = || vec![Match::V10(Match10::default())];
        if places.len() > MOST_MATCHES {
            return any();
        }
        places.into_iter().map(said).collect::<Option<Vec<_>>>().unwrap_or_else(any)
    }

    /// A request for entries of rules that are next, the last of these rules, and whether others are left.
    fn block(&self, slice: SliceId, flows: &Flows, work: &mut Work) -> (FlowRequest, u64, bool) {
        let table = flows.filter.table;
        let (mut first, mut fits, mut entries, mut more) = (None, flows.next, 0, false);
        for (number, rule) in self.rules.range(slice, flows.next..=u64::MAX) {
            work.spend(1);
            entries += rule.pieces.len();
            if first.is_some() && entries > BLOCK {
                more = true;
                break;
            }
            first.get_or_insert(number);
            fits = number;
        }
        let first = first.unwrap_or(flows.next);
        let is_all = !more && flows.next == 0;
        // The widest block that begins behind what was told, and has no more than fits.
        let end = |bits: u32| first | ((1 << bits) - 1);
        let fit = |bits: &u32| first >> bits << bits >= flows.next && (!more || end(*bits) <= fits);
        let bits = match is_all {
            true => NUMBER_BITS,
            false => (0..NUMBER_BITS).rev().find(fit).unwrap_or(0),
        };
        let (cookie, cookie_mask) = cookies(slice, first >> bits << bits, bits);
        let any = FlowRequest::new(Match::default());
        let last = if !more && end(bits) >= fits { LAST } else { end(bits) };
        (FlowRequest { table, cookie, cookie_mask, ..any }, last, !is_all)
    }
}
