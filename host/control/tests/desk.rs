//! Clients that ask much, nothing, nonsense or too many at a time, and processes that do not answer.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use netloom_control::{Client, Desk, Fault, Folder, listen};
use netloom_kit::wait_until;
use netloom_sys::scm;

use super::toy::{Answer, BOUND, BareToy, Request, Served, Toy, serve, silent};

fn echo(text: &str) -> Request {
    Request::Echo(text.into())
}

#[test]
fn requests_go_with_descriptors_and_are_answered_in_order() {
    let toy = Served::start::<Toy>();
    let client = toy.client::<Toy>();
    let null = std::fs::File::open("/dev/null").unwrap();
    for text in ["first", "second"] {
        client.send(&echo(text), &[null.as_fd(), null.as_fd()]).unwrap();
    }
    assert_eq!(client.answer().unwrap(), Answer::Echo("first".into(), 2));
    assert_eq!(client.answer().unwrap(), Answer::Echo("second".into(), 2));
    // Both ways by a memfd, whose descriptor is not one of the request's.
    let long = "y".repeat(1 << 20);
    let answer = client.ask(&echo(&long), &[null.as_fd()]).unwrap();
    assert_eq!(answer, Answer::Echo(long, 1));
    assert_eq!(client.process(), Some(rustix::process::getpid()));
    assert!(matches!(client.order(&echo("x"), &[]), Err(Fault::Message(_))));
    assert_eq!(toy.stopped(&client), 0);
}

#[test]
fn the_bytes_on_the_socket_are_those_of_every_build() {
    let (toy, bare) = (Served::start::<Toy>(), Served::start::<BareToy>());
    let mut buffer = [0; 1000];
    for (path, asked, answered) in [
        (toy.path(), r#"{"short":{"echo":"a"}}"#, r#"{"short":{"echo":["a",0]}}"#),
        (bare.path(), r#"{"echo":"a"}"#, r#"{"echo":["a",0]}"#),
        (bare.path(), r#""wake""#, r#""done""#),
    ] {
        let peer = silent(&path);
        scm::send(&peer, asked.as_bytes(), &[]).unwrap();
        let (length, _) = scm::receive(&peer, &mut buffer).unwrap();
        assert_eq!(String::from_utf8_lossy(&buffer[..length]), answered);
    }
    let client = toy.client();
    toy.stopped(&client);
    let client = bare.client::<BareToy>();
    client.ask(&Request::Stop, &[]).unwrap();
}

#[test]
fn what_is_not_known_is_refused_in_words_or_closes_the_connection() {
    let (toy, bare) = (Served::start::<Toy>(), Served::start::<BareToy>());
    let client = toy.client::<Toy>();
    for (bytes, says) in [
        (&b"{"[..], "EOF"),
        (b"{\"short\":\"of-a-later-version\"}", "unknown variant"),
        (b"{\"long\":5}", "no memory came with it"),
    ] {
        scm::send(&client, bytes, &[]).unwrap();
        let refused = client.answer().unwrap_err();
        assert!(matches!(&refused, Fault::Refused(why) if why.contains(says)), "{refused}");
    }
    assert_eq!(client.ask(&echo("a"), &[]).unwrap(), Answer::Echo("a".into(), 0));
    let long = format!("{{\"echo\":\"{}\"}}", "x".repeat(100));
    for bytes in [&b"{"[..], b"\"of-a-later-version\"", long.as_bytes()] {
        let client = bare.client::<BareToy>();
        scm::send(&client, bytes, &[]).unwrap();
        assert!(matches!(client.answer(), Err(Fault::Ended)));
    }
    let client = bare.client::<BareToy>();
    let too_long = client.send(&echo(&"x".repeat(100)), &[]).unwrap_err();
    assert!(netloom_sys::describe(&too_long).contains("at most 100"), "{too_long:?}");
    client.ask(&Request::Stop, &[]).unwrap();
    let client = toy.client();
    toy.stopped(&client);
}

#[test]
fn who_does_not_read_loses_its_connection_and_nobody_elses_time() {
    let toy = Served::start::<Toy>();
    let (lazy, client) = (toy.client::<Toy>(), toy.client::<Toy>());
    // Each answer stays on the lazy one's socket, until that takes no more.
    wait_until("the lazy one is dropped", BOUND, || {
        let sent = lazy.send(&Request::Long(30_000), &[]);
        assert_eq!(client.ask(&echo("a"), &[]).unwrap(), Answer::Echo("a".into(), 0));
        matches!(sent, Err(Fault::Ended)).then_some(())
    });
    toy.stopped(&client);
}

#[test]
fn those_who_are_too_many_are_closed_at_once() {
    let toy = Served::start::<Toy>();
    let clients: Vec<Client<Toy>> = (0..4).map(|_| toy.client()).collect();
    for client in &clients {
        client.ask(&echo("a"), &[]).unwrap();
    }
    let fifth = toy.client::<Toy>();
    assert!(matches!(fifth.answer(), Err(Fault::Ended)));
    for client in &clients {
        client.ask(&echo("b"), &[]).unwrap();
    }
    toy.stopped(&clients[0]);
}

#[test]
fn who_waits_is_not_read_until_it_is_answered_and_may_leave() {
    let toy = Served::start::<Toy>();
    let (waits, leaves, client) = (toy.client::<Toy>(), toy.client::<Toy>(), toy.client::<Toy>());
    waits.send(&Request::Wait, &[]).unwrap();
    waits.send(&echo("later"), &[]).unwrap();
    leaves.send(&Request::Wait, &[]).unwrap();
    leaves.send(&echo("never"), &[]).unwrap();
    client.ask(&echo("a"), &[]).unwrap();
    drop(leaves);
    // One that waits is not read meanwhile.
    let early = waits.answer_within(Some(Duration::from_millis(50)));
    assert!(matches!(early, Err(Fault::Failed(_))), "{early:?}");
    client.order(&Request::Wake, &[]).unwrap();
    assert_eq!(waits.answer().unwrap(), Answer::Done);
    assert_eq!(waits.answer().unwrap(), Answer::Echo("later".into(), 0));
    // Its place is free: three of four are taken, not four.
    let (_one, another) = (toy.client::<Toy>(), toy.client::<Toy>());
    another.ask(&echo("b"), &[]).unwrap();
    assert_eq!(toy.stopped(&client), 0);
}

#[test]
fn a_process_that_does_nothing_is_waited_for_no_longer_than_one_says() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("control");
    assert!(Client::<Toy>::open(&path).unwrap().is_none());
    let listener = listen(&path).unwrap();
    let moment = Duration::from_millis(50);
    let client = Client::<Toy>::open(&path).unwrap().unwrap().within(moment);
    let begun = Instant::now();
    let late = client.ask(&echo("a"), &[]).unwrap_err();
    assert!(matches!(&late, Fault::Failed(_)), "{late}");
    assert!(begun.elapsed() >= moment);
    let own = std::process::id();
    let words = format!("process {own} has not answered for 50ms; `kill -CONT {own}` continues it");
    assert!(netloom_sys::describe(&late).contains(&words), "{}", netloom_sys::describe(&late));
    // Its answer may still come, and would be that to another request.
    let again = netloom_sys::describe(&client.ask(&echo("b"), &[]).unwrap_err());
    assert!(again.contains("ask: process"), "{again}");
    // Its backlog fills up.
    let mut all = vec![];
    let full = loop {
        match Client::<Toy>::open_as("toy", &path, moment) {
            Ok(client) => all.push(client),
            Err(full) => break full,
        }
        assert!(all.len() < 1000);
    };
    assert!(matches!(full, Fault::Failed(_)), "{full}");
    drop((all, listener));
    assert!(Client::<Toy>::open(&path).unwrap().is_none());
}

#[test]
fn an_answer_that_comes_too_late_is_not_that_of_the_next_request() {
    let toy = Served::start::<Toy>();
    let (late, other) = (toy.client::<Toy>(), toy.client::<Toy>());
    late.send(&Request::Wait, &[]).unwrap();
    let early = late.answer_within(Some(Duration::from_millis(20)));
    assert!(matches!(early, Err(Fault::Failed(_))), "{early:?}");
    assert!(matches!(late.ask(&echo("a"), &[]), Err(Fault::Failed(_))), "it still owes an answer");
    other.order(&Request::Wake, &[]).unwrap();
    assert!(netloom_sys::process::wait_readable(&late, BOUND));
    assert_eq!(late.ask(&echo("b"), &[]).unwrap(), Answer::Echo("b".into(), 0));
    toy.stopped(&other);
}

#[test]
fn requests_to_one_that_takes_none_end_in_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("control");
    let _listener = listen(&path).unwrap();
    let moment = Duration::from_millis(50);
    let client = Client::<Toy>::open_as("toy", &path, moment).unwrap().unwrap();
    let long = "x".repeat(30_000);
    let failed = wait_until("its socket is full", BOUND, || client.send(&echo(&long), &[]).err());
    assert!(netloom_sys::describe(&failed).contains("send a message: process"), "{failed:?}");
}

#[test]
fn a_process_out_of_descriptors_closes_newcomers_and_serves_the_others() {
    // Its lines are not this test's.
    let done = netloom_kit::again(&out_of_descriptors).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
}

#[test]
#[ignore = "helper: started by other tests"]
fn out_of_descriptors() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("control");
    let mut desk = Desk::<Toy>::new(listen(&path).unwrap()).unwrap();
    let client = Client::<Toy>::open(&path).unwrap().unwrap();
    let newcomer = Client::<Toy>::open(&path).unwrap().unwrap();
    let stop = Client::<Toy>::open(&path).unwrap().unwrap();
    client.send(&echo("a"), &[]).unwrap();
    newcomer.send(&echo("a"), &[]).unwrap();
    stop.send(&Request::Stop, &[]).unwrap();
    // Descriptors of the process are those that are open, and one more.
    let highest = std::fs::File::open("/dev/null").unwrap();
    let next = u64::try_from(std::os::fd::AsRawFd::as_raw_fd(&highest)).unwrap();
    drop(highest);
    let limit = |current| Rlimit { current: Some(current), maximum: Some(4096) };
    setrlimit(Resource::Nofile, limit(next + 1)).unwrap();
    let before = desk.turn();
    assert!(before.is_empty(), "{before:?}");
    setrlimit(Resource::Nofile, limit(1024)).unwrap();
    assert_eq!(serve(&mut desk), 0);
    assert_eq!(client.answer().unwrap(), Answer::Echo("a".into(), 0));
    assert!(matches!(newcomer.answer(), Err(Fault::Ended)));
    assert_eq!(stop.answer().unwrap(), Answer::Done);
}

#[test]
fn a_folder_is_gone_when_it_or_another_one_is_not_at_its_path() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("lab");
    std::fs::create_dir(&path).unwrap();
    let folder = Folder::of(&path);
    assert!(!folder.is_gone());
    std::fs::rename(&path, parent.path().join("aside")).unwrap();
    assert!(folder.is_gone());
    std::fs::create_dir(&path).unwrap();
    assert!(folder.is_gone());
}
