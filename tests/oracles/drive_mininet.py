"""Mininet: scripts with a Topo, and scripts that call a network's own functions."""

import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
DELAYS = ["'5ms'", "'1.5ms'", "'250us'", "'10'", "'0.25ms'", "'1s'", "'700ns'", "'0ms'", "'2.5us'"]


class Script:
    """A script that is being made."""

    def __init__(self, draws):
        self.draws, self.lines = draws, []
        self.count = 0

    def chance(self, share):
        return self.draws.random() < share

    def say(self, line):
        self.lines.append(line)

    def mac(self):
        self.count += 1
        return "'00:00:00:%02x:00:%02x'" % (self.draws.randrange(256), self.count)

    def mark(self):
        self.count += 1
        return self.count

    def address(self):
        """An address that no other host has."""
        self.count += 1
        kind = self.draws.randrange(8)
        if kind < 4:
            return "'10.0.1.%d/24'" % self.count
        if kind < 6:
            return "'10.%d.2.%d/16'" % (self.draws.randrange(3, 6), self.count)
        return "'172.16.%d.%d'" % (self.count, self.count) if kind == 6 else "'192.168.7.%d/24'" % self.count

    def host(self, name, plain):
        """The options of a host."""
        given = []
        if self.chance(0.4):
            given.append("ip=%s" % self.address())
        if self.chance(0.2):
            given.append("mac=%s" % self.mac())
        if self.chance(0.2):
            first = given[0].split("'")[1].split("/")[0] if given and given[0].startswith("ip") else "10.0.0.7"
            near = first.rsplit(".", 1)[0] + ".254"
            given.append("defaultRoute=%s" % self.draws.choice(
                ["'via %s'" % near, "'dev %s-eth0'" % name, "'%s-eth0'" % name, "'via %s metric 5'" % near]))
        if self.chance(0.08) and not plain:
            given.append("cls=Small, size=%d" % self.count)
        elif self.chance(0.06):
            given.append("cls=CPULimitedHost, cpu=%s" % self.draws.choice(["0.5", "0.25", "1", "0.125", "0.333"]))
        return given

    def shapes(self):
        """What a link does."""
        given = []
        if self.chance(0.5):
            given.append("bw=%s" % self.draws.choice(["10", "0.5", "100", "1000", "1500", "2.5"]))
        if self.chance(0.5):
            given.append("delay=%s" % self.draws.choice(DELAYS))
        if self.chance(0.25):
            given.append("jitter=%s" % self.draws.choice(["'1ms'", "'0.5ms'", "'20us'"]))
        if self.chance(0.3):
            given.append("loss=%s" % self.draws.choice(["1", "0", "0.5", "10", "100", "33.333333"]))
        if self.chance(0.2):
            given.append("max_queue_size=%s" % self.draws.choice(["10", "100", "1000", "0"]))
        if self.chance(0.1):
            given.append("use_htb=True")
        if self.chance(0.06):
            given += self.draws.choice([["use_tbf=True"], ["use_hfsc=True"], ["use_tbf=True", "latency_ms=50"], ["speedup=20"]])
        if self.chance(0.002):
            given.append(self.draws.choice(["enable_red=True", "enable_ecn=True"]))
        return given

    def link(self, one, two, hosts, ports):
        """The options of a link between two nodes."""
        given = []
        for number, node in ((1, one), (2, two)):
            if self.chance(0.12 if node in hosts else 0.02):
                ports[node] = ports.get(node, 20) + self.draws.randrange(10, 15)
                given.append("port%d=%d" % (number, ports[node]))
            if node in hosts and self.chance(0.08):
                self.count += 1
                given.append("intfName%d='up%d'" % (number, self.count))
            if node in hosts and self.chance(0.08):
                given.append("addr%d=%s" % (number, self.mac()))
            if node in hosts and self.chance(0.12):
                inner = ["'ip': '10.0.8.%d/24'" % self.mark()] if self.chance(0.6) else []
                inner += ["'%s" % pair.replace("=", "': ", 1) for pair in self.shapes()] if self.chance(0.3) else []
                if inner:
                    given.append("params%d={%s}" % (number, ", ".join(inner)))
        if self.chance(0.35):
            given.append("cls=%s" % self.draws.choice(
                ["TCLink", "TCLink", "TCLink", "Mine", "Link", "TCULink", "partial(TCLink, bw=40)", "Slow"]))
        elif self.chance(0.06):
            given.append(self.draws.choice(["cls1=TCIntf", "cls2=TCIntf", "cls1=TCIntf, cls2=TCIntf", "intf=TCIntf"]))
        if self.chance(0.35):
            # Those of a class of the script's own stand in it already.
            fixed = "Slow" in " ".join(given) or "partial" in " ".join(given)
            given += [shape for shape in self.shapes() if not (fixed and shape.startswith(("bw", "delay")))]
        return given

    def network(self):
        """The options of a network."""
        given = []
        if self.chance(0.15):
            given.append("ipBase=%s" % self.draws.choice(["'192.168.5.100/24'", "'172.16.0.0/12'", "'10.7.0.0/16'"]))
        if self.chance(0.3):
            given.append("autoSetMacs=True")
        if self.chance(0.3):
            given.append("link=%s" % self.draws.choice(["TCLink", "TCLink", "TCLink", "partial(TCLink, loss=2)"]))
        elif self.chance(0.07):
            given.append("intf=TCIntf")
        kind = self.draws.randrange(10)
        if kind < 2:
            given.append("controller=None")
        elif kind == 8:
            given.append("controller=NullController")
        elif kind == 9:
            given.append("controller=[Controller, partial(RemoteController, ip='127.0.0.1', port=6655)]")
        elif kind == 2:
            given.append("controller=RemoteController")
        elif kind == 3:
            given.append("controller=lambda name: RemoteController(name, ip='127.0.0.1', port=6699)")
        kind = self.draws.randrange(8)
        if kind == 0:
            given.append("switch=OVSBridge")
        elif kind == 1:
            given.append("switch=LinuxBridge")
        elif kind == 2:
            given.append("switch=lambda name, **params: OVSSwitch(name, **dict(params, failMode='standalone'))")
        if self.chance(0.1):
            given.append("host=%s" % self.draws.choice(["Plain", "partial(CPULimitedHost, cpu=0.2)"]))
        return given


HEAD = """\
from functools import partial
from mininet.net import Mininet
from mininet.topo import LinearTopo, MinimalTopo, SingleSwitchReversedTopo, SingleSwitchTopo, Topo
from mininet.topolib import TorusTopo, TreeTopo
from mininet.link import Intf, Link, TCLink, TCULink, TCIntf
from mininet.node import Controller, CPULimitedHost, Host, Node, NullController, OVSSwitch, OVSBridge, RemoteController
from mininet.nodelib import LinuxBridge


class Mine(TCLink):
    pass


class Slow(TCLink):
    def __init__(self, *args, **params):
        TCLink.__init__(self, *args, **dict(dict(delay='9ms', bw=7), **params))


class Small(Host):
    def __init__(self, name, size=1, **params):
        Host.__init__(self, name, **params)


class Plain(Host):
    def __init__(self, name, ip=None, **params):
        Host.__init__(self, name, ip=ip, **params)

"""


def pairs(draws):
    """Hosts, switches, and which of them are linked."""
    hosts = ["h%d" % number for number in range(1, draws.randrange(2, 7))] + ["h12"]
    switches = ["s%d" % number for number in range(1, draws.randrange(2, 5))]
    links = [(switches[n - 1], switches[n]) for n in range(1, len(switches)) if draws.random() < 0.9]
    for host in hosts:
        for _ in range(1 + (draws.random() < 0.25)):
            pair = (host, draws.choice(switches))
            links.append(pair if draws.random() < 0.8 else pair[::-1])
    if draws.random() < 0.3:
        links.append(tuple(draws.sample(hosts, 2)))
    draws.shuffle(links)
    return hosts, switches, links


def of_library(script):
    """A script with a topology of Mininet's own."""
    made = script.draws.choice(["LinearTopo(k=3)", "LinearTopo(3, 2)", "TreeTopo(2, 2)", "TreeTopo(depth=1, fanout=3)", "SingleSwitchTopo(4)",
                                "SingleSwitchReversedTopo(3)", "MinimalTopo()", "LinearTopo(k=2, n=2, hopts=dict(mac=None), sopts=dict())",
                                "SingleSwitchTopo(k=2, lopts=dict(delay='3ms'))"])
    script.say("net = Mininet(%s)" % ", ".join(["topo=%s" % made] + script.network()))
    if script.chance(0.4):
        script.say("h9 = net.addHost('h9')")
        script.say("net.addLink(h9, net.get('s1')%s)" % script.draws.choice(["", ", port2=12", ", cls=TCLink, bw=3"]))
        script.say("h9.setIP(%s)" % script.address() if script.chance(0.5) else "h9.configDefault()")
    if script.chance(0.3):
        script.say("net.addNAT()%s" % script.draws.choice(["", ".configDefault()"]))
    script.say("net.start()")
    after(script, ["net.hosts[0]"])
    script.say("net.stop()")


def of_topo(script):
    """A script with a Topo."""
    hosts, switches, links = pairs(script.draws)
    script.say("class T(Topo):")
    script.say("    def build(self, **opts):")
    for switch in switches:
        how = "addNode(%r, isSwitch=True)" if script.chance(0.1) else "addSwitch(%r)"
        script.say("        self.%s" % (how % switch))
    for host in hosts:
        given = ", ".join([repr(host)] + script.host(host, True))
        script.say("        self.addHost(%s)" % given)
    ports = {}
    for one, two in links:
        given = ", ".join([repr(one), repr(two)] + script.link(one, two, hosts, ports))
        script.say("        self.addLink(%s)" % given)
    if links and script.chance(0.15):
        one, two = script.draws.choice(links)
        script.say("        self.setlinkInfo(%r, %r, dict(self.linkInfo(%r, %r), delay='8ms', loss=4))" % (one, two, one, two))
    if script.chance(0.1):
        script.say("        self.g.node[%r]['ip'] = %s" % (script.draws.choice(hosts), script.address()))
    if script.chance(0.1):
        script.say("        assert self.port(%r, %r)" % script.draws.choice(links))
    made = []
    if script.chance(0.2):
        made.append("hopts=dict(defaultRoute='via 10.0.0.77')")
    if script.chance(0.2):
        made.append("lopts=dict(%s)" % ", ".join(script.shapes()))
    if script.chance(0.1):
        made.append("sopts=dict(failMode='standalone')")
    script.say("")
    if script.chance(0.15):
        script.say("topos = {'t': lambda: T(%s)}" % ", ".join(made))
        return
    given = ["topo=T(%s)" % ", ".join(made)] + script.network()
    script.say("net = Mininet(%s)" % ", ".join(given))
    script.say("net.start()")
    script.say("net.pingAll()")
    script.say("net.stop()")


def of_net(script):
    """A script that calls a network's functions."""
    hosts, switches, links = pairs(script.draws)
    script.say("net = Mininet(%s)" % ", ".join(script.network()))
    for host in hosts:
        script.say("%s = net.addHost(%s)" % (host, ", ".join([repr(host)] + script.host(host, False))))
    for switch in switches:
        given = [repr(switch)]
        if script.chance(0.1):
            given.append("dpid='%x'" % script.draws.randrange(16, 4000))
        if script.chance(0.15):
            given.append("failMode='standalone'")
        elif script.chance(0.1):
            given.append("cls=%s" % script.draws.choice(["OVSBridge", "LinuxBridge", "OVSBridge, stp=True", "OVSSwitch"]))
        elif script.chance(0.1):
            given.append("protocols=%s" % script.draws.choice(["'OpenFlow13'", "'OpenFlow10'", "'OpenFlow10,OpenFlow13'"]))
        script.say("%s = net.addSwitch(%s)" % (switch, ", ".join(given)))
    if script.chance(0.4):
        script.say("net.addController('c0'%s)" % script.draws.choice(
            ["" if "controller=None" not in script.lines[0] and "controller=[" not in script.lines[0] else ", controller=Controller",
             ", controller=RemoteController, ip='127.0.0.1', port=6653",
             ", controller=lambda name: RemoteController(name, ip='127.0.0.1', port=6699)"]))
    ports, made = {}, []
    for one, two in links:
        if script.chance(0.09):
            script.say(script.draws.choice(["Link(%s, %s)", "%s.linkTo(%s)", "%s.linkTo(%s, link=TCLink)"]) % (one, two))
            continue
        made.append((one, two))
        given = ", ".join([one, two] + script.link(one, two, hosts, ports))
        script.say("net.addLink(%s)" % given)
    if made and script.chance(0.12):
        one, two = script.draws.choice(made)
        script.say("net.delLinkBetween(%s, %s)" % (one, two))
        script.say("net.addLink(%s, %s)" % (one, two))
    before(script, hosts)
    if script.chance(0.1) and len(hosts) > 2:
        gone = hosts.pop(0)
        script.say("net.delHost(%s)" % gone)
        script.say("net.addLink(%s, %s)" % (hosts[0], switches[0]))
    if script.chance(0.08):
        script.say("late = net.addLink(%s, %s, cls=TCLink, bw=5)" % (hosts[0], switches[0]))
        script.say("late.intf%d.config(%s)" % (script.draws.choice([1, 2]), script.draws.choice(["delay='4ms'", "bw=6, loss=1", "jitter='2ms'", "max_queue_size=20"])))
    if script.chance(0.5):
        script.say("net.build()")
        if script.chance(0.15):
            script.say("net.addNAT(%s)%s" % (script.draws.choice(["", "ip='10.0.0.250/8'", "connect=%s" % switches[0]]), script.draws.choice(["", ".configDefault()"])))
    elif script.chance(0.1):
        script.say("net.addNAT()")
    start(script, switches)
    after(script, hosts)
    script.say("net.stop()")


def start(script, switches):
    """Starts everything, or one switch after the other with controllers of its own."""
    if "net.build()" not in script.lines or script.chance(0.8):
        return script.say("net.start()")
    for switch in switches:
        script.say("%s.start(%s)" % (switch, script.draws.choice(["net.controllers", "net.controllers[:1]", "[]"])))
    return None


def before(script, hosts):
    """What scripts do before their network starts."""
    host = script.draws.choice(hosts).replace("'", "")
    if script.chance(0.1):
        script.say("if %s.defaultIntf():" % host)
        script.say("    %s.defaultIntf().config(mac=%s)" % (host, script.mac()))
    if script.chance(0.1):
        script.say("%s.params['ip'] = %s" % (host, script.address()))


def after(script, hosts):
    """What scripts do once it runs."""
    host = script.draws.choice(hosts)
    if script.chance(0.2):
        script.say("%s.setIP(%s)" % (host, "'10.0.9.%d/24'" % script.draws.randrange(1, 200)))
    if script.chance(0.2):
        script.say("%s.cmd('sysctl -w net.ipv4.ip_forward=1')" % host)
    if script.chance(0.1):
        script.say("if %s.intfs:" % host)
        script.say("    " + script.draws.choice(["%s.setMAC('00:00:00:00:77:01')", "%s.intf().setIP('10.0.9.201/24')", "%s.intf().config(ip='10.0.9.202/16')",
                                                 "%s.setDefaultRoute('dev ' + %s.intfNames()[0])", "%s.setDefaultRoute(%s.intf())"]).replace("%s", host))


def make(draws, folder, number):
    script = Script(draws)
    (of_library if number % 10 == 3 else of_topo if number % 2 else of_net)(script)
    path = os.path.join(folder, "lab.py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(HEAD + "\n".join(script.lines) + "\n")
    return "lab.py"


def ask(cases, folder):
    packages = os.path.join(folder, "root/usr/lib/python3/dist-packages")
    found = []
    for case in cases:
        words = [sys.executable, os.path.join(HERE, "real_mininet.py"), packages, "lab.py"]
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              stdin=subprocess.DEVNULL, cwd=case.folder, check=False)
        found.append(json.loads(done.stdout) if done.returncode == 0 else done.stderr.strip()[-400:])
    return found


def ours(meaning, tree, _report):
    """Puts our lab into the words of Mininet's."""
    for name, node in meaning["nodes"].items():
        if node["kind"] == "switch":
            meaning["nodes"][name] = switch(name, tree)
        else:
            meaning["nodes"][name] = host(node)
    for node, own in meaning["interfaces"].items():
        for interface in own.values():
            # Interfaces go by their names.
            interface.pop("order", None)
            if "mac" in interface:
                interface["mac"] = interface["mac"].lower()
    return meaning


def switch(name, tree):
    keys = tree["switches"][name] or {}
    made = {"kind": "switch", "forwards": "learning"}
    if keys.get("kind") == "openflow" and not (keys.get("fail") == "standalone" and not keys.get("controllers")):
        made["forwards"] = "openflow" if keys.get("controllers") else "flows"
        made["dpid"] = int(str(keys["datapath"]), 16) if "datapath" in keys else None
        made["fail"] = keys.get("fail") or "secure"
        if keys.get("controllers"):
            made["controllers"] = sorted(c.replace("host:", "127.0.0.1:").replace("tcp:", "")
                                         for c in keys["controllers"])
        made["ports"], number = {}, 0
        for entry in tree.get("links") or []:
            if name in entry["ends"]:
                one, two = entry["ends"]
                number += 1
                other = two if one == name else one
                made["ports"][other] = (entry.get("port") or {}).get(name, number)
    return made


def host(node):
    made = {"kind": "node"}
    commands = []
    for words in node.get("setup", []):
        if words[:2] == ["sh", "-c"] and words[2].startswith('"$@"'):
            words = words[4:]
        text = words[2] if words[:2] == ["sh", "-c"] else " ".join(words)
        route = re.match(r"ip (-4 )?route (add|replace) default (.*)", text)
        if route:
            made["default"] = route.group(3)
        # A hardware address that another has, too, which the report tells.
        elif not re.match(r"ip link set dev \S+ address ", text):
            commands.append(text)
    for route in node.get("routes") or []:
        if isinstance(route, dict) and route.get("to") == "default":
            made["default"] = " ".join("%s %s" % (key, route[key]) for key in ("via", "dev") if route.get(key))
    if commands:
        made["commands"] = commands
    if "limits" in node:
        made["cpu"] = float(node["limits"]["cpu"])
    return made


#: How scripts call what links do.
SAID = {"rate": ["bw", "speedup"], "delay": ["delay", "jitter"], "jitter": ["jitter"], "jitter-shape": ["jitter"],
        "loss": ["loss", "max_queue_size"], "queue": ["max_queue_size"], "limit": ["max_queue_size"],
        "red": ["enable_red", "enable_ecn"]}


def told(path, _theirs, _ours, item):
    """Whether a line is about a difference: of a switch's ports at one of its links, else of the same node or link."""
    words = re.split(r"[.\[\]]", item["item"])
    if len(path) > 2 and path[2] == "ports":
        return words[0] == "links" and path[1] in words[1] and (item["why"] or "").startswith("the switch's port")
    if path[0] == "links":
        ends = [end.split(":")[0] for end in path[1].split(" #")[0].split(" -- ")]
        if words[0] != "links" or sorted(words[1].split("#")[0].split("--")) != sorted(ends):
            return False
        # The whole of it, or what is called like this.
        return len(words) == 2 or words[-1] in SAID.get(path[-1], [])
    return path[1] in words and path[-1] in words
