//! The source's figures of its platforms, on its machines: Xen 4.2 (para-virtual), KVM, and OpenFlow.

use crate::report::Report;

/// What, whose, unit, figure.
const FIGURES: [(&str, &str, &str, f64); 11] = [
    ("1500-byte frames, to the router", "source: Xen", "Mb/s", 924.0),
    ("1500-byte frames, routed", "source: Xen", "Mb/s", 553.0),
    ("CPU of the shared part, frames between two guests", "source: Xen, dom0", "%", 20.0),
    ("pi, 2^25 digits, 16 processors", "source: Xen, 30 GB", "s", 2050.0),
    ("pi, 2^25 digits, 16 processors", "source: Xen, 2 GB", "s", 2004.0),
    ("pi, 2^25 digits, 16 processors", "source: KVM, 30 GB", "s", 1055.0),
    ("pi, 2^25 digits, 16 processors", "source: KVM, 2 GB", "s", 1048.0),
    ("STREAM triad", "source: Xen, 30 GB", "MB/s", 8302.0),
    ("STREAM triad", "source: Xen, 2 GB", "MB/s", 10_542.0),
    ("STREAM triad", "source: KVM, 30 GB", "MB/s", 14_162.0),
    ("STREAM triad", "source: KVM, 2 GB", "MB/s", 15_427.0),
];

pub(super) fn rows(report: &mut Report) {
    for (what, who, unit, figure) in FIGURES {
        report.of_source(what, who, unit, figure);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_shown_as_the_sources() {
        let mut report = Report::default();
        rows(&mut report);
        assert_eq!(report.rows.len(), FIGURES.len());
        assert!(report.rows.iter().all(|row| row.rounds == 0 && row.who.starts_with("source")));
    }
}
