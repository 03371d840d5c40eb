//! Switches of all kinds.

use super::node::{shown, size};
use super::tree::{Body, Yaml};
use crate::keys::SWITCH;
use crate::kinds::openflow::{Controller, FailMode, OpenflowSwitch, TlsFiles};
use crate::kinds::shm::{MirrorDirection, PortVlan, ShmMirror, ShmPort, ShmSwitch, VdeFolder};
use crate::kinds::{SwitchKind, bridge};
use crate::lab::Switch;

pub(super) fn switch(switch: &Switch) -> Yaml {
    let mut body = Body::default();
    body.unless("kind", &switch.kind.word(), &bridge::WORD);
    body.some("subnet", prefixes(&switch.subnets));
    body.some("mtu", switch.mtu.map_or_else(Yaml::none, Yaml::word));
    body.unless("stp", &switch.stp, &false);
    match &switch.kind {
        SwitchKind::Bridge => {}
        SwitchKind::Shm(options) => put_shm(&mut body, options),
        SwitchKind::Openflow(options) => put_openflow(&mut body, options),
    }
    body.in_order(&SWITCH)
}

pub(super) fn prefixes(all: &[ipnet::IpNet]) -> Yaml {
    Yaml::one_or_list(all.iter().map(|net| Yaml::plain(net.to_string())).collect())
}

fn put_shm(body: &mut Body, shm: &ShmSwitch) {
    let plain = ShmSwitch::default();
    if shm.mode != plain.mode {
        body.put("mode", Yaml::text(format!("{:04o}", shm.mode)));
    }
    body.text("group", shm.group.as_deref());
    if shm.arena != plain.arena {
        body.put("arena", Yaml::plain(size(shm.arena.into())));
    }
    body.unless("ageing", &shm.ageing, &plain.ageing);
    let ports = shm.ports.iter().map(|(name, of)| (name.clone(), port(of)));
    body.some("ports", Yaml::Map(ports.collect()));
    body.some("mirrors", Yaml::List(shm.mirrors.iter().map(mirror).collect()));
    match &shm.vde {
        VdeFolder::None => {}
        VdeFolder::Beside => body.put("vde", Yaml::word("true")),
        VdeFolder::At(path) => body.put("vde", Yaml::text(path)),
    }
}

fn port(port: &ShmPort) -> Yaml {
    let mut body = Body::default();
    match &port.vlan {
        None => {}
        Some(PortVlan::Access(vlan)) => body.put("vlan", Yaml::word(vlan)),
        Some(PortVlan::Trunk { native, allowed }) => {
            body.put("trunk", Yaml::text(allowed));
            body.some("native", native.map_or_else(Yaml::none, Yaml::word));
        }
        Some(PortVlan::Qinq { vlan, cvlans, tpid }) => {
            body.put("qinq", Yaml::word(vlan));
            body.text("cvlans", cvlans.as_deref());
            body.unless("tpid", tpid, &netloom_bridge::Tpid::default().to_string());
        }
    }
    body.some("lock", Yaml::one_or_list(port.lock.iter().map(Yaml::text).collect()));
    body.text("owner", port.owner.as_deref());
    body.some("number", port.number.map_or_else(Yaml::none, Yaml::word));
    Yaml::Map(body.0)
}

fn mirror(mirror: &ShmMirror) -> Yaml {
    let mut body = Body::default();
    body.put("from", Yaml::one_or_list(mirror.from.iter().map(Yaml::text).collect()));
    match mirror.direction {
        MirrorDirection::In => body.put("direction", Yaml::word("in")),
        MirrorDirection::Out => body.put("direction", Yaml::word("out")),
        MirrorDirection::Both => {}
    }
    body.put("to", Yaml::text(&mirror.to));
    body.text("filter", Some(&mirror.filter).filter(|text| !text.is_empty()));
    Yaml::Map(body.0)
}

fn put_openflow(body: &mut Body, switch: &OpenflowSwitch) {
    let plain = OpenflowSwitch::default();
    body.some("controllers", controllers(&switch.controllers));
    let by_default =
        if switch.controllers.is_empty() { FailMode::Standalone } else { FailMode::Secure };
    body.unless("fail", &switch.fail.word(), &by_default.word());
    if switch.versions != plain.versions {
        let versions = switch.versions.iter().map(|version| Yaml::text(version.word()));
        body.put("versions", Yaml::one_or_list(versions.collect()));
    }
    body.some("datapath", switch.datapath.map_or_else(Yaml::none, datapath));
    body.unless("tables", &switch.tables, &plain.tables);
    body.unless("max-entries", &switch.max_entries, &plain.max_entries);
    body.unless("auxiliary", &switch.auxiliary, &plain.auxiliary);
    if let Some(files) = &switch.tls {
        body.put("tls", tls(files));
    }
}

pub(super) fn datapath(id: crate::kinds::openflow::DatapathId) -> Yaml {
    Yaml::plain(format!("0x{:x}", id.get()))
}

pub(super) fn controllers(all: &[Controller]) -> Yaml {
    Yaml::one_or_list(all.iter().map(|one| Yaml::text(one.to_string())).collect())
}

pub(super) fn tls(files: &TlsFiles) -> Yaml {
    let mut body = Body::default();
    body.put("authorities", Yaml::text(shown(&files.authorities)));
    body.text("certificate", files.certificate.as_deref().map(shown));
    body.text("key", files.key.as_deref().map(shown));
    body.text("name", files.name.as_deref());
    Yaml::Map(body.0)
}
