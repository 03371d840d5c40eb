//! Programs whose connections are accepted for them: they see what they would see without guard, except refused peers.
//!
//! Each script says the same by itself and under guard, where its listeners have peers that are looked at.

use std::io::{BufRead, BufReader, Read};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};

use netloom_guard::{Gate, start_by};
use netloom_kit::{free_port, needed};
use rustix::net::SocketType;

use super::peers::{PROGRAM, call, rules};
use super::redteam::place;

const HEAD: &str = r#"
import signal, time, threading
signal.alarm(60)
libc = ctypes.CDLL(None, use_errno=True)
def plain(fd, address=None, length=None, flags=None):
    if flags is None: got = libc.accept(fd, address, length)
    else: got = libc.accept4(fd, address, length, flags)
    return got if got >= 0 else errno.errorcode[ctypes.get_errno()]
def listener(kind=None):
    s = kind or tcp(); s.bind(('127.0.0.1', 0)) if not kind else None; s.listen(512); return s
def reach(s): c = tcp(); c.connect(s.getsockname()); return c
# One of the signals meets the call that follows, however late that is.
def repeat(seconds): signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
# Until the main thread accepts, by the number of its call.
def waits():
    number = {'x86_64': '43', 'aarch64': '202'}.get(os.uname().machine)
    while True:
        time.sleep(0.1)
        with open(f'/proc/self/task/{os.getpid()}/syscall') as f: now = f.read().split()[0]
        if number in (now, None): return
"#;

fn command(script: &str) -> Command {
    let mut command = Command::new("python3");
    command.args(["-c", &format!("{PROGRAM}\n{HEAD}\n{script}"), "0"]).stdout(Stdio::piped());
    command
}

/// What a script says under guard.
fn guarded(command: Command, from: &str) -> String {
    guarded_by(command, &format!("{{allow: in, from: {from}}}"))
}

fn guarded_by(mut command: Command, text: &str) -> String {
    let rules = rules(text);
    command.stdin(Stdio::null());
    let (child, supervisor) = start_by(command, place(), Gate::Accept).unwrap();
    supervisor.serve(&rules).unwrap();
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
}

/// A script says this, with and without guard.
fn alike(script: &str, said: &str) {
    let free = command(script).stdin(Stdio::null()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&free.stdout).trim(), said, "without guard: {script}");
    assert_eq!(guarded(command(script), "127.0.0.0/8").trim(), said, "{script}");
}

#[test]
fn descriptors_have_the_flags_that_were_asked_for() {
    alike(
        "import fcntl
s = listener()
for flags in (None, 0, 0o4000, 0o2000000, 0o2004000, 1):
    c = reach(s)
    got = plain(s.fileno(), flags=flags)
    print(got if isinstance(got, str) else (fcntl.fcntl(got, 1), fcntl.fcntl(got, 3) & 0o4000), end=' ')",
        "(0, 0) (0, 0) (0, 2048) (1, 0) (1, 2048) EINVAL",
    );
}

#[test]
fn addresses_are_written_as_far_as_there_is_room() {
    alike(
        "s = listener()
for room in (16, 4, 0, 128, -1):
    c = reach(s)
    into, length = ctypes.create_string_buffer(b'\\xff' * 128, 128), ctypes.c_int(room)
    got = plain(s.fileno(), into, ctypes.byref(length))
    whole = struct.pack('!H', c.getsockname()[1]) == into.raw[2:4]
    print(got if isinstance(got, str) else '-', length.value, into.raw[:2], whole, into.raw[16:18], end='; ')
for address, length in ((1, 1), (ctypes.create_string_buffer(16), 1), (None, 1)):
    c = reach(s)
    got = plain(s.fileno(), address and ctypes.cast(address, ctypes.c_void_p), ctypes.c_void_p(length))
    print(got if isinstance(got, str) else '-', end=' ')",
        "- 16 b'\\x02\\x00' True b'\\xff\\xff'; - 16 b'\\x02\\x00' True b'\\xff\\xff'; \
         - 16 b'\\xff\\xff' False b'\\xff\\xff'; - 16 b'\\x02\\x00' True b'\\xff\\xff'; \
         EINVAL -1 b'\\xff\\xff' False b'\\xff\\xff'; EFAULT EFAULT -",
    );
}

#[test]
fn errors_are_the_kernels() {
    alike(
        "import os
s = listener(); s.setblocking(False)
null = os.open('/dev/null', 0)
print(plain(s.fileno()), plain(-1), plain(999), plain(null), end=' ')
t, d = tcp(), udp(); print(plain(t.fileno()), plain(d.fileno()), end=' ')
c = reach(s); print(plain(c.fileno()), end=' ')
u = socket.socket(socket.AF_UNIX); print(plain(u.fileno()), end=' ')
s.shutdown(2); print(plain(s.fileno()))",
        "EAGAIN EBADF EBADF ENOTSOCK EINVAL ENOTSUP EINVAL EINVAL EINVAL",
    );
}

#[test]
fn a_time_limit_ends_the_wait() {
    alike(
        "s = listener(); s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack('ll', 0, 100000))
begun = time.monotonic(); print(plain(s.fileno()), 0.09 < time.monotonic() - begun < 20, end=' ')
signal.signal(signal.SIGALRM, lambda *_: None); signal.siginterrupt(signal.SIGALRM, False)
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack('ll', 50, 0))
signal.setitimer(signal.ITIMER_REAL, 0.05); print(plain(s.fileno()))",
        "EAGAIN True EINTR",
    );
}

#[test]
fn signals_interrupt_or_restart_the_wait() {
    // With a handler that restarts calls, the connection is made by it.
    alike(
        "s = listener(); made = []
signal.signal(signal.SIGALRM, lambda *_: None)
repeat(0.05); print(plain(s.fileno()), end=' '); repeat(0)
handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(lambda _: made.append(reach(s)))
libc.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.05); print(isinstance(plain(s.fileno()), int), len(made))",
        "EINTR True 1",
    );
}

#[test]
fn a_signal_of_a_process_with_threads_interrupts_who_accepts() {
    alike(
        "s = listener()
threading.Thread(target=lambda: os.read(0, 1) or time.sleep(60), daemon=True).start()
signal.signal(signal.SIGALRM, lambda *_: None); repeat(0.05)
print(plain(s.fileno()), flush=True); os._exit(0)",
        "EINTR",
    );
}

/// A process has stopped when all of its threads have, also who accepts; that one waits on after the stop.
#[test]
fn who_accepts_stops_with_its_process_and_waits_on() {
    alike(
        "s = listener(); r, w = os.pipe(); pid = os.fork()
if pid == 0:
    signal.alarm(60); os.close(r)
    def one():
        os.write(w, b'.'); got = plain(s.fileno()); os.write(w, b'+' if isinstance(got, int) else b'-'); os._exit(0)
    threading.Thread(target=one).start(); time.sleep(60)
os.close(w); os.read(r, 1)
for n in range(3):
    os.kill(pid, signal.SIGSTOP); print(os.WIFSTOPPED(os.waitpid(pid, os.WUNTRACED)[1]), end=' ')
    os.kill(pid, signal.SIGCONT); os.waitpid(pid, os.WCONTINUED)
c = reach(s); print(os.read(r, 1))",
        "True True True b'+'",
    );
}

#[test]
fn a_listener_that_is_shut_down_or_closed_ends_the_wait_as_ever() {
    alike(
        "s = listener(); t = listener()
def later(): waits(); s.shutdown(2)
threading.Thread(target=later).start(); print(plain(s.fileno()), end=' ')
# Closed, it goes on for callers that wait already.
def closing():
    waits(); name = t.getsockname(); fd = t.detach(); os.close(fd)
    c = tcp(); c.connect(name); c.close()
threading.Thread(target=closing).start(); print(isinstance(plain(t.fileno()), int))",
        "EINVAL True",
    );
}

#[test]
fn threads_and_processes_share_a_listener() {
    alike(
        "s = listener(); r, w = os.pipe()
def one(): c, _ = s.accept(); os.write(w, c.recv(1)); c.close()
for n in range(3):
    if os.fork() == 0: one(); os._exit(0)
threads = [threading.Thread(target=one) for n in range(3)]
for t in threads: t.start()
for n in range(6): c = reach(s); c.send(b'%d' % n)
print(sorted(os.read(r, 1) for n in range(6)))",
        "[b'0', b'1', b'2', b'3', b'4', b'5']",
    );
}

#[test]
fn who_waits_for_connections_holds_up_nobody() {
    // More of them than the supervisor has threads for what takes long.
    alike(
        "s = listener(); t = listener(); count = 0; threading.stack_size(1 << 16)
def one():
    s.accept()
for n in range(600): threading.Thread(target=one, daemon=True).start()
for n in range(50): c = reach(t); t.accept()[0].close()
print('served', flush=True); os._exit(0)",
        "served",
    );
}

#[test]
fn a_port_is_free_when_its_listener_is_closed() {
    alike(
        "s = listener(); at = s.getsockname()
for n in range(300):
    s.setblocking(False)
    try: s.accept()
    except BlockingIOError: pass
    s.close(); s = tcp(); s.bind(at); s.listen()
print('bound')",
        "bound",
    );
}

/// A program that listens by a rule with other peers would let them in to every owner of the socket.
#[test]
fn a_listener_does_not_listen_for_others_later() {
    let perl = needed!("perl");
    let script = format!(
        "s = listener(); s.set_inheritable(True); sys.stdout.flush()
perl = 'open(S, \"+<&=\" . shift) or die; print listen(S, 5) ? \"listens\" : \"refused\"'
os.execv('{0}', ['{0}', '-e', perl, str(s.fileno())])",
        perl.display()
    );
    let by = |others: &str| {
        let perls = format!("{{allow: in, program: {}, from: {others}}}", perl.display());
        guarded_by(command(&script), &format!("{{allow: in, from: 127.0.0.0/8}}, {perls}"))
    };
    assert_eq!(by("127.0.0.0/8"), "listens");
    assert_eq!(by("10.0.0.0/8"), "refused");
}

#[test]
fn other_sockets_are_accepted_as_ever() {
    let folder = tempfile::tempdir().unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(folder.path(), open).unwrap();
    for at in ["free", "guarded"].map(|name| folder.path().join(name)) {
        let script = format!(
            "s = socket.socket(socket.AF_UNIX); s.bind('{}'); s.listen()
c = socket.socket(socket.AF_UNIX)
if os.fork() == 0: c.connect(s.getsockname()); c.send(b'x'); os.wait if 0 else os._exit(0)
a, who = s.accept(); pid, uid, gid = struct.unpack('iii', a.getsockopt(1, 17, 12))
print(who == '', a.recv(1), uid == os.getuid())",
            at.display()
        );
        let said = if at.ends_with("free") {
            let output = command(&script).output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        } else {
            let rules = super::redteam::ALLOWED;
            let (child, supervisor) = start_by(command(&script), place(), Gate::Accept).unwrap();
            supervisor.serve(&rules).unwrap();
            String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
        };
        assert_eq!(said.trim(), "True b'x' True", "{}", at.display());
    }
}

#[test]
fn a_connection_stays_where_there_is_no_room_for_it() {
    alike(
        "import resource
s = listener(); c = reach(s); hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
full = max(int(n) for n in os.listdir('/proc/self/fd')) + 1
while os.dup(s.fileno()) < full: pass
resource.setrlimit(resource.RLIMIT_NOFILE, (full + 1, hard))
print(plain(s.fileno()), end=' ')
resource.setrlimit(resource.RLIMIT_NOFILE, (full + 9, hard))
print(isinstance(plain(s.fileno()), int))",
        "EMFILE True",
    );
}

/// A program that accepts and waits, as its listener's port, and its output.
fn accepting(script: &str, from: &str, then: impl FnOnce(u16)) -> String {
    let port = free_port();
    let rules = rules(&format!("{{allow: in, port: {port}, from: {from}}}"));
    let (mut child, supervisor) =
        start_by(command(&script.replace("PORT", &port.to_string())), place(), Gate::Accept)
            .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut said = String::new();
    std::thread::scope(|scope| {
        scope.spawn(|| supervisor.serve(&rules).unwrap());
        output.read_line(&mut String::new()).unwrap();
        then(port);
        output.read_to_string(&mut said).unwrap();
        child.wait().unwrap();
    });
    said.trim().to_owned()
}

/// A connection from elsewhere is reset, and the wait goes on.
#[test]
fn a_connection_from_elsewhere_is_reset_while_its_listener_waits() {
    let script = "s = tcp(); s.bind(('', PORT)); s.listen(); print('ready', flush=True)
for n in range(2): print(s.accept()[1][0])";
    let said = accepting(script, "127.0.0.2", |port| {
        for n in 0..40 {
            if n == 0 || n == 39 {
                drop(call("127.0.0.2", port, SocketType::STREAM));
            }
            if n == 39 {
                break;
            }
            let socket = call("127.0.0.1", port, SocketType::STREAM);
            let mut socket = TcpStream::from(socket);
            socket.set_nonblocking(false).unwrap();
            let error = socket.read(&mut [0]).unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        }
    });
    assert_eq!(said, "127.0.0.2\n127.0.0.2");
}

/// One that the program has from outside is under the rule for its address; one of its own goes to nobody else.
#[test]
fn listeners_come_in_under_their_rule_and_do_not_leave() {
    let held = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = held.local_addr().unwrap().port();
    let callers = ["127.0.0.1", "127.0.0.2"].map(|from| call(from, port, SocketType::STREAM));
    rustix::io::fcntl_setfd(&held, rustix::io::FdFlags::empty()).unwrap();
    let script = format!(
        "s = socket.socket(fileno={}); print(s.accept()[1][0], end=' ')
s.setblocking(False); print(plain(s.fileno()), end=' ')
import array
a, b = socket.socketpair()
def send(s): a.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [s.fileno()]))])
own = tcp(); own.bind(('', 0)); bound = tcp(); own.listen()
c = tcp(); c.bind(('127.0.0.2', 0)); c.connect(('127.0.0.1', own.getsockname()[1])); over = own.accept()[0]
c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0)); c.close()
try: over.getpeername()
except OSError as e: print(errno.errorcode[e.errno], end=' ')
fresh = reach(own); libc.connect(fresh.fileno(), bytes(16), 16)
for one in (s, own, bound, fresh, udp(), a, reach(own), over): attempt(lambda: send(one))",
        held.as_raw_fd()
    );
    let said = guarded(command(&script), "127.0.0.2");
    drop(callers);
    assert_eq!(
        said.trim(),
        "127.0.0.2 EAGAIN ENOTCONN EACCES EACCES EACCES EACCES done done done done"
    );
}

/// One that everybody may reach is handed over as ever.
#[test]
fn listeners_without_peers_are_handed_over() {
    let script = "import array
a, b = socket.socketpair(); s = listener()
a.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [s.fileno()]))])
print('sent')";
    let rules = rules("{allow: in, from: 127.0.0.2, port: 1}, {allow: in}");
    let (child, supervisor) = start_by(command(script), place(), Gate::Accept).unwrap();
    supervisor.serve(&rules).unwrap();
    assert_eq!(child.wait_with_output().unwrap().stdout, b"sent\n");
}

#[test]
fn a_program_that_is_killed_while_it_accepts_leaves_its_port() {
    alike(
        "at = listener().getsockname()
def bound():
    while True:
        s = tcp()
        try: s.bind(at); s.listen(); return s
        except OSError as e:
            if e.errno != errno.EADDRINUSE: raise
for n in range(5):
    s = bound(); r, w = os.pipe(); pid = os.fork()
    if pid == 0: os.write(w, b'.'); s.accept()
    s.close(); os.read(r, 1); os.kill(pid, 9); os.waitpid(pid, 0)
print('over')",
        "over",
    );
}
