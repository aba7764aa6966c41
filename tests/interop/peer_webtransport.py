"""The other end of a WebTransport session over HTTP/3 (draft-ietf-webtrans-http3), by aioquic.

`listen CERTIFICATE KEY` prints its port and answers each connection: what comes on one of the session's streams goes back on
the stream of the same number in the other direction, with its end, and a datagram as a datagram. `dial PORT CERTIFICATE` asks
for a session, sends content on two streams, messages on a stream each, and datagrams, and checks what comes back."""

import socket
import ssl
import sys
import time

from aioquic.buffer import Buffer
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DatagramReceived, HeadersReceived, WebTransportStreamDataReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import ConnectionTerminated, ProtocolNegotiated
from aioquic.quic.packet import pull_quic_header

SECONDS = 60
STREAMS = 2
MESSAGES = 20
DATAGRAMS = 10
REQUEST = [
    (b":method", b"CONNECT"),
    (b":scheme", b"https"),
    (b":authority", b"deadheat"),
    (b":path", b"/"),
    (b":protocol", b"webtransport"),
]


def content(number, length):
    return bytes((number * 197 + i * 31 + (i >> 8)) & 255 for i in range(length))


def configured(is_client):
    return QuicConfiguration(is_client=is_client, alpn_protocols=H3_ALPN, max_datagram_frame_size=65536)


class End:
    """A connection over a socket; `on_event` hears what happens in HTTP/3."""

    def __init__(self, sock, connection, on_event):
        self.sock, self.connection, self.on_event = sock, connection, on_event
        self.http = None
        self.own, self.numbers = [], {}

    def turn(self, data=None, address=None):
        """Takes a datagram, lets the timer fire, hears of events, and sends."""
        now = time.monotonic()
        if data is not None:
            self.connection.receive_datagram(data, address, now)
        due = self.connection.get_timer()
        if due is not None and due <= now:
            self.connection.handle_timer(now)
        while (event := self.connection.next_event()) is not None:
            if isinstance(event, ProtocolNegotiated):
                self.http = H3Connection(self.connection, enable_webtransport=True)
                self.on_event(self, event)
            elif isinstance(event, ConnectionTerminated):
                self.on_event(self, event)
            if self.http is not None:
                for http_event in self.http.handle_event(event):
                    self.on_event(self, http_event)
        for datagram, to in self.connection.datagrams_to_send(now):
            self.sock.sendto(datagram, to)

    def open_streams(self, session, count):
        """Opens streams of the session, which has this many more then."""
        for _ in range(count):
            self.own.append(self.http.create_webtransport_stream(session, is_unidirectional=True))

    def send(self, number, data, is_last):
        self.connection.send_stream_data(self.own[number], data, is_last)


def received(sock):
    """The next datagram and its sender, or neither for a while."""
    try:
        return sock.recvfrom(65536)
    except TimeoutError:
        return None, None


def answer(end, event):
    if isinstance(event, HeadersReceived):
        if [value for name, value in event.headers if name == b":protocol"] != [b"webtransport"]:
            sys.exit("not a request for WebTransport: %s" % event.headers)
        end.http.send_headers(event.stream_id, [(b":status", b"200")])
        end.open_streams(event.stream_id, STREAMS)
    elif isinstance(event, WebTransportStreamDataReceived):
        # Behind the control stream, which is the first of its direction.
        number = event.stream_id // 4 - 1
        if number >= STREAMS and number not in end.numbers:
            end.open_streams(event.session_id, 1)
            end.numbers[number] = len(end.own) - 1
        end.send(end.numbers.get(number, number), event.data, event.stream_ended)
    elif isinstance(event, DatagramReceived):
        end.http.send_datagram(event.stream_id, event.data)


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


def dial(port, certificate):
    configuration = configured(True)
    configuration.server_name = "deadheat"
    configuration.verify_mode = ssl.CERT_REQUIRED
    configuration.load_verify_locations(certificate)
    streams = [content(n, 150_000) for n in range(STREAMS)]
    messages = [content(n, 100 * n + 1) for n in range(MESSAGES)]
    back, ended, datagrams = {}, set(), []

    def check(end, event):
        if isinstance(event, ProtocolNegotiated):
            end.http.send_headers(end.connection.get_next_available_stream_id(), REQUEST)
        elif isinstance(event, HeadersReceived):
            if (b":status", b"200") not in event.headers:
                sys.exit("refused: %s" % event.headers)
            end.open_streams(event.stream_id, STREAMS + MESSAGES)
            for number, data in enumerate(streams + messages):
                end.send(number, data, True)
            for number in range(DATAGRAMS):
                end.http.send_datagram(event.stream_id, content(number, 500))
        elif isinstance(event, WebTransportStreamDataReceived):
            back[event.stream_id] = back.get(event.stream_id, b"") + event.data
            if event.stream_ended:
                ended.add(event.stream_id)
        elif isinstance(event, DatagramReceived):
            datagrams.append(event.data)
        elif isinstance(event, ConnectionTerminated):
            sys.exit("the connection ended: %s" % event.reason_phrase)

    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.settimeout(0.001)
    end = End(sock, QuicConnection(configuration=configuration), check)
    end.connection.connect(("127.0.0.1", port), time.monotonic())
    end.turn()
    began = time.monotonic()
    while len(ended) < STREAMS + MESSAGES or not datagrams:
        if time.monotonic() - began > SECONDS:
            sys.exit("%d of %d streams ended, %d datagrams" % (len(ended), STREAMS + MESSAGES, len(datagrams)))
        end.turn(*received(sock))
    # The far end's streams, behind its control stream, in the order in which it opened them.
    came = [back[stream] for stream in sorted(back)]
    if came[:STREAMS] != streams:
        sys.exit("what came back on the streams is not what was sent")
    # Messages have no order.
    if sorted(came[STREAMS:]) != sorted(messages):
        sys.exit("the messages that came back are not those that were sent")
    if any(datagram not in [content(number, 500) for number in range(DATAGRAMS)] for datagram in datagrams):
        sys.exit("a datagram that came back is none that was sent")
    print("all came back", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "listen":
        listen(*sys.argv[2:])
    else:
        dial(int(sys.argv[2]), *sys.argv[3:])
