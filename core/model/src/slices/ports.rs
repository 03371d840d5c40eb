//! Ports of switches in slices: names as in the plan, and their numbers.

use std::collections::BTreeMap;

use crate::kinds::PortEnd;
use crate::plan::{Plan, PlannedEnd, SwitchSlot};

/// The ports of a switch by the names that slices have for them.
pub fn numbers(plan: &Plan, of: SwitchSlot) -> BTreeMap<String, u32> {
    let mut numbers = BTreeMap::new();
    for link in &plan.links {
        for side in 0..2 {
            let PlannedEnd::Port { switch, number: Some(number), .. } = &link.ends[side] else {
                continue;
            };
            if *switch != of {
                continue;
            }
            let name = match &link.ends[1 - side] {
                end @ (PlannedEnd::Node { .. } | PlannedEnd::Host { .. }) => plan.end_text(end),
                PlannedEnd::Port { .. } | PlannedEnd::Internet { .. } => link.name.clone(),
            };
            numbers.insert(name, *number);
        }
    }
    numbers
}

/// The port among the ends of links on a switch that a name means: the port's own, that of the only link that leads to
/// what has the name, or a number. With it comes its number.
pub(crate) fn port(ends: &[PortEnd], name: &str) -> Result<(String, u32), String> {
    let shown = netloom_config::quote(name);
    let mut found = None;
    // Numbers count from 1 in the order of the links.
    for (number, end) in (1_u32..).zip(ends) {
        if end.port == name || number.to_string() == name {
            return Ok((end.port.clone(), number));
        }
        if end.to == name {
            if found.is_some() {
                return Err(format!("{shown} has several links here; name one by NODE:IFACE"));
            }
            found = Some((end.port.clone(), number));
        }
    }
    found.ok_or_else(|| {
        let all: Vec<&str> = ends.iter().map(|end| end.port.as_str()).collect();
        format!("no link ends in {shown} here; ports here: {}", all.join(", "))
    })
}
