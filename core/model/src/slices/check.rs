//! Checks of slices that need the whole file: switches, ports and nodes exist, and no packet is of two slices.

use std::collections::BTreeMap;

use netloom_config::{Place, Report, quote};
use netloom_slicing::{Error, Key, Slicing, Space};

use super::Slice;
use super::read::{RawPart, RawSlice, RawSlices, RawSpace};
use crate::kinds::openflow::read::check_nodes;

/// Finds a port by the names of its switch and of itself.
pub(crate) type PortOf<'l> = dyn Fn(&str, &str) -> Result<(String, u32), String> + 'l;

/// The spaces of slices on a switch, each with the slice's name and place.
type Parts = Vec<(String, Place, Vec<Space>)>;

/// What slices need to know of the switches around them.
pub(crate) struct Switches<'l> {
    /// Names of switches that can be sliced.
    pub(crate) known: Vec<&'l str>,
    /// Why a switch cannot be sliced.
    pub(crate) problem: &'l dyn Fn(&str) -> Option<String>,
    /// The port of a switch that a name means: its name in the plan, and a number that no other port of it has.
    pub(crate) port: &'l PortOf<'l>,
}

impl RawSlices {
    /// Checks names, and that slices share no packet; returns the slices with ports by their names in the plan.
    pub(crate) fn finish(
        mut self,
        around: &Switches<'_>,
        is_node: &dyn Fn(&str) -> bool,
        report: &mut Report,
    ) -> Vec<Slice> {
        let mut by_switch: BTreeMap<String, Parts> = BTreeMap::new();
        for raw in &mut self.0 {
            check_nodes(&raw.nodes, is_node, report);
            let name = raw.slice.name.clone();
            if raw.parts.iter().map(|part| part.spaces.len()).sum::<usize>() > super::MOST_IN_ALL {
                let most = super::MOST_IN_ALL;
                let message = format!("slice {}: more than {most} spaces in all", quote(&name));
                report.error(raw.place, message);
            }
            raw.check_datapaths(report);
            for part in &mut raw.parts {
                let Some(spaces) = part.check(&name, around, report) else { continue };
                let all = by_switch.entry(part.switch.value.clone()).or_default();
                all.push((name.clone(), part.switch.place, spaces));
            }
        }
        // Sets with faults of their own would give overlaps that nobody wrote.
        if report.is_empty() {
            for (switch, parts) in &by_switch {
                check_apart(switch, parts, report);
            }
        }
        self.slices()
    }
}

impl RawSlice {
    fn check_datapaths(&self, report: &mut Report) {
        for switch in self.slice.datapaths.keys() {
            if let Some(place) = self.place_without(switch) {
                let name = quote(&self.slice.name);
                let message =
                    format!("datapaths: slice {name} has nothing of switch {}", quote(switch));
                report.error(place, message);
            }
        }
    }

    /// Where to say that it has nothing of a switch.
    fn place_without(&self, switch: &str) -> Option<Place> {
        let has = self.parts.iter().any(|part| part.switch.value == switch);
        (!has).then_some(self.place)
    }
}

impl RawPart {
    /// The spaces of a slice on a switch; `None` if something is wrong.
    fn check(
        &mut self,
        slice: &str,
        around: &Switches<'_>,
        report: &mut Report,
    ) -> Option<Vec<Space>> {
        let switch = self.switch.value.clone();
        if !around.known.contains(&switch.as_str()) {
            match (around.problem)(&switch) {
                None => RawSlices::no_switch(&self.switch, &around.known, report),
                Some(problem) => {
                    report.error(self.switch.place, format!("slices: switch {problem}"));
                }
            }
            return None;
        }
        let mut all = vec![];
        let mut wrong = false;
        for space in &mut self.spaces {
            match space.check(&switch, around, report) {
                Some(spaces) => all.extend(spaces),
                None => wrong = true,
            }
        }
        if !wrong && all.len() > super::MOST_SPACES {
            let most = super::MOST_SPACES;
            let message = format!("slice {}: more than {most} spaces", quote(slice));
            report.error(self.switch.place, message);
        }
        (!wrong).then_some(all)
    }
}

impl RawSpace {
    fn check(
        &mut self,
        switch: &str,
        around: &Switches<'_>,
        report: &mut Report,
    ) -> Option<Vec<Space>> {
        let mut numbers = BTreeMap::new();
        let mut wrong = false;
        for (port, place) in self.space.ports.iter_mut().flatten().zip(&self.ports) {
            match (around.port)(switch, port) {
                Ok((name, number)) => {
                    numbers.insert(name.clone(), number);
                    *port = name;
                }
                Err(problem) => {
                    report.error(*place, format!("ports: {problem}"));
                    wrong = true;
                }
            }
        }
        if wrong {
            return None;
        }
        match self.space.spaces(|port| numbers.get(port).copied()) {
            Ok(spaces) => match alone(&spaces) {
                None => Some(spaces),
                Some(reason) => {
                    let message = format!("a space of switch {}: {reason}", quote(switch));
                    report.error(self.place, message);
                    None
                }
            },
            Err(reason) => {
                report.error(self.place, format!("a space of switch {}: {reason}", quote(switch)));
                None
            }
        }
    }
}

/// Reports slices that share packets, each pair at the later one.
fn check_apart(switch: &str, parts: &[(String, Place, Vec<Space>)], report: &mut Report) {
    let slices = parts.iter().map(|(name, _, spaces)| sliced(name, spaces)).collect();
    for (at, error) in Slicing::faults(slices) {
        let Some((_, place, _)) = parts.get(at) else { continue };
        let help = matches!(error, Error::Overlap { .. }).then(|| {
            "give them different ports, VLANs or addresses; `peer` and `within` bound the other end, too"
                .to_owned()
        });
        report.error_with(*place, format!("switch {}: {error}", quote(switch)), help);
    }
}

/// Faults of the spaces by themselves.
fn alone(spaces: &[Space]) -> Option<String> {
    // The key only marks entries on switches; for a check any will do.
    match Slicing::new(vec![sliced("it", spaces)], Key([0; 16])) {
        Err(Error::Space { why, .. }) => Some(why.to_owned()),
        Err(Error::TooFine { .. }) => {
            Some("it has too many parts; take fewer ports, VLANs or ranges".to_owned())
        }
        _ => None,
    }
}

fn sliced(name: &str, spaces: &[Space]) -> netloom_slicing::Slice {
    let (name, spaces) = (name.to_owned(), spaces.to_vec());
    netloom_slicing::Slice { name, spaces, ..netloom_slicing::Slice::default() }
}
