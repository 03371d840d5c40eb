//! Places a lab's files into a node, and creates the directories leading to them.
//!
//! Files go into the writable layers before these are mounted. A directory that already exists in the node's
//! root is created with the same owner, group and permission bits, because an overlay's upper directory hides
//! those of the lower one (overlayfs.rst). Owner names are looked up in the node's own passwd and group
//! files, never in the host's name services. In an ordinary user's lab there may be no other user than that user, as
//! root: other owners of directories are dropped, and those that the lab file asks for are refused or, where the
//! node pretends changes of owners, passed over.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use netloom_model::lab::{FileContent, FileSpec};
use netloom_sys::lookup::open_within;
use netloom_sys::setup::{Access, Setup, bounded_text, is_unmapped};
use netloom_sys::{Error, Failure, Result};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};

use crate::people::{GROUPS, USERS, number_in};
use crate::users::Users;

/// Destination of a node's files.
pub(crate) struct Files<'a, S> {
    pub(crate) setup: &'a S,
    /// The root directory under the overlays: the host's, or the node's `root`.
    pub(crate) lower: &'a Path,
    /// Directories of the node, each with the directory that backs writes to it.
    pub(crate) places: &'a [(PathBuf, PathBuf)],
    /// Directories of the node that are shown unchanged, so nothing can be placed there.
    pub(crate) closed: &'a [PathBuf],
    /// What changes of owners do in the node.
    pub(crate) users: Users,
    /// The lab is an ordinary user's.
    pub(crate) user: bool,
}

impl<S: Setup> Files<'_, S> {
    /// Places all files, then sets their owners, whose names these files may define.
    pub(crate) fn place(&self, files: &[FileSpec]) -> Result<()> {
        let placed =
            files.iter().map(|f| Ok((f, self.place_one(f)?))).collect::<Result<Vec<_>>>()?;
        placed.iter().try_for_each(|(file, target)| self.give(file, target))
    }

    /// Removes a directory from the root by a whiteout in the overlay's upper directory (overlayfs.rst). It
    /// stays hidden when mounts of the node are unmounted. Succeeds if there is no overlay.
    pub(crate) fn leave_out(&self, directory: &Path) -> Result<()> {
        let path = resolve(self.lower, directory);
        if self.closed.iter().any(|c| path.starts_with(c)) {
            return Ok(());
        }
        let Some((at, upper)) = self.place_of(&path) else { return Ok(()) };
        let relative = path.strip_prefix(at).unwrap_or(&path);
        if relative.as_os_str().is_empty() {
            return Ok(());
        }
        let target = self.make_way(at, upper, relative)?;
        self.setup.device(&target, 0, 0, 0)
    }

    /// Makes the directories leading to `relative` in `upper`, like those in the root at `at`.
    fn make_way(&self, at: &Path, upper: &Path, relative: &Path) -> Result<PathBuf> {
        let (mut dir, mut shown) = (upper.to_owned(), at.to_owned());
        for part in relative.parent().into_iter().flat_map(Path::components) {
            dir.push(part);
            shown.push(part);
            self.setup.mkdir_as(&dir, access_of(&inside(self.lower, &shown), self.user))?;
        }
        Ok(upper.join(relative))
    }

    fn place_one(&self, file: &FileSpec) -> Result<PathBuf> {
        let path = resolve(self.lower, Path::new(&file.path));
        if let Some(closed) = self.closed.iter().find(|c| path.starts_with(c)) {
            let why = format!("{} is shown read-only in this lab", closed.display());
            return Err(refused(file, "put it in", why));
        }
        let (at, upper) = self.place_of(&path).ok_or_else(|| {
            refused(file, "put it in", "the node has no writable directory there".into())
        })?;
        let relative = path.strip_prefix(at).unwrap_or(&path);
        let target = self.make_way(at, upper, relative)?;
        match &file.content {
            FileContent::Text(text) => self.setup.write(&target, text.as_bytes(), file.mode),
            FileContent::From(from) => self.setup.copy(from, &target, file.mode),
        }?;
        Ok(target)
    }

    /// The node's directory that contains `path`, and the directory that backs writes to it.
    fn place_of(&self, path: &Path) -> Option<(&Path, &Path)> {
        let holding = self.places.iter().filter(|(at, _)| path.starts_with(at));
        let nearest = holding.max_by_key(|(at, _)| at.components().count());
        nearest.map(|(at, upper)| (at.as_path(), upper.as_path()))
    }

    fn give(&self, file: &FileSpec, target: &Path) -> Result<()> {
        if file.owner.is_none() && file.group.is_none() {
            return Ok(());
        }
        let number = |name: &Option<String>, what, list| match name {
            Some(name) => self.number(file, name, what, list),
            None => Ok(0),
        };
        let uid = number(&file.owner, "user", USERS)?;
        let gid = number(&file.group, "group", GROUPS)?;
        let none = || {
            let why = format!(
                "user {uid} with group {gid} does not exist here: a node with `ids: one` has only root, one \
                 with `ids: real` those that /etc/subuid gives, too"
            );
            Err(refused(file, "give it to its owner", why))
        };
        match self.users {
            // As its programs' own changes of owners.
            Users::Pretended => return Ok(()),
            Users::RootAlone if (uid, gid) != (0, 0) => return none(),
            Users::RootAlone | Users::Kernel => {}
        }
        match self.setup.give(target, Access { uid, gid, mode: file.mode }) {
            Err(e) if is_unmapped(&e) => none(),
            given => given,
        }
    }

    /// The id of a user or group given as a number or as a name that the node defines.
    fn number(&self, file: &FileSpec, name: &str, what: &str, list: &str) -> Result<u32> {
        if let Ok(number) = name.parse() {
            return Ok(number);
        }
        let why = match self.read(list) {
            Ok(text) => match number_in(&text, name) {
                Some(number) => return Ok(number),
                None => format!("no {what} {name:?} in the node's {list}"),
            },
            Err(e) => format!("no {what} {name:?}: the node's {list}: {e}"),
        };
        Err(refused(file, "find its owner", why))
    }

    /// Content of a file as the node will see it.
    fn read(&self, path: &str) -> io::Result<String> {
        if let Some((at, upper)) = self.place_of(Path::new(path)) {
            let own = upper.join(Path::new(path).strip_prefix(at).unwrap_or(Path::new(path)));
            // What was placed hides what the root has there.
            if own.is_file() {
                return fs::read_to_string(own);
            }
        }
        // Links in it resolve in the node's own root, never outside.
        let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(self.lower, directory, Mode::empty())?;
        bounded_text(|flags| open_within(&root, path, flags, ResolveFlags::IN_ROOT))
    }
}

fn refused(file: &FileSpec, operation: &'static str, why: String) -> Error {
    Failure::new(format!("file {:?}", file.path), operation, io::Error::other(why)).into()
}

/// `path` as seen from a root directory at `root`.
pub(crate) fn inside(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// The id that stands for all ids outside of a user namespace (user_namespaces(7), `/proc/sys/kernel/overflowuid`).
const OUTSIDE: u32 = 65_534;

/// Whether an owner, as shown in an ordinary user's lab, is none of the lab's users. One of them may have this number,
/// too: `nobody`, to whom no directory of the host belongs.
pub(crate) fn is_outside(id: u32) -> bool {
    id == OUTSIDE
}

/// Owner and permissions of a directory; root's, open to everybody, if it does not exist. In an ordinary user's lab
/// (`user`) every owner outside the lab, above all the host's root, is the node's root.
pub(crate) fn access_of(dir: &Path, user: bool) -> Access {
    let unknown = Access::root(0o755);
    let here = |id: u32| if user && is_outside(id) { 0 } else { id };
    rustix::fs::statat(CWD, dir, rustix::fs::AtFlags::empty()).map_or(unknown, |found| Access {
        uid: here(found.st_uid),
        gid: here(found.st_gid),
        mode: found.st_mode & 0o7777,
    })
}

/// Follows symbolic links in the directories of `path` as they are below `lower`.
fn resolve(lower: &Path, path: &Path) -> PathBuf {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return path.to_owned();
    };
    // Up to what is there: directories that are missing will be made, and are not links.
    let mut existing = parent;
    while real_path(lower, existing).is_none() {
        match existing.parent() {
            Some(up) => existing = up,
            None => return path.to_owned(),
        }
    }
    let rest = parent.strip_prefix(existing).unwrap_or(Path::new(""));
    real_path(lower, existing).unwrap_or_else(|| existing.to_owned()).join(rest).join(name)
}

/// A directory's path without symbolic links, which lead nowhere outside of `lower`.
fn real_path(lower: &Path, path: &Path) -> Option<PathBuf> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(lower, flags, Mode::empty()).ok()?;
    let found = open_within(&root, path, flags, ResolveFlags::IN_ROOT).ok()?;
    let of = |file: &OwnedFd| fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok();
    let (root, found) = (of(&root)?, of(&found)?);
    Some(Path::new("/").join(found.strip_prefix(root).ok()?))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use netloom_sys::setup::Recorder;

    use super::*;

    fn file(path: &str) -> FileSpec {
        FileSpec::new(path, FileContent::Text("text".into()))
    }

    /// Steps for placing these files in a root that has `/etc/frr` (0750) and two lists of names.
    fn place(files: &[FileSpec]) -> Result<Vec<String>> {
        place_for(Users::Kernel, files)
    }

    fn place_for(users: Users, files: &[FileSpec]) -> Result<Vec<String>> {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("etc/frr")).unwrap();
        let mode = fs::Permissions::from_mode(0o2750);
        fs::set_permissions(root.path().join("etc/frr"), mode).unwrap();
        fs::write(root.path().join("etc/accounts"), "root:x:0:0::/:\nfrr:x:92:93::/:\n").unwrap();
        symlink("/etc/accounts", root.path().join("etc/passwd")).unwrap();
        fs::write(root.path().join("etc/group"), "frr:x:93:\nfrrvty:x:94:frr\n").unwrap();
        let places = [(PathBuf::from("/"), PathBuf::from("/upper"))];
        let closed = [PathBuf::from("/usr")];
        let setup = Recorder::default();
        let (setup, places, closed) = (&setup, &places, &closed);
        let all = Files { setup, lower: root.path(), places, closed, users, user: false };
        all.place(files).map(|()| setup.steps())
    }

    #[test]
    fn directories_on_the_way_are_as_in_the_root_and_new_ones_roots() {
        let steps = place(&[file("/etc/frr/frr.conf"), file("/srv/new/x")]).unwrap();
        let own = access_of(Path::new("/proc/self"), false);
        let mut expected: Vec<String> =
            ["mkdir /upper/etc 755", "mkdir /upper/etc/frr 2750"].map(str::to_owned).into();
        if own.uid != 0 || own.gid != 0 {
            let (uid, gid) = (own.uid, own.gid);
            expected.insert(1, format!("give /upper/etc {uid}:{gid} 755"));
            expected.push(format!("give /upper/etc/frr {uid}:{gid} 2750"));
        }
        expected.extend(
            [
                "write /upper/etc/frr/frr.conf 4 bytes 644",
                "mkdir /upper/srv 755",
                "mkdir /upper/srv/new 755",
                "write /upper/srv/new/x 4 bytes 644",
            ]
            .map(str::to_owned),
        );
        assert_eq!(steps, expected);
    }

    #[test]
    fn owners_are_names_of_the_nodes_own_or_numbers() {
        let owned = |owner: Option<&str>, group: Option<&str>| FileSpec {
            owner: owner.map(str::to_owned),
            group: group.map(str::to_owned),
            mode: 0o640,
            ..file("/x")
        };
        for (file, expected) in [
            (owned(Some("frr"), Some("frrvty")), "give /upper/x 92:94 640"),
            (owned(Some("frr"), None), "give /upper/x 92:0 640"),
            (owned(None, Some("93")), "give /upper/x 0:93 640"),
            (owned(Some("7"), Some("8")), "give /upper/x 7:8 640"),
        ] {
            assert_eq!(place(&[file]).unwrap().last().map(String::as_str), Some(expected));
        }
    }

    #[test]
    fn owners_are_pretended_or_refused_where_there_is_root_alone() {
        let owned = FileSpec { owner: Some("frr".into()), ..file("/x") };
        let steps = place_for(Users::Pretended, std::slice::from_ref(&owned)).unwrap();
        assert_eq!(steps, ["write /upper/x 4 bytes 644"]);
        let refused = place_for(Users::RootAlone, &[owned]).unwrap_err();
        assert!(netloom_sys::describe(&refused).contains("user 92 with group 0"), "{refused}");
        let roots = FileSpec { owner: Some("root".into()), ..file("/x") };
        assert_eq!(place_for(Users::RootAlone, &[roots]).unwrap()[1], "give /upper/x 0:0 644");
    }

    #[test]
    fn an_unknown_owner_is_named_with_its_file() {
        let file = FileSpec { owner: Some("www-data".into()), ..file("/srv/x") };
        let error = netloom_sys::describe(&place(&[file]).unwrap_err());
        let expected =
            "file \"/srv/x\": find its owner: no user \"www-data\" in the node's /etc/passwd";
        assert_eq!(error, expected);
    }

    #[test]
    fn a_file_where_nothing_can_be_written_is_refused() {
        let error = netloom_sys::describe(&place(&[file("/usr/share/x")]).unwrap_err());
        assert_eq!(error, "file \"/usr/share/x\": put it in: /usr is shown read-only in this lab");
    }
}
