"""Topologies: names and parameters, before anything is made."""

from mininet import _record


class Topo:
    """What a script describes in ``build``."""

    def __init__(self, *args, **params):
        self._nodes = {}
        self._links = []
        self.hopts = params.pop("hopts", {})
        self.sopts = params.pop("sopts", {})
        self.lopts = params.pop("lopts", {})
        self.build(*args, **params)

    def build(self, *args, **params):
        pass

    def _add(self, name, opts, kind, defaults):
        given = dict(defaults or {})
        given.update(opts)
        self._nodes[name] = {"kind": kind, "opts": given, "line": _record.line()}
        return name

    def addNode(self, name, **opts):
        return self._add(name, opts, "host", self.hopts)

    def addHost(self, name, **opts):
        return self._add(name, opts, "host", self.hopts)

    def addSwitch(self, name, **opts):
        return self._add(name, opts, "switch", self.sopts)

    def addLink(self, node1, node2, port1=None, port2=None, key=None, **opts):
        given = dict(self.lopts or {})
        given.update(opts)
        if port1 is not None:
            given["port1"] = port1
        if port2 is not None:
            given["port2"] = port2
        self._links.append({"ends": (node1, node2), "opts": given, "line": _record.line()})
        return len(self._links) - 1

    def nodes(self, sort=True):
        return self.sorted(self._nodes) if sort else list(self._nodes)

    def isSwitch(self, name):
        return self._nodes[name]["kind"] == "switch"

    def switches(self, sort=True):
        return [name for name in self.nodes(sort) if self.isSwitch(name)]

    def hosts(self, sort=True):
        return [name for name in self.nodes(sort) if not self.isSwitch(name)]

    def links(self, sort=False, withKeys=False, withInfo=False):
        found = []
        for number, link in enumerate(self._links):
            entry = tuple(link["ends"])
            if withKeys:
                entry += (number,)
            if withInfo:
                entry += (dict(link["opts"], node1=link["ends"][0], node2=link["ends"][1]),)
            found.append(entry)
        return found

    def nodeInfo(self, name):
        return self._nodes[name]["opts"]

    def setNodeInfo(self, name, info):
        self._nodes[name]["opts"] = info

    def linkInfo(self, src, dst, key=None):
        for link in self._links:
            if set(link["ends"]) == {src, dst}:
                return link["opts"]
        raise KeyError((src, dst))

    @staticmethod
    def sorted(names):
        def natural(text):
            parts, digits = [], ""
            for c in text:
                if c.isdigit():
                    digits += c
                    continue
                if digits:
                    parts.append((0, int(digits), ""))
                    digits = ""
                parts.append((1, 0, c))
            if digits:
                parts.append((0, int(digits), ""))
            return parts

        return sorted(names, key=natural)


class SingleSwitchTopo(Topo):
    """One switch with k hosts."""

    def build(self, k=2, **_opts):
        self.k = k
        switch = self.addSwitch("s1")
        for number in range(1, k + 1):
            self.addLink(self.addHost("h%d" % number), switch)


class SingleSwitchReversedTopo(Topo):
    """One switch with k hosts, the last on the first port."""

    def build(self, k=2):
        switch = self.addSwitch("s1")
        for number in range(1, k + 1):
            self.addLink(self.addHost("h%d" % number), switch, port1=0, port2=k - number + 1)


class MinimalTopo(SingleSwitchTopo):
    """One switch with two hosts."""

    def build(self):
        SingleSwitchTopo.build(self, k=2)


class LinearTopo(Topo):
    """A row of k switches, with n hosts each."""

    def build(self, k=2, n=1, sopts=None, **_opts):
        last = None
        for row in range(1, k + 1):
            switch = self.addSwitch("s%d" % row, **(sopts or {}))
            for column in range(1, n + 1):
                name = "h%d" % row if n == 1 else "h%ds%d" % (column, row)
                self.addLink(self.addHost(name), switch)
            if last:
                self.addLink(switch, last)
            last = switch
