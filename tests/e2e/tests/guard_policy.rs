//! Policies and files of `guard`: free ports, what was refused, files that several guards share, places where nothing can
//! be written, and floods of questions.

use netloom_tests_e2e::{Run, is_root, machine, needs, ordinary_only, wait_until};

use super::guard::{KEYS, SOON, Server, alone, go, terminal, waiting};

/// Listens on ports that the kernel chooses, twice, once without bind, and once with UDP.
const FREE: &str = "
import socket
for _ in range(2):
    listener = socket.create_server(('127.0.0.1', 0))
    client = socket.create_connection(listener.getsockname())
    listener.accept()[0].send(b'hello')
    print(client.recv(9).decode())
socket.socket().listen()
s = socket.socket(type=socket.SOCK_DGRAM)
s.bind(('127.0.0.1', 0))
";

/// Listens on a port of its own.
const NAMED: &str = "
import socket, sys
held = [socket.socket(), socket.socket()]
held[0].bind(('127.0.0.1', 0))
port = held[0].getsockname()[1]
held[0].close()
held[1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
held[1].bind(('127.0.0.1', port))
held[1].listen()
";

#[test]
fn a_port_that_the_kernel_chooses_is_learned_as_such() {
    needs!("python3");
    let machine = machine!();
    let python = |flags: &[&str], script: &str| {
        alone(&machine, &[&["guard"], flags, &["--", "python3", "-c", script]].concat()).finish()
    };
    let learned = python(&["--learn", "p.yaml"], FREE).code(0);
    assert_eq!(learned.text(), "hello\nhello\n");
    let path = machine.scratch().path().join("p.yaml");
    let text = std::fs::read_to_string(&path).expect("a policy");
    let listens: Vec<_> = text.lines().filter(|line| line.contains("allow: in")).collect();
    assert_eq!(listens.len(), 1, "{text}");
    assert!(listens[0].contains("to: [0.0.0.0, 127.0.0.1], port: free, protocol: tcp}"), "{text}");
    // To where the clients connected is another port each time.
    machine.scratch().file("p.yaml", format!("{text}  - {{allow: out, to: 127.0.0.1}}\n"));
    let frozen = ["--policy", "p.yaml", "--frozen", "--log", "log"];
    python(&frozen, FREE).code(0);
    let done = python(&frozen, NAMED).code(4).says("allowed by: {allow: in, program: ");
    assert!(done.errors().contains("PermissionError") && !done.errors().contains("free"), "{done}");
    let report = alone(&machine, &["guard", "report", "log"]).ok();
    let free: Vec<_> = report.lines().filter(|line| line.contains(":free ")).collect();
    assert!(free.len() == 2 && free.iter().all(|line| line.contains(" in ")), "{report}");
    assert!(free[1].ends_with(" 2"), "{report}");
    // In PATH may stand a script that starts it.
    let program = listens[0].split("program: ").nth(1).and_then(|rest| rest.split(',').next());
    let check = |target: &str| {
        let words = ["guard", "check", "p.yaml", "--", program.expect("it"), "in", target];
        alone(&machine, &words).finish()
    };
    check("127.0.0.1:free").code(0);
    check("127.0.0.1:8000").code(1);
    machine.untouched();
}

/// Calls its own listener from elsewhere and from a peer, and prints which connections come.
const LISTENS: &str = "
import socket
s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen()
held = []
for host in ('127.0.0.1', '127.0.0.2'):
    c = socket.socket(); c.bind((host, 0)); c.setblocking(False)
    c.connect_ex(s.getsockname()); held.append(c)
print(s.getsockname()[1], flush=True)
for _ in range(2): print(s.accept()[1][0], flush=True)
";

/// Runs it under guard, and calls it from elsewhere and from a peer before and after it has accepted one.
const CALLS: &str = "
import socket, subprocess, sys
guard = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, text=True)
port = int(guard.stdout.readline())
def call(host):
    c = socket.socket(); c.bind((host, 0)); c.setblocking(False)
    c.connect_ex(('127.0.0.1', port)); return c
held = [call('127.0.0.1')]
came = [guard.stdout.readline().strip()]
held += [call('127.0.0.1'), call('127.0.0.2')]
came += guard.stdout.read().split()
print(came, guard.wait())
";

/// By a filter, or for users that may set none by a look at each connection.
#[test]
fn a_listener_is_reached_by_its_peers_from_inside_and_from_elsewhere() {
    needs!("python3");
    let machine = machine!();
    let text = "default: deny\nrules: [{allow: in, port: free, from: 127.0.0.2}, {allow: out}]\n";
    machine.scratch().file("p.yaml", text);
    let netloom = netloom_kit::Binary::find();
    let run = |flags: &[&str], script: &str| {
        let run =
            Run::new("setsid").args(["--wait", "python3", "-c", CALLS]).args([netloom.path()]);
        let run = run.args(["guard"]).args(flags).args(["--", "python3", "-c", script]);
        run.dir(machine.scratch().path())
            .env("XDG_CONFIG_HOME", machine.scratch().path())
            .env("NETLOOM_RUNTIME_DIR", machine.scratch().runtime_dir())
            .finish()
    };
    let check = |from: &str| {
        let words = ["guard", "check", "p.yaml", "--", "python3", "in", ":free", "from", from];
        alone(&machine, &words).finish()
    };
    let told = check("127.0.0.2").code(0).text();
    assert!(told.ends_with("\n  from 127.0.0.2: let in, since 127.0.0.2 may come\n"), "{told}");
    let told = check("127.0.0.1").code(1).text();
    assert!(told.ends_with("\n  from 127.0.0.1: kept out, since 127.0.0.2 may come\n"), "{told}");
    let done = run(&["--policy", "p.yaml"], LISTENS).code(0);
    assert_eq!(done.text(), "['127.0.0.2', '127.0.0.2'] 0\n");
    // Elsewhere comes where nobody is kept from it.
    let done = run(&["--default", "allow"], LISTENS).code(0);
    assert_eq!(done.text(), "['127.0.0.1', '127.0.0.2'] 0\n");
    machine.untouched();
}

#[test]
fn what_a_rule_denies_is_not_told_and_what_the_default_denies_is() {
    needs!("curl");
    let (machine, server, other) = (machine!(), Server::start(), Server::start());
    let text = format!("default: deny\nrules: [{{deny: out, port: {}}}]\n", server.port);
    machine.scratch().file("p.yaml", &text);
    let guard = |url: &str| {
        alone(&machine, &["guard", "--policy", "p.yaml", "--", "curl", "-s", url]).finish().code(7)
    };
    assert_eq!(guard(&server.url()).errors(), "");
    let done = guard(&other.url()).says("netloom: guard: refused, since no rule is about it:\n");
    assert_eq!(done.errors().lines().count(), 2, "{done}");
    assert_eq!(server.served() + other.served(), 0);
    machine.untouched();
}

#[test]
fn two_guards_share_a_policy() {
    needs!("curl");
    ordinary_only!("root may write anything");
    let (machine, one, two) = (machine!(), Server::start(), Server::start());
    let path = machine.scratch().file("p.yaml", "default: ask\n");
    let policy = path.to_str().expect("a path");
    let tries = format!(
        "echo default: allow > {policy}; mv -f other {policy}; cat {policy}; curl -s {}",
        two.url()
    );
    machine.scratch().file("other", "default: allow\n");
    let (pipe, script) = waiting(&machine, &tries);
    let guard = |command: &[&str]| {
        terminal(&machine, &[&["guard", "--policy", policy, "--"], command].concat())
    };
    let mut second = guard(&["sh", "-c", &script]);
    second.expect_times("ready", 1);
    let mut first = guard(&["curl", "-s", &one.url()]);
    first.expect_times(KEYS, 1);
    first.type_text("a");
    first.expect_times("allow what?", 1);
    first.type_text("d");
    first.expect_times("1 rule remembered in ", 1);
    assert_eq!(first.finish().code(), Some(0));
    let rule = |server: &Server| format!("to: 127.0.0.1, port: {}, protocol: tcp}}", server.port);
    let read = || std::fs::read_to_string(&path).expect("the policy");
    assert!(read().contains(&rule(&one)), "{}", read());
    go(&pipe);
    second.expect_times(KEYS, 1);
    assert!(read().contains(&rule(&one)) && !read().contains("allow\n"), "{}", read());
    second.type_text("a");
    second.expect_times("allow what?", 1);
    second.type_text("d");
    second.expect_times("1 rule remembered in ", 1);
    assert_eq!(second.finish().code(), Some(0));
    assert!(read().contains(&rule(&one)) && read().contains(&rule(&two)), "{}", read());
    assert!(!read().contains("default: allow"), "{}", read());
    machine.untouched();
}

#[test]
fn answers_that_are_another_users_are_named_with_what_helps() {
    use std::os::unix::fs::{PermissionsExt, chown};
    let machine = machine!();
    let home = machine.scratch().path().join("home");
    let file = home.join("netloom/guard.yaml");
    std::fs::create_dir_all(file.parent().expect("a folder")).expect("make it");
    std::fs::write(&file, "default: deny\n").expect("write it");
    let guard = || alone(&machine, &["guard", "--", "true"]).env("XDG_CONFIG_HOME", &home).finish();
    guard().code(0);
    let shown = file.display().to_string();
    if is_root() {
        chown(&file, Some(65534), None).expect("give it away");
        guard().code(2).says(&shown).says("its rules are user 65534's, and you are user 0: ");
    } else {
        let set = |mode| std::fs::set_permissions(&home, PermissionsExt::from_mode(mode));
        set(0o000).expect("close it");
        let done = guard().code(2).says(&shown).says("permission denied; XDG_CONFIG_HOME is ");
        set(0o700).expect("open it");
        done.says("or give a policy with --policy FILE");
    }
    machine.untouched();
}

#[test]
fn where_nothing_can_be_learned_nothing_starts() {
    let machine = machine!();
    let started = machine.scratch().path().join("started");
    let guard = |file: &str, command: &[&str]| {
        alone(&machine, &[&["guard", "--learn", file, "--"], command].concat()).finish()
    };
    for (file, why) in
        [("none/p.yaml", "none/p.yaml: write: "), ("/dev/null", "not a regular file")]
    {
        guard(file, &["touch", "started"]).code(2).says(why);
    }
    // Nobody writes into it.
    Run::new("mkfifo").args([machine.scratch().path().join("pipe")]).ok();
    let args = ["guard", "--policy", "pipe", "--", "touch", "started"];
    alone(&machine, &args).finish().code(2).says("not a regular file");
    if !is_root() {
        guard("/proc/p.yaml", &["touch", "started"]).code(2).says("/proc/p.yaml: write: ");
    }
    assert!(!started.exists());
    guard("p.yaml", &["no-such-command-anywhere"]).code(127);
    assert!(!machine.scratch().path().join("p.yaml").exists());
    guard("p.yaml", &["touch", "started"]).code(0);
    let text = std::fs::read_to_string(machine.scratch().path().join("p.yaml")).expect("a policy");
    assert_eq!(text, "default: deny\nunanswered: deny\nrules: []\n");
    assert!(started.exists());
    machine.untouched();
}

#[test]
fn a_full_disk_stops_no_program_and_is_told() {
    needs!("curl");
    let (machine, server) = (machine!(), Server::start());
    let url = server.url();
    let args = ["guard", "--default", "allow", "--log", "/dev/full", "--", "curl", "-s", &url];
    let done = alone(&machine, &args).finish().code(0);
    assert_eq!(done.text(), "hello\n");
    done.says("1 decision not in the log: No space left on device");
    machine.untouched();
}

/// Connects to many ports at once, and says when all calls have returned.
const FLOOD: &str = "
import socket, threading
def connect(port):
    try:
        socket.create_connection(('127.0.0.1', port))
    except OSError:
        pass
all = [threading.Thread(target=connect, args=(port,)) for port in range(1, 41)]
for one in all: one.start()
for one in all: one.join()
print('flooded')
";

#[test]
fn a_flood_of_questions_is_one_card_and_other_programs_go_on() {
    needs!("curl");
    needs!("python3");
    let (machine, server) = (machine!(), Server::start());
    let text = format!("rules: [{{allow: out, to: 127.0.0.1, port: {}}}]\n", server.port);
    let policy = machine.scratch().file("p.yaml", &text);
    let flood = machine.scratch().file("flood.py", FLOOD);
    let (pipe, script) = waiting(
        &machine,
        &format!("curl -s {}; echo curl:$?; wait; read line; echo typed:$line", server.url()),
    );
    let script = format!("python3 {} & {script}", flood.display());
    let policy = policy.to_str().expect("a path");
    let mut shown = terminal(&machine, &["guard", "--policy", policy, "--", "sh", "-c", &script]);
    // Behind the first question wait seven, and all the rest as one.
    shown.expect_times("8 more questions after this", 1);
    go(&pipe);
    wait_until("another program goes on", SOON, || (server.served() == 1).then_some(()));
    for more in (1..=8).rev() {
        // A card is drawn again when more questions come, and its keys count once they are shown.
        let behind = format!("{more} more question");
        wait_until("a card has keys", SOON, || {
            let text = shown.screen();
            let card = text.rsplit("netloom guard").next()?;
            (card.contains(&behind) && card.contains(KEYS)).then_some(())
        });
        shown.type_text("n");
    }
    shown.expect_times("asks for 32 things at once, such as to", 1);
    shown.expect_times("y  allow all these once", 1);
    shown.type_text("b");
    shown.expect_times("flooded", 1);
    shown.expect_times("curl:0", 1);
    shown.type_text("line\n");
    shown.expect_times("typed:line", 1);
    assert_eq!(shown.finish().code(), Some(0));
    machine.untouched();
}
