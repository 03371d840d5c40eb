//! The command line: every verb and flag, defined once for help, completions and man pages.
//!
//! Only definitions: nothing here reads a file or asks the machine.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

/// Builds whole networks inside this machine, from one file.
#[derive(Debug, Parser)]
#[command(name = "netloom", version, max_term_width = 100, disable_help_subcommand = true)]
#[command(after_help = "Exit status: 0 done; 1 failed while running; 2 wrong usage or invalid \
                        file; 3 not supported on this machine.")]
pub(crate) struct Cli {
    /// The lab, where more than one runs.
    #[arg(short = 'l', long = "lab", global = true, value_name = "LAB")]
    pub(crate) lab: Option<String>,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Bring a lab up from its file; returns when every node is ready.
    Up(Up),
    /// Bring a lab up in the foreground, show what its programs write, and take it down at the end.
    Run(Up),
    /// Take a lab down and remove everything of it.
    Down(Down),
    /// Check lab files and show all errors, each with its place.
    Check(Check),
    /// Print the JSON Schema of lab files.
    Schema,
    /// List the labs of this user.
    Ls(Json),
    /// Show a running lab: nodes, their use of the machine, programs, interfaces, links.
    Status(Status),
    /// Run a program in a node, with this terminal or these pipes.
    Exec(Exec),
    /// Open a shell in a node.
    Shell(NodeArg),
    /// Show what a node's programs wrote.
    Logs(Logs),
    /// Copy files into a node (SRC NODE:DST) or out of one (NODE:SRC DST).
    Cp(Copy),
    /// Send echo requests between nodes and show who reaches whom.
    Ping(Ping),
    /// Draw the lab.
    Graph(Graph),
    /// Probe what this machine can do, and tell what is missing and how to get it.
    Doctor(Json),
    /// Measure what is promised, beside peers that are installed.
    Bench(Bench),
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Write the manual pages into a folder.
    Man {
        /// The folder; it must exist.
        folder: PathBuf,
    },
    /// The other side of a measurement.
    #[command(hide = true)]
    BenchPeer {
        /// What it is to do.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
}

/// `up` and `run`.
#[derive(Debug, Args)]
pub(crate) struct Up {
    /// The lab file.
    pub(crate) file: PathBuf,
    /// A name for the lab other than the file's.
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Make nodes without their limits where limits cannot be set.
    #[arg(long)]
    pub(crate) ignore_limits: bool,
}

/// `down`.
#[derive(Debug, Args)]
pub(crate) struct Down {
    /// The lab; the only one where nothing is said.
    pub(crate) name: Option<String>,
    /// All labs of this user.
    #[arg(long, conflicts_with = "name")]
    pub(crate) all: bool,
}

/// `check`.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Lab files.
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
}

/// Listings.
#[derive(Debug, Args)]
pub(crate) struct Json {
    /// As JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `status`.
#[derive(Debug, Args)]
pub(crate) struct Status {
    /// The lab; the only one where nothing is said.
    pub(crate) name: Option<String>,
    /// As JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `exec`.
#[derive(Debug, Args)]
pub(crate) struct Exec {
    /// The node.
    pub(crate) node: String,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) command: Vec<String>,
}

/// A node.
#[derive(Debug, Args)]
pub(crate) struct NodeArg {
    /// The node.
    pub(crate) node: String,
}

/// `logs`.
#[derive(Debug, Args)]
pub(crate) struct Logs {
    /// The node.
    pub(crate) node: String,
    /// Go on showing what comes.
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Put the time before each line (UTC).
    #[arg(short, long)]
    pub(crate) timestamps: bool,
}

/// `cp`.
#[derive(Debug, Args)]
pub(crate) struct Copy {
    /// A path, or NODE:PATH.
    pub(crate) source: String,
    /// A path, or NODE:PATH.
    pub(crate) destination: String,
}

/// `ping`.
#[derive(Debug, Args)]
pub(crate) struct Ping {
    /// From every node to every other.
    #[arg(long, required = true)]
    pub(crate) all: bool,
    /// Only IPv4.
    #[arg(short = '4', conflicts_with = "ipv6")]
    pub(crate) ipv4: bool,
    /// Only IPv6.
    #[arg(short = '6')]
    pub(crate) ipv6: bool,
    /// How long to wait for an answer, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 2000)]
    pub(crate) timeout: u64,
    /// As JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `graph`.
#[derive(Debug, Args)]
pub(crate) struct Graph {
    /// The lab; the only one where nothing is said.
    pub(crate) name: Option<String>,
    /// For Graphviz. This is what happens where nothing is said.
    #[arg(long, conflicts_with = "svg")]
    pub(crate) dot: bool,
    /// As a picture.
    #[arg(long)]
    pub(crate) svg: bool,
    /// Draw this lab file instead of a running lab.
    #[arg(long, value_name = "FILE", conflicts_with = "name")]
    pub(crate) file: Option<PathBuf>,
}

/// `bench`.
#[derive(Debug, Args)]
pub(crate) struct Bench {
    /// What to measure.
    pub(crate) name: Experiment,
    /// Only what ratios and values need, within two minutes.
    #[arg(long)]
    pub(crate) quick: bool,
    /// As JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// The experiments.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Experiment {
    /// Time to bring labs up and down; memory of a node.
    Lab,
    /// What a node costs the programs in it.
    Node,
}

impl Experiment {
    /// Its name in the bench crate.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Experiment::Lab => "lab",
            Experiment::Node => "node",
        }
    }
}
