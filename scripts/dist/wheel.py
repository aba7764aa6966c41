#!/usr/bin/env python3
"""wheel.py ARCH: writes the wheel for pip: the program among the scripts of an environment, and the module `deadheat`, which
runs it and reads its results. It is of no version of Python and of no C library.

Source: binary distribution format (PEP 427), platform tags (PEP 600, 656), lists of contents (PEP 770)."""

import base64
import hashlib
import os
import sys
import time
import zipfile

VERSION = os.environ["VERSION"]
INFO = f"deadheat-{VERSION}.dist-info"
# Zip keeps no years before 1980, and seconds in pairs.
STAMP = time.gmtime(max(int(os.environ["SOURCE_DATE_EPOCH"]), 315532800))[:6]

METADATA = f"""Metadata-Version: 2.4
Name: deadheat
Version: {VERSION}
Summary: Races network transports on equal terms, and reads the results into pandas or Polars
License-Expression: MIT OR Apache-2.0
License-File: LICENSE-APACHE
License-File: LICENSE-MIT
License-File: third-party.txt
Requires-Python: >=3.8
Provides-Extra: pandas
Requires-Dist: pandas; extra == 'pandas'
Provides-Extra: polars
Requires-Dist: polars; extra == 'polars'
Classifier: Operating System :: POSIX :: Linux
Classifier: Topic :: System :: Networking
Description-Content-Type: text/markdown

"""


def read(path):
    with open(path, "rb") as file:
        return file.read()


def contents(arch):
    """Each file of the wheel with its bytes, in their order; the program's name ends in what must be executable."""
    folder = "packaging/python/deadheat"
    for name in sorted(os.listdir(folder)):
        if name.endswith((".py", ".typed")):
            yield f"deadheat/{name}", read(f"{folder}/{name}")
    yield f"deadheat-{VERSION}.data/scripts/deadheat", read(f"target/dist-stage/{arch}/deadheat")
    tags = "".join(f"Tag: py3-none-{tag}\n" for tag in platforms(arch))
    yield f"{INFO}/METADATA", METADATA.encode() + read("packaging/python/README.md")
    yield f"{INFO}/WHEEL", f"Wheel-Version: 1.0\nGenerator: deadheat\nRoot-Is-Purelib: false\n{tags}".encode()
    for name in ("LICENSE-APACHE", "LICENSE-MIT"):
        yield f"{INFO}/licenses/{name}", read(name)
    yield f"{INFO}/licenses/third-party.txt", read("target/dist-stage/third-party.txt")
    yield f"{INFO}/sboms/deadheat.cdx.json", read(f"{os.environ['DIST']}/deadheat-{VERSION}.cdx.json")


def platforms(arch):
    return [f"manylinux2014_{arch}", f"musllinux_1_1_{arch}"]


def main():
    arch = sys.argv[1]
    name = f"deadheat-{VERSION}-py3-none-{'.'.join(platforms(arch))}.whl"
    record = []
    with zipfile.ZipFile(f"{os.environ['DIST']}/{name}", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:

        def put(path, body):
            entry = zipfile.ZipInfo(path, STAMP)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3
            entry.external_attr = (0o100755 if "/scripts/" in path else 0o100644) << 16
            wheel.writestr(entry, body)

        for path, body in contents(arch):
            put(path, body)
            sha = base64.urlsafe_b64encode(hashlib.sha256(body).digest()).rstrip(b"=").decode()
            record.append(f"{path},sha256={sha},{len(body)}\n")
        put(f"{INFO}/RECORD", "".join(record + [f"{INFO}/RECORD,,\n"]).encode())


if __name__ == "__main__":
    main()
