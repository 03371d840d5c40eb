"""Links and interfaces.

An interface knows what Mininet's commands would have made of it: its addresses, and what it does to what it sends. While
a network runs, each change is made in its node, too.
"""

import re

from mininet import _record
from mininet._settable import Settable
from mininet.log import error

#: The longest name of an interface that Linux takes.
LONGEST = 15

_UNITS = {"": 1, "s": 1e6, "sec": 1e6, "secs": 1e6, "ms": 1e3, "msec": 1e3, "msecs": 1e3,
          "us": 1, "usec": 1, "usecs": 1, "ns": 1e-3, "nsec": 1e-3, "nsecs": 1e-3}


def _time(text):
    """A time as tc reads it, in microseconds; None where it refuses it."""
    found = re.fullmatch(r"(\d+\.?\d*|\.\d+)([a-z]*)", str(text).strip().lower())
    if not found or found.group(2) not in _UNITS:
        return None
    return round(float(found.group(1)) * _UNITS[found.group(2)], 3)


class Intf(Settable):
    """An interface of a node."""

    def __init__(self, name, node=None, port=None, link=None, mac=None, **params):
        self.name, self.node, self.link, self.mac = name, node, link, mac
        self.ip, self.prefixLen = ("127.0.0.1", 8) if name == "lo" else (None, None)
        self._mac = mac
        #: What it does to what it sends, and what Mininet makes nothing of, by parameter.
        self._out, self._notes = {}, {}
        if link is None and node is not None and name != "lo":
            _record.call("interface %s of the host in %s" % (name, node.name))
        params.pop("moveIntfFn", None)
        if node is not None:
            node.addIntf(self, port=port)
        self.params = params
        self.config(**params)

    @property
    def port(self):
        return self.node.ports.get(self)

    def __str__(self):
        return self.name

    def __repr__(self):
        return "<%s %s>" % (type(self).__name__, self.name)

    def cmd(self, *args, **kwargs):
        return self.node.cmd(*args, **kwargs)

    def _live(self):
        net = self.node.net if self.node is not None else None
        return net._live if net is not None and self.node.kind == "host" else None

    def ifconfig(self, *args):
        words = " ".join(str(word) for word in args)
        if not self._live():
            address = re.match(r"(\d+\.\d+\.\d+\.\d+)(?:/(\d+))?", words)
            if address:
                self.ip, self.prefixLen = address.group(1), address.group(2) or 8
            elif words not in ("up", "down", ""):
                return self.cmd("ifconfig %s %s" % (self.name, words))
            return ""
        if words in ("up", "down"):
            return self.cmd("ip link set %s %s" % (self.name, words))
        return self.cmd("ifconfig %s %s" % (self.name, words))

    def IP(self):
        return self.ip

    def MAC(self):
        if self.mac is None and _record.RUNS and self.node is not None:
            self.mac = self.node.cmd("cat /sys/class/net/%s/address" % self.name).strip()
        return self.mac

    def updateIP(self):
        return self.ip

    def updateMAC(self):
        return self.MAC()

    def updateAddr(self):
        return self.ip, self.MAC()

    def setIP(self, ipstr, prefixLen=None):
        ip, slash, length = str(ipstr).partition("/")
        if not slash and prefixLen is None:
            raise Exception("No prefix length set for IP address %s" % ipstr)
        length = length if slash else prefixLen
        same = (ip, str(length)) == (self.ip, str(self.prefixLen))
        self.ip, self.prefixLen = ip, length
        if same or not self._live():
            return ""
        return self.cmd("ip address flush dev %s; ip address add %s/%s dev %s"
                        % (self.name, ip, length, self.name))

    def setMAC(self, macstr):
        same, self.mac = macstr == self.mac, macstr
        self._mac = macstr
        if same or not self._live():
            return ""
        return self.cmd("ip link set %s address %s" % (self.name, macstr))

    def isUp(self, setUp=False):
        if setUp:
            self.ifconfig("up")
        return True

    def rename(self, newname):
        if self.node is not None and self.name in self.node.nameToIntf:
            self.node.nameToIntf[newname] = self.node.nameToIntf.pop(self.name)
        if self._live():
            self.cmd("ip link set %s down; ip link set %s name %s; ip link set %s up"
                     % (self.name, self.name, newname, newname))
        self.name = newname
        return ""

    def config(self, mac=None, ip=None, ifconfig=None, up=True, **_params):
        results = {}
        self.setParam(results, "setMAC", mac=mac)
        self.setParam(results, "setIP", ip=ip)
        self.setParam(results, "isUp", up=up)
        self.setParam(results, "ifconfig", ifconfig=ifconfig)
        return results

    def delete(self):
        if self.link is not None:
            self.link._away()
        if self.node is not None:
            self.node.delIntf(self)
        self.link = None

    def _is_there(self):
        """Whether the kernel has it: not if the other end of its link was deleted."""
        return self.link is None or self.link in _record.links

    def status(self):
        return "OK"

    def _as_record(self):
        found = {"node": self.node.name, "name": self.name, "port": self.port, "out": self._out}
        if self._mac:
            found["mac"] = self._mac
        if self.ip and self.ip != "0.0.0.0":
            found["address"] = "%s/%s" % (self.ip, self.prefixLen)
        return found


class TCIntf(Intf):
    """An interface that shapes what it sends."""

    bwParamMax = 1000

    def config(self, bw=None, delay=None, jitter=None, loss=None, gro=False, txo=True, rxo=True,
               speedup=0, use_hfsc=False, use_tbf=False, latency_ms=None, enable_ecn=False,
               enable_red=False, max_queue_size=None, **params):
        params.pop("disable_gro", None)
        result = Intf.config(self, **params)
        if bw is None and not delay and not loss and max_queue_size is None:
            if jitter is not None:
                self._notes["jitter"] = "without a delay Mininet does nothing"
            return None
        self._out, self._notes = {}, {}
        self._rate(bw, speedup)
        self._delays(delay, jitter, loss, max_queue_size)
        live = self.node.net._live if self.node is not None and self.node.net is not None else None
        if live:
            live.shape(self)
        return dict(result, tcoutputs=[], parent=" root ")

    def _rate(self, bw, speedup):
        if bw and (bw < 0 or bw > self.bwParamMax):
            error("Bandwidth limit %s is outside supported range 0..%d - ignoring\n"
                  % (bw, self.bwParamMax))
            self._notes["bw"] = "Mininet ignores what is not from 0 to %d" % self.bwParamMax
        elif bw is not None:
            if speedup > 0 and self.node.name.startswith("s"):
                bw = speedup
            if bw > 0:
                self._out["rate"] = round(bw * 1e6)
            else:
                self._notes["bw"] = "tc refuses it in Mininet, too"

    def _delays(self, delay, jitter, loss, queue):
        if loss and (loss < 0 or loss > 100):
            error("Bad loss percentage %s %%\n" % loss)
            self._notes["loss"] = "Mininet ignores a value that is not a percentage, and delay, jitter and queue beside it"
            return
        times = {key: _time(value) for key, value in (("delay", delay), ("jitter", jitter))
                 if value is not None}
        odd = [key for key, value in times.items() if value is None]
        if "jitter" in times and delay is None:
            odd.append("jitter")
        if odd:
            for key in odd + (["loss"] if loss else []) + (["max_queue_size"] if queue is not None else []):
                self._notes[key] = "tc refuses %s=%s in Mininet, too" % (odd[0], delay if odd[0] == "delay" else jitter)
            return
        self._out.update({key: value for key, value in times.items() if value})
        if loss:
            self._out["loss"] = float("%.5f" % loss)
        if queue is not None:
            self._out["queue"] = int(queue)


class OVSIntf(Intf):
    """An ordinary interface."""


class Link:
    """A link between two nodes."""

    def __init__(self, node1, node2, port1=None, port2=None, intfName1=None, intfName2=None,
                 addr1=None, addr2=None, intf=Intf, cls1=None, cls2=None, params1=None,
                 params2=None, fast=True, **params):
        given = {
            "port1": port1, "port2": port2, "intfName1": intfName1, "intfName2": intfName2,
            "addr1": addr1, "addr2": addr2, "params1": params1, "params2": params2, "cls": type(self),
        }
        given.update(params)
        self._entry = {"line": _record.line(), "params": _record.params(given)}
        self.fast = fast
        ends = []
        for node, port, name, own in ((node1, port1, intfName1, params1), (node2, port2, intfName2, params2)):
            own = dict(own or {})
            if port is not None:
                own["port"] = port
            if "port" not in own:
                # The first end's port is taken before the second's is counted only where both are one node's.
                own["port"] = node.newPort()
            name = name or self.intfName(node, own["port"])
            own.update(params)
            ends.append((node, name, own))
        (node1, name1, own1), (node2, name2, own2) = ends
        net = getattr(node1, "net", None) or getattr(node2, "net", None)
        if net is not None and net._live:
            net._live.add_link(self, [(node1, name1), (node2, name2)])
        self.intf1 = self.intf2 = None
        self.intf1 = (cls1 or intf)(name=name1, node=node1, link=self, mac=addr1, **own1)
        self.intf2 = (cls2 or intf)(name=name2, node=node2, link=self, mac=addr2, **own2)
        _record.links.append(self)

    def intfName(self, node, n):
        """The name of a node's interface: short where Linux takes no such long one."""
        name = "%s-eth%d" % (node.name, n)
        return name if len(name) <= LONGEST or node.kind != "host" else "eth%d" % n

    def __str__(self):
        return "%s<->%s" % (self.intf1, self.intf2)

    def status(self):
        return "(OK OK)"

    def stop(self):
        self.delete()

    def delete(self):
        for intf in (self.intf1, self.intf2):
            intf.delete()
        self.intf1 = self.intf2 = None

    def _away(self):
        """The kernel deletes both ends together."""
        if self not in _record.links:
            return
        net = self.intf1.node.net
        if net is not None and net._live:
            net._live.delete_link(self)
        _record.links.remove(self)

    def _as_record(self):
        ends = [self.intf1, self.intf2]
        notes = [dict(intf._notes) for intf in ends]
        return dict(self._entry, node1=ends[0].node.name, node2=ends[1].node.name,
                    ends=[intf._as_record() for intf in ends],
                    notes={**notes[0], **notes[1]})


class TCLink(Link):
    """A link that shapes both directions alike."""

    def __init__(self, *args, **kwargs):
        kwargs.setdefault("cls1", TCIntf)
        kwargs.setdefault("cls2", TCIntf)
        Link.__init__(self, *args, **kwargs)


class TCULink(TCLink):
    """The same."""


class OVSLink(Link):
    """An ordinary link."""
