//! The flags of `why`.

use std::time::Duration;

use clap::Args;
use netloom_why::Protocol;

use super::capture::time;
use super::record::moment;

// `why`.
#[derive(Debug, Args)]
pub(crate) struct Why {
    /// The node that sends.
    #[arg(value_name = "NODE", required_unless_present = "losses")]
    pub(crate) from: Option<String>,
    /// The node that is to receive, or an address of it.
    #[arg(value_name = "NODE", required_unless_present = "losses")]
    pub(crate) to: Option<String>,
    /// What is sent: 80/tcp, 53/udp or icmp. Default: echo requests.
    #[arg(value_name = "PORT/PROTO", default_value = "icmp", value_parser = flow)]
    pub(crate) flow: (Protocol, Option<u16>),
    /// Show every place in the lab that lost packets, with the cause, since it was made.
    #[arg(long, conflicts_with_all = ["from", "ipv4", "ipv6"])]
    pub(crate) losses: bool,
    /// With --losses: show only what is lost from now on for so long, like 5s; until interrupted if that is sooner. Else: ask
    /// the recording of the lab about packets of the last time, and send none.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) last: Option<Duration>,
    /// Ask the recording about packets from this time on.
    #[arg(long, value_name = "TIME", value_parser = moment, conflicts_with_all = ["last", "losses"])]
    pub(crate) since: Option<u64>,
    /// Ask the recording about packets before this time.
    #[arg(long, value_name = "TIME", value_parser = moment, conflicts_with_all = ["last", "losses"])]
    pub(crate) until: Option<u64>,
    /// Do what is proposed in a copy of the lab beside it, send the same packets there, and tell whether it helps. The copy is
    /// taken down again.
    #[arg(long = "try", conflicts_with_all = ["losses", "last", "since", "until"])]
    pub(crate) attempt: bool,
    /// Only IPv4.
    #[arg(short = '4', conflicts_with = "ipv6")]
    pub(crate) ipv4: bool,
    /// Only IPv6.
    #[arg(short = '6')]
    pub(crate) ipv6: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// A port with its protocol; that may also come first, as in `tcp/80`.
fn flow(text: &str) -> Result<(Protocol, Option<u16>), String> {
    let wrong = || format!("{text:?} is not a flow; write 80/tcp, 53/udp or icmp");
    if text.eq_ignore_ascii_case("icmp") {
        return Ok((Protocol::Icmp, None));
    }
    let (one, two) = text.split_once('/').ok_or_else(wrong)?;
    let (port, protocol) =
        if one.bytes().all(|b| b.is_ascii_digit()) { (one, two) } else { (two, one) };
    let protocol = match protocol.to_ascii_lowercase().as_str() {
        "tcp" => Protocol::Tcp,
        "udp" => Protocol::Udp,
        _ => return Err(wrong()),
    };
    let port = port.parse().ok().filter(|port| *port > 0).ok_or_else(|| {
        format!("{port:?} is not a port; write one from 1 to 65535, as in 80/tcp")
    })?;
    Ok((protocol, Some(port)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_ports_with_protocols() {
        assert_eq!(flow("80/tcp"), Ok((Protocol::Tcp, Some(80))));
        assert_eq!(flow("UDP/53"), Ok((Protocol::Udp, Some(53))));
        assert_eq!(flow("icmp"), Ok((Protocol::Icmp, None)));
        for wrong in ["80", "tcp", "80/sctp", "/tcp", "80/icmp", ""] {
            assert!(flow(wrong).unwrap_err().contains("80/tcp"), "{wrong}");
        }
        for wrong in ["0/tcp", "65536/udp", "tcp/x"] {
            assert!(flow(wrong).unwrap_err().contains("65535"), "{wrong}");
        }
    }
}
