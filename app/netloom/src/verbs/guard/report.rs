//! `guard report`: which program talked to which peer, from a log.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};

use anyhow::{Context, Result};
use netloom_guard::card::plain;
use netloom_guard::log::Entry;
use serde::Serialize;

use crate::flags::GuardReport;
use crate::output;

/// Longest line that is read, in bytes: arguments of a program may have 2 MiB, and escapes.
const LONGEST: u64 = 16 << 20;

/// Decisions that differ only in time, process and latency.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct Talk {
    program: String,
    direction: String,
    protocol: String,
    target: String,
    names: Vec<String>,
    answer: String,
}

/// How often, and when.
#[derive(Debug, Serialize)]
struct Times {
    count: u64,
    first: String,
    last: String,
}

/// A row of the JSON form.
#[derive(Debug, Serialize)]
struct Row<'r> {
    #[serde(flatten)]
    talk: &'r Talk,
    #[serde(flatten)]
    times: &'r Times,
}

/// `netloom guard report`
pub(super) fn report(args: &GuardReport) -> Result<i32> {
    let shown = args.log.display();
    let file = File::open(&args.log).with_context(|| format!("{shown}: open"))?;
    let (talks, wrong) = read(BufReader::new(file)).with_context(|| format!("{shown}: read"))?;
    if let Some(first) = wrong.first() {
        let lines = output::count(wrong.len(), "line");
        tell_line!("netloom: {shown}:{first}: {lines} not of a log of guard, left out");
    }
    if args.json {
        let rows: Vec<_> = talks.iter().map(|(talk, times)| Row { talk, times }).collect();
        output::print_json(&rows)?;
    } else {
        let rows = talks.iter().map(|(talk, times)| row(talk, times)).collect();
        let head = ["PROGRAM", "DIRECTION", "PROTOCOL", "TARGET", "ANSWER", "TIMES"];
        output::print(&output::table(&head, rows))?;
    }
    Ok(i32::from(!wrong.is_empty()))
}

type Talks = BTreeMap<Talk, Times>;

/// The log's entries, and the numbers of lines that are none.
fn read(mut log: impl BufRead) -> std::io::Result<(Talks, Vec<u64>)> {
    let (mut talks, mut wrong, mut line) = (Talks::new(), vec![], vec![]);
    for number in 1.. {
        line.clear();
        if (&mut log).take(LONGEST).read_until(b'\n', &mut line)? == 0 {
            break;
        }
        match Entry::parse(&line) {
            Some(entry) => add(&mut talks, entry),
            None => wrong.push(number),
        }
    }
    Ok((talks, wrong))
}

fn add(talks: &mut Talks, entry: Entry) {
    let Entry { time, program, direction, protocol, target, names, answer } = entry;
    let talk = Talk { program, direction, protocol, target, names, answer };
    let times = talks.entry(talk).or_insert_with(|| Times {
        count: 0,
        first: time.clone(),
        last: String::new(),
    });
    times.count += 1;
    times.last = time;
}

fn row(talk: &Talk, times: &Times) -> Vec<String> {
    let names = talk.names.join(", ");
    let target =
        if names.is_empty() { talk.target.clone() } else { format!("{names} {}", talk.target) };
    let words = [&talk.program, &talk.direction, &talk.protocol, &target, &talk.answer];
    words.into_iter().map(|word| plain(word)).chain([times.count.to_string()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_are_counted_and_other_lines_named() {
        let line = |time: &str, target: &str| {
            format!(
                "{{\"time\":\"{time}\",\"program\":\"/bin/x\\u001b[2J\",\"arguments\":[],\"direction\":\"out\",\
                 \"protocol\":\"tcp\",\"target\":\"{target}\",\"answer\":\"allow\",\"because\":\"rule\"}}\n"
            )
        };
        let log = line("1", "a") + "nothing\n" + &line("2", "a") + &line("3", "b") + "{\"time\":";
        let (talks, wrong) = read(log.as_bytes()).unwrap();
        assert_eq!(wrong, [2, 5]);
        let rows: Vec<_> = talks.iter().map(|(talk, times)| row(talk, times).join(" ")).collect();
        assert_eq!(
            rows,
            ["/bin/x\\u{1b}[2J out tcp a allow 2", "/bin/x\\u{1b}[2J out tcp b allow 1"]
        );
        let first = talks.values().next().unwrap();
        assert_eq!((first.first.as_str(), first.last.as_str()), ("1", "2"));
    }
}
