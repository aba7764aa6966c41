"""The other end of a QUIC connection (RFC 9000), by aioquic, on unidirectional streams and DATAGRAM frames (RFC 9221).

`listen CERTIFICATE KEY` prints its port and answers each connection: what comes on a stream goes back on the stream of the
same number in the other direction, with its end, and a datagram as a datagram. `dial PORT CERTIFICATE CIPHER` takes no other
certificate and offers no other cipher; it sends content on two streams, and messages on a stream each, and checks what comes
back."""

import socket
import ssl
import sys
import time

from aioquic.buffer import Buffer
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import ConnectionTerminated, DatagramFrameReceived, HandshakeCompleted, StreamDataReceived
from aioquic.quic.packet import pull_quic_header
from aioquic.tls import CipherSuite

SECONDS = 60
STREAMS = 2
MESSAGES = 20
BY_CLIENT, BY_SERVER = 2, 3  # The last two bits of a unidirectional stream's number (RFC 9000, 2.1).


def content(number, length):
    return bytes((number * 197 + i * 31 + (i >> 8)) & 255 for i in range(length))


def configured(is_client):
    return QuicConfiguration(is_client=is_client, alpn_protocols=["deadheat"], max_datagram_frame_size=65536)


class End:
    """A connection over a socket; `on_event` hears what happens to it."""

    def __init__(self, sock, connection, on_event):
        self.sock, self.connection, self.on_event = sock, connection, on_event

    def turn(self, data=None, address=None):
        """Takes a datagram, lets the timer fire, hears of events, and sends."""
        now = time.monotonic()
        if data is not None:
            self.connection.receive_datagram(data, address, now)
        due = self.connection.get_timer()
        if due is not None and due <= now:
            self.connection.handle_timer(now)
        while (event := self.connection.next_event()) is not None:
            self.on_event(self, event)
        for datagram, to in self.connection.datagrams_to_send(now):
            self.sock.sendto(datagram, to)


def received(sock):
    """The next datagram and its sender, or neither for a while."""
    try:
        return sock.recvfrom(65536)
    except TimeoutError:
        return None, None


def answer(end, event):
    if isinstance(event, StreamDataReceived):
        back = event.stream_id & ~3 | BY_SERVER
        end.connection.send_stream_data(back, event.data, event.end_stream)
    elif isinstance(event, DatagramFrameReceived):
        end.connection.send_datagram_frame(event.data)


def listen(certificate, key):
    configuration = configured(False)
    configuration.load_cert_chain(certificate, key)
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("127.0.0.1", 0))
    sock.settimeout(0.001)
    print(sock.getsockname()[1], flush=True)
    ends = {}
    began = time.monotonic()
    while time.monotonic() - began < SECONDS:
        data, address = received(sock)
        if data is not None and address not in ends:
            header = pull_quic_header(Buffer(data=data), configuration.connection_id_length)
            connection = QuicConnection(
                configuration=configuration, original_destination_connection_id=header.destination_cid
            )
            ends[address] = End(sock, connection, answer)
        for its, end in ends.items():
            end.turn(*((data, its) if its == address else ()))


def dial(port, certificate, cipher):
    configuration = configured(True)
    configuration.server_name = "deadheat"
    configuration.verify_mode = ssl.CERT_REQUIRED
    configuration.load_verify_locations(certificate)
    configuration.cipher_suites = [CipherSuite[cipher]]
    sent = {4 * n + BY_CLIENT: content(n, 150_000) for n in range(STREAMS)}
    messages = [content(n, 100 * n + 1) for n in range(MESSAGES)]
    back, ended = {}, set()

    def check(end, event):
        if isinstance(event, HandshakeCompleted):
            for stream, data in sent.items():
                end.connection.send_stream_data(stream, data, True)
            for n, message in enumerate(messages):
                end.connection.send_stream_data(4 * (STREAMS + n) + BY_CLIENT, message, True)
        elif isinstance(event, StreamDataReceived):
            back[event.stream_id] = back.get(event.stream_id, b"") + event.data
            if event.end_stream:
                ended.add(event.stream_id)
        elif isinstance(event, ConnectionTerminated):
            sys.exit("the connection ended: %s" % event.reason_phrase)

    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.settimeout(0.001)
    end = End(sock, QuicConnection(configuration=configuration), check)
    end.connection.connect(("127.0.0.1", port), time.monotonic())
    end.turn()
    began = time.monotonic()
    while len(ended) < STREAMS + MESSAGES:
        if time.monotonic() - began > SECONDS:
            sys.exit("%d of %d streams ended" % (len(ended), STREAMS + MESSAGES))
        end.turn(*received(sock))
    for stream, data in sent.items():
        if back.pop(stream & ~3 | BY_SERVER) != data:
            sys.exit("what came back on stream %d is not what was sent" % stream)
    # Messages have no order.
    if sorted(back.values()) != sorted(messages):
        sys.exit("the messages that came back are not those that were sent")
    print("all came back", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "listen":
        listen(*sys.argv[2:])
    else:
        dial(int(sys.argv[2]), *sys.argv[3:])
