//! The flags of `serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

// `serve`.
#[derive(Debug, Args)]
#[command(
    after_help = "Without -l it serves measurements at the interfaces of the network namespace that it \
                        is started in: POST /pnpm/ prepares one, PUT /pnpm/N/state starts it, \
                        GET /pnpm/N/measures reads it. With -l LAB it serves all that the lab answers on its \
                        socket, where measurements are under /pnpm/, too, and Prometheus reads GET /metrics. Every request needs the header \
                        `Authorization: Bearer TOKEN`. Traffic is not encrypted."
)]
pub(crate) struct Serve {
    /// Address and port to listen on; port 0 picks a free one. Other machines can reach any address except
    /// loopback.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8474")]
    pub(crate) listen: SocketAddr,
    /// Read the token from this file, which has to be yours or root's alone; if absent, it is created with a new token
    /// (mode 0600). Without a file the token is printed once.
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Also answer requests that address the server by this name; may be given several times. Addresses, `localhost` and
    /// the machine's name always will do. Any other name is refused: a page in a browser may have pointed its own here.
    #[arg(long = "host", value_name = "NAME")]
    pub(crate) hosts: Vec<String>,
    /// Name of this probe in its records. Default: the machine's name.
    #[arg(long)]
    pub(crate) name: Option<String>,
}
