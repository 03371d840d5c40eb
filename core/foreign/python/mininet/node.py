"""Hosts, switches and controllers."""

import ipaddress
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import zlib

from mininet import _record
from mininet._settable import Settable
from mininet.log import error
from mininet.util import numCores

#: The number of no process: beyond the largest that Linux gives.
NOBODY = 1 << 22


class Node(Settable):
    """A host. Commands run in a shell of its own that lives as long as the network."""

    kind = "host"
    portBase = 0

    def __init__(self, name, inNamespace=True, **params):
        self.name, self.net, self._pid = params.get("name", name), None, None
        self.inNamespace = params.get("inNamespace", inNamespace)
        self.privateDirs = params.get("privateDirs", [])
        self.params = params
        self.intfs, self.ports, self.nameToIntf = {}, {}, {}
        self.waiting, self.shell, self.lastCmd = False, None, None
        self.lastPid, self.execed = None, False
        #: The words after `ip route add default`, and what of its parameters Mininet makes nothing of.
        self._default, self._notes = None, {}
        #: The share of all processors that it may use, and which of them.
        self._share, self._cores = None, None
        self._entry = {"line": _record.line(), "name": self.name}

    def _record_kind(self):
        return self.kind

    def _as_record(self):
        given = dict(self.params, cls=type(self))
        if self._share:
            given["cpu"] = self._share * numCores()
        elif given.get("cpu"):
            self._notes["cpu"] = "Mininet limits hosts of CPULimitedHost, when it configures them: none that come later"
        if self._cores is not None:
            given["cores"] = self._cores
        if not self.inNamespace and self.kind == "host":
            given["inNamespace"] = False
        found = dict(self._entry, kind=self._record_kind(), params=_record.params(given), notes=self._notes)
        if self._default:
            found["default"] = self._default
        return found

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

    def addIntf(self, intf, port=None, moveIntfFn=None):
        port = self.newPort() if port is None else port
        self.intfs[port], self.ports[intf], self.nameToIntf[intf.name] = intf, port, intf

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
        return self.nameToIntf[intf] if isinstance(intf, str) else intf

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
        if not _record.RUNS:
            return ""
        return self.cmd("ip neighbour replace %s lladdr %s dev %s" % (ip, mac, self.defaultIntf()))

    def setHostRoute(self, ip, intf):
        return self.cmd("ip route replace %s dev %s" % (ip, intf))

    def setDefaultRoute(self, intf=None):
        words = intf if isinstance(intf, str) and " " in intf else "dev %s" % intf
        same, was = words == self._default, self._default
        self._default = words if self._reaches(words.split()) else None
        if self._default is None and intf is not None:
            self._notes["defaultRoute"] = "the node does not reach it there: Mininet's own command fails, too"
        if same or not (self.net is not None and self.net._live):
            return ""
        return self.cmd("ip route del default; ip route add default %s" % words) if was else \
            self.cmd("ip route add default %s" % words)

    def _reaches(self, words):
        """Whether the kernel takes a route: its interface is there, and its next hop on one of the node's networks."""
        known = dict(zip(words[::2], words[1::2]))
        if "dev" in known and not (known["dev"] in self.nameToIntf and self.nameToIntf[known["dev"]]._is_there()):
            return False
        if "via" not in known:
            return "dev" in known
        try:
            nets = [ipaddress.ip_interface("%s/%s" % (intf.ip, intf.prefixLen)).network
                    for intf in self.intfList() if intf.ip and intf._is_there()]
            return any(ipaddress.ip_address(known["via"]) in net for net in nets)
        except ValueError:
            return False

    def linkTo(self, node, link=None):
        from mininet.link import Link

        return (link or Link)(self, node)

    def intfIsUp(self, intf=None):
        return self.intf(intf).isUp()

    def deleteIntfs(self, checkName=True):
        for intf in list(self.intfs.values()):
            if self.name in intf.name or not checkName:
                intf.delete()

    # Commands.

    def cmd(self, *args, **kwargs):
        command = _command(args)
        verbose = kwargs.get("verbose", False)
        if verbose:
            print("*** %s : %s" % (self.name, command))
        if not _record.RUNS:
            _record.commands.append({"line": _record.line(), "node": self.name, "command": command})
            return ""
        return self._shell().cmd(command, verbose)

    def _shell(self):
        """The node's shell, which the first command starts."""
        return self.net._shell(self)

    def _enter(self):
        """Words before those of a program that is to run in the node."""
        return self.net._enter(self)

    def cmdPrint(self, *args, **kwargs):
        return self.cmd(*args, **dict(kwargs, verbose=True))

    def sendCmd(self, *args, **kwargs):
        command = _command(args)
        self.lastCmd = command
        if not _record.RUNS:
            self.cmd(command + " &")
            return
        self._shell().send(command)
        self.waiting = True

    def waitOutput(self, verbose=False, findPid=True):
        if not _record.RUNS:
            return ""
        self.waiting = False
        return self._shell().wait(verbose)

    def monitor(self, timeoutms=None, findPid=True):
        return self.waitOutput()

    def sendInt(self, intr=chr(3)):
        if _record.RUNS:
            self._shell().interrupt()

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
            words = self._enter() + words
        kwargs.setdefault("stdout", subprocess.PIPE)
        kwargs.setdefault("stderr", subprocess.PIPE)
        return subprocess.Popen(words, **kwargs)

    def pexec(self, *args, **kwargs):
        process = self.popen(*args, **kwargs)
        out, err = process.communicate()
        decode = lambda data: data.decode(errors="replace") if isinstance(data, bytes) else data
        return decode(out), decode(err), process.returncode

    def config(self, mac=None, ip=None, defaultRoute=None, lo="up", **_params):
        results = {}
        self.setParam(results, "setMAC", mac=mac)
        self.setParam(results, "setIP", ip=ip)
        self.setParam(results, "setDefaultRoute", defaultRoute=defaultRoute)
        return results

    def configDefault(self, **moreParams):
        self.params.update(moreParams)
        self.config(**self.params)

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
    """A host with a share of all processors, which it has when it is configured."""

    def config(self, cpu=-1, cores=None, **params):
        results = Node.config(self, **params)
        self.setParam(results, "setCPUFrac", cpu=cpu)
        self.setParam(results, "setCPUs", cores=cores)
        return results

    def setCPUFrac(self, f, sched=None):
        if not f:
            return
        self._share = float(f) if f > 0 else None
        if self._pid:
            _record.say("setCPUFrac of %s: use `netloom node set`" % self.name)

    def setCPUs(self, cores, mems=0):
        self._cores = _record.plain(cores)


class Switch(Node):
    """A switch."""

    kind = "switch"
    portBase = 1

    def __init__(self, name, dpid=None, opts="", listenPort=None, **params):
        from mininet.link import Intf

        Node.__init__(self, name, **params)
        self.dpid = self.defaultDpid(dpid)
        self.opts, self.listenPort, self.controlIntf, self._controllers = opts, listenPort, None, None
        if not self.inNamespace:
            self.controlIntf = Intf("lo", self, port=0)

    def defaultDpid(self, dpid=None):
        """The number for controllers: given in hexadecimal, or the first number in the name."""
        if dpid:
            dpid = str(dpid).replace(":", "")
            assert len(dpid) <= 16 and int(dpid, 16) >= 0
            return dpid.rjust(16, "0")
        digits = re.search(r"\d+", self.name)
        if digits:
            return "%016x" % int(digits.group())
        self._notes["dpid"] = "Mininet refuses a switch without a dpid and without a number in its name; it has this one"
        return "%016x" % (1 << 32 | zlib.crc32(self.name.encode()))

    def _record_kind(self):
        return "learning"

    def defaultIntf(self):
        return self.controlIntf or Node.defaultIntf(self)

    def _as_record(self):
        params = dict(self.params, opts=self.opts or None, listenPort=self.listenPort)
        if "dpid" in self._notes:
            params["dpid"] = self.dpid
        found = dict(self._entry, kind=self._record_kind(), dpid=self.dpid, notes=self._notes,
                     params=_record.params(dict(params, cls=type(self))))
        if self._controllers is not None:
            found["controllers"] = [str(controller) for controller in self._controllers]
        return found

    def start(self, controllers=None):
        self._controllers = list(controllers or [])

    def connected(self):
        return True

    def attach(self, intf):
        self._port("attach", intf)

    def detach(self, intf):
        self._port("detach", intf)

    def _port(self, what, intf):
        """A port of a running switch stays as the lab has it."""
        live = self.net._live if self.net is not None else None
        if live and getattr(intf, "link", None) in live.links:
            # Its link brought the port.
            return
        what = "%s %s at %s" % (what, intf, self.name)
        if _record.RUNS:
            _record.say("%s: use `netloom link create` and `netloom link delete`" % what)
        else:
            _record.call(what)

    def dpctl(self, *args):
        if not _record.RUNS:
            _record.call("dpctl of %s" % self.name)
            return ""
        self.net._go()
        return self.net._live.dpctl(self, args)

    def cmd(self, *args, **kwargs):
        command = _command(args)
        if not _record.RUNS:
            _record.call("command of switch %s: %s" % (self.name, command))
            return ""
        self.net._go()
        return self.net._live.at_switch(self, command)


class OVSSwitch(Switch):
    """A switch that a controller may program. Without one nothing is forwarded until an entry says so."""

    def __init__(self, name, failMode="secure", datapath="kernel", inband=False, protocols=None,
                 reconnectms=1000, stp=False, batch=False, **params):
        Switch.__init__(self, name, **params)
        self.failMode, self.protocols, self.stp = failMode, protocols, stp
        self._own = {"failMode": failMode, "protocols": protocols, "stp": stp or None,
                     "datapath": datapath if datapath != "kernel" else None, "inband": inband or None}

    def _record_kind(self):
        return "openflow"

    def _as_record(self):
        found = Switch._as_record(self)
        found["params"].update(_record.params(self._own))
        return found


    def vsctl(self, *args, **_kwargs):
        return self.cmd("ovs-vsctl", *args)


OVSKernelSwitch = OVSSwitch


class OVSBridge(OVSSwitch):
    """A switch that learns by itself."""

    def __init__(self, *args, **kwargs):
        kwargs.update(failMode="standalone")
        OVSSwitch.__init__(self, *args, **kwargs)

    def start(self, controllers=None):
        self._controllers = []

    def _record_kind(self):
        return "learning"


class LinuxBridge(Switch):
    """A bridge of the kernel."""

    def __init__(self, name, stp=False, prio=None, **kwargs):
        self.stp, self.prio = stp, prio
        Switch.__init__(self, name, **kwargs)

    def _as_record(self):
        found = Switch._as_record(self)
        found["params"].update(_record.params({"stp": self.stp or None}))
        return found


class UserSwitch(OVSSwitch):
    """A switch that a controller may program."""


class IVSSwitch(OVSSwitch):
    """A switch that a controller may program."""


class Controller(Node):
    """A controller with which switches learn, or the class of a script, which has a program of its own."""

    kind = "controller"

    def __init__(self, name, inNamespace=False, command="controller", cargs="ptcp:%d", cdir=None,
                 ip="127.0.0.1", port=6653, protocol="tcp", verbose=False, **params):
        if ":" in ip:
            ip, port = ip.split(":")
        self.ip, self.port, self.protocol = ip, int(port or 6653), protocol
        self.command, self.cargs, self.cdir = command, cargs, cdir
        self._here, self._said = None, None
        Node.__init__(self, name, inNamespace=inNamespace, ip=ip, **params)

    def _as_record(self):
        given = dict(self.params, ip=self.ip, port=self.port, cls=type(self))
        return dict(self._entry, kind=self._record_kind(), params=_record.params(given), notes={})

    def _record_kind(self):
        """Whether switches learn with it, which is what Mininet's own do. Another is started where the network runs, and
        switches connect to it."""
        if type(self) in (Controller, OVSController):
            return "learning"
        return "remote" if _record.RUNS else "other"

    def _shell(self):
        """Controllers are in the machine's network, as Mininet's are."""
        if self._here is None:
            from mininet._live import Shell

            self._here = Shell([])
        return self._here

    def _enter(self):
        return []

    def IP(self, intf=None):
        return self.ip

    def start(self):
        """Starts the program of a script's own class, in the background."""
        if not _record.RUNS or self._record_kind() == "learning" or self._said:
            return
        program = self.command.split()[0]
        if shutil.which(program) is None:
            error("*** %s: %s is not installed: there is none in %s\n" % (self.name, program, os.environ.get("PATH")))
            raise SystemExit(1)
        words = self.cargs % self.port if "%" in self.cargs else self.cargs
        handle, self._said = tempfile.mkstemp(prefix="netloom-%s-" % self.name, suffix=".log")
        os.close(handle)
        if self.cdir is not None:
            self.cmd("cd %s" % self.cdir)
        self.cmd("%s %s >%s 2>&1 &" % (self.command, words, shlex.quote(self._said)))

    def stop(self, *_args, **_kwargs):
        pass

    def _end(self):
        """Ends what it runs on the machine."""
        if self._here is not None:
            self._here.end()
        if self._said is not None:
            os.unlink(self._said)
        self._here = self._said = None

    def checkListening(self):
        pass

    @classmethod
    def isAvailable(cls):
        return True


class OVSController(Controller):
    """A controller with which switches learn."""


class Ryu(Controller):
    """A controller that runs applications."""

    def __init__(self, name, ryuArgs="ryu.app.simple_switch", command="ryu run", **kwargs):
        apps = ryuArgs if isinstance(ryuArgs, (list, tuple)) else [ryuArgs]
        kwargs.setdefault("cargs", "--ofp-tcp-listen-port %s " + " ".join(str(app) for app in apps))
        Controller.__init__(self, name, command=command, apps=ryuArgs, **kwargs)


class NOX(Controller):
    """A controller that runs applications."""


class RemoteController(Controller):
    """A controller that runs elsewhere."""

    def __init__(self, name, ip="127.0.0.1", port=None, **kwargs):
        Controller.__init__(self, name, ip=ip, port=port, **kwargs)

    def _record_kind(self):
        return "remote"

    def start(self):
        """Somebody else has started it."""


def NullController(*_args, **_kwargs):
    """No controller."""


DefaultController = Controller


def findController(controllers=None):
    return Controller


def isShellBuiltin(cmd):
    return False
