"""Two commands that move bytes over TCP: `serve HOST PORT [FILE]` answers each connection with the number of bytes that arrived,
and `send HOST PORT BYTES` prints figures of its transfer; `give HOST PORT BYTES` answers each connection with as many bytes, and
`take HOST PORT FILE` stores them."""

import json
import os
import socket
import sys
import time


def serve(host, port, name=None):
    listener = socket.create_server((host, int(port)))
    while True:
        connection, _ = listener.accept()
        count = 0
        with open(name or os.devnull, "wb") as file:
            while piece := connection.recv(1 << 16):
                count += len(piece)
                file.write(piece)
        connection.sendall(b"%d" % count)
        connection.close()


def send(host, port, count):
    began = time.monotonic()
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(bytes(int(count)))
        connection.shutdown(socket.SHUT_WR)
        arrived = int(connection.recv(64))
    took = time.monotonic() - began
    print(json.dumps({"sum": {"arrived": arrived, "seconds": took, "unit": "s"}}))
    print(f"took {1000 * took:.3f} ms", file=sys.stderr)


def give(host, port, count):
    listener = socket.create_server((host, int(port)))
    while True:
        connection, _ = listener.accept()
        connection.sendall(bytes(int(count)))
        connection.close()


def take(host, port, name):
    with socket.create_connection((host, int(port))) as connection, open(name, "wb") as file:
        while piece := connection.recv(1 << 16):
            file.write(piece)


{"serve": serve, "send": send, "give": give, "take": take}[sys.argv[1]](*sys.argv[2:])
