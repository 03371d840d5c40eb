//! The flags of `capture`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, ValueEnum};
use netloom_config::likely;

/// `capture`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").args(["targets", "all"]).required(true))]
#[command(
    after_help = "A TARGET is NODE:IFACE, NODE (all its interfaces), link:NAME, switch:S, switch:S/PORT or \
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
    /// The file; `-` is standard output. Without one, frames are counted and thrown away.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) write: Option<PathBuf>,
    /// What is written; else as the file's name says, pcapng where it says nothing.
    #[arg(long, value_enum)]
    pub(crate) format: Option<CaptureFormat>,
    /// Only frames that match this expression.
    #[arg(short, long, value_name = "EXPRESSION", default_value = "", hide_default_value = true)]
    pub(crate) filter: String,
    /// Keep this many bytes of each frame; 0 for all.
    #[arg(short, long, value_name = "BYTES", default_value_t = 0)]
    pub(crate) snaplen: u32,
    /// End after so many frames.
    #[arg(short = 'c', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// End after so long, e.g. 10s.
    #[arg(short, long, value_name = "TIME", value_parser = time)]
    pub(crate) duration: Option<Duration>,
    /// Frames of which direction, as the interface sees them.
    #[arg(long, value_enum, default_value_t = CaptureDirection::Both)]
    pub(crate) direction: CaptureDirection,
    /// How frames are taken.
    #[arg(long, value_enum, default_value_t = CaptureEngine::Auto)]
    pub(crate) engine: CaptureEngine,
    /// Take the fastest way, also where it changes how an interface works: XDP turns segmentation
    /// offload of a veth off.
    #[arg(long)]
    pub(crate) fast: bool,
    /// Threads that share each interface's frames (engine tpacket).
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) threads: u16,
    /// Hear frames for others, too (host interfaces).
    #[arg(short, long)]
    pub(crate) promiscuous: bool,
    /// Memory of each ring: of a processor, of a thread.
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = size)]
    pub(crate) ring: u64,
    /// Most memory for frames that are not written yet.
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = size)]
    pub(crate) memory: u64,
    #[command(flatten)]
    pub(crate) files: CaptureFiles,
    /// A file for each interface in this folder, with a line a second: Unix time, Gb/s, frames
    /// received, frames lost.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) statistics: Option<PathBuf>,
    /// Show nothing while it runs.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// The account at the end as JSON on standard output (on standard error with `-w -`).
    #[arg(long)]
    pub(crate) json: bool,
}

/// How files are written.
#[derive(Debug, Args)]
pub(crate) struct CaptureFiles {
    /// Begin a new file when one would be longer than this; 2 GiB where no size is given.
    #[arg(long, value_name = "SIZE", num_args = 0..=1, default_missing_value = "2GiB", value_parser = size)]
    pub(crate) rotate_size: Option<u64>,
    /// Begin a new file every so often.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) rotate_time: Option<Duration>,
    /// Keep the newest files only.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) files: Option<u32>,
    /// When the disk is full, wait for space instead of ending.
    #[arg(long)]
    pub(crate) wait_for_space: bool,
    /// Write through the page cache.
    #[arg(long)]
    pub(crate) buffered: bool,
    /// Wait at the end of each file until it is on the disk.
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
    /// The best that changes nothing; says which.
    Auto,
    /// A packet socket with a ring of blocks.
    Tpacket,
    /// BPF copies each frame once, at XDP where it comes in and at tc where it goes out.
    XdpRing,
    /// BPF copies each frame once, at tc.
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
