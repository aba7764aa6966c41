"""The other end of a TCP connection behind the hello that opens each: `listen` answers each message with itself until the
peer ends, `dial PORT HELLO` sends messages and checks that each comes back. Four bytes in front of a message are its length.
It knows nothing of multipath TCP; mptcpize makes it speak that."""

import socket
import sys

HELLO = 24


def content(number, length):
    return bytes((number * 197 + i * 31 + (i >> 8)) & 255 for i in range(length))


def exactly(sock, length):
    """So many bytes, or fewer where the peer ends."""
    data = b""
    while len(data) < length:
        more = sock.recv(length - len(data))
        if not more:
            break
        data += more
    return data


def message(sock):
    """The next message; nothing at the end."""
    prefix = exactly(sock, 4)
    if not prefix:
        return None
    length = int.from_bytes(prefix, "big")
    data = exactly(sock, length)
    if len(prefix) < 4 or len(data) < length:
        sys.exit("ended within a message")
    return data


def send(sock, data):
    sock.sendall(len(data).to_bytes(4, "big") + data)


def listen():
    door = socket.create_server(("127.0.0.1", 0))
    print(door.getsockname()[1], flush=True)
    sock = door.accept()[0]
    sock.settimeout(30)
    hello = bytearray(exactly(sock, HELLO))
    hello[5] = 2
    sock.sendall(hello)
    while (data := message(sock)) is not None:
        send(sock, data)
    print("closed", flush=True)


def dial(port, hello):
    sock = socket.create_connection(("127.0.0.1", port))
    sock.settimeout(30)
    sock.sendall(hello)
    if len(exactly(sock, HELLO)) != HELLO:
        sys.exit("was not let in")
    for number, length in enumerate([1, 1000, 100_000, 100_000, 7]):
        sent = content(number, length)
        send(sock, sent)
        if message(sock) != sent:
            sys.exit("message %d came back otherwise" % number)
    sock.shutdown(socket.SHUT_WR)
    if message(sock) is not None:
        sys.exit("more came than was sent")
    print("all came back", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "listen":
        listen()
    else:
        dial(int(sys.argv[2]), bytes.fromhex(sys.argv[3]))
