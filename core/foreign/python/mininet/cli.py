"""The prompt of a running network."""

import sys
from cmd import Cmd

from mininet import _record
from mininet.log import error, output
from mininet.util import dumpNodeConnections, dumpPorts, quietRun


class CLI(Cmd):
    """Commands on nodes (``h1 ip route``) and on the network."""

    prompt = "mininet> "

    def __init__(self, mininet, stdin=sys.stdin, script=None, **_kwargs):
        self.mn = mininet
        self.locals = {"net": mininet}
        if not _record.RUNS:
            raise _record.Done(0)
        Cmd.__init__(self, stdin=stdin)
        if script:
            with open(script, encoding="utf-8") as file:
                for line in file:
                    self.onecmd(line.strip())
            return
        self.use_rawinput = stdin is sys.stdin and sys.stdin.isatty()
        if not self.use_rawinput:
            self.prompt = ""
        while True:
            try:
                self.cmdloop()
                return
            except KeyboardInterrupt:
                output("\nInterrupt\n")

    def onecmd(self, line):
        """A command. One that cannot be done does not end the network."""
        try:
            return Cmd.onecmd(self, line)
        except KeyError as problem:
            error("*** no node %s\n" % problem)
        except Exception as problem:  # noqa: BLE001: whatever a person types
            error("*** %s\n" % problem)
        except SystemExit:
            # netloom has said what it refused.
            pass
        return None

    def emptyline(self):
        pass

    def getNode(self, name):
        if name in self.mn:
            return self.mn[name]
        error("*** no node %s\n" % name)
        return None

    def default(self, line):
        name, _, rest = line.partition(" ")
        if line == "EOF":
            return True
        if name not in self.mn:
            error("*** Unknown command: %s\n" % line)
            return None
        words = [self.mn[word].IP() or word if word in self.mn else word for word in rest.split(" ")]
        node = self.mn[name]
        if node.kind == "host":
            node.sendCmd(" ".join(words))
            node.waitOutput(verbose=True)
        else:
            output(node.cmd(" ".join(words)))
        return None

    def precmd(self, line):
        return line.split("#", 1)[0] if line.startswith("#") else line

    def do_EOF(self, _line):
        """Leaves."""
        return True

    def do_exit(self, _line):
        """Leaves."""
        return True

    do_quit = do_exit

    def do_nodes(self, _line):
        """Lists nodes."""
        output("available nodes are: \n%s\n" % " ".join(sorted(self.mn)))

    def do_net(self, _line):
        """Lists connections."""
        dumpNodeConnections(self.mn.values())

    def do_links(self, _line):
        """Lists links."""
        for link in self.mn.links:
            output("%s %s\n" % (link, link.status()))

    def do_ports(self, _line):
        """Lists ports of switches."""
        dumpPorts(self.mn.switches)

    def do_dump(self, _line):
        """Describes nodes."""
        for node in self.mn.values():
            output("%s\n" % repr(node))

    def do_intfs(self, _line):
        """Lists interfaces."""
        for node in self.mn.values():
            output("%s: %s\n" % (node.name, ",".join(node.intfNames())))

    def do_pingall(self, line):
        """Pings between all hosts."""
        self.mn.pingAll(line.strip() or None)

    def do_pingpair(self, _line):
        """Pings between the first two hosts."""
        self.mn.pingPair()

    def do_pingallfull(self, _line):
        """Pings between all hosts, with times."""
        for node, dest, found in self.mn.pingFull():
            output("%s->%s: %d/%d, rtt %s ms\n" % (node, dest, found[0], found[1], found[3]))

    def do_iperf(self, line):
        """Measures TCP between two hosts."""
        names = line.split()
        self.mn.iperf([self.mn[name] for name in names] if names else None)

    def do_iperfudp(self, line):
        """Measures UDP between two hosts: RATE HOST HOST."""
        words = line.split()
        rate = words[0] if words else "10M"
        self.mn.iperf([self.mn[n] for n in words[1:]] or None, l4Type="UDP", udpBw=rate)

    def do_link(self, line):
        """Takes a link up or down: NODE NODE up|down."""
        words = line.split()
        if len(words) == 3 and words[2] in ("up", "down"):
            self.mn.configLinkStatus(*words)
        else:
            error("invalid: link end1 end2 [up down]\n")

    def do_dpctl(self, line):
        """Sends a command to all switches."""
        for switch in self.mn.switches:
            output("*** %s\n%s" % (switch.name, switch.dpctl(*line.split())))

    def do_sh(self, line):
        """Runs a command on the host."""
        output(quietRun(line))

    def do_py(self, line):
        """Evaluates an expression."""
        try:
            scope = dict(self.locals, **dict(self.mn.items()))
            result = eval(line, globals(), scope)
            if result is not None:
                output("%s\n" % (result,))
        except Exception as problem:  # noqa: BLE001: whatever a person types
            output("%s\n" % problem)

    def do_px(self, line):
        """Executes a statement."""
        try:
            exec(line, globals(), dict(self.locals, **dict(self.mn.items())))
        except Exception as problem:  # noqa: BLE001: whatever a person types
            output("%s\n" % problem)

    def do_xterm(self, _line):
        """Is not there: `netloom shell NODE` is a terminal in a node."""
        output("`netloom shell NODE` is a terminal in a node\n")

    do_gterm = do_x = do_xterm

    def do_noecho(self, line):
        """Runs a command of a node."""
        self.default(line)

    def do_source(self, line):
        """Reads commands from a file."""
        with open(line.strip(), encoding="utf-8") as file:
            for each in file:
                self.onecmd(each.strip())

    def do_time(self, line):
        """Tells how long a command takes."""
        import time

        begun = time.time()
        self.onecmd(line)
        output("*** Elapsed time: %0.6f secs\n" % (time.time() - begun))

    def do_switch(self, _line):
        """Is not there: `netloom down` ends the lab."""
        output("switches run as long as the lab does\n")

    def do_wait(self, _line):
        """Waits for nothing: switches are connected."""
