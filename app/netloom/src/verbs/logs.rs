//! `logs`: output of programs in nodes.
//!
//! A line is preceded by the node if several are shown, and by the program if the node has several. Lines of
//! several nodes read together are in time order.

use std::io::IsTerminal;
use std::time::Duration;

use anyhow::Result;
use netloom_api::Client;
use netloom_config::printable;
use netloom_lab::call::Within;
use netloom_lab::calls::{ListNodes, ReadLog, ShowPlan};
use netloom_lab::view::LogLine;
use netloom_model::plan::PlannedNode;
use netloom_node::log::Record;

use crate::flags::Logs;
use crate::{labs, output};

/// How long the lab may wait for new lines of a single node.
const WAIT: Duration = Duration::from_secs(5);

/// Pause between two checks of several nodes.
const LOOK: Duration = Duration::from_millis(100);

/// `netloom logs`
pub(crate) fn logs(lab: Option<&str>, args: &Logs) -> Result<i32> {
    let client = labs::connect(lab)?;
    let mut reader = match args.nodes.as_slice() {
        [one] => Reader::of_one(one),
        [] => Reader::of_several(talkers(&client)?),
        several => Reader::of_several(several.to_vec()),
    };
    let mut lines = reader.read(&client, Duration::ZERO)?;
    if let Some(last) = args.lines {
        lines = last_of_each(lines, last);
    }
    loop {
        for line in &lines {
            output::print(&reader.text(line, args.timestamps))?;
        }
        if !args.follow || reader.nodes.is_empty() {
            return Ok(0);
        }
        // Nodes are asked one after the other: a wait at a silent one would hold back the lines of
        // the rest.
        let wait = if reader.nodes.len() == 1 { WAIT } else { Duration::ZERO };
        lines = match reader.read(&client, wait) {
            // The lab was taken down while its log was followed.
            Err(netloom_api::Error::NotRunning(_) | netloom_api::Error::Closed { .. }) => {
                return Ok(0);
            }
            read => read?,
        };
        if lines.is_empty() && wait.is_zero() {
            std::thread::sleep(LOOK);
        }
    }
}

/// Nodes with possible output: those with programs, and those that died.
fn talkers(client: &Client) -> netloom_api::Result<Vec<String>> {
    let has_commands = |n: &PlannedNode| !n.setup.is_empty() || !n.exec.is_empty();
    let commands: Vec<bool> =
        client.call(&ShowPlan { of: Within::ALL })?.nodes.iter().map(has_commands).collect();
    let nodes = client.call(&ListNodes::whole())?.into_iter().enumerate();
    let may = |i: usize| commands.get(i).copied().unwrap_or(false);
    let talks = nodes.filter(|(i, n)| !n.alive || !n.programs.is_empty() || may(*i));
    Ok(talks.map(|(_, n)| n.name).collect())
}

/// The last lines of each node, in unchanged order.
fn last_of_each(lines: Vec<Line>, last: usize) -> Vec<Line> {
    let mut kept: Vec<Line> = Vec::new();
    let mut left = std::collections::BTreeMap::new();
    for line in lines.into_iter().rev() {
        let left = left.entry(line.node).or_insert(last);
        if *left > 0 {
            *left -= 1;
            kept.push(line);
        }
    }
    kept.reverse();
    kept
}

/// A line of a node's output.
pub(super) struct Line {
    /// Index into the reader's nodes.
    node: usize,
    record: Record,
}

/// Reads nodes' logs from the last position.
pub(super) struct Reader {
    nodes: Vec<String>,
    /// By node: the time of the last line read.
    seen: Vec<u64>,
    /// Width of the node column; 0 for none.
    width: usize,
    /// A person reads it.
    on_terminal: bool,
}

impl Reader {
    /// For one node, whose name the lines omit.
    fn of_one(node: &str) -> Reader {
        let on_terminal = std::io::stdout().is_terminal();
        Reader { nodes: vec![node.to_owned()], seen: vec![0], width: 0, on_terminal }
    }

    /// For several nodes, named in each line.
    pub(super) fn of_several(nodes: Vec<String>) -> Reader {
        let width = nodes.iter().map(String::len).max().unwrap_or(0);
        let on_terminal = std::io::stdout().is_terminal();
        Reader { seen: vec![0; nodes.len()], nodes, width, on_terminal }
    }

    /// New lines in time order; waits up to `wait` for each node.
    pub(super) fn read(
        &mut self,
        client: &Client,
        wait: Duration,
    ) -> netloom_api::Result<Vec<Line>> {
        let mut lines = Vec::new();
        for (node, (name, seen)) in self.nodes.iter().zip(&mut self.seen).enumerate() {
            for LogLine { record, .. } in client.call(&ReadLog::of(name, *seen, wait))? {
                *seen = record.time_ns;
                lines.push(Line { node, record });
            }
        }
        lines.sort_by_key(|line| line.record.time_ns);
        Ok(lines)
    }

    /// A line for display.
    pub(super) fn text(&self, line: &Line, timestamps: bool) -> String {
        let Line { node, record } = line;
        let mut text = String::new();
        if timestamps {
            text = output::utc(record.time_ns) + " ";
        }
        let program = record.name.as_deref();
        match (self.width, program) {
            (0, None) => {}
            (0, Some(program)) => text += &format!("{program} | "),
            (width, None) => text += &format!("{:<width$} | ", self.nodes[*node]),
            (width, Some(program)) => {
                text += &format!("{:<width$} {program} | ", self.nodes[*node]);
            }
        }
        match self.on_terminal {
            true => text + &tamed(&record.text) + "\n",
            false => text + &record.text + "\n",
        }
    }
}

/// What a program said, for a terminal: colours end with the line, and all else that would change the terminal is shown.
fn tamed(said: &str) -> String {
    let (mut text, mut rest, mut is_coloured) = (String::new(), said, false);
    while let Some(at) = rest.find("\u{1b}[") {
        let after =
            rest[at + 2..].trim_start_matches(|c: char| c.is_ascii_digit() || ";:".contains(c));
        // Of what begins so, only `m` is about colours (ECMA-48, SGR).
        let end = rest.len() - after.len();
        let (other, sequence) = rest[..end + usize::from(after.starts_with('m'))].split_at(at);
        text += &printable::lines(other);
        if sequence.ends_with('m') {
            text += sequence;
            is_coloured = true;
        } else {
            text += &printable::lines(sequence);
        }
        rest = &rest[at + sequence.len()..];
    }
    text += &printable::lines(rest);
    if is_coloured {
        text += "\u{1b}[0m";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(node: usize, time_ns: u64, name: Option<&str>) -> Line {
        let name = name.map(str::to_owned);
        Line { node, record: Record { time_ns, program: 0, name, text: format!("at {time_ns}") } }
    }

    #[test]
    fn lines_say_whose_they_are_where_that_is_not_clear() {
        let one = Reader::of_one("web");
        assert_eq!(one.text(&line(0, 7, None), false), "at 7\n");
        assert_eq!(one.text(&line(0, 7, Some("sh")), false), "sh | at 7\n");
        assert_eq!(one.text(&line(0, 7000, None), true), "1970-01-01T00:00:00.000007Z at 7000\n");
        let two = Reader::of_several(vec!["web".into(), "a".into()]);
        assert_eq!(two.text(&line(1, 7, None), false), "a   | at 7\n");
        assert_eq!(two.text(&line(0, 7, Some("sh#2")), false), "web sh#2 | at 7\n");
    }

    #[test]
    fn what_programs_say_changes_no_terminal_but_by_colours() {
        assert_eq!(tamed("plain\tas it is"), "plain\tas it is");
        let said =
            "a\u{1b}[1;31mred\u{1b}[2J\u{1b}]0;title\u{7}\u{9b}31m\u{202e}\u{1b}[38:5:1mb\u{1b}[";
        let shown = "a\u{1b}[1;31mred\\u{1b}[2J\\u{1b}]0;title\\u{7}\\u{9b}31m\\u{202e}\u{1b}[38:5:1mb\\u{1b}[\u{1b}[0m";
        assert_eq!(tamed(said), shown);
        let one = Reader { on_terminal: true, ..Reader::of_one("web") };
        let record = Record { time_ns: 7, program: 0, name: None, text: "\u{1b}c".to_owned() };
        assert_eq!(one.text(&Line { node: 0, record }, false), "\\u{1b}c\n");
    }

    #[test]
    fn the_last_lines_are_those_of_each_node() {
        let lines = [(0, 1), (1, 2), (0, 3), (0, 4), (1, 5)].map(|(n, t)| line(n, t, None));
        let kept = last_of_each(lines.into(), 2);
        let times: Vec<u64> = kept.iter().map(|l| l.record.time_ns).collect();
        assert_eq!(times, [2, 3, 4, 5]);
    }
}
