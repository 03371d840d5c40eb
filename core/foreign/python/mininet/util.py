"""Small things that scripts import."""

import re
import shutil
import subprocess
from functools import partial

from mininet.log import output

_UNITS = {"k": 1e3, "m": 1e6, "g": 1e9}


def quietRun(cmd, **_kwargs):
    shell = isinstance(cmd, str)
    done = subprocess.run(cmd, shell=shell, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)
    return done.stdout


def errRun(*cmd, **_kwargs):
    words = cmd[0] if len(cmd) == 1 else list(cmd)
    done = subprocess.run(words, shell=isinstance(words, str), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False)
    return done.stdout, done.stderr, done.returncode


def errFail(*cmd, **kwargs):
    out, err, code = errRun(*cmd, **kwargs)
    if code:
        raise Exception("errFail: %s failed with return code %s: %s" % (cmd, code, err))
    return out, err, code


def decode(data):
    return data.decode(errors="replace") if isinstance(data, bytes) else data


def encode(text):
    return text.encode() if isinstance(text, str) else text


def which(cmd, **_kwargs):
    return shutil.which(cmd)


def retry(retries, _delaySecs, fn, *args, **kwargs):
    tries = 0
    while not fn(*args, **kwargs) and tries < retries:
        tries += 1


def fixLimits():
    pass


def checkInt(text):
    int(text)


def checkFloat(text):
    float(text)


def makeNumeric(text):
    try:
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            return text


def specialClass(cls, prepend=None, append=None, defaults=None, override=None):
    """A class with other arguments."""
    first, last, usual, own = prepend or [], append or [], defaults or {}, override or {}

    class CustomClass(cls):
        def __init__(self, *args, **params):
            cls.__init__(self, *(list(first) + list(args) + list(last)), **dict(usual, **dict(params, **own)))

    CustomClass.__name__ = "%s%s" % (cls.__name__, own or usual)
    return CustomClass


def customClass(classes, argStr):
    """A class of a table by its name, with the arguments behind it."""
    name, args, kwargs = splitArgs(argStr)
    cls = classes.get(name)
    if not cls:
        raise Exception("error: %s is unknown - please specify one of %s" % (name, classes.keys()))
    return specialClass(cls, append=args, defaults=kwargs) if args or kwargs else cls


def buildTopo(topos, topoStr):
    """A topology of a table by its name, with the arguments behind it."""
    name, args, kwargs = splitArgs(topoStr)
    if name not in topos:
        raise Exception("Invalid topo name %s" % name)
    return topos[name](*args, **kwargs)


def run(cmd):
    return subprocess.call(cmd.split(" "))


def dumpNodeConnections(nodes):
    for node in nodes:
        output(node.name)
        for intf in node.intfList():
            other = None
            if intf.link:
                other = intf.link.intf2 if intf.link.intf1 is intf else intf.link.intf1
            output(" %s:%s" % (intf, other))
        output("\n")


dumpNetConnections = lambda net: dumpNodeConnections(net.controllers + net.switches + net.hosts)


def dumpPorts(switches):
    for switch in switches:
        output("%s " % switch.name)
        for intf in switch.intfList():
            output("%s:%d " % (intf, switch.ports[intf]))
        output("\n")


def irange(start, end):
    return list(range(start, end + 1))


def natural(text):
    """A key by which numbers within names sort as numbers."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", str(text))]


def naturalSeq(names):
    return [natural(name) for name in names]


def custom(cls, **params):
    made = partial(cls, **params)
    made.__name__ = getattr(cls, "__name__", "custom")
    return made


def ensureRoot():
    pass


def waitListening(client=None, server="127.0.0.1", port=80, timeout=None):
    return True


def ipStr(ip):
    return ".".join(str((ip >> shift) & 0xFF) for shift in (24, 16, 8, 0))


def ipNum(w, x, y, z):
    return (w << 24) | (x << 16) | (y << 8) | z


def ipParse(ip):
    parts = [int(part) for part in ip.split(".")]
    while len(parts) < 4:
        parts.insert(len(parts) - 1, 0)
    return ipNum(*parts)


def netParse(ipstr):
    ip, _, length = ipstr.partition("/")
    return ipParse(ip), int(length or 8)


def ipAdd(i, prefixLen=8, ipBaseNum=0x0A000000):
    mask = (0xFFFFFFFF << (32 - prefixLen)) & 0xFFFFFFFF
    return ipStr((ipBaseNum & mask) + i)


def macColonHex(mac):
    return ":".join("%02x" % ((mac >> shift) & 0xFF) for shift in range(40, -8, -8))


def pmonitor(popens, timeoutms=500, readline=True, readmax=1024):
    for name, process in list(popens.items()):
        out, _ = process.communicate()
        text = out.decode(errors="replace") if isinstance(out, bytes) else (out or "")
        for line in text.splitlines(True):
            yield name, line


def moveIntf(intf, node, printError=True):
    return False


def numCores():
    import os

    return os.cpu_count() or 1


def splitArgs(argstr):
    words = argstr.split(",")
    plain = [makeNumeric(word) for word in words[1:] if "=" not in word]
    pairs = (word.split("=", 1) for word in words[1:] if "=" in word)
    return words[0], plain, {key: makeNumeric(value) for key, value in pairs}
