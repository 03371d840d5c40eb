//! Crowds: many connections, calls and bodies of others, while one caller wants an answer.
//!
//! No answer is timed. Instead nothing of the crowd ends by itself: silent connections are not closed, calls that take long
//! end when the test says so, and those that wait are seen to wait on. So an answer did not wait for them.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use netloom_api::{Gate, Offer, Server, Token, serve_lab};
use netloom_kit::wait_until;
use netloom_lab::calls::{Down, ReadLog, Status};
use netloom_measure::{Host, Probe};

use crate::server::patient::serve_probe;

use super::fake::{Served, status};
use super::hostile::packets;
use super::http::{connect, exchange, parse, request, request_with};

/// A bound for what may never come.
const BOUND: Duration = Duration::from_secs(120);

/// More connections than a server takes.
const MANY: usize = 900;

/// A call's connection that sends this and stays.
fn held(served: &Served, bytes: &[u8]) -> UnixStream {
    let mut stream = connect(served.path());
    stream.write_all(bytes).unwrap();
    stream
}

const POLL: &[u8] = b"GET /v1/nodes/h1/log?after=9&wait_ms=60000 HTTP/1.1\r\nhost: x\r\n\r\n";

#[test]
fn idle_connections_of_others_keep_nobody_waiting() {
    let served = Served::patient();
    let _idle: Vec<_> = (0..MANY).map(|_| held(&served, b"")).collect();
    let client = served.client();
    assert_eq!(client.call(&Status::whole()).unwrap(), status());
    let _silent: Vec<_> = (0..MANY).map(|_| packets(served.path())).collect();
    assert_eq!(client.entry("h1").unwrap().node, "h1");
}

#[test]
fn calls_that_wait_keep_nobody_waiting_and_are_answered_when_their_place_is_needed() {
    let served = Served::new();
    let mut polls: Vec<_> = (0..MANY).map(|_| held(&served, POLL)).collect();
    let client = served.client();
    for _ in 0..5 {
        assert_eq!(client.call(&Status::whole()).unwrap(), status());
    }
    // The first gave way: it has an answer like one whose time is over, and may ask again elsewhere; or it is told that it had
    // no turn yet, on a busy machine.
    let mut answer = vec![];
    polls[0].read_to_end(&mut answer).unwrap();
    let (code, body) = parse(&answer);
    assert!((code == 200 && body == "[]") || code == 503, "{code} {body}");
    // The last wait on, and hear what comes.
    served.fake.write(10, "now");
    let mut last = [0; 4096];
    let read = polls[MANY - 1].read(&mut last).unwrap();
    assert!(String::from_utf8_lossy(&last[..read]).contains("\"text\":\"now\""));
    client.call(&Down {}).unwrap();
}

#[test]
fn calls_that_take_long_leave_room_for_quick_ones_and_the_last_one() {
    let served = Served::new();
    *served.fake.busy.0.lock().unwrap() = true;
    let repair = b"POST /v1/lab/repair HTTP/1.1\r\nhost: x\r\n\r\n";
    let mut slow: Vec<_> = (0..MANY).map(|_| held(&served, repair)).collect();
    wait_until("slow calls arrive", BOUND, || {
        let asked = served.fake.asked.lock().unwrap();
        (asked.iter().filter(|call| *call == "repair").count() >= 64).then_some(())
    });
    let client = served.client();
    assert_eq!(client.call(&Status::whole()).unwrap(), status());
    client.call(&ReadLog::of("h1", 9, Duration::from_millis(50))).unwrap();
    client.call(&Down {}).unwrap();
    // One that gave way while it waited for its turn was told so.
    let mut told = vec![];
    let refused = slow.iter_mut().rev().skip(10).any(|stream| {
        told.clear();
        stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        matches!(stream.read_to_end(&mut told), Ok(1..))
    });
    assert!(refused && parse(&told).0 == 503, "{}", String::from_utf8_lossy(&told));
    served.fake.free();
}

/// A server on a port, of a probe or of a fake lab, and its token.
pub(crate) struct OnPort {
    _server: Server,
    pub(crate) port: u16,
    pub(crate) token: Token,
    _lab: Option<Served>,
}

impl OnPort {
    pub(crate) fn new(lab: Option<Served>) -> OnPort {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let token = Token::random().unwrap();
        let gate = Gate::new(token.clone(), vec![]);
        let server = match &lab {
            Some(lab) => serve_lab(listener, lab.path(), gate, Offer::default()).unwrap(),
            None => {
                let probe = Arc::new(Probe::new("host".into(), Arc::new(Host)));
                serve_probe(listener, probe, gate).unwrap()
            }
        };
        OnPort { _server: server, port, token, _lab: lab }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(BOUND)).unwrap();
        stream
    }

    /// A request of the token's holder, without its end.
    fn head(&self, line: &str) -> String {
        let token = self.token.text();
        format!("{line} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {token}\r\n")
    }

    /// What the token's holder is answered.
    fn ask(&self, line: &str) -> (u16, String) {
        let mut stream = self.connect();
        let request = self.head(line) + "connection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = vec![];
        stream.read_to_end(&mut answer).unwrap();
        parse(&answer)
    }
}

#[test]
fn callers_without_the_token_do_not_delay_its_holder() {
    let server = OnPort::new(None);
    for bytes in ["", "GET /pnpm/ HTTP/1.1\r\nhost: 127.0.0.1\r\n"] {
        let crowd = |_| {
            let mut stream = server.connect();
            stream.write_all(bytes.as_bytes()).unwrap();
            stream
        };
        let _crowd: Vec<_> = (0..MANY).map(crowd).collect();
        for _ in 0..5 {
            assert_eq!(server.ask("GET /pnpm/"), (200, "[]".to_owned()));
        }
    }
}

#[test]
fn a_storm_of_callers_without_the_token_does_not_delay_its_holder() {
    let server = OnPort::new(None);
    let calm = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut crowd = vec![];
            while !calm.load(Ordering::Relaxed) {
                crowd.push(server.connect());
                crowd.drain(..crowd.len().saturating_sub(MANY));
            }
        });
        let end = Instant::now() + Duration::from_secs(1);
        while Instant::now() < end {
            assert_eq!(server.ask("GET /pnpm/"), (200, "[]".to_owned()));
        }
        calm.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_connection_that_is_used_outlasts_strangers() {
    let server = OnPort::new(None);
    let mut own = server.connect();
    let request = server.head("GET /pnpm/") + "\r\n";
    let ask = |own: &mut TcpStream| {
        own.write_all(request.as_bytes()).unwrap();
        let mut answer = [0; 1024];
        let read = own.read(&mut answer).unwrap();
        assert!(answer[..read].starts_with(b"HTTP/1.1 200 "), "{read} bytes");
    };
    ask(&mut own);
    let _strangers: Vec<_> = (0..2 * MANY).map(|_| server.connect()).collect();
    ask(&mut own);
}

#[test]
fn calls_that_wait_on_a_port_do_not_delay_others() {
    let server = OnPort::new(Some(Served::new()));
    let request = server.head("GET /v1/nodes/h1/log?after=9&wait_ms=60000") + "\r\n";
    let poll = |_| {
        let mut stream = server.connect();
        stream.write_all(request.as_bytes()).unwrap();
        stream
    };
    let polls: Vec<_> = (0..MANY).map(poll).collect();
    for _ in 0..5 {
        assert_eq!(server.ask("GET /v1/nodes/h1/log").0, 200);
    }
    let last = &polls[MANY - 1];
    last.set_nonblocking(true).unwrap();
    let heard = last.peek(&mut [0]).map_err(|e| e.kind());
    assert_eq!(heard, Err(ErrorKind::WouldBlock), "it waits on");
}

#[test]
fn large_bodies_have_one_memory_together() {
    let served = Served::new();
    let size = 60 << 20;
    let head = format!("POST /v1/lab/apply HTTP/1.1\r\nhost: x\r\ncontent-length: {size}\r\n\r\n");
    // It is there all the time, since its end does not come.
    let mut first = held(&served, head.as_bytes());
    first.write_all(&vec![b' '; 1 << 20]).unwrap();
    for end in ["", "connection: close\r\n"] {
        let head = head.replace("\r\n\r\n", &format!("\r\n{end}\r\n"));
        let mut second = held(&served, head.as_bytes());
        let mut answer = [0; 1024];
        let read = second.read(&mut answer).unwrap();
        assert!(answer[..read].starts_with(b"HTTP/1.1 503 "), "{read} bytes");
    }
    // Small ones need nothing of it, nor does one that grows without a told size as long as it is small.
    assert_eq!(request_with(served.path(), "POST", "/v1/nodes", r#"{"name": "t/a"}"#).0, 201);
    let chunks = "POST /v1/nodes HTTP/1.1\r\nhost: x\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n\
                  f\r\n{\"name\": \"t/b\"}\r\n0\r\n\r\n";
    assert_eq!(parse(&exchange(served.path(), chunks.as_bytes())).0, 201);
    let mut grows = held(
        &served,
        b"POST /v1/lab/apply HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n",
    );
    let chunk = [b"100000\r\n".as_slice(), &vec![b' '; 1 << 20], b"\r\n"].concat();
    // Closed by the server at some point, before the 64th.
    let sent = (0..64).take_while(|_| grows.write_all(&chunk).is_ok()).count();
    assert!(sent < 40, "{sent} MiB were taken beside others");
    drop(first);
    let plan = serde_json::to_string(&super::fake::plan()).unwrap();
    let body = format!("{{\"dry_run\": true, \"plan\": {plan}{}}}", " ".repeat(30 << 20));
    wait_until("the memory comes back", BOUND, || {
        (request_with(served.path(), "POST", "/v1/lab/apply", &body).0 == 200).then_some(())
    });
    assert_eq!(request(served.path(), "GET", "/v1/lab").0, 200);
}

#[test]
fn a_plan_has_a_size() {
    let served = Served::new();
    let size = (64 << 20) + 1;
    let head = format!("POST /v1/lab/apply HTTP/1.1\r\nhost: x\r\ncontent-length: {size}\r\n\r\n");
    let mut stream = held(&served, head.as_bytes());
    let mut answer = [0; 1024];
    let read = stream.read(&mut answer).unwrap();
    assert!(answer[..read].starts_with(b"HTTP/1.1 413 "), "{read} bytes");
    let closed = matches!(stream.read(&mut answer), Ok(0))
        || stream.read(&mut answer).is_err_and(|e| e.kind() == ErrorKind::ConnectionReset);
    assert!(closed, "the rest is not waited for");
}
