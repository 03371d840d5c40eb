//! State of the slicer, for status.

use netloom_ofconn::dial::Peer;

use crate::application::{SlicePolicy, SwitchPolicy};
use crate::control::requests::{
    ControllerShown, PortShown, RefusalShown, ResumedShown, Shown, SliceShown, SwitchShown,
    VirtualShown,
};
use crate::real::{Attached, Real};
use crate::server::Server;
use crate::system;
use crate::wire::{Side, Whose};

fn number(datapath: u64) -> String {
    format!("{datapath:#018x}")
}

impl Server {
    /// State of the slicer.
    pub(crate) fn shown(&self) -> Shown {
        let policy = &self.application.policy;
        let slices = policy.slices.iter().enumerate();
        Shown {
            name: self.application.name.clone(),
            pid: std::process::id(),
            since: self.since,
            cpu_us: system::cpu_ns() / 1000,
            switches: policy.switches.iter().map(|switch| self.switch_shown(switch)).collect(),
            slices: slices.map(|(place, slice)| self.slice_shown(place, slice)).collect(),
            left_out: self.left_out,
            dropped: self.dropped,
            trouble: self.trouble.clone(),
        }
    }

    fn real(&self, name: &str) -> Option<(u64, &Real)> {
        let found = self.reals.iter().find(|(_, real)| real.name == name);
        found.map(|(id, real)| (*id, real))
    }

    fn switch_shown(&self, switch: &SwitchPolicy) -> SwitchShown {
        let real = self.real(&switch.name);
        let datapath = real.map(|(_, real)| real.datapath).or(switch.datapath);
        let wire = real.and_then(|(id, _)| self.wires.get(&id));
        SwitchShown {
            name: switch.name.clone(),
            datapath: datapath.map(number),
            connected: real.is_some(),
            peer: wire.map(|wire| wire.channel.peer.clone()),
            version: real.map(|(_, real)| real.version.to_string()),
            resumed: real.and_then(|(_, real)| real.resumed).map(resumed),
        }
    }

    fn slice_shown(&self, place: usize, slice: &SlicePolicy) -> SliceShown {
        let turns = self.turns.get(place);
        let there = slice.slice.switches.keys();
        SliceShown {
            name: slice.slice.name.clone(),
            messages: turns.map_or(0, |turns| turns.read),
            held: turns.map_or(0, |turns| turns.held),
            cpu_us: turns.map_or(0, |turns| turns.cpu_ns / 1000),
            switches: there.map(|switch| self.virtual_shown(place, slice, switch)).collect(),
        }
    }

    fn virtual_shown(&self, place: usize, slice: &SlicePolicy, switch: &str) -> VirtualShown {
        let shares = slice.shares(self.application.policy.places());
        let none = VirtualShown {
            switch: switch.to_owned(),
            most_entries: Some(shares.rules),
            most_groups: shares.groups,
            most_buckets: shares.buckets,
            most_meters: shares.meters,
            most_memory: shares.memory,
            ..VirtualShown::default()
        };
        let Some((id, real)) = self.real(switch) else { return none };
        let Some(own) = real.slice_at(place) else { return none };
        let counters = real.core.counters(own);
        let ports = real.core.ports(own).into_iter().map(|(number, port)| PortShown {
            number: number.0,
            real: port.number.0,
            name: port.name.text().into_owned(),
        });
        let ending = format!("{}.{switch}", slice.slice.name);
        let socket = real.services.iter().find(|path| path.ends_with(&ending));
        let attached = real.slices.get(&own);
        VirtualShown {
            datapath: real.core.datapath_id(own).map(number),
            ports: ports.collect(),
            controllers: self.controllers_shown(id, place),
            socket: socket.map(|path| path.display().to_string()),
            rules: counters.rules,
            entries: counters.entries,
            groups: counters.groups,
            buckets: counters.buckets,
            meters: counters.meters,
            memory: counters.bytes,
            refused: counters.refused,
            packet_ins: counters.packet_ins,
            packet_ins_dropped: counters.packet_ins_dropped,
            packet_outs: counters.packet_outs,
            lldp_received: counters.lldp_received,
            refusals: attached.map(refusals).unwrap_or_default(),
            ..none
        }
    }

    fn controllers_shown(&self, switch: u64, place: usize) -> Vec<ControllerShown> {
        let of = |peer: &&Peer<Whose>| matches!(peer.whose, Whose::Controller(id, _, at) if (id, at) == (switch, place));
        let shown = |peer: &Peer<Whose>| ControllerShown {
            target: peer.controller.target.to_string(),
            namespace: peer.controller.namespace.clone(),
            connected: peer
                .connection()
                .and_then(|id| self.wires.get(&id))
                .is_some_and(|wire| matches!(wire.side, Side::Slice { greeted: true, .. })),
            attempts: peer.attempts,
            reason: peer.reason.clone(),
        };
        self.peers.all().filter(of).map(shown).collect()
    }
}

fn resumed(of: netloom_slicing::Resumed) -> ResumedShown {
    let netloom_slicing::Resumed { rules, lost, kept, made, removed } = of;
    ResumedShown { rules, lost, kept, made, removed }
}

fn refusals(attached: &Attached) -> Vec<RefusalShown> {
    let shown = |refused: &crate::real::Refused| RefusalShown {
        at: refused.at,
        words: refused.words.clone(),
        example: refused.example.clone(),
    };
    attached.refusals.iter().map(shown).collect()
}
