//! Programs that talk under guard: what is allowed works as ever, what is denied reaches nothing.

use std::io::Read;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};
use std::sync::Mutex;

use netloom_guard::{Judge, Judgement, Question, start};
use netloom_policy::{Direction, Request};
use netloom_sys::seccomp::launch::Place;

fn place() -> Place {
    Place { own_user: netloom_kit::userns_allowed(), ..Place::default() }
}

/// Decides by a function, and keeps what was asked.
struct By<F>(F, Mutex<Vec<String>>);

impl<F: Fn(&Request) -> bool + Send + Sync> Judge for By<F> {
    fn known(&self, _: &Request) -> Option<Judgement> {
        None
    }

    fn decide(&self, question: &Question<'_>) -> Judgement {
        let request = question.request;
        let words = format!("{} {} {}", request.direction.name(), request.protocol, request.target);
        self.1.lock().unwrap().push(words);
        if (self.0)(request) { Judgement::Allow } else { Judgement::Deny(13) }
    }
}

/// A loopback address that only this process uses. A port chosen by the test is free there, whatever other tests
/// have bound on 127.0.0.1.
fn own_loopback() -> std::net::Ipv4Addr {
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    std::net::Ipv4Addr::new(127, 64 | high, middle, low)
}

/// Runs python under guard; gives its output and what was asked.
fn python(script: &str, allow: impl Fn(&Request) -> bool + Send + Sync) -> (String, Vec<String>) {
    let mut command = Command::new("python3");
    command.args(["-c", script]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let (mut child, supervisor) = start(command, place()).unwrap();
    let judge = By(allow, Mutex::default());
    supervisor.serve(&judge).unwrap();
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    child.wait().unwrap();
    (text, judge.1.into_inner().unwrap())
}

fn listener() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

const SOCKETS: &str = "
import socket, os, sys, errno, struct
def attempt(f):
    try:
        print(f())
    except OSError as e:
        print(errno.errorcode[e.errno])
";

#[test]
fn an_allowed_connection_works_and_is_asked_about_once() {
    let (listener, port) = listener();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        std::io::Write::write_all(&mut stream, b"hello").unwrap();
    });
    let script = format!(
        "{SOCKETS}\ns = socket.create_connection(('127.0.0.1', {port}))\nprint(s.recv(9).decode())"
    );
    let (text, asked) = python(&script, |_| true);
    server.join().unwrap();
    assert_eq!(text, "hello\n");
    assert_eq!(asked, [format!("out tcp 127.0.0.1:{port}")]);
}

#[test]
fn a_denied_connection_reaches_nothing() {
    let (listener, port) = listener();
    listener.set_nonblocking(true).unwrap();
    let script = format!(
        "{SOCKETS}\nfor a in ['127.0.0.1', '0.0.0.0', '::ffff:127.0.0.1', 'localhost']:\n \
         attempt(lambda: socket.create_connection((a, {port})))"
    );
    let (text, asked) = python(&script, |request| request.direction != Direction::Out);
    assert!(text.lines().all(|line| line == "EACCES"), "{text}");
    assert!(asked.len() >= 4, "{asked:?}");
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn datagrams_are_asked_about_by_address_and_not_when_connected() {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    let script = format!(
        "{SOCKETS}\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
         print(s.sendto(b'one', ('127.0.0.1', {port})))\n\
         print(s.sendmsg([b'tw', b'o'], [], 0, ('127.0.0.1', {port})))\n\
         s.connect(('127.0.0.1', {port}))\nprint(s.send(b'three'), s.sendmsg([b'four']))"
    );
    let (text, asked) = python(&script, |_| true);
    assert_eq!(text, "3\n3\n5 4\n");
    assert_eq!(asked, vec![format!("out udp 127.0.0.1:{port}"); 3]);
    let mut buffer = [0; 16];
    for expected in ["one", "two", "three", "four"] {
        let length = socket.recv(&mut buffer).unwrap();
        assert_eq!(std::str::from_utf8(&buffer[..length]).unwrap(), expected);
    }
}

#[test]
fn a_listener_is_asked_about_when_it_binds_and_when_it_does_not() {
    let own = own_loopback();
    let script = format!(
        "{SOCKETS}\na = socket.socket()\na.bind(('127.0.0.1', 0))\nprint(a.listen(5))\n\
         b = socket.socket()\nprint(b.listen(5))\n\
         c = socket.socket()\nc.bind(('{own}', 4711))\nprint(c.listen())"
    );
    let (text, asked) = python(&script, |_| true);
    assert_eq!(text, "None\nNone\nNone\n");
    let named = format!("in tcp {own}:4711");
    assert_eq!(asked, ["in tcp 127.0.0.1:free", "in tcp 0.0.0.0:free", &named]);
    let (text, _) = python(&format!("{SOCKETS}\nattempt(socket.socket().listen)"), |_| false);
    assert_eq!(text, "EACCES\n");
}

#[test]
fn a_free_port_stays_one_and_no_other_becomes_one() {
    // Asked again after a denial; chosen at listen(2) in spite of an option; bound again after a connection was
    // dissolved, to a port that is denied.
    let script = format!(
        "{SOCKETS}\na = socket.socket()\nattempt(lambda: a.listen())\nattempt(lambda: a.listen())\n\
         b = socket.socket()\nb.setsockopt(0, 24, 1)\nb.bind(('127.0.0.1', 0))\nattempt(lambda: b.listen())\n\
         print(b.getsockname()[1] > 0)\n\
         import ctypes\nc = socket.socket()\nc.bind(('127.0.0.1', 0))\n\
         print(ctypes.CDLL(None).connect(c.fileno(), struct.pack('HH12x', 0, 0), 16))\n\
         attempt(lambda: c.bind(('127.0.0.1', 4711)))\nattempt(lambda: c.listen())"
    );
    let (text, asked) = python(&script, |_| false);
    assert_eq!(text, "EACCES\nEACCES\nEACCES\nTrue\n0\nEACCES\nEACCES\n");
    assert_eq!(
        asked,
        [
            "in tcp 0.0.0.0:free",
            "in tcp 0.0.0.0:free",
            "in tcp 127.0.0.1:free",
            "in tcp 127.0.0.1:4711",
            "in tcp 127.0.0.1:free",
        ]
    );
}

#[test]
fn a_port_that_the_kernel_chose_to_send_from_is_free() {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    let own = own_loopback();
    // A socket that has sent, by each call, has connected, or was bound to port 0; and one with a port of its own.
    let script = format!(
        "{SOCKETS}\nTO = ('127.0.0.1', {port})\n\
         GROUP = socket.inet_aton('239.1.2.3') + socket.inet_aton('127.0.0.1')\n\
         def udp(): return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
         def joins(s): attempt(lambda: s.setsockopt(0, 35, GROUP))\n\
         a = udp(); a.sendto(b'x', TO); joins(a)\nb = udp(); b.sendmsg([b'x'], [], 0, TO); joins(b)\n\
         c = udp(); c.connect(TO); joins(c)\nd = udp(); d.bind(('127.0.0.1', 0)); d.sendto(b'x', TO); joins(d)\n\
         e = udp(); e.bind(('{own}', 4711)); e.sendto(b'x', TO); joins(e)"
    );
    let (_, asked) = python(&script, |_| true);
    let joined: Vec<_> = asked.iter().filter(|words| words.contains("239.1.2.3")).collect();
    assert_eq!(joined[..4], ["in udp 239.1.2.3:free"; 4], "{asked:?}");
    assert_eq!(joined[4..], ["in udp 239.1.2.3:4711"], "{asked:?}");
}

#[test]
fn sockets_that_need_no_address_are_asked_about() {
    let script = format!(
        "{SOCKETS}\nattempt(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))\n\
         attempt(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))\n\
         attempt(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4))\n\
         attempt(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) and 'route')"
    );
    let (text, asked) = python(&script, |_| false);
    assert_eq!(text, "EACCES\nEACCES\nEACCES\nroute\n");
    assert_eq!(asked, ["open packet a socket", "open raw:icmp a socket", "open netlink a socket"]);
}

#[test]
fn unix_sockets_are_asked_about_by_where_their_path_leads() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap().join("socket");
    let server = UnixListener::bind(&path).unwrap();
    std::os::unix::fs::symlink(&path, folder.path().join("link")).unwrap();
    let link = folder.path().join("link");
    let script = format!(
        "{SOCKETS}\ns = socket.socket(socket.AF_UNIX)\nprint(s.connect({link:?}))\n\
         os.chdir({:?})\ns = socket.socket(socket.AF_UNIX)\nprint(s.connect('socket'))\n\
         os.umask(0o027)\nb = socket.socket(socket.AF_UNIX)\nb.bind('new')\n\
         print(b.listen(), oct(os.stat('new').st_mode))\n\
         attempt(lambda: socket.socket(socket.AF_UNIX).connect('gone'))\n\
         attempt(lambda: socket.socket(socket.AF_UNIX).connect('\\0gone'))",
        folder.path()
    );
    let (text, asked) = python(&script, |_| true);
    assert_eq!(text, "None\nNone\nNone 0o140750\nENOENT\nECONNREFUSED\n");
    let new = path.with_file_name("new");
    assert_eq!(
        asked,
        [
            format!("out unix unix:{}", path.display()),
            format!("out unix unix:{}", path.display()),
            format!("in unix unix:{}", new.display()),
            "out unix unix:@gone".to_owned(),
        ]
    );
    drop(server);
}

#[test]
fn descriptors_go_along_with_messages() {
    let script = format!(
        "{SOCKETS}\na, b = socket.socketpair()\nr, w = os.pipe()\n\
         socket.send_fds(a, [b'x'], [w])\nm, fds, _, _ = socket.recv_fds(b, 9, 9)\n\
         os.write(fds[0], b'through')\nprint(m, os.read(r, 99))"
    );
    let (text, asked) = python(&script, |_| false);
    assert_eq!(text, "b'x' b'through'\n");
    assert_eq!(asked, Vec::<String>::new());
}

#[test]
fn io_uring_does_not_exist() {
    let script = "import ctypes\nl = ctypes.CDLL(None, use_errno=True)\n\
                  print(l.syscall(425, 8, ctypes.create_string_buffer(256)), ctypes.get_errno())";
    let (text, _) = python(script, |_| true);
    assert_eq!(text, "-1 38\n");
}

#[test]
fn a_closed_stream_kills_its_writer_as_ever() {
    let script = format!(
        "{SOCKETS}\nimport signal\nsignal.signal(signal.SIGPIPE, lambda *a: print('SIGPIPE'))\n\
         a, b = socket.socketpair()\nb.close()\nattempt(lambda: a.sendmsg([b'x']))\n\
         attempt(lambda: a.sendmsg([b'x'], [], socket.MSG_NOSIGNAL))"
    );
    let (text, _) = python(&script, |_| true);
    assert_eq!(text, "SIGPIPE\nEPIPE\nEPIPE\n");
}

#[test]
fn programs_of_many_processes_are_served() {
    let mut command = Command::new("sh");
    command.args(["-c", "for i in $(seq 100); do echo a | cat | cat; done | wc -l"]);
    command.stdout(Stdio::piped());
    let (child, supervisor) = start(command, Place::default()).unwrap();
    supervisor.serve(&By(|_: &Request| true, Mutex::default())).unwrap();
    assert_eq!(child.wait_with_output().unwrap().stdout, b"100\n");
}

/// A listener that is dissolved gives back a port that the kernel chose: the one that it gets then is judged as well.
#[test]
fn a_port_that_is_chosen_again_is_judged_again() {
    netloom_kit::needs!("linux-6.3");
    netloom_kit::isolated!({
        let script = format!(
            "{SOCKETS}
import ctypes
RANGE = 51 # IP_LOCAL_PORT_RANGE
def dissolved(s): ctypes.CDLL(None).connect(s.fileno(), bytes(16), 16)
def narrowed(s): s.setsockopt(socket.IPPROTO_IP, RANGE, struct.pack('I', 40000 | 40003 << 16))
s = socket.socket()
attempt(s.listen); dissolved(s); attempt(s.listen); dissolved(s)
narrowed(s); attempt(s.listen)
t = socket.socket(); t.bind(('127.0.0.1', 39999)); attempt(t.listen); dissolved(t); narrowed(t); attempt(t.listen)
print(t.getsockname()[1])"
        );
        let denied = 40000..=40003;
        let (said, asked) = python(&script, |request| {
            !request.target.port().number().is_some_and(|port| denied.contains(&port))
        });
        assert_eq!(said, "None\nNone\nEACCES\nNone\nNone\n39999\n", "{asked:?}");
    });
}
