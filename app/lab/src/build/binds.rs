//! Whether the files and directories of the host that nodes are to see, as binds or as their root, can be shown to them.

use std::os::fd::AsRawFd;
use std::path::Path;

use netloom_model::lab::Bind;
use netloom_model::plan::PlannedNode;
use netloom_sys::lookup::open_by_own_links;
use rustix::fs::{FileType, OFlags};

use crate::{Error, Result};

/// Replaces the paths of these nodes' binds, which are absolute, by what they lead to; `runtime` is the folder of labs.
///
/// # Errors
/// Names the node, the path in it, and why the path on the host cannot be shown there.
pub(crate) fn settle(nodes: &mut [PlannedNode], runtime: &Path) -> Result<()> {
    // Compared with real paths below: both sides must be without links.
    let runtime = runtime.canonicalize().unwrap_or_else(|_| runtime.to_owned());
    for node in nodes {
        let name = node.name.clone();
        for bind in &mut node.binds {
            let object = || format!("node {name:?}: binds.{}", bind.to);
            bind.from = found(bind, &runtime)
                .map_err(|reason| Error::Invalid { object: object().into(), reason })?;
        }
    }
    Ok(())
}

/// Checks the roots of these nodes.
///
/// # Errors
/// As [`check_root`].
pub(crate) fn check_roots(nodes: &[PlannedNode], runtime: &Path) -> Result<()> {
    let rooted = nodes.iter().filter_map(|node| Some((node, node.root.as_ref()?)));
    let mut rooted = rooted.map(|(node, root)| (format!("node {:?}", node.name), root));
    rooted.try_for_each(|(object, root)| check_root(&object, root, runtime))
}

/// What a node has of its own within its root; what the host has there is not seen.
const OWN: [&str; 3] = ["run", "tmp", "var/tmp"];

/// Refuses a root of a node that is not a directory, or in which the node would see the folder of labs, `runtime`: programs
/// there could talk to every lab of the user.
///
/// # Errors
/// Names `object` and the root.
pub(crate) fn check_root(object: &str, root: &Path, runtime: &Path) -> Result<()> {
    let invalid = |reason: String| {
        let reason = format!("root {root:?}: {reason}");
        Err(Error::Invalid { object: object.into(), reason })
    };
    if !root.is_absolute() || !root.is_dir() {
        return invalid("not a directory given from /".to_owned());
    }
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let (root, runtime) = (real(root), real(runtime));
    let seen =
        // The node's own mounts cover the host's there.
        runtime.strip_prefix(&root).is_ok_and(|at| !OWN.iter().any(|own| at.starts_with(own)));
    // A root inside of the folder of labs shows parts of a lab.
    if seen || root.starts_with(&runtime) {
        return invalid(format!("the node would see the folder of labs, {}", runtime.display()));
    }
    Ok(())
}

/// Checks the binds and the root of a node of a plan from elsewhere, in which [`settle`] has replaced the paths.
///
/// # Errors
/// As [`settle`]; a path leads elsewhere.
pub(crate) fn check(node: &PlannedNode, runtime: &Path) -> Result<()> {
    check_roots(std::slice::from_ref(node), runtime)?;
    if node.binds.is_empty() {
        return Ok(());
    }
    // A plan from elsewhere could name links that lead out of what its sender may see.
    let mut own = node.clone();
    settle(std::slice::from_mut(&mut own), runtime)?;
    let mut all = node.binds.iter().zip(&own.binds);
    if let Some((bind, found)) = all.find(|(a, b)| a.from != b.from) {
        let object = format!("node {:?}: binds.{}", node.name, bind.to);
        let (from, found) = (bind.from.display(), found.from.display());
        let reason = format!("{from}: it leads to {found}; write that path");
        return Err(Error::Invalid { object: object.into(), reason });
    }
    Ok(())
}

/// Where a bind's path on the host leads.
fn found(bind: &Bind, runtime: &Path) -> std::result::Result<std::path::PathBuf, String> {
    let Bind { from, write, .. } = bind;
    let wrong = |reason: &dyn std::fmt::Display| format!("{}: {reason}", from.display());
    let opened = open_by_own_links(from, OFlags::PATH).map_err(|e| wrong(&e))?;
    // The kernel says where the descriptor leads, whatever the path becomes later.
    let path = std::fs::read_link(format!("/proc/self/fd/{}", opened.as_raw_fd()));
    let path = path.map_err(|e| wrong(&e))?;
    let kind = std::fs::metadata(&path).map_err(|e| wrong(&e))?;
    let kind = FileType::from_raw_mode(std::os::unix::fs::MetadataExt::mode(&kind));
    match kind {
        FileType::Directory | FileType::RegularFile | FileType::Socket => {}
        _ => return Err(wrong(&"it is neither a directory nor a file")),
    }
    // Both ways: a folder above the labs shows them, too.
    if path.starts_with(runtime) || runtime.starts_with(&path) {
        let folder = runtime.display();
        return Err(wrong(&format_args!("the node would see the folder of labs, {folder}")));
    }
    use rustix::fs::Access;
    let mut access = Access::READ_OK;
    access.set(Access::EXEC_OK, kind == FileType::Directory);
    access.set(Access::WRITE_OK, *write);
    // access(2) asks for the real user by default, whereas files are opened as the effective one.
    let flags = rustix::fs::AtFlags::EACCESS;
    rustix::fs::accessat(rustix::fs::CWD, &path, access, flags).map_err(|e| {
        let e = std::io::Error::from(e);
        let way = if *write { "with access: rw it must be readable and writable" } else { "read" };
        wrong(&format_args!("{way}: {e}"))
    })?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_root_does_not_show_the_folder_of_labs() {
        let folder = tempfile::tempdir().unwrap();
        for own in ["labs", "run/labs", "tmp/labs", "var/tmp/labs", "site"] {
            std::fs::create_dir_all(folder.path().join(own)).unwrap();
        }
        symlink(folder.path().join("labs"), folder.path().join("link")).unwrap();
        let asked = |root: &str, runtime: &str| {
            check_root("node \"a\"", &folder.path().join(root), &folder.path().join(runtime))
        };
        for runtime in ["run/labs", "tmp/labs", "var/tmp/labs"] {
            asked("", runtime).unwrap();
        }
        asked("site", "labs").unwrap();
        for (root, runtime) in
            [("", "labs"), ("labs", "labs"), ("link", "labs"), ("run", "run/labs")]
        {
            let said = asked(root, runtime).unwrap_err().to_string();
            assert!(said.contains("would see the folder of labs"), "{root} {runtime}: {said}");
        }
        let said = asked("missing", "labs").unwrap_err().to_string();
        assert!(said.contains("not a directory given from /"), "{said}");
    }

    #[test]
    fn what_cannot_be_shown_is_named_with_its_reason() {
        let folder = tempfile::tempdir().unwrap();
        let (runtime, site) = (folder.path().join("labs"), folder.path().join("site"));
        std::fs::create_dir(&runtime).unwrap();
        std::fs::create_dir(&site).unwrap();
        symlink(&runtime, folder.path().join("there")).unwrap();
        symlink(&site, folder.path().join("link")).unwrap();
        let runtime = runtime.canonicalize().unwrap();
        let ask = |name: &str| {
            let from = folder.path().join(name);
            found(&Bind { to: "/a".into(), from, write: false }, &runtime)
        };
        assert_eq!(ask("link").unwrap(), site.canonicalize().unwrap());
        for (name, part) in [
            ("missing", "No such file or directory"),
            ("there", "the node would see the folder of labs"),
            (".", "the node would see the folder of labs"),
            ("/dev/null", "neither a directory nor a file"),
        ] {
            let reason = ask(name).unwrap_err();
            assert!(reason.contains(part), "{name}: {reason}");
        }
    }
}
