//! Figures over a parameter: a line with intervals for each candidate.

use std::fmt::Write as _;

use super::axis::{Axis, tick_text};
use super::{Canvas, LEFT, RIGHT, colour};
use crate::report::{Curve, Point};

/// Height of the part in which lines are drawn, in pixels, and its left edge.
const HEIGHT: f64 = 220.0;
const START: f64 = 70.0;
/// Left edge of the legend.
const LEGEND: f64 = RIGHT - LEFT + START + 60.0;

/// Draws a curve below what was drawn before.
pub(super) fn draw(canvas: &mut Canvas, curve: &Curve, who: &[&str]) {
    canvas.title(&format!("{}: {} by {}", curve.title, curve.y, curve.x));
    let points = || curve.lines.values().flatten();
    let (top, bottom) = (canvas.y + 14.0, canvas.y + 14.0 + HEIGHT);
    let x = Axis::parameter(points().map(|point| point.x), START, START + RIGHT - LEFT);
    let ends = points().flat_map(|p| [p.y].into_iter().chain(p.ci95.into_iter().flatten()));
    let y = Axis::figures(ends, bottom, top);
    for tick in y.ticks() {
        canvas.y = y.at(tick) + 4.0;
        canvas.text(START - 8.0, "small right", &tick_text(tick));
        canvas.line([x.at(f64::MIN), y.at(tick)], [x.at(f64::MAX), y.at(tick)], "grid");
    }
    canvas.y = bottom + 16.0;
    for tick in x.ticks() {
        canvas.text(x.at(tick), "small middle", &tick_text(tick));
    }
    for (at, (name, line)) in (0_u32..).zip(&curve.lines) {
        let class = colour(name, who);
        one_line(canvas, line, [&x, &y], &class);
        canvas.y = top + 18.0 * f64::from(at) + 4.0;
        canvas.dot(LEGEND, canvas.y - 4.0, 4.0, &class);
        canvas.text(LEGEND + 10.0, "", name);
    }
    canvas.y = bottom + 20.0;
}

fn one_line(canvas: &mut Canvas, line: &[Point], [x, y]: [&Axis; 2], class: &str) {
    let mut path = String::new();
    for (at, point) in line.iter().enumerate() {
        let letter = if at == 0 { 'M' } else { 'L' };
        // Writing into a String cannot fail.
        let _ = write!(path, "{letter}{:.1} {:.1}", x.at(point.x), y.at(point.y));
        if let Some([low, high]) = point.ci95 {
            canvas.line([x.at(point.x), y.at(low)], [x.at(point.x), y.at(high)], "interval");
        }
        canvas.dot(x.at(point.x), y.at(point.y), 3.0, class);
    }
    let _ = writeln!(canvas.out, "<path class=\"{class} line\" d=\"{path}\"/>");
}

#[cfg(test)]
mod tests {
    use crate::Report;

    #[test]
    fn each_candidate_has_a_line_through_its_points() {
        let mut report = Report::default();
        for (who, y) in [("netloom", 9.0), ("peer", 3.0)] {
            for x in [2.0, 4.0, 8.0] {
                report.point("TCP", ["stations", "Gb/s"], who, x, &[y; 5]);
            }
        }
        let svg = report.svg();
        assert_eq!(svg.matches(" line\" d=\"M").count(), 2);
        assert!(svg.contains("TCP: Gb/s by stations") && svg.contains(">peer<"), "{svg}");
    }
}
