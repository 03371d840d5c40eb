//! The keys that only a switch of kind `shm` has.

use crate::file::table::{BYTES, DURATION, Key, MODE, Object, Value, key};

const VLAN: Value = Value::Integer(1, 4094);
const VLANS: Value = Value::Called(
    "VLANs like 7, 10..20 or all",
    &Value::AnyOf(&[
        VLAN,
        Value::Pattern(r"^(all|none|[0-9]+((\.\.|-)[0-9]+)?(, *[0-9]+((\.\.|-)[0-9]+)?)*)$"),
    ]),
);
/// Types of VLAN tags.
pub(super) const TPIDS: [&str; 4] = ["0x8100", "0x88a8", "0x9100", "0x9200"];

const MAC_OR_OWN: Value = Value::Called(
    "a MAC address or own",
    &Value::Pattern(r"^([0-9A-Fa-f]{1,2}([:-][0-9A-Fa-f]{1,2}){5}|own)$"),
);

const ABSOLUTE: Value =
    Value::Called("true, false or a path from the root", &Value::Pattern(r"^/"));

/// The keys, in the order of the manual.
pub(super) static KEYS: &[Key] = &[
    key("mode", MODE, "shm: which users may join, as permission bits of its socket. Default 0600."),
    key("group", Value::Text, "shm: the group of its socket, by name or number."),
    key(
        "arena",
        BYTES,
        "shm: size of the ring from the switch to each port, a power of two from 256KiB to 64MiB. \
         Default 256KiB.",
    ),
    key(
        "ageing",
        DURATION,
        "shm: after how many whole seconds a MAC address that is not heard of is forgotten; 0 is \
         never. Default 60.",
    ),
    key(
        "ports",
        Value::AnyOf(&[
            Value::Map(&Value::AnyOf(&[Value::Object(&PORT_OF_SWITCH), Value::Nothing])),
            Value::Nothing,
        ]),
        "shm: rules of ports by name: an end of a link (NODE, NODE:IFACE, host:IFACE, internet, \
         SWITCH, or the link's name), or any other name, which is then kept for a program that joins.",
    ),
    key(
        "mirrors",
        Value::AnyList(&Value::Object(&MIRROR)),
        "shm: ports that get copies of frames of others.",
    ),
    key(
        "vde",
        Value::AnyOf(&[Value::Boolean, ABSOLUTE]),
        "shm: whether clients of classic VDE (vde_plug, slirpvde, QEMU, User-mode Linux) join it by a folder, as \
         that of vde_switch: true for LAB.SWITCH.vde beside the switch's socket, or the folder's path. Default \
         false.",
    ),
];

/// A port in `ports` of a switch.
pub(crate) static PORT_OF_SWITCH: Object = Object {
    name: "port",
    doc: "The rules of a switch's port. As soon as one port of a switch has `vlan`, `trunk` or `qinq`, those \
          with none of these are of VLAN 1.",
    keys: &[
        key(
            "vlan",
            VLAN,
            "An access port: the VLAN of its frames, which have no tag; frames with a tag are dropped.",
        ),
        key(
            "trunk",
            Value::AnyOf(&[VLANS, Value::List(&VLANS, None)]),
            "The VLANs of its frames, which have a tag: 7, 10..20, all, or a list of these.",
        ),
        key(
            "native",
            VLAN,
            "With `trunk`: the VLAN of frames without a tag; else they are dropped.",
        ),
        key(
            "qinq",
            VLAN,
            "A customer's port (802.1ad): the VLAN of all its frames, which keep their tags; on trunks they have this \
             VLAN's tag around them.",
        ),
        key(
            "cvlans",
            Value::AnyOf(&[VLANS, Value::List(&VLANS, None)]),
            "With `qinq`: the only VLANs of the customer's tags; frames without a tag are dropped then. Default: every \
             frame passes.",
        ),
        key(
            "tpid",
            // In YAML these are numbers.
            Value::Called(
                "0x8100, 0x88a8, 0x9100 or 0x9200",
                &Value::NumberOrPattern("^0x(8100|88a8|9100|9200)$"),
            ),
            "With `qinq`: the type of the tag around. Default 0x88a8.",
        ),
        key(
            "lock",
            Value::AnyOf(&[MAC_OR_OWN, Value::List(&MAC_OR_OWN, None)]),
            "The source addresses it may use, which no other port may use then: up to 8 MAC addresses, or \
             `own` for that of the node's interface.",
        ),
        key(
            "owner",
            Value::Text,
            "The user that may join as it, by name or number, where the port is a program's.",
        ),
        key("number", Value::Integer(1, 255), "Its number; the switch chooses when absent."),
    ],
    kinds: &[],
    refused: &[],
    extensions: false,
};

/// One of `mirrors` of a switch.
pub(super) static MIRROR: Object = Object {
    name: "mirror",
    doc: "A port that gets copies of frames of others.",
    keys: &[
        Key {
            required: true,
            ..key(
                "from",
                Value::AnyOf(&[Value::Text, Value::List(&Value::Text, None)]),
                "The port whose frames are copied, or a list, by name as in `ports`.",
            )
        },
        key(
            "direction",
            Value::Choice(&["in", "out", "both"]),
            "As the switch sees it. in: frames that these ports send. out: frames that they get. Default both.",
        ),
        Key { required: true, ..key("to", Value::Text, "The port that gets the copies.") },
        key(
            "filter",
            Value::Text,
            "Which frames, by conditions that must all hold, with commas between them: vlan 7, \
             mac 02:00:00:00:00:01, ip 10.0.0.0/8, arp, ipv4, ipv6, ethertype 0x88cc, tcp, udp, icmp, \
             protocol 47, port 80. Default: all.",
        ),
    ],
    kinds: &[],
    refused: &[],
    extensions: false,
};
