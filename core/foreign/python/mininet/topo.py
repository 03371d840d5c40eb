"""Topologies: names and parameters, before anything is made.

Ports and defaults are Mininet's: the next port of a node is the number of ports that it has so far, and own options of
a node or link replace the topology's default ones instead of joining them.
"""

from mininet import _record
from mininet.util import irange, natural, naturalSeq


class MultiGraph:
    """Nodes and edges with attributes; there may be several edges between two nodes, each with a key."""

    def __init__(self):
        self.node, self.edge = {}, {}

    def add_node(self, node, attr_dict=None, **attrs):
        attr_dict = {} if attr_dict is None else attr_dict
        attr_dict.update(attrs)
        self.node[node] = attr_dict

    def add_edge(self, src, dst, key=None, attr_dict=None, **attrs):
        attr_dict = {} if attr_dict is None else attr_dict
        attr_dict.update(attrs)
        for end in (src, dst):
            self.node.setdefault(end, {})
            self.edge.setdefault(end, {})
        between = self.edge[src].setdefault(dst, {})
        self.edge[dst][src] = between
        if key is None:
            key = max([0] + [known for known in between if isinstance(known, int)]) + 1
        between[key] = attr_dict
        return key

    def nodes(self, data=False):
        return self.node.items() if data else self.node.keys()

    def edges_iter(self, data=False, keys=False):
        for src, others in self.edge.items():
            for dst, between in others.items():
                # Each edge is seen from both ends, and told once.
                for key, attrs in between.items() if src <= dst else ():
                    yield (src, dst) + ((key,) if keys else ()) + ((attrs,) if data else ())

    def edges(self, data=False, keys=False):
        return list(self.edges_iter(data=data, keys=keys))

    def __getitem__(self, node):
        return self.edge[node]

    def __len__(self):
        return len(self.node)

    def convertTo(self, cls, data=False, keys=False):
        made = cls()
        made.add_nodes_from(self.nodes(data=data))
        made.add_edges_from(self.edges(data=(data or keys), keys=keys))
        return made


class Topo:
    """What a script describes in ``build``."""

    def __init__(self, *args, **params):
        self.g = MultiGraph()
        self.hopts = params.pop("hopts", {})
        self.sopts = params.pop("sopts", {})
        self.lopts = params.pop("lopts", {})
        #: By node and port: the node and port at the other end.
        self.ports = {}
        self._lines = {}
        self.build(*args, **params)

    def build(self, *args, **params):
        pass

    def addNode(self, name, **opts):
        self._lines[name] = _record.line()
        self.g.add_node(name, **opts)
        return name

    def addHost(self, name, **opts):
        return self.addNode(name, **(opts or self.hopts or {}))

    def addSwitch(self, name, **opts):
        return self.addNode(name, isSwitch=True, **(opts or self.sopts or {}))

    def addLink(self, node1, node2, port1=None, port2=None, key=None, **opts):
        port1, port2 = self.addPort(node1, node2, port1, port2)
        given = dict(opts or self.lopts or {})
        given.update(node1=node1, node2=node2, port1=port1, port2=port2)
        key = self.g.add_edge(node1, node2, key, given)
        self._lines[frozenset((node1, node2)), key] = _record.line()
        return key

    def addPort(self, src, dst, sport=None, dport=None):
        for node in (src, dst):
            self.ports.setdefault(node, {})
        if sport is None:
            sport = len(self.ports[src]) + (1 if self.isSwitch(src) else 0)
        if dport is None:
            dport = len(self.ports[dst]) + (1 if self.isSwitch(dst) else 0)
        self.ports[src][sport] = (dst, dport)
        self.ports[dst][dport] = (src, sport)
        return sport, dport

    def port(self, src, dst):
        found = [(port, far) for port, (node, far) in self.ports[src].items() if node == dst]
        return found[0] if len(found) == 1 else found

    def nodes(self, sort=True):
        return self.sorted(self.g.nodes()) if sort else self.g.nodes()

    def isSwitch(self, n):
        return self.g.node[n].get("isSwitch", False)

    def switches(self, sort=True):
        return [name for name in self.nodes(sort) if self.isSwitch(name)]

    def hosts(self, sort=True):
        return [name for name in self.nodes(sort) if not self.isSwitch(name)]

    def iterLinks(self, withKeys=False, withInfo=False):
        for _src, _dst, key, info in self.g.edges_iter(data=True, keys=True):
            entry = (info["node1"], info["node2"])
            yield entry + ((key,) if withKeys else ()) + ((info,) if withInfo else ())

    def links(self, sort=False, withKeys=False, withInfo=False):
        found = list(self.iterLinks(withKeys, withInfo))
        parts = 3 if withKeys else 2
        return sorted(found, key=lambda link: naturalSeq(link[:parts])) if sort else found

    def _linkEntry(self, src, dst, key=None):
        entry = self.g[src][dst]
        return entry, min(entry) if key is None else key

    def linkInfo(self, src, dst, key=None):
        entry, key = self._linkEntry(src, dst, key)
        return entry[key]

    def setlinkInfo(self, src, dst, info, key=None):
        entry, key = self._linkEntry(src, dst, key)
        entry[key] = info

    def nodeInfo(self, name):
        return self.g.node[name]

    def setNodeInfo(self, name, info):
        self.g.node[name] = info

    def convertTo(self, cls, data=True, keys=True):
        return self.g.convertTo(cls, data=data, keys=keys)

    @staticmethod
    def sorted(items):
        return sorted(items, key=natural)


class SingleSwitchTopo(Topo):
    """One switch with k hosts."""

    def build(self, k=2, **_opts):
        self.k = k
        switch = self.addSwitch("s1")
        for number in irange(1, k):
            self.addLink(self.addHost("h%d" % number), switch)


class SingleSwitchReversedTopo(Topo):
    """One switch with k hosts, the last on the first port."""

    def build(self, k=2):
        self.k = k
        switch = self.addSwitch("s1")
        for number in irange(1, k):
            self.addLink(self.addHost("h%d" % number), switch, port1=0, port2=k - number + 1)


class MinimalTopo(SingleSwitchTopo):
    """One switch with two hosts."""

    def build(self):
        SingleSwitchTopo.build(self, k=2)


class LinearTopo(Topo):
    """A row of k switches, with n hosts each."""

    def build(self, k=2, n=1, **_opts):
        self.k, self.n = k, n
        last = None
        for row in irange(1, k):
            switch = self.addSwitch("s%d" % row)
            for column in irange(1, n):
                name = "h%d" % row if n == 1 else "h%ds%d" % (column, row)
                self.addLink(self.addHost(name), switch)
            if last:
                self.addLink(switch, last)
            last = switch
