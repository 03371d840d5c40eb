//! Tables compared with checking every filter.

use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;
use crate::filter::find;

/// Similar addresses, so that prefixes of all lengths match.
fn address(v6: bool) -> impl Strategy<Value = IpAddr> {
    any::<[u8; 2]>().prop_map(move |[a, b]| {
        if v6 {
            IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, u16::from(a % 4), 0, 0, 0, u16::from(b % 4)))
        } else {
            IpAddr::V4(Ipv4Addr::new(10, 0, a % 4, b % 4))
        }
    })
}

fn net(v6: bool) -> impl Strategy<Value = Option<IpNet>> {
    let lengths = if v6 { vec![0, 32, 63, 64, 128] } else { vec![0, 8, 23, 24, 32] };
    let net = (address(v6), prop::sample::select(lengths))
        .prop_map(|(address, length)| IpNet::new(address, length).unwrap().trunc());
    prop::option::of(net)
}

fn filter() -> impl Strategy<Value = Filter> {
    let port = || prop::option::weighted(0.3, 0u16..3);
    let proto = prop::option::of(prop::sample::select(vec![1u8, 6, 17]));
    (any::<bool>(), 0u8..10).prop_flat_map(move |(v6, mixed)| {
        (net(v6), net(v6 != (mixed == 0)), proto.clone(), port(), port()).prop_map(
            |(src_ip, dst_ip, proto, src_port, dst_port)| Filter {
                src_ip,
                dst_ip,
                proto,
                src_port,
                dst_port,
            },
        )
    })
}

fn key() -> impl Strategy<Value = Key> {
    let ports = prop::option::weighted(0.8, (0u16..3, 0u16..3));
    let proto = prop::sample::select(vec![1u8, 6, 17]);
    (any::<bool>(), proto, ports).prop_flat_map(|(v6, proto, ports)| {
        (address(v6), address(v6)).prop_map(move |(src_ip, dst_ip)| Key {
            src_ip,
            dst_ip,
            proto,
            ports,
        })
    })
}

proptest! {
    #[test]
    fn tables_find_what_looking_at_all_finds(
        filters in prop::collection::vec(filter(), 0..25),
        keys in prop::collection::vec(key(), 1..50),
        longest: bool,
    ) {
        let precedence = if longest { Precedence::Longest } else { Precedence::First };
        let tables = Tables::new(&filters, precedence).unwrap();
        for key in &keys {
            prop_assert_eq!(tables.find(key), find(&filters, precedence, key), "{:?}", key);
        }
    }

    /// What a kernel program does with only the bytes: all masks, the lowest rank.
    #[test]
    fn bytes_alone_are_enough(
        filters in prop::collection::vec(filter(), 0..25), key in key(),
    ) {
        let tables = Tables::new(&filters, Precedence::First).unwrap();
        let bytes = key_bytes(&key);
        let hit = |(mask, value, rank): (u32, &Bytes, u32)| {
            let mask = tables.masks()[mask as usize].bytes;
            (masked(&bytes, &mask) == *value).then_some(rank)
        };
        let best = tables.entries().filter_map(hit).min();
        prop_assert_eq!(best.and_then(|rank| tables.filter(rank)), tables.find(&key));
        prop_assert!(tables.masks().is_sorted_by_key(|mask| mask.best));
    }
}

fn v4(text: &str) -> Option<IpNet> {
    Some(text.parse().unwrap())
}

fn to(address: [u8; 4], port: u16) -> Key {
    Key {
        src_ip: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
        dst_ip: IpAddr::V4(Ipv4Addr::from(address)),
        proto: 17,
        ports: Some((9, port)),
    }
}

#[test]
fn first_or_longest_decides() {
    let wide = Filter { dst_ip: v4("10.0.0.0/8"), ..Filter::default() };
    let narrow = Filter { dst_ip: v4("10.1.0.0/16"), dst_port: Some(53), ..Filter::default() };
    let find =
        |precedence| Tables::new(&[wide, narrow], precedence).unwrap().find(&to([10, 1, 2, 3], 53));
    assert_eq!(find(Precedence::First), Some(0));
    assert_eq!(find(Precedence::Longest), Some(1));
}

#[test]
fn thousands_of_filters_are_few_masks() {
    let filters: Vec<Filter> = (0..20_000u32)
        .map(|n| {
            let [_, b, c, d] = n.to_be_bytes();
            let address = IpAddr::V4(Ipv4Addr::new(10, b, c, d));
            let proto = if n % 2 == 0 { Some(17) } else { None };
            Filter { dst_ip: Some(IpNet::from(address)), proto, ..Filter::default() }
        })
        .collect();
    let tables = Tables::new(&filters, Precedence::First).unwrap();
    assert_eq!((tables.masks().len(), tables.entries().count()), (2, 20_000));
    for n in [0u32, 1, 255, 256, 12_345, 19_999] {
        let [_, b, c, d] = n.to_be_bytes();
        assert_eq!(tables.find(&to([10, b, c, d], 1)), Some(n as usize));
    }
    assert_eq!(tables.find(&to([10, 0, 0xff, 0xff], 1)), None);
}

#[test]
fn too_many_masks_are_refused() {
    let filters: Vec<Filter> = (0..=32)
        .map(|length| {
            let net = IpNet::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 0)), length).unwrap().trunc();
            Filter { src_ip: Some(net), ..Filter::default() }
        })
        .collect();
    assert!(Tables::new(&filters[..MOST_MASKS], Precedence::First).is_ok());
    let error = Tables::new(&filters, Precedence::First).unwrap_err();
    assert_eq!(error, Error::Masks { masks: 33, most: MOST_MASKS });
}

#[test]
fn an_address_of_one_family_is_none_of_the_other() {
    let any_v6 = Filter { src_ip: v4("::/0"), ..Filter::default() };
    let all = Filter::default();
    let tables = Tables::new(&[any_v6, all], Precedence::First).unwrap();
    assert_eq!(tables.find(&to([0, 0, 0, 0], 0)), Some(1));
}
