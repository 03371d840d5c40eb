//! The flags of `link`.

use std::path::PathBuf;

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, Subcommand, ValueEnum};
use netloom_model::impairment::{self, Flag};

use super::{Listing, Setting, setting};

// `link`.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum Link {
    /// Create a link between two nodes, or a node and a switch or nowhere, and print its name.
    Create(Box<LinkCreate>),
    /// Delete a link and its interfaces.
    Delete(LinkName),
    /// List links with their delay, loss, rate and other settings.
    List(Listing),
    /// Show everything about a link.
    Show(LinkShow),
    /// Change the delay, loss, rate or other settings of a link, or take it down or up; `none` removes a setting.
    Set(Box<LinkSet>),
    /// Follow what happens to single packets of a link, until interrupted.
    Fates(LinkFates),
}

// A link.
#[derive(Debug, Args)]
pub(crate) struct LinkName {
    /// The link: its name, an end of it (NODE:IFACE), or both ends: A B, A,B or A-B.
    #[arg(value_name = "LINK", required = true, num_args = 1..=2)]
    link: Vec<String>,
}

impl LinkName {
    /// As one word.
    pub(crate) fn word(&self) -> String {
        self.link.join(",")
    }
}

// `link create`.
#[derive(Debug, Args)]
pub(crate) struct LinkCreate {
    /// One end: NODE, NODE:IFACE, SWITCH, or nowhere.
    pub(crate) a: String,
    /// The other.
    pub(crate) b: String,
    /// Name of the link. Default: both ends, like h1:eth0--s1.
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Address of an end with its prefix, one per family, or none. Default: automatic.
    #[arg(long = "address", value_name = "END=ADDRESS/PREFIX|END=none", value_parser = setting)]
    pub(crate) addresses: Vec<Setting>,
    /// Hardware address of an end. Default: from names.
    #[arg(long = "mac", value_name = "END=MAC", value_parser = setting)]
    pub(crate) macs: Vec<Setting>,
    #[command(flatten)]
    pub(crate) impairments: Impairments,
    /// MTU of both ends, in bytes.
    #[arg(long, value_name = "BYTES")]
    pub(crate) mtu: Option<String>,
}

// `link show`.
#[derive(Debug, Args)]
pub(crate) struct LinkShow {
    #[command(flatten)]
    pub(crate) link: LinkName,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

// Impairments of a link. Values are as in the lab file. `mtu` is a flag of its own: that of a new link is the interfaces'.
#[derive(Debug)]
pub(crate) struct Impairments {
    /// The given settings, by their keys in the lab file.
    given: Vec<Setting>,
}

impl Impairments {
    fn flags() -> impl Iterator<Item = Flag> {
        impairment::flags().filter(|flag| flag.key != "mtu")
    }
}

impl FromArgMatches for Impairments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Impairments, clap::Error> {
        let value = |key| Some(matches.get_one::<String>(key)?.clone());
        let given = Impairments::flags()
            .filter_map(|Flag { key, .. }| Some((key.to_owned(), value(key)?)))
            .collect();
        Ok(Impairments { given })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Impairments::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Impairments {
    fn augment_args(command: Command) -> Command {
        let arg = |Flag { key, value, help }| {
            Arg::new(key).long(key).value_name(value).help(help).allow_hyphen_values(true)
        };
        Impairments::flags().fold(command, |command, flag| command.arg(arg(flag)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Impairments::augment_args(command)
    }
}

/// Inserts the MTU at its place among the keys of the file.
fn with_mtu(mut settings: Vec<Setting>, mtu: Option<&String>) -> Vec<Setting> {
    settings.extend(mtu.map(|value| ("mtu".to_owned(), value.clone())));
    settings
}

impl LinkCreate {
    /// The given settings, by their keys in the lab file.
    pub(crate) fn settings(&self) -> Vec<Setting> {
        with_mtu(self.impairments.given.clone(), self.mtu.as_ref())
    }
}

// `link set`. Values are as in the lab file; `none` removes one.
#[derive(Debug, Args)]
pub(crate) struct LinkSet {
    /// The link: its name, the end that sends (NODE:IFACE), or both ends: A B, A,B or A-B.
    #[arg(value_name = "LINK", required = true, num_args = 1..=2)]
    link: Vec<String>,
    #[command(flatten)]
    impairments: Impairments,
    /// The largest packet in bytes; larger ones are lost.
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true)]
    mtu: Option<String>,
    /// Change only what this end sends: a is the first end of the link, b the second.
    #[arg(long)]
    pub(crate) end: Option<End>,
    /// Remove all settings first.
    #[arg(long)]
    pub(crate) clear: bool,
    /// Take the link down, as if its cable were pulled: both ends lose their carrier.
    #[arg(long, conflicts_with = "up")]
    down: bool,
    /// Take the link up again.
    #[arg(long)]
    up: bool,
    /// Where the lab is on the hosts of this file.
    #[arg(long, value_name = "HOSTS")]
    pub(crate) on: Option<PathBuf>,
}

impl LinkSet {
    /// The link as one word.
    pub(crate) fn link(&self) -> String {
        self.link.join(",")
    }

    /// The given settings, by their keys in the lab file.
    pub(crate) fn settings(&self) -> Vec<Setting> {
        with_mtu(self.impairments.given.clone(), self.mtu.as_ref())
    }

    /// Whether to take it up, or down.
    pub(crate) fn up(&self) -> Option<bool> {
        (self.up || self.down).then_some(self.up)
    }
}

/// An end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum End {
    /// The first.
    A,
    /// The second.
    B,
}

// `link fates`.
#[derive(Debug, Args)]
pub(crate) struct LinkFates {
    /// The link: its name, the end that sends (NODE:IFACE), or both ends: A B, A,B or A-B.
    #[arg(value_name = "LINK", required = true, num_args = 1..=2)]
    link: Vec<String>,
    /// Packets of each direction that are remembered until they are shown.
    #[arg(long, value_name = "N", default_value_t = 100_000,
        value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) keep: u32,
    /// Stop after this many.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// Print JSON, one packet per line.
    #[arg(long)]
    pub(crate) json: bool,
}

impl LinkFates {
    /// The link as one word.
    pub(crate) fn link(&self) -> String {
        self.link.join(",")
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use netloom_model::impairment::KEYS;

    use super::*;
    use crate::flags::{Cli, Verb};

    fn settings(line: &str) -> Vec<Setting> {
        match Cli::try_parse_from(line.split(' ')).map(|cli| cli.verb) {
            Ok(Verb::Link(Link::Set(args))) => args.settings(),
            Ok(Verb::Link(Link::Create(args))) => args.settings(),
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn every_impairment_of_the_file_has_its_flag() {
        for key in KEYS {
            let expected = [((*key).to_owned(), "-x".to_owned())];
            assert_eq!(settings(&format!("netloom link set l --{key} -x")), expected);
            let expected = [((*key).to_owned(), "x".to_owned())];
            assert_eq!(settings(&format!("netloom link create a b --{key} x")), expected);
        }
        let all: String = KEYS.iter().map(|key| format!(" --{key} x")).collect();
        let order: Vec<String> =
            settings(&format!("netloom link set l{all}")).into_iter().map(|(key, _)| key).collect();
        assert!(KEYS.iter().all(|key| order.iter().filter(|of| of == key).count() == 1));
    }
}
