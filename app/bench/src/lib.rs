//! Experiments that measure netloom's promises, together with its peers in the same call.
//!
//! An experiment drives the binary as a user would, in a private runtime directory, alternates with its peers
//! round by round, and returns a [`Report`]: rows with mean and 95 % confidence interval, ratios, values. A
//! peer that is not installed is reported as missing, never as beaten. Experiments touch only their own
//! traffic and namespaces, and remove them even when they fail.

#![forbid(unsafe_code)]

/// A line about what is measured now, on standard error; lost if nobody reads it any more.
macro_rules! progress {
    ($($words:tt)*) => { netloom_sys::journal::line(format_args!($($words)*)) };
}

mod capture;
mod daemon;
mod disk;
mod driver;
mod facts;
mod flood;
mod generate;
mod guard;
mod images;
mod inside;
mod lab;
mod machine;
mod measure;
mod node;
mod openflow;
mod peer;
mod people;
mod plug;
mod processes;
mod report;
mod rounds;
mod router;
mod running;
mod settle;
mod slice;
mod sweeper;
mod switch;
mod ticks;
mod vde;
mod vm;
mod wire;

use std::path::Path;

use anyhow::{Result, bail};

pub use peer::peer;
pub use report::{Report, Row};

/// How an experiment is run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Only the cells that feed ratios and values, within 120 s.
    pub quick: bool,
}

/// Names of the experiments, each with a one-line description.
pub fn names() -> &'static [(&'static str, &'static str)] {
    &[
        ("lab", "time to bring up and take down labs of 2, 100 and 1,000 nodes; memory of a node"),
        ("node", "what a node costs the programs in it: loopback throughput, packet rate"),
        ("flood", "what a node keeps of its throughput while neighbours flood it"),
        ("images", "time to make, remove, use, move and list in a running lab; memory of a node"),
        ("switch", "the shared-memory switch between processes and nodes; its CPU, its latency"),
        (
            "openflow",
            "the OpenFlow switch: frames, TCP, flows set up, time until a change is obeyed",
        ),
        ("slice", "what a slicer costs: rules, flows set up, delays, memory, proofs"),
        (
            "router",
            "what routers of several kinds forward, what a hostile neighbour costs, what a platform costs",
        ),
        ("plug", "what goes through a plug between the switch and a card, in and out"),
        ("wire", "how exactly links delay, lose and limit; throughput through them"),
        ("capture", "frames a second captured without a loss, thrown away and stored"),
        ("disk", "how fast a folder is written: by hand, and by the writer of captures"),
        ("generate", "frames a second that are made, and how exactly they are paced"),
        ("measure", "what measuring flows costs a packet and a path, and how exact its delays are"),
        ("guard", "what asking costs: added time of guarded calls, established connections"),
        (
            "people",
            "what people wait for: nodes from images, images that are fetched, one link more in a running lab, what leaves by pasta",
        ),
        ("vm", "frames through the card of a virtual machine, and streams between two machines"),
    ]
}

/// Runs an experiment with `exe`, the `netloom` binary; progress goes to stderr. `folder` is where `disk`
/// writes, by default the folder for temporary files.
///
/// # Errors
/// An unknown name, or anything that prevents measuring the binary itself.
pub fn run(name: &str, options: Options, folder: Option<&Path>, exe: &Path) -> Result<Report> {
    if folder.is_some() && name != "disk" {
        bail!("experiment `{name}`: it takes no folder");
    }
    match name {
        "lab" => lab::run(options, exe),
        "node" => node::run(options, exe),
        "flood" => flood::run(options, exe),
        "images" => images::run(options, exe),
        "switch" => switch::run(options, exe),
        "openflow" => openflow::run(options, exe),
        "slice" => slice::run(options, exe),
        "router" => router::run(options, exe),
        "plug" => plug::run(options, exe),
        "wire" => wire::run(options, exe),
        "capture" => capture::run(options, exe),
        "disk" => disk::run(options, folder),
        "generate" => generate::run(options, exe),
        "guard" => guard::run(options, exe),
        "measure" => measure::run(options, exe),
        "people" => people::run(options, exe),
        "vm" => vm::run(options, exe),
        other => {
            let known: Vec<&str> = names().iter().map(|(name, _)| *name).collect();
            bail!("experiment `{other}`: no such experiment; there are: {}", known.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_experiment_is_told_with_the_known_ones() {
        let error = run("labb", Options::default(), None, Path::new("/nowhere")).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("there are: lab, node, flood, images, switch, openflow, slice, router,"),
            "{error}"
        );
    }
}
