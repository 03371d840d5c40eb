//! Records of Mininet's scripts. What the stand-in records is tested by python3 beside its package, in `tests/e2e`.

use netloom_foreign::{Memory, Verdict};

use super::labs::{files, imported, plan, verdict};

/// A record with a host, a switch, and these entries of controllers and links beside them.
fn record(switch: &str, controllers: &str, links: &str) -> Memory {
    let text = format!(
        r#"{{"netloom-mininet-record": 1, "script": "a.py",
        "hosts": [{{"name": "h1", "kind": "host", "line": 3, "params": {{"ip": "10.0.0.1/8", "cls": "Host"}}}}],
        "switches": [{{"name": "s7", "line": 4, "dpid": "7", {switch}}}],
        "controllers": [{controllers}], "links": [{links}],
        "commands": [], "calls": [], "options": {{"line": 7}}}}"#
    );
    Memory::of("a.json", text.as_str())
}

const OPEN: &str = r#""kind": "openflow", "params": {"cls": "OVSSwitch", "failMode": "secure"}"#;

fn link(line: u32, params: &str, ports: [u32; 2], outs: [&str; 2], notes: &str) -> String {
    let [host, switch] = ports;
    let [out1, out2] = outs;
    format!(
        r#"{{"node1": "h1", "node2": "s7", "line": {line}, "params": {{{params}}}, "notes": {{{notes}}},
        "ends": [{{"node": "h1", "name": "h1-eth{host}", "port": {host}, "out": {{{out1}}}}},
                 {{"node": "s7", "name": "s7-eth{switch}", "port": {switch}, "out": {{{out2}}}}}]}}"#
    )
}

#[test]
fn a_script_keeps_its_names_and_lines() {
    let import = imported(&files("mininet"), "router.json");
    let plan = plan(&import);
    let h1 = &plan.nodes[plan.node("h1").unwrap().get()];
    assert_eq!(h1.interfaces[0].name, "h1-eth0");
    assert_eq!(h1.interfaces[0].addresses[0].to_string(), "192.168.1.100/24");
    assert_eq!(h1.routes[0].via.unwrap().to_string(), "192.168.1.1");
    let at = import.items.iter().find(|item| item.item == "hosts.h1.ip").unwrap();
    assert_eq!((at.file.as_str(), at.line), ("router.py", 21));
    assert!(matches!(verdict(&import, "links.h1--s1.bw"), Verdict::Carried));
}

#[test]
fn a_controller_elsewhere_makes_openflow_switches() {
    let switch = r#""kind": "openflow", "params": {"cls": "OVSSwitch", "protocols": "OpenFlow13"}"#;
    let controller = r#"{"name": "c0", "kind": "remote", "line": 5, "params": {"cls": "Mine", "ip": "127.0.0.1", "port": 6633}}"#;
    let plain = link(6, r#""cls": "Link", "bw": 10"#, [0, 1], ["", ""], "");
    let import = imported(&record(switch, controller, &plain), "a.json");
    let want = "kind: openflow, controllers: [\"host:6633\"], datapath: \"0x7\", versions: [1.3]";
    assert!(import.lab.contains(want), "{}", import.lab);
    assert!(matches!(verdict(&import, "links.h1--s7.bw"), Verdict::LeftOut(_)));
}

// Mininet 2.3.0: without a controller Open vSwitch in fail mode secure forwards what its entries say.
#[test]
fn without_a_controller_nothing_is_forwarded_until_an_entry_says_so() {
    let plain = link(6, r#""cls": "Link""#, [0, 1], ["", ""], "");
    let import = imported(&record(OPEN, "", &plain), "a.json");
    assert!(
        import.lab.contains("kind: openflow, datapath: \"0x7\", fail: secure"),
        "{}",
        import.lab
    );
    let alone = r#""kind": "openflow", "params": {"cls": "OVSSwitch", "failMode": "standalone"}"#;
    let import = imported(&record(alone, "", &plain), "a.json");
    assert!(import.lab.contains("s7: {}"), "{}", import.lab);
}

// Mininet 2.3.0: a datapath id is the first number in the name (findings/mininet-equal-datapath-ids.sh). A lab of netloom
// refuses two equal ones.
#[test]
fn switches_of_one_number_have_datapath_ids_of_their_own() {
    let open = r#""cls": "OVSSwitch", "failMode": "secure""#;
    let switch = |name: &str, dpid: &str, params: &str| {
        format!(
            r#"{{"name": "{name}", "kind": "openflow", "dpid": "{dpid}", "line": 4, "params": {{{params}}}}}"#
        )
    };
    let switches = [
        switch("core1", "0000000000000001", open),
        switch("edge1", "0000000000000001", open),
        switch("edge2", "2", open),
        switch("far", "1", &format!(r#"{open}, "dpid": "1""#)),
    ];
    let text = format!(
        r#"{{"netloom-mininet-record": 1, "script": "a.py", "hosts": [], "controllers": [], "links": [],
        "switches": [{}], "commands": [], "calls": [], "options": {{"line": 7}}}}"#,
        switches.join(", ")
    );
    let import = imported(&Memory::of("a.json", text.as_str()), "a.json");
    plan(&import);
    for (switch, keys) in [
        ("core1", "datapath: \"0x1\", fail: secure"),
        ("edge1", "fail: secure"),
        ("edge2", "datapath: \"0x2\", fail: secure"),
        ("far", "fail: secure"),
    ] {
        let want = format!("{switch}: {{kind: openflow, {keys}}}");
        assert!(import.lab.contains(&want), "{want} in {}", import.lab);
    }
    assert!(matches!(verdict(&import, "switches.core1.cls"), Verdict::Carried));
    for item in ["switches.edge1.cls", "switches.far.dpid"] {
        let Verdict::Changed(why) = verdict(&import, item) else { panic!("{item} is not told") };
        assert!(why.contains("\"core1\""), "{why}");
    }
    assert!(matches!(verdict(&import, "switches.far.cls"), Verdict::Carried));
}

// Mininet 2.3.0: the next port is the number of ports, and a port that the script numbers has its number.
#[test]
fn ports_of_openflow_switches_have_mininets_numbers() {
    let links = [
        link(6, r#""cls": "Link""#, [0, 2], ["", ""], ""),
        link(7, r#""cls": "Link""#, [1, 1], ["", ""], ""),
        link(8, r#""cls": "Link", "port2": 88"#, [2, 88], ["", ""], ""),
    ];
    let import = imported(&record(OPEN, "", &links.join(", ")), "a.json");
    let plan = plan(&import);
    let given = plan.links.iter().flat_map(|link| &link.ends);
    let given: Vec<u32> = given.filter_map(|end| end.given_number()).collect();
    assert_eq!(given, [2, 1, 88], "{}", import.lab);
    for item in ["links.h1--s7#3.port2", "links.h1--s7.cls"] {
        assert_eq!(verdict(&import, item), Verdict::Carried);
    }
    // No number where the order of the links says it, and none that no port can have.
    let plain = link(6, r#""cls": "Link""#, [0, 1], ["", ""], "");
    assert!(!imported(&record(OPEN, "", &plain), "a.json").lab.contains("port:"));
    let wrong = link(6, r#""cls": "Link", "port2": 70000"#, [0, 70000], ["", ""], "");
    let import = imported(&record(OPEN, "", &wrong), "a.json");
    let Verdict::Changed(why) = verdict(&import, "links.h1--s7.port2") else { panic!() };
    assert_eq!(why, "port number 70000 is not free or out of range; it has another");
}

#[test]
fn each_end_does_what_mininet_has_it_do() {
    let shaped = link(
        6,
        r#""cls": "TCLink", "bw": 10, "jitter": "1ms", "max_queue_size": 0"#,
        [0, 1],
        [r#""rate": 10000000, "jitter": 1000.0"#, r#""queue": 0"#],
        "",
    );
    let ignored = link(
        7,
        r#""cls": "TCLink", "bw": 1500"#,
        [1, 2],
        ["", ""],
        r#""bw": "Mininet ignores it""#,
    );
    let import = imported(&record(OPEN, "", &[shaped, ignored].join(", ")), "a.json");
    let ways = "a: {rate: 10mbit, jitter: 1ms uniform}, b: {loss: 100%}";
    assert!(import.lab.contains(ways), "{}", import.lab);
    // sch_netem's limit counts what is delayed, too (Mininet 2.3.0, `TCIntf.delayCmds`).
    for (words, does, way) in [
        ("\"delay\": \"5ms\"", "\"delay\": 5000.0", "delay: 5ms, limit: 50"),
        ("\"bw\": 10", "\"rate\": 10000000", "rate: 10mbit, queue: 50"),
        (
            "\"bw\": 10, \"delay\": \"5ms\"",
            "\"rate\": 10000000, \"delay\": 5000.0",
            "rate: 10mbit, delay: 5ms, queue: 50, limit: 50",
        ),
    ] {
        let given = format!("\"cls\": \"TCLink\", {words}, \"max_queue_size\": 50");
        let does = format!("{does}, \"queue\": 50");
        let one = link(6, &given, [0, 1], [does.as_str(), does.as_str()], "");
        let import = imported(&record(OPEN, "", &one), "a.json");
        assert!(import.lab.contains(way), "{}", import.lab);
        assert_eq!(verdict(&import, "links.h1--s7.max_queue_size"), Verdict::Carried);
    }
    let changed = |item: &str| matches!(verdict(&import, item), Verdict::Changed(_));
    assert!(changed("links.h1--s7.max_queue_size"));
    // netem delays by what is above nothing: about half of the packets.
    assert_eq!(verdict(&import, "links.h1--s7.jitter"), Verdict::Carried);
    assert_eq!(
        verdict(&import, "links.h1--s7#2.bw"),
        Verdict::Changed("Mininet ignores it".into())
    );
}

#[test]
fn a_nat_of_mininet_is_a_door() {
    let record = r#"{"netloom-mininet-record": 1, "script": "a.py",
        "hosts": [{"name": "h1", "kind": "host", "line": 3, "default": "via 10.0.0.2", "params": {"ip": "10.0.0.1/8", "cls": "Host"}},
                  {"name": "nat0", "kind": "nat", "line": 4, "params": {"ip": "10.0.0.2/8", "cls": "NAT"}}],
        "switches": [{"name": "s1", "kind": "learning", "line": 5, "params": {"cls": "OVSBridge"}}], "controllers": [],
        "links": [{"node1": "h1", "node2": "s1", "line": 6, "params": {"cls": "Link"}, "notes": {},
                   "ends": [{"node": "h1", "name": "h1-eth0", "port": 0, "address": "10.0.0.1/8"}, {"node": "s1", "name": "s1-eth1", "port": 1}]},
                  {"node1": "nat0", "node2": "s1", "line": 7, "params": {"cls": "Link"}, "notes": {},
                   "ends": [{"node": "nat0", "name": "nat0-eth0", "port": 0, "address": "10.0.0.2/8"}, {"node": "s1", "name": "s1-eth2", "port": 2}]}],
        "commands": [], "calls": [], "options": {"line": 8}}"#;
    let import = imported(&Memory::of("a.json", record), "a.json");
    let plan = plan(&import);
    assert_eq!(plan.nodes.len(), 1);
    assert_eq!(plan.nodes[0].routes[0].via.unwrap().to_string(), "10.0.0.2");
    assert!(import.lab.contains("addresses: {internet: [\"10.0.0.2/8\"]}"), "{}", import.lab);
}

// Mininet 2.3.0, case 105 of `cargo xtask oracles mininet`: a default route over an interface whose address a command gives.
#[test]
fn a_default_route_over_an_interface_stays_where_a_command_gives_its_address() {
    let record = r#"{"netloom-mininet-record": 1, "script": "a.py",
        "hosts": [{"name": "h1", "kind": "host", "line": 3, "params": {"ip": "10.0.1.1/24", "cls": "Host"}},
                  {"name": "h2", "kind": "host", "line": 4, "default": "dev h2-eth0", "params": {"ip": "10.0.0.2/8", "defaultRoute": "dev h2-eth0", "cls": "Host"}}],
        "switches": [{"name": "s1", "kind": "learning", "line": 5, "params": {"cls": "OVSBridge", "stp": true}}], "controllers": [],
        "links": [{"node1": "h1", "node2": "s1", "line": 6, "params": {"cls": "Link"}, "notes": {},
                   "ends": [{"node": "h1", "name": "h1-eth0", "port": 0, "address": "10.0.1.1/24"}, {"node": "s1", "name": "s1-eth1", "port": 1}]},
                  {"node1": "h2", "node2": "h1", "line": 7, "params": {"cls": "Link"}, "notes": {},
                   "ends": [{"node": "h2", "name": "h2-eth1", "port": 1, "address": "10.0.8.5/24"}, {"node": "h1", "name": "h1-eth1", "port": 1}]},
                  {"node1": "h2", "node2": "s1", "line": 7, "params": {"cls": "Link"}, "notes": {},
                   "ends": [{"node": "h2", "name": "h2-eth0", "port": 0, "address": "10.0.0.2/8"}, {"node": "s1", "name": "s1-eth2", "port": 2}]}],
        "commands": [], "calls": [], "options": {"line": 8}}"#;
    let import = imported(&Memory::of("a.json", record), "a.json");
    let plan = plan(&import);
    let setup = &plan.nodes[plan.node("h2").unwrap().get()].setup;
    let has = |text: &str| setup.iter().any(|words| words.join(" ").contains(text));
    assert!(has("ip address add 10.0.0.2/8 dev h2-eth0"), "{}", import.lab);
    assert!(has("ip -4 route replace default dev h2-eth0"), "{}", import.lab);
    // `stp=True` of Open vSwitch's bridges and those of Linux.
    assert!(import.lab.contains("s1: {stp: true}"), "{}", import.lab);
    assert_eq!(verdict(&import, "switches.s1.stp"), Verdict::Carried);
}

#[test]
fn a_host_and_a_switch_of_other_names_keep_links_and_settings() {
    let text = r#"{"netloom-mininet-record": 1, "script": "a.py",
        "hosts": [{"name": "h@2", "kind": "host", "line": 3, "default": "via 10.0.0.9",
                   "params": {"ip": "10.0.0.1/8", "cls": "CPULimitedHost", "cpu": 0.5}},
                  {"name": "h-2", "kind": "host", "line": 4, "params": {}}],
        "switches": [{"name": "s@1", "kind": "learning", "line": 5, "params": {}}],
        "controllers": [], "calls": [], "options": {"line": 9},
        "links": [{"node1": "h@2", "node2": "s@1", "line": 6, "params": {}, "notes": {},
            "ends": [{"node": "h@2", "name": "h2-eth0", "address": "10.0.0.1/8"},
                     {"node": "s@1", "name": "s1-eth1", "port": 1}]}],
        "commands": [{"node": "h@2", "command": "sysctl -w net.ipv4.tcp_ecn=1", "line": 7}]}"#;
    let import = imported(&Memory::of("a.json", text), "a.json");
    let plan = plan(&import);
    assert_eq!(
        plan.nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>(),
        ["h-2", "h-2-2"]
    );
    let h = &plan.nodes[0];
    assert_eq!(h.interfaces[0].name, "h2-eth0");
    assert_eq!(h.interfaces[0].addresses[0].to_string(), "10.0.0.1/8");
    assert_eq!((h.limits.cpu_milli, h.setup.len()), (Some(500), 1));
    assert_eq!(h.routes[0].via.unwrap().to_string(), "10.0.0.9");
    assert_eq!(plan.end_text(&plan.links[0].ends[1]), "s-1");
    assert_eq!(verdict(&import, "hosts.h@2.ip"), Verdict::Carried);
}
