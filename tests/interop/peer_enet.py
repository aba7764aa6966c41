"""The other end of an ENet connection, by pyenet over the C library: `listen PORT` answers each message with itself,
`dial PORT` sends messages and checks that each comes back on its channel."""

import sys
import time

import enet

CHANNELS = 4


def content(number, length):
    return bytes((number * 197 + i * 31 + (i >> 8)) & 255 for i in range(length))


def listen(port):
    host = enet.Host(enet.Address(b"127.0.0.1", port), 1, CHANNELS, 0, 0)
    print("ready", flush=True)
    began = time.monotonic()
    while time.monotonic() - began < 60:
        event = host.service(5)
        if event.type == enet.EVENT_TYPE_RECEIVE:
            # The last channel is that of best effort.
            best_effort = event.channelID == CHANNELS - 1
            flags = enet.PACKET_FLAG_UNSEQUENCED if best_effort else enet.PACKET_FLAG_RELIABLE
            event.peer.send(event.channelID, enet.Packet(event.packet.data, flags))
        elif event.type == enet.EVENT_TYPE_DISCONNECT:
            return


def dial(port):
    host = enet.Host(None, 1, CHANNELS, 0, 0)
    peer = host.connect(enet.Address(b"127.0.0.1", port), CHANNELS)
    sent = [content(n, length) for n, length in enumerate([1, 100, 1400, 5000, 100_000] * 4)]
    back = [[] for _ in range(CHANNELS - 1)]
    began = time.monotonic()
    while sum(map(len, back)) < len(sent):
        if time.monotonic() - began > 30:
            sys.exit("not all came back")
        event = host.service(5)
        if event.type == enet.EVENT_TYPE_CONNECT:
            for n, message in enumerate(sent):
                peer.send(n % (CHANNELS - 1), enet.Packet(message, enet.PACKET_FLAG_RELIABLE))
        elif event.type == enet.EVENT_TYPE_RECEIVE:
            back[event.channelID].append(event.packet.data)
    for channel, messages in enumerate(back):
        if messages != sent[channel :: CHANNELS - 1]:
            sys.exit("what came back on channel %d is not what was sent" % channel)
    print("all came back", flush=True)


if __name__ == "__main__":
    {"listen": listen, "dial": dial}[sys.argv[1]](int(sys.argv[2]))
