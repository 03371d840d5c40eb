//! Each door by which a program could reach a network past its supervisor, tried by a hostile program: what listens is
//! never reached where all is denied, and is reached where all is allowed, or without guard.
//!
//! The programs are in `doors/doors.c`. A door that this kernel or this user does not have is skipped.

use std::io::Write;
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use netloom_guard::{Judge, Judgement, Question, start};
use netloom_kit::{free_port, lacks, needs, skip};
use netloom_policy::{Protocol, Request};
use netloom_sys::seccomp::launch::Place;

/// Gives every request the same verdict.
pub(crate) struct All(Judgement);

impl Judge for All {
    fn known(&self, _: &Request) -> Option<Judgement> {
        Some(self.0)
    }

    fn decide(&self, _: &Question<'_>) -> Judgement {
        self.0
    }
}

const DENIED: All = All(Judgement::Deny(13));
pub(crate) const ALLOWED: All = All(Judgement::Allow);

/// What a program in Python prints, without guard or under one that allows all.
pub(crate) fn python(script: &str, guarded: bool) -> String {
    let mut command = Command::new("python3");
    command.args(["-c", script]).stdout(Stdio::piped());
    let child = if guarded {
        let (child, supervisor) = start(command, Place::default()).unwrap();
        supervisor.serve(&ALLOWED).unwrap();
        child
    } else {
        command.spawn().unwrap()
    };
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
}

/// Root needs no namespace to read its programs, and its sockets are those of the machine's network.
pub(crate) fn place() -> Place {
    let own_user = !netloom_kit::is_root() && netloom_kit::userns_allowed();
    Place { own_user, ..Place::default() }
}

/// A program, compiled by the first test that runs it.
pub(crate) fn compiled(name: &'static str, source: &str) -> PathBuf {
    netloom_kit::made_once(name, source, |program| {
        let mut cc = Command::new("cc");
        // At a fixed address, so that its variables are where they are in another process of it.
        cc.args(["-x", "c", "-O1", "-no-pie", "-pthread", "-w", "-", "-o"]).arg(program);
        let mut running = cc.stdin(Stdio::piped()).spawn().unwrap();
        running.stdin.take().unwrap().write_all(source.as_bytes()).unwrap();
        assert!(running.wait().unwrap().success(), "{name} does not compile");
    })
}

/// The program of all doors, compiled once.
pub(crate) fn doors() -> &'static PathBuf {
    static DOORS: OnceLock<PathBuf> = OnceLock::new();
    DOORS.get_or_init(|| compiled("doors", include_str!("doors/doors.c")))
}

/// What listens, and counts.
pub(crate) struct Ground {
    folder: tempfile::TempDir,
    name: String,
    tcp: Vec<TcpListener>,
    udp: Vec<UdpSocket>,
    streams: Vec<UnixListener>,
    datagrams: Vec<UnixDatagram>,
    free: u16,
    /// A listener that takes nobody any more, and who fills it.
    full: (TcpListener, Vec<OwnedFd>),
}

impl Ground {
    fn new() -> Ground {
        let folder = tempfile::tempdir().unwrap();
        let name = folder.path().file_name().unwrap().to_string_lossy().into_owned();
        let hidden = |kind: &str| SocketAddr::from_abstract_name(format!("{name}-{kind}")).unwrap();
        let four = std::net::SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let six = std::net::SocketAddr::from((Ipv6Addr::LOCALHOST, 0));
        let tcp = vec![
            TcpListener::bind(four).unwrap(),
            // Without IPv6 its doors lead nowhere.
            TcpListener::bind(&[six, four][..]).unwrap(),
        ];
        let udp = vec![UdpSocket::bind(four).unwrap(), UdpSocket::bind(&[six, four][..]).unwrap()];
        let streams = vec![
            UnixListener::bind(folder.path().join("stream")).unwrap(),
            UnixListener::bind_addr(&hidden("stream")).unwrap(),
        ];
        let datagrams = vec![
            UnixDatagram::bind(folder.path().join("datagram")).unwrap(),
            UnixDatagram::bind_addr(&hidden("datagram")).unwrap(),
        ];
        tcp.iter().for_each(|one| one.set_nonblocking(true).unwrap());
        udp.iter().for_each(|one| one.set_nonblocking(true).unwrap());
        streams.iter().for_each(|one| one.set_nonblocking(true).unwrap());
        datagrams.iter().for_each(|one| one.set_nonblocking(true).unwrap());
        let free = free_port();
        Ground { folder, name, tcp, udp, streams, datagrams, free, full: full() }
    }

    fn command(&self, program: &PathBuf, door: &str) -> Command {
        let tcp = |at: usize| self.tcp[at].local_addr().unwrap().port().to_string();
        let udp = |at: usize| self.udp[at].local_addr().unwrap().port().to_string();
        let mut command = Command::new(program);
        command.arg(door).env_clear().env("FOLDER", self.folder.path()).env("ABSTRACT", &self.name);
        command.env("TCP4", tcp(0)).env("TCP6", tcp(1)).env("UDP4", udp(0)).env("UDP6", udp(1));
        command.env("FULL", self.full.0.local_addr().unwrap().port().to_string());
        command.env("FREE", self.free.to_string()).stdin(Stdio::null()).stdout(Stdio::piped());
        command
    }

    /// The connections that reached the listeners.
    fn count(&self) -> usize {
        let mut buffer = [0; 64];
        let tcp = self.tcp.iter().map(|one| std::iter::from_fn(|| one.accept().ok()).count());
        let udp = self.udp.iter().map(|one| {
            std::iter::repeat_with(|| one.recv(&mut [0; 64])).take_while(Result::is_ok).count()
        });
        let streams =
            self.streams.iter().map(|one| std::iter::from_fn(|| one.accept().ok()).count());
        let all = tcp.chain(udp).chain(streams).sum::<usize>();
        let mut datagrams = 0;
        for one in &self.datagrams {
            while one.recv(&mut buffer).is_ok() {
                datagrams += 1;
            }
        }
        all + datagrams
    }
}

/// A listener with so many connections that it answers no more.
pub(crate) fn full() -> (TcpListener, Vec<OwnedFd>) {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, listen, socket_with};
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listen(&listener, 0).unwrap();
    let address = listener.local_addr().unwrap();
    let client = || {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let fd = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).unwrap();
        // In progress.
        let _ = connect(&fd, &address);
        fd
    };
    let clients = (0..4).map(|_| client()).collect();
    (listener, clients)
}

/// A process that is not under guard; it ends with the test.
struct Other(Child);

impl Other {
    fn start(program: &PathBuf) -> Other {
        let mut child =
            Command::new(program).arg("wait_for_end").stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let output = std::io::BufReader::new(child.stdout.as_mut().unwrap());
        std::io::BufRead::read_line(&mut { output }, &mut line).unwrap();
        Other(child)
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A socket, not connected, on its way to standard input.
fn sent_socket() -> UnixStream {
    use rustix::net::{AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SocketType};
    let (ours, theirs) = UnixStream::pair().unwrap();
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    let fds = [socket.as_fd()];
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut room);
    assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
    let data = [std::io::IoSlice::new(b"x")];
    let flags = rustix::net::SendFlags::empty();
    rustix::net::sendmsg(&ours, &data, &mut control, flags).unwrap();
    theirs
}

/// What a door let through, and what its program said.
#[derive(Debug)]
pub(crate) struct Tried {
    pub(crate) reached: usize,
    pub(crate) said: String,
}

pub(crate) fn run(program: &PathBuf, door: &str, judge: Option<&dyn Judge>) -> Tried {
    let ground = Ground::new();
    let mut command = ground.command(program, door);
    let other = Other::start(program);
    command.env("OTHER", other.0.id().to_string());
    if door == "received" {
        command.stdin(OwnedFd::from(sent_socket()));
    }
    let child = match judge {
        None => command.spawn().unwrap(),
        Some(judge) => {
            let (child, supervisor) = start(command, place()).unwrap();
            supervisor.serve(judge).unwrap();
            child
        }
    };
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(!said.contains("no such door"), "{door}");
    assert!(!said.contains("512"), "{door}: {said}");
    super::peers::settle();
    Tried { reached: ground.count() + said.matches("open").count(), said }
}

/// When a door leads somewhere.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leads {
    /// Where its request is allowed.
    WhenAllowed,
    /// Where a way or sender of one's own is allowed, too.
    WhenWide,
    /// Only without guard.
    Never,
}

/// What a door needs of the kernel or its user to lead anywhere, beside what all have.
fn need(door: &str) -> Option<&'static str> {
    let begins = |part: &str| door.starts_with(part);
    match door {
        "crypto" => Some("af-alg"),
        "vsock" => Some("af-vsock"),
        "ping" => Some("ping-sockets"),
        "own_user" | "own_network" | "own_processes" => Some("userns"),
        "trace" | "attach" | "write_memory" | "open_memory" | "take_descriptor" => Some("ptrace"),
        "io_uring" | "i386_io_uring" => Some("uring"),
        _ if begins("mptcp") => Some("mptcp"),
        _ if begins("x32_") => Some("x32"),
        _ if begins("i386_") || begins("socketcall_") => Some("i386"),
        _ => None,
    }
}

/// Why a door leads nowhere even without guard, as the reason of a skip.
fn closed(door: &str, said: &str) -> String {
    if let Some(reason) = need(door).into_iter().chain(["ipv6"]).find_map(netloom_kit::missing) {
        return reason;
    }
    assert!(!netloom_kit::is_root() && said.contains("EPERM"), "{door} leads nowhere: {said}");
    format!("root-only: {said}")
}

/// Why a door cannot be tried, if so.
fn attempt(door: &str, leads: Leads) -> Result<(), String> {
    let program = doors();
    let (judge, control): (&dyn Judge, Option<&dyn Judge>) = match leads {
        Leads::WhenAllowed => (&DENIED, Some(&ALLOWED)),
        Leads::WhenWide => (&NoWays, Some(&ALLOWED)),
        Leads::Never => (&ALLOWED, None),
    };
    let tried = run(program, door, Some(judge));
    assert_eq!(tried.reached, 0, "{door} led past the supervisor: {tried:?}");
    let open = run(program, door, control);
    if open.reached > 0 {
        return Ok(());
    }
    let free = run(program, door, None);
    assert_eq!(free.reached, 0, "{door} is barred where it is allowed: {open:?}, but {free:?}");
    Err(closed(door, &free.said.trim().replace('\n', " ")))
}

macro_rules! doors {
    ($leads:ident: $($door:ident)*) => {
        $(#[test]
        fn $door() {
            needs!("cc");
            if let Err(reason) = attempt(stringify!($door), Leads::$leads) {
                skip!("{reason}");
            }
        })*
    };
}

mod tcp {
    use super::*;
    doors!(WhenAllowed: connect4 connect6 connect_mapped connect_any4 connect_any6 connect_any_mapped connect_again
        connect_scope connect_without_scope connect_upper_bits connect_any_bound connect_nonblocking
        fastopen_sendto fastopen_sendmsg fastopen_sendmmsg fastopen_option mptcp mptcp_fastopen);
}

mod udp {
    use super::*;
    doors!(WhenAllowed: udp_sendto udp_sendmsg udp_sendmmsg udp_any udp_unspec udp_unspec_any udp_mapped udp6_to_4
        udp6_sendto udp6_any udp_connect udp_connected_elsewhere udp_pktinfo udp6_pktinfo ping);
    doors!(Never: udp_port_zero);
}

mod ways {
    use super::*;
    doors!(WhenAllowed: bind_to_device bind_to_index unicast_interface transparent source_route routing_header flow_label
        sticky_interface join join_any_family join6);
}

/// Where all is allowed but a way or sender of one's own.
struct NoWays;

impl Judge for NoWays {
    fn known(&self, request: &Request) -> Option<Judgement> {
        let widens = request.protocol == Protocol::Raw;
        Some(if widens { Judgement::Deny(13) } else { Judgement::Allow })
    }

    fn decide(&self, question: &Question<'_>) -> Judgement {
        self.known(question.request).unwrap()
    }
}

mod narrow {
    use super::*;
    doors!(WhenWide: udp_pktinfo udp6_pktinfo header_included header_included6 bind_to_index source_route);
}

mod sockets {
    use super::*;
    doors!(WhenAllowed: listen_unbound listen_unbound6 listen_after_failed_bind bind_port bind_unspec raw raw6
        packet packet_old netlink_sockets netlink_pair vsock crypto);
}

mod unix {
    use super::*;
    doors!(WhenAllowed: unix_path unix_relative unix_abstract unix_datagram unix_datagram_abstract
        unix_datagram_pair unix_bind);
}

mod processes {
    use super::*;
    doors!(WhenAllowed: thread own_descriptors without_leader child daemon_child vfork_child spawned executed
        executed_by_thread not_dumpable own_user own_network own_processes received);
}

mod kernel {
    use super::*;
    doors!(Never: io_uring second_supervisor another_name typed_ahead);

    #[test]
    fn key_upcall() {
        needs!("cc", "keys");
        if let Err(reason) = attempt("key_upcall", Leads::Never) {
            skip!("{reason}");
        }
    }

    #[test]
    fn tunnel() {
        needs!("cc", "tun");
        netloom_kit::root_only!("makes an interface");
        if let Err(reason) = attempt("tunnel", Leads::WhenAllowed) {
            skip!("{reason}");
        }
    }

    /// Doors to other processes, which a wall bars where the kernel has one.
    macro_rules! to_others {
        ($($door:ident)*) => {
            $(#[test]
            fn $door() {
                needs!("cc");
                if !place().bars_others() {
                    lacks!("landlock-tcp", "nor has the program a user namespace");
                }
                if let Err(reason) = attempt(stringify!($door), Leads::Never) {
                    skip!("{reason}");
                }
            })*
        };
    }

    to_others!(trace attach write_memory open_memory take_descriptor);

    #[test]
    fn no_signal_leaves_the_guard() {
        needs!("cc", "landlock-signals");
        for door in ["signal_process", "signal_thread", "signal_queued", "signal_by_descriptor"] {
            if let Err(reason) = attempt(door, Leads::Never) {
                skip!("{reason}");
            }
        }
    }

    #[test]
    fn no_other_process_gets_limits() {
        needs!("cc");
        if let Err(reason) = attempt("limit_process", Leads::Never) {
            skip!("{reason}");
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod instructions {
    use super::*;
    doors!(WhenAllowed: i386_connect i386_socket i386_sendto i386_sendmsg i386_sendmmsg i386_fastopen i386_listen
        i386_raw i386_device socketcall_connect socketcall_socket socketcall_sendto socketcall_sendmsg
        socketcall_sendmmsg socketcall_listen socketcall_device);
    doors!(Never: i386_io_uring x32_connect x32_sendmsg);
}

/// Root's supervisor lends nobody its rights: a program that has become another user reaches what that user reaches.
#[test]
fn who_gave_up_root_gets_nothing_of_it() {
    netloom_kit::root_only!("runs programs of several users");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("roots");
    let _listener = UnixListener::bind(&path).unwrap();
    let script = format!(
        "import os, socket, errno\n\
         def attempt(f):\n \
         try: f(); print('open')\n \
         except OSError as e: print(errno.errorcode[e.errno])\n\
         def all():\n \
         attempt(lambda: socket.socket(socket.AF_UNIX).connect({path:?}))\n \
         attempt(lambda: socket.socket().bind(('127.0.0.1', 999)))\n\
         os.setgroups([])\nos.setresgid(65534, 65534, 65534)\nos.setresuid(65534, 65534, 65534)\nall()"
    );
    let free = python(&script, false);
    assert_eq!(python(&script, true), free);
    assert!(free.starts_with("EACCES\n"), "{free}");
}
