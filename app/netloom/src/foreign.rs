//! Labs of other programs where a lab file is expected: found by their files, imported in memory.
//!
//! `netloom_foreign` reads them; here are the files, scripts that have to run first (module `script`), and what people
//! are told (module `report`).

mod disk;
mod report;
mod script;

use std::path::{Path, PathBuf};

use anyhow::Result;
use netloom_config::printable;
use netloom_foreign::{Files, Format, Import, Management, NOT_CHOSEN, Options, Verdict, recognise};

use crate::flags::{Importing, ManagementKind};

pub(crate) use report::{briefly, fully};
pub(crate) use script::run;

use disk::Disk;

/// A lab of another program, found at a path.
#[derive(Clone, Debug)]
pub(crate) struct Lab {
    pub(crate) format: Format,
    /// The folder that its relative paths start from.
    pub(crate) folder: PathBuf,
    /// The main file in it.
    pub(crate) file: String,
    /// What the file had when the lab was found. One that the caller has named may be a link to anywhere.
    content: Option<Vec<u8>>,
}

/// How standard input is called as the main file of a lab.
const INPUT: &str = "stdin";

/// A foreign lab that cannot be imported as it was asked for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    /// With `--strict`.
    #[error("{file}: {count} left out of the lab, which --strict refuses:\n{items}")]
    Strict {
        /// The main file.
        file: String,
        /// How many items, in words.
        count: String,
        /// A line for each.
        items: String,
    },
    /// By its own format's rules.
    #[error(transparent)]
    Import(#[from] netloom_foreign::Error),
    /// A script that made no record.
    #[error("{0}: {1}")]
    Script(String, String),
}

/// The foreign lab at a path, if it is one. A folder is looked through for the file that makes it one.
pub(crate) fn find(path: &Path) -> Option<Lab> {
    if path == Path::new(crate::input::STDIN) {
        let content = crate::input::read().ok()?;
        let format = recognise(INPUT, &content)?;
        let (folder, file) = (PathBuf::from("."), INPUT.to_owned());
        return Some(Lab { format, folder, file, content: Some(content) });
    }
    let (folder, file, content) = if path.is_dir() {
        let file = main_file(path)?;
        // Nobody has named it: it is the folder's, and leads nowhere else.
        let content = Disk::new(path).read(&file);
        (path.to_owned(), file, content)
    } else {
        let name = path.file_name()?.to_string_lossy().into_owned();
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        (parent.unwrap_or(Path::new(".")).to_owned(), name, Some(disk::read(path)?))
    };
    let format = recognise(&file, content.as_deref().unwrap_or_default())?;
    Some(Lab { format, folder, file, content })
}

/// The file of a folder that makes it a lab: `lab.conf`, `topology.yml`, or else the only one of a known format.
fn main_file(folder: &Path) -> Option<String> {
    // By name first: such a folder may hold files of other formats, of its devices.
    if folder.join("lab.conf").is_file() {
        return Some("lab.conf".to_owned());
    }
    if folder.join("topology.yml").is_file() {
        return Some("topology.yml".to_owned());
    }
    let ends = [".clab.yml", ".clab.yaml", ".clab.gotmpl", ".clab.yml.gotmpl", ".gns3", ".imn"];
    let names = std::fs::read_dir(folder).ok()?.flatten();
    let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut fits = names.filter(|name| ends.iter().any(|end| name.ends_with(end)));
    let first = fits.next()?;
    fits.next().is_none().then_some(first)
}

/// What libpcap says against an expression. Where it is missing, `up` says so.
fn expression_fault(expression: &str) -> Option<String> {
    match netloom_libpcap::compile(expression, 1) {
        Ok(_) | Err(netloom_libpcap::Error::Unsupported(_)) => None,
        Err(netloom_libpcap::Error::Expression { message, .. }) => Some(message),
        Err(error) => Some(netloom_sys::describe(&error)),
    }
}

impl Lab {
    /// The name that the lab has where its files give none: that of the file, or of Kathara's or netlab's folder.
    pub(crate) fn usual_name(&self) -> String {
        if matches!(self.format, Format::Kathara | Format::Netlab) {
            let folder = std::path::absolute(&self.folder).unwrap_or_else(|_| self.folder.clone());
            let name = folder.file_name().map(|name| name.to_string_lossy().into_owned());
            return name.unwrap_or_else(|| "lab".to_owned());
        }
        let mut name = self.file.as_str();
        for end in [".gotmpl", ".yml", ".yaml", ".clab", ".py", ".gns3", ".xml", ".imn", ".json"] {
            name = name.strip_suffix(end).unwrap_or(name);
        }
        name.to_owned()
    }

    /// The main file.
    pub(crate) fn path(&self) -> String {
        self.folder.join(&self.file).to_string_lossy().into_owned()
    }

    /// The main file as messages name it.
    pub(crate) fn shown(&self) -> String {
        printable::line(self.path().trim_start_matches("./")).into_owned()
    }

    /// Imports it; `base` stands before paths of its files.
    pub(crate) fn import(&self, base: &str, name: Option<&str>, how: &Importing) -> Result<Import> {
        let mut disk = Disk::new(&self.folder);
        let mut main = self.file.clone();
        if main.ends_with(".py") {
            let record = script::record(self, how.topo.as_deref())?;
            main = format!("{main}.json");
            disk.put(&main, record);
        } else if let Some(content) = &self.content {
            // What was recognised is what is imported, even if the file changes meanwhile.
            disk.put(&main, content.clone());
        }
        let management = match how.mgmt {
            ManagementKind::Closed => Management::Closed,
            ManagementKind::Nat => Management::Nat,
            ManagementKind::None => Management::None,
        };
        let name = name.map_or_else(|| self.usual_name(), str::to_owned);
        let env = std::env::vars_os();
        let env = env.filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)));
        let options = Options {
            name,
            base: base.to_owned(),
            env: env.collect(),
            management,
            host_programs: how.host_programs,
            only: how.node_filter.clone(),
            expression_fault: Some(expression_fault),
        };
        let import = netloom_foreign::import(&disk, &main, &options).map_err(Refused::Import)?;
        if how.strict {
            self.refuse_losses(&import)?;
        }
        Ok(import)
    }

    fn refuse_losses(&self, import: &Import) -> Result<(), Refused> {
        // An item left out by choice is not a loss.
        let chosen = Verdict::LeftOut(NOT_CHOSEN.to_owned());
        let lost = import.left_out().filter(|item| item.verdict != chosen);
        let items: Vec<String> = lost.map(|item| format!("  {item}")).collect();
        if items.is_empty() {
            return Ok(());
        }
        let count = match items.len() {
            1 => "1 item is".to_owned(),
            n => format!("{n} items are"),
        };
        Err(Refused::Strict { file: self.shown(), count, items: items.join("\n") })
    }
}
