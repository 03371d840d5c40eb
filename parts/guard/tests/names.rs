//! Names of destinations: looked up by programs of all kinds, from a name server of the test's own.
//!
//! The server stands at 127.0.0.53 in a network of the test's own, whose resolv.conf(5) names it. It knows names below
//! `.test` that lead to 127.0.0.0/8, and writes down what it was asked.

use std::net::{TcpListener, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use netloom_guard::{Judge, Judgement, Options, Question, Rules, start};
use netloom_kit::{isolated, needed};
use netloom_policy::{Request, read};
use netloom_sys::seccomp::launch::Place;

/// A name server by itself, in python: UDP and TCP, addresses by name, aliases, truncation.
const SERVER: &str = r#"
import socket, struct, sys, threading
KNOWN = {'web.test': ['127.1.0.1'], 'alias.test': 'web.test', 'two.test': ['127.1.0.2', '127.1.0.1'],
         'six.test': ['::1'], 'long.test': ['127.1.0.3'], 'other.test': ['127.1.0.4'], 'far.test': ['10.66.0.1']}
KNOWN |= {f'n{n}.test': ['127.1.0.4'] for n in range(64)}
def encoded(name):
    return b''.join(bytes([len(l)]) + l.encode() for l in name.split('.')) + b'\0'
def answer(q, stream):
    name, at = [], 12
    while q[at]:
        name.append(q[at+1:at+1+q[at]].decode()); at += 1 + q[at]
    name = '.'.join(name).lower(); kind, = struct.unpack('!H', q[at+1:at+3])
    end = at + 5
    # Eleven bytes are a record of EDNS without options.
    asked.write(name + (' and more' if len(q) > end + 11 else '') + '\n'); asked.flush()
    if name == 'long.test' and not stream:
        return q[:2] + b'\x83\x80' + q[4:6] + b'\0\0\0\0\0\0' + q[12:end]
    records, owner = [], name
    found = KNOWN.get(name)
    if isinstance(found, str):
        data = encoded(found)
        records.append(encoded(owner) + struct.pack('!HHIH', 5, 1, 60, len(data)) + data)
        owner, found = found, KNOWN.get(found)
    for a in found or []:
        six = ':' in a
        if kind == (28 if six else 1):
            data = socket.inet_pton(socket.AF_INET6 if six else socket.AF_INET, a)
            records.append(encoded(owner) + struct.pack('!HHIH', kind, 1, 60, len(data)) + data)
    code = 0 if found else 3
    return q[:2] + bytes([0x81, 0x80 | code]) + q[4:6] + struct.pack('!HHH', len(records), 0, 0) + q[12:end] + b''.join(records)
at, asked = (sys.argv[1], int(sys.argv[2])), open(sys.argv[3], 'a')
family = socket.AF_INET6 if ':' in at[0] else socket.AF_INET
u = socket.socket(family, socket.SOCK_DGRAM); u.bind(at)
t = socket.socket(family); t.setsockopt(1, 2, 1); t.bind(at); t.listen(9)
def streams():
    while True:
        c, _ = t.accept()
        while True:
            head = c.recv(2)
            if len(head) < 2: break
            q = c.recv(struct.unpack('!H', head)[0])
            a = answer(q, True); c.sendall(struct.pack('!H', len(a)) + a)
threading.Thread(target=streams, daemon=True).start()
print('ready', flush=True)
while True:
    q, who = u.recvfrom(4096); u.sendto(answer(q, False), who)
"#;

/// What programs of the tests do.
pub(crate) const PROGRAM: &str = r#"
import socket, struct, sys
PORT = int(sys.argv[1])
def reach(address):
    try:
        socket.create_connection((address, PORT), 20).close(); print('yes')
    except OSError as e:
        print(e.strerror)
def query(name, kind=1, id=7):
    return struct.pack('!HHHHHH', id, 0x100, 1, 0, 0, 0) + b''.join(
        bytes([len(l)]) + l.encode() for l in name.split('.')) + b'\0' + struct.pack('!HH', kind, 1)
"#;

/// A name server, and where it writes down what it is asked.
pub(crate) struct Server(std::process::Child, tempfile::NamedTempFile);

impl Server {
    /// Names that it was asked for, each once.
    pub(crate) fn asked(&self) -> Vec<String> {
        let mut names = self.asked_often();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Names that it was asked for, as often as it was.
    pub(crate) fn asked_often(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.1.path()).unwrap();
        text.lines().map(str::to_owned).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn run(program: &str, words: &[&str]) {
    let done = Command::new(program).args(words).output().unwrap();
    assert!(done.status.success(), "{program} {words:?}: {done:?}");
}

/// A name server at an address, in this test's own network.
pub(crate) fn serve(address: &str, port: &str) -> Server {
    use std::io::BufRead;
    let asked = tempfile::NamedTempFile::new().unwrap();
    let mut child = Command::new("python3")
        .args(["-c", SERVER, address, port])
        .arg(asked.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    Server(child, asked)
}

/// The test's own network and files: a server, `lo`, a resolv.conf.
pub(crate) fn set_up() -> (Server, tempfile::TempDir) {
    set_up_at("127.0.0.53", "127.0.0.1 localhost\n")
}

/// The same with a server at this address, and this file of hosts.
pub(crate) fn set_up_at(server: &str, hosts: &str) -> (Server, tempfile::TempDir) {
    run("ip", &["link", "set", "lo", "up"]);
    let folder = tempfile::tempdir().unwrap();
    for (name, text, at) in [
        ("resolv", &*format!("nameserver {server}\noptions attempts:5\n"), "/etc/resolv.conf"),
        ("nsswitch", "hosts: files dns\n", "/etc/nsswitch.conf"),
        ("hosts", hosts, "/etc/hosts"),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        run("mount", &["--bind", path.to_str().unwrap(), at]);
    }
    (serve(server, "53"), folder)
}

/// Allows everything, and keeps what was asked for over TCP.
#[derive(Default)]
struct Keeps(Mutex<Vec<String>>);

impl Judge for Keeps {
    fn known(&self, _: &Request) -> Option<Judgement> {
        None
    }

    fn decide(&self, question: &Question<'_>) -> Judgement {
        let request = question.request;
        if request.target.port().number() != Some(53) && request.protocol.name() == "tcp" {
            self.0.lock().unwrap().push(request.target.to_string());
        }
        Judgement::Allow
    }
}

pub(crate) fn python(script: &str, port: u16, judge: &dyn Judge) -> String {
    let mut command = Command::new("python3");
    command.args(["-c", &format!("{PROGRAM}\n{script}"), &port.to_string()]);
    watched(command, judge)
}

/// What a program prints under guard.
pub(crate) fn watched(mut command: Command, judge: &dyn Judge) -> String {
    command.stdout(Stdio::piped());
    let place = Place { own_user: true, ..Place::default() };
    let (child, supervisor) = start(command, place).unwrap();
    supervisor.serve(judge).unwrap();
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
}

/// A listener at all addresses.
pub(crate) fn listener() -> (TcpListener, u16) {
    let listener = TcpListener::bind("[::]:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

fn asked(script: &str) -> (String, Vec<String>) {
    let (_held, port) = listener();
    let judge = Keeps::default();
    let said = python(script, port, &judge);
    let ports = format!(":{port}");
    let all = judge.0.into_inner().unwrap();
    (said, all.into_iter().map(|target| target.replace(&ports, "")).collect())
}

#[test]
fn the_c_librarys_look_ups_name_destinations() {
    isolated!({
        let _server = set_up();
        let (said, asked) = asked(
            "for n in ['web.test', 'ALIAS.test.', '127.1.0.1', 'six.test', '127.1.0.9']: reach(n)",
        );
        assert_eq!(said, "yes\n".repeat(5));
        assert_eq!(
            asked,
            [
                "web.test 127.1.0.1",
                "alias.test 127.1.0.1",
                "alias.test 127.1.0.1",
                "six.test [::1]",
                "127.1.0.9",
            ]
        );
    });
}

#[test]
fn truncated_answers_are_asked_for_again_over_a_connection() {
    isolated!({
        let _server = set_up();
        let (said, asked) = asked("reach('long.test')");
        assert_eq!((said.as_str(), asked), ("yes\n", vec!["long.test 127.1.0.3".to_owned()]));
    });
}

#[test]
fn a_resolver_that_checks_its_servers_address_sees_the_same() {
    isolated!({
        let _server = set_up();
        // As static programs of another C library do, and as ones that look at their socket do.
        let (said, asked) = asked(
            "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.bind(('', 0))\ns.settimeout(20)\n\
             s.sendto(query('web.test'), ('127.0.0.53', 53))\na, who = s.recvfrom(999)\n\
             print(who, s.gettimeout(), a[:2] == b'\\0\\x07')\nreach('127.1.0.1')\n\
             c = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\nc.connect(('127.0.0.53', 53))\n\
             print(c.getsockname()[0], c.getpeername(), c.get_inheritable())\n\
             c.send(query('other.test'))\nprint(len(c.recv(999)) > 30)\nreach('127.1.0.4')",
        );
        assert_eq!(
            said,
            "('127.0.0.53', 53) 20.0 True\nyes\n127.0.0.1 ('127.0.0.53', 53) False\nTrue\nyes\n"
        );
        assert_eq!(asked, ["web.test 127.1.0.1", "other.test 127.1.0.4"]);
    });
}

#[test]
fn a_socket_that_asked_a_server_serves_other_ends_afterwards() {
    isolated!({
        let _server = set_up();
        let other = UdpSocket::bind("127.1.0.9:0").unwrap();
        let port = other.local_addr().unwrap().port();
        let (said, _) = asked(&format!(
            "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
             s.sendto(query('web.test'), ('127.0.0.53', 53))\nprint(len(s.recv(999)) > 30)\n\
             print(s.sendto(b'hello', ('127.1.0.9', {port})))\n\
             s.sendto(query('web.test'), ('127.0.0.53', 53))\nprint(len(s.recv(999)) > 30)"
        ));
        assert_eq!(said, "True\n5\nTrue\n");
        let mut buffer = [0; 9];
        assert_eq!(other.recv(&mut buffer).unwrap(), 5);
    });
}

#[test]
fn a_server_of_the_programs_own_names_nothing() {
    isolated!({
        let _server = set_up();
        let _hostile = serve("127.0.0.66", "53");
        let (said, asked) = asked(
            "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
             s.sendto(query('web.test'), ('127.0.0.66', 53))\nprint(len(s.recv(999)) > 30)\n\
             s.sendto(query('web.test'), ('127.0.0.53', 53))\nreach('127.1.0.4')\n\
             t = socket.create_connection(('127.0.0.66', 53), 20)\nq = query('other.test')\n\
             t.sendall(bytes([0, len(q)]) + q)\nprint(len(t.recv(999)) > 30)\nreach('127.1.0.4')",
        );
        assert_eq!(said, "True\nyes\nTrue\nyes\n");
        assert_eq!(asked, ["127.1.0.4", "127.1.0.4"]);
    });
}

#[test]
fn a_server_that_nobody_runs_is_told_of_soon() {
    isolated!({
        let (server, _folder) = set_up();
        drop(server);
        let (said, asked) = asked("reach('web.test')");
        assert_eq!(said, "Temporary failure in name resolution\n");
        assert!(asked.is_empty(), "{asked:?}");
    });
}

#[test]
fn rules_by_name_hold_for_addresses_that_the_name_led_to() {
    isolated!({
        let _server = set_up();
        let (_held, port) = listener();
        let text = format!(
            "default: deny\nrules:\n  - {{allow: out, to: 127.0.0.53, port: 53}}\n  \
             - {{allow: out, to: \"*.test\", port: {port}}}\n  - {{deny: out, to: other.test, port: {port}, errno: EHOSTUNREACH}}\n"
        );
        let rules = Rules::new(read("policy", text.as_bytes()).unwrap(), Options::default());
        let said = python(
            "for n in ['127.1.0.1', 'web.test', '127.1.0.1', 'other.test', '127.1.0.4']: reach(n)",
            port,
            &rules,
        );
        assert_eq!(said, "Permission denied\nyes\nyes\nNo route to host\nNo route to host\n");
    });
}

#[test]
fn many_look_ups_at_once_are_all_answered() {
    isolated!({
        let _server = set_up();
        let (said, asked) = asked(
            "import threading\ndef one(n):\n for _ in range(20):\n  assert socket.gethostbyname(n) == '127.1.0.1'\n\
             all = [threading.Thread(target=one, args=(['web.test', 'alias.test'][n % 2],)) for n in range(16)]\n\
             [t.start() for t in all]; [t.join() for t in all]\nreach('web.test')",
        );
        assert_eq!(said, "yes\n");
        assert!(asked[0].ends_with("127.1.0.1") && asked[0].starts_with("web.test"), "{asked:?}");
    });
}

#[test]
fn descriptors_that_the_supervisor_holds_do_not_grow() {
    isolated!({
        let _server = set_up();
        let count = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        let before = count();
        let (said, _) = asked(
            "for n in range(400): socket.gethostbyname('web.test')\nprint('done')\nreach('web.test')",
        );
        assert_eq!(said, "done\nyes\n");
        let after = count();
        assert!(after <= before + 2, "{before} {after}");
    });
}

/// Connects to names, by a resolver of its own.
const GO: &str = r#"package main
import ("fmt"; "net"; "os")
func main() {
	for _, n := range []string{"web.test", "alias.test", "long.test"} {
		c, err := net.Dial("tcp4", net.JoinHostPort(n, os.Args[1]))
		if err != nil { fmt.Println(err); continue }
		fmt.Println("yes"); c.Close()
	}
}
"#;

#[test]
fn a_static_program_with_a_resolver_of_its_own_is_named() {
    let go = needed!("go");
    isolated!({
        let (_server, folder) = set_up();
        let (source, made) = (folder.path().join("main.go"), folder.path().join("main"));
        std::fs::write(&source, GO).unwrap();
        let mut build = Command::new(&go);
        build.args(["build", "-o"]).arg(&made).arg(&source).current_dir(folder.path());
        build.env("CGO_ENABLED", "0").env("GOTOOLCHAIN", "local").env("HOME", folder.path());
        let built = build.env("GOFLAGS", "-mod=mod").output().unwrap();
        assert!(built.status.success(), "{built:?}");
        let (_held, port) = listener();
        let judge = Keeps::default();
        let mut command = Command::new(made);
        command.arg(port.to_string());
        assert_eq!(watched(command, &judge), "yes\nyes\nyes\n");
        let asked = judge.0.into_inner().unwrap();
        let expected = [("web.test", 1), ("alias.test", 1), ("long.test", 3)];
        let expected = expected.map(|(name, host)| format!("{name} 127.1.0.{host}:{port}"));
        assert_eq!(asked, expected);
    });
}
