//! Tiers: hosts at the bottom, what they are linked to above them, and so on up to the core, as in a fat tree.
//!
//! A box's tier is its distance to the nearest host. A network has tiers if all links lead from one tier to the next, except
//! for those that make lines inside of a tier (two switches that are joined). Boxes of a tier are ordered by the mean place of
//! their neighbours below and above, in a fixed number of sweeps, of which the one with the fewest crossings counts (Sugiyama,
//! Tagawa and Toda, "Methods for Visual Understanding of Hierarchical System Structures", 1981). Each stands above its
//! neighbours, as far as the order allows.

use std::collections::VecDeque;

use crate::Role;
use crate::geometry::to_f64;
use crate::graph::Net;
use crate::hang::{Room, Toward, hang};
use crate::piece::Piece;

/// Most tiers; deeper networks are drawn freely.
const MOST: usize = 6;

/// Most boxes with hosts that may stand above the lowest tier.
const LEFT_OUT: usize = 8;

/// Sweeps down and up.
const SWEEPS: usize = 8;

/// Room between boxes of a tier.
const GAP: f64 = 22.0;

/// More room between boxes that have no neighbour in common.
const APART: f64 = 26.0;

/// The boxes of a core by tier, the lowest first, in order from left to right.
pub(crate) struct Tiers {
    tiers: Vec<Vec<usize>>,
    core: Vec<bool>,
    tier: Vec<usize>,
}

impl Tiers {
    /// The tiers of a core, if it has some: from all boxes at which hosts hang, else without those that only a few hang at (a
    /// server at a spine).
    pub(crate) fn of(net: &Net, core: &[usize]) -> Option<Tiers> {
        let marks = net.marks(core);
        let hosts = |v: usize| {
            net.near[v].iter().filter(|w| !marks[**w] && net.roles[**w] != Role::Door).count()
        };
        let mut lowest: Vec<(usize, usize)> =
            core.iter().map(|v| (hosts(*v), *v)).filter(|(count, _)| *count > 0).collect();
        // The last ones may be left out.
        lowest.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
        let without =
            |count: usize| lowest[..lowest.len().saturating_sub(count)].iter().map(|(_, v)| *v);
        (0..=LEFT_OUT.min(lowest.len() / 4))
            .find_map(|count| Tiers::from(net, core, &marks, &without(count).collect::<Vec<_>>()))
    }

    fn from(net: &Net, core: &[usize], marks: &[bool], lowest: &[usize]) -> Option<Tiers> {
        let tier = heights(net, core, marks, lowest)?;
        let most = core.iter().map(|v| tier[*v]).max()?;
        let least = core.iter().map(|v| tier[*v]).min()?;
        if most == least || most - least >= MOST || !has_lines_only(net, core, marks, &tier) {
            return None;
        }
        let mut tiers = vec![Vec::new(); most - least + 1];
        for v in breadth_first(net, core, marks, &tier, least) {
            tiers[tier[v] - least].push(v);
        }
        let tier = tier.iter().map(|t| t.saturating_sub(least)).collect();
        let mut tiers = Tiers { tiers, core: marks.to_vec(), tier };
        tiers.order(net);
        Some(tiers)
    }

    /// Whether it is a cycle of four boxes of which opposite ones are alike: two leaves and two spines.
    pub(crate) fn is_leaf_and_spine(&self, core: &[usize]) -> bool {
        core.len() == 4 && self.tiers.len() == 2 && self.tiers.iter().all(|tier| tier.len() == 2)
    }

    /// Neighbours in a tier above (`up`) or below.
    fn beyond<'n>(&'n self, net: &'n Net, v: usize, up: bool) -> impl Iterator<Item = usize> + 'n {
        let own = self.tier[v];
        net.near_in(v, &self.core)
            .filter(move |w| if up { self.tier[*w] > own } else { self.tier[*w] < own })
    }

    fn order(&mut self, net: &Net) {
        let mut best = (self.crossings(net), self.tiers.clone());
        for sweep in 0..SWEEPS {
            let up = sweep % 2 == 0;
            let count = self.tiers.len();
            for step in 1..count {
                let at = if up { step } else { count - 1 - step };
                self.sort(net, at, !up);
            }
            let crossings = self.crossings(net);
            // The first sweep keeps pods together; another order must be much better.
            if sweep == 0 || crossings * 100 < best.0 * 85 {
                best = (crossings, self.tiers.clone());
            }
        }
        self.tiers = best.1;
    }

    /// Sorts a tier by the mean places of neighbours in the tier above or below. Lines inside of it stay together.
    fn sort(&mut self, net: &Net, at: usize, by_upper: bool) {
        let places = self.places();
        let mean = |v: usize| {
            let (mut sum, mut count) = (0.0, 0.0);
            for w in self.beyond(net, v, by_upper) {
                sum += places[w];
                count += 1.0;
            }
            if count > 0.0 { sum / count } else { places[v] }
        };
        let mut lines: Vec<(f64, Vec<usize>)> = Vec::new();
        for mut line in self.lines(net, at) {
            let means: Vec<f64> = line.iter().map(|v| mean(*v)).collect();
            if means.first() > means.last() {
                line.reverse();
            }
            lines.push((means.iter().sum::<f64>() / to_f64(means.len()), line));
        }
        lines.sort_by(|a, b| a.0.total_cmp(&b.0));
        self.tiers[at] = lines.into_iter().flat_map(|(_, line)| line).collect();
    }

    /// Places from 0 to 1 in each tier.
    fn places(&self) -> Vec<f64> {
        let mut places = vec![0.0; self.tier.len()];
        for tier in &self.tiers {
            for (at, v) in tier.iter().enumerate() {
                places[*v] = (to_f64(at) + 0.5) / to_f64(tier.len());
            }
        }
        places
    }

    /// The boxes of a tier as lines of linked ones, most of a single box, in the order of their first boxes.
    fn lines(&self, net: &Net, at: usize) -> Vec<Vec<usize>> {
        let mut seen = vec![false; self.tier.len()];
        let same = |v: usize| net.near_in(v, &self.core).filter(move |w| self.tier[*w] == at);
        let mut lines = Vec::new();
        // From the ends of lines.
        for &v in self.tiers[at].iter().filter(|v| same(**v).count() < 2) {
            if seen[v] {
                continue;
            }
            let mut line = vec![v];
            seen[v] = true;
            while let Some(next) = same(line[line.len() - 1]).find(|w| !seen[*w]) {
                seen[next] = true;
                line.push(next);
            }
            lines.push(line);
        }
        lines
    }

    /// Crossings of links between tiers.
    fn crossings(&self, net: &Net) -> usize {
        let mut index = vec![0; self.tier.len()];
        for tier in &self.tiers {
            tier.iter().enumerate().for_each(|(at, v)| index[*v] = at);
        }
        let between = |pair: &[Vec<usize>]| {
            let upper = pair[0].iter().flat_map(|v| {
                let mut above: Vec<usize> = self.beyond(net, *v, true).map(|w| index[w]).collect();
                above.sort_unstable();
                above
            });
            inversions(upper, pair[1].len())
        };
        self.tiers.windows(2).map(between).sum()
    }

    pub(crate) fn draw(&self, net: &Net) -> Piece {
        // The narrowest blocks of hosts make wide networks readable.
        let rooms = [(620.0, 1.8), (330.0, 1.5), (200.0, 1.0), (120.0, 0.7), (60.0, 0.45)];
        let mut best: Option<(f64, Piece)> = None;
        for (single, ratio) in rooms {
            let piece = self.with_room(net, Room { single, ratio });
            let badness = (piece.bounds.width() / piece.bounds.height() - 1.7).abs();
            if best.as_ref().is_none_or(|(least, _)| badness < *least) {
                best = Some((badness, piece));
            }
        }
        best.map_or_else(Piece::none, |(_, piece)| piece)
    }

    fn with_room(&self, net: &Net, room: Room) -> Piece {
        let top = self.tiers.len() - 1;
        let units: Vec<Vec<Piece>> = self
            .tiers
            .iter()
            .enumerate()
            .map(|(at, tier)| tier.iter().map(|v| self.unit(net, *v, at == top, room)).collect())
            .collect();
        let xs = self.columns(net, &units);
        let ends = self.tiers[0].iter().map(|v| xs[*v]);
        let width = ends.clone().fold(0.0, f64::max) - ends.fold(f64::INFINITY, f64::min).min(0.0);
        let gap = (width / 7.0).clamp(net.link.max(70.0), 210.0);
        let mut whole = Piece::none();
        let mut y = 0.0;
        for (tier, pieces) in self.tiers.iter().zip(units).rev() {
            let above = pieces.iter().map(|piece| -piece.bounds.min[1]).fold(0.0, f64::max);
            let below = pieces.iter().map(|piece| piece.bounds.max[1]).fold(0.0, f64::max);
            for (v, piece) in tier.iter().zip(pieces) {
                whole.join(piece.moved([xs[*v], y + above]));
            }
            y += above + below + gap;
        }
        self.fasten(net, &mut whole);
        whole
    }

    /// Links end at the upper and lower sides of boxes, so that flat ones pass no other box of a tier.
    fn fasten(&self, net: &Net, whole: &mut Piece) {
        let centres = whole.centres(self.tier.len());
        for &v in self.tiers.iter().flatten() {
            for w in self.beyond(net, v, true) {
                let side = |v: usize, sign: f64| {
                    [centres[v][0], centres[v][1] + sign * net.sizes[v][1] / 2.0]
                };
                whole.vias.push(([v, w], vec![side(v, -1.0), side(w, 1.0)]));
            }
        }
    }

    /// A box with what hangs there: below it in the lowest tier, above it in the top tier and where a door does, else beside it.
    fn unit(&self, net: &Net, v: usize, top: bool, room: Room) -> Piece {
        let mut hung = net.near[v].iter().filter(|w| !self.core[**w]).peekable();
        let door = hung.peek().is_some() && hung.all(|w| net.roles[*w] == Role::Door);
        let toward = match self.tier[v] {
            _ if top || door => Toward::Up,
            0 => Toward::Down,
            _ => Toward::Right,
        };
        hang(net, v, &self.core, toward, room)
    }

    /// The x of each box, from the lowest tier upwards.
    fn columns(&self, net: &Net, units: &[Vec<Piece>]) -> Vec<f64> {
        let mut xs = vec![0.0; self.tier.len()];
        for (at, tier) in self.tiers.iter().enumerate() {
            let least: Vec<f64> =
                (1..tier.len()).map(|right| self.apart(net, tier, &units[at], right)).collect();
            let wanted: Vec<f64> = if at == 0 {
                vec![0.0; tier.len()]
            } else {
                tier.iter().map(|v| self.mean_below(net, *v, &xs)).collect()
            };
            let packed = keep_apart(&wanted, &least);
            let spread =
                if at == 0 { packed } else { self.spread(net, tier, &packed, &least, &xs) };
            tier.iter().zip(spread).for_each(|(v, x)| xs[*v] = x);
        }
        xs
    }

    /// Least distance of a box from the one on its left.
    fn apart(&self, net: &Net, tier: &[usize], units: &[Piece], right: usize) -> f64 {
        let [a, b] = [tier[right - 1], tier[right]];
        let related = self.beyond(net, a, true).any(|w| net.near[w].binary_search(&b).is_ok());
        let linked = if net.near[a].binary_search(&b).is_ok() { net.link } else { 0.0 };
        let extra = if related { 0.0 } else { APART };
        units[right - 1].bounds.max[0] - units[right].bounds.min[0] + (GAP + extra).max(linked)
    }

    fn mean_below(&self, net: &Net, v: usize, xs: &[f64]) -> f64 {
        let (sum, count) = self
            .beyond(net, v, false)
            .fold((0.0, 0.0), |(sum, count), w| (sum + xs[w], count + 1.0));
        if count > 0.0 { sum / count } else { 0.0 }
    }

    /// Boxes that are as close as they may be, spread over the width of their neighbours below.
    fn spread(
        &self,
        net: &Net,
        tier: &[usize],
        packed: &[f64],
        least: &[f64],
        xs: &[f64],
    ) -> Vec<f64> {
        let mut wanted = packed.to_vec();
        let mut first = 0;
        for at in 1..=tier.len() {
            if at < tier.len() && packed[at] - packed[at - 1] <= least[at - 1] + 1.0 {
                continue;
            }
            let mut below: Vec<f64> = tier[first..at]
                .iter()
                .flat_map(|v| self.beyond(net, *v, false))
                .map(|w| xs[w])
                .collect();
            below.sort_by(f64::total_cmp);
            below.dedup();
            let run = &mut wanted[first..at];
            if let (Some(low), Some(high)) = (below.first(), below.last()) {
                let count = to_f64(run.len());
                for (index, x) in run.iter_mut().enumerate() {
                    *x = if below.len() == tier[first..at].len() {
                        below[index]
                    } else {
                        low + (high - low) * (to_f64(index) + 0.5) / count
                    };
                }
            }
            first = at;
        }
        keep_apart(&wanted, least)
    }
}

/// Each core box's distance to the nearest host; hosts hang at the boxes in `lowest`. `None` if a core box reaches no host.
fn heights(net: &Net, core: &[usize], marks: &[bool], lowest: &[usize]) -> Option<Vec<usize>> {
    let mut height = vec![usize::MAX; net.near.len()];
    let mut queue = VecDeque::new();
    let hosts = core.iter().copied().filter(|v| net.roles[*v] == Role::Host);
    for (v, least) in hosts.map(|v| (v, 0)).chain(lowest.iter().map(|v| (*v, 1))) {
        if height[v] > least {
            height[v] = least;
            queue.push_back(v);
        }
    }
    while let Some(v) = queue.pop_front() {
        for w in net.near_in(v, marks) {
            if height[w] > height[v] + 1 {
                height[w] = height[v] + 1;
                queue.push_back(w);
            }
        }
    }
    core.iter().all(|v| height[*v] != usize::MAX).then_some(height)
}

/// Whether links inside of a tier make lines and no meshes or cycles.
fn has_lines_only(net: &Net, core: &[usize], marks: &[bool], tier: &[usize]) -> bool {
    let same = |v: usize| net.near_in(v, marks).filter(move |w| tier[*w] == tier[v]);
    let mut seen = vec![false; net.near.len()];
    let mut inside = 0;
    for &v in core {
        let count = same(v).count();
        if count > 2 {
            return false;
        }
        inside += count;
        if count == 2 || seen[v] {
            continue;
        }
        // From an end of a line to the other.
        let mut at = Some(v);
        while let Some(v) = at {
            seen[v] = true;
            at = same(v).find(|w| !seen[*w]);
        }
    }
    // What was not reached from an end is a cycle. Where most links are inside of tiers, there are none to speak of.
    let all: usize = core.iter().map(|v| net.near_in(*v, marks).count()).sum();
    core.iter().all(|v| seen[*v]) && inside * 2 <= all
}

/// The boxes in order of their distance from the first one of the lowest tier, so that those of a pod are together.
fn breadth_first(
    net: &Net,
    core: &[usize],
    marks: &[bool],
    tier: &[usize],
    least: usize,
) -> Vec<usize> {
    let first = core.iter().copied().find(|v| tier[*v] == least).unwrap_or(core[0]);
    let mut seen = vec![false; net.near.len()];
    seen[first] = true;
    let mut order = vec![first];
    let mut at = 0;
    while at < order.len() {
        for w in net.near_in(order[at], marks) {
            if !std::mem::replace(&mut seen[w], true) {
                order.push(w);
            }
        }
        at += 1;
    }
    order
}

/// Places as near to the wanted ones as can be, in their order, with at least these distances: neighbours that are too close
/// become a block that stands at the mean of what its members want.
fn keep_apart(wanted: &[f64], least: &[f64]) -> Vec<f64> {
    // With the distances taken off, places must only not decrease.
    let mut shift = vec![0.0; wanted.len()];
    for at in 1..wanted.len() {
        shift[at] = shift[at - 1] + least[at - 1];
    }
    let mut blocks: Vec<(f64, f64)> = Vec::new();
    for (want, shift) in wanted.iter().zip(&shift) {
        let mut block = (want - shift, 1.0);
        while let Some(&(sum, count)) = blocks.last() {
            if sum / count <= block.0 / block.1 {
                break;
            }
            block = (block.0 + sum, block.1 + count);
            blocks.pop();
        }
        blocks.push(block);
    }
    let mut places = Vec::with_capacity(wanted.len());
    for (sum, count) in blocks {
        let mut left = count;
        while left > 0.5 {
            places.push(sum / count + shift[places.len()]);
            left -= 1.0;
        }
    }
    places
}

/// Pairs out of order in a sequence of numbers below a bound, by a Fenwick tree.
fn inversions(sequence: impl Iterator<Item = usize>, bound: usize) -> usize {
    let mut counts = vec![0usize; bound + 1];
    let (mut seen, mut pairs) = (0, 0);
    for value in sequence {
        let (mut at, mut not_above) = (value + 1, 0);
        while at > 0 {
            not_above += counts[at];
            at &= at - 1;
        }
        pairs += seen - not_above;
        seen += 1;
        let mut at = value + 1;
        while at <= bound {
            counts[at] += 1;
            at += at & at.wrapping_neg();
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inversions_are_counted() {
        assert_eq!(inversions([0, 1, 2].into_iter(), 3), 0);
        assert_eq!(inversions([2, 1, 0].into_iter(), 3), 3);
        assert_eq!(inversions([1, 1, 0, 3, 2].into_iter(), 4), 3);
    }

    #[test]
    fn places_are_kept_apart_around_what_is_wanted() {
        assert_eq!(keep_apart(&[0.0, 10.0], &[4.0]), [0.0, 10.0]);
        assert_eq!(
            keep_apart(&[5.0, 5.0, 5.0], &[2.0, 4.0]),
            [7.0 / 3.0, 2.0 + 7.0 / 3.0, 6.0 + 7.0 / 3.0]
        );
        assert_eq!(keep_apart(&[8.0, 2.0, 20.0], &[2.0, 2.0]), [4.0, 6.0, 20.0]);
    }
}
