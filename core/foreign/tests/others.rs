//! GNS3, CORE, IMUNES, and records of Mininet's scripts.

use netloom_foreign::{Format, Memory, Verdict, recognise};

use super::labs::{LABS, files, imported, plan, refused, verdict};

#[test]
fn whose_lab_it_is_is_seen_by_name_and_content() {
    for (folder, main) in LABS {
        let format = recognise(main, &files(folder).0[*main]).unwrap();
        let want = match *folder {
            _ if main.ends_with(".clab.yml") => Format::Containerlab,
            _ if *main == "lab.conf" => Format::Kathara,
            "gns3" => Format::Gns3,
            "core" => Format::Core,
            "imunes" => Format::Imunes,
            _ if *main == "topology.yml" => Format::Netlab,
            _ => Format::Mininet,
        };
        assert_eq!(format, want, "{main}");
    }
    for (name, text) in
        [("lab.yaml", "name: a\nnodes: {a: {}}\n"), ("x.xml", "<a/>"), ("x.json", "{}")]
    {
        assert_eq!(recognise(name, text.as_bytes()), None, "{name}");
    }
}

#[test]
fn a_project_of_gns3_has_its_addresses_and_filters() {
    let import = imported(&files("gns3"), "two.gns3");
    let plan = plan(&import);
    let address = |n: usize| plan.nodes[n].interfaces[0].addresses[0].to_string();
    assert_eq!((address(0), address(1)), ("10.1.1.1/24".into(), "10.1.1.2/24".into()));
    assert_eq!(plan.switches[0].name, "Switch-1");
    assert_eq!(plan.links[0].impairments[1].delay.as_millis(), 10);
    assert_eq!(plan.links.len(), 2);
    assert!(matches!(verdict(&import, "topology.nodes[3].node_type"), Verdict::LeftOut(_)));
}

#[test]
fn switches_of_gns3_have_their_vlans() {
    let import = imported(&files("gns3"), "vlans.gns3");
    let lines = [
        "Switch1: {kind: shm, ports: {\"PC1:eth0\": {vlan: 10}, \"PC2:eth0\": {vlan: 20}, \"Switch2\": {trunk: all, native: 1}, \"PC5:eth0\": {vlan: 1}}}",
        "Switch2: {kind: shm, ports: {\"Switch1\": {trunk: all, native: 1}, \"PC3:eth0\": {vlan: 10}, \"PC4:eth0\": {vlan: 20}}}",
    ];
    for line in lines {
        assert!(import.lab.contains(line), "{line}: {}", import.lab);
    }
    assert_eq!(import.left_out().count(), 0, "{:?}", import.left_out().collect::<Vec<_>>());
    let text = String::from_utf8(files("gns3").0["vlans.gns3"].clone()).unwrap();
    let text =
        text.replacen("\"dot1q\"", "\"qinq\"", 1).replacen("\"vlan\": 20", "\"vlan\": 5000", 1);
    let (before, port) = text.split_once("\"qinq\"").unwrap();
    let port = port.replacen("\"ethertype\": \"\"", "\"ethertype\": \"0x88A8\"", 1);
    let text = format!("{before}\"qinq\"{port}");
    let odd = imported(&Memory::of("vlans.gns3", text.as_str()), "vlans.gns3");
    let of =
        |n: u32| verdict(&odd, &format!("topology.nodes[5].properties.ports_mapping[{n}].vlan"));
    assert_eq!(of(1), Verdict::LeftOut("expected a VLAN from 1 to 4094".into()));
    assert_eq!(of(2), Verdict::Carried);
    let key = |n: u32, key: &str| {
        verdict(&odd, &format!("topology.nodes[5].properties.ports_mapping[{n}].{key}"))
    };
    assert_eq!((key(2, "type"), key(2, "ethertype")), (Verdict::Carried, Verdict::Carried));
    let port = "\"Switch2\": {qinq: 1, cvlans: all, tpid: 0x88a8}";
    assert!(odd.lab.contains(port), "{}", odd.lab);
    assert_eq!(of(4), Verdict::Changed("no link ends there".into()));
}

/// As `common/eth_switch.c` of Dynamips 0.2.23 has it: from one qinq port to another of its VLAN a tag is taken off.
#[test]
fn customers_of_gns3_have_their_tags() {
    let text = String::from_utf8(files("gns3").0["vlans.gns3"].clone()).unwrap();
    let text =
        text.replacen("\"access\"", "\"qinq\"", 2).replacen("\"vlan\": 20", "\"vlan\": 10", 1);
    let import = imported(&Memory::of("vlans.gns3", text.as_str()), "vlans.gns3");
    let line = "{\"PC1:eth0\": {qinq: 10, cvlans: all, tpid: 0x8100}, \"PC2:eth0\": {qinq: 10, cvlans: all, tpid: 0x8100}, ";
    assert!(import.lab.contains(line), "{}", import.lab);
    plan(&import);
    for n in 0..2 {
        let of = verdict(&import, &format!("topology.nodes[5].properties.ports_mapping[{n}].type"));
        let Verdict::Changed(why) = of else { panic!("{of:?}") };
        assert!(why.starts_with("frames between the qinq ports of VLAN 10 keep"), "{why}");
    }
}

#[test]
fn nat_of_gns3_is_a_door_with_addresses() {
    let import = imported(&files("gns3"), "nat.gns3");
    let plan = plan(&import);
    let node = |name: &str| &plan.nodes[plan.node(name).unwrap().get()];
    let address = |name: &str| node(name).interfaces[0].addresses[0].to_string();
    assert_eq!(address("PC1"), "192.168.122.100/24");
    assert_eq!(address("PC2"), "192.168.122.50/24");
    assert_eq!(address("PC3"), "192.168.123.100/24");
    for (name, gateway) in
        [("PC1", "192.168.122.1"), ("PC2", "192.168.122.1"), ("PC3", "192.168.123.1")]
    {
        assert_eq!(node(name).routes[0].via.unwrap().to_string(), gateway, "{name}");
    }
    for door in ["192.168.122.1/24", "192.168.123.1/24"] {
        let line = format!("internet: [\"{door}\"]");
        assert!(import.lab.contains(&line), "{line}: {}", import.lab);
    }
    // A node on no segment with a NAT keeps asking.
    assert!(matches!(verdict(&import, "dhcp"), Verdict::LeftOut(_)));
    let given = import.items.iter().filter(|item| item.item == "ip dhcp");
    assert!(
        given.clone().all(|item| matches!(item.verdict, Verdict::Changed(_))) && given.count() == 2
    );
}

// As CORE 9.2.1 writes it (`core/xml/corexml.py`).
#[test]
fn a_scenario_of_core_has_addresses_routes_and_options() {
    let import = imported(&files("core"), "office.xml");
    let plan = plan(&import);
    let node = |name: &str| &plan.nodes[plan.node(name).unwrap().get()];
    assert!(node("gate").forwarding.any());
    assert_eq!(node("pc").routes[0].via.unwrap().to_string(), "10.0.1.1");
    assert_eq!(node("pc").interfaces[0].mac, [0, 0, 0, 0xaa, 0, 1]);
    assert_eq!(plan.links[0].impairments[0].rate, Some(100_000_000));
    assert!(plan.switches.iter().all(|switch| switch.name != "air"));
}

// As IMUNES 3.0.0b writes them: JSON, and Tcl as before it (`loadCfgLegacy`).
#[test]
fn networks_of_imunes_have_routes_and_protocols() {
    let import = imported(&files("imunes"), "ring.imn");
    let lab = plan(&import);
    let node = |name: &str| &lab.nodes[lab.node(name).unwrap().get()];
    assert!(node("r0").files.iter().any(|file| file.path == "/etc/frr/frr.conf"));
    assert_eq!(node("r1").routes[0].to.to_string(), "10.0.1.0/24");
    assert_eq!(node("server").routes[0].via.unwrap().to_string(), "10.0.2.1");
    assert_eq!(lab.links[0].impairments[0].rate, Some(2_048_000));
    let classic = imported(&files("imunes"), "classic.imn");
    let lab = plan(&classic);
    let r0 = &lab.nodes[lab.node("r0").unwrap().get()];
    assert_eq!(r0.interfaces.iter().map(|i| i.name.as_str()).collect::<Vec<_>>(), ["eth0", "eth1"]);
    assert_eq!(r0.interfaces[1].addresses[0].to_string(), "10.0.1.1/24");
    assert!(import.lab.contains("router rip") && classic.lab.contains("router rip"));
}

// IMUNES before version 2 says of each interface where it leads; a file by hand may say it of some alone.
#[test]
fn an_interface_that_a_link_gets_is_no_other_link_s() {
    let node = |name: &str, peers: &str| {
        let config = format!("network-config {{\n hostname {name}\n }}");
        format!("node {name} {{\n type pc\n {config}\n {peers}\n}}\n")
    };
    let text = [
        node("n0", "interface-peer {eth1 n2}\n interface-peer {eth0 n3}"),
        node("n1", "interface-peer {eth0 n0}"),
        node("n2", "interface-peer {eth0 n0}"),
        node("n3", "interface-peer {eth0 n0}"),
        "link l0 {\n nodes {n0 n3}\n}\nlink l1 {\n nodes {n0 n1}\n}\nlink l2 {\n nodes {n0 n2}\n}\n"
            .to_owned(),
    ]
    .concat();
    let lab = plan(&imported(&Memory::of("a.imn", text.as_str()), "a.imn"));
    let ends: Vec<String> = lab.links.iter().map(|link| lab.end_text(&link.ends[0])).collect();
    assert_eq!(ends, ["n0:eth0", "n0:eth2", "n0:eth1"]);
}

#[test]
fn broken_files_are_refused_with_their_line() {
    for (name, text, want) in [
        ("a.gns3", "{\"name\": \"x\"}", "a.gns3:1: error: no `topology`"),
        ("a.gns3", "{\"topology\": {", "a.gns3:1:"),
        (
            "a.gns3",
            "{\"topology\": {\"nodes\": [{\"type\": \"VPCSDevice\"}]},\n\"revision\": 4}",
            "a.gns3:2: error: a project of GNS3 1.x",
        ),
        ("a.xml", "<scenario>\n<networks>\n</scenario>", "a.xml:3: error: not valid XML"),
        ("a.imn", "node n0 {\n", "a.imn:1: error: a brace is not closed"),
        ("a.imn", "nonsense n0 {}\n", "a.imn:1: error: \"nonsense\" is not a word of IMUNES"),
        ("a.imn", "node n0\n", "a.imn:1: error: expected WORD NAME"),
        ("a.yaml", "nodes: {}\n", "a.yaml: no lab of containerlab"),
    ] {
        let error = refused(name, text);
        assert!(error.starts_with(want), "{error}");
    }
}
