//! What the host has mounted does not decide whether a node comes up, nor where it may write.

use std::os::unix::fs::chown;

use netloom_tests_e2e::{Machine, Run, Scratch, machine, needs, root_only};

/// `nobody`.
const USER: u32 = 65_534;

/// Runs a script in mounts of its own; the machine's stay as they are.
fn in_own_mounts(machine: &Machine, script: &str) -> Run {
    let script = format!("set -e\nS=$1\n{script}");
    Run::new("unshare")
        .args(["-m", "--propagation", "private", "sh", "-c", &script, "sh"])
        .args([machine.scratch().path()])
        .env("NETLOOM_BIN", netloom_kit::Binary::find().path())
        .env("NETLOOM_RUNTIME_DIR", machine.scratch().runtime_dir())
        .env("HOME", machine.scratch().path())
        .dir(machine.scratch().path())
}

/// As a chroot is prepared: kernel interfaces, and a file system within one of them.
const CHROOT: &str = r#"
mkdir -p "$S/x/sys"
mount --rbind /sys "$S/x/sys"
mount -t tmpfs none "$S/x/sys/kernel"
mount -t tmpfs -o ro none /var/tmp
mkdir "$S/x/data"
mount -t tmpfs none "$S/x/data"
echo seen >"$S/x/data/file"
"$NETLOOM_BIN" up lab.yaml
trap '"$NETLOOM_BIN" down --all' EXIT
"$NETLOOM_BIN" exec a -- sh -c 'set -e
    for dir in /tmp /var/tmp; do echo own >$dir/own; stat -c %a:%u $dir; done
    echo own >/run/own
    ls "$1/sys"; cat "$1/data/file"; echo own >"$1/data/file"' sh "$S/x"
cat "$S/x/data/file"
"#;

#[test]
fn a_chroot_on_the_host_ends_no_node() {
    root_only!("mounts on a host of its own");
    needs!("unshare");
    let machine = machine!();
    machine.file("name: mounts\nnodes: {a: {}}\n");
    let seen = in_own_mounts(&machine, CHROOT).finish().code(0).text();
    let seen: Vec<&str> = seen.lines().filter(|line| !line.starts_with("lab ")).collect();
    assert_eq!(seen, ["1777:0", "1777:0", "seen", "seen"]);
    machine.untouched();
}

/// Something is mounted below `/tmp`, `/var` and `/etc`, as in a container or by an AppImage.
const BELOW: &str = r#"
mkdir "$S/x" "$S/hosts"
mount -t tmpfs none "$S/x"
mount -t tmpfs -o mode=1777 none /var/local
echo '127.0.0.1 hosts-own' >"$S/hosts/file"
mount --bind "$S/hosts/file" /etc/hosts
user() { setpriv --reuid=65534 --regid=65534 --clear-groups "$NETLOOM_BIN" "$@"; }
user up lab.yaml
trap 'user down --all' EXIT
user exec a -- sh -c 'set -e
    for dir in /tmp /var/tmp; do cat $dir/placed; echo own >$dir/own; stat -c %a:%u $dir; done
    cat /etc/login.defs; grep -c "\bb$" /etc/hosts; grep -c hosts-own /etc/hosts || true
    if touch /var/local/own 2>/dev/null; then echo writes on the host; fi'
ls -A /var/local
"#;

/// A machine whose folders are an ordinary user's.
fn of_user() -> Machine {
    let scratch = Scratch::within_reach();
    for path in [scratch.path().to_owned(), scratch.runtime_dir()] {
        chown(path, Some(USER), Some(USER)).expect("give the folder");
    }
    Machine::of(scratch)
}

#[test]
fn mounts_below_a_directory_leave_an_ordinary_users_node_its_own() {
    root_only!("mounts on a host of its own");
    needs!("unshare", "setpriv");
    let machine = of_user();
    machine.file(
        "name: mounts\npool: {ipv6: none}\nnodes:\n  b: {}\n  a:\n    files:\n      \
         /tmp/placed: {text: \"1\\n\"}\n      /var/tmp/placed: {text: \"2\\n\"}\n      \
         /etc/login.defs: {text: \"3\\n\"}\nlinks: [[a, b]]\n",
    );
    let seen = in_own_mounts(&machine, BELOW).finish().code(0).text();
    let seen: Vec<&str> = seen.lines().filter(|line| !line.starts_with("lab ")).collect();
    assert_eq!(seen, ["1", "1777:0", "2", "1777:0", "3", "1", "0"]);
    machine.untouched();
}

#[test]
fn a_file_that_cannot_be_placed_is_named() {
    root_only!("mounts on a host of its own");
    needs!("unshare", "setpriv");
    let machine = of_user();
    machine.file("name: mounts\nnodes: {a: {files: {/var/new: {text: x}}}}\n");
    let script = "mount -t tmpfs none /var/local\n\
                  setpriv --reuid=65534 --regid=65534 --clear-groups \"$NETLOOM_BIN\" up lab.yaml";
    let refused = in_own_mounts(&machine, script).finish().code(1);
    refused
        .says("file \"/var/new\": put it in: /var is read-only here: something is mounted in it");
    machine.untouched();
}
