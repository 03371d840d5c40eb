//! Applies a layer's archive to its tree.

use std::os::fd::OwnedFd;

use netloom_oci::entry::{self, Action, Parts};
use netloom_oci::tape::{BLOCK, Entry, Kind, Step, Tape, padding};

use crate::options::Limits;
use crate::tree::Tree;
use crate::unpacking::Plain;
use crate::wrong::{Done, Wrong};

/// Entries between two looks at whether to go on.
const BETWEEN: u64 = 256;

/// Where an archive went wrong.
#[derive(Debug)]
pub(crate) struct Trouble {
    pub(crate) entry: Option<String>,
    pub(crate) wrong: Wrong,
}

/// Applies an archive; returns how many entries it had.
pub(crate) fn apply(
    from: &mut Plain,
    tree: &mut Tree,
    limits: Limits,
    tell: &mut dyn FnMut(u64),
) -> std::result::Result<u64, Trouble> {
    let mut tape = Tape::default();
    let mut count = 0;
    let about = |entry: Option<&Entry>| {
        let entry = entry.map(|entry| String::from_utf8_lossy(&entry.path).into_owned());
        move |wrong: Wrong| Trouble { entry: entry.clone().or(wrong.entry.clone()), wrong }
    };
    while let Some(entry) = next(from, &mut tape).map_err(about(None))? {
        count += 1;
        // A small archive may have millions of empty files, which need inodes.
        if count > limits.entries {
            let why = format!("it has more than {} entries", limits.entries);
            return Err(about(Some(&entry))(Wrong::new("read", why)));
        }
        one(from, tree, &entry, limits).map_err(about(Some(&entry)))?;
        if tree.kept() > limits.paths {
            let why =
                format!("the paths of its directories are longer than {} bytes", limits.paths);
            return Err(about(Some(&entry))(Wrong::new("read", why)));
        }
        if count % BETWEEN == 0 {
            tell(from.come());
        }
    }
    tree.finish().map_err(about(None))?;
    Ok(count)
}

/// The next entry; `None` at the end.
fn next(from: &mut Plain, tape: &mut Tape) -> Done<Option<Box<Entry>>> {
    let mut block = [0; BLOCK];
    let mut is_more = false;
    loop {
        // A missing end is accepted: some writers leave its blocks out.
        if !from.fill(&mut block)? {
            return Ok(None);
        }
        let step = if is_more { tape.more(&block)? } else { tape.block(&block)? };
        is_more = step == Step::More;
        match step {
            Step::Entry(entry) => return Ok(Some(entry)),
            Step::End => return Ok(None),
            Step::Nothing | Step::More => {}
            Step::Text(length) => {
                let mut text = Vec::new();
                from.hand(length, |data| {
                    text.extend_from_slice(data);
                    Done::Ok(())
                })?;
                pad(from, length)?;
                tape.text(&text)?;
            }
        }
    }
}

fn one(from: &mut Plain, tree: &mut Tree, entry: &Entry, limits: Limits) -> Done {
    match entry::action(entry)? {
        Action::Make(parts) => make(from, tree, &parts, entry, limits),
        Action::Hide(parts) => tree.hide(&parts).and_then(|()| pass_over(from, entry)),
        Action::HideAll(parts) => tree.hide_all(&parts).and_then(|()| pass_over(from, entry)),
        Action::Skip => pass_over(from, entry),
    }
}

/// Passes over padding; the last may be missing, as some writers leave it out with the blocks that end an archive.
fn pad(from: &mut Plain, size: u64) -> Done {
    let mut left = usize::try_from(padding(size)).unwrap_or(0);
    while left > 0 {
        let count = from.peek()?.len().min(left);
        if count == 0 {
            break;
        }
        from.take(count);
        left -= count;
    }
    Ok(())
}

fn pass_over(from: &mut Plain, entry: &Entry) -> Done {
    from.hand(entry.size, |_| Done::Ok(()))?;
    pad(from, entry.size)
}

fn make(from: &mut Plain, tree: &mut Tree, parts: &Parts, entry: &Entry, limits: Limits) -> Done {
    match &entry.kind {
        Kind::Directory => tree.directory(parts, entry),
        Kind::Symbolic => tree.symlink(parts, entry),
        Kind::Hard => tree.hard_link(parts, entry),
        Kind::Fifo => tree.fifo(parts, entry),
        // Nodes get devices of their own; an image's would need rights that unpacking does not
        // have.
        Kind::Device => Ok(()),
        Kind::File => {
            let file = tree.file(parts)?;
            from.hand(entry.size, |data| write(&file, data))?;
            pad(from, entry.size)?;
            tree.dress(&file, entry, false)
        }
        Kind::Sparse(pieces, whole) => {
            // Holes take no bytes of the archive, so that its own limit does not bound them.
            if *whole > limits.bytes {
                let why = format!("its {whole} bytes are more than are allowed");
                return Err(Wrong::new("read", why));
            }
            let file = tree.file(parts)?;
            write_sparse(from, &file, pieces, *whole)?;
            pad(from, entry.size)?;
            tree.dress(&file, entry, false)
        }
    }
}

fn write(file: &OwnedFd, mut data: &[u8]) -> Done {
    while !data.is_empty() {
        match rustix::io::write(file, data) {
            Ok(count) => data = &data[count..],
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(Wrong::of("write")(e)),
        }
    }
    Ok(())
}

/// Writes the pieces of a sparse file; holes take no room.
fn write_sparse(from: &mut Plain, file: &OwnedFd, pieces: &[(u64, u64)], whole: u64) -> Done {
    // First: the last piece may end before the file does.
    rustix::fs::ftruncate(file, whole).map_err(Wrong::of("write"))?;
    for (offset, length) in pieces {
        let place = rustix::fs::SeekFrom::Start(*offset);
        rustix::fs::seek(file, place).map_err(Wrong::of("write"))?;
        from.hand(*length, |data| write(file, data))?;
    }
    Ok(())
}
