//! Texts, frames made by hand, and any bytes.

use proptest::prelude::*;

use super::*;

fn of(text: &str) -> MirrorFilter {
    text.parse().unwrap()
}

/// TCP from 10.1.2.3:1234 to 192.0.2.9:80, with tags.
fn tcp(tags: &[u16]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    for tci in tags {
        frame.extend([0x81, 0x00]);
        frame.extend(tci.to_be_bytes());
    }
    frame.extend([0x08, 0x00, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0]);
    frame.extend([10, 1, 2, 3, 192, 0, 2, 9]);
    frame.extend([0x04, 0xd2, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0, 0, 0, 0, 0, 0, 0]);
    frame
}

/// UDP from 2001:db8::1 port 53 to fe80::2 port 4096.
fn udp6() -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xdd];
    frame.extend([0x60, 0, 0, 0, 0, 8, 17, 64]);
    frame.extend(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).octets());
    frame.extend(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2).octets());
    frame.extend([0, 53, 0x10, 0, 0, 8, 0, 0]);
    frame
}

#[test]
fn frames() {
    let cases: &[(&str, bool, bool)] = &[
        ("all", true, true),
        ("", true, true),
        ("tcp", true, false),
        ("udp", false, true),
        ("port 80", true, false),
        ("port 1234", true, false),
        ("port 4096", false, true),
        ("ip 10.0.0.0/8", true, false),
        ("ip 192.0.2.9", true, false),
        ("ip 10.1.2.4", false, false),
        ("ip 0.0.0.0/0", true, false),
        ("ip ::/0", false, true),
        ("ip 2001:db8::/32", false, true),
        ("ip fe80::2/128", false, true),
        ("ipv4", true, false),
        ("ethertype 0x86dd", false, true),
        ("arp", false, false),
        ("mac 02:00:00:00:00:01", true, true),
        ("mac 02:00:00:00:00:02", true, true),
        ("mac 02:00:00:00:00:03", false, false),
        ("vlan 7", true, false),
        ("vlan 7, ip 10.0.0.0/8, tcp, port 80", true, false),
        ("vlan 7, ip 10.0.0.0/8, tcp, port 81", false, false),
    ];
    for (text, first, second) in cases {
        assert_eq!(of(text).matches(Vid::new(7), &tcp(&[])), *first, "{text}");
        assert_eq!(of(text).matches(None, &udp6()), *second, "{text}");
    }
}

#[test]
fn the_vlan_is_the_class_else_the_tag() {
    assert!(of("vlan 7").matches(None, &tcp(&[0x6007])));
    assert!(of("vlan 7, tcp, port 80").matches(None, &tcp(&[7, 9])));
    assert!(!of("vlan 9").matches(None, &tcp(&[7, 9])));
    assert!(!of("vlan 7").matches(Vid::new(9), &tcp(&[7])));
    assert!(!of("vlan 7").matches(None, &tcp(&[])));
}

#[test]
fn a_fragment_has_no_ports() {
    let mut frame = tcp(&[]);
    frame[21] = 1;
    assert!(of("tcp").matches(None, &frame));
    assert!(!of("port 80").matches(None, &frame));
}

#[test]
fn texts() {
    for (text, shown) in [
        ("  vlan 7 ,ip 10.1.2.3/8,tcp, port  80", "vlan 7, ip 10.0.0.0/8, tcp, port 80"),
        ("protocol 47", "protocol 47"),
        ("protocol 6", "tcp"),
        ("ethertype 2048", "ipv4"),
        ("ethertype 0x88a8", "ethertype 0x88a8"),
        ("all", "all"),
    ] {
        assert_eq!(of(text).to_string(), shown);
    }
    for wrong in [
        "vlan",
        "vlan 0",
        "vlan 4095",
        "vlan 7 8",
        "tcp, udp",
        "port 0",
        "port 70000",
        "port +1",
        "ip 10.0.0.0/33",
        "ip ::/129",
        "ip 10.0.0.0/",
        "ip x",
        "mac 1",
        "ethertype 1",
        "protocol 256",
        "TCP",
        ",",
        "tcp,",
        "all, tcp",
        "colour red",
        "port 0x",
        "ip 10.0.0.0/+8",
    ] {
        assert!(wrong.parse::<MirrorFilter>().is_err(), "{wrong}");
    }
    let error = "tcp, colour red".parse::<MirrorFilter>().unwrap_err().to_string();
    assert!(error.starts_with("condition \"colour red\": unknown; conditions are mac"), "{error}");
}

fn filter() -> impl Strategy<Value = MirrorFilter> {
    let prefix = (any::<IpAddr>(), 0u8..=128).prop_filter_map("length", |(a, l)| Prefix::new(a, l));
    (
        prop::option::of(any::<[u8; 6]>().prop_map(Mac)),
        prop::option::of((1u16..=4094).prop_filter_map("VLAN", Vid::new)),
        prop::option::of(0x600u16..),
        any::<Option<u8>>(),
        prop::option::of(prefix),
        prop::option::of(1u16..),
    )
        .prop_map(|(mac, vid, ethertype, protocol, prefix, port)| MirrorFilter {
            mac,
            vid,
            ethertype,
            protocol,
            prefix,
            port,
        })
}

proptest! {
    #[test]
    fn what_is_written_is_read(filter in filter()) {
        prop_assert_eq!(filter.to_string().parse(), Ok(filter));
        prop_assert_eq!(MirrorFilter::from_bytes(&filter.to_bytes()), Some(filter));
    }

    #[test]
    fn any_text(text in "\\PC*|([a-z]+ [0-9a-fx:./]*,? ?)*") {
        if let Ok(filter) = text.parse::<MirrorFilter>() {
            prop_assert_eq!(filter.to_string().parse(), Ok(filter));
        }
    }

    #[test]
    fn any_bytes(bytes: [u8; FILTER_BYTES], frame in prop::collection::vec(any::<u8>(), 0..80)) {
        if let Some(filter) = MirrorFilter::from_bytes(&bytes) {
            filter.matches(None, &frame);
            let again = MirrorFilter::from_bytes(&filter.to_bytes());
            prop_assert_eq!(again, Some(filter));
        }
    }

    #[test]
    fn a_cut_or_changed_frame(
        filter in filter(),
        cut in 0usize..70,
        change in prop::collection::vec((0usize..70, any::<u8>()), 0..4),
    ) {
        for mut frame in [tcp(&[]), tcp(&[7]), udp6()] {
            for (at, value) in &change {
                if let Some(byte) = frame.get_mut(*at) {
                    *byte = *value;
                }
            }
            frame.truncate(cut);
            filter.matches(None, &frame);
            of("ip ::/0, port 53").matches(None, &frame);
        }
    }
}
