#!/usr/bin/env python3
"""Loads the slow line of bufferbloat.yaml, with a long queue and with a short one, and draws how long
packets wait.

    netloom up examples/bufferbloat.yaml
    python3 examples/bufferbloat.py bufferbloat.svg [SECONDS]

For each queue the pc sends by iperf3 for SECONDS (default 8) while the phone pings. LINE is how long
each packet takes from the router's queue to the server, by `netloom link fates --json`. NETLOOM is the binary
(else it is looked for in PATH).
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from statistics import median

NETLOOM = os.environ.get("NETLOOM", "netloom")
LINE = "router:wan"  # the end that sends over the slow line
QUEUES = ["1000", "20ms"]
COLOURS = ["#c0392b", "#2471a3"]
BIN = 0.1  # seconds of a point of the plot
LEFT, TOP, WIDTH, HEIGHT = 60, 30, 600, 260


def run(*words):
    """Starts a program in a node; what it prints is read later."""
    # iperf3 makes a file: in the node's folder for such, not in the caller's.
    own = {**os.environ, "TMPDIR": "/tmp"}
    return subprocess.Popen([NETLOOM, "exec", *words], stdout=subprocess.PIPE, text=True, env=own)


def output(program):
    """What a program has printed when it has ended."""
    text, _ = program.communicate()
    return text


def measure(queue, seconds):
    """Bits a second, times of pings in ms, and for each packet (second, ms on the line or None if lost)."""
    if subprocess.run([NETLOOM, "link", "set", LINE, "--queue", queue], check=False).returncode:
        sys.exit(1)
    with tempfile.TemporaryFile("w+") as fates:
        follower = subprocess.Popen([NETLOOM, "link", "fates", LINE, "--json"], stdout=fates)
        pings = run("phone", "--", "ping", "-4", "-i", "0.2", "-w", str(seconds), "server")
        load = run("pc", "--", "iperf3", "-c", "server", "-t", str(seconds), "--json")
        done = json.loads(output(load))
        times = [float(ms) for ms in re.findall(r"time=([\d.]+)", output(pings))]
        follower.terminate()
        follower.wait()
        fates.seek(0)
        packets = [json.loads(line) for line in fates]
    if "error" in done:
        sys.exit(f"iperf3: {done['error']}")
    first = int(packets[0]["time_ns"])
    waits = [((int(p["time_ns"]) - first) / 1e9, p["delay_ns"] and p["delay_ns"] / 1e6) for p in packets]
    return done["end"]["sum_received"]["bits_per_second"], times, waits


def points(waits, seconds):
    """The longest wait of each bin."""
    bins = {}
    for second, ms in waits:
        if ms is not None and second < seconds:
            at = int(second / BIN)
            bins[at] = max(bins.get(at, 0), ms)
    return [((at + 0.5) * BIN, ms) for at, ms in sorted(bins.items())]


def draw(curves, seconds):
    """An SVG picture of the curves: (queue, points)."""
    most = max(ms for _, curve in curves for _, ms in curve)
    step = next(s for s in (10, 20, 50, 100, 200, 500, 1000, 2000, 5000) if most / s <= 7)
    top = step * (int(most / step) + 1)
    x = lambda second: LEFT + second / seconds * WIDTH
    y = lambda ms: TOP + HEIGHT - ms / top * HEIGHT
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 20}" height="{TOP + HEIGHT + 45}"'
        ' font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for ms in range(0, top + 1, step):
        out.append(f'<path d="M{LEFT} {y(ms):.0f}h{WIDTH}" stroke="#ddd"/>')
        out.append(f'<text x="{LEFT - 6}" y="{y(ms) + 4:.0f}" text-anchor="end">{ms}</text>')
    for second in range(seconds + 1):
        out.append(f'<text x="{x(second):.0f}" y="{TOP + HEIGHT + 18}" text-anchor="middle">{second}</text>')
    out.append(f'<text x="{LEFT}" y="18">ms from {LINE} to the other end, under load</text>')
    out.append(f'<text x="{LEFT + WIDTH}" y="{TOP + HEIGHT + 36}" text-anchor="end">seconds</text>')
    for number, (queue, curve) in enumerate(curves):
        colour = COLOURS[number]
        line = " ".join(f"{x(second):.1f},{y(ms):.1f}" for second, ms in curve)
        out.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        at = LEFT + WIDTH - 220 + 120 * number
        out.append(f'<text x="{at}" y="18" fill="{colour}" font-weight="bold">queue {queue}</text>')
    return "\n".join([*out, "</svg>\n"])


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    seconds = int(sys.argv[2]) if len(sys.argv) == 3 else 8
    curves = []
    print("QUEUE   CARRIED  PING: MEDIAN      WORST  LINE: MEDIAN      WORST  LOST")
    for queue in QUEUES:
        rate, pings, waits = measure(queue, seconds)
        line = [ms for _, ms in waits if ms is not None]
        lost = len(waits) - len(line)
        print(
            f"{queue:<5} {rate / 1e6:4.1f} Mb/s {median(pings):10.1f} ms {max(pings):7.1f} ms"
            f" {median(line):10.1f} ms {max(line):7.1f} ms {lost:5}"
        )
        curves.append((queue, points(waits, seconds)))
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write(draw(curves, seconds))


main()
