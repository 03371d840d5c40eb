//! The counters of a network stack, by which it says what it dropped: those of RFC 4113, RFC 4293 and Linux' own.
//!
//! Read from `/proc/PID/net` (proc_pid_net(5), `Documentation/networking/snmp_counter.rst`), where any process of the node
//! shows them. Sockets for raw packets and packet sockets count for themselves, and so do rules of a packet filter.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::Read;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use netloom_model::plan::NodeId;

/// More than these files have.
const LONG: usize = 32 << 10;

/// Counters: file, group (empty where each counter has a line) and names.
type Counters = (&'static str, &'static str, &'static [&'static str]);

/// Causes and their counters. A datagram counts once.
const COUNTERS: [(&str, &[Counters]); 15] = [
    (
        "socket-buffer",
        &[
            ("snmp", "Udp:", &["RcvbufErrors"]),
            ("snmp", "UdpLite:", &["RcvbufErrors"]),
            ("snmp6", "", &["Udp6RcvbufErrors", "UdpLite6RcvbufErrors"]),
        ],
    ),
    (
        "socket-memory",
        &[
            ("snmp", "Udp:", &["MemErrors"]),
            ("snmp", "UdpLite:", &["MemErrors"]),
            ("snmp6", "", &["Udp6MemErrors", "UdpLite6MemErrors"]),
            ("netstat", "TcpExt:", &["TCPRcvQDrop", "TCPOFODrop", "PFMemallocDrop"]),
        ],
    ),
    (
        "send-buffer",
        &[
            ("snmp", "Udp:", &["SndbufErrors"]),
            ("snmp", "UdpLite:", &["SndbufErrors"]),
            ("snmp6", "", &["Udp6SndbufErrors", "UdpLite6SndbufErrors"]),
        ],
    ),
    ("listen-queue", &[("netstat", "TcpExt:", &["ListenDrops"])]),
    ("tcp-backlog", &[("netstat", "TcpExt:", &["TCPBacklogDrop"])]),
    (
        "checksum",
        &[
            ("snmp", "Udp:", &["InCsumErrors"]),
            ("snmp", "UdpLite:", &["InCsumErrors"]),
            ("snmp", "Tcp:", &["InCsumErrors"]),
            ("snmp6", "", &["Udp6InCsumErrors", "UdpLite6InCsumErrors"]),
        ],
    ),
    (
        "closed-port",
        &[
            ("snmp", "Udp:", &["NoPorts"]),
            ("snmp", "UdpLite:", &["NoPorts"]),
            ("snmp6", "", &["Udp6NoPorts", "UdpLite6NoPorts"]),
        ],
    ),
    (
        "bad-header",
        &[
            ("snmp", "Ip:", &["InHdrErrors"]),
            ("netstat", "IpExt:", &["InTruncatedPkts"]),
            ("snmp6", "", &["Ip6InHdrErrors", "Ip6InTruncatedPkts"]),
        ],
    ),
    ("bad-address", &[("snmp", "Ip:", &["InAddrErrors"]), ("snmp6", "", &["Ip6InAddrErrors"])]),
    ("reverse-path", &[("netstat", "TcpExt:", &["IPReversePathFilter"])]),
    (
        "no-route",
        &[
            ("snmp", "Ip:", &["OutNoRoutes"]),
            ("netstat", "IpExt:", &["InNoRoutes"]),
            ("snmp6", "", &["Ip6InNoRoutes", "Ip6OutNoRoutes"]),
        ],
    ),
    (
        "unknown-protocol",
        &[("snmp", "Ip:", &["InUnknownProtos"]), ("snmp6", "", &["Ip6InUnknownProtos"])],
    ),
    (
        "discarded",
        &[
            ("snmp", "Ip:", &["InDiscards", "OutDiscards"]),
            ("snmp6", "", &["Ip6InDiscards", "Ip6OutDiscards"]),
        ],
    ),
    ("reassembly", &[("snmp", "Ip:", &["ReasmFails"]), ("snmp6", "", &["Ip6ReasmFails"])]),
    (
        "too-long",
        &[("snmp", "Ip:", &["FragFails"]), ("snmp6", "", &["Ip6FragFails", "Ip6InTooBigErrors"])],
    ),
];

/// Sums by cause.
type Sums = [u64; COUNTERS.len()];

/// What the stack of a process's node dropped so far, by cause, without causes of nothing; none when it is gone.
/// `received`: how many packets each interface of the node has received, by index, as read before.
pub(crate) fn losses(
    pid: i32,
    quiet: &Quiet,
    node: NodeId,
    received: Vec<(u32, u64)>,
) -> Vec<(&'static str, u64)> {
    let mut text = String::with_capacity(LONG);
    let mut sums = [0; COUNTERS.len()];
    in_groups(pid, "snmp", &mut text, &mut sums);
    let of_netstat = quiet.or_read((node, pid), received, || {
        let mut sums = [0; COUNTERS.len()];
        in_groups(pid, "netstat", &mut text, &mut sums);
        sums
    });
    sums.iter_mut().zip(of_netstat).for_each(|(sum, more)| *sum += more);
    read(pid, "snmp6", &mut text);
    for line in text.lines() {
        let mut fields = line.split_ascii_whitespace();
        if let (Some(name), Some(value)) = (fields.next(), fields.next()) {
            add(&mut sums, ("snmp6", "", name), value);
        }
    }
    read(pid, "stat/nf_conntrack", &mut text);
    let dropped = column(&text, "drop");
    let causes = COUNTERS.iter().map(|(cause, _)| *cause).zip(sums);
    causes.chain([("conntrack", dropped)]).filter(|(_, sum)| *sum > 0).collect()
}

/// Adds the counters of a file that has a line of names and one of values for each group.
fn in_groups(pid: i32, file: &str, text: &mut String, sums: &mut Sums) {
    read(pid, file, text);
    let mut lines = text.lines();
    while let (Some(heads), Some(values)) = (lines.next(), lines.next()) {
        let (mut heads, values) = (heads.split(' '), values.split(' ').skip(1));
        let group = heads.next().unwrap_or_default();
        heads.zip(values).for_each(|(name, value)| add(sums, (file, group, name), value));
    }
}

/// What `netstat` says of nodes that receive nothing. The file takes longer to read than all else that the status reads of a
/// node: the kernel writes it twice, since it is longer than a page. All its counters here are of packets that came in. So it
/// cannot have changed while no interface has received any, once what a socket had kept for later is through.
#[derive(Default)]
pub(crate) struct Quiet(Mutex<HashMap<NodeId, Heard>>);

/// How long what was received may wait in a socket that is in use.
const SETTLED: Duration = Duration::from_secs(2);

struct Heard {
    pid: i32,
    received: Vec<(u32, u64)>,
    /// When the node had received that much for the first time.
    since: Instant,
    /// When its file was read.
    read: Instant,
    sums: Sums,
}

impl Quiet {
    /// The sums of a node's file, which `read` reads unless it cannot have changed.
    fn or_read(
        &self,
        (node, pid): (NodeId, i32),
        received: Vec<(u32, u64)>,
        read: impl FnOnce() -> Sums,
    ) -> Sums {
        let now = Instant::now();
        let known = |heard: &&Heard| heard.pid == pid && heard.received == received;
        let (since, kept) = match self.all().get(&node).filter(known) {
            Some(heard) if heard.read - heard.since >= SETTLED => (heard.since, Some(heard.sums)),
            Some(heard) => (heard.since, None),
            None => (now, None),
        };
        kept.unwrap_or_else(|| {
            let sums = read();
            self.all().insert(node, Heard { pid, received, since, read: now, sums });
            sums
        })
    }

    /// Forgets all nodes but these.
    pub(crate) fn keep(&self, nodes: impl Iterator<Item = NodeId>) {
        let there: HashSet<NodeId> = nodes.collect();
        self.all().retain(|node, _| there.contains(node));
    }

    fn all(&self) -> MutexGuard<'_, HashMap<NodeId, Heard>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads a file into a text with room for all of it: a text that grows takes ten calls of the kernel for each of these.
fn read(pid: i32, file: &str, text: &mut String) {
    text.clear();
    // There is none without IPv6, or without connection tracking.
    if let Ok(mut file) = fs::File::open(format!("/proc/{pid}/net/{file}")) {
        // Bytes that are not text have no counters.
        let _ = file.read_to_string(text);
    }
}

/// Adds a counter to the sum of its cause, if it has one. Nearly all are 0, and the status of a large lab reads many.
fn add(sums: &mut Sums, (file, group, name): (&str, &str, &str), value: &str) {
    if value == "0" {
        return;
    }
    let wanted = |(of, at, names): &Counters| *of == file && *at == group && names.contains(&name);
    let mut causes = sums.iter_mut().zip(COUNTERS);
    if let Some((sum, _)) = causes.find(|(_, (_, counters))| counters.iter().any(wanted)) {
        *sum += value.parse().unwrap_or(0);
    }
}

/// The sum of counters in a file that has a line of names and one of values for each group.
pub(crate) fn pairs(text: &str, prefix: &str, names: &[&str]) -> u64 {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(prefix));
    let (Some(heads), Some(values)) = (lines.next(), lines.next()) else { return 0 };
    let each = heads.split_whitespace().zip(values.split_whitespace());
    let wanted = each.filter(|(name, _)| names.contains(name));
    wanted.filter_map(|(_, value)| value.parse::<u64>().ok()).sum()
}

/// A counter in a file that has a line for each.
pub(crate) fn single(text: &str, name: &str) -> u64 {
    let mut fields = text.lines().map(str::split_whitespace);
    let found = fields.find_map(|mut line| (line.next() == Some(name)).then(|| line.next()));
    found.flatten().and_then(|value| value.parse().ok()).unwrap_or(0)
}

/// The sum of a column of hexadecimal numbers, a line for each processor.
pub(crate) fn column(text: &str, name: &str) -> u64 {
    let mut lines = text.lines();
    let heads = lines.next().unwrap_or_default();
    let Some(at) = heads.split_whitespace().position(|head| head == name) else { return 0 };
    let value = |line: &str| u64::from_str_radix(line.split_whitespace().nth(at)?, 16).ok();
    lines.filter_map(value).sum()
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
        let conntrack =
            "entries  drop early_drop\n0000000a 00000010 00000001\n0000000a 00000003 00000000\n";
        assert_eq!(column(conntrack, "drop"), 19);
        assert_eq!(column(conntrack, "none"), 0);
    }

    #[test]
    fn a_file_is_read_again_until_what_was_received_is_through() {
        let (quiet, node) = (Quiet::default(), NodeId::new(3));
        let value = std::cell::Cell::new(1);
        let read = |pid, received: u64| {
            let sums = || [value.get(); COUNTERS.len()];
            quiet.or_read((node, pid), vec![(2, received)], sums)[0]
        };
        // Time passes.
        let settle = || {
            let mut all = quiet.all();
            let heard = all.get_mut(&node).unwrap();
            heard.since = heard.since.checked_sub(SETTLED).unwrap();
            heard.read = heard.read.checked_sub(SETTLED).unwrap();
        };
        assert_eq!(read(7, 10), 1);
        value.set(2);
        assert_eq!(read(7, 10), 2, "what a socket had kept for later");
        settle();
        value.set(3);
        assert_eq!(read(7, 10), 3, "it was read too early");
        value.set(4);
        assert_eq!(read(7, 10), 3, "nothing came in since");
        assert_eq!(read(7, 11), 4);
        settle();
        assert_eq!((read(7, 11), read(7, 11)), (4, 4));
        value.set(5);
        assert_eq!(read(8, 11), 5, "another init");
        settle();
        assert_eq!(read(8, 11), 5);
        quiet.keep([NodeId::new(4)].into_iter());
        assert!(quiet.all().is_empty());
    }

    #[test]
    fn a_counter_is_added_to_its_cause() {
        let mut sums = [0; COUNTERS.len()];
        add(&mut sums, ("snmp", "Udp:", "RcvbufErrors"), "5");
        add(&mut sums, ("snmp6", "", "Udp6RcvbufErrors"), "2");
        add(&mut sums, ("snmp", "Udp:", "InErrors"), "7");
        add(&mut sums, ("snmp", "Udp:", "NoPorts"), "?");
        assert_eq!((sums[0], sums.iter().sum::<u64>()), (7, 7));
    }

    #[test]
    fn counters_that_are_summed_are_the_kernels() {
        for (cause, counters) in COUNTERS {
            for (file, group, names) in counters {
                let text = fs::read_to_string(format!("/proc/self/net/{file}")).unwrap_or_default();
                let known = |name: &&str| {
                    text.is_empty()
                        || text.lines().any(|line| {
                            line.starts_with(group)
                                && line.split_whitespace().any(|word| word == *name)
                        })
                };
                // `MemErrors` came with Linux 5.18.
                let missing: Vec<&&str> = names
                    .iter()
                    .filter(|name| !known(name) && !name.contains("MemErrors"))
                    .collect();
                assert!(missing.is_empty(), "{cause}: {file} {group} {missing:?}");
            }
        }
    }
}
