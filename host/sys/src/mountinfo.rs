//! The mount table, from /proc/PID/mountinfo (proc(5)).
//!
//! Only what a node's file system needs: path, type, source, options, whether it is read-only.
//! Malformed lines are skipped.

use std::path::PathBuf;

use crate::{Failure, Result};

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The mount point, with the kernel's octal escapes decoded.
    pub path: PathBuf,
    /// What of the file system is mounted there.
    pub root: PathBuf,
    /// The file system's type.
    pub fstype: String,
    /// Mounted read-only.
    pub read_only: bool,
    /// The mounted source.
    pub source: String,
    /// The file system's own options, e.g. the controllers of a v1 cgroup mount.
    pub super_options: String,
}

/// The mounts of this process.
pub fn read() -> Result<Vec<Mount>> {
    let path = "/proc/self/mountinfo";
    let text = std::fs::read(path).map_err(|e| Failure::path(path, "read", e))?;
    Ok(parse(&text))
}

/// Parses the text of a mountinfo file.
pub fn parse(text: &[u8]) -> Vec<Mount> {
    text.split(|b| *b == b'\n').filter_map(parse_line).collect()
}

/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`
fn parse_line(line: &[u8]) -> Option<Mount> {
    use std::os::unix::ffi::OsStringExt;
    let fields: Vec<&[u8]> = line.split(|b| *b == b' ').collect();
    // Fields of any number stand before it (proc_pid_mountinfo(5)).
    let dash = fields.iter().position(|f| *f == b"-")?;
    let word = |i: usize| fields.get(i).map(|f| String::from_utf8_lossy(f).into_owned());
    let at = |i: usize| Some(PathBuf::from(std::ffi::OsString::from_vec(unescape(fields.get(i)?))));
    let (root, path) = (at(3)?, at(4)?);
    let options = word(5)?;
    let super_options = word(dash + 3).unwrap_or_default();
    // A file system that is read-only itself shows that among its own options.
    let read_only =
        options.split(',').any(|o| o == "ro") || super_options.split(',').any(|o| o == "ro");
    let (fstype, source) = (word(dash + 1)?, word(dash + 2)?);
    Some(Mount { path, root, fstype, read_only, source, super_options })
}

/// Decodes `\040` and the like.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut i = 0;
    while i < field.len() {
        let octal = field.get(i + 1..i + 4).filter(|d| d.iter().all(|c| (b'0'..=b'7').contains(c)));
        match (field[i], octal) {
            (b'\\', Some(d)) => {
                let value = d.iter().fold(0u32, |v, c| v * 8 + u32::from(c - b'0'));
                out.push(u8::try_from(value).unwrap_or(b'?'));
                i += 4;
            }
            (byte, _) => {
                out.push(byte);
                i += 1;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_line_with_escapes_and_optional_fields() {
        let line = b"36 35 98:0 /mnt1 /mnt\\0402 ro,noatime master:1 - ext3 /dev/root rw,cpu\n";
        let mounts = parse(line);
        assert_eq!(mounts.len(), 1);
        assert_eq!(mounts[0].path, PathBuf::from("/mnt 2"));
        assert_eq!(mounts[0].root, PathBuf::from("/mnt1"));
        assert_eq!((mounts[0].fstype.as_str(), mounts[0].read_only), ("ext3", true));
        assert_eq!(mounts[0].super_options, "rw,cpu");
    }

    #[test]
    fn leaves_out_what_is_cut_short() {
        assert!(parse(b"36 35 98:0 /mnt1\n\n - \n36 35 98:0 / / rw -").is_empty());
    }
}
