//! What an OpenFlow switch does with the flow: with its packet, and with the question for a hardware address before it.
//!
//! The switch itself is asked, by frames that it only traces; so every table, group and meter counts, and none is evaluated here.

use std::net::IpAddr;

use crate::cause::{Cause, CauseName};
use crate::facts::{Facts, Traced};
use crate::segment::Between;
use crate::walk::{Share, Stop, Walker};

const ALL: [u8; 6] = [0xff; 6];

impl<F: Facts> Walker<'_, F> {
    /// Where frames come by a link to a switch, to leave by another.
    pub(crate) fn openflow(
        &mut self,
        switch: &str,
        links: [&str; 2],
        between: &Between<'_>,
    ) -> Result<(), F::Error> {
        let here = self.walk.places.len();
        let [Some(own), Some(far)] = between.macs else { return Ok(()) };
        let packet = self.flow.frame(own, far);
        let Some(traced) = self.facts.traced(switch, links, &packet)? else {
            let lab = self.facts.lab();
            let text = format!(
                "OpenFlow switch {switch} does not say what it does with a frame; try `netloom -l {lab} flow trace {switch}`"
            );
            self.doubt(here, here, text);
            return Ok(());
        };
        self.judged(switch, &traced, (here, here, Share::All));
        if traced.passes && !traced.meters.is_empty() {
            self.metered(switch, &traced, here);
        }
        let Some([question, answer]) = self.question(own, far, between.target)? else {
            return Ok(());
        };
        if let Some(traced) = self.facts.traced(switch, links, &question)? {
            self.judged(switch, &traced, (here, here, Share::Resolution));
        }
        if let Some(traced) = self.facts.traced(switch, [links[1], links[0]], &answer)? {
            self.judged(switch, &traced, (between.before + 1, here + 2, Share::Resolution));
        }
        Ok(())
    }

    /// RFC 826: the question for an address to all, and its answer.
    fn question(
        &mut self,
        own: [u8; 6],
        far: [u8; 6],
        target: IpAddr,
    ) -> Result<Option<[Vec<u8>; 2]>, F::Error> {
        let IpAddr::V4(target) = target else { return Ok(None) };
        let node = self.walk.nodes.last().cloned().unwrap_or_default();
        let node = self.facts.node(&node)?;
        let addresses =
            node.interfaces.iter().filter(|i| i.mac == Some(own)).flat_map(|i| &i.addresses);
        let asking = addresses.map(ipnet::IpNet::addr).find_map(|address| match address {
            IpAddr::V4(four) => Some(four),
            IpAddr::V6(_) => None,
        });
        let Some(asking) = asking else { return Ok(None) };
        let message = |to: [u8; 6],
                       from: [u8; 6],
                       kind: u8,
                       ends: [std::net::Ipv4Addr; 2],
                       known: [u8; 6]| {
            let head = [0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, kind];
            [&to[..], &from, &head, &from, &ends[0].octets(), &known, &ends[1].octets()].concat()
        };
        let question = message(ALL, own, 1, [asking, target], [0; 6]);
        Ok(Some([question, message(own, far, 2, [target, asking], own)]))
    }

    fn judged(&mut self, switch: &str, traced: &Traced, (from, to, share): (usize, usize, Share)) {
        if traced.passes {
            return;
        }
        let place = format!("switch {switch}");
        if traced.asks {
            self.doubt(
                from,
                to,
                format!("a controller of switch {switch} decides about the frame"),
            );
            return;
        }
        let lab = self.facts.lab().to_owned();
        let mut cause = match &traced.entry {
            _ if !traced.away.is_empty() && traced.elsewhere.is_empty() && !decides(traced) => {
                let text = format!(
                    "switch {switch} has no entry for the frame, and no controller is connected that could say more"
                );
                let mut cause = Cause::new(CauseName::NoController, place, text);
                cause.evidence.extend(traced.away.iter().map(|away| format!("controller {away}")));
                cause
            }
            Some(entry) => {
                let does = if traced.elsewhere.is_empty() {
                    "drops the frame"
                } else {
                    "leads the frame elsewhere"
                };
                Cause::new(
                    CauseName::FlowEntry,
                    place,
                    format!("an entry of switch {switch} {does}"),
                )
                .evidence(format!("entry {entry}"))
                .mend(format!("netloom -l {lab} flow del {switch} --strict {}", matching(entry)))
            }
            None => Cause::new(
                CauseName::FlowMiss,
                place,
                format!("no entry of switch {switch} takes the frame"),
            ),
        };
        cause.evidence.extend(traced.drops.iter().map(|drop| format!("switch {switch}: {drop}")));
        if !traced.elsewhere.is_empty() {
            cause.evidence.push(format!("it leaves by {}", traced.elsewhere.join(", ")));
        }
        self.add(Stop { from, to, share, cause });
    }

    fn metered(&mut self, switch: &str, traced: &Traced, here: usize) {
        let meters: Vec<String> = traced.meters.iter().map(u32::to_string).collect();
        let text = format!(
            "switch {switch} sends the frame through a meter, which drops what is too much"
        );
        let mut cause = Cause::new(CauseName::FlowMeter, format!("switch {switch}"), text)
            .evidence(format!(
                "meter {}; `netloom -l {} flow meters {switch}` has its counters",
                meters.join(", "),
                self.facts.lab()
            ));
        cause.evidence.extend(traced.entry.iter().map(|entry| format!("entry {entry}")));
        self.add(Stop { from: here, to: here, share: Share::Some, cause });
    }
}

/// Whether an entry says what becomes of the frame, other than that a controller is to.
fn decides(traced: &Traced) -> bool {
    traced.entry.as_ref().is_some_and(|entry| !entry.to_uppercase().contains("CONTROLLER"))
}

/// The part of an entry that says which frames it takes.
fn matching(entry: &str) -> String {
    let fields = entry.split("actions=").next().unwrap_or_default().trim().trim_end_matches(',');
    let kept = fields
        .split(',')
        .filter(|field| !field.starts_with("cookie=") && !field.starts_with("duration="));
    kept.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_s_match_deletes_it() {
        let entry = "cookie=0x1,table=2,priority=7,arp,actions=drop";
        assert_eq!(matching(entry), "table=2,priority=7,arp");
        assert_eq!(matching("priority=7,in_port=1 actions=output:2"), "priority=7,in_port=1");
    }
}
