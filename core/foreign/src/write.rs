//! The text of a lab file from a draft. Texts are quoted wherever YAML could take them for something else.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use netloom_config::printable;

use crate::draft::{Bind, Content, Draft, End, File, Link, Node, Program, Route, Switch};

/// The lab file. `from` is what it was made of, in words; `base` stands before paths of files.
pub(crate) fn write(draft: &Draft, from: &str, base: &str) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "# Made by `netloom import` from {}.", printable::line(from));
    let _ = writeln!(out, "name: {}", scalar(&draft.name));
    if !draft.routed {
        out.push_str("routing: none\n");
    }
    if draft.without_ipv6 {
        out.push_str("pool: {ipv6: none}\n");
    }
    out.push_str(if draft.nodes.is_empty() { "nodes: {}\n" } else { "nodes:\n" });
    for node in &draft.nodes {
        write_node(&mut out, node, base);
    }
    if !draft.switches.is_empty() {
        out.push_str("switches:\n");
        draft.switches.iter().for_each(|switch| write_switch(&mut out, switch));
    }
    if !draft.links.is_empty() {
        out.push_str("links:\n");
        draft.links.iter().for_each(|link| write_link(&mut out, link, draft.routed));
    }
    out
}

fn write_node(out: &mut String, node: &Node, base: &str) {
    let mut body = String::new();
    for (key, value) in &node.keys {
        let _ = writeln!(body, "    {key}: {value}");
    }
    if let Some(families) = node.forwarding {
        let _ = writeln!(body, "    forwarding: {families}");
    }
    write_texts(&mut body, "env", &node.env);
    write_texts(&mut body, "sysctls", &node.sysctls);
    if !node.files.is_empty() {
        body.push_str("    files:\n");
        node.files.iter().for_each(|file| write_file(&mut body, file, base));
    }
    if !node.binds.is_empty() {
        body.push_str("    binds:\n");
        node.binds.iter().for_each(|bind| write_bind(&mut body, bind, base));
    }
    if !node.ports.is_empty() {
        let ports: Vec<String> = node.ports.iter().map(|port| quoted(&port.to_string())).collect();
        let _ = writeln!(body, "    ports: [{}]", ports.join(", "));
    }
    if !node.setup.is_empty() {
        body.push_str("    setup:\n");
        for command in &node.setup {
            let _ = writeln!(body, "      - {}", list(command));
        }
    }
    if !node.run.is_empty() {
        body.push_str("    run:\n");
        node.run.iter().for_each(|program| write_program(&mut body, program));
    }
    if !node.exec.is_empty() {
        body.push_str("    exec:\n");
        for command in &node.exec {
            let _ = writeln!(body, "      - {{command: {}, fatal: false}}", list(command));
        }
    }
    if !node.routes.is_empty() {
        body.push_str("    routes:\n");
        node.routes.iter().for_each(|route| write_route(&mut body, route));
    }
    let name = scalar(&node.name);
    let _ = match body.is_empty() {
        true => writeln!(out, "  {name}: {{}}"),
        false => write!(out, "  {name}:\n{body}"),
    };
}

fn write_texts(out: &mut String, key: &str, texts: &BTreeMap<String, String>) {
    if texts.is_empty() {
        return;
    }
    let _ = writeln!(out, "    {key}:");
    for (name, value) in texts {
        let _ = writeln!(out, "      {}: {}", scalar(name), quoted(value));
    }
}

fn write_file(out: &mut String, file: &File, base: &str) {
    let content = match &file.content {
        Content::Text(text) => format!("text: {}", quoted(text)),
        Content::From(path) => format!("from: {}", scalar(&host_path(path, base))),
    };
    let mode = match file.mode {
        0o644 => String::new(),
        mode => format!(", mode: \"{mode:04o}\""),
    };
    let _ = writeln!(out, "      {}: {{{content}{mode}}}", scalar(&file.path));
}

/// A path of the host from where the lab file is.
fn host_path(path: &str, base: &str) -> String {
    match path.starts_with('/') || base.is_empty() {
        true => path.to_owned(),
        false => format!("{base}/{path}"),
    }
}

fn write_bind(out: &mut String, bind: &Bind, base: &str) {
    let access = if bind.writable { ", access: rw" } else { "" };
    let from = scalar(&host_path(&bind.from, base));
    let _ = writeln!(out, "      {}: {{from: {from}{access}}}", scalar(&bind.path));
}

fn write_program(out: &mut String, program: &Program) {
    if program.keys.is_empty() {
        let _ = writeln!(out, "      - {}", list(&program.command));
        return;
    }
    let _ = writeln!(out, "      - command: {}", list(&program.command));
    for (key, value) in &program.keys {
        let _ = writeln!(out, "        {key}: {value}");
    }
}

fn write_route(out: &mut String, route: &Route) {
    let mut body = format!("to: {}", scalar(&route.to));
    for (key, value) in [("via", &route.via), ("dev", &route.dev)] {
        if let Some(value) = value {
            let _ = write!(body, ", {key}: {}", scalar(value));
        }
    }
    let _ = writeln!(out, "      - {{{body}}}");
}

fn write_switch(out: &mut String, switch: &Switch) {
    let _ = writeln!(out, "  {}: {{{}}}", scalar(&switch.name), pairs(&switch.keys));
}

fn pairs(keys: &[(&'static str, String)]) -> String {
    let pairs: Vec<String> = keys.iter().map(|(key, value)| format!("{key}: {value}")).collect();
    pairs.join(", ")
}

fn shown(end: &End) -> String {
    match &end.iface {
        Some(iface) => scalar(&format!("{}:{iface}", end.at)),
        None => scalar(&end.at),
    }
}

/// How an end is named in the maps of a link: in full where both ends are at one node.
fn key_of(link: &Link, end: &End) -> String {
    let same = link.ends[0].at == link.ends[1].at;
    if same { shown(end) } else { scalar(&end.at) }
}

fn write_link(out: &mut String, link: &Link, routed: bool) {
    let mut parts = vec![format!("ends: [{}, {}]", shown(&link.ends[0]), shown(&link.ends[1]))];
    parts.extend(addresses(link, routed));
    let mac = |end: &End| Some(format!("{}: {}", key_of(link, end), quoted(end.mac.as_ref()?)));
    let macs: Vec<String> = link.ends.iter().filter_map(mac).collect();
    if !macs.is_empty() {
        parts.push(format!("mac: {{{}}}", macs.join(", ")));
    }
    parts.extend(link.mtu.map(|mtu| format!("mtu: {mtu}")));
    let [both, first, second] = &link.impairments;
    parts.extend(both.iter().map(|(key, value)| format!("{key}: {value}")));
    for (key, way) in [("a", first), ("b", second)] {
        if !way.is_empty() {
            parts.push(format!("{key}: {{{}}}", pairs(way)));
        }
    }
    let _ = writeln!(out, "  - {{{}}}", parts.join(", "));
}

/// Addresses by end; an end without any has none, because other programs make none up.
fn addresses(link: &Link, routed: bool) -> Option<String> {
    let has_some = |end: &&End| end.iface.is_some() || !end.addresses.is_empty();
    let nodes: Vec<&End> = link.ends.iter().filter(has_some).collect();
    if nodes.is_empty() || (routed && nodes.iter().all(|end| end.addresses.is_empty())) {
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

/// A list of texts on one line.
pub(crate) fn list(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| scalar(text)).collect();
    format!("[{}]", texts.join(", "))
}

/// A text, quoted unless nobody can take it for anything else.
pub(crate) fn scalar(text: &str) -> String {
    let starts = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/' || c == '_');
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    let word = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"]
        .contains(&text.to_ascii_lowercase().as_str());
    if starts && text.chars().all(plain) && !word { text.to_owned() } else { quoted(text) }
}

/// A text in double quotes.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if (c as u32) < 0x20 || (0x7f..0xa0).contains(&(c as u32)) => {
                let _ = write!(out, "\\x{:02x}", c as u32);
            }
            '\u{2028}' | '\u{2029}' | '\u{feff}' => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_that_mean_something_are_quoted() {
        for (text, shown) in [
            ("eth0", "eth0"),
            ("no", "\"no\""),
            ("True", "\"True\""),
            ("1.5", "\"1.5\""),
            ("", "\"\""),
            ("-n", "\"-n\""),
            ("a: b", "\"a: b\""),
            ("/srv/a.txt", "/srv/a.txt"),
        ] {
            assert_eq!(scalar(text), shown);
        }
    }

    proptest! {
        #[test]
        fn texts_come_back(text in "\\PC*|[\u{0}-\u{a0}\u{2028}\u{feff}]{0,8}") {
            for shown in [scalar(&text), quoted(&text)] {
                let mut report = netloom_config::Report::new("f");
                let file = format!("k: [{shown}]\n");
                let node = netloom_config::load(file.as_bytes(), &mut report);
                if !text.contains('\0') {
                    let node = node.expect("valid YAML");
                    let item = &node.get("k").unwrap().items().unwrap()[0];
                    prop_assert_eq!(netloom_config::read::scalar(item), Some(text.as_str()));
                }
            }
        }
    }
}
