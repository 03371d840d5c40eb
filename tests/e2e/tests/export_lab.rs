//! `export lab`: what was changed by hand is saved, and comes up the same.
//!
//! `NETLOOM_EXPORT_SEED` and `_COUNT` choose the changes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use netloom_digest::splitmix::SplitMix64;
use netloom_tests_e2e::{Machine, machine, pair, root_only};
use serde_json::{Value, json};

const LAB: &str = "name: saved
nodes:
  a: {limits: {memory: 64MiB}, env: {A: b}, files: {/srv/a: \"one\\ntwo\\n\"}}
  b: {loopback: 10.99.0.1, forwarding: true}
  r: {forwarding: true, sysctls: {net.ipv4.tcp_ecn: 1}}
  t: {children: {limit: 9, nodes: {x: {}}}}
switches:
  lan: {}
  wall: {kind: shm, ports: {\"a:eth2\": {vlan: 7}}}
links:
  - [a, lan]
  - [r, lan]
  - {ends: [a, r], delay: 1ms}
  - [a, wall]
  - [b, r]
";

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// The stored plan of a lab.
fn plan(machine: &Machine, lab: &str) -> Value {
    let file = machine.scratch().runtime_dir().join(lab).join("state.json");
    let text = std::fs::read_to_string(file).expect("the state");
    serde_json::from_str::<Value>(&text).expect("JSON")["plan"].take()
}

/// The length of a prefix that an address is in.
fn is_in(prefix: &str, to: Ipv4Addr) -> Option<u32> {
    let (net, length) = prefix.split_once('/')?;
    let (net, length): (Ipv4Addr, u32) = (net.parse().ok()?, length.parse().ok()?);
    let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
    (u32::from(net) & mask == u32::from(to) & mask).then_some(length)
}

/// By which of some routes packets to an address leave.
fn way(routes: &[(String, String)], to: Ipv4Addr) -> Option<&str> {
    let fits = routes.iter().filter_map(|(prefix, way)| Some((is_in(prefix, to)?, way.as_str())));
    fits.max_by_key(|(length, _)| *length).map(|(_, way)| way)
}

/// A plan without what identifies its objects on a machine, by name of each.
fn content(plan: &Value) -> BTreeMap<String, Value> {
    let list = |key: &str| plan[key].as_array().cloned().unwrap_or_default();
    let (nodes, switches) = (list("nodes"), list("switches"));
    let interface = |end: &Value| {
        let node = &nodes[usize::try_from(end["node"].as_u64().expect("a node")).expect("few")];
        let at = usize::try_from(end["interface"].as_u64().expect("one")).expect("few");
        format!("{}:{}", node["name"], node["interfaces"][at]["name"])
    };
    let addresses: BTreeSet<Ipv4Addr> = nodes
        .iter()
        .flat_map(|node| node["interfaces"].as_array().expect("a list"))
        .flat_map(|own| own["addresses"].as_array().expect("a list"))
        .filter_map(|net| net.as_str().expect("text").split('/').next()?.parse().ok())
        .collect();
    let mut all = BTreeMap::new();
    for node in &nodes {
        let mut shown = node.clone();
        let fields = shown.as_object_mut().expect("an object");
        fields.remove("id");
        fields.remove("parent");
        let own: Vec<&Value> = node["interfaces"].as_array().expect("a list").iter().collect();
        let name = |at: &Value| own[usize::try_from(at.as_u64().unwrap()).unwrap()]["name"].clone();
        let interfaces: BTreeMap<String, Value> = own
            .iter()
            .map(|of| (of["name"].to_string(), json!([of["mac"], of["mtu"], of["addresses"]])))
            .collect();
        let routes: Vec<(String, String)> = node["routes"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|route| {
                let way = format!("{} {}", route["via"], name(&route["interface"]));
                (route["to"].as_str().expect("a prefix").to_owned(), way)
            })
            .collect();
        // Where addresses are given by hand, one route to a router's block of prefixes becomes several.
        // What the node has interfaces to needs no route.
        let near = |to: Ipv4Addr| {
            let nets = own.iter().flat_map(|of| of["addresses"].as_array().expect("a list"));
            nets.filter_map(Value::as_str).any(|net| is_in(net, to).is_some())
        };
        let far = |to: &Ipv4Addr| way(&routes, *to).filter(|_| !near(*to));
        let ways: Vec<Option<&str>> = addresses.iter().map(far).collect();
        fields.insert("interfaces".into(), json!(interfaces));
        fields.insert("routes".into(), json!(ways));
        all.insert(format!("node {}", node["name"]), shown);
    }
    for switch in &switches {
        let mut shown = switch.clone();
        let fields = shown.as_object_mut().expect("an object");
        for key in ["index", "bridge", "mac"] {
            fields.remove(key);
        }
        all.insert(format!("switch {}", switch["name"]), shown);
    }
    for link in list("links") {
        let ends = [0, 1].map(|side| match &link["ends"][side] {
            end if end["node"].is_object() => interface(&end["node"]),
            end => end["port"]["switch"].to_string(),
        });
        let shown = json!([ends, link["mtu"], link["impairments"]]);
        all.insert(format!("link {}", link["name"]), shown);
    }
    all
}

/// What was made by hand.
#[derive(Default)]
struct Made {
    nodes: Vec<String>,
    links: Vec<String>,
    switches: Vec<String>,
    count: u64,
}

impl Made {
    fn one_of<'l>(random: &mut SplitMix64, all: &'l [String]) -> Option<&'l String> {
        let count = u64::try_from(all.len()).ok().filter(|count| *count > 0)?;
        all.get(usize::try_from(random.next_u64() % count).expect("few"))
    }

    /// The words of one change.
    fn words(&mut self, random: &mut SplitMix64) -> Vec<String> {
        self.count += 1;
        let (n, value) = (self.count, random.next_u64() % 9 + 1);
        let words = |text: String| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let mut ends: Vec<String> = ["a", "b", "r", "t/x", "lan", "wall"].map(str::to_owned).into();
        ends.extend(self.nodes.iter().chain(&self.switches).cloned());
        match random.next_u64() % 10 {
            0 => {
                self.nodes.push(format!("n{n}"));
                words(format!("node create n{n} memory={value}MiB"))
            }
            1 => {
                self.nodes.push(format!("t/n{n}"));
                words(format!("node create t/n{n}"))
            }
            2 => words(format!("node set a cpu={value}0% packets={value}k")),
            3 if self.switches.len() < 3 => {
                self.switches.push(format!("s{n}"));
                let kind = ["shm", "openflow"][usize::try_from(value % 2).expect("a bit")];
                words(format!("switch create s{n} kind={kind}"))
            }
            4 if self.links.len() > 2 => {
                let at = usize::try_from(value).expect("few") % self.links.len();
                words(format!("link delete {}", self.links.remove(at)))
            }
            5 => match Made::one_of(random, &self.links) {
                Some(link) => words(format!("link set {link} --delay {value}ms --loss {value}%")),
                None => words(format!("node set b cpu={value}0%")),
            },
            _ => {
                let a = Made::one_of(random, &ends[..4]).expect("nodes").clone();
                let b = Made::one_of(random, &ends).filter(|b| **b != a);
                let b = b.map_or("lan", String::as_str).to_owned();
                self.links.push(format!("by-hand{n}"));
                let more = ["", " --mtu 1400", " --delay 2ms"];
                let more = more[usize::try_from(value % 3).expect("few")];
                words(format!("link create {a} {b} --name by-hand{n}{more}"))
            }
        }
    }
}

#[test]
fn a_lab_changed_at_random_comes_up_the_same() {
    root_only!("sets limits and budgets");
    let machine = machine!();
    let (seed, count) = (number("NETLOOM_EXPORT_SEED", 11), number("NETLOOM_EXPORT_COUNT", 50));
    let (mut random, mut made, mut done) = (SplitMix64::new(seed), Made::default(), 0);
    machine.up(LAB);
    for _ in 0..count {
        let words = made.words(&mut random);
        let run = machine.netloom(&words).finish();
        // Some cannot be, such as an interface more of a name that a program made.
        assert!(run.status.success(), "seed {seed}: {words:?}: {}", run.errors());
        done += 1;
    }
    assert_eq!(done, count);
    machine.ok("switch port wall a:eth2 lock=02:00:00:00:00:01");
    let before = content(&plan(&machine, "saved"));
    let file = machine.scratch().path().join("saved.yaml");
    let shown = file.to_str().expect("UTF-8");
    machine.ok(&format!("export lab -o {shown}"));
    machine.refused(&format!("export lab -o {shown}"), 2, &["--force"]);
    let text = std::fs::read_to_string(&file).expect("a file");
    machine.ok(&format!("check {shown}"));
    // The file is what runs, so that there is nothing to apply.
    machine.ok("down saved");
    machine.up_file(&file);
    let mut after = content(&plan(&machine, "saved"));
    let wall = after.get_mut("switch \"wall\"").expect("the switch");
    let port = wall["shm"]["ports"]["a:eth2"].as_object_mut().expect("its port");
    assert_eq!(port.insert("lock".into(), json!([])), Some(json!(["02:00:00:00:00:01"])));
    for (name, value) in &before {
        assert_eq!(after.get(name), Some(value), "seed {seed}: {name}\n{text}");
    }
    assert_eq!(after.len(), before.len(), "{text}");
    machine.down();
}

#[test]
fn a_lab_that_nobody_changed_is_written_as_it_is() {
    let machine = machine!();
    std::fs::create_dir(machine.scratch().path().join("own")).expect("make a folder");
    machine.up("name: short\nnodes:\n  a: {forwarding: true}\n  b: {binds: {/srv/b: own}}\nlinks:\n  - [a, b]\n");
    let written = machine.ok("export lab short").text();
    let lines: Vec<&str> = written.lines().collect();
    assert_eq!(lines[0], "# Made by `netloom export lab` from the running lab.");
    assert_eq!(lines[1..4], ["name: short", "nodes:", "  a: {forwarding: true}"]);
    let home = machine.scratch().path().to_str().expect("UTF-8").to_owned();
    assert!(lines[4].contains(&home), "a path from the root on standard output: {}", lines[4]);
    machine.ok("link set a b --down");
    let written = machine.ok("export lab").text();
    assert!(written.contains("\n# Link a:eth0--b:eth0 is down now"), "{written}");
    machine.down();
}

/// A state as versions stored it that did not keep the file.
#[test]
fn a_lab_of_a_version_that_kept_no_file_is_adopted_and_saved() {
    let machine = machine!();
    let text = pair("run: [[tail, -f, /dev/null]]");
    machine.up(&text);
    let before = content(&plan(&machine, "pair"));
    netloom_tests_e2e::live::kill_and_wait(machine.lab_process());
    let state = machine.scratch().runtime_dir().join("pair/state.json");
    let mut value: Value =
        serde_json::from_str(&std::fs::read_to_string(&state).expect("the state")).expect("JSON");
    let scheme = value["plan"]["scheme"].as_object_mut().expect("a scheme");
    assert!(scheme.remove("file").is_some_and(|file| file.is_string()));
    std::fs::write(&state, value.to_string()).expect("write the state");
    machine.up(&text);
    machine.ok("link create a b");
    machine.ok("link delete a:eth1--b:eth1");
    let file = machine.scratch().path().join("adopted.yaml");
    machine.ok(&format!("export lab -o {}", file.to_str().expect("UTF-8")));
    machine.ok("down pair");
    machine.up_file(&file);
    assert_eq!(content(&plan(&machine, "pair")), before);
    machine.down();
}
