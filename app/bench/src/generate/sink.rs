//! The receiver: a plain node, or a program that drops frames on arrival.
//!
//! The program is two instructions, written to an ELF file that `ip link` loads.

use std::path::Path;

use anyhow::{Context, Result};

use crate::capture::pair::Pair;
use crate::driver::output;
use crate::inside::inside;

/// A receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum End {
    /// Processes them up to the finding that they are for another station.
    Node,
    /// Drops frames at XDP.
    Drop,
}

impl End {
    pub(super) fn title(self) -> &'static str {
        match self {
            End::Drop => "dropped on arrival",
            End::Node => "to a node",
        }
    }
}

/// A receiver that is set up; it ends with its lab.
pub(super) struct Sink(End);

impl Sink {
    pub(super) fn attach(pair: &Pair<'_>, end: End) -> Result<Sink> {
        if end == End::Drop {
            let file = pair.driver().folder().join("drop.o");
            std::fs::write(&file, object()).context("write a program")?;
            link(pair, &["obj", path(&file)?, "sec", SECTION])?;
        }
        Ok(Sink(end))
    }

    pub(super) fn detach(self, pair: &Pair<'_>) -> Result<()> {
        if self.0 == End::Drop { link(pair, &["off"]) } else { Ok(()) }
    }
}

fn path(file: &Path) -> Result<&str> {
    file.to_str().context("the path of the folder for the labs is not UTF-8")
}

fn link(pair: &Pair<'_>, xdp: &[&str]) -> Result<()> {
    let mut command = inside(pair.driver(), pair.lab(), "b", "ip")?;
    command.args(["link", "set", "dev", pair.receiver(0)?, "xdpdrv"]);
    output(command.args(xdp)).map(|_| ())
}

/// The program's section.
const SECTION: &str = "xdp";
/// Names of sections and of the program, each after a zero byte.
const NAMES: &[u8] = b"\0xdp\0license\0.symtab\0.strtab\0drop\0";
/// `r0 = XDP_DROP; exit`.
const PROGRAM: [u8; 16] = [0xb7, 0, 0, 0, 1, 0, 0, 0, 0x95, 0, 0, 0, 0, 0, 0, 0];
const LICENSE: &[u8; 4] = b"GPL\0";
/// Bytes of the file header, and of a section header.
const HEAD: usize = 64;
/// Bytes of a symbol.
const SYMBOL: usize = 24;

/// A relocatable ELF file (elf(5)) for the BPF machine with one program, in native byte order.
fn object() -> Vec<u8> {
    let mut symbols = vec![0; SYMBOL];
    // A global function in section 1.
    symbols.extend(name(b"drop").to_ne_bytes());
    symbols.extend([0x12, 0]);
    symbols.extend(1_u16.to_ne_bytes());
    symbols.extend(0_u64.to_ne_bytes());
    symbols.extend((PROGRAM.len() as u64).to_ne_bytes());
    // Name, type, flags (allocated, executable), link, info, alignment, entry size, content.
    type Section<'a> = (&'a [u8], u32, u64, u32, u32, u64, u64, &'a [u8]);
    let sections: [Section<'_>; 4] = [
        (b"xdp", 1, 6, 0, 0, 8, 0, &PROGRAM),
        (b"license", 1, 3, 0, 0, 1, 0, LICENSE),
        (b".symtab", 2, 0, 4, 1, 8, SYMBOL as u64, &symbols),
        (b".strtab", 3, 0, 0, 0, 1, 0, NAMES),
    ];
    let (mut headers, mut contents) = (vec![0; HEAD], vec![]);
    for (title, kind, flags, link, info, align, entry, content) in sections {
        let at = HEAD + contents.len();
        headers.extend([name(title), kind].iter().flat_map(|word| word.to_ne_bytes()));
        let words = [flags, 0, at as u64, content.len() as u64];
        headers.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        headers.extend([link, info].iter().flat_map(|word| word.to_ne_bytes()));
        headers.extend([align, entry].iter().flat_map(|word| word.to_ne_bytes()));
        contents.extend(content);
        contents.resize(contents.len().next_multiple_of(8), 0);
    }
    [head(HEAD + contents.len()), contents, headers].concat()
}

/// The file's header, with the section headers at `sections`.
fn head(sections: usize) -> Vec<u8> {
    let order = if cfg!(target_endian = "little") { 1 } else { 2 };
    let mut head = vec![0x7f, b'E', b'L', b'F', 2, order, 1];
    head.resize(16, 0);
    // ET_REL, EM_BPF.
    head.extend([1_u16, 247].iter().flat_map(|word| word.to_ne_bytes()));
    head.extend(1_u32.to_ne_bytes());
    head.extend([0, 0, sections as u64].iter().flat_map(|word| word.to_ne_bytes()));
    head.extend(0_u32.to_ne_bytes());
    // Header sizes and counts: this one, no segments, five sections, names in the last.
    head.extend([64_u16, 0, 0, 64, 5, 4].iter().flat_map(|word| word.to_ne_bytes()));
    head
}

/// Offset of a name in [`NAMES`].
fn name(name: &[u8]) -> u32 {
    let whole = [name, b"\0"].concat();
    let at = NAMES.windows(whole.len()).position(|found| found == whole);
    at.and_then(|at| u32::try_from(at).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_object_is_an_elf_file_with_all_its_sections() {
        let object = object();
        assert_eq!(object[..4], *b"\x7fELF");
        let word = |at: usize| u64::from_ne_bytes(object[at..at + 8].try_into().unwrap());
        let sections = usize::try_from(word(40)).unwrap();
        assert_eq!(sections + 5 * HEAD, object.len());
        // The first section after the null section is the program.
        let at = usize::try_from(word(sections + HEAD + 24)).unwrap();
        assert_eq!(object[at..at + 16], PROGRAM);
        assert_eq!(name(b"xdp"), 1);
        assert!(name(b"drop") > name(b".strtab"));
    }
}
