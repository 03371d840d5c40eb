"""Links and interfaces."""

from mininet import _record


class Intf:
    """An interface of a node."""

    def __init__(self, name, node=None, port=None, link=None, mac=None, **params):
        self.name, self.node, self.port, self.link = name, node, port, link
        self.mac, self.ip, self.prefixLen = mac, None, None
        self.params = params
        if link is None and node is not None:
            _record.call("interface %s of the host in %s" % (name, node.name))

    def __str__(self):
        return self.name

    __repr__ = __str__

    def cmd(self, *args, **kwargs):
        return self.node.cmd(*args, **kwargs)

    def IP(self):
        return self.ip

    def MAC(self):
        if self.mac is None and _record.RUNS:
            self.mac = self.node.cmd("cat /sys/class/net/%s/address" % self.name).strip()
        return self.mac

    def updateIP(self):
        return self.ip

    def updateMAC(self):
        return self.MAC()

    def setIP(self, ipstr, prefixLen=None):
        self.ip, _, length = ipstr.partition("/")
        self.prefixLen = int(length or prefixLen or 8)
        return self.cmd("ip address flush dev %s; ip address add %s/%d dev %s"
                        % (self.name, self.ip, self.prefixLen, self.name))

    def setMAC(self, mac):
        self.mac = mac
        return self.cmd("ip link set %s address %s" % (self.name, mac))

    def ifconfig(self, *args):
        words = " ".join(args)
        if words in ("up", "down"):
            return self.cmd("ip link set %s %s" % (self.name, words))
        return self.cmd("ifconfig %s %s" % (self.name, words))

    def isUp(self, setUp=False):
        if setUp:
            self.ifconfig("up")
        return True

    def rename(self, name):
        self.cmd("ip link set %s down; ip link set %s name %s; ip link set %s up"
                 % (self.name, self.name, name, name))
        self.name = name

    def config(self, mac=None, ip=None, ifconfig=None, up=True, **params):
        if mac:
            self.setMAC(mac)
        if ip:
            self.setIP(ip)
        if params:
            self.node.net._shape(self, params)
        return {}

    def delete(self):
        _record.call("delete interface %s" % self.name)


class TCIntf(Intf):
    """An interface that shapes what it sends."""


class Link:
    """A link between two nodes."""

    def __init__(self, node1, node2, port1=None, port2=None, intfName1=None, intfName2=None,
                 addr1=None, addr2=None, intf=None, cls1=None, cls2=None, params1=None,
                 params2=None, fast=True, **params):
        given = {
            "port1": port1, "port2": port2, "intfName1": intfName1, "intfName2": intfName2,
            "addr1": addr1, "addr2": addr2, "params1": params1, "params2": params2, "cls": type(self),
        }
        given.update(params)
        self._entry = {
            "line": _record.line(),
            "node1": node1.name,
            "node2": node2.name,
            "params": _record.params(given),
        }
        self.intf1 = self._interface(node1, port1, intfName1, addr1, dict(params, **(params1 or {})))
        self.intf2 = self._interface(node2, port2, intfName2, addr2, dict(params, **(params2 or {})))

    def _interface(self, node, port, name, addr, params):
        port = node.newPort() if port is None else port
        name = name or "%s-eth%d" % (node.name, port)
        intf = TCIntf(name, node=node, port=port, link=self, mac=addr, **params)
        node._attach(intf, port, params.get("ip"))
        return intf

    def __str__(self):
        return "%s<->%s" % (self.intf1, self.intf2)

    __repr__ = __str__

    def status(self):
        return "(OK OK)"

    def stop(self):
        self.delete()

    def delete(self):
        self.intf1.node.net.delLink(self)


class TCLink(Link):
    """A link that shapes both directions alike."""


class TCULink(TCLink):
    """The same."""


class OVSLink(Link):
    """An ordinary link."""


class OVSIntf(Intf):
    """An ordinary interface."""
