//! Whether two measurements could mark a packet in the same bits.

use netloom_marking::session::Configuration;
use netloom_marking::{Colour, Filter, Mark, Marks};

/// Filter pairs compared at most; with more, some pair is assumed to share packets.
const MOST_PAIRS: usize = 1 << 24;

/// Whether two measurements write the same bits of packets that filters of both match.
pub(crate) fn of(a: &Configuration, b: &Configuration) -> bool {
    if mask(&a.marks) & mask(&b.marks) == 0 {
        return false;
    }
    let pairs = a.filters.len().saturating_mul(b.filters.len());
    let meets = |one: &Filter| b.filters.iter().any(|other| filters(one, &other.filter));
    // Too many to compare: a refusal is safe, a shared bit is not.
    pairs > MOST_PAIRS || a.filters.iter().any(|one| meets(&one.filter))
}

/// The bits of the traffic class that hold marks.
fn mask(marks: &Marks) -> u8 {
    let mark = Mark { colour: Colour::Starter, double: false };
    // Marked bits come out equal whatever they were.
    !(marks.write(0, mark) ^ marks.write(0xff, mark))
}

/// Whether some packet matches both.
fn filters(a: &Filter, b: &Filter) -> bool {
    fn alike<T: PartialEq>(a: Option<T>, b: Option<T>) -> bool {
        a.zip(b).is_none_or(|(a, b)| a == b)
    }
    // Two prefixes share an address only if one contains the other.
    let nets = |a: Option<ipnet::IpNet>, b: Option<ipnet::IpNet>| {
        a.zip(b).is_none_or(|(a, b)| a.contains(&b) || b.contains(&a))
    };
    nets(a.src_ip, b.src_ip)
        && nets(a.dst_ip, b.dst_ip)
        && alike(a.proto, b.proto)
        && alike(a.src_port, b.src_port)
        && alike(a.dst_port, b.dst_port)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configuration(mask: u8, filter: &str) -> Configuration {
        let body = format!(
            r#"{{"prog_id": 1, "mp": 1, "mpc": 10, "starter_mark": 0, "next_mark": {mask},
                "mark_mask": {mask}, "filters": [{{"id": 1, "src_ip": "10.9.0.1"}},
                {{"id": 2, {filter}}}]}}"#
        );
        Configuration::read(body.as_bytes()).unwrap()
    }

    #[test]
    fn the_same_packets_in_the_same_bits() {
        let one = configuration(1, r#""dst_ip": "10.0.0.0/8", "src_ip": "10.8.0.0/16""#);
        for (mask, filter, meet) in [
            (1, r#""dst_ip": "10.1.0.0/16", "src_ip": "10.8.1.0/24""#, true),
            (3, r#""dst_ip": "10.0.0.0/7", "src_ip": "10.8.1.1", "proto": "udp""#, true),
            (2, r#""dst_ip": "10.1.0.0/16", "src_ip": "10.8.1.0/24""#, false),
        ] {
            let other = configuration(mask, filter);
            assert_eq!((of(&one, &other), of(&other, &one)), (meet, meet), "{mask} {filter}");
        }
        let narrow = |filter: &str| {
            let mut narrow = configuration(1, filter);
            narrow.filters.remove(0);
            narrow
        };
        for filter in
            [r#""dst_ip": "11.1.0.0/16", "src_ip": "10.8.0.0/16""#, r#""src_ip": "fd00::1""#]
        {
            assert!(!of(&narrow(filter), &one), "{filter}");
        }
        let [udp, tcp] = [r#""proto": "udp", "dst_port": 1"#, r#""proto": "tcp""#].map(narrow);
        assert!(!of(&udp, &tcp) && of(&udp, &udp) && of(&udp, &one));
    }
}
