//! The flags of `slice`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

// `slice`.
#[derive(Debug, Subcommand)]
pub(crate) enum Slice {
    /// Show slices: their virtual switches with ports and controllers, and the last refused request, with an example packet.
    Show(SliceShow),
    /// Show what slices use and what limits denied them: rules, messages, packets, CPU time.
    Stats(SliceShow),
    /// Check files of slices, and show all errors, with line and column.
    Check(SliceCheck),
    /// Run a slicer between switches that are in no lab and the controllers of slices, until interrupted.
    Run(SliceRun),
}

/// `slice show`, `slice stats`.
#[derive(Debug, Args)]
pub(crate) struct SliceShow {
    /// A slice of the lab, or the file of slices of a slicer that runs for itself. Default: all slices of the lab.
    #[arg(value_name = "SLICE|FILE")]
    pub(crate) what: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `slice check`.
#[derive(Debug, Args)]
pub(crate) struct SliceCheck {
    /// The files; - is the standard input.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
}

/// `slice run`.
#[allow(rustdoc::broken_intra_doc_links, reason = "the text of --help has brackets")]
#[derive(Debug, Args)]
pub(crate) struct SliceRun {
    /// The file of slices: `switches` with their datapath ids, and `slices` as in a lab file.
    pub(crate) file: PathBuf,
    /// Where switches are or connect: tcp:ADDRESS[:PORT], tls:ADDRESS[:PORT] and unix:PATH are connected to,
    /// ptcp:[PORT][:ADDRESS] and ptls:[PORT][:ADDRESS] are listened at. Give it once for each. Default: ptcp:6653:127.0.0.1.
    #[arg(long = "switch", value_name = "TARGET")]
    pub(crate) switches: Vec<String>,
    /// A PEM file with the certificates of the authorities that sign for switches, for tls and ptls.
    #[arg(long, value_name = "FILE")]
    pub(crate) authorities: Option<PathBuf>,
    /// The slicer's own certificate for switches.
    #[arg(long, value_name = "FILE", requires_all = ["authorities", "key"])]
    pub(crate) certificate: Option<PathBuf>,
    /// Its private key.
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub(crate) key: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::{Cli, Verb};
    use clap::Parser;

    fn parse(line: &[&str]) -> Result<Slice, clap::Error> {
        match Cli::try_parse_from(["netloom", "slice"].iter().chain(line))?.verb {
            Verb::Slice(slice) => Ok(slice),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_slicer_is_told_its_switches() {
        let Slice::Run(run) =
            parse(&["run", "p.yaml", "--switch", "ptcp:", "--switch", "unix:/a"]).unwrap()
        else {
            panic!()
        };
        assert_eq!(run.switches, ["ptcp:", "unix:/a"]);
        for wrong in [&["run"][..], &["check"], &["run", "p.yaml", "--key", "k"]] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
        assert!(matches!(parse(&["show"]).unwrap(), Slice::Show(show) if show.what.is_none()));
    }
}
