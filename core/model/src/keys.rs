//! The tables of the lab file's keys, except those of only one kind of switch (`crate::kinds`).

pub(crate) mod expect;
pub(crate) mod hosts;

use self::expect::EXPECT;
use self::hosts::PLACE;
use crate::bounds::{MAX_PROCESSES, MAX_SOCKETS, MAX_WEIGHT};
use crate::file::table::{
    BYTES, COMMAND, DURATION, FOR, IF, Key, MODE, Object, RATE, SHARE, Value, key,
};
use crate::kinds::{PLAIN, bridge, openflow, router, shm, vm};
use crate::signal;
use crate::slices::keys::SLICE;
use crate::users::WORDS;

const CPU: Value = Value::Called(
    "a share like 50% or a number of CPUs like 1.5",
    &Value::NumberOrPattern(r"^[0-9]+(\.[0-9]+)? *%?$"),
);
const CIDR: Value = Value::Called(
    "a prefix like 10.0.0.0/24 or fd00::/64",
    &Value::Pattern(r"^[0-9A-Fa-f.:]+/[0-9]{1,3}$"),
);
const PREFIX_OR_NONE: Value =
    Value::Called("a prefix or none", &Value::Pattern(r"^([0-9A-Fa-f.:]+/[0-9]{1,3}|none)$"));
const LOOPBACK: Value = Value::Called(
    "an address like 10.0.0.1, or one with a prefix length",
    &Value::Pattern(r"^[0-9A-Fa-f.:]+(/[0-9]{1,3})?$"),
);
const PUBLISHED: Value = Value::Called(
    "a port of the host with the node's like 8080:80, 8080:80/udp, 0.0.0.0:8080:80 or [::]:8080:80",
    &Value::NumberOrPattern(
        r"^(([0-9.]+|\[[0-9A-Fa-f:.]+\]):)?[0-9]{1,5}(:[0-9]{1,5})?(/(tcp|udp))?$",
    ),
);
const MTU: Value = Value::Integer(68, 65535);
const PORT: Value = Value::Integer(1, 65535);
const SUBNET: Value = Value::AnyOf(&[CIDR, Value::List(&CIDR, Some(2))]);
const DELAY: Value = Value::Called(
    "a duration with its unit like 10ms, or none",
    &Value::AnyOf(&[
        Value::Integer(0, 0),
        Value::Pattern(r"^([0-9]+(\.[0-9]+)? *(us|ms|s|m|min|h)|none)$"),
    ]),
);

const DELAY_KEY: Key = key("delay", DELAY, "How long every packet is held, like 10ms.");
const JITTER_VALUE: Value = Value::AnyOf(&[
    Value::Called(
        "a spread like 1ms, or a short form like 1ms pareto",
        &Value::Pattern(r"^([0-9]+(\.[0-9]+)? *(us|ms|s|m|min|h)([ ,].*)?|.*spread=.*|none|0)$"),
    ),
    Value::Object(&JITTER),
]);
const JITTER_KEY: Key = key(
    "jitter",
    JITTER_VALUE,
    "A random part of the delay: its spread, like 1ms, or a map. Packets keep their order.",
);
const LOSS_VALUE: Value = Value::AnyOf(&[
    Value::Called(
        "a percentage like 0.1%, or a short form like bursts enter=1% leave=25%",
        &Value::Pattern(
            r"^([0-9]+(\.[0-9]+)? *%([ ,].*)?|random=.*|bursts[ ,].*|pattern[ ,][ .x]+|none)$",
        ),
    ),
    Value::Object(&LOSS),
]);
const LOSS_KEY: Key =
    key("loss", LOSS_VALUE, "Which packets are lost: a share like 0.1%, each by chance, or a map.");
const DUPLICATE_KEY: Key = key("duplicate", SHARE, "How many packets arrive twice, like 0.1%.");
const REORDER_KEY: Key = key(
    "reorder",
    SHARE,
    "How many packets skip the `delay`, which it needs, and so overtake others.",
);
const CORRUPT_KEY: Key = key("corrupt", SHARE, "In how many packets one bit is flipped.");
const RATE_KEY: Key =
    key("rate", RATE, "Bits a second over whole frames, like 100mbit or 1.5Gb/s; at least 1kbit.");
const QUEUE_KEY: Key = key(
    "queue",
    Value::AnyOf(&[Value::Integer(1, 4_294_967_295), DELAY]),
    "What waits to be sent at `rate`, at most: packets, or for how long. Default 1000 packets.",
);
const LIMIT_KEY: Key = key(
    "limit",
    Value::AnyOf(&[Value::Integer(1, 4_294_967_295), Value::Choice(&["none"])]),
    "Packets held at a time, at most: those that wait for `rate` and those that are delayed. Further ones are lost.",
);
const DROP_KEY: Key = key(
    "drop",
    Value::Text,
    "Loses what this expression matches, as for tcpdump (pcap-filter(7)): `icmp and host NODE`; or none.",
);
const SEED_KEY: Key = key(
    "seed",
    Value::Called("a whole number, or none", &Value::NumberOrPattern("^([0-9]+|none)$")),
    "Seed of all random numbers, of 64 bits. Default: from the link's name.",
);

/// As whom and where a program of a node runs.
const USER_KEY: Key = key(
    "user",
    Value::Text,
    "Its user, by number or by a name in the node's own /etc/passwd. Default root.",
);
const GROUP_KEY: Key = key(
    "group",
    Value::Text,
    "Its group, by number or by a name in the node's own /etc/group. Default its user's.",
);
const WORKDIR_KEY: Key = key(
    "workdir",
    Value::Text,
    "The directory in which it starts, an absolute path in the node. Default /.",
);

/// Ports and files that are waited for or checked, beside a map of conditions.
macro_rules! conditions {
    ($map:expr) => {
        Value::AnyOf(&[
            Value::Object($map),
            PORT,
            Value::Pattern("^/"),
            Value::List(&Value::AnyOf(&[PORT, Value::Pattern("^/")]), None),
        ])
    };
}

/// One command or a list of commands; each may be a map.
macro_rules! commands {
    ($map:expr) => {
        Value::AnyOf(&[
            Value::Text,
            Value::Object($map),
            Value::AnyList(&Value::AnyOf(&[COMMAND, Value::Object($map)])),
        ])
    };
}

/// Nodes by name.
const NODES: Value = Value::Map(&Value::AnyOf(&[Value::Node, Value::Nothing]));

/// The file as a whole.
pub(crate) static LAB: Object = Object {
    name: "lab",
    doc: "A netloom lab: nodes, switches and the links between them. Other keys that start with x- are \
          ignored; they are a home for YAML anchors.",
    keys: &[
        key(
            "name",
            Value::Called(
                "letters, digits, ., _ and -",
                &Value::Pattern("^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"),
            ),
            "The lab's name; the file's name without its ending when absent.",
        ),
        key(
            "nodes",
            Value::AnyOf(&[NODES, Value::Nothing]),
            "The nodes by name: isolated network stacks with their processes.",
        ),
        key(
            "switches",
            Value::AnyOf(&[
                Value::Map(&Value::AnyOf(&[Value::Object(&SWITCH), Value::Nothing])),
                Value::Nothing,
            ]),
            "The switches by name. Names are unique among nodes and switches.",
        ),
        key(
            "links",
            Value::AnyOf(&[
                Value::AnyList(&Value::AnyOf(&[
                    Value::Pair(&Value::Text),
                    Value::Pattern(".[-, ]."),
                    Value::Object(&LINK),
                ])),
                Value::Nothing,
            ]),
            "The links: `[A, B]`, `A-B`, or a map with `ends: [A, B]` and more. An end is NODE, NODE:IFACE, \
             SWITCH, host:IFACE (an interface of the host, bridged in), internet (NAT through the host) or nowhere.",
        ),
        key(
            "routing",
            Value::AnyOf(&[ROUTING_MODE, Value::Object(&ROUTING)]),
            "auto (default): routers get shortest-path routes, hosts a default route. none: only \
             routes by hand. Or a map with `mode` and `ecmp`.",
        ),
        key(
            "slices",
            Value::AnyOf(&[Value::Map(&Value::Object(&SLICE)), Value::Nothing]),
            "Slices of OpenFlow switches by name: which packets which controllers control, and what each slice may \
             use. The controller of a sliced switch is the lab's slicer.",
        ),
        key(
            "expect",
            Value::AnyOf(&[Value::AnyList(&Value::Object(&EXPECT)), Value::Nothing]),
            "What `netloom test` expects of the running lab, step by step. `up` does not read it.",
        ),
        key("pool", Value::Object(&POOL), "Where automatic addresses come from."),
        key(
            "record",
            Value::AnyOf(&[Value::Boolean, Value::Object(&RECORD)]),
            "true, or a map: while the lab is up, every frame of every link is kept on disk, from before its programs start, as \
             by `netloom record start`. Default false.",
        ),
        key(
            "loops",
            Value::Choice(&LOOPS),
            "refused (default): links of switches form no loop. allowed: they may, if in each loop a switch blocks: a \
             bridge with `stp: true`, or one of kind openflow with `fail: secure`.",
        ),
        key(
            "ids",
            IDS,
            "The users and groups of all nodes that do not say it themselves; see the node's `ids`.",
        ),
        key("place", PLACE, hosts::PLACE_DOC),
        key(
            "x-layout",
            Value::AnyOf(&[Value::Map(&Value::Pair(&COORDINATE)), Value::Nothing]),
            "Where nodes and switches stand in pictures, by name: `[x, y]`, the centre in pixels from the left and from the top. \
             `internet` and `host:IFACE` may have a place, too. Names of what is not in the lab are ignored.",
        ),
    ],
    kinds: &[],
    refused: &[],
    extensions: true,
};

/// A coordinate of a picture.
const COORDINATE: Value = Value::Integer(0, crate::bounds::MAX_COORDINATE);

/// Whether switches may form loops.
pub(super) const LOOPS: [&str; 2] = ["refused", "allowed"];

/// Users and groups.
const IDS: Value = Value::Choice(&WORDS);

const ROUTING_MODE: Value = Value::Choice(&["auto", "none"]);

/// `routing` as a map.
pub(crate) static ROUTING: Object = Object {
    name: "routing",
    doc: "How routes are made.",
    keys: &[
        key("mode", ROUTING_MODE, "auto (default) or none, as `routing` itself."),
        key(
            "ecmp",
            Value::Boolean,
            "Whether routers use all shortest paths of equal cost, flow by flow. Default true; false: \
             the first path alone.",
        ),
    ],
    kinds: &[],
    refused: &[],
    extensions: false,
};

/// `pool`.
pub(crate) static POOL: Object = Object {
    name: "pool",
    doc: "The prefixes that automatic addresses come from.",
    keys: &[
        key(
            "ipv4",
            PREFIX_OR_NONE,
            "An IPv4 prefix of /16 or shorter, or none. Default 10.0.0.0/8.",
        ),
        key("ipv6", PREFIX_OR_NONE, "An IPv6 prefix of /32 or shorter, or none. Default fd00::/8."),
    ],
    kinds: &[],
    refused: &[],
    extensions: false,
};

/// A recording of all links.
pub(crate) static RECORD: Object = Object {
    name: "record",
    doc: "A recording of every frame of every link, in a ring on disk.",
    keys: &[key(
        "keep",
        BYTES,
        "Most bytes on disk, like 2GiB (default); at least 4MiB. The oldest frames give way.",
    )],
    kinds: &[],
    refused: &[],
    extensions: false,
};

/// A node's body.
pub(crate) static NODE: Object = Object {
    name: "node",
    doc: "A node: an isolated network stack with its processes.",
    keys: &[
        key(
            "kind",
            Value::Choice(&["plain", "vm", "router"]),
            "plain (default): processes of this kernel. vm: a virtual machine with a kernel of its own. router: a node \
             that forwards, with a routing suite.",
        ),
        key(
            "forwarding",
            Value::AnyOf(&[Value::Boolean, Value::Choice(&["ipv4", "ipv6"])]),
            "true makes it a router: it forwards between its interfaces, gets routes, and is a gateway for hosts. ipv4 or \
             ipv6: of that family alone. Default false.",
        ),
        key(
            "hostname",
            Value::Text,
            "Its host name, at most 64 bytes. Default: its name, without its parents' names.",
        ),
        key(
            "loopback",
            Value::AnyOf(&[LOOPBACK, Value::List(&LOOPBACK, None)]),
            "Addresses of its loopback interface: one or a list. Computed routes lead to those of routers. Default: none \
             of its own.",
        ),
        key(
            "limits",
            Value::Object(&LIMITS),
            "What its processes may use together. Default: no limit.",
        ),
        key(
            "protect",
            Value::AnyOf(&[
                Value::Called(
                    "auto, off, or packets per second like 200k/s",
                    &Value::NumberOrPattern(r"^(auto|off|[0-9]+(\.[0-9]+)? *[kKMG]?(/s)?)$"),
                ),
                Value::Object(&PROTECT),
            ]),
            "What may be sent to it; more is dropped before it costs the node anything. auto: as much as it keeps \
             up with. off: nothing is dropped, at doors neither. Or a map. Default: only doors have a budget.",
        ),
        key(
            "charge-receive",
            Value::Boolean,
            "Whether the work of receiving counts as the node's own. Default true where it has `protect` \
             or a limit of `cpu`.",
        ),
        key(
            "children",
            Value::AnyOf(&[Value::Object(&CHILDREN), Value::Nothing]),
            "Nodes that live in it, and how many it may have.",
        ),
        key(
            "privileged",
            Value::Boolean,
            "true: its programs may mount, trace each other, load BPF programs and whatever else root may that \
             does not reach beyond the node by itself. Only for programs that are trusted with the machine. Default false.",
        ),
        key(
            "ids",
            IDS,
            "Its users and groups. real: programs change to other users and give files to them. fake: the change \
             appears to succeed, and they stay root. one: the change fails, and they stay root. Default: its parent's or the lab's, \
             else real where the machine gives its lab users, fake elsewhere.",
        ),
        key(
            "root",
            Value::Text,
            "A directory to be its root file system, relative to the lab file; the host's files under a \
             private overlay when absent.",
        ),
        key(
            "image",
            Value::Text,
            "The image of a container that its root is made of: [REGISTRY/]NAME[:TAG][@DIGEST], oci:DIR[:NAME], \
             docker-archive:FILE[:NAME] or docker-daemon:NAME, paths relative to the lab file. Without `run` the image's \
             program starts; environment, user and working directory are the image's where the lab names none.",
        ),
        key(
            "pull",
            Value::Choice(&crate::image::WORDS),
            "When the image is fetched. missing (default): if it is not here. always: whenever the lab is made. never: it \
             must be here.",
        ),
        key(
            "entrypoint",
            COMMAND,
            "Instead of the image's entrypoint and its arguments. Default: the image's.",
        ),
        key("cmd", COMMAND, "Instead of the image's arguments. Default: the image's."),
        key(
            "storage",
            BYTES,
            "How much may be written into its file system, like 64MiB; at least 1MiB. Default: a quarter of \
             the machine's memory. It is kept in memory, and counts for a limit of `memory`.",
        ),
        key(
            "setup",
            Value::AnyOf(&[Value::Text, Value::AnyList(&COMMAND)]),
            "Commands to do in order before any program of `run` is started: one, or a list of them, as in `run`. \
             Each must end with exit code 0, else `up` fails.",
        ),
        key(
            "run",
            commands!(&PROGRAM),
            "Programs to start, in order: one, or a list of them. Each is a line `prog arg`, split into words as a shell \
             does, an argument list `[prog, arg]`, or a map with `command` and more. No shell runs it: what needs one is \
             `[sh, -c, \"a | b\"]`.",
        ),
        key("env", Value::Map(&Value::Text), "Environment variables of its programs and of exec."),
        key(
            "files",
            Value::Map(&Value::AnyOf(&[Value::Text, Value::Object(&FILE)])),
            "Files to put in, by absolute path: the text itself, or a map with `text` or `from`.",
        ),
        key(
            "binds",
            Value::Map(&Value::AnyOf(&[Value::Text, Value::Object(&BIND)])),
            "Files and directories of the host that it sees, by absolute path in the node: the path on the host, \
             or a map with `from` and `access`.",
        ),
        key(
            "ports",
            Value::AnyOf(&[PUBLISHED, Value::List(&PUBLISHED, None)]),
            "Ports of the host that lead to programs of the node: one or a list. On the host's loopback, or at an address \
             before the port.",
        ),
        key(
            "ready",
            conditions!(&READY),
            "What must hold before the node counts as ready: a map, or only a TCP port or a file's path, or a list of these.",
        ),
        key(
            "exec",
            commands!(&EXEC),
            "Commands to do in order when every node of the lab is ready: one, or a list of them, as in `run`, or maps with \
             `command` and more.",
        ),
        key(
            "health",
            conditions!(&HEALTH),
            "A check that repeats as long as the node lives; `status` shows its result. A map, or as for `ready`.",
        ),
        key(
            "sysctls",
            Value::Map(&Value::Text),
            "Kernel settings below net., like net.ipv4.tcp_ecn: 1, written after netloom's own; with slashes where a name \
             has a dot: net/ipv4/conf/eth0.5/arp_notify.",
        ),
        key(
            "routes",
            Value::AnyList(&Value::Object(&ROUTE)),
            "Routes by hand; they replace the computed ones.",
        ),
        FOR,
        IF,
    ],
    kinds: &[PLAIN, vm::KEYS, router::KEYS],
    refused: &[],
    extensions: false,
};

/// `limits` of a node.
pub(crate) static LIMITS: Object = Object {
    name: "limits",
    doc: "Limits on a node's processes together.",
    keys: &[
        key("cpu", CPU, "A share of one CPU like 50%, or a number of CPUs like 1.5; at least 1%."),
        key("memory", BYTES, "Memory, like 256MiB; at least 1MiB."),
        key("processes", Value::Integer(1, MAX_PROCESSES), "How many processes and threads."),
        key(
            "weight",
            Value::Integer(1, MAX_WEIGHT),
            "Its part of the CPU when others want it too, against 100 for each of them.",
        ),
        key("sockets", Value::Integer(1, MAX_SOCKETS), "How many sockets of IPv4 and IPv6."),
    ],
    kinds: &[],
    refused: &[],
    extensions: false,
};

/// `protect` of a node.
pub(crate) static PROTECT: Object = Object {
    name: "protect",
    doc: "A budget for traffic to a node, over all its interfaces.",
    keys: &[
        key(
            "packets",
            Value::Called(
                "packets per second like 200k/s",
                &Value::NumberOrPattern(r"^[0-9]+(\.[0-9]+)? *[kKMG]?(/s)?$"),
            ),
            "Packets per second, like 200k/s; at least 1.",
        ),
        key(
            "bytes",
            Value::Called(
                "bytes per second like 1GB/s",
                &Value::NumberOrPattern(
                    r"^[0-9]+(\.[0-9]+)? *(B|k|K|kB|KB|M|MB|G|GB|T|TB|Ki|KiB|Mi|MiB|Gi|GiB|Ti|TiB)?(/s)?$",
                ),
            ),
            "Bytes per second, like 1GB/s; at least 10kB/s.",
        ),
        key(
            "auto",
            Value::Boolean,
            "true: the budget follows what the node keeps up with, `packets` at most. false: doors of the node are \
             not guarded either.",
        ),
    ],
    kinds: &[],
    refused: &[],
    extensions: false,
};

/// `children` of a node.
pub(crate) static CHILDREN: Object = Object {
    name: "children",
    doc: "Nodes that live in a node, and how many it may have.",
    keys: &[
        key(
            "limit",
            Value::Integer(0, 65_536),
            "How many nodes may live in it, at any depth. Default: as many as the file gives.",
        ),
        key(
            "nodes",
            Value::AnyOf(&[NODES, Value::Nothing]),
            "The nodes in it by name; elsewhere in the file each is PARENT/NAME.",
        ),
    ],
    kinds: &[],
    refused: &[],
    extensions: false,
};

/// A program of `run`.
pub(crate) static PROGRAM: Object = Object {
    name: "program",
    doc: "A program that is started when the network is up.",
    keys: &[
        Key {
            required: true,
            ..key("command", COMMAND, "The program and its arguments: a list or a line; no shell.")
        },
        key(
            "restart",
            Value::Choice(&["never", "on-failure", "always"]),
            "Whether it is started again when it ends: never (default), on-failure (an exit code other than 0, or a \
             signal) or always.",
        ),
        USER_KEY,
        GROUP_KEY,
        WORKDIR_KEY,
        key(
            "stop-signal",
            Value::Choice(&signal::WORDS),
            "The signal that asks it to end when the lab is taken down. Default TERM.",
        ),
    ],
    kinds: &[],
    refused: &[],
    extensions: false,
};

/// A file of `files`.
pub(crate) static FILE: Object = Object {
    name: "file",
    doc: "A file to put into a node; it has either `text` or `from`.",
    keys: &[
        key("text", Value::Text, "Its content."),
        key("from", Value::Text, "A file on the host, relative to the lab file."),
        key("mode", MODE, "Permission bits in octal. Default 0644."),
        key(
            "owner",
            Value::Text,
            "Its owner, by number or by a name in the node's own /etc/passwd; always root with fake `ids`. Default root.",
        ),
        key(
            "group",
            Value::Text,
            "Its group, by number or by a name in the node's own /etc/group. Default root.",
        ),
    ],
    kinds: &[],
    refused: &[],
    extensions: false,
};

/// A bind of `binds`.
pub(crate) static BIND: Object = Object {
    name: "bind",
    doc: "A file or directory of the host that a node sees.",
    keys: &[
        Key {
            required: true,
            ..key(
                "from",
                Value::Text,
                "The file or directory on the host, relative to the lab file.",
            )
        },
        key(
            "access",
            Value::Choice(&["ro", "rw"]),
            "ro (default): the node cannot change it. rw: what the node writes is on the host.",
        ),
    ],
    kinds: &[],
    refused: &[],
    extensions: false,
};

/// A command of `exec`.
pub(crate) static EXEC: Object = Object {
    name: "exec",
    doc: "A command that is done when every node of the lab is ready.",
    keys: &[
        Key {
            required: true,
            ..key("command", COMMAND, "The program and its arguments: a list or a line; no shell.")
        },
        key(
            "fatal",
            Value::Boolean,
            "true (default): if it fails, the lab does not come up. false: its failure is only reported.",
        ),
        key(
            "timeout",
            DURATION,
            "How long it may take; a server, which does not end, goes to `run`. Default 30s.",
        ),
        USER_KEY,
        GROUP_KEY,
        WORKDIR_KEY,
    ],
    kinds: &[],
    refused: &[],
    extensions: false,
};

/// `health` of a node.
pub(crate) static HEALTH: Object = Object {
    name: "health",
    doc: "A check that repeats; all conditions given must hold.",
    keys: &[
        key(
            "tcp",
            Value::AnyOf(&[PORT, Value::List(&PORT, None)]),
            "A TCP socket listens on this port, or on each of these.",
        ),
        key("exec", COMMAND, "This command exits with 0."),
        key(
            "file",
            Value::AnyOf(&[Value::Text, Value::List(&Value::Text, None)]),
            "This path exists in the node, or each of these.",
        ),
        key(
            "interval",
            DURATION,
            "From the end of a check to the next, at least 100ms. Default 10s.",
        ),
        key(
            "timeout",
            DURATION,
            "How long the command of `exec` may take, at least 100ms. Default 5s.",
        ),
        key(
            "retries",
            Value::Integer(1, 1000),
            "How many checks must fail in a row before the node counts as unhealthy. Default 3.",
        ),
    ],
    kinds: &[],
    refused: &[],
    extensions: false,
};

/// `ready` of a node.
pub(crate) static READY: Object = Object {
    name: "ready",
    doc: "Conditions that must all hold before the node counts as ready.",
    keys: &[
        key(
            "tcp",
            Value::AnyOf(&[PORT, Value::List(&PORT, None)]),
            "A TCP socket listens on this port, or on each of these.",
        ),
        key("exec", COMMAND, "This command exits with 0."),
        key("console", Value::Text, "A virtual machine's console has shown this text."),
        key("agent", Value::Boolean, "The agent of a QEMU machine's guest listens."),
        key(
            "file",
            Value::AnyOf(&[Value::Text, Value::List(&Value::Text, None)]),
            "This path exists in the node, or each of these.",
        ),
        key("timeout", DURATION, "How long it may take. Default 30s."),
    ],
    kinds: &[],
    refused: &[],
    extensions: false,
};

/// A route of `routes`.
pub(crate) static ROUTE: Object = Object {
    name: "route",
    doc: "A route by hand; it has `via`, `dev` or both.",
    keys: &[
        Key {
            required: true,
            ..key(
                "to",
                Value::Called(
                    "a prefix, or default",
                    &Value::Pattern(r"^([0-9A-Fa-f.:]+/[0-9]{1,3}|default)$"),
                ),
                "A prefix, or default, of the next hop's family.",
            )
        },
        key("via", Value::Text, "The next hop: an address, or a node that shares a segment."),
        key("dev", Value::Text, "The interface to leave by."),
    ],
    kinds: &[],
    refused: &[],
    extensions: false,
};

/// A switch's body.
pub(crate) static SWITCH: Object = Object {
    name: "switch",
    doc: "A switch: a bridge that joins the links that end in it.",
    keys: &[
        key(
            "kind",
            Value::Choice(&[bridge::WORD, shm::WORD, openflow::WORD]),
            "kernel (default): a bridge of the Linux kernel. shm: a switch in shared memory, which programs \
             can join, too. openflow: a switch that controllers program.",
        ),
        key(
            "subnet",
            SUBNET,
            "The segment's prefix, or one for each of IPv4 and IPv6. Default: from names.",
        ),
        key("mtu", MTU, "MTU of the segment's interfaces. Default 1500."),
        FOR,
        IF,
    ],
    kinds: &[bridge::KEYS, shm::KEYS, openflow::KEYS],
    refused: &[],
    extensions: false,
};

/// A link in its long form.
pub(crate) static LINK: Object = Object {
    name: "link",
    doc: "A link between two ends.",
    keys: &[
        Key {
            required: true,
            ..key(
                "ends",
                Value::AnyOf(&[Value::Pair(&Value::Text), Value::Pattern(".[-, ].")]),
                "Both ends, as in the short forms [A, B] and A-B.",
            )
        },
        key("name", Value::Text, "Its name; A:eth0--B:eth1 when absent."),
        key(
            "addresses",
            Value::AnyOf(&[
                Value::Map(&Value::AnyOf(&[SUBNET, Value::Choice(&["none"])])),
                Value::Choice(&["none"]),
            ]),
            "Addresses by hand with prefix length, by end (NODE or NODE:IFACE): one, one for each of \
             IPv4 and IPv6, or none for an interface without addresses. `addresses: none`: no node's \
             end of the link has one.",
        ),
        key(
            "mac",
            Value::Map(&Value::Called(
                "a MAC address like 02:00:00:00:00:01",
                &Value::Pattern(r"^[0-9A-Fa-f]{1,2}([:-][0-9A-Fa-f]{1,2}){5}$"),
            )),
            "MAC addresses by hand, by end (NODE or NODE:IFACE), each once in a lab. Default: from names.",
        ),
        key(
            "port",
            Value::Map(&Value::Integer(1, openflow::MOST_NUMBER as i64)),
            "Numbers of ports by hand, by end (SWITCH), at switches of kind openflow: {s1: 5}. Default: the lowest \
             that is free, in the order of the links.",
        ),
        key(
            "subnet",
            SUBNET,
            "The prefix of a link without a switch, or one for each of IPv4 and IPv6. Default: from names.",
        ),
        key("mtu", MTU, "MTU of both ends. Default 1500."),
        DELAY_KEY,
        JITTER_KEY,
        LOSS_KEY,
        DUPLICATE_KEY,
        REORDER_KEY,
        CORRUPT_KEY,
        RATE_KEY,
        QUEUE_KEY,
        LIMIT_KEY,
        DROP_KEY,
        SEED_KEY,
        key("a", Value::Shared(&DIRECTION), "The same for frames that the first end sends, alone."),
        key(
            "b",
            Value::Shared(&DIRECTION),
            "The same for frames that the second end sends, alone.",
        ),
        FOR,
        IF,
    ],
    kinds: &[],
    refused: &[],
    extensions: false,
};

/// `a` and `b` of a link.
pub(crate) static DIRECTION: Object = Object {
    name: "direction",
    doc: "What is done to frames of one direction; a key here replaces the link's own.",
    keys: &[
        DELAY_KEY,
        JITTER_KEY,
        LOSS_KEY,
        DUPLICATE_KEY,
        REORDER_KEY,
        CORRUPT_KEY,
        RATE_KEY,
        QUEUE_KEY,
        LIMIT_KEY,
        DROP_KEY,
        SEED_KEY,
        key(
            "mtu",
            Value::AnyOf(&[MTU, Value::Choice(&["none"])]),
            "Longer packets are lost, as on a path whose MTU is smaller.",
        ),
    ],
    kinds: &[],
    refused: &[],
    extensions: false,
};

/// `jitter` as a map.
pub(crate) static JITTER: Object = Object {
    name: "jitter",
    doc: "A random part of the delay.",
    keys: &[
        Key {
            required: true,
            ..key(
                "spread",
                DELAY,
                "normal: the standard deviation. uniform: the largest deviation in either direction. pareto: \
                 the mean of the added delay.",
            )
        },
        key(
            "distribution",
            Value::Choice(crate::impairment::DISTRIBUTIONS),
            "Its form. normal and uniform need a `delay`. Default normal.",
        ),
        key(
            "correlation",
            SHARE,
            "How much a packet's delay depends on that of the one before it. Default 0%.",
        ),
    ],
    kinds: &[],
    refused: &[],
    extensions: false,
};

/// `loss` as a map.
pub(crate) static LOSS: Object = Object {
    name: "loss",
    doc: "Which packets are lost: one of `random`, `bursts` and `pattern`.",
    keys: &[
        key("random", SHARE, "How many packets are lost, each by chance."),
        key(
            "correlation",
            SHARE,
            "With `random`: how much a packet's fate depends on that of the one before it. Default 0%.",
        ),
        key(
            "bursts",
            Value::Object(&BURSTS),
            "Losses in bursts, by the model of Gilbert and Elliott.",
        ),
        key(
            "pattern",
            Value::Called("x and . like ..x", &Value::Pattern(r"^[.x]+$")),
            "Exactly these, over and over: x is lost, . passes. `..x` loses every third.",
        ),
    ],
    kinds: &[],
    refused: &[],
    extensions: false,
};

/// `bursts` of `loss`.
pub(crate) static BURSTS: Object = Object {
    name: "bursts",
    doc: "A good and a bad state; before each packet the state may change.",
    keys: &[
        Key {
            required: true,
            ..key("enter", SHARE, "Probability for each packet that good becomes bad.")
        },
        Key {
            required: true,
            ..key(
                "leave",
                SHARE,
                "Probability for each packet that bad becomes good: bursts have 1/leave packets on average.",
            )
        },
        key("bad", SHARE, "Loss in the bad state. Default 100%."),
        key("good", SHARE, "Loss in the good state. Default 0%."),
    ],
    kinds: &[],
    refused: &[],
    extensions: false,
};
