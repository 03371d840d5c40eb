//! No item of a file is dropped silently: every key, line and file is in the account, and what is added to a lab that no
//! reader knows turns up as left out.

use netloom_config::{Kind, Node, Report};
use netloom_foreign::{Import, Memory, Verdict};

use super::labs::{LABS, files, imported};

/// The key that no reader knows.
const STRANGER: &str = "zz-stranger";

fn strangers(import: &Import) -> usize {
    let strange = import.items.iter().filter(|item| item.item.contains(STRANGER));
    // A variable of the environment may have any name.
    let said = |item: &&netloom_foreign::Item| {
        item.verdict != Verdict::Carried || item.item.ends_with("env.zz-stranger")
    };
    strange.filter(said).count()
}

fn tree(bytes: &[u8]) -> Node {
    let mut report = Report::new("f");
    netloom_config::load(bytes, &mut report).unwrap()
}

/// How many maps are in a tree, those without keys aside.
fn maps(node: &Node) -> usize {
    match &node.kind {
        Kind::Seq(items) => items.iter().map(maps).sum(),
        Kind::Map(entries) if !entries.is_empty() => {
            1 + entries.iter().map(|entry| maps(&entry.value)).sum::<usize>()
        }
        _ => 0,
    }
}

/// A tree as JSON, with a key more in its map of a number.
fn with_stranger(node: &Node, left: &mut usize, out: &mut String) {
    match &node.kind {
        Kind::Seq(items) => {
            out.push('[');
            for (n, item) in items.iter().enumerate() {
                out.push_str(if n > 0 { ", " } else { "" });
                with_stranger(item, left, out);
            }
            out.push(']');
        }
        Kind::Map(entries) => {
            out.push('{');
            if !entries.is_empty() {
                if *left == 0 {
                    out.push_str(&format!("\"{STRANGER}\": 1, "));
                }
                *left = left.wrapping_sub(1);
            }
            for (n, entry) in entries.iter().enumerate() {
                out.push_str(if n > 0 { ", " } else { "" });
                out.push_str(&format!("{:?}: ", entry.key));
                with_stranger(&entry.value, left, out);
            }
            out.push('}');
        }
        Kind::Str => out.push_str(&format!("{:?}", node.text)),
        Kind::Null => out.push_str("null"),
        _ => out.push_str(&node.text),
    }
}

#[test]
fn every_key_of_yaml_and_json_is_in_the_account() {
    for (folder, main) in LABS.iter().filter(|(_, main)| is_tree(main)) {
        let memory = files(folder);
        let tree = tree(&memory.0[*main]);
        for at in 0..maps(&tree) {
            let mut text = String::new();
            with_stranger(&tree, &mut at.clone(), &mut text);
            assert!(text.contains(STRANGER));
            let import = imported(&memory.clone().with(main, text.as_str()), main);
            assert!(strangers(&import) > 0, "{main}: map {at}: {text}");
        }
    }
}

fn is_tree(main: &str) -> bool {
    [".clab.yml", ".gns3", "topology.yml"].iter().any(|end| main.ends_with(end))
        || main == "ring.imn"
}

#[test]
fn every_leaf_has_exactly_one_line() {
    fn leaves(node: &Node) -> usize {
        match &node.kind {
            Kind::Seq(items) if !items.is_empty() => items.iter().map(leaves).sum(),
            Kind::Map(entries) if !entries.is_empty() => {
                entries.iter().map(|entry| leaves(&entry.value)).sum()
            }
            _ => 1,
        }
    }
    for (folder, main) in LABS.iter().filter(|(_, main)| is_tree(main)) {
        let memory = files(folder);
        let import = imported(&memory, main);
        let own = import.items.iter().filter(|item| item.file == *main && item.line > 0);
        // Variables, and lines of a script within the file, are items beside the leaves.
        let beside = ["$", "set ", "ip ", "dhcp"];
        let own = own.filter(|item| !beside.iter().any(|start| item.item.starts_with(start)));
        assert_eq!(own.count(), leaves(&tree(&memory.0[*main])), "{main}");
    }
}

#[test]
fn every_attribute_and_element_of_xml_is_in_the_account() {
    for (folder, main) in LABS.iter().filter(|(_, main)| main.ends_with(".xml")) {
        let text = String::from_utf8(files(folder).0[*main].clone()).unwrap();
        let starts: Vec<usize> = text
            .match_indices('<')
            .map(|(at, _)| at + 1)
            .filter(|at| text[*at..].starts_with(|c: char| c.is_ascii_alphabetic()))
            .collect();
        assert!(starts.len() > 30);
        for at in starts {
            let end = at + text[at..].find([' ', '>', '/']).unwrap();
            let with = format!("{} {STRANGER}='1'{}", &text[..end], &text[end..]);
            let import = imported(&Memory::of(main, with.as_str()), main);
            assert!(strangers(&import) > 0, "{main}: {}", &text[at - 1..end]);
        }
    }
}

#[test]
fn every_line_and_file_of_kathara_is_in_the_account() {
    LABS.iter()
        .filter(|(_, main)| *main == "lab.conf")
        .for_each(|(folder, _)| each_line_of(folder));
    let memory = files("kathara");
    let with =
        memory.with(&format!("pc1/{STRANGER}"), "x").with(&format!("{STRANGER}.startup"), "");
    let import = imported(&with, "lab.conf");
    let strange: Vec<String> = import
        .items
        .iter()
        .filter(|item| item.file.contains(STRANGER))
        .map(ToString::to_string)
        .collect();
    let found = [
        "pc1/zz-stranger: a file of a device: carried",
        "zz-stranger.startup: a file: left out: of no device of the lab",
    ];
    assert_eq!(strange, found);
}

fn each_line_of(folder: &str) {
    let memory = files(folder);
    let import = imported(&memory, "lab.conf");
    for (path, content) in &memory.0 {
        let text = String::from_utf8_lossy(content);
        let of_file = import.items.iter().filter(|item| item.file == *path);
        let lines: Vec<u32> = of_file.clone().map(|item| item.line).collect();
        if ["lab.conf", "lab.dep"].contains(&path.as_str()) {
            for (number, line) in (1..).zip(text.lines()) {
                let said = lines.contains(&number);
                assert_eq!(
                    said,
                    !line.trim().is_empty() && !line.starts_with('#'),
                    "{path}:{number}"
                );
            }
        } else {
            assert!(lines.contains(&0), "{folder}/{path}");
        }
    }
}

#[test]
fn every_word_of_a_classic_network_is_in_the_account() {
    for main in ["classic.imn", "ping.imn"] {
        let memory = files("imunes");
        let text = String::from_utf8(memory.0[main].clone()).unwrap();
        let import = imported(&memory, main);
        for (number, line) in (1..).zip(text.lines()) {
            let word = line.trim();
            let is_whole = ["canvas c", "option"].iter().any(|start| word.starts_with(start));
            let silent = ["", "}", "!"].contains(&word) || word.ends_with('{') && !is_whole;
            let inner = ["name {", "interface_names", "ip_addresses", "zoom"];
            let inner = inner.iter().any(|start| word.starts_with(start));
            let said = import.items.iter().any(|item| item.line == number);
            assert_eq!(said, !silent && !inner, "{main}:{number}: {line}");
        }
    }
}

#[test]
fn every_parameter_of_a_script_is_in_the_account() {
    let memory = files("mininet");
    let record = String::from_utf8(memory.0["router.json"].clone()).unwrap();
    let with = record.replace("\"params\": {", &format!("\"params\": {{\n\"{STRANGER}\": 1,"));
    let count = record.matches("\"params\": {").count();
    let import = imported(&Memory::of("router.json", with.as_str()), "router.json");
    assert_eq!(strangers(&import), count);
}
