//! What netloom sends into a lab by itself is left out of captures, unless it is asked for; what a person has it send is not.

use netloom_tests_e2e::capturing::{Capturing, Contents, read_pcapng};
use netloom_tests_e2e::live::{Held, SOON};
use netloom_tests_e2e::{Machine, machine, needs, pair, wait_until};

/// Accepts connections to port 80 of both families.
const SERVER: &str = "
import socket
own = socket.create_server(('', 80), family=socket.AF_INET6, dualstack_ipv6=True)
print('ready', flush=True)
while True:
    own.accept()[0].close()
";

/// IP packets of a capture: the protocol, and what the IP header precedes.
fn packets(contents: &Contents) -> Vec<(u8, &[u8])> {
    let frames = contents.packets.iter().map(|packet| packet.bytes.as_slice());
    let packet = |frame: &'_ [u8]| match frame[12..14] {
        [0x08, 0x00] => Some((frame[23], 34)),
        [0x86, 0xdd] => Some((frame[20], 54)),
        _ => None,
    };
    frames.filter_map(|frame| packet(frame).map(|(kind, at)| (kind, &frame[at..]))).collect()
}

const TCP: u8 = 6;
const UDP: u8 = 17;

fn of(all: &[(u8, &[u8])], kind: u8) -> usize {
    all.iter().filter(|(found, _)| *found == kind).count()
}

/// Echo requests and answers of this length.
fn echoes(all: &[(u8, &[u8])], length: usize) -> usize {
    let is_echo = |(kind, body): &&(u8, &[u8])| {
        matches!((kind, body[0]), (1, 0 | 8) | (58, 128 | 129)) && body.len() == length
    };
    all.iter().filter(is_echo).count()
}

/// Requests for connections.
fn begins(all: &[(u8, &[u8])]) -> usize {
    all.iter().filter(|(kind, body)| *kind == TCP && body[13] & 0x3f == 2).count()
}

/// Lengths of netloom's echo requests.
const OF_PING: usize = 32;
const OF_WHY: usize = 24;

/// Asks everything that sends something.
fn ask(machine: &Machine) {
    machine.netloom(["ping", "a", "b"]).finish().code(0);
    for family in ["-4", "-6"] {
        for (flow, code) in [("icmp", 0), ("80/tcp", 0), ("81/tcp", 1), ("82/udp", 1)] {
            machine.netloom(["why", "a", "b", flow, family]).finish().code(code);
        }
    }
}

#[test]
fn what_netloom_sends_is_left_out_unless_it_is_asked_for() {
    needs!("python3");
    let machine = machine!();
    machine.up(&pair(""));
    machine.answers("a", "b");
    machine.answers_by("-6", "a", "b");
    let server = Held::start(machine.python("b", SERVER, &[]));
    wait_until("the server accepts", SOON, || {
        let tried = "import socket; socket.create_connection(('b', 80)).close()";
        machine.python("a", tried, &[]).finish().status.success().then_some(())
    });
    let all = Capturing::start(&machine, "a:eth0 --own", "all.pcapng");
    let without = Capturing::start(&machine, "b:eth0", "without.pcapng");
    let filtered = Capturing::start(&machine, "a:eth0 -f tcp", "filtered.pcapng");
    ask(&machine);
    // What others send stays, of the same protocols and to the same ports.
    machine.exec("a", &["ping", "-4", "-c", "1", "b"]).finish().code(0);
    machine.exec("a", &["ping", "-6", "-c", "1", "b"]).finish().code(0);
    machine.datagrams("a", "b", 0, 3);
    let sent = "import socket; socket.create_connection(('b', 80)).recv(1)";
    machine.python("a", sent, &[]).finish().code(0);
    let refused = "
import socket
try:
    socket.create_connection(('b', 81))
except ConnectionRefusedError:
    print('refused')
";
    assert_eq!(machine.python("a", refused, &[]).finish().code(0).text(), "refused\n");
    for account in [all.stop(), without.stop(), filtered.stop()] {
        account.closes();
    }
    let read = |name: &str| read_pcapng(&machine.scratch().path().join(name));
    let (all, without, filtered) =
        (read("all.pcapng"), read("without.pcapng"), read("filtered.pcapng"));
    let numbers = without.numbers("b:eth0");
    let [all, without, filtered] = [&all, &without, &filtered].map(packets);
    assert!(echoes(&all, OF_WHY) >= 4, "{all:?}");
    assert_eq!(echoes(&without, OF_WHY), 0, "{without:?}");
    assert_eq!(echoes(&without, OF_PING), echoes(&all, OF_PING), "{without:?}");
    assert!(echoes(&without, OF_PING) >= 4, "{without:?}");
    assert_eq!(echoes(&without, 64), 4, "those of ping(8): {without:?}");
    assert_eq!((numbers, of(&without, UDP)), (vec![0, 1, 2], 3), "{without:?}");
    assert!(of(&all, UDP) > 3, "{all:?}");
    // Two of `why` a family; one of others that was accepted, and one of each family that was not.
    assert_eq!((begins(&all), begins(&without), begins(&filtered)), (7, 3, 3), "{without:?}");
    assert_eq!(of(&filtered, TCP), of(&without, TCP), "{filtered:?}");
    drop(server);
    machine.down();
}
