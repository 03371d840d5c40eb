//! The log of a node's programs: two files used in turn, so its size is bounded.
//!
//! A record is a line `NANOSECONDS PROGRAM TEXT`: Unix time, the program's number in the file, and its
//! output. The init uses [`Writer`]; everybody else uses [`read`]. Each record is a single write: a crash
//! truncates the last line at most, and readers skip it until it is whole.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use netloom_model::lab::Program;
use serde::{Deserialize, Serialize};

/// File size in bytes after which the writer empties the other file and switches to it.
pub const FILE_LIMIT: u64 = 4 << 20;

/// Longest text of one record; longer lines are split.
pub const LINE_LIMIT: usize = 8 << 10;

/// One line of a program's output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Record {
    /// Unix time in nanoseconds.
    #[serde(with = "netloom_form::exact")]
    #[cfg_attr(feature = "schema", schema(value_type = netloom_form::schema::Exact))]
    pub time_ns: u64,
    /// Number of the program in the node's `run:`; the commands of `setup:` are numbered after those.
    pub program: usize,
    /// The program's name if the node has several. Not stored in the file: readers add it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The output without the line ending.
    pub text: String,
}

/// Writes records into two files in turn.
pub struct Writer {
    files: [File; 2],
    current: usize,
    written: u64,
    /// Time of the last record.
    last: Option<u64>,
}

impl Writer {
    /// A writer that starts with the first of two empty files.
    pub fn new(files: [File; 2]) -> Writer {
        Writer { files, current: 0, written: 0, last: None }
    }

    /// Both files' descriptors.
    pub(crate) fn descriptors(&self) -> [BorrowedFd<'_>; 2] {
        [self.files[0].as_fd(), self.files[1].as_fd()]
    }

    /// Adds one record. A full disk loses the record, not the program. Readers order records by their times, and ask for
    /// those after one: where the clock has stepped back, a record is the next nanosecond's.
    pub fn add(&mut self, time_ns: u64, program: usize, text: &[u8]) {
        let time_ns = self.last.map_or(time_ns, |last| time_ns.max(last.saturating_add(1)));
        self.last = Some(time_ns);
        let mut line = format!("{time_ns} {program} ").into_bytes();
        line.extend(text.iter().map(|b| if *b == b'\n' { b' ' } else { *b }));
        line.push(b'\n');
        if self.written + line.len() as u64 > FILE_LIMIT {
            self.current = 1 - self.current;
            self.written = 0;
            // If the file cannot be emptied, it only grows beyond its limit.
            let _ = self.files[self.current].set_len(0);
        }
        if self.files[self.current].write_all(&line).is_ok() {
            self.written += line.len() as u64;
        }
    }
}

/// All records of a node in time order, from its two files; a missing file counts as empty.
pub fn read(paths: &[impl AsRef<Path>]) -> Vec<Record> {
    let texts = paths.iter().map(|p| std::fs::read(p).unwrap_or_default());
    let mut records: Vec<Record> = texts.flat_map(|t| parse(&t)).collect();
    records.sort_by_key(|r| r.time_ns);
    records
}

/// Names of a node's programs in its log: their file names, with a number where several are equal (`sh`,
/// `sh#2`). Empty for a single program, which needs no name.
pub fn names(programs: &[Program]) -> Vec<String> {
    if programs.len() < 2 {
        return Vec::new();
    }
    let mut names: Vec<String> = Vec::new();
    for program in programs {
        let path = program.command.first().map_or("", String::as_str);
        let base = path.rsplit('/').next().unwrap_or(path);
        let same = |name: &&String| name.split('#').next() == Some(base);
        let before = names.iter().filter(same).count();
        names.push(if before == 0 { base.to_owned() } else { format!("{base}#{}", before + 1) });
    }
    names
}

/// Parses the text of one file, skipping incomplete lines.
pub fn parse(text: &[u8]) -> Vec<Record> {
    text.split_inclusive(|b| *b == b'\n').filter_map(parse_line).collect()
}

fn parse_line(line: &[u8]) -> Option<Record> {
    let line = line.strip_suffix(b"\n")?;
    let text = String::from_utf8_lossy(line);
    let mut parts = text.splitn(3, ' ');
    Some(Record {
        time_ns: parts.next()?.parse().ok()?,
        program: parts.next()?.parse().ok()?,
        name: None,
        text: parts.next()?.to_owned(),
    })
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn a_cut_or_foreign_line_is_left_out() {
        let records = parse(b"5 0 hello world\nnonsense\n7 1 \n9 0 cut");
        let texts: Vec<_> =
            records.iter().map(|r| (r.time_ns, r.program, r.text.as_str())).collect();
        assert_eq!(texts, [(5, 0, "hello world"), (7, 1, "")]);
    }

    #[test]
    fn several_programs_have_names_of_their_own() {
        let programs = |commands: &[&str]| -> Vec<String> {
            let command = |c: &&str| vec![(*c).to_owned()];
            let program = |c| Program::once(command(c));
            names(&commands.iter().map(program).collect::<Vec<_>>())
        };
        assert_eq!(programs(&["sh"]), [""; 0]);
        assert_eq!(programs(&["/bin/sh", "sleep", "sh"]), ["sh", "sleep", "sh#2"]);
    }

    #[test]
    fn records_stay_in_order_when_the_clock_steps_back() {
        let dir = tempfile::tempdir().unwrap();
        let paths = [dir.path().join("0"), dir.path().join("1")];
        let mut writer = Writer::new([0, 1].map(|n: usize| File::create(&paths[n]).unwrap()));
        for (time, text) in [(5000, "first"), (1000, "second"), (1000, "third"), (9000, "fourth")] {
            writer.add(time, 0, text.as_bytes());
        }
        let records = read(&paths);
        let found: Vec<_> = records.iter().map(|r| (r.time_ns, r.text.as_str())).collect();
        assert_eq!(found, [(5000, "first"), (5001, "second"), (5002, "third"), (9000, "fourth")]);
    }

    #[test]
    fn two_files_take_turns_and_stay_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let paths = [dir.path().join("0"), dir.path().join("1")];
        let open = |p: &Path| File::options().create(true).append(true).open(p).unwrap();
        let mut writer = Writer::new([open(&paths[0]), open(&paths[1])]);
        let text = vec![b'x'; 1000];
        for n in 0..10_000 {
            writer.add(n, 0, &text);
        }
        let sizes: u64 = paths.iter().map(|p| p.metadata().unwrap().len()).sum();
        assert!(sizes <= 2 * FILE_LIMIT, "{sizes}");
        let records = read(&paths);
        assert_eq!(records.last().map(|r| r.time_ns), Some(9_999));
        assert!(records.len() > 4000, "{}", records.len());
        assert!(records.windows(2).all(|w| w[1].time_ns == w[0].time_ns + 1));
    }
}
