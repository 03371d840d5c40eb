"""How long diagnostics take after a key: keys.py NETLOOM.

Opens a lab file of 1,000 lines in `NETLOOM lsp`, and types in the middle of it, a character at a time, through texts with and
without errors. Prints, in milliseconds, how long the change's diagnostics took, and the processor time of the server's thread
that checks.
"""

import json
import os
import subprocess
import sys
import time

URI = "file:///lab.yaml"
KEYS = 200


class Editor:
    """A client with one file."""

    def __init__(self, program):
        self.server = subprocess.Popen([program, "lsp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.send({"id": 1, "method": "initialize", "params": {"processId": os.getpid(), "capabilities": {}}})
        self.read()

    def send(self, message):
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.server.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.server.stdin.flush()

    def read(self):
        length = int(self.server.stdout.readline().split(b":")[1])
        self.server.stdout.readline()
        return json.loads(self.server.stdout.read(length))

    def tell(self, method, **params):
        self.send({"method": f"textDocument/{method}", "params": params})

    def processor(self):
        """Milliseconds that its first thread has run for."""
        with open(f"/proc/{self.server.pid}/schedstat", encoding="ascii") as stat:
            return int(stat.read().split()[0]) / 1e6

    def end(self):
        self.send({"id": 2, "method": "shutdown"})
        self.read()
        self.send({"method": "exit"})
        return self.server.wait()


def lab():
    """425 nodes on 25 switches by 450 links, a line each, and comments: 1,000 lines."""
    lines = ["# A file of 1,000 lines.", "nodes:"]
    lines += [f"  h{n}: {{run: [[sleep, infinity]]}}" for n in range(400)]
    lines += [f"  r{n}: {{forwarding: true}}" for n in range(25)]
    lines += ["switches:"] + [f"  s{n}: {{}}" for n in range(25)]
    lines += ["links:"] + [f"  - [h{n}, s{n % 25}]" for n in range(400)]
    lines += [f"  - ends: [r{n // 2}, s{(n // 2 + n % 2) % 25}]" for n in range(50)]
    lines += [f"  # {n}" for n in range(1000 - len(lines))]
    return lines


def main():
    editor = Editor(sys.argv[1])
    lines = lab()
    document = {"uri": URI, "languageId": "yaml", "version": 1, "text": "\n".join(lines) + "\n"}
    editor.tell("didOpen", textDocument=document)
    first = editor.read()
    assert first["params"]["diagnostics"] == [], first
    line = lines.index("  h200: {run: [[sleep, infinity]]}")
    typed = "  x1: {forwarding: true}  # a router"
    column, keys = 0, {"without errors": [], "with errors": []}
    for key in range(KEYS):
        text = "\n" if column == 0 else typed[column - 1]
        start = {"line": line, "character": len(lines[line])} if column == 0 else {"line": line + 1, "character": column - 1}
        end = start
        if column == len(typed):
            # All of it goes again.
            start, end, text = {"line": line, "character": len(lines[line])}, {"line": line + 1, "character": column - 1}, ""
        began, before = time.perf_counter(), editor.processor()
        identity = {"uri": URI, "version": key + 2}
        editor.tell("didChange", textDocument=identity, contentChanges=[{"range": {"start": start, "end": end}, "text": text}])
        told = editor.read()
        took = (time.perf_counter() - began) * 1000
        assert told["params"]["version"] == key + 2, told
        kind = "with errors" if told["params"]["diagnostics"] else "without errors"
        keys[kind].append((editor.processor() - before, took))
        column = 0 if column == len(typed) else column + 1
    print(f"{len(lines)} lines")
    for kind, all_of in keys.items():
        for what, values in zip(("processor", "diagnostics"), zip(*all_of)):
            values = sorted(values)
            middle, late = values[len(values) // 2], values[len(values) * 95 // 100]
            print(f"{kind}, {len(values)} keys, {what}: median {middle:.1f}, 95th percentile {late:.1f}, longest {values[-1]:.1f}")
    assert editor.end() == 0


main()
