//! The tables of keys of `expect`.

use crate::file::table::{COMMAND, DURATION, Key, Object, RATE, SHARE, Value, key};

const ONE_OR_MORE: Value = Value::AnyOf(&[Value::Text, Value::List(&Value::Text, None)]);
const FAMILY: Value = Value::Choice(&["ipv4", "ipv6"]);
const REACH: Value = Value::AnyOf(&[Value::Pair(&ONE_OR_MORE), Value::Object(&REACHES)]);

/// A step of `expect`.
pub(crate) static EXPECT: Object = Object {
    name: "expect",
    doc: "A step of `netloom test`: an expectation, or something that is done.",
    keys: &[
        key("name", Value::Text, "Its name; by default a description of the step."),
        key(
            "within",
            DURATION,
            "How long it is tried again until it holds. Without it, it is looked at once.",
        ),
        key(
            "reaches",
            REACH,
            "Every node of the first has an answer, by echo request, of every node or address of the second: \
             `[FROM, TO]`, each one or a list, or a map.",
        ),
        key("cannot-reach", REACH, "None has an answer of any; as `reaches`."),
        key("route", Value::Object(&HAS_ROUTE), "A node has a route."),
        key("no-route", Value::Object(&HAS_ROUTE), "A node has no such route."),
        key("loss", Value::Object(&LOST), "How many packets between two nodes are lost."),
        key("rate", Value::Object(&ARRIVES), "How many bits a second arrive between two nodes."),
        key("output", Value::Object(&OUTPUT), "What a command in a node prints, and how it ends."),
        key(
            "fidelity",
            DURATION,
            "Nothing was later than this, and no frame was lost for it, since the lab came up or the step `fidelity` before:              frames on links with impairments, netloom's processes, busy programs of nodes, the machine's backlogs.",
        ),
        key(
            "do",
            Value::Object(&ACTION),
            "Something that is done to the lab before the next step.",
        ),
    ],
    kinds: &[],
    refused: &[],
    extensions: false,
};

/// `reaches` and `cannot-reach` as a map.
pub(crate) static REACHES: Object = Object {
    name: "reaches",
    doc: "Senders and receivers of echo requests.",
    keys: &[
        Key { required: true, ..key("from", ONE_OR_MORE, "The nodes that ask: one or a list.") },
        Key {
            required: true,
            ..key("to", ONE_OR_MORE, "The nodes or addresses that are asked: one or a list.")
        },
        key("family", FAMILY, "Only this one. Default: each that both ends have."),
    ],
    kinds: &[],
    refused: &[],
    extensions: false,
};

/// `route` and `no-route`.
pub(crate) static HAS_ROUTE: Object = Object {
    name: "has-route",
    doc: "A route in a node's kernel.",
    keys: &[
        Key { required: true, ..key("node", Value::Text, "The node.") },
        Key {
            required: true,
            ..key(
                "to",
                Value::Text,
                "An address or a node: the way that the kernel chooses. A prefix: the entry for exactly that.",
            )
        },
        key("via", Value::Text, "The next hop: an address, or a node that has it. Default: any."),
        key("dev", Value::Text, "The interface to leave by. Default: any."),
    ],
    kinds: &[],
    refused: &[],
    extensions: false,
};

const FROM: Key = Key { required: true, ..key("from", Value::Text, "The node that sends.") };
const TO: Key = Key { required: true, ..key("to", Value::Text, "The node that receives.") };
const LASTING: Key = key("lasting", DURATION, "For how long packets are sent. Default 2s.");
const ONLY: Key = key("family", FAMILY, "By which family. Default: the first that both have.");

/// `loss`.
pub(crate) static LOST: Object = Object {
    name: "lost",
    doc: "How many packets are lost one way: UDP packets from one node to another, counted there.",
    keys: &[
        FROM,
        TO,
        key("below", SHARE, "Fewer are lost than this share, like 1%."),
        key("above", SHARE, "More are lost than this share."),
        key("packets", Value::Integer(1, 100_000), "How many are sent in a second. Default 1000."),
        LASTING,
        ONLY,
    ],
    kinds: &[],
    refused: &[],
    extensions: false,
};

/// `rate`.
pub(crate) static ARRIVES: Object = Object {
    name: "arrives",
    doc: "How many bits a second arrive one way, in UDP packets with their headers, when more are sent.",
    keys: &[
        FROM,
        TO,
        key("above", RATE, "More arrive than this, like 90mbit."),
        key("below", RATE, "Fewer arrive than this."),
        LASTING,
        ONLY,
    ],
    kinds: &[],
    refused: &[],
    extensions: false,
};

/// `output`.
pub(crate) static OUTPUT: Object = Object {
    name: "output",
    doc: "What a command in a node prints, and how it ends.",
    keys: &[
        Key { required: true, ..key("node", Value::Text, "The node.") },
        Key {
            required: true,
            ..key("command", COMMAND, "The program and its arguments: a list or a line; no shell.")
        },
        key(
            "contains",
            ONE_OR_MORE,
            "Its output, of both streams, has this text, or each of these.",
        ),
        key("lacks", ONE_OR_MORE, "Its output has not this text, nor any of these."),
        key("equals", Value::Text, "Its standard output is this, but for white space at the ends."),
        key("code", Value::Integer(0, 255), "How it ends. Default 0."),
    ],
    kinds: &[],
    refused: &[],
    extensions: false,
};

/// `do`.
pub(crate) static ACTION: Object = Object {
    name: "do",
    doc: "Something that is done to the running lab: one of these.",
    keys: &[
        key("down", Value::Text, "This link is taken down, as if its cable were pulled."),
        key("up", Value::Text, "This link is taken up again."),
        key(
            "set",
            Value::Map(&Value::Map(&Value::Text)),
            "Impairments of a link are set: `{LINK: {delay: 10ms}}`; `none` takes one away.",
        ),
        key(
            "exec",
            Value::Map(&COMMAND),
            "A command in a node, which must end with 0: `{NODE: [PROGRAM]}`.",
        ),
        key("wait", DURATION, "Nothing for so long."),
    ],
    kinds: &[],
    refused: &[],
    extensions: false,
};
