"""Prints what Kathara's own parsers, and the words that it gives Docker, say of the labs in these folders."""

import json
import logging
import os
import shlex
import sys

from docker.utils import parse_bytes
from Kathara.parser.netkit.DepParser import DepParser
from Kathara.parser.netkit.ExtParser import ExtParser
from Kathara.parser.netkit.LabParser import LabParser

logging.disable(logging.CRITICAL)


def sysctls(machine):
    """Settings of a device, as DockerMachine.create gives them."""
    # Those that every node of ours has stay away: rp_filter and accept_ra are 0.
    found = {"net.ipv4.ip_forward": "1", "net.ipv4.icmp_ratelimit": "0"}
    if machine.is_ipv6_enabled():
        found.update({"net.ipv6.conf.all.forwarding": "1", "net.ipv6.icmp.ratelimit": "0",
                      "net.ipv6.conf.all.disable_ipv6": "0"})
    else:
        found.update({"net.ipv6.conf.all.disable_ipv6": "1", "net.ipv6.conf.default.disable_ipv6": "1",
                      "net.ipv6.conf.all.forwarding": "0"})
    found.update((key, str(value)) for key, value in machine.meta["sysctls"].items())
    return found


def files(folder, name):
    """The files that a device's folder puts onto its root."""
    base = os.path.join(folder, name)
    found = {}
    for root, _, names in os.walk(base):
        for each in names:
            if each != ".DS_Store":
                path = os.path.join(root, each)
                found[path[len(base):]] = os.path.relpath(path, folder)
    return found


def one(folder, name, machine):
    """A device."""
    machine.get_num_terms()
    memory, share = machine.get_mem(), machine.get_cpu(multiplier=1000000000)
    image = machine.meta.get("image")
    words = [shlex.split(machine.meta[key]) for key in ("entrypoint", "args") if key in machine.meta]
    # Docker knows ports by those of the container.
    ports = {"%d/%s" % (inner, protocol): outer for (outer, protocol), inner in machine.meta["ports"].items()}
    volumes = {each["guest_path"]: [os.path.relpath(path, folder), "rw" if each["mode"] == "rw" else "ro"]
               for path, each in machine.meta["volumes"].items()}
    scripts = ["shared.startup", name + ".startup"]
    return {
        "image": image,
        "mem": parse_bytes(memory) if memory else None,
        "cpus": share / 1e9 if share else None,
        # Routing daemons need capabilities of Kathara's that a node has as a privileged one.
        "privileged": machine.is_privileged() or any(word in (image or "") for word in ("frr", "quagga", "bird")),
        "bridged": bool(machine.is_bridged()),
        "sysctl": sysctls(machine),
        "env": dict(machine.meta["envs"]),
        # Only Docker's bridge leads to the host.
        "port": ports if machine.is_bridged() else {},
        "ulimit": {key: [each["soft"], each["hard"]] for key, each in machine.meta["ulimits"].items()},
        "exec": list(machine.meta["exec_commands"]),
        "program": [word for part in words for word in part],
        "volume": volumes,
        "shared": os.path.isdir(os.path.join(folder, "shared")),
        "files": files(folder, name),
        "startup": [each for each in scripts if os.path.exists(os.path.join(folder, each))],
    }


def lab(folder):
    """A lab."""
    os.chdir(folder)
    found = LabParser.parse(folder)
    order = DepParser.parse(folder)
    if order:
        found.apply_dependencies(order)
    outside = ExtParser.parse(folder)
    if outside:
        found.attach_external_links(outside)
    nodes, ends = {}, {}
    for name, machine in found.machines.items():
        nodes[name] = one(folder, name, machine)
        for number, interface in machine.interfaces.items():
            ends["%s:eth%d" % (name, number)] = {"domain": interface.link.name, "mac": interface.mac_address}
    doors = [[link.name, "host:" + each.interface] for link in found.links.values() for each in link.external]
    return {"nodes": nodes, "ends": ends, "doors": sorted(doors), "order": list(found.machines)}


def main():
    """Reads all labs."""
    answers = []
    for folder in map(os.path.abspath, sys.argv[1:]):
        try:
            answers.append(lab(folder))
        except Exception as error:  # Whatever it says of a lab is its answer.
            answers.append("%s: %s" % (type(error).__name__, error))
    json.dump(answers, sys.stdout)


main()
