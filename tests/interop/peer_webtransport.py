"""The other end of a WebTransport session over HTTP/3 (draft-ietf-webtrans-http3), by aioquic.

`listen CERTIFICATE KEY` prints its port and answers each connection: what comes on one of the session's streams goes back on
the stream of the same number in the other direction, with its end, and a datagram as a datagram. `dial PORT CERTIFICATE` asks
for a session, sends content on two streams, messages on a stream each, and datagrams, and checks what comes back."""

import sys

from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DatagramReceived, HeadersReceived, WebTransportStreamDataReceived
from aioquic.quic.events import ConnectionTerminated, ProtocolNegotiated

import quic_over_udp
from quic_over_udp import End, content

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


class Session(End):
    """A connection with HTTP/3 on it; `on_event` hears what happens there."""

    def __init__(self, sock, connection, on_event):
        super().__init__(sock, connection, on_event)
        self.http = None
        self.own, self.numbers = [], {}

    def hear(self, event):
        if isinstance(event, ProtocolNegotiated):
            self.http = H3Connection(self.connection, enable_webtransport=True)
        if isinstance(event, (ProtocolNegotiated, ConnectionTerminated)):
            self.on_event(self, event)
        if self.http is not None:
            for http_event in self.http.handle_event(event):
                self.on_event(self, http_event)

    def open_streams(self, session, count):
        """Opens streams of the session, which has this many more then."""
        for _ in range(count):
            self.own.append(self.http.create_webtransport_stream(session, is_unidirectional=True))

    def send(self, number, data, is_last):
        self.connection.send_stream_data(self.own[number], data, is_last)


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


def dial(port, certificate):
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

    def missing():
        lacks = STREAMS + MESSAGES - len(ended)
        return (lacks and "%d streams that end" % lacks) or (not datagrams and "a datagram")

    quic_over_udp.dial(Session, H3_ALPN, check, port, certificate, None, missing)
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
        quic_over_udp.listen(Session, H3_ALPN, answer, *sys.argv[2:])
    else:
        dial(int(sys.argv[2]), *sys.argv[3:])
