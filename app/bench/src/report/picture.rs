//! A report as one SVG file, drawn by plotters: ratios with intervals, bars of all rows, lines.
//!
//! Rows are grouped by unit; a group whose figures span more than two decades has a logarithmic axis and dots
//! instead of bars. Every round is a small dot, every interval a line with ends. No scripts, fonts or external references.

mod lines;

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::table::short;
use super::{Report, Row};

/// Pixels: the whole width, the labels of rows, and what is right of the figures.
const WIDTH: u32 = 1000;
const LEFT: u32 = 430;
const RIGHT: u32 = 120;
/// Height of a row, of a title, and of the ticks below rows.
const ROW: u32 = 20;
const TITLE: u32 = 34;
const TICKS: u32 = 24;
/// Text at ticks.
const SMALL: (&str, i32) = ("sans-serif", 13);
/// Letters of a label that fit; the table has all.
const LETTERS: usize = 66;
/// A logarithmic axis takes over where the largest figure is more than this many times the smallest.
const DECADES: f64 = 100.0;
/// Colours for candidates, in order of appearance.
const COLOURS: [RGBColor; 6] = [
    RGBColor(37, 99, 176),
    RGBColor(217, 72, 15),
    RGBColor(43, 138, 62),
    RGBColor(134, 55, 179),
    RGBColor(168, 113, 10),
    RGBColor(87, 96, 106),
];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// A line of rows: a label, a figure, and what is drawn for it.
struct Band {
    label: String,
    /// Beside the figure; alone where there is none.
    told: String,
    figure: Option<f64>,
    rounds: Vec<f64>,
    ci: Option<[f64; 2]>,
    colour: RGBColor,
}

/// Bands on an axis, below a title.
struct Group {
    title: String,
    bands: Vec<Band>,
    /// Ratios have a logarithmic axis around a line at one.
    ratios: bool,
}

impl Report {
    /// The picture.
    ///
    /// # Errors
    /// The library refuses to draw.
    pub(super) fn svg(&self) -> Result<String> {
        let who = candidates(&self.rows);
        let groups: Vec<Group> =
            self.ratio_group().into_iter().chain(groups(&self.rows, &who)).collect();
        let height =
            |group: &Group| TITLE + TICKS + ROW * u32::try_from(group.bands.len()).unwrap_or(0);
        let whole = 60
            + groups.iter().map(height).sum::<u32>()
            + lines::HEIGHT * u32::try_from(self.curves.len())?;
        let mut svg = String::new();
        {
            let root = SVGBackend::with_string(&mut svg, (WIDTH, whole)).into_drawing_area();
            drawn(root.fill(&WHITE))?;
            let facts: Vec<String> =
                self.machine.iter().map(|(name, fact)| format!("{name} {fact}")).collect();
            write(&root, [12, 24], 18, HPos::Left, &format!("netloom bench {}", self.experiment))?;
            write(&root, [12, 44], 10, HPos::Left, &facts.join(", "))?;
            let (_, mut rest) = root.split_vertically(60);
            for group in &groups {
                let (upper, lower) = rest.split_vertically(height(group));
                group.draw(&upper)?;
                rest = lower;
            }
            for curve in &self.curves {
                let (upper, lower) = rest.split_vertically(lines::HEIGHT);
                lines::draw(&upper, curve, &who)?;
                rest = lower;
            }
            drawn(root.present())?;
        }
        Ok(svg)
    }

    fn ratio_group(&self) -> Option<Group> {
        let band = |(name, figure): (&String, &Option<f64>)| Band {
            label: name.clone(),
            told: figure.map_or("not shown".to_owned(), short),
            figure: *figure,
            rounds: vec![],
            ci: self.ci.get(name).copied().filter(|_| figure.is_some()),
            colour: COLOURS[0],
        };
        let title = "ratios: netloom / peer, with 95 % confidence intervals".to_owned();
        let bands: Vec<Band> = self.ratios.iter().map(band).collect();
        (!bands.is_empty()).then_some(Group { title, bands, ratios: true })
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

fn colour(who: &str, all: &[&str]) -> RGBColor {
    COLOURS[all.iter().position(|known| *known == who).unwrap_or(0) % COLOURS.len()]
}

/// Measured rows by unit, in order of appearance.
fn groups(rows: &[Row], who: &[&str]) -> Vec<Group> {
    let mut groups: Vec<Group> = vec![];
    for row in rows {
        let Some(mean) = row.mean else { continue };
        let band = Band {
            label: format!("{}: {}", row.what, row.who),
            told: format!("{} {}", short(mean), row.unit),
            figure: Some(mean),
            rounds: row.samples.clone(),
            ci: row.ci95,
            colour: colour(&row.who, who),
        };
        let title = format!("mean of the rounds, {}", row.unit);
        match groups.iter_mut().find(|group| group.title == title) {
            Some(group) => group.bands.push(band),
            None => groups.push(Group { title, bands: vec![band], ratios: false }),
        }
    }
    groups
}

impl Group {
    fn draw(&self, area: &Area<'_>) -> Result<()> {
        write(area, [12, 22], 14, HPos::Left, &self.title)?;
        let figures = self.bands.iter().flat_map(|band| {
            let ends = band.ci.into_iter().flatten().filter(|_| self.ratios);
            band.figure.into_iter().chain(band.rounds.iter().copied()).chain(ends)
        });
        let axis = Axis::of(figures.chain(self.ratios.then_some(1.0)), self.ratios);
        match axis {
            Axis::Linear(low, high) => self.on(area, low..high, true),
            Axis::Logarithmic(low, high) => self.on(area, (low..high).log_scale(), false),
        }
    }

    fn on<X: AsRangedCoord<Value = f64>>(&self, area: &Area<'_>, x: X, bars: bool) -> Result<()>
    where
        X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let count = f64::from(u32::try_from(self.bands.len())?);
        let mut builder = ChartBuilder::on(area);
        builder.margin_top(TITLE).margin_left(LEFT).margin_right(RIGHT).x_label_area_size(TICKS);
        let mut chart = drawn(builder.build_cartesian_2d(x, count..0.0))?;
        let mut mesh = chart.configure_mesh();
        mesh.disable_y_mesh().y_labels(0).x_labels(8).light_line_style(TRANSPARENT);
        mesh.label_style(SMALL);
        drawn(mesh.x_label_formatter(&|figure| tick(*figure)).draw())?;
        if self.ratios {
            let one = vec![(1.0, 0.0), (1.0, count)];
            drawn(chart.draw_series([PathElement::new(one, BLACK.mix(0.5))]))?;
        }
        for (at, band) in (0_u32..).zip(&self.bands) {
            let (y, down) = (f64::from(at) + 0.5, i32::try_from(TITLE + ROW * at + ROW / 2)?);
            write(area, [12, down], 12, HPos::Left, &cut(&band.label))?;
            let right = WIDTH - RIGHT + 12;
            write(area, [i32::try_from(right)?, down], 12, HPos::Left, &band.told)?;
            let Some(figure) = band.figure else { continue };
            if bars {
                let bar = Rectangle::new(
                    [(0.0, y - 0.3), (figure, y + 0.3)],
                    band.colour.mix(0.55).filled(),
                );
                drawn(chart.draw_series([bar]))?;
            } else {
                drawn(chart.draw_series([Circle::new((figure, y), 4, band.colour.filled())]))?;
            }
            let round = |figure: &f64| Circle::new((*figure, y), 1, BLACK.mix(0.35).filled());
            drawn(chart.draw_series(band.rounds.iter().map(round)))?;
            drawn(chart.draw_series(band.ci.map(|ci| interval(ci, y))))?;
        }
        Ok(())
    }
}

/// A horizontal interval with ends.
fn interval([low, high]: [f64; 2], y: f64) -> PathElement<(f64, f64)> {
    let (above, below) = (y - 0.2, y + 0.2);
    let path = vec![(low, above), (low, below), (low, y), (high, y), (high, above), (high, below)];
    PathElement::new(path, BLACK)
}

/// Ends of an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Axis {
    Linear(f64, f64),
    Logarithmic(f64, f64),
}

impl Axis {
    /// An axis for figures of one unit: linear from zero, or logarithmic where they span decades, and for ratios.
    fn of(figures: impl Iterator<Item = f64>, ratios: bool) -> Axis {
        let fit = |figure: &f64| figure.is_finite() && (!ratios || *figure > 0.0);
        let [low, high] = range(figures.filter(fit));
        if ratios || (low > 0.0 && high / low > DECADES) {
            return Axis::Logarithmic(low / 1.3, high * 1.3);
        }
        let (low, high) = (low.min(0.0), high.max(0.0));
        Axis::Linear(low, if high > low { high } else { low + 1.0 })
    }
}

/// Smallest and largest; zeros if there are none.
fn range(figures: impl Iterator<Item = f64>) -> [f64; 2] {
    let least = |found: Option<[f64; 2]>, figure: f64| {
        Some(found.map_or([figure; 2], |[low, high]| [low.min(figure), high.max(figure)]))
    };
    figures.fold(None, least).unwrap_or_default()
}

/// A tick's figure in few letters.
fn tick(figure: f64) -> String {
    let (size, unit) = match figure.abs() {
        size if size >= 1e9 => (1e9, "G"),
        size if size >= 1e6 => (1e6, "M"),
        size if size >= 1e4 => (1e3, "k"),
        _ => (1.0, ""),
    };
    let text = format!("{:.6}", figure / size);
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

/// A label, cut to what fits.
fn cut(text: &str) -> String {
    match text.chars().count() <= LETTERS {
        true => text.to_owned(),
        false => text.chars().take(LETTERS - 1).chain(['…']).collect(),
    }
}

/// Writes text at a pixel, without characters that XML 1.0 forbids.
fn write(area: &Area<'_>, [x, y]: [i32; 2], size: u32, side: HPos, text: &str) -> Result<()> {
    let style = ("sans-serif", f64::from(size) * 1.24).into_text_style(area);
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    drawn(area.draw_text(&text, &style.pos(Pos::new(side, VPos::Center)), (x, y)))
}

/// The library's errors borrow what is drawn.
fn drawn<T, E: std::fmt::Display>(result: std::result::Result<T, E>) -> Result<T> {
    result.map_err(|error| anyhow!("draw the picture: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::report;

    /// Every element is closed and no attribute is broken: a minimal well-formedness check.
    fn assert_well_formed(svg: &str) {
        let mut open: Vec<&str> = vec![];
        for part in svg.split('<').skip(1) {
            let (tag, _) = part.split_once('>').unwrap();
            assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
            match tag.strip_prefix('/') {
                Some(name) => assert_eq!(open.pop(), Some(name)),
                None if tag.ends_with('/') => {}
                None => open.push(tag.split(' ').next().unwrap()),
            }
        }
        assert!(open.is_empty(), "{open:?}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert!(!svg.contains(|c: char| c.is_control() && c != '\n'), "{svg}");
    }

    #[test]
    fn every_measured_row_is_drawn_and_what_is_not_shown_is_told() {
        let svg = report().svg().unwrap();
        assert_well_formed(&svg);
        assert!(svg.contains("\nup: netloom\n") && svg.contains("\n2.000 s\n"), "{svg}");
        assert!(!svg.contains("up: mininet"), "{svg}");
        assert!(svg.contains("\nnot shown\n") && svg.contains("\nup_vs_mininet\n"), "{svg}");
        assert_eq!(svg.matches("r=\"1\"").count(), 3);
    }

    #[test]
    fn text_cannot_break_out() {
        let mut report = report();
        report.measured("<a & \"b\">\u{7}", "x", "µs", &[1.0, 100.0, 100_000.0], "&");
        report.point("<t>", ["x\"", "y&"], "<w>", 1.0, &[2.0; 5]);
        let svg = report.svg().unwrap();
        assert_well_formed(&svg);
        assert!(svg.contains("&lt;a &amp; &quot;b&quot;&gt;"), "{svg}");
    }

    #[test]
    fn extreme_and_empty_reports_are_drawn() {
        assert_well_formed(&Report::default().svg().unwrap());
        let mut report = Report::default();
        report.measured("zero", "x", "%", &[0.0; 5], "");
        report.measured("negative", "x", "us", &[-3.0, 1e9, 0.0], "");
        report.measured("decades", "x", "ms", &[1e-9, 1e9, 1.0], "");
        report.point("one", ["x", "y"], "x", 0.0, &[0.0; 5]);
        report.point("equal", ["x", "y"], "x", 1e9, &[1e9; 5]);
        let svg = report.svg().unwrap();
        assert_well_formed(&svg);
        assert!(svg.contains("\nzero: x\n"), "{svg}");
    }

    #[test]
    fn figures_start_at_zero_decades_are_logarithmic_and_ratios_are_around_one() {
        let axis = |figures: &[f64], ratios| Axis::of(figures.iter().copied(), ratios);
        assert_eq!(axis(&[2.0, 10.0], false), Axis::Linear(0.0, 10.0));
        assert_eq!(axis(&[-2.0, -1.0], false), Axis::Linear(-2.0, 0.0));
        assert_eq!(axis(&[], false), Axis::Linear(0.0, 1.0));
        assert_eq!(axis(&[0.01, 1000.0], false), Axis::Logarithmic(0.01 / 1.3, 1300.0));
        assert_eq!(axis(&[0.5, 1.0, -1.0, 0.0], true), Axis::Logarithmic(0.5 / 1.3, 1.3));
    }

    #[test]
    fn ticks_and_labels_are_short() {
        let text = [0.0, 0.05, 2.5, 1000.0, 20_000.0, 3e6, 1e10].map(tick);
        assert_eq!(text, ["0", "0.05", "2.5", "1000", "20k", "3M", "10G"]);
        assert_eq!(cut(&"é".repeat(66)).chars().count(), 66);
        assert!(cut(&"é".repeat(67)).ends_with("é…"));
    }
}
