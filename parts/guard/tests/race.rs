//! Threads of a program that rewrite the address, the message, or the descriptor of a call while it is judged: what is
//! denied is never reached.
//!
//! Ten thousand tries of each kind; a million in `make fuzz`, whose attacks run 25 times as often.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use netloom_guard::{Judge, Judgement, Question, start};
use netloom_kit::{done, needs, rounds};
use netloom_policy::Request;
use netloom_sys::seccomp::launch::Place;

use super::redteam::compiled;

/// Allows all but one port.
struct AllBut(u16);

impl Judge for AllBut {
    fn known(&self, request: &Request) -> Option<Judgement> {
        let denied = request.target.port().number() == Some(u32::from(self.0));
        Some(if denied { Judgement::Deny(13) } else { Judgement::Allow })
    }

    fn decide(&self, question: &Question<'_>) -> Judgement {
        self.known(question.request).unwrap()
    }
}

const TRIES: usize = 10_000;
/// As many again for each round where there are more than one.
const MORE: usize = 4;

/// What a kind of race let through, and what it was refused; nothing of it reached the denied port.
fn race(kind: &str) -> (usize, usize) {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| compiled("race", include_str!("doors/race.c")));
    let allowed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = allowed.local_addr().unwrap().port();
    let _allowed_udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, port));
    let (denied, denied_udp) = denied();
    let denied_port = denied.local_addr().unwrap().port();
    let rounds = usize::try_from(rounds(1)).unwrap();
    let tries = TRIES * if rounds > 1 { rounds * MORE } else { 1 };
    let ended = AtomicBool::new(false);
    let output = std::thread::scope(|scope| {
        scope.spawn(|| {
            while let Ok((stream, _)) = allowed.accept() {
                drop(stream);
                if ended.load(Ordering::SeqCst) {
                    break;
                }
            }
        });
        let mut command = std::process::Command::new(program);
        command.args([kind, &tries.to_string()]).env("ALLOWED", port.to_string());
        command.env("DENIED", denied_port.to_string()).stdout(Stdio::piped());
        let (child, supervisor) = start(command, Place::default()).unwrap();
        supervisor.serve(&AllBut(denied_port)).unwrap();
        let output = child.wait_with_output().unwrap();
        ended.store(true, Ordering::SeqCst);
        drop(std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)));
        output
    });
    assert!(output.status.success(), "{output:?}");
    assert!(denied.accept().is_err(), "{kind}: the denied port was connected to");
    assert!(denied_udp.recv(&mut [0; 8]).is_err(), "{kind}: the denied port was sent to");
    done("races", tries);
    let text = String::from_utf8(output.stdout).unwrap();
    let mut numbers = text.split_whitespace().map(|word| word.parse().unwrap());
    (numbers.next().unwrap(), numbers.next().unwrap())
}

/// Who must not be reached: one port of TCP and UDP.
fn denied() -> (TcpListener, UdpSocket) {
    loop {
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let Ok(udp) = UdpSocket::bind(tcp.local_addr().unwrap()) else { continue };
        tcp.set_nonblocking(true).unwrap();
        udp.set_nonblocking(true).unwrap();
        return (tcp, udp);
    }
}

macro_rules! races {
    ($($name:ident: $kind:literal;)*) => {
        $(#[test]
        fn $name() {
            needs!("cc");
            let (through, refused) = race($kind);
            assert!(refused > 0, "nothing was refused: {through} calls went through");
        })*
    };
}

races! {
    an_address_that_changes_while_it_connects: "connect";
    an_address_that_changes_while_it_is_sent_to: "sendto";
    a_message_that_changes: "sendmsg";
    messages_that_change: "sendmmsg";
    a_descriptor_that_changes: "dup2";
    a_descriptor_that_changes_under_a_message: "dup2_message";
    a_connection_that_is_dissolved: "fastopen";
}
