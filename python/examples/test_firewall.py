"""Tests of a firewall: what it lets pass, what it stops, and what it counts. Needs nftables and curl.

pytest -n 2 test_firewall.py
"""

import json

import pytest

from pynetloom import Lab, wait_until

pytestmark = pytest.mark.netloom("firewall.yaml", scope="module")

TIMED_OUT = 28
"""curl's exit status where no answer came in time."""


def test_the_web_server_can_be_reached(lab: Lab) -> None:
    page = lab.node("client").run("curl -fsS --max-time 20 http://web/", check=True).stdout
    assert "Directory listing" in page


@pytest.mark.parametrize("family", [4, 6])
def test_another_port_cannot(lab: Lab, family: int) -> None:
    done = lab.node("client").run(f"curl -sS -{family} --max-time 1 http://web:8080/")
    assert done.returncode == TIMED_OUT, done.stderr
    # The server itself answers: it was the firewall.
    lab.node("web").run("curl -fsS http://localhost:8080/", check=True)


def test_echo_requests_pass(lab: Lab) -> None:
    reached = lab.ping_all()
    assert reached, reached.failures


def test_the_rule_counts(lab: Lab) -> None:
    def passed() -> int:
        told = lab.node("firewall").run("nft -j list ruleset", check=True).stdout
        rules = [one["rule"] for one in json.loads(told)["nftables"] if "rule" in one]
        return sum(part["counter"]["packets"] for rule in rules for part in rule["expr"] if "counter" in part)

    before = passed()
    lab.node("client").run("curl -fsS --max-time 20 http://web/", check=True)
    assert passed() > before


def test_a_slow_link_slows_the_answer(lab: Lab) -> None:
    link = lab.link("firewall-web")
    link.impair(delay="50ms")
    try:
        # A changed link may lose its carrier for a moment.
        wait_until(lambda: lab.ping_all(), "a way to the web server", timeout=90)
        answers = lab.ping("client", "web", family=4)
        assert answers[0].lost == 0
        assert min(time for time in answers[0].times if time is not None) >= 0.1
    finally:
        link.clear()
