//! Listeners that a policy's `from` lets some peers reach: others never get a connection or a datagram through, whatever the
//! program does to its socket; and get through where they are allowed.
//!
//! The program listens, the test calls it from several addresses of the loopback interface, and the program tells who came.
//! There a packet has arrived, or has been dropped, when another one has come through that its processor got later.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Stdio};
use std::time::Duration;

use netloom_guard::{Gate, Log, Options, Rules, start_by};
use netloom_kit::{free_port, needs};
use netloom_policy::read;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::redteam::place;

pub(crate) const PROGRAM: &str = r#"
import ctypes, errno, os, select, socket, struct, sys, threading
PORT = int(sys.argv[1])
DETACH, ATTACH, LOCK = 27, 26, 44
def tcp(family=socket.AF_INET, protocol=0):
    s = socket.socket(family, socket.SOCK_STREAM, protocol)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return s
def udp(family=socket.AF_INET): return socket.socket(family, socket.SOCK_DGRAM)
def all_pass():
    code = ctypes.create_string_buffer(struct.pack('HBBI', 6, 0, 0, 0xffffffff))
    return code, struct.pack('HL', 1, ctypes.addressof(code))
def attach(s):
    code, program = all_pass()
    s.setsockopt(socket.SOL_SOCKET, ATTACH, program)
def attempt(f):
    try: f(); print('done', end=' ')
    except OSError as e: print(errno.errorcode[e.errno], end=' ')
def all_of(f):
    came = []
    while True:
        try: came.append(f())
        except BlockingIOError: return came
def tell(s, port=None):
    print('ready', port or PORT, flush=True)
    sys.stdin.readline()
    s.setblocking(False)
    came = all_of(s.accept if s.type == socket.SOCK_STREAM else lambda: s.recvfrom(9))
    print('came', *sorted(who[1][0] for who in came))
"#;

/// Whether this user may filter sockets of TCP here: Linux 6.18 refuses that with EPERM.
fn may_filter_tcp() -> bool {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let all = [(Ipv4Addr::UNSPECIFIED.into(), 0)];
    netloom_sys::admission::admit(listener.as_fd(), &all).is_ok()
}

/// By a filter, where this user may, and by a look at each connection.
fn gates() -> [Gate; 2] {
    let first = Gate::here(true);
    assert_eq!(first == Gate::Kernel, may_filter_tcp());
    [first, Gate::Accept]
}

/// Calls from `from` to the same family's loopback address; what is returned keeps the connection.
pub(crate) fn call(from: &str, port: u16, kind: SocketType) -> OwnedFd {
    let from: IpAddr = from.parse().unwrap();
    let (family, to): (_, IpAddr) = match from {
        IpAddr::V4(_) => (AddressFamily::INET, Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(_) => (AddressFamily::INET6, Ipv6Addr::LOCALHOST.into()),
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, kind, flags, None).unwrap();
    bind(&socket, &SocketAddr::from((from, 0))).unwrap();
    // A connection is in progress, or made, when this returns.
    let _ = connect(&socket, &SocketAddr::from((to, port)));
    if kind == SocketType::DGRAM {
        let _ = rustix::io::write(&socket, b"x");
    }
    socket
}

/// Waits until what was sent over the loopback interface is received or dropped: each processor takes packets in order, on a
/// busy machine (before Linux 6.4) after the sender's call. A connection is four packets, each of which sends the next.
pub(crate) fn settle() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(socket.local_addr().unwrap()).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let before = sched_getaffinity(None).unwrap();
    for _ in 0..4 {
        for cpu in (0..CpuSet::MAX_CPU).filter(|cpu| before.is_set(*cpu)) {
            let mut only = CpuSet::new();
            only.set(cpu);
            sched_setaffinity(None, &only).unwrap();
            socket.send(b"x").unwrap();
            assert_eq!(socket.recv(&mut [0]).unwrap(), 1);
        }
    }
    sched_setaffinity(None, &before).unwrap();
}

/// Whether this machine has IPv6.
fn six() -> bool {
    TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok()
}

/// What the program says whose listener was called from each of `callers`.
pub(crate) fn called(
    gate: Gate,
    rules: &Rules,
    port: u16,
    script: &str,
    callers: &[&str],
) -> String {
    let mut command = Command::new("python3");
    command.args(["-c", &format!("{PROGRAM}\n{script}"), &port.to_string()]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let (mut child, supervisor) = start_by(command, place(), gate).unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut input = child.stdin.take().unwrap();
    let kind = if script.contains("udp") { SocketType::DGRAM } else { SocketType::STREAM };
    let mut said = String::new();
    std::thread::scope(|scope| {
        scope.spawn(|| supervisor.serve(rules).unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let ready = line.split_once("ready ").map(|(before, at)| (before.to_owned(), at.trim()));
        if let Some((before, at)) = ready {
            said += &before;
            let at = at.parse().unwrap();
            let _held: Vec<_> = callers.iter().map(|from| call(from, at, kind)).collect();
            settle();
            // Some programs do not wait.
            let _ = input.write_all(b"\n");
            output.read_to_string(&mut said).unwrap();
        } else {
            said += &line;
        }
        drop(input);
        child.wait().unwrap();
    });
    said.trim().to_owned()
}

pub(crate) fn rules(text: &str) -> Rules {
    let text = format!("default: deny\nrules: [{text}, {{allow: out}}]");
    Rules::new(read("policy", text.as_bytes()).unwrap(), Options::default())
}

/// What came to the listener of `script` where only 127.0.0.2 may, and where all may, by one gate.
fn came_by(gate: Gate, script: &str) -> (String, String) {
    let callers = ["127.0.0.1", "127.0.0.2", "127.0.0.1"];
    let by = |from: &str| {
        let port = free_port();
        let rules = rules(&format!("{{allow: in, port: {port}, from: {from}}}"));
        called(gate, &rules, port, script, &callers)
    };
    (by("127.0.0.2"), by("[127.0.0.0/8, \"::/0\"]"))
}

/// The same by each gate.
fn came(script: &str) -> (String, String) {
    let [one, other] = gates().map(|gate| came_by(gate, script));
    assert_eq!(one, other, "{script}");
    one
}

pub(crate) const TCP: &str = "s = tcp(); s.bind(('', PORT)); s.listen(); ";
const ONE: &str = "came 127.0.0.2";
const ALL: &str = "came 127.0.0.1 127.0.0.1 127.0.0.2";

fn both(restricted: &str, open: &str) -> (String, String) {
    (restricted.to_owned(), open.to_owned())
}

#[test]
fn connections() {
    assert_eq!(came(&format!("{TCP} tell(s)")), both(ONE, ALL));
}

#[test]
fn datagrams() {
    assert_eq!(came("s = udp(); s.bind(('', PORT)); tell(s)"), both(ONE, ALL));
    let again = "s = udp(); s.bind(('', PORT)); s.connect(('127.0.0.1', 9)); s.connect(('127.0.0.2', 9)); \
                 ctypes.CDLL(None).connect(s.fileno(), bytes(16), 16); tell(s)";
    assert_eq!(came(again), both(ONE, ALL), "a socket that was connected and is so no more");
}

#[test]
fn a_socket_of_ipv6_hears_ipv4_in_disguise() {
    needs!("ipv6");
    let disguised = |text: &str| text.replace("127.", "::ffff:127.");
    for listens in [
        "s = tcp(socket.AF_INET6); s.bind(('::', PORT)); s.listen()",
        "s = udp(socket.AF_INET6); s.bind(('::', PORT))",
        "s = tcp(socket.AF_INET6); s.bind(('::ffff:127.0.0.1', PORT)); s.listen()",
    ] {
        let script = format!("{listens}; tell(s)");
        assert_eq!(came(&script), (disguised(ONE), disguised(ALL)), "{listens}");
        let callers = ["127.0.0.2", "::1"];
        let by = |from: &str| {
            let port = free_port();
            let rules = rules(&format!("{{allow: in, port: {port}, from: \"{from}\"}}"));
            let [one, other] = gates().map(|gate| called(gate, &rules, port, &script, &callers));
            assert_eq!(one, other, "{listens}");
            one
        };
        if listens.contains("'::'") {
            assert_eq!(by("::1"), "came ::1", "{listens}");
            assert_eq!(by("127.0.0.2"), "came ::ffff:127.0.0.2", "{listens}");
        }
        assert_eq!(by("10.0.0.0/8"), "came", "{listens}");
    }
}

#[test]
fn who_listens_cannot_take_the_filter_off() {
    let tries = "attempt(lambda: s.setsockopt(1, DETACH, 0)); attempt(lambda: s.setsockopt(1, LOCK, 0)); \
                 attempt(lambda: attach(s)); attempt(lambda: os.dup(s.fileno()) and \
                 socket.socket(fileno=os.dup(s.fileno())).setsockopt(1, DETACH, 0)); ";
    let refused = format!("{0}{0}{0}{0}{ONE}", "EPERM ");
    let also = format!("{0}{0}{0}{0}{ALL}", "EPERM ");
    let datagrams = format!("s = udp(); s.bind(('', PORT)); {tries} tell(s)");
    assert_eq!(came(&datagrams), both(&refused, &also));
    let script = format!("{TCP} {tries} tell(s)");
    let child = format!("{TCP}\nif os.fork(): os.wait(); os._exit(0)\n{tries}\ntell(s)");
    for script in [&script, &child] {
        if may_filter_tcp() {
            assert_eq!(came_by(Gate::Kernel, script), both(&refused, &also));
        }
        // There is no filter to take off.
        let (one, all) = came_by(Gate::Accept, script);
        assert!(one.ends_with(ONE) && all.ends_with(ALL), "{one}, {all}");
    }
    // Nor by listening once more.
    let again = format!("{TCP} attempt(lambda: s.listen(9)); tell(s)");
    assert_eq!(came(&again), both(&format!("done {ONE}"), &format!("done {ALL}")));
}

#[test]
fn a_filter_of_the_programs_own_comes_second() {
    if may_filter_tcp() {
        let own = "s = tcp(); attach(s); s.bind(('', PORT)); s.listen(); tell(s)";
        assert_eq!(came(own), both(ONE, ALL));
        let locked =
            "s = tcp(); attach(s); s.setsockopt(1, LOCK, 1); s.bind(('', PORT)); attempt(s.listen)";
        assert_eq!(came_by(Gate::Kernel, locked), both("EACCES", "EACCES"));
        // Peers are checked behind it.
        assert_eq!(came_by(Gate::Accept, locked), both("done", "done"));
    }
    let locked =
        "s = udp(); attach(s); s.setsockopt(1, LOCK, 1); attempt(lambda: s.bind(('', PORT)))";
    assert_eq!(came(locked), both("EACCES", "EACCES"));
}

/// A thread that takes filters off and puts its own on meanwhile: no forbidden peer comes.
#[test]
fn a_filter_is_in_force_before_the_socket_listens() {
    let script = "
s, over = None, False
def meddle():
    while not over:
        for f in (lambda: s.setsockopt(1, DETACH, 0), lambda: attach(s)):
            try: f()
            except (OSError, AttributeError): pass
threading.Thread(target=meddle, daemon=True).start()
sys.setswitchinterval(1e-6)
listened, escaped = 0, 0
for n, kind in enumerate([tcp, udp] * 200):
    s = kind()
    # At an address of its own: the last one may be held for a while, by a process that another test has forked.
    at = (f'127.1.{n // 100}.{1 + n % 100}', PORT)
    try:
        s.bind(at)
        if kind == tcp: s.listen()
    except OSError as e:
        if e.errno != errno.EACCES: raise
        s.close(); continue
    listened += 1
    for host in ('127.0.0.1', '127.0.0.2'):
        c = kind(); c.bind((host, 0)); c.setblocking(False)
        try: c.connect(at); c.send(b'x')
        except OSError: pass
    # The last one may come, and comes after the other.
    select.select([s], [], [], 20)
    s.setblocking(False)
    came = all_of(s.accept if kind == tcp else lambda: s.recvfrom(9))
    escaped += sum(who[1][0] != '127.0.0.2' for who in came)
    assert came, kind
    s.close()
over = True
print('ready', PORT)
print('escaped', escaped, listened > 100)";
    for gate in gates() {
        let port = free_port();
        let rules = rules(&format!("{{allow: in, port: {port}, from: 127.0.0.2}}"));
        assert_eq!(called(gate, &rules, port, script, &[]), "escaped 0 True", "{gate:?}");
    }
}

#[test]
fn a_socket_that_was_never_bound_listens_for_its_peers() {
    let rules = rules("{allow: in, from: 127.0.0.2}");
    for script in [
        "s = tcp(); s.listen(); tell(s, s.getsockname()[1])",
        "s = tcp(); s.bind(('', 0)); s.listen(); tell(s, s.getsockname()[1])",
    ] {
        for gate in gates() {
            assert_eq!(called(gate, &rules, 1, script, &["127.0.0.1", "127.0.0.2"]), ONE);
        }
    }
}

#[test]
fn who_is_bound_and_connects_hears_whom_it_called() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = server.local_addr().unwrap().port();
    let script =
        format!("s = tcp(); s.bind(('', PORT)); attempt(lambda: s.connect(('127.0.0.1', {to})))");
    assert_eq!(came(&script).0, "done");
}

#[test]
fn joining_a_group_goes_on() {
    let script = "s = udp(); s.bind(('', PORT)); group = socket.inet_aton('239.1.2.3') + socket.inet_aton('127.0.0.1')\n\
                  attempt(lambda: s.setsockopt(0, 35, group)); tell(s)";
    assert_eq!(came(script).0, format!("done {ONE}"));
}

/// Where others cannot be kept away the call is refused, and the log says why.
#[test]
fn what_cannot_be_filtered_is_refused_with_a_reason() {
    gates().into_iter().for_each(refused_with_a_reason);
}

fn refused_with_a_reason(gate: Gate) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let text = "default: deny\nrules: [{allow: in, from: [127.0.0.2, \"::1\"]}]";
    let options = Options { log: Some(Log::append(&path).unwrap()), ..Options::default() };
    let rules = Rules::new(read("policy", text.as_bytes()).unwrap(), options);
    let script = format!(
        "u = socket.socket(socket.AF_UNIX); attempt(lambda: u.bind('{}'))\n\
         try:\n m = tcp(protocol=262); m.bind(('', PORT)); attempt(m.listen)\n\
         except OSError: print('none', end=' ')\n\
         s = tcp(); s.bind(('', PORT)); attempt(s.listen)",
        folder.path().join("u").display()
    );
    let said = called(gate, &rules, free_port(), &script, &[]);
    assert!(["EACCES EACCES done", "EACCES none done"].contains(&said.as_str()), "{said}");
    let lines: Vec<serde_json::Value> = std::fs::read_to_string(&path)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let refused: Vec<_> = lines.iter().filter(|line| line["because"] == "from").collect();
    assert_eq!(refused.len(), said.matches("EACCES").count(), "{lines:?}");
    assert_eq!((&refused[0]["answer"], &refused[0]["errno"]), (&"deny".into(), &13.into()));
    assert_eq!(refused[0]["why"], "only sockets of tcp and udp can have `from`");
    if let Some(mptcp) = refused.get(1) {
        assert_eq!(mptcp["why"], "the kernel filters no mptcp");
    }
    let listens = lines.last().unwrap();
    assert_eq!(listens["from"], serde_json::json!(["127.0.0.2", "::1"]));
    assert_eq!((&listens["answer"], &listens["protocol"]), (&"allow".into(), &"tcp".into()));
}

#[test]
fn a_datagrams_sender_is_told_apart_from_one_that_is_allowed() {
    // What the tests above rest on: without `from` all come.
    let port = free_port();
    let all = rules(&format!("{{allow: in, port: {port}}}"));
    let callers = ["127.0.0.1", "127.0.0.2", "127.0.0.1"];
    assert_eq!(called(Gate::Kernel, &all, port, &format!("{TCP} tell(s)"), &callers), ALL);
    assert!(UdpSocket::bind(("127.0.0.2", 0)).is_ok());
}
