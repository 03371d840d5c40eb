//! Traffic of several kinds, of both families, and where its packets belong.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use netloom_marking::session::NamedFilter;
use netloom_rawsock::option;
use netloom_sys::clock;

use super::net::{Line, V4, V6};
use super::points::{MARKS, filter, short, slower};
use super::send::at;
use super::tap::Noted;
use super::{BOUND, FROM, TO};

const SOL_UDP: i32 = 17;
const UDP_SEGMENT: i32 = 103;
const SOL_SOCKET: i32 = 1;
const SO_RCVBUFFORCE: i32 = 33;

/// Packets and bytes.
pub(crate) type Count = [u64; 2];

/// What passes from the sender to the receiver, by IPv4 and by IPv6.
pub(crate) fn flows(protocol: &str) -> [NamedFilter; 2] {
    let [four, six] = [V4.map(|a| format!("{a}/32")), V6.map(|a| format!("{a}/128"))];
    [(1, four), (2, six)].map(|(id, [from, to])| filter(id, [&from, &to, protocol, "*", "*"]))
}

/// The block that lasted when it was noted, or the one before: whichever has its mark.
pub(crate) fn block_of(noted: &Noted, start: u64) -> u64 {
    let mark = MARKS.iter().position(|mark| mark << 2 == noted.read.class & !3).expect("a mark");
    let block = (noted.time - start) / short();
    if block % 2 == mark as u64 { block } else { block - 1 }
}

/// Does it again and again until a time.
pub(crate) fn until(end: u64, work: impl FnMut(u64)) -> u64 {
    at_least(0, end, work)
}

/// The same, and this many times at least, whatever the time.
fn at_least(least: u64, end: u64, mut work: impl FnMut(u64)) -> u64 {
    let mut turns = 0;
    while turns < least || clock::monotonic() < end {
        work(turns);
        turns += 1;
        std::thread::sleep(Duration::from_millis(4));
    }
    turns
}

/// Sends datagrams of these sizes by IPv4 and by IPv6, each turn all; of each what was sent, and what the
/// receiver had.
pub(crate) fn datagrams(
    line: &Line,
    segment: Option<i32>,
    sizes: &[usize],
    end: u64,
) -> [[Count; 2]; 2] {
    let receivers = [V4, V6].map(|[_, to]| {
        let receiver = line.b.run(|| UdpSocket::bind(at(to, TO)).unwrap());
        option::set(&receiver, SOL_SOCKET, SO_RCVBUFFORCE, 256 << 20).unwrap();
        receiver.set_nonblocking(true).unwrap();
        receiver
    });
    let senders = [V4, V6].map(|[from, _]| line.a.run(|| UdpSocket::bind(at(from, FROM)).unwrap()));
    if let Some(segment) = segment {
        for sender in &senders {
            option::set(sender, SOL_UDP, UDP_SEGMENT, segment).unwrap();
        }
    }
    let mut data = vec![7; 65_000];
    let turns = until(end, |turn| {
        data[..8].copy_from_slice(&turn.to_be_bytes());
        for (sender, [_, to]) in senders.iter().zip([V4, V6]) {
            for size in sizes {
                assert_eq!(sender.send_to(&data[..*size], at(to, TO)).unwrap(), *size);
            }
        }
    });
    let sent = [turns * sizes.len() as u64, turns * sizes.iter().sum::<usize>() as u64];
    receivers.map(|receiver| {
        let mut room = vec![0; 65_536];
        let mut came = [0, 0];
        while let Ok(size) = receiver.recv(&mut room) {
            came[0] += 1;
            came[1] += size as u64;
        }
        [sent, came]
    })
}

/// A stream of some megabytes until a time, of 400 kB at least; it has been received when it returns. Its rate leaves room
/// for all samples of a block, however fast the machine is.
pub(crate) fn stream(line: &Line, v6: bool, end: u64) -> u64 {
    const TURN: u64 = 200_000;
    let turn = Duration::from_nanos(slower(5_000_000));
    let to = if v6 { V6[1] } else { V4[1] };
    let listener = line.b.run(|| TcpListener::bind(at(to, TO)).unwrap());
    std::thread::scope(|scope| {
        let received = scope.spawn(|| {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(BOUND)).unwrap();
            std::io::copy(&mut stream, &mut std::io::sink()).unwrap()
        });
        let mut stream = line.a.run(|| TcpStream::connect(at(to, TO)).unwrap());
        let data = vec![7; usize::try_from(TURN).unwrap()];
        let mut next = Instant::now();
        let turns = at_least(2, end, |_| {
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
            stream.write_all(&data).unwrap();
            next += turn;
        });
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        // Until the other side has closed, too: then nothing but one answer is sent.
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
        let bytes = received.join().unwrap();
        assert_eq!(bytes, turns * TURN);
        bytes
    })
}
