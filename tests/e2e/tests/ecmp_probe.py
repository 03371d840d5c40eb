"""Flows over a router that knows several ways, and the way of each.

    ecmp_probe.py send        in the first host: packets of many flows, in turn, and one at the end
    ecmp_probe.py hear        in the second: writes what came in into /heard: interface, port of the flow, TTL
"""
import os
import select
import socket
import struct
import sys
import time

FLOWS, EACH, FIRST, LAST = 400, 3, 20000, 9999
# What comes from this port is answered.
ASKS = 9998
TO = ("203.0.113.1", 9)


def send():
    def one(port):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as flow:
            flow.bind(("", port))
            flow.sendto(b"flow", TO)
    asks = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    asks.bind(("", ASKS))
    asks.settimeout(30)
    for _ in range(EACH):
        for port in range(FIRST, FIRST + FLOWS):
            one(port)
            if port % 10 == 0:
                time.sleep(0.002)
            if port % 80 == 0:
                # The hearer may be kept from its CPU for long: what its sockets have not room for is lost.
                asks.sendto(b"flow", TO)
                asks.recv(100)
    # By one way it may overtake others.
    time.sleep(0.5)
    one(LAST)


def hear():
    links, back = {}, socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for name in ("eth0", "eth1"):
        link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
        try:
            # SO_RCVBUFFORCE: this program may be kept from its CPU for long.
            link.setsockopt(socket.SOL_SOCKET, 33, 8 << 20)
        except PermissionError:
            pass
        link.bind((name, 0x0800))
        links[link] = name
    with open("/ready", "w"):
        pass
    found, over = [], False
    while True:
        # After the last one, what has come by the other way.
        ready, _, _ = select.select(links, [], [], 1 if over else 60)
        if not ready:
            break
        for link in ready:
            frame, where = link.recvfrom(2048)
            if where[2] == socket.PACKET_OUTGOING or frame[23] != 17 or frame[30:34] != socket.inet_aton(TO[0]):
                continue
            port = struct.unpack("!H", frame[34:36])[0]
            over = over or port == LAST
            if port == ASKS:
                back.sendto(b"heard", (socket.inet_ntoa(frame[26:30]), ASKS))
            elif port != LAST:
                found.append(f"{links[link]} {port} {frame[22]}\n")
    with open("/heard.new", "w") as out:
        out.writelines(found)
    os.rename("/heard.new", "/heard")


send() if sys.argv[1] == "send" else hear()
