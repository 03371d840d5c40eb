//! The command line: every verb and flag, defined once for help, completions and man pages.
//!
//! Only definitions: nothing here reads a file or asks the machine.

mod apply;
mod capture;
pub(crate) mod examples;
mod flow;
mod fmt;
mod foreign;
mod generate;
mod guard;
mod image;
mod link;
mod mcp;
mod measure;
mod node;
mod record;
mod serve;
mod slice;
mod switch;
mod test;
mod why;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use netloom_lab::Role;

pub(crate) use apply::Apply;
pub(crate) use capture::{Capture, CaptureDirection, CaptureEngine, CaptureFormat};
pub(crate) use flow::{
    Flow, FlowAdd, FlowDel, FlowDump, FlowGroups, FlowMeters, FlowMod, FlowMonitor, FlowTrace,
    GroupChange, MeterChange, OpenFlow, Spoken,
};
pub(crate) use fmt::Fmt;
pub(crate) use foreign::{
    Export, ExportKubernetes, ExportLab, ExportTopology, Import, Importing, ManagementKind,
};
pub(crate) use generate::{Generate, GenerateEngine, Replay};
pub(crate) use guard::{Guard, GuardCheck, GuardDefault, GuardDiff, GuardReport, GuardVerb};
pub(crate) use image::{
    Distribution, Image, ImageBuild, ImageList, ImageLoad, ImagePrune, ImagePull, ImageRemove,
    ImageShow,
};
pub(crate) use link::{End, Link, LinkFates, LinkSet};
pub(crate) use mcp::Mcp;
pub(crate) use measure::Measure;
pub(crate) use node::{MoveInterface, Node, NodeCreate};
pub(crate) use record::{Packets, Record, RecordShow, RecordStart};
pub(crate) use serve::Serve;
pub(crate) use slice::{Slice, SliceCheck, SliceRun, SliceShow};
pub(crate) use switch::{
    MirrorAdd, MirrorChange, MirrorDirection, Plug, PortVlan, Switch, SwitchCreate, SwitchMac,
    SwitchMirror, SwitchPort,
};
pub(crate) use test::Test;
pub(crate) use why::Why;

/// Build whole networks inside this machine, from one file.
#[derive(Debug, Parser)]
#[command(name = "netloom", version, max_term_width = 100, disable_help_subcommand = true)]
#[command(after_help = "Exit status: 0 done; 1 failed while running; 2 wrong usage or invalid \
                        file; 3 not supported on this machine; 4 `apply --check` or `fmt --check` found a difference, or `guard --frozen` refused something.\n\nSignals: verbs that run until stopped \
                        end on SIGTERM, and on SIGINT and SIGHUP unless their caller ignores \
                        these, as shells do for background jobs of scripts.")]
pub(crate) struct Cli {
    /// The lab, by name or by file; for `up` and `run` the name of the new one. Default: $NETLOOM_LAB, or
    /// else the only running lab.
    #[arg(short = 'l', long = "lab", global = true, value_name = "LAB")]
    pub(crate) lab: Option<String>,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// What to do. Only the flags of the verb that is called are made, which spares every start the rest. Its type comes
/// last then, so that documentation of the type would replace the verb's here: types of verbs have comments.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum Verb {
    /// Bring a lab up from its file; returns when every node is ready.
    Up(Up),
    /// Change a running lab to match its edited file; unchanged parts keep running. Brings up a lab that is not up.
    Apply(Apply),
    /// Bring a lab up, show the output of its programs, and take it down on Ctrl-C.
    Run(Run),
    /// Take a lab down and remove everything that belongs to it.
    Down(Down),
    /// Bring labs up, check what their files expect of them, and take them down.
    Test(Test),
    /// Write a commented lab file to begin with; without a name, list what there is.
    New(New),
    /// Bring up one of the labs of `netloom new`.
    Example(Example),
    /// Check lab files and show all errors, with line and column.
    Check(Check),
    /// Set lab files in one style: indentation, blanks, quotes. Comments, order and meaning stay.
    Fmt(Fmt),
    /// Turn a lab of containerlab, Kathara, Mininet, GNS3, CORE, IMUNES or netlab into a lab file.
    Import(Import),
    /// Write a running lab as a lab file, or a lab for another program.
    #[command(subcommand)]
    Export(Export),
    /// Print the JSON Schema of lab files.
    Schema,
    /// List your labs.
    Ls(Json),
    /// Show a running lab: nodes with their use of CPU and memory, interfaces, links.
    Status(StatusOn),
    /// Follow what happens in a running lab: states, impairments and cables as they change, with counters in JSON.
    Events(Events),
    /// Watch labs on the terminal: nodes, links by rate or loss, switches, programs; with shells, logs, captures, impairments.
    Top(Top),
    /// Create, delete, show and change nodes of a running lab.
    #[command(subcommand)]
    Node(Node),
    /// Create, delete, show and change links of a running lab: delay, loss, rate, cable.
    #[command(subcommand)]
    Link(Link),
    /// Create, delete, show and change switches of a running lab.
    #[command(subcommand)]
    Switch(Switch),
    /// Show and change flow entries, groups and meters of OpenFlow switches, and explain what they do.
    #[command(subcommand)]
    Flow(Flow),
    /// Show and check slices of OpenFlow switches, and run a slicer in front of any switch.
    #[command(subcommand)]
    Slice(Slice),
    /// Join a host interface to a shared-memory switch, until interrupted.
    Plug(Plug),
    /// Capture frames of links, nodes, switches and host interfaces into a file.
    Capture(Box<Capture>),
    /// Send frames at an exact rate, or receive them and report loss and delay.
    Generate(Box<Generate>),
    /// Send the frames of a capture file, as recorded or at a rate.
    Replay(Replay),
    /// Measure loss, delay and jitter of live traffic between nodes, hop by hop.
    Measure(Box<Measure>),
    /// Serve measurements, or the whole API of a lab, over HTTP.
    Serve(Serve),
    /// Serve labs to agents by the Model Context Protocol, on standard input and output.
    Mcp(Mcp),
    /// Serve editors by the Language Server Protocol, on standard input and output: errors, completion, hover, renaming.
    Lsp,
    /// Run a program in a node.
    Exec(Exec),
    /// Open a shell in a node.
    Shell(NodeArg),
    /// Run a program that asks before it talks: each new connection, listening port or raw socket.
    Guard(Box<Guard>),
    /// Show the output of nodes' programs.
    Logs(Logs),
    /// Copy files into a node (SRC NODE:DST) or out of one (NODE:SRC DST).
    Cp(Copy),
    /// Ping from one node to another, or from all to all, and show which nodes answer.
    Ping(Ping),
    /// Find out why packets of one node do not arrive at another: the way hop by hop, the cause, and its mend.
    Why(Why),
    /// Keep every frame of a lab's links on disk, in a bounded ring that can be searched.
    #[command(subcommand)]
    Record(Record),
    /// Find packets of the past in a lab's recording, also while it is recorded.
    Packets(Packets),
    /// Draw a lab as a graph, for Graphviz or as SVG.
    Graph(Graph),
    /// Make kernels and RAM disks for virtual machines.
    #[command(subcommand)]
    Image(Image),
    /// Do on this host what `up --on` and other verbs of labs over hosts ask, on standard input and output.
    Agent(AgentArgs),
    /// Test what this machine can do, and say how to get what is missing.
    Doctor(Json),
    /// Measure netloom's performance and that of comparable installed programs.
    #[command(disable_help_flag = true)]
    Bench {
        /// What netloom-bench is told: `netloom bench --help` shows it.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<OsString>,
    },
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
    /// Print the candidates for the last word of a command line, for shell completion.
    #[command(hide = true)]
    CompleteWords {
        /// The words after `netloom`, up to the cursor.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Carries the frames of a lab's wires.
    #[command(name = Role::Wire.verb(), hide = true)]
    WireProcess {
        /// The process that starts it.
        starter: i32,
        /// The lab's folder.
        folder: PathBuf,
    },
    /// Clones inits for a lab process.
    #[command(name = Role::Spawner.verb(), hide = true)]
    SpawnerProcess,
    /// Runs a shared-memory switch.
    #[command(name = Role::Switch.verb(), hide = true)]
    SwitchProcess {
        /// The process that starts it.
        starter: i32,
        /// The path of its socket.
        socket: PathBuf,
        /// The path of its state file.
        state: PathBuf,
        /// Its options, as JSON.
        options: String,
    },
    /// Carries frames between a switch and an interface whose port is its standard input.
    #[command(name = Role::Plug.verb(), hide = true)]
    PlugProcess {
        /// The process that starts it.
        starter: i32,
        /// The file that it holds a lock on while it lives.
        lock: PathBuf,
        /// The switch's socket.
        switch: PathBuf,
        /// The port's name on the switch.
        name: String,
        /// Type of the descriptor.
        kind: PortKind,
    },
    /// Offers a shared-memory switch to clients of classic VDE.
    #[command(name = Role::Vde.verb(), hide = true)]
    VdeProcess {
        /// The process that starts it.
        starter: i32,
        /// The file that it holds a lock on while it lives.
        lock: PathBuf,
        /// The switch's socket.
        switch: PathBuf,
        /// The folder for clients.
        folder: PathBuf,
        /// The switch's options, as JSON.
        options: String,
    },
    /// Runs an OpenFlow switch in the network namespace that is its standard input.
    #[command(name = Role::Flow.verb(), hide = true)]
    FlowProcess {
        /// The process that starts it.
        starter: i32,
        /// The lab's folder, with which it ends.
        folder: PathBuf,
        /// The path of its control socket.
        socket: PathBuf,
        /// What it is, as JSON.
        application: String,
    },
    /// Runs the slicer of a lab.
    #[command(name = Role::Slice.verb(), hide = true)]
    SliceProcess {
        /// The process that starts it.
        starter: i32,
        /// The lab's folder, with which it ends.
        folder: PathBuf,
        /// The path of its control socket.
        socket: PathBuf,
        /// What it is, as JSON.
        application: String,
    },
    /// Follows a router whose network namespace is its standard input.
    #[command(name = Role::Router.verb(), hide = true)]
    RouterProcess {
        /// The process that starts it.
        starter: i32,
        /// The file that it holds a lock on while it lives.
        lock: PathBuf,
        /// The router's init, with which it ends.
        init: i32,
        /// What it is told, as JSON.
        spec: String,
    },
    /// Tests one lab, and reports by lines of JSON.
    #[command(hide = true)]
    TestLab {
        /// The process that starts it.
        starter: i32,
        /// The lab's name.
        name: String,
        /// Its file.
        file: PathBuf,
        /// Make nodes without limits if this machine cannot set them.
        #[arg(long)]
        ignore_limits: bool,
        /// What names of captures of steps that do not hold begin with.
        #[arg(long)]
        captures: Option<PathBuf>,
    },
    /// Reads what networks of a lab's nodes were given, as JSON, or puts it.
    #[command(hide = true)]
    NetworkState {
        /// `read` or `put`.
        #[arg(value_parser = ["read", "put"])]
        what: String,
        /// The lab.
        name: String,
    },
    /// Answers a question inside a node.
    #[command(hide = true)]
    Probe {
        /// The question, as JSON.
        asked: String,
    },
    /// Publishes the ports of the node whose network namespace is its standard input.
    #[command(name = Role::Publish.verb(), hide = true)]
    PortsProcess {
        /// The process that starts it.
        starter: i32,
        /// The file that it holds a lock on while it lives.
        lock: PathBuf,
        /// What it is told, as JSON.
        spec: String,
    },
    /// Captures for its starter, with which it ends.
    #[command(hide = true)]
    CaptureProcess {
        /// The process that starts it.
        starter: i32,
        #[command(flatten)]
        args: Box<Capture>,
    },
    /// Measures for its starter, with which it ends.
    #[command(hide = true)]
    MeasureProcess {
        /// The process that starts it.
        starter: i32,
        #[command(flatten)]
        args: Box<Measure>,
    },
    /// Becomes a shell in a node, on the terminal that is its standard input.
    #[command(hide = true)]
    TerminalProcess {
        /// The process that starts it, with which it ends.
        starter: i32,
        /// The node.
        node: String,
    },
    /// Passes what leaves the network namespace that is its standard input.
    #[command(name = Role::Uplink.verb(), hide = true)]
    UplinkProcess {
        /// The process that starts it.
        starter: i32,
        /// The file that it holds a lock on while it lives.
        lock: PathBuf,
        /// What it is told, as JSON.
        spec: String,
    },
    /// Records a lab.
    #[command(hide = true)]
    RecordProcess {
        /// The process that starts it.
        starter: i32,
        /// The lab's folder.
        folder: PathBuf,
        /// Most bytes on disk.
        keep: u64,
        /// It is in the lab's user namespace already.
        #[arg(long)]
        inside: bool,
    },
    /// Runs the virtual machine that its environment describes.
    #[command(hide = true)]
    VmProcess,
    /// Becomes a program without any rights.
    #[command(hide = true)]
    VmStart {
        /// Its argument list.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        argv: Vec<String>,
    },
    /// The first process of a guest.
    #[command(hide = true)]
    VmGuest {
        /// The file that says what to do.
        data: PathBuf,
        /// What User-mode Linux adds to its command line.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
        added: Vec<String>,
    },
    /// The shell on a guest's console.
    #[command(hide = true)]
    VmShell,
    /// A client of the virtual machine of this node.
    #[command(hide = true)]
    VmClient {
        /// The request: console, exec, pause, resume, save or restore.
        what: String,
        /// The most bytes of a program's output; one that writes more is ended.
        #[arg(long)]
        most: Option<u64>,
        /// The program and its arguments.
        #[arg(last = true)]
        argv: Vec<String>,
    },
}

/// The verb of another program, which has its flags, its help and its manual.
pub(crate) const BENCH: &str = "bench";

/// Type of a plug's descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PortKind {
    /// A tap.
    Tap,
    /// A tap beside a port at which the kernel forwards.
    Beside,
    /// A packet socket on an interface of the lab's own.
    Packet,
    /// A packet socket on a card, which also receives frames for other stations.
    Ring,
    /// A listening socket for the card of a virtual machine.
    Guest,
}

// `up` and `run`.
#[derive(Debug, Args)]
pub(crate) struct Up {
    /// The lab file; `-` is standard input. Also another program's file or folder, as for `netloom import`.
    pub(crate) file: PathBuf,
    /// Name of the lab, instead of the file's; -l does the same.
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Leave limits out where this machine cannot set them.
    #[arg(long)]
    pub(crate) ignore_limits: bool,
    /// First take down the lab of this name, if one runs.
    #[arg(long)]
    pub(crate) replace: bool,
    /// Keep a lab that fails to come up in its partial state, for inspection.
    #[arg(long)]
    pub(crate) keep: bool,
    /// Keep manual changes in the nodes of a running lab, and only show them.
    #[arg(long, conflicts_with = "replace")]
    pub(crate) keep_drift: bool,
    /// Bring the lab up on the hosts of this file.
    #[arg(long, value_name = "HOSTS", conflicts_with_all = ["replace", "keep", "keep_drift"])]
    pub(crate) on: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) importing: Importing,
}

/// A lab of `new` and `example`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TemplateName {
    TwoSites,
    Office,
    FrrOspf,
    #[value(alias = "bgp")]
    FrrBgp,
    Openflow,
    FatTree,
    CiTest,
}

// `new`.
#[derive(Debug, Args)]
pub(crate) struct New {
    /// What to begin with.
    #[arg(value_name = "TEMPLATE")]
    pub(crate) template: Option<TemplateName>,
    /// How large it is: for fat-tree, the ports of a switch.
    #[arg(value_parser = template_size)]
    pub(crate) size: Option<u32>,
    /// The file to write. Default: TEMPLATE.yaml.
    #[arg(short, long, value_name = "FILE", requires = "template")]
    pub(crate) output: Option<PathBuf>,
    /// Replace files that are there.
    #[arg(long, requires = "template")]
    pub(crate) force: bool,
}

/// The SIZE of a template. People write the file's name there, as other programs take it.
fn template_size(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| "not a number; the file to write is given by --output".to_owned())
}

// `example`.
#[derive(Debug, Args)]
pub(crate) struct Example {
    /// Its name; without one, what there is.
    #[arg(value_name = "TEMPLATE")]
    pub(crate) template: Option<TemplateName>,
    /// How large it is: for fat-tree, the ports of a switch.
    pub(crate) size: Option<u32>,
    /// Leave limits out where this machine cannot set them.
    #[arg(long)]
    pub(crate) ignore_limits: bool,
}

// `run`.
#[derive(Debug, Args)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) up: Up,
    /// Arguments of a script for Mininet.
    #[arg(last = true, value_name = "ARGUMENT")]
    pub(crate) args: Vec<OsString>,
}

// `down`.
#[derive(Debug, Args)]
pub(crate) struct Down {
    /// The lab, by name or by file. Default: the only running one.
    #[arg(value_name = "LAB")]
    pub(crate) name: Option<String>,
    /// All your labs.
    #[arg(long, conflicts_with_all = ["name", "on"])]
    pub(crate) all: bool,
    /// On the hosts of this file.
    #[arg(long, value_name = "HOSTS")]
    pub(crate) on: Option<PathBuf>,
}

// `agent`.
#[derive(Debug, Args)]
pub(crate) struct AgentArgs {
    /// Talk on standard input and output, the only way so far.
    #[arg(long, required = true)]
    pub(crate) stdio: bool,
}

// `status`, which can be about other hosts; `events` cannot.
#[derive(Debug, Args)]
pub(crate) struct StatusOn {
    #[command(flatten)]
    pub(crate) status: Status,
    /// On the hosts of this file.
    #[arg(long, value_name = "HOSTS", conflicts_with_all = ["limit", "after", "all"])]
    pub(crate) on: Option<PathBuf>,
}

// `check`.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Lab files.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Plan one lab for the hosts of this file: which makes what, and which links are across.
    #[arg(long, value_name = "HOSTS")]
    pub(crate) on: Option<PathBuf>,
    /// With --on: what the lab costs there, with the formulas and their sources.
    #[arg(long, requires = "on")]
    pub(crate) costs: bool,
    /// With --on: an earlier placement, as --json printed it; what it placed stays there where it can.
    #[arg(long, requires = "on", value_name = "FILE")]
    pub(crate) earlier: Option<PathBuf>,
    /// With --on: print JSON.
    #[arg(long, requires = "on")]
    pub(crate) json: bool,
}

// Listings.
#[derive(Debug, Args)]
pub(crate) struct Json {
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

// Objects of a lab, listed by pages.
#[derive(Debug, Args)]
pub(crate) struct Listing {
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// List at most N. Default: 200; all of them with --json.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..1_000_000))]
    pub(crate) limit: Option<u64>,
    /// List what comes after this one: the last of the page before.
    #[arg(long, value_name = "NAME")]
    pub(crate) after: Option<String>,
    /// List all.
    #[arg(long, conflicts_with = "limit")]
    pub(crate) all: bool,
}

// `events`.
#[derive(Debug, Args)]
pub(crate) struct Events {
    /// The lab, by name or by file. Default: the only running one.
    #[arg(value_name = "LAB")]
    pub(crate) name: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

// `status`.
#[derive(Debug, Args)]
pub(crate) struct Status {
    /// The lab, by name or by file. Default: the only running one.
    #[arg(value_name = "LAB")]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) listing: Listing,
}

// `top`.
#[derive(Debug, Args)]
pub(crate) struct Top {
    /// The lab, by name or by file. Default: the only running one; else the list of labs.
    #[arg(value_name = "LAB")]
    pub(crate) name: Option<String>,
    /// Print all tables once, after a second in which rates are counted.
    #[arg(long)]
    pub(crate) once: bool,
}

/// A key and its value.
pub(crate) type Setting = (String, String);

fn setting(text: &str) -> Result<Setting, String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() && !value.is_empty() => {
            Ok((key.to_owned(), value.to_owned()))
        }
        _ => Err("two parts with `=` between them are needed".to_owned()),
    }
}

// `exec`.
#[derive(Debug, Args)]
pub(crate) struct Exec {
    /// Stay in the caller's file system; everything else is the node's.
    #[arg(long)]
    pub(crate) no_root: bool,
    /// Where the lab is on the hosts of this file; without a terminal.
    #[arg(long, value_name = "HOSTS")]
    pub(crate) on: Option<PathBuf>,
    /// The node.
    pub(crate) node: String,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) command: Vec<String>,
}

// A node.
#[derive(Debug, Args)]
pub(crate) struct NodeArg {
    /// The node.
    pub(crate) node: String,
}

// `logs`.
#[derive(Debug, Args)]
pub(crate) struct Logs {
    /// The nodes. Default: all that have programs.
    #[arg(value_name = "NODE")]
    pub(crate) nodes: Vec<String>,
    /// Keep running and show new lines as they arrive.
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Start with the last N lines of each node.
    #[arg(short = 'n', long, value_name = "N")]
    pub(crate) lines: Option<usize>,
    /// Show the time of each line (UTC).
    #[arg(short, long)]
    pub(crate) timestamps: bool,
    /// Where the lab is on the hosts of this file.
    #[arg(long, value_name = "HOSTS")]
    pub(crate) on: Option<PathBuf>,
}

// `cp`.
#[derive(Debug, Args)]
pub(crate) struct Copy {
    /// A path, or NODE:PATH.
    #[arg(value_name = "SRC")]
    pub(crate) source: String,
    /// A path, or NODE:PATH; `-` writes a file of the node to standard output.
    #[arg(value_name = "DST")]
    pub(crate) destination: String,
    /// The most bytes to write, like 64MiB or 2GB; holes of files do not count. Else as many as are free.
    #[arg(long, value_name = "SIZE", value_parser = capture::size)]
    pub(crate) max: Option<u64>,
}

// `ping`.
#[derive(Debug, Args)]
pub(crate) struct Ping {
    /// The node that sends.
    #[arg(value_name = "NODE", requires = "to", conflicts_with = "all")]
    pub(crate) from: Option<String>,
    /// The node that answers.
    #[arg(value_name = "NODE")]
    pub(crate) to: Option<String>,
    /// From every node to every other, one request each.
    #[arg(long, required_unless_present = "from")]
    pub(crate) all: bool,
    /// How many requests from one node to the other, 1 to 1000.
    #[arg(short, long, value_name = "N", default_value_t = 3, conflicts_with = "all",
        value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) count: u32,
    /// Time between two of them, in milliseconds, up to 1000.
    #[arg(short, long, value_name = "MS", default_value_t = 200, conflicts_with = "all",
        value_parser = clap::value_parser!(u64).range(0..=1000))]
    pub(crate) interval: u64,
    /// Only IPv4.
    #[arg(short = '4', conflicts_with = "ipv6")]
    pub(crate) ipv4: bool,
    /// Only IPv6.
    #[arg(short = '6')]
    pub(crate) ipv6: bool,
    /// How long to wait for an answer, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 2000)]
    pub(crate) timeout: u64,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// With --all: between the nodes on all hosts of this file.
    #[arg(long, value_name = "HOSTS")]
    pub(crate) on: Option<PathBuf>,
}

// `graph`.
#[derive(Debug, Args)]
pub(crate) struct Graph {
    /// The running lab, by name or by file; if it does not run, the file. Default: the only running one.
    #[arg(value_name = "LAB")]
    pub(crate) name: Option<String>,
    /// Graphviz' format (default, unless -o names an .svg file).
    #[arg(long, conflicts_with = "svg")]
    pub(crate) dot: bool,
    /// An SVG picture: boxes by role, addresses, impairments; light or dark as the viewer is.
    #[arg(long)]
    pub(crate) svg: bool,
    /// Draw this lab file, whether it runs or not.
    #[arg(long, value_name = "FILE", conflicts_with = "name")]
    pub(crate) file: Option<PathBuf>,
    /// Write into this file instead of standard output; an older one is replaced.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split(' '))
    }

    #[test]
    fn every_role_is_a_hidden_verb() {
        let command = crate::command_line::command();
        for role in Role::ALL {
            let verb = command.find_subcommand(role.verb());
            assert!(verb.is_some_and(clap::Command::is_hide_set), "{}", role.verb());
        }
    }

    #[test]
    fn a_time_has_the_same_names_everywhere() {
        for verb in ["capture a", "generate a:eth0 --to b", "measure a b"] {
            for flag in ["-d", "--duration", "--for"] {
                parse(&format!("netloom {verb} {flag} 3s")).expect(verb);
            }
        }
    }

    #[test]
    fn the_definitions_are_consistent() {
        crate::command_line::command().debug_assert();
    }

    #[test]
    fn the_help_of_a_verb_is_what_the_list_of_verbs_says() {
        let (list, whole) =
            (<Cli as clap::CommandFactory>::command(), crate::command_line::command());
        for verb in list.get_subcommands() {
            let shown = whole.find_subcommand(verb.get_name()).expect("the same verbs");
            let about = |verb: &clap::Command| verb.get_about().map(ToString::to_string);
            assert_eq!(about(verb), about(shown), "{}", verb.get_name());
        }
    }

    #[test]
    fn settings_of_the_file_are_in_the_help_of_their_verbs() {
        let help = |words: &[&str]| {
            let mut command = crate::command_line::command();
            for word in words {
                command = command.find_subcommand(word).expect("a verb").clone();
            }
            let settings = command.get_arguments().find(|arg| arg.get_id() == "settings");
            let shown = settings.and_then(|arg| arg.get_long_help().or(arg.get_help()));
            shown.expect("help").to_string()
        };
        for verb in ["create", "set"] {
            let shown = help(&["node", verb]);
            assert!(netloom_model::node_keys().all(|key| shown.contains(key)), "{shown}");
        }
        let shown = help(&["switch", "create"]);
        assert!(netloom_model::switch_keys().all(|key| shown.contains(key)), "{shown}");
    }

    #[test]
    fn settings_are_key_and_value() {
        let line = "netloom -l x node create t/a cpu=50% root=/a=b --root /r";
        let Verb::Node(Node::Create(create)) = parse(line).unwrap().verb else { panic!("{line}") };
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(create.settings, [pair("cpu", "50%"), pair("root", "/a=b")]);
        assert_eq!(create.root, Some("/r".into()));
        for wrong in ["cpu", "=5", "cpu=", "="] {
            assert!(parse(&format!("netloom node set a {wrong}")).is_err(), "{wrong}");
        }
        assert!(parse("netloom node set a").is_err(), "nothing to set");
    }

    #[test]
    fn impairments_go_by_their_keys_in_the_lab_file() {
        let line = "netloom link set a:eth0 --jitter 1ms,pareto --delay 10ms --end b";
        let Verb::Link(Link::Set(set)) = parse(line).unwrap().verb else { panic!("{line}") };
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(set.settings(), [pair("delay", "10ms"), pair("jitter", "1ms,pareto")]);
        assert_eq!((set.end, set.clear), (Some(End::B), false));
        assert!(parse("netloom link set l --clear").is_ok());
        assert!(parse("netloom link set l --clear --end c").is_err());
        assert!(parse("netloom link fates l --keep 0").is_err());
        assert!(parse("netloom link fates l --count 0").is_err());
    }

    #[test]
    fn every_word_after_bench_is_the_other_program_s() {
        for line in ["lab --quick", "--help", "-h", "--report x --json wire", "--version", ""] {
            let words: Vec<&str> = line.split_whitespace().collect();
            let all = ["netloom", "bench"].iter().chain(&words);
            let Verb::Bench { words: passed } = Cli::try_parse_from(all).expect(line).verb else {
                panic!("{line}")
            };
            assert_eq!(passed, words);
        }
    }

    #[test]
    fn what_follows_the_node_is_the_program_s() {
        for line in ["netloom exec --no-root a -- ls --no-root", "netloom exec --no-root a ls -l"] {
            let Verb::Exec(exec) = parse(line).unwrap().verb else { panic!("{line}") };
            assert!(exec.no_root && exec.node == "a" && exec.command[0] == "ls", "{exec:?}");
            assert_eq!(exec.command.len(), 2, "{exec:?}");
        }
    }
}
