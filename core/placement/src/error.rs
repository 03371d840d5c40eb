//! Why a lab cannot be placed.

use netloom_config::quote;

/// Why a lab cannot be placed on these hosts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A pin names no host.
    #[error("place: {}: no host {} in the hosts file{}", quote(.of), quote(.host), suggestion(.meant.as_deref()))]
    NoHost {
        /// The pin's name or pattern.
        of: String,
        /// The host.
        host: String,
        /// A host of a similar name.
        meant: Option<String>,
    },
    /// Two objects must be on one host and are pinned to different ones.
    #[error(
        "place: {} and {} must be on one host ({reason}), and are pinned to different ones; pin both to the same",
        quote(.first), quote(.second)
    )]
    Apart {
        /// An object.
        first: String,
        /// Another one.
        second: String,
        /// Why they must be together.
        reason: String,
    },
    /// No host has what an object needs.
    #[error("{what} needs {needs}; {left}")]
    NoRoom {
        /// The object: `node "h1"`.
        what: String,
        /// What it needs: `4.0 GiB of memory and 2 CPUs`.
        needs: String,
        /// What is left, and what to do.
        left: String,
    },
    /// What was chosen does not fit the plan: a mistake of this program.
    #[error("{0}")]
    Misfit(&'static str),
    /// An earlier placement cannot be read.
    #[error("{0}")]
    Earlier(String),
}

fn suggestion(name: Option<&str>) -> String {
    name.map_or_else(String::new, |name| format!("; did you mean {}?", quote(name)))
}
