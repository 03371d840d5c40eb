//! Encodes echo requests and decodes their answers.
//!
//! A request carries everything needed to match its answer (a token of this run, both ends, its send time),
//! so no table of sent requests is kept. Answers are untrusted bytes. The kernel computes checksums for IPv6
//! sockets; for IPv4 this module does (RFC 1071).

use netloom_packet::checksum::checksum;
use netloom_sys::random;

use super::Version;

/// Type numbers: RFC 792, RFC 4443.
const V4_REQUEST: u8 = 8;
const V4_REPLY: u8 = 0;
const V6_REQUEST: u8 = 128;
const V6_REPLY: u8 = 129;

/// Header of echo messages.
const HEADER: usize = 8;

/// Bytes of a request, IP header excluded.
pub(super) const LENGTH: usize = HEADER + 24;

/// Distinguishes this run's packets from all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) id: u16,
    pub(super) token: u64,
}

impl Mark {
    /// A mark that no other run has.
    pub(super) fn random() -> rustix::io::Result<Mark> {
        let id = u16::from_ne_bytes(random::array()?);
        Ok(Mark { id, token: random::number()? })
    }
}

/// One request and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Probe {
    /// Index of the sending end.
    pub(super) source: u32,
    /// Index of the receiving end.
    pub(super) target: u32,
    /// Microseconds since the start of the run.
    pub(super) sent_us: u64,
}

/// The echo request of a probe.
pub(super) fn request(version: Version, mark: Mark, probe: &Probe) -> [u8; LENGTH] {
    let mut bytes = [0; LENGTH];
    bytes[0] = if version == Version::V4 { V4_REQUEST } else { V6_REQUEST };
    bytes[4..6].copy_from_slice(&mark.id.to_be_bytes());
    let [.., high, low] = probe.target.to_be_bytes();
    bytes[6..8].copy_from_slice(&[high, low]);
    bytes[8..16].copy_from_slice(&mark.token.to_be_bytes());
    bytes[16..20].copy_from_slice(&probe.source.to_be_bytes());
    bytes[20..24].copy_from_slice(&probe.target.to_be_bytes());
    bytes[24..32].copy_from_slice(&probe.sent_us.to_be_bytes());
    if version == Version::V4 {
        let sum = checksum(&bytes);
        bytes[2..4].copy_from_slice(&sum.to_be_bytes());
    }
    bytes
}

/// The probe that a received packet answers, if it answers this run.
///
/// A raw IPv4 socket yields packets with their IP header, a raw IPv6 socket without. The caller checks that
/// both ends exist and that the answer came from the right one.
pub(super) fn read_reply(version: Version, mark: Mark, bytes: &[u8]) -> Option<Probe> {
    let (message, reply) = match version {
        Version::V4 => (behind_ipv4_header(bytes)?, V4_REPLY),
        Version::V6 => (bytes, V6_REPLY),
    };
    if message.len() != LENGTH || message[0] != reply || message[1] != 0 {
        return None;
    }
    if version == Version::V4 && checksum(message) != 0 {
        return None;
    }
    let id = u16::from_be_bytes(field(message, 4)?);
    let token = u64::from_be_bytes(field(message, 8)?);
    (Mark { id, token } == mark).then_some(())?;
    Some(Probe {
        source: u32::from_be_bytes(field(message, 16)?),
        target: u32::from_be_bytes(field(message, 20)?),
        sent_us: u64::from_be_bytes(field(message, 24)?),
    })
}

fn behind_ipv4_header(bytes: &[u8]) -> Option<&[u8]> {
    let first = *bytes.first()?;
    let length = usize::from(first & 0x0f) * 4;
    if first >> 4 != 4 || length < 20 {
        return None;
    }
    bytes.get(length..)
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MARK: Mark = Mark { id: 0x1234, token: 0x0102_0304_0506_0708 };
    const PROBE: Probe = Probe { source: 3, target: 70_001, sent_us: 1_234_567 };

    /// The receiver's answer to a request: RFC 792, "the type code changed, checksum recomputed".
    fn answer(version: Version, mark: Mark, probe: &Probe) -> Vec<u8> {
        let mut bytes = request(version, mark, probe);
        bytes[0] = if version == Version::V4 { V4_REPLY } else { V6_REPLY };
        if version == Version::V6 {
            return bytes.to_vec();
        }
        bytes[2..4].fill(0);
        let sum = checksum(&bytes).to_be_bytes();
        bytes[2..4].copy_from_slice(&sum);
        let mut packet = vec![0x45; 20];
        packet.extend(bytes);
        packet
    }

    #[test]
    fn a_request_has_its_checksum() {
        assert_eq!(checksum(&request(Version::V4, MARK, &PROBE)), 0);
    }

    #[test]
    fn an_answer_gives_its_probe_back() {
        for version in [Version::V4, Version::V6] {
            let bytes = answer(version, MARK, &PROBE);
            assert_eq!(read_reply(version, MARK, &bytes), Some(PROBE));
        }
    }

    #[test]
    fn an_ip_header_with_options_is_skipped() {
        let mut bytes = vec![0x46; 24];
        bytes.extend(&answer(Version::V4, MARK, &PROBE)[20..]);
        assert_eq!(read_reply(Version::V4, MARK, &bytes), Some(PROBE));
    }

    #[test]
    fn others_packets_are_not_taken() {
        for version in [Version::V4, Version::V6] {
            let asked = request(version, MARK, &PROBE);
            let header = if version == Version::V4 { &[0x45; 20][..] } else { &[] };
            assert_eq!(read_reply(version, MARK, &[header, &asked].concat()), None, "a request");
            let other = Mark { token: 9, ..MARK };
            assert_eq!(read_reply(version, MARK, &answer(version, other, &PROBE)), None, "token");
            let other = Mark { id: 9, ..MARK };
            assert_eq!(read_reply(version, MARK, &answer(version, other, &PROBE)), None, "id");
        }
        let mut broken = answer(Version::V4, MARK, &PROBE);
        broken[30] ^= 1;
        assert_eq!(read_reply(Version::V4, MARK, &broken), None, "checksum");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..128)) {
            let _ = read_reply(Version::V4, MARK, &bytes);
            let _ = read_reply(Version::V6, MARK, &bytes);
        }

        #[test]
        fn a_cut_or_changed_answer_is_never_another_probe(
            at in 0..52_usize, bit in 0..8_u8, length in 0..52_usize,
        ) {
            let whole = answer(Version::V4, MARK, &PROBE);
            prop_assert_eq!(read_reply(Version::V4, MARK, &whole[..length]), None);
            let mut changed = whole;
            changed[at] ^= 1 << bit;
            let read = read_reply(Version::V4, MARK, &changed);
            prop_assert!(read.is_none() || read == Some(PROBE), "{:?}", read);
        }

        #[test]
        fn every_probe_comes_back(source: u32, target: u32, sent_us: u64, id: u16, token: u64) {
            let (probe, mark) = (Probe { source, target, sent_us }, Mark { id, token });
            for version in [Version::V4, Version::V6] {
                let bytes = answer(version, mark, &probe);
                prop_assert_eq!(read_reply(version, mark, &bytes), Some(probe));
            }
        }
    }
}
