//! Callers that send invalid requests. The server answers or closes, and goes on.

use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use netloom_lab::calls::Status;
use netloom_sys::scm;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use serde_json::Value;

use super::fake::{Served, status};
use super::http::{connect, exchange, parse};

const LIMIT: usize = 64 * 1024;

fn post(headers: &str, body: &[u8]) -> Vec<u8> {
    let head =
        format!("POST /v1/links HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

#[test]
fn bodies_have_a_limit_however_they_are_sent() {
    let served = Served::new();
    for (size, status) in [(LIMIT, 201), (LIMIT + 1, 413), (50 << 20, 413)] {
        let mut body = br#"{"a": "h1", "b": "h2"}"#.to_vec();
        body.resize(size, b' ');
        let answer = exchange(served.path(), &post(&format!("content-length: {size}"), &body));
        assert_eq!(parse(&answer).0, status, "{size} bytes told");
        let chunk = [format!("{size:x}\r\n").as_bytes(), &body, b"\r\n0\r\n\r\n"].concat();
        let answer = exchange(served.path(), &post("transfer-encoding: chunked", &chunk));
        assert_eq!(parse(&answer).0, status, "{size} bytes in a chunk");
    }
    assert_eq!(served.fake.asked.lock().unwrap().len(), 2, "only the small ones arrive");
    assert_eq!(served.client().call(&Status::whole()).unwrap(), status());
}

#[test]
fn what_is_no_http_is_refused_and_closed() {
    let served = Served::new();
    let long = [b"GET /".as_slice(), &vec![b'a'; 1 << 20], b" HTTP/1.1\r\n\r\n"].concat();
    let many = format!("GET /v1/lab HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(500));
    let cases: [&[u8]; 7] = [
        b"\0\x01\x02\xff\xfe garbage \r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /v1/lab HTTP/9.9\r\n\r\n",
        b"GET /v1/lab HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        &long,
        many.as_bytes(),
    ];
    for bytes in cases {
        let answer = exchange(served.path(), bytes);
        let start = String::from_utf8_lossy(&bytes[..bytes.len().min(30)]).into_owned();
        assert!(answer.is_empty() || (400..=505).contains(&parse(&answer).0), "{start:?}");
    }
    assert_eq!(served.client().call(&Status::whole()).unwrap(), status());
}

#[test]
fn callers_that_stop_in_the_middle_hold_up_nobody() {
    let served = Served::new();
    let mut half = connect(served.path());
    half.write_all(b"GET /v1/la").unwrap();
    let mut body = connect(served.path());
    body.write_all(&post("content-length: 100", b"half")).unwrap();
    let silent = connect(served.path());
    let entry = packets(served.path());
    assert_eq!(served.client().call(&Status::whole()).unwrap(), status());
    assert_eq!(served.client().entry("h1").unwrap().node, "h1");
    drop((half, body, silent, entry));
    assert_eq!(served.client().call(&Status::whole()).unwrap(), status());
}

/// A connection to the socket of descriptors.
pub(crate) fn packets(folder: &Path) -> OwnedFd {
    let kind = SocketType::SEQPACKET;
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
    let address = SocketAddrUnix::new(folder.join("handles.sock")).unwrap();
    rustix::net::connect(&socket, &address).unwrap();
    socket
}

#[test]
fn wrong_questions_for_doors_are_refused_without_descriptors() {
    let served = Served::new();
    let long = format!("{{\"node\": {:?}}}", "x".repeat(5000));
    let deep = "[".repeat(4000);
    let cases: [&[u8]; 8] = [
        b"garbage",
        b"\xff\xfe\x00",
        b"{}",
        b"[]",
        b"{\"node\": 5}",
        b"{\"node\": \"h1\", \"also\": 1}",
        long.as_bytes(),
        deep.as_bytes(),
    ];
    let own = std::fs::File::open("/dev/null").unwrap();
    for bytes in cases {
        let socket = packets(served.path());
        // A descriptor that nobody wants comes along.
        scm::send(&socket, bytes, &[own.as_fd()]).unwrap();
        let mut buffer = vec![0; 4096];
        let (n, fds) = scm::receive(&socket, &mut buffer).unwrap();
        let answer: Value = serde_json::from_slice(&buffer[..n]).unwrap();
        assert_eq!(answer["refused"]["status"], 400, "{answer}");
        assert!(fds.is_empty());
        assert_eq!(scm::receive(&socket, &mut buffer).unwrap().0, 0, "one question a connection");
    }
    let name = "x".repeat(100_000);
    let error = served.client().entry(&name).unwrap_err();
    assert!(matches!(error, netloom_api::Error::Refused { status: 404, .. }), "{error}");
    served.client().entry("h1").unwrap();
}
