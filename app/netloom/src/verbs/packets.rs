//! `packets`: answers from a lab's recording, also while it is written.

use std::cell::LazyCell;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::rc::Rc;

use anyhow::{Context, Result};
use netloom_lab::view::{PacketSeen, link_of_question};
use netloom_lab::{Folder, runtime_dir};
use netloom_model::Plan;
use netloom_record::{Asked, Frame, Looked, Question, find_links, search};
use netloom_sighting::summary;

use super::record::chosen;
use crate::flags::Packets;
use crate::output::{count, print, utc};
use crate::{Usage, labs};

/// `netloom packets`
pub(crate) fn packets(lab: Option<&str>, args: &Packets) -> Result<i32> {
    let recording = chosen(lab)?;
    let asked = Asked {
        words: args.words.clone(),
        links: links(&recording, &args.links)?,
        last_ns: args.last.map(|last| u64::try_from(last.as_nanos()).unwrap_or(u64::MAX)),
        since_ns: args.since,
        until_ns: args.until,
    };
    let told = recording.told();
    if let Some(problem) = told.problem {
        tell_line!("netloom: {problem}: nodes are not known by name");
    }
    let question = Question::read(&asked, &told.status.nodes)?;
    if let Some(path) = &args.write {
        let mut out = Export::open(path)?;
        let looked = search(&recording, &question, |frame| out.put(frame).map(|()| true))?;
        out.finish()?;
        tell_line!("{}", words(&looked));
        return Ok(0);
    }
    let looked = search(&recording, &question, |frame| {
        let line = if args.json {
            netloom_form::to_string(&PacketSeen::from(frame))?
        } else {
            let what = summary(&frame.data);
            format!("{}  {}  {what}, {} bytes", utc(frame.time_ns), frame.link, frame.original)
        };
        print(&format!("{line}\n")).map(|()| true)
    })?;
    if looked.found == 0 || looked.gone > 0 {
        tell_line!("{}", words(&looked));
    }
    Ok(0)
}

/// The links that are meant, by their names.
fn links(recording: &netloom_record::Folder, asked: &[String]) -> Result<Vec<String>> {
    // Names that were recorded need no lab.
    let plan = LazyCell::new(|| running(recording.lab()));
    let in_plan = |word: &str| match &*plan {
        Some(plan) => link_of_question(plan, word),
        None => Ok(None),
    };
    Ok(find_links(recording, asked, in_plan)?)
}

/// The plan of a lab, if it runs and answers.
fn running(lab: &str) -> Option<Plan> {
    let folder = Folder::new(&runtime_dir().ok()?, lab);
    if !folder.exists().ok()? {
        return None;
    }
    netloom_session::Lab::plan(&labs::connect_to(&folder).ok()?).ok()
}

fn words(looked: &Looked) -> String {
    let found = count(usize::try_from(looked.found).unwrap_or(usize::MAX), "packet");
    match looked.gone {
        0 => format!("{found} found"),
        gone => format!("{found} found; {} gave way meanwhile", count(gone, "segment")),
    }
}

/// A pcapng file, or standard output, with each link as an interface.
struct Export {
    out: BufWriter<Box<dyn Write>>,
    interfaces: HashMap<Rc<str>, u32>,
    block: Vec<u8>,
}

impl Export {
    fn open(path: &Path) -> Result<Export> {
        let out: Box<dyn Write> = if path == Path::new("-") {
            if std::io::stdout().is_terminal() {
                let text = "-w -: standard output is a terminal; lead it into a program";
                return Err(Usage(text.to_owned()).into());
            }
            Box::new(std::io::stdout())
        } else {
            let mut options = OpenOptions::new();
            let options = options.write(true).create(true).truncate(true).mode(0o600);
            let file: File = options.open(path).with_context(|| format!("{path:?}: make"))?;
            Box::new(file)
        };
        let mut export =
            Export { out: BufWriter::new(out), interfaces: HashMap::new(), block: vec![] };
        netloom_pcap::ng::section(
            &mut export.block,
            &netloom_pcap::ng::Section {
                application: concat!("netloom ", env!("CARGO_PKG_VERSION")),
                ..Default::default()
            },
        );
        export.write()?;
        Ok(export)
    }

    fn put(&mut self, frame: &Frame) -> Result<()> {
        let next = u32::try_from(self.interfaces.len()).unwrap_or(u32::MAX);
        let interface = *self.interfaces.entry(Rc::clone(&frame.link)).or_insert(next);
        if interface == next {
            let name = &frame.link;
            let link = netloom_pcap::ng::Interface { name, ..Default::default() };
            netloom_pcap::ng::interface(&mut self.block, &link);
        }
        netloom_pcap::ng::packet(
            &mut self.block,
            &netloom_pcap::ng::Packet {
                interface,
                time_ns: frame.time_ns,
                original: frame.original,
                data: &frame.data,
                flags: frame.flags,
                id: Some(frame.packet),
                ..Default::default()
            },
        );
        self.write()
    }

    fn write(&mut self) -> Result<()> {
        self.out.write_all(&self.block).context("packets: write")?;
        self.block.clear();
        Ok(())
    }

    fn finish(mut self) -> Result<()> {
        self.out.flush().context("packets: write")
    }
}
