//! Lines that other programs read: ports, VLANs, addresses.

use std::fmt::Write;

use super::NO_VLAN;

/// A port, as shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortLines {
    /// Its number.
    pub number: u16,
    /// The VLAN of its untagged frames; [`NO_VLAN`] for none.
    pub untagged: u16,
    /// Whether somebody has it.
    pub active: bool,
    /// Whether clients that want any port may get it.
    pub allocatable: bool,
    /// Its user's name.
    pub user: Option<String>,
    /// The user that may have it.
    pub owner: Option<String>,
    /// The group that may have it.
    pub group: Option<String>,
    /// Frames and bytes that it sent.
    pub sent: (u64, u64),
    /// Frames and bytes that it received.
    pub received: (u64, u64),
    /// Its owner.
    pub endpoint: Option<Endpoint>,
}

/// The owner of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The number of a client's connection; 0 for others.
    pub id: u32,
    /// What kind of member it is: `unix prog` for a client.
    pub module: &'static str,
    /// What it says of itself.
    pub description: String,
}

/// The lines of a port.
pub fn port(port: &PortLines) -> String {
    let (no, not) =
        (if port.active { "" } else { "IN" }, if port.allocatable { "" } else { "NOT " });
    let name = |name: &Option<String>| name.clone().unwrap_or_else(|| "NONE".into());
    let (number, untagged) = (port.number, port.untagged);
    let mut text = format!(
        "Port {number:04} untagged_vlan={untagged:04} {no}ACTIVE - {not}Unnamed Allocatable\n"
    );
    let (user, owner, group) = (name(&port.user), name(&port.owner), name(&port.group));
    let _ =
        writeln!(text, " Current User: {user} Access Control: (User: {owner} - Group: {group})");
    // As the switch sees it: what the port sends comes in.
    for (direction, (frames, bytes)) in [("IN: ", port.sent), ("OUT:", port.received)] {
        let _ = writeln!(text, " {direction} pkts {frames:10}          bytes {bytes:20}");
    }
    if let Some(Endpoint { id, module, description }) = &port.endpoint {
        let _ = writeln!(text, "  -- endpoint ID {id:04} module {module:<12}: {description}");
    }
    text
}

/// A port in a VLAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// The port.
    pub port: u16,
    /// Whether its frames are tagged.
    pub tagged: bool,
    /// Whether somebody has it.
    pub active: bool,
}

/// The lines of a VLAN.
pub fn members(vlan: u16, members: impl IntoIterator<Item = Member>) -> String {
    debug_assert_ne!(vlan, NO_VLAN);
    let mut text = format!("VLAN {vlan:04}\n");
    for Member { port, tagged, active } in members {
        let (tagged, active) = (u8::from(tagged), u8::from(active));
        // Words of `vde_switch`, whose ports have states of the spanning tree.
        let status = if active == 1 { "Forwarding" } else { "Learning" };
        let _ =
            writeln!(text, " -- Port {port:04} tagged={tagged} active={active} status={status}");
    }
    text
}

/// A known address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Known {
    /// The address.
    pub mac: [u8; 6],
    /// Its VLAN.
    pub vlan: u16,
    /// Behind which port it is.
    pub port: u16,
    /// Seconds since it was heard of.
    pub age: u64,
}

impl Known {
    /// Its line; `at` is its place in the list.
    pub fn line(&self, at: usize) -> String {
        let [a, b, c, d, e, f] = self.mac;
        let Known { vlan, port, age, .. } = self;
        format!(
            "Hash: {at:04} Addr: {a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x} VLAN {vlan:04} to \
             port: {port:03}  age {age} secs\n"
        )
    }
}
