//! One item that the planner does not take never ends an import: it is carried by a command, changed or left out, and
//! told at its line. Beside it: what filters and options of links mean to gns3-server 2.2.61,
//! CORE 9.2.1 and IMUNES 3.0.0b.

use netloom_foreign::{Import, Memory, Options, Verdict, import};
use netloom_model::plan::{Plan, PlannedNode};

use super::labs::{imported, plan};

fn of(name: &str, text: &str) -> (Import, Plan) {
    let import = imported(&Memory::of(name, text), name);
    let plan = plan(&import);
    (import, plan)
}

fn node<'p>(plan: &'p Plan, name: &str) -> &'p PlannedNode {
    &plan.nodes[plan.node(name).unwrap().get()]
}

/// The verdict on the item in a line with a text in it.
fn at(import: &Import, line: u32, text: &str) -> Verdict {
    let found = import.items.iter().find(|item| item.line == line && item.item.contains(text));
    found.unwrap_or_else(|| panic!("{line} {text}: {:#?}", import.items)).verdict.clone()
}

fn changed(verdict: &Verdict, text: &str) {
    assert!(matches!(verdict, Verdict::Changed(why) if why.contains(text)), "{verdict:?}");
}

fn left_out(verdict: &Verdict, text: &str) {
    assert!(matches!(verdict, Verdict::LeftOut(why) if why.contains(text)), "{verdict:?}");
}

/// Two PCs of IMUNES 3.0.0b, in its form of Tcl, with lines in the first one's interface, and more in its node.
fn imunes(interface: &str, more: &str) -> String {
    format!(
        "node n0 {{\n    type pc\n    network-config {{\n\thostname one\n\t!\n\tinterface eth0\n{interface}\t!\n\
         {more}    }}\n    interface-peer {{eth0 n1}}\n}}\nnode n1 {{\n    type pc\n    network-config {{\n\
         \thostname two\n\t!\n\tinterface eth0\n\t ip address 10.54.0.2/24\n\t!\n    }}\n    \
         interface-peer {{eth0 n0}}\n}}\nlink l0 {{\n    nodes {{n0 n1}}\n}}\n"
    )
}

#[test]
fn a_gateway_off_the_segment_is_a_command() {
    let text = imunes("\t ip address 10.54.0.1/24\n", "\tip route 0.0.0.0/0 10.77.0.1\n");
    let (import, plan) = of("far.imn", &text);
    let one = node(&plan, "one");
    assert!(one.routes.is_empty());
    let last = one.setup.last().unwrap().join(" ");
    assert!(last.ends_with("ip -4 route replace default via 10.77.0.1"), "{last}");
    changed(&at(&import, 9, "ip route"), "no segment of the node has its next hop");
}

/// IMUNES 3.0.0b (`nodecfg.tcl`): a route of its own may have a distance.
#[test]
fn a_route_of_imunes_may_have_a_distance() {
    let lines = "\t ip address 10.54.0.1/24\n";
    let (import, plan) = of("d.imn", &imunes(lines, "\tip route 10.9.0.0/16 10.54.0.2 5\n"));
    assert_eq!(node(&plan, "one").routes[0].to.to_string(), "10.9.0.0/16");
    assert_eq!(import.left_out().count(), 0);
}

#[test]
fn a_next_hop_in_a_prefix_that_a_command_gives_is_reached() {
    let lines = "\t ip address 10.54.0.1/24\n\t ip address 10.77.0.2/24\n";
    let (_, plan) = of("second.imn", &imunes(lines, "\tip route 0.0.0.0/0 10.77.0.1\n"));
    let setup: Vec<String> = node(&plan, "one").setup.iter().map(|c| c.join(" ")).collect();
    assert_eq!(
        setup,
        ["ip address add 10.77.0.2/24 dev eth0", "ip -4 route replace default via 10.77.0.1"]
    );
}

#[test]
fn addresses_that_no_link_takes_are_commands() {
    for (given, why) in [
        ("10.54.0.2/24", "two:eth0 has it, too"),
        ("10.54.0.0/24", "it is the network's own"),
        ("10.54.0.255/24", "it is the broadcast address"),
        ("10.54.0.9/32", "its prefix is that address alone"),
        ("224.0.0.1/24", "it is not a host's address"),
        ("10.99.0.1/24", "its segment has 10.54.0.0/24"),
    ] {
        // The second node is the first of the link, so that the other one's address is known.
        let text = imunes(&format!("\t ip address {given}\n"), "").replace("{n0 n1}", "{n1 n0}");
        let (import, plan) = of("odd.imn", &text);
        let one = node(&plan, "one");
        assert!(one.interfaces[0].addresses.is_empty(), "{given}");
        let command = format!("ip address add {given} dev eth0");
        assert!(one.setup[0].join(" ").ends_with(&command), "{:?}", one.setup);
        changed(&at(&import, 7, given), why);
    }
}

#[test]
fn hardware_addresses_are_given_once_and_are_no_groups() {
    let text = |mac: &str| {
        format!(
            "<scenario name=\"k\">\n<devices>\n<device id=\"1\" name=\"n1\" type=\"PC\"/>\n\
             <device id=\"2\" name=\"n2\" type=\"PC\"/>\n</devices>\n<links><link node1=\"1\" node2=\"2\">\n\
             <iface1 id=\"0\" mac=\"00:00:00:aa:00:01\" ip4=\"10.52.0.1\" ip4_mask=\"24\"/>\n\
             <iface2 id=\"0\" mac=\"{mac}\" ip4=\"10.52.0.2\" ip4_mask=\"24\"/></link></links></scenario>\n"
        )
    };
    let (import, lab) = of("same.xml", &text("00:00:00:aa:00:01"));
    assert_eq!(lab.nodes[0].interfaces[0].mac, [0, 0, 0, 0xaa, 0, 1]);
    let command = "ip link set dev eth0 address 00:00:00:aa:00:01";
    assert_eq!(node(&lab, "n2").setup[0].join(" "), command);
    let macs: Vec<&Verdict> =
        import.items.iter().filter(|i| i.item.ends_with("@mac")).map(|i| &i.verdict).collect();
    changed(&at(&import, 8, "@mac"), "n1:eth0 has it, too");
    assert_eq!(macs.iter().filter(|verdict| ***verdict == Verdict::Carried).count(), 1);
    let (import, _) = of("group.xml", &text("01:00:5e:00:00:01"));
    left_out(&at(&import, 8, "@mac"), "the address of a group");
}

#[test]
fn small_mtus_are_those_of_links_without_ipv6() {
    let clab = "name: small\ntopology:\n  nodes: {a: {kind: linux, image: x}, b: {kind: linux, image: x}}\n  \
                links:\n    - {endpoints: [\"a:eth1\", \"b:eth1\"], mtu: 576}\n";
    let (_, lab) = of("small.clab.yml", clab);
    assert_eq!(lab.links.last().unwrap().mtu, 576);
    let (_, lab) = of("small.imn", &imunes("\t mtu 576\n\t ip address 10.54.0.1/24\n", ""));
    assert_eq!(lab.links[0].mtu, 576);
    let lines = "\t mtu 576\n\t ipv6 address fd01::1/64\n";
    let (import, lab) = of("small6.imn", &imunes(lines, ""));
    assert_eq!(lab.links[0].mtu, 576);
    changed(&at(&import, 8, "fd01::1/64"), "its MTU is below that of IPv6");
}

#[test]
fn what_a_file_does_not_have_is_not_made_up() {
    let (_, lab) = of("v4.imn", &imunes("\t ip address 10.54.0.1/24\n", ""));
    let addresses = lab.nodes.iter().flat_map(|n| &n.interfaces).flat_map(|i| &i.addresses);
    assert!(addresses.clone().all(|net| net.addr().is_ipv4()) && addresses.count() == 2);
    assert!(!lab.hosts.contains("fd"), "{}", lab.hosts);
    let text = imunes("\t ipv6 address fd01::1/64\n", "")
        .replace("ip address 10.54.0.2/24", "no shutdown");
    let (_, lab) = of("v6.imn", &text);
    let addresses = lab.nodes.iter().flat_map(|n| &n.interfaces).flat_map(|i| &i.addresses);
    assert_eq!(addresses.map(ToString::to_string).collect::<Vec<_>>(), ["fd01::1/64"]);
}

#[test]
fn loops_of_switches_run_the_spanning_tree() {
    let text = "<scenario name=\"ring\"><networks>\n<network id=\"1\" name=\"sw1\" type=\"SWITCH\"/>\n\
                <network id=\"2\" name=\"sw2\" type=\"SWITCH\"/><network id=\"3\" name=\"sw3\" type=\"SWITCH\"/>\n\
                <network id=\"9\" name=\"sw9\" type=\"SWITCH\"/></networks>\n<devices/><links>\n\
                <link node1=\"1\" node2=\"2\"/>\n<link node1=\"2\" node2=\"3\"/>\n<link node1=\"3\" node2=\"1\"/>\n\
                </links></scenario>\n";
    let (import, lab) = of("ring.xml", text);
    assert_eq!(lab.links.len(), 3);
    let stp: Vec<bool> = lab.switches.iter().map(|switch| switch.stp).collect();
    assert_eq!(stp, [true, true, true, false]);
    changed(&at(&import, 8, "@node1"), "`stp: true`");
}

#[test]
fn loops_that_nothing_blocks_lose_their_last_link() {
    let port = |n: u32| {
        format!("{{\"port_number\": {n}, \"type\": \"access\", \"vlan\": 7, \"name\": \"e\"}}")
    };
    let switch = |id: &str| {
        let ports = format!("{}, {}", port(0), port(1));
        format!(
            "{{\"node_id\": \"{id}\", \"node_type\": \"ethernet_switch\", \"name\": \"{id}\", \"properties\": \
             {{\"ports_mapping\": [{ports}]}}}}"
        )
    };
    let link = |a: &str, b: &str, n: u32| {
        format!(
            "{{\"link_id\": \"{a}{b}{n}\", \"filters\": {{}}, \"nodes\": [{{\"node_id\": \"{a}\", \"adapter_number\": 0, \
             \"port_number\": {n}}}, {{\"node_id\": \"{b}\", \"adapter_number\": 0, \"port_number\": {n}}}]}}"
        )
    };
    let text = format!(
        "{{\"name\": \"l\", \"project_id\": \"x\", \"topology\": {{\"nodes\": [{}, {}],\n\"links\": [{},\n{}]}}}}",
        switch("sa"),
        switch("sb"),
        link("sa", "sb", 0),
        link("sa", "sb", 1)
    );
    let (import, lab) = of("l.gns3", &text);
    assert_eq!(lab.links.len(), 1);
    left_out(&at(&import, 3, "link_id"), "go round for ever");
}

#[test]
fn what_nobody_foresaw_is_left_out_alone() {
    let clab = "name: odd\ntopology:\n  nodes:\n    a:\n      kind: linux\n      image: x\n      \
                env: {\"A=B\": c, GOOD: d}\n    b: {kind: linux, image: x}\n";
    let (import, lab) = of("odd.clab.yml", clab);
    assert_eq!(node(&lab, "a").env.len(), 1);
    assert_eq!(node(&lab, "a").env[0].0, "GOOD");
    left_out(&at(&import, 7, "A=B"), "no lab file has this");
    // Without an equal in a lab file the rest is still a lab.
    let files = Memory::of("odd.clab.yml", clab);
    assert!(import_of(&files).items.iter().any(|item| item.item.contains("GOOD")));
}

fn import_of(files: &Memory) -> Import {
    import(files, "odd.clab.yml", &Options::default()).unwrap()
}

fn gns3(filters: &str) -> (Import, Plan) {
    of("f.gns3", &project(filters))
}

/// A project of GNS3 with two hosts and a link, whose filters stand in its third line.
fn project(filters: &str) -> String {
    let node = |id: &str| {
        format!(
            "{{\"node_id\": \"{id}\", \"node_type\": \"vpcs\", \"name\": \"{id}\", \"properties\": {{}}}}"
        )
    };
    let end =
        |id: &str| format!("{{\"node_id\": \"{id}\", \"adapter_number\": 0, \"port_number\": 0}}");
    format!(
        "{{\"name\": \"f\", \"project_id\": \"x\", \"topology\": {{\"nodes\": [{}, {}], \"links\": [\n\
         {{\"link_id\": \"l1\", \"nodes\": [{}, {}],\n\"filters\": {{{filters}}}}}]}}}}",
        node("p1"),
        node("p2"),
        end("p1"),
        end("p2")
    )
}

/// gns3-server 2.2.61, `compute/../link.py` and ubridge's `packet_filter.c`: -1 drops all, N each Nth.
#[test]
fn filters_of_gns3_do_what_they_do_there() {
    use netloom_impair::{Loss, Share};
    let share = |loss: &Option<Loss>| match loss {
        Some(Loss::Random(random)) => random.share,
        other => panic!("{other:?}"),
    };
    let (_, lab) = gns3("\"frequency_drop\": [-1]");
    assert_eq!(share(&lab.links[0].impairments[0].loss), Share::ALL);
    let (import, lab) = gns3("\"frequency_drop\": [100]");
    let Some(Loss::Pattern(pattern)) = &lab.links[0].impairments[1].loss else { panic!() };
    assert_eq!((pattern.len(), pattern.iter().filter(|lost| **lost).count()), (100, 1));
    assert!(pattern[99]);
    changed(&at(&import, 3, "frequency_drop"), "each direction counts");
    let (import, lab) = gns3("\"packet_loss\": [20], \"frequency_drop\": [4]");
    assert_eq!(share(&lab.links[0].impairments[0].loss), Share(400_000_000));
    changed(&at(&import, 3, "packet_loss"), "together lose 40%");
    let (import, lab) = gns3("\"delay\": [0, 10]");
    assert!(lab.links[0].impairments[0].delay.is_zero());
    assert!(lab.links[0].impairments[0].jitter.is_none());
    changed(&at(&import, 3, "delay[1]"), "GNS3 has no such filter");
    let (import, lab) = gns3("\"delay\": [10, 2], \"bpf\": [\"icmp\"]");
    assert_eq!(lab.links[0].impairments[1].drop.as_deref(), Some("icmp"));
    assert_eq!(at(&import, 3, "bpf"), Verdict::Carried);
    let (_, lab) = gns3("\"bpf\": [\"icmp\\n tcp port 80 or arp\\n\"]");
    let both = "(icmp) or (tcp port 80 or arp)";
    assert_eq!(lab.links[0].impairments[0].drop.as_deref(), Some(both));
    let (_, lab) = gns3("\"delay\": [10, 2], \"bpf\": [\"\"]");
    assert_eq!(lab.links[0].impairments[0].delay.as_millis(), 10);
    assert!(lab.links[0].impairments[0].jitter.is_some());
    assert!(lab.links[0].impairments[0].drop.is_none());
}

/// gns3-server 2.2.61: filters act at clouds and NAT nodes, too. A switch with VLANs has such a wire by a bridge, and takes none from
/// others; each of two ports that lead to one end has its own rule.
#[test]
fn wires_at_doors_have_a_bridge_and_ports_have_their_own_rules() {
    let door = |id: &str, kind: &str| {
        format!(
            "{{\"node_id\": \"{id}\", \"node_type\": \"{kind}\", \"name\": \"{id}\", \"properties\": {{\"ports_mapping\": [{{\"interface\": \"{id}0\", \"name\": \"x\", \"port_number\": 0, \"type\": \"ethernet\"}}]}}}}"
        )
    };
    let ports = |vlans: [u16; 5]| {
        let ports: Vec<String> = (0..5)
            .map(|n| format!("{{\"name\": \"e{n}\", \"port_number\": {n}, \"type\": \"access\",\n\"vlan\": {}}}", vlans[n]))
            .collect();
        ports.join(",")
    };
    let switch = |id: &str, vlans: [u16; 5]| {
        format!(
            "{{\"node_id\": \"{id}\", \"node_type\": \"ethernet_switch\", \"name\": \"{id}\", \"properties\": {{\"ports_mapping\": [{}]}}}}",
            ports(vlans)
        )
    };
    let link = |one: (&str, u8), two: (&str, u8), filters: &str| {
        let end = |(id, port): (&str, u8)| {
            format!("{{\"node_id\": \"{id}\", \"adapter_number\": 0, \"port_number\": {port}}}")
        };
        format!(
            "\n{{\"link_id\": \"l\", \"nodes\": [{}, {}], \"filters\": {{{filters}}}}}",
            end(one),
            end(two)
        )
    };
    let nodes = [
        door("c1", "cloud"),
        door("c2", "cloud"),
        door("n1", "nat"),
        door("n2", "nat"),
        switch("plain", [1; 5]),
        switch("vlans", [20, 20, 30, 40, 50]),
    ];
    let links = [
        link(("plain", 0), ("c1", 0), "\"delay\": [7]"),
        link(("vlans", 0), ("c2", 0), "\"delay\": [9]"),
        link(("vlans", 1), ("n1", 0), ""),
        link(("vlans", 2), ("n2", 0), ""),
        link(("vlans", 4), ("plain", 1), ""),
        link(("plain", 2), ("vlans", 3), ""),
    ];
    let text = format!(
        "{{\"name\": \"f\", \"project_id\": \"x\", \"topology\": {{\"nodes\": [{}], \"links\": [{}]}}}}",
        nodes.join(","),
        links.join(",")
    );
    let (import, lab) = of("f.gns3", &text);
    let delays: Vec<u128> =
        lab.links.iter().map(|link| link.impairments[0].delay.as_millis()).collect();
    assert!(delays.contains(&7) && delays.contains(&9), "{}", import.lab);
    assert!(import.left_out().all(|item| item.line != 13), "{:?}", import.items);
    for link in ["{ends: [vlans, between], delay: 9ms}", "{ends: [between, \"host:c20\"]}"] {
        assert!(import.lab.contains(link), "{link}: {}", import.lab);
    }
    // Where several links lead from a switch to one object, ports are called after their links.
    let rules = [
        "\"between\": {vlan: 20}",
        "\"vlans--internet\": {vlan: 20}",
        "\"vlans--internet#2\": {vlan: 30}",
        "\"vlans--plain\": {vlan: 50}",
        "\"plain--vlans\": {vlan: 40}",
    ];
    let rules = format!("vlans: {{kind: shm, ports: {{{}}}}}", rules.join(", "));
    assert!(import.lab.contains(&rules), "{}", import.lab);
}

/// gns3-server 2.2.61, `BaseNode._set_filters`: a line that does not compile is left out with a warning. What a tag of
/// VLANs shifts (pcap-filter(7)) is the rest of the expression, so that line is last.
#[test]
fn lines_of_a_filter_of_gns3_stand_for_themselves() {
    let fault = |text: &str| text.ends_with("and").then(|| "syntax error".to_owned());
    let options = Options { expression_fault: Some(fault), ..Options::default() };
    let bpf = |lines: &str| {
        let files = Memory::of("f.gns3", project(&format!("\"bpf\": [{lines:?}]")));
        let import = import(&files, "f.gns3", &options).unwrap();
        let drop = import.read.links[0].impairments[0].drop.clone();
        (at(&import, 3, "bpf"), drop)
    };
    let (said, drop) = bpf("icmp and");
    left_out(&said, "\"icmp and\" is left out: syntax error");
    assert_eq!(drop, None);
    let (said, drop) = bpf("icmp and\narp");
    changed(&said, "\"icmp and\" is left out: syntax error");
    assert_eq!(drop.as_deref(), Some("arp"));
    let (said, drop) = bpf("vlan 5\ntcp port 80\nvlan 6");
    changed(&said, "\"vlan 6\" is left out: behind \"vlan 5\"");
    assert_eq!(drop.as_deref(), Some("(tcp port 80) or (vlan 5)"));
}

/// gns3-server 2.2.61: `Node._list_ports` counts from a container's address, and `Project.open` reads no `suspend`.
#[test]
fn containers_of_gns3_have_their_hardware_addresses() {
    let text = "{\"name\": \"m\", \"project_id\": \"x\", \"topology\": {\"nodes\": [\
                {\"node_id\": \"d\", \"node_type\": \"docker\", \"name\": \"d\", \"custom_adapters\": \
                [{\"adapter_number\": 2, \"mac_address\": \"02:aa:00:00:00:09\"}], \"properties\": \
                {\"image\": \"x\", \"adapters\": 3, \"mac_address\": \"02:42:01:00:01:ff\"}}, \
                {\"node_id\": \"h\", \"node_type\": \"ethernet_hub\", \"name\": \"h\", \"properties\": {}}], \"links\": [\
                {\"link_id\": \"l1\", \"suspend\": true, \"nodes\": [{\"node_id\": \"d\", \"adapter_number\": 1, \"port_number\": 0}, \
                {\"node_id\": \"h\", \"adapter_number\": 0, \"port_number\": 0}]}, \
                {\"link_id\": \"l2\", \"nodes\": [{\"node_id\": \"d\", \"adapter_number\": 2, \"port_number\": 0}, \
                {\"node_id\": \"h\", \"adapter_number\": 0, \"port_number\": 1}]}]}}";
    let (import, lab) = of("m.gns3", text);
    let macs: Vec<[u8; 6]> = node(&lab, "d").interfaces.iter().map(|i| i.mac).collect();
    assert_eq!(macs, [[2, 0x42, 1, 0, 2, 0], [2, 0xaa, 0, 0, 0, 9]]);
    assert!(lab.links[0].impairments[0].loss.is_none());
    changed(&at(&import, 1, "suspend"), "GNS3 does not suspend it either");
}

/// CORE 9.2.1 (`core/xml/corexml.py`): a link whose directions differ is written twice, the second time from its other end;
/// `core/nodes/interface.py` gives jitter a correlation of 25 %.
#[test]
fn directions_of_a_link_of_core_are_one_link() {
    let link = |a: u32, b: u32, delay: u32, jitter: u32| {
        format!(
            "<link node1=\"{a}\" node2=\"{b}\">\n<iface1 id=\"0\" name=\"eth0\" ip4=\"10.52.0.{a}\" ip4_mask=\"24\"/>\
             <iface2 id=\"0\" name=\"eth0\" ip4=\"10.52.0.{b}\" ip4_mask=\"24\"/>\n\
             <options delay=\"{delay}\" jitter=\"{jitter}\" unidirectional=\"1\"/></link>\n"
        )
    };
    let text = format!(
        "<scenario name=\"w\"><devices><device id=\"1\" name=\"n1\" type=\"PC\"/>\
         <device id=\"2\" name=\"n2\" type=\"PC\"/></devices><links>\n{}{}</links></scenario>",
        link(1, 2, 20_000, 0),
        link(2, 1, 60_000, 5_000)
    );
    let (import, lab) = of("w.xml", &text);
    assert_eq!(lab.links.len(), 1);
    let delays = lab.links[0].impairments.each_ref().map(|way| way.delay.as_millis());
    assert_eq!(delays, [20, 60]);
    let jitter = lab.links[0].impairments[1].jitter.as_ref().unwrap();
    assert_eq!(jitter.correlation, netloom_impair::Share(250_000_000));
    assert_eq!(import.left_out().count(), 0, "{:?}", import.left_out().collect::<Vec<_>>());
}

/// IMUNES 3.0.0b (`loadCfgLegacy` in `runtime/cfgparse.tcl`): an empty field is passed over alone.
#[test]
fn empty_fields_of_imunes_are_passed_over() {
    let text = imunes("\t ip address 10.54.0.1/24\n", "")
        .replace("node n0 {\n", "node n0 {\n    {}\n")
        .replace("link l0 {\n", "link l0 {\n    {}\n    bandwidth 500\n");
    let (import, lab) = of("empty.imn", &text);
    assert_eq!(lab.nodes.len(), 2);
    assert_eq!(lab.links.len(), 1);
    let line =
        u32::try_from(text.lines().position(|l| l.contains("bandwidth")).unwrap()).unwrap() + 1;
    left_out(&at(&import, line, "bandwidth"), "at least 1000 bit/s, not 500");
}

/// A link of CORE between two devices, with options, and what stands in the second device.
fn core(options: &str, device: &str) -> (Import, Plan) {
    let text = format!(
        "<scenario name=\"o\"><devices><device id=\"1\" name=\"n1\" type=\"prouter\"/>\n{device}</devices><links>\n\
         <link node1=\"1\" node2=\"2\"><iface1 id=\"0\" ip4=\"10.52.0.1\" ip4_mask=\"24\"/>\
         <iface2 id=\"1\" ip4=\"10.52.0.2\" ip4_mask=\"24\"/>\n<options {options}/></link>\n\
         <link node1=\"1\" node2=\"2\"><iface1 id=\"1\" ip4=\"10.53.0.1\" ip4_mask=\"31\"/>\
         <iface2 id=\"0\" ip4=\"10.53.0.0\" ip4_mask=\"31\"/></link></links></scenario>"
    );
    of("o.xml", &text)
}

/// CORE 9.2.1, `core.nodes.interface.tc_cmd`: what a link with a bandwidth holds, and what is too much.
#[test]
fn options_of_core_do_what_they_do_there() {
    use netloom_impair::{Distribution, Queue};
    let two = "<device id=\"2\" name=\"n2\" type=\"prouter\"/>";
    for (options, queue, limit) in [
        ("bandwidth=\"1000000\" delay=\"10000\"", Some(2), Some(2)),
        ("bandwidth=\"100000000\" delay=\"60000\"", Some(1000), Some(1000)),
        ("bandwidth=\"1000000\" delay=\"10000\" buffer=\"50\"", Some(50), Some(50)),
        ("bandwidth=\"1000000\" buffer=\"50\"", Some(50), None),
        ("bandwidth=\"1000000\"", None, None),
        ("delay=\"10000\" buffer=\"50\"", None, None),
    ] {
        let (import, lab) = core(options, two);
        let way = &lab.links[0].impairments[0];
        assert_eq!((&way.queue, way.limit), (&queue.map(Queue::Packets), limit), "{options}");
        assert_eq!(import.left_out().count(), 0, "{:?}", import.left_out().collect::<Vec<_>>());
    }
    let (import, _) = core("delay=\"10000\" buffer=\"50\"", two);
    changed(&at(&import, 4, "@buffer"), "without a bandwidth CORE does nothing");
    let (import, lab) = core("jitter=\"5000\" loss=\"150\" per=\"3\"", two);
    let way = &lab.links[0].impairments[0];
    let jitter = way.jitter.as_ref().unwrap();
    assert_eq!((jitter.distribution, way.delay.as_micros()), (Distribution::Uniform, 0));
    assert_eq!(at(&import, 4, "@jitter"), Verdict::Carried);
    let all = netloom_impair::Loss::Random(netloom_impair::RandomLoss {
        share: netloom_impair::Share::ALL,
        ..Default::default()
    });
    assert_eq!(way.loss, Some(all));
}

/// CORE 9.2.1, `ServiceManager.defaults` and `DefaultRouteService`.
#[test]
fn devices_of_core_without_services_have_those_of_their_type() {
    let (import, lab) = core("", "<device id=\"2\" name=\"n2\" type=\"PC\"><services/></device>");
    changed(&at(&import, 2, "device[1].@type"), "its type's: DefaultRoute");
    // Of its first interface, the one with the lowest number, and never itself.
    let route = &node(&lab, "n2").routes;
    assert_eq!(route.len(), 1);
    assert_eq!(route[0].via.unwrap().to_string(), "10.53.0.1");
    let (import, lab) = core("", "<device id=\"2\" name=\"n2\" type=\"router\"/>");
    changed(&at(&import, 2, "device[1].@type"), "zebra, OSPFv2, OSPFv3, IPForward");
    assert!(node(&lab, "n2").routes.is_empty() && import.lab.contains("kind: router"));
    let own = "<device id=\"2\" name=\"n2\" type=\"router\"><services><service name=\"IPForward\"/></services></device>";
    let (import, lab) = core("", own);
    assert!(node(&lab, "n2").forwarding.any() && !import.lab.contains("kind: router"));
}
