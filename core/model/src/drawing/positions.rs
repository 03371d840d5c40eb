//! Where everything of a plan stands, for other programs that draw: the positions of the SVG picture in whole pixels.

use std::collections::BTreeMap;

use netloom_layout::{Course, Point, Shape};
use serde::{Deserialize, Serialize};

use super::{Picture, Role, card};
use crate::plan::Plan;

/// Where everything of a lab stands in a picture. The origin is the upper left corner, and y grows downwards.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Positions {
    /// The nodes, in the order of the lab.
    pub nodes: Vec<PlacedNode>,
    /// The switches, in the order of the lab.
    pub switches: Vec<PlacedNode>,
    /// Ends of links outside of the lab.
    pub doors: Vec<PlacedDoor>,
    /// The links, in the order of the lab.
    pub links: Vec<LinkCourse>,
    /// Frames around nodes with the nodes inside of them; outer ones come first.
    pub frames: Vec<Frame>,
    /// The page's width in pixels.
    pub width: i32,
    /// Its height.
    pub height: i32,
}

/// A node or switch in a picture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PlacedNode {
    /// Its name.
    pub name: String,
    /// Its centre, from the left.
    pub x: i32,
    /// Its centre, from the top.
    pub y: i32,
    /// The width of its box.
    pub width: i32,
    /// The height of its box.
    pub height: i32,
    /// What it is.
    pub role: Role,
}

/// The end of a link outside of the lab: `internet`, `host:IFACE` or `nowhere`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PlacedDoor {
    /// Its box.
    #[serde(flatten)]
    pub place: PlacedNode,
    /// The names of the links that end there; each `nowhere` has its own.
    pub links: Vec<String>,
}

/// How a link goes from the centre of its first end to that of its second.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LinkCourse {
    /// The link's name.
    pub name: String,
    /// The form of its course.
    pub shape: Form,
    /// The points between, each from the left and from the top.
    pub via: Vec<[i32; 2]>,
}

/// A frame around a node and the nodes inside of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = PictureFrame))]
pub struct Frame {
    /// The outer node's name.
    pub name: String,
    /// Its left side.
    pub x: i32,
    /// Its upper side.
    pub y: i32,
    /// Its width.
    pub width: i32,
    /// Its height.
    pub height: i32,
}

/// The form of a link's course.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = LinkForm))]
pub enum Form {
    /// Straight: no points between.
    Straight,
    /// A quadratic curve: one point, its control point.
    Bent,
    /// Straight from point to point.
    Corners,
    /// From a node to itself, a cubic curve: two points, its control points.
    Loop,
}

impl Plan {
    /// The positions that its lab file fixes, by name.
    pub(super) fn positions_of_file(&self) -> BTreeMap<String, [i32; 2]> {
        let file = self.scheme.as_ref().and_then(|scheme| scheme.file.as_deref());
        file.map_or_else(BTreeMap::new, crate::parse::positions)
    }
}

/// Where everything of a plan stands.
pub fn positions(plan: &Plan) -> Positions {
    let picture = Picture::of(plan);
    let layout = picture.laid_out(plan);
    let labelled = picture.is_labelled();
    let place = |at: usize| {
        let vertex = &picture.vertices[at];
        let ([x, y], [width, height]) = (layout.centres[at], card::size(vertex, labelled));
        let (name, role) = (vertex.name.clone(), vertex.role);
        PlacedNode {
            name,
            x: whole(x),
            y: whole(y),
            width: whole(width),
            height: whole(height),
            role,
        }
    };
    let (nodes, switches) = (picture.nodes, picture.switches);
    let first = nodes + switches;
    let mut links: Vec<Vec<String>> = vec![vec![]; picture.vertices.len() - first];
    for edge in &picture.edges {
        // No link joins two doors.
        if let Some(door) = edge.ends.iter().find_map(|end| end.vertex.checked_sub(first)) {
            links[door].push(edge.name.clone());
        }
    }
    let door = |(at, links): (usize, Vec<String>)| PlacedDoor { place: place(first + at), links };
    let course = |(edge, course): (&super::Edge, &Course)| LinkCourse {
        name: edge.name.clone(),
        shape: form(course.shape),
        via: course.via.iter().map(|at: &Point| at.map(whole)).collect(),
    };
    let frame = |(at, area): &(usize, netloom_layout::Rect)| Frame {
        name: picture.vertices[*at].name.clone(),
        x: whole(area.min[0]),
        y: whole(area.min[1]),
        width: whole(area.width()),
        height: whole(area.height()),
    };
    Positions {
        nodes: (0..nodes).map(place).collect(),
        switches: (nodes..first).map(place).collect(),
        doors: links.into_iter().enumerate().map(door).collect(),
        links: picture.edges.iter().zip(&layout.courses).map(course).collect(),
        frames: layout.frames.iter().map(frame).collect(),
        width: whole(layout.size[0].ceil()),
        height: whole(layout.size[1].ceil()),
    }
}

fn form(shape: Shape) -> Form {
    match shape {
        Shape::Straight => Form::Straight,
        Shape::Bent => Form::Bent,
        Shape::Corners => Form::Corners,
        Shape::Loop => Form::Loop,
    }
}

/// Pictures are far smaller than 2^31 pixels.
#[expect(clippy::cast_possible_truncation, reason = "a cast to a whole number stops at its bounds")]
fn whole(pixels: f64) -> i32 {
    pixels.round() as i32
}
