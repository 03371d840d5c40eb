//! Contradictory plans from outside: each is answered at once, and the lab goes on.

use std::path::Path;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use netloom_digest::splitmix::SplitMix64;
use netloom_kit::worked;
use netloom_tests_e2e::{Machine, done, machine, rounds};
use serde_json::{Value, json};

const LAB: &str = "
name: plans
nodes:
  a:
    children: {limit: 4, nodes: {b: {}}}
    env: {A: b}
    files: {/etc/x: y}
    run: [[sleep, infinity]]
    ready: {exec: ['true']}
    sysctls: {net.ipv4.tcp_ecn: 1}
    loopback: 10.9.9.9
  r: {forwarding: true}
switches: {s: {}, m: {kind: shm, ports: {prog: {vlan: 7}}}, o: {kind: openflow}}
links: [[a, s], [a, a/b], [r, s], [a/b, m], {ends: [r, o], delay: 5ms}, [a, o]]
slices: {one: {switches: {o: [{vlan: 5}]}}}
";

/// Processor time that a plan of 16 MiB, or less, may take, with a build without optimisation: a few times that of reading it.
const WORK: Duration = Duration::from_secs(10);

/// As many bytes as are taken of a plan for a small lab.
const LONGEST: usize = 16 << 20;

/// Values that stand for others, as text of JSON.
const VALUES: [&str; 16] = [
    "null",
    "true",
    "0",
    "1",
    "2",
    "-1",
    "65536",
    "4294967295",
    "9007199254740993",
    "18446744073709551615",
    "1e300",
    r#""""#,
    r#"".."#,
    r#""a""#,
    "[]",
    "{}",
];

/// What the lab answers on its socket, and how long that took.
fn ask(machine: &Machine, line: &str, body: &str) -> (u16, Value, Duration) {
    let begun = Instant::now();
    let socket = machine.scratch().runtime_dir().join("plans/api.sock");
    let mut stream = UnixStream::connect(socket).expect("the lab's socket");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time limit");
    let head = format!(
        "{line} HTTP/1.1\r\nhost: lab\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let sent = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
    // What is refused early is answered before all of it is read.
    if let Err(error) = sent {
        assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe, "send");
    }
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let took = begun.elapsed();
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
    (status, serde_json::from_str(body).unwrap_or_default(), took)
}

/// What a dry run of a plan is answered.
fn dry_run(machine: &Machine, plan: &Value) -> (u16, Value, Duration) {
    ask(machine, "POST /v1/lab/apply", &json!({"dry_run": true, "plan": plan}).to_string())
}

fn place(plan: &Value, name: &str) -> usize {
    let nodes = plan["nodes"].as_array().expect("nodes");
    nodes.iter().position(|node| node["name"] == name).expect("a node of this name")
}

#[test]
fn nodes_that_live_in_each_other_are_refused_and_the_lab_goes_on() {
    let machine = machine!();
    machine.up(LAB);
    let (status, plan, _) = ask(&machine, "GET /v1/lab/plan", "");
    assert_eq!(status, 200, "{plan}");
    assert_eq!(dry_run(&machine, &plan).0, 200);
    let (a, b) = (place(&plan, "a"), place(&plan, "a/b"));
    let process = machine.lab_process();
    for parents in [vec![(a, a)], vec![(b, b)], vec![(a, b)], vec![(a, b), (b, a)]] {
        let mut plan = plan.clone();
        for (node, parent) in &parents {
            plan["nodes"][*node]["parent"] = json!(parent);
        }
        let before = worked(process);
        let (status, told, _) = dry_run(&machine, &plan);
        let work = worked(process) - before;
        assert!(status == 400 && work < WORK, "{parents:?}: {status} by {work:?}: {told}");
        let told = told["detail"].as_str().unwrap_or_default();
        assert!(told.contains("the one that it lives in"), "{parents:?}: {told}");
    }
    machine.ok("status");
    machine.down();
}

/// All places of a value, from the outside to the inside, as JSON pointers.
fn places(value: &Value, at: &str, all: &mut Vec<String>) {
    all.push(at.to_owned());
    match value {
        Value::Array(list) => {
            list.iter().enumerate().for_each(|(n, one)| places(one, &format!("{at}/{n}"), all));
        }
        Value::Object(map) => {
            for (key, one) in map {
                let key = key.replace('~', "~0").replace('/', "~1");
                places(one, &format!("{at}/{key}"), all);
            }
        }
        _ => {}
    }
}

/// Changes one place of a plan; returns the place and what stands there now.
fn spoil(plan: &mut Value, random: &mut SplitMix64) -> String {
    let mut all = vec![];
    places(plan, "", &mut all);
    let at = &all[1 + random.index(all.len() - 1)];
    let elsewhere = plan.pointer(&all[random.index(all.len())]).cloned().unwrap_or_default();
    let old = plan.pointer_mut(at).expect("a place of it");
    *old = match (random.below(4), old.take()) {
        (0, Value::Array(mut list)) if !list.is_empty() => {
            let one = list[random.index(list.len())].clone();
            list.extend(vec![one; 1 << random.below(9)]);
            Value::Array(list)
        }
        (1, Value::Array(mut list)) if !list.is_empty() => {
            list.remove(random.index(list.len()));
            Value::Array(list)
        }
        (2, _) => elsewhere,
        (3, Value::String(text)) => {
            let end = ["", "\0", "/..", "\n"][random.index(4)];
            Value::String(text.repeat(1 << random.below(12)) + end)
        }
        _ => serde_json::from_str(VALUES[random.index(VALUES.len())]).unwrap_or_default(),
    };
    format!("{at}: {}", old.to_string().chars().take(200).collect::<String>())
}

#[test]
fn whatever_a_plan_says_a_dry_run_is_answered_at_once() {
    let machine = machine!();
    machine.up(LAB);
    let (status, plan, _) = ask(&machine, "GET /v1/lab/plan", "");
    assert_eq!(status, 200, "{plan}");
    let mut random = SplitMix64::new(37);
    let times = rounds(250);
    let (process, mut most) = (machine.lab_process(), Duration::ZERO);
    for _ in 0..times {
        let mut plan = plan.clone();
        let what: Vec<_> = (0..=random.below(2)).map(|_| spoil(&mut plan, &mut random)).collect();
        let before = worked(process);
        let (status, told, _) = dry_run(&machine, &plan);
        let work = worked(process) - before;
        assert!(matches!(status, 200 | 400 | 409 | 501), "{what:?}: {status}: {told}");
        assert!(work < WORK, "{what:?}: {status} by {work:?}: {told}");
        most = most.max(work);
    }
    let what = format!("plans that were changed, answered by {most:?} of a processor or less");
    done(&what, times);
    let (status, now, _) = ask(&machine, "GET /v1/lab/plan", "");
    assert!(status == 200 && now == plan, "a dry run changed the lab");
    machine.ok("status");
    machine.down();
}

/// A request for a dry run as long as it may be: the list at this place of the plan has many items, each made of its number.
fn long(plan: &Value, at: &str, item: impl Fn(usize) -> String) -> String {
    let mut plan = plan.clone();
    let (parent, key) = at.rsplit_once('/').expect("a key");
    plan.pointer_mut(parent).expect("a place of it")[key] = json!("@");
    let request = json!({"dry_run": true, "plan": plan}).to_string();
    let (head, tail) = request.split_once("\"@\"").expect("the mark");
    let mut text = format!("{head}[{}", item(0));
    for n in 1.. {
        let item = item(n);
        if text.len() + item.len() + tail.len() + 2 > LONGEST {
            break;
        }
        text.push(',');
        text.push_str(&item);
    }
    text + "]" + tail
}

/// A plan in which each of many bridges has the name that the one before it would get instead of its own: that of the
/// running lab's bridge is taken.
fn names_in_a_row(plan: &Value) -> String {
    let mut plan = plan.clone();
    let at = |list: &str| plan[list].as_array().map_or(0, Vec::len);
    let first = at("switches");
    plan["switches"][0]["bridge"] = json!("elsewhere");
    let template = plan["switches"][0].clone();
    let switches = plan["switches"].as_array_mut().expect("switches");
    for n in 0..30_000 {
        let mut switch = template.clone();
        switch["name"] = json!(format!("w{n}"));
        switch["index"] = json!(first + 2 + n);
        switch["bridge"] = match n {
            0 => json!("s"),
            1 => json!("br"),
            _ => json!(format!("br.{}", n - 2)),
        };
        switches.push(switch);
    }
    json!({"dry_run": true, "plan": plan}).to_string()
}

#[test]
fn a_plan_as_long_as_it_may_be_takes_bounded_time() {
    let machine = machine!();
    machine.up(LAB);
    let (_, plan, _) = ask(&machine, "GET /v1/lab/plan", "");
    let a = format!("/nodes/{}", place(&plan, "a"));
    let of = |key: &str| format!("{a}/{key}");
    let variables = long(&plan, &of("env"), |n| format!(r#"["{n:06x}",""]"#));
    let routes = long(&plan, &of("routes"), |_| r#"{"to":"0.0.0.0/0","interface":0}"#.to_owned());
    let addresses = long(&plan, &of("interfaces/0/addresses"), |n| {
        format!(r#""{:x}:{:x}::1/64""#, 0x2000 + (n >> 16), n & 0xffff)
    });
    let bodies = [
        // As long as the one without it, which may be as long as a body can be.
        ("an error at the end", 400, variables[..variables.len() - 1].to_owned() + "]"),
        ("variables", 200, variables),
        ("routes", 200, routes),
        ("addresses", 200, addresses),
        ("names", 200, names_in_a_row(&plan)),
    ];
    let process = machine.lab_process();
    for (what, wanted, body) in bodies {
        let before = worked(process);
        let (status, told, took) = ask(&machine, "POST /v1/lab/apply", &body);
        let work = worked(process) - before;
        // To do it, the caller sends it again.
        let again = json!({"dry_run": true, "expected": told["digest"]}).to_string();
        let kept = ask(&machine, "POST /v1/lab/apply", &again).0;
        let told = told.to_string().chars().take(200).collect::<String>();
        println!("{what}: {} bytes, {work:?} of a processor, {took:?}", body.len());
        assert_eq!(status, wanted, "{what}: {told}");
        assert!(work < WORK, "{what}: {work:?}: {told}");
        let short = body.len() < LONGEST / 2;
        assert_eq!(kept, if short { 200 } else { 400 }, "{what}: kept, or not");
    }
    machine.ok("status");
    machine.down();
}

#[test]
fn no_plan_shows_the_folder_of_labs_to_a_node() {
    let machine = machine!();
    machine.up(LAB);
    let (_, plan, _) = ask(&machine, "GET /v1/lab/plan", "");
    let runtime = machine.scratch().runtime_dir();
    let link = machine.scratch().path().join("elsewhere");
    std::os::unix::fs::symlink(&runtime, &link).expect("a link");
    let around = runtime.parent().expect("around it");
    let bind = |from: &Path| ("binds", json!([{"to": "/mnt", "from": from, "write": true}]));
    let root = |at: &Path| ("root", json!(at));
    for (key, value) in [bind(&runtime), bind(around), bind(&link), root(&runtime), root(&link)] {
        let mut plan = plan.clone();
        let node = place(&plan, "r");
        let told = format!("{key} {value}");
        plan["nodes"][node][key] = value;
        let body = json!({"plan": plan}).to_string();
        let (status, answer, _) = ask(&machine, "POST /v1/lab/apply", &body);
        let reason = answer["detail"].as_str().unwrap_or_default();
        assert!(
            status == 400 && reason.contains("would see the folder of labs"),
            "{told}: {status}: {reason}"
        );
    }
    let (_, now, _) = ask(&machine, "GET /v1/lab/plan", "");
    assert!(now == plan, "a refused plan changed the lab");
    machine.down();
}
