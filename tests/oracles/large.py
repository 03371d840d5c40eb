"""How long imports of large labs take: large.py NETLOOM [NODES]

Each format's lab has NODES nodes (500), twenty on a switch, and the switches on one more. The time is that of
`netloom import FILE -o OUT` from start to end, and that of processors, the best of three each.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import uuid

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True


def address(number):
    return "10.%d.%d.%d" % (number >> 16, number >> 8 & 255, number & 255)


def groups(nodes):
    """Switches, each with its nodes."""
    return {at: range(at * 20, min(at * 20 + 20, nodes)) for at in range((nodes + 19) // 20)}


def containerlab(nodes):
    lines = ["name: large", "mgmt: {ipv4-subnet: 172.20.0.0/16}", "topology:", "  nodes:"]
    for number in range(nodes):
        lines.append("    n%d: {kind: linux, image: alpine:3, exec: [ip address add %s/8 dev eth1]}" % (number, address(number + 1)))
    lines += ["    s%d: {kind: bridge}" % at for at in groups(nodes)] + ["    core: {kind: bridge}", "  links:"]
    for at, own in groups(nodes).items():
        lines.append('    - endpoints: ["core:c%d", "s%d:up"]' % (at, at))
        lines += ['    - endpoints: ["n%d:eth1", "s%d:p%d"]' % (number, at, number) for number in own]
    return {"large.clab.yml": "\n".join(lines) + "\n"}


def kathara(nodes):
    files, lines = {}, []
    for at, own in groups(nodes).items():
        for number in own:
            lines += ['n%d[0]="L%d"' % (number, at), 'n%d[image]="kathara/base"' % number, 'n%d[mem]="64m"' % number]
            files["n%d.startup" % number] = "ip address add %s/8 dev eth0\n" % address(number + 1)
    return dict({"lab.conf": "\n".join(lines) + "\n"}, **files)


def mininet(nodes):
    text = "from mininet.net import Mininet\nfrom mininet.node import OVSBridge\nnet = Mininet(switch=OVSBridge)\ncore = net.addSwitch('s9000')\n"
    for at, own in groups(nodes).items():
        text += "s = net.addSwitch('s%d')\nnet.addLink(s, core)\n" % (at + 1)
        text += "".join("net.addLink(net.addHost('n%d', ip='%s/8'), s)\n" % (number, address(number + 1)) for number in own)
    return {"large.py": text + "net.start()\nnet.stop()\n"}


def gns3(nodes):
    made, links = [], []

    def identity(number):
        return str(uuid.UUID(int=number))

    def link(one, two):
        ends = [{"node_id": identity(at), "adapter_number": 0, "port_number": port} for at, port in (one, two)]
        links.append({"link_id": identity(900000 + len(links)), "nodes": ends, "filters": {"delay": [5, 0]}})

    def node(number, kind, name, ports):
        mapping = [{"name": "e%d" % port, "port_number": port, "type": "access", "vlan": 1} for port in range(ports)]
        made.append({"compute_id": "local", "node_id": identity(number), "node_type": kind, "name": name,
                     "properties": {"ports_mapping": mapping} if ports else {}})

    node(1, "ethernet_switch", "core", len(groups(nodes)))
    files = {}
    for at, own in groups(nodes).items():
        node(1000 + at, "ethernet_switch", "s%d" % at, 21)
        link((1, at), (1000 + at, 20))
        for port, number in enumerate(own):
            node(100000 + number, "vpcs", "n%d" % number, 0)
            link((100000 + number, 0), (1000 + at, port))
            path = "project-files/vpcs/%s/startup.vpc" % identity(100000 + number)
            files[path] = "set pcname n%d\nip %s 10.255.255.254 8\n" % (number, address(number + 1))
    project = {"project_id": identity(7), "name": "large", "type": "topology", "version": "2.2.61", "revision": 9,
               "topology": {"computes": [], "drawings": [], "nodes": made, "links": links}}
    return dict({"large.gns3": json.dumps(project, indent=1)}, **files)


def core(nodes):
    devices, networks, links = [], ['<network id="9000" name="core" type="SWITCH"/>'], []
    for at, own in groups(nodes).items():
        networks.append('<network id="%d" name="s%d" type="SWITCH"/>' % (8000 + at, at))
        links.append('<link node1="9000" node2="%d"/>' % (8000 + at))
        for number in own:
            devices.append('<device id="%d" name="n%d" type="PC"/>' % (number + 1, number))
            links.append('<link node1="%d" node2="%d"><iface1 id="0" name="eth0" ip4="%s" ip4_mask="8"/></link>'
                         % (number + 1, 8000 + at, address(number + 1)))
    parts = [("networks", networks), ("devices", devices), ("links", links)]
    inner = "\n".join("<%s>\n%s\n</%s>" % (name, "\n".join(all_of), name) for name, all_of in parts)
    return {"large.xml": '<?xml version="1.0"?>\n<scenario name="large">\n%s\n</scenario>\n' % inner}


def imunes(nodes):
    text, links = [], []

    def link(one, two):
        links.append("link l%d {\n    nodes {%s %s}\n}\n" % (len(links), one[0], two[0]))
        return ["interface-peer {%s %s}" % (one[1], two[0]), "interface-peer {%s %s}" % (two[1], one[0])]

    switches = {"core": []}
    for at, own in groups(nodes).items():
        mine, other = link(("s%d" % at, "e99"), ("core", "e%d" % at))
        switches["s%d" % at] = [mine]
        switches["core"].append(other)
        for number in own:
            mine, other = link(("n%d" % number, "eth0"), ("s%d" % at, "e%d" % number))
            switches["s%d" % at].append(other)
            text.append("node n%d {\n    type pc\n    network-config {\n\thostname n%d\n\t!\n\tinterface eth0\n\t ip address %s/8\n\t!\n    }\n    %s\n}\n"
                        % (number, number, address(number + 1), mine))
    for name, peers in switches.items():
        text.append("node %s {\n    type lanswitch\n    network-config {\n\thostname %s\n\t!\n    }\n    %s\n}\n"
                    % (name, name, "\n    ".join(peers)))
    return {"large.imn": "".join(text + links)}


def netlab(nodes):
    tree = {"provider": "clab", "name": "large", "defaults": {"device": "frr", "const": {"MAX_NODE_ID": nodes}}, "module": ["ospf"],
            "addressing": {"lan": {"ipv4": "10.64.0.0/10", "prefix": 22}, "loopback": {"ipv4": "10.0.0.0/16"}},
            "nodes": {"r%d" % at: None for at in groups(nodes)}, "links": []}
    for at, own in groups(nodes).items():
        own = [number for number in own if number + len(groups(nodes)) < nodes]
        tree["nodes"].update({"n%d" % number: {"device": "linux"} for number in own})
        tree["links"].append({"interfaces": ["r%d" % at] + ["n%d" % number for number in own]})
        if at:
            tree["links"].append({"r%d" % (at - 1): None, "r%d" % at: None})
    return {"topology.yml": json.dumps(tree, indent=1)}


def cpu():
    """Processor time of all children so far."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def main():
    netloom = os.path.abspath(sys.argv[1])
    nodes = int(sys.argv[2]) if len(sys.argv) > 2 else 500
    for make in (containerlab, kathara, mininet, gns3, core, imunes, netlab):
        with tempfile.TemporaryDirectory() as folder:
            files = make(nodes)
            for path, text in files.items():
                path = os.path.join(folder, path)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
            main_file = next(iter(files))
            given = "." if main_file == "lab.conf" else main_file
            took, used = [], []
            for _ in range(3):
                before, spent = time.monotonic(), cpu()
                done = subprocess.run([netloom, "import", given, "-o", os.path.join(folder, "out.yaml")], cwd=folder,
                                      stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
                took.append(time.monotonic() - before)
                used.append(cpu() - spent)
                if done.returncode:
                    sys.exit("%s: %s" % (make.__name__, done.stderr))
                os.remove(os.path.join(folder, "out.yaml"))
            row = (make.__name__, nodes, min(took), min(used))
            print("%-13s %4d nodes  %.2f s, %.2f s of processors" % row, flush=True)


main()
