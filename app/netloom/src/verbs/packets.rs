//! `packets`: answers from a lab's recording, also while it is written.

use std::cell::LazyCell;
use std::collections::{BTreeMap, HashMap};
use std::fs::{OpenOptions, canonicalize};
use std::io::{BufWriter, IsTerminal, Write};
use std::net::IpAddr;
use std::path::Path;
use std::rc::Rc;

use anyhow::{Context, Result};
use netloom_config::printable;
use netloom_lab::view::{PacketSeen, link_of_question};
use netloom_lab::{Folder, not_recorded, recorder, runtime_dir, time_of};
use netloom_model::Plan;
use netloom_record::{Asked, Frame, Looked, Question, find_links, search};
use netloom_sighting::summary;

use super::record::chosen;
use crate::flags::Packets;
use crate::output::{count, print, utc};
use crate::whole_file::{self, Draft};
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
    let mut nodes = told.status.nodes.clone();
    nodes.extend(on_other_hosts(recording.lab()));
    let question = Question::read(&asked, &nodes)?;
    let is_running = recorder::find(&recording).is_ok_and(|found| found.is_some());
    let time = time_of((asked.last_ns, asked.since_ns, asked.until_ns));
    // Nothing may have been sent, or nobody recorded it.
    let tell_lacking = |looked: &Looked| {
        if looked.found == 0 {
            let lacking = not_recorded(&told.status, time, is_running);
            lacking.iter().for_each(|line| tell_line!("{line}"));
        }
    };
    if let Some(path) = &args.write {
        if !is_output(path) && is_in(path, recording.path()) {
            let text = format!("{path:?}: a file of the recording; write another");
            return Err(Usage(text).into());
        }
        let mut out = Export::open(path)?;
        let looked = search(&recording, &question, |frame| out.put(frame).map(|()| true))?;
        out.finish().with_context(|| format!("{path:?}: write"))?;
        tell_line!("{}", words(&looked));
        tell_lacking(&looked);
        return Ok(0);
    }
    let looked = search(&recording, &question, |frame| {
        let line = if args.json {
            netloom_form::to_string(&PacketSeen::from(frame))?
        } else {
            in_words(frame)
        };
        print(&format!("{line}\n")).map(|()| true)
    })?;
    if looked.found == 0 || looked.gone + looked.strange > 0 {
        tell_line!("{}", words(&looked));
        tell_lacking(&looked);
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

/// Addresses of nodes that other hosts make, of a host's part of a lab, by name.
fn on_other_hosts(lab: &str) -> BTreeMap<String, Vec<IpAddr>> {
    let state = runtime_dir().map(|runtime| Folder::new(&runtime, lab).read_state());
    let across = state.ok().and_then(Result::ok).flatten().and_then(|state| state.across);
    let mut nodes: BTreeMap<String, Vec<IpAddr>> = BTreeMap::new();
    for line in across.iter().flat_map(|across| across.names.lines()) {
        let mut words = line.split_whitespace();
        let Some(address) = words.next().and_then(|word| word.parse().ok()) else { continue };
        words.for_each(|name| nodes.entry(name.to_owned()).or_default().push(address));
    }
    nodes
}

/// The plan of a lab, if it runs and answers.
fn running(lab: &str) -> Option<Plan> {
    let folder = Folder::new(&runtime_dir().ok()?, lab);
    if !folder.exists().ok()? {
        return None;
    }
    netloom_session::Lab::plan(&labs::connect_to(&folder).ok()?).ok()
}

/// A frame in a line; its link has a name that a file says.
fn in_words(frame: &Frame) -> String {
    let (time, what) = (utc(frame.time_ns), summary(&frame.data));
    let text = format!("{time}  {}  {what}, {} bytes", frame.link, frame.original);
    printable::line(&text).into_owned()
}

fn words(looked: &Looked) -> String {
    let found = count(usize::try_from(looked.found).unwrap_or(usize::MAX), "packet");
    let mut text = format!("{found} found");
    for (segments, what) in [
        (looked.gone, "gave way meanwhile"),
        (looked.strange, "left out: of another version, or damaged"),
    ] {
        if segments > 0 {
            text.push_str(&format!("; {} {what}", count(segments, "segment")));
        }
    }
    text
}

/// Whether standard output is meant.
fn is_output(path: &Path) -> bool {
    path == Path::new("-")
}

/// Whether a file would be in a folder: it could take the place of a segment.
fn is_in(path: &Path, folder: &Path) -> bool {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = canonicalize(parent.unwrap_or(Path::new("."))).ok();
    parent.is_some() && parent == canonicalize(folder).ok()
}

/// A pcapng file, or standard output, with each link as an interface. A file takes its place when it is whole.
struct Export {
    out: BufWriter<Box<dyn Write>>,
    draft: Option<Draft>,
    interfaces: HashMap<Rc<str>, u32>,
    block: Vec<u8>,
}

impl Export {
    fn open(path: &Path) -> Result<Export> {
        let mut draft = None;
        let out: Box<dyn Write> = if is_output(path) {
            if std::io::stdout().is_terminal() {
                let text = "-w -: standard output is a terminal; lead it into a program";
                return Err(Usage(text.to_owned()).into());
            }
            Box::new(std::io::stdout())
        } else {
            let file = if whole_file::is_replaced(path) {
                Draft::begin(path).and_then(|begun| draft.insert(begun).file())
            } else {
                OpenOptions::new().write(true).open(path)
            };
            Box::new(file.with_context(|| format!("{path:?}: make"))?)
        };
        let (out, interfaces) = (BufWriter::new(out), HashMap::new());
        let mut export = Export { out, draft, interfaces, block: vec![] };
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

    fn finish(mut self) -> std::io::Result<()> {
        self.out.flush()?;
        self.draft.map_or(Ok(()), Draft::finish)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use netloom_pcap::read::{Item, Reader};

    use super::*;

    fn frame(link: &str) -> Frame {
        Frame {
            time_ns: 1_700_000_000_000_000_000,
            order_ns: 0,
            link: link.into(),
            original: 5,
            flags: 0,
            packet: 7,
            data: b"frame".to_vec(),
        }
    }

    #[test]
    fn segments_that_are_left_out_are_told() {
        let looked = Looked { found: 2, ..Looked::default() };
        assert_eq!(words(&looked), "2 packets found");
        assert_eq!(
            words(&Looked { gone: 1, strange: 3, ..looked }),
            "2 packets found; 1 segment gave way meanwhile; 3 segments left out: of another version, or damaged"
        );
    }

    #[test]
    fn a_line_is_one_whatever_a_link_is_called() {
        assert_eq!(
            in_words(&frame("a\u{1b}[2J\r\n--\u{202e}b")),
            format!(
                "2023-11-14T22:13:20.000000Z  a\\u{{1b}}[2J\\r\\n--\\u{{202e}}b  {}, 5 bytes",
                summary(b"frame")
            )
        );
    }

    #[test]
    fn a_file_is_replaced_when_the_new_one_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("old"), "old").unwrap();
        for name in ["old", "new"] {
            let mut half = Export::open(&path(name)).unwrap();
            half.put(&frame("a--b")).unwrap();
            half.out.flush().unwrap();
            assert_eq!(std::fs::read(path("old")).unwrap(), b"old");
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        for name in ["old", "new"] {
            let mut whole = Export::open(&path(name)).unwrap();
            ["a--b", "b--c", "a--b"].iter().for_each(|link| whole.put(&frame(link)).unwrap());
            whole.finish().unwrap();
            let content = std::fs::read(path(name)).unwrap();
            let (mut reader, mut packets) = (Reader::new(&content[..]).unwrap(), 0);
            while let Some(item) = reader.next().unwrap() {
                packets += u32::from(matches!(item, Item::Packet(_)));
            }
            assert_eq!(packets, 3, "{name}");
        }
        assert_eq!(path("new").metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn files_of_the_recording_are_known_by_their_folder() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        std::fs::create_dir_all(path("lab/inner")).unwrap();
        std::os::unix::fs::symlink("lab", path("link")).unwrap();
        for (name, is) in [
            ("lab/0000000001.pcapng", true),
            ("link/new", true),
            ("lab/inner/../new", true),
            ("lab/inner/new", false),
            ("new", false),
            ("none/new", false),
        ] {
            assert_eq!(is_in(&path(name), &path("lab")), is, "{name}");
        }
        assert!(!is_in(Path::new("new"), &path("none")));
    }
}
