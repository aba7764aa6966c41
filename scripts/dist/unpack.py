#!/usr/bin/env python3
"""unpack.py IMAGE.tar FOLDER: holds a container image against OCI's specification, file by file, and unpacks its layers.

Every blob must have the digest and the length of its descriptor, every descriptor a blob, every blob a descriptor, and every
layer the digest that the configuration names."""

import gzip
import hashlib
import io
import json
import sys
import tarfile

IMAGE = "application/vnd.oci.image."


def expect(condition, what):
    if not condition:
        sys.exit(f"unpack.py: {what}")


class Blobs:
    """The files of a layout; those that nothing has asked for stay."""

    def __init__(self, archive):
        self.files = {entry.name: archive.extractfile(entry).read() for entry in archive if entry.isfile()}

    def take(self, name):
        expect(name in self.files, f"{name} is not there")
        return self.files.pop(name)

    def blob(self, descriptor, kind):
        expect(descriptor["mediaType"] == IMAGE + kind, f"a {kind} is called {descriptor['mediaType']}")
        algorithm, digest = descriptor["digest"].split(":")
        body = self.take(f"blobs/{algorithm}/{digest}")
        expect(hashlib.new(algorithm, body).hexdigest() == digest, f"{digest} is the digest of other bytes")
        expect(len(body) == descriptor["size"], f"{digest} has {len(body)} bytes, not {descriptor['size']}")
        return body


def main():
    with tarfile.open(sys.argv[1]) as archive:
        blobs = Blobs(archive)
    expect(json.loads(blobs.take("oci-layout")) == {"imageLayoutVersion": "1.0.0"}, "oci-layout")
    index = json.loads(blobs.take("index.json"))
    expect(index["schemaVersion"] == 2 and len(index["manifests"]) == 1, "index.json names one image")
    manifest = json.loads(blobs.blob(index["manifests"][0], "manifest.v1+json"))
    expect(manifest["schemaVersion"] == 2 and manifest["mediaType"] == IMAGE + "manifest.v1+json", "the manifest's version")
    config = json.loads(blobs.blob(manifest["config"], "config.v1+json"))
    expect(config["os"] == "linux" and config["architecture"] in ("amd64", "arm64"), "the platform")
    expect(config["rootfs"]["type"] == "layers", "the kind of rootfs")
    digests = config["rootfs"]["diff_ids"]
    expect(len(digests) == len(manifest["layers"]) == len(config["history"]), "as many layers as digests and lines of history")
    for descriptor, digest in zip(manifest["layers"], digests):
        layer = gzip.decompress(blobs.blob(descriptor, "layer.v1.tar+gzip"))
        expect("sha256:" + hashlib.sha256(layer).hexdigest() == digest, f"a layer is not {digest}")
        with tarfile.open(fileobj=io.BytesIO(layer)) as files:
            # As the layer has it, whatever this version of Python holds for safe: its digest was checked.
            files.extraction_filter = lambda entry, _: entry
            files.extractall(sys.argv[2])
    expect(not blobs.files, f"nothing names {', '.join(blobs.files)}")


if __name__ == "__main__":
    main()
