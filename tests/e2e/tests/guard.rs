//! `guard`: questions on a terminal, policies, exit codes, and the end of everything with the supervisor.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use netloom_tests_e2e::{
    Machine, Run, Terminal, kill, machine, needed, needs, ordinary_only, wait_until,
    with_command_line,
};
use rustix::process::Signal;

/// How long anything may take.
pub(super) const SOON: Duration = Duration::from_secs(180);

/// A web server on loopback that says hello, and counts connections.
pub(super) struct Server {
    pub(super) port: u16,
    served: Arc<AtomicUsize>,
    ended: Arc<AtomicBool>,
}

impl Server {
    pub(super) fn start() -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        let (served, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, end) = (Arc::clone(&served), Arc::clone(&ended));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if end.load(Ordering::Relaxed) {
                    break;
                }
                count.fetch_add(1, Ordering::Relaxed);
                // A client that is gone is not answered.
                let _ = stream.map(answer);
            }
        });
        Server { port, served, ended }
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }

    pub(super) fn served(&self) -> usize {
        self.served.load(Ordering::Relaxed)
    }

    fn place(&self) -> String {
        format!("wants to reach 127.0.0.1, port {} by tcp", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        drop(TcpStream::connect(("127.0.0.1", self.port)));
    }
}

fn answer(mut stream: TcpStream) {
    let mut request = [0; 4096];
    let _ = stream.read(&mut request);
    let _ = stream.write_all(b"HTTP/1.0 200 OK\r\nContent-Length: 6\r\n\r\nhello\n");
}

/// A run without a terminal, whichever user runs the tests.
pub(crate) fn alone(machine: &Machine, args: &[&str]) -> Run {
    let netloom = netloom_kit::Binary::find();
    let run = Run::new("setsid").args(["--wait"]).args([netloom.path()]).args(args);
    run.dir(machine.scratch().path())
        .env("XDG_CONFIG_HOME", machine.scratch().path())
        .env("NETLOOM_RUNTIME_DIR", machine.scratch().runtime_dir())
}

/// A run on a terminal.
pub(super) fn terminal(machine: &Machine, args: &[&str]) -> Terminal {
    let netloom = netloom_kit::Binary::find();
    let (folder, runtime) = (machine.scratch().path(), machine.scratch().runtime_dir());
    Terminal::start(
        netloom.path(),
        args,
        &[("XDG_CONFIG_HOME", folder), ("NETLOOM_RUNTIME_DIR", &runtime)],
    )
}

/// Where answers are remembered.
fn remembered(machine: &Machine) -> PathBuf {
    machine.scratch().path().join("netloom/guard.yaml")
}

/// Keys count once they are shown.
pub(super) const KEYS: &str = "y  allow once";

#[test]
fn a_question_is_asked_and_its_answer_remembered() {
    use std::os::unix::fs::PermissionsExt;
    needs!("curl");
    let (machine, server) = (machine!(), Server::start());
    let args = ["guard", "--", "curl", "-s", &server.url()];
    let mut shown = terminal(&machine, &args);
    shown.expect_times(KEYS, 1);
    let text = shown.screen();
    assert!(text.contains("/curl (process ") && text.contains(&server.place()), "{text}");
    assert_eq!(server.served(), 0);
    shown.type_text("a");
    shown.expect_times("allow what?", 1);
    shown.type_text("d");
    shown.expect_times("hello", 1);
    shown.expect_times("1 rule remembered in ", 1);
    assert_eq!(shown.finish().code(), Some(0));
    let file = remembered(&machine);
    let policy = std::fs::read_to_string(&file).expect("a policy");
    let rule = format!("to: 127.0.0.1, port: {}, protocol: tcp}}", server.port);
    assert!(policy.contains(&rule) && policy.contains("{allow: out, program: "), "{policy}");
    assert_eq!(file.metadata().expect("its data").permissions().mode() & 0o777, 0o600);
    let shown = terminal(&machine, &args);
    shown.expect_times("hello", 1);
    assert!(!shown.screen().contains("wants to"), "{}", shown.screen());
    assert_eq!(shown.finish().code(), Some(0));
    machine.untouched();
}

#[test]
fn a_denied_program_reaches_nothing() {
    needs!("curl");
    let (machine, server) = (machine!(), Server::start());
    let mut shown = terminal(&machine, &["guard", "--", "curl", "-s", &server.url()]);
    shown.expect_times(KEYS, 1);
    shown.type_text("n");
    // curl(1): "Failed to connect to host."
    assert_eq!(shown.finish().code(), Some(7));
    assert_eq!(server.served(), 0);
    assert!(!remembered(&machine).exists());
    machine.untouched();
}

#[test]
fn without_a_terminal_the_default_answers_at_once() {
    needs!("curl");
    let (machine, server) = (machine!(), Server::start());
    let url = server.url();
    let done = alone(&machine, &["guard", "--", "curl", "-s", &url]).finish().code(7);
    let rule = format!(", to: 127.0.0.1, port: {}, protocol: tcp}}\n", server.port);
    done.says("refused, since no rule is about it and nobody can be asked without a terminal:")
        .says(&rule);
    assert_eq!(server.served(), 0);
    let args = ["guard", "--default", "allow", "--", "curl", "-s", &url];
    assert_eq!(alone(&machine, &args).ok(), "hello\n");
    machine.untouched();
}

#[test]
fn what_is_learned_suffices_and_anything_else_exits_with_4() {
    needs!("curl");
    let (machine, server, other) = (machine!(), Server::start(), Server::start());
    let (url, other_url) = (server.url(), other.url());
    let learn =
        |url: &str| alone(&machine, &["guard", "--learn", "p.yaml", "--", "curl", "-s", url]).ok();
    assert_eq!(learn(&url), "hello\n");
    let frozen = |url: &str| {
        let args =
            ["guard", "--policy", "p.yaml", "--frozen", "--log", "log", "--", "curl", "-s", url];
        alone(&machine, &args).finish()
    };
    assert_eq!(frozen(&url).code(0).text(), "hello\n");
    let rule = format!("to: 127.0.0.1, port: {}, protocol: tcp}}", other.port);
    frozen(&other_url).code(4).says("not in the policy").says("allowed by: ").says(&rule);
    assert_eq!(other.served(), 0);
    learn(&other_url);
    frozen(&url).code(0);
    frozen(&other_url).code(0);
    let report = machine.netloom(["guard", "report", "--json"]).dir(machine.scratch().path());
    let rows = report.args(["log"]).finish().code(0).json();
    let rows = rows.as_array().expect("rows");
    let counts: u64 = rows.iter().map(|row| row["count"].as_u64().expect("a count")).sum();
    assert_eq!((rows.len(), counts), (3, 4), "{rows:?}");
    machine.untouched();
}

#[test]
fn all_errors_of_a_policy_are_told_and_nothing_starts() {
    let machine = machine!();
    let text = "defalt: ask\nrules:\n- {allow: sideways}\n- {deny: out, to: 10.0.0.1/8}\n";
    machine.scratch().file("wrong.yaml", text);
    let args = ["guard", "--policy", "wrong.yaml", "--", "touch", "started"];
    let done = alone(&machine, &args).finish().code(2);
    for place in ["wrong.yaml:1:1: ", "wrong.yaml:3:11: ", "wrong.yaml:4:19: "] {
        assert!(done.errors().contains(place), "{place}: {done}");
    }
    assert!(!machine.scratch().path().join("started").exists());
    let done = alone(&machine, &["guard", "check", "wrong.yaml"]).finish().code(2);
    assert_eq!(done.text().matches(": error: ").count(), 3, "{done}");
    alone(&machine, &["guard", "--policy", "none.yaml", "--", "true"]).finish().code(2);
    machine.untouched();
}

#[test]
fn exit_codes_and_streams_are_the_programs() {
    let machine = machine!();
    let guard = |command: &[&str]| alone(&machine, &[&["guard", "--"], command].concat());
    for code in [0, 1, 7, 255] {
        guard(&["sh", "-c", &format!("exit {code}")]).finish().code(code);
    }
    guard(&["sh", "-c", "kill -TERM $$"]).finish().code(128 + 15);
    guard(&["sh", "-c", "kill -KILL $$"]).finish().code(128 + 9);
    guard(&["no-such-command-anywhere"]).finish().code(127).says("no-such-command-anywhere");
    guard(&["/etc/passwd"]).finish().code(126).says("/etc/passwd");
    let done = guard(&["sh", "-c", "echo out; echo err >&2"]).finish().code(0);
    assert_eq!((done.text().as_str(), done.errors().as_str()), ("out\n", "err\n"));
    assert_eq!(guard(&["cat"]).input("in").ok(), "in");
    assert_eq!(guard(&["sh", "-c", "echo a | cat | cat"]).ok(), "a\n");
    machine.untouched();
}

#[test]
fn a_guard_inside_a_guard_is_refused_with_the_reason() {
    let (machine, netloom) = (machine!(), netloom_kit::Binary::find());
    let inside = netloom.path().to_str().expect("a path");
    let done = alone(&machine, &["guard", "--", inside, "guard", "--", "true"]).finish();
    done.code(3).says("this process is under a guard already");
    machine.untouched();
}

#[test]
fn what_would_happen_is_told_without_a_program() {
    let machine = machine!();
    let text = "default: deny\nrules:\n- {allow: out, to: \"*.example.org\", port: 443}\n- {deny: out, to: 10.0.0.0/8}\n";
    machine.scratch().file("p.yaml", text);
    let check = |request: &[&str]| {
        alone(&machine, &[&["guard", "check", "p.yaml", "--"], request].concat()).finish()
    };
    let done = check(&["/bin/sh", "tcp", "a.example.org:443"]).code(0);
    assert!(
        done.text().contains("allow, by {allow: out, to: \"*.example.org\", port: 443}"),
        "{done}"
    );
    assert!(done.text().contains("at an address in 10.0.0.0/8: deny (EACCES), by "), "{done}");
    let done = check(&["sh", "udp", "192.0.2.1:53"]).code(1);
    assert!(done.text().contains("deny (EACCES), by default"), "{done}");
    check(&["sh", "tcp", "nowhere"]).code(2).says("is not NAME:PORT");
    machine.scratch().file("q.yaml", "default: ask\n");
    let done = alone(&machine, &["guard", "diff", "p.yaml", "q.yaml"]).finish().code(1);
    assert!(done.text().starts_with("- default: deny\n+ default: ask\n- {allow: out"), "{done}");
    alone(&machine, &["guard", "diff", "p.yaml", "p.yaml"]).finish().code(0);
    machine.untouched();
}

/// As when a program starts; what is told is the rule as it is written.
#[test]
fn links_are_followed_without_a_program() {
    let machine = machine!();
    let folder = machine.scratch().path().canonicalize().expect("a folder");
    std::fs::create_dir(folder.join("real")).expect("make a folder");
    std::os::unix::fs::symlink("real", folder.join("link")).expect("make a link");
    let [link, real] = ["link", "real"].map(|name| format!("unix:{}/{name}/s", folder.display()));
    let rule = format!("{{allow: out, program: /bin/sh, to: \"{link}\"}}");
    machine.scratch().file("p.yaml", format!("default: deny\nrules: [{rule}]\n"));
    for to in [&link, &real] {
        let args = ["guard", "check", "p.yaml", "--", "sh", "unix", to];
        let done = alone(&machine, &args).finish().code(0);
        assert!(done.text().contains(&format!("allow, by {rule}")), "{done}");
    }
    machine.untouched();
}

#[test]
fn a_terminal_that_closes_during_a_question_gives_the_default() {
    needs!("curl");
    let (machine, server) = (machine!(), Server::start());
    let told = machine.scratch().path().join("told");
    let script = format!("trap '' HUP; curl -s {}; echo $? > {}", server.url(), told.display());
    let shown = terminal(&machine, &["guard", "--", "sh", "-c", &script]);
    shown.expect_times(KEYS, 1);
    assert_eq!(shown.hang_up().code(), Some(0));
    assert_eq!(std::fs::read_to_string(&told).expect("the program went on"), "7\n");
    assert_eq!(server.served(), 0);
    machine.untouched();
}

#[test]
fn two_questions_wait_in_turn() {
    needs!("curl");
    let (machine, one, two) = (machine!(), Server::start(), Server::start());
    let script = format!("curl -s {} & curl -s {} & wait; echo done", one.url(), two.url());
    let mut shown = terminal(&machine, &["guard", "--", "sh", "-c", &script]);
    shown.expect_times("1 more question after this", 1);
    shown.expect_times(KEYS, 1);
    shown.type_text("y");
    shown.expect_times(&one.place(), 1);
    shown.expect_times(&two.place(), 1);
    // The keys of the second one are shown after those of the first.
    wait_until("one is answered", SOON, || (one.served() + two.served() == 1).then_some(()));
    let after =
        |text: &str| text.rfind(if one.served() == 1 { two.place() } else { one.place() }.as_str());
    wait_until("the second one has keys", SOON, || {
        let text = shown.screen();
        let rest = &text[after(&text)?..];
        rest.contains(KEYS).then_some(())
    });
    shown.type_text("y");
    shown.expect_times("done", 1);
    assert_eq!(shown.screen().matches("hello").count(), 2, "{}", shown.screen());
    assert_eq!(shown.finish().code(), Some(0));
    machine.untouched();
}

/// A script that says "ready" and goes on when the pipe is written.
pub(super) fn waiting(machine: &Machine, rest: &str) -> (PathBuf, String) {
    let pipe = machine.scratch().path().join("go");
    Run::new("mkfifo").args([&pipe]).ok();
    let script = format!("echo ready; read go < {}; {rest}", pipe.display());
    (pipe, script)
}

pub(super) fn go(pipe: &Path) {
    std::fs::write(pipe, "go\n").expect("the script reads it");
}

#[test]
fn keys_typed_before_a_question_do_not_answer_it() {
    needs!("curl");
    let (machine, server) = (machine!(), Server::start());
    let (pipe, script) = waiting(&machine, &format!("curl -s {}", server.url()));
    let mut shown = terminal(&machine, &["guard", "--", "sh", "-c", &script]);
    shown.expect_times("ready", 1);
    shown.type_text("yyyy");
    shown.expect_times("yyyy", 1);
    go(&pipe);
    shown.expect_times(KEYS, 1);
    assert_eq!(server.served(), 0);
    shown.type_text("n");
    assert_eq!(shown.finish().code(), Some(7));
    assert_eq!(server.served(), 0);
    machine.untouched();
}

#[test]
fn the_question_of_a_killed_program_vanishes() {
    needs!("curl");
    let (machine, server) = (machine!(), Server::start());
    let pipe = machine.scratch().path().join("go");
    Run::new("mkfifo").args([&pipe]).ok();
    let script = format!(
        "curl -s {} & read go < {}; kill -9 $!; wait $!; echo code $?; stty size",
        server.url(),
        pipe.display()
    );
    let shown = terminal(&machine, &["guard", "--", "sh", "-c", &script]);
    shown.expect_times(KEYS, 1);
    go(&pipe);
    shown.expect_times("code 137", 1);
    assert_eq!(shown.finish().code(), Some(0));
    assert_eq!(server.served(), 0);
    machine.untouched();
}

#[test]
fn letters_that_would_change_the_screen_are_shown_escaped() {
    let curl = needed!("curl");
    let (machine, server) = (machine!(), Server::start());
    let path = machine.scratch().path().join("a\u{1b}[2J\u{202e}b");
    std::fs::copy(curl, &path).expect("copy curl");
    let path = path.to_str().expect("a path");
    let mut shown = terminal(&machine, &["guard", "--", path, "-s", &server.url()]);
    shown.expect_times(KEYS, 1);
    assert!(shown.screen().contains("a\\u{1b}[2J\\u{202e}b\" (process "), "{}", shown.screen());
    shown.type_text("i");
    shown.expect_times("arguments: ", 1);
    assert!(!shown.screen().contains('\u{202e}'), "{}", shown.screen());
    shown.type_text("n");
    assert_eq!(shown.finish().code(), Some(7));
    machine.untouched();
}

#[test]
fn the_terminal_is_the_programs() {
    let machine = machine!();
    let script = "trap 'stty size' WINCH; test -t 0 && test -t 1 && stty size; read x; echo got:$x; \
                  echo ready; read y; exec tail -f /dev/null";
    let mut shown = terminal(&machine, &["guard", "--", "sh", "-c", script]);
    shown.expect_times("24 80", 1);
    shown.type_text("one\n");
    shown.expect_times("got:one", 1);
    shown.expect_times("ready", 1);
    shown.resize(100, 30);
    shown.expect_times("30 100", 1);
    shown.type_text("two\n");
    shown.type_text("\x03");
    assert_eq!(shown.finish().code(), Some(128 + 2));
    machine.untouched();
}

#[test]
fn a_shell_stops_and_continues_it() {
    let machine = machine!();
    let bash = needed!("bash");
    let netloom = netloom_kit::Binary::find();
    let folder = machine.scratch().path();
    let env = [("XDG_CONFIG_HOME", folder), ("PS1", Path::new("prompt>"))];
    let mut shown = Terminal::start(&bash, &["--norc", "--noprofile", "-i"], &env);
    let netloom = netloom.path().display();
    shown.expect_times("prompt>", 1);
    shown.type_text(&format!("{netloom} guard -- sh -c 'echo re''ady; exec cat'\n"));
    shown.expect_times("ready", 1);
    shown.type_text("\x1a");
    shown.expect_times("Stopped", 1);
    shown.expect_times("prompt>", 2);
    shown.type_text("echo shell:$((6*7))\n");
    shown.expect_times("prompt>", 3);
    shown.expect_times("shell:42", 1);
    shown.type_text("fg\n");
    shown.type_text("li''ne\n");
    // Once as it was typed, once by cat.
    shown.expect_times("li''ne", 2);
    shown.type_text("\x03");
    shown.expect_times("prompt>", 4);
    shown.type_text("echo code:$?\n");
    shown.expect_times("code:130", 1);
    shown.type_text("exit\n");
    assert_eq!(shown.finish().code(), Some(0));
    machine.untouched();
}

#[test]
fn a_killed_supervisor_ends_all_that_it_guards() {
    let machine = machine!();
    let line = format!("sleep 86400.{}", std::process::id());
    let script = format!("setsid {line} & {line}; true");
    // Without setsid(1), to have its process.
    let guard = machine.netloom(["guard", "--default", "deny", "--frozen", "--policy"]);
    let policy = machine.scratch().file("p.yaml", "default: deny\n");
    let mut guard = guard.args([&policy]).args(["--", "sh", "-c", &script]).spawn();
    let sleeps = || {
        let all = with_command_line(&line);
        all.into_iter().filter(|pid| comm(*pid) == "sleep").count() == 2
    };
    wait_until("the work has begun", SOON, || sleeps().then_some(()));
    kill(guard.id().cast_signed());
    guard.wait().expect("reap it");
    wait_until("all has ended", SOON, || with_command_line(&line).is_empty().then_some(()));
    machine.untouched();
}

fn comm(pid: i32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned()
}

#[test]
fn signals_reach_the_program_and_what_it_left_behind_ends_with_it() {
    let machine = machine!();
    let policy = machine.scratch().file("p.yaml", "default: deny\n");
    let line = format!("sleep 86400.1{}", std::process::id());
    let script = format!("trap 'exit 5' TERM INT; {line} & setsid {line} & while :; do wait; done");
    for sent in [Signal::TERM, Signal::INT] {
        let guard = machine.netloom(["guard", "--frozen", "--policy"]).args([&policy]);
        let mut guard = guard.args(["--", "sh", "-c", &script]).spawn();
        let sleeps =
            || with_command_line(&line).into_iter().filter(|pid| comm(*pid) == "sleep").count();
        wait_until("the work has begun", SOON, || (sleeps() == 2).then_some(()));
        netloom_tests_e2e::signal(guard.id().cast_signed(), sent);
        let status = wait_until("its end", SOON, || guard.try_wait().expect("look at it"));
        assert_eq!(status.code(), Some(5), "{sent:?}");
        wait_until("all has ended", SOON, || with_command_line(&line).is_empty().then_some(()));
    }
    machine.untouched();
}

#[test]
fn a_program_in_a_node_is_asked_about_its_network() {
    needs!("curl");
    needs!("python3");
    let machine = machine!();
    machine.up(
        "name: asked\nnodes:\n  a: {}\n  b: {run: [[python3, -m, http.server, \"8000\"]], ready: {tcp: 8000}}\nlinks:\n  - [a, b]\n",
    );
    let mut shown =
        terminal(&machine, &["guard", "--in", "a", "--", "curl", "-s4", "http://b:8000/none"]);
    shown.expect_times(KEYS, 1);
    assert!(shown.screen().contains(", port 8000 by tcp"), "{}", shown.screen());
    shown.type_text("y");
    shown.expect_times("File not found", 1);
    assert_eq!(shown.finish().code(), Some(0));
    let guard = |more: &[&str], command: &[&str]| {
        alone(&machine, &[&["guard", "--in", "a"], more, &["--"], command].concat()).finish()
    };
    guard(&[], &["curl", "-s4", "http://b:8000/"]).code(7);
    assert_eq!(guard(&["--default", "allow"], &["hostname"]).code(0).text(), "a\n");
    guard(&[], &["sh", "-c", "exit 9"]).code(9);
    guard(&[], &["no-such-command-anywhere"]).code(127).says("no-such-command-anywhere");
    alone(&machine, &["guard", "--in", "none", "--", "true"]).finish().code(1).says("none");
    machine.down();
}

#[test]
fn a_program_cannot_write_its_policy() {
    ordinary_only!("root may write anything");
    let machine = machine!();
    machine.scratch().file("p.yaml", "default: deny\n");
    machine.scratch().file("other.yaml", "default: allow\n");
    let tries = "echo default: allow > p.yaml; mv -f other.yaml p.yaml; rm -f p.yaml; echo x > log; \
                 unshare -Urm umount p.yaml; unshare -Urm mount -o remount,rw,bind p.yaml; \
                 test -e new || echo new > new; cat p.yaml";
    let args = ["guard", "--policy", "p.yaml", "--frozen", "--log", "log", "--", "sh", "-c", tries];
    let done = alone(&machine, &args).finish().code(0);
    assert_eq!(done.text(), "default: deny\n", "{done}");
    let folder = machine.scratch().path();
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
    assert_eq!((read("p.yaml").as_str(), read("new").as_str()), ("default: deny\n", "new\n"));
    assert!(folder.join("other.yaml").exists());
    machine.untouched();
}
