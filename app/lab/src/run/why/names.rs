//! The name servers of a node's `/etc/resolv.conf` (resolv.conf(5)).

use std::fs::File;
use std::io::Read;
use std::net::IpAddr;

use netloom_sys::lookup::open_within;
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};

/// Most bytes that are read.
const MOST: u64 = 64 << 10;

/// Those of a node, by the process id of its init; none where the file is the machine's own.
pub(super) fn resolvers(pid: i32) -> Vec<IpAddr> {
    let Some(text) = text(pid) else { return vec![] };
    if std::fs::read("/etc/resolv.conf").is_ok_and(|own| own == text) {
        return vec![];
    }
    named(&String::from_utf8_lossy(&text))
}

/// The file, whatever a node has put there: links in it stay below the node's root, and only a regular file is read.
fn text(pid: i32) -> Option<Vec<u8>> {
    let root = format!("/proc/{pid}/root");
    let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::openat(CWD, root.as_str(), directory, Mode::empty()).ok()?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    let how = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let seen = open_within(&root, "etc/resolv.conf", OFlags::PATH, how).ok()?;
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&seen).ok()?.st_mode);
    if !kind.is_file() {
        return None;
    }
    let file = open_within(&root, "etc/resolv.conf", flags, how).ok()?;
    let mut text = Vec::new();
    File::from(file).take(MOST).read_to_end(&mut text).ok()?;
    Some(text)
}

fn named(text: &str) -> Vec<IpAddr> {
    let server = |line: &str| -> Option<IpAddr> {
        let mut words = line.split_whitespace();
        (words.next() == Some("nameserver")).then(|| words.next())??.parse().ok()
    };
    text.lines().filter_map(server).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_read_as_resolv_conf_names_them() {
        let text = "# nameserver 10.0.0.1\nsearch a\nnameserver 10.0.0.2 x\n nameserver fd00::1\nnameserver\nnameserver y";
        assert_eq!(
            named(text),
            ["10.0.0.2".parse::<IpAddr>().unwrap(), "fd00::1".parse().unwrap()]
        );
    }
}
