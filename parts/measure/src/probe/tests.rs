//! The spots of a session.

use super::*;

fn configuration(rest: &str) -> Configuration {
    let body = format!(
        r#"{{"mp": 1, "mpc": 10, "starter_mark": 8, "next_mark": 16, "filters": [{{"id": 1}}],
            {rest}}}"#
    );
    Configuration::read(body.as_bytes()).unwrap()
}

#[test]
fn packets_are_marked_twice_where_there_is_a_mark_for_it() {
    assert_eq!(marks(&configuration(r#""prog_id": 1"#)), Marking::Single);
    assert_eq!(marks(&configuration(r#""prog_id": 4, "delay_mark": 32"#)), Marking::Double);
    let hashed = r#""prog_id": 4, "match_value": 0, "hash_length": 0, "hash_function": "bob""#;
    assert_eq!(marks(&configuration(hashed)), Marking::Single);
}

#[test]
fn each_interface_has_both_directions_once() {
    let netifs = ["a", "b", "a"].map(str::to_owned);
    let found = spots(&netifs, &["a".to_owned()], Marking::Double);
    let found: Vec<_> =
        found.iter().map(|spot| (spot.netif.as_str(), spot.direction, spot.marking)).collect();
    assert_eq!(
        found,
        [
            ("a", Direction::Ingress, Marking::Off),
            ("a", Direction::Egress, Marking::Double),
            ("b", Direction::Ingress, Marking::Off),
            ("b", Direction::Egress, Marking::Off),
        ]
    );
}

#[test]
fn sessions_take_only_so_much_together() {
    let mut sessions = Sessions::default();
    let first = sessions.begin(limits::MOST_TOGETHER / 2).unwrap();
    sessions.begin(limits::MOST_TOGETHER / 2).unwrap();
    let refused = sessions.begin(1 << 20).unwrap_err().to_string();
    assert!(
        refused.contains("this one may take 1 MiB, the others may take 4096 of 4096"),
        "{refused}"
    );
    sessions.by_id.remove(&first);
    assert_eq!(sessions.begin(1 << 20).unwrap(), 3);
}
