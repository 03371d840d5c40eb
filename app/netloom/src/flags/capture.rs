//! The flags of `capture`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, ValueEnum};
use netloom_config::likely;

// `capture`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").args(["targets", "all"]).required(true))]
#[command(
    after_help = "A TARGET is NODE:IFACE, NODE (all its interfaces), link:NAME (or NAME), switch:S, switch:S/PORT (or S, S/PORT) or \
                        host:IFACE. Filters are libpcap's (pcap-filter(7)), with names of nodes for hosts and \
                        `flow:FROM->TO`, e.g. 'flow:h1->web:80/tcp'.\n\
                        Exit status: 0 when every frame is accounted for, 1 when the capture failed."
)]
pub(crate) struct Capture {
    /// What to capture; several go into one file.
    #[arg(value_name = "TARGET")]
    pub(crate) targets: Vec<String>,
    /// Every link of the lab, once.
    #[arg(long)]
    pub(crate) all: bool,
    /// The file; `-` is standard output. Without one, frames are only counted.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) write: Option<PathBuf>,
    /// The file format. Default: by the file's name, else pcapng.
    #[arg(long, value_enum)]
    pub(crate) format: Option<CaptureFormat>,
    /// Only frames that match this expression.
    #[arg(short, long, value_name = "EXPRESSION", default_value = "", hide_default_value = true)]
    pub(crate) filter: String,
    /// Capture what netloom sends into the lab by itself, too: probes of `why`, and their answers.
    #[arg(long)]
    pub(crate) own: bool,
    /// Keep this many bytes of each frame; 0 for all.
    #[arg(short, long, value_name = "BYTES", default_value_t = 0)]
    pub(crate) snaplen: u32,
    /// Stop after this many frames.
    #[arg(short = 'c', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// Stop after this time, like 10s.
    #[arg(short, long, visible_alias = "for", value_name = "TIME", value_parser = time)]
    pub(crate) duration: Option<Duration>,
    /// The direction, as the interface sees it.
    #[arg(long, value_enum, default_value_t = CaptureDirection::Both)]
    pub(crate) direction: CaptureDirection,
    /// How frames are captured.
    #[arg(long, value_enum, default_value_t = CaptureEngine::Auto)]
    pub(crate) engine: CaptureEngine,
    /// Use the fastest engine even if it changes an interface: XDP turns segmentation offload of a veth off. Every
    /// frame still passes.
    #[arg(long)]
    pub(crate) fast: bool,
    /// End incoming frames for other stations (other hardware addresses) at the capture, which spares the kernel the
    /// work of dropping them. Frames that a bridge, program or socket at the interface takes still pass. Implies --fast.
    #[arg(long)]
    pub(crate) sink: bool,
    /// Threads that share each interface's frames (engine tpacket).
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) threads: u16,
    /// Capture frames for other stations, too (host interfaces).
    #[arg(short, long)]
    pub(crate) promiscuous: bool,
    /// Size of each ring buffer; there is one per CPU or thread.
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = size)]
    pub(crate) ring: u64,
    /// Maximum memory for frames not yet written.
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = size)]
    pub(crate) memory: u64,
    #[command(flatten)]
    pub(crate) files: CaptureFiles,
    /// Write a file for each interface into this folder, which is made if it is missing, a line per second: Unix time, Gb/s, frames received, frames
    /// lost.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) statistics: Option<PathBuf>,
    /// Print nothing while it runs.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// On the host of the target, of those of this file; so are files that it writes.
    #[arg(long, value_name = "HOSTS")]
    pub(crate) on: Option<PathBuf>,
    /// Print the final account as JSON, to standard output (to standard error with `-w -`).
    #[arg(long)]
    pub(crate) json: bool,
}

// How files are written.
#[derive(Debug, Args)]
pub(crate) struct CaptureFiles {
    /// Start a new file before one grows larger than this; 2 GiB if no size is given.
    #[arg(long, value_name = "SIZE", num_args = 0..=1, default_missing_value = "2GiB", value_parser = size)]
    pub(crate) rotate_size: Option<u64>,
    /// Start a new file at this interval.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) rotate_time: Option<Duration>,
    /// Keep only this many of the newest files.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) files: Option<u32>,
    /// Wait for space when the disk is full, instead of stopping.
    #[arg(long)]
    pub(crate) wait_for_space: bool,
    /// Write through the page cache.
    #[arg(long)]
    pub(crate) buffered: bool,
    /// Flush each complete file to the disk.
    #[arg(long)]
    pub(crate) sync: bool,
}

/// `--format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CaptureFormat {
    /// Nanoseconds, any number of interfaces, names, counters.
    Pcapng,
    /// Classic, microseconds, one interface.
    Pcap,
    /// Classic, nanoseconds, one interface.
    PcapNs,
}

/// `--direction`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CaptureDirection {
    /// Both.
    Both,
    /// What it receives.
    In,
    /// What it sends.
    Out,
}

/// `--engine`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CaptureEngine {
    /// The best engine that changes no interface; prints which.
    Auto,
    /// A packet socket with a ring of blocks.
    Tpacket,
    /// BPF copies frames into a ring, at XDP on ingress and at tc on egress.
    XdpRing,
    /// BPF copies frames into a ring, at tc.
    TcRing,
    /// A mirror port of a shared-memory switch.
    Switch,
    /// libpcap, for comparison.
    Pcap,
}

/// A time with its unit.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    let found = netloom_config::units::duration(text).filter(|time| !time.is_zero());
    found.ok_or_else(|| {
        likely::duration(text).unwrap_or_else(|| "write a time like 500ms, 10s or 5m".to_owned())
    })
}

/// A number of bytes with its unit.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let found = netloom_config::units::bytes(text).filter(|size| *size > 0);
    found.ok_or_else(|| {
        likely::bytes(text).unwrap_or_else(|| "write a size like 64MiB or 2GB".to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_with_other_units_are_refused_with_what_to_write() {
        assert_eq!(time("10sec").unwrap_err(), "write 10s");
        assert_eq!(size("64mb").unwrap_err(), "write 64MB");
        for wrong in ["", "0", "soon"] {
            assert!(time(wrong).unwrap_err().starts_with("write a time like"), "{wrong}");
            assert!(size(wrong).unwrap_err().starts_with("write a size like"), "{wrong}");
        }
    }
}
