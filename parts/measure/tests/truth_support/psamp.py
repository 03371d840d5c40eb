"""Which packets RFC 5475 selects by BOB: a reading of its own, for tests.

Standard input has a frame a line: the size of its segments (0: it is a packet) and the bytes from the IP
header on, in hexadecimal. Arguments: profile (rfc5475 or portable), seed, match value, hash length, offset
and size of the part of the payload. Printed is a line a packet: its hash, and 1 if it is selected.
"""

import struct
import sys

M = 0xFFFFFFFF


def bob(key, initial):
    """RFC 5475, appendix A.2, with words of 32 bits."""
    a = b = 0x9E3779B9
    c = initial

    def mix(a, b, c):
        a = (a - b - c & M) ^ c >> 13
        b = (b - c - a & M) ^ a << 8 & M
        c = (c - a - b & M) ^ b >> 13
        a = (a - b - c & M) ^ c >> 12
        b = (b - c - a & M) ^ a << 16 & M
        c = (c - a - b & M) ^ b >> 5
        a = (a - b - c & M) ^ c >> 3
        b = (b - c - a & M) ^ a << 10 & M
        c = (c - a - b & M) ^ b >> 15
        return a, b, c

    length = len(key)
    while len(key) >= 12:
        x, y, z = struct.unpack("<III", key[:12])
        a, b, c = mix(a + x & M, b + y & M, c + z & M)
        key = key[12:]
    c = c + length & M
    # The lowest byte of the third word is the length's.
    rest = key[:8].ljust(8, b"\0") + b"\0" + key[8:].ljust(3, b"\0")
    x, y, z = struct.unpack("<III", rest)
    return mix(a + x & M, b + y & M, c + z & M)[2]


def segments(packet, size):
    """The packets of a super-frame as they will be on the wire, without their checksums."""
    v6 = packet[0] >> 4 == 6
    ip = 40 if v6 else (packet[0] & 15) * 4
    protocol = packet[6] if v6 else packet[9]
    own = (packet[ip + 12] >> 4) * 4 if protocol == 6 else 8
    data = packet[ip + own:]
    for number, start in enumerate(range(0, len(data), size)):
        part = data[start:start + size]
        head = bytearray(packet[:ip + own])
        if v6:
            struct.pack_into(">H", head, 4, own + len(part))
        else:
            identification = struct.unpack_from(">H", head, 4)[0]
            struct.pack_into(">H", head, 2, ip + own + len(part))
            struct.pack_into(">H", head, 4, identification + number & 0xFFFF)
        if protocol == 6:
            sequence = struct.unpack_from(">I", head, ip + 4)[0]
            struct.pack_into(">I", head, ip + 4, sequence + start & M)
        else:
            struct.pack_into(">H", head, ip + 4, own + len(part))
        yield bytes(head) + part


def six(packet):
    """Bytes 10, 11, 14, 15, 16 (counted from 1) of both addresses."""
    pick = lambda a: bytes([a[9], a[10], a[13], a[14], a[15]])
    return pick(packet[8:24]) + pick(packet[24:40])


def rfc5475(packet, offset, size):
    if packet[0] >> 4 == 6:
        return packet[4:6] + six(packet) + packet[40 + offset:40 + offset + size]
    ip = (packet[0] & 15) * 4
    return packet[4:8] + packet[12:20] + packet[ip + offset:ip + offset + size]


def portable(packet, offset, size):
    v6 = packet[0] >> 4 == 6
    ip = 40 if v6 else (packet[0] & 15) * 4
    protocol = packet[6] if v6 else packet[9]
    key = six(packet) + b"\0\0" if v6 else packet[4:8] + packet[12:20]
    payload = packet[ip:]
    key += payload[:4] + struct.pack(">BBH", 0, protocol, len(payload))
    if protocol == 6:
        return key + payload[4:12]
    data = payload[8 + offset:8 + offset + size]
    return key + data.ljust(size, b"\0")


def main():
    profile, seed, match, length, offset, size = sys.argv[1], *map(int, sys.argv[2:7])
    read = {"rfc5475": rfc5475, "portable": portable}[profile]
    mask = (1 << length) - 1
    for line in sys.stdin:
        gso, text = line.split()
        frame = bytes.fromhex(text)
        for packet in segments(frame, int(gso)) if int(gso) else [frame]:
            hashed = bob(read(packet, offset, size), seed)
            print(f"{hashed:08x} {int(hashed & mask == match & mask)}")


main()
