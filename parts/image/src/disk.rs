//! The kernel and the RAM disk, from unpacked packages.
//!
//! `/bin`, `/sbin` and `/lib` lead into `/usr`, as packages expect since Debian 12. Documentation, other languages and
//! what only installing needs are left out, as are drivers of real hardware. Everything belongs to root.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::BufWriter;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use netloom_boot::cpio::{Archive, Entry};
use netloom_boot::{kernel, modules};
use netloom_sys::Failure;

use crate::programs::must;
use crate::{Error, Result};

/// The guest's first process.
const INIT: &str = include_str!("init.sh");
/// Folders that lead into `/usr`.
const MERGED: [&str; 4] = ["bin", "sbin", "lib", "lib64"];
/// Empty folders that must be there.
const FOLDERS: [&str; 10] =
    ["dev", "etc", "mnt", "proc", "root", "run", "sys", "tmp", "usr/lib/busybox", "usr/local/bin"];
/// Paths left out, with all below.
const LEFT_OUT: [&str; 13] = [
    "boot",
    "usr/lib/modules",
    "usr/share/doc",
    "usr/share/man",
    "usr/share/locale",
    "usr/share/info",
    "usr/share/i18n",
    "usr/share/lintian",
    "usr/share/bug",
    "usr/share/perl",
    "usr/share/initramfs-tools",
    "usr/lib/x86_64-linux-gnu/gconv",
    "usr/lib/x86_64-linux-gnu/perl-base",
];
/// Modules that guests on networks use, by the beginning of their file; what these need comes with them.
const MODULES: [&str; 16] = [
    "kernel/net/",
    "kernel/drivers/virtio/",
    "kernel/drivers/vhost/",
    "kernel/drivers/block/virtio_blk",
    "kernel/drivers/block/loop",
    "kernel/drivers/char/virtio_console",
    "kernel/drivers/char/hw_random/virtio",
    "kernel/drivers/net/",
    "kernel/fs/overlayfs/",
    "kernel/fs/fat/",
    "kernel/fs/isofs/",
    "kernel/fs/nls/nls_ascii",
    "kernel/fs/nls/nls_cp437",
    "kernel/fs/fuse/",
    "kernel/fs/squashfs/",
    "kernel/crypto/",
];
/// Except these, which are large and of other uses.
const NO_MODULES: [&str; 18] = [
    "kernel/drivers/net/ethernet/",
    "kernel/drivers/net/wireless/",
    "kernel/drivers/net/phy/",
    "kernel/drivers/net/usb/",
    "kernel/drivers/net/hyperv/",
    "kernel/drivers/net/xen",
    "kernel/net/ceph/",
    "kernel/net/sunrpc/",
    "kernel/net/rds/",
    "kernel/net/tipc/",
    "kernel/net/9p/",
    "kernel/net/rxrpc/",
    "kernel/net/smc/",
    "kernel/net/bluetooth/",
    "kernel/net/wireless/",
    "kernel/net/mac80211/",
    "kernel/net/batman-adv/",
    "kernel/net/nfc/",
];
/// How the agent ends the guest: what it has written goes to its disks first.
const SHUTDOWN: &str =
    "#!/bin/sh\nsync\ncase \" $* \" in *\" -r \"*) reboot -f ;; *) poweroff -f ;; esac\n";
// tcpdump gives up root for a user of its name, and does not start without one.
const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\ntcpdump:x:105:113::/nonexistent:/bin/false\n\
                      nobody:x:65534:65534::/nonexistent:/bin/false\n";
const GROUP: &str = "root:x:0:\ntcpdump:x:113:\nnogroup:x:65534:\n";
/// Its shell prefers programs of its own by these names, which know less.
const SHRC: &str = "alias ip=/sbin/ip ping=/bin/ping\n";
const HOSTS: &str = "127.0.0.1 localhost\n::1 localhost\n";

/// The kernel's file.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub(crate) release: String,
    pub(crate) bytes: u64,
}

/// A hash of what is done with packages: another way makes another image of the same packages.
pub(crate) fn way() -> u64 {
    let lists = [&MERGED[..], &FOLDERS, &LEFT_OUT, &MODULES, &NO_MODULES].concat().concat();
    netloom_digest::fnv1a::hash([INIT, &lists, PASSWD, GROUP, HOSTS, SHRC].concat().as_bytes())
}

/// Writes the kernel, plain if that is possible.
pub(crate) fn write_kernel(root: &Path, to: &Path) -> Result<Kernel> {
    let boot = root.join("boot");
    let mut found: Vec<(String, PathBuf)> = vec![];
    for entry in fs::read_dir(&boot).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(release) = name.strip_prefix("vmlinuz-") {
            found.push((release.to_owned(), entry.path()));
        }
    }
    let [(release, path)] = found.as_slice() else { return Err(Error::Kernels(found.len())) };
    let image = read(path)?;
    // Unpacking itself takes a guest without KVM about a second.
    let image = kernel::plain(&image).unwrap_or(image);
    fs::write(to, &image).map_err(|e| Failure::path(to, "write", e))?;
    Ok(Kernel { release: release.clone(), bytes: image.len() as u64 })
}

/// Writes the RAM disk, and returns its size.
pub(crate) fn write_initrd(root: &Path, release: &str, to: &Path) -> Result<u64> {
    let mut tree = Tree::new(root)?;
    tree.add_modules(release)?;
    tree.add_fixed();
    let file = File::create(to).map_err(|e| Failure::path(to, "make", e))?;
    tree.write(to, BufWriter::new(file))?;
    Ok(fs::metadata(to).map_err(|e| Failure::path(to, "look at", e))?.len())
}

/// An entry to be.
#[derive(Debug)]
enum Item {
    Folder(u32),
    Copy(u32, PathBuf),
    Made(u32, Vec<u8>),
    Link(String),
    Console,
}

/// What the RAM disk will have, by name: a folder is before what is in it.
struct Tree<'a> {
    root: &'a Path,
    items: BTreeMap<String, Item>,
}

impl<'a> Tree<'a> {
    /// Everything of the packages that is wanted.
    fn new(root: &'a Path) -> Result<Tree<'a>> {
        let mut tree = Tree { root, items: BTreeMap::new() };
        tree.walk("")?;
        Ok(tree)
    }

    fn walk(&mut self, below: &str) -> Result<()> {
        let folder = self.root.join(below);
        let entries = fs::read_dir(&folder).map_err(|e| Failure::path(&folder, "list", e))?;
        for entry in entries.flatten() {
            // Names in other encodings are not names of programs.
            let Ok(name) = entry.file_name().into_string() else { continue };
            let from = if below.is_empty() { name } else { format!("{below}/{name}") };
            let to = merged(&from);
            if LEFT_OUT.contains(&to.as_str()) {
                continue;
            }
            let path = entry.path();
            let about = entry.metadata().map_err(|e| Failure::path(&path, "look at", e))?;
            let mode = about.permissions().mode();
            if about.is_dir() {
                self.add(&to, Item::Folder(mode));
                self.walk(&from)?;
            } else if MERGED.contains(&from.as_str()) {
                // A link into /usr already: it is made for all.
            } else if about.is_symlink() {
                let leads = fs::read_link(&path).map_err(|e| Failure::path(&path, "read", e))?;
                self.add(&to, Item::Link(leads.to_string_lossy().into_owned()));
            } else if about.is_file() {
                self.add(&to, Item::Copy(mode, path));
            }
        }
        Ok(())
    }

    /// Adds what is not there yet, with its folders.
    fn add(&mut self, name: &str, item: Item) {
        let mut parents: BTreeSet<&str> = BTreeSet::new();
        let mut rest = name;
        while let Some((parent, _)) = rest.rsplit_once('/') {
            parents.insert(parent);
            rest = parent;
        }
        for parent in parents {
            self.items.entry(parent.to_owned()).or_insert(Item::Folder(0o755));
        }
        self.items.entry(name.to_owned()).or_insert(item);
    }

    /// The modules that are wanted, and the lists by which they are found.
    fn add_modules(&mut self, release: &str) -> Result<()> {
        let places = ["lib/modules", "usr/lib/modules"].map(|at| self.root.join(at).join(release));
        // A kernel that has everything built in comes without.
        let Some(from) = places.into_iter().find(|place| place.is_dir()) else { return Ok(()) };
        let mut files = vec![];
        find(&from, &from, &mut files)?;
        let (mut known, mut contents) = (modules::Modules::default(), BTreeMap::new());
        for file in files {
            let bytes = module(&from.join(&file))?;
            let plain = file.split(".ko").next().unwrap_or(&file).to_owned() + ".ko";
            if known.add(&plain, &bytes) {
                contents.insert(plain, bytes);
            }
        }
        let wanted = |file: &str| {
            let begins = |list: &[&str]| list.iter().any(|begin| file.starts_with(begin));
            begins(&MODULES) && !begins(&NO_MODULES)
        };
        known.keep(wanted);
        let to = format!("usr/lib/modules/{release}");
        for file in known.files() {
            let bytes = contents.remove(file).unwrap_or_default();
            self.add(&format!("{to}/{file}"), Item::Made(0o644, bytes));
        }
        self.add(&format!("{to}/modules.dep"), Item::Made(0o644, known.dep().into_bytes()));
        self.add(&format!("{to}/modules.alias"), Item::Made(0o644, known.alias().into_bytes()));
        self.add(&format!("{to}/modules.symbols"), Item::Made(0o644, vec![]));
        self.add(&format!("{to}/modules.builtin"), Item::Copy(0o644, from.join("modules.builtin")));
        Ok(())
    }

    /// What no package has.
    fn add_fixed(&mut self) {
        for name in MERGED {
            self.items.insert(name.to_owned(), Item::Link(format!("usr/{name}")));
        }
        for name in FOLDERS {
            self.add(name, Item::Folder(0o755));
        }
        for name in MERGED {
            self.add(&format!("usr/{name}"), Item::Folder(0o755));
        }
        self.add("dev/console", Item::Console);
        // The kernel starts it where something asks for a module.
        self.items.insert("usr/sbin/modprobe".to_owned(), Item::Link("/bin/busybox".to_owned()));
        self.add("usr/bin/sh", Item::Link("busybox".to_owned()));
        for (name, mode, text) in [
            ("init", 0o755, INIT),
            ("usr/sbin/shutdown", 0o755, SHUTDOWN),
            ("etc/passwd", 0o644, PASSWD),
            ("etc/group", 0o644, GROUP),
            ("etc/hosts", 0o644, HOSTS),
            ("etc/shrc", 0o644, SHRC),
        ] {
            self.items.insert(name.to_owned(), Item::Made(mode, text.as_bytes().to_vec()));
        }
    }

    fn write(&self, to: &Path, file: BufWriter<File>) -> Result<()> {
        let failed = |e| Failure::path(to, "write", e);
        let mut archive = Archive::new(file);
        for (name, item) in &self.items {
            let copied;
            let entry = match item {
                Item::Folder(mode) => Entry::Folder(*mode),
                Item::Copy(mode, path) => {
                    copied = read(path)?;
                    Entry::File(*mode, &copied)
                }
                Item::Made(mode, bytes) => Entry::File(*mode, bytes),
                Item::Link(leads) => Entry::Link(leads),
                // The number of the console (Documentation/admin-guide/devices.txt).
                Item::Console => Entry::Device(0o600, 5, 1),
            };
            archive.add(name, entry).map_err(failed)?;
        }
        archive.finish().map(drop).map_err(failed)?;
        Ok(())
    }
}

/// A name in the packages, as it is in the guest.
fn merged(name: &str) -> String {
    let first = name.split('/').next().unwrap_or(name);
    if MERGED.contains(&first) { format!("usr/{name}") } else { name.to_owned() }
}

/// Files of modules below a folder, as names from its top.
fn find(top: &Path, folder: &Path, files: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir(folder).map_err(|e| Failure::path(folder, "list", e))?.flatten() {
        let path = entry.path();
        let kind = entry.file_type().map_err(|e| Failure::path(&path, "look at", e))?;
        if kind.is_dir() {
            find(top, &path, files)?;
        } else if let Some(name) = path.strip_prefix(top).ok().and_then(Path::to_str)
            && [".ko", ".ko.xz", ".ko.zst"].iter().any(|end| name.ends_with(end))
        {
            files.push(name.to_owned());
        }
    }
    Ok(())
}

/// A module's bytes; distributions may compress them.
fn module(path: &Path) -> Result<Vec<u8>> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    match path.extension().and_then(|end| end.to_str()) {
        Some("xz") => must(Command::new("xz").args(["-dc", "--"]).arg(path), &name),
        Some("zst") => must(Command::new("zstd").args(["-dcq", "--"]).arg(path), &name),
        _ => read(path),
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    Ok(fs::read(path).map_err(|e| Failure::path(path, "read", e))?)
}
