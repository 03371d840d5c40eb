//! Why a program that is there cannot be started: what would run it is not there.
//!
//! The kernel says "no such file" of a program whose ELF interpreter, the loader of its C library, or whose script's
//! interpreter is missing (execve(2), ENOENT). Specification: ELF, `PT_INTERP`.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use netloom_config::printable;
use netloom_sys::setup::open_regular;

/// Where programs are looked for where nothing else is said.
const USUAL: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The longest path that is read.
const LONGEST: usize = 4096;

/// `PT_INTERP`.
const INTERPRETER: u32 = 3;

/// Why a program could not be started, which is looked for along `path`: the kernel's reason, and what is missing.
pub(crate) fn words(error: &io::Error, program: &str, path: Option<&str>) -> String {
    if error.kind() == io::ErrorKind::NotFound && program.trim().contains(char::is_whitespace) {
        let word = printable::line(program.split_whitespace().next().unwrap_or_default());
        return format!(
            "{error}: the whole is taken for a program's name; write {word} and its arguments as words of their own, or \
             sh -c '…'"
        );
    }
    let missing = (error.kind() == io::ErrorKind::NotFound)
        .then(|| find(program, path.unwrap_or(USUAL)))
        .flatten()
        .and_then(|file| Some((of(&file)?, file)))
        .filter(|(needed, _)| !needed.exists());
    match missing {
        Some((needed, file)) => {
            let shown = |path: &Path| printable::line(&path.to_string_lossy()).into_owned();
            let (needed, file) = (shown(&needed), shown(&file));
            format!("{error}: {file} is there, and {needed}, which runs it, is not")
        }
        None => error.to_string(),
    }
}

fn find(program: &str, path: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|file| file.is_file());
    }
    let places = path.split(':').chain(USUAL.split(':'));
    places.map(|place| Path::new(place).join(program)).find(|file| file.is_file())
}

/// What the kernel starts in a file's place.
fn of(file: &Path) -> Option<PathBuf> {
    let file = open_regular(file).ok()?;
    // As much as the kernel looks at (BINPRM_BUF_SIZE).
    let mut head = [0; 256];
    let count = file.read_at(&mut head, 0).ok()?;
    let head = head.get(..count)?;
    let path = match head.strip_prefix(b"#!") {
        Some(rest) => {
            let mut words = rest.split(|b| b.is_ascii_whitespace()).filter(|w| !w.is_empty());
            words.next()?.to_owned()
        }
        None => of_elf(&file, head)?,
    };
    String::from_utf8(path).ok().map(PathBuf::from)
}

/// The interpreter of an ELF file of little-endian machines.
fn of_elf(file: &File, head: &[u8]) -> Option<Vec<u8>> {
    let (is_wide, is_little) = (*head.get(4)? == 2, *head.get(5)? == 1);
    if !head.starts_with(b"\x7fELF") || !is_little {
        return None;
    }
    let (table, sizes) =
        if is_wide { (long(head, 0x20)?, 0x36) } else { (word(head, 0x1c)?, 0x2a) };
    let (size, count) = (half(head, sizes)?, half(head, sizes + 2)?);
    let mut entries = vec![0; size.checked_mul(count)?];
    file.read_exact_at(&mut entries, table).ok()?;
    let own = entries.chunks_exact(size.max(1)).find(|own| kind(own) == Some(INTERPRETER))?;
    let (at, length) = match is_wide {
        true => (long(own, 0x08)?, long(own, 0x20)?),
        false => (word(own, 0x04)?, word(own, 0x10)?),
    };
    let mut path = vec![0; usize::try_from(length).ok()?.min(LONGEST)];
    file.read_exact_at(&mut path, at).ok()?;
    path.truncate(path.iter().position(|b| *b == 0).unwrap_or(path.len()));
    Some(path)
}

fn kind(entry: &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(*entry.first_chunk()?))
}

fn half(bytes: &[u8], at: usize) -> Option<usize> {
    Some(usize::from(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?)))
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?)))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing() -> io::Error {
        io::Error::from_raw_os_error(2)
    }

    #[test]
    fn what_would_run_a_program_is_named_where_it_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, content: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, content).unwrap();
            path.to_string_lossy().into_owned()
        };
        // This test's own executable with another loader of the same length.
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let loader = of(Path::new("/proc/self/exe")).expect("it is linked dynamically");
        let loader = loader.to_str().unwrap().to_owned();
        let other = format!("/no{}", &loader[3..]);
        let at = own.windows(loader.len()).position(|w| w == loader.as_bytes()).unwrap();
        let mut changed = own.clone();
        changed[at..at + other.len()].copy_from_slice(other.as_bytes());
        let script = file("script", b"#! /no/such/sh -e\n");
        for (program, needed) in
            [(file("changed", &changed), other.as_str()), (script, "/no/such/sh")]
        {
            let told = words(&missing(), &program, None);
            assert!(told.contains(&format!("{program} is there, and {needed}, which")), "{told}");
        }
        let found = words(&missing(), "script", folder.path().to_str());
        assert!(found.contains("/no/such/sh"), "{found}");
        for program in [file("same", &own), file("short", b"\x7fELF\x02\x01"), "/no/thing".into()] {
            assert_eq!(words(&missing(), &program, None), missing().to_string());
        }
        let told = words(&missing(), "ping -c1 web", None);
        assert!(told.contains("write ping and its arguments as words of their own"), "{told}");
    }
}
