//! The name servers of this machine, by resolv.conf(5).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Most servers: what the C library takes (`MAXNS`), and some more for programs that take more.
const MOST: usize = 8;

/// The servers that a text names; without any, the C library asks this machine.
pub(super) fn servers(text: &str) -> Vec<IpAddr> {
    let lines = text.lines().filter_map(|line| line.trim_start().strip_prefix("nameserver"));
    // A server with a scope (`fe80::1%eth0`) is known by its interface, which names stand for elsewhere: left out.
    let named = lines.filter_map(|rest| rest.split_whitespace().next()?.parse::<IpAddr>().ok());
    // The unspecified address leads to this machine.
    let reached = |server: IpAddr| match server.to_canonical() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        server => server,
    };
    let mut all: Vec<IpAddr> = named.map(reached).take(MOST).collect();
    if all.is_empty() {
        all = vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(all: &str) -> Vec<String> {
        servers(all).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn servers_are_read_as_the_c_library_reads_them() {
        let conf = "# nameserver 1.1.1.1\nsearch a.example\nnameserver 10.0.0.53 # first\n\
                    \tnameserver\tfd00::53\nnameserver fe80::1%eth0\nnameserver names\noptions edns0\n";
        assert_eq!(text(conf), ["10.0.0.53", "fd00::53"]);
        assert_eq!(text("search a\n"), ["127.0.0.1", "::1"]);
        assert_eq!(text("nameserver 0.0.0.0\nnameserver ::\n"), ["127.0.0.1", "::1"]);
        assert_eq!(text(&"nameserver 10.0.0.1\n".repeat(20)).len(), MOST);
    }
}
