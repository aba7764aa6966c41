"""A QUIC connection (RFC 9000) of aioquic over a UDP socket, for both scripts that have one."""

import socket
import ssl
import sys
import time

from aioquic.buffer import Buffer
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.packet import pull_quic_header

SECONDS = 60


def content(number, length):
    return bytes((number * 197 + i * 31 + (i >> 8)) & 255 for i in range(length))


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
            self.hear(event)
        for datagram, to in self.connection.datagrams_to_send(now):
            self.sock.sendto(datagram, to)

    def hear(self, event):
        self.on_event(self, event)


def received(sock):
    """The next datagram and its sender, or neither for a while."""
    try:
        return sock.recvfrom(65536)
    except TimeoutError:
        return None, None


def configured(alpn, is_client):
    return QuicConfiguration(is_client=is_client, alpn_protocols=alpn, max_datagram_frame_size=65536)


def bound():
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("127.0.0.1", 0))
    sock.settimeout(0.001)
    return sock


def listen(kind, alpn, on_event, certificate, key):
    """Prints its port, and answers each connection by an end of this kind."""
    configuration = configured(alpn, False)
    configuration.load_cert_chain(certificate, key)
    sock = bound()
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
            ends[address] = kind(sock, connection, on_event)
        for its, end in ends.items():
            end.turn(*((data, its) if its == address else ()))


def dial(kind, alpn, on_event, port, certificate, ciphers, missing):
    """Dials, takes no other certificate, and goes on until nothing is `missing` any more."""
    configuration = configured(alpn, True)
    configuration.server_name = "deadheat"
    configuration.verify_mode = ssl.CERT_REQUIRED
    configuration.load_verify_locations(certificate)
    configuration.cipher_suites = ciphers
    sock = bound()
    end = kind(sock, QuicConnection(configuration=configuration), on_event)
    end.connection.connect(("127.0.0.1", port), time.monotonic())
    end.turn()
    began = time.monotonic()
    while lacks := missing():
        if time.monotonic() - began > SECONDS:
            sys.exit("missing: %s" % lacks)
        end.turn(*received(sock))
