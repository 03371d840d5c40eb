//! The keys that only a switch of kind `openflow` has.

use super::{MOST_AUXILIARY, MOST_CONTROLLERS, MOST_ENTRIES, MOST_TABLES};
use crate::file::table::{Key, Object, Value, key};

const CONTROLLER: Value = Value::Called(
    "a controller like node:c0, host:6653 or tcp:10.0.0.5:6653",
    &Value::Pattern(r"^(((tcp|tls|ssl|unix|node):.+)|host(:[0-9]+)?)(, *.+)?$"),
);
/// Controllers, one or a list.
pub(crate) const CONTROLLERS: Value =
    Value::AnyOf(&[CONTROLLER, Value::List(&CONTROLLER, Some(MOST_CONTROLLERS))]);
const VERSION: Value = Value::Called("1.0 or 1.3", &Value::NumberOrPattern(r"^1\.[03]$"));

/// The keys, in the order of the manual.
pub(super) static KEYS: &[Key] = &[
    key(
        "controllers",
        CONTROLLERS,
        "openflow: controllers that it connects to, one or a list: node:NAME[:PORT] (in a node of the lab), \
         host[:PORT] (on this machine), tcp:ADDRESS[:PORT], tls:ADDRESS[:PORT], unix:PATH. PORT is 6653 by default.",
    ),
    key(
        "fail",
        Value::Choice(&["secure", "standalone"]),
        "openflow: what it does while no controller is connected. standalone: it forwards like an ordinary switch, \
         the default without `controllers`. secure: its flow entries alone decide, the default with `controllers`.",
    ),
    key(
        "versions",
        Value::AnyOf(&[VERSION, Value::List(&VERSION, Some(2))]),
        "openflow: the versions of OpenFlow that it speaks. Default [1.0, 1.3].",
    ),
    key(
        "datapath",
        Value::Called(
            "a datapath id like 0x1",
            &Value::NumberOrPattern(
                r"^(0x[0-9A-Fa-f]{1,16}|[0-9A-Fa-f]{1,20}|[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){7})$",
            ),
        ),
        "openflow: its datapath id, by which controllers know it, like 0x1. Default: from the names of lab and switch.",
    ),
    key(
        "tables",
        Value::Integer(1, MOST_TABLES as i64),
        "openflow: how many flow tables it has. Default 254.",
    ),
    key(
        "max-entries",
        Value::Integer(1, MOST_ENTRIES as i64),
        "openflow: how many flow entries each table may have. All entries, groups and meters together take at most \
         128 MiB, or 1 KiB for each of these entries if that is more. More are refused: the table is full. \
         Default 100000.",
    ),
    key(
        "auxiliary",
        Value::Integer(0, MOST_AUXILIARY as i64),
        "openflow: how many auxiliary connections it makes to each controller beside the main one, in OpenFlow 1.3. \
         Default 0.",
    ),
    key("tls", Value::Object(&TLS), "openflow: certificates for controllers given as tls:ADDRESS."),
];

/// The key `tls`.
pub(crate) static TLS: Object = Object {
    name: "tls",
    doc: "Files in PEM for connections to controllers by TLS; paths are relative to the lab file.",
    keys: &[
        Key {
            required: true,
            ..key(
                "authorities",
                Value::Text,
                "Certificates of authorities: a controller must show one that one of them signed.",
            )
        },
        key(
            "certificate",
            Value::Text,
            "The switch's own certificate, followed by those between it and its authority; with `key`. Default: none is \
             shown.",
        ),
        key("key", Value::Text, "Its private key, which nobody but its owner may read or write."),
        key(
            "name",
            Value::Text,
            "The host name or address that a controller's certificate must be for. Default: any.",
        ),
    ],
    kinds: &[],
    refused: &[],
    extensions: false,
};
