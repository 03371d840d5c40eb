//! Queries over connections: each is carried to the server by one of its own, and messages are noted as they pass.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::shared::{Awaited, Door, PORT, Shared};

/// Most connections at a time. Further ones are closed at once.
const MOST: usize = 64;
/// How long a server may take to answer to a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a connection may be silent: longer than name servers keep one (RFC 7766 section 6.2.3).
const SILENCE: Duration = Duration::from_secs(120);
/// Bytes that are carried at once.
const CHUNK: usize = 16 << 10;

/// Carries the connections that wait at a door.
pub(super) fn accept(door: &Door, shared: &Arc<Shared>) {
    while let Ok((client, _)) = door.streams.accept() {
        if shared.streams.fetch_add(1, Ordering::SeqCst) >= MOST {
            shared.streams.fetch_sub(1, Ordering::SeqCst);
            continue;
        }
        let (server, theirs) = (door.server, Arc::clone(shared));
        let work = move || {
            // Either side's end is the other's; a server that cannot be reached closes.
            let _ = carry(client, (server, PORT).into(), &theirs);
            theirs.streams.fetch_sub(1, Ordering::SeqCst);
        };
        let builder = std::thread::Builder::new().name("guard-names".into()).stack_size(128 << 10);
        if builder.spawn(work).is_err() {
            shared.streams.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// Carries both directions until one ends.
fn carry(
    client: TcpStream,
    server: std::net::SocketAddr,
    shared: &Arc<Shared>,
) -> std::io::Result<()> {
    client.set_nonblocking(false)?;
    let server = TcpStream::from(shared.home.stream(server, CONNECT)?);
    for stream in [&client, &server] {
        stream.set_read_timeout(Some(SILENCE))?;
        stream.set_write_timeout(Some(SILENCE))?;
        stream.set_nodelay(true)?;
    }
    let awaited = Mutex::new(Awaited::default());
    let lock = || awaited.lock().unwrap_or_else(PoisonError::into_inner);
    std::thread::scope(|scope| {
        scope.spawn(|| pass(&client, &server, |query| lock().add(query)));
        pass(&server, &client, |answer| shared.note(answer, &mut lock()));
    });
    Ok(())
}

/// Carries one direction; each whole message is shown to `see` before its last byte goes on.
fn pass(mut from: &TcpStream, mut to: &TcpStream, mut see: impl FnMut(&[u8])) {
    let (mut buffer, mut messages) = ([0; CHUNK], Messages::default());
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        messages.add(&buffer[..length], &mut see);
        if to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    // What was sent is still delivered; the other direction may go on.
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
    use super::*;

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
