//! Words of other programs' files (containerlab, Kathara, Mininet, Docker Compose, munet, netlab), and
//! netloom's for them.
//!
//! Only errors use this: an unknown key is looked up here before its spelling is corrected. A word that
//! becomes a key of netloom is a key from then on, whatever is listed here.

use netloom_config::{Kind, Node as Yaml, likely};

/// What to write instead of a word.
enum Instead {
    /// Another key, with the same value.
    Key(&'static str),
    /// A key with a map of one key around the same value: `limits: {cpu: 2}`.
    Within(&'static str, &'static str),
    /// Programs: a command line becomes an argument list.
    Run,
    /// Files of the host: `HOST:NODE` becomes an entry of `binds`.
    Files,
    /// Advice in words.
    Say(&'static str),
}

use Instead::{Files, Key, Run, Say, Within};

type Words = &'static [(&'static [&'static str], Instead)];

/// Maximum length of a readable line.
const LONGEST: usize = 72;

/// Help for a key that an object does not have, but other programs do.
pub(crate) fn help(object: &str, key: &str, value: &Yaml) -> Option<String> {
    Some(match find(object, key)? {
        Key(name) => written(name, value),
        Within(outer, name) => match scalar(value) {
            Some(text) => format!("write {outer}: {{{name}: {}}}", converted(name, text)),
            None => format!("write it as {outer}: {{{name}: ...}}"),
        },
        Run => format!("write run: {}", commands(value)),
        Files => files(value),
        Say(words) => (*words).to_owned(),
    })
}

/// Whether a key is another program's word for a key of the same object.
pub(crate) fn stands_for(object: &str, key: &str, name: &str) -> bool {
    matches!(find(object, key), Some(Key(known)) if *known == name)
}

fn find(object: &str, key: &str) -> Option<&'static Instead> {
    let tables: &[Words] = match object {
        "lab" => &[LAB],
        "node" => &[NODE],
        "switch" => &[SWITCH],
        "link" => &[LINK, FRAMES],
        "direction" => &[FRAMES],
        "limits" => &[LIMITS],
        "route" => &[ROUTE],
        "program" => &[PROGRAM],
        "ready" => &[READY],
        "file" => &[FILE],
        "port" => &[PORT],
        _ => &[],
    };
    // `cap-add`, `cap_add` and `capAdd` are one word.
    // Words of several tables may fit: the first table is the object's own.
    let mut all = tables.iter().flat_map(|table| table.iter());
    all.find(|(words, _)| words.iter().any(|word| same(word, key))).map(|(_, instead)| instead)
}

fn same(word: &str, key: &str) -> bool {
    fn letters(text: &str) -> impl Iterator<Item = u8> {
        text.bytes().filter(|b| !matches!(b, b'-' | b'_')).map(|b| b.to_ascii_lowercase())
    }
    letters(word).eq(letters(key))
}

/// `write KEY: VALUE`, or only the key if the value is long.
fn written(name: &str, value: &Yaml) -> String {
    let shown = match (&value.kind, scalar(value)) {
        (_, Some(text)) => Some(converted(name, text)),
        (Kind::Seq(items), _) => {
            let items: Option<Vec<&str>> = items.iter().map(scalar).collect();
            items.map(|items| format!("[{}]", items.join(", ")))
        }
        _ => None,
    };
    match shown.filter(|shown| fits(shown)) {
        Some(shown) => format!("write {name}: {shown}"),
        None => format!("netloom's word for it is {name}"),
    }
}

fn fits(text: &str) -> bool {
    (1..=LONGEST).contains(&text.chars().count()) && !text.contains(char::is_control)
}

fn scalar(value: &Yaml) -> Option<&str> {
    match value.kind {
        Kind::Bool(_) | Kind::Int(_) | Kind::Float(_) | Kind::Str => Some(&value.text),
        Kind::Null | Kind::Seq(_) | Kind::Map(_) => None,
    }
}

/// A value in the key's form, where the other program omits the unit or uses others.
fn converted(name: &str, text: &str) -> String {
    let bare = text.parse::<f64>().is_ok();
    let likely = match name {
        // Mininet, CORE and most others count megabits.
        "rate" if bare => return format!("{text}mbit"),
        "rate" => likely::rate(text),
        "delay" | "jitter" => likely::delay(text),
        "loss" | "duplicate" | "reorder" | "corrupt" => likely::share(text),
        "cpu" => likely::cpu(text),
        "memory" => likely::bytes(text),
        _ => None,
    };
    // The same proposals as for a value of a key, so that both agree.
    let proposed = likely.as_deref().and_then(|help| help.strip_prefix("write "));
    let first = proposed.and_then(|p| p.split([' ', ',']).next());
    first.unwrap_or(text).to_owned()
}

/// Argument lists of one or more command lines.
pub(crate) fn commands(value: &Yaml) -> String {
    let lines: Vec<&str> = match &value.kind {
        Kind::Seq(items) => items.iter().filter_map(scalar).collect(),
        _ => scalar(value).into_iter().collect(),
    };
    // `cmd: [python3, -m, http.server]` is already one command.
    let one = matches!(value.kind, Kind::Seq(_)) && !lines.iter().any(|line| line.contains(' '));
    let lists: Vec<String> = match one {
        true => vec![format!("[{}]", lines.join(", "))],
        false => lines.iter().map(|line| arguments(line)).collect(),
    };
    let shown = format!("[{}]", lists.join(", "));
    if !lines.is_empty() && fits(&shown) { shown } else { "[[PROGRAM, ARGUMENT], ...]".to_owned() }
}

/// The argument list of a command line, by way of a shell where it needs one.
fn arguments(line: &str) -> String {
    if line.contains(['|', '&', ';', '$', '<', '>', '`', '*', '\'', '"', '\\', '('])
        || line.contains(char::is_control)
    {
        return by_shell(line);
    }
    let words: Vec<String> = line.split_whitespace().map(shown).collect();
    format!("[{}]", words.join(", "))
}

/// The argument list of a shell that runs a line.
pub(crate) fn by_shell(line: &str) -> String {
    format!("[sh, -c, {}]", quoted(line))
}

/// A text in quotes of YAML, in which a backslash is one.
fn quoted(text: &str) -> String {
    match text.contains(char::is_control) {
        // Several lines do not fit into a help of one line as they are.
        true => netloom_config::quote(text),
        false => format!("'{}'", text.replace('\'', "''")),
    }
}

/// A word of a list in YAML's flow style.
pub(crate) fn shown(word: &str) -> String {
    match word.is_empty() || word.contains([',', '[', ']', '{', '}', '#', ':', ' ']) {
        true => quoted(word),
        false => word.to_owned(),
    }
}

/// Help for files of the host, which others write as `HOST:NODE`.
pub(crate) fn files(value: &Yaml) -> String {
    let first = match &value.kind {
        Kind::Seq(items) => items.first(),
        _ => Some(value),
    };
    let entry = first.and_then(scalar).map(|text| {
        let (host, node) = text.split_once([':', '|']).unwrap_or((text, "/etc/app.conf"));
        let node = node.split([':', '|']).next().unwrap_or(node);
        format!("{{{node}: {host}}}")
    });
    let entry = entry.filter(|entry| fits(entry) && entry.starts_with("{/"));
    let entry = entry.unwrap_or_else(|| "{/etc/app.conf: app.conf}".to_owned());
    format!("write binds: {entry}, or root: DIRECTORY for a whole file system")
}

const ON_LINKS: &str = "it belongs to a link: links: [{ends: [A, B], delay: 10ms, loss: 1%}]";
const ADDRESSES: &str = "addresses belong to the end of a link: \
     links: [{ends: [A, B], addresses: {A: 10.0.0.1/24}}]";
const FROM_LINKS: &str =
    "interfaces come from links, which stand at the top of the file: links: [[A, B]]";
const NO_CONTAINER: &str = "leave it out: a node is not a container, and has no such setting";

static LAB: Words = &[
    (
        &["topology"],
        Say("leave this level out: nodes, switches and links stand at the top of the file"),
    ),
    (
        &["services", "containers", "devices", "machines", "vms"],
        Say("write nodes: {NAME: {}}, with a link [NODE, SWITCH] for each network that it is in"),
    ),
    (
        &["hosts"],
        Say(
            "write nodes: {NAME: {}}, with a link [NODE, SWITCH] for each network that it is in; a hosts file stands beside \
             a lab file: netloom check LAB --on HOSTS",
        ),
    ),
    (&["routers"], Say("write nodes: {NAME: {forwarding: true}}")),
    (
        &["networks", "bridges", "lans", "segments", "domains"],
        Say("write switches: {NAME: {}}, and for each node on it a link [NODE, SWITCH]"),
    ),
    (&["connections", "edges", "cables", "wires"], Say("write links: [[A, B]]")),
    (
        &["defaults", "kinds", "groups"],
        Say(
            "write what nodes share once, x-common: &common {forwarding: true}, and <<: *common in each node",
        ),
    ),
    (
        &["mgmt", "management"],
        Say(
            "leave it out: nodes are reached by netloom exec and netloom shell, without a network of their own",
        ),
    ),
    (
        &["volumes", "configs", "secrets"],
        Say("files are given node by node, in its files: or as its root:"),
    ),
    (&["addressing", "ipam"], Say("write pool: {ipv4: 10.0.0.0/8, ipv6: \"fd00::/8\"}")),
    (
        &["version", "prefix", "settings", "debug", "module", "provider"],
        Say("leave it out: netloom needs no such key"),
    ),
];

static NODE: Words = &[
    (&["image-pull-policy", "pull-policy", "imagepullpolicy"], Key("pull")),
    (
        &["kind"],
        Say(
            "leave it out: every node is a Linux host or, with forwarding: true, a router; a bridge goes to switches:",
        ),
    ),
    (&["command", "startup", "args"], Run),
    (&["volumes", "volume", "mounts", "startup-config", "config", "configs"], Files),
    (&["environment"], Key("env")),
    (&["env-files", "env-file"], Say("write env: {NAME: VALUE}")),
    (&["port", "expose", "publish"], Key("ports")),
    (&["bridged"], Say("write a link [NODE, internet] at the top of the file")),
    (
        &["healthcheck", "liveness", "liveness-probe"],
        Say("write health: {exec: [PROGRAM], interval: 10s}, or health: {tcp: 80}"),
    ),
    (
        &["stages", "depends-on", "startup-delay", "wait-for"],
        Say(
            "write ready: {tcp: 80}, or ready: {exec: [PROGRAM]}: what must hold before the lab is up",
        ),
    ),
    (
        &["restart", "restart-policy"],
        Say("it belongs to a program: run: [{command: [PROGRAM], restart: always}]"),
    ),
    (
        &["user", "group"],
        Say("it belongs to a program: run: [{command: [PROGRAM], user: NAME, group: NAME}]"),
    ),
    (
        &["workdir", "working-dir"],
        Say("it belongs to a program: run: [{command: [PROGRAM], workdir: /DIRECTORY}]"),
    ),
    (
        &["stop-signal"],
        Say("it belongs to a program: run: [{command: [PROGRAM], stop-signal: INT}]"),
    ),
    (
        &["cap-add", "cap-drop"],
        Say(
            "leave it out: programs may set up their node's network; privileged: true lets them mount and trace, too",
        ),
    ),
    (&["cpu", "cpus"], Within("limits", "cpu")),
    (&["memory", "mem", "mem-limit"], Within("limits", "memory")),
    (&["pids-limit", "processes"], Within("limits", "processes")),
    (&["sockets"], Within("limits", "sockets")),
    (
        &["deploy", "resources", "ulimit", "ulimits", "cpu-set"],
        Say("write limits: {cpu: 50%, memory: 256MiB, processes: 100}"),
    ),
    (
        &["interfaces", "networks", "links", "connections", "ifaces", "nics", "endpoints"],
        Say(FROM_LINKS),
    ),
    (
        &["ip", "ipv4", "ipv6", "address", "addresses", "ips", "mgmt-ipv4", "mgmt-ipv6"],
        Say(ADDRESSES),
    ),
    (
        &["mac", "mac-address"],
        Say("write it in the link: {ends: [A, B], mac: {A: 02:00:00:00:00:01}}"),
    ),
    (
        &["gateway", "default-gateway", "default-route", "gw"],
        Say("write routes: [{to: default, via: ROUTER}]"),
    ),
    (
        &["container-name", "domainname"],
        Say("leave it out: a node's host name is its name; hostname: NAME gives it another"),
    ),
    (
        &["dns", "extra-hosts", "aliases", "dns-search"],
        Say(
            "leave it out: all nodes find each other by name; files: {/etc/resolv.conf: ...} gives a node its own",
        ),
    ),
    (&["router", "ip-forward", "routing", "forward"], Say("write forwarding: true")),
    (&["delay", "loss", "rate", "bandwidth", "bw", "latency", "jitter"], Say(ON_LINKS)),
    (&["mtu"], Say("it belongs to a link or a switch: links: [{ends: [A, B], mtu: 9000}]")),
    (
        &[
            "network-mode",
            "labels",
            "type",
            "runtime",
            "platform",
            "tty",
            "stdin-open",
            "shm-size",
            "tmpfs",
            "security-opts",
            "security-opt",
            "auto-remove",
            "license",
            "num-terms",
            "shell",
        ],
        Say(NO_CONTAINER),
    ),
];

static SWITCH: Words = &[
    (
        &["driver", "type"],
        Say("write kind: kernel, a bridge of Linux, or kind: shm, a switch in shared memory"),
    ),
    (&["cidr", "prefix", "network"], Key("subnet")),
    (&["ipam", "addressing"], Say("write subnet: 10.20.0.0/24")),
    (
        &["nodes", "hosts", "members", "interfaces", "endpoints"],
        Say("links say who is on a switch: links: [[NODE, SWITCH]]"),
    ),
    (&["vlan", "vlans"], Say("VLANs belong to its ports: kind: shm and ports: {NODE: {vlan: 7}}")),
    (
        &["external", "internal"],
        Say("leave it out: a switch leads outside only by a link [SWITCH, host:IFACE]"),
    ),
    (
        &["controller"],
        Say("write kind: openflow and controllers: tcp:ADDRESS, or node:NAME for one in a node"),
    ),
    (&["protocols"], Say("write kind: openflow and versions: [1.0, 1.3]")),
    (&["dpid"], Say("write kind: openflow and datapath: 0x1")),
    (&["fail-mode"], Say("write kind: openflow and fail: secure, or fail: standalone")),
    (&["rstp"], Key("stp")),
    (&["labels", "image"], Say("leave it out: switches learn addresses by themselves")),
    (&["delay", "loss", "rate", "bandwidth", "latency"], Say(ON_LINKS)),
];

static LINK: Words = &[
    (&["endpoints", "nodes", "interfaces", "between", "connect", "members"], Key("ends")),
    (
        &[
            "from", "to", "source", "target", "src", "dst", "left", "right", "node1", "node2",
            "endpoint",
        ],
        Say("write both ends in one list: ends: [A, B]"),
    ),
    (&["type", "kind", "link-type"], Say("leave it out: its ends say what is linked")),
    (&["prefix", "cidr", "network"], Key("subnet")),
    (
        &["ip", "ips", "ipv4", "ipv6", "address"],
        Say("write addresses: {A: 10.0.0.1/24, B: 10.0.0.2/24}"),
    ),
    (&["bridge", "switch", "lan"], Say("the switch is an end: ends: [NODE, SWITCH]")),
    (
        &["impairments", "impairment", "netem", "tc", "filters", "qos", "shaping", "params"],
        Say(
            "its keys stand in the link itself: {ends: [A, B], delay: 10ms, loss: 1%, rate: 10mbit}",
        ),
    ),
    (
        &["vlan", "vlans"],
        Say("VLANs belong to ports of a switch: kind: shm and ports: {NODE: {vlan: 7}}"),
    ),
    (&["mac-address", "macs", "hwaddr"], Key("mac")),
    (&["ports", "port-number", "ofport"], Key("port")),
    (&["vars", "labels", "cost", "metric"], Say("leave it out: netloom has no use for it")),
];

/// Impairments of links.
static FRAMES: Words = &[
    (&["bandwidth", "bw", "speed", "capacity", "rate-limit"], Key("rate")),
    (&["latency", "lat"], Key("delay")),
    (&["packet-loss", "loss-rate", "drop-rate"], Key("loss")),
    (&["corruption", "corrupt-rate"], Key("corrupt")),
    (&["dup", "duplication"], Key("duplicate")),
    (&["reordering"], Key("reorder")),
    (&["max-queue-size", "queue-size", "buffer"], Key("queue")),
];

static LIMITS: Words = &[
    (&["cpus", "cpu-quota", "cpu-percent"], Key("cpu")),
    (&["mem", "ram", "mem-limit"], Key("memory")),
    (&["pids", "nproc", "pids-limit", "tasks", "threads"], Key("processes")),
    (&["cpu-shares", "cpu-weight", "shares"], Key("weight")),
];

static ROUTE: Words = &[
    (&["dst", "dest", "destination", "prefix", "network", "subnet"], Key("to")),
    (&["gateway", "gw", "next-hop", "nexthop"], Key("via")),
    (&["interface", "iface", "oif", "device"], Key("dev")),
];

static PROGRAM: Words = &[
    (&["cmd", "exec", "argv"], Key("command")),
    (&["restart-policy"], Key("restart")),
    (&["working-dir", "cwd"], Key("workdir")),
];

static READY: Words = &[
    (&["port", "ports", "tcp-port"], Key("tcp")),
    (&["command", "cmd", "test"], Key("exec")),
    (&["path", "files"], Key("file")),
    (
        &["interval", "retries", "start-period"],
        Say("leave it out: timeout: 30s says how long all may take"),
    ),
];

static FILE: Words = &[
    (&["content", "contents", "data"], Key("text")),
    (&["source", "src", "host", "path"], Key("from")),
    (&["permissions", "perm", "perms", "chmod"], Key("mode")),
];

static PORT: Words = &[
    (&["access", "pvid", "tag", "vid"], Key("vlan")),
    (&["trunks", "tagged", "allowed-vlans"], Key("trunk")),
    (&["untagged", "native-vlan"], Key("native")),
    (&["dot1q-tunnel", "service-vlan", "outer-vlan", "svlan"], Key("qinq")),
    (&["customer-vlans"], Key("cvlans")),
    (&["ethertype", "qinq-ethtype"], Key("tpid")),
    (&["mac"], Key("lock")),
];

/// Another program's word for one of a fixed choice.
pub(crate) fn choice(object: &str, key: &str, word: &str) -> Option<String> {
    let word = word.to_ascii_lowercase().replace('_', "-");
    let write = match (object, key, word.as_str()) {
        (
            "switch",
            "kind",
            "bridge" | "linux" | "linux-bridge" | "ovs" | "ovs-bridge" | "openvswitch",
        ) => "kernel",
        ("program", "restart", "unless-stopped" | "true" | "yes") => "always",
        ("program", "restart", "no" | "none" | "false") => "never",
        ("program", "stop-signal", known) if known.starts_with("sig") => {
            return Some(format!("write {}", known[3..].to_ascii_uppercase()));
        }
        ("lab", "routing", "off" | "no" | "false" | "manual" | "static") => "none",
        ("lab", "routing", protocol @ ("ospf" | "bgp" | "isis" | "rip" | "frr")) => {
            let keys = match protocol {
                "ospf" => "ospf: true",
                "bgp" => "bgp: {as: 65001}",
                "isis" => "config: {isisd: FILE}",
                "rip" => "config: {ripd: FILE}",
                _ => "ospf: true, or bgp: {as: 65001}",
            };
            return Some(format!("leave it out; in each router write kind: router and {keys}"));
        }
        ("lab", "routing", "bird") => {
            return Some(
                "write none, and run the routing programs in the nodes: run: [[PROGRAM]]"
                    .to_owned(),
            );
        }
        _ => return None,
    };
    Some(format!("write {write}"))
}

/// A name used as a link's end that is neither a node nor a switch.
pub(crate) fn end(name: &str, iface: Option<&str>) -> Option<String> {
    Some(match name {
        "macvlan" | "bridge" => format!("write host:{}", iface.unwrap_or("IFACE")),
        "nat" | "wan" | "cloud" | "world" | "external" => "write internet".to_owned(),
        "dummy" | "null" | "none" => "write nowhere".to_owned(),
        "mgmt-net" => "leave this link out: netloom has no such end".to_owned(),
        _ => return None,
    })
}

/// Recognises by its first lines a file that is not a lab file.
pub(crate) fn whole_file(text: &[u8]) -> Option<&'static str> {
    // A lab file may be large; its kind shows at the start.
    let start = text.get(..text.len().min(4096))?;
    // A character may be cut at the end: then nothing is recognised.
    let start = std::str::from_utf8(start).unwrap_or_default();
    let mut lines = start.lines().map(str::trim).filter(|l| !l.is_empty());
    if start.starts_with("#!") && start.lines().next()?.contains("python") {
        return Some("a Python script");
    }
    let first = lines.find(|line| !line.starts_with('#'))?;
    let python = ["from mininet", "import mininet", "from mn_", "from Kathara"];
    if python.iter().any(|import| first.starts_with(import)) {
        return Some("a Python script");
    }
    if first.starts_with("<?xml") || first.starts_with("<scenario") {
        return Some("an XML file");
    }
    kathara(first).then_some("a lab.conf of Kathara")
}

/// `r1[0]="A"` or `LAB_NAME="x"`.
fn kathara(line: &str) -> bool {
    let Some((left, _)) = line.split_once('=') else { return false };
    let left = left.trim_end();
    let word = |text: &str| {
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    let indexed = left.strip_suffix(']').and_then(|left| left.split_once('['));
    indexed.is_some_and(|(device, index)| word(device) && word(index))
        || (left.starts_with("LAB_") && word(left))
}

#[cfg(test)]
mod tests;
