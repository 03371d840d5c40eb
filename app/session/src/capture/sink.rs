//! What a sink means for others at an interface: which frames still pass, and who misses frames.
//!
//! The program at XDP decides frame by frame (`TapOptions::others`). This tells the user beforehand what can be
//! seen from here: a bridge above the interface, for which frames pass, and packet sockets of all interfaces, of
//! which the program knows nothing.

use std::fs;

use netloom_netlink::LinkInfo;

/// Packet sockets of the calling thread's network namespace (packet(7)).
const SOCKETS: &str = "/proc/thread-self/net/packet";

/// What the user is told of a sink at this interface of the calling thread's network namespace.
pub(super) fn words(link: &LinkInfo) -> String {
    if link.master.is_some() {
        return "; but a bridge takes them, so they pass".to_owned();
    }
    let sockets = fs::read_to_string(SOCKETS).map_or(0, |table| everywhere(&table));
    match sockets {
        0 => String::new(),
        1 => "; a packet socket of all interfaces does not see them".to_owned(),
        many => format!("; {many} packet sockets of all interfaces do not see them"),
    }
}

/// Sockets in this table that receive, and are bound to no interface: `sk RefCnt Type Proto Iface ...`.
fn everywhere(table: &str) -> usize {
    let unbound = |line: &&str| {
        let mut fields = line.split_whitespace().skip(3);
        // One of protocol 0 receives nothing (packet(7)), and index 0 stands for every interface.
        fields.next().is_some_and(|protocol| protocol != "0000") && fields.next() == Some("0")
    };
    table.lines().skip(1).filter(unbound).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_of_all_interfaces_that_receive_are_counted() {
        let head = "sk               RefCnt Type Proto  Iface R Rmem   User   Inode\n";
        let line = |protocol: &str, interface: &str| {
            format!(
                "0000000000000000 3      3    {protocol}   {interface}     1 0      0      271\n"
            )
        };
        let table = [head, &line("0003", "0"), &line("0003", "2"), &line("0000", "0")].concat();
        assert_eq!(everywhere(&table), 1);
        assert_eq!(everywhere(head), 0);
        assert_eq!(everywhere(""), 0);
    }
}
