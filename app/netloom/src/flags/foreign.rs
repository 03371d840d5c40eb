//! The flags of `import` and `export`, and those by which other verbs import.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

// What an import is told, also by `up` and `run`.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Importing {
    /// Of another program's lab: end if anything of it is left out.
    #[arg(long)]
    pub(crate) strict: bool,
    /// Of another program's lab: nodes run the host's programs, although it names images.
    #[arg(long)]
    pub(crate) host_programs: bool,
    /// Of a lab of containerlab: its management network.
    #[arg(long, value_name = "KIND", default_value = "closed")]
    pub(crate) mgmt: ManagementKind,
    /// Of a lab of containerlab, Kathara or netlab: only these nodes, and the links between them.
    #[arg(long, value_name = "NODE,...", value_delimiter = ',')]
    pub(crate) node_filter: Vec<String>,
    /// Of a script for Mininet: the topology of this name in its `topos`.
    #[arg(long, value_name = "NAME")]
    pub(crate) topo: Option<String>,
}

/// What becomes of containerlab's management network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ManagementKind {
    /// A switch that leads nowhere.
    #[default]
    Closed,
    /// A switch with a door to the host's network; needs root.
    Nat,
    /// None: nodes have no eth0.
    None,
}

// `import`.
#[derive(Debug, Args)]
#[command(
    after_help = "Formats: containerlab (.clab.yml, .gotmpl), Kathara (a folder with lab.conf), Mininet (.py), GNS3 (.gns3), \
                  CORE (.xml), IMUNES (.imn), netlab (topology.yml). Every item of the files is reported as carried, changed or left out, with its \
                  line. A script for Mininet is run, with a stand-in for its package that only records."
)]
pub(crate) struct Import {
    /// The other program's file, the folder of its lab, or - for a file on standard input.
    #[arg(value_name = "FILE|FOLDER")]
    pub(crate) from: PathBuf,
    /// The lab file to write; without it the lab goes to standard output, and the report to standard error.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// The lab's name, instead of that of its file or folder.
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Replace a file that is there already.
    #[arg(long, requires = "output")]
    pub(crate) force: bool,
    /// Print the report as JSON, with the lab in it unless it is written to a file.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) importing: Importing,
}

// `export`.
#[derive(Debug, Subcommand)]
pub(crate) enum Export {
    /// Write a lab for c9s (Clabernetes), which runs topologies of containerlab on Kubernetes: a pod for each node.
    C9s(ExportTopology),
    /// Write a lab as a topology of containerlab.
    Containerlab(ExportTopology),
    /// Write manifests of Kubernetes for the hosts of a lab, a pod each, and the hosts file of the pods.
    Kubernetes(ExportKubernetes),
    /// Write the lab file of a running lab, with what was changed by hand.
    Lab(ExportLab),
}

// `export lab`.
#[derive(Debug, Args)]
pub(crate) struct ExportLab {
    /// The lab, by name or by file. Default: the only running one.
    #[arg(value_name = "LAB")]
    pub(crate) name: Option<String>,
    /// The lab file to write; without it, it goes to standard output.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Replace a file that is there already.
    #[arg(long, requires = "output")]
    pub(crate) force: bool,
}

// `export containerlab` and `export c9s`.
#[derive(Debug, Args)]
pub(crate) struct ExportTopology {
    /// The lab file.
    pub(crate) file: PathBuf,
    /// The file to write; without it, the topology goes to standard output.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// The image of nodes that name none; it must have `ip` and `sysctl`.
    #[arg(long, default_value = "alpine:3")]
    pub(crate) image: String,
    /// Print the report as JSON, with the topology in it unless it is written to a file.
    #[arg(long)]
    pub(crate) json: bool,
}

// `export kubernetes`.
#[derive(Debug, Args)]
pub(crate) struct ExportKubernetes {
    /// The lab file.
    pub(crate) file: PathBuf,
    /// How many pods, each of which makes a part of the lab.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) parts: u32,
    /// The image of the pods, which has netloom, and `sleep`.
    #[arg(long, default_value = concat!("netloom:", env!("CARGO_PKG_VERSION")))]
    pub(crate) image: String,
    /// Write the hosts file of the pods instead: what `kubectl get pods -o json` printed of the job's.
    #[arg(long, value_name = "JSON")]
    pub(crate) pods: Option<PathBuf>,
    /// The MTU of the network between the pods.
    #[arg(long, value_name = "BYTES", default_value_t = 1500, value_parser = clap::value_parser!(u32).range(1280..=65535))]
    pub(crate) pod_mtu: u32,
    /// The file to write; without it, it goes to standard output.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}
