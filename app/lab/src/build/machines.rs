//! The node around a virtual machine: orders for its init, so that the machine is its only program.
//!
//! The node has the plan's interfaces without addresses and routes, which are the guest's. Its readiness is what the
//! machine's process tells.

use std::path::{Path, PathBuf};

use netloom_model::kinds::vm::Machine;
use netloom_model::lab::{Program, Ready};
use netloom_model::plan::PlannedNode;
use netloom_node::spec::NodeSpec;
use netloom_sys::setup::open_of_lab;
use netloom_vm::{SPEC, STATE, Spec, VERB};

use crate::{Error, Result, Subject};

/// Settings of the node around a machine: it says nothing itself on the guest's links.
const SILENT: [(&str, &str); 2] =
    [("net/ipv6/conf/all/disable_ipv6", "1"), ("-net/ipv6/conf/default/disable_ipv6", "1")];

/// The node of a machine; `cards`: its interfaces in the plan that are ports of switches themselves.
pub(crate) fn around(
    spec: NodeSpec,
    lab: &str,
    node: &PlannedNode,
    machine: &Machine,
    cards: Vec<String>,
) -> Result<NodeSpec> {
    let told = Spec { lab: lab.to_owned(), node: node.clone(), cards };
    let object = format!("node {:?}", node.name);
    let shown = kept(node, machine)?;
    let told = serde_json::to_string(&told).map_err(Error::of(object, "describe its machine"))?;
    // The node runs this same program again, under another verb.
    let command = vec!["/proc/self/exe".to_owned(), VERB.to_owned()];
    Ok(NodeSpec {
        sysctls: SILENT.map(|(path, value)| (path.to_owned(), value.to_owned())).to_vec(),
        env: vec![(SPEC.to_owned(), told)],
        setup: Vec::new(),
        run: vec![Program { restart: machine.restart, ..Program::once(command) }],
        ready: Ready { timeout: node.ready.timeout, ..Ready::default() },
        told_in: Some(STATE.into()),
        shown,
        ..spec
    })
}

/// What the node must see of the host to write it: the file that keeps what the guest writes, which is made here if it
/// is not there. The user that starts the lab makes it.
fn kept(node: &PlannedNode, machine: &Machine) -> Result<Vec<(PathBuf, PathBuf)>> {
    let Some(keep) = &machine.storage.keep else { return Ok(Vec::new()) };
    netloom_vm::storage::make_kept(machine)
        .map_err(|reason| refused(node, "keep", keep, &reason))?;
    Ok(vec![(keep.clone(), netloom_vm::storage::KEPT.into())])
}

fn refused(node: &PlannedNode, key: &str, path: &Path, reason: &str) -> Error {
    Error::Invalid {
        object: Subject::of("node", &node.name).part(format_args!("{key}")),
        reason: format!("{}: {reason}", path.display()),
    }
}

/// Whether the machines of these nodes can run on this computer, with the files that they need.
///
/// # Errors
/// The missing programs, and the packages to install.
pub(crate) fn check<'a>(nodes: impl Iterator<Item = &'a PlannedNode>) -> Result<()> {
    for (node, machine) in nodes.filter_map(|node| Some((node, node.kind.as_vm()?))) {
        if let Some(unsupported) = netloom_vm::lacking(machine) {
            return Err(unsupported.into());
        }
        for (key, path) in machine.files() {
            check_file(path).map_err(|reason| refused(node, key, path, &reason))?;
        }
        netloom_vm::storage::check(machine)
            .map_err(|(key, path, reason)| refused(node, key, &path, &reason))?;
    }
    Ok(())
}

/// Whether the user that starts the lab can read a file.
pub(crate) fn check_file(path: &Path) -> std::result::Result<(), String> {
    open_of_lab(path).map(drop).map_err(|e| netloom_sys::describe(&e))
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::*;

    #[test]
    fn a_file_of_a_machine_is_regular_and_none_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let [fifo, file] = ["fifo", "file"].map(|name| folder.path().join(name));
        mkfifoat(CWD, &fifo, Mode::RUSR | Mode::WUSR).unwrap();
        std::fs::write(&file, "").unwrap();
        check_file(&file).unwrap();
        let reason = |path: &Path| check_file(path).unwrap_err();
        assert_eq!(reason(&fifo), "it is not a regular file");
        assert_eq!(reason(Path::new("/dev/zero")), "it is not a regular file");
        assert_eq!(reason(folder.path()), "it is a directory");
        let storage = netloom_model::kinds::vm::Storage { disk: Some(fifo), ..Default::default() };
        let machine = Machine { storage, ..Machine::default() };
        let (key, _, reason) = netloom_vm::storage::check(&machine).unwrap_err();
        assert_eq!((key, reason.as_str()), ("disk", "it is not a regular file"));
    }

    #[test]
    fn no_link_of_another_user_leads_to_a_file_of_a_machine() {
        use std::os::unix::fs::{lchown, symlink};
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("disk"), vec![0; 1 << 20]).unwrap();
        let [disk, keep] = ["disk", "keep"].map(|name| Some(path(name)));
        let storage = netloom_model::kinds::vm::Storage { disk, keep, ..Default::default() };
        let mut machine = Machine { storage, ..Machine::default() };
        netloom_vm::storage::make_kept(&machine).unwrap();
        for name in ["disk", "keep"] {
            symlink(path(name), path(&format!("to-{name}"))).unwrap();
        }
        machine.storage.keep = Some(path("to-keep"));
        check_file(&path("to-disk")).unwrap();
        netloom_vm::storage::check(&machine).unwrap();
        // Only root can give things away.
        if ["to-disk", "to-keep"].iter().all(|name| lchown(path(name), Some(1), Some(1)).is_ok()) {
            let why = "is a link of user 1, who can change where it leads";
            assert!(check_file(&path("to-disk")).unwrap_err().contains(why));
            let (key, _, reason) = netloom_vm::storage::check(&machine).unwrap_err();
            assert!(key == "keep" && reason.contains(why), "{key}: {reason}");
            machine.storage.disk = Some(path("to-disk"));
            let (key, _, reason) = netloom_vm::storage::check(&machine).unwrap_err();
            assert!(key == "disk" && reason.contains(why), "{key}: {reason}");
        }
    }
}
