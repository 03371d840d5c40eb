//! A plan as one self-contained SVG file.
//!
//! Boxes have an icon and a colour by what they are, links the names and addresses of their ends where there is room, and
//! what impairs them; tooltips have all of it. Colours follow the viewer's light or dark setting; without support for that
//! they are the light ones. No scripts, fonts or external references.

mod curve;
mod icons;
mod labels;
mod style;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use netloom_layout::{Layout, MARGIN, Point, Rect};

use self::curve::Curve;
use self::labels::Labels;
use super::{Edge, EdgeEnd, Picture, Role, Vertex, card};
use crate::impairment::text;
use crate::plan::Plan;

/// Room above the drawing for the title, and below it for the legend.
const HEAD: f64 = 30.0;
const FOOT: f64 = 26.0;

/// From entry to entry of the legend.
const ENTRY: f64 = 26.0;

/// Draws the plan.
pub fn svg(plan: &Plan) -> String {
    let picture = Picture::of(plan);
    let layout = picture.laid_out(plan);
    let drawing = Drawing::of(&picture, &layout);
    let legend = Legend::of(&picture);
    let summary = summary(&picture);
    let title_width = card::width(&plan.lab, 18.0) + card::width(&summary, 12.0) + 40.0;
    let width = layout.size[0]
        .max(legend.width + 2.0 * MARGIN)
        .max(title_width.min(900.0) + 2.0 * MARGIN)
        .ceil();
    let height = (layout.size[1] + HEAD + FOOT).ceil();
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\">\n"
    );
    // Writing into a String cannot fail.
    let _ = writeln!(out, "<title>{}</title>", escape(&format!("{}: {summary}", plan.lab)));
    let _ = writeln!(out, "<style>{}</style>", style::STYLE);
    icons::define(&mut out, &legend.roles);
    out.push_str("<rect class=\"back\" width=\"100%\" height=\"100%\"/>\n");
    head(&mut out, &plan.lab, &summary);
    let aside = (width - layout.size[0]) / 2.0;
    let _ = writeln!(out, "<g transform=\"translate({aside:.1} {HEAD})\">");
    drawing.draw(&mut out);
    out.push_str("</g>\n");
    legend.draw(&mut out, height - FOOT);
    out.push_str("</svg>\n");
    out
}

fn head(out: &mut String, lab: &str, summary: &str) {
    let lab = card::shortened(lab, 63);
    let x = MARGIN + card::width(&lab, 18.0) * 0.98 + 14.0;
    let _ = writeln!(out, "<text class=\"lab\" x=\"{MARGIN}\" y=\"34\">{}</text>", escape(&lab));
    let _ =
        writeln!(out, "<text class=\"summary\" x=\"{x:.1}\" y=\"34\">{}</text>", escape(summary));
}

/// `5 nodes, 1 switch, 6 links`
fn summary(picture: &Picture) -> String {
    let count = |count: usize, one: &str, more: &str| {
        format!("{count} {}", if count == 1 { one } else { more })
    };
    let mut parts = vec![count(picture.nodes, "node", "nodes")];
    if picture.switches > 0 {
        parts.push(count(picture.switches, "switch", "switches"));
    }
    parts.push(count(picture.edges.len(), "link", "links"));
    parts.join(", ")
}

/// Everything with its place.
struct Drawing<'p> {
    picture: &'p Picture,
    layout: &'p Layout,
    boxes: Vec<Rect>,
    curves: Vec<Curve>,
    labelled: bool,
}

impl<'p> Drawing<'p> {
    fn of(picture: &'p Picture, layout: &'p Layout) -> Drawing<'p> {
        let labelled = picture.is_labelled();
        let boxes = picture.vertices.iter().zip(&layout.centres);
        let boxes: Vec<Rect> =
            boxes.map(|(v, at)| Rect::around(*at, card::size(v, labelled))).collect();
        let curves = picture.edges.iter().zip(&layout.courses).map(|(edge, course)| {
            Curve::of(edge.ends.each_ref().map(|end| layout.centres[end.vertex]), course)
        });
        Drawing { picture, layout, curves: curves.collect(), boxes, labelled }
    }

    fn draw(&self, out: &mut String) {
        for (v, area) in &self.layout.frames {
            draw_frame(out, &self.picture.vertices[*v], *area);
        }
        for (edge, curve) in self.picture.edges.iter().zip(&self.curves) {
            draw_link(out, edge, curve);
        }
        for (vertex, area) in self.picture.vertices.iter().zip(&self.boxes) {
            draw_box(out, vertex, *area, self.labelled);
        }
        self.draw_labels(out);
    }

    /// What impairs links first, then the names and addresses of their ends.
    fn draw_labels(&self, out: &mut String) {
        let mut labels = Labels::of(&self.boxes, &self.curves);
        for (at, edge) in self.picture.edges.iter().enumerate() {
            let text = impairments(edge);
            if text.is_empty() {
                continue;
            }
            match labels.in_the_middle(at, &text) {
                Some(area) => draw_pill(out, &text, area),
                None => draw_mark(out, self.curves[at].at(labels::MARK), &text),
            }
        }
        if !self.labelled {
            return;
        }
        for (at, edge) in self.picture.edges.iter().enumerate() {
            for (side, end) in edge.ends.iter().enumerate().filter(|(_, end)| !end.shown) {
                let lines = [Some(&end.interface), end.addresses.first()];
                let lines: Vec<&str> = lines
                    .into_iter()
                    .flatten()
                    .map(String::as_str)
                    .filter(|line| !line.is_empty())
                    .collect();
                if let Some((area, count)) =
                    labels.at_the_end(at, side, self.boxes[end.vertex], &lines)
                {
                    draw_end(out, &lines[..count], area);
                }
            }
        }
    }
}

fn draw_frame(out: &mut String, vertex: &Vertex, area: Rect) {
    let [x, y] = area.min;
    let _ = writeln!(
        out,
        "<g class=\"frame\"><title>{}</title><rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"12\"/></g>",
        escape(&format!("nodes inside of {}", vertex.name)),
        area.width(),
        area.height()
    );
}

fn draw_link(out: &mut String, edge: &Edge, curve: &Curve) {
    let mut title = edge.name.clone();
    for line in
        edge.ends.iter().map(describe).chain(directions(edge)).filter(|line| !line.is_empty())
    {
        let _ = write!(title, "\n{line}");
    }
    let class = if impairments(edge).is_empty() { "link" } else { "link impaired" };
    let (title, path) = (escape(&title), curve.path());
    // The wide invisible line is easier to point at.
    let _ = writeln!(
        out,
        "<g class=\"{class}\"><title>{title}</title><path class=\"near\" d=\"{path}\"/><path d=\"{path}\"/></g>"
    );
}

fn describe(end: &EdgeEnd) -> String {
    format!("{} {}", end.interface, end.addresses.join(" ")).trim().to_owned()
}

/// All impairments of each direction, for the tooltip.
fn directions(edge: &Edge) -> Vec<String> {
    let of = |side: usize| {
        let all: Vec<String> = text::impairments(&edge.impairments[side])
            .iter()
            .map(|(key, value)| format!("{key} {value}"))
            .collect();
        all.join(", ")
    };
    let ways = [of(0), of(1)];
    let word = ["there: ", "back: "];
    if ways[0] == ways[1] {
        return vec![ways[0].clone()];
    }
    ways.iter()
        .zip(word)
        .filter(|(way, _)| !way.is_empty())
        .map(|(way, word)| format!("{word}{way}"))
        .collect()
}

/// What impairs a link, in short.
fn impairments(edge: &Edge) -> String {
    let short = |side: usize| {
        let mut all = text::impairments(&edge.impairments[side]);
        all.remove("seed");
        // Without its distribution, which the tooltip has.
        let spread = |jitter: String| format!("±{}", jitter.split(' ').next().unwrap_or_default());
        let jitter = all.remove("jitter").map(spread);
        let delay = match (all.remove("delay"), jitter) {
            (Some(delay), Some(jitter)) => Some(format!("{delay} {jitter}")),
            (delay, jitter) => delay.or(jitter),
        };
        let loss = all.remove("loss").map(|loss| format!("{loss} loss"));
        let rest = all
            .iter()
            .filter(|(key, _)| *key != "rate")
            .map(|(key, value)| format!("{key} {value}"));
        let parts: Vec<String> =
            all.get("rate").cloned().into_iter().chain(delay).chain(loss).chain(rest).collect();
        card::shortened(&parts.join(" · "), 44)
    };
    let [there, back] = [short(0), short(1)];
    match (there == back, there.is_empty(), back.is_empty()) {
        (true, ..) => there,
        (false, false, true) => format!("→ {there}"),
        (false, true, false) => format!("← {back}"),
        (false, ..) => format!("→ {there}  ← {back}"),
    }
}

fn draw_box(out: &mut String, vertex: &Vertex, area: Rect, labelled: bool) {
    let class = style::class(vertex.role);
    let ([x, y], [width, height]) = (area.min, [area.width(), area.height()]);
    let (centre, text) = (area.centre()[1], x + card::TEXT_AT);
    let mut title = format!("{} ({})", vertex.name, style::word(vertex.role));
    for line in &vertex.details {
        let _ = write!(title, "\n{line}");
    }
    let _ = writeln!(
        out,
        "<g class=\"node {class}\"><title>{}</title><rect class=\"box\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" \
         height=\"{height:.1}\" rx=\"{}\"/><use href=\"#i-{class}\" x=\"{:.1}\" y=\"{:.1}\"/>",
        escape(&title),
        style::radius(vertex.role, height),
        x + 8.0,
        centre - 8.0
    );
    let name = escape(&card::name(vertex));
    match card::caption(vertex, labelled) {
        Some(caption) => {
            let caption = escape(&caption);
            let _ = writeln!(
                out,
                "<text class=\"name\" x=\"{text:.1}\" y=\"{:.1}\">{name}</text><text class=\"caption\" x=\"{text:.1}\" \
                 y=\"{:.1}\">{caption}</text></g>",
                centre - 1.5,
                centre + 11.0
            );
        }
        None => {
            let _ = writeln!(
                out,
                "<text class=\"name\" x=\"{text:.1}\" y=\"{:.1}\">{name}</text></g>",
                centre + 4.2
            );
        }
    }
}

fn draw_pill(out: &mut String, text: &str, area: Rect) {
    let ([x, y], [width, height], centre) =
        (area.min, [area.width(), area.height()], area.centre());
    let _ = writeln!(
        out,
        "<g class=\"pill\"><rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"{:.1}\"/>\
         <text x=\"{:.1}\" y=\"{:.1}\">{}</text></g>",
        height / 2.0,
        centre[0],
        centre[1] + 3.3,
        escape(text)
    );
}

/// A dot with the text as its tooltip, where the text has no room.
fn draw_mark(out: &mut String, [x, y]: Point, text: &str) {
    let _ = writeln!(
        out,
        "<g class=\"pill\"><title>{}</title><circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"/></g>",
        escape(text)
    );
}

fn draw_end(out: &mut String, lines: &[&str], area: Rect) {
    let ([x, y], [width, height]) = (area.min, [area.width(), area.height()]);
    let _ = write!(
        out,
        "<g class=\"end\"><rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"2\"/>"
    );
    let mut base = y + labels::LINE - 2.6;
    for line in lines {
        let _ = write!(
            out,
            "<text x=\"{:.1}\" y=\"{base:.1}\">{}</text>",
            area.centre()[0],
            escape(line)
        );
        base += labels::LINE;
    }
    out.push_str("</g>\n");
}

/// What the colours and icons mean: only those of the picture.
struct Legend {
    roles: BTreeSet<Role>,
    impaired: bool,
    width: f64,
}

impl Legend {
    fn of(picture: &Picture) -> Legend {
        let roles: BTreeSet<Role> = picture.vertices.iter().map(|vertex| vertex.role).collect();
        let impaired = picture.edges.iter().any(|edge| !impairments(edge).is_empty());
        let mut legend = Legend { roles, impaired, width: 0.0 };
        legend.width = legend.entries().map(|(_, word)| entry_width(word)).sum();
        legend
    }

    fn entries(&self) -> impl Iterator<Item = (Option<Role>, &'static str)> {
        let roles = self.roles.iter().map(|role| (Some(*role), style::word(*role)));
        roles.chain(self.impaired.then_some((None, style::IMPAIRED)))
    }

    fn draw(&self, out: &mut String, y: f64) {
        let mut x = MARGIN;
        out.push_str("<g class=\"legend\">\n");
        for (role, word) in self.entries() {
            let symbol = match role {
                Some(role) => {
                    let class = style::class(role);
                    format!(
                        "<g class=\"{class}\"><use href=\"#i-{class}\" x=\"{x:.1}\" y=\"{:.1}\"/></g>",
                        y - 8.0
                    )
                }
                None => format!(
                    "<g class=\"link impaired\"><path d=\"M{x:.1} {y:.1}h16\"/></g><g class=\"pill\">\
                     <circle cx=\"{:.1}\" cy=\"{y:.1}\" r=\"3.5\"/></g>",
                    x + 8.0
                ),
            };
            let _ = writeln!(
                out,
                "{symbol}<text x=\"{:.1}\" y=\"{:.1}\">{word}</text>",
                x + 21.0,
                y + 3.8
            );
            x += entry_width(word);
        }
        out.push_str("</g>\n");
    }
}

fn entry_width(word: &str) -> f64 {
    21.0 + card::width(word, 11.0) + ENTRY
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
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
