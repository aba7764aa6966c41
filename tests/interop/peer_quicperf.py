"""A QUIC perf server (draft-banks-quic-performance-00) of aioquic: peer_quicperf.py CERTIFICATE KEY [PORT [FAULT]]

Each stream of a client begins with the number of bytes that it wants back, 8 bytes, big-endian; the server reads to the
end of the stream, and sends as many. 2^64-1 bytes have no end, until the client stops the stream. A fault is what a server must not
do: `close` the connection or `reset` the stream in place of an answer, or send one byte `more` or `less`.

`peer_quicperf.py ask PORT UP DOWN` is a client: it sends UP bytes on a stream, asks for DOWN bytes, and prints how many came.
"""

import asyncio
import ssl
import sys

from aioquic.asyncio import connect, serve
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, StopSendingReceived, StreamDataReceived

PIECE = bytes(64 * 1024)
MOST_WAITING = 256 * 1024


FAULT = sys.argv[4] if len(sys.argv) > 4 else ""


class Perf(QuicConnectionProtocol):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.heads, self.left = {}, {}
        self.gone = False

    def quic_event_received(self, event):
        if isinstance(event, StreamDataReceived):
            stream = event.stream_id
            head = self.heads.setdefault(stream, bytearray())
            head += event.data[: 8 - len(head)]
            if event.end_stream and len(head) == 8:
                self.left[stream] = int.from_bytes(head, "big") + {"more": 1, "less": -1}.get(FAULT, 0)
                if FAULT == "close":
                    return self.close(error_code=7, reason_phrase="no more")
                if FAULT == "reset":
                    self._quic.reset_stream(stream, 9)
                    return self.transmit()
                asyncio.ensure_future(self.answer(stream))
        elif isinstance(event, StopSendingReceived):
            self.left[event.stream_id] = None
        elif isinstance(event, ConnectionTerminated):
            self.gone = True
            print("terminated", event.error_code, flush=True)

    async def answer(self, stream):
        while not self.gone and self.left[stream] is not None:
            left = self.left[stream]
            piece = PIECE[: min(left, len(PIECE))]
            self.left[stream] = left - len(piece)
            self._quic.send_stream_data(stream, piece, end_stream=left == len(piece))
            self.transmit()
            if left == len(piece):
                return
            sender = self._quic._streams[stream].sender
            while not self.gone and len(sender._buffer) > MOST_WAITING:
                await asyncio.sleep(0.001)


async def main(certificate, key, port=443, fault=""):
    terms = QuicConfiguration(is_client=False, alpn_protocols=["perf"], max_data=1 << 24, max_stream_data=1 << 24)
    terms.load_cert_chain(certificate, key)
    server = await serve("0.0.0.0", int(port), configuration=terms, create_protocol=Perf)
    print(server._transport.get_extra_info("sockname")[1], flush=True)
    await asyncio.Event().wait()


async def ask(port, up, down):
    terms = QuicConfiguration(is_client=True, alpn_protocols=["perf"], verify_mode=ssl.CERT_NONE)
    async with connect("127.0.0.1", int(port), configuration=terms) as client:
        reader, writer = await client.create_stream()
        writer.write(int(down).to_bytes(8, "big") + bytes(int(up)))
        writer.write_eof()
        print(len(await reader.read()), flush=True)


if sys.argv[1] == "ask":
    asyncio.run(ask(*sys.argv[2:]))
else:
    asyncio.run(main(*sys.argv[1:]))
