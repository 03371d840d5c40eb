//! netlab: bridges among the nodes, and the networks that they join.

use netloom_foreign::Verdict;

use super::labs::{plan, verdict};
use super::netlab::{address_of, config, has, have, topology};

// networklab 26.10: a bridge's links are one network, whose prefix is taken before those of links; a network with `bridge`
// comes last.
#[test]
fn a_bridge_joins_its_links() {
    let import = topology(
        "module: [ospf]\nnodes:\n  r1:\n  r2:\n  br: {device: linux, role: bridge}\n  \
         h1: {device: linux}\nlinks:\n- r1-h1\n- interfaces: [r1, br]\n- {interfaces: [r1, r2, h1], bridge: br}\n- \
         r1-r2\n- r2: {ipv4: 3}\n  br:\n- h1-br\n",
    );
    for (node, iface, want) in [
        ("r1", "eth1", "172.16.2.1/24"),
        ("r1", "eth2", "172.16.0.1/24"),
        ("r1", "eth3", "10.1.0.1/30"),
        ("r1", "eth4", "172.16.1.1/24"),
        ("r2", "eth2", "172.16.0.3/24"),
        ("h1", "eth2", "172.16.0.4/24"),
        ("h1", "eth3", "172.16.1.4/24"),
    ] {
        assert_eq!(address_of(&import, node, iface), [want], "{node} {iface}");
    }
    let plan = plan(&import);
    let joined = plan.links.iter().filter(|link| link.name.ends_with("--br")).count();
    assert_eq!((joined, plan.switches.len()), (3, 2), "{}", import.lab);
    has(&import, "r1", &["interface eth2", "ip ospf area 0.0.0.0"]);
    assert_eq!(verdict(&import, "nodes.br.role"), Verdict::Carried);
}

// networklab 26.10 of random topologies: cases 26, 93 and 186 of `cargo xtask oracles netlab`. To OSPF a bridge is a
// neighbour, and one without links takes a prefix like any other.
#[test]
fn a_bridge_is_a_neighbour_and_takes_a_prefix_without_links() {
    let import = topology(
        "module: [ospf]\nnodes:\n  r1:\n  r2:\n  br: {device: linux, role: bridge}\n  \
         sw: {device: linux, role: bridge}\nlinks:\n- r1-br\n- {interfaces: [r1, r2], bridge: sw}\n- r1-r2\n",
    );
    for (node, iface, want) in [
        ("r1", "eth1", "172.16.0.1/24"),
        ("r1", "eth2", "10.1.0.1/30"),
        ("r1", "eth3", "172.16.2.1/24"),
        ("r2", "eth2", "172.16.2.2/24"),
    ] {
        assert_eq!(address_of(&import, node, iface), [want], "{node} {iface}");
    }
    let text = config(&import, "r1").join("\n");
    let pair = "ip ospf area 0.0.0.0\nip ospf network point-to-point\n";
    assert!(text.contains(&format!("interface eth1\n{pair}")), "{text}");
    assert!(text.contains(&format!("interface eth2\n{pair}")), "{text}");
    assert!(text.contains("interface eth3\nip ospf area 0.0.0.0\n!"), "{text}");
}

// networklab 26.10 of random topologies: cases 62, 87 and 135 of `cargo xtask oracles netlab`. Bridges take the prefixes of all
// their networks before links do, one bridge after the other.
#[test]
fn networks_of_bridges_have_the_first_prefixes() {
    let import = topology(
        "addressing.lan.prefix: 25\nnodes:\n  r2: {id: 27}\n  h1: {device: linux}\n  sw2: {device: linux, role: bridge}\n  \
         br: {device: linux, role: bridge}\nlinks:\n- h1-r2\n- {r2: , h1: , bridge: br}\n- {r2: , h1: , bridge: sw2, \
         disable: true}\n- {sw2: , r2: , disable: true}\n- sw2-r2\n- {h1: , r2: , bridge: sw2}\n- {r2: , bridge: \
         sw2}\n- br-h1\n- {r2: , prefix: 192.168.9.0/24}\n",
    );
    have(
        &import,
        &[
            "r2:eth1 172.16.2.155/25",
            "r2:eth2 172.16.0.27/25",
            "r2:eth3 192.168.9.27/24",
            "r2:eth4 172.16.2.27/25",
            "r2:eth5 172.16.0.155/25",
            "r2:eth6 172.16.1.27/25",
            "h1:eth1 172.16.2.129/25",
            "h1:eth2 172.16.1.129/25",
            "h1:eth3 172.16.2.1/25",
            "h1:eth4 172.16.0.129/25",
        ],
    );
    let import = topology(
        "addressing.vlan: {ipv4: 10.8.0.0/16, prefix: 28}\nnodes:\n  a: {id: 3}\n  b:\n  br: {device: linux, role: \
         bridge}\nlinks:\n- a-b\n- a-br\n- {b: , a: , bridge: br}\n- a:\n",
    );
    have(
        &import,
        &[
            "a:eth1 10.1.0.1/30",
            "a:eth2 10.8.0.3/28",
            "a:eth3 172.16.0.3/24",
            "a:eth4 10.8.0.19/28",
            "b:eth2 10.8.0.17/28",
        ],
    );
}

// networklab 26.10: prefixes with names come before networks of bridges, these before loopbacks, and these before links.
#[test]
fn one_pool_may_be_that_of_loopbacks_and_networks() {
    let import = topology(
        "addressing.core: {ipv4: 10.7.0.0/16, prefix: 28}\nprefix: {away: {pool: core}}\nnodes:\n  a: {loopback.pool: \
         core}\n  b: {loopback.pool: core}\n  h1: {device: linux}\n  br: {device: linux, role: bridge}\nlinks:\n- {a: , \
         b: , prefix: away}\n- {a: , h1: , pool: core}\n- {b: , h1: , role: core, bridge: br}\n",
    );
    have(
        &import,
        &[
            "a:eth1 10.7.0.1/28",
            "a:eth2 10.7.0.65/28",
            "b:eth1 10.7.0.2/28",
            "b:eth2 10.7.0.18/28",
            "h1:eth1 10.7.0.67/28",
            "h1:eth2 10.7.0.19/28",
        ],
    );
    let plan = plan(&import);
    let loopbacks = format!("{:?} {:?}", plan.nodes[0].loopback, plan.nodes[1].loopback);
    assert!(
        loopbacks.contains("10.7.0.33/28") && loopbacks.contains("10.7.0.49/28"),
        "{loopbacks}"
    );
}

// networklab 26.10 of random topologies: cases 138, 149 and 152. Beside a bridge a node has the address of its place in the pair
// of both, in which the bridge of a network is the first; without a prefix each pair takes its own.
#[test]
fn addresses_beside_a_bridge_are_those_of_a_pair() {
    let import = topology(
        "addressing.lan.allocation: sequential\nnodes:\n  r1: {id: 2}\n  h1: {device: linux}\n  h2: {device: linux}\n  z: \
         {id: 1}\n  br: {device: linux, role: bridge}\nlinks:\n- {h1: , br: }\n- {br: , r1: }\n- {r1: {ipv4: 7}, h2: , \
         bridge: br}\n- {prefix: {ipv4: 192.168.67.0/28, allocation: p2p}, z: , bridge: br}\n- {prefix: {ipv4: \
         192.168.68.0/28, allocation: sequential}, r1: , bridge: br}\n- {unnumbered: true, r1: , z: , bridge: br}\n- \
         {prefix: {ipv4: true}, r1: , z: , bridge: br}\n- {prefix: false, r1: , z: , bridge: br}\n",
    );
    have(
        &import,
        &[
            "r1:eth1 172.16.0.2/24",
            "r1:eth2 172.16.1.7/24",
            "r1:eth3 192.168.68.2/28",
            "r1:eth4 10.1.0.2/30",
            "r1:eth5 10.0.0.2/32",
            "r1:eth6 10.1.0.10/30",
            "h1:eth1 172.16.0.1/24",
            "h2:eth1 172.16.1.2/24",
            "z:eth1 192.168.67.2/28",
            "z:eth2 10.1.0.5/30",
            "z:eth3 10.0.0.1/32",
            "z:eth4 10.1.0.13/30",
        ],
    );
    let import = topology(
        "addressing.p2p: {ipv4: true}\nnodes:\n  r1:\n  z:\n  h1: {device: linux}\n  br: {device: linux, role: \
         bridge}\nlinks:\n- r1-z\n- {unnumbered: true, r1: , h1: , z: , bridge: br}\n- h1-z\n",
    );
    have(
        &import,
        &[
            "r1:eth2 10.0.0.1/32",
            "h1:eth1 172.16.1.3/24",
            "h1:eth2 172.16.2.3/24",
            "z:eth3 10.0.0.2/32",
        ],
    );
}

// networklab 26.10, second seed of `cargo xtask oracles netlab`: case 100. A network that a bridge joins does nothing to its links.
#[test]
fn traffic_control_is_that_of_ends_where_a_bridge_joins() {
    let import = topology(
        "nodes:\n  a:\n  b:\n  br: {device: linux, role: bridge}\nlinks:\n- {a: , b: {tc.loss: 1}, bridge: br, tc: \
         {delay: 1}}\n- {a: , br: , tc.delay: 2}\n",
    );
    assert!(import.lab.contains("b: {loss: 1%}}"), "{}", import.lab);
    assert!(!import.lab.contains("delay: 1ms"), "{}", import.lab);
    assert!(import.lab.contains("delay: 2ms"), "{}", import.lab);
    assert!(matches!(verdict(&import, "links[0].tc.delay"), Verdict::LeftOut(_)));
}

// networklab 26.10 of random topologies: case 173. Behind a bridge a node is one neighbour whatever the number of its links, and
// not its own.
#[test]
fn two_links_to_one_bridge_are_one_neighbour() {
    let import = topology(
        "module: [ospf]\nnodes:\n  core:\n  r1:\n  d: {role: host, module: [ospf]}\n  h1: {device: linux}\n  br: {device: \
         linux, role: bridge}\n  sw2: {device: linux, role: bridge}\nlinks:\n- [core, br]\n- {core: , br: }\n- {r1: , core: , \
         bridge: sw2}\n- sw2-r1\n- {d: , h1: , bridge: br}\n- {d: , r1: , bridge: br}\n- {r1: , bridge: br}\n",
    );
    let said = |node: &str, iface: &str| {
        let text = config(&import, node).join("\n");
        let (_, own) = text.split_once(&format!("interface {iface}\n")).expect("the interface");
        let (own, _) = own.split_once("\n!").unwrap_or((own, ""));
        own.replace("ip ospf ", "").replace('\n', " ")
    };
    let pair = "area 0.0.0.0 network point-to-point";
    for (node, iface, want) in [
        ("core", "eth1", pair),
        ("core", "eth2", pair),
        ("core", "eth3", "area 0.0.0.0"),
        ("r1", "eth1", pair),
        ("r1", "eth2", "area 0.0.0.0"),
        ("r1", "eth3", "area 0.0.0.0"),
        ("r1", "eth4", pair),
        ("d", "eth1", "area 0.0.0.0 passive"),
        ("d", "eth2", "area 0.0.0.0"),
    ] {
        assert!(said(node, iface).ends_with(want), "{node}:{iface}: {}", said(node, iface));
    }
    // Two systems have one session over it.
    let import = topology(
        "module: [bgp]\nnodes:\n  a: {bgp.as: 65001}\n  b: {bgp.as: 65002}\n  h1: {device: linux}\n  br: {device: linux, \
         role: bridge}\nlinks:\n- a-br\n- br-b\n- b-br\n- {a: , h1: , bridge: br}\n",
    );
    let lines = config(&import, "a");
    let sessions = lines.iter().filter(|line| line.ends_with("remote-as 65002")).count();
    assert_eq!(sessions, 1, "{lines:#?}");
    assert!(!lines.iter().any(|line| line.starts_with("network 172")), "{lines:#?}");
}
