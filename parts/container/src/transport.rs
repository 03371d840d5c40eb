//! HTTP/1.1 by blocking sockets: one request a connection, in plain text, within TLS, or over a UNIX socket.
//!
//! Every wait is bounded: for the connection, and for each piece of an answer. The caller tries again. Certificates are
//! checked against the system's authorities. See RFC 9112.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use netloom_oci::address::Address;
use netloom_oci::chunks::Chunks;
use netloom_oci::head::{Body, Head};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// Where systems keep the authorities that they trust; `$SSL_CERT_FILE` comes first.
const AUTHORITIES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Bytes read at once.
const PIECE: usize = 64 << 10;

/// How long waits may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) connect: Duration,
    /// For the next piece of an answer.
    pub(crate) stall: Duration,
}

/// A connection.
trait Pipe: Read + Write + Send {}

impl<T: Read + Write + Send> Pipe for T {}

/// An answer, whose body is read on.
pub(crate) struct Answer {
    pub(crate) head: Head,
    pipe: Box<dyn Pipe>,
    body: Body,
    chunks: Chunks,
    /// Bytes that have been read and are not yet taken.
    buffer: Vec<u8>,
    at: usize,
}

/// Asks a server for something.
pub(crate) fn get(to: &Address, headers: &[(&str, &str)], bounds: Bounds) -> io::Result<Answer> {
    let socket = connect(to, bounds)?;
    let pipe: Box<dyn Pipe> = if to.tls {
        let name = ServerName::try_from(to.host.clone()).map_err(io::Error::other)?;
        let tls = ClientConnection::new(trust()?, name).map_err(io::Error::other)?;
        Box::new(StreamOwned::new(tls, socket))
    } else {
        Box::new(socket)
    };
    ask(pipe, &to.path, &to.authority(), headers)
}

/// Asks a server on a UNIX socket.
pub(crate) fn get_local(socket: &Path, path: &str, bounds: Bounds) -> io::Result<Answer> {
    let pipe = UnixStream::connect(socket)?;
    pipe.set_read_timeout(Some(bounds.stall))?;
    pipe.set_write_timeout(Some(bounds.stall))?;
    ask(Box::new(pipe), path, "docker", &[])
}

fn connect(to: &Address, bounds: Bounds) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in (to.host.as_str(), to.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, bounds.connect) {
            Ok(socket) => {
                socket.set_read_timeout(Some(bounds.stall))?;
                socket.set_write_timeout(Some(bounds.stall))?;
                socket.set_nodelay(true)?;
                return Ok(socket);
            }
            Err(e) => last = e,
        }
    }
    Err(last)
}

fn ask(
    mut pipe: Box<dyn Pipe>,
    path: &str,
    host: &str,
    headers: &[(&str, &str)],
) -> io::Result<Answer> {
    let version = env!("CARGO_PKG_VERSION");
    let mut text = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: netloom/{version}\r\nConnection: close\r\n"
    );
    for (name, value) in headers {
        // A line's end in a value would be another header.
        if value.bytes().any(|b| b < b' ' || b == 0x7f) {
            return Err(io::Error::other(format!("the header {name} cannot be sent")));
        }
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    pipe.write_all(text.as_bytes()).map_err(stalled)?;
    pipe.flush().map_err(stalled)?;
    let mut buffer = Vec::new();
    loop {
        if let Some((head, length)) = Head::read(&buffer).map_err(io::Error::other)? {
            let body = head.body().map_err(io::Error::other)?;
            let chunks = Chunks::default();
            return Ok(Answer { head, pipe, body, chunks, buffer, at: length });
        }
        if read_more(&mut *pipe, &mut buffer)? == 0 {
            return Err(cut_off());
        }
    }
}

fn read_more(pipe: &mut dyn Pipe, buffer: &mut Vec<u8>) -> io::Result<usize> {
    let before = buffer.len();
    buffer.resize(before + PIECE, 0);
    let read = loop {
        match pipe.read(&mut buffer[before..]) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            read => break read.map_err(stalled),
        }
    };
    buffer.truncate(before + *read.as_ref().unwrap_or(&0));
    read
}

fn stalled(e: io::Error) -> io::Error {
    match e.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            io::Error::new(io::ErrorKind::TimedOut, "the server says nothing more")
        }
        _ => e,
    }
}

fn cut_off() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the connection was cut off")
}

impl Answer {
    /// The next data of the body; empty at its end.
    pub(crate) fn next(&mut self) -> io::Result<&[u8]> {
        loop {
            if self.at == self.buffer.len() {
                self.buffer.clear();
                self.at = 0;
                if matches!(self.body, Body::Length(0)) || self.chunks.is_done() {
                    return Ok(&[]);
                }
                if read_more(&mut *self.pipe, &mut self.buffer).or_else(end_of_tls)? == 0 {
                    return match self.body {
                        Body::Close => Ok(&[]),
                        _ => Err(cut_off()),
                    };
                }
            }
            let (begin, rest) = (self.at, self.buffer.len() - self.at);
            match &mut self.body {
                Body::Close => self.at += rest,
                Body::Length(left) => {
                    let count = rest.min(usize::try_from(*left).unwrap_or(usize::MAX));
                    *left -= count as u64;
                    let end = begin + count;
                    self.at = self.buffer.len();
                    if end > begin {
                        return Ok(&self.buffer[begin..end]);
                    }
                    continue;
                }
                Body::Chunks => {
                    let (taken, data) =
                        self.chunks.take(&self.buffer[begin..]).map_err(io::Error::other)?;
                    self.at += taken;
                    if self.chunks.is_done() {
                        self.at = self.buffer.len();
                    }
                    if data > 0 {
                        let end = begin + taken;
                        return Ok(&self.buffer[end - data..end]);
                    }
                    continue;
                }
            }
            return Ok(&self.buffer[begin..]);
        }
    }

    /// The whole body, of at most this many bytes.
    pub(crate) fn whole(&mut self, most: u64) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        loop {
            let data = self.next()?;
            if data.is_empty() {
                return Ok(all);
            }
            if (all.len() + data.len()) as u64 > most {
                return Err(io::Error::other(format!("the answer has more than {most} bytes")));
            }
            all.extend_from_slice(data);
        }
    }
}

/// Servers end a connection without a farewell, where the length says that all has come.
fn end_of_tls(e: io::Error) -> io::Result<usize> {
    if e.kind() == io::ErrorKind::UnexpectedEof { Ok(0) } else { Err(e) }
}

/// TLS with the system's authorities.
fn trust() -> io::Result<Arc<ClientConfig>> {
    static TRUST: OnceLock<Result<Arc<ClientConfig>, String>> = OnceLock::new();
    TRUST.get_or_init(read_trust).clone().map_err(io::Error::other)
}

fn read_trust() -> Result<Arc<ClientConfig>, String> {
    let given = std::env::var_os("SSL_CERT_FILE").map(std::path::PathBuf::from);
    let known = AUTHORITIES.iter().map(std::path::PathBuf::from).find(|path| path.is_file());
    let path = given.or(known).ok_or(
        "this system has no list of certificate authorities: install ca-certificates, or set SSL_CERT_FILE",
    )?;
    let wrong = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(&path).map_err(|e| wrong(&e))?;
    let (good, _) = roots.add_parsable_certificates(certificates.flatten());
    if good == 0 {
        return Err(wrong(&"it has no certificates"));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| wrong(&e))?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}
