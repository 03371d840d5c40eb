//! Switches and controllers of Mininet.
//!
//! Where the script names a controller that runs elsewhere, switches are OpenFlow switches of that controller; with one
//! of Mininet's own they learn by themselves, which is what these do. Without any, nothing is forwarded until a flow entry
//! says so, unless the switch is a bridge.

use std::collections::HashMap;

use crate::at::At;
use crate::draft::{Draft, Switch};
use crate::mininet::Names;
use crate::mininet::record::Record;

/// A controller: its name, and where it is if it runs elsewhere.
pub(super) type Controller<'a> = (&'a str, Option<String>);

/// The controllers.
pub(super) fn controllers<'a>(root: &At<'a>, record: &Record<'_>) -> Vec<Controller<'a>> {
    let mut found = vec![];
    for (name, at) in root.get("controllers").iter().flat_map(At::entries) {
        let class = at.get("cls");
        let (ip, port) = (at.get("ip"), at.get("port"));
        let all = [&class, &ip, &port];
        let place = match record.kind_of_controller(name) {
            "remote" => {
                let address = ip.as_ref().and_then(At::text).unwrap_or("127.0.0.1");
                // The port that Mininet's RemoteController tries first.
                let port = port.as_ref().and_then(At::text).unwrap_or("6653");
                all.into_iter().flatten().for_each(At::carried);
                Some(match address {
                    // Mininet's switches are in the host's network,
                    // so that this loopback is the host's.
                    "127.0.0.1" | "localhost" | "::1" => format!("host:{port}"),
                    address => format!("tcp:{address}:{port}"),
                })
            }
            "learning" => {
                class.iter().for_each(|at| at.changed("switches learn by themselves"));
                [&ip, &port]
                    .into_iter()
                    .flatten()
                    .for_each(|at| at.changed("there is no controller"));
                None
            }
            _ => {
                at.left_out(
                    "start it, and name it as a RemoteController; switches learn by themselves",
                );
                None
            }
        };
        found.push((name, place));
    }
    found
}

/// Reads the switches.
pub(super) fn read(
    root: &At<'_>,
    record: &Record<'_>,
    controllers: &[Controller<'_>],
    names: &mut Names,
    draft: &mut Draft,
) {
    let mut datapaths = HashMap::new();
    for (name, at) in root.get("switches").iter().flat_map(At::entries) {
        let wish = crate::valid_name(name);
        let new = draft.free_name(if wish.is_empty() { "s" } else { &wish });
        let mut switch = Switch::named(&new);
        // Of a host of the same name links are the host's, as the record finds it first.
        names.entry(name.to_owned()).or_insert(new);
        let (kind, dpid, own) = record.switch(name);
        // Where the script gives a switch no controllers of its own, it has all of the network.
        let has = |(name, _): &&Controller<'_>| own.as_ref().is_none_or(|own| own.contains(name));
        let own: Vec<&Controller<'_>> = controllers.iter().filter(has).collect();
        let remote: Vec<String> =
            own.iter().filter_map(|(_, place)| Some(format!("{:?}", place.as_ref()?))).collect();
        let standalone = at.text_of("failMode") == Some("standalone");
        // Without a controller Open vSwitch forwards nothing in its fail mode `secure`, which is
        // Mininet's default.
        let alone = own.is_empty() && !standalone;
        let programmed = kind == "openflow" && (alone || !remote.is_empty());
        let mut twin = None;
        if programmed {
            switch.keys.push(("kind", "openflow".into()));
            if !remote.is_empty() {
                switch.keys.push(("controllers", format!("[{}]", remote.join(", "))));
            }
            // Mininet 2.3.0 makes it of the first number in the name: `core1` and `edge1` have one.
            let datapath = datapath(dpid);
            twin = datapaths.get(&datapath).copied();
            if twin.is_none() {
                datapaths.insert(datapath.clone(), name);
                switch.keys.push(("datapath", datapath));
            }
            match (alone, standalone) {
                (true, _) => switch.keys.push(("fail", "secure".into())),
                (_, true) => switch.keys.push(("fail", "standalone".into())),
                _ => {}
            }
        }
        let told = if at.get("dpid").is_some() { "dpid" } else { "cls" };
        for (key, at) in at.entries() {
            match (record.note("switches", name, key), twin) {
                (Some(why), _) => at.changed(why),
                (None, Some(twin)) if key == told => at.changed(format!(
                    "its datapath id is one of its own: {twin:?} has the same in Mininet, and controllers could not \
                     tell them apart"
                )),
                (None, _) => property(key, &at, (kind, programmed), &mut switch),
            }
        }
        draft.switches.push(switch);
    }
}

fn property(key: &str, at: &At<'_>, (kind, programmed): (&str, bool), switch: &mut Switch) {
    match key {
        "cls" if programmed && at.text() == Some("OVSSwitch") => at.carried(),
        "cls" if kind == "learning" => at.carried(),
        "cls" if programmed => at.changed("an OpenFlow switch of netloom"),
        "cls" => at.changed("a switch that learns by itself"),
        "failMode" | "dpid" if programmed => at.carried(),
        // The default, of which a script says nothing.
        "failMode" if at.text() == Some("secure") => at.carried(),
        "failMode" | "dpid" => at.changed("there is no controller"),
        "protocols" if programmed => protocols(at, switch),
        "protocols" => at.changed("there is no controller"),
        "isSwitch" => at.carried(),
        "inNamespace" if !at.is_true() => at.carried(),
        "stp" if !at.is_true() && at.text() != Some("1") => at.carried(),
        "stp" if !programmed => {
            switch.keys.push(("stp", "true".into()));
            at.carried();
        }
        "stp" => at.left_out("a switch that a controller programs has no spanning tree of its own"),
        "batch" | "datapath" | "inband" | "reconnectms" | "listenPort" | "verbose" => {
            at.changed("of Open vSwitch's own");
        }
        _ => {}
    }
}

/// The number of a switch for controllers.
fn datapath(dpid: Option<&str>) -> String {
    let number = dpid.and_then(|text| u64::from_str_radix(text, 16).ok()).unwrap_or(1);
    format!("\"0x{number:x}\"")
}

fn protocols(at: &At<'_>, switch: &mut Switch) {
    let mut versions = vec![];
    for word in at.text().unwrap_or_default().split(',') {
        match word.trim() {
            "OpenFlow10" => versions.push("1.0"),
            "OpenFlow13" => versions.push("1.3"),
            _ => return at.left_out("netloom speaks OpenFlow 1.0 and 1.3"),
        }
    }
    switch.keys.push(("versions", format!("[{}]", versions.join(", "))));
    at.carried();
}
