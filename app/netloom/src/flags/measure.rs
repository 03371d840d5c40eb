//! The flags of `measure`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use netloom_session::measure::FlowPorts;

use super::capture::time;

// `measure`.
#[derive(Debug, Args)]
#[command(
    after_help = "measure A B finds the path from node A to node B and back, marks the packets between \
                        them where they leave, and reports for every link, switch and node on the path what \
                        it lost and how long it took. With --config FILE it counts at interfaces instead: each \
                        NODE is then NODE:IFACE, NODE, link:NAME, switch:S, switch:S/PORT (or S, S/PORT) or host:IFACE, \
                        and the file is what POST /pnpm/ takes. Ctrl-C ends it when the open block closes, a \
                        second Ctrl-C at once."
)]
pub(crate) struct Measure {
    /// The node that sends and the one that receives; with --config, interfaces.
    #[arg(value_name = "NODE", required_unless_present = "config")]
    pub(crate) targets: Vec<String>,
    /// How long, like 20s, in whole blocks. Default: until interrupted.
    #[arg(short = 'd', long = "for", visible_alias = "duration", value_name = "TIME", value_parser = time, conflicts_with = "config")]
    pub(crate) duration: Option<Duration>,
    /// The length of a block.
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "config")]
    pub(crate) period: Option<Duration>,
    /// How long a block is still counted after its end: longer than packets are in flight, less than half a
    /// period. Default: a quarter of the period, at most 1 s.
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "config")]
    pub(crate) guard: Option<Duration>,
    #[command(flatten)]
    pub(crate) what: MeasureWhat,
    /// Data kept at each point besides counts: 1 the sum of all packets' times, 2 and 4 the times of a fixed
    /// share, 3 the times of about --samples packets.
    #[arg(long, value_name = "1|2|3|4", default_value_t = 3, conflicts_with = "config",
        value_parser = clap::value_parser!(u8).range(1..=4))]
    pub(crate) program: u8,
    /// Maximum packets of a flow and block whose times are kept; the minimum is half of it (program 3).
    #[arg(long, value_name = "N", default_value_t = 1024, conflicts_with = "config",
        value_parser = clap::value_parser!(u32).range(2..=1_048_576))]
    pub(crate) samples: u32,
    /// Keep the times of one packet in 2^BITS (programs 2 and 4).
    #[arg(long, value_name = "BITS", default_value_t = 4, conflicts_with = "config",
        value_parser = clap::value_parser!(u8).range(0..=32))]
    pub(crate) hash_length: u8,
    /// DSCP values that blocks alternate between.
    #[arg(long, value_name = "DSCP,DSCP", default_value = "8,16", value_parser = marks,
        conflicts_with = "config")]
    pub(crate) marks: (u8, u8),
    /// Do not mark packets: something else does.
    #[arg(long, conflicts_with = "config")]
    pub(crate) no_marking: bool,
    /// Only from the first node to the second.
    #[arg(long, conflicts_with = "config")]
    pub(crate) one_way: bool,
    /// Both directions (default).
    #[arg(long, conflicts_with_all = ["one_way", "config"])]
    pub(crate) both: bool,
    /// Read a session from this file, in the format of the API's POST /pnpm/.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Mark packets of the file's filters at egress of these interfaces.
    #[arg(long, requires = "config")]
    pub(crate) mark: bool,
    /// Fail if a frame, a process or a busy program was later than this meanwhile, or frames were lost for it: like 1ms.
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "config")]
    pub(crate) fidelity: Option<Duration>,
    /// Print JSON, one object per line.
    #[arg(long, conflicts_with = "csv")]
    pub(crate) json: bool,
    /// Print CSV: a header, then a line for each block, direction, flow and hop.
    #[arg(long)]
    pub(crate) csv: bool,
    /// Print only the result of all blocks together.
    #[arg(short, long, conflicts_with = "csv")]
    pub(crate) quiet: bool,
}

// The packets to measure.
#[derive(Debug, Args)]
#[group(skip)]
pub(crate) struct MeasureWhat {
    /// Only IPv4 (default: both families).
    #[arg(short = '4', conflicts_with_all = ["ipv6", "config"])]
    pub(crate) ipv4: bool,
    /// Only IPv6.
    #[arg(short = '6', conflicts_with = "config")]
    pub(crate) ipv6: bool,
    /// Only of this protocol: udp, tcp, icmp, icmpv6, sctp or a number.
    #[arg(long, value_name = "PROTOCOL", conflicts_with = "config")]
    pub(crate) proto: Option<String>,
    /// Only from this port of the first node, and back to it.
    #[arg(long, value_name = "PORT", conflicts_with = "config")]
    pub(crate) src_port: Option<u16>,
    /// Only to this port of the second node, and back from it.
    #[arg(long, visible_alias = "port", value_name = "PORT", conflicts_with = "config")]
    pub(crate) dst_port: Option<u16>,
    /// A separate flow: [PORT->]PORT/PROTOCOL, * for any port, e.g. 80/tcp or '5000->*/udp'. Several may be
    /// given; packets of no flow belong to the last one, `rest`.
    #[arg(long = "flow", value_name = "FLOW", conflicts_with = "config",
        conflicts_with_all = ["proto", "src_port", "dst_port"])]
    pub(crate) flow: Vec<FlowPorts>,
    /// Make a flow of each TCP connection and connected UDP socket between the nodes, those that begin meanwhile
    /// included.
    #[arg(long, conflicts_with_all = ["proto", "src_port", "dst_port", "config"])]
    pub(crate) flows: bool,
}

fn marks(text: &str) -> Result<(u8, u8), String> {
    let values = text.split_once(',').map(|(a, b)| (a.parse(), b.parse()));
    match values {
        Some((Ok(starter), Ok(next))) => Ok((starter, next)),
        _ => Err(format!("{text:?} is not two DSCP values; write 8,16")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_two() {
        assert_eq!(marks("8,16"), Ok((8, 16)));
        for wrong in ["8", "8,", "8,16,24", "256,1", "a,b"] {
            assert!(marks(wrong).is_err(), "{wrong}");
        }
    }
}
