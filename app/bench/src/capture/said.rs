//! Parses capturers' final statistics: frames captured and frames lost.

use anyhow::{Context, Result};
use serde_json::Value;

use super::program::Said;

/// A capturer's own statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Account {
    /// Frames captured.
    pub(super) kept: u64,
    /// Frames reported as lost.
    pub(super) lost: u64,
}

impl std::ops::AddAssign for Account {
    fn add_assign(&mut self, other: Account) {
        self.kept += other.kept;
        self.lost += other.lost;
    }
}

/// Statistics of `netloom capture --json`: frames missing between its books count as lost too.
pub(super) fn netloom(said: &Said) -> Result<Account> {
    let shown: Value = serde_json::from_str(&said.out).context("read netloom's account")?;
    let total = &shown["total"];
    let number = |value: &Value, name: &str| {
        value[name].as_u64().with_context(|| format!("no `{name}` in {shown}"))
    };
    let lost = ["ring", "memory", "disk"].map(|place| number(&total["lost"], place));
    let lost = lost.into_iter().sum::<Result<u64>>()?;
    let difference = shown["difference"].as_i64().context("netloom tells no difference")?;
    Ok(Account { kept: number(total, "written")?, lost: lost + difference.unsigned_abs() })
}

/// Statistics of tcpdump: lines of a number and its meaning.
pub(super) fn tcpdump(said: &Said) -> Result<Account> {
    let number = |what: &str| {
        let line = said.err.lines().find_map(|line| line.trim().strip_suffix(what));
        let number = line.and_then(|number| number.trim().parse().ok());
        number.with_context(|| format!("tcpdump does not tell `{what}`: {}", said.err.trim()))
    };
    Ok(Account {
        kept: number("packets captured").or_else(|_| number("packet captured"))?,
        lost: number("packets dropped by kernel")
            .or_else(|_| number("packet dropped by kernel"))?,
    })
}

/// Statistics of dumpcap: `Packets received/dropped on interface 'eth0': 947697/0 (...)`, a line per
/// interface.
pub(super) fn dumpcap(said: &Said) -> Result<Account> {
    let mut account = None;
    for line in said.err.lines() {
        let Some((_, rest)) = line.split_once("Packets received/dropped on interface") else {
            continue;
        };
        let numbers = rest.split_once(": ").and_then(|(_, rest)| rest.split_once(' '));
        let numbers = numbers.and_then(|(numbers, _)| numbers.split_once('/'));
        let (kept, lost) = numbers.with_context(|| format!("what dumpcap says: {line}"))?;
        let number =
            |text: &str| text.parse().with_context(|| format!("what dumpcap says: {line}"));
        let own = Account { kept: number(kept)?, lost: number(lost)? };
        *account.get_or_insert_with(Account::default) += own;
    }
    account.with_context(|| format!("dumpcap prints no counts: {}", said.err.trim()))
}

/// Statistics of netsniff-ng: lines of a number and its meaning.
pub(super) fn netsniff(said: &Said) -> Result<Account> {
    let number = |what: &str| {
        let all = said.out.lines().chain(said.err.lines());
        let line =
            all.filter(|line| line.contains(what)).find_map(|line| line.split_whitespace().next());
        let number = line.and_then(|number| number.parse().ok());
        number.with_context(|| format!("netsniff-ng does not tell `{what}`: {}", said.out.trim()))
    };
    Ok(Account { kept: number("packets passed filter")?, lost: number("packets failed filter")? })
}

/// Frames in a file, from the output of `capinfos -c -M`.
pub(super) fn capinfos(text: &str) -> Result<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("Number of packets:"));
    let number = line.and_then(|number| number.trim().parse().ok());
    number.with_context(|| format!("capinfos tells no number: {}", text.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn err(text: &str) -> Said {
        Said { out: String::new(), err: text.to_owned() }
    }

    #[test]
    fn netlooms_books_are_read() {
        let out = r#"{"bytes":46000632,"difference":0,"end":"stopped","files":[],"interfaces":[],
            "seconds":1.28,"total":{"bytes":30000000,"captured":500000,"filtered":0,
            "lost":{"disk":3,"memory":20,"ring":100},"offered":500123,"truncated":0,"written":500000}}"#;
        let said = |out: &str| Said { out: out.to_owned(), err: String::new() };
        assert_eq!(netloom(&said(out)).unwrap(), Account { kept: 500_000, lost: 123 });
        let open = out.replace(r#""difference":0"#, r#""difference":-2"#);
        assert_eq!(netloom(&said(&open)).unwrap().lost, 125);
        assert!(netloom(&said("{}")).is_err());
    }

    #[test]
    fn tcpdumps_lines_are_read() {
        let text = "tcpdump: listening on eth0, link-type EN10MB (Ethernet), snapshot length 96 \
                    bytes\n966249 packets captured\n966260 packets received by filter\n11 packets \
                    dropped by kernel\n";
        assert_eq!(tcpdump(&err(text)).unwrap(), Account { kept: 966_249, lost: 11 });
        let one = "1 packet captured\n1 packet received by filter\n0 packets dropped by kernel\n";
        assert_eq!(tcpdump(&err(one)).unwrap(), Account { kept: 1, lost: 0 });
        assert!(tcpdump(&err("tcpdump: eth9: No such device exists")).is_err());
    }

    #[test]
    fn dumpcaps_lines_are_read_of_each_interface() {
        let text = "Capturing on 'eth0'\nFile: /dev/null\nPackets: 279288 Packets: 584274 Packets \
                    captured: 947697\nPackets received/dropped on interface 'eth0': 947697/0 \
                    (pcap:0/dumpcap:0/flushed:0/ps_ifdrop:0) (100.0%)\n";
        assert_eq!(dumpcap(&err(text)).unwrap(), Account { kept: 947_697, lost: 0 });
        let second = "Packets received/dropped on interface 'eth1': 3/4 \
                      (pcap:4/dumpcap:0/flushed:0/ps_ifdrop:0) (42.9%)\n";
        let both = err(&format!("{text}{second}"));
        assert_eq!(dumpcap(&both).unwrap(), Account { kept: 947_700, lost: 4 });
        assert!(dumpcap(&err("Capturing on 'eth0'")).is_err());
    }

    #[test]
    fn netsniffs_lines_are_read() {
        let out = "Running! Hang up with ^C!\n\n\r      500000  packets incoming (0 unread on exit)\n\
                   \r      499990  packets passed filter\n\r          10  packets failed filter (out of \
                   space)\n\r      0.0020% packet droprate\n\r           2  sec, 253 usec in total\n";
        let said = Said { out: out.to_owned(), err: String::new() };
        assert_eq!(netsniff(&said).unwrap(), Account { kept: 499_990, lost: 10 });
        assert!(netsniff(&Said::default()).is_err());
    }

    #[test]
    fn capinfos_is_read() {
        let text = "File name:           x.pcapng\nNumber of packets:   500000\n";
        assert_eq!(capinfos(text).unwrap(), 500_000);
        assert!(capinfos("capinfos: no such file").is_err());
    }
}
