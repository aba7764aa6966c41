"""A web server for races: HTTP/1.1 over TLS (Python's http.server), and HTTP/3 over QUIC (aioquic), with the same documents.

web.py CERTIFICATE KEY [h3|h1]: listens on port 443; with the last word, over QUIC or TLS alone.
"""

import asyncio
import http.server
import itertools
import socket
import ssl
import sys
import threading

from aioquic.asyncio import serve
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3Connection
from aioquic.h3.events import HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ProtocolNegotiated

PORT = 443
COUNT = itertools.count()


def answer(path):
    """The status, the fields and the body for a path."""
    announced = [("alt-svc", 'h3=":443"; ma=60')]
    if path == "/moved":
        return 301, [("location", "https://elsewhere.example/")], b""
    if path == "/changing":
        return 200, announced, b"a" * (1_000 + next(COUNT))
    if path.startswith("/bytes/"):
        return 200, announced, b"b" * int(path.removeprefix("/bytes/"))
    return 404, [], b"nothing here"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def do_GET(self):
        status, fields, body = answer(self.path)
        self.send_response(status)
        for name, value in fields + [("content-length", str(len(body)))]:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6
    request_queue_size = 128

    def finish_request(self, request, client_address):
        # In the connection's own thread, so that a slow handshake delays no other.
        request.do_handshake()
        super().finish_request(request, client_address)

    def handle_error(self, *_):
        pass


class Http3(QuicConnectionProtocol):
    http = None

    def quic_event_received(self, event):
        if isinstance(event, ProtocolNegotiated):
            self.http = H3Connection(self._quic)
        if self.http is None:
            return
        for one in self.http.handle_event(event):
            if isinstance(one, HeadersReceived):
                self.answer(one)
        self.transmit()

    def answer(self, event):
        path = dict(event.headers)[b":path"].decode()
        status, fields, body = answer(path)
        fields = fields + [("content-length", str(len(body)))]
        headers = [(b":status", str(status).encode())]
        headers += [(name.encode(), value.encode()) for name, value in fields]
        self.http.send_headers(event.stream_id, headers)
        self.http.send_data(event.stream_id, body, end_stream=True)


def over_tls(certificate, key):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.set_alpn_protocols(["http/1.1"])
    server = Server(("::", PORT), Handler)
    server.daemon_threads = True
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, daemon=True).start()


async def over_quic(certificate, key):
    configuration = QuicConfiguration(is_client=False, alpn_protocols=["h3"])
    configuration.load_cert_chain(certificate, key)
    tickets = {}
    await serve(
        "::",
        PORT,
        configuration=configuration,
        create_protocol=Http3,
        session_ticket_fetcher=lambda label: tickets.pop(label, None),
        session_ticket_handler=lambda ticket: tickets.update({ticket.ticket: ticket}),
    )


async def main(certificate, key, only=None):
    if only != "h3":
        over_tls(certificate, key)
    if only != "h1":
        await over_quic(certificate, key)
    await asyncio.Future()


asyncio.run(main(*sys.argv[1:]))
