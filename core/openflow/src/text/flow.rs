//! Flow modifications as text.

use super::action::{Context, instructions, print_instructions};
use super::field::{Fields, print_match};
use super::{Result, TextError, number, parts, port, unknown, wrong};
use crate::flow::{FlowCommand, FlowFlags, FlowMod, NO_BUFFER};
use crate::{Match, Version};

/// Flags by their words.
const FLAGS: [(&str, FlowFlags); 5] = [
    ("send_flow_rem", FlowFlags::SEND_FLOW_REM),
    ("check_overlap", FlowFlags::CHECK_OVERLAP),
    ("reset_counts", FlowFlags::RESET_COUNTS),
    ("no_packet_counts", FlowFlags::NO_PACKET_COUNTS),
    ("no_byte_counts", FlowFlags::NO_BYTE_COUNTS),
];

/// Reads a flow modification: `table=0,priority=5,ip,nw_dst=10.0.0.0/8,actions=output:2`.
///
/// # Errors
/// With the word that is wrong.
pub fn flow(command: FlowCommand, text: &str, version: Version) -> Result<FlowMod> {
    let (before, actions) = match text.find("actions=") {
        Some(at) => {
            let (before, rest) = text.split_at(at);
            (before, rest.strip_prefix("actions="))
        }
        None => (text, None),
    };
    let deletes = matches!(command, FlowCommand::Delete | FlowCommand::DeleteStrict);
    if actions.is_none() && !deletes {
        return Err(TextError::Missing { what: "actions=" });
    }
    let mut change = FlowMod::new(command, Match::default());
    let mut fields = Fields::default();
    for part in parts(before, &[',', ' ', '\t']) {
        match part.split_once(['=', ':']) {
            Some((key, value)) => setting(&mut change, &mut fields, key, value)?,
            None => word(&mut change, &mut fields, part)?,
        }
    }
    let context = Context::new(version, &fields);
    change.instructions = instructions(actions.unwrap_or(""), context)?;
    let fields = Match::Oxm(fields.finish()?);
    change.matching = match version {
        Version::V13 => fields,
        Version::V10 => match fields.to_10() {
            (fields, true) => Match::V10(fields),
            _ => return Err(TextError::Version { word: before.trim().to_owned(), version }),
        },
    };
    // 1.0 has the two lowest flags; bit 2 means emergencies there, not RESET_COUNTS.
    let v10_lacks = change.table != 0 || change.cookie_mask != 0 || change.flags.0 > 3;
    if version == Version::V10 && v10_lacks {
        return Err(TextError::Version { word: before.trim().to_owned(), version });
    }
    Ok(change)
}

fn word(change: &mut FlowMod, fields: &mut Fields, word: &str) -> Result<()> {
    if let Some((_, flag)) = FLAGS.iter().find(|(name, _)| *name == word) {
        change.flags = change.flags | *flag;
        return Ok(());
    }
    if fields.word(word) { Ok(()) } else { unknown(word) }
}

fn setting(change: &mut FlowMod, fields: &mut Fields, key: &str, value: &str) -> Result<()> {
    match key {
        "table" => change.table = number(key, value)?,
        "priority" => change.priority = number(key, value)?,
        "idle_timeout" | "idle" => change.idle_timeout = number(key, value)?,
        "hard_timeout" | "hard" => change.hard_timeout = number(key, value)?,
        "buffer_id" | "buffer" => change.buffer = number(key, value)?,
        "out_port" => change.out_port = port(key, value)?,
        "out_group" => change.out_group = number(key, value)?,
        "cookie" => match value.split_once('/') {
            None => change.cookie = number(key, value)?,
            // `ovs-ofctl(8)` writes an exact cookie so.
            Some((cookie, "-1")) => {
                (change.cookie, change.cookie_mask) = (number(key, cookie)?, u64::MAX);
            }
            Some((cookie, mask)) => {
                (change.cookie, change.cookie_mask) = (number(key, cookie)?, number(key, mask)?);
            }
        },
        "" => return wrong(key, value, "word"),
        _ => fields.pair(key, value)?,
    }
    Ok(())
}

/// A flow modification as text, without its command.
pub fn print_flow(change: &FlowMod) -> String {
    let plain = FlowMod::new(change.command, Match::default());
    let mut all = vec![];
    if change.cookie != 0 || change.cookie_mask != 0 {
        all.push(match change.cookie_mask {
            0 => format!("cookie={:#x}", change.cookie),
            mask => format!("cookie={:#x}/{mask:#x}", change.cookie),
        });
    }
    if change.table != 0 {
        all.push(format!("table={}", change.table));
    }
    all.push(format!("priority={}", change.priority));
    for (name, value) in
        [("idle_timeout", change.idle_timeout), ("hard_timeout", change.hard_timeout)]
    {
        if value != 0 {
            all.push(format!("{name}={value}"));
        }
    }
    if change.buffer != NO_BUFFER {
        all.push(format!("buffer_id={}", change.buffer));
    }
    if change.out_port != plain.out_port {
        all.push(format!("out_port={}", change.out_port));
    }
    if change.out_group != plain.out_group {
        all.push(format!("out_group={}", change.out_group));
    }
    let flags = FLAGS.iter().filter(|(_, flag)| change.flags.has(*flag));
    all.extend(flags.map(|(name, _)| (*name).to_owned()));
    let matching = print_match(&change.matching);
    if !matching.is_empty() {
        all.push(matching);
    }
    all.push(format!("actions={}", print_instructions(&change.instructions)));
    all.join(",")
}
