//! Doors within one network: what they carry, and crowds that keep nobody out.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;

use super::*;

/// Limit on everything that should happen at once.
const SOON: Duration = Duration::from_secs(20);

/// A program that answers in capitals, at the end of what it is sent.
fn program() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let mut all = vec![];
                // One that is cut off is none of the tests that want an answer.
                let _ = stream.read_to_end(&mut all);
                let _ = stream.write_all(&all.to_ascii_uppercase());
            });
        }
    });
    at
}

/// A port that leads to these places, with this many connections at a time.
fn port(most: usize, places: Vec<SocketAddr>) -> (SocketAddr, Arc<Seats>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::listen(&listener, 4096).unwrap();
    let at = listener.local_addr().unwrap();
    let seats = Seats::new(most);
    let carrier = Carrier::new().unwrap();
    let (carries, own) = (Arc::clone(&carrier), Arc::clone(&seats));
    std::thread::spawn(move || carries.run(&own));
    let doors = vec![Door { listener, places }];
    let doors = Doors::new(doors, vec![carrier], Arc::clone(&seats)).unwrap();
    std::thread::spawn(move || doors.run());
    (at, seats)
}

fn connect(at: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect_timeout(&at, SOON).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream.set_write_timeout(Some(SOON)).unwrap();
    stream
}

fn answer(at: SocketAddr, asked: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut stream = connect(at);
    stream.write_all(asked)?;
    stream.shutdown(Shutdown::Write)?;
    let mut answer = vec![];
    stream.read_to_end(&mut answer)?;
    Ok(answer)
}

/// An address that nobody listens at, and nobody else gets, as long as its socket lives.
fn nobody() -> (TcpListener, SocketAddr) {
    let held = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&held, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let held = TcpListener::from(held);
    let at = held.local_addr().unwrap();
    (held, at)
}

#[test]
fn much_is_carried_both_ways_and_an_end_passes_through() {
    let (_held, nobody) = nobody();
    let (at, seats) = port(8, vec![nobody, program()]);
    let much: Vec<u8> = (0..8_000_000_u32).map(|n| b'a' + u8::try_from(n % 23).unwrap()).collect();
    assert_eq!(answer(at, &much).unwrap(), much.to_ascii_uppercase());
    assert_eq!(answer(at, b"small").unwrap(), b"SMALL");
    // Nothing of them is left.
    let end = Instant::now() + SOON;
    while !seats.is_empty() {
        assert!(Instant::now() < end, "seats stay taken");
        std::thread::yield_now();
    }
}

#[test]
fn where_nobody_listens_a_connection_is_reset() {
    let (_held, nobody) = nobody();
    let (at, _) = port(8, vec![nobody]);
    // The end may come before the connection is told to be there.
    let read =
        TcpStream::connect_timeout(&at, SOON).and_then(|mut stream| stream.read(&mut [0; 8]));
    assert_eq!(read.unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[test]
fn idle_connections_keep_no_new_one_out() {
    let (at, _) = port(64, vec![program()]);
    let mut idle: Vec<TcpStream> = (0..400).map(|_| connect(at)).collect();
    assert_eq!(answer(at, b"in").unwrap(), b"IN");
    // The oldest gave way, and was told that this is not a regular end.
    let error = idle[0].read(&mut [0; 8]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    // Half-closed ones do the same, and those on which something was sent and which wait.
    idle.iter().for_each(|stream| drop(stream.shutdown(Shutdown::Write)));
    let _waiting: Vec<TcpStream> = (0..400)
        .map(|_| {
            let mut stream = connect(at);
            // It may have given way already.
            let _ = stream.write_all(b"half");
            stream
        })
        .collect();
    assert_eq!(answer(at, b"again").unwrap(), b"AGAIN");
}

/// How many sockets of this machine try to connect to this address.
fn trying(to: SocketAddr) -> usize {
    const SYN_SENT: &str = "02";
    let end = format!(":{:04X} {SYN_SENT} ", to.port());
    let all = std::fs::read_to_string("/proc/net/tcp").unwrap();
    all.lines().filter(|line| line.contains(&end)).count()
}

#[test]
fn who_gave_way_no_longer_tries_to_reach_a_program_that_takes_none() {
    // Its queue is full: a connection is neither made nor refused.
    let busy = TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::listen(&busy, 0).unwrap();
    let to = busy.local_addr().unwrap();
    let queued: Vec<_> = (0..4).map(|_| socket_for(&to).unwrap()).collect();
    for socket in &queued {
        let _ = rustix::net::connect(socket, &to);
    }
    let before = trying(to);
    let (at, _) = port(16, vec![to]);
    let mut crowd: Vec<TcpStream> = (0..300).map(|_| connect(at)).collect();
    // It gives way for the last one.
    let error = crowd[300 - 16 - 1].read(&mut [0; 8]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    let trying = trying(to) - before;
    assert!(trying <= 17, "{trying} try, of 16 that may");
}

#[test]
fn who_takes_nothing_delays_nobody() {
    let (at, _) = port(64, vec![program()]);
    let flood = |_| {
        let mut stream = connect(at);
        stream.write_all(&vec![b'x'; 4 << 20]).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        stream
    };
    // Their answers are not read.
    let _floods: Vec<TcpStream> = (0..4).map(flood).collect();
    assert_eq!(answer(at, b"in").unwrap(), b"IN");
}
