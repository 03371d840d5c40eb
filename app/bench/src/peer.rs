//! Small programs that experiments run on both sides, so that nothing needs to be installed.
//!
//! `tcp SECONDS`: a sender and a receiver over 127.0.0.1 in one process; prints bytes per second.
//! `flood SECONDS`: ICMP echo requests to 127.0.0.1 on a raw socket with a window in flight; prints replies
//! per second. Both print one number on standard output. The others have their own modules, with ends in two
//! nodes: they print `ready`, and one JSON object when their standard input ends or their time is over.

mod arrived;
mod bells;
mod breathe;
mod burn;
mod calls;
mod clock;
mod control;
mod crowd;
mod echo;
mod edges;
mod flows;
mod guarded;
mod line;
mod offloads;
mod openflow;
mod packets;
mod pi;
mod plain;
mod point;
mod ports;
mod pour;
mod receive;
mod requests;
mod stop;
mod storm;
mod stream;
mod triad;
mod turns;
mod vhost;

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use netloom_packet::checksum::checksum;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, ipproto, recv, sendto, socket};
use serde::Serialize;

use crate::sweeper::sweep;

/// Bytes per write call.
const CHUNK: usize = 128 << 10;
/// Requests in flight.
const WINDOW: u32 = 32;
/// Bytes of an echo request: 8 of header and the usual 56 of data.
const REQUEST: usize = 64;

/// Whether an error is a receive timeout.
fn idle(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// Runs one of them and prints its figures: `netloom-bench peer WORDS`.
///
/// # Errors
/// Unknown words, and socket errors.
pub(crate) fn peer(args: &[String]) -> Result<()> {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["on", core, ..] => {
            pin(None, figure(core)?)?;
            peer(&args[2..])?;
        }
        ["tcp", time] => number(tcp(seconds(time)?)?),
        ["flood", time] => number(flood(seconds(time)?)?),
        ["requests", time] => number(requests::requests(seconds(time)?)?),
        ["calls", kind, count] => object(&calls::calls(kind, figure(count)?)?),
        ["crowd", count] => object(&crowd::crowd(figure(count)?)?),
        ["member", address] => crowd::member(figure(address)?)?,
        ["guarded", rules, ..] => guarded::guarded(figure(rules)?, &words[2..])?,
        ["exec", program, ..] => {
            let mut command = std::process::Command::new(program);
            let refusal = std::os::unix::process::CommandExt::exec(command.args(&words[2..]));
            return Err(refusal).with_context(|| format!("start {program}"));
        }
        ["spin", time] => object(&burn::spin(seconds(time)?)),
        ["bells", time] => object(&bells::ping(seconds(time)?, false)?),
        ["bells-apart", time] => object(&bells::ping(seconds(time)?, true)?),
        ["breathe"] => breathe::breathe()?,
        ["hold", time] => object(&burn::hold(seconds(time)?)?),
        ["frames", interface, mac, from, to, path, time] => {
            let frame = burn::frame(mac, from, to)?;
            object(&burn::frames(interface, &frame, burn::path(path)?, seconds(time)?)?)
        }
        ["storm", interface, mac, from, to, to6, port, kind, time] => {
            let pair = storm::Pair::new(interface, [mac, from, to, to6, port])?;
            object(&storm::storm(interface, pair, kind, seconds(time)?)?)
        }
        ["tcp-sink", port, skip, time] => {
            object(&stream::sink(figure(port)?, seconds(skip)?, seconds(time)?)?)
        }
        ["tcp-source", to, rate, time] => {
            object(&stream::source(figure(to)?, figure(rate)?, seconds(time)?)?)
        }
        ["echo-server", port, time] => object(&echo::server(figure(port)?, seconds(time)?)?),
        ["service", port, work, time] => {
            object(&echo::service(figure(port)?, figure(work)?, seconds(time)?)?)
        }
        ["echo-client", to, rate, time] => {
            object(&echo::client(figure(to)?, figure(rate)?, seconds(time)?)?)
        }
        ["udp-sink", port, print, time] => {
            object(&packets::sink(figure(port)?, packets::print(print)?, seconds(time)?)?)
        }
        ["udp-source", to, bytes, count, rate, burst] => {
            let (bytes, count, rate) = (figure(bytes)?, figure(count)?, figure(rate)?);
            object(&packets::source(figure(to)?, bytes, count, rate, figure(burst)?)?)
        }
        ["udp-pour", to, bytes, window, skip, time] => {
            let times = [seconds(skip)?, seconds(time)?];
            object(&pour::pour(figure(to)?, figure(bytes)?, figure(window)?, times)?)
        }
        ["udp-drain", port, time] => object(&pour::drain(figure(port)?, seconds(time)?)?),
        ["measure-point", interface, place, samples, file, time] => {
            let (place, samples) = (point::place(place)?, point::samples(samples)?);
            object(&point::point(interface, place, samples, file.as_ref(), seconds(time)?)?)
        }
        ["measure-turns", interface, file, count, skip, time] => {
            let times = [seconds(skip)?, seconds(time)?];
            object(&turns::turns(interface, file.as_ref(), figure(count)?, times)?)
        }
        ["tcp-trickle", port, skip, time] => {
            object(&stream::trickle(figure(port)?, seconds(skip)?, seconds(time)?)?)
        }
        ["plug-plain", interface, switch] => object(&plain::plug(interface, switch)?),
        ["merging-on", interface] => object(&offloads::merge(interface)?),
        ["offloads-off", interface] => object(&offloads::off(interface)?),
        ["receive-apart", interface, core] => object(&receive::apart(interface, figure(core)?)?),
        ["vhost-port", way, bytes, time] => {
            object(&vhost::port(way, figure(bytes)?, seconds(time)?)?)
        }
        ["port-edges", switch, count] => object(&edges::weigh(switch, figure(count)?)?),
        ["port-send", line, bytes, time] => {
            object(&ports::send(line, figure(bytes)?, seconds(time)?)?)
        }
        ["port-receive", line, bytes, skip, time] => {
            object(&ports::receive(line, figure(bytes)?, seconds(skip)?, seconds(time)?)?)
        }
        ["port-station", line, time] => object(&ports::station(line, seconds(time)?)?),
        ["port-send-to", line, bytes, process, time] => {
            let (bytes, process) = (figure(bytes)?, figure(process)?);
            object(&ports::send_to(line, bytes, process, seconds(time)?)?)
        }
        ["port-echo", line, how, time] => {
            object(&ports::echo(line, ports::how(how)?, seconds(time)?)?)
        }
        ["port-ping", line, bytes, how, time] => {
            object(&ports::ping(line, figure(bytes)?, ports::how(how)?, seconds(time)?)?)
        }
        ["flow-fill", socket, count, from, port] => {
            object(&flows::fill(socket.as_ref(), figure(count)?, figure(from)?, figure(port)?)?)
        }
        ["flow-pass", socket] => {
            let entries = ["in_port=1,actions=output:2", "in_port=2,actions=output:1"];
            object(&flows::only(socket.as_ref(), &entries)?)
        }
        ["flow-clear", socket] => object(&flows::only(socket.as_ref(), &[])?),
        ["flow-entries", socket, ..] => object(&flows::only(socket.as_ref(), &words[2..])?),
        ["flow-control", port, time, ..] => {
            object(&control::control(figure(port)?, seconds(time)?, &words[3..])?)
        }
        ["relay", port, to, time] => {
            object(&control::relay(figure(port)?, figure(to)?, seconds(time)?)?)
        }
        ["arrived", interface, skip, time] => {
            object(&arrived::arrived(interface, seconds(skip)?, seconds(time)?)?)
        }
        ["pi", digits] => object(&pi::pi(figure(digits)?)?),
        ["triad", mebibytes, turns] => object(&triad::triad(figure(mebibytes)?, figure(turns)?)?),
        ["sweep", runtime, folder, netloom] => {
            sweep(runtime.as_ref(), folder.as_ref(), netloom.as_ref())?;
        }
        ["flow-obey", socket, interface, port, turns] => {
            object(&flows::obey(socket.as_ref(), interface, figure(port)?, figure(turns)?)?)
        }
        [name, ..] => bail!("peer `{name}`: no such program, or not its arguments"),
        [] => bail!("peer: NAME ARGUMENT..."),
    }
    Ok(())
}

/// Pins a thread, by default the calling one and those it starts, to one of the cores that this process may use.
fn pin(thread: Option<rustix::thread::Pid>, number: usize) -> Result<()> {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let allowed = sched_getaffinity(None).context("peer: ask for own cores")?;
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect();
    let core = cores.get(number % cores.len().max(1)).context("peer: no core")?;
    let mut one = CpuSet::new();
    one.set(*core);
    sched_setaffinity(thread, &one).context("peer: keep to a core")
}

fn seconds(text: &str) -> Result<Duration> {
    let seconds: f64 = figure(text)?;
    if !(0.0..=3600.0).contains(&seconds) {
        bail!("peer: {seconds} s: not within 0 to 3600");
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// Parses a number or an address.
fn figure<T: std::str::FromStr>(text: &str) -> Result<T> {
    text.parse().ok().with_context(|| format!("peer: `{text}`: not what is expected there"))
}

fn number(figure: f64) {
    println!("{figure:.1}");
}

fn object(figures: &impl Serialize) {
    println!("{}", serde_json::json!(figures));
}

/// Signals the experiment that the other side may start.
fn ready() {
    println!("ready");
}

/// Bytes per second from one thread to another.
fn tcp(time: Duration) -> Result<f64> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("listen on 127.0.0.1")?;
    let address = listener.local_addr().context("read own address")?;
    let sender = std::thread::spawn(move || -> Result<()> {
        let mut stream = TcpStream::connect(address).context("connect to 127.0.0.1")?;
        let chunk = vec![0x5a; CHUNK];
        let start = Instant::now();
        while start.elapsed() < time {
            stream.write_all(&chunk).context("send")?;
        }
        Ok(())
    });
    let (mut stream, _) = listener.accept().context("accept")?;
    let mut buffer = vec![0; CHUNK];
    let start = Instant::now();
    let mut bytes = 0_u64;
    loop {
        match stream.read(&mut buffer).context("receive")? {
            0 => break,
            count => bytes += count as u64,
        }
    }
    let took = start.elapsed().as_secs_f64();
    match sender.join() {
        Ok(result) => result?,
        Err(_) => bail!("the sender panicked"),
    }
    #[expect(clippy::cast_precision_loss, reason = "a count of bytes below 2^53")]
    Ok(bytes as f64 / took)
}

/// Replies per second.
fn flood(time: Duration) -> Result<f64> {
    let socket = socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::ICMP))
        .context("open a raw ICMP socket")?;
    // A lost packet must not stop the flood: after this time, requests in flight are given up.
    set_socket_timeout(&socket, Timeout::Recv, Some(Duration::from_millis(50)))
        .context("set a receive timeout")?;
    let target = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);
    let id = u16::try_from(std::process::id() & 0xffff).unwrap_or(1);
    let (mut sequence, mut flying, mut replies) = (0_u16, 0_u32, 0_u32);
    let mut buffer = [0; 2048];
    let start = Instant::now();
    while start.elapsed() < time {
        while flying < WINDOW {
            sendto(&socket, &request(id, sequence), SendFlags::empty(), &target).context("send")?;
            sequence = sequence.wrapping_add(1);
            flying += 1;
        }
        match recv(&socket, &mut buffer, RecvFlags::empty()) {
            Ok((count, _)) if is_reply(&buffer[..count], id) => {
                replies += 1;
                flying -= 1;
            }
            Ok(_) => {}
            Err(rustix::io::Errno::AGAIN) => flying = 0,
            Err(error) => return Err(error).context("receive"),
        }
    }
    Ok(f64::from(replies) / start.elapsed().as_secs_f64())
}

/// An echo request (RFC 792) with its checksum (RFC 1071).
fn request(id: u16, sequence: u16) -> [u8; REQUEST] {
    let mut packet = [0_u8; REQUEST];
    packet[0] = 8;
    packet[4..6].copy_from_slice(&id.to_be_bytes());
    packet[6..8].copy_from_slice(&sequence.to_be_bytes());
    let sum = checksum(&packet);
    packet[2..4].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// Whether an IPv4 packet is an echo reply to this process; raw sockets also see the requests on lo.
fn is_reply(packet: &[u8], id: u16) -> bool {
    let header = packet.first().map_or(0, |byte| usize::from(byte & 0x0f) * 4);
    packet.get(header) == Some(&0) && packet.get(header + 4..header + 6) == Some(&id.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_sums_up_to_zero_and_is_no_reply() {
        let packet = request(0x1234, 7);
        assert_eq!(checksum(&packet), 0);
        let mut seen = vec![0x45; 20];
        seen.extend(packet);
        assert!(!is_reply(&seen, 0x1234));
        seen[20] = 0;
        assert!(is_reply(&seen, 0x1234) && !is_reply(&seen, 0x1235) && !is_reply(&seen[..10], 0));
    }

    #[test]
    fn bytes_flow() {
        assert!(tcp(Duration::from_millis(20)).unwrap() > 1e6);
    }

    #[test]
    fn wrong_words_are_told() {
        for wrong in [&["tcp"][..], &["tcp", "x"], &["udp", "1"], &["tcp", "-1"], &["tcp", "NaN"]] {
            let args: Vec<String> = wrong.iter().map(|word| (*word).to_owned()).collect();
            assert!(peer(&args).is_err(), "{wrong:?}");
        }
    }
}
