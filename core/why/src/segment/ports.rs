//! Rules of a shared-memory switch: the VLAN of a frame from port to port, and the source addresses that ports admit.
//!
//! The switch's own code (`netloom_bridge`) decides over a frame that a station sends without a tag, and the frame goes to the
//! next switch as it comes out of this one, so that trunks and customers' VLANs count as they do for real frames.

use netloom_bridge as bridge;
use netloom_bridge::{Tpid, Vid, VidSet, VlanMode};

use crate::cause::{Cause, CauseName};
use crate::facts::{Facts, PortRules};
use crate::flow::Place;
use crate::segment::{Between, text_of};
use crate::walk::{Share, Stop, Walker};

/// Room for one more tag.
const TAG: usize = 4;

/// A frame without a tag: from 02:00:00:00:00:01 to all, IPv4.
pub(crate) fn untagged() -> Vec<u8> {
    [&[0xff; 6][..], &[2, 0, 0, 0, 0, 1, 8, 0], &[0; 46]].concat()
}

/// Where a switch drops a frame.
enum Dropped {
    /// The port by which it comes does not take it.
    Input,
    /// The port to which it is to go does not get frames of this VLAN.
    Output(Vid),
}

/// What comes out of a switch, and its VLAN there.
fn through(ports: [&PortRules; 2], frame: &[u8]) -> Result<(Vec<u8>, Option<Vid>), Dropped> {
    let rules =
        |at: usize| bridge::PortRules { vlan: ports[at].vlan.clone(), ..bridge::PortRules::OPEN };
    let Ok(rules) = bridge::SwitchRules::of([(1, rules(0)), (2, rules(1))]) else {
        return Ok((frame.to_vec(), None));
    };
    let class = bridge::classify(&rules, 1, frame).map_err(|_| Dropped::Input)?;
    let out = bridge::egress(&rules, 2, class);
    let how = out.map_err(|_| Dropped::Output(class.vid.unwrap_or(Vid::ONE)))?;
    let mut buffer = [&[0; TAG][..], frame].concat();
    let start = bridge::retag(&mut buffer, TAG, how).map_or(TAG, |edit| edit.start);
    Ok((buffer.get(start..).unwrap_or_default().to_vec(), class.vid))
}

/// The VLAN of a frame's tag.
fn tag_of(frame: &[u8]) -> Option<u16> {
    let word = |at: usize| Some(u16::from_be_bytes(*frame.get(at..)?.first_chunk()?));
    Tpid::new(word(12)?)?;
    word(14).map(|tci| tci & 0x0fff)
}

/// What a port says of VLANs, in words.
fn words(of: &PortRules) -> String {
    let port = &of.port;
    match &of.vlan {
        VlanMode::Any => format!("untagged frames of port {port} are in VLAN 1"),
        VlanMode::Access(vid) => format!("untagged frames of port {port} are in VLAN {vid}"),
        VlanMode::Trunk { native: None, allowed } => {
            format!("port {port} drops untagged frames, and takes tagged ones of VLANs {allowed}")
        }
        VlanMode::Trunk { native: Some(vid), allowed } => format!(
            "untagged frames of port {port} are in VLAN {vid}, and it takes tagged ones of VLANs {allowed}"
        ),
        VlanMode::Qinq { vid, cvlans: None, .. } => {
            format!("all frames of port {port} are a customer's, in VLAN {vid}")
        }
        VlanMode::Qinq { vid, cvlans: Some(of), .. } => format!(
            "frames of port {port} are a customer's, in VLAN {vid}, and need a tag of VLANs {of}"
        ),
    }
}

/// A rule as the command takes it.
fn command(vlan: &VlanMode) -> String {
    match vlan {
        VlanMode::Any => "none".to_owned(),
        VlanMode::Access(vid) => format!("access {vid}"),
        VlanMode::Trunk { native, allowed } => {
            let native = native.map_or_else(String::new, |vid| format!(" --native {vid}"));
            format!("trunk {allowed}{native}")
        }
        VlanMode::Qinq { vid, cvlans, tpid } => {
            let cvlans = cvlans.as_ref().map_or_else(String::new, |of| format!(" --cvlans {of}"));
            format!("qinq {vid}{cvlans} --tpid {tpid}")
        }
    }
}

/// The changes by hand that a frame meets, as those of the fewest ports that take it through once they are taken back.
fn by_hand<'a>(ports: [&'a PortRules; 2], frame: &[u8], to_station: bool) -> Vec<&'a PortRules> {
    let drifted = |port: &&PortRules| port.vlan != port.planned;
    let passes = |back: [bool; 2]| {
        let as_file =
            |at: usize| PortRules { vlan: ports[at].planned.clone(), ..ports[at].clone() };
        let tried = [0, 1].map(|at| if back[at] { as_file(at) } else { ports[at].clone() });
        let [input, output] = &tried;
        let through = through([input, output], frame);
        through.is_ok_and(|(frame, _)| !to_station || tag_of(&frame).is_none())
    };
    // The sender's port comes last: others of its VLAN may hear it as it is.
    let sets = [[false, true], [true, false], [true, true]];
    let set = sets
        .into_iter()
        .find(|back| (0..2).all(|at| !back[at] || drifted(&ports[at])) && passes(*back));
    let chosen = set.into_iter().flat_map(|back| (0..2).filter(move |at| back[*at]));
    chosen.map(|at| ports[at]).collect()
}

/// A trunk's rule with one more VLAN, as the command takes it.
fn widened(vlan: &VlanMode, with: Vid) -> Option<String> {
    let VlanMode::Trunk { native, allowed } = vlan else { return None };
    let mut allowed: VidSet = allowed.clone();
    allowed.insert(with);
    Some(command(&VlanMode::Trunk { native: *native, allowed }))
}

impl<F: Facts> Walker<'_, F> {
    /// The ports of a shared-memory switch by which a frame comes from one link and goes to the next; `at` is the link before it.
    pub(crate) fn ports(
        &mut self,
        switch: &str,
        at: usize,
        between: &Between<'_>,
    ) -> Result<(), F::Error> {
        let (Some(first), Some(second)) = (between.all.get(at), between.all.get(at + 1)) else {
            return Ok(());
        };
        let before = between.before;
        let Some([input, output]) = self.facts.ports(switch, [&first.link, &second.link])? else {
            let here = self.walk.places.len();
            let text = format!("switch {switch} does not tell the rules of its ports");
            self.doubt(before, here, text);
            // How its frames come out is not known.
            self.frame = None;
            return Ok(());
        };
        // What keeps the question out keeps the answer out, too: one change is to let both pass.
        match self.kept_out(between) {
            true => self.frame = None,
            false => {
                let to_station = at + 2 == between.all.len();
                self.vlans(switch, [&input, &output], to_station, before);
            }
        }
        // A switch between two others sees the address of the station, which is not known here.
        if at == 0 {
            self.locked(switch, &input, &first.link, before)?;
        }
        Ok(())
    }

    /// Whether VLANs of a switch on this segment stop the flow that this way answers.
    fn kept_out(&self, between: &Between<'_>) -> bool {
        let switches = || between.all.iter().filter_map(|crossing| crossing.switch.as_ref());
        self.there.is_some_and(|there| {
            let by_vlans = |stop: &&Stop| stop.cause.name == CauseName::VlanMismatch;
            there.stops.iter().filter(by_vlans).any(|stop| {
                switches().any(|switch| stop.cause.place == format!("switch {}", switch.name))
            })
        })
    }

    fn stop_at_ports(&mut self, before: usize, cause: Cause) {
        let to = self.walk.places.len().max(before + 1);
        self.add(Stop { from: before, to, share: Share::All, cause });
    }

    /// Takes the frame through a switch, to a station or to another switch.
    fn vlans(
        &mut self,
        switch: &str,
        [input, output]: [&PortRules; 2],
        to_station: bool,
        before: usize,
    ) {
        let Some(frame) = self.frame.take() else { return };
        let (of, to) = (&input.port, &output.port);
        let (text, rule) = match through([input, output], &frame) {
            Ok((frame, vid)) => {
                let tag = tag_of(&frame).filter(|_| to_station);
                let Some(tag) = tag else {
                    self.frame = Some(frame);
                    return;
                };
                // Only where no other VLAN would lose its place.
                let native = match (&output.vlan, vid) {
                    (VlanMode::Trunk { native: None, allowed }, Some(vid)) => {
                        Some((to, format!("trunk {allowed} --native {vid}")))
                    }
                    _ => None,
                };
                let text = format!(
                    "port {to} of switch {switch} gives its station frames with a tag of VLAN {tag}"
                );
                (text, native)
            }
            Err(Dropped::Input) => {
                let tag = tag_of(&frame).and_then(Vid::new);
                let text = match tag {
                    Some(vid) => {
                        format!(
                            "port {of} of switch {switch} takes no frames with a tag of VLAN {vid}"
                        )
                    }
                    None => format!("port {of} of switch {switch} takes no frames without a tag"),
                };
                (text, tag.and_then(|vid| widened(&input.vlan, vid)).map(|rule| (of, rule)))
            }
            Err(Dropped::Output(vid)) => {
                let rule = match &output.vlan {
                    // A trunk loses nothing by one VLAN more.
                    VlanMode::Trunk { .. } => widened(&output.vlan, vid),
                    // A station's own port may move; what other switches send through it would be lost.
                    VlanMode::Any | VlanMode::Access(_) if to_station => {
                        Some(format!("access {vid}"))
                    }
                    _ => None,
                };
                let text = match &output.vlan {
                    VlanMode::Trunk { .. } => {
                        format!("port {to} of switch {switch} does not carry VLAN {vid}")
                    }
                    _ => format!("ports {of} and {to} of switch {switch} are in different VLANs"),
                };
                (text, rule.map(|rule| (to, rule)))
            }
        };
        let mut cause = Cause::new(CauseName::VlanMismatch, format!("switch {switch}"), text)
            .evidence(words(input))
            .evidence(words(output));
        let back = by_hand([input, output], &frame, to_station);
        for port in &back {
            let text =
                format!("the lab's file has port {} as {}", port.port, command(&port.planned));
            cause.evidence.push(text);
        }
        let mut rules: Vec<(&String, String)> =
            back.iter().map(|port| (&port.port, command(&port.planned))).collect();
        if rules.is_empty() {
            rules.extend(rule);
        }
        let lab = self.facts.lab();
        let commands: Vec<String> = rules
            .iter()
            .map(|(port, rule)| format!("netloom -l {lab} switch vlan {switch} {port} {rule}"))
            .collect();
        cause.mend = (!commands.is_empty()).then(|| commands.join(" && "));
        self.stop_at_ports(before, cause);
    }

    /// Whether the sender's port admits its address.
    fn locked(
        &mut self,
        switch: &str,
        input: &PortRules,
        link: &str,
        before: usize,
    ) -> Result<(), F::Error> {
        let mac = self.sender_mac(before)?;
        let Some(mac) = mac.filter(|mac| !input.macs.is_empty() && !input.macs.contains(mac))
        else {
            return Ok(());
        };
        let admitted: Vec<String> = input.macs.iter().map(|mac| text_of(*mac)).collect();
        let words =
            format!("port {} of switch {switch} admits other source addresses only", input.port);
        let lab = self.facts.lab();
        let cause = Cause::new(CauseName::AddressLocked, format!("switch {switch}"), words)
            .evidence(format!("link {link} sends from {}", text_of(mac)))
            .evidence(format!("the port admits {}", admitted.join(", ")))
            .mend(format!("netloom -l {lab} switch port {switch} {} lock=none", input.port));
        self.stop_at_ports(before, cause);
        Ok(())
    }

    /// The hardware address with which packets leave at a place.
    fn sender_mac(&mut self, before: usize) -> Result<Option<[u8; 6]>, F::Error> {
        let Some(Place { node: Some(node), interface, .. }) = self.walk.places.get(before).cloned()
        else {
            return Ok(None);
        };
        let node = self.facts.node(&node)?;
        Ok(node.interface(&interface).and_then(|i| i.mac))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(name: &str, vlan: VlanMode) -> PortRules {
        PortRules { port: name.into(), planned: vlan.clone(), vlan, macs: vec![] }
    }

    fn vid(number: u16) -> Vid {
        Vid::new(number).unwrap()
    }

    fn trunk(native: Option<u16>, allowed: &str) -> VlanMode {
        VlanMode::Trunk { native: native.map(vid), allowed: allowed.parse().unwrap() }
    }

    fn qinq(number: u16) -> VlanMode {
        VlanMode::Qinq { vid: vid(number), cvlans: None, tpid: Tpid::SERVICE }
    }

    /// The tag of a station's frame behind the first switch, and behind the second.
    fn over(first: [VlanMode; 2], second: [VlanMode; 2]) -> Option<(Option<u16>, Option<u16>)> {
        let [a, b] = first.map(|vlan| port("p", vlan));
        let [c, d] = second.map(|vlan| port("p", vlan));
        let between = through([&a, &b], &untagged()).ok()?.0;
        let last = through([&c, &d], &between).ok()?.0;
        Some((tag_of(&between), tag_of(&last)))
    }

    #[test]
    fn a_frame_keeps_its_vlan_over_a_trunk() {
        let access = |number| VlanMode::Access(vid(number));
        let found = over([access(100), trunk(None, "100-200")], [trunk(None, "all"), access(100)]);
        assert_eq!(found, Some((Some(100), None)));
        // Also as the VLAN without a tag, and as a customer's.
        let native = trunk(Some(100), "all");
        assert_eq!(over([access(100), native.clone()], [native, access(100)]), Some((None, None)));
        let found = over([qinq(100), trunk(None, "all")], [trunk(None, "all"), qinq(100)]);
        assert_eq!(found, Some((Some(100), None)));
        assert_eq!(over([access(100), trunk(None, "all")], [trunk(None, "all"), access(7)]), None);
        assert_eq!(over([access(100), trunk(None, "7")], [trunk(None, "all"), access(100)]), None);
        assert_eq!(over([qinq(100), trunk(None, "all")], [trunk(None, "all"), qinq(7)]), None);
        // A switch without VLANs leaves tags as they are.
        let any = || [VlanMode::Any, VlanMode::Any];
        assert_eq!(over([access(100), trunk(None, "all")], any()), Some((Some(100), Some(100))));
    }

    #[test]
    fn the_fewest_changes_by_hand_are_taken_back() {
        let access = |number| VlanMode::Access(vid(number));
        let names = |ports: &[PortRules; 2]| {
            let found = by_hand([&ports[0], &ports[1]], &untagged(), true);
            found.iter().map(|port| port.port.clone()).collect::<Vec<_>>()
        };
        let as_file = |name: &str, is: u16, file: u16| PortRules {
            planned: access(file),
            ..port(name, access(is))
        };
        assert_eq!(names(&[as_file("a", 10, 10), as_file("b", 20, 10)]), ["b"]);
        assert_eq!(names(&[as_file("a", 30, 10), as_file("b", 10, 10)]), ["a"]);
        assert_eq!(names(&[as_file("a", 30, 10), as_file("b", 40, 10)]), ["a", "b"]);
        // One that both have is as good as the file's, if one port alone need change; and the file may have the fault.
        assert_eq!(names(&[as_file("a", 30, 10), as_file("b", 40, 30)]), ["b"]);
        assert!(names(&[as_file("a", 10, 10), as_file("b", 20, 20)]).is_empty());
    }

    #[test]
    fn a_rule_is_written_as_its_command_takes_it() {
        assert_eq!(command(&VlanMode::Any), "none");
        assert_eq!(command(&trunk(Some(7), "1-3")), "trunk 1-3 --native 7");
        assert_eq!(command(&qinq(7)), "qinq 7 --tpid 0x88a8");
    }

    #[test]
    fn a_trunk_gets_one_vlan_more() {
        assert_eq!(widened(&trunk(None, "1-3"), vid(4)).as_deref(), Some("trunk 1-4"));
        let native = widened(&trunk(Some(9), "none"), vid(4));
        assert_eq!(native.as_deref(), Some("trunk 4 --native 9"));
        assert_eq!(widened(&qinq(7), vid(4)), None);
    }
}
