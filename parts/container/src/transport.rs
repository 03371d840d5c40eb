//! HTTP/1.1 by ureq: one request a connection, in plain text, within TLS, or over a UNIX socket.
//!
//! Every wait is bounded: for the connection, for the head of an answer, for each piece of its body, and for all of it by
//! its length. The caller tries again, and follows redirections. No proxy is asked. Certificates are checked against the system's authorities. See RFC 9112.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use netloom_oci::address::Address;
use netloom_oci::head::Head;
use ureq::config::ConfigBuilder;
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::typestate::AgentScope;
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
};
use ureq::{Agent, BodyReader, Timeout};

/// Where systems keep the authorities that they trust; `$SSL_CERT_FILE` comes first.
const AUTHORITIES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Times of the longest wait that a head may take, with all that comes before it (103 of RFC 8297), and that a body may take
/// beside what it takes at the slowest rate, with all that comes after it (trailers).
const WAITS: u32 = 4;

/// The slowest rate of a body, in bytes a second: who sends a byte at a time says something, too.
const SLOWEST: u64 = 16 << 10;

/// Bytes read at once.
const PIECE: usize = 64 << 10;

/// How long waits may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// For a connection, with its TLS.
    pub(crate) connect: Duration,
    /// For the next piece of an answer.
    pub(crate) stall: Duration,
}

/// Asks servers of the network.
pub(crate) struct Client {
    bounds: Bounds,
    plain: Agent,
    /// Made for the first request by TLS, which needs the list of authorities.
    secure: OnceLock<Result<Agent, String>>,
}

/// An answer, whose body is read on.
pub(crate) struct Answer {
    pub(crate) head: Head,
    body: BodyReader<'static>,
    piece: Vec<u8>,
}

impl Client {
    pub(crate) fn new(bounds: Bounds) -> Client {
        let plain = Agent::new_with_config(settings(bounds).build());
        Client { bounds, plain, secure: OnceLock::new() }
    }

    /// Asks a server for something of some `bytes`: so long it may take.
    pub(crate) fn get(
        &self,
        to: &Address,
        headers: &[(&str, &str)],
        bytes: u64,
    ) -> io::Result<Answer> {
        let secure = || {
            let settings = settings(self.bounds).tls_config(trust()?);
            Ok(Agent::new_with_config(settings.build()))
        };
        let agent = match to.tls {
            true => self.secure.get_or_init(secure).clone().map_err(io::Error::other)?,
            false => self.plain.clone(),
        };
        let at_slowest = Duration::from_secs(bytes / SLOWEST);
        let body = self.bounds.stall.saturating_mul(WAITS).saturating_add(at_slowest);
        ask(&agent, &format!("{}{}", to.origin(), to.path), headers, Some(body))
    }
}

/// Asks a server on a UNIX socket.
pub(crate) fn get_local(socket: &Path, path: &str, bounds: Bounds) -> io::Result<Answer> {
    let (connector, resolver) = (Local(socket.to_owned()), DefaultResolver::default());
    let agent = Agent::with_parts(settings(bounds).build(), connector, resolver);
    // An address needs no look-up; it is not used.
    ask(&agent, &format!("http://127.0.0.1{path}"), &[], None)
}

fn settings(bounds: Bounds) -> ConfigBuilder<AgentScope> {
    Agent::config_builder()
        // Statuses decide here, not in the library: 401, 404 and redirections have their meaning.
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .proxy(None)
        .user_agent(concat!("netloom/", env!("CARGO_PKG_VERSION")))
        .input_buffer_size(PIECE)
        .max_response_header_size(netloom_oci::head::LONGEST)
        .timeout_connect(Some(bounds.connect))
        .timeout_recv_response(Some(bounds.stall.saturating_mul(WAITS)))
        .timeout_per_read(Some(bounds.stall))
        .timeout_per_write(Some(bounds.stall))
}

/// `longest`: how long the body may take.
fn ask(
    agent: &Agent,
    address: &str,
    headers: &[(&str, &str)],
    longest: Option<Duration>,
) -> io::Result<Answer> {
    let request = agent.get(address).config().timeout_recv_body(longest).build();
    let request = request.header("Connection", "close");
    let request =
        headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    let (head, body) = request.call().map_err(explained)?.into_parts();
    let header = |(name, value): (&ureq::http::HeaderName, &ureq::http::HeaderValue)| {
        (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    let headers = head.headers.iter().map(header).collect();
    let head = Head { status: head.status.as_u16(), headers };
    // ureq would take its body as it comes.
    if head
        .get("transfer-encoding")
        .is_some_and(|coding| !coding.trim().eq_ignore_ascii_case("chunked"))
    {
        return Err(io::Error::other("the answer comes in an unknown encoding"));
    }
    Ok(Answer { head, body: body.into_reader(), piece: vec![0; PIECE] })
}

/// What went wrong, as the kinds and words of this machine have it.
fn explained(e: ureq::Error) -> io::Error {
    match e {
        ureq::Error::Timeout(Timeout::PerRead | Timeout::PerWrite) => {
            io::Error::new(io::ErrorKind::TimedOut, "the server says nothing more")
        }
        ureq::Error::Timeout(Timeout::RecvResponse | Timeout::RecvBody) => {
            io::Error::new(io::ErrorKind::TimedOut, "the server does not come to an end")
        }
        ureq::Error::Timeout(_) => io::Error::from(io::ErrorKind::TimedOut),
        ureq::Error::Io(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
            io::Error::new(io::ErrorKind::UnexpectedEof, "the connection was cut off")
        }
        e => e.into_io(),
    }
}

/// Whether a server answered, but not by HTTP: it may speak TLS.
pub(crate) fn is_no_http(e: &io::Error) -> bool {
    let inner = e.get_ref().and_then(|inner| inner.downcast_ref());
    matches!(inner, Some(ureq::Error::Protocol(_) | ureq::Error::LargeResponseHeader(..)))
        || matches!(e.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset)
}

impl Answer {
    /// The next data of the body; empty at its end.
    pub(crate) fn next(&mut self) -> io::Result<&[u8]> {
        let count = self.body.read(&mut self.piece).map_err(|e| explained(e.into()))?;
        Ok(&self.piece[..count])
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

/// TLS with the system's authorities.
fn trust() -> Result<TlsConfig, String> {
    let given = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let known = AUTHORITIES.iter().map(PathBuf::from).find(|path| path.is_file());
    let path = given.or(known).ok_or(
        "this system has no list of certificate authorities: install ca-certificates, or set SSL_CERT_FILE",
    )?;
    let wrong = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
    let text = std::fs::read(&path).map_err(|e| wrong(&e))?;
    let certificate = |item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    };
    let certificates: Vec<_> = parse_pem(&text).filter_map(certificate).collect();
    if certificates.is_empty() {
        return Err(wrong(&"it has no certificates"));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let roots = RootCerts::Specific(Arc::new(certificates));
    Ok(TlsConfig::builder().root_certs(roots).unversioned_rustls_crypto_provider(provider).build())
}

/// Connects to a UNIX socket.
#[derive(Debug)]
struct Local(PathBuf);

/// A connection to one.
#[derive(Debug)]
struct LocalPipe {
    socket: UnixStream,
    buffers: LazyBuffers,
}

impl Connector for Local {
    type Out = LocalPipe;

    fn connect(
        &self,
        about: &ConnectionDetails<'_>,
        _: Option<()>,
    ) -> Result<Option<LocalPipe>, ureq::Error> {
        let socket = UnixStream::connect(&self.0)?;
        let (input, output) = (about.config.input_buffer_size(), about.config.output_buffer_size());
        Ok(Some(LocalPipe { socket, buffers: LazyBuffers::new(input, output) }))
    }
}

impl Transport for LocalPipe {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        let timeout = timeout.for_write();
        self.socket.set_write_timeout(timeout.not_zero().map(|most| *most))?;
        let sent = self.socket.write_all(&self.buffers.output()[..amount]);
        sent.map_err(|e| over(e, timeout))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        let timeout = timeout.for_read();
        self.socket.set_read_timeout(timeout.not_zero().map(|most| *most))?;
        let read = loop {
            match self.socket.read(self.buffers.input_append_buf()) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                read => break read.map_err(|e| over(e, timeout))?,
            }
        };
        self.buffers.input_appended(read);
        Ok(read > 0)
    }

    fn is_open(&mut self) -> bool {
        // One request a connection.
        false
    }
}

fn over(e: io::Error, timeout: NextTimeout) -> ureq::Error {
    match e.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => ureq::Error::Timeout(timeout.reason),
        _ => e.into(),
    }
}

#[cfg(test)]
mod tests;
