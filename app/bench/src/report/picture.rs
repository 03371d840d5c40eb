//! A report as one self-contained SVG file: ratios with intervals, bars of all rows, lines.
//!
//! Rows are grouped by unit; a group whose figures span more than two decades has a logarithmic axis and dots
//! instead of bars. Every round is a small dot, every interval a line with ends. Colours follow the viewer's
//! light or dark setting. No scripts, fonts or external references.

mod axis;
mod lines;

use std::fmt::Write as _;

use super::table::short;
use super::{Report, Row};
use axis::Axis;

/// Pixels: the whole width, and the part in which figures are drawn.
const WIDTH: f64 = 1000.0;
const LEFT: f64 = 430.0;
const RIGHT: f64 = 880.0;
/// Height of a row, and of a title.
const ROW: f64 = 20.0;
const TITLE: f64 = 34.0;
/// Letters of a label that fit; the tooltip has all.
const LETTERS: usize = 66;
/// Colours for candidates, in order of appearance.
const COLOURS: usize = 6;

const STYLE: &str = "
.back{fill:#fff}
text{font-family:system-ui,sans-serif;font-size:12px;fill:#1b1f24}
.head{font-size:18px;font-weight:600}
.title{font-size:14px;font-weight:600}
.small{font-size:10px;fill:#57606a}
.right{text-anchor:end}
.middle{text-anchor:middle}
.grid{stroke:#d5dae0;stroke-width:1}
.one{stroke:#8a94a0;stroke-width:1.5;stroke-dasharray:4 3}
.interval{stroke:#1b1f24;stroke-width:1.5;fill:none}
.round{fill:#1b1f24;fill-opacity:.35}
.c0{fill:#2563b0;stroke:#2563b0}
.c1{fill:#d9480f;stroke:#d9480f}
.c2{fill:#2b8a3e;stroke:#2b8a3e}
.c3{fill:#8637b3;stroke:#8637b3}
.c4{fill:#a8710a;stroke:#a8710a}
.c5{fill:#57606a;stroke:#57606a}
.bar{fill-opacity:.55;stroke:none}
.line{fill:none;stroke-width:2}
@media (prefers-color-scheme:dark){
.back{fill:#14171b}
text{fill:#e8ecf0}
.small{fill:#a9b4bf}
.grid{stroke:#30363d}
.interval{stroke:#e8ecf0}
.round{fill:#e8ecf0}
}
";

/// The file under construction: what was drawn, and how far down.
struct Canvas {
    out: String,
    y: f64,
}

impl Report {
    /// The picture.
    pub(super) fn svg(&self) -> String {
        let mut canvas = Canvas { out: String::new(), y: 34.0 };
        canvas.text(12.0, "head", &format!("netloom bench {}", self.experiment));
        canvas.y += 18.0;
        let facts: Vec<String> =
            self.machine.iter().map(|(name, fact)| format!("{name} {fact}")).collect();
        canvas.text(12.0, "small", &facts.join(", "));
        let who = candidates(&self.rows);
        self.draw_ratios(&mut canvas);
        for (unit, rows) in by_unit(&self.rows) {
            canvas.title(&format!("mean of the rounds, {unit}"));
            draw_rows(&mut canvas, &rows, &who);
        }
        for curve in &self.curves {
            lines::draw(&mut canvas, curve, &who);
        }
        canvas.finish(&self.experiment)
    }

    fn draw_ratios(&self, canvas: &mut Canvas) {
        if self.ratios.is_empty() {
            return;
        }
        canvas.title("ratios: netloom / peer, with 95 % confidence intervals");
        let known = self.ratios.iter().filter_map(|(name, figure)| Some((name, (*figure)?)));
        let ends = known.flat_map(|(name, figure)| {
            [figure, 1.0].into_iter().chain(self.ci.get(name).copied().into_iter().flatten())
        });
        let axis = Axis::ratios(ends, LEFT, RIGHT);
        let top = canvas.y;
        for (name, figure) in &self.ratios {
            canvas.y += ROW;
            canvas.label(
                name,
                &self.given.get(name).map_or(String::new(), |[a, b]| format!("{a} / {b}")),
            );
            let (Some(figure), y) = (*figure, canvas.y - 4.0) else {
                canvas.text(LEFT, "small", "not shown");
                continue;
            };
            canvas.interval(&axis, self.ci.get(name).copied(), y);
            canvas.dot(axis.at(figure), y, 4.0, "c0");
            canvas.text(RIGHT + 12.0, "", &short(figure));
        }
        canvas.grid(&axis, top);
        let (x, bottom) = (axis.at(1.0), canvas.y + 4.0);
        canvas.line([x, top + 4.0], [x, bottom], "one");
        canvas.ticks(&axis);
    }
}

/// All candidates, in order of appearance.
fn candidates(rows: &[Row]) -> Vec<&str> {
    let mut all: Vec<&str> = vec![];
    for row in rows.iter().filter(|row| row.mean.is_some()) {
        if !all.contains(&row.who.as_str()) {
            all.push(&row.who);
        }
    }
    all
}

/// The class of a candidate's colour.
fn colour(who: &str, all: &[&str]) -> String {
    let at = all.iter().position(|known| *known == who).unwrap_or(0);
    format!("c{}", at % COLOURS)
}

/// Measured rows by unit, in order of appearance.
fn by_unit(rows: &[Row]) -> Vec<(&str, Vec<&Row>)> {
    let mut groups: Vec<(&str, Vec<&Row>)> = vec![];
    for row in rows.iter().filter(|row| row.mean.is_some()) {
        match groups.iter_mut().find(|(unit, _)| *unit == row.unit) {
            Some((_, group)) => group.push(row),
            None => groups.push((&row.unit, vec![row])),
        }
    }
    groups
}

fn draw_rows(canvas: &mut Canvas, rows: &[&Row], who: &[&str]) {
    let ends = rows.iter().flat_map(|row| row.mean.into_iter().chain(row.samples.iter().copied()));
    let axis = Axis::figures(ends, LEFT, RIGHT);
    let top = canvas.y;
    for row in rows {
        canvas.y += ROW;
        canvas.label(&format!("{}: {}", row.what, row.who), &row.note);
        let (Some(mean), y) = (row.mean, canvas.y - 4.0) else { continue };
        let class = colour(&row.who, who);
        if axis.has_bars() {
            canvas.bar(axis.at(0.0), axis.at(mean), y, &class);
        } else {
            canvas.dot(axis.at(mean), y, 4.0, &class);
        }
        for sample in &row.samples {
            canvas.dot(axis.at(*sample), y, 1.5, "round");
        }
        canvas.interval(&axis, row.ci95, y);
        canvas.text(RIGHT + 12.0, "", &format!("{} {}", short(mean), row.unit));
    }
    canvas.grid(&axis, top);
    canvas.ticks(&axis);
}

// Writing into a String cannot fail.
impl Canvas {
    fn finish(self, experiment: &str) -> String {
        let height = self.y + 30.0;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH:.0}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {WIDTH:.0} {height:.0}\">\n<title>netloom bench {}</title>\n\
             <style>{STYLE}</style>\n<rect class=\"back\" width=\"100%\" height=\"100%\"/>\n{}</svg>\n",
            escape(experiment),
            self.out
        )
    }

    fn title(&mut self, text: &str) {
        self.y += TITLE;
        self.text(12.0, "title", text);
    }

    fn text(&mut self, x: f64, class: &str, text: &str) {
        let text = escape(text);
        let _ = writeln!(
            self.out,
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{:.1}\">{text}</text>",
            self.y
        );
    }

    /// The label of a row, cut to what fits; the tooltip has all of it, and the note.
    fn label(&mut self, text: &str, note: &str) {
        let fits = text.chars().count() <= LETTERS;
        let mut shown: String =
            text.chars().take(if fits { LETTERS } else { LETTERS - 1 }).collect();
        if !fits {
            shown.push('…');
        }
        let (shown, tip) = (escape(&shown), escape(&format!("{text}: {note}")));
        let _ = writeln!(
            self.out,
            "<text x=\"12\" y=\"{:.1}\">{shown}<title>{tip}</title></text>",
            self.y
        );
    }

    fn dot(&mut self, x: f64, y: f64, radius: f64, class: &str) {
        let _ = writeln!(
            self.out,
            "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\"/>"
        );
    }

    fn bar(&mut self, from: f64, to: f64, y: f64, class: &str) {
        let (x, width, y) = (from.min(to), (to - from).abs(), y - 6.0);
        let _ = writeln!(
            self.out,
            "<rect class=\"{class} bar\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"12\"/>"
        );
    }

    fn line(&mut self, [x1, y1]: [f64; 2], [x2, y2]: [f64; 2], class: &str) {
        let _ = writeln!(
            self.out,
            "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
        );
    }

    /// A horizontal interval with ends.
    fn interval(&mut self, axis: &Axis, ci: Option<[f64; 2]>, y: f64) {
        let Some([low, high]) = ci.map(|ci| ci.map(|end| axis.at(end))) else { return };
        let (top, bottom) = (y - 4.0, y + 4.0);
        let _ = writeln!(
            self.out,
            "<path class=\"interval\" d=\"M{low:.1} {top:.1}V{bottom:.1}M{low:.1} {y:.1}H{high:.1}M{high:.1} \
             {top:.1}V{bottom:.1}\"/>"
        );
    }

    /// Vertical lines at the ticks of a horizontal axis, from `top` down to here.
    fn grid(&mut self, axis: &Axis, top: f64) {
        let bottom = self.y + 4.0;
        for tick in axis.ticks() {
            self.line([axis.at(tick), top + 4.0], [axis.at(tick), bottom], "grid");
        }
    }

    /// The figures below them.
    fn ticks(&mut self, axis: &Axis) {
        self.y += 18.0;
        for tick in axis.ticks() {
            self.text(axis.at(tick), "small middle", &axis::tick_text(tick));
        }
    }
}

/// Text as XML character data and attribute values, without characters that XML 1.0 forbids.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            letter if letter.is_control() => out.push(' '),
            letter => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::report;

    /// Every element is closed and no attribute is broken: a minimal well-formedness check.
    fn assert_well_formed(svg: &str) {
        let mut open: Vec<&str> = vec![];
        let style = svg.find("</style>").unwrap();
        for part in svg[style..].split('<').skip(1) {
            let (tag, _) = part.split_once('>').unwrap();
            assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
            match tag.strip_prefix('/') {
                Some("style" | "svg") => {}
                Some(name) => assert_eq!(open.pop(), Some(name)),
                None if tag.ends_with('/') => {}
                None => open.push(tag.split(' ').next().unwrap()),
            }
        }
        assert!(open.is_empty(), "{open:?}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn every_measured_row_is_drawn_and_what_is_not_shown_is_told() {
        let svg = report().svg();
        assert_well_formed(&svg);
        assert!(svg.contains("up: netloom") && svg.contains("2.000 s"), "{svg}");
        assert!(!svg.contains("up: mininet"), "{svg}");
        assert!(svg.contains(">not shown<") && svg.contains("up_vs_mininet"), "{svg}");
        assert_eq!(svg.matches("class=\"round\"").count(), 3);
    }

    #[test]
    fn text_cannot_break_out() {
        let mut report = report();
        report.measured("<a & \"b\">\u{7}", "x", "µs", &[1.0, 100.0, 100_000.0], "&");
        report.point("<t>", ["x\"", "y&"], "<w>", 1.0, &[2.0; 5]);
        let svg = report.svg();
        assert_well_formed(&svg);
        assert!(svg.contains("&lt;a &amp; &quot;b&quot;&gt;"), "{svg}");
    }

    #[test]
    fn extreme_and_empty_reports_are_drawn() {
        assert_well_formed(&Report::default().svg());
        let mut report = Report::default();
        report.measured("zero", "x", "%", &[0.0; 5], "");
        report.measured("negative", "x", "us", &[-3.0, 1e9, 0.0], "");
        report.point("one", ["x", "y"], "x", 0.0, &[0.0; 5]);
        let svg = report.svg();
        assert_well_formed(&svg);
        assert!(svg.contains("zero"), "{svg}");
    }
}
