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

/// A trunk's rule with one more VLAN, as the command takes it.
fn widened(vlan: &VlanMode, with: Vid) -> Option<String> {
    let VlanMode::Trunk { native, allowed } = vlan else { return None };
    let mut allowed: VidSet = allowed.clone();
    allowed.insert(with);
    let native = native.map_or_else(String::new, |vid| format!(" --native {vid}"));
    Some(format!("trunk {allowed}{native}"))
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
        let is_end = [at == 0, at + 2 == between.all.len()];
        self.vlans(switch, [&input, &output], is_end, before);
        // A switch between two others sees the address of the station, which is not known here.
        if at == 0 {
            self.locked(switch, &input, &first.link, before)?;
        }
        Ok(())
    }

    fn stop_at_ports(&mut self, before: usize, cause: Cause) {
        let to = self.walk.places.len().max(before + 1);
        self.add(Stop { from: before, to, share: Share::All, cause });
    }

    /// Takes the frame through a switch; `is_end` says whether a station is at the port.
    fn vlans(
        &mut self,
        switch: &str,
        [input, output]: [&PortRules; 2],
        is_end: [bool; 2],
        before: usize,
    ) {
        let Some(frame) = self.frame.take() else { return };
        let (of, to) = (&input.port, &output.port);
        let (text, rule) = match through([input, output], &frame) {
            Ok((frame, vid)) => {
                let tag = tag_of(&frame).filter(|_| is_end[1]);
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
                    VlanMode::Any | VlanMode::Access(_) if is_end[1] => {
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
        let lab = self.facts.lab();
        cause.mend =
            rule.map(|(port, rule)| format!("netloom -l {lab} switch vlan {switch} {port} {rule}"));
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
        PortRules { port: name.into(), vlan, macs: vec![] }
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
    fn a_trunk_gets_one_vlan_more() {
        assert_eq!(widened(&trunk(None, "1-3"), vid(4)).as_deref(), Some("trunk 1-4"));
        let native = widened(&trunk(Some(9), "none"), vid(4));
        assert_eq!(native.as_deref(), Some("trunk 4 --native 9"));
        assert_eq!(widened(&qinq(7), vid(4)), None);
    }
}
