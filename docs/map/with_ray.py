#!/usr/bin/env python3
"""A map in parts as remote functions of Ray: python3 docs/map/with_ray.py

Each node has `deadheat` in its PATH. A part comes back as the bytes of its file, so no directory needs to be shared.
"""

import pathlib
import subprocess
import tempfile

import ray

SHARDS = 8
MAP = [
    "deadheat", "map", "quic", "kcp", "enet", "arq", "-w", "state", "--path", "sim:rate=20mbit",
    "--over", "delay=1ms..300ms/12", "--over", "loss=0..10%/10", "--seed", "7", "--jobs", "1", "--quiet",
]


@ray.remote(num_cpus=1, max_retries=3)
def shard(number: int) -> bytes:
    with tempfile.TemporaryDirectory() as directory:
        file = pathlib.Path(directory, "part.json")
        command = [*MAP, "--shard", f"{number}/{SHARDS}", "-o", str(file)]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        return file.read_bytes()


def main() -> None:
    ray.init()
    parts = ray.get([shard.remote(number) for number in range(1, SHARDS + 1)])
    with tempfile.TemporaryDirectory() as directory:
        files = [pathlib.Path(directory, f"part{number}.json") for number in range(1, SHARDS + 1)]
        for file, part in zip(files, parts):
            file.write_bytes(part)
        names = [str(file) for file in files]
        subprocess.run(["deadheat", "merge", *names, "-o", "map.json", "--picture", "map.svg"], check=True)


if __name__ == "__main__":
    main()
