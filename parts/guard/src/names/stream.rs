//! Queries over connections: each is carried to the server by one of its own, message by message; queries go on as those of
//! datagrams do, and answers are noted as they pass.

use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use netloom_packet::dns;
use rustix::io::Errno;
use rustix::net::SocketType;

use super::seats::Asker;
use super::shared::{Awaited, Door, Matter, PORT, Shared, name_of};

/// Most connections at a time. Further ones are closed at once.
const MOST: usize = 64;
/// Connections that are accepted before others get their turn.
const BURST: usize = 64;
/// How long a server may take to answer to a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a connection may be silent: longer than name servers keep one (RFC 7766 section 6.2.3).
const SILENCE: Duration = Duration::from_secs(120);
/// Bytes that are carried at once.
const CHUNK: usize = 16 << 10;

/// Carries connections that wait at a door. Those that are left wait for the relay's next turn.
pub(super) fn accept(door: &Door, shared: &Arc<Shared>) {
    for _ in 0..BURST {
        match door.streams.accept() {
            Ok((client, from)) => begin(client, from, door.server, shared),
            // It would wait, and be reported, for ever.
            Err(e) if is_full(&e) => return shared.turn_away(&door.streams),
            Err(_) => return,
        }
    }
}

/// Whether a connection could not be accepted because there is no room for its descriptor.
fn is_full(e: &std::io::Error) -> bool {
    [Errno::MFILE, Errno::NFILE].iter().any(|full| e.raw_os_error() == Some(full.raw_os_error()))
}

/// Carries a connection on a thread of its own.
fn begin(client: TcpStream, from: SocketAddr, server: IpAddr, shared: &Arc<Shared>) {
    if shared.streams.fetch_add(1, Ordering::SeqCst) >= MOST {
        shared.streams.fetch_sub(1, Ordering::SeqCst);
        return;
    }
    let theirs = Arc::clone(shared);
    let work = move || {
        // Either side's end is the other's; a server that cannot be reached closes.
        let _ = carry(client, from, (server, PORT).into(), &theirs);
        theirs.streams.fetch_sub(1, Ordering::SeqCst);
    };
    let builder = std::thread::Builder::new().name("guard-names".into()).stack_size(128 << 10);
    if builder.spawn(work).is_err() {
        shared.streams.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Carries both directions until one ends.
fn carry(
    client: TcpStream,
    from: SocketAddr,
    server: SocketAddr,
    shared: &Arc<Shared>,
) -> std::io::Result<()> {
    client.set_nonblocking(false)?;
    let asker = shared.seats.of(SocketType::STREAM, from.port());
    let server = TcpStream::from(shared.home.stream(server, CONNECT)?);
    for stream in [&client, &server] {
        stream.set_read_timeout(Some(SILENCE))?;
        stream.set_write_timeout(Some(SILENCE))?;
        // A message is one write: Nagle's algorithm could only hold it back.
        stream.set_nodelay(true)?;
    }
    let both = Both { client: &client, server: &server, writes: Mutex::new(()), asker, shared };
    let awaited = Mutex::new(Awaited::default());
    std::thread::scope(|scope| {
        scope.spawn(|| pass(&client, &server, |query| both.ask(query, &awaited)));
        pass(&server, &client, |answer| both.answer(answer, &awaited));
    });
    Ok(())
}

/// A connection, and the one to the server.
struct Both<'s> {
    client: &'s TcpStream,
    server: &'s TcpStream,
    /// Held while a message is written to the client: the server's answers and those that say no.
    writes: Mutex<()>,
    asker: Option<Arc<Asker>>,
    shared: &'s Shared,
}

impl Both<'_> {
    /// Carries a query, or answers that its name does not exist; whether the connection goes on.
    fn ask(&self, query: &[u8], awaited: &Mutex<Awaited>) -> bool {
        if self.shared.bring(Matter::Query(name_of(query)), self.asker.clone()) {
            lock(awaited).add(query);
            return send(self.server, &dns::plain(query)).is_ok();
        }
        // What asks for nothing gets no answer, and nothing goes on after it.
        dns::no_such_name(query).is_some_and(|none| self.tell(&none))
    }

    /// Carries an answer, once it is noted.
    fn answer(&self, answer: &[u8], awaited: &Mutex<Awaited>) -> bool {
        let noted = lock(awaited).answered(answer);
        noted.is_none_or(|answer| self.shared.bring(answer, self.asker.clone()))
            && self.tell(answer)
    }

    fn tell(&self, message: &[u8]) -> bool {
        let _turn = lock(&self.writes);
        send(self.client, message).is_ok()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A message behind its length.
fn send(mut to: &TcpStream, message: &[u8]) -> std::io::Result<()> {
    let length = u16::try_from(message.len()).map_err(|_| std::io::ErrorKind::InvalidData)?;
    // Length and message in one write, as RFC 7766 section 8 asks.
    to.write_all(&[&length.to_be_bytes(), message].concat())
}

/// Carries one direction, as long as each whole message goes on.
fn pass(mut from: &TcpStream, to: &TcpStream, mut carry: impl FnMut(&[u8]) -> bool) {
    let (mut buffer, mut messages, mut goes_on) = ([0; CHUNK], Messages::default(), true);
    while goes_on && let Ok(length @ 1..) = from.read(&mut buffer) {
        messages.add(&buffer[..length], &mut |message| goes_on = goes_on && carry(message));
    }
    // Sent bytes are still delivered; the other direction may go on.
    let _ = to.shutdown(Shutdown::Write);
    let _ = from.shutdown(Shutdown::Read);
}

/// The messages of a stream, each behind its length (RFC 1035 section 4.2.2).
#[derive(Default)]
struct Messages(Vec<u8>);

impl Messages {
    fn add(&mut self, bytes: &[u8], see: &mut impl FnMut(&[u8])) {
        self.0.extend_from_slice(bytes);
        let mut at = 0;
        while let Some(length) = self.0.get(at..).and_then(<[u8]>::first_chunk) {
            let length = usize::from(u16::from_be_bytes(*length));
            let Some(message) = self.0.get(at + 2..at + 2 + length) else { break };
            see(message);
            at += 2 + length;
        }
        self.0.drain(..at);
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::super::home::Home;
    use super::*;

    #[test]
    fn a_connection_without_a_descriptor_is_closed_instead_of_waiting_for_ever() {
        for full in [Errno::MFILE, Errno::NFILE] {
            assert!(is_full(&full.into()));
        }
        assert!(!is_full(&Errno::AGAIN.into()));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let shared = Shared::new(Arc::new(Home::default())).unwrap();
        // Again and again: the spare one is there each time.
        for _ in 0..3 {
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            shared.turn_away(&listener);
            assert_eq!(client.read(&mut [0; 8]).unwrap(), 0);
        }
    }

    #[test]
    fn messages_are_seen_whole_however_they_come() {
        let bytes = [0, 3, b'a', b'b', b'c', 0, 0, 0, 2, b'd', b'e'];
        for cut in 0..bytes.len() {
            let (mut messages, mut seen) = (Messages::default(), vec![]);
            let mut see = |message: &[u8]| seen.push(message.to_vec());
            messages.add(&bytes[..cut], &mut see);
            messages.add(&bytes[cut..], &mut see);
            assert_eq!(seen, [b"abc".to_vec(), vec![], b"de".to_vec()]);
            assert!(messages.0.is_empty());
        }
    }
}
