//! `--on`: one lab over several hosts, which are networks of nodes of another lab, each with a runtime directory of its own.

use std::path::PathBuf;
use std::time::Duration;

use netloom_kit::Binary;
use netloom_tests_e2e::live::SOON;
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
        let text =
            example("three-hosts.yaml").replace("name: three-hosts", &format!("name: {outer}"));
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
            text = text.replace(&format!("=/run/netloom-{host}"), &format!("={own}"));
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
    // What links across cannot have yet.
    let lab =
        "nodes: {a: {}, b: {}}\nlinks: [{ends: [a, b], delay: 5ms}]\nplace: {a: one, b: two}\n";
    scratch.file("lab.yaml", lab);
    up().code(2).says("link \"a:eth0--b:eth0\" is across and has impairments");
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
