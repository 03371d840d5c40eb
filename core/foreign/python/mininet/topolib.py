"""Trees and tori."""

from mininet.net import Mininet
from mininet.topo import Topo


class TreeTopo(Topo):
    """A tree of switches with hosts as its leaves."""

    def build(self, depth=1, fanout=2):
        self._host, self._switch = 1, 1
        self._grow(depth, fanout)

    def _grow(self, depth, fanout):
        if depth <= 0:
            node = self.addHost("h%d" % self._host)
            self._host += 1
            return node
        node = self.addSwitch("s%d" % self._switch)
        self._switch += 1
        for _ in range(fanout):
            self.addLink(node, self._grow(depth - 1, fanout))
        return node


def TreeNet(depth=1, fanout=2, **kwargs):
    return Mininet(TreeTopo(depth, fanout), **kwargs)


class TorusTopo(Topo):
    """Switches in a torus, with n hosts each."""

    def build(self, x, y, n=1):
        if x < 3 or y < 3:
            raise Exception("a torus needs at least 3x3 switches")
        switches = {}
        for i in range(x):
            for j in range(y):
                place = "%dx%d" % (i + 1, j + 1)
                switches[i, j] = self.addSwitch("s" + place, dpid="%x" % (i * y + j + 1))
                for k in range(n):
                    name = "h" + place if n == 1 else "h%sx%d" % (place, k + 1)
                    self.addLink(self.addHost(name), switches[i, j])
        for i in range(x):
            for j in range(y):
                self.addLink(switches[i, j], switches[i, (j + 1) % y])
                self.addLink(switches[i, j], switches[(i + 1) % x, j])
