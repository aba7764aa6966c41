"""The other end of a QUIC connection (RFC 9000), by aioquic, on unidirectional streams and DATAGRAM frames (RFC 9221).

`listen CERTIFICATE KEY` prints its port and answers each connection: what comes on a stream goes back on the stream of the
same number in the other direction, with its end, and a datagram as a datagram. `dial PORT CERTIFICATE CIPHER MESSAGES` takes
no other certificate and offers no other cipher; it sends content on two streams, and so many messages on a stream each, and
checks what comes back."""

import sys

from aioquic.quic.events import ConnectionTerminated, DatagramFrameReceived, HandshakeCompleted, StreamDataReceived
from aioquic.tls import CipherSuite

import quic_over_udp
from quic_over_udp import End, content

ALPN = ["deadheat"]
STREAMS = 2
BY_CLIENT, BY_SERVER = 2, 3  # The last two bits of a unidirectional stream's number (RFC 9000, 2.1).


def answer(end, event):
    if isinstance(event, StreamDataReceived):
        back = event.stream_id & ~3 | BY_SERVER
        end.connection.send_stream_data(back, event.data, event.end_stream)
    elif isinstance(event, DatagramFrameReceived):
        end.connection.send_datagram_frame(event.data)


def dial(port, certificate, cipher, messages):
    sent = {4 * n + BY_CLIENT: content(n, 150_000) for n in range(STREAMS)}
    sent_alone = [content(n, 100 * n + 1) for n in range(messages)]
    back, ended = {}, set()

    def check(end, event):
        if isinstance(event, HandshakeCompleted):
            for stream, data in sent.items():
                end.connection.send_stream_data(stream, data, True)
            for n, message in enumerate(sent_alone):
                end.connection.send_stream_data(4 * (STREAMS + n) + BY_CLIENT, message, True)
        elif isinstance(event, StreamDataReceived):
            back[event.stream_id] = back.get(event.stream_id, b"") + event.data
            if event.end_stream:
                ended.add(event.stream_id)
        elif isinstance(event, ConnectionTerminated):
            sys.exit("the connection ended: %s" % event.reason_phrase)

    def missing():
        lacks = STREAMS + messages - len(ended)
        return lacks and "%d streams that end" % lacks

    quic_over_udp.dial(End, ALPN, check, port, certificate, [CipherSuite[cipher]], missing)
    for stream, data in sent.items():
        if back.pop(stream & ~3 | BY_SERVER) != data:
            sys.exit("what came back on stream %d is not what was sent" % stream)
    # Messages have no order.
    if sorted(back.values()) != sorted(sent_alone):
        sys.exit("the messages that came back are not those that were sent")
    print("all came back", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "listen":
        quic_over_udp.listen(End, ALPN, answer, *sys.argv[2:])
    else:
        dial(int(sys.argv[2]), *sys.argv[3:5], int(sys.argv[5]))
