//! `logs`: what a node's programs wrote.

use std::time::Duration;

use anyhow::Result;
use netloom_node::log::Record;

use crate::flags::Logs;
use crate::{labs, output};

/// How long the lab is asked to wait for something new.
const WAIT: Duration = Duration::from_secs(5);

/// `netloom logs`
pub(crate) fn logs(lab: Option<&str>, args: &Logs) -> Result<i32> {
    let client = labs::connect(lab)?;
    let mut seen = 0;
    let mut wait = Duration::ZERO;
    loop {
        let records = match client.node_log(&args.node, seen, wait) {
            // The lab was taken down while its log was followed.
            Err(netloom_api::Error::NotRunning(_) | netloom_api::Error::Closed { .. })
                if args.follow && seen > 0 =>
            {
                return Ok(0);
            }
            other => other?,
        };
        for record in records {
            seen = record.time_ns;
            output::print(&line(&record, args.timestamps))?;
        }
        if !args.follow {
            return Ok(0);
        }
        wait = WAIT;
    }
}

fn line(record: &Record, timestamps: bool) -> String {
    if timestamps {
        format!("{} {}\n", utc(record.time_ns), record.text)
    } else {
        format!("{}\n", record.text)
    }
}

/// `2026-01-31T12:00:00.123456Z`, by the civil calendar from days (Howard Hinnant,
/// "chrono-Compatible Low-Level Date Algorithms").
fn utc(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let z = days + 719_468;
    let era = z / 146_097;
    let day_of_era = z % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let mp = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * mp + 2) / 5 + 1;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (h, m, s) = (second / 3600, second / 60 % 60, second % 60);
    let micros = ns / 1000 % 1_000_000;
    format!("{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}.{micros:06}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_civil() {
        assert_eq!(utc(0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(utc(951_782_400_000_001_000), "2000-02-29T00:00:00.000001Z");
        assert_eq!(utc(4_102_444_799_999_999_999), "2099-12-31T23:59:59.999999Z");
    }
}
