//! Ports that come and go, and what the kernel says of their interfaces.
//!
//! A port whose interface is gone is gone for controllers, too; it comes back when it is added again.

use std::collections::BTreeMap;

use netloom_netlink::{ChangedLinks, LinkInfo, LinkRef};
use netloom_openflow::port::PortState;
use netloom_openflow::{Port, PortNumber};
use netloom_pipeline::{Outputs, Switch};

use crate::control::{PortKey, PortSpec};
use crate::data_plane::PlanePort;
use crate::ports::{Known, check, described};
use crate::server::Server;
use crate::system::clock;
use crate::{Error, Result};

impl Server {
    /// Adds a port, or changes the one of this number.
    pub(crate) fn add_port(&mut self, spec: PortSpec) -> Result<()> {
        check(&spec, &self.ports.known)?;
        let link = self.ports.asker.link(LinkRef::Name(&spec.interface))?;
        let link = link.ok_or_else(|| {
            Error::refused(format!("port {:?}: no interface {:?}", spec.name, spec.interface))
        })?;
        let before = self.ports.known.get(&spec.number).and_then(|port| port.index);
        // Another interface may have the index of one that is gone.
        let holds = self.engine.plane.has_port(PortNumber(spec.number));
        if before != Some(link.index) || !holds {
            if !self.keeping.restoring {
                // Results name interfaces.
                self.engine.give_up_port(PortNumber(spec.number), clock())?;
            }
            self.engine.plane.add_port(&PlanePort {
                number: PortNumber(spec.number),
                name: spec.name.clone(),
                index: link.index,
                interface: spec.interface.clone(),
            })?;
        }
        let (number, port) = (spec.number, described(&spec, &link));
        self.ports.known.insert(number, Known { spec, index: Some(link.index) });
        self.note_port(port)?;
        self.restore_port(number);
        Ok(())
    }

    /// A port came or changed.
    fn note_port(&mut self, port: Port) -> Result<()> {
        let same = |old: &Port| {
            (old.address, old.name, old.state.has(PortState::LINK_DOWN))
                == (port.address, port.name, port.state.has(PortState::LINK_DOWN))
        };
        let old = self.engine.switch.ports().find(|old| old.number == port.number);
        if old.is_some_and(same) {
            return Ok(());
        }
        let set = |switch: &mut Switch, out: &mut Outputs| switch.set_port(port, &[], clock(), out);
        if self.keeping.restoring {
            // What the plane inherits is looked at when all ports are there.
            set(&mut self.engine.switch, &mut self.engine.out);
            return Ok(());
        }
        self.engine.change_port(port.number, clock(), set)
    }

    pub(crate) fn remove_port(&mut self, key: &PortKey) -> Result<()> {
        let number = self.ports.number(key)?;
        self.ports.known.remove(&number);
        self.unkeep_port(number);
        self.forget_port(PortNumber(number))
    }

    fn forget_port(&mut self, number: PortNumber) -> Result<()> {
        let remove = |switch: &mut Switch, out: &mut Outputs| switch.remove_port(number, out);
        // Before the plane lets go: results that send there are given up first.
        self.engine.change_port(number, clock(), remove)?;
        self.engine.plane.remove_port(number);
        Ok(())
    }

    /// Links have changed: looks at those of ports.
    pub(crate) fn follow_links(&mut self) -> Result<()> {
        let changed = self.ports.watch.changed()?;
        if changed == ChangedLinks::Any {
            return self.look_at_links();
        }
        let ChangedLinks::These(links) = changed else { return Ok(()) };
        for (number, index) in self.ports.with_links(|index| links.contains(&index)) {
            let link = self.ports.asker.link(LinkRef::Index(index))?;
            self.note_link(number, link.as_ref())?;
        }
        Ok(())
    }

    /// Looks at the links of all ports: one question to the kernel.
    fn look_at_links(&mut self) -> Result<()> {
        let links = self.ports.asker.links()?;
        let links: BTreeMap<u32, LinkInfo> =
            links.into_iter().map(|link| (link.index, link)).collect();
        for (number, index) in self.ports.with_links(|_| true) {
            self.note_link(number, links.get(&index))?;
        }
        Ok(())
    }

    /// What the kernel says of the interface of a port; nothing: it is gone.
    fn note_link(&mut self, number: u32, link: Option<&LinkInfo>) -> Result<()> {
        let Some(known) = self.ports.known.get_mut(&number) else { return Ok(()) };
        if let Some(link) = link {
            let port = described(&known.spec, link);
            return self.note_port(port);
        }
        // Kept as it was told, so that it comes back when the interface does.
        known.index = None;
        self.forget_port(PortNumber(number))
    }
}
