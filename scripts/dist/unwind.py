#!/usr/bin/env python3
"""unwind.py PROGRAM: makes the tables smaller by which a panic finds its way out of a program for x86-64; no instruction changes.

A compiler says after each instruction that moves the stack where the caller's registers lie, for each function by itself. A panic asks
only where a function calls another, so only that stays, for neighbours together: objdump finds the calls. At the end the new tables are
read again, and hold at each call the same as the old ones.

Source: Linux Standard Base Core 5.0 (.eh_frame, .eh_frame_hdr), DWARF 5 (6.4), Itanium C++ ABI: exception handling (7); of the last,
what Rust's std/src/sys/personality/dwarf/eh.rs reads."""

import bisect
import os
import re
import struct
import subprocess
import sys
from collections import Counter, namedtuple

from elf import FRAMES, HEADER, LISTS, Program, expect

RETURN = 16
# A panic reads an entry from its start, so it has few functions.
MOST_FUNCTIONS = 32
# A gap between two functions that aligns the second one.
MOST_PADDING = 16
# Bytes of an entry before its instructions, with a list of clean-ups and without, and of its line in the table of addresses.
LISTED, PLAIN, LINE = 21, 17, 8
# A description has as many bytes as the instructions that it spares these entries.
FEW = 4
# An instruction that calls, whatever stands before it. The target of a jump may be named after calls.
CALL = re.compile(rb"(?:[a-z0-9.]+ )*l?callq? ")
# The caller's frame is 8 bytes above the stack pointer, and the return address right below it.
AT_START = b"\x0c\7\x08\x90\1"
# What a panic does at a call: it goes on to the caller, or ends the program; else a Pad.
GO_ON, END = "go on", "end"

# The caller's frame (`cfa`: a register and a distance), its registers (`saved`: pairs of a register and a distance from the frame), and
# the bytes of arguments on the stack.
State = namedtuple("State", "cfa saved args")
NOTHING = State(None, (), 0)
PLAINEST = State((7, 8), ((RETURN, 1),), 0)
# Where a panic goes on within a function, and the kind of what it does there: 0 cleans up, others catch it.
Pad = namedtuple("Pad", "address kind")
# Code from start to end, the address of its list of clean-ups or None, and the instructions that give its states.
Entry = namedtuple("Entry", "start end list instructions")


class Reader:
    """Numbers of a table, one after the other."""

    def __init__(self, data, at=0, end=None):
        self.data, self.at, self.end = data, at, len(data) if end is None else end

    def take(self, form):
        value, = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return value

    def uleb(self):
        value = shift = 0
        while True:
            byte = self.take("B")
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def bytes(self, count):
        self.at += count
        return self.data[self.at - count:self.at]


def uleb(value):
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def padded(body):
    return body + bytes(-len(body) % 4)


class Unwinding:
    """The tables of a program, read: its entries, and the pointers that those with lists have."""

    def __init__(self, program):
        self.program, self.data, self.pointers = program, program.data, None
        self.entries = sorted(self.read_entries(), key=lambda entry: entry.start)

    def read_entries(self):
        """The entries of .eh_frame."""
        section = self.program.sections[FRAMES]
        at, end, moved, descriptions = section.offset, section.offset + section.size, section.address - section.offset, {}
        while at < end:
            body = Reader(self.data, at + 4)
            body.end = body.at + struct.unpack_from("<I", self.data, at)[0]
            if body.end == body.at:
                return
            parent = body.at - body.take("I")
            if parent == at + 4:
                descriptions[at] = self.read_description(body)
            else:
                listed, before = descriptions[parent]
                start = moved + body.at + body.take("i")
                length = body.take("I")
                expect(body.uleb() == (4 if listed else 0), f"the entry of {start:#x} has pointers of another kind")
                address = body.take("I") if listed else None
                yield Entry(start, start + length, address or None, before + body.bytes(body.end - body.at))
            at = body.end

    def read_description(self, body):
        """Whether entries of a description have lists of clean-ups, and its instructions. LLVM writes two kinds at fixed addresses."""
        expect(body.take("B") == 1, "a description of another version")
        kind = body.bytes(self.data.index(b"\0", body.at) + 1 - body.at)
        expect((body.uleb(), body.take("B"), body.take("B")) == (1, 0x78, RETURN), "a description in other units")
        pointers = body.bytes(body.uleb())
        listed = kind == b"zPLR\0"
        if listed:
            expect(pointers[:1] + pointers[5:] == b"\3\3\x1b" and self.pointers in (None, pointers), f"pointers {pointers.hex()}")
            self.pointers = pointers
        else:
            expect((kind, pointers) == (b"zR\0", b"\x1b"), f"pointers {kind} {pointers.hex()}")
        # Behind the instructions, whose last number is none of zero, zeros fill the description.
        return listed, body.bytes(body.end - body.at).rstrip(b"\0")

    def ways(self, entry):
        """What a panic does in parts of an entry: first and last address of each, and what. Outside of them it ends the program."""
        if entry.list is None:
            return [(entry.start, entry.end - 1, GO_ON)]
        section = self.program.sections[LISTS]
        reader, found = Reader(self.data, section.offset + entry.list - section.address), []
        expect(reader.take("B") == 0xFF, f"the list at {entry.list:#x} has a base of its own")
        # Rust does not look at the types of what was thrown.
        if reader.take("B") != 0xFF:
            reader.uleb()
        expect(reader.take("B") == 1, f"the list at {entry.list:#x} is in another form")
        length = reader.uleb()
        actions = reader.at + length
        while reader.at < actions:
            first, count, pad, action = (reader.uleb() for _ in range(4))
            kind = self.data[actions + action - 1] if action else 0
            expect(kind < 0x80, f"the list at {entry.list:#x} has many types")
            way = Pad(entry.start + pad, kind) if pad else GO_ON
            found.append((entry.start + first, entry.start + first + count - 1, way))
        return found


def with_register(saved, register, distance):
    """The saved registers with this one at that distance, or without it."""
    others = [pair for pair in saved if pair[0] != register]
    return tuple(sorted(others + ([] if distance is None else [(register, distance)])))


def states(start, instructions):
    """The states of a function, each with its first address; None where an instruction is of a kind that is not known here."""
    reader, at, state, stack, found = Reader(instructions), start, NOTHING, [], []
    while reader.at < reader.end:
        code = reader.take("B")
        kind, low = code >> 6, code & 0x3F
        ahead = low if kind == 1 else reader.take({2: "B", 3: "H", 4: "I"}[code]) if code in (2, 3, 4) else None
        if ahead is not None:
            found.append((at, state))
            at += ahead
        elif kind == 2:
            state = state._replace(saved=with_register(state.saved, low, reader.uleb()))
        elif kind == 3 and low != RETURN:
            # As at the start of a function, where only the return address is saved.
            state = state._replace(saved=with_register(state.saved, low, None))
        elif code == 0x08:
            state = state._replace(saved=with_register(state.saved, reader.uleb(), None))
        elif code == 0x0A:
            stack.append(state)
        elif code == 0x0B:
            state = stack.pop()
        elif code == 0x0C:
            state = state._replace(cfa=(reader.uleb(), reader.uleb()))
        elif code == 0x0D:
            state = state._replace(cfa=(reader.uleb(), state.cfa[1]))
        elif code == 0x0E:
            state = state._replace(cfa=(state.cfa[0], reader.uleb()))
        elif code == 0x2E:
            state = state._replace(args=reader.uleb())
        elif code != 0:
            return None
    return found + [(at, state)]


def at_calls(tables, entry, places):
    """The state and the way at each of these places within an entry; None where its states are not known."""
    found, ways = states(entry.start, entry.instructions), tables.ways(entry)
    if found is None:
        return None
    firsts, parts = [first for first, _ in found], [first for first, _, _ in ways]
    out = []
    for place in places:
        part = bisect.bisect_right(parts, place) - 1
        way = ways[part][2] if part >= 0 and place <= ways[part][1] else END
        # Some readers take the states before a place alone; calls have two bytes and more.
        out.append((place, found[bisect.bisect_left(firsts, place) - 1][1], way))
    return out


def disassembled(path, starts):
    """The last byte of each instruction that calls, with which a panic asks, and those of `starts` that begin an instruction. A function
    with bytes that are no instruction counts as beginning none."""
    tool = ["objdump", "--disassemble", "--disassemble-zeroes", "--no-show-raw-insn", "--section=.text", path]
    starts, places, begun, last, calling = set(starts), [], set(), None, False
    with subprocess.Popen(tool, stdout=subprocess.PIPE, env={**os.environ, "LC_ALL": "C"}) as process:
        for line in process.stdout:
            address, colon, instruction = line.partition(b":\t")
            if not colon:
                continue
            address = int(address, 16)
            if calling:
                places.append(address - 1)
            if address in starts:
                begun.add(address)
                last = address
            calling = b"call" in instruction and CALL.match(instruction)
            if b"(bad)" in instruction:
                begun.discard(last)
    expect(process.returncode == 0 and places and not calling, f"objdump does not disassemble {path}")
    return places, begun


def within(places, entry):
    return places[bisect.bisect_left(places, entry.start):bisect.bisect_left(places, entry.end)]


def change(old, new):
    """Instructions from one state to another."""
    out = b""
    if old.cfa != new.cfa:
        same = old.cfa and old.cfa[0] == new.cfa[0]
        out += b"\x0e" + uleb(new.cfa[1]) if same else b"\x0c" + uleb(new.cfa[0]) + uleb(new.cfa[1])
    for register, distance in new.saved:
        if (register, distance) not in old.saved:
            out += bytes([0x80 | register]) + uleb(distance)
    for register in sorted({register for register, _ in old.saved} - {register for register, _ in new.saved}):
        out += b"\x08" + uleb(register)
    return out + (b"\x2e" + uleb(new.args) if old.args != new.args else b"")


def ahead(count):
    """Instructions to a later address."""
    if count < 0x40:
        return bytes([0x40 | count])
    form, code = ("B", 2) if count < 0x100 else ("H", 3) if count < 0x10000 else ("I", 4)
    return struct.pack("<B" + form, code, count)


class Group:
    """Neighbouring functions in one entry."""

    def __init__(self, start, end, functions, calls, unread=None):
        self.start, self.end, self.functions, self.calls, self.unread = start, end, functions, calls, unread
        self.listed = any(way != GO_ON for _, _, way in calls)
        self.list = self.list_body() if self.listed else b""
        self.size = LINE + len(self.list) + len(padded(bytes(LISTED if self.listed else PLAIN) + self.instructions(self.first())))

    def first(self):
        """The state with which a description begins that fits."""
        if not self.calls:
            return PLAINEST
        state = self.calls[0][1]
        return State(PLAINEST.cfa if state.cfa[0] == PLAINEST.cfa[0] else state.cfa, state.saved, 0)

    def instructions(self, state):
        """Its instructions, where its description ends in this state. The first state holds from the start: nothing asks before."""
        if self.unread is not None:
            return self.unread
        out, at = b"", self.start
        for number, (place, new, _) in enumerate(self.calls):
            step = change(state, new) if new != state else b""
            if step and number:
                out += ahead(place - 1 - at)
                at = place - 1
            out += step
            state = new
        return out

    def list_body(self):
        """Its list of clean-ups."""
        parts = []
        for place, _, way in self.calls:
            if parts and parts[-1][2] == way:
                parts[-1][1] = place
            else:
                parts.append([place, place, way])
        kinds = sorted({way.kind for _, _, way in parts if isinstance(way, Pad) and way.kind})
        out = b""
        for first, last, way in parts:
            if way != END:
                pad, kind = (way.address - self.start, way.kind) if isinstance(way, Pad) else (0, 0)
                out += uleb(first - self.start) + uleb(last - first + 1) + uleb(pad) + uleb(1 + 2 * kinds.index(kind) if kind else 0)
        return b"\xff\xff\1" + uleb(len(out)) + out + b"".join(bytes([kind, 0]) for kind in kinds)

    def joined(self, other):
        """Both in one; None where they need two, or are shorter as two."""
        fit = 0 <= other.start - self.end < MOST_PADDING and self.functions + other.functions <= MOST_FUNCTIONS
        if not fit or self.unread is not None or other.unread is not None:
            return None
        both = Group(self.start, other.end, self.functions + other.functions, self.calls + other.calls)
        return both if both.size <= self.size + other.size else None


def groups(tables, places, begun):
    """The functions of the program, joined where that is shorter, and how many stay as they are: those whose disassembly or instructions
    leave a doubt."""
    out, left = [], 0
    for entry in tables.entries:
        calls = at_calls(tables, entry, within(places, entry)) if entry.start in begun else None
        if calls is None:
            known = entry.instructions.startswith(AT_START) and entry.list is None
            expect(known, f"the function at {entry.start:#x} is of a kind that is not known here")
            group = Group(entry.start, entry.end, 1, [], entry.instructions[len(AT_START):])
            left += 1
        else:
            group = Group(entry.start, entry.end, 1, calls)
        both = out[-1].joined(group) if out else None
        if both:
            out[-1] = both
        else:
            out.append(group)
    return out, left


class Written:
    """The three tables, written from an address on: their bytes, and where each is and how long."""

    def __init__(self, pointers, entries, address):
        self.pointers, self.entries = pointers, entries
        header = address
        frames = header + 12 + LINE * len(entries)
        frames += -frames % 8
        lists = frames + len(self.frames(frames, {})[0])
        list_bytes, places = self.lists(lists)
        frame_bytes, lines = self.frames(frames, places)
        header_bytes = struct.pack("<BBBBiI", 1, 0x1B, 3, 0x3B, frames - header - 4, len(lines))
        header_bytes += b"".join(struct.pack("<ii", start - header, place - header) for start, place in lines)
        self.body = header_bytes.ljust(frames - header, b"\0") + frame_bytes + list_bytes
        self.places = {HEADER: (header, len(header_bytes)), FRAMES: (frames, len(frame_bytes)), LISTS: (lists, len(list_bytes))}

    def lists(self, address):
        """All lists of clean-ups, each once, and where each is."""
        out, places = bytearray(), {}
        for entry in self.entries:
            if entry.listed and entry.list not in places:
                places[entry.list] = address + len(out)
                out += entry.list
        return bytes(out), places

    def frames(self, address, lists):
        """.eh_frame with lists of clean-ups at these addresses, and for each entry its start and its place."""
        out, lines, descriptions = bytearray(), [], {}
        shapes = Counter((entry.listed, entry.first()) for entry in self.entries)
        for entry in self.entries:
            kind = entry.listed, entry.first()
            # A state in which a few functions begin is not worth a description.
            if shapes[kind] < FEW:
                kind = entry.listed, PLAINEST
            if kind not in descriptions:
                descriptions[kind] = len(out)
                out += record(self.description(*kind))
            place = address + len(out)
            lines.append((entry.start, place))
            body = struct.pack("<IiI", len(out) + 4 - descriptions[kind], entry.start - place - 8, entry.end - entry.start)
            body += struct.pack("<BI", 4, lists.get(entry.list, 0)) if entry.listed else b"\0"
            out += record(body + entry.instructions(kind[1]))
        return bytes(out) + bytes(4), lines

    def description(self, listed, state):
        kind, pointers = (b"zPLR", self.pointers) if listed else (b"zR", b"\x1b")
        return struct.pack("<IB", 0, 1) + kind + b"\0\1\x78\x10" + uleb(len(pointers)) + pointers + change(NOTHING, state)


def record(body):
    """An entry or a description, with its length."""
    body = padded(body)
    return struct.pack("<I", len(body)) + body


def compare(old, new, places):
    """Holds the new tables to the old ones: at each call the same state and the same way."""
    entries = iter(new.entries)
    entry, calls = next(entries), None
    for function in old.entries:
        while entry.end <= function.start:
            entry, calls = next(entries), None
        expect(entry.start <= function.start and function.end <= entry.end, f"the function at {function.start:#x} is gone")
        before = at_calls(old, function, within(places, function))
        if before is None:
            same = entry.instructions.startswith(function.instructions)
        else:
            calls = calls or {place: rest for place, *rest in at_calls(new, entry, within(places, entry))}
            same = all(calls[place] == rest for place, *rest in before)
        expect(same, f"at a call of the function at {function.start:#x} a panic would find something else")


def main():
    path = sys.argv[1]
    program = Program(path)
    old = Unwinding(program)
    places, begun = disassembled(path, [entry.start for entry in old.entries])
    entries, left = groups(old, places, begun)
    written = Written(old.pointers, entries, program.sections[HEADER].address)
    result = path + ".short"
    with open(result, "wb") as file:
        file.write(program.replaced(written.body, written.places))
    compare(old, Unwinding(Program(result)), places)
    os.chmod(result, os.stat(path).st_mode)
    os.replace(result, path)
    before = sum(program.sections[name].size for name in written.places)
    after = sum(size for _, size in written.places.values())
    said = f"{len(old.entries)} functions in {len(entries)} entries, {left} as they were; {before} bytes of tables are {after}"
    print(f"unwind.py: {said}", file=sys.stderr)


if __name__ == "__main__":
    main()
