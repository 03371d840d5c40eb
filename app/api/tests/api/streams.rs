//! Streams of events: as they come, from where a listener left off, and never with an unmarked gap.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use netloom_lab::calls::{Events, Status};
use netloom_lab::values::{EventId, Whole};
use netloom_lab::view::{EventKind, LabEvent};

use super::fake::{Served, status};
use super::http::{connect, request};

/// A listener on a connection of its own, and the last line between events that was not empty.
struct Listener(BufReader<UnixStream>, String);

impl Listener {
    fn new(served: &Served, more: &str) -> Listener {
        let mut stream = connect(served.path());
        let head = format!(
            "GET /v1/events HTTP/1.1\r\nhost: x\r\naccept: text/event-stream\r\n{more}\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut listener = Listener(BufReader::new(stream), String::new());
        let head: Vec<String> =
            std::iter::from_fn(|| Some(listener.line()).filter(|line| !line.is_empty())).collect();
        assert!(head[0].starts_with("HTTP/1.1 200 "), "{head:?}");
        assert!(head.contains(&"content-type: text/event-stream".to_owned()), "{head:?}");
        listener
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// The next event; `None` at the end. Sizes of chunks and comments are passed over.
    fn event(&mut self) -> Option<LabEvent> {
        let mut line = String::new();
        while !line.starts_with("id: ") {
            line.clear();
            if self.0.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if !line.trim_end().is_empty() {
                self.1 = line.trim_end().to_owned();
            }
        }
        let id = line.trim_end().strip_prefix("id: ").unwrap().to_owned();
        let (kind, data) = (self.line(), self.line());
        let event: LabEvent = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!((event.id.as_str(), format!("event: {}", event.kind.word())), (&*id, kind));
        Some(event)
    }
}

fn names(event: &LabEvent) -> Vec<&str> {
    event.nodes.iter().map(|node| node.name.as_str()).collect()
}

#[test]
fn a_listener_hears_a_snapshot_and_then_what_comes() {
    let served = Served::new();
    served.fake.write(1, "a");
    let mut listener = Listener::new(&served, "");
    let first = listener.event().unwrap();
    assert_eq!((first.kind, first.missed, names(&first)), (EventKind::Snapshot, false, vec!["a"]));
    served.fake.write(2, "b");
    let next = listener.event().unwrap();
    assert_eq!((next.kind, next.id.as_str(), names(&next)), (EventKind::Change, "fa.2", vec!["b"]));

    // From where it left off; of another lab process.
    let mut again = Listener::new(&served, "last-event-id: fa.1\r\n");
    assert_eq!(again.event().unwrap(), next);
    let mut other = Listener::new(&served, "last-event-id: fb.1\r\n");
    let told = other.event().unwrap();
    assert_eq!((told.kind, told.missed, names(&told)), (EventKind::Snapshot, true, vec!["a", "b"]));

    // The server ends with its streams: one that was cut off, as requests that go on too long are, has no last chunk.
    let Served { server, .. } = served;
    server.stop();
    assert_eq!((listener.event(), listener.1.as_str()), (None, "0"));
}

#[test]
fn a_call_waits_for_events_and_gives_a_list() {
    let served = Served::new();
    let ask = |since: Option<&str>, wait_ms| {
        let since = EventId(since.map(str::to_owned));
        served.client().call(&Events { since, wait_ms: Whole(wait_ms) }).unwrap()
    };
    served.fake.write(1, "a");
    assert_eq!(names(&ask(None, 0)[0]), ["a"]);
    assert_eq!(ask(Some("fa.1"), 0), []);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| ask(Some("fa.1"), 60_000));
        netloom_kit::wait_until("the call comes", Duration::from_secs(20), || {
            served.fake.asked.lock().unwrap().iter().any(|a| a == "events fa.1 60000").then_some(())
        });
        served.fake.write(2, "b");
        let found = waiting.join().unwrap();
        assert_eq!((found.len(), names(&found[0])), (1, vec!["b"]));
    });
    let (status, body) = request(served.path(), "GET", "/v1/events");
    assert_eq!((status, body.starts_with("[{\"id\":\"fa.2\"")), (200, true), "{body}");
    assert_eq!(request(served.path(), "GET", "/v1/events?after=1").0, 400);
    assert_eq!(request(served.path(), "POST", "/v1/events").0, 405);
}

#[test]
fn a_listener_that_takes_nothing_holds_up_nobody_and_misses_nothing_untold() {
    let served = Served::new();
    served.fake.write(1, "a");
    let mut listener = Listener::new(&served, "");
    assert_eq!(listener.event().unwrap().id, "fa.1");
    // More than the connection holds.
    let large = "x".repeat(4 << 20);
    served.fake.write(2, &large);
    netloom_kit::wait_until("it is asked on", Duration::from_secs(20), || {
        served.fake.asked.lock().unwrap().iter().any(|a| a == "events fa.2 15000").then_some(())
    });
    (3..100).for_each(|time| served.fake.write(time, &format!("n{time}")));
    // Others are served meanwhile.
    assert_eq!(served.client().call(&Status::whole()).unwrap(), status());
    let mut last = "fa.1".to_owned();
    let mut missed = 0;
    while last != "fa.99" {
        let event = listener.event().unwrap();
        let number = |id: &str| id.strip_prefix("fa.").unwrap().parse::<u32>().unwrap();
        match event.missed {
            true => missed += 1,
            false => assert_eq!(number(&event.id), number(&last) + 1, "an unmarked gap"),
        }
        last = event.id;
    }
    assert!(missed >= 1, "more than is kept came while it took nothing");
}

#[test]
fn listeners_that_have_gone_leave_nothing() {
    netloom_kit::isolated!({
        let served = Served::new();
        served.fake.write(1, "a");
        let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        let before = open();
        let mut all: Vec<Listener> = (0..20).map(|_| Listener::new(&served, "")).collect();
        all.iter_mut().for_each(|listener| drop(listener.event().unwrap()));
        drop(all);
        netloom_kit::wait_until("connections end", Duration::from_secs(20), || {
            (open() <= before).then_some(())
        });
    });
}
