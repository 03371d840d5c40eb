//! Nodes in nodes: the same binary inside a node sees and manages its subtree and nothing else.

use netloom_tests_e2e::live::{Held, SOON, gone, kill_and_wait, names};
use netloom_tests_e2e::{
    Machine, kill, machine, needs, needs_cgroups, signal, wait_until, with_command_line,
};

/// `grandee/tenant` has `left` and `right`, and two lives beside it that it must not see.
const TREE: &str = "
name: outermost
nodes:
  grandee:
    children:
      limit: 6
      nodes:
        tenant:
          children:
            limit: 3
            nodes:
              left: {run: [[tail, -f, /dev/null]]}
              right: {}
        nextdoor: {}
  stranger: {}
links:
  - [grandee/tenant/left, grandee/tenant/right]
  - [grandee/tenant/left, stranger]
  - [grandee/tenant/right, grandee/nextdoor]
";

const TENANT: &str = "grandee/tenant";

/// What must not be seen from inside `grandee/tenant`.
const OUTSIDE: [&str; 4] = ["outermost", "grandee", "nextdoor", "stranger"];

#[test]
fn a_node_sees_its_own_subtree_alone() {
    let machine = machine!();
    machine.up(TREE);
    wait_until("its nodes reach each other", SOON, || {
        machine.inside(TENANT, ["ping", "--all"]).finish().status.success().then_some(())
    });
    let questions = [
        "ls",
        "ls --json",
        "node list",
        "node list --json",
        "status",
        "status --json",
        "link list --json",
        "graph",
        "graph --svg",
        "node show left",
        "node show left --json",
        "ping --all",
    ];
    for question in questions {
        let said = machine.inside(TENANT, question.split(' ')).finish().code(0);
        for name in OUTSIDE {
            assert!(!said.text().contains(name), "shows {name:?}\n{said}");
            assert!(!said.errors().contains(name), "shows {name:?}\n{said}");
        }
    }
    let status = machine.inside(TENANT, ["status", "--json"]).finish().code(0).json();
    assert_eq!(names(&status["nodes"]), ["left", "right"]);
    assert_eq!(status["links"].as_array().map(Vec::len), Some(1), "{status}");
    let labs = machine.inside(TENANT, ["ls", "--json"]).finish().code(0).json();
    assert_eq!(names(&labs), ["tenant"]);
    let above = machine.inside("grandee", ["node", "list", "--json"]).finish().code(0).json();
    assert_eq!(names(&above), ["tenant", "tenant/left", "tenant/right", "nextdoor"]);
    machine.down();
}

#[test]
fn what_is_outside_can_neither_be_read_nor_changed() {
    let machine = machine!();
    machine.up(TREE);
    let before = machine.status();
    for name in ["nextdoor", "stranger", "grandee", "../nextdoor", "grandee/nextdoor", "tenant"] {
        let tries = [
            format!("node show {name}"),
            format!("node set {name} weight=1"),
            format!("node delete {name} --force"),
            format!("exec {name} -- true"),
            format!("logs {name}"),
            format!("node create {name}/new"),
            format!("node move-interface {name}:eth0 left"),
            format!("node move-interface left:eth0 {name}"),
            format!("link set {name}:eth0 --delay 1ms"),
        ];
        for words in tries {
            let done = machine.inside(TENANT, words.split(' ')).finish().code(1);
            let hidden = OUTSIDE.iter().filter(|outer| !name.contains(**outer));
            for outer in hidden {
                assert!(!done.errors().contains(outer), "names {outer:?}\n{done}");
            }
        }
    }
    machine.refused_inside(TENANT, "node set . weight=1", 1, &["tenant"]);
    machine.refused_inside(TENANT, "exec . -- true", 1, &["tenant"]);
    machine.refused_inside(TENANT, "node move-interface host:lo left", 1, &["host:lo"]);
    machine.refused_inside(TENANT, "node move-interface left:eth0 host", 1, &["tenant"]);
    // A link that leaves the subtree has no name in it.
    machine.refused_inside(TENANT, "link show left:eth1", 1, &["left:eth1"]);
    machine.refused_inside(TENANT, "link set left:eth1 --delay 1ms", 1, &["left:eth1"]);
    let after = machine.status();
    assert_eq!(names(&before["nodes"]), names(&after["nodes"]));
    machine.down();
}

#[test]
fn an_expression_names_only_nodes_that_are_seen() {
    needs!("libpcap");
    let machine = machine!();
    machine.up(TREE);
    let set = |expression: &str| {
        machine.inside(TENANT, ["link", "set", "left:eth0", "--drop", expression]).finish()
    };
    let seen = || machine.inside(TENANT, ["link", "list", "--json"]).finish().code(0).text();
    let link = "grandee/tenant/left:eth0";
    let drop = || {
        let wire = machine.link(link)["wire"]["directions"][0]["impairments"]["drop"].clone();
        wire.as_str().map(str::to_owned)
    };
    set("udp and dst host right and src port 7").code(0);
    let whole = "udp and dst host grandee/tenant/right and src port 7";
    assert_eq!(drop().as_deref(), Some(whole));
    assert!(seen().contains("udp and dst host right and src port 7"), "{}", seen());
    // Whether a name is one outside or that of nothing is not told, nor is it looked up.
    for name in ["stranger", "grandee/nextdoor", "nextdoor", "nothing.example"] {
        for expression in [format!("host {name}"), format!("flow:left->{name}:80/tcp")] {
            let refused = set(&expression);
            let words = refused.errors();
            assert!(words.contains(&format!("node {name:?}: not in lab \"tenant\"")), "{words}");
        }
    }
    assert_eq!(drop().as_deref(), Some(whole));
    let words = ["link", "set", link, "--drop", "host stranger or host grandee/tenant/left"];
    machine.netloom(words).finish().code(0);
    assert!(seen().contains("host (outside) or host left"), "{}", seen());
    let mac = "02:00:00:00:00:77";
    let words = ["link", "create", "left", "right", "--mac", &format!("left={mac}")];
    machine.inside(TENANT, words).finish().code(0);
    let made = machine.netloom(["node", "show", "grandee/tenant/left", "--json"]).finish();
    assert!(made.text().contains(mac), "{made}");
    machine.down();
}

#[test]
fn nobody_takes_down_the_lab_he_lives_in() {
    let machine = machine!();
    machine.up(TREE);
    machine.refused_inside(TENANT, "down", 1, &["tenant", "cannot"]);
    machine.refused_inside(TENANT, "down --all", 1, &["tenant", "cannot"]);
    machine.refused_inside(TENANT, "down outermost", 1, &["outermost"]);
    machine.exec("grandee/tenant/left", &["true"]).finish().code(0);
    machine.down();
}

#[test]
fn children_are_counted_by_every_node_above() {
    let machine = machine!();
    machine.up(TREE);
    machine.inside(TENANT, ["node", "create", "third"]).finish().code(0);
    machine.refused_inside(TENANT, "node create fourth", 1, &["fourth", "tenant", "limit is 3"]);
    machine.refused("node create grandee/tenant/fourth", 1, &["fourth", "tenant", "limit is 3"]);
    // grandee has tenant, its three, and nextdoor: there is room for one more, at any depth.
    machine.inside("grandee", ["node", "create", "last", "children=5"]).finish().code(0);
    machine.refused_inside("grandee", "node create last/deep", 1, &["deep", "limit is 6"]);
    machine.refused("node create grandee/more", 1, &["more", "grandee", "limit is 6"]);
    machine.refused("node create stranger/new", 1, &["stranger"]);
    machine.inside(TENANT, ["node", "delete", "third"]).finish().code(0);
    machine.inside("grandee", ["node", "create", "last/deep"]).finish().code(0);
    let view = machine.node("grandee");
    assert_eq!(view["children"]["count"], 6, "{view}");
    machine.down();
}

#[test]
fn a_child_gets_no_more_than_its_parent() {
    needs_cgroups!();
    let machine = machine!();
    machine.up(
        "nodes:\n  p: {limits: {cpu: 50%, memory: 64MiB, processes: 40}, children: {limit: 9}}\n",
    );
    for (key, more, same) in
        [("cpu", "51%", "50%"), ("memory", "65MiB", "64MiB"), ("processes", "41", "40")]
    {
        let words = format!("node create c {key}={more}");
        machine.refused_inside("p", &words, 2, &["\"c\"", key, more, same]);
        machine.refused(&format!("node create p/c {key}={more}"), 2, &["p/c", key, more, same]);
        machine.inside("p", ["node", "create", "c", &format!("{key}={same}")]).finish().code(0);
        machine.refused(&format!("node set p/c {key}={more}"), 2, &["p/c", key]);
        // Nor can the parent get less than its child has.
        let less = [("cpu", "49%"), ("memory", "63MiB"), ("processes", "39")];
        let (_, less) = less.iter().find(|(k, _)| *k == key).expect("each key");
        machine.refused(&format!("node set p {key}={less}"), 2, &["\"p\"", key]);
        machine.inside("p", ["node", "delete", "c"]).finish().code(0);
    }
    machine.down();
}

#[test]
fn a_childs_processes_count_for_its_parent() {
    needs_cgroups!();
    let machine = machine!();
    machine.up("nodes:\n  p:\n    limits: {processes: 30}\n    children: {nodes: {c: {}}}\n");
    let fork = "import os, time\nmade = []\ntry:\n  while len(made) < 100:\n    child = os.fork()\n    \
                if child == 0: time.sleep(600)\n    made.append(child)\n\
                except BlockingIOError: pass\nprint(len(made))\n\
                for child in made: os.kill(child, 9)\nfor child in made: os.waitpid(child, 0)";
    let made: u32 = machine.python("p/c", fork, &[]).ok().trim().parse().expect("a number");
    assert!((10..30).contains(&made), "{made} processes in a child of a node of at most 30");
    machine.down();
}

#[test]
fn exec_enters_children_from_inside_and_from_outside() {
    let machine = machine!();
    machine.up(TREE);
    assert_eq!(machine.exec("grandee/tenant/left", &["hostname"]).ok(), "left\n");
    assert_eq!(machine.inside(TENANT, ["exec", "left", "--", "hostname"]).ok(), "left\n");
    assert_eq!(machine.inside("grandee", ["exec", "tenant/left", "--", "hostname"]).ok(), "left\n");
    let links = machine.inside(TENANT, ["exec", "right", "--", "ls", "/sys/class/net"]).ok();
    assert_eq!(links.split_whitespace().collect::<Vec<_>>(), ["eth0", "eth1", "lo"]);
    let words = ["exec", "right", "--", "ping", "-c", "1", "-W", "30", "left.tenant.grandee"];
    wait_until("an answer", SOON, || {
        machine.inside(TENANT, words).finish().status.success().then_some(())
    });
    for code in [0, 1, 7, 255] {
        let script = format!("exit {code}");
        machine.inside(TENANT, ["exec", "left", "--", "sh", "-c", &script]).finish().code(code);
    }
    let bytes: Vec<u8> = (0..1_000_000_u32).map(|i| i.to_le_bytes()[1]).collect();
    let done = machine.inside(TENANT, ["exec", "left", "--", "cat"]).input(bytes.clone()).finish();
    assert!(done.stdout == bytes, "1 MB went in, {} other bytes came out", done.stdout.len());
    // A child's child-less node has no way to manage anything.
    machine.inside("grandee/tenant/left", ["ls", "--json"]).finish().code(0);
    machine.refused_inside("grandee/tenant/left", "node create x", 3, &["namespaces"]);
    machine.down();
}

#[test]
fn exec_without_root_keeps_the_callers_files() {
    let machine = machine!();
    machine.up(TREE);
    let note = machine.scratch().file("note", "of the caller\n");
    let note = note.to_str().expect("a path");
    let own = "/srv/own-note";
    let enter = |words: &[&str]| {
        machine.netloom(["exec", "--no-root", "stranger", "--"].iter().chain(words)).finish()
    };
    assert_eq!(enter(&["hostname"]).code(0).text(), "stranger\n");
    assert_eq!(enter(&["cat", note]).code(0).text(), "of the caller\n");
    let links = enter(&[
        "python3",
        "-c",
        "import socket\nprint(*sorted(n for _, n in socket.if_nameindex()))",
    ]);
    assert_eq!(links.code(0).text(), "eth0 lo\n");
    // Writes go to the caller's files, not to the node's.
    enter(&["sh", "-c", &format!("echo more >> {note}")]).code(0);
    assert_eq!(std::fs::read_to_string(note).expect("read"), "of the caller\nmore\n");
    machine.exec("stranger", &["sh", "-c", &format!("mkdir -p /srv; echo x > {own}")]).finish();
    enter(&["test", "-e", own]).code(1);
    machine.down();
}

#[test]
fn the_callers_files_are_shown_to_no_node_that_others_manage() {
    let machine = machine!();
    machine.up(TREE);
    for node in ["grandee", TENANT, "grandee/tenant/left"] {
        machine.refused(&format!("exec --no-root {node} -- true"), 1, &[node, "--no-root"]);
    }
    machine.refused_inside(TENANT, "exec --no-root left -- true", 1, &["left", "--no-root"]);
    machine.down();
}

#[test]
fn a_program_in_a_child_gets_the_callers_signals_and_ends_with_it() {
    let machine = machine!();
    machine.up(TREE);
    let script = "trap 'echo got usr1; exit 3' USR1; echo begun; while :; do sleep 0.1; done";
    let mut caller =
        Held::start(machine.inside(TENANT, ["exec", "left", "--", "sh", "-c", script]));
    assert_eq!(caller.line(), "begun");
    signal(caller.pid(), rustix::process::Signal::USR1);
    assert_eq!(caller.line(), "got usr1");
    assert_eq!(caller.child().wait().expect("wait for it").code(), Some(3));

    let line = format!("sleep {}.7", 80_000 + std::process::id());
    let script = format!("setsid {line} & {line}");
    let caller = Held::start(machine.inside(TENANT, ["exec", "left", "--", "sh", "-c", &script]));
    let sleeping = || comms(&line).iter().filter(|comm| *comm == "sleep").count();
    wait_until("both sleep", SOON, || (sleeping() == 2).then_some(()));
    drop(caller);
    wait_until("both have ended", SOON, || (sleeping() == 0).then_some(()));
    machine.down();
}

/// A lab of `p` with the node `c` in it; copies a file of the child's from inside.
const FAMILY: &str = "nodes: {p: {children: {limit: 2, nodes: {c: {}}}}}\n";
const COPY: &str = "cp c:/etc/hostname /tmp/copy";

#[test]
fn an_ordinary_node_enters_none_of_its_children() {
    let machine = machine!();
    machine.up(FAMILY);
    machine.refused_inside("p", COPY, 1, &["\"c\"", "privileged: true"]);
    machine.refused_inside("p", "node set c privileged=true", 2, &["\"c\"", "privileged"]);
    machine.refused_inside("p", "node create d privileged=true", 2, &["\"d\"", "privileged"]);
    machine.down();
}

#[test]
fn a_privileged_node_enters_its_children() {
    let machine = machine!();
    machine.up(&FAMILY.replace("p: {", "p: {privileged: true, "));
    machine.inside("p", COPY.split(' ')).finish().code(0);
    assert_eq!(machine.inside("p", ["exec", "c", "--", "hostname"]).ok(), "c\n");
    machine.inside("p", ["node", "create", "d", "privileged=true"]).finish().code(0);
    machine.down();
}

#[test]
fn a_deleted_node_takes_its_subtree_along() {
    let machine = machine!();
    machine.up(TREE);
    let pids: Vec<i32> = machine.inits().into_iter().map(|(_, pid)| pid).collect();
    machine.refused("node delete grandee", 1, &["grandee", "tail", "--force"]);
    machine.ok("node delete grandee --force");
    assert_eq!(machine.nodes(), ["stranger"]);
    let (last, others) = pids.split_last().expect("some");
    assert!(others.iter().all(|pid| gone(*pid)), "inits are left");
    assert!(!gone(*last));
    machine.exec("stranger", &["true"]).finish().code(0);
    machine.ok("node create grandee children=1");
    machine.inside("grandee", ["node", "create", "tenant"]).finish().code(0);
    machine.down();
}

/// A sleep that can be told from others, held in a node.
fn sleeper(machine: &Machine, node: &str, serial: u32) -> (Held, String) {
    let line = format!("sleep {}.{serial}", 80_000 + std::process::id());
    let held = Held::start(machine.exec(node, &line.split(' ').collect::<Vec<_>>()));
    let runs = || comms(&line).contains(&"sleep".to_owned()).then_some(());
    wait_until("the sleep has begun", SOON, runs);
    (held, line)
}

fn comms(line: &str) -> Vec<String> {
    let comm = |pid| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    with_command_line(line).into_iter().map(|pid| comm(pid).trim().to_owned()).collect()
}

#[test]
fn a_killed_parent_ends_its_children_and_up_makes_all_anew() {
    let machine = machine!();
    let file = machine.file(TREE);
    machine.up_file(&file);
    let before = machine.inits();
    let (_one, of_child) = sleeper(&machine, "grandee/tenant/right", 1);
    let (_other, of_sibling) = sleeper(&machine, "grandee/nextdoor", 2);
    kill(machine.init(TENANT));
    let dead = |pids: &[(String, i32)]| {
        let inside = pids.iter().filter(|(name, _)| name.starts_with(TENANT));
        inside.into_iter().all(|(_, pid)| gone(*pid))
    };
    wait_until("the subtree has ended", SOON, || dead(&before).then_some(()));
    wait_until("the child's sleep has ended", SOON, || comms(&of_child).is_empty().then_some(()));
    assert!(comms(&of_sibling).contains(&"sleep".to_owned()), "a sibling's process has ended");
    let degraded = || (machine.status()["state"] == "degraded").then_some(());
    wait_until("the lab is degraded", SOON, degraded);
    machine.up_file(&file);
    assert_eq!(machine.status()["state"], "up");
    let after = machine.inits();
    for ((name, old), (same, new)) in before.iter().zip(&after) {
        assert_eq!(name, same);
        assert_eq!(old != new, name.starts_with(TENANT), "init of {name}: {old}, {new}");
    }
    for (from, to) in
        [("grandee/tenant/left", "stranger"), ("grandee/tenant/right", "nextdoor.grandee")]
    {
        machine.answers(from, to);
    }
    let list = machine.inside(TENANT, ["node", "list", "--json"]).finish().code(0).json();
    assert_eq!(names(&list), ["left", "right"]);
    machine.down();
}

#[test]
fn an_adopted_lab_is_seen_from_inside_again() {
    let machine = machine!();
    let file = machine.file(TREE);
    machine.up_file(&file);
    let before = machine.inits();
    kill_and_wait(machine.lab_process());
    machine.up_file(&file);
    assert_eq!(machine.inits(), before);
    let list = machine.inside(TENANT, ["node", "list", "--json"]).finish().code(0).json();
    assert_eq!(names(&list), ["left", "right"]);
    machine.inside(TENANT, ["node", "create", "third"]).finish().code(0);
    assert_eq!(machine.inside(TENANT, ["exec", "third", "--", "hostname"]).ok(), "third\n");
    machine.refused_inside(TENANT, "node create fourth", 1, &["limit is 3"]);
    machine.down();
}
