//! The names of links' ports on shared-memory and OpenFlow switches, by which users know them.
//!
//! A name never changes while its link is there: switches keep it in their files, and rules go by it.

use netloom_digest::fnv1a;

use super::{Plan, PlannedEnd, PlannedLink};

/// Most bytes of a port's name, as the protocol of shared-memory switches has it.
pub const MOST_PORT_NAME: usize = 64;

impl Plan {
    /// The name on its switch of the port at an end of a link: the other end's name, if it is unique among the links,
    /// else the link's name.
    pub fn port_name(&self, link: &PlannedLink, side: usize) -> String {
        match &link.ends[1 - side] {
            end @ (PlannedEnd::Node { .. } | PlannedEnd::Host { .. }) => {
                shortened_port_name(&self.end_text(end))
            }
            _ => shortened_port_name(&link.name),
        }
    }
}

/// A name for a port: one that is too long keeps its beginning, followed by a hash of the whole.
pub fn shortened_port_name(name: &str) -> String {
    if name.len() <= MOST_PORT_NAME {
        return name.to_owned();
    }
    // 32 bits: names of a lab are few.
    let hash = fnv1a::hash_32(name.as_bytes());
    let room = MOST_PORT_NAME - 9;
    let kept = (0..=room).rev().find_map(|end| name.get(..end)).unwrap_or_default();
    format!("{kept}~{hash:08x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_cut_and_told_apart() {
        assert_eq!(shortened_port_name("h1:eth0"), "h1:eth0");
        let long = |end: &str| shortened_port_name(&format!("{}{end}", "n".repeat(200)));
        let (a, b) = (long("a:eth0"), long("b:eth0"));
        assert_eq!((a.len(), b.len()), (MOST_PORT_NAME, MOST_PORT_NAME));
        assert_ne!(a, b);
        // Users know ports by these names, and a switch's file keeps them.
        assert_eq!(a, format!("{}~e819c013", "n".repeat(55)));
        assert!(shortened_port_name(&"é".repeat(60)).len() <= MOST_PORT_NAME);
    }
}
