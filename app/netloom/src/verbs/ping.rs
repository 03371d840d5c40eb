//! `ping`: reachability of all nodes, or of one from another.

use std::time::Duration;

use anyhow::Result;
use netloom_api::Client;
use netloom_fidelity::LATE_NS;
use netloom_lab::call::Within;
use netloom_lab::calls::{self, PingPair, ShowFidelity, ShowPlan};
use netloom_lab::values::{Families, Whole};
use netloom_lab::view::{
    Family, FidelityView, LabCounts, NodeState, PairFamily, PairReachability, Reachability,
};
use netloom_model::Plan;
use netloom_model::plan::PlannedLink;
use netloom_node::ping::Pace;

use super::{behind, up};
use crate::flags::Ping;
use crate::labs;
use crate::output::{or_dash, print, print_json, table};

/// Maximum number of nodes for which the whole matrix is shown.
const MATRIX_LIMIT: usize = 16;

/// Maximum number of silent pairs listed.
const LIST_LIMIT: usize = 20;

/// `netloom ping`
pub(crate) fn ping(lab: Option<&str>, args: &Ping) -> Result<i32> {
    let families = &families(args);
    match (&args.from, &args.to) {
        (Some(from), Some(to)) => pair(lab, args, (from, to), families),
        _ => all(lab, args, families),
    }
}

/// The versions of the protocol that are wanted.
pub(crate) fn families(args: &Ping) -> Vec<u8> {
    match (args.ipv4, args.ipv6) {
        (true, _) => vec![4],
        (_, true) => vec![6],
        _ => vec![4, 6],
    }
}

/// Shows which node reaches which; returns the exit code.
pub(crate) fn show(found: &Reachability, json: bool) -> Result<i32> {
    if json {
        print_json(found)?;
    } else {
        print(&text(found))?;
    }
    Ok(i32::from(!found.families.iter().all(|f| f.answered == f.asked)))
}

/// `netloom ping FROM TO`
fn pair(lab: Option<&str>, args: &Ping, (from, to): (&str, &str), families: &[u8]) -> Result<i32> {
    let pace = Pace {
        count: args.count,
        interval: Duration::from_millis(args.interval),
        timeout: Duration::from_millis(args.timeout),
    };
    let found = labs::connect(lab)?.call(&PingPair::of(from, to, families, pace))?;
    if args.json {
        print_json(&found)?;
    } else if found.families.is_empty() {
        anyhow::bail!("{from} and {to} have no addresses of the same family");
    } else {
        print(&pair_text(&found))?;
    }
    let answered = |f: &PairFamily| f.rtt_us.iter().any(Option::is_some);
    Ok(i32::from(found.families.is_empty() || !found.families.iter().all(answered)))
}

fn pair_text(found: &PairReachability) -> String {
    let row = |family: &PairFamily| {
        let times: Vec<f64> =
            family.rtt_us.iter().flatten().map(|us| f64::from(*us) / 1000.0).collect();
        let shown = |time: Option<f64>| or_dash(time, |ms| format!("{ms:.2} ms"));
        let count = u32::try_from(times.len()).unwrap_or(u32::MAX);
        let mean = (count > 0).then(|| times.iter().sum::<f64>() / f64::from(count));
        vec![
            found.from.clone(),
            found.to.clone(),
            family.address.clone(),
            family.rtt_us.len().to_string(),
            times.len().to_string(),
            shown(times.iter().copied().reduce(f64::min)),
            shown(mean),
            shown(times.iter().copied().reduce(f64::max)),
        ]
    };
    let head = ["FROM", "TO", "ADDRESS", "SENT", "ANSWERED", "MIN", "MEAN", "MAX"];
    table(&head, found.families.iter().map(row).collect())
}

/// `netloom ping --all`
fn all(lab: Option<&str>, args: &Ping, families: &[u8]) -> Result<i32> {
    let client = labs::connect(lab)?;
    // From inside a node it is not told.
    let before = client.call(&ShowFidelity {}).ok();
    let (family, timeout_ms) = (Families(families.to_vec()), Whole(args.timeout));
    let found = client.call(&calls::Ping { family, timeout_ms, among: Within::ALL })?;
    let code = show(&found, args.json)?;
    if code != 0 {
        // What would take long to find: no node's own tables or counters show it.
        let plan = client.call(&ShowPlan { of: Within::ALL })?;
        up::tell_lacking(&plan.lab, plan.neighbours());
        if let Some(why) = too_slow(&plan, args.timeout) {
            tell_line!("netloom: warning: {why}");
        }
        tell_dead(&labs::counts(&client)?);
        if let Some(before) = before {
            tell_late(&client, &before, args.timeout);
        }
    }
    Ok(code)
}

/// Nodes that cannot answer.
fn tell_dead(all: &LabCounts) {
    let dead = all.troubled.iter().filter(|node| node.state == NodeState::Dead);
    let dead: Vec<String> = dead.take(LIST_LIMIT).map(|node| format!("{:?}", node.name)).collect();
    if !dead.is_empty() {
        tell_line!(
            "netloom: warning: dead: node {}; `netloom up` of the lab's file recreates it",
            dead.join(", ")
        );
    }
}

/// What was late meanwhile: then the machine was too busy, and the network may be as it should.
fn tell_late(client: &Client, before: &FidelityView, timeout_ms: u64) {
    let Ok(now) = client.call(&ShowFidelity {}) else { return };
    if let Some(mark) = behind::mark(&now.since(before, LATE_NS)) {
        mark.lines().for_each(|line| tell_line!("netloom: warning: {line}"));
        tell_line!(
            "netloom: warning: the machine did not keep up, so answers may have come too late; write --timeout {}",
            timeout_ms.saturating_mul(5)
        );
    }
}

/// Why an answer may have come too late: by the link that delays most. The first answer across it follows a question for a
/// hardware address, which is delayed as well.
fn too_slow(plan: &Plan, timeout_ms: u64) -> Option<String> {
    let there_and_back = |link: &PlannedLink| {
        let [there, back] = &link.impairments;
        there.delay.saturating_add(back.delay)
    };
    let slowest = plan.links.iter().max_by_key(|link| there_and_back(link))?;
    let first = there_and_back(slowest).saturating_mul(2).as_millis();
    let first = u64::try_from(first).unwrap_or(u64::MAX);
    (first >= timeout_ms).then(|| {
        format!(
            "link {:?} delays the first answer across it by {first} ms, and answers were waited for {timeout_ms} ms; write \
             --timeout {}",
            slowest.name,
            first.saturating_add(2000)
        )
    })
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
    let head: Vec<&str> =
        ["from \\ to, ms"].into_iter().chain(nodes.iter().map(String::as_str)).collect();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_matrix_says_who_sends() {
        let family = Family {
            version: 4,
            rtt_us: vec![vec![None, Some(1500)], vec![None, None]],
            asked: 2,
            answered: 1,
        };
        let expected = "from \\ to, ms  a  b\na                 1.50\nb              -\n";
        assert_eq!(matrix(&["a".into(), "b".into()], &family), expected);
    }

    #[test]
    fn an_answer_that_comes_too_late_is_explained_by_the_slowest_link() {
        let text = "nodes: {a: {}, b: {}, c: {}}\nlinks:\n  - {ends: [a, b], delay: 20ms}\n  \
                    - {ends: [b, c], delay: 600ms}\n";
        let lab = netloom_model::parse("t.yaml", text.as_bytes(), "t").unwrap();
        let plan = netloom_model::plan::plan(&lab).unwrap();
        assert_eq!(
            too_slow(&plan, 2000).unwrap(),
            "link \"b:eth1--c:eth0\" delays the first answer across it by 2400 ms, and answers were waited for 2000 ms; write \
             --timeout 4400"
        );
        assert_eq!(too_slow(&plan, 2401), None);
        let plain = netloom_model::parse("t.yaml", b"nodes: {a: {}, b: {}}\nlinks: [a-b]\n", "t");
        let plain = netloom_model::plan::plan(&plain.unwrap()).unwrap();
        assert_eq!(too_slow(&plain, 1), None);
    }

    #[test]
    fn a_pair_has_its_counts_and_times() {
        let found = PairReachability {
            from: "a".into(),
            to: "b".into(),
            families: vec![
                PairFamily {
                    version: 4,
                    address: "10.0.0.1".into(),
                    rtt_us: vec![Some(100), None, Some(300)],
                },
                PairFamily { version: 6, address: "fd00::1".into(), rtt_us: vec![None] },
            ],
        };
        let expected = "\
FROM  TO  ADDRESS   SENT  ANSWERED  MIN      MEAN     MAX
a     b   10.0.0.1  3     2         0.10 ms  0.20 ms  0.30 ms
a     b   fd00::1   1     0         -        -        -
";
        assert_eq!(pair_text(&found), expected);
    }
}
