//! The keys of slices.

use crate::file::table::{BYTES, FOR, IF, Key, Object, Value, key};
use crate::kinds::openflow::keys::{CONTROLLERS, TLS};

/// A value, and what errors call it.
macro_rules! told {
    ($what:literal, $form:ident, $pattern:literal) => {
        Value::Called($what, &Value::$form($pattern))
    };
}

const COUNT: Value = Value::Integer(1, 1_000_000);
const PER_SECOND: Value = told!(
    "a number a second like 200/s or 1k/s",
    NumberOrPattern,
    r"^[0-9]+(\.[0-9]+)? *[kM]?(/s)?$"
);
const RATE: Value = told!(
    "a rate like 100mbit or 1.5Gb/s",
    Pattern,
    r"^[0-9]+(\.[0-9]+)? *([kKmMgGtT]?([bB][iI][tT](/s)?|b/s))$"
);
const CPU: Value = told!(
    "a share like 50% or a number of CPUs like 1.5",
    NumberOrPattern,
    r"^[0-9]+(\.[0-9]+)? *%?$"
);
const VLAN: Value = told!(
    "a VLAN like 7, a range like 10..20, or untagged",
    NumberOrPattern,
    r"^(untagged|[0-9]+(\.\.[0-9]+)?)$"
);
const MAC: Value =
    told!("a MAC address like 02:00:00:00:00:01", Pattern, r"^[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}$");
const PREFIX: Value =
    told!("a prefix like 10.1.0.0/16 or an address", Pattern, r"^[0-9A-Fa-f.:]+(/[0-9]{1,3})?$");
const PORTS: Value =
    told!("a port like 80 or a range like 8000..8999", NumberOrPattern, r"^[0-9]+(\.\.[0-9]+)?$");
const PROTOCOL: Value = told!(
    "a protocol: tcp, udp, icmp, icmpv6, sctp, or its number",
    NumberOrPattern,
    r"^(tcp|udp|icmp|icmpv6|sctp|[0-9]+)$"
);
const ETHERTYPE: Value = told!(
    "an ethertype: ipv4, ipv6, arp, lldp, or its number like 0x88cc",
    NumberOrPattern,
    r"^(ipv4|ipv6|arp|lldp|0x[0-9A-Fa-f]{1,4}|[0-9]+)$"
);

const DATAPATH: Value = told!(
    "a datapath id like 0x1",
    NumberOrPattern,
    r"^(0x[0-9A-Fa-f]{1,16}|[0-9A-Fa-f]{1,20}|[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){7})$"
);

/// One or a list of such values.
macro_rules! one_or_list {
    ($of:ident) => {
        Value::AnyOf(&[$of, Value::List(&$of, Some(256))])
    };
}

/// A slice.
pub(crate) static SLICE: Object = Object {
    name: "slice",
    doc: "A slice: packets of some OpenFlow switches, which controllers of their own control as if they had switches of \
          their own.",
    keys: &[
        FOR,
        IF,
        key(
            "controllers",
            CONTROLLERS,
            "Its controllers, one or a list, as those of a switch: node:NAME[:PORT], host[:PORT], tcp:ADDRESS[:PORT], \
             tls:ADDRESS[:PORT], unix:PATH. Each is connected to once for each switch.",
        ),
        Key {
            required: true,
            ..key(
                "switches",
                Value::Map(&Value::AnyOf(&[
                    Value::Object(&SPACE),
                    Value::List(&Value::Object(&SPACE), Some(256)),
                    Value::Nothing,
                ])),
                "By switch, its packets there: a space, or a list of spaces. Slices have no packets in common.",
            )
        },
        key(
            "datapaths",
            Value::Map(&DATAPATH),
            "By switch, the datapath id by which its controllers know it, like 0x1. Default: the switch's own, with \
             the slice's number in the upper 16 bits.",
        ),
        key(
            "rules",
            COUNT,
            "How many flow entries it may have on each switch. Default: an equal share of 60000 for all slices on all \
             switches, from 60 to 20000.",
        ),
        key(
            "groups",
            COUNT,
            "How many groups it may have on each switch. Default: as many as `rules`, at most 1000.",
        ),
        key(
            "buckets",
            COUNT,
            "How many buckets all its groups may have together on each switch. Default: ten for each of `groups`.",
        ),
        key(
            "meters",
            COUNT,
            "How many meters it may have on each switch. Default: as many as `rules`, at most 1000.",
        ),
        key(
            "memory",
            BYTES,
            "How much memory its rules, groups and meters on each switch may take in the slicer, like 16MiB. Default: \
             2KiB for each of `rules`.",
        ),
        key(
            "packet-ins",
            PER_SECOND,
            "How many packets a second each switch sends to its controllers, like 200/s. Default: all.",
        ),
        key(
            "messages",
            PER_SECOND,
            "How many messages a second are taken from its controllers, like 1k/s. Default: all.",
        ),
        key(
            "rate",
            RATE,
            "How much of its packets each switch forwards, like 100mbit, by a meter of OpenFlow 1.3. Default: \
             all.",
        ),
        key(
            "cpu",
            CPU,
            "How much of a CPU its messages may take in the slicer, like 20%. Default: an equal share.",
        ),
        key("tls", Value::Object(&TLS), "Certificates for controllers given as tls:ADDRESS."),
    ],
    kinds: &[],
    refused: &[],
    extensions: false,
};

const MAC_KEY: Key =
    key("mac", one_or_list!(MAC), "The MAC address of one end, the source or the destination.");
const PREFIX_KEY: Key =
    key("prefix", one_or_list!(PREFIX), "The prefix that the address of one end is in.");
const TCP_KEY: Key =
    key("tcp", one_or_list!(PORTS), "The TCP port of one end, like 80 or 8000..8999.");
const UDP_KEY: Key = key("udp", one_or_list!(PORTS), "The UDP port of one end.");

/// A space.
pub(crate) static SPACE: Object = Object {
    name: "space",
    doc: "Packets of a slice: all keys must hold; of a list, one of its items. Without keys: all packets.",
    keys: &[
        key(
            "ports",
            Value::AnyOf(&[Value::Text, Value::List(&Value::Text, Some(1024))]),
            "The ports that they may come in and go out by: NODE, NODE:IFACE, SWITCH, host:IFACE, a link's name, or \
             a port's number. Default: all.",
        ),
        key("vlan", one_or_list!(VLAN), "Their VLAN, like 7 or 10..20, or untagged."),
        key("ethertype", ETHERTYPE, "Their ethertype: ipv4, ipv6, arp, lldp, or its number."),
        key(
            "protocol",
            PROTOCOL,
            "Their IP protocol: tcp, udp, icmp, icmpv6, sctp, or its number.",
        ),
        MAC_KEY,
        PREFIX_KEY,
        TCP_KEY,
        UDP_KEY,
        key("peer", Value::Object(&PEER), "The other end: mac, prefix, tcp, udp."),
        key(
            "within",
            one_or_list!(PREFIX),
            "The prefix that the addresses of both ends are in: short for the same `prefix` here and in `peer`.",
        ),
    ],
    kinds: &[],
    refused: &[],
    extensions: false,
};

/// The other end.
pub(crate) static PEER: Object = Object {
    name: "peer",
    doc: "The other end of a space's conversations.",
    keys: &[MAC_KEY, PREFIX_KEY, TCP_KEY, UDP_KEY],
    kinds: &[],
    refused: &[],
    extensions: false,
};

/// A file of slices.
pub(crate) static POLICY: Object = Object {
    name: "policy",
    doc: "Slices of switches that are in no lab: `netloom slice run`.",
    keys: &[
        Key {
            required: true,
            ..key(
                "switches",
                Value::Map(&Value::AnyOf(&[Value::Object(&POLICY_SWITCH), Value::Nothing])),
                "The switches by name.",
            )
        },
        Key {
            required: true,
            ..key(
                "slices",
                Value::Map(&Value::Object(&SLICE)),
                "The slices by name, as in a lab file.",
            )
        },
    ],
    kinds: &[],
    refused: &[],
    extensions: true,
};

/// A switch of such a file.
pub(crate) static POLICY_SWITCH: Object = Object {
    name: "sliced switch",
    doc: "A switch that is in no lab.",
    keys: &[
        key(
            "datapath",
            DATAPATH,
            "Its datapath id, like 0x1. Default: whichever no other switch of the file has.",
        ),
        key(
            "ports",
            Value::Map(&Value::Integer(1, 0xffff_feff)),
            "Names for its ports, with their numbers.",
        ),
    ],
    kinds: &[],
    refused: &[],
    extensions: false,
};
