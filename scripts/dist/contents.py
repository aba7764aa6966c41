#!/usr/bin/env python3
"""contents.py: what the program contains, from Cargo's own tree of the build with all contenders: a list in CycloneDX 1.5
(deadheat-VERSION.cdx.json), and the licences of all crates (third-party.txt).

cargo tells the features of one package only in its tree: `cargo metadata` adds what tests of the workspace turn on."""

import json
import os
import re
import subprocess
import time
import tomllib

TARGET = "x86_64-unknown-linux-musl"
# What Zig links beside the crates.
MUSL = {"type": "library", "name": "musl", "version": "1.2.5", "bom-ref": "musl", "licenses": [{"license": {"id": "MIT"}}]}
UNWIND = "libunwind and what compilers take from compiler-rt, as Zig has them"
TEXTS = re.compile(r"^(licen[cs]e|copying|copyright|notice|unlicense)", re.IGNORECASE)


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def tree():
    """Names and versions of the crates in the program, and which takes which."""
    edges, above = {}, []
    lines = output("cargo", "tree", "--locked", "--package", "deadheat", "--features", "all-contenders", "--edges", "normal,no-proc-macro", "--target", TARGET, "--prefix", "depth")
    for line in filter(None, lines.splitlines()):
        depth, name, version = re.match(r"(\d+)(\S+) v(\S+)", line).groups()
        del above[int(depth) :]
        crate = (name, version)
        edges.setdefault(crate, set())
        if above:
            edges[above[-1]].add(crate)
        above.append(crate)
    return edges


def reference(crate):
    return f"pkg:cargo/{crate[0]}@{crate[1]}"


def component(crate, package, checksums):
    entry = {"type": "library", "name": crate[0], "version": crate[1], "bom-ref": reference(crate), "purl": reference(crate)}
    if package.get("license"):
        entry["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    if crate in checksums:
        entry["hashes"] = [{"alg": "SHA-256", "content": checksums[crate]}]
    return entry


def inventory(edges, packages, checksums):
    own = next(crate for crate in edges if crate[0] == "deadheat")
    with open("target/dist-stage/rustc.txt", encoding="utf-8") as compiler:
        rust = compiler.read().split()[1]
    with open("scripts/dist/tools.txt", encoding="utf-8") as tools:
        version = re.search(r"^ziglang==(\S+)", tools.read(), re.MULTILINE)[1]
    zig = {"type": "library", "name": "zig", "version": version, "bom-ref": "zig", "description": UNWIND, "licenses": [{"license": {"id": "MIT"}}]}
    std = {"type": "library", "name": "std", "version": rust, "bom-ref": "std", "licenses": [{"expression": "MIT OR Apache-2.0"}]}
    described = {**component(own, packages[own], checksums), "type": "application"}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))),
            "component": described,
        },
        "components": [component(crate, packages[crate], checksums) for crate in sorted(edges) if crate != own] + [std, MUSL, zig],
        "dependencies": [{"ref": reference(crate), "dependsOn": sorted(map(reference, needs))} for crate, needs in sorted(edges.items())],
    }


def texts(edges, packages):
    """Licences of other people's crates; a text that several have stands once."""
    users = {}
    for crate in sorted(edges):
        package = packages[crate]
        if package["source"] is None:
            continue
        folder = os.path.dirname(package["manifest_path"])
        files = [name for name in sorted(os.listdir(folder)) if TEXTS.match(name) and os.path.isfile(os.path.join(folder, name))]
        # A crate whose archive has no text stands under what it declares.
        found = [open(os.path.join(folder, name), encoding="utf-8", errors="replace").read().strip() for name in files]
        for text in found or [f"No text is in its archive; it declares: {package.get('license')}"]:
            users.setdefault(text, []).append(f"{crate[0]} {crate[1]} ({package.get('license')})")
    yield "Libraries in deadheat, by their licences\n"
    for text, names in users.items():
        yield f"{'=' * 100}\n{', '.join(names)}\n{'-' * 100}\n{text}\n"


def main():
    edges = tree()
    metadata = json.loads(output("cargo", "metadata", "--locked", "--format-version", "1"))
    packages = {(package["name"], package["version"]): package for package in metadata["packages"]}
    with open("Cargo.lock", "rb") as lock:
        locked = tomllib.load(lock)["package"]
    checksums = {(package["name"], package["version"]): package["checksum"] for package in locked if "checksum" in package}
    with open(f"{os.environ['DIST']}/deadheat-{os.environ['VERSION']}.cdx.json", "w", encoding="utf-8") as out:
        json.dump(inventory(edges, packages, checksums), out, indent=1, sort_keys=True)
        out.write("\n")
    with open("target/dist-stage/third-party.txt", "w", encoding="utf-8") as out:
        out.writelines(texts(edges, packages))


if __name__ == "__main__":
    main()
