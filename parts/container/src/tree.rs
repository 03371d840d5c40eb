//! The folder that a layer becomes: makes files, directories, links and whiteouts in it, never outside.
//!
//! Directories on the way that the archive leaves out are made like those of the layers below. Every directory is opened
//! beneath the root without following a symbolic link (openat2(2)); those that the archive's paths mean are resolved
//! before, as `netloom_oci::resolve` says. See overlayfs.rst for marks.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use netloom_oci::entry::{Parts, is_allowed_attribute, parts};
use netloom_oci::resolve::{self, Seen};
use netloom_oci::tape::Entry;
use netloom_sys::Failure;
use netloom_sys::lookup::open_within;
use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, ResolveFlags, Stat, Timespec, Timestamps, Uid, XattrFlags,
};
use rustix::io::Errno;

use crate::below::{self, Below, is_directory, is_whiteout};
use crate::copying;
use crate::options::Owners;
use crate::wrong::{Done, Wrong};

/// A directory in the tree, opened, and a name in it.
pub(crate) struct Place {
    pub(crate) folder: std::rc::Rc<OwnedFd>,
    pub(crate) real: Parts,
}

impl Place {
    pub(crate) fn name(&self) -> &[u8] {
        self.real.last().map_or(b".", Vec::as_slice)
    }
}

/// The directory of the entry before.
struct Last {
    asked: Vec<u8>,
    real: Parts,
    folder: std::rc::Rc<OwnedFd>,
}

/// Known directories are looked at again from this number on, so that they take bounded memory.
const MOST_WAYS: usize = 10_000;

/// The tree.
pub(crate) struct Tree {
    path: PathBuf,
    root: OwnedFd,
    owners: Owners,
    below: Below,
    last: Option<Last>,
    /// Directories that are there.
    ways: HashSet<Vec<u8>>,
    /// Directories that hide those below.
    opaque: BTreeSet<Vec<u8>>,
    /// The layer hides all layers below.
    pub(crate) hides_all: bool,
    times: BTreeMap<Vec<u8>, i64>,
    /// Bytes of the paths in `opaque` and `times`.
    kept: usize,
}

impl Tree {
    /// A tree in the empty folder `path`, above these layers, the lowest first.
    pub(crate) fn new(path: &Path, below: &[PathBuf], owners: Owners) -> crate::Result<Tree> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|e| Failure::path(path, "open", e))?;
        let below = Below::open(below)?;
        let tree = Tree {
            path: path.to_owned(),
            root,
            owners,
            below,
            last: None,
            ways: HashSet::new(),
            opaque: BTreeSet::new(),
            hides_all: false,
            times: BTreeMap::new(),
            kept: 0,
        };
        tree.begin().map_err(|wrong| Failure::path(path, wrong.step, wrong.why))?;
        Ok(tree)
    }

    /// The root is as below.
    fn begin(&self) -> Done {
        let found = self.below.find(&[]).map_err(Wrong::of("look below"))?;
        let Some(found) = found else {
            // Whatever the umask made of it.
            return rustix::fs::chmod(&self.path, Mode::from_raw_mode(0o755))
                .map_err(Wrong::of("set permissions"));
        };
        self.become_like(&self.path, &found, &[])
    }

    /// Gives a directory the owner, permissions and attributes of one below.
    fn become_like(&self, path: &Path, found: &below::Found<'_>, real: &[Vec<u8>]) -> Done {
        let stat = &found.stat;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let own = rustix::fs::open(path, flags, Mode::empty()).map_err(Wrong::of("open"))?;
        if self.owners.are_kept() {
            rustix::fs::fchown(
                &own,
                Some(Uid::from_raw(stat.st_uid)),
                Some(Gid::from_raw(stat.st_gid)),
            )
            .map_err(Wrong::of("change the owner"))?;
        }
        // After the owner, whose change drops set-id bits (chown(2)).
        rustix::fs::fchmod(&own, Mode::from_raw_mode(stat.st_mode & 0o7777))
            .map_err(Wrong::of("set permissions"))?;
        let theirs = below::open_in(found.layer, real).map_err(Wrong::of("look below"))?;
        below::copy_attributes(&theirs, &own).map_err(Wrong::of("copy attributes"))
    }

    /// The entries of this layer.
    fn own(&self, real: &[Vec<u8>]) -> Done<Option<Stat>> {
        match rustix::fs::statat(&self.root, below::text(real), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(e) => Err(Wrong::of("look at")(e)),
        }
    }

    /// Whether layers below show through at a path of which this layer has nothing.
    fn shows_below(&self, real: &[Vec<u8>]) -> Done<bool> {
        for end in (1..real.len()).rev() {
            if self.opaque.contains(&below::text(&real[..end])) {
                return Ok(false);
            }
            // A file on the way, or a whiteout: nothing below is seen through it.
            match self.own(&real[..end])? {
                Some(stat) if !is_directory(&stat) => return Ok(false),
                _ => {}
            }
        }
        Ok(!self.hides_all)
    }

    fn look(&self, real: &[Vec<u8>]) -> Done<Seen> {
        if self.ways.contains(&below::text(real)) {
            return Ok(Seen::Directory);
        }
        let (layer, stat) = match self.own(real)? {
            Some(stat) => (&self.root, stat),
            None if !self.shows_below(real)? => return Ok(Seen::Absent),
            None => match self.below.find(real).map_err(Wrong::of("look below"))? {
                Some(found) => (found.layer, found.stat),
                None => return Ok(Seen::Absent),
            },
        };
        Ok(match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => Seen::Directory,
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(layer, below::text(real), Vec::new());
                Seen::Link(target.map_err(Wrong::of("read the link"))?.into_bytes())
            }
            _ if is_whiteout(&stat) => Seen::Absent,
            _ => Seen::Other,
        })
    }

    /// The real path of something whose directories may be links.
    fn real(&self, asked: &[Vec<u8>]) -> Done<Parts> {
        let Some((name, folder)) = asked.split_last() else { return Ok(Parts::new()) };
        let mut real = resolve::directory(folder, |at| self.look(at))?;
        real.push(name.clone());
        Ok(real)
    }

    /// Opens the directory of an entry, and makes it if it is not there.
    pub(crate) fn locate(&mut self, asked: &[Vec<u8>]) -> Done<Place> {
        let (name, folder) = match asked.split_last() {
            Some((name, folder)) => (Some(name.clone()), folder),
            None => (None, asked),
        };
        let key = folder.join(&b'/');
        // Entries of one directory follow each other: it is opened once.
        if self.last.as_ref().is_none_or(|last| last.asked != key) {
            let real = resolve::directory(folder, |at| self.look(at))?;
            self.make_way(&real)?;
            let folder = std::rc::Rc::new(self.open(&real)?);
            self.last = Some(Last { asked: key, real, folder });
        }
        let Some(last) = &self.last else {
            return Err(Wrong::new("open", "its directory is gone".to_owned()));
        };
        let mut real = last.real.clone();
        real.extend(name);
        Ok(Place { folder: last.folder.clone(), real })
    }

    fn open(&self, real: &[Vec<u8>]) -> Done<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // Links in an archive must not lead out of the tree, even if one is put there meanwhile.
        let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let path = below::text(real);
        open_within(&self.root, &path, flags, how).map_err(Wrong::of("open its directory"))
    }

    /// Makes the directories of a real path that this layer lacks.
    fn make_way(&mut self, real: &[Vec<u8>]) -> Done {
        for end in 1..=real.len() {
            let upto = &real[..end];
            let text = below::text(upto);
            if self.ways.contains(&text) {
                continue;
            }
            match self.own(upto)? {
                Some(stat) if is_directory(&stat) => {}
                Some(_) => {
                    self.remove(upto)?;
                    self.make_directory(upto, 0o755)?;
                    // What a lower layer has there was hidden by what is replaced.
                    self.set_opaque(upto)?;
                }
                None => self.make_like_below(upto)?,
            }
            self.know(text);
        }
        Ok(())
    }

    /// Notes a directory that is there.
    fn know(&mut self, text: Vec<u8>) {
        if self.ways.len() >= MOST_WAYS {
            self.ways.clear();
        }
        self.ways.insert(text);
    }

    /// Bytes of the paths that are kept until all is unpacked.
    pub(crate) fn kept(&self) -> usize {
        self.kept
    }

    fn make_like_below(&mut self, real: &[Vec<u8>]) -> Done {
        let shows = self.shows_below(real)?;
        self.make_directory(real, 0o755)?;
        if !shows {
            return Ok(());
        }
        match self.below.find(real).map_err(Wrong::of("look below"))? {
            Some(found) if is_directory(&found.stat) => {
                self.become_like(&self.path_of(real), &found, real)
            }
            _ => Ok(()),
        }
    }

    fn make_directory(&self, real: &[Vec<u8>], mode: u32) -> Done {
        rustix::fs::mkdirat(&self.root, below::text(real), Mode::from_raw_mode(mode))
            .map_err(Wrong::of("make its directory"))
    }

    /// A real path outside of the tree's own descriptors: it has no links.
    fn path_of(&self, real: &[Vec<u8>]) -> PathBuf {
        use std::os::unix::ffi::OsStringExt;
        self.path.join(std::ffi::OsString::from_vec(below::text(real)))
    }

    /// Removes what this layer has at a real path.
    fn remove(&mut self, real: &[Vec<u8>]) -> Done {
        let fail = |e: io::Error| Wrong::at("replace", &e);
        let path = self.path_of(real);
        let is_folder = self.own(real)?.is_some_and(|stat| is_directory(&stat));
        if is_folder {
            std::fs::remove_dir_all(&path).map_err(fail)?;
        } else {
            std::fs::remove_file(&path).map_err(fail)?;
        }
        // Facts about paths below it no longer hold.
        (self.last, self.ways) = (None, HashSet::new());
        self.forget(&below::text(real));
        Ok(())
    }

    /// Forgets what is kept of a path and all below it.
    fn forget(&mut self, text: &[u8]) {
        // "0" follows "/" in ASCII: the range has all paths below this one, and none beside it.
        let (begin, end) = ([text, b"/"].concat(), [text, b"0"].concat());
        let itself = || [text.to_vec()];
        let opaque = self.opaque.range(begin.clone()..end.clone()).cloned();
        for path in opaque.chain(itself()).collect::<Vec<_>>() {
            self.kept -= if self.opaque.remove(&path) { path.len() } else { 0 };
        }
        let times = self.times.range(begin..end).map(|(path, _)| path.clone());
        for path in times.chain(itself()).collect::<Vec<_>>() {
            self.kept -= self.times.remove(&path).map_or(0, |_| path.len());
        }
    }

    /// Marks a directory of this layer, which hides those below from here on.
    fn set_opaque(&mut self, real: &[Vec<u8>]) -> Done {
        if real.is_empty() {
            self.hides_all = true;
            return Ok(());
        }
        let text = below::text(real);
        if self.opaque.contains(&text) {
            return Ok(());
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = rustix::fs::openat(&self.root, &text, flags, Mode::empty())
            .map_err(Wrong::of("open its directory"))?;
        rustix::fs::fsetxattr(&folder, self.owners.opaque(), b"y", XattrFlags::empty())
            .map_err(Wrong::of("hide what is below"))?;
        self.kept += text.len();
        self.opaque.insert(text);
        Ok(())
    }

    /// Makes room for an entry that is not a directory, or for a directory; `true` if a directory is there already.
    pub(crate) fn make_room(
        &mut self,
        asked: &[Vec<u8>],
        for_directory: bool,
    ) -> Done<(Place, bool)> {
        let place = self.locate(asked)?;
        let Some(stat) = self.own(&place.real)? else { return Ok((place, false)) };
        if for_directory && is_directory(&stat) {
            return Ok((place, true));
        }
        if place.real.is_empty() {
            return Err(Wrong::new("replace", "it is the root".to_owned()));
        }
        self.remove(&place.real)?;
        // Again: making room has forgotten the directory.
        Ok((self.locate(asked)?, false))
    }

    /// Hides what layers below have at a path.
    pub(crate) fn hide(&mut self, asked: &[Vec<u8>]) -> Done {
        let real = self.real(asked)?;
        match self.own(&real)? {
            // Files of its own layer stay.
            Some(stat) if is_directory(&stat) => return self.set_opaque(&real),
            Some(_) => return Ok(()),
            None => {}
        }
        let hidden = self.shows_below(&real)?
            && self.below.find(&real).map_err(Wrong::of("look below"))?.is_some();
        // A whiteout of nothing would be a stray device file.
        if !hidden {
            return Ok(());
        }
        let place = self.locate(asked)?;
        rustix::fs::mknodat(
            // Device 0/0 is overlayfs' whiteout; a user namespace may make it since Linux 5.8.
            &*place.folder,
            place.name(),
            FileType::CharacterDevice,
            Mode::empty(),
            0,
        )
        .map_err(Wrong::of("make a whiteout"))
    }

    /// Hides all that layers below have in a directory.
    pub(crate) fn hide_all(&mut self, asked: &[Vec<u8>]) -> Done {
        let real = resolve::directory(asked, |at| self.look(at))?;
        self.make_way(&real)?;
        self.set_opaque(&real)
    }

    /// Makes a directory.
    pub(crate) fn directory(&mut self, asked: &[Vec<u8>], entry: &Entry) -> Done {
        let was_there = {
            let place = self.locate(asked)?;
            self.own(&place.real)?
        };
        let (place, is_there) = self.make_room(asked, true)?;
        if !is_there {
            let mode = Mode::from_raw_mode(entry.mode);
            rustix::fs::mkdirat(&*place.folder, place.name(), mode).map_err(Wrong::of("make"))?;
            if was_there.is_some() {
                // It replaces a file or a whiteout: nothing below is seen any more.
                self.set_opaque(&place.real)?;
            }
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = rustix::fs::openat(&*place.folder, place.name(), flags, Mode::empty())
            .map_err(Wrong::of("open"))?;
        self.dress(&folder, entry, true)?;
        let text = below::text(&place.real);
        if self.times.insert(text.clone(), entry.mtime).is_none() {
            self.kept += text.len();
        }
        self.know(text);
        Ok(())
    }

    /// Makes an empty file; its data follow, then [`Tree::dress`].
    pub(crate) fn file(&mut self, asked: &[Vec<u8>]) -> Done<OwnedFd> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // Mostly nothing has the name: only a refusal is followed by a look.
        let open = |place: &Place| {
            rustix::fs::openat(&*place.folder, place.name(), flags, Mode::from_raw_mode(0o600))
        };
        let place = self.locate(asked)?;
        match open(&place) {
            Err(Errno::EXIST) => open(&self.make_room(asked, false)?.0).map_err(Wrong::of("make")),
            opened => opened.map_err(Wrong::of("make")),
        }
    }

    /// Gives an open file its owner, attributes, permissions and time.
    pub(crate) fn dress(&self, file: &OwnedFd, entry: &Entry, is_directory: bool) -> Done {
        if self.owners.are_kept() {
            chown(|uid, gid| rustix::fs::fchown(file, uid, gid), entry)?;
        }
        // After the owner, whose change drops file capabilities, too, which are an attribute.
        for (name, value) in entry.xattrs.iter().filter(|(name, _)| is_allowed_attribute(name)) {
            match rustix::fs::fsetxattr(file, name.as_str(), value, XattrFlags::empty()) {
                // A file system without them has files all the same.
                Ok(()) | Err(Errno::NOTSUP) => {}
                Err(e) => {
                    let wrong = Wrong::of("set attributes")(e);
                    return Err(Wrong { why: format!("{name}: {}", wrong.why), ..wrong });
                }
            }
        }
        // Last: a change of the owner drops set-id bits.
        rustix::fs::fchmod(file, Mode::from_raw_mode(entry.mode))
            .map_err(Wrong::of("set permissions"))?;
        if is_directory {
            // Files that follow would change it.
            return Ok(());
        }
        rustix::fs::futimens(file, &times(entry.mtime)).map_err(Wrong::of("set the time"))
    }

    /// Makes a symbolic link.
    pub(crate) fn symlink(&mut self, asked: &[Vec<u8>], entry: &Entry) -> Done {
        // The kernel refuses an empty target, and a zero ends it.
        if entry.link.is_empty() || entry.link.contains(&0) {
            return Err(Wrong::new("read", "the link points to nothing".to_owned()));
        }
        let (place, _) = self.make_room(asked, false)?;
        rustix::fs::symlinkat(entry.link.as_slice(), &*place.folder, place.name())
            .map_err(Wrong::of("make"))?;
        if self.owners.are_kept() {
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            chown(
                |uid, gid| rustix::fs::chownat(&*place.folder, place.name(), uid, gid, flags),
                entry,
            )?;
        }
        rustix::fs::utimensat(
            &*place.folder,
            place.name(),
            &times(entry.mtime),
            AtFlags::SYMLINK_NOFOLLOW,
        )
        .map_err(Wrong::of("set the time"))
    }

    /// Makes a FIFO.
    pub(crate) fn fifo(&mut self, asked: &[Vec<u8>], entry: &Entry) -> Done {
        let (place, _) = self.make_room(asked, false)?;
        let mode = Mode::from_raw_mode(entry.mode);
        rustix::fs::mknodat(&*place.folder, place.name(), FileType::Fifo, mode, 0)
            .map_err(Wrong::of("make"))?;
        if self.owners.are_kept() {
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            chown(
                |uid, gid| rustix::fs::chownat(&*place.folder, place.name(), uid, gid, flags),
                entry,
            )?;
        }
        Ok(())
    }

    /// Makes another name of a file of this layer, or of one below, which then is in this layer, too.
    pub(crate) fn hard_link(&mut self, asked: &[Vec<u8>], entry: &Entry) -> Done {
        let target = parts(&entry.link)?;
        let gone = || Wrong::new("link", "its target is missing".to_owned());
        let (_, folder) = target.split_last().ok_or_else(gone)?;
        let real = self.real(&target)?;
        match self.own(&real)? {
            Some(stat) if is_whiteout(&stat) => return Err(gone()),
            Some(_) => {}
            None => {
                if !self.shows_below(&real)? {
                    return Err(gone());
                }
                self.make_way(&resolve::directory(folder, |at| self.look(at))?)?;
                let found = self.below.find(&real).map_err(Wrong::of("look below"))?;
                let found = found.ok_or_else(gone)?;
                copying::copy(&found, &real, &self.root, self.owners)?;
            }
        }
        let text = below::text(&real);
        if self.own(&self.real(asked)?)?.is_some() {
            // A name that is linked to itself is there already.
            if self.real(asked)? == real {
                return Ok(());
            }
            self.make_room(asked, false)?;
        }
        let place = self.locate(asked)?;
        rustix::fs::linkat(&self.root, &text, &*place.folder, place.name(), AtFlags::empty())
            .map_err(Wrong::of("link"))
    }

    /// Sets the times of directories, when nothing changes them any more.
    pub(crate) fn finish(&mut self) -> Done {
        for (text, mtime) in &self.times {
            rustix::fs::utimensat(&self.root, text, &times(*mtime), AtFlags::SYMLINK_NOFOLLOW)
                .map_err(Wrong::of("set the time of a directory"))?;
        }
        Ok(())
    }
}

/// Changes an owner. One that an ordinary user's namespace does not have becomes root.
fn chown(
    change: impl Fn(Option<Uid>, Option<Gid>) -> rustix::io::Result<()>,
    entry: &Entry,
) -> Done {
    match change(Some(Uid::from_raw(entry.uid)), Some(Gid::from_raw(entry.gid))) {
        // Its files stay usable; EINVAL says that the id has no mapping (user_namespaces(7)).
        Err(Errno::INVAL) => change(Some(Uid::ROOT), Some(Gid::ROOT)),
        done => done,
    }
    .map_err(Wrong::of("change the owner"))
}

fn times(mtime: i64) -> Timestamps {
    let at = Timespec { tv_sec: mtime, tv_nsec: 0 };
    Timestamps { last_access: at, last_modification: at }
}
