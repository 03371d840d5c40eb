"""A network of a script: recorded, or running as a lab of netloom."""

import re

from mininet import _record
from mininet.link import Link, TCLink
from mininet.log import info, output
from mininet.node import Controller, Host, Node, OVSSwitch
from mininet.nodelib import NAT
from mininet.util import ipAdd, macColonHex, netParse

VERSION = "2.3.1"

#: The network that the script made last.
last = None


class Mininet:
    """Hosts, switches, controllers and links."""

    def __init__(self, topo=None, switch=OVSSwitch, host=Host, controller=Controller, link=Link,
                 intf=None, build=True, xterms=False, cleanup=False, ipBase="10.0.0.0/8",
                 inNamespace=False, autoSetMacs=False, autoStaticArp=False, autoPinCpus=False,
                 listenPort=None, waitConnected=False):
        global last
        last = self
        self.topo, self.switch, self.host = topo, switch, host
        self.controller, self.link = controller, link
        self.ipBase, self.autoSetMacs, self.autoStaticArp = ipBase, autoSetMacs, autoStaticArp
        self.ipBaseNum, self.prefixLen = netParse(ipBase)
        self.nextIP = 1
        self.hosts, self.switches, self.controllers, self.links = [], [], [], []
        self.nameToNode = {}
        self.inNamespace, self.listenPort = inNamespace, listenPort
        self.built, self._started, self._live = False, False, None
        self._options = {"line": _record.line(), "autoStaticArp": autoStaticArp, "ipBase": ipBase,
                         "autoPinCpus": autoPinCpus, "inNamespace": inNamespace}
        if topo is not None and build:
            self.build()

    # Making.

    def _line(self, params):
        return params.pop("line", None) or _record.line()

    def _take(self, node, line):
        """Takes a node that a class or function of the script's own may have made, from the arguments that Mininet gives."""
        node.net = self
        node._entry["line"] = line
        self.nameToNode[node.name] = node
        return node

    def addHost(self, name, cls=None, **params):
        made = {"ip": "%s/%s" % (ipAdd(self.nextIP, self.prefixLen, self.ipBaseNum), self.prefixLen)}
        if self.autoSetMacs:
            made["mac"] = macColonHex(self.nextIP)
        self.nextIP += 1
        made.update(params)
        line = self._line(made)
        cls = cls or self.host
        node = self._take(cls(name, **made), line)
        self.hosts.append(node)
        return node

    def addSwitch(self, name, cls=None, **params):
        line = self._line(params)
        made = {"listenPort": self.listenPort, "inNamespace": self.inNamespace}
        made.update(params)
        node = self._take((cls or self.switch)(name, **made), line)
        self.switches.append(node)
        return node

    def addController(self, name="c0", controller=None, **params):
        line = self._line(params)
        controller = controller or self.controller
        if isinstance(name, Controller):
            node = name
        elif controller is None:
            return None
        elif isinstance(controller, Controller):
            node = controller
        else:
            node = controller(name, **params)
        self.controllers.append(self._take(node, line))
        return node

    def addNAT(self, name="nat0", connect=True, inNamespace=False, **params):
        node = self.addHost(name, cls=NAT, **params)
        if connect:
            to = connect if not isinstance(connect, bool) else self.switches[0]
            self.addLink(node, to)
            for host in self.hosts:
                if host is not node:
                    host._entry.setdefault("gateway", node.name)
        return node

    def addLink(self, node1, node2, port1=None, port2=None, cls=None, **params):
        node1 = self[node1] if isinstance(node1, str) else node1
        node2 = self[node2] if isinstance(node2, str) else node2
        line = self._line(params)
        ports = {"port1": port1, "port2": port2}
        params = dict({port: number for port, number in ports.items() if number is not None}, **params)
        link = (cls or self.link)(node1, node2, **params)
        link._entry["line"] = line
        self.links.append(link)
        return link

    def delLink(self, link):
        self.links = [other for other in self.links if other is not link]
        for intf in (link.intf1, link.intf2):
            intf.node.delIntf(intf)
        if self._started:
            _record.call("delete link %s" % link)
            if self._live:
                self._live.delete_link(link)

    def delLinkBetween(self, node1, node2, index=0, allLinks=False):
        for link in self.linksBetween(node1, node2)[: None if allLinks else index + 1]:
            self.delLink(link)

    def linksBetween(self, node1, node2):
        return [link for link in self.links
                if {link.intf1.node, link.intf2.node} == {node1, node2}]

    def delNode(self, node, nodes=None):
        for kind in (self.hosts, self.switches, self.controllers):
            if node in kind:
                kind.remove(node)
        self.nameToNode.pop(node.name, None)

    delHost = delSwitch = delController = delNode

    def buildFromTopo(self, topo=None):
        topo = topo or self.topo
        if not self.controllers and self.controller:
            classes = self.controller if isinstance(self.controller, list) else [self.controller]
            for number, cls in enumerate(classes):
                if isinstance(cls, Controller):
                    self.addController(cls)
                else:
                    self.addController("c%d" % number, cls)
        for name in topo.hosts():
            self.addHost(name, line=topo._nodes[name]["line"], **topo.nodeInfo(name))
        for name in topo.switches():
            self.addSwitch(name, line=topo._nodes[name]["line"], **topo.nodeInfo(name))
        for link in topo._links:
            opts = dict(link["opts"])
            self.addLink(self[link["ends"][0]], self[link["ends"][1]], line=link["line"], **opts)

    def build(self):
        if self.topo and not self.built:
            self.buildFromTopo(self.topo)
        self.built = True
        if not _record.RUNS:
            self.configHosts()

    def configHosts(self):
        """What classes of a script's own do with their hosts."""
        for host in self.hosts:
            host.configDefault(**host.params)

    # Running.

    def start(self):
        if not self.built:
            self.build()
        self._started = True
        if _record.RUNS:
            from mininet._live import Live

            self._live = Live(self)
            self.configHosts()

    def stop(self):
        if not _record.RUNS:
            raise _record.Done(0)
        if self._live:
            self._live.stop()
            self._live = None
        self._started = False

    def _shell(self, node):
        if not self._live:
            self.start()
        return self._live.shell(node)

    def _enter(self, node):
        if not self._live:
            self.start()
        return self._live.enter(node)

    def _switch(self, switch, words):
        return self._live.dpctl(switch, words) if self._live else ""

    def _shape(self, intf, params):
        if self._live:
            self._live.shape(intf, params)
        else:
            _record.call("shape %s" % intf)

    def startTerms(self):
        _record.call("terminal windows")

    def stopXterms(self, killAll=False):
        pass

    def waitConnected(self, timeout=None, delay=0.5):
        return True

    # Looking.

    def getNodeByName(self, *names):
        found = [self.nameToNode[name] for name in names]
        return found[0] if len(found) == 1 else found

    get = getNodeByName

    def __getitem__(self, key):
        return self.nameToNode[key]

    def __contains__(self, name):
        return name in self.nameToNode

    def __iter__(self):
        return iter([node.name for node in self.hosts + self.switches + self.controllers])

    def __len__(self):
        return len(self.hosts) + len(self.switches) + len(self.controllers)

    def keys(self):
        return list(self)

    def values(self):
        return [self[name] for name in self]

    def items(self):
        return [(name, self[name]) for name in self]

    # Measuring.

    def ping(self, hosts=None, timeout=None):
        hosts = hosts or self.hosts
        if not _record.RUNS:
            return 0.0
        sent = lost = 0
        output("*** Ping: testing ping reachability\n")
        for node in hosts:
            output("%s -> " % node.name)
            for dest in hosts:
                if dest is node or not dest.IP():
                    continue
                answer = node.cmd("ping -c1 -W %s %s" % (timeout or 1, dest.IP()))
                answered = re.search(r" 1 (packets )?received", answer) is not None
                sent += 1
                lost += not answered
                output(("%s " % dest.name) if answered else "X ")
            output("\n")
        share = 100.0 * lost / sent if sent else 0
        output("*** Results: %i%% dropped (%d/%d received)\n" % (share, sent - lost, sent))
        return share

    def pingAll(self, timeout=None):
        return self.ping(timeout=timeout)

    def pingPair(self):
        return self.ping(self.hosts[:2])

    def pingFull(self, hosts=None, timeout=None):
        hosts = hosts or self.hosts
        found = []
        for node in hosts if _record.RUNS else []:
            for dest in hosts:
                if dest is node:
                    continue
                answer = node.cmd("ping -c1 -W %s %s" % (timeout or 1, dest.IP()))
                times = re.search(r"= ([\d.]+)/([\d.]+)/([\d.]+)/([\d.]+)", answer)
                numbers = tuple(float(n) for n in times.groups()) if times else (0, 0, 0, 0)
                found.append((node, dest, (1, int(bool(times))) + numbers))
        return found

    def pingAllFull(self):
        return self.pingFull()

    def pingPairFull(self):
        return self.pingFull(self.hosts[:2])

    def iperf(self, hosts=None, l4Type="TCP", udpBw="10M", fmt=None, seconds=5, port=5001):
        hosts = hosts or [self.hosts[0], self.hosts[-1]]
        if not _record.RUNS:
            return ["0 bits/sec", "0 bits/sec"]
        client, server = hosts
        output("*** Iperf: testing %s bandwidth between %s and %s\n" % (l4Type, client, server))
        rates = self._live.iperf(client, server, l4Type, udpBw, seconds, port)
        output("*** Results: %s\n" % rates)
        return rates

    def runCpuLimitTest(self, cpu, duration=5):
        _record.call("a test of CPU limits")
        return []

    def configLinkStatus(self, src, dst, status):
        if self._live:
            for link in self.linksBetween(self[src], self[dst]):
                self._live.set_link(link, status)
        else:
            _record.call("link %s %s %s" % (src, dst, status))

    def staticArp(self):
        if not _record.RUNS:
            self._options["autoStaticArp"] = True
            return
        for src in self.hosts:
            for dst in self.hosts:
                if src is not dst:
                    src.setARP(ip=dst.IP(), mac=dst.MAC())

    def interact(self):
        self.start()
        from mininet.cli import CLI

        result = CLI(self)
        self.stop()
        return result

    def run(self, test, *args, **kwargs):
        self.start()
        result = test(*args, **kwargs)
        self.stop()
        return result

    @classmethod
    def init(cls):
        pass


class MininetWithControlNet(Mininet):
    """The same: controllers need no network of their own."""


__all__ = ["Mininet", "MininetWithControlNet", "TCLink", "Node", "info", "VERSION"]
