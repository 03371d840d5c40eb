//! Bodies of the source, invalid bodies, and arbitrary bodies.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::Threshold;

fn read(body: &Value) -> std::result::Result<Configuration, Vec<Problem>> {
    Configuration::read(body.to_string().as_bytes())
}

/// The source's first example.
fn all_packets() -> Value {
    json!({"prog_id": 1, "mp": 30, "mpc": 120, "starter_mark": 8, "next_mark": 16,
        "filters": [{"id": 0, "dst_ip": "163.162.95.238"},
                    {"id": 1, "src_ip": "1.2.3.4", "dst_ip": "5.6.7.8", "proto": "udp",
                     "src_port": 9, "dst_port": 9}]})
}

/// The first example with other fields.
fn with(fields: Value) -> Value {
    let mut body = all_packets();
    for (name, value) in fields.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

fn problems(body: &Value) -> Vec<String> {
    read(body).unwrap_err().iter().map(ToString::to_string).collect()
}

#[test]
fn the_sources_examples_are_read() {
    let one = read(&all_packets()).unwrap();
    assert_eq!((one.program, one.blocks()), (Program::All, 4));
    assert_eq!((one.period, one.guard), (30_000_000_000, 1_000_000_000));
    assert_eq!((one.filters.len(), one.filters[1].id), (2, 1));
    assert_eq!(one.filters[1].filter.proto, Some(17));
    assert_eq!((one.sampling, one.netifs.len()), (None, 0));
    assert!(one.schedule(15_000_000_000).is_ok() && one.schedule(0).is_err());

    let fixed = json!({"prog_id": 2, "match_value": 249, "hash_length": 2, "hash_function": "bob"});
    let two = read(&with(fixed)).unwrap();
    let sampling = two.sampling.unwrap();
    assert_eq!(Some(sampling.selection.threshold()), Threshold::of_length(2));
    assert_eq!(sampling.npkts, None);

    let dynamic = json!({"prog_id": 3, "match_value": 383_146_267u32, "hash_length": 0,
        "hash_function": "bob", "npkts": 8,
        "netifs": [{"netif": "eth0"}, {"netif": "eth1"}]});
    let three = read(&with(dynamic)).unwrap();
    assert_eq!(three.sampling.unwrap().npkts, Some(8));
    assert_eq!(three.netifs, ["eth0", "eth1"]);
}

#[test]
fn all_errors_come_at_once_with_their_paths() {
    let body = json!({"prog_id": 9, "mp": "30", "starter_mark": 64, "next_mark": 16, "colour": 1,
        "filters": [{"id": 0, "src_ip": "1.2.3"}, {"dst_ip": "10.0.0.1/8", "dst_port": 70_000},
                    7, {"id": 3, "src_ip": "1.2.3.4", "dst_ip": "::1", "proto": "udpp"}],
        "netifs": [{"netif": "an-interface-of-a-long-name"}, {"name": "eth0"}]});
    let paths: Vec<String> = read(&body).unwrap_err().into_iter().map(|p| p.path).collect();
    assert_eq!(
        paths,
        [
            "prog_id",
            "mp",
            "mpc",
            "starter_mark",
            "filters[0].src_ip",
            "filters[1].id",
            "filters[1].dst_ip",
            "filters[1].dst_port",
            "filters[2]",
            "filters[3].proto",
            "filters[3].dst_ip",
            "netifs[0].netif",
            "netifs[1].netif",
            "netifs[1].name",
            "colour",
        ]
    );
}

#[test]
fn a_guard_that_does_not_fit_is_explained() {
    let found = problems(&with(json!({"mp": 1, "guard": 0.5})));
    assert_eq!(found.len(), 1);
    assert!(found[0].starts_with("guard: period of 1000000000 ns: guard of 500000000 ns"));
    assert!(found[0].contains("take a period above 1000000000 ns"), "{}", found[0]);
    let good = read(&with(json!({"mp": 1, "guard": 0.499}))).unwrap();
    assert_eq!((good.guard, good.blocks()), (499_000_000, 120));
    assert_eq!(read(&with(json!({"mp": 0.1}))).unwrap().guard, 25_000_000);
}

#[test]
fn what_fields_say_together_is_checked() {
    let one = |fields: Value, expected: &str| {
        let found = problems(&with(fields));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with(expected), "{}", found[0]);
    };
    one(json!({"mpc": 29}), "mpc: is shorter than mp");
    one(json!({"next_mark": 8}), "next_mark: marks: the two marks are the same");
    one(json!({"mark_mask": 7}), "next_mark: marks: a mark has bits outside");
    one(json!({"hash_length": 2}), "hash_length: says nothing here");
    one(json!({"delay_mark": 1}), "delay_mark: says nothing here");
    one(json!({"filters": []}), "filters: has no filter");
    one(json!({"netifs": []}), "netifs: names no interface");
    one(json!({"prog_id": 4}), "prog_id: needs match_value");
    one(json!({"filters": [{"id": 1}, {"id": 1, "proto": 6}]}), "filters[1].id: filters[0] has");
    one(json!({"filters": [{"id": 1}, {"id": 2}]}), "filters[1]: is the same as filters[0]");
    one(
        json!({"filters": [{"id": 1, "proto": "icmp", "src_port": 1}]}),
        "filters[0].proto: has no",
    );
    one(json!({"filters": [{"id": 1, "src_ip": "::1", "dst_ip": "1.1.1.1"}]}), "filters[0].dst_ip");
    one(
        json!({"netifs": [{"netif": "a"}, {"netif": "a"}]}),
        "netifs[1].netif: \"a\" is named twice",
    );
    let hash = |function, length| {
        json!({"prog_id": 2, "match_value": 1, "hash_length": length, "hash_function": function,
            "filters": [{"id": 1, "dst_ip": "2001:db8::/32"}]})
    };
    one(json!({"marking": []}), "marking: names no interface; leave it out to mark nothing");
    one(json!({"marking": [{"netif": "a b"}]}), "marking[0].netif: must be the name");
    one(
        json!({"marking": [{"netif": "a"}, {"netif": "b"}, {"netif": "a"}]}),
        "marking[2].netif: \"a\" is named twice",
    );
    one(hash("ipsx", 16), "filters[0]: is of IPv6, and hash_function ipsx");
    assert!(problems(&with(hash("ipsx", 17)))[0].starts_with("hash_length: ipsx has 16 bits"));
    one(hash("md5", 1), "hash_function: must be one of bob, ipsx, crc32, is \"md5\"");
    assert!(read(&with(hash("crc32", 32))).is_ok());
    let missing = problems(&with(json!({"prog_id": 3})));
    let names = ["match_value", "hash_length", "hash_function", "npkts"];
    assert_eq!(missing, names.map(|name| format!("{name}: is missing")));
}

#[test]
fn interfaces_are_those_of_a_host_or_of_a_lab() {
    for name in ["eth0", "a", "fifteen-bytes-x", "h1:eth0", "t/a:eth0", "s1/h1:eth0", "s1/s2"] {
        let asked = json!({"netifs": [{"netif": name}], "marking": [{"netif": name}]});
        let found = read(&with(asked)).unwrap();
        assert_eq!((found.netifs, found.marking), (vec![name.to_owned()], vec![name.to_owned()]));
    }
    let long = format!("{}:eth0", "n".repeat(256));
    for name in ["", "sixteen-bytes-xx", "h1:", ":eth0", "h1:a/b", "/a", "s1/", "a b:eth0", &long] {
        let found = problems(&with(json!({"netifs": [{"netif": name}]})));
        assert_eq!(found.len(), 1, "{name}: {found:?}");
        assert!(found[0].starts_with("netifs[0].netif: must be the name"), "{found:?}");
    }
    assert_eq!(read(&all_packets()).unwrap().marking, [""; 0]);
}

#[test]
fn program_4_takes_hashes_or_double_marks_or_both() {
    let both = json!({"prog_id": 4, "match_value": 1, "hash_length": 6, "hash_function": "bob",
        "delay_mark": 1, "profile": "portable", "seed": 5, "payload_offset": 12, "payload_size": 4});
    let sampling = read(&with(both)).unwrap().sampling.unwrap();
    assert_eq!((sampling.hasher.seed, sampling.hasher.payload.offset), (5, 12));
    let double = read(&with(json!({"prog_id": 4, "delay_mark": 1}))).unwrap();
    assert_eq!(double.sampling, None);
}

#[test]
fn what_is_no_json_says_where() {
    let problems = Configuration::read(b"{\"mp\": 1,\n}").unwrap_err();
    assert_eq!(problems.len(), 1);
    assert!(problems[0].to_string().contains("line 2"), "{}", problems[0]);
    assert_eq!(self::problems(&json!([1])), ["must be an object, is a list"]);
    assert!(Configuration::read(&[0xff]).is_err());
    let deep = "[".repeat(100_000);
    assert!(Configuration::read(deep.as_bytes()).is_err());
    let twice = Configuration::read(b"{\"mp\": 1, \"mp\": 2}").unwrap_err();
    assert!(twice[0].message.contains("\"mp\" is there twice"), "{}", twice[0]);
}

#[test]
fn the_body_has_the_names_that_are_read() {
    let body = Body {
        prog_id: 3,
        mp: 1.5,
        mpc: 60.0,
        starter_mark: 8,
        next_mark: 16,
        filters: vec![BodyFilter {
            id: 7,
            src_ip: Some("10.0.0.0/8".into()),
            dst_ip: Some("10.0.0.1".into()),
            proto: Some("tcp".into()),
            src_port: Some(1),
            dst_port: Some(2),
        }],
        match_value: Some(1),
        hash_length: Some(2),
        hash_function: Some("crc32".into()),
        npkts: Some(100),
        netifs: Some(vec![Netif { netif: "eth0".into() }]),
        marking: Some(vec![Netif { netif: "h1:eth0".into() }]),
        guard: Some(0.25),
        mark_mask: Some(0x3e),
        delay_mark: None,
        profile: Some("rfc5475".into()),
        seed: Some(3),
        payload_offset: Some(4),
        payload_size: Some(4),
        precedence: Some("longest".into()),
    };
    let value = serde_json::to_value(&body).unwrap();
    assert_eq!(serde_json::from_value::<Body>(value.clone()).unwrap(), body);
    let read = read(&value).unwrap();
    assert_eq!((read.guard, read.precedence), (250_000_000, Precedence::Longest));
    // All our fields are optional; of the source's only these.
    let shortest = serde_json::to_value(Body::default()).unwrap();
    let names: BTreeSet<&str> = shortest.as_object().unwrap().keys().map(String::as_str).collect();
    let needed = ["prog_id", "mp", "mpc", "starter_mark", "next_mark", "filters"];
    assert_eq!(names, BTreeSet::from(needed));
}

#[test]
fn ten_thousand_filters_are_read() {
    let filters: Vec<Value> = (0..10_000u32)
        .map(|n| json!({"id": n, "dst_ip": format!("10.0.{}.{}", n / 256, n % 256)}))
        .collect();
    assert_eq!(read(&with(json!({"filters": filters}))).unwrap().filters.len(), 10_000);
}

/// Any JSON, with known names among its keys.
fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (0u64..70).prop_map(Value::from),
        prop::sample::select(vec!["bob", "udp", "10.0.0.0/8", "eth0", "", "::1/3", "first"])
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 40, 8, |inner| {
        let names = vec![
            "prog_id",
            "mp",
            "mpc",
            "starter_mark",
            "next_mark",
            "filters",
            "match_value",
            "hash_length",
            "hash_function",
            "npkts",
            "netifs",
            "marking",
            "guard",
            "mark_mask",
            "delay_mark",
            "profile",
            "seed",
            "payload_offset",
            "payload_size",
            "precedence",
            "id",
            "src_ip",
            "dst_ip",
            "proto",
            "src_port",
            "dst_port",
            "netif",
            "other",
        ];
        let entry = (prop::sample::select(names), inner.clone());
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(Value::from),
            prop::collection::vec(entry, 0..12).prop_map(|entries| {
                entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
            }),
        ]
    })
}

proptest! {
    #[test]
    fn any_body_is_read_or_told_what_is_wrong(changes in anything()) {
        let body = if changes.is_object() { with(changes) } else { changes };
        match read(&body) {
            Ok(read) => {
                prop_assert!(read.blocks() > 0 && read.guard * 2 < read.period);
                prop_assert!(!read.filters.is_empty());
            }
            Err(problems) => prop_assert!(!problems.is_empty()),
        }
    }

    #[test]
    fn any_bytes_are_read_or_told(bytes: Vec<u8>) {
        prop_assert!(Configuration::read(&bytes).is_err());
    }
}
