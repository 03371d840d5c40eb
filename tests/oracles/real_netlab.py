"""Says what netlab itself makes of topologies (`netlab create`, without its output files): folders in, a line of JSON out."""

import contextlib
import io
import ipaddress
import json
import os
import sys

from netsim import augment
from netsim.cli import load_topology
from netsim.data import get_box
from netsim.utils import log, read

GIVEN = {"topology": "topology.yml", "defaults": None, "settings": None, "device": None, "provider": None, "plugin": None,
         "log": False, "verbose": False, "quiet": True, "logging": False, "debug": None, "warning": False,
         "raise_on_error": False}


def address(text):
    """An address with its length."""
    return str(ipaddress.ip_interface(text))


def ospf(data):
    """What OSPF is told of an interface."""
    found = {"area": int(ipaddress.IPv4Address(data.get("area", "0.0.0.0")))}
    for key in ("cost", "network_type"):
        if key in data:
            found[key] = data[key]
    if data.get("passive"):
        found["passive"] = True
    return found


def interface(node, data):
    """An interface of a node."""
    ipv4 = data.get("ipv4", False)
    if ipv4 is True:
        ipv4 = data.get("_parent_ipv4", False)
    found = {"addresses": [address(ipv4)] if ipv4 else [], "mtu": data.get("mtu", node.get("mtu", 1500))}
    # Nothing is at the other end of a stub.
    if data.get("tc") and data.get("neighbors"):
        found["tc"] = {key: float(value) for key, value in data.tc.items()}
    if "ospf" in data and "ospf" in node.get("module", []) and "ipv4" in data:
        found["ospf"] = ospf(data.ospf)
    return found


def gateway(node):
    """Where a host sends what is not on its links."""
    for route in node.get("routing.static", []):
        via = route.get("nexthop.ipv4")
        if via:
            return str(via).split("/", maxsplit=1)[0]
    return None


def bgp(data):
    """What BGP is told."""
    neighbors = {}
    for each in data.get("neighbors", []):
        if isinstance(each.get("ipv4"), str):
            said = {"as": each["as"], "rr-client": bool(each.get("rr_client")), "next-hop-self": bool(each.get("next_hop_self"))}
            neighbors[each.ipv4] = said
    networks = sorted({str(ipaddress.ip_network(each.ipv4, strict=False)) for each in data.get("advertise", [])
                       if isinstance(each.get("ipv4"), str)})
    return {"as": data["as"], "router-id": data.router_id, "neighbors": neighbors, "networks": networks}


def meaning(topology):
    """A topology in the words of the driver."""
    nodes, interfaces, links = {}, {}, {}
    bridges = {name: {each.ifname: each.get("vlan", {}).get("access") for each in node.interfaces}
               for name, node in topology.nodes.items() if node.get("role") == "bridge"}
    lans = {}
    for name, node in topology.nodes.items():
        if name in bridges:
            continue
        role = node.get("role", "router")
        found = {"role": role, "loopback": [address(node.loopback.ipv4)] if "ipv4" in node.get("loopback", {}) else []}
        if role == "host":
            found["gateway"] = gateway(node)
        # Its template for FRR (ospf/frr.j2) has a process of IPv4 only then; OSPFv3 over link-local addresses is not compared.
        if "ospf" in node.get("module", []) and "ipv4" in node.get("ospf.af", {}):
            found["ospf"] = {"router-id": node.ospf.router_id}
            if "reference_bandwidth" in node.ospf:
                found["ospf"]["reference"] = node.ospf.reference_bandwidth
            if "ospf" in node.get("loopback", {}):
                found["ospf"]["area"] = int(ipaddress.IPv4Address(node.loopback.ospf.area))
        if "bgp" in node.get("module", []) and "bgp" in node:
            found["bgp"] = bgp(node.bgp)
        nodes[name] = found
        interfaces[name] = {}
        for each in node.interfaces:
            if each.get("type") == "loopback":
                own = interface(node, each)
                found["loopback"] += own["addresses"]
                continue
            if each.get("virtual_interface"):
                continue
            interfaces[name][each.ifname] = interface(node, each)
    for link in topology.get("links", []):
        if link.get("type") != "loopback":
            ends = ["%s:%s" % (each.node, each.ifname) for each in link.interfaces if each.node not in bridges]
            joins = [(each.node, bridges[each.node].get(each.ifname)) for each in link.interfaces if each.node in bridges]
            # What a bridge joins in one VLAN is one network.
            if joins:
                lans.setdefault(joins[0], []).extend(ends)
            else:
                links[" ".join(sorted(ends))] = True
    links.update((" ".join(sorted(ends)), True) for ends in lans.values())
    return {"nodes": nodes, "interfaces": interfaces, "links": links}


def one(folder):
    """A topology, or what netlab says against it."""
    os.chdir(folder)
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            topology = load_topology(get_box(GIVEN))
            augment.main.transform(topology)
            log.exit_on_error()
        return meaning(topology)
    except SystemExit:
        return said.getvalue().strip() or "refused"


def main():
    """Answers folder by folder, each in a process of its own: netlab keeps what it has read in global places."""
    # Read once: all processes begin with it.
    read.read_yaml("package:topology-defaults.yml")
    for line in sys.stdin:
        inner, outer = os.pipe()
        child = os.fork()
        if child == 0:
            with os.fdopen(outer, "w") as file:
                try:
                    json.dump(one(line.strip()), file)
                except BaseException as error:  # Whatever becomes of it is the answer.
                    json.dump("%s: %s" % (type(error).__name__, error), file)
            os._exit(0)
        os.close(outer)
        with os.fdopen(inner) as file:
            print(file.read() or '"died"', flush=True)
        os.waitpid(child, 0)


main()
