//! The source's tables 2.1 and 2.2: VDE and gvde between pairs of virtual machines, on its machine.

use crate::report::Report;

/// A row of both tables.
struct Line {
    stations: usize,
    /// Mb/s, percentage of datagrams lost, CPU percentage of the stations, of the switch.
    vde: [f64; 4],
    /// The same for gvde, except its switch, which takes no part.
    gvde: [f64; 3],
}

const LINES: [Line; 4] = [
    Line { stations: 2, vde: [390.0, 0.45, 100.0, 24.0], gvde: [420.0, 2.4, 100.0] },
    Line { stations: 4, vde: [540.0, 0.37, 90.0, 25.0], gvde: [560.0, 0.65, 100.0] },
    Line { stations: 6, vde: [550.0, 0.35, 88.0, 26.0], gvde: [720.0, 0.77, 90.0] },
    Line { stations: 8, vde: [555.0, 0.20, 76.0, 26.0], gvde: [720.0, 1.0, 77.0] },
];

/// Gb/s carried by the source's own switch for this many stations; 0 for other numbers.
pub(super) fn most(stations: usize) -> f64 {
    let line = LINES.iter().find(|line| line.stations == stations);
    line.map_or(0.0, |line| line.gvde[0].max(line.vde[0]) / 1e3)
}

pub(crate) fn rows(report: &mut Report) {
    for line in &LINES {
        let n = line.stations;
        let mut add = |what: &str, who: &str, unit: &str, figure: f64| {
            report.of_source(
                &format!("{what}, {n} stations"),
                &format!("source: {who}"),
                unit,
                figure,
            );
        };
        add("TCP sum", "VDE", "Mb/s", line.vde[0]);
        add("TCP sum", "gvde", "Mb/s", line.gvde[0]);
        add("UDP lost", "VDE", "%", line.vde[1]);
        add("UDP lost", "gvde", "%", line.gvde[1]);
        add("CPU of stations", "VDE", "%", line.vde[2]);
        add("CPU of stations", "gvde", "%", line.gvde[2]);
        add("CPU of switch", "VDE", "%", line.vde[3]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_shown_as_the_sources() {
        assert!((most(8) - 0.72).abs() < 1e-9 && most(3).abs() < 1e-9);
        let mut report = Report::default();
        rows(&mut report);
        assert_eq!(report.rows.len(), 28);
        assert!(report.rows.iter().all(|row| row.rounds == 0 && row.note.contains("source")));
    }
}
