"""The other end of WebRTC's data channels (RFC 8831), by aiortc: `dial PORT TOKEN` connects to the end of the trial with this
token on this host, as the one that begins ICE, DTLS and SCTP, sends messages on a channel with order and on one without, and
checks what comes back.

Nothing of it signals: names and passwords of ICE come from the token, as at the other end, whose certificate nobody knows."""

import asyncio
import hashlib
import sys

import aioice.ice
from aiortc import RTCCertificate, RTCDataChannel, RTCDataChannelParameters, RTCIceCandidate, RTCIceGatherer, RTCIceTransport
from aiortc import RTCDtlsFingerprint, RTCDtlsParameters, RTCDtlsTransport, RTCIceParameters, RTCSctpTransport

SECONDS = 30
NEAR, FAR = 0, 1
LENGTHS = [1, 100, 1_199, 1_200, 1_201, 20_000, 60_000]

# It leaves out the loopback otherwise.
aioice.ice.get_host_addresses = lambda use_ipv4, use_ipv6: ["127.0.0.1"]


class Any(str):
    """A fingerprint that every certificate has: nobody told which one to expect."""

    def lower(self):
        return self

    def upper(self):
        return self

    def __eq__(self, other):
        return True

    __hash__ = str.__hash__


def content(number, length):
    return bytes((number * 197 + i * 31 + (i >> 8)) & 255 for i in range(length))


def credentials(token, side):
    seed = hashlib.sha256(b"deadheat data channel" + token + bytes([side])).hexdigest()
    return seed[:16], seed[16:]


async def dial(port, token):
    name, password = credentials(token, NEAR)
    gatherer = RTCIceGatherer(iceServers=[], local_username=name, local_password=password)
    gatherer._connection.ice_controlling = True
    await gatherer.gather()
    ice = RTCIceTransport(gatherer)
    far = RTCIceCandidate(
        component=1, foundation="1", ip="127.0.0.1", port=port, priority=2130706431, protocol="udp", type="host"
    )
    await ice.addRemoteCandidate(far)
    await ice.addRemoteCandidate(None)
    name, password = credentials(token, FAR)
    await ice.start(RTCIceParameters(usernameFragment=name, password=password, iceLite=True))
    if ice.state != "completed":
        sys.exit("ICE is %s" % ice.state)
    dtls = RTCDtlsTransport(ice, [RTCCertificate.generateCertificate()])
    dtls._set_role("client")
    sctp = RTCSctpTransport(dtls)
    channels, queues = [], []
    for number, ordered in enumerate([True, False]):
        parameters = RTCDataChannelParameters(negotiated=True, id=number, ordered=ordered)
        channels.append(RTCDataChannel(sctp, parameters))
        queues.append(asyncio.Queue())
        channels[-1].on("message", queues[-1].put_nowait)
    unknown = RTCDtlsFingerprint(algorithm="sha-256", value=Any())
    await dtls.start(RTCDtlsParameters(fingerprints=[unknown]))
    if dtls.state != "connected":
        sys.exit("DTLS is %s" % dtls.state)
    await sctp.start(RTCSctpTransport.getCapabilities(), 5000)
    while any(channel.readyState != "open" for channel in channels):
        await asyncio.sleep(0.01)
    for number, length in enumerate(LENGTHS):
        for channel, queue in zip(channels, queues):
            channel.send(content(number, length))
            if await queue.get() != content(number, length):
                sys.exit("a message of %d bytes on channel %d changed" % (length, channel.id))
    print("all came back", flush=True)


if __name__ == "__main__":
    asyncio.run(asyncio.wait_for(dial(int(sys.argv[2]), bytes.fromhex(sys.argv[3])), SECONDS))
