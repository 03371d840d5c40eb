//! Answers of all kinds, over a UNIX socket.

use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixListener;

use proptest::prelude::*;

use super::*;

/// Each answer ends by itself.
const BOUNDS: Bounds = Bounds { connect: Duration::from_secs(30), stall: Duration::from_secs(30) };

/// What a client makes of an answer after which the connection ends: its status and its body.
fn told(answer: &[u8]) -> io::Result<(u16, String)> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut socket, _) = listener.accept().unwrap();
            let lines = BufReader::new(&socket).lines();
            lines.map_while(Result::ok).take_while(|line| !line.is_empty()).for_each(drop);
            let _ = socket.write_all(answer);
        });
        let mut answer = get_local(&path, "/x", BOUNDS)?;
        let body = answer.whole(1 << 20)?;
        Ok((answer.head.status, String::from_utf8_lossy(&body).into_owned()))
    })
}

#[test]
fn the_body_of_an_answer_ends_as_its_head_says() {
    let hello = |head: &str| format!("HTTP/1.1 200 OK\r\n{head}\r\nhello");
    let chunks = "5\r\nhello\r\n6;x=y\r\n world\r\n0\r\nTrailer: 1\r\n\r\n";
    for (answer, status, body) in [
        (hello("Content-Length: 5\r\n"), 200, "hello"),
        (hello("Content-Length: 3\r\n"), 200, "hel"),
        (hello("Content-Length: 5\r\nContent-Length: 5\r\n"), 200, "hello"),
        (hello(""), 200, "hello"),
        ("HTTP/1.0 404 No\r\n\r\nhello".to_owned(), 404, "hello"),
        ("HTTP/1.1 204 No\r\n\r\n".to_owned(), 204, ""),
        (
            format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}"),
            200,
            "hello world",
        ),
    ] {
        assert_eq!(told(answer.as_bytes()).unwrap(), (status, body.to_owned()), "{answer}");
    }
}

#[test]
fn an_answer_that_contradicts_itself_or_is_cut_off_is_refused() {
    let hello = |head: &str| format!("HTTP/1.1 200 OK\r\n{head}\r\nhello");
    let chunks =
        |text: &str| format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{text}");
    let long = "x".repeat(64 << 10);
    for answer in [
        hello("Content-Length: 5\r\nContent-Length: 4\r\n"),
        hello("Content-Length: -1\r\n"),
        hello("Content-Length: 99999999999999999999\r\n"),
        hello("Content-Length: 6\r\n"),
        hello("Transfer-Encoding: br\r\n"),
        hello(&format!("A: {long}\r\n")),
        chunks("x\r\n"),
        chunks("-1\r\n"),
        chunks("\r\n"),
        chunks("fffffffffffffffff\r\n"),
        chunks("1\r\nab\r\n"),
        chunks("5\r\nhello\r\n"),
        "HTTP/1.1 200 OK\r\nContent-".to_owned(),
        "\u{15}\u{3}\u{1}\0\u{2}\u{2}\u{16}".to_owned(),
        String::new(),
    ] {
        assert!(told(answer.as_bytes()).is_err(), "{answer}");
    }
}

#[test]
fn a_body_is_read_up_to_its_bound() {
    let large = format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(2 << 20));
    let refused = told(large.as_bytes()).unwrap_err().to_string();
    assert_eq!(refused, "the answer has more than 1048576 bytes");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_answer_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300), begins in any::<bool>()) {
        let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let bytes = if begins { [head, bytes.as_slice()].concat() } else { bytes };
        let _ = told(&bytes);
    }
}
