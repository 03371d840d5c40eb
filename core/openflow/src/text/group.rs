//! Groups and meters as text.

use super::action::{Context, actions, print_actions};
use super::field::Fields;
use super::{Result, TextError, number, parts, port, unknown};
use crate::action::{GROUP_ALL, GROUP_ANY};
use crate::group::{Bucket, GroupCommand, GroupMod, GroupType};
use crate::meter::{Band, BandKind, MeterCommand, MeterFlags, MeterMod};
use crate::{PortNumber, Version};

/// Types of groups by their words.
/// Of two that mean the same, the first is printed.
const TYPES: [(&str, GroupType); 5] = [
    ("all", GroupType::All),
    ("select", GroupType::Select),
    ("indirect", GroupType::Indirect),
    ("ff", GroupType::FastFailover),
    ("fast_failover", GroupType::FastFailover),
];

/// Reads a group: `group_id=1,type=select,bucket=weight:10,actions=output:1,bucket=actions=output:2`.
///
/// # Errors
/// With the word that is wrong.
pub fn group(command: GroupCommand, text: &str) -> Result<GroupMod> {
    let mut pieces = text.split("bucket=");
    let mut change = GroupMod { command, kind: GroupType::All, group: GROUP_ANY, buckets: vec![] };
    for part in parts(pieces.next().unwrap_or(""), &[',', ' ']) {
        let Some((key, value)) = part.split_once(['=', '(', ':']) else { return unknown(part) };
        match key {
            "group_id" if value == "all" => change.group = GROUP_ALL,
            "group_id" => change.group = number(key, value)?,
            "type" => match (TYPES.iter().find(|(name, _)| *name == value), value.parse::<u8>()) {
                (Some((_, kind)), _) => change.kind = *kind,
                // A group that goes may be of a type without a word, as in a message (section 7.3.4.2).
                (None, Ok(number)) if command == GroupCommand::Delete => {
                    change.kind = GroupType::from(number);
                }
                _ => return super::wrong(key, value, "type of a group"),
            },
            // A select group of the switch hashes all of a packet's flow, which both words leave to it.
            "selection_method" if ["dp_hash", "hash"].contains(&value) => {}
            "selection_method" => {
                return super::wrong(key, value, "way to select a bucket; write dp_hash or hash");
            }
            "selection_method_param" if value == "0" => {}
            "selection_method_param" | "fields" => {
                let expected =
                    "choice of the switch, whose select groups hash all of a flow; leave it out";
                return super::wrong(key, value, expected);
            }
            _ => return unknown(key),
        }
    }
    if change.group == GROUP_ANY {
        return Err(TextError::Missing { what: "group_id=" });
    }
    for piece in pieces {
        change.buckets.push(bucket(piece, change.kind)?);
    }
    Ok(change)
}

fn bucket(text: &str, kind: GroupType) -> Result<Bucket> {
    // The default of ovs-ofctl (`parse_bucket_str`): only groups that select have weights.
    let weight = u16::from(kind == GroupType::Select);
    let mut bucket = Bucket::new(weight, vec![]);
    // As ovs-ofctl has it (`parse_bucket_str`): every word that is not about the bucket is an action, wherever it stands.
    let mut rest: Vec<&str> = vec![];
    for part in parts(text, &[',', ' ']) {
        let (key, value) = part.split_once([':', '=']).unwrap_or((part, ""));
        match key {
            "weight" => bucket.weight = number(key, value)?,
            "watch_port" => bucket.watch_port = port(key, value)?,
            "watch_group" => bucket.watch_group = number(key, value)?,
            "bucket_id" => {}
            "actions" | "action" => rest.push(value),
            _ => rest.push(part),
        }
    }
    let context = Context::new(Version::V13, &Fields::default());
    bucket.actions = actions(&rest.join(","), context)?;
    Ok(bucket)
}

/// A group as text.
pub fn print_group(change: &GroupMod) -> String {
    let word = TYPES.iter().find(|(_, kind)| *kind == change.kind).map(|(name, _)| *name);
    let kind = word.map_or_else(|| u8::from(change.kind).to_string(), str::to_owned);
    let group = if change.group == GROUP_ALL { "all".to_owned() } else { change.group.to_string() };
    let mut text = format!("group_id={group},type={kind}");
    for bucket in &change.buckets {
        text.push_str(",bucket=");
        if bucket.weight != u16::from(change.kind == GroupType::Select) {
            text.push_str(&format!("weight:{},", bucket.weight));
        }
        if bucket.watch_port != PortNumber::ANY {
            text.push_str(&format!("watch_port:{},", bucket.watch_port));
        }
        if bucket.watch_group != GROUP_ANY {
            text.push_str(&format!("watch_group:{},", bucket.watch_group));
        }
        let actions = print_actions(&bucket.actions);
        text.push_str(&format!("actions={}", if actions.is_empty() { "drop" } else { &actions }));
    }
    text
}

/// Flags of meters by their words.
const FLAGS: [(&str, MeterFlags); 4] = [
    ("kbps", MeterFlags::KBPS),
    ("pktps", MeterFlags::PKTPS),
    ("burst", MeterFlags::BURST),
    ("stats", MeterFlags::STATS),
];

/// Reads a meter: `meter=5,kbps,burst,band=type=drop,rate=1000,burst_size=100`.
///
/// # Errors
/// With the word that is wrong.
pub fn meter(command: MeterCommand, text: &str) -> Result<MeterMod> {
    let text = text.replace("bands=", "band=");
    let mut pieces = text.split("band=");
    let flags = MeterFlags::default();
    let mut change = MeterMod { command, flags, meter: 0, bands: vec![] };
    for part in parts(pieces.next().unwrap_or(""), &[',', ' ', '\n']) {
        if let Some((_, flag)) = FLAGS.iter().find(|(name, _)| *name == part) {
            change.flags = change.flags | *flag;
            continue;
        }
        match part.split_once('=') {
            Some(("meter", "all")) => change.meter = crate::meter::METER_ALL,
            Some(("meter", "controller")) => change.meter = crate::meter::METER_CONTROLLER,
            Some((key @ "meter", value)) => match number(key, value)? {
                0 => return super::wrong(key, value, "number of a meter, which is 1 or more"),
                number => change.meter = number,
            },
            _ => return unknown(part),
        }
    }
    // Meters count from 1 (section 7.3.4.4).
    if change.meter == 0 {
        return Err(TextError::Missing { what: "meter=" });
    }
    for piece in pieces {
        change.bands.extend(bands(piece)?);
    }
    Ok(change)
}

/// Bands; each begins with its type.
fn bands(text: &str) -> Result<Vec<Band>> {
    let mut all: Vec<Band> = vec![];
    for part in parts(text, &[',', ' ', '\n']) {
        let Some((key, value)) = part.split_once('=') else { return unknown(part) };
        if key == "type" {
            let kind = match value {
                "drop" => BandKind::Drop,
                "dscp_remark" => BandKind::DscpRemark(0),
                _ => return super::wrong(key, value, "type of a band"),
            };
            all.push(Band { rate: 0, burst: 0, kind });
            continue;
        }
        let Some(band) = all.last_mut() else { return Err(TextError::Missing { what: "type=" }) };
        match key {
            "rate" => band.rate = number(key, value)?,
            "burst_size" => band.burst = number(key, value)?,
            "prec_level" => band.kind = BandKind::DscpRemark(number(key, value)?),
            _ => return unknown(key),
        }
    }
    Ok(all)
}

/// A meter as text.
pub fn print_meter(change: &MeterMod) -> String {
    let meter = match change.meter {
        crate::meter::METER_ALL => "all".to_owned(),
        crate::meter::METER_CONTROLLER => "controller".to_owned(),
        number => number.to_string(),
    };
    let mut all = vec![format!("meter={meter}")];
    let flags = FLAGS.iter().filter(|(_, flag)| change.flags.has(*flag));
    all.extend(flags.map(|(name, _)| (*name).to_owned()));
    for band in &change.bands {
        let kind = match band.kind {
            BandKind::Drop => "drop",
            BandKind::DscpRemark(_) => "dscp_remark",
            BandKind::Experimenter { .. } => "experimenter",
        };
        all.push(format!("band=type={kind},rate={}", band.rate));
        if band.burst != 0 {
            all.push(format!("burst_size={}", band.burst));
        }
        if let BandKind::DscpRemark(level) = band.kind {
            all.push(format!("prec_level={level}"));
        }
    }
    all.join(",")
}
