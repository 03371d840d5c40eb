//! `why`: where packets of one node to another are lost, and what would let them pass.

pub(crate) mod state;
mod trial;

use anyhow::Result;
use netloom_lab::calls;
use netloom_lab::launch::Launch;
use netloom_lab::view::AskWhy;
use netloom_why::Report;
use serde::Serialize;

use self::trial::{Finding, Trial};

use super::losses;
use crate::flags::Why;
use crate::labs;
use crate::output::{print, print_json};

/// `netloom why`
pub(crate) fn why(lab: Option<&str>, args: &Why) -> Result<i32> {
    let (Some(from), Some(to)) = (&args.from, &args.to) else {
        return losses::show(lab, args.last, args.json);
    };
    // Fork the spawner of a copy while this process is small.
    let launch = args.attempt.then(Launch::begin).transpose()?;
    let family = match (args.ipv4, args.ipv6) {
        (true, _) => Some(4),
        (_, true) => Some(6),
        _ => None,
    };
    let (protocol, port) = args.flow;
    let last_ms = args.last.map(|last| u64::try_from(last.as_millis()).unwrap_or(u64::MAX));
    let (since_ns, until_ns) = (args.since, args.until);
    let (from, to) = (from.clone(), to.clone());
    let request = AskWhy { from, to, protocol, port, family, last_ms, since_ns, until_ns };
    let folder = labs::chosen(lab)?;
    let report: Report =
        labs::connect_to(&folder)?.call(&calls::Why { request: request.clone() })?;
    if let Some(launch) = launch {
        let trial = trial::attempt(launch, folder.name(), &request, &report)?;
        if args.json {
            print_json(&Tried { report: &report, tried: &trial })?;
        } else {
            print(&(netloom_why::text(&report) + &trial.text()))?;
        }
        return Ok(i32::from(!report.verdict.arrives() && trial.found != Finding::Helps));
    }
    if args.json {
        print_json(&report)?;
    } else {
        print(&netloom_why::text(&report))?;
    }
    Ok(i32::from(!report.verdict.arrives()))
}

/// A report with what came of a trial.
#[derive(Serialize)]
struct Tried<'a> {
    #[serde(flatten)]
    report: &'a Report,
    tried: &'a Trial,
}
