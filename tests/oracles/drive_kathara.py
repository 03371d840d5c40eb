"""Kathara: folders with lab.conf, lab.dep, lab.ext, startup files and folders of devices."""

import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
KINDS = ["pc", "r", "server", "dns", "web_", "as", "host", "client", "bb", "local_"]
YES = ["true", "1", "yes", "True", "y", "on", "t"]
NO = ["false", "0", "no", "n", "off", "F"]
OPTIONS = {
    "image": ["kathara/base", "kathara/frr", "kathara/quagga", "alpine:3.20", "reg.example:5000/a/b:1"],
    "mem": ["24", "64m", "64M", "128m", "1g", "1G", "262144k", "134217728b", "96"],
    "cpus": ["0.5", "1", "1.5", "0.125", "2", "0.25", "0.333"],
    "port": ["%d:80", "%d:80/tcp", "%d:53/udp", "%d:22/TCP", "%d:5000/UDP", "%d:53"],
    "bridged": YES + NO,
    "ipv6": YES + NO,
    "privileged": YES + NO,
    "sysctl": [
        "net.ipv4.ip_forward=0", "net.ipv4.conf.all.rp_filter=1", "net.ipv4.tcp_syncookies=1",
        "net.ipv6.conf.all.forwarding=0", "net.ipv4.icmp_ratelimit=100", "net.ipv4.ip_local_port_range=1000 2000",
        "net.ipv4.neigh.default.gc_thresh1=128", "net.ipv4.conf.eth0.rp_filter=2",
        "net.ipv6.conf.all.disable_ipv6=0", "net.ipv4.tcp_sack= 1 ",
    ],
    "env": ["A=1", "NAME= padded ", "PATH_X=/a:/b", "EMPTY=", "EQ=a=b", "SP=a b  c", "A=2", "T=\tx "],
    "exec": ["ip link set eth0 up", "echo a # b", "sleep 0; true", "ip route add default via 10.0.0.1"],
    "shell": ["/bin/bash", "/bin/sh"],
    "num_terms": ["0", "1", "2"],
    "entrypoint": ["/bin/sh -c", "sleep 100", "/init"],
    "args": ["sleep 5", "a b c"],
    "ulimit": ["nofile=1000:2000", "nproc=100", "core=-1", "memlock=-1:-1", "nofile=500", "stack=8192:4096"],
    "volume": [
        "data|/data", "data|/data|ro", "data|/data|rw", "./data|/mnt/x|rx", "data//in|/in", "|data|/a|rw|", "data||/b",
        "data/f.txt|/etc/f.txt|ro",
    ],
}
RARE = ["privileged", "shell", "num_terms", "entrypoint", "args", "ulimit", "volume"]


def quoted(draws, text):
    """A value in one of its forms, and sometimes a comment behind it."""
    forms = ['"%s"' % text, "'%s'" % text]
    if not re.search(r"\s#", text):
        forms.append(text)
    shown = draws.choice(forms)
    if shown != text and draws.random() < 0.12:
        shown += draws.choice([" # why", '  # see "this"', "\t# a = 'b'"])
    return shown


def device(draws, name, number, domains):
    """The lines of a device."""
    lines = []
    for order, domain in enumerate(draws.sample(domains, draws.randrange(len(domains) + 1))):
        mac = "%s02:00:00:00:%02x:%02x" % (draws.choice(["/", "//"]), number, order) if draws.random() < 0.2 else ""
        lines.append("%s[%d]=%s" % (name, order, quoted(draws, domain + mac)))
    for key, values in OPTIONS.items():
        if draws.random() > (0.1 if key in RARE else 0.25):
            continue
        for _ in range(draws.choice([1, 1, 1, 2, 3])):
            value = draws.choice(values)
            if key == "port":
                value %= 7000 + number * 50 + draws.randrange(4)
            lines.append("%s[%s]=%s" % (name, key, quoted(draws, value)))
    # Ports are published of devices with a way to the host alone.
    if any("[port]" in line for line in lines) and draws.random() < 0.98:
        lines.append("%s[bridged]=true" % name)
    if draws.random() < 0.05:
        lines.append("%s[%s]=%s" % (name, draws.choice(["comment", "x_y", "IPV6"]), quoted(draws, draws.choice(["a b", "1", "c:d"]))))
    return lines or ["%s[image]=kathara/base" % name]


def make(draws, folder, _number):
    """Writes a lab."""
    names = sorted({draws.choice(KINDS) + str(draws.randrange(1, 13)) for _ in range(draws.randrange(1, 7))})
    draws.shuffle(names)
    words = ["A", "B", "C", "lan1", "lan_2", "net", "X9", "0", "12"]
    domains = [word + draws.choice(["", "", "_"]) for word in draws.sample(words, 4)]
    about = ['LAB_NAME="two lans"', 'LAB_DESCRIPTION="a # b"', 'LAB_VERSION="1.0"', 'LAB_AUTHOR="A, B"', 'LAB_WEB="x.y/"', "LAB_EMAIL=a@b.c"]
    lines = [line for line in about if draws.random() < 0.3]
    devices = [device(draws, name, number, domains) for number, name in enumerate(names)]
    of_all = [line for own in devices for line in own + draws.choice([[], [""], ["# next"]])]
    if draws.random() < 0.3:
        draws.shuffle(of_all)
    lines += [draws.choice([""] * 15 + ["  "]) + line if "[" in line else line for line in of_all]
    end = draws.choice(["\n"] * 9 + ["\r\n"])
    conf = end.join(lines) + draws.choice([end, ""])
    put(folder, "lab.conf", conf)
    if "data" in conf:
        put(folder, "data/f.txt", "x")
        put(folder, "data/in/g", "y")
    order(draws, folder, names)
    used = [domain for domain in domains if re.search(r"\[\d+\]=[\"']?%s\b" % domain, conf)]
    if used and draws.random() < 0.1:
        put(folder, "lab.ext", "%s eth7\n# c\n%s   eth8\n" % (used[0], used[-1]))
    for name in names:
        for path, share in ((name + "/etc/motd", 0.3), (name + "/root/.DS_Store", 0.1), (name + ".shutdown", 0.05)):
            if draws.random() < share:
                put(folder, path, "x")
        if draws.random() < 0.3:
            put(folder, name + ".startup", "ip address add 10.0.0.1/24 dev eth0\n")
    if draws.random() < 0.2:
        put(folder, "shared.startup", "true\n")
    if draws.random() < 0.2:
        put(folder, "shared/x", "1")
    return "."


def order(draws, folder, names):
    """Writes lab.dep."""
    if draws.random() > 0.3:
        return
    lines = []
    for place, name in enumerate(names[1:], 1):
        if draws.random() < 0.7:
            others = draws.sample(names[:place], draws.randrange(1, min(place, 3) + 1))
            lines.append("%s:%s%s" % (name, draws.choice([" ", ""]), " ".join(others)))
    draws.shuffle(lines)
    put(folder, "lab.dep", "".join(line + "\n" for line in ["# order"] + lines))


def put(folder, path, text):
    """Writes a file."""
    path = os.path.join(folder, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(text)


def ask(cases, _folder):
    """What Kathara says of the labs, as real_kathara.py prints it."""
    words = [sys.executable, os.path.join(HERE, "real_kathara.py")] + [case.folder for case in cases]
    done = subprocess.run(words, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, check=True)
    return json.loads(done.stdout)


def ours(meaning, tree, _report):
    """Our lab in Kathara's words."""
    nodes, ends, doors, bridged = {}, {}, [], set()
    for link in tree.get("links") or []:
        end, other = link["ends"]
        if other == "internet":
            bridged.add(end.split(":")[0])
        elif other.startswith("host:"):
            doors.append([end, other])
        else:
            ends[end] = {"domain": other, "mac": (link.get("mac") or {}).get(end.split(":")[0])}
    for name, node in (tree.get("nodes") or {}).items():
        nodes[name] = dict(one(node or {}), bridged=name in bridged)
    return {"nodes": nodes, "ends": ends, "doors": sorted(doors), "order": list(meaning["nodes"])[: len(nodes)]}


def one(node):
    """A node of ours in Kathara's words."""
    families = str(node.get("forwarding")).lower()
    sysctls = {"net.ipv4.ip_forward": str(int(families in ("true", "ipv4"))),
               "net.ipv6.conf.all.forwarding": str(int(families in ("true", "ipv6"))),
               "net.ipv6.conf.all.disable_ipv6": "0"}
    sysctls.update((key, str(value)) for key, value in (node.get("sysctls") or {}).items())
    limits, binds = node.get("limits") or {}, node.get("binds") or {}
    setup = [" ".join(words) for words in node.get("setup") or []]
    bounds = {}
    for command in setup:
        if "prlimit" in command:
            for name, soft, hard in re.findall(r" --(\w+)=(\w+):(\w+)", command):
                bounds[name] = [-1 if bound == "unlimited" else int(bound) for bound in (soft, hard)]
    ports = {}
    for port in node.get("ports") or []:
        ends, _, protocol = str(port).partition("/")
        ports["%s/%s" % (ends.split(":")[1], protocol or "tcp")] = int(ends.split(":")[0])
    files = {path: file.get("from") for path, file in (node.get("files") or {}).items()
             if not path.startswith("/run/netloom-import/")}
    program = (node.get("entrypoint") or []) + (node.get("cmd") or [])
    for each in node.get("run") or []:
        program += each["command"]
    scripts = [name for command in setup for name in re.findall(r"import/(\S+\.startup) \|\|", command)]
    return {
        "image": node.get("image"),
        "mem": int(limits["memory"][:-1]) if "memory" in limits else None,
        "cpus": float(limits["cpu"]) if "cpu" in limits else None,
        "privileged": bool(node.get("privileged")),
        "sysctl": sysctls,
        "env": dict(node.get("env") or {}),
        "port": ports,
        "ulimit": bounds,
        "exec": [(each["command"] if isinstance(each, dict) else each)[-1] for each in node.get("exec") or []],
        "program": program,
        "volume": {path: [bind["from"], bind.get("access", "ro")] for path, bind in binds.items() if path != "/shared"},
        "shared": "/shared" in binds,
        "files": files,
        "startup": scripts,
    }


def told(path, _theirs, _ours, item):
    """Whether a line of the report is of an option of a node, or of its interface."""
    if path[0] == "ends":
        return item["item"].startswith("%s[%s]=" % tuple(path[1].split(":eth")))
    if path[0] == "nodes":
        keys = ["entrypoint", "args"] if path[2] == "program" else [path[2]]
        return any(item["item"].startswith("%s[%s]=" % (path[1], key)) for key in keys)
    return False
