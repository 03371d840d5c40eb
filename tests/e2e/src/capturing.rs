//! Captures by the binary: started, ended, their accounts; and what a capture file holds, read here once
//! more by a reader of its own (pcapng: draft-ietf-opsawg-pcapng; pcap: draft-ietf-opsawg-pcap).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Child;

use serde_json::Value;

use crate::live::SOON;
use crate::{Machine, signal, wait_until};

/// A capture that runs; killed when it is dropped.
#[derive(Debug)]
pub struct Capturing {
    child: Option<Child>,
    file: PathBuf,
}

impl Capturing {
    /// Starts `netloom capture ARGS -w FILE --json` in the machine's folder and waits until it captures:
    /// the file is made when all its engines are open.
    ///
    /// # Panics
    /// When it ends before.
    pub fn start(machine: &Machine, args: &str, file: &str) -> Capturing {
        let file = machine.scratch().path().join(file);
        let mut words: Vec<String> = vec!["capture".to_owned(), "--json".to_owned()];
        words.extend(args.split(' ').map(str::to_owned));
        words.extend(["-w".to_owned(), file.display().to_string()]);
        let mut run = Capturing { child: Some(machine.netloom(&words).spawn()), file };
        run.wait_until_it_captures();
        run
    }

    fn wait_until_it_captures(&mut self) {
        let folder = self.file.parent().expect("a file lies in a folder").to_owned();
        let stem = self.file.file_stem().expect("a file has a name").to_owned();
        let stem = format!("{}_0", stem.to_string_lossy());
        let file = self.file.clone();
        let child = self.child.as_mut().expect("it runs");
        wait_until("the capture has made its file", SOON, || {
            // One with limits may be done already.
            let ended = child.try_wait().expect("look at the capture");
            assert!(ended.is_none_or(|status| status.success()), "it ended: {ended:?}");
            // Those that are rotated have a number behind this.
            (file.exists() || !files(&folder, &stem).is_empty()).then_some(())
        });
    }

    /// Its process.
    ///
    /// # Panics
    /// Never: it is there until it is ended.
    pub fn pid(&self) -> i32 {
        self.child.as_ref().expect("it runs").id().cast_signed()
    }

    /// Ends it as Ctrl-C does; its account.
    pub fn stop(self) -> Account {
        signal(self.pid(), rustix::process::Signal::INT);
        self.finish(0)
    }

    /// Waits for its end with this exit code; its account.
    ///
    /// # Panics
    /// When it does not end, or with another code.
    pub fn finish(mut self, code: i32) -> Account {
        let mut child = self.child.take().expect("it runs");
        let ended = wait_until("the capture ends", SOON, || child.try_wait().expect("wait"));
        let out = child.wait_with_output().expect("its output");
        let errors = String::from_utf8_lossy(&out.stderr).into_owned();
        let text = String::from_utf8_lossy(&out.stdout);
        assert_eq!(ended.code(), Some(code), "{text}\n{errors}");
        let value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}\n{errors}"));
        Account { value, errors }
    }

    /// Kills it without a chance to write anything more.
    ///
    /// # Panics
    /// When it has ended before.
    pub fn kill(mut self) {
        let mut child = self.child.take().expect("it runs");
        child.kill().expect("kill the capture");
        let status = child.wait().expect("wait");
        assert_eq!(status.code(), None, "it had ended before: {status}");
    }
}

impl Drop for Capturing {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended by itself.
            drop(child.kill());
            drop(child.wait());
        }
    }
}

/// What a capture said at its end.
#[derive(Debug)]
pub struct Account {
    /// Its JSON.
    pub value: Value,
    /// What it wrote to standard error.
    pub errors: String,
}

impl Account {
    /// A figure of all interfaces.
    ///
    /// # Panics
    /// When there is none of this name.
    pub fn total(&self, key: &str) -> u64 {
        self.value["total"][key].as_u64().unwrap_or_else(|| panic!("{key}: {}", self.value))
    }

    /// Frames written, by the interface's name.
    ///
    /// # Panics
    /// When the account has another shape.
    pub fn written(&self) -> BTreeMap<String, u64> {
        let interfaces = self.value["interfaces"].as_array().expect("a list of interfaces");
        let one = |i: &Value| {
            let name = i["name"].as_str().expect("a name").to_owned();
            (name, i["ledger"]["written"].as_u64().expect("a number"))
        };
        interfaces.iter().map(one).collect()
    }

    /// Asserts that it closes and that nothing was lost, in all and on each interface.
    ///
    /// # Panics
    /// When it does not.
    pub fn closes(&self) {
        assert_eq!(self.value["difference"], 0, "{}", self.value);
        let all = self.value["interfaces"].as_array().expect("a list of interfaces");
        let ledgers = all.iter().map(|interface| &interface["ledger"]);
        for ledger in ledgers.chain([&self.value["total"]]) {
            let of = |key: &str| ledger[key].as_u64().expect("a number");
            let lost = ledger["lost"].as_object().expect("an object");
            assert!(lost.values().all(|count| *count == 0), "{ledger}");
            assert_eq!(of("offered"), of("filtered") + of("written"), "{ledger}");
        }
    }
}

/// The files of a folder whose names begin so, in the order of their names.
///
/// # Panics
/// When the folder cannot be read.
pub fn files(folder: &Path, stem: &str) -> Vec<PathBuf> {
    let all = std::fs::read_dir(folder).expect("read the folder").flatten();
    let ours = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(stem))
    };
    let mut found: Vec<PathBuf> = all.map(|entry| entry.path()).filter(ours).collect();
    found.sort();
    found
}

/// A frame in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The number of its interface in the file.
    pub interface: u32,
    /// When it passed: nanoseconds (microseconds in a classic file of those) of Unix time.
    pub time: u64,
    /// Its length when it passed.
    pub length: u32,
    /// The kept part of it.
    pub bytes: Vec<u8>,
}

impl Packet {
    /// The number in a datagram of [`Machine::datagrams`].
    pub fn number(&self) -> Option<u32> {
        let bytes = &self.bytes;
        let is_ours = bytes.len() >= 46
            && bytes[12..15] == [8, 0, 0x45]
            && bytes[23] == 17
            && bytes[36..38] == 9_u16.to_be_bytes();
        is_ours.then(|| u32_be(&bytes[42..46]))
    }
}

/// What a capture file holds.
#[derive(Debug, Default)]
pub struct Contents {
    /// Names of interfaces, in their order.
    pub names: Vec<String>,
    /// Frames, in their order.
    pub packets: Vec<Packet>,
    /// How often each type of block is there.
    pub blocks: BTreeMap<u32, usize>,
    /// Frames that were lost until the last counters (`isb_ifdrop`).
    pub lost: u64,
}

impl Contents {
    /// Numbers of datagrams seen at an interface.
    pub fn numbers(&self, interface: &str) -> Vec<u32> {
        let at = self.names.iter().position(|name| name == interface);
        let here = self.packets.iter().filter(|p| usize::try_from(p.interface).ok() == at);
        here.filter_map(Packet::number).collect()
    }

    /// Frames by interface.
    pub fn counts(&self) -> BTreeMap<String, u64> {
        let mut counts: BTreeMap<_, _> = self.names.iter().map(|n| (n.clone(), 0)).collect();
        for packet in &self.packets {
            let name = &self.names[usize::try_from(packet.interface).expect("a number")];
            *counts.entry(name.clone()).or_insert(0) += 1;
        }
        counts
    }
}

fn u32_be(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes[..4].try_into().expect("four bytes"))
}

fn u32_le(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes[..4].try_into().expect("four bytes"))
}

/// Reads a pcapng file of whole blocks up to its last byte.
///
/// # Panics
/// When it is none, or is cut.
pub fn read_pcapng(path: &Path) -> Contents {
    read_blocks(path, &std::fs::read(path).expect("read the file"))
}

/// The same of a file that somebody writes, up to its last whole block: write(2) of many pages is seen page by page.
///
/// # Panics
/// When it is none.
pub fn read_growing(path: &Path) -> Contents {
    let bytes = std::fs::read(path).expect("read the file");
    let mut whole = 0;
    while let Some(head) = bytes.get(whole..whole + 8) {
        let length = usize::try_from(u32_le(&head[4..])).expect("a size");
        if length == 0 || whole + length > bytes.len() {
            break;
        }
        whole += length;
    }
    read_blocks(path, &bytes[..whole])
}

fn read_blocks(path: &Path, bytes: &[u8]) -> Contents {
    let mut found = Contents::default();
    let mut rest = bytes;
    while !rest.is_empty() {
        assert!(rest.len() >= 12, "{}: {} bytes are left", path.display(), rest.len());
        let (kind, length) = (u32_le(rest), usize::try_from(u32_le(&rest[4..])).expect("a size"));
        let whole = length >= 12 && length % 4 == 0 && length <= rest.len();
        assert!(whole, "{}: block {kind:#x} of {length}, {} left", path.display(), rest.len());
        assert_eq!(usize::try_from(u32_le(&rest[length - 4..])).expect("a size"), length);
        let body = &rest[8..length - 4];
        assert!(!found.blocks.is_empty() || kind == 0x0a0d_0d0a, "begins with {kind:#x}");
        *found.blocks.entry(kind).or_insert(0) += 1;
        match kind {
            1 => {
                let name = option(&body[8..], 2).unwrap_or_default();
                found.names.push(String::from_utf8_lossy(name).into_owned());
            }
            5 => {
                let lost = option(&body[12..], 5).unwrap_or(&[0; 8]);
                found.lost = u64::from_le_bytes(lost.try_into().expect("eight bytes"));
            }
            6 => {
                let kept = usize::try_from(u32_le(&body[12..])).expect("a size");
                let (interface, length) = (u32_le(body), u32_le(&body[16..]));
                assert!(usize::try_from(interface).expect("a number") < found.names.len());
                let bytes = body[20..20 + kept].to_vec();
                let time = u64::from(u32_le(&body[4..])) << 32 | u64::from(u32_le(&body[8..]));
                found.packets.push(Packet { interface, time, length, bytes });
            }
            _ => {}
        }
        rest = &rest[length..];
    }
    found
}

/// The value of an option.
fn option(mut options: &[u8], wanted: u16) -> Option<&[u8]> {
    while options.len() >= 4 {
        let code = u16::from_le_bytes([options[0], options[1]]);
        let length = usize::from(u16::from_le_bytes([options[2], options[3]]));
        if code == wanted {
            return Some(&options[4..4 + length]);
        }
        options = options.get(4 + length.next_multiple_of(4)..)?;
    }
    None
}

/// Reads a classic file up to its last byte; gives its magic number, too.
///
/// # Panics
/// When it is none, or is cut.
pub fn read_classic(path: &Path) -> (u32, Vec<Packet>) {
    let file = std::fs::read(path).expect("read the file");
    let unit = if u32_le(&file) == 0xa1b2_c3d4 { 1_000_000 } else { 1_000_000_000 };
    let mut packets = vec![];
    let mut rest = &file[24..];
    while !rest.is_empty() {
        let kept = usize::try_from(u32_le(&rest[8..])).expect("a size");
        let bytes = rest[16..16 + kept].to_vec();
        let time = u64::from(u32_le(rest)) * unit + u64::from(u32_le(&rest[4..]));
        packets.push(Packet { interface: 0, time, length: u32_le(&rest[12..]), bytes });
        rest = &rest[16 + kept..];
    }
    (u32_le(&file), packets)
}

/// Sends this many numbered datagrams of 100 bytes to a node's discard port.
const DATAGRAMS: &str = r"
import socket, sys
to = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
first, count = int(sys.argv[2]), int(sys.argv[3])
for number in range(first, first + count):
    to.sendto(number.to_bytes(4, 'big') * 25, (sys.argv[1], 9))
";

impl Machine {
    /// Sends datagrams numbered from `first` from one node to another (a node or an address) and returns
    /// when all are on their way.
    pub fn datagrams(&self, from: &str, to: &str, first: u32, count: u32) {
        let numbers = [first, count].map(|number| number.to_string());
        self.python(from, DATAGRAMS, &[to, &numbers[0], &numbers[1]]).finish().code(0);
    }
}
