//! Captures made by others to try readers, wherever they are installed: what capinfos counts we count, and
//! damaged files are reported and never panic.
//!
//! The set of Go's packet library comes with a package (`make peers`). Any other folder is named by
//! `NETLOOM_SAMPLES`: `scripts/samples.sh` fetches tcpdump's and Wireshark's own.

use netloom_kit::needs;
use netloom_pcap::read::{Item, Reader};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::cuts::check_any;

/// Where distributions put the set.
const GO: [&str; 2] = [
    "/usr/share/gocode/src/github.com/google/gopacket/pcapgo/tests",
    "/usr/share/gocode/src/github.com/google/gopacket/pcap",
];

/// All files below a folder whose name says that they are captures.
fn captures(folder: &Path, into: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            captures(&path, into);
        } else if name.contains(".pcap") || name.contains(".ntar") {
            into.push(path);
        }
    }
}

/// Packets, if the file is whole, and whether that is so.
fn read(bytes: &[u8]) -> Result<usize, String> {
    let mut reader = Reader::new(bytes).map_err(|e| e.to_string())?;
    let mut packets = 0;
    while let Some(item) = reader.next().map_err(|e| e.to_string())? {
        packets += usize::from(matches!(item, Item::Packet(_)));
    }
    Ok(packets)
}

/// What capinfos counts; nothing where it finds the file damaged or takes it for another kind.
fn counted(path: &Path) -> Option<usize> {
    let told = Command::new("capinfos").args(["-c", "-M", "-t"]).arg(path).output().unwrap();
    let text = String::from_utf8_lossy(&told.stdout).into_owned();
    let kind = text.lines().find_map(|line| line.strip_prefix("File type:"))?.trim();
    let whole = told.status.success() && told.stderr.is_empty();
    if !whole || !["pcap", "nsecpcap", "modpcap", "pcapng"].contains(&kind) {
        return None;
    }
    let line = text.lines().find(|line| line.starts_with("Number of packets"))?;
    line.split_whitespace().last()?.parse().ok()
}

/// Reads all; how many files, how many of them whole, and all packets in those.
fn check(files: &[PathBuf]) -> (usize, usize, usize) {
    let (mut whole, mut packets) = (0, 0);
    let mut wrong = vec![];
    for path in files {
        let bytes = std::fs::read(path).unwrap();
        check_any(&bytes[..bytes.len().min(200_000)]);
        let ours = read(&bytes);
        // Compressed files are for others to unpack.
        let packed = bytes.starts_with(&[0x1f, 0x8b]) || bytes.starts_with(&[0x28, 0xb5]);
        let Some(theirs) = counted(path).filter(|_| !packed) else { continue };
        match ours {
            Ok(ours) if ours == theirs => {
                whole += 1;
                packets += ours;
            }
            other => wrong.push(format!("{}: {other:?}, capinfos: {theirs}", path.display())),
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), files.len(), wrong.join("\n"));
    (files.len(), whole, packets)
}

#[test]
fn the_conformance_set_is_counted_as_capinfos_does() {
    needs!("gopacket", "capinfos");
    let mut files = vec![];
    GO.iter().for_each(|folder| captures(Path::new(folder), &mut files));
    let (all, whole, packets) = check(&files);
    // Both byte orders of 27 files and more; none of them is damaged for capinfos.
    assert!(all >= 50 && whole >= 48 && packets >= 140, "{all} files, {whole} whole, {packets}");
}

#[test]
fn a_folder_of_captures_is_counted_as_capinfos_does() {
    needs!("samples", "capinfos");
    let folder = std::env::var_os("NETLOOM_SAMPLES").unwrap();
    let mut files = vec![];
    captures(Path::new(&folder), &mut files);
    assert!(!files.is_empty(), "{folder:?}: no captures");
    let (all, whole, packets) = check(&files);
    eprintln!("{all} files, {whole} whole and counted alike, {packets} packets");
}
