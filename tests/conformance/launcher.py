"""Runs chosen cases of os-ken's switch tests and writes a line of JSON for each.

    launcher.py SUITE VERSION CASES RESULTS [--wait SECONDS] [--pour SECONDS] [--correct-sctp] [--steady]

SUITE is the folder `os_ken/tests/switch` of the installed package, VERSION the target's (openflow10, openflow13).
CASES is a file of lines `of13/action/00_OUTPUT.json#0`: a file of the suite and the case's number in it. The tests
themselves are os-ken's; only which run, and what becomes of results, is decided here. Listens on 127.0.0.1:6653.
"""

import argparse
import collections
import json
import os
import sys
import time
import traceback

# Cooperative: with threads the tester would hear of packets before it waits for them.
os.environ["OSKEN_HUB_TYPE"] = "eventlet"

from os_ken.lib import hub  # noqa: E402

hub.patch()

from os_ken import cfg, log  # noqa: E402

log.early_init_log()

import os_ken.flags  # noqa: E402,F401  registers options
from os_ken.base import app_manager  # noqa: E402  before the controller, which needs it
import os_ken.controller.controller  # noqa: E402,F401  registers options
from os_ken.lib.packet import sctp  # noqa: E402
from os_ken.tests.switch import tester  # noqa: E402


def arguments():
    parser = argparse.ArgumentParser()
    for name in ["suite", "version", "cases", "results"]:
        parser.add_argument(name)
    parser.add_argument("--wait", type=float, default=3.0)
    parser.add_argument("--pour", type=float, default=6.0)
    parser.add_argument("--correct-sctp", action="store_true")
    parser.add_argument("--steady", action="store_true")
    return parser.parse_args()


class Recorder:
    """What replaces parts of the tester."""

    def __init__(self, given):
        self.given = given
        self.results = open(given.results, "w", encoding="utf-8")
        self.detail = ""
        self.step = tester.OfTester._test
        self.pour = tester.OfTester._continuous_packet_send
        self.send = tester.OpenFlowSw.send_packet_out
        self.sent = 0
        self.offered = None
        self.prepared = None

    def chosen(self):
        """Numbers of the chosen cases by file, in the order of the list."""
        files = collections.OrderedDict()
        with open(self.given.cases, encoding="utf-8") as lines:
            for line in lines:
                name, number = line.strip().rsplit("#", 1)
                files.setdefault(name, []).append(int(number))
        return files

    def take(self, app, state, *args):
        """A step of a case; keeps in words why it failed.

        The assistant's only entry is not deleted and made again for each case: while it lacks it, Open vSwitch may
        cache a drop, and then drops what the target sends for up to half a second after a barrier's reply.
        """
        if state == tester.STATE_INIT_THROUGHPUT_FLOW and self.prepared is app.tester_sw.dp:
            return None
        if state == tester.STATE_INIT_THROUGHPUT_FLOW:
            self.prepared = app.tester_sw.dp
        if state == tester.STATE_THROUGHPUT_FLOW_INSTALL:
            self.prepared = None
        try:
            return self.step(app, state, *args)
        except tester.TestMessageBase as failure:
            self.detail = str(failure) + (self.offered if state == tester.STATE_THROUGHPUT_CHK else "")
            raise

    def send_one(self, switch, data):
        self.sent += 1
        return self.send(switch, data)

    def pour_out(self, app, pkt):
        """Packets at a rate; keeps in words at which rate they came. As long as this run's options say, but as the case
        says where packets are random: shares of few of them vary too much."""
        if not pkt[tester.KEY_PACKETS]["randomize"]:
            pkt[tester.KEY_PACKETS][tester.KEY_DURATION_TIME] = self.given.pour
        self.sent, begin = 0, time.monotonic()
        self.pour(app, pkt)
        rate = self.sent / (time.monotonic() - begin)
        self.offered = " (the tester sent %.0f of %d a second)" % (rate, pkt[tester.KEY_PACKETS][tester.KEY_PKTPS])

    def case(self, app, case):
        self.detail, self.offered = "", ""
        try:
            return app._test_execute(case, None) == tester.TEST_OK
        except Exception as error:
            # The tester asserts that one message came where two may.
            where = traceback.extract_tb(error.__traceback__)[-1]
            self.detail = "tester: %r in %s: %s" % (error, where.name, where.line)
            app.waiter = None
            return False

    def run(self, app, _folder):
        for name, numbers in self.chosen().items():
            file = tester.TestFile(os.path.join(self.given.suite, name), app.logger)
            for number in numbers:
                # A file that cannot be read whole lacks its last cases; the caller notices.
                if number < len(file.tests):
                    case = file.tests[number]
                    self.write(name, number, file.description, case.description, self.case(app, case))
        self.results.close()
        os._exit(0)

    def write(self, name, number, heading, description, passed):
        line = {
            "case": "%s#%d" % (name, number),
            "title": "%s: %s" % (heading, description),
            "passed": passed,
            "detail": self.detail,
        }
        self.results.write(json.dumps(line) + "\n")
        self.results.flush()


def correct_sctp():
    """os-ken computes the CRC over the text `bytearray(b'...')`; this has it compute over the bytes."""
    of_text = sctp.sctp._checksum
    sctp.sctp._checksum = lambda header, data: of_text(header, bytes(data).decode("latin-1"))


def send_by_the_clock(app, arg):
    """What a case's rate says. os-ken's own sends a hundredth of that and sleeps 10 ms, again and again: too little,
    since a sleep takes longer, and sending takes time, too."""
    rate = arg["packet_counter_inc"] / tester.CONTINUOUS_THREAD_INTVL
    begin, sent = time.monotonic(), 0
    while app.ingress_event is not None and not app.ingress_event._cond:
        hub.sleep(0.001)
        due = int((time.monotonic() - begin) * rate)
        while sent < due and app.ingress_event is not None:
            data = arg["packet_binary"]
            if arg["randomize"]:
                frame = eval("/".join(arg["packet_text"]), vars(tester))
                frame.serialize()
                data = frame.data
            app.tester_sw.send_packet_out(data)
            sent += 1


def main():
    given = arguments()
    recorder = Recorder(given)
    tester.WAIT_TIMER = given.wait
    tester.OfTester._test = lambda app, state, *args: recorder.take(app, state, *args)
    tester.OfTester._test_sequential_execute = lambda app, folder: recorder.run(app, folder)
    tester.OfTester._continuous_packet_send = lambda app, pkt: recorder.pour_out(app, pkt)
    tester.OpenFlowSw.send_packet_out = lambda switch, data: recorder.send_one(switch, data)
    if given.correct_sctp:
        correct_sctp()
    if given.steady:
        tester.OfTester._send_packet_thread = send_by_the_clock
    options = ["--test-switch-target-version", given.version, "--test-switch-tester-version", "openflow13"]
    options += ["--test-switch-dir", given.suite, "--ofp-listen-host", "127.0.0.1"]
    options += ["--ofp-tcp-listen-port", "6653"]
    cfg.CONF(options, project="os_ken", version="conformance")
    log.init_log()
    app_manager.AppManager.run_apps(["os_ken.tests.switch.tester", "os_ken.controller.ofp_handler"])


if __name__ == "__main__":
    sys.exit(main())
