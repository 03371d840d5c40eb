//! The flags of `flow`.

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use std::path::PathBuf;

// `flow`.
#[derive(Debug, Subcommand)]
pub(crate) enum Flow {
    /// Add flow entries.
    Add(FlowAdd),
    /// Change what flow entries do: all that match, with the actions given.
    Mod(FlowMod),
    /// Delete flow entries: all that match.
    Del(FlowDel),
    /// Show flow entries with their counters.
    Dump(FlowDump),
    /// Show groups, add, change and delete them.
    Groups(FlowGroups),
    /// Show meters, add, change and delete them.
    Meters(FlowMeters),
    /// Show ports with their counters.
    Ports(FlowShow),
    /// Show what a switch of the lab would do with a frame, and why. Nothing is sent or counted.
    Trace(FlowTrace),
    /// Follow the switch's messages to its controllers, until interrupted: packets, ports, removed entries.
    Monitor(FlowMonitor),
}

/// The switch, and how to speak with it.
#[derive(Debug, Args)]
pub(crate) struct Spoken {
    /// An OpenFlow switch of the lab, or SWITCH@SLICE as that slice has it; or unix:PATH, tcp:ADDRESS or tcp:ADDRESS:PORT, where any other one listens.
    #[arg(value_name = "SWITCH")]
    pub(crate) switch: String,
    /// Speak this version of OpenFlow. Default: the highest that the switch speaks.
    #[arg(long, value_enum, value_name = "VERSION")]
    pub(crate) openflow: Option<OpenFlow>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// A version of OpenFlow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OpenFlow {
    /// 1.0.
    #[value(name = "1.0")]
    V10,
    /// 1.3.
    #[value(name = "1.3")]
    V13,
}

/// `flow add`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").args(["flows", "file"]).required(true).multiple(true))]
pub(crate) struct FlowAdd {
    #[command(flatten)]
    pub(crate) spoken: Spoken,
    /// Flow entries in the syntax of ovs-ofctl, such as `priority=5,ip,nw_dst=10.0.0.2,actions=output:2`; - reads them
    /// from the standard input, one a line. Ports may be given by name: output:h2:eth0, or output:h2.
    #[arg(value_name = "FLOW")]
    pub(crate) flows: Vec<String>,
    /// Also those of this file, one a line; # begins a comment.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

/// `flow mod`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").args(["flows", "file"]).required(true).multiple(true))]
pub(crate) struct FlowMod {
    #[command(flatten)]
    pub(crate) spoken: Spoken,
    /// What entries must match, and their new actions; - reads lines from the standard input.
    #[arg(value_name = "FLOW")]
    pub(crate) flows: Vec<String>,
    /// Also those of this file, one a line; # begins a comment.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Change only the entry with exactly this match and priority.
    #[arg(long)]
    pub(crate) strict: bool,
}

/// `flow del`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").args(["flows", "file", "all"]).required(true).multiple(true))]
pub(crate) struct FlowDel {
    #[command(flatten)]
    pub(crate) spoken: Spoken,
    /// What entries must match, such as `table=0,ip,nw_dst=10.0.0.0/8` or `out_port=2`; without table= those of all
    /// tables. - reads lines from the standard input.
    #[arg(value_name = "MATCH")]
    pub(crate) flows: Vec<String>,
    /// Also those of this file, one a line; # begins a comment.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Delete only the entry with exactly this match and priority.
    #[arg(long)]
    pub(crate) strict: bool,
    /// Delete all entries of all tables.
    #[arg(long, conflicts_with_all = ["flows", "file", "strict"])]
    pub(crate) all: bool,
}

/// `flow dump`.
#[derive(Debug, Args)]
pub(crate) struct FlowDump {
    #[command(flatten)]
    pub(crate) spoken: Spoken,
    /// Only entries that match this, such as `table=0,ip`.
    #[arg(value_name = "MATCH")]
    pub(crate) matching: Option<String>,
    /// Print the entries alone, as `flow add` reads them.
    #[arg(long, conflicts_with = "json")]
    pub(crate) plain: bool,
}

/// `flow groups`.
#[derive(Debug, Args)]
pub(crate) struct FlowGroups {
    #[command(flatten)]
    pub(crate) spoken: Spoken,
    /// Without one, groups are shown.
    #[command(subcommand)]
    pub(crate) change: Option<GroupChange>,
}

/// What to do with groups.
#[derive(Debug, Subcommand)]
pub(crate) enum GroupChange {
    /// Add groups.
    Add {
        /// Groups in the syntax of ovs-ofctl, such as `group_id=1,type=all,bucket=output:1,bucket=output:2`; - reads
        /// them from the standard input.
        #[arg(value_name = "GROUP", required = true)]
        groups: Vec<String>,
    },
    /// Change groups.
    Mod {
        /// The groups as they are to be.
        #[arg(value_name = "GROUP", required = true)]
        groups: Vec<String>,
    },
    /// Delete groups, and the flow entries that send to them.
    Del {
        /// The groups: `group_id=1`, or `group_id=all`.
        #[arg(value_name = "GROUP", required = true)]
        groups: Vec<String>,
    },
}

/// `flow meters`.
#[derive(Debug, Args)]
pub(crate) struct FlowMeters {
    #[command(flatten)]
    pub(crate) spoken: Spoken,
    /// Without one, meters are shown.
    #[command(subcommand)]
    pub(crate) change: Option<MeterChange>,
}

/// What to do with meters.
#[derive(Debug, Subcommand)]
pub(crate) enum MeterChange {
    /// Add meters.
    Add {
        /// Meters in the syntax of ovs-ofctl, such as `meter=1,kbps,band=type=drop,rate=1000`; - reads them from the
        /// standard input.
        #[arg(value_name = "METER", required = true)]
        meters: Vec<String>,
    },
    /// Change meters.
    Mod {
        /// The meters as they are to be.
        #[arg(value_name = "METER", required = true)]
        meters: Vec<String>,
    },
    /// Delete meters, and the flow entries that use them.
    Del {
        /// The meters: `meter=1`, or `meter=all`.
        #[arg(value_name = "METER", required = true)]
        meters: Vec<String>,
    },
}

/// `flow ports`.
#[derive(Debug, Args)]
pub(crate) struct FlowShow {
    #[command(flatten)]
    pub(crate) spoken: Spoken,
}

/// `flow trace`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").args(["fields", "frame"]).required(true))]
pub(crate) struct FlowTrace {
    /// An OpenFlow switch of the lab.
    pub(crate) switch: String,
    /// The frame as a match, such as `in_port=1,tcp,nw_dst=10.0.0.2,tp_dst=80`.
    #[arg(value_name = "FIELDS")]
    pub(crate) fields: Option<String>,
    /// The whole frame, in hexadecimal digits.
    #[arg(long, value_name = "HEX", requires = "port")]
    pub(crate) frame: Option<String>,
    /// The port that it comes in by, by number or name.
    #[arg(long, requires = "frame")]
    pub(crate) port: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `flow monitor`.
#[derive(Debug, Args)]
pub(crate) struct FlowMonitor {
    #[command(flatten)]
    pub(crate) spoken: Spoken,
    /// End after this number of messages.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) count: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::{Cli, Verb};
    use clap::Parser;

    fn parse(line: &[&str]) -> Result<Flow, clap::Error> {
        match Cli::try_parse_from(["netloom", "flow"].iter().chain(line))?.verb {
            Verb::Flow(flow) => Ok(flow),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn changes_say_what_they_change() {
        let Flow::Add(add) = parse(&["add", "s1", "-", "arp,actions=flood"]).unwrap() else {
            panic!()
        };
        assert_eq!((add.spoken.switch.as_str(), add.flows.len()), ("s1", 2));
        assert!(parse(&["add", "s1", "-f", "flows.txt"]).is_ok());
        for wrong in [
            &["add", "s1"][..],
            &["mod", "s1"],
            &["del", "s1"],
            &["del", "s1", "ip", "--all"],
            &["dump", "s1", "--plain", "--json"],
            &["groups", "s1", "add"],
            &["trace", "s1"],
            &["trace", "s1", "--frame", "00"],
            &["trace", "s1", "in_port=1", "--frame", "00", "--port", "1"],
            &["dump", "s1", "--openflow", "1.4"],
        ] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
        let Flow::Del(del) = parse(&["del", "tcp:127.0.0.1", "--all"]).unwrap() else { panic!() };
        assert!(del.all && del.flows.is_empty());
        let Flow::Dump(dump) = parse(&["dump", "s1", "ip", "--openflow", "1.0"]).unwrap() else {
            panic!()
        };
        assert_eq!(
            (dump.matching.as_deref(), dump.spoken.openflow),
            (Some("ip"), Some(OpenFlow::V10))
        );
    }
}
