#!/usr/bin/env python3
"""image.py ARCH: writes the container image as an archive of OCI's layout, without a daemon: the static program and the
certificates of this host's authorities, nothing else. podman load, docker load and skopeo read it.

Source: OCI Image Format Specification 1.1 (image-layout.md, manifest.md, config.md, layer.md)."""

import gzip
import hashlib
import io
import json
import os
import sys
import tarfile
import time

AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"
EPOCH = int(os.environ["SOURCE_DATE_EPOCH"])
VERSION = os.environ["VERSION"]
NAMES = {"x86_64": "amd64", "aarch64": "arm64"}
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"


def member(name, mode, body=None):
    """An entry of a layer, of user and group 0 and of the time of the last commit; a folder where there is no body."""
    entry = tarfile.TarInfo(name)
    entry.mode, entry.mtime = mode, EPOCH
    entry.type = tarfile.DIRTYPE if body is None else tarfile.REGTYPE
    entry.size = len(body or b"")
    return entry, body


def packed(members):
    """The bytes of an archive with these entries."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for entry, body in members:
            archive.addfile(entry, None if body is None else io.BytesIO(body))
    return out.getvalue()


def digest(body):
    return "sha256:" + hashlib.sha256(body).hexdigest()


class Layout:
    """Files of a layout: blobs by their digests, and what names them."""

    def __init__(self):
        self.blobs = {}

    def add(self, kind, body):
        """Keeps the bytes, and returns their descriptor."""
        name = digest(body)
        self.blobs["blobs/sha256/" + name.removeprefix("sha256:")] = body
        return {"mediaType": kind, "digest": name, "size": len(body)}

    def add_json(self, kind, value):
        return self.add(kind, json.dumps(value, sort_keys=True, separators=(",", ":")).encode())


def read(path):
    with open(path, "rb") as file:
        return file.read()


def layers(program):
    """The layers as archives, each with what it is for."""
    own = [member("deadheat", 0o755, program), member("tmp", 0o1777)]
    own += [member(name, 0o644, read(name)) for name in ("LICENSE-APACHE", "LICENSE-MIT")]
    yield "the program", packed(own)
    if os.path.exists(AUTHORITIES):
        folders = [member(name, 0o755) for name in ("etc", "etc/ssl", "etc/ssl/certs")]
        file = member(AUTHORITIES.removeprefix("/"), 0o644, read(AUTHORITIES))
        yield "certificates of authorities, for far ends over HTTPS", packed(folders + [file])


def image(arch, program):
    layout = Layout()
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(EPOCH))
    parts = list(layers(program))
    packs = [gzip.compress(body, mtime=0) for _, body in parts]
    config = {
        "architecture": NAMES[arch],
        "os": "linux",
        "created": created,
        "config": {
            # Nobody; the port is above 1024, so nothing needs root.
            "User": "65534:65534",
            "ExposedPorts": {"5210/tcp": {}, "5210/udp": {}},
            "Entrypoint": ["/deadheat"],
            "Cmd": ["serve"],
            "WorkingDir": "/tmp",
            "StopSignal": "SIGTERM",
        },
        "rootfs": {"type": "layers", "diff_ids": [digest(body) for _, body in parts]},
        "history": [{"created": created, "created_by": what} for what, _ in parts],
    }
    notes = {
        "org.opencontainers.image.created": created,
        "org.opencontainers.image.description": "Referee for network transports",
        "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
        "org.opencontainers.image.title": "deadheat",
        "org.opencontainers.image.version": VERSION,
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": layout.add_json(CONFIG, config),
        "layers": [layout.add(LAYER, pack) for pack in packs],
        "annotations": notes,
    }
    top = layout.add_json(MANIFEST, manifest)
    top["platform"] = {"architecture": NAMES[arch], "os": "linux"}
    top["annotations"] = {"org.opencontainers.image.ref.name": f"deadheat:{VERSION}"}
    index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [top]}
    files = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}', "index.json": json.dumps(index, sort_keys=True).encode()}
    files.update(sorted(layout.blobs.items()))
    folders = [member(name, 0o755) for name in ("blobs", "blobs/sha256")]
    return packed(folders + [member(name, 0o644, body) for name, body in files.items()])


def main():
    arch = sys.argv[1]
    program = read(f"target/dist-stage/{arch}/deadheat")
    with open(f"{os.environ['DIST']}/deadheat-{VERSION}-{arch}-oci.tar", "wb") as out:
        out.write(image(arch, program))


if __name__ == "__main__":
    main()
