//! The guest's file system: the node's files below a layer of memory, and kernel interfaces.

use std::fs;
use std::path::Path;

use netloom_sys::setup::{Real, Setup};
use rustix::mount::MountFlags;

use super::tolerate;
use crate::Result;
use crate::error::failed;
use crate::spec::{FOLDER, Spec};

/// Where User-mode Linux' package has modules for a kernel release.
const MODULES: &str = "/usr/lib/uml/modules";

/// Makes the file system and enters it.
pub(super) fn set_up(spec: &Spec) -> Result<()> {
    let none = MountFlags::empty();
    Real.mount("proc", Path::new("/proc"), none, "")?;
    Real.mount("sysfs", Path::new("/sys"), none, "")?;
    // Without the module the guest runs on the node's files alone, which it can only read.
    if load("overlay").is_ok() {
        let (rw, root) = (Path::new(FOLDER).join("rw"), Path::new(FOLDER).join("root"));
        Real.mount("tmpfs", &rw, none, "mode=0755")?;
        for dir in ["upper", "work"] {
            Real.mkdir(&rw.join(dir), 0o755)?;
        }
        let layers = format!(
            "lowerdir=/,upperdir={},workdir={}",
            rw.join("upper").display(),
            rw.join("work").display()
        );
        Real.mount("overlay", &root, none, &layers)?;
        // Moved, not mounted again: the devices that the kernel made stay.
        for dir in ["dev", "proc", "sys"] {
            let to = root.join(dir);
            rustix::mount::mount_move(Path::new("/").join(dir), &to)
                .map_err(failed(to.display().to_string(), "move"))?;
        }
        Real.change_root(&root)?;
    }
    for (dir, mode) in [("/run", "0755"), ("/tmp", "1777"), ("/root", "0700")] {
        Real.mount("tmpfs", Path::new(dir), none, &format!("mode={mode}"))?;
    }
    for (fstype, dir) in [("devpts", "/dev/pts"), ("tmpfs", "/dev/shm")] {
        fs::create_dir_all(dir).map_err(failed(dir, "make"))?;
        Real.mount(fstype, Path::new(dir), none, "")?;
    }
    Real.hostname(spec.node.host_name())?;
    // The module need not be there for a guest without IPv6.
    if spec.node.interfaces.iter().flat_map(|i| &i.addresses).any(|a| a.addr().is_ipv6()) {
        tolerate(load("ipv6"));
    }
    Ok(())
}

/// Loads a module and those that it needs. One that the kernel has already is not a failure.
fn load(name: &str) -> Result<()> {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let folder = Path::new(MODULES).join(release);
    let list = folder.join("modules.dep");
    let table = fs::read_to_string(&list).map_err(failed(list.display().to_string(), "read"))?;
    let file = format!("/{name}.ko");
    let line =
        table.lines().find(|line| line.split(':').next().is_some_and(|m| m.ends_with(&file)));
    // Not in the list: it is built into the kernel.
    let Some((module, needs)) = line.and_then(|line| line.split_once(':')) else { return Ok(()) };
    // The list has the nearest first.
    for path in needs.split_ascii_whitespace().rev().chain([module]) {
        insert(&folder.join(path))?;
    }
    Ok(())
}

fn insert(path: &Path) -> Result<()> {
    let object = || path.display().to_string();
    let file = fs::File::open(path).map_err(failed(object(), "open"))?;
    match rustix::system::finit_module(&file, c"", 0) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
        Err(e) => Err(failed(object(), "load")(e)),
    }
}
