//! One value of each kind, written and read in both forms; and wrong texts.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{MOST, to_value};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Choice {
    TwoWords,
    WithOne(#[serde(with = "crate::duration")] Duration),
    WithNames { one_name: u8 },
    AndTwo(u8, i64),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Part {
    #[serde(alias = "in_part")]
    in_part: bool,
    #[serde(with = "crate::macs")]
    macs: Vec<[u8; 6]>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Whole {
    #[serde(flatten)]
    part: Part,
    #[serde(with = "crate::mac")]
    mac: [u8; 6],
    #[serde(with = "crate::duration")]
    waits: Duration,
    #[serde(alias = "at_ns", with = "crate::exact")]
    at_ns: u64,
    #[serde(default, with = "crate::exact")]
    before: Option<i64>,
    #[serde(with = "crate::words")]
    lost: BTreeMap<String, u64>,
    #[serde(default, with = "crate::words")]
    why: Option<Vec<String>>,
    /// Names of others.
    nodes: BTreeMap<String, String>,
}

fn whole() -> Whole {
    Whole {
        part: Part { in_part: true, macs: vec![[2, 0, 0, 0, 0, 1], [255; 6]] },
        mac: [2, 0, 0xab, 0, 0, 9],
        waits: Duration::from_micros(1500),
        at_ns: u64::MAX,
        before: Some(i64::MIN),
        lost: BTreeMap::from([("no-route".into(), u64::MAX)]),
        why: Some(vec!["own-interfaces".into()]),
        nodes: BTreeMap::from([("h-1".into(), "a-b".into())]),
    }
}

#[test]
fn each_kind_of_value_has_one_form() {
    let expected = json!({
        "in_part": true,
        "macs": ["02:00:00:00:00:01", "ff:ff:ff:ff:ff:ff"],
        "mac": "02:00:ab:00:00:09",
        "waits": "0.0015s",
        "at_ns": "18446744073709551615",
        "before": "-9223372036854775808",
        "lost": {"no_route": MOST},
        "why": ["own_interfaces"],
        "nodes": {"h-1": "a-b"},
    });
    assert_eq!(to_value(&whole()).unwrap(), expected);
    let bare = Whole { before: None, why: None, ..whole() };
    let told = to_value(&bare).unwrap();
    assert_eq!((&told["before"], &told["why"]), (&Value::Null, &Value::Null));
}

#[test]
fn the_form_of_files_is_as_before() {
    let plain = serde_json::to_value(whole()).unwrap();
    assert_eq!(plain["in-part"], true);
    assert_eq!(plain["mac"], json!([2, 0, 0xab, 0, 0, 9]));
    assert_eq!(plain["waits"], json!({"secs": 0, "nanos": 1_500_000}));
    assert_eq!((&plain["at-ns"], &plain["before"]), (&json!(u64::MAX), &json!(i64::MIN)));
    assert_eq!(plain["lost"], json!({"no-route": u64::MAX}));
}

#[test]
fn both_forms_are_read() {
    let mut few = whole();
    few.lost = BTreeMap::from([("no-route".into(), 3)]);
    for value in [&few, &Whole { before: None, why: None, ..few.clone() }] {
        for form in [serde_json::to_value(value).unwrap(), to_value(value).unwrap()] {
            assert_eq!(&serde_json::from_value::<Whole>(form).unwrap(), value);
        }
    }
    let mut absent = to_value(&few).unwrap();
    absent.as_object_mut().unwrap().retain(|key, _| !["before", "why"].contains(&key.as_str()));
    let read: Whole = serde_json::from_value(absent).unwrap();
    assert_eq!((read.before, read.why), (None, None));
}

#[test]
fn choices_are_words_too() {
    let written = |choice| to_value(&choice).unwrap();
    assert_eq!(written(Choice::TwoWords), "two_words");
    let one = Choice::WithOne(Duration::new(u64::MAX, 1));
    assert_eq!(written(one), json!({"with_one": "18446744073709551615.000000001s"}));
    assert_eq!(written(Choice::WithNames { one_name: 1 }), json!({"with_names": {"one_name": 1}}));
    assert_eq!(
        written(Choice::AndTwo(1, i64::MIN)),
        json!({"and_two": [1, -9_007_199_254_740_991_i64]})
    );
}

#[test]
fn wrong_texts_say_what_to_write() {
    let with = |key: &str, text: Value| {
        let mut value = to_value(&whole()).unwrap();
        value[key] = text;
        serde_json::from_value::<Whole>(value).unwrap_err().to_string()
    };
    for text in
        ["", "02:00:00:00:00", "02:00:00:00:00:1", "02:00:00:00:00:+1", "02:00:00:00:00:01:02"]
    {
        let told = with("mac", text.into());
        assert!(told.starts_with("takes a MAC address like 02:00:00:00:00:01, is"), "{told}");
    }
    for text in
        ["", "s", "1", "1ms", ".5s", "1.s", "-1s", "+1s", "1.0000000001s", "18446744073709551616s"]
    {
        let told = with("waits", text.into());
        assert!(told.starts_with("takes seconds like 0.01s, is"), "{told}");
    }
    for text in ["", "1.5", "18446744073709551616", "-1"] {
        let told = with("at_ns", text.into());
        assert!(told.starts_with("takes a whole number, or its digits as text, is"), "{told}");
    }
    assert!(with("mac", json!([1, 2])).starts_with("takes a MAC address like"));
}
