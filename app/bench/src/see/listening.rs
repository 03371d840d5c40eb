//! Who asks a lab's own socket: listeners to its events, and Prometheus.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// How long a listener may hear nothing: of a lab in which something changes each second there is more to tell.
const SILENCE: Duration = Duration::from_secs(60);

/// A connection that has asked. Version 1.0 of HTTP has answers without pieces, which end with the connection.
fn asked(socket: &Path, route: &str, accept: &str) -> Result<UnixStream> {
    let connect = || format!("connect to {}", socket.display());
    let mut stream = UnixStream::connect(socket).with_context(connect)?;
    stream.set_read_timeout(Some(SILENCE)).context("set a timeout")?;
    let request = format!("GET {route} HTTP/1.0\r\nHost: localhost\r\nAccept: {accept}\r\n\r\n");
    stream.write_all(request.as_bytes()).context("ask")?;
    Ok(stream)
}

/// Milliseconds from the connection to the last byte of the lab's metrics, and their number.
pub(super) fn scrape(socket: &Path) -> Result<(f64, usize)> {
    let start = Instant::now();
    let mut text = String::new();
    asked(socket, "/metrics", "*/*")?.read_to_string(&mut text).context("read metrics")?;
    let ms = start.elapsed().as_secs_f64() * 1000.0;
    let found = text.lines().filter(|line| line.starts_with("netloom_")).count();
    if !text.starts_with("HTTP/1.0 200") || found == 0 {
        bail!("no metrics: {}", text.lines().next().unwrap_or_default());
    }
    Ok((ms, found))
}

/// A listener to a lab's events, which reads them and throws them away.
pub(super) struct Listener {
    stream: UnixStream,
    heard: Arc<AtomicU64>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Listener {
    pub(super) fn start(socket: &Path) -> Result<Listener> {
        let stream = asked(socket, "/v1/events", "text/event-stream")?;
        let heard = Arc::new(AtomicU64::new(0));
        let (reads, counts) = (stream.try_clone().context("duplicate")?, Arc::clone(&heard));
        let thread = Some(std::thread::spawn(move || listen(reads, &counts)));
        Ok(Listener { stream, heard, thread })
    }

    /// How many events have come.
    pub(super) fn heard(&self) -> u64 {
        self.heard.load(Ordering::Relaxed)
    }

    /// Waits until this many events have come in all.
    pub(super) fn until(&self, events: u64) -> Result<()> {
        let end = Instant::now() + SILENCE;
        while self.heard() < events {
            if Instant::now() > end || self.thread.as_ref().is_none_or(JoinHandle::is_finished) {
                bail!("a listener has heard {} events and no more", self.heard());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // It may have ended already; then the caller that waited was told.
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Counts events, each of which ends with an empty line, until the connection ends.
fn listen(mut stream: UnixStream, heard: &AtomicU64) -> Result<()> {
    let (mut bytes, mut counter) = (vec![0; 1 << 16], Counter::default());
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return Ok(()),
            Ok(count) => {
                heard.fetch_add(counter.add(&bytes[..count]), Ordering::Relaxed);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error).context("read events"),
        }
    }
}

/// Counts the events in a stream that comes in pieces.
#[derive(Default)]
struct Counter {
    is_event: bool,
    line: Vec<u8>,
}

impl Counter {
    fn add(&mut self, bytes: &[u8]) -> u64 {
        let mut events = 0;
        let mut rest = bytes;
        while let Some(at) = rest.iter().position(|byte| *byte == b'\n') {
            let (line, after) = rest.split_at(at);
            self.begin(line);
            // The server's words of an event, or a comment, end with an empty line.
            if self.line.is_empty() {
                events += u64::from(std::mem::take(&mut self.is_event));
            }
            self.is_event |= self.line == b"data:";
            self.line.clear();
            rest = &after[1..];
        }
        self.begin(rest);
        events
    }

    /// Keeps what tells a line's kind: most of an event is one long line.
    fn begin(&mut self, bytes: &[u8]) {
        let room = b"data:".len().saturating_sub(self.line.len());
        self.line.extend(&bytes[..room.min(bytes.len())]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_counted_however_they_are_cut() {
        let text =
            b"HTTP/1.0 200 OK\r\na: b\r\n\r\nid: 1\ndata: {\"a\":1}\n\n:\n\nid: 2\ndata: {}\n\n";
        for piece in [1, 2, 7, text.len()] {
            let mut counter = Counter::default();
            let all: u64 = text.chunks(piece).map(|bytes| counter.add(bytes)).sum();
            assert_eq!(all, 2, "pieces of {piece}");
        }
    }
}
