//! The flags of `serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

/// `serve`.
#[derive(Debug, Args)]
#[command(
    after_help = "Without -l it serves measurements at the interfaces of the network namespace that it \
                        is started in: POST /pnpm/ prepares one, PUT /pnpm/N/state starts it, \
                        GET /pnpm/N/measures reads it. With -l LAB it serves all that the lab answers on its \
                        socket, where measurements are under /pnpm/, too. Every request needs the header \
                        `Authorization: Bearer TOKEN`. What is sent is not encrypted."
)]
pub(crate) struct Serve {
    /// Where to listen; port 0 is any that is free. Addresses of this machine alone need no thought:
    /// others are reached from outside.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8474")]
    pub(crate) listen: SocketAddr,
    /// Take the token from this file, or write one into it if it is not there; mode 0600. Without a file
    /// the token is shown once.
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// By what records of this probe are known; the machine's name if not given.
    #[arg(long)]
    pub(crate) name: Option<String>,
}
