//! The tables of keys that are about hosts: `place` of the lab file, and the hosts file.

use crate::file::table::{BYTES, FOR, IF, Key, Object, Value, key};

const HOST_NAME: Value =
    Value::Called("the name of a host", &Value::Pattern("^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"));

/// `place` of the lab file.
pub(super) const PLACE: Value = Value::AnyOf(&[
    Value::Map(&Value::AnyOf(&[HOST_NAME, Value::List(&HOST_NAME, None), Value::Object(&PIN)])),
    Value::Nothing,
]);

pub(super) const PLACE_DOC: &str = "Where several hosts make the lab, which makes what: by name of a node or switch, or by a \
     pattern with * and ?, a host, a list of hosts of which it is on one, or a map. A name comes before patterns; of \
     patterns the first that fits holds. Default: netloom chooses. Nodes in others are where these are.";

/// A value of `place` as a map.
pub(crate) static PIN: Object = Object {
    name: "pin",
    doc: "Where a node or switch is made.",
    keys: &[
        key(
            "hosts",
            Value::AnyOf(&[HOST_NAME, Value::List(&HOST_NAME, None)]),
            "A host, or a list of hosts of which it is on one. Default: any.",
        ),
        key(
            "split",
            Value::Boolean,
            "true: a switch of kind kernel is one piece on each of these hosts that has nodes linked to it, joined by links \
             across. Default false: it is on one host.",
        ),
    ],
    kinds: &[],
    refused: &[],
    extensions: false,
};

/// The hosts file as a whole.
pub(crate) static HOSTS_FILE: Object = Object {
    name: "hosts file",
    doc: "Hosts that make labs together. Other keys that start with x- are ignored; they are a home for YAML anchors.",
    keys: &[Key {
        required: true,
        ..key(
            "hosts",
            Value::Map(&Value::Object(&HOST)),
            "The hosts by name; names are what `place` of a lab file refers to.",
        )
    }],
    kinds: &[],
    refused: &[],
    extensions: true,
};

/// A host's body.
pub(crate) static HOST: Object = Object {
    name: "host",
    doc: "A host.",
    keys: &[
        key(
            "ssh",
            Value::Called("[USER@]HOST[:PORT]", &Value::Text),
            "Where ssh(1) reaches it: [USER@]HOST[:PORT], an IPv6 address with a port in brackets. Default: its name.",
        ),
        key(
            "agent",
            Value::AnyOf(&[Value::Choice(&["ssh", "local"]), Value::List(&Value::Text, None)]),
            "How netloom is started there: by `ssh`, `local` on this machine, or a program and its arguments, as a list, whose \
             last ones are `netloom agent --stdio`. Default ssh.",
        ),
        Key {
            required: true,
            ..key(
                "underlay",
                Value::AnyOf(&[
                    Value::Called("an address", &Value::Pattern("^[0-9A-Fa-f.:]+$")),
                    Value::Object(&UNDERLAY),
                ]),
                "The address by which the other hosts send it the frames of links across, or a map with `address` and `mtu`.",
            )
        },
        key(
            "capacity",
            Value::Object(&CAPACITY),
            "What the limits of its nodes may add up to. Default: anything.",
        ),
        FOR,
        IF,
    ],
    kinds: &[],
    refused: &[],
    extensions: false,
};

/// `underlay` of a host.
pub(crate) static UNDERLAY: Object = Object {
    name: "underlay",
    doc: "The network between hosts, as one of them has it.",
    keys: &[
        Key {
            required: true,
            ..key(
                "address",
                Value::Called("an address", &Value::Pattern("^[0-9A-Fa-f.:]+$")),
                "The address by which the other hosts send it the frames of links across.",
            )
        },
        key(
            "mtu",
            Value::Integer(1280, 65535),
            "The largest packet that reaches it from the other hosts without fragments, in bytes. Default 1500.",
        ),
    ],
    kinds: &[],
    refused: &[],
    extensions: false,
};

/// `capacity` of a host.
pub(crate) static CAPACITY: Object = Object {
    name: "capacity",
    doc: "What the limits of a host's nodes may add up to.",
    keys: &[
        key("memory", BYTES, "Memory, like 16GiB; at least 1MiB."),
        key(
            "cpu",
            Value::Called(
                "a number of CPUs like 8",
                &Value::NumberOrPattern(r"^[0-9]+(\.[0-9]+)? *%?$"),
            ),
            "A number of CPUs like 8. If all hosts have it, it also says how much of the lab each gets.",
        ),
    ],
    kinds: &[],
    refused: &[],
    extensions: false,
};
