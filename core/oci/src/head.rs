//! The head of an HTTP/1.1 answer (RFC 9112).

use crate::{Error, Result};

/// The longest head.
pub const LONGEST: usize = 64 << 10;

/// As many headers as are read.
const MOST_HEADERS: usize = 100;

/// What an answer says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Its status: 200, 404, …
    pub status: u16,
    /// Headers: names in lower case, and values.
    pub headers: Vec<(String, String)>,
}

/// How an answer's body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// After this many bytes.
    Length(u64),
    /// By its last chunk.
    Chunks,
    /// When the connection does.
    Close,
}

impl Head {
    /// Reads a head, and how many bytes it takes; `None` if more is needed.
    ///
    /// # Errors
    /// This is not HTTP, or the head is too long.
    pub fn read(bytes: &[u8]) -> Result<Option<(Head, usize)>> {
        let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
        let mut answer = httparse::Response::new(&mut headers);
        let length = match answer.parse(bytes) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) if bytes.len() < LONGEST => return Ok(None),
            Ok(httparse::Status::Partial) => {
                return Err(Error::Http("the answer's head is too long"));
            }
            Err(_) => return Err(Error::Http("the answer is not HTTP")),
        };
        let header = |header: &httparse::Header<'_>| {
            let value = String::from_utf8_lossy(header.value).into_owned();
            (header.name.to_ascii_lowercase(), value)
        };
        let headers = answer.headers.iter().map(header).collect();
        Ok(Some((Head { status: answer.code.unwrap_or(0), headers }, length)))
    }

    /// The first value of a header.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// All values of a header.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.headers.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// How the body ends.
    ///
    /// # Errors
    /// Its headers contradict each other.
    pub fn body(&self) -> Result<Body> {
        if (100..200).contains(&self.status) || matches!(self.status, 204 | 304) {
            return Ok(Body::Length(0));
        }
        if let Some(coding) = self.get("transfer-encoding") {
            return match coding.trim().eq_ignore_ascii_case("chunked") {
                true => Ok(Body::Chunks),
                false => Err(Error::Http("the answer comes in an unknown encoding")),
            };
        }
        let mut lengths = self.all("content-length");
        let Some(first) = lengths.next() else { return Ok(Body::Close) };
        if lengths.any(|other| other != first) {
            return Err(Error::Http("the answer has two lengths"));
        }
        let is_number = !first.is_empty() && first.bytes().all(|b| b.is_ascii_digit());
        let length = is_number.then(|| first.parse().ok()).flatten();
        length.map(Body::Length).ok_or(Error::Http("the answer's length is not a number"))
    }

    /// Where the part of a whole begins that a `206` brings.
    pub fn begins_at(&self) -> Option<u64> {
        let range = self.get("content-range")?.trim().strip_prefix("bytes ")?;
        range.split_once('-')?.0.parse().ok()
    }

    /// After how many seconds to ask again; dates are not understood.
    pub fn retry_after(&self) -> Option<u64> {
        self.get("retry-after")?.trim().parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> Head {
        Head::read(text.as_bytes()).unwrap().unwrap().0
    }

    #[test]
    fn a_head_says_how_its_body_ends() {
        let text = "HTTP/1.1 206 Partial\r\nContent-Length: 5\r\nContent-Range: bytes 7-11/12\r\nRetry-After: 3\r\n\r\nhello";
        let (head_, length) = Head::read(text.as_bytes()).unwrap().unwrap();
        assert_eq!((head_.status, &text[length..]), (206, "hello"));
        assert_eq!(head_.body().unwrap(), Body::Length(5));
        assert_eq!((head_.begins_at(), head_.retry_after()), (Some(7), Some(3)));
        assert_eq!(
            head("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").body().unwrap(),
            Body::Chunks
        );
        assert_eq!(head("HTTP/1.0 200 OK\r\n\r\n").body().unwrap(), Body::Close);
        assert_eq!(head("HTTP/1.1 204 No\r\n\r\n").body().unwrap(), Body::Length(0));
        for wrong in [
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: br\r\n\r\n",
        ] {
            assert!(head(wrong).body().is_err(), "{wrong}");
        }
        assert_eq!(Head::read(b"HTTP/1.1 200 OK\r\n").unwrap(), None);
        assert!(Head::read(b"\x15\x03\x01\x00\x02\x02\x16").is_err());
        assert!(Head::read("HTTP/1.1 200 OK\r\n".to_string().as_bytes()).is_ok());
        let long = format!("HTTP/1.1 200 OK\r\nA: {}", "x".repeat(LONGEST));
        assert!(Head::read(long.as_bytes()).is_err());
    }
}
