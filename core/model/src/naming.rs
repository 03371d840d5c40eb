//! Valid names of labs, nodes, links and interfaces.
//!
//! Each function returns `None` for a valid name and the reason for an invalid one.

use std::net::IpAddr;

use netloom_config::quote;

/// As long as a host name (RFC 1035, section 2.3.4, without the lengths' bytes).
const LONGEST_NAME: usize = 253;

/// As long as the name by which a program joins a switch.
const LONGEST_PORT: usize = 64;

/// Names that ends of links use for doors and for nothing, or that every hosts file has.
const RESERVED: &[&str] = &["host", "internet", "nowhere", "localhost"];

/// A lab's name: `[A-Za-z0-9][A-Za-z0-9._-]*`, at most 63 bytes, because it names files.
pub fn lab_name_problem(name: &str) -> Option<String> {
    problem("lab", name, "._-", 63)
}

/// A node's or switch's name, a child's without its parents: the characters of a host name and `_`,
/// at most 253 bytes.
pub fn node_name_problem(name: &str) -> Option<String> {
    if RESERVED.contains(&name) {
        return Some(format!("the name {} is reserved", quote(name)));
    }
    if name.parse::<IpAddr>().is_ok() {
        return Some(format!("the name {} reads like an address", quote(name)));
    }
    problem("node or switch", name, "._-", LONGEST_NAME)
}

/// The whole name of a node, `PARENT/NAME` for a child.
pub(crate) fn node_path_problem(name: &str) -> Option<String> {
    name.split('/').find_map(node_name_problem).or_else(|| whole_name_problem(name))
}

/// A child's whole name is at most as long as a host name.
pub(crate) fn whole_name_problem(name: &str) -> Option<String> {
    (name.len() > LONGEST_NAME).then(|| {
        let bytes = name.len();
        format!("the whole name {} has {bytes} bytes, at most 253 are allowed", quote(name))
    })
}

/// A host name by hand, which the kernel keeps in 64 bytes.
pub(crate) fn host_name_problem(name: &str) -> Option<String> {
    problem("host", name, "._-", 64)
}

/// The name of a host in a hosts file: it names files, like a lab's.
pub(crate) fn machine_name_problem(name: &str) -> Option<String> {
    problem("host", name, "._-", 63)
}

/// A part of `USER@HOST` for ssh(1), of which none can be taken for an option.
pub(crate) fn login_problem(what: &str, name: &str) -> Option<String> {
    problem(what, name, "._-", LONGEST_NAME)
}

/// A link's name: no spaces, at most 253 bytes.
pub(crate) fn link_name_problem(name: &str) -> Option<String> {
    problem("link", name, "._:-", 253)
}

/// A switch's port: a link's end, a link's name, or a program's name.
pub(crate) fn port_name_problem(name: &str) -> Option<String> {
    // An end of a link has the name of a node and that of an interface, of 15 bytes.
    let longest = if name.contains([':', '/']) { LONGEST_NAME + 16 } else { LONGEST_PORT };
    problem("port", name, "._:#/@-", longest)
}

/// The name or number of a user or group (`what`), roughly as in useradd(8).
pub(crate) fn owner_problem(what: &str, name: &str) -> Option<String> {
    if !name.is_empty() && name.bytes().all(|b| b.is_ascii_digit()) {
        // The last number means "leave it" to chown(2).
        let good = name.parse::<u32>().is_ok_and(|id| id != u32::MAX);
        return (!good).then(|| format!("no {what} has the number {name}"));
    }
    // Accounts of system services begin with `_` in Debian.
    match name.strip_prefix('_').filter(|rest| !rest.is_empty()) {
        Some(rest) => problem(what, rest, "._-", 31),
        None => problem(what, name, "._-", 32),
    }
}

fn problem(what: &str, name: &str, signs: &str, longest: usize) -> Option<String> {
    let shown = quote(name);
    if name.is_empty() {
        return Some(format!("the name of a {what} is empty"));
    }
    if name.len() > longest {
        return Some(format!(
            "{what} name {shown} has {} bytes, at most {longest} are allowed",
            name.len()
        ));
    }
    if let Some(bad) = name.chars().find(|c| !c.is_ascii_alphanumeric() && !signs.contains(*c)) {
        let bad = quote(&bad.to_string());
        let signs: Vec<String> = signs.chars().map(|c| quote(&c.to_string())).collect();
        let signs = signs.join(" ");
        return Some(format!(
            "{what} name {shown} holds {bad}: only A-Z a-z 0-9 {signs} are allowed"
        ));
    }
    let good_start = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    (!good_start).then(|| format!("{what} name {shown} must start with a letter or a digit"))
}

/// An interface's name: the kernel's rule (`dev_valid_name`), only visible ASCII, without `%`, which
/// the kernel treats as a pattern, and without the names of the kernel's own directories.
pub fn interface_name_problem(name: &str) -> Option<String> {
    let shown = quote(name);
    if name.is_empty() {
        return Some("the name of an interface is empty".into());
    }
    if matches!(name, "lo" | "." | ".." | "all" | "default") {
        return Some(format!("interface name {shown} is reserved"));
    }
    if let Some(bad) = name.chars().find(|c| !c.is_ascii_graphic() || matches!(c, '/' | ':' | '%'))
    {
        return Some(format!("interface name {shown} holds {}", quote(&bad.to_string())));
    }
    (name.len() > 15)
        .then(|| format!("interface name {shown} has {} bytes, at most 15 are allowed", name.len()))
}

/// Interfaces that the kernel makes in a new network itself, once their module is there (`fb_tunnels_only_for_init_net` of
/// sysctl/net.rst).
pub(crate) const OF_KERNEL: [&str; 9] =
    ["tunl0", "gre0", "gretap0", "erspan0", "ip_vti0", "ip6_vti0", "sit0", "ip6tnl0", "ip6gre0"];

/// The name of an interface of a node, which may be none of the kernel's own there.
pub fn node_interface_problem(name: &str) -> Option<String> {
    let own = OF_KERNEL
        .contains(&name)
        .then(|| format!("interface name {} is that of a tunnel of the kernel's own", quote(name)));
    interface_name_problem(name).or(own)
}

/// A path inside a node: absolute, without `..`, and naming a file below `/`.
pub(crate) fn inner_path_problem(path: &str) -> Option<&'static str> {
    if !path.starts_with('/') {
        Some("must be absolute")
    } else if path.split('/').any(|part| part == "..") {
        Some("must not hold `..`")
    } else if path.contains('\0') {
        Some("holds a NUL character")
    } else if path.split('/').all(|part| part.is_empty() || part == ".") || path.ends_with('/') {
        Some("must name a file")
    } else {
        None
    }
}

/// Whether a path is in a directory that is the node's own, so that nothing of the host can be there.
pub(crate) fn is_closed(path: &str) -> bool {
    ["/proc", "/sys", "/dev"].iter().any(|dir| std::path::Path::new(path).starts_with(dir))
}

/// `a/b/c` as `c.b.a`: a node's name in `/etc/hosts`.
pub(crate) fn dotted(name: &str) -> String {
    name.rsplit('/').collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_names_pass() {
        assert_eq!(lab_name_problem("two-sites_1.0"), None);
        assert_eq!(node_name_problem(&"n".repeat(253)), None);
        assert_eq!(link_name_problem("r1:eth0--r2:eth1"), None);
        assert_eq!(interface_name_problem("eth0.100@x"), None);
    }

    #[test]
    fn bad_names_have_a_reason() {
        assert_eq!(
            lab_name_problem("a/b").as_deref(),
            Some("lab name \"a/b\" holds \"/\": only A-Z a-z 0-9 \".\" \"_\" \"-\" are allowed")
        );
        for name in ["", "-a", ".", "..", "a b", "ä"] {
            assert!(
                lab_name_problem(name).is_some() && node_name_problem(name).is_some(),
                "{name}"
            );
        }
        assert!(lab_name_problem(&"x".repeat(64)).is_some());
        for name in ["host", "internet", "localhost", "10.0.0.1", "a:b"] {
            assert!(node_name_problem(name).is_some(), "{name}");
        }
        for name in
            ["", "lo", ".", "..", "all", "a/b", "a b", "eth%d", "a:b", "sixteen_bytes_xx", "ä"]
        {
            assert!(interface_name_problem(name).is_some(), "{name}");
        }
        // The host's may be taken, a node's cannot have the name.
        assert_eq!(interface_name_problem("sit0"), None);
        for name in ["sit0", "tunl0", "lo"] {
            assert!(node_interface_problem(name).is_some(), "{name}");
        }
        assert_eq!(node_interface_problem("sit1"), None);
    }
}
