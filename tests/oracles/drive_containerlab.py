"""containerlab: topologies with groups, kinds, defaults and links in all their forms, read by its own types."""

import json
import os
import re
import shlex
import subprocess

import yaml

KEYS = {
    "image": ["alpine:3", "quay.io/frrouting/frr:10.0", "reg.example:5000/a/b:1", "ubuntu"],
    "image-pull-policy": ["Always", "never", "IfNotPresent"],
    "cpu": [0.5, 1, 2, 1.5, 0.125, 0.333],
    "memory": ["64MB", "1GB", "512Mib", "128mb"],
    "privileged": [True, False],
    "entrypoint": ["/bin/sh -c", "/init"],
    "cmd": ["sleep 5", "sleep infinity", "sh -c 'echo a; sleep 9'"],
    "hostname": ["other", "h-1"],
    "network-mode": ["none"],
    "mgmt-ipv4": ["172.20.20.%d"],
    "restart-policy": ["no", "always", "on-failure"],
}
LISTS = {
    "exec": ["ip link set eth1 up", "echo a", "sh -c 'echo $$HOME'", "ip route add default via 10.0.0.1", "true"],
    "binds": ["f:/etc/f:ro", "f:/etc/f", "g:/etc/g", "d:/srv/d:rw", "d:/srv/e/:ro", "f:/x:ro,z", "d/h:/etc/f"],
    "env-files": ["one.env", "two.env"],
    "ports": ["%d:80", "%d:80/tcp", "127.0.0.1:%d:53/udp", "%d-%d:80-81", "0.0.0.0:%d:9", "[::1]:%d:22"],
}
MAPS = {
    "env": {"A": ["1", "x y", "", 5, True], "B": ["b", "'q'"], "LONG_NAME": ["=", "a=b"], "C": ["1.50", "007"]},
    "sysctls": {"net.ipv4.ip_forward": [0, 1, "1"], "net.ipv6.conf.all.forwarding": ["1"], "net.ipv4.tcp_sack": [0]},
    "labels": {"role": ["x"], "n": [1]},
}
PLACES = ["node", "group", "kind", "defaults"]


def inherited(topology, node):
    """A node, and what it inherits from, the nearest first."""
    defaults, kinds = topology.get("defaults") or {}, topology.get("kinds") or {}
    groups = topology.get("groups") or {}

    def group():
        own = kinds.get(node.get("kind") or defaults.get("kind") or "", {})
        return groups.get(node.get("group") or own.get("group") or defaults.get("group"), {})

    kind = node.get("kind") or group().get("kind") or defaults.get("kind") or ""
    return [node, group(), kinds.get(kind, {}), defaults]


class Topology:
    """A topology that is being made."""

    def __init__(self, draws):
        self.draws, self.port, self.used, self.kinds = draws, 7000, {}, {}

    def chance(self, share):
        return self.draws.random() < share

    def properties(self, place, number):
        """The properties of a node, or of what nodes inherit from."""
        found, share = {}, 0.14 if place == "node" else 0.09
        for key, values in KEYS.items():
            if self.chance(share) and (place == "node" or key not in ("mgmt-ipv4", "hostname")):
                value = self.draws.choice(values)
                found[key] = value % (50 + number) if key == "mgmt-ipv4" else value
        for key, values in LISTS.items():
            if self.chance(share * 1.5) and (place == "node" or key != "ports" or self.chance(0.2)):
                chosen = self.draws.sample(values, min(self.draws.randrange(1, 4), len(values)))
                found[key] = [self.published(value) if key == "ports" else value for value in chosen]
                if self.chance(0.1):
                    found[key] = found[key] + found[key][:1]
        for key, values in MAPS.items():
            if self.chance(share * 1.5):
                found[key] = {name: self.draws.choice(of) for name, of in values.items() if self.chance(0.5)}
        return found

    def published(self, text):
        self.port += 10
        return text % tuple(self.port + at for at in range(text.count("%d")))

    def nodes(self):
        names = self.draws.sample(["r1", "r2", "pc1", "pc2", "leaf-1", "spine_1", "a", "srv.1"], self.draws.randrange(1, 7))
        groups = self.draws.sample(["g1", "g2", "core"], self.draws.randrange(0, 3))
        topology = {}
        if self.chance(0.6):
            topology["defaults"] = self.properties("defaults", 0)
            if self.chance(0.3):
                topology["defaults"]["kind"] = self.draws.choice(["linux", "bridge"])
            if groups and self.chance(0.2):
                topology["defaults"]["group"] = groups[0]
        if self.chance(0.6):
            topology["kinds"] = {"linux": self.properties("kind", 0)}
            if groups and self.chance(0.3):
                topology["kinds"]["linux"]["group"] = groups[-1]
        if groups:
            topology["groups"] = {name: self.properties("group", 0) for name in groups}
            if self.chance(0.3):
                topology["groups"][groups[0]]["kind"] = "linux"
        made = {}
        for number, name in enumerate(names):
            node = self.properties("node", number)
            if groups and self.chance(0.5):
                node["group"] = self.draws.choice(groups)
            if self.chance(0.85):
                node["kind"] = self.draws.choice(["linux", "linux", "linux", "linux", "Linux", "bridge"])
            if node.get("kind") == "bridge":
                node = {"kind": "bridge"}
            made[name] = node
        topology["nodes"] = made
        self.complete(topology)
        return topology

    def complete(self, topology):
        """Gives nodes what containerlab asks of each: a kind, an image unless it is a bridge, and ports of the host that are its own."""
        ports = {}
        for name, node in topology["nodes"].items():
            levels = inherited(topology, node)
            kind = next((level["kind"] for level in levels if level.get("kind")), None)
            if not kind:
                kind = node["kind"] = "linux"
                levels = inherited(topology, node)
            self.kinds[name] = kind.lower()
            if kind == "bridge":
                continue
            if not any(level.get("image") for level in levels):
                node["image"] = self.draws.choice(KEYS["image"])
            of = next((level for level in levels if level.get("ports")), None)
            if of is not None and ports.setdefault(id(of), name) != name:
                del of["ports"]

    def iface(self, node):
        number = self.used[node] = self.used.get(node, 0) + 1
        if self.chance(0.06):
            return self.draws.choice(["ethernet-1/%d", "uplink-to-core-switch-%d", "Gi0 %d"]) % number
        return "eth%d" % number

    def links(self, names):
        links = []
        for number in range(self.draws.randrange(0, 7)):
            if len(names) < 2:
                break
            one, two = self.draws.sample(names, 2)
            ends = [[one, self.iface(one)], [two, self.iface(two)]]
            kind = self.draws.randrange(10)
            if kind < 6:
                link = {"endpoints": ["%s:%s" % tuple(end) for end in ends]}
                if self.chance(0.2):
                    link["ipv4"] = ["10.%d.0.1/24" % number, "10.%d.0.2/24" % number]
                    if self.chance(0.3):
                        link["ipv4"][self.draws.randrange(2)] = ""
            elif kind < 8:
                link = {"type": self.draws.choice(["veth", "veth", "VEth"]), "endpoints": []}
                for side, (node, iface) in enumerate(ends):
                    end = {"node": node, "interface": iface}
                    if self.chance(0.3):
                        end["mac"] = "02:00:00:00:%02x:%02x" % (number, side)
                    if self.chance(0.3):
                        end["ipv4"] = "10.%d.0.%d/24" % (number, side + 1)
                    link["endpoints"].append(end)
            elif kind == 8 and self.kinds[one] != "bridge":
                link = {"type": "dummy", "endpoint": {"node": one, "interface": ends[0][1]}}
            elif self.kinds[one] == "bridge":
                continue
            else:
                link = {"type": "mgmt-net", "host-interface": "m%d" % number, "endpoint": {"node": one, "interface": ends[0][1]}}
            if self.chance(0.2):
                link["mtu"] = self.draws.choice([1400, 1500, 9000])
            if self.chance(0.1):
                link["labels"] = {"a": "b"}
            if self.chance(0.1):
                link["vars"] = {"x": 1}
            links.append(link)
        return links


def make(draws, folder, number):
    """Writes a topology, and the files that it may name."""
    topology = Topology(draws)
    tree = {"name": "lab%d" % number, "topology": topology.nodes()}
    names = list(tree["topology"]["nodes"])
    links = topology.links(names)
    if links:
        tree["topology"]["links"] = links
    if topology.chance(0.2):
        tree["prefix"] = topology.draws.choice(["", "x", "__lab-name"])
    if topology.chance(0.3):
        tree["mgmt"] = {"network": "net", "ipv4-subnet": "172.20.20.0/24"}
    for path, text in (("f", "1"), ("g", "2"), ("d/h", "3"), ("one.env", "A=far\nD='d d'\n"), ("two.env", "export A=near # x\nE=\n")):
        path = os.path.join(folder, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    with open(os.path.join(folder, "lab.clab.yml"), "w", encoding="utf-8") as file:
        yaml.safe_dump(tree, file, sort_keys=False)
    return "lab.clab.yml", "--mgmt", "closed"


def ask(cases, folder):
    """What containerlab's types say."""
    paths = [os.path.join(case.folder, "lab.clab.yml") for case in cases]
    done = subprocess.run([os.path.join(folder, "reader")], input=json.dumps(paths), stdout=subprocess.PIPE, text=True, check=True)
    return [answer.get("error") or theirs(answer) for answer in json.loads(done.stdout)]


def theirs(answer):
    """Its answer in the words of our meanings."""
    nodes, interfaces, links = {}, {}, []
    kinds = {name: node["kind"] for name, node in answer["nodes"].items()}
    for name, node in answer["nodes"].items():
        if node["kind"] == "bridge":
            nodes[name] = {"kind": "switch"}
            continue
        binds = {}
        for bind in node["binds"] or []:
            parts = bind.split(":")
            if len(parts) > 1:
                binds[parts[1].rstrip("/")] = [parts[0].rstrip("/"), "ro" not in ",".join(parts[2:]).split(",")]
        image = bool(node["image"])
        nodes[name] = {
            "kind": "node", "image": node["image"] or None, "env": node["env"] or {}, "exec": [shlex.split(command) for command in node["exec"] or []],
            "sysctls": {key: str(value) for key, value in (node["sysctls"] or {}).items()},
            "binds": binds if image else {}, "ports": sorted(set(node["ports"] or [])),
            "cpu": node["cpu"] or None, "memory": size(node["memory"]), "privileged": node["privileged"],
            "hostname": node["hostname"] or None, "program": shlex.split(node["entrypoint"]) + shlex.split(node["cmd"]),
            "pull": node["pull"].lower() if image else "",
        }
        if node["network"] != "none":
            interfaces.setdefault(name, {})["eth0"] = {"addresses": [node["mgmt-ipv4"] or "allotted"]}
    for each in answer["links"] or []:
        link = each["Link"]
        ends = link.get("Endpoints") or [link["Endpoint"]]
        names = []
        for number, end in enumerate(ends):
            node, iface = end["Node"], end["Iface"]
            if kinds.get(node) == "bridge":
                names.append(node)
                continue
            names.append("%s:%s" % (node, iface))
            ipv4 = end["IPv4"] or ((link["IPv4"] or [])[number:number + 1] or [""])[0]
            own = {"addresses": [ipv4] if ipv4 else []}
            if end["MAC"]:
                own["mac"] = end["MAC"]
            interfaces.setdefault(node, {})[iface] = own
        names += {"dummy": ["nowhere"], "mgmt-net": ["mgmt"]}.get(each["Type"], [])
        plain = ":" in names[0] and (":" in names[1] or names[1] == "nowhere")
        links.append([sorted(names), (link["MTU"] or 9500) if plain else None])
    return {"nodes": nodes, "interfaces": interfaces, "links": sorted(links, key=str)}


def size(text):
    """Bytes of a size as containerlab gives it to Docker (go-humanize)."""
    found = re.fullmatch(r"([\d.]+)\s*([a-z]*)", (text or "").lower())
    if not found:
        return None
    units = {"": 1, "b": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
    return int(float(found.group(1)) * units[found.group(2)])


def ours(meaning, tree, report):
    """Our lab in containerlab's words."""
    short = {}
    for item in report:
        found = re.match(r'"(.*)" is called (clab-\d+)', item["why"] or "")
        if found:
            short[found.group(2)] = found.group(1)
    nodes, interfaces, links = {}, {}, []
    for name, node in (tree.get("nodes") or {}).items():
        node = node or {}
        limits = node.get("limits") or {}
        nodes[name] = {
            "kind": "node", "image": node.get("image"), "env": {key: str(value) for key, value in (node.get("env") or {}).items()},
            "exec": [shown(each) for each in node.get("exec") or []],
            "sysctls": {key: str(value) for key, value in (node.get("sysctls") or {}).items()},
            "binds": {path: [own["from"], own.get("access") == "rw"] if isinstance(own, dict) else [own, False]
                      for path, own in (node.get("binds") or {}).items()},
            "ports": sorted(published(str(port)) for port in node.get("ports") or []),
            "cpu": limits.get("cpu"), "memory": bytes_of(limits.get("memory")), "privileged": bool(node.get("privileged")),
            "hostname": node.get("hostname"),
            "program": (node.get("entrypoint") or []) + (node.get("cmd") or []) + [word for each in node.get("run") or [] for word in shown(each)],
            "pull": ({"missing": "ifnotpresent"}.get(node.get("pull", "missing")) or node["pull"]) if node.get("image") else "",
        }
    for name in tree.get("switches") or {}:
        if not name.endswith("-mgmt"):
            nodes[name] = {"kind": "switch"}
    for wire in tree.get("links") or []:
        names = []
        for end in wire["ends"]:
            node, _, iface = end.partition(":")
            names.append("mgmt" if end.endswith("-mgmt") else "%s:%s" % (node, short.get(iface, iface)) if iface else node)
        management = "mgmt" in names and any(name.endswith(":eth0") for name in names)
        if not management:
            links.append([sorted(names), wire.get("mtu")])
    for node, own in meaning["interfaces"].items():
        for iface, made in own.items():
            found = {"addresses": [each for each in made.get("addresses", []) if ":" not in each]}
            if made.get("mac"):
                found["mac"] = made["mac"]
            if iface == "eth0":
                found["addresses"] = [own_address(each.split("/")[0]) for each in found["addresses"]]
            interfaces.setdefault(node, {})[short.get(iface, iface)] = found
    return {"nodes": nodes, "interfaces": interfaces, "links": sorted(links, key=str)}


def own_address(text):
    """An address on the network for management: topologies give those from .50, others are the runtime's to give."""
    return text if int(text.split(".")[3]) >= 50 else "allotted"


def shown(each):
    return each["command"] if isinstance(each, dict) else each


def published(text):
    ends, _, protocol = text.partition("/")
    host, to = ends.rsplit(":", 1)
    address, _, port = host.rpartition(":")
    return "%s|%s|%s/%s" % (address.strip("[]"), port, to, protocol or "tcp")


def bytes_of(text):
    """The bytes of a limit of ours."""
    found = re.fullmatch(r"([\d.]+)\s*([A-Za-z]*)", str(text or ""))
    if not found:
        return None
    units = {"": 1, "B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
    return int(float(found.group(1)) * units[found.group(2)])


def told(path, _theirs, _ours, item):
    """Whether a line is about a property of a node, its own or inherited, or about a link."""
    words = re.split(r"[.\[\]]+", item["item"])
    if path[0] == "nodes":
        keys = {"cpu": ["cpu"], "pull": ["image-pull-policy"], "env": ["env", "env-files"]}.get(path[2], [path[2]])
        return any(key in words for key in keys)
    if path[0] == "interfaces":
        return "links" in words or path[1] in words
    return "links" in words
