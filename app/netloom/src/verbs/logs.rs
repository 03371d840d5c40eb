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
        format!("{} {}\n", output::utc(record.time_ns), record.text)
    } else {
        format!("{}\n", record.text)
    }
}
