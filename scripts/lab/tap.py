"""When frames of AVTP arrive at an interface, by the kernel's stamps: says so when it listens, and prints the stamps in
nanoseconds once its standard input ends. It reads them only then: on one processor a reader would disturb the sender."""

import socket
import struct
import sys

AVTP = 0x22F0
# Of asm-generic/socket.h and linux/if_packet.h; Python does not name them.
SO_RCVBUFFORCE, SO_TIMESTAMPNS = 33, 35
SOL_PACKET, PACKET_ADD_MEMBERSHIP, PACKET_MR_PROMISC = 263, 1, 1

tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(AVTP))
tap.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
tap.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
tap.bind((sys.argv[1], AVTP))
everything = struct.pack("iHH8s", socket.if_nametoindex(sys.argv[1]), PACKET_MR_PROMISC, 0, bytes(8))
tap.setsockopt(SOL_PACKET, PACKET_ADD_MEMBERSHIP, everything)
print("listening", flush=True)
sys.stdin.read()
tap.setblocking(False)
try:
    while True:
        _, control, _, _ = tap.recvmsg(64, 64)
        seconds, nanos = struct.unpack("qq", control[0][2])
        print(seconds * 1_000_000_000 + nanos)
except BlockingIOError:
    pass
