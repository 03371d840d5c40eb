//! The process that carries frames and those who talk to it: nonsense, sudden ends, its own end.

use super::world;

use std::os::fd::AsFd;
use std::time::Duration;

use netloom_impair::Loss;
use netloom_kit::{isolated, wait_until};
use netloom_sys::scm;
use netloom_wire::Error;
use netloom_wire::control::{Answer, Connection, Fault, PortKind, Request};
use world::{Impairments, Server, WIRE, World, delay};

const WAIT: Duration = Duration::from_secs(120);

/// Set in a process that is to serve this socket.
const SERVE: &str = "NETLOOM_TEST_SERVE_WIRES";

fn refusal(
    client: &Connection,
    request: &Request,
    ports: &[std::os::fd::BorrowedFd<'_>],
) -> String {
    match client.ask(request, ports) {
        Err(Error::Refused(reason)) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn nonsense_is_answered_and_changes_nothing() {
    let server = Server::start();
    let client = server.connect();
    let null = std::fs::File::open("/dev/null").unwrap();
    let (pipe, _end) = rustix::pipe::pipe().unwrap();
    let raw: [(&[u8], Vec<std::os::fd::BorrowedFd<'_>>); 8] = [
        (b"{", vec![]),
        (b"\xff\x00", vec![null.as_fd(); 16]),
        (b"{\"short\":\"no-such-thing\"}", vec![]),
        (b"{\"short\":{\"remove\":{\"wire\":-1,\"drain\":true}}}", vec![]),
        (b"{\"long\":5}", vec![]),
        (b"{\"long\":5}", vec![null.as_fd()]),
        (b"{\"long\":5}", vec![pipe.as_fd()]),
        (b"{\"long\":99999999999}", vec![null.as_fd()]),
    ];
    for (bytes, fds) in raw {
        scm::send(&*client, bytes, &fds).unwrap();
        let answer = client.answer();
        assert!(
            matches!(&answer, Err(Error::Refused(r)) if r.starts_with("message: ")),
            "{answer:?}"
        );
    }
    for request in [
        Request::List { wire: Some(3) },
        Request::Remove { wire: 3, drain: true },
        Request::Set { wire: 3, direction: 0, impairments: delay(1) },
        Request::Fates { wire: 3, direction: 9, keep: usize::MAX },
        Request::ReadFates { wire: 3, direction: 0, after: None, most: usize::MAX },
    ] {
        assert_eq!(refusal(&client, &request, &[]), "wire 3: there is none");
    }
    assert!(client.list(None).unwrap().is_empty());
}

/// Changes the ports, the places of inputs and outputs, and what is asked of the first direction.
type Amend<'a> = &'a dyn Fn(&mut Vec<PortKind>, &mut [usize; 4], &mut Impairments);

#[test]
fn a_wire_that_makes_no_sense_is_refused() {
    isolated!({
        let server = Server::start();
        let client = server.connect();
        let world = World::packet_sockets();
        let good = world.request(&delay(1), &delay(1));
        let amended = |amend: Amend<'_>| {
            let Request::Add { wire, mut ports, mut directions } = good.clone() else { panic!() };
            let [Some(a), Some(b)] = &mut *directions else { panic!() };
            let mut places = [a.input, a.output, b.input, b.output];
            amend(&mut ports, &mut places, &mut a.impairments);
            [a.input, a.output, b.input, b.output] = places;
            Request::Add { wire, ports, directions }
        };
        let say = |request: &Request| refusal(&client, request, &world.fds());
        let wrong = amended(&|ports, _, _| ports.truncate(1));
        assert_eq!(say(&wrong), "wire 7: 1 ports, 2 descriptors");
        let wrong = amended(&|_, places, _| places[1] = 2);
        assert_eq!(say(&wrong), "wire 7: no port 2");
        let wrong = amended(&|_, places, _| places[2] = 0);
        assert_eq!(say(&wrong), "wire 7: two directions have one input");
        let wrong = amended(&|ports, _, _| ports[0] = PortKind::Tap);
        assert!(say(&wrong).contains("use as a tap"), "{}", say(&wrong));
        let wrong = amended(&|_, _, impairments| impairments.mtu = Some(1));
        assert!(say(&wrong).starts_with("mtu: "), "{}", say(&wrong));
        client.order(&good, &world.fds()).unwrap();
        assert_eq!(say(&good), "wire 7: there is one of this number");
        let direction = Request::Set { wire: WIRE, direction: 2, impairments: delay(1) };
        assert_eq!(refusal(&client, &direction, &[]), "wire 7: no direction 2");
    });
}

#[test]
fn a_long_value_goes_by_a_memfd() {
    isolated!({
        let server = Server::start();
        let client = server.connect();
        let world = World::packet_sockets();
        let pattern = (0..65_536).map(|i| i % 1000 == 999).collect();
        let forth = Impairments { loss: Some(Loss::Pattern(pattern)), ..delay(0) };
        world.join(&client, &forth, &delay(0));
        let wires = client.list(None).unwrap();
        assert_eq!(wires[&WIRE][0].as_ref().unwrap().impairments, forth);
    });
}

#[test]
fn wires_outlive_those_who_asked_for_them() {
    isolated!({
        let server = Server::start();
        let world = World::packet_sockets();
        let client = server.connect();
        world.join(&client, &delay(1), &delay(1));
        // One that leaves without hearing its answer, one in the midst of a drain.
        client.send(&Request::List { wire: None }, &[]).unwrap();
        drop(client);
        let client = server.connect();
        let listed = client.list(None).unwrap();
        assert_eq!(listed.keys().copied().collect::<Vec<_>>(), [WIRE]);
        let impairments = delay(2);
        client.order(&Request::Set { wire: WIRE, direction: 1, impairments }, &[]).unwrap();
        client.send(&Request::Remove { wire: WIRE, drain: true }, &[]).unwrap();
        drop(client);
        let client = server.connect();
        wait_until("the wire is gone", WAIT, || {
            client.list(None).unwrap().is_empty().then_some(())
        });
        world.join(&client, &delay(1), &delay(1));
    });
}

/// Serves where [`SERVE`] says.
#[test]
#[ignore = "helper: started by other tests"]
fn process() {
    let path = std::path::PathBuf::from(std::env::var_os(SERVE).unwrap());
    let listener = netloom_wire::control::listen(&path).unwrap();
    netloom_wire::serve(listener, path.parent().unwrap()).unwrap();
}

/// A process that serves the socket at this path.
fn start_process(path: &std::path::Path) -> std::process::Child {
    let socket = path.to_owned();
    // The test executable has more threads than the one that serves: none may take the signal.
    let start = move || {
        netloom_sys::process::block_signals();
        netloom_kit::again(&process).env(SERVE, socket).stdout(std::process::Stdio::null()).spawn()
    };
    std::thread::spawn(start).join().unwrap().unwrap()
}

/// A process that ends with this value, also a stopped one.
struct Killed(std::process::Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_stopped_process_is_waited_for_no_longer_than_one_says_and_serves_again() {
    use rustix::process::{Pid, Signal, kill_process};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wire.sock");
    let mut child = Killed(start_process(&path));
    let pid = Pid::from_child(&child.0);
    let open = || wait_until("a server", WAIT, || Connection::open(&path).unwrap());
    let moment = Duration::from_millis(50);
    let clients = [open().within(moment), open().within(moment), open().within(WAIT)];
    let raw = pid.as_raw_nonzero();
    netloom_kit::stop(raw.get());
    let words =
        format!("`kill -CONT {raw}` continues it if it is stopped, `kill -KILL {raw}` ends it");
    for (client, drain) in clients.iter().zip([true, false]) {
        let late = netloom_sys::describe(&client.remove(WIRE, drain).unwrap_err());
        assert!(late.contains(&words), "{late}");
    }
    kill_process(pid, Signal::CONT).unwrap();
    for client in &clients {
        // Not the answer to a removal.
        let listed = wait_until("an answer", WAIT, || client.list(None).ok());
        assert!(listed.is_empty());
    }
    kill_process(pid, Signal::TERM).unwrap();
    assert!(wait_until("its end", WAIT, || child.0.try_wait().unwrap()).success());
}

#[test]
fn it_ends_on_sigterm_and_when_its_folder_is_gone() {
    for by_signal in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("wire.sock");
        let mut child = start_process(&path);
        let client = wait_until("a server", WAIT, || Connection::open(&path).unwrap());
        assert!(client.list(None).unwrap().is_empty());
        if by_signal {
            let pid = rustix::process::Pid::from_child(&child);
            rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        } else {
            drop(folder);
        }
        let status = wait_until("its end", WAIT, || child.try_wait().unwrap());
        assert!(status.success(), "{status}");
        assert!(matches!(client.answer(), Err(Error::Control(Fault::Ended))));
        drop(client);
    }
}

#[test]
fn it_stops_when_told_to() {
    let mut server = Server::start();
    let client = server.connect();
    assert_eq!(client.ask(&Request::Stop, &[]).unwrap(), Answer::Done);
    server.ended();
    assert!(Connection::open(&server.path()).unwrap().is_none());
}
