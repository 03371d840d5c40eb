//! How many datagrams and connection requests a node's network stack received for nothing: its programs did not
//! read them in time.
//!
//! Read from `/proc/PID/net` (RFC 4113 `udpInErrors` and Linux' own counters), where any process of the node shows
//! them. What comes to a closed port is not counted: the node's CPU kept up with that.

use std::fs;

/// A file, the prefix of its lines, and its counters.
const COUNTERS: [(&str, &str, &[&str]); 2] = [
    ("snmp", "Udp:", &["RcvbufErrors"]),
    (
        "netstat",
        "TcpExt:",
        &["SyncookiesSent", "ListenDrops", "TCPReqQFullDrop", "TCPBacklogDrop", "RcvPruned"],
    ),
];
/// The same of IPv6, where each counter has a line.
const IPV6: (&str, &str) = ("snmp6", "Udp6RcvbufErrors");

/// What the node of a process received for nothing so far; `None` when it is gone.
pub(super) fn of(pid: i32) -> Option<u64> {
    let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/net/{file}")).ok();
    let mut sum = 0;
    for (file, prefix, names) in COUNTERS {
        sum += pairs(&read(file)?, prefix, names);
    }
    // There is none without IPv6.
    Some(sum + read(IPV6.0).map_or(0, |text| single(&text, IPV6.1)))
}

/// The sum of counters in a file that has a line of names and one of values for each group.
fn pairs(text: &str, prefix: &str, names: &[&str]) -> u64 {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(prefix));
    let (Some(heads), Some(values)) = (lines.next(), lines.next()) else { return 0 };
    let each = heads.split_whitespace().zip(values.split_whitespace());
    let wanted = each.filter(|(name, _)| names.contains(name));
    wanted.filter_map(|(_, value)| value.parse::<u64>().ok()).sum()
}

/// A counter in a file that has a line for each.
fn single(text: &str, name: &str) -> u64 {
    let mut fields = text.lines().map(str::split_whitespace);
    let found = fields.find_map(|mut line| (line.next() == Some(name)).then(|| line.next()));
    found.flatten().and_then(|value| value.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_name() {
        let snmp = "Ip: A B\nIp: 1 2\nUdp: InDatagrams RcvbufErrors SndbufErrors\nUdp: 7 5 9\n";
        assert_eq!(pairs(snmp, "Udp:", &["RcvbufErrors"]), 5);
        assert_eq!(pairs(snmp, "Udp:", &["RcvbufErrors", "SndbufErrors", "None"]), 14);
        assert_eq!(pairs("Udp: A\n", "Udp:", &["A"]), 0);
        assert_eq!(single("Udp6InErrors \t 3\nUdp6RcvbufErrors 4\n", "Udp6RcvbufErrors"), 4);
        assert_eq!(single("", "x"), 0);
    }

    #[test]
    fn this_process_has_counters_and_one_that_is_gone_has_none() {
        assert!(of(std::process::id().cast_signed()).is_some());
        assert_eq!(of(-1), None);
    }
}
