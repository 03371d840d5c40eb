//! Where the nodes and switches of a network stand in a picture, as a person would draw them.
//!
//! [`lay_out`] takes boxes, what each of them is, and which are linked, and returns the centre of each box and the
//! course of each link. Parts that hang together are drawn by the first form that fits: a line ([`spine`]), a star
//! ([`star`]), a tree ([`hang`]), a ring ([`ring`]), tiers ([`tiers`]), else freely ([`free`]). What hangs at a box by a single
//! link (the hosts of a switch) stands in a block beside it.
//!
//! Invariants: the same input gives the same picture; every number is finite and inside the page; no two boxes overlap
//! unless positions given by hand do; the work is bounded for any input.

#![forbid(unsafe_code)]

mod fixed;
mod free;
mod geometry;
mod graph;
mod group;
mod hang;
mod pack;
mod piece;
mod ring;
mod route;
mod spine;
mod star;
mod tiers;

pub use geometry::{Point, Rect, cells, cells_along};
pub use route::{Course, Shape};

use graph::Net;
use piece::Piece;

/// Pixels around a picture.
pub const MARGIN: f64 = 40.0;

/// What a box stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A node that does not forward; it belongs outside.
    Host,
    /// A node that forwards.
    Router,
    /// A switch.
    Switch,
    /// A way out of the network; it belongs on top.
    Door,
}

/// A box to place.
#[derive(Clone, Debug, PartialEq)]
pub struct Vertex {
    /// Width and height in pixels; finite and positive.
    pub size: Point,
    /// What it stands for.
    pub role: Role,
    /// The box that it is part of, beside which it stands; its index is lower.
    pub parent: Option<usize>,
    /// The centre given by hand, in pixels. The caller bounds it: links are followed cell by cell.
    pub fixed: Option<Point>,
}

/// Boxes and links, in the order of the lab file.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// The boxes.
    pub vertices: Vec<Vertex>,
    /// The two boxes of each link; several links may join the same two, or one box with itself.
    pub edges: Vec<[usize; 2]>,
    /// Least room between linked boxes, in pixels: what is written at the ends of a link needs some.
    pub link: f64,
}

/// A picture: the origin is its upper left corner.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    /// The centre of each box.
    pub centres: Vec<Point>,
    /// The course of each link.
    pub courses: Vec<Course>,
    /// The frames around boxes with others inside: the outer box's index and the frame. Outer frames come first.
    pub frames: Vec<(usize, Rect)>,
    /// Width and height of the page.
    pub size: Point,
}

/// Places all boxes.
pub fn lay_out(graph: &Graph) -> Layout {
    let groups = group::Groups::of(graph);
    let net = Net::of(&groups.outer(graph));
    let pieces = net.components().iter().map(|part| component(&net, part)).collect();
    let mut whole = pack::pack(pieces);
    groups.open(&mut whole, graph.vertices.len());
    let mut centres = whole.centres(graph.vertices.len());
    let by_hand = fixed::apply(graph, &groups, &mut centres);
    if by_hand {
        // Corners belong to the places that were computed.
        whole.vias.clear();
    }
    let mut courses = route::courses(graph, &centres, &whole.vias);
    let mut frames = groups.frames(graph, &centres);
    let size = into_page(graph, &mut centres, &mut courses, &mut frames);
    Layout { centres, courses, frames, size }
}

/// The boxes of a part that hangs together, relative to any origin.
fn component(net: &Net, part: &[usize]) -> Piece {
    let core = net.core(part);
    if core.is_empty() {
        return star::star(net, part)
            .or_else(|| spine::spine(net, part))
            .unwrap_or_else(|| hang::tree(net, part));
    }
    let tiers = tiers::Tiers::of(net, &core);
    // Two leaves and two spines are a cycle of four, too, but tiers say more of them.
    if let Some(cycle) = net.cycle(&core)
        && !tiers.as_ref().is_some_and(|tiers| tiers.is_leaf_and_spine(&core))
    {
        return ring::ring(net, &cycle);
    }
    match tiers {
        Some(tiers) => tiers.draw(net),
        None => free::free(net, &core),
    }
}

/// Moves everything so that it begins at the margin; returns the size of the page.
fn into_page(
    graph: &Graph,
    centres: &mut [Point],
    courses: &mut [Course],
    frames: &mut [(usize, Rect)],
) -> Point {
    let boxes = graph.vertices.iter().zip(&*centres).map(|(v, at)| Rect::around(*at, v.size));
    let frames_now = frames.iter().map(|(_, frame)| *frame);
    let points =
        courses.iter().flat_map(|course| course.via.iter().map(|p| Rect::around(*p, [8.0, 8.0])));
    let all = boxes.chain(frames_now).chain(points).reduce(Rect::with);
    let Some(all) = all else { return [2.0 * MARGIN, 2.0 * MARGIN] };
    let by = [MARGIN - all.min[0], MARGIN - all.min[1]];
    centres.iter_mut().for_each(|at| *at = geometry::plus(*at, by));
    courses
        .iter_mut()
        .flat_map(|course| &mut course.via)
        .for_each(|at| *at = geometry::plus(*at, by));
    frames.iter_mut().for_each(|(_, frame)| *frame = frame.moved(by));
    [all.width() + 2.0 * MARGIN, all.height() + 2.0 * MARGIN]
}

#[cfg(test)]
extern crate self as netloom_layout;

#[cfg(test)]
#[path = "../tests/all.rs"]
mod integration;
