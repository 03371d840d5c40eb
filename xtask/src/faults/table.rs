//! The table of all faults, and its totals.

use std::fmt::Write as _;

use super::score::{Row, Scored};
use crate::test::user::User;

const HEAD: &str = "\
# Planted faults

What `netloom why` said about faults that were planted, as `cargo xtask faults --write` wrote it. The labs and the faults are in
`tests/faults`: *office* has two hosts at a switch, two routers and a server; *routers* has twelve routers with FRR's OSPF and BGP in three
autonomous systems. Each fault has a lab of its own.

*Place* is right if a cause or hindrance names it, or, where none is told, if the last place that saw the probe or the first that did
not are there. *Cause* is right if it is named at its place. *Wrong* counts what was named and not planted, also of flows that do not suffer; what
follows from the fault and is true is not counted. Kinds marked with ° are not on the list: the authors of `why` made them up beside it. *Slowest* is
the time of the program `netloom why`, of a development build.

";

pub(super) fn page(rows: &[Row]) -> String {
    let mut text = HEAD.to_owned() + &totals(rows);
    text.push_str("\n| domain | fault | lab | user | planted | answered | place | cause | s |\n|---|---|---|---|---|---|---|---|---|\n");
    for row in rows {
        text.push_str(&cells(row));
        text.push('\n');
    }
    text
}

/// One line of the table.
pub(super) fn cells(row: &Row) -> String {
    let fault = &row.fault;
    let planted: Vec<String> =
        fault.causes.iter().map(|named| format!("{} at {}", named.cause, named.place)).collect();
    let planted = if planted.is_empty() { "nothing".to_owned() } else { planted.join(" or ") };
    let mark = if fault.invented { "°" } else { "" };
    let head = format!(
        "| {} | {}{mark} | {} | {} | {planted} |",
        fault.domain,
        fault.name,
        fault.lab,
        user(row)
    );
    let yes = |right: bool| if right { "yes" } else { "**no**" };
    match &row.result {
        Ok(found) => {
            let wrong =
                if found.wrong > 0 { format!(", {} wrong", found.wrong) } else { String::new() };
            let answered = found.answered.replace('|', "\\|");
            let seconds = seconds(found.millis);
            format!(
                "{head} {answered} | {} | {}{wrong} | {seconds} |",
                yes(found.place),
                yes(found.cause)
            )
        }
        Err(why) if row.skipped => format!("{head} skipped: {why} | | | |"),
        Err(why) => {
            let why = why.lines().next().unwrap_or_default().replace('|', "\\|");
            format!("{head} failed: {why} | **no** | **no** | |")
        }
    }
}

/// One line for people who wait.
pub(super) fn line(row: &Row) -> String {
    let mark = match &row.result {
        Ok(found) if found.cause && found.wrong == 0 => "right",
        Ok(found) if found.wrong > 0 => "WRONG",
        Ok(found) if found.place => "place",
        _ => "none ",
    };
    match &row.result {
        Err(why) => format!("{mark} {:4} {}: {why}", user(row), row.fault.name),
        Ok(found) => {
            let wanted: Vec<String> =
                row.fault.causes.iter().map(|n| format!("{} at {}", n.cause, n.place)).collect();
            let (took, answered) = (seconds(found.millis), &found.answered);
            let wanted = wanted.join(" or ");
            format!("{mark} {:4} {} ({took} s): {answered}  [{wanted}]", user(row), row.fault.name)
        }
    }
}

pub(super) fn totals(rows: &[Row]) -> String {
    let mut text = String::from(
        "| user | kinds | asked | place right | cause right | wrong causes | slowest |\n|---|---|---|---|---|---|---|\n",
    );
    for user in [User::Root, User::Ordinary] {
        for (words, invented) in [("of the list", false), ("invented °", true)] {
            let of =
                |row: &&Row| row.user == user && row.fault.invented == invented && !row.skipped;
            let asked: Vec<&Row> = rows.iter().filter(of).collect();
            if asked.is_empty() {
                continue;
            }
            let done: Vec<&Scored> =
                asked.iter().filter_map(|row| row.result.as_ref().ok()).collect();
            let count = |which: fn(&Scored) -> bool| done.iter().filter(|s| which(s)).count();
            let share = |count: usize| percent(count, asked.len());
            let wrong: usize = done.iter().map(|scored| scored.wrong).sum();
            let slowest = done.iter().map(|scored| scored.millis).max().unwrap_or(0);
            let name = if user == User::Root { "root" } else { "ordinary" };
            let _ = writeln!(
                text,
                "| {name} | {words} | {} | {} | {} | {} | {} s |",
                asked.len(),
                share(count(|s| s.place)),
                share(count(|s| s.cause)),
                share(wrong),
                seconds(slowest)
            );
        }
    }
    text
}

fn percent(count: usize, all: usize) -> String {
    format!("{count} ({}.{} %)", count * 100 / all, count * 1000 / all % 10)
}

fn seconds(millis: u128) -> String {
    format!("{}.{}", millis / 1000, millis % 1000 / 100)
}

fn user(row: &Row) -> &'static str {
    if row.user == User::Root { "root" } else { "user" }
}
