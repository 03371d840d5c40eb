//! The source's own figures: IOVisor-PNPM (Telecom Italia, Politecnico di Torino, 2017) on a Xeon E5-2690v3
//! with 10 Gb/s Ethernet and all cores in use. Only these points of its curves are known as numbers.

use crate::Report;
use crate::report::Row;

/// Packet sizes in bytes, and loss-free rates in millions per second, by program.
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

/// Label of the rows.
const WHO: &str = "source: IOVisor-PNPM";
