//! TCP sockets whose process has ended and that still have something to send.
//!
//! The kernel keeps such an orphan, and with it the socket's network namespace, until the other end has acknowledged or it
//! has tried for minutes (tcp(7), `tcp_orphan_retries`). In a lab that goes, the way to the other end goes first. So the
//! namespaces of ended nodes are told to try once, after which the kernel destroys them within a second. Nodes that live are not
//! touched: there a closed connection still delivers what it has.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};

use netloom_sys::namespace;

use crate::stage::inits::Init;
use crate::stage::spaces::on_a_thread;

/// How often an orphan tries, by namespace, for both families.
const RETRIES: &str = "/proc/sys/net/ipv4/tcp_orphan_retries";

/// The network namespaces of nodes that are about to end.
pub(crate) struct Orphans(Vec<OwnedFd>);

impl Orphans {
    /// Opens the namespaces of living inits, `most` of them. They live as long as this does.
    pub(crate) fn of(inits: &[Init], most: usize) -> Orphans {
        let apart = inits.iter().filter(|init| init.has_own_network());
        Orphans(apart.filter_map(|init| namespace::network_of(init.pid).ok()).take(most).collect())
    }

    /// The nodes have ended: has their orphans give up soon, if there is one anywhere on this machine.
    pub(crate) fn give_up(self) {
        if count(&fs::read_to_string("/proc/net/sockstat").unwrap_or_default()) == 0 {
            return;
        }
        // Without it, the end takes longer.
        let _ = on_a_thread(|| {
            for space in &self.0 {
                if namespace::enter_network(space.as_fd()).is_ok() {
                    let _ = fs::write(RETRIES, "1");
                }
            }
            Ok(())
        });
    }
}

/// The number of orphans of all namespaces: `TCP: inuse 1 orphan 2 tw 0 …`.
fn count(sockstat: &str) -> u64 {
    let tcp = sockstat.lines().find_map(|line| line.strip_prefix("TCP:")).unwrap_or_default();
    let mut words = tcp.split_whitespace();
    let after = words.by_ref().find(|word| *word == "orphan").and_then(|_| words.next());
    after.and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orphans_are_counted() {
        let text =
            "sockets: used 9\nTCP: inuse 4 orphan 6 tw 2 alloc 7 mem 2817\nUDP: inuse 2 mem 1\n";
        assert_eq!(count(text), 6);
        assert_eq!(count("UDP: orphan 3\nTCP: inuse 4\n"), 0);
        let here = fs::read_to_string("/proc/net/sockstat").expect("the kernel has it");
        assert!(
            here.lines().any(|line| line.starts_with("TCP:") && line.contains(" orphan ")),
            "{here}"
        );
    }
}
