//! How many datagrams and connection requests a node's network stack received for nothing: its programs did not
//! read them in time.
//!
//! Read from `/proc/PID/net` (RFC 4113 `udpInErrors` and Linux' own counters), where any process of the node shows
//! them. What comes to a closed port is not counted: the node's CPU kept up with that.

use std::fs;

use crate::stage::stack::{pairs, single};

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_counters_and_one_that_is_gone_has_none() {
        assert!(of(std::process::id().cast_signed()).is_some());
        assert_eq!(of(-1), None);
    }
}
