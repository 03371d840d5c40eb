//! Questions that are answered inside a node: its kernel's routes, which nodes answer it, and how many UDP packets of
//! one node arrive at another.
//!
//! [`answer`] does it in the calling process's own network namespace; `netloom test` has it called in a process that
//! entered the node. Packets are sent and received by ordinary sockets, so that they pass whatever is on their way in
//! the two nodes, wires among it. Each has its number, so that one that came twice counts once.

use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use netloom_netlink::{Family, ForwardingRoute, Found, Lookup, Socket};
use netloom_node::ping::{self, Pace, Prober, Version};
use netloom_sys::Failure;
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// How long a receiver waits for packets that are on their way when the sender is done.
const DRAIN: Duration = Duration::from_millis(300);

/// A receiver's buffer, as far as the kernel gives it.
const BUFFER: usize = 8 << 20;

/// Bytes of headers around a UDP packet's content: Ethernet's, the address family's, UDP's.
const HEADERS: [u64; 2] = [14 + 20 + 8, 14 + 40 + 8];

/// The most numbers of packets that a receiver tells apart.
const MOST: u64 = 1 << 30;

/// A question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Question {
    /// The way that the kernel chooses for packets to an address.
    Egress(IpAddr),
    /// The entries of the main table for exactly this prefix.
    Entries(ipnet::IpNet),
    /// All addresses of this node.
    Own,
    /// Whether an address answers echo requests.
    Ping {
        /// The address.
        to: IpAddr,
        /// How long to wait, in milliseconds.
        timeout_ms: u64,
    },
    /// Receive UDP packets at an address until standard input ends.
    Receive(IpAddr),
    /// Send UDP packets.
    Send {
        /// Where a receiver is.
        to: SocketAddr,
        /// Their content's size in bytes, at least 8.
        size: usize,
        /// How many in a second.
        rate: u64,
        /// For how long, in milliseconds.
        lasting_ms: u64,
    },
}

/// A way out of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Egress {
    /// The next hop; absent for a destination on the link.
    pub via: Option<IpAddr>,
    /// The interface.
    pub dev: String,
}

/// An answer; a receiver gives two.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// Ways to where it was asked for; none without a route.
    Ways(Vec<Egress>),
    /// The packets are for this node.
    Here,
    /// Addresses, those of the link among them.
    Own(Vec<IpAddr>),
    /// Microseconds until the answer came.
    Ping(Option<u32>),
    /// A receiver has this port.
    Port(u16),
    /// The received packets.
    Received(Received),
    /// How many packets were sent.
    Sent(u64),
}

/// What a receiver got.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Received {
    /// Packets with different numbers.
    pub packets: u64,
    /// Bits of these a second, with all headers, from the first to the last of them.
    pub bits_per_second: f64,
}

/// Answers a question; `told` is called with each answer.
///
/// # Errors
/// What the system refuses.
pub fn answer(asked: &Question, told: &mut dyn FnMut(&Answer) -> io::Result<()>) -> Result<()> {
    let mut tell = |answer: Answer| {
        told(&answer).map_err(|e| Error::Failed(Failure::new("answer", "give", e)))
    };
    match asked {
        Question::Egress(to) => tell(way(*to)?),
        Question::Entries(to) => tell(entries(to)?),
        Question::Own => {
            let mut socket = netlink(Socket::open_to_ask(), "ask for")?;
            let all = netlink(socket.addresses(), "list addresses beside")?;
            tell(Answer::Own(all.into_iter().map(|found| found.address.addr()).collect()))
        }
        Question::Ping { to, timeout_ms } => {
            tell(Answer::Ping(ping(*to, Duration::from_millis(*timeout_ms))?))
        }
        Question::Receive(address) => receive(*address, &mut tell),
        Question::Send { to, size, rate, lasting_ms } => {
            let lasting = Duration::from_millis(*lasting_ms);
            let sent = send(*to, (*size).max(8), *rate, lasting);
            tell(Answer::Sent(sent.map_err(failed(to, "send packets to"))?))
        }
    }
}

fn failed(object: &impl std::fmt::Display, operation: &'static str) -> impl Fn(io::Error) -> Error {
    let object = object.to_string();
    move |e| Error::Failed(Failure::new(object.clone(), operation, e))
}

fn netlink<T>(of: netloom_netlink::Result<T>, operation: &'static str) -> Result<T> {
    of.map_err(|e| Error::Failed(Failure::new("routes", operation, e)))
}

fn way(to: IpAddr) -> Result<Answer> {
    let mut socket = netlink(Socket::open_to_ask(), "ask for")?;
    Ok(match netlink(socket.route_to(&Lookup { to, forwarded: None }), "look up")? {
        None => Answer::Ways(vec![]),
        Some(Found::Here) => Answer::Here,
        Some(Found::Leaves { link, via, .. }) => {
            Answer::Ways(vec![Egress { via, dev: name(&mut socket, link)? }])
        }
    })
}

fn name(socket: &mut Socket, link: u32) -> Result<String> {
    let found = netlink(socket.link(link), "find the interface of")?;
    Ok(found.map_or_else(String::new, |link| link.name))
}

fn entries(to: &ipnet::IpNet) -> Result<Answer> {
    let mut socket = netlink(Socket::open_to_ask(), "ask for")?;
    let family = if to.addr().is_ipv4() { Family::V4 } else { Family::V6 };
    let all = netlink(socket.forwarding_routes(family), "list")?;
    let is_it = |route: &ForwardingRoute| {
        route.to == *to && route.table == netloom_netlink::MAIN_TABLE && route.is_unicast()
    };
    let mut ways = Vec::new();
    for hop in all.iter().filter(|route| is_it(route)).flat_map(|route| &route.hops) {
        ways.push(Egress { via: hop.via, dev: name(&mut socket, hop.link)? });
    }
    Ok(Answer::Ways(ways))
}

fn ping(to: IpAddr, timeout: Duration) -> Result<Option<u32>> {
    let own = std::fs::File::open("/proc/self/ns/net").map_err(failed(&"network", "open"))?;
    let unspecified = match to {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let prober = Prober { name: "", netns: own.as_fd(), address: Some(unspecified) };
    let version = if to.is_ipv4() { Version::V4 } else { Version::V6 };
    // Two, and the shorter time: the first waits for the neighbour's address.
    let pace = Pace { count: 2, interval: timeout / 2, timeout };
    Ok(ping::one_pair(&prober, to, version, pace)?.into_iter().flatten().min())
}

/// Receives until standard input ends, and as long as packets come after that.
fn receive(address: IpAddr, tell: &mut dyn FnMut(Answer) -> Result<()>) -> Result<()> {
    let refused = |operation| failed(&"UDP socket", operation);
    let socket = UdpSocket::bind((address, 0)).map_err(refused("bind"))?;
    // What the kernel does not give is lost where the machine is too slow.
    let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&socket, BUFFER);
    socket.set_read_timeout(Some(DRAIN)).map_err(refused("set up"))?;
    tell(Answer::Port(socket.local_addr().map_err(refused("look at"))?.port()))?;
    let done = AtomicBool::new(false);
    let counted = std::thread::scope(|scope| {
        let counting = scope.spawn(|| count(&socket, address.is_ipv4(), &done));
        // The caller closes it, or has ended.
        let _ = io::stdin().lock().read_to_end(&mut Vec::new());
        done.store(true, Ordering::Relaxed);
        counting.join()
    });
    let counted = counted.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    tell(Answer::Received(counted.map_err(refused("receive by"))?))
}

fn count(socket: &UdpSocket, ipv4: bool, done: &AtomicBool) -> io::Result<Received> {
    let mut buffer = vec![0; 1 << 16];
    let mut seen: Vec<u64> = Vec::new();
    let mut times: Option<(Instant, Instant)> = None;
    let (mut received, mut bytes, mut last) = (Received::default(), 0_u64, 0_u64);
    loop {
        let length = match socket.recv(&mut buffer) {
            Ok(length) => length,
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                continue;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        };
        let Some(number) = buffer[..length].first_chunk::<8>() else { continue };
        if !is_new(&mut seen, u64::from_be_bytes(*number)) {
            continue;
        }
        let now = Instant::now();
        times = Some((times.map_or(now, |(first, _)| first), now));
        received.packets += 1;
        last = length as u64 + HEADERS[usize::from(!ipv4)];
        bytes += last;
    }
    if let Some((first, end)) = times {
        let time = end.duration_since(first).as_secs_f64();
        // The time is that of all packets but one.
        #[expect(clippy::cast_precision_loss, reason = "a rate")]
        let bits = (bytes - last) as f64 * 8.0;
        received.bits_per_second = if time > 0.0 { bits / time } else { 0.0 };
    }
    Ok(received)
}

/// Notes the number of a packet; `false` if it was there already.
fn is_new(seen: &mut Vec<u64>, number: u64) -> bool {
    // Anyone in the lab can send to this port: the table must not grow with what they write.
    if number >= MOST {
        return false;
    }
    let (word, bit) = (usize::try_from(number / 64).unwrap_or(0), 1 << (number % 64));
    if seen.len() <= word {
        seen.resize(word + 1, 0);
    }
    let is_new = seen[word] & bit == 0;
    seen[word] |= bit;
    is_new
}

/// Sends packets, each at its time as far as the machine keeps up; returns how many.
fn send(to: SocketAddr, size: usize, rate: u64, lasting: Duration) -> io::Result<u64> {
    let any =
        if to.is_ipv4() { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0))?;
    // So that the kernel tells of a port that nobody has (ECONNREFUSED).
    socket.connect(to)?;
    let mut packet = vec![0; size];
    let (begin, rate) = (Instant::now(), rate.max(1));
    let due = |at: Duration| {
        let count = at.as_nanos().saturating_mul(rate.into()) / 1_000_000_000;
        u64::try_from(count).unwrap_or(MOST).min(MOST - 1)
    };
    let (all, mut sent) = (due(lasting).max(1), 0_u64);
    while sent < all {
        let now = begin.elapsed();
        if now > lasting * 2 + Duration::from_secs(1) {
            // The machine does not keep up.
            break;
        }
        // Sleeps are longer than asked for; packets that are late by then go out at once.
        if sent > due(now) {
            std::thread::sleep(Duration::from_micros(200));
            continue;
        }
        packet[..8].copy_from_slice(&sent.to_be_bytes());
        match socket.send(&packet) {
            Ok(_) => sent += 1,
            // A full queue is a place where packets are lost; so is one that nobody listens at any more.
            Err(e) if matches!(e.raw_os_error(), Some(code) if is_loss(code)) => sent += 1,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(sent)
}

fn is_loss(code: i32) -> bool {
    use rustix::io::Errno;
    [Errno::NOBUFS, Errno::CONNREFUSED, Errno::AGAIN].map(Errno::raw_os_error).contains(&code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_that_come_twice_count_once() {
        let mut seen = Vec::new();
        let news: Vec<bool> =
            [0, 5, 64, 5, 1 << 20, 0, MOST, u64::MAX].map(|n| is_new(&mut seen, n)).into();
        assert_eq!(news, [true, true, true, false, true, false, false, false]);
    }

    #[test]
    fn what_is_sent_over_loopback_arrives_at_its_rate() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        receiver.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let to = receiver.local_addr().unwrap();
        let done = AtomicBool::new(false);
        let begin = Instant::now();
        let (sent, received) = std::thread::scope(|scope| {
            let counting = scope.spawn(|| count(&receiver, true, &done));
            // As many as the receiver's socket holds, however late it reads.
            let sent = send(to, 958, 1000, Duration::from_millis(80)).unwrap();
            done.store(true, Ordering::Relaxed);
            (sent, counting.join().unwrap().unwrap())
        });
        let took = begin.elapsed();
        assert_eq!(received.packets, sent);
        assert!(sent == 80 || took > Duration::from_secs(1), "{sent} in {took:?}");
        // Frames of 1000 bytes, all but one, in no longer than all took.
        let bits = f64::from(u32::try_from(sent - 1).unwrap()) * 8000.0;
        assert!(received.bits_per_second >= bits / took.as_secs_f64(), "{received:?} in {took:?}");
    }
}
