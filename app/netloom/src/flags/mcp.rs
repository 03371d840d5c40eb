//! The flags of `mcp`.

use clap::Args;

// `mcp`.
#[derive(Debug, Args)]
#[command(
    after_help = "A client starts it and talks to it by JSON-RPC; it ends with its input. With -l LAB it reaches that lab only. \
                        Tools that remove something answer their plan first, and want its word of confirmation back."
)]
pub(crate) struct Mcp {
    /// Offer only tools that change nothing: state, plans, logs, pings, `why`, captures.
    #[arg(long)]
    pub(crate) read_only: bool,
}
