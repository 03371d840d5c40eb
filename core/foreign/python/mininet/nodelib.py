"""A way to the host's network, and bridges."""

from mininet.node import LinuxBridge, Node  # noqa: F401


class NAT(Node):
    """A node that leads to the host's network."""

    def __init__(self, name, subnet="10.0/8", localIntf=None, flush=False, **params):
        Node.__init__(self, name, **params)
        self.subnet, self.localIntf, self.flush = subnet, localIntf, flush

    def _record_kind(self):
        return "nat"
