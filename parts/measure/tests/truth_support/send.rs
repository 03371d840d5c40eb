//! Senders, with a log of their own.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use netloom_sys::clock;
use rustix::net::sockopt::set_socket_recv_buffer_size_force;

use super::net::{Line, V4};
use super::{BOUND, FROM, TO};

/// A datagram that was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) sequence: u64,
    /// Just before and after the call, on CLOCK_MONOTONIC: it passed its interface in between.
    pub(crate) before: u64,
    pub(crate) after: u64,
}

/// An address and port.
pub(crate) fn at(address: &str, port: u16) -> SocketAddr {
    SocketAddr::new(address.parse::<IpAddr>().unwrap(), port)
}

/// A datagram of our form, of a length by its number.
pub(crate) fn datagram(sequence: u64) -> Vec<u8> {
    let mut data = sequence.to_be_bytes().to_vec();
    data.resize(usize::try_from(16 + sequence * 37 % 1000).unwrap(), 0x5a);
    data
}

/// Who receives our datagrams, so that none is refused.
pub(crate) fn receiver(line: &Line) -> UdpSocket {
    let socket = line.b.run(|| UdpSocket::bind(at(V4[1], TO)).unwrap());
    // For all that comes while its reader waits for a busy machine.
    set_socket_recv_buffer_size_force(&socket, 64 << 20).unwrap();
    socket
}

/// Sends datagrams in bursts of `burst` with a pause after each until `end` (CLOCK_MONOTONIC).
pub(crate) fn datagrams(line: &Line, burst: u64, pause: Duration, end: u64) -> Vec<Sent> {
    send_while(line, burst, pause, |_| clock::monotonic() < end)
}

/// Sends so many, one after each pause.
pub(crate) fn count(line: &Line, count: u64, pause: Duration) -> Vec<Sent> {
    send_while(line, 1, pause, |sequence| sequence < count)
}

fn send_while(
    line: &Line,
    burst: u64,
    pause: Duration,
    go: impl Fn(u64) -> bool + Sync,
) -> Vec<Sent> {
    line.a.run(|| {
        let socket = UdpSocket::bind(at(V4[0], FROM)).unwrap();
        let mut log = Vec::new();
        let mut sequence = 0;
        while go(sequence) {
            for _ in 0..burst {
                let data = datagram(sequence);
                let before = clock::monotonic();
                socket.send_to(&data, at(V4[1], TO)).unwrap();
                log.push(Sent { sequence, before, after: clock::monotonic() });
                sequence += 1;
            }
            std::thread::sleep(pause);
        }
        log
    })
}

/// Receives our datagrams until as many have come as are `expected`, which may be known late; each with when it had been
/// read. Fewer are returned after [`BOUND`].
pub(crate) fn receive(socket: &UdpSocket, expected: &OnceLock<usize>) -> Vec<(u64, u64)> {
    socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let (mut room, mut came) = ([0; 2048], Vec::new());
    let until = Instant::now() + BOUND;
    while expected.get().is_none_or(|count| came.len() < *count) && Instant::now() < until {
        if socket.recv(&mut room).is_ok() {
            let time = clock::monotonic();
            came.push((u64::from_be_bytes(*room.first_chunk().unwrap()), time));
        }
    }
    came
}
