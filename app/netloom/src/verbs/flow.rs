//! `flow`: shows and changes what OpenFlow switches do.
//!
//! Requests go over OpenFlow itself, to a switch of the lab at the socket in its folder, or to any other. Only traces
//! go through the lab. [`lines`] reads texts with their places, [`reasons`] has refusals in words, [`text`] formats
//! output.

mod lines;
mod monitor;
mod names;
mod reasons;
mod text;

use netloom_ofconn::client::{Client, Refusal};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use netloom_flow::application::Target;
use netloom_flow::control::PortKey;
use netloom_flow::control::requests::TraceWhat;
use netloom_lab::calls::{ShowOpenflow, TraceFrame};
use netloom_openflow::flow::{FlowCommand, TABLE_ALL};
use netloom_openflow::group::GroupCommand;
use netloom_openflow::meter::{METER_ALL, MeterCommand};
use netloom_openflow::multipart::{FlowRequest, Reply, Request};
use netloom_openflow::port::PortNumber;
use netloom_openflow::{FlowMod, Match, Message, Version, text as syntax};
use serde::Serialize;

use self::lines::Line;
use crate::Usage;
use crate::flags::{
    Flow, FlowAdd, FlowDel, FlowDump, FlowGroups, FlowMeters, FlowMod as Modify, FlowTrace,
    GroupChange, MeterChange, OpenFlow, Spoken,
};
use crate::labs;
use crate::output::{print, print_json};

/// How long a switch of the lab may take to be there again, and the pause between two looks.
const AGAIN: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(20);

/// `netloom flow`
pub(crate) fn flow(lab: Option<&str>, verb: Flow) -> Result<i32> {
    match verb {
        Flow::Add(args) => add(lab, &args),
        Flow::Mod(args) => modify(lab, &args),
        Flow::Del(args) => delete(lab, &args),
        Flow::Dump(args) => dump(lab, &args).map(|()| 0),
        Flow::Groups(args) => groups(lab, &args),
        Flow::Meters(args) => meters(lab, &args),
        Flow::Ports(args) => ports(lab, &args.spoken).map(|()| 0),
        Flow::Trace(args) => trace(lab, &args).map(|()| 0),
        Flow::Monitor(args) => monitor::monitor(connect(lab, &args.spoken)?, &args),
    }
}

/// Connects to the switch.
fn connect(lab: Option<&str>, spoken: &Spoken) -> Result<Client> {
    let versions = match spoken.openflow {
        None => vec![Version::V10, Version::V13],
        Some(OpenFlow::V10) => vec![Version::V10],
        Some(OpenFlow::V13) => vec![Version::V13],
    };
    let until = Instant::now() + AGAIN;
    loop {
        match Client::connect(&target(lab, &spoken.switch)?, &versions) {
            // The lab starts a process that was killed again.
            Err(e) if is_of_lab(&spoken.switch) && e.is_of_nobody() && Instant::now() < until => {
                std::thread::sleep(LOOK);
            }
            connected => return Ok(connected?),
        }
    }
}

/// Names of switches have no colon.
fn is_of_lab(switch: &str) -> bool {
    !switch.contains(':')
}

/// Where the switch listens.
fn target(lab: Option<&str>, switch: &str) -> Result<Target> {
    if !is_of_lab(switch) {
        return switch.parse().map_err(|_| {
            Usage(format!("{switch}: none of SWITCH, unix:PATH and tcp:ADDRESS[:PORT]")).into()
        });
    }
    let folder = labs::chosen(lab)?;
    if let Some((real, slice)) = switch.split_once('@') {
        let path = folder.virtual_socket(slice, real);
        if !path.exists() {
            bail!(
                "{switch}: slice {slice:?} has no switch {real:?} now; `netloom slice show` lists them"
            );
        }
        return Ok(Target::Unix(path));
    }
    let path = folder.flow_socket(switch);
    if folder.is_scope() || !path.exists() {
        // The plane of a router has a name of its own; else the lab knows why.
        let shown = labs::connect_to(&folder)?.call(&ShowOpenflow { switch: switch.into() })?;
        let plane = folder.flow_socket(&shown.name);
        if shown.name != switch && plane.exists() {
            return Ok(Target::Unix(plane));
        }
        bail!("switch {switch:?}: it does not listen at {}", path.display());
    }
    Ok(Target::Unix(path))
}

/// What became of changes, as JSON.
#[derive(Debug, Serialize)]
struct Outcome {
    /// How many the switch took.
    done: usize,
    refused: Vec<RefusedChange>,
}

#[derive(Debug, Serialize)]
struct RefusedChange {
    /// Where it was read.
    place: String,
    text: String,
    /// By its name in the specification.
    reason: String,
    /// In words.
    words: String,
}

/// Makes changes, each read from a line, and tells which were refused; returns the exit code.
fn change(
    client: &mut Client,
    json: bool,
    lines: &[Line],
    read: impl Fn(&str, Version) -> Result<Message, syntax::TextError>,
) -> Result<i32> {
    let names = names::of(client, lines)?;
    let version = client.version();
    let (mut changes, mut wrong) = (Vec::with_capacity(lines.len()), Vec::new());
    for line in lines {
        let read = names
            .numbered(&line.text)
            .and_then(|text| read(&text, version).map_err(|e| lines::told(&e)));
        match read {
            Ok(change) => changes.push(change),
            Err(e) => wrong.push(format!("{}: {e}", line.place)),
        }
    }
    if !wrong.is_empty() {
        // Nothing is changed then.
        return Err(Usage(wrong.join("\n")).into());
    }
    let refused = client.change(changes)?;
    if json {
        print_json(&outcome(lines, &refused))?;
    } else {
        for refusal in &refused {
            let (place, text) = lines::of(lines, refusal.at);
            tell_line!(
                "netloom: {place}: the switch refuses it: {}: {text}",
                refusal_words(refusal)
            );
        }
    }
    Ok(i32::from(!refused.is_empty()))
}

fn refusal_words(refusal: &Refusal) -> String {
    match reasons::words(&refusal.reason) {
        Some(words) => format!("{words} ({})", refusal.reason),
        None => refusal.reason.clone(),
    }
}

fn outcome(lines: &[Line], refused: &[Refusal]) -> Outcome {
    let told = |refusal: &Refusal| {
        let (place, text) = lines::of(lines, refusal.at);
        let words = reasons::words(&refusal.reason).unwrap_or_default().to_owned();
        RefusedChange { place, text, reason: refusal.reason.clone(), words }
    };
    Outcome { done: lines.len() - refused.len(), refused: refused.iter().map(told).collect() }
}

fn add(lab: Option<&str>, args: &FlowAdd) -> Result<i32> {
    let lines = lines::read(&args.flows, args.file.as_deref(), "flow")?;
    let mut client = connect(lab, &args.spoken)?;
    change(&mut client, args.spoken.json, &lines, |text, version| {
        syntax::flow(FlowCommand::Add, text, version).map(Message::FlowMod)
    })
}

fn modify(lab: Option<&str>, args: &Modify) -> Result<i32> {
    let lines = lines::read(&args.flows, args.file.as_deref(), "flow")?;
    let mut client = connect(lab, &args.spoken)?;
    let command = if args.strict { FlowCommand::ModifyStrict } else { FlowCommand::Modify };
    change(&mut client, args.spoken.json, &lines, |text, version| {
        syntax::flow(command, text, version).map(Message::FlowMod)
    })
}

fn delete(lab: Option<&str>, args: &FlowDel) -> Result<i32> {
    let lines = match args.all {
        true => vec![Line { place: "--all".into(), text: String::new() }],
        false => lines::read(&args.flows, args.file.as_deref(), "match")?,
    };
    let mut client = connect(lab, &args.spoken)?;
    let command = if args.strict { FlowCommand::DeleteStrict } else { FlowCommand::Delete };
    change(&mut client, args.spoken.json, &lines, |text, version| {
        let mut change = syntax::flow(command, text, version)?;
        // In OpenFlow 1.3 a deletion is of one table unless it says all; in 1.0 there is one to
        // control.
        if version == Version::V13 && !lines::names_table(text) {
            change.table = TABLE_ALL;
        }
        Ok(Message::FlowMod(change))
    })
}

fn dump(lab: Option<&str>, args: &FlowDump) -> Result<()> {
    let mut client = connect(lab, &args.spoken)?;
    let wanted = match &args.matching {
        None => FlowRequest::new(Match::default()),
        Some(matching) => {
            let line = [Line { place: "match".into(), text: matching.clone() }];
            let text = names::of(&mut client, &line)?.numbered(matching).map_err(Usage)?;
            wanted(&text, client.version())?
        }
    };
    let wanted = match client.version() {
        Version::V10 => FlowRequest { matching: Match::V10(wanted.matching.to_10().0), ..wanted },
        Version::V13 => wanted,
    };
    let Reply::Flow(mut flows) = client.request(Request::Flow(wanted))? else {
        bail!("unexpected reply from the switch");
    };
    flows.sort_by_key(|flow| (flow.table, std::cmp::Reverse(flow.priority)));
    if args.spoken.json {
        return print_json(&flows.iter().map(text::flow_json).collect::<Vec<_>>());
    }
    print(&if args.plain { text::plain(&flows) } else { text::flows(&flows) })
}

/// Which entries are asked for, from a match.
fn wanted(text: &str, version: Version) -> Result<FlowRequest> {
    let read = syntax::flow(FlowCommand::Delete, text, version);
    let change: FlowMod = read.map_err(|e| Usage(format!("match: {}", lines::told(&e))))?;
    Ok(FlowRequest {
        table: if lines::names_table(text) { change.table } else { TABLE_ALL },
        out_port: change.out_port,
        out_group: change.out_group,
        cookie: change.cookie,
        cookie_mask: change.cookie_mask,
        matching: change.matching,
    })
}

fn groups(lab: Option<&str>, args: &FlowGroups) -> Result<i32> {
    let (command, texts) = match &args.change {
        None => return show_groups(lab, &args.spoken).map(|()| 0),
        Some(GroupChange::Add { groups }) => (GroupCommand::Add, groups),
        Some(GroupChange::Mod { groups }) => (GroupCommand::Modify, groups),
        Some(GroupChange::Del { groups }) => (GroupCommand::Delete, groups),
    };
    let lines = lines::read(texts, None, "group")?;
    let mut client = connect(lab, &args.spoken)?;
    needs_13(&client, "groups")?;
    change(&mut client, args.spoken.json, &lines, |text, _| {
        syntax::group(command, text).map(Message::GroupMod)
    })
}

fn show_groups(lab: Option<&str>, spoken: &Spoken) -> Result<()> {
    let mut client = connect(lab, spoken)?;
    needs_13(&client, "groups")?;
    let (Reply::GroupDesc(groups), Reply::GroupStats(stats)) = (
        client.request(Request::GroupDesc)?,
        client.request(Request::GroupStats(netloom_openflow::action::GROUP_ALL))?,
    ) else {
        bail!("unexpected reply from the switch");
    };
    let all = text::Group::all(&groups, &stats);
    if spoken.json { print_json(&all) } else { print(&text::groups(&all)) }
}

fn meters(lab: Option<&str>, args: &FlowMeters) -> Result<i32> {
    let (command, texts) = match &args.change {
        None => return show_meters(lab, &args.spoken).map(|()| 0),
        Some(MeterChange::Add { meters }) => (MeterCommand::Add, meters),
        Some(MeterChange::Mod { meters }) => (MeterCommand::Modify, meters),
        Some(MeterChange::Del { meters }) => (MeterCommand::Delete, meters),
    };
    let lines = lines::read(texts, None, "meter")?;
    let mut client = connect(lab, &args.spoken)?;
    needs_13(&client, "meters")?;
    change(&mut client, args.spoken.json, &lines, |text, _| {
        syntax::meter(command, text).map(Message::MeterMod)
    })
}

fn show_meters(lab: Option<&str>, spoken: &Spoken) -> Result<()> {
    let mut client = connect(lab, spoken)?;
    needs_13(&client, "meters")?;
    let (Reply::MeterConfig(meters), Reply::MeterStats(stats)) = (
        client.request(Request::MeterConfig(METER_ALL))?,
        client.request(Request::MeterStats(METER_ALL))?,
    ) else {
        bail!("unexpected reply from the switch");
    };
    let all = text::Meter::all(&meters, &stats);
    if spoken.json { print_json(&all) } else { print(&text::meters(&all)) }
}

fn needs_13(client: &Client, what: &str) -> Result<()> {
    match client.version() {
        Version::V13 => Ok(()),
        Version::V10 => bail!("OpenFlow 1.0 has no {what}; the switch speaks no later version"),
    }
}

fn ports(lab: Option<&str>, spoken: &Spoken) -> Result<()> {
    let mut client = connect(lab, spoken)?;
    let described = names::ports(&mut client)?;
    let Reply::PortStats(stats) = client.request(Request::PortStats(PortNumber::ANY))? else {
        bail!("unexpected reply from the switch");
    };
    let all = text::Port::all(&described, &stats);
    if spoken.json { print_json(&all) } else { print(&text::ports(&all)) }
}

fn trace(lab: Option<&str>, args: &FlowTrace) -> Result<()> {
    if !is_of_lab(&args.switch) {
        let reason = "only a switch of a lab traces frames; name it without unix: or tcp:";
        return Err(Usage(format!("{}: {reason}", args.switch)).into());
    }
    let what = match (&args.fields, &args.frame, &args.port) {
        (Some(fields), ..) => TraceWhat::Match(fields.clone()),
        (None, Some(hex), Some(port)) => TraceWhat::Frame { port: key(port), hex: hex.clone() },
        _ => return Err(Usage("give FIELDS, or --frame and --port".into()).into()),
    };
    let client = labs::connect(lab)?;
    let traced = client.call(&TraceFrame { switch: args.switch.clone().into(), what })?;
    if args.json {
        return print_json(&traced);
    }
    // For the names of ports, which the trace has by number.
    let shown = client
        .call(&ShowOpenflow { switch: args.switch.clone().into() })
        .context("names of ports")?;
    print(&text::trace(&traced, &shown))
}

/// A port: digits are its number.
fn key(text: &str) -> PortKey {
    text.parse().map_or_else(|_| PortKey::Name(text.to_owned()), PortKey::Number)
}
