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
                         `Authorization: Bearer TOKEN`. Traffic is not encrypted. With --page a browser shows the lab: a map with \
                         the state, rate and loss of every link, and what to change; open the printed link."
)]
pub(crate) struct Serve {
    /// Address and port to listen on; port 0 picks a free one. Other machines can reach any address except
    /// loopback.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8474", value_parser = listening)]
    pub(crate) listen: SocketAddr,
    /// Read the token from this file, which has to be yours or root's alone; if absent, it is created with a new token
    /// (mode 0600). Without a file the token is printed once.
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Also answer requests that address the server by this name; may be given several times. Addresses, `localhost` and
    /// the machine's name always will do. Any other name is refused: a page in a browser may have pointed its own here.
    #[arg(long = "host", value_name = "NAME")]
    pub(crate) hosts: Vec<String>,
    /// Serve the lab's page, too, and print its link, which has the token behind `#`. Without -l: that of the only lab.
    #[arg(long, conflicts_with = "name")]
    pub(crate) page: bool,
    /// Answer only what changes nothing in the lab, and open no terminals: all else is refused with 403.
    #[arg(long, conflicts_with = "name")]
    pub(crate) read_only: bool,
    /// Open the page's link with xdg-open; implies --page.
    #[arg(long, conflicts_with = "name")]
    pub(crate) open: bool,
    /// Name of this probe in its records. Default: the machine's name.
    #[arg(long)]
    pub(crate) name: Option<String>,
}

impl Serve {
    /// Whether the page is wanted.
    pub(crate) fn has_page(&self) -> bool {
        self.page || self.open
    }
}

/// An address to listen on.
fn listening(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| match text.trim_start_matches(':').parse::<u16>() {
        Ok(port) => format!("an address is missing; write 127.0.0.1:{port}"),
        Err(_) => {
            "an address and a port are expected, like 127.0.0.1:8474 or [::1]:8474".to_owned()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_is_none_is_told_with_what_to_write() {
        assert_eq!(listening("[::1]:80"), Ok("[::1]:80".parse().unwrap()));
        for (text, told) in [
            ("8080", "write 127.0.0.1:8080"),
            (":80", "write 127.0.0.1:80"),
            ("here", "like 127.0.0.1:8474"),
        ] {
            assert!(listening(text).unwrap_err().contains(told), "{text}");
        }
    }
}
