//! The state of a lab on disk: one folder, from which everything that exists of the lab can be found.
//!
//! `lock` is held (flock) by the lab process, its spawner and every init that has not reported yet:
//! a process that gets it knows that nothing more is being made. `state.json` is written before anything
//! is made, `up` after everything is. `n/` holds the inits' sockets and logs. Files are 0600, folders
//! 0700. Files are written under another name and renamed, so that a file is never partial.

mod content;
mod folders;
mod places;

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use netloom_digest::fnv1a;
use netloom_model::merging::KeyChange;
use netloom_model::plan::PlannedLink;
use netloom_model::plan::form::{Forms, LinkForm, Seat};
use netloom_model::plan::{LinkId, NodeId};
use netloom_model::{Plan, lab_name_problem, node_name_problem};
use netloom_node::spec::{log_names, socket_name};
use netloom_sys::cgroup::Groups;
use netloom_sys::trusted::{Identity, TrustedDir, identity};
use rustix::fs::{FileType, FlockOperation, OFlags};
use serde::{Deserialize, Serialize};

use crate::store::across::Across;
use crate::store::host_change::HostChange;
use crate::store::image::Used;
use crate::store::moved::Moved;
use crate::store::names::{self, Names};
use crate::{Error, Result};
use folders::{make_common_dir, remove_common_dir};
pub(crate) use folders::{make_private_dir, make_shared_dir};
use places::SCOPES;
pub(crate) use places::{FLOWS, SLICER, SOCKETS, VDE_LOCK};

/// The file that marks a folder as a node's view of its lab.
pub(crate) const SCOPE_MARK: &str = "scope";

/// A socket that each lab has in its folder, and the most bytes of a socket's path (unix(7)).
pub(crate) const LONGEST: &str = "handles.sock";
pub(crate) const MOST_SOCKET: usize = 107;

/// The file whose lock is the lab's.
pub(crate) const LOCK: &str = "lock";

/// The file with the state.
const STATE: &str = "state.json";

/// The file with the state before the first change.
const MADE_STATE: &str = "made.json";

/// The file with the state before a file was applied, until that is done.
const BEFORE_STATE: &str = "before.json";

/// What commands and programs of the file changed in their nodes.
const COMMANDS: &str = "commands.json";

/// The counters of its metrics as they were told last.
const TOTALS: &str = "totals.json";

/// The names that its nodes were given for iproute2.
const NETNS: &str = "netns.json";

/// The nodes that are being made.
const HALF_MADE: &str = "making.json";

/// The state that a lab process stores before it makes anything. One with a key that this version does not know is of a newer
/// one, and may mean something else.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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
    /// Links with an interface that could not return to its node, with the reason: the next `up` recreates them.
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
    /// Of a lab that is a host's part of one over several hosts: its links to the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub across: Option<Across>,
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
            across: self.across.clone(),
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
/// `$XDG_RUNTIME_DIR/netloom`, else `/tmp/netloom-UID`. It may not exist yet.
///
/// # Errors
/// [`Error::Untrusted`]: others than this user and root can fill it, or exchange it for another.
pub fn runtime_dir() -> Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let named = named_runtime_dir(set, rustix::process::geteuid().as_raw());
    // The lab process has another working directory.
    let path = std::path::absolute(&named).unwrap_or(named);
    TrustedDir::open(&path).map_err(Error::in_runtime(&path))?;
    Ok(path)
}

fn named_runtime_dir(set: impl Fn(&str) -> Option<PathBuf>, uid: u32) -> PathBuf {
    let of_user = || match (uid, set("XDG_RUNTIME_DIR")) {
        (0, _) => "/run/netloom".into(),
        (_, Some(dir)) => dir.join("netloom"),
        (uid, None) => format!("/tmp/netloom-{uid}").into(),
    };
    set("NETLOOM_RUNTIME_DIR").unwrap_or_else(of_user)
}

/// The folder of one lab. Before anything in it is read, written or removed, it and the folder of labs are checked to be
/// ones that only this user and root can fill and exchange.
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
    ///
    /// # Errors
    /// [`Error::Untrusted`]; the folder of labs cannot be listed.
    pub fn all(runtime: &Path) -> Result<Vec<Folder>> {
        let failed = Error::in_runtime(runtime);
        let Some(common) = TrustedDir::open(runtime).map_err(&failed)? else { return Ok(vec![]) };
        let entries = common.entries().map_err(&failed)?.into_iter();
        let mut names: Vec<String> = entries
            .filter(|(_, kind)| kind.is_dir())
            .filter_map(|(name, _)| name.into_string().ok())
            // Others are not netloom's, or files that labs share, whose names begin with a dot. A node's view has its name.
            .filter(|name| lab_name_problem(name).is_none() || node_name_problem(name).is_none())
            .collect();
        names.sort();
        Ok(names.iter().map(|n| Folder::new(runtime, n)).collect())
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

    /// Whether this is a node's view of its lab rather than the lab's own folder.
    pub fn is_scope(&self) -> bool {
        self.has(SCOPE_MARK)
    }

    /// Whether the folder exists.
    ///
    /// # Errors
    /// [`Error::Untrusted`].
    pub fn exists(&self) -> Result<bool> {
        Ok(self.dir()?.is_some())
    }

    /// Makes the folder; an existing one is success. Refuses a folder of another user.
    ///
    /// # Errors
    /// [`Error::Untrusted`]; its path is too long for sockets in it.
    pub fn create(&self) -> Result<()> {
        let length = self.path().join(LONGEST).as_os_str().len();
        if length > MOST_SOCKET {
            let reason = format!(
                "sockets in it would have paths of {length} bytes, and the kernel takes {MOST_SOCKET}; \
                 set NETLOOM_RUNTIME_DIR to a shorter one"
            );
            return Err(Error::Invalid { object: format!("{:?}", self.path()).into(), reason });
        }
        let common = make_common_dir(&self.runtime)?;
        let made = common.make_dir(&self.name).and_then(|own| own.make_dir(SOCKETS));
        made.map(drop).map_err(Error::in_runtime(&self.runtime))
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
        let own = self.there()?;
        // Nobody can hold one that is a directory.
        if own.kind(LOCK) == Some(FileType::Directory) {
            self.remove_part(LOCK)?;
        }
        let opened = own.open_file(LOCK, OFlags::WRONLY | OFlags::CREATE);
        let lock = OwnedFd::from(opened.map_err(Error::in_runtime(&self.runtime))?);
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(lock)),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(e) => Err(Error::at(self.path().join(LOCK), "lock")(e)),
        }
    }

    /// Whether the lock that was taken is still the file in the folder.
    pub fn is_locked_by(&self, lock: &OwnedFd) -> bool {
        self.dir().ok().flatten().is_some_and(|dir| dir.is(LOCK, lock))
    }

    /// What identifies the file of the lock among open files.
    pub(crate) fn lock_identity(&self) -> Option<Identity> {
        self.dir().ok()??.status(LOCK).map(|found| identity(&found))
    }

    /// Writes the state and the file of its names.
    pub fn write_state(&self, state: &State) -> Result<()> {
        self.write_json(STATE, state)?;
        self.write_json(names::FILE, &Names::now(&state.plan, &state.moved))
    }

    /// Reads the state; `None` when there is none.
    pub fn read_state(&self) -> Result<Option<State>> {
        self.read_state_file(STATE)
    }

    /// Before the first change, keeps a copy of the state that was made from the lab file.
    pub(crate) fn keep_made(&self) -> Result<()> {
        self.keep(MADE_STATE)
    }

    /// The state as made from the lab file; `None` if it was never changed.
    pub(crate) fn read_made(&self) -> Result<Option<State>> {
        self.read_state_file(MADE_STATE)
    }

    /// Notes nodes that are about to be made: a process that adopts the lab meanwhile ends and recreates them.
    pub(crate) fn note_half_made(&self, ids: &[NodeId]) -> Result<()> {
        self.write_json(HALF_MADE, &ids)
    }

    /// Nodes that were being made when the lab process ended.
    pub(crate) fn half_made(&self) -> Result<Vec<NodeId>> {
        Ok(self.read_json(HALF_MADE)?.unwrap_or_default())
    }

    /// They are whole: their programs are started next.
    pub(crate) fn forget_half_made(&self) -> Result<()> {
        self.remove_part(HALF_MADE)
    }

    /// What commands and programs of the file changed in their nodes, by node; see module `drift`.
    pub(crate) fn read_commands(&self) -> Result<BTreeMap<NodeId, BTreeSet<KeyChange>>> {
        Ok(self.read_json(COMMANDS)?.unwrap_or_default())
    }

    pub(crate) fn write_commands(&self, of: &BTreeMap<NodeId, BTreeSet<KeyChange>>) -> Result<()> {
        self.write_json(COMMANDS, of)
    }

    /// The counters of metrics as they were told last; nothing where that cannot be read.
    pub(crate) fn read_totals<T: for<'a> Deserialize<'a> + Default>(&self) -> T {
        self.read_json(TOTALS).ok().flatten().unwrap_or_default()
    }

    /// The names that its nodes were given for iproute2; none where that cannot be told.
    pub(crate) fn read_netns_names<T: for<'a> Deserialize<'a> + Default>(&self) -> T {
        self.read_json(NETNS).ok().flatten().unwrap_or_default()
    }

    pub(crate) fn write_netns_names(&self, names: &impl Serialize) -> Result<()> {
        self.write_json(NETNS, names)
    }

    pub(crate) fn write_totals(&self, of: &impl Serialize) -> Result<()> {
        self.write_json(TOTALS, of)
    }

    /// Keeps the state as it is before a file is applied; one that an earlier attempt kept stays.
    pub(crate) fn keep_before(&self) -> Result<()> {
        self.keep(BEFORE_STATE)
    }

    /// The state before a file was applied that has not been applied completely.
    pub(crate) fn read_before(&self) -> Result<Option<State>> {
        self.read_state_file(BEFORE_STATE)
    }

    /// Whether a file is applied in part.
    pub(crate) fn was_cut_off(&self) -> bool {
        self.has(BEFORE_STATE)
    }

    /// A file has been applied: what was made is the state, or `made` where changes by hand were kept.
    pub(crate) fn forget_before(&self, made: Option<Plan>, state: &State) -> Result<()> {
        match made {
            Some(plan) => {
                self.write_json(MADE_STATE, &state.with_plan(plan))?;
            }
            None => self.remove_part(MADE_STATE)?,
        }
        self.remove_part(BEFORE_STATE)
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
        for name in log_names(node.get()).into_iter().chain([socket_name(node.get())]) {
            self.remove_in(SOCKETS, &name)?;
        }
        self.remove_in(SCOPES, &node.to_string())
    }

    /// Marks the lab as complete.
    pub fn mark_up(&self) -> Result<()> {
        self.write("up", b"")
    }

    /// Whether the lab was marked as complete.
    pub fn is_up(&self) -> bool {
        self.has("up")
    }

    /// Marks the lab as one that could not come up and is kept.
    pub(crate) fn mark_failed(&self, reason: &str) -> Result<()> {
        self.write("failed", reason.as_bytes())
    }

    /// Whether the lab could not come up and was kept.
    pub(crate) fn has_failed(&self) -> bool {
        self.has("failed")
    }

    /// Records the lab process.
    pub fn write_pid(&self, pid: i32) -> Result<()> {
        self.write("lab.pid", format!("{pid}\n").as_bytes())
    }

    /// The recorded lab process; it may have ended.
    pub fn read_pid(&self) -> Option<i32> {
        let text = self.dir().ok()??.read("lab.pid").ok()??;
        std::str::from_utf8(&text).ok()?.trim().parse().ok().filter(|pid| *pid > 0)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_a_common_folder_that_was_made_goes_with_its_last_lab() {
        let base = tempfile::tempdir().unwrap();
        for (runtime, given) in [("given", true), ("new/deep", false)] {
            let runtime = base.path().join(runtime);
            if given {
                make_private_dir(&runtime).unwrap();
            }
            let [one, two] = ["one", "two"].map(|name| Folder::new(&runtime, name));
            one.create().unwrap();
            two.create().unwrap();
            assert_eq!(Folder::all(&runtime).unwrap().len(), 2);
            one.remove().unwrap();
            assert!(two.path().is_dir());
            two.remove().unwrap();
            assert_eq!(runtime.is_dir(), given);
            assert!(!given || fs::read_dir(&runtime).unwrap().next().is_none());
        }
    }

    #[test]
    fn only_folders_with_names_of_labs_are_labs() {
        let base = tempfile::tempdir().unwrap();
        for name in ["lab", ".switches", "a b", "x\u{1b}[31m\nlab y: up", "y\u{202e}"] {
            fs::create_dir(base.path().join(name)).unwrap();
        }
        let names: Vec<_> = Folder::all(base.path()).unwrap().into_iter().map(|f| f.name).collect();
        assert_eq!(names, ["lab"]);
    }

    #[test]
    fn a_folder_that_is_too_deep_for_sockets_is_not_made() {
        let base = tempfile::tempdir().unwrap();
        let runtime = base.path().join("x".repeat(90));
        let refused = Folder::new(&runtime, "lab").create().unwrap_err().to_string();
        assert!(refused.contains("set NETLOOM_RUNTIME_DIR to a shorter one"), "{refused}");
        assert!(!runtime.exists());
    }

    #[test]
    fn only_a_number_of_a_process_is_one() {
        let base = tempfile::tempdir().unwrap();
        let folder = Folder::new(base.path(), "lab");
        folder.create().unwrap();
        for (text, pid) in [("7\n", Some(7)), ("0", None), ("-1", None), ("x", None)] {
            folder.write("lab.pid", text.as_bytes()).unwrap();
            assert_eq!(folder.read_pid(), pid, "{text:?}");
            assert!(!crate::stage::lab_process::is_lab_process(&folder, pid.unwrap_or(-1)));
        }
    }

    #[test]
    fn what_a_lab_makes_outside_its_folder_is_named_for_ever() {
        let folder = Folder::new(Path::new("/run/netloom"), "two-sites");
        assert_eq!(folder.hash(), 0x9f4b_21b7_4547_e752);
        assert_eq!(folder.id(), "two-sites-4547e752");
    }

    #[test]
    fn a_state_with_a_key_that_this_version_does_not_know_is_refused_wherever_that_is() {
        let yaml = b"name: new\nnodes: {a: {run: [[tail]]}, b: {}}\nswitches: {s: {}}\nlinks: [[a, b], [a, s]]";
        let plan = netloom_model::plan::plan(&netloom_model::parse("new", yaml, "new").unwrap());
        let groups = Groups::new(vec![], "new", BTreeSet::new());
        let text = serde_json::json!({
            "plan": plan.unwrap(), "groups": groups, "user": false, "since": 0,
        });
        let text = text.to_string();
        let base = tempfile::tempdir().unwrap();
        let folder = Folder::new(base.path(), "new");
        folder.create().unwrap();
        folder.write(STATE, text.as_bytes()).unwrap();
        assert!(folder.read_state().unwrap().is_some());
        for (place, told) in [
            ("{", "unknown field `newer`"),
            ("\"groups\":{", "groups.newer: unknown field"),
            ("\"plan\":{", "plan.newer: unknown field"),
            ("\"nodes\":[{", "plan.nodes[0].newer: unknown field"),
            ("\"interfaces\":[{", "plan.nodes[0].interfaces[0].newer: unknown field"),
            ("\"limits\":{", "plan.nodes[0].limits.newer: unknown field"),
            ("\"run\":[{", "plan.nodes[0].run[0].newer: unknown field"),
            ("\"switches\":[{", "newer"),
            ("\"links\":[{", "plan.links[0].newer: unknown field"),
        ] {
            let newer = text.replacen(place, &format!("{place}\"newer\":1,"), 1);
            assert_ne!(newer, text, "{place}");
            folder.write(STATE, newer.as_bytes()).unwrap();
            let refused = folder.read_state().unwrap_err().to_string();
            assert!(refused.contains(told), "{place}: {refused}");
            assert!(refused.contains("`netloom down new` takes the lab down"), "{refused}");
        }
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
        let state = netloom_form::read::<State>(old.to_string().as_bytes()).unwrap().renewed();
        let forms: Vec<_> = state.plan.links.iter().map(|link| state.form(link)).collect();
        assert_eq!(forms, [LinkForm::Wired, LinkForm::Pair, LinkForm::Tap]);
        let again: State = serde_json::from_value(serde_json::to_value(&state).unwrap()).unwrap();
        assert_eq!(again.forms, state.forms);
    }
}
