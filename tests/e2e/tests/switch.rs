//! Shared-memory switches: nodes, kernel bridges and cards of the host on them; rules; kills; wrong input.

use std::os::unix::fs::MetadataExt;

use netloom_tests_e2e::live::{SOON, gone, kill_and_wait};
use netloom_tests_e2e::transfer::Transfer;
use netloom_tests_e2e::{Machine, Run, assert_same, is_root, kill, machine, root_only, wait_until};
use serde_json::Value;

const LAB: &str = "
name: shm
nodes: {a: {}, b: {}, c: {}}
switches: {s: {kind: shm}}
links:
  - [a, s]
  - [b, s]
  - [c, s]
";

fn show(machine: &Machine) -> Value {
    machine.ok("switch show s --json").json()
}

/// The process of the switch, and those of its ports in their order.
fn pids(machine: &Machine) -> (i32, Vec<i32>) {
    let shown = show(machine);
    let pid = |of: &Value| i32::try_from(of["pid"].as_i64().expect("a pid")).expect("a pid");
    let ports = shown["ports"].as_array().expect("ports").iter();
    (pid(&shown), ports.filter(|p| p["presence"] == "here").map(pid).collect())
}

fn names(machine: &Machine) -> Vec<String> {
    let shown = show(machine);
    let here = shown["ports"].as_array().expect("ports").iter().filter(|p| p["presence"] == "here");
    let mut names: Vec<String> =
        here.map(|p| p["name"].as_str().expect("a name").to_owned()).collect();
    // Ports come in no order.
    names.sort();
    names
}

/// Waits until all ports of the lab are there, each with a process that is none of `before`.
fn wait_for_ports(machine: &Machine, count: usize, before: &[i32]) {
    wait_until("all ports are on the switch", SOON, || {
        let shown = machine.netloom(["switch", "show", "s", "--json"]).finish();
        if shown.status.code() != Some(0) {
            return None;
        }
        let ports = shown.json()["ports"].as_array().cloned().unwrap_or_default();
        let here: Vec<i64> = ports
            .iter()
            .filter(|p| p["presence"] == "here")
            .filter_map(|p| p["pid"].as_i64())
            .collect();
        let fresh = !here.iter().any(|pid| before.iter().any(|b| i64::from(*b) == *pid));
        (here.len() == count && fresh).then_some(())
    });
}

/// Whether a node reaches another at once, which it should not.
fn reaches_now(machine: &Machine, from: &str, to: &str) -> bool {
    let ping = machine.exec(from, &["ping", "-4", "-c", "1", "-W", "1", to]);
    ping.finish().status.code() == Some(0)
}

#[test]
fn nodes_on_a_switch_reach_each_other() {
    let machine = machine!();
    machine.up(LAB);
    assert_eq!(names(&machine), ["a:eth0", "b:eth0", "c:eth0"]);
    machine.all_reach_all();
    let mut transfer = Transfer::start(&machine, "a", "b");
    transfer.more(20_000);
    transfer.settle();
    transfer.finish();
    // Each pair talks by rings of its own; the switch only shows which port is where.
    let shown = show(&machine);
    assert_eq!(shown["edges"], 6, "{shown}");
    let macs = machine.ok("switch mac s --port a:eth0 --json").json();
    let behind: Vec<u64> = macs[0]["entries"]
        .as_array()
        .expect("entries")
        .iter()
        .filter_map(|e| e["port"].as_u64())
        .collect();
    assert!(behind.contains(&2) && behind.contains(&3), "{macs}");
    machine.down();
}

#[test]
fn a_bridge_of_the_kernel_and_a_switch_are_joined_by_a_link() {
    let machine = machine!();
    machine.up("
name: joined
nodes: {a: {}, b: {}, c: {}, d: {}}
switches: {s: {kind: shm}, k: {}, t: {kind: shm}}
links:
  - [a, s]
  - [b, k]
  - [c, t]
  - {ends: [d, s], delay: 1ms}
  - [s, k]
  - [s, t]
");
    machine.all_reach_all();
    // What stands in a link is passed both ways, and by no frame beside it.
    let ping = machine.exec("d", &["ping", "-4", "-c", "3", "-i", "0.2", "-W", "30", "a"]).ok();
    assert!(ping.contains("3 received") && !ping.contains("DUP"), "{ping}");
    let least = ping.rsplit_once("= ").and_then(|(_, times)| times.split('/').next());
    let least: f64 = least.and_then(|time| time.parse().ok()).expect("the shortest round trip");
    assert!(least >= 2.0, "{ping}");
    let wire = machine.link("d:eth0--s")["wire"].clone();
    for direction in wire["directions"].as_array().expect("both directions") {
        assert!(direction["offered_packets"].as_u64() > Some(0), "{wire}");
    }
    machine.ok("link set d:eth0--s --delay 10ms");
    // One that is there is led through the core for its first wire, and keeps what it has.
    let before = machine.exec("a", &["ip", "-4", "-o", "addr", "show", "eth0"]).ok();
    machine.ok("link set a:eth0--s --delay 1ms");
    assert_eq!(machine.exec("a", &["ip", "-4", "-o", "addr", "show", "eth0"]).ok(), before);
    machine.all_reach_all();
    let mut transfer = Transfer::start(&machine, "b", "c");
    transfer.more(5_000);
    transfer.settle();
    transfer.finish();
    machine.down();
}

#[test]
fn ports_go_on_without_their_switch_and_are_adopted() {
    let machine = machine!();
    machine.up(LAB);
    let mut transfer = Transfer::start(&machine, "a", "b");
    transfer.more(1_000);
    transfer.settle();
    for _ in 0..5 {
        let (switch, ports) = pids(&machine);
        kill_and_wait(switch);
        transfer.more(2_000);
        transfer.settle();
        wait_for_ports(&machine, 3, &[switch]);
        assert_eq!(pids(&machine).1, ports, "the ports' processes are the same");
    }
    // Who had no edge before has one by the new process.
    machine.answers("c", "a");
    transfer.more(1_000);
    transfer.settle();
    transfer.finish();
    machine.down();
}

#[test]
fn a_port_that_is_killed_comes_back_with_all_of_its_interface() {
    let machine = machine!();
    machine.up(LAB);
    let mut others = Transfer::start(&machine, "b", "c");
    let addresses = machine.exec("a", &["ip", "-o", "addr"]).ok();
    for _ in 0..3 {
        let (_, ports) = pids(&machine);
        kill_and_wait(ports[0]);
        others.more(500);
        others.settle();
        machine.answers("a", "b");
        assert_eq!(machine.exec("a", &["ip", "-o", "addr"]).ok(), addresses);
    }
    others.finish();
    machine.down();
}

#[test]
fn a_new_lab_process_finds_switches_and_ports() {
    let machine = machine!();
    machine.up(LAB);
    let before = pids(&machine);
    let mut transfer = Transfer::start(&machine, "a", "b");
    transfer.more(500);
    let lab = machine.lab_process();
    kill_and_wait(lab);
    transfer.more(500);
    transfer.settle();
    machine.up(LAB);
    assert_eq!(pids(&machine), before);
    // A process that dies unattended is recreated by the next command.
    kill_and_wait(machine.lab_process());
    kill_and_wait(before.0);
    kill_and_wait(before.1[2]);
    machine.up(LAB);
    wait_for_ports(&machine, 3, &[before.0, before.1[2]]);
    machine.answers("c", "a");
    transfer.more(500);
    transfer.settle();
    transfer.finish();
    // Taken down without its process, nothing of it stays.
    kill_and_wait(machine.lab_process());
    machine.ok("down shm");
    machine.untouched();
}

#[test]
fn rules_of_the_file_hold_and_change_live() {
    let machine = machine!();
    machine.up("
name: rules
nodes: {a: {}, b: {}, c: {}, d: {}}
switches:
  s:
    kind: shm
    ports:
      a: {vlan: 10, lock: own}
      b: {vlan: 10}
      c: {vlan: 20}
      d: {vlan: 20}
links:
  - [a, s]
  - [b, s]
  - [c, s]
  - [d, s]
");
    machine.answers("a", "b");
    machine.answers("c", "d");
    assert!(!reaches_now(&machine, "a", "c"));
    // A frame from another's address is dropped by its receiver, and counted there.
    let spoof = "import socket\ns = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)\n\
                 s.bind(('eth0', 0))\ns.send(b'\\xff' * 6 + b'\\x02\\0\\0\\0\\0\\x77' + b'\\x88\\xb5' + b'x' * 46)";
    machine.python("a", spoof, &[]).ok();
    wait_until("the frame is dropped as spoofed", SOON, || {
        let shown = show(&machine);
        let ports = shown["ports"].as_array().expect("ports").iter();
        let dropped = |p: &Value| p["counters"]["dropped_spoofed"].as_u64().unwrap_or(0);
        (ports.map(dropped).sum::<u64>() > 0).then_some(())
    });
    machine.ok("switch vlan s c:eth0 access 10");
    machine.answers("a", "c");
    assert!(!reaches_now(&machine, "c", "d"));
    machine.ok("switch vlan s d:eth0 trunk 10,20 --native 10");
    machine.answers("d", "c");
    // Changes outlive the switch's process.
    kill_and_wait(pids(&machine).0);
    wait_for_ports(&machine, 4, &[]);
    machine.answers("a", "c");
    machine.answers("d", "b");
    machine.down();
}

/// Frames of a customer, with tags and without, within one VLAN of two switches: packets of the whole MTU, and streams in
/// super-frames. Few kernels of tests have VLAN interfaces, so frames with tags are sent and seen raw.
#[test]
fn tags_of_customers_travel_within_a_tag() {
    let machine = machine!();
    let lab = |tpid: &str| {
        format!(
            "
name: qinq
nodes: {{a: {{}}, b: {{}}, c: {{}}, d: {{}}}}
switches:
  s:
    kind: shm
    ports: {{a: {{qinq: 20, tpid: {tpid}}}, c: {{vlan: 10}}, t: {{trunk: all, native: 1}}}}
  t:
    kind: shm
    ports: {{b: {{qinq: 20, tpid: {tpid}}}, d: {{trunk: all}}, s: {{trunk: all, native: 1}}}}
links:
  - [a, s]
  - [c, s]
  - {{ends: [s, t], mtu: 1508}}
  - [b, t]
  - {{ends: [d, t], mtu: 1508}}
"
        )
    };
    // What follows the addresses of a frame, where a tag may be taken off by the kernel.
    let look = "import socket\ns = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))\n\
                s.bind(('eth0', 3))\ns.setsockopt(263, 8, 1)\nprint('looks', flush=True)\nwhile True:\n  \
                f, more, *_ = s.recvmsg(2048, 256)\n  \
                tags = b''.join(m[2][18:20][::-1] + m[2][16:18][::-1] for m in more if m[2][0] & 16)\n  \
                if f[6:12] == b'\\x02\\0\\0\\0\\0\\x77': print((tags + f[12:])[:8].hex(), flush=True)\n";
    let watch = |node: &str| {
        let mut watcher = netloom_tests_e2e::live::Held::start(machine.python(node, look, &[]));
        assert_eq!(watcher.line(), "looks");
        watcher
    };
    let ping = || {
        let words = ["ping", "-4", "-c", "1", "-W", "1", "-s", "1472", "-M", "do", "-q", "b"];
        machine.exec("a", &words).finish().status.success()
    };
    for tpid in ["0x88a8", "0x9100"] {
        machine.up(&lab(tpid));
        wait_until("a packet of a whole MTU passes", SOON, || ping().then_some(()));
        assert!(!reaches_now(&machine, "c", "b"), "VLAN 10 of the switches is not the customer's");
        let listen = "import socket\ns = socket.create_server(('', 7000))\nprint('waits', flush=True)\n\
                      c, n = s.accept()[0], 0\nwhile True:\n  data = c.recv(65536)\n  n += len(data)\n  \
                      if not data: print(n, flush=True); break\n";
        let mut server = netloom_tests_e2e::live::Held::start(machine.python("b", listen, &[]));
        assert_eq!(server.line(), "waits");
        let send = "import socket\ns = socket.create_connection(('b', 7000))\ns.sendall(b'x' * 4000000)\ns.close()";
        machine.python("a", send, &[]).ok();
        assert_eq!(server.line(), "4000000");
        // From now on b has the customer's VLANs 7 to 9 alone.
        machine.ok(&format!("switch vlan t b:eth0 qinq 20 --cvlans 7-9 --tpid {tpid}"));
        wait_until("b's packets without a tag end", SOON, || (!ping()).then_some(()));
        let (mut trunk, mut port) = (watch("d"), watch("b"));
        // To all ports of the VLAN, in this order.
        let flood = "import socket\ns = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)\ns.bind(('eth0', 0))\n\
                     for vlan in 10, 8:\n  s.send(b'\\xff' * 6 + b'\\x02\\0\\0\\0\\0\\x77' + \
                     b'\\x81\\0\\0' + bytes([vlan]) + b'\\x88\\xb5' + b'x' * 46)";
        machine.python("a", flood, &[]).ok();
        for vlan in ["0a", "08"] {
            assert_eq!(trunk.line(), format!("{}0014810000{vlan}", &tpid[2..]));
        }
        assert_eq!(port.line(), "8100000888b57878");
        machine.ok("down qinq");
    }
    machine.untouched();
}

#[test]
fn a_mirror_port_sees_what_it_is_to() {
    let machine = machine!();
    machine.up(LAB);
    machine.answers("a", "b");
    let watch = "import socket\ns = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))\n\
                 s.bind(('eth0', 3))\nprint('watches', flush=True)\nwhile True:\n  f = s.recv(2048)\n  \
                 if f[12:14] == b'\\x08\\x00' and f[23] == 1: print('icmp', f[34], flush=True); break\n";
    let mut watcher = netloom_tests_e2e::live::Held::start(machine.python("c", watch, &[]));
    assert_eq!(watcher.line(), "watches");
    let number = machine
        .ok("switch mirror s add --to c:eth0 --from a:eth0 --direction in --filter icmp")
        .text();
    machine.answers("a", "b");
    assert_eq!(watcher.line(), "icmp 8");
    machine.ok(&format!("switch mirror s delete {}", number.trim()));
    assert_eq!(machine.ok("switch mirror s --json").json(), serde_json::json!({}));
    machine.down();
}

#[test]
fn a_switch_on_its_own_is_made_and_removed() {
    let machine = machine!();
    machine.ok("switch create s mode=0660");
    let socket = machine.scratch().runtime_dir().join(".switches/default.s");
    assert_eq!(std::fs::metadata(&socket).expect("its socket").mode() & 0o777, 0o660);
    machine.refused("switch create s", 1, &["\"s\"", "already"]);
    machine.ok("switch delete s");
    assert!(!socket.exists());
    machine.refused("switch delete s", 1, &["\"s\""]);
    machine.down();
}

#[test]
fn what_the_api_refuses_to_ask_a_switch_leaves_it_as_it_is() {
    let machine = machine!();
    machine.up(LAB);
    wait_for_ports(&machine, 3, &[]);
    let before = pids(&machine);
    let socket = machine.scratch().runtime_dir().join("shm/api.sock");
    let ask = |request: &str| {
        let words = ["-sS", "-w", "\n%{http_code}", "-d", request, "--unix-socket"];
        let url = "http://lab/v1/switches/s/requests";
        Run::new("curl")
            .args(words)
            .args([socket.as_os_str(), url.as_ref()])
            .finish()
            .code(0)
            .text()
    };
    for (request, status, says) in [
        (r#""stop""#, "400", "ends with its lab"),
        (r#"{"delete_mirror": {"mirror": 9}}"#, "409", "mirror 9"),
        (r#""format""#, "400", "format"),
    ] {
        let told = ask(request);
        assert!(told.ends_with(&format!("\n{status}")), "{request}: {told}");
        assert!(told.contains(says), "{request}: {told}");
    }
    assert_eq!(pids(&machine), before);
    machine.down();
}

#[test]
fn what_cannot_be_is_told_by_name() {
    let machine = machine!();
    let lab = |switch: &str| {
        format!("name: w\nnodes: {{a: {{}}}}\nswitches: {{s: {switch}}}\nlinks:\n  - [a, s]\n")
    };
    for (switch, says) in [
        ("{kind: shm, mode: 0999}", "mode"),
        ("{kind: shm, ports: {a: {vlan: 4095}}}", "vlan"),
        ("{kind: shm, ports: {a: {lock: [zz]}}}", "lock"),
        ("{kind: shm, mirrors: [{from: [nobody], to: a}]}", "nobody"),
        ("{mode: 0600}", "mode"),
    ] {
        let file = machine.file(&lab(switch));
        let told = machine.netloom(["check".as_ref(), file.as_os_str()]).finish().code(2).text();
        assert!(told.contains(says), "{switch}: {told}");
    }
    machine.up(&lab("{kind: shm}"));
    machine.refused("switch vlan s nobody:eth0 access 7", 1, &["nobody:eth0"]);
    machine.refused("switch vlan s a:eth0 access 5000", 2, &["5000"]);
    machine.refused("switch mirror s delete 9", 1, &["9"]);
    machine.refused("switch show t", 1, &["\"t\""]);
    machine.refused("switch delete s --force", 1, &["\"s\"", "a:eth0--s"]);
    machine.down();
}

/// A card of a host that is played by a fresh namespace; 10.99.0.9 is beyond it.
const DOOR: &str = r#"
set -eu
ip link set lo up
ip link add eth1 type veth peer name far netns "$2"
nsenter --net="$2" sh -c 'ip addr add 10.99.0.9/24 dev far && ip link set far up'
state() { ip -d -o link show eth1 | sed 's/ qdisc .*promiscuity/ promiscuity/; s/ allmulti.*//'; }
state >before
"$NETLOOM_BIN" up "$1"
trap '"$NETLOOM_BIN" down --all' EXIT
for node in a b; do
    # Asks until there is an answer: what is sent before all ports on the way are open is lost.
    until "$NETLOOM_BIN" exec $node -- ping -c 1 -W 5 10.99.0.9; do sleep 0.1; done
done
"$NETLOOM_BIN" down
trap - EXIT
grep -q 'promiscuity 0' before
state >after
diff before after
"#;

#[test]
fn a_card_of_the_host_is_on_the_switch() {
    root_only!("opens a door to the host");
    let machine = machine!();
    let file = machine.file(
        "
name: carded
nodes: {a: {}, b: {}}
switches: {s: {kind: shm, subnet: [10.99.0.0/24]}}
links:
  - [a, s]
  - [b, s]
  - ['host:eth1', s]
",
    );
    // The outer world is a namespace of its own, held by a process.
    let mut far = Run::new("unshare").args(["--net", "cat"]).spawn();
    let space = format!("/proc/{}/ns/net", far.id());
    let own = std::fs::read_link("/proc/self/ns/net").expect("own namespace");
    wait_until("the outer world is there", SOON, || {
        std::fs::read_link(&space).ok().filter(|there| *there != own)
    });
    let run = Run::new("unshare").args(["--net", "sh", "-c", DOOR, "sh"]);
    let run = run.args([file.as_os_str(), space.as_ref()]);
    let run = run.env("NETLOOM_BIN", netloom_kit::Binary::find().path());
    let run = run.env("NETLOOM_RUNTIME_DIR", machine.scratch().runtime_dir());
    run.dir(machine.scratch().path()).bound(SOON).finish().code(0);
    let _ = far.kill();
    let _ = far.wait();
    machine.down();
}

#[test]
fn whoever_is_killed_nothing_stays() {
    let machine = machine!();
    for victims in 0..3 {
        machine.up(LAB);
        let (switch, ports) = pids(&machine);
        let lab = machine.lab_process();
        let all = [vec![lab, switch], vec![lab, ports[1]], vec![switch, ports[0], ports[2], lab]];
        for pid in &all[victims] {
            kill(*pid);
        }
        wait_until("they are gone", SOON, || all[victims].iter().all(|p| gone(*p)).then_some(()));
        machine.ok("down shm");
        assert_same(machine.before());
    }
    machine.untouched();
}

#[test]
fn nodes_have_pairs_whose_other_ends_are_ports() {
    let machine = machine!();
    machine.up(LAB);
    let shown = machine.exec("a", &["ip", "-d", "link", "show", "eth0"]).ok();
    assert!(shown.contains("veth"), "{shown}");
    // Root's are ports at which the kernel forwards.
    let ports = show(&machine)["ports"].clone();
    assert_eq!(ports[0]["counters"]["sent_in_kernel"].is_u64(), is_root(), "{ports}");
    machine.down();
}
