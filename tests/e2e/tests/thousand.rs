//! A thousand nodes come up, are shown, talk, and go; in a long run ten thousand.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use netloom_kit::{done, rounds};
use netloom_tests_e2e::capturing::Capturing;
use netloom_tests_e2e::{Machine, machine, root_only};
use serde_json::{Value, json};

const NODES: usize = 1000;

#[test]
fn a_ring_of_a_thousand_nodes() {
    let machine = machine!();
    let mut text = String::from("name: thousand\nnodes:\n");
    for node in 0..NODES {
        writeln!(text, "  n{node}: {{}}").unwrap();
    }
    text.push_str("links:\n");
    for node in 0..NODES {
        writeln!(text, "  - [n{node}, n{}]", (node + 1) % NODES).unwrap();
    }
    machine.up(&text);
    assert_eq!(machine.inits().len(), NODES);
    // A name means the first interface, which a node shares with the one before it.
    for (from, to) in [("n0", "n1"), ("n499", "n500"), ("n998", "n999")] {
        machine.answers(from, to);
    }
    let down = machine.netloom(["down", "thousand"]).bound(Duration::from_secs(300));
    down.finish().code(0);
    machine.down();
}

/// How long a step of the long run may take on a busy machine.
const LONG: Duration = Duration::from_secs(3600);

/// Reads by threads of the lab process that have ended: those that visit nodes. Its other threads, which watch the lab, go on.
fn reads_of_visits(machine: &Machine) -> impl Fn(&dyn Fn()) -> u64 {
    let folder = format!("/proc/{}", machine.lab_process());
    let reads = |path: String| -> Option<u64> {
        let text = std::fs::read_to_string(format!("{path}/io")).ok()?;
        text.lines().find_map(|line| line.strip_prefix("syscr: ")?.parse().ok())
    };
    let threads = {
        let folder = folder.clone();
        move || -> BTreeMap<String, u64> {
            let all = std::fs::read_dir(format!("{folder}/task")).expect("its threads").flatten();
            let read = |path: String| Some((path.clone(), reads(path)?));
            all.filter_map(|entry| read(entry.path().to_str()?.to_owned())).collect()
        }
    };
    move |work| {
        let total = || reads(folder.clone()).expect("its reads");
        let (before, first) = (threads(), total());
        work();
        let (last, after) = (total(), threads());
        let stayed = |(path, begun): (&String, &u64)| Some(after.get(path)?.saturating_sub(*begun));
        // One that reads on between the two looks must not make the sum negative.
        (last - first).saturating_sub(before.iter().filter_map(stayed).sum())
    }
}

/// What a list costs is what it shows, however large the lab is.
fn lists_cost_what_they_show(machine: &Machine, nodes: usize) {
    let ask = |words: &[&str]| machine.netloom(words).bound(LONG).finish().code(0);
    let names = |listed: &Value| -> Vec<String> {
        let all = listed.as_array().expect("a list").iter();
        all.map(|one| one["name"].as_str().expect("a name").to_owned()).collect()
    };
    let reads = reads_of_visits(machine);
    let page = reads(&|| {
        let shown = ask(&["status", "--limit", "10", "--after", "n9", "--json"]).json();
        assert_eq!(names(&shown["nodes"]), (10..20).map(|n| format!("n{n}")).collect::<Vec<_>>());
        let links = shown["links"].as_array().expect("links");
        assert_eq!(links.len(), 31, "of the ring and chords at 10 nodes in a row");
        assert!(links.iter().all(|link| link["up"] == true), "both ends of each are read: {shown}");
        assert_eq!(shown["state"], "up");
    });
    assert!((10..100 * 10).contains(&page), "{page} reads for 10 nodes");
    let count = reads(&|| {
        let text = ask(&["ls"]).text();
        assert!(text.contains(&format!("up     {nodes}  ")), "{text}");
    });
    assert!(count < 100, "{count} reads to count nodes");
    // In text a large lab is shown by pages, which say what follows.
    let shown = ask(&["status"]);
    assert!(
        shown.text().contains(&format!("{nodes} nodes, {} links\nnodes: {nodes} up\n", 2 * nodes)),
        "{shown}"
    );
    assert!(shown.text().contains("\nn199 ") && !shown.text().contains("\nn200 "), "{shown}");
    assert!(shown.errors().contains("write --after n199"), "{shown}");
    for list in ["node", "link"] {
        let first = names(&ask(&[list, "list", "--limit", "5", "--json"]).json());
        let second =
            names(&ask(&[list, "list", "--limit", "5", "--after", &first[4], "--json"]).json());
        let both = names(&ask(&[list, "list", "--limit", "10", "--json"]).json());
        assert_eq!([first, second].concat(), both, "{list}s");
        assert_eq!(ask(&[list, "list"]).text().lines().count(), 1 + 200, "a heading and a page");
    }
    machine.netloom(["node", "list", "--after", "nowhere"]).finish().code(1).says("nowhere");
    if nodes <= NODES {
        let whole = reads(&|| {
            let all = ask(&["status", "--json"]).json();
            assert_eq!(all["nodes"].as_array().map(Vec::len), Some(nodes));
            assert_eq!(all["links"].as_array().map(Vec::len), Some(2 * nodes));
        });
        let (each, of_page) = (whole / nodes as u64, page / 10);
        assert!(each > 0 && of_page <= 2 * each, "{each} reads a node of all, {of_page} of a page");
    }
}

/// As many nodes need more blocks of addresses than a pool has, and more files than may be open if each node took two.
#[test]
fn a_ring_with_chords_is_used() {
    root_only!("has more processes than an ordinary user may have");
    let machine = machine!();
    let nodes = usize::try_from(rounds(400)).expect("fits").min(10_000);
    let chord = nodes / 2 - 7;
    // The one router: its neighbours reach each other, and no other node has routes.
    let mut text = String::from("name: chords\nnodes:\n  n0: {}\n  n1: {forwarding: true}\n");
    (2..nodes).for_each(|node| writeln!(text, "  n{node}: {{}}").unwrap());
    text.push_str("links:\n");
    for step in [1, chord] {
        (0..nodes).for_each(|n| writeln!(text, "  - [n{n}, n{}]", (n + step) % nodes).unwrap());
    }
    machine
        .netloom(["up", machine.file(&text).to_str().expect("a path")])
        .bound(LONG)
        .finish()
        .code(0);
    let files =
        std::fs::read_dir(format!("/proc/{}/fd", machine.lab_process())).expect("its files");
    let files = files.count();
    assert!((nodes..nodes + 100).contains(&files), "{files} open files with {nodes} nodes");
    // Around the ring, by its router, and along the chord.
    let (near, far) = (format!("n{chord}"), format!("eth2.n{}", chord + 1));
    machine.answers("n0", &format!("eth2.{near}"));
    machine.answers("n0", &far);
    let capture = Capturing::start(&machine, "n1 -c 2", "n1.pcapng");
    machine.answers("n0", &far);
    assert_eq!(capture.finish(0).total("written"), 2);
    machine.netloom(["link", "set", "n0", "n1", "--down"]).bound(LONG).finish().code(0);
    let unheard = machine.exec("n0", &["ping", "-c", "1", "-W", "1", &far]).finish();
    assert!(!unheard.status.success(), "{unheard}");
    machine.netloom(["link", "set", "n0", "n1", "--up"]).bound(LONG).finish().code(0);
    machine.answers("n0", &far);
    let listed = machine.netloom(["ls", "--json"]).bound(LONG).finish().code(0).json();
    let figures = [&listed[0]["nodes"], &listed[0]["links"], &listed[0]["state"]];
    assert_eq!(figures, [&json!(nodes), &json!(2 * nodes), &json!("up")], "{listed}");
    lists_cost_what_they_show(&machine, nodes);
    let last = machine.netloom(["node", "show", &format!("n{}", nodes - 1), "--json"]);
    let last = last.bound(LONG).finish().code(0).json();
    assert_eq!(last["interfaces"].as_array().map(Vec::len), Some(4), "{last}");
    machine.netloom(["down", "chords"]).bound(LONG).finish().code(0);
    done("nodes of a lab", nodes);
    machine.down();
}
