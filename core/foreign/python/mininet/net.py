"""A network of a script: recorded, or running as a lab of netloom."""

import re

from mininet import _ending, _record
from mininet.link import Intf, Link, TCLink
from mininet.log import info, output
from mininet.node import Controller, Host, Node, OVSSwitch
from mininet.nodelib import NAT
from mininet.util import ipAdd, macColonHex, naturalSeq, netParse, numCores

VERSION = "2.3.1"

#: The network that the script made last.
last = None


class Mininet:
    """Hosts, switches, controllers and links."""

    def __init__(self, topo=None, switch=OVSSwitch, host=Host, controller=Controller, link=Link,
                 intf=Intf, build=True, xterms=False, cleanup=False, ipBase="10.0.0.0/8",
                 inNamespace=False, autoSetMacs=False, autoStaticArp=False, autoPinCpus=False,
                 listenPort=None, waitConnected=False):
        global last
        last = self
        self.topo, self.switch, self.host = topo, switch, host
        self.controller, self.link, self.intf = controller, link, intf
        self.ipBase, self.autoSetMacs, self.autoStaticArp = ipBase, autoSetMacs, autoStaticArp
        self.ipBaseNum, self.prefixLen = netParse(ipBase)
        self.nextIP = ((0xFFFFFFFF >> self.prefixLen) & self.ipBaseNum) or 1
        self.nextCore, self.numCores = 0, numCores()
        self.hosts, self.switches, self.controllers, self.links = [], [], [], []
        self.nameToNode = {}
        self.inNamespace, self.listenPort, self.autoPinCpus = inNamespace, listenPort, autoPinCpus
        self.built, self._started, self._live = False, False, None
        self._options = {"line": _record.line(), "autoStaticArp": autoStaticArp, "ipBase": ipBase,
                         "autoPinCpus": autoPinCpus, "inNamespace": inNamespace}
        if topo and build:
            self.build()

    # Making.

    def _take(self, node, name, nodes):
        """Takes a node that a class or function of the script's own may have made, from the arguments that Mininet
        gives."""
        node.net = self
        node._entry["line"] = _record.line()
        nodes.append(node)
        self.nameToNode[name] = node
        return node

    def addHost(self, name, cls=None, **params):
        given = {"ip": "%s/%s" % (ipAdd(self.nextIP, self.prefixLen, self.ipBaseNum), self.prefixLen)}
        if self.autoSetMacs:
            given["mac"] = macColonHex(self.nextIP)
        if self.autoPinCpus:
            given["cores"] = self.nextCore
            self.nextCore = (self.nextCore + 1) % self.numCores
        self.nextIP += 1
        given.update(params)
        host = self._take((cls or self.host)(name, **given), name, self.hosts)
        if self._live:
            self._live.add_host(host)
        return host

    def addSwitch(self, name, cls=None, **params):
        if self._live:
            _record.refuse("addSwitch(%r): a running network gets hosts and links; add switches before net.start()" % name)
        given = {"listenPort": self.listenPort, "inNamespace": self.inNamespace}
        given.update(params)
        node = (cls or self.switch)(name, **given)
        if not self.inNamespace and self.listenPort:
            self.listenPort += 1
        return self._take(node, name, self.switches)

    def addController(self, name="c0", controller=None, **params):
        controller = controller or self.controller
        if isinstance(name, Controller):
            node, name = name, name.name
        elif isinstance(controller, Controller):
            node = controller
        else:
            node = controller(name, **params)
        # A function may make none.
        return self._take(node, name, self.controllers) if node else node

    def addNAT(self, name="nat0", connect=True, inNamespace=False, **params):
        if self._live:
            _record.refuse("addNAT(%r): add it before net.start()" % name)
        node = self.addHost(name, cls=NAT, inNamespace=inNamespace, subnet=self.ipBase, **params)
        if connect:
            to = connect if isinstance(connect, Node) else self.switches[0]
            self.addLink(node, to)
            for host in self.hosts:
                if host.inNamespace:
                    host.setDefaultRoute("via %s" % node.params["ip"].split("/")[0])
        return node

    def addLink(self, node1, node2, port1=None, port2=None, cls=None, **params):
        node1 = self[node1] if isinstance(node1, str) else node1
        node2 = self[node2] if isinstance(node2, str) else node2
        options = dict(params)
        for key, value in (("port1", port1), ("port2", port2), ("intf", self.intf)):
            if value is not None:
                options.setdefault(key, value)
        link = (self.link if cls is None else cls)(node1, node2, **options)
        self.links.append(link)
        return link

    def delLink(self, link):
        if self._started:
            _record.call("delete link %s" % link)
        link.delete()
        self.links.remove(link)

    def delLinkBetween(self, node1, node2, index=0, allLinks=False):
        links = self.linksBetween(node1, node2)
        for link in links if allLinks else [links[index]]:
            self.delLink(link)
        return links

    def linksBetween(self, node1, node2):
        return [link for link in self.links
                if {link.intf1.node, link.intf2.node} == {node1, node2}]

    def delNode(self, node, nodes=None):
        # With the node's interfaces go, in the kernel, those at the other ends of its links, which Mininet still counts.
        node.deleteIntfs(checkName=False)
        if self._live and node in self.hosts:
            self._live.delete_host(node)
        for kind in (self.hosts, self.switches, self.controllers):
            if node in kind:
                kind.remove(node)
        self.nameToNode.pop(node.name, None)

    delHost = delSwitch = delController = delNode

    def __delitem__(self, key):
        self.delNode(self.nameToNode[key])

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
            with _record.at(topo._lines.get(name)):
                self.addHost(name, **topo.nodeInfo(name))
        for name in topo.switches():
            params = topo.nodeInfo(name)
            if hasattr(params.get("cls", self.switch), "batchStartup"):
                params.setdefault("batch", True)
            with _record.at(topo._lines.get(name)):
                self.addSwitch(name, **params)
        links = topo.iterLinks(withKeys=True, withInfo=True)
        for one, two, key, params in sorted(links, key=lambda link: naturalSeq(link[:2])):
            with _record.at(topo._lines.get((frozenset((one, two)), key))):
                self.addLink(**params)

    def build(self):
        if self.topo:
            self.buildFromTopo(self.topo)
        self.configHosts()
        if self.autoStaticArp:
            self.staticArp()
        self.built = True

    def configHosts(self):
        """Gives hosts their addresses and routes, and does what classes of a script's own do with theirs."""
        for host in self.hosts:
            if host.defaultIntf():
                host.configDefault()
            else:
                host.configDefault(ip=None, mac=None)

    # Running.

    def start(self):
        if not self.built:
            self.build()
        for switch in self.switches:
            switch.start(self.controllers)
        self._go()
        if _record.RUNS:
            for controller in self.controllers:
                controller.start()

    def _go(self):
        """Brings the network up as a lab, unless it is up or only recorded."""
        if self._started:
            return
        self._started = True
        if _record.RUNS:
            from mininet._live import Live

            # A lab that is half made would be nobody's to take down.
            with _ending.later():
                self._live = Live(self)

    def stop(self):
        if not _record.RUNS:
            raise _record.Done(0)
        for controller in self.controllers:
            controller.stop()
            controller._end()
        if self._live:
            live, self._live = self._live, None
            with _ending.later():
                live.stop()
        self._started = False

    def _lives(self):
        """Whether anything of it runs."""
        return self._live is not None or any(controller._here for controller in self.controllers)

    def _shell(self, node):
        self._go()
        return self._live.shell(node)

    def _enter(self, node):
        self._go()
        return self._live.enter(node)

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
        self._go()
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
