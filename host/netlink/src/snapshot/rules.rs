//! The rules of nftables in a snapshot: tables, chains, sets, elements and rules, put as one transaction.
//!
//! Named objects and flow tables are not among them; a ruleset that uses such is refused as a whole, and told.

use super::{put, without};
use crate::batch::Batch;
use crate::decode::{attributes, string};
use crate::error::{Error, Result};
use crate::packet_rules::{self, Part, Reader};
use crate::socket::Socket;
use crate::uapi::{APPEND, CREATE};

const SUBSYSTEM: u16 = 10 << 8;
const NEW_TABLE: u16 = SUBSYSTEM;
const DELETE_TABLE: u16 = SUBSYSTEM | 2;
const NEW_CHAIN: u16 = SUBSYSTEM | 3;
const NEW_RULE: u16 = SUBSYSTEM | 6;
const NEW_SET: u16 = SUBSYSTEM | 9;
const NEW_ELEMENTS: u16 = SUBSYSTEM | 12;
const BATCH_BEGIN: u16 = 16;
const BATCH_END: u16 = 17;

/// What is sent in this order: rules name sets and chains, elements name chains.
const ORDER: [u16; 5] = [NEW_TABLE, NEW_CHAIN, NEW_SET, NEW_ELEMENTS, NEW_RULE];

#[derive(Default)]
struct Kept {
    messages: Vec<(u16, Vec<u8>)>,
    sets: Vec<(u8, String, String)>,
}

impl Reader for Kept {
    fn take(&mut self, part: Part, payload: &[u8]) {
        let kept = match part {
            // Handles and counts of uses are the kernel's.
            Part::Table => (NEW_TABLE, message(payload, &[3, 4, 5, 7])),
            Part::Chain => (NEW_CHAIN, message(payload, &[2, 6, 8, 9])),
            Part::Rule => (NEW_RULE, message(payload, &[3, 6])),
            Part::Set => {
                let mut names = attributes(payload.get(4..).unwrap_or_default());
                let mut name =
                    |kind| names.find(|(found, _)| *found == kind).map(|(_, n)| string(n));
                if let (Some(family), Some(table), Some(set)) = (payload.first(), name(1), name(2))
                {
                    self.sets.push((*family, table, set));
                }
                (NEW_SET, message(payload, &[10, 14, 16, 19, 20]))
            }
            Part::Elements => (NEW_ELEMENTS, message(payload, &[])),
        };
        self.messages.push(kept);
    }

    fn sets(&self) -> Vec<(u8, String, String)> {
        self.sets.clone()
    }
}

/// `struct nfgenmsg` without the generation, and attributes.
fn message(payload: &[u8], drop: &[u16]) -> Vec<u8> {
    let mut kept = vec![payload.first().copied().unwrap_or(0), 0, 0, 0];
    kept.extend(without(payload, 4, drop));
    kept
}

/// All rules of the namespace.
pub(super) fn read() -> Result<Vec<(u16, Vec<u8>)>> {
    let mut kept = Kept::default();
    packet_rules::dump(&mut kept)?;
    Ok(kept.messages)
}

/// Puts the rules among these messages in place of those that are there; what cannot be put, in words.
pub(super) fn put_all(messages: &[(u16, Vec<u8>)]) -> Result<Vec<String>> {
    let wanted: Vec<&(u16, Vec<u8>)> = messages.iter().filter(|(k, _)| ORDER.contains(k)).collect();
    let here = read()?;
    if here.iter().collect::<Vec<_>>() == wanted {
        return Ok(vec![]);
    }
    let mut batch = Batch::new();
    let [high, low] = 10_u16.to_be_bytes();
    batch.push("nftables rules", &put(BATCH_BEGIN, 0, vec![2, 0, high, low]));
    // Of no family and without a name: all tables.
    batch.push("nftables rules", &put(DELETE_TABLE, 0, vec![0; 4]));
    let mut sets = 0_u32;
    for kind in ORDER {
        for (_, payload) in wanted.iter().filter(|(found, _)| *found == kind) {
            if kind == NEW_ELEMENTS && lacks_elements(payload) {
                continue;
            }
            let mut payload = payload.clone();
            if kind == NEW_SET {
                // The kernel wants a number for each (NFTA_SET_ID).
                sets += 1;
                payload.extend([8, 0]);
                payload.extend(10_u16.to_ne_bytes());
                payload.extend(sets.to_be_bytes());
            }
            let flags = if kind == NEW_RULE { CREATE | APPEND } else { CREATE };
            batch.push("nftables rules", &put(kind, flags, payload));
        }
    }
    batch.push("nftables rules", &put(BATCH_END, 0, vec![2, 0, high, low]));
    match Socket::open_netfilter()?.run_transaction(&mut batch) {
        Ok(()) => Ok(vec![]),
        Err(Error::Refused(all)) => {
            let why = all.first().map_or_else(String::new, ToString::to_string);
            Ok(vec![format!("none of its rules of nftables: {why}")])
        }
        Err(error) => Err(error),
    }
}

/// NFTA_SET_ELEM_LIST_ELEMENTS is 3.
fn lacks_elements(payload: &[u8]) -> bool {
    attributes(payload.get(4..).unwrap_or_default()).all(|(kind, v)| kind != 3 || v.is_empty())
}
