"""A network as a running lab: its file, shells in its nodes, its links."""

import json
import os
import queue
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

from mininet import _ending, _ofctl, _record

NETLOOM = os.environ.get("NETLOOM_PROGRAM", "netloom")


def netloom(*words, check=True, record=None):
    """Runs a verb of netloom; its output. What it says of a record it says of the script."""
    done = subprocess.run([NETLOOM, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          stdin=subprocess.DEVNULL, text=True, check=False)
    if check and done.returncode != 0:
        said = done.stderr
        if record:
            shown = os.environ.get("NETLOOM_MININET_SHOWN", "the script")
            said = said.replace(record, shown).replace(os.path.basename(record), shown)
        sys.stderr.write(said)
        raise SystemExit(done.returncode)
    return done.stdout


class Shell:
    """A shell in a node that takes one command after the other."""

    END = "netloom-end-of-command"

    def __init__(self, words):
        self.process = subprocess.Popen(
            words + ["sh"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, start_new_session=True)
        self.lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def send(self, command):
        text = "%s\nprintf '\\n%s\\n'\n" % (command, self.END)
        try:
            self.process.stdin.write(text.encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            _record.refuse("%s: the shell of this node has ended" % command)

    def wait(self, verbose=False):
        """The output up to the end of the command."""
        found = []
        while True:
            line = self.lines.get()
            if line is None:
                break
            if line.strip() == self.END.encode():
                # The line break before the mark is the mark's.
                if found and found[-1] == b"\n":
                    found.pop()
                elif found:
                    found[-1] = found[-1][:-1] if found[-1].endswith(b"\n") else found[-1]
                break
            found.append(line)
            if verbose:
                sys.stdout.write(line.decode(errors="replace"))
        return b"".join(found).decode(errors="replace")

    def cmd(self, command, verbose=False):
        self.send(command)
        return self.wait(verbose)

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)

    def end(self):
        """Ends it with all that it has started, also in the background."""
        try:
            os.killpg(self.process.pid, signal.SIGTERM)
        except ProcessLookupError:
            pass
        self.close()

    def close(self):
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            # It has ended before.
            pass
        try:
            self.process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Live:
    """A lab that runs as long as the script's network does."""

    def __init__(self, net):
        self.net, self.shells, self.links = net, {}, {}
        self.lab = os.environ.get("NETLOOM_MININET_LAB", "mininet")
        folder = tempfile.mkdtemp(prefix="netloom-mininet-")
        path = os.path.join(folder, "record.json")
        try:
            _record.write(net, path)
            words = json.loads(os.environ.get("NETLOOM_MININET_UP", "[]"))
            netloom("up", "--name", self.lab, *words, path, record=path)
        finally:
            os.unlink(path)
        self.programs, self.refused, self.told = folder, os.path.join(folder, "refused"), set()
        for name in ("ovs-ofctl", "ovs-vsctl"):
            words = [sys.executable, "-B", _ofctl.__file__, NETLOOM, self.lab, self.refused, name]
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write("#!/bin/sh\nexec %s \"$@\"\n" % " ".join(shlex.quote(word) for word in words))
            os.chmod(os.path.join(folder, name), 0o755)
        # What the script starts by itself must not change the machine's own Open vSwitch.
        self.path = os.environ.get("PATH", "/usr/bin:/bin")
        os.environ["PATH"] = "%s:%s" % (folder, self.path)
        status = json.loads(netloom("status", self.lab, "--json"))
        names = {}
        for made in status.get("links", []):
            names.setdefault(tuple(sorted(made["ends"])), []).append(made["name"])
        for link in _record.links:
            ends = sorted(intf.node.name if intf.node.kind == "switch" else "%s:%s" % (intf.node.name, intf.name)
                          for intf in (link.intf1, link.intf2))
            found = names.get(tuple(ends))
            if found:
                self.links[link] = found.pop(0)
        for node in status.get("nodes", []):
            known = net.nameToNode.get(node["name"])
            if known is not None:
                known._pid = node.get("pid")
            for interface in node.get("interfaces", []):
                intf = known.nameToIntf.get(interface["name"]) if known else None
                if intf is not None:
                    intf.mac = interface.get("mac") or intf.mac

    def enter(self, node):
        return [NETLOOM, "-l", self.lab, "exec", node.name, "--"]

    def shell(self, node):
        if node.name not in self.shells:
            self.shells[node.name] = Shell(self.enter(node))
        return self.shells[node.name]

    def stop(self):
        os.environ["PATH"] = self.path
        try:
            for shell in self.shells.values():
                shell.close()
            self.shells = {}
            shutil.rmtree(self.programs, ignore_errors=True)
        finally:
            netloom("down", self.lab)

    def add_host(self, node):
        """Makes a host that the script adds to its running network."""
        netloom("-l", self.lab, "node", "create", node.name)
        found = json.loads(netloom("-l", self.lab, "node", "show", node.name, "--json"))
        node._pid = found.get("pid")

    def delete_host(self, node):
        shell = self.shells.pop(node.name, None)
        if shell is not None:
            shell.end()
        netloom("-l", self.lab, "node", "delete", node.name)

    def add_link(self, link, ends):
        """Makes a link that the script adds to its running network, by the nodes and the names of its ends."""
        words = []
        for node, name in ends:
            if node.kind != "switch":
                # Addresses are the script's to give.
                words += ["--address", "%s:%s=none" % (node.name, name)]
        ends = [node.name if node.kind == "switch" else "%s:%s" % (node.name, name) for node, name in ends]
        self.links[link] = netloom("-l", self.lab, "link", "create", *ends, *words).strip()

    def set_link(self, link, status):
        word = "--down" if status == "down" else "--up"
        if link in self.links:
            netloom("-l", self.lab, "link", "set", self.links[link], word)
        else:
            _record.say("%s: a link to the host's network stays as it is" % link)

    def delete_link(self, link):
        name = self.links.pop(link, None)
        if name is None:
            _record.say("%s: a link to the host's network stays as it is" % link)
        else:
            netloom("-l", self.lab, "link", "delete", name)

    def shape(self, intf):
        """Gives an end what its interface does now, and nothing else."""
        # The first end is configured before the link knows it.
        end = "a" if intf.link.intf1 in (None, intf) else "b"
        words = ["--end", end, "--clear"]
        out = dict(intf._out)
        if out.get("jitter") and not out.get("delay"):
            out["delay"] = 1
        if out.get("queue") == 0:
            out["loss"] = 100
        for key, flag, unit in (("rate", "--rate", "bit"), ("delay", "--delay", "us"), ("loss", "--loss", "%")):
            if out.get(key):
                words += [flag, "%s%s" % (out[key], unit)]
        if out.get("jitter"):
            words += ["--jitter", "%sus,uniform" % out["jitter"]]
        if out.get("queue"):
            # netem counts what waits for the rate and what is delayed alike.
            bounds = [("--queue", out.get("rate")), ("--limit", out.get("delay"))]
            bounds = [word for flag, acts in bounds if acts for word in (flag, str(out["queue"]))]
            words += bounds
            if not bounds:
                _record.say("%s: max_queue_size=%s without bw and delay: nothing waits in netloom" % (intf, out["queue"]))
        if intf.link in self.links:
            netloom("-l", self.lab, "link", "set", self.links[intf.link], *words)
        else:
            _record.say("%s: a link to the host's network stays as it is" % intf.link)

    def dpctl(self, switch, words):
        output, code = _ofctl.run(NETLOOM, self.lab, words, switch.name)
        if code != 0:
            self.tell(switch, "dpctl %s" % " ".join(str(word) for word in words), output)
        return output

    def at_switch(self, switch, command):
        """The output of a command at a switch. A switch has no file system of its own: it runs on the machine, where
        `ovs-ofctl` and `ovs-vsctl` are these."""
        before = self._refusals()
        done = subprocess.run(["sh", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, check=False)
        # A script seldom looks at what a command says, and would go on with a switch that is not as it should be.
        if self._refusals() != before or (done.returncode != 0 and re.search(r"\b%s-eth\d" % re.escape(switch.name), command)):
            self.tell(switch, command, done.stdout)
        return done.stdout

    def _refusals(self):
        """How much the programs for switches have refused."""
        try:
            return os.path.getsize(self.refused)
        except OSError:
            return 0

    def tell(self, switch, command, output):
        """Tells once of a command at a switch that did nothing."""
        said = output.strip().splitlines()
        text = "%s: `%s` did nothing: %s" % (switch.name, command, said[-1] if said else "it failed")
        if text not in self.told:
            self.told.add(text)
            _record.say(text)

    def iperf(self, client, server, kind, rate, seconds, port):
        """What a client sends and a server gets, by iperf3."""
        listener = subprocess.Popen(self.enter(server) + ["iperf3", "-s", "-1", "--forceflush", "-p", str(port)],
                                    stdout=subprocess.PIPE, text=True)
        for line in listener.stdout:
            if "listening" in line:
                break
        udp = ["-u", "-b", rate] if kind == "UDP" else []
        words = ["iperf3", "-J", "-c", server.IP(), "-p", str(port), "-t", str(seconds)] + udp
        done = subprocess.run(self.enter(client) + words, stdout=subprocess.PIPE, text=True,
                              check=False)
        listener.communicate()
        end = json.loads(done.stdout or "{}").get("end", {})
        found = []
        for key in ("sum_sent", "sum_received"):
            bits = end.get(key, end.get("sum", {})).get("bits_per_second", 0.0)
            found.append("%.1f Mbits/sec" % (bits / 1e6))
        return ["%s" % rate] + found if kind == "UDP" else found
