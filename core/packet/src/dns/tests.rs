//! Messages of DNS: names, aliases, truncated and wrong ones, any bytes.

use proptest::prelude::*;

use super::*;

/// A name in its encoding.
fn encoded(name: &str) -> Vec<u8> {
    let labels = name.split('.').flat_map(|label| {
        let length = u8::try_from(label.len()).unwrap();
        [&[length], label.as_bytes()].concat()
    });
    labels.chain([0]).collect()
}

fn message(flags: u16, name: &str, kind: u16, records: &[Vec<u8>]) -> Vec<u8> {
    let count = u16::try_from(records.len()).unwrap();
    let mut bytes: Vec<u8> =
        [7, flags, 1, count, 0, 0].into_iter().flat_map(u16::to_be_bytes).collect();
    bytes.extend(encoded(name));
    bytes.extend([kind, CLASS_IN].into_iter().flat_map(u16::to_be_bytes));
    bytes.extend(records.concat());
    bytes
}

fn record(owner: &[u8], kind: u16, seconds: u32, data: &[u8]) -> Vec<u8> {
    let length = u16::try_from(data.len()).unwrap().to_be_bytes();
    let head = [kind, CLASS_IN].into_iter().flat_map(u16::to_be_bytes);
    [owner, &head.collect::<Vec<u8>>(), &seconds.to_be_bytes(), &length, data].concat()
}

fn addresses_of(bytes: &[u8]) -> Vec<(String, u32)> {
    let read = read(bytes).unwrap();
    read.addresses.into_iter().map(|(address, seconds)| (address.to_string(), seconds)).collect()
}

/// A pointer to the question's name.
const ASKED: [u8; 2] = [0xC0, 12];

#[test]
fn a_query_has_a_question_and_no_addresses() {
    let bytes = message(0x0100, "WWW.Example.org", AAAA, &[]);
    let question = Question { name: "www.example.org".into(), kind: AAAA };
    let expected = Message { id: 7, is_response: false, question, addresses: vec![] };
    assert_eq!(read(&bytes), Some(expected));
}

#[test]
fn a_query_asks_for_one_name_and_nothing_else() {
    let plain = message(0x0100, "a.example", A, &[]);
    let question = || Question { name: "a.example".into(), kind: A };
    assert_eq!(asked(&plain), Some(question()));
    let changed = |at: usize, bytes: &[u8]| {
        let mut query = plain.clone();
        query[at..at + bytes.len()].copy_from_slice(bytes);
        query
    };
    // A record of EDNS goes along.
    let with_options = [&changed(10, &[0, 1])[..], &[0, 0, 41, 5, 0, 0, 0, 0, 0, 0, 0]].concat();
    assert_eq!(asked(&with_options), Some(question()));
    for (why, query) in [
        ("a response", changed(2, &[0x81])),
        ("another kind of message", changed(2, &[0x29])),
        ("two questions", changed(4, &[0, 2])),
        ("an answer", changed(6, &[0, 1])),
        ("a record beside", changed(8, &[0, 1])),
        ("another class", changed(plain.len() - 2, &[0, 3])),
        ("another letter", changed(13, &[0])),
        ("cut off", plain[..plain.len() - 1].to_vec()),
        ("a name that leads into the header", [&plain[..12], &[0xC0, 3, 0, 1, 0, 1]].concat()),
        ("a record of its own", {
            let record = [encoded("b.example"), vec![0, 1, 0, 1, 0, 0, 0, 9, 0, 0]].concat();
            [changed(10, &[0, 1]), record].concat()
        }),
        (
            "options with a name",
            [changed(10, &[0, 1]), encoded("b"), vec![0, 41, 5, 0, 0, 0, 0, 0, 0, 0]].concat(),
        ),
        ("two records", {
            let two = [[0, 0, 41, 5, 0, 0, 0, 0, 0, 0, 0]; 2].concat();
            [changed(10, &[0, 2]), two].concat()
        }),
        ("a record that is missing", changed(10, &[0, 1])),
        ("something behind it", [&plain[..], b"b"].concat()),
        ("something behind its options", [&with_options[..], b"b"].concat()),
        ("nothing", vec![]),
    ] {
        assert_eq!(asked(&query), None, "{why}");
    }
}

#[test]
fn a_name_is_said_not_to_be_there() {
    let query = message(0x0100, "a.example", A, &[]);
    let response = no_such_name(&query).unwrap();
    assert_eq!((response.len(), &response[..4]), (query.len(), &[0, 7, 0x81, 0x83][..]));
    assert_eq!((&response[4..6], &response[12..]), (&[0, 1][..], &query[12..]));
    assert_eq!((no_such_name(&response), no_such_name(&[])), (None, None));
}

#[test]
fn beside_its_question_a_query_carries_nothing() {
    // Of the flags: AD and CD, and one that means nothing. EDNS with another version, flags and a cookie.
    let query = message(0x0170, "A.example", A, &[]);
    let options = [0, 0, 41, 4, 208, 7, 3, 0x80, 1, 0, 12, 0, 10, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8];
    let mut with_options = [&query[..], &options].concat();
    with_options[11] = 1;
    let bare = message(0x0130, "A.example", A, &[]);
    assert_eq!(plain(&query), bare);
    let mut expected = [&bare[..], &[0, 0, 41, 4, 208, 0, 0, 0x80, 0, 0, 0]].concat();
    expected[11] = 1;
    assert_eq!(plain(&with_options), expected);
    assert_eq!(asked(&plain(&with_options)), asked(&query));
    // A message that is not a question is not changed: it goes on only where all may.
    for other in [&with_options[..20], &[], &message(0x8100, "a.example", A, &[])] {
        assert_eq!(plain(other), other);
    }
}

#[test]
fn addresses_belong_to_the_name_that_was_asked_for() {
    let v6 = "fd00::1".parse::<Ipv6Addr>().unwrap().octets();
    let bytes = message(
        0x8180,
        "a.example",
        A,
        &[
            record(&ASKED, A, 60, &[10, 0, 0, 1]),
            record(&encoded("A.Example"), AAAA, 30, &v6),
            record(&encoded("other.example"), A, 60, &[10, 0, 0, 9]),
            record(&ASKED, A, 60, &[10, 0, 0]),
        ],
    );
    assert_eq!(addresses_of(&bytes), [("10.0.0.1".to_owned(), 60), ("fd00::1".to_owned(), 30)]);
}

#[test]
fn aliases_are_followed_in_any_order_and_in_no_circle() {
    let (b, c) = (encoded("b.example"), encoded("c.example"));
    let mut records = vec![
        record(&c, A, 300, &[10, 0, 0, 1]),
        record(&b, CNAME, 20, &c),
        record(&ASKED, CNAME, 40, &b),
    ];
    let chain = message(0x8180, "a.example", A, &records);
    assert_eq!(addresses_of(&chain), [("10.0.0.1".to_owned(), 20)]);
    records[1] = record(&b, CNAME, 20, &ASKED);
    assert_eq!(addresses_of(&message(0x8180, "a.example", A, &records)), []);
}

#[test]
fn a_failed_response_gives_nothing() {
    let bytes = message(0x8183, "a.example", A, &[record(&ASKED, A, 60, &[10, 0, 0, 1])]);
    assert_eq!(addresses_of(&bytes), []);
}

#[test]
fn what_was_cut_off_does_not_count() {
    let records = [1, 2].map(|host| record(&ASKED, A, 60, &[10, 0, 0, host]));
    let bytes = message(0x8380, "a.example", A, &records);
    assert_eq!(addresses_of(&bytes[..bytes.len() - 1]), [("10.0.0.1".to_owned(), 60)]);
}

#[test]
fn lifetimes_beyond_the_limit_are_zero() {
    let bytes = message(0x8180, "a.example", A, &[record(&ASKED, A, 1 << 31, &[10, 0, 0, 1])]);
    assert_eq!(addresses_of(&bytes), [("10.0.0.1".to_owned(), 0)]);
}

#[test]
fn pointers_go_backwards_only() {
    let mut bytes = message(0x0100, "a.example", A, &[]);
    let end = bytes.len();
    bytes[12..14].copy_from_slice(&[0xC0, 12]);
    assert_eq!(read(&bytes[..end]), None);
    bytes[12..14].copy_from_slice(&[0xC0, 40]);
    assert_eq!(read(&bytes), None);
}

#[test]
fn names_that_no_host_has_are_left_out() {
    assert_eq!(read(&message(0x0100, "a b.example", A, &[])), None);
    assert_eq!(read(&message(0x0100, "a\u{7}.example", A, &[])), None);
    assert!(read(&message(0x0100, "_dns.a-b.example", A, &[])).is_some());
    let long = ["a".repeat(63).as_str(); 4].join(".");
    assert_eq!(read(&message(0x0100, &long, A, &[])), None);
    let mut root = message(0x0100, "a", A, &[]);
    root.splice(12..15, [0]);
    assert_eq!(read(&root), None);
}

#[test]
fn a_query_that_nobody_answers_gets_a_failure() {
    let query = message(0x0120, "a.example", A, &[]);
    let response = failure(&query).unwrap();
    assert_eq!(response.len(), query.len());
    assert_eq!(response[..6], [0, 7, 0x81, 0x82, 0, 1]);
    let read = read(&response).unwrap();
    assert!(read.is_response && read.addresses.is_empty() && read.question.name == "a.example");
    assert_eq!(failure(&response), None);
    assert_eq!(failure(&query[..20]), None);
}

proptest! {
    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
        let _ = (read(&bytes), failure(&bytes));
    }

    #[test]
    fn a_changed_response_is_survived(at in 0_usize..90, to: u8) {
        let alias = encoded("b.example");
        let records =
            [record(&ASKED, CNAME, 20, &alias), record(&alias, A, 300, &[10, 0, 0, 1])];
        let mut bytes = message(0x8180, "a.example", A, &records);
        let at = at % bytes.len();
        bytes[at] = to;
        if let Some(read) = read(&bytes) {
            prop_assert!(read.addresses.len() <= 2);
        }
    }
}
