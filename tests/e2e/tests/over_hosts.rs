//! `--on`: one lab over several hosts, which are networks of nodes of another lab, each with a runtime directory of its own.

mod apply;
mod recorded;
mod ssh;

use std::path::PathBuf;
use std::time::Duration;

use netloom_kit::Binary;
use netloom_tests_e2e::live::{Held, SOON};
use netloom_tests_e2e::{
    Machine, Run, Snapshot, assert_same, is_root, kill, machine, needs, ordinary_only, root_only,
    wait_until, workspace_root,
};
use serde_json::Value;

const HOSTS: [&str; 3] = ["east", "north", "west"];

/// Bytes as a message: its length before it.
fn frame(message: &str) -> Vec<u8> {
    let length = u32::try_from(message.len()).expect("short");
    [&length.to_be_bytes(), message.as_bytes()].concat()
}

/// An agent's first message.
fn hello(version: &str, place: &str) -> Vec<u8> {
    frame(&format!(r#"{{"netloom":"{version}","protocol":1,"place":"{place}"}}"#))
}

const OWN_VERSION: &str = env!("CARGO_PKG_VERSION");

/// A machine with hosts on it.
struct Hosts {
    /// Taken down before the machine, whose lab is the hosts' network.
    before: Vec<Snapshot>,
    machine: Machine,
    outer: String,
}

impl Hosts {
    /// The three hosts of the example, under a name of this test's own, and the lab over them.
    fn new(machine: Machine) -> Hosts {
        let outer = machine.scratch().lab("hosts");
        let example = |name: &str| {
            let path = workspace_root().join("examples").join(name);
            std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
        };
        // A machine that is not a host of the lab is on the same network.
        let text = example("three-hosts.yaml")
            .replace("name: three-hosts", &format!("name: {outer}"))
            .replace("{east: {}", "{stranger: {}, east: {}");
        let stranger =
            "  - {ends: [stranger, underlay], addresses: {stranger: 192.0.2.9/24}, mtu: 1550}\n";
        let text = text + stranger;
        machine.up_file(&machine.scratch().file("outer.yaml", text));
        machine.scratch().file("campus.yaml", example("three-hosts/campus.yaml"));
        let before = HOSTS.map(|host| Snapshot::of_new(&machine.scratch().path().join(host)));
        let hosts = Hosts { before: before.into(), machine, outer };
        let text = example("three-hosts/hosts.yaml");
        let own = hosts.of_example(&text);
        assert_ne!(own, text);
        hosts.machine.scratch().file("hosts.yaml", own);
        hosts
    }

    /// The hosts file with this test's names and folders.
    fn of_example(&self, text: &str) -> String {
        let mut text = text
            .replace("three-hosts-", &format!("{}-", self.outer))
            .replace(", netloom, ", &format!(", {}, ", Binary::find().path().display()));
        for host in HOSTS {
            let own = self.runtime(host).display().to_string();
            text = text.replace(&format!("/run/netloom-{host}"), &own);
        }
        text
    }

    fn runtime(&self, host: &str) -> PathBuf {
        self.machine.scratch().path().join(host)
    }

    /// A run over the hosts of a file.
    fn over(&self, file: &str, args: &[&str]) -> Run {
        let (verb, rest) = args.split_first().expect("a verb");
        let args = [&[*verb, "--on", file], rest].concat();
        self.machine.netloom(args).bound(Duration::from_secs(300))
    }

    /// A run as on the host itself.
    fn at(&self, host: &str, args: &[&str]) -> Run {
        self.machine.netloom(args).env("NETLOOM_RUNTIME_DIR", self.runtime(host))
    }

    /// What a host says of its part.
    fn part(&self, host: &str) -> Value {
        self.at(host, &["status", "--json"]).finish().code(0).json()
    }

    /// A link of a host's part, by its name.
    fn link(&self, host: &str, name: &str) -> Value {
        let part = self.part(host);
        let links = part["links"].as_array().expect("a list").clone();
        let found = links.into_iter().find(|link| link["name"] == name);
        found.unwrap_or_else(|| panic!("{host} has no link {name}"))
    }

    /// A Python program in a machine of the outer lab.
    fn python_at(&self, host: &str, code: &str, args: &[&str]) -> Run {
        let words = ["exec", "-l", &self.outer, host, "--", "python3", "-c", code];
        self.machine.netloom(words.iter().chain(args)).bound(Duration::from_secs(120))
    }

    /// All that could reach each other do; returns how many pairs were asked, by family.
    fn all_answer(run: impl Fn() -> Run) -> Vec<(u64, u64)> {
        wait_until("all nodes reach all others", SOON, || {
            let found = run().finish();
            found.status.success().then(|| {
                let families = found.json()["families"].clone();
                let count = |family: &Value, key: &str| family[key].as_u64().expect("a count");
                let families = families.as_array().expect("a list").clone();
                families.iter().map(|f| (count(f, "asked"), count(f, "answered"))).collect()
            })
        })
    }

    /// Nothing is left on any host.
    fn are_clean(&self) {
        self.before.iter().for_each(assert_same);
    }

    fn down(mut self) {
        self.are_clean();
        self.before.clear();
        // Not by `drop`, which is for a test that failed.
        self.machine.netloom(["down", "--all"]).bound(Duration::from_secs(120)).finish().code(0);
        assert_same(self.machine.before());
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for host in HOSTS {
                let _ = self.at(host, &["down", "--all"]).finish();
            }
        }
    }
}

/// The addresses of all nodes in what `status --json` shows of labs.
fn addresses<'v>(labs: impl IntoIterator<Item = &'v Value>) -> Vec<String> {
    let nodes = labs.into_iter().flat_map(|lab| lab["nodes"].as_array().expect("a list"));
    let mut all: Vec<String> =
        nodes.map(|node| format!("{} {}", node["name"], node["addresses"])).collect();
    all.sort();
    all
}

macro_rules! hosts {
    () => {{
        root_only!("links across need root");
        needs!("ip", "ping");
        Hosts::new(machine!())
    }};
}

#[test]
fn a_lab_over_three_hosts_is_the_lab_on_one() {
    let hosts = hosts!();
    let up = || hosts.over("hosts.yaml", &["up", "campus.yaml"]).finish().code(0).text();
    assert!(up().starts_with("lab campus: 12 nodes, 16 links up on 3 hosts in "));
    let over = Hosts::all_answer(|| {
        hosts.over("hosts.yaml", &["ping", "--all", "--json", "-l", "campus"])
    });
    let status = hosts.over("hosts.yaml", &["status", "campus", "--json"]).finish().code(0).json();
    let parts = status.as_array().expect("a list");
    assert_eq!(parts.len(), 3);
    let there = addresses(parts.iter().map(|part| &part["lab"]));
    // Another time it is up already.
    assert!(up().starts_with("lab campus: already running on 3 hosts"));
    // On one host.
    hosts.machine.netloom(["up", "campus.yaml"]).finish().code(0);
    let one =
        Hosts::all_answer(|| hosts.machine.netloom(["ping", "--all", "--json", "-l", "campus"]));
    assert_eq!(over, one);
    let here = hosts.machine.netloom(["status", "campus", "--json"]).finish().code(0).json();
    assert_eq!(there, addresses([&here]));
    hosts.machine.netloom(["down", "campus"]).finish().code(0);
    // The nodes' MTU is theirs: a packet of 1500 bytes that may not be divided crosses.
    let exec = |node: &str, command: &[&str]| {
        let args = [&["exec", "-l", "campus", node, "--"], command].concat();
        hosts.over("hosts.yaml", &args)
    };
    exec("r-east", &["ping", "-4", "-c", "1", "-M", "do", "-s", "1472", "r-north"]).ok();
    exec("cam-west", &["ping", "-6", "-c", "1", "-M", "do", "-s", "1452", "cam-east"]).ok();
    // A program has its input, its output and its exit code.
    assert_eq!(exec("h-west-1", &["cat"]).input("through\n").ok(), "through\n");
    exec("h-west-1", &["sh", "-c", "exit 7"]).finish().code(7);
    let told =
        hosts.over("hosts.yaml", &["exec", "-l", "campus", "h-west-9", "true"]).finish().code(1);
    told.says("no node \"h-west-9\" on any host");
    // A node that died is recreated with its halves of links.
    let mut nodes = parts.iter().flat_map(|part| part["lab"]["nodes"].as_array().expect("a list"));
    let pid = nodes.find(|node| node["name"] == "r-west").expect("it")["pid"].as_i64();
    kill(i32::try_from(pid.expect("a pid")).expect("a pid"));
    wait_until("its host misses it", SOON, || {
        let status = hosts.at("west", &["status", "--json"]).finish().code(0).json();
        (status["state"] == "degraded").then_some(())
    });
    up();
    assert_eq!(
        Hosts::all_answer(|| hosts.over("hosts.yaml", &["ping", "--all", "--json", "-l", "campus"])),
        one
    );
    let down = hosts.over("hosts.yaml", &["down", "campus"]).finish().code(0);
    assert_eq!(down.text(), "lab campus: down on 3 hosts\n");
    hosts.over("hosts.yaml", &["down", "campus"]).finish().code(1).says("campus");
    hosts.down();
}

#[test]
fn what_fails_on_one_host_is_undone_on_all_and_names_it() {
    let hosts = hosts!();
    let campus = std::fs::read_to_string(hosts.machine.scratch().path().join("campus.yaml"));
    let campus = campus.expect("the example");
    let file = std::fs::read_to_string(hosts.machine.scratch().path().join("hosts.yaml"));
    let file = file.expect("the hosts");
    // Before `go`: it has another address than the file says.
    hosts
        .machine
        .scratch()
        .file("wrong.yaml", file.replace("address: 192.0.2.2", "address: 192.0.2.9"));
    let told = hosts.over("wrong.yaml", &["up", "campus.yaml"]).finish().code(1);
    let told = told.says("host \"north\": its network does not have the underlay address 192.0.2.9; it has 192.0.2.2");
    told.says("nothing is left of it on any host");
    hosts.are_clean();
    // Its interface takes less than the file says.
    hosts
        .machine
        .scratch()
        .file("wrong.yaml", file.replace("192.0.2.3, mtu: 1550", "192.0.2.3, mtu: 9000"));
    let told = hosts.over("wrong.yaml", &["up", "campus.yaml"]).finish().code(1);
    let told = told.says("host \"west\": the interface \"eth0\" of its underlay address 192.0.2.3 has an MTU of 1550");
    told.says("write `mtu: 1550` there").says("nothing is left of it on any host");
    hosts.are_clean();
    // After `go`: a command of a node fails.
    let failing = campus.replace(
        "  \"r-{b}\"",
        "  bad: {setup: [[sh, -c, \"echo this is why >&2; exit 3\"]]}\n  \"r-{b}\"",
    );
    let failing = failing.replace("place:\n", "place:\n  bad: west\n");
    assert_ne!(failing, campus);
    hosts.machine.scratch().file("failing.yaml", failing);
    let told = hosts.over("hosts.yaml", &["up", "failing.yaml"]).finish().code(1);
    let told = told.says("host \"west\": ").says("\"bad\"").says("this is why");
    told.says("nothing is left of it on any host");
    hosts.are_clean();
    hosts.down();
}

#[test]
fn parts_that_wait_end_with_their_driver() {
    let hosts = hosts!();
    let scratch = hosts.machine.scratch();
    // A host that says hello and never makes its part, so that the others wait.
    let fake = scratch.file("fake", hello(OWN_VERSION, "elsewhere"));
    let file = std::fs::read_to_string(scratch.path().join("hosts.yaml")).expect("the hosts");
    let (head, tail) = file.split_once("  west:\n").expect("the last host");
    let west = format!(
        "{head}  west:\n{}\n    agent: [sh, -c, 'cat {}; cat > /dev/null']\n",
        tail.lines().next().expect("its underlay"),
        fake.display()
    );
    scratch.file("slow.yaml", west);
    let mut driver = hosts.over("slow.yaml", &["up", "campus.yaml"]).spawn();
    for host in ["east", "north"] {
        wait_until("the part waits", SOON, || {
            let status = hosts.at(host, &["status", "--json"]).finish();
            if !status.status.success() {
                return None;
            }
            let status = status.json();
            let nodes = status["nodes"].as_array().expect("a list");
            let whole = nodes.len() == 4 && nodes.iter().all(|node| node["alive"] == true);
            (whole && status["state"] == "starting").then_some(())
        });
    }
    // A second driver is refused, and leaves alone what the first one made.
    let told = hosts.over("hosts.yaml", &["up", "campus.yaml"]).finish().code(1);
    let told =
        told.says("host \"east\": lab \"campus\" is being brought up over its hosts already");
    told.says("nothing is left of it on any host");
    let held = hosts.part("east");
    assert_eq!(
        (&held["state"], held["nodes"].as_array().map(Vec::len)),
        (&"starting".into(), Some(4))
    );
    driver.kill().expect("kill the driver");
    driver.wait().expect("its end");
    for host in ["east", "north"] {
        wait_until("nothing is left", SOON, || {
            (!hosts.runtime(host).join("campus").exists()).then_some(())
        });
    }
    hosts.down();
}

#[test]
fn other_versions_and_one_host_by_two_names_are_refused_before_anything_is_made() {
    let machine = machine!();
    let scratch = machine.scratch();
    let netloom = Binary::find().path().display().to_string();
    scratch.file("lab.yaml", "nodes: {a: {}, b: {}}\nlinks: [a-b]\nplace: {a: one, b: two}\n");
    let write = |agents: [String; 2]| {
        let [one, two] = agents;
        let text = format!(
            "hosts:\n  one: {{underlay: 192.0.2.1, agent: {one}}}\n  two: {{underlay: 192.0.2.2, agent: {two}}}\n"
        );
        scratch.file("hosts.yaml", text);
    };
    let up = || machine.netloom(["up", "lab.yaml", "--on", "hosts.yaml"]).finish();
    let own = |mark: &str| format!("[env, MARK={mark}, {netloom}, agent, --stdio]");
    let other = scratch.file("other", hello("99.0.0", "elsewhere"));
    write([own("1"), format!("[cat, {}]", other.display())]);
    let told = up()
        .code(1)
        .says("host \"two\": it has netloom 99.0.0 (messages 1), and this host netloom ");
    told.says(&format!("netloom {OWN_VERSION} (messages 1)")).says("nothing was made");
    write([own("1"), own("2")]);
    let told = up().code(1);
    told.says("host \"two\": is the same network of the same machine as \"one\"");
    // Programs that are not agents.
    write([own("1"), "[echo, Welcome to this machine]".to_owned()]);
    up().code(1)
        .says("host \"two\": its agent does not answer: something else than an agent of netloom");
    write([own("1"), "[sh, -c, 'echo no way in >&2']".to_owned()]);
    up().code(1).says("host \"two\": its agent ended at once; it said: no way in");
    write([own("1"), "[/no/such/program]".to_owned()]);
    up().code(1).says("host \"two\": \"/no/such/program\": start: No such file");
    // What links across cannot have.
    let lab =
        "nodes: {a: {}}\nswitches: {s: {stp: true}}\nlinks: [[a, s]]\nplace: {a: one, s: two}\n";
    scratch.file("lab.yaml", lab);
    up().code(2).says("link \"a:eth0--s\" is across and ends in a switch with `stp`");
    machine.untouched();
}

#[test]
fn an_ordinary_user_is_told_what_links_across_need() {
    ordinary_only!("root has links across");
    let machine = machine!();
    assert!(!is_root());
    let scratch = machine.scratch();
    // The other host does all that it is asked at once.
    let mut answers = hello(OWN_VERSION, "elsewhere");
    answers.extend(frame(r#"{"prepared":{"already":false}}"#));
    answers.extend(frame(r#"{"undone":{}}"#));
    let fake = scratch.file("fake", answers);
    scratch.file("lab.yaml", "nodes: {a: {}, b: {}}\nlinks: [a-b]\nplace: {a: one, b: two}\n");
    let netloom = Binary::find().path().display().to_string();
    let hosts = format!(
        "hosts:\n  one: {{underlay: 127.0.0.1, agent: [{netloom}, agent, --stdio]}}\n  two: {{underlay: 192.0.2.2, agent: \
         [sh, -c, 'cat {}; cat > /dev/null']}}\n",
        fake.display()
    );
    scratch.file("hosts.yaml", hosts.replace("127.0.0.1", "192.0.2.1"));
    let told = machine.netloom(["up", "lab.yaml", "--on", "hosts.yaml"]).finish().code(3);
    let told = told.says("host \"one\": links to other hosts: not available here");
    told.says("start the agent as root").says("nothing is left of it on any host");
    // A lab without links across needs nothing of that kind.
    scratch.file(
        "lab.yaml",
        "name: alone\nnodes: {a: {}, b: {}}\nlinks: [a-b]\nplace: {a: one, b: one}\n",
    );
    let up = machine.netloom(["up", "lab.yaml", "--on", "hosts.yaml"]).finish().code(0);
    assert!(up.text().starts_with("lab alone: 2 nodes, 1 link up on 1 host in "), "{up}");
    machine.netloom(["down"]).finish().code(0);
    machine.untouched();
}

/// Stands between a driver and an agent, and ends with it at a step: `ask:KIND` before the agent is asked, `passed:KIND` after,
/// `told:KIND` instead of passing an answer on. Other connections, which come later, live.
const DIES: &str = r#"
import json, os, signal, struct, subprocess, sys, threading
step, flag, command = sys.argv[1], sys.argv[2], sys.argv[3:]
agent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
silent = threading.Event()

def dies(here):
    return here == step and not os.path.exists(flag)

def die(here):
    if dies(here):
        open(flag, "w").close()
        agent.send_signal(signal.SIGKILL)
        agent.wait()
        os._exit(9)

def relay(source, sink, before, after):
    while head := source.read(4):
        text = source.read(struct.unpack(">I", head)[0])
        kind, body = next(iter(json.loads(text).items()))
        # Not the look that comes before.
        kind += "!" if kind == "apply" and not body["dry_run"] else ""
        die(before + kind)
        # No answer to what the agent dies of gets out before it is dead.
        if dies(after + kind):
            silent.set()
        if before == "told:" and silent.is_set():
            threading.Event().wait()
        sink.write(head + text)
        sink.flush()
        die(after + kind)
    sink.close()

there = os.fdopen(0, "rb")
threading.Thread(target=relay, args=(there, agent.stdin, "ask:", "passed:"), daemon=True).start()
relay(agent.stdout, os.fdopen(1, "wb"), "told:", "-")
os._exit(agent.wait())
"#;

impl Hosts {
    /// The hosts file with an agent in the north that ends at a step.
    fn dying(&self, step: &str) -> String {
        let scratch = self.machine.scratch();
        let script = scratch.file("dies.py", DIES);
        let flag = scratch.path().join(format!("died-{}", step.replace(':', "-")));
        let file = std::fs::read_to_string(scratch.path().join("hosts.yaml")).expect("the hosts");
        let own = format!("NETLOOM_RUNTIME_DIR={}, ", self.runtime("north").display());
        let between =
            format!("{own}python3, {}, \"{step}\", {}, ", script.display(), flag.display());
        let dying = file.replace(&own, &between);
        assert_ne!(dying, file);
        scratch.file("dying.yaml", dying);
        "dying.yaml".to_owned()
    }
}

#[test]
fn a_host_that_dies_in_any_step_is_named_and_nothing_is_left() {
    needs!("python3");
    let hosts = hosts!();
    for step in ["ask:prepare", "passed:prepare", "told:prepared", "ask:go", "passed:go", "told:up"]
    {
        let file = hosts.dying(step);
        let told = hosts.over(&file, &["up", "campus.yaml"]).finish().code(1);
        let told = told.says("host \"north\": its agent has ended");
        told.says("nothing is left of it on any host");
        hosts.are_clean();
    }
    for step in ["ask:down", "passed:down", "told:down"] {
        hosts.over("hosts.yaml", &["up", "campus.yaml"]).finish().code(0);
        let file = hosts.dying(step);
        let told = hosts.over(&file, &["down", "campus"]).finish().code(1);
        let told = told.says("host \"north\": its agent has ended");
        told.says("the same command again takes down what is left there");
        // The rest is down; there, it depends on how far the host came.
        hosts.over("hosts.yaml", &["down", "campus"]).finish();
        hosts.are_clean();
    }
    hosts.down();
}

/// Sends frames in VXLAN: to a host, its port, the number of the link, how many, the payload, and a VLAN tag or none.
const SENDS: &str = r#"
import socket, struct, sys
host, port, number, count, payload, tag = sys.argv[1:]
frame = b"\xff" * 6 + b"\x02\0\0\0\0\x07"
frame += struct.pack(">HH", 0x8100, int(tag)) if tag else b""
frame += struct.pack(">H", 0x88b5) + payload.encode().ljust(46, b"\0")
packet = struct.pack(">II", 0x08000000, int(number) << 8) + frame
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(int(count)):
    out.sendto(packet, (host, int(port)))
"#;

/// Prints the payloads of the first frames of that kind that an interface gets, once it listens.
const HEARS: &str = r#"
import socket, sys
listen = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x88b5))
listen.bind((sys.argv[1], 0x88b5))
print("listens", flush=True)
for _ in range(int(sys.argv[2])):
    print(listen.recv(200)[-46:].rstrip(b"\0").decode(), flush=True)
"#;

#[test]
fn frames_of_other_machines_do_not_come_in_and_are_counted() {
    needs!("python3");
    let hosts = hosts!();
    hosts.over("hosts.yaml", &["up", "campus.yaml"]).finish().code(0);
    let args = ["check", "campus.yaml", "--on", "hosts.yaml", "--json"];
    let plan = hosts.machine.netloom(args).finish().code(0).json();
    let across = plan["across"].as_array().expect("a list");
    let is = |name: &str| name.starts_with("r-east:") && name.contains("r-north:");
    let link = across.iter().find(|link| link["link"].as_str().is_some_and(is)).expect("the link");
    let (number, name) = (link["number"].to_string(), link["link"].as_str().expect("a name"));
    let interface =
        name.split_once("--").expect("two ends").0.strip_prefix("r-east:").expect("its end");
    let port = 14_789 + netloom_digest::fnv1a::hash(b"campus") % 4096;
    let port = port.to_string();
    let words = ["exec", "-l", "campus", "r-east", "--", "python3", "-c", HEARS, interface, "2"];
    let mut hears = Held::start(hosts.over("hosts.yaml", &words));
    assert_eq!(hears.line(), "listens");
    let send = |from: &str, count: &str, payload: &str, tag: &str| {
        let args = ["192.0.2.1", &port, &number, count, payload, tag];
        hosts.python_at(from, SENDS, &args).finish().code(0);
    };
    // Of a machine of that network, of a host that is not the link's, and of the one that is.
    send("stranger", "5", "stranger", "");
    send("stranger", "2", "tagged stranger", "7");
    send("west", "1", "west", "");
    send("north", "1", "north", "");
    assert_eq!(hears.line(), "north");
    send("north", "1", "tagged north", "7");
    assert_eq!(hears.line(), "tagged north");
    assert_eq!(hears.rest(), "");
    assert_eq!(hosts.part("east")["across"]["foreign_frames"], 8);
    assert_eq!(hosts.part("north")["across"]["foreign_frames"], 0);
    let text = hosts.over("hosts.yaml", &["status", "campus"]).finish().code(0).text();
    assert!(text.contains("host \"east\": dropped 8 frames that came from no host"), "{text}");
    hosts.over("hosts.yaml", &["down", "campus"]).finish().code(0);
    hosts.down();
}

#[test]
fn a_link_across_has_a_carrier_while_its_other_host_answers() {
    let hosts = hosts!();
    hosts.over("hosts.yaml", &["up", "campus.yaml"]).finish().code(0);
    let all = || {
        Hosts::all_answer(|| hosts.over("hosts.yaml", &["ping", "--all", "--json", "-l", "campus"]))
    };
    let before = all();
    let part = hosts.part("north");
    let names = |part: &Value, with: &str| -> Vec<String> {
        let links = part["links"].as_array().expect("a list").iter();
        let names = links.filter_map(|link| link["name"].as_str().map(str::to_owned));
        names.filter(|name| name.contains("r-north:") && name.contains(with)).collect()
    };
    let (east, west) = (names(&part, "r-east:"), names(&part, "r-west:"));
    assert_eq!((east.len(), west.len()), (1, 1));
    let is_up = |host: &str, link: &str, up: bool| {
        wait_until("the carrier follows", SOON, || {
            (hosts.link(host, link)["up"] == up).then_some(())
        });
    };
    // The kernel of a host whose lab process ends without a word goes on.
    let exec = |node: &str, command: &[&str]| {
        let args = [&["exec", "-l", "campus", node, "--"], command].concat();
        hosts.over("hosts.yaml", &args)
    };
    kill(i32::try_from(part["pid"].as_i64().expect("a pid")).expect("a pid"));
    exec("r-east", &["ping", "-4", "-c", "20", "-i", "0.1", "-W", "10", "r-north"]).ok();
    assert_eq!(hosts.link("east", &east[0])["up"], true);
    hosts.over("hosts.yaml", &["up", "campus.yaml"]).finish().code(0);
    // The west is cut off: links to it lose their carriers on both sides, others keep theirs.
    let cable = |up: &str| {
        let args = ["link", "set", "-l", &hosts.outer, "west", "underlay", up];
        hosts.machine.netloom(args).finish().code(0);
    };
    cable("--down");
    is_up("north", &west[0], false);
    is_up("west", &west[0], false);
    is_up("east", &east[0], true);
    let text = hosts.over("hosts.yaml", &["status", "campus"]).finish().text();
    assert!(text.contains("host \"north\": \"west\" does not answer"), "{text}");
    // Raised by hand it has no carrier either: nobody is there.
    hosts.at("north", &["link", "set", &west[0], "--down"]).finish().code(0);
    hosts.at("north", &["link", "set", &west[0], "--up"]).finish().code(0);
    is_up("north", &west[0], false);
    cable("--up");
    is_up("north", &west[0], true);
    is_up("west", &west[0], true);
    assert_eq!(all(), before);
    hosts.over("hosts.yaml", &["down", "campus"]).finish().code(0);
    hosts.down();
}

impl Hosts {
    /// The lab with one more key: the link between two routers is called `line`, and is late; nodes have a program.
    fn with_line(&self) {
        let scratch = self.machine.scratch();
        let campus =
            std::fs::read_to_string(scratch.path().join("campus.yaml")).expect("the example");
        let line = "- {ends: [r-east, r-north], name: line, delay: 30ms}";
        let with = campus.replace("- [r-east, r-north]", line);
        assert_ne!(with, campus);
        let program = "  \"h-{b}-{i}\": {run: [[sh, -c, 'echo here in $NETLOOM_NODE']], ";
        let program = with.replace("  \"h-{b}-{i}\": {", program);
        assert_ne!(program, with);
        scratch.file("campus.yaml", program);
        self.over("hosts.yaml", &["up", "campus.yaml"]).finish().code(0);
    }

    /// A run of a program in a node of the campus.
    fn exec(&self, node: &str, command: &[&str]) -> Run {
        let args = [&["exec", "-l", "campus", node, "--"], command].concat();
        self.over("hosts.yaml", &args)
    }

    /// The first address of a host's end of a link across.
    fn address(&self, host: &str, link: &str) -> String {
        let link = self.link(host, link);
        let ends = link["ends"].as_array().expect("a list");
        let end = ends.iter().filter_map(Value::as_str).find(|end| *end != "nowhere");
        let (node, interface) = end.expect("an end").split_once(':').expect("a node's");
        let named = |list: &Value, name: &str| {
            let mut list = list.as_array().expect("a list").clone().into_iter();
            list.find(|one| one["name"] == name).expect("it")
        };
        let node = named(&self.part(host)["nodes"], node);
        let interface = named(&node["interfaces"], interface);
        let first = interface["addresses"][0].as_str().expect("one");
        first.split('/').next().expect("one").to_owned()
    }

    /// What a host's end of a link impairs.
    fn impaired(&self, host: &str, link: &str) -> String {
        let wire = self.link(host, link)["wire"].clone();
        let both = wire["directions"].as_array().cloned().unwrap_or_default();
        let both = both.iter().filter(|one| !one.is_null());
        both.map(|one| one["impairments"].to_string()).collect::<Vec<_>>().join(" ")
    }
}

#[test]
fn impairments_and_cables_of_a_link_across_are_set_over_its_hosts() {
    let hosts = hosts!();
    hosts.with_line();
    // Each direction is late once, at its sender.
    let north = hosts.address("north", "line");
    let shown = hosts.exec("r-east", &["ping", "-c", "3", "-i", "0.2", &north]).ok();
    let least = shown.split(" = ").nth(1).and_then(|times| times.split('/').next());
    let least: f64 = least.and_then(|ms| ms.parse().ok()).unwrap_or_else(|| panic!("{shown}"));
    assert!(least >= 60.0, "{shown}");
    let set = |words: &[&str]| {
        let args = [&["link", "set", "--on", "hosts.yaml", "-l", "campus"], words].concat();
        hosts.machine.netloom(args)
    };
    let impaired = |host: &str| hosts.impaired(host, "line");
    set(&["r-east", "r-north", "--clear", "--loss", "100%", "--end", "a"]).finish().code(0);
    assert!(impaired("east").contains("100"), "{}", impaired("east"));
    assert!(impaired("north").contains("30"), "{}", impaired("north"));
    let lost = ["ping", "-c", "2", "-i", "0.2", "-W", "1", &north];
    hosts.exec("r-east", &lost).finish().code(1);
    set(&["line", "--clear"]).finish().code(0);
    assert_eq!((impaired("east"), impaired("north")), (String::new(), String::new()));
    hosts.exec("r-east", &["ping", "-c", "1", &north]).ok();
    // A host alone knows that the other end is not its own.
    let told =
        hosts.at("east", &["link", "set", "line", "--end", "b", "--loss", "1%"]).finish().code(2);
    told.says("host \"north\" makes the end").says("netloom link set --on HOSTS");
    for (word, up) in [("--down", false), ("--up", true)] {
        set(&["line", word]).finish().code(0);
        for host in ["east", "north"] {
            wait_until("the link follows", SOON, || {
                (hosts.link(host, "line")["up"] == up).then_some(())
            });
        }
    }
    set(&["nothing", "--down"]).finish().code(1).says("no link \"nothing\" on any host");
    hosts.over("hosts.yaml", &["down", "campus"]).finish().code(0);
    hosts.down();
}

#[test]
fn logs_and_captures_are_those_of_the_hosts_that_have_nodes_and_links() {
    let hosts = hosts!();
    hosts.with_line();
    let logs =
        |words: &[&str]| hosts.over("hosts.yaml", &[&["logs", "-l", "campus"], words].concat());
    let all = wait_until("all programs said it", SOON, || {
        let shown = logs(&[]).ok();
        (shown.matches("| here in ").count() == 6).then_some(shown)
    });
    assert!(all.contains("here in h-north-1"), "{all}");
    let shown = logs(&["h-west-2", "h-east-1"]).ok();
    assert!(shown.contains("here in h-west-2") && shown.contains("here in h-east-1"), "{shown}");
    assert!(!shown.contains("h-north-1"), "{shown}");
    logs(&["h-west-9"]).finish().code(1).says("no node \"h-west-9\" on any host");
    let capture =
        ["capture", "-l", "campus", "link:line", "-c", "2", "-w", "-", "--filter", "icmp"];
    let mut capturing = hosts.over("hosts.yaml", &capture).spawn();
    let east = hosts.address("east", "line");
    wait_until("frames are captured", SOON, || {
        hosts.exec("r-north", &["ping", "-c", "1", &east]).ok();
        capturing.try_wait().expect("its state").map(|ended| assert!(ended.success()))
    });
    let mut bytes = vec![];
    std::io::Read::read_to_end(&mut capturing.stdout.take().expect("its output"), &mut bytes)
        .expect("read");
    assert_eq!(bytes.get(..4), Some(&[0x0a, 0x0d, 0x0d, 0x0a][..]));
    let two = ["capture", "-l", "campus", "h-east-1", "h-west-1", "-c", "1"];
    hosts.over("hosts.yaml", &two).finish().code(1).says("capture them one by one");
    hosts.over("hosts.yaml", &["down", "campus"]).finish().code(0);
    hosts.down();
}

#[test]
fn manifests_of_kubernetes_fit_its_schemas_and_their_pods_are_hosts() {
    needs!("kubernetes-validate");
    let machine = machine!();
    let scratch = machine.scratch();
    let lab = "name: grid\nnodes:\n  \"n{i}\": {for: {i: 0..5}, limits: {memory: 64MiB, cpu: 50%}}\nlinks:\n  \
               - {ends: [\"n{i}\", \"n{i+1}\"], for: {i: 0..4}}\nplace: {n5: part-0}\n";
    scratch.file("grid.yaml", lab);
    let export = ["export", "kubernetes", "grid.yaml", "--parts", "3"];
    let text = machine.netloom(export).ok();
    let validate = |name: &str, text: &str| {
        let file = scratch.file(name, text);
        let words = ["--kubernetes-version", "1.37", "--strict"];
        netloom_kit::Run::new(
            "/usr/local/lib/netloom-peers/kubernetes-validate/bin/kubernetes-validate",
        )
        .args(words)
        .args([&file])
        .finish()
    };
    validate("good.yaml", &text).code(0);
    for (good, bad) in [("completions: 3", "completions: many"), ("maxSkew: 1", "skew: 1")] {
        let wrong = text.replacen(good, bad, 1);
        assert_ne!(wrong, text);
        assert!(!validate("bad.yaml", &wrong).status.success(), "{bad}");
    }
    // The lab file is in it whole, and room is asked for the part that needs most.
    let indented: String = lab.lines().map(|line| format!("    {line}\n")).collect();
    assert!(text.contains(&format!("  lab.yaml: |2\n{indented}---\n")), "{text}");
    assert!(text.contains("cpu: 1000m") && text.contains("completionMode: Indexed"), "{text}");
    // The pods that the job made.
    let pod = |index: u32| {
        serde_json::json!({
            "metadata": {
                "name": format!("netloom-grid-{index}-abcde"),
                "namespace": "default",
                "annotations": {"batch.kubernetes.io/job-completion-index": index.to_string()},
            },
            "status": {"phase": "Running", "podIP": format!("10.244.{index}.7")},
        })
    };
    let pods = |count: u32| serde_json::json!({"items": (0..count).map(pod).collect::<Vec<_>>()});
    scratch.file("pods.json", pods(3).to_string());
    let of_pods = [&export[..], &["--pods", "pods.json", "-o", "hosts.yaml"]].concat();
    machine.netloom(&of_pods).finish().code(0);
    let check = ["check", "grid.yaml", "--on", "hosts.yaml", "--json"];
    let found = machine.netloom(check).finish().code(0).json();
    let hosts = found["hosts"].as_array().expect("a list");
    assert_eq!((hosts.len(), &hosts[2]["underlay"]), (3, &"10.244.2.7".into()));
    assert_eq!(found["nodes"]["n5"], "part-0");
    scratch.file("pods.json", pods(2).to_string());
    machine.netloom(&of_pods).finish().code(2).says("pods.json: no pod runs for part 2");
    scratch.file("grid.yaml", lab.replace("part-0", "part-3"));
    machine.netloom(export).finish().code(2).says("the hosts are part-0 to part-2");
    machine.untouched();
}

#[test]
fn nodes_of_a_lab_are_hosts_with_agents_of_their_own() {
    root_only!("a node has a lab in it");
    needs!("ip", "ping");
    let machine = machine!();
    let outer = machine.scratch().lab("nest");
    let example = |name: &str| {
        let path = workspace_root().join("examples").join(name);
        std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    };
    let text = example("three-hosts.yaml").replace("name: three-hosts", &format!("name: {outer}"));
    let nested = HOSTS.iter().fold(text.clone(), |text, host| {
        text.replace(&format!("{host}: {{}}"), &format!("{host}: {{privileged: true}}"))
    });
    assert_eq!(nested.matches("privileged").count(), 3);
    machine.up_file(&machine.scratch().file("outer.yaml", nested));
    machine.scratch().file("campus.yaml", example("three-hosts/campus.yaml"));
    let netloom = Binary::find().path().display().to_string();
    let hosts: String = (1..).zip(HOSTS).map(|(number, host)| format!(
        "  {host}:\n    underlay: {{address: 192.0.2.{number}, mtu: 1550}}\n    agent: [{netloom}, exec, -l, {outer}, {host}, \"--\", \
         {netloom}, agent, --stdio]\n"
    )).collect();
    machine.scratch().file("hosts.yaml", format!("hosts:\n{hosts}"));
    let over = |args: &[&str]| {
        let (verb, rest) = args.split_first().expect("a verb");
        machine
            .netloom([&[*verb, "--on", "hosts.yaml"], rest].concat())
            .bound(Duration::from_secs(300))
    };
    let up = over(&["up", "campus.yaml"]).finish().code(0).text();
    assert!(up.starts_with("lab campus: 12 nodes, 16 links up on 3 hosts in "), "{up}");
    let all = Hosts::all_answer(|| over(&["ping", "--all", "--json", "-l", "campus"]));
    assert_eq!(all, [(132, 132), (132, 132)]);
    // The lab is in the node, and its nodes have devices.
    let inside = machine.netloom(["exec", "-l", &outer, "east", "--", &netloom, "ls"]).ok();
    assert!(inside.contains("campus"), "{inside}");
    let args = [
        "exec",
        "-l",
        "campus",
        "h-east-1",
        "--",
        "sh",
        "-c",
        "echo gone > /dev/null && test -c /dev/null",
    ];
    over(&args).ok();
    over(&["down", "campus"]).finish().code(0);
    machine.netloom(["down", &outer]).finish().code(0);
    machine.untouched();
}
