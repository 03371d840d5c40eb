//! Slices in the plan: which switches have some, and the numbers of the ports that slices name.

use std::collections::BTreeMap;

use super::{Plan, PlannedEnd, SwitchSlot};

impl Plan {
    /// Whether a switch has slices.
    pub fn is_sliced(&self, switch: &str) -> bool {
        self.slices.iter().any(|slice| slice.switches.contains_key(switch))
    }

    /// The ports of a switch by the names that slices have for them.
    pub fn ports_of_slices(&self, of: SwitchSlot) -> BTreeMap<String, u32> {
        let mut numbers = BTreeMap::new();
        for link in &self.links {
            for side in 0..2 {
                let PlannedEnd::Port { switch, number: Some(number), .. } = &link.ends[side] else {
                    continue;
                };
                if *switch != of {
                    continue;
                }
                let name = match &link.ends[1 - side] {
                    end @ (PlannedEnd::Node { .. } | PlannedEnd::Host { .. }) => self.end_text(end),
                    _ => link.name.clone(),
                };
                numbers.insert(name, *number);
            }
        }
        numbers
    }
}
