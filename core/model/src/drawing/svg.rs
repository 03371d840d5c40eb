//! A plan as one self-contained SVG file.
//!
//! Colours follow the viewer's light or dark setting; without support for that they are the light
//! ones. Addresses are at the ends of links in small labs, and always in the tooltips of nodes and
//! links. No scripts, fonts or external references.

use std::collections::HashMap;
use std::fmt::Write as _;

use crate::plan::Plan;

use super::layout::{self, Point};
use super::{Edge, EdgeEnd, Picture, Shape, Vertex};

/// Pixels around the picture.
const MARGIN: f64 = 90.0;

/// Maximum links for which ends are labelled.
const LABELLED: usize = 60;

/// Maximum letters of a name shown; the tooltip has all.
const NAME_LETTERS: usize = 24;

/// Half the height of a vertex in pixels.
const HALF_HEIGHT: f64 = 14.0;

/// Minimum distance of two vertices, relative to the length of a link.
const LEAST: f64 = 0.55;

const STYLE: &str = "
.back{fill:#fff}
text{font-family:system-ui,sans-serif;font-size:12px;fill:#1b1f24;text-anchor:middle}
.link path{fill:none;stroke:#8a94a0;stroke-width:1.5}
.link:hover path{stroke:#d9480f;stroke-width:3}
.end{font-size:9px;fill:#57606a}
.halo{fill:none;stroke:#fff;stroke-width:3px}
.router .shape{fill:#d0e3ff;stroke:#2563b0}
.host .shape{fill:#dcf2df;stroke:#2b8a3e}
.switch .shape{fill:#fff0c8;stroke:#a8710a}
.door .shape{fill:#f1e3fa;stroke:#8637b3;stroke-dasharray:4 3}
.shape{stroke-width:1.5}
@media (prefers-color-scheme:dark){
.back{fill:#14171b}
text{fill:#e8ecf0}
.link path{stroke:#6b7682}
.end{fill:#a9b4bf}
.halo{fill:none;stroke:#14171b}
.router .shape{fill:#17355c;stroke:#6ea8fe}
.host .shape{fill:#173d22;stroke:#69c27d}
.switch .shape{fill:#4a3708;stroke:#e0b040}
.door .shape{fill:#3b1d4d;stroke:#c48ae6}
}
";

/// Draws the plan.
pub fn svg(plan: &Plan) -> String {
    let picture = Picture::of(plan);
    let pairs: Vec<(usize, usize)> =
        picture.edges.iter().map(|e| (e.ends[0].vertex, e.ends[1].vertex)).collect();
    let mut points = layout::place(picture.vertices.len(), &pairs, LEAST);
    let [width, height] = fit(&mut points, spacing(&picture));
    let mut out = String::new();
    // Writing into a String cannot fail.
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\">"
    );
    let (nodes, links) = (plan.nodes.len(), plan.links.len());
    let title = format!("{}: {nodes} nodes, {links} links", plan.lab);
    let _ = writeln!(out, "<title>{}</title>\n<style>{STYLE}</style>", escape(&title));
    out.push_str("<rect class=\"back\" width=\"100%\" height=\"100%\"/>\n");
    // Edges first: vertices cover their ends.
    draw_edges(&mut out, &picture, &points);
    for (vertex, point) in picture.vertices.iter().zip(&points) {
        draw_vertex(&mut out, vertex, *point);
    }
    out.push_str("</svg>\n");
    out
}

/// Usual length of a link in pixels: room for the labels of its ends, and for long names.
fn spacing(picture: &Picture) -> f64 {
    let widest = picture.vertices.iter().map(half_width).fold(0.0, f64::max);
    let ends = if picture.edges.len() <= LABELLED { 240.0 } else { 90.0 };
    (widest * 3.0).clamp(ends, 300.0)
}

/// Scales to pixels, with the margin, and gives the size of the picture.
fn fit(points: &mut [Point], spacing: f64) -> [f64; 2] {
    let mut size = [0.0; 2];
    for (axis, size) in size.iter_mut().enumerate() {
        let low = points.iter().map(|p| p[axis]).fold(f64::INFINITY, f64::min);
        for point in points.iter_mut() {
            point[axis] = (point[axis] - low) * spacing + MARGIN;
        }
        *size = points.iter().map(|p| p[axis]).fold(MARGIN, f64::max) + MARGIN;
    }
    size
}

fn draw_edges(out: &mut String, picture: &Picture, points: &[Point]) {
    let pair = |edge: &Edge| {
        let [a, b] = [edge.ends[0].vertex, edge.ends[1].vertex];
        (a.min(b), a.max(b))
    };
    let mut counts: HashMap<(usize, usize), (u32, u32)> = HashMap::new();
    for edge in &picture.edges {
        counts.entry(pair(edge)).or_default().1 += 1;
    }
    // Labels come after all lines, which would cross them.
    let mut labels = String::new();
    for edge in &picture.edges {
        let seen = counts.entry(pair(edge)).or_default();
        // Links between the same two vertices are side by side.
        let lane = f64::from(seen.0) - f64::from(seen.1.saturating_sub(1)) / 2.0;
        seen.0 += 1;
        let line = Line::new(edge, points, lane);
        let [a, b] = &edge.ends;
        let title = format!("{}\n{}\n{}", edge.name, describe(a), describe(b));
        let title = escape(title.trim_end());
        let _ = writeln!(
            out,
            "<g class=\"link\"><title>{title}</title><path d=\"{}\"/></g>",
            line.path()
        );
        if picture.edges.len() <= LABELLED {
            draw_end(&mut labels, a, line.at_pixels(72.0));
            draw_end(&mut labels, b, line.reversed().at_pixels(72.0));
        }
    }
    out.push_str(&labels);
}

fn describe(end: &EdgeEnd) -> String {
    format!("{} {}", end.interface, end.addresses.join(" ")).trim().to_owned()
}

/// A link's line: a quadratic curve from end to end.
struct Line {
    from: Point,
    bend: Point,
    to: Point,
}

impl Line {
    fn new(edge: &Edge, points: &[Point], lane: f64) -> Line {
        let [from, to] = [points[edge.ends[0].vertex], points[edge.ends[1].vertex]];
        if edge.ends[0].vertex == edge.ends[1].vertex {
            // From a node to itself: an arc above it.
            let (x, y) = (from[0], from[1] - HALF_HEIGHT);
            let reach = 60.0 + 20.0 * lane.abs();
            return Line { from: [x - 20.0, y], bend: [x, y - reach], to: [x + 20.0, y] };
        }
        // The lane's side does not depend on which end comes first.
        let [low, high] =
            if edge.ends[0].vertex < edge.ends[1].vertex { [from, to] } else { [to, from] };
        let (x, y) = (high[0] - low[0], high[1] - low[1]);
        let aside = lane * 76.0 / x.hypot(y).max(1.0);
        let middle = [f64::midpoint(from[0], to[0]), f64::midpoint(from[1], to[1])];
        Line { from, bend: [middle[0] - y * aside, middle[1] + x * aside], to }
    }

    fn path(&self) -> String {
        let [a, b, c] = [self.from, self.bend, self.to];
        format!("M{:.1} {:.1}Q{:.1} {:.1} {:.1} {:.1}", a[0], a[1], b[0], b[1], c[0], c[1])
    }

    fn reversed(&self) -> Line {
        Line { from: self.to, bend: self.bend, to: self.from }
    }

    /// The point about this many pixels from the start, at most at a third of the line.
    fn at_pixels(&self, pixels: f64) -> Point {
        let whole = (self.to[0] - self.from[0]).hypot(self.to[1] - self.from[1]).max(1.0);
        let t = (pixels / whole).min(0.34);
        let at = |axis: usize| {
            let [a, b, c] = [self.from[axis], self.bend[axis], self.to[axis]];
            a * (1.0 - t) * (1.0 - t) + b * 2.0 * t * (1.0 - t) + c * t * t
        };
        [at(0), at(1)]
    }
}

/// The interface and its first address, on two lines.
fn draw_end(out: &mut String, end: &EdgeEnd, [x, y]: Point) {
    let lines = [Some(end.interface.as_str()), end.addresses.first().map(String::as_str)];
    let lines = lines.into_iter().flatten().filter(|line| !line.is_empty());
    for (line, y) in lines.zip([y, y + 10.0]) {
        let line = escape(line);
        // The halo is a separate text: few viewers support the order of fill and stroke.
        for class in ["end halo", "end"] {
            let _ =
                writeln!(out, "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{line}</text>");
        }
    }
}

/// The name as shown.
fn label(name: &str) -> String {
    if name.chars().count() <= NAME_LETTERS {
        return name.to_owned();
    }
    name.chars().take(NAME_LETTERS - 1).chain(['…']).collect()
}

fn half_width(vertex: &Vertex) -> f64 {
    let letters = u32::try_from(label(&vertex.name).chars().count()).unwrap_or(0);
    let text = f64::from(letters) * 3.6;
    match vertex.shape {
        Shape::Switch => text + 26.0,
        _ => (text + 10.0).max(20.0),
    }
}

fn draw_vertex(out: &mut String, vertex: &Vertex, [x, y]: Point) {
    let w = half_width(vertex);
    let h = HALF_HEIGHT;
    let (left, top, width, height) = (x - w, y - h, 2.0 * w, 2.0 * h);
    let rectangle = |round: f64| {
        format!(
            "<rect class=\"shape\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" \
             height=\"{height:.1}\" rx=\"{round}\"/>"
        )
    };
    let (class, shape) = match vertex.shape {
        Shape::Router => ("router", rectangle(2.0)),
        Shape::Door => ("door", rectangle(8.0)),
        Shape::Host => {
            let ellipse = format!("cx=\"{x:.1}\" cy=\"{y:.1}\" rx=\"{w:.1}\" ry=\"{h:.1}\"");
            ("host", format!("<ellipse class=\"shape\" {ellipse}/>"))
        }
        Shape::Switch => {
            let h = h + 5.0;
            let (up, down, right) = (y - h, y + h, x + w);
            let d = format!("M{left:.1} {y:.1}L{x:.1} {up:.1}L{right:.1} {y:.1}L{x:.1} {down:.1}Z");
            ("switch", format!("<path class=\"shape\" d=\"{d}\"/>"))
        }
    };
    let mut title = vertex.name.clone();
    for line in &vertex.details {
        let _ = write!(title, "\n{line}");
    }
    let (title, name, base) = (escape(&title), escape(&label(&vertex.name)), y + 4.0);
    let _ = writeln!(
        out,
        "<g class=\"{class}\"><title>{title}</title>{shape}\
         <text x=\"{x:.1}\" y=\"{base:.1}\">{name}</text></g>"
    );
}

/// Text escaped for XML 1.0, in elements and attributes.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' => out.push('\n'),
            // XML 1.0 allows neither, not even escaped.
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
