"""netlab: topologies of the devices frr and linux."""

import ipaddress
import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


class Topology:
    """A topology that is being made."""

    def __init__(self, draws):
        self.draws = draws
        self.tree = {"provider": "clab", "name": "lab"}
        count = draws.randrange(2, 8)
        names = ["r1", "r2", "a", "b", "core", "x1", "pe2", "z"]
        self.routers = draws.sample(names, min(count, 6))
        self.hosts = ["h%d" % number for number in range(1, draws.randrange(1, 4))]
        self.nodes = {name: {} for name in self.routers + self.hosts}
        self.defaults = {"device": "frr"}
        self.bridges = []
        if self.chance(0.15):
            self.bridges = draws.sample(["br", "sw2"], draws.choice([1, 1, 2]))
            self.nodes.update((name, {"device": "linux", "role": "bridge"}) for name in self.bridges)

    def chance(self, share):
        return self.draws.random() < share

    def addressing(self):
        """Pools of addresses."""
        pools = {}
        if self.chance(0.3):
            pools["loopback"] = self.draws.choice([
                {"ipv4": "10.255.0.0/16"}, {"ipv4": "192.168.0.0/24", "prefix": 32}, {"ipv4": "10.0.0.0/16", "prefix": 29}])
        if self.chance(0.3):
            pools["lan"] = self.draws.choice([
                {"ipv4": "172.20.0.0/16", "prefix": 24}, {"ipv4": "172.18.0.0/20", "prefix": 26}, {"ipv4": "10.44.0.0/16"},
                {"ipv4": "10.44.0.0/20", "prefix": 29}])
        if self.chance(0.3):
            pools["p2p"] = self.draws.choice([
                {"ipv4": "10.2.0.0/16", "prefix": 30}, {"ipv4": "10.9.0.0/24", "prefix": 31}, {"ipv4": True}, {"unnumbered": True},
                {"ipv4": "10.9.0.0/20"}])
        pools["core"] = self.draws.choice([{"ipv4": "10.7.0.0/24", "prefix": 30}, {"ipv4": "10.7.0.0/16"}, {"ipv4": "10.7.0.0/24", "prefix": 31}])
        for name in ("lan", "core"):
            if self.chance(0.08):
                pools.setdefault(name, {})["allocation"] = self.draws.choice(["sequential", "id_based"])
        if self.chance(0.06):
            pools["router_id"] = {"ipv4": "10.66.0.0/24", "prefix": 32}
        if self.chance(0.1):
            pools[self.draws.choice(["lan", "p2p", "core"])] = "172.29.0.0/16"
        self.tree["addressing"] = pools
        if self.chance(0.1):
            self.defaults["addressing"] = {"p2p": {"ipv4": "10.31.0.0/16"}, "lan": {"prefix": 25}}
        if self.chance(0.2):
            self.tree["prefix"] = {"home": {"ipv4": "192.168.77.0/24"}, "away": {"pool": "lan"}}

    def node(self, name, number):
        """The attributes of a node."""
        node = self.nodes[name]
        if name in self.bridges:
            return
        if name in self.hosts:
            node["device"] = "linux"
            if self.chance(0.05):
                node["loopback"] = self.draws.choice([True, False])
        if self.chance(0.15):
            node["id"] = 20 + number * 7 if self.chance(0.6) else number + 1
        if self.chance(0.06):
            node["mtu"] = self.draws.choice([1400, 9000])
        if name in self.routers:
            if self.chance(0.06):
                node["loopback"] = self.draws.choice([False, True, {"ipv4": "10.99.0.%d/32" % (number + 1)}, {"pool": "core"}])
            if self.chance(0.06):
                node["router_id"] = "10.88.0.%d" % (number + 1)
            if self.chance(0.08):
                node["role"] = "host"
                node.pop("ospf", None)
                node.pop("bgp", None)

    def groups(self):
        """Groups: by name, by pattern, of groups, with attributes."""
        if self.chance(0.5):
            return
        groups = {}
        some = self.draws.sample(self.routers, min(2, len(self.routers)))
        groups["g1"] = {"members": some, "mtu": 1450} if self.chance(0.5) else some
        if self.chance(0.5):
            groups["a0"] = {"members": ["g1"] + self.draws.sample(self.routers, 1), "mtu": self.draws.choice([1300, 1480])}
        if self.chance(0.3):
            groups["patterned"] = {"members": self.draws.choice([["h*"], ["~h[0-9]"], ["h?"]]), "mtu": 1420}
        if self.chance(0.2):
            groups["all"] = {"mtu": 1490}
        if self.chance(0.2):
            groups["frr"] = {"ospf.reference_bandwidth": 5000}
        if self.chance(0.15) and "ospf" in self.tree.get("module", []):
            groups["areas"] = {"members": self.routers[:1], self.draws.choice(["ospf.area", "node_data"]): {"ospf.area": 4}}
            if "ospf.area" in groups["areas"]:
                groups["areas"]["ospf.area"] = 4
        if self.chance(0.15):
            groups["named"] = {"mtu": 1466}
            self.nodes[self.routers[-1]]["group"] = self.draws.choice(["named", ["named"]])
        if self.chance(0.1) and "module" not in self.tree:
            groups["speakers"] = {"members": list(self.routers), "module": ["ospf"]}
        self.tree["groups"] = groups

    def modules(self):
        """Protocols."""
        named = self.draws.choice([[], ["ospf"], ["ospf"], ["bgp"], ["ospf", "bgp"]])
        if named:
            self.tree["module"] = named
        if "ospf" in named:
            if self.chance(0.2):
                self.tree["ospf"] = self.draws.choice([{"area": 1}, {"area": "0.0.0.2"}, {"reference_bandwidth": 20000}, {"passive": True}])
            if self.chance(0.08):
                self.defaults["ospf"] = {"area": 7}
            for name in self.routers:
                if self.chance(0.15):
                    self.nodes[name]["ospf"] = self.draws.choice([{"area": 3}, {"reference_bandwidth": 1000}, {"router_id": "1.2.3.4"}])
        if "bgp" in named:
            if self.chance(0.4):
                half = max(1, len(self.routers) // 2)
                self.tree["bgp"] = {"as_list": {65000: {"members": self.routers[:half]}, 65001: {"members": self.routers[half:]}}}
                if self.chance(0.4):
                    self.tree["bgp"]["as_list"][65000]["rr"] = self.routers[:1]
                if not self.routers[half:]:
                    del self.tree["bgp"]["as_list"][65001]
            else:
                for name in self.routers:
                    self.nodes[name]["bgp"] = {"as": self.draws.choice([65000, 65000, 65001, 65002])}
            for name in self.routers:
                own = self.nodes[name]
                for key, values in (("originate", [["172.31.%d.0/24" % len(name)], "172.31.9.0/24"]), ("next_hop_self", [False, True]),
                                    ("advertise_loopback", [False]), ("rr", [True]), ("router_id", ["10.55.0.%d" % len(name)])):
                    if self.chance(0.06):
                        own.setdefault("bgp", {})[key] = self.draws.choice(values)
            if self.chance(0.1):
                self.tree.setdefault("bgp", {})["next_hop_self"] = False
            if self.chance(0.1):
                self.tree.setdefault("bgp", {})["advertise_loopback"] = False

    def shapes(self):
        """`tc` of a link."""
        found = {}
        for key, values, share in (("delay", [1, 10, 2.5, "20ms"], 0.6), ("jitter", [1, 0.5], 0.2), ("loss", [1, 0.5, 10], 0.3),
                                   ("rate", [1000, 10000, 512], 0.3), ("duplicate", [1], 0.1), ("corrupt", [0.1], 0.1), ("reorder", [2, 25], 0.1)):
            if self.chance(share) and (key not in ("jitter", "reorder") or "delay" in found):
                found[key] = self.draws.choice(values)
        return found

    def end(self, name):
        """The attributes of an end."""
        found = {}
        if self.chance(0.06):
            found["ipv4"] = self.draws.choice([False, 7, True, -2, 3] if name in self.routers else [False, 7, -2])
        if self.chance(0.06):
            found["mtu"] = self.draws.choice([1350, 1600])
        if self.chance(0.04):
            found["ifname"] = "up%d" % self.draws.randrange(100)
        elif self.chance(0.05):
            found["ifindex"] = self.draws.randrange(5, 9)
        if "ospf" in self.tree.get("module", []) and name in self.routers and self.chance(0.1):
            found["ospf"] = self.draws.choice([{"cost": 12}, {"area": 5}, {"passive": True}, {"passive": False}, {"network_type": "broadcast"},
                                               {"network_type": "point-to-multipoint"}, False])
        if self.chance(0.05):
            found["tc"] = self.shapes()
        return found

    def attributes(self, ends):
        """The attributes of a link."""
        found = {}
        kind = self.draws.randrange(14)
        if kind == 0:
            found["prefix"] = self.draws.choice(["192.168.%d.0/24", "192.168.%d.8/29", {"ipv4": "192.168.%d.0/26"}])
            text = json.dumps(found["prefix"]) % self.draws.randrange(1, 50)
            found["prefix"] = json.loads(text)
            if len(ends) == 2 and self.chance(0.3):
                found["prefix"] = "192.168.99.4/31"
            if len(ends) == 1 and self.chance(0.4):
                found["prefix"] = "192.168.98.1/32"
        elif kind == 1:
            found["prefix"] = False
        elif kind == 2:
            found["unnumbered"] = self.draws.choice([True, True, False])
        elif kind == 3:
            found[self.draws.choice(["pool", "role"])] = "core"
        elif kind == 4:
            found["role"] = self.draws.choice(["external", "passive"])
        elif kind == 5 and "prefix" in self.tree:
            found["prefix"] = self.draws.choice(["home", "away"])
        if self.chance(0.12):
            found["type"] = self.draws.choice(["lan", "p2p"]) if len(ends) == 2 else "stub" if len(ends) == 1 else "lan"
        if self.chance(0.06):
            found["prefix"] = self.draws.choice([
                {"ipv4": "192.168.%d.0/28" % self.draws.randrange(60, 90), "allocation": self.draws.choice(["sequential", "id_based"])},
                {"allocation": "sequential"}, {"ipv4": True}])
        if "ospf" in self.tree.get("module", []) and self.chance(0.1):
            found["ospf"] = self.draws.choice([{"cost": 33}, {"area": 6}, {"passive": True}, {"network_type": "point-to-point"}, False])
        if "bgp" in self.tree.get("module", []) and self.chance(0.1):
            found["bgp"] = self.draws.choice([{"advertise": True}, {"advertise": False}])
        if self.bridges and len(ends) > 1 and self.chance(0.3):
            found["bridge"] = self.draws.choice(self.bridges)
        elif self.chance(0.03):
            found["bridge"] = "lanbr"
        if self.chance(0.12):
            found["tc"] = self.shapes()
        if self.chance(0.08):
            found["mtu"] = self.draws.choice([1400, 2000])
        if self.chance(0.05):
            found["bandwidth"] = 100000
        if self.chance(0.04):
            found["name"] = "a link"
        if self.chance(0.03):
            found["disable"] = True
        return found

    def link(self):
        """A link in one of its forms."""
        count = self.draws.choice([1, 2, 2, 2, 2, 2, 3, 4])
        usual = [name for name in self.nodes if name not in self.bridges]
        ends = self.draws.sample(usual, min(count, len(usual)))
        if self.bridges and len(ends) > 1 and self.chance(0.35):
            ends = [ends[0], self.draws.choice(self.bridges)]
            self.draws.shuffle(ends)
        kind = self.draws.randrange(6)
        if self.chance(0.02) and not self.bridges:
            return "%s-%s" % (ends[0], ends[0])
        if kind == 0 and len(ends) > 1:
            return self.draws.choice(["-", " - "]).join(ends)
        if kind == 1:
            return ends
        found = self.attributes(ends)
        if set(ends) & set(self.bridges):
            found = {key: value for key, value in found.items() if key in ("mtu", "tc", "bandwidth", "ospf")}
        if kind == 2:
            found["interfaces"] = [dict({"node": name}, **self.end(name)) if self.chance(0.7) else name for name in ends]
        else:
            found.update((name, self.end(name) or None) for name in ends)
        return found

    def finish(self):
        """The whole of it."""
        self.addressing()
        self.modules()
        for number, name in enumerate(self.nodes):
            self.node(name, number)
        self.groups()
        if self.chance(0.05):
            self.defaults["interfaces"] = {"mtu": 1470}
        if self.chance(0.05):
            self.defaults["devices"] = {"frr": {"mtu": 1455}}
        self.tree["defaults"] = self.defaults
        plain = all(not node for node in self.nodes.values())
        if self.chance(0.2):
            self.nodes = {name: dotted(node) for name, node in self.nodes.items()}
        self.tree["nodes"] = list(self.nodes) if plain else {name: node or None for name, node in self.nodes.items()}
        if not plain and self.chance(0.1):
            self.tree["nodes"] = [dict(node, name=name) if node else name for name, node in self.nodes.items()]
        links = [self.link() for _ in range(self.draws.randrange(1, 9))]
        if self.chance(0.2):
            links = [dotted(link) if isinstance(link, dict) and "interfaces" not in link else link for link in links]
        if self.chance(0.15):
            self.tree = dotted(self.tree, ["ospf", "bgp", "defaults", "addressing"])
        if self.chance(0.1):
            links.append({"group": "more", "members": [self.draws.sample(list(self.nodes), 2)], "mtu": 1444})
        self.tree["links"] = links
        return self.tree


def dotted(tree, keys=("ospf", "bgp", "loopback", "tc", "prefix")):
    """A tree with keys that have dots in the place of maps."""
    found = {}
    for key, value in tree.items():
        if key in keys and isinstance(value, dict) and value and all("." not in str(name) for name in value):
            found.update(("%s.%s" % (key, name), own) for name, own in value.items())
        else:
            found[key] = value
    return found


ANSWERS = {}
SERVERS = []


def answer(folder):
    """What netlab says of a topology; real_netlab.py answers as long as the driver runs."""
    if not SERVERS:
        words = [sys.executable, os.path.join(HERE, "real_netlab.py")]
        server = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # pylint: disable=consider-using-with
        SERVERS.append(server)
    print(os.path.abspath(folder), file=SERVERS[0].stdin, flush=True)
    return json.loads(SERVERS[0].stdout.readline())


def make(draws, folder, _number):
    """Writes a topology that netlab takes."""
    while True:
        with open(os.path.join(folder, "topology.yml"), "w", encoding="utf-8") as file:
            json.dump(Topology(draws).finish(), file, indent=1)
        found = answer(folder)
        if not isinstance(found, str):
            ANSWERS[folder] = found
            return "topology.yml"


def ask(cases, _folder):
    """What netlab has said of the topologies."""
    for server in SERVERS:
        server.stdin.close()
        server.wait()
    return [ANSWERS[case.folder] for case in cases]


def ours(meaning, tree, _report):
    """Our lab in netlab's words."""
    nodes, interfaces, links = {}, {}, {}
    made = tree.get("nodes") or {}
    config = {name: frr(node or {}) for name, node in made.items()}
    wires, joined = tree.get("links") or [], {}
    for wire in wires:
        one, other = wire["ends"]
        if ":" in other:
            links[" ".join(sorted([one, other]))] = True
        elif other == "nowhere":
            links[one] = True
        else:
            joined.setdefault(other, []).append(one)
        for side, end in zip("ab", wire["ends"]):
            if ":" in end:
                interface(interfaces, tree, wire, side, end)
    links.update((" ".join(sorted(ends)), True) for ends in joined.values())
    for name, node in made.items():
        node = node or {}
        found = {"role": "router" if node.get("forwarding") else "host", "loopback": node.get("loopback") or []}
        said = config[name]
        if found["role"] == "host":
            vias = [route["via"] for route in node.get("routes") or [] if route["to"] == "default"]
            vias += [words[-1] for words in node.get("setup") or [] if words[-2] == "via"]
            found["gateway"] = vias[0] if vias else None
        own = interfaces.setdefault(name, {})
        for words in node.get("setup") or []:
            if words[:3] == ["ip", "address", "add"] and words[5] in own:
                own[words[5]]["addresses"].append(words[3])
            elif words[:3] == ["ip", "link", "set"] and words[3] in own:
                own[words[3]]["mtu"] = int(words[5])
        for key, value in said["interfaces"].items():
            if key == "lo":
                found["loopback"] = found["loopback"] + value["addresses"]
                if "ospf" in value:
                    said["ospf"]["area"] = value["ospf"]["area"]
            elif key in own:
                own[key]["addresses"] = own[key]["addresses"] + value["addresses"]
                if "ospf" in value:
                    own[key]["ospf"] = value["ospf"]
        for key in ("ospf", "bgp"):
            if said[key]:
                found[key] = said[key]
        nodes[name] = found
    return {"nodes": nodes, "interfaces": interfaces, "links": links}


def interface(interfaces, tree, wire, side, end):
    """An end of a link of ours."""
    node, name = end.split(":")
    given = wire.get("addresses")
    given = (given.get(end) or given.get(node)) if isinstance(given, dict) else None
    switch = (tree.get("switches") or {}).get(wire["ends"][1]) or {}
    found = {"addresses": list(given) if isinstance(given, list) else [],
             "mtu": wire.get("mtu") or switch.get("mtu") or 1500}
    shaped = {}
    for key, value in (wire.get(side) or {}).items():
        number, unit = re.match(r"([\d.]+)([a-z%]*)", str(value)).groups()
        scale = {"us": 1e-3, "ms": 1, "%": 1, "bit": 1e-3, "kbit": 1, "mbit": 1e3, "gbit": 1e6}[unit]
        shaped[key] = round(float(number) * scale, 6)
    if shaped:
        found["tc"] = shaped
    interfaces.setdefault(node, {})[name] = found


def frr(node):
    """What a node's FRR is told."""
    found = {"interfaces": {}, "ospf": None, "bgp": None}
    text = ((node.get("files") or {}).get("/etc/frr/frr.conf") or {}).get("text", "")
    at, own = None, None
    for line in text.splitlines():
        words = line.split()
        if not line.startswith(" ") and words:
            at = words[0] if words[0] == "interface" else " ".join(words[:2])
            if at == "interface":
                own = found["interfaces"].setdefault(words[1], {"addresses": []})
            elif at == "router ospf":
                found["ospf"] = {}
            elif at == "router bgp":
                found["bgp"] = {"as": int(words[2]), "neighbors": {}, "networks": []}
        elif at == "interface":
            of_interface(own, words)
        elif words[:2] == ["ospf", "router-id"]:
            found["ospf"]["router-id"] = words[2]
        elif words[:2] == ["auto-cost", "reference-bandwidth"]:
            found["ospf"]["reference"] = int(words[2])
        elif at == "router bgp":
            of_bgp(found["bgp"], words)
    if found["bgp"]:
        found["bgp"]["networks"] = sorted(set(found["bgp"]["networks"]))
    return found


def of_interface(own, words):
    """A line of an interface."""
    if words[:2] == ["ip", "address"]:
        own["addresses"].append(words[2])
    if words[:2] == ["ip", "ospf"]:
        said = own.setdefault("ospf", {})
        if words[2] == "area":
            said["area"] = int(words[3]) if words[3].isdigit() else int(ipaddress.IPv4Address(words[3]))
        elif words[2] == "cost":
            said["cost"] = int(words[3])
        elif words[2] == "network":
            said["network_type"] = words[3]
        elif words[2] == "passive":
            said["passive"] = True


def of_bgp(own, words):
    """A line of BGP."""
    if words[:2] == ["bgp", "router-id"]:
        own["router-id"] = words[2]
    elif words[0] == "network":
        own["networks"].append(words[1])
    elif words[0] == "neighbor" and words[2] == "remote-as":
        own["neighbors"][words[1]] = {"as": int(words[3]), "rr-client": False, "next-hop-self": False}
    elif words[0] == "neighbor" and words[2] == "route-reflector-client":
        own["neighbors"][words[1]]["rr-client"] = True
    elif words[0] == "neighbor" and words[2] == "next-hop-self":
        own["neighbors"][words[1]]["next-hop-self"] = True


def told(path, _theirs, _ours, item):
    """Whether a line of the report is about what differs."""
    words = set(re.split(r"[.\[\]\"]+", item["item"]))
    key = {"addresses": ["ipv4", "unnumbered", "prefix", "pool"], "gateway": ["role"]}.get(path[-1], [path[-1]])
    return any(word in words for word in key) and (path[1] in words or "links" in words)
