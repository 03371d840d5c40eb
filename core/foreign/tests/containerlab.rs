//! containerlab's topologies.

use netloom_foreign::{Management, Memory, NOT_CHOSEN, Options, Verdict, import};

use super::labs::{files, imported, plan, refused, verdict, with_images};

fn changed(import: &netloom_foreign::Import, item: &str) -> String {
    match verdict(import, item) {
        Verdict::Changed(why) => why,
        other => panic!("{item}: {other:?}"),
    }
}

#[test]
fn nodes_inherit_from_groups_kinds_and_defaults() {
    let import = imported(&files("clab"), "three.clab.yml");
    let plan = plan(&import);
    let node = |name: &str| &plan.nodes[plan.node(name).unwrap().get()];
    let env = |name: &str| node(name).env.clone();
    assert_eq!(env("r1"), [("LANG".to_owned(), "C".to_owned())]);
    assert!(env("pc1").contains(&("ROLE".to_owned(), "pc".to_owned())));
    let paths = |name: &str| node(name).files.iter().map(|f| f.path.clone()).collect::<Vec<_>>();
    assert_eq!(paths("r1"), ["/etc/frr/frr.conf", "/etc/frr/daemons"]);
    assert!(node("r1").privileged && !node("pc1").privileged);
    assert_eq!(node("pc1").limits.cpu_milli, Some(500));
    assert_eq!(node("pc1").limits.memory, Some(128 << 20));
}

#[test]
fn the_management_network_has_an_address_for_each_node() {
    let import = imported(&files("clab"), "three.clab.yml");
    let plan = plan(&import);
    let node = |name: &str| &plan.nodes[plan.node(name).unwrap().get()];
    let first = |name: &str| node(name).interfaces[0].addresses[0].to_string();
    assert_eq!(node("r1").interfaces[0].name, "eth0");
    assert_eq!(first("r1"), "172.100.100.11/24");
    assert_eq!(first("r2"), "172.100.100.2/24");
    assert_eq!(node("r2").routes[0].via.unwrap().to_string(), "172.100.100.1");
    // `network-mode: none`, and a link of type mgmt-net.
    let names: Vec<&str> = node("pc2").interfaces.iter().map(|i| i.name.as_str()).collect();
    assert_eq!(names, ["eth1", "mgmt0"]);
}

#[test]
fn without_management_nodes_have_the_interfaces_of_their_links() {
    let options = Options { management: Management::None, ..Options::default() };
    let import = import(&files("clab"), "three.clab.yml", &options).unwrap();
    let plan = plan(&import);
    assert!(plan.nodes.iter().all(|n| n.interfaces.iter().all(|i| i.name != "eth0")));
    assert!(matches!(verdict(&import, "topology.nodes.r1.mgmt-ipv4"), Verdict::LeftOut(_)));
}

#[test]
fn a_management_network_may_have_a_door() {
    let options = Options { management: Management::Nat, ..Options::default() };
    let import = import(&files("clab"), "three.clab.yml", &options).unwrap();
    let door = "{ends: [three-mgmt, internet], addresses: {internet: [\"172.100.100.1/24\", \"3fff:172:20:20::1/64\"]}}";
    assert!(import.lab.contains(door), "{}", import.lab);
}

#[test]
fn what_is_not_carried_says_why() {
    let import = imported(&files("clab"), "three.clab.yml");
    for item in
        ["topology.kinds.linux.image", "topology.nodes.edge.kind", "topology.links[6].endpoints[1]"]
    {
        assert!(matches!(verdict(&import, item), Verdict::LeftOut(_)), "{item}");
    }
    assert!(changed(&import, "topology.groups.router.image").contains("the host's FRR"));
    assert_eq!(verdict(&import, "topology.nodes.pc1.exec[0]"), Verdict::Carried);
}

#[test]
fn commands_run_without_a_shell_and_cannot_fail() {
    let import = imported(&files("clab"), "three.clab.yml");
    let plan = plan(&import);
    let pc1 = &plan.nodes[plan.node("pc1").unwrap().get()];
    let commands: Vec<String> = pc1.exec.iter().map(|e| e.program.command.join(" ")).collect();
    assert_eq!(commands[1], "ip route del default");
    assert_eq!(pc1.exec[3].program.command, ["sh", "-c", "echo \"$HOME\""]);
    assert!(pc1.exec.iter().all(|exec| !exec.fatal));
}

#[test]
fn nodes_have_their_images_binds_and_commands() {
    let import = with_images(&files("clab"), "three.clab.yml");
    let plan = plan(&import);
    let node = |name: &str| &plan.nodes[plan.node(name).unwrap().get()];
    assert_eq!(node("r1").image.as_ref().unwrap().name, "quay.io/frrouting/frr:10.0");
    assert!(node("r1").privileged && node("r1").setup.is_empty());
    let binds = |name: &str| {
        let one = |bind: &netloom_model::lab::Bind| (bind.to.clone(), bind.write);
        node(name).binds.iter().map(one).collect::<Vec<_>>()
    };
    let (conf, daemons) = ("/etc/frr/frr.conf".to_owned(), "/etc/frr/daemons".to_owned());
    assert_eq!(binds("r1"), [(conf.clone(), true), (daemons.clone(), true)]);
    assert_eq!(binds("r2"), [(conf, false), (daemons, true)]);
    let cmd = node("pc2").image.as_ref().unwrap().cmd.clone().unwrap();
    assert_eq!(cmd, ["sleep", "infinity"]);
    assert!(node("edge").image.is_none());
    assert_eq!(import.left_out().count(), 8);
}

#[test]
fn health_host_name_and_pull_have_keys() {
    let text = "topology:\n  nodes:\n    a:\n      kind: linux\n      image: alpine:3\n      image-pull-policy: Never\n      hostname: other\n      healthcheck: {test: [CMD-SHELL, \"test -e /x\"], interval: 3, retries: 2, start-period: 1}\n    b: {kind: linux, healthcheck: {test: [NONE]}}\n";
    let import = with_images(&Memory::of("a.clab.yml", text), "a.clab.yml");
    for line in [
        "    image: \"alpine:3\"\n",
        "    pull: never\n",
        "    hostname: \"other\"\n",
        "    health: {exec: [sh, \"-c\", \"test -e /x\"], interval: 3s, retries: 2}\n",
    ] {
        assert!(import.lab.contains(line), "{line}: {}", import.lab);
    }
    assert!(matches!(
        verdict(&import, "topology.nodes.b.healthcheck.test[0]"),
        Verdict::LeftOut(_)
    ));
}

#[test]
fn only_nodes_that_are_chosen_are_there_with_their_links() {
    let only = |names: &[&str]| Options {
        only: names.iter().map(|name| (*name).to_owned()).collect(),
        ..Options::default()
    };
    let files = files("filter");
    let made = import(&files, "filter.clab.yml", &only(&["one", "two", "four"])).unwrap();
    let lab = plan(&made);
    let interfaces = |n: usize| {
        let names = lab.nodes[n].interfaces.iter().map(|i| i.name.clone());
        (lab.nodes[n].name.clone(), names.collect::<Vec<_>>())
    };
    let names = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
    assert_eq!(interfaces(0), ("one".into(), names(&["eth0", "eth1", "eth3"])));
    assert_eq!(lab.nodes.len(), 3);
    let out: Vec<String> = made.left_out().map(|item| item.item.clone()).collect();
    assert_eq!(
        out,
        [
            "topology.nodes.three",
            "topology.links[1].endpoints[0]",
            "topology.links[1].endpoints[1]",
            "topology.links[4].endpoints[0]",
            "topology.links[4].endpoints[1]",
        ]
    );
    assert!(made.left_out().all(|item| item.verdict == Verdict::LeftOut(NOT_CHOSEN.into())));
    let alone = plan(&import(&files, "filter.clab.yml", &only(&["one"])).unwrap());
    assert_eq!((alone.nodes.len(), alone.nodes[0].interfaces.len()), (1, 1));
    let none = import(&files, "filter.clab.yml", &only(&["five"])).unwrap_err().to_string();
    let want =
        "filter.clab.yml: --node-filter: no node \"five\"; the lab has one, two, three, four";
    assert_eq!(none, want);
}

#[test]
fn routers_of_kind_frr_have_their_files() {
    let import = with_images(&files("frr01"), "frr01.clab.yml");
    let plan = plan(&import);
    let r1 = &plan.nodes[plan.node("router1").unwrap().get()];
    let paths: Vec<&str> = r1.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths, ["/etc/frr/frr.conf", "/etc/frr/daemons", "/etc/frr/vtysh.conf"]);
    assert!(r1.forwarding.ipv4() && r1.forwarding.ipv6() && r1.privileged && r1.image.is_some());
    assert!(import.lab.contains("bgpd=no\\nospfd=yes\\n"), "{}", import.lab);
    assert_eq!(import.left_out().count(), 0, "{:?}", import.left_out().collect::<Vec<_>>());
    // containerlab 0.81: the list is a key of its own, which nodes inherit.
    let text = "topology: {kinds: {frr: {daemons: [bgpd]}}, nodes: {a: {kind: frr, image: frr}}}\n";
    let own = with_images(&Memory::of("a.clab.yml", text), "a.clab.yml");
    assert!(own.lab.contains("bgpd=yes\\nospfd=no\\n"), "{}", own.lab);
    assert_eq!(verdict(&own, "topology.kinds.frr.daemons[0]"), Verdict::Carried);
    let text = "topology: {nodes: {a: {kind: frr, image: frr, extras: {frr: {daemons: [zebra, nonsense]}}, startup-config: no.conf, credentials: {username: x}}}}\n";
    let wrong = with_images(&Memory::of("a.clab.yml", text), "a.clab.yml");
    let out: Vec<String> = wrong.left_out().map(ToString::to_string).collect();
    assert_eq!(
        out,
        [
            "a.clab.yml:1: topology.nodes.a.extras.frr.daemons[1]: left out: no daemon of FRR",
            "a.clab.yml:1: topology.nodes.a.startup-config: left out: no such file beside the lab",
            "a.clab.yml:1: topology.nodes.a.credentials.username: left out: `netloom exec` and `netloom shell` need no login",
        ]
    );
}

#[test]
fn links_have_their_mtu() {
    let import = imported(&files("clab"), "three.clab.yml");
    let plan = plan(&import);
    let mtu = |name: &str| plan.links.iter().find(|link| link.name.starts_with(name)).unwrap().mtu;
    assert_eq!(mtu("pc1:eth1"), 9500);
    assert_eq!(mtu("pc2:eth1"), 1500);
    assert_eq!(mtu("r1:eth3"), 9500);
    assert_eq!(mtu("r1:eth0"), 1500);
}

#[test]
fn a_template_is_filled_in_with_its_variables() {
    let template = "name: {{ .name }}\ntopology:\n  nodes:\n{{- range $i := seq 1 .count }}\n    n{{ $i }}: {kind: linux}\n{{- end }}\n  links:\n    - endpoints: [\"n1:eth1\", \"n2:eth1\"]\n";
    let files =
        Memory::of("a.clab.yml.gotmpl", template).with("a.clab_vars.yml", "name: made\ncount: 3\n");
    let import = imported(&files, "a.clab.yml.gotmpl");
    let plan = plan(&import);
    assert_eq!((plan.lab.as_str(), plan.nodes.len()), ("made", 3));
    assert!(import.items.iter().any(|item| item.file == "a.clab_vars.yml"));
}

#[test]
fn any_topology_may_be_a_template() {
    let text = "name: t\ntopology:\n  nodes:\n    a: {kind: linux}\n{{- if .more }}\n    b: {kind: linux}\n{{- end }}\n";
    let few = imported(&Memory::of("t.clab.yml", text), "t.clab.yml");
    assert_eq!(plan(&few).nodes.len(), 1);
    let with = Memory::of("t.clab.yml", text).with("t.clab_vars.yml", "more: true\n");
    assert_eq!(plan(&imported(&with, "t.clab.yml")).nodes.len(), 2);
}

#[test]
fn a_prefix_of_two_segments_is_given_by_commands() {
    let text = "topology:\n  nodes: {a: {kind: linux}, b: {kind: linux}, c: {kind: linux}, s: {kind: bridge}}\n  links:\n    \
                - {endpoints: [\"a:e1\", \"b:e1\"], ipv4: [10.0.0.1/24, 10.0.0.2/24]}\n    \
                - {endpoints: [\"a:e2\", \"c:e1\"], ipv4: [\"\", 10.0.0.3/25]}\n    \
                - {endpoints: [\"b:e2\", \"s:1\"], ipv4: [10.1.0.2/24, \"\"]}\n    \
                - {endpoints: [\"c:e2\", \"s:2\"], ipv4: [10.1.0.3/24, \"\"]}\n";
    let import = imported(&Memory::of("t.clab.yml", text), "t.clab.yml");
    let plan = plan(&import);
    let node = |name: &str| &plan.nodes[plan.node(name).unwrap().get()];
    assert_eq!(node("a").interfaces[1].addresses[0].to_string(), "10.0.0.1/24");
    assert_eq!(node("c").setup, [["ip", "address", "add", "10.0.0.3/25", "dev", "e1"]]);
    assert!(node("b").setup.is_empty() && node("a").setup.is_empty());
    assert_eq!(node("c").interfaces[2].addresses[0].to_string(), "10.1.0.3/24");
}

#[test]
fn wrong_topologies_are_refused_with_their_line() {
    for (name, text, want) in [
        (
            "a.clab.yml",
            "topology:\n  nodes: {a: {}, a: {}}\n",
            "a.clab.yml:2:18: error: \"a\" is given twice",
        ),
        ("a.clab.yml", "topology: [\n", "a.clab.yml:1:11: error: not valid YAML"),
        ("a.gotmpl", "topology:\n{{ range }}\n", "a.gotmpl:2: error: an action without a value"),
        (
            "a.gotmpl",
            "{{ define \"x\" }}{{ template \"x\" }}{{ end }}\n{{ template \"x\" }}",
            "templates call each other",
        ),
        ("a.clab.yml", "topology:\n  nodes: &a {x: *a}\n", "inside the value"),
    ] {
        let error = refused(name, text);
        assert!(error.contains(want), "{error}");
    }
}

#[test]
fn odd_values_are_left_out_not_fatal() {
    let text = "topology:\n  nodes:\n    a: {kind: linux, cpu: many, memory: 1, exec: \"x\", binds: [no], env: {A: [1]}, sysctls: {kernel.x: 1}}\n    b: null\n    \"\": {}\n  links:\n    - endpoints: [\"a:eth1\", \"nobody:eth1\"]\n    - {type: vxlan}\n";
    let import = imported(&Memory::of("a.clab.yml", text), "a.clab.yml");
    for item in [
        "topology.nodes.a.cpu",
        "topology.nodes.a.memory",
        "topology.nodes.a.exec",
        "topology.nodes.a.binds[0]",
        "topology.nodes.a.env.A[0]",
        "topology.nodes.a.sysctls.\"kernel.x\"",
        "topology.nodes.\"\"",
        "topology.links[0].endpoints[1]",
        "topology.links[1].type",
    ] {
        assert!(matches!(verdict(&import, item), Verdict::LeftOut(_)), "{item}");
    }
    assert_eq!(verdict(&import, "topology.nodes.b"), Verdict::Carried);
}

#[test]
fn an_exported_lab_comes_back() {
    let lab = "name: two\nnodes: {a: {limits: {cpu: 0.5}}, r: {forwarding: true}, b: {}}\nswitches: {s: {}}\nlinks: [[a, r], [r, s], [b, s]]\n";
    let parsed = netloom_model::parse("two", lab.as_bytes(), "two").unwrap();
    let planned = netloom_model::plan::plan(&parsed).unwrap();
    let exported = netloom_foreign::export(&planned, "two.yaml", "alpine:3");
    assert!(exported.items.iter().any(|item| item.item == "switches.s"));
    let options = Options { management: Management::None, ..Options::default() };
    let files = Memory::of("two.clab.yml", exported.text.as_str());
    let import = import(&files, "two.clab.yml", &options).unwrap();
    let back = plan(&import);
    let shape = |plan: &netloom_model::Plan| {
        let ends = |link: &netloom_model::plan::PlannedLink| {
            let mut ends = [plan.end_text(&link.ends[0]), plan.end_text(&link.ends[1])];
            ends.sort();
            ends
        };
        let mut links: Vec<[String; 2]> = plan.links.iter().map(ends).collect();
        links.sort();
        (plan.lab.clone(), plan.nodes.iter().map(|n| n.name.clone()).collect::<Vec<_>>(), links)
    };
    assert_eq!(shape(&back), shape(&planned));
    let address = planned.nodes[0].interfaces[0].addresses[0].to_string();
    let commands: Vec<String> =
        back.nodes[0].exec.iter().map(|e| e.program.command.join(" ")).collect();
    assert!(commands.iter().any(|c| c.contains(&format!("ip address add {address} dev eth0"))));
}

#[test]
fn an_export_keeps_or_tells_of_every_key() {
    let lab = "name: e\nids: fake\nnodes:\n  a: {image: 'alpine:3', pull: never, cmd: sleep 1d, privileged: true, storage: 64MiB,\n    \
               sysctls: {net.ipv4.tcp_ecn: 1, net.ipv4.ip_local_port_range: 2000 3000}}\n  \
               b: {image: 'oci:box', run: [{command: [x], user: nobody, stop-signal: INT}]}\n  \
               c: {files: {/etc/x: {from: x, mode: 0600}}, children: {limit: 1}, charge-receive: true}\n  \
               v: {kind: vm, kernel: /k, memory: 64MiB, ready: {console: login}}\n\
               switches: {s: {stp: true}}\n\
               links:\n  - {ends: [a, b], mac: {b: 02:00:00:00:00:07}}\n  - {ends: [c, s], mac: {c: 02:00:00:00:00:08}}\n  - {ends: [a, nowhere], mac: {a: 02:00:00:00:00:09}}\n  - [b, s]\n  - [v, s]\n";
    let parsed = netloom_model::parse("e", lab.as_bytes(), "e").unwrap();
    let planned = netloom_model::plan::plan(&parsed).unwrap();
    let exported = netloom_foreign::export(&planned, "e.yaml", "debian:13");
    for part in [
        "    a:\n      kind: linux\n      network-mode: none\n      image: \"alpine:3\"\n      image-pull-policy: Never\n      cmd: \"sleep 1d\"\n",
        "\"sysctl -w net/ipv4/tcp_ecn=1\"",
        "sysctl -w 'net/ipv4/ip_local_port_range=2000 3000'",
    ] {
        assert!(exported.text.contains(part), "{part}\n{}", exported.text);
    }
    let told: Vec<&str> = exported.items.iter().map(|item| item.item.as_str()).collect();
    for item in [
        "nodes.a.sysctls",
        "nodes.a.privileged",
        "nodes.a.storage",
        "nodes.a.ids",
        "nodes.b.image",
        "nodes.b.programs",
        "nodes.c.files./etc/x",
        "nodes.c.children",
        "nodes.c.charge-receive",
        "nodes.v.kind",
        "nodes.v.ready",
        "switches.s.stp",
    ] {
        assert!(told.contains(&item), "{item}: {told:?}");
    }
    // What a node does not have is not told.
    assert!(!told.iter().any(|item| item.starts_with("nodes.a.c")), "{told:?}");
    let options =
        Options { management: Management::None, host_programs: true, ..Options::default() };
    let files = Memory::of("e.clab.yml", exported.text.as_str());
    let back = plan(&import(&files, "e.clab.yml", &options).unwrap());
    let mac = |node: &str, interface: &str| {
        let node = &back.nodes[back.node(node).unwrap().get()];
        node.interfaces.iter().find(|own| own.name == interface).unwrap().mac
    };
    assert_eq!(mac("b", "eth0"), [2, 0, 0, 0, 0, 7]);
    assert_eq!(mac("c", "eth0"), [2, 0, 0, 0, 0, 8]);
    assert_eq!(mac("a", "eth1"), [2, 0, 0, 0, 0, 9]);
}

#[test]
fn ports_of_the_host_are_carried() {
    let text = "topology:\n  defaults: {ports: [\"9000-9002:80-82\"]}\n  nodes:\n    a: {kind: linux, ports: [\"8080:80\", \"127.0.0.1:53:53/udp\", \"[::]:443:443\", \"0.0.0.0:8080:1\", \"80\", \"1:1/sctp\", \"0:1\", \"1-2:1\", \"x:1:2\", [1]]}\n    b: {kind: linux, ports: [\"8080:80/tcp\", \"8081:80/TCP\"]}\n    c: {kind: linux}\n";
    let import = imported(&Memory::of("a.clab.yml", text), "a.clab.yml");
    let plan = plan(&import);
    let ports = |at: usize| plan.nodes[at].ports.iter().map(|p| p.to_string()).collect::<Vec<_>>();
    // Those of the nearest layer alone: the defaults' are of `c`.
    assert_eq!(ports(0), ["8080:80", "127.0.0.1:53:53/udp", "[::]:443:443"]);
    assert_eq!(ports(1), ["8081:80"]);
    assert_eq!(ports(2), ["9000:80", "9001:81", "9002:82"]);
    let item = |at: &str| verdict(&import, &format!("topology.nodes.{at}"));
    assert!(changed(&import, "topology.nodes.a.ports[0]").starts_with("on the host's loopback"));
    assert_eq!(item("a.ports[1]"), Verdict::Carried);
    assert_eq!(item("a.ports[2]"), Verdict::Carried);
    for (at, why) in [
        ("a.ports[3]", "port 8080 of the host is taken already"),
        ("a.ports[4]", "no port of the host is given; Docker chooses one"),
        ("a.ports[5]", "a node publishes ports of TCP and UDP"),
        ("a.ports[6]", "expected PORT:PORT"),
        ("a.ports[7]", "both ranges of ports must have one length, of 256 at most"),
        ("a.ports[8]", "expected an address of the host before the ports"),
        ("b.ports[0]", "port 8080 of the host is taken already"),
    ] {
        assert_eq!(item(at), Verdict::LeftOut(why.to_owned()), "{at}");
    }
    let line = |at: &str| import.items.iter().find(|i| i.item.ends_with(at)).unwrap().line;
    assert_eq!((line("a.ports[0]"), line("b.ports[1]")), (4, 5));
}

#[test]
fn exported_ports_come_back() {
    let lab = "name: p\nnodes: {a: {ports: [\"8080:80\", \"0.0.0.0:53:5353/udp\"]}}\n";
    let parsed = netloom_model::parse("p", lab.as_bytes(), "p").unwrap();
    let planned = netloom_model::plan::plan(&parsed).unwrap();
    let exported = netloom_foreign::export(&planned, "p.yaml", "alpine:3");
    let said = exported.items.iter().find(|item| item.item == "nodes.a.ports").unwrap();
    assert!(matches!(said.verdict, Verdict::Changed(_)));
    let back = plan(&imported(&Memory::of("p.clab.yml", exported.text.as_str()), "p.clab.yml"));
    let ports: Vec<String> = back.nodes[0].ports.iter().map(|p| p.to_string()).collect();
    assert_eq!(ports, ["127.0.0.1:8080:80", "[::1]:8080:80", "0.0.0.0:53:5353/udp"]);
}

#[test]
fn what_a_node_gets_of_the_host_is_told() {
    let text = "topology:\n  nodes:\n    a:\n      kind: linux\n      image: x\n      binds: [\"/:/host:rw\", \"/etc:/e:ro\", \"../b:/b\", \"own:/own\"]\n";
    let files = Memory::of("x.clab.yml", text).with("own", "").with("/", "").with("/etc", "");
    let files = files.with("../b", "");
    let made = import(&files, "x.clab.yml", &Options::default()).unwrap();
    let said = |number: usize| {
        let item = format!("topology.nodes.a.binds[{number}]");
        made.items.iter().find(|found| found.item == item).unwrap().verdict.clone()
    };
    let told = |path: &str, may: &str| {
        Verdict::Changed(format!(
            "the node sees the host's own {path:?} outside of the lab's folder, and may {may} it"
        ))
    };
    assert_eq!(said(0), told("/", "change"));
    assert_eq!(said(1), told("/etc", "read"));
    assert_eq!(said(2), told("../b", "change"));
    assert_eq!(said(3), Verdict::Carried);
    let copies = Options { host_programs: true, ..Options::default() };
    let made = import(&files, "x.clab.yml", &copies).unwrap();
    let copy = made.items.iter().find(|item| item.item == "topology.nodes.a.binds[1]").unwrap();
    let words = "a copy of the host's \"/etc\", made when the lab comes up";
    assert_eq!(copy.verdict, Verdict::Changed(words.into()));
}

fn lab(text: &str) -> netloom_foreign::Import {
    imported(&Memory::of("a.clab.yml", text), "a.clab.yml")
}

// What follows is containerlab 0.78's own: types/topology.go, links/ and core/file.go.

#[test]
fn ports_are_those_of_the_nearest_layer() {
    let import = with_images(
        &Memory::of(
            "a.clab.yml",
            "topology:\n  defaults: {ports: [\"8081:81\"]}\n  kinds: {linux: {image: a, ports: [\"8080:80\"]}}\n  nodes: {a: {kind: linux, ports: [\"8082:82\"]}, b: {kind: linux, ports: []}}\n",
        ),
        "a.clab.yml",
    );
    let plan = plan(&import);
    let ports = |name: &str| {
        let node = &plan.nodes[plan.node(name).unwrap().get()];
        node.ports.iter().map(|port| port.port).collect::<Vec<_>>()
    };
    assert_eq!((ports("a"), ports("b")), (vec![8082], vec![8080]));
}

#[test]
fn a_kinds_group_comes_before_that_of_the_defaults() {
    let import = lab(
        "topology:\n  defaults: {group: far}\n  groups: {far: {env: {G: far}}, near: {env: {G: near}}}\n  kinds: {linux: {group: near}}\n  nodes: {a: {kind: linux}}\n",
    );
    let plan = plan(&import);
    assert_eq!(plan.nodes[0].env, [("G".to_owned(), "near".to_owned())]);
}

#[test]
fn nodes_of_images_are_privileged_whatever_these_are_called() {
    let files = Memory::of(
        "a.clab.yml",
        "topology:\n  kinds: {linux: {image: alpine}}\n  nodes: {a: {kind: linux}, b: {kind: linux, privileged: false}}\n",
    );
    let import = with_images(&files, "a.clab.yml");
    let plan = plan(&import);
    assert!(plan.nodes[0].privileged && !plan.nodes[1].privileged);
    assert!(changed(&import, "topology.kinds.linux.image").contains("an ordinary user's lab"));
}

#[test]
fn interfaces_with_names_that_linux_does_not_take_stay() {
    let import = lab(
        "topology:\n  nodes: {a: {kind: linux}, b: {kind: linux}}\n  links:\n    - endpoints: [\"a:uplink-to-core-switch-1\", \"b:ethernet 1/1\"]\n",
    );
    let plan = plan(&import);
    assert_eq!(plan.links.len(), 3);
    for (node, short, long) in
        [(0, "clab-1", "uplink-to-core-switch-1"), (1, "clab-2", "ethernet-1-1")]
    {
        let node = &plan.nodes[node];
        assert!(node.interfaces.iter().any(|interface| interface.name == short));
        assert!(
            import.lab.contains(&format!("add, dev, {short}, altname, {long}")),
            "{}",
            import.lab
        );
    }
    assert!(changed(&import, "topology.links[0].endpoints[1]").contains("is called clab-2"));
}

#[test]
fn what_containerlab_takes_for_no_topology_is_an_error_with_its_line() {
    let nodes = "topology:\n  nodes: {a: {kind: linux}, b: {kind: linux}}\n";
    for (text, want) in [
        (
            format!("{nodes}  links:\n    - endpoints: [\"a:eth1\", b]\n"),
            "4: error: an end of a link is NODE:INTERFACE, not \"b\"",
        ),
        (
            format!("{nodes}  links:\n    - endpoints: [\"a:eth1\"]\n"),
            "4: error: a link has two ends",
        ),
        (format!("{nodes}  links: [{{mtu: 1500}}]\n"), "3: error: a link has `endpoints"),
        (
            format!("{nodes}links:\n  - endpoints: [\"a:eth1\", \"b:eth1\"]\n"),
            "3: error: `links` stands in `topology`",
        ),
        (format!("mgmt: [{{network: a}}]\n{nodes}"), "1: error: `mgmt` is a map"),
    ] {
        let error = refused("a.clab.yml", &text);
        assert!(error.starts_with(&format!("a.clab.yml:{want}")), "{error}");
    }
}

#[test]
fn nodes_beyond_the_management_network_are_without_it() {
    let nodes: String =
        (0..300).map(|n| format!("    n{n}: {{kind: linux, image: alpine:3}}\n")).collect();
    let text = format!("name: many\ntopology:\n  nodes:\n{nodes}");
    let import = imported(&Memory::of("many.clab.yml", text), "many.clab.yml");
    let plan = plan(&import);
    let joined = plan.nodes.iter().filter(|node| !node.interfaces.is_empty()).count();
    assert_eq!((plan.nodes.len(), joined), (300, 253));
    let Verdict::Changed(why) = verdict(&import, "topology.nodes.n299.kind") else { panic!() };
    assert_eq!(why, "without the management network, which has no address left");
}

#[test]
fn a_file_where_an_ordinary_users_node_has_none_is_copied_by_a_command() {
    let text = "topology: {nodes: {a: {kind: linux, image: alpine:3, binds: [\"tool:/usr/local/bin/tool\", \"c:/etc/c\"], exec: [tool]}}}\n";
    let files = Memory::of("a.clab.yml", text).with("tool", "#!/bin/sh\n").with("c", "c\n");
    let import = imported(&files, "a.clab.yml");
    let plan = plan(&import);
    let paths: Vec<&str> = plan.nodes[0].files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths, ["/run/netloom-import/root/usr/local/bin/tool", "/etc/c"]);
    assert!(plan.nodes[0].setup[0][2].starts_with("cp -R /run/netloom-import/root/. /"));
    assert_eq!(
        changed(&import, "topology.nodes.a.binds[0]"),
        changed(&import, "topology.nodes.a.binds[1]")
    );
    let with = with_images(&files, "a.clab.yml");
    assert!(!with.lab.contains("netloom-import"), "{}", with.lab);
}

// What follows is of containerlab 0.79 (utils/env.go, types/topology.go, types/stages.go, core/clab.go).

#[test]
fn lists_of_all_layers_are_merged_and_each_item_counts_once() {
    let text = "topology:
  defaults:
    kind: linux
    image: alpine
    exec: [one, two]
    binds: [\"f:/x:ro\", \"g:/y\", \"h:/y\"]
    env-files: [far.env]
    stages: {configure: {exec: [{command: s1}, {command: e1, phase: on-exit}]}}
  groups: {g: {exec: [two, three]}}
  nodes:
    a:
      group: g
      exec: [one, four, four]
      binds: [\"g:/x\"]
      env-files: [near.env]
      env: {C: own}
      stages: {configure: {exec: [{command: s2}]}, healthy: {exec: [{command: h1}]}}
";
    let files = Memory::of("a.clab.yml", text).with("f", "").with("g", "").with("h", "");
    let files =
        files.with("far.env", "A=far\nB=far\n").with("near.env", "export B='near' # x\nC=1");
    let import = with_images(&files, "a.clab.yml");
    let node = &plan(&import).nodes[0];
    let exec: Vec<String> = node.exec.iter().map(|e| e.program.command.join(" ")).collect();
    assert_eq!(exec, ["s1", "s2", "e1", "one", "two", "three", "four", "h1"]);
    let env: Vec<String> = node.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(env, ["A=far", "B=near", "C=own"]);
    let bind = |to: &str| node.binds.iter().find(|bind| bind.to == to).unwrap();
    assert!(bind("/x").write && bind("/x").from.ends_with("g"));
    assert!(bind("/y").from.ends_with("h"));
    assert_eq!(import.left_out().count(), 0, "{:?}", import.left_out().collect::<Vec<_>>());
}

#[test]
fn a_link_of_a_node_to_itself_goes_through_a_switch() {
    let import = lab(
        "topology:\n  nodes: {a: {kind: linux}}\n  links:\n    - {endpoints: [\"a:eth1\", \"a:eth2\"], mtu: 1400}\n",
    );
    let plan = plan(&import);
    let names: Vec<&str> = plan.nodes[0].interfaces.iter().map(|i| i.name.as_str()).collect();
    assert_eq!(names, ["eth0", "eth1", "eth2"]);
    assert!(plan.nodes[0].interfaces[1..].iter().all(|i| i.mtu == 1400));
    let why = changed(&import, "topology.links[0].endpoints[0]");
    assert!(why.contains("through a switch"), "{why}");
}

/// containerlab 0.79, `nodes/linux/linux.go`.
#[test]
fn nodes_of_kind_linux_have_ipv6_whatever_they_say() {
    let import = lab(
        "topology:\n  nodes: {a: {kind: linux, sysctls: {net.ipv6.conf.all.disable_ipv6: 1, net.ipv4.ip_forward: 0}}}\n",
    );
    let why = changed(&import, "topology.nodes.a.sysctls.\"net.ipv6.conf.all.disable_ipv6\"");
    assert!(why.contains("sets it to 0"), "{why}");
    assert!(!import.lab.contains("disable_ipv6") && import.lab.contains("ip_forward"));
}

#[test]
fn parts_of_cpus_have_their_thousandths() {
    let import = lab(
        "topology:\n  nodes: {a: {kind: linux, cpu: 0.125}, b: {kind: linux, cpu: 1.23456}, c: {kind: linux, cpu: 0.001}}\n",
    );
    let plan = plan(&import);
    let milli: Vec<Option<u32>> = plan.nodes.iter().map(|node| node.limits.cpu_milli).collect();
    assert_eq!(milli, [Some(125), Some(1235), None]);
    assert_eq!(verdict(&import, "topology.nodes.a.cpu"), Verdict::Carried);
    assert_eq!(changed(&import, "topology.nodes.b.cpu"), "1.235, in thousandths");
    assert!(matches!(verdict(&import, "topology.nodes.c.cpu"), Verdict::LeftOut(_)));
}

// containerlab 0.79, `types/topology.go` (`GetNodeGroup`, `getFieldPtr`) and `links/link.go` (`parseLinkType`).
#[test]
fn a_node_of_which_nothing_is_said_is_in_no_group_of_its_kind() {
    let text = "topology:\n  defaults: {kind: linux, image: alpine, privileged: true}\n  groups: {g: {env: {G: g}}}\n  \
                kinds: {linux: {group: g, privileged: false}}\n  nodes:\n    bare:\n    said: {}\n  \
                links: [{type: VEth, endpoints: [{node: bare, interface: eth1}, {node: said, interface: eth1}]}]\n";
    let import = with_images(&Memory::of("a.clab.yml", text), "a.clab.yml");
    let plan = plan(&import);
    let of = |name: &str| &plan.nodes[plan.node(name).unwrap().get()];
    assert!(of("bare").env.is_empty() && of("bare").privileged);
    assert!(of("said").env.len() == 1 && !of("said").privileged);
    assert_eq!(import.left_out().count(), 0, "{:?}", import.left_out().collect::<Vec<_>>());
    assert!(plan.links.iter().any(|link| link.mtu == 9500));
}

fn planned(lab: &str) -> netloom_model::Plan {
    let parsed = netloom_model::parse("x", lab.as_bytes(), "x").unwrap();
    netloom_model::plan::plan(&parsed).unwrap()
}

/// What an account says of an item.
fn said<'a>(exported: &'a netloom_foreign::Exported, item: &str) -> &'a Verdict {
    let found = exported.items.iter().find(|found| found.item == item);
    &found.unwrap_or_else(|| panic!("{item}: {:?}", exported.items)).verdict
}

/// containerlab 0.79 refuses a link at `eth0` of a node that is in its management network (`nodes/linux/linux.go`,
/// `CheckInterfaceName`), and takes ends at `macvlan` for an interface of the host (`links/link_brief.go`).
#[test]
fn an_exported_lab_is_one_that_containerlab_takes() {
    let lab = "name: x\nnodes: {a: {}, p: {ports: [\"8080:80\"]}, macvlan: {}}\nlinks: [[a, p], [p, macvlan]]\n";
    let exported = netloom_foreign::export(&planned(lab), "x.yaml", "alpine:3");
    for part in [
        "    a:\n      kind: linux\n      network-mode: none\n",
        "    p:\n      kind: linux\n      ports:\n",
        "    macvlan-1:\n      kind: linux\n      network-mode: none\n",
        "{endpoints: [\"a:eth0\", \"p:eth2\"], mtu: 1500}",
        "{endpoints: [\"p:eth1\", \"macvlan-1:eth0\"], mtu: 1500}",
        " dev eth2\"",
    ] {
        assert!(exported.text.contains(part), "{part}\n{}", exported.text);
    }
    let eth0 = said(&exported, "nodes.p.interfaces.eth0");
    assert!(matches!(eth0, Verdict::Changed(how) if how.starts_with("\"eth2\"")), "{eth0:?}");
    let name = said(&exported, "nodes.macvlan");
    assert_eq!(*name, Verdict::Changed("its name is \"macvlan-1\"".into()));
}

#[test]
fn names_that_become_one_are_told_apart() {
    let lab = "name: x\nnodes: {Web: {}, web: {}, x_: {}}\nlinks: [[Web, web], [web, x_]]\n";
    let never = |_: &std::path::Path| Err(std::io::ErrorKind::NotFound.into());
    let exported = netloom_foreign::c9s::export(&planned(lab), "x.yaml", "alpine:3", &never);
    assert!(exported.text.contains("[\"web-1:eth1\", \"web:eth2\"]"), "{}", exported.text);
    assert!(exported.text.contains("[\"web:eth1\", \"x:eth1\"]"), "{}", exported.text);
    assert_eq!(*said(&exported, "nodes.Web"), Verdict::Changed("its name is \"web-1\"".into()));
    // Nobody asked for ports: no service for any node.
    assert!(exported.text.contains("expose: {exposeType: None, disableAutoExpose: true}"));
}

/// A lab whose parts c9s takes in another way, or not at all.
const FOR_C9S: &str = "name: My_Lab\nnodes:\n  \
    Web_1: {run: sleep 1d, ports: [\"8080:80\"], files: {/etc/motd: \"hello\\n\", /bin/x: {from: x.bin, mode: 0755}, \
    /big: {from: big}, /none: {from: none}}}\n  \
    b: {binds: {/data: data}}\nswitches: {s: {stp: true}}\n\
    links:\n  - {ends: [Web_1, s], mac: {Web_1: 02:00:00:00:00:07}}\n  - [b, s]\n  - [b, nowhere]\n";

fn read_for_c9s(path: &std::path::Path) -> std::io::Result<Vec<u8>> {
    match path.to_str().unwrap() {
        "x.bin" => Ok(vec![0xff, 0, 1]),
        "big" => Ok(vec![b'x'; 1 << 20]),
        _ => Err(std::io::ErrorKind::NotFound.into()),
    }
}

#[test]
fn a_lab_for_c9s_has_what_its_compiler_takes() {
    let plan = planned(FOR_C9S);
    let exported = netloom_foreign::c9s::export(&plan, "x.yaml", "alpine:3", &read_for_c9s);
    for part in [
        "kind: ConfigMap\nmetadata:\n  name: my-lab-web-1-files\ndata:\n  \"0-motd\": |2\n    hello\nbinaryData:\n  \"1-x\": /wAB\n---\n",
        "apiVersion: c9s.run/v1alpha1\nkind: Topology\nmetadata:\n  name: my-lab\n",
        "  expose: {exposeType: ClusterIP, disableAutoExpose: true}\n",
        "      web-1:\n        - {filePath: /etc/motd, configMapName: my-lab-web-1-files, configMapPath: \"0-motd\", mode: read}\n        \
         - {filePath: /bin/x, configMapName: my-lab-web-1-files, configMapPath: \"1-x\", mode: execute}\n",
        "            - \"80/tcp\"\n",
        "            - \"ip link set eth1 address 02:00:00:00:00:07\"\n",
        "            - \"ip link set br0 type bridge stp_state 1\"\n              \
         - \"ip link set eth1 master br0\"\n              - \"ip link set eth2 master br0\"\n              \
         - \"ip link set br0 up\"\n",
        "            - \"ip link add eth1 type dummy\"\n              - \"ip link set eth1 mtu 1500\"\n              \
         - \"ip link set eth1 up\"\n",
        "        - {endpoints: [\"web-1:eth1\", \"s:eth1\"], mtu: 1500}\n          - {endpoints: [\"b:eth2\", \"s:eth2\"], mtu: 1500}\n",
    ] {
        assert!(exported.text.contains(part), "{part}\n{}", exported.text);
    }
    // What its compiler refuses, or leaves to the host of containerlab.
    for other in
        ["kind: bridge", "restart-policy", "network-mode", "binds", "type: dummy", "type: veth"]
    {
        assert!(!exported.text.contains(other), "{other}\n{}", exported.text);
    }
    let left_out = |item: &str| match said(&exported, item) {
        Verdict::LeftOut(why) => why.clone(),
        other => panic!("{item}: {other:?}"),
    };
    assert!(left_out("nodes.Web_1.files./big").contains("1 MiB"));
    assert!(left_out("nodes.Web_1.files./none").starts_with("it cannot be read"));
    assert!(left_out("nodes.b.binds./data").contains("pods"));
    for item in ["nodes.Web_1", "nodes.Web_1.run", "nodes.b.interfaces.eth0", "switches.s"] {
        assert!(matches!(said(&exported, item), Verdict::Changed(_)), "{item}");
    }
}

#[test]
fn the_definition_for_c9s_is_a_topology_of_containerlab() {
    let plan = planned(FOR_C9S);
    let exported = netloom_foreign::c9s::export(&plan, "x.yaml", "alpine:3", &read_for_c9s);
    let (_, definition) = exported.text.split_once("    containerlab: |2\n").unwrap();
    let lines = definition.lines().map(|line| line.strip_prefix("      ").unwrap());
    let text: String = lines.map(|line| format!("{line}\n")).collect();
    let import = imported(&Memory::of("x.clab.yml", text.as_str()), "x.clab.yml");
    let back = self::plan(&import);
    let names: Vec<&str> = back.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["web-1", "b", "s"]);
    assert_eq!(back.links.len(), 2 + back.nodes.len(), "with the management network");
}
