//! Doors to the host: an interface bridged in, and the internet by NAT; undone by `down`.
//!
//! The host is played by a fresh network namespace, so that the real one is left alone.

use netloom_tests_e2e::{Run, machine, root_only, workspace_root};

/// Prints what was before and after; fails at the first step that does.
const SCRIPT: &str = r#"
set -eu
ip link set lo up
ip link add eth1 type veth peer name outside
ip link set outside up
ip link add uplink type bridge
ip addr add 203.0.113.1/24 dev uplink
ip link set uplink up
state() {
    cat /proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv6/conf/all/forwarding
    ip -o link show | sed 's/^[0-9]*: //; s/ mtu .*master/ master/; s/ mtu .*//; s/<.*>//' | sort
    if command -v nft >/dev/null; then nft list ruleset; fi
}
state >before
"$NETLOOM_BIN" up "$1"
trap '"$NETLOOM_BIN" down --all' EXIT
"$NETLOOM_BIN" exec inside -- ping -c 1 -W 5 203.0.113.1
ip -o link show eth1 | grep -q master
"$NETLOOM_BIN" down
trap - EXIT
state >after
diff before after
"#;

#[test]
fn doors_open_and_close() {
    root_only!("opens doors to the host");
    let machine = machine!();
    let file = workspace_root().join("examples/doors.yaml");
    let run = Run::new("unshare").args(["--net", "sh", "-c", SCRIPT, "sh"]).args([&file]);
    let run = run.env("NETLOOM_BIN", netloom_kit::Binary::find().path());
    let run = run.env("NETLOOM_RUNTIME_DIR", machine.scratch().runtime_dir());
    run.dir(machine.scratch().path()).finish().code(0);
    machine.down();
}

#[test]
fn an_ordinary_user_is_told() {
    let machine = machine!();
    if netloom_tests_e2e::is_root() {
        netloom_tests_e2e::skip!("ordinary-only: root may open doors");
    }
    let file = workspace_root().join("examples/doors.yaml");
    machine.netloom(["up".as_ref(), file.as_os_str()]).finish().code(3).says("root");
    machine.untouched();
}
