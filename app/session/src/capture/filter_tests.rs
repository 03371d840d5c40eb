//! What netloom itself sends is told from what others send, in frames that are written here.

use netloom_packet::own::{MARK, SEQUENCE};

use super::Filter;

const ETHERNET: usize = 14;
const HEADERS: [usize; 2] = [20, 40];

/// A frame with this content behind its IP header; `six` is the version, `tag` a VLAN tag.
fn frame(six: bool, tag: bool, protocol: u8, body: &[u8]) -> Vec<u8> {
    let mut frame = vec![2; 12];
    if tag {
        frame.extend([0x81, 0, 0, 7]);
    }
    let length = u16::try_from(body.len()).unwrap();
    if six {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        frame.extend(length.to_be_bytes());
        frame.extend([protocol, 64]);
        frame.extend([0xfd; 32]);
    } else {
        frame.extend([8, 0, 0x45, 0]);
        frame.extend((length + 20).to_be_bytes());
        frame.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
        frame.extend([10; 8]);
    }
    frame.extend(body);
    frame
}

fn echo(six: bool, answers: bool, content: &[u8]) -> Vec<u8> {
    let kind = match (six, answers) {
        (false, false) => 8,
        (false, true) => 0,
        (true, false) => 128,
        (true, true) => 129,
    };
    [&[kind, 0, 1, 2, 3, 4, 0, 1], content].concat()
}

fn datagram(content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(8 + content.len()).unwrap();
    [&[200, 1, 0, 53][..], &length.to_be_bytes(), &[0, 0], content].concat()
}

fn segment(flags: u8, numbers: [u32; 2], data: &[u8]) -> Vec<u8> {
    let [own, other] = numbers.map(u32::to_be_bytes);
    [&[200, 1, 0, 80][..], &own, &other, &[0x50, flags, 1, 0, 0, 0, 0, 0], data].concat()
}

/// An ICMP error about a packet.
fn error(six: bool, protocol: u8, body: &[u8]) -> Vec<u8> {
    let about = frame(six, false, protocol, body);
    [&[if six { 1 } else { 3 }, 1, 0, 0, 0, 0, 0, 0], &about[ETHERNET..]].concat()
}

/// The program that a filter becomes; `None` without libpcap.
fn keeps(text: &str) -> Option<impl Fn(&[u8]) -> bool> {
    netloom_libpcap::version().ok()?;
    let program = Filter::compile(text, None, true).unwrap().program.unwrap();
    Some(move |frame: &[u8]| program.run(frame, u32::try_from(frame.len()).unwrap()) > 0)
}

/// Frames of netloom in one version of IP: protocol and content.
fn own(six: bool) -> Vec<(u8, Vec<u8>)> {
    let icmp = if six { 58 } else { 1 };
    let after = SEQUENCE + 1;
    let why = [&MARK[..], &[7; 8]].concat();
    let probe = datagram(&MARK);
    let begins = segment(2, [SEQUENCE, 0], &[]);
    let icmp_errors =
        [error(six, icmp, &echo(six, false, &why)), error(six, 17, &probe), error(six, 6, &begins)];
    let icmps = [echo(six, false, &why), echo(six, true, &why)];
    let tcp = [
        begins,
        segment(0x12, [99, after], &[]),
        segment(0x10, [after, 100], &[]),
        segment(0x14, [after, 100], &[]),
        segment(0x14, [0, after], &[]),
        segment(0x11, [99, after], &[]),
    ];
    let icmp = icmps.into_iter().chain(icmp_errors).map(|body| (icmp, body));
    icmp.chain([(17, probe)]).chain(tcp.map(|body| (6, body))).collect()
}

#[test]
fn what_netloom_sends_is_left_out_with_and_without_a_tag() {
    let Some(keeps) = keeps("") else { return };
    for (six, tag) in [(false, false), (false, true), (true, false), (true, true)] {
        for (protocol, body) in own(six) {
            let whole = frame(six, tag, protocol, &body);
            assert!(!keeps(&whole), "{six} {tag} {protocol} {body:x?}");
        }
    }
}

#[test]
fn what_others_send_is_kept() {
    let Some(keeps) = keeps("") else { return };
    let after = SEQUENCE + 1;
    for (six, tag) in [(false, false), (false, true), (true, false), (true, true)] {
        let icmp = if six { 58 } else { 1 };
        let other = [5; 56];
        for (protocol, body) in [
            (icmp, echo(six, false, &other)),
            (icmp, echo(six, false, &[&MARK[..4], &[7; 20]].concat())),
            (icmp, echo(six, true, &[])),
            (icmp, error(six, 17, &datagram(&other))),
            (icmp, error(six, 6, &segment(2, [1, 0], &[]))),
            (17, datagram(&[])),
            (17, datagram(&[&MARK[..], &[1]].concat())),
            (17, datagram(&MARK[..7])),
            (6, segment(2, [SEQUENCE + 2, 0], &[])),
            (6, segment(0x18, [after, 100], b"data")),
            (6, segment(0x10, [after, 100], b"data")),
            (6, segment(0x18, [99, after], b"data")),
            (6, segment(0x10, [99, after], b"data")),
        ] {
            let whole = frame(six, tag, protocol, &body);
            assert!(keeps(&whole), "{six} {tag} {protocol} {body:x?}");
        }
    }
    // A fragment, and a header with options.
    let mut fragment = frame(false, false, 17, &datagram(&MARK));
    fragment[ETHERNET + 6] = 0x20;
    assert!(keeps(&fragment));
    assert!(keeps(&[]) && keeps(&[0xff; 14]) && keeps(&[2; 60]));
}

#[test]
fn a_frame_that_ends_early_is_kept() {
    let Some(keeps) = keeps("") else { return };
    for six in [false, true] {
        let header = HEADERS[usize::from(six)];
        for (protocol, body) in own(six) {
            let whole = frame(six, false, protocol, &body);
            // The marks stand behind the IP header: a frame that is cut there has none.
            for length in 0..ETHERNET + header + 8 {
                assert!(keeps(&whole[..length]), "{six} {protocol} {length}");
            }
        }
    }
}

#[test]
fn a_filter_holds_beside_it() {
    let Some(keeps) = keeps("udp port 53") else { return };
    assert!(keeps(&frame(false, false, 17, &datagram(b"question"))));
    assert!(!keeps(&frame(false, false, 17, &datagram(&MARK))));
    assert!(!keeps(&frame(false, false, 6, &segment(2, [1, 0], &[]))));
    let with_own = Filter::compile("", None, false).unwrap();
    assert!(with_own.program.is_none() && with_own.whole().is_none());
}
