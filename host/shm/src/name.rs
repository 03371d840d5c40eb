//! Names of switches and ports as users and programs write them: `netloom://NAME`.
//!
//! A NAME beginning with `/` is the path of the switch's socket; else it is `LAB.SWITCH`, or `SWITCH`
//! for `default.SWITCH`, below one of the directories of running labs. A final `[N]`, or `?port=N` and
//! `&name=X`, choose a port. This code only checks whether a socket exists; it never connects. A directory that another
//! user can fill or exchange has no switches. A path is the user's own word, and may lead to another user's switch.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use netloom_sys::random;
use netloom_sys::trusted::TrustedDir;
use rustix::io::Errno;

use crate::protocol::{MOST_NAME, check_name};
use crate::{Error, Result};

/// The optional prefix of a name.
pub const SCHEME: &str = "netloom://";
/// The default lab of switch names.
pub const DEFAULT_LAB: &str = "default";

/// Port name for programs without a description.
const NAMELESS: &str = "vde";
/// Bytes that make a name unique: a space and six digits.
const SUFFIX: usize = 7;

/// The target of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The switch's socket.
    pub path: PathBuf,
    /// The port's number, if one was chosen.
    pub number: Option<u8>,
    /// The port's name, if one was chosen.
    pub name: Option<String>,
    /// Whether it was found by its name, and so has to be a switch of this user's or root's.
    pub found: bool,
}

/// The switch of this name: in the first possible directory that has its socket, else in the first.
///
/// # Errors
/// [`Error::Name`] for an invalid name; [`Error::Folder`] if no directory has its socket, and others than this user and
/// root can fill or exchange one of them.
pub fn resolve(name: &str) -> Result<Address> {
    let uid = rustix::process::geteuid().as_raw();
    let folders = folders(|name| std::env::var_os(name).filter(|v| !v.is_empty()), uid);
    resolve_in(name, &folders, has_socket)
}

/// The directory of sockets in that of running labs.
const SWITCHES: &str = ".switches";

/// The path of a switch's socket below the directory of running labs.
pub fn socket(runtime: &Path, lab: &str, switch: &str) -> PathBuf {
    runtime.join(SWITCHES).join(file_name(lab, switch))
}

fn file_name(lab: &str, switch: &str) -> String {
    format!("{lab}.{switch}")
}

/// Whether a directory of running labs has a switch's socket.
///
/// # Errors
/// Others can fill or exchange the directory.
fn has_socket(runtime: &Path, name: &str) -> netloom_sys::Result<bool> {
    let found = || -> netloom_sys::Result<bool> {
        let Some(runtime) = TrustedDir::open(runtime)? else { return Ok(false) };
        Ok(runtime.dir(SWITCHES)?.is_some_and(|switches| switches.has(name)))
    };
    match found() {
        // One that this user may not enter has no switch for him.
        Err(netloom_sys::Error::Failed(_)) => Ok(false),
        found => found,
    }
}

/// The possible directories of running labs, likeliest first.
fn folders(set: impl Fn(&str) -> Option<OsString>, uid: u32) -> Vec<PathBuf> {
    if let Some(only) = set("NETLOOM_RUNTIME_DIR") {
        let only = PathBuf::from(only);
        return vec![std::path::absolute(&only).unwrap_or(only)];
    }
    let own = set("XDG_RUNTIME_DIR").map(|d| PathBuf::from(d).join("netloom"));
    let temporary = PathBuf::from(format!("/tmp/netloom-{uid}"));
    [Some(PathBuf::from("/run/netloom")), own, Some(temporary)].into_iter().flatten().collect()
}

fn resolve_in(
    name: &str,
    folders: &[PathBuf],
    has: impl Fn(&Path, &str) -> netloom_sys::Result<bool>,
) -> Result<Address> {
    let wrong = |reason| Error::Name { name: name.to_owned(), reason };
    let rest = name.strip_prefix(SCHEME).unwrap_or(name);
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let mut address = Address { path: PathBuf::new(), number: None, name: None, found: false };
    let rest = match rest.strip_suffix(']').and_then(|r| r.rsplit_once('[')) {
        None => rest,
        Some((rest, "")) => rest,
        Some((rest, number)) => {
            address.number = Some(port(number).map_err(wrong)?);
            rest
        }
    };
    for item in query.split('&').filter(|i| !i.is_empty()) {
        match item.split_once('=') {
            Some(("port", number)) => address.number = Some(port(number).map_err(wrong)?),
            Some(("name", name)) => {
                check_name(name).map_err(wrong)?;
                address.name = Some(name.to_owned());
            }
            _ => return Err(wrong("unknown parameter")),
        }
    }
    // 0 means any, as everywhere.
    address.number = address.number.filter(|n| *n != 0);
    if rest.starts_with('/') {
        address.path = rest.into();
        return Ok(address);
    }
    let (lab, switch) = rest.split_once('.').unwrap_or((DEFAULT_LAB, rest));
    for part in [lab, switch] {
        check_part(part).map_err(wrong)?;
    }
    address.path = find(lab, switch, folders, has)?.ok_or(wrong("no folder for it"))?;
    address.found = true;
    Ok(address)
}

/// The socket in the first directory that has it, else where it would be in the first.
fn find(
    lab: &str,
    switch: &str,
    folders: &[PathBuf],
    has: impl Fn(&Path, &str) -> netloom_sys::Result<bool>,
) -> Result<Option<PathBuf>> {
    let mut distrusted = None;
    for folder in folders {
        match has(folder, &file_name(lab, switch)) {
            Ok(true) => return Ok(Some(socket(folder, lab, switch))),
            Ok(false) => {}
            Err(e) => distrusted = distrusted.or(Some((folder, e))),
        }
    }
    match distrusted {
        Some((folder, source)) => Err(Error::Folder { folder: folder.clone(), source }),
        None => Ok(folders.first().map(|folder| socket(folder, lab, switch))),
    }
}

/// A port's name from what a program says of itself: one line, bounded, never empty.
pub fn port_name(description: &str) -> String {
    let plain = description.trim().chars().map(|c| if c.is_control() { ' ' } else { c });
    let name = cut(plain, MOST_NAME);
    if name.is_empty() { NAMELESS.to_owned() } else { name }
}

/// The name with a suffix by chance, for a program whose name another port has.
///
/// # Errors
/// The kernel gives no random number.
pub fn unlike_others(name: &str) -> std::result::Result<String, Errno> {
    let chance = random::number()? & 0xff_ffff;
    Ok(format!("{} {chance:06x}", cut(name.chars(), MOST_NAME - SUFFIX)))
}

/// As many characters as fit into `most` bytes.
fn cut(characters: impl Iterator<Item = char>, most: usize) -> String {
    let mut text = String::with_capacity(most);
    for c in characters {
        if text.len() + c.len_utf8() > most {
            break;
        }
        text.push(c);
    }
    text.truncate(text.trim_end().len());
    text
}

fn port(number: &str) -> Result<u8, &'static str> {
    // `parse` alone would take a sign.
    let digits = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    number.parse().ok().filter(|_| digits).ok_or("a port's number is 1 to 255")
}

/// Whether the name is valid for a lab or a switch: it becomes part of a file name.
fn check_part(part: &str) -> Result<(), &'static str> {
    if part.is_empty() {
        Err("a part of it is empty")
    } else if part.len() > MOST_NAME {
        Err("a part of it is too long")
    } else if part.contains(['/', '\0']) || part.chars().any(char::is_control) {
        Err("it is neither a plain name nor an absolute path")
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(name: &str) -> Result<Address> {
        let folders = ["/a".into(), "/b".into()];
        let there = |folder: &Path, name: &str| (folder, name) == (Path::new("/b"), "lab.there");
        resolve_in(name, &folders, |folder, name| Ok(there(folder, name)))
    }

    fn path(name: &str) -> String {
        at(name).expect(name).path.to_str().expect("text").to_owned()
    }

    #[test]
    fn names_lead_to_sockets() {
        for scheme in ["", SCHEME] {
            let path = |name: &str| path(&format!("{scheme}{name}"));
            assert_eq!(path("/tmp/x"), "/tmp/x");
            assert_eq!(path("/tmp/x.y[3]?name=z"), "/tmp/x.y");
            assert_eq!(path("s"), "/a/.switches/default.s");
            assert_eq!(path("lab.s"), "/a/.switches/lab.s");
            assert_eq!(path("lab.there"), "/b/.switches/lab.there");
        }
    }

    #[test]
    fn ports_can_be_chosen() {
        let chosen = |name| at(name).map(|a| (a.number, a.name)).expect("address");
        assert_eq!(chosen("s[7]"), (Some(7), None));
        assert_eq!(chosen("s[]"), (None, None));
        assert_eq!(chosen("s[0]"), (None, None));
        assert_eq!(chosen("s?port=255&name=a b"), (Some(255), Some("a b".into())));
    }

    #[test]
    fn what_is_no_name_is_refused() {
        let wrong = [
            "", ".", "a.", ".a", "a/b", "a\nb", "s[256]", "s[x]", "s[+1]", "s?port=", "s?x=1",
            "s?name=", "s?port", "../x",
        ];
        for name in wrong {
            assert!(matches!(at(name), Err(Error::Name { .. })), "{name:?}");
        }
        assert!(at(&"x".repeat(65)).is_err());
    }

    #[test]
    fn a_description_becomes_a_name() {
        assert_eq!(port_name("QEMU user=root pid=7"), "QEMU user=root pid=7");
        assert_eq!(port_name(" a\nb\0 \n"), "a b");
        for empty in ["", " ", "\n\n"] {
            assert_eq!(port_name(empty), NAMELESS);
        }
        let long = port_name(&"ä".repeat(100));
        assert_eq!(long, "ä".repeat(MOST_NAME / 2));
    }

    #[test]
    fn an_unlike_name_is_a_name_and_unlike() {
        let name = "é".repeat(MOST_NAME / 2);
        let [other, another] = [&name, &name].map(|name| unlike_others(name).expect("chance"));
        assert!(other.len() <= MOST_NAME && other != another, "{other}");
    }

    #[test]
    fn folders_are_those_of_labs() {
        let none = |_: &str| None;
        let paths = |folders: Vec<PathBuf>| folders;
        assert_eq!(paths(folders(none, 7)), ["/run/netloom", "/tmp/netloom-7"].map(PathBuf::from));
        let xdg = |name: &str| (name == "XDG_RUNTIME_DIR").then(|| "/run/user/7".into());
        let expected = ["/run/netloom", "/run/user/7/netloom", "/tmp/netloom-7"];
        assert_eq!(paths(folders(xdg, 7)), expected.map(PathBuf::from));
        let all = |_: &str| Some(OsString::from("/own"));
        assert_eq!(paths(folders(all, 0)), ["/own"].map(PathBuf::from));
    }
}
