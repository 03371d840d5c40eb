//! `ls` and `status`: running labs and their state.

use anyhow::Result;
use netloom_lab::call::Within;
use netloom_lab::calls;
use netloom_lab::values::Objects;
use netloom_lab::view::{LabCounts, LabState, LabStatus, LabSummary, NodeStatus};

use super::{behind, figures, paging};
use crate::flags::{Json, Status};
use crate::labs::{self, Wish};
use crate::output::{count, or_dash, print, print_json, show, table};

/// `netloom ls`
pub(crate) fn ls(args: &Json) -> Result<i32> {
    let labs = labs::summaries()?;
    if args.json {
        print_json(&labs)?;
    } else if labs.is_empty() {
        print("no lab is running\n")?;
    } else {
        let row = |l: &LabSummary| {
            vec![
                l.name.clone(),
                state(l.state).into(),
                l.nodes.to_string(),
                l.links.to_string(),
                or_dash(l.pid, |p| p.to_string()),
            ]
        };
        print(&table(&["LAB", "STATE", "NODES", "LINKS", "PID"], labs.iter().map(row).collect()))?;
        labs.iter().filter_map(|lab| lab.unreadable.as_ref()).for_each(|why| labs::tell(why));
    }
    Ok(0)
}

pub(crate) fn state(state: LabState) -> &'static str {
    match state {
        LabState::Starting => "starting",
        LabState::Up => "up",
        LabState::Degraded => "degraded",
        LabState::Failed => "failed",
        LabState::Orphaned => "orphaned",
        LabState::Broken => "broken",
    }
}

/// `netloom status`
pub(crate) fn status(wish: &Wish, args: &Status) -> Result<i32> {
    let client = labs::connect(wish.or(args.name.as_deref())?)?;
    let (args, after) = (&args.listing, args.listing.after.as_deref());
    let limit = paging::limit(args).unwrap_or(Objects::DEFAULT);
    let asked = client.call(&calls::Status::page(after, limit));
    let status = paging::or_whole(args, asked, || client.call(&calls::Status::whole()))?;
    if args.json {
        print_json(&status)?;
        return Ok(0);
    }
    let last = status.nodes.last().map(|node| node.name.as_str());
    // A page that is not full is the last one.
    let more = status.nodes.len() as u64 == limit
        && !client.call(&calls::ListNodes::page(last, 1))?.is_empty();
    // Of a part nothing follows about the whole.
    let all = match more || after.is_some() {
        true => client.call(&calls::Summary { of: Within::ALL })?,
        false => LabCounts::of(&status),
    };
    show(&text(&status, &all))?;
    paging::tell_more(more, last);
    Ok(0)
}

fn text(status: &LabStatus, all: &LabCounts) -> String {
    let mut text = format!(
        "lab {}: {}, {}, {}\n",
        status.name,
        state(all.state),
        count(all.nodes.all, "node"),
        count(all.links.all, "link")
    );
    if all.nodes.all > status.nodes.len() {
        text.push_str(&numbers(all));
    }
    text.push('\n');
    text.push_str(&node_table(&status.nodes));
    let reasons = status.nodes.iter().filter_map(figures::reason);
    let told: String =
        reasons.chain(status.nodes.iter().filter_map(figures::not_kept_up)).collect();
    if !told.is_empty() {
        text.push('\n');
        text.push_str(&told);
    }
    let late = behind::status(&status.behind);
    if !late.is_empty() {
        text.push('\n');
        text.push_str(&late);
    }
    if !status.drift.is_empty() {
        text.push_str("\nnot as it was made; `netloom apply` and `netloom up` take it back:\n");
        status.drift.iter().for_each(|line| text.push_str(&format!("{line}\n")));
    }
    let interfaces = status.nodes.iter().flat_map(figures::interface_rows);
    let wires = status.links.iter().flat_map(figures::wire_rows);
    for (head, rows) in [
        (figures::SWITCHES.as_slice(), figures::switch_rows(&status.switches)),
        (figures::OPENFLOW.as_slice(), figures::openflow_rows(&status.switches)),
        (figures::SLICES.as_slice(), figures::slice_rows(&status.switches)),
        (figures::INTERFACES.as_slice(), interfaces.collect::<Vec<_>>()),
        (figures::WIRES.as_slice(), wires.collect()),
    ] {
        if !rows.is_empty() {
            text.push('\n');
            text.push_str(&table(head, rows));
        }
    }
    text
}

/// How many nodes are in which state, and the first that are not up: of a lab of which only a part is shown.
fn numbers(all: &LabCounts) -> String {
    let LabCounts { nodes, troubled, .. } = all;
    let states = [
        (nodes.up, "up"),
        (nodes.starting, "starting"),
        (nodes.degraded, "degraded"),
        (nodes.failed, "failed"),
        (nodes.dead, "dead"),
    ];
    let words = states.iter().filter(|(count, _)| *count > 0);
    let words: Vec<String> = words.map(|(count, word)| format!("{count} {word}")).collect();
    let mut text = format!("nodes: {}\n", words.join(", "));
    let not_up = nodes.all - nodes.up;
    if not_up > 0 {
        let shown = troubled.iter().take(MOST_NAMES).map(|node| node.name.as_str());
        let more = not_up.checked_sub(MOST_NAMES).filter(|more| *more > 0);
        let more = more.map(|more| format!("and {more} more"));
        let names: Vec<&str> = shown.chain(more.as_deref()).collect();
        text.push_str(&format!("not up: {}\n", names.join(" ")));
    }
    text
}

/// The most nodes that are named as not up.
const MOST_NAMES: usize = 20;

/// A column of the node table: its header, and a node's value.
type Column = (&'static str, fn(&NodeStatus) -> String);

/// The node table. Rarely needed columns appear only if a node has a value for them.
fn node_table(nodes: &[NodeStatus]) -> String {
    let any = |wanted: fn(&NodeStatus) -> bool| nodes.iter().any(wanted);
    let columns: [(bool, Column); 11] = [
        (true, ("NODE", |n| n.name.clone())),
        (true, ("STATE", |n| figures::life(n).into())),
        (true, ("CPU", figures::cpu)),
        (true, ("MEMORY", figures::memory)),
        (true, ("PROCESSES", figures::processes)),
        (any(|n| n.limits.sockets.is_some()), ("SOCKETS", figures::sockets)),
        (
            any(|n| n.children.is_some()),
            ("CHILDREN", |n| or_dash(n.children, |c| figures::children(&c))),
        ),
        (any(|n| n.protect.is_some()), ("DROPPED", kept_off)),
        (true, ("PROGRAMS", figures::programs)),
        (
            any(|n| n.health.is_some()),
            ("HEALTH", |n| or_dash(n.health.as_ref(), |health| health.state.clone())),
        ),
        (true, ("ADDRESSES", addresses)),
    ];
    let shown = columns.iter().filter(|(shown, _)| *shown).map(|(_, column)| column);
    let head: Vec<&str> = shown.clone().map(|(head, _)| *head).collect();
    let row = |node| shown.clone().map(|(_, value)| value(node)).collect();
    table(&head, nodes.iter().map(row).collect())
}

/// Packets dropped by protection.
fn kept_off(node: &NodeStatus) -> String {
    or_dash(node.protect.as_ref(), |p| figures::amount(p.dropped_packets, p.dropped_bytes))
}

/// Most addresses of a node that are shown: its programs may add as many as they like.
const MOST_ADDRESSES: usize = 100;

fn addresses(node: &NodeStatus) -> String {
    // A lab process of an older version may report addresses per interface only.
    let of_interfaces = || node.interfaces.iter().flat_map(|i| &i.addresses).collect();
    let own: Vec<&String> = node.addresses.iter().collect();
    let all = if own.is_empty() { of_interfaces() } else { own };
    let shown = all.iter().take(MOST_ADDRESSES).map(|address| address.as_str());
    let more = all.len().checked_sub(MOST_ADDRESSES).filter(|more| *more > 0);
    let more = more.map(|more| format!("and {more} more"));
    shown.chain(more.as_deref()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use netloom_lab::view::SwitchStatus;

    use netloom_lab::view::{NodeState, TroubledNode};

    use super::*;
    use crate::verbs::samples;

    /// The text of a lab that is shown as a whole.
    fn text(status: &LabStatus) -> String {
        super::text(status, &LabCounts::of(status))
    }

    #[test]
    fn a_part_of_a_lab_has_the_numbers_of_the_whole() {
        let status = samples::status();
        let mut all = LabCounts::of(&status);
        all.nodes.all = 10_000;
        all.nodes.up = 9_970;
        all.nodes.dead = 30;
        all.links.all = 20_000;
        let dead = |n| TroubledNode { name: format!("n{n}"), state: NodeState::Dead, reason: None };
        all.troubled = (0..30).map(dead).collect();
        let shown = super::text(&status, &all);
        let names: Vec<String> = (0..20).map(|n| format!("n{n}")).collect();
        let head = format!(
            "lab fake: degraded, 10000 nodes, 20000 links\nnodes: 9970 up, 30 dead\nnot up: {} and 10 more\n\nNODE  STATE",
            names.join(" ")
        );
        assert!(shown.starts_with(&head), "{shown}");
        (all.nodes.up, all.nodes.dead) = (10_000, 0);
        let shown = super::text(&status, &all);
        assert!(shown.contains("20000 links\nnodes: 10000 up\n\nNODE"), "{shown}");
    }

    #[test]
    fn figures_that_there_are_get_a_column() {
        let expected = "\
lab fake: degraded, 2 nodes, 2 links

NODE  STATE  CPU                   MEMORY              PROCESSES  SOCKETS  CHILDREN  DROPPED      PROGRAMS                 ADDRESSES
t     up     1.50 s (at most 50%)  1.0 MiB of 2.0 MiB  3 of 10    3 of 9   1 of 4    7 (2.0 KiB)  1 of 1 run, restarted 2  10.0.0.1/24 10.9.0.1/24
t/a   dead   -                     -                   -          -        -         -            -

INTERFACE  LINK       STATE  RECEIVED     SENT       LOST
t:eth0     t:eth0--s  up     2 (1.0 KiB)  5 (512 B)  9

WIRE       STATE                 FROM    IMPAIRMENTS          OFFERED       LOST                 HELD
t:eth0--s  running, restarted 1  t:eth0  delay 10ms, loss 1%  10 (1.0 KiB)  3 (loss 1, queue 2)  1 (100 B)
";
        assert_eq!(text(&samples::status()), expected);
    }

    #[test]
    fn a_nodes_addresses_keep_to_their_column() {
        let mut status = samples::status();
        status.nodes[0].addresses = (0..300).map(|n| format!("10.0.{n}.1/24")).collect();
        let shown = addresses(&status.nodes[0]);
        assert!(shown.ends_with(" 10.0.99.1/24 and 200 more"), "{shown}");
        status.nodes[0].addresses.truncate(MOST_ADDRESSES);
        assert!(addresses(&status.nodes[0]).ends_with(" 10.0.99.1/24"));
    }

    #[test]
    fn switches_are_shown_where_not_all_are_bridges() {
        let mut switch = SwitchStatus {
            name: "s".into(),
            kind: "shm".into(),
            bridge: String::new(),
            links: vec!["l".into(), "m".into()],
            openflow: None,
            vde: None,
        };
        let mut status = samples::status();
        let drops = &mut status.nodes[0].drops;
        for (cause, packets) in [("no-route", 5), ("socket-buffer", 4), ("discipline", 3)] {
            drops.push(netloom_lab::view::DropView { cause: cause.into(), packets });
        }
        let told = "\nt dropped: 4 (socket-buffer), 3 (discipline)\n\nINTERFACE";
        assert!(text(&status).contains(told), "{}", text(&status));
        (status.nodes, status.links) = (vec![], vec![]);
        status.switches = vec![switch.clone()];
        assert!(text(&status).ends_with("\nSWITCH  KIND  LINKS\ns       shm   l m\n"));
        switch.openflow = Some(samples::openflow());
        switch.kind = "openflow".into();
        status.switches = vec![switch.clone()];
        let expected = "
SWITCH  KIND      LINKS
s       openflow  l m

OPENFLOW  STATE           DATAPATH          FORWARDS BY             ENTRIES  CONTROLLERS
s         up, standalone  0000000000000001  packet sockets: slower  2        node:c0:6653 (not connected)
";
        assert!(text(&status).ends_with(expected), "{}", text(&status));
        let mut sliced = samples::openflow();
        let controllers = std::mem::take(&mut sliced.controllers);
        sliced.slices = vec![netloom_lab::view::OpenflowSlice {
            slice: "red".into(),
            rules: 2,
            entries: 4,
            controllers,
        }];
        switch.openflow = Some(sliced);
        status.switches = vec![switch.clone()];
        let expected = "
SLICE  SWITCH  RULES  ENTRIES  CONTROLLERS
red    s       2      4        node:c0:6653 (not connected)
";
        assert!(text(&status).ends_with(expected), "{}", text(&status));
        switch.openflow = None;
        switch.kind = "kernel".into();
        status.switches = vec![switch];
        assert!(!text(&status).contains("SWITCH"));
    }

    #[test]
    fn a_plain_lab_has_no_empty_columns() {
        let mut status = samples::status();
        status.nodes.remove(0);
        status.links.remove(0);
        let expected = "\
lab fake: degraded, 1 node, 1 link

NODE  STATE  CPU  MEMORY  PROCESSES  PROGRAMS  ADDRESSES
t/a   dead   -    -       -          -
";
        assert_eq!(text(&status), expected);
    }

    #[test]
    fn a_wire_that_does_not_run_is_told() {
        let mut link = samples::status().links.remove(0);
        let wire = link.wire.as_mut().unwrap();
        wire.state = "its process was killed".into();
        wire.directions = vec![None, None];
        let rows = figures::wire_rows(&link);
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0][1], "its process was killed, restarted 1");
        assert_eq!(rows[0][2..], ["-", "-", "-", "-", "-"]);
    }
}
