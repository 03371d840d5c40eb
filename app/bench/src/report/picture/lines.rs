//! Figures over a parameter: a line with intervals for each candidate.

use anyhow::Result;
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::{Area, Axis, DECADES, RIGHT, SMALL, WIDTH, colour, drawn, range, tick, write};
use crate::report::{Curve, Point};

/// Height of a curve with its title and its ticks, in pixels.
pub(super) const HEIGHT: u32 = 300;
/// Width of the names beside the lines.
const LEGEND: u32 = 330;

/// Draws a curve.
pub(super) fn draw(area: &Area<'_>, curve: &Curve, who: &[&str]) -> Result<()> {
    let points = || curve.lines.values().flatten();
    let [low, high] = range(points().map(|point| point.x));
    let end = if high > low { high } else { low + 1.0 };
    let ends = points().flat_map(|p| [p.y].into_iter().chain(p.ci95.into_iter().flatten()));
    let y = Axis::of(ends, false);
    match (low > 0.0 && high / low > DECADES / 10.0, y) {
        (false, Axis::Linear(from, to)) => on(area, curve, who, low..end, from..to),
        (true, Axis::Linear(from, to)) => on(area, curve, who, (low..end).log_scale(), from..to),
        (false, Axis::Logarithmic(from, to)) => {
            on(area, curve, who, low..end, (from..to).log_scale())
        }
        (true, Axis::Logarithmic(from, to)) => {
            on(area, curve, who, (low..end).log_scale(), (from..to).log_scale())
        }
    }
}

fn on<X, Y>(area: &Area<'_>, curve: &Curve, who: &[&str], x: X, y: Y) -> Result<()>
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let title = format!("{}: {} by {}", curve.title, curve.y, curve.x);
    write(area, [12, 22], 14, HPos::Left, &title)?;
    let mut builder = ChartBuilder::on(area);
    builder.margin_top(40).margin_left(10).margin_right(LEGEND + RIGHT);
    let mut chart =
        drawn(builder.x_label_area_size(24).y_label_area_size(60).build_cartesian_2d(x, y))?;
    let mut mesh = chart.configure_mesh();
    mesh.light_line_style(TRANSPARENT).x_labels(8).y_labels(8).label_style(SMALL);
    let text = |figure: &f64| tick(*figure);
    drawn(mesh.x_label_formatter(&text).y_label_formatter(&text).draw())?;
    let left = i32::try_from(WIDTH - LEGEND - RIGHT + 20)?;
    for (at, (name, line)) in (0_i32..).zip(&curve.lines) {
        let colour = colour(name, who);
        let place = |point: &Point| (point.x, point.y);
        let path = line.iter().map(place).collect::<Vec<_>>();
        drawn(chart.draw_series([PathElement::new(path, colour.stroke_width(2))]))?;
        let dots = line.iter().map(|point| Circle::new(place(point), 3, colour.filled()));
        drawn(chart.draw_series(dots))?;
        let bars = line.iter().filter_map(|point| {
            let [low, high] = point.ci95?;
            Some(PathElement::new(vec![(point.x, low), (point.x, high)], BLACK))
        });
        drawn(chart.draw_series(bars))?;
        let down = 50 + 18 * at;
        drawn(area.draw(&Circle::new((left, down), 4, colour.filled())))?;
        write(area, [left + 10, down], 12, HPos::Left, name)?;
    }
    Ok(())
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
        let svg = report.svg().unwrap();
        assert_eq!(svg.matches("stroke-width=\"2\"").count(), 2);
        assert!(svg.contains("TCP: Gb/s by stations") && svg.contains("\npeer\n"), "{svg}");
    }
}
