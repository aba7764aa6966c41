"""A small ndt7 server (m-lab/ndt-server, spec/ndt7-protocol.md) of the library websockets: peer_ndt7.py CERTIFICATE KEY [PORT]

`?fault=NAME` in the URL of a test makes it do what a server must not: lie, babble, mute, data, drop.
"""

import asyncio
import json
import ssl
import sys
import time
from urllib.parse import parse_qs, urlsplit

import websockets

PROTOCOL = "net.measurementlab.ndt.v7"
LONGEST = 10


def measurement(test, count, began):
    app = {"NumBytes": count, "ElapsedTime": int((time.monotonic() - began) * 1e6)}
    return json.dumps({"AppInfo": app, "Origin": "server", "Test": test, "TCPInfo": {"MinRTT": 10000}})


async def download(socket, fault):
    began, sent, size, told = time.monotonic(), 0, 1 << 13, 0.0
    while time.monotonic() - began < LONGEST:
        await socket.send(bytes(size))
        sent += size
        if fault == "babble":
            await socket.send("GET / HTTP/1.1")
        if fault == "drop" and sent > 1 << 16:
            return socket.transport.abort()
        if time.monotonic() - told > 0.25:
            told = time.monotonic()
            await socket.send(measurement("download", sent, began))
        if size < 1 << 24 and size * 16 <= sent:
            size *= 2


async def upload(socket, fault):
    began, count, told = time.monotonic(), 0, 0.0
    async for message in socket:
        count += len(message)
        if fault == "data":
            await socket.send(bytes(1))
        if time.monotonic() - told > 0.05:
            told = time.monotonic()
            await socket.send(measurement("upload", count + (1 << 40 if fault == "lie" else 0), began))
        if fault == "drop" and count > 1 << 16:
            return socket.transport.abort()
        if fault == "mute":
            await asyncio.sleep(60)


async def test(socket, path=None):
    url = urlsplit(path or getattr(socket, "path", None) or socket.request.path)
    fault = parse_qs(url.query).get("fault", [""])[0]
    try:
        await (download if url.path.endswith("/download") else upload)(socket, fault)
    except websockets.exceptions.ConnectionClosed:
        pass


async def main(certificate, key, port=443):
    terms = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    terms.load_cert_chain(certificate, key)
    options = {"ssl": terms, "subprotocols": [PROTOCOL], "max_size": None, "ping_interval": None}
    async with websockets.serve(test, "0.0.0.0", int(port), **options) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await asyncio.Event().wait()


asyncio.run(main(*sys.argv[1:]))
