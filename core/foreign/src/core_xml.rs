//! CORE's scenarios in XML: networks, devices with services, links with addresses and options.
//!
//! Both spellings of its versions are read (`node1` and `node_one`, `iface1` and `interface_one`). Radio networks
//! (`WIRELESS_LAN`, EMANE) are left out. Services of routing become netloom's own routers, whose daemons are FRR's.

mod devices;
mod links;
mod tree;

use std::collections::HashMap;

use crate::at::At;
use crate::draft::{Draft, End, Link, Switch};
use crate::{Job, Result, lab_name, valid_name};

/// Facts about nodes while links are read.
#[derive(Clone)]
enum Place {
    Node(String),
    Switch(String),
    Nothing(&'static str),
}

type Places = HashMap<String, Place>;

/// Reads a scenario.
pub(crate) fn read(job: &Job<'_>, content: &[u8]) -> Result<Draft> {
    let tree = tree::parse(job.file, content)?;
    let root = At::root(job.file, &tree, job.ledger);
    let mut draft = Draft::default();
    if let Some(name) = root.get("@name") {
        let last = name.text().unwrap_or_default().rsplit('/').next().unwrap_or_default();
        draft.name = lab_name(last.trim_end_matches(".xml"));
        name.changed(format!("the lab is called {}", draft.name));
    }
    let mut places = Places::new();
    for networks in root.get("networks").iter().flat_map(At::items) {
        networks.get("network").iter().flat_map(At::items).for_each(|at| {
            network(&at, &mut places, &mut draft);
        });
        networks.get("#text").iter().for_each(At::carried);
    }
    // Networks and devices first: links name both by their numbers.
    for devices in root.get("devices").iter().flat_map(At::items) {
        for at in devices.get("device").iter().flat_map(At::items) {
            devices::read(job, &root, &at, &mut places, &mut draft);
        }
    }
    for links in root.get("links").iter().flat_map(At::items) {
        for at in links.get("link").iter().flat_map(At::items) {
            if let Some(link) = links::read(&at, &places, &mut draft.links) {
                draft.links.push(link);
            }
        }
    }
    // Last: the gateway follows from the addresses that links give.
    devices::routes(&places, &root, &mut draft);
    surroundings(&root);
    Ok(draft)
}

fn name(at: &At<'_>, draft: &Draft) -> String {
    let given = at.get("@name");
    let text = given.as_ref().and_then(At::text).unwrap_or_default();
    let valid = valid_name(text);
    let new = draft.free_name(if valid.is_empty() { "n" } else { &valid });
    given.iter().for_each(|at| match new == text {
        true => at.carried(),
        false => at.changed(format!("is called {new}")),
    });
    new
}

/// Attributes and elements that only matter to a drawing.
fn picture(at: &At<'_>) {
    for key in ["position", "@icon", "@canvas", "@x", "@y"] {
        at.get(key).iter().for_each(At::drawing);
    }
}

fn network(at: &At<'_>, places: &mut Places, draft: &mut Draft) {
    let id = at.text_of("@id").unwrap_or_default().to_owned();
    picture(at);
    at.get("@id").iter().for_each(At::carried);
    let kind = at.text_of("@type").unwrap_or_default();
    let place = match kind {
        "SWITCH" | "HUB" => {
            let name = name(at, draft);
            draft.switches.push(Switch::named(&name));
            at.get("@type").iter().for_each(|at| match kind {
                "SWITCH" => at.carried(),
                _ => at.changed("a switch, which learns where stations are"),
            });
            Place::Switch(name)
        }
        "RJ45" => {
            let iface = at.text_of("@name").unwrap_or_default().to_owned();
            at.get("@name").iter().for_each(At::carried);
            at.get("@type").iter().for_each(|at| at.changed("a door to the host's interface"));
            Place::Switch(format!("host:{iface}"))
        }
        "WIRELESS_LAN" | "EMANE" | "WIRELESS" => {
            at.left_out("netloom has no radio");
            Place::Nothing("netloom has no radio")
        }
        _ => {
            at.left_out("no such network in netloom");
            Place::Nothing("its network is left out")
        }
    };
    places.insert(id, place);
}

/// Everything around networks, devices and links.
fn surroundings(root: &At<'_>) {
    for (key, at) in root.entries() {
        match key {
            "networks" | "devices" | "links" if at.text().is_some() => at.carried(),
            "session_origin" | "session_metadata" => at.drawing(),
            "mobility_configurations" => at.left_out("nodes do not move"),
            "emane_global_configuration" | "emane_configurations" => {
                at.left_out("netloom has no radio");
            }
            "session_options" => options(&at),
            "default_services" => at.changed("each device has its own list"),
            "session_hooks" => at.left_out("netloom runs no commands on the host"),
            "service_configurations" | "configservice_configurations" => {
                at.left_out("services are made of what netloom knows");
            }
            _ => {}
        }
    }
}

fn options(at: &At<'_>) {
    for option in at
        .items()
        .iter()
        .flat_map(|at| at.get("configuration").map(|at| at.items()).unwrap_or_default())
    {
        let value = option.text_of("@value").unwrap_or_default();
        let said = setting(option.text_of("@name").unwrap_or_default(), value);
        for at in ["@name", "@value"].iter().filter_map(|key| option.get(key)) {
            match said {
                Setting::Usual => at.carried(),
                Setting::Own(why) => at.changed(why),
                Setting::Lost => at.left_out("of CORE's own session"),
            }
        }
    }
}

/// What becomes of a setting of CORE's session.
enum Setting {
    Usual,
    Own(&'static str),
    Lost,
}

fn setting(name: &str, value: &str) -> Setting {
    let usual = ["", "0", "0.0"].contains(&value);
    match name {
        name if name.starts_with("controlnet") && value.is_empty() => Setting::Usual,
        name if name.starts_with("controlnet") => Setting::Own("`netloom exec` needs no network"),
        "ovs" | "link_delay" | "link_bandwidth" | "link_loss" | "link_dup" | "link_jitter"
            if usual =>
        {
            Setting::Usual
        }
        "preservedir" | "enablerj45" | "enablesdt" | "sdturl" | "mtu" => {
            Setting::Own("of CORE's own session")
        }
        _ => Setting::Lost,
    }
}

/// A link of a door or a switch has no interface there.
fn end(place: &Place, iface: Option<&str>) -> std::result::Result<End, &'static str> {
    match place {
        Place::Node(name) => Ok(End::of(name, iface.unwrap_or("eth0"))),
        Place::Switch(name) => Ok(End::port(name)),
        Place::Nothing(why) => Err(why),
    }
}

/// Whether two ends can be linked at all.
fn linked(ends: [End; 2]) -> Link {
    Link { ends, ..Link::default() }
}
