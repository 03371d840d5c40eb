//! What each cause of a loss is, in a clause; and which of a link's impairments it follows from.

/// Causes at nodes and of the machine.
const OF_NODES: [(&str, &str); 21] = [
    ("protect", "beyond the node's budget (`protect`)"),
    (
        "own-interfaces",
        "at an interface that the lab did not make, such as a tunnel or a guest's tap",
    ),
    ("discipline", "by a queueing discipline of the node's own (`tc -s qdisc`)"),
    ("socket-buffer", "a program did not read its socket in time"),
    ("socket-memory", "the kernel's memory for sockets was full"),
    ("send-buffer", "a program sent more than its socket holds"),
    ("listen-queue", "a program accepted connections too slowly"),
    ("tcp-backlog", "a program read its connection too slowly"),
    ("checksum", "damaged on the way: the checksum was wrong"),
    ("closed-port", "no program was at that UDP port"),
    ("bad-header", "a wrong header, or a hop limit that was used up"),
    ("bad-address", "for another node, and this one does not forward; or no valid address"),
    ("reverse-path", "the way back leads elsewhere (`rp_filter`)"),
    ("no-route", "the node has no route for it"),
    ("unknown-protocol", "nobody in the node handles its protocol"),
    ("discarded", "the network stack dropped it and does not say why"),
    ("reassembly", "a fragment did not come in time"),
    ("too-long", "longer than the next hop takes"),
    ("conntrack", "the table of connections was full"),
    ("neighbour-queue", "waited for a neighbour's address that did not come; of all labs together"),
    ("neighbour-table", "the kernel's table of neighbours was full; of all labs together"),
];

/// Causes at links: of wires by their name in the wire's books.
const OF_WIRES: [(&str, &str, &[&str]); 10] = [
    ("loss", "chosen by the link's impairment", &["loss"]),
    ("drop", "matched by the link's impairment", &["drop"]),
    ("limit", "as many packets as may be held were", &["limit", "delay"]),
    ("queue", "the queue before the rate was full", &["rate", "queue"]),
    ("mtu", "longer than the link's impairment lets pass", &["mtu"]),
    ("memory", "the wire's memory for held frames was full", &["delay"]),
    ("overrun", "the wire did not read it in time: the machine was too busy", &[]),
    ("refused", "the interface behind the wire did not take it", &[]),
    ("malformed", "its headers contradict it", &[]),
    ("closed", "still held when the wire was removed", &[]),
];

/// What a cause is.
pub(super) fn meaning(kind: &str, cause: &str) -> &'static str {
    if let Some(name) = cause.strip_prefix("wire: ") {
        let known = OF_WIRES.iter().find(|(word, ..)| *word == name);
        return known.map_or("lost in the wire", |(_, means, _)| means);
    }
    if cause.starts_with("switch: ") {
        return "refused or not taken at the link's port of the switch, both ways together";
    }
    match cause {
        "interface" => {
            "a full queue, a frame too long, or the other end down, between two interfaces"
        }
        "way-out" => {
            "the program that passes what leaves the lab did not read it; told at one link for all"
        }
        cause => {
            let known = OF_NODES.iter().find(|(word, _)| *word == cause);
            known.map_or(
                if kind == "node" { "in the node's network stack" } else { "unknown" },
                |k| k.1,
            )
        }
    }
}

/// The impairments that a cause follows from.
pub(super) fn settings(cause: &str) -> &'static [&'static str] {
    let name = cause.strip_prefix("wire: ").unwrap_or_default();
    OF_WIRES.iter().find(|(word, ..)| *word == name).map_or(&[], |(.., keys)| keys)
}

#[cfg(test)]
mod tests {
    use netloom_impair::Cause;

    use super::*;

    #[test]
    fn every_cause_of_a_wire_has_a_meaning() {
        for cause in Cause::ALL {
            assert!(OF_WIRES.iter().any(|(word, ..)| *word == cause.name()), "{}", cause.name());
        }
        assert_eq!(settings("wire: queue"), ["rate", "queue"]);
        assert!(settings("interface").is_empty());
    }
}
