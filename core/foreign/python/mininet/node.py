"""Hosts, switches and controllers."""

import os
import subprocess

from mininet import _record

#: The number of no process: beyond the largest that Linux gives.
NOBODY = 1 << 22


class Node:
    """A host. Commands run in a shell of its own that lives as long as the network."""

    kind = "host"
    portBase = 0

    def __init__(self, name, inNamespace=True, **params):
        self.name, self.inNamespace, self.net, self._pid = name, inNamespace, None, None
        self.params = params
        self.intfs, self.ports, self.nameToIntf = {}, {}, {}
        self.waiting, self.shell, self.lastCmd = False, None, None
        self.defaultIP = params.get("ip")
        given = dict(params, cls=type(self))
        self._entry = {"line": _record.line(), "name": name, "params": _record.params(given)}

    @property
    def pid(self):
        """The process in whose namespaces the node is. A host has one while the network runs; nothing may enter the
        machine's own namespaces in its place. Switches and controllers are the machine's, as Mininet's are."""
        return (self._pid or NOBODY) if self.kind == "host" else os.getpid()

    def __str__(self):
        return self.name

    def __repr__(self):
        intfs = ",".join("%s:%s" % (intf, intf.IP()) for intf in self.intfList())
        return "<%s %s: %s pid=%s>" % (type(self).__name__, self.name, intfs, self.pid)

    # Interfaces.

    def newPort(self):
        return max(self.ports.values()) + 1 if self.ports else self.portBase

    def _attach(self, intf, port, ip=None):
        self.intfs[port], self.ports[intf], self.nameToIntf[intf.name] = intf, port, intf
        if self.kind == "host":
            address = ip or (self.defaultIP if len(self.intfs) == 1 else None)
            if address:
                intf.ip, _, length = str(address).partition("/")
                intf.prefixLen = int(length or 8)
            if len(self.intfs) == 1 and intf.mac is None:
                intf.mac = self.params.get("mac")

    def addIntf(self, intf, port=None, moveIntfFn=None):
        self._attach(intf, self.newPort() if port is None else port)

    def delIntf(self, intf):
        port = self.ports.pop(intf, None)
        if port is not None:
            del self.intfs[port]
            del self.nameToIntf[intf.name]

    def defaultIntf(self):
        return self.intfs[min(self.intfs)] if self.intfs else None

    def intf(self, intf=None):
        if not intf:
            return self.defaultIntf()
        return self.nameToIntf.get(intf) if isinstance(intf, str) else intf

    def intfList(self):
        return [self.intfs[port] for port in sorted(self.intfs)]

    def intfNames(self):
        return [str(intf) for intf in self.intfList()]

    def connectionsTo(self, node):
        found = []
        for intf in self.intfList():
            link = intf.link
            if link and {link.intf1.node, link.intf2.node} == {self, node}:
                mine = link.intf1.node is self
                found.append((link.intf1, link.intf2) if mine else (link.intf2, link.intf1))
        return found

    def IP(self, intf=None):
        found = self.intf(intf)
        return found.IP() if found else None

    def MAC(self, intf=None):
        found = self.intf(intf)
        return found.MAC() if found else None

    def setIP(self, ip, prefixLen=8, intf=None, **kwargs):
        return self.intf(intf).setIP(ip, prefixLen, **kwargs)

    def setMAC(self, mac, intf=None):
        return self.intf(intf).setMAC(mac)

    def setARP(self, ip, mac):
        return self.cmd("ip neighbour replace %s lladdr %s dev %s" % (ip, mac, self.defaultIntf()))

    def setHostRoute(self, ip, intf):
        return self.cmd("ip route replace %s dev %s" % (ip, intf))

    def setDefaultRoute(self, intf=None):
        words = intf if isinstance(intf, str) and " " in intf else "dev %s" % (intf or self.defaultIntf())
        return self.cmd("ip route replace default %s" % words)

    # Commands.

    def cmd(self, *args, **kwargs):
        command = _command(args)
        verbose = kwargs.get("verbose", False)
        if verbose:
            print("*** %s : %s" % (self.name, command))
        if not _record.RUNS:
            _record.commands.append({"line": _record.line(), "node": self.name, "command": command})
            return ""
        return self.net._shell(self).cmd(command, verbose)

    def cmdPrint(self, *args, **kwargs):
        return self.cmd(*args, **dict(kwargs, verbose=True))

    def sendCmd(self, *args, **kwargs):
        command = _command(args)
        self.lastCmd = command
        if not _record.RUNS:
            self.cmd(command + " &")
            return
        self.net._shell(self).send(command)
        self.waiting = True

    def waitOutput(self, verbose=False, findPid=True):
        if not _record.RUNS:
            return ""
        self.waiting = False
        return self.net._shell(self).wait(verbose)

    def monitor(self, timeoutms=None, findPid=True):
        return self.waitOutput()

    def sendInt(self, intr=chr(3)):
        if _record.RUNS:
            self.net._shell(self).interrupt()

    def popen(self, *args, **kwargs):
        words = args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args
        if len(words) == 1 and isinstance(words[0], str):
            words = ["sh", "-c", words[0]] if kwargs.pop("shell", True) else words[0].split()
        kwargs.pop("shell", None)
        kwargs.pop("mncmd", None)
        words = [str(word) for word in words]
        if not _record.RUNS:
            self.cmd(" ".join(words) + " &")
            words = ["true"]
        else:
            words = self.net._enter(self) + words
        kwargs.setdefault("stdout", subprocess.PIPE)
        kwargs.setdefault("stderr", subprocess.PIPE)
        return subprocess.Popen(words, **kwargs)

    def pexec(self, *args, **kwargs):
        process = self.popen(*args, **kwargs)
        out, err = process.communicate()
        decode = lambda data: data.decode(errors="replace") if isinstance(data, bytes) else data
        return decode(out), decode(err), process.returncode

    def config(self, **params):
        self.params.update(params)
        return {}

    def configDefault(self, **params):
        return self.config(**params)

    def terminate(self):
        pass

    def stop(self, deleteIntfs=False):
        pass

    def cleanup(self):
        pass

    @classmethod
    def setup(cls):
        pass


def _command(args):
    words = args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args
    return " ".join(str(word) for word in words)


class Host(Node):
    """A host."""


class CPULimitedHost(Host):
    """A host with a share of the processors."""

    def setCPUFrac(self, f, sched=None, numc=None):
        self._entry["params"]["cpu"] = f

    def setCPUs(self, cores, mems=0):
        self._entry["params"]["cores"] = _record.plain(cores)


class Switch(Node):
    """A switch."""

    kind = "switch"
    portBase = 1

    def __init__(self, name, dpid=None, **params):
        Node.__init__(self, name, dpid=dpid, **params)
        digits = "".join(c for c in name if c.isdigit())
        self.dpid = str(dpid) if dpid else "%016x" % int(digits or 1)
        self.listenPort = None

    def start(self, controllers=None):
        self._controllers = controllers

    def connected(self):
        return True

    def dpctl(self, *args):
        _record.call("dpctl of %s" % self.name)
        return self.net._switch(self, args) if _record.RUNS else ""

    def cmd(self, *args, **kwargs):
        command = _command(args)
        if not _record.RUNS:
            _record.call("command of switch %s: %s" % (self.name, command))
            return ""
        # A switch has no file system of its own.
        return subprocess.run(["sh", "-c", command], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False).stdout


class OVSSwitch(Switch):
    """A switch that a controller may program."""


OVSKernelSwitch = OVSSwitch


class OVSBridge(OVSSwitch):
    """A switch that learns by itself."""


class LinuxBridge(Switch):
    """A bridge of the kernel."""


class UserSwitch(OVSSwitch):
    """A switch that a controller may program."""


class IVSSwitch(OVSSwitch):
    """A switch that a controller may program."""


class Controller(Node):
    """A controller with which switches learn."""

    kind = "controller"

    def __init__(self, name, ip="127.0.0.1", port=None, **params):
        Node.__init__(self, name, ip=ip, port=port, **params)
        self.ip, self.port = ip, port

    def IP(self, intf=None):
        return self.ip

    def start(self):
        pass

    def checkListening(self):
        pass


class OVSController(Controller):
    """A controller with which switches learn."""


class Ryu(Controller):
    """A controller that runs applications."""

    def __init__(self, name, *ryuArgs, **kwargs):
        Controller.__init__(self, name, apps=list(ryuArgs), **kwargs)


class NOX(Controller):
    """A controller that runs applications."""


class RemoteController(Controller):
    """A controller that runs elsewhere."""


class NullController(Controller):
    """No controller."""


DefaultController = Controller


def findController(controllers=None):
    return Controller


def isShellBuiltin(cmd):
    return False
