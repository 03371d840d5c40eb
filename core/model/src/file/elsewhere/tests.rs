//! Everything suggested is valid.

use super::*;
use crate::file::table::Object;
use crate::keys::{
    DIRECTION, FILE as FILE_KEYS, LAB as LAB_KEYS, LIMITS as LIMITS_KEYS, LINK as LINK_KEYS,
    NODE as NODE_KEYS, PROGRAM as PROGRAM_KEYS, READY as READY_KEYS, ROUTE as ROUTE_KEYS,
    SWITCH as SWITCH_KEYS,
};
use crate::kinds::shm::keys::PORT_OF_SWITCH;

const TABLES: &[(&Object, Words)] = &[
    (&LAB_KEYS, LAB),
    (&NODE_KEYS, NODE),
    (&SWITCH_KEYS, SWITCH),
    (&LINK_KEYS, LINK),
    (&LINK_KEYS, FRAMES),
    (&DIRECTION, FRAMES),
    (&LIMITS_KEYS, LIMITS),
    (&ROUTE_KEYS, ROUTE),
    (&PROGRAM_KEYS, PROGRAM),
    (&READY_KEYS, READY),
    (&FILE_KEYS, FILE),
    (&PORT_OF_SWITCH, PORT),
];

#[test]
fn every_table_is_found_and_leads_to_keys_that_are_there() {
    for (object, words) in TABLES {
        for (names, instead) in *words {
            assert!(names.iter().all(|name| find(object.name, name).is_some()), "{}", object.name);
            if let Key(key) | Within(key, _) = instead {
                assert!(object.names().any(|name| name == *key), "{}: {key}", object.name);
            }
        }
    }
}

/// The help for the first unknown key of a lab file.
fn offered(text: &str) -> String {
    let errors = crate::parse("f", text.as_bytes(), "f").unwrap_err();
    errors.list[0].help.clone().unwrap_or_default()
}

#[test]
fn a_file_that_is_followed_word_by_word_becomes_good() {
    let wrong = "nodes:\n  a: {exec: [ip link set lo up, \"sysctl -w net.ipv4.ip_forward=1\"], \
                 cpus: 0.5, mem: 256m}\n  b: {}\n\
                 links:\n  - {endpoints: [\"a:eth1\", \"b:eth1\"], latency: 20, bw: 10, packet_loss: 5}\n";
    let mut text = wrong.to_owned();
    for (key, old) in [
        ("cpus", "cpus: 0.5"),
        ("mem", "mem: 256m"),
        ("endpoints", "endpoints: [\"a:eth1\", \"b:eth1\"]"),
        ("latency", "latency: 20"),
        ("bw", "bw: 10"),
        ("packet_loss", "packet_loss: 5"),
    ] {
        let help = offered(&text);
        let new = help.strip_prefix("write ").unwrap_or_else(|| panic!("{key}: {help}"));
        text = text.replace(old, new);
        // Two limits are one map.
        text = text.replace("}, limits: {", ", ");
    }
    let lab = crate::parse("f", text.as_bytes(), "f").unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!(lab.nodes[0].limits.memory, Some(256 << 20));
    assert_eq!(lab.nodes[0].exec[0].program.command, ["ip", "link", "set", "lo", "up"]);
    assert_eq!(lab.links[0].impairments[0].rate, Some(10_000_000));
}

#[test]
fn commands_and_files_are_shown_as_netloom_has_them() {
    let node = |more: &str| offered(&format!("nodes: {{a: {{{more}}}}}"));
    assert_eq!(
        node("startup: python3 -m http.server 80"),
        "write run: [[python3, -m, http.server, 80]]"
    );
    assert_eq!(node("command: [sleep, infinity]"), "write run: [[sleep, infinity]]");
    assert_eq!(node("startup: \"echo a > /b\""), "write run: [[sh, -c, 'echo a > /b']]");
    assert_eq!(node("args: {}"), "write run: [[PROGRAM, ARGUMENT], ...]");
    assert!(
        node("binds: [\"r1.conf:/etc/frr/frr.conf:ro\"]")
            .starts_with("write binds: {/etc/frr/frr.conf: r1.conf},")
    );
    assert!(node("startup-config: r1.cfg").starts_with("write binds: {/etc/app.conf: r1.cfg}"));
    assert!(node("mem_limit: {}").starts_with("write it as limits: {memory"));
}

#[test]
fn words_lead_to_the_keys_that_netloom_has() {
    let node = |more: &str| offered(&format!("nodes: {{a: {{{more}}}}}"));
    let of_program = "it belongs to a program: run: [{command: [PROGRAM]";
    for (key, word) in [
        ("user: nobody", "user: NAME"),
        ("group: daemon", "group: NAME"),
        ("working_dir: /srv", "workdir: /DIRECTORY"),
        ("stop_signal: SIGINT", "stop-signal: INT"),
    ] {
        let help = node(key);
        assert!(help.starts_with(of_program) && help.contains(word), "{key}: {help}");
    }
    assert_eq!(node("run: [{command: [x], working_dir: /srv}]"), "write workdir: /srv");
    assert!(node("cap_add: [SYS_ADMIN]").contains("privileged: true"));
    let switch = |more: &str| offered(&format!("nodes: {{a: {{}}}}\nswitches: {{s: {{{more}}}}}"));
    for (key, word) in [
        ("controller: c0", "controllers: tcp:ADDRESS"),
        ("protocols: OpenFlow13", "versions: [1.0, 1.3]"),
        ("dpid: 1", "datapath: 0x1"),
        ("failMode: secure", "fail: secure"),
    ] {
        // Also in a switch that is of this kind already.
        for kind in ["", "kind: openflow, "] {
            let help = switch(&format!("{kind}{key}"));
            assert!(help.starts_with("write kind: openflow and ") && help.contains(word), "{help}");
        }
    }
    assert_eq!(switch("rstp: true"), "write stp: true");
    for (protocol, keys) in [
        ("ospf", "ospf: true"),
        ("BGP", "bgp: {as: 65001}"),
        ("isis", "config: {isisd: FILE}"),
        ("rip", "config: {ripd: FILE}"),
    ] {
        let help = offered(&format!("nodes: {{a: {{}}}}\nrouting: {protocol}"));
        assert_eq!(help, format!("leave it out; in each router write kind: router and {keys}"));
        let keys = keys.replace("FILE", "r.conf");
        let text = format!("nodes: {{r: {{kind: router, {keys}}}}}");
        assert!(crate::parse("f", text.as_bytes(), "f").is_ok(), "{text}");
    }
}

#[test]
fn files_of_other_programs_are_known() {
    for (text, what) in [
        ("LAB_NAME=\"x\"\nr1[0]=\"A\"\n", Some("a lab.conf of Kathara")),
        ("# a lab\n\npc1[image]=\"kathara/base\"\n", Some("a lab.conf of Kathara")),
        ("#!/usr/bin/env python3\nprint()\n", Some("a Python script")),
        ("# x\nfrom mininet.topo import Topo\n", Some("a Python script")),
        ("<?xml version='1.0'?>\n", Some("an XML file")),
        ("nodes: {a: {}}\n", None),
        ("name: a=b\n", None),
        ("# only a comment\n", None),
        ("", None),
    ] {
        assert_eq!(whole_file(text.as_bytes()), what, "{text}");
    }
}
