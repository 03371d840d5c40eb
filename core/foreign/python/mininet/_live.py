"""A network as a running lab: its file, shells in its nodes, its links."""

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading

from mininet import _record

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
        self.process.stdin.write(text.encode())
        self.process.stdin.flush()

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

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Live:
    """A lab that runs as long as the script's network does."""

    def __init__(self, net):
        self.net, self.shells = net, {}
        self.lab = os.environ.get("NETLOOM_MININET_LAB", "mininet")
        folder = tempfile.mkdtemp(prefix="netloom-mininet-")
        path = os.path.join(folder, "record.json")
        try:
            _record.write(net, path)
            words = json.loads(os.environ.get("NETLOOM_MININET_UP", "[]"))
            netloom("up", "--name", self.lab, *words, path, record=path)
        finally:
            os.unlink(path)
            os.rmdir(folder)
        status = json.loads(netloom("status", self.lab, "--json"))
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
        for shell in self.shells.values():
            shell.close()
        self.shells = {}
        netloom("down", self.lab)

    def _name(self, link):
        """A link as netloom's verbs know it: an end at a host, or both switches."""
        for intf in (link.intf1, link.intf2):
            if intf.node.kind == "host":
                return ["%s:%s" % (intf.node.name, intf.name)]
        return [link.intf1.node.name, link.intf2.node.name]

    def set_link(self, link, status):
        word = "--down" if status == "down" else "--up"
        netloom("-l", self.lab, "link", "set", *self._name(link), word)

    def delete_link(self, link):
        netloom("-l", self.lab, "link", "delete", *self._name(link))

    def shape(self, intf, params):
        words = []
        for key, flag, unit in (("bw", "--rate", "mbit"), ("delay", "--delay", ""),
                                ("jitter", "--jitter", ""), ("loss", "--loss", "%")):
            if params.get(key) is not None:
                words += [flag, "%s%s" % (params[key], unit)]
        if words and intf.node.kind == "host":
            netloom("-l", self.lab, "link", "set", "%s:%s" % (intf.node.name, intf.name), *words)

    def dpctl(self, switch, words):
        verbs = {"dump-flows": "dump", "add-flow": "add", "del-flows": "del", "mod-flows": "mod"}
        words = [str(word) for word in words]
        verb = verbs.get(words[0]) if words else None
        if verb is None:
            return "netloom knows dump-flows, add-flow, mod-flows and del-flows\n"
        return netloom("-l", self.lab, "flow", verb, switch.name, *words[1:], check=False)

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
