//! `apply`: a running lab becomes the one of its changed file, and what did not change is not touched.

use netloom_kit::{cgroups_allowed, is_root};
use netloom_tests_e2e::live::{Held, SOON, kill_and_wait};
use netloom_tests_e2e::{Finished, Machine, Run, machine, needs, wait_until};
use serde_json::Value;

/// A router between a switch of each kind and a far node, which runs two programs.
const LAB: &str = "name: applied
nodes:
  h1: {}
  h2: {}
  r: {forwarding: true}
  far: {run: [[sleep, '1001'], [sleep, '1002']]}
switches: {s: {}, m: {kind: shm}}
links:
  - [h1, s]
  - [r, s]
  - [r, far]
  - [h2, m]
  - [r, m]
";

impl Applied for Machine {
    fn apply(&self, text: &str, flags: &[&str]) -> Run {
        let file = self.file(text);
        let words = ["apply", file.to_str().expect("a path in UTF-8")];
        self.netloom(words.iter().chain(flags)).bound(std::time::Duration::from_secs(120))
    }

    /// Applies and asserts success, and that nothing is left to do.
    fn applied(&self, text: &str) -> Finished {
        let done = self.apply(text, &["--yes"]).finish().code(0);
        self.apply(text, &["--check"]).finish().code(0).text_has("is as the file says");
        done
    }

    /// The same, and that no node was recreated; returns what was printed.
    fn applied_in_place(&self, text: &str) -> String {
        let before = self.inits();
        let done = self.applied(text).text();
        assert_eq!(self.inits(), before, "{done}");
        done
    }
}

/// What tests of changed files do with a lab.
pub(crate) trait Applied {
    fn apply(&self, text: &str, flags: &[&str]) -> Run;
    fn applied(&self, text: &str) -> Finished;
    fn applied_in_place(&self, text: &str) -> String;
}

/// What a run printed.
trait Text {
    fn text_has(self, part: &str) -> Self;
}

impl Text for Finished {
    fn text_has(self, part: &str) -> Finished {
        assert!(self.text().contains(part), "{part:?} is not in {}", self.text());
        self
    }
}

/// What a shell in a node says.
pub(crate) fn sh(machine: &Machine, node: &str, script: &str) -> String {
    machine.exec(node, &["sh", "-c", script]).ok().trim().to_owned()
}

fn all_reach_all(machine: &Machine) {
    machine.all_reach_all();
}

/// The pid of one that runs, when it has become what it is to be.
fn running(machine: &Machine, node: &str, program: &str) -> String {
    let found = || Some(pid(machine, node, program)).filter(|pid| !pid.is_empty());
    wait_until("the program runs", SOON, found)
}

/// Pids of a node's programs, by their last word.
fn pid(machine: &Machine, node: &str, program: &str) -> String {
    sh(machine, node, &format!("pgrep -fx 'sleep {program}' || true"))
}

#[test]
fn a_file_is_brought_up_and_then_only_what_differs_is_done() {
    let machine = machine!();
    machine.apply(LAB, &["--check"]).finish().code(4).text_has("not up");
    machine.apply(LAB, &["--dry-run"]).finish().code(0);
    machine.apply(LAB, &[]).finish().code(0).text_has("4 nodes, 5 links up");
    machine.apply(LAB, &[]).finish().code(0).text_has("is as the file says");
    let before = machine.inits();
    let more = LAB.replace("  h2: {}\n", "  h2: {}\n  h9: {}\n") + "  - [h9, s]\n";
    let wanted = "+ node h9\n+ link h9:eth0--s\n";
    assert_eq!(machine.apply(&more, &["--dry-run"]).finish().code(0).text(), wanted);
    assert_eq!(machine.apply(&more, &["--check"]).finish().code(4).text(), wanted);
    let told = machine.apply(&more, &[]).finish().code(0).text();
    assert!(told.starts_with(wanted), "{told}");
    let done = |line: &str| told.lines().any(|l| l.starts_with("done after") && l.ends_with(line));
    assert!(done(": + node h9") && done(": + link h9:eth0--s"), "{told}");
    all_reach_all(&machine);
    for init in before {
        assert!(machine.inits().contains(&init), "{init:?} goes on");
    }
    // Back again; what ends is asked for.
    let refused = machine.apply(LAB, &[]).finish().code(2);
    assert!(refused.errors().contains("--yes"), "{}", refused.errors());
    let told = machine.applied(LAB).text();
    assert!(told.starts_with("- link h9:eth0--s\n- node h9\n"), "{told}");
    all_reach_all(&machine);
    machine.down();
}

#[test]
fn a_living_node_changes_what_it_can() {
    let machine = machine!();
    machine.up(LAB);
    let before = (machine.inits(), running(&machine, "far", "1001"));
    running(&machine, "far", "1002");
    let mut text = LAB
        .replace("  h1: {}\n", "  h1: {sysctls: {net.ipv4.tcp_ecn: 1}, env: {COLOUR: red}}\n")
        .replace(
            "[sleep, '1002']]",
            "[sleep, '1003']], files: {/etc/deep/note: {text: one, mode: 600}}",
        )
        .replace("- [r, far]", "- {ends: [r, far], mtu: 1400}");
    if cgroups_allowed() && is_root() {
        text =
            text.replace("  h2: {}", "  h2: {limits: {memory: 64MiB}, protect: {packets: 5000/s}}");
    }
    let usual = sh(&machine, "h1", "cat /proc/sys/net/ipv4/tcp_ecn");
    machine.applied(&text);
    assert_eq!(sh(&machine, "h1", "cat /proc/sys/net/ipv4/tcp_ecn"), "1");
    assert_eq!(sh(&machine, "h1", "echo $COLOUR"), "red");
    assert_eq!(sh(&machine, "far", "cat /etc/deep/note; stat -c %a /etc/deep/note"), "one600");
    assert_eq!(sh(&machine, "far", "cat /sys/class/net/eth0/mtu"), "1400");
    assert_eq!(sh(&machine, "r", "cat /sys/class/net/eth1/mtu"), "1400");
    // A program that did not change runs on, beside a new one.
    assert_eq!(pid(&machine, "far", "1001"), before.1);
    assert_eq!(pid(&machine, "far", "1002"), "");
    running(&machine, "far", "1003");
    if cgroups_allowed() && is_root() {
        let status = machine.status();
        let h2 = status["nodes"].as_array().and_then(|all| all.iter().find(|n| n["name"] == "h2"));
        let h2 = h2.expect("node h2");
        assert_eq!(
            h2["memory"]["limit"].as_u64().or(h2["limits"]["memory"].as_u64()),
            Some(64 << 20),
            "{h2}"
        );
    }
    // And back: what is no longer given has its usual value again, without any node recreated but the one with a file.
    let back = LAB.replace("[sleep, '1002']]", "[sleep, '1002']], files: {/etc/deep/note: two}");
    machine.applied(&back);
    assert_eq!(sh(&machine, "h1", "cat /proc/sys/net/ipv4/tcp_ecn"), usual);
    assert_eq!(sh(&machine, "h1", "echo $COLOUR"), "");
    assert_eq!(sh(&machine, "far", "cat /etc/deep/note; stat -c %a /etc/deep/note"), "two644");
    assert_eq!(sh(&machine, "far", "cat /sys/class/net/eth0/mtu"), "1500");
    assert_eq!(machine.inits(), before.0);
    all_reach_all(&machine);
    machine.down();
}

#[test]
fn addresses_and_routes_change_and_connections_elsewhere_do_not() {
    needs!("python3");
    let machine = machine!();
    machine.up(LAB);
    let mut flow = Flow::start(&machine, "h1", "h2");
    let moved = LAB.replace(
        "- [r, far]",
        "- {ends: [r, far], addresses: {r: 192.0.2.1/24, far: [192.0.2.9/24, '2001:db8::9/64']}}",
    );
    machine.applied(&moved);
    let far = sh(&machine, "far", "ip -o address show dev eth0 scope global");
    assert!(far.contains("192.0.2.9/24") && far.contains("2001:db8::9/64"), "{far}");
    assert_eq!(far.lines().count(), 2, "{far}");
    assert!(sh(&machine, "far", "ip route").contains("default via 192.0.2.1"));
    all_reach_all(&machine);
    // Another address of the same prefix, whose first one goes.
    machine.applied(&moved.replace("192.0.2.9/24", "192.0.2.10/24"));
    let far = sh(&machine, "far", "ip -o -4 address show dev eth0 scope global");
    assert!(far.contains("192.0.2.10/24") && far.lines().count() == 1, "{far}");
    all_reach_all(&machine);
    // Names follow addresses.
    assert!(sh(&machine, "h1", "getent ahostsv4 far").contains("192.0.2.10"));
    machine.applied(LAB);
    all_reach_all(&machine);
    flow.grows();
    flow.end();
    machine.down();
}

#[test]
fn loopback_addresses_change_where_they_are() {
    needs!("python3");
    let machine = machine!();
    let lab =
        LAB.replace("  r: {forwarding: true}", "  r: {forwarding: true, loopback: [192.0.2.7/32]}");
    machine.up(&lab);
    let inits = machine.inits();
    let mut flow = Flow::start(&machine, "h1", "far");
    let own = |machine: &Machine| {
        sh(
            machine,
            "r",
            "ip -o address show dev lo scope global | wc -l; ip -o address show dev lo",
        )
    };
    machine.netloom(["exec", "far", "--", "ping", "-c1", "-W30", "192.0.2.7"]).finish().code(0);
    let other = lab.replace("[192.0.2.7/32]", "[192.0.2.8/32, '2001:db8:5::7/128']");
    let told = machine.applied(&other).text();
    assert!(told.contains("~ node r: loopback.192.0.2.8/32 true"), "{told}");
    let now = own(&machine);
    assert!(now.contains("192.0.2.8/32") && now.contains("2001:db8:5::7/128"), "{now}");
    assert!(!now.contains("192.0.2.7"), "{now}");
    machine.netloom(["exec", "far", "--", "ping", "-c1", "-W30", "192.0.2.8"]).finish().code(0);
    machine.applied(LAB);
    assert!(own(&machine).starts_with("0\n"), "{}", own(&machine));
    assert!(own(&machine).contains("127.0.0.1/8"), "{}", own(&machine));
    assert_eq!(machine.inits(), inits);
    flow.grows();
    flow.end();
    machine.down();
}

#[test]
fn what_must_be_is_made_anew_and_named_with_what_goes_with_it() {
    let machine = machine!();
    machine.up(LAB);
    let before = machine.inits();
    let anew = LAB.replace("  h2: {}", "  h2: {storage: 20MB}");
    let told = machine.applied(&anew).text();
    assert!(
        told.starts_with("! node h2 recreated: storage 20MB, was none (with link h2:eth0--m)\n"),
        "{told}"
    );
    let now = machine.inits();
    let same = |name: &str| {
        let of = |all: &[(String, i32)]| all.iter().find(|(n, _)| n == name).cloned();
        of(&before) == of(&now)
    };
    assert!(same("h1") && same("r") && same("far") && !same("h2"));
    all_reach_all(&machine);
    // A switch of another kind, with all its links.
    let turned = anew.replace("{s: {}, m: {kind: shm}}", "{s: {kind: shm}, m: {}}");
    let told = machine.applied(&turned).text();
    assert!(
        told.contains("! switch s recreated: kind shm, was kernel (with link h1:eth0--s"),
        "{told}"
    );
    all_reach_all(&machine);
    machine.applied(LAB);
    all_reach_all(&machine);
    machine.down();
}

#[test]
fn impairments_change_where_they_are_and_a_cut_off_name_is_a_new_link() {
    let machine = machine!();
    let impaired = LAB.replace("- [r, far]", "- {ends: [r, far], delay: 2ms}");
    machine.up(&impaired);
    let more = LAB.replace("- [r, far]", "- {ends: [r, far], delay: 20ms}");
    let told = machine.applied(&more).text();
    assert!(told.starts_with("~ link r:eth1--far:eth0: delay 20ms, was 2ms\n"), "{told}");
    let status = machine.status();
    let link = status["links"]
        .as_array()
        .and_then(|all| all.iter().find(|l| l["name"] == "r:eth1--far:eth0"));
    assert_eq!(link.expect("the link")["wire"]["directions"][0]["impairments"]["delay"], "20ms");
    // The first link of r goes: what follows has other names by then.
    let fewer = LAB.replace("  - [r, s]\n", "");
    let told = machine.apply(&fewer, &["--dry-run"]).finish().code(0).text();
    assert!(
        told.contains("- link r:eth0--s") && told.contains("+ link r:eth0--far:eth0"),
        "{told}"
    );
    machine.applied(&fewer);
    machine.answers("r", "far");
    machine.down();
}

#[test]
fn switches_follow_their_rules_and_controllers() {
    let machine = machine!();
    let lab = "name: ruled\nnodes: {a: {}, b: {}, c: {}}\nswitches: {m: {kind: shm}, o: {kind: openflow}}\n\
               links: [[a, m], [b, m], [c, m], [a, o], [b, o]]\n";
    machine.up(lab);
    let reach = |from: &str, to: &str| {
        let words = ["ping", "-4", "-c", "1", "-w", "5", "-I", "eth0", to];
        machine.exec(from, &words).finish().status.success()
    };
    let reaches = |from: &str, to: &str| {
        wait_until("an answer", SOON, || reach(from, to).then_some(()));
    };
    ["b", "c"].iter().for_each(|to| reaches("a", to));
    let inits = machine.inits();
    let apart = lab.replace(
        "{kind: shm}",
        "{kind: shm, ports: {'a:eth0': {vlan: 7}, 'b:eth0': {vlan: 7}, 'c:eth0': {vlan: 8}}}",
    );
    let told = machine.applied(&apart).text();
    assert!(told.starts_with("~ switch m: ports.a:eth0 added"), "{told}");
    reaches("a", "b");
    assert!(!reach("a", "c"));
    machine.applied(lab);
    reaches("a", "c");
    // Another number for a port that is there is refused before anything is done.
    let other = lab
        .replace("{kind: shm}", "{kind: shm, ports: {'a:eth0': {number: 77}}}")
        .replace("nodes: {", "nodes: {new: {}, ");
    let refused = machine.apply(&other, &[]).finish().code(2);
    refused.says("port \"a:eth0\": it has the number").says("`netloom up` give it 77");
    assert!(!machine.nodes().contains(&"new".to_owned()));
    let controlled = lab.replace(
        "{kind: openflow}",
        "{kind: openflow, controllers: ['tcp:127.0.0.1:6699'], fail: secure}",
    );
    machine.applied(&controlled);
    let switches = machine.status()["switches"].to_string();
    assert!(switches.contains("tcp:127.0.0.1:6699"), "{switches}");
    assert_eq!(machine.inits(), inits);
    machine.down();
}

#[test]
fn drift_is_taken_back_or_kept() {
    let machine = machine!();
    machine.up(LAB);
    machine.ok("node create mine");
    machine.ok("link create mine s");
    machine.ok("link set --down h1,s");
    machine.ok("link delete h2:eth0--m");
    let found = machine.apply(LAB, &["--check"]).finish().code(4).text();
    for line in [
        "~ link h1:eth0--s: up, was down (changed by hand)",
        "+ link h2:eth0--m (changed by hand)",
        "- link mine:eth0--s (changed by hand)",
        "- node mine (changed by hand)",
    ] {
        assert!(found.lines().any(|l| l == line), "{line}\n{found}");
    }
    // What the file says beside it is done.
    let more = LAB.replace("  h1: {}\n", "  h1: {}\n  h9: {}\n") + "  - [h9, s]\n";
    machine.apply(&more, &["--check", "--keep-drift"]).finish().code(4);
    let told = machine.apply(&more, &["--keep-drift"]).finish().code(0).text();
    assert!(told.starts_with("+ node h9\n+ link h9:eth0--s\ndone"), "{told}");
    machine.answers("h9", "mine");
    machine.apply(&more, &["--check", "--keep-drift"]).finish().code(0);
    machine.applied(&more);
    all_reach_all(&machine);
    let names: Vec<String> = machine.inits().into_iter().map(|(name, _)| name).collect();
    assert!(!names.contains(&"mine".to_owned()), "{names:?}");
    machine.down();
}

#[test]
fn moved_interfaces_come_home() {
    let machine = machine!();
    machine.up(LAB);
    machine.ok("node move-interface h1:eth0 far");
    let told = machine.applied(LAB).text();
    assert!(
        told.starts_with("~ node h1: interface eth0 home, was in node far (changed by hand)\n"),
        "{told}"
    );
    all_reach_all(&machine);
    machine.down();
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_done() {
    let machine = machine!();
    machine.up(LAB);
    let refuses = |text: &str, code: i32, words: &str| {
        let refused = machine.apply(text, &["--yes"]).finish().code(code);
        assert!(refused.errors().contains(words), "{}", refused.errors());
    };
    refuses(&LAB.replace("[h1, s]", "[h1, missing]"), 2, "no node or switch");
    refuses("nodes: [", 2, "lab.yaml");
    refuses(&LAB.replace("  h1: {}", "  h1: {root: /no/such/place}"), 2, "/no/such/place");
    let door = LAB.to_owned() + "  - [r, 'host:nosuchcard']\n";
    let words = ["no such interface", "the host's network belongs to root"];
    let (code, words) = if is_root() { (1, words[0]) } else { (3, words[1]) };
    refuses(&door, code, words);
    // A file of another lab is another lab.
    let other = LAB.replace("name: applied", "name: other");
    machine.apply(&other, &["--check"]).finish().code(4).text_has("lab other is not up");
    machine.apply(LAB, &["--check"]).finish().code(0);
    let told = machine.netloom([
        "up",
        machine.file(&LAB.replace("  h2: {}", "  h2: {env: {A: b}}")).to_str().expect("UTF-8"),
    ]);
    let told = told.finish().code(1).errors();
    assert!(told.contains("netloom apply FILE"), "{told}");
    machine.down();
}

#[test]
fn of_two_at_once_one_is_told_that_the_lab_has_changed_or_finds_nothing_to_do() {
    let machine = machine!();
    machine.up(LAB);
    let more =
        LAB.replace("  h2: {}\n", "  h2: {}\n  h9: {run: [[sleep, '1000']]}\n") + "  - [h9, s]\n";
    let file = machine.file(&more);
    let words = ["apply", "--yes", file.to_str().expect("UTF-8")];
    let results: Vec<Finished> = std::thread::scope(|scope| {
        let run = || machine.netloom(words).finish();
        let both = [scope.spawn(run), scope.spawn(run)];
        both.map(|one| one.join().expect("it ran")).into()
    });
    assert!(results.iter().any(|one| one.status.success()));
    for failed in results.iter().filter(|one| !one.status.success()) {
        assert!(failed.errors().contains("has changed since"), "{}", failed.errors());
    }
    machine.apply(&more, &["--check"]).finish().code(0);
    all_reach_all(&machine);
    machine.down();
}

#[test]
fn a_lab_without_a_process_gets_one_and_dead_nodes_too() {
    let machine = machine!();
    machine.up(LAB);
    let lab = machine.status()["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
    kill_and_wait(lab.expect("a pid"));
    let more = LAB.replace("  h1: {}", "  h1: {env: {A: b}}");
    machine.apply(&more, &["--check"]).finish().code(4);
    machine.applied(&more);
    assert_eq!(sh(&machine, "h1", "echo $A"), "b");
    all_reach_all(&machine);
    machine.down();
}

#[test]
fn json_has_the_steps_and_when_they_were_done() {
    let machine = machine!();
    machine.up(LAB);
    let more = LAB.replace("  h2: {}\n", "  h2: {}\n  h9: {}\n");
    let shown: Value = machine.apply(&more, &["--dry-run", "--json"]).finish().code(0).json();
    let steps = shown["steps"].as_array().expect("steps");
    assert_eq!(
        (steps.len(), &steps[0]["act"], &steps[0]["kind"]),
        (1, &"add".into(), &"node".into())
    );
    assert_eq!((&shown["done"], &steps[0]["line"]), (&false.into(), &"+ node h9".into()));
    let done: Value = machine.apply(&more, &["--json"]).finish().code(0).json();
    assert!(done["done"] == true && done["steps"][0]["done_ms"].as_f64().expect("a time") > 0.0);
    machine.down();
}

/// A TCP connection whose bytes are counted at both ends.
pub(crate) struct Flow {
    server: Held,
    client: Held,
    seen: u64,
}

const SERVE: &str = r"
import socket, sys, threading
s = socket.create_server(('::', 7007), family=socket.AF_INET6, dualstack_ipv6=True)
print('listens', flush=True)
c, _ = s.accept()
total, expected = 0, 0
def tell():
    for line in sys.stdin:
        print(total, flush=True)
threading.Thread(target=tell, daemon=True).start()
while True:
    data = c.recv(1 << 16)
    if not data:
        break
    if any(byte != (total + i) % 251 for i, byte in enumerate(data)):
        print('wrong bytes', flush=True)
        sys.exit(1)
    total += len(data)
print('end', total, flush=True)
";

const CALL: &str = r"
import select, socket, struct, sys, time
s = socket.create_connection((sys.argv[1], 7007))
print('talks', flush=True)
total = 0
whole = bytes(i % 251 for i in range(251 * 40))
while not select.select([sys.stdin], [], [], 0.01)[0]:
    at = total % 251
    s.sendall(whole[at:at + 2000])
    total += 2000
again = struct.unpack_from('I', s.getsockopt(socket.IPPROTO_TCP, 11, 104), 100)[0]
s.close()
print('sent', total, again, flush=True)
";

impl Flow {
    pub(crate) fn start(machine: &Machine, from: &str, to: &str) -> Flow {
        let mut server = Held::start(machine.python(to, SERVE, &[]));
        assert_eq!(server.line(), "listens");
        let mut client = Held::start(machine.python(from, CALL, &[to]));
        assert_eq!(client.line(), "talks");
        let mut flow = Flow { server, client, seen: 0 };
        flow.grows();
        flow
    }

    /// Bytes go on arriving.
    pub(crate) fn grows(&mut self) {
        use std::io::Write;
        let before = self.seen;
        netloom_tests_e2e::wait_until("more bytes", netloom_tests_e2e::live::SOON, || {
            let input = self.server.child().stdin.as_mut().expect("stdin is piped");
            input.write_all(b"\n").expect("ask");
            self.seen = self.server.line().parse().expect("a number");
            (self.seen > before).then_some(())
        });
    }

    /// Ends it: every byte has arrived. Returns how many, and how many segments were sent again.
    pub(crate) fn end(mut self) -> (u64, u64) {
        use std::io::Write;
        let input = self.client.child().stdin.as_mut().expect("stdin is piped");
        input.write_all(b"\n").expect("ask it to end");
        let sent = self.client.line();
        let mut words = sent.split(' ').skip(1).map(|word| word.parse::<u64>().expect("a number"));
        let (sent, again) = (words.next().expect("bytes"), words.next().expect("segments"));
        assert_eq!(self.server.line(), format!("end {sent}"));
        (sent, again)
    }
}
