"""Two commands on aioquic: `serve HOST PORT DIR` answers each stream with the number of bytes that arrived on it, and
`send HOST PORT BYTES` sends bytes on one stream, waits for that number, and prints its goodput."""

import asyncio
import datetime
import ssl
import sys
import time

from aioquic.asyncio import connect, serve
from aioquic.quic.configuration import QuicConfiguration
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

PIECE = bytes(1 << 16)


def certificate(folder):
    """Writes a fresh certificate and its key into a folder, and returns their names."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "pair")])
    now = datetime.datetime.now(datetime.timezone.utc)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(days=1))
    made = made.not_valid_after(now + datetime.timedelta(days=2)).sign(key, hashes.SHA256())
    names = f"{folder}/certificate", f"{folder}/key"
    with open(names[0], "wb") as file:
        file.write(made.public_bytes(serialization.Encoding.PEM))
    with open(names[1], "wb") as file:
        form = serialization.PrivateFormat.PKCS8
        file.write(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
    return names


async def answer(reader, writer):
    """Counts the bytes of a stream, and answers with their number."""
    count = 0
    while piece := await reader.read(1 << 16):
        count += len(piece)
    writer.write(str(count).encode())
    writer.write_eof()


async def run_server(host, port, folder):
    """Serves until the process is ended."""
    configuration = QuicConfiguration(is_client=False, alpn_protocols=["pair"])
    configuration.load_cert_chain(*certificate(folder))
    tasks = set()

    def handle(reader, writer):
        task = asyncio.ensure_future(answer(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    await serve(host, port, configuration=configuration, stream_handler=handle)
    print("ready", flush=True)
    await asyncio.Event().wait()


async def send(host, port, count):
    """Sends bytes, and waits until the server says how many arrived."""
    configuration = QuicConfiguration(is_client=True, alpn_protocols=["pair"], verify_mode=ssl.CERT_NONE)
    async with connect(host, port, configuration=configuration) as connection:
        reader, writer = await connection.create_stream()
        began = time.monotonic()
        left = count
        while left:
            piece = PIECE[:left]
            writer.write(piece)
            left -= len(piece)
        writer.write_eof()
        arrived = int(await reader.read())
        took = time.monotonic() - began
    if arrived != count:
        sys.exit(f"{arrived} of {count} bytes arrived")
    print(f"goodput {8 * count / took / 1e6:.3f} Mbit/s")


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        asyncio.run(run_server(sys.argv[2], int(sys.argv[3]), sys.argv[4]))
    else:
        asyncio.run(send(sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
