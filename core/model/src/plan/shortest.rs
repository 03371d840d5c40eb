//! The shortest paths from one router to everywhere, with all first hops of equal cost.
//!
//! Distance is the number of segments crossed. First steps are numbered in the order of the router's
//! interfaces, then of the file, and sets keep that order. Invariant: each step of a set leads to a
//! router, or the target itself, that is one segment nearer to the target.

use std::net::IpAddr;

use super::graph::{Attachment, Graph};

/// Maximum next hops of one route. More are rarely worth their memory in
/// large labs.
pub(crate) const MOST_HOPS: usize = 16;

/// The first step of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hop {
    pub(crate) via: IpAddr,
    /// Index into the interfaces of the node that takes the step.
    pub(crate) interface: usize,
}

/// The first steps of all shortest paths to one target, by ascending number, only the first ones if
/// there are too many. Empty: it is unreachable, or no step is needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Steps {
    count: usize,
    numbers: [u32; MOST_HOPS],
}

impl Steps {
    fn one(number: u32) -> Steps {
        let mut one = Steps { count: 1, ..Steps::default() };
        one.numbers[0] = number;
        one
    }

    fn as_slice(&self) -> &[u32] {
        &self.numbers[..self.count]
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether there is more than one.
    pub(crate) fn is_several(&self) -> bool {
        self.count > 1
    }

    /// Adds another set's steps.
    fn join(&mut self, other: &Steps) {
        let (mine, theirs) = (*self, other.as_slice());
        let (mut left, mut right) = (mine.as_slice().iter().peekable(), theirs.iter().peekable());
        self.count = 0;
        // A merge of two ascending lists that drops what both have.
        while self.count < MOST_HOPS {
            let next = match (left.peek(), right.peek()) {
                (Some(a), Some(b)) => **a.min(b),
                (Some(one), None) | (None, Some(one)) => **one,
                (None, None) => return,
            };
            left.next_if(|number| **number == next);
            right.next_if(|number| **number == next);
            self.numbers[self.count] = next;
            self.count += 1;
        }
    }
}

/// Not reached yet.
const FAR: u32 = u32::MAX;

/// The paths from one router to everywhere; the memory is reused from router to router.
pub(crate) struct Ways {
    /// The possible first steps, by number.
    hops: Vec<Hop>,
    /// By node: the first steps to a router; empty if it is unreachable or the start.
    to_router: Vec<Steps>,
    /// By segment: the first steps; empty if it is unreachable or connected.
    to_segment: Vec<Steps>,
    /// The first steps toward the nearest `internet` door, the first in the file among equals.
    to_door: Steps,
    router_distance: Vec<u32>,
    segment_distance: Vec<u32>,
    /// The routers and segments with a known distance.
    reached: Vec<usize>,
    crossed: Vec<usize>,
    /// Routers of the current distance, and those of the next.
    level: Vec<usize>,
    next: Vec<usize>,
}

impl Ways {
    pub(crate) fn new(graph: &Graph<'_>) -> Self {
        let (nodes, segments) = (graph.of_node.len(), graph.routers.len());
        Ways {
            hops: Vec::new(),
            to_router: vec![Steps::default(); nodes],
            to_segment: vec![Steps::default(); segments],
            to_door: Steps::default(),
            router_distance: vec![FAR; nodes],
            segment_distance: vec![FAR; segments],
            reached: Vec::new(),
            crossed: Vec::new(),
            level: Vec::new(),
            next: Vec::new(),
        }
    }

    pub(crate) fn to_router(&self, node: usize) -> &Steps {
        &self.to_router[node]
    }

    pub(crate) fn to_segment(&self, segment: usize) -> &Steps {
        &self.to_segment[segment]
    }

    pub(crate) fn to_door(&self) -> &Steps {
        &self.to_door
    }

    /// The hops of steps, in order.
    pub(crate) fn hops<'a>(&'a self, steps: &'a Steps) -> impl Iterator<Item = Hop> + 'a {
        steps.as_slice().iter().map(|number| self.hops[*number as usize])
    }

    /// Breadth-first search from a router: all routers of one distance, the segments that they reach
    /// first, the routers there, and so on.
    pub(crate) fn find(&mut self, graph: &Graph<'_>, from: usize) {
        self.hops.clear();
        self.forget();
        self.level.push(from);
        self.reached.push(from);
        self.router_distance[from] = 0;
        let mut distance = 0;
        while !self.level.is_empty() {
            for segment in self.segments_at(graph, distance) {
                self.cross(graph, segment, (from, distance));
            }
            std::mem::swap(&mut self.level, &mut self.next);
            self.next.clear();
            distance += 1;
        }
    }

    /// Resets only what the previous router has reached: a lab may consist of many small parts.
    fn forget(&mut self) {
        for router in self.reached.drain(..) {
            self.to_router[router] = Steps::default();
            self.router_distance[router] = FAR;
        }
        for segment in self.crossed.drain(..) {
            self.to_segment[segment] = Steps::default();
            self.segment_distance[segment] = FAR;
        }
        self.to_door = Steps::default();
        self.level.clear();
    }

    /// The segments first reached by routers of this distance, in the order of these
    /// routers; their steps are those of all of these routers on them.
    fn segments_at(&mut self, graph: &Graph<'_>, distance: u32) -> Vec<Attachment> {
        let mut found = Vec::new();
        for router in &self.level {
            for place in &graph.of_node[*router] {
                let known = &mut self.segment_distance[place.segment];
                // Several routers may reach a segment at the same distance: all their steps count.
                if *known == FAR {
                    *known = distance;
                    self.crossed.push(place.segment);
                    found.push(*place);
                }
                if *known == distance {
                    self.to_segment[place.segment].join(&self.to_router[*router]);
                }
            }
        }
        found
    }

    /// Crosses a segment to all routers on it that are not nearer.
    fn cross(&mut self, graph: &Graph<'_>, place: Attachment, (from, distance): (usize, u32)) {
        let steps = self.to_segment[place.segment];
        // Breadth first, so the first door seen is a nearest one.
        if let Some(via) = graph.doors[place.segment]
            && self.to_door.is_empty()
        {
            self.to_door = self.or_step(&steps, Hop { via, interface: place.interface });
        }
        for next in &graph.routers[place.segment] {
            // A router as near as this one brings a packet no nearer; by way of it packets could circle.
            if next.node == from || self.router_distance[next.node] <= distance {
                continue;
            }
            let hop = Hop { via: next.address, interface: place.interface };
            let steps = self.or_step(&steps, hop);
            self.to_router[next.node].join(&steps);
            if self.router_distance[next.node] == FAR {
                self.router_distance[next.node] = distance + 1;
                self.next.push(next.node);
                self.reached.push(next.node);
            }
        }
    }

    /// These steps; a new one if there are none, at the start.
    fn or_step(&mut self, steps: &Steps, hop: Hop) -> Steps {
        if !steps.is_empty() {
            return *steps;
        }
        let number = u32::try_from(self.hops.len()).unwrap_or(u32::MAX);
        self.hops.push(hop);
        Steps::one(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(numbers: &[u32]) -> Steps {
        numbers.iter().fold(Steps::default(), |mut all, number| {
            all.join(&Steps::one(*number));
            all
        })
    }

    #[test]
    fn sets_are_joined_in_order_without_doubles_and_bounded() {
        assert_eq!(steps(&[4, 1, 4, 2]).as_slice(), &[1, 2, 4]);
        let mut both = steps(&[1, 5]);
        both.join(&steps(&[0, 5, 9]));
        assert_eq!(both.as_slice(), &[0, 1, 5, 9]);
        let many: Vec<u32> = (0..40).rev().collect();
        assert_eq!(steps(&many).as_slice(), (0..16).collect::<Vec<_>>());
        let mut full = steps(&many);
        full.join(&steps(&[3, 50]));
        assert_eq!(full, steps(&many));
    }
}
