//! The flags of `record` and `packets`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use netloom_sys::clock;

use super::capture::{size, time};

// `record`.
#[derive(Debug, Subcommand)]
pub(crate) enum Record {
    /// Begin to keep every frame of every link on disk, in the background; returns when all links are recorded.
    Start(RecordStart),
    /// End it: what was recorded stays, until the lab is recorded again and needs the room, or `record delete`.
    Stop(RecordShow),
    /// Show what is recorded, and where every frame has gone.
    Status(RecordShow),
    /// Remove what was recorded.
    Delete(RecordDelete),
}

impl Record {
    /// The hosts file, if it is about a lab over hosts.
    pub(crate) fn on(&self) -> Option<&Path> {
        let on = match self {
            Record::Start(args) => &args.on,
            Record::Stop(args) | Record::Status(args) => &args.on,
            Record::Delete(args) => &args.on,
        };
        on.as_deref()
    }
}

/// `record start`.
#[derive(Debug, Args)]
pub(crate) struct RecordStart {
    /// Most bytes on disk: the oldest give way.
    #[arg(long, value_name = "SIZE", default_value = "2GiB", value_parser = keep)]
    pub(crate) keep: u64,
    /// On all hosts of this file that have a part of the lab.
    #[arg(long, value_name = "HOSTS")]
    pub(crate) on: Option<PathBuf>,
}

/// `record delete`.
#[derive(Debug, Args)]
pub(crate) struct RecordDelete {
    /// On all hosts of this file that have a part of the lab.
    #[arg(long, value_name = "HOSTS")]
    pub(crate) on: Option<PathBuf>,
}

/// `record stop`, `record status`.
#[derive(Debug, Args)]
pub(crate) struct RecordShow {
    /// On all hosts of this file that have a part of the lab.
    #[arg(long, value_name = "HOSTS")]
    pub(crate) on: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

// `packets`.
#[derive(Debug, Args)]
#[command(
    after_help = "A FLOW is up to two nodes and a service, each of which may be left out: `packets h1 web 80/tcp`. A node may be \
                  an address; a service is like 80/tcp, 53/udp or icmp. A FILTER is one word in quotes, in libpcap's language (pcap-filter(7)) with names of \
                  nodes for hosts and `flow:FROM->TO`, e.g. 'tcp[tcpflags] & tcp-rst != 0'. Without either, all packets.\n\
                  Times are in UTC, as they are printed: 2026-11-29T12:30:00.5Z, or 12:30:00.5 for the last time that the clock showed that."
)]
pub(crate) struct Packets {
    /// The flow or the filter.
    #[arg(value_name = "FLOW|FILTER")]
    pub(crate) words: Vec<String>,
    /// Only what was seen at this link; give it once for each.
    #[arg(long = "link", value_name = "LINK")]
    pub(crate) links: Vec<String>,
    /// Only of the last time, like 10s.
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with_all = ["since", "until"])]
    pub(crate) last: Option<Duration>,
    /// From this time on.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub(crate) since: Option<u64>,
    /// Before this time.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub(crate) until: Option<u64>,
    /// Of all hosts of this file that have a part of the lab, by time.
    #[arg(long, value_name = "HOSTS", conflicts_with = "write")]
    pub(crate) on: Option<PathBuf>,
    /// Write the packets into a pcapng file, each link an interface; `-` is standard output.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) write: Option<PathBuf>,
    /// Print JSON, an object a line.
    #[arg(long, conflicts_with = "write")]
    pub(crate) json: bool,
}

/// A size that a recording can have.
fn keep(text: &str) -> Result<u64, String> {
    let bytes = size(text)?;
    let least = netloom_record::LEAST_KEEP;
    if bytes < least {
        return Err(format!("a recording has at least {} MiB; write {0}MiB or more", least >> 20));
    }
    Ok(bytes)
}

const DAY_NS: u64 = 86_400_000_000_000;

/// A moment, in nanoseconds since 1970 UTC.
pub(super) fn moment(text: &str) -> Result<u64, String> {
    moment_before(text, clock::realtime())
}

fn moment_before(text: &str, now: u64) -> Result<u64, String> {
    let whole = || {
        let found = text.parse::<jiff::Timestamp>().ok()?.as_nanosecond();
        u64::try_from(found).ok()
    };
    let of_day = || {
        let time = text.parse::<jiff::civil::Time>().ok()?;
        let parts = [time.hour(), time.minute(), time.second()].map(i64::from);
        let seconds = parts[0] * 3600 + parts[1] * 60 + parts[2];
        let in_day = u64::try_from(seconds).ok()? * 1_000_000_000
            + u64::try_from(time.subsec_nanosecond()).ok()?;
        let today = now - now % DAY_NS + in_day;
        Some(if today > now { today.saturating_sub(DAY_NS) } else { today })
    };
    let wrong = || {
        format!("{text:?} is not a time; write one in UTC, like 12:30:00 or 2026-11-29T12:30:00Z")
    };
    let is_of_day =
        text.contains(':') && text.bytes().all(|b| b.is_ascii_digit() || b":.".contains(&b));
    if is_of_day { of_day() } else { whole() }.ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_day_are_the_last_ones() {
        let noon = 20_000 * DAY_NS + DAY_NS / 2;
        let hour = DAY_NS / 24;
        assert_eq!(moment_before("11:00:00", noon), Ok(noon - hour));
        assert_eq!(moment_before("13:00", noon), Ok(noon - 23 * hour));
        assert_eq!(moment_before("11:00:00.5", noon), Ok(noon - hour + 500_000_000));
        assert_eq!(moment_before("1970-01-01T00:00:01Z", noon), Ok(1_000_000_000));
        for wrong in [
            "",
            "25:00",
            "yesterday",
            "2026-11-29T12:30:00",
            "10s",
            "1969-01-01T00:00:00Z",
            "2026-11-28 12:30",
            "12:30-05",
        ] {
            assert!(moment_before(wrong, noon).unwrap_err().contains("in UTC"), "{wrong}");
        }
    }

    #[test]
    fn a_recording_has_a_least_size() {
        assert!(keep("1MiB").unwrap_err().contains("write 4MiB"));
        assert_eq!(keep("4MiB"), Ok(4 << 20));
    }
}
