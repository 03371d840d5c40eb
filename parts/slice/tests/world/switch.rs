//! A switch of `netloom-pipeline` with ports 1 to 4 that connects to a slicer, again and again.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use netloom_openflow::port::PortFeatures;
use netloom_openflow::stream::Stream;
use netloom_openflow::{Port, PortNumber, Version};
use netloom_pipeline::{ConnectionId, Options, Outputs, Switch as Tables};

/// How long its thread waits for bytes before it looks at what the test wants of it.
const LOOK: Duration = Duration::from_millis(5);

struct Inner {
    tables: Tables,
    out: Outputs,
    next: u64,
    /// Its connection is to end, and another one is to begin.
    again: bool,
}

/// A switch.
pub struct Switch {
    inner: Arc<Mutex<Inner>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    begun: Instant,
}

fn port(number: u32) -> Port {
    let address = [2, 0, 0, 0, 0, u8::try_from(number).expect("few")];
    let port = Port::new(PortNumber(number), address, &format!("p{number}"));
    Port { current: PortFeatures::FD_1GB, ..port }
}

fn nanoseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).expect("not for centuries") + 1_000_000_000
}

impl Switch {
    /// Number 1, which connects to a slicer at this socket whenever it can.
    pub fn start(path: PathBuf) -> Switch {
        Switch::of(path, &[Version::V10, Version::V13])
    }

    /// One of these versions.
    pub fn of(path: PathBuf, versions: &[Version]) -> Switch {
        let begun = Instant::now();
        let versions = versions.to_vec();
        let mut tables = Tables::new(Options { tables: 4, versions, ..Options::default() });
        let mut out = Outputs::default();
        for number in 1..=4 {
            tables.set_port(port(number), &[], nanoseconds(begun), &mut out);
        }
        let inner =
            Arc::new(Mutex::new(Inner { tables, out: Outputs::default(), next: 0, again: false }));
        let stop = Arc::new(AtomicBool::new(false));
        let (of_thread, ended) = (Arc::clone(&inner), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                match UnixStream::connect(&path) {
                    Ok(socket) => converse(&socket, &of_thread, &ended, begun),
                    Err(_) => std::thread::sleep(LOOK),
                }
            }
        });
        Switch { inner, stop, thread: Some(thread), begun }
    }

    /// How many entries it has, without those that take packets of discovery.
    pub fn entries(&self) -> usize {
        let inner = self.inner.lock().expect("the switch");
        inner.tables.rules().filter(|rule| rule.priority != u16::MAX).count()
    }

    /// How many groups it has.
    pub fn groups(&self) -> usize {
        self.inner.lock().expect("the switch").tables.groups().count()
    }

    /// Ends its connection, and makes another one.
    pub fn reconnect(&self) {
        self.inner.lock().expect("the switch").again = true;
    }

    /// A frame comes in; returns the ports that it leaves by.
    pub fn frame(&self, by: u32, bytes: &[u8]) -> Vec<u32> {
        let mut inner = self.inner.lock().expect("the switch");
        let Inner { tables, out, .. } = &mut *inner;
        tables.frame(PortNumber(by), bytes, nanoseconds(self.begun), out);
        out.frames.drain(..).map(|frame| frame.port.0).collect()
    }
}

fn converse(socket: &UnixStream, inner: &Mutex<Inner>, stop: &AtomicBool, begun: Instant) {
    socket.set_read_timeout(Some(LOOK)).expect("a time limit");
    let id = {
        let mut inner = inner.lock().expect("the switch");
        inner.next += 1;
        let id = ConnectionId(inner.next);
        let Inner { tables, out, .. } = &mut *inner;
        tables.connect(id, None, out);
        id
    };
    let (mut stream, mut buffer, mut writer) = (Stream::default(), [0; 65536], socket);
    let mut reader = socket;
    'talk: while !stop.load(Ordering::Relaxed) {
        let queued: Vec<Vec<u8>> = {
            let mut inner = inner.lock().expect("the switch");
            if std::mem::take(&mut inner.again) {
                break 'talk;
            }
            let all = std::mem::take(&mut inner.out.messages);
            all.into_iter().filter(|(to, _)| *to == id).map(|(_, bytes)| bytes).collect()
        };
        for bytes in queued {
            if writer.write_all(&bytes).is_err() {
                break 'talk;
            }
        }
        match reader.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => stream.push(&buffer[..length]),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => break,
        }
        let mut inner = inner.lock().expect("the switch");
        let Inner { tables, out, .. } = &mut *inner;
        while let Some(bytes) = stream.next_message().expect("OpenFlow") {
            tables.message(id, bytes, nanoseconds(begun), out);
        }
        tables.tick(nanoseconds(begun), out);
    }
    let _ = socket.shutdown(std::net::Shutdown::Both);
    let mut inner = inner.lock().expect("the switch");
    let Inner { tables, out, .. } = &mut *inner;
    tables.disconnect(id, out);
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
