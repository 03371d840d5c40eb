//! `record` and `packets` with `--on HOSTS`: each host records its part of a lab, keeps that, and answers from its own index.
//!
//! Only what was asked for crosses the network. Packets come by time, as the clock of each host has it. A host that does not answer
//! is named, and what the others have is shown.

use std::io::{BufRead, BufReader, Lines, Read};
use std::path::Path;
use std::process::ChildStdout;

use anyhow::Result;
use netloom_config::printable;
use netloom_lab::view::PacketSeen;
use netloom_model::Host;
use serde::Serialize;
use serde_json::{Value, json};

use super::elsewhere::{Lab, own_words};
use super::message::Ask;
use super::remote::{self, Running, Trouble, Waiting};
use super::verbs::refusal;
use crate::flags::{Packets, Record};
use crate::output::{print, print_json, utc};

/// The hosts that have a part of a lab, and why others do not answer.
fn parts(lab: &Lab) -> (Vec<&Host>, Vec<Trouble>) {
    let (mut hosts, mut troubles) = (vec![], vec![]);
    for (host, on) in lab.hosts.list.iter().zip(&lab.found) {
        if let Some(reason) = &on.reason {
            troubles.push(Trouble::of(&on.host, reason.clone()));
        } else if on.lab.is_some() {
            hosts.push(host);
        }
    }
    (hosts, troubles)
}

/// `netloom record VERB --on HOSTS`: on each host, one after the other.
pub(crate) fn record(lab: Option<&str>, verb: &Record, on: &Path) -> Result<i32> {
    let lab = Lab::find(lab, on)?;
    let (hosts, mut troubles) = parts(&lab);
    let (words, as_json): (Vec<String>, bool) = match verb {
        Record::Start(args) => (vec!["start".to_owned(), format!("--keep={}", args.keep)], false),
        Record::Stop(args) => (words_of("stop", args.json), args.json),
        Record::Status(args) => (words_of("status", args.json), args.json),
        Record::Delete(_) => (vec!["delete".to_owned()], false),
    };
    let words: Vec<String> = std::iter::once("record".to_owned()).chain(words).collect();
    let (mut code, mut all) = (0, vec![]);
    for host in hosts {
        let done = text(host, &Ask::Run { lab: lab.name.clone(), words: words.clone() });
        match done {
            Ok((ended, said)) if as_json => {
                code = code.max(ended);
                let recording: Value = serde_json::from_str(&said).unwrap_or_default();
                all.push(json!({"host": host.name, "recording": recording}));
            }
            Ok((ended, said)) => {
                code = code.max(ended);
                let lines = said.lines();
                print(
                    &lines
                        .map(|line| format!("host {:?}: {line}\n", host.name))
                        .collect::<String>(),
                )?;
                if ended != 0 {
                    // Its agent has written the reason to standard error.
                    tell_line!("netloom: host {:?} refuses", host.name);
                }
            }
            Err(trouble) => troubles.push(trouble),
        }
    }
    if as_json {
        print_json(&all)?;
    }
    if troubles.is_empty() { Ok(code) } else { Err(refusal(&troubles, "")) }
}

fn words_of(verb: &str, json: bool) -> Vec<String> {
    let flag = json.then(|| "--json".to_owned());
    std::iter::once(verb.to_owned()).chain(flag).collect()
}

/// All that a verb says on a host, and its exit code.
fn text(host: &Host, asked: &Ask) -> Result<(i32, String), Trouble> {
    let Running { mut output, waiting } = remote::begin(host, asked)?;
    let mut said = String::new();
    let read = output.read_to_string(&mut said);
    let code = waiting.end()?;
    read.map_err(|e| Trouble::of(&host.name, format!("its agent does not answer: {e}")))?;
    Ok((code, said))
}

/// A packet with the host that saw it.
#[derive(Serialize)]
struct Seen<'a> {
    host: &'a str,
    #[serde(flatten)]
    packet: &'a PacketSeen,
}

/// The packets of a host that are not shown yet.
struct Source<'h> {
    host: &'h str,
    lines: Lines<BufReader<ChildStdout>>,
    next: Option<PacketSeen>,
    waiting: Waiting,
}

impl<'h> Source<'h> {
    fn open(host: &'h Host, asked: &Ask) -> Result<Source<'h>, Trouble> {
        let Running { output, waiting } = remote::begin(host, asked)?;
        let lines = BufReader::new(output).lines();
        let mut source = Source { host: &host.name, lines, next: None, waiting };
        source.advance()?;
        Ok(source)
    }

    fn advance(&mut self) -> Result<(), Trouble> {
        let broken =
            |why: String| Trouble::of(self.host, format!("its agent does not answer: {why}"));
        self.next = match self.lines.next() {
            Some(line) => {
                let line = line.map_err(|e| broken(e.to_string()))?;
                Some(netloom_form::read(line.as_bytes()).map_err(broken)?)
            }
            None => None,
        };
        Ok(())
    }
}

/// `netloom packets --on HOSTS`
pub(crate) fn packets(lab: Option<&str>, args: &Packets, on: &Path) -> Result<i32> {
    let lab = Lab::find(lab, on)?;
    let (hosts, mut troubles) = parts(&lab);
    let mut words = own_words(std::env::args().skip(1));
    if !args.json {
        // Behind the verb: a filter may come after `--`.
        let at = words.iter().position(|word| word == "packets").map_or(0, |at| at + 1);
        words.insert(at, "--json".to_owned());
    }
    let asked = Ask::Run { lab: lab.name.clone(), words };
    let mut sources = vec![];
    for host in hosts {
        match Source::open(host, &asked) {
            Ok(source) => sources.push(source),
            Err(trouble) => troubles.push(trouble),
        }
    }
    let time = |source: &Source<'_>| source.next.as_ref().map(|packet| packet.time_ns);
    // The first of those that are next; of equal times that of the first host.
    while let Some(source) =
        sources.iter_mut().filter(|source| source.next.is_some()).min_by_key(|s| time(s))
    {
        let Some(packet) = source.next.take() else { break };
        let line = match args.json {
            true => netloom_form::to_string(&Seen { host: source.host, packet: &packet })?,
            false => in_words(source.host, &packet),
        };
        print(&format!("{line}\n"))?;
        if let Err(trouble) = source.advance() {
            troubles.push(trouble);
        }
    }
    let mut code = 0;
    for source in sources {
        match source.waiting.end() {
            Ok(ended) => code = code.max(ended),
            Err(trouble) => troubles.push(trouble),
        }
    }
    if troubles.is_empty() {
        Ok(code)
    } else {
        Err(refusal(&troubles, "\nthese packets are those of the other hosts"))
    }
}

fn in_words(host: &str, packet: &PacketSeen) -> String {
    let PacketSeen { time_ns, link, summary, bytes, .. } = packet;
    let text = format!("{}  {host}  {link}  {summary}, {bytes} bytes", utc(*time_ns));
    printable::line(&text).into_owned()
}
