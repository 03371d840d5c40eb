//! The source's own figures: IOVisor-PNPM (Telecom Italia, Politecnico di Torino, 2017) on a Xeon E5-2690v3 with
//! 10 Gb/s Ethernet, all its cores at once. Of its curves only those points are known as numbers.

use crate::{Report, Row};

/// Bytes of packets, and millions of them a second without a loss, by program.
const RATES: [(u8, [(u16, f64); 3]); 2] =
    [(2, [(64, 2.6), (250, 2.4), (500, 2.3)]), (3, [(64, 2.3), (250, 2.0), (500, 1.8)])];

/// Adds them to the rows.
pub(super) fn rows(report: &mut Report) {
    for (program, rates) in RATES {
        for (bytes, mpps) in rates {
            let what = format!("{bytes} bytes, all cores, program {program}");
            report.of_source(&what, WHO, "Mpps", mpps);
        }
    }
    report.of_source("many cores by one, at most", WHO, "times", 5.0);
    report.of_source("throughput from 500 bytes on, about", WHO, "Gb/s", 10.0);
    report.rows.push(Row {
        what: "sampling by all packets".to_owned(),
        who: WHO.to_owned(),
        note: "the source's words: slower, since every packet was stamped all the same".to_owned(),
        ..Row::default()
    });
}

/// Whose they are.
const WHO: &str = "source: IOVisor-PNPM";
