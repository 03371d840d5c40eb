//! Wrong and hostile files, five of a format and more: an error that names the place, or a lab without what cannot be,
//! which is told; never a panic, and no work without end.

use netloom_foreign::{Memory, Options, Verdict, import};

/// As many brackets as no parser should follow one by one on its stack.
fn nested(open: &str, close: &str) -> String {
    format!("{}{}", open.repeat(100_000), close.repeat(100_000))
}

/// What is said of a file: its error, or its items that are not carried.
fn said(main: &str, text: &str) -> String {
    match import(&Memory::of(main, text), main, &Options::default()) {
        Ok(made) => {
            assert!(
                netloom_model::parse("lab", made.lab.as_bytes(), "lab").is_ok(),
                "{}",
                made.lab
            );
            let items = made.items.iter().filter(|item| item.verdict != Verdict::Carried);
            items.map(|item| format!("{item}\n")).collect()
        }
        Err(error) => format!("{error}\n"),
    }
}

fn all(cases: &[(&str, String, &str)]) {
    assert!(cases.len() >= 5);
    for (main, text, want) in cases {
        let said = said(main, text);
        let shown: String = said.chars().take(2000).collect();
        assert!(said.contains(want), "{want}: {shown}");
        // Nothing of a file moves the cursor or turns the line around.
        assert!(!said.contains(['\u{1b}', '\u{202e}', '\0']), "{shown:?}");
    }
}

#[test]
fn topologies_of_containerlab() {
    let copies: String = ('b'..'h')
        .map(|c| {
            let before = char::from_u32(u32::from(c) - 1).unwrap();
            format!("{c}: &{c} [{}]\n", vec![format!("*{before}"); 9].join(","))
        })
        .collect();
    all(&[
        ("a.clab.yml", format!("a: &a [x,x,x,x,x,x,x,x,x]\n{copies}topology: {{}}\n"), "a.clab.yml:6:4: error: anchors and aliases"),
        ("a.clab.yml", format!("topology: {}\n", nested("[", "]")), "a.clab.yml:1:266: error: not valid YAML"),
        ("a.clab.yml", "topology:\n\tnodes: {}\n".into(), "a.clab.yml:2:2: error: not valid YAML: tabs"),
        ("a.clab.yml", "topology:\n  nodes: {a: {kind: linux}}\n  links: {endpoints: [\"a:e1\", \"a:e2\"]}\n".into(), "a.clab.yml:3: error: `links` is a list"),
        ("a.clab.yml", "topology:\n  nodes: [a, b]\n".into(), "a.clab.yml:2: error: `nodes` is a map"),
        ("a.clab.yml", "topology: {nodes: {a: {exec: \"{{ range seq 1 1000000000000 }}x{{ end }}\"}}}\n".into(), "a.clab.yml:1: error: a list of more than 65536 items"),
        ("a.gotmpl", format!("{{{{ {} }}}}\ntopology: {{}}\n", nested("(", ")")), "a.gotmpl:1: error: parentheses nested"),
        ("a.clab.yml", "topology:\n  nodes:\n    \"../../x\\n\\u202e\": {kind: linux, binds: [\"../../../etc/shadow:/x:rw\"]}\n".into(), "a.clab.yml:3: topology.nodes.\"../../x\\n\\u{202e}\".binds[0]: left out: no such file"),
        ("a.clab.yml", "topology:\n  nodes:\n    a: {kind: linux, ports: [\"1-65535:1-65535\"]}\n    b: {kind: linux, cpu: 1e308}\n    c: {kind: linux, memory: 99999999999999999999GB}\n".into(), "a.clab.yml:3: topology.nodes.a.ports[0]: left out"),
    ]);
}

#[test]
fn folders_of_kathara() {
    all(&[
        (
            "lab.conf",
            "a[0]=A\nb[99999999999]=A\n".into(),
            "lab.conf:2: error: no interface has such a number",
        ),
        (
            "lab.conf",
            "a[0]=\"A/../../etc\"\n".into(),
            "lab.conf:1: error: expected DOMAIN or DOMAIN/MAC",
        ),
        (
            "lab.conf",
            "a[0]=A\na[image]=\"x\0y\"\n".into(),
            "left out: no lab file has this: nodes.a.image",
        ),
        (
            "lab.conf",
            "..[0]=A\n".into(),
            "lab.conf:1: ..[0]=\"A\": changed: Kathara itself refuses names",
        ),
        (
            "lab.conf",
            "a[0]=A\na[volume]=\"/etc|/etc|rw\"\na[volume]=\"../../x|/y\"\n".into(),
            "lab.conf:3: a[volume]=\"../../x|/y\": left out: it is outside",
        ),
        (
            "lab.conf",
            "a[0]=A\na[exec]=\"\u{202e}\u{1b}[2J\"\na[mem]=\"\u{1b}\"\n".into(),
            "lab.conf:3: a[mem]",
        ),
        (
            "lab.conf",
            format!("a[0]=A\na[exec]=\"{}\"\na[mem]=-1\n", "x".repeat(100_000)),
            "lab.conf:3: a[mem]=\"-1\": left out",
        ),
    ]);
}

#[test]
fn projects_of_gns3() {
    let node = "{\"node_id\": \"x\", \"node_type\": \"docker\", \"name\": \"a\\nb\", \"properties\": {\"image\": \"x\\ny\", \"environment\": \"A=1\\n=2\"}}";
    let ends = "{\"node_id\": \"x\", \"adapter_number\": 4294967295}, {\"node_id\": \"x\", \"adapter_number\": -1}";
    let filters =
        "{\"delay\": [1e308, -5], \"packet_loss\": [900], \"frequency_drop\": [1e9], \"bpf\": [7]}";
    all(&[
        ("a.gns3", format!("{{\"topology\": {}}}", nested("[", "]")), "a.gns3:1:268: error: not valid YAML"),
        ("a.gns3", "{\"topology\":\n{\"nodes\": {\"a\": 1}}}".into(), "a.gns3:2: error: `nodes` is a list"),
        ("a.gns3", "{\"topology\": {\"nodes\": [],\n\"links\": \"x\"}}".into(), "a.gns3:2: error: `links` is a list"),
        ("a.gns3", "{\"revision\": 3,\n\"topology\": {\"nodes\": [{\"type\": \"Cloud\"}]}}".into(), "a.gns3:1: error: a project of GNS3 1.x"),
        ("a.gns3", format!("{{\"topology\": {{\"nodes\": [{node}],\n\"links\": [{{\"nodes\": [{ends}],\n\"filters\": {filters}}}]}}}}"), "a.gns3:3: topology.links[0].filters.packet_loss[0]: left out"),
        ("a.gns3", "{\"topology\": {\"nodes\": [{\"node_type\": \"vpcs\", \"properties\": {\n\"startup_script\": \"ip 1.2.3.4/99\"}}], \"links\": []}}".into(), "a.gns3:2: ip 1.2.3.4/99: left out"),
    ]);
}

#[test]
fn scenarios_of_core() {
    let link = "<link node1=\"1\" node2=\"99999999999999\"/><link node1=\"1\" node2=\"1\"><iface1 ip4=\"1.2.3\" ip4_mask=\"99\"/>\n<options delay=\"-5\" loss=\"nan\" bandwidth=\"1e400\"/></link>";
    all(&[
        ("a.xml", "<!DOCTYPE s [<!ENTITY a \"aa\"><!ENTITY b \"&a;&a;&a;&a;\">]>\n<scenario name=\"&b;\"/>".into(), "a.xml:1: error: not valid XML: XML with DTD"),
        ("a.xml", "<!DOCTYPE s [<!ENTITY x SYSTEM \"file:///etc/passwd\">]>\n<scenario name=\"&x;\"/>".into(), "a.xml:1: error: not valid XML: XML with DTD"),
        ("a.xml", format!("<scenario>{}</scenario>", nested("<a>", "</a>")), "a.xml:1: error: elements nested more than 60 deep"),
        ("a.xml", "<scenario>\n\0</scenario>".into(), "a.xml:2: error: not valid XML: a non-XML character"),
        ("a.xml", format!("<scenario><devices><device id=\"1\" name=\"../x\" type=\"PC\"/></devices><links>{link}</links></scenario>"), "a.xml:2: links[0].link[1].options[0].@loss: left out"),
    ]);
}

#[test]
fn networks_of_imunes() {
    all(&[
        ("a.imn", nested("{", "}"), "a.imn:1:256: error: not valid YAML"),
        ("a.imn", format!("node n0 {}", nested("{", "}")), "a.imn:1: error: braces nested more than 64 deep"),
        ("a.imn", "node n0 { type pc\n network-config {\n hostname ../a\n interface eth0\n ip address 10.0.0.1/99\n }\n}\n".into(), "a.imn:5: n0 ip address 10.0.0.1/99: left out"),
        ("a.imn", "link l0 {\n nodes {n0}\n bandwidth 99999999999999999999\n}\n".into(), "a.imn:2: l0 nodes: left out: it has no two ends"),
        ("a.imn", "node n0 {\n type pc\n} }\n".into(), "a.imn:3: error: a brace that nothing opens"),
        ("a.imn", "{\"nodes\": {\"n0\": 5}, \"links\": []".into(), "a.imn:1:1: error: not valid YAML: \"{\" is not closed"),
    ]);
}

#[test]
fn topologies_of_netlab() {
    let start = "defaults.device: frr\n";
    all(&[
        ("topology.yml", "nodes: {a: {device: frr, id: 4294967296}, b: {device: frr, id: -1}}\nlinks: [{a: {ipv4: 18446744073709551615}, b: {ipv4: -9223372036854775808}}]\n".into(), "topology.yml:2: links[0].a.ipv4: left out"),
        ("topology.yml", format!("{start}nodes: [a, b]\naddressing: {{lan: {{ipv4: 0.0.0.0/0, prefix: 32}}, p2p: {{ipv4: 10.0.0.0/33, prefix: 99}}}}\nlinks: [a-b, a-b-a-b]\n"), "topology.yml:3: addressing.p2p.ipv4: left out"),
        ("topology.yml", format!("{start}nodes: [a]\ngroups: {{g: {{members: [\"~(((((\", h, \"[\"]}}, h: {{members: [g]}}}}\n"), "topology.yml:3: groups.g.members[0]: left out: a pattern"),
        ("topology.yml", format!("{start}nodes: [\"a\\nb\", \"..\", 7]\nlinks: [7, null, {{}}, {{interfaces: x}}]\n"), "topology.yml:2: nodes[1]: left out: no name that a node can have"),
        ("topology.yml", "provider: clab\nnodes: &n {a: *n}\n".into(), "topology.yml:2:15: error: an alias inside the value"),
        ("topology.yml", format!("{start}nodes: [a, b]\nlinks: {}\n", nested("[", "]")), "topology.yml:3:"),
    ]);
}

#[test]
fn records_of_scripts() {
    let record = |rest: &str| format!("{{\"netloom-mininet-record\": 1, {rest}}}");
    let host = "{\"name\": \"../x\\n\", \"kind\": \"host\", \"params\": {\"ip\": \"300.1.1.1/99\"}, \"default\": \"via ; rm -rf /\"}";
    let link = "{\"node1\": \"h\", \"node2\": \"h\", \"ends\": [{\"node\": \"h\", \"name\": \"a/b\", \"port\": -1, \"out\": {\"rate\": -1, \"delay\": 1e308}}, {\"node\": \"h\", \"name\": \"a/b\"}]}";
    all(&[
        (
            "a.json",
            record(
                "\"hosts\": 5, \"switches\": [7], \"links\": [{\"ends\": [1, 2, 3]}], \"commands\": {}, \"options\": []",
            ),
            "a.json:1: links.--: left out",
        ),
        (
            "a.json",
            record(&format!("\"hosts\": [{host}]")),
            "a.json:1: hosts.\"../x\\n\".ip: left out: expected an address",
        ),
        (
            "a.json",
            record(&format!("\"hosts\": {}", nested("[", "]"))),
            "error: not valid YAML: recursion limit exceeded",
        ),
        (
            "a.json",
            "{\"netloom-mininet-record\": 1,".into(),
            "a.json:1:1: error: not valid YAML: \"{\" is not closed",
        ),
        (
            "a.json",
            record(&format!(
                "\"hosts\": [{{\"name\": \"h\", \"kind\": \"host\", \"line\": -5}}], \"links\": [{link}]"
            )),
            "a/b",
        ),
    ]);
}
