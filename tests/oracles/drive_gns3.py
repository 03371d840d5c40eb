"""GNS3: projects, read by gns3-server's own loader of topologies, and its nodes' ports and links' filters.

Startup files of VPCS are not asked for: the server only hands them on.
"""

import asyncio
import json
import logging
import os
import re
import uuid

FILTERS = {
    "frequency_drop": lambda draws: [draws.choice([-1, 0, 1, 3, 50, 100, 700])],
    "packet_loss": lambda draws: [draws.choice([0, 1, 20, 33, 100])],
    "delay": lambda draws: [draws.choice([0, 5, 40, 1500]), draws.choice([0, 0, 2, 10])][:draws.choice([1, 2, 2])],
    "corrupt": lambda draws: [draws.choice([0, 2, 15])],
    "bpf": lambda draws: [draws.choice(["", "icmp", "tcp port 80"])],
}


def called(name):
    """A name as a lab file has it."""
    return name.replace(" ", "-").replace("#", "-")


def identity(draws):
    return str(uuid.UUID(int=draws.getrandbits(128), version=4))


def node(draws, kind, number):
    properties = {}
    if kind == "docker":
        adapters = draws.randrange(1, 5)
        properties = {"adapters": adapters, "image": draws.choice(["alpine:3", "gns3/ipterm", "ubuntu"]),
                      "start_command": draws.choice(["", "", "sleep 600", "sh -c 'a; b'"]),
                      "environment": draws.choice(["", "A=1", "A=1\nB=two words"])}
        if draws.random() < 0.5:
            properties["mac_address"] = "02:42:%02x:00:%02x:00" % (draws.randrange(256), number)
    elif kind in ("ethernet_switch", "ethernet_hub"):
        ports = [{"name": "Ethernet%d" % port, "port_number": port} for port in range(draws.randrange(4, 9))]
        if kind == "ethernet_switch":
            tagged = draws.random() < 0.3
            for port in ports:
                port.update(type="access", vlan=draws.choice([1, 10, 20]) if tagged else 1)
                if tagged and draws.random() < 0.3:
                    port.update(type=draws.choice(["dot1q", "dot1q", "qinq"]))
                if draws.random() < 0.2 or port["type"] == "qinq" and draws.random() < 0.7:
                    port.update(ethertype=draws.choice(["", "0x8100", "0x88A8", "0x9100", "0x9200"]))
        properties = {"ports_mapping": ports}
    elif kind == "cloud":
        properties = {"ports_mapping": [{"interface": "eth%d%d" % (number, port), "name": "eth%d%d" % (number, port), "port_number": port,
                                         "type": "ethernet"} for port in range(draws.randrange(1, 3))]}
    elif kind == "qemu":
        properties = {"adapters": 2, "adapter_type": "e1000", "ram": 256, "hda_disk_image": "x.qcow2"}
    elif kind == "nat":
        properties = {"ports_mapping": [{"interface": "virbr0", "name": "nat0", "port_number": 0, "type": "ethernet"}]}
    names = {"vpcs": "PC%d", "docker": draws.choice(["box-%d", "box %d"]), "ethernet_switch": "Switch%d",
             "ethernet_hub": draws.choice(["Hub%d", "Hub #%d"]), "cloud": "Cloud%d", "nat": "NAT%d", "qemu": "vm%d", "traceng": "Trace%d"}
    made = {"compute_id": "local", "node_id": identity(draws), "node_type": kind, "name": names[kind] % number,
            "properties": properties, "console": 5000 + number, "console_type": "telnet", "x": number * 10, "y": 0, "z": 1,
            "symbol": ":/symbols/x.svg"}
    if draws.random() < 0.3:
        made.update(label={"text": "x", "x": 1, "y": 2, "style": "", "rotation": 0}, locked=False, template_id=identity(draws))
    if kind in ("docker", "qemu") and draws.random() < 0.3:
        made.update(port_name_format="Ethernet{0}", port_segment_size=draws.choice([0, 2]), first_port_name=draws.choice([None, "mgmt"]))
    if kind == "docker" and draws.random() < 0.2:
        made["custom_adapters"] = [{"adapter_number": 0, "mac_address": "02:aa:00:00:00:%02x" % number}]
    return made


def free(nodes):
    """Ports of nodes, by node."""
    ports = {}
    for made in nodes:
        kind, given = made["node_type"], made["properties"]
        if kind in ("docker", "qemu"):
            ports[made["node_id"]] = [(adapter, 0) for adapter in range(given["adapters"])]
        elif kind in ("vpcs", "traceng"):
            ports[made["node_id"]] = [(0, 0)]
        else:
            ports[made["node_id"]] = [(0, port["port_number"]) for port in given["ports_mapping"]]
    return ports


def make(draws, folder, _number):
    kinds = ["vpcs", "docker"] * 4 + ["ethernet_switch", "ethernet_hub"] * 2 + ["cloud", "nat", "traceng"]
    if draws.random() < 0.01:
        kinds.append("qemu")
    nodes = [node(draws, draws.choice(kinds), number) for number in range(1, draws.randrange(3, 9))]
    ports, links, joined = free(nodes), [], {made["node_id"]: made["node_id"] for made in nodes}
    switches = {made["node_id"] for made in nodes if made["node_type"].startswith("ethernet")}
    doors = {made["node_id"] for made in nodes if made["node_type"] in ("nat", "cloud")}

    def root(at):
        while joined[at] != at:
            at = joined[at]
        return at

    for _ in range(draws.randrange(1, 10)):
        both = [one for one in ports if ports[one]]
        if len(both) < 2:
            break
        one, two = draws.sample(both, 2)
        if one in doors and two in doors:
            continue
        if one in switches and two in switches:
            # GNS3's switches have no spanning tree: nobody builds a loop of them.
            if root(one) == root(two):
                continue
            joined[root(one)] = root(two)
        ends = []
        for end in (one, two):
            adapter, port = ports[end].pop(draws.randrange(len(ports[end])))
            ends.append({"node_id": end, "adapter_number": adapter, "port_number": port})
        link = {"link_id": identity(draws), "nodes": ends}
        if draws.random() < 0.6:
            chosen = draws.sample(sorted(FILTERS), draws.randrange(0, 4))
            link["filters"] = {name: FILTERS[name](draws) for name in chosen}
        if draws.random() < 0.2:
            link["suspend"] = draws.random() < 0.5
        links.append(link)
    project = {"project_id": identity(draws), "name": "lab", "type": "topology", "version": "2.2.61", "revision": 9,
               "auto_start": False, "topology": {"computes": [], "drawings": [], "nodes": nodes, "links": links}}
    with open(os.path.join(folder, "lab.gns3"), "w", encoding="utf-8") as file:
        json.dump(project, file, indent=1)
    return "lab.gns3"


def ask(cases, _folder):
    return [asyncio.run(meaning(os.path.join(case.folder, "lab.gns3"))) for case in cases]


async def meaning(path):
    from types import SimpleNamespace

    import aiohttp.web  # The server relies on it.  # noqa: F401

    from gns3server.controller.link import Link
    from gns3server.controller.node import Node
    from gns3server.controller.topology import load_topology

    try:
        topology = load_topology(path)["topology"]
    except Exception as error:  # The server answers with an error of HTTP, which has its own type.
        return str(error)
    logging.disable(logging.CRITICAL)
    controller = SimpleNamespace(symbols=SimpleNamespace(get_size=lambda _symbol: (1, 1, "svg")))
    project = SimpleNamespace(update_node_name=lambda _node, name: name, controller=controller)
    found = {"nodes": {}, "interfaces": {}, "links": {}}
    known = {}
    for data in topology["nodes"]:
        rest = {key: value for key, value in data.items() if key not in ("compute_id", "name", "node_id", "properties", "symbol")}
        made = Node(project, SimpleNamespace(id="local"), data["name"], node_id=data["node_id"], **rest)
        made._properties = data["properties"]
        made._list_ports()
        known[data["node_id"]] = made
        name = called(data["name"])
        if data["node_type"] in ("nat", "cloud"):
            continue
        if data["node_type"].startswith("ethernet"):
            found["nodes"][name] = {"kind": "switch"}
            continue
        given = data["properties"]
        found["nodes"][name] = {"kind": "node"}
        for key, value in (("image", given.get("image")), ("command", given.get("start_command"))):
            if value:
                found["nodes"][name][key] = value
        for line in (given.get("environment") or "").strip().split("\n"):
            variable, _, value = line.strip().partition("=")
            if variable:
                found["nodes"][name].setdefault("env", {})[variable] = value
    for data in topology["links"]:
        link = Link(project, link_id=data["link_id"])
        await link.update_filters(data.get("filters", {}))
        ends = []
        for end in data["nodes"]:
            of = known[end["node_id"]]
            port = of.get_port(end["adapter_number"], end["port_number"])
            if port is None or port.link is not None:
                continue
            port.link = link
            name = called(of.name)
            if of.node_type in ("nat", "cloud"):
                # A lab has doors instead of such nodes.
                inner = {each["port_number"]: each["interface"] for each in of.properties["ports_mapping"]}
                ends.append("internet" if of.node_type == "nat" else "host:" + inner[end["port_number"]])
                continue
            if of.node_type.startswith("ethernet"):
                ends.append(name)
                continue
            iface = "eth%d" % end["adapter_number"]
            ends.append("%s:%s" % (name, iface))
            mac = getattr(port, "mac_address", None)
            found["interfaces"].setdefault(name, {})[iface] = {"mac": mac} if mac else {"there": True}
        if len(ends) == 2:
            import lab
            for end, other in (data["nodes"], ends[::-1][:1]), (data["nodes"][::-1], ends[:1]):
                of = known[end[0]["node_id"]]
                if of.node_type == "ethernet_switch":
                    inner = {each["port_number"]: each for each in of.properties["ports_mapping"]}[end[0]["port_number"]]
                    rule = [inner.get("type", "access"), inner.get("vlan", 1)]
                    if rule[0] == "qinq":
                        # Dynamips has 0x8100 where it is given none, and drops frames without a tag.
                        rule += [(inner.get("ethertype") or "0x8100").lower(), "tagged"]
                    if rule != ["access", 1]:
                        rules = found["nodes"][called(of.name)].setdefault("ports", {}).setdefault(other[0], [])
                        # Of links to one end the same rule counts once.
                        rules += [rule] if rule not in rules else []
            way = shape(link.filters)
            lab.put(found["links"], *lab.link(ends, [way, way], there=True))
    return found


def shape(filters):
    """What a link's filters do."""
    made = {}
    for name, values in filters.items():
        if name == "delay":
            made["delay"] = values[0] * 1000.0
            if len(values) > 1 and values[1]:
                made.update({"jitter": values[1] * 1000.0, "jitter-shape": "uniform"})
        elif name == "packet_loss":
            made["loss"] = float(values[0])
        elif name == "corrupt":
            made["corrupt"] = float(values[0])
        elif name == "bpf":
            made["drop"] = values[0]
    every = filters.get("frequency_drop", [None])[0]
    if every == -1:
        made["loss"] = 100.0
    elif every and "loss" in made:
        made["loss"] = round(100.0 - (100.0 - made["loss"]) * (1.0 - 1.0 / every), 4)
    elif every == 1:
        made["loss"] = 100.0
    elif every:
        made["loss"] = {"every": every}
    return made


def past(found, tree):
    """Takes the bridges out that import puts between a switch and the host's network, and calls ports after their ends."""
    import lab
    names = {}
    for wire in tree.get("links") or []:
        one, two = wire["ends"]
        names.update({"%s--%s" % (at, other): {at: other, other: at} for at, other in ((one, two), (two, one))})
    doors = {}
    for name in [name for name in tree.get("switches") or {} if re.fullmatch(r"between(-\d+)?", name)]:
        found["nodes"].pop(name, None)
        keys = [key for key in found["links"] if name in key.split(" #")[0].split(" -- ")]
        ends = [end for key in keys for end in key.split(" #")[0].split(" -- ") if end != name]
        wires = [found["links"].pop(key) for key in keys]
        doors[name] = next(end for end in ends if end == "internet" or end.startswith("host:"))
        way = next((wire["a"] for wire in wires if "a" in wire), {})
        lab.put(found["links"], *lab.link(ends, [dict(way), dict(way)], there=True))

    def end(switch, port):
        """What is behind a port that is called after its link, or after a bridge."""
        wanted = names.get(port.split("#")[0], {}).get(switch, port) if "--" in port else port
        return doors.get(wanted, wanted)
    return end


def ours(found, tree, _report):
    end_of = past(found, tree)
    for name, made in found["nodes"].items():
        if made["kind"] == "switch" or name in (tree.get("switches") or {}):
            given = (tree["switches"][name] or {}).get("ports") or {}
            found["nodes"][name] = {"kind": "switch"}
            for end, port in given.items():
                if "qinq" in port:
                    rule = ["qinq", port["qinq"], "0x%04x" % port["tpid"], "tagged" if port.get("cvlans") == "all" else "any"]
                else:
                    rule = ["dot1q", port["native"]] if "trunk" in port else ["access", port["vlan"]]
                if rule != ["access", 1]:
                    rules = found["nodes"][name].setdefault("ports", {}).setdefault(end_of(name, end), [])
                    rules += [rule] if rule not in rules else []
            continue
        kept = {key: made[key] for key in ("kind", "image", "env") if key in made}
        if made.get("run"):
            import shlex
            kept["command"] = shlex.join(made["run"][0])
        found["nodes"][name] = kept
    found["interfaces"].pop("host", None)
    for own in found["interfaces"].values():
        for name, interface in own.items():
            own[name] = {"mac": interface["mac"]} if "mac" in interface else {"there": True}
    for link in found["links"].values():
        link.pop("mtu", None)
        link["there"] = True
        for side in ("a", "b"):
            loss = (link.get(side) or {}).get("loss")
            if isinstance(loss, dict):
                link[side]["loss"] = {"every": len(loss["pattern"])} if len(loss["pattern"]) > 1 else 100.0
    return found


def told(path, _theirs, _ours, item):
    """Whether a line is about a difference: of a link, by its ends; of a machine with a vendor's image."""
    why = item["why"] or ""
    if any("vm" in part for part in path) and why.startswith("netloom runs no qemu"):
        return True
    if path[0] == "links":
        names = path[1].split(" #")[0].split(" -- ")
        ends = [names, names[::-1]]
        return "links[" in item["item"] and any('link "%s--%s"' % tuple(end) in why for end in ends)
    return False
