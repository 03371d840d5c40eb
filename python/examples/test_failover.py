"""Tests of a failover by BGP: a cut link moves the traffic, a mended one brings it back. Needs FRR.

pytest -n 2 test_failover.py
"""

import json

import pytest

from pynetloom import Lab, wait_until

pytestmark = pytest.mark.netloom("failover.yaml")


def neighbours(lab: Lab, router: str) -> dict[str, str]:
    """The state of each of a router's BGP sessions over IPv4, by the other's AS."""
    told = json.loads(lab.node(router).run(["vtysh", "-c", "show bgp ipv4 unicast summary json"], check=True).stdout)
    return {str(peer["remoteAs"]): str(peer["state"]) for peer in told.get("peers", {}).values()}


def next_hops(lab: Lab, router: str, target: str) -> list[str]:
    """The interfaces by which a router's kernel sends to a node."""
    told = lab.node(router).run(["ip", "-j", "route", "get", lab.node(target).address(4)], check=True).stdout
    return [str(route["dev"]) for route in json.loads(told)]


def reaches(lab: Lab) -> bool:
    return all(answers.lost == 0 for answers in lab.ping("h1", "h2", count=1, family=4))


def test_sessions_are_established(lab: Lab) -> None:
    wait_until(
        lambda: neighbours(lab, "r1") == {"65002": "Established", "65003": "Established"},
        "both sessions of r1",
        timeout=90,
    )


@pytest.mark.parametrize("dead", ["r2", "r3"])
def test_traffic_moves_when_a_link_is_cut(lab: Lab, dead: str) -> None:
    wait_until(lambda: neighbours(lab, "r1").get("65003") == "Established", "the session with r3", timeout=90)
    wait_until(lambda: neighbours(lab, "r1").get("65002") == "Established", "the session with r2", timeout=90)
    wait_until(lambda: reaches(lab), "a way from h1 to h2", timeout=90)
    cut, other = (lab.link("r1", router) for router in (dead, {"r2": "r3", "r3": "r2"}[dead]))
    cut.down()
    wait_until(lambda: reaches(lab), f"the way without {dead}", timeout=90)
    assert next_hops(lab, "r1", "h2") == [interface(other.status()["ends"], "r1")]
    cut.up()
    wait_until(
        lambda: neighbours(lab, "r1").get("6500" + dead[1]) == "Established", f"the session with {dead}", timeout=90
    )
    wait_until(lambda: reaches(lab), f"a way with {dead} again", timeout=90)


def interface(ends: list[str], node: str) -> str:
    """The interface of a node at a link."""
    return next(end.split(":")[1] for end in ends if end.startswith(f"{node}:"))
