"""Runs a script on Mininet's own package, and prints what it means: real_mininet.py PACKAGES SCRIPT

Mininet makes its networks by commands (ifconfig, ip, tc). Here nothing runs these: they are read, and what they would have
made is noted. So it needs no root, and leaves nothing behind.
"""

import ipaddress
import json
import os
import re
import runpy
import sys

sys.dont_write_bytecode = True
sys.path[0] = sys.argv[1]
sys.path.insert(1, os.path.dirname(os.path.abspath(__file__)))

import lab  # noqa: E402
import mininet.link as links  # noqa: E402
import mininet.net as nets  # noqa: E402
import mininet.node as nodes  # noqa: E402
import mininet.nodelib as nodelib  # noqa: E402
import mininet.util as util  # noqa: E402

#: Interfaces by node and name, and default routes by node.
state, routes, commands, cpus = {}, {}, [], {}
#: Interfaces that went with the other end of their link, which Mininet still knows.
gone = set()
last, made_links = [None], []
SCRIPT = sys.argv[2]


class Done(SystemExit):
    """The network is known."""


def interface(node, name):
    return state.setdefault(node.name, {}).setdefault(str(name), {"tc": [], "addresses": []})


def run(node, text):
    """Notes what a command makes; its output."""
    for part in text.split(";"):
        words = part.split()
        if any((node.name, word) in gone for word in words[1:5]):
            continue
        if words[:1] == ["ifconfig"] and len(words) > 2 and words[1] != "lo":
            own = interface(node, words[1])
            for word in words[2:]:
                if re.match(r"\d+\.\d+\.\d+\.\d+", word):
                    own["addresses"] = [word if "/" in word else word + "/8"]
            if "ether" in words:
                own["mac"] = words[words.index("ether") + 1]
        elif words[:3] == ["ip", "route", "add"] and words[3] == "default":
            if reaches(node, words[4:]):
                routes[node.name] = " ".join(words[4:])
        elif words[:3] == ["ip", "route", "del"]:
            routes.pop(node.name, None)
        elif words[:2] == ["tc", "qdisc"] and words[2] == "show":
            return "" if interface(node, words[4])["tc"] else "qdisc noqueue 0"
        elif words[:2] == ["tc", "qdisc"] and words[2] == "del":
            interface(node, words[4])["tc"] = []
        elif words[:1] == ["tc"]:
            interface(node, words[4])["tc"].append(words)
    return ""


def reaches(node, words):
    """Whether the kernel takes a route: its interface is there, and its gateway on one of the node's networks."""
    own = state.get(node.name, {})
    if "dev" in words and words[words.index("dev") + 1] not in own:
        return False
    if "via" not in words:
        return True
    via = ipaddress.ip_address(words[words.index("via") + 1])
    nets = [ipaddress.ip_interface(text).network for each in own.values() for text in each["addresses"]]
    return any(via in net for net in nets)


def netem(words):
    """The keys of a netem, or nothing where tc refuses it."""
    found, at = {}, 0
    try:
        while at < len(words):
            key = words[at]
            at += 1
            if key == "delay":
                found["delay"] = time(words[at])
                at += 1
                if at < len(words) and words[at][0].isdigit():
                    found["jitter"] = time(words[at])
                    at += 1
            elif key == "loss":
                found["loss"] = round(float(words[at]), 5)
                at += 1
            elif key == "limit":
                found["queue"] = int(words[at])
                at += 1
            else:
                return {}
    except (ValueError, IndexError):
        return {}
    return found


def time(text):
    """Microseconds, as tc reads a time: whole ones of the kernel's clock ticks."""
    number, unit = re.fullmatch(r"([\d.]+)([a-z]*)", text).groups()
    units = {"": 1.0, "s": 1e6, "sec": 1e6, "secs": 1e6, "ms": 1e3, "msec": 1e3, "msecs": 1e3,
             "us": 1.0, "usec": 1.0, "usecs": 1.0, "ns": 1e-3, "nsec": 1e-3, "nsecs": 1e-3}
    if unit not in units:
        raise ValueError(text)
    return round(float(number) * units[unit], 3)


def shape(rows):
    """What the commands of tc make of an interface's output."""
    found = {}
    for words in rows:
        if "htb" in words and "rate" in words or "hfsc" in words and "rate" in words or "tbf" in words:
            rate = float(words[words.index("rate") + 1].replace("Mbit", ""))
            found["rate"] = round(rate * 1e6)
        elif "red" in words:
            found["red"] = True
        elif "netem" in words:
            found.update(netem(words[words.index("netem") + 1:]))
    if found.get("jitter"):
        found["jitter-shape"] = "uniform"
    most = found.pop("queue", None)
    if most == 0:
        found.update(loss=100.0)
    # netem counts what waits for a rate and what is delayed; without both nothing waits.
    if found.get("rate"):
        found["queue"] = most
    if found.get("delay") or found.get("jitter"):
        found["limit"] = most
    return {key: value for key, value in found.items() if value}


def ended(self):
    """With a host's shell its namespace ends, and with that its links, whatever their interfaces are called."""
    for link in [link for link in made_links if self in (link.intf1.node, link.intf2.node) and self.inNamespace]:
        made_links.remove(link)
        for intf in (link.intf1, link.intf2):
            state.get(intf.node.name, {}).pop(intf.name, None)
            gone.add((intf.node.name, intf.name))


def words(args):
    given = args[0] if len(args) == 1 else args
    return given if isinstance(given, str) else " ".join(str(word) for word in given)


def cmd(self, *args, **_kwargs):
    text = words(args)
    script = sys._getframe(1).f_code.co_filename == SCRIPT
    if script and last[0] is not None and last[0].started_here and not isinstance(self, nodes.Switch):
        commands.append([self.name, text])
    return run(self, text)


def patch():
    """Takes Mininet's hands away."""
    nodes.Node.checkSetup = classmethod(lambda cls: None)
    nodes.Node.startShell = lambda self, mnopts=None: setattr(self, "shell", None)
    nodes.Node.mountPrivateDirs = lambda self: None
    nodes.Node.cmd = nodes.Node.cmdPrint = cmd
    nodes.Node.sendCmd = cmd
    nodes.Node.pexec = lambda self, *args, **kwargs: (run(self, words(args)), "", 0)
    nodes.Node.terminate = ended
    nodes.Node.pid = 1
    nodes.Switch.cmd = lambda self, *args, **kwargs: run(self, words(args))
    nodes.OVSSwitch.isOldOVS = classmethod(lambda cls: False)
    nodes.OVSSwitch.OVSVersion = "2.17.0"
    nodes.Controller.checkListening = lambda self: None
    nodes.RemoteController.checkListening = lambda self: setattr(self, "port", self.port or 6653)
    nodes.Controller.isAvailable = classmethod(lambda cls: True)
    nodes.CPULimitedHost.init = classmethod(lambda cls: None)
    nodes.CPULimitedHost.inited = True
    nodes.CPULimitedHost.__init__ = lambda self, name, sched="cfs", **kw: nodes.Host.__init__(self, name, **kw)
    nodes.CPULimitedHost.setCPUFrac = lambda self, f, sched=None: cpus.__setitem__(self.name, share(f))
    nodes.CPULimitedHost.setCPUs = lambda self, cores, mems=0: None
    nodelib.NAT.setManualConfig = lambda self, intf: None
    for module in (nodes, nets, nodelib, links, util):
        for name in ("quietRun", "errRun", "errFail"):
            if hasattr(module, name):
                result = "" if name == "quietRun" else ("", "", 0)
                setattr(module, name, lambda *args, result=result, **kwargs: result)
        for name in ("moveIntf", "pathCheck", "moduleDeps", "mountCgroups", "fixLimits", "ensureRoot"):
            if hasattr(module, name):
                setattr(module, name, lambda *args, **kwargs: True)
    nodes.Node.addIntf.__defaults__ = (None, lambda *args, **kwargs: True)
    links.makeIntfPair = pair
    nets.Mininet.randMac = staticmethod(lambda: None)
    nets.Mininet.init = classmethod(lambda cls: None)
    plain = nets.Mininet.__init__

    def made(self, *args, **kwargs):
        self.started_here = False
        last[0] = self
        plain(self, *args, **kwargs)

    nets.Mininet.__init__ = made
    wire, unwire = links.Link.__init__, links.Link.delete

    def linked(self, *args, **kwargs):
        wire(self, *args, **kwargs)
        made_links.append(self)

    def deleted(self):
        unwire(self)

    def away(self):
        """An interface takes the other end of its link with it."""
        for link in [link for link in made_links if self in (link.intf1, link.intf2)]:
            made_links.remove(link)
            for intf in (link.intf1, link.intf2):
                state.get(intf.node.name, {}).pop(intf.name, None)
                gone.add((intf.node.name, intf.name))
        delete(self)

    links.Link.__init__, links.Link.delete = linked, deleted
    delete, links.Intf.delete = links.Intf.delete, away
    for switch in (nodes.OVSSwitch, nodes.OVSBridge, nodelib.LinuxBridge):
        switch.start = started
    nets.Mininet.start = start
    nets.Mininet.stop = stop
    nets.CLI = stop
    import mininet.cli

    mininet.cli.CLI = stop


def pair(intf1, intf2, addr1=None, addr2=None, node1=None, node2=None, deleteIntfs=True, runCmd=None):
    for name, mac, node in ((intf1, addr1, node1), (intf2, addr2, node2)):
        if node is None:
            continue
        if name in state.get(node.name, {}):
            raise Exception("%s exists" % name)
        if len(name) > 15:
            raise Exception("%s is too long" % name)
        gone.discard((node.name, name))
        interface(node, name).update({"mac": mac} if mac else {})


def started(self, controllers):
    """A switch that is started alone starts the network, too."""
    self.given = list(controllers)
    last[0].started_here = True


def start(self):
    if not self.built:
        self.build()
    self.started_here = True


def stop(*_args, **_kwargs):
    raise Done(0)


def end(intf):
    """An end as the meaning of a lab names it."""
    kind = intf.node
    if isinstance(kind, nodelib.NAT):
        return "internet"
    return kind.name if isinstance(kind, nodes.Switch) else "%s:%s" % (kind.name, intf.name)


def share(part):
    """Processors, of a part of all of them: as `cfsInfo` counts them."""
    return round(part * os.cpu_count(), 3) if part > 0 else part


def meaning(net):
    """What the network is."""
    found = {"nodes": {}, "interfaces": {}, "links": {}}
    for host in net.hosts:
        if isinstance(host, nodelib.NAT):
            continue
        node = found["nodes"][host.name] = {"kind": "node"}
        if host.name in routes:
            node["default"] = routes[host.name]
        if host.name in cpus:
            node["cpu"] = cpus[host.name]
        run_here = [text for name, text in commands if name == host.name]
        if run_here:
            node["commands"] = run_here
        for intf in host.intfList():
            if (host.name, intf.name) in gone:
                continue
            made = state.get(host.name, {}).get(intf.name, {})
            own = found["interfaces"].setdefault(host.name, {})[intf.name] = {}
            own["addresses"] = made.get("addresses", [])
            if made.get("mac"):
                own["mac"] = made["mac"].lower()
    for switch in net.switches:
        found["nodes"][switch.name] = switch_of(net, switch)
    for link in made_links:
        ends = [link.intf1, link.intf2]
        ways = [shape(state.get(intf.node.name, {}).get(intf.name, {}).get("tc", [])) for intf in ends]
        lab.put(found["links"], *lab.link([end(intf) for intf in ends], ways))
    return found


def switch_of(net, switch):
    """What a switch does, and which numbers a controller sees."""
    made = {"kind": "switch", "forwards": "learning"}
    bridge = isinstance(switch, (nodes.OVSBridge, nodelib.LinuxBridge))
    standalone = getattr(switch, "failMode", None) == "standalone"
    own = getattr(switch, "given", net.controllers)
    remote = [c for c in own if isinstance(c, nodes.RemoteController)]
    if bridge:
        return made
    if remote:
        made["forwards"] = "openflow"
        made["controllers"] = sorted("%s:%s" % (c.ip, c.port or 6653) for c in remote)
    elif not own and not standalone:
        made["forwards"] = "flows"
    if made["forwards"] != "learning":
        made["dpid"] = int(switch.dpid, 16)
        made["fail"] = "standalone" if standalone else "secure"
        made["ports"] = {end(peer(intf)): switch.ports[intf] for intf in switch.intfList() if intf.link and (switch.name, intf.name) not in gone}
    return made


def peer(intf):
    return intf.link.intf2 if intf.link.intf1 is intf else intf.link.intf1


def main():
    patch()
    sys.argv = [SCRIPT]
    sys.path.insert(0, os.path.dirname(os.path.abspath(SCRIPT)))
    quiet, out = os.open(os.devnull, os.O_WRONLY), os.dup(1)
    os.dup2(quiet, 1)
    names = {}
    try:
        names = runpy.run_path(SCRIPT, run_name="__main__")
    except Done:
        pass
    if last[0] is None:
        nets.Mininet(topo=list(names["topos"].values())[0]())
    if not last[0].built:
        last[0].build()
    sys.stdout.flush()
    os.dup2(out, 1)
    print(json.dumps(meaning(last[0])))


if __name__ == "__main__":
    main()
