//! Nodes made and removed by command: never with what lives in them unless that is said.

use netloom_tests_e2e::live::{Held, SOON, kill_and_wait};
use netloom_tests_e2e::{Machine, machine, pair, wait_until};

/// Brings a node into the state in which nothing lives there: what was ended may take a moment.
fn delete_when_empty(machine: &Machine, node: &str) {
    let delete = || {
        let done = machine.netloom(["node", "delete", node]).finish();
        (done.status.code() == Some(0)).then_some(())
    };
    wait_until(&format!("{node} can be deleted"), SOON, delete);
}

#[test]
fn processes_keep_a_node_and_are_named() {
    let machine = machine!();
    machine.up(&pair("run: [[tail, -f, /dev/null]]"));
    let mut held = Held::start(machine.exec("b", &["tail", "-F", "/etc/hosts"]));
    // It is there when it has read something.
    held.line();
    machine.refused("node delete a", 1, &["node \"a\"", "1 process", "tail", "--force"]);
    machine.refused("node delete b", 1, &["node \"b\"", "tail", "--force"]);
    assert_eq!(machine.nodes(), ["a", "b"]);
    drop(held);
    delete_when_empty(&machine, "b");
    assert_eq!(machine.nodes(), ["a"]);
    machine.ok("node delete a --force");
    assert!(machine.nodes().is_empty());
    machine.refused("node delete a", 1, &["\"a\""]);
    machine.down();
}

#[test]
fn sockets_keep_a_node_and_are_named() {
    let machine = machine!();
    machine.up(&pair(""));
    let code = "import socket, sys\ns = socket.create_server(('0.0.0.0', 4711))\n\
                print('in', flush=True)\nsys.stdin.read()";
    let mut held = Held::start(machine.python("a", code, &[]));
    assert_eq!(held.line(), "in");
    machine.refused("node delete a", 1, &["node \"a\"", "python3", "4711", "--force"]);
    machine.ok("node delete a --force");
    assert_eq!(machine.nodes(), ["b"]);
    drop(held);
    machine.exec("b", &["true"]).finish().code(0);
    machine.down();
}

#[test]
fn a_socket_without_a_process_keeps_a_node_too() {
    let machine = machine!();
    machine.up(&pair(""));
    // The descriptor is made in the node and held by a process that is not in it.
    let own = machine.scratch().path().join("held.sock");
    let listener = std::os::unix::net::UnixListener::bind(&own).expect("listen");
    let code = "import socket, sys\ns = socket.create_server(('0.0.0.0', 4712))\n\
                u = socket.socket(socket.AF_UNIX)\nu.connect(sys.argv[1])\n\
                socket.send_fds(u, [b'x'], [s.fileno()])\nu.recv(1)";
    let path = own.to_str().expect("a path");
    let words = ["exec", "--no-root", "a", "--", "python3", "-c", code, path];
    let mut sender = Held::start(machine.netloom(words));
    let (stream, _) = listener.accept().expect("accept");
    let held = receive(&stream);
    drop(stream);
    assert!(sender.child().wait().expect("wait").success());
    machine.refused("node delete a", 1, &["node \"a\"", "4712", "--force"]);
    drop(held);
    delete_when_empty(&machine, "a");
    machine.down();
}

/// Takes a descriptor from a stream.
fn receive(stream: &std::os::unix::net::UnixStream) -> std::os::fd::OwnedFd {
    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut into = [std::io::IoSliceMut::new(&mut byte)];
    recvmsg(stream, &mut into, &mut ancillary, RecvFlags::CMSG_CLOEXEC).expect("receive");
    let mut fds = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds.collect::<Vec<_>>()),
        _ => None,
    });
    fds.next().and_then(|mut fds| fds.pop()).expect("a descriptor")
}

#[test]
fn the_other_end_of_a_link_goes_with_a_node() {
    let machine = machine!();
    machine.up(
        "nodes:\n  a: {}\n  b: {}\n  c: {}\nswitches:\n  s: {}\nlinks:\n  - [a, b]\n  - [b, s]\n  - [c, s]\n",
    );
    machine.ok("node delete a");
    let status = machine.status();
    assert_eq!(status["links"].as_array().map(Vec::len), Some(2), "{status}");
    let links = "import socket\nprint(*sorted(n for _, n in socket.if_nameindex()))";
    let gone = || (machine.python("b", links, &[]).ok() == "eth1 lo\n").then_some(());
    wait_until("the link to the deleted node is gone", SOON, gone);
    machine.answers("b", "c");
    machine.ok("node delete c");
    machine.exec("b", &["true"]).finish().code(0);
    machine.down();
}

#[test]
fn nodes_need_no_file() {
    let machine = machine!();
    machine.ok("node create first");
    assert_eq!(machine.status()["name"], "default");
    machine.ok("node create second children=2");
    machine.ok("node create second/inner");
    assert_eq!(machine.nodes(), ["first", "second", "second/inner"]);
    assert_eq!(machine.exec("second/inner", &["hostname"]).ok(), "inner\n");
    let links = machine.python("first", "import socket\nprint(socket.if_nameindex())", &[]).ok();
    assert_eq!(links, "[(1, 'lo')]\n");
    machine.refused("node create first", 1, &["first", "already"]);
    machine.refused("node create nobody/x", 1, &["nobody"]);
    for name in ["-x", "a b", "", "a//b", "/a", "a/", ".", "..", "host"] {
        let done = machine.netloom(["node", "create", name]).finish();
        assert!(matches!(done.status.code(), Some(1 | 2)), "{done}");
        assert_eq!(machine.nodes().len(), 3, "{done}");
    }
    machine.ok("node delete first");
    machine.ok("node delete second");
    assert!(machine.nodes().is_empty());
    machine.ok("node create again");
    machine.exec("again", &["true"]).finish().code(0);
    machine.down();
}

#[test]
fn a_lab_for_a_node_that_is_refused_is_not_left() {
    let machine = machine!();
    machine.refused("node create first colour=red", 2, &["colour"]);
    machine.refused("ls --json", 0, &[]);
    machine.untouched();
}

#[test]
fn a_removal_that_was_cut_off_is_finished_by_the_next_up() {
    let machine = machine!();
    // It stays for as long as programs may take to end.
    let run = "run: [[sh, -c, 'trap : TERM; while :; do sleep 1; done']]";
    let file = machine.file(&pair(run));
    machine.up_file(&file);
    let lab = machine.lab_process();
    let mut delete = Held::start(machine.netloom(["node", "delete", "a", "--force"]));
    let state = machine.scratch().runtime_dir().join("pair/state.json");
    wait_until("it is written that the node is going", SOON, || {
        let text = std::fs::read_to_string(&state).unwrap_or_default();
        let known: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        let goes = known["leaving"].as_array().is_some_and(|ids| !ids.is_empty());
        // On a slow machine it may be over by now; then there is nothing to go on with.
        let over = matches!(delete.child().try_wait(), Ok(Some(_)));
        (goes || over).then_some(())
    });
    kill_and_wait(lab);
    machine.up_file(&file);
    assert_eq!(machine.nodes(), ["b"]);
    drop(delete);
    machine.down();
}

/// Two ways from `a` to `b`, which takes the first.
const TWO_WAYS: &str = "\
switches: {s: {}}
nodes: {a: {}, b: {}, r1: {forwarding: true}, r2: {forwarding: true}}
links:
  - [a, s]
  - [r1, s]
  - [r2, s]
  - [r1, b]
  - [r2, b]
";

#[test]
fn routes_of_others_lead_past_a_deleted_node_at_once() {
    let machine = machine!();
    machine.up(TWO_WAYS);
    let address = |node: &str| {
        let words = ["ip", "-json", "-4", "address", "show", "dev", "eth0"];
        let shown = machine.exec(node, &words).finish().json();
        shown[0]["addr_info"][0]["local"].as_str().expect("an address").to_owned()
    };
    let routes = || machine.exec("a", &["ip", "-4", "route"]).ok();
    let (first, second) = (address("r1"), address("r2"));
    assert!(routes().contains(&first), "{first}: {}", routes());
    machine.ok("node delete r1 --force");
    let left = routes();
    assert!(!left.contains(&first) && left.contains(&second), "{first}, {second}: {left}");
    machine.answers("a", "b");
    machine.ok("node delete r2 --force");
    assert!(!routes().contains("via"), "{}", routes());
    machine.down();
}
