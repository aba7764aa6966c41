"""The other end of a WebSocket, by the library websockets, behind the hello that opens each connection: `listen` answers
each message with itself and closes after an empty one; `dial PORT HELLO` and `dial-tls PORT HELLO` send messages, one in
two frames with a ping between them, and check that each comes back."""

import socket
import ssl
import sys

from websockets.client import ClientConnection
from websockets.frames import Frame, Opcode
from websockets.http11 import Request, Response
from websockets.server import ServerConnection
from websockets.uri import parse_uri

HELLO = 24
MOST = 1 << 20


def content(number, length):
    return bytes((number * 197 + i * 31 + (i >> 8)) & 255 for i in range(length))


def exactly(sock, length):
    data = b""
    while len(data) < length:
        more = sock.recv(length - len(data))
        if not more:
            sys.exit("ended within the hello")
        data += more
    return data


def send(sock, connection):
    for data in connection.data_to_send():
        if data:
            sock.sendall(data)


def events(sock, connection):
    """What comes, until the connection ends."""
    while True:
        data = sock.recv(65536)
        if data:
            connection.receive_data(data)
        else:
            connection.receive_eof()
        yield from connection.events_received()
        send(sock, connection)
        if not data:
            return


def listen():
    door = socket.create_server(("127.0.0.1", 0))
    print(door.getsockname()[1], flush=True)
    sock = door.accept()[0]
    sock.settimeout(30)
    hello = bytearray(exactly(sock, HELLO))
    hello[5] = 2
    sock.sendall(hello)
    connection = ServerConnection(max_size=MOST)
    for event in events(sock, connection):
        if isinstance(event, Request):
            connection.send_response(connection.accept(event))
        elif event.opcode is Opcode.BINARY:
            if event.data:
                connection.send_binary(event.data)
            else:
                connection.send_close(1000)
        send(sock, connection)
    print("closed with", connection.close_code, flush=True)


def dial(port, hello, is_tls):
    sock = socket.create_connection(("127.0.0.1", port))
    sock.settimeout(30)
    sock.sendall(hello)
    exactly(sock, HELLO)
    if is_tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        sock = context.wrap_socket(sock, server_hostname="deadheat")
    connection = ClientConnection(parse_uri("ws://deadheat/"), max_size=MOST)
    connection.send_request(connection.connect())
    send(sock, connection)
    sent = [content(n, length) for n, length in enumerate([1, 125, 126, 65535, 65536, 100_000])]
    back = []
    for event in events(sock, connection):
        if isinstance(event, Response):
            for message in sent[:-1]:
                connection.send_binary(message)
            half = len(sent[-1]) // 2
            connection.send_binary(sent[-1][:half], fin=False)
            connection.send_ping(b"between")
            connection.send_continuation(sent[-1][half:], fin=True)
        elif isinstance(event, Frame) and event.opcode is Opcode.BINARY:
            back.append(event.data)
            if len(back) == len(sent):
                connection.send_close(1000)
        send(sock, connection)
    if back != sent:
        sys.exit("what came back is not what was sent")
    print("all came back, closed with", connection.close_code, flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "listen":
        listen()
    else:
        dial(int(sys.argv[2]), bytes.fromhex(sys.argv[3]), sys.argv[1] == "dial-tls")
