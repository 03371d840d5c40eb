//! Checks the keys of a node that is a virtual machine against its kind.

use netloom_config::{Node as Yaml, Path, Report};

use crate::file::Fields;
use crate::kinds::vm::{Accel, BESIDE, Machine};
use crate::lab::{Node, Program};

/// Keys of a node that mean nothing in a guest with files of its own.
const OF_SHARED_FILES: [&str; 7] =
    ["storage", "setup", "run", "env", "files", "sysctls", "forwarding"];

/// Checks the keys of a node against its kind.
pub(crate) fn check(
    (machine, node): (&Machine, &Node),
    (yaml, fields): (&Yaml, &Fields<'_>),
    path: &Path<'_>,
    report: &mut Report,
) {
    let mut refuse = |key: &str, reason: &str| {
        let Some(value) = fields.get(key) else { return };
        report.error(value.place, format!("{}: {reason}", path.key(key)));
    };
    refuse("children", "no node can live in a virtual machine");
    refuse("privileged", "a virtual machine's process has no rights at all");
    refuse("ids", "a virtual machine's guest has users of its own");
    refuse("image", "a virtual machine has the node's own files, or an initrd");
    refuse("root", "a virtual machine has the node's own files, or an initrd");
    refuse("exec", "commands in a virtual machine are those of its own start");
    refuse("health", "the guest of a virtual machine is not looked into");
    refuse("loopback", "a virtual machine's loopback is its guest's");
    refuse("ports", "the network of a virtual machine is its guest's");
    refuse("binds", "a virtual machine's guest cannot see files of the host");
    if node.limits.memory.is_some_and(|most| most < machine.memory + BESIDE) {
        refuse("limits", "limits.memory must be the guest's `memory` and 32MiB more, at least");
    }
    if !node.run.iter().all(Program::is_plain) {
        refuse("run", "programs in a virtual machine have `command` and `restart` only");
    }
    if machine.shares_files() {
        if node.ready.agent {
            refuse("ready", "only a guest of QEMU has an `agent` to wait for");
        }
        return;
    }
    for key in OF_SHARED_FILES {
        if key == "storage" && machine.storage.disk.is_some() {
            continue;
        }
        refuse(
            key,
            "only a machine with accel: uml and no initrd has this: other guests start their own programs",
        );
    }
    let ready = &node.ready;
    let asks = !ready.tcp.is_empty() || ready.exec.is_some() || !ready.files.is_empty();
    if machine.accel == Accel::Uml {
        if asks || ready.agent {
            refuse("ready", "in a guest without the node's files only `console` can be waited for");
        }
        return;
    }
    let has = |path: &Option<_>| path.is_some();
    if !has(&machine.kernel) && !has(&machine.storage.disk) {
        let help = "for User-mode Linux, which needs none, write accel: uml".to_owned();
        let needs = format!("{path}: a machine needs a `kernel` or a `disk`");
        report.error_with(yaml.place, needs, Some(help));
    } else if !has(&machine.kernel) {
        for key in ["initrd", "append"] {
            refuse(key, "only a `kernel` has this: a disk starts its own");
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::kinds::vm::{Accel, Machine};
    use crate::parse::tests::errors_of_node as errors;

    #[test]
    fn a_machine_has_defaults() {
        let lab = crate::parse("f", b"nodes: {a: {kind: vm, accel: uml}}", "f").unwrap();
        let machine = lab.nodes[0].kind.as_vm().unwrap();
        assert_eq!(*machine, Machine { accel: Accel::Uml, ..Machine::default() });
        assert!(machine.shares_files());
        let text = serde_json::to_string(&lab.nodes[0].kind).unwrap();
        assert!(text.starts_with(r#"{"vm":{"accel":"uml","memory":134217728"#), "{text}");
    }

    #[test]
    fn what_a_machine_cannot_have_is_refused_by_name() {
        for (body, part) in [
            ("kind: vm", "nodes.a: a machine needs a `kernel` or a `disk`"),
            ("kind: vm, accel: uml, nic: e1000", "nodes.a.nic: only QEMU has this"),
            ("kind: vm, accel: uml, cpus: 2", "nodes.a.cpus: User-mode Linux has one processor"),
            ("kind: vm, accel: uml, memory: 1MiB", "nodes.a.memory: a guest has 32MiB to 1TiB"),
            ("kind: vm, accel: uml, children: {}", "nodes.a.children: no node can live in"),
            ("kind: vm, accel: uml, run: [{command: [x], user: a}]", "nodes.a.run: programs in a"),
            ("kind: vm, accel: uml, exec: [[a]]", "nodes.a.exec: commands in a virtual machine"),
            ("kind: vm, accel: uml, binds: {/a: b}", "nodes.a.binds: a virtual machine's guest"),
            ("kind: vm, accel: uml, ids: real", "nodes.a.ids: a virtual machine's guest"),
            ("kind: vm, accel: uml, privileged: true", "nodes.a.privileged: a virtual machine's"),
            ("kind: vm, kernel: k, run: [[a]]", "nodes.a.run: only a machine with accel: uml"),
            (
                "kind: vm, accel: uml, initrd: i, ready: {tcp: 1}",
                "nodes.a.ready: in a guest without",
            ),
            ("ready: {agent: true}", "nodes.a.ready.agent: only a virtual machine has this"),
            ("kind: vm, accel: uml, limits: {memory: 64MiB}", "nodes.a.limits: limits.memory must"),
            ("kind: vm, accel: uml, disk: d", "nodes.a.disk: only QEMU has this"),
            ("kind: vm, kernel: k, keep: f", "nodes.a.keep: there is no `disk`"),
            ("kind: vm, disk: d, append: a", "nodes.a.append: only a `kernel` has this"),
            ("kind: vm, disk: d, disk-bus: scsi", "nodes.a.disk-bus: expected one of virtio, ide"),
            ("kind: vm, disk: d, seed: false, user-data: u", "nodes.a.user-data: without a `seed`"),
            ("initrd: i", "nodes.a.initrd: only a virtual machine has this"),
            ("ready: {console: x}", "nodes.a.ready.console: only a virtual machine has this"),
            ("kind: bridge", "nodes.a.kind: expected one of plain, vm, router"),
        ] {
            let all = errors(body);
            assert!(all.iter().any(|e| e.contains(part)), "{body}: {all:?}");
        }
    }
}
