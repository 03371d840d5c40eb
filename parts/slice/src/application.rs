//! Configuration of a slicer: at its start, and again over its control socket. It goes between processes
//! as JSON.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use netloom_model::kinds::openflow;
use netloom_model::slices::{self, Shares};
use netloom_ofconn::{Controller, Target, Tls};
use netloom_slicing::{Key, Memory, Quota, Rate, Slicing};
use serde::{Deserialize, Serialize};

use crate::turns::Bounds;

/// What a slicer is told at its start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Application {
    /// Its name, for people.
    pub name: String,
    /// The UNIX socket at which switches connect; made with mode 0600.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<PathBuf>,
    /// Switches that it connects to, and other places where switches connect.
    #[serde(default)]
    pub switches: Vec<Controller>,
    /// How switches are reached by TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// The folder in which each virtual switch has a UNIX socket that speaks OpenFlow, `SLICE.SWITCH`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub services: Option<PathBuf>,
    /// The folder in which it keeps what a later process has to know of each switch, `memory-DATAPATH`; none: that one
    /// empties its switches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<PathBuf>,
    /// The slices that it begins with.
    pub policy: Policy,
    /// Seconds of silence after which the other end is asked for an echo; as many later it is given up.
    #[serde(default = "Application::probe")]
    pub probe: u16,
}

impl Application {
    /// A slicer of this name, with everything that has a default.
    pub fn new(name: &str, policy: Policy) -> Application {
        Application {
            name: name.to_owned(),
            socket: None,
            switches: vec![],
            tls: None,
            services: None,
            memory: None,
            policy,
            probe: Application::probe(),
        }
    }

    const fn probe() -> u16 {
        5
    }
}

/// Switches and their slices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Policy {
    /// The switches that are sliced.
    pub switches: Vec<SwitchPolicy>,
    /// The slices.
    pub slices: Vec<SlicePolicy>,
}

/// A switch that is sliced.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SwitchPolicy {
    /// Its name in slices.
    pub name: String,
    /// Its number; none: whichever connects that no other is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datapath: Option<u64>,
    /// The numbers of ports that slices name. A name that is a number stands for itself.
    #[serde(default)]
    pub ports: BTreeMap<String, u32>,
}

/// A slice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SlicePolicy {
    /// Its spaces and quotas.
    pub slice: slices::Slice,
    /// Where its controllers are.
    #[serde(default)]
    pub controllers: Vec<Controller>,
    /// How they are reached by TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
}

/// A tenth of a second's worth, and some at once in any case.
fn rate(per_second: u32) -> Rate {
    let per_second = u64::from(per_second);
    Rate { per_second, burst: (per_second / 10).max(10) }
}

impl SlicePolicy {
    /// What the slicer itself bounds.
    pub(crate) fn bounds(&self) -> Bounds {
        let quota = &self.slice.quota;
        Bounds { messages: quota.messages, cpu_milli: quota.cpu_milli }
    }

    /// What it may have on each switch, if all slices are in this many places.
    pub(crate) fn shares(&self, places: usize) -> Shares {
        self.slice.quota.shares(places)
    }

    /// The slice on a switch, if it is there.
    fn on(
        &self,
        switch: &SwitchPolicy,
        places: usize,
    ) -> Result<Option<netloom_slicing::Slice>, String> {
        let Some(spaces) = self.slice.switches.get(&switch.name) else { return Ok(None) };
        let number = |port: &str| switch.ports.get(port).copied().or_else(|| port.parse().ok());
        let mut all = vec![];
        for space in spaces {
            let name = &self.slice.name;
            all.extend(space.spaces(number).map_err(|why| format!("slice {name:?}: {why}"))?);
        }
        let (quota, shares) = (&self.slice.quota, self.shares(places));
        Ok(Some(netloom_slicing::Slice {
            name: self.slice.name.clone(),
            spaces: all,
            quota: Quota {
                rules: Some(shares.rules),
                groups: Some(shares.groups),
                buckets: Some(shares.buckets),
                meters: Some(shares.meters),
                bytes: Some(shares.memory),
                packet_ins: quota.packet_ins.map(rate),
                kilobits: quota.rate.map(|bits| u32::try_from(bits / 1000).unwrap_or(u32::MAX)),
                ..Quota::default()
            },
            lldp: true,
            datapath_id: self.slice.datapaths.get(&switch.name).map(|id| id.get()),
        }))
    }
}

impl From<slices::PolicyFile> for Policy {
    /// What a file of slices says. Controllers in nodes, which only labs have, are left out.
    fn from(file: slices::PolicyFile) -> Policy {
        let switch = |(name, switch): (String, slices::PolicySwitch)| SwitchPolicy {
            name,
            datapath: switch.datapath.map(|id| id.get()),
            ports: switch.ports,
        };
        Policy {
            switches: file.switches.into_iter().map(switch).collect(),
            slices: file.slices.into_iter().map(SlicePolicy::outside).collect(),
        }
    }
}

impl SlicePolicy {
    /// A slice whose controllers are reached from here.
    fn outside(slice: slices::Slice) -> SlicePolicy {
        let target = |controller: &openflow::Controller| {
            let target = match controller {
                openflow::Controller::Tcp(to, port) => Target::Tcp(SocketAddr::new(*to, *port)),
                openflow::Controller::Tls(to, port) => Target::Tls(SocketAddr::new(*to, *port)),
                openflow::Controller::Unix(path) => Target::Unix(path.clone()),
                // From here, outside of labs, the host is the machine itself.
                openflow::Controller::Host(port) => {
                    Target::Tcp(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), *port))
                }
                openflow::Controller::Node(..) => return None,
            };
            Some(Controller { target, namespace: None })
        };
        SlicePolicy {
            controllers: slice.controllers.iter().filter_map(target).collect(),
            tls: slice.tls.clone().map(tls),
            slice,
        }
    }
}

/// Files for TLS as connections take them.
pub fn tls(files: openflow::TlsFiles) -> Tls {
    let openflow::TlsFiles { authorities, certificate, key, name } = files;
    Tls { authorities, certificate, key, name }
}

impl Policy {
    /// The slices of a switch, and which of the policy's they are. Those that are remembered keep their numbers.
    ///
    /// # Errors
    /// In words.
    pub(crate) fn slicing(
        &self,
        switch: &SwitchPolicy,
        key: &Key,
        memory: Option<&Memory>,
    ) -> Result<(Slicing, Vec<usize>), String> {
        let mut there = vec![];
        let places = self.places();
        for (place, slice) in self.slices.iter().enumerate() {
            there.extend(slice.on(switch, places)?.map(|slice| (slice, place)));
        }
        let there = match memory {
            Some(memory) => memory.placed(there, |(slice, _)| &slice.name),
            None => there.into_iter().map(Some).collect(),
        };
        let places = there.iter().flatten().map(|(_, place)| *place).collect();
        let slices = there.into_iter().map(|one| one.map(|(slice, _)| slice)).collect();
        let wrong = |e: netloom_slicing::Error| format!("switch {:?}: {e}", switch.name);
        Ok((Slicing::numbered(slices, key.clone()).map_err(wrong)?, places))
    }

    /// How many switches each slice is on, summed up.
    pub(crate) fn places(&self) -> usize {
        self.slices.iter().map(|slice| slice.slice.switches.len()).sum()
    }

    /// Checks that slices are apart on every switch.
    ///
    /// # Errors
    /// In words, with an example where they are not.
    pub fn check(&self) -> Result<(), String> {
        // The key signs LLDP marks only; it has no part in whether slices are apart, so any does.
        let key = Key([0; 16]);
        self.switches.iter().try_for_each(|switch| self.slicing(switch, &key, None).map(drop))
    }

    /// The switch with this number.
    pub(crate) fn switch(&self, datapath: u64) -> Option<&SwitchPolicy> {
        // One without a number stands for every switch that no other names, wherever it is in the policy.
        let exact = self.switches.iter().find(|switch| switch.datapath == Some(datapath));
        exact.or_else(|| self.switches.iter().find(|switch| switch.datapath.is_none()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(text: &str) -> Policy {
        let file = slices::policy("p", text.as_bytes()).expect("a policy");
        Policy::from(file)
    }

    #[test]
    fn a_policy_goes_over_json() {
        let policy = policy(
            "switches: {s: {datapath: 0x1, ports: {up: 7}}}\n\
             slices:\n  a: {switches: {s: {ports: [up, 2], vlan: [untagged, 5..6]}}, rules: 5, rate: 1mbit, cpu: 10%}\n  \
             b: {switches: {s: [{ports: 3}, {ports: 4, within: 10.0.0.0/8, tcp: [80, 8000..8010]}]}}\n",
        );
        let text = serde_json::to_string(&policy).expect("text");
        assert_eq!(serde_json::from_str::<Policy>(&text).expect("a policy"), policy);
        let (slicing, places) = policy
            .slicing(&policy.switches[0], &Key([1; 16]), None)
            .expect("slices that are apart");
        assert_eq!(places, [0, 1]);
        let first = slicing.slice(netloom_slicing::SliceId(0)).expect("a slice");
        assert_eq!((first.quota.rules, first.quota.kilobits), (Some(5), Some(1000)));
    }

    #[test]
    fn slices_that_share_packets_are_refused_with_one() {
        let mut policy = policy(
            "switches: {s: {}}\nslices: {a: {switches: {s: {ports: [1]}}}, b: {switches: {s: {ports: [2]}}}}\n",
        );
        policy.check().expect("apart");
        let both = policy.slices[0].slice.switches.clone();
        policy.slices[1].slice.switches = both;
        let why = policy.check().expect_err("the same packets");
        assert!(why.contains("share packets: a packet at port 1"), "{why}");
    }
}
