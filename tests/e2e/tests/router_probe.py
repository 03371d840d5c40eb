"""Random packets through a router, and what comes of them.

    router_probe.py send SEED ROUTER_MAC    in the first host: sends, then prints what came back
    router_probe.py hear                    in the second: writes what came into /heard, until the last packet

Every packet has a number, as its identification (IPv4) or flow label (IPv6). What a router answers is printed without
what it chooses itself: its identification, flow label and checksums.
"""
import random
import select
import socket
import struct
import sys
import time

LAST = 999
# The hearer sends those with such numbers back, and routers say that the time of those with the others is over.
BACK, ENDED = 2000, 3000
NEAR, FAR = "10.1.0.2", "10.2.0.2"
NEAR6, FAR6 = "fd01::2", "fd02::2"


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def v4(number, to, ttl, payload, options=b"", fragment=0, damage=0):
    head = struct.pack("!BBHHHBBH4s4s", 0x40 | 5 + len(options) // 4, 0, 20 + len(options) + len(payload), number,
                       fragment, ttl, 17, 0, socket.inet_aton(NEAR), socket.inet_aton(to)) + options
    return b"\x08\x00" + head[:10] + struct.pack("!H", checksum(head) ^ damage) + head[12:] + payload


def v6(number, to, ttl, payload, following=17):
    pack = lambda text: socket.inet_pton(socket.AF_INET6, text)
    return b"\x86\xdd" + struct.pack("!IHBB", 0x60000000 | number, len(payload), following, ttl) \
        + pack(NEAR6) + pack(to) + payload


def udp(chance, length):
    ports = struct.pack("!HH", chance.randrange(1024, 65536), chance.randrange(1024, 65536))
    return ports + struct.pack("!HH", 8 + length, 0) + bytes(chance.randrange(256) for _ in range(length))


def packet(chance, number):
    """One with its ethertype in front."""
    ttl = chance.choice([0, 1, 2, 3, 64, 255])
    length = chance.choice([0, 1, 20, 400, 1350])
    kind = chance.choice(["plain", "plain", "damaged", "options", "fragment", "long", "long-df", "none", "local", "group",
                          "reserved", "plain6", "plain6", "hop6", "long6", "none6", "local6", "group6"])
    data = udp(chance, length)
    if kind == "options":
        return v4(number, FAR, ttl, data[:1200], chance.choice([b"\x01\x01\x01\x00", b"\x07\x07\x04\0\0\0\0\0",
                                                                b"\x94\x04\0\0"]))
    if kind == "damaged":
        return v4(number, FAR, ttl, data, damage=1 << chance.randrange(16))
    if kind == "fragment":
        return v4(number, FAR, ttl, data, fragment=chance.choice([0x2000, 0x2003, 0x0003]))
    if kind == "long":
        return v4(number, FAR, ttl, udp(chance, 1440))
    if kind == "long-df":
        return v4(number, FAR, ttl, udp(chance, 1440), fragment=0x4000)
    if kind == "none":
        return v4(number, "192.0.2.7", ttl, data)
    if kind == "local":
        return v4(number, "10.2.0.1", ttl, data)
    if kind == "group":
        return v4(number, "224.0.0.251", ttl, data)
    if kind == "reserved":
        return v4(number, chance.choice(["240.0.0.1", "0.0.0.1", "127.0.0.1", "10.2.0.255"]), ttl, data)
    if kind == "plain6":
        return v6(number, FAR6, ttl, data)
    if kind == "hop6":
        return v6(number, FAR6, ttl, b"\x11\0\x01\x04\0\0\0\0" + data, 0)
    if kind == "long6":
        return v6(number, FAR6, ttl, udp(chance, 1440))
    if kind == "none6":
        return v6(number, "2001:db8::7", ttl, data)
    if kind == "local6":
        return v6(number, "fd02::1", ttl, data)
    if kind == "group6":
        return v6(number, chance.choice(["ff02::5", "fe80::9"]), ttl, data)
    return v4(number, FAR, ttl, data)


def number_of(frame):
    """Of a packet of ours."""
    if frame[12:14] == b"\x08\x00":
        return struct.unpack("!H", frame[18:20])[0]
    if frame[12:14] == b"\x86\xdd":
        return struct.unpack("!I", frame[14:18])[0] & 0xFFFFF
    return None


def answer(frame):
    """An error about a packet of ours: the packet's number, and the error without what its sender chooses.

    Linux bounds how often it says that there is no route for IPv4, whatever its settings; and it says that a neighbour does
    not answer, or that fragments are missing, when it has waited for seconds, which may be after the end.
    """
    unbounded = frame[34:36] not in (b"\x03\x00", b"\x0b\x01")
    at_once = frame[54:56] != b"\x01\x03"
    if frame[12:14] == b"\x08\x00" and frame[23] == 1 and frame[34] in (3, 5, 11, 12) and unbounded:
        size = (frame[14] & 15) * 4 + 14
        about = b"\0" * 12 + b"\x08\x00" + frame[size + 8:]
        return number_of(about), frame[:18] + b"\0\0" + frame[20:24] + b"\0\0" + frame[26:]
    if frame[12:14] == b"\x86\xdd" and frame[20] == 58 and frame[54] in (1, 2, 3, 4) and at_once:
        about = b"\0" * 12 + b"\x86\xdd" + frame[62:]
        return number_of(about), frame[:14] + b"\x60\0\0\0" + frame[18:56] + b"\0\0" + frame[58:]
    return None


def receive(link, until):
    ready, _, _ = select.select([link], [], [], max(0, until - time.monotonic()))
    return link.recvfrom(65536) if ready else (None, None)


def send(link, seed, router):
    own = link.getsockname()[4]
    chance = random.Random(seed)
    head = bytes.fromhex(router.replace(":", "")) + own
    found, back = [], set()

    def listen(seconds, over=lambda: False):
        until = time.monotonic() + seconds
        while not over():
            frame, where = receive(link, until)
            if frame is None:
                return
            if where[2] == socket.PACKET_OUTGOING:
                continue
            if answer(frame):
                found.append(answer(frame))
            elif frame[12:14] == b"\x08\x00" and frame[23] == 17:
                back.add(number_of(frame))

    def catch_up(number):
        """Waits for a hearer, and a router, that had no turn: what a socket has not room for is lost."""
        discard = b"\0\x09\0\x09\0\x08\0\0"
        link.send(head + v4(BACK + number, FAR, 64, discard))
        link.send(head + v4(ENDED + number, FAR, 1, discard))
        both = lambda: BACK + number in back and any(about == ENDED + number for about, _ in found)
        listen(30, both)
        if not both():
            sys.exit(f"packets of number {number} are not answered")
    for number in range(1, 301):
        link.send(head + packet(chance, number))
        listen(0.003)
        if number % 30 == 0:
            catch_up(number)
    listen(1)
    link.send(head + v4(LAST, FAR, 64, b"\0\x09\0\x09\0\x08\0\0"))
    for number, frame in sorted(found):
        print(number, frame.hex())


def hear(link):
    found = []
    with open("/ready", "w"):
        pass
    while True:
        frame, where = receive(link, time.monotonic() + 60)
        if frame is None or number_of(frame) == LAST and frame[23] == 17:
            break
        number = number_of(frame)
        if number is not None and BACK < number < ENDED and frame[23] == 17 and where[2] != socket.PACKET_OUTGOING:
            link.send(frame[6:12] + frame[:6] + frame[12:26] + frame[30:34] + frame[26:30] + frame[34:])
        ours = frame[23] == 17 or frame[12:14] == b"\x86\xdd" and frame[20] in (17, 0, 44)
        if where[2] != socket.PACKET_OUTGOING and number and ours and frame[6:12] != frame[0:6]:
            found.append((number, frame.hex()))
    with open("/heard.new", "w") as out:
        out.writelines(f"{number} {frame}\n" for number, frame in sorted(found))
    import os
    os.rename("/heard.new", "/heard")


def main():
    link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    link.bind(("eth0", 3))
    if sys.argv[1] == "send":
        send(link, int(sys.argv[2]), sys.argv[3])
    else:
        hear(link)


main()
