//! The text of a lab file from a draft. Texts are quoted wherever YAML could take them for something else.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use netloom_config::printable;
pub(crate) use netloom_config::written::{list, quoted, scalar};

use crate::draft::{Bind, Content, Draft, End, File, Link, Node, Program, Route, Switch};

/// A piece of a draft that a line of the lab file is made of, by its place there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Piece {
    Head,
    Node(usize),
    Part(usize, Part),
    Switch(usize),
    Link(usize),
}

/// A part of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    Key(usize),
    Forwarding,
    Env(usize),
    Sysctl(usize),
    File(usize),
    Bind(usize),
    Ports,
    Setup(usize),
    Run(usize),
    Exec(usize),
    Route(usize),
}

/// The text of a lab file.
#[derive(Default)]
pub(crate) struct Written {
    pub(crate) text: String,
    /// By line: what it is made of.
    pub(crate) pieces: Vec<Piece>,
}

impl Written {
    /// Whole lines of one piece.
    fn put(&mut self, piece: Piece, text: &str) {
        self.text.push_str(text);
        self.pieces.extend(text.lines().map(|_| piece));
    }

    /// A key of a node with its items, if there are any.
    fn items(
        &mut self,
        node: usize,
        key: &str,
        part: fn(usize) -> Part,
        lines: impl IntoIterator<Item = String>,
    ) {
        for (n, line) in lines.into_iter().enumerate() {
            if n == 0 {
                // An error at the key itself takes out the node, one at an item the item alone.
                self.put(Piece::Node(node), &format!("    {key}:\n"));
            }
            self.put(Piece::Part(node, part(n)), &line);
        }
    }
}

/// The lab file. `from` is what it was made of, in words; `base` stands before paths of files.
pub(crate) fn write(draft: &Draft, from: &str, base: &str) -> Written {
    let mut out = Written::default();
    let name = scalar(&draft.name);
    let mut head = format!("# Made by `netloom import` from {}.\n", printable::line(from));
    let _ = write!(head, "name: {name}\nrouting: none\n");
    // Addresses are those that the other lab has. Only the way to the host needs one where that gives none.
    let bare =
        |end: &End| end.at == "internet" && !end.addresses.iter().any(|a| a.addr().is_ipv4());
    let bare = draft.links.iter().flat_map(|link| &link.ends).any(bare);
    head.push_str(match bare {
        true => "pool: {ipv6: none}\n",
        false => "pool: {ipv4: none, ipv6: none}\n",
    });
    head.push_str(if draft.loops { "loops: allowed\n" } else { "" });
    head.push_str(if draft.nodes.is_empty() { "nodes: {}\n" } else { "nodes:\n" });
    out.put(Piece::Head, &head);
    for (at, node) in draft.nodes.iter().enumerate() {
        write_node(&mut out, at, node, base);
    }
    if !draft.switches.is_empty() {
        out.put(Piece::Head, "switches:\n");
    }
    let names = names(&draft.links);
    for (at, switch) in draft.switches.iter().enumerate() {
        out.put(Piece::Switch(at), &write_switch(switch, &rules(switch, &draft.links, &names)));
    }
    if !draft.links.is_empty() {
        out.put(Piece::Head, "links:\n");
    }
    for (at, link) in draft.links.iter().enumerate() {
        out.put(Piece::Link(at), &write_link(link));
    }
    out
}

fn write_node(out: &mut Written, at: usize, node: &Node, base: &str) {
    let mut body = Written::default();
    let part = |part| Piece::Part(at, part);
    for (n, (key, value)) in node.keys.iter().enumerate() {
        body.put(part(Part::Key(n)), &format!("    {key}: {value}\n"));
    }
    if let Some(families) = node.forwarding {
        body.put(part(Part::Forwarding), &format!("    forwarding: {families}\n"));
    }
    body.items(at, "env", Part::Env, write_texts(&node.env));
    body.items(at, "sysctls", Part::Sysctl, write_texts(&node.sysctls));
    body.items(at, "files", Part::File, node.files.iter().map(|file| write_file(file, base)));
    body.items(at, "binds", Part::Bind, node.binds.iter().map(|bind| write_bind(bind, base)));
    let ports: Vec<String> = node.ports.iter().map(|port| quoted(&port.to_string())).collect();
    if !ports.is_empty() {
        body.put(part(Part::Ports), &format!("    ports: [{}]\n", ports.join(", ")));
    }
    let command = |command: &Vec<String>| format!("      - {}\n", list(command));
    body.items(at, "setup", Part::Setup, node.setup.iter().map(command));
    body.items(at, "run", Part::Run, node.run.iter().map(write_program));
    let command =
        |command: &Vec<String>| format!("      - {{command: {}, fatal: false}}\n", list(command));
    body.items(at, "exec", Part::Exec, node.exec.iter().map(command));
    body.items(at, "routes", Part::Route, node.routes.iter().map(write_route));
    let name = scalar(&node.name);
    let first =
        if body.text.is_empty() { format!("  {name}: {{}}\n") } else { format!("  {name}:\n") };
    out.put(Piece::Node(at), &first);
    out.text.push_str(&body.text);
    out.pieces.extend(body.pieces);
}

fn write_texts(texts: &BTreeMap<String, String>) -> Vec<String> {
    texts
        .iter()
        .map(|(name, value)| format!("      {}: {}\n", scalar(name), quoted(value)))
        .collect()
}

fn write_file(file: &File, base: &str) -> String {
    let content = match &file.content {
        Content::Text(text) => format!("text: {}", quoted(text)),
        Content::From(path) => format!("from: {}", scalar(&host_path(path, base))),
    };
    let mode = match file.mode {
        0o644 => String::new(),
        mode => format!(", mode: \"{mode:04o}\""),
    };
    format!("      {}: {{{content}{mode}}}\n", scalar(&file.path))
}

/// A path of the host from where the lab file is.
fn host_path(path: &str, base: &str) -> String {
    match path.starts_with('/') || base.is_empty() {
        true => path.to_owned(),
        false => format!("{base}/{path}"),
    }
}

fn write_bind(bind: &Bind, base: &str) -> String {
    let access = if bind.writable { ", access: rw" } else { "" };
    let from = scalar(&host_path(&bind.from, base));
    format!("      {}: {{from: {from}{access}}}\n", scalar(&bind.path))
}

fn write_program(program: &Program) -> String {
    if program.keys.is_empty() {
        return format!("      - {}\n", list(&program.command));
    }
    let keys = program.keys.iter().map(|(key, value)| format!("        {key}: {value}\n"));
    format!("      - command: {}\n{}", list(&program.command), keys.collect::<String>())
}

fn write_route(route: &Route) -> String {
    let mut body = format!("to: {}", scalar(&route.to));
    for (key, value) in [("via", &route.via), ("dev", &route.dev)] {
        if let Some(value) = value {
            let _ = write!(body, ", {key}: {}", scalar(value));
        }
    }
    format!("      - {{{body}}}\n")
}

fn write_switch(switch: &Switch, rules: &[String]) -> String {
    let mut keys = pairs(&switch.keys);
    if !rules.is_empty() {
        let _ = write!(keys, ", ports: {{{}}}", rules.join(", "));
    }
    format!("  {}: {{{keys}}}\n", scalar(&switch.name))
}

/// The rules of the ports of a switch in shared memory. A port is called after the other end of its link, or after the
/// link where several lead from the switch to another or to the host's network.
fn rules(switch: &Switch, links: &[Link], names: &[String]) -> Vec<String> {
    if !switch.keys.iter().any(|(key, value)| *key == "kind" && value == "shm") {
        return vec![];
    }
    let sides = |link| [(link, 0), (link, 1)];
    let own: Vec<_> = (0..links.len())
        .flat_map(sides)
        .filter(|(link, side)| links[*link].ends[*side].at == switch.name)
        .map(|(link, side)| (&links[link].ends, side, &names[link]))
        .collect();
    let rule = |(ends, side, link): &(&[End; 2], usize, &String)| {
        let (rule, other) = (ends[*side].rule.as_ref()?, &ends[1 - side]);
        let is_known = other.iface.is_some() || other.at.starts_with("host:");
        let same = own.iter().filter(|(ends, side, _)| ends[1 - side].at == other.at);
        let name = match is_known || same.count() == 1 {
            true => plain(other),
            false => (*link).clone(),
        };
        Some(format!("{}: {{{rule}}}", quoted(&name)))
    };
    own.iter().filter_map(rule).collect()
}

/// The names that links have in a lab: those of their ends, and a number where another has the same.
fn names(links: &[Link]) -> Vec<String> {
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    let name = |link: &Link| {
        let name = format!("{}--{}", plain(&link.ends[0]), plain(&link.ends[1]));
        let count = known.entry(name.clone()).or_default();
        *count += 1;
        if *count == 1 { name } else { format!("{name}#{count}") }
    };
    links.iter().map(name).collect()
}

/// An end as a lab names it.
fn plain(end: &End) -> String {
    match &end.iface {
        Some(iface) => format!("{}:{iface}", end.at),
        None => end.at.clone(),
    }
}

fn pairs(keys: &[(&'static str, String)]) -> String {
    let pairs: Vec<String> = keys.iter().map(|(key, value)| format!("{key}: {value}")).collect();
    pairs.join(", ")
}

fn shown(end: &End) -> String {
    scalar(&plain(end))
}

/// How an end is named in the maps of a link: in full where both ends are at one node.
fn key_of(link: &Link, end: &End) -> String {
    let same = link.ends[0].at == link.ends[1].at;
    if same { shown(end) } else { scalar(&end.at) }
}

fn write_link(link: &Link) -> String {
    let mut parts = vec![format!("ends: [{}, {}]", shown(&link.ends[0]), shown(&link.ends[1]))];
    parts.extend(addresses(link));
    let mac = |end: &End| Some(format!("{}: {}", key_of(link, end), quoted(end.mac.as_ref()?)));
    let macs: Vec<String> = link.ends.iter().filter_map(mac).collect();
    if !macs.is_empty() {
        parts.push(format!("mac: {{{}}}", macs.join(", ")));
    }
    let port = |end: &End| Some(format!("{}: {}", key_of(link, end), end.number?));
    let ports: Vec<String> = link.ends.iter().filter_map(port).collect();
    if !ports.is_empty() {
        parts.push(format!("port: {{{}}}", ports.join(", ")));
    }
    parts.extend(link.mtu.map(|mtu| format!("mtu: {mtu}")));
    let [both, first, second] = &link.impairments;
    parts.extend(both.iter().map(|(key, value)| format!("{key}: {value}")));
    for (key, way) in [("a", first), ("b", second)] {
        if !way.is_empty() {
            parts.push(format!("{key}: {{{}}}", pairs(way)));
        }
    }
    format!("  - {{{}}}\n", parts.join(", "))
}

/// Addresses by end; an end without any has none, because other programs make none up.
fn addresses(link: &Link) -> Option<String> {
    let has_some = |end: &&End| end.iface.is_some() || !end.addresses.is_empty();
    let nodes: Vec<&End> = link.ends.iter().filter(has_some).collect();
    if nodes.is_empty() {
        return None;
    }
    if nodes.iter().all(|end| end.addresses.is_empty()) {
        return Some("addresses: none".into());
    }
    let one = |end: &&End| {
        let nets: Vec<String> = end.addresses.iter().map(|net| quoted(&net.to_string())).collect();
        let value = match nets.as_slice() {
            [] => "none".to_owned(),
            nets => format!("[{}]", nets.join(", ")),
        };
        format!("{}: {value}", key_of(link, end))
    };
    let ends: Vec<String> = nodes.iter().map(one).collect();
    Some(format!("addresses: {{{}}}", ends.join(", ")))
}
