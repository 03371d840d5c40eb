//! Requests as bytes on the socket, to send what no client would.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// A connection to the REST socket whose reads and writes fail after two minutes.
pub(crate) fn connect(folder: &Path) -> UnixStream {
    let stream = UnixStream::connect(folder.join("api.sock")).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(120))).unwrap();
    stream
}

/// Sends bytes and reads until the server closes. That it closes early is not an error here.
pub(crate) fn exchange(folder: &Path, bytes: &[u8]) -> Vec<u8> {
    let mut stream = connect(folder);
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Err(e) if e.kind() != std::io::ErrorKind::ConnectionReset => panic!("no end: {e}"),
        _ => answer,
    }
}

/// A request without a body: its status and the answer's body.
pub(crate) fn request(folder: &Path, method: &str, uri: &str) -> (u16, String) {
    let head = format!("{method} {uri} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    parse(&exchange(folder, head.as_bytes()))
}

/// A request with a body of no told type: its status and the answer's body.
pub(crate) fn request_with(folder: &Path, method: &str, uri: &str, body: &str) -> (u16, String) {
    let length = body.len();
    let head = format!(
        "{method} {uri} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
    );
    parse(&exchange(folder, (head + body).as_bytes()))
}

/// Status and body of an answer.
pub(crate) fn parse(answer: &[u8]) -> (u16, String) {
    let text = String::from_utf8(answer.to_vec()).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("answer {text:?}"));
    let status = head.split(' ').nth(1).and_then(|s| s.parse().ok());
    (status.unwrap_or_else(|| panic!("answer {text:?}")), body.to_owned())
}
