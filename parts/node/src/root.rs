//! A node's file system: the host's under a private overlay, or a directory's.
//!
//! The spawner makes the common part of a lab once ([`Shared`]): a tmpfs with the nodes' hosts file. Each
//! init then mounts a bounded tmpfs for the node's writes, mounts the node's own view, and makes that its
//! root ([`Shared::enter`], [`Shared::finish`]). As root, one overlay covers `/` and one each file system
//! mounted below it. In a user namespace mounts below `/` are locked to it, so each top-level directory gets
//! its own overlay and program directories are bind-mounted read-only. What the host has mounted decides what
//! nodes see, never whether they come up, and `/tmp` and `/var/tmp` are always the node's own. See overlayfs.rst,
//! mount_namespaces(7).

mod layers;
#[cfg(test)]
mod tests;
mod trees;

use std::fs::File;
use std::path::{Path, PathBuf};

use netloom_model::lab::{FileContent, FileSpec};
use netloom_sys::Result;
use netloom_sys::mountinfo::Mount;
use netloom_sys::setup::Setup;
use rustix::mount::MountFlags;

use crate::figures::{self, Leased, Machine};
use crate::files::{Files, inside};
use crate::spec::{NodeSpec, Prepare, SCOPES};
use crate::{dev, skeleton};
use layers::Layer;
pub use trees::Tree;
use trees::{OWN, below_root, top_level};

/// The text of /etc/resolv.conf in a node that does not reach `internet`.
pub const NO_NAME_SERVERS: &str = "# names of this lab are in /etc/hosts\n";

/// Mount flags of /proc.
const PROC: MountFlags = MountFlags::NOSUID.union(MountFlags::NOEXEC).union(MountFlags::NODEV);

/// Default limit on a node's writes to its file system: a share of the machine's memory.
const DEFAULT_STORAGE: &str = "25%";

/// Files of /proc that let root control the machine or expose what nodes must not see. The first is hidden
/// from privileged nodes too.
const MASKED: [&str; 11] = [
    "sysrq-trigger",
    "kcore",
    "keys",
    "kmsg",
    "kpagecgroup",
    "kpagecount",
    "kpageflags",
    "latency_stats",
    "sched_debug",
    "timer_list",
    "vmallocinfo",
];

/// Files of /proc that are readable but not writable.
const FIXED: [&str; 12] = [
    "acpi",
    "asound",
    "bus",
    "driver",
    "dynamic_debug",
    "fs",
    "irq",
    "mtrr",
    "pressure",
    "profile",
    "scsi",
    "slabinfo",
];

/// Directories below /sys that stay writable: queues, bridges and other settings of the node's own
/// interfaces.
const NETWORK_OF_SYS: [&str; 2] = ["class/net", "devices/virtual/net"];

/// Directories below /sys that are hidden.
const HIDDEN_OF_SYS: [&str; 2] = ["firmware", "devices/virtual/powercap"];

/// The file of [`LOADS_OF_THE_CORE`] in the folder of what nodes share.
const LOADS: &str = "loads";

/// Directories of the host's other users once more, for the nodes of an ordinary user's lab.
const BONES: &str = "bones";

/// The nodes' hosts file, as the core sees it.
pub const HOSTS_OF_THE_CORE: &str = "/shared/etc/hosts";

/// The same file below the lab's folder, in the spawner's mount namespace.
pub const HOSTS_OF_THE_SPAWNER: &str = "/fs/shared/etc/hosts";

/// The nodes' loads ([`crate::loads`]), as the core sees them.
pub const LOADS_OF_THE_CORE: &str = "/loads";

/// A whole `/proc` of privileged nodes in an ordinary user's lab: without one a user namespace in the node gets none of its
/// own (mount_namespaces(7)), and so no lab in it.
const WHOLE_PROC: &str = "run/.proc";

/// The part that all nodes of a lab share.
#[derive(Clone, Debug)]
pub struct Shared {
    base: PathBuf,
    user: bool,
    trees: Vec<Tree>,
    /// Directories of which the shared layer has a [`skeleton`].
    filled: Vec<PathBuf>,
    hide: Option<PathBuf>,
}

impl Shared {
    /// Makes the shared part in the calling process's own mount namespace.
    pub fn create(setup: &impl Setup, prepare: &Prepare, mounts: &[Mount]) -> Result<Shared> {
        let base = prepare.state.join("fs");
        setup.mkdir(&base, 0o700)?;
        setup.mount("tmpfs", &base, MountFlags::NOSUID, "mode=0755")?;
        for dir in ["shared", "shared/etc", "merged", "empty", BONES] {
            setup.mkdir(&base.join(dir), 0o755)?;
        }
        setup.write(&base.join(LOADS), b"", 0o600)?;
        setup.write(&base.join("shared/etc/hosts"), prepare.hosts.as_bytes(), 0o644)?;
        setup.symlink("/proc/sys/kernel/hostname", &base.join("shared/etc/hostname"))?;
        let resolv = NO_NAME_SERVERS.as_bytes();
        setup.write(&base.join("shared/etc/resolv.conf"), resolv, 0o644)?;
        let trees = if prepare.user { top_level() } else { below_root(mounts) };
        // Apart from what all roots have: it is for those that show the host's files.
        let bones = base.join(BONES);
        let filled = if prepare.user { skeleton::make(setup, &bones)? } else { vec![] };
        let outside_run = !prepare.runtime.starts_with("/run");
        let hide = (outside_run || prepare.user).then(|| prepare.runtime.clone());
        Ok(Shared { base, user: prepare.user, trees, filled, hide })
    }

    /// A shared part with these trees, for tests of the order of steps.
    #[cfg(test)]
    pub(crate) fn with_trees(base: PathBuf, user: bool, trees: Vec<Tree>) -> Shared {
        Shared { base, user, trees, filled: vec![], hide: None }
    }

    /// Mounts a node's own view and, as root, makes it the calling process's root directory. Steps that need
    /// the node's PID namespace follow in [`Shared::finish`].
    pub fn enter(&self, setup: &impl Setup, spec: &NodeSpec) -> Result<()> {
        let own = self.base.join(spec.index.to_string());
        // Its own file system: it cannot fill another node's, and it disappears with the node.
        setup.mkdir(&own, 0o755)?;
        setup.mount("tmpfs", &own, MountFlags::NOSUID, &room(spec.storage))?;
        setup.mkdir(&own.join("run"), 0o755)?;
        setup.mkdir(&own.join("shm"), 0o1777)?;
        dev::make(setup, &own.join("dev"), self.user)?;
        let merged = self.base.join("merged");
        let layers = self.layers(spec, &own);
        for layer in &layers {
            setup.mkdir_as(&layer.upper, layer.access)?;
            setup.mkdir(&layer.work, 0o755)?;
        }
        if !spec.layers.is_empty() {
            self.make_places(setup, spec, &layers)?;
        }
        self.place_files(setup, spec, &own, &layers)?;
        if let (false, Some(hidden)) = (spec.has_own_root(), &self.hide) {
            let places: Vec<(PathBuf, PathBuf)> =
                layers.iter().map(|l| (l.at.clone(), l.upper.clone())).collect();
            let closed = self.shown_read_only();
            let (lower, users) = (Path::new("/"), spec.users);
            let places = &places;
            let files = Files { setup, lower, places, closed: &closed, users, user: self.user };
            // If that fails, the directory is covered below.
            let _ = files.leave_out(hidden);
        }
        self.mount_trees(setup, spec, &own, &merged, &layers)?;
        self.mount_own(setup, &own, &merged)?;
        let figures = own.join("figures");
        setup.mkdir(&figures, 0o755)?;
        for name in figures::NAMES {
            setup.write(&figures.join(name), b"", 0o444)?;
        }
        // They are opened there, and shown when /proc is mounted over them.
        setup.bind(&figures, &merged.join("proc"), false)?;
        for bind in &spec.binds {
            setup.show(&bind.from, &merged, Path::new(&bind.to), bind.write)?;
        }
        for (file, at) in &spec.shown {
            self.show_file(setup, file, &inside(&merged, at))?;
        }
        if !self.user && !spec.privileged {
            self.close_sys(setup, &merged.join("sys"))?;
        }
        if let Some(scope) = &spec.scope {
            let last = spec.name.rsplit('/').next().unwrap_or(&spec.name);
            self.show_scope(setup, scope, &inside(&merged, Path::new(SCOPES)), last)?;
        }
        if let (false, Some(hidden)) = (spec.has_own_root(), &self.hide) {
            let at = inside(&merged, hidden);
            if at.is_dir() {
                self.cover(setup, &at)?;
            }
        }
        if self.user { Ok(()) } else { setup.change_root(&merged) }
    }

    /// Where the node's /proc is to be mounted.
    fn proc(&self) -> PathBuf {
        if self.user { self.base.join("merged/proc") } else { "/proc".into() }
    }

    /// The node's own figures, before /proc covers them.
    ///
    /// # Errors
    /// They cannot be opened, or the kernel gives no leases on them.
    pub(crate) fn figures(&self) -> std::io::Result<Leased> {
        Leased::open(&self.proc())
    }

    /// Opens the nodes' loads. The host's files must still be there.
    pub(crate) fn loads(&self) -> std::io::Result<File> {
        File::open(self.base.join(LOADS))
    }

    /// Mounts /proc for the calling process's PID namespace, and shows the node's own `figures` in it. Returns what
    /// these cover. In a user namespace, this is also where the node's view becomes the root directory: a new /proc can be
    /// mounted only while another one is fully visible (mount_namespaces(7)), and that is the host's.
    pub(crate) fn finish(
        &self,
        setup: &impl Setup,
        privileged: bool,
        figures: &[(&str, PathBuf)],
    ) -> Result<Machine> {
        let at = &self.proc();
        setup.mount("proc", at, PROC, "")?;
        // Through these the init still reads the machine's figures once its own lie over them.
        let open = |name| File::open(at.join(name)).ok();
        let machine = Machine { meminfo: open("meminfo"), loadavg: open("loadavg") };
        for (name, file) in figures {
            let shown = at.join(name);
            setup.bind(file, &shown, false)?;
            setup.read_only(&shown)?;
        }
        if self.user {
            let merged = self.base.join("merged");
            let keys = at.join("keys");
            if !privileged && keys.exists() {
                setup.bind(Path::new("/dev/null"), &keys, false)?;
            }
            if privileged && !figures.is_empty() {
                let whole = merged.join(WHOLE_PROC);
                setup.mkdir(&whole, 0o555)?;
                setup.mount("proc", &whole, PROC, "")?;
            }
            return setup.change_root(&merged).map(|()| machine);
        }
        Self::close_proc(setup, at, privileged).map(|()| machine)
    }

    /// Takes from the /proc of a lab of root's what is the host's to set.
    fn close_proc(setup: &impl Setup, at: &Path, privileged: bool) -> Result<()> {
        // Sysctls outside `net` are the host's: a node's start-up scripts must not change them. In a user
        // namespace the kernel prevents it.
        let (all, net) = (at.join("sys"), at.join("sys/net"));
        // A directory bound to itself is a mount, which has flags of its own.
        setup.bind(&all, &all, false)?;
        setup.read_only(&all)?;
        setup.bind(&net, &net, false)?;
        setup.read_write(&net)?;
        let masked = if privileged { &MASKED[..1] } else { &MASKED };
        let there = |name: &&str| at.join(name).exists();
        for name in masked.iter().filter(|name| there(name)) {
            setup.bind(Path::new("/dev/null"), &at.join(name), false)?;
        }
        let fixed = if privileged { &[] } else { &FIXED[..] };
        for path in fixed.iter().filter(|name| there(name)).map(|name| at.join(name)) {
            setup.bind(&path, &path, false)?;
            setup.read_only(&path)?;
        }
        Ok(())
    }

    /// Makes /sys read-only except for the node's own network, and hides the machine's firmware and power
    /// data. In a user namespace the kernel allows writes to the network's files only.
    fn close_sys(&self, setup: &impl Setup, sys: &Path) -> Result<()> {
        setup.read_only(sys)?;
        for path in NETWORK_OF_SYS.map(|path| sys.join(path)) {
            setup.bind(&path, &path, false)?;
            setup.read_write(&path)?;
        }
        for path in HIDDEN_OF_SYS.map(|path| sys.join(path)).iter().filter(|path| path.is_dir()) {
            self.cover(setup, path)?;
        }
        Ok(())
    }

    /// Covers a directory with an empty one.
    fn cover(&self, setup: &impl Setup, path: &Path) -> Result<()> {
        setup.bind(&self.base.join("empty"), path, false)?;
        setup.read_only(path)
    }

    /// Sets a root directory that holds only /proc and the nodes' shared part: for a holder of namespaces,
    /// which must not keep the host's mounts busy. It keeps the nodes' shared files reachable after the
    /// spawner that made them has ended.
    pub fn enter_bare(&self, setup: &impl Setup, spec: &NodeSpec) -> Result<()> {
        let own = self.base.join(spec.index.to_string());
        let merged = self.base.join("merged");
        setup.mkdir(&own, 0o755)?;
        setup.mkdir(&own.join("proc"), 0o755)?;
        setup.mkdir(&own.join("shared"), 0o755)?;
        setup.bind(&own, &merged, false)?;
        setup.bind(&self.base.join("shared"), &merged.join("shared"), false)?;
        let loads = LOADS_OF_THE_CORE.trim_start_matches('/');
        self.show_file(setup, &self.base.join(LOADS), &merged.join(loads))?;
        setup.mount("proc", &merged.join("proc"), PROC, "")?;
        setup.change_root(&merged)
    }

    /// Mounts the node's own /dev, /run and /sys.
    fn mount_own(&self, setup: &impl Setup, own: &Path, merged: &Path) -> Result<()> {
        let at = |path: &str| merged.join(path);
        dev::show(setup, &own.join("dev"), &at("dev"), self.user)?;
        // Group 5 is Debian's `tty`. Where it is not mapped, devpts refuses the mount with EINVAL.
        let pts = if self.user { "" } else { ",gid=5" };
        let pts = format!("newinstance,ptmxmode=0666,mode=0620{pts}");
        // `ptmxmode` is 0000 unless it is given: then no program could open a terminal.
        let quiet = MountFlags::NOSUID | MountFlags::NOEXEC;
        setup.mount("devpts", &at("dev/pts"), quiet, &pts)?;
        setup.bind(&own.join("shm"), &at("dev/shm"), false)?;
        setup.bind(&own.join("run"), &at("run"), false)?;
        if let Err(refused) = setup.mount("sysfs", &at("sys"), quiet | MountFlags::NODEV, "") {
            if !self.user {
                return Err(refused);
            }
            // A container that covers parts of /sys prevents a new mount in a user namespace.
            setup.bind(Path::new("/sys"), &at("sys"), true)?;
        }
        Ok(())
    }

    /// Mounts the folder through which the node manages the nodes in it.
    fn show_scope(
        &self,
        setup: &impl Setup,
        scope: &Path,
        scopes: &Path,
        name: &str,
    ) -> Result<()> {
        setup.mkdir(scopes, 0o700)?;
        let at = scopes.join(name);
        setup.mkdir(&at, 0o700)?;
        setup.bind(scope, &at, false)?;
        // The lab process alone creates and removes entries there; connecting needs no write permission.
        setup.read_only(&at)
    }

    /// Shows a file of the host in a directory of the node's own, to be written.
    fn show_file(&self, setup: &impl Setup, file: &Path, at: &Path) -> Result<()> {
        if let Some(folder) = at.parent() {
            setup.mkdir(folder, 0o755)?;
        }
        setup.write(at, b"", 0o600)?;
        setup.bind(file, at, false)
    }

    /// Directories of the host's root that nodes see unchanged.
    fn shown_read_only(&self) -> Vec<PathBuf> {
        let bound = |tree: &Tree| if let Tree::Bind(at) = tree { Some(at.clone()) } else { None };
        self.trees.iter().filter_map(bound).collect()
    }

    /// The image's files as one directory, where files are to be placed among them: all layers, read-only.
    fn view(&self, setup: &impl Setup, layers: &[Layer]) -> Result<PathBuf> {
        let view = self.base.join("view");
        let lower: Vec<&Path> =
            layers.iter().flat_map(|layer| &layer.lower).map(PathBuf::as_path).collect();
        setup.mkdir(&view, 0o755)?;
        setup.overlay(&lower, None, &view, self.user)?;
        Ok(view)
    }

    /// Makes sure that what is mounted in an image's root has its place there: a directory, whatever the image has.
    fn make_places(&self, setup: &impl Setup, spec: &NodeSpec, layers: &[Layer]) -> Result<()> {
        let Some(root) = layers.first() else { return Ok(()) };
        for dir in OWN {
            setup.mkdir(&inside(&root.upper, Path::new(dir)), 0o755)?;
        }
        let has = |layer: &PathBuf| layer.join("tmp").symlink_metadata().is_ok();
        if !spec.layers.iter().any(has) {
            setup.mkdir(&root.upper.join("tmp"), 0o1777)?;
        }
        Ok(())
    }

    fn place_files(
        &self,
        setup: &impl Setup,
        spec: &NodeSpec,
        own: &Path,
        layers: &[Layer],
    ) -> Result<()> {
        let view = match spec.layers.is_empty() || spec.files.is_empty() {
            true => None,
            false => Some(self.view(setup, layers)?),
        };
        let lower = view.as_deref().or(spec.root.as_deref()).unwrap_or(Path::new("/"));
        let mut places: Vec<(PathBuf, PathBuf)> =
            layers.iter().map(|l| (l.at.clone(), l.upper.clone())).collect();
        places.push(("/run".into(), own.join("run")));
        places.push(("/dev".into(), own.join("dev")));
        places.push(("/dev/shm".into(), own.join("shm")));
        if self.user && !spec.has_own_root() {
            places.push(("/".into(), own.join("root")));
            setup.mkdir(&own.join("root"), 0o755)?;
        }
        let closed = if !spec.has_own_root() { self.shown_read_only() } else { vec![] };
        let (places, users) = (&places, spec.users);
        let files = Files { setup, lower, places, closed: &closed, users, user: self.user };
        if let Some(resolv) = &spec.resolv {
            let file = FileSpec::new("/etc/resolv.conf", FileContent::Text(resolv.clone()));
            // The directories leading there are newly made, whatever the host's are like.
            Files { lower: Path::new("/nonexistent"), ..files }.place(&[file])?;
        }
        files.place(&spec.files)
    }
}

/// Mount options of a file system with this size limit (tmpfs(5)).
fn room(bytes: Option<u64>) -> String {
    let size = bytes.map_or_else(|| DEFAULT_STORAGE.to_owned(), |bytes| bytes.to_string());
    format!("mode=0755,size={size}")
}
