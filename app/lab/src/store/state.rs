//! The state of a lab on disk: one folder, from which everything that exists of the lab can be found.
//!
//! `lock` is held (flock) by the lab process, its spawner and every init that has not reported yet:
//! a process that gets it knows that nothing more is being made. `state.json` is written before anything
//! is made, `up` after everything is. `n/` holds the inits' sockets and logs. Files are 0600, folders
//! 0700. Files are written under another name and renamed, so that a file is never partial.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use netloom_digest::fnv1a;
use netloom_model::Plan;
use netloom_model::plan::PlannedLink;
use netloom_model::plan::form::{Forms, LinkForm, Seat};
use netloom_model::plan::{LinkId, NodeId};
use netloom_node::spec::{log_names, socket_name};
use netloom_sys::cgroup::Groups;
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use crate::store::host_change::HostChange;
use crate::store::image::Used;
use crate::store::moved::Moved;
use crate::store::names::{self, Names};
use crate::store::whole_file;
use crate::{Error, Result};

/// The file that marks a folder as a node's view of its lab.
pub(crate) const SCOPE_MARK: &str = "scope";

/// The file in the common folder of labs that records that netloom made that folder.
const MADE_MARK: &str = ".made";

/// The file with the state before the first change.
const MADE_STATE: &str = "made.json";

/// The file with the state before a file was applied, until that is done.
const BEFORE_STATE: &str = "before.json";

/// The nodes that are being made.
const HALF_MADE: &str = "making.json";

/// The state that a lab process stores before it makes anything.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct State {
    /// The plan of everything that shall exist.
    pub plan: Plan,
    /// The nodes' cgroups.
    pub groups: Groups,
    /// Whether the lab is in a user namespace.
    pub user: bool,
    /// Whether that has many users, and not one.
    #[serde(default)]
    pub many_users: bool,
    /// Start of the lab: Unix time in seconds.
    pub since: u64,
    /// How its links are made.
    #[serde(default)]
    pub forms: Forms,
    /// Links of form [`LinkForm::Wired`] and [`LinkForm::Tap`] as the previous version stored them; emptied on reading.
    #[serde(default, skip_serializing)]
    pub(crate) wired: BTreeSet<LinkId>,
    #[serde(default, skip_serializing)]
    pub(crate) tapped: BTreeSet<LinkId>,
    /// Interfaces that are not where the plan put them.
    #[serde(default)]
    pub moved: Vec<Moved>,
    /// Links with an interface that could not return to its node, with the reason: the next `up` makes them anew.
    #[serde(default)]
    pub lost: BTreeMap<LinkId, String>,
    /// Links that are set down, as if their cable were pulled.
    #[serde(default)]
    pub down: BTreeSet<LinkId>,
    /// Nodes being removed: the next lab process completes the removal.
    #[serde(default)]
    pub leaving: BTreeSet<NodeId>,
    /// Links that are only partly made or removed: the next lab process removes them.
    #[serde(default)]
    pub unfinished: BTreeSet<LinkId>,
    /// The images of its nodes, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub images: BTreeMap<String, Used>,
    /// Absolute path of the lab file; `None` if the lab was made without one.
    #[serde(default)]
    pub file: Option<PathBuf>,
}

impl State {
    /// How a link is made.
    pub(crate) fn form(&self, link: &PlannedLink) -> LinkForm {
        self.forms.get(&self.plan, link)
    }

    /// The seat of a link's end.
    pub(crate) fn seat(&self, link: &PlannedLink, side: usize) -> Seat {
        self.form(link).seat(link, side)
    }

    /// The same state, of another plan.
    pub(crate) fn with_plan(&self, plan: Plan) -> State {
        State {
            plan,
            groups: self.groups.clone(),
            user: self.user,
            many_users: self.many_users,
            since: self.since,
            forms: self.forms.clone(),
            wired: BTreeSet::new(),
            tapped: BTreeSet::new(),
            moved: self.moved.clone(),
            lost: self.lost.clone(),
            down: self.down.clone(),
            leaving: self.leaving.clone(),
            unfinished: self.unfinished.clone(),
            images: self.images.clone(),
            file: self.file.clone(),
        }
    }

    /// Converts fields that the previous version stored differently.
    fn renewed(mut self) -> State {
        for (old, form) in [
            (std::mem::take(&mut self.wired), LinkForm::Wired),
            (std::mem::take(&mut self.tapped), LinkForm::Tap),
        ] {
            old.into_iter().for_each(|link| self.forms.set(link, form));
        }
        self
    }
}

impl Names {
    /// The names in the lab of a folder; empty if they cannot be read.
    pub fn of(folder: &Folder) -> Names {
        folder.read_json(names::FILE).ok().flatten().unwrap_or_default()
    }
}

/// The parent of labs' folders: `$NETLOOM_RUNTIME_DIR`, else `/run/netloom` for root, else
/// `$XDG_RUNTIME_DIR/netloom`, else `/tmp/netloom-UID`.
pub fn runtime_dir() -> PathBuf {
    let set = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    if let Some(dir) = set("NETLOOM_RUNTIME_DIR") {
        return std::path::absolute(&dir).unwrap_or(dir);
    }
    let uid = rustix::process::geteuid();
    if uid.is_root() {
        return "/run/netloom".into();
    }
    set("XDG_RUNTIME_DIR")
        .map_or_else(|| format!("/tmp/netloom-{}", uid.as_raw()).into(), |d| d.join("netloom"))
}

/// The folder of one lab.
#[derive(Clone, Debug)]
pub struct Folder {
    runtime: PathBuf,
    name: String,
}

impl Folder {
    /// The folder of the lab `name` (checked by the model to be a plain file name).
    pub fn new(runtime: &Path, name: &str) -> Folder {
        Folder { runtime: runtime.to_owned(), name: name.to_owned() }
    }

    /// The folders of all labs, by name.
    pub fn all(runtime: &Path) -> Vec<Folder> {
        let entries = fs::read_dir(runtime).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .filter(|e| e.file_type().is_ok_and(|t| t.is_dir()))
            .filter_map(|e| e.file_name().into_string().ok())
            // Files that labs share; no lab's name begins with a dot.
            .filter(|name| !name.starts_with('.'))
            .collect();
        names.sort();
        names.iter().map(|n| Folder::new(runtime, n)).collect()
    }

    /// The lab's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The folder of all labs.
    pub fn runtime(&self) -> &Path {
        &self.runtime
    }

    /// Its path.
    pub fn path(&self) -> PathBuf {
        self.runtime.join(&self.name)
    }

    /// The folder of the inits' sockets and logs.
    pub fn sockets(&self) -> PathBuf {
        self.path().join("n")
    }

    /// The control socket of the wires' process.
    pub fn wire_socket(&self) -> PathBuf {
        self.path().join("wire.sock")
    }

    /// The folder of the files of switches and plugs.
    pub(crate) fn switch_files(&self) -> PathBuf {
        self.path().join("k")
    }

    /// The state file of a shared-memory switch.
    pub(crate) fn switch_state(&self, switch: &str) -> PathBuf {
        self.switch_files().join(format!("{switch}.json"))
    }

    /// The parent of the folders of OpenFlow switches.
    pub(crate) fn flow_files(&self) -> PathBuf {
        self.path().join("o")
    }

    /// The folder of an OpenFlow switch: its sockets and its state.
    pub(crate) fn flow_folder(&self, switch: &str) -> PathBuf {
        self.flow_files().join(short(switch))
    }

    /// The socket at which an OpenFlow switch takes requests.
    pub(crate) fn flow_control(&self, switch: &str) -> PathBuf {
        self.flow_folder(switch).join("control")
    }

    /// The socket at which an OpenFlow switch speaks OpenFlow.
    pub fn flow_socket(&self, switch: &str) -> PathBuf {
        self.flow_folder(switch).join("openflow")
    }

    /// The folder of the slicer: its sockets, and one for each virtual switch, `SLICE.SWITCH`.
    pub(crate) fn slicer_folder(&self) -> PathBuf {
        self.path().join("sl")
    }

    /// The socket at which the slicer takes requests.
    pub fn slicer_control(&self) -> PathBuf {
        self.slicer_folder().join("control")
    }

    /// The socket at which switches connect to the slicer.
    pub(crate) fn slicer_socket(&self) -> PathBuf {
        self.slicer_folder().join("openflow")
    }

    /// The socket of a virtual switch.
    pub fn virtual_socket(&self, slice: &str, switch: &str) -> PathBuf {
        self.slicer_folder().join(format!("{slice}.{switch}"))
    }

    /// What daemons of a router put down for those of the node that it moves to, beside its plane.
    pub(crate) fn carried(&self, plane: &str) -> PathBuf {
        self.flow_folder(plane).join("carried")
    }

    /// The file that the process which follows a router holds a lock on, beside its plane.
    pub(crate) fn router_lock(&self, plane: &str) -> PathBuf {
        self.flow_folder(plane).join("router.lock")
    }

    /// All such files, those of planes that are no longer in a plan among them.
    pub(crate) fn router_locks(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.flow_files()).into_iter().flatten().flatten();
        entries.map(|entry| entry.path().join("router.lock")).collect()
    }

    /// The file that the process which publishes a node's ports holds a lock on.
    pub(crate) fn ports_lock(&self, node: NodeId) -> PathBuf {
        self.path().join(format!("{node}.ports.lock"))
    }

    /// All such files.
    pub(crate) fn ports_locks(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path()).into_iter().flatten().flatten();
        let is_lock = |path: &PathBuf| path.to_string_lossy().ends_with(".ports.lock");
        entries.map(|entry| entry.path()).filter(is_lock).collect()
    }

    /// A file of the way out of a lab of an ordinary user: `lock`, `net` (the place of its namespace), `log`.
    pub(crate) fn uplink(&self, file: &str) -> PathBuf {
        self.path().join(format!("uplink.{file}"))
    }

    /// The file that the plug of a link's end holds a lock on.
    pub(crate) fn plug_lock(&self, link: LinkId, side: usize) -> PathBuf {
        self.switch_files().join(format!("{link}-{side}.lock"))
    }

    /// The lock file of the process that offers a switch to clients of classic VDE. As an id of a link has no
    /// letters, no plug has it.
    pub(crate) fn vde_lock(&self, switch: &str) -> PathBuf {
        self.switch_files().join(format!("{switch}.vde.lock"))
    }

    /// The lock files of all plugs, and of what offers switches to clients of VDE.
    pub(crate) fn plug_locks(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.switch_files()).into_iter().flatten().flatten();
        let is_lock = |path: &PathBuf| path.extension().is_some_and(|e| e == "lock");
        entries.map(|e| e.path()).filter(is_lock).collect()
    }

    /// The folder of sockets by which a node manages the nodes in it.
    pub fn scope(&self, node: NodeId) -> PathBuf {
        self.path().join("s").join(node.to_string())
    }

    /// Whether this is a node's view of its lab rather than the lab's own folder.
    pub fn is_scope(&self) -> bool {
        self.path().join(SCOPE_MARK).exists()
    }

    /// Whether the folder exists.
    pub fn exists(&self) -> bool {
        self.path().is_dir()
    }

    /// Makes the folder; an existing one is success. Refuses a folder of another user.
    pub fn create(&self) -> Result<()> {
        make_common_dir(&self.runtime)?;
        make_private_dir(&self.path(), false)?;
        make_private_dir(&self.sockets(), false)
    }

    /// A name for objects that the lab makes outside its folder: unique for folder and lab, at most 48
    /// bytes, letters, digits, `.`, `_`, `-`.
    pub fn id(&self) -> String {
        let mut name = self.name.clone();
        name.truncate(39);
        format!("{name}-{:08x}", self.hash() & 0xffff_ffff)
    }

    /// FNV-1a (64 bit) over the folder's path.
    pub fn hash(&self) -> u64 {
        use std::os::unix::ffi::OsStrExt;
        fnv1a::hash(self.path().as_os_str().as_bytes())
    }

    /// Takes the lock; `None` if another process holds it.
    pub fn try_lock(&self) -> Result<Option<OwnedFd>> {
        let lock = self.open_lock()?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(lock)),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(e) => Err(Error::at(self.lock_path(), "lock")(e)),
        }
    }

    /// Whether the lock that was taken is still the file in the folder.
    pub fn is_locked_by(&self, lock: &OwnedFd) -> bool {
        match (rustix::fs::fstat(lock), rustix::fs::stat(self.lock_path())) {
            (Ok(a), Ok(b)) => a.st_ino == b.st_ino && a.st_dev == b.st_dev,
            _ => false,
        }
    }

    fn lock_path(&self) -> PathBuf {
        self.path().join("lock")
    }

    fn open_lock(&self) -> Result<OwnedFd> {
        let path = self.lock_path();
        let mut options = File::options();
        options.write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(&path).map_err(Error::at(&path, "open"))?;
        Ok(OwnedFd::from(file))
    }

    /// Writes the state and the file of its names.
    pub fn write_state(&self, state: &State) -> Result<()> {
        self.write_json("state.json", state)?;
        self.write_json(names::FILE, &Names::now(&state.plan, &state.moved))
    }

    /// Reads the state; `None` when there is none.
    pub fn read_state(&self) -> Result<Option<State>> {
        Ok(self.read_json("state.json")?.map(State::renewed))
    }

    /// Before the first change, keeps a copy of the state that was made from the lab file.
    pub(crate) fn keep_made(&self) -> Result<()> {
        let made = self.path().join(MADE_STATE);
        match fs::hard_link(self.path().join("state.json"), &made) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
                Err(Error::at(&made, "keep what was made")(e))
            }
            _ => Ok(()),
        }
    }

    /// The state as made from the lab file; `None` if it was never changed.
    pub(crate) fn read_made(&self) -> Result<Option<State>> {
        Ok(self.read_json(MADE_STATE)?.map(State::renewed))
    }

    /// Notes nodes that are about to be made: whoever adopts the lab meanwhile ends them, and they are made as a whole.
    pub(crate) fn note_half_made(&self, ids: &[NodeId]) -> Result<()> {
        self.write_json(HALF_MADE, &ids)
    }

    /// Nodes that were being made when the lab process ended.
    pub(crate) fn half_made(&self) -> Result<Vec<NodeId>> {
        Ok(self.read_json(HALF_MADE)?.unwrap_or_default())
    }

    /// They are whole: their programs are started next.
    pub(crate) fn forget_half_made(&self) -> Result<()> {
        self.remove_file(HALF_MADE)
    }

    /// Keeps the state as it is before a file is applied; one that an earlier attempt kept stays.
    pub(crate) fn keep_before(&self) -> Result<()> {
        let before = self.path().join(BEFORE_STATE);
        match fs::hard_link(self.path().join("state.json"), &before) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
                Err(Error::at(&before, "keep what stands")(e))
            }
            _ => Ok(()),
        }
    }

    /// The state before a file was applied that has not been applied completely.
    pub(crate) fn read_before(&self) -> Result<Option<State>> {
        Ok(self.read_json(BEFORE_STATE)?.map(State::renewed))
    }

    /// Whether a file is applied in part.
    pub(crate) fn was_cut_off(&self) -> bool {
        self.path().join(BEFORE_STATE).exists()
    }

    /// A file has been applied: what was made is the state, or `made` where changes by hand were kept.
    pub(crate) fn forget_before(&self, made: Option<Plan>, state: &State) -> Result<()> {
        match made {
            Some(plan) => {
                self.write_json(MADE_STATE, &state.with_plan(plan))?;
            }
            None => self.remove_file(MADE_STATE)?,
        }
        self.remove_file(BEFORE_STATE)
    }

    fn remove_file(&self, name: &str) -> Result<()> {
        let path = self.path().join(name);
        match fs::remove_file(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(Error::at(&path, "remove")(e)),
            _ => Ok(()),
        }
    }

    /// Records a change of the host before it is made.
    pub fn write_host_changes(&self, changes: &[HostChange]) -> Result<()> {
        self.write_json("host.json", &changes)
    }

    /// The recorded changes of the host; the last one may not have been made.
    pub fn read_host_changes(&self) -> Result<Vec<HostChange>> {
        Ok(self.read_json("host.json")?.unwrap_or_default())
    }

    /// Removes the files of a removed node: its socket, logs and scope.
    pub(crate) fn remove_node_files(&self, node: NodeId) -> Result<()> {
        let sockets = self.sockets();
        let files = log_names(node.get()).into_iter().chain([socket_name(node.get())]);
        for name in files {
            match fs::remove_file(sockets.join(&name)) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => {
                    return Err(Error::at(sockets.join(name), "remove")(e));
                }
                _ => {}
            }
        }
        match fs::remove_dir_all(self.scope(node)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                Err(Error::at(self.scope(node), "remove")(e))
            }
            _ => Ok(()),
        }
    }

    /// Marks the lab as complete.
    pub fn mark_up(&self) -> Result<()> {
        self.write("up", b"")
    }

    /// Whether the lab was marked as complete.
    pub fn is_up(&self) -> bool {
        self.path().join("up").exists()
    }

    /// Marks the lab as one that could not come up and is kept.
    pub(crate) fn mark_failed(&self, reason: &str) -> Result<()> {
        self.write("failed", reason.as_bytes())
    }

    /// Whether the lab could not come up and was kept.
    pub(crate) fn has_failed(&self) -> bool {
        self.path().join("failed").exists()
    }

    /// Records the lab process.
    pub fn write_pid(&self, pid: i32) -> Result<()> {
        self.write("lab.pid", format!("{pid}\n").as_bytes())
    }

    /// The recorded lab process; it may have ended.
    pub fn read_pid(&self) -> Option<i32> {
        fs::read_to_string(self.path().join("lab.pid")).ok()?.trim().parse().ok()
    }

    fn write_json(&self, name: &str, value: &impl Serialize) -> Result<()> {
        whole_file::write_json(&self.path().join(name), value)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        whole_file::write(&self.path().join(name), bytes)
    }

    pub(crate) fn read_json<T: for<'a> Deserialize<'a>>(&self, name: &str) -> Result<Option<T>> {
        whole_file::read_json(&self.path().join(name))
    }

    /// Removes everything in the folder except the lock.
    pub fn empty(&self) -> Result<()> {
        let path = self.path();
        for entry in fs::read_dir(&path).map_err(Error::at(&path, "list"))?.flatten() {
            if entry.file_name() == "lock" {
                continue;
            }
            let is_dir = entry.file_type().is_ok_and(|t| t.is_dir());
            let gone = if is_dir {
                fs::remove_dir_all(entry.path())
            } else {
                fs::remove_file(entry.path())
            };
            match gone {
                Err(e) if e.kind() != io::ErrorKind::NotFound => {
                    return Err(Error::at(entry.path(), "remove")(e));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Removes the folder with its content, the lock last.
    pub fn remove(&self) -> Result<()> {
        self.empty()?;
        let path = self.path();
        fs::remove_dir_all(&path).map_err(Error::at(&path, "remove"))?;
        remove_common_dir(&self.runtime);
        Ok(())
    }
}

/// Makes the common folder of labs; marks a new one with [`MADE_MARK`].
fn make_common_dir(path: &Path) -> Result<()> {
    if let Some(parent) = path.parent().filter(|_| !path.exists()) {
        fs::DirBuilder::new()
            .mode(0o700)
            .recursive(true)
            .create(parent)
            .map_err(Error::at(parent, "make folder"))?;
        // Another process may be making it and marks it itself.
        if fs::DirBuilder::new().mode(0o700).create(path).is_ok() {
            let mark = path.join(MADE_MARK);
            File::create(&mark).map_err(Error::at(&mark, "write"))?;
        }
    }
    make_private_dir(path, true)
}

/// Removes the common folder if it is empty and netloom made it.
fn remove_common_dir(path: &Path) {
    let mark = path.join(MADE_MARK);
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let mut others = entries.filter(|entry| entry.file_name() != MADE_MARK);
    if others.next().is_some() || fs::remove_file(&mark).is_err() {
        return;
    }
    if fs::remove_dir(path).is_err() {
        // Another lab was made meanwhile; the folder is removed with that one.
        let _ = File::create(&mark);
    }
}

/// Makes the folder of a socket that other users may be given access to, and lets them enter it.
pub(crate) fn make_shared_dir(socket: &Path) -> Result<()> {
    let Some(folder) = socket.parent() else { return Ok(()) };
    make_private_dir(folder, true)?;
    for path in [Some(folder), folder.parent()].into_iter().flatten() {
        let found = fs::metadata(path).map_err(Error::at(path, "look at"))?;
        let mode = found.mode() & 0o777 | 0o011;
        fs::set_permissions(path, fs::Permissions::from_mode(mode))
            .map_err(Error::at(path, "let others pass"))?;
    }
    Ok(())
}

/// A name that fits into the path of a socket: a long one keeps its beginning, followed by a hash of the whole.
fn short(name: &str) -> String {
    const LONGEST: usize = 24;
    if name.len() <= LONGEST {
        return name.to_owned();
    }
    let hash = netloom_digest::fnv1a::hash_32(name.as_bytes());
    let kept = (0..=LONGEST - 9).rev().find_map(|end| name.get(..end)).unwrap_or_default();
    format!("{kept}~{hash:08x}")
}

/// Makes a folder for its owner alone; refuses an existing one that others could have prepared.
pub(crate) fn make_private_dir(path: &Path, deep: bool) -> Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.mode(0o700).recursive(deep);
    match builder.create(path) {
        Ok(()) => {}
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        Err(e) => return Err(Error::at(path, "make folder")(e)),
    }
    let found = fs::symlink_metadata(path).map_err(Error::at(path, "look at"))?;
    let own = rustix::process::geteuid().as_raw();
    if !found.is_dir() || found.uid() != own {
        let e = io::Error::other("not a folder of this user's");
        return Err(Error::at(path, "use as folder of labs")(e));
    }
    if found.mode() & 0o022 != 0 {
        let e = io::Error::other("others may write there");
        return Err(Error::at(path, "use as folder of labs")(e));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_common_folder_that_was_made_goes_with_its_last_lab() {
        let base = tempfile::tempdir().unwrap();
        for (runtime, given) in [("given", true), ("new/deep", false)] {
            let runtime = base.path().join(runtime);
            if given {
                make_private_dir(&runtime, true).unwrap();
            }
            let [one, two] = ["one", "two"].map(|name| Folder::new(&runtime, name));
            one.create().unwrap();
            two.create().unwrap();
            assert_eq!(Folder::all(&runtime).len(), 2);
            one.remove().unwrap();
            assert!(two.path().is_dir());
            two.remove().unwrap();
            assert_eq!(runtime.is_dir(), given);
            assert!(!given || fs::read_dir(&runtime).unwrap().next().is_none());
        }
    }

    #[test]
    fn what_a_lab_makes_outside_its_folder_is_named_for_ever() {
        let folder = Folder::new(Path::new("/run/netloom"), "two-sites");
        assert_eq!(folder.hash(), 0x9f4b_21b7_4547_e752);
        assert_eq!(folder.id(), "two-sites-4547e752");
    }

    #[test]
    fn forms_of_links_are_read_as_the_version_before_stored_them() {
        let yaml = b"name: old\nnodes: {a: {}, b: {}}\nlinks: [[a, b], [a, b], [a, b]]";
        let plan = netloom_model::plan::plan(&netloom_model::parse("old", yaml, "old").unwrap());
        let plan = plan.unwrap();
        let groups = Groups::new(vec![], "old", BTreeSet::new());
        let old = serde_json::json!({
            "plan": plan, "groups": groups, "user": false, "since": 0, "wired": [0], "tapped": [2],
        });
        let state = serde_json::from_value::<State>(old).unwrap().renewed();
        let forms: Vec<_> = state.plan.links.iter().map(|link| state.form(link)).collect();
        assert_eq!(forms, [LinkForm::Wired, LinkForm::Pair, LinkForm::Tap]);
        let again: State = serde_json::from_value(serde_json::to_value(&state).unwrap()).unwrap();
        assert_eq!(again.forms, state.forms);
    }
}
