//! Archives that a kernel unpacks as its first root: the new ASCII format of cpio (initramfs buffer format).
//!
//! Everything belongs to root, and times are zero, so that equal contents make equal archives. A folder must come before
//! what is in it; the kernel unpacks archives one after another, later entries over earlier ones.

use std::fmt::Write as _;
use std::io::{self, Write};

/// The type in an entry's mode.
const FOLDER: u32 = 0o040_000;
const FILE: u32 = 0o100_000;
const LINK: u32 = 0o120_000;
const DEVICE: u32 = 0o020_000;
/// The permissions in a mode.
const PERMISSIONS: u32 = 0o7777;
/// Parts of an entry begin at multiples of this.
const ALIGN: usize = 4;
const TRAILER: &str = "TRAILER!!!";

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry<'a> {
    /// A folder, with its permissions.
    Folder(u32),
    /// A file, with its permissions and content.
    File(u32, &'a [u8]),
    /// A symbolic link, with where it leads.
    Link(&'a str),
    /// A character device: permissions, major and minor number.
    Device(u32, u32, u32),
}

/// An archive that is being written.
#[derive(Debug)]
pub struct Archive<W> {
    to: W,
    entries: u32,
}

impl<W: Write> Archive<W> {
    /// An empty one.
    pub fn new(to: W) -> Archive<W> {
        Archive { to, entries: 0 }
    }

    /// Adds an entry; its name has no slash at the beginning.
    ///
    /// # Errors
    /// The writer refuses, or a file has 4 GiB or more.
    pub fn add(&mut self, name: &str, entry: Entry<'_>) -> io::Result<()> {
        // The number is the entry's inode: the kernel joins
        // files of one inode that have several links.
        self.entries += 1;
        match entry {
            Entry::Folder(mode) => self.entry(name, FOLDER | mode & PERMISSIONS, 2, (0, 0), &[]),
            Entry::File(mode, content) => {
                self.entry(name, FILE | mode & PERMISSIONS, 1, (0, 0), content)
            }
            Entry::Link(target) => self.entry(name, LINK | 0o777, 1, (0, 0), target.as_bytes()),
            Entry::Device(mode, major, minor) => {
                self.entry(name, DEVICE | mode & PERMISSIONS, 1, (major, minor), &[])
            }
        }
    }

    /// Adds the end, and gives the writer back.
    ///
    /// # Errors
    /// The writer refuses.
    pub fn finish(mut self) -> io::Result<W> {
        self.entries = 0;
        self.entry(TRAILER, 0, 1, (0, 0), &[])?;
        self.to.flush()?;
        Ok(self.to)
    }

    fn entry(
        &mut self,
        name: &str,
        mode: u32,
        links: u32,
        (major, minor): (u32, u32),
        content: &[u8],
    ) -> io::Result<()> {
        let size = u32::try_from(content.len())
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "a file of 4 GiB or more"))?;
        let length = u32::try_from(name.len() + 1).unwrap_or(u32::MAX);
        let mut head = String::from("070701");
        // Inode, mode, user, group, links, time, size,
        // device (2), special device (2), name, checksum.
        let fields = [self.entries, mode, 0, 0, links, 0, size, 0, 0, major, minor, length, 0];
        for field in fields {
            let _ = write!(head, "{field:08x}");
        }
        head.push_str(name);
        head.push('\0');
        self.aligned(head.as_bytes())?;
        self.aligned(content)
    }

    fn aligned(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.to.write_all(bytes)?;
        let missing = bytes.len().next_multiple_of(ALIGN) - bytes.len();
        self.to.write_all(&[0; ALIGN][..missing])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive() -> Vec<u8> {
        let mut archive = Archive::new(Vec::new());
        archive.add("a", Entry::Folder(0o755)).unwrap();
        archive.add("a/file", Entry::File(0o644, b"text\n")).unwrap();
        archive.add("a/link", Entry::Link("file")).unwrap();
        archive.add("null", Entry::Device(0o666, 1, 3)).unwrap();
        archive.finish().unwrap()
    }

    /// The bytes of an entry, by the format's description: fields of eight hexadecimal digits.
    #[test]
    fn an_entry_has_the_fields_of_the_format() {
        let bytes = archive();
        assert_eq!(bytes.len() % 4, 0);
        let head = std::str::from_utf8(&bytes[..110]).unwrap();
        let field = |n: usize| u32::from_str_radix(&head[6 + 8 * n..14 + 8 * n], 16).unwrap();
        assert_eq!(&head[..6], "070701");
        assert_eq!((field(0), field(1), field(2), field(3)), (1, 0o040_755, 0, 0));
        assert_eq!((field(6), field(11), field(12)), (0, 2, 0));
        assert_eq!(&bytes[110..112], b"a\0");
        let text = String::from_utf8_lossy(&bytes);
        assert!(text.contains("a/file\0\0") && text.contains("text\n") && text.contains(TRAILER));
    }

    #[test]
    fn equal_contents_make_equal_archives() {
        assert_eq!(archive(), archive());
    }
}
