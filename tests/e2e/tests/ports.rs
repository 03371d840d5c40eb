//! Ports of the host that lead to programs in nodes, as root and as an ordinary user.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use netloom_kit::{free_port, wait_until};
use netloom_tests_e2e::live::kill_and_wait;
use netloom_tests_e2e::{Machine, kill, machine, needs};

/// Answers what it is sent, in capitals: streams at their end, datagrams at once. Arguments: address, port, kind.
const SERVER: &str = "
import socket, sys
at, port, kind = sys.argv[1], int(sys.argv[2]), sys.argv[3]
family = socket.AF_INET6 if ':' in at else socket.AF_INET
if kind == 'udp':
    s = socket.socket(family, socket.SOCK_DGRAM); s.bind((at, port))
    while True:
        data, who = s.recvfrom(65535); s.sendto(data.upper(), who)
s = socket.create_server((at, port), family=family)
while True:
    c, _ = s.accept()
    data = b''
    while True:
        part = c.recv(65536)
        if not part: break
        data += part
    c.sendall(data.upper()); c.close()
";

/// What a stream answers; `None` if the connection fails or ends without an answer.
fn stream(at: &str, asked: &[u8]) -> Option<Vec<u8>> {
    let at: SocketAddr = at.parse().expect("an address");
    let mut connection = TcpStream::connect_timeout(&at, LONG).ok()?;
    connection.set_read_timeout(Some(LONG * 2)).ok()?;
    connection.write_all(asked).ok()?;
    connection.shutdown(Shutdown::Write).ok()?;
    let mut answer = vec![];
    connection.read_to_end(&mut answer).ok()?;
    (!answer.is_empty()).then_some(answer)
}

fn datagram(at: &str, asked: &[u8]) -> Option<Vec<u8>> {
    let own = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    own.set_read_timeout(Some(Duration::from_millis(500))).expect("a time limit");
    own.send_to(asked, at).ok()?;
    let mut answer = vec![0; 65535];
    let (length, _) = own.recv_from(&mut answer).ok()?;
    Some(answer[..length].to_vec())
}

/// A node whose servers listen on all addresses, on loopback and on an address of its interface alone.
fn lab(machine: &Machine, ports: [u16; 4]) -> String {
    let [every, loopback, own, udp] = ports;
    let server = machine.scratch().path().join("server.py");
    std::fs::write(&server, SERVER).expect("write the server");
    let program = |at: &str, port: u16, kind: &str| {
        format!("[python3, /srv/server.py, \"{at}\", \"{port}\", {kind}]")
    };
    format!(
        "name: ports\nnodes:\n  other: {{}}\n  web:\n    files: {{/srv/server.py: {{from: server.py}}}}\n    \
         ports: [{every}:80, {loopback}:81, '127.0.0.1:{own}:82', '{udp}:53/udp']\n    run:\n      - {}\n      - {}\n      - {}\n      - {}\n    \
         ready: {{tcp: [80, 81, 82]}}\nlinks:\n  - {{ends: [web, other], addresses: {{web: 10.9.0.1/24, other: 10.9.0.2/24}}}}\n",
        program("::", 80, "tcp"),
        program("127.0.0.1", 81, "tcp"),
        program("10.9.0.1", 82, "tcp"),
        program("10.9.0.1", 53, "udp"),
    )
}

/// The process that publishes the ports of this machine's nodes.
pub(crate) fn publisher(machine: &Machine) -> i32 {
    let own = machine.scratch().runtime_dir().to_string_lossy().into_owned();
    let processes = std::fs::read_dir("/proc").expect("processes").flatten();
    let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let publishes = |pid: &i32| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words).into_owned();
        words.contains("ports-process") && words.contains(&own)
    };
    pids.find(publishes).expect("a process that publishes ports")
}

/// A wait that is long enough on a busy machine.
const LONG: Duration = Duration::from_secs(30);

#[test]
fn ports_lead_to_programs_wherever_they_listen() {
    needs!("python3", "ipv6");
    let machine = machine!();
    let ports = [free_port(), free_port(), free_port(), free_port()];
    machine.up(&lab(&machine, ports));
    let at = |port: usize| format!("127.0.0.1:{}", ports[port]);
    assert_eq!(stream(&at(0), b"hello"), Some(b"HELLO".to_vec()));
    assert_eq!(stream(&format!("[::1]:{}", ports[0]), b"six"), Some(b"SIX".to_vec()));
    assert_eq!(stream(&at(1), b"loopback"), Some(b"LOOPBACK".to_vec()));
    assert_eq!(stream(&at(2), b"own"), Some(b"OWN".to_vec()));
    assert_eq!(stream(&format!("[::1]:{}", ports[2]), b"no"), None, "an address was given");
    // Both directions carry much at once, and an end of one passes through.
    let much: Vec<u8> =
        (0..4_000_000_u32).map(|n| b'a' + u8::try_from(n % 23).unwrap_or(0)).collect();
    assert_eq!(stream(&at(0), &much).expect("an answer"), much.to_ascii_uppercase());
    wait_until("an answer to a datagram", LONG, || {
        datagram(&at(3), b"ask").is_some_and(|a| a == b"ASK").then_some(())
    });
    let large = vec![b'x'; 9000];
    wait_until("a large one", LONG, || {
        datagram(&at(3), &large).is_some_and(|a| a.len() == 9000).then_some(())
    });
    // It has no right and nothing of the host's network but what it listens at.
    let status = std::fs::read_to_string(format!("/proc/{}/status", publisher(&machine)));
    let status = status.expect("its status");
    for line in ["CapEff:\t0000000000000000", "CapPrm:\t0000000000000000"] {
        assert!(status.contains(line), "{status}");
    }
    // The ports of a recreated node, and of a process that ended, are published again.
    kill(publisher(&machine));
    wait_until("a new process", LONG, || stream(&at(1), b"again"));
    let pid = machine.node("web")["pid"].as_i64().expect("its init");
    // `up` adopts one that still ends.
    kill_and_wait(i32::try_from(pid).expect("a number of a process"));
    machine.up(&lab(&machine, ports));
    wait_until("a new node", LONG, || {
        stream(&at(0), b"twice").is_some_and(|a| a == b"TWICE").then_some(())
    });
    machine.down();
    assert_eq!(stream(&at(0), b"gone"), None);
}

#[test]
fn a_port_that_is_taken_is_told_and_nothing_is_left() {
    let machine = machine!();
    let own = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = own.local_addr().expect("its number").port();
    let file = machine.file(&format!("name: taken\nnodes: {{web: {{ports: '{port}:80'}}}}\n"));
    let up = machine.netloom(["up".as_ref(), file.as_os_str()]).finish().code(1);
    let told = format!("node \"web\": port 127.0.0.1:{port}/tcp: listen: Address already in use");
    assert!(up.errors().contains(&told), "{}", up.errors());
    let file =
        machine.file("name: twice\nnodes: {a: {ports: '7:80'}, b: {ports: '0.0.0.0:7:9'}}\n");
    let check = machine.netloom(["check".as_ref(), file.as_os_str()]).finish().code(2);
    let told = "node \"b\": port 0.0.0.0:7:9 of the host is that of node \"a\" already";
    assert!(check.errors().contains(told), "{}", check.errors());
    machine.untouched();
}

#[test]
fn ports_come_and_go_in_a_living_node() {
    needs!("python3");
    let machine = machine!();
    let ports = [free_port(), free_port(), free_port(), free_port()];
    let text = lab(&machine, ports);
    let at = |port: usize| format!("127.0.0.1:{}", ports[port]);
    let less = text.replace(&format!("{}:81, ", ports[1]), "");
    assert_ne!(text, less);
    machine.up(&less);
    let inits = machine.inits();
    let apply = |text: &str, flags: &[&str]| {
        let file = machine.file(text);
        let words = ["apply", file.to_str().expect("a path in UTF-8")];
        machine.netloom(words.iter().chain(flags)).bound(LONG * 4).finish()
    };
    assert_eq!(stream(&at(1), b"closed"), None);
    // Connections to a port of the node end, so `apply` asks.
    let refused = apply(&text, &[]).code(2);
    assert!(refused.errors().contains("--yes"), "{}", refused.errors());
    let told = apply(&text, &["--yes"]).code(0).text();
    assert!(told.starts_with("~ node web: ports."), "{told}");
    assert_eq!(stream(&at(1), b"open"), Some(b"OPEN".to_vec()));
    assert_eq!(stream(&at(0), b"still"), Some(b"STILL".to_vec()));
    apply(&text, &["--check"]).code(0);
    // One that is taken is refused before anything is done.
    let own = TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = own.local_addr().expect("its number").port();
    let wish = text.replace(&format!("{}:81", ports[1]), &format!("127.0.0.1:{taken}:81"));
    let refused = apply(&wish, &["--yes"]);
    assert!(!refused.status.success());
    assert!(refused.errors().contains("Address already in use"), "{}", refused.errors());
    assert_eq!(stream(&at(1), b"kept"), Some(b"KEPT".to_vec()));
    apply(&text, &["--check"]).code(0);
    // None at all.
    let start = text.find("ports: [").expect("the ports");
    let end = start + text[start..].find(']').expect("their end") + 1;
    let none = text.replace(&text[start..end], "env: {}");
    apply(&none, &["--yes"]).code(0);
    assert_eq!(stream(&at(0), b"gone"), None);
    assert_eq!(machine.inits(), inits, "no node was recreated");
    machine.down();
}
