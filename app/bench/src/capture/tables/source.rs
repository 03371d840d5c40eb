//! The source's tables 4.1 to 4.9: percent of frames captured, on its machine (Xeon E5-2630, 82599ES, RAID 0 of nine
//! disks, virtual machines of KVM with three cores), at 14.88 Mpps of 64 bytes, and of a trace with a mean of 965 bytes
//! at top speed.

use crate::Report;

/// A table: its title, its columns, and a line of figures for each system.
struct Table {
    title: &'static str,
    columns: &'static [&'static str],
    lines: &'static [(&'static str, &'static [f64])],
}

const NICS: &[&str] = &[
    "64 bytes, 1 interface",
    "trace, 1 interface",
    "64 bytes, 2 interfaces",
    "trace, 2 interfaces",
];
const STORED: &[&str] = &["64 bytes, 1 interface", "trace, 1 interface"];
const RAIDS: &[&str] = &[
    "64 bytes, RAID passed through",
    "trace, RAID passed through",
    "64 bytes, RAID by VirtIO",
    "trace, RAID by VirtIO",
];

const TABLES: [Table; 9] = [
    Table {
        title: "4.1: bare metal, not stored",
        columns: NICS,
        lines: &[
            ("ixgbe", &[2.7, 100.0, 3.7, 93.55]),
            ("PF_RING", &[100.0, 100.0, 76.1, 100.0]),
            ("HPCAP", &[97.9, 100.0, 97.8, 100.0]),
            ("DPDK", &[100.0, 100.0, 100.0, 100.0]),
        ],
    },
    Table {
        title: "4.2: bare metal, stored",
        columns: STORED,
        lines: &[("ixgbe", &[10.3, 91.9]), ("HPCAP", &[95.7, 100.0]), ("DPDK", &[95.8, 100.0])],
    },
    Table {
        title: "4.3: interface passed through, not stored",
        columns: NICS,
        lines: &[
            ("ixgbe", &[1.9, 62.7, 2.5, 41.8]),
            ("PF_RING", &[99.8, 100.0, 75.2, 100.0]),
            ("HPCAP", &[85.2, 100.0, 33.6, 99.9]),
            ("DPDK", &[100.0, 100.0, 100.0, 100.0]),
        ],
    },
    Table {
        title: "4.4: interface passed through, stored",
        columns: RAIDS,
        lines: &[("HPCAP", &[82.2, 100.0, 82.8, 100.0]), ("DPDK", &[97.6, 100.0, 95.3, 100.0])],
    },
    // The first figure of ixgbevf is printed as ">0.1".
    Table {
        title: "4.5: virtual function, 64 bytes, not stored",
        columns: &["generator ixgbe", "generator DPDK"],
        lines: &[("ixgbevf", &[0.1, 1.0]), ("HPCAPvf", &[36.2, 82.7]), ("DPDK", &[37.6, 100.0])],
    },
    Table {
        title: "4.6: stations spread over 3 virtual machines",
        columns: &["1 station", "2 stations", "3 stations"],
        lines: &[("all", &[99.5, 99.4, 99.5])],
    },
    Table {
        title: "4.7: virtual functions that see all frames",
        columns: &[
            "64 bytes, 1 function",
            "trace, 1 function",
            "64 bytes, 2 functions",
            "trace, 2 functions",
            "64 bytes, 2 functions in 2 machines",
            "trace, 2 functions in 2 machines",
        ],
        lines: &[
            ("ixgbevf", &[1.0, 34.2, 1.0, 42.4, 0.9, 14.8]),
            ("HPCAPvf", &[82.7, 100.0, 13.0, 100.0, 44.1, 82.7]),
            ("DPDK", &[100.0, 100.0, 100.0, 100.0, 50.8, 83.0]),
        ],
    },
    Table {
        title: "4.8: virtual function, stored",
        columns: RAIDS,
        lines: &[("HPCAPvf", &[82.6, 100.0, 82.3, 100.0]), ("DPDK", &[94.2, 100.0, 68.2, 100.0])],
    },
    Table {
        title: "4.9: mirror port between virtual machines, stored",
        columns: &["64 bytes, node 0", "trace, node 0", "64 bytes, node 1", "trace, node 1"],
        lines: &[("HPCAPvf", &[30.7, 48.0, 47.4, 76.7]), ("DPDK", &[22.8, 38.4, 50.4, 76.8])],
    },
];

/// Adds the source's tables.
pub(in crate::capture) fn source(report: &mut Report) {
    for table in &TABLES {
        for (who, figures) in table.lines {
            for (column, figure) in table.columns.iter().zip(*figures) {
                let what = format!("captured, table {}, {column}", table.title);
                report.of_source(&what, &format!("source: {who}"), "%", *figure);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sources_tables_are_whole() {
        for table in &TABLES {
            for (who, figures) in table.lines {
                assert_eq!(figures.len(), table.columns.len(), "{}: {who}", table.title);
                assert!(figures.iter().all(|figure| (0.0..=100.0).contains(figure)));
            }
        }
        let mut report = Report::default();
        source(&mut report);
        assert_eq!(report.rows.len(), 16 + 6 + 16 + 8 + 6 + 3 + 18 + 8 + 8);
    }
}
