//! Frames that were seen: packets of the probe or its answer, questions for hardware addresses, and ICMP errors about a probe.
//!
//! Whatever a node sends comes here: no length is trusted, and no frame makes a reader panic. Specification: RFC 826, RFC 791,
//! RFC 8200, RFC 4861 section 4.3, RFC 792, RFC 4443.

use std::net::IpAddr;

use netloom_why::{Flow, Protocol};

use super::probe::Echo;

/// What a frame is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Frame<'a> {
    /// A packet, of whichever flow.
    Packet(Packet<'a>),
    /// A question for the hardware address of `target`, from `sender` where it says so.
    Question { target: IpAddr, sender: Option<IpAddr> },
}

/// An IP packet's parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Packet<'a> {
    source: IpAddr,
    pub(super) destination: IpAddr,
    protocol: u8,
    body: &'a [u8],
}

/// Reads a frame from its Ethernet header on.
pub(super) fn read(frame: &[u8]) -> Option<Frame<'_>> {
    let payload = frame.get(14..)?;
    // To all: of a neighbour that is known the kernel asks again by an ordinary frame, which tells nothing of this flow.
    let to_all = frame.first().is_some_and(|byte| byte & 1 == 1);
    let packet = match two(frame, 12)? {
        0x0806 => return arp(payload).filter(|_| to_all),
        0x0800 => four(payload)?,
        0x86dd => six(payload)?,
        _ => return None,
    };
    match neighbour(&packet) {
        Some(question) => Some(question).filter(|_| to_all),
        None => Some(Frame::Packet(packet)),
    }
}

fn two(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.first_chunk::<2>().map(|two| u16::from_be_bytes(*two))
}

fn address4(bytes: &[u8], at: usize) -> Option<IpAddr> {
    bytes.get(at..)?.first_chunk::<4>().map(|octets| IpAddr::from(*octets))
}

fn address6(bytes: &[u8], at: usize) -> Option<IpAddr> {
    bytes.get(at..)?.first_chunk::<16>().map(|octets| IpAddr::from(*octets))
}

fn arp(payload: &[u8]) -> Option<Frame<'static>> {
    let is_request = two(payload, 0)? == 1 && two(payload, 2)? == 0x0800 && two(payload, 6)? == 1;
    let (sender, target) = (address4(payload, 14)?, address4(payload, 24)?);
    is_request.then_some(Frame::Question { target, sender: Some(sender) })
}

fn four(payload: &[u8]) -> Option<Packet<'_>> {
    let head = usize::from(payload.first()? & 0x0f) * 4;
    // Only the first fragment has a transport header.
    let first = two(payload, 6)? & 0x1fff == 0;
    let packet = Packet {
        source: address4(payload, 12)?,
        destination: address4(payload, 16)?,
        protocol: *payload.get(9)?,
        body: payload.get(head..)?,
    };
    (head >= 20 && first).then_some(packet)
}

fn six(payload: &[u8]) -> Option<Packet<'_>> {
    Some(Packet {
        source: address6(payload, 8)?,
        destination: address6(payload, 24)?,
        protocol: *payload.get(6)?,
        body: payload.get(40..)?,
    })
}

fn neighbour(packet: &Packet<'_>) -> Option<Frame<'static>> {
    let asks = packet.protocol == 58 && packet.body.first() == Some(&135);
    let target = address6(packet.body, 8)?;
    asks.then_some(Frame::Question { target, sender: None })
}

/// Whether a packet is one of a flow; `echo` is what its echo requests carry.
pub(super) fn is_of(flow: &Flow, echo: &Echo, packet: &Packet<'_>) -> bool {
    belongs(flow, echo, packet, false)
}

/// Whether a packet, or one that an ICMP error quotes, is one of a flow.
fn belongs(flow: &Flow, echo: &Echo, packet: &Packet<'_>, quoted: bool) -> bool {
    let ipv4 = flow.destination.is_ipv4();
    let ends = (packet.source, packet.destination) == (flow.source, flow.destination);
    if !ends || packet.protocol != flow.protocol.number(ipv4) {
        return false;
    }
    match flow.protocol {
        Protocol::Icmp => {
            let kind = match (ipv4, flow.answers) {
                (true, false) => 8,
                (true, true) => 0,
                (false, false) => 128,
                (false, true) => 129,
            };
            echo.has(kind, packet.body, quoted)
        }
        _ => two(packet.body, 0).zip(two(packet.body, 2)) == Some((flow.ports[0], flow.ports[1])),
    }
}

/// From whom an ICMP error about a packet of a flow is, and what it says.
pub(super) fn error(
    flow: &Flow,
    echo: &Echo,
    packet: &Packet<'_>,
) -> Option<(IpAddr, &'static str)> {
    let (kind, code) = (*packet.body.first()?, *packet.body.get(1)?);
    let ipv4 = flow.destination.is_ipv4();
    let about = packet.body.get(8..)?;
    let about = if ipv4 { four(about)? } else { six(about)? };
    let words = match (packet.protocol, kind, code) {
        (1, 3, 0) => "network unreachable",
        (1, 3, 1) => "host unreachable",
        (1, 3, 3) => "port unreachable",
        (1, 3, 4) => "fragmentation needed",
        (1, 3, 9 | 10 | 13) => "communication prohibited",
        (1, 3, _) => "destination unreachable",
        (1, 11, _) => "time exceeded",
        (58, 1, 0) => "no route to destination",
        (58, 1, 1) => "communication prohibited",
        (58, 1, 3) => "address unreachable",
        (58, 1, 4) => "port unreachable",
        (58, 1, _) => "destination unreachable",
        (58, 2, _) => "packet too big",
        (58, 3, _) => "time exceeded",
        _ => return None,
    };
    belongs(flow, echo, &about, true).then_some((packet.source, words))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn flow(protocol: Protocol) -> Flow {
        let ends = [("a", [10, 0, 0, 1].into()), ("b", [10, 0, 1, 2].into())];
        Flow::new(ends, protocol, [5000, 80]).unwrap()
    }

    fn ip(protocol: u8, source: [u8; 4], destination: [u8; 4], body: &[u8]) -> Vec<u8> {
        let mut head = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0];
        head.extend(source);
        head.extend(destination);
        head.extend_from_slice(body);
        head
    }

    fn frame(kind: u16, payload: &[u8]) -> Vec<u8> {
        [&[0; 12][..], &kind.to_be_bytes(), payload].concat()
    }

    const ECHO: Echo = Echo { id: 7, mark: *b"of this probe..." };
    const A: [u8; 4] = [10, 0, 0, 1];
    const B: [u8; 4] = [10, 0, 1, 2];

    /// What a frame is to a flow.
    #[derive(Debug, PartialEq, Eq)]
    enum Found {
        Probe,
        Answer,
        Error(IpAddr, &'static str),
        Question(IpAddr, Option<IpAddr>),
    }

    fn find(flow: &Flow, frame: &[u8]) -> Option<Found> {
        let packet = match read(frame)? {
            Frame::Question { target, sender } => return Some(Found::Question(target, sender)),
            Frame::Packet(packet) => packet,
        };
        if is_of(flow, &ECHO, &packet) {
            return Some(Found::Probe);
        }
        if is_of(&flow.back(), &ECHO, &packet) {
            return Some(Found::Answer);
        }
        error(flow, &ECHO, &packet).map(|(from, words)| Found::Error(from, words))
    }

    #[test]
    fn the_probe_its_answer_and_errors_about_it_are_told_apart() {
        let flow = flow(Protocol::Tcp);
        let ports = [5000_u16.to_be_bytes(), 80_u16.to_be_bytes()].concat();
        let back = [80_u16.to_be_bytes(), 5000_u16.to_be_bytes()].concat();
        let read = |payload: &[u8]| find(&flow, &frame(0x0800, payload));
        assert_eq!(read(&ip(6, A, B, &ports)), Some(Found::Probe));
        assert_eq!(read(&ip(6, B, A, &back)), Some(Found::Answer));
        assert_eq!(read(&ip(6, A, B, &back)), None);
        assert_eq!(read(&ip(17, A, B, &ports)), None);
        let about = ip(6, A, B, &ports);
        let body = [&[3, 13, 0, 0, 0, 0, 0, 0][..], &about].concat();
        let router = [10, 0, 0, 254];
        let words = "communication prohibited";
        let told = Found::Error(router.into(), words);
        assert_eq!(read(&ip(1, router, A, &body)), Some(told));
        let other = [&[3, 13, 0, 0, 0, 0, 0, 0][..], &ip(6, A, B, &back)].concat();
        assert_eq!(read(&ip(1, router, A, &other)), None, "of another flow");
    }

    #[test]
    fn echo_requests_are_known_by_what_they_carry_and_questions_by_their_target() {
        let flow = flow(Protocol::Icmp);
        let echo = |kind: u8, id: u16, sequence: u8, mark: [u8; 16]| {
            [&[kind, 0, 0, 0][..], &id.to_be_bytes(), &[0, sequence], &mark].concat()
        };
        let found = |payload: &[u8]| find(&flow, &frame(0x0800, payload));
        assert_eq!(found(&ip(1, A, B, &echo(8, 7, 1, ECHO.mark))), Some(Found::Probe));
        assert_eq!(found(&ip(1, A, B, &echo(8, 6, 1, ECHO.mark))), None);
        assert_eq!(found(&ip(1, B, A, &echo(0, 7, 2, ECHO.mark))), Some(Found::Answer));
        assert_eq!(found(&ip(1, B, A, &echo(0, 7, 3, ECHO.mark))), None, "was not sent");
        assert_eq!(found(&ip(1, B, A, &echo(0, 7, 1, [0; 16]))), None, "another's mark");
        let quoted = |length: usize, mark| {
            let about = ip(1, A, B, &echo(8, 7, 1, mark)[..length]);
            let body = [&[11, 0, 0, 0, 0, 0, 0, 0][..], &about].concat();
            found(&ip(1, [10, 0, 0, 254], A, &body)).is_some()
        };
        assert!(quoted(8, ECHO.mark), "errors quote 64 bits at least");
        assert!(quoted(24, ECHO.mark) && !quoted(24, [0; 16]));
        let mut arp = vec![0, 1, 8, 0, 6, 4, 0, 1];
        arp.extend([0; 6]);
        arp.extend(A);
        arp.extend([0; 6]);
        arp.extend([10, 0, 0, 254]);
        let question = Found::Question([10, 0, 0, 254].into(), Some(A.into()));
        let to_all = |arp: &[u8]| {
            let mut frame = frame(0x0806, arp);
            frame[..6].fill(0xff);
            frame
        };
        assert_eq!(find(&flow, &to_all(&arp)), Some(question));
        assert_eq!(find(&flow, &frame(0x0806, &arp)), None, "of a known neighbour");
        arp[7] = 2;
        assert_eq!(find(&flow, &to_all(&arp)), None, "an answer");
    }

    proptest! {
        #[test]
        fn no_frame_makes_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..128), kind in 0usize..3) {
            let mut bytes = bytes;
            if bytes.len() > 13 {
                bytes[12..14].copy_from_slice(&[[8, 6], [8, 0], [0x86, 0xdd]][kind]);
            }
            let _ = find(&flow(Protocol::Udp), &bytes);
        }
    }
}
