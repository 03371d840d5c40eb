//! The flags of `switch` and `plug`, and the syntax of switch ports.

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use netloom_switch::control::requests::PortKey;
use netloom_switch::rules::{MirrorFilter, Tpid, Vid, VidSet};

use super::{Listing, Setting, setting};

// `switch`.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum Switch {
    /// Create a switch. If no lab runs, one named `default` is brought up for it.
    Create(SwitchCreate),
    /// Delete a switch.
    Delete(SwitchDelete),
    /// List switches of all kinds.
    List(Listing),
    /// Show everything about a switch: process, ports, counters, mirror sessions.
    Show(SwitchShow),
    /// Show a port, change its rules, or disconnect it.
    Port(SwitchPort),
    /// Show the MAC addresses that ports have learnt.
    Mac(SwitchMac),
    /// Set the VLANs of a port.
    Vlan(Box<SwitchVlan>),
    /// Show, start and end mirror sessions.
    Mirror(SwitchMirror),
}

// `switch create`.
#[derive(Debug, Args)]
pub(crate) struct SwitchCreate {
    /// Its name.
    pub(crate) name: String,
    /// Settings as in the lab file: kind (shm, which is the default, or openflow); of shm mode, group, arena, ageing, vde
    /// (true, or the path of the folder by which clients of classic VDE join); of openflow controllers, fail, versions, datapath, tables, max-entries, auxiliary.
    #[arg(value_name = "KEY=VALUE", value_parser = setting)]
    pub(crate) settings: Vec<Setting>,
}

// `switch delete`.
#[derive(Debug, Args)]
pub(crate) struct SwitchDelete {
    /// The switch.
    pub(crate) switch: String,
    /// Delete it even if ports are in use.
    #[arg(long)]
    pub(crate) force: bool,
}

// `switch show`.
#[derive(Debug, Args)]
pub(crate) struct SwitchShow {
    /// The switch.
    pub(crate) switch: String,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

// `switch port`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").args(["settings", "disconnect", "json"]))]
pub(crate) struct SwitchPort {
    /// The switch.
    pub(crate) switch: String,
    /// The port's number or name.
    #[arg(value_parser = port)]
    pub(crate) port: PortKey,
    /// Settings: name, user, group, lock (the only source addresses it may use, separated by commas), learn (on,
    /// off); `none` removes one. Without settings the port is shown.
    #[arg(value_name = "KEY=VALUE", value_parser = setting)]
    pub(crate) settings: Vec<Setting>,
    /// Disconnect its owner, which may join again.
    #[arg(long)]
    pub(crate) disconnect: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

// `switch mac`.
#[derive(Debug, Args)]
pub(crate) struct SwitchMac {
    /// The switch.
    pub(crate) switch: String,
    /// Only addresses learnt by this port, given by number or name; 0 is the switch itself.
    #[arg(long, value_parser = port)]
    pub(crate) port: Option<PortKey>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

// `switch vlan`.
#[derive(Debug, Args)]
pub(crate) struct SwitchVlan {
    /// The switch.
    pub(crate) switch: String,
    /// The port's number or name.
    #[arg(value_parser = port)]
    pub(crate) port: PortKey,
    #[command(subcommand)]
    pub(crate) vlan: PortVlan,
}

// VLANs of a port.
#[derive(Debug, Subcommand)]
pub(crate) enum PortVlan {
    /// Untagged frames only, all in one VLAN.
    Access {
        /// The VLAN, 1 to 4094.
        #[arg(value_parser = vlan)]
        vid: Vid,
    },
    /// Tagged frames.
    Trunk {
        /// The VLANs allowed with a tag, like 1-3,7 or all.
        set: VidSet,
        /// The VLAN of untagged frames. Default: they are dropped.
        #[arg(long, value_name = "VID", value_parser = vlan)]
        native: Option<Vid>,
    },
    /// A customer's frames with the tags that they have, all in one VLAN.
    Qinq {
        /// The VLAN, 1 to 4094: on trunks they have its tag around them.
        #[arg(value_parser = vlan)]
        vid: Vid,
        /// The only VLANs of the customer's tags, like 1-3,7 or all. Default: every frame passes, with or without a tag.
        #[arg(long, value_name = "SET")]
        cvlans: Option<VidSet>,
        /// The type of the tag around: 0x8100, 0x88a8, 0x9100 or 0x9200.
        #[arg(long, value_name = "TYPE", default_value_t)]
        tpid: Tpid,
    },
    /// No rule: an access port of VLAN 1 once any port of the switch has a rule.
    None,
}

// `switch mirror`.
#[derive(Debug, Args)]
pub(crate) struct SwitchMirror {
    /// The switch.
    pub(crate) switch: String,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Without one, sessions are shown.
    #[command(subcommand)]
    pub(crate) change: Option<MirrorChange>,
}

// What to do with mirror sessions.
#[derive(Debug, Subcommand)]
pub(crate) enum MirrorChange {
    /// Start a session and print its number.
    Add(MirrorAdd),
    /// End a session.
    Delete {
        /// Its number.
        mirror: u16,
    },
}

// `switch mirror add`.
#[derive(Debug, Args)]
pub(crate) struct MirrorAdd {
    /// The port that receives the copies, by number or name.
    #[arg(long, value_name = "PORT", value_parser = port)]
    pub(crate) to: PortKey,
    /// The mirrored ports.
    #[arg(long, value_name = "PORT[,PORT]", required = true, value_delimiter = ',',
        value_parser = port)]
    pub(crate) from: Vec<PortKey>,
    /// The direction of their frames: in is what a port sends, out what it receives.
    #[arg(long, value_enum, default_value_t = MirrorDirection::Both)]
    pub(crate) direction: MirrorDirection,
    /// Copy only these frames, like `vlan 7, tcp, port 80`; also mac, arp, ipv4, ipv6, ip, udp, icmp.
    #[arg(long, value_name = "TEXT", default_value = "all")]
    pub(crate) filter: MirrorFilter,
}

/// Which frames of a port, seen from the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MirrorDirection {
    /// What the port sends.
    In,
    /// What the port receives.
    Out,
    /// Both.
    Both,
}

// `plug`.
#[allow(rustdoc::broken_intra_doc_links, reason = "the text of --help has brackets")]
#[derive(Debug, Args)]
pub(crate) struct Plug {
    /// The interface, in the network namespace of the caller. Or the card of a virtual machine: vhost-user:PATH listens
    /// for its front end (QEMU, cloud-hypervisor) at a socket, vhost-user-client:PATH connects to one that listens.
    #[arg(value_name = "IFACE")]
    pub(crate) interface: String,
    /// The switch: SWITCH, LAB.SWITCH or the path of its socket; netloom:// may precede it, and [N] after it
    /// chooses a port.
    pub(crate) switch: String,
    /// The port's name on the switch. Default: host:IFACE, or for a card the last part of PATH.
    #[arg(long)]
    pub(crate) name: Option<String>,
}

/// A port: digits are its number.
fn port(text: &str) -> Result<PortKey, String> {
    if text.is_empty() {
        return Err("takes a number or a name".to_owned());
    }
    if text.bytes().all(|b| b.is_ascii_digit()) {
        let number = text.parse().map_err(|_| "numbers of ports are 1 to 255".to_owned())?;
        return Ok(PortKey::Number(number));
    }
    Ok(PortKey::Name(text.to_owned()))
}

/// A VLAN, as in the lab file.
fn vlan(text: &str) -> Result<Vid, String> {
    let number = netloom_model::port_vlan(text)?;
    Vid::new(number).ok_or_else(|| format!("{number} is not a VLAN; write 1 to 4094"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::{Cli, Verb};
    use clap::Parser;

    fn parse(line: &[&str]) -> Result<Switch, clap::Error> {
        match Cli::try_parse_from(["netloom", "switch"].iter().chain(line))?.verb {
            Verb::Switch(switch) => Ok(switch),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn ports_go_by_number_or_name() {
        let Switch::Port(args) = parse(&["port", "s", "7"]).unwrap() else { panic!() };
        assert_eq!((args.port, args.settings.len()), (7.into(), 0));
        let Switch::Port(args) = parse(&["port", "s", "h1:eth0", "learn=off"]).unwrap() else {
            panic!()
        };
        assert_eq!(args.port, "h1:eth0".into());
        assert_eq!(args.settings, [("learn".to_owned(), "off".to_owned())]);
        assert!(parse(&["port", "s", "70000"]).is_err());
        assert!(parse(&["port", "s", ""]).is_err());
        assert!(parse(&["port", "s", "1", "learn=off", "--disconnect"]).is_err());
        assert!(parse(&["port", "s", "1", "learn"]).is_err());
    }

    #[test]
    fn vlans_are_of_one_of_four_kinds() {
        let vlan = |line: &[&str]| match parse(&[&["vlan", "s", "1"], line].concat()) {
            Ok(Switch::Vlan(args)) => Some(args.vlan),
            _ => None,
        };
        let seven = Vid::new(7).unwrap();
        assert!(matches!(vlan(&["access", "7"]), Some(PortVlan::Access { vid }) if vid == seven));
        assert!(matches!(vlan(&["none"]), Some(PortVlan::None)));
        let trunk = vlan(&["trunk", "1-3,7", "--native", "7"]);
        let Some(PortVlan::Trunk { set, native }) = trunk else { panic!("{trunk:?}") };
        assert_eq!((set.to_string().as_str(), native), ("1-3,7", Some(seven)));
        let qinq = vlan(&["qinq", "7"]);
        let Some(PortVlan::Qinq { vid, cvlans: None, tpid }) = qinq else { panic!("{qinq:?}") };
        assert_eq!((vid, tpid), (seven, Tpid::SERVICE));
        let qinq = vlan(&["qinq", "7", "--cvlans", "1-3", "--tpid", "0x9100"]);
        let Some(PortVlan::Qinq { cvlans: Some(cvlans), tpid, .. }) = qinq else {
            panic!("{qinq:?}")
        };
        assert_eq!((cvlans.to_string().as_str(), tpid.number()), ("1-3", 0x9100));
        assert!(vlan(&["qinq", "7", "--tpid", "0x0800"]).is_none());
        for wrong in [&["access", "0"][..], &["access"], &["trunk", "5000"], &["hybrid"], &[]] {
            assert!(vlan(wrong).is_none(), "{wrong:?}");
        }
    }

    #[test]
    fn a_mirror_session_has_ports_direction_and_filter() {
        let line = ["mirror", "s", "add", "--to", "9", "--from", "1,h1:eth0", "--filter", "tcp"];
        let Switch::Mirror(args) = parse(&line).unwrap() else { panic!() };
        let Some(MirrorChange::Add(add)) = args.change else { panic!("{args:?}") };
        assert_eq!((add.to, add.from), (9.into(), vec![1.into(), "h1:eth0".into()]));
        assert_eq!(add.direction, MirrorDirection::Both);
        assert_eq!(add.filter.to_string(), "tcp");
        let Switch::Mirror(args) = parse(&["mirror", "s", "--json"]).unwrap() else { panic!() };
        assert!(args.json && args.change.is_none());
        assert!(parse(&["mirror", "s", "delete", "x"]).is_err());
        assert!(parse(&["mirror", "s", "add", "--to", "9"]).is_err());
        assert!(
            parse(&["mirror", "s", "add", "--to", "9", "--from", "1", "--filter", "x"]).is_err()
        );
    }
}
