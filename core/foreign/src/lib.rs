//! Labs of other programs: their files in, the text of a lab file and an account of every item out.
//!
//! [`recognise`] tells whose a file is, [`import`] reads it. Formats: containerlab's YAML, Kathara's folders, GNS3's
//! projects, CORE's XML, IMUNES's files, netlab's topologies, and what the stand-in for Mininet's package recorded of a script. Every key,
//! line and file of the input is an [`Item`] with a [`Verdict`]; one that no reader knows is left out and says so, so
//! nothing is dropped silently. [`export()`] is the way back to containerlab.
//!
//! Files come through [`Files`]; nothing here opens one. Work is bounded by the sizes below.

#![forbid(unsafe_code)]

mod at;
mod clab;
mod closed;
mod core_xml;
mod draft;
mod export;
mod frr;
mod gns3;
mod imunes;
mod kathara;
pub mod kubernetes;
mod ledger;
mod mininet;
mod netlab;
mod ports;
mod refused;
mod service;
mod settle;
mod shell;
mod source;
mod write;

use std::cell::RefCell;
use std::collections::BTreeMap;

use netloom_config::{Diagnostics, Node, Report, printable};
use netloom_model::Plan;
use netloom_model::published::Published;

pub use export::{Exported, c9s, export};
pub use ledger::{Item, Verdict};
pub use mininet::STAND_IN;
pub use source::{Files, Found, Memory};

use crate::ledger::Ledger;

/// Most bytes of a single file that is read.
pub const MOST_BYTES: u64 = netloom_config::MAX_BYTES;

/// Most files that are taken over from folders.
pub const MOST_FILES: usize = 20_000;

/// A program whose labs can be imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// containerlab: `NAME.clab.yml`.
    Containerlab,
    /// Kathara, and Netkit before it: a folder with `lab.conf`.
    Kathara,
    /// A script for Mininet, or a record of one ([`RECORD`]).
    Mininet,
    /// A project of GNS3.
    Gns3,
    /// A scenario of CORE in XML.
    Core,
    /// A network of IMUNES.
    Imunes,
    /// A topology of netlab: `topology.yml`.
    Netlab,
}

/// The key by which a record of a Mininet script is known.
pub const RECORD: &str = "netloom-mininet-record";

impl Format {
    /// Its name as a person writes it.
    pub fn name(self) -> &'static str {
        match self {
            Format::Containerlab => "containerlab",
            Format::Kathara => "Kathara",
            Format::Mininet => "Mininet",
            Format::Gns3 => "GNS3",
            Format::Core => "CORE",
            Format::Imunes => "IMUNES",
            Format::Netlab => "netlab",
        }
    }
}

/// What becomes of containerlab's management network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Management {
    /// A switch that leads nowhere.
    #[default]
    Closed,
    /// A switch with a door to the host's network.
    Nat,
    /// None: nodes have no `eth0`.
    None,
}

/// What is wrong with an expression of pcap-filter(7), if anything is.
pub type Fault = fn(&str) -> Option<String>;

/// How to import.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The lab's name where the files give none.
    pub name: String,
    /// What stands before paths of the other lab's files in the lab file.
    pub base: String,
    /// Variables of the environment.
    pub env: BTreeMap<String, String>,
    /// Of containerlab's labs.
    pub management: Management,
    /// Whether nodes run the host's programs, although the lab names images.
    pub host_programs: bool,
    /// The nodes that are wanted, of containerlab, Kathara and netlab; all if it names none.
    pub only: Vec<String>,
    /// Finds faults of expressions; without it they are taken as they are.
    pub expression_fault: Option<Fault>,
}

/// An imported lab.
#[derive(Clone, Debug)]
pub struct Import {
    /// Whose it was.
    pub format: Format,
    /// The text of a lab file.
    pub lab: String,
    /// What the text means.
    pub read: netloom_model::Lab,
    /// Its plan.
    pub plan: Plan,
    /// What became of each item, by file and line.
    pub items: Vec<Item>,
}

impl Import {
    /// Items that are not in the lab file.
    pub fn left_out(&self) -> impl Iterator<Item = &Item> {
        self.items.iter().filter(|item| matches!(item.verdict, Verdict::LeftOut(_)))
    }

    /// Items that are there in another way.
    pub fn changed(&self) -> impl Iterator<Item = &Item> {
        self.items.iter().filter(|item| matches!(item.verdict, Verdict::Changed(_)))
    }
}

/// Why an item of a node that [`Options::only`] does not name is left out.
pub const NOT_CHOSEN: &str = "of a node that --node-filter does not name";

/// Why there is no import.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file breaks its format's own rules.
    #[error("{}:{line}: error: {}", printable::line(file), printable::line(message))]
    Wrong {
        /// The file.
        file: String,
        /// Line, from 1.
        line: u32,
        /// The fault, and the remedy.
        message: String,
    },
    /// Errors in a file's YAML or JSON.
    #[error("{0}")]
    Text(Diagnostics),
    /// A file that is needed is not there, or too large.
    #[error("{}: {problem}", printable::line(file))]
    Unreadable {
        /// The file.
        file: String,
        /// Why it cannot be read.
        problem: &'static str,
    },
    /// The import makes a lab file with errors, or no lab that can be planned.
    #[error("the import of {} does not make a lab: {problem}", printable::line(file))]
    NoLab {
        /// The file imported.
        file: String,
        /// The errors of the lab file.
        problem: String,
        /// The text as far as it goes.
        lab: String,
    },
    /// [`Options::only`] names a node that the lab does not have.
    #[error(
        "{}: --node-filter: no node {name:?}; the lab has {}",
        printable::line(file),
        printable::line(known)
    )]
    NoNode {
        /// The file.
        file: String,
        /// The name that no node has.
        name: String,
        /// The names that are nodes'.
        known: String,
    },
    /// [`Options::only`] for a format whose nodes cannot be chosen.
    #[error(
        "{}: --node-filter chooses nodes of containerlab, Kathara and netlab, not of {format}",
        printable::line(file)
    )]
    NoChoice {
        /// The file.
        file: String,
        /// Its format's name.
        format: &'static str,
    },
    /// Nobody's lab that can be imported.
    #[error(
        "{}: no lab of containerlab, Kathara, Mininet, GNS3, CORE, IMUNES or netlab",
        printable::line(file)
    )]
    Strange {
        /// The file.
        file: String,
    },
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

pub(crate) fn wrong(file: &str, line: u32, message: impl Into<String>) -> Error {
    Error::Wrong { file: file.to_owned(), line, message: message.into() }
}

/// Whose lab a file is, by its name and its content. A folder is given by the file in it that counts.
pub fn recognise(file: &str, content: &[u8]) -> Option<Format> {
    let name = file.rsplit('/').next().unwrap_or(file).to_ascii_lowercase();
    // Marks of a format stand near the beginning; a strange file may be long.
    let text = String::from_utf8_lossy(&content[..content.len().min(1 << 20)]);
    let start = text.trim_start_matches('\u{feff}').trim_start();
    match () {
        () if name == "lab.conf" => Some(Format::Kathara),
        () if [".gotmpl", ".clab.yml", ".clab.yaml"].iter().any(|end| name.ends_with(end)) => {
            Some(Format::Containerlab)
        }
        // Endings first: they are the formats' own. Contents decide where a name says nothing.
        () if name.ends_with(".py") => Some(Format::Mininet),
        () if name.ends_with(".gns3") => Some(Format::Gns3),
        () if name.ends_with(".imn") => Some(Format::Imunes),
        () if start.starts_with('<') && text.contains("<scenario") => Some(Format::Core),
        () if start.starts_with('{') && text.contains(RECORD) => Some(Format::Mininet),
        () if start.starts_with('{') && text.contains("\"project_id\"") => Some(Format::Gns3),
        () if text.lines().any(|line| line.trim_end().starts_with("topology:")) => {
            Some(Format::Containerlab)
        }
        () if is_netlab(&name, &text) => Some(Format::Netlab),
        () => None,
    }
}

/// Whether a text has words of netlab that no lab file has: which program runs the nodes, or what they all are. In a
/// file of netlab's own name what a single node or group is suffices.
fn is_netlab(name: &str, text: &str) -> bool {
    if text.trim_start().starts_with('{') {
        let has = |word: &str| text.contains(&format!("\"{word}\":"));
        return has("nodes") && ["defaults.device", "provider", "module"].iter().any(|w| has(w));
    }
    let starts = |word: &str| text.lines().any(|line| line.starts_with(word));
    let is_device = |line: &str| {
        let inline = line.contains("{device:") || line.contains(", device:");
        inline || line.trim_start().starts_with("device:") && line.starts_with(' ')
    };
    let named = starts("defaults:") || ["topology.yml", "topology.yaml"].contains(&name);
    let all = named && text.lines().any(is_device);
    let words = ["defaults.device:", "provider:", "module:"];
    (all || words.iter().any(|w| starts(w))) && (starts("nodes:") || starts("groups:"))
}

/// Imports a lab: `file` is its main file in `files`.
///
/// # Errors
/// What the format itself does not allow, and a lab that netloom cannot plan. What netloom only cannot carry over is
/// no error, but an item of the account.
pub fn import(files: &dyn Files, file: &str, options: &Options) -> Result<Import> {
    let content = source::needed(files, file)?;
    let strange = || Error::Strange { file: file.to_owned() };
    let format = recognise(file, &content).ok_or_else(strange)?;
    let can_choose = matches!(format, Format::Containerlab | Format::Kathara | Format::Netlab);
    if !options.only.is_empty() && !can_choose {
        return Err(Error::NoChoice { file: file.to_owned(), format: format.name() });
    }
    let ledger = Ledger::default();
    let job = Job { files, file, options, ledger: &ledger, ports: RefCell::default() };
    let mut draft = match format {
        Format::Containerlab => clab::read(&job, &content),
        Format::Kathara => kathara::read(&job, &content),
        Format::Mininet => mininet::read(&job, &content),
        Format::Gns3 => gns3::read(&job, &content),
        Format::Core => core_xml::read(&job, &content),
        Format::Imunes => imunes::read(&job, &content),
        Format::Netlab => netlab::read(&job, &content),
    }?;
    if draft.name.is_empty() {
        draft.name = lab_name(&options.name);
    }
    // A record of a script stands beside it.
    let source = file.strip_suffix(".json").filter(|name| name.ends_with(".py")).unwrap_or(file);
    // First what is known to need another form: what `refused` meets it can only take out.
    settle::settle(&mut draft, source, &ledger);
    let from = format!("{file} ({})", format.name());
    let (lab, read, plan) =
        refused::planned(&mut draft, (source, &from, &options.base), &ledger)
            .map_err(|(lab, problem)| Error::NoLab { file: file.to_owned(), problem, lab })?;
    Ok(Import { format, lab, read, plan, items: ledger.close() })
}

/// An import at work.
pub(crate) struct Job<'a> {
    pub(crate) files: &'a dyn Files,
    /// The main file.
    pub(crate) file: &'a str,
    pub(crate) options: &'a Options,
    pub(crate) ledger: &'a Ledger,
    /// The ports of the host that nodes have so far.
    pub(crate) ports: RefCell<Vec<Published>>,
}

impl Job<'_> {
    /// Whether a node of this name is wanted.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.options.only.is_empty() || self.options.only.iter().any(|only| only == name)
    }

    /// Refuses a choice of nodes that the lab does not have.
    pub(crate) fn check_choice(&self, known: &[&str]) -> Result<()> {
        match self.options.only.iter().find(|only| !known.contains(&only.as_str())) {
            Some(name) => Err(Error::NoNode {
                file: self.file.to_owned(),
                name: name.clone(),
                known: if known.is_empty() { "none".to_owned() } else { known.join(", ") },
            }),
            None => Ok(()),
        }
    }

    /// The tree of YAML or JSON.
    pub(crate) fn tree(&self, file: &str, content: &[u8]) -> Result<Node> {
        let mut report = Report::new(file);
        match netloom_config::load(content, &mut report) {
            Some(tree) if report.is_empty() => Ok(tree),
            _ => Err(Error::Text(report.finish())),
        }
    }
}

/// A valid lab name that is like another.
pub(crate) fn lab_name(wish: &str) -> String {
    let mut name = valid_name(wish);
    name.truncate(63);
    if name.is_empty() { "lab".to_owned() } else { name }
}

/// A valid name of a node or switch that is like another; empty if there is none.
pub(crate) fn valid_name(wish: &str) -> String {
    let kept = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let name: String = wish.chars().map(|c| if kept(c) { c } else { '-' }).collect();
    let mut name = name.trim_start_matches(['-', '_', '.']).to_owned();
    // Below the bound of 253, so that a number for a second one of the name fits behind it.
    name.truncate(200);
    if ["host", "internet", "localhost", "nowhere"].contains(&name.as_str()) {
        name.push_str("-1");
    }
    name
}

#[cfg(test)]
extern crate self as netloom_foreign;

#[cfg(test)]
#[path = "../tests/all.rs"]
mod integration;
