"""A way to the host's network, and bridges."""

from mininet.node import LinuxBridge, Node  # noqa: F401


class NAT(Node):
    """A node that leads to the host's network."""
