//! The steps that create a node's view of the machine, behind a trait with a recording fake.
//!
//! [`Setup`] lists the steps of set-up code: mount, create directories and files, change root. [`Real`]
//! performs them; [`Recorder`] records them, so that tests check their order without privilege.

use std::cell::RefCell;
use std::ffi::CString;
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use rustix::mount::{MountFlags, UnmountFlags};

use crate::{Error, Failure, Result, space};

/// Ownership and permissions of a file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The owner's user id.
    pub uid: u32,
    /// The group id.
    pub gid: u32,
    /// Permission bits, including set-id and sticky bits.
    pub mode: u32,
}

impl Access {
    /// Owned by root, with these permission bits.
    pub const fn root(mode: u32) -> Access {
        Access { uid: 0, gid: 0, mode }
    }

    /// Whether owner and group are root, the default of a set-up.
    fn is_roots(self) -> bool {
        self.uid == 0 && self.gid == 0
    }
}

/// Steps of a set-up.
pub trait Setup {
    /// Mounts a new file system of type `fstype` at `target`.
    fn mount(&self, fstype: &str, target: &Path, flags: MountFlags, data: &str) -> Result<()>;
    /// Mounts an overlay of the directories `lower`, the highest first. Writes go into the first directory of
    /// `writes`; without them it is read-only. In a user namespace (`user`) marks are attributes that ordinary users may
    /// set.
    fn overlay(
        &self,
        lower: &[&Path],
        writes: Option<(&Path, &Path)>,
        target: &Path,
        user: bool,
    ) -> Result<()>;
    /// Bind-mounts the tree at `source` on `target`, with its submounts if `deep`.
    fn bind(&self, source: &Path, target: &Path, deep: bool) -> Result<()>;
    /// Shows a file or directory with its submounts at the path `at` of the root directory `root` ([`crate::shown`]).
    fn show(&self, source: &Path, root: &Path, at: &Path, writable: bool) -> Result<()>;
    /// Makes the bind mount at `target` read-only.
    fn read_only(&self, target: &Path) -> Result<()>;
    /// Makes the bind mount at `target` writable again.
    fn read_write(&self, target: &Path) -> Result<()>;
    /// Creates one directory; succeeds if it exists.
    fn mkdir(&self, path: &Path, mode: u32) -> Result<()>;
    /// Sets a file's or directory's owner, group and permission bits.
    fn give(&self, path: &Path, access: Access) -> Result<()>;
    /// Creates one directory with this ownership and these permissions. An owner unmapped in this
    /// user namespace is not set; succeeds if the directory exists.
    fn mkdir_as(&self, path: &Path, access: Access) -> Result<()> {
        self.mkdir(path, access.mode)?;
        if access.is_roots() {
            return Ok(());
        }
        match self.give(path, access) {
            Err(e) if is_unmapped(&e) => Ok(()),
            given => given,
        }
    }
    /// Writes a whole file, with these permission bits.
    fn write(&self, path: &Path, content: &[u8], mode: u32) -> Result<()>;
    /// Copies a file's content, with these permission bits.
    fn copy(&self, from: &Path, to: &Path, mode: u32) -> Result<()>;
    /// Creates a symbolic link at `path`.
    fn symlink(&self, points_to: &str, path: &Path) -> Result<()>;
    /// Creates a character device.
    fn device(&self, path: &Path, major: u32, minor: u32, mode: u32) -> Result<()>;
    /// Makes `root` the root directory and detaches the old one.
    fn change_root(&self, root: &Path) -> Result<()>;
    /// Sets the host name.
    fn hostname(&self, name: &str) -> Result<()>;
}

/// Opens a regular file for reading.
///
/// # Errors
/// It cannot be opened, or is not a regular file: opening a FIFO would wait for its writer, and
/// opening a device may have any effect.
pub fn open_regular(path: &Path) -> std::io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    check_regular(&std::fs::metadata(path)?)?;
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let file = std::fs::File::options().read(true).custom_flags(flags).open(path)?;
    // The path may lead to something else meanwhile.
    check_regular(&file.metadata()?)?;
    Ok(file)
}

fn check_regular(found: &std::fs::Metadata) -> std::io::Result<()> {
    let is = match found.file_type() {
        file if file.is_file() => return Ok(()),
        file if file.is_dir() => "it is a directory",
        _ => "it is not a regular file",
    };
    Err(std::io::Error::other(is))
}

/// As [`open_regular`], for a file that a lab names: no link of another user is followed.
///
/// # Errors
/// As [`open_regular`], and a link of another user.
pub fn open_of_lab(path: &Path) -> std::io::Result<std::fs::File> {
    let flags =
        rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    let open = |flags| crate::lookup::open_by_own_links(path, flags).map(std::fs::File::from);
    // Opening a device may have any effect.
    check_regular(&open(rustix::fs::OFlags::PATH)?.metadata()?)?;
    let file = open(flags)?;
    check_regular(&file.metadata()?)?;
    Ok(file)
}

/// The content of such a file.
///
/// # Errors
/// As [`open_of_lab`].
pub fn read_of_lab(path: &Path) -> std::io::Result<Vec<u8>> {
    use std::io::Read;
    let mut content = Vec::new();
    open_of_lab(path)?.read_to_end(&mut content)?;
    Ok(content)
}

/// Copies such a file into another one, if there is room for it: one that is mostly holes would fill that.
///
/// # Errors
/// As [`open_of_lab`]; it does not fit.
pub fn copy_of_lab(from: &Path, to: &mut std::fs::File) -> std::io::Result<()> {
    let mut source = open_of_lab(from)?;
    let size = source.metadata()?.len();
    if let Some(free) = space::free(&*to).ok().flatten().filter(|free| size > *free) {
        let why = format!("its {size} bytes do not fit: {free} are free there");
        return Err(std::io::Error::other(why));
    }
    std::io::copy(&mut source, to).map(drop)
}

/// The most bytes that [`bounded_text`] reads.
const MOST_TEXT: u64 = 4 << 20;

/// The text of a file that programs of a node may have put there: a device would have no end, and a FIFO would wait for its
/// writer. `open` opens it.
///
/// # Errors
/// It cannot be opened or is not a regular file, has more than 4 MiB, or is not text.
pub fn bounded_text(
    open: impl Fn(rustix::fs::OFlags) -> rustix::io::Result<std::os::fd::OwnedFd>,
) -> std::io::Result<String> {
    use rustix::fs::OFlags;
    use std::io::Read;
    let open = |flags| open(flags).map(std::fs::File::from);
    check_regular(&open(OFlags::PATH)?.metadata()?)?;
    let file = open(OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?;
    check_regular(&file.metadata()?)?;
    let mut text = String::new();
    file.take(MOST_TEXT + 1).read_to_string(&mut text)?;
    match text.len() as u64 > MOST_TEXT {
        true => Err(std::io::Error::other("it is larger than 4 MiB")),
        false => Ok(text),
    }
}

/// Whether an owner was refused because the user namespace maps no such user or group.
pub fn is_unmapped(error: &Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::INVAL.raw_os_error())
}

/// Performs the steps.
pub struct Real;

impl Setup for Real {
    fn mount(&self, fstype: &str, target: &Path, flags: MountFlags, data: &str) -> Result<()> {
        let text = CString::new(data)
            .map_err(|e| Failure::path(target, "mount", std::io::Error::from(e)))?;
        rustix::mount::mount(fstype, target, fstype, flags, Some(text.as_c_str()))
            .map_err(|e| Failure::path(target, mount_operation(fstype), e).into())
    }

    fn overlay(
        &self,
        lower: &[&Path],
        writes: Option<(&Path, &Path)>,
        target: &Path,
        user: bool,
    ) -> Result<()> {
        crate::overlay::mount(lower, writes, target, user)
    }

    fn bind(&self, source: &Path, target: &Path, deep: bool) -> Result<()> {
        let done = if deep {
            rustix::mount::mount_bind_recursive(source, target)
        } else {
            rustix::mount::mount_bind(source, target)
        };
        done.map_err(|e| Failure::path(source, "bind", e).into())
    }

    fn show(&self, source: &Path, root: &Path, at: &Path, writable: bool) -> Result<()> {
        crate::shown::show(source, root, at, writable)
    }

    fn read_only(&self, target: &Path) -> Result<()> {
        let flags = MountFlags::BIND | MountFlags::RDONLY | locked_flags(target);
        rustix::mount::mount_remount(target, flags, "")
            .map_err(|e| Failure::path(target, "remount read-only", e).into())
    }

    fn read_write(&self, target: &Path) -> Result<()> {
        let flags = MountFlags::BIND | locked_flags(target);
        rustix::mount::mount_remount(target, flags, "")
            .map_err(|e| Failure::path(target, "remount writable", e).into())
    }

    fn mkdir(&self, path: &Path, mode: u32) -> Result<()> {
        match rustix::fs::mkdir(path, Mode::from_raw_mode(mode)) {
            // mkdir(2) applies the umask.
            Ok(()) => rustix::fs::chmod(path, Mode::from_raw_mode(mode))
                .map_err(|e| Failure::path(path, "set permissions of directory", e).into()),
            Err(rustix::io::Errno::EXIST) => Ok(()),
            Err(e) => Err(Failure::path(path, "make directory", e).into()),
        }
    }

    fn give(&self, path: &Path, access: Access) -> Result<()> {
        let (uid, gid) =
            (rustix::fs::Uid::from_raw(access.uid), rustix::fs::Gid::from_raw(access.gid));
        rustix::fs::chown(path, Some(uid), Some(gid))
            .map_err(|e| Failure::path(path, "change the owner of", e))?;
        // A change of owner clears a file's set-id bits.
        rustix::fs::chmod(path, Mode::from_raw_mode(access.mode))
            .map_err(|e| Failure::path(path, "set permissions of", e).into())
    }

    fn write(&self, path: &Path, content: &[u8], mode: u32) -> Result<()> {
        std::fs::write(path, content).map_err(|e| Failure::path(path, "write", e))?;
        rustix::fs::chmod(path, Mode::from_raw_mode(mode))
            .map_err(|e| Failure::path(path, "set permissions of file", e).into())
    }

    fn copy(&self, from: &Path, to: &Path, mode: u32) -> Result<()> {
        let copied = std::fs::File::create(to).and_then(|mut to| copy_of_lab(from, &mut to));
        copied.map_err(|e| Failure::path(from, "copy", e))?;
        rustix::fs::chmod(to, Mode::from_raw_mode(mode))
            .map_err(|e| Failure::path(to, "set permissions of file", e).into())
    }

    fn symlink(&self, points_to: &str, path: &Path) -> Result<()> {
        rustix::fs::symlink(points_to, path)
            .map_err(|e| Failure::path(path, "make symbolic link", e).into())
    }

    fn device(&self, path: &Path, major: u32, minor: u32, mode: u32) -> Result<()> {
        let fail = |e| Error::from(Failure::path(path, "make device", e));
        rustix::fs::mknodat(
            rustix::fs::CWD,
            path,
            rustix::fs::FileType::CharacterDevice,
            Mode::from_raw_mode(mode),
            rustix::fs::makedev(major, minor),
        )
        .map_err(fail)?;
        rustix::fs::chmod(path, Mode::from_raw_mode(mode)).map_err(fail)
    }

    fn change_root(&self, root: &Path) -> Result<()> {
        let fail =
            |operation| move |e: rustix::io::Errno| Error::from(Failure::path(root, operation, e));
        rustix::process::chdir(root).map_err(fail("enter"))?;
        // The old root is stacked on the new one at "." and unmounted there.
        rustix::process::pivot_root(".", ".").map_err(fail("pivot to"))?;
        rustix::mount::unmount(".", UnmountFlags::DETACH).map_err(fail("leave the old root of"))?;
        rustix::process::chdir("/").map_err(fail("enter"))
    }

    fn hostname(&self, name: &str) -> Result<()> {
        // The kernel keeps 64 bytes; a longer name is cut to its first label.
        let short = if name.len() > 64 { name.split('.').next().unwrap_or(name) } else { name };
        let cut = &short.as_bytes()[..short.len().min(64)];
        rustix::system::sethostname(cut).map_err(|e| Failure::new("host name", "set", e).into())
    }
}

fn mount_operation(fstype: &str) -> &'static str {
    match fstype {
        "overlay" => "mount overlay",
        "tmpfs" => "mount tmpfs",
        "proc" => "mount proc",
        "sysfs" => "mount sysfs",
        "devpts" => "mount devpts",
        _ => "mount",
    }
}

/// Flags that a remount in a user namespace must keep to be allowed.
fn locked_flags(target: &Path) -> MountFlags {
    use rustix::fs::StatVfsMountFlags as S;
    let Ok(vfs) = rustix::fs::statvfs(target) else { return MountFlags::empty() };
    [
        (S::NOSUID, MountFlags::NOSUID),
        (S::NODEV, MountFlags::NODEV),
        (S::NOEXEC, MountFlags::NOEXEC),
        (S::NOATIME, MountFlags::NOATIME),
        (S::NODIRATIME, MountFlags::NODIRATIME),
        (S::RELATIME, MountFlags::RELATIME),
    ]
    .into_iter()
    .filter(|(seen, _)| vfs.f_flag.contains(*seen))
    .fold(MountFlags::empty(), |all, (_, flag)| all | flag)
}

/// Records the steps, one line each.
#[derive(Default)]
pub struct Recorder {
    steps: RefCell<Vec<String>>,
    /// Targets whose mount fails with EINVAL, to test the fallback.
    pub refuse: Vec<PathBuf>,
}

impl Recorder {
    /// The steps so far.
    pub fn steps(&self) -> Vec<String> {
        self.steps.borrow().clone()
    }

    fn note(&self, step: String) -> Result<()> {
        self.steps.borrow_mut().push(step);
        Ok(())
    }
}

impl Setup for Recorder {
    fn mount(&self, fstype: &str, target: &Path, _: MountFlags, data: &str) -> Result<()> {
        if self.refuse.iter().any(|r| r == target) {
            return Err(
                Failure::path(target, mount_operation(fstype), rustix::io::Errno::INVAL).into()
            );
        }
        self.note(format!("mount {fstype} {} {data}", target.display()).trim_end().to_owned())
    }
    fn overlay(
        &self,
        lower: &[&Path],
        writes: Option<(&Path, &Path)>,
        target: &Path,
        user: bool,
    ) -> Result<()> {
        let options = crate::overlay::options(lower, writes, user);
        self.mount("overlay", target, MountFlags::empty(), &options)
    }
    fn bind(&self, source: &Path, target: &Path, deep: bool) -> Result<()> {
        let word = if deep { "rbind" } else { "bind" };
        self.note(format!("{word} {} {}", source.display(), target.display()))
    }
    fn show(&self, source: &Path, root: &Path, at: &Path, writable: bool) -> Result<()> {
        let (source, root, at) = (source.display(), root.display(), at.display());
        self.note(format!("show {source} {root} {at} {}", if writable { "rw" } else { "ro" }))
    }
    fn read_only(&self, target: &Path) -> Result<()> {
        self.note(format!("read-only {}", target.display()))
    }
    fn read_write(&self, target: &Path) -> Result<()> {
        self.note(format!("read-write {}", target.display()))
    }
    fn mkdir(&self, path: &Path, mode: u32) -> Result<()> {
        self.note(format!("mkdir {} {mode:o}", path.display()))
    }
    fn give(&self, path: &Path, access: Access) -> Result<()> {
        let Access { uid, gid, mode } = access;
        self.note(format!("give {} {uid}:{gid} {mode:o}", path.display()))
    }
    fn write(&self, path: &Path, content: &[u8], mode: u32) -> Result<()> {
        self.note(format!("write {} {} bytes {mode:o}", path.display(), content.len()))
    }
    fn copy(&self, from: &Path, to: &Path, mode: u32) -> Result<()> {
        self.note(format!("copy {} {} {mode:o}", from.display(), to.display()))
    }
    fn symlink(&self, points_to: &str, path: &Path) -> Result<()> {
        self.note(format!("symlink {} -> {points_to}", path.display()))
    }
    fn device(&self, path: &Path, major: u32, minor: u32, mode: u32) -> Result<()> {
        self.note(format!("device {} {major}:{minor} {mode:o}", path.display()))
    }
    fn change_root(&self, root: &Path) -> Result<()> {
        self.note(format!("root {}", root.display()))
    }
    fn hostname(&self, name: &str) -> Result<()> {
        self.note(format!("hostname {name}"))
    }
}
