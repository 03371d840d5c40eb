//! Which packets ask for an answer, and which answer or refuse them.
//!
//! An answer has a key by which it is that of one packet: the identifier and number of an echo request (RFC 792, RFC 4443), the
//! number that acknowledges a request for a connection (RFC 9293 section 3.10.7). An error of ICMP has the packet that it is
//! about (RFC 1122 section 3.2.2), at least its first eight bytes, which have these, too.

use netloom_packet::headers::{Headers, TCP, UDP};
use netloom_sighting::Flow;

/// What a packet says of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// It asks for an answer with this key.
    Asks { key: u64 },
    /// It is one.
    Answers { key: u64, refuses: bool },
}

/// Flags of TCP.
const FIN_SYN_RST: u8 = 0x07;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;

/// Bytes of an ICMP error before the packet that it is about.
const BEFORE: usize = 8;

/// What a frame says; `None` for what neither asks nor answers.
pub(super) fn of(frame: &[u8]) -> Option<Call> {
    let ip = Headers::parse(frame).ok()?.ip?;
    let bytes = frame.get(ip.transport..)?;
    match ip.protocol {
        TCP => of_tcp(bytes),
        UDP => Some(Call::Asks { key: word(bytes, 0)?.into() }),
        _ => {
            let key = u64::from(long(bytes, 4)?);
            match *bytes.first()? {
                8 | 128 => Some(Call::Asks { key }),
                0 | 129 => Some(Call::Answers { key, refuses: false }),
                _ => None,
            }
        }
    }
}

/// The sender's port, and the number that acknowledges its request.
fn tcp_key(port: u16, acknowledged: u32) -> u64 {
    u64::from(port) << 32 | u64::from(acknowledged)
}

fn of_tcp(bytes: &[u8]) -> Option<Call> {
    let flags = *bytes.get(13)? & (FIN_SYN_RST | ACK);
    if flags == SYN {
        return Some(Call::Asks { key: tcp_key(word(bytes, 0)?, long(bytes, 4)?.wrapping_add(1)) });
    }
    let refuses = flags == RST | ACK;
    let key = tcp_key(word(bytes, 2)?, long(bytes, 8)?);
    (refuses || flags == SYN | ACK).then_some(Call::Answers { key, refuses })
}

/// The packet that an ICMP error says did not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    /// Its addresses and protocol.
    pub(super) flow: Flow,
    /// The port that it was for.
    pub(super) port: Option<u16>,
    /// What it asks by.
    pub(super) key: u64,
}

/// What an ICMP error says.
pub(super) fn refused(frame: &[u8]) -> Option<Refused> {
    let ip = Headers::parse(frame).ok()?.ip?;
    let bytes = frame.get(ip.transport..ip.end)?;
    let (kind, code) = (*bytes.first()?, *bytes.get(1)?);
    // Code 4 of IPv4 says how long packets may be.
    let is_error = match (ip.v6, ip.protocol) {
        (false, 1) => kind == 3 && code != 4,
        (true, 58) => kind == 1,
        _ => false,
    };
    let about = bytes.get(BEFORE..).filter(|_| is_error)?;
    let ethertype: [u8; 2] = if ip.v6 { [0x86, 0xdd] } else { [8, 0] };
    let mut about = [&[0; 12][..], &ethertype, about].concat();
    // It may be cut, and says how long it was.
    let (at, header) = if ip.v6 { (18, 40) } else { (16, 0) };
    let length = u16::try_from(about.len().checked_sub(14 + header)?).ok()?;
    about.get_mut(at..at + 2)?.copy_from_slice(&length.to_be_bytes());
    let flow = Flow::of(&about)?;
    let bytes = about.get(Headers::parse(&about).ok()?.ip?.transport..)?;
    let (key, port) = match flow.protocol {
        TCP => (tcp_key(word(bytes, 0)?, long(bytes, 4)?.wrapping_add(1)), word(bytes, 2)),
        UDP => (word(bytes, 0)?.into(), word(bytes, 2)),
        _ => (long(bytes, 4)?.into(), None),
    };
    Some(Refused { flow, port, key })
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame of IPv4 from 10.0.0.1 to 10.0.0.2.
    fn frame(protocol: u8, payload: &[u8]) -> Vec<u8> {
        let total = u16::try_from(20 + payload.len()).unwrap().to_be_bytes();
        let ip = [0x45, 0, total[0], total[1], 0, 0, 0, 0, 64, protocol, 0, 0];
        let addresses = [10, 0, 0, 1, 10, 0, 0, 2];
        [&[2; 12][..], &[8, 0], &ip, &addresses, payload].concat()
    }

    fn tcp(ports: [u16; 2], numbers: [u32; 2], flags: u8) -> Vec<u8> {
        let mut bytes: Vec<u8> = ports.iter().flat_map(|port| port.to_be_bytes()).collect();
        bytes.extend(numbers.iter().flat_map(|number| number.to_be_bytes()));
        bytes.extend([0x50, flags, 0, 0, 0, 0, 0, 0]);
        bytes
    }

    #[test]
    fn an_answer_has_the_key_of_what_it_answers() {
        let asks = |frame: &[u8]| match of(frame) {
            Some(Call::Asks { key }) => key,
            other => panic!("{other:?}"),
        };
        let ping = asks(&frame(1, &[8, 0, 0, 0, 1, 2, 0, 7]));
        let pong = of(&frame(1, &[0, 0, 0, 0, 1, 2, 0, 7]));
        assert_eq!(pong, Some(Call::Answers { key: ping, refuses: false }));
        assert_ne!(ping, asks(&frame(1, &[8, 0, 0, 0, 1, 2, 0, 8])));
        // The acknowledged number is the next one, also after the last.
        let syn = frame(6, &tcp([4000, 80], [u32::MAX, 0], SYN));
        let key = asks(&syn);
        let taken = of(&frame(6, &tcp([80, 4000], [9, 0], SYN | ACK)));
        assert_eq!(taken, Some(Call::Answers { key, refuses: false }));
        let refused = of(&frame(6, &tcp([80, 4000], [0, 0], RST | ACK)));
        assert_eq!(refused, Some(Call::Answers { key, refuses: true }));
        assert_eq!(of(&frame(6, &tcp([4000, 80], [1, 10], ACK))), None);
        // A reset later than that ends a connection.
        assert_eq!(of(&frame(6, &tcp([80, 4000], [9, 9], RST))), None);
        assert_eq!(of(&[0; 14]), None);
    }

    #[test]
    fn an_error_names_the_packet_that_was_refused() {
        let port_unreachable = |about: &[u8]| {
            let mut bytes = vec![3, 3, 0, 0, 0, 0, 0, 0];
            bytes.extend(&about[14..]);
            frame(1, &bytes)
        };
        let syn = frame(6, &tcp([4000, 80], [5, 0], SYN));
        let told = refused(&port_unreachable(&syn)).unwrap();
        assert_eq!(of(&syn), Some(Call::Asks { key: told.key }));
        assert_eq!(told.port, Some(80));
        // Eight bytes are enough, and the least that there is.
        assert_eq!(
            refused(&port_unreachable(&syn[..14 + 20 + 8])).map(|of| of.key),
            Some(told.key)
        );
        assert_eq!(refused(&port_unreachable(&syn[..14 + 20 + 7])), None);
        let datagram = frame(17, &[0x10, 0, 0, 53, 0, 8, 0, 0]);
        let told = refused(&port_unreachable(&datagram)).unwrap();
        assert_eq!(of(&datagram), Some(Call::Asks { key: told.key }));
        assert_eq!((told.port, told.flow.protocol), (Some(53), 17));
        let mut longer = port_unreachable(&syn);
        longer[35] = 4;
        assert_eq!(refused(&longer), None);
        assert_eq!(refused(&syn), None);
    }
}
