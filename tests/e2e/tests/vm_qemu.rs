//! Virtual machines by QEMU, with a real kernel: reached, paused, ended, killed, late, refused.

use std::time::Duration;

use netloom_tests_e2e::guest::Guest;
use netloom_tests_e2e::live::gone;
use netloom_tests_e2e::{Machine, Run, machine, needed, needs, signal, wait_until};
use rustix::process::Signal;

/// A boot by translation on a busy machine, and the ends of everything after it.
pub(crate) const BOUND: Duration = Duration::from_secs(300);

/// A guest, or a skip where its parts are missing.
macro_rules! guest {
    ($machine:expr, $more:expr) => {
        match Guest::make(&$machine, $more) {
            Ok(guest) => guest,
            Err(reason) => netloom_kit::skip!("{reason}"),
        }
    };
}
pub(crate) use guest;

/// A node and the guest with these keys more.
pub(crate) fn lab(guest: &Guest, more: &str) -> String {
    let keys = guest.keys();
    format!(
        "nodes:\n  h:\n  g: {{{keys}, ready: {{console: guest is up, timeout: 240s}}, {more}}}\nlinks: [[h, g]]\n"
    )
}

pub(crate) fn answers(machine: &Machine) {
    wait_until("the guest answers", BOUND, || {
        let ping = machine.exec("h", &["ping", "-c", "1", "-W", "2", "g"]).finish();
        (ping.status.code() == Some(0)).then_some(())
    });
}

/// The process of QEMU in the guest's node.
pub(crate) fn qemu(machine: &Machine) -> i32 {
    let is_qemu = |pid: &i32| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        name.starts_with("qemu-system")
    };
    let all = netloom_tests_e2e::descendants(machine.init("g"));
    all.into_iter().find(is_qemu).expect("QEMU runs")
}

/// Waits until this process of QEMU is gone, and another one is there.
pub(crate) fn is_started_again(machine: &Machine, first: i32) {
    wait_until("another QEMU", BOUND, || {
        let all = netloom_tests_e2e::descendants(machine.init("g"));
        (gone(first) && all.len() > 1).then_some(())
    });
}

#[test]
fn a_guest_is_reached_by_name_and_has_a_console() {
    let machine = machine!();
    let guest = guest!(machine, "");
    machine.up(&lab(&guest, ""));
    answers(&machine);
    let page = machine.exec("h", &["curl", "-fsS", "http://g/"]).ok();
    assert_eq!(page, "made by a guest\n");
    // Its console is the log and the shell; names resolve in it.
    assert!(machine.netloom(["logs", "g"]).ok().contains("guest is up"));
    let typed = "ping -c 1 -W 9 h && echo so-$((6*7)); poweroff -f\n";
    let shown = machine.netloom(["shell", "g"]).input(typed).bound(BOUND).finish().text();
    assert!(shown.contains("so-42"), "{shown}");
    machine.down();
}

/// As an emulated card has none: the tap is then told to cut super-frames and to finish checksums.
const OFF: &str = "x-qemu: [-global, virtio-net-pci.guest_tso4=off, -global, virtio-net-pci.guest_tso6=off, \
                   -global, virtio-net-pci.guest_csum=off]";

#[test]
fn a_card_without_offloads_takes_streams() {
    needs!("busybox");
    let machine = machine!();
    let guest = guest!(
        machine,
        "mkfifo /tmp/open; (nc -l -p 5000 <>/tmp/open | wc -c | sed s/^/stream-/ >/dev/console) &\n\
         until cat /proc/net/tcp* | grep -q :1388; do sleep 1; done"
    );
    machine.up(&lab(&guest, OFF));
    answers(&machine);
    let send = "head -c 1000000 /dev/zero | busybox nc g 5000";
    machine.exec("h", &["sh", "-c", send]).bound(BOUND).finish().code(0);
    wait_until("the stream's end", BOUND, || {
        machine.netloom(["logs", "g"]).ok().contains("stream-1000000").then_some(())
    });
    machine.down();
}

#[test]
fn a_guest_without_an_agent_says_what_there_is_instead_and_can_be_paused() {
    let machine = machine!();
    let guest = guest!(machine, "");
    machine.up(&lab(&guest, "machine: q35"));
    answers(&machine);
    let refused = machine.exec("g", &["true"]).finish().code(1);
    for part in ["has no agent", "`netloom shell` is its console"] {
        assert!(refused.errors().contains(part), "{}", refused.errors());
    }
    machine.ok("node pause g");
    machine.exec("h", &["ping", "-c", "1", "-W", "1", "g"]).finish().code(1);
    machine.ok("node resume g");
    answers(&machine);
    machine.down();
}

#[test]
fn a_machine_that_hangs_is_killed() {
    let machine = machine!();
    let guest = guest!(machine, "");
    machine.up(&lab(&guest, ""));
    let pid = qemu(&machine);
    signal(pid, Signal::STOP);
    machine.netloom(["down", "--all"]).finish().code(0);
    assert!(gone(pid));
    machine.down();
}

#[test]
fn a_killed_qemu_is_started_again() {
    let machine = machine!();
    let guest = guest!(machine, "");
    machine.up(&lab(&guest, "restart: on-failure"));
    let first = qemu(&machine);
    netloom_tests_e2e::kill(first);
    is_started_again(&machine, first);
    answers(&machine);
    assert_ne!(qemu(&machine), first);
    machine.down();
}

#[test]
fn a_guest_that_reboots_is_started_again() {
    let machine = machine!();
    let guest = guest!(machine, "");
    machine.up(&lab(&guest, "machine: q35, restart: on-failure"));
    let first = qemu(&machine);
    machine.netloom(["shell", "g"]).input("reboot -f\n").bound(BOUND).finish();
    is_started_again(&machine, first);
    answers(&machine);
    assert!(machine.netloom(["logs", "g"]).ok().contains("its guest has reset the machine"));
    machine.down();
}

#[test]
fn a_guest_that_never_boots_is_told_with_its_console() {
    let machine = machine!();
    let guest = guest!(machine, "echo I hang here; sleep 999");
    // Beside other guests without KVM this one needs more than half of it.
    let text = lab(&guest, "").replace("240s", "100s");
    let file = machine.file(&text);
    let failed = machine.netloom(["up".as_ref(), file.as_os_str()]).bound(BOUND).finish().code(1);
    let parts = ["not ready in time: its console has not shown \"guest is up\"", "I hang here"];
    for part in parts {
        assert!(failed.errors().contains(part), "{}", failed.errors());
    }
    machine.untouched();
}

#[test]
fn kvm_is_refused_with_the_reason() {
    needs!("qemu-system-x86_64", "processor-without-kvm");
    let machine = machine!();
    let file = machine.file("nodes: {g: {kind: vm, accel: kvm, kernel: /bin/sh}}");
    let refused = machine.netloom(["up".as_ref(), file.as_os_str()]).finish().code(3);
    for part in ["KVM", "the processor has neither vmx nor svm", "write accel: auto"] {
        assert!(refused.errors().contains(part), "{}", refused.errors());
    }
    machine.untouched();
}

#[test]
fn a_missing_qemu_is_told_with_what_to_install() {
    let qemu = needed!("qemu-system-x86_64");
    let machine = machine!();
    let file = machine.file("nodes: {g: {kind: vm, kernel: /bin/sh}}");
    // Where this runs, a device lies over the program.
    let hide = "mount --bind /dev/null \"$1\" && exec \"$2\" up \"$3\"";
    let binary = netloom_kit::Binary::find();
    let run = Run::new("/usr/bin/unshare")
        .args(["--mount", "--map-root-user", "sh", "-c", hide, "sh"])
        .args([qemu.as_path(), binary.path(), file.as_path()])
        .env("NETLOOM_RUNTIME_DIR", machine.scratch().runtime_dir());
    let refused = run.finish().code(3);
    for part in ["qemu-system-x86_64 is not there", "apt-get install qemu-system-x86"] {
        assert!(refused.errors().contains(part), "{}", refused.errors());
    }
    machine.untouched();
}
