#!/usr/bin/env python3
"""Prints the size of the house, as the Markdown table of SIZE.md: code, tests and comments by crate, public items, dependencies, words of docs.

  scripts/size.py            the table
  scripts/size.py --build    with the seconds that `cargo build --release` takes from nothing (minutes)
  scripts/size.py > SIZE.md  renews the table; no size fails a build

A line of code has a token that is not a comment. Items under `#[cfg(test)]` and `#[test]`, files that such a `mod` names, and
folders of tests and benches count as tests.
"""
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)
      |(?P<string>\b(?:br|cr|r)(?P<hashes>\#*)".*?"(?P=hashes)|[bc]?"(?:\\.|[^"\\])*"|b?'(?:\\[^u]|\\u\{[^}]*\}|\\x..|[^\\'])')
      |(?P<code>\S)""",
    re.S | re.X,
)
TEST = re.compile(r"#\[(?:test|cfg\((?:test|(?:all|any)\(test\b[^\]]*)\)*)\]")
MODULE = re.compile(r"\s*(?:#\[[^\]]*\]\s*)*(?:pub(?:\([^)]*\))?\s+)?mod\s+(\w+)\s*;")
PUBLIC = re.compile(r"^\s*pub\s+(?:const\s+|unsafe\s+|async\s+)*(?:fn|struct|enum|trait|type|const|static|macro|mod|union)\b", re.M)
TEST_FOLDERS = {"tests", "testing", "benches", "fuzz"}
TEST_FILE = re.compile(r"tests?|testing|test_\w+|\w+_tests")


def blank(text):
    """The text and its lines' kinds: strings and comments are blanked out, so that braces in them count for nothing."""
    kinds = [set() for _ in range(text.count("\n") + 1)]
    plain = list(text)
    line, at = 0, 0
    for token in TOKEN.finditer(text):
        line += text.count("\n", at, token.start())
        at = token.start()
        kind = "comment" if token.lastgroup == "comment" else "code"
        for further in range(token.group().count("\n") + 1):
            kinds[line + further].add(kind)
        if token.group("code") is None:
            plain[token.start() : token.end()] = [c if c == "\n" else " " for c in token.group()]
    return "".join(plain), kinds


def end_of_item(plain, start):
    """The place behind the item that begins at `start`: its matching brace, or the semicolon or comma that ends it."""
    depth = 0
    for at in range(start, len(plain)):
        if plain[at] in "([{":
            depth += 1
        elif plain[at] in ")]}":
            depth -= 1
            if depth < 0 or (depth == 0 and plain[at] == "}"):
                return at + 1
        elif depth == 0 and plain[at] in ";,":
            return at + 1
    return len(plain)


def read(path):
    """Lines of code, tests and comments, and public items of a file; and the files that it names as modules of tests."""
    text = path.read_text(encoding="utf-8")
    plain, kinds = blank(text)
    tests, modules = set(), []
    home = path.parent if path.stem in ("mod", "lib", "main") else path.parent / path.stem
    for attribute in TEST.finditer(plain):
        first = plain.count("\n", 0, attribute.start())
        last = plain.count("\n", 0, end_of_item(plain, attribute.end()) - 1)
        tests.update(range(first, last + 1))
        if module := MODULE.match(plain, attribute.end()):
            modules += [home / f"{module.group(1)}.rs", home / module.group(1)]
    sizes = Counter(public=len(PUBLIC.findall(plain)))
    for number, kind in enumerate(kinds):
        if "code" in kind:
            sizes["tests" if number in tests else "code"] += 1
        elif "comment" in kind:
            sizes["comments"] += 1
    return sizes, modules


def crates():
    """Sizes by crate; the program is `src`, and what is outside of any crate are its tests."""
    files = subprocess.run(["git", "ls-files", "*.rs"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    seen = {name: read(ROOT / name) for name in files if (ROOT / name).is_file()}
    test_files = {module for _, modules in seen.values() for module in modules}
    rooms = {}
    for name, (sizes, _) in seen.items():
        path = ROOT / name
        parts = name.split("/")
        room = rooms.setdefault("/".join(parts[:2]) if parts[0] in ("crates", "examples") else parts[0], Counter())
        if TEST_FOLDERS & set(parts) or path in test_files or test_files & set(path.parents) or TEST_FILE.fullmatch(path.stem):
            sizes = Counter(tests=sizes["code"] + sizes["tests"], comments=sizes["comments"])
        room.update(sizes)
    return rooms


def dependencies():
    """Dependencies of the program and its crates that are not ours, and all that the default build compiles."""
    metadata = json.loads(subprocess.run(["cargo", "metadata", "--locked", "--format-version", "1", "--no-deps"], cwd=ROOT, capture_output=True, check=True).stdout)
    ours = {package["name"] for package in metadata["packages"]}
    direct = {d["name"] for package in metadata["packages"] for d in package["dependencies"] if d["kind"] is None} - ours
    tree = subprocess.run(["cargo", "tree", "--locked", "--edges", "normal,build", "--prefix", "none", "--format", "{p}"], cwd=ROOT, capture_output=True, text=True, check=True)
    return len(direct), len({line.split(" (")[0] for line in tree.stdout.splitlines() if not line.startswith("deadheat")})


def words():
    """Words of the documents that people read, the README included."""
    documents = [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")] + list((ROOT / "docs").rglob("*.md"))
    return sum(len(document.read_text(encoding="utf-8").split()) for document in documents)


def build_seconds():
    """Seconds of a release build from nothing."""
    with tempfile.TemporaryDirectory() as target:
        began = time.monotonic()
        subprocess.run(["cargo", "build", "--release", "--locked", "--quiet", "--target-dir", target], cwd=ROOT, check=True)
        return round(time.monotonic() - began)


def main():
    if any(argument != "--build" for argument in sys.argv[1:]):
        sys.exit("size.py: the one option is --build, which times a release build as well")
    rooms = crates()
    rooms = {**dict(sorted(rooms.items())), "**all**": sum(rooms.values(), Counter())}
    columns = ("code", "tests", "comments", "public")
    print("# The size of the house\n\nPrinted by `scripts/size.py`, which says what counts. Renew it with a change that adds or removes a capability.\n")
    print("| room | lines of code | of tests | of comments alone | public items |\n|---|--:|--:|--:|--:|")
    for room, sizes in rooms.items():
        print(f"| {room} | " + " | ".join(f"{sizes[column]:,}" for column in columns) + " |")
    direct, all_of_them = dependencies()
    print(f"\nDependencies: {direct} direct, {all_of_them} crates in the default build. Words of documents: {words():,}.")
    if "--build" in sys.argv[1:]:
        print(f"A release build from nothing: {build_seconds()} s.")


if __name__ == "__main__":
    main()
