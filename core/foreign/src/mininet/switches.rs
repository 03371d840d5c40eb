//! Switches and controllers of Mininet.
//!
//! Where the script names a controller that runs elsewhere, switches are OpenFlow switches of that controller; else
//! they learn by themselves, which is what Mininet's own controllers do.

use crate::at::At;
use crate::draft::{Draft, Switch};

/// The controllers of all switches, as a switch's key has them.
pub(super) fn controllers(root: &At<'_>) -> Vec<String> {
    let mut found = vec![];
    for (_, at) in root.get("controllers").iter().flat_map(At::entries) {
        let class = at.get("cls");
        let word = class.as_ref().and_then(At::text).unwrap_or_default();
        let (ip, port) = (at.get("ip"), at.get("port"));
        match word {
            "RemoteController" => {
                let address = ip.as_ref().and_then(At::text).unwrap_or("127.0.0.1");
                let port_text = port.as_ref().and_then(At::text).unwrap_or("6653");
                found.push(match address {
                    "127.0.0.1" | "localhost" | "::1" => format!("host:{port_text}"),
                    address => format!("tcp:{address}:{port_text}"),
                });
                [&class, &ip, &port].into_iter().flatten().for_each(At::carried);
            }
            "Controller" | "OVSController" | "NullController" => {
                class.iter().for_each(|at| at.changed("switches learn by themselves"));
                [&ip, &port]
                    .into_iter()
                    .flatten()
                    .for_each(|at| at.changed("there is no controller"));
            }
            _ => at.left_out(
                "start it, and name it as a RemoteController; switches learn by themselves",
            ),
        }
    }
    found
}

/// Reads the switches.
pub(super) fn read(root: &At<'_>, controllers: &[String], draft: &mut Draft) {
    for (name, at) in root.get("switches").iter().flat_map(At::entries) {
        let new = draft.free_name(&crate::valid_name(name));
        let mut switch = Switch::named(&new);
        let class = at.text_of("cls").unwrap_or_default();
        let standalone = at.text_of("failMode") == Some("standalone");
        let learns = ["LinuxBridge", "OVSBridge"].contains(&class);
        let programmed = !learns && !controllers.is_empty();
        if programmed {
            switch.keys.push(("kind", "openflow".into()));
            let list: Vec<String> = controllers.iter().map(|c| format!("{c:?}")).collect();
            switch.keys.push(("controllers", format!("[{}]", list.join(", "))));
            switch.keys.push(("datapath", datapath(&at, name)));
            if standalone {
                switch.keys.push(("fail", "standalone".into()));
            }
        }
        for (key, at) in at.entries() {
            match key {
                "cls" if programmed && at.text() == Some("OVSSwitch") => at.carried(),
                "cls" if learns => at.carried(),
                "cls" if programmed => at.changed("an OpenFlow switch of netloom"),
                "cls" => at.changed("a switch that learns by itself"),
                "failMode" | "dpid" if programmed => at.carried(),
                "failMode" | "dpid" => at.changed("there is no controller"),
                "protocols" if programmed => protocols(&at, &mut switch),
                "protocols" => at.changed("there is no controller"),
                "inNamespace" if !at.is_true() => at.carried(),
                "stp" if !at.is_true() && at.text() != Some("1") => at.carried(),
                "stp" => at.left_out("netloom's switches have no spanning tree"),
                "batch" | "datapath" | "inband" | "reconnectms" | "listenPort" | "verbose" => {
                    at.changed("of Open vSwitch's own");
                }
                _ => {}
            }
        }
        draft.switches.push(switch);
    }
}

/// The number of a switch for controllers: given in hexadecimal, or in the switch's name.
fn datapath(at: &At<'_>, name: &str) -> String {
    let given = at.text_of("dpid").map(|text| text.replace(':', ""));
    let number = given.and_then(|text| u64::from_str_radix(&text, 16).ok());
    let digits: String = name.chars().filter(char::is_ascii_digit).collect();
    let number = number.or_else(|| digits.parse().ok()).unwrap_or(1);
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
