//! The flags of `generate` and `replay`.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, ValueEnum};
use netloom_traffic::{Flows, Rate, Sizes, Speed};

use super::capture::time;

// `generate`.
#[derive(Debug, Args)]
#[command(
    after_help = "A TARGET is NODE:IFACE, a NODE with one interface, link:NAME (or NAME), switch:S (shared memory) or \
                        host:IFACE. Frames carry a number and their time, so that `generate TARGET --receive` at \
                        another place tells what was lost, reordered or late.\n\
                        Sizes are as RFC 2544 has them, with the frame check sequence: 64 gives 60 bytes to the \
                        interface. IMIX is 7 of 64, 4 of 570 and 1 of 1518 bytes."
)]
pub(crate) struct Generate {
    /// Where to send or receive.
    pub(crate) target: String,
    /// Receive instead of sending, and report.
    #[arg(long, conflicts_with_all = ["to", "to_mac", "size", "rate", "flows", "engine"])]
    pub(crate) receive: bool,
    /// Destination: a node or an address. Default: the other end of the link.
    #[arg(long, value_name = "NODE|ADDRESS")]
    pub(crate) to: Option<String>,
    /// Destination MAC address, if the lab does not determine it.
    #[arg(long, value_name = "MAC", value_parser = mac)]
    pub(crate) to_mac: Option<[u8; 6]>,
    /// Source address, if the interface has none.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) from: Option<IpAddr>,
    /// Destination UDP port.
    #[arg(long, default_value_t = 9)]
    pub(crate) port: u16,
    /// Size of the frames in bytes: 64, 64-1518, imix.
    #[arg(long, default_value = "64")]
    pub(crate) size: Sizes,
    /// Rate: max, 100kpps, 1.5Mpps, 2Gb/s.
    #[arg(long, default_value = "max")]
    pub(crate) rate: Rate,
    /// Number of flows; frames alternate between them.
    #[arg(long, default_value = "1")]
    pub(crate) flows: Flows,
    /// Stop after this many frames.
    #[arg(short = 'c', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// Stop after this time. Default: 10s if no count is given. A receiver stops one second after its last frame.
    #[arg(short, long, visible_alias = "for", value_name = "TIME", value_parser = time)]
    pub(crate) duration: Option<Duration>,
    /// How frames are sent.
    #[arg(long, value_enum, default_value_t = GenerateEngine::Auto)]
    pub(crate) engine: GenerateEngine,
    /// Stream number in the stamps of the frames.
    #[arg(long, default_value_t = 0)]
    pub(crate) stream: u16,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `--engine` of `generate` and `replay`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GenerateEngine {
    /// Chosen by rate and target.
    Auto,
    /// Generated in the kernel by a BPF program: the fastest.
    LiveFrames,
    /// A packet socket, each frame at its time.
    Ring,
    /// A port of a shared-memory switch.
    Shm,
}

// `replay`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("pace").args(["speed", "rate", "top_speed"]))]
pub(crate) struct Replay {
    /// A pcap or pcapng file.
    pub(crate) file: PathBuf,
    /// Destination: NODE:IFACE, link:NAME, switch:S (shared memory), host:IFACE.
    pub(crate) target: String,
    /// This many times as fast as recorded.
    #[arg(long, value_name = "X", default_value = "1")]
    pub(crate) speed: Speed,
    /// Send at this rate instead: 100kpps, 2Gb/s.
    #[arg(long)]
    pub(crate) rate: Option<Rate>,
    /// Send as fast as possible.
    #[arg(long)]
    pub(crate) top_speed: bool,
    /// Longest gap between frames; longer ones are cut to it: 500ms, 10s.
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with_all = ["rate", "top_speed"])]
    pub(crate) max_gap: Option<Duration>,
    /// How many times to send the file; 0 means until interrupted.
    #[arg(long = "loop", value_name = "N", default_value_t = 1)]
    pub(crate) rounds: u64,
    /// Stop after this many frames.
    #[arg(short = 'c', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// How frames are sent.
    #[arg(long, value_enum, default_value_t = GenerateEngine::Auto)]
    pub(crate) engine: GenerateEngine,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// A hardware address.
fn mac(text: &str) -> Result<[u8; 6], String> {
    netloom_config::units::mac(text).ok_or_else(|| format!("{text:?} is not a MAC address"))
}
