//! Ports of switches in slices, by what the file calls them.

use crate::kinds::PortEnd;

/// The port among the ends of links on a switch that a name means: the port's own, that of the only link that leads to
/// what has the name, or a number. With it comes its number.
pub(crate) fn port(ends: &[PortEnd], name: &str) -> Result<(String, u32), String> {
    let shown = netloom_config::quote(name);
    let mut found = None;
    for end in ends {
        if end.port == name || end.number.to_string() == name {
            return Ok((end.port.clone(), end.number));
        }
        if end.to == name {
            // A later end may still have the very name or number, so only two of this kind are
            // ambiguous.
            if found.is_some() {
                return Err(format!("{shown} has several links here; name one by NODE:IFACE"));
            }
            found = Some((end.port.clone(), end.number));
        }
    }
    found.ok_or_else(|| {
        let all: Vec<&str> = ends.iter().map(|end| end.port.as_str()).collect();
        format!("no link ends in {shown} here; ports here: {}", all.join(", "))
    })
}
