//! Overlays: many directories shown as one (overlayfs.rst).
//!
//! Layers are handed to the kernel one at a time where it takes them so (Linux 6.8), else all in one option of mount(2),
//! which ends at a page: long paths are then given as descriptors.

use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MoveMountFlags, fsconfig_create,
    fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, mount as mount_by_text, move_mount,
};

use crate::{Failure, Result};

/// Bytes of options that mount(2) takes, with room for the others than layers.
const MOST_OPTIONS: usize = 4000;

/// Fewer layers are mounted by one call.
const FEW: usize = 4;

/// Mounts an overlay, see [`crate::setup::Setup::overlay`].
pub(crate) fn mount(
    lower: &[&Path],
    writes: Option<(&Path, &Path)>,
    target: &Path,
    user: bool,
) -> Result<()> {
    let failed = |e: Errno| Failure::path(target, "mount overlay", e);
    if lower.len() > FEW {
        match one_by_one(lower, writes, target, user) {
            // Kernels before 6.8 do not know how.
            Err(Errno::INVAL | Errno::NOSYS) => {}
            done => return Ok(done.map_err(failed)?),
        }
    }
    let whole = options(lower, writes, user);
    if whole.len() <= MOST_OPTIONS {
        return Ok(by_text(&whole, target).map_err(failed)?);
    }
    let opened = lower.iter().map(|path| open(path)).collect::<rustix::io::Result<Vec<_>>>();
    let opened = opened.map_err(failed)?;
    let short = |fd: &OwnedFd| PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()));
    let short: Vec<PathBuf> = opened.iter().map(short).collect();
    let short: Vec<&Path> = short.iter().map(PathBuf::as_path).collect();
    let whole = options(&short, writes, user);
    if whole.len() > MOST_OPTIONS {
        let why = format!("{} layers are more than this kernel takes", lower.len());
        return Err(Failure::path(target, "mount overlay", why).into());
    }
    Ok(by_text(&whole, target).map_err(failed)?)
}

fn by_text(options: &str, target: &Path) -> rustix::io::Result<()> {
    let options = CString::new(options).map_err(|_| Errno::INVAL)?;
    mount_by_text("overlay", target, "overlay", MountFlags::empty(), Some(options.as_c_str()))
}

fn open(path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty())
}

fn one_by_one(
    lower: &[&Path],
    writes: Option<(&Path, &Path)>,
    target: &Path,
    user: bool,
) -> rustix::io::Result<()> {
    let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(context.as_fd(), "source", "overlay")?;
    for path in lower {
        // It is one layer, in which nothing is escaped.
        fsconfig_set_string(context.as_fd(), "lowerdir+", *path)?;
    }
    if let Some((upper, work)) = writes {
        fsconfig_set_string(context.as_fd(), "upperdir", escape(upper).as_str())?;
        fsconfig_set_string(context.as_fd(), "workdir", escape(work).as_str())?;
    }
    if user {
        fsconfig_set_flag(context.as_fd(), "userxattr")?;
    }
    fsconfig_create(context.as_fd())?;
    let made = fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
    move_mount(made.as_fd(), "", CWD, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
}

/// The options of mount(2) for an overlay.
pub(crate) fn options(lower: &[&Path], writes: Option<(&Path, &Path)>, user: bool) -> String {
    let lower: Vec<String> = lower.iter().map(|path| escape(path)).collect();
    let mut options = format!("lowerdir={}", lower.join(":"));
    if let Some((upper, work)) = writes {
        options.push_str(&format!(",upperdir={},workdir={}", escape(upper), escape(work)));
    }
    if user {
        options.push_str(",userxattr");
    }
    options
}

/// Escapes the characters that separate options and layers.
fn escape(path: &Path) -> String {
    let mut out = String::new();
    for c in path.to_string_lossy().chars() {
        if matches!(c, '\\' | ',' | ':') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_may_have_any_name() {
        netloom_kit::root_only!("mounts");
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for count in [2, FEW + 2] {
            let layers: Vec<PathBuf> =
                (0..count).map(|n| path(&format!("a:b,c\\d {n} of {count}"))).collect();
            let own = path(&format!("own:,\\{count}"));
            for made in layers.iter().chain([&own.join("upper"), &own.join("work")]) {
                std::fs::create_dir_all(made).unwrap();
            }
            for (n, layer) in layers.iter().enumerate() {
                std::fs::write(layer.join(n.to_string()), "").unwrap();
            }
            let target = path(&format!("target{count}"));
            std::fs::create_dir(&target).unwrap();
            let seen = std::thread::scope(|scope| {
                let mounted = scope.spawn(|| {
                    crate::namespace::private_mounts().unwrap();
                    let lower: Vec<&Path> = layers.iter().map(PathBuf::as_path).collect();
                    let (upper, work) = (own.join("upper"), own.join("work"));
                    mount(&lower, Some((&upper, &work)), &target, false).unwrap();
                    std::fs::read_dir(&target).unwrap().count()
                });
                mounted.join().unwrap()
            });
            assert_eq!(seen, count);
        }
    }

    #[test]
    fn separators_of_overlay_options_are_escaped() {
        assert_eq!(escape(Path::new("/a:b,c\\d")), "/a\\:b\\,c\\\\d");
    }
}
