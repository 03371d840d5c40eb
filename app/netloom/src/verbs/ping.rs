//! `ping --all`: who reaches whom.

use std::time::Duration;

use anyhow::Result;
use netloom_lab::view::{Family, Reachability};

use crate::flags::Ping;
use crate::labs;
use crate::output::{print, print_json, table};

/// Up to how many nodes the whole matrix is shown.
const MATRIX_LIMIT: usize = 16;

/// How many pairs without answer are listed.
const LIST_LIMIT: usize = 20;

/// `netloom ping --all`
pub(crate) fn ping(lab: Option<&str>, args: &Ping) -> Result<i32> {
    let families: &[u8] = match (args.ipv4, args.ipv6) {
        (true, _) => &[4],
        (_, true) => &[6],
        _ => &[4, 6],
    };
    let found = labs::connect(lab)?.ping(families, Duration::from_millis(args.timeout))?;
    if args.json {
        print_json(&found)?;
    } else {
        print(&text(&found))?;
    }
    let all = found.families.iter().all(|f| f.answered == f.asked);
    Ok(i32::from(!all))
}

fn text(found: &Reachability) -> String {
    let mut text = String::new();
    for family in found.families.iter().filter(|f| f.asked > 0) {
        text.push_str(&format!(
            "IPv{}: {} of {} pairs answer\n",
            family.version, family.answered, family.asked
        ));
        if found.nodes.len() <= MATRIX_LIMIT {
            text.push_str(&matrix(&found.nodes, family));
        } else {
            text.push_str(&silent(&found.nodes, family));
        }
    }
    if text.is_empty() {
        text.push_str("no node has an address\n");
    }
    text
}

/// Round-trip times in milliseconds, senders in rows.
fn matrix(nodes: &[String], family: &Family) -> String {
    let head: Vec<&str> = ["ms"].into_iter().chain(nodes.iter().map(String::as_str)).collect();
    let row = |(i, cells): (usize, &Vec<Option<u32>>)| {
        let cell = |(j, rtt): (usize, &Option<u32>)| match rtt {
            _ if i == j => String::new(),
            Some(us) => format!("{:.2}", f64::from(*us) / 1000.0),
            None => "-".into(),
        };
        let cells = cells.iter().enumerate().map(cell);
        [nodes[i].clone()].into_iter().chain(cells).collect()
    };
    table(&head, family.rtt_us.iter().enumerate().map(row).collect())
}

fn silent(nodes: &[String], family: &Family) -> String {
    let pairs = family.rtt_us.iter().enumerate().flat_map(|(i, row)| {
        let none = row.iter().enumerate().filter(move |(j, rtt)| i != *j && rtt.is_none());
        none.map(move |(j, _)| (i, j))
    });
    if family.answered == family.asked {
        return String::new();
    }
    pairs.take(LIST_LIMIT).fold(String::new(), |text, (i, j)| {
        text + &format!("  no answer: {} -> {}\n", nodes[i], nodes[j])
    })
}
