//! Messages of controllers, by kind; settings and descriptions that are the virtual switch's alone.

use netloom_openflow::role::{Role, RoleMessage};
use netloom_openflow::switch::{Capabilities, Features, Fragments, SwitchConfig};
use netloom_openflow::{Message, Reason, Version};

use super::jobs::Step;
use super::pending::Kind;
use super::{Done, Out, Refusal, Sent, VirtualSwitches};
use crate::SliceId;
use crate::Work;

impl VirtualSwitches {
    /// Does what a controller asks for; returns what is left of it.
    pub(super) fn controller(
        &mut self,
        sent: &Sent,
        message: Message,
        work: &mut Work,
        out: &mut Vec<Out>,
    ) -> Step {
        self.may(sent, &message)?;
        let answer = |out: &mut Vec<Out>, this: &VirtualSwitches, message| {
            this.tell(sent.slice, sent.xid, message, out);
        };
        match message {
            Message::EchoRequest(data) => answer(out, self, Message::EchoReply(data)),
            Message::FeaturesRequest => {
                let features = self.seen_features(sent.slice);
                answer(out, self, Message::FeaturesReply(features));
            }
            Message::GetConfigRequest => {
                let config = self.of(sent.slice)?.config;
                answer(out, self, Message::GetConfigReply(config));
            }
            Message::SetConfig(config) => self.set_config(sent, config)?,
            Message::PacketOut(packet) => return self.packet_out(sent, packet, work, out),
            Message::FlowMod(change) => return self.flow_mod(sent, change, work, out),
            Message::GroupMod(change) => return self.group_mod(sent, change, work, out),
            Message::MeterMod(change) => return self.meter_mod(sent, change, work, out),
            Message::PortMod(change) => self.port_mod(sent, &change, out)?,
            Message::TableMod(_) => {
                let words = "tables are shared";
                return Err(Refusal::new(Reason::TableModFailedEperm, words));
            }
            Message::MultipartRequest(request) => {
                return self.multipart_request(sent, request, out);
            }
            Message::BarrierRequest => {
                self.order(sent, Kind::Barrier, Message::BarrierRequest, out);
            }
            Message::QueueGetConfigRequest(port) => self.queues(sent, port, out)?,
            Message::RoleRequest(role) => self.role(sent, role, out)?,
            Message::GetAsyncRequest => {
                let interests = self.of(sent.slice)?.interests;
                answer(out, self, Message::GetAsyncReply(interests));
            }
            Message::SetAsync(interests) => {
                if let Some(member) = self.member(sent.slice) {
                    member.interests = interests;
                }
            }
            Message::Experimenter { .. } => {
                let words = "nothing is known of an experimenter's message";
                return Err(Refusal::new(Reason::BadRequestBadExperimenter, words));
            }
            message if message.from_switch() => {
                let words = "only switches send this";
                return Err(Refusal::new(Reason::BadRequestBadType, words));
            }
            // Hellos, answers to echo requests and errors.
            _ => {}
        }
        Ok(None)
    }

    /// Whether its role allows a message.
    fn may(&self, sent: &Sent, message: &Message) -> Done {
        let changes = matches!(
            message,
            Message::PacketOut(_)
                | Message::FlowMod(_)
                | Message::GroupMod(_)
                | Message::MeterMod(_)
                | Message::PortMod(_)
                | Message::TableMod(_)
        );
        if changes && self.of(sent.slice)?.role == Role::Slave {
            return Err(Refusal::new(Reason::BadRequestIsSlave, "a slave only reads"));
        }
        Ok(())
    }

    /// The number of a slice's virtual switch.
    pub fn datapath_id(&self, slice: SliceId) -> Option<u64> {
        let own = self.slicing.slice(slice)?.datapath_id;
        // The lower 48 bits are a MAC address, the upper 16 are the implementer's (section 7.3.1).
        let real = self.features.datapath_id & 0xffff_ffff_ffff;
        Some(own.unwrap_or((u64::from(slice.0) + 1) << 48 | real))
    }

    fn seen_features(&self, slice: SliceId) -> Features {
        let ports = match self.version {
            Version::V10 => self.seen_ports(slice),
            Version::V13 => vec![],
        };
        Features {
            datapath_id: self.datapath_id(slice).unwrap_or(0),
            // Fragments pass as they are: `set_config` takes nothing else.
            capabilities: self.features.capabilities.without(Capabilities::IP_REASM),
            auxiliary: 0,
            ports,
            ..self.features.clone()
        }
    }

    fn set_config(&mut self, sent: &Sent, config: SwitchConfig) -> Done {
        if config.fragments != Fragments::Normal {
            let words = "fragments are handled alike for all slices";
            return Err(Refusal::new(Reason::SwitchConfigFailedBadFlags, words));
        }
        if let Some(member) = self.member(sent.slice) {
            member.config = config;
        }
        Ok(())
    }

    fn role(&mut self, sent: &Sent, asked: RoleMessage, out: &mut Vec<Out>) -> Done {
        let Some(member) = self.member(sent.slice) else { return Ok(()) };
        if matches!(asked.role, Role::Master | Role::Slave) {
            // Distances around the circle of numbers (section 6.3.6).
            let stale = member
                .generation
                .is_some_and(|known| asked.generation.wrapping_sub(known) > u64::MAX >> 1);
            if stale {
                return Err(Refusal::new(Reason::RoleRequestFailedStale, "an older generation"));
            }
            member.generation = Some(asked.generation);
        }
        if asked.role != Role::NoChange {
            member.role = asked.role;
        }
        // All ones: no generation was said yet (section 7.3.9).
        let reply =
            RoleMessage { role: member.role, generation: member.generation.unwrap_or(u64::MAX) };
        self.tell(sent.slice, sent.xid, Message::RoleReply(reply), out);
        Ok(())
    }
}
