//! Doors to the host: an interface bridged in, and the internet by NAT; undone by `down`.
//!
//! The host is played by a fresh network namespace, so that the real one is left alone.

use std::time::Duration;

use netloom_tests_e2e::{Machine, Run, done, machine, needs, root_only, rounds, workspace_root};

/// How long a script may take on a busy machine; `far` lives longer.
const BOUND: Duration = Duration::from_secs(180);

/// A host with an uplink to `far`.
const HOST: &str = r#"
set -eu
ip link set lo up
# A machine of the outer world, which knows no way back but to the host itself.
unshare --net sleep 300 &
far=$!
trap 'kill $far' EXIT
until [ "$(readlink /proc/$far/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do kill -0 $far; sleep 0.05; done
# Asks until there is an answer: what is sent before all ports on the way are open is lost, and a neighbour who does not
# answer within three seconds is forgotten, with what waits for it.
answers() { until "$@" >/dev/null; do kill -0 $far; done; }
ip link add uplink type veth peer name far netns $far
nsenter -t $far -n sh -c 'ip addr add 203.0.113.9/24 dev far && ip link set far up'
ip addr add 203.0.113.1/24 dev uplink
ip link set uplink up
ip route add default via 203.0.113.9
"#;

/// An interface of the host without addresses, and what is plugged into it.
const CARD: &str = "ip link add eth1 type veth peer name outside\nip link set outside up\n";

/// Prints what was before and after; fails at the first step that does.
const SCRIPT: &str = r#"
state() {
    cat /proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv6/conf/all/forwarding
    cat /proc/sys/net/ipv4/conf/uplink/forwarding
    ip -o link show | sed 's/^[0-9]*: //; s/ mtu .*master/ master/; s/ mtu .*//; s/<.*>//' | sort
    if command -v nft >/dev/null; then nft list ruleset; fi
}
state >before
"$NETLOOM_BIN" up "$1"
trap '"$NETLOOM_BIN" down --all; kill $far' EXIT
answers "$NETLOOM_BIN" exec inside -- ping -c 1 -W 5 203.0.113.1
answers "$NETLOOM_BIN" exec inside -- ping -c 1 -W 5 203.0.113.9
ip -o link show eth1 | grep -q master
# A second lab's door beside it: each passes, and one stays when the other goes.
"$NETLOOM_BIN" up "$2"
answers "$NETLOOM_BIN" -l second exec n -- ping -c 1 -W 5 203.0.113.9
answers "$NETLOOM_BIN" -l doors exec inside -- ping -c 1 -W 5 203.0.113.9
"$NETLOOM_BIN" down doors
answers "$NETLOOM_BIN" exec n -- ping -c 1 -W 5 203.0.113.9
"$NETLOOM_BIN" down second
trap 'kill $far' EXIT
state >after
diff before after
"#;

const SECOND: &str = "name: second\npool: {ipv4: 172.20.0.0/16, ipv6: fd99::/32}\n\
                      nodes: {n: {}}\nlinks:\n  - [n, internet]\n";

/// Runs a script of bash on a host of its own, in the machine's scratch folder.
fn on_a_host(machine: &Machine, script: &str) -> Run {
    let script = format!("{HOST}{script}");
    Run::new("unshare")
        .args(["--net", "bash", "-c", &script, "bash"])
        .env("NETLOOM_BIN", netloom_kit::Binary::find().path())
        .env("NETLOOM_RUNTIME_DIR", machine.scratch().runtime_dir())
        .dir(machine.scratch().path())
        .bound(BOUND)
}

#[test]
fn doors_open_and_close() {
    root_only!("opens doors to the host");
    let machine = machine!();
    let file = workspace_root().join("examples/doors.yaml");
    let second = machine.file(SECOND);
    on_a_host(&machine, &format!("{CARD}{SCRIPT}")).args([&file, &second]).finish().code(0);
    machine.down();
}

/// Nodes behind a router, and one at a door of its own.
const TWICE: &str = "
name: doors
nodes: {inside: {}, r: {forwarding: true}, alone: {}}
switches: {lan: {}}
links:
  - [inside, lan]
  - [lan, r]
  - [r, internet]
  - [alone, internet]
";

/// The same file twice, and once more where an address of the first is also the host's.
const TWICE_SCRIPT: &str = r#"
trap '"$NETLOOM_BIN" down --all; kill $far' EXIT
"$NETLOOM_BIN" up "$1"
"$NETLOOM_BIN" up --name other "$1"
for lab in doors other; do
    for node in inside alone r; do answers "$NETLOOM_BIN" -l $lab exec $node -- ping -4 -c 1 -W 5 203.0.113.9; done
    "$NETLOOM_BIN" up --name $lab "$1" | grep 'already running$'
    "$NETLOOM_BIN" apply --check --name $lab "$1"
    "$NETLOOM_BIN" -l $lab exec inside -- ip -4 -o address show dev eth0 >$lab.addresses
done
! cmp -s doors.addresses other.addresses
# A link made later is within the same assignment.
"$NETLOOM_BIN" -l other link create alone lan
answers "$NETLOOM_BIN" -l other exec alone -- ping -4 -c 1 -W 5 inside
"$NETLOOM_BIN" down doors
answers "$NETLOOM_BIN" -l other exec inside -- ping -4 -c 1 -W 5 203.0.113.9
"$NETLOOM_BIN" down other
ip addr add $(awk '{print $4}' doors.addresses) dev uplink
"$NETLOOM_BIN" up "$1"
answers "$NETLOOM_BIN" exec inside -- ping -4 -c 1 -W 5 203.0.113.9
"$NETLOOM_BIN" down doors
"$NETLOOM_BIN" up "$2" 2>refused && exit 1
grep -F 'the host has the address 203.0.113.1/24' refused
trap 'kill $far' EXIT
"#;

/// An address of the host by hand.
const TAKEN: &str = "name: taken\nnodes: {a: {}}\nlinks:\n  - ends: [a, internet]\n    addresses: {a: 203.0.113.2/24}\n";

#[test]
fn labs_of_the_same_nodes_have_doors_beside_each_other() {
    root_only!("opens doors to the host");
    let machine = machine!();
    let twice = machine.file(TWICE);
    let taken = machine.scratch().file("taken.yaml", TAKEN);
    on_a_host(&machine, TWICE_SCRIPT).args([&twice, &taken]).finish().code(0);
    machine.down();
}

/// An OpenFlow switch with a door.
const FLOWS: &str = "
name: doors
pool: {ipv6: none}
nodes: {inside: {}}
switches: {t: {kind: openflow}}
links:
  - [inside, t]
  - [t, internet]
";

const FLOWS_SCRIPT: &str = r#"
"$NETLOOM_BIN" up "$1"
trap '"$NETLOOM_BIN" down --all; kill $far' EXIT
answers "$NETLOOM_BIN" exec inside -- ping -c 1 -W 5 203.0.113.9
"$NETLOOM_BIN" down doors
trap 'kill $far' EXIT
"#;

#[test]
fn a_door_is_a_port_of_an_openflow_switch() {
    root_only!("opens doors to the host");
    let machine = machine!();
    let file = machine.file(FLOWS);
    on_a_host(&machine, FLOWS_SCRIPT).args([&file]).finish().code(0);
    machine.down();
}

/// Both kinds of doors in one lab. The kernel may show what a door's bridge passes to the rules of the host's own forwarding
/// (`br_netfilter`): these must let it pass, although the bridge is made after them.
const BOTH: &str = "
name: doors
pool: {ipv6: none}
nodes: {inside: {}, beside: {}}
switches: {t: {kind: KIND}}
links:
  - [inside, internet]
  - {ends: [beside, t], addresses: {beside: 198.51.100.2/24}}
  - [t, 'host:eth1']
";

const BOTH_SCRIPT: &str = r#"
ip link set outside netns $far
nsenter -t $far -n sh -c 'ip addr add 198.51.100.1/24 dev outside && ip link set outside up'
"$NETLOOM_BIN" up "$1"
trap '"$NETLOOM_BIN" down --all; kill $far' EXIT
answers "$NETLOOM_BIN" exec inside -- ping -c 1 -W 5 203.0.113.9
answers "$NETLOOM_BIN" exec beside -- ping -c 1 -W 5 198.51.100.1
"$NETLOOM_BIN" down doors
trap 'kill $far' EXIT
"#;

fn both_doors_pass(kind: &str) {
    let machine = machine!();
    let file = machine.file(&BOTH.replace("KIND", kind));
    on_a_host(&machine, &format!("{CARD}{BOTH_SCRIPT}")).args([&file]).finish().code(0);
    machine.down();
}

#[test]
fn a_bridged_door_passes_beside_one_to_the_internet() {
    root_only!("opens doors to the host");
    both_doors_pass("kernel");
}

#[test]
fn a_bridged_door_is_a_port_of_an_openflow_switch() {
    root_only!("opens doors to the host");
    both_doors_pass("openflow");
}

#[test]
fn an_ordinary_user_is_told() {
    let machine = machine!();
    netloom_tests_e2e::ordinary_only!("root may open doors");
    let file = workspace_root().join("examples/doors.yaml");
    machine.netloom(["up".as_ref(), file.as_os_str()]).finish().code(3).says("root");
    machine.untouched();
}

/// Several labs, each in a runtime directory of its own, come and go at once; the last one that is left still passes. Their pools
/// are each their own, or equal: then each finds room beside the others, which are being made.
const AT_ONCE: &str = r#"
home=$NETLOOM_RUNTIME_DIR
lab() { NETLOOM_RUNTIME_DIR=$home/$1 "$NETLOOM_BIN" "${@:2}"; }
state() {
    cat /proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv6/conf/all/forwarding
    cat /proc/sys/net/ipv4/conf/uplink/forwarding /proc/sys/net/ipv6/conf/uplink/accept_ra
    ls /sys/class/net
    ls /run/netloom-host 2>/dev/null | grep "^$(stat -Lc %i /proc/self/ns/net)[.]" || true
    if command -v nft >/dev/null; then nft list ruleset; fi
}
state >before
all='1 2 3 4'
finish() { for n in $all; do lab $n down --all; done; kill $far; }
trap finish EXIT
for round in $(seq $ROUNDS); do
    for n in $all; do
        pool=$n; test $POOLS = own || pool=0
        printf 'name: l%s\npool: {ipv4: 172.2%s.0.0/16, ipv6: fd9%s::/32}\nnodes: {n: {}}\nlinks: [[n, internet]]\n' $n $pool $pool >$n.yaml
        lab $n up $n.yaml &
    done
    wait $(jobs -p | grep -v "^$far$")
    for n in $all; do answers lab $n exec n -- ping -c 1 -W 5 203.0.113.9; done
    # Three go at once: the fourth passes on.
    for n in 1 2 3; do lab $n down & done
    wait $(jobs -p | grep -v "^$far$")
    answers lab 4 exec n -- ping -c 1 -W 5 203.0.113.9
    lab 4 down
    state >after
    diff before after
done
"#;

fn go_at_once(machine: &Machine, pools: &str, times: u32) {
    let bound = BOUND.max(Duration::from_secs(30) * times);
    let script = on_a_host(machine, AT_ONCE).env("ROUNDS", times.to_string()).env("POOLS", pools);
    script.bound(bound).finish().code(0);
}

#[test]
fn labs_of_several_runtime_directories_go_at_once() {
    root_only!("opens doors to the host");
    let machine = machine!();
    let times = rounds(3);
    go_at_once(&machine, "own", times);
    done("times four labs with doors came and went at once", times);
    machine.down();
}

#[test]
fn labs_of_several_runtime_directories_have_equal_pools() {
    root_only!("opens doors to the host");
    let machine = machine!();
    let times = rounds(3);
    go_at_once(&machine, "equal", times);
    done("times four labs with equal pools came and went at once", times);
    machine.down();
}

/// What somebody does to the host's side of a door is shown, and mended.
const BY_HAND: &str = r#"
"$NETLOOM_BIN" up "$1"
trap '"$NETLOOM_BIN" down --all; kill $far' EXIT
passes() { "$NETLOOM_BIN" exec inside -- ping -c 1 -W "$1" 203.0.113.9 >/dev/null; }
passes 30
door=$(ip -o link show type veth | sed -n 's/^[0-9]*: \(nli[^@]*\)@.*/\1/p')
port=$(ip -o link show type veth | sed -n 's/^[0-9]*: \(nlh[^@]*\)@.*/\1/p')
table=$(nft list tables | sed -n 's/table inet //p')
is_told() {
    "$NETLOOM_BIN" apply --check "$1" >told && exit 1
    grep -q "^~ link .*$2.*(changed by hand)" told || { cat told; exit 1; }
    "$NETLOOM_BIN" status | grep -q "changed by hand"
    "$NETLOOM_BIN" apply "$1" >/dev/null
    "$NETLOOM_BIN" apply --check "$1"
    passes 30
}
nft flush ruleset
is_told "$1" "rules of the host's table $table, were gone"
nft flush chain inet $table forward
is_told "$1" "rules of the host's table $table, were gone"
echo 0 >/proc/sys/net/ipv4/conf/uplink/forwarding
! passes 1
is_told "$1" "net/ipv4/conf/uplink/forwarding of the host 1, was 0"
ip link set $door down
is_told "$1" "$door of the host up, was down"
ip -4 route flush dev $door proto static
ip -4 route flush dev $door proto boot
! passes 1
is_told "$1" "route .* via .* dev $door, was none"
ip -4 address flush dev $door
is_told "$1" "$door address .*, was none"
ip link set eth1 nomaster
is_told "$1" "eth1 of the host in the lab's bridge and up, was not"
ip link set $port nomaster
is_told "$1" "$port of the host in the lab's bridge and up, was not"
"$NETLOOM_BIN" down doors
test -z "$(nft list tables)"
trap 'kill $far' EXIT
"#;

#[test]
fn what_is_done_to_the_host_by_hand_is_told_and_mended() {
    root_only!("opens doors to the host");
    needs!("nft");
    let machine = machine!();
    let file = workspace_root().join("examples/doors.yaml");
    on_a_host(&machine, &format!("{CARD}{BY_HAND}")).args([&file]).finish().code(0);
    machine.down();
}

/// A flood from outside through a door, to a program that reads nothing of it. The door is bounded, whatever the flood's rate;
/// not with `protect: off`. Both programs end when the script does: their input is its pipe.
const FLOODED: &str = r#"
ip link add eth1 type veth peer name outside
ip addr add 198.51.100.1/24 dev outside
ip link set outside up
"$NETLOOM_BIN" up "$1"
trap '"$NETLOOM_BIN" down --all; kill $far' EXIT
exec 8> >(exec "$NETLOOM_BIN" exec victim -- python3 -c "$2" >open)
deaf=$!
until grep -q open open; do kill -0 $deaf; sleep 0.05; done
exec 9> >(exec python3 -c "$3" 8>&-)
flood=$!
bounded() { "$NETLOOM_BIN" node show victim --json 8>&- 9>&- | grep -Eq '"auto_packets": ?[0-9]'; }
until bounded; do kill -0 $flood; sleep 0.05; done
"$NETLOOM_BIN" node set victim protect=off 8>&- 9>&-
! bounded
exec 8>&- 9>&-
"#;

const DEAF: &str = r#"
import socket, sys
at = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
at.bind(('0.0.0.0', 6001))
print('open', flush=True)
sys.stdin.read()
"#;

const FLOOD: &str = r#"
import socket, sys, threading
over = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
to = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
while not over.is_set():
    for _ in range(50):
        try: to.sendto(b'f' * 200, ('198.51.100.2', 6001))
        except OSError: continue
"#;

#[test]
fn a_flood_through_a_door_is_bounded() {
    root_only!("opens doors to the host");
    let machine = machine!();
    let file = machine.file(
        "name: guarded\npool: {ipv6: none}\nnodes: {victim: {}}\n\
         links: [{ends: [victim, 'host:eth1'], addresses: {victim: 198.51.100.2/24}}]\n",
    );
    on_a_host(&machine, FLOODED).args([&file]).args([DEAF, FLOOD]).finish().code(0);
    machine.down();
}

/// A card whose kernel segments nothing itself, as many network cards do by default.
const PLAIN_CARD: &str = "
name: doors
pool: {ipv6: none}
nodes: {beside: {}}
switches: {t: {kind: shm}}
links:
  - {ends: [beside, t], addresses: {beside: 198.51.100.2/24}}
  - [t, 'host:eth1']
";

const PLAIN_CARD_SCRIPT: &str = r#"
ip link set eth1 gso_max_segs 1
ip link set outside netns $far
nsenter -t $far -n sh -c 'ip addr add 198.51.100.1/24 dev outside && ip link set outside up'
"$NETLOOM_BIN" up "$1"
trap '"$NETLOOM_BIN" down --all; kill $far' EXIT
mkfifo open
timeout 120 nsenter -t $far -n busybox nc -l -p 5000 <>open >got &
got=$!
until nsenter -t $far -n ss -Hltn sport = 5000 | grep -q .; do kill -0 $got; sleep 0.05; done
answers "$NETLOOM_BIN" exec beside -- ping -c 1 -W 5 198.51.100.1
"$NETLOOM_BIN" exec beside -- timeout 60 sh -c 'head -c 4000000 /dev/zero | busybox nc 198.51.100.1 5000'
wait $got
test "$(stat -c %s got)" = 4000000
"$NETLOOM_BIN" down doors
trap 'kill $far' EXIT
"#;

#[test]
fn streams_pass_a_card_without_segmentation() {
    root_only!("opens doors to the host");
    needs!("busybox");
    let machine = machine!();
    let file = machine.file(PLAIN_CARD);
    on_a_host(&machine, &format!("{CARD}{PLAIN_CARD_SCRIPT}")).args([&file]).finish().code(0);
    machine.down();
}

/// A lab gets doors, others, and loses them; `$1` to `$3` are its files without any, with one, and with two.
const APPLIED: &str = r#"
state() {
    cat /proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv4/conf/uplink/forwarding
    ip -o link show | sed 's/^[0-9]*: //; s/ mtu .*master/ master/; s/ mtu .*//; s/<.*>//' | sort
    if command -v nft >/dev/null; then nft list ruleset; fi
}
nl() { "$NETLOOM_BIN" "$@"; }
no() { if "$@"; then return 1; fi; }
apply() { nl apply --yes "$1" >said; nl apply --check "$1"; }
out() { answers nl exec "$1" -- ping -c 1 -W 5 203.0.113.9; }
inits() { nl status --json | grep '^    .*"pid"'; }
nl up "$1"
trap 'nl down --all; kill $far' EXIT
state >before
inits >first
apply "$2"
grep -q '^+ link r:eth1--internet' said
out a; out r
no nl exec a -- grep -q 'names of this lab' /etc/resolv.conf
apply "$3"
grep -q '^! link r:eth1--internet recreated: doors changed' said
out a; out b
ip -o link show eth1 | grep -q master
# The process ends on the way, wherever: the same command finishes.
for kills in 1 2 3 4 5 6; do
    apply "$1"
    state | diff before -
    process=$(nl status --json | sed -n 's/^  "pid": \([0-9]*\).*/\1/p')
    nl apply --yes "$3" >said 2>&1 & applying=$!
    sleep 0.0$kills; kill -9 $process
    wait $applying || true
    apply "$3"
    out a; out b
done
apply "$1"
inits | diff first -
state | diff before -
nl exec a -- grep -q 'names of this lab' /etc/resolv.conf
no nl exec a -- ping -c 1 -W 1 203.0.113.9
answers nl exec a -- ping -c 1 -W 5 b
nl down
trap 'kill $far' EXIT
"#;

#[test]
fn doors_come_change_and_go_in_a_living_lab() {
    root_only!("opens doors to the host");
    let machine = machine!();
    let none = "name: doors\npool: {ipv6: none}\nnodes: {a: {}, r: {forwarding: true}, b: {}}\nswitches: {s: {}}\n\
                links:\n  - [a, s]\n  - [r:eth0, s]\n  - [b, s]\n";
    let one = format!("{none}  - [r:eth1, internet]\n");
    let two = format!("{one}  - [b:card, 'host:eth1']\n");
    let files = [("none", none), ("one", &one), ("two", &two)].map(|(name, text)| {
        let path = machine.scratch().path().join(name).with_extension("yaml");
        std::fs::write(&path, text).expect("write a lab");
        path
    });
    on_a_host(&machine, &format!("{CARD}{APPLIED}")).args(&files).finish().code(0);
    machine.down();
}

/// Two doors that stay while nodes come and go behind one; `$1` and `$2` are the lab's files without and with them.
const BEHIND: &str = r#"
nl() { "$NETLOOM_BIN" "$@"; }
apply() { nl apply --yes "$1" >said; nl apply --check "$1"; }
out() { answers nl exec "$1" -- ping -c 1 -W 5 203.0.113.9; }
outside() { nft list ruleset; ip route; ip -6 route; } 2>&1
nl up "$1"
trap 'nl down --all; kill $far' EXIT
out a; out b; out r
outside >before
nl exec a -- ping -i 0.01 -c 200 -W 30 203.0.113.9 >stream & stream=$!
until grep -q icmp_seq stream; do kill -0 $stream; sleep 0.05; done
apply "$2"
grep -q '^+ node c' said
if grep -q 'internet recreated' said; then exit 1; fi
out c; out d
wait $stream
grep -q '200 packets transmitted, 200 received' stream
outside | diff before - >/dev/null && exit 1
apply "$1"
outside | diff before -
# By hand, too: a node of the file that has no link.
nl exec alone -- grep -q 'names of this lab' /etc/resolv.conf
nl link create r alone
out alone
if nl exec alone -- grep -q 'names of this lab' /etc/resolv.conf; then exit 1; fi
nl link delete alone:eth0
outside | diff before -
# What the host has itself is refused before anything is made.
if nl link create r alone --address alone=203.0.113.77/24 2>said; then exit 1; fi
grep -q '203.0.113.1/24' said
outside | diff before -
out a
nl down
trap 'kill $far' EXIT
"#;

#[test]
fn nodes_come_behind_doors_that_stay() {
    root_only!("opens doors to the host");
    needs!("nft");
    let machine = machine!();
    let few = "name: behind\nnodes: {a: {}, r: {forwarding: true}, b: {}, alone: {}}\n\
               links:\n  - [a, r]\n  - [r, internet]\n  - [b, internet]\n";
    let more = few.replace("alone: {}", "alone: {}, c: {}, d: {}, q: {forwarding: true}")
        + "  - [c, r]\n  - [q, r]\n  - [d, q]\n";
    let files = [("few", few), ("more", &more)].map(|(name, text)| {
        let path = machine.scratch().path().join(name).with_extension("yaml");
        std::fs::write(&path, text).expect("write a lab");
        path
    });
    on_a_host(&machine, BEHIND).args(&files).finish().code(0);
    machine.down();
}

/// Prints what was before, and after `down` of labs whose list of what they changed, or whose count of settings, is garbage.
const WITHOUT_LIST: &str = r#"
state() {
    cat /proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv6/conf/all/forwarding
    cat /proc/sys/net/ipv4/conf/uplink/forwarding
    ip -o link show | sed 's/^[0-9]*: //; s/ mtu .*//; s/<.*>//' | sort
    if command -v nft >/dev/null; then nft list ruleset; fi
}
state >before
count=/run/netloom-host/$(readlink /proc/self/ns/net | tr -dc 0-9).json
trap '"$NETLOOM_BIN" down --all; rm -f "$count"; kill $far' EXIT
"$NETLOOM_BIN" up "$1"
"$NETLOOM_BIN" up "$2"
# Once while the lab process lives, once without it; the other lab keeps its door.
echo garbage >"$NETLOOM_RUNTIME_DIR/doors/host.json"
"$NETLOOM_BIN" down doors
answers "$NETLOOM_BIN" -l second exec n -- ping -c 1 -W 5 203.0.113.9
"$NETLOOM_BIN" up "$1"
kill -9 "$(cat "$NETLOOM_RUNTIME_DIR/doors/lab.pid")"
echo garbage >"$NETLOOM_RUNTIME_DIR/doors/host.json"
"$NETLOOM_BIN" down doors
answers "$NETLOOM_BIN" -l second exec n -- ping -c 1 -W 5 203.0.113.9
# The count is made again of the lists.
"$NETLOOM_BIN" up "$1"
test -s "$count"
echo garbage >"$count"
"$NETLOOM_BIN" down doors
answers "$NETLOOM_BIN" -l second exec n -- ping -c 1 -W 5 203.0.113.9
"$NETLOOM_BIN" down second
trap 'kill $far' EXIT
test ! -e "$count"
state >after
diff before after
"#;

#[test]
fn doors_close_without_the_list_of_what_they_changed() {
    root_only!("opens doors to the host");
    let machine = machine!();
    let file = workspace_root().join("examples/doors.yaml");
    let second = machine.file(SECOND);
    let script = format!("{CARD}{WITHOUT_LIST}");
    on_a_host(&machine, &script).args([&file, &second]).finish().code(0);
    machine.down();
}
