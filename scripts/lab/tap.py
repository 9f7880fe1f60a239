"""Writes when frames arrive at an interface: AVTP frames to groups or, with a port, UDP packets to it. Prints `listening`, and
writes the kernel's timestamps when its standard input ends: nanoseconds, 64 bits each. It reads frames only then, because
on one processor a reader disturbs the sender. It uses a packet ring: with a plain socket the kernel allocates memory for
every eighth frame.

    tap.py INTERFACE SECONDS [PORT]
"""

import array
import mmap
import socket
import struct
import sys

# Frames of class A per second. The kernel drops frames beyond the size of the ring.
A_SECOND = 8000
AVTP, IPV4, UDP = 0x22F0, 0x0800, 17
# From linux/if_packet.h; Python lacks them.
SOL_PACKET, PACKET_ADD_MEMBERSHIP, PACKET_MR_PROMISC = 263, 1, 1
PACKET_RX_RING, PACKET_STATISTICS, PACKET_VERSION, TPACKET_V2, TP_STATUS_USER = 5, 6, 10, 1, 1
# Bytes: the header of the ring, of the frame, and of UDP over IPv4.
PLACE, BLOCK = 128, 1 << 16


def is_meant(frame, port):
    """AVTP probes go to a unicast address and do not count."""
    if port is None:
        return frame[0] & 1
    return frame[14 + 9] == UDP and int.from_bytes(frame[36:38], "big") == port


def main(interface, seconds, port=None):
    room = int(seconds) * A_SECOND
    blocks = -(-room * PLACE // BLOCK)
    protocol = IPV4 if port else AVTP
    # Receives no frames before bind.
    tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    tap.setsockopt(SOL_PACKET, PACKET_VERSION, TPACKET_V2)
    tap.setsockopt(SOL_PACKET, PACKET_RX_RING, struct.pack("4I", BLOCK, blocks, PLACE, blocks * BLOCK // PLACE))
    ring = mmap.mmap(tap.fileno(), blocks * BLOCK)
    everything = struct.pack("iHH8s", socket.if_nametoindex(interface), PACKET_MR_PROMISC, 0, bytes(8))
    tap.setsockopt(SOL_PACKET, PACKET_ADD_MEMBERSHIP, everything)
    tap.bind((interface, protocol))
    print("listening", flush=True)
    sys.stdin.read()
    stamps = array.array("q")
    for place in range(0, len(ring), PLACE):
        status, _, captured, begin, _, seconds, nanos = struct.unpack_from("3I2H2I", ring, place)
        if not status & TP_STATUS_USER:
            break
        if is_meant(ring[place + begin:place + begin + captured], port and int(port)):
            stamps.append(seconds * 1_000_000_000 + nanos)
    stamps.tofile(sys.stdout.buffer)
    _, dropped = struct.unpack("2I", tap.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
    if dropped:
        sys.exit(f"{dropped} frames dropped: the ring has {room}")


main(*sys.argv[1:])
