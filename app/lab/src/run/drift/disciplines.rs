//! Queueing disciplines that an interface has without anybody's doing.

use netloom_netlink::LinkInfo;

/// Those that `net.core.default_qdisc` may name, since they need no options, and what holds one of these for each queue.
/// Taken away, they come again.
const OF_KERNEL: [&str; 14] = [
    "noqueue",
    "mq",
    "pfifo_fast",
    "pfifo",
    "bfifo",
    "pfifo_head_drop",
    "fq",
    "fq_codel",
    "fq_pie",
    "codel",
    "pie",
    "cake",
    "sfq",
    "hhf",
];

/// Whether an interface has its discipline from the kernel.
pub(super) fn is_of_kernel(found: &LinkInfo) -> bool {
    is_given(found.kind.as_deref(), &found.discipline)
}

fn is_given(kind: Option<&str>, discipline: &str) -> bool {
    match kind {
        // It asks for none by default (IFF_NO_QUEUE).
        Some("veth") => discipline == "noqueue",
        _ => OF_KERNEL.contains(&discipline),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_gives_by_default_is_nobodys_change() {
        for discipline in ["pfifo_fast", "fq_codel", "cake", "fq_pie", "codel", "pfifo"] {
            assert!(is_given(Some("tun"), discipline), "{discipline}");
            assert!(!is_given(Some("veth"), discipline), "{discipline}");
        }
        assert!(is_given(Some("veth"), "noqueue"));
        assert!(["tbf", "netem", "htb"].iter().all(|name| !is_given(Some("tun"), name)));
    }
}
