//! Readiness of a node: its TCP ports listen, its files exist, its command succeeds.
//!
//! The node's init checks in the node's own namespaces. A port counts as open when the kernel lists a
//! listening socket for it, so no connection disturbs the program (proc_net_tcp.txt).

use std::path::Path;

use netloom_config::printable;
use netloom_model::lab::Ready;

/// `TCP_LISTEN` of include/net/tcp_states.h, as printed in /proc/net/tcp.
const LISTEN: &str = "0A";

/// What a program says in this file that it still waits for.
pub(crate) fn told(file: &Path) -> Option<String> {
    match std::fs::read_to_string(file) {
        Ok(words) if words.is_empty() => None,
        Ok(words) => Some(words),
        Err(_) => Some("its program has not begun".to_owned()),
    }
}

/// The first unmet condition other than the command; `None` if all are met.
pub(crate) fn lacking(ready: &Ready) -> Option<String> {
    if let Some(path) = ready.files.iter().find(|p| !std::path::Path::new(p.as_str()).exists()) {
        return Some(format!("file {} does not exist", printable::line(path)));
    }
    if ready.tcp.is_empty() {
        return None;
    }
    let tables = ["/proc/self/net/tcp", "/proc/self/net/tcp6"]
        .map(|p| std::fs::read_to_string(p).unwrap_or_default());
    let listens = |port: u16| tables.iter().any(|t| listening_ports(t).any(|p| p == port));
    ready.tcp.iter().find(|p| !listens(**p)).map(|p| format!("no program listens on TCP port {p}"))
}

/// Ports of listening sockets in the text of /proc/net/tcp or tcp6.
fn listening_ports(table: &str) -> impl Iterator<Item = u16> + '_ {
    table.lines().skip(1).filter_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let local = fields.next()?;
        let state = fields.nth(1)?;
        let (_, port) = local.rsplit_once(':')?;
        (state == LISTEN).then(|| u16::from_str_radix(port, 16).ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listening_sockets_count() {
        let table = "  sl  local_address rem_address   st\n\
            0: 0100007F:1F90 00000000:0000 0A 00000000:00000000\n\
            1: 0100007F:0050 0100007F:1F90 01 00000000:00000000\n\
            broken\n";
        assert_eq!(listening_ports(table).collect::<Vec<_>>(), [8080]);
    }
}
